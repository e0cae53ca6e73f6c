"""One launch of a product's schedule, its kernel compiled for the CPU."""

from __future__ import annotations

import copy
import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np

from tiledmm.codegen.rendering import has_kernel, render
from tiledmm.codegen.source_map import source_places
from tiledmm.errors import ConfigError
from tiledmm.hardware.architectures import find_compile_target
from tiledmm.hardware.data_sheets import REFERENCE_GPUS
from tiledmm.kernels import launches as geometry
from tiledmm.kernels.spec import KernelSpec
from tiledmm.kernels.tensor_maps import SWIZZLE, TensorMap
from tiledmm.simulator.build.native_kernel import NativeKernel
from tiledmm.simulator.build.parameters import POINTER
from tiledmm.simulator.build.source_map import SourceMap
from tiledmm.simulator.build.source_text import read_source
from tiledmm.simulator.check.finding_kinds import NOT_RETURNED
from tiledmm.simulator.check.findings import Finding
from tiledmm.simulator.check.kernel_findings import KernelFindings
from tiledmm.simulator.check.limits import beyond_limits
from tiledmm.simulator.check.unset import filled_kernel, unset_variables
from tiledmm.simulator.execute import tensor_maps
from tiledmm.simulator.execute.grid import Outcome
from tiledmm.simulator.execute.kernel import run_kernel
from tiledmm.simulator.execute.memory import Placed
from tiledmm.simulator.execute.passed import aligned
from tiledmm.simulator.execute.settings import Settings


@dataclass(frozen=True, slots=True)
class Source:
    """CUDA C of the user, and the name of its file."""

    name: str
    text: str

    @classmethod
    def read(cls, source: str | PathLike[str]) -> Source:
        """Return the source of a user's kernel.

        Args:
            source: CUDA C, or the path of a file with it.

        Raises:
            OperandTypeError: If ``source`` is neither a string nor a path.
            ConfigError: If the file cannot be read.
        """
        text, path = read_source(source)
        return cls(path.name if path else "kernel.cu", text)


@dataclass(frozen=True, slots=True)
class EpilogueMemory:
    """The memory that an epilogue reads.

    Attributes:
        arrays: The arrays that it reads.
        addresses: For each array, the address of the element that the epilogue reads first.
        scalars: Its scalar factors, as the bytes of the kernel arguments.
    """

    arrays: list[Placed]
    addresses: list[int]
    scalars: bytes


def lines_of(spec: KernelSpec) -> tuple[str, SourceMap]:
    """Return a kernel's CUDA C, and where each of its lines comes from."""
    if plain := spec.variant.plain:
        return plain.text, plain.places
    text = render(spec)
    return text, SourceMap.of(text, source_places(spec))


class ScheduledLaunch:
    """One launch of a product, its kernel compiled for the CPU.

    Args:
        entry: The launch in the product's schedule.
        source: CUDA C of the user. It replaces the kernel if it defines a kernel of the same name; None for no
            replacement.
        settings: Settings of the run.
        scan: Names of the arrays that hold both operands' scans, which are what kernels record about the operands'
            values, with the offsets of the scans there; empty for a kernel that neither writes nor reads them.

    Raises:
        ConfigError: If the kernel does not run on the target architecture, or has other parameters in ``source``.
        CompilationError: If the kernel does not compile for the CPU.
    """

    def __init__(
        self, entry: geometry.Launch, source: Source | None, settings: Settings, scan: Sequence[tuple[str, int]]
    ) -> None:
        self.entry, self.spec, self.settings, self.scan = entry, entry.spec, settings, scan
        self._given = source if source is not None and has_kernel(source.text, self.spec.symbol) else None
        if self._given:
            text, places = self._given.text, SourceMap.of_file(self._given.name, self._given.text)
        else:
            text, places = lines_of(self.spec)
            if (plain := self.spec.variant.plain) and (disassemble := settings.sass):
                whole = plain.source  # NVRTC compiles the text with other headers
                self.settings = replace(settings, sass=lambda text, name, target: disassemble(whole, name, target))
        target = find_compile_target(settings.target)
        if why := self.spec.why_not_on(target):
            raise ConfigError(why)
        if arch := self.spec.variant.hopper.arch:
            target = find_compile_target(arch)
        sms = settings.sms or REFERENCE_GPUS[target.name].sms
        #: Number of blocks along x, y and z.
        self.grid = entry.grid(max(sms // self.spec.config.blocks_per_cluster, 1))
        self._use(NativeKernel(text, places, self.spec.symbol, target, build=settings.built))
        if self._given:
            self._check_parameters(self._given.name)

    def filled(self, value: str) -> ScheduledLaunch | None:
        """Return a copy of this launch whose kernel gives a value to variables that may be read before they are set.

        Args:
            value: One of ``check.unset.VALUES``.

        Returns:
            The copy; None if the kernel has no such variables.
        """
        kernel = filled_kernel(self.kernel, unset_variables(self.kernel), value)
        if kernel is None:
            return None
        same = copy.copy(self)
        same._use(kernel)
        return same

    def _use(self, kernel: NativeKernel) -> None:
        self.kernel, self.kernel_findings = kernel, KernelFindings(kernel)

    @property
    def block(self) -> tuple[int, int, int]:
        """Number of threads per block along x, y and z."""
        x, y, z = (*self.spec.block, 1)[:3]
        return x, y, z

    def run(
        self, operands: list[Placed], pointers: list[int], scan: Sequence[tuple[Placed, int]], read: EpilogueMemory
    ) -> Outcome:
        """Run the kernel on the CPU, and return its findings, counts and events.

        Args:
            operands: The arrays that the kernel reads or writes; it writes the last one.
            pointers: For each of them, the address that is passed to the kernel.
            scan: The arrays that hold both operands' scans, with the offsets of the scans there; empty if the kernel
                has none.
            read: The memory that the epilogue reads.
        """
        reached = [each.operand(writable=each is operands[-1]) for each in operands]
        kernel_args = self.entry.kernel_args
        if (epilogue := self.spec.epilogue) is not None:
            reached += [each.operand(writable=False) for each in read.arrays if each is not operands[-1]]
            kernel_args = geometry.with_epilogue(kernel_args, epilogue, read.addresses, read.scalars)
        if scan:
            arrays = dict.fromkeys(array for array, _ in scan)
            reached += [each.operand(writable=self.spec.condition == "scan") for each in arrays]
            kernel_args = np.append(kernel_args, [each.begin + begin for each, begin in scan])
        arguments: list[Any] = [ctypes.c_void_p(each) for each in pointers]
        for i, (tensor_map, pointer) in enumerate(zip(self.entry.maps, pointers, strict=False)):
            arguments[i] = _encoded(tensor_map, pointer)
        return run_kernel(
            self.kernel,
            self.entry.arguments(arguments, kernel_args),
            reached,
            grid=self.grid,
            block=self.block,
            shared_bytes=self.spec.dynamic_shared_bytes,
            settings=self.settings,
        )

    def findings(self, outcomes: list[Outcome], placed: list[Placed]) -> list[Finding]:
        """Return the findings of this launch.

        Args:
            outcomes: Outcomes of the runs of the kernel; empty if it was not run.
            placed: The arrays of the product.

        Returns:
            Findings about what a GPU would not compile or launch, then the findings of the runs.
        """
        dynamic = self.spec.dynamic_shared_bytes
        refusals = beyond_limits(self.kernel, self.kernel_findings, self.block, dynamic) if outcomes else []
        found = self.kernel_findings.of(outcomes, placed, dynamic)
        return refusals + [each for each in found if each.kind != NOT_RETURNED]

    def _check_parameters(self, file: str) -> None:
        """Raise an error if the user's kernel has other parameters than the kernel that it replaces.

        Args:
            file: Name of the user's file, for the message.

        Raises:
            ConfigError: If the parameters differ.
        """
        own = self.kernel.parameters
        maps = len(self.entry.maps)
        pointers = len(self.entry.operands) - maps
        words = 8 * (len(self.entry.kernel_args) + len(self.entry.scan))
        fits = len(own) == maps + pointers + 1 and own[-1].bytes == words
        if not (
            fits
            and all(each.kind != POINTER and each.bytes == tensor_maps.BYTES for each in own[:maps])
            and all(each.kind == POINTER for each in own[maps:-1])
        ):
            first = f"{maps} tensor maps, " if maps else ""
            many = f"{pointers} pointers" if pointers > 1 else "a pointer"
            raise ConfigError(
                f"{file}: the parameters of {self.spec.symbol} must be {first}{many} and a structure of {words} "
                f"bytes; got ({', '.join(each.type for each in own)}). To run a kernel with other parameters, use "
                "simulator.launch"
            )


def _encoded(described: TensorMap, pointer: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return a tensor map of the matrices that begin at an address, as the simulator encodes it."""
    return aligned(
        tensor_maps.encode(
            pointer, described.type, described.sizes, described.strides, described.full_box, swizzle=SWIZZLE
        )
    )
