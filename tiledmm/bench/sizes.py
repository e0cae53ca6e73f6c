"""Sizes of products, as commands and benchmarks name them."""

from __future__ import annotations

import re
from typing import NamedTuple

from tiledmm.errors import ConfigError


class Size(NamedTuple):
    """Sizes of a product: A (m, k), B (k, n), C (m, n)."""

    m: int
    n: int
    k: int

    def __str__(self) -> str:
        """As tables show it: ``"256 x 128 x 64"``."""
        return " x ".join(map(str, self))


def parse_size(text: str) -> Size:
    """``"4096"`` or, as MxNxK, ``"4096x1024x512"``.

    Raises:
        ConfigError: If it is neither, or a size is 0.
    """
    match = re.fullmatch(r"(\d+)(?:x(\d+)x(\d+))?", text.strip().lower())
    sizes = [int(number) for number in match.groups() if number] if match else []
    if not sizes or min(sizes) < 1:
        raise ConfigError(f"a size is N or MxNxK, each at least 1, like 4096 or 4096x1024x512; got {text!r}")
    return Size(*(sizes * 3)[:3])
