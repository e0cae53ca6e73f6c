"""Tests of finding the driver's library by its name on each system."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from tiledmm.hardware import device


@pytest.fixture(autouse=True)
def _not_loaded() -> Iterator[None]:
    device.driver.cache_clear()
    yield
    device.driver.cache_clear()


@pytest.mark.parametrize(
    ("platform", "library"), [("linux", "libcuda.so.1"), ("win32", "nvcuda.dll"), ("darwin", "libcuda.so.1")]
)
def test_the_library_is_loaded_once(monkeypatch: pytest.MonkeyPatch, platform: str, library: str) -> None:
    loaded: list[str] = []
    monkeypatch.setattr(device.ctypes, "CDLL", lambda name: loaded.append(name) or SimpleNamespace())
    monkeypatch.setattr(device.sys, "platform", platform)
    assert device.driver() is device.driver()
    assert loaded == [library]


def test_without_a_driver_it_is_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(device.ctypes, "CDLL", absent)
    for _ in range(2):
        with pytest.raises(OSError, match="cannot open shared object file"):
            device.driver()
