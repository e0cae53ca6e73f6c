"""The errors this package raises.

Each derives from the builtin that ``numpy.matmul`` raises for the same mistake, and from no other: existing ``except``
clauses keep working, and none catches a mistake that it is not for. (CuPy raises ValueError for some of those that are
a TypeError of NumPy's, and the other way round; ``tests/test_operands.py`` lists them.)

    TiledmmError
    ├── ShapeError              ValueError             shapes that do not make a product
    ├── AxisError               numpy's AxisError      an axis that is not there (a ValueError and an IndexError)
    ├── KeywordError            always one of these    a keyword that this function cannot take
    │   ├── KeywordTypeError    TypeError              a keyword that has no use here, or a value of the wrong type
    │   └── KeywordValueError   ValueError             a value that is none of those which the keyword takes
    ├── OperandTypeError        TypeError              something that is not an array of the kind expected
    ├── UnsupportedTypeError    TypeError              an element type or a cast that is not supported
    ├── AlignmentError          ValueError             data that does not begin at a multiple of its element size
    ├── UnknownVariantError     ValueError             a name that is not registered
    ├── ConfigError             ValueError             a tile that does not fit, or a variant that has none
    ├── DeviceError             RuntimeError           no GPU, the wrong GPU, or one that is too old
    ├── CompilationError        RuntimeError           a kernel that does not compile
    ├── SimulationError         RuntimeError           a kernel with findings of the simulator
    ├── ProfilingError          RuntimeError           Nsight Compute is missing, or could not do its work
    ├── MissingDependencyError  ImportError            an optional package that is needed now
    └── MissingModuleError      AttributeError         a module of this package that needs such a package
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


class KeywordError(TiledmmError):
    """A keyword that this function cannot take. What is raised is one of the two classes below."""


class KeywordTypeError(KeywordError, TypeError):
    """A keyword that has no use here or not beside another one, or whose value is of the wrong type."""


class KeywordValueError(KeywordError, ValueError):
    """A keyword whose value is of the right type, and none of those that it takes."""


class OperandTypeError(TiledmmError, TypeError):
    """An operand that is not an array of the expected library."""


class UnsupportedTypeError(TiledmmError, TypeError):
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


class MissingModuleError(TiledmmError, AttributeError):
    """A module of this package, as an attribute, whose optional package is not installed; its cause is the error above.

    No class can be an ImportError and an AttributeError, and an attribute that cannot be had is the latter.
    """
