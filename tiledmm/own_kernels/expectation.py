"""Expected result of a kernel: a product of matrices in one of eight layouts, or what a user's function returns."""

from __future__ import annotations

import importlib.util
import itertools
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from tiledmm.errors import ConfigError
from tiledmm.kernels.plain import SIZES
from tiledmm.own_kernels.matrix_values import Array, Values, small_numbers, unset
from tiledmm.own_kernels.roles import BATCH, HALVES, Roles
from tiledmm.own_kernels.structures import Structure
from tiledmm.simulator.build.parameters import BOOL, FLOAT, SIGNED, UNSIGNED, Parameter

#: Values of alpha and beta. They are neither 1 nor 0, so that a kernel that ignores them is wrong.
ALPHA, BETA = 2, 3

# Element types that C++ does not have, of vectors, and of rows: float (*)[64].
_ELEMENTS = {
    "__half": np.dtype(np.float16), "half": np.dtype(np.float16), "__half2": np.dtype(np.float16),
    "__nv_bfloat16": np.dtype(ml_dtypes.bfloat16), "nv_bfloat16": np.dtype(ml_dtypes.bfloat16),
    "__nv_bfloat162": np.dtype(ml_dtypes.bfloat16),
    "float2": np.dtype(np.float32), "float4": np.dtype(np.float32), "double2": np.dtype(np.float64),
    "int2": np.dtype(np.int32), "int4": np.dtype(np.int32), "float": np.dtype(np.float32),
    "double": np.dtype(np.float64), "int": np.dtype(np.int32),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Layout:
    """Which matrices a kernel reads and writes transposed.

    Attributes:
        a: Whether A is stored as (K, M).
        b: Whether B is stored as (N, K).
        c: Whether C is stored as (N, M).
    """

    a: bool = False
    b: bool = False
    c: bool = False

    def shape(self, matrix: str, sizes: Mapping[str, int]) -> tuple[int, int]:
        """Return the shape of A, B or C in memory."""
        rows, cols = self.letters(matrix)
        return sizes[rows], sizes[cols]

    def letters(self, matrix: str) -> tuple[str, str]:
        """Return the names of the extents of A, B or C in memory: ``("N", "K")``."""
        names = {"A": ("M", "K"), "B": ("K", "N"), "C": ("M", "N")}[matrix]
        transposed = {"A": self.a, "B": self.b, "C": self.c}[matrix]
        return (names[1], names[0]) if transposed else names

    def __str__(self) -> str:
        if self.a and self.b and self.c:
            return "A, B and C by columns, as cuBLAS stores them"
        parts = [f"{each} as ({', '.join(self.letters(each))})" for each in "ABC"]
        return ", ".join(parts[:2]) + f" and {parts[2]}, contiguous rows"


#: Layouts by how usual they are.
LAYOUTS = tuple(
    sorted(
        (Layout(*each) for each in itertools.product((False, True), repeat=3)),
        key=lambda each: (each.a + each.b + each.c) if each != Layout(True, True, True) else 1.5,
    )
)


def element_type(parameter: Parameter) -> np.dtype[Any] | None:
    """Return the NumPy type of the elements that a pointer points to; None for void and structures."""
    letter = {SIGNED: "i", UNSIGNED: "u", FLOAT: "f"}.get(parameter.element_kind)
    if letter:
        return np.dtype(f"{letter}{parameter.element_bytes}")
    if parameter.element_kind == BOOL:
        return np.dtype(np.bool_)
    if re.search(r"\bcu\w*Complex\b|\bcomplex<", parameter.type):
        return np.dtype(np.complex64 if parameter.element_bytes == 8 else np.complex128)
    words = re.findall(r"\w+", re.sub(r"\(.*|\bconst\b|\b__restrict\b", "", parameter.type))
    return _ELEMENTS.get(" ".join(words))


def number_type(parameter: Parameter) -> np.dtype[Any]:
    """Return the NumPy type of a parameter that is a number."""
    if parameter.type in HALVES:
        return np.dtype(ml_dtypes.bfloat16 if "bfloat16" in parameter.type else np.float16)
    return np.dtype({SIGNED: "i", UNSIGNED: "u"}.get(parameter.kind, "f") + str(parameter.bytes))


#: Function ``(parameter, sizes) -> number``.
NumberOf: TypeAlias = Callable[[int, Mapping[str, int]], "int | float | None"]


@dataclass(frozen=True, slots=True)
class Product:
    """The product that a matmul-like kernel should compute: ``alpha * (A @ B) + beta * C``.

    Attributes:
        roles: Roles of the kernel's parameters.
        parameters: The parameters, then the members of structures among them.
        types: Element types of A, B and C.
        structures: The structures among the parameters.
        number_of: Function ``(parameter, sizes) -> number`` that returns what the host code passes.
    """

    roles: Roles
    parameters: Sequence[Parameter]
    types: tuple[np.dtype[Any], np.dtype[Any], np.dtype[Any]]
    structures: Sequence[Structure] = ()
    number_of: NumberOf | None = None

    @classmethod
    def of(
        cls,
        roles: Roles,
        parameters: Sequence[Parameter],
        structures: Sequence[Structure] = (),
        number_of: NumberOf | None = None,
    ) -> Product:
        """Return the product of a kernel with such parameters.

        Raises:
            ConfigError: If a matrix has elements of an unknown type.
        """
        types = []
        for at in roles.order:
            found = element_type(parameters[at])
            if found is None:
                raise ConfigError(
                    f"parameter {parameters[at].name} is a {parameters[at].type}, whose element type is unknown: pass "
                    f"it, as in --args '{parameters[at].name}:f32[M,K], ...'"
                )
            types.append(found)
        elements = [parameters[at].element_bytes for at in roles.order]
        if elements in ([8, 8, 8], [16, 16, 16]) and all(each == np.dtype(f"f{elements[0] // 2}") for each in types):
            types = [np.dtype(f"c{elements[0]}")] * 3  # float2 throughout: complex numbers
        return cls(roles, parameters, (types[0], types[1], types[2]), structures, number_of)

    def arguments(
        self, sizes: Mapping[str, int], layout: Layout, *, zero: bool = False, values: Values | None = None
    ) -> list[Any]:
        """Return new arguments for a launch.

        Args:
            sizes: M, N and K.
            layout: Shapes of the arrays.
            zero: Whether C is zero before the launch, instead of unset.
            values: Function that returns the elements of all matrices; None for small numbers, and for an unset C.
        """
        roles = self.roles
        found: dict[int, Any] = {at: sizes[names[0]] for at, names in roles.sizes.items()}
        for at, matrix in roles.leading.items():
            found[at] = sizes["N"] if matrix == "square" else layout.shape(matrix, sizes)[1]
        for at in roles.others:
            found[at] = self.number_of(at, sizes) if self.number_of else None
            if found[at] is None:
                parameter = self.parameters[at]
                raise ConfigError(f"the file does not determine the argument for {parameter.type} {parameter.name}")
        batch = () if roles.batch is None else (BATCH,)
        if roles.batch is not None:
            found[roles.batch] = BATCH
        for at, matrix, dtype in zip(roles.order, "ABC", self.types, strict=True):
            found[at] = (values or small_numbers)((*batch, *layout.shape(matrix, sizes)), dtype, ord(matrix))
        if roles.beta is None and (zero or values is None):
            shape = (*batch, *layout.shape("C", sizes))
            found[roles.c] = np.zeros(shape, self.types[2]) if zero else unset(shape, self.types[2])
        if roles.beta is not None:
            found[roles.beta] = self._scalar(roles.beta, BETA)
        if roles.alpha is not None:
            found[roles.alpha] = self._scalar(roles.alpha, ALPHA)
        members = len(self.parameters) - sum(len(each.names) for each in self.structures)
        first = members
        for each in self.structures:
            found[each.at] = each.value([found[at] for at in range(first, first + len(each.names))])
            first += len(each.names)
        return [found[at] for at in range(members)]

    def _scalar(self, at: int, value: int) -> Any:
        """Convert a number to the type of a parameter."""
        half = _ELEMENTS.get(self.parameters[at].type) if self.parameters[at].type in HALVES else None
        return value if half is None else half.type(value)

    def result(self, before: Sequence[Any], sizes: Mapping[str, int], layout: Layout) -> Array:
        """Return C as a right kernel leaves it in a layout.

        Args:
            before: Arguments of the launch before it, in any layout: only the order of their elements counts.
            sizes: M, N and K.
            layout: How the kernel reads A and B, and writes C.
        """
        products = [self._rows(each, sizes, layout, slice(None)) for each in self._batch(before)]
        result = np.stack([each.T if layout.c else each for each in products])
        return np.ascontiguousarray(result if self.roles.batch is not None else result[0])

    def matching(
        self, before: Sequence[Any], got: Array, sizes: Mapping[str, int], layouts: Sequence[Layout] = LAYOUTS
    ) -> Layout | None:
        """Return the layout in which a result is right; None if it is wrong in all of them."""
        products, few = self._batch(before), [0, sizes["M"] // 2, sizes["M"] - 1]
        for layout in layouts:
            results = got.reshape(len(products), *layout.shape("C", sizes))
            results = results.transpose(0, 2, 1) if layout.c else results
            if all(
                np.array_equal(result[rows], self._rows(each, sizes, layout, rows))
                for rows in (few, slice(None))
                for result, each in zip(results, products, strict=True)
            ):
                return layout
        return None

    def _batch(self, before: Sequence[Any]) -> list[list[Array]]:
        """Return A, B and C of each product."""
        arrays = [np.asarray(before[at]) for at in self.roles.order]
        if self.roles.batch is None:
            return [arrays]
        return [[each[at] for each in arrays] for at in range(BATCH)]

    def _rows(
        self, matrices: Sequence[Array], sizes: Mapping[str, int], layout: Layout, rows: slice | list[int]
    ) -> Array:
        """Return rows of C, (M, N), as a right kernel computes them."""
        m, n, k = (sizes[each] for each in SIZES)
        flat_a, flat_b, flat_c = (each.reshape(-1) for each in matrices)
        a = flat_a.reshape(k, m).T if layout.a else flat_a.reshape(m, k)
        b = flat_b.reshape(n, k).T if layout.b else flat_b.reshape(k, n)
        # Sums of small integers are exact in float64, whose products are faster.
        wide = np.dtype(np.complex128 if self.types[2].kind == "c" else np.float64)
        product: Array = a[rows].astype(wide) @ b.astype(wide)
        if self.roles.alpha is not None:
            product = ALPHA * product
        if self.roles.beta is not None:
            c = flat_c.reshape(n, m).T if layout.c else flat_c.reshape(m, n)
            product = product + BETA * c[rows].astype(wide)
        return product.astype(self.types[2])


@dataclass(frozen=True, slots=True)
class Function:
    """A Python function that returns what a kernel should compute.

    Attributes:
        call: The function. Its arguments are the kernel's, as they are before the launch.
        name: Its file and name.
    """

    call: Callable[..., Any]
    name: str

    @classmethod
    def of(cls, text: str) -> Function:
        """Load ``FILE.py:function``, which runs the file.

        Raises:
            ConfigError: If there is no such file or function.
        """
        file, _, name = text.rpartition(":")
        path = Path(file)
        if not file.endswith(".py") or not path.is_file():
            raise ConfigError(
                f"--expect must be 'matmul' or FILE.py:function; got {text!r}, and there is no file {file!r}"
            )
        spec = importlib.util.spec_from_file_location(f"_tiledmm_expect_{path.stem}", path)
        if spec is None or spec.loader is None:
            raise ConfigError(f"{file} cannot be imported")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        if not callable(found := getattr(module, name, None)):
            raise ConfigError(f"{file} has no function {name!r}")
        return cls(found, text)

    def expected(self, before: Sequence[Any], parameters: Sequence[Parameter]) -> dict[int | str, Any]:
        """Return the arrays that the kernel should leave, by the number or name of their parameter.

        Raises:
            ConfigError: If the function returns something else.
        """
        copies = [each.copy() if isinstance(each, np.ndarray) else each for each in before]
        found = self.call(*copies)
        if isinstance(found, Mapping):
            return dict(found)
        written = [
            at for at, each in enumerate(before) if isinstance(each, np.ndarray) and not parameters[at].read_only
        ]
        if not isinstance(found, np.ndarray) or not written:
            raise ConfigError(
                f"{self.name} must return the array that the kernel should write, or a dict that maps names of "
                f"parameters to arrays; it returned {type(found).__name__}"
            )
        return {written[-1]: found.reshape(before[written[-1]].shape)}
