"""A CUDA program: its kernels, and the text of each one without host code."""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tiledmm.errors import CompilationError, ConfigError
from tiledmm.hardware.architectures import Architecture, find_compile_target
from tiledmm.simulator.build.compile_options import CompileOptions
from tiledmm.simulator.build.program.expressions import Expression
from tiledmm.simulator.build.program.host_code import device_text, host_function, may_call_the_host, reached
from tiledmm.simulator.build.program.items import FUNCTION, Item, items_of
from tiledmm.simulator.build.program.kernel_declaration import KernelDeclaration, parameter_of
from tiledmm.simulator.build.program.launches import HostCode
from tiledmm.simulator.build.program.preprocessor import Preprocessed, known_headers, preprocess
from tiledmm.simulator.build.program.tokens import Token, split, text_of, tokens_of
from tiledmm.simulator.build.source_map import SourceMap
from tiledmm.simulator.build.source_text import read_source
from tiledmm.simulator.build.translation.refusal_tables import INCLUDES, OF_A_PAGE
from tiledmm.simulator.build.translation.syntax import is_page_alone, kernels_in, short_name, without_comments

_HOST = re.compile(r"<<<|\bmain\s*\(|\bcuda(?:Malloc|Memcpy|Free|DeviceSynchronize|Event|Launch)\w*\b|\bstd::string\b")


class Program:
    """A CUDA program, as it is written: kernels, headers and host code.

    Args:
        text: CUDA C.
        file: Name of its file in messages.
        folder: Folder in which ``#include "x.cuh"`` is looked for; None if the text is in no file.
        options: Compile options: macros and folders of headers.
        target: The target architecture, unless the options name one.
        redefined: Values that replace those of the text's own macros and constants, by name.

    Attributes:
        target: The target architecture.
        is_changed: Whether constants have other values than in the text.
        written: The text with its headers inserted.
        written_places: File and line of each line of ``written``.

    Raises:
        ConfigError: If a header cannot be read, or an option is not known.
        CompilationError: If the preprocessor refuses the text.
    """

    def __init__(
        self,
        text: str,
        file: str,
        folder: Path | None = None,
        *,
        options: CompileOptions | None = None,
        target: Architecture,
        redefined: Mapping[str, str] | None = None,
    ) -> None:
        options = options or CompileOptions()
        self.file, self.is_changed = file, False
        self.target = find_compile_target(options.target) if options.target else target
        self.written, self.written_places = options.text(text, file, folder)
        for name, value in (redefined or {}).items():
            self.written = _constant(name).sub(rf"\g<1>{value}", self.written)

    @classmethod
    def read(
        cls,
        source: str | Path,
        *,
        options: CompileOptions | None = None,
        target: Architecture,
        redefined: Mapping[str, str] | None = None,
    ) -> Program:
        """Read a program.

        Args:
            source: CUDA C, or the path of a file with it.
            options, target, redefined: As for ``Program``.

        Raises:
            OperandTypeError: If ``source`` is neither a string nor a path.
            ConfigError: If the file cannot be read.
        """
        text, path = read_source(source)
        file, folder = (path.name, path.parent) if path else ("kernel.cu", None)
        return cls(text, file, folder, options=options, target=target, redefined=redefined)

    def with_constants(self, redefined: Mapping[str, str]) -> Program:
        """Return the same program with other values of its own macros and constants."""
        other = copy.copy(self)
        for name in ("preprocessed", "tokens", "items", "kernels", "host", "constants", "_is_device_code"):
            other.__dict__.pop(name, None)
        other.is_changed = True
        for name, value in redefined.items():
            other.written = _constant(name).sub(rf"\g<1>{value}", other.written)
        return other

    @functools.cached_property
    def host(self) -> HostCode:
        """The program's host code, with its launches."""
        return HostCode(self.tokens, self.items)

    @functools.cached_property
    def constants(self) -> dict[str, int]:
        """Macros and constants that are defined as integers, by name: those that ``redefined`` may replace."""
        found: dict[str, int] = {}
        for match in _constant(r"\w+").finditer(self.written):
            tokens = tokens_of(match[2])
            value = Expression(tokens, 0, len(tokens), lambda _name: None, lambda _name, _values: None).value()
            if isinstance(value, int):
                found[re.findall(r"\w+", match[1])[-1]] = value
        return found

    @functools.cached_property
    def preprocessed(self) -> Preprocessed:
        """The program after the preprocessor."""
        return preprocess(self.written, self.written_places, self.target)

    @functools.cached_property
    def tokens(self) -> list[Token]:
        """Tokens of the preprocessed program."""
        return tokens_of(self.preprocessed.text)

    @functools.cached_property
    def items(self) -> list[Item]:
        """Declarations of the preprocessed program."""
        return items_of(self.tokens)

    @functools.cached_property
    def kernels(self) -> tuple[KernelDeclaration, ...]:
        """The kernels that the program defines, or declares only, in order; a template once per explicit instance."""
        functions = [item for item in self.items if item.is_kernel and not _is_instance(self.tokens, item)]
        defined = [item for item in functions if item.body]
        found: list[KernelDeclaration] = []
        for item in defined or functions:
            instances = [
                each.arguments
                for each in self.items
                if each.name == item.name and each.arguments and item.template and _is_instance(self.tokens, each)
            ]
            if item.arguments:  # a specialization
                instances = [item.arguments]
            found += [self._kernel(item, each) for each in dict.fromkeys(instances)] or [self._kernel(item, "")]
        return tuple(dict((each.name + str(each.parameters), each) for each in found).values())

    def find_kernel(self, name: str | None) -> KernelDeclaration:
        """Return the kernel of a name, which may lack namespaces; None names the only one.

        Raises:
            ConfigError: If there is no such kernel, or several.
        """
        kernels = self.kernels
        names = ", ".join(dict.fromkeys(each.name for each in kernels))
        if name is None:
            if len(kernels) != 1:
                if not kernels:
                    raise ConfigError(f"{self.file} has no kernel, which is a function with __global__ void before it")
                raise ConfigError(f"{self.file} has {len(kernels)} kernels: set name to one of {names}")
            return kernels[0]
        wanted = re.sub(r"\s+", "", name)
        arguments = "<" in name
        for rule in (
            lambda each: re.sub(r"\s+", "", each.name) == wanted,
            lambda each: re.sub(r"\s+", "", each.name.rpartition("::")[2] if not arguments else each.name) == wanted,
            lambda each: each.name.partition("<")[0] == wanted.partition("<")[0],
            lambda each: each.short_name == short_name(wanted),
        ):
            if matching := [each for each in kernels if rule(each)]:
                return matching[0]
        raise ConfigError(f"{self.file} has no kernel {name!r}; its kernels are {names or 'none'}")

    def kernel_text(self, name: str | None) -> tuple[str, SourceMap, str]:
        """Return the text of a kernel without the program's other code, a map of its lines, and the kernel's full name.

        Device code that stands alone is returned as it is.

        Args:
            name: The kernel's name, with its template arguments; None if the program has only one kernel.

        Raises:
            ConfigError: If the program has no such kernel, or several for None.
            CompilationError: If the preprocessor refuses the program.
        """
        if self._is_device_code:
            known = kernels_in(self.written)
            if (name is None and len(known) == 1) or (name is not None and short_name(name) in known):
                symbol = name or known[0]
                if may_call_the_host(self.written):
                    self._refuse_calls_of_the_host(symbol)
                if "<" in symbol:  # a template, whose namespace the name may lack
                    symbol = self._symbol(self.find_kernel(name), name)
                return self.written, self.written_places, symbol
        kernel = self.find_kernel(name)
        return self.device_text(kernel), self.preprocessed.places, self._symbol(kernel, name)

    def _refuse_calls_of_the_host(self, symbol: str) -> None:
        """Raise an error if a kernel, or a function that it may call, names a function without ``__device__``."""
        for kernel in self.kernels:
            if kernel.short_name == short_name(symbol) and (
                host := host_function(self.tokens, self.items, kernel.item)
            ):
                where = self.location(host)
                raise CompilationError(f"{where}: {host.name} is a host function: write __device__ before it")

    def _symbol(self, kernel: KernelDeclaration, name: str | None) -> str:
        """Return the name of a kernel with its namespaces, and with the template arguments that a name has."""
        scope = "::".join(part for part in kernel.item.scope if part)
        symbol = name if name and "<" in name else kernel.name
        return f"{scope}::{symbol}" if scope and "::" not in symbol.partition("<")[0] else symbol

    def device_text(self, kernel: KernelDeclaration) -> str:
        """Return the preprocessed text of a kernel, with what it names, and blanks instead of the rest."""
        return device_text(self.preprocessed.text, self.tokens, self.items, kernel.item)

    def device_functions(self, kernel: KernelDeclaration) -> list[Item]:
        """Return the declarations of a kernel and of the functions that it may call, in the order of the text."""
        kept = reached(self.tokens, self.items, kernel.item)
        return [item for item in self.items if item in kept and item.kind == FUNCTION and item.body]

    def hint(self, error: CompilationError) -> CompilationError:
        """Return an error of the compiler that also names what may be missing: host functions and headers left out.

        A rendered kernel without its headers is recognized.
        """
        said = str(error)
        if is_page_alone(self.written):
            return CompilationError(re.sub(r"(\w+) is undefined\b.*", rf"\1 {OF_A_PAGE}", said, count=1))
        undefined = re.findall(r"(\w+) is undefined", said)
        hosts = {item.name: item for item in self.items if item.is_host and item.name} if undefined else {}
        for name in undefined:
            if name in hosts:
                place = self.location(hosts[name])
                said += f"\n{name} is a host function ({place}): write __device__ before it"
        if undefined or "does not support" in said or "is not a" in said:
            for quoted, place in self.preprocessed.left_out.items():
                reasons = (reason for pattern, reason in INCLUDES if pattern.fullmatch(quoted[1:-1]))
                reason = next(reasons, "there is no such file beside the program or in the folders of -I")
                said += f"\n{place}: #include {quoted} is left out: {reason}"
        return CompilationError(said) if said != str(error) else error

    def location(self, item: Item) -> str:
        """Return the file and line of a declaration."""
        return self.preprocessed.places.location(self._line(item))

    @functools.cached_property
    def _is_device_code(self) -> bool:
        """Whether the text has nothing that must be resolved or set aside before it compiles."""
        plain = without_comments(self.written)
        headers = re.findall(r"^[ \t]*#[ \t]*include[ \t]*[<\"]([^>\"]+)", plain, re.MULTILINE)
        return not _HOST.search(plain) and all(each in known_headers() for each in headers)

    def _line(self, item: Item) -> int:
        # The name is what people look for: templates and attributes may be on lines before it.
        at = max(item.begin, item.parameters[0] - 2)
        return self.preprocessed.text.count("\n", 0, self.tokens[at].begin) + 1

    def _kernel(self, item: Item, arguments: str) -> KernelDeclaration:
        line = self._line(item)
        template = () if arguments or not item.template else tuple(
            text_of(self.tokens[a:b]) for a, b in split(self.tokens, *item.template, angles=True)
        )  # fmt: skip
        name = "::".join([*(part for part in item.scope if part), item.name]) + arguments
        parameters = tuple(parameter_of(self.tokens[a:b]) for a, b in split(self.tokens, *item.parameters, angles=True))
        parameters = () if parameters == (("void", ""),) else parameters
        return KernelDeclaration(name, template, parameters, line, self.preprocessed.places.location(line), item)


def _constant(name: str) -> re.Pattern[str]:
    """Return a pattern of ``#define N 1024`` and ``const int N = 1 << 10``: what is before the value, and the value."""
    types = r"(?:unsigned|signed|long|short|int|size_t|auto|u?int(?:32|64)_t)"
    return re.compile(
        rf"(^[ \t]*#[ \t]*define[ \t]+{name}[ \t]+|\bconst(?:expr)?\s+(?:static\s+)?(?:{types}\s+)+{name}\s*=\s*)"
        r"(\(?\d[\d ()*+<-]*)(?=\s*(?:;|,|$|//|/\*))",
        re.MULTILINE,
    )


def _is_instance(tokens: Sequence[Token], item: Item) -> bool:
    """Return whether a declaration is an explicit instantiation: ``template __global__ void k<float>(float*);``."""
    return tokens[item.begin].text == "template" and tokens[item.begin + 1].text != "<"
