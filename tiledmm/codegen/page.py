"""A kernel's own page: its rendered text without the headers before it."""

from __future__ import annotations

import re

# A rendered kernel is one file: the headers, then the kernel's own page, which begins with its parameters.
_PAGE = re.compile(r"^#define KERNEL\b", re.MULTILINE)


def first_line_of_page(text: str) -> int:
    """The line where a kernel's own page begins in its rendered text; 1 if no headers precede it."""
    begin = _PAGE.search(text)
    return text.count("\n", 0, begin.start()) + 1 if begin else 1


def page_of(text: str) -> str:
    """A kernel's own page, without the headers before it."""
    return "".join(text.splitlines(keepends=True)[first_line_of_page(text) - 1 :])
