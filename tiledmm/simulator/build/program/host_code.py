"""Device code and host code told apart: a kernel's text is the kernel with all that it names, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tiledmm.simulator.build.program.items import OTHER, Item, members_of
from tiledmm.simulator.build.program.tokens import Token, text_of
from tiledmm.simulator.build.translation.syntax import without_comments

# Namespaces that the simulator's headers define.
_KNOWN_NAMESPACES = frozenset({"std", "nvcuda", "wmma", "cooperative_groups", "cg"})


def device_text(text: str, tokens: Sequence[Token], items: Sequence[Item], kernel: Item) -> str:
    """Return a program's text with one kernel, what it names, and blanks instead of everything else. No line moves.

    Args:
        text: The preprocessed program.
        tokens: Its tokens.
        items: Its declarations.
        kernel: The kernel.
    """
    kept = reached(tokens, items, kernel)
    dropped = [item for item in items if item not in kept]
    for item in kept:
        dropped += [member for member in members_of(tokens, item) if member.is_host and member.parameters[1]]
    return _blanked(text, tokens, dropped)


def reached(tokens: Sequence[Token], items: Sequence[Item], kernel: Item) -> set[Item]:
    """Return the declarations that a kernel needs: itself, and what is named in what it needs."""
    own = _signature(tokens, kernel)
    kept = {
        item
        for item in items
        if item == kernel
        or (
            item.is_kernel
            and item.name == kernel.name
            and item.scope == kernel.scope
            and _signature(tokens, item) == own
        )
    }
    available = [
        item for item in items if not item.is_host and not item.is_kernel and item.kind != OTHER and item.declares
    ] + [item for item in items if item.kind == OTHER and "using" in item.words and item.declares]
    available += [item for item in items if item.kind == OTHER and tokens[item.begin].text == "namespace"]
    names = set().union(*(item.mentions for item in kept))
    while True:
        more = {item for item in available if item not in kept and _is_named(item, names)}
        if not more:
            break
        kept |= more
        names |= set().union(*(item.mentions for item in more))
    namespaces = _KNOWN_NAMESPACES | {name for item in items for name in (*item.scope, *item.declares)}
    of_text = {name for item in items for name in item.declares}
    known = {name for item in kept for name in item.declares}
    for item in items:
        if item.kind != OTHER or item in kept:
            continue
        if tokens[item.begin].text == "using" and tokens[item.begin + 1].text == "namespace":
            needed = item.mentions <= namespaces
        else:
            needed = tokens[item.begin].text == "static_assert" and not (item.mentions & of_text) - known
        if needed:
            kept.add(item)
    return kept


def host_function(tokens: Sequence[Token], items: Sequence[Item], kernel: Item) -> Item | None:
    """Return a function without ``__device__`` that a kernel, or what it needs, names; None if there is none."""
    kept = reached(tokens, items, kernel)
    named = set().union(*(item.mentions for item in kept)) - {name for item in kept for name in item.declares}
    return next((item for item in items if item.is_host and item.body and item.name in named), None)


# Heads of what is no function without __device__, and names that are followed by parentheses.
_OTHER_HEAD = re.compile(r"\b(?:__device__|__global__|const|constexpr|consteval|struct|class|union|enum)\b|=")
_CALLED = re.compile(r"([A-Za-z_]\w*)\s*\([^{}]*$")


def may_call_the_host(text: str) -> bool:
    """Return whether a text seems to define a function without ``__device__``, outside of classes, and to name it.

    This takes much less time than to read the text as ``items_of`` does, and macros may hide that it is not so.
    """
    plain = re.sub(r"^[ \t]*#.*(?:\\\n.*)*", "", without_comments(text), flags=re.MULTILINE)
    plain = re.sub(r'"(?:[^"\\\n]|\\.)*"', "", plain)
    depth, head = 0, 0
    for mark in re.finditer(r"[{};]", plain):
        before = plain[head : mark.start()]
        is_scope = depth == 0 and re.match(r"\s*(?:inline\s+)?namespace\b|\s*extern\s*$", before)
        if mark[0] == "{" and not is_scope:
            function = _CALLED.search(before) if depth == 0 and not _OTHER_HEAD.search(before) else None
            if function and len(re.findall(rf"\b{function[1]}\b", plain)) > 1:
                return True
            depth += 1
        elif mark[0] == "}":
            depth = max(depth - 1, 0)
        if depth == 0:
            head = mark.end()
    return False


def _is_named(item: Item, names: set[str]) -> bool:
    """Return whether a declaration may be used by code that has these names; operators have none."""
    qualified = {f"{scope}::{name}" for name in item.declares for scope in item.scope}
    return bool((item.declares | qualified) & names) or (item.name == "operator" and bool(item.mentions & names))


def _signature(tokens: Sequence[Token], item: Item) -> tuple[str, int]:
    """Return what tells overloads of a function apart: its parameters without names, and whether it is a template."""
    types = re.sub(r"\b__restrict(?:__)?\b|\s", "", text_of(tokens[slice(*item.parameters)]))
    template = tokens[slice(*item.template)] if item.template else ()
    return types, sum(each.text == "," for each in template) + bool(template)


def _blanked(text: str, tokens: Sequence[Token], items: Iterable[Item]) -> str:
    """Return a text with blanks instead of declarations."""
    parts, end = [], 0
    for begin, after in sorted((tokens[item.begin].begin, tokens[item.end - 1].end) for item in items):
        if begin >= end:
            parts += [text[end:begin], re.sub(r"[^\n]", " ", text[begin:after])]
            end = after
    return "".join([*parts, text[end:]])
