"""Runs of a program in separate namespaces: without a network, and with private folders as the only writable ones."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import tiledmm
from tiledmm.simulator.build.cxx import compiler

#: Folder in which a program in the sandbox finds the submission, and folder that it may write to.
FOLDER, SCRATCH = Path("/submission"), Path("/tmp")

# The user `nobody`, who owns no files and has the same number on every system.
_NOBODY = 65534

# Folders of the system with programs, libraries, and what the linker and the compiler read.
_SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store", "/etc/alternatives", "/etc/ld.so.cache",
    "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime",
)  # fmt: skip

# Parts of a folder of programs, such as /usr/local.
_PARTS = ("bin", "lib", "lib64", "libexec", "include", "share")

# A folder in memory does not count as memory of a process, so it needs its own limit.
_FOLDER_BYTES = 2**28

# Environment variables that a program keeps: they name the compiler, and folders of shared libraries.
_KEPT = ("PATH", "CXX", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "LANG")


# Programs that are running now.
_running: set[subprocess.Popen[bytes]] = set()


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended.

    Attributes:
        status: Its exit status, negative for a signal; None if it was stopped because it took too long.
        output, errors: What it wrote to stdout and stderr.
    """

    status: int | None
    output: str
    errors: str


def missing() -> str:
    """Return why this machine cannot run a sandbox, and how to fix that; empty if it can."""
    if sys.platform != "linux":
        return f"the sandbox needs Linux namespaces, but this is {sys.platform}"
    if shutil.which("bwrap") is None:
        return "the sandbox needs bubblewrap: install the package bubblewrap of your system"
    try:
        import pyseccomp  # noqa: F401
    except (ImportError, RuntimeError, OSError) as error:
        return f"the sandbox needs libseccomp and pyseccomp ({error}): pip install 'tiledmm[grade]'"
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        return "if root starts the sandbox, it needs setpriv: install the package util-linux"
    done = subprocess.run([*_bubblewrap(()), "true"], capture_output=True, text=True, env=_environment({}))
    if done.returncode:
        return (
            f"bubblewrap cannot create namespaces here ({done.stderr.strip()}). If the system, like Ubuntu 24.04, does "
            "not let users create them, start this command as root: it gives up root's rights before it runs a kernel"
        )
    return ""


def run_confined(
    command: Sequence[str],
    *,
    seconds: float,
    input_bytes: bytes = b"",
    shown: Mapping[Path, Path] | None = None,
    empty: Sequence[Path] = (),
    hidden: Sequence[Path] = (),
    variables: Mapping[str, str] | None = None,
) -> Ended:
    """Run a program in a sandbox.

    The program runs as an unprivileged user, even if root starts it. It sees only its own processes, has no network,
    and has a private folder ``/tmp`` in memory. It can read the system's programs and libraries, Python and this
    package, but not write to them.

    Args:
        command: The program and its arguments.
        seconds: Seconds after which it is stopped, with all of its processes.
        input_bytes: Bytes that it reads from stdin.
        shown: Files and folders that it can read, by their paths in the sandbox.
        empty: Folders that are empty in the sandbox; their content is lost when the program ends.
        hidden: Folders that it cannot read, even inside a folder that it can read.
        variables: Further environment variables.
    """
    options = [word for there, here in (shown or {}).items() for word in ("--ro-bind", str(here), str(there))]
    for folder in dict.fromkeys([*empty, *(each for each in hidden if any(map(each.is_relative_to, _mounted())))]):
        options += [*_parents(folder), "--perms", "1777", "--size", str(_FOLDER_BYTES), "--tmpfs", str(folder)]
    return _run([*_bubblewrap(options), *command], seconds, input_bytes, _environment(variables or {}))


def run_unconfined(command: Sequence[str], *, seconds: float, input_bytes: bytes = b"") -> Ended:
    """Run a program as this user, only with a limit of time. The arguments are those of ``run_confined``."""
    return _run(command, seconds, input_bytes, {**os.environ, **_paths()})


def _run(command: Sequence[str], seconds: float, input_bytes: bytes, environment: Mapping[str, str]) -> Ended:
    # What a program prints goes to files, whose size is limited: a pipe would have to be kept in memory.
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors, tempfile.TemporaryFile() as given:
        given.write(input_bytes)
        given.seek(0)
        process = subprocess.Popen(
            command, stdin=given, stdout=output, stderr=errors, env=dict(environment), start_new_session=True
        )
        _running.add(process)
        try:
            status: int | None = process.wait(seconds)
        except subprocess.TimeoutExpired:
            _kill(process)
            process.wait()
            status = None
        finally:
            _running.discard(process)
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read(2**20).decode(errors="replace"))
    return Ended(status, *texts)


def stop_all() -> None:
    """Stop all running programs, so that the threads that wait for them end."""
    for process in list(_running):
        _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a program and the programs in its session; in a sandbox, these are all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _bubblewrap(options: Sequence[str]) -> list[str]:
    """Return the command line of a sandbox, to which the caller adds a program."""
    is_root = os.geteuid() == 0
    found = ["bwrap", "--die-with-parent", "--new-session"]
    # Root needs no namespace of users to make the others. Limits on processes hold for nobody, but not for root.
    found += [f"--unshare-{each}" for each in ("ipc", "pid", "net", "uts", *(() if is_root else ("user",)))]
    found += ["--proc", "/proc", "--dev", "/dev"]
    found += ["--perms", "1777", "--size", str(_FOLDER_BYTES), "--tmpfs", str(SCRATCH)]
    found += ["--perms", "1777", "--size", str(2**20), "--tmpfs", "/dev/shm"]  # where Python keeps semaphores
    for folder in _mounted():
        found += [*_parents(folder), "--ro-bind-try", str(folder), str(folder)]
    found += ["--dir", str(FOLDER), *options, "--chdir", str(SCRATCH)]
    # Without root, the folders between mounts belong to the program, in memory that has no limit.
    found += ["--remount-ro", "/", "--remount-ro", "/dev", "--"]
    nobody = ("setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups", "--bounding-set=-all")
    return [*found, *(nobody if is_root else ())]


def _mounted() -> list[Path]:
    """Return the folders and files of this machine that a program in the sandbox can read."""
    return list(dict.fromkeys([*map(Path, _SYSTEM), *_readable()]))


def _parents(folder: Path) -> list[str]:
    """Return the options that create a folder's parents, so that all users may enter them."""
    return [word for parent in reversed(folder.parents[:-1]) for word in ("--dir", str(parent))]


def _readable() -> list[Path]:
    """Return the folders with Python, its packages, this package and the compiler."""
    package = Path(tiledmm.__file__).resolve().parent
    programs = [Path(sys.executable), Path(shutil.which(compiler()[0]) or "/usr/bin/c++")]
    trees = [Path(sys.prefix), Path(sys.base_prefix), *(each.resolve().parent.parent for each in programs)]
    found = [part for tree in trees for part in _without_home(tree)]
    found += [*_packages(), package, package.parent / "cuda_src"]
    usual = [Path(each) for each in _SYSTEM]
    return [each for each in found if each.exists() and not any(each.is_relative_to(folder) for folder in usual)]


def _without_home(tree: Path) -> list[Path]:
    """Return a folder of programs, or only its parts for programs if it is or contains the user's home folder."""
    owner = os.environ.get("SUDO_USER", "")
    homes = [Path(os.path.expanduser(each)).resolve() for each in ("~", f"~{owner}")]
    is_home = any(each.is_relative_to(tree.resolve()) for each in homes)
    return [tree / part for part in _PARTS] if is_home else [tree]


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name in _KEPT if (value := os.environ.get(name))}
    own = {name: value for name, value in os.environ.items() if name.startswith("TILEDMM_")}
    return {"PATH": os.defpath, "HOME": str(SCRATCH), **kept, **own, **_paths(), **variables}


def _packages() -> list[Path]:
    """Return the folders of installed packages, which may be a user's own."""
    return [Path(each) for each in sys.path if each.endswith(("site-packages", "dist-packages"))]


def _paths() -> dict[str, str]:
    """Return the variables by which Python finds the same packages, and this package in a source tree, too."""
    folders = [Path(tiledmm.__file__).resolve().parent.parent, *_packages()]
    return {"PYTHONPATH": os.pathsep.join(map(str, folders)), "PYTHONDONTWRITEBYTECODE": "1"}
