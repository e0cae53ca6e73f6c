"""The kernels that ``auto`` chooses from, and their rates on an H100."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Candidate:
    """A kernel that ``auto`` may choose.

    Attributes:
        variant, tile: The kernel.
        rate_by_resident_blocks: Fraction of the full rate with 1, 2, ... resident blocks; with one more it is full.
        overhead_k: Cost of a block's prologue and epilogue, in steps of k.
        peak: TFLOP/s with every SM full, by computation type.
        bandwidth_mn_major, bandwidth_k_major: TB/s at which it reads an MN-major and a K-major operand.
        transposed_b_rate: Fraction of the full rate where B is K-major.
    """

    variant: str
    tile: int
    rate_by_resident_blocks: tuple[float, ...]
    overhead_k: int
    peak: dict[str, float]
    bandwidth_mn_major: float = 2.75
    bandwidth_k_major: float = 2.75
    transposed_b_rate: float = 1.0

    @property
    def name(self) -> tuple[str, int]:
        """Variant and tile."""
        return self.variant, self.tile


# Terabytes a second of operands that arrive by TMA.
_TMA = {"bandwidth_mn_major": 2.0, "bandwidth_k_major": 2.0}

# Blocks of one warp.
_ONE_WARP = (0.11, 0.22, 0.32, 0.41, 0.49, 0.55, 0.61, 0.67, 0.72, 0.76, 0.8, 0.84, 0.88, 0.92, 0.96)

# Blocks of four warps, each with a tile of its own.
_SMALL_BLOCKS = (0.3, 0.55, 0.75, 0.9)

# Fitted to runs of `python -m benchmarks.selection` on more products. Types with equal rates share one name.
CANDIDATES = (
    Candidate("double_buffered", 16, (0.7, 0.9, 1, 1, 1, 1, 1), 60, {
        "float32": 8.2, "int32": 8.2, "float16": 7.5, "int8": 7.4,
    }),
    Candidate("double_buffered", 16, (0.7, 0.9, 1, 1, 1, 1, 1), 20, {
        "float64": 4.7, "complex64": 4.5, "int64": 4.6, "complex128": 2.4,
    }),
    Candidate("double_buffered", 32, (0.95,), 16, {"complex128": 4.5}),
    Candidate("double_buffered", 64, (0.66, 0.86), 8, {"int64": 7.2}),
    Candidate("tiled", 64, (0.66, 0.86), 24, {"float16": 27.1, "int8": 25.5}, bandwidth_k_major=1.0),
    Candidate("warp_tiled", 32, _ONE_WARP, 24, {
        "float32": 40, "int32": 30, "float16": 13, "int8": 13, "float64": 22.5, "complex64": 12.8,
        "complex128": 6.3,
    }, bandwidth_k_major=1.3),
    Candidate("warp_tiled", 64, (0.58, 0.78, 0.9, 0.97), 26, {"float32": 46}),
    Candidate("warp_tiled", 64, (0.58, 0.78, 0.9, 0.97), 16, {"int32": 31.2}),
    Candidate("warp_tiled", 64, (0.73, 0.95), 16, {"float64": 24.5, "complex64": 13.5}),
    Candidate("warp_tiled", 64, (), 16, {"complex128": 6.4}),
    Candidate("warp_tiled", 64, (0.45, 0.7, 0.9), 16, {"float16": 30.5, "int8": 26.5}),
    Candidate("warp_tiled", 128, (0.86,), 28, {"float32": 51.4, "float16": 38.0}),
    Candidate("warp_tiled", 128, (), 24, {"float64": 26.4, "complex64": 13.5, "complex128": 6.25}),
    Candidate("warp_tiled", 256, (), 40, {"float32": 54, "int32": 33}),
    Candidate("tensor_core", 64, (0.77, 0.92), 64, {"float64": 51.5}),
    Candidate("tensor_core", 128, (), 64, {"float64": 54.7}),
    Candidate("tensor_core", 64, (0.6,), 32, {"complex128": 12.3}),
    Candidate("tensor_core", 64, (0.4, 0.65, 0.85), 64, {"tf32": 85}),
    Candidate("tensor_core", 128, (0.7,), 64, {"tf32": 116}),
    Candidate("tensor_core", 64, (0.6,), 200, {"int8": 253}),
    Candidate("tensor_core", 128, (), 600, {"int8": 620}),
    Candidate("wgmma", 64, (0.9,), 300, {"float16": 650}, **_TMA),
    Candidate("wgmma", 128, (), 290, {"float16": 850}, **_TMA),
    Candidate("wgmma", 192, (), 280, {"float16": 850}, **_TMA),
    Candidate("wgmma", 256, (), 560, {"float16": 900}, **_TMA),
    Candidate("wgmma", 64, (), 215, {"tf32": 190}, **_TMA),
    Candidate("wgmma", 128, (), 205, {"tf32": 301}, **_TMA),
    Candidate("wgmma", 192, (), 270, {"tf32": 412}, **_TMA),
    Candidate("wgmma", 256, (), 304, {"tf32": 412}, **_TMA),
    Candidate("wgmma", 64, (0.6,), 450, {"int8": 1050}, **_TMA),
    Candidate("wgmma", 128, (0.5,), 300, {"int8": 1600}, **_TMA),
    Candidate("wgmma", 192, (), 450, {"int8": 1718}, **_TMA),
    Candidate("wgmma", 256, (0.6,), 250, {"int8": 1630}, **_TMA),
    Candidate("split_float32", 64, (), 325, {"float32": 225}, **_TMA),
    Candidate("split_float32", 128, (), 300, {"float32": 280}, **_TMA),
    Candidate("split_float32", 256, (), 400, {"float32": 298}, **_TMA),
    Candidate("split_float32", 64, (), 160, {"complex64": 52}, **_TMA),
    Candidate("split_float32", 128, (), 150, {"complex64": 70}, **_TMA),
    Candidate("split_float32", 256, (), 200, {"complex64": 74}, **_TMA),
    Candidate("split_tensor_core", 64, (0.3, 0.55, 0.75), 128, {"float32": 60}),
    Candidate("split_tensor_core", 128, (0.6,), 128, {"float32": 105}),
    Candidate("split_tensor_core", 64, (0.3, 0.55, 0.75), 64, {"complex64": 23}),
    Candidate("split_tensor_core", 128, (0.6,), 64, {"complex64": 26}),
    Candidate("split_integer", 64, (), 185, {"int32": 94, "float16": 250}, **_TMA),
    Candidate("split_integer", 64, (), 150, {"int64": 30}, **_TMA),
    Candidate("split_integer", 128, (), 200, {"int32": 141, "float16": 360}, **_TMA),
    Candidate("split_integer", 128, (), 170, {"int64": 42}, **_TMA),
    Candidate("split_integer", 256, (), 260, {"int32": 193, "float16": 541}, **_TMA),
    Candidate("thin", 8, (0.3, 0.55, 0.75, 0.9), 32, {"float32": 23},
        bandwidth_mn_major=2.8, bandwidth_k_major=1.5, transposed_b_rate=0.6),
    Candidate("thin", 8, (0.3, 0.55, 0.75, 0.9), 32, {
        "int32": 19, "float16": 8, "int8": 9, "float64": 13.5, "complex64": 6.5, "int64": 4.7, "complex128": 3.7,
    },
        bandwidth_mn_major=2.8, bandwidth_k_major=1.5, transposed_b_rate=0.85),
    Candidate("thin", 16, (0.5, 0.8, 1, 1), 32, {"float32": 42},
        bandwidth_mn_major=2.85, bandwidth_k_major=1.75, transposed_b_rate=0.55),
    Candidate("thin", 16, (0.5, 0.8, 1, 1), 32, {
        "int32": 28, "float16": 13, "int8": 14, "float64": 19, "complex64": 9.5, "int64": 6.1, "complex128": 5.2,
    },
        bandwidth_mn_major=2.85, bandwidth_k_major=1.75, transposed_b_rate=0.85),
    Candidate("thin", 32, (0.6, 0.85), 32, {"float32": 48},
        bandwidth_mn_major=2.8, bandwidth_k_major=1.7, transposed_b_rate=0.75),
    Candidate("thin", 32, (0.6, 0.85), 32, {
        "int32": 29, "float16": 20, "int8": 19, "float64": 22, "complex64": 12.5, "int64": 6, "complex128": 6.2,
    },
        bandwidth_mn_major=2.8, bandwidth_k_major=1.7, transposed_b_rate=0.85),
    Candidate("thin", 64, (0.5, 0.8, 0.95), 24, {"float32": 48, "int32": 29},
        bandwidth_mn_major=2.7, bandwidth_k_major=2.2),
    Candidate("dot_products", 1, (0.3, 0.5, 0.7, 0.85), 512, {
        "float32": 5, "int32": 5, "float16": 0.9, "int8": 0.9, "float64": 1.9, "complex64": 1.9, "int64": 1.8,
        "complex128": 1.0,
    }, bandwidth_k_major=2.75),
    Candidate("dot_products", 2, (0.3, 0.5, 0.7, 0.85), 512, {
        "float32": 10, "int32": 10, "float64": 2.9, "complex64": 2.3, "int64": 2.3,
        "complex128": 1.0,
    }, bandwidth_k_major=2.75),
    Candidate("dot_products", 4, (0.3, 0.5, 0.7, 0.85), 512, {
        "float32": 12.5, "int32": 13, "float64": 4.9, "complex64": 4.3, "int64": 4.0,
        "complex128": 2.1,
    }, bandwidth_k_major=2.6),
    Candidate("dot_products", 8, (0.3, 0.5, 0.7, 0.85), 512, {
        "float32": 12, "int32": 12, "float64": 6.3, "complex64": 5.1, "int64": 4.3,
        "complex128": 2.0,
    }, bandwidth_k_major=2.5),
    Candidate("dot_products", 16, (0.3, 0.5, 0.7, 0.85), 512, {
        "float32": 20, "int32": 20, "float64": 7.7, "complex64": 7.1, "int64": 6.4,
        "complex128": 2.9,
    }, bandwidth_k_major=2.2),
    Candidate("axpy", 1, (), 512, {
        "float32": 3.6, "int32": 3.6, "float16": 5, "float64": 1.28, "complex64": 1.28, "int64": 1.28,
        "complex128": 0.46,
    }, bandwidth_mn_major=2.9),
    Candidate("axpy", 2, (), 512, {
        "float32": 6.7, "int32": 6.7, "float16": 10.7, "float64": 2.4, "complex64": 2.4, "int64": 2.4,
        "complex128": 0.9,
    }, bandwidth_mn_major=2.9),
    Candidate("axpy", 4, (), 512, {
        "float32": 12, "int32": 12, "float16": 16, "float64": 3.9, "complex64": 3.9, "int64": 3.9, "complex128": 1.4,
    }, bandwidth_mn_major=2.8),
    Candidate("tiny", 4, _SMALL_BLOCKS, 12, {
        "float32": 5.7, "int32": 4.5, "float16": 4.5, "int8": 4.5, "float64": 2.5, "complex64": 2, "int64": 2,
        "complex128": 1.2,
    }, bandwidth_mn_major=2.2, bandwidth_k_major=2.2),
    Candidate("tiny", 8, _SMALL_BLOCKS, 16, {
        "float32": 10.5, "int32": 8.5, "float16": 9, "int8": 8, "float64": 5.5, "complex64": 4.5, "int64": 4,
        "complex128": 2,
    }, bandwidth_mn_major=2.2, bandwidth_k_major=2.2),
    Candidate("tiny", 16, (0.4, 0.7, 0.9), 16, {
        "float32": 15, "int32": 12, "float16": 14, "int8": 13, "float64": 9, "complex64": 6, "int64": 5,
        "complex128": 3,
    }, bandwidth_mn_major=2.2, bandwidth_k_major=2.2),
)  # fmt: skip

#: What ``auto`` chooses from, as (variant, tile).
AUTO_KERNELS = tuple(dict.fromkeys(candidate.name for candidate in CANDIDATES))
