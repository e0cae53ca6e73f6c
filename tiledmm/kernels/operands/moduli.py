"""Constants of the Ozaki scheme II: the moduli, and the values that follow from them (``docs/rungs/split_float64.md``).

Let M be the product of pairwise coprime moduli. An integer X with |X| < M / 2 follows from its residues by the Chinese
remainder theorem: X = sum of residue * weight, modulo M. By the Cauchy-Schwarz inequality, the product X of a row and a
column is below this limit if the square of the Euclidean norm of each is less than M / 2.
"""

from __future__ import annotations

import functools
import math

#: The largest pairwise coprime moduli up to 256, so that a residue fits into a byte.
MODULI = (256, 255, 253, 251, 247, 241, 239, 233, 229, 227, 223, 217, 211, 199, 197, 193)

#: Number of moduli per product: the default, the minimum and the maximum. With fewer, results would be less accurate
#: than sums in float64; with more, M would not fit into 128 bits, nor the integers into 64.
DEFAULT_MODULI, FEWEST_MODULI, MOST_MODULI = 15, 14, 16

#: Number of 32-bit words per weight, and of M.
WORDS = 4

# Fraction of the bound that is reserved for rounding. Rounding elements to integers adds at most sqrt(K) / 2 to a row's
# norm, which is 2^-39 of it or less. Rounding the sum of squares adds at most K * 2^-53 of it.
_MARGIN = 2.0**-19


# Bits by which a sum of terms times cofactors may be longer than M (``reconstruct`` in ``residues.cuh.j2``).
_SUM_BITS = 14


def residue_planes(moduli: int, components: int) -> int:
    """Return the number of products of residues per product of two elements.

    It is one per modulus for real elements (``components`` is 1), and three per modulus for complex elements (2).
    """
    return moduli * (3 if components == 2 else 1)


def modulus_product(count: int) -> int:
    """Return M, the product of the first ``count`` moduli."""
    return math.prod(MODULI[:count])


def norm_limit(count: int) -> float:
    """Return the maximum squared Euclidean norm of a scaled row of A or column of B.

    Up to this limit, residues modulo the first ``count`` moduli determine each element of the product.
    """
    return modulus_product(count) / 2 * (1 - _MARGIN)


@functools.cache
def weights(count: int) -> tuple[int, ...]:
    """Return the weights of the first ``count`` moduli, with which a number is reconstructed from its residues.

    Let M be the product of these moduli. The weight of a modulus is the number below M that is 1 modulo this modulus,
    and 0 modulo all others.
    """
    whole = modulus_product(count)
    return tuple(whole // modulus * pow(whole // modulus, -1, modulus) for modulus in MODULI[:count])


def pairs(count: int) -> list[tuple[int, int]]:
    """Return the factors and the cofactor of each pair of successive moduli, from which their weights follow.

    The weights of a pair's moduli, whose product is P, are multiples of M / P: the cofactor. They are its products with
    two 16-bit factors, packed into a 32-bit word. The last of an odd number of moduli forms a pair with 1.
    """
    found, each, whole = [], weights(count), modulus_product(count)
    for first in range(0, count, 2):
        cofactor = whole // math.prod(MODULI[first : min(first + 2, count)])
        factors = [weight // cofactor for weight in each[first : first + 2]]
        found.append((sum(factor << 16 * i for i, factor in enumerate(factors)), cofactor))
    return found


def words_of(number: int) -> tuple[int, ...]:
    """Return the four 32-bit words of a non-negative integer below 2^128, lowest first."""
    return tuple(number >> 32 * i & 0xFFFFFFFF for i in range(WORDS))


def powers_of_256(modulus: int) -> tuple[int, int]:
    """Return 256^0 to 256^7 modulo a modulus, as bytes packed into two 32-bit words.

    They are the weights of the bytes of a 64-bit integer.
    """
    word = sum(pow(256, i, modulus) << 8 * i for i in range(8))
    return word & 0xFFFFFFFF, word >> 32


def tables(count: int) -> dict[str, object]:
    """Return a dict of the constants that templates use for the first ``count`` moduli, by name."""
    moduli, whole = MODULI[:count], modulus_product(count)
    dropped = whole.bit_length() + _SUM_BITS - 52  # the leading bits of a sum are an integer in float64
    return {
        "modulus_table": moduli,
        "low_powers": [powers_of_256(each)[0] for each in moduli],
        "high_powers": [powers_of_256(each)[1] for each in moduli],
        "biases": [-(1 << 63) % each for each in moduli],
        "pair_factors": [factors for factors, _ in pairs(count)],
        "cofactor_words": [words_of(cofactor) for _, cofactor in pairs(count)],
        "negative_words": words_of((1 << 32 * WORDS) - whole),
        "norm_limit": norm_limit(count),
        "dropped": dropped,
        "inverse": 2.0**dropped / whole,
    }
