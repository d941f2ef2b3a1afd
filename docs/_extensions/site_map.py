"""The pages of the site, and links between them.

docs/README.md is the map, on GitHub and here: its tables become the start page and the sections of the navigation, so a
page that is in the map is on the site. Pages outside of docs/ that it links to, and the examples, are copied into
docs/project/, which git ignores. Links follow: `../ARCHITECTURE.md#words` leads to the copy.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

DOCS = Path(__file__).resolve().parents[1]
ROOT = DOCS.parent
#: Where copies go, inside of docs/.
COPIES = "project"
#: The line of docs/index.md that the map replaces.
MARK = "<!-- the map: docs/README.md -->"
#: Pages that only the site has, by the section of the map that they open, with their rows there.
SITE_ONLY: Mapping[str, Mapping[str, str]] = {
    "Reference": {
        "api/index": "| [Python API](api/index.rst) | every public name: what it takes, what it returns, examples |",
        "cli": "| [Command line](cli.rst) | every command and its options |",
    }
}

_BLOCK = re.compile(r"^ *(`{3,}|~{3,}).*\n(?:.*\n)*? *\1 *$", flags=re.MULTILINE)
_TEXT_LINK = re.compile(r"(?<!!)\[([^\[\]]+)\]\(([^()\s]+)\)")
_LINK = re.compile(r"(?<=\]\()([^()\s]+)(?=\))")
_LEXERS = {".py": "python", ".yml": "yaml", ".conf": "nginx", ".service": "ini"}


def section_links(text: str) -> dict[str, list[str]]:
    """Return what each section of the map links to in the first cell of a row, in order."""
    found: dict[str, list[str]] = {}
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title, _, body = section.partition("\n")
        links = re.findall(r"^\| \[[^\]]+\]\(([^)#]+)", body, flags=re.MULTILINE)
        found[title.strip()] = list(dict.fromkeys(links))
    return found


def pages() -> dict[str, list[str]]:
    """Return the pages of each section of the site, by their names in Sphinx."""
    found = section_links((DOCS / "README.md").read_text(encoding="utf-8"))
    return {
        title: [*SITE_ONLY.get(title, ()), *(page_name(_joined("docs", link)) or link for link in links)]
        for title, links in found.items()
    }


def page_name(path: str) -> str | None:
    """Return the page of the site that shows a file of the repository, given from its root; None if there is none."""
    if path in ("README.md", "docs/README.md", "docs"):
        return "index"
    if path == "examples" or path.startswith("examples/"):
        return f"{COPIES}/examples"
    place = PurePosixPath(path)
    if place.suffix not in (".md", ".ipynb", ".rst"):
        return None
    if place.parts[0] == "docs":
        return place.relative_to("docs").with_suffix("").as_posix()
    return f"{COPIES}/{place.stem.lower().replace('_', '-')}" if len(place.parts) == 1 else None


def with_site_links(text: str, path: str, name: str) -> str:
    """Return a document in which links to files of the repository lead to pages of the site.

    Links to other files stay, and become downloads; of links to other folders only the text is left.

    Parameters
    ----------
    text
        The document.
    path
        Where it is in the repository: what its links start from.
    name
        The page of the site that shows it.
    """

    def adapted(prose: str) -> str:
        without = _TEXT_LINK.sub(lambda link: link[1] if _is_hidden_folder(link[2], path) else link[0], prose)
        return _LINK.sub(lambda link: _site_link(link[0], path, name), without)

    pieces, end = [], 0
    for block in _BLOCK.finditer(text):
        pieces += [adapted(text[end : block.start()]), block[0]]
        end = block.end()
    return "".join([*pieces, adapted(text[end:])])


def _is_hidden_folder(link: str, path: str) -> bool:
    found = _joined(PurePosixPath(path).parent.as_posix(), link.partition("#")[0])
    return not re.match(r"[a-z]+:|#", link) and (ROOT / found).is_dir() and page_name(found) is None


def _site_link(link: str, path: str, name: str) -> str:
    target, hash, anchor = link.partition("#")
    if not target or re.match(r"[a-z]+:", target):
        return link
    found = _joined(PurePosixPath(path).parent.as_posix(), target)
    shown = page_name(found)
    here = PurePosixPath("docs", name).parent.as_posix()
    if shown is None:
        return os.path.relpath(found, here) + hash + anchor
    if shown.endswith("/examples") and not (ROOT / found).is_dir():
        hash, anchor = "#", _slug(found)
    ending = next((end for end in (".ipynb", ".rst") if found.endswith(end)), ".md")
    return os.path.relpath(f"docs/{shown}{ending}", here) + hash + anchor


def _joined(folder: str, link: str) -> str:
    return os.path.normpath(os.path.join(folder, link))  # noqa: PTH118  # a link, not a path


def _slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


# --- pages that are made ---------------------------------------------------------------------------------------------


def outside_pages() -> dict[str, Path]:
    """Return the documents at the root of the repository, by their page; the README is the start page's affair."""
    found = {page_name(file.name): file for file in sorted(ROOT.glob("*.md"))}
    return {name: file for name, file in found.items() if name not in (None, "index")}


def examples_page() -> str:
    """Return a page with every example."""
    lines = ["# Examples", "", "For readers of code: the programs and settings that other pages mention, whole.", ""]
    files = [file for file in sorted((ROOT / "examples").rglob("*")) if file.is_file() and "__" not in file.as_posix()]
    for file in files:
        path = file.relative_to(ROOT).as_posix()
        lexer = _LEXERS.get(file.suffix, "text")
        lines += [f"## {path}", "", f"````{lexer}", file.read_text(encoding="utf-8").rstrip(), "````", ""]
    return "\n".join(lines)


def start_page(text: str) -> str:
    """Return docs/index.md with the map in it, and with tables of contents, which become the navigation."""
    whole = (DOCS / "README.md").read_text(encoding="utf-8")
    shown = "\n" + "".join(map(_with_rows, re.split(r"^(?=## )", whole, flags=re.MULTILINE)[1:]))
    lists = [_toctree(title, names) for title, names in pages().items()]
    others = sorted({*outside_pages(), f"{COPIES}/examples"} - {name for names in pages().values() for name in names})
    return text.replace(MARK, "\n".join([shown, *lists, _toctree("Project", others)]))


def _with_rows(section: str) -> str:
    """Return a section of the map with the pages that only the site has at the top of its table."""
    title = section.partition("\n")[0].removeprefix("## ").strip()
    rows = "".join(f"{row}\n" for row in SITE_ONLY.get(title, {}).values())
    return re.sub(r"(?<=\n)\|( --- \|)+\n", lambda head: head[0] + rows, section, count=1)


def _toctree(title: str, names: Sequence[str]) -> str:
    return "\n".join(["", "```{toctree}", ":hidden:", f":caption: {title}", "", *names, "```", ""])


def _write_copies(app: Any) -> None:
    made = {f"{COPIES}/examples": examples_page()}
    for name, file in outside_pages().items():
        made[name] = with_site_links(file.read_text(encoding="utf-8"), file.name, name)
    folder = Path(app.srcdir) / COPIES
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.md"):
        if f"{COPIES}/{old.stem}" not in made:
            old.unlink()
    for name, text in made.items():
        place = Path(app.srcdir) / f"{name}.md"
        if not place.exists() or place.read_text(encoding="utf-8") != text:
            place.write_text(text, encoding="utf-8")


def _adapt(app: Any, name: str, source: list[str]) -> None:
    if name == "index":
        source[0] = start_page(source[0])
        app.env.note_dependency(DOCS / "README.md", docname=name)
    ending = Path(app.env.doc2path(name)).suffix
    if ending in (".md", ".ipynb") and not name.startswith(f"{COPIES}/"):
        source[0] = with_site_links(source[0], f"docs/{name}{ending}", name)


def setup(app: Any) -> dict[str, bool]:
    """Connect to Sphinx."""
    app.connect("config-inited", lambda app, config: _write_copies(app))
    app.connect("source-read", _adapt)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
