"""The kernels of a program that are checked, with the arguments of their templates and their launches."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tiledmm.errors import ConfigError
from tiledmm.hardware.architectures import find_target
from tiledmm.simulator.build.compile_options import CompileOptions
from tiledmm.simulator.build.program.kernel_declaration import KernelDeclaration
from tiledmm.simulator.build.program.launch_site import LaunchSite
from tiledmm.simulator.build.program.program import Program
from tiledmm.simulator.build.program.tokens import split, text_of

# Words of the names of C++'s and CUDA's types.
_TYPE = re.compile(
    r"(unsigned|signed|int|float|double|char|short|long|bool|const|half2?|__half2?|(?:__)?nv_bfloat16|u?int\d+_t|size_t|"
    r"(?:char|short|int|uint|float|double)[234])\Z"
)


@dataclass(frozen=True, slots=True)
class Chosen:
    """A kernel to check.

    Attributes:
        declaration: The kernel.
        name: Its name, with template arguments.
        site: The launch in the host code with which it is checked; None if there is none.
    """

    declaration: KernelDeclaration
    name: str
    site: LaunchSite | None


def template_arguments(program: Program, chosen: Chosen) -> dict[str, str]:
    """Return the arguments of a kernel's template by the names of its parameters; empty if it is not a template."""
    template, tokens = chosen.declaration.item.template, program.tokens
    if not template or "<" not in chosen.name:
        return {}
    names = [text_of(tokens[a:b]).partition("=")[0].split()[-1] for a, b in split(tokens, *template, angles=True)]
    arguments = chosen.name.partition("<")[2].rstrip(">").split(",")
    return {name: each.strip() for name, each in zip(names, arguments, strict=False)}


def read_program(
    source: str | Path, define: Mapping[str, str | int] | Sequence[str], include: Sequence[str | Path], target: str
) -> Program:
    """Read a program with macros and folders of headers, as ``check`` and ``register`` accept them.

    Args:
        source: Path of the file, or CUDA C.
        define: Macros: ``{"N": 64}`` or ``["N=64"]``. They replace definitions in the file.
        include: Folders of headers.
        target: The target architecture.

    Raises:
        ConfigError: If the file or a header cannot be read.
        CompilationError: If the preprocessor rejects the program.
    """
    macros = [f"{name}={value}" for name, value in define.items()] if isinstance(define, Mapping) else list(define)
    options = CompileOptions.of((*(f"-D{each}" for each in macros), *(f"-I{each}" for each in include)))
    redefined = {name: value or "1" for name, _, value in (each.partition("=") for each in macros)}
    return Program.read(source, options=options, target=find_target(target), redefined=redefined)


def chosen_kernels(program: Program, name: str | None) -> list[Chosen]:
    """Return the kernels to check: the named one, or all that the program defines.

    Raises:
        ConfigError: If there is no such kernel, or the arguments of its template are unknown.
    """
    declarations = [program.find_kernel(name)] if name else list(program.kernels)
    if not declarations:
        raise ConfigError(f"{program.file} has no kernel: a kernel is a __global__ function that returns void")
    return [_chosen(program, each, name) for each in declarations]


def _chosen(program: Program, declaration: KernelDeclaration, name: str | None) -> Chosen:
    sites = [each for each in program.host.launches if each.kernel == declaration.short_name]
    sites.sort(key=program.host.is_skipped)
    if not declaration.template:
        return Chosen(declaration, declaration.name, sites[0] if sites else None)
    if name and "<" in name:
        wanted = re.sub(r"\s", "", name.partition("<")[2])
        same = [each for each in sites if _template(program, declaration, each) == f"<{wanted}"]
        return Chosen(declaration, name, next(iter([*same, *sites]), None))
    for site in (*sites, None):
        if arguments := _template(program, declaration, site):
            return Chosen(declaration, declaration.name + arguments, site)
    raise ConfigError(
        f"{declaration.location}: {declaration.name} is a template <{', '.join(declaration.template)}> that nothing "
        f"instantiates: pass its arguments, as in '{declaration.name}<{_example(declaration)}>'"
    )


def _template(program: Program, declaration: KernelDeclaration, site: LaunchSite | None) -> str:
    """Return the template arguments of a kernel at a launch; an empty string if they are unknown."""
    given = list(site.template) if site else []
    found: list[str] = []
    for at, parameter in enumerate(declaration.template):
        is_type = parameter.startswith(("typename", "class"))
        default = parameter.partition("=")[2].strip()
        if at < len(given) and site:
            value = None if is_type else program.host.value(given[at], site.at)
            text = program.host.text(given[at]) if value is None else str(value)
            if is_type and not _is_type(program, text):
                # A parameter of a template around the launch, or a library's alias: any type serves, such as float.
                text = program.host.template_argument(text, site.at) or "float"
            found.append(text)
        elif default:
            found.append(default)
        elif is_type:
            found.append("float")
        else:
            return ""
    return f"<{','.join(found)}>"


def _is_type(program: Program, text: str) -> bool:
    """Return whether a name is a type of C++ or CUDA, or one that the program defines."""
    words = set(re.findall(r"[A-Za-z_]\w*", text))
    own = {name for item in program.items if item.kind != "function" for name in item.declares}
    return all(_TYPE.match(word) or word in own for word in words)


def _example(declaration: KernelDeclaration) -> str:
    return ", ".join("float" if each.startswith(("typename", "class")) else "16" for each in declaration.template)
