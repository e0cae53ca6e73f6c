"""Casts to integers in CUDA C: those that a kernel writes saturate, as on a GPU.

``(int)x`` becomes ``(int)(tiledmm_detail::Cast<int>)x``, where a class converts x (``native/casts.h``): the result has
the same type, and the expression the same precedence. ``int(x)`` and ``static_cast<int>(x)`` become the same.
Conversions that are not written (``int i = x;``) are the CPU's: the runtime finds those that are out of range.
"""

from __future__ import annotations

import re

_WORDS = r"(?:unsigned|signed|long|short|int|char)"
_INTEGER = rf"(?:{_WORDS}(?:\s+{_WORDS})*|u?int(?:8|16|32|64)_t|size_t|ptrdiff_t)"
# Before a cast stands an operator, a bracket, another cast or one of these; after other names, parameters follow.
_BEFORE_CAST = re.compile(
    rf"(?:[-+*/%&|^~!=<>?:,;({{[}}]|\b(?:return|case|else|do)|\(\s*(?:const\s+)?(?:float|double|{_INTEGER})\s*\))\s*\Z"
)
# After it stands what a unary expression begins with; a declaration goes on with others.
_AFTER = r"(?!\s*(?:const|noexcept|override|final|volatile|requires|__attribute__)\b|\s*->)(?=\s*[\w(.+\-!~*&])"
_CAST = re.compile(
    rf"\(\s*(?P<c>{_INTEGER}|(?P<t>[A-Za-z_]\w*))\s*\){_AFTER}"
    rf"|\bstatic_cast\s*<\s*(?:const\s+)?(?P<s>{_INTEGER}|(?P<u>[A-Za-z_]\w*))\s*>\s*(?=\()"
    rf"|\b(?P<f>unsigned|signed|long|short|int|char|u?int(?:8|16|32|64)_t|size_t)\s*(?=\()"
)
_IGNORED = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'|^[ \t]*#[ \t]*(?:if|elif|include)[^\n]*""",
    re.DOTALL | re.MULTILINE,
)


def saturate(source: str) -> str:
    """Return a kernel's text in which written casts to integers saturate, as on a GPU. No line moves."""
    plain = _IGNORED.sub(lambda ignored: re.sub(r"[^\n]", " ", ignored[0]), source)
    parameters = set(re.findall(r"\b(?:class|typename)\s+([A-Za-z_]\w*)\s*[,>=]", plain))
    result, end = [], 0
    for match in _CAST.finditer(plain):
        named = match["t"] or match["u"]
        if named and named not in parameters:
            continue
        before = plain[max(0, match.start() - 80) : match.start()]
        if not match["s"] and not _BEFORE_CAST.search(before):
            continue
        if match["f"] and not _is_expression(plain, match.end(), before):
            continue
        kind = match["c"] or match["s"] or match["f"]
        result += [source[end : match.start()], f"({kind})(tiledmm_detail::Cast<{kind}>)"]
        # What was between the names and is dropped may have had line breaks.
        result.append("\n" * match[0].count("\n"))
        end = match.end()
    return "".join([*result, source[end:]])


def _is_expression(plain: str, at: int, before: str) -> bool:
    """Return whether ``int(...)`` is a cast, and neither a declaration nor the type of a function.

    Args:
        plain: The text without comments and strings.
        at: Offset of the opening parenthesis.
        before: The text before ``int``.
    """
    if re.search(r"[;{})]\s*\Z", before):
        return False
    depth, end = 0, at
    for end in range(at, len(plain)):
        depth += (plain[end] == "(") - (plain[end] == ")")
        if depth == 0:
            break
    content, after = plain[at + 1 : end].strip(), plain[end + 1 : end + 20].lstrip()
    types = rf"(?:(?:const|float|double|bool|void|half|{_INTEGER})[\s*&,]*)*"
    if re.fullmatch(types, content) or (content[:1] in "*&" and after[:1] in ("(", "[")):
        return False
    return not (before.rstrip().endswith("<") and after[:1] == ">")
