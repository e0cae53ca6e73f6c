"""A kernel's own page: its rendered text without the headers before it."""

from __future__ import annotations

import re

# A rendered kernel is one file: the headers, then the kernel's own page, which begins with its parameters.
_PAGE = re.compile(r"^#define KERNEL\b", re.MULTILINE)


def page_of(text: str) -> str:
    """Return a kernel's own page, without the headers before it."""
    begin = _PAGE.search(text)
    return text[begin.start() :] if begin else text
