"""Hooks that MkDocs calls while it builds the site: pages from outside ``docs/``, links to the repository, markers.

The documents are also read on the repository's own page. Therefore they link to files at their paths there, and
comments mark what the site adds: ``<!-- code: tiled -->`` becomes the rendered kernel, with selectors for others.
"""

from __future__ import annotations

import json
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.plugins import get_plugin_logger
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))  # `mkdocs` alone does not look where it was called

from docs.tools import instructions, plain, rendered  # noqa: E402

#: Documents outside docs/, and the pages that they are.
PAGES = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/results/README.md": "results.md",
    "docs/notebook.ipynb": "notebook.md",
}

#: Pages that are looked up, or whose last sections are: how many of their first sections are open. The others are
#: folded, and open by a click on their heading, a link to it or a search.
FOLDED = dict.fromkeys(
    ("api.md", "changelog.md", "command_line.md", "profiling.md", "results.md", "selection.md", "shapes.md",
     "simulator/counts.md", "simulator/findings.md", "simulator/planted_bugs.md"), 0
) | {
    "charts.md": 6, "checks.md": 2, "contributing.md": 3, "course/teaching.md": 3, "distributed.md": 7,
    "epilogues.md": 5, "ladder.md": 2, "own_kernels.md": 2, "padding.md": 6, "supported.md": 3,
}  # fmt: skip

#: Factors by which the scores of pages are multiplied in a search: above 1 for pages that answer what is searched for.
BOOSTED = {
    "own_kernels.md": 4,
    "supported.md": 3,
    "padding.md": 2,
    "simulator.md": 2,
    "changelog.md": 0.2,
}

#: Folder of the files that draw the tile-loop page, beside which the site copies them.
PAGE = "tiledmm/own_kernels/trace_page"

#: Folder of the pages for other files of the repository that something links to.
SOURCES = "source"

_LOG = get_plugin_logger("markers")

_LANGUAGES = {".py": "python", ".j2": "cuda", ".cuh": "cuda", ".cu": "cuda", ".h": "cpp", ".cpp": "cpp"}

# A link's target, outside of code.
_FENCE = re.compile(r"^ *(```|~~~).*?^ *\1 *$", re.MULTILINE | re.DOTALL)
# Files that HTML in a page names.
_NAMED = re.compile(r'(?P<attribute>src|srcset)="(?P<path>[^":]+)"')
_LINK = re.compile(r"(?<=\]\()(?P<path>[^\s()#:]+)(?P<anchor>#[\w-]+)?(?=\))")
_MARKER = re.compile(r"^<!-- (?P<kind>[a-z]+): (?P<what>.+?) -->$", re.MULTILINE)


#: Folder of the variants' pages. With the name of a group, it is a placeholder in the navigation for the group's pages.
RUNGS = "rungs/"


def on_config(config: Any) -> Any:
    """Insert the pages of the variants into the navigation, in ladder order."""
    config["nav"] = with_rungs(config["nav"])
    return config


def with_rungs(nav: Any) -> Any:
    """Return a part of the navigation with the pages of each group of variants in place of ``rungs/GROUP``.

    Raises:
        ValueError: If a placeholder names no group of ``plain.groups``.
    """
    groups = {f"{RUNGS}{name}": rungs for name, rungs in plain.groups().items()}
    if isinstance(nav, dict):
        return {title: with_rungs(part) for title, part in nav.items()}
    if not isinstance(nav, list):
        return nav
    pages: list[Any] = []
    for part in nav:
        if not isinstance(part, str) or not part.startswith(RUNGS):
            pages.append(with_rungs(part))
        elif part in groups:
            pages += [f"{RUNGS}{rung}.md" for rung in groups[part]]
        else:
            raise ValueError(f"mkdocs.yml names {part}; the groups of variants are {', '.join(groups)}")
    return pages


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are not files in ``docs/``."""
    for path, uri in PAGES.items():
        text = (ROOT / path).read_text(encoding="utf-8")
        files.append(File.generated(config, uri, content=_of_notebook(text) if path.endswith(".ipynb") else text))
    for rung in plain.rungs():
        uri = f"{RUNGS}{rendered.KERNELS}/{rung}.js"
        files.append(File.generated(config, uri, content=rendered.script(rung)))
    for name in ("page.css", "page.js", "pipeline.css", "pipeline.js"):
        files.append(
            File.generated(config, f"interactive/{name}", content=(ROOT / PAGE / name).read_text(encoding="utf-8"))
        )
    documents = [(_path_of(file), file.content_string) for file in files.documentation_pages()]
    linked = {target for path, text in documents for target in _linked(path, text)}
    for path in sorted(linked):
        if _uri_of(path).startswith(f"{SOURCES}/"):
            files.append(File.generated(config, _uri_of(path), content=_page_of(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Expand markers, and turn links to files of the repository into links to pages."""
    here = page.file.src_uri
    if here.startswith(f"{SOURCES}/"):
        return markdown
    if here in BOOSTED:
        page.meta["search"] = {"boost": BOOSTED[here]}
    if page.is_homepage:  # the tabs are its menu
        page.meta["hide"] = sorted({*page.meta.get("hide", []), "navigation"})
    text = _MARKER.sub(lambda marker: _expanded(marker, here), markdown)
    text = _outside_of_code(text, lambda part: _LINK.sub(lambda link: _relinked(link, here), part))
    return _outside_of_code(text, lambda part: _NAMED.sub(lambda named: _renamed(named, here), part))


def on_page_content(html: str, page: Any, config: Any, files: Files) -> str:
    """Fold the sections of reference pages; a script opens the glossary's where there is room."""
    if page.file.src_uri == "glossary.md":
        opening, terms = folded(html).split("<details", 1)
        return f'{opening}<div class="glossary"><details{terms}</div>'
    at = FOLDED.get(page.file.src_uri)
    return html if at is None else folded(html, at)


def folded(html: str, first: int = 0) -> str:
    """Return a page with each section folded under its heading, except the given number of first sections."""
    opening, *sections = re.split(r"(?=<h2[ >])", html)
    parts = [opening, *sections[:first]]
    for section in sections[first:]:
        heading, end, rest = section.partition("</h2>")
        parts.append(f'<details class="section"><summary>{heading}{end}</summary>{rest}</details>\n')
    return "".join(parts)


def _renamed(named: re.Match[str], here: str) -> str:
    path = _target(_path_at(here), named["path"])
    if not (ROOT / path).is_file():
        _LOG.warning("%s: there is no %s", here, named["path"])
    return f'{named["attribute"]}="{posixpath.relpath(_uri_of(path), posixpath.dirname(here) or ".")}"'


def _expanded(marker: re.Match[str], here: str) -> str:
    match marker["kind"]:
        case "code":
            return rendered.selectors(marker["what"])
        case "plain":
            return plain.how_to_edit(marker["what"])
        case "mainloop":
            return instructions.sentence(marker["what"])
        case "diff":
            return plain.diff(*marker["what"].split())
        case "row":
            return rendered.row(marker["what"])
        case "variants" if marker["what"] in rendered.TABLES:
            return rendered.TABLES[marker["what"]]()
        case "output":
            return marker[0]
    _LOG.warning("%s: nothing is known of %s", here, marker[0])
    return marker[0]


def _relinked(link: re.Match[str], here: str) -> str:
    path = _target(_path_at(here), link["path"])
    if not (ROOT / path).exists():
        return link[0]  # MkDocs says so
    return posixpath.relpath(_uri_of(path), posixpath.dirname(here) or ".") + (link["anchor"] or "")


def _linked(path: str, text: str) -> set[str]:
    found: set[str] = set()

    def look(part: str) -> str:
        found.update(_target(path, link["path"]) for link in _LINK.finditer(part))
        return part

    _outside_of_code(text, look)
    return {target for target in found if (ROOT / target).exists()}


def _outside_of_code(text: str, change: Any) -> str:
    parts, position = [], 0
    for fence in _FENCE.finditer(text):
        parts += [change(text[position : fence.start()]), fence[0]]
        position = fence.end()
    return "".join([*parts, change(text[position:])])


def _target(path: str, link: str) -> str:
    """Return the repository path of a link in the document at a repository path."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), link))


def _path_of(file: File) -> str:
    return _path_at(file.src_uri)


def _path_at(uri: str) -> str:
    """Return the repository path from which a page is made."""
    for path, known in PAGES.items():
        if uri == known:
            return path
    return f"docs/{uri}"


def _uri_of(path: str) -> str:
    """Return the page of a file or folder of the repository."""
    if path in PAGES:
        return PAGES[path]
    if path.startswith("docs/") and not path.endswith(".py"):
        return path.removeprefix("docs/")
    return f"{SOURCES}/{path}/index.md" if (ROOT / path).is_dir() else f"{SOURCES}/{path}.md"


def on_post_build(config: Any) -> None:
    """Fix the links of the interactive pages, which are not Markdown: to HTML pages, and to files beside them."""
    for name in ("index.html", "pipeline.html"):
        page = Path(config["site_dir"], "interactive", name)
        text = page.read_text(encoding="utf-8").replace('.md">', '.html">').replace(f"../../{PAGE}/", "")
        page.write_text(text, encoding="utf-8")


def _of_notebook(text: str) -> str:
    """Convert a notebook's cells to a page."""
    cells = [("".join(cell["source"]), cell["cell_type"]) for cell in json.loads(text)["cells"]]
    parts = [text if kind == "markdown" else rendered.fenced(text, "python") for text, kind in cells]
    download = "[Download it](notebook.ipynb){ download }, and run it: with a GPU, or without one on the simulator."
    return "\n\n".join([parts[0], download, *parts[1:]])


def _page_of(path: str) -> str:
    """Return a page with a file's text or a folder's contents."""
    head = f"---\nsearch: {{ exclude: true }}\n---\n\n# {path}\n\n"
    file = ROOT / path
    if file.is_dir():
        return head + "\n".join(f"- `{each.name}`" for each in sorted(file.iterdir()) if each.name[0] not in "._")
    return head + rendered.fenced(file.read_text(encoding="utf-8"), _LANGUAGES.get(file.suffix, "text"))
