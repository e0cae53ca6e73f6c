from __future__ import annotations

import re
import subprocess
import sys
import textwrap

import pytest

from tiledmm.compile.inspection import Resources, _read_report, compile_for, format_compile_error
from tiledmm.errors import CompilationError, ConfigError, MissingDependencyError
from tiledmm.hardware.architectures import TARGETS

REVERSE = """\
extern "C" __global__ void reverse(const float* a, float* c) {
    __shared__ float tile[256];
    int unused = 3;
    tile[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    c[threadIdx.x] = tile[255 - threadIdx.x];
}
extern "C" __global__ void fill(float* c) { c[0] = 1.0f; }
"""

# 60 live doubles do not fit in the 32 registers that two blocks of 1024 threads leave to each thread, and
# the last line indexes them by a run-time number, so they need a stack too.
SPILLING = """\
extern "C" __global__ void __launch_bounds__(1024, 2) spill(const double* p, double* q, int n) {
    double a[60], b[60];
#pragma unroll
    for (int i = 0; i < 60; ++i) a[i] = b[i] = p[i];
    for (int j = 0; j < n; ++j)
#pragma unroll
        for (int i = 0; i < 60; ++i) a[i] += p[j + i];
#pragma unroll
    for (int i = 0; i < 60; ++i) q[i] = a[i];
    q[60] = b[n];
}
"""


@pytest.fixture(scope="module")
def nvrtc():
    pytest.importorskip("cuda.core", reason="compiling without a GPU needs tiledmm[inspect]")


@pytest.mark.parametrize("target", TARGETS)
def test_resources_on_every_target(nvrtc, target):
    resources = compile_for(REVERSE, "reverse", target)
    assert resources.target == target
    assert resources.shared_bytes == 1024
    assert 6 <= resources.registers <= 32
    assert resources.spill_store_bytes == resources.spill_load_bytes == resources.stack_bytes == 0
    assert resources.cubin.startswith(b"\x7fELF")


def test_each_kernel_of_a_source_has_its_own_resources(nvrtc):
    assert compile_for(REVERSE, "fill", "sm_90").shared_bytes == 0


def test_spills_and_stack_are_reported(nvrtc):
    resources = compile_for(SPILLING, "spill", "sm_90")
    assert resources.registers == 32
    assert resources.spill_store_bytes > 0
    assert resources.spill_load_bytes > 0
    assert resources.stack_bytes >= 60 * 8


def test_warnings_are_kept(nvrtc):
    resources = compile_for(REVERSE, "reverse", "sm_90")
    assert len(resources.warnings) == 1
    assert resources.warnings[0].startswith("line 3: warning")
    assert '"unused"' in resources.warnings[0]
    assert "\0" not in resources.log


def test_ptxas_warnings_are_kept(nvrtc):
    # An SM of compute capability 7.5 never holds two blocks of 1024 threads.
    assert any("ptxas warning" in text for text in compile_for(SPILLING, "spill", "sm_75").warnings)


def test_subnormals_are_flushed_as_cupy_has_it(nvrtc):
    source = 'extern "C" __global__ void scale(float* p) { p[0] *= 0.5f; }'
    flushing = source.replace("p[0] *= 0.5f", 'asm("mul.rn.ftz.f32 %0, %0, 0f3F000000;" : "+f"(p[0]))')
    assert compile_for(source, "scale", "sm_90").cubin == compile_for(flushing, "scale", "sm_90").cubin


def test_functions_need_no_device_qualifier_as_cupy_has_it(nvrtc):
    source = 'int twice(int x) { return 2 * x; }\nextern "C" __global__ void f(int* p) { *p = twice(*p); }'
    assert compile_for(source, "f", "sm_90").registers > 0


def test_an_error_shows_its_line(nvrtc):
    with pytest.raises(CompilationError) as caught:
        compile_for(REVERSE.replace("unused = 3", "used = nowhere"), "reverse", "sm_90")
    assert str(caught.value) == textwrap.dedent("""\
        the kernel does not compile, 1 error:

        line 3: error: identifier "nowhere" is undefined
          1 | extern "C" __global__ void reverse(const float* a, float* c) {
          2 |     __shared__ float tile[256];
        > 3 |     int used = nowhere;
            |                ^
          4 |     tile[threadIdx.x] = a[threadIdx.x];
          5 |     __syncthreads();""")


def test_every_error_is_shown_and_warnings_are_not(nvrtc):
    source = REVERSE.replace("a[threadIdx.x];", "b[0];").replace("1.0f;", '"one";')
    with pytest.raises(CompilationError, match="2 errors") as caught:
        compile_for(source, "reverse", "sm_90")
    message = str(caught.value)
    assert "> 4 |     tile[threadIdx.x] = b[0];" in message
    assert '> 8 | extern "C" __global__ void fill(float* c) { c[0] = "one"; }' in message
    assert "NVRTC_ERROR" not in message
    assert "unused" not in message.replace("> 3 |", "").replace("int unused = 3;", "")


def test_an_error_in_a_template_says_where_it_was_instantiated(nvrtc):
    source = textwrap.dedent("""\
        template <int N>
        __device__ int half() {
            static_assert(N % 2 == 0, "N must be even");
            return N / 2;
        }
        extern "C" __global__ void f(int* p) { *p = half<3>(); }
        """)
    with pytest.raises(CompilationError) as caught:
        compile_for(source, "f", "sm_90")
    assert '> 3 |     static_assert(N % 2 == 0, "N must be even");' in str(caught.value)
    assert "half<3>" in str(caught.value) or "N=3" in str(caught.value)
    assert "at line 6" in str(caught.value)


def test_too_much_shared_memory_is_an_error_in_words(nvrtc):
    with pytest.raises(CompilationError, match="1 error"):
        compile_for(REVERSE.replace("tile[256]", "tile[20000]"), "reverse", "sm_90")


def test_a_bad_instruction_is_an_error_in_words(nvrtc):
    source = 'extern "C" __global__ void f(float* p) { asm("zork.f32 %0;" : "=f"(p[0])); }'
    with pytest.raises(CompilationError, match="zork"):
        compile_for(source, "f", "sm_90")


def test_a_missing_kernel_lists_those_there_are(nvrtc):
    with pytest.raises(CompilationError, match=r"'revers'.*fill, reverse"):
        compile_for(REVERSE, "revers", "sm_90")


@pytest.mark.parametrize(("target", "std"), [("sm_42", "c++17"), ("sm_90", "c++71")])
def test_an_unknown_target_or_standard_is_named(nvrtc, target, std):
    with pytest.raises(ConfigError, match=rf"'{target}'.*'{re.escape(std)}'"):
        compile_for(REVERSE, "reverse", target, std=std)


@pytest.mark.parametrize("missing", ["cuda", "cuda.core", "cuda.pathfinder"])
def test_without_cuda_core_the_error_has_the_command(monkeypatch, missing):
    for name in [name for name in sys.modules if name == missing or name.startswith(f"{missing}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(MissingDependencyError, match=r'pip install "\.\[inspect\]"'):
        compile_for(REVERSE, "reverse", "sm_90")


def test_without_nvrtc_the_error_has_the_command(nvrtc, monkeypatch):
    from cuda.pathfinder import DynamicLibNotFoundError

    def no_library(*_):
        raise DynamicLibNotFoundError("libnvrtc.so.12")

    monkeypatch.setattr("cuda.core.Program", no_library)
    with pytest.raises(MissingDependencyError, match=r'NVRTC.*pip install "\.\[inspect\]"'):
        compile_for(REVERSE, "reverse", "sm_90")


def test_importing_needs_neither_cuda_core_nor_cupy():
    code = "import sys, tiledmm.compile.inspection; print(sorted({'cuda.core', 'cupy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


REPORTS = {
    # NVRTC 12.9 and 13.0
    "12.9": """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'other' for 'sm_75'
ptxas info    : Function properties for other
ptxas         .     16 bytes stack frame, 24 bytes spill stores, 32 bytes spill loads
ptxas info    : Used 99 registers, used 0 barriers, 16 bytes cumulative stack size, 360 bytes cmem[0]
ptxas info    : Compile time = 2.024 ms
ptxas info    : Compiling entry function 'kernel' for 'sm_75'
ptxas info    : Function properties for kernel
ptxas         .     8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 48 bytes cumulative stack size, \
8192 bytes smem, 372 bytes cmem[0]
ptxas info    : Compile time = 5.165 ms
ptxas info    : Function properties for called
ptxas         .     40 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads
""",
    # CUDA 11 and early 12: no barriers, an indented line without a name
    "11.8": """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'kernel' for 'sm_75'
ptxas info    : Function properties for kernel
    48 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads
ptxas info    : Used 40 registers, 8192 bytes smem, 360 bytes cmem[0], 12 bytes cmem[2]
ptxas info    : Compiling entry function 'other' for 'sm_75'
ptxas info    : Function properties for other
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, 352 bytes cmem[0]
""",
}


@pytest.mark.parametrize("version", REPORTS)
def test_reports_of_several_ptxas(version):
    assert _read_report(REPORTS[version], "kernel") == {
        "registers": 40,
        "shared_bytes": 8192,
        "spill_store_bytes": 12,
        "spill_load_bytes": 20,
        "stack_bytes": 48,
        "constant_bytes": 372,
    }


def test_constant_memory_that_is_not_reported_is_unknown():
    log = REPORTS["12.9"].replace(", 372 bytes cmem[0]", "")
    assert _read_report(log, "kernel")["constant_bytes"] is None


def test_a_report_in_an_unknown_form_is_an_error():
    with pytest.raises(CompilationError, match=r"gets 40 registers"):
        _read_report(REPORTS["12.9"].replace("Used 40", "gets 40"), "kernel")


# CuPy compiles from a temporary file, so that is what its log names.
CUPY_LOG = """\
/tmp/tmpx1y2/8f3a(b)9.cubin.cu(3): warning #177-D: variable "unused" was declared but never referenced
      int unused = 3;
          ^

Remark: The warnings can be suppressed with "-diag-suppress <warning-number>"

/tmp/tmpx1y2/8f3a(b)9.cubin.cu(6): error: expected a ";"
  }
  ^

1 error detected in the compilation of "/tmp/tmpx1y2/8f3a(b)9.cubin.cu".
"""


def test_a_log_from_cupy_is_formatted_the_same_way():
    source = "void f() {\n\tint a;\n\tint unused = 3;\n\tint b;\n\ta = b\n\t}\n"
    assert format_compile_error(source, CUPY_LOG) == textwrap.dedent("""\
        the kernel does not compile, 1 error:

        line 6: error: expected a ";"
          4 | \tint b;
          5 | \ta = b
        > 6 | \t}
            | \t^""")


def test_a_line_that_is_not_of_the_source_is_not_shown_as_one():
    message = format_compile_error("a\nb\nc\n", "header.cuh(2): error: bad thing\n    wrong here\n    ^\n\n")
    assert "line 2: error: bad thing\n    wrong here\n    ^" in message
    assert "> 2" not in message


def test_a_log_without_a_diagnostic_is_shown_whole():
    assert format_compile_error("", "something else went wrong\0\n").endswith("\nsomething else went wrong")


def test_many_errors_are_cut_short():
    log = "\n\n".join(f'k.cu({line}): error: identifier "x{line}" is undefined' for line in range(1, 31))
    message = format_compile_error("x;\n" * 30, log)
    assert "30 errors" in message
    assert '"x10"' in message
    assert '"x11"' not in message
    assert message.endswith("and 20 more")


def test_a_cubin_is_not_printed():
    resources = Resources("sm_90", 8, 0, 0, 0, 0, None, cubin=b"\x7fELF" * 1000, log="long")
    assert len(repr(resources)) < 200


def test_compiling_twice_reports_twice():
    source = 'extern "C" __global__ void fill(int* p) { *p = 1; }'
    assert compile_for(source, "fill", "sm_90").registers == compile_for(source, "fill", "sm_90").registers > 0


def test_a_source_without_kernels_is_an_error_of_ours():
    with pytest.raises(CompilationError):
        compile_for("constexpr int x = 1;", "fill", "sm_90")
