"""The name of a kernel in CUDA C that a user has written."""

from __future__ import annotations

import re


def has_kernel(text: str, symbol: str) -> bool:
    """Whether a text has a kernel that goes by this name: as it is, or as KERNEL, which the preamble defines as it.

    That definition alone is none. How a kernel is declared is left to the compiler: macros of the user's may do it.
    """
    code = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    others, defined = re.subn(rf"#define\s+KERNEL\s+{symbol}\b", "", code)
    names = f"{symbol}|KERNEL" if defined else symbol
    return "__global__" in others and re.search(rf"\b(?:{names})\b", others) is not None
