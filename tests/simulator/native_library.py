"""Shared libraries of single headers of the simulator's runtime, for tests."""

from __future__ import annotations

import ctypes
from pathlib import Path

from tiledmm.simulator.build.compiler_process import run_compiler
from tiledmm.simulator.build.cxx import compiler
from tiledmm.simulator.build.toolchain import NATIVE


def native_library(source: str, folder: Path) -> ctypes.CDLL:
    """Compile C++ that includes headers of the runtime, without warnings, and load it.

    Args:
        source: The C++.
        folder: An empty folder, in which it is compiled.
    """
    (folder / "unit.cpp").write_text(source, encoding="utf-8")
    flags = ("-x", "c++", "-std=c++17", "-O2", "-fPIC", "-shared", "-iquote", str(NATIVE))
    warnings = ("-Wall", "-Wextra", "-Werror", "-Wno-return-type-c-linkage", "-Wno-unknown-pragmas")
    done = run_compiler([*compiler(), *flags, *warnings, "-o", "unit.so", "unit.cpp"], folder)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(folder / "unit.so"))
