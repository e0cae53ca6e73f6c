from __future__ import annotations

import pytest

from tiledmm.elements import ELEMENTS
from tiledmm.errors import ConfigError, DeviceError, UnsupportedTypeError
from tiledmm.hardware.architectures import TARGETS, architecture_of, find_target
from tiledmm.hardware.data_sheets import REFERENCE_GPUS
from tiledmm.hardware.occupancy import Occupancy, occupancy

# What cudaOccMaxActiveBlocksPerMultiprocessor of the CUDA 12.9 toolkit's cuda_occupancy.h answers:
# target, threads, registers, shared bytes, resident blocks.
REFERENCE_BLOCKS = [
    ("sm_75", 1024, 64, 0, 1),
    ("sm_75", 1024, 65, 0, 0),
    ("sm_75", 64, 32, 0, 16),
    ("sm_75", 256, 32, 65_536, 1),
    ("sm_75", 256, 32, 65_537, 0),
    ("sm_75", 96, 32, 3_000, 10),
    ("sm_75", 32, 32, 4_900, 12),
    ("sm_80", 256, 32, 8_192, 8),
    ("sm_80", 256, 33, 8_192, 6),
    ("sm_80", 128, 64, 166_912, 1),
    ("sm_80", 128, 64, 166_913, 0),
    ("sm_86", 1024, 40, 0, 1),
    ("sm_86", 32, 16, 0, 16),
    ("sm_89", 32, 16, 0, 24),
    ("sm_89", 160, 40, 10_240, 9),
    ("sm_90", 1024, 32, 8_192, 2),
    ("sm_90", 1024, 33, 8_192, 1),
    ("sm_90", 1024, 64, 0, 1),
    ("sm_90", 1024, 65, 0, 0),
    ("sm_90", 33, 32, 0, 32),
    ("sm_90", 97, 64, 0, 8),
    ("sm_90", 544, 40, 0, 2),
    ("sm_90", 288, 168, 0, 1),
    ("sm_90", 288, 176, 0, 0),
    ("sm_90", 64, 16, 6_272, 32),
    ("sm_90", 64, 16, 6_273, 31),
    ("sm_90", 128, 32, 115_712, 2),
    ("sm_90", 128, 32, 115_713, 1),
    ("sm_90", 128, 32, 232_448, 1),
    ("sm_90", 128, 32, 232_449, 0),
    ("sm_100", 512, 48, 49_152, 2),
    ("sm_120", 512, 40, 0, 3),
    ("sm_120", 1, 1, 0, 24),
    ("sm_120", 128, 255, 102_400, 0),
]


@pytest.mark.parametrize(("target", "threads", "registers", "shared_bytes", "blocks"), REFERENCE_BLOCKS)
def test_occupancy_counts_blocks_as_the_toolkit_does(target, threads, registers, shared_bytes, blocks):
    result = occupancy(TARGETS[target], threads, registers, shared_bytes)
    assert result.blocks == blocks
    assert result.warps == blocks * -(-threads // 32)
    assert result.fraction == result.warps / TARGETS[target].max_warps


@pytest.mark.parametrize(
    ("threads", "registers", "shared_bytes", "limited_by"),
    [
        (1024, 32, 0, "warps and registers"),
        (1024, 16, 0, "warps"),
        (1024, 40, 0, "registers"),
        (32, 16, 0, "blocks"),
        (128, 32, 100_000, "shared memory"),
        (1025, 16, 0, "warps"),
    ],
)
def test_occupancy_names_what_runs_out(threads, registers, shared_bytes, limited_by):
    assert occupancy(TARGETS["sm_90"], threads, registers, shared_bytes).limited_by == limited_by


def test_nothing_fits_beyond_the_limits_of_a_block_or_a_thread():
    assert occupancy(TARGETS["sm_90"], 1025, 16, 0) == Occupancy(0, 0, 0.0, "warps")
    assert occupancy(TARGETS["sm_90"], 32, 256, 0) == Occupancy(0, 0, 0.0, "registers")


@pytest.mark.parametrize("arguments", [(0, 32, 0), (32, -1, 0), (32, 32, -1)])
def test_occupancy_rejects_what_no_kernel_has(arguments):
    with pytest.raises(ConfigError, match="at least one thread"):
        occupancy(TARGETS["sm_90"], *arguments)


@pytest.mark.parametrize(
    ("target", "shared_bytes"),
    [("sm_75", 65_536), ("sm_80", 166_912), ("sm_86", 101_376), ("sm_90", 232_448)],
)
def test_shared_memory_a_block_may_ask_for(target, shared_bytes):
    assert TARGETS[target].max_shared_bytes == shared_bytes


def test_targets_are_ordered_and_named_by_capability():
    capabilities = [target.capability for target in TARGETS.values()]
    assert capabilities == sorted(capabilities)
    assert list(TARGETS) == [f"sm_{major}{minor}" for major, minor in capabilities]


def test_unknown_target_lists_the_targets():
    assert find_target("sm_90") is TARGETS["sm_90"]
    with pytest.raises(ConfigError, match=r"'sm_42'.*sm_75, sm_80.*sm_120"):
        find_target("sm_42")


@pytest.mark.parametrize(
    ("capability", "target"),
    [
        ((7, 5), "sm_75"),
        ((8, 7), "sm_86"),
        ((9, 0), "sm_90"),
        ((9, 3), "sm_90"),
        ((10, 3), "sm_100"),
        ((12, 1), "sm_120"),
        ((13, 0), "sm_120"),
    ],
)
def test_a_device_has_the_newest_architecture_that_is_not_newer(capability, target):
    assert architecture_of(capability) is TARGETS[target]


@pytest.mark.parametrize(("capability", "text"), [((7, 2), "7.2"), ((7, 0), "7.0"), ((6, 1), "6.1")])
def test_a_device_that_is_too_old_is_refused(capability, text):
    with pytest.raises(DeviceError) as error:
        architecture_of(capability)
    assert isinstance(error.value, RuntimeError)
    assert f"has compute capability {text}," in str(error.value) and "need 7.5 or newer" in str(error.value)


# TFLOP/s of FP32 (and FP64) without tensor cores, as the vendor's documents print them.
@pytest.mark.parametrize(
    ("target", "dtype", "tflops"),
    [
        ("sm_75", "float32", 8.1),
        ("sm_80", "float32", 19.5),
        ("sm_80", "float64", 9.7),
        ("sm_86", "float32", 35.6),
        ("sm_89", "float32", 82.6),
        ("sm_90", "float32", 67),
        ("sm_90", "float64", 34),
        ("sm_100", "float32", 75),
        ("sm_120", "float32", 104.8),
    ],
)
def test_peak_is_that_of_the_data_sheet(target, dtype, tflops):
    assert REFERENCE_GPUS[target].peak_flops(dtype) == pytest.approx(tflops * 1e12, rel=0.02)


def test_tensor_cores_peak_is_that_of_the_data_sheet():
    assert REFERENCE_GPUS["sm_80"].tensor_flops(8) == pytest.approx(19.5e12, rel=0.02)
    assert REFERENCE_GPUS["sm_90"].tensor_flops(8) == pytest.approx(67e12, rel=0.02)


@pytest.mark.parametrize(("target", "tflops"), [("sm_80", 156), ("sm_86", 35.6), ("sm_89", 82.6), ("sm_120", 104.8)])
def test_peak_of_tf32_is_that_of_the_data_sheet(target, tflops):
    gpu = REFERENCE_GPUS[target]
    assert gpu.tensor_flops(4) == pytest.approx(tflops * 1e12, rel=0.02)
    assert REFERENCE_GPUS["sm_75"].tensor_flops(4) == 0


def test_peaks_of_types_without_a_unit_of_their_own():
    h100 = REFERENCE_GPUS["sm_90"]
    assert h100.peak_flops("int32") == pytest.approx(33.5e12, rel=0.01)
    assert h100.peak_flops("int64") == pytest.approx(11.2e12, rel=0.01)
    assert h100.peak_flops("complex64") == h100.peak_flops("float32") / 4


def test_every_element_type_has_a_peak_on_every_machine():
    assert set(REFERENCE_GPUS) == set(TARGETS)
    for gpu in REFERENCE_GPUS.values():
        assert all(0 < gpu.peak_flops(name) <= gpu.peak_flops("float32") for name in ELEMENTS)
    with pytest.raises(UnsupportedTypeError, match="'float8'"):
        REFERENCE_GPUS["sm_90"].peak_flops("float8")


def test_on_chip_loads_in_a_second():
    assert REFERENCE_GPUS["sm_90"].load_bandwidth == 128 * 132 * 1.98e9
    assert REFERENCE_GPUS["sm_75"].load_bandwidth == 64 * 40 * 1.59e9
