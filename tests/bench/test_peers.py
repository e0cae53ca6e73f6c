"""Tests of what comparisons show besides this package's kernels: other libraries, and the CPU."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest

from tiledmm.bench import peers
from tiledmm.bench.comparison_tables import comparison_table
from tiledmm.bench.results import BASELINE, Comparison, Row
from tiledmm.elements import ELEMENTS


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_the_triple_loop_multiplies(dtype):
    rng = np.random.default_rng(0)
    a, b = rng.integers(-9, 10, (7, 5)).astype(dtype), rng.integers(-9, 10, (5, 3)).astype(dtype)
    c = peers.triple_loop(a, b)
    assert c.dtype == dtype
    np.testing.assert_array_equal(c, a @ b)


def test_the_cpu_multiplies_by_numpy_and_small_products_by_hand():
    a = np.ones((8, 8), np.float32)
    (numpy_name, numpy_call), (loop_name, loop) = peers.cpu_matmuls(a, a).items()
    assert numpy_name.startswith("numpy, ") and loop_name == "triple loop"
    for call in (numpy_call, loop):
        np.testing.assert_array_equal(call(0), a @ a)
    large = np.broadcast_to(np.float32(1), (2048, 2048))
    assert "triple loop" not in peers.cpu_matmuls(large[:256], large[:, :256])


def test_what_would_take_long_is_left_out(monkeypatch):
    monkeypatch.setattr(peers, "_seconds", lambda a, b: 1.0)
    a = np.ones((256, 4), np.float32)
    (said, *_) = peers.cpu_matmuls(a, a.T).values()
    assert said == "left out: it would take 16 seconds"


def test_a_library_that_does_not_work_says_so(monkeypatch):
    def fail(sets, kind):
        raise OSError("no libcudart\nin any folder")

    broken, working = types.ModuleType("broken"), types.ModuleType("working")
    broken.matmuls = fail
    working.matmuls = lambda sets, kind: {f"theirs of {kind.name}": len}
    monkeypatch.setitem(sys.modules, "tiledmm.bench.peers.json_", broken)
    monkeypatch.setitem(sys.modules, "tiledmm.bench.peers.csv_", working)
    found = peers.matmuls_of_libraries(("json", "csv", "not_installed_anywhere"), [], ELEMENTS["float32"])
    assert found == {"json": "OSError: no libcudart", "theirs of f32": len}


def test_peers_fail_nothing():
    rows = (Row("naive", ok=True, error=1e-7), Row(BASELINE), Row("torch.mm", peer=True, error=1.0))
    found = Comparison(8, 8, 8, "float32", "NN", 1e-5, 1, rows)
    assert found.ok
    table = comparison_table(found)
    assert not table.bad
    assert any("torch.mm" in note for note in table.notes)
