"""Tests of kernels that do not end or would end the process: each is a finding with block, thread and line."""

import subprocess
import sys
import time

import numpy as np
import pytest

from tests.conftest import slow_unless
from tiledmm import simulator
from tiledmm.simulator.execute import grid

ENDINGS = {
    "division by zero": "x[0] = 1 / x[1];",
    "division by zero of the least integer": ("division by zero", "x[2] = (-2147483647 - 1) / (x[1] - 1);"),
    "trap": "__trap();",
    "trap of the compiler": ("trap", "__builtin_trap();"),
    "call of a null pointer": "void (*volatile f)() = 0; f();",
    "call of exit or abort": "exit(1);",
    "abort": ("call of exit or abort", "abort();"),
    "stack overflow": "x[0] = deep(x, 0);",
    "no end": "for (volatile int i = 0; i >= 0; i = 1) {}",
    "waits forever without volatile": ("thread that waits forever", "while (x[threadIdx.x * 0 + 1] == 0) x[2] = 1;"),
    "runaway thread": "for (int i = 0; ; i = (i + 1) % 64) x[i] += 1;",
    "wild pointer": ("global access out of bounds", "*(volatile int*)8 = 1;"),
    "another thread's local memory": (
        "access to another thread's local memory",
        "int mine[4]; poke(mine, 3 << 17);",
    ),
}

TEXT = """
extern "C" void exit(int);
extern "C" void abort();
__device__ __attribute__((noinline)) int deep(int* x, int i) {
    volatile int local[100];
    local[i & 63] = i;
    return x[1] == 0 ? deep(x, i + 1) + local[i & 63] : 0;
}
__device__ __attribute__((noinline)) void poke(int* at, int i) {
    at[i] = 1;
}
__global__ void kernel(int* x) {
    if (blockIdx.x == 1 && threadIdx.x == 3) {
        %s
    }
}
"""


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(grid, "STALL_SECONDS", 0.3)


@pytest.mark.parametrize(
    "ending", [pytest.param(name, marks=slow_unless("waits forever" not in name)) for name in ENDINGS]
)
@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_a_thread_ends_with_a_finding(ending, workers):
    kind, code = ENDINGS[ending] if isinstance(ENDINGS[ending], tuple) else (ending, ENDINGS[ending])
    text = TEXT.replace("%s", code)
    begun = time.monotonic()
    limit = 10**6 if kind == "runaway thread" else 0
    report = simulator.launch(text, 3, 8, (np.zeros(64, np.int32),), workers=workers, max_steps=limit)
    assert [each.kind for each in report.findings] == [kind]
    (found,) = report.findings
    assert (found.block, found.thread) == ((1, 0, 0), (3, 0, 0))
    lines = (found.line, *found.calls)
    assert text[: text.rindex(code)].count("\n") + 1 in lines
    assert time.monotonic() - begun < 20


@pytest.mark.parametrize(
    ("loop", "line"),
    [
        ("for (int i = 0;\ni < 2; ++i)\nwhile (true)\n{\nif (*(volatile int*)&x[1]) break; }", 3),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                ("while (*(volatile int*)&x[1] == 0) {\n}", 1),
                ("do {\nif (x[3]) break;\n} while\n(*(volatile int*)&x[1] == 0);", 3),
                ("// while (\nfor (;;) if (x[3])\nbreak;", 2),
            )
        ),
    ],
)
def test_a_thread_that_does_not_end_names_its_loop(loop, line):
    text = TEXT.replace("%s", loop)
    first = text[: text.index(loop)].count("\n")
    (found,) = simulator.launch(text, 3, 8, (np.zeros(64, np.int32),)).findings
    assert found.kind == "thread that waits forever" and found.other_thread is None
    assert (found.block, found.thread) == ((1, 0, 0), (3, 0, 0))
    assert first + line in (found.line, found.other_line)
    assert found.line == first + line or found.message.endswith(f"in the loop at kernel.cu:{first + line}")


def test_a_thread_that_waits_for_another_lets_it_run_in_every_build():
    text = """
    __global__ void kernel(int* x) {
        int mine[4] = {1, 2, 3, 4};
        if (threadIdx.x == 0) {
            while (*(volatile int*)&x[1] == 0) {}
            __threadfence();
            x[2] = x[0];
            while (atomicAdd(&x[3], 0) == 0) {}
        } else {
            x[0] = mine[x[4]];
            __threadfence();
            *(volatile int*)&x[1] = 1;
            atomicExch(&x[3], 1);
        }
    }
    """
    begun = time.monotonic()
    simulator.launch(text, 1, 2, (np.zeros(8, np.int32),), checks="full", timeout=60).check()
    assert time.monotonic() - begun < 30


def test_a_launch_ends_when_its_time_is_up():
    text = TEXT.replace("%s", "for (int i = 0; ; i = (i + 1) % 64) x[i] += 1;")
    report = simulator.launch(text, 3, 8, (np.zeros(64, np.int32),), timeout=0.2)
    assert [each.kind for each in report.findings] in ([], ["timeout"])
    assert report.seconds < 2


INTERRUPTED = """
import signal, sys, threading, time
import numpy as np
from tiledmm import simulator
text = '''%s'''
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has background jobs ignore it
threading.Timer(%r, lambda: signal.raise_signal(signal.SIGINT)).start()
x = np.zeros(64, np.int32)
begun = time.monotonic()
try:
    simulator.launch(text, 100000, 64, (x,))
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - begun)
simulator.launch("__global__ void one(int* x) { x[threadIdx.x] = 1; }", 1, 64, (x,)).check()
print(x.sum())
"""


@pytest.mark.parametrize(
    "code",
    [
        "for (volatile int i = 0; i >= 0; i = 1) {}",
        pytest.param("for (int i = 0; ; i = (i + 1) % 64) x[i] += 1;", marks=pytest.mark.slow),
        pytest.param('for (;;) printf("x");', marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("after", [0.6, pytest.param(0.9, marks=pytest.mark.slow)])
def test_interrupting_ends_a_launch_within_a_second(code, after):
    script = INTERRUPTED % (TEXT.replace("%s", code), after)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first.startswith("interrupted") and float(first.split()[1]) < after + 1
    assert second == "64"


@pytest.mark.parametrize("order", ["forward", "random"])
def test_the_same_block_ends_the_launch_however_many_run_at_a_time(order):
    """Check that a block which fails late is named before a later one that fails at once."""
    text = """__global__ void k(const float* x, float* y, int n) {
        float sum = 0;
        for (int i = 0; i < n && blockIdx.x < 2; ++i) sum += x[i % 8];
        if (blockIdx.x == 1) sum += x[8];
        if (blockIdx.x == 2) sum += x[9];
        if (threadIdx.x >= 0) y[8 * blockIdx.x + threadIdx.x] = sum;
    }"""
    said = set()
    for workers in (1, 2, 3):
        arrays = np.ones(8, np.float32), np.ones(64, np.float32)
        (found,) = simulator.launch(text, 8, 8, (*arrays, 5000), workers=workers, threads=order).findings
        assert (found.line, found.block) == (4, (1, 0, 0))
        said.add(found.message)
    assert len(said) == 1


def test_a_block_that_waits_for_one_that_has_failed_ends():
    text = """__global__ void k(volatile int* flag, int* x) {
        if (blockIdx.x == 0) while (!*flag) {}
        if (blockIdx.x == 1) x[99] = 1;
    }"""
    report = simulator.launch(text, 4, 1, (np.zeros(1, np.int32), np.zeros(1, np.int32)), workers=2)
    assert [(each.kind, each.line) for each in report.findings] == [("global access out of bounds", 3)]
