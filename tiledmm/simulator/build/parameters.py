"""The parameters of a kernel, and checks and conversion of the arguments that are passed for them.

The compiled kernel describes its parameters (``native/parameters.h``); their names are read from its text.
"""

from __future__ import annotations

import ctypes
import re
from ctypes import Structure, c_char_p, c_uint32
from dataclasses import dataclass
from typing import Any

import numpy as np

from tiledmm.errors import AlignmentError, ConfigError, OperandTypeError
from tiledmm.simulator.build.native_library import Library
from tiledmm.simulator.build.translation.syntax import parameter_names, short_name

# In the order of ``ParameterKind`` in ``native/parameters.h``.
POINTER, SIGNED, UNSIGNED, FLOAT, BOOL, OTHER = range(6)

# NumPy's kinds of elements that each kind of pointer takes, where the sizes agree.
_TAKES = {SIGNED: "iu", UNSIGNED: "iub", FLOAT: "fc", BOOL: "b"}

# Structures that hold no pointers.
_WITHOUT_POINTERS = re.compile(
    r"\b(?:u?(?:char|short|int|long|longlong|float|double)[1-4]|dim3|(?:__)?half2?|(?:__)?nv_bfloat162?|complex<\w+>)\b"
)


class _NativeParameter(Structure):
    _fields_ = [
        ("kind", c_uint32), ("read_only", c_uint32), ("bytes", c_uint32),
        ("element_bytes", c_uint32), ("element_alignment", c_uint32), ("element_kind", c_uint32), ("text", c_char_p),
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a kernel.

    Attributes:
        name: Name in the source; the parameter's number if the name is not known.
        type: Type in C++: ``"const float*"``.
        kind: ``POINTER``, ``SIGNED``, ``UNSIGNED``, ``FLOAT``, ``BOOL`` or ``OTHER`` (a structure).
        bytes: Size of an argument in bytes.
        read_only: Whether it is a pointer to const.
        element_kind, element_bytes, element_alignment: Kind, size and alignment of what a pointer points to; size and
            alignment are in bytes, and 0 for void.
    """

    name: str
    type: str
    kind: int
    bytes: int
    read_only: bool
    element_kind: int
    element_bytes: int
    element_alignment: int

    @property
    def is_pointer_to_pointers(self) -> bool:
        """True for a type such as ``float**``."""
        return re.search(r"\*[^*()]*\*[^*()]*$", self.type) is not None

    @property
    def leads_to_pointers(self) -> bool:
        """True if it is a structure, or a pointer to structures or pointers, in which pointers may be."""
        has_structures = OTHER in (self.kind, self.element_kind) and not _WITHOUT_POINTERS.search(self.type)
        return has_structures or self.is_pointer_to_pointers

    def takes_by_value(self, array: np.ndarray[Any, Any], *, exact: bool) -> bool:
        """Return whether an array passes for a number or a structure, as one of a single element does in CuPy.

        Args:
            array: The array.
            exact: Whether only what CuPy passes by value does; if not, several elements may be a structure.
        """
        return self.kind != POINTER and (array.size == 1 or (self.kind == OTHER and not exact))

    def may_lead_to_pointers(self, dtype: np.dtype[Any]) -> bool:
        """Return whether an argument with such elements may hold pointers, or is memory for anything."""
        return self.kind == OTHER or self.element_kind == OTHER or may_hold_pointers(dtype)

    def check_array(self, array: np.ndarray[Any, Any]) -> None:
        """Raise an error if an array cannot be passed for this parameter.

        Raises:
            OperandTypeError: If the parameter is not a pointer, or points to elements of another type or byte order.
            AlignmentError: If the array's address or size does not fit elements of that size.
        """
        if not array.dtype.isnative:
            raise OperandTypeError(
                f"parameter {self.name} got elements in non-native byte order ({array.dtype.str}): pass "
                "x.astype(x.dtype.newbyteorder('='))"
            )
        if self.kind != POINTER:
            raise OperandTypeError(
                f"parameter {self.name} is {self._article()}, not a pointer; got an array of {array.dtype}"
            )
        size = array.dtype.itemsize
        if self.element_bytes <= 1 and self.element_kind in (SIGNED, UNSIGNED, OTHER):  # void or char: any bytes
            return
        kinds = _TAKES.get(self.element_kind)
        fits = (
            self.element_bytes % size == 0
            if kinds is None  # a structure or a vector type of smaller elements
            else array.dtype.kind in kinds and size == self.element_bytes * (2 if array.dtype.kind == "c" else 1)
        )
        if not fits:
            raise OperandTypeError(f"parameter {self.name} is {self._article()}; got an array of {array.dtype}")
        if array.size and array.ctypes.data % size:
            raise AlignmentError(
                f"the address of the array for parameter {self.name} is not a multiple of its element size, {size} "
                "bytes, so a GPU cannot access it: pass a copy (x.copy())"
            )
        if array.nbytes % self.element_bytes:
            raise AlignmentError(
                f"parameter {self.name} is {self._article()}, whose elements have {self.element_bytes} bytes, but the "
                f"array has {array.nbytes} bytes, which is not a multiple of that"
            )

    def scalar(self, value: Any, *, exact: bool) -> Any:
        """Convert an argument that is not an array to a ctypes buffer with its bytes.

        Args:
            value: A number, None for a null pointer, or a structure: a NumPy scalar, bytes, or a ctypes structure.
            exact: Whether it must have the size that CuPy would pass for it: a Python float is passed as a double.

        Raises:
            OperandTypeError: If the parameter has another type.
            ConfigError: If the parameter cannot hold the value.
        """
        if self.kind == POINTER:
            if value is None or isinstance(value, ctypes.c_void_p):
                return ctypes.c_void_p(None if value is None else value.value)
            raise OperandTypeError(
                f"parameter {self.name} is {self._article()}; got {_kind_of(value)}: pass a NumPy array, or None for a "
                "null pointer"
            )
        if isinstance(value, (np.ndarray, np.generic)) and not value.dtype.isnative:
            raise OperandTypeError(
                f"parameter {self.name} got {value.dtype}, which is in non-native byte order: pass "
                "x.astype(x.dtype.newbyteorder('='))"
            )
        if self.kind == OTHER:
            return self._structure(value, exact=exact)
        dtype = np.dtype({SIGNED: "i", UNSIGNED: "u", FLOAT: "f", BOOL: "b"}[self.kind] + str(self.bytes))
        if self.kind == BOOL:
            dtype = np.dtype(np.bool_)
        if isinstance(value, np.ndarray) and value.size == 1:
            value = value.reshape(())[()]
        if not isinstance(value, (bool, int, float, np.number, np.bool_)):
            raise OperandTypeError(f"parameter {self.name} is {self._article()}; got {_kind_of(value)}")
        if exact and self.kind == FLOAT and not (isinstance(value, np.floating) and value.dtype == dtype):
            passed = (
                "as a double" if isinstance(value, float) else "as an integer" if isinstance(value, int) else "as it is"
            )
            if not (self.bytes == 8 and isinstance(value, float)):
                raise OperandTypeError(
                    f"parameter {self.name} is {self._article()}; got {_kind_of(value)}, which CuPy passes {passed}: "
                    f"pass numpy.{dtype}({value})"
                )
        if exact and self.kind != FLOAT and isinstance(value, (float, np.floating)):
            raise OperandTypeError(
                f"parameter {self.name} is {self._article()}; got {_kind_of(value)}, whose bytes CuPy passes as they "
                f"are: pass an integer"
            )
        if exact and isinstance(value, np.number) and value.dtype.itemsize < dtype.itemsize:
            raise OperandTypeError(
                f"parameter {self.name} is {self._article()}; got {_kind_of(value)}, of {value.dtype.itemsize} bytes: "
                f"pass numpy.{dtype}({value})"
            )
        if self.kind in (SIGNED, UNSIGNED):
            if int(value) != value:
                raise ConfigError(f"parameter {self.name} is {self._article()}; got {value!r}")
            limits = np.iinfo(dtype)
            if not limits.min <= int(value) <= limits.max:
                raise ConfigError(
                    f"parameter {self.name} is {self._article()}, from {limits.min} to {limits.max}; got {value}"
                )
            value = int(value)
        return _buffer(np.array(value, dtype).tobytes())

    def _structure(self, value: Any, *, exact: bool) -> Any:
        if exact and isinstance(value, (complex, float)) and not isinstance(value, np.generic):
            value = np.array(value)[()]  # a double, or two
        if isinstance(value, (ctypes.Structure, ctypes.Array, bytes, bytearray)):
            raw = bytes(value)
        elif isinstance(value, (np.generic, np.ndarray)):
            raw = value.tobytes()
        elif hasattr(value, "__array__"):  # a tensor map
            raw = np.asarray(value).tobytes()
        elif isinstance(value, (complex, float)):
            raw = np.array(value, {4: "f4", 8: "c8", 16: "c16"}.get(self.bytes, "c16")).tobytes()
        else:
            raise OperandTypeError(
                f"parameter {self.name} is a {self.type} of {self.bytes} bytes; got {_kind_of(value)}: pass a NumPy "
                "structured scalar, bytes, or a ctypes structure"
            )
        if len(raw) != self.bytes:
            aligned = " (np.dtype(..., align=True) pads members as C++ does)" if isinstance(value, np.void) else ""
            raise OperandTypeError(
                f"parameter {self.name} is a {self.type} of {self.bytes} bytes; got {len(raw)} bytes{aligned}"
            )
        return _buffer(raw)

    def _article(self) -> str:
        return ("an " if self.type[:1] in "aeiou" and not self.type.startswith("uni") else "a ") + self.type


def may_hold_pointers(dtype: np.dtype[Any]) -> bool:
    """Return whether elements of a type may hold pointers: structures, words of eight bytes, and bytes."""
    return dtype.kind == "V" or (dtype.kind in "iu" and dtype.itemsize in (1, 8))


def parameters_of(library: Library, text: str, name: str) -> tuple[Parameter, ...]:
    """Return the parameters of a compiled kernel, in order.

    Args:
        library: The kernel's library.
        text: The kernel's source.
        name: The kernel's name, with its template arguments.
    """
    count = library.functions.tiledmm_parameter_count()
    native = (_NativeParameter * count)()
    library.functions.tiledmm_describe_parameters(native)
    found = parameter_names(text, short_name(name))
    named = found if len(found) == count else [""] * count
    names = [each or str(at) for at, each in enumerate(named)]
    return tuple(
        Parameter(
            known, _type(each.text.decode()), each.kind, each.bytes, bool(each.read_only), each.element_kind,
            each.element_bytes, each.element_alignment,
        )
        for known, each in zip(names, native, strict=True)
    )  # fmt: skip


def _type(pretty: str) -> str:
    """Return the C++ type T that ``__PRETTY_FUNCTION__`` contains.

    For example ``const float*`` of ``const char* type_text() [with T = const float*]``.
    """
    return re.sub(r"\s+([*&])", r"\1", pretty.partition("T = ")[2].removesuffix("]"))


def _buffer(raw: bytes) -> Any:
    return (ctypes.c_uint8 * len(raw)).from_buffer_copy(raw)


def _kind_of(value: Any) -> str:
    kind = type(value)
    return f"{'' if kind.__module__ == 'builtins' else kind.__module__ + '.'}{kind.__qualname__} {value!r}"[:120]
