"""Tests that each line of a rendered kernel maps to the template and line that it comes from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tiledmm
from tests.conftest import slow_unless
from tests.golden import renderings
from tiledmm.codegen.rendering import render
from tiledmm.codegen.source_map import source_places
from tiledmm.codegen.template_files import template_folder
from tiledmm.kernels.spec import KernelSpec
from tiledmm.kernels.variants import kernel_spec
from tiledmm.simulator.build.source_map import SourceMap

KERNELS = {spec.symbol: spec for pair in renderings().values() for spec in [pair[0].kernel]}

# Those of each variant's default tile.
DEFAULTS = [name for name, spec in KERNELS.items() if spec.config == kernel_spec(spec.variant).kernel.config]


def pattern_of(line: str) -> str:
    """Return a pattern of what a template's line may become; tree shaking may change a struct member's indentation."""
    parts = re.split(r"(\s*\{[{%].*?[}%]\}\s*)", line)
    return "".join(".*" if part.lstrip().startswith(("{{", "{%")) else re.escape(part) for part in parts)


@pytest.mark.parametrize(
    "spec",
    [pytest.param(spec, id=name, marks=slow_unless(name in [*DEFAULTS][::2])) for name, spec in KERNELS.items()],
)
def test_each_line_is_what_becomes_of_its_line_in_a_template(spec: KernelSpec) -> None:
    places, lines = source_places(spec), render(spec).splitlines()
    own = []
    for place, line in zip(places, lines, strict=True):
        if place is None:
            assert not line.strip()
            continue
        name, number = place
        template = (template_folder() / name).read_text(encoding="utf-8").splitlines()
        assert re.fullmatch(pattern_of(template[number - 1].strip()), line.strip()), (place, line)
        if name == spec.variant.template:
            own.append(number)
    assert own and own == sorted(set(own))


def test_lines_of_headers_are_those_of_the_file() -> None:
    spec = kernel_spec("warp_tiled")
    found = {place[0] for place in source_places(spec) if place}
    assert {"preamble.cuh.j2", "elements.cuh.j2", "matrices.cuh.j2", "warp_tiled.cu.j2"} <= found
    text = render(spec).splitlines()
    line = next(i for i, line in enumerate(text, 1) if line.startswith("#define KERNEL "))
    header = (template_folder() / "preamble.cuh.j2").read_text(encoding="utf-8").splitlines()
    number = next(i for i, line in enumerate(header, 1) if line.startswith("#define KERNEL "))
    assert source_places(spec)[line - 1] == ("preamble.cuh.j2", number)


@pytest.fixture
def mine(tmp_path: Path) -> Iterator[Callable[[str], KernelSpec]]:
    """Return a function that registers naive's template, with text before it, as the variant ``mine``."""

    def register(before: str) -> KernelSpec:
        path = tmp_path / "mine.cu.j2"
        path.write_text(before + (template_folder() / "naive.cu.j2").read_text(encoding="utf-8"), encoding="utf-8")
        tiledmm.register(path, like="naive")
        return kernel_spec("mine")

    yield register
    tiledmm.unregister("mine")


def test_a_users_own_template(mine: Callable[[str], KernelSpec]) -> None:
    spec = mine("//% macro twice(word)\n// {{ word }}\n// {{ word }}\n//% endmacro\n{{ twice('x') }}\n//// end\n")
    found = SourceMap(source_places(spec))
    lines = {line: found.location(i) for i, line in enumerate(render(spec).splitlines(), 1)}
    assert [found.location(i) for i in (1, 2)] == ["mine.cu.j2:2", "mine.cu.j2:3"]
    assert lines["//// end"] == "mine.cu.j2:6"
    assert any(each.startswith("preamble.cuh.j2:") for each in lines.values())


def test_what_looks_at_its_own_text_is_named_by_the_rendering(mine: Callable[[str], KernelSpec]) -> None:
    spec = mine("//% filter upper\nx\n//% endfilter\n\n")
    assert SourceMap(source_places(spec)).location(7) == "rendered line 7"


def test_a_file_has_its_own_lines() -> None:
    found = SourceMap.of_file("mine.cu", "int a;\nint b;\n")
    assert [found.location(line) for line in (0, 1, 2, 3)] == [
        "an unknown line", "mine.cu:1", "mine.cu:2", "rendered line 3"
    ]  # fmt: skip
