"""Tests that no kernel reaches the computer, ends Python or runs forever, and of limits of compilers and drivers."""

from __future__ import annotations

import time

import numpy as np
import pytest

from tests.conftest import slow_unless
from tiledmm import simulator
from tiledmm.errors import CompilationError, ConfigError
from tiledmm.simulator.build import linkage
from tiledmm.simulator.execute import grid


def kernel(code: str, before: str = "") -> str:
    return f"{before}\n__global__ void k(int* x) {{\n    {code}\n}}\n"


def launch(text: str, *arguments: object, **options: object):
    x = np.zeros(64, np.int32)
    report = simulator.launch(text, options.pop("grid", 1), options.pop("block", 1), arguments or (x,), **options)
    return report, x


# Nothing but the simulator's own functions

SHELL = 'extern "C" __device__ int system(const char*);'
FOREIGN = {
    "a function of the C library": (SHELL, 'x[0] = system("exit 1");', "kernel.cu:1: system "),
    "another": ('extern "C" int socket(int, int, int);', "x[0] = socket(2, 1, 0);", "kernel.cu:1: socket "),
    "a built-in of the compiler": ("", '__builtin_printf("%d", x[0]);', "printf "),
    "another built-in": ("", "x[0] = __builtin_fork();", "kernel.cu:3: fork "),
    "an asm label of two pieces": ('#define A(a, b) a##b\nint f(const char*) A(as, m)("system");', 'f("");', "system "),
    "a pragma": ('#pragma redefine_extname f system\nextern "C" int f(const char*);', 'f("");', "system "),
    "an alias": (
        SHELL + 'static int f(const char*) __attribute__((weakref("system")));', 'f("");', "kernel.cu:1: system "),
    "a function of the runtime": ('extern "C" void tiledmm_end(void*);', "tiledmm_end(x);", "tiledmm_end "),
    "the loader": ('extern "C" void* dlsym(void*, const char*);', 'x[0] = dlsym(0, "system") != 0;', "dlsym "),
    "a variable": ("extern char** environ;", "x[0] = environ[0][0];", "kernel.cu:1: environ "),
    "a variable of threads": ("extern thread_local int errno;", "x[0] = errno;", "errno"),
    "assembly by a macro": ("#define A(a, b) a##b", 'A(as, m)("nop; syscall");', "syscall"),
    "a device function": ("__device__ float dist(float);", "x[0] = dist(1.0f);", "kernel.cu:1: dist "),
    "a device variable": ("extern __device__ int table[4];", "x[0] = table[2];", "kernel.cu:1: table "),
    "a member": ("struct S { __device__ int at(int); };", "S s; x[0] = s.at(1);", "kernel.cu:1: S::at "),
    "code when it is loaded": ("__attribute__((constructor)) void f() { for (;;) {} }", "x[0] = 1;", "kernel.cu:1: f "),
    "code when it is unloaded": (
        "__attribute__((destructor)) void f() { for (;;) {} }", "x[0] = 1;", "kernel.cu:1: f "),
    "an address when it is loaded": (
        '__attribute__((section(".init_array"), used)) void (*p)() = (void(*)())0x1234;', "x[0] = 1;", ".init_array"),
    "code when it is loaded, named as the compiler's": (
        'extern "C" __attribute__((constructor)) void _sub_I_00099_1() { for (;;) {} }', "x[0] = 1;",
        "_sub_I_00099_1 runs when"),
    "a value by code": ("__device__ int f(int n) { return n; }\n__device__ int v = f(3);", "x[0] = v;", "dynamic init"),
    "a static value by code": (
        "__device__ int f(int n) { return n; }", "static int v = f(x[1]); x[0] = v;", "dynamic init"),
    "a choice at loading": (
        'void* f() { return 0; }\nextern "C" int g() __attribute__((ifunc("_Z1fv")));', "x[0] = g();", "g "),
    "data as code": ('__attribute__((section(".text#"), used)) const int bytes[] = {0x050f};', "x[0] = 1;", "bytes "),
    "a symbol for others": (
        'extern "C" __attribute__((visibility("default"))) int vsnprintf(char*) { return 0; }',
        "x[0] = 1;", "vsnprintf ",
    ),
    "a word of the headers": ("#define __attribute__(x)", "x[0] = 1;", "redefines"),
    "more shared memory than memory": ("", "__shared__ int s[1 << 28]; s[0] = 1; x[0] = s[0];", "1,073,741,824"),
    "more variables than memory": ("__device__ int s[1ull << 38];", "s[0] = 1; x[0] = s[0];", "1,099,511,627,776"),
}  # fmt: skip
EVERY_DAY = ("a function of the C library", "a built-in of the compiler", "assembly by a macro", "a device function",
             "a device variable", "code when it is loaded", "an asm label of two pieces")  # fmt: skip


@pytest.mark.parametrize("name", [pytest.param(name, marks=slow_unless(name in EVERY_DAY)) for name in FOREIGN])
def test_what_no_gpu_has_is_refused_by_name(name: str) -> None:
    before, code, named = FOREIGN[name]
    with pytest.raises(CompilationError) as raised:
        launch(kernel(code, before), checks=name != "another built-in", counts=name != "another built-in")
    assert named in str(raised.value)


def test_a_kernel_that_is_only_declared_is_named() -> None:
    with pytest.raises(CompilationError, match=r"kernel\.cu:1: k "):
        launch("__global__ void k(int* x);")


def test_names_of_symbols() -> None:
    assert linkage.readable_name("_ZN4math4distEff") == "math::dist"
    assert linkage.readable_name("_Z5scaleIfEvPT_") == "scale"
    assert linkage.readable_name("_ZZ6kernelPfE4tile") == "tile"
    assert linkage.readable_name("system") == "system"


OPERATIONS = """
typedef int (*Operation)(int);
__device__ int add(int a) { return a + 1; }
__device__ int twice(int a) { return a * 2; }
__device__ const Operation table[] = {add, twice};
__device__ const char* const names[] = {"add", "twice"};
struct Shape {
    int side;
    __device__ Shape(int side) : side(side) {}
    __device__ virtual ~Shape() {}
    __device__ virtual int area() const = 0;
};
struct Square : Shape {
    __device__ Square(int side) : Shape(side) {}
    __device__ int area() const override { return side * side; }
};
"""


@pytest.mark.parametrize("checks", [True, pytest.param("full", marks=pytest.mark.slow)])
def test_tables_of_pointers_and_virtual_functions(checks: bool | str) -> None:
    code = """int i = threadIdx.x;
    Square square(i);
    const Shape& shape = square;
    x[i] = table[i % 2](shape.area()) + 1000 * names[i % 2][0];"""
    report, x = launch(kernel(code, OPERATIONS), block=8, checks=checks)
    report.check()
    assert x[:8].tolist() == [(i * i * 2 if i % 2 else i * i + 1) + 1000 * ord("at"[i % 2]) for i in range(8)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "before"),
    [
        ("Base* b; Derived d; b = &d; x[0] = b->f();",
         "struct Base { __device__ Base() { g(); } __device__ void g() { f(); } __device__ virtual int f() = 0; };\n"
         "struct Derived : Base { __device__ int f() override { return 1; } };"),
        ('printf("%n", x);', ""),
        ('printf("%2000000000d", 1);', ""),
    ],
)  # fmt: skip
def test_calls_that_would_end_the_process_are_findings(code: str, before: str) -> None:
    report, _ = launch(kernel(code, before))
    assert [each.kind for each in report.findings] == ["call that cannot be made"]


# Nothing goes on forever

LOOPS = {
    "text": 'for (;;) printf("x");',
    "text in a build without checks": 'for (;;) printf("x");',
    "shuffles": "for (;;) __shfl_sync(~0u, 1, 0);",
    "questions for the lanes": "for (;;) __activemask();",
    "time": "while (clock64() != 1) {}",
    "rest": "for (;;) __nanosleep(1);",
    "fences": "for (;;) __threadfence();",
    "functions of the C library": "float v = x[1]; for (;;) v = sinf(v);",
    "barriers": "for (;;) __syncthreads();",
}


@pytest.mark.parametrize("loop", [pytest.param(loop, marks=slow_unless(loop in ("text", "time"))) for loop in LOOPS])
def test_loops_in_the_runtime_end_when_the_time_is_up(loop: str) -> None:
    begun = time.monotonic()
    checked = "without" not in loop
    report, _ = launch(kernel(LOOPS[loop]), block=32, timeout=0.2, checks=checked, counts=checked)
    (found,) = report.findings
    assert found.kind == "timeout" and found.line in (2, 3) and "0 of 1 blocks" in found.message
    assert time.monotonic() - begun < 10


def test_text_without_end_is_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid, "STALL_SECONDS", 0.3)
    report, _ = launch(kernel(LOOPS["text"]))
    assert [(each.kind, each.line) for each in report.findings] == [("no end", 3)]


def test_a_time_out_between_blocks_says_how_many_ran() -> None:
    report, _ = launch(kernel("if (blockIdx.x == 0) x[0] = 1;"), grid=1 << 27, timeout=0.2)
    (found,) = report.findings
    assert found.kind == "timeout" and "of 134,217,728 blocks" in found.message and not report.ok


@pytest.mark.parametrize(
    "loop",
    [
        "for (;;)\n        __syncthreads();",
        pytest.param(
            "__shared__ volatile int flag; flag = 0;\n    while (!flag) __syncthreads();", marks=pytest.mark.slow
        ),
    ],
)
def test_barriers_without_a_write_end_at_a_limit(loop: str) -> None:
    report, _ = launch(kernel(loop), block=2, threads="reverse")
    (found,) = [each for each in report.findings if "race" not in each.kind]
    assert (found.kind, found.line) == ("barriers without end", 4) and "1,048,576" in found.message


@pytest.mark.slow
def test_many_barriers_with_writes_are_no_finding() -> None:
    loop = "for (int i = 0; i < (1 << 20) + 100; ++i) { if (!threadIdx.x) s = i; __syncthreads(); }"
    code = f"__shared__ int s; {loop}\n x[0] = s;"
    report, x = launch(kernel(code), counts=False)
    assert report.ok and x[0] == (1 << 20) + 99


# Limits


@pytest.mark.parametrize(
    ("target", "elements", "limit"),
    [
        ("sm_90a", 58_112, 232_448),
        pytest.param("sm_90", 12_288, 49_152, marks=pytest.mark.slow),
        pytest.param("sm_120a", 25_344, 101_376, marks=pytest.mark.slow),
        pytest.param("sm_80", 12_288, 49_152, marks=pytest.mark.slow),
    ],
)
def test_static_shared_memory_is_what_ptxas_takes(target: str, elements: int, limit: int) -> None:
    text = kernel("__shared__ int s[%d]; s[x[1]] = 1; x[0] = s[x[1]];")
    assert launch(text % elements, target=target)[0].ok
    (found,) = launch(text % (elements + 1), target=target)[0].findings
    assert (found.kind, found.line) == ("too much shared memory", 3) and f"{limit:,}" in found.message


def test_a_target_without_features_of_its_own() -> None:
    with pytest.raises(ConfigError, match="'sm_80a'"):
        launch(kernel("x[0] = 1;"), target="sm_80a")


@pytest.mark.slow
def test_static_and_dynamic_shared_memory_count_together() -> None:
    text = kernel("__shared__ int s[10000]; s[0] = d[0] = 1; x[0] = s[0] + d[0];", "extern __shared__ int d[];")
    assert launch(text, shared_bytes=192_448)[0].ok
    (found,) = launch(text, shared_bytes=192_452)[0].findings
    assert found.kind == "too much shared memory"
    assert all(size in found.message for size in ("40,000", "192,452", "232,448"))


def test_constants_beyond_64_kib() -> None:
    text = kernel("x[0] = first[0] + second[1];", "__constant__ int first[8000], second[%d];")
    assert launch(text % 8384)[0].ok
    (found,) = launch(text % 8385)[0].findings
    assert (found.kind, found.line) == ("too much constant memory", 1) and "65,540" in found.message


@pytest.mark.slow
def test_parameters_beyond_what_a_kernel_takes() -> None:
    text = "struct P { int v[%d]; };\n__global__ void k(int* x, P p) { x[0] = p.v[1]; }"
    x = np.zeros(1, np.int32)
    assert launch(text % 8189, x, np.ones(8189, np.int32).tobytes())[0].ok and x[0] == 1
    (found,) = launch(text % 8190, x, np.ones(8190, np.int32).tobytes())[0].findings
    assert (found.kind, found.line) == ("too many bytes of parameters", 2) and "32,768" in found.message


@pytest.mark.slow
def test_local_memory_beyond_512_kib() -> None:
    text = kernel("volatile int a[%d]; a[x[1]] = 3; x[0] = a[0];")
    assert launch(text % 130_000)[0].ok
    with pytest.raises(CompilationError, match=r"kernel\.cu:\d: .*600,\d{3} bytes.*524,288"):
        launch(text % 150_000)


RECURSION = """
__device__ __attribute__((noinline)) int depth(int* x, int n) { return n ? depth(x, n - 1) + x[1] + 1 : x[1]; }
__device__ int one(int a) { return a; }
"""


@pytest.mark.parametrize(
    ("code", "before", "deep"),
    [
        ("x[0] = depth(x, 200);", RECURSION, True),
        pytest.param("x[0] = depth(x, 3);", RECURSION, False, marks=pytest.mark.slow),
        pytest.param("volatile int a[5000]; a[x[1]] = 3; x[0] = a[0];", "", False, marks=pytest.mark.slow),
        pytest.param("int (*volatile f)(int) = one; volatile int a[5000]; a[x[1]] = f(3); x[0] = a[0];", RECURSION,
                     True, marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_calls_deeper_than_a_stack_of_1_kib_are_a_warning(code: str, before: str, deep: bool) -> None:
    report, _ = launch(kernel(code, before))
    assert report.ok and [each.kind for each in report.warnings] == ["deep calls"] * deep
    if deep:
        assert report.warnings[0].line and "1,024" in report.warnings[0].message


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fragment", "named"),
    [
        ("matrix_a, 16, 16, 32, half, row_major", "shape"),
        ("matrix_a, 16, 16, 16, float, row_major", "shape and type"),
        ("accumulator, 16, 16, 16, signed char", "shape and type"),
        ("matrix_b, 16, 16, 16, half", "layout"),
        ("accumulator, 16, 16, 16, float, row_major", "layout"),
    ],
)
def test_fragments_that_no_gpu_has(fragment: str, named: str) -> None:
    before = "#include <mma.h>\nusing namespace nvcuda::wmma;"
    with pytest.raises(CompilationError, match=rf"kernel\.cu:4: .*{named}"):
        launch(kernel(f"fragment<{fragment}> f; x[0] = f.num_elements;", before), block=32)


@pytest.mark.slow
def test_sums_that_no_gpu_has() -> None:
    code = """fragment<matrix_a, 16, 16, 16, half, row_major> a; fragment<matrix_b, 16, 16, 16, half, row_major> b;
    fragment<accumulator, 16, 16, 16, int> c; mma_sync(c, a, b, c); x[0] = c.x[0];"""
    with pytest.raises(CompilationError, match="no sum of this type"):
        launch(kernel(code, "#include <mma.h>\nusing namespace nvcuda::wmma;"), block=32)


def test_a_brace_that_is_not_closed_has_a_line() -> None:
    text = "// {\n__global__ void k(int* x) {\n    if (x[0] > '{') {\n        x[0] = 2;\n}\n"
    with pytest.raises(CompilationError, match=r"kernel\.cu:3: .*brace"):
        launch(text)


# The branch that the target's compiler takes


def branch(condition: str, **options: object) -> int:
    text = f"{condition}\n#define TAKEN 1\n#else\n#define TAKEN 2\n#endif\n" + kernel("x[0] = TAKEN;")
    return int(launch(text, **options)[1][0])


@pytest.mark.parametrize(
    ("condition", "options", "taken"),
    [
        ("#if CUDART_VERSION >= 9000 && __CUDACC_VER_MAJOR__ >= 12 && defined(__CUDACC_VER_BUILD__)", {}, 1),
        ("#include <cuda.h>\n#if CUDA_VERSION >= 9000", {}, 1),
        ("#ifdef __CUDA_ARCH_FEAT_SM90_ALL", {}, 1),
        ("#ifdef __CUDA_ARCH_FEAT_SM90_ALL", {"target": "sm_90"}, 2),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                (
                    "#if __CUDA_ARCH_SPECIFIC__ == 1000 && __CUDA_ARCH_FAMILY_SPECIFIC__ == 1000",
                    {"target": "sm_100a"},
                    1,
                ),
                (
                    "#if !defined(__CUDA_ARCH_SPECIFIC__) && __CUDA_ARCH_FAMILY_SPECIFIC__ == 1000",
                    {"target": "sm_100f"},
                    1,
                ),
                ("#ifdef __CUDA_ARCH_FEAT_SM90_ALL", {"options": ("-arch=sm_90a",), "target": "sm_80"}, 1),
                ("#if __USE_FAST_MATH__ || __CUDA_FTZ || !__CUDA_PREC_DIV", {}, 2),
                ("#if __USE_FAST_MATH__ && __CUDA_FTZ && !__CUDA_PREC_DIV", {"options": ("-use_fast_math",)}, 1),
                ("#include <cstdio>\n#include <vector>\n#if CUDART_VERSION >= 9000", {}, 1),
                ("#include <vector>\n#ifdef __CUDA_ARCH_FEAT_SM90_ALL", {}, 1),
            )
        ),
    ],
)
def test_branches_are_those_of_the_targets_compiler(condition: str, options: dict[str, object], taken: int) -> None:
    assert branch(condition, **options) == taken


# The ranges of fast functions


def fast(expression: str, **options: object) -> tuple[float, list[str]]:
    x = np.zeros(1, np.float32)
    report = simulator.launch(f"__global__ void k(float* x) {{ x[0] = {expression}; }}", 1, 1, (x,), **options)
    assert report.ok
    return float(x[0]), [each.message for each in report.warnings]


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ("__sinf(3.2f)", "__sinf(3.2"),
        ("__powf(-2.0f, 3.0f)", "__powf(-2"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                ("__cosf(-100.0f)", "__cosf(-100"),
                ("__tanf(4.0f)", "__tanf(4"),
                ("__fdividef(1.0f, 1e38f)", "9.99999968e+37"),
                ("__powf(0.0f, 0.0f)", "__powf(0"),
            )
        ),
    ],
)
def test_an_argument_beyond_the_range_of_a_fast_function_is_a_warning(expression: str, named: str) -> None:
    value, (warning,) = fast(expression)
    assert named in warning
    if "powf" in expression:
        assert np.isnan(value)


def test_arguments_within_the_range_of_fast_functions() -> None:
    sums = "__sinf(3.14159265f) + __cosf(-3.14159265f) + __tanf(1) + __expf(80) + __logf(1e-30f) + __powf(2, -3)"
    assert fast(f"{sums} + __fdividef(1.0f, 8e37f) + __powf(0, 2) + __log2f(1e30f) + __sinf(0)")[1] == []


@pytest.mark.slow
def test_fast_math_calls_the_fast_functions() -> None:
    assert fast("powf(-2.0f, 3.0f)") == (-8.0, [])
    value, (warning,) = fast("powf(-2.0f, 3.0f)", options=("--use_fast_math",))
    assert np.isnan(value) and "__powf(-2" in warning
