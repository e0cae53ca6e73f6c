"""Rendering of a ``KernelSpec`` to CUDA C, which needs no GPU and no CuPy.

The values that templates receive are checked: they are integers, and names from closed sets. No text from a caller
becomes part of the source.
"""

from __future__ import annotations

import contextlib
import functools
import re
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import jinja2

from tiledmm import __version__
from tiledmm.codegen.template_files import template_folder
from tiledmm.codegen.tree_shaking import BEGIN, END, shake
from tiledmm.errors import ConfigError
from tiledmm.kernels.config import TRIANGLE_GROUP
from tiledmm.kernels.operands.moduli import tables
from tiledmm.kernels.spec import ORDERS, KernelSpec
from tiledmm.kernels.variant import UserTemplate, Variant

if TYPE_CHECKING:
    from jinja2.ext import Extension

# A rendered kernel is one file: the headers, then the kernel's own page, which begins with its parameters.
_PAGE = re.compile(r"^#define KERNEL\b", re.MULTILINE)

# CUDA C has these characters, too: in initializers such as {{1, 2}, {3, 4}}, and in comments.
_OF_JINJA = "'{{', '{%', '{#' and '//%' are Jinja syntax: in CUDA C, write '{ {', '{ %', '{ #' and '// %' instead"


def render(spec: KernelSpec) -> str:
    """Return the CUDA C of a kernel, which compiles by itself, without includes or macros from outside.

    Raises:
        ConfigError: If a user's template has an error. The message names its line.
    """
    if plain := spec.variant.plain:
        return plain.source
    return shake(fill(spec))


def page_of(text: str) -> str:
    """Return a rendered kernel's own part of its CUDA C, without the headers before it."""
    begin = _PAGE.search(text)
    return text[begin.start() :] if begin else text


def has_kernel(text: str, symbol: str) -> bool:
    """Return whether CUDA C text defines a kernel named ``symbol``.

    The kernel's name may also be ``KERNEL``, if the text defines this macro as ``symbol``; the macro's definition
    alone does not count. The declaration is not parsed, because macros of the user may declare the kernel: the text
    must contain ``__global__`` and the name outside comments.
    """
    code = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    others, defined = re.subn(rf"#define\s+KERNEL\s+{symbol}\b", "", code)
    names = f"{symbol}|KERNEL" if defined else symbol
    return "__global__" in others and re.search(rf"\b(?:{names})\b", others) is not None


def fill(spec: KernelSpec, *extensions: type[Extension]) -> str:
    """Return a kernel's template filled with the kernel's parameters, before unused definitions are removed.

    Args:
        spec: The kernel.
        *extensions: Jinja extensions, which may change the template.
    """
    numbers = asdict(spec.config)
    del numbers["launch"]
    unused = [name for name, without in (("moduli", 0), ("cluster_k", 1)) if numbers[name] == without]
    with _errors_named(spec.variant):
        return (
            _environment(spec.variant if spec.variant.user else None, extensions)
            .get_template(str(spec.variant.template))
            .render(
                numbers,
                symbol=spec.symbol,
                version=__version__,
                template=spec.variant.template,
                parameters=" ".join(
                    f"{name}={value}" for name, value in numbers.items() if value != "" and name not in unused
                ),
                a_type=spec.a.c_type,
                b_type=spec.b.c_type,
                c_type=spec.c.c_type,
                compute_type=spec.compute.c_type,
                result_type=spec.compute.result_name,
                order_a=ORDERS[spec.layout[0]],
                order_b=ORDERS[spec.layout[1]],
                plain=spec.a == spec.b == spec.c == spec.compute.stored
                and spec.compute.is_summed_as_it_is
                and spec.epilogue is None,
                condition=spec.condition,
                waits=spec.waits,
                threads=spec.config.threads,
                limbs=spec.limbs,
                products=spec.products,
                parts=spec.compute.components,
                c_parts=spec.c.components,
                residues=spec.has_residue_scan,
                tf32=spec.is_tf32,
                triangle_group=TRIANGLE_GROUP,
                epilogue=spec.epilogue,
                conjugates=spec.conjugates,
                hermitian=spec.hermitian,
                is_integer="int" in spec.compute.result.dtype_name,
                **(tables(spec.config.moduli) if spec.config.moduli else {}),
            )
        )


@contextlib.contextmanager
def _errors_named(variant: Variant) -> Iterator[None]:
    """Return a context manager that replaces errors of a user's template by ones that name the template's line.

    They become a ConfigError, because expressions in a template may raise any exception. Errors of this package's
    templates are not changed.
    """
    try:
        yield
    except Exception as error:
        if variant.user is None:
            raise
        places = [
            f"{Path(frame.f_code.co_filename).name}:{line}"
            for frame, line in traceback.walk_tb(error.__traceback__)
            if "__jinja_exception__" in frame.f_globals  # a frame that Jinja added for a line of a template
        ] or [str(variant.template)]
        # For a template that includes itself, the outermost line: the depth at which Python stops differs between runs.
        place = places[0 if isinstance(error, RecursionError) else -1]
        raise ConfigError(f"{place}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    if isinstance(error, jinja2.TemplateSyntaxError):
        return f"{error.message} ({_OF_JINJA})"
    if isinstance(error, jinja2.UndefinedError):
        return f"{error.message}; cuda_src/preamble.cuh.j2 lists the names that exist ({_OF_JINJA})"
    if isinstance(error, jinja2.TemplateNotFound):
        return f"cannot include {error.name!r}: it is neither in the template's folder nor in cuda_src/"
    if isinstance(error, RecursionError):
        return "infinite recursion: the file included here, or the macro called here, includes or calls itself"
    return f"{type(error).__name__}: {error}"


class _Headers(jinja2.FileSystemLoader):
    """Loader of templates that marks the package's headers, so that tree shaking finds their definitions."""

    def get_source(self, environment: jinja2.Environment, template: str) -> tuple[str, str, Callable[[], bool]]:
        text, path, is_current = super().get_source(environment, template)
        if ".cuh" in template and template != "preamble.cuh.j2":
            text = f"{BEGIN}\n{text}{END}\n"
        return text, path, is_current


@functools.lru_cache(maxsize=32)
def _environment(registered: Variant | None, extensions: tuple[type[Extension], ...] = ()) -> jinja2.Environment:
    """Return the Jinja environment for the package's templates, or for a user's template.

    For a user's template, it also finds the files in the template's folder.

    Args:
        registered: The user's variant; None for the package's templates.
        extensions: Jinja extensions.
    """
    shipped = _Headers(template_folder())
    own: list[jinja2.BaseLoader] = []
    if registered is not None and isinstance(user := registered.user, UserTemplate):
        text = user.text, str(Path(user.folder, str(registered.template))), None
        own = [
            jinja2.FunctionLoader(lambda name: text if name == registered.template else None),
            jinja2.FileSystemLoader(user.folder, encoding="utf-8-sig"),
        ]
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader([*own, shipped]),
        extensions=extensions,
        line_statement_prefix="//%",
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
