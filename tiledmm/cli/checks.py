"""Checks of ``tiledmm doctor``. A check reports every error instead of raising it."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiledmm.cli.device import first_line
from tiledmm.cli.gpu_checks import (
    NotKnown,
    NotThere,
    cublas_version,
    cuda_extra,
    cupy_version,
    device_cupy,
    devices,
    driver_support,
    nvrtc_version,
    runtime_version,
)

WORKS, MISSING, UNKNOWN, BROKEN = "works", "missing", "unknown", "BROKEN"

#: Names of the checks that run a product, each the last check of its purpose.
ON_GPU, ON_CPU = "a product on the GPU", "a product on the simulator"

_TOOLKIT = "the CUDA toolkit, https://developer.nvidia.com/cuda-downloads"
_SECONDS_FOR_A_PEER = 120

# Other libraries that multiply matrices, each with the expression that says whether it can use a GPU.
_PEERS = {"torch": "m.cuda.is_available()", "jax": "m.default_backend() == 'gpu'", "triton": "None"}


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check.

    Attributes:
        purpose: Purpose of what was checked: ``"GPU"``.
        name: Name of what was checked: ``"NVIDIA driver"``.
        state: Result: ``WORKS``, ``MISSING``, ``UNKNOWN`` or ``BROKEN``.
        found: Version, path or description of the problem.
        advice: Advice if it does not work; empty if there is none.
    """

    purpose: str
    name: str
    state: str
    found: str
    advice: str = ""


# Function of a check: returns a version or path, or raises NotThere, NotKnown, or any other error if it is broken.
_Look = Callable[[], str]


def jobs() -> Iterator[tuple[str, str, _Look, str]]:
    """Yield the four arguments of ``carry_out`` for every check of this machine, in the order of the report."""
    from tiledmm.errors import INSTALL

    extra = INSTALL.format(extra=cuda_extra())
    yield "tiledmm", "Python", _python, ""
    yield "GPU", "NVIDIA driver", driver_support, "https://www.nvidia.com/drivers (the simulator needs none)"
    yield "GPU", "CuPy", cupy_version, extra
    yield "GPU", "devices", devices, extra
    yield "GPU", "CUDA runtime", runtime_version, extra
    yield "GPU", "NVRTC", nvrtc_version, extra
    yield "GPU", "cuBLAS", cublas_version, extra
    yield "GPU", ON_GPU, _gpu_product, "see what is broken or missing above"
    yield "simulator", "C++ compiler", _compiler, INSTALL.format(extra="simulate")
    yield "simulator", ON_CPU, _simulator_product, "see the compiler above, and the caches below"
    yield "inspect", "NVRTC without a GPU", _cuda_core, INSTALL.format(extra="inspect")
    yield "inspect", "disassembler", _disassembler, INSTALL.format(extra="inspect")
    yield "profile", "ncu", lambda: _tool("ncu"), _TOOLKIT
    yield "profile", "compute-sanitizer", lambda: _tool("compute-sanitizer"), _TOOLKIT
    yield "charts", "matplotlib", _matplotlib, INSTALL.format(extra="charts")
    for name, folder, variable in _caches():
        advice = f"set {variable} to a folder of your own that you can write to"
        yield "caches", name, functools.partial(_folder, folder), advice
    for name, on_gpu in _PEERS.items():
        yield "peers", name, functools.partial(_peer, name, on_gpu), f"pip install {name}"


def carry_out(purpose: str, name: str, look: _Look, advice: str) -> Check:
    """Run a check and return its result. Errors of the check are part of the result; none is raised.

    Args:
        purpose: Purpose of what is checked.
        name: Name of what is checked.
        look: Function of the check.
        advice: Advice if it does not work.
    """
    try:
        return Check(purpose, name, WORKS, look())
    except NotThere as error:
        return Check(purpose, name, MISSING, str(error), advice)
    except NotKnown as error:
        return Check(purpose, name, UNKNOWN, str(error))
    except Exception as error:  # a broken installation may raise anything
        return Check(purpose, name, BROKEN, f"{type(error).__name__}: {first_line(error)}", advice)


def _python() -> str:
    import numpy as np

    from tiledmm import __version__

    where = f"{platform.system()} {platform.machine()}"
    return f"tiledmm {__version__}, Python {platform.python_version()}, NumPy {np.__version__}, {where}"


def _gpu_product() -> str:
    import numpy as np

    cupy = device_cupy()
    import tiledmm

    a, b = _operands()
    _compare(cupy.asnumpy(tiledmm.matmul(cupy.asarray(a), cupy.asarray(b), variant="tiled")), np.matmul(a, b))
    return "right"


def _simulator_product() -> str:
    import numpy as np

    from tiledmm import simulator
    from tiledmm.errors import MissingDependencyError

    a, b = _operands()
    try:
        c = simulator.matmul(a, b, variant="tiled", tile=8)
    except MissingDependencyError as error:
        raise NotKnown("needs a C++ compiler") from error
    _compare(c, np.matmul(a, b))
    return "right"


def _operands() -> tuple[Any, Any]:
    """Return two float32 matrices of small whole numbers. Their product is exact in float32."""
    import numpy as np

    rng = np.random.default_rng(0)
    return rng.integers(-4, 5, (19, 23)).astype(np.float32), rng.integers(-4, 5, (23, 29)).astype(np.float32)


def _compare(found: Any, right: Any) -> None:
    if not (found == right).all():
        raise ArithmeticError("the result is wrong")


def _compiler() -> str:
    """Compile the simulator's runtime, and return the version of the C++ compiler.

    Raises:
        NotThere: If there is no compiler.
        RuntimeError: If the compiler does not work.
    """
    from tiledmm.errors import MissingDependencyError, TiledmmError
    from tiledmm.simulator.build import cxx, toolchain

    try:
        version = cxx.compiler_version().splitlines()[0]
    except MissingDependencyError as error:
        raise NotThere(str(error)) from error
    try:
        toolchain.build_runtime()
    except MissingDependencyError as error:
        raise RuntimeError(str(error)) from error
    except TiledmmError:  # the cache cannot be written: the check that runs a product reports it
        pass
    return version


def _cuda_core() -> str:
    from tiledmm.compile.inspection import compile_for
    from tiledmm.errors import ConfigError, MissingDependencyError
    from tiledmm.hardware.architectures import TARGETS

    known = []
    for target in TARGETS:
        try:
            compile_for('extern "C" __global__ void nothing() {}', "nothing", target)
            known.append(target)
        except ConfigError:  # this NVRTC is older than the target
            continue
        except MissingDependencyError as error:
            raise NotThere("not installed") from error
    return f"compiles for {', '.join(known)}"


def _disassembler() -> str:
    from tiledmm.compile.disassembly import nvdisasm
    from tiledmm.errors import MissingDependencyError

    try:
        return str(nvdisasm())
    except MissingDependencyError as error:
        raise NotThere("not installed") from error


def _matplotlib() -> str:
    if importlib.util.find_spec("matplotlib") is None:
        raise NotThere("not installed")
    return importlib.metadata.version("matplotlib")


def _tool(name: str) -> str:
    from tiledmm.profile.ncu import find_tool

    path = find_tool(name)
    if path is None:
        raise NotThere("neither on PATH nor in a CUDA toolkit")
    done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise RuntimeError(f"{path} --version: {done.stderr.strip() or done.stdout.strip()}")
    version = re.search(r"[Vv]ersion (\S+)", done.stdout)
    return f"{version[1]}, {path}" if version else path


def _caches() -> Iterator[tuple[str, Path, str]]:
    """Yield, for each cache on disk, its name, its folder, and the environment variable that sets another folder."""
    import platformdirs

    cupys = os.environ.get("CUPY_CACHE_DIR") or Path.home() / ".cupy" / "kernel_cache"
    own = Path(os.environ.get("TILEDMM_CACHE_DIR") or platformdirs.user_cache_path("tiledmm"))
    yield "compiled kernels", Path(cupys), "CUPY_CACHE_DIR"
    yield "simulated kernels", own / "simulator", "TILEDMM_CACHE_DIR"
    yield "tuned tables", own / "tuned", "TILEDMM_CACHE_DIR"


def _folder(path: Path) -> str:
    """Return the number of files, the size and the path of a cache folder as text.

    Raises:
        OSError: If the folder cannot be written, or cannot be created.
    """
    there = next(each for each in (path, *path.parents) if each.exists())
    with tempfile.NamedTemporaryFile(dir=there):
        pass
    if there != path:
        return f"empty, {path}"
    sizes = [file.stat().st_size for file in path.rglob("*") if file.is_file()]
    return f"{len(sizes):,} files, {sum(sizes) / 2**20:,.1f} MiB, {path}"


def _peer(name: str, device: str) -> str:
    """Return the version of another library, and whether it can use a GPU.

    A new process imports the library, because a broken library may crash the process.

    Args:
        name: Name of the library's module.
        device: Python expression for whether the module ``m`` can use a GPU; ``"None"`` if that is unknown.

    Raises:
        NotThere: If the library is not installed.
        RuntimeError: If it cannot be imported.
    """
    if importlib.util.find_spec(name) is None:
        raise NotThere("not installed")
    code = f"import {name} as m; print(m.__version__, {device})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=_SECONDS_FOR_A_PEER)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1])
    version, _, on_gpu = done.stdout.strip().splitlines()[-1].partition(" ")
    return version + {"True": ", with the GPU", "False": ", without a GPU"}.get(on_gpu, "")
