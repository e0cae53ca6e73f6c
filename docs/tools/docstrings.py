"""What griffe, which reads docstrings for the API reference, is told of this project's."""

from __future__ import annotations

import re
from typing import Any

import griffe


class Examples(griffe.Extension):
    """An ``Example:`` is a section: griffe knows only several."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Renames the section."""
        if obj.docstring:
            obj.docstring.value = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
