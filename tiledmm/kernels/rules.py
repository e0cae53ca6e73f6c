"""Rules of CUDA-core variants: what a template requires of its config.

A rule is a pair: whether the config obeys it, and its text for errors. The text contains the names of config fields,
because ``tile_config`` appends the values of all fields that it finds in the text.
"""

from __future__ import annotations

from collections.abc import Callable

from tiledmm.elements import Element
from tiledmm.hardware.architectures import WARP_SIZE
from tiledmm.kernels.config import VECTOR_BYTES, WORD_BYTES, Config
from tiledmm.kernels.variant import Rule


def one_element_a_thread(config: Config, element: Element) -> list[Rule]:
    """Return the rules for configs of kernels without shared tiles, whose threads compute one element of C each."""
    return [
        (config.tm == config.tn == config.bk == config.lanes == 1, "tm, tn, bk and lanes must be 1"),
        (not (config.stages or config.wm or config.wn or config.pad), "stages, wm, wn and pad must be 0"),
    ]


def is_power_of_2(size: int) -> bool:
    """Return whether a size is a power of 2, or 0."""
    return size & (size - 1) == 0


def even_copies(stages: int) -> Callable[[Config, Element], list[Rule]]:
    """Return a function that returns the rules of kernels whose threads copy tiles element by element.

    Args:
        stages: Number of pipeline stages that the rules require.
    """

    def rules(config: Config, element: Element) -> list[Rule]:
        threads, sizes = config.threads, (config.bm, config.bn, config.bk)
        even = not any(config.bk * size % threads for size in (config.bm, config.bn))
        return [
            (even, "bm * bk and bn * bk must be multiples of the number of threads"),
            (all(threads % size == 0 for size in sizes), "the number of threads must be a multiple of bm, bn and bk"),
            (config.bk % config.unroll == 0, "bk must be a multiple of unroll"),
            (config.stages == stages, f"stages must be {stages}"),
            (config.wm == config.wn == 0 and config.lanes == 1, "wm and wn must be 0, and lanes must be 1"),
        ]  # fmt: skip

    return rules


def _padded_to_vectors(config: Config, element: Element) -> Rule:
    vector = VECTOR_BYTES // element.sum_bytes
    return config.pad % vector == 0, f"pad must be a multiple of {vector} ({VECTOR_BYTES} bytes)"


def buffers_of_vectors(config: Config, element: Element) -> list[Rule]:
    """Return the rules for configs of ``double_buffered``, each paired with whether ``config`` obeys it."""
    return [*even_copies(2)(config, element), _padded_to_vectors(config, element)]


def _vectors(config: Config, element: Element) -> list[Rule]:
    """Return the rules of kernels that include ``tile_copies.cuh.j2``, each paired with whether ``config`` obeys it."""
    vector = VECTOR_BYTES // element.sum_bytes
    return [
        (config.tm % vector == 0 and config.tn % vector == 0, f"tm and tn must be multiples of {vector}"),
        (config.bk % vector == 0, f"bk must be a multiple of {vector}"),
        _padded_to_vectors(config, element),
    ]


def _copies_across(config: Config, element: Element) -> list[int]:
    """Return the numbers of copies per row of bk, bm and bn elements: first by vectors, then by elements, for each."""
    vector = VECTOR_BYTES // element.sum_bytes
    return [max(size // by, 1) for size in (config.bk, config.bm, config.bn) for by in (vector, 1)]


def square_vectors(config: Config, element: Element) -> list[Rule]:
    """Return the rules for configs of ``vectorized``, each paired with whether ``config`` obeys it."""
    threads, vector = config.threads, VECTOR_BYTES // element.sum_bytes
    rows = [(across, threads) for across in _copies_across(config, element)]
    tiles = [(width * config.bk, threads * vector) for width in (config.bm, config.bn)]
    return [
        (all(max(pair) % min(pair) == 0 for pair in rows),
         f"bm, bn and bk, and the same divided by {vector}, must divide the number of threads or be its multiples"),
        (all(max(pair) % min(pair) == 0 for pair in tiles),
         f"bm * bk and bn * bk must divide {vector} times the number of threads or be its multiples"),
        *_vectors(config, element),
        *even_copies(1)(config, element)[3:],
    ]  # fmt: skip


def warp_tiles(config: Config, element: Element) -> list[Rule]:
    """Return the rules for CUDA-core kernels with warp tiles, each paired with whether ``config`` obeys it."""
    fits = config.wm > 0 and config.wn > 0 and config.wm % config.tm == 0 and config.wn % config.tn == 0
    lanes = config.wm // config.tm * (config.wn // config.tn) if fits else 0
    threads = config.threads
    even = all(across < threads or across % threads == 0 for across in _copies_across(config, element))
    return [
        (lanes == WARP_SIZE, f"wm / tm * (wn / tn) must be {WARP_SIZE}"),
        (
            fits and config.bm % config.wm == 0 and config.bn % config.wn == 0,
            "bm and bn must be multiples of wm and wn",
        ),
        (config.bk % 2 == 0, "bk must be even"),
        (config.stages >= 2, "stages must be at least 2"),
        (config.lanes == 1, "lanes must be 1"),
        (
            even,
            f"bm, bn and bk, and the same divided by {VECTOR_BYTES // element.sum_bytes}, must be less than the number "
            "of threads or multiples of it",
        ),
        *_vectors(config, element),
    ]


def lanes_share_k(config: Config, element: Element) -> list[Rule]:
    """Return the rules for configs of ``dot_products``, each paired with whether ``config`` obeys it."""
    return [(config.lanes == WARP_SIZE, f"lanes must be {WARP_SIZE}"), *_vector_a_lane(config, element)]


def threads_share_k(config: Config, element: Element) -> list[Rule]:
    """Return the rules for configs of ``block_dot_products``, each paired with whether ``config`` obeys it."""
    return [
        (config.lanes > WARP_SIZE and is_power_of_2(config.lanes), f"lanes must be a power of 2 above {WARP_SIZE}"),
        (config.tm == config.bm and config.tn == config.bn, "tm must be bm, and tn must be bn"),
        (config.bm * config.bn <= config.lanes, "lanes must be at least bm * bn"),
        *_vector_a_lane(config, element),
    ]


def _vector_a_lane(config: Config, element: Element) -> list[Rule]:
    vector = VECTOR_BYTES // element.sum_bytes
    bk = config.lanes * vector
    return [
        (config.bk == bk, f"bk must be {bk}, which is {vector} * lanes"),
        (not (config.stages or config.wm or config.wn or config.pad), "stages, wm, wn and pad must be 0"),
    ]


def rows_of_vectors(config: Config, element: Element) -> list[Rule]:
    """Return the rules for configs of ``axpy``, each paired with whether ``config`` obeys it."""
    return [
        (config.tm == config.bm, "tm must be bm"),
        (config.lanes == config.bk > 1, "lanes must be bk, and at least 2"),
        (is_power_of_2(config.tn), "tn must be a power of 2"),
        (
            config.bn % config.tn == 0 and WARP_SIZE % (config.bn // config.tn) == 0,
            f"bn / tn must be an integer that divides {WARP_SIZE}",
        ),
        (config.threads % WARP_SIZE == 0, f"the number of threads, bk * bn / tn, must be a multiple of {WARP_SIZE}"),
        (not (config.stages or config.wm or config.wn or config.pad), "stages, wm, wn and pad must be 0"),
    ]


def rows_of_words(config: Config, element: Element) -> list[Rule]:
    """Return the rules for configs of ``outer_products``, each paired with whether ``config`` obeys it."""
    word = max(1, WORD_BYTES // element.itemsize)
    warps = config.bm // config.tm
    return [
        (config.bn == WARP_SIZE * config.tn, f"bn must be {WARP_SIZE} * tn"),
        (config.tn % word == 0, f"tn must be a multiple of {word} ({WORD_BYTES} bytes)"),
        (config.bm % config.tm == 0 and warps % word == 0, f"bm / tm must be a multiple of {word}"),
        (config.tm % config.unroll == 0, "tm must be a multiple of unroll"),
        (not (config.stages or config.wm or config.wn or config.pad), "stages, wm, wn and pad must be 0"),
        (config.lanes == 1, "lanes must be 1"),
    ]


def rows_as_words(config: Config, element: Element) -> list[Rule]:
    """Return the rules for configs of ``narrow_outer_products``, each paired with whether ``config`` obeys it."""
    word = max(1, WORD_BYTES // element.itemsize)
    return [
        (config.tn == word, f"tn must be {word}"),
        (config.bn % config.tn == 0 and config.bm % config.tm == 0, "bm and bn must be multiples of tm and tn"),
        (
            config.threads % WARP_SIZE == 0,
            f"the number of threads, bm / tm * (bn / tn), must be a multiple of {WARP_SIZE}",
        ),
        (config.bn <= config.threads, "bn must be at most the number of threads"),
        (is_power_of_2(config.bk), "bk must be a power of 2"),
        (not (config.stages or config.wm or config.wn or config.pad), "stages, wm, wn and pad must be 0"),
        (config.lanes == 1, "lanes must be 1"),
    ]


def groups_of_threads(config: Config, element: Element) -> list[Rule]:
    """Return the rules for configs of ``tiny``, each paired with whether ``config`` obeys it."""
    vector, group = VECTOR_BYTES // element.sum_bytes, config.tile_threads
    sizes = (config.bm, config.bn, config.bk)
    return [
        (group > 0 and WARP_SIZE % group == 0,
         f"the number of threads per tile, bm / tm * (bn / tn), must divide {WARP_SIZE}"),
        (config.threads % WARP_SIZE == 0, f"the number of threads per block must be a multiple of {WARP_SIZE}"),
        (all(is_power_of_2(size) and size >= vector for size in sizes),
         f"bm, bn and bk must be powers of 2 of at least {vector}"),
        (config.tn % vector == 0, f"tn must be a multiple of {vector}"),
        (config.bk % config.unroll == 0 and config.unroll % vector == 0,
         f"bk must be a multiple of unroll, and unroll a multiple of {vector}"),
        (group > 0 and not any(config.bk * size % (group * vector) for size in sizes[:2]),
         f"bm * bk and bn * bk must be multiples of {group * vector}, {vector} for each thread of a tile"),
        _padded_to_vectors(config, element),
        (config.stages == 1, "stages must be 1"),
        (config.wm == config.wn == 0 and config.lanes == 1, "wm and wn must be 0, and lanes must be 1"),
    ]  # fmt: skip
