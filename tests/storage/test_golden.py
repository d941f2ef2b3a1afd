"""Indexes of every version of the format, upgraded, answer as they did when they were made."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
import scipy.sparse as sp

import segmax
from conftest import refused
from segmax import paper
from segmax.cli.main import main
from segmax.errors import FormatError
from segmax.paper import method_name
from segmax.search.hooks import with_hooks
from segmax.search.methods import SearchParams
from segmax.search.upgrading import upgrade
from segmax.storage.meta import FORMAT_VERSION

ARCHIVES = sorted((Path(__file__).parent / "golden").glob("version-*.tar.xz"))
METHODS = (segmax.ASC(), with_hooks(segmax.ASC(), all_tiles=0, sweep=False), paper.ASC(), segmax.Exhaustive())
KINDS = ("eight-bits", "sixteen-bits", "compact", "texts", "encoder")


@pytest.fixture(scope="module", params=ARCHIVES, ids=lambda path: path.name.split(".")[0])
def archive(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a version's golden indexes."""
    folder = tmp_path_factory.mktemp("golden")
    with tarfile.open(request.param) as packed:
        packed.extractall(folder, filter="data")
    found = folder / request.param.name.removesuffix(".tar.xz")
    for kind in KINDS:
        is_old = found.name != f"version-{FORMAT_VERSION}"
        if is_old:
            with refused(FormatError, expected=f"version from {FORMAT_VERSION}", hint="segmax upgrade"):
                segmax.open(found / f"{kind}.segmax")
        assert upgrade(found / f"{kind}.segmax") == is_old
    return found


def test_the_archives_are_there() -> None:
    """A test over no archives would pass."""
    assert ARCHIVES


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("params", METHODS, ids=method_name)
def test_golden_indexes_answer_as_ever(archive: Path, kind: str, params: SearchParams) -> None:
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


def test_upgraded_indexes_are_whole(archive: Path) -> None:
    """Every byte of an upgraded index is checked, and its bounds hold."""
    queries = sp.load_npz(archive / "queries.npz")
    for kind in KINDS[:-1]:
        segmax.verify(archive / f"{kind}.segmax")
        with segmax.open(archive / f"{kind}.segmax") as index:
            for row in range(queries.shape[0]):
                bounds = index.cluster_bounds(queries[row])
                assert (bounds.best_score <= bounds.max_bound).all()
                assert (bounds.max_bound <= bounds.bound_sum * (1 + 1e-9)).all()
                assert (bounds.avg_bound <= bounds.max_bound).all()


def test_the_shell_upgrades(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An index that is up to date stays as it is."""
    assert main(["upgrade", str(archive / "compact.segmax")]) == 0
    assert "up to date" in capsys.readouterr().out
