"""Analysis of which values flow into the subscripts of a kernel's arrays, regardless of the order of statements."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from tiledmm.own_kernels.indices import Indices
from tiledmm.simulator.build.parameters import POINTER, Parameter
from tiledmm.simulator.build.program.tokens import NAME, closing, find, split

_ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "%=", "|=", "&=", "^=", ">>=", "<<="}


def index_arrays(indices: Indices, parameters: Sequence[Parameter]) -> dict[int, bool]:
    """Return the parameters whose elements are subscripts of arrays, or parts of subscripts.

    Args:
        indices: The kernel's indices.
        parameters: Its parameters.

    Returns:
        For each such parameter, by its number, whether all arrays that it subscripts are parameters, whose extents are
        known.
    """
    arrays = {each.name: at for at, each in enumerate(parameters) if each.kind == POINTER}
    flows = _flows(indices)
    found: dict[int, bool] = {}
    for array, part in _subscripts(indices):
        for name in _reached(indices, flows, part):
            if name in arrays:
                at = arrays[name]
                found[at] = found.get(at, True) and bool(_reached_names(flows, {array}) & arrays.keys())
    return found


def counter_arrays(indices: Indices) -> set[str]:
    """Return the names in the first arguments of atomic operations: sums and counters, which begin at zero."""
    tokens = indices.tokens
    found: set[str] = set()
    for item in indices.functions:
        for at in range(*(item.body or (0, 0))):
            if tokens[at].text.startswith("atomic") and tokens[at + 1].text == "(":
                found |= _names(indices, split(tokens, at + 2, closing(tokens, at + 1), angles=True)[0])
    return found


def uses_elements_as_subscripts(indices: Indices) -> bool:
    """Return whether an element of any array, of integers or of other numbers, flows into a subscript."""
    flows = _flows(indices)
    arrays = {name for name, _ in _subscripts(indices)}
    return any(_reached(indices, flows, part) & arrays for _, part in _subscripts(indices))


def _subscripts(indices: Indices) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the name of each array that has a subscript, with the range of the subscript."""
    tokens = indices.tokens
    for item in indices.functions:
        for at in range(*(item.body or (0, 0))):
            if tokens[at].text == "[":
                name = at - 1
                while tokens[name].text == "]":  # a[i][j]
                    name = next(
                        here for here in range(name, -1, -1)
                        if tokens[here].text == "[" and closing(tokens, here) == name
                    ) - 1  # fmt: skip
                yield tokens[name].text, (at + 1, closing(tokens, at))


def _flows(indices: Indices) -> dict[str, set[str]]:
    """Return, for each name, the names in all expressions that are assigned to it, passed for it, or limit its loop."""
    tokens = indices.tokens
    found: dict[str, set[str]] = defaultdict(set)
    names_of = {
        item.name: [
            names[-1] if (names := [token.text for token in tokens[a:b] if token.kind == NAME]) else ""
            for a, b in split(tokens, *item.parameters, angles=True)
        ]
        for item in indices.functions
    }
    for item in indices.functions:
        begin, end = item.body or (0, 0)
        for at in range(begin, end):
            word, after = tokens[at], tokens[at + 1].text
            if word.kind != NAME:
                continue
            if after in _ASSIGNMENTS:
                stop = find(tokens, at + 2, end, lambda token: token.text in (",", ";", ")"))
                found[word.text] |= _names(indices, (at + 2, stop))
            elif after == "(" and word.text in names_of:
                arguments = split(tokens, at + 2, closing(tokens, at + 1), angles=True)
                for name, part in zip(names_of[word.text], arguments, strict=False):
                    found[name] |= _names(indices, part)
    for loop in indices.loops:
        if loop.limit:
            found[loop.key[1]] |= _names(indices, loop.limit)
    return found


def _names(indices: Indices, part: tuple[int, int]) -> set[str]:
    tokens = indices.tokens
    return {
        tokens[at].text for at in range(*part) if tokens[at].kind == NAME and tokens[at - 1].text not in (".", "->")
    }


def _reached(indices: Indices, flows: dict[str, set[str]], part: tuple[int, int]) -> set[str]:
    """Return all names that flow into an expression."""
    return _reached_names(flows, _names(indices, part))


def _reached_names(flows: dict[str, set[str]], names: set[str]) -> set[str]:
    """Return the given names, and all names that flow into them."""
    found, new = set(names), set(names)
    while new:
        new = set().union(*(flows.get(name, set()) for name in new)) - found
        found |= new
    return found
