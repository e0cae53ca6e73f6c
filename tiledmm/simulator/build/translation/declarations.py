"""What a text of CUDA C declares, as far as the compiler does not tell: read from the text itself."""

from __future__ import annotations

import re


def short_name(name: str) -> str:
    """A kernel's name without its namespace and its template arguments: ``scale`` of ``math::scale<float, 16>``."""
    return name.partition("<")[0].rpartition("::")[2].strip()


def kernels_in(text: str) -> list[str]:
    """The names of the ``__global__`` functions that a text defines or declares, in its order."""
    plain = without_comments(text)
    found = []
    for match in re.finditer(r"(?P<void>\bvoid\s+)?__global__\b", plain):
        rest = re.sub(rf"__launch_bounds__\s*{_PARENTHESES}", " ", plain[match.end() : match.end() + 2000])
        void = "" if match["void"] else r"\bvoid\s+"
        if named := re.match(rf"[\s\w:]*?{void}\b([A-Za-z_]\w*)\s*\(", rest):
            found.append(named[1])
    return list(dict.fromkeys(found))


def has_c_linkage(text: str, kernel: str) -> bool:
    """Whether a kernel is ``extern "C"``, as far as its text tells: a macro before ``__global__`` may say so, too."""
    plain = without_comments(text)
    blocks = [_closed(plain, match.end()) for match in re.finditer(r'\bextern\s*"C"\s*\{', plain)]
    heads = rf"(?P<void>\bvoid\s+)?__global__\b(?P<rest>[^;{{}}\"]*?\b{re.escape(kernel)}\s*\()"
    declared = [match for match in re.finditer(heads, plain) if match["void"] or re.search(r"\bvoid\b", match["rest"])]
    for match in declared:
        before = re.sub(rf"__launch_bounds__\s*{_PARENTHESES}", " ", plain[max(0, match.start() - 500) : match.start()])
        if re.search(r'\bextern\s*"C"[\s\w]*$', before) or any(a <= match.start() < b for a, b in blocks):
            return True
        macro = re.search(r"\b(?!static\b|inline\b)(\w+)\s*$", before)
        if macro and re.search(rf'#\s*define\s+{macro[1]}\b.*\bextern\s*"C"', plain):
            return True
    return not declared


def variables_in(text: str, space: str) -> frozenset[str]:
    """The names of the variables that a text defines with an attribute such as ``__constant__``."""
    return frozenset(re.findall(rf"\b{space}\b[^;(){{}}=]*?\b(\w+)\s*(?:\[[^;]*?)?(?:=|;)", without_comments(text)))


def parameter_names(text: str, kernel: str) -> list[str]:
    """The names of a kernel's parameters; empty where they cannot be told."""
    plain = without_comments(text)
    begin = re.search(rf"\bvoid\b[^;{{}}]*?\b{re.escape(kernel)}\s*\(", plain)
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
    names = [re.findall(r"[A-Za-z_]\w*", re.sub(r"\[[^]]*\]|=.*", "", part)) for part in parts if part.strip()]
    found = [each[-1] for each in names if len(each) > 1]
    return found if len(found) == len(names) == len(set(found)) else []


def launch_bounds(text: str, name: str) -> str:
    """C++ of a function ``tiledmm_max_threads`` that returns ``maxThreadsPerBlock`` of a kernel's launch bounds, or 0.

    Args:
        text: The source.
        name: The kernel's name, with its template arguments.
    """
    plain = without_comments(text)
    space, _, short = name.partition("<")[0].rpartition("::")
    macro = re.search(rf"#\s*define\s+(\w+)\s+{re.escape(short.strip())}\s*$", plain, re.MULTILINE)
    written = "|".join(map(re.escape, [short.strip(), *([macro[1]] if macro else [])]))
    head, value, call = "", "0", "tiledmm_bounds()"
    declared = re.search(
        rf"(template\s*<(?P<parameters>[^;{{}}()]*)>\s*)?(?:extern\s*\"C\"\s*)?(?P<rest>(?:static\s+|inline\s+)*"
        rf"__global__[^;{{}}]*?\b(?:{written})\s*\()", plain,
    )  # fmt: skip
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


def without_comments(text: str) -> str:
    """A text with spaces for its comments, whose line ends stay."""
    return re.sub(r"//[^\n]*|/\*.*?\*/", lambda comment: " " + "\n" * comment[0].count("\n"), text, flags=re.DOTALL)


# Parentheses with up to two levels of others in them.
_PARENTHESES = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"


def _first_argument(text: str) -> str:
    depth = 0
    for at, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            return text[:at]
    return text


def _closed(text: str, begin: int) -> tuple[int, int]:
    """From behind an opening brace to its closing one."""
    depth = 1
    for brace in re.finditer(r"[{}]", text[begin:]):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return begin, begin + brace.start()
    return begin, len(text)
