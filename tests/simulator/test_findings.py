"""Every planted bug is found, at its line; kernels as they are have none."""

from __future__ import annotations

import pytest

from tests.simulator.planted import BUGS, Bug, simulate
from tiledmm import simulator
from tiledmm.errors import SimulationError


@pytest.mark.parametrize("threads", ["forward", "reverse", "random"])
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name.replace(" ", "-"))
def test_a_planted_bug_is_found(bug: Bug, threads: str, tmp_path):
    right, report = simulate(bug, tmp_path, threads=threads)
    kinds = {finding.kind for finding in report.findings}
    if bug.kinds:
        assert kinds & set(bug.kinds), report.findings
        if bug.line:
            named = [finding.text + str(finding.other_text) for finding in report.findings]
            assert any(bug.line in text for text in named), named
    else:
        assert not right, "nothing tells this bug"


def test_the_message_names_lines_block_and_threads(tmp_path):
    bug = next(bug for bug in BUGS if bug.name == "no barrier after the reads")
    _, report = simulate(bug, tmp_path)
    finding = next(each for each in report.findings if each.kind == "race on shared memory" and "As" in each.message)
    lines = report.text.splitlines()
    assert lines[finding.line - 1] == finding.text and "As[" in finding.text
    assert f"line {finding.line}" in finding.message
    assert f"block {finding.block[:2]}" in finding.message and f"thread {finding.thread[:2]}" in finding.message
    assert finding.other_thread != finding.thread
    assert f"thread {finding.other_thread[:2]}" in finding.message
    with pytest.raises(SimulationError, match="race on shared memory"):
        report.check()
    assert simulator.Report.ok.fget(report) is False


def test_races_do_not_hide_behind_the_order_of_threads(tmp_path):
    """Both barriers of a step, each order: the same pairs of lines race."""
    for name in ("no barrier after the stores", "no barrier after the reads"):
        bug = next(bug for bug in BUGS if bug.name == name)
        found = []
        for threads in ("forward", "reverse", "random"):
            _, report = simulate(bug, tmp_path, threads=threads)
            races = [each for each in report.findings if each.kind == "race on shared memory"]
            found.append({frozenset((each.line, each.other_line)) for each in races})
        assert found[0] == found[1] == found[2] != set()
