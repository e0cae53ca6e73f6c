from __future__ import annotations

import contextlib
import itertools
import re
from dataclasses import replace

import jinja2
import pytest

import tiledmm
from tests.golden import FOLDER, golden, renderings
from tiledmm.codegen import rendering as codegen
from tiledmm.codegen.rendering import page_of, render
from tiledmm.codegen.template_files import template_folder
from tiledmm.elements import ELEMENTS
from tiledmm.errors import ConfigError, ShapeError, UnknownVariantError, UnsupportedTypeError
from tiledmm.kernels.variants import general_variants, kernel_spec, kernel_variants

GOLDEN = renderings()

#: Lines that a float32 kernel's whole text has at most, in its default tile or in the one that is named.
MOST_LINES = {
    ("naive", None): 180,
    ("coalesced", None): 180,
    ("tiled", 16): 260,
    ("tiled_padded", None): 260,
    ("double_buffered", None): 360,
    ("register_tiled", None): 320,
    ("vectorized", None): 400,
    ("warp_tiled", None): 520,
}

#: Lines of Jinja that the templates of the first lessons have at most.
MOST_DIRECTIVES = {"tiled.cu.j2": 15, "double_buffered.cu.j2": 20}


@pytest.mark.parametrize("name", GOLDEN)
def test_rendering_is_the_golden_one(name):
    expected = (FOLDER / name).read_text(encoding="utf-8")
    assert golden(*GOLDEN[name]) == expected, "a template changed: read the diff, then run 'make golden'"


def test_there_are_no_other_golden_files():
    assert {path.name for path in FOLDER.iterdir()} == set(GOLDEN)


def test_golden_files_can_be_read():
    lines = [line for path in FOLDER.iterdir() for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(lines) <= 20_000


@pytest.mark.parametrize(("variant", "tile"), MOST_LINES)
def test_a_kernel_fits_a_page(variant, tile):
    assert tiledmm.source(variant, tile=tile).count("\n") <= MOST_LINES[variant, tile]


@pytest.mark.parametrize("name", MOST_DIRECTIVES)
def test_a_template_reads_as_cuda_c(name):
    lines = (template_folder() / name).read_text(encoding="utf-8").splitlines()
    assert sum(line.startswith("//%") for line in lines) <= MOST_DIRECTIVES[name]


#: Where a template's values become those of CUDA C.
PARAMETER = re.compile(r"(?:\[\[maybe_unused\]\] )?(?:constexpr \w+ \w+ =|using \w+ =|#define \w+) ")

#: Headers that also fill in what varies inside of a definition: operands of PTX, tables, and what an epilogue adds.
FILLED_IN = {"elements.cuh.j2", "epilogue.cuh.j2", "matrices.cuh.j2", "residues.cuh.j2", "wgmma_multiply.cuh.j2"}


def test_values_stand_in_parameter_blocks():
    elsewhere = set()
    for path in template_folder().iterdir():
        before, _, kernel = path.read_text(encoding="utf-8").partition("\n// Computes ")
        lines = [line for line in before.splitlines() if not PARAMETER.match(line)] + kernel.splitlines()
        if any("{{" in line and not line.startswith("// ") for line in lines):
            elsewhere.add(path.name)
    assert elsewhere == FILLED_IN


def test_a_kernel_of_tensor_cores_fits_a_page():
    text = tiledmm.source("wgmma", dtype="float16")
    assert text.count("\n") <= 720 and page_of(text).count("\n") <= 320


@pytest.mark.parametrize("row", kernel_variants(), ids=lambda row: row.name)
def test_nothing_is_there_that_does_nothing(row):
    text = render(kernel_spec(row).kernel)
    assert "? 1 : 1" not in text and "PAD = 0" not in text
    assert not re.search(r"\n{3}", text)


def test_rendering_shows_no_trace_of_jinja_and_needs_no_header():
    for name, (spec, _) in GOLDEN.items():
        text = render(spec.kernel)
        assert not re.search(r"\{\{|\}\}|\{%|%\}|^\s*//%|^//</?header>|#include", text, re.MULTILINE), name
        assert text.count('extern "C" __global__') == 1, name


@pytest.mark.parametrize("row", general_variants(), ids=lambda row: row.name)
def test_every_template_says_what_it_is(row):
    text = render(kernel_spec(row))
    for heading in (
        f"// {'warp_tiled' if row.name == 'thin' else row.name}: ",
        "// Computes  C = A @ B",
        "// Launch ",
        "// Requires  ",
        "// Source ",
    ):
        assert heading in text, heading


@pytest.mark.parametrize("row", general_variants(), ids=lambda row: row.name)
def test_every_barrier_says_why(row):
    for line in render(kernel_spec(row)).splitlines():
        if re.search(r"__sync(?:threads|warp)\(\);", line):
            assert re.search(r"__sync(?:threads|warp)\(\);\s+// \S", line), line


def test_inline_ptx_stands_in_headers_only():
    with_ptx = {path.name for path in template_folder().iterdir() if re.search(r"\basm\b", path.read_text())}
    assert with_ptx == {"ptx.cuh", "tensor_cores.cuh", "hopper.cuh", "wgmma_multiply.cuh.j2"}


def test_registers_of_pending_products_are_fenced():
    text = render(kernel_spec("wgmma", dtype="tf32", layout="TN").kernel)
    loop = text[text.index("// mainloop") : text.index("// epilogue")]
    order = [
        r"load_fragment_a\(frag_a\[half\]",
        r"fence_registers\(frag_a\[half\]\)",
        r"wgmma_fence",
        r"mma\(",
        r"wgmma_wait<1>",
        r"fence_registers\(frag_a\[1 - half\]\)",
        r"wgmma_wait<0>",
        r"fence_registers\(frag_a\[1\]\)",
    ]
    assert re.search(".*".join(order), loop, re.DOTALL)


@pytest.mark.parametrize("call", ["wgmma_fence", "wgmma_wait"])
def test_lanes_converge_before_what_takes_all_of_a_warp(call):
    text = render(kernel_spec("wgmma").kernel)
    body = text[text.index(f"void {call}(") :].partition("\n}\n")[0]
    assert body.index("__syncwarp();") < body.index(".sync.aligned")


def test_symbols_tell_kernels_apart():
    specs = {
        kernel_spec(row, tile=tile, dtype=dtype, layout=layout)
        for row in general_variants()
        for tile in row.tiles or (None,)
        for dtype in ELEMENTS
        for layout in ("NN", "NT", "GT")
    }
    for a, b, c, compute in itertools.product(("float32", "float64", "int16"), repeat=4):
        with contextlib.suppress(UnsupportedTypeError):
            specs.add(kernel_spec("tiled", dtype=compute, a_dtype=a, b_dtype=b, out_dtype=c))
    whole = kernel_spec("warp_tiled", tile=64)
    specs.add(replace(whole, config=replace(whole.config, triangle=1)))
    of_complex = kernel_spec("warp_tiled", tile=64, dtype="complex64", config={"triangle": 1})
    specs |= {replace(of_complex, conjugates=each, hermitian=each == "b") for each in ("", "a", "b", "ab")}
    specs.add(replace(of_complex, hermitian=True))
    assert len({s.symbol for s in specs}) == len(specs)
    mixed = kernel_spec("tiled", a_dtype="int8", b_dtype="float16", out_dtype="float64")
    assert mixed.symbol == "tiledmm_tiled_i8_f16_f32_f64_32x32x32_nn"
    assert kernel_spec("tiled_padded", tile=16).symbol == "tiledmm_tiled_padded_f32_16x16x16_nn"


def test_a_page_is_the_text_without_its_headers():
    text, page = tiledmm.source("tiled", tile=16), tiledmm.source("tiled", tile=16, page=True)
    assert text.endswith(page) and page.startswith("#define KERNEL tiledmm_tiled_f32_16x16x16_nn\n")
    assert "struct Problem" in text and "struct Problem" not in page and 'extern "C" __global__' in page


def test_source_reaches_the_same_text_through_the_api():
    assert tiledmm.source("tiled", tile=8, layout="TN") == render(kernel_spec("tiled", tile=8, layout="TN"))


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"variant": "tilde"}, UnknownVariantError),
        ({"variant": "tiled", "tile": 12}, ConfigError),
        ({"variant": "naive", "tile": 16}, ConfigError),
        ({"variant": "cublas"}, ConfigError),
        ({"variant": "tiled", "layout": "NX"}, ShapeError),
        ({"variant": "tiled", "layout": 'N"'}, ShapeError),
        ({"variant": "tiled", "dtype": "float32; }"}, UnsupportedTypeError),
        ({"variant": "tiled", "dtype": "float32", "a_dtype": "complex64"}, UnsupportedTypeError),
        ({"variant": "tiled", "tile": "16; }"}, ConfigError),
    ],
)
def test_only_closed_sets_reach_a_template(arguments, error):
    with pytest.raises(error):
        tiledmm.source(**arguments)


def test_an_undefined_name_in_a_template_is_an_error():
    template = codegen._environment(None).from_string("constexpr int BM = {{ bn_misspelled }};")
    with pytest.raises(jinja2.UndefinedError):
        template.render()


def test_a_variant_for_some_types_says_which():
    assert "tiledmm_tensor_core_f16_" in tiledmm.source("tensor_core")
    with pytest.raises(UnsupportedTypeError, match=r"float16, .*complex128.*float32"):
        tiledmm.source("tensor_core", dtype="float32")
    assert "tensor_core" not in {row.name for row in general_variants()}
    assert "tensor_core" in {row.name for row in kernel_variants("int8")}
