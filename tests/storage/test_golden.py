"""Indexes, collections, sharded indexes and encoders of every format version answer as they did when they were made."""

from __future__ import annotations

import json
import pickle
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest
import scipy.sparse as sp

import segmax
from conftest import refused
from segmax import paper
from segmax.base.system import NAME
from segmax.cli.main import main
from segmax.collection.manifest import MANIFEST_VERSION
from segmax.encoders import BM25, QueryTable
from segmax.encoders.bm25 import BM25_VERSION
from segmax.encoders.table_files import TABLE_VERSION
from segmax.errors import FormatError, InputError, SegmaxError
from segmax.paper import method_name
from segmax.search.hooks import with_hooks
from segmax.search.methods import SearchParams
from segmax.search.upgrading import upgrade
from segmax.shards.manifest import MANIFEST_VERSION as SHARDED_VERSION
from segmax.shards.opening import open_local
from segmax.shards.verifying import check
from segmax.storage.meta import FORMAT_VERSION, OLDEST_MAPPED_VERSION, OLDEST_UPGRADABLE_VERSION
from segmax.storage.writing import IndexWriter

GOLDEN = Path(__file__).parent / "golden"
ARCHIVES = sorted(GOLDEN.glob("version-*.tar.xz"))
COLLECTIONS = sorted(GOLDEN.glob("collection-*.tar.xz"))
SHARDED = sorted(GOLDEN.glob("sharded-*.tar.xz"))
ENCODERS = sorted([*GOLDEN.glob("bm25-*.tar.xz"), *GOLDEN.glob("query-table-*.tar.xz")])
METHODS = (segmax.ASC(), with_hooks(segmax.ASC(), all_tiles=0, sweep=False), paper.ASC(), segmax.Exhaustive())
KINDS = ("eight-bits", "sixteen-bits", "compact", "texts", "encoder")


def unpacked(archive: Path, folder: Path) -> Path:
    """Unpack an archive, and return its folder."""
    with tarfile.open(archive) as packed:
        packed.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.2 has no filters
        packed.extractall(folder)
    return folder / archive.name.removesuffix(".tar.xz")


@pytest.fixture(scope="module", params=ARCHIVES, ids=lambda path: path.name.split(".")[0])
def archive(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a version's golden indexes, after `segmax upgrade`."""
    found = unpacked(request.param, tmp_path_factory.mktemp("golden"))
    for kind in KINDS:
        assert upgrade(found / f"{kind}.segmax") == (found.name != f"version-{FORMAT_VERSION}")
    return found


@pytest.fixture(scope="module", params=ARCHIVES, ids=lambda path: path.name.split(".")[0])
def as_written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a version's golden indexes, as that version wrote them."""
    return unpacked(request.param, tmp_path_factory.mktemp("golden"))


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
    """One for every version that is read or upgraded: a test over no archives would pass."""
    kept = {path.name.removesuffix(".tar.xz") for path in GOLDEN.iterdir()}
    assert kept == {
        *(f"version-{number}" for number in range(OLDEST_UPGRADABLE_VERSION, FORMAT_VERSION + 1)),
        *(f"collection-{number}" for number in range(1, MANIFEST_VERSION + 1)),
        *(f"sharded-{number}" for number in range(1, SHARDED_VERSION + 1)),
        *(f"bm25-{number}" for number in range(1, BM25_VERSION + 1)),
        *(f"query-table-{number}" for number in range(1, TABLE_VERSION + 1)),
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("params", METHODS, ids=method_name)
def test_golden_indexes_answer_as_ever(archive: Path, kind: str, params: SearchParams) -> None:
    """Ids, scores and order are those of the segmax that made the index."""
    kept = json.loads((archive / "answers.json").read_text())
    queries = kept["questions"] if kind == "encoder" else sp.load_npz(archive / "queries.npz")
    with segmax.open(archive / f"{kind}.segmax") as index:
        check_answers(index, queries, kept["answers"][kind], params)


@pytest.mark.parametrize("kind", KINDS)
def test_golden_indexes_open_as_they_are(as_written: Path, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """Version 3 is converted in memory, with a line in the log; the files stay as they are."""
    path = as_written / f"{kind}.segmax"
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    kept = json.loads((as_written / "answers.json").read_text())
    queries = kept["questions"] if kind == "encoder" else sp.load_npz(as_written / "queries.npz")
    with segmax.open(path) as index, pickle.loads(pickle.dumps(index)) as copy:
        for params in METHODS:
            check_answers(index, queries, kept["answers"][kind], params)
        check_answers(copy, queries, kept["answers"][kind])
    assert ("run segmax upgrade" in caplog.text) == (as_written.name == "version-3")
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before


def test_an_older_index_that_memory_cannot_hold_has_to_be_upgraded(
    oldest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says how, and so does that of a damaged one say what is damaged."""
    monkeypatch.setattr("segmax.storage.upgrading.total_memory", lambda: 4096)
    with refused(FormatError, expected=f"version from {OLDEST_MAPPED_VERSION} to", hint="segmax upgrade"):
        segmax.open(oldest)
    monkeypatch.undo()
    file = next(oldest.glob("segment_max*"))
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(FormatError, match=f"'{file.name}' has .* bytes and should have"):
        segmax.open(oldest)
    file.unlink()
    for opened in (segmax.open, upgrade):
        with pytest.raises(FormatError, match=f"'{file.name}' is missing"):
            opened(oldest)


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


@pytest.mark.parametrize("path", SHARDED, ids=lambda path: path.name.split(".")[0])
def test_golden_sharded_indexes_answer_as_ever(path: Path, tmp_path: Path) -> None:
    """Shards by clusters and by rows, of vectors and of texts; every byte is checked."""
    folder = unpacked(path, tmp_path)
    kept = json.loads((folder / "answers.json").read_text())
    for kind, queries in (("clusters", sp.load_npz(folder / "queries.npz")), ("rows", kept["questions"])):
        segmax.verify(folder / kind)
        with open_local(folder / kind) as index:
            for params in (segmax.ASC(), segmax.Exhaustive()):
                check_answers(index, queries, kept["answers"][kind], params)


@pytest.mark.parametrize("path", ENCODERS, ids=lambda path: path.name.split(".")[0])
def test_golden_encoders_encode_as_ever(path: Path, tmp_path: Path) -> None:
    """What BM25 learned, and tables of the weights of query tokens."""
    folder = unpacked(path, tmp_path)
    kept = json.loads((folder / "answers.json").read_text())
    if path.name.startswith("bm25"):
        rows = BM25.load(folder / "encoder").query_rows(kept["texts"])
    else:
        pytest.importorskip("tokenizers")
        rows = QueryTable.load(folder / "table").query_rows(kept["texts"])
    found = {"indptr": rows.indptr.tolist(), "terms": rows.indices.tolist(), "weights": rows.values.tolist()}
    assert found == {name: kept[name] for name in found}


#: By archive: a file in it that says its version, and what reads it.
NEWER: dict[str, tuple[str, Any]] = {
    f"version-{FORMAT_VERSION}": ("texts.segmax/meta.json", segmax.open),
    f"collection-{MANIFEST_VERSION}": ("vectors/manifest.json", segmax.open),
    f"sharded-{SHARDED_VERSION}": ("clusters/sharded.json", open_local),
    f"bm25-{BM25_VERSION}": ("encoder/bm25.json", BM25.load),
    f"query-table-{TABLE_VERSION}": ("table/query_table.json", QueryTable.load),
}


@pytest.mark.parametrize("name", NEWER)
def test_files_of_a_newer_version_are_refused(name: str, tmp_path: Path) -> None:
    """The error says which version is read, and how to get a newer segmax; verifying and upgrading say the same."""
    file, opened = NEWER[name]
    path = unpacked(GOLDEN / f"{name}.tar.xz", tmp_path) / file
    number = int(name.rpartition("-")[2])
    text = path.read_text()
    newer = re.sub(rf'("version":\s*){number}\b', rf"\g<1>{number + 1}", text, count=1)
    assert newer != text
    path.write_text(newer)
    with refused((FormatError, InputError), got=str(number + 1), hint="a newer segmax wrote it.*pip install -U segmax"):
        opened(path.parent)
    if not name.startswith(("bm25", "query-table")):
        (damage,) = check(path.parent).damage
        assert "pip install -U segmax" in str(damage.error)
        assert main(["upgrade", str(path.parent)]) == 1


@pytest.mark.parametrize("version", range(1, OLDEST_UPGRADABLE_VERSION))
def test_versions_before_the_first_release_have_to_be_built_again(version: int, tmp_path: Path) -> None:
    """Nothing reads or upgrades them, and the error says what to do."""
    path = unpacked(ARCHIVES[-1], tmp_path) / "texts.segmax"
    text = (path / "meta.json").read_text()
    (path / "meta.json").write_text(text.replace(f'"version": {FORMAT_VERSION}', f'"version": {version}'))
    for opened in (segmax.open, upgrade):
        with refused(FormatError, got=str(version), hint="^build it again$"):
            opened(path)


@pytest.fixture
def oldest(tmp_path: Path) -> Path:
    """An index of the oldest version that is upgraded."""
    return unpacked(ARCHIVES[0], tmp_path) / "texts.segmax"


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["full", "^C"])
def test_an_interrupted_upgrade_can_be_repeated(
    oldest: Path, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It leaves the files that were there, byte for byte; the next call upgrades, and leaves no others."""
    before = {path.name: path.read_bytes() for path in oldest.iterdir()}

    def stopped(*_: object) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(IndexWriter, "commit", stopped)
        with pytest.raises((SegmaxError, OSError, KeyboardInterrupt)):
            upgrade(oldest)
    assert {path.name: path.read_bytes() for path in oldest.iterdir()} == before
    assert upgrade(oldest)
    meta = json.loads((oldest / "meta.json").read_text())
    named = {"meta.json", *(entry["file"] for entry in meta["files"].values())}
    left = {path.name for path in oldest.iterdir()} - named
    # Windows keeps what the upgrade itself has mapped; the next write removes it.
    assert left == (set(before) - named if NAME == "windows" else set())
    assert not upgrade(oldest)


def test_the_shell_upgrades_what_it_can(oldest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Indexes are rewritten; collections and sharded indexes are up to date; what is missing does not stop the rest."""
    collection = unpacked(COLLECTIONS[-1], tmp_path) / "bm25"
    sharded = unpacked(SHARDED[-1], tmp_path) / "rows"
    paths = [str(tmp_path / "missing"), str(collection), f"ray://{sharded}", str(oldest)]
    before = (oldest / "meta.json").read_bytes()
    assert main(["upgrade", "--dry-run", *paths[1:]]) == 0
    assert f"{oldest}: index, would be upgraded from format 3 to 5\n" in capsys.readouterr().out
    assert (oldest / "meta.json").read_bytes() == before
    assert main(["upgrade", *paths]) == 1
    missing, *lines = capsys.readouterr().out.splitlines()
    assert missing.startswith(f"{paths[0]}: there is no index")
    assert lines == [
        f"{collection}: collection, up to date",
        f"ray://{sharded}: sharded index, up to date",
        f"{oldest}: index, upgraded from format 3 to 5",
    ]
    assert main(["upgrade", *paths[1:]]) == 0
    assert capsys.readouterr().out.count("up to date") == 3
