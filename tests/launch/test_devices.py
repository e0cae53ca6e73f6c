"""Tests of a device's model made from CUDA's properties. Needs CuPy, but no GPU."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

import tiledmm
from tiledmm.errors import DeviceError
from tiledmm.hardware.data_sheets import DATA_SHEETS
from tiledmm.selection.model import H100, Model

devices = pytest.importorskip("tiledmm.launch.devices", exc_type=ImportError)

pytestmark = pytest.mark.cupy


def become(monkeypatch: pytest.MonkeyPatch, major: int, minor: int) -> None:
    """Give device 3 a compute capability and CUDA 13's properties, where clock rates are only attributes."""
    properties = {"name": b"made up", "major": major, "minor": minor, "multiProcessorCount": 114}
    attributes = {"ClockRate": 1_755_000, "MemoryClockRate": 1_593_000, "GlobalMemoryBusWidth": 5120}
    cuda = SimpleNamespace(
        runtime=SimpleNamespace(getDeviceProperties={3: properties}.__getitem__),
        Device=lambda device: SimpleNamespace(attributes={3: attributes}[device]),
    )
    monkeypatch.setattr(devices, "cupy", SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(devices, "current_device", lambda: 3)
    devices._model_of.cache_clear()


def test_clock_rates_are_the_devices_own(monkeypatch: pytest.MonkeyPatch) -> None:
    become(monkeypatch, 9, 0)
    gpu = devices.device_model().gpu
    assert (gpu.name, gpu.arch.name, gpu.sms, gpu.clock) == ("made up", "sm_90", 114, 1.755e9)
    assert gpu.bandwidth == pytest.approx(2.039e12, rel=1e-3)


def test_explain_is_for_the_current_device_if_arrays_are_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.host_arrays import numbers

    model = Model(replace(DATA_SHEETS["A10"], name="made up"))
    monkeypatch.setattr(devices, "device_model", lambda ieee=False: model)
    x = numbers(40, 40)
    found = [tiledmm.explain(x, x).gpu, tiledmm.explain((40, 40), (40, 40)).gpu, tiledmm.explain(x, x, target="L4").gpu]
    assert found == ["made up", H100.gpu.name, "L4"]


def test_a_device_that_is_too_old_is_refused_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    become(monkeypatch, 7, 0)
    for _ in range(2):
        with pytest.raises(DeviceError, match=r"7\.0"):
            devices.device_model()
