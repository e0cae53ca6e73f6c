from __future__ import annotations

import pytest

from benchmarks.bank_conflicts import METRICS, conflicts_table, parse

HEADER = ["ID", "Process ID", "Kernel Name", *METRICS.values()]


def ncu_output(*kernels: list[str]) -> str:
    units = ["", "", "", *("inst" for _ in METRICS)]
    lines = [",".join(f'"{cell}"' for cell in row) for row in (HEADER, units, *kernels)]
    return "==PROF== Connected to process 7\n==PROF== Profiling\n" + "\n".join(lines) + "\n"


def test_counts_are_read_from_what_ncu_prints():
    output = ncu_output(["0", "7", "tiledmm_x", "4,194,304", "8,388,608", "10", "20", "8,388,628", "4,194,314"])
    assert parse(output) == [
        {
            "symbol": "tiledmm_x",
            "loads": 4_194_304,
            "load_wavefronts": 8_388_608,
            "stores": 10,
            "store_wavefronts": 20,
            "wavefronts": 8_388_628,
            "ideal_wavefronts": 4_194_314,
        }
    ]


def test_a_metric_that_ncu_does_not_have_is_an_error():
    with pytest.raises(ValueError, match="smsp__sass_inst_executed_op_shared_ld"):
        parse(ncu_output(["0", "7", "tiledmm_x", "(!) n/a", "1", "1", "1", "1", "1"]))


def test_output_without_a_table_has_no_kernels():
    assert parse("==PROF== nothing\n") == []


def test_the_table_is_per_multiply_add_of_a_warp():
    warp_wide = 512**3 // 32
    row = dict.fromkeys(METRICS, warp_wide) | {"variant": "tiled", "tile": 32, "layout": "NT"}
    row |= {"load_wavefronts": 8 * warp_wide, "wavefronts": 9 * warp_wide, "ideal_wavefronts": 3 * warp_wide}
    assert conflicts_table([row]).rows == (("tiled", "32", "NT", "1.00", "8.00", "1.00", "9.00", "3.00"),)
