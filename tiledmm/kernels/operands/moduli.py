"""The numbers of the Ozaki scheme II: moduli, and what follows from their count (``docs/rungs/split_float64.md``).

A product of integers X with |X| < M / 2, M being the product of pairwise coprime moduli, follows from its residues
(Chinese remainder theorem): X = sum of residue * weight, modulo M. By the Cauchy-Schwarz inequality a product of a row
and a column is small enough if the square of each one's Euclidean norm is: less than M / 2.
"""

from __future__ import annotations

import functools
import math

#: Pairwise coprime, none above 256, the largest there are: a residue is a byte.
MODULI = (256, 255, 253, 251, 247, 241, 239, 233, 229, 227, 223, 217, 211, 199, 197, 193)

#: How many of them a product takes, and how many it may take. Fewer are less accurate than float64's own sums are; more
#: do not fit 128 bits, nor the integers 64.
DEFAULT_MODULI, FEWEST_MODULI, MOST_MODULI = 15, 14, 16

#: Words of 32 bits of a weight, and of M.
WORDS = 4

# The part of the bound that rounding may take: of elements to integers, at most sqrt(K) / 2 of a row's norm, which is
# 2^-39 of it or less; and of the sum of squares, at most K * 2^-53.
_MARGIN = 2.0**-19


def residue_planes(moduli: int, parts: int) -> int:
    """Products of residues in a product of two elements: for each modulus one, or three of complex numbers."""
    return moduli * (3 if parts == 2 else 1)


def modulus_product(count: int) -> int:
    """M: the product of the first moduli."""
    return math.prod(MODULI[:count])


def norm_limit(count: int) -> float:
    """The largest square of a scaled row's norm."""
    return modulus_product(count) / 2 * (1 - _MARGIN)


@functools.cache
def weights(count: int) -> tuple[int, ...]:
    """For each modulus the number below M that is 1 modulo it and 0 modulo all others."""
    whole = modulus_product(count)
    return tuple(whole // modulus * pow(whole // modulus, -1, modulus) for modulus in MODULI[:count])


def words_of(number: int) -> tuple[int, ...]:
    """The words of a weight, the lowest first."""
    return tuple(number >> 32 * i & 0xFFFFFFFF for i in range(WORDS))


def powers_of_256(modulus: int) -> tuple[int, int]:
    """256^0 to 256^7 modulo a modulus, packed as bytes into two words: what the bytes of an integer count."""
    packed = sum(pow(256, i, modulus) << 8 * i for i in range(8))
    return packed & 0xFFFFFFFF, packed >> 32


def tables(count: int) -> dict[str, object]:
    """What templates are given, by name."""
    moduli, whole = MODULI[:count], modulus_product(count)
    return {
        "modulus_table": moduli,
        "low_powers": [powers_of_256(each)[0] for each in moduli],
        "high_powers": [powers_of_256(each)[1] for each in moduli],
        "biases": [-(1 << 63) % each for each in moduli],
        "weight_words": [words_of(each) for each in weights(count)],
        "product_words": words_of(whole),
        "norm_limit": norm_limit(count),
        "inverse": 2.0**76 / whole,
    }
