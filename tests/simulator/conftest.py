"""Configuration of the simulator's tests."""

import gc


def pytest_collection_finish() -> None:
    """Exempt everything that was collected from garbage collection.

    That is half a million objects, which live until the end: each full collection would take half a second for them.
    """
    gc.freeze()
