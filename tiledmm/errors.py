"""The errors this package raises.

Each derives from the builtin that NumPy (and, where it differs, CuPy) raises for the same mistake, so existing
``except`` clauses keep working:

    TiledmmError
    ├── ShapeError              ValueError             operands that do not fit together
    ├── AxisError               numpy's AxisError      an axis that is not there (a ValueError and an IndexError)
    ├── KeywordError            TypeError, ValueError  a ufunc keyword that a matrix product cannot take
    ├── OperandTypeError        TypeError              something that is not an array of the kind expected
    ├── UnsupportedTypeError    TypeError, ValueError  an element type or a cast that is not supported
    ├── AlignmentError          ValueError             data that does not begin at a multiple of its element size
    ├── UnknownVariantError     ValueError             a name that is not registered
    ├── ConfigError             ValueError             a tile that does not fit, or a variant that has none
    ├── DeviceError             RuntimeError           no GPU, the wrong GPU, or one that is too old
    ├── CompilationError        RuntimeError           a kernel that does not compile
    ├── SimulationError         RuntimeError           a kernel with findings of the simulator
    ├── ProfilingError          RuntimeError           Nsight Compute is missing, or could not do its work
    └── MissingDependencyError  ImportError            an optional package that is needed now
"""

from __future__ import annotations

import numpy as np

#: How an extra is installed. No package index has this package so far.
INSTALL = 'in a checkout of tiledmm: pip install ".[{extra}]"'


class TiledmmError(Exception):
    """Root of every error raised on purpose by this package."""


class ShapeError(TiledmmError, ValueError):
    """Operands whose shapes do not make a product."""


class AxisError(TiledmmError, np.exceptions.AxisError):
    """An entry of ``axes=`` that names an axis which does not exist, or the wrong number of axes."""


class KeywordError(TiledmmError, TypeError, ValueError):
    """A keyword that NumPy's ufuncs know and a matrix product cannot take (NumPy and CuPy disagree on the builtin)."""


class OperandTypeError(TiledmmError, TypeError):
    """An operand that is not an array of the expected library."""


class UnsupportedTypeError(TiledmmError, TypeError, ValueError):
    """An element type, or a conversion between two, that is not supported."""


class AlignmentError(TiledmmError, ValueError):
    """Data or strides that are not multiples of the element size."""


class UnknownVariantError(TiledmmError, ValueError):
    """A variant name that is not registered."""


class ConfigError(TiledmmError, ValueError):
    """A tile, config field or option that does not exist or does not fit."""


class DeviceError(TiledmmError, RuntimeError):
    """No usable GPU, or one that the kernel cannot run on."""


class CompilationError(TiledmmError, RuntimeError):
    """A kernel that does not compile; the message shows the source lines."""


class SimulationError(TiledmmError, RuntimeError):
    """A kernel in which the simulator found errors; the message names lines, blocks and threads."""


class ProfilingError(TiledmmError, RuntimeError):
    """Nsight Compute is not installed, may not read the counters, or profiled something else; the message says why."""


class MissingDependencyError(TiledmmError, ImportError):
    """An optional package that this call needs is not installed; the message has the command that installs it."""
