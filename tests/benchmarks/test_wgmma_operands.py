"""Tests of the model of where wgmma reads its operands: it has each place that a GPU read."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.studies.wgmma_operands import RECORDED, chunks, descriptors, places, source


@pytest.mark.parametrize("operand", ["A/K", "A/MN", "B/K", "B/MN"])
def test_the_model_has_the_places_that_a_gpu_read(operand):
    mn_major = operand.endswith("MN")
    with np.load(RECORDED) as recorded:
        given, expected = recorded[f"{operand}/descriptors"], recorded[f"{operand}/chunks"]
    found = chunks(np.stack([places(int(each), mn_major) for each in given]), mn_major)
    np.testing.assert_array_equal(found, expected)


def test_operands_end_before_the_unit_matrix():
    for mn_major in (False, True):
        for each in descriptors(np.random.default_rng(0)):
            assert places(int(each), mn_major).max() < 200 * 1024


def test_an_instruction_is_named_by_its_shape():
    assert "m64n16k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, 1, 1, 1, 1, 0;" in source(True, True)
    assert "{%32, %33, %34, %35}, %36, 1, 1, 1, 0;" in source(False, False)
