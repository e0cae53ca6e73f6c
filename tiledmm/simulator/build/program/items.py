"""Declarations at namespace scope of preprocessed CUDA C: functions, classes, variables, and what each names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tiledmm.simulator.build.program.tokens import (
    NAME,
    STRING,
    Token,
    closing,
    closing_angle,
    find,
    split,
    text_of,
)

FUNCTION, VARIABLE, OTHER = "function", "variable", "other"
CLASS, ENUM, TYPEDEF = "class", "enum", "typedef"

#: Words before a declaration that make it the device's.
DEVICE = frozenset({"__device__", "__global__", "__constant__", "__managed__", "__shared__"})

_CLASSES = {"struct": CLASS, "class": CLASS, "union": CLASS, "enum": ENUM}
# Words that parentheses may follow in a declaration without being a function's parameters.
_WITH_PARENTHESES = """
__launch_bounds__ __align__ __attribute__ __declspec alignas decltype noexcept __cluster_dims__ __maxnreg__
__block_size__ explicit requires typeof
"""
_ATTRIBUTES = frozenset(_WITH_PARENTHESES.split())
_WORDS_OF_CPP = """
alignas asm auto bool break case char class const constexpr continue default delete do double else enum explicit
extern false float for friend goto if inline int long mutable namespace new noexcept nullptr operator private
protected public register return short signed sizeof static static_assert struct switch template this
thread_local true typedef typename union unsigned using virtual void volatile while std
"""
_KEYWORDS = frozenset(_WORDS_OF_CPP.split())


@dataclass(frozen=True, slots=True)
class Item:
    """One declaration.

    Attributes:
        kind: ``FUNCTION``, ``CLASS``, ``ENUM``, ``VARIABLE``, ``TYPEDEF`` or ``OTHER`` (``using``, ``static_assert``).
        begin, end: Indices of its first token and after its last one.
        scope: Namespaces and classes around it, outermost first; ``""`` for a namespace without a name.
        name: Name of a function; empty for other kinds.
        declares: Names that it declares.
        mentions: Names in it; one that is qualified, with its qualifier: ``wt::load``.
        words: Words before the name of what it declares: specifiers, attributes and the type.
        template: Range of tokens between the angle brackets of ``template <...>``; None if it is no template.
        parameters: Range of tokens between the parentheses of a function.
        body: Range of tokens between the braces of a function, a class or an enumeration; None without braces.
        arguments: Text of the template arguments after a function's name: ``<float, 16>``.
    """

    kind: str
    begin: int
    end: int
    scope: tuple[str, ...]
    name: str
    declares: frozenset[str]
    mentions: frozenset[str]
    words: frozenset[str]
    template: tuple[int, int] | None = None
    parameters: tuple[int, int] = (0, 0)
    body: tuple[int, int] | None = None
    arguments: str = ""

    @property
    def is_kernel(self) -> bool:
        """True for a ``__global__`` function."""
        return self.kind == FUNCTION and "__global__" in self.words

    @property
    def is_host(self) -> bool:
        """True for what kernels cannot use: functions and variables of the host."""
        if self.kind == FUNCTION:
            return not self.words & (DEVICE | {"constexpr", "consteval"})
        return self.kind == VARIABLE and not self.words & (DEVICE | {"const", "constexpr"})


def items_of(tokens: Sequence[Token]) -> list[Item]:
    """Return the declarations of preprocessed CUDA C, also those in namespaces, in order."""
    return _items(tokens, 0, len(tokens), ())


def members_of(tokens: Sequence[Token], item: Item) -> list[Item]:
    """Return the declarations in the braces of a class."""
    if item.kind != CLASS or item.body is None:
        return []
    return _items(tokens, *item.body, (*item.scope, item.name), members=True)


def _items(
    tokens: Sequence[Token], begin: int, end: int, scope: tuple[str, ...], *, members: bool = False
) -> list[Item]:
    found: list[Item] = []
    at = begin
    while at < end:
        text = tokens[at].text
        if text in (";", "}"):
            at += 1
        elif members and text in ("public", "private", "protected") and tokens[at + 1].text == ":":
            at += 2
        elif (opening := _block(tokens, at, end)) is not None:
            name = tokens[opening - 1].text if tokens[opening - 1].kind == NAME else ""
            inner = scope if tokens[opening - 1].kind == STRING else (*scope, "" if name == "namespace" else name)
            close = closing(tokens, opening, end)
            found += _items(tokens, opening + 1, close, inner)
            at = close + 1
        else:
            item = _item(tokens, at, end, scope, members=members)
            found.append(item)
            at = max(item.end, at + 1)
    return found


def _block(tokens: Sequence[Token], at: int, end: int) -> int | None:
    """Return the index of the opening brace of ``namespace x {`` or ``extern "C" {`` at ``at``; None for others."""
    if tokens[at].text == "inline":
        at += 1
    if at + 1 < end and tokens[at].text == "namespace":
        brace = find(tokens, at, end, lambda token: token.text in ("{", ";", "="))
        return brace if brace < end and tokens[brace].text == "{" else None
    if at + 2 < end and tokens[at].text == "extern" and tokens[at + 1].kind == STRING and tokens[at + 2].text == "{":
        return at + 2
    return None


def _item(tokens: Sequence[Token], begin: int, end: int, scope: tuple[str, ...], *, members: bool) -> Item:
    head, template = begin, None
    while head + 1 < end and tokens[head].text == "template" and tokens[head + 1].text == "<":
        close = closing_angle(tokens, head + 1, end)
        template, head = (head + 2, close), close + 1
    at, name, arguments, parameters, body, kind = head, "", "", (0, 0), None, VARIABLE
    words: list[str] = []
    last = ""  # the last name outside of brackets
    while at < end:
        token = tokens[at]
        text = token.text
        if text == ";":
            at += 1
            break
        if text == "=" and not parameters[1] and last != "operator":
            at = find(tokens, at, end, lambda each: each.text == ";") + 1
            break
        if text == "<" and last and last != "operator" and (close := closing_angle(tokens, at, end)) < end:
            arguments = text_of(tokens[at : close + 1])
            at = close + 1
            continue
        if text == "(" and last not in _ATTRIBUTES:
            close = closing(tokens, at, end)
            if not parameters[1]:
                call = at == head + 1 and not members and close + 1 < end and tokens[close + 1].text not in "{;:"
                kind, name, parameters = FUNCTION, last, (at + 1, close)
                if call:  # a macro of a header that was set aside: MACRO(x) without a semicolon
                    kind, at = OTHER, close + 1
                    break
            at = close + 1
            continue
        if text == "{":
            shape = next((_CLASSES[word] for word in words if word in _CLASSES), None)
            close = closing(tokens, at, end)
            if (
                parameters[1]
                and tokens[at - 1].kind == NAME
                and ":" in {each.text for each in tokens[parameters[1] : at]}
            ):
                at = close + 1  # a member's initializer before a constructor's body: x{1}
                continue
            if parameters[1]:
                body, at = (at + 1, close), close + 1
                break
            if shape:
                kind, body, name = shape, (at + 1, close), last if last not in _CLASSES else ""
            at = find(tokens, close + 1, end, lambda each: each.text == ";") + 1
            break
        if text in ("(", "["):
            at = closing(tokens, at, end) + 1
            continue
        if token.kind == NAME:
            last, arguments = ("operator" if last == "operator" else text), ""
            if not parameters[1]:
                words.append(text)
        at += 1
    at = min(at, end)
    first = words[0] if words else ""
    if first in ("using", "static_assert", "namespace", "friend", "asm") or (first == "template" and kind == VARIABLE):
        kind = OTHER
    if first == "typedef" and kind in (VARIABLE, FUNCTION):
        kind = TYPEDEF
    if kind == VARIABLE and first in _CLASSES and len(words) <= 2:
        kind, name = _CLASSES[first], words[-1]  # a declaration without its members
    declares = _declared(tokens, head, at, kind, name, body)
    return Item(
        kind, begin, at, scope, name, declares,
        _mentioned(tokens, begin, at, parameters[0] - 2 if kind == FUNCTION else -1),
        frozenset(words), template, parameters, body, arguments,
    )  # fmt: skip


def _mentioned(tokens: Sequence[Token], begin: int, end: int, own: int) -> frozenset[str]:
    """Return the names in a range of tokens, each with its qualifier if it has one.

    Args:
        tokens: All tokens.
        begin, end: The range.
        own: Index of the token that is the name of what is declared, which is no mention of it.
    """
    found = set()
    for at in range(begin, end):
        if tokens[at].kind == NAME and tokens[at].text not in _KEYWORDS and at != own:
            qualified = at >= begin + 2 and tokens[at - 1].text == "::" and tokens[at - 2].kind == NAME
            found.add(f"{tokens[at - 2].text}::{tokens[at].text}" if qualified else tokens[at].text)
    return frozenset(found)


def _declared(
    tokens: Sequence[Token], begin: int, end: int, kind: str, name: str, body: tuple[int, int] | None
) -> frozenset[str]:
    """Return the names that a declaration declares.

    Args:
        tokens: All tokens.
        begin: Index of its first token after ``template <...>``.
        end: Index after its last token.
        kind: Its kind.
        name: Name of a function or a class.
        body: Tokens between its braces; None if it has none.
    """
    if kind == FUNCTION:
        return frozenset({name})
    while [each.text for each in tokens[begin : min(begin + 2, end)]] == ["[", "["]:  # an attribute
        begin = closing(tokens, begin, end) + 1
    if kind == TYPEDEF:  # the name of a function type is in parentheses
        names = [token.text for token in tokens[begin:end] if token.kind == NAME]
        pointers = [at for at in range(begin, end - 1) if tokens[at].text == "*" and tokens[at + 2].text == ")"]
        return frozenset({tokens[pointers[0] + 1].text} if pointers else names[-1:]) - _KEYWORDS
    found = {name} if name else set()
    first = tokens[begin].text
    if kind == ENUM and body:
        found |= {tokens[a].text for a, b in split(tokens, *body) if a < b}
    if first == "using" or first == "namespace":
        if begin + 1 < end and tokens[begin + 1].text != "namespace":
            assigned = find(tokens, begin, end, lambda token: token.text in ("=", ";"))
            found.add(tokens[assigned - 1].text)
        return frozenset(found)
    start = body[1] + 1 if body else begin
    for a, b in split(tokens, start, max(start, end - 1), angles=True):
        stop = find(tokens, a, b, lambda token: token.text in ("=", "[", "{"))
        names = [token.text for token in tokens[a:stop] if token.kind == NAME]
        if names and (body or len(names) > 1 or a > start or kind != OTHER):
            found.add(names[-1])
    return frozenset(found) - _KEYWORDS
