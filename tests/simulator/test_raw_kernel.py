"""Tests of ``simulator.RawKernel`` and ``simulator.RawModule``."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tiledmm import simulator
from tiledmm.errors import CompilationError, ConfigError, OperandTypeError, SimulationError
from tiledmm.simulator.build.compile_options import CompileOptions
from tiledmm.simulator.build.translation.syntax import has_c_linkage, kernels_in
from tiledmm.simulator.execute.settings import Settings

SCALE = """
extern "C" __global__ void __launch_bounds__(64) scale(float* x, int n, float a, double b) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = a * x[i] + b;
}
"""


def test_a_kernel_writes_arrays_in_place_and_keeps_its_report() -> None:
    scale = simulator.RawKernel(SCALE, "scale")
    assert scale.report is None
    x = np.arange(100, dtype=np.float32)
    scale((2,), (64,), (x, 100, np.float32(2), 1.0))
    np.testing.assert_array_equal(x, 2 * np.arange(100) + 1)
    assert scale.report is not None and scale.report.ok and scale.report.source.global_load.lanes == 100
    assert (scale.code, scale.name, scale.options, scale.backend) == (SCALE, "scale", (), "nvrtc")
    scale.kernel((0, 1), (64,), (x, 0, np.float32(2), 1.0))  # CuPy launches at least one block
    assert scale.report.grid == (1, 1, 1)


def test_a_wrong_kernel_raises_after_it_has_written() -> None:
    scale = simulator.RawKernel(SCALE, "scale")
    x = np.ones(60, np.float32)
    with pytest.raises(SimulationError, match=r"kernel\.cu:4: global access out of bounds.* array x"):
        scale((1,), (64,), (x, 64, np.float32(2), 1.0))
    assert (x == 3).all()
    assert scale.report is not None and not scale.report.ok
    with pytest.raises(SimulationError, match=r"__launch_bounds__.* 64"):
        scale((1,), (128,), (x, 60, np.float32(1), 0.0))


X = np.ones(4, np.float32)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (((1,), (1,), (X, 4, 2.0, 1.0)), OperandTypeError, r"a is a float; .*float 2\.0.*double"),
        (((1,), (1,), (X, 4, np.float32(2), 1)), OperandTypeError, "b is a double; .*int 1"),
        (((1,), (1,), (X, 4.0, np.float32(2), 1.0)), OperandTypeError, "n is an int; .*float 4.0"),
        (((1,), (1,), (X, np.int8(4), np.float32(2), 1.0)), OperandTypeError, "n is an int; .*numpy.int8"),
        (((1,), (1,), (X, 4)), OperandTypeError, "4 parameters"),
        (((1,), (1,), X), OperandTypeError, "args.*ndarray"),
        ((1, (1,), (X,)), OperandTypeError, "grid.*tuple"),
        (((1,), [1], (X,)), OperandTypeError, "block.*tuple"),
        (((1,), (2048,), (X, 4, np.float32(2), 1.0)), ConfigError, "block.*2048"),
    ],
)  # fmt: skip
def test_launches_that_cupy_would_refuse_or_get_wrong(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        simulator.RawKernel(SCALE, "scale")(*call)


def test_structures_and_complex_numbers_have_the_sizes_that_cupy_passes() -> None:
    text = """
    struct Pair { double re, im; };
    struct Small { float re, im; };
    extern "C" __global__ void sum(double* out, Pair a, Small b) { out[0] = a.re + a.im + b.re + b.im; }
    """
    out = np.zeros(1)
    kernel = simulator.RawKernel(text, "sum")
    kernel((1,), (1,), (out, 1 + 2j, np.complex64(3 + 4j)))
    assert out[0] == 10
    with pytest.raises(OperandTypeError, match=r"b is a Small of 8 bytes.*16 bytes"):
        kernel((1,), (1,), (out, 1 + 2j, 3 + 4j))


# Names


def test_a_name_of_cpp_is_found_by_name_expressions_alone() -> None:
    text = """
    template <class T, int N> __global__ void add(T* x) { x[threadIdx.x] += N; }
    __global__ void plain(int*) {}
    """
    names = ("add<float, 3>", "add<int, 1 + 1>", "plain")
    module = simulator.RawModule(code=text, name_expressions=names)
    x, y = np.zeros(4, np.float32), np.zeros(4, np.int32)
    module.get_function(names[0])((1,), (4,), (x,))
    module.get_function(names[1])((1,), (4,), (y,))
    module.get_function(names[2])((1,), (4,), (y,))
    assert (x == 3).all() and (y == 2).all()
    assert module.name_expressions == names
    for name in ("plain", "add<float, 4>"):
        with pytest.raises(ConfigError, match=re.escape(repr(name)) + '.*extern "C"'):
            simulator.RawModule(code=text).get_function(name)
    with pytest.raises(ConfigError, match=r"kernel\.cu .*'subtract'.* add, plain"):
        module.get_function("subtract")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('extern "C" __global__ void k(int* x) {}', True),
        ('extern "C" __launch_bounds__(32) __global__ void k(int* x) {}', True),
        ('extern "C" { __device__ int f() { return 1; } __global__ void k(int* x) {} }', True),
        ('extern "C" { __device__ int f() { return 1; } } __global__ void k(int* x) {}', False),
        ('extern "C" __global__ void k(int* x); __global__ void k(int* x) {}', True),
        ('extern "C" __global__ void other(int* x) {} __global__ void k(int* x) {}', False),
        ('#define API extern "C"\nAPI __global__ void k(int* x) {}', True),
        ('#define KERNEL extern "C" __global__\nKERNEL void k(int* x) {}', True),
        ('// extern "C"\n__global__ void k(int* x) {}', False),
        ("template <class T> __global__ void k(T* x) {}", False),
        ('extern "C" void __global__ k(int* x) {}', True),
        ('extern "C" void __global__ __launch_bounds__(32) k(int* x) {}', True),
        ("void __global__ k(int* x) {}", False),
    ],
)
def test_extern_c(text: str, found: bool) -> None:
    assert has_c_linkage(text, "k") == found


def test_void_before_global() -> None:
    text = 'extern "C" __global__ void a(int* x) { x[0] = 1; } extern "C" void __global__ b(int* x) { x[0] = 2; }'
    assert kernels_in(text) == ["a", "b"]
    x = np.zeros(1, np.int32)
    simulator.RawModule(code=text).get_function("b")((1,), (1,), (x,))
    assert x == 2


# Options


def test_macros_and_headers(tmp_path: Path) -> None:
    (tmp_path / "deeper").mkdir()
    (tmp_path / "outer.cuh").write_text('#pragma once\n#include "deeper/inner.cuh"\n#include <outer.cuh>\n')
    (tmp_path / "deeper" / "inner.cuh").write_text(
        "#ifndef INNER\n#define INNER\n__device__ int value(int* x, int i) {\n    return x[i] + OFFSET;\n}\n#endif\n"
    )
    text = (
        '#include "outer.cuh"\n#include "outer.cuh"\nextern "C" __global__ void k(int* x) {\n x[0] = value(x, N);\n}\n'
    )
    options = ("-DN=2", "-D", "OFFSET=TWO(1)", "-DTWO(x)=((x) + 1)", f"-I{tmp_path}", "--define-macro=FLAG", "-UFLAG")
    kernel = simulator.RawKernel(text, "k", options)
    x = np.array([0, 0, 5], np.int32)
    kernel((1,), (1,), (x,))
    assert x[0] == 7
    with pytest.raises(SimulationError, match=r"k, inner\.cuh:4: global access .* kernel\.cu:4"):
        kernel((1,), (1,), (x[:1],))


def test_options_without_effect_are_taken() -> None:
    options = (
        "-std=c++17", "--std=c++14", "-lineinfo", "--generate-line-info", "-G",
        "--device-debug", "-maxrregcount=32", "--maxrregcount=32", "-O3", "-Xptxas=-v", "-w", "--restrict", "-rdc=true",
        "-default-device", "--fmad=true", "-Xptxas", "-O3", "-std", "c++17", "",
    )  # fmt: skip
    assert CompileOptions.of(options) == CompileOptions()
    assert CompileOptions.of(("-arch=sm_80",)).target == "sm_80"
    assert CompileOptions.of(("-arch=sm_90a",)).target == "sm_90a"
    assert CompileOptions.of(("--gpu-architecture", "compute_75")).target == "sm_75"
    assert CompileOptions.of(("-DA", "-DB=", "-D C=1 + 1")).macros == (
        ("#define A 1", "-DA"), ("#define B ", "-DB="), ("#define C 1 + 1", "-D C=1 + 1"),
    )  # fmt: skip


def test_the_architecture_has_an_effect() -> None:
    text = 'extern "C" __global__ void k(int* x) { x[0] = __CUDA_ARCH__; }'
    x = np.zeros(1, np.int32)
    kernel = simulator.RawKernel(text, "k", ("-arch=sm_80",))
    kernel((1,), (1,), (x,))
    assert x[0] == 800 and kernel.binary_version == kernel.attributes["ptx_version"] == 80


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (("--no-such",), ConfigError, "'--no-such'"),
        (("--fmad=false",), ConfigError, "--fmad=false"),
        (["-DX"], OperandTypeError, "options.*tuple"),
        ("-DX", OperandTypeError, "options.*'-DX'"),
        (("-arch=sm_10",), ConfigError, "'sm_10'"),
    ],
)
def test_options_that_are_refused(options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        simulator.RawKernel(SCALE, "scale", options).compile()


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: simulator.RawKernel(SCALE, "scale", backend="hiprtc"), ConfigError, "'nvrtc'.*'nvcc'.*'hiprtc'"),
        (lambda: simulator.RawKernel(1, "scale"), OperandTypeError, "code"),
        (lambda: simulator.RawModule(path="kernel.cubin"), ConfigError, "code="),
        (lambda: simulator.RawModule(), OperandTypeError, "code="),
        (
            lambda: simulator.RawModule(code="int x; __global__ void k() {}").get_global("x"),
            ConfigError,
            "kernel.cu.*name_expressions=",
        ),
        (lambda: simulator.RawModule(code="__constant__ int x;").get_global("y"), ConfigError, "'y'.* x$"),
        (lambda: simulator.RawModule(code=SCALE).get_global("x"), ConfigError, "'x'"),
        (lambda: simulator.RawKernel("error", "scale").compile(), CompilationError, "kernel.cu:1"),
    ],
)
def test_what_is_refused(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


# Variables

COUNT = """
__constant__ int step;
__device__ int total = 5;
__device__ float unused[3] = {1, 2, 3};
extern "C" __global__ void count() { total += step; }
extern "C" __global__ void clear(int* out) { out[0] = total; total = 0; }
"""


def test_variables_keep_their_values_in_a_module() -> None:
    module = simulator.RawModule(code=COUNT)
    step = module.get_global("step").bytes.view(np.int32)
    step[0] = 3
    count, clear = module.get_function("count"), module.get_function("clear")
    count((1,), (1,), ())
    count((1,), (1,), ())
    total = module.get_global("total").bytes.view(np.int32)
    assert total[0] == 11
    out = np.zeros(1, np.int32)
    clear((1,), (1,), (out,))
    assert (out[0], total[0]) == (11, 0)
    np.testing.assert_array_equal(module.get_global("unused").bytes.view(np.float32), [1, 2, 3])
    with pytest.raises(ConfigError, match=r"'x'.*step"):
        module.get_global("x")

    other = simulator.RawModule(code=COUNT)
    assert other.get_global("total").bytes.view(np.int32)[0] == 5
    kernel = simulator.RawKernel(COUNT, "clear")
    kernel((1,), (1,), (out,))
    assert out[0] == 5
    kernel((1,), (1,), (out,))
    assert out[0] == 0
    module.compile()
    assert module.get_global("total").bytes.view(np.int32)[0] == 5
    assert count.const_size_bytes == 4 and count.attributes["const_size_bytes"] == 4


def test_the_memory_of_a_variable_is_an_argument_like_others() -> None:
    module = simulator.RawModule(code=COUNT)
    clear, total = module.get_function("clear"), module.get_global("total")
    values = total.bytes.view(np.int32)
    for argument in (total, total.ptr, values):
        values[0] = 5
        clear((1,), (1,), (argument,))
        assert values[0] == 0


def test_a_module_with_variables_alone() -> None:
    module = simulator.RawModule(code="__constant__ float c[10]; __device__ int n = 7;")
    assert module.get_global("c").bytes.size == 40 and module.get_global("n").bytes.view(np.int32)[0] == 7


# Shared memory and attributes

DYNAMIC = """
extern "C" __global__ void copy(float* x) {
    __shared__ float fixed[1024];
    extern __shared__ float s[];
    s[threadIdx.x] = fixed[threadIdx.x] = x[threadIdx.x];
    x[threadIdx.x] = s[threadIdx.x] + fixed[threadIdx.x];
}
"""


def test_more_than_48_kib_of_shared_memory_are_asked_for() -> None:
    copy = simulator.RawKernel(DYNAMIC, "copy")
    x = np.ones(32, np.float32)
    assert (copy.shared_size_bytes, copy.max_dynamic_shared_size_bytes) == (4096, 45056)
    copy((1,), (32,), (x,), shared_mem=45056)
    with pytest.raises(ConfigError, match=r"copy.*45056 bytes.*max_dynamic_shared_size"):
        copy((1,), (32,), (x,), shared_mem=49152)
    copy.max_dynamic_shared_size_bytes = 65536
    copy((1,), (32,), (x,), shared_mem=65536)
    assert (x == 4).all()
    with pytest.raises(ConfigError, match=r"228352 on sm_90.*300000"):
        copy.max_dynamic_shared_size_bytes = 300000


def test_attributes() -> None:
    scale = simulator.RawKernel(SCALE, "scale")
    assert (scale.max_threads_per_block, simulator.RawKernel(DYNAMIC, "copy").max_threads_per_block) == (64, 1024)
    assert scale.attributes["max_threads_per_block"] == 64 and "num_regs" not in scale.attributes
    for name in ("num_regs", "local_size_bytes"):
        with pytest.raises(AttributeError, match=name):
            getattr(scale, name)
        with pytest.raises(KeyError, match=name):
            scale.attributes[name]
    with pytest.raises(AttributeError, match="'numregs'"):
        scale.numregs  # noqa: B018


def test_settings_of_a_kernel() -> None:
    scale = simulator.RawKernel(SCALE, "scale")
    scale.settings = Settings(counts=False, target="sm_75")
    scale((1,), (4,), (np.ones(4, np.float32), 4, np.float32(1), 0.0))
    scale.settings = Settings(counts=False, target="sm_75", checks=False)
    scale((1,), (4,), (np.ones(4, np.float32), 4, np.float32(1), 0.0))
    assert scale.report is not None and scale.report.target == "sm_75" and not scale.report.lines


# CuPy


@pytest.mark.cupy
@pytest.mark.parametrize("name", ["RawKernel", "RawModule"])
def test_signatures_are_those_of_cupy(name: str) -> None:
    cupy = pytest.importorskip("cupy")
    signature = re.match(rf"{name}\((.*)\)$", getattr(cupy, name).__doc__.splitlines()[0])
    assert signature
    theirs = inspect.signature(eval(f"lambda {re.sub(r'(str|tuple|bool) (?=[a-z])', '', signature[1])}: None"))
    ours = inspect.signature(getattr(simulator, name))
    assert [(each.name, each.kind, each.default) for each in ours.parameters.values()] == [
        (each.name, each.kind, each.default) for each in theirs.parameters.values()
    ]


@pytest.mark.cupy
def test_attributes_are_those_of_cupy() -> None:
    cupy = pytest.importorskip("cupy")
    for ours, theirs in ((simulator.RawKernel, cupy.RawKernel), (simulator.RawModule, cupy.RawModule)):
        public = {name for name in vars(ours) if not name.startswith("_")}
        assert public - {"settings"} <= set(dir(theirs))
    missing = {name for name in dir(cupy.RawKernel) if not name.startswith("_")} - set(
        dir(simulator.RawKernel(SCALE, "scale"))
    )
    assert missing == {"cache_mode_ca", "local_size_bytes", "num_regs"}
