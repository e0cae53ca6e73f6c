"""Table of variants that can be read while another thread registers a variant."""

from __future__ import annotations

import threading
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView

from tiledmm.kernels.variant import Variant


class VariantTable(Mapping[str, Variant]):
    """Variants by name, in ladder order: those of the package, those of the user, and last the baseline.

    ``add`` and ``remove`` replace the mapping as a whole. An iteration in another thread continues over the old one.

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
        """Return the names of the variants."""
        return self._rows.keys()

    def values(self) -> ValuesView[Variant]:
        """Return the variants."""
        return self._rows.values()

    def items(self) -> ItemsView[str, Variant]:
        """Return pairs of a variant's name and the variant."""
        return self._rows.items()

    def add(self, row: Variant) -> None:
        """Insert a user's variant before the baseline, replacing any variant of the same name.

        The listeners are called afterwards.
        """
        with self._lock:
            others = [known for name, known in self._rows.items() if name != row.name]
            kernels = [known for known in others if not known.is_baseline]
            baseline = [known for known in others if known.is_baseline]
            self._rows = {each.name: each for each in (*kernels, row, *baseline)}
        self._tell()

    def remove(self, name: str) -> None:
        """Remove the variant of the given name, if there is one. Then call the listeners."""
        with self._lock:
            self._rows = {known: row for known, row in self._rows.items() if known != name}
        self._tell()

    def _tell(self) -> None:
        for listener in self.listeners:
            listener()
