"""Tests of the table of tuned kernels and of the search that fills it, as far as they need no GPU."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import time
import warnings
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import tiledmm
from tests.selection.test_selection import product
from tiledmm.bench import timing
from tiledmm.codegen import kernel_hash, rendering
from tiledmm.codegen.rendering import render
from tiledmm.codegen.template_files import template_folder
from tiledmm.elements import ELEMENTS
from tiledmm.errors import ConfigError
from tiledmm.problem.arrays import Array
from tiledmm.problem.keywords import AUTO
from tiledmm.problem.product import Product, resolve
from tiledmm.selection import tuned
from tiledmm.selection.choose import select
from tiledmm.selection.model import H100, Model
from tiledmm.tuning import tune as tuning

WANTED = product(1000, 900, 5000)
MADE_UP = Model(replace(H100.gpu, name="made up"))

ENTRY = tuned.stamped(
    tuned.Entry(
        product=tuned.describe_product(WANTED),
        compute="float32",
        variant="warp_tiled",
        transposed=False,
        overrides={"bn": 128, "wn": 64, "tn": 8, "split_k": 6},
        microseconds=90.0,
        model_microseconds=100.0,
    )
)
OTHER = tuned.stamped(replace(ENTRY, product=tuned.describe_product(product(64, 32, 16)), overrides={}))


# The proposal for one product that is quick on the device that is made up.
QUICK = [each.spec for each in tuning.proposals(product(40, 50, 700), 30) if each.spec.variant.name == "warp_tiled"][-1]


class Operands(NamedTuple):
    a: Any
    b: Any
    c: Any


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILEDMM_CACHE_DIR", str(tmp_path))
    return tuned.path_of("NVIDIA H100 80GB HBM3")


def test_a_device_has_a_file_of_its_own(path: Path, tmp_path: Path) -> None:
    assert path == tmp_path / "tuned" / "nvidia-h100-80gb-hbm3.json"


def test_what_is_written_is_read(path: Path) -> None:
    assert tuned.read(path) == {}
    tuned.add(path, ENTRY)
    assert tuned.read(path) == {ENTRY.product: ENTRY}
    assert tuned.table_of("NVIDIA H100 80GB HBM3") == {ENTRY.product: ENTRY}
    tuned.add(path, OTHER)
    table = tuned.table_of("NVIDIA H100 80GB HBM3")
    assert table == {ENTRY.product: ENTRY, OTHER.product: OTHER}, "read again once it is written"
    faster = replace(ENTRY, microseconds=45.0)
    tuned.add(path, faster)
    assert tuned.read(path) == {OTHER.product: OTHER, ENTRY.product: faster}
    assert {file.name for file in path.parent.iterdir()} <= {path.name, path.with_suffix(".lock").name}


_WRITER = """
import sys
from dataclasses import replace
from pathlib import Path
from tests.tuning.test_tuning import ENTRY
from tiledmm.selection import tuned

for i in range(10):
    tuned.add(Path(sys.argv[1]), replace(ENTRY, product=f"{ENTRY.product.rsplit(' ', 1)[0]} {sys.argv[2]}{i}"))
"""


def test_searches_at_the_same_time_lose_no_row(path: Path) -> None:
    """Check that rows are kept which another process adds while this one does."""
    environment = {**os.environ, "PYTHONPATH": search_path()}
    with subprocess.Popen([sys.executable, "-c", _WRITER, path, "1"], env=environment) as writer:
        while not path.exists():
            assert writer.poll() is None, "it writes nothing"
            time.sleep(0.01)
        for i in range(10):
            tuned.add(path, replace(ENTRY, product=f"{ENTRY.product.rsplit(' ', 1)[0]} 2{i}"))
        assert writer.wait(60) == 0
    assert len(tuned.read(path)) == 20


def search_path() -> str:
    """Return this process's import path, for another process."""
    return os.pathsep.join(sys.path)


def test_a_row_that_this_process_cannot_read_stays(path: Path) -> None:
    tuned.add(path, ENTRY)
    data = json.loads(path.read_text())
    unknown = {"product": "of another version", "since": 2030}
    path.write_text(json.dumps(data | {"entries": [*data["entries"], unknown]}))
    tuned.add(path, OTHER)
    assert unknown in json.loads(path.read_text())["entries"]


@pytest.mark.parametrize("text", ['{"format": 1, "entries": [{"overrides": {}}]}', '{"format": 99}', "torn"])
def test_a_file_of_another_format_is_kept(path: Path, text: str) -> None:
    path.parent.mkdir()
    for i in (1, 2):
        path.write_text(text)
        tuned.add(path, ENTRY)
        assert tuned.read(path) == {ENTRY.product: ENTRY}
        assert path.with_name(f"{path.name}.old{i}").read_text() == text


def test_a_row_tells_what_was_measured() -> None:
    assert ENTRY.version == tiledmm.__version__
    assert re.fullmatch("[0-9a-f]{12}", ENTRY.kernel)
    assert tuned.stamped(replace(ENTRY, overrides={})).kernel != ENTRY.kernel
    assert tuned.stamped(replace(ENTRY, transposed=True)).kernel != ENTRY.kernel, "a kernel for TT"
    assert tuned.stamped(replace(ENTRY, microseconds=1.0)).kernel == ENTRY.kernel


@pytest.mark.parametrize("layout", ["NN", "NT", "TN"])
@pytest.mark.parametrize("transposed", [False, True])
def test_a_row_has_the_hash_of_the_kernel_that_is_launched(layout: str, transposed: bool) -> None:
    strides = {"NN": ((4, 1), (12, 1)), "NT": ((4, 1), (1, 4)), "TN": ((1, 8), (12, 1))}[layout]
    wanted = views(*strides, dtypes=("f4", "f2"))
    entry = replace(ENTRY, product=tuned.describe_product(wanted), transposed=transposed, overrides={})
    entry = tuned.stamped(entry)
    choice = select(AUTO, None, wanted, table={entry.product: entry})
    assert choice.microseconds == entry.microseconds and choice.product.is_transposed is transposed
    assert entry.kernel == kernel_hash.kernel_hash([choice.spec.kernel])


def test_a_row_whose_kernel_has_changed_is_ignored(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that rows become invalid with the kernel's text, except for its comments and blank lines."""
    of_the_model = select(AUTO, None, WANTED)
    tuned.add(path, ENTRY)
    monkeypatch.setattr(tuned, "__version__", "9.9.9")
    with monkeypatch.context() as patch:
        patch.setattr(rendering, "render", lambda spec: f"// 9.9.9\n\n{render(spec)}/* another\ncomment */\n")
        kernel_hash._code.cache_clear()
        assert select(AUTO, None, WANTED, table=tuned.read(path)).microseconds == 90.0
    with monkeypatch.context() as patch:
        patch.setattr(rendering, "render", lambda spec: render(spec) + "#define CHANGED")
        kernel_hash._code.cache_clear()
        table = tuned.read(path)
        assert table == {ENTRY.product: ENTRY}, "nothing is rendered when a table is read"
        with pytest.warns(UserWarning, match=rf"{re.escape(ENTRY.version)} .*9\.9\.9.*tiledmm\.tune"):
            assert select(AUTO, None, WANTED, table=table) == of_the_model
    kernel_hash._code.cache_clear()


def former(entry: tuned.Entry, kernel: str) -> dict[str, Any]:
    """Return a row of format 2, whose hash includes comments."""
    text = render(tuned._spec(entry).kernel).replace(tiledmm.__version__, "")
    return asdict(entry) | {"kernel": kernel or hashlib.sha256(text.encode()).hexdigest()[:12]}


def test_a_table_of_the_former_format_keeps_its_rows(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.parent.mkdir()
    rows = [former(ENTRY, ""), former(OTHER, "0" * 12), {"product": "of a later version"}]
    path.write_text(json.dumps({"format": 2, "entries": rows}), encoding="utf-8")
    with pytest.warns(UserWarning):
        table = tuned.read(path)
    assert table == {ENTRY.product: ENTRY, OTHER.product: replace(OTHER, kernel="0" * 12)}
    assert not tuned.is_current(table[OTHER.product]), "a kernel that had changed stays one"
    written = json.loads(path.read_text(encoding="utf-8"))
    assert written["format"] == 3 and written["entries"][2] == rows[2], "nothing is lost"
    # Written at once: the hash of the former format could not be compared once a comment has changed.
    kernel_hash._code.cache_clear()
    monkeypatch.setattr(rendering, "render", lambda spec: render(spec) + "// a comment")
    with pytest.warns(UserWarning):
        assert tuned.is_current(tuned.read(path)[ENTRY.product])
    kernel_hash._code.cache_clear()


def test_a_former_table_that_cannot_be_written_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.parent.mkdir()
    path.write_text(json.dumps({"format": 2, "entries": [former(ENTRY, "")]}), encoding="utf-8")

    def refuse(*arguments: Any) -> None:
        raise PermissionError

    monkeypatch.setattr(tuned, "_rewrite", refuse)
    assert tuned.read(path) == {ENTRY.product: ENTRY}


def test_many_rows_whose_kernels_have_changed_are_one_warning() -> None:
    changed = [replace(each, kernel="0" * 12) for each in (ENTRY, OTHER)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        assert not any(map(tuned.has_its_kernel, [*changed, *changed]))
        assert not tuned.has_its_kernel(changed[0])
    assert len(caught) == 1


def test_a_row_whose_variant_was_unregistered_is_left_to_the_model(tmp_path: Path) -> None:
    template = tmp_path / "mine.cu.j2"
    template.write_text((template_folder() / "naive.cu.j2").read_text())
    tiledmm.register(template, name="mine", like="naive")
    try:
        entry = tuned.stamped(replace(ENTRY, variant="mine", overrides={}))
        assert tuned.has_its_kernel(entry)
    finally:
        tiledmm.unregister("mine")
    assert select(AUTO, None, WANTED, table={entry.product: entry}) == select(AUTO, None, WANTED)


def test_auto_takes_what_is_in_the_table() -> None:
    table = {ENTRY.product: ENTRY}
    choice = select(AUTO, None, WANTED, table=table)
    assert choice.microseconds == 90.0
    config = choice.spec.config
    assert (config.bn, config.launch.split_k, choice.spec.variant.name) == (128, 6, "warp_tiled")
    assert select(AUTO, None, product(1000, 900, 5001), table=table) == select(AUTO, None, product(1000, 900, 5001))
    transposed = tuned.stamped(replace(ENTRY, transposed=True))
    assert select(AUTO, None, WANTED, table={ENTRY.product: transposed}).product == WANTED.transposed()


def test_a_part_of_c_is_kept_and_the_model_does_the_others(path: Path) -> None:
    entry = tuned.stamped(replace(ENTRY, transposed=True, cut=(896, 512)))
    tuned.add(path, entry)
    assert tuned.read(path) == {ENTRY.product: entry}
    choice = select(AUTO, None, WANTED, table=tuned.read(path))
    assert choice.cut == (896, 512)
    assert [(each.product.problem.m, each.product.problem.n) for each in choice.parts] == [
        (896, 512), (896, 488), (4, 1000),
    ]  # fmt: skip


def test_a_triangle_is_for_a_symmetric_c(path: Path) -> None:
    wanted = replace(product(900, 900, 50, layout="NT"), symmetric=True)
    overrides = {"bn": 128, "wn": 64, "tn": 8, "triangle": 1}
    entry = tuned.stamped(replace(ENTRY, product=tuned.describe_product(wanted), overrides=overrides))
    tuned.add(path, entry)
    chosen = select(AUTO, None, wanted, table=tuned.read(path))
    assert chosen.spec.config.triangle == 1
    plain = select(AUTO, None, replace(wanted, symmetric=False), table=tuned.read(path))
    assert plain.spec.config.triangle == 0


def views(*strides: tuple[int, int], dtypes: tuple[str, str] = ("f4", "f4")) -> Product:
    """Describe a product of matrices (8, 4) and (4, 12) with these strides, in elements."""
    one, other = (
        Array(shape, tuple(np.dtype(dtype).itemsize * stride for stride in each), np.dtype(dtype))
        for shape, each, dtype in zip(((8, 4), (4, 12)), strides, dtypes, strict=True)
    )
    return resolve(one, other)


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        (WANTED, "f32_f32_f32_f32 NN aa 1 x 1000 x 900 x 5000"),
        (product(1000, 900, 5000, batch=7), "f32_f32_f32_f32 NN aa 7 x 1000 x 900 x 5000"),
        (product(8, 5, 6, layout="NT", dtype="int8"), "i8_i8_i8_i8 NT uu 1 x 8 x 5 x 6"),
        (replace(product(16, 16, 4, layout="NT"), symmetric=True), "f32_f32_f32_f32 NT= aa 1 x 16 x 16 x 4"),
        (views((4, 1), (12, 1)), "f32_f32_f32_f32 NN aa 1 x 8 x 12 x 4"),
        (views((4, 1), (14, 1)), "f32_f32_f32_f32 NN au 1 x 8 x 12 x 4"),
        (views((6, 1), (12, 1)), "f32_f32_f32_f32 NN ua 1 x 8 x 12 x 4"),
        (views((1, 8), (1, 5)), "f32_f32_f32_f32 TT au 1 x 8 x 12 x 4"),
        (views((1, 10), (1, 4)), "f32_f32_f32_f32 TT ua 1 x 8 x 12 x 4"),
        (views((6, 1), (12, 1), dtypes=("f8", "f4")), "f64_f32_f64_f64 NN aa 1 x 8 x 12 x 4"),
        (views((4, 1), (12, 1), dtypes=("f4", "f2")), "f32_f16_f32_f32 NN au 1 x 8 x 12 x 4"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_product_has_the_name_that_files_have(wanted: Product, name: str) -> None:
    """Check names of products, in which "a" marks rows that begin at multiples of 16 bytes."""
    assert tuned.describe_product(wanted) == name


def test_each_type_is_part_of_a_products_name() -> None:
    types = {"a": "f32", "b": "i8", "compute": "f64", "c": "f16"}
    by_name = {each.name: each for each in ELEMENTS.values()}
    wanted = replace(WANTED, **{role: by_name[name] for role, name in types.items()})
    assert tuned.describe_product(wanted).startswith("f32_i8_f64_f16 ")
    one, other = (views((4, 1), (12, 1)), resolve(*(
        Array(x, (4 * x[1], 4), np.dtype("f4")) for x in ((8, 4), (4, 12))
    ), out=Array((8, 12), (96, 8), np.dtype("f8"))))  # fmt: skip
    assert tuned.describe_product(other) == "f32_f32_f32_f64 NN aa 1 x 8 x 12 x 4" != tuned.describe_product(one)


def test_products_that_lie_otherwise_are_others() -> None:
    names = {
        tuned.describe_product(each)
        for each in (
            WANTED, product(1000, 900, 5000, layout="NT"), product(1000, 900, 5000, dtype="float64"),
            product(1000, 900, 5000, batch=2), product(1000, 901, 5000),
        )
    }  # fmt: skip
    names.add(tuned.describe_product(replace(product(1000, 1000, 50, layout="NT"), symmetric=True)))
    names.add(tuned.describe_product(product(1000, 1000, 50, layout="NT")))
    assert len(names) == 7


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ""),
        ("[]", ""),
        ('{"format": 1, "entries": []}', "1.*3"),
        ('{"format": 99, "entries": []}', "99.*3"),
        ('{"format": 2, "entries": {}}', ""),
        ("\xff\xfe", ""),
    ],
)
def test_a_broken_file_is_reported_and_ignored(path: Path, text: str, names: str) -> None:
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")
    with pytest.warns(UserWarning, match=names):
        assert tuned.read(path) == {}


@pytest.mark.parametrize(
    "change",
    [
        {"variant": "nope"},
        {"variant": "cublas"},
        {"overrides": {"bm": 7}},
        {"overrides": {"nope": 7}},
        {"overrides": [1]},
        {"compute": "float17"},
        {"transposed": 1},
        {"product": 5},
        {"product": "f32_f99_f32_f32 NN aa 1 x 1000 x 900 x 5000"},
        {"product": "f32_f32_f32_f32 XY aa 1 x 1000 x 900 x 5000"},
        {"microseconds": -1.0},
        {"microseconds": -0.5},
        {"microseconds": 0.0},
        {"microseconds": float("inf")},
        {"microseconds": float("nan")},
        {"microseconds": "fast"},
        {"extra": 1},
        {"cut": [1000, 900]},
        {"cut": [1001, 5]},
        {"cut": [0, 900]},
        {"cut": [900, 1000], "transposed": True},
        {"cut": [1.5, 900]},
        {"cut": 5},
        {"overrides": {"bn": 128, "wn": 64, "tn": 8, "triangle": 1}},
        {"cut": [512, 512], "product": "of no sizes"},
    ],
    ids=lambda change: str(change),
)
def test_a_broken_entry_is_reported_and_the_others_kept(path: Path, change: dict[str, Any]) -> None:
    path.parent.mkdir()
    rows = [asdict(ENTRY) | change, asdict(ENTRY)]
    path.write_text(json.dumps({"format": 3, "entries": rows}), encoding="utf-8")
    with pytest.warns(UserWarning) as warned:
        assert tuned.read(path) == {ENTRY.product: ENTRY}
    assert {each.filename for each in warned} == {__file__}, "who reads the table"


@pytest.mark.parametrize(
    "change",
    [
        {"microseconds": 0.5}, {"cut": (1, 1)}, {"cut": (1000, 899)}, {"cut": (999, 900)},
        {"cut": (900, 999), "transposed": True},
    ],
)  # fmt: skip
def test_an_entry_of_any_time_and_part_is_read(path: Path, change: dict[str, Any]) -> None:
    entry = replace(ENTRY, **change)
    tuned.add(path, entry)
    assert tuned.read(path) == {ENTRY.product: entry}


@pytest.mark.parametrize(
    ("sizes", "keywords"),
    [
        ((1000, 900, 5000), {}),
        ((1, 4096, 4096), {"layout": "NT"}),
        ((64, 64, 65536), {}),
        ((512, 512, 512), {"dtype": "int8"}),
    ],
)
def test_proposals_begin_with_the_models_choice_and_are_kernels(sizes: Any, keywords: Any) -> None:
    wanted = product(*sizes, **keywords)
    found = tuning.proposals(wanted, 40)
    assert found[0] == select(AUTO, None, wanted)
    assert len({(each.spec, each.product) for each in found}) == len(found) > 5
    assert len(found) <= 40
    assert len(tuning.proposals(wanted, 3)) == 3
    best = found[0].microseconds or 0.0
    assert all((each.microseconds or 0.0) <= 2 * best for each in found)
    worth_a_try = [each for each in H100.rank(wanted) if (each.microseconds or 0.0) <= 2 * best]
    assert len(worth_a_try) < len(found), "variations come on top"


def test_what_is_asked_of_the_search_is_checked() -> None:
    with pytest.raises(ConfigError, match="trials"):
        tiledmm.tune([(5, 5, 5)], trials=0)


def test_without_a_table_nothing_is_said(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tuned.read(path) == {}


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch, path: Path) -> list[str]:
    """Make up a device with kernels that spill, a wrong one and a fast one, and record what is run."""
    ran: list[str] = []
    products: dict[int, np.ndarray] = {}

    class Plan:
        def __init__(self, choice: Any) -> None:
            self.spec = choice.spec

        def run(self, a: Any, b: Any, c: Any) -> None:
            ran.append(self.spec.variant.name)
            if id(a) not in products:  # multiplying takes long enough to be mistaken for a slow kernel
                products[id(a)] = a @ b
            c[...] = products[id(a)]
            if self.spec.variant.name == "double_buffered":
                c[0, 0] += 1
            time.sleep(0 if self.spec == QUICK else 0.002)

    def operand_sets(size: Any, dtype: str, layout: str) -> list[Any]:
        products.clear()
        rng = np.random.default_rng(0)
        a, b = (rng.standard_normal(shape, np.float32) for shape in ((size.m, size.k), (size.k, size.n)))
        return [Operands(a, b, np.empty((size.m, size.n), np.float32))]

    def compiled(spec: Any) -> Any:
        return SimpleNamespace(local_bytes=8 if spec.variant.name == "thin" else 0)

    for name, module in (
        ("launch.devices", SimpleNamespace(device_model=lambda ieee=False: MADE_UP)),
        ("launch.plan", SimpleNamespace(Plan=Plan)),
        ("compile.compilation", SimpleNamespace(compiled=compiled)),
        ("bench.operand_sets", SimpleNamespace(operand_sets=operand_sets)),
    ):
        monkeypatch.setitem(sys.modules, f"tiledmm.{name}", module)
    monkeypatch.setattr(timing, "DeviceClock", lambda: timing.HostClock(lambda: None))
    return ran


def test_tune_keeps_the_fastest_that_is_right(device: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    (entry,) = tiledmm.tune([(40, 50, 700)], trials=30, seconds=0.004, progress=False)
    plain = QUICK.variant.config(None, QUICK.compute).as_dict()
    assert (entry.variant, plain | entry.overrides) == ("warp_tiled", QUICK.config.as_dict())
    assert entry.microseconds <= entry.model_microseconds
    assert "thin" not in device, "it spills"
    assert tuned.table_of("made up") == {entry.product: entry}
    device.clear()
    both = tiledmm.tune([(40, 50, 700), (9, 8, 7)], trials=2, seconds=0.001)
    assert both[0] == entry
    assert len(tuned.table_of("made up")) == 2, "the first was there"
    assert (
        tiledmm.tune([(40, 50, 700)], trials=30, seconds=0.002, again=True, progress=False)[0].product == entry.product
    )


def test_tune_leaves_out_what_has_no_room_for_its_workspace(device: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    plan, failed = sys.modules["tiledmm.launch.plan"].Plan, []

    class Plan(plan):  # type: ignore[misc, valid-type]
        def run(self, a: Any, b: Any, c: Any) -> None:
            if self.spec.config.launch.split_k > 1 and self.spec != QUICK:
                failed.append(self.spec)
                raise MemoryError("no room")
            super().run(a, b, c)

    monkeypatch.setattr(sys.modules["tiledmm.launch.plan"], "Plan", Plan)
    (entry,) = tiledmm.tune([(40, 50, 700)], trials=30, seconds=0.001, progress=False)
    assert failed and entry.variant == QUICK.variant.name


def test_tune_measures_again_what_has_changed(device: list[str]) -> None:
    (entry,) = tiledmm.tune([(40, 50, 700)], trials=30, seconds=0.001, progress=False)
    tuned.add(tuned.path_of("made up"), replace(entry, kernel="0" * 12))
    device.clear()
    (measured_again,) = tiledmm.tune([(40, 50, 700)], trials=30, seconds=0.001, progress=False)
    assert device and measured_again.kernel != "0" * 12
    assert tuned.is_current(measured_again)


def test_tune_says_so_where_nothing_is_right(device: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "proposals", lambda product, trials, model: [select("double_buffered", None, product)])
    with pytest.raises(ConfigError, match="32"):
        tiledmm.tune([(40, 50, 700)], progress=False)
    assert tuned.table_of("made up") == {}, "and nothing is entered"


def test_there_must_be_something_to_tune(device: list[str]) -> None:
    with pytest.raises(ConfigError):
        tiledmm.tune([(5, 0, 5)], progress=False)


def test_a_table_is_written_to_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    path = tmp_path / "some" / "where" / "gpu.json"
    tuned.add(path, ENTRY)
    assert tuned.read(path) == {ENTRY.product: ENTRY}
