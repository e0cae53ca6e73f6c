"""Errors that this package raises.

Each derives from the builtin that ``numpy.matmul`` raises for the same mistake, and from no other. So existing
``except`` clauses keep working, and none of them catches a different mistake. (For some mistakes NumPy raises TypeError
and CuPy ValueError, or the reverse; ``tests/test_operands.py`` lists them.)

    TiledmmError
    ├── ShapeError              ValueError             shapes of operands do not match
    ├── AxisError               numpy's AxisError      an axis does not exist (a ValueError and an IndexError)
    ├── KeywordError            one of the next two    a keyword is not valid for this function
    │   ├── KeywordTypeError    TypeError              a keyword is not supported, or its value has the wrong type
    │   └── KeywordValueError   ValueError             a keyword's value is not one of the allowed values
    ├── OperandTypeError        TypeError              an operand is not an array of the expected library
    ├── UnsupportedTypeError    TypeError              an element type or a cast is not supported
    ├── AlignmentError          ValueError             an address or stride is not a multiple of the element size
    ├── UnknownVariantError     ValueError             a variant is not registered
    ├── ConfigError             ValueError             a tile, config field or option does not exist or does not fit
    ├── PreparedOperandError    RuntimeError           a prepared operand's array has changed, or a graph is captured
    ├── DeviceError             RuntimeError           there is no GPU, or the kernel cannot run on it
    ├── CompilationError        RuntimeError           a kernel does not compile
    ├── SimulationError         RuntimeError           the simulator found errors in a kernel
    ├── ProfilingError          RuntimeError           Nsight Compute is missing or failed
    ├── MissingDependencyError  ImportError            an optional package is not installed
    └── MissingModuleError      AttributeError         a module of this package needs such a package

``device_module`` and ``needs`` import optional packages and raise MissingDependencyError if that fails.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np

#: Command that installs an extra, for error messages. The package is not on any package index yet.
INSTALL = 'in a checkout of tiledmm: pip install ".[{extra}]"'


class TiledmmError(Exception):
    """Base class of all errors that this package raises deliberately."""


class ShapeError(TiledmmError, ValueError):
    """Error for operands or outputs whose shapes do not match."""


class AxisError(TiledmmError, np.exceptions.AxisError):
    """Error for an entry of ``axes=`` that names an axis which does not exist, or the wrong number of axes."""


class KeywordError(TiledmmError):
    """Base class of the errors for keyword arguments: ``KeywordTypeError`` and ``KeywordValueError``."""


class KeywordTypeError(KeywordError, TypeError):
    """Error for a keyword that is not supported, alone or with another one, or whose value has the wrong type."""


class KeywordValueError(KeywordError, ValueError):
    """Error for a keyword whose value has the right type but is not one of the allowed values."""


class OperandTypeError(TiledmmError, TypeError):
    """Error for an operand that is not an array of the expected library."""


class UnsupportedTypeError(TiledmmError, TypeError):
    """Error for an element type, or a conversion between two types, that is not supported."""


class AlignmentError(TiledmmError, ValueError):
    """Error for an address or a stride in bytes that is not a multiple of the element size."""


class UnknownVariantError(TiledmmError, ValueError):
    """Error for a variant name that is not registered."""


class ConfigError(TiledmmError, ValueError):
    """Error for a tile, config field or option that does not exist or does not fit."""


class PreparedOperandError(TiledmmError, RuntimeError):
    """Error for a prepared operand that cannot be used: its array has changed, or a graph is captured too early."""


class DeviceError(TiledmmError, RuntimeError):
    """Error for a missing GPU, or for a GPU that the kernel cannot run on."""


class CompilationError(TiledmmError, RuntimeError):
    """Error for a kernel that does not compile; the message shows the source lines."""


class SimulationError(TiledmmError, RuntimeError):
    """Error for a kernel in which the simulator found errors; the message names lines, blocks and threads."""


class ProfilingError(TiledmmError, RuntimeError):
    """Error for a profile that Nsight Compute did not make; the message names the reason.

    Nsight Compute may not be installed, may have no permission to read the GPU's counters, or may have profiled another
    kernel.
    """


class MissingDependencyError(TiledmmError, ImportError):
    """Error for an optional package that is not installed; the message shows the command that installs it."""


class MissingModuleError(TiledmmError, AttributeError):
    """Error for an attribute that is a module of this package whose optional package is not installed.

    Its cause is a ``MissingDependencyError``. One class cannot derive from both ImportError and AttributeError.
    """


def device_module(name: str) -> Any:
    """Import a module of this package that needs CuPy, and return it.

    Args:
        name: Name of the module within the package: ``"compile.compilation"``.

    Raises:
        MissingDependencyError: If CuPy cannot be imported; the message has the command that installs it.
    """
    try:
        return importlib.import_module(f"tiledmm.{name}")
    except ImportError as error:
        raise MissingDependencyError(
            f"this needs CuPy, which does not import here ({error}); "
            f"on a machine with an NVIDIA GPU, {INSTALL.format(extra='cuda12')} (or cuda13)"
        ) from error


@contextlib.contextmanager
def needs(package: str, extra: str) -> Iterator[None]:
    """Return a context manager in which a failed import raises an error that names the extra to install.

    Args:
        package: Name of the package, for the message.
        extra: Extra of this package that installs it.

    Raises:
        MissingDependencyError: If an import within the ``with`` block fails.
    """
    try:
        yield
    except ImportError as error:
        raise MissingDependencyError(
            f"this needs {package}, which does not import here ({error}); {INSTALL.format(extra=extra)}"
        ) from error
