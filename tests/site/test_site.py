"""The site as `make docs` built it: names, commands, links, outputs of notebooks, and its looks in a real browser.

`make docs` sets SEGMAX_SITE to the folder of the site.
"""

from __future__ import annotations

import functools
import html
import os
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from command_reference import _ENVIRONMENT, all_parsers
from public_names import public_names

import segmax

SITE = Path(os.environ.get("SEGMAX_SITE", "build/docs"))
CHROMIUM = Path("/usr/bin/chromium")
#: A page of each kind.
KINDS = [
    "index.html",
    "tutorial-text.html",
    "benchmarks.html",
    "format.html",
    "project/architecture.html",
    "project/examples.html",
    "api/segmax.html",
    "api/names/segmax.Index.html",
    "api/names/segmax.build.html",
    "api/segmax.typing.html",
    "cli.html",
    "notebooks/quick-start.html",
    "notebooks/compare-methods.html",
]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("SEGMAX_SITE" not in os.environ, reason="make docs builds the site and runs this"),
]


class Page(HTMLParser):
    """What a page has: ids, and what it links to or loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect."""
        found = {name: value or "" for name, value in attrs}
        self.ids |= {found["id"]} if "id" in found else set()
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag in ("img", "script", "iframe", "source") and "src" in found:
            self.loaded.append(found["src"])
        if tag == "link" and found.get("rel") in ("stylesheet", "preload", "icon", "shortcut icon"):
            self.loaded.append(found["href"])


@functools.cache
def page(path: Path) -> Page:
    """Read a page, once."""
    return Page(path.read_text(encoding="utf-8"))


@functools.cache
def all_pages() -> list[Path]:
    """Every page of the site."""
    return sorted(path.resolve() for path in SITE.rglob("*.html"))


def shown_text(markup: str) -> str:
    """What a reader sees of a piece of HTML, with single spaces."""
    without_marks = re.sub(r'<a class="headerlink".*?</a>', "", markup)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", without_marks)).split())


# --- what is there ---------------------------------------------------------------------------------------------------


def test_every_public_name_has_a_place() -> None:
    """Each can be linked to, by its own name."""
    ids = set().union(*(page(path).ids for path in all_pages() if path.parent.name in ("api", "names")))
    assert set(public_names()) - ids == set()


def test_docstrings_are_shown_with_their_examples() -> None:
    """The page of a function has its parameters with their types, what it raises, and its example."""
    text = shown_text((SITE / "api" / "names" / "segmax.build.html").read_text())
    assert "Parameters" in text
    assert "Raises" in text
    assert "segmax.build(" in text
    assert ">>> " in text


def test_the_version_is_that_of_the_package() -> None:
    """It stands on every page."""
    assert f"segmax {segmax.__version__}" in (SITE / "index.html").read_text()


def section_of(command: str) -> str:
    """What the reference says about a command."""
    text = (SITE / "cli.html").read_text(encoding="utf-8")
    start = text.index(f'<section id="{command.replace(" ", "-")}"')
    return shown_text(text[start : text.index("</section>", start)])


@pytest.mark.parametrize("command", list(all_parsers()))
def test_the_reference_of_a_command_is_its_help(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same words in the same order as `segmax COMMAND --help`."""
    for name, value in _ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    wanted = all_parsers()[command].format_help().removeprefix("usage: ")
    headings = re.sub(r"^(\S.*):$", r"\1", wanted, flags=re.MULTILINE)
    words = [re.sub(r"[:\s]", "", text) for text in (section_of(command).removeprefix(command), headings)]
    assert words[0] == words[1]


def test_notebooks_show_what_they_print() -> None:
    """Plots, tables and texts; nothing failed."""
    compared = (SITE / "notebooks" / "compare-methods.html").read_text()
    assert compared.count("<img") >= 3
    assert "nDCG@10" in compared
    assert "<th>score</th>" in (SITE / "notebooks" / "quick-start.html").read_text()
    assert all("Traceback" not in path.read_text() for path in (SITE / "notebooks").glob("*.html"))


# --- links -----------------------------------------------------------------------------------------------------------


def broken(path: Path) -> Iterator[str]:
    """The links of a page that lead nowhere on the site, or are no addresses."""
    for link in [*page(path).links, *page(path).loaded]:
        parts = urlsplit(link)
        if parts.scheme in ("http", "https"):
            if not re.fullmatch(r"[\w.-]+\.\w+|localhost|127\.0\.0\.1", parts.hostname or ""):
                yield link
        elif parts.scheme == "mailto":
            if not re.fullmatch(r"[\w.-]+@[\w-]+\.[\w.-]+", parts.path):
                yield link
        elif parts.scheme != "data":
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            missing = not target.is_file() or not target.is_relative_to(SITE.resolve())
            if missing or (parts.fragment and unquote(parts.fragment) not in page(target).ids):
                yield link


def test_links_resolve() -> None:
    """Every link of every page leads to a page of the site and, where it names one, to an id there."""
    found = {path.relative_to(SITE.resolve()).as_posix(): sorted(set(broken(path))) for path in all_pages()}
    assert len(found) > 100
    assert {name: links for name, links in found.items() if links} == {}


def test_broken_links_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files and ids that do not exist, and addresses that are none."""
    monkeypatch.setattr("test_site.SITE", tmp_path)
    place = tmp_path / "a.html"
    links = [
        "#here",
        "#there",
        "a.html#here",
        "b.html",
        "../c.html",
        "https://x",
        "https://x.org/y#z",
        "mailto:a@b.c",
        "mailto:MRR@10",
    ]
    place.write_text('<p id="here">' + "".join(f'<a href="{link}">x</a>' for link in links) + '<img src="no.png">')
    assert list(broken(place)) == ["#there", "b.html", "../c.html", "https://x", "mailto:MRR@10", "no.png"]


def test_nothing_is_loaded_from_elsewhere() -> None:
    """The site works offline: scripts, styles, fonts and pictures are its own."""
    foreign = {link for path in all_pages() for link in page(path).loaded if urlsplit(link).netloc}
    styles = "".join(path.read_text() for path in SITE.rglob("*.css"))
    assert foreign == set()
    assert re.findall(r"(?:url\(|@import) *[\"']?(?:https?:)?//[^)\s]*", styles) == []


# --- in a browser ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, which has to run without its sandbox where tests run as root."""
    sync_api = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM.exists():
        pytest.skip(f"needs Chromium at {CHROMIUM}")
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield found
        found.close()


@pytest.mark.parametrize("width", [1400, 400])
def test_pages_fit_wide_and_narrow_windows(browser: Any, width: int) -> None:
    """No page scrolls sideways, nothing is requested from elsewhere, no picture is missing, no script fails."""
    tab = browser.new_page(viewport={"width": width, "height": 1000})
    problems: list[str] = []
    tab.on("pageerror", lambda error: problems.append(str(error)))
    tab.on("request", lambda request: request.url.startswith(("file:", "data:")) or problems.append(request.url))
    for name in KINDS:
        tab.goto((SITE.resolve() / name).as_uri())
        tab.wait_for_load_state()
        across = tab.evaluate("document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth")
        unseen = tab.evaluate("[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)")
        problems += [f"{name} scrolls sideways by {across} pixels"] if across > 0 else []
        problems += [f"{name}: {picture}" for picture in unseen]
    tab.close()
    assert problems == []


def test_the_search_finds_names(browser: Any) -> None:
    """The search of the site works from files, without a server."""
    tab = browser.new_page()
    tab.goto((SITE.resolve() / "search.html").as_uri() + "?q=from_texts")
    tab.locator("#search-results li a", has_text="from_texts").first.wait_for(timeout=20_000)
    tab.close()
