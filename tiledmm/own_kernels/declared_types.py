"""Types of a kernel's parameters, read from its text without a compiler."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tiledmm.errors import ConfigError
from tiledmm.own_kernels.chosen_kernel import Chosen, template_arguments
from tiledmm.own_kernels.roles import HALVES
from tiledmm.simulator.build.parameters import BOOL, FLOAT, OTHER, POINTER, SIGNED, UNSIGNED, Parameter
from tiledmm.simulator.build.program.program import Program

# Words of a type that do not affect its size.
_QUALIFIERS = frozenset(["const", "volatile", "__restrict__", "__restrict", "restrict", "struct", "typename"])

# Kind and bytes of C++'s and CUDA's types, by their words in alphabetical order.
_TYPES = {
    "bool": (BOOL, 1),
    "char": (SIGNED, 1), "char signed": (SIGNED, 1), "char unsigned": (UNSIGNED, 1),
    "short": (SIGNED, 2), "int short": (SIGNED, 2), "short unsigned": (UNSIGNED, 2), "ushort": (UNSIGNED, 2),
    "int": (SIGNED, 4), "signed": (SIGNED, 4), "int signed": (SIGNED, 4),
    "unsigned": (UNSIGNED, 4), "int unsigned": (UNSIGNED, 4), "uint": (UNSIGNED, 4),
    "long": (SIGNED, 8), "int long": (SIGNED, 8), "long long": (SIGNED, 8), "int long long": (SIGNED, 8),
    "long unsigned": (UNSIGNED, 8), "int long unsigned": (UNSIGNED, 8), "ulong": (UNSIGNED, 8),
    "long long unsigned": (UNSIGNED, 8), "int long long unsigned": (UNSIGNED, 8),
    "size_t": (UNSIGNED, 8), "ptrdiff_t": (SIGNED, 8), "ssize_t": (SIGNED, 8),
    "float": (FLOAT, 4), "double": (FLOAT, 8),
    **{f"int{bits}_t": (SIGNED, bits // 8) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}_t": (UNSIGNED, bits // 8) for bits in (8, 16, 32, 64)},
    **dict.fromkeys(HALVES, (OTHER, 2)),
    **dict.fromkeys(("__half2", "half2", "__nv_bfloat162", "nv_bfloat162"), (OTHER, 4)),
    "float2": (OTHER, 8), "float4": (OTHER, 16), "double2": (OTHER, 16), "int2": (OTHER, 8), "int4": (OTHER, 16),
    "cuComplex": (OTHER, 8), "cuFloatComplex": (OTHER, 8), "cuDoubleComplex": (OTHER, 16),
}  # fmt: skip


def declared_parameters(program: Program, chosen: Chosen) -> list[Parameter]:
    """Return a kernel's parameters from its declaration.

    Args:
        program: The program.
        chosen: The kernel.

    Raises:
        ConfigError: If the type of one is unknown.
    """
    declaration = chosen.declaration
    aliases = _aliases_of(program.device_text(declaration)) | template_arguments(program, chosen)
    found = []
    for at, (kind, name) in enumerate(declaration.parameters):
        parameter = _declared_parameter(kind, name or str(at), aliases)
        if parameter is None:
            raise ConfigError(
                f"{declaration.location}: {chosen.name} has a parameter {kind} {name}, which is neither a pointer to "
                "numbers nor a number: the parameters of a plain kernel are matrices, sizes, row strides, alpha, beta"
            )
        found.append(parameter)
    return found


def _declared_parameter(kind: str, name: str, aliases: Mapping[str, str]) -> Parameter | None:
    """Return a parameter from its declaration; None if its type is unknown.

    Args:
        kind: Its type as it is written.
        name: Its name.
        aliases: Types by the aliases that the program defines: ``{"T": "float"}``.
    """
    is_pointer = kind.endswith("*") or "(*)" in kind
    plain = kind.replace("(*)", " ").replace("*", " ").replace("&", " ")
    for _ in range(8):  # an alias of an alias
        words = [word for word in re.findall(r"[\w:]+", plain) if word not in _QUALIFIERS]
        if not any(word in aliases for word in words):
            break
        plain = " ".join(aliases.get(word, word) for word in words)
    found = _TYPES.get(" ".join(sorted(words)))
    if found is None or kind.count("*") > 1:
        return None
    element, size = found
    written = f"{'const ' if 'const' in kind.split() else ''}{' '.join(words)}{'*' if is_pointer else ''}"
    if not is_pointer:
        return Parameter(name, written, element, size, False, 0, 0, 0)
    return Parameter(name, written, POINTER, 8, "const" in re.findall(r"\w+", kind), element, size, size)


def _aliases_of(text: str) -> dict[str, str]:
    """Return the types for which a text defines aliases, by alias: ``using T = float;`` and ``typedef float T;``."""
    found = {name: kind.strip() for name, kind in re.findall(r"\busing\s+(\w+)\s*=\s*([^;]+);", text)}
    return found | {name: kind.strip() for kind, name in re.findall(r"\btypedef\s+([\w\s:]+?)\s+(\w+)\s*;", text)}
