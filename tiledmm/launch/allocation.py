"""Allocation of the memory that a plan needs beside its arrays, and what is raised if there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tiledmm.selection.choice import Choice

# Status of a CUDA call that could not allocate memory.
_MEMORY_ALLOCATION = 2


class _NoMemoryError(Exception):
    """Error for memory that could not be allocated.

    Attributes:
        error: The allocator's own exception.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class NoFormError(_NoMemoryError):
    """Error for a form of a prepared operand that could not be allocated."""


class NoWorkspaceError(_NoMemoryError):
    """Error for scratch memory of a plan that could not be allocated."""

    def with_purpose(self, choice: Choice) -> Exception:
        """Add to the message of the allocator's exception what the memory was for, and return the exception."""
        advice = "variant='auto', with a precision that does not name a kernel, chooses one that needs less"
        self.error.args = (f"{str(self.error).rstrip('.')}: workspace of {choice}; {advice}",)
        return self.error


def is_out_of_memory(error: Exception) -> bool:
    """Return whether an error means that memory could not be allocated.

    CuPy's pools raise ``MemoryError``, and CUDA reports a status.
    """
    return isinstance(error, MemoryError) or getattr(error, "status", None) == _MEMORY_ALLOCATION


def allocated(allocate: Callable[..., Any], *arguments: int) -> Any:
    """Allocate scratch memory and return what the allocator returns.

    Args:
        allocate: The allocator, a function of CuPy.
        *arguments: Arguments of the allocator.

    Raises:
        NoWorkspaceError: If there is not enough memory.
    """
    try:
        return allocate(*arguments)
    except Exception as error:
        if is_out_of_memory(error):
            raise NoWorkspaceError(error) from error
        raise
