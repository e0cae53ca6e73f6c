"""Search for the fastest kernel of a product on the current device. The result is stored for ``auto``."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from tiledmm.bench.sizes import Size
from tiledmm.elements import compute_element
from tiledmm.errors import ConfigError, TiledmmError, device_module
from tiledmm.kernels.config import Config
from tiledmm.launch import plans
from tiledmm.problem.arrays import describe
from tiledmm.problem.call import dtype_of, precision_of
from tiledmm.problem.product import Product, resolve
from tiledmm.selection import tuned
from tiledmm.selection.choice import Choice
from tiledmm.selection.choose import with_precision
from tiledmm.selection.model import H100, SPLIT_K_FACTORS, Model

# Kernels are not tried if the model expects them to take more than this many times as long as the best one.
_HOPELESS = 2.0

# Number of the best kernels that are varied.
_VARIED = 5


def tune(
    shapes: Iterable[tuple[int, int, int]],
    *,
    dtypes: Iterable[str] = ("float32",),
    layouts: Iterable[str] = ("NN",),
    trials: int = 32,
    seconds: float = 0.03,
    again: bool = False,
    progress: bool = True,
) -> list[tuned.Entry]:
    """Measure kernels for given products on the current device, so that ``auto`` uses the fastest from then on.

    The search tries the kernels that the model of ``auto`` considers, in its order, and varies the best of them:
    split-K factor, step along K, stages, rasterization order. It leaves out kernels that break a rule, spill registers,
    give a wrong result, or are expected to be far too slow. It writes the row of each product as soon as it is found.
    So an interrupted search can be resumed, and several searches may run at once.

    Args:
        shapes: Sizes (m, n, k) of each product.
        dtypes: Types to tune each product for; ``"tf32"`` means float32 products of ``precision="tf32"``.
        layouts: Layout letters of A and B, see ``source``.
        trials: Maximum number of kernels to time per product.
        seconds: Seconds to time each kernel.
        again: Whether to measure products that are already in the table.
        progress: Whether to show a progress bar.

    Returns:
        An entry for each product, including those that were already in the table.

    Raises:
        ConfigError, ShapeError, UnsupportedTypeError: If there is no such product, or ``trials`` is less than 1.
        DeviceError, MissingDependencyError: If there is no GPU.

    Example:
        >>> tiledmm.tune([(1000, 1000, 1000)], layouts=["NN", "NT"])
    """
    if trials < 1:
        raise ConfigError(f"trials must be at least 1; got {trials}")
    jobs = [
        (Size(*map(int, shape)), dtype, layout)
        for shape, dtype, layout in itertools.product(list(shapes), list(dtypes), list(layouts))
    ]
    device = device_module("launch.devices")
    from tiledmm.bench.operand_sets import operand_sets

    model = device.device_model()
    path = tuned.path_of(model.gpu.name)
    entries = []
    for size, dtype, layout in _shown(jobs, progress):
        if min(size) < 1:
            raise ConfigError(f"a product of sizes {size} has nothing to tune")
        sets = operand_sets(size, dtype, layout)
        compute = compute_element(dtype)
        product = with_precision(resolve(*map(describe, sets[0]), dtype=dtype_of(compute)), precision_of(compute))
        key = tuned.describe_product(product)
        entry = tuned.read(path).get(key)  # read each time, because another search may write to the same table
        if again or entry is None or not tuned.is_current(entry):
            entry = _fastest(model, product, sets, trials, seconds)
            tuned.add(path, entry)
            plans.forget_plans()
        entries.append(entry)
    return entries


def proposals(product: Product, trials: int, model: Model = H100) -> list[Choice]:
    """Return the kernels to time for a product, the most promising first.

    They are those that the model considers, unless it expects them to be far too slow, in order of expected time; then
    variations of the best ones.

    Args:
        product: Product to tune.
        trials: Maximum number of kernels.
        model: Cost model of the GPU.
    """
    ranked = sorted(model.rank(product), key=lambda choice: choice.microseconds or 0.0)
    limit = _HOPELESS * (ranked[0].microseconds or 0.0)
    chosen = [choice for choice in ranked if (choice.microseconds or 0.0) <= limit]
    found = {(each.spec, each.product): each for each in chosen}
    for choice in chosen[:_VARIED]:
        for config in _variations(choice):
            varied = replace(choice, spec=replace(choice.spec, config=config), microseconds=None)
            found.setdefault((varied.spec, choice.product), varied)
    return list(found.values())[:trials]


def _variations(choice: Choice) -> Iterator[Config]:
    """Yield variations of a kernel's config, each with one to three fields changed, that obey the variant's rules."""
    spec = choice.spec
    config, at = spec.config, SPLIT_K_FACTORS.index(spec.config.launch.split_k)
    splits = [SPLIT_K_FACTORS[i] for i in (at + 1, at - 1, at + 2, at - 2) if 0 <= i < len(SPLIT_K_FACTORS)]
    changes: list[dict[str, Any]] = [{"split_k": split} for split in splits if split * 32 <= choice.product.problem.k]
    if config.stages > 1:
        changes += [{"bk": 2 * config.bk, "unroll": 2 * config.bk}, {"stages": config.stages + 1}]
        changes += [{"bk": 2 * config.bk, "unroll": 2 * config.bk, "stages": 2}]
    if config.wm:
        changes += [{"group": 4 * config.launch.group}, {"group": max(config.launch.group // 4, 1)}]
    for change in changes:
        overrides = config.changed(change).as_dict()
        try:
            yield spec.variant.config(None, spec.compute, overrides)
        except ConfigError:
            continue


def _fastest(model: Model, product: Product, sets: list[Any], trials: int, seconds: float) -> tuned.Entry:
    """Time kernels for a product, and return an entry of the tuned table for the fastest of them.

    Kernels that spill registers or give a wrong result are not timed.

    Args:
        model: Cost model of the GPU, which proposes kernels.
        product: Product to tune.
        sets: Sets of operands.
        trials: Maximum number of kernels.
        seconds: Time to measure each kernel, in seconds.

    Raises:
        ConfigError: If none of the kernels gives a correct result.
    """
    from tiledmm.bench import reference, timing
    from tiledmm.compile.compilation import compiled
    from tiledmm.launch.plan import Plan

    first = sets[0]
    right = reference.reference(first.a, first.b, product.compute)
    rivals: dict[str, timing.TimedCall] = {}
    choices = {}
    for number, choice in enumerate(proposals(product, trials, model)):
        try:
            if compiled(choice.spec.kernel).local_bytes:
                continue
            plan = Plan(choice)
            reference.poison(first.c, right)
            plan.run(*first)
        except (TiledmmError, MemoryError):  # CuPy's OutOfMemoryError is a MemoryError: the workspace does not fit
            continue
        if not reference.judge(first.c, right).ok:
            continue
        choices[str(number)] = choice
        rivals[str(number)] = timing.one_after_the_other(plan, sets)
    if not rivals:
        raise ConfigError(f"none of {trials} kernels gives a correct result for {tuned.describe_product(product)}")
    samples = timing.measure(rivals, timing.DeviceClock(), seconds=seconds)
    best = min(samples, key=lambda name: samples[name].seconds)
    models = samples.get("0", samples[best])
    spec = choices[best].spec
    plain = spec.variant.config(None, spec.compute).as_dict()
    entry = tuned.Entry(
        product=tuned.describe_product(product),
        compute=spec.compute.dtype_name,
        variant=spec.variant.name,
        transposed=choices[best].product.is_transposed != product.is_transposed,
        overrides={name: value for name, value in spec.config.as_dict().items() if value != plain[name]},
        microseconds=samples[best].seconds * 1e6,
        model_microseconds=models.seconds * 1e6,
        cut=choices[best].cut,
    )
    return tuned.stamped(entry)


def _shown(jobs: list[tuple[Size, str, str]], progress: bool) -> Iterable[tuple[Size, str, str]]:
    """Return an iterable of the jobs, which shows a progress bar on stderr while it is iterated, if ``progress``."""
    if not progress:
        return jobs
    from rich.console import Console
    from rich.progress import track

    return track(jobs, description="tuning", transient=True, console=Console(stderr=True))
