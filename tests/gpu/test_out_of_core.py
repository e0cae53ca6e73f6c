"""Tests of ``tiledmm.out_of_core.matmul`` on a GPU: exact products within small limits, and an interrupted one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cupy
import cupyx
import numpy as np
import pytest

from tests.strategies import small_integers
from tiledmm import out_of_core
from tiledmm.distributed import cuda_device, streaming
from tiledmm.errors import ConfigError, KeywordError

#: Bytes: each of A, B and C takes about a third of it, or more.
LIMIT = 64 << 20
M, N, K = 3000, 2500, 2000


@pytest.fixture
def pool() -> Iterator[Any]:
    """Replace CuPy's pool by one with a limit, and check that products stayed within it."""
    made = cupy.cuda.MemoryPool()
    made.set_limit(size=LIMIT)
    with cupy.cuda.using_allocator(made.malloc):
        yield made
    assert 0 < made.total_bytes() <= LIMIT
    made.free_all_blocks()


def operands(dtype: str, m: int = M, n: int = N, k: int = K) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(90)
    return small_integers(rng, (m, k), dtype, 3), small_integers(rng, (k, n), dtype, 3)


def product_of(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Compute the product in floats that hold it exactly and that BLAS multiplies."""
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    return (a.astype(wide) @ b.astype(wide)).astype(a.dtype)


def page_locked(x: np.ndarray, order: str = "C") -> Any:
    made = cupyx.empty_pinned(x.shape, x.dtype, order)
    made[...] = x
    return made


@pytest.mark.parametrize("k", [K, 3 * K], ids=["tiles", "steps"])
@pytest.mark.parametrize("dtype", out_of_core.TYPES)
def test_every_type_within_a_limit(dtype: str, k: int, pool: Any) -> None:
    a, b = operands(dtype, k=k)
    counts: list[tuple[int, int]] = []
    found = out_of_core.matmul(a, b, memory=LIMIT, progress=lambda *each: counts.append(each))
    np.testing.assert_array_equal(found, product_of(a, b))
    assert counts[-1] == (counts[0][1],) * 2 and (counts[0][1] > 1 or k > K)


@pytest.mark.parametrize("precision", ["ieee", "full"])
@pytest.mark.parametrize("layouts", ["NTN", "TNT", "GGG"])
def test_layouts_and_sizes_that_are_odd(layouts: str, precision: Any, pool: Any) -> None:
    a, b = operands("float32", 2999, 2501, 2003)
    laid = {"N": np.ascontiguousarray, "T": np.asfortranarray, "G": lambda x: np.repeat(x, 2, axis=1)[::-1, ::2]}
    left, right = laid[layouts[0]](a), laid[layouts[1]](b)
    out = laid[layouts[2]](np.full((2999, 2501), np.nan, np.float32))
    assert out_of_core.matmul(left, right, out, memory=LIMIT, precision=precision) is out
    np.testing.assert_array_equal(out, product_of(left, right))


@pytest.mark.parametrize("order", ["C", "F"])
def test_page_locked_memory_is_copied_from_directly(order: str, pool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = (page_locked(x, order) for x in operands("float32"))
    out = page_locked(np.full((M, N), np.nan, np.float32), order)
    assert cuda_device.Device().is_page_locked(a) and not cuda_device.Device().is_page_locked(np.ones((2, 2)))
    monkeypatch.setattr(streaming, "_Staging", None)
    out_of_core.matmul(a, b, out, memory=LIMIT)
    np.testing.assert_array_equal(out, product_of(a, b))
    part = page_locked(np.zeros((M, N + 64), np.float32))[:, 32 : 32 + N]
    out_of_core.matmul(a, b, part, memory=LIMIT)
    np.testing.assert_array_equal(part, out)


def test_without_a_limit_and_on_a_stream() -> None:
    a, b = operands("float32")
    with cupy.cuda.Stream(non_blocking=True):
        np.testing.assert_array_equal(out_of_core.matmul(a, b), product_of(a, b))


def test_the_same_bits_on_each_run_and_a_small_error(pool: Any) -> None:
    rng = np.random.default_rng(91)
    a, b = (rng.standard_normal(shape, dtype=np.float32) for shape in ((M, K), (K, N)))
    first, second = (out_of_core.matmul(a, b, memory=LIMIT) for _ in range(2))
    assert first.tobytes() == second.tobytes()
    error = abs(first - a.astype("f8") @ b.astype("f8")) / (abs(a).astype("f8") @ abs(b).astype("f8"))
    assert error.max() < 1e-5


def test_a_product_that_is_interrupted_goes_on(pool: Any, tmp_path: Path) -> None:
    rng, limit = np.random.default_rng(92), LIMIT // 4  # many tiles on any GPU
    for name, shape in (("a", (M, K)), ("b", (K, N))):
        np.save(tmp_path / f"{name}.npy", rng.standard_normal(shape, dtype=np.float32))
    a, b = (np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "ab")
    expected = out_of_core.matmul(a, b, memory=limit)
    out = np.lib.format.open_memmap(tmp_path / "c.npy", "w+", np.float32, (M, N))
    journal = tmp_path / "c.journal"

    def interrupt(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        out_of_core.matmul(a, b, out, memory=limit, progress=interrupt, journal=journal)
    del out
    finished = len(journal.read_text().splitlines()) - 1
    assert finished >= 2
    out = np.load(tmp_path / "c.npy", mmap_mode="r+")
    with pytest.raises(ConfigError, match=r"\bb\b"):
        out_of_core.matmul(a, np.asarray(b) + 1, out, memory=limit, journal=journal)
    counts: list[tuple[int, int]] = []
    out_of_core.matmul(a, b, out, memory=limit, progress=lambda *each: counts.append(each), journal=journal)
    assert counts[0][0] == finished and counts[-1][0] == counts[-1][1] > finished
    assert out.tobytes() == expected.tobytes()


def test_limits_that_are_too_small_and_arrays_on_the_device() -> None:
    a, b = operands("float32", 300, 200, 100)
    with pytest.raises(ConfigError, match=r"memory=1,000 .*\d,\d{3}"):
        out_of_core.matmul(a, b, memory=1000)
    with pytest.raises(TypeError, match=r"tiledmm\.matmul"):
        out_of_core.matmul(cupy.asarray(a), b)
    with pytest.raises(KeywordError, match="memmap"):
        out_of_core.matmul(a, b, journal="never.journal")
