"""Indexes of every version of the format, upgraded, and collections answer as they did when they were made."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
import scipy.sparse as sp

import segmax
from conftest import refused
from segmax import paper
from segmax.cli.main import main
from segmax.collection.manifest import MANIFEST_VERSION
from segmax.errors import FormatError
from segmax.paper import method_name
from segmax.search.hooks import with_hooks
from segmax.search.methods import SearchParams
from segmax.search.upgrading import upgrade
from segmax.storage.meta import FORMAT_VERSION

GOLDEN = Path(__file__).parent / "golden"
ARCHIVES = sorted(GOLDEN.glob("version-*.tar.xz"))
COLLECTIONS = sorted(GOLDEN.glob("collection-*.tar.xz"))
METHODS = (segmax.ASC(), with_hooks(segmax.ASC(), all_tiles=0, sweep=False), paper.ASC(), segmax.Exhaustive())
KINDS = ("eight-bits", "sixteen-bits", "compact", "texts", "encoder")


def unpacked(archive: Path, folder: Path) -> Path:
    """Unpack an archive, and return its folder."""
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.xz")


@pytest.fixture(scope="module", params=ARCHIVES, ids=lambda path: path.name.split(".")[0])
def archive(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a version's golden indexes."""
    found = unpacked(request.param, tmp_path_factory.mktemp("golden"))
    for kind in KINDS:
        is_old = found.name != f"version-{FORMAT_VERSION}"
        if is_old:
            with refused(FormatError, expected=f"version from {FORMAT_VERSION}", hint="segmax upgrade"):
                segmax.open(found / f"{kind}.segmax")
        assert upgrade(found / f"{kind}.segmax") == is_old
    return found


@pytest.fixture(params=COLLECTIONS, ids=lambda path: path.name.split(".")[0])
def collections(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The folder of a version's golden collections."""
    return unpacked(request.param, tmp_path)


def check_answers(index: Any, queries: Any, kept: dict[str, Any], params: SearchParams | None = None) -> None:
    """Compare what an index or a collection answers with what is kept, with filters where these are kept, too."""
    filtered = zip(kept.get("filters", ()), kept.get("filtered", ()), strict=True)
    options: list[Any] = [({}, kept), *(({"where": where}, one) for where, one in filtered)]
    for option, expected in options:
        hits = index.search_batch(queries, k=10, params=params, **option)
        assert [list(row.ids) for row in hits] == expected["ids"]
        assert [[float(score) for score in row.scores] for row in hits] == expected["scores"]
    if "filters" in kept:
        assert [index.count(where) for where in kept["filters"]] == kept["counts"]
        assert [list(pair) for pair in index.facets("lang")] == kept["facets"]


def test_the_archives_are_there() -> None:
    """A test over no archives would pass."""
    assert [path.name for path in ARCHIVES][-1] == f"version-{FORMAT_VERSION}.tar.xz"
    assert [path.name for path in COLLECTIONS][-1] == f"collection-{MANIFEST_VERSION}.tar.xz"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("params", METHODS, ids=method_name)
def test_golden_indexes_answer_as_ever(archive: Path, kind: str, params: SearchParams) -> None:
    """Ids, scores and order are those of the segmax that made the index."""
    kept = json.loads((archive / "answers.json").read_text())
    queries = kept["questions"] if kind == "encoder" else sp.load_npz(archive / "queries.npz")
    with segmax.open(archive / f"{kind}.segmax") as index:
        check_answers(index, queries, kept["answers"][kind], params)


@pytest.mark.parametrize("params", METHODS, ids=method_name)
def test_golden_metadata(archive: Path, params: SearchParams) -> None:
    """Filters, counts and facets are as ever; metadata came with version 4."""
    kept = json.loads((archive / "answers.json").read_text())["answers"]
    if archive.name == "version-3":
        assert "metadata" not in kept
        return
    segmax.verify(archive / "metadata.segmax")
    with segmax.open(archive / "metadata.segmax") as index:
        check_answers(index, sp.load_npz(archive / "queries.npz"), kept["metadata"], params)
        assert index.metadata(9) == {"nested": {"deep": [[1], 2]}, "ratio": 0.5, "open": True}
        assert (index.metadata(8), index.metadata(7)) == ({"year": 2**70}, None)


@pytest.mark.parametrize("kind", ["vectors", "bm25"])
def test_golden_collections_answer_as_ever(collections: Path, kind: str) -> None:
    """Several parts, deleted documents, and changes that only the log has: to a reader and to a writer."""
    kept = json.loads((collections / "answers.json").read_text())
    queries = kept["questions"] if kind == "bm25" else sp.load_npz(collections / "queries.npz")
    expected = kept["answers"][kind]
    segmax.verify(collections / kind)
    for read_only in (True, False):
        with segmax.Collection.open(collections / kind, read_only=read_only) as collection:
            assert list(collection.ids()) == expected["left"]
            for params in (segmax.ASC(), segmax.Exhaustive()):
                check_answers(collection, queries, expected, params)
    if kind == "vectors":
        with segmax.Collection.open(collections / kind) as collection:
            assert (collection.stats().num_parts > 3, collection.bits) == (True, 16)
            assert collection.metadata("doc-40") == {"year": 2060, "lang": "de"}
            collection.compact()
            check_answers(collection, queries, expected)


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
