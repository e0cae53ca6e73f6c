"""Sizes of products, and their text form in commands and benchmarks."""

from __future__ import annotations

import re
from typing import NamedTuple

from tiledmm.errors import ConfigError

#: Largest m, n or k: kernels count rows, columns and K in 32-bit integers.
MAX_SIZE = 2**31 - 1


class Size(NamedTuple):
    """Sizes of a product: A (m, k), B (k, n), C (m, n)."""

    m: int
    n: int
    k: int

    def __str__(self) -> str:
        """Return the sizes as tables show them: ``"256 x 128 x 64"``."""
        return " x ".join(map(str, self))


def parse_size(text: str) -> Size:
    """Return the sizes that a text states: N such as ``"4096"``, or MxNxK such as ``"4096x1024x512"``.

    Raises:
        ConfigError: If the text has another form, or a size is 0 or more than ``MAX_SIZE``.
    """
    match = re.fullmatch(r"([0-9]+)(?:x([0-9]+)x([0-9]+))?", text.strip().lower())
    numbers = [number.lstrip("0") for number in match.groups() if number] if match else []
    if not numbers or not all(numbers):
        raise ConfigError(f"a size must be N or MxNxK, of numbers from 1, such as 4096 or 4096x1024x512; got {text!r}")
    # The lengths are compared first, because Python converts at most 4,300 digits.
    if max(map(len, numbers)) > len(str(MAX_SIZE)) or max(map(int, numbers)) > MAX_SIZE:
        raise ConfigError(f"a size is at most 2^31 - 1 = {MAX_SIZE:,}; got {_shortened(text)}")
    return Size(*(list(map(int, numbers)) * 3)[:3])


def _shortened(text: str, most: int = 60) -> str:
    return text if len(text) <= most else f"{text[:most]}..."
