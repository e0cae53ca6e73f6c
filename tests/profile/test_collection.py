"""Tests of the steps from variants to profiles, with a made-up ncu and real kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

import tiledmm
from tests.profile.fake_ncu import install, raw_page, source_page
from tiledmm.bench.sizes import Size
from tiledmm.bench.variant_tiles import VariantTile
from tiledmm.codegen.rendering import render
from tiledmm.errors import CompilationError, MissingDependencyError, ProfilingError
from tiledmm.kernels.spec import KernelSpec
from tiledmm.kernels.variants import kernel_spec
from tiledmm.problem.arrays import Array
from tiledmm.profile import application, collection
from tiledmm.profile.collection import collect, command_of, machine_code_with_lines, shares
from tiledmm.profile.kernel_profile import METRICS, reduced, with_lines
from tiledmm.profile.ncu import Instructions, ProfiledLaunch
from tiledmm.simulated.scheduled_launch import lines_of

SIZE = Size(512, 256, 128)
TILED, PADDED = (kernel_spec(name, tile=32, layout="NT") for name in ("tiled", "tiled_padded"))
RUNGS = (VariantTile("tiled", 32), VariantTile("cublas"))


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[KernelSpec]]:
    """Replace what each variant launches, and provide no machine code."""
    kernels: dict[str, list[KernelSpec]] = {"tiled": [TILED], "cublas": []}

    def no_lines(spec: KernelSpec, target: str) -> None:
        raise MissingDependencyError("no nvdisasm in this test")

    monkeypatch.setattr(collection, "kernels_of", lambda rung, *product: kernels[rung.variant])
    monkeypatch.setattr(collection, "machine_code_with_lines", no_lines)
    monkeypatch.setattr(collection, "_target", lambda spec: "sm_90")
    return kernels


def test_the_command_says_what_is_run() -> None:
    line = command_of([*RUNGS, VariantTile("auto")], SIZE, "float16", "NT").line("ncu", "x.ncu-rep")
    i = line.index("tiledmm.profile.application")
    assert line[i - 1] == "-m" and line[i + 1 :] == ["512x256x128", "float16", "NT", "tiled:32", "cublas", "auto"]
    assert line[line.index("--profile-from-start") + 1] == "off"
    assert line[line.index("--metrics") + 1].split(",") == list(METRICS.values())
    assert [application.parse_variant_tile(word) for word in line[i + 4 :]] == [*RUNGS, VariantTile("auto")]


def test_a_product_by_two_variants(
    known: dict[str, list[KernelSpec]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = install(monkeypatch, tmp_path)
    time = METRICS["nanoseconds"]
    fake.answer(
        raw=raw_page((TILED.symbol, {time: 9000}), ("void split(int)", {time: 10}), ("nvjet", {time: 4000})),
        source=source_page((TILED.symbol, [("EXIT ;", {})]), ("split", []), ("nvjet", [])),
    )
    kept = tmp_path / "kept.ncu-rep"
    found = collect(RUNGS, SIZE, "float32", "NT", report=kept)
    assert kept.read_text() == "a report" and str(kept) in found.command
    tiled, cublas = found.profiles
    assert (tiled.label, tiled.kernel, tiled.nanoseconds, tiled.others) == ("tiled 32", TILED.symbol, 9000, {})
    assert tiled.note.startswith("no source lines") and tiled.lines == ()
    assert (cublas.kernel, cublas.nanoseconds, cublas.others) == ("nvjet", 4000, {"void split(int)": 10})
    assert cublas.note == ""


def test_nothing_is_kept_of_a_run_that_failed(
    known: dict[str, list[KernelSpec]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = install(monkeypatch, tmp_path)
    fake.answer(output="==ERROR== ERR_NVGPUCTRPERM", status=1, writes=False)
    kept = tmp_path / "kept.ncu-rep"
    kept.write_text("of before")
    with pytest.raises(ProfilingError, match=r"SYS_ADMIN|ncu"):
        collect(RUNGS, SIZE, report=kept)
    assert kept.read_text() == "of before"


def launches_of(*names: str) -> list[ProfiledLaunch]:
    return [ProfiledLaunch(name, {}) for name in names]


def test_names_as_ncu_prints_them(tmp_path: Path) -> None:
    """Check that a plain kernel is known by its name, whatever return type and arguments ncu adds, beside cuBLAS."""
    (tmp_path / "mine.cu").write_text(
        """namespace math { template <typename T, int TILE>
        __global__ void mm(const T* A, const T* B, T* C, int M, int N, int K) {
            int r = blockIdx.y * TILE + threadIdx.y, c = blockIdx.x * TILE + threadIdx.x;
            if (r >= M || c >= N) return;
            T s = 0; for (int k = 0; k < K; ++k) s += A[r * K + k] * B[k * N + c]; C[r * N + c] = s; } }"""
    )
    name = tiledmm.register(
        tmp_path / "mine.cu", like="plain", kernel="math::mm<double, 8>", grid="(N+7)/8,(M+7)/8", block=(8, 8)
    )
    try:
        mine = kernel_spec(name, dtype="float64")
        printed = "void math::mm<double, (int)8>(const T1 *, const T1 *, T1 *, int, int, int)"
        assert shares([[TILED], [], [mine]], launches_of(TILED.symbol, "nvjet", printed)) == [1, 1, 1]
        with pytest.raises(ProfilingError, match="math::mm"):
            shares([[mine]], launches_of("void math::other<double>(int)"))
        try:
            code = machine_code_with_lines(mine, "sm_90")
        except (MissingDependencyError, RuntimeError, OSError) as error:
            pytest.skip(str(error))
        rows = [(place, f"{each.opcode} R1 ;", {"stall_mio": 1}) for place, each in code.instructions.items()]
        ran = reduced("mine", ProfiledLaunch(mine.symbol, {}))
        profile = with_lines(ran, Instructions(mine.symbol, tuple(rows)), code, *lines_of(mine))
        assert any("s += A" in line.text and line.location.startswith("mine.cu:") for line in profile.lines)
    finally:
        tiledmm.unregister(name)


@pytest.mark.parametrize(
    ("expected", "names", "counts"),
    [
        ([[TILED], [PADDED, TILED]], [TILED, PADDED, TILED], [1, 2]),
        ([[], [TILED]], ["nvjet", "splitk", TILED], [2, 1]),
        ([[TILED], []], [TILED, "nvjet"], [1, 1]),
    ],
)
def test_launches_are_shared_out(
    expected: list[list[KernelSpec]], names: list[KernelSpec | str], counts: list[int]
) -> None:
    assert shares(expected, launches_of(*(each if isinstance(each, str) else each.symbol for each in names))) == counts


@pytest.mark.parametrize(
    ("expected", "names"),
    [([[TILED]], []), ([[TILED]], ["other"]), ([[]], []), ([[TILED]], [TILED.symbol, "other"])],
)
def test_launches_that_were_not_expected(expected: list[list[KernelSpec]], names: list[str]) -> None:
    with pytest.raises(ProfilingError, match="ncu"):
        shares(expected, launches_of(*names))


@pytest.mark.parametrize(("letter", "strides"), [("N", (20, 4)), ("T", (4, 12)), ("G", (40, 8))])
def test_operands_without_data(letter: str, strides: tuple[int, int]) -> None:
    np = pytest.importorskip("numpy")
    assert Array.laid_out((3, 5), np.dtype("f4"), letter) == Array((3, 5), strides, np.dtype("f4"))


@pytest.mark.cupy
def test_lines_of_a_kernel_as_it_is_compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Check that conflicts of reads of B's transpose are attributed to their line. Needs CuPy, NVRTC and nvdisasm."""
    try:
        code = machine_code_with_lines(TILED, "sm_90")
    except (MissingDependencyError, CompilationError, RuntimeError, OSError) as error:
        pytest.skip(str(error))
    load = next(i for i, text in enumerate(render(TILED).splitlines(), start=1) if "frag_b = Bs[" in text)
    instructions = [
        (f"{each.opcode}.X R1, [R2] ;", {"stall_mio": 5 if load in each.lines else 0, "stall_selected": 1})
        for each in code.instructions.values()
    ]
    fake = install(monkeypatch, tmp_path)
    # What cuBLAS launches beside it has another name on the other page.
    fake.answer(
        raw=raw_page((TILED.symbol, {}), ("reduce", {})),
        source=source_page(("init", []), (TILED.symbol, instructions), ("void reduce<int, 4>(Params)", [])),
    )
    monkeypatch.setattr(collection, "kernels_of", lambda rung, *product: [TILED] if rung == RUNGS[0] else [])
    monkeypatch.setattr(collection, "_target", lambda spec: "sm_90")
    found, _ = collect(RUNGS, SIZE, "float32", "NT").profiles
    assert found.note == ""
    (line,) = found.lines
    assert (line.number, line.share, set(line.waits)) == (load, 1, {"mio_throttle"})
