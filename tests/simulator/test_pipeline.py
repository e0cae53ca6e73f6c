"""Tests that traces have asynchronous operations, that the pipeline page's data is up to date, and that it shows it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from docs.interactive import pipeline
from docs.tools.browser import PHONE, Browser
from tests.simulator.hopper.case import FOLDER
from tiledmm import simulator
from tiledmm.own_kernels.kernel_trace import trace_file

PAGE = Path(pipeline.__file__).with_name("pipeline.html")
VARIANTS = {each.name: each for each in pipeline.VARIANTS}


def recorded(name: str) -> dict[str, Any]:
    text = pipeline.DATA.read_text(encoding="utf-8").partition("const RECORDED = ")[2]
    return next(dict(each) for each in json.loads(text.rstrip().rstrip(";")) if each["name"] == name)


def without_messages(recording: dict[str, Any]) -> dict[str, Any]:
    """Return a recording with the kinds of its findings only."""
    return {**recording, "findings": [each.split(": ")[1] for each in recording["findings"]]}


def steps(name: str, kind: str) -> list[dict[str, Any]]:
    return [each for each in recorded(name)["steps"] if each["kind"] == kind]


# ---- what is recorded ----


@pytest.mark.parametrize("name", VARIANTS)
def test_the_data_is_what_the_simulator_records(name):
    now = pipeline.record(VARIANTS[name])
    assert without_messages(recorded(name)) == without_messages(now), "python -m docs.interactive.pipeline writes it"


def test_the_correct_kernel_uses_each_stage_twice():
    found = recorded("correct")
    assert [each["name"] for each in found["actors"]] == ["Producer", "Consumer 0", "Consumer 1"]
    full = {at for at, each in enumerate(found["barriers"]) if each["name"].startswith("full")}
    completed = [(each["barrier"] in full, each["phase"]) for each in steps("correct", "complete")]
    assert completed.count((True, 0)) == completed.count((True, 1)) == 3
    assert sum(each["bytes"] for each in steps("correct", "land")) == 2 * 3 * (128 + 8) * 32 * 2
    assert [each["stage"] for each in steps("correct", "wgmma") if each["actor"] == 1] == [0, 1, 2, 0, 1, 2]
    assert not found["findings"]


def test_the_wrong_kernels_end_with_their_finding():
    last = recorded("missing arrival")["steps"][-1]
    assert last["kind"] == "deadlock" and not steps("correct", "deadlock")
    waiting = {each["actor"] for each in recorded("missing arrival")["steps"][-20:] if each["kind"] == "wait"}
    assert waiting == {1, 2}  # the producer has waited for longer
    last = recorded("wrong parity")["steps"][-1]
    assert (last["kind"], last["stage"]) == ("wgmma", 0)
    assert ": copy not complete: " in recorded("wrong parity")["findings"][last["finding"]]


def test_events_name_barriers_and_lines():
    text = pipeline.KERNEL.read_text(encoding="utf-8")
    events = simulator.trace_block(text, 1, 288, pipeline.arguments())
    inits = [(each.name, each.value) for each in events if each.kind == "init"]
    assert inits == [(f"{name}[{i}]", arrivals) for i in range(3) for name, arrivals in (("full", 1), ("empty", 8))]
    issues = [each for each in events if each.kind == "issue"]
    assert [(each.array, each.bytes, each.other) for each in issues[:2]] == [
        ("As", 8192, "full[0]"), ("Bs", 512, "full[0]"),
    ]  # fmt: skip
    lines = text.splitlines()
    assert lines[issues[0].calls[0] - 1].strip().startswith("load(As[s]")
    assert {each.thread[0] // 32 for each in issues} == {8}
    assert sum(each.kind == "commit wgmma" for each in events) == 8 * 6


REMOTE = """
__global__ void __cluster_dims__(2) mirror(int* out) {
    __shared__ int value[32];
    unsigned rank, at, other;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    value[threadIdx.x] = 100 * rank + threadIdx.x;
    asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(at) : "r"((unsigned)__cvta_generic_to_shared(&value[threadIdx.x])), "r"(rank ^ 1));
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(other) : "r"(at) : "memory");
    asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
    out[blockIdx.x * 32 + threadIdx.x] = other;
}
"""


def test_an_access_to_another_block_has_its_rank():
    out = np.zeros(64, np.int32)
    events = simulator.trace_block(REMOTE, 2, 32, (out,), (1, 0, 0), cluster=2)
    loads = [each for each in events if each.kind == "load" and each.space == "shared"]
    assert [(each.array, each.element, each.rank, each.by) for each in loads] == [
        ("value", (lane,), 0, 1) for lane in range(32)
    ]
    assert [each.kind for each in events].count("arrive at cluster") == 64


# ---- what is shown ----

EVERY_STEP = """recordings.flatMap((recording, variant) => recording.states.map((_, step) => {
  Object.assign(shown, { variant, step });
  draw();
  return document.querySelector("#says").textContent + document.querySelector("main").textContent;
}))"""


def shown(browser: Browser, selector: str) -> str:
    return str(browser.evaluate(f"document.querySelector({selector!r}).textContent"))


def look_at_every_step(browser: Browser, path: Path) -> None:
    browser.errors.clear()
    browser.resize(1280, 800)
    browser.open(path)
    said = browser.evaluate(EVERY_STEP)
    assert said and not any("undefined" in each or "NaN" in each for each in said)
    assert browser.evaluate("document.documentElement.scrollWidth") <= 1280
    assert browser.evaluate("document.querySelector('#listing').getBoundingClientRect().bottom") <= 800
    assert browser.evaluate("document.querySelector('#lanes').getBoundingClientRect().bottom") <= 800
    browser.resize(*PHONE)
    assert browser.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
    assert browser.errors == []


def test_every_step_of_every_variant_is_shown(browser: Browser):
    look_at_every_step(browser, PAGE)


def test_steps_and_keys(browser: Browser):
    browser.resize(1280, 800)
    browser.open(PAGE)
    assert shown(browser, "#says").startswith("The barriers are initialised: full for 1 arrival per phase")
    browser.press("ArrowRight")
    assert shown(browser, "#says") == "Consumer 0 waits for phase 0 of full[0]: the arrival is missing."
    assert shown(browser, "[data-barrier='full[0]'] .chip") == "Consumer 0 waits"
    assert shown(browser, "#code [aria-current]").strip() == "wait(full[s], parity);"
    browser.press("ArrowRight", shift=True)
    assert shown(browser, "#says") == "Phase 0 of full[0] completes: stage 0 is full. Consumers 0 and 1 can go on."
    browser.press("ArrowLeft")
    assert shown(browser, "#says") == "A load arrives: 512 bytes of Bs in stage 0. At full[0], nothing is missing."
    browser.press("End")
    assert browser.evaluate("document.querySelector('#forward').disabled")
    assert shown(browser, "[data-barrier='empty[0]'] .phase") == "phase 2 · parity 0"


def test_the_deadlock_says_who_waits_for_whom(browser: Browser):
    browser.resize(1280, 800)
    browser.open(PAGE, "#variant=missing%20arrival&step=999")
    assert shown(browser, "#says") == (
        "Deadlock: Producer waits for empty[0], where 1 of 9 arrivals is missing, and no thread is left to make it; "
        "Consumers 0 and 1 wait for full[0], where the arrival is missing, which Producer should make. "
        "No copy is in flight."
    )
    assert browser.evaluate("document.querySelectorAll('.lane-of.dead').length") == 3
    browser.open(PAGE, "#variant=wrong%20parity&step=999")
    assert "while 2 loads to this stage are in flight" in shown(browser, "#says")
    assert shown(browser, "#where").endswith("finding: copy not complete")


def test_a_trace_of_a_kernel_with_mbarriers_is_this_page(browser: Browser, tmp_path):
    traced = trace_file(FOLDER / "bulk_scale.cu", grid="1", block="256", args="x: float32[1280], y: float32[1280], 5")
    (trace,) = traced.traces
    assert trace.pipeline and [each["name"] for each in trace.pipeline["barriers"]] == ["full[0]", "full[1]"]
    assert [each["name"] for each in trace.pipeline["actors"]] == ["Producer", "Warps 1\N{EN DASH}7"]
    path = tmp_path / "mine.html"
    path.write_text(traced.page, encoding="utf-8")
    assert "src=" not in traced.page.partition("<body>")[0] and "https://" not in traced.page
    look_at_every_step(browser, path)
