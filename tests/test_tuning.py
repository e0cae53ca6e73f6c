"""The table of what was measured, and the search that fills it, as far as they go without a GPU."""

from __future__ import annotations

import json
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
from tests.test_selection import product
from tiledmm.bench import timing
from tiledmm.errors import ConfigError
from tiledmm.problem.operands import Array, Product, resolve
from tiledmm.selection import tuned
from tiledmm.selection.model import H100, Model
from tiledmm.selection.select import AUTO, select
from tiledmm.tuning import tune as tuning

WANTED = product(1000, 900, 5000)
MADE_UP = Model(replace(H100.gpu, name="made up"))

ENTRY = tuned.Entry(
    product=tuned.describe_product(WANTED),
    compute="float32",
    variant="warp_tiled",
    transposed=False,
    numbers={"bn": 128, "wn": 64, "tn": 8, "split_k": 6},
    microseconds=90.0,
    model_microseconds=100.0,
)


# Of what is proposed for one product, what is quick on the device that is made up.
QUICK = [
    each.specialization
    for each in tuning.proposals(product(40, 50, 700), 30)
    if each.specialization.variant.name == "warp_tiled"
][-1]


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
    tuned.write(path, {ENTRY.product: ENTRY})
    assert tuned.read(path) == {ENTRY.product: ENTRY}
    assert tuned.table_of("NVIDIA H100 80GB HBM3") == {ENTRY.product: ENTRY}
    tuned.write(path, {})
    assert tuned.table_of("NVIDIA H100 80GB HBM3") == {}, "read anew once it is written"
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_auto_takes_what_is_in_the_table() -> None:
    table = {ENTRY.product: ENTRY}
    choice = select(AUTO, None, WANTED, table=table)
    assert choice.microseconds == 90.0
    config = choice.specialization.config
    assert (config.bn, config.launch.split_k, choice.specialization.variant.name) == (128, 6, "warp_tiled")
    assert select(AUTO, None, product(1000, 900, 5001), table=table) == select(AUTO, None, product(1000, 900, 5001))
    turned = select(AUTO, None, WANTED, table={ENTRY.product: replace(ENTRY, transposed=True)})
    assert turned.product == WANTED.transposed()


def test_a_part_of_c_is_kept_and_the_model_does_the_others(path: Path) -> None:
    entry = replace(ENTRY, transposed=True, cut=(896, 512))
    tuned.write(path, {ENTRY.product: entry})
    assert tuned.read(path) == {ENTRY.product: entry}
    choice = select(AUTO, None, WANTED, table=tuned.read(path))
    assert choice.cut == (896, 512)
    assert [(each.product.problem.m, each.product.problem.n) for each in choice.parts] == [
        (896, 512), (896, 488), (4, 1000),
    ]  # fmt: skip


def test_a_triangle_is_for_a_symmetric_c(path: Path) -> None:
    wanted = replace(product(900, 900, 50, layout="NT"), symmetric=True)
    numbers = {"bn": 128, "wn": 64, "tn": 8, "triangle": 1}
    entry = replace(ENTRY, product=tuned.describe_product(wanted), numbers=numbers)
    tuned.write(path, {entry.product: entry})
    chosen = select(AUTO, None, wanted, table=tuned.read(path))
    assert chosen.specialization.config.triangle == 1
    plain = select(AUTO, None, replace(wanted, symmetric=False), table=tuned.read(path))
    assert plain.specialization.config.triangle == 0


def views(*strides: tuple[int, int], dtypes: tuple[str, str] = ("f4", "f4")) -> Product:
    """A product of matrices whose rows begin so many elements apart, (8, 4) and (4, 12)."""
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
    """Rows are aligned (a) where each begins at a multiple of 16 bytes, as the widest loads have to."""
    assert tuned.describe_product(wanted) == name


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
    ("text", "message"),
    [
        ("", "not a table"),
        ("[]", "not a table"),
        ('{"format": 99, "entries": []}', "format 99, not 1"),
        ('{"format": 1, "entries": {}}', "not a table"),
        ("\xff\xfe", "not a table"),
    ],
)
def test_a_broken_file_is_reported_and_ignored(path: Path, text: str, message: str) -> None:
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")
    with pytest.warns(UserWarning, match=message):
        assert tuned.read(path) == {}


@pytest.mark.parametrize(
    "change",
    [
        {"variant": "nope"},
        {"variant": "cublas"},
        {"numbers": {"bm": 7}},
        {"numbers": {"nope": 7}},
        {"numbers": [1]},
        {"compute": "float17"},
        {"turned": 1},
        {"product": 5},
        {"microseconds": -1.0},
        {"microseconds": "fast"},
        {"extra": 1},
        {"cut": [1000, 900]},
        {"cut": [1001, 5]},
        {"cut": [0, 900]},
        {"cut": [900, 1000], "turned": True},
        {"cut": [1.5, 900]},
        {"cut": 5},
        {"numbers": {"bn": 128, "wn": 64, "tn": 8, "triangle": 1}},
        {"cut": [512, 512], "product": "of no sizes"},
    ],
    ids=lambda change: str(change),
)
def test_a_broken_entry_is_reported_and_the_others_kept(path: Path, change: dict[str, Any]) -> None:
    path.parent.mkdir()
    rows = [asdict(ENTRY) | change, asdict(ENTRY)]
    path.write_text(json.dumps({"format": 1, "entries": rows}), encoding="utf-8")
    with pytest.warns(UserWarning, match="is not valid and is ignored"):
        assert tuned.read(path) == {ENTRY.product: ENTRY}


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
    assert len({(each.specialization, each.product) for each in found}) == len(found) > 5
    assert len(found) <= 40
    assert len(tuning.proposals(wanted, 3)) == 3
    best = found[0].microseconds or 0.0
    assert all((each.microseconds or 0.0) <= 2 * best for each in found)
    worth_a_try = [each for each in H100.rank(wanted) if (each.microseconds or 0.0) <= 2 * best]
    assert len(worth_a_try) < len(found), "variations come on top"


def test_what_is_asked_of_the_search_is_checked() -> None:
    with pytest.raises(ConfigError, match="trials is at least 1"):
        tiledmm.tune([(5, 5, 5)], trials=0)


def test_without_a_table_nothing_is_said(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tuned.read(path) == {}


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch, path: Path) -> list[str]:
    """A device that is made up: kernels that spill, that are wrong, and one that is quick. Returns what was run."""
    ran: list[str] = []
    products: dict[int, np.ndarray] = {}

    class Plan:
        def __init__(self, choice: Any) -> None:
            self.spec = choice.specialization

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
        ("devices", SimpleNamespace(device_model=lambda decomposes=True: MADE_UP)),
        ("launch", SimpleNamespace(Plan=Plan)),
        ("compile.compilation", SimpleNamespace(compiled=compiled)),
        ("bench.comparison", SimpleNamespace(operand_sets=operand_sets)),
    ):
        monkeypatch.setitem(sys.modules, f"tiledmm.{name}", module)
    monkeypatch.setattr(timing, "DeviceClock", lambda: timing.HostClock(lambda: None))
    return ran


def test_tune_keeps_the_fastest_that_is_right(device: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    (entry,) = tiledmm.tune([(40, 50, 700)], trials=30, seconds=0.004, progress=False)
    plain = QUICK.variant.config(None, QUICK.compute).as_dict()
    assert (entry.variant, plain | entry.numbers) == ("warp_tiled", QUICK.config.as_dict())
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


def test_tune_says_so_where_nothing_is_right(device: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "proposals", lambda product, trials, model: [select("double_buffered", None, product)])
    with pytest.raises(ConfigError, match="no kernel of 32 gives the right result"):
        tiledmm.tune([(40, 50, 700)], progress=False)
    assert tuned.table_of("made up") == {}, "and nothing is entered"


def test_there_must_be_something_to_tune(device: list[str]) -> None:
    with pytest.raises(ConfigError, match="nothing to tune"):
        tiledmm.tune([(5, 0, 5)], progress=False)


def test_a_table_is_written_to_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    path = tmp_path / "some" / "where" / "gpu.json"
    tuned.write(path, {})
    assert tuned.read(path) == {}
