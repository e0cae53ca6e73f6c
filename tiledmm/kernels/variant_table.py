"""A table of variants that can be read while another thread registers one."""

from __future__ import annotations

import threading
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView

from tiledmm.kernels.variant import Variant


class VariantTable(Mapping[str, Variant]):
    """Rows by name, in ladder order: the package's, the user's, and last the baseline.

    ``add`` and ``remove`` publish a new mapping: an iteration in another thread continues over the old one.

    Attributes:
        listeners: Functions that are called after each change.
    """

    def __init__(self, rows: Iterable[Variant]) -> None:
        self._rows = {row.name: row for row in rows}
        self._lock = threading.Lock()
        self.listeners: list[Callable[[], None]] = []

    def __getitem__(self, name: str) -> Variant:
        return self._rows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def keys(self) -> KeysView[str]:
        """Return the names."""
        return self._rows.keys()

    def values(self) -> ValuesView[Variant]:
        """Return the rows."""
        return self._rows.values()

    def items(self) -> ItemsView[str, Variant]:
        """Return names and rows."""
        return self._rows.items()

    def add(self, row: Variant) -> None:
        """Add a user's variant above the kernels and below the baseline, in place of one of the same name."""
        with self._lock:
            others = [known for name, known in self._rows.items() if name != row.name]
            kernels = [known for known in others if not known.is_baseline]
            baseline = [known for known in others if known.is_baseline]
            self._rows = {each.name: each for each in (*kernels, row, *baseline)}
        self._tell()

    def remove(self, name: str) -> None:
        """Remove a variant."""
        with self._lock:
            self._rows = {known: row for known, row in self._rows.items() if known != name}
        self._tell()

    def _tell(self) -> None:
        for listener in self.listeners:
            listener()
