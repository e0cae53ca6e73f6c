"""Tests that the counts in the documents match the simulator and the roofline model."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks import counts
from tiledmm import simulator
from tiledmm.errors import MissingDependencyError
from tiledmm.kernels.variants import kernel_spec
from tiledmm.report.inner_loops import wavefronts_per_multiply_add

KERNELS = json.loads(counts.RESULTS.read_text(encoding="utf-8"))["kernels"]
QUICK = ("tiny",)
ONE_OF_EACH = {row["variant"]: row for row in KERNELS if row["layout"] == "NT"}


def test_counts_are_those_of_variants_in_ladder_order():
    counted = list(dict.fromkeys(row["variant"] for row in KERNELS))
    assert counted == [name for name in counts.COUNTED if name in counted]


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, marks=() if name in QUICK else pytest.mark.full, id=row["symbol"])
        for name, row in ONE_OF_EACH.items()
    ],
)
def test_the_counts_are_the_simulators(row):
    try:
        found = counts.counted(row["variant"], row["tile"], row["layout"])
    except MissingDependencyError as error:
        pytest.skip(f"accesses are vectorized as in the machine code: {error}")
    assert found.keys() == row.keys()
    for name, value in row.items():
        expected = pytest.approx(value) if isinstance(value, float) else value
        assert found[name] == expected, f"{name}: python -m benchmarks.counts counts again"


def keeps_tiles(row):
    """Return whether a kernel's loads from shared memory are mostly of tiles of A and B."""
    spec = kernel_spec(row["variant"], tile=row["tile"])
    return spec.config.stages and not spec.variant.hopper.warpgroup


@pytest.mark.parametrize("tile", [64, 128])
def test_the_roofline_works_out_what_wgmma_reads(tile):
    x = np.ones((256, 256), "f2")
    _, report = simulator.run(x, x.T.copy(), variant="wgmma", tile=tile, checks=False)
    spec = kernel_spec("wgmma", tile=tile, layout="NN")
    counted = report.source.wgmma.wavefronts / (report.multiply_adds / 32)
    assert wavefronts_per_multiply_add(spec, 256, 256, 256) == pytest.approx(counted)


@pytest.mark.parametrize("row", list(filter(keeps_tiles, KERNELS)), ids=lambda row: row["symbol"])
def test_the_roofline_works_out_what_is_counted(row):
    spec = kernel_spec(row["variant"], tile=row["tile"], layout=row["layout"])
    # The roofline is the mainloop's; tensor_core's epilogue reads C from shared memory, 128 bytes a wavefront, except
    # for skinny tiles, which write it from registers.
    direct = not spec.variant.operands.is_ieee or spec.variant.reads.few_rows(spec.config)
    rearranged = spec.variant.tensor_cores and not direct
    epilogue = 32 * spec.c.itemsize / 128 / row["product"][-1] if rearranged else 0
    # split_tensor_core also reads there, at its beginning and its end, which tile of C it computes. CUDA-core kernels
    # with warp tiles also read, at the end of K, the fragments of a step that does not exist.
    beyond = 1 / row["product"][-1] if spec.config.wm and not spec.variant.tensor_cores else 0
    rel = 0.05 if row["variant"] == "split_tensor_core" else 1e-6 + beyond
    assert wavefronts_per_multiply_add(spec, 256, 256, 256) + epilogue == pytest.approx(row["load wavefronts"], rel=rel)


def test_lanes_that_skip_an_iteration_rejoin_the_others_at_the_next_place_that_all_come_to():
    text = """
    __global__ void kernel(const float* x, float* y) {
        __shared__ float s[4][32];
        for (int i = 0; i < 4; ++i) {
            float value = 0;
            if ((threadIdx.x + i) % 4) value = x[32 * i + threadIdx.x];
            s[i][threadIdx.x] = value;
        }
        y[threadIdx.x] = s[0][threadIdx.x];
    }
    """
    x, y = np.ones(128, np.float32), np.zeros(32, np.float32)
    loads = simulator.launch(text, 1, 32, (x, y)).source.global_load
    assert (loads.requests, loads.lanes, loads.sectors) == (4, 96, 16)
