"""Resources that a kernel needs on a GPU, from NVRTC: registers, shared memory, spills, occupancy."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tiledmm.errors import CompilationError, ConfigError, MissingDependencyError
from tiledmm.hardware.architectures import Architecture
from tiledmm.hardware.occupancy import occupancy
from tiledmm.own_kernels.launch_rule import Geometry

if TYPE_CHECKING:
    from tiledmm.compile.inspection import Resources

# Headers that NVRTC finds if CUDA's headers are installed. It does not need the others, or they are the host's.
_CUDA_HEADERS = re.compile(
    r"cuda_fp16|cuda_bf16|cuda_fp8|mma\.h|cooperative_groups|cuda_pipeline|cuComplex|math_constants"
)
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]([^>\"]+)[>\"][^\n]*$", re.MULTILINE)

# Declarations of nvcc's C headers that NVRTC lacks, by name.
_PRELUDE = {
    **{
        name: f"typedef {kind} {name};"
        for name, kind in {
            "uint": "unsigned int", "ushort": "unsigned short", "ulong": "unsigned long",
            "int8_t": "signed char", "int16_t": "short", "int32_t": "int", "int64_t": "long long",
            "uint8_t": "unsigned char", "uint16_t": "unsigned short", "uint32_t": "unsigned int",
            "uint64_t": "unsigned long long",
        }.items()
    },
    "std": "namespace std {}",
}  # fmt: skip
_MACROS = {
    "assert(...)": "", "INT_MAX": "2147483647", "INT_MIN": "(-2147483647 - 1)", "FLT_MAX": "3.402823466e+38f",
    "FLT_MIN": "1.175494351e-38f", "INFINITY": "__int_as_float(0x7f800000)", "M_PI": "3.14159265358979323846",
    "NULL": "0", "CHAR_BIT": "8", "UINT_MAX": "0xffffffffu",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Compiled:
    """Resources of a kernel, as NVRTC and ptxas report them.

    Attributes:
        registers: 32-bit registers per thread.
        shared_bytes: Static and dynamic shared memory per block, in bytes.
        spill_bytes: Spill stores and loads per thread, in bytes.
        blocks: Resident blocks per SM.
        occupancy: Resident warps as a fraction of the maximum per SM.
        limited_by: Resource that limits the number of resident blocks.
    """

    registers: int
    shared_bytes: int
    spill_bytes: int
    blocks: int
    occupancy: float
    limited_by: str


def nvrtc_text(text: str) -> str:
    """Return CUDA C that NVRTC compiles: with the declarations that nvcc makes itself, and only CUDA's own headers.

    Lines keep their numbers, by a ``#line`` directive.

    Args:
        text: CUDA C, as the simulator compiles it.
    """
    headers: list[str] = []

    def include(found: re.Match[str]) -> str:
        if found[1] == "library_types.h":
            headers.extend(("cuda_fp16.h", "cuda_bf16.h", "cuComplex.h"))
        if _CUDA_HEADERS.search(found[1]):
            headers.append(found[1])
        return ""

    text = _INCLUDE.sub(include, text)
    words = set(re.findall(r"\w+", text))
    before = [f"#define {macro} {body}" for macro, body in _MACROS.items() if macro.partition("(")[0] in words]
    before += [each for name, each in _PRELUDE.items() if name in words]
    before += [f"#include <{header}>" for header in dict.fromkeys(headers)]
    return "\n".join([*before, *(["#line 1"] if before else []), text])


def resources_of(text: str, name: str, target: str) -> tuple[Resources | None, str]:
    """Compile a kernel with NVRTC, and return its resources; None and the reason if that is not possible.

    Args:
        text: CUDA C with this kernel only, as the simulator compiles it.
        name: Its name, with namespaces and template arguments.
        target: Target architecture.
    """
    from tiledmm.compile.inspection import compile_for

    source = nvrtc_text(text)
    try:
        return compile_for(source, name, target), ""
    except MissingDependencyError as error:
        return None, str(error)
    except (CompilationError, ConfigError) as error:
        header = re.search(r"^#include <(.+)>", source, re.MULTILINE)
        missing = f"NVRTC does not find <{header[1]}>" if header and "cannot open" in str(error) else ""
        lines = [line for line in str(error).splitlines() if line]
        return None, missing or f"NVRTC does not compile it: {lines[1] if len(lines) > 1 else lines[0]}"


def compiled(resources: Resources, geometry: Geometry, architecture: Architecture) -> Compiled:
    """Return the resources and the occupancy of a launch.

    Args:
        resources: Resources of the kernel.
        geometry: Block and dynamic shared memory of the launch.
        architecture: The target.
    """
    x, y, z = geometry.block
    shared = resources.shared_bytes + geometry.shared_bytes
    resident = occupancy(architecture, x * y * z, resources.registers, shared)
    spilled = resources.spill_store_bytes + resources.spill_load_bytes
    return Compiled(resources.registers, shared, spilled, resident.blocks, resident.fraction, resident.limited_by)
