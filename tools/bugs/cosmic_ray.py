"""Mutants of Python files: small edits made by Cosmic Ray's operators and two more.

Of Cosmic Ray's ninety operators (one per pair of arithmetic operators), only those are used that could be a slip of the
hand: most others raise a TypeError wherever they run, which any test notices. Code that computes nothing is not edited:
annotations, ``if TYPE_CHECKING``, decorators, ``__slots__``, and texts of errors. No operator edits strings.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import parso
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Example, Operator
from cosmic_ray.plugins import get_operator
from parso.tree import BaseNode, NodeOrLeaf

Position = tuple[tuple[int, int], tuple[int, int]]


class ReplaceIn(Operator):
    """An operator that replaces ``in`` by ``not in``, and vice versa."""

    def mutation_positions(self, node: NodeOrLeaf) -> Iterator[Position]:
        if node.type == "comparison":
            for child in node.children[1::2]:
                if child.get_code().split() in (["in"], ["not", "in"]):
                    yield child.start_pos, child.end_pos

    def mutate(self, node: BaseNode, index: int) -> BaseNode:
        place = [i for i, child in enumerate(node.children) if child.get_code().split() in (["in"], ["not", "in"])]
        new = " in" if node.children[place[index]].get_code().split()[0] == "not" else " not in"
        node.children[place[index]] = parso.parse(new)
        return node

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        return (Example("x in y", "x not in y"), Example("x not in y", "x in y"))


class RemoveCall(Operator):
    """An operator that removes a call whose result is not used."""

    def mutation_positions(self, node: NodeOrLeaf) -> Iterator[Position]:
        if node.type == "atom_expr" and node.parent.type == "simple_stmt" and node.children[-1].get_code()[-1] == ")":
            yield node.start_pos, node.end_pos

    def mutate(self, node: BaseNode, index: int) -> NodeOrLeaf:
        return parso.python.tree.Name("pass", node.start_pos, node.get_first_leaf().prefix)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        return (Example("f(x)", "pass"),)


_BINARY = (
    "Add_Sub", "Sub_Add", "Mul_Add", "Mul_FloorDiv", "Div_Mul", "FloorDiv_Mul", "Mod_FloorDiv", "Pow_Mul",
    "LShift_RShift", "RShift_LShift", "BitAnd_BitOr", "BitOr_BitAnd", "BitXor_BitAnd",
)  # fmt: skip
_COMPARISONS = (
    "Eq_NotEq", "NotEq_Eq", "Is_IsNot", "IsNot_Is",
    "Lt_LtE", "Lt_GtE", "LtE_Lt", "LtE_Gt", "Gt_GtE", "Gt_LtE", "GtE_Gt", "GtE_Lt",
)  # fmt: skip
_OTHERS = (
    "AddNot", "ExceptionReplacer", "NumberReplacer", "ReplaceAndWithOr", "ReplaceBreakWithContinue",
    "ReplaceContinueWithBreak", "ReplaceFalseWithTrue", "ReplaceOrWithAnd", "ReplaceTrueWithFalse",
    "ReplaceUnaryOperator_Delete_Invert", "ReplaceUnaryOperator_Delete_Not", "ReplaceUnaryOperator_USub_UAdd",
    "ZeroIterationForLoop",
)  # fmt: skip


@functools.cache
def operators() -> dict[str, Operator]:
    """Return all operators by name."""
    names = [
        *(f"ReplaceBinaryOperator_{name}" for name in _BINARY),
        *(f"ReplaceComparisonOperator_{name}" for name in _COMPARISONS),
        *_OTHERS,
    ]
    own = {"ReplaceIn": ReplaceIn(), "RemoveCall": RemoveCall()}
    return {name: get_operator(f"core/{name}")() for name in names} | own


@dataclass(frozen=True)
class Mutant:
    """An edit of a Python file.

    Attributes:
        file: Path from the top of the tree.
        operator, occurrence: Cosmic Ray's operator, and the index of its place in the file. Without an operator,
            nothing changes.
        line: Line number of the edit.
        statement: Line number at which its statement begins.
        where: Name of its function or class, ``"Class.function"``; empty at module level.
        imported: Whether it runs on import, not when a function is called.
        source: Text of the file before the edit.
    """

    file: str
    operator: str
    occurrence: int
    line: int
    statement: int
    where: str
    imported: bool
    source: str

    @property
    def id(self) -> str:
        """Place and edit, which identify the mutant."""
        return f"{self.file}:{self.line} {self.where} ({self.operator}): {' -> '.join(self.change)}"

    @property
    def group(self) -> str:
        """Folder of the module."""
        return "/".join(self.file.split("/")[:2])

    @functools.cached_property
    def text(self) -> str:
        """Text of the file after the edit.

        Raises:
            ValueError: If the result is not valid Python.
        """
        if not self.operator:
            return self.source
        text = mutate_code(self.source, operators()[self.operator], self.occurrence)
        try:
            compile(text, self.file, "exec")
        except SyntaxError as error:
            raise ValueError(f"{self.file}:{self.line}: {self.operator} makes invalid Python") from error
        return str(text)

    @property
    def hunk(self) -> list[str]:
        """Changed lines, prefixed with ``-`` and ``+``."""
        difference = difflib.unified_diff(self.source.splitlines(), self.text.splitlines(), n=0, lineterm="")
        return [line for line in list(difference)[2:] if not line.startswith("@@")]

    @property
    def change(self) -> tuple[str, str]:
        """Text before and after, each joined to one line, which identifies a mutant even if its file moves."""
        sides = ([line[1:].strip() for line in self.hunk if line[0] == sign] for sign in "-+")
        before, after = (" ".join(side) for side in sides)
        return before, after


def _ancestors(node: NodeOrLeaf) -> Iterator[tuple[NodeOrLeaf, NodeOrLeaf]]:
    """Yield the nodes around a node, innermost first, each with the child that leads to it."""
    while node.parent is not None:
        yield node.parent, node
        node = node.parent


def _computes_nothing(node: NodeOrLeaf) -> bool:
    """Return whether an edit of a node changes no value that a program computes."""
    inside: set[str] = set()
    for parent, child in [(node, node), *_ancestors(node)]:
        inside.add(parent.type)
        if parent.type == "if_stmt" and parent.children[1].get_code().strip() == "TYPE_CHECKING":
            return True
        if parent.type == "tfpdef" or parent.type == "decorator":
            return True
        if parent.type == "annassign" and (child is parent.children[1] or "TypeAlias" in parent.children[1].get_code()):
            return True
        if parent.type == "funcdef" and child is parent.annotation:
            return True
        if parent.type == "raise_stmt" and "fstring" in inside:
            return True
        if parent.type == "expr_stmt" and parent.children[0].get_code().strip() in ("__slots__", "__all__"):
            return True
    return False


def _is_an_edit(name: str, node: NodeOrLeaf) -> bool:
    """Return whether an operator's edit of a node is valid Python and not made by another operator."""
    if name.startswith("ReplaceBinaryOperator"):  # not of `def f(*, x)`, nor of `{**x}`
        return node.parent.type in ("arith_expr", "term", "power", "shift_expr", "and_expr", "xor_expr", "expr")
    if name == "AddNot":  # a comparison has its opposite, `not` has none, and `:=` would need parentheses
        return node.children[2 if node.type == "test" else 1].type not in ("comparison", "not_test", "namedexpr_test")
    return name != "ExceptionReplacer" or "." not in node.children[1].get_code()


def _scope(node: NodeOrLeaf) -> tuple[str, bool]:
    """Return the name of a node's function or class, and whether it runs on import."""
    names, called = [], False
    for parent, child in _ancestors(node):
        if parent.type in ("funcdef", "classdef"):
            names.append(parent.name.value)
            called |= parent.type == "funcdef" and child is parent.children[-1]
    return ".".join(reversed(names)), not called


def _statement(node: NodeOrLeaf) -> int:
    """Return the line at which a node's statement begins."""
    for parent, child in _ancestors(node):
        if parent.type in ("suite", "file_input"):
            return child.start_pos[0]
    return node.start_pos[0]


def mutants(root: Path, file: str) -> list[Mutant]:
    """Return all mutants of a file, ordered by line."""
    source = (root / file).read_text("utf-8")
    nodes = list(ast_nodes(get_ast(source)))
    found = []
    for name, operator in operators().items():
        places = ((node, place) for node in nodes for place in operator.mutation_positions(node))
        for occurrence, (node, ((line, _), _)) in enumerate(places):
            if _is_an_edit(name, node) and not _computes_nothing(node):
                where, imported = _scope(node)
                found.append(Mutant(file, name, occurrence, line, _statement(node), where, imported, source))
    return sorted(found, key=lambda mutant: (mutant.line, mutant.operator, mutant.occurrence))
