"""Run a short selection of tests with the oldest and the newest versions that pyproject.toml allows.

``python -m tools.supported lowest``: the lowest version of each dependency, in the oldest Python on this machine.
``python -m tools.supported newest``: the newest versions, in each Python on this machine.
``python -m tools.supported latest``: the newest versions, in the newest of these Pythons.

Needs only a Python with pip. Each environment is a folder ``.venv-NAME`` at the top of the repository, created again
when pyproject.toml changes. uv reads the lowest versions from pyproject.toml itself, so that there is no second list.
If the lowest version has no wheel for a Python, the next version with one is used.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

#: CuPy and PyTorch are left out for their size: 120 MB and 2 GB.
EXTRAS = "inspect,charts,dask,test"

#: What the dependencies are used for: Jinja renders, Typer and Rich make the command line, filelock and platformdirs
#: keep the cache, pyelftools reads debug information, NumPy and ml_dtypes hold operands, and cuda-core compiles. A
#: pattern may match in any folder of tests; a test's name may follow it.
SELECTION = (
    "test_charts.py",
    "cli/test_[!r]*.py",
    "test_codegen.py",
    "test_dask.py::test_any_strides",
    "test_debug_info.py",
    "test_docstrings.py",
    "test_packaging.py",
    "test_public_names.py",
    "test_shared_folder.py",
    "test_simulate.py",
    "test_source_map.py",
)

#: Slowest tests of those files, which are left out; others there use the same libraries.
LEFT_OUT = (
    "test_a_picture_is_written_for_both_themes",
    "test_auto_compiles_a_handful_of_kernels",
    "test_code_that_the_linker_dropped_hides_none",
    "test_editable_install_reads_the_checkout",
    "test_help_imports_nothing_but_typer",
    "test_wheel_works_without_an_index",
)

_NEWEST = 14  # of the releases of Python 3 that are named where they are not found
_VERSIONS = """
import re
from importlib.metadata import PackageNotFoundError, requires, version
for name in sorted({re.match(r"[\\w.-]+", each)[0] for each in requires("tiledmm")} - {"tiledmm"}):
    try:
        print(name, version(name), sep="==")
    except PackageNotFoundError:
        pass
"""


def oldest_allowed(pyproject: str) -> int:
    """Return the N of the oldest Python 3.N that a pyproject.toml allows; Python 3.10 itself cannot parse TOML."""
    found = re.search(r'^requires-python = ">=3\.(\d+)"$', pyproject, re.MULTILINE)
    if not found:
        raise SystemExit('pyproject.toml has no line such as: requires-python = ">=3.10"')
    return int(found[1])


def interpreter(minor: int, pyenv: Path) -> str | None:
    """Return the command of Python 3.``minor`` from PATH or pyenv's versions; None if there is none that runs."""
    name = f"python3.{minor}"
    on_path = shutil.which(name)
    for command in [*([on_path] if on_path else []), *map(str, sorted(pyenv.glob(f"versions/3.{minor}.*/bin/{name}")))]:
        # pyenv puts commands on PATH that fail for versions that are not activated.
        done = subprocess.run([command, "-c", "import venv, ensurepip"], capture_output=True)
        if not done.returncode:
            return command
    return None


def selection(tests: Path) -> Iterator[str]:
    """Yield the test files to run, and single tests of other files.

    Raises:
        SystemExit: If a pattern matches no file, which may have been renamed.
    """
    for each in SELECTION:
        pattern, separator, test = each.partition("::")
        files = sorted(path for path in tests.rglob(pattern) if "gpu" not in path.parts)
        if not files:
            raise SystemExit(f"no test file is called {pattern}: SELECTION in tools/supported.py names it")
        yield from (f"{file}{separator}{test}" for file in files)


def uv_settings(pip_settings: str) -> dict[str, str]:
    """Return the environment variables that make uv use pip's configured index and certificates.

    Args:
        pip_settings: Output of ``pip config list``.
    """
    settings = dict(re.findall(r"^(\S+)='(.*)'$", pip_settings, re.MULTILINE))
    found = {}
    for variable, option in {"UV_DEFAULT_INDEX": "index-url", "SSL_CERT_FILE": "cert"}.items():
        for section in (":env:", "install", "global"):
            if f"{section}.{option}" in settings:
                found[variable] = settings[f"{section}.{option}"]
                break
    return found


def prepare(base: str, folder: Path, options: Sequence[str]) -> str:
    """Create an environment with this package, or update an outdated one, and return its interpreter."""
    python = str(folder / "bin" / "python")
    version = subprocess.run([base, "-VV"], check=True, capture_output=True, text=True).stdout
    wanted = "\n".join([version, *options, EXTRAS, (ROOT / "pyproject.toml").read_text("utf-8")])
    stamp = folder / ".ready"
    if stamp.exists() and stamp.read_text("utf-8") == wanted:
        return python
    print(f"Installing tiledmm[{EXTRAS}] in {folder.name} {' '.join(options)}", flush=True)
    subprocess.run([base, "-m", "venv", "--clear", folder], check=True)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "uv"], check=True)
    wheels = ["--only-binary", ":all:", "--no-binary", "tiledmm"]
    install = [python, "-m", "uv", "pip", "install", "--quiet", "--python", python, *wheels, *options]
    listed = subprocess.run([python, "-m", "pip", "config", "list"], check=True, capture_output=True, text=True).stdout
    environment = uv_settings(listed) | os.environ
    subprocess.run([*install, "--editable", f"{ROOT}[{EXTRAS}]"], check=True, env=environment)
    stamp.write_text(wanted, "utf-8")
    return python


def run(base: str, folder: Path, options: Sequence[str], arguments: Sequence[str]) -> bool:
    """Run the selection in an environment and print its versions; return whether the tests pass."""
    python = prepare(base, folder, options)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([python, "-c", _VERSIONS], check=True, capture_output=True, text=True, env=environment)
    release = subprocess.run([python, "-V"], check=True, capture_output=True, text=True).stdout.strip()
    print(f"{release}: {' '.join(done.stdout.split())}", flush=True)
    pytest = [python, "-m", "pytest", "-p", "no:benchmark", "-q", "-n", "auto", "--dist", "worksteal"]
    left_out = [f"-k=not ({' or '.join(LEFT_OUT)})", "-m=not network"]
    chosen = [*selection(ROOT / "tests"), *left_out, *arguments]
    return not subprocess.run([*pytest, *chosen], cwd=ROOT, env=environment).returncode


def main() -> None:
    """Test all selected interpreters and exit with 1 if any fails."""
    parser = argparse.ArgumentParser(prog="python -m tools.supported", description="Other arguments are pytest's.")
    parser.add_argument("versions", choices=["lowest", "newest", "latest"], help="of the dependencies")
    parser.add_argument("--python", help="the one interpreter to test, instead of those that are found")
    options, arguments = parser.parse_known_args()
    lowest = options.versions == "lowest"
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found, missing = {}, []
    if options.python:
        found[Path(options.python).name] = options.python
    else:
        for minor in range(oldest_allowed((ROOT / "pyproject.toml").read_text("utf-8")), _NEWEST + 1):
            command = interpreter(minor, pyenv)
            if command is None:
                missing.append(f"python3.{minor}")
            elif not (lowest and found):
                found[f"python3.{minor}"] = command
    if not found:
        raise SystemExit(f"none of {', '.join(missing)} is on PATH or in {pyenv}")
    if options.versions == "latest":
        found = dict([list(found.items())[-1]])
    passed = {}
    for name, command in found.items():
        folder, resolution = (".venv-lowest", ["--resolution", "lowest-direct"]) if lowest else (f".venv-{name}", [])
        passed[name] = run(command, ROOT / folder, resolution, arguments)
    for name, good in passed.items():
        print(f"{name}, {options.versions} versions: {'passed' if good else 'FAILED'}")
    if missing:
        print(f"not on PATH nor in {pyenv}, so not tested: {', '.join(missing)}")
    sys.exit(not all(passed.values()))


if __name__ == "__main__":
    main()
