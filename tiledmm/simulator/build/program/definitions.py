"""Where the variables of host code get their values: declarations, assignments, and arguments of calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tiledmm.simulator.build.program.items import FUNCTION, Item, members_of
from tiledmm.simulator.build.program.tokens import NAME, NUMBER, Token, closing, find, split, text_of


@dataclass(frozen=True, slots=True)
class Definition:
    """A place where a variable gets a value.

    Attributes:
        part: Range of the tokens of the value.
        at: Index of a token beside it, in the same function.
        constructed: Whether the value is in parentheses or braces after the name, as in ``dim3 grid(2, 2)``.
    """

    part: tuple[int, int]
    at: int
    constructed: bool = False


class Definitions:
    """The definitions of variables in a program.

    Args:
        tokens: Tokens of the preprocessed program.
        items: Its declarations.
    """

    def __init__(self, tokens: Sequence[Token], items: Sequence[Item]) -> None:
        self._tokens = tokens
        everything = [*items, *(member for item in items for member in members_of(tokens, item))]
        #: The functions, also those of classes.
        self.functions = [item for item in everything if item.kind == FUNCTION and item.body]
        self._variables = [item for item in items if item.kind != FUNCTION]
        # Expressions are evaluated again and again, at other values of what they depend on.
        self._found: dict[tuple[str, int, int], list[Definition]] = {}
        self._functions_at: dict[int, Item | None] = {}
        self._bindings: dict[tuple[str, int], tuple[tuple[int, int], int] | None] = {}

    def function_at(self, at: int) -> Item | None:
        """Return the function that a token is in; None if it is in none."""
        if at not in self._functions_at:
            inside = (each for each in self.functions if each.body and each.body[0] <= at <= each.body[1])
            self._functions_at[at] = next(inside, None)
        return self._functions_at[at]

    def of(self, name: str, at: int) -> Iterator[Definition]:
        """Yield where a variable gets its value before a token, the last place first; then a parameter's argument."""
        function = self.function_at(at)
        if function and function.body:
            yield from self.between(name, function.body[0], at)
            if binding := self.binding(name, function):
                yield Definition(*binding)
        for item in self._variables:
            if name in item.declares:
                yield from self.between(name, item.begin, item.end)

    def elements(self, name: str, at: int) -> list[tuple[int, int]]:
        """Return the ranges of the elements of an array that is declared before a token: ``int sizes[] = {32, 64}``."""
        for here in range(at - 1, 0, -1):
            if self._tokens[here].text == name:
                after = closing(self._tokens, here + 1) + 1 if self._tokens[here + 1].text == "[" else here + 1
                after += after < len(self._tokens) and self._tokens[after].text == "="
                if after < len(self._tokens) and self._tokens[after].text == "{":
                    return split(self._tokens, after + 1, closing(self._tokens, after))
        return []

    def literals(self, at: int) -> dict[tuple[int, str], Definition]:
        """Return the variables of the function around a token, and of no function, whose value is written as numbers.

        Each has the key that overrides its value.
        """
        function = self.function_at(at)
        ranges = [(-1, item.begin, item.end) for item in self._variables]
        if function and function.body:
            ranges.append((function.begin, function.body[0], at))
        found: dict[tuple[int, str], Definition] = {}
        for key, begin, end in ranges:
            for here in range(begin, end - 1):
                if self._tokens[here].kind == NAME and self._tokens[here + 1].text == "=":
                    for each in self.between(self._tokens[here].text, here, here + 2):
                        words = self._tokens[slice(*each.part)]
                        if words and all(word.kind == NUMBER or word.text in "*+-()<>" for word in words):
                            found[key, self._tokens[here].text] = each
        return found

    def between(self, name: str, begin: int, end: int) -> list[Definition]:
        """Return where a variable gets a value between two tokens, the last one first."""
        key = name, begin, end
        if key not in self._found:
            self._found[key] = list(self._between(name, begin, end))
        return self._found[key]

    def _between(self, name: str, begin: int, end: int) -> Iterator[Definition]:
        words = name.split(".")
        length = 2 * len(words) - 1
        for at in range(end - length, begin - 1, -1):
            if self._tokens[at].text != words[0] or text_of(self._tokens[at : at + length]) != name:
                continue
            before = self._tokens[at - 1] if at > 0 else None
            after = self._tokens[at + length].text if at + length < len(self._tokens) else ""
            if before is not None and before.text in (".", "->", "::"):
                continue
            declared = before is not None and (before.kind == NAME or before.text in (">", ",", "&"))
            if after == "=":
                stop = at + length
                while stop < len(self._tokens) and self._tokens[stop].text not in (",", ";"):
                    opens = self._tokens[stop].text in ("(", "[", "{")
                    stop = closing(self._tokens, stop) + 1 if opens else stop + 1
                yield Definition((at + length + 1, stop), at)
            elif after in ("(", "{") and declared and before is not None and before.text not in ("return", "else"):
                close = closing(self._tokens, at + length)
                if self._tokens[min(close + 1, len(self._tokens) - 1)].text in (";", ","):
                    yield Definition((at + length + 1, close), at, True)

    def binding(self, name: str, function: Item) -> tuple[tuple[int, int], int] | None:
        """Return the argument that the first call of a function passes for its parameter, and a token of the caller."""
        key = name, function.begin
        if key not in self._bindings:
            self._bindings[key] = self._binding(name, function)
        return self._bindings[key]

    def _binding(self, name: str, function: Item) -> tuple[tuple[int, int], int] | None:
        parameters = split(self._tokens, *function.parameters, angles=True)
        names = [self.name_of_parameter(part) for part in parameters]
        if name not in names:
            return None
        for at, token in enumerate(self._tokens[:-1]):
            if token.text != function.name or self._tokens[at + 1].text != "(" or at + 2 == function.parameters[0]:
                continue
            caller = self.function_at(at)
            arguments = split(self._tokens, at + 2, closing(self._tokens, at + 1), angles=True)
            if caller and caller != function and len(arguments) > names.index(name):
                return arguments[names.index(name)], at
        return None

    def name_of_parameter(self, part: tuple[int, int]) -> str:
        """Return the name of a parameter, which is the last one in its declaration."""
        names = [token.text for token in self._tokens[slice(*part)] if token.kind == NAME]
        return names[-1] if names else ""

    def end_of_statement(self, at: int) -> int:
        """Return the index after the statement at ``at``."""
        if self._tokens[at].text == "{":
            return closing(self._tokens, at) + 1
        if self._tokens[at].text == "if":
            end = self.end_of_statement(closing(self._tokens, at + 1) + 1)
            return self.end_of_statement(end + 1) if self._tokens[end].text == "else" else end
        return find(self._tokens, at, len(self._tokens), lambda token: token.text == ";") + 1
