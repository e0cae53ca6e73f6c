"""Picture of the package's layers from the contract in ``pyproject.toml``; imports run downward only."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path

from docs.pictures.svg import WIDTH, document

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_ROOT = Path(__file__).resolve().parents[2]

# px: a folder's row, between rows, and between layers.
_HEIGHT, _ROW, _LAYER = 24, 3, 9

# px to the beginning of a summary, and that a letter of it takes.
_SUMMARY, _LETTER = 118, 6.2


def layers() -> list[list[str]]:
    """Return the package's folders and modules by layer, top first; those in one layer do not import each other."""
    settings = tomllib.loads((_ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    (contract,) = (each for each in settings["contracts"] if each.get("containers") == ["tiledmm"])
    return [layer.split(" | ") for layer in contract["layers"]]


def summary(name: str) -> str:
    """Return the first sentence of the docstring of a folder or module."""
    folder = _ROOT / "tiledmm" / name
    path = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    words = " ".join((ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").partition("\n\n")[0].split())
    return words.partition(". ")[0].rstrip(".").replace("``", "")


def picture() -> str:
    """Draw one row per folder, with lines between layers."""
    parts: list[str] = []
    y = 0
    for layer in layers():
        parts.append(f'<rect class="ground" width="{WIDTH}" y="{y}" height="{len(layer) * (_HEIGHT + _ROW) + _ROW}"/>')
        for name in layer:
            parts += _row(name, y + _ROW)
            y += _HEIGHT + _ROW
        y += _ROW + _LAYER
    told = "Each layer of the package and what it is for; a layer imports only from those below it"
    return document("The layers of tiledmm", told, y, parts)


def _row(name: str, y: int) -> Iterator[str]:
    label = f"{name}/" if (_ROOT / "tiledmm" / name).is_dir() else name
    yield f'<text x="10" y="{y + 16}" style="font-weight: 600">{label}</text>'
    text, room = summary(name), int((WIDTH - _SUMMARY) / _LETTER)
    if len(text) > room:
        text = f"{text[: text.rfind(' ', 0, room - 1)].rstrip(',;:')} …"
    yield f'<text x="{_SUMMARY}" y="{y + 16}" style="font-size: 11px">{escape(text)}</text>'
