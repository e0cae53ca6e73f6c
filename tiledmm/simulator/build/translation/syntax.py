"""Declarations of CUDA C, found by regular expressions because compilers do not report them."""

from __future__ import annotations

import re


def short_name(name: str) -> str:
    """Return a kernel's name without namespace and template arguments: ``scale`` of ``math::scale<float, 16>``."""
    return name.partition("<")[0].rpartition("::")[2].strip()


def kernels_in(text: str) -> list[str]:
    """Return the names of the ``__global__`` functions that a text defines or declares, in the text's order."""
    plain = without_comments(text)
    found = []
    for match in re.finditer(r"(?P<void>\bvoid\s+)?__global__\b", plain):
        rest = re.sub(_BOUNDS, " ", plain[match.end() : match.end() + 2000])
        void = "" if match["void"] else r"\bvoid\s+"
        if named := re.match(rf"[\s\w:]*?{void}\b([A-Za-z_]\w*)\s*\(", rest):
            found.append(named[1])
    return list(dict.fromkeys(found))


def is_page_alone(text: str) -> bool:
    """Return whether a text is only the page of a rendered kernel, which lacks the headers that define its types."""
    named = re.search(r"^#define KERNEL tiledmm_\w+$", text, re.MULTILINE)
    return named is not None and re.search(r"^struct Problem\b", text, re.MULTILINE) is None


def written_names(text: str, kernel: str) -> list[str]:
    """Return the names by which a text may define a kernel: its own, and that of a macro that stands for it.

    Args:
        text: CUDA C without comments.
        kernel: The kernel's name, without namespace and template arguments.
    """
    macro = re.search(rf"#\s*define\s+(\w+)\s+{re.escape(kernel)}\s*$", text, re.MULTILINE)
    return [kernel, *([macro[1]] if macro else [])]


def has_c_linkage(text: str, kernel: str) -> bool:
    """Return whether a kernel is ``extern "C"``, also by a macro before ``__global__`` or a block around it.

    The result is True for a kernel that the text does not declare.
    """
    plain = without_comments(text)
    blocks = [closed(plain, match.end()) for match in re.finditer(r'\bextern\s*"C"\s*\{', plain)]
    heads = rf"(?P<void>\bvoid\s+)?__global__\b(?P<rest>[^;{{}}\"]*?\b{re.escape(kernel)}\s*\()"
    declared = [match for match in re.finditer(heads, plain) if match["void"] or re.search(r"\bvoid\b", match["rest"])]
    for match in declared:
        before = re.sub(_BOUNDS, " ", plain[max(0, match.start() - 500) : match.start()])
        if re.search(r'\bextern\s*"C"[\s\w]*$', before) or any(a <= match.start() < b for a, b in blocks):
            return True
        macro = re.search(r"\b(?!static\b|inline\b)(\w+)\s*$", before)
        if macro and re.search(rf'#\s*define\s+{macro[1]}\b.*\bextern\s*"C"', plain):
            return True
    return not declared


def variables_in(text: str, space: str) -> frozenset[str]:
    """Return the names of the variables that a text defines with an attribute ``space``, such as ``__constant__``."""
    plain = without_comments(text)
    found = set()
    for match in re.finditer(rf"\b{space}\b", plain):
        depth, declared = 0, ""
        for piece in re.finditer(r"[()\[\]{};]|[^()\[\]{};]+", plain[match.end() :]):
            depth += (piece[0] in "([{") - (piece[0] in ")]}")
            if depth < 0 or (depth == 0 and piece[0] == ";"):
                break
            if depth == 0:
                declared += piece[0] if piece[0] not in ")]}" else " "
        names = (re.findall(r"[A-Za-z_]\w*", part.partition("=")[0]) for part in declared.split(","))
        found |= {words[-1] for words in names if words}
    return frozenset(found)


def parameter_names(text: str, kernel: str) -> list[str]:
    """Return the names of a kernel's parameters, in order; an empty list if they cannot be read from the text.

    The name of a parameter without one is empty.
    """
    plain = without_comments(text)
    written = "|".join(map(re.escape, written_names(plain, kernel)))
    begin = re.search(rf"\bvoid\b[^;{{}}]*?\b(?:{written})\s*\(", plain)
    if not begin:
        return []
    depth, parts = 1, [""]
    for last in plain[begin.end() :]:
        depth += (last in "(<[{") - (last in ")>]}")
        if depth == 0:
            break
        if last == "," and depth == 1:
            parts.append("")
        else:
            parts[-1] += last
    found = [_parameter_name(part) for part in parts if part.strip()]
    named = [each for each in found if each]
    return found if len(named) == len(set(named)) else []


_QUALIFIERS = re.compile(
    r"\b(?:const|volatile|struct|enum|typename|__restrict__|__restrict|restrict|__grid_constant__)\b"
)
_TYPE_WORDS = frozenset(
    ["void", "bool", "char", "short", "int", "long", "unsigned", "signed", "float", "double", "auto"]
)


def _parameter_name(declaration: str) -> str:
    """Return the name that the declaration of a parameter has; an empty string if it has none."""
    if pointer := re.search(r"\(\s*[*&]\s*(?:const\s+)?(\w+)", declaration):  # to an array or a function
        return pointer[1]
    plain = _QUALIFIERS.sub(" ", re.sub(r"\[[^]]*\]|=.*|\w+\s*::", " ", declaration, flags=re.DOTALL))
    while "<" in (plain := re.sub(r"<[^<>]*>", " ", plain)) and ">" in plain:
        pass
    words = re.findall(r"[A-Za-z_]\w*|[*&]", plain)
    is_named = len(words) > 1 and words[-1] not in ("*", "&") and words[-1] not in _TYPE_WORDS
    return words[-1] if is_named else ""


def launch_bounds(text: str, name: str) -> str:
    """Return C++ that defines a function ``tiledmm_max_threads``.

    The function returns ``maxThreadsPerBlock`` of the kernel's ``__launch_bounds__``, or 0 if there is none.

    Args:
        text: The kernel's source.
        name: The kernel's name, with its template arguments.
    """
    plain = without_comments(text)
    space = name.partition("<")[0].rpartition("::")[0]
    head, value, call = "", "0", "tiledmm_bounds()"
    declared = _declaration(plain, name)
    bounds = declared and re.search(rf"__launch_bounds__\s*({_PARENTHESES})", declared["rest"])
    if declared and bounds:
        first = _first_argument(bounds[1][1:-1])
        template = declared["parameters"] or ""
        known = set(re.findall(r"\w+", template))
        if all(
            each in known or re.search(rf"#\s*define\s+{each}\b|\bconst(?:expr)?\b[^;()]*\b{each}\s*=", plain)
            for each in re.findall(r"\b[A-Za-z_]\w*", first)
        ):
            value = first
            if template:
                head, call = f"template <{template}> ", f"tiledmm_bounds<{name.partition('<')[2].rpartition('>')[0]}>()"
    using = f"using namespace {space}; " if space else ""
    return (
        f"{head}constexpr unsigned tiledmm_bounds() {{ {using}return static_cast<unsigned>({value}); }}\n"
        f'extern "C" __attribute__((visibility("default"))) unsigned tiledmm_max_threads() {{ return {call}; }}\n'
    )


def cluster_dims(text: str, name: str) -> str:
    """Return C++ that defines a function ``tiledmm_cluster_dims``.

    The function returns the argument of the kernel's ``__cluster_dims__`` with the given number, 1 if it is not
    written there, or 0 if the kernel has no ``__cluster_dims__``.

    Args:
        text: The kernel's source.
        name: The kernel's name, with its template arguments.
    """
    declared = _declaration(without_comments(text), name)
    dims = declared and re.search(rf"__cluster_dims__\s*({_PARENTHESES})", declared["rest"])
    template = declared["parameters"] if declared and dims else None
    values = dims[1][1:-1] if dims else "0, 0, 0"
    head = f"template <{template}> " if template else ""
    arguments = f"<{name.partition('<')[2].rpartition('>')[0]}>" if template else ""
    space = name.partition("<")[0].rpartition("::")[0]
    using = f"using namespace {space}; " if space else ""
    return (
        f"{head}constexpr tiledmm_detail::ClusterDims tiledmm_dims() {{ {using}return {{{values}}}; }}\n"
        f'extern "C" __attribute__((visibility("default"))) unsigned tiledmm_cluster_dims(unsigned at) '
        f"{{ return tiledmm_dims{arguments}().at(at); }}\n"
    )


def _declaration(plain: str, name: str) -> re.Match[str] | None:
    """Return the declaration of a kernel up to its parameters: the group ``rest`` begins after ``template <...>``.

    Args:
        plain: CUDA C without comments.
        name: The kernel's name, with its template arguments.
    """
    short = name.partition("<")[0].rpartition("::")[2]
    written = "|".join(map(re.escape, written_names(plain, short.strip())))
    return re.search(
        rf"(template\s*<(?P<parameters>[^;{{}}()]*)>\s*)?(?:extern\s*\"C\"\s*)?(?P<rest>"
        rf"(?:static\s+|inline\s+|__cluster_dims__\s*{_PARENTHESES}\s*)*__global__[^;{{}}]*?\b(?:{written})\s*\()",
        plain,
    )


def without_comments(text: str) -> str:
    """Return a text in which each comment is replaced by a space and by the comment's line ends."""
    return re.sub(r"//[^\n]*|/\*.*?\*/", lambda comment: " " + "\n" * comment[0].count("\n"), text, flags=re.DOTALL)


def discards_sums(text: str) -> bool:
    """Return whether all atomics of a text add or subtract, and nobody uses what they return.

    Such atomics give the same sums in each order. The result is False where the text does not show it, as in macros.
    """
    plain = without_comments(text)
    if re.search(r"\basm\b|__asm|\(\s*\{", plain):
        return False
    atomics = list(re.finditer(r"\batomic\w*", plain))
    return bool(atomics) and all(
        re.fullmatch(r"atomic(Add|Sub)(_block|_system)?", each[0])
        and re.match(rf"\s*{_PARENTHESES}\s*;", plain[each.end() :])
        and re.search(
            rf"([;{{}}]|\belse|\b(if|for|while)\s*{_PARENTHESES})\s*$", (before := plain[: each.start()])[-300:]
        )
        and before.count("(") == before.count(")")  # in no head of a loop
        for each in atomics
    )


# Parentheses with up to two levels of others in them.
_PARENTHESES = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
_BOUNDS = rf"__(?:launch_bounds|maxnreg|cluster_dims)__\s*{_PARENTHESES}"


def _first_argument(text: str) -> str:
    depth = 0
    for at, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            return text[:at]
    return text


def closed(text: str, begin: int) -> tuple[int, int]:
    """Return the range of offsets between an opening brace and the brace that closes it.

    Args:
        text: The text.
        begin: Offset after the opening brace, where the range begins.
    """
    depth = 1
    for brace in re.finditer(r"[{}]", text[begin:]):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return begin, begin + brace.start()
    return begin, len(text)


_BYTES = {
    "char": 1, "bool": 1, "short": 2, "int": 4, "unsigned": 4, "signed": 4, "float": 4, "long": 8, "double": 8,
    "half": 2, "__half": 2, "half2": 4, "__half2": 4, "__nv_bfloat16": 2, "__nv_bfloat162": 4, "size_t": 8,
    **{f"{sign}int{bits}_t": bits // 8 for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip
_VECTOR = re.compile(r"u?(char|short|int|long|longlong|float|double)([1-4])")
_ALIGNED = re.compile(r"\b(?:__align__|alignas|aligned)\s*\(\s*([^()]*)\)")
# It begins where a statement may begin; at any character, it would take time quadratic in the length of the text.
_SHARED = re.compile(r"(?:^|(?<=[;{}()]))[^;{}()]*(?:\([^()]*\)[^;{}()]*)*\b__shared__\b[^;{}=]*")


def declared_alignments(text: str) -> dict[str, int]:
    """Return the declared alignment of static shared arrays in bytes, by name.

    Arrays of types that the text defines are left out.

    NVRTC keeps the declared alignment, and the simulator places arrays at larger multiples than a GPU: ``__shared__
    float s[64]`` is at a multiple of 4 bytes, also where the kernel reads it as ``float4``. Dynamic shared memory, and
    a thread's own arrays, get 16 bytes from it (PTX of NVRTC 12: ``.shared .align 4``, ``.extern .shared .align 16``,
    ``.local .align 16``).
    """
    found: dict[str, int] = {}
    for match in _SHARED.finditer(without_comments(text)):
        statement = match[0]
        written = [int(each) if each.strip().isdigit() else 0 for each in _ALIGNED.findall(statement)]
        plain = re.sub(r"__attribute__\s*\(\(.*?\)\)", " ", _ALIGNED.sub(" ", statement))
        plain = re.sub(r"\[[^]]*\]", " ", plain)
        words = re.sub(r"\b(?:__shared__|static|const|volatile|__attribute__)\b|[()]", " ", plain.split(",")[0]).split()
        natural = _natural(words[:-1])
        if "extern" in words or not natural or 0 in written:
            continue
        for name in (words[-1], *(each.strip() for each in plain.split(",")[1:])):
            found[name] = max([natural, found.get(name, 0), *written])
    return found


def _natural(words: list[str]) -> int:
    """Return the natural alignment of a CUDA C type in bytes; 0 for a type that is not built in."""
    if len(words) == 1 and (vector := _VECTOR.fullmatch(words[0])):
        part = 8 if vector[1] == "longlong" else _BYTES[vector[1]]
        return part if vector[2] in "13" else min(part * int(vector[2]), 16)
    if not words or not all(word in _BYTES for word in words):
        return 0
    return next((_BYTES[word] for word in words if word not in ("unsigned", "signed", "int")), 4)
