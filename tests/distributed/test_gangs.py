"""Tests of the scheduler's part of products of several ranks, without a cluster: when ranks start and products end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("distributed")

from tiledmm.distributed.gang import GangPlugin
from tiledmm.distributed.placement import SUMMA


class Cluster:
    """A stand-in for the parts of a scheduler that the plugin uses: tasks by key, each on its own worker."""

    def __init__(self) -> None:
        self.plugin = GangPlugin()
        self.tasks: dict[Any, Any] = {}
        self.handlers: dict[str, Any] = {}
        self.moved: list[dict[Any, str]] = []

    def transitions(self, wanted: dict[Any, str], stimulus: str) -> None:
        self.moved.append(wanted)

    async def join(self, product: str, rank: int, worker: str | None = None, alone: bool = False, **others: Any) -> Any:
        """Let one of two ranks join on its worker; ``alone`` if nobody wants the other rank."""
        worker = worker or f"w{rank}"
        key = SUMMA + product, rank
        self.tasks[key] = SimpleNamespace(key=key, processing_on=SimpleNamespace(address=worker), state="processing")
        other = SUMMA + product, 1 - rank
        if not alone:
            self.tasks.setdefault(other, SimpleNamespace(key=other, processing_on=None, state="waiting"))
        given: dict[str, Any] = {"kinds": ["numpy"], "problem": None, **others}
        task = asyncio.ensure_future(self.plugin.join(product, rank, 2, worker, (worker, rank), **given))
        await settled()
        return task

    async def end(self, product: str, rank: int, finish: str = "memory") -> None:
        """Change the state of a rank's task."""
        self.tasks[SUMMA + product, rank].state = finish
        self.plugin.transition((SUMMA + product, rank), "processing", finish)
        await settled()


async def settled() -> None:
    """Let all pending callbacks run."""
    for _ in range(5):
        await asyncio.sleep(0)


def run(test: Any) -> None:
    async def main() -> None:
        cluster = Cluster()
        await cluster.plugin.start(cluster)
        await test(cluster)

    asyncio.run(main())


def started(*tasks: Any) -> list[bool]:
    return [task.done() for task in tasks]


def test_all_ranks_start_together_with_the_addresses_by_rank() -> None:
    async def test(cluster: Cluster) -> None:
        second = await cluster.join("p", 1)
        assert started(second) == [False]
        first = await cluster.join("p", 0)
        assert first.result() == second.result() and len(first.result()[0]) == 16
        assert first.result()[1] == [("w0", 0), ("w1", 1)]

    run(test)


@pytest.mark.parametrize("first", [0, 1])
def test_workers_are_free_when_the_last_rank_has_ended(first: int) -> None:
    """Check that a product starts only when all ranks of the one before have ended, so that none waits on a worker."""

    async def test(cluster: Cluster) -> None:
        await cluster.join("p", 0)
        await cluster.join("p", 1)
        others = [await cluster.join("q", rank) for rank in range(2)]
        await cluster.end("p", first)
        assert started(*others) == [False, False] and len(cluster.plugin.attempts) == 1
        await cluster.end("p", 1 - first)
        assert started(*others) == [True, True]
        assert [each.product for each in cluster.plugin.attempts.values()] == ["q"]

    run(test)


def test_products_on_other_workers_do_not_wait() -> None:
    async def test(cluster: Cluster) -> None:
        for rank in range(2):
            await cluster.join("p", rank)
        overlapping = [await cluster.join("q", rank, worker=f"w{rank + 1}") for rank in range(2)]
        behind = [await cluster.join("r", rank, worker=f"w{rank + 2}") for rank in range(2)]
        apart = [await cluster.join("s", rank, worker=f"w{rank + 4}") for rank in range(2)]
        assert started(*apart) == [True, True]
        assert started(*overlapping, *behind) == [False] * 4, "what waits is not overtaken on its workers"
        await cluster.end("s", 0)
        await cluster.end("s", 1)
        assert started(*overlapping, *behind) == [False] * 4
        await cluster.end("p", 0)
        await cluster.end("p", 1)
        assert started(*overlapping, *behind) == [True, True, False, False]

    run(test)


def test_a_rank_of_another_product_ends_none_of_this() -> None:
    async def test(cluster: Cluster) -> None:
        for product, offset in (("p", 0), ("q", 2)):
            for rank in range(2):
                await cluster.join(product, rank, worker=f"w{rank + offset}")
        await cluster.end("p", 0)
        await cluster.end("p", 1)
        assert [(each.product, each.ranks) for each in cluster.plugin.attempts.values()] == [("q", {0, 1})]

    run(test)


def test_the_first_reason_is_that_of_all_and_of_one_attempt() -> None:
    async def test(cluster: Cluster) -> None:
        for product, offset in (("p", 0), ("q", 2)):
            for rank in range(2):
                await cluster.join(product, rank, worker=f"w{rank + offset}")
        plugin = cluster.plugin
        secrets = {each.product: secret for secret, each in plugin.attempts.items()}
        plugin.remove_worker(cluster, "w3")
        assert await plugin.failed(secrets["q"], "a socket closed") == "worker w3 left"
        assert await plugin.failed(secrets["p"], "out of memory") == "out of memory"
        assert await plugin.failed(secrets["p"], "a socket closed") == "out of memory"
        assert await plugin.failed(b"unknown", "late") == "late"

    run(test)


@pytest.mark.parametrize(
    ("others", "error", "says"),
    [
        ([{"problem": ("UnsupportedTypeError", "a chunk is int3")}, {}], "UnsupportedTypeError", "a chunk is int3"),
        ([{"kinds": ["numpy"]}, {"kinds": ["cupy"]}], "OperandTypeError", "cupy and numpy"),
        ([{"kinds": ["numpy"]}, {"kinds": ["numpy", "cupy"]}], "OperandTypeError", "cupy and numpy"),
    ],
)
@pytest.mark.parametrize("turn", [1, -1])
def test_ranks_whose_blocks_do_not_fit_are_not_started(
    others: Sequence[dict[str, Any]], error: str, says: str, turn: int
) -> None:
    async def test(cluster: Cluster) -> None:
        ranks = [await cluster.join("p", rank, **each) for rank, each in enumerate(others[::turn])]
        for each in ranks:
            name, text = each.result()
            assert name == error and says in text
        assert not cluster.plugin.attempts and not cluster.plugin.gangs

    run(test)


def test_a_rank_whose_task_runs_elsewhere_or_ends_is_not_started() -> None:
    async def test(cluster: Cluster) -> None:
        plugin = cluster.plugin
        waiting = await cluster.join("p", 0)
        again = await cluster.join("p", 0)
        assert started(waiting, again) == [True, False] and waiting.result()[0] == "CollectiveError"
        answer = await plugin.join("p", 0, 2, "another", ("another", 0), ["numpy"], None)
        assert answer[0] == "CollectiveError" and "another" in answer[1]
        assert (await plugin.join("p", 1, 2, "w1", ("w1", 1), ["numpy"], None))[0] == "CollectiveError"
        await cluster.end("p", 0, "released")
        assert again.result()[0] == "CollectiveError" and not plugin.gangs

    run(test)


@pytest.mark.parametrize(("state", "moves"), [("memory", "released"), ("released", "waiting"), ("waiting", None)])
def test_a_rank_that_has_ended_is_run_again_for_those_that_wait(state: str, moves: str | None) -> None:
    async def test(cluster: Cluster) -> None:
        await cluster.join("p", 1)
        await cluster.end("p", 1, state)
        cluster.tasks[SUMMA + "p", 1].processing_on = None
        cluster.moved.clear()
        waiting = await cluster.join("p", 0)
        assert cluster.moved == ([{(SUMMA + "p", 1): moves}] if moves else []) and started(waiting) == [False]

    run(test)


@pytest.mark.parametrize("state", ["erred", "forgotten", None])
def test_a_rank_that_will_not_come_is_not_waited_for(state: str | None) -> None:
    async def test(cluster: Cluster) -> None:
        if state:
            await cluster.join("p", 1)
            await cluster.end("p", 1, state)
        waiting = await cluster.join("p", 0, alone=state is None)
        assert waiting.result()[0] == "CollectiveError" and "rank 1" in waiting.result()[1]
        assert not cluster.plugin.gangs

    run(test)


def test_a_scheduler_that_is_restarted_forgets_all() -> None:
    async def test(cluster: Cluster) -> None:
        for rank in range(2):
            await cluster.join("p", rank)
        waiting = await cluster.join("q", 0)
        cluster.plugin.restart(cluster)
        await settled()
        assert waiting.result()[0] == "CollectiveError" and not cluster.plugin.attempts and not cluster.plugin.gangs

    run(test)
