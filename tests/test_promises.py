"""docs/versions.md says what the code does: formats, public modules, and nothing that is out of date."""

from __future__ import annotations

import importlib
import re
import tomllib
from pathlib import Path

import pytest
from public_names import OTHER_MODULES

import segmax
from segmax.collection import array_file, log_format
from segmax.collection.manifest import MANIFEST_VERSION
from segmax.encoders.bm25 import BM25_VERSION
from segmax.encoders.exported import VERSION as EXPORT_VERSION
from segmax.encoders.table_files import TABLE_VERSION
from segmax.shards import common
from segmax.shards.manifest import MANIFEST_VERSION as SHARDED_VERSION
from segmax.storage.meta import FORMAT_VERSION, OLDEST_UPGRADABLE_VERSION

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "versions.md").read_text()


def table(heading: str) -> dict[str, list[str]]:
    """The rows of the table whose first heading this is, by their first cell."""
    lines = PAGE[PAGE.index(f"| {heading} |") :].split("\n\n")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    return {first: rest for first, *rest in rows}


def span(first: int, last: int) -> str:
    """Versions as the page writes them."""
    return str(last) if first == last else f"{first} to {last}"


def test_the_table_of_formats_is_that_of_the_code() -> None:
    """What is written, read and upgraded, format by format."""
    upgraded = FORMAT_VERSION > OLDEST_UPGRADABLE_VERSION
    ones = {
        "collection: manifest": MANIFEST_VERSION,
        "collection: log": log_format.VERSION,
        "collection: arrays": array_file._VERSION,
        "sharded index: manifest": SHARDED_VERSION,
        "sharded index: common files, the router among them": common._VERSION,
        "what BM25 learned": BM25_VERSION,
        "query table": TABLE_VERSION,
        "exported model": EXPORT_VERSION,
    }
    assert set(ones.values()) == {1}  # or else the page has to say which older ones are read, and golden files show it
    assert table("format") == {
        "index": [
            str(FORMAT_VERSION),
            span(OLDEST_UPGRADABLE_VERSION, FORMAT_VERSION),
            span(OLDEST_UPGRADABLE_VERSION, FORMAT_VERSION - 1) if upgraded else "",
        ],
        **{name: [str(version), str(version), ""] for name, version in ones.items()},
        "HTTP API": ["v1", "v1", ""],
    }


def test_the_last_release_of_the_table_is_this_one() -> None:
    """Its row has the versions that this code writes."""
    release, versions = list(table("segmax").items())[-1]
    assert segmax.__version__.startswith(f"{release}.")
    assert versions == [str(FORMAT_VERSION), str(MANIFEST_VERSION), str(SHARDED_VERSION), str(TABLE_VERSION), "v1"]


def test_addresses_of_the_service_have_the_version() -> None:
    """All but those of health, metrics and the page are below /v1."""
    pytest.importorskip("msgspec")
    from segmax.serve.routes import ROUTES

    paths = {route.path for route in ROUTES}
    assert {path for path in paths if not path.startswith("/v1/")} <= {"/health", "/ready", "/metrics", "/"}


def test_public_modules_are_there() -> None:
    """Those that the page lists can be imported, and every module of the API reference is listed."""
    public = PAGE[PAGE.index("## What is public") : PAGE.index("- **The shell:**")]
    listed = set(re.findall(r"`(segmax\.[a-z]+)`", public)) - {"segmax.open"}
    assert {f"segmax.{name}" for name in (*segmax._MODULES, *OTHER_MODULES)} <= listed
    for name in listed:
        importlib.import_module(name)


def test_the_oldest_python_is_that_of_the_package() -> None:
    """As pyproject.toml requires it."""
    required = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert f"from {required.removeprefix('>=')} on" in PAGE


def test_the_format_page_describes_this_version() -> None:
    """docs/format.md is about the version that is written."""
    page = (ROOT / "docs" / "format.md").read_text()
    assert f"Format version {FORMAT_VERSION}." in page
    assert re.search(rf"\| `version` \| {FORMAT_VERSION};", page)
