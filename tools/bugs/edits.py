"""Edits of source text by syntax: of Python by its syntax tree, of CUDA C by its tokens.

Formatting, comments and line numbers of the edited text do not matter, so a bug stays planted when its line moves.
"""

from __future__ import annotations

import ast
import re
from typing import Any

# What may stand between two tokens of CUDA C.
_GAP = r"(?:\s|//[^\n]*(?:\n|\Z)|/\*.*?\*/)*"
_TOKEN = re.compile(r'//[^\n]*\S|/\*.*?\*/|\w+|"(?:\\.|[^"\\])*"|[^\w\s]', re.DOTALL)


def edit_cuda(text: str, old: str, new: str, which: tuple[int, int] = (1, 1)) -> tuple[str, int]:
    """Replace the tokens of ``old``, and return the edited text and the position where the edit begins.

    Comments between these tokens do not matter, except those that ``old`` has itself.

    Args:
        text: Text of the kernel.
        old, new: Tokens that occur in it, and their replacement.
        which: Number of the occurrence, from 1, and the number of all occurrences.

    Raises:
        ValueError: If the tokens occur more or less often.
    """
    tokens = _TOKEN.findall(old)
    ends = [r"(?<!\w)" if tokens[0][0].isidentifier() else "", r"(?!\w)" if tokens[-1][-1].isidentifier() else ""]
    pattern = ends[0] + _GAP.join(map(re.escape, tokens)) + ends[1]
    matches = list(re.finditer(pattern, text, re.DOTALL))
    if len(matches) != which[1]:
        raise ValueError(f"the text has {len(matches)} times {old!r}")
    match = matches[which[0] - 1]
    return text[: match.start()] + new + text[match.end() :], match.start()


def scopes(tree: ast.Module) -> dict[str, ast.AST]:
    """Return the functions and classes of a module by their qualified names, and the module itself by ``""``."""
    found: dict[str, ast.AST] = {"": tree}

    def visit(node: ast.AST, outer: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = outer
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = f"{outer}.{child.name}" if outer else child.name
                found[inner] = child
            if not isinstance(child, ast.expr):
                visit(child, inner)

    visit(tree, "")
    return found


class PythonEdit:
    """An edit of an expression, or of consecutive statements, which must occur exactly once in a scope.

    Args:
        old: Text of the expression or statements.
        new: Text that replaces it; if empty, the statements are removed.
    """

    def __init__(self, old: str, new: str) -> None:
        self._old = old
        before, after = ast.parse(old).body, ast.parse(new).body
        self._before: list[Any] = before
        self._after: list[Any] = after or [ast.Pass()]
        if len(before) == len(after) == 1 and isinstance(before[0], ast.Expr) and isinstance(after[0], ast.Expr):
            self._before, self._after = [before[0].value], [after[0].value]
        self._keys = [_key(node) for node in self._before]

    def check(self, scope: ast.AST) -> None:
        """Check that a function, class or module has what is edited.

        Raises:
            ValueError: If it does not occur exactly once.
        """
        self._replace(scope, edit=False)

    def applied(self, text: str, scope: str) -> str:
        """Return the text of a module after the edit of its function or class of a qualified name.

        Raises:
            ValueError: If there is no such scope, or if what is edited does not occur there exactly once.
        """
        tree = ast.parse(text)
        found = scopes(tree)
        if scope not in found:
            raise ValueError(f"there is no {scope!r}")
        self._replace(found[scope], edit=True)
        return ast.unparse(ast.fix_missing_locations(tree))

    def _replace(self, scope: ast.AST, edit: bool) -> None:
        count, size = 0, len(self._before)
        for node in list(ast.walk(scope)):
            for name, value in ast.iter_fields(node):
                if isinstance(value, list):
                    for i in range(len(value) - size, -1, -1):
                        if self._is_here(value[i : i + size]):
                            count += 1
                            if edit:
                                value[i : i + size] = self._after
                elif size == 1 and self._is_here([value]):
                    count += 1
                    if edit:
                        setattr(node, name, self._after[0])
        if count != 1:
            raise ValueError(f"{getattr(scope, 'name', 'the module')} has {count} times {self._old!r}")

    def _is_here(self, nodes: list[Any]) -> bool:
        pairs = list(zip(nodes, self._before, self._keys, strict=True))
        return all(type(node) is type(before) for node, before, _ in pairs) and all(
            _key(node) == key for node, _, key in pairs
        )


def _key(node: ast.AST) -> str:
    """Return a text that two nodes share if and only if their code is the same."""
    return re.sub(r"ctx=(?:Load|Store|Del)\(\)", "", ast.dump(node))
