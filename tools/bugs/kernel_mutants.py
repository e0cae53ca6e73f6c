"""Small edits of every kernel's text, which the simulator must notice, made one at a time and run on small products.

A mutant is caught if it does not compile, if the simulator has findings, if the result is wrong, or if it does not
end. A mutant with the original's machine code does not count, nor does one that is declared equivalent below, with a
reason. Survivors are also compiled by NVRTC, which rejects some code that C++ compilers accept, such as arrays of no
elements.

Mutants edit the kernel's own text and the parts of ``matrices.cuh.j2`` and ``ptx.cuh`` that it shares with others. They
leave lines that compute nothing (static_assert, types, tile sizes), which only inform the host or the compiler.
"""

from __future__ import annotations

import functools
import itertools
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

import tiledmm
from tiledmm.compile import inspection
from tiledmm.errors import CompilationError, MissingDependencyError
from tiledmm.hardware.architectures import find_target
from tiledmm.kernels.variants import kernel_spec
from tiledmm.problem.keywords import KernelKeywords, UfuncKeywords
from tiledmm.simulated.product import simulate_product
from tiledmm.simulator.build import toolchain
from tiledmm.simulator.execute.settings import Settings
from tools.bugs.children import Children, End
from tools.bugs.fates import Fate, Progress

# ---- what is edited ----


@dataclass(frozen=True)
class Kernel:
    """A kernel to edit.

    Attributes:
        variant, tile, layout: Specialization that is rendered.
        target: Target architecture.
        shared: Interval N of the shared parts' edits that are made in this kernel: every N-th.
    """

    variant: str
    tile: int | None
    layout: str
    target: str = "sm_90"
    shared: int = 4

    @property
    def name(self) -> str:
        """Name in tables."""
        parts = [self.variant, *([] if self.tile is None else [str(self.tile)]), self.layout]
        return " ".join(parts if self.target == "sm_90" else [*parts, self.target])

    @functools.cached_property
    def text(self) -> str:
        """Unedited text of the kernel."""
        return tiledmm.source(self.variant, tile=self.tile, layout=self.layout, dtype="float32")

    @property
    def symbol(self) -> str:
        """Symbol of the kernel."""
        return kernel_spec(self.variant, tile=self.tile, layout=self.layout, dtype="float32").symbol


#: Tiles of 64 give each thread several elements, and several loads; tiles of 8 and 16 one element.
KERNELS = (
    Kernel("naive", None, "NN", shared=1),
    Kernel("coalesced", None, "NN"),
    Kernel("tiled", 64, "NN", shared=1),
    Kernel("tiled", 8, "NT"),
    Kernel("tiled_padded", 64, "NT"),
    Kernel("double_buffered", 8, "NN"),
    Kernel("double_buffered", 16, "NT", shared=1),
    Kernel("double_buffered", 64, "NT", "sm_75"),
    Kernel("double_buffered", 8, "NN", "sm_75"),
)

# First lines of the shared parts that a kernel may have; each ends at the next brace in the first column.
_SHARED_PARTS = (
    "__device__ __forceinline__ BatchIndex batch_index(",
    "__device__ __forceinline__ long long batch_offset(",
    "__device__ __forceinline__ BlockTile tile_at(",
    "__device__ __forceinline__ BlockTile locate_block(",
    "__device__ __forceinline__ int inside(",
    "struct View {",
    "struct ResultTile {",
    "__device__ __forceinline__ ResultTile<T, Stored> result_tile(",
)

# Lines that compute nothing: types, hints for the compiler, and sizes that the host knows as well.
_LEFT_ALONE = re.compile(
    r"\s*(?:#|static_assert|using |template |constexpr (?:Order|int (?:B[MNK]|T[MN]|PAD|UNROLL|MIN_BLOCKS)|bool FITS) "
    r"|extern |KERNEL\(|struct |const Stored\* data;|Stored\* data;|(?:int|long long) [\w, ]+;)"
)


def code_of(line: str) -> str:
    """Replace a line's comment by blanks."""
    at = line.find("//")
    return line if at < 0 else line[:at] + " " * (len(line) - at)


def editable_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the number (from 0) and code of each line that mutants edit."""
    lines = text.split("\n")
    page = next(i for i, line in enumerate(lines) if line.startswith("#define KERNEL"))
    spans = [range(page, len(lines))]
    for start in _SHARED_PARTS:
        first = next((i for i, line in enumerate(lines) if line.startswith(start)), None)
        if first is None:
            continue
        last = next(i for i in itertools.count(first) if lines[i].startswith("}"))
        spans.append(range(first, last))
    for i in itertools.chain(*sorted(spans, key=lambda span: span.start)):
        code = code_of(lines[i])
        if code.strip() and not _LEFT_ALONE.match(code):
            yield i, code


# ---- the edits ----

Edit = tuple[int, int, str]  # of a line: from, to, replacement

_DECLARATION = re.compile(r"\s*(?:__shared__|Sum (?:frag|acc|next))")
_COMPARISON = r"[\w.!]+ (?:<|<=|>|>=|==) [\w.]+"
_SWAPPED = dict(
    itertools.chain.from_iterable(
        ((one, other), (other, one))
        for one, other in (
            ("row", "col"), ("rows", "cols"), ("row0", "col0"), ("row_stride", "col_stride"), ("tx", "ty"),
            ("BM", "BN"), ("TM", "TN"), ("BLOCK_X", "BLOCK_Y"), ("As", "Bs"), ("a_m", "a_k"), ("b_k", "b_n"),
            ("tiles_m", "tiles_n"), ("height", "width"), ("frag_a", "frag_b"), ("a_view", "b_view"), ("i0", "i1"),
            ("LOADS_A", "LOADS_B"),
        )
    )
)  # fmt: skip


def _replaced(pattern: str, *replacements: str) -> Callable[[str], Iterator[Edit]]:
    """Return an operator that replaces every match of a pattern by each of the templates."""
    compiled = re.compile(pattern)

    def edits(code: str) -> Iterator[Edit]:
        for match in compiled.finditer(code):
            for replacement in replacements:
                yield match.start(), match.end(), match.expand(replacement)

    return edits


def _comparisons(code: str) -> Iterator[Edit]:
    others = {"<": ("<=", ">"), ">": (">=", "<"), "<=": ("<",), ">=": (">",), "==": ("!=",)}
    for match in re.finditer(r"(?<= )(?:<=|>=|==|<|>)(?= )", code):
        for other in others[match[0]]:
            yield match.start(), match.end(), other


def _swapped_names(code: str) -> Iterator[Edit]:
    for match in re.finditer(r"\b[A-Za-z_]\w*\b", code):
        declared = re.search(r"(?:int|long|auto|bool|\*|&)\s+$", code[: match.start()]) and "*" not in match[0]
        if match[0] in _SWAPPED and not (declared and not code[: match.start()].rstrip().endswith("*")):
            yield match.start(), match.end(), _SWAPPED[match[0]]


def _subscripts(code: str) -> Iterator[Edit]:
    declared = _DECLARATION.match(code)
    for match in re.finditer(r"(?<=[\w\]])\[([^\[\]]+)\]", code):
        inner = match[1]
        # One element too many does no harm in a declaration.
        for change in ("- 1",) if declared else ("+ 1", "- 1"):
            yield match.start(), match.end(), f"[{inner} {change}]"


def _inside(code: str) -> Iterator[Edit]:
    for match in re.finditer(r"(?<!int )\binside\(", code):
        depth, end = 1, match.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(code[end], 0)
            end += 1
        for change in (" + 1", " - 1"):
            yield match.start(), end, code[match.start() : end] + change


def _dropped(code: str) -> Iterator[Edit]:
    statement = r"(?:if \([^;]*\) )?(?:[\w.]+(?:\[[^\]]*\])* (?:[-^+|&]?=) .*|[\w.]+\(.*\)|return);"
    for match in re.finditer(r"^\s*(?:for \(.*\) )?(?P<it>" + statement + r")\s*$", code):
        if "__syncthreads" not in match["it"] and "wait" not in match["it"]:
            yield match.start("it"), match.end("it"), ";"


#: Edits of a line's code, by the operator's name.
OPERATORS: dict[str, Callable[[str], Iterable[Edit]]] = {
    "barrier removed": _replaced(r"__syncthreads\(\);", ";"),
    "wait removed": _replaced(r"wait_for_copies\(\);", ";"),
    "comparison": _comparisons,
    "and, or": lambda code: [
        (m.start(), m.end(), "||" if m[0] == "&&" else "&&") for m in re.finditer(r"&&|\|\|", code)
    ],
    "part of a guard dropped": _replaced(rf"({_COMPARISON}) (?:&&|\|\|) ({_COMPARISON})", r"\1", r"\2"),
    "guard dropped": _replaced(rf"{_COMPARISON} && {_COMPARISON}", "true"),
    "condition": _replaced(r"(?<=if \()(?:more|product > 0)(?=\))", "true", "false"),
    "plus, minus": lambda code: [
        (m.start(), m.end(), " - " if "+" in m[0] else " + ") for m in re.finditer(r"(?<=[\w\])]) [+-] (?=[\w(])", code)
    ],
    "times, plus": _replaced(r"(?<=[\w\])]) \* (?=[\w(])", " + "),
    "division": lambda code: [
        (m.start(), m.end(), " / " if "%" in m[0] else " % ") for m in re.finditer(r"(?<=[\w)]) [%/] (?=[\w(])", code)
    ],
    "names swapped": _swapped_names,
    "subscripts swapped": _replaced(
        r"\b(As|Bs|acc)((?:\[stage\]|\[2\])?)\[([^\[\]]+)\]\[([^\[\]]+)\]", r"\1\2[\4][\3]"
    ),
    "subscript off by one": _subscripts,
    "padding": _replaced(r"\bPAD\b", "0", "PAD - 1"),
    "step along K": _replaced(r"\bBK\b", "(BK - 1)", "(BK + 1)"),
    "loop along K": _replaced(r"\bleft -= BK", "left -= 2 * BK", "left += BK", "left -= 1"),
    "loop's end": _replaced(
        r"(\w+) < (B[KMN]|T[MN]|LOADS_[AB]|block\.k);", r"\1 < \2 - 1;", r"\1 < \2 / 2;", r"\1 < 1;"
    ),
    "stage": _replaced(r"\bstage \^ 1", "stage"),
    "stage fixed": _replaced(r"\[stage\]", "[0]", "[stage ^ 1]"),
    "statement dropped": _dropped,
    "not initialised": _replaced(r" = \{\}", ""),
    "extent": _inside,
    "choice": _replaced(r"\? (\S.*?) : ([^;)]+?)(?=[;)])", r"? \1 : \1", r"? \2 : \1"),
    "constant": lambda code: [
        (m.start(), m.end(), "1" if m[0] == "0" else "0") for m in re.finditer(r"(?<![\w.])[01](?![\w.])", code)
    ],
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """A kernel with one edit."""

    kernel: Kernel
    operator: str
    line: int  # of the rendered text, from 0
    before: str  # the line's code, stripped
    after: str
    text: str

    @property
    def id(self) -> str:
        """Kernel, line and edit, which identify the mutant."""
        return f"{self.kernel.name}, line {self.line + 1}: {self.before} -> {self.after}"

    @property
    def group(self) -> str:
        """Name of the operator."""
        return self.operator


def mutants(kernel: Kernel) -> Iterator[Mutant]:
    """Yield every mutant of a kernel; if two operators make the same one, it belongs to the first."""
    lines = kernel.text.split("\n")
    page = next(i for i, line in enumerate(lines) if line.startswith("#define KERNEL"))
    turn = itertools.count(KERNELS.index(kernel) if kernel in KERNELS else 0)
    for number, code in editable_lines(kernel.text):
        seen = {code}
        for operator, edits in OPERATORS.items():
            for start, end, new in edits(code):
                after = code[:start] + new + code[end:]
                if after in seen:
                    continue
                seen.add(after)
                if number < page and next(turn) % kernel.shared:
                    continue
                line = lines[number][:start] + new + lines[number][end:]
                text = "\n".join([*lines[:number], line, *lines[number + 1 :]])
                yield Mutant(kernel, operator, number, code.strip(), after.strip(), text)


# ---- mutants that no product distinguishes from the kernel ----


@dataclass(frozen=True)
class Known:
    """Edits that survive for a known reason.

    Attributes:
        kernels: Regular expression for the kernels' names.
        before, after: Regular expressions for the line's code, stripped.
        reason: Reason why they survive.
    """

    kernels: str
    before: str
    after: str
    reason: str

    def covers(self, mutant: Mutant) -> bool:
        """Return whether a mutant is one of these edits."""
        pairs = ((self.kernels, mutant.kernel.name), (self.before, mutant.before), (self.after, mutant.after))
        return all(re.fullmatch(pattern, text) for pattern, text in pairs)


_TILED = r"tiled.*|double_buffered.*"
_ONE_ELEMENT = r"(?:tiled|double_buffered) (?:8|16) .*"
_COPIES = r"double_buffered \d+ \w\w"
_REGISTERS = r"double_buffered .* sm_75"

#: Edits that change no product.
EQUIVALENT = (
    Known(".*", r"if \(product > 0\) \{", r"if \((?:product >= 0|true)\) \{",
        "a shortcut: the first product's offsets come out as 0"),
    Known(".*", r"return extent - first < size \? .*", r"return extent - first <= size \? .*",
        "both choices are the same number there"),
    Known(".*", r"tile\.(?:exists|product) = .*", ".*", "these kernels do not ask: each of their blocks has a tile"),
    Known(".*", r"return extent - first < size \? .*", r"return .* : static_cast<int>\(extent - first\);",
        "threads ask for nothing beyond their tile, so it need not be cut to the tile's size"),
    Known(".*", r"if constexpr \(ORDER == Order::COLUMNS\) return .*", r"if constexpr \(ORDER != Order::COLUMNS\) .*",
        "columns fall through to the general formula, where the row stride is 1"),
    Known(".* NN.*", r"if constexpr \(ORDER == Order::ROWS\) return .*", r"if constexpr \(ORDER != Order::ROWS\) .*",
        "rows fall through to the general formula, where the column stride is 1"),
    Known(r".* N\w( .*)?", r"const Matrix<.*> A = .*", r".*\bp\.a\.row, p\.a\.row\};",
        "columns are contiguous: nothing reads their stride"),
    Known(r".* \wN( .*)?", r"const Matrix<.*> B = .*", r".*\bp\.b\.row, p\.b\.row\};",
        "columns are contiguous: nothing reads their stride"),
    Known(r".* \wT( .*)?", r"const Matrix<.*> B = .*", r".*\bp\.b\.col, p\.b\.col\};",
        "rows are contiguous: nothing reads their stride"),
    Known(".* NN.*", r"return \{.*\brow_stride, col_stride\};", r".*\brow_stride, row_stride\};",
        "nobody reads the column stride of rows: it is 1"),
    Known("naive.*|coalesced.*", r".*inside\(p\.[mn], block\.(?:row|col)0, (?:height|width)\),.*",
        r".*inside\((?:p\.m, block\.row0, width|p\.n, block\.col0, height)\),.*", "the tile is square"),
    Known("naive.*|coalesced.*", r"const auto c_tile = .*", r".*(?:BM, BM|BN, BN)\);", "the tile is square"),
    Known(_TILED, r"__shared__ .*", r".*\(BK \+ 1\).*", "a larger array: banks, not elements"),
    Known(r"tiled_padded.*|double_buffered.*", r"__shared__ .*\+ PAD[]>].*",
        r".*(?:\+ 0|\+ PAD - 1|\(BK - 1\) \+ PAD|BN - 1 \+ PAD)[]>].*", "less padding: banks, not elements"),
    Known(_TILED, r"auto [ab]_view = .*", r".*\(BK \+ 1\).*", "threads ask for less than BK steps, whatever is there"),
    Known(_TILED, r"const int depth = .*", r"const int depth = inside\(left - BK, 0, \(BK \+ 1\)\);",
        "threads ask for less than BK steps, whatever is there"),
    Known(r"tiled.*", r"for \(long long left = block\.k; left > 0; left -= BK\) \{", r".* left >= 0; .*",
        "one step more, over zeros"),
    Known(r"double_buffered.*", r"const bool more = left > BK;", r".* left (?:>= BK|> \(BK - 1\));",
        "after the last step zeros go to the buffer that nobody reads any more"),
    Known(r"double_buffered.*", r"if \(more\) (?:fetch|store_shared)\(.*", r"if \(true\) .*",
        "after the last step zeros go to the buffer that nobody reads any more"),
    Known(_COPIES, r"next_[ab]\[load\] = .*|[AB]s\[stage\].* = next_[ab]\[load\];|Sum next_a\[.*", ".*",
        "registers wait for what cp.async does not copy: nothing here (see the kernels for sm_75)"),
    Known(_REGISTERS,
        r".*copy_or_zero<1>\(.*|const int left = N > 1 .*|copy_async<N>\(.*|wait_for_copies\(\);|Sum\* slot = .*", ".*",
        "there is no cp.async: nothing is copied to shared memory but by store_shared"),
    Known(_COPIES, r"const int left = N > 1 .*", r".* N (?:[<>]|>=) [01] (?:&&|\|\|) .* [?] .* : N;",
        "N is 1 here, and rows that are inside are at least one"),
    Known(".*", r"if \(p\.split_k > 1\) \{", r".*split_k (?:>= 1|> 0).*", "one partition is all of K"),
    Known(_REGISTERS, r"fetch\(0, \S+\);|if \(more\) fetch\(stage \^ 1, .*", r".*fetch\((?:1|stage|stage \^ 0), .*",
        "the tiles go to registers: to which buffer, store_shared says"),
    Known(r"tiled 8 .*", r"return row < rows && col < cols \? .*", r"return .*\b(?:row|col)\b.*",
        "a thread loads one element, seen from itself: row and col are 0"),
    Known(_ONE_ELEMENT, r"frag_[ab]\[[ij]\] = .*|c_tile\.write\(.*", r".* - [ij] \* BLOCK_[XY].*",
        "a thread computes one element: i and j are 0"),
    Known(_ONE_ELEMENT, r".*\bacc\[i\]\[j\].*", r".*\bacc\[j\]\[i\].*",
        "a thread computes one element: i and j are 0"),
)  # fmt: skip


def why(mutant: Mutant, known: Iterable[Known] = EQUIVALENT) -> str | None:
    """Return the declared reason why a mutant survives, if there is one."""
    return next((each.reason for each in known if each.covers(mutant)), None)


# ---- the products they run on ----

#: Limit of accesses per thread, several times what the largest product needs.
MAX_STEPS = 20_000


class _Case(NamedTuple):
    a: np.ndarray
    b: np.ndarray
    out: Callable[[], np.ndarray | None]
    expected: np.ndarray
    partitions: int  # of K


def _among_nans(values: np.ndarray, margins: Sequence[int], step: int = 1) -> np.ndarray:
    """Copy values to float32 memory with NaNs in the margins of each axis and between every ``step`` columns."""
    steps = (*(1,) * (values.ndim - 1), step)
    ends = [margin + (size - 1) * each + 1 for size, each, margin in zip(values.shape, steps, margins, strict=True)]
    memory = np.full([end + margin for end, margin in zip(ends, margins, strict=True)], np.nan, np.float32)
    view = memory[tuple(slice(*each) for each in zip(margins, ends, steps, strict=True))]
    view[...] = values
    return view


def _matrices(rng: np.random.Generator, shape: tuple[int, ...], letter: str, margins: Sequence[int]) -> np.ndarray:
    """Return nonzero small integers in a layout, surrounded by NaNs."""
    values = np.where(rng.integers(0, 2, shape), 1, -1) * (1 + abs(rng.integers(-2, 3, shape)))
    if letter == "N":
        return _among_nans(values, margins)
    *outer, rows, cols = margins
    return _among_nans(values.swapaxes(-1, -2), (*outer, cols, rows)).swapaxes(-1, -2)


@functools.cache
def cases(kernel: Kernel) -> list[_Case]:
    """Return products with exact results: partial and whole tiles, a batch, under one tile, K = 0, and split-K."""
    config = kernel_spec(kernel.variant, tile=kernel.tile, layout=kernel.layout, dtype="float32").config
    bm, bn, bk = config.bm, config.bn, max(config.bk, 8)
    rng = np.random.default_rng(0)
    found = []
    for batch, (m, n, k), margin, step, partitions in (
        ((), (bm + 3, 2 * bn + 5, 3 * bk + 1), 2, 2, 1),
        ((2, 3, 2), (2 * bm + 5, bn + 3, bk + 3), 1, 3, 1),
        ((), (2 * bm, bn, 2 * bk), 0, 1, 1),
        ((), (2, 3, 5), 1, 2, 1),
        ((), (3, 2, 0), 1, 2, 1),
        ((2,), (bm + 1, 3, 74), 1, 2, 3),  # the last partition is shorter
    ):
        around = (*(0, 1, 1)[: len(batch)], margin, margin)
        a = _matrices(rng, (*batch, m, max(k, 2)), kernel.layout[0], around)[..., :k]
        b = _matrices(rng, (*batch, max(k, 2), n), kernel.layout[1], around)[..., :k, :]
        zeros = np.zeros((*batch, m, n), np.float32)
        out = functools.partial(_among_nans, zeros, around, step) if step > 1 else lambda: None
        found.append(_Case(a, b, out, a @ b, partitions))
    return found


# ---- running them ----

_HANGS = {"runaway thread", "thread that waits forever", "no end"}


def _code_of_library(path: Path) -> dict[str, bytes]:
    """Read a library's instructions and constants, without its data, which include positions in the source."""
    from elftools.elf.elffile import ELFFile

    with path.open("rb") as file:
        wanted = (".text", ".rodata", ".init_array")
        return {each.name: each.data() for each in ELFFile(file).iter_sections() if each.name.startswith(wanted)}


def _build(kernel: Kernel, text: str, build: str = "checked") -> Path:
    return toolchain.build_kernel(text, kernel.symbol, target=find_target(kernel.target), build=build)


@functools.cache
def _original_code(kernel: Kernel, build: str) -> dict[str, bytes]:
    return _code_of_library(_build(kernel, kernel.text, build))


def judge_here(kernel: Kernel, text: str, *, same_code: bool = True) -> Fate:
    """Build and run a mutant in this process, which it may crash, and return its fate.

    Args:
        kernel: The kernel.
        text: Text of the mutant.
        same_code: Whether to compare machine code first and skip running mutants whose code is the original's.
    """
    try:
        library = _build(kernel, text)
    except CompilationError as error:
        return Fate("does not compile", True, str(error)[:300])
    try:
        if same_code and _code_of_library(library) == _original_code(kernel, "checked"):
            return Fate("same code", None)
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "mutant.cu"
            source.write_text(text, encoding="utf-8")
            fate = _run(kernel, source)
        if fate.caught:
            return fate
        if same_code and _code_of_library(_build(kernel, text, "bare")) == _original_code(kernel, "bare"):
            return Fate("same code", None)  # once it is optimized
        return _ask_nvrtc(kernel, text)
    finally:
        if text != kernel.text:
            library.unlink(missing_ok=True)


def _ask_nvrtc(kernel: Kernel, text: str) -> Fate:
    try:
        inspection.compile_for(text, kernel.symbol, kernel.target)
    except CompilationError as error:
        return Fate("does not compile", True, str(error)[:300])
    except MissingDependencyError:
        pass
    return Fate("survived", False)


def _run(kernel: Kernel, source: Path) -> Fate:
    for order, (number, case) in itertools.product(("forward", "random"), enumerate(cases(kernel))):
        settings = Settings(
            counts=False, order=order, seed=number, target=kernel.target, workers=1, max_steps=MAX_STEPS
        )
        keywords = KernelKeywords(kernel.variant, kernel.tile, {"split_k": case.partitions})
        done = simulate_product(case.a, case.b, case.out(), UfuncKeywords(), keywords, settings, source)
        if done.report.findings:
            kinds = {each.kind for each in done.report.findings}
            message = f"product {number}, {order}: {done.report.findings[0].message}"
            return Fate("hangs" if kinds & _HANGS else "found", True, message)
        if not np.array_equal(done.result, case.expected):
            return Fate("wrong result", True, f"product {number}, {order}")
    return Fate("survived", False)


def judge(
    chosen: Sequence[Mutant], workers: int, progress: Progress = lambda _: None, seconds: float = 20
) -> list[Fate]:
    """Judge mutants in parallel processes, and return their fates in order.

    Args:
        chosen: Mutants to run.
        workers: Number of processes.
        progress: Function called with each mutant's name.
        seconds: Time after which a mutant is killed.

    Raises:
        RuntimeError: If this tool failed.
    """
    toolchain.build_runtime()
    with Children(workers, seconds) as children, ThreadPoolExecutor(workers) as pool:

        def one(mutant: Mutant) -> Fate:
            answer = children.run(functools.partial(judge_here, mutant.kernel, mutant.text))
            progress(mutant.id)
            if isinstance(answer, Exception):
                raise RuntimeError(mutant.id) from answer
            if isinstance(answer, End):
                return Fate("hangs" if answer is End.HUNG else "crashes", True, f"more than {seconds:g} s")
            if answer.caught is False and (reason := why(mutant)):
                return Fate("equivalent", None, reason)
            return answer

        return list(pool.map(one, chosen))


def every_bug() -> list[Mutant]:
    """Return all mutants of all kernels."""
    return [mutant for kernel in KERNELS for mutant in mutants(kernel)]
