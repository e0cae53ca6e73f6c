"""Running a program as ``python program.py`` does, with CuPy's products replaced once it has imported CuPy."""

from __future__ import annotations

import builtins
import io
import os
import sys
import types
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, NoReturn

from tiledmm.replacement.names import Replacement, begin


def run(script: Path, arguments: Sequence[str], replacement: Replacement) -> None:
    """Run a program as the main module of this process, with CuPy's products replaced. They stay replaced afterwards.

    Before the program starts, CuPy is not imported and CUDA is not initialized, so the program may set environment
    variables for them first, and may fork. Threads and exit functions that outlive the program find its module
    unchanged.

    Args:
        script: Path of the program.
        arguments: Arguments of the program: ``sys.argv`` after its own name.
        replacement: Replacement of CuPy's products. It begins when the program imports CuPy.

    Raises:
        SystemExit: If the program raises it. Any other exception leads to status 1, or 130 for a keyboard interrupt,
            after its traceback was printed without the frames above the program.
    """
    when_imported("cupy", lambda: begin(replacement))
    path = os.path.abspath(script)
    main = types.ModuleType("__main__")
    vars(main).update(__file__=path, __builtins__=builtins)
    sys.modules["__main__"] = main
    sys.argv[:] = [os.fspath(script), *arguments]
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = os.path.dirname(os.path.realpath(path))
    try:
        with io.open_code(path) as file:
            code = compile(file.read(), path, "exec", dont_inherit=True)
        exec(code, vars(main))
    except SystemExit:
        raise
    except BaseException as error:
        _end(error)


def _end(error: BaseException) -> NoReturn:
    """Print an exception as Python does when an exception ends a program, and end this process.

    The exit status is 1, or 130 for a keyboard interrupt.
    """
    below = error.__traceback__.tb_next if error.__traceback__ else None
    sys.excepthook(type(error), error.with_traceback(below), below)
    raise SystemExit(130 if isinstance(error, KeyboardInterrupt) else 1) from None


def when_imported(name: str, then: Callable[[], None]) -> None:
    """Call a function as soon as a module has been imported; at once if it is imported already.

    Args:
        name: Name of the module.
        then: Function to call.
    """
    if name in sys.modules:
        then()
    else:
        sys.meta_path.insert(0, _Watch(name, then))


class _Watch(MetaPathFinder):
    """Import finder that lets the other finders import a module, and then calls a function."""

    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self.name, self.then = name, then

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        others = (finder.find_spec(fullname, path, target) for finder in sys.meta_path if finder is not self)
        spec = next(filter(None, others), None)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: types.ModuleType) -> None:
                execute(module)
                sys.meta_path.remove(self)
                self.then()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
