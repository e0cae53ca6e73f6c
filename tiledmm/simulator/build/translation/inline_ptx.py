"""Inline PTX in CUDA C: each asm statement becomes C++, on the line where it stands.

``translate`` replaces ``asm volatile("..." : outputs : inputs : clobbers)`` by one C++ statement that declares a
register for each operand, runs the instructions (``ptx``), and writes the outputs. What cannot be translated becomes a
call whose compilation fails. This is not an error in functions and macros of a header that the kernel does not use.
``refusal`` finds the reason in the compiler's output.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from tiledmm.simulator.build.translation.macros import expand
from tiledmm.simulator.build.translation.ptx import PREFIX, RefusedError, Register, register_type, translated

_SPACE = r"(?:\s|\\\n|//[^\n]*|/\*(?s:.*?)\*/)*"
_STRING = r'(?:u8|[LuU])?"(?:[^"\\\n]|\\(?s:.))*"'
_RAW_STRING = r'(?:u8|[LuU])?R"(?P<{0}>[^\s()\\]*)\((?s:.*?)\)(?P={0})"'

# What may contain "asm" without being a statement, the directives that leave text out, and asm statements.
_TOKEN = re.compile(
    r"(?P<comment>//(?:\\\n|[^\n])*|/\*(?s:.*?)\*/)"
    rf"|(?P<literal>{_RAW_STRING.format('token')}|{_STRING}|'(?:[^'\\\n]|\\.)+'|\b\d(?:'?[\w.])*)"
    r"|^[ \t]*\#[ \t]*(?P<directive>if|ifdef|ifndef|elif|else|endif)\b(?P<condition>(?:\\\n|[^\n])*)"
    r"|(?P<asm>\b(?:asm|__asm__|__asm)\b)",
    re.MULTILINE,
)
_OPENING = re.compile(rf"(?:{_SPACE}\b(?:volatile|__volatile__|__volatile|inline)\b)*{_SPACE}\(")
_PIECE = re.compile(
    rf"(?P<space>\s+|\\\n|//[^\n]*|/\*(?s:.*?)\*/)|(?P<raw>{_RAW_STRING.format('piece')})|(?P<string>{_STRING})"
    r"|(?P<colon>:)|(?P<comma>,)|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<word>\w+)|(?P<other>.)",
    re.DOTALL,
)
_SIMULATOR = "TILEDMM_SIMULATOR"
_REFUSED = re.compile(r"tiledmm_refused: (kernel\.cu:\d+: .*?)(?: \[[-\w]+\])?$", re.MULTILINE)

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "v": "\v", "f": "\f", "a": "\a", "b": "\b"}
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]+)|(\n)|(.))", re.DOTALL)

#: The PTX type of a register for each constraint.
_CONSTRAINTS = {"h": "b16", "r": "b32", "l": "b64", "q": "b128", "f": "f32", "d": "f64"}
_SIZES = {"h": 16, "r": 32, "l": 64, "q": 128, "f": 32, "d": 64}


def translate(source: str) -> str:
    """Return CUDA C with C++ in place of its inline PTX. Every line keeps its number.

    Statements in ``#if`` blocks that the macro ``TILEDMM_SIMULATOR`` excludes stay as they are.
    """
    if "asm" not in source:
        return source
    source = expand(source)
    lines = [0, *(found.end() for found in re.finditer("\n", source))]
    out, done = [], 0
    for begin, opening in _statements(source):
        statement = _Statement(source, begin, opening)
        try:
            end = statement.parse()
            code = statement.code()
        except RefusedError as refused:
            end = statement.end or _end_of_parentheses(source, opening)
            place = statement.place(refused.at)
            code = _refused(f"kernel.cu:{bisect_right(lines, place)}: {refused.reason}", f"{PREFIX}refused{place}")
        out += [source[done:begin], code, *re.findall(r"\\?\n", source[begin:end])]
        done = end
    return "".join([*out, source[done:]]) if done else source


def refusal(output: str) -> str:
    """Return the sentence in a compiler's output that says why inline PTX cannot be simulated.

    It is an empty string if the output has no such sentence.
    """
    found = _REFUSED.search(output)
    return found[1].rstrip("'\"") if found else ""


def _refused(reason: str, name: str) -> str:
    message = reason.replace("\\", "").replace('"', "'")
    return f'do {{ void {name}() __attribute__((error("tiledmm_refused: {message}"))); {name}(); }} while (0)'


def _statements(source: str) -> Iterator[tuple[int, int]]:
    """Yield the offset of each asm statement, and that of its text, which begins after the opening parenthesis.

    Statements in text that ``#if`` excludes are skipped.
    """
    left_out: list[bool | None] = []  # for each #if that is open: whether its text is left out, None if unknown
    past = 0
    for token in _TOKEN.finditer(source):
        if directive := token["directive"]:
            if directive.startswith("if"):
                left_out.append(_left_out(directive, token["condition"]))
            elif left_out and directive == "endif":
                left_out.pop()
            elif left_out:
                now = left_out[-1]
                left_out[-1] = None if now is None or directive == "elif" else not now
        elif token["asm"] and token.start() >= past and True not in left_out:
            opening = _OPENING.match(source, token.end())
            if opening:
                past = opening.end()
                yield token.start(), opening.end()


def _left_out(directive: str, condition: str) -> bool | None:
    words = re.sub(r"//.*|/\*.*?\*/|\s|\\\n", "", condition)
    if directive == "ifdef":
        return False if words == _SIMULATOR else None
    if directive == "ifndef":
        return True if words == _SIMULATOR else None
    if words in ("0", f"!defined({_SIMULATOR})", f"!defined{_SIMULATOR}", f"!{_SIMULATOR}"):
        return True
    return False if words in ("1", f"defined({_SIMULATOR})", f"defined{_SIMULATOR}", _SIMULATOR) else None


def _end_of_parentheses(source: str, opening: int) -> int:
    depth, at = 1, opening
    while depth and (piece := _PIECE.match(source, at)):
        depth += bool(piece["open"]) - bool(piece["close"])
        at = piece.end()
    return at


@dataclass(frozen=True, slots=True)
class _Operand:
    """An operand of an asm statement.

    Attributes:
        constraint: Its constraint, such as ``"=r"``, ``"+f"`` or ``"n"``.
        expression: The C++ expression in parentheses, on one line.
    """

    constraint: str
    expression: str

    @property
    def letter(self) -> str:
        """The constraint without its modifiers."""
        return self.constraint.strip("=+&")

    @property
    def is_output(self) -> bool:
        """Whether the statement may write the operand."""
        return self.constraint[0] in "=+"


class _Statement:
    """One asm statement.

    Args:
        source: CUDA C that contains the statement.
        begin: Offset of the statement.
        opening: Offset of its text, which begins after the opening parenthesis.
    """

    def __init__(self, source: str, begin: int, opening: int) -> None:
        self._source = source
        self._begin = begin
        self._at = self._opening = opening
        self._ptx = ""
        self._places: list[tuple[int, int]] = []  # offsets in the PTX and in the source, of each piece of the text
        self._operands: list[_Operand] = []
        self.end = 0

    def place(self, at: int) -> int:
        """Return the offset in the source that an offset in the statement's PTX comes from."""
        found = bisect_right(self._places, at, key=lambda place: place[0])
        return self._places[found - 1][1] if found else self._begin

    def parse(self) -> int:
        """Parse the statement's text and operands, and return the offset of its end in the source.

        Raises:
            RefusedError: If its syntax is not supported.
        """
        self._read_text()
        for section in range(3):
            if not self._take("colon"):
                break
            while self._peek()["string"]:
                constraint = self._string()
                if section < 2:
                    self._operands.append(_Operand(constraint, self._parenthesized()))
                if not self._take("comma"):
                    break
            if self._peek()["word"] or self._peek()["open"] == "[":
                raise RefusedError(f"'{self._peek()[0]}' in this asm statement is neither a constraint nor a clobber")
        piece = self._peek()
        if piece[0] != ")":
            raise RefusedError(f"'{piece[0]}' in this asm statement is neither a constraint nor a clobber")
        self.end = piece.end()
        return self.end

    def _read_text(self) -> None:
        while True:
            piece = self._peek()
            if piece["string"] or piece["raw"]:
                self._read_string(piece)
            elif piece["word"]:
                raise RefusedError(
                    f"the text of this asm statement contains the macro '{piece['word']}': "
                    "the simulator translates string literals only"
                )
            else:
                return

    def _read_string(self, piece: re.Match[str]) -> None:
        self._at = piece.end()
        if piece["raw"]:
            begin, end = piece[0].index("(") + 1, piece[0].rindex(")")
        else:
            begin, end = piece[0].index('"') + 1, len(piece[0]) - 1
        text, base, at = piece[0][begin:end], piece.start() + begin, 0
        self._places.append((len(self._ptx), base))
        for escape in _ESCAPE.finditer(text) if piece["string"] else ():
            self._ptx += text[at : escape.start()] + _unescaped(escape)
            at = escape.end()
            self._places.append((len(self._ptx), base + at))
        for line in text[at:].splitlines(keepends=True):
            self._places.append((len(self._ptx), base + at))
            self._ptx += line
            at += len(line)

    def _peek(self) -> re.Match[str]:
        while (piece := _PIECE.match(self._source, self._at)) and piece["space"]:
            self._at = piece.end()
        if piece is None:
            raise RefusedError("this asm statement has no closing parenthesis")
        return piece

    def _take(self, kind: str) -> bool:
        piece = self._peek()
        if piece[kind]:
            self._at = piece.end()
        return bool(piece[kind])

    def _string(self) -> str:
        piece = self._peek()
        self._at = piece.end()
        return piece[0].strip('"')

    def _parenthesized(self) -> str:
        if self._peek()[0] != "(":
            raise RefusedError(f"'{self._peek()[0]}' in this asm statement is not an operand in parentheses")
        begin = self._peek().end()
        self._at = _end_of_parentheses(self._source, begin)
        out, at = [], begin
        while at < self._at - 1 and (piece := _PIECE.match(self._source, at)):
            out.append(" " if piece["space"] else piece[0])
            at = piece.end()
        return "".join(out).strip()

    def code(self) -> str:
        """Return the C++ statement that replaces the asm statement, without its semicolon.

        Raises:
            RefusedError: If an operand or an instruction cannot be translated.
        """
        registers = [self._register(i, operand) for i, operand in enumerate(self._operands)]
        words = self._source[self._begin : self._opening]
        is_volatile = "volatile" in words or not any(each.writable for each in registers)
        run = translated(self._ptx.replace("%%", " %"), registers, is_volatile=is_volatile)
        before, after = [], []
        for i, (operand, register) in enumerate(zip(self._operands, registers, strict=True)):
            if not register.bits:  # a constant
                continue
            if i not in run.named:  # neither read nor written, but its expression may have side effects
                before.append(f"static_cast<void>({operand.expression});")
                continue
            kind = register_type(_CONSTRAINTS[operand.letter])
            name, reference = f"{PREFIX}{i}", f"{PREFIX}to{i}"
            if i in run.in_place:  # the variable itself, which instructions read and write later
                before.append(f"auto&& {reference} = ({operand.expression});")
                before.append(f"auto& {name} = tiledmm_asynchronous::in_place<{kind}>({reference});")
                continue
            value = reference if operand.is_output else f"({operand.expression})"
            if operand.is_output:
                before.append(f"auto& {reference} = ({operand.expression});")
            initial = "{}" if operand.constraint[0] == "=" else f" = tiledmm_ptx::input<{kind}>({value})"
            before.append(f"{'' if operand.is_output else 'const '}{kind} {name}{initial};")
            if operand.is_output:
                after.append(f"tiledmm_ptx::output({reference}, {name});")
        return " ".join(["do {", *before, run.code or "tiledmm_ptx::compiler_fence();", *after, "} while (0)"])

    def _register(self, i: int, operand: _Operand) -> Register:
        if operand.letter in ("n", "i"):
            return Register(f"({operand.expression})", 0)
        if operand.letter not in _CONSTRAINTS:
            raise RefusedError(f"the constraint '{operand.constraint}' is not supported: use h, r, l, q, f, d or n")
        name, reference = f"{PREFIX}{i}", f"{PREFIX}to{i}"
        place = f"&{name}" if operand.is_output else f"tiledmm_asynchronous::place<decltype({reference})>({name})"
        return Register(name, _SIZES[operand.letter], writable=operand.is_output, place=place)


def _unescaped(escape: re.Match[str]) -> str:
    if escape[1]:
        return chr(int(escape[1], 8))
    if escape[2]:
        return chr(int(escape[2], 16) & 0xFF)
    return "" if escape[3] else _ESCAPES.get(escape[4], escape[4])
