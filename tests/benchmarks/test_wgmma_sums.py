"""Tests of the model of wgmma's arithmetic: it has each bit of the results that a GPU gave."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.studies.wgmma_sums import DATA, KINDS, RECORDED, options, sum_of_products


@pytest.fixture(scope="module")
def recorded():
    with np.load(RECORDED) as file:
        return dict(file)


@pytest.mark.parametrize("kind", KINDS, ids=" ".join)
def test_the_model_has_the_bits_that_a_gpu_gave(recorded, kind):
    part = np.uint16 if kind[0] == "f16" else np.uint32
    for data in DATA:
        a, b, c, expected = (recorded["/".join((*kind, data, name))] for name in "ABCD")
        np.testing.assert_array_equal(sum_of_products(*kind, a, b, c).view(part), expected.view(part), err_msg=data)


def test_an_instruction_is_named_by_its_types():
    assert any("m64n8k32.s32.s8.s8.satfinite " in option for option in options("s32.satfinite", "s8", "s8"))
    assert any("m64n8k8.f32.tf32.tf32 " in option for option in options("f32", "tf32", "tf32"))
