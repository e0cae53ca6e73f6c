"""Tests of other libraries' arrays, by stand-ins with the same protocols, on a stand-in GPU.

Needs CuPy, but no GPU.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("cupy", reason="needs CuPy, which needs no GPU to be imported")

import tiledmm
from tests.host_gpu import HostGpu, run_on_simulator
from tests.strategies import tight
from tiledmm.errors import ConfigError, KeywordValueError, OperandTypeError, UnsupportedTypeError
from tiledmm.interchange import calls, protocols
from tiledmm.launch import devices, prepared

pytestmark = pytest.mark.cupy


class Stream:
    """A stand-in for a CUDA stream that logs requests."""

    def __init__(self, ptr: int, log: list[tuple[Any, ...]], current: list[Stream]) -> None:
        self.ptr, self.log, self.current = ptr, log, current

    def wait_event(self, event: Event) -> None:
        self.log.append((self.ptr, "waits for", event.stream))

    def __enter__(self) -> Stream:
        self.current.append(self)
        return self

    def __exit__(self, *_: Any) -> None:
        self.current.pop()


class Event:
    stream, done = 0, False

    def __init__(self, disable_timing: bool = False) -> None:
        assert disable_timing

    def record(self, stream: Stream) -> None:
        self.stream = stream.ptr


class Gpu:
    """A stand-in GPU with streams."""

    def __init__(self, host: HostGpu, monkeypatch: pytest.MonkeyPatch) -> None:
        self.host, self.log = host, list[tuple[Any, ...]]()
        self.current: list[Stream] = []
        self.current.append(self.stream(0))
        cuda = SimpleNamespace(
            get_current_stream=lambda: self.current[-1],
            Stream=SimpleNamespace(from_external=lambda other: self.stream(other.__cuda_stream__()[1])),
            Event=Event,
        )
        cuda.Device = self.on
        monkeypatch.setattr(calls, "cupy", SimpleNamespace(cuda=cuda))
        run = host._run

        def logged(*arguments: Any) -> None:
            self.log.append((self.current[-1].ptr, "runs on", devices.current_device()))
            run(*arguments)

        self.runs = False
        host._run = lambda *arguments: (logged if self.runs else run)(*arguments)
        calls._in_use.clear()
        calls.stream_at.cache_clear()

    def stream(self, ptr: int) -> Stream:
        return Stream(ptr, self.log, self.current)

    @contextlib.contextmanager
    def on(self, number: int) -> Iterator[None]:
        """Make a device the current one."""
        with pytest.MonkeyPatch.context() as patch:
            for module in (devices, prepared):
                patch.setattr(module, "current_device", lambda: number)
            yield


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Gpu:
    host = HostGpu()
    host.install(monkeypatch, tmp_path)
    return Gpu(host, monkeypatch)


def integers(seed: int, *shape: int, dtype: Any = "float32") -> Any:
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


class WithInterface:
    """An array with the CUDA array interface."""

    def __init__(self, array: Any, **entries: Any) -> None:
        self.array, self.entries = array, entries

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        x = self.array
        known = {"shape": x.shape, "typestr": x.dtype.str, "data": (x.data.ptr, False), "strides": x.strides}
        return {"version": 3, **known, **self.entries}


@pytest.fixture(autouse=True)
def on_device_0(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = SimpleNamespace(pointerGetAttributes=lambda address: SimpleNamespace(device=0), getDevice=lambda: 0)
    stands = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime), from_dlpack=lambda x: x.array)
    monkeypatch.setattr(protocols, "cupy", stands)


@pytest.mark.parametrize("layout", ["N", "T", "G"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "complex128", "int8"])
def test_the_cuda_array_interface(gpu: Gpu, layout: str, dtype: str) -> None:
    a, b = integers(1, 20, 30, dtype=dtype), integers(2, 30, 40, dtype=dtype)
    x1, x2 = gpu.host.array(a, tight(layout)), gpu.host.array(b, tight(layout))
    found = tiledmm.matmul(WithInterface(x1), WithInterface(x2))
    np.testing.assert_array_equal(found.held, (a @ b).astype(dtype))
    assert type(found) is type(x1), "a library without a way to take arrays gets CuPy's"
    out = WithInterface(gpu.host.array(np.zeros((20, 40), dtype), tight(layout)))
    assert tiledmm.matmul(x1, WithInterface(x2), out=out) is out
    np.testing.assert_array_equal(out.array.held, (a @ b).astype(dtype))
    plain = gpu.host.array(a)
    for entries in ({"strides": None}, {"shape": [20, 30], "strides": [*plain.strides]}, {"mask": None}):
        found = tiledmm.matmul(WithInterface(plain, **entries), x2)
        np.testing.assert_array_equal(found.held, (a @ b).astype(dtype))


def test_empty_arrays_have_no_address(gpu: Gpu) -> None:
    nothing = WithInterface(
        SimpleNamespace(shape=(0, 3), dtype=np.dtype("f4"), data=SimpleNamespace(ptr=0), strides=None)
    )
    assert tiledmm.matmul(nothing, gpu.host.array(integers(1, 3, 4))).shape == (0, 4)


def test_streams_wait_for_each_other(gpu: Gpu) -> None:
    a, b = (gpu.host.array(integers(seed, 9, 9)) for seed in (1, 2))
    tiledmm.matmul(WithInterface(a, stream=7), WithInterface(b, stream=5))
    assert gpu.log == [(7, "waits for", 5), (5, "waits for", 7)], "the product is on the first operand's stream"
    gpu.log.clear()
    with gpu.stream(3):
        tiledmm.matmul(a, WithInterface(b, stream=5))
    assert gpu.log == [(3, "waits for", 5), (5, "waits for", 3)]
    gpu.log.clear()
    tiledmm.matmul(WithInterface(a, stream=7), WithInterface(b, stream=7))
    tiledmm.matmul(WithInterface(a), WithInterface(b, stream=None))
    assert gpu.log == [], "nothing to wait for"
    with gpu.stream(3):
        tiledmm.matmul(WithInterface(a, stream=7), b)
    assert gpu.log == [(7, "waits for", 3), (3, "waits for", 7)], "also for what CuPy does"


def test_a_product_runs_between_the_waits_on_the_first_operands_stream(gpu: Gpu) -> None:
    gpu.runs = True
    a, b, out = (gpu.host.array(integers(seed, 9, 9)) for seed in (1, 2, 3))
    tiledmm.matmul(WithInterface(a, stream=7), WithInterface(b, stream=5))
    assert gpu.log == [(7, "waits for", 5), (7, "runs on", 0), (5, "waits for", 7)]
    gpu.log.clear()
    tiledmm.matmul(WithInterface(a, stream=7), WithInterface(b, stream=7), out=WithInterface(out, stream=4))
    assert gpu.log == [(7, "waits for", 4), (7, "runs on", 0), (4, "waits for", 7)]
    gpu.log.clear()
    assert not calls._in_use, "every library knows the stream that reads its arrays"
    tiledmm.matmul(WithInterface(a, stream=None), b)
    assert gpu.log == [(0, "runs on", 0)]


class ByDlpack:
    """An array with DLPack, from a library with the standard's namespace."""

    def __init__(self, array: Any, device: tuple[int, int] = (2, 0)) -> None:
        self.array, self.device = array, device

    def __dlpack__(self, **_: Any) -> Any:
        raise AssertionError("CuPy's own is replaced")

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __array_namespace__(self) -> Any:
        return SimpleNamespace(from_dlpack=ByDlpack)


def test_dlpack_and_the_first_operands_kind(gpu: Gpu) -> None:
    a, b = integers(1, 20, 30), integers(2, 30, 40)
    x1, x2 = gpu.host.array(a), gpu.host.array(b)
    found = tiledmm.matmul(ByDlpack(x1), WithInterface(x2))
    assert type(found) is ByDlpack
    np.testing.assert_array_equal(found.array.held, a @ b)
    assert type(tiledmm.matmul(x1, ByDlpack(x2))) is type(x1)
    assert len(calls._in_use) == 2, "the libraries do not know that their arrays are read"
    for event, _ in calls._in_use:
        event.done = True
    tiledmm.matmul(ByDlpack(x1), x2)
    assert len(calls._in_use) == 1


@pytest.mark.parametrize(("kind", "works"), [(2, True), (13, True), (1, False)])
def test_memory_of_the_device_and_managed_memory(gpu: Gpu, kind: int, works: bool) -> None:
    """Check which of DLPack's device types work: CUDA (2) and managed memory (13) do, others do not."""
    a, b = integers(1, 5, 6), integers(2, 6, 4)
    x1, x2 = gpu.host.array(a), gpu.host.array(b)
    if works:
        found = tiledmm.matmul(x1, ByDlpack(x2, (kind, 0)))
        np.testing.assert_array_equal(found.held, a @ b)
        return
    with pytest.raises(OperandTypeError, match=r"^x2 "):
        tiledmm.matmul(x1, ByDlpack(x2, (kind, 0)))


@pytest.mark.parametrize("error", [BufferError, RuntimeError, TypeError, ValueError])
def test_what_dlpack_refuses(gpu: Gpu, error: type[Exception]) -> None:
    def refuse(x: Any) -> Any:
        raise error("not this one")

    x = gpu.host.array(integers(1, 3, 3))
    protocols.cupy.from_dlpack = refuse
    with pytest.raises(UnsupportedTypeError, match=r"x2.*ByDlpack.*not this one"):
        tiledmm.matmul(x, ByDlpack(x))


def test_a_library_that_does_not_tell_its_device(gpu: Gpu) -> None:
    class Silent(ByDlpack):
        def __dlpack_device__(self) -> tuple[int, int]:
            raise ArithmeticError

    x = gpu.host.array(integers(1, 3, 3))
    with pytest.raises(OperandTypeError, match=r"^x1 "):
        tiledmm.matmul(Silent(x), x)


@pytest.mark.parametrize("product", [tiledmm.matmul, tiledmm.gemm])
def test_arrays_that_speak_a_protocol_on_another_device(gpu: Gpu, product: Any) -> None:
    gpu.runs = True
    a, b = integers(1, 5, 6), integers(2, 6, 4)

    def on(number: int, x: Any) -> Any:
        return tiledmm.launch.devices.as_cupys(devices.ForeignArray(x.data.ptr, x.shape, x.strides, x.dtype, x, number))

    x1, x2 = gpu.host.array(a), gpu.host.array(b)
    found = product(ByDlpack(on(1, x1), (2, 1)), on(1, x2))
    assert gpu.log == [(0, "runs on", 1)]
    np.testing.assert_array_equal(found.array.held, a @ b)
    second = "x2" if product is tiledmm.matmul else "b"
    with pytest.raises(OperandTypeError, match=f"0.*{second}.*1"):
        product(x1, ByDlpack(on(1, x2), (2, 1)))
    protocols.cupy.cuda.runtime.pointerGetAttributes = lambda address: SimpleNamespace(
        device=int(address == x2.data.ptr)
    )
    with pytest.raises(OperandTypeError, match=f"0.*{second}.*1"):
        product(x1, WithInterface(x2))


def test_the_device_of_what_has_no_elements_is_not_asked_for(gpu: Gpu) -> None:
    def unknown(address: int) -> Any:
        raise RuntimeError("no such memory")

    protocols.cupy.cuda.runtime.pointerGetAttributes = unknown
    y = gpu.host.array(integers(1, 3, 4))
    for address in (0, 4711):
        data = SimpleNamespace(ptr=address)
        nothing = WithInterface(SimpleNamespace(shape=(0, 3), dtype=np.dtype("f4"), data=data, strides=None))
        assert tiledmm.matmul(nothing, y).shape == (0, 4)
    with pytest.raises(RuntimeError, match="memory"):
        tiledmm.matmul(WithInterface(y), y)


def test_an_unknown_precision_is_reported_first(gpu: Gpu) -> None:
    with pytest.raises(ConfigError, match="precision"):
        tiledmm.matmul([[1.0]], gpu.host.array(integers(1, 3, 3)), precision="half")


def test_gemm_takes_all_arrays_of_any_library(gpu: Gpu) -> None:
    a, b, c, bias = integers(1, 20, 30), integers(2, 30, 40), integers(3, 20, 40), integers(4, 40)
    x1, x2, addend, each = (gpu.host.array(x) for x in (a, b, c, bias))
    with pytest.raises(UnsupportedTypeError):
        tiledmm.gemm(ByDlpack(x1), x2, activation="relu", dtype=bool)
    seen: list[Any] = []
    kernels = SimpleNamespace(run=lambda *arguments: seen.append(arguments) or arguments[2])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiledmm.api, "plan_of", lambda *arguments: kernels)
        found = tiledmm.gemm(ByDlpack(x1), x2, ByDlpack(addend), alpha=2, beta=np.float32(3), bias=WithInterface(each))
        tiledmm.gemm(x1, x2, ByDlpack(addend), beta=1, out=addend)
    (first, second, out, epilogue, _), (*_, again, in_place, _) = seen
    assert (first, second, out) == (x1, x2, None) and type(found) is ByDlpack
    assert [x.data.ptr for x in epilogue.arrays] == [addend.data.ptr, each.data.ptr]
    assert again is addend and in_place.arrays[0] is addend


@pytest.mark.parametrize("x", [np.ones((3, 3), "f4"), [[1.0]], 3, None, ByDlpack(None, (1, 0))])
def test_what_is_on_the_cpu(gpu: Gpu, x: Any) -> None:
    y = gpu.host.array(integers(1, 3, 3))
    instead = r"{0} .*cupy\.asarray\({0}\).*tiledmm\.simulator\.matmul"
    with pytest.raises(OperandTypeError, match="^" + instead.format("x1")):
        tiledmm.matmul(x, y)
    with pytest.raises(OperandTypeError, match="^" + instead.format("x2")):
        tiledmm.matmul(y, x)
    with pytest.raises(OperandTypeError, match="^" + instead.format("b")):
        tiledmm.gemm(y, x)
    if x is not None:
        for product in (tiledmm.matmul, tiledmm.gemm):
            with pytest.raises(OperandTypeError, match="^" + instead.format("out")):
                product(y, y, out=x)


def test_what_cannot_be_read_or_written(gpu: Gpu) -> None:
    x = gpu.host.array(integers(1, 3, 3))
    with pytest.raises(OperandTypeError, match=r"^x2 .*mask"):
        tiledmm.matmul(x, WithInterface(x, mask=x))
    read_only = WithInterface(x, data=(x.data.ptr, True))
    tiledmm.matmul(read_only, x)
    with pytest.raises(KeywordValueError, match="out"):
        tiledmm.matmul(x, x, out=read_only)
    with pytest.raises(OperandTypeError, match=r"x1.*0.*x2.*1"):
        tiledmm.matmul(ByDlpack(x), ByDlpack(x, (2, 1)))
    with pytest.raises(UnsupportedTypeError, match="M8"):
        tiledmm.matmul(WithInterface(x, typestr="<M8[s]", strides=None, shape=(1, 1)), x)


# ---- torch ----


class Tensor:
    """A stand-in with what the package uses of a tensor."""

    layout, requires_grad, is_cuda = "strided", False, True

    def __init__(self, array: Any, **others: Any) -> None:
        self.array, self.shape = array, array.shape
        self.dtype = f"torch.{array.dtype.name}"
        self.device = SimpleNamespace(type="cuda", index=0)
        self.conjugated = self.negated = False
        vars(self).update(others)

    def get_device(self) -> int:
        return self.device.index

    def data_ptr(self) -> int:
        return int(self.array.data.ptr)

    def stride(self) -> tuple[int, ...]:
        return tuple(step // self.array.itemsize for step in self.array.strides)

    def is_conj(self) -> bool:
        return self.conjugated

    def is_neg(self) -> bool:
        return self.negated

    def resolve_conj(self) -> Tensor:
        return self if not self.conjugated else self._resolved(self.array.held.conj(), negated=self.negated)

    def resolve_neg(self) -> Tensor:
        return self if not self.negated else self._resolved(-self.array.held, conjugated=self.conjugated)

    def _resolved(self, values: np.ndarray, **others: Any) -> Tensor:
        return Tensor(self.array.owner.array(values), **others)

    def view(self, dtype: str) -> Tensor:
        self.dtype = dtype
        return self

    def permute(self, *axes: int) -> Tensor:
        return Tensor(self.array.transpose(axes))

    def __matmul__(self, other: Any) -> Any:
        return NotImplemented  # as PyTorch does for what is no tensor

    @property
    def __cuda_array_interface__(self) -> Any:
        raise RuntimeError("refused, as for tensors that require gradients")


Tensor.__module__ = "torch"
NAMES = [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
NAMES += ["bool", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
NUMPYS = {f"torch.{name}": np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name) for name in NAMES}


@pytest.fixture
def torch(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Provide a stand-in for the parts of the module that the package uses."""
    made: Any = ModuleType("torch")
    made.grad, made.current, made._C = True, 0, SimpleNamespace()
    made.empty = lambda shape, dtype, device: Tensor(gpu.host.array(np.zeros(shape, NUMPYS[dtype])))
    for name in NAMES:
        setattr(made, name, f"torch.{name}")
    made.strided, made.is_grad_enabled = "strided", lambda: made.grad
    made.streams = {}  # those of the other devices
    made.cuda = SimpleNamespace(
        current_stream=lambda device: SimpleNamespace(cuda_stream=made.streams.get(device, made.current))
    )
    made.from_dlpack = Tensor
    monkeypatch.setitem(sys.modules, "torch", made)
    monkeypatch.delitem(sys.modules, "tiledmm.interchange.torch_", raising=False)
    monkeypatch.setattr(calls, "_libraries", {})
    yield made
    sys.modules.pop("tiledmm.interchange.torch_", None)


@pytest.mark.parametrize("layout", ["N", "T"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int64", "complex64", "bool"])
def test_tensors(gpu: Gpu, torch: Any, layout: str, dtype: str) -> None:
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    a, b = integers(1, 20, 30, dtype=kind), integers(2, 30, 40, dtype=kind)
    x1, x2 = gpu.host.array(a, tight(layout)), gpu.host.array(b, tight(layout))
    found = tiledmm.matmul(Tensor(x1), Tensor(x2))
    assert type(found) is Tensor and found.dtype == f"torch.{dtype}"
    np.testing.assert_array_equal(found.array.held.view(kind), (a @ b).astype(kind))
    out = Tensor(gpu.host.array(np.zeros((20, 40), kind)))
    assert tiledmm.matmul(x1, Tensor(x2), out=out) is out
    np.testing.assert_array_equal(out.array.held, (a @ b).astype(kind))


def test_gemm_of_tensors_makes_no_cupy_arrays(gpu: Gpu, torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu.host._run = run_on_simulator  # its kernels have epilogues
    a, b, c, bias = integers(1, 20, 30), integers(2, 30, 40), integers(3, 20, 40), integers(4, 40)
    tensors = [Tensor(gpu.host.array(x)) for x in (a, b, c, bias)]
    monkeypatch.setattr(calls, "_Call", None)  # what makes them
    made, empty = list[Any](), torch.empty
    monkeypatch.setattr(torch, "empty", lambda *given, **others: made.append(empty(*given, **others)) or made[-1])
    x, y, addend, each = tensors
    found = tiledmm.gemm(x, y, addend, alpha=2, beta=-1, bias=each, activation="relu")
    assert found is made[0], "its memory is PyTorch's"
    np.testing.assert_array_equal(found.array.held, np.maximum(2 * (a @ b) - c + bias, 0))
    assert tiledmm.gemm(x, y, addend, beta=1, out=addend) is addend
    np.testing.assert_array_equal(addend.array.held, a @ b + c)
    np.testing.assert_array_equal(tiledmm.gemm(x, x, adjoint_b=True).array.held, a @ a.T)


def test_tensors_are_multiplied_on_their_librarys_stream(gpu: Gpu, torch: Any) -> None:
    a, b = (gpu.host.array(integers(seed, 9, 9)) for seed in (1, 2))
    torch.current = 6
    tiledmm.matmul(Tensor(a), Tensor(b))
    assert gpu.log == [], "all of it is on that stream"
    tiledmm.matmul(Tensor(a), b)
    assert gpu.log == [(6, "waits for", 0), (0, "waits for", 6)]


def test_a_product_of_tensors_runs_on_their_stream(gpu: Gpu, torch: Any) -> None:
    gpu.runs = True
    a, b, c = (gpu.host.array(integers(seed, 9, 9)) for seed in (1, 2, 3))
    torch.current = 6
    tiledmm.matmul(Tensor(a), Tensor(b))
    with gpu.stream(6):
        tiledmm.matmul(Tensor(a), Tensor(b), out=Tensor(c))
    assert gpu.log == [(6, "runs on", 0)] * 2
    np.testing.assert_array_equal(c.held, a.held @ b.held)
    gpu.log.clear()
    tiledmm.gemm(Tensor(a), Tensor(b), out=Tensor(c))
    assert gpu.log == [(6, "runs on", 0)]
    gpu.log.clear()
    with gpu.stream(3):
        tiledmm.matmul(a, Tensor(b))
    assert gpu.log == [(3, "waits for", 6), (3, "runs on", 0), (6, "waits for", 3)]


def test_prepared_tensors(gpu: Gpu, torch: Any) -> None:
    """Check kinds of results, streams, and that an operand that is prepared waits for its library's stream once."""
    gpu.runs, torch.current = True, 6
    a, b = (gpu.host.array(integers(seed, 300, 300)) for seed in (1, 2))
    p = tiledmm.prepare(Tensor(b))
    assert gpu.log == [(0, "waits for", 6)] and type(p.array) is type(b) and p.data.ptr == b.data.ptr
    ab, ba, bb = a.held @ b.held, b.held @ a.held, b.held @ b.held
    for product, expected, result, stream in (
        (lambda: Tensor(a) @ p, ab, Tensor, 6),
        (lambda: p @ Tensor(a), ba, Tensor, 6),
        (lambda: tiledmm.matmul(a, p), ab, type(a), 0),
        (lambda: tiledmm.matmul(p, p), bb, type(a), 0),
        (lambda: tiledmm.gemm(Tensor(a), p), ab, Tensor, 6),
        (lambda: tiledmm.gemm(p, Tensor(a), out=Tensor(gpu.host.array(a.held))), ba, Tensor, 6),
    ):
        gpu.log.clear()
        found = product()
        assert type(found) is result and {at for at, what, _ in gpu.log if what == "runs on"} == {stream}
        np.testing.assert_array_equal((found.array if result is Tensor else found).held, expected)
    gpu.log.clear()
    tiledmm.matmul(Tensor(a), p)
    tiledmm.gemm(Tensor(a), p, alpha=2)
    assert {what for _, what, _ in gpu.log} == {"runs on"}, "no stream waits"
    of_simulator = tiledmm.simulator.prepare(b.held)
    for product in (tiledmm.matmul, tiledmm.gemm):
        with pytest.raises(OperandTypeError, match="simulator"):
            product(Tensor(a), of_simulator)
        with pytest.raises(OperandTypeError, match="out"):
            product(Tensor(a), Tensor(b), out=p)


def test_prepared_arrays_of_other_libraries(gpu: Gpu) -> None:
    a, b = integers(1, 20, 300), integers(2, 300, 40)
    x1, x2 = gpu.host.array(a), gpu.host.array(b)
    for array in (ByDlpack(x2), WithInterface(x2, stream=5), WithInterface(x2)):
        gpu.log.clear()
        p = tiledmm.prepare(array)
        assert gpu.log == ([(0, "waits for", 5)] if getattr(array, "entries", {}) else [])
        for left, kind in ((x1, type(x1)), (ByDlpack(x1), ByDlpack), (WithInterface(x1), type(x1))):
            found = tiledmm.matmul(left, p, variant="split_float32")
            assert type(found) is kind
            np.testing.assert_array_equal((found.array if kind is ByDlpack else found).held, a @ b)
        out = WithInterface(gpu.host.array(np.zeros((20, 40), "f4")))
        assert tiledmm.matmul(x1, p, out=out) is out
        np.testing.assert_array_equal(out.array.held, a @ b)
    with pytest.raises(OperandTypeError, match=r"^b "):
        tiledmm.prepare(ByDlpack(x2, (1, 0)))


@pytest.mark.parametrize("stream", [0, 6])
def test_results_are_tensors_from_the_beginning(gpu: Gpu, torch: Any, stream: int) -> None:
    """Check that results are allocated by PyTorch, since CuPy's pool would free memory on another stream."""
    del torch.from_dlpack
    torch.current = stream
    a, b = (gpu.host.array(integers(seed, 9, 9)) for seed in (1, 2))
    for product in (tiledmm.matmul, tiledmm.gemm):
        np.testing.assert_array_equal(product(Tensor(a), Tensor(b)).array.held, a.held @ b.held)
    turned = tiledmm.matmul(Tensor(a), Tensor(b), order="F")
    np.testing.assert_array_equal(turned.array.held, a.held @ b.held)
    assert turned.stride() == (1, 9)


def test_a_result_that_cupy_made_becomes_a_tensor(gpu: Gpu, torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = gpu.host.array(integers(1, 9, 9))
    for module in (calls, tiledmm.api):
        monkeypatch.setattr(module, "plan_of", lambda *_: SimpleNamespace(run=lambda *_: x))
    for product in (tiledmm.matmul, tiledmm.gemm):
        found = product(Tensor(x), Tensor(x))
        assert type(found) is Tensor and found.array is x


def elsewhere(x: Any, number: int = 1) -> Tensor:
    """Return a tensor on another device."""
    return Tensor(x, device=SimpleNamespace(type="cuda", index=number))


def test_tensors_on_a_device_that_is_not_the_current_one(gpu: Gpu, torch: Any) -> None:
    gpu.runs = True
    a, b, c = integers(1, 9, 9), integers(2, 9, 9), integers(3, 9, 9)
    x1, x2, x3 = map(gpu.host.array, (a, b, c))
    found = tiledmm.matmul(elsewhere(x1), elsewhere(x2))
    np.testing.assert_array_equal(found.array.held, a @ b)
    assert tiledmm.gemm(elsewhere(x1), elsewhere(x2), out=(out := elsewhere(x3))) is out
    np.testing.assert_array_equal(x3.held, a @ b)
    assert gpu.log == [(0, "runs on", 1)] * 2
    gpu.log.clear()
    torch.streams[1] = 9
    tiledmm.matmul(elsewhere(x1), elsewhere(x2))
    with gpu.on(1):
        tiledmm.matmul(elsewhere(x1), elsewhere(x2))
        tiledmm.gemm(elsewhere(x1), elsewhere(x2))
    assert [entry for entry in gpu.log if "runs on" in entry] == [(9, "runs on", 1)] * 3


@pytest.mark.parametrize("name", ["x1", "x2", "out"])
@pytest.mark.parametrize("shape", [(4, 4), (0, 0)])
def test_tensors_on_different_devices(gpu: Gpu, torch: Any, name: str, shape: tuple[int, int]) -> None:
    x = gpu.host.array(np.ones(shape, "f4"))
    arrays = {each: (elsewhere if each == name else Tensor)(x) for each in ("x1", "x2", "out")}
    apart = "x1 .*1.*x2 .*0" if name == "x1" else f"x1 .*0.*{name} .*1"
    with pytest.raises(OperandTypeError, match=apart):
        tiledmm.matmul(arrays["x1"], arrays["x2"], out=arrays["out"])


@pytest.mark.parametrize("name", ["a", "b", "c", "bias", "alpha", "beta", "out"])
def test_tensors_of_gemm_on_different_devices(gpu: Gpu, torch: Any, name: str) -> None:
    shapes = {"a": (4, 4), "b": (4, 4), "c": (4, 4), "bias": (4,), "alpha": (4,), "beta": (), "out": (4, 4)}
    arrays = {
        each: (elsewhere if each == name else Tensor)(gpu.host.array(np.ones(shape, "f4")))
        for each, shape in shapes.items()
    }
    apart = "a .*1.*b .*0" if name == "a" else f"a .*0.*{name} .*1"
    with pytest.raises(OperandTypeError, match=apart):
        tiledmm.gemm(arrays.pop("a"), arrays.pop("b"), **arrays)


def test_tensors_and_other_arrays_make_no_native_call(gpu: Gpu, torch: Any) -> None:
    a, b, c = integers(1, 9, 9), integers(2, 9, 9), integers(3, 9, 9)
    x1, x2, x3 = map(gpu.host.array, (a, b, c))
    assert type(tiledmm.matmul(Tensor(x1), x2)) is Tensor and type(tiledmm.matmul(x1, Tensor(x2))) is type(x1)
    assert tiledmm.matmul(Tensor(x1), Tensor(x2), out=x3) is x3
    np.testing.assert_array_equal(x3.held, a @ b)
    assert tiledmm.gemm(Tensor(x2), Tensor(x1), out=x3) is x3
    np.testing.assert_array_equal(x3.held, b @ a)


@pytest.mark.parametrize("other", [[[1.0]], 3, np.ones((3, 3), "f4"), "text"])
def test_what_stands_beside_tensors_and_is_no_array(gpu: Gpu, torch: Any, other: Any) -> None:
    x = Tensor(gpu.host.array(integers(1, 3, 3)))
    with pytest.raises(OperandTypeError, match=r"^x2 "):
        tiledmm.matmul(x, other)
    with pytest.raises(OperandTypeError, match=r"^b "):
        tiledmm.gemm(x, other)
    for product in (tiledmm.matmul, tiledmm.gemm):
        with pytest.raises(OperandTypeError, match=r"^out "):
            product(x, x, out=other)


def test_a_subclass_is_of_its_parents_library(gpu: Gpu, torch: Any) -> None:
    class Parameter(Tensor):
        pass

    Parameter.__module__ = "somebodys"
    a = integers(1, 9, 9)
    x = Parameter(gpu.host.array(a))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calls, "_Call", None)  # what makes CuPy's arrays
        np.testing.assert_array_equal(tiledmm.matmul(x, Tensor(x.array)).array.held, a @ a)
    assert type(tiledmm.matmul(gpu.host.array(a), x)) is type(x.array)


def test_tensors_are_explained(gpu: Gpu, torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls.cupy.cuda, "Device", lambda number: contextlib.nullcontext(), raising=False)
    x = gpu.host.array(integers(1, 9, 9))
    explained = tiledmm.explain(Tensor(x), Tensor(x), target="sm_80")
    assert str(explained) == str(tiledmm.explain(x, x, target="sm_80"))
    with pytest.raises(OperandTypeError, match=r"x1 .*\[1\]"):
        tiledmm.explain([1], x)


def test_expanded_tensors(gpu: Gpu, torch: Any) -> None:
    row, b = integers(1, 1, 30), integers(2, 30, 40)
    expanded = Tensor(gpu.host.array(row), shape=(20, 30), stride=lambda: (0, 1))
    found = tiledmm.matmul(expanded, Tensor(gpu.host.array(b)))
    np.testing.assert_array_equal(found.array.held, np.broadcast_to(row, (20, 30)) @ b)


def test_tensors_that_are_refused(gpu: Gpu, torch: Any) -> None:
    x = gpu.host.array(integers(1, 3, 3))
    for others, names in (
        ({"is_cuda": False, "device": SimpleNamespace(type="cpu", index=None)}, r"'cpu'.*NAME\.cuda\(\)"),
        ({"layout": "sparse_coo"}, r"sparse_coo.*NAME\.to_dense\(\)"),
        ({"requires_grad": True}, r"torch\.no_grad\(\).*NAME\.detach\(\)"),
        ({"dtype": "torch.float8_e4m3fn"}, "torch.float8_e4m3fn"),
    ):
        good, bad, added = Tensor(x), Tensor(x, **others), {"c": Tensor(x), "beta": 1}
        refused: list[tuple[str, Any, tuple[Any, Any], dict[str, Any]]] = [
            ("x1", tiledmm.matmul, (bad, good), {}),
            ("x2", tiledmm.matmul, (good, bad), {}),
            ("x2", tiledmm.matmul, (x, bad), {}),
            ("b", tiledmm.gemm, (x, bad), {}),
            ("b", tiledmm.gemm, (good, bad), {}),
            ("b", tiledmm.gemm, (good, bad), added),
            ("bias", tiledmm.gemm, (good, good), {"bias": bad}),
            *(("out", product, (good, good), {"out": bad}) for product in (tiledmm.matmul, tiledmm.gemm)),
            *((name, tiledmm.gemm, (good, good), added | {name: bad}) for name in ("c", "bias", "alpha")),
        ]
        for name, product, operands, keywords in refused:
            with pytest.raises(
                (OperandTypeError, UnsupportedTypeError), match=f"^{name} .*{names.replace('NAME', name)}"
            ):
                product(*operands, **keywords)
    torch.grad = False
    tiledmm.matmul(Tensor(x), Tensor(x, requires_grad=True))
    for bits in ("conjugated", "negated"):
        tiledmm.matmul(Tensor(x, **{bits: True}), Tensor(x))
        with pytest.raises(OperandTypeError, match=r"^out "):
            tiledmm.matmul(x, x, out=Tensor(x, **{bits: True}))
        for product in (tiledmm.matmul, tiledmm.gemm):
            with pytest.raises(OperandTypeError, match=r"^out "):
                product(Tensor(x), Tensor(x), out=Tensor(x, **{bits: True}))


@pytest.mark.parametrize("flags", [{"conjugated": True}, {"negated": True}, {"conjugated": True, "negated": True}])
@pytest.mark.parametrize("other", ["a tensor", "an array"])
def test_elements_that_are_conjugated_or_negated_when_they_are_read(
    gpu: Gpu, torch: Any, flags: dict[str, bool], other: str
) -> None:
    values = integers(1, 5, 5, dtype="complex64") + 1j * integers(2, 5, 5, dtype="complex64")
    x, y = Tensor(gpu.host.array(values), **flags), gpu.host.array(values)
    seen = values.conj() if flags.get("conjugated") else values
    seen = -seen if flags.get("negated") else seen
    second = Tensor(y) if other == "a tensor" else y
    for first, found in ((x, tiledmm.matmul(x, second)), (second, tiledmm.matmul(second, x))):
        wanted = seen @ values if first is x else values @ seen
        np.testing.assert_array_equal(getattr(found, "array", found).held, wanted)


def test_tensors_in_another_order_of_memory(gpu: Gpu, torch: Any) -> None:
    a, b = integers(1, 2, 5, 6), integers(2, 6, 7)
    x, y = Tensor(gpu.host.array(a)), Tensor(gpu.host.array(b))
    for order, strides in (("C", (35, 7, 1)), ("F", (1, 2, 10))):
        found = tiledmm.matmul(x, y, order=order)
        assert found.stride() == strides
        np.testing.assert_array_equal(found.array.held, a @ b)


@pytest.mark.parametrize("order", ["C", "F"])
def test_new_tensors_are_on_the_current_device(
    gpu: Gpu, torch: Any, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tiledmm.interchange.torch_ as ours

    asked, empty = list[int](), torch.empty
    monkeypatch.setattr(ours, "current_device", lambda: 3)
    monkeypatch.setattr(
        torch, "empty", lambda shape, dtype, device: asked.append(device) or empty(shape, dtype=dtype, device=device)
    )
    made = ours.allocate((2, 3), np.dtype("f4"), order)
    assert asked == [3] and made.device_id == 3
    assert (made.shape, made.strides) == ((2, 3), (12, 4) if order == "C" else (4, 8))


def test_tensors_on_another_device_than_the_current_one(gpu: Gpu, torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    entered, at = list[int](), [0]

    @contextlib.contextmanager
    def device(number: int) -> Iterator[None]:
        entered.append(number)
        at.append(number)
        yield
        at.pop()

    monkeypatch.setattr(calls.cupy.cuda, "Device", device, raising=False)
    monkeypatch.setattr(calls.devices, "current_device", lambda: at[-1])
    a, b = integers(1, 4, 4), integers(2, 4, 4)
    there = [Tensor(gpu.host.array(x), device=SimpleNamespace(type="cuda", index=1)) for x in (a, b)]
    found = []
    monkeypatch.setattr(calls, "plan_of", lambda x, y, *others: found.append((x, y)) or SimpleNamespace(run=run))
    monkeypatch.setattr(tiledmm.api, "plan_of", calls.plan_of)

    def run(x: Any, y: Any, *others: Any) -> Any:
        assert at[-1] == 1 and (x.data.device_id, y.data.device_id) == (1, 1)
        return gpu.host.array(a @ b)

    assert type(tiledmm.matmul(*there)) is Tensor and type(tiledmm.gemm(*there)) is Tensor
    assert entered == [1, 1] and len(found) == 2


@pytest.mark.parametrize("current", [0, 6])
@pytest.mark.parametrize("given", [{}, {"c": "x", "beta": 1}, {"bias": "x"}, {"alpha": "x"}])
def test_tensors_and_their_epilogue_are_on_one_stream(
    gpu: Gpu, torch: Any, current: int, given: dict[str, Any]
) -> None:
    """Check that nothing waits, even if CuPy's current stream is another, since all work is on the library's."""
    gpu.host._run = run_on_simulator
    torch.current, values = current, integers(1, 9, 9)
    x, seen = Tensor(gpu.host.array(values)), list[int]()
    launched = gpu.host._run
    gpu.host._run = lambda *arguments: seen.append(gpu.current[-1].ptr) or launched(*arguments)
    tiledmm.gemm(x, x, **{name: x if each == "x" else each for name, each in given.items()})
    assert gpu.log == [] and {*seen} == {current}
    with gpu.stream(3):
        tiledmm.matmul(x, x)
    assert seen[-1] == current and gpu.log == []


@pytest.mark.parametrize("name", ["b", "c", "bias", "alpha", "out"])
def test_the_product_waits_for_the_streams_of_all_arrays(gpu: Gpu, name: str) -> None:
    gpu.host._run = run_on_simulator
    x = gpu.host.array(integers(1, 9, 9))
    given = {"b": x, "c": x, "beta": 1} | {name: WithInterface(gpu.host.array(integers(2, 9, 9)), stream=5)}
    with gpu.stream(3):
        tiledmm.gemm(x, given.pop("b"), **given)
    assert gpu.log == [(3, "waits for", 5), (5, "waits for", 3)]


# ---- devices of arrays ----


def test_the_device_of_an_array(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = protocols.cupy.cuda.runtime
    monkeypatch.setattr(runtime, "getDevice", lambda: 7)
    monkeypatch.setattr(runtime, "pointerGetAttributes", lambda address: SimpleNamespace(device=address // 1000))
    assert [protocols.device(ByDlpack(None, each), "x") for each in ((2, 0), (2, 3), (13, 1))] == [0, 3, 1]
    for kind in (1, 3, 7, 10, -1):
        with pytest.raises(OperandTypeError, match=r"^x "):
            protocols.device(ByDlpack(None, (kind, 0)), "x")

    class Broken(ByDlpack):
        def __dlpack_device__(self) -> tuple[int, int]:
            raise BufferError

    with pytest.raises(OperandTypeError, match=r"^x "):
        protocols.device(Broken(None), "x")
    for shape, address, device in (((3, 3), 4000, 4), ((0, 3), 4000, 7), ((3, 3), 0, 7), ((), 2000, 2)):
        array = SimpleNamespace(shape=shape, dtype=np.dtype("f4"), data=SimpleNamespace(ptr=address), strides=None)
        assert protocols.device(WithInterface(array), "x") == device


def test_the_stream_of_an_array() -> None:
    array = SimpleNamespace(shape=(3,), dtype=np.dtype("f4"), data=SimpleNamespace(ptr=8), strides=None)
    assert [protocols.stream(WithInterface(array, **each), 0) for each in ({}, {"stream": None}, {"stream": 2})] == [
        None, None, 2,
    ]  # fmt: skip
    assert protocols.stream(ByDlpack(array), 0) is None


# ---- JAX ----


class JaxArray:
    """A stand-in with what the package uses of a JAX array."""

    def __init__(self, array: Any, device: tuple[int, int] = (2, 0), dtype: Any = None) -> None:
        self.array, self.shape, self.dtype, self.device = array, array.shape, dtype or array.dtype, device
        self.asked: list[Any] = []

    def unsafe_buffer_pointer(self) -> int:
        return int(self.array.data.ptr)

    def __dlpack__(self, stream: int | None = None, **_: Any) -> Any:
        self.asked.append(stream)
        return self

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def view(self, dtype: Any) -> JaxArray:
        return JaxArray(self.array, dtype=dtype)


class JaxTracer(JaxArray):
    """A stand-in for an array while a function is traced."""


JaxArray.__module__ = JaxTracer.__module__ = "jaxlib.xla"


@pytest.fixture
def jax(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Provide a stand-in for the parts of the module that the package uses."""
    made: Any = ModuleType("jax")
    made.core, made.dlpack = SimpleNamespace(Tracer=JaxTracer), SimpleNamespace(from_dlpack=JaxArray)
    made.numpy = SimpleNamespace(bfloat16="bfloat16")
    monkeypatch.setitem(sys.modules, "jax", made)
    monkeypatch.delitem(sys.modules, "tiledmm.interchange.jax_", raising=False)
    monkeypatch.setattr(calls, "_libraries", {})
    import tiledmm.interchange.jax_ as ours

    monkeypatch.setattr(ours, "cupy", calls.cupy)
    yield made
    sys.modules.pop("tiledmm.interchange.jax_", None)


def test_arrays_of_jax(gpu: Gpu, jax: Any) -> None:
    a, b = integers(1, 2, 5, 6), integers(2, 6, 7)
    found = tiledmm.matmul(JaxArray(gpu.host.array(a)), JaxArray(gpu.host.array(b)))
    assert type(found) is JaxArray and found.dtype == np.float32
    np.testing.assert_array_equal(found.array.held, a @ b)


@pytest.mark.parametrize("ptr", [0, 4])
def test_bfloat16_of_jax(gpu: Gpu, jax: Any, ptr: int) -> None:
    a, b = integers(1, 2, 5, 6, dtype=ml_dtypes.bfloat16), integers(2, 6, 7, dtype=ml_dtypes.bfloat16)
    x, y = JaxArray(gpu.host.array(a)), JaxArray(gpu.host.array(b))
    with gpu.stream(ptr):
        found = tiledmm.matmul(x, y)
    assert type(found) is JaxArray and found.dtype == "bfloat16" and found.array.dtype == np.int16
    np.testing.assert_array_equal(found.array.held.view(ml_dtypes.bfloat16), (a @ b).astype(ml_dtypes.bfloat16))
    assert x.asked == y.asked == [ptr or 1], "DLPack's number of the default stream"


def test_arrays_of_jax_that_are_refused(gpu: Gpu, jax: Any) -> None:
    x = JaxArray(gpu.host.array(integers(1, 3, 3)))
    with pytest.raises(OperandTypeError, match=r"^x2 "):
        tiledmm.matmul(x, JaxTracer(x.array))
    with pytest.raises(OperandTypeError, match=r"^out .*JAX"):
        tiledmm.matmul(x, x, out=x)
    with pytest.raises(OperandTypeError, match=r"^x1 "):
        tiledmm.matmul(JaxArray(x.array, (1, 0)), x)
