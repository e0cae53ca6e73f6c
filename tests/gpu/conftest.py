"""Fixtures of all GPU tests, which import CuPy only if there is a device."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest

from tests.conftest import missing_gpu

# JAX takes three quarters of the memory at its start, and a dozen processes may share the device.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


@pytest.fixture(autouse=True)
def finished_kernels() -> Iterator[None]:
    """Wait for the device after each test, so that a failing kernel fails the test that launched it."""
    yield
    if missing_gpu():
        return
    import cupy

    cupy.cuda.runtime.deviceSynchronize()


@pytest.fixture(autouse=True, scope="module")
def returned_memory() -> Iterator[None]:
    """Free the memory pool after each module, as a dozen processes may share the device."""
    yield
    if missing_gpu():
        return
    import cupy

    gc.collect()
    cupy.get_default_memory_pool().free_all_blocks()
