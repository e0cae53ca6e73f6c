"""Driver of a headless Chromium through its own protocol over pipes, which needs nothing but the browser."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
from base64 import b64decode
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")

# The width and height of what is looked at, in CSS pixels.
DESKTOP = (1280, 1000)
PHONE = (390, 844)

_PATIENCE = 60  # seconds

_START = "import os, sys; _, r, w, *c = sys.argv; os.dup2(int(r), 3); os.dup2(int(w), 4); os.execvp(c[0], c)"

_EXTENT = """(() => {
  const element = document.querySelector(%s);
  element.scrollIntoView({block: "center"});
  const { x, y, width, height } = element.getBoundingClientRect();
  return [x, y, width, height];
})()"""


def find_browser() -> str | None:
    """Return the command of a Chromium on PATH that starts (or ``$TILEDMM_BROWSER``), or None if there is none."""
    if named := os.environ.get("TILEDMM_BROWSER"):
        return named
    return next((path for name in NAMES if (path := shutil.which(name)) and _starts(path)), None)


def _starts(command: str) -> bool:
    """Check that a command starts a browser, as some systems have one that only tells how to install it."""
    try:
        return subprocess.run([command, "--version"], capture_output=True, timeout=_PATIENCE).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


class Browser:
    """A tab of the browser. ``errors`` lists a page's uncaught exceptions, console errors and missing files."""

    def __init__(self, command: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="tiledmm-browser-", ignore_cleanup_errors=True)
        theirs, self._to = os.pipe()
        self._from, their_answers = os.pipe()
        arguments = [
            command, "--headless=new", "--remote-debugging-pipe", f"--user-data-dir={self._folder.name}",
            "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
            "--hide-scrollbars",
            "--no-sandbox",  # which containers and root do not have, and pages of this repository do not need
            "about:blank",
        ]  # fmt: skip
        # It reads from 3 and answers on 4.
        start = [sys.executable, "-S", "-c", _START, str(theirs), str(their_answers), *arguments]
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(
            start, pass_fds=(theirs, their_answers), stdin=quiet, stdout=quiet, stderr=quiet
        )
        os.close(theirs)
        os.close(their_answers)
        self._unread = b""
        self._sent = 0
        self._session: str | None = None
        self.errors: list[str] = []
        try:
            target = self._call("Target.createTarget", url="about:blank")["targetId"]
            self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log"):
                self._call(f"{domain}.enable")
        except (OSError, RuntimeError):
            self.close()
            raise

    def close(self) -> None:
        """Close the browser."""
        try:
            self._call("Browser.close")
            self._process.wait(timeout=30)
        except (OSError, RuntimeError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._to)
        os.close(self._from)
        self._folder.cleanup()

    def open(self, path: Path, fragment: str = "") -> None:
        """Open a file, as a double click on it does."""
        self._call("Page.navigate", url="about:blank")
        self._call("Page.navigate", url=path.resolve().as_uri() + fragment)
        self.wait_for("document.readyState === 'complete' && location.protocol === 'file:'")

    def evaluate(self, expression: str) -> Any:
        """Evaluate a JavaScript expression in the page and return its value."""
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait_for(self, expression: str) -> None:
        """Wait until an expression is true, for ten seconds at most."""
        seen = (
            "new Promise((done) => { const end = Date.now() + 10000; (function look() { const is = Boolean("
            f"{expression}); is || Date.now() > end ? done(is) : setTimeout(look, 20); }})(); }})"
        )
        for _ in range(20):  # a navigation under way takes the promise with it
            try:
                if self.evaluate(seen):
                    return
                break
            except RuntimeError:
                continue
        raise RuntimeError(f"never true: {expression}")

    def press(self, key: str, *, shift: bool = False) -> None:
        """Press a key, such as ``"ArrowRight"``."""
        keys = {"key": key, "code": "Space" if key == " " else key, "modifiers": 8 if shift else 0}
        typed = {"text": key} if len(key) == 1 else {}
        self._call("Input.dispatchKeyEvent", type="keyDown", **keys, **typed)
        self._call("Input.dispatchKeyEvent", type="keyUp", **keys)

    def click(self, selector: str, *, right: float = 0.5, down: float = 0.5) -> None:
        """Click on an element, at fractions ``right`` and ``down`` of its extent; by default on its middle."""
        x, y, width, height = self.evaluate(_EXTENT % json.dumps(selector))
        x, y = x + width * right, y + height * down
        for kind in ("mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def resize(self, width: int, height: int, *, scale: int = 1) -> None:
        """Set the size of the window, in px."""
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=width < 600,
        )

    def prefer(self, scheme: str) -> None:
        """Set ``prefers-color-scheme``."""
        self._call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """Save the visible part of the page, or the whole page, as a PNG."""
        picture = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(b64decode(picture["data"]))

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._sent += 1
        message: dict[str, Any] = {"id": self._sent, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._to, data) :]
        while True:
            answer = self._receive()
            if answer.get("id") == self._sent:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return dict(answer["result"])
            self._notice(answer)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            if not select.select([self._from], [], [], _PATIENCE)[0]:
                raise RuntimeError(f"the browser has not answered for {_PATIENCE} seconds")
            more = os.read(self._from, 1 << 16)
            if not more:
                raise RuntimeError(f"the browser has ended, with exit status {self._process.wait(timeout=30)}")
            self._unread += more
        message, self._unread = self._unread.split(b"\0", 1)
        return dict(json.loads(message))

    def _notice(self, event: dict[str, Any]) -> None:
        method, what = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(what["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and what["type"] in ("error", "warning", "assert"):
            self.errors.append(json.dumps(what["args"]))
        elif method == "Log.entryAdded" and what["entry"]["level"] in ("error", "warning"):
            self.errors.append(json.dumps(what["entry"]))
