"""Compilation of kernels for one architecture only (``sm_90a``) to cubin files, which CuPy loads.

CuPy cannot compile these kernels: it always adds the device's architecture to NVRTC's options, and before 12.9 NVRTC
accepts only one. Every NVRTC that CuPy supports, from 12.0 on, compiles for ``sm_90a``.
"""

from __future__ import annotations

import contextlib
import functools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from cupy.cuda import nvrtc

from tiledmm.compile.disk_cache import digest, find_file, kernels_folder, stays_in_memory, write_file
from tiledmm.compile.inspection import CUPYS_OPTIONS
from tiledmm.errors import CompilationError
from tiledmm.simulator.build.shared_folder import in_use


@contextlib.contextmanager
def cubin_file(source: str, symbol: str, options: tuple[str, ...]) -> Iterator[Path]:
    """Compile a kernel unless a file has its machine code, and yield the file's path.

    The file exists at least until the ``with`` block ends.

    Args:
        source: CUDA C that compiles by itself.
        symbol: Name of its kernel, with template arguments.
        options: Options for NVRTC, including the architecture.

    Raises:
        CompilationError: If NVRTC rejects the source; the message shows the lines with errors.
    """
    options = (*options, *CUPYS_OPTIONS)
    name = f"{symbol}-{digest(repr((_compiler(), options, source)).encode())}"
    with _folder() as where:
        folder = Path(where)
        with in_use(folder):
            found = find_file(folder, name, ".cubin")
            yield found or write_file(folder, name, ".cubin", _machine_code(source, symbol, options))


def machine_code(source: str, symbol: str, options: tuple[str, ...]) -> bytes:
    """Compile a kernel and return its machine code, without writing a file.

    Args:
        source, symbol, options: As for ``cubin_file``.

    Raises:
        CompilationError: If NVRTC rejects the source; the message shows the lines with errors.
    """
    return _machine_code(source, symbol, (*options, *CUPYS_OPTIONS))


def _folder() -> contextlib.AbstractContextManager[str]:
    """Return a context manager that yields the path of the folder for cubin files.

    It is in CuPy's cache, or a temporary folder if CuPy is configured to write no files.
    """
    if stays_in_memory():
        return tempfile.TemporaryDirectory(prefix="tiledmm-")
    folder = kernels_folder()
    folder.mkdir(parents=True, exist_ok=True)
    return contextlib.nullcontext(str(folder))


@functools.cache
def _compiler() -> bytes:
    """Return the PTX of an empty program, which identifies NVRTC: its header has the version and the build."""
    return _compiled("", "an empty program", (), nvrtc.getPTX)


def _machine_code(source: str, symbol: str, options: tuple[str, ...]) -> bytes:
    """Compile a kernel and return its machine code as a complete cubin.

    CuPy drops the last byte, as if it ended a string. That byte is zero and is restored here: a cubin consists of
    whole 8-byte words, and the last word is the alignment of a segment.

    Raises:
        CompilationError: If NVRTC rejects the source; the message shows the lines with errors.
    """
    cubin = _compiled(source, symbol, options, nvrtc.getCUBIN)
    return cubin.ljust(-(-len(cubin) // 8) * 8, b"\0")


def _compiled(source: str, symbol: str, options: tuple[str, ...], result: Callable[[int], bytes]) -> bytes:
    program = nvrtc.createProgram(source, "kernel.cu", (), ())
    try:
        if "<" in symbol:  # an instance of a template, which NVRTC makes on demand
            nvrtc.addNameExpression(program, symbol)
        nvrtc.compileProgram(program, options)
        return result(program)
    except nvrtc.NVRTCError as error:
        version, log = ".".join(map(str, nvrtc.getVersion())), nvrtc.getProgramLog(program)
        raise CompilationError(
            f"{symbol} does not compile with {' '.join(options)} by NVRTC {version}:\n{log or error}"
        ) from error
    finally:
        nvrtc.destroyProgram(program)
