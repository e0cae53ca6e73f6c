"""Arguments of kernels: those that a user states, and those that the host code passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tiledmm.errors import ConfigError
from tiledmm.kernels.plain import SIZES
from tiledmm.own_kernels.argument_text import Argument, number
from tiledmm.own_kernels.expectation import element_type
from tiledmm.own_kernels.host_launch import HostLaunch
from tiledmm.own_kernels.matrix_values import small_numbers
from tiledmm.own_kernels.roles import Roles
from tiledmm.simulator.build.parameters import FLOAT, OTHER, POINTER, SIGNED, UNSIGNED, Parameter


def roles_of_arguments(arguments: Sequence[Argument], parameters: Sequence[Parameter]) -> Roles | None:
    """Return the roles of parameters according to the extents that a user states ([M,K] for A); None without these."""
    found: dict[str, int] = {}
    if len(arguments) != len(parameters):
        return None
    for at, each in enumerate(arguments):
        extents = tuple(sorted(part.strip() for part in each.value.split(","))) if each.dtype is not None else ()
        matrix = {("K", "M"): "A", ("K", "N"): "B", ("M", "N"): "C"}.get(extents)  # type: ignore[arg-type]
        if matrix and parameters[at].kind == POINTER:
            found[matrix] = at
    if len(found) != 3:
        return None
    sizes: dict[int, tuple[str, ...]] = {
        at: (each.value.strip(),)
        for at, each in enumerate(arguments)
        if each.dtype is None and each.value.strip() in SIZES
    }
    names = {each.name: at for at, each in enumerate(arguments) if each.dtype is None}
    rest = set(range(len(arguments))) - set(found.values()) - set(sizes) - {names.get("alpha"), names.get("beta")}
    if rest:
        return None
    return Roles(found["A"], found["B"], found["C"], sizes, {}, names.get("alpha"), names.get("beta"))


def check_structures(parameters: Sequence[Parameter]) -> None:
    """Raise ConfigError if a parameter is a structure whose members are unknown."""
    if structures := [f"{each.type} {each.name}" for each in parameters if each.kind == OTHER]:
        raise ConfigError(
            f"the kernel has structures as parameters ({', '.join(structures)}), whose members a check cannot fill: "
            "check a kernel with pointers and numbers as parameters"
        )


def given_arguments(
    arguments: Sequence[Argument], parameters: Sequence[Parameter], sizes: Mapping[str, int]
) -> list[Any]:
    """Return the arguments that a user states, at given sizes.

    Raises:
        ConfigError: If their number is not that of the kernel's parameters, or one is not a number.
    """
    if len(arguments) != len(parameters):
        wanted = ", ".join(f"{each.type} {each.name}" for each in parameters)
        raise ConfigError(f"--args has {len(arguments)} arguments, but the kernel has {len(parameters)}: {wanted}")
    known: dict[str, int | float] = dict(sizes)
    values: list[Any] = []
    for at, each in enumerate(arguments):
        if each.dtype is None:
            values.append(number(each.value, known))
            known[each.name or parameters[at].name] = values[-1]
        else:
            shape = tuple(int(number(part, known)) for part in each.value.split(","))
            values.append(small_numbers(shape, each.dtype, at))
    return values


def host_arguments(rule: HostLaunch, parameters: Sequence[Parameter]) -> list[Any]:
    """Return the arguments that the host code passes: arrays of the size that it allocates, and numbers.

    A floating-point number whose value is not in the file is 1.

    Raises:
        ConfigError: If the file does not determine one of them.
    """
    values: list[Any] = []
    missing: list[str] = []
    for at, parameter in enumerate(parameters[: len(rule.site.arguments)]):
        if parameter.kind == POINTER:
            size, dtype = rule.bytes_of(at, {}, parameter.element_bytes), element_type(parameter)
            if size and dtype is not None:
                values.append(small_numbers((size // dtype.itemsize,), dtype, at))
                continue
        elif parameter.kind in (SIGNED, UNSIGNED, FLOAT):
            value = rule.number(at)
            if value is not None:
                values.append(float(value) if parameter.kind == FLOAT else int(value))
                continue
            if parameter.kind == FLOAT:  # accesses do not depend on its value
                values.append(1.0)
                continue
        missing.append(f"{parameter.type} {parameter.name}")
    if missing or len(values) != len(parameters):
        raise ConfigError(f"the file does not determine the arguments for {', '.join(missing)}: pass --args")
    return values
