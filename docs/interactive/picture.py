"""Take screenshots of the tile-loop page for README.md and the site: ``python -m docs.interactive.picture``.

Writes one file per color scheme, ``tile_loop-light.png`` and ``tile_loop-dark.png`` in ``docs/pictures``. Needs a
Chromium on PATH (or ``$TILEDMM_BROWSER``). Tests check that the pictures exist but do not compare them, since browsers
and fonts differ.
"""

from __future__ import annotations

import sys
from pathlib import Path

from docs.tools.browser import Browser, find_browser

PAGE = Path(__file__).with_name("index.html")
FOLDER = Path(__file__).resolve().parents[1] / "pictures"

#: Width and height in CSS pixels.
SIZE = (1280, 800)

#: What is shown: the warp reads a column of B's tile, eight words in each of two banks.
SHOWN = "#variant=tiled&layout=NT&tile=16&warp=0&lane=5&step=6"


def pictures() -> dict[str, Path]:
    """Return the paths by color scheme."""
    return {scheme: FOLDER / f"tile_loop-{scheme}.png" for scheme in ("light", "dark")}


def main() -> int:
    """Write the pictures; return the exit status."""
    command = find_browser()
    if command is None:
        print("There is no Chromium on PATH; $TILEDMM_BROWSER may name one.", file=sys.stderr)
        return 1
    browser = Browser(command)
    try:
        browser.resize(*SIZE)
        for scheme, path in pictures().items():
            browser.prefer(scheme)
            browser.open(PAGE, SHOWN)
            browser.screenshot(path)
            print(f"{path}: written")
    finally:
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
