"""What a kernel may consist of, looked at in what the compiler made of it: assembly, then an object file.

A text can name a function in many ways (a declaration, a built-in of the compiler, an ``asm`` label, an alias, a
pragma), but all of them end as an undefined symbol, and inline assembly ends as assembly. So these are read, and not
the text.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

from tiledmm.simulator.build.debug.debug_info import source_name
from tiledmm.simulator.build.debug.symbols import (
    FUNCTION,
    INDIRECT,
    INSTRUCTIONS,
    OBJECT,
    RELOCATIONS,
    UNDEFINED,
    Section,
    Symbol,
    sections_of,
    symbols_of,
)
from tiledmm.simulator.build.translation.refusals import Refusal
from tiledmm.simulator.build.translation.syntax import without_comments
from tiledmm.simulator.build.translation.unit import FUNCTIONS

_NATIVE = Path(__file__).with_name("native")

# Functions of the runtime that instrumented code calls (checks.cpp).
_OF_INSTRUMENTATION = (
    r"__tsan_((unaligned_|volatile_)?(read|write)(1|2|4|8|16)|(read|write)_range|mem(cpy|move|set)|func_entry|func_exit|init"
    r"|vptr_update|vptr_read)|__asan_\w+|__ubsan_handle_\w+_abort"
)
# Functions that compilers call of their own accord, and C's of mathematics behind the built-ins that functions.h names.
_OF_COMPILERS = re.compile(
    _OF_INSTRUMENTATION + "|"
    r"mem(cpy|move|set|cmp)|strlen|rawmemchr|__tls_get_addr|_GLOBAL_OFFSET_TABLE_"
    r"|_ZTH\w+"  # Clang's look whether a dynamic shared array is to be initialized: nobody defines it
    r"|__(u?div|u?mod|u?divmod|mul|ashl|ashr|lshr|neg|cmp|ucmp|popcount|clz|ctz|parity|bswap|ffs)[sdt]i[234]?"
    r"|__(add|sub|mul|div|neg|eq|ne|lt|le|gt|ge|unord|cmp|powi|fix\w*|float\w*|extend\w*|trunc\w*)[hsdxtb]f\w*"
    r"|__(mul|div)[hsdxt]c3|__aarch64_\w+"
    r"|c(abs|arg|proj|exp|log|log10|pow|sqrt|a?(sin|cos|tan)h?)[fl]?"  # functions of complex numbers
)
_MATHEMATICS = frozenset(
    name + suffix
    for name in (
        *FUNCTIONS,
        "exp10",
        "ldexp",
        "llrint",
        "llround",
        "lrint",
        "lround",
        "roundeven",
        "significand",
        "fabs",
    )
    for suffix in ("", "f", "l")
)
_OWN = re.compile(r"\btiledmm_\w+(?=\()")
# Functions with which a compiler begins an instrumented unit: they only call __tsan_init.
_BEGINS = re.compile(r"_sub_I_00099_\d+|(tsan|asan)\.module_ctor")
# What Python calls (entry.h).
_REQUIRED = frozenset(
    f"tiledmm_{name}"
    for name in [
        "run_thread",
        "parameter_count",
        "describe_parameters",
        "anchor_address",
        "max_threads",
        "cluster_dims",
    ]
)
_ENTRIES = re.compile(r"_Z.*|tiledmm_\w+")
# Functions of entry.h that stand for those of the C and C++ libraries.
_NAMES = {
    "exit": "tiledmm_leave", "abort": "tiledmm_leave", "__cxa_pure_virtual": "tiledmm_pure_virtual",
    **dict.fromkeys(("_Znwm", "_Znam"), "tiledmm_new"),
    **dict.fromkeys(("_ZnwmSt11align_val_t", "_ZnamSt11align_val_t"), "tiledmm_new_aligned"),
    **dict.fromkeys(
        (f"_Zd{what}Pv{size}{aligned}" for what in "la" for size in ("", "m") for aligned in ("", "St11align_val_t")),
        "tiledmm_delete",
    ),
}  # fmt: skip
#: A symbol of kernels whose calls are of a depth that compilers cannot know.
OF_UNKNOWN_DEPTH = "tiledmm_of_unknown_depth"
# A label, a call by a pointer, and a call by a name, on x86-64 and arm64.
_CALL = re.compile(
    r"^(?P<label>[\w.$]+):|^\s+(?P<pointer>callq?\s+\*(?!\w+@)|blr\s)|^\s+(?:callq?|bl)\s+(?P<called>[\w.$]+)",
    re.MULTILINE,
)
_COMMENT = re.compile(r"\s*(?:[#@].*|//.*)?")
_INLINE = re.compile(r"^[ \t]*[#/@]+ ?APP\b[^\n]*\n(?P<text>.*?)^[ \t]*[#/@]+ ?NO_APP\b", re.MULTILINE | re.DOTALL)
# Instructions that no compiler makes of C++, and directives that read files.
_FOREIGN = re.compile(r"^[ \t]*(syscall|sysenter|int[ \t]+\$|svc\b|\.incbin|\.include)", re.MULTILINE)

# Bytes of a shared array for which there may be no memory; less is a finding (check/kernel_findings.py).
_MOST_SHARED = 64 << 20

_POINTER = 8
_RUN_AT_LOAD = re.compile(r"\.(preinit_array|init_array|fini_array|ctors|dtors)\b.*")


def refuse_assembly(assembly: str) -> Refusal | None:
    """Return the reason why the assembly of a kernel is refused; None if it is not refused.

    Args:
        assembly: Output of the compiler for ``-S``.
    """
    lines = (line for block in _INLINE.finditer(assembly) for line in block["text"].splitlines())
    found = "; ".join(line.strip() for line in lines if not _COMMENT.fullmatch(line))
    if not found and (foreign := _FOREIGN.search(assembly)):
        found = foreign[0].strip()
    if not found:
        return None
    return Refusal(
        0,
        f"the text contains assembly of the CPU ({found[:60]!r}): the simulator translates PTX in asm statements whose "
        "text is a string literal",
    )


def with_names(assembly: str) -> str:
    """Return a kernel's assembly in which functions of the C library that would end the process are the simulator's.

    It also defines ``OF_UNKNOWN_DEPTH`` if functions call themselves or by pointers.
    """
    names = {**_NAMES, **({OF_UNKNOWN_DEPTH: "1"} if _is_of_unknown_depth(assembly) else {})}
    return assembly + "".join(
        f"\t.globl {name}\n\t.hidden {name}\n\t.set {name}, {own}\n" for name, own in names.items()
    )


def _is_of_unknown_depth(assembly: str) -> bool:
    """Return whether a compiler cannot know how deep calls are: a function calls itself, or one by a pointer."""
    calls: dict[str, set[str]] = {}
    inside = ""
    functions = set(re.findall(r"^\s*\.type\s+([\w.$]+),\s*[@%]function", assembly, re.MULTILINE))
    for found in _CALL.finditer(assembly):
        if found["label"] in functions:
            inside = found["label"]
        elif found["pointer"] and "tiledmm_detail" not in inside:  # parameters.h calls the kernel by one
            return True
        elif found["called"] in functions and inside:
            calls.setdefault(inside, set()).add(found["called"])
    reached: dict[str, set[str]] = {}

    def beyond(name: str) -> set[str]:
        if name not in reached:
            reached[name] = set()
            waiting = [name]
            while waiting:
                for each in calls.get(waiting.pop(), set()) - reached[name]:
                    reached[name].add(each)
                    waiting.append(each)
        return reached[name]

    return any(name in beyond(name) for name in calls)


def refuse_object(unit: Path, source: str, *, dynamic: bool, begins: bool) -> Refusal | None:
    """Return the reason why the object file of a kernel is refused; None if it is not refused.

    Args:
        unit: The object file.
        source: The kernel's text, in which the line of a refused name is looked for.
        dynamic: Whether undefined variables in shared memory are dynamic arrays.
        begins: Whether GCC adds a function that runs when the library is loaded, for its sanitizer of threads.
    """
    sections = sections_of(unit.read_bytes())
    symbols = list(symbols_of(sections))
    for each in symbols:
        if each.is_thread_local and each.bytes > _MOST_SHARED:
            return _refusal(
                each.name, source, f"has {each.bytes:,} bytes of static shared memory, more than any GPU has"
            )
        if each.section == UNDEFINED and each.name and not (each.is_thread_local and dynamic):
            if not (each.name in _provided() or each.name in _MATHEMATICS or _OF_COMPILERS.fullmatch(each.name)):
                return _undefined(each.name, source)
        elif each.kind == INDIRECT:
            return _refusal(
                each.name,
                source,
                "is chosen by a function when the library is loaded (ifunc), which GPUs do not support",
            )
        elif each.kind == OBJECT and each.section < len(sections) and sections[each.section].flags & INSTRUCTIONS:
            return _refusal(
                each.name, source, "is a variable among the instructions (section), which GPUs do not support"
            )
        elif each.is_exported and not _ENTRIES.fullmatch(each.name):
            return _refusal(
                each.name, source, "is visible outside of the kernel (visibility), which has no use on a GPU"
            )
    if missing := _REQUIRED - {each.name for each in symbols if each.is_exported}:
        return Refusal(
            0, f"the text redefines a word that the simulator's headers use ({min(missing)} is missing): #undef it"
        )
    return _at_load(sections, symbols, source, int(begins))


@functools.lru_cache(maxsize=1)
def _provided() -> frozenset[str]:
    """Return the names of the runtime's functions that kernels call; those that Python calls are not among them."""
    headers = ("runtime.h", "asynchronous.h")
    return frozenset(name for each in headers for name in _OWN.findall((_NATIVE / each).read_text(encoding="utf-8")))


def _at_load(sections: list[Section], symbols: list[Symbol], source: str, own: int) -> Refusal | None:
    """Return a refusal of functions that would run when the library is loaded, or when it is unloaded.

    Args:
        sections: Sections of the object file.
        symbols: Its symbols.
        source: The kernel's text.
        own: Number of such functions that GCC adds. Another with such a name is the text's.
    """
    functions = [each for each in symbols if each.kind == FUNCTION]
    filled = {each.info: len(each.relocations()) for each in sections if each.kind == RELOCATIONS}
    for at, section in enumerate(sections):
        if _RUN_AT_LOAD.fullmatch(section.name) and section.size > _POINTER * filled.get(at, 0):
            return Refusal(0, f"the text puts an address into the section {section.name}, which runs when it is loaded")
        if section.name in (".init", ".fini"):
            return Refusal(0, f"the text puts code into the section {section.name}, which runs when it is loaded")
        if section.kind != RELOCATIONS:
            continue
        target = sections[section.info]
        if not _RUN_AT_LOAD.fullmatch(target.name):
            continue
        for number, addend in section.relocations():
            symbol = symbols[number]
            offset = symbol.value + addend
            called = next(
                (each for each in functions if each.section == symbol.section and each.value == offset), symbol
            )
            if called.name.startswith(("_GLOBAL__sub_", "__cxx_global_var_init")):
                return Refusal(
                    0,
                    "a variable outside of functions has an initial value that is computed when the program starts "
                    "(by a function or a constructor), and dynamic initialization is not supported for __device__ "
                    "variables: give it a constant, or set it in a kernel",
                )
            own -= called.name.startswith("_sub_I")  # a text cannot have the names that Clang gives, which have a dot
            if not _BEGINS.fullmatch(called.name) or own < 0:
                return _refusal(called.name, source, "runs when the library is loaded (constructor), which no GPU does")
    return None


def _undefined(symbol: str, source: str) -> Refusal:
    if symbol in ("__cxa_guard_acquire", "__cxa_guard_release", "__cxa_guard_abort") or symbol.startswith(
        "__tsan_atomic"
    ):
        return Refusal(
            0,
            "a static variable of a function has an initial value that is computed when the function is first called, "
            "and dynamic initialization is not supported in device code: give it a constant",
        )
    if symbol in ("__cxa_thread_atexit", "__cxa_atexit", "__dso_handle"):
        return Refusal(0, "a variable that is static or shared has a destructor, which device code never calls")
    return _refusal(
        symbol,
        source,
        "is declared and used, but not defined: a kernel can use the functions and variables of its own text and of "
        "CUDA, but not those of the C library or of the simulator",
    )


def _refusal(symbol: str, source: str, reason: str) -> Refusal:
    name = readable_name(symbol)
    plain = re.sub(r'"(?:[^"\\\n]|\\.)*"', lambda text: " " * len(text[0]), without_comments(source))
    last = name.rpartition("::")[2]
    # A name in a string is an asm label's, or an alias's.
    line = 0
    for text in (source, plain):
        if found := re.search(rf"\b(?:__builtin_)?{re.escape(last)}\b", text):
            line = text.count("\n", 0, found.start()) + 1
    return Refusal(line, f"{name} {reason}")


def readable_name(symbol: str) -> str:
    """Return the name that a symbol has in the source: ``math::dist`` of ``_ZN4math4distEff``."""
    if symbol.startswith("_ZZ"):
        return source_name(symbol)
    mangled = re.match(r"_Z(?:N[rVK]*)?L?(?=\d)", symbol)
    if not mangled:
        return symbol
    names: list[str] = []
    at = mangled.end()
    while (length := re.compile(r"\d+").match(symbol, at)) and (mangled[0].startswith("_ZN") or not names):
        at = length.end() + int(length[0])
        names.append(symbol[length.end() : at])
    return "::".join(names)
