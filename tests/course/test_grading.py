"""Tests of grading: rubrics, submissions, points and feedback, and what a hostile submission cannot do."""

from __future__ import annotations

import json
import re
import sys
import textwrap
import time
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.conftest import missing_simulator
from tiledmm import cli
from tiledmm.course.exercise import FOLDER, exercises
from tiledmm.course.grading import sandbox
from tiledmm.course.grading.grade import Graded, grade, outcome_of
from tiledmm.course.grading.rubric import LABS, read_rubric
from tiledmm.course.grading.worker import examine
from tiledmm.course.student_file import answered, solution_text, start_text
from tiledmm.course.verdict import keys_of
from tiledmm.errors import ConfigError

EXERCISES = exercises()
_why_not = sandbox.missing()
confined = pytest.mark.skipif(bool(_why_not), reason=_why_not or "confined")
simulated = pytest.mark.skipif(missing_simulator() is not None, reason=str(missing_simulator()))

RUBRIC = """
title = "A lab"
seed = 5
limits = {{ seconds = {seconds}, memory_gb = 4 }}
[[exercise]]
name = "coalesced"
points = {{ runs = 1, shown = 2, hidden = 3, findings = 2, counts = 2, access = 2 }}
"""


def rubric_of(folder: Path, text: str = RUBRIC.format(seconds=300)) -> str:
    path = folder / "lab.toml"
    path.write_text(text)
    return str(path)


def graded(folder: Path, files: dict[str, str], **options: Any) -> dict[str, Graded]:
    """Grade one file per student, by the student's name."""
    (folder / "class").mkdir()
    for student, text in files.items():
        (folder / "class" / f"{student}.cu").write_text(text)
    seconds = options.pop("seconds", 300)
    rubric = read_rubric(rubric_of(folder, RUBRIC.format(seconds=seconds)))
    return {each.student: each for each in grade(folder / "class", rubric, progress=lambda *far: None, **options)}


@pytest.mark.parametrize("lab", sorted(LABS.glob("*.toml")), ids=lambda lab: lab.stem)
def test_the_packages_labs(lab: Path) -> None:
    found = read_rubric(lab.stem)
    assert found.title and all(each.most > 0 for each in found.tasks)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no [[exercise]]"),
        ("[[exercise]]\nname = 'nothing'", "no exercise is named 'nothing'"),
        ("[[exercise]]\nname = 'guard'", "has no points"),
        ("[[exercise]]\nname = 'guard'\npoints = { speed = 1 }", "unknown keys: speed. Known keys: access, answers"),
        ("[[exercise]]\nname = 'guard'\npoints = { answers = 1 }", "no points for answers"),
        ("[[exercise]]\nname = 'guard'\npoints = { counts = 1 }", "has no counts"),
        ("[[exercise]]\nname = 'sectors'\npoints = { shown = 1 }", "it is a prediction"),
        ("[[exercise]]\nname = 'guard'\npoints = { shown = -1 }", "a number of at least 0; got -1"),
        ("[[exercise]]\nname = 'guard'\npoints = 3", "must be a table"),
        ("[[exercise]]\nname = 'guard'\npoints = { shown = nan }", "a number of at least 0; got nan"),
        (
            "limits = { memory_gb = 1 }\n[[exercise]]\nname = 'guard'\npoints.shown = 1",
            "memory_gb must be a number of at least 3",
        ),
        (
            "limits = { seconds = inf }\n[[exercise]]\nname = 'guard'\npoints.shown = 1",
            "seconds must be a number of at least 10",
        ),
        ("limits = { minutes = 1 }", "unknown keys: minutes. Known keys: memory_gb, seconds"),
        ("[[exercise", "cannot be read"),
    ],
)
def test_wrong_rubrics(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        read_rubric(rubric_of(tmp_path, text))
    assert said in str(error.value)


@simulated
def test_points_and_feedback(tmp_path: Path) -> None:
    """Check points of a right file, a slow one, a wrong one and none, and the documents, without a sandbox."""
    exercise = EXERCISES["coalesced"]
    right = solution_text(exercise)
    (tmp_path / "class" / "dora").mkdir(parents=True)
    texts = {
        "ann": right,
        "ben": start_text(exercise) + "\n__device__ int mine;\n",
        "cleo": right.replace("sum +=", "sum ="),
    }
    for student, text in texts.items():
        (tmp_path / "class" / f"{student}.cu").write_text(text)
    line = ["grade", str(tmp_path / "class"), "--rubric", rubric_of(tmp_path), "--unsafe"]
    done = CliRunner().invoke(cli.app, [*line, "--json", "--feedback", str(tmp_path / "feedback")])
    assert done.exit_code == 1, done.output  # one student handed in nothing
    found = {each["student"]: each for each in json.loads(done.stdout)["grades"]}
    assert found["ann"]["total"] == found["ann"]["most"] == 12 and found["ann"]["done"]
    slow = found["ben"]["points"]
    assert slow["counts"] < 2 and slow["access"] < 2
    assert {name: slow[name] for name in ("runs", "shown", "hidden", "findings")} == {
        "runs": 1, "shown": 2, "hidden": 3, "findings": 2,
    }  # fmt: skip
    assert found["cleo"]["points"] == {"runs": 1} | dict.fromkeys(
        ("shown", "hidden", "findings", "counts", "access"), 0
    )
    assert found["dora"]["problem"] == "no file for this exercise"
    text = (tmp_path / "feedback" / "cleo.md").read_text()
    assert text.startswith("# A lab: cleo\n\n1 of 12 points.") and "The result is wrong at M = " in text


@simulated
def test_points_of_predictions(tmp_path: Path) -> None:
    exercise = EXERCISES["naive_loads"]
    keys = {name: f"{value:g}" for name, value in keys_of(exercise).items()}
    one_wrong = keys | {next(iter(keys)): "17"}
    (tmp_path / "class").mkdir()
    for student, answers in {"ann": keys, "ben": one_wrong}.items():
        (tmp_path / "class" / f"{student}.cu").write_text(answered(start_text(exercise), answers))
    rubric = read_rubric(rubric_of(tmp_path, f"[[exercise]]\nname = 'naive_loads'\npoints.answers = {len(keys)}"))
    found = grade(tmp_path / "class", rubric, unsafe=True, progress=lambda *far: None)
    assert [each.total for each in found] == [len(keys), len(keys) - 1]


def test_an_exercise_can_be_checked_without_its_solution() -> None:
    for each in EXERCISES.values():
        bare = each.without_solution()
        assert bare.start == bare.solution == each.start and not bare.hints
        assert not each.questions or each.start == each.solution, "the kernel of a prediction is no secret"


# What a process tries before and after it gives up its rights; each prints what came of it.
HOSTILE = {
    "shell": "print(os.system('echo a shell') and 'no shell')",
    "program": "attempt(lambda: os.execv('/bin/sh', ['sh', '-c', 'echo a shell']))",
    "fork": "attempt(os.fork)",
    "socket": "attempt(lambda: socket.socket())",
    "file": f"attempt(lambda: open({str(FOLDER / 'mine.cu')!r}, 'w').write('x') and open('/usr/mine', 'w'))",
    "memory": "attempt(lambda: bytearray(100 << 30))",
    "solutions": f"print(os.listdir({str(FOLDER)!r}))",
}
SAID = {
    "shell": "no shell", "program": "PermissionError", "fork": "PermissionError", "socket": "PermissionError",
    "file": "OSError|PermissionError", "memory": "MemoryError", "solutions": r"\[\]",
}  # fmt: skip

SCRIPT = """
import os, socket
from tiledmm.course.grading.confine import Limits, refuse_processes_and_sockets
def attempt(what):
    try:
        print("done:", what())
    except BaseException as error:
        print(type(error).__name__)
{before}
Limits({seconds}, 4 << 30).apply()
refuse_processes_and_sockets()
{after}
"""


def run_script(before: str = "", after: str = "", seconds: float = 60) -> sandbox.Ended:
    script = SCRIPT.format(before=textwrap.dedent(before), after=textwrap.dedent(after), seconds=seconds)
    return sandbox.run_confined([sys.executable, "-c", script], seconds=seconds, empty=[FOLDER])


@confined
@pytest.mark.parametrize("what", HOSTILE)
def test_what_a_confined_process_cannot_do(what: str) -> None:
    ended = run_script(after=HOSTILE[what])
    assert ended.status == 0 and re.search(SAID[what], ended.output), (ended.output, ended.errors)
    assert "a shell" not in ended.output.replace("no shell", "")


@confined
def test_what_the_compilers_process_cannot_do() -> None:
    """Check the namespaces alone, for the process that still may start programs: network, files, other processes."""
    ended = run_script(
        before="""
        attempt(lambda: socket.create_connection(("1.1.1.1", 53), 2))
        attempt(lambda: open("/usr/mine", "w"))
        print([each for each in os.listdir("/proc") if each.isdigit() and int(each) > 20], os.getuid() != 0)
        attempt(lambda: open("/tmp/mine", "wb").write(bytes(1 << 29)))
        """
    )
    network, files, others, memory = ended.output.split("\n")[:4]
    assert "done" not in network + files + memory and others == "[] True", (ended.output, ended.errors)


@confined
def test_a_fork_bomb_ends() -> None:
    ended = run_script(
        before="""
        Limits(20, 4 << 30).apply()
        made = 0
        try:
            while made < 2000:
                if os.fork() == 0:
                    import time; time.sleep(100)
                made += 1
        except OSError as error:
            print(type(error).__name__, made < 300)
        """
    )
    assert ended.output.startswith("BlockingIOError True"), (ended.output, ended.errors)


@confined
def test_an_endless_loop_is_stopped() -> None:
    ended = sandbox.run_confined([sys.executable, "-c", "while True: pass"], seconds=2)
    assert ended.status is None


@confined
def test_output_without_end_is_cut() -> None:
    ended = run_script(after="while True: print('x' * 2**20)", seconds=30)
    assert ended.status != 0 and len(ended.output) <= 2**20


@confined
@simulated
def test_hostile_kernels_get_no_points(tmp_path: Path) -> None:
    """Check submissions that compile to something else than a solution, in the sandbox; the others are not harmed."""
    exercise = EXERCISES["coalesced"]
    head = "// Exercise coalesced: mine\n"
    body = "(const float* A, const float* B, float* C, int M, int N, int K) {"
    kernel = f"__global__ void coalesced{body}"
    found = graded(
        tmp_path,
        {
            "right": solution_text(exercise),
            "shell": f'{head}extern "C" int system(const char*);\n{kernel} system("touch /tmp/mine"); }}\n',
            "solution": f'{head}#include "{FOLDER / "coalesced.cu"}"\n',
            "passwords": f'{head}#include "/etc/shadow"\n{kernel} }}\n',
            "assembler": f'{head}asm(".incbin \\"/etc/hostname\\"");\n{kernel} }}\n',
            "endless": f"{head}{kernel} while (true) C[0] += 1; }}\n",
            "heap": f"{head}{kernel} for (;;) if (!malloc(1 << 30)) C[0] = 1; }}\n",
            "syntax": f"{head}{'(' * 20000}\n",
        },
        seconds=240,
    )
    assert found.pop("right").total == 12
    for student, each in found.items():
        assert each.total <= 1, (student, each.points, each.feedback)  # an endless loop is stopped: it compiles
        assert not each.done and (each.feedback or each.problem), student
        assert "root" not in each.feedback, student
    assert "system is declared" in found["shell"].feedback


def test_a_machine_without_a_sandbox_refuses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sandbox.shutil, "which", lambda name: None)
    monkeypatch.setattr(sandbox.sys, "platform", "linux")
    with pytest.raises(ConfigError, match=r"install the package bubblewrap .* --unsafe"):
        graded(tmp_path, {"ann": "x"})


@pytest.mark.parametrize(
    "printed",
    [
        '{"shares": {"runs": 1e9}, "done": true, "feedback": ""}',
        '{"shares": {"runs": NaN}, "done": true, "feedback": ""}',
        '{"shares": {"runs": "x"}, "done": true, "feedback": ""}',
        '{"shares": null, "done": true, "feedback": ""}',
        '{"shares": {}, "done": 1, "feedback": ""}',
        '{"shares": {}, "done": true, "feedback": ""} {}',
        '{"problem": ["x"]}',
        "[" * 100_000,
        "",
    ],
)
def test_forged_outcomes_are_refused(printed: str, tmp_path: Path) -> None:
    rubric = read_rubric(rubric_of(tmp_path))
    outcome, problem = outcome_of(sandbox.Ended(0, printed, "first\n\x1b[2Jlast"), rubric)
    assert outcome is None and problem and "\x1b" not in problem


def test_an_outcomes_feedback_is_text_that_can_be_written(tmp_path: Path) -> None:
    printed = json.dumps({"shares": {"runs": 0.5}, "done": False, "feedback": "\ud800\x1b[2J" + "x" * 10**6})
    outcome, problem = outcome_of(sandbox.Ended(0, printed, ""), read_rubric(rubric_of(tmp_path)))
    assert outcome is not None and not problem and outcome.shares == {"runs": 0.5}
    assert len(outcome.feedback.encode()) < 10**5 and "\x1b" not in outcome.feedback


@simulated
def test_points_are_relative_to_the_solution(tmp_path: Path) -> None:
    """Check that a solution has all points for ``access`` also where it takes more sectors than it needs."""
    exercise = EXERCISES["guard"]
    (tmp_path / "class" / "ann").mkdir(parents=True)
    (tmp_path / "class" / "ann" / "guard.cu").write_text(solution_text(exercise))
    rubric = read_rubric(rubric_of(tmp_path, "[[exercise]]\nname = 'guard'\npoints = { shown = 1, access = 2 }"))
    (found,) = grade(tmp_path / "class", rubric, unsafe=True, progress=lambda *far: None)
    assert found.points == {"shown": 1, "access": 2}


@simulated
@pytest.mark.parametrize(
    ("name", "old", "new", "share"),
    [
        ("padding", "", "", 0.0),  # the code as it was handed out is right
        ("padding", "As[32][32]", "As[32][33]", 0.0),  # the wrong array
        ("missing_barrier", "__syncthreads();\n    }", "__syncthreads();\n        __syncthreads();\n    }", 0.5),
    ],
)
def test_counts_that_the_handed_out_code_reaches_are_worth_nothing(
    name: str, old: str, new: str, share: float, tmp_path: Path
) -> None:
    exercise = EXERCISES[name]
    text = start_text(exercise) if name == "padding" else re.sub("  // no thread.*", "", solution_text(exercise))
    assert old in text
    (tmp_path / "mine.cu").write_text(text.replace(old, new) + "\n__device__ int mine;\n")
    found = examine(exercise.without_solution(), tmp_path / "mine.cu", 1)
    assert found.shares["shown"] == 1 and found.shares["counts"] == share, found


@simulated
def test_what_a_student_reads_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the first sentence for kernels that end early, never, or are right only at the sizes that a check names."""
    text = solution_text(EXERCISES["tiled"])
    first = {}
    for what, old, new in (
        ("stops", "row < M && k0 + tx < K ?", "true ?"),
        ("no end", "k0 += 16", "k0 += 0"),
        ("sizes", "k0 < K; k0 += 16", "k0 < 32; k0 += 16"),
        ("semicolon", "float sum = 0;", "float sum = 0"),
    ):
        assert old in text
        (tmp_path / "tiled.cu").write_text(text.replace(old, new))
        with monkeypatch.context() as patch:
            if what == "no end":
                patch.setattr("tiledmm.course.attempt.TIMEOUT", 0.5)
            said = examine(EXERCISES["tiled"].without_solution(), tmp_path / "tiled.cu", 2024).feedback
        first[what] = " ".join(said.split())
    assert first["stops"].startswith(
        "Not yet. The kernel stops at M = 37, N = 45, K = 19, and its result is not complete"
    )
    assert first["no end"].startswith("Not yet. The kernel does not end at M = 48")
    assert first["sizes"].startswith("Not yet. The result is right at the sizes of the exercise, but wrong at M = ")
    assert "__constinit" not in first["semicolon"] and "expected" in first["semicolon"]


def test_an_unchanged_file_gets_no_points(tmp_path: Path) -> None:
    for name in ("padding", "guard", "tiled"):
        (tmp_path / "mine.cu").write_text(start_text(EXERCISES[name]))
        found = examine(EXERCISES[name].without_solution(), tmp_path / "mine.cu", 1)
        assert not found.shares and "is unchanged" in found.feedback


def test_a_failing_solution_stops_the_grading(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Check that a fault of the machine, or limits that are too low, do not cost a whole class its points."""
    monkeypatch.setattr(
        sandbox, "run_unconfined", lambda *given, **more: sandbox.Ended(1, "", "MemoryError: no memory")
    )
    with pytest.raises(ConfigError, match=r"own solution of coalesced does not pass here.* more than 4 GB"):
        graded(tmp_path, {"ann": solution_text(EXERCISES["coalesced"])}, unsafe=True)


@confined
def test_one_check_needs_the_same_memory_on_a_machine_with_many_cores() -> None:
    ended = sandbox.run_confined(
        [sys.executable, "-c", "from tiledmm.course.grading import worker\n"
         "from tiledmm.simulator.execute.workers import cores\n"
         "worker.use_at_most(1); print(cores())"], seconds=60,
    )  # fmt: skip
    assert ended.output == "1\n", ended.errors


@confined
def test_nothing_outside_the_private_folders_can_be_written() -> None:
    places = ["/mine", "/dev/mine", "/etc/mine", "/submission/mine", f"{Path(sys.prefix)}/mine", "/usr/mine"]
    ended = run_script(before=f"for each in {places!r}: attempt(lambda: open(each, 'w'))")
    assert ended.output.split() == ["OSError"] * len(places), (ended.output, ended.errors)


@confined
def test_a_hidden_folder_is_empty_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that other submissions are not seen even where they are in a folder with programs, as a venv's."""
    (tmp_path / "class" / "ann").mkdir(parents=True)
    monkeypatch.setattr(sandbox, "_SYSTEM", (*sandbox._SYSTEM, str(tmp_path)))
    tmp_path.chmod(0o755)
    for hidden, seen in (([], "['ann']"), ([tmp_path / "class"], "[]")):
        script = f"import os; print(os.listdir({str(tmp_path / 'class')!r}))"
        ended = sandbox.run_confined([sys.executable, "-c", script], seconds=60, hidden=hidden)
        assert ended.output.strip() == seen, (hidden, ended.output, ended.errors)


def test_a_home_folder_is_never_a_folder_of_programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert tmp_path not in sandbox._without_home(tmp_path) and sandbox._without_home(Path("/usr")) == [Path("/usr")]
    assert Path("/") not in sandbox._without_home(Path("/"))


def test_running_checks_are_stopped_with_their_children(tmp_path: Path) -> None:
    """Check that what a stopped program started is stopped, too, as Ctrl-C does with the checks that are running."""
    note = tmp_path / "child"
    script = f"import os, time\nif child := os.fork(): open({str(note)!r}, 'w').write(f'{{child}} ')\ntime.sleep(100)"
    ended: list[sandbox.Ended] = []
    thread = Thread(target=lambda: ended.append(sandbox.run_unconfined([sys.executable, "-c", script], seconds=90)))
    thread.start()
    while not (note.exists() and note.read_text().endswith(" ")):
        assert thread.is_alive()
        time.sleep(0.1)
    sandbox.stop_all()
    thread.join(10)
    assert ended and ended[0].status == -9
    child = note.read_text().strip()
    assert not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text().split()[2]
