"""Kernels for one architecture only (``sm_90a``): compiled here, past CuPy, and kept in files for it to load.

CuPy names the device's architecture behind any that it is given, and NVRTC takes no second one before 12.9. Every NVRTC
that CuPy takes, from 12.0 on, knows ``sm_90a`` by itself.
"""

from __future__ import annotations

import contextlib
import functools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from cupy.cuda import nvrtc

from tiledmm.compile.disk_cache import digest, find_file, kernels_folder, stays_in_memory, write_file
from tiledmm.compile.options import CUPYS_OPTIONS
from tiledmm.errors import CompilationError
from tiledmm.simulator.build.shared_folder import in_use


@contextlib.contextmanager
def cubin_file(source: str, symbol: str, options: tuple[str, ...]) -> Iterator[Path]:
    """The file of a kernel's machine code, compiled unless there is one. It is there in this context, at least.

    Args:
        source: CUDA C, complete in itself.
        symbol: Name of its ``extern "C"`` kernel.
        options: For NVRTC; one of them is the architecture.

    Raises:
        CompilationError: If NVRTC rejects it; the message shows the source lines it complains about.
    """
    options = (*options, *CUPYS_OPTIONS)
    name = f"{symbol}-{digest(repr((_compiler(), options, source)).encode())}"
    with _folder() as where:
        folder = Path(where)
        with in_use(folder):
            found = find_file(folder, name, ".cubin")
            yield found or write_file(folder, name, ".cubin", _machine_code(source, symbol, options))


def machine_code(source: str, symbol: str, options: tuple[str, ...]) -> bytes:
    """A kernel's machine code, kept nowhere. Arguments and errors are ``cubin_file``'s."""
    return _machine_code(source, symbol, (*options, *CUPYS_OPTIONS))


def _folder() -> contextlib.AbstractContextManager[str]:
    """Where CuPy keeps what it compiles: on disk, or else nowhere for longer than it takes to load it."""
    if stays_in_memory():
        return tempfile.TemporaryDirectory(prefix="tiledmm-")
    folder = kernels_folder()
    folder.mkdir(parents=True, exist_ok=True)
    return contextlib.nullcontext(str(folder))


@functools.cache
def _compiler() -> bytes:
    """What NVRTC says of itself at the top of all PTX, also of an empty program: its version, to the build."""
    return _compiled("", "an empty program", (), nvrtc.getPTX)


def _machine_code(source: str, symbol: str, options: tuple[str, ...]) -> bytes:
    """A cubin, whole.

    CuPy takes its last byte for the end of a string, and leaves it out. That is a zero: a cubin is of whole 8-byte
    words, and the last is the alignment of a segment.
    """
    cubin = _compiled(source, symbol, options, nvrtc.getCUBIN)
    return cubin.ljust(-(-len(cubin) // 8) * 8, b"\0")


def _compiled(source: str, symbol: str, options: tuple[str, ...], result: Callable[[int], bytes]) -> bytes:
    program = nvrtc.createProgram(source, "kernel.cu", (), ())
    try:
        nvrtc.compileProgram(program, options)
        return result(program)
    except nvrtc.NVRTCError as error:
        version, log = ".".join(map(str, nvrtc.getVersion())), nvrtc.getProgramLog(program)
        raise CompilationError(
            f"{symbol} does not compile with {' '.join(options)} by NVRTC {version}:\n{log or error}"
        ) from error
    finally:
        nvrtc.destroyProgram(program)
