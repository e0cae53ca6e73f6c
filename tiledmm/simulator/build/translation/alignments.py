"""The alignment of shared arrays as a text declares it: the simulator places them at larger multiples than a GPU.

NVRTC keeps the declared alignment: ``__shared__ float s[64]`` is at a multiple of 4 bytes, also where the kernel reads
it as ``float4``. Dynamic shared memory, and a thread's own arrays, get 16 bytes from it (PTX of NVRTC 12:
``.shared .align 4``, ``.extern .shared .align 16``, ``.local .align 16``).
"""

from __future__ import annotations

import re

from tiledmm.simulator.build.translation.declarations import without_comments

_BYTES = {
    "char": 1, "bool": 1, "short": 2, "int": 4, "unsigned": 4, "signed": 4, "float": 4, "long": 8, "double": 8,
    "half": 2, "__half": 2, "half2": 4, "__half2": 4, "__nv_bfloat16": 2, "__nv_bfloat162": 4, "size_t": 8,
    **{f"{sign}int{bits}_t": bits // 8 for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip
_VECTOR = re.compile(r"u?(char|short|int|long|longlong|float|double)([1-4])")
_ALIGNED = re.compile(r"\b(?:__align__|alignas|aligned)\s*\(\s*([^()]*)\)")
_SHARED = re.compile(r"[^;{}()]*(?:\([^()]*\)[^;{}()]*)*\b__shared__\b[^;{}=]*")


def declared_alignments(text: str) -> dict[str, int]:
    """The alignment in bytes of static shared arrays, by name; without those whose type the text defines."""
    found: dict[str, int] = {}
    for match in _SHARED.finditer(without_comments(text)):
        statement = match[0]
        written = [int(each) if each.strip().isdigit() else 0 for each in _ALIGNED.findall(statement)]
        plain = re.sub(r"__attribute__\s*\(\(.*?\)\)", " ", _ALIGNED.sub(" ", statement))
        plain = re.sub(r"\[[^]]*\]", " ", plain)
        words = re.sub(r"\b(?:__shared__|static|const|volatile|__attribute__)\b|[()]", " ", plain.split(",")[0]).split()
        natural = _natural(words[:-1])
        if "extern" in words or not natural or 0 in written:
            continue
        for name in (words[-1], *(each.strip() for each in plain.split(",")[1:])):
            found[name] = max([natural, found.get(name, 0), *written])
    return found


def _natural(words: list[str]) -> int:
    """The alignment of a type of CUDA C; 0 of another."""
    if len(words) == 1 and (vector := _VECTOR.fullmatch(words[0])):
        part = 8 if vector[1] == "longlong" else _BYTES[vector[1]]
        return part if vector[2] in "13" else min(part * int(vector[2]), 16)
    if not words or not all(word in _BYTES for word in words):
        return 0
    return next((_BYTES[word] for word in words if word not in ("unsigned", "signed", "int")), 4)
