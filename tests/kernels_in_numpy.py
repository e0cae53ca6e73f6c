"""NumPy versions of all kernels, which define the contract between the host code and ``cuda_src/``.

A kernel reads its ``Problem`` as the CUDA C does and nothing else: addresses, strides, split-K partitions, operand
scans. If anything that the host passes is wrong, the result is wrong or an address is out of bounds. The tests of the
simulator and of the GPU check that the CUDA C keeps this contract.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tests import residues_in_numpy
from tests.strategies import multiplied
from tiledmm.elements import SCHEMES, Element
from tiledmm.hardware.data_sheets import Gpu
from tiledmm.kernels import launches
from tiledmm.kernels.operands.bytes import Bytes
from tiledmm.kernels.operands.moduli import residue_planes
from tiledmm.kernels.operands.operand_scan import SCAN_HEAD
from tiledmm.kernels.spec import KernelSpec
from tiledmm.kernels.tensor_maps import TensorMap
from tiledmm.problem.epilogue import Epilogue

if TYPE_CHECKING:
    from tests.host_gpu import Memory

#: An address, a tensor map and its address, or the members of ``Problem``.
Argument: TypeAlias = "int | tuple[TensorMap, int] | np.ndarray"

# A count that no count of the other operand makes up for (``TOO_FEW`` in cuda_src/decompose.cu.j2).
_NEVER = -(1 << 30)


@dataclass(frozen=True)
class Strides:
    """Strides of one matrix and its batch, in elements."""

    row: int
    col: int
    batch: tuple[int, int, int]

    def offset(self, at: tuple[int, ...]) -> int:
        """Return the elements from the first matrix of the batch to this one."""
        return sum(i * step for i, step in zip(at, self.batch, strict=True))


class Problem:
    """The struct ``Problem`` of cuda_src/matrices.cuh.j2."""

    def __init__(self, words: np.ndarray, epilogue: Epilogue | None = None, kind: str = "f") -> None:
        numbers = [int(word) for word in words]
        self.m, self.n, self.k, self.tiles_m, self.tiles_n, self.tiles, self.group = numbers[:7]
        self.partitions, self.partition_k, self.partition_c = numbers[7:10]
        self.batch = tuple(numbers[10:13])
        self.a, self.b, self.c = (
            Strides(row, col, (x, y, z)) for row, col, x, y, z in (numbers[i : i + 5] for i in (13, 18, 23))
        )
        rest = numbers[28:]
        self.read: dict[str, tuple[int, Strides]] = {}  # addresses and strides of what an epilogue reads
        self.scalars: dict[str, Any] = {}
        if epilogue is not None:
            for name in epilogue.names:
                address, row, col, x, y, z, *rest = rest
                self.read[name] = address, Strides(row, col, (x, y, z))
            for name in epilogue.scalars:
                first, second, *rest = rest
                parts = np.array((first, second), np.int64).view("i8" if kind in "iu" else "f8")
                self.scalars[name] = parts[0] if kind in "iuf" else complex(*parts)
        self.others = rest  # for kernels that decompose operands, or multiply decomposed ones
        assert min(self.m, self.n, self.k, self.partition_c) >= 0
        assert min(self.partitions, *self.batch) > 0
        assert (
            self.partitions == 1
            or (self.partitions - 1) * self.partition_k < self.k <= self.partitions * self.partition_k
        ), "no slice is empty, and none is left out"

    def products(self) -> Iterator[tuple[int, ...]]:
        """Yield every product's indices in the batch."""
        return np.ndindex(*self.batch)

    def parts(self) -> Iterator[tuple[int, int, int]]:
        """Yield the number, first step of K and length of each split-K partition."""
        for number in range(self.partitions):
            begin = number * self.partition_k if self.partitions > 1 else 0
            yield number, begin, min(self.partition_k, self.k - begin) if self.partitions > 1 else self.k


class Findings:
    """The struct ``OperandScan`` of cuda_src/operand_scan.cuh for one operand."""

    def __init__(self, memory: Memory, address: int) -> None:
        self._memory, self._address = memory, address
        self.head = memory.view(address, (3,), (1,), np.int32)  # usual, short_ones, scale

    def exponents(self, first: int, count: int) -> np.ndarray:
        """Return the exponents of ``count`` rows from row ``first``."""
        return self._memory.view(self._address + SCAN_HEAD + 4 * first, (count,), (1,), np.int32)


def splits(first: Findings, second: Findings, parts: int, k: int) -> bool:
    """Return whether limbs are as accurate as float32 (``is_decomposed`` of cuda_src/matrices.cuh.j2)."""
    (usual, shorts, scale), (usual_b, shorts_b, scale_b) = (map(int, each.head) for each in (first, second))
    if scale + scale_b - (parts * k).bit_length() < 2 * 15 - 127:
        return False
    apart = int(parts * k < 1024)
    return usual + usual_b >= parts * k + parts * k // 8 or (shorts > apart and shorts_b > apart)


def has_residues(first: Findings, second: Findings, k: int) -> bool:
    """Return whether residues are as accurate as float64 (``is_decomposed`` of cuda_src/matrices.cuh.j2)."""
    (near, exact, scale), (near_b, exact_b, scale_b) = (map(int, each.head) for each in (first, second))
    return scale + scale_b >= 126 - 1023 and (near + near_b >= k + (k + 7) // 8 or bool(exact and exact_b))


def run_in_numpy(
    memory: Memory, spec: KernelSpec, blocks: int, arguments: list[Argument], gpu: Gpu | None = None
) -> None:
    """Run a kernel on the given number of blocks.

    Raises:
        AssertionError: If it would access memory out of bounds, or if blocks are missing.
    """
    *pointers, words = arguments
    assert isinstance(words, np.ndarray)
    p, run = Problem(words, spec.epilogue, spec.compute.result.dtype.kind), _Kernel(memory, spec, pointers)
    name = spec.variant.name
    if name == "split_k_reduction":
        assert blocks * spec.config.bn >= p.partition_c
        run.split_k_reduction(p)
        return
    _check_blocks(spec, p, blocks, gpu)
    kernels = {
        "pack": run.pack,
        "pack_elements": run.pack_elements,
        "decompose": run.split,
        "decompose_bytes": run.decompose_bytes,
        "decompose_residues": run.decompose_residues,
        "split_float64": run.multiply_residues,
        "split_float64_tensor_core": run.multiply_residues,
        "reconstruct": run.reconstruct,
    }
    kernels.get(name, run.multiply)(p)


def resident_clusters(blocks: int) -> int:
    """Return how many clusters of a number of blocks run at the same time on a GPU that leaves some SMs over."""
    return 120 // blocks


def _check_blocks(spec: KernelSpec, p: Problem, blocks: int, gpu: Gpu | None) -> None:
    """Check that every tile has a block, and that tiles are numbered without gaps."""
    config = spec.config
    assert (p.tiles_m, p.tiles_n) == (-(-p.m // config.bm), -(-p.n // config.bn))
    one_plane = _tiles_of_c(spec, p) * p.partitions * math.prod(p.batch)
    planes = (spec.config.moduli, 3 * spec.config.moduli) if not spec.variant.operands.has_epilogue else (1,)
    assert p.tiles in [one_plane * each for each in planes] and p.tiles < 2**31
    assert 0 < p.group <= p.tiles_n
    if not spec.variant.hopper.tma:
        blocks, rest = divmod(blocks, config.blocks_per_cluster)
        assert rest == 0 and blocks <= max(launches.MOST_TILES, p.partitions)
        assert blocks * config.tiles_per_block >= p.tiles > (blocks - 1) * config.tiles_per_block
    elif gpu is not None:  # its blocks compute one tile after the other, all of them at a time
        each = config.blocks_per_cluster
        assert blocks == min(p.tiles, resident_clusters(each) if each > 1 else gpu.sms) * each


def _tiles_of_c(spec: KernelSpec, p: Problem) -> int:
    """Count the tiles of one product's C: of a triangle, those with an element on or below the diagonal."""
    last_rows = np.minimum(np.arange(1, p.tiles_m + 1) * spec.config.bm, p.m) - 1 + (p.n - p.m)
    first_cols = np.arange(p.tiles_n) * spec.config.bn
    if not spec.config.triangle:
        return p.tiles_m * p.tiles_n
    return int((last_rows[:, None] >= first_cols).sum())


class _Kernel:
    """A launch of a kernel, with its pointers and the memory behind them."""

    def __init__(self, memory: Memory, spec: KernelSpec, pointers: list[Any]) -> None:
        self.memory, self.spec, self.pointers = memory, spec, pointers

    def matrix(self, operand: int, rows: int, cols: int, strides: Strides, offset: int, letter: str = "G") -> Any:
        """Return operand A (0), B (1) or C (2); layouts N and T imply unit strides, as in the kernel."""
        element: Element = (self.spec.a, self.spec.b, self.spec.c)[operand]
        row, col = (1 if letter == "T" else strides.row), (1 if letter == "N" else strides.col)
        address = self.pointers[operand if operand < 2 or len(self.pointers) == 3 else 1] + offset * element.itemsize
        return self.memory.view(address, (rows, cols), (row, col), element.dtype)

    def finished(self, p: Problem, at: tuple[int, ...], total: np.ndarray) -> np.ndarray:
        """Apply the epilogue to sums, and read its arrays by the strides that the kernel knows."""
        epilogue, kind = self.spec.epilogue, self.spec.c.dtype
        if epilogue is None:
            return total
        wide = {"i": np.int64, "u": np.int64, "b": np.int64, "c": np.complex128}.get(total.dtype.kind, np.float64)
        read = dict(p.scalars)
        for operand in epilogue.operands:
            address, strides = p.read[operand.name]
            row, col = (
                own if known is None else known
                for own, known in zip((strides.row, strides.col), operand.strides, strict=True)
            )
            self._check_place(p, operand.name, address, (row, col, *strides.batch), operand.element)
            address += strides.offset(at) * operand.element.itemsize
            read[operand.name] = self.memory.view(address, total.shape, (row, col), operand.element.dtype).astype(wide)
        x = read.get("alpha", 1) * total.astype(wide)
        if "addend" in read:
            x = x + read.get("beta", 1) * read["addend"]
        x = x + read.get("bias", 0)
        assert epilogue.activation in ("", "relu"), "others are for the simulator"
        x = x.astype(kind)
        return np.maximum(x, 0) if epilogue.activation else x

    def _check_place(self, p: Problem, name: str, address: int, steps: tuple[int, ...], element: Element) -> None:
        """Check that an epilogue reads only the element of C that it then writes, since blocks run in any order."""
        sizes, own, kind = (p.m, p.n, *p.batch), self.spec.c, (p.c.row, p.c.col, *p.c.batch)
        x = self.memory.view(address, sizes, steps, element.dtype)
        c = self.memory.view(self.pointers[-1], sizes, kind, own.dtype)
        if np.may_share_memory(x, c):
            assert (address, element.itemsize) == (self.pointers[-1], own.itemsize), f"{name} lies over C"
            assert all(size == 1 or here == there for size, here, there in zip(sizes, steps, kind, strict=True)), (
                f"{name} is C by other strides"
            )

    # ---- what multiplies ----

    def multiply(self, p: Problem) -> None:
        """Read all of a product's operands before writing, unlike a GPU, so that operands must not overlap C."""
        spec, config = self.spec, self.spec.config
        parts = spec.compute.components if spec.condition == "if decomposed" else 1
        if spec.condition in ("if decomposed", "unless decomposed"):
            of_a, of_b = (Findings(self.memory, address) for address in p.others[-2:])
            wide = spec.compute.dtype_name in ("float64", "complex128")
            taken = has_residues(of_a, of_b, p.k) if wide else splits(of_a, of_b, spec.compute.components, p.k)
            if taken != (spec.condition == "if decomposed"):
                return
        for at in p.products():
            for number, begin, k in p.parts():
                c = self.matrix(2, p.m, p.n, p.c, p.c.offset(at) + number * p.partition_c)
                if spec.condition == "if decomposed":
                    result = self._of_pieces(p, at, begin, k, parts, (of_a, of_b))
                elif isinstance(spec.variant.operands, Bytes):
                    result = self._of_bytes(p, at, begin, k)
                elif spec.variant.hopper.tma:
                    result = _product(*self._mapped(p, at, begin, k), spec)
                else:
                    result = _product(*self._in_memory(p, at, begin, k), spec)
                if config.triangle:
                    result = _by_half(result, spec.hermitian)
                c[...] = self.finished(p, at, result)

    def _in_memory(self, p: Problem, at: tuple[int, ...], begin: int, k: int) -> tuple[np.ndarray, np.ndarray]:
        letter_a, letter_b = self.spec.layout
        a0, b0 = p.a.offset(at) + begin * p.a.col, p.b.offset(at) + begin * p.b.row
        a, b = self.matrix(0, p.m, k, p.a, a0, letter_a), self.matrix(1, k, p.n, p.b, b0, letter_b)
        for x in (a, b):
            assert not np.may_share_memory(self.matrix(2, p.m, p.n, p.c, p.c.offset(at)), x), "C lies over an operand"
        return a, b

    def _mapped(self, p: Problem, at: tuple[int, ...], begin: int, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Read boxes of whole steps of k by tensor maps, including what lies beyond a partition."""
        in_a, in_b = (tuple(i if step else 0 for i, step in zip(at, each.batch, strict=True)) for each in (p.a, p.b))
        depth = -(-k // self.spec.config.bk) * self.spec.config.bk
        a = self._box(0, in_a[::-1], (p.m, begin, depth))
        b = self._box(1, in_b[::-1], (p.n, begin, depth))
        return a, b.T

    def _box(self, operand: int, at: tuple[int, ...], size: tuple[int, int, int], parts: int = 1) -> np.ndarray:
        """Read rows of A or columns of B and steps of k by a tensor map, with zeros beyond its edges."""
        spec, config = self.spec, self.spec.config
        (described, pointer), element = self.pointers[operand], (spec.a, spec.b)[operand]
        along_k = spec.layout[operand] == "NT"[operand]
        width = (config.bm, config.bn * parts)[operand] // config.cluster
        line = 128 // element.itemsize
        assert described.itemsize == element.itemsize
        assert described.box == (line, width if along_k else config.bk * parts), "as many bytes as the kernel expects"
        sizes, strides = described.sizes, (element.itemsize, *described.strides)
        assert all(i < count for i, count in zip(at, sizes[2:], strict=True))
        offset = sum(i * step for i, step in zip(at, strides[2:], strict=True))
        # What no map says begins at a multiple of an element is caught here: strides are in elements.
        steps = tuple(step // element.itemsize for step in (strides[1], strides[0]))
        matrix = self.memory.view(pointer + offset, (sizes[1], sizes[0]), steps, element.dtype)
        matrix = matrix if along_k else matrix.T  # (rows of A or columns of B, k)
        rows, begin, depth = size
        box = np.zeros((rows, depth), matrix.dtype)
        read = matrix[:rows, begin : begin + depth]
        box[: read.shape[0], : read.shape[1]] = read
        return box

    def _of_pieces(
        self, p: Problem, at: tuple[int, ...], begin: int, k: int, parts: int, found: tuple[Findings, Findings]
    ) -> np.ndarray:
        """Sum the products of limbs, without the scheme's small ones, and undo their scaling by powers of two."""
        spec = self.spec
        scheme = SCHEMES[spec.config.scheme]
        most = 2 * scheme.limbs - 2 if scheme.products == scheme.limbs**2 else scheme.limbs - 1
        sizes = (p.m, p.n)
        numbers, pieces = [], []
        for operand, strides in enumerate((p.a, p.b)):
            number = strides.offset(at)
            if not spec.variant.hopper.tma:  # matrices lie one after the other, as wide as their lines are apart
                rows, wide = (p.m, 1) if operand == 0 else (p.n, parts)
                by_lines = spec.layout[operand] == "NT"[operand]
                size = (rows * wide if by_lines else parts * p.k) * max(strides.row, strides.col)
                number = number // size if number else 0
            numbers.append(number)
            pieces.append([
                self._piece(p, operand, of, number, strides.offset(at), (begin, k, parts)).astype(np.float64)
                for of in range(scheme.limbs)
            ])  # fmt: skip
        total = np.zeros((p.m, parts * p.n))
        for i, a in enumerate(pieces[0]):
            for j, b in enumerate(pieces[1]):
                if i + j <= most:
                    total += a @ b.T
        exponents = [
            each.exponents(number * size, size) for each, number, size in zip(found, numbers, sizes, strict=True)
        ]
        total = np.ldexp(total, exponents[0][:, None] + np.repeat(exponents[1], parts)[None, :])
        return total.view(np.complex128).astype(spec.c.dtype) if parts == 2 else total.astype(spec.c.dtype)

    def _piece(
        self, p: Problem, operand: int, of: int, number: int, offset: int, steps: tuple[int, int, int]
    ) -> np.ndarray:
        """Read one limb of A, or of B transposed: rows by steps of k, of real numbers."""
        begin, k, parts = steps
        rows = p.m if operand == 0 else parts * p.n
        if self.spec.variant.hopper.tma:
            depth = -(-parts * k // (parts * self.spec.config.bk)) * parts * self.spec.config.bk
            return self._box(operand, (number, of, 0), (rows, parts * begin, depth), parts)
        strides, apart = (p.a, p.b)[operand], p.others[operand]
        row, col = (strides.row, strides.col) if operand == 0 else (strides.col, strides.row)
        by_lines = self.spec.layout[operand] == "NT"[operand]
        row, col = (row, 1) if by_lines else (1, col)
        element = (self.spec.a, self.spec.b)[operand]
        address = self.pointers[operand] + (offset + of * apart + parts * begin * col) * element.itemsize
        return self.memory.view(address, (rows, parts * k), (row, col), element.dtype)

    def _of_bytes(self, p: Problem, at: tuple[int, ...], begin: int, k: int) -> np.ndarray:
        """Multiply integers that are reassembled from their bytes."""
        unsigned = np.dtype(f"u{self.spec.compute.itemsize}")
        depth = -(-k // self.spec.config.bk) * self.spec.config.bk
        operands = []
        for operand, (strides, rows) in enumerate(((p.a, p.m), (p.b, p.n))):
            whole = np.zeros((rows, depth), unsigned)
            for place in range(unsigned.itemsize):
                byte = self._box(operand, (strides.offset(at), place, 0), (rows, begin, depth))
                whole |= byte.astype(unsigned) << unsigned.type(8 * place)
            operands.append(whole)
        return (operands[0] @ operands[1].T).view(self.spec.compute.dtype).astype(self.spec.c.dtype)

    def multiply_residues(self, p: Problem) -> None:
        plane, pitch, _, _, plane_a, plane_b, *scans = p.others
        if not has_residues(*(Findings(self.memory, address) for address in scans), p.k):
            return
        moduli, width = self.spec.config.moduli, -(-p.n // 64) * 64
        planes = p.tiles // (_tiles_of_c(self.spec, p) * math.prod(p.batch))
        assert pitch % 16 == 0 and pitch >= width and (p.c.row, p.c.col) == (pitch, 1)
        for at in p.products():
            left, right = (
                np.stack([self._residues(operand, strides, at, index, (rows, p.k), apart) for index in range(planes)])
                for operand, (strides, rows, apart) in enumerate(((p.a, p.m, plane_a), (p.b, p.n, plane_b)))
            )
            found = np.zeros((planes, p.m, width), np.uint8)
            found[..., : p.n] = residues_in_numpy.multiply(left, right, moduli)
            for index, each in enumerate(residues_in_numpy.in_kernels_order(found)):
                address = self.pointers[2] + index * plane + p.c.offset(at)
                self.memory.view(address, each.shape, (pitch, 1), np.dtype(np.uint8))[...] = each

    def _residues(
        self, operand: int, strides: Strides, at: tuple[int, ...], index: int, size: tuple[int, int], apart: int
    ) -> np.ndarray:
        """Read a plane of residues of A, or of B transposed."""
        rows, k = size
        if self.spec.variant.hopper.tma:
            depth = -(-k // self.spec.config.bk) * self.spec.config.bk
            return self._box(operand, (strides.offset(at), index, 0), (rows, 0, depth))
        row, col = (strides.row, strides.col) if operand == 0 else (strides.col, strides.row)
        assert row % 16 == 0 and col == 1
        address = self.pointers[operand] + index * apart + strides.offset(at)
        return self.memory.view(address, (rows, k), (row, 1), np.dtype(np.uint8))

    # ---- what comes before and after ----

    def pack(self, p: Problem) -> None:
        for at in p.products():
            a = self.matrix(0, p.m, p.n, p.a, p.a.offset(at), self.spec.layout[0])
            self.matrix(2, p.m, p.n, p.c, p.c.offset(at))[...] = a.astype(self.spec.compute.dtype)

    def pack_elements(self, p: Problem) -> None:
        count = self.spec.c.per_packed
        for at in p.products():
            a = self.matrix(0, p.m, p.k, p.a, p.a.offset(at), self.spec.layout[0]).astype(self.spec.compute.dtype)
            padded = np.zeros((p.m, p.n * count), np.uint64)
            padded[:, : p.k] = a.view(np.uint8)[:, : p.k]
            places = np.arange(count, dtype=np.uint64) * np.uint64(32 // count)
            words = (padded.reshape(p.m, p.n, count) << places).sum(-1)
            self.matrix(2, p.m, p.n, p.c, p.c.offset(at))[...] = words

    def split(self, p: Problem) -> None:
        spec = self.spec
        parts, copies = spec.compute.components, spec.c.components
        found = Findings(self.memory, p.others[-1])
        assert p.others[-1] == p.others[-2]
        for number, at in enumerate(p.products()):
            a = self.matrix(0, p.m, p.k, p.a, p.a.offset(at), spec.layout[0]).astype(spec.compute.dtype)
            a = _conjugated(a, spec, "a")
            real = np.ascontiguousarray(a).view(np.float32).reshape(p.m, p.k, parts)
            finite = np.isfinite(real).all(axis=(1, 2))
            largest = np.where(finite, abs(real).max(axis=(1, 2), initial=0), 1)
            scale = np.where(largest > 0, 15 - np.frexp(largest)[1], 0)
            usual, least = (int(finite.all()) or 0), int(scale[largest > 0].min(initial=0x7FFFFFFF))
            found.head[0] = min(int(found.head[0]), parts * p.k if usual else _NEVER)
            found.head[1] = 0
            found.head[2] = min(int(found.head[2]), least)
            found.exponents(number * p.m, p.m)[...] = -scale
            rest = np.ldexp(real.astype(np.float64), scale[:, None, None])
            lines = np.empty((p.m, copies, p.k, parts))
            for copy in range(copies):
                for part in range(parts):
                    step = part ^ copy
                    lines[:, copy, :, step] = -rest[..., part] if copies == 2 and step > copy else rest[..., part]
            lines = lines.reshape(p.m * copies, p.k * parts)
            for of in range(spec.limbs):
                element = spec.c.stored
                if spec.c.dtype_name == "tf32":
                    piece = multiplied(lines.astype(np.float32), "tf32")
                else:
                    piece = lines.astype(element.dtype)
                address = self.pointers[1] + (p.c.offset(at) + of * p.partition_c) * element.itemsize
                strides = (p.c.row, p.c.col)
                self.memory.view(address, lines.shape, strides, element.dtype)[...] = piece
                lines = lines - piece.astype(np.float64)

    def decompose_bytes(self, p: Problem) -> None:
        size = self.spec.compute.itemsize
        for at in p.products():
            a = self.matrix(0, p.m, p.n, p.a, p.a.offset(at), self.spec.layout[0]).astype(self.spec.compute.dtype)
            numbers = a.view(f"u{size}")
            for place in range(size):
                c = self.matrix(2, p.m, p.n, p.c, p.c.offset(at) + place * p.partition_c)
                c[...] = (numbers >> numbers.dtype.type(8 * place)).astype(np.uint8)

    def decompose_residues(self, p: Problem) -> None:
        moduli, parts = self.spec.config.moduli, self.spec.compute.components
        found = Findings(self.memory, p.others[-1])
        assert p.others[-1] == p.others[-2]
        for number, at in enumerate(p.products()):
            a = self.matrix(0, p.m, p.k, p.a, p.a.offset(at), self.spec.layout[0]).astype(self.spec.compute.dtype)
            a = _conjugated(a, self.spec, "a")
            rows = residues_in_numpy.decompose(a, moduli)
            some = (a != 0).any(axis=1) & (rows.near >= 0)
            found.head[0] = min(int(found.head[0]), int(rows.near.min()))
            found.head[1] = int(found.head[1]) if rows.exact.all() else 0
            found.head[2] = min(int(found.head[2]), int(rows.scales[some].min(initial=0x7FFFFFFF)))
            found.exponents(number * p.m, p.m)[...] = -rows.scales
            for index, residues in enumerate(residues_in_numpy.residues_of(rows.integers, moduli, parts)):
                address = self.pointers[1] + p.c.offset(at) + index * p.partition_c
                self.memory.view(address, residues.shape, (p.c.row, p.c.col), np.dtype(np.uint8))[...] = residues

    def reconstruct(self, p: Problem) -> None:
        plane, pitch, rows, row0, _, _, *scans = p.others
        of_a, of_b = (Findings(self.memory, address) for address in scans)
        if not has_residues(of_a, of_b, p.k):
            return
        planes = residue_planes(self.spec.config.moduli, self.spec.compute.components)
        width = -(-p.n // 64) * 64
        for number, at in enumerate(p.products()):
            address = self.pointers[0] + number * p.m * pitch
            found = self.memory.view(address, (planes, p.m, width), (plane, pitch, 1), np.dtype(np.uint8))
            residues = residues_in_numpy.in_order(found)[..., : p.n]
            of_rows = of_a.exponents(p.a.offset(at) * rows + row0, p.m)
            triangle = self.spec.config.triangle
            exponents = of_rows[:, None] + of_b.exponents(p.b.offset(at) * (rows if triangle else p.n), p.n)
            numbers = residues_in_numpy.reconstruct(residues, exponents, self.spec.compute.components)
            numbers = numbers.astype(self.spec.c.dtype)
            if triangle and row0 > 0:  # the last rows of a triangle
                assert self.spec.epilogue is None and p.n == row0 + p.m
                c = self.matrix(2, p.n, p.n, p.c, p.c.offset(at) - row0 * p.c.row)
                row, col = np.tril_indices(p.m, row0, p.n)
                numbers = _by_half(np.vstack([np.zeros((row0, p.n), numbers.dtype), numbers]), self.spec.hermitian)
                c[row0 + row, col], c[col, row0 + row] = numbers[row0 + row, col], numbers[col, row0 + row]
            else:
                c = self.matrix(2, p.m, p.n, p.c, p.c.offset(at))
                c[...] = self.finished(p, at, _by_half(numbers, self.spec.hermitian) if triangle else numbers)

    def split_k_reduction(self, p: Problem) -> None:
        if self.spec.condition:
            scans = [Findings(self.memory, address) for address in p.others[-2:]]
            if splits(*scans, self.spec.compute.components, p.k) != (self.spec.condition == "if decomposed"):
                return
        pitch, kind = p.a.row, self.spec.a.dtype
        rows = p.partition_c // pitch
        assert rows == p.m * math.prod(p.batch) and p.partition_c == rows * pitch
        sums = self.memory.view(self.pointers[0], (p.partitions, rows, p.n), (p.partition_c, pitch, 1), kind)
        total = _summed(sums)
        for number, at in enumerate(p.products()):
            c = self.matrix(2, p.m, p.n, p.c, p.c.offset(at))
            c[...] = self.finished(p, at, total[number * p.m : (number + 1) * p.m].astype(self.spec.c.dtype))


def _summed(sums: np.ndarray) -> np.ndarray:
    """Sum the results of partitions, with narrow floats in a wider type."""
    if sums.dtype.kind == "b":
        return sums.any(axis=0)
    return sums.sum(axis=0, dtype=np.float32 if _is_narrow_float(sums.dtype) else sums.dtype)


def _is_narrow_float(dtype: np.dtype[Any]) -> bool:
    return dtype.itemsize == 2 and dtype.kind not in "iu"


def _product(a: np.ndarray, b: np.ndarray, spec: KernelSpec) -> np.ndarray:
    """Compute a product in the computation type, rounded once and converted to C's type."""
    compute = spec.compute
    if compute.per_packed > 1:
        return _product_of_words(a, b, compute).astype(spec.c.dtype)
    kind = compute.dtype
    if compute.result_name:  # sums of 32 bits
        total = a.astype(kind).astype(np.int64) @ b.astype(kind).astype(np.int64)
        return total.astype(f"{kind.kind}4").astype(compute.result.dtype).astype(spec.c.dtype)
    a, b = _conjugated(a.astype(kind), spec, "a"), _conjugated(b.astype(kind), spec, "b")
    if kind.kind in "biu":
        return np.matmul(a, b).astype(spec.c.dtype)
    if compute.dtype_name == "tf32":
        a, b = (multiplied(np.ascontiguousarray(x), "tf32", spec.variant.name) for x in (a, b))
    wide = np.complex128 if kind.kind == "c" else np.float64
    exact = np.matmul(a.astype(wide), b.astype(wide))
    return exact.astype(np.float32 if _is_narrow_float(kind) else kind).astype(spec.c.dtype)


def _product_of_words(a: np.ndarray, b: np.ndarray, compute: Element) -> np.ndarray:
    count = compute.per_packed
    places = np.arange(count, dtype=np.uint32) * np.uint32(32 // count)
    mask = np.uint32(2 ** (32 // count) - 1)
    a = (np.ascontiguousarray(a)[:, :, None] >> places & mask).reshape(a.shape[0], -1)
    b = (np.ascontiguousarray(b.T)[:, :, None] >> places & mask).reshape(b.shape[1], -1)
    if compute.dtype_name == "boolx32":
        return a.astype(bool) @ b.astype(bool).T
    own = np.uint8 if compute.multiplied == "uint8x4" else np.int8
    a, b = (x.astype(np.uint8).view(own).astype(np.int64) for x in (a, b))
    return (a @ b.T).astype(compute.result.dtype if compute.result_name else own)


def _conjugated(x: np.ndarray, spec: KernelSpec, operand: str) -> np.ndarray:
    """Conjugate an operand's elements if the kernel does."""
    return x.conj() if operand in spec.conjugates else x


def _by_half(result: np.ndarray, hermitian: bool) -> np.ndarray:
    """Mirror the elements below the diagonal to the other side: the conjugates, if C is Hermitian."""
    assert result.shape[0] == result.shape[1]
    if hermitian:
        result = result - 1j * np.diag(result.diagonal().imag)
    return np.where(np.tri(len(result), dtype=bool), result, result.T.conj() if hermitian else result.T)
