"""What the site is made of: every page is on it, every public name and every command; links follow their pages."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from command_reference import all_parsers, reference
from public_names import members_of, public_names
from site_map import (
    COPIES,
    DOCS,
    ROOT,
    examples_page,
    outside_pages,
    page_name,
    pages,
    section_links,
    start_page,
    with_site_links,
)

from segmax.cli.commands import COMMANDS


def test_every_page_is_in_the_navigation() -> None:
    """Every Markdown file and every notebook of docs/ is in a table of docs/README.md, and so in a toctree."""
    listed = {name for names in pages().values() for name in names}
    files = [*DOCS.rglob("*.md"), *DOCS.glob("*.rst"), *DOCS.rglob("*.ipynb"), DOCS / "api" / "index.rst"]
    found = {file.relative_to(DOCS).with_suffix("").as_posix() for file in files if COPIES not in file.parts}
    assert found - {"README", "index"} - listed == set()


def test_the_navigation_has_the_sections_of_the_map_in_order() -> None:
    """Tutorials come first, then notebooks, how-to pages, reference, measurements and internals."""
    text = start_page((DOCS / "index.md").read_text())
    assert re.findall(r"^:caption: (.*)$", text, flags=re.MULTILINE) == [*pages(), "Project"]
    assert [*pages()][:2] == ["Start here", "Notebooks"]
    assert pages()["Reference"][:2] == ["api/index", "cli"]


def test_the_start_page_has_what_only_the_site_has() -> None:
    """The references of the API and of the commands are in the table of their section, which the map cannot link to."""
    text = start_page((DOCS / "index.md").read_text())
    section = text[text.index("## Reference") : text.index("## Measurements")]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    assert [row.split("](")[0] for row in rows[2:4]] == ["| [Python API", "| [Command line"]
    assert "](api/index.rst)" not in (DOCS / "README.md").read_text()


def test_sections_are_read_from_tables() -> None:
    """Links in the first cell of a row count, others do not."""
    text = "# Map\n[a](a.md)\n## One\n| page | x |\n| [B](b.md#c) | [D](d.md) |\n| [E](../E.md) | |\n## Two\n"
    assert section_links(text) == {"One": ["b.md", "../E.md"], "Two": []}


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("docs/tuning.md", "tuning"),
        ("docs/notebooks/quick-start.ipynb", "notebooks/quick-start"),
        ("README.md", "index"),
        ("docs/README.md", "index"),
        ("CHANGELOG.md", "project/changelog"),
        ("CODE_OF_CONDUCT.md", "project/code-of-conduct"),
        ("examples/deploy/nginx.conf", "project/examples"),
        ("LICENSE", None),
        ("benchmarks/README.md", None),
    ],
)
def test_files_of_the_repository_have_pages(path: str, name: str | None) -> None:
    """Documents, notebooks and examples are on the site; other files are not."""
    assert page_name(path) == name


def test_links_follow() -> None:
    """A link to a file leads to the page that shows it, wherever the page is; code and other links stay as they are."""
    text = "[w](../ARCHITECTURE.md#words) [r](README.md) [t](tuning.md#x) [h](#here) [u](https://x.org/a.md)\n"
    code = "```sh\n[w](../ARCHITECTURE.md)\n```\n"
    shown = "[w](project/architecture.md#words) [r](index.md) [t](tuning.md#x) [h](#here) [u](https://x.org/a.md)\n"
    assert with_site_links(text + code, "docs/data.md", "data") == shown + code
    assert with_site_links("[t](docs/tuning.md)", "CHANGELOG.md", "project/changelog") == "[t](../tuning.md)"
    assert (
        with_site_links("[a](../../CHANGELOG.md)", "docs/notebooks/n.ipynb", "notebooks/n")
        == "[a](../project/changelog.md)"
    )
    assert with_site_links("[a](../LICENSE)", "docs/data.md", "data") == "[a](../LICENSE)"


def test_links_to_other_folders_are_texts() -> None:
    """The site cannot show a folder of code."""
    text = "[tests](../tests/site) [tuning](tuning.md) ![p](images/scale.png)"
    assert with_site_links(text, "docs/data.md", "data") == "tests [tuning](tuning.md) ![p](images/scale.png)"


def test_links_to_examples_lead_to_their_sections() -> None:
    """The page of examples has a section per file; the folder is the whole page."""
    shown = with_site_links(
        "[n](../examples/deploy/nginx.conf) [d](../examples/deploy)", "docs/deploying.md", "deploying"
    )
    assert shown == "[n](project/examples.md#examplesdeploynginxconf) [d](project/examples.md)"
    assert "## examples/deploy/nginx.conf" in examples_page()


def test_documents_at_the_root_are_copied() -> None:
    """All of them but the README, which is the start page of the repository as index.md is that of the site."""
    assert {file.name for file in outside_pages().values()} == {p.name for p in ROOT.glob("*.md")} - {"README.md"}


# --- names ---------------------------------------------------------------------------------------------------------


def documented_names() -> set[str]:
    """The names that the pages of docs/api list, or register as another name of something."""
    found: set[str] = set()
    for page in (DOCS / "api").glob("segmax*.rst"):
        text = page.read_text()
        module = next(iter(re.findall(r"^\.\. currentmodule:: (\S+)$", text, flags=re.MULTILINE)), "segmax")
        for table in re.findall(r"^\.\. autosummary::\n((?: {3}.*\n|\n)+)", text, flags=re.MULTILINE):
            names = re.findall(r"^ {3}([\w.]+)$", table, flags=re.MULTILINE)
            found |= {name if name.startswith("segmax.") else f"{module}.{name}" for name in names}
        also = re.findall(r"^\.\. py:\w+:: (\S+)\n   :no-typesetting:", text, flags=re.MULTILINE)
        found |= {f"{module}.{name}" for name in also}
    return found


def test_the_api_reference_lists_every_public_name_and_no_other() -> None:
    """To add a name, list it in the page of its module in docs/api."""
    assert documented_names() == set(public_names())


def test_every_module_of_the_reference_is_in_its_index() -> None:
    """docs/api/index.rst has all pages of modules."""
    index = (DOCS / "api" / "index.rst").read_text()
    assert {page.stem for page in (DOCS / "api").glob("segmax*.rst")} == set(
        re.findall(r"^ {3}(segmax\S*)$", index, re.M)
    )


def test_members_of_a_class() -> None:
    """Properties, fields and methods are shown, also inherited ones of segmax, but not those of Python."""
    index = members_of("segmax", "Index")
    assert {"num_docs", "texts"} <= {member.name for member in index["Attributes"]}
    assert {"search", "explain"} <= {member.name for member in index["Methods"]}
    collection = {member.name: member for member in members_of("segmax", "Collection")["Methods"]}
    assert collection["search"].directive == "automethod"  # of a class below
    assert members_of("segmax.errors", "ConfigError") == members_of("segmax", "SegmaxError")  # no add_note


def test_integrations_are_imported_without_their_libraries(tmp_path: Path) -> None:
    """Stand-ins are enough to import what plugs into other libraries; afterwards they are gone."""
    code = (
        "import public_names, sys; public_names.import_integrations();"
        "from segmax.integrations.haystack import SegmaxRetriever;"
        "assert SegmaxRetriever.__doc__.startswith('Retrieves documents');"
        "assert SegmaxRetriever.run.__doc__, 'a decorator swallowed it';"
        "assert 'haystack' not in sys.modules and 'langchain_core' not in sys.modules"
    )
    path = {"PYTHONPATH": ":".join([str(DOCS / "_extensions"), *sys.path])}
    done = subprocess.run([sys.executable, "-c", code], env=path, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# --- commands ------------------------------------------------------------------------------------------------------


def test_the_command_reference_has_every_command() -> None:
    """A section per command, those inside of others included."""
    names = {"segmax", *(f"segmax {name}" for name in COMMANDS), "segmax encoder table", "segmax encoder export"}
    assert names <= set(all_parsers())
    sections = re.findall(r"^(segmax.*)\n-+$", reference(), flags=re.MULTILINE)
    assert sections == list(all_parsers())


@pytest.mark.parametrize("name", list(all_parsers()))
def test_the_command_reference_has_every_option(name: str) -> None:
    """With all its spellings."""
    section = re.search(rf"^{name}\n-+$(.*?)(?:^\.\. _|\Z)", reference(), flags=re.MULTILINE | re.DOTALL)
    assert section is not None
    shown = re.findall(r"^\.\. option:: (.*)$", section[1], flags=re.MULTILINE)
    spelled = {part for line in shown for part in re.findall(r"(?<!\S)--?[\w-]+", line)}
    assert spelled == {flag for action in all_parsers()[name]._actions for flag in action.option_strings}
