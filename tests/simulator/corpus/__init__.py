"""Files of CUDA C in the manner of tutorials, courses, forums and libraries, right and wrong ones, with their launches.

``corpus.toml`` has an entry for each.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tiledmm import simulator
from tiledmm.simulated.explanation.wrong import Resemblance, explain_wrong_product

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parent

TYPES = {
    "f16": np.float16, "f32": np.float32, "f64": np.float64, "i8": np.int8, "i32": np.int32, "c64": np.complex64,
}  # fmt: skip


@dataclass(frozen=True)
class CorpusFile:
    """A file of the corpus; the fields are explained in ``corpus.toml``."""

    name: str
    kernel: str | None = None
    error: str = ""
    slow: tuple[str, ...] = ()
    args: str = "A:f32[M,K], B:f32[K,N], C:f32[M,N], M, N, K"
    sizes: tuple[tuple[int, int, int], ...] = ((64, 48, 32), (50, 37, 45))
    grid: str = "(N + 15) // 16, (M + 15) // 16"
    block: str = "16, 16"
    shared: str = "0"
    expect: str = "A @ B"

    @property
    def path(self) -> Path:
        return FOLDER / self.name

    @property
    def is_product(self) -> bool:
        """Whether the kernel computes ``alpha * (A @ B) + beta * C0`` of matrices with contiguous rows."""
        return self.expect.replace(" ", "").lstrip("-.*()0123456789").startswith("A@B") and "B:f32[K]" not in self.args

    @property
    def factors(self) -> tuple[complex, complex]:
        """Factors alpha and beta of a product."""
        alpha, beta = (re.search(rf"\b{name}=([-.\d]+)", self.args) for name in ("alpha", "beta"))
        return float(alpha[1]) if alpha else 1, float(beta[1]) if beta else 0

    def launch(
        self, sizes: tuple[int, int, int], *, counts: bool = False
    ) -> tuple[simulator.Report, list[Resemblance]]:
        """Run the kernel, and return the report and, for a product, the explanations."""
        names: dict[str, Any] = dict(zip("MNK", sizes, strict=True))
        rng = np.random.default_rng(sum(sizes))
        arrays: dict[str, Any] = {}
        arguments = [_argument(part.strip(), names, arrays, rng) for part in _parts(self.args)]
        given = {name: array.copy() for name, array in arrays.items()}
        c, before = arrays["C"], given["C"]
        values = {**names, **{name: _wide(array) for name, array in given.items()}, "C0": _wide(before), "numpy": np}
        expected = eval(self.expect, values).astype(before.dtype)
        grid, block, shared_bytes = (
            eval(f"({each},)", dict(names)) for each in (self.grid, self.block, self.shared)
        )  # fmt: skip
        position = next(at for at, each in enumerate(arguments) if each is c)
        report = simulator.launch(
            self.path, grid, block, arguments, name=self.kernel, shared_bytes=shared_bytes[0],
            expected={position: expected}, counts=counts, workers=1,
        )  # fmt: skip
        if not self.is_product:
            return report, []
        alpha, beta = self.factors
        b = given["B"].swapaxes(-1, -2) if ".T" in self.expect else given["B"]
        found = explain_wrong_product(
            given["A"], b, c, expected=expected, before=before, alpha=alpha, beta=beta, report=report
        )
        return report, found


def _parts(text: str) -> list[str]:
    """Return the parts of a text between commas that are in no brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "[{(") - (letter in "]})")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _argument(text: str, names: dict[str, Any], arrays: dict[str, Any], rng: np.random.Generator) -> Any:
    """Return one argument of a launch."""
    if text.startswith("{"):
        return np.array(tuple(names[each.strip()] for each in text[1:-1].split(",")), "i4,i4,i4")[()]
    name, _, rest = text.partition(":")
    if not rest:
        name, _, value = text.partition("=")
        return eval(value or name, dict(names))
    kind, shape = re.fullmatch(r"(\w+)\[(.*)\](?:=0)?", rest).groups()  # type: ignore[union-attr]
    size = eval(f"({shape},)", dict(names))
    dtype = np.dtype(TYPES[kind])
    values = rng.integers(-9, 10, size) if dtype.kind == "i" else rng.standard_normal(size)
    if dtype.kind == "c":
        values = values + 1j * rng.standard_normal(size)
    arrays[name] = np.zeros(size, dtype) if rest.endswith("=0") else np.asarray(values).astype(dtype)
    return arrays[name]


def _wide(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array.astype({"i": np.int64, "f": np.float64, "c": np.complex128}[array.dtype.kind])


def _entry(fields: dict[str, Any]) -> CorpusFile:
    sizes = {"sizes": tuple(map(tuple, fields["sizes"]))} if "sizes" in fields else {}
    return CorpusFile(**fields | sizes | {"slow": tuple(fields.get("slow", ()))})


CORPUS = [_entry(fields) for fields in tomllib.loads((FOLDER / "corpus.toml").read_text("utf-8"))["file"]]
