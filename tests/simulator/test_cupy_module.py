"""Tests of ``tiledmm.simulator.cupy``, and of tutorial scripts that import it in place of CuPy."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tiledmm.errors import ConfigError, DeviceError, OperandTypeError, ShapeError, SimulationError, UnsupportedTypeError
from tiledmm.simulator import cupy as cp

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.py"))

TWICE = 'extern "C" __global__ void twice(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] *= 2; }'


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_runs_after_one_changed_import(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("import cupy as cp\n") == 1 and text.count("cupy") == 1
    text = text.replace("import cupy as cp\n", "from tiledmm.simulator import cupy as cp\n")
    exec(compile(text, str(path), "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out


# Arrays


def test_new_arrays_are_nan() -> None:
    for array in (cp.empty(5), cp.empty((2, 3), cp.float32, "F"), cp.empty_like(cp.ones(3)), cp.ndarray((4,), "f2")):
        assert type(array) is cp.ndarray
        assert cp.isnan(array).all()
    assert cp.empty(2, np.int32).tolist() == cp.empty(2, np.int32).tolist() != [-1, -1]
    assert cp.empty((2, 3), order="F").flags.f_contiguous


def test_what_is_computed_is_an_array_of_the_module() -> None:
    x = cp.arange(6, dtype=cp.float32).reshape(2, 3)
    for result in (
        x + 1, 2 * x, x @ x.T, x.T, x[0], x[0, 0], x[:, 1], x[x > 2], x.sum(), x.mean(axis=0), x.argmax(),
        x.astype(int), x.copy(), cp.where(x > 1, x, 0), cp.dot(x, x.T), cp.allclose(x, x), cp.linalg.norm(x),
        cp.fft.fft(x), cp.max(x), np.sum(x), np.sqrt(x), cp.random.rand(2), cp.eye(2), cp.asarray([1]),
        cp.percentile(x, 30), cp.unique(x, return_counts=True)[1], cp.linalg.eigh(x @ x.T)[0], next(iter(x)),
    ):  # fmt: skip
        assert type(result) is cp.ndarray, result
    assert (x[1, 2].shape, x[1, 2].item(), f"{x[1, 2]:.1f}") == ((), 5.0, "5.0")
    assert repr(x[0]) == "array([0., 1., 2.], dtype=float32)" and str(x[0]) == "[0. 1. 2.]"
    x[1, 2] += 1
    x *= 2
    assert x[1, 2] == 12
    assert cp.add(x, 1, out=x) is x


def test_copies_between_host_and_device() -> None:
    host = np.arange(6.0).reshape(2, 3)
    for function in (cp.asarray, cp.array, cp.ascontiguousarray):
        x = function(host)
        x[0, 0] = 7
        assert host[0, 0] == 0
    assert cp.asarray(x) is x
    for back in (x.get(), cp.asnumpy(x), x.get(order="F")):
        assert type(back) is np.ndarray and not np.may_share_memory(back, np.asarray(x))
        np.testing.assert_array_equal(back, [[7, 1, 2], [3, 4, 5]])
    out = np.empty((2, 3))
    assert x.get(out=out) is out and cp.asnumpy(x, out=out) is out and out[0, 0] == 7
    x.set(host)
    assert x[0, 0] == 0
    with pytest.raises(ShapeError, match=r"float64.*\(2, 3\).*float32"):
        x.set(host.astype(np.float32))
    with pytest.raises(OperandTypeError, match="list"):
        x.set([1])
    assert cp.asnumpy([1, 2]).tolist() == [1, 2]
    assert cp.get_array_module(host, x) is cp and cp.get_array_module(host) is np


def test_arrays_of_the_host_are_refused_where_cupy_refuses_them() -> None:
    x, host = cp.ones(3), np.ones(3)
    kernel = cp.RawKernel(TWICE, "twice")
    for call in (
        lambda: x + host, lambda: host + x, lambda: cp.dot(x, host), lambda: cp.stack([x, host]),
        lambda: np.allclose(x, host), lambda: kernel((1,), (3,), (host, 3)),
    ):  # fmt: skip
        with pytest.raises(OperandTypeError, match=r"cp.asarray\(x\)"):
            call()
    cp.testing.assert_array_equal(x, host)
    assert (x + np.float64(1)).tolist() == [2, 2, 2]


def test_an_array_is_no_number_for_a_kernel() -> None:
    kernel = cp.RawKernel(TWICE, "twice")
    x, n = cp.ones(3, cp.float32), cp.array([3], np.int32)
    with pytest.raises(OperandTypeError, match=r"parameter n .*int .*x.item\(\)"):
        kernel((1,), (3,), (x, n[0]))
    kernel((1,), (3,), (x, n[0].item()))
    assert x.tolist() == [2, 2, 2]


def test_arrays_of_one_element_are_passed_by_value() -> None:
    text = """
    extern "C" __global__ void add(double* out, double3 v, int n) { out[0] += v.x * n; out[1] += v.y; out[2] += v.z; }
    """
    kernel, out = cp.RawKernel(text, "add"), cp.zeros(3)
    vector = np.array([1.0, 2.0, 3.0])
    kernel((1,), (1,), (out, vector.view(np.dtype([(name, "f8") for name in "xyz"])), np.array([[7]], np.int32)))
    assert out.tolist() == [7, 2, 3]
    for v, n in ((vector, np.array([7], np.int32)), (np.zeros((), "f8,f8,f8"), np.array([1, 2], np.int32))):
        with pytest.raises(OperandTypeError, match="NumPy array"):
            kernel((1,), (1,), (out, v, n))


COPY = """
extern "C" __global__ void copy(const float* m, float* o, int n, int ld) {
    if (threadIdx.x < n) o[threadIdx.x] = m[threadIdx.x];
}
"""


def test_views_whose_strides_a_kernel_does_not_get_are_warned_of() -> None:
    kernel, o, m = cp.RawKernel(COPY, "copy"), cp.zeros(6, cp.float32), cp.arange(6, dtype=cp.float32).reshape(2, 3)
    for view, n, ld in ((m.T, 2, 3), (m[:, :2], 2, 0), (m[:, ::2], 1, 3), (m[::-1], 2, 3), (m[0, ::2], 1, 3)):
        kernel((1,), (6,), (view, o, n, ld))
        (warning,) = kernel.report.warnings
        assert f"m is a view of shape {view.shape} with strides of {view.strides} bytes" in warning.message
    for array, ld in (
        (m, 3),
        (m[1:], 0),
        (cp.asfortranarray(m), 2),
        (m[:, :2], 3),
        (m[:, :2], 12),
        (m[0, ::2], 2),
        (m[:1].T, 0),
    ):
        kernel((1,), (6,), (array, o, 1, ld))
        assert not kernel.report.warnings, (array.shape, array.strides)
    with pytest.raises(SimulationError, match=r"array m \(12 bytes, a view of shape \(2, 3\) with strides \(0, 4\)\)"):
        kernel((1,), (6,), (cp.broadcast_to(m[0], (2, 3)), o, 6, 0))


def test_complex_numbers() -> None:
    """Compute with CuPy's ``complex.cuh``, and with ``cuComplex.h`` as it is and translated."""
    text = r"""
    #include <cupy/complex.cuh>
    extern "C" __global__ void f(const complex<float>* a, const complex<float>* b, complex<float>* c, float s) {
        __shared__ complex<float> tile[32];
        int i = threadIdx.x;
        tile[i] = a[i];
        __syncthreads();
        complex<float> z = tile[i] * s + b[i] / (a[i] + 1.0f) - exp(a[i] * 0.1f) + conj(b[i]) * 2;
        z += thrust::sqrt(a[i]);
        z *= b[i];
        if (z == 0 || abs(z) < 0) z = 0;
        c[i] = thrust::complex<float>(real(z), z.imag()) + complex<float>(0, norm(a[i]) * arg(b[i])) + pow(a[i], 2);
    }
    """
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((2, 64), np.float32)).view(np.complex64)
    c, on_device = cp.zeros(32, cp.complex64), cp.asarray(a)
    cp.RawKernel(text, "f")((1,), (32,), (on_device, cp.asarray(b), c, np.float32(2)))
    z = (a * 2 + b / (a + 1) - np.exp(a * 0.1) + b.conj() * 2 + np.sqrt(a)) * b
    np.testing.assert_allclose(c.get(), z + 1j * np.abs(a) ** 2 * np.angle(b) + a**2, rtol=1e-4)
    text = r"""
    #include <cuComplex.h>
    extern "C" __global__ void g(const cuFloatComplex* a, cuFloatComplex* c) {
        int i = threadIdx.x;
        cuComplex z = cuCaddf(cuCmulf(a[i], make_cuFloatComplex(0, 1)), cuConjf(a[i]));
        c[i] = make_cuFloatComplex(cuCrealf(z), cuCimagf(z) + cuCabsf(z));
    #ifdef TRANSLATED
        c[i] = c[i] * complex<float>(2, 0);
    #endif
    }
    """
    for options, factor in (((), 1), (("-DTRANSLATED",), 2)):
        cp.RawKernel(text, "g", options, translate_cucomplex=factor == 2)((1,), (32,), (on_device, c))
        z = a * 1j + a.conj()
        np.testing.assert_allclose(c.get(), factor * (z + 1j * np.abs(z)), rtol=1e-5)


def test_structures_are_passed_as_cupy_passes_them() -> None:
    text = """
    struct Pair { int first; float second; };
    extern "C" __global__ void multiply(float* out, Pair pair) { out[0] = pair.first * pair.second; }
    """
    kernel, out = cp.RawKernel(text, "multiply"), cp.zeros(1, np.float32)
    pair = np.array((3, 0.5), "i4,f4")
    for each in (pair, pair[()]):
        kernel((1,), (1,), [out, each])
        assert out[0] == 1.5
    with pytest.raises(OperandTypeError, match="bytes"):
        kernel((1,), (1,), (out, pair.tobytes()))


@pytest.mark.parametrize("dtype", [object, str, "datetime64[s]", np.longdouble])
def test_types_that_no_gpu_has(dtype: Any) -> None:
    with pytest.raises(UnsupportedTypeError, match="dtype"):
        cp.empty(3, dtype)
    with pytest.raises(UnsupportedTypeError):
        cp.zeros(3, dtype)


# Pointers


def test_pointers() -> None:
    kernel = cp.RawKernel(TWICE, "twice")
    x = cp.ones(8, cp.float32)
    kernel((1,), (32,), (x.data, 2))
    kernel((1,), (32,), (x.data + 8, 2))
    kernel((1,), (32,), (x.data.ptr + 16, 2))
    kernel((1,), (32,), (x[6:].data.ptr, 2))
    assert x.tolist() == [2] * 8
    assert x.data.ptr == x.T.data.ptr == x.data.ptr + 4 - 4 and x[1:].data.ptr - x.data.ptr == 4
    assert int(x[1:].data - 4) == x.data.ptr
    with pytest.raises(OperandTypeError, match=r"parameter n .*pointer"):
        kernel((1,), (32,), (x, x.data))
    for address in (int(x.data.ptr), np.uint64(x.data.ptr), x.__cuda_array_interface__["data"][0]):
        kernel((1,), (32,), (address, 1))
    assert x.tolist() == [16, *[2] * 7]
    for address in (12345, np.int32(4), 0.5):
        with pytest.raises(OperandTypeError, match=r"x is a float\*"):
            kernel((1,), (32,), (address, 2))
    with pytest.raises(ConfigError, match="byte -4"):
        (x.data - 4).memset(0, 4)


def test_the_array_interface() -> None:
    x = cp.zeros((2, 3), cp.float32)
    assert x.__cuda_array_interface__ == {
        "data": (x.data.ptr, False), "shape": (2, 3), "typestr": "<f4", "descr": [("", "<f4")], "strides": None,
        "stream": 1, "version": 3,
    }  # fmt: skip
    assert x.T.__cuda_array_interface__["strides"] == (4, 12)
    assert cp.zeros(0).__cuda_array_interface__["data"] == (0, False)


def test_copies_by_pointers() -> None:
    x, host = cp.zeros(4, cp.float32), np.arange(4, dtype=np.float32)
    x.data.copy_from_host(ctypes.c_void_p(host.ctypes.data), 8)
    (x.data + 8).copy_from(host.ctypes.data + 8, 8)
    assert x.tolist() == [0, 1, 2, 3]
    y = cp.ndarray((4,), np.float32, cp.cuda.alloc(16))
    assert cp.isnan(y).all()
    y.data.copy_from_async(x.data, 16, cp.cuda.Stream.null)
    y.data.copy_to_host(host[::-1].copy().ctypes.data, 0)
    y.data.memset(0, 4)
    y.data.copy_to_host_async(host.ctypes.data, 16)
    assert host.tolist() == [0, 1, 2, 3] and y.tolist() == x.tolist()
    with pytest.raises(ConfigError, match=r"16 bytes.*byte 8"):
        (y.data + 8).memset(0, 16)
    with pytest.raises(ShapeError, match="16 bytes"):
        cp.ndarray((5,), np.float32, y.data)
    with pytest.raises(OperandTypeError, match="memptr"):
        cp.ndarray((5,), np.float32, host)
    with pytest.raises(OperandTypeError, match="a host address"):
        x.data.copy_from_host(host, 8)


# Random numbers


def test_random_numbers() -> None:
    cp.random.seed(3)
    first = cp.random.rand(2, 3, dtype=cp.float32)
    cp.random.seed(3)
    assert (first.dtype, first.shape) == (np.float32, (2, 3)) and (cp.random.rand(2, 3, dtype="f4") == first).all()
    assert cp.random.random((2,)).dtype == float and cp.random.randn(3, dtype=np.float64).shape == (3,)
    assert cp.random.uniform(-1, 1, (4,), dtype=np.float32).dtype == np.float32
    assert cp.random.normal(0, 1, 5, dtype=np.float32).shape == (5,)
    assert cp.random.randint(0, 5, size=9, dtype=np.int32).dtype == np.int32
    assert type(cp.random.RandomState(1).rand(2)) is cp.ndarray
    generator = cp.random.default_rng(0)
    assert generator.random(4, dtype=np.float32).dtype == np.float32 and type(generator.integers(5)) is cp.ndarray
    assert type(cp.random.permutation(5)) is cp.ndarray
    with pytest.raises(UnsupportedTypeError):
        cp.random.rand(2, dtype=complex)


# Devices, streams, events


def test_the_device_is_marked_as_simulated() -> None:
    assert cp.cuda.runtime.getDeviceCount() == 1 and cp.cuda.is_available() and cp.is_available()
    properties = cp.cuda.runtime.getDeviceProperties(0)
    assert b"simulated" in properties["name"] and properties["multiProcessorCount"] == 132
    with cp.cuda.Device(0) as device:
        assert (device.id, int(device), device.compute_capability) == (0, 0, "90")
        assert device.attributes["MaxSharedMemoryPerBlockOptin"] == 232448 == properties["sharedMemPerBlockOptin"]
        free, total = device.mem_info
        assert 0 < free <= total
        device.use()
        device.synchronize()
    assert cp.ones(3).device == cp.cuda.Device() and "simulated" in repr(device)
    for call in (cp.cuda.Device, cp.cuda.runtime.getDeviceProperties, cp.cuda.runtime.setDevice):
        with pytest.raises(DeviceError, match=r"device 0; got 1"):
            call(1)


def test_streams_and_events() -> None:
    assert cp.cuda.get_current_stream() is cp.cuda.Stream.null
    called = []
    with cp.cuda.Stream() as stream:
        assert cp.cuda.get_current_stream() is stream
        begin, end = stream.record(), cp.cuda.stream.Event()
        with pytest.raises(ConfigError, match="events"):
            cp.cuda.get_elapsed_time(begin, end)
        end.record(stream)
        stream.wait_event(end)
        stream.add_callback(lambda *arguments: called.append(arguments), 1)
        stream.launch_host_func(called.append, 2)
    assert cp.cuda.get_elapsed_time(begin, end) >= 0 and stream.done and end.done
    assert called == [(stream, 0, 1), 2] and cp.cuda.get_current_stream() is cp.cuda.Stream.null
    cp.RawKernel(TWICE, "twice")((1,), (1,), (cp.ones(1, np.float32), 1), stream=stream)
    with cp.cuda.profile():
        cp.cuda.profiler.start()
        cp.cuda.nvtx.RangePush("range")
        cp.cuda.nvtx.RangePop()
        cp.cuda.profiler.stop()


def test_the_memory_pool_knows_what_arrays_use() -> None:
    pool = cp.get_default_memory_pool()
    before = pool.used_bytes()
    x = cp.zeros(1000, np.float32)
    views = (x[1:], x.reshape(10, 100))
    assert pool.used_bytes() - before == pool.total_bytes() - before == 4096
    del x, views
    assert pool.used_bytes() == before
    pool.free_all_blocks()
    pool.set_limit(size=2**30)
    assert (pool.free_bytes(), pool.n_free_blocks(), pool.get_limit()) == (0, 0, 2**30)
    cp.get_default_pinned_memory_pool().free_all_blocks()
    assert np.frombuffer(cp.cuda.alloc_pinned_memory(8), np.float32).shape == (2,)


# What is not there


@pytest.mark.parametrize(
    ("space", "name"),
    [
        ("", "matrix"), ("", "object_"), ("", "no_such"), ("", "ma"), ("random", "no_such"),
        ("random", "default_rngs"), ("cuda", "Graph"), ("cuda.runtime", "malloc"), ("linalg", "no_such"), ("fft", "_x"),
        ("cuda.stream", "x"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_an_attribute_error(space: str, name: str) -> None:
    module: Any = cp
    for each in space.split(".") if space else ():
        module = getattr(module, each)
    assert not hasattr(module, name)
    with pytest.raises(AttributeError, match=f"'{name}'"):
        getattr(module, name)


def test_kernels_that_are_not_supported_say_so() -> None:
    with pytest.raises(ConfigError, match=r"ElementwiseKernel.*RawKernel"):
        cp.ElementwiseKernel("float32 x", "float32 y", "y = x", "same")
    with pytest.raises(ConfigError, match="ReductionKernel"):
        cp.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "sum")


def test_decorators() -> None:
    @cp.fuse
    def plain(x: Any) -> Any:
        return x + 1

    @cp.fuse(kernel_name="named")
    def named(x: Any) -> Any:
        return x + 2

    calls = []

    @cp.memoize(for_each_device=True)
    def kernel(n: int) -> int:
        calls.append(n)
        return n

    assert plain(cp.ones(1)) == 2 and named(cp.ones(1)) == 3
    assert (kernel(4), kernel(4), calls) == (4, 4, [4])


def test_every_public_name_is_there() -> None:
    assert sorted(cp.__all__) == sorted(set(cp.__all__)) and all(hasattr(cp, name) for name in cp.__all__)
    assert sorted(cp.cuda.__all__) == sorted(set(cp.cuda.__all__))
    assert all(hasattr(cp.cuda, name) for name in cp.cuda.__all__)


@pytest.mark.cupy
def test_nothing_is_there_that_cupy_lacks() -> None:
    cupy = pytest.importorskip("cupy")
    assert [name for name in cp.__all__ if not hasattr(cupy, name)] == []
    assert [name for name in cp.cuda.__all__ if not hasattr(cupy.cuda, name)] == []
    for ours, theirs in (
        (cp.cuda.Stream, cupy.cuda.Stream), (cp.cuda.Event, cupy.cuda.Event), (cp.cuda.Device, cupy.cuda.Device),
        (cp.cuda.MemoryPointer, cupy.cuda.MemoryPointer), (cp.cuda.MemoryPool, cupy.cuda.MemoryPool),
        (cp.RawKernel, cupy.RawKernel), (cp.RawModule, cupy.RawModule), (cp.ndarray, cupy.ndarray),
    ):  # fmt: skip
        extra = {"bytes", "elements", "to", "report", "settings"} | set(dir(np.ndarray)) | {"ptr"}
        assert {name for name in vars(ours) if not name.startswith("_")} - extra <= set(dir(theirs)), ours
    names = [name for name in dir(np) if not name.startswith("_") and hasattr(cp, name)]
    lacking = {name for name in names if not hasattr(cupy, name)}
    assert lacking <= {"True_", "False_"}, lacking


UNWRITTEN = r"""
extern "C" __global__ void axpby(const float* x, float* y, float b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float old = y[i];
        y[i] = b == 0 ? x[i] : x[i] + b * old;
    }
}
"""


@pytest.mark.parametrize(("b", "y_line"), [(0, None), (2, 5)])
def test_elements_of_empty_that_nobody_wrote(b, y_line):
    kernel = cp.RawKernel(UNWRITTEN, "axpby")
    x, y = cp.ones(100, cp.float32), cp.empty(100, cp.float32)
    if y_line is None:
        kernel((4,), (32,), (x, y, cp.float32(b), 100))  # what is read is not used
        kernel((4,), (32,), (x, y, cp.float32(2), 100))
        assert float(y[99]) == 3
    else:
        with pytest.raises(SimulationError, match=r"kernel.cu:5: uninitialised result: .* y\[0\]"):
            kernel((4,), (32,), (x, y, cp.float32(b), 100))
    part = cp.empty(100, cp.float32)
    part[:96] = 1
    with pytest.raises(SimulationError, match=r": 1 finding\n\naxpby, kernel.cu:6: uninitialised result: .* x\[96\]"):
        kernel((4,), (32,), (part, cp.empty(100, cp.float32), cp.float32(0), 100))


def test_a_nan_that_somebody_wrote_is_written():
    x = cp.empty(32, cp.float32)
    x[...] = cp.nan
    y = cp.zeros(32, cp.float32)
    cp.RawKernel(UNWRITTEN, "axpby")((1,), (32,), (x, y, cp.float32(1), 32))
    assert cp.isnan(y).all()


COUNT = r"""
template <typename T> __global__ void count(const T* x, T* total, int* hits, int n) {
    int i = threadIdx.x;
    if (i < n) hits[i % 4] = 1;
    if (i == n - 1) { T sum = 0; for (int k = 0; k < n; ++k) sum += x[k]; total[0] = sum; }
}
"""


@pytest.mark.parametrize("dtype", [np.int32, np.uint64, np.int16, np.uint8])
def test_integers_of_empty_that_nobody_wrote(dtype):
    kind = {"int32": "int", "uint64": "unsigned long long", "int16": "short", "uint8": "unsigned char"}
    name = f"count<{kind[np.dtype(dtype).name]}>"
    kernel = cp.RawModule(code=COUNT, name_expressions=[name]).get_function(name)
    x, total, hits = cp.empty(40, dtype), cp.empty(1, dtype), cp.empty(4, np.int32)
    x[:32] = np.full(32, -1).astype(dtype)  # what a program may write
    kernel((1,), (64,), (x, total, hits, 32))
    assert int(total[0]) == int(x[:32].sum(dtype=dtype))
    with pytest.raises(SimulationError, match=r"kernel.cu:5: uninitialised result: .* of global array x "):
        kernel((1,), (64,), (x, total, hits, 40))
    view = x[8:]
    kernel((1,), (64,), (view, total, hits, 24))
    with pytest.raises(SimulationError, match="uninitialised result"):
        kernel((1,), (64,), (view, total, hits, 32))


def test_a_counter_of_empty_that_nobody_cleared():
    text = 'extern "C" __global__ void add(int* n, int* seen) { if (atomicAdd(n, 1) > 40) seen[0] = 1; }'
    kernel = cp.RawKernel(text, "add")
    with pytest.raises(SimulationError, match="uninitialised result"):
        kernel((1,), (32,), (cp.empty(1, np.int32), cp.zeros(1, np.int32)))
    kernel((1,), (32,), (cp.zeros(1, np.int32), cp.zeros(1, np.int32)))
