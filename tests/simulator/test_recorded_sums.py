"""Tests that the simulator's tensor cores give each bit that a GPU gave: subnormals, infinities and NaN included."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.studies.wgmma_sums import DATA, KINDS, MMA_SOURCE, RECORDED, has_mma, options
from tests.conftest import missing_simulator
from tiledmm import simulator

pytestmark = pytest.mark.skipif(bool(missing_simulator()), reason=str(missing_simulator()))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if has_mma(kind[1])], ids=" ".join)
def test_mma_sync_has_the_bits_that_a_gpu_gave(kind):
    text = MMA_SOURCE
    for macro in options(*kind, MMA_SOURCE)[1:]:  # inline PTX is translated before macros are expanded
        name, _, value = macro.removeprefix("-D").partition("=")
        text = text.replace(" MORE" if name == "MORE" else name, value)
    text = text.replace('" "', "")
    part = np.uint16 if kind[0] == "f16" else np.uint32
    with np.load(RECORDED) as recorded:
        for data in DATA:
            a, b, c, expected = (recorded["/".join((*kind, data, name))] for name in "ABCD")
            result = np.zeros_like(c)
            simulator.launch(text, 1, 128, (a, b, c, result)).check()
            np.testing.assert_array_equal(result.view(part), expected.view(part), err_msg=data)
