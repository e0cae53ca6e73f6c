"""What the parameters of a matmul-like kernel are: the matrices, their sizes, alpha and beta, by names and types."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from tiledmm.simulator.build.parameters import FLOAT, POINTER, SIGNED, UNSIGNED, Parameter

#: Names of the sizes: C is (M, N), A is (M, K), B is (K, N).
SIZES = ("M", "N", "K")

# What authors put before or after a name to say where the array is: d_A, A_d, devA, matrixA, gpu_a, a_gpu.
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
    "M": "m rows nrows numrows rowsa arows rowa numarows numcrows crows ha heighta h height nm sizem mdim dimm",
    "N": "n cols ncols numcols colsb bcols colb numbcols numbcolumns numccols numccolumns ccols wb widthb nn sizen "
    "ndim dimn columns",
    "K": "k colsa acols cola numacols numacolumns rowsb brows numbrows wa widtha hb heightb common inner nk sizek kdim "
    "dimk shared depth p",
    "square": "n width w size dim matrixsize matsize msize order len length wid nsize dimension matrixdim dims num "
    "matrixwidth numelements s",
}
_LEADING = {"lda": "A", "ldb": "B", "ldc": "C", "stridea": "A", "strideb": "B", "stridec": "C", "pitch": "square"}

# Words in the names of kernels that compute no product of matrices.
_OTHER = re.compile(
    r"add|sub(?!group)|saxpy|axpy|relu|gelu|transpose|copy|softmax|reduc|scan|hist|conv|stencil|norm|sort|scale|fill|"
    r"init|embed|pool|dropout|attention|flash|vec(?!tor_?mat)|gemv|matvec|elementwise|hadamard",
    re.IGNORECASE,
)
_PRODUCT = re.compile(r"gemm|mm(?:_|$|\d)|mat_?mul|mul|matrix|mmul|prod|dot|tile", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Roles:
    """The parameters of a matmul-like kernel, by their numbers.

    Attributes:
        a, b, c: The factors and the product.
        sizes: For each parameter that is a size, the sizes that it is: ``("N",)``; all three of a square product.
        leading: For each parameter that is a row stride, the matrix that it belongs to.
        alpha, beta: Scalars of ``alpha * (A @ B) + beta * C``; None without the parameter.
    """

    a: int
    b: int
    c: int
    sizes: dict[int, tuple[str, ...]] = field(default_factory=dict)
    leading: dict[int, str] = field(default_factory=dict)
    alpha: int | None = None
    beta: int | None = None

    @property
    def named(self) -> frozenset[str]:
        """The sizes that parameters are; the others are constants of the kernel, or follow from the grid."""
        return frozenset(size for sizes in self.sizes.values() for size in sizes)

    @property
    def square(self) -> bool:
        """True if one parameter is all three sizes."""
        return any(len(sizes) == len(SIZES) for sizes in self.sizes.values())

    @property
    def order(self) -> tuple[int, int, int]:
        """Numbers of the parameters A, B and C."""
        return self.a, self.b, self.c


def roles_of(kernel: str, parameters: Sequence[Parameter], *, has_loop: bool) -> Roles | None:
    """Return the roles of a kernel's parameters if it looks like a product of matrices; None if it does not.

    Args:
        kernel: The kernel's name.
        parameters: Its parameters.
        has_loop: Whether its text has a loop, as every product has.
    """
    pointers = [at for at, each in enumerate(parameters) if each.kind == POINTER]
    if len(pointers) != 3 or any(each.kind not in (POINTER, SIGNED, UNSIGNED, FLOAT) for each in parameters):
        return None
    factors = _matrices(parameters, pointers)
    a, b, c = factors
    numbers = [at for at, each in enumerate(parameters) if each.kind in (SIGNED, UNSIGNED)]
    sizes = _sizes(parameters, numbers)
    leading = {at: _LEADING[name] for at in numbers if (name := _plain(parameters[at].name)) in _LEADING}
    if set(numbers) - set(sizes) - set(leading):
        return None
    scalars = [at for at, each in enumerate(parameters) if each.kind == FLOAT or (at in numbers and at not in sizes)]
    named = {_plain(parameters[at].name): at for at in scalars}
    alpha, beta = named.get("alpha"), named.get("beta")
    if {at for at in scalars if at not in leading} - {alpha, beta}:
        return None
    found = Roles(a, b, c, sizes, leading, alpha, beta)
    three = len(found.named) == 3 and not found.square
    if not three and (_OTHER.search(kernel) or not (has_loop or _PRODUCT.search(kernel))):
        return None
    return found


def _matrices(parameters: Sequence[Parameter], pointers: Sequence[int]) -> tuple[int, int, int]:
    """Return the numbers of A, B and C among three pointers."""
    names = {at: _plain(parameters[at].name) for at in pointers}
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


def _sizes(parameters: Sequence[Parameter], numbers: Sequence[int]) -> dict[int, tuple[str, ...]]:
    """Return the sizes that integer parameters are, by the numbers of the parameters."""
    candidates = [at for at in numbers if _plain(parameters[at].name) not in _LEADING]
    names = {at: _plain(parameters[at].name).replace("_", "") for at in candidates}
    found: dict[int, tuple[str, ...]] = {}
    for size in SIZES:
        known = _SIZE_NAMES[size].split()
        for at in sorted(candidates, key=lambda at: known.index(names[at]) if names[at] in known else len(known)):
            if at not in found and names[at] in known:
                found[at] = (size,)
                break
    # UIUC's labs name all six extents: the other three repeat these.
    repeated = {"numbrows": "K", "numcrows": "M", "numccolumns": "N", "numccols": "N", "rowsb": "K", "brows": "K"}
    for at in candidates:
        if at not in found and names[at] in repeated:
            found[at] = (repeated[names[at]],)
    if len(candidates) == 1 and names[candidates[0]] in {*_SIZE_NAMES["square"].split(), "m", "k"}:
        return {candidates[0]: SIZES}
    return found


def _plain(name: str) -> str:
    """Return a name in lower case, without what says where its array is."""
    text = name if len(name) == 1 else re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    text = text.strip("_").lower()
    while (shorter := _AFFIX.sub("", text)) != text:
        text = shorter
    return text.replace("_", "") or name.lower()
