"""The system's C++ compiler, which compiles kernels and the simulator's runtime."""

from __future__ import annotations

import functools
import importlib.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from tiledmm.errors import INSTALL, MissingDependencyError

_NAME_A_COMPILER = "set CXX to a C++ compiler, or unset it to use c++, g++ or clang++ on PATH"


def compiler() -> tuple[str, ...]:
    """Return the command of the C++ compiler: ``$CXX``, or the first of c++, g++, clang++ and the wheel ``ziglang``.

    Raises:
        MissingDependencyError: If there is none; the message says how to get one.
    """
    if sys.platform != "linux":
        raise MissingDependencyError(
            "the simulator runs on Linux, x86-64 or arm64: on macOS use a container, on Windows WSL"
        )
    if named := os.environ.get("CXX", "").strip():
        return _named_compiler(named)
    for name in ("c++", "g++", "clang++"):
        if found := shutil.which(name):
            return (found,)
    if importlib.util.find_spec("ziglang"):
        return (sys.executable, "-m", "ziglang", "c++")
    raise MissingDependencyError(
        "the simulator needs a C++ compiler and found none ($CXX, or c++, g++ or clang++ on PATH): install one, or "
        f"{INSTALL.format(extra='simulate')}"
    )


def _named_compiler(text: str) -> tuple[str, ...]:
    """Return the command of the compiler that ``$CXX`` names, with its options.

    Args:
        text: Value of ``$CXX``.

    Raises:
        MissingDependencyError: If it is not a command, or does not name an executable file.
    """
    try:
        name, *options = shlex.split(text)
    except ValueError as error:
        raise MissingDependencyError(f"CXX={text!r} is not a command ({error}); {_NAME_A_COMPILER}") from None
    if shutil.which(name):
        # It is run in other folders.
        return (os.path.abspath(name) if os.path.dirname(name) else name, *options)
    path = Path(name)
    what = "is a directory" if path.is_dir() else "is not executable" if path.exists() else "does not exist"
    raise MissingDependencyError(f"CXX names {name!r}, which {what}; {_NAME_A_COMPILER}")


def compiler_version() -> str:
    """Return the output of the C++ compiler for ``--version``."""
    return version(compiler())


@functools.lru_cache(maxsize=1)
def machine_flags() -> tuple[str, ...]:
    """Return the compiler flag for fused multiply-adds in hardware; an empty tuple if the CPU has none.

    Without the flag the C library computes them, exactly but slowly.
    """
    if platform.machine() in ("x86_64", "AMD64"):
        try:
            flags = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        except OSError:
            flags = None
        if flags and " fma " in flags[1] + " ":
            return ("-mfma",)
    return ()


@functools.lru_cache(maxsize=8)
def version(command: tuple[str, ...]) -> str:
    """Return the output of a compiler for ``--version``.

    Args:
        command: Command of the compiler.

    Raises:
        MissingDependencyError: If it cannot be run, or fails.
    """
    try:
        done = subprocess.run(
            [*command, "--version"], capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL
        )
    except OSError as error:
        raise MissingDependencyError(f"{shlex.join(command)} cannot be run ({error}); {_NAME_A_COMPILER}") from None
    if done.returncode or not done.stdout.strip():
        said = done.stderr.strip()[:500] or f"exit status {done.returncode}, no output"
        raise MissingDependencyError(f"{shlex.join(command)} --version fails ({said}); {_NAME_A_COMPILER}")
    return done.stdout


def is_clang(command: tuple[str, ...]) -> bool:
    """Return whether a compiler is Clang, or Zig, which contains Clang."""
    return "clang" in version(command)


def unfit(command: tuple[str, ...], output: str) -> MissingDependencyError:
    """Return the error for a compiler that cannot compile the simulator's runtime.

    Args:
        command: Command of the compiler.
        output: Its messages, from which the error's reason is taken.
    """
    if re.search("undefined (reference|symbol)", output):
        reason = "it does not link the C++ library, because it is a C compiler (use g++ for gcc, clang++ for clang)"
    else:
        lines = [line.strip() for line in output.splitlines()[1:] if line.strip()] or [output]
        reason = next((line for line in lines if "error" in line), lines[0])
    return MissingDependencyError(
        f"{shlex.join(command)} does not compile the simulator's runtime: {reason}. "
        "Set CXX to a compiler of C++17, such as GCC 12, Clang 14 or Zig 0.17"
    )
