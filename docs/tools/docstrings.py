"""Extension of griffe, which reads docstrings for the API reference, for this project's docstrings."""

from __future__ import annotations

import re
from typing import Any

import griffe


class Examples(griffe.Extension):
    """An extension that treats ``Example:`` as a section, since griffe knows only ``Examples:``."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rename the section."""
        if obj.docstring:
            obj.docstring.value = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
