"""Tests of replaced CuPy products on a device: the same results and errors, and a correct report."""

from __future__ import annotations

import json
import operator
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cupy
import numpy as np
import pytest

import tiledmm
from tests.gpu.device import SMALLEST, exact_product, matrix_layout, to_device, to_host
from tests.gpu.test_rejections import on_device
from tests.strategies import small_integers
from tests.test_operands import MISTAKES
from tiledmm.elements import ELEMENTS

ROOT = Path(__file__).resolve().parents[2]


def integers(*shape: int, dtype: Any = "f4", seed: int = 300) -> np.ndarray:
    return small_integers(np.random.default_rng(seed + sum(shape)), shape, dtype)


def into(a: Any, b: Any) -> Any:
    """Return a poisoned array for a product of matrices."""
    return cupy.full((a.shape[0], b.shape[1]), np.nan, np.float32)


# ---- what goes through ----

WAYS: dict[str, tuple[Callable[[Any, Any], Any], int]] = {
    "cupy.matmul": (lambda a, b: cupy.matmul(a, b), 1),
    "cupy.matmul, out": (lambda a, b: cupy.matmul(a, b, out=into(a, b)), 1),
    "cupy.matmul, a tuple for out": (lambda a, b: cupy.matmul(a, b, out=(into(a, b),)), 1),
    "cupy.matmul, a larger out type": (lambda a, b: cupy.matmul(a, b, out=cupy.empty((37, 43), "f8")), 1),
    "cupy.matmul, a smaller out type": (
        lambda a, b: cupy.matmul(a, b, out=cupy.empty((37, 43), "i4"), casting="unsafe"), 1,
    ),
    "cupy.matmul, dtype": (lambda a, b: cupy.matmul(a, b, dtype="f8"), 1),
    "cupy.matmul, an unsafe dtype": (lambda a, b: cupy.matmul(a, b, dtype="i4", casting="unsafe"), 1),
    "cupy.matmul, axes": (lambda a, b: cupy.matmul(a.T, b, axes=[(1, 0), (0, 1), (0, 1)]), 1),
    "@": (lambda a, b: a @ b, 1),
    "operator.matmul": (operator.matmul, 1),
    "@=": (operator.imatmul, 1),
    "numpy.matmul": (np.matmul, 1),
    "numpy.matmul, out": (lambda a, b: np.matmul(a, b, out=into(a, b)), 1),
    "cupy.dot": (lambda a, b: cupy.dot(a, b), 1),
    "cupy.dot, out": (lambda a, b: cupy.dot(a, b, out=into(a, b)), 1),
    "ndarray.dot": (lambda a, b: a.dot(b), 1),
    "numpy.dot": (np.dot, 1),
    "cupy.einsum": (lambda a, b: cupy.einsum("ij,jk->ik", a, b), 1),
    "transposed": (lambda a, b: (b.T @ a.T).T, 1),
    "sliced": (lambda a, b: a[:, ::-1] @ b[::-1], 1),
}  # fmt: skip
if hasattr(cupy.linalg, "matmul"):  # CuPy 14.0 has none
    WAYS["cupy.linalg.matmul"] = (lambda a, b: cupy.linalg.matmul(a, b), 1)


@pytest.mark.parametrize("way", WAYS)
def test_what_goes_through(way: str) -> None:
    left, right = integers(37, 41), integers(41, 43)
    multiply, products = WAYS[way]
    a, b = to_device(left), to_device(right)
    with tiledmm.replacing(variant="tiled", tile=16) as found:
        result = multiply(a, b)
    np.testing.assert_array_equal(result.get(), left @ right)
    assert (found.total, found.taken) == (products, products), found
    assert {line.variants for line in found.groups} == {("tiled",)}, found


def test_matrix_power() -> None:
    x = np.clip(integers(9, 9), -1, 1)
    with tiledmm.replacing() as found:
        result = cupy.linalg.matrix_power(to_device(x), 5)
    np.testing.assert_array_equal(result.get(), np.linalg.matrix_power(x, 5))
    assert found.total == found.taken == 3


@pytest.mark.parametrize("name", ELEMENTS)
def test_every_type(name: str) -> None:
    dtype = ELEMENTS[name].dtype
    left, right = integers(33, 65, dtype=dtype), integers(65, 34, dtype=dtype)
    with tiledmm.replacing() as found:
        result = to_device(left) @ to_device(right)
    np.testing.assert_array_equal(to_host(result), exact_product(left, right))
    (line,) = found.groups
    assert not line.reason and line.types.startswith(name)


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT", "GN", "NG"])
def test_every_layout(layout: str) -> None:
    left, right = integers(33, 65), integers(65, 34)
    a, b = (to_device(each, matrix_layout(letter)) for each, letter in zip((left, right), layout, strict=True))
    with tiledmm.replacing(variant="naive") as found:
        results = [a @ b, a.dot(b)]
    for result in results:
        np.testing.assert_array_equal(result.get(), left @ right)
    (line,) = found.groups
    assert (line.layout, line.count) == (layout, 2)


@pytest.mark.parametrize(
    "shapes",
    [
        ((40,), (40,)),
        ((33, 40), (40,)),
        ((40,), (40, 35)),
        ((7, 33, 40), (40, 35)),
        ((2, 3, 5, 40), (40,)),
        ((1, 1), (1, 1)),
        ((0, 4), (4, 5)),
        ((3, 0), (0, 5)),
    ],
)
def test_vectors_and_batches(shapes: Any) -> None:
    left, right = (integers(*shape) for shape in shapes)
    a, b = to_device(left), to_device(right)
    expected = [a @ b, cupy.dot(a, b), cupy.matmul(a, b)]
    with tiledmm.replacing() as found:
        results = [a @ b, cupy.dot(a, b), cupy.matmul(a, b)]
    for result, cupys in zip(results, expected, strict=True):
        assert (type(result), result.shape, result.dtype) == (type(cupys), cupys.shape, cupys.dtype)
        np.testing.assert_array_equal(result.get(), left @ right)
    assert found.total == found.taken == 3


@pytest.mark.parametrize(("variant", "tile"), SMALLEST)
def test_every_variant(variant: str, tile: int | None) -> None:
    left, right = integers(65, 66), integers(66, 67)
    a, b = to_device(left), to_device(right)
    with tiledmm.replacing(variant=variant, tile=tile) as found:
        results = [a @ b, cupy.matmul(a, b), cupy.dot(a, b, out=into(a, b))]
    for result in results:
        np.testing.assert_array_equal(result.get(), left @ right)
    assert [line.variants for line in found.groups] == [(variant,)]


def test_random_numbers_keep_float32s_accuracy() -> None:
    rng = np.random.default_rng(301)
    left, right = rng.standard_normal((2, 700, 700), dtype=np.float32)
    with tiledmm.replacing():
        result = (to_device(left) @ to_device(right)).get()
    exact = left.astype("f8") @ right.astype("f8")
    bound = 700 * 2.0**-24 * (abs(left).astype("f8") @ abs(right).astype("f8"))
    assert (abs(result - exact) <= bound).all()


# ---- what does not ----


def test_what_a_kernel_does_not_take_cupy_does() -> None:
    left, right = integers(65, 66), integers(66, 67)
    a, b = to_device(left), to_device(right)
    with tiledmm.replacing(variant="tensor_core") as found:
        results = [a @ b, cupy.matmul(a, b), a.dot(b), cupy.dot(a, b, into(a, b))]
        halves = a.astype("f2") @ b.astype("f2")
    for result in [*results, halves]:
        np.testing.assert_array_equal(result.get(), (left @ right).astype(result.dtype.name))
    left_to_cupy, taken = found.groups
    assert (left_to_cupy.count, left_to_cupy.types, taken.count, taken.types) == (4, "float32", 1, "float16")
    assert "'tensor_core'" in left_to_cupy.reason
    assert found.summary() == "5 matrix products: 1 by tiledmm (tensor_core 1), 4 by CuPy"


def test_the_baseline() -> None:
    left, right = integers(65, 66), integers(66, 67)
    with tiledmm.replacing(variant="cublas") as found:
        result = to_device(left) @ to_device(right)
    np.testing.assert_array_equal(result.get(), left @ right)
    assert (found.total, found.taken) == (1, 0)


def test_relatives_are_cupys_and_counted() -> None:
    left = integers(33, 33)
    a = to_device(left)
    batch = to_device(integers(2, 33, 4))
    with tiledmm.replacing() as found:
        results = {
            "inner": (cupy.inner(a, a), np.inner(left, left)),
            "tensordot": (cupy.tensordot(a, a), np.tensordot(left, left)),
            "vdot": (cupy.vdot(a, a), np.vdot(left, left)),
            "dot": (cupy.dot(a, batch), np.dot(left, batch.get())),
        }
    for name, (result, expected) in results.items():
        np.testing.assert_array_equal(result.get(), expected, name)
    assert (found.total, found.taken) == (4, 0)
    assert all(name in str(found) for name in results)


def test_an_array_of_a_class_of_its_own() -> None:
    class Heir(cupy.ndarray):
        pass

    left = integers(33, 33)
    a = to_device(left)
    with tiledmm.replacing() as found:
        results = [a.view(Heir) @ a, a @ a.view(Heir), cupy.matmul(a, a.view(Heir))]
    for result in results:
        np.testing.assert_array_equal(result.get(), left @ left)
    assert (found.total, found.taken) == (3, 0)


def test_products_of_distributed_arrays() -> None:
    nccl = pytest.importorskip("cupy.cuda.nccl", reason="arrays of cupyx.distributed need NCCL")
    if not nccl.available:
        pytest.skip("arrays of cupyx.distributed need NCCL")
    from cupyx.distributed.array import distributed_array, make_2d_index_map

    left, right = integers(66, 40), integers(40, 50)
    devices = range(cupy.cuda.runtime.getDeviceCount())
    halves = make_2d_index_map([0, 33, 66], [0, 40], [[{0}], [{devices[-1]}]])
    whole = make_2d_index_map([0, 40], [0, 50], [[set(devices)]])
    a, b = distributed_array(left, halves), distributed_array(right, whole)
    with tiledmm.replacing() as found:
        c = a @ b
    np.testing.assert_array_equal(c.get(), left @ right)
    assert (found.total, found.taken) == (2, 2)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_raises_what_cupy_raises(mistake: str) -> None:
    left, right, keywords = MISTAKES[mistake]
    if any(x.dtype.kind not in "biufc" for x in (left, right)):
        pytest.skip("there are no CuPy arrays of this type")
    x1, x2 = on_device(left), on_device(right)
    keywords = {name: on_device(value) for name, value in keywords.items()}

    def outcome() -> Any:
        try:
            return cupy.matmul(x1, x2, **keywords).shape
        except Exception as error:
            return type(error), str(error)

    expected = outcome()
    with tiledmm.replacing() as found:
        assert outcome() == expected
    assert not found.taken


@pytest.mark.parametrize(
    "multiply",
    [
        lambda a: a @ [[1]],
        lambda a: [[1]] @ a,
        lambda a: a @ np.zeros((3, 4)),
        lambda a: np.zeros((3, 4)) @ a,
        lambda a: a @ 2,
        lambda a: a @ None,
        lambda a: a @ a,
        lambda a: a.dot(a),
        lambda a: a.dot(3),
        lambda a: cupy.dot(a, a.T, cupy.zeros((3, 3), "f8")),
        lambda a: cupy.dot(a, a.T, cupy.zeros((3, 3), "f4", order="F")),
        lambda a: cupy.dot(a, a.T, cupy.zeros((2, 3, 3), "f4")),
        lambda a: cupy.matmul(a, a.T, where=True),
        lambda a: cupy.matmul(a, a.T, cupy.zeros((3, 3), "f4")),
    ],
)
def test_other_mistakes_raise_what_cupy_raises(multiply: Callable[[Any], Any]) -> None:
    a = to_device(integers(3, 4))
    with pytest.raises(Exception) as cupys:
        multiply(a)
    with tiledmm.replacing() as found, pytest.raises(cupys.type) as ours:
        multiply(a)
    assert str(ours.value) == str(cupys.value)
    assert not found.total


# ---- where and when ----


def test_products_of_all_threads_and_their_streams() -> None:
    left, right = integers(65, 66), integers(66, 67)
    wrong: list[int] = []

    def multiply(number: int) -> None:
        with cupy.cuda.Stream(non_blocking=True) as stream:
            a, b = to_device(left), to_device(right)
            for _ in range(20):
                if not np.array_equal((a @ b).get(), left @ right):
                    wrong.append(number)
            stream.synchronize()

    with tiledmm.replacing() as found:
        threads = [threading.Thread(target=multiply, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong
    assert found.total == found.taken == 80


def test_under_graph_capture() -> None:
    left, right = integers(65, 66), integers(66, 67)
    a, b = to_device(left), to_device(right)
    out = into(a, b)
    with tiledmm.replacing() as found:
        cupy.matmul(a, b, out=out)
        out.fill(np.nan)
        cupy.cuda.runtime.deviceSynchronize()
        with cupy.cuda.Stream(non_blocking=True) as stream:
            stream.begin_capture()
            cupy.matmul(a, b, out=out)
            graph = stream.end_capture()
        graph.launch(stream)
        stream.synchronize()
    np.testing.assert_array_equal(out.get(), left @ right)
    assert found.taken == 2


def test_cupys_own_products_are_there_after_the_block() -> None:
    a = to_device(integers(5, 5))
    before = cupy.matmul
    with pytest.raises(KeyError), tiledmm.replacing() as found:
        a @ a
        raise KeyError
    assert cupy.matmul is before
    assert not {"__matmul__", "dot"} & vars(cupy.ndarray).keys()
    np.testing.assert_array_equal((a @ a).get(), a.get() @ a.get())
    assert found.total == 1


# ---- whole programs ----


def run(folder: Path, text: str, *options: str, arguments: tuple[str, ...] = ()) -> tuple[int, str, str]:
    """Run a program by tiledmm; return its exit status, stdout and stderr."""
    program = folder / "program.py"
    program.write_text(textwrap.dedent(text), encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "tiledmm", "run", *options, str(program), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


NETWORK = """
    import sys
    import numpy as np
    import cupy as cp
    from cupy import dot, matmul

    def forward(x, weights):
        for w in weights:
            x = cp.maximum(x @ w, 0)
        return x

    steps = int(sys.argv[1])
    rng = np.random.default_rng(0)
    x = rng.integers(-2, 3, (64, 96)).astype("f4")
    weights = [rng.integers(-1, 2, (96, 96)).astype("f4") for _ in range(3)]
    expected = x
    for w in weights:
        expected = np.maximum(expected @ w, 0)
    on_device = [cp.asarray(w) for w in weights]
    for _ in range(steps):
        found = forward(cp.asarray(x), on_device)
    assert np.array_equal(found.get(), expected)
    g = cp.asarray(x)
    assert np.array_equal(matmul(g.T, g).get(), x.T @ x)
    assert np.array_equal(dot(g, on_device[0]).get(), x @ weights[0])
    assert np.array_equal(cp.einsum("ij,jk->ik", g, on_device[1]).get(), x @ weights[1])
    print("right")
"""


def test_a_program(tmp_path: Path) -> None:
    found = tmp_path / "products.json"
    options = ("--variant", "tiled", "--tile", "16", "--json", str(found))
    status, output, errors = run(tmp_path, NETWORK, *options, arguments=("5",))
    assert (status, output) == (0, "right\n"), errors
    assert "\ntiledmm: 18 matrix products: 18 by tiledmm (tiled 18)\n" in errors
    document = json.loads(found.read_text())
    assert (document["total"], document["taken"]) == (18, 18)
    assert {"(64, 96) @ (96, 96)", "(96, 64) @ (64, 96)"} < {line["operands"] for line in document["products"]}


def test_a_program_by_whatever_is_fastest(tmp_path: Path) -> None:
    status, output, errors = run(tmp_path, NETWORK, arguments=("2",))
    assert (status, output) == (0, "right\n"), errors
    assert "tiledmm: 9 matrix products: 9 by tiledmm (" in errors


def test_a_program_that_fails(tmp_path: Path) -> None:
    text = """
    import cupy
    a = cupy.ones((3, 4), "f4")
    a @ a.T
    a @ a
    """
    status, _, errors = run(tmp_path, text)
    assert status == 1
    traceback, _, told = errors.partition("\ntiledmm: ")
    assert traceback.startswith(
        f'Traceback (most recent call last):\n  File "{tmp_path}/program.py", line 5, in <module>'
    )
    assert "ValueError: Axis dimension mismatch" in traceback
    assert told.startswith("1 matrix product: 1 by tiledmm")


def test_a_program_may_choose_its_device_and_fork_first(tmp_path: Path) -> None:
    """Check that tiledmm does not initialize CUDA before the program does, which would break forked children."""
    text = """
    import os
    import cupy
    child = os.fork()
    if not child:
        a = cupy.ones((3, 3), "f4")
        os._exit(0 if (a @ a).sum() == 27 else 9)
    assert os.waitpid(child, 0)[1] == 0
    a = cupy.ones((3, 3), "f4")
    print((a @ a).sum())
    """
    status, output, errors = run(tmp_path, text)
    assert (status, output) == (0, "27.0\n"), errors
    assert "tiledmm: 1 matrix product: 1 by tiledmm" in errors
    hidden = """
    import os
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    import cupy
    cupy.zeros(3)
    """
    status, _, errors = run(tmp_path, hidden)
    assert status == 1
    assert "tiledmm: no matrix products of CuPy arrays; there is no GPU (" in errors


def test_threads_and_functions_for_the_exit_are_counted(tmp_path: Path) -> None:
    text = """
    import atexit, sys, threading
    import cupy
    a = cupy.ones((3, 3), "f4")
    a @ a

    def late():
        threading.main_thread().join()
        assert (a @ a).sum() == 27

    threading.Thread(target=late).start()
    atexit.register(lambda: a.dot(a))
    sys.exit(3)
    """
    status, _, errors = run(tmp_path, text)
    assert status == 3
    assert "\ntiledmm: 3 matrix products: 3 by tiledmm" in errors


def test_a_notebook(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("IPython", reason="needs IPython")
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    shell = InteractiveShell(config=Config(HistoryAccessor={"enabled": False}))
    shell.run_line_magic("load_ext", "tiledmm")
    cell = "import cupy\na = cupy.ones((3, 3), 'f4')\nfloat((a @ a).sum())"
    assert shell.run_cell(f"%%tiledmm --variant tiled --tile 8\n{cell}").result == 27
    assert capsys.readouterr().out.startswith("1 matrix product: 1 by tiledmm (tiled 1)\n")
