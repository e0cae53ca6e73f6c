"""Settings of a kernel's run on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Real

import numpy as np

from tiledmm.errors import ConfigError
from tiledmm.simulator.build.kernel_flags import GUARDED_BUILDS
from tiledmm.simulator.build.machine_code import Disassembler
from tiledmm.simulator.execute.interface import ORDERS


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a kernel's run on the CPU.

    Attributes:
        checks: Whether every access is checked; ``"full"`` also runs the kernel in other builds.
        counts: Whether traffic is counted.
        sass: The disassembler, if traffic is also counted as in the machine code (SASS); None if it is not.
        order: The order in which threads run between two barriers: ``"forward"``, ``"reverse"`` or ``"random"``; or
            ``"preemptive"``, in which threads also let others run before atomics, volatile accesses, fences and
            barriers, and up to six blocks run in turn.
        seed: Seed of the orders ``"random"`` and ``"preemptive"``.
        target: The target architecture: ``"sm_75"``, say, has no cp.async.
        workers: Number of CPU cores to use; None for all.
        progress: Function that is called from time to time with the number of finished blocks and of all blocks.
        chosen: Numbers of the blocks that run; None for all blocks of the grid.
        traced_block: Number of the block whose accesses are recorded one by one; None for no block.
        traced_arithmetic: Whether its floating-point operations are also recorded.
        max_steps: Maximum number of accesses of a thread; a thread that makes more is ended with a finding. 0 for no
            limit.
        build: The kernel's build, one of ``kernel_flags.BUILDS``; None for the build that checks and counts need.
        shared_fill: What each byte of shared memory is when a block begins; None for what the block before it left.
        timeout: Seconds after which a launch ends with a finding; None for no limit.
        clock_rate: Ticks of the kernel's clock per access to memory, in units of the usual number.
        cooperative: Whether all blocks of a grid are resident, so that they can wait for each other. Then all run,
            whatever ``chosen`` says.
        undefined: Place in code of a shuffle, and what each byte of its undefined values is; None for NaN.
        sms: Number of SMs, of which each has at most one block of a persistent kernel of this package; None for those
            of the target's GPU.
    """

    checks: bool | str = True
    counts: bool = True
    sass: Disassembler | None = None
    order: str = "forward"
    seed: int = 0
    target: str = "sm_90"
    workers: int | None = None
    progress: Callable[[int, int], None] | None = None
    chosen: tuple[int, ...] | None = None
    traced_block: int | None = None
    traced_arithmetic: bool = False
    max_steps: int = 0
    timeout: float | None = None
    build: str | None = None
    clock_rate: int = 1
    shared_fill: int | None = None
    cooperative: bool = False
    undefined: tuple[int, int] | None = None
    sms: int | None = None

    def __post_init__(self) -> None:
        if self.checks not in (True, False, "full"):
            raise ConfigError(f'checks must be True, False or "full"; got {self.checks!r}')
        if self.order not in ORDERS:
            raise ConfigError(f"threads must be one of {', '.join(ORDERS)}; got {self.order!r}")
        whole = isinstance(self.workers, (int, np.integer)) and not isinstance(self.workers, bool)
        if self.workers is not None and not (whole and self.workers > 0):
            raise ConfigError(f"workers must be a positive integer, or None for all cores; got {self.workers!r}")
        if not isinstance(self.max_steps, (int, np.integer)) or self.max_steps < 0:
            raise ConfigError(f"max_steps must be a positive integer, or 0 for no limit; got {self.max_steps!r}")
        if self.timeout is not None and not (isinstance(self.timeout, Real) and self.timeout > 0):
            raise ConfigError(f"timeout must be a positive number of seconds, or None; got {self.timeout!r}")

    @property
    def built(self) -> str:
        """The kernel's build, one of ``kernel_flags.BUILDS``: ``build``, or else what checks and counts need."""
        sees = bool(self.checks) or self.counts or self.sass is not None or self.traced_block is not None
        return self.build or ("checked" if sees else "bare")

    def alone(self, build: str) -> Settings:
        """Return a copy of these settings for a run on one worker, without counts, of a kernel in the given build.

        The order ``"preemptive"``, which has several workers, becomes ``"forward"``.

        Args:
            build: One of ``kernel_flags.BUILDS``.
        """
        checks = build not in GUARDED_BUILDS
        order = "forward" if self.order == "preemptive" else self.order
        return replace(self, checks=checks, counts=False, sass=None, workers=1, progress=None, build=build, order=order)
