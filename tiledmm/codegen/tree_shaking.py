"""Removal of the definitions in the headers of a rendered kernel that nothing uses ("tree shaking").

A header consists of groups of definitions. A group begins with an optional comment and ends at a blank line; a
comment that stands alone is the heading of the groups after it. A definition is kept if text that is kept names it.
An overloaded function or a specialization of a template is kept only if text that is kept also names its types. Member
functions of a struct are definitions, too. Code without a name, such as data or a static_assert, is kept if the code
around it is. ``#if`` and ``#endif`` may stand around groups, or inside one.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

#: Lines around a header in a rendered kernel. They are gone afterwards.
BEGIN, END = "//<header>", "//</header>"

_HEADER = re.compile(rf"^{BEGIN}\n|^{END}\n", re.MULTILINE)
_COMMENT = re.compile(r" *//.*")
_WORD = re.compile(r"[A-Za-z_]\w*")
_CALL = re.compile(r"[A-Za-z_]\w*(?=\s*[(<])")
_IN_PARENTHESES = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
_SPECIFIERS = re.compile(r"^template <.*>$|\b(?:alignas|decltype)" + _IN_PARENTHESES, re.MULTILINE)
_FUNCTION = re.compile(rf"(\w+)(<[^()]*>)?({_IN_PARENTHESES})")
_VARIABLES = re.compile(r"(\w+) = ")
_STRUCT = re.compile(r"((?:.*\n)*?(?:struct|union) [^{};]*\{[^\n}]*\n)((?:.*\n)+)(\};.*\n)$")


@dataclass(frozen=True, slots=True)
class Definition:
    """Definition in a header; for a struct, the definition without its members.

    Attributes:
        text: Lines of the definition; of a struct, the lines before its members.
        names: Names that it defines; empty if it is kept together with the code around it.
        called: True if it is a function, which is used only where it is called.
        is_type: True if it is a type without specializations.
        types: Words in the parameter types of a function, or in the arguments of a specialization. Those that are
            names of types must be used for the definition to be kept.
        words, calls: Words that it contains, and names that it calls.
        members: Members of a struct.
        tail: Last line of a struct.
    """

    text: str
    names: tuple[str, ...]
    called: bool
    is_type: bool
    types: frozenset[str]
    words: frozenset[str]
    calls: frozenset[str]
    members: tuple[Group, ...] = ()
    tail: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Definitions under one comment; without definitions, a heading, an ``#if`` or an ``#endif``."""

    comment: str
    definitions: tuple[Definition, ...]


def shake(text: str) -> str:
    """Return a rendered kernel without the definitions in its headers that nothing uses.

    The marks around the headers are removed, too.
    """
    parts = _HEADER.split(text)
    marks = ["", *_HEADER.findall(text)]
    depth, pieces = 0, []
    for mark, part in zip(marks, parts, strict=True):
        depth += mark.startswith(BEGIN) - mark.startswith(END)
        pieces.append(_groups(part) if depth else part)
    kept = _reached(pieces)
    shown = "".join(piece if isinstance(piece, str) else f"{_show(piece, kept)}\n" for piece in pieces)
    return re.sub(r"\n{3,}", "\n\n", shown)


def _reached(pieces: list[str | tuple[Group, ...]]) -> set[int]:
    """Return the ``id`` of each definition in the headers that text outside them uses, directly or through others.

    Args:
        pieces: Parts of the rendered text in order: strings outside headers, and the groups of each header.
    """
    words: set[str] = set()
    calls: set[str] = set()
    waiting = []
    for piece in pieces:
        if isinstance(piece, str):
            code = _COMMENT.sub("", piece)
            words.update(_WORD.findall(code))
            calls.update(_CALL.findall(code))
        else:
            waiting += [each for group in piece for each in group.definitions]
    types = {name for each in _all(waiting) if each.is_type for name in each.names}
    kept: set[int] = set()
    while True:
        still = []
        for each in waiting:
            named = not each.names or not (calls if each.called else words).isdisjoint(each.names)
            if named and words.issuperset(each.types & types):
                kept.add(id(each))
                words |= each.words
                calls |= each.calls
                still += [member for group in each.members for member in group.definitions]
            else:
                still.append(each)
        if len(still) == len(waiting) and all(a is b for a, b in zip(still, waiting, strict=True)):
            return kept
        waiting = still


def _all(definitions: list[Definition]) -> Iterator[Definition]:
    for each in definitions:
        yield each
        for group in each.members:
            yield from _all(list(group.definitions))


def _show(groups: tuple[Group, ...], kept: set[int]) -> str:
    """Join the kept definitions of the groups, with blank lines between groups.

    Headings and ``#if`` blocks that have no kept definition are left out.
    """
    shown: list[tuple[bool, str]] = []  # whether definitions follow it, and its text
    for group in groups:
        if group.definitions:
            texts = [_text(each, kept) for each in group.definitions if id(each) in kept]
            if texts:
                shown.append((True, group.comment + "".join(texts)))
            continue
        while shown and not shown[-1][0] and not shown[-1][1].startswith("#"):
            shown.pop()  # a heading without definitions
        if group.comment.startswith("#endif") and shown and shown[-1][1].startswith("#if"):
            shown.pop()
        else:
            shown.append((group.comment.startswith("#endif"), group.comment))
    while shown and not shown[-1][0]:
        shown.pop()
    return "\n".join(text for _, text in shown)


def _text(definition: Definition, kept: set[int]) -> str:
    members = _show(definition.members, kept)
    indented = re.sub(r"^(?=[^\n#])", "    ", members, flags=re.MULTILINE)
    return definition.text + indented + definition.tail


@functools.lru_cache(maxsize=256)
def _groups(text: str, constructor: str = "") -> tuple[Group, ...]:
    """Split the text of a header into its groups of definitions.

    With ``constructor``, the name of a struct, the text is that of the struct's members, and functions of that name
    are constructors, which are kept with the struct.
    """
    groups = []
    for paragraph in _paragraphs(text):
        if re.match(r"#if|#endif", paragraph) and paragraph.count("\n#endif") == 0:
            groups.append(Group(paragraph, ()))
        else:
            comment = re.match(r"(?://.*\n)*", paragraph)
            assert comment
            definitions = [_definition(each) for each in _statements(paragraph[comment.end() :])]
            # A constructor is called by a variable's name.
            definitions = [replace(each, names=()) if each.names == (constructor,) else each for each in definitions]
            groups.append(Group(comment[0], tuple(definitions)))
    return tuple(groups)


def _paragraphs(text: str) -> Iterator[str]:
    """Yield the parts of a text between blank lines, ignoring blank lines inside a definition."""
    paragraph, depth = "", 0
    for line in text.splitlines(keepends=True):
        if not line.strip() and depth == 0:
            if paragraph:
                yield paragraph
            paragraph = ""
            continue
        paragraph += line
        depth += _depth(line)
    if paragraph:
        yield paragraph


def _statements(paragraph: str) -> Iterator[str]:
    """Yield the text of each definition in a paragraph, with the comments right above it.

    A paragraph is text between blank lines.
    """
    statement, depth, conditions = "", 0, 0
    for line in paragraph.splitlines(keepends=True):
        statement += line
        depth += _depth(line)
        conditions += line.startswith("#if") - line.startswith("#endif")
        code = _COMMENT.sub("", line).rstrip()
        ends = code.endswith((";", "}")) or (line.startswith("#") and not code.endswith("\\"))
        if ends and depth == 0 and conditions == 0:
            yield statement
            statement = ""
    if statement:
        yield statement


def _depth(line: str) -> int:
    return line.count("{") - line.count("}")


def _definition(text: str) -> Definition:
    """Return the ``Definition`` that a piece of CUDA C contains."""
    code = _COMMENT.sub("", text)
    names, types, kind = _declared(code)
    body, tail = code, ""
    members: tuple[Group, ...] = ()
    if kind == "type" and (struct := _STRUCT.match(text)):
        text, inner, tail = struct.groups()
        body, members = _COMMENT.sub("", text), _groups(re.sub(r"^    ", "", inner, flags=re.MULTILINE), names[0])
    for name in names:  # a declaration does not use the name
        body = _without_first(body, name)
    return Definition(
        text=text,
        names=names,
        called=kind == "function",
        is_type=kind == "type" and not types,
        types=frozenset(_WORD.findall(types)),
        words=frozenset(_WORD.findall(body)),
        calls=frozenset(
            (_WORD if kind == "macro" else _CALL).findall(body)
        ),  # a macro may stand for a call of any name in it
        members=members,
        tail=tail,
    )


def _without_first(code: str, name: str) -> str:
    """Return code without the first occurrence of a name as a whole word.

    Compiling a regular expression for each name would take longer.
    """
    start = code.find(name)
    while start >= 0:
        stop = start + len(name)
        before, after = code[start - 1 : start], code[stop : stop + 1]
        if not (before.isalnum() or before == "_" or after.isalnum() or after == "_"):
            return code[:start] + code[stop:]
        start = code.find(name, stop)
    return code


def _declared(code: str) -> tuple[tuple[str, ...], str, str]:
    """Return the names that code declares, the types of its specialization or parameters, and what it declares.

    Returns:
        The names; the types; and ``"macro"``, ``"type"``, ``"constant"`` or ``"function"``. All are empty if the code
        has no name, and so is kept together with the code around it.
    """
    if macros := re.findall(r"^# *define +(\w+)", code, re.MULTILINE):
        return tuple(dict.fromkeys(macros)), "", "macro"
    code = _SPECIFIERS.sub("", code).strip()
    head = code.partition("{")[0]
    if match := re.match(r"using (\w+) =", head):
        return (match[1],), "", "type"
    if match := re.match(r"(?:struct|union|enum class) +(\w+)(<.*>)?", head):
        return (match[1],), match[2] or "", "type"
    if "constexpr" in head and " = " in head and "(" not in head.partition(" = ")[0]:
        return tuple(_VARIABLES.findall(re.sub(r"<[^<>=]*> = ", " = ", code))), "", "constant"
    if (match := _FUNCTION.search(head)) and not head.startswith("static_assert"):
        return (match[1],), (match[2] or "") + match[3], "function"
    return (), "", ""
