"""Tests of programmatic dependent launches: calls of a fake driver, and that kernels wait before they read."""

from __future__ import annotations

import ctypes
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cupy", reason="needs CuPy, which needs no GPU to be imported")

from cupy.cuda import nvrtc

from tests.conftest import slow_unless
from tiledmm.codegen.rendering import render
from tiledmm.codegen.template_files import template_folder
from tiledmm.compile import cubins
from tiledmm.compile.inspection import COMPILE_OPTIONS, CUPYS_OPTIONS
from tiledmm.hardware.data_sheets import REFERENCE_GPUS
from tiledmm.kernels.operands.bytes import DECOMPOSE_BYTES
from tiledmm.kernels.operands.dense import COPY
from tiledmm.kernels.operands.limbs import DECOMPOSE
from tiledmm.kernels.operands.packed_elements import PACK_ELEMENTS
from tiledmm.kernels.operands.packed_rows import PACK
from tiledmm.kernels.operands.residues import DECOMPOSE_RESIDUES, RECONSTRUCT
from tiledmm.kernels.spec import KernelSpec
from tiledmm.kernels.split_k import SPLIT_K_REDUCTION
from tiledmm.kernels.variants import VARIANTS
from tiledmm.launch import dependent, prepared
from tiledmm.launch import plan as plan_module
from tiledmm.launch.dependent import DependentLaunch
from tiledmm.problem.arrays import describe
from tiledmm.problem.product import resolve
from tiledmm.selection.choose import select
from tiledmm.selection.model import Model

pytestmark = pytest.mark.cupy

AUXILIARY = (
    COPY, PACK, PACK_ELEMENTS, DECOMPOSE, DECOMPOSE_BYTES, DECOMPOSE_RESIDUES, RECONSTRUCT, SPLIT_K_REDUCTION,
)  # fmt: skip


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Make up a current stream, whose ``ptr`` a test may change."""
    current = SimpleNamespace(ptr=7)
    cuda = SimpleNamespace(get_current_stream=lambda: current, driver=SimpleNamespace(CUDADriverError=OSError))
    monkeypatch.setattr(dependent, "cupy", SimpleNamespace(cuda=cuda))
    return current


def read(address: Any, kind: Any) -> Any:
    return ctypes.cast(address, ctypes.POINTER(kind)).contents


def test_what_the_driver_is_told(stream: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    told = []

    def launched(config: Any, function: Any, pointers: Any, extra: Any) -> int:
        words = ctypes.string_at(ctypes.addressof(config._obj), 56)
        numbers = np.frombuffer(words[:28], np.uint32)
        on, attributes = np.frombuffer(words[32:48], np.uint64)
        count = int(np.frombuffer(words[48:52], np.uint32)[0])
        attribute = np.frombuffer(ctypes.string_at(int(attributes), 72), np.uint32)
        values = [read(each, ctypes.c_uint64).value for each in pointers._obj]
        told.append((numbers.tolist(), int(on), count, attribute[[0, 2]].tolist(), function.value, values, extra))
        return 0

    monkeypatch.setattr(dependent, "launch_function", lambda: launched)
    arguments = [np.array([n], np.uint64).view("V8") for n in (1000, 2000, 3000)]
    call = DependentLaunch(SimpleNamespace(ptr=123), (5,), (32, 4), 1024, arguments)
    call()
    stream.ptr = 9
    call()
    stream.ptr = 7
    call()
    expected = ([5, 1, 1, 32, 4, 1, 1024], 7, 1, [6, 1], 123, [1000, 2000, 3000], None)
    assert told == [expected, (expected[0], 9, *expected[2:]), expected]
    for stream.ptr in range(100):
        call()
    assert len(call._on_stream) <= dependent._MOST_STREAMS


def test_a_thread_without_a_context_gets_one(stream: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    devices: list[int] = []
    monkeypatch.setattr(dependent, "current_device", lambda: 3)
    monkeypatch.setattr(dependent.cupy.cuda, "runtime", SimpleNamespace(setDevice=devices.append), raising=False)
    monkeypatch.setattr(dependent, "launch_function", lambda: lambda *told: 0 if devices else 201)
    DependentLaunch(SimpleNamespace(ptr=1), (1,), (32,), 0, [np.zeros(1)])()
    assert devices == [3]


def test_clusters_that_are_resident_are_the_drivers(stream: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    def occupancy(found: Any, function: Any, config: Any) -> int:
        words = ctypes.string_at(ctypes.addressof(config._obj), 56)
        attribute = np.frombuffer(ctypes.string_at(int(np.frombuffer(words[40:48], np.uint64)[0]), 72), np.uint32)
        told.append((np.frombuffer(words[:28], np.uint32).tolist(), attribute[[0, 2, 3, 4]].tolist(), function.value))
        found._obj.value = 30
        return status

    told: list[Any] = []
    monkeypatch.setattr(dependent, "current_device", lambda: 0)
    monkeypatch.setattr(dependent.cupy.cuda, "runtime", SimpleNamespace(setDevice=told.clear), raising=False)
    monkeypatch.setattr(dependent.cupy.cuda.runtime, "setDevice", lambda device: None)
    monkeypatch.setattr(dependent, "driver", lambda: SimpleNamespace(cuOccupancyMaxActiveClusters=occupancy))
    status = 0
    assert dependent.resident_clusters(SimpleNamespace(ptr=5), 4, 256, 1000) == 30
    assert told == [([4, 1, 1, 256, 1, 1, 1000], [4, 4, 1, 1], 5)]
    status = 1
    with pytest.raises(OSError, match="1"):
        dependent.resident_clusters(SimpleNamespace(ptr=5), 4, 256, 1000)


def test_structures_are_as_large_as_the_drivers() -> None:
    assert (ctypes.sizeof(dependent._Attribute), ctypes.sizeof(dependent._Config)) == (72, 56)


def test_what_the_driver_refuses_is_an_error(stream: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dependent, "launch_function", lambda: lambda *told: 1)
    with pytest.raises(OSError, match="1"):
        DependentLaunch(SimpleNamespace(ptr=1), (1,), (32,), 0, [np.zeros(1)])()


@pytest.mark.parametrize("gives", [OSError("no driver"), SimpleNamespace()])
def test_without_such_a_driver_there_is_no_function(gives: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def driver() -> Any:
        if isinstance(gives, Exception):
            raise gives
        return gives

    monkeypatch.setattr(dependent, "driver", driver)
    assert dependent.launch_function.__wrapped__() is None


@pytest.mark.parametrize(
    ("target", "has_function", "dependent"),
    [("sm_90", True, True), ("sm_90", False, False), ("sm_80", True, False)],
)
def test_launches_that_wait_first_depend_where_the_device_can(
    target: str, has_function: bool, dependent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = lambda specs: [SimpleNamespace(kernel=None) for _ in specs]  # noqa: E731
    monkeypatch.setattr(plan_module, "raw_kernels", kernels)
    monkeypatch.setattr(prepared, "device_model", lambda: Model(REFERENCE_GPUS[target]))
    monkeypatch.setattr(prepared, "launch_function", lambda: (lambda: None) if has_function else None)

    def depend(variant: str, dtype: str = "f4", **config: int) -> list[bool]:
        x1, x2 = np.empty((512, 600), dtype), np.empty((600, 512), dtype)
        plan = plan_module.Plan(select(variant, None, resolve(describe(x1), describe(x2)), config or None))
        return [each.dependent for each in plan.launches]

    assert depend("split_tensor_core") == [False, dependent, dependent, dependent]
    assert depend("tiled", split_k=4) == [False, dependent], "the split-K reduction waits, 'tiled' does not"
    assert depend("vectorized", pack_a=1, pack_b=1) == [False, dependent, False]
    assert depend("tensor_core", "f8", pack_a=1) == [False, dependent], "the launch before may write what is packed"
    assert depend("tensor_core", "f8", split_k=3) == [dependent, dependent]
    assert depend("wgmma", "f2") == [dependent], "launches of other products may come before"


def test_a_launch_lets_the_next_begin_that_reads_another_operand() -> None:
    def overlaps(variant: str, dtype: str, **config: int) -> list[int]:
        x1, x2 = np.empty((512, 600), dtype), np.empty((600, 512), dtype)
        (planned,) = select(variant, None, resolve(describe(x1), describe(x2)), config or None).schedules
        return [int(each.kernel_args[-1]) for each in planned.launches if each.spec.waits == "last"]

    assert overlaps("split_float32", "f4") == overlaps("split_integer", "i4") == [1, 0]
    assert overlaps("wgmma", "f2", pack_a=1) == [0], "what multiplies reads what is packed"
    assert overlaps("wgmma", "f2", pack_a=1, pack_b=1) == [1, 0]


def test_without_waiting_none_depends() -> None:
    """Check that a template contains the wait exactly if its variant declares it."""
    rows = [*VARIANTS.values(), *AUXILIARY]
    for row in rows:
        if row.template not in (None, "warp_tiled.cu.j2"):  # which waits where it stands for operands not decomposed
            files = [
                row.template,
                *re.findall(r'^//% include "(\w+_prologue\.j2)"', _template(row.template), re.MULTILINE),
            ]
            text = "".join(map(_template, files))
            assert bool(row.waits) == ("griddepcontrol_wait()" in text), row.name


def _template(name: str) -> str:
    return (template_folder() / name).read_text(encoding="utf-8")


def dependent_kernels() -> list[KernelSpec]:
    """Return each kernel that follows another launch in some products, once or twice."""
    found: dict[str, KernelSpec] = {}
    for variant, tile, dtype, config in (
        ("split_float32", 64, "f4", {}), ("split_float32", 64, "c8", {}), ("split_tensor_core", 64, "f4", {}),
        ("split_integer", 64, "i4", {}), ("tensor_core", 16, "f2", {"split_k": 3}), ("wgmma", 64, "i1", {"pack_a": 1}),
        ("warp_tiled", 32, "i1", {"pack_elements": 1}), ("thin", 16, "c16", {"split_k": 40}),
    ):  # fmt: skip
        x1, x2 = np.empty((512, 600), dtype), np.empty((600, 512), dtype)
        choice = select(variant, tile, resolve(describe(x1), describe(x2)), config or None)
        for each in choice.schedules[0].launches:
            if each.spec.waits:
                found.setdefault(each.spec.symbol, each.spec)
    return list(found.values())


def first_of_each_template() -> list[Any]:
    """Return these kernels as cases, of which those of a template that an earlier one has are slow."""
    seen: set[str | None] = set()
    cases = []
    for spec in dependent_kernels():
        new = spec.variant.template not in seen
        cases.append(pytest.param(spec, id=spec.symbol, marks=slow_unless(new)))
        seen.add(spec.variant.template)
    return cases


@pytest.mark.parametrize("spec", first_of_each_template())
def test_the_wait_comes_before_or_after_all_accesses(spec: KernelSpec) -> None:
    options = (*COMPILE_OPTIONS, f"-arch={(spec.variant.hopper.arch or 'sm_90').replace('sm', 'compute')}")
    ptx = cubins._compiled(render(spec), spec.symbol, (*options, *CUPYS_OPTIONS), nvrtc.getPTX)
    entry = ptx.decode()[ptx.decode().index(".entry") :]
    accesses = [
        each.start() for each in re.finditer(r"\b(ld\.global|st\.global|red\.|atom|cp\.async|ld\.relaxed)", entry)
    ]
    wait = entry.index("griddepcontrol.wait;")
    assert accesses and entry.count("griddepcontrol.wait;") == 1
    assert wait < accesses[0] if spec.waits == "first" else accesses[-1] < wait
    assert not re.search(r"\b(ret|exit);", entry[:wait]), "every thread gets there"
