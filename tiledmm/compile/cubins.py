"""Kernels for one architecture only (``sm_90a``): compiled here, past CuPy, and kept in files for it to load.

CuPy names the device's architecture behind any that it is given, and NVRTC takes no second one before 12.9. Every NVRTC
that CuPy takes, from 12.0 on, knows ``sm_90a`` by itself.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from cupy.cuda import nvrtc

from tiledmm.compile.disk_cache import cubins_folder, in_use
from tiledmm.compile.options import CUPYS_OPTIONS
from tiledmm.errors import CompilationError


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
    name = f"{symbol}-{_digest(repr((_compiler(), options, source)).encode())}"
    with _folder() as folder, in_use(Path(folder)):
        yield _whole_file(folder, name) or _written(folder, name, _machine_code(source, symbol, options))


def machine_code(source: str, symbol: str, options: tuple[str, ...]) -> bytes:
    """A kernel's machine code, kept nowhere. Arguments and errors are ``cubin_file``'s."""
    return _machine_code(source, symbol, (*options, *CUPYS_OPTIONS))


def _whole_file(folder: str, name: str) -> Path | None:
    """A file of this name is named after what is in it, too: one that was cut off or changed is as none."""
    for path in Path(folder).glob(f"{name}-*.cubin"):
        with contextlib.suppress(OSError):  # taken away meanwhile, or another user's
            if path.stem == f"{name}-{_digest(path.read_bytes())}":
                return path
    return None


def _written(folder: str, name: str, cubin: bytes) -> Path:
    """The file, written in one step: who looks meanwhile finds all of it or none."""
    path = Path(folder, f"{name}-{_digest(cubin)}.cubin")
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
        file.write(cubin)
    os.replace(file.name, path)
    return path


def _folder() -> contextlib.AbstractContextManager[str]:
    """Where CuPy keeps what it compiles: on disk, or else nowhere for longer than it takes to load it."""
    if os.environ.get("CUPY_CACHE_IN_MEMORY") == "1":
        return tempfile.TemporaryDirectory(prefix="tiledmm-")
    folder = cubins_folder()
    folder.mkdir(parents=True, exist_ok=True)
    return contextlib.nullcontext(str(folder))


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


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
