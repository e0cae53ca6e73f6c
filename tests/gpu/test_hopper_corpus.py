"""Every kernel of the Hopper corpus on a GPU of compute capability 9.0: right results, and nothing else written.

A kernel that waits for a barrier forever would never return, so another process launches the kernels, and is ended if
it does not answer in time.
"""

from __future__ import annotations

import ctypes
import functools
import multiprocessing
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cupy
import numpy as np
import pytest

from tests.simulator.hopper.case import Case, TensorMap
from tests.simulator.hopper.cases import CASES
from tests.simulator.hopper.facts import FACTS
from tiledmm.compile.cubins import machine_code
from tiledmm.compile.inspection import COMPILE_OPTIONS, toolkit_header_folders
from tiledmm.errors import CompilationError
from tiledmm.hardware.device import driver
from tiledmm.launch.dependent import DependentLaunch

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(cupy.cuda.Device().compute_capability != "90", reason="needs compute capability 9.0"),
]

# Seconds until an answer; the first comes after the process has started.
START, ANSWER = 60, 20

# Members of the driver's enumerations.
TYPES = {
    "uint8": 0, "int8": 0, "e4m3": 0, "e5m2": 0, "int16": 1, "int32": 3, "float16": 6, "float32": 7, "bfloat16": 9,
    "tf32": 11,
}  # fmt: skip
INTERLEAVES = {0: 0, 16: 1, 32: 2}
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
FILLS = {"zeros": 0, "nan": 1}
MAX_DYNAMIC_SHARED_SIZE_BYTES = 8

#: Repetitions of each launch: a race shows in some only.
LAUNCHES = 5


class Worker:
    """A process that launches cases, and is started anew after one that has not ended or has broken its context."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._process: Any = None

    def run(self, name: str) -> str | None:
        """Return what is wrong with a case, or None."""
        if self._process is None:
            self._connection, theirs = self._context.Pipe()
            self._process = self._context.Process(target=serve, args=(theirs,), daemon=True)
            self._process.start()
            theirs.close()  # so that this process notices when the other has ended
            if error := self._answer(START):
                return f"no kernel was launched: {error}"
        self._connection.send(name)
        return self._answer(ANSWER)

    def _answer(self, seconds: float) -> str | None:
        """Return the process's answer, or that there is none; end it unless all is well."""
        error = f"not ended within {seconds} s: something waits for what never comes"
        if self._connection.poll(seconds):
            try:
                error = self._connection.recv()
            except EOFError:
                error = "the process that launches kernels has ended"
        if error is not None:
            self.end()
        return error

    def end(self) -> None:
        """Kill the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None


def serve(connection: Any) -> None:
    """Say that the process is ready, then answer each name of a case with what is wrong with it, or None."""
    cupy.zeros(1).get()
    connection.send(None)
    cases = {case.name: case for case in [*CASES, *FACTS]}
    while True:
        case = cases[connection.recv()]
        try:
            connection.send(wrong(case))
        except Exception as error:
            connection.send(f"{type(error).__name__}: {error}")


@functools.cache
def module(file: str) -> Any:
    """Compile and load a file of the corpus."""
    source = next(each for each in CASES if each.file == file).source
    options = (*COMPILE_OPTIONS, "-arch=sm_90a")
    if "cooperative_groups.h" in source:
        folders = [str(path) for each in toolkit_header_folders() for path in (each, Path(each, "cccl"))]
        options = (*options, *(f"-I{folder}" for folder in folders))
    try:
        cubin = machine_code(source, file, options)
    except CompilationError:
        if "cooperative_groups.h" not in source:
            raise
        cubin = by_nvcc(source, options)  # NVRTC's headers are missing, or another version's
    loaded = cupy.cuda.function.Module()
    loaded.load(cubin)
    return loaded


def by_nvcc(source: str, options: tuple[str, ...]) -> bytes:
    """Compile with the toolkit's compiler, which finds headers of its own version."""
    with tempfile.TemporaryDirectory() as folder:
        text, cubin = Path(folder, "kernel.cu"), Path(folder, "kernel.cubin")
        text.write_text(source, "utf-8")
        command = ["nvcc", "-cubin", *(each for each in options if not each.startswith("-I")), "-o", cubin, text]
        subprocess.run(command, check=True, capture_output=True)
        return cubin.read_bytes()


def encoded(tensor_map: TensorMap, pointer: int) -> np.ndarray[Any, Any]:
    """Encode a tensor map with the driver."""
    memory = np.zeros(128 + 64, np.uint8)
    start = -memory.ctypes.data % 64
    result = memory[start : start + 128]
    rank = len(tensor_map.sizes)
    status = driver().cuTensorMapEncodeTiled(
        ctypes.c_void_p(result.ctypes.data), TYPES[tensor_map.dtype], rank, ctypes.c_void_p(pointer),
        (ctypes.c_uint64 * rank)(*tensor_map.sizes), (ctypes.c_uint64 * rank)(*tensor_map.strides, 0),
        (ctypes.c_uint32 * rank)(*tensor_map.box), (ctypes.c_uint32 * rank)(*tensor_map.steps),
        INTERLEAVES[tensor_map.interleave], SWIZZLES[tensor_map.swizzle], 0, FILLS[tensor_map.fill],
    )  # fmt: skip
    assert status == 0, f"cuTensorMapEncodeTiled takes no {tensor_map}: CUDA error {status}"
    return result


def launch(case: Case, kernel: str, arguments: list[np.ndarray[Any, Any]], dependent: bool) -> None:
    """Launch a kernel on the current stream."""
    function = module(case.file).get_function(kernel)
    if case.shared:
        status = driver().cuFuncSetAttribute(
            ctypes.c_void_p(function.ptr), MAX_DYNAMIC_SHARED_SIZE_BYTES, ctypes.c_int(case.shared)
        )
        assert status == 0, f"{case.shared} bytes of shared memory: CUDA error {status}"
    if dependent:
        DependentLaunch(function, case.grid, case.block, case.shared, arguments)()
        return
    pointers = (ctypes.c_void_p * len(arguments))(*(each.ctypes.data for each in arguments))
    stream = ctypes.c_void_p(cupy.cuda.get_current_stream().ptr)
    status = driver().cuLaunchKernel(
        ctypes.c_void_p(function.ptr), *case.grid, *case.block, case.shared, stream, pointers, None
    )
    assert status == 0, f"{kernel} is not launched: CUDA error {status}"


def wrong(case: Case) -> str | None:
    """Launch a case several times, and return what is wrong with its arrays, or None."""
    before, expected = case.make()
    for _ in range(LAUNCHES):
        on_device = {name: cupy.asarray(np.atleast_1d(array).view(np.uint8)) for name, array in before.items()}
        arguments: list[np.ndarray[Any, Any]] = []
        for argument in case.arguments:
            if isinstance(argument, int):
                arguments.append(np.array([argument], np.int32))
            elif argument in case.maps:
                tensor_map = case.maps[argument]
                arguments.append(encoded(tensor_map, on_device[tensor_map.array].data.ptr))
            else:
                arguments.append(np.array([on_device[argument].data.ptr], np.uint64))
        for kernel in case.kernels:
            launch(case, kernel, arguments, dependent=case.dependent and kernel != case.kernels[0])
        cupy.cuda.runtime.deviceSynchronize()
        for name, array in before.items():
            found = on_device[name].get().view(array.dtype).reshape(array.shape)
            if name not in expected:
                if found.tobytes() != array.tobytes():
                    return f"the kernel wrote to its input {name}"
            elif text := case.difference(name, found, expected[name]):
                return text
    return None


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    started = Worker()
    yield started
    started.end()


@pytest.mark.parametrize("case", [*CASES, *FACTS], ids=lambda case: case.name)
def test_a_kernel_of_the_corpus(case, worker):
    error = worker.run(case.name)
    assert error is None, f"{case.name}: {error}"
