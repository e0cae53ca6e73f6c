"""Calls that count the floating-point operations of a kernel's own operators, put into its assembly.

The compiler marks the beginning of each basic block by a call (``-fsanitize-coverage=trace-pc``). Each mark is replaced
by calls that count the operations of the block, one for each source line that has any. Functions of the simulator's
headers, such as ``fmaf``, count by themselves.

Checks of subscripts split blocks after they were marked: what has no mark of its own belongs to the block from which
it is reached.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

#: The flags for the marks, of GCC and of Clang, which would leave out blocks that always run with others.
FLAG = "-fsanitize-coverage=trace-pc"
CLANG_FLAG = "-fsanitize-coverage=bb,no-prune,trace-pc"

_FILE = re.compile(r'\s*\.file\s+(?P<number>\d+)\s+(?:"[^"]*"\s+)?"(?P<name>[^"]*)"')
_LOC = re.compile(r"\s*\.loc\s+(?P<file>\d+)\s+(?P<line>\d+)")
_OF_PLACES = ("\t.loc", "\t.file")
_LABEL = re.compile(r"(?P<name>[.\w$]+):")
_NO_RETURN = re.compile(r"\s*(call|bl)\s+__ubsan_\w+_abort\b")


@dataclass(frozen=True, slots=True)
class _Machine:
    """Assembly of a machine.

    Attributes:
        mark: A mark, with its instruction in the group ``jump``.
        jump: A jump, with the label in the group ``to``.
        end: An instruction after which the next one is not executed, other than by a jump.
        one, two: Instructions that make one operation, and two: fused multiply-adds.
        call: Instructions that count a number of operations. Registers of arguments are free at a mark.
        tail: The instruction of a mark that also ends a function. A return takes its place.
    """

    mark: re.Pattern[str]
    jump: re.Pattern[str]
    end: re.Pattern[str]
    one: re.Pattern[str]
    two: re.Pattern[str]
    call: str
    tail: str


_X86 = _Machine(
    mark=re.compile(r"\s*(?P<jump>callq?|jmp)\s+__sanitizer_cov_trace_pc\b"),
    jump=re.compile(r"\s*j\w+\s+(?P<to>\.L\w+)"),
    end=re.compile(r"\s*(jmp|ret|ud2)\b"),
    one=re.compile(r"\s*v?(add|sub|mul|div|sqrt)s[sd]\s"),
    two=re.compile(r"\s*vfn?m(add|sub)(132|213|231)s[sd]\s"),
    call="\tmovl\t${count}, %edi\n\tcall\ttiledmm_count_flops@PLT",
    tail="jmp",
)
_ARM = _Machine(
    mark=re.compile(r"\s*(?P<jump>bl?)\s+__sanitizer_cov_trace_pc\b"),
    jump=re.compile(r"\s*(?:b|b\.?\w\w|cbn?z|tbn?z)\s+(?:.*,\s*)?(?P<to>\.L\w+)"),
    end=re.compile(r"\s*(b|br|ret|brk)\s"),
    one=re.compile(r"\s*f(add|sub|mul|nmul|div|sqrt)\s+[sd]\d"),
    two=re.compile(r"\s*fn?m(add|sub)\s+[sd]\d"),
    call="\tmov\tw0, {count}\n\tbl\ttiledmm_count_flops",
    tail="b",
)


@dataclass(slots=True)
class _Block:
    """A sequence of instructions that run one after the other.

    Attributes:
        mark: Number of its mark's line; None if it has no mark.
        loc: The ``.loc`` that is in force at the mark.
        counts: Operations by the file and line of the source.
        next: Labels of the blocks that may follow it.
        follows: Whether the block after it in the text may follow it.
    """

    mark: int | None = None
    loc: str = ""
    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    next: list[str] = field(default_factory=list)
    follows: bool = True


def count_operations(assembly: str, file: str) -> str:
    """Return assembly in which marks are replaced by calls of ``tiledmm_count_flops``.

    Args:
        assembly: Assembly for x86-64 or arm64, compiled with the flag.
        file: Name of the source whose operations are counted, such as ``"kernel.cu"``.
    """
    machine = _X86 if _X86.mark.search(assembly) else _ARM
    lines = assembly.split("\n")
    blocks, labels = _blocks(lines, file, machine)
    _gather(blocks, labels)
    for block in blocks:
        if block.mark is not None:
            lines[block.mark] = _calls(block, lines[block.mark], machine)
    return "\n".join(lines)


def _blocks(lines: list[str], file: str, machine: _Machine) -> tuple[list[_Block], dict[str, int]]:
    """Return the blocks of a text in assembly, and the number of the block at each label."""
    blocks, labels = [_Block(follows=False)], {}
    own: set[str] = set()
    loc, place = "", ("", "")
    for at, line in enumerate(lines):
        if line.startswith("\t.") and not line.startswith(_OF_PLACES):
            continue  # half of all lines, and no pattern matches them
        if found := _LOC.match(line):
            loc, place = line, (found["file"], found["line"])
        elif found := _LABEL.match(line):
            labels[found["name"]] = len(blocks)
            blocks.append(_Block())
        elif machine.mark.match(line):
            blocks.append(_Block(at, loc))
        elif found := _FILE.match(line):
            if found["name"].rpartition("/")[2] == file:
                own.add(found["number"])
        elif (found := machine.jump.match(line)) or machine.end.match(line) or _NO_RETURN.match(line):
            blocks[-1].next += [found["to"]] if found else []
            blocks[-1].follows = not (machine.end.match(line) or _NO_RETURN.match(line))
            blocks.append(_Block())
        elif place[0] in own:
            made = 2 if machine.two.match(line) else 1 if machine.one.match(line) else 0
            if made:
                blocks[-1].counts[place] = blocks[-1].counts.get(place, 0) + made
    return blocks, labels


def _gather(blocks: list[_Block], labels: dict[str, int]) -> None:
    """Add the operations of blocks without a mark to the marked blocks from which they are reached."""
    known: set[int] = set()
    for first, marked in enumerate(blocks):
        reached = [] if marked.mark is None else [first]
        while reached:
            at = reached.pop()
            following = [labels[name] for name in blocks[at].next if name in labels]
            following += [at + 1] if blocks[at].follows and at + 1 < len(blocks) else []
            for number in following:
                if blocks[number].mark is None and number not in known:
                    known.add(number)
                    reached.append(number)
                    for place, count in blocks[number].counts.items():
                        marked.counts[place] = marked.counts.get(place, 0) + count


def _calls(block: _Block, mark: str, machine: _Machine) -> str:
    """Return the assembly that stands in place of a block's mark."""
    found = machine.mark.match(mark)
    if found and found["jump"] == machine.tail:
        return "\tret"
    calls = [
        f"\t.loc {file} {line} 0\n{machine.call.format(count=count)}" for (file, line), count in block.counts.items()
    ]
    return "\n".join([*calls, *([block.loc] if calls else [])])
