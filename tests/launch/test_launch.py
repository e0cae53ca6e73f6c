"""Tests of what is sent to a device, recorded by a stand-in. Needs CuPy, but no GPU."""

from __future__ import annotations

import operator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cupy", reason="needs CuPy, which needs no GPU to be imported")

import cupy

import tiledmm
from tests.host_arrays import pretend
from tiledmm.errors import ConfigError, OperandTypeError, UnsupportedTypeError
from tiledmm.kernels import tensor_maps
from tiledmm.kernels.operands.operand_scan import SCAN_INIT
from tiledmm.kernels.variants import kernel_spec
from tiledmm.launch import devices, plans, prepared
from tiledmm.launch import plan as plan_module
from tiledmm.launch.plan import Plan
from tiledmm.problem.arrays import describe
from tiledmm.problem.product import resolve
from tiledmm.selection.choose import select
from tiledmm.selection.model import H100

pytestmark = pytest.mark.cupy

SCRATCH = 0x100000


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Record what is launched, filled and encoded, in order."""
    seen: list[tuple[Any, ...]] = []

    def raw_kernels(specs: Any) -> Any:
        names = [each.variant.name for each in specs]
        return [SimpleNamespace(kernel=lambda *call, name=name: seen.append((name, *call))) for name in names]

    def encode(described: Any, pointer: int) -> Any:
        seen.append(("encode", pointer))
        return np.array([pointer, *[0] * 15], np.uint64).view("V128")

    monkeypatch.setattr(plan_module, "raw_kernels", raw_kernels)
    monkeypatch.setattr(prepared, "launch_function", lambda: None)
    monkeypatch.setattr(prepared, "resident_clusters", lambda function, cluster, *_: H100.gpu.sms // cluster)
    monkeypatch.setattr(prepared, "device_model", lambda ieee=False: H100)
    monkeypatch.setattr(prepared, "current_device", lambda: 0)
    monkeypatch.setattr(
        prepared, "_by_value", lambda array: array if array.size > 1 or array.dtype.kind == "V" else array[0]
    )
    monkeypatch.setattr(tensor_maps.TensorMap, "encode", encode)

    runtime = SimpleNamespace(
        memsetAsync=lambda *call: seen.append(("fill", *call)),
        setDevice=lambda device: None,
    )
    stream = SimpleNamespace(ptr=7, is_capturing=lambda: False)
    cuda = SimpleNamespace(
        get_current_stream=lambda: stream, alloc=lambda size: SimpleNamespace(ptr=SCRATCH), runtime=runtime
    )
    for module in (plan_module, prepared):
        monkeypatch.setattr(module, "cupy", SimpleNamespace(cuda=cuda))
    prepared._encoded.cache_clear()
    return seen


def array(shape: tuple[int, ...], dtype: str, pointer: int) -> Any:
    made = np.empty(shape, dtype)
    return SimpleNamespace(
        shape=shape,
        dtype=made.dtype,
        strides=made.strides,
        itemsize=made.itemsize,
        data=SimpleNamespace(ptr=pointer),
        size=made.size,
    )


def run(variant: str, dtype: str, times: int = 1, begins: tuple[int, int] = (0, 0), **numbers: int) -> Plan:
    x1, x2 = np.empty((512, 600), dtype), np.empty((600, 512), dtype)
    plan = Plan(select(variant, None, resolve(describe(x1), describe(x2)), numbers or None))
    for _ in range(times):
        first = array((512, 600), dtype, (1 << 24) + begins[0])
        second = array((600, 512), dtype, (2 << 24) + begins[1])
        plan.run(first, second, array((512, 512), dtype, 3 << 24))
    return plan


def test_a_split_product_is_sent_in_order_with_the_addresses_of_what_is_found(sent: list[tuple[Any, ...]]) -> None:
    plan = run("split_float32", "float32")
    names = [each[0] for each in sent]
    assert names == ["fill", "encode", "encode", "decompose", "decompose", "split_float32", "warp_tiled"]
    ((begin, size),) = plan.scans
    assert sent[0][1:] == (SCRATCH + begin, SCAN_INIT, size, 7), "before anything is found, on the same stream"
    of_a, of_b = sent[5][3][-1][-2:]
    assert SCRATCH + begin == of_a < of_b < SCRATCH + begin + size
    assert [tuple(each[3][-1][-2:]) for each in sent if each[0] in ("decompose", "warp_tiled")] == [
        (of_a, of_a), (of_b, of_b), (of_a, of_b),
    ]  # fmt: skip
    maps = [int(each.view(np.uint64)[0]) for each in sent[5][3][:2]]
    assert maps == [each[3][1] for each in sent if each[0] == "decompose"], "where the limbs of A and B were written"
    assert sent[-1][3][:3] == (1 << 24, 2 << 24, 3 << 24), "the CUDA cores read the operands themselves"


def test_pieces_without_maps_are_sent_as_memory(sent: list[tuple[Any, ...]]) -> None:
    run("split_tensor_core", "float32")
    assert [each[0] for each in sent] == ["fill", "decompose", "decompose", "split_tensor_core", "warp_tiled"]
    pieces = [each[3][1] for each in sent if each[0] == "decompose"]
    (multiplying,) = (each for each in sent if each[0] == "split_tensor_core")
    assert multiplying[3][:3] == (*pieces, 3 << 24)
    assert multiplying[1][0] == 16, "a block a tile"


def test_what_a_launch_is_told_is_made_once(sent: list[tuple[Any, ...]]) -> None:
    run("split_float32", "float32", times=3)
    assert sum(each[0] == "encode" for each in sent) == 2
    told = [each[3][-1] for each in sent if each[0] == "split_float32"]
    assert all(each is told[0] for each in told)
    assert sum(each[0] == "fill" for each in sent) == 3, "but what is found is found each time"


@pytest.mark.parametrize(("variant", "scratch"), [("split_tensor_core", True), ("warp_tiled", False)])
def test_each_launch_can_be_called_by_itself(sent: list[tuple[Any, ...]], variant: str, scratch: bool) -> None:
    x1, x2 = np.empty((512, 600), "f4"), np.empty((600, 512), "f4")
    plan = Plan(select(variant, None, resolve(describe(x1), describe(x2))))
    arrays = array((512, 600), "f4", 1 << 24), array((600, 512), "f4", 2 << 24), array((512, 512), "f4", 3 << 24)
    calls = plan.launch_functions(*arrays)
    whole = list(sent)
    assert len(calls) == len(plan.launches) and bool(plan.scratch_bytes) is scratch
    sent.clear()
    for call in calls:
        call()
    assert [each for each in whole if each[0] != "fill"] == sent, "as all of them together, on the same memory"
    calls[0]()
    assert sent[-1] == sent[0]


@pytest.mark.parametrize(
    ("dtype", "capability", "likewise"),
    [
        ("float32", "80", "'split_tensor_core'.*"),
        ("float32", "75", ""),
        ("complex64", "80", "'split_tensor_core'.*"),
    ],
)
def test_a_device_without_wgmma_is_told_what_it_has(
    monkeypatch: pytest.MonkeyPatch, dtype: str, capability: str, likewise: str
) -> None:
    from tiledmm.compile import compilation

    device = SimpleNamespace(compute_capability=capability)
    monkeypatch.setattr(compilation.cupy.cuda, "Device", lambda: device)
    says = rf"'split_float32'.*{dtype}.*9\.0.*{likewise}'warp_tiled'"
    with pytest.raises(UnsupportedTypeError, match=says):
        compilation._check_capability(kernel_spec("split_float32", dtype=dtype).kernel)


def test_scratch_memory_is_shared_out(sent: list[tuple[Any, ...]]) -> None:
    plan = run("wgmma", "float16", split_k=3)
    multiplying, adding = (each for each in sent if each[0] in ("wgmma", "split_k_reduction"))
    assert multiplying[3][2] == adding[3][0] == SCRATCH
    assert adding[3][1] == 3 << 24
    assert plan.scratch_bytes == 3 * 512 * 512 * 4


def test_what_the_copy_engine_cannot_read_is_packed(sent: list[tuple[Any, ...]]) -> None:
    run("wgmma", "float16", begins=(2, 0))
    assert [each[0] for each in sent] == ["encode", "encode", "pack", "pack", "wgmma"]


@pytest.mark.parametrize(
    ("elsewhere", "device", "sizes"),
    [
        *((operand, 5, (4, 4, 4)) for operand in range(3)),
        (0, 3, (4, 4, 4)), (0, 5, (0, 4, 4)), (1, 5, (4, 0, 4)), (0, 5, (4, 4, 0)), (2, 5, (4, 4, 0)),
    ],
)  # fmt: skip
def test_arrays_lie_on_the_current_device_unless_they_are_empty(
    monkeypatch: pytest.MonkeyPatch, elsewhere: int, device: int, sizes: tuple[int, int, int]
) -> None:
    pretend(monkeypatch.setattr)
    monkeypatch.setattr(devices, "current_device", lambda: 3)
    m, n, k = sizes
    arrays = []
    for i, x in enumerate(np.ones(shape, "f4") for shape in ((m, k), (k, n), (m, n))):
        memory = cupy.cuda.UnownedMemory(x.ctypes.data, max(x.nbytes, 1), x, device if i == elsewhere else 3)
        arrays.append(cupy.ndarray(x.shape, x.dtype, cupy.cuda.MemoryPointer(memory, 0)))
    x1, x2, out = arrays
    if device == 3 or not arrays[elsewhere].size:
        assert tiledmm.matmul(x1, x2, out=out) is out
    else:
        name = ("x1", "x2", "out")[elsewhere]
        with pytest.raises(OperandTypeError, match=f"{name}.*5.*3"):
            tiledmm.matmul(x1, x2, out=out)
    plans.forget_plans()


def test_cupys_own_product_is_found_where_its_name_means_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    own = devices._cupys_own()
    assert own is devices.cupy_matmul is not tiledmm.matmul
    monkeypatch.setattr(cupy, "matmul", tiledmm.matmul)
    if hasattr(cupy.linalg, "matmul"):  # since CuPy 14
        assert devices._cupys_own() is cupy.linalg.matmul
        monkeypatch.setattr(cupy.linalg, "matmul", tiledmm.matmul)
    with pytest.raises(ConfigError):
        devices._cupys_own()(1, 2)


def test_arguments_are_kept_for_a_few_addresses(sent: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_module, "_KEPT_ARGUMENTS", 2)
    plan = run("wgmma", "float16")
    made = [plan._launches_at((256 * i, 512, 1024, 4096)) for i in (1, 2, 1, 2)]
    assert made[0] is made[2] or made[1] is made[3]
    for i in range(10):
        plan._launches_at((256 * i, 512, 1024, 4096))
        assert 0 < len(plan._sent) <= 2
        assert plan._launches_at((256 * i, 512, 1024, 4096)) is plan._launches_at((256 * i, 512, 1024, 4096))


def test_arguments_are_kept_for_results_anywhere_in_a_pool(sent: list[Any]) -> None:
    """Check sets of operands that alternate, with results at other addresses each time, as from a pool."""
    plan = run("wgmma", "float16")
    first, second = ([plan._launches_at((a, 512, 4096 * c, 0)) for a in range(13) for c in range(14)] for _ in range(2))
    assert all(map(operator.is_, first, second))


def test_the_oldest_arguments_are_dropped_first(sent: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_module, "_KEPT_ARGUMENTS", 3)
    plan = run("wgmma", "float16")
    plan._sent.clear()
    for i in (1, 2, 3, 1, 4):
        plan._launches_at((i, 512, 1024, 0))
    assert [addresses[0] for addresses, _ in plan._sent] == [2, 3, 4]


def test_maps_are_encoded_in_a_context_of_the_device(sent: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that ``setDevice`` precedes the encoding, since a new thread has no context before it."""
    chosen: list[int] = []
    monkeypatch.setattr(prepared.cupy.cuda.runtime, "setDevice", chosen.append)
    monkeypatch.setattr(prepared, "current_device", lambda: 3)
    run("wgmma", "float16")
    assert chosen == [3, 3]
