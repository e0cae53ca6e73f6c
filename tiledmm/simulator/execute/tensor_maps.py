"""Tensor maps, the descriptors of TMA, as ``cuTensorMapEncodeTiled`` makes them, but without a driver.

The 128 bytes are in a format of the simulator's own (``build/native/tensor_maps.h``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tiledmm.errors import ConfigError, OperandTypeError
from tiledmm.simulator.execute.known_arrays import KNOWN
from tiledmm.simulator.execute.memory import owner_of

#: The first word of a map.
MAGIC = 0x70616D5F72736E74

#: Bytes of a map.
BYTES = 128

#: Types of elements, and the number and the size in bytes that each has in a map.
TYPES = {
    "uint8": (0, 1), "uint16": (1, 2), "uint32": (2, 4), "int32": (3, 4), "uint64": (4, 8), "int64": (5, 8),
    "float16": (6, 2), "float32": (7, 4), "float64": (8, 8), "bfloat16": (9, 2), "float32_ftz": (10, 4),
    "tfloat32": (11, 4), "tfloat32_ftz": (12, 4),
}  # fmt: skip
_FLOATS = frozenset(name for name in TYPES if "float" in name)

# Other names. 8-bit floats have no type of their own: TMA copies their bytes.
_OTHER_NAMES = {
    "tf32": "tfloat32", "int8": "uint8", "bool": "uint8", "int16": "uint16",
    "float8_e4m3fn": "uint8", "float8_e5m2": "uint8",
}  # fmt: skip

_MOST_DIMENSIONS, _ALIGNMENT = 5, 16
_LARGEST_SIZE, _LARGEST_STRIDE, _LARGEST_BOX, _LARGEST_STEP = 2**32, 2**40, 256, 8
_MOST_BYTES = 228 * 1024  # of a box, as an H200's driver has it
_SWIZZLES, _PROMOTIONS, _FILLS = (0, 32, 64, 128), (0, 64, 128, 256), ("zeros", "nan")

# As in ``build/native/tensor_maps.h``.
_LAYOUT = np.dtype(
    [
        ("magic", "u8"), ("address", "u8"),
        ("dimensions", [("size_and_box", "u8"), ("stride_and_step", "u8")], _MOST_DIMENSIONS),
        ("type", "u1"), ("fills_nan", "u1"), ("swizzle", "u2"), ("interleave", "u2"), ("rank", "u2"),
        ("unused", "u8", 3),
    ]
)  # fmt: skip


class TensorMap:
    """A tensor map, which a kernel receives by value, or by a pointer to it: an argument of ``simulator.launch``.

    ``tensor_map`` creates it. ``np.asarray(map)`` and ``map.to_bytes()`` are its 128 bytes. The address in them is that
    of the NumPy array: a launch finds the array by it.

    Attributes:
        array: The array whose memory it describes.
        dtype: The type of an element: a key of ``TYPES``.
        sizes: Elements per dimension, fastest first.
        strides: Bytes from an element to the next in every dimension but the first.
        box: Elements per dimension of a box, before element strides.
        element_strides: Step between the elements of a box in every dimension.
        swizzle: Bytes of the swizzle, 0 for none.
        fill: What an element outside of the array is: "zeros" or "nan".
        offset: Bytes from the array's first element to the map's.
    """

    def __init__(
        self,
        array: np.ndarray[Any, Any],
        dtype: str,
        sizes: tuple[int, ...],
        strides: tuple[int, ...],
        box: tuple[int, ...],
        element_strides: tuple[int, ...],
        swizzle: int,
        fill: str,
        offset: int,
    ) -> None:
        self.array, self.dtype, self.sizes, self.strides, self.box = array, dtype, sizes, strides, box
        self.element_strides, self.swizzle, self.fill, self.offset = element_strides, swizzle, fill, offset
        self._encoded = encode(
            int(array.ctypes.data) + offset, dtype, sizes, strides, box, element_strides=element_strides,
            swizzle=swizzle, fill=fill, phase=_phase(array) + offset,
        )  # fmt: skip
        KNOWN.remember(array)

    def to_bytes(self) -> bytes:
        """Return the map in the simulator's own format, for an array in global memory that the kernel reads as maps."""
        return self._encoded

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        encoded: np.ndarray[Any, Any] = np.frombuffer(self._encoded, np.uint8).astype(dtype or np.uint8)
        return encoded

    def __repr__(self) -> str:
        steps = f", element_strides={self.element_strides}" if set(self.element_strides) != {1} else ""
        return (
            f"TensorMap({self.dtype}, sizes={self.sizes}, strides={self.strides}, box={self.box}{steps}, "
            f"swizzle={self.swizzle}, fill={self.fill!r})"
        )


def tensor_map(
    array: np.ndarray[Any, Any],
    box: int | Sequence[int],
    *,
    sizes: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    dtype: Any = None,
    element_strides: Sequence[int] | None = None,
    swizzle: int = 0,
    interleave: int = 0,
    fill: str = "zeros",
    l2_promotion: int = 0,
    offset: int = 0,
) -> TensorMap:
    """Return a tensor map of an array, as ``cuTensorMapEncodeTiled`` encodes it, for an argument of ``launch``.

    Dimensions are in CUDA's order, fastest first: a box of ``(64, 8)`` has 64 columns and 8 rows of a matrix.

    Args:
        array: The array.
        box: Elements per dimension of a box; an int for one dimension.
        sizes: Elements per dimension; by default those of the array.
        strides: Bytes from an element to the next in every dimension but the first; by default those of the array.
        dtype: Type of an element: a NumPy type, or a name of CUDA's types such as ``"bfloat16"``, or ``"tfloat32"`` for
            float32 that a load rounds to tf32. By default the array's type; TMA copies 8-bit floats as uint8.
        element_strides: Step between the elements of a box in every dimension, from 1 to 8; by default 1. As on a GPU,
            that of the first dimension is ignored.
        swizzle: Bytes of the swizzle: 0, 32, 64 or 128.
        interleave: Must be 0: interleaved layouts are not simulated.
        fill: What elements of a box outside of the array are: ``"zeros"``, or ``"nan"`` for floating-point numbers.
        l2_promotion: Ignored, as it changes no result.
        offset: Bytes from the array's first element to the map's.

    Raises:
        OperandTypeError: If ``array`` is no NumPy array, or if its type or ``dtype`` is none of a tensor map's.
        ConfigError: If the driver would refuse the map; the message names the rule.

    Example:
        >>> a = np.zeros((100, 64), np.float16)
        >>> tensor_map(a, (64, 16), swizzle=128)
        TensorMap(float16, sizes=(64, 100), strides=(128,), box=(64, 16), swizzle=128, fill='zeros')
    """
    if not isinstance(array, np.ndarray):
        raise OperandTypeError(f"a tensor map is one of a NumPy array; got {type(array).__name__}")
    name = _type_name(array.dtype if dtype is None else dtype)
    if not array.dtype.isnative:
        raise OperandTypeError(
            f"the array of a tensor map has elements in non-native byte order ({array.dtype.str}): pass "
            "x.astype(x.dtype.newbyteorder('='))"
        )
    if interleave not in (0, 16, 32):
        raise ConfigError(f"interleave must be 0, 16 or 32; got {interleave!r}")
    if interleave:
        raise ConfigError(f"interleave={interleave} is not simulated: pass 0")
    if l2_promotion not in _PROMOTIONS:
        raise ConfigError(f"l2_promotion must be 0, 64, 128 or 256; got {l2_promotion!r}")
    if (sizes is None or strides is None) and TYPES[name][1] != array.itemsize:
        raise ConfigError(
            f"an element of {name} has {TYPES[name][1]} bytes, but one of the array has {array.itemsize}: pass sizes "
            "and strides, too"
        )
    if strides is None and array.ndim and array.shape[-1] > 1 and array.strides[-1] != array.itemsize:
        raise ConfigError(
            f"the elements of a row must lie side by side: the array's last stride must be {array.itemsize} bytes; got "
            f"{array.strides[-1]}"
        )
    boxes = _integers("box", (box,) if isinstance(box, (int, np.integer)) else box)
    return TensorMap(
        array,
        name,
        _integers("sizes", array.shape[::-1] if sizes is None else sizes),
        _integers("strides", array.strides[-2::-1] if strides is None else strides),
        boxes,
        (1,) * len(boxes) if element_strides is None else _integers("element_strides", element_strides),
        int(swizzle),
        fill,
        int(offset),
    )


def encode(
    address: int,
    dtype: str,
    sizes: Sequence[int],
    strides: Sequence[int],
    box: Sequence[int],
    *,
    element_strides: Sequence[int] = (),
    swizzle: int = 0,
    fill: str = "zeros",
    phase: int | None = None,
) -> bytes:
    """Return the 128 bytes of a tensor map.

    Args:
        address: Address of the first element.
        dtype: Type of an element: a key of ``TYPES``.
        sizes, strides, box, swizzle, fill: As for ``tensor_map``.
        element_strides: As for ``tensor_map``; empty for 1.
        phase: Distance from an aligned address in the memory of a launch, which decides instead of the address; None if
            the address itself decides.

    Raises:
        ConfigError: If the driver would refuse these arguments.
    """
    steps = tuple(element_strides) or (1,) * len(box)
    _check(dtype, sizes, strides, box, steps, swizzle, fill)
    if (at := address if phase is None else phase) % _ALIGNMENT:
        raise ConfigError(
            f"the address of a tensor map must be a multiple of {_ALIGNMENT} bytes; got one that is {at % _ALIGNMENT} "
            "bytes behind a multiple"
        )
    number, size = TYPES[dtype]
    encoded = np.zeros((), _LAYOUT)
    encoded["magic"], encoded["address"] = MAGIC, address
    encoded["type"], encoded["fills_nan"], encoded["swizzle"] = number, fill == "nan", swizzle
    encoded["rank"] = len(sizes)
    dimensions = [*zip(sizes, (size, *strides), box, steps, strict=True)]
    for at, each in enumerate(dimensions + [(1, 0, 1, 1)] * (_MOST_DIMENSIONS - len(sizes))):
        elements, stride, most, step = map(int, each)
        encoded["dimensions"][at] = elements | most << 48, stride | step << 48
    return encoded.tobytes()


def is_address_in_map(raw: bytes, offset: int) -> bool:
    """Return whether the word at an offset in some bytes is the address of a tensor map."""
    return offset >= 8 and int.from_bytes(raw[offset - 8 : offset], "little") == MAGIC


def _check(
    dtype: str,
    sizes: Sequence[int],
    strides: Sequence[int],
    box: Sequence[int],
    steps: Sequence[int],
    swizzle: int,
    fill: str,
) -> None:
    """Raise an error if the driver would refuse these arguments.

    Raises:
        ConfigError: The message names the rule.
    """
    rank, row = len(sizes), int(box[0]) * TYPES[dtype][1] if len(box) else 0
    if not 1 <= rank <= _MOST_DIMENSIONS:
        raise ConfigError(f"a tensor map has 1 to {_MOST_DIMENSIONS} dimensions; got {rank}")
    for what, values, count in (
        ("strides", strides, rank - 1),
        ("box", box, rank),
        ("element_strides", steps, rank),
    ):
        if len(values) != count:
            more = " (of all dimensions but the first)" if what == "strides" else ""
            raise ConfigError(f"{what} must have {count} values{more} for {rank} dimensions; got {len(values)}")
    for what, values, least, most, said in (
        ("sizes", sizes, 1, _LARGEST_SIZE, "2^32"),
        ("box", box, 1, _LARGEST_BOX, "256"),
        ("element_strides", steps, 1, _LARGEST_STEP, "8"),
    ):
        for at, value in enumerate(values):
            if not least <= value <= most:
                raise ConfigError(f"{what}[{at}] must be from {least} to {said}; got {value}")
    for at, value in enumerate(strides):
        if not 0 <= value < _LARGEST_STRIDE or value % _ALIGNMENT:
            raise ConfigError(
                f"strides[{at}] must be a multiple of {_ALIGNMENT} bytes from 0 to less than 2^40; got {value}"
            )
    if row % _ALIGNMENT:
        raise ConfigError(
            f"a row of a box must have a multiple of {_ALIGNMENT} bytes; got {box[0]} elements of {row // box[0]} bytes"
        )
    loaded = row * math.prod(-(-most // step) for most, step in zip(box[1:], steps[1:], strict=True))
    if loaded > _MOST_BYTES:
        raise ConfigError(f"a box must have at most {_MOST_BYTES:,} bytes; got {loaded:,}")
    if swizzle not in _SWIZZLES:
        raise ConfigError(f"swizzle must be 0, 32, 64 or 128 bytes; got {swizzle!r}")
    if swizzle and row > swizzle:
        raise ConfigError(
            f"a row of a box must have at most the {swizzle} bytes of the swizzle; got {row}: {box[0]} elements of "
            f"{row // box[0]} bytes"
        )
    if fill not in _FILLS:
        raise ConfigError(f"fill must be 'zeros' or 'nan'; got {fill!r}")
    if fill == "nan" and dtype not in _FLOATS:
        raise ConfigError(f"fill='nan' is for floating-point numbers; the elements are {dtype}")


def _type_name(dtype: Any) -> str:
    """Return the name in ``TYPES`` of a NumPy type or of a name.

    Raises:
        OperandTypeError: If there is none.
    """
    name = dtype if isinstance(dtype, str) else ""
    try:
        name = name if name in TYPES or name in _OTHER_NAMES else np.dtype(dtype).name
    except TypeError:
        name = str(dtype)
    name = _OTHER_NAMES.get(name, name)
    if name not in TYPES:
        raise OperandTypeError(f"a tensor map has elements of one of the types {', '.join(TYPES)}; got {name}")
    return name


def _integers(what: str, values: Any) -> tuple[int, ...]:
    """Return whole numbers as a tuple.

    Raises:
        ConfigError: If they are something else.
    """
    found = tuple(values) if isinstance(values, Sequence | np.ndarray) and not isinstance(values, str) else None
    if found is None or not all(isinstance(each, (int, np.integer)) for each in found):
        raise ConfigError(f"{what} must be integers, one per dimension; got {values!r}")
    return tuple(map(int, found))


def _phase(array: np.ndarray[Any, Any]) -> int:
    """Return the distance of an array's first element from the memory that owns it, which is aligned in a launch."""
    return int(array.ctypes.data) - int(owner_of(array).ctypes.data)
