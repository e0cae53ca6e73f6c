"""Tests of products of matrices in host memory, on the stand-in device ``tests.host_device``. Needs no CuPy."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import slow_unless
from tests.host_device import HostDevice
from tests.strategies import PROPERTY, small_integers
from tiledmm import out_of_core
from tiledmm.distributed import journal as journals
from tiledmm.distributed import streaming, tiling_choice
from tiledmm.distributed.journal import Journal, fingerprint
from tiledmm.distributed.tiling import Matrices, Tiling, device_bytes
from tiledmm.distributed.tiling_choice import cost, tiling_within
from tiledmm.errors import (
    ConfigError,
    KeywordTypeError,
    KeywordValueError,
    MissingDependencyError,
    OperandTypeError,
    ShapeError,
    UnsupportedTypeError,
)

TYPES = out_of_core.TYPES
LAYOUTS = ("rows", "columns", "reversed", "every other", "broadcast", "page-locked", "page-locked columns")


def laid_out(values: np.ndarray, layout: str, device: HostDevice) -> np.ndarray:
    """Copy values to an array with a layout; a broadcast one has the first row everywhere."""
    m, n = values.shape
    match layout:
        case "columns":
            return np.asfortranarray(values)
        case "reversed":
            return np.ascontiguousarray(values[::-1, ::-1])[::-1, ::-1]
        case "every other":
            whole = np.zeros((2 * m, 3 * n), values.dtype)
            whole[::2, ::3] = values
            return whole[::2, ::3]
        case "broadcast":
            return np.broadcast_to(values[:1], values.shape)
        case "page-locked":
            whole = device.lock(np.zeros((m, n + 5), values.dtype))
            whole[:, 2:-3] = values
            return whole[:, 2:-3]
        case "page-locked columns":
            return device.lock(np.asfortranarray(values))
        case _:
            return values


def wide_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Compute a product exactly for integers, and rounded once for float16."""
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    return (a.astype(wide) @ b.astype(wide)).astype(a.dtype)


def small_units(monkeypatch: pytest.MonkeyPatch, staging: int = 700) -> None:
    """Make tiles and staging buffers so small that small matrices have many."""
    monkeypatch.setattr(tiling_choice, "_SMALL", (2, 4, 8))
    monkeypatch.setattr(tiling_choice, "UNIT", 16)
    monkeypatch.setattr(tiling_choice, "STEP_BYTES", 10)
    monkeypatch.setattr(streaming, "STAGING_BYTES", staging)


sizes = st.integers(1, 40)


@settings(PROPERTY, max_examples=20)
@given(
    sizes, sizes, sizes, st.sampled_from(TYPES), st.tuples(*3 * [st.sampled_from(LAYOUTS)]), st.integers(0, 10**6),
    st.sampled_from((0.0, 0.3, 0.9)), st.integers(10, 1500), st.integers(4000, 60_000),
)  # fmt: skip
def test_any_product_within_any_limit(
    m: int, n: int, k: int, dtype: str, layouts: tuple[str, str, str], seed: int, eager: float, staging: int, limit: int
) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        small_units(monkeypatch, staging)
        device = HostDevice(seed, eager=eager).install(monkeypatch)
        rng = np.random.default_rng(seed)
        a = laid_out(small_integers(rng, (m, k), dtype, 9), layouts[0], device)
        b = laid_out(small_integers(rng, (k, n), dtype, 9), layouts[1], device)
        empty = np.full((m, n), 77, dtype)
        out = laid_out(empty, layouts[2] if layouts[2] != "broadcast" else "rows", device)
        device.most = limit
        told: list[tuple[int, int]] = []
        try:
            found = out_of_core.matmul(a, b, out, memory=limit, progress=lambda *counts: told.append(counts))
        except ConfigError as error:
            device.most = least = int(str(error).partition("needs ")[2].split()[0].replace(",", ""))
            assert least > limit
            found = out_of_core.matmul(a, b, out, memory=least, progress=lambda *counts: told.append(counts))
            with pytest.raises(ConfigError, match=f"{least:,}"):
                out_of_core.matmul(a, b, out, memory=least - 1)
        assert found is out
        np.testing.assert_array_equal(found, wide_product(a, b))
        assert told == [(done, told[0][1]) for done in range(told[0][1] + 1)]
        assert device.is_closed and all(each.done for each in device.operations)


STRIDED = {
    "some elements": lambda x: x[:40:2, :60:3], "backward": lambda x: x[19::-1, 19::-1],
    "up": lambda x: x[19::-1, :20], "one row for all": lambda x: np.broadcast_to(x[:1, :20], (20, 20)),
    "rows that overlap": lambda x: np.lib.stride_tricks.as_strided(x, (20, 20), (12, 4)),
    "far apart": lambda x: x[:20, :20],
    "every other": lambda x: np.lib.stride_tricks.as_strided(x, (10, 10), (120, 12)),
}  # fmt: skip


@pytest.mark.parametrize("name", STRIDED)
@pytest.mark.parametrize("turned", [False, True])
def test_page_locked_rows_that_no_copy_takes(name: str, turned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check page-locked rows that are not contiguous, overlap, or are too far apart for two-dimensional copies."""
    small_units(monkeypatch)
    device = HostDevice().install(monkeypatch)
    monkeypatch.setattr(streaming, "_MOST_PITCH", 200)
    values = small_integers(np.random.default_rng(8), (40, 60), "float32", 9)
    x, out = (STRIDED[name](device.lock(each)) for each in (values, np.zeros((40, 60), np.float32)))
    x, out = (x.T, out.T) if turned else (x, out)
    check = device._check_copy

    def check_pitch(rows: np.ndarray, host: np.ndarray) -> None:
        assert host.shape[0] == 1 or host.strides[0] <= 200, "too far apart"
        check(rows, host)

    monkeypatch.setattr(device, "_check_copy", check_pitch)
    result = None if name in ("one row for all", "rows that overlap") else out
    found = out_of_core.matmul(x, x, result)
    np.testing.assert_array_equal(found, wide_product(x, x))


def test_float16_is_rounded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    small_units(monkeypatch)
    device = HostDevice().install(monkeypatch)
    a, b = (np.random.default_rng(4).integers(1, 16, shape).astype(np.float16) for shape in ((60, 200), (200, 60)))
    counts: list[int] = []
    found = out_of_core.matmul(a, b, memory=12_000, progress=lambda done, total: counts.append(total))
    assert device.products >= 3 * counts[0]
    np.testing.assert_array_equal(found, wide_product(a, b))
    rounded = np.zeros_like(found)
    for begin in range(0, 200, 16):
        rounded += wide_product(a[:, begin : begin + 16], b[begin : begin + 16])
    assert (rounded != found).any(), "otherwise this shows nothing"


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
@pytest.mark.parametrize("layouts", ["NNN", "TNT"])
def test_float16_of_any_number_of_steps_is_rounded_once(
    steps: int, layouts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = HostDevice().install(monkeypatch)
    monkeypatch.setattr(streaming, "tiling_within", lambda matrices, *_: Tiling(matrices, 32, 16, 64, 2, 2))
    rng = np.random.default_rng(steps)
    a, b = (rng.integers(1, 16, shape).astype(np.float16) for shape in ((60, 64 * steps - 5), (64 * steps - 5, 40)))
    a, b, out = (laid_out(x, {"N": "rows", "T": "columns"}[layout], device)
                 for x, layout in zip((a, b, np.zeros((60, 40), np.float16)), layouts, strict=True))  # fmt: skip
    np.testing.assert_array_equal(out_of_core.matmul(a, b, out), wide_product(a, b))
    assert device.products == 6 * steps


@settings(PROPERTY, max_examples=100)
@given(sizes, sizes, sizes, sizes, sizes, sizes)
def test_every_kind_of_product_is_known_before(m: int, n: int, k: int, rows: int, cols: int, depth: int) -> None:
    tiling = Tiling(Matrices(m, n, k, 2, 4), min(rows, m), min(cols, n), min(depth, k))

    def part(size: int, whole: int, number: int) -> int:
        return min(whole, size - number * whole)

    computed = set()
    for i, j in itertools.product(*map(range, tiling.grid)):
        for step in range(tiling.steps):
            for depth in {0, tiling.steps - 1, min(1, tiling.steps - 1)}:  # tiles are computed to and fro
                shape = part(m, tiling.rows, i), part(n, tiling.cols, j), part(k, tiling.depth, depth)
                computed.add((shape, step == 0, step == tiling.steps - 1))
    known = list(tiling.products())
    assert {*known} == computed and len(known) == len(computed)
    assert known[0][0] == (tiling.rows, tiling.cols, tiling.depth)


@settings(PROPERTY, max_examples=15)
@given(
    st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 10**6), st.sampled_from((2, 4, 8, 16)),
    st.sampled_from(("NNN", "TNT", "NTN", "TTN")), st.integers(2 * 10**5, 10**11), st.integers(0, 9),
)  # fmt: skip
def test_tiles_keep_the_limit_and_cover_c(
    m: int, n: int, k: int, itemsize: int, layouts: str, limit: int, limbs: int
) -> None:
    matrices = Matrices(m, n, k, itemsize, max(itemsize, 4), layouts)

    def workspace(tiling: Tiling, shape: tuple[int, int, int], first: bool, last: bool) -> int:
        return limbs * (shape[0] + shape[1]) * shape[2]

    found = tiling_within(matrices, limit, workspace)
    assert device_bytes(found, workspace) <= limit
    assert found == tiling_within(matrices, limit, workspace)
    (down, across), steps = found.grid, found.steps
    assert (down - 1) * found.rows < m <= down * found.rows and (across - 1) * found.cols < n <= across * found.cols
    assert (steps - 1) * found.depth < k <= steps * found.depth
    assert min(2, down * steps) <= found.a_slots and min(2, across * steps) <= found.b_slots
    for edge, size in ((found.rows, m), (found.cols, n), (found.depth, k)):
        assert edge == size or edge % (256 if edge >= 256 else 16) == 0
    numbers = range(min(found.tiles, 500))
    order = [found.tile(number) for number in numbers]
    assert len({*order}) == len(order) and all(i < down and j < across for i, j in order)
    for number in numbers[1:]:
        (i, j), (before_i, before_j) = order[number], order[number - 1]
        assert (i == before_i) + (j == before_j) == 1, "one panel is there"
        if steps < 200:
            assert sorted(found.depths(number)) == [*range(steps)]
            assert found.depths(number)[0] == found.depths(number - 1)[-1]


def test_large_tiles() -> None:
    none = lambda *_: 0  # noqa: E731
    square = Matrices(65536, 65536, 65536, 4, 4)
    found = tiling_within(square, 16 * 10**9, none)
    assert found.by_rows and found.a_slots >= found.steps, "panels of A are kept"
    assert found.results == 2, "one is copied back while the next is computed"
    assert 4 * (found.rows * found.cols + found.depth * (found.rows + found.cols)) < 10**10, "little is not covered"
    assert found.steps <= 4, "C is read and written seldom"
    found = tiling_within(square, 10**11, none)
    assert found.rows == found.cols <= 32768, "the last copy back is not of all of C"
    assert found.a_slots == found.steps + 1 and found.b_slots == found.grid[1] * found.steps, (
        "each panel is copied once"
    )
    found = tiling_within(Matrices(3000, 2500, 2000, 4, 4), 32 << 20, none)
    assert found.rows % 256 == found.cols % 256 == found.depth % 256 == 0
    assert found.tiles * found.steps < 20, "a step has to take longer than the host needs for it"
    narrow = tiling_within(Matrices(64, 10**7, 1000, 4, 4), 10**9, none)
    assert narrow.rows == 64 and narrow.cols > 32768
    by_columns = tiling_within(Matrices(10**6, 4 * 10**4, 10**4, 8, 8), 10**9, none)
    assert not by_columns.by_rows, "B is the smaller one to copy again and again"


@pytest.mark.parametrize(
    ("m", "n", "k", "limit", "share"),
    [
        pytest.param(*sizes, share, marks=slow_unless(i == j))
        for i, sizes in enumerate([(65536, 65536, 65536, 16), (20000, 20000, 20000, 1), (9000, 70001, 40000, 4)])
        for j, share in enumerate((0.5, 1, 4))
    ],
)
def test_few_tilings_are_asked_for_their_workspace(m: int, n: int, k: int, limit: int, share: float) -> None:
    """Check that few tilings are queried, which is slow, and that the result costs about as much as the best."""
    matrices, asked = Matrices(m, n, k, 4, 4), set()

    def workspace(tiling: Tiling, shape: tuple[int, int, int], first: bool, last: bool) -> int:
        asked.add((tiling.rows, tiling.cols, tiling.depth))
        return int(share * 4 * (shape[0] + shape[1]) * shape[2])

    limit *= 10**9
    found = tiling_within(matrices, limit, workspace)
    assert len(asked) < 50
    fitting = [(each, limit - device_bytes(each, workspace)) for each in tiling_choice._tilings(matrices)]
    best = min(cost(tiling_choice._with_spare(each, spare)) for each, spare in fitting if spare >= 0)
    assert cost(found) <= 1.1 * best


def test_the_next_panels_are_copied_while_a_product_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    small_units(monkeypatch, staging=1 << 20)
    device = HostDevice().install(monkeypatch)
    rng = np.random.default_rng(1)
    a, b = (device.lock(small_integers(rng, (60, 60), "float32")) for _ in range(2))
    out = device.lock(np.empty((60, 60), np.float32))
    out_of_core.matmul(a, b, out, memory=16_000)
    numbers = {
        name: [number for number, each in enumerate(device.operations) if each.name == name]
        for name in ("in", "product", "out")
    }
    assert len(numbers["out"]) > 3 and len(numbers["product"]) > len(numbers["out"])
    waited = {number: device.ancestors(device.operations[number].after) for number in range(len(device.operations))}
    for copy in numbers["in"]:
        earlier = [product for product in numbers["product"] if product < copy]
        assert not earlier or earlier[-1] not in waited[copy], "it overlaps the product before"
        assert not waited[copy] & {*numbers["out"]}
    for product in numbers["product"]:
        assert not waited[product] & {*numbers["out"]}, "the host orders these"


@pytest.mark.parametrize("locked", [False, True])
def test_panels_that_are_there_are_not_copied_again(locked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    small_units(monkeypatch, staging=1 << 20)
    device = HostDevice().install(monkeypatch)
    rng = np.random.default_rng(2)
    a, b = (small_integers(rng, (64, 64), "float32") for _ in range(2))
    if locked:
        a, b = device.lock(a), device.lock(b)
    found = out_of_core.matmul(a, b)
    np.testing.assert_array_equal(found, a @ b)
    assert device.products > 4
    assert device.copied == a.nbytes + b.nbytes, "each panel once"


@pytest.mark.parametrize("shape", [(0, 5, 4), (5, 0, 4), (5, 4, 0), (0, 0, 0)])
def test_empty_products_need_no_device(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    out = np.full((m, n), 5, np.float64)
    assert out_of_core.matmul(np.ones((m, k)), np.ones((k, n)), out) is out
    assert out.shape == (m, n) and not out.any()
    assert out_of_core.matmul(np.ones((m, k)), np.ones((k, n))).shape == (m, n)


# Journals


class Job:
    """A product in files, with many tiles and rounded numbers."""

    shape = 50, 45, 90

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, dtype: str = "float32") -> None:
        small_units(monkeypatch)
        monkeypatch.setattr(os, "fsync", lambda file: None)  # thousands of them take a busy disk a minute
        self.folder, self.monkeypatch, self.seed = folder, monkeypatch, 0
        self.limit = 2250 * max(np.dtype(dtype).itemsize, 4)
        m, n, k = self.shape
        rng = np.random.default_rng(3)
        self.a, self.b = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
        self.journal, self.file = folder / "c.journal", folder / "c.npy"
        np.save(self.file, np.zeros((m, n), dtype))

    @property
    def out(self) -> Any:
        return np.load(self.file, mmap_mode="r+")

    @property
    def lines(self) -> list[bytes]:
        return self.journal.read_bytes().splitlines()

    def device(self) -> HostDevice:
        self.seed += 1
        return HostDevice(self.seed).install(self.monkeypatch)

    def run(self, **keywords: Any) -> HostDevice:
        device = self.device()
        given = {"memory": self.limit, "journal": self.journal, "a": self.a, "b": self.b, **keywords}
        a, b, out = given.pop("a"), given.pop("b"), given.pop("out", None)
        out_of_core.matmul(a, b, self.out if out is None else out, **given)
        return device

    def refuses(self, match: str, error: type[Exception] = ConfigError, **keywords: Any) -> None:
        before = self.journal.read_bytes(), self.file.read_bytes()
        with pytest.raises(error, match=match):
            self.run(**keywords)
        assert (self.journal.read_bytes(), self.file.read_bytes()) == before


def stop_at(number: int) -> Any:
    def told(done: int, total: int) -> None:
        if done == number:
            raise KeyboardInterrupt

    return told


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    return Job(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    "dtype", ["float32", *(pytest.param(x, marks=pytest.mark.slow) for x in ("float16", "complex128"))]
)
def test_a_product_that_is_interrupted_at_any_tile_goes_on(
    dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(tmp_path, monkeypatch, dtype)
    device = job.run()
    expected, tiles = job.file.read_bytes(), len(job.lines) - 1
    steps = device.products // tiles
    assert tiles > 8 and steps > 1
    np.testing.assert_allclose(job.out, job.a.astype("c16") @ job.b, rtol=0.01, atol=0.01)
    assert job.run(memory=None).products == 0, "all are finished"
    for number in (0, *range(1, tiles, 2)):
        job.journal.unlink()
        np.save(job.file, np.zeros(job.out.shape, dtype))
        with pytest.raises(KeyboardInterrupt):
            job.run(progress=stop_at(number))
        finished = len(job.lines) - 1
        assert number <= finished <= number + 2, "what was under way when it was interrupted is finished, too"
        told: list[tuple[int, int]] = []
        # Today's memory has no say in the tiles.
        device = job.run(memory=None, progress=lambda *counts: told.append(counts))  # noqa: B023
        assert job.file.read_bytes() == expected
        assert device.products == (tiles - finished) * steps, "nothing is done twice"
        assert told == [(done, tiles) for done in range(finished, tiles + 1)]


def test_a_device_that_fails_at_any_product(job: Job) -> None:
    products = job.run().products
    expected, tiles = job.file.read_bytes(), len(job.lines) - 1
    for number in range(0, products, 17):
        job.journal.unlink()
        np.save(job.file, np.zeros(job.out.shape, job.a.dtype))
        device = job.device()
        device.fails_at = number
        with pytest.raises(RuntimeError, match="failed"):
            out_of_core.matmul(job.a, job.b, job.out, memory=job.limit, journal=job.journal)
        assert device.is_closed and len(job.lines) - 1 == number // (products // tiles), "no whole tile is lost"
        job.run()
        assert job.file.read_bytes() == expected


def test_a_line_that_is_half_written_is_ignored(job: Job) -> None:
    job.run()
    expected, text = job.file.read_bytes(), job.journal.read_bytes()
    begin = text.index(b"\n") + 1
    for end in range(begin, begin + 2 * len(job.lines[1]) + 3, 29):
        job.journal.write_bytes(text[:end] + b"x" * (9999 * (end % 2)))
        job.run()
        assert job.file.read_bytes() == expected
        assert sorted(job.journal.read_bytes().splitlines()) == sorted(text.splitlines())


def test_a_tile_that_cannot_be_written_is_an_error_and_is_not_finished(job: Job) -> None:
    full = OSError(28, "No space left on device")
    with pytest.MonkeyPatch.context() as monkeypatch:
        write = streaming.Journal.finish

        def finish(self: Any, tile: int, part: Any) -> None:
            if tile == 4:
                raise full
            write(self, tile, part)

        monkeypatch.setattr(streaming.Journal, "finish", finish)
        with pytest.raises(OSError):
            job.run()
    assert 4 not in {json.loads(line)["tile"] for line in job.lines[1:]}
    job.run()
    np.testing.assert_allclose(job.out, job.a @ job.b, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_line_is_written_after_its_tile(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    written = Journal(job.journal, job.out, {})
    written.begin({})
    seen: list[tuple[str, int]] = []
    mapping = SimpleNamespace(flush=lambda: seen.append(("flush", len(job.lines))))
    monkeypatch.setattr(journals, "_root", lambda x: SimpleNamespace(base=mapping))

    def fsync(file: int) -> None:
        seen.append((Path(os.readlink(f"/proc/self/fd/{file}")).name, len(job.lines)))

    monkeypatch.setattr(os, "fsync", fsync)
    written.finish(0, job.out[:3, :3])
    written.close()
    assert seen == [("flush", 1), ("c.npy", 1), ("c.journal", 2)]


def test_the_same_bits_on_each_run(job: Job) -> None:
    first, second = (np.empty(job.out.shape, np.float32) for _ in range(2))
    job.device()
    out_of_core.matmul(job.a, job.b, first, memory=job.limit)
    job.device()
    out_of_core.matmul(job.a, job.b, second, memory=job.limit)
    assert first.tobytes() == second.tobytes()


def test_journals_of_other_products_are_refused(job: Job, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        job.run(progress=stop_at(3))
    changed = job.a.copy()
    changed[0, 0] += 1
    job.refuses("fingerprint of a", a=changed)
    job.refuses("fingerprint of a", a=np.asfortranarray(job.a))
    job.refuses("fingerprint of b", b=job.b + 1)
    job.refuses("full.*ieee", precision="ieee")
    np.save(tmp_path / "other.npy", np.zeros(job.out.shape, np.float32))
    job.refuses("out: .*c.npy.*other.npy", out=np.load(tmp_path / "other.npy", mmap_mode="r+"))
    half = [x.astype(np.float16) for x in (job.a, job.b)]
    np.save(tmp_path / "half.npy", np.zeros(job.out.shape, np.float16))
    job.refuses("dtype", a=half[0], b=half[1], out=np.load(tmp_path / "half.npy", mmap_mode="r+"))
    job.refuses("shape of a", a=job.a[:-1], out=job.out[:-1])
    job.refuses("shape of b", b=job.b[:, :-1], out=job.out[:, :-1])
    job.refuses("journal.* [0-9,]+", memory=3000)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(HostDevice, "name", "another GPU")
        job.refuses("a host.*another GPU")
        monkeypatch.setattr(streaming, "__version__", "99")
        job.refuses("tiledmm: .*99")


def test_a_file_that_was_emptied_is_noticed(job: Job) -> None:
    with pytest.raises(KeyboardInterrupt):
        job.run(progress=stop_at(3))
    shape = job.out.shape
    out = np.lib.format.open_memmap(job.file, "w+", np.float32, shape)
    with pytest.raises(ConfigError, match=r"tile \d+"):
        job.run(out=out)


@pytest.mark.parametrize("text", [b"", b"hello", b"hello\n", b"[1]\n", b'{"tile": 3}\n', b"1\n2\n"])
def test_files_that_are_no_journals_are_refused(text: bytes, job: Job) -> None:
    job.journal.write_bytes(text)
    job.refuses("journal")


def test_journals_need_a_file(job: Job) -> None:
    job.journal.write_bytes(b"")
    out = np.empty(job.out.shape, np.float32)
    job.refuses("numpy.memmap.*ndarray", KeywordTypeError, out=out)
    job.refuses("'c'", KeywordValueError, out=np.load(job.file, mmap_mode="c"))
    with pytest.raises(KeywordTypeError, match=r"numpy\.memmap"):
        out_of_core.matmul(job.a, job.b, journal=job.journal)


def test_a_part_of_a_memmap(job: Job) -> None:
    m, n = job.out.shape
    whole = np.lib.format.open_memmap(job.folder / "whole.npy", "w+", np.float32, (2 * m, 3 * n))
    part = whole[::-2, n : 2 * n]
    with pytest.raises(KeyboardInterrupt):
        job.run(out=part, progress=stop_at(2))
    del part, whole
    again = np.load(job.folder / "whole.npy", mmap_mode="r+")
    with pytest.raises(ConfigError, match="begin"):
        job.run(out=again[::-2, n + 1 : 2 * n + 1])
    job.run(out=again[::-2, n : 2 * n])
    np.testing.assert_allclose(again[::-2, n : 2 * n], job.a @ job.b, rtol=1e-4, atol=1e-4)
    assert not again[:, :n].any() and not again[::-1][1::2].any()


def test_fingerprints() -> None:
    x = np.arange(3000.0).reshape(50, 60)
    assert fingerprint(x) == fingerprint(x.copy())
    others = [x.T, x.astype("f4"), x.reshape(60, 50), x[::-1], np.asfortranarray(x), x[:, :59]]
    for i, j in ((0, 0), (49, 59), (0, 59), (49, 0)):
        changed = x.copy()
        changed[i, j] = -1
        others.append(changed)
    assert len({fingerprint(each) for each in [x, *others]}) == 1 + len(others)


# Mistakes

A, B = np.ones((4, 5), np.float32), np.ones((5, 6), np.float32)


class ndarray:
    __module__ = "cupy"


@pytest.mark.parametrize(
    ("error", "match", "arguments", "keywords"),
    [
        (OperandTypeError, "^a .*tiledmm.matmul", (ndarray(), B), {}),
        (OperandTypeError, "^out .*CuPy", (A, B, ndarray()), {}),
        (OperandTypeError, "^b .*list", (A, [[1]]), {}),
        (OperandTypeError, r"^a .*a\.filled", (np.ma.masked_less(A, 1), B), {}),
        (OperandTypeError, r"^out .*out\.data", (A, B, np.ma.ones((4, 6))), {}),
        (ShapeError, r"^a .*\(4,\)", (A[:, 0], B), {}),
        (ShapeError, r"^b .*\(1, 5, 6\)", (A, B[None]), {}),
        (ShapeError, "a.* 5 .*b.* 4 ", (A, A), {}),
        (ShapeError, r"^out .*\(4, 6\).*\(6, 4\)", (A, B, np.ones((6, 4))), {}),
        (UnsupportedTypeError, "^a .*<i8.*a.astype", (A.astype("i8"), B), {}),
        (UnsupportedTypeError, "^b .*>f4.*b.astype", (A, B.astype(">f4")), {}),
        (UnsupportedTypeError, r"float32 .*float64.*b.astype\('float32'\)", (A, B.astype("f8")), {}),
        (UnsupportedTypeError, "^out .*float32.*<f8", (A, B, np.ones((4, 6))), {}),
        (KeywordValueError, "out", (A, B, np.broadcast_to(np.float32(1), (4, 6))), {}),
        (
            ShapeError,
            "out",
            (A, B, np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (4, 6), (0, 0))),
            {},
        ),
        (KeywordValueError, "memory", (A, B), {"memory": -(10**400)}),
        (KeywordValueError, "memory", (A, B), {"memory": -1}),
        (KeywordTypeError, "memory", (A, B), {"memory": "16e9"}),
        (KeywordValueError, "memory", (A, B), {"memory": float("nan")}),
        (KeywordTypeError, "progress", (A, B), {"progress": 3}),
        (ConfigError, "precision", (A, B), {"precision": "tf23"}),
    ],
)
def test_mistakes(error: type[Exception], match: str, arguments: Any, keywords: Any) -> None:
    with pytest.raises(error, match=match):
        out_of_core.matmul(*arguments, **keywords)


def test_an_out_that_overlaps_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    HostDevice().install(monkeypatch)
    whole = np.ones((20, 10), np.float32)
    with pytest.raises(KeywordValueError, match="out overlaps a"):
        out_of_core.matmul(whole[:10], np.ones((10, 10), np.float32), whole[5:15])
    with pytest.raises(KeywordValueError, match="out overlaps b"):
        out_of_core.matmul(np.ones((10, 10), np.float32), whole[10:], whole[10:])
    out_of_core.matmul(whole[::2], np.ones((10, 10), np.float32), whole[1::2])
    assert (whole[::2] == 1).all() and (whole[1::2] == 10).all(), "rows that alternate share nothing"
    np.save(tmp_path / "x.npy", whole)
    read, written = (np.load(tmp_path / "x.npy", mmap_mode=mode) for mode in ("r", "r+"))
    with pytest.raises(KeywordValueError, match="out overlaps a"):
        out_of_core.matmul(read[:10], np.ones((10, 10), np.float32), written[5:15])
    out_of_core.matmul(read[:10], np.ones((10, 10), np.float32), written[10:])


def test_what_takes_too_long_to_tell_apart_counts_as_overlapping(monkeypatch: pytest.MonkeyPatch) -> None:
    HostDevice().install(monkeypatch)
    whole, strided = np.ones(20_000, np.float32), np.lib.stride_tricks.as_strided
    a, out = strided(whole, (20, 19), (4 * 347, 4 * 272)), strided(whole[93:], (20, 19), (4 * 228, 4 * 144))
    monkeypatch.setattr(out_of_core, "_MOST_WORK", 1)
    with pytest.raises(np.exceptions.TooHardError):
        np.shares_memory(a, out, max_work=1)
    for operands, name in (((a, np.ones((19, 19), np.float32)), "a"), ((np.ones((20, 20), np.float32), a), "b")):
        with pytest.raises(KeywordValueError, match=f"out overlaps {name}"):
            out_of_core.matmul(*operands, out)


@pytest.mark.parametrize("name", ["a", "b"])
@pytest.mark.parametrize("flipped", [np.s_[:, :], np.s_[::-1], np.s_[:, ::-1], np.s_[::-1, ::-1]])
def test_files_that_overlap_in_any_direction(
    name: str, flipped: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that overlaps are recognized by bytes of the file, since two mappings of it share no address."""
    HostDevice().install(monkeypatch)
    path, link = tmp_path / "x.bin", tmp_path / "link.bin"
    path.write_bytes(bytes(4 * 4096))
    link.symlink_to(path)
    same_name = tmp_path / "folder" / "x.bin"
    same_name.parent.mkdir()
    shutil.copy(path, same_name)
    other, size = np.ones((4, 4), np.float32), 16 * 4

    def mapped(file: Path, begin: int) -> Any:
        return np.memmap(str(file), np.float32, "r+", begin, (4, 4))[flipped]

    def multiply(x: Any, out: Any) -> None:
        out_of_core.matmul(*((x, other) if name == "a" else (other, x)), out)

    for begin, there in ((256, 256), (256, 256 + size - 4), (256, 256 - size + 4)):
        for file in (path, link):
            for x, out in ((mapped(path, begin), mapped(file, there)), (mapped(path, there), mapped(file, begin))):
                with pytest.raises(KeywordValueError, match=f"out overlaps {name}"):
                    multiply(x, out)
                with pytest.raises(KeywordValueError, match=f"out overlaps {name}"):
                    multiply(x, np.memmap(file, np.float32, "r+", out.offset, (4, 4)))
    for there in (256 + size, 256 - size):
        multiply(mapped(path, 256), mapped(link, there))
        multiply(mapped(path, 256), np.memmap(path, np.float32, "r+", there, (4, 4)))
    multiply(mapped(path, 256), mapped(same_name, 256))


@pytest.mark.parametrize(
    ("part", "says"),
    [
        (lambda x: x[1:51, :45], '"begin": '),
        (lambda x: x[:50, 1:46], '"begin": '),
        (lambda x: x[:100:2, :45], '"strides": '),
        (lambda x: x[:50, :90:2], '"strides": '),
    ],
)
def test_a_journal_knows_where_in_the_file_c_is(part: Any, says: str, job: Job) -> None:
    whole = np.lib.format.open_memmap(job.folder / "whole.npy", "w+", np.float32, (100, 90))
    with pytest.raises(KeyboardInterrupt):
        job.run(out=whole[:50, :45], progress=stop_at(0))
    job.refuses(f"out: .*{says}", out=part(whole))
    job.run(out=whole[:50, :45])
    np.testing.assert_allclose(whole[:50, :45], job.a @ job.b, rtol=1e-4, atol=1e-4)


def test_the_bar_is_on_stderr(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    HostDevice().install(monkeypatch)
    out_of_core.matmul(A, B, progress=True)
    printed = capsys.readouterr()
    assert "tiles of C" in printed.err and "1/1" in printed.err and not printed.out


def test_without_cupy_it_says_what_is_missing() -> None:
    if find_spec("cupy") is None:
        with pytest.raises(MissingDependencyError, match="CuPy"):
            out_of_core.matmul(A, B)
