"""Compiler flags for a kernel in each of its builds, which differ in what the runtime can check."""

from __future__ import annotations

import re

from tiledmm.hardware.architectures import Architecture
from tiledmm.simulator.build.cxx import is_clang, machine_flags, version

# Flags for every kernel. Vector instructions would hide the width of its own accesses; NVRTC has no arrays of variable
# length.
KERNEL_FLAGS = (
    "-x", "c++", "-std=c++17", "-g1", "-fPIC", "-Werror=vla", "-fno-exceptions", "-fno-rtti",
    "-fvisibility=hidden", "-fno-strict-aliasing", "-ffp-contract=fast", "-fno-tree-vectorize", "-fno-math-errno",
    "-fno-stack-protector", "-fno-omit-frame-pointer",
)  # fmt: skip
#: GCC looks for garbage later, which takes it a tenth of its time otherwise.
GCC_MEMORY = ("--param", "ggc-min-expand=400", "--param", "ggc-min-heapsize=400000")

#: Builds of a kernel: without calls of the runtime; with a call at each access; the same with zeros instead of a
#: pattern in variables that are not set; with bytes around the variables of a thread that no access may touch; the same
#: with all variables in memory; and that with zeros in variables that are not set.
BUILDS = ("bare", "checked", "zeroed", "guarded", "unoptimized", "unoptimized zeroed")

#: What each byte of a variable is that is not set, except in builds with zeros.
PATTERN = 0xFE

#: Builds that mark the bytes around variables.
GUARDED_BUILDS = ("guarded", "unoptimized", "unoptimized zeroed")

#: Most bytes of a function's variables: 512 KiB of local memory, and what the CPU's registers and instrumentation add.
MOST_FRAME = (512 + 1) * 1024

#: Where the marks of such bytes begin (``native/guards.h``).
SHADOW_OFFSET = 1 << 44


def target_macros(target: Architecture) -> list[str]:
    """Return the options that define the macros of a target architecture, as its compiler defines them."""
    major, minor = target.capability
    arch = major * 100 + minor * 10
    macros = [f"-D__CUDA_ARCH__={arch}", f"-D__CUDA_ARCH_LIST__={arch}"]
    if target.features:
        macros.append(f"-D__CUDA_ARCH_FAMILY_SPECIFIC__={arch}")
    if target.features == "a":
        macros += [f"-D__CUDA_ARCH_FEAT_SM{arch // 10}_ALL=1", f"-D__CUDA_ARCH_SPECIFIC__={arch}"]
    return macros


def build_flags(command: tuple[str, ...], symbol: str, target: Architecture, build: str) -> list[str]:
    """Return the compiler flags for a kernel in one of its builds.

    Args:
        command: Command of the compiler.
        symbol: Name of the kernel, with its template arguments.
        target: The target architecture.
        build: One of ``BUILDS``.
    """
    flags = [*KERNEL_FLAGS, *machine_flags(), *_warnings(command), *target_macros(target)]
    flags += ["-DTILEDMM_SIMULATOR=1", f"-DTILEDMM_KERNEL={symbol}", f"-DTILEDMM_INSTRUMENTED={int(build != 'bare')}"]
    flags.append(f"-DTILEDMM_UNSET={0 if build.endswith('zeroed') else PATTERN:#x}")
    # Optimizers split structures; accesses are to be seen where the source has them.
    if build in ("bare", "checked"):
        flags += [
            f"-Wframe-larger-than={MOST_FRAME}",
            f"-Werror=frame-larger-than{'' if is_clang(command) else f'={MOST_FRAME}'}",
        ]
    if build == "bare":
        return [*flags, "-O2"]
    return [*flags, "-O0" if build.startswith("unoptimized") else "-Og", *_instrumentation(command, build)]


def _instrumentation(command: tuple[str, ...], build: str) -> list[str]:
    """Return the compiler flags that make a kernel call the simulator's runtime at each memory access.

    They also check for undefined behaviour, and fill variables that are not initialized.

    Args:
        command: Command of the compiler.
        build: One of ``BUILDS``, except ``"bare"``.
    """
    clang = is_clang(command)
    fills, zeroed = clang or _gcc_release(command) >= 12, build.endswith("zeroed")
    fill = [f"-ftrivial-auto-var-init={'zero' if zeroed else 'pattern'}"] if fills else []
    older = re.search(r"clang version (\d|1[0-5])\.", version(command))
    if clang and zeroed and older:
        fill.append("-enable-trivial-auto-var-init-zero-knowing-it-will-be-removed-from-clang")
    if build in GUARDED_BUILDS:
        accesses = ["-fsanitize=kernel-address"]
        options = ["asan-stack=1", "asan-globals=0", "asan-instrumentation-with-call-threshold=0"]
        offset = "asan-mapping-offset" if clang else "asan-shadow-offset"
        if clang:
            accesses += [
                word for option in [*options, f"{offset}={SHADOW_OFFSET:#x}"] for word in ("-mllvm", f"-{option}")
            ]
        else:
            accesses += [
                *(word for option in options for word in ("--param", option)),
                f"-f{offset}={SHADOW_OFFSET:#x}",
            ]
    elif clang:
        accesses = [
            "-fsanitize=thread", "-mllvm", "-tsan-instrument-func-entry-exit=0",
            "-mllvm", "-tsan-instrument-read-before-write=1", "-mllvm", "-tsan-distinguish-volatile=1",
        ]  # fmt: skip
    else:
        accesses = [
            "-fsanitize=thread", "--param", "tsan-instrument-func-entry-exit=0",
            "--param", "tsan-distinguish-volatile=1",
        ]  # fmt: skip
    kinds = ("array-bounds" if clang else "bounds", "integer-divide-by-zero", "shift-exponent", "float-cast-overflow")
    undefined = [f"-fsanitize={','.join(kinds)}"]
    none = ["-fno-sanitize=undefined"] if clang else []  # Zig enables all of -fsanitize=undefined
    return [*none, *accesses, *undefined, "-fno-sanitize-recover=all", *fill]


def _warnings(command: tuple[str, ...]) -> list[str]:
    # GCC accesses an extern thread_local through a function that would run its constructor; shared arrays have none.
    # And it takes a shared variable that nothing writes for zero, and one that nothing reads out: bugs to be found.
    if is_clang(command):
        return ["-fno-addrsig"]  # a table that names the marks of flops.py, which nothing defines
    # A new that returns null is seen: on a GPU it does when the heap is used up.
    more = ["-fno-ipa-reference-addressable"] if _gcc_release(command) >= 10 else []
    return ["-fno-extern-tls-init", "-fcheck-new", *more, *GCC_MEMORY]


def _gcc_release(command: tuple[str, ...]) -> int:
    found = re.search(r"\) (\d+)\.", version(command))
    return int(found[1]) if found else 0
