from __future__ import annotations

from dataclasses import replace

import pytest

from tiledmm.elements import ELEMENTS
from tiledmm.errors import ConfigError, DeviceError, UnsupportedTypeError
from tiledmm.hardware.architectures import TARGETS, architecture_of, find_target
from tiledmm.hardware.data_sheets import DATA_SHEETS, REFERENCE_GPUS, find_gpu
from tiledmm.hardware.device import gpu_of
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
        (64, 32, 6_272, "warps, blocks, registers and shared memory"),
    ],
)
def test_occupancy_names_what_runs_out(threads, registers, shared_bytes, limited_by):
    assert occupancy(TARGETS["sm_90"], threads, registers, shared_bytes).limited_by == limited_by


def test_nothing_fits_beyond_the_limits_of_a_block_or_a_thread():
    assert occupancy(TARGETS["sm_90"], 1025, 16, 0) == Occupancy(0, 0, 0.0, "warps")
    assert occupancy(TARGETS["sm_90"], 32, 256, 0) == Occupancy(0, 0, 0.0, "registers")


@pytest.mark.parametrize("arguments", [(0, 32, 0), (32, -1, 0), (32, 32, -1)])
def test_occupancy_rejects_what_no_kernel_has(arguments):
    with pytest.raises(ConfigError):
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
    assert text in str(error.value) and "7.5" in str(error.value)


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


# The table of technical specifications per compute capability in the CUDA C++ Programming Guide: warps, blocks and KiB
# of shared memory of an SM, results of float32, float64 and int32 multiply-adds per cycle per SM.
@pytest.mark.parametrize(
    ("target", "warps", "blocks", "shared", "float32", "float64", "int32"),
    [
        ("sm_75", 32, 16, 64, 64, 2, 64), ("sm_80", 64, 32, 164, 64, 32, 64), ("sm_86", 48, 16, 100, 128, 2, 64),
        ("sm_89", 48, 24, 100, 128, 2, 64), ("sm_90", 64, 32, 228, 128, 64, 64), ("sm_100", 64, 32, 228, 128, 64, 64),
        ("sm_120", 48, 24, 100, 128, 2, 64),
    ],
)  # fmt: skip
def test_limits_and_units_are_those_of_the_programming_guide(target, warps, blocks, shared, float32, float64, int32):
    row = TARGETS[target]
    assert (row.max_warps, row.max_threads, row.max_blocks) == (warps, 32 * warps, blocks)
    assert row.shared_bytes == shared * 1024 and row.static_shared_bytes == 49152
    assert row.max_shared_bytes == (shared - (target != "sm_75")) * 1024
    lanes = {"float32": float32, "float16": float32, "bfloat16": float32, "complex64": float32 / 4}
    lanes |= {"float64": float64, "complex128": float64 / 4, "bool": int32, "int64": int32 / 3, "uint64": int32 / 3}
    lanes |= {f"{sign}int{bits}": int32 for sign in ("", "u") for bits in (8, 16, 32)}
    assert lanes == {name: row.multiply_adds(name) for name in ELEMENTS}
    assert (row.max_threads_per_block, row.max_registers, row.registers) == (1024, 255, 65536)


# GB/s of memory, and of NVLink both ways, as the vendor's data sheets and whitepapers print them; SMs.
@pytest.mark.parametrize(
    ("name", "memory", "nvlink", "sms"),
    [
        ("T4", 320, 0, 40), ("RTX 2080 Ti", 616, 100, 68), ("A100 SXM4 80 GB", 2039, 600, 108), ("A30", 933, 200, 56),
        ("RTX 3090", 936, 112.5, 82), ("A10", 600, 0, 72), ("RTX A6000", 768, 112.5, 84), ("RTX 4090", 1008, 0, 128),
        ("L4", 300, 0, 58), ("L40S", 864, 0, 142), ("H100 SXM 80 GB", 3350, 900, 132), ("H200 SXM", 4800, 900, 132),
        ("B200", 8000, 1800, 148), ("RTX 5090", 1792, 0, 170), ("RTX PRO 6000", 1792, 0, 188),
    ],
)  # fmt: skip
def test_bandwidths_are_those_of_the_data_sheet(name, memory, nvlink, sms):
    gpu = DATA_SHEETS[name]
    assert (gpu.bandwidth, 2 * gpu.nvlink, gpu.sms) == (memory * 1e9, nvlink * 1e9, sms)
    assert find_gpu(name) is gpu and find_gpu(gpu.arch.name) is REFERENCE_GPUS[gpu.arch.name]


def test_each_target_has_the_first_of_its_gpus_for_reference():
    assert [gpu.name for gpu in REFERENCE_GPUS.values()] == [
        "T4", "A100 SXM4 80 GB", "RTX 3090", "RTX 4090", "H100 SXM 80 GB", "B200", "RTX 5090",
    ]  # fmt: skip
    assert list(REFERENCE_GPUS) == list(TARGETS)


@pytest.mark.parametrize(("target", "rates"), [("sm_80", (1, 1, 1, 1)), ("sm_90", (0.5, 0.5, 0.5, 1)),
                                               ("sm_100", (0.25, 0.25, 0.25, 1))])  # fmt: skip
def test_mma_reaches_a_part_of_the_rate_of_newer_instructions(target, rates):
    gpu = REFERENCE_GPUS[target]
    for itemsize, rate in zip((1, 2, 4, 8), rates, strict=True):
        assert gpu.tensor_flops(itemsize, by_mma=True) == rate * gpu.tensor_flops(itemsize)
    assert gpu.tensor_flops(16, by_mma=True) == gpu.tensor_flops(16) == gpu.tensor_flops(8) / 4


def test_geforce_halves_what_is_summed_in_float32_and_nothing_else():
    geforce, other = (replace(DATA_SHEETS["A10"], halves_float32_sums=halves) for halves in (True, False))
    for itemsize, part in ((1, 1), (2, 0.5), (4, 0.5), (8, 1), (16, 1)):
        assert geforce.tensor_flops(itemsize) == part * other.tensor_flops(itemsize) > 0
    assert geforce.peak_flops("float32") == other.peak_flops("float32")


@pytest.mark.parametrize(
    ("name", "capability", "halves", "nvlink"),
    [("NVIDIA GeForce RTX 3090", (8, 6), True, 56.25e9), ("NVIDIA A10", (8, 6), False, 56.25e9),
     ("NVIDIA H200", (9, 0), False, 450e9), ("NVIDIA GeForce RTX 4090", (8, 9), True, 0)],
)  # fmt: skip
def test_what_a_device_does_not_tell_is_its_name_or_its_reference(name, capability, halves, nvlink):
    major, minor = capability
    properties = {"name": name.encode(), "major": major, "minor": minor, "multiProcessorCount": 7}
    gpu = gpu_of(properties, {"ClockRate": 1000, "MemoryClockRate": 10, "GlobalMemoryBusWidth": 64})
    assert (gpu.name, gpu.sms, gpu.clock, gpu.bandwidth) == (name, 7, 1e6, 2 * 10e3 * 8)
    assert (gpu.halves_float32_sums, gpu.nvlink) == (halves, nvlink)
    for missing in ("MemoryClockRate", "GlobalMemoryBusWidth"):
        known = {"ClockRate": 1000, "MemoryClockRate": 10, "GlobalMemoryBusWidth": 64}
        del known[missing]
        assert gpu_of(properties, known).bandwidth == REFERENCE_GPUS[gpu.arch.name].bandwidth


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
