from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import slow_unless
from tiledmm import errors
from tiledmm.codegen.rendering import render
from tiledmm.compile import disassembly
from tiledmm.compile.disassembly import Access, Instruction, disassemble, parse
from tiledmm.hardware.architectures import TARGETS
from tiledmm.kernels.variants import kernel_spec

TEXT = """
.text.kernel:
	//## File "kernel.cu", line 89 inlined at "kernel.cu", line 382
	//## File "kernel.cu", line 382 inlined at "kernel.cu", line 509
	//## File "kernel.cu", line 509
        /*0a20*/              @!PT LDS RZ, [RZ] ;
        /*0a30*/                   LDGSTS.E [R13], desc[UR20][R4.64], !P0 ;
        /*0a40*/                   LDGSTS.E.BYPASS.128 [R13], desc[UR20][R4.64] ;
.L_x_10:
	//## File "kernel.cu", line 565
        /*1970*/                   LDS.128 R8, [R3] ;
        /*1980*/              @P2  LDS.U.64 R8, [R3] ;
        /*1990*/             @!P1  STS [R3], R8 ;
        /*19a0*/                   STS.U8 [R3], R8 ;
        /*19b0*/                   LDG.E.U16.CONSTANT R8, desc[UR4][R2.64] ;
	//## File "kernel.cu", line 570
        /*19c0*/                   STG.E.64 desc[UR4][R2.64], R8 ;
        /*19d0*/                   LDL.128 R8, [R1] ;
        /*19e0*/                   LD.E.S8 R8, desc[UR4][R2.64] ;
        /*19f0*/                   FFMA R1, R2, R3, R4 ;
        /*1a00*/                   FFMA R1, R2, R3, R4 ;
"""


def test_what_nvdisasm_prints():
    code = parse(TEXT.splitlines())
    assert [(a.kind, a.space, a.bytes, a.lines, a.offset) for a in code.accesses] == [
        ("copy", "shared", 4, (89, 382, 509), 0xA30),
        ("copy", "shared", 16, (89, 382, 509), 0xA40),
        ("load", "shared", 16, (565,), 0x1970),
        ("load", "shared", 8, (565,), 0x1980),
        ("store", "shared", 4, (565,), 0x1990),
        ("store", "shared", 1, (565,), 0x19A0),
        ("load", "global", 2, (565,), 0x19B0),
        ("store", "global", 8, (570,), 0x19C0),
        ("load", "local", 16, (570,), 0x19D0),
        ("load", "generic", 1, (570,), 0x19E0),
    ]
    assert code.opcodes["FFMA"] == 2 and code.opcodes["LDS"] == 3
    assert len(code.instructions) == 13 and code.instructions[0x19F0] == Instruction("FFMA", (570,))


def test_bank_conflicts():
    ffma = "        /*0010*/                   FFMA R1, {} ;"
    for operands, conflicts in (
        (["R2, R4, R6"], 1),
        (["R3, R5, R7"], 1),
        (["R2, R4, R7"], 0),
        (["R2, R4, R2"], 0),
        (["-R2, R4, R6"], 1),
        (["R2.reuse, R4, R7", "R2, R6, R8"], 0),
        (["R2.reuse, R4, R7", "R4, R2, R8"], 1),
        (["R2.reuse, R4, R7", "R2, R3, R7", "R2, R4, R6"], 1),
        (["R2, R4, 1"], 0),
        (["R2, R4, RZ"], 0),
    ):
        assert parse([ffma.format(each) for each in operands]).bank_conflicts == conflicts, operands
    assert parse(["        /*0010*/                   IMAD R1, R2, R4, R6 ;"]).bank_conflicts == 0


def test_nothing_at_all():
    assert parse([]) == disassembly.MachineCode((), {}, {})


@pytest.fixture
def tools():
    pytest.importorskip("cuda.core", reason="needs the extra 'inspect' (cuda-core and NVRTC)")
    try:
        disassembly.nvdisasm()
    except errors.MissingDependencyError as error:
        pytest.skip(str(error))


def at(text: str, accesses: tuple[Access, ...], source: str) -> set[tuple[str, str, int]]:
    """Return the accesses of the lines that contain a text."""
    numbers = {i for i, line in enumerate(source.splitlines(), start=1) if text in line}
    return {(a.kind, a.space, a.bytes) for a in accesses if numbers & set(a.lines)}


@pytest.mark.parametrize(
    ("variant", "layout", "a", "b"),
    [
        ("tiled", "NN", 16, 4),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (("tiled", "NT", 16, 16), ("tiled", "TN", 4, 4), ("tiled_padded", "NT", 4, 4))
        ),
    ],
)
def test_neighbouring_loads_are_joined_where_rows_are_aligned(tools, variant, layout, a, b):
    spec = kernel_spec(variant, tile=32, layout=layout)
    source = render(spec)
    accesses = disassemble(source, spec.symbol, "sm_90").accesses
    assert at("frag_a = As[", accesses, source) == {("load", "shared", a)}
    assert at("frag_b = Bs[", accesses, source) == {("load", "shared", b)}
    assert ("store", "global", 4) in at("c_tile.write(", accesses, source)


@pytest.mark.parametrize(
    "target", [pytest.param(name, marks=slow_unless(name in ("sm_75", "sm_120"))) for name in TARGETS]
)
def test_every_target_can_be_read(tools, target):
    spec = kernel_spec("double_buffered", tile=16)
    code = disassemble(render(spec), spec.symbol, target)
    assert code.opcodes["FFMA"] >= 32
    assert any(access.kind == "copy" for access in code.accesses) == (TARGETS[target].capability >= (8, 0))
    assert all(access.lines for access in code.accesses)
    assert not any(access.space == "local" for access in code.accesses)


def test_line_information_changes_no_instruction(tools):
    spec = kernel_spec("tiled", tile=16, layout="NT")
    plain, lines = (
        disassembly.compile_for(render(spec), spec.symbol, "sm_90", lineinfo=flag).registers for flag in (False, True)
    )
    assert plain == lines


def test_without_a_disassembler_the_error_says_how_to_get_one(monkeypatch, tmp_path):
    def missing(name):
        raise disassembly.importlib.metadata.PackageNotFoundError(name)

    disassembly.nvdisasm.cache_clear()
    monkeypatch.setattr(disassembly.importlib.metadata, "distribution", missing)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    with pytest.raises(errors.MissingDependencyError, match=r"\.\[inspect\]"):
        disassembly.nvdisasm()
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nvdisasm").touch()
    disassembly.nvdisasm.cache_clear()
    assert disassembly.nvdisasm() == Path(tmp_path / "bin" / "nvdisasm")
    disassembly.nvdisasm.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_no_multiply_add_of_warp_tiled_meets_a_bank_conflict(tools, layout):
    """Check FFMAs for register bank conflicts, which wide stores of sums would cause (``store`` in ptx.cuh)."""
    spec = kernel_spec("warp_tiled", layout=layout)
    code = disassemble(render(spec), spec.symbol, "sm_90")
    assert code.opcodes["FFMA"] >= 1024
    assert code.bank_conflicts == 0
    assert {each.bytes for each in code.accesses if (each.kind, each.space) == ("store", "global")} == {4, 16}
