"""Roles of the parameters of a matmul-like kernel, by names and types: the matrices, their sizes, alpha and beta."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tiledmm.kernels.plain import SIZES
from tiledmm.simulator.build.parameters import FLOAT, POINTER, SIGNED, UNSIGNED, Parameter

#: CUDA's floating-point types of 16 bits.
HALVES = ("__half", "half", "__nv_bfloat16", "nv_bfloat16")

#: Number of products in the batches of a check.
BATCH = 2

# Prefixes and suffixes of names that tell where the array is: d_A, A_d, devA, matrixA, gpu_a, a_gpu.
_AFFIX = re.compile(
    r"^(?:d|dev|device|g|gpu|cuda|in|mat|matrix|input|arr|p|ptr|buf)_(?=.)"
    r"|(?<=.)_(?:d|dev|device|gpu|mat|matrix|ptr|data)$"
    r"|^(?:dev|gpu|matrix|mat|input)(?=[abcmnpxyw]$)"
)
_OUTPUTS = frozenset(
    ["c", "out", "output", "result", "res", "product", "prod", "p", "y", "dst", "r", "o", "z", "answer", "d"]
)
_PAIRS = (
    ("a", "b"), ("m", "n"), ("x", "w"), ("x", "y"), ("lhs", "rhs"), ("left", "right"), ("first", "second"),
    ("input", "weight"), ("inp", "weight"), ("in1", "in2"), ("src1", "src2"), ("mat1", "mat2"), ("a1", "a2"),
    ("1", "2"), ("m1", "m2"), ("q", "k"),
)  # fmt: skip
_SIZE_NAMES = {
    "M": """m rows nrows numrows rowsa arows rowa numarows numcrows crows ha heighta h height nm sizem mdim dimm batch
        batchsize outrows""",
    "N": """n cols ncols numcols colsb bcols colb numbcols numbcolumns numccols numccolumns ccols wb widthb nn sizen
        ndim dimn columns outfeatures outdim outputsize outsize outcols""",
    "K": """k colsa acols cola numacols numacolumns rowsb brows numbrows wa widtha hb heightb common inner nk sizek
        kdim dimk shared depth p infeatures indim inputsize insize hidden""",
}
_REPEATED = {
    "numbrows": "K", "numcrows": "M", "numccolumns": "N", "numccols": "N", "rowsb": "K", "brows": "K",
}  # fmt: skip
_BATCH = re.compile(r"n?(?:um)?batch(?:es|count|size)?")
_LEADING = {"lda": "A", "ldb": "B", "ldc": "C", "stridea": "A", "strideb": "B", "stridec": "C", "pitch": "square"}

# Words in the names of kernels that do not compute a product of matrices.
_OTHER = re.compile(
    r"add|sub(?!group)|scalar|dot(?!s)|merge|rank|saxpy|axpy|relu|gelu|transpose|copy|softmax|reduc|scan|hist|conv|stencil|norm|sort|scale|fill|"
    r"init|embed|pool|dropout|attention|flash|vec(?!tor_?mat)|gemv|matvec|elementwise|hadamard",
    re.IGNORECASE,
)
_PRODUCT = re.compile(r"gemm|mm(?:_|$|\d)|mul|matri|linear|prod", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Roles:
    """Roles of the parameters of a matmul-like kernel. Parameters are given by their numbers.

    Attributes:
        a, b, c: The operands and the result.
        sizes: Sizes for which each size parameter stands: ``("N",)``; all three in a square product.
        leading: Matrix to which each row-stride parameter belongs.
        alpha, beta: Scalars of ``alpha * (A @ B) + beta * C``; None without the parameter.
        batch: Number of products, whose matrices follow each other in memory; None without the parameter.
        others: Other numbers, such as steps along K per block, whose values are in the host code.
        certain: Whether names tell that the kernel is a product; otherwise it is one only if its result is right.
    """

    a: int
    b: int
    c: int
    sizes: dict[int, tuple[str, ...]] = field(default_factory=dict)
    leading: dict[int, str] = field(default_factory=dict)
    alpha: int | None = None
    beta: int | None = None
    batch: int | None = None
    others: tuple[int, ...] = ()
    certain: bool = True

    @property
    def named(self) -> frozenset[str]:
        """Sizes that are parameters. The others are constants of the kernel, or follow from the grid."""
        return frozenset(size for sizes in self.sizes.values() for size in sizes)

    @property
    def square(self) -> bool:
        """True if one parameter stands for all three sizes."""
        return any(len(sizes) == len(SIZES) for sizes in self.sizes.values())

    def equal_to(self, size: str) -> tuple[str, ...]:
        """Return the sizes for which the same parameter stands as for a given size."""
        return next((sizes for sizes in self.sizes.values() if size in sizes), (size,))

    def united(self, same: Sequence[Sequence[int]]) -> Roles:
        """Return roles in which each parameter of a group stands for all sizes of the group.

        The parameters of a group always have the same value.

        Args:
            same: Numbers of the parameters of each group.
        """
        sizes = dict(self.sizes)
        for group in same:
            names = {name for at in group for name in self.sizes[at]}
            sizes |= dict.fromkeys(group, tuple(each for each in SIZES if each in names))
        return replace(self, sizes=sizes)

    def numbered(self, places: Sequence[int]) -> Roles:
        """Return the same roles with the parameters renumbered.

        Args:
            places: The new number of each parameter.
        """

        def place(at: int | None) -> int | None:
            return None if at is None else places[at]

        return replace(
            self, a=places[self.a], b=places[self.b], c=places[self.c],
            sizes={places[at]: names for at, names in self.sizes.items()},
            leading={places[at]: matrix for at, matrix in self.leading.items()},
            alpha=place(self.alpha), beta=place(self.beta), batch=place(self.batch),
            others=tuple(places[at] for at in self.others),
        )  # fmt: skip

    @property
    def last(self) -> int:
        """Number of the last parameter that has a role."""
        return max(*self.order, *self.sizes, *self.leading, self.alpha or 0, self.beta or 0)

    @property
    def order(self) -> tuple[int, int, int]:
        """Numbers of the parameters A, B and C."""
        return self.a, self.b, self.c


def roles_of(kernel: str, parameters: Sequence[Parameter], *, has_loop: bool) -> list[Roles]:
    """Return the roles that a kernel's parameters may have if it looks like a product of matrices, likeliest first.

    Several are possible if names do not tell the sizes apart: M, N and K of ``(m, n, p)`` are found by trying.

    Args:
        kernel: The kernel's name.
        parameters: Its parameters.
        has_loop: Whether its text has a loop, as every product has.
    """
    pointers = [at for at, each in enumerate(parameters) if each.kind == POINTER]
    if len(pointers) != 3 or not all(each.kind == POINTER or is_number(each) for each in parameters):
        return []
    a, b, c = matrices_of(parameters, pointers)
    names = {at: _plain(each.name) for at, each in enumerate(parameters) if each.kind != POINTER}
    scalars = {name: at for at, name in names.items() if name in ("alpha", "beta")}
    leading = {at: _LEADING[name] for at, name in names.items() if name in _LEADING}
    numbers = [at for at in names if at not in leading and at not in scalars.values()]
    if any(parameters[at].kind not in (SIGNED, UNSIGNED) for at in numbers):
        return []
    found = []
    for sizes in _sizes({at: names[at] for at in numbers}):
        rest = [at for at in numbers if at not in sizes]
        batch = next((at for at in rest if _BATCH.fullmatch(names[at])), None)
        factors = {_matrix_name(parameters[at].name) for at in (a, b)}
        is_named = bool(_PRODUCT.search(kernel)) or factors == {"a", "b"} or _are_sizes(names, numbers)
        certain = not rest and is_named
        others = tuple(at for at in rest if at != batch)
        found.append(Roles(a, b, c, sizes, leading, scalars.get("alpha"), scalars.get("beta"), batch, others, certain))
    if leading and numbers:  # in the presence of strides, sizes are named as in BLAS
        found = found[:1]
    three = len(numbers) == 3 and {names[at] for at in numbers} == {"m", "n", "k"}
    if not three and (_OTHER.search(kernel) or not (has_loop or _PRODUCT.search(kernel))):
        return []
    return found


def has_size_names(roles: Roles, parameters: Sequence[Parameter]) -> bool:
    """Return whether the sizes are recognized by their names. A single size for all three needs no such name."""
    return roles.square or _named_sizes({at: _plain(parameters[at].name) for at in roles.sizes}) == roles.sizes


def is_number(parameter: Parameter) -> bool:
    """Return whether a parameter is a number, including those of CUDA's 16-bit types."""
    return parameter.kind in (SIGNED, UNSIGNED, FLOAT) or parameter.type in HALVES


def matrices_of(parameters: Sequence[Parameter], pointers: Sequence[int]) -> tuple[int, int, int]:
    """Return the numbers of A, B and C among three pointers."""
    names = {at: _matrix_name(parameters[at].name) for at in pointers}
    writable = [at for at in pointers if not parameters[at].read_only]
    if len(writable) == 1:
        c = writable[0]
    else:
        at_c = [at for at in writable or pointers if names[at] == "c"]
        named = at_c or [at for at in writable or pointers if names[at] in _OUTPUTS]
        c = named[-1] if named else (writable or pointers)[-1]
    first, second = (at for at in pointers if at != c)
    swapped = any((names[second], names[first]) == pair for pair in _PAIRS)
    return (second, first, c) if swapped else (first, second, c)


def _are_sizes(names: Mapping[int, str], numbers: Sequence[int]) -> bool:
    """Return whether three parameters have names of M, N and K."""
    return len(_named_sizes({at: names[at] for at in numbers})) == len(SIZES)


def _sizes(names: Mapping[int, str]) -> list[dict[int, tuple[str, ...]]]:
    """Return the sizes that integer parameters may be, by the numbers of the parameters, likeliest first.

    If there are more than three, some are other numbers.

    Args:
        names: Names of the parameters, by their numbers.
    """
    found = _named_sizes(names)
    complete = len(names) > len(SIZES) and {name for sizes in found.values() for name in sizes} == set(SIZES)
    by_name = [found] if len(found) == len(names) or complete else []
    if len(names) == 1:
        return [] if _BATCH.fullmatch(next(iter(names.values()))) else [dict.fromkeys(names, SIZES)]
    if len(names) != 3:
        return by_name
    orders: list[dict[int, tuple[str, ...]]] = [
        {at: (size,) for at, size in zip(names, order, strict=True)} for order in itertools.permutations(SIZES)
    ]
    if set(names.values()) == {"m", "n", "p"}:  # A is (m, n), B is (n, p)
        by_name = [{at: ({"m": "M", "n": "K", "p": "N"}[name],) for at, name in names.items()}]
    return [*by_name, *(each for each in orders if each not in by_name)]


def _named_sizes(names: Mapping[int, str]) -> dict[int, tuple[str, ...]]:
    """Return the sizes of the parameters that are recognized by their names."""
    found: dict[int, tuple[str, ...]] = {}
    for size in SIZES:
        known = _SIZE_NAMES[size].split()
        for at in sorted(names, key=lambda at: known.index(names[at]) if names[at] in known else len(known)):
            if at not in found and names[at] in known:
                found[at] = (size,)
                break
    for at, name in names.items():  # if all six extents are parameters, three repeat the others
        if at not in found and name in _REPEATED:
            found[at] = (_REPEATED[name],)
    return found


def _plain(name: str) -> str:
    """Return a name in lower case without underscores, and without the structure that it is a member of."""
    return name.rpartition(".")[2].lower().replace("_", "")


def _matrix_name(name: str) -> str:
    """Return the name of an array in lower case, without prefixes and suffixes that tell where the array is."""
    text = name if len(name) == 1 else re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    text = text.strip("_").lower()
    while (shorter := _AFFIX.sub("", text)) != text:
        text = shorter
    return text.replace("_", "") or name.lower()
