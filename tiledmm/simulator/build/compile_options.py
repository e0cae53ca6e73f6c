"""Compile options of NVRTC, and CUDA C with the macros and headers that they name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tiledmm.errors import ConfigError, OperandTypeError
from tiledmm.simulator.build.source_map import SourceMap

_MACRO = re.compile(r"(?:-D|--define-macro=)\s*(?P<name>\w+(?:\([\w\s,.]*\))?)(?:=(?P<value>.*))?", re.DOTALL)
_UNDEFINED = re.compile(r"(?:-U|--undefine-macro=)\s*(?P<name>\w+)")
_FOLDER = re.compile(r"(?:-I|--include-path=)\s*(?P<path>.+)")
_ARCHITECTURE = re.compile(r"(?:-arch|--gpu-architecture)[=\s]\s*(?:sm|compute)_(?P<number>\d+[af]?)")

# Options of arithmetic, and the macros by which a text sees them. What they allow to be approximate may be exact, so
# sums and quotients stay as they are.
_ARITHMETIC = {"ftz": "__CUDA_FTZ", "prec-div": "__CUDA_PREC_DIV", "prec-sqrt": "__CUDA_PREC_SQRT"}
_ARITHMETIC_OPTION = re.compile(r"--?(?P<name>ftz|prec-div|prec-sqrt)=(?P<value>true|false)")
# Fast math calls the fast functions, which have smaller ranges.
_FAST_MATH = (
    "#undef __USE_FAST_MATH__", "#define __USE_FAST_MATH__ 1", "#undef __CUDA_FTZ", "#define __CUDA_FTZ 1",
    "#undef __CUDA_PREC_DIV", "#define __CUDA_PREC_DIV 0", "#undef __CUDA_PREC_SQRT", "#define __CUDA_PREC_SQRT 0",
    *(
        f"#define {name} __{name}"
        for name in ("sinf", "cosf", "tanf", "sincosf", "expf", "exp10f", "logf", "log2f", "log10f", "powf", "fdividef")
    ),
)  # fmt: skip

# What makes no difference to what a kernel computes here: language standards, optimization, debugging, diagnostics.
_WITHOUT_EFFECT = re.compile(
    r"""--?(?:
        std[=\s]\S+ | std\w*=\S+ | fmad=true |
        extra-device-vectorization | O\d | dopt(?:=on)? | Ofast-compile=\S+ | maxrregcount[=\s]\d+ |
        ptxas-options[=\s]\S+ | Xptxas[=\s]?\S* | restrict | lineinfo | generate-line-info | G |
        device-debug | g | resource-usage |
        default-device | device-as-default-execution-space | rdc=\w+ | relocatable-device-code=\w+ | ewp |
        extensible-whole-program | device-int128 | w | disable-warnings | (?:no-)?display-error-number |
        diag-(?:error|suppress|warn)=\S+ | builtin-[\w-]+=\w+ | no-source-include | split-compile=\d+ | minimal |
        no-cache | version-ident=\w+
    )""",
    re.VERBOSE,
)

# Options whose value may be the next entry.
_WITH_VALUE = frozenset({"-D", "-U", "-I", "-arch", "--gpu-architecture", "-std", "--std", "-Xptxas", "-maxrregcount"})

_INCLUDE = re.compile(r"\s*#\s*include\s*[<\"](?P<name>[^>\"]+)[>\"]")
# Folders of headers that a project's build files usually name, seen from the folder of its sources.
_USUAL = ("include", "inc", "../include", "../inc", "../common", "..", "../..")
_ONCE = re.compile(r"\s*#\s*pragma\s+once\b")


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """The compile options that have an effect on the simulator: macros, folders of headers, and the target.

    Attributes:
        macros: Lines of CUDA C that define or undefine macros, each with its option.
        folders: Folders in which headers are searched for.
        target: The target architecture; None if no option names one.
    """

    macros: tuple[tuple[str, str], ...] = ()
    folders: tuple[Path, ...] = ()
    target: str | None = None

    @classmethod
    def of(cls, options: Sequence[str]) -> CompileOptions:
        """Parse the options that CuPy would pass to NVRTC.

        Raises:
            OperandTypeError: If ``options`` is not a tuple of strings.
            ConfigError: If there is an option that the simulator does not know.
        """
        if not isinstance(options, tuple) or not all(isinstance(each, str) for each in options):
            raise OperandTypeError(f"options must be a tuple of strings, such as ('-DN=4',); got {options!r}")
        macros, folders, target = [], [], None
        for option in _joined(options):
            if found := _MACRO.fullmatch(option):
                value = "1" if found["value"] is None else found["value"]
                macros.append((f"#define {found['name']} {value}".replace("\n", " "), option))
            elif found := _UNDEFINED.fullmatch(option):
                macros.append((f"#undef {found['name']}", option))
            elif found := _FOLDER.fullmatch(option):
                folders.append(Path(found["path"]))
            elif re.fullmatch(r"--?use_fast_math", option):
                macros += [(line, option) for line in _FAST_MATH]
            elif found := _ARITHMETIC_OPTION.fullmatch(option):
                macro = _ARITHMETIC[found["name"]]
                macros += [(f"#undef {macro}", option), (f"#define {macro} {int(found['value'] == 'true')}", option)]
            elif found := _ARCHITECTURE.fullmatch(option):
                target = f"sm_{found['number']}"
            elif re.fullmatch(r"--?fmad=false", option):
                raise ConfigError(
                    f"the simulator fuses multiply-adds, as NVRTC does by default; leave out the option {option!r}"
                )
            elif not _WITHOUT_EFFECT.fullmatch(option):
                raise ConfigError(f"the simulator does not support the compile option {option!r}: leave it out")
        return cls(tuple(macros), tuple(folders), target)

    def text(self, code: str, file: str, folder: Path | None = None) -> tuple[str, SourceMap]:
        """Return CUDA C with the options' macros before it and its headers inserted.

        Args:
            code: CUDA C.
            file: Name of the code in messages.
            folder: The folder of its file, in which its headers are searched for first; None if it is in no file.

        Returns:
            The text, and a map from its lines to the files that they come from.
        """
        if not self.macros and not self.folders and folder is None:
            return code, SourceMap.of_file(file, code)
        lines = [(line, (f"option {option}", 1)) for line, option in self.macros]
        lines += self._with_headers(code, file, folder, [], set())
        text = "".join(f"{line}\n" for line, _ in lines)
        return text, SourceMap.of(text, (place for _, place in lines))

    def _with_headers(
        self, text: str, file: str, folder: Path | None, around: list[Path], once: set[Path]
    ) -> Iterator[tuple[str, tuple[str, int]]]:
        """Yield the lines of a text in which headers are inserted, each with its file and its line there.

        Args:
            text: The text.
            file: Name of its file.
            folder: The folder of its file; None if it is in no file.
            around: Headers that are being inserted, outermost first; they are not inserted again.
            once: Headers that have ``#pragma once``, and are not inserted again. Headers are added to it.

        Raises:
            ConfigError: If a header cannot be read.
        """
        for number, line in enumerate(text.splitlines(), 1):
            place = (file, number)
            include = _INCLUDE.match(line)
            header = self._find(include["name"], folder) if include else None
            if _ONCE.match(line):
                once.update(around[-1:])
                yield "", place
            elif header is None:
                yield line, place
            elif header in around or header in once:  # its guard would leave out all of it
                yield "", place
            else:
                try:
                    included = header.read_text(encoding="utf-8")
                except (OSError, UnicodeDecodeError) as error:
                    raise ConfigError(f"{str(header)!r} cannot be read: {error}") from None
                yield from self._with_headers(included, header.name, header.parent, [*around, header], once)

    def _find(self, name: str, folder: Path | None) -> Path | None:
        """Return the path of a header; None if it is in none of the folders.

        Args:
            name: Name of the header in the ``#include``.
            folder: The folder of the file that includes it, which is searched before the folders of the options; None
                if it is in no file. The folders beside it where projects keep headers come last.
        """
        folders = self.folders if folder is None else (folder, *self.folders, *(folder / each for each in _USUAL))
        return next((path.resolve() for each in folders if (path := each / name).is_file()), None)


def _joined(options: Sequence[str]) -> Iterator[str]:
    """Yield the options. An option whose value is the next entry is joined with it."""
    rest = iter(option.strip() for option in options)
    for option in rest:
        if option in _WITH_VALUE:
            value = next(rest, "")
            yield f"{option}{'' if option in ('-D', '-U', '-I') else '='}{value}"
        elif option:
            yield option
