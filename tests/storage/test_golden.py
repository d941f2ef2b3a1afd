"""Indexes of every version of the format answer as they did when they were made."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
import scipy.sparse as sp

import segmax

ARCHIVES = sorted((Path(__file__).parent / "golden").glob("version-*.tar.xz"))
KINDS = ("eight-bits", "sixteen-bits", "compact", "texts", "encoder")


@pytest.fixture(scope="module", params=ARCHIVES, ids=lambda path: path.name.split(".")[0])
def archive(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a version's golden indexes."""
    folder = tmp_path_factory.mktemp("golden")
    with tarfile.open(request.param) as packed:
        packed.extractall(folder, filter="data")
    return folder / request.param.name.removesuffix(".tar.xz")


def test_the_archives_are_there() -> None:
    """A test over no archives would pass."""
    assert ARCHIVES


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("params", [segmax.ASC(), segmax.Exhaustive()], ids=["exact", "exhaustive"])
def test_golden_indexes_answer_as_ever(archive: Path, kind: str, params: segmax.ASC | segmax.Exhaustive) -> None:
    """Ids, scores and order are those of the segmax that made the index."""
    kept = json.loads((archive / "answers.json").read_text())
    queries = kept["questions"] if kind == "encoder" else sp.load_npz(archive / "queries.npz")
    with segmax.open(archive / f"{kind}.segmax") as index:
        hits = index.search_batch(queries, k=10, params=params)
    assert [list(row.ids) for row in hits] == kept["answers"][kind]["ids"]
    assert [[float(score) for score in row.scores] for row in hits] == kept["answers"][kind]["scores"]


def test_golden_texts_are_stored(archive: Path) -> None:
    """Ids find their texts."""
    with segmax.open(archive / "texts.segmax") as index:
        assert index.text("doc-7").text == "text doc-7"
