"""Forms of a prepared NumPy array: what simulated kernels wrote for one product is kept for later ones."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from tiledmm.errors import PreparedOperandError
from tiledmm.kernels.launches import Form


class HostForms:
    """Forms of a NumPy array.

    Args:
        array: The array.
        check: Whether each product checks that the array has not changed.

    Attributes:
        made: Arrays of each form that a product has made, in the order of ``Form.memory``, with the padding of rows.
    """

    def __init__(self, array: np.ndarray[Any, Any], check: bool = False) -> None:
        self.made: dict[Form, list[np.ndarray[Any, Any]]] = {}
        self._array = array
        self._hash = _hash_of(array) if check else None

    @property
    def bytes(self) -> int:
        """Size of all forms that have been made, in bytes, as on a device."""
        return sum(form.bytes for form in self.made)

    def read(self) -> None:
        """Check that the array has not changed, if it is checked.

        Raises:
            PreparedOperandError: If it has changed.
        """
        if self._hash is not None and _hash_of(self._array) != self._hash:
            raise PreparedOperandError(
                f"an array of shape {self._array.shape} has changed since it was prepared: prepare it again after it "
                "was written"
            )


def _hash_of(array: np.ndarray[Any, Any]) -> bytes:
    return hashlib.sha256(array.tobytes()).digest()
