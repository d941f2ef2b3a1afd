"""One table of components and one of statistics: what the core, Python and docs/format.md list is the same."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import scipy.sparse as sp

import segmax
from segmax import _core
from segmax.search.results import BatchStats, SearchStats
from segmax.storage.components import COMPONENTS

FORMAT = Path(__file__).resolve().parents[2] / "docs" / "format.md"
ROW = re.compile(r"^\| `(\w+)` \| (\w+) \| [^|]+ \| (yes|no) \| [^|]+ \|$", re.MULTILINE)


def test_the_format_page_lists_every_component() -> None:
    """Name, type of an entry, whether opening checks it, and the order, for every component."""
    listed = [(name, kind, checked == "yes") for name, kind, checked in ROW.findall(FORMAT.read_text())]
    table = [(name, part.type.removeprefix("<"), part.checked) for name, part in COMPONENTS.items()]
    assert listed == table


def test_the_core_reads_what_a_build_writes() -> None:
    """Every array that the core lists is there after a build, and has its type."""
    arrays = segmax.build(sp.eye_array(3, format="csr"), segment_bounds="exact")._open_arrays
    for name, kind, _, _ in _core.components():
        assert arrays[name].dtype == COMPONENTS[name].dtype(1), (name, kind)


def test_components_of_a_group_are_optional_together() -> None:
    """Of what the core reads, only what came with version 5, each by itself."""
    assert {name: COMPONENTS[name].group for name, *_ in _core.components() if COMPONENTS[name].group} == {
        "pair_entry": "pair_entry",
        "segment_code": "segment_code",
    }
    groups = {"", "pair_entry", "segment_code", "numbers", "ids", "terms", "texts", "metadata", "part", "counts"}
    assert {part.group for part in COMPONENTS.values()} == groups


def test_statistics_have_the_fields_of_the_core() -> None:
    """The core decides names and order of what a search counts; Python adds types."""
    names = list(_core.stats_fields())
    assert [field.name for field in dataclasses.fields(SearchStats)] == names
    assert list(BatchStats.__annotations__) == names
