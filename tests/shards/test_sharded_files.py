"""The files of a sharded index: whatever is wrong with them is a FormatError, and nothing else."""

from __future__ import annotations

import dataclasses
import json
import shutil
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import examples, refused
from segmax.errors import FormatError, IndexNotFoundError
from segmax.shards.common import common_arrays, common_bytes
from segmax.shards.making.building import build
from segmax.shards.manifest import MANIFEST_NAME, Manifest, ShardEntry
from segmax.shards.opening import open_local, read_manifest
from segmax.shards.router import RouterPlan, join_maxima, open_router, shard_maxima
from segmax.shards.storage import open_storage
from segmax.storage.checked_json import checked_bytes, parse_strictly

DOCUMENTS = sp.random(300, 60, 0.1, format="csr", random_state=0)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sharded index."""
    path = tmp_path_factory.mktemp("files") / "index"
    build(DOCUMENTS, path, shards=4, num_clusters=12)
    return path


@pytest.fixture
def copy(built: Path, tmp_path: Path) -> Path:
    """A copy of it to damage."""
    return Path(shutil.copytree(built, tmp_path / "index"))


def manifest_entries(path: Path) -> dict[str, Any]:
    """Return what the manifest says."""
    return parse_strictly((path / MANIFEST_NAME).read_bytes())


def test_flipped_bits_of_a_manifest_are_noticed(built: Path) -> None:
    """Every changed byte of a manifest is refused."""
    data = (built / MANIFEST_NAME).read_bytes()
    for at in range(0, len(data), 7):
        changed = bytearray(data)
        changed[at] ^= 1
        with pytest.raises(FormatError):
            Manifest.from_bytes(bytes(changed), built)


@pytest.mark.parametrize(
    "changes",
    [
        {"shards": []},
        {"shards": [{"hash": "../../etc"}]},
        {"shards": "many"},
        {"common": {}},
        {"common": {"lattice": "../x", "router": "y"}},
        {"sharding": "hash"},
        {"num_docs": -1},
        {"num_docs": 5},
        {"num_terms": 10**12},
        {"bits": True},
        {"config": {"no_such_option": 1}},
        {"encoder": []},
        {"id_kind": "uuid"},
        {"routing": None},
        {"version": 0},
        {"version": 99},
        {"format": "segmax"},
    ],
    ids=str,
)
def test_manifests_of_strangers_are_checked(built: Path, changes: dict[str, Any]) -> None:
    """A manifest with a right checksum and wrong entries is refused."""
    data = checked_bytes({**manifest_entries(built), **changes})
    with pytest.raises(FormatError):
        Manifest.from_bytes(data, built)


def test_shards_are_listed_once_and_have_documents(built: Path) -> None:
    """A manifest that lists a shard twice, or one whose first row is behind the last document, is refused."""
    entries = manifest_entries(built)
    first, second, *others = entries["shards"]
    for shard, got in (
        ({**second, "hash": first["hash"]}, "one of them twice"),
        ({**second, "first_row": 300}, "behind the last document"),
    ):
        data = checked_bytes({**entries, "shards": [first, shard, *others]})
        with refused(FormatError, message=got):
            Manifest.from_bytes(data, built)


@pytest.mark.parametrize("name", ["num_docs", "num_clusters", "first_row"])
def test_a_manifest_about_other_shards_is_refused(copy: Path, name: str) -> None:
    """What the manifest says about a shard is compared with the shard."""
    entries = manifest_entries(copy)
    shards = entries["shards"]
    shards[1][name] += 1
    shards[2][name] -= name == "num_docs"
    (copy / MANIFEST_NAME).write_bytes(checked_bytes({**entries, "shards": shards}))
    with refused(FormatError, message=r"shard 1: .*describes another shard"):
        open_local(copy)


def test_a_shard_that_was_exchanged_is_noticed(copy: Path, built: Path) -> None:
    """Another shard in the folder of one is sound in itself, but does not have the hash that it is called by."""
    first, second = (entry.hash for entry in read_manifest(open_storage(copy)).shards[:2])
    shutil.rmtree(copy / "shards" / first)
    shutil.copytree(built / "shards" / second, copy / "shards" / first)
    with refused(FormatError, message=r"shard 0: .*does not have the hash"):
        open_local(copy, verify=True)


def test_routing_that_makes_no_sense_counts_as_not_measured(built: Path, copy: Path) -> None:
    """What was measured about routing is a hint: nonsense there does no harm."""
    entries = manifest_entries(built)
    for routing in ({"recall": [2, "x"]}, {"recall": "all"}, {"recall": [0.5] * 4, "asked": "x", "num_queries": "y"}):
        (copy / MANIFEST_NAME).write_bytes(checked_bytes({**entries, "routing": routing}))
        with open_local(copy) as index:
            assert index.routing.asked is None
            exact = index.search({0: 1.0})
            assert index.search({0: 1.0}, target_recall=0.9).rows.tolist() == exact.rows.tolist()


@pytest.mark.parametrize("name", ["lattice", "router"])
def test_damaged_common_files_are_refused(copy: Path, name: str) -> None:
    """A common file that lost or changed bytes does not have its hash."""
    path = copy / "common" / read_manifest(open_storage(copy)).common[name]
    data = path.read_bytes()
    for changed in (data[:-1], data[:20] + b"x" + data[21:], b""):
        path.write_bytes(changed)
        with pytest.raises(FormatError):
            open_local(copy)
    path.unlink()
    with pytest.raises(FormatError):
        open_local(copy)


def test_damaged_and_missing_shards_are_named(copy: Path) -> None:
    """A shard with a changed byte is found by verifying, and the message names the shard."""
    entry = read_manifest(open_storage(copy)).shards[2]
    file = next(path for path in sorted((copy / "shards" / entry.hash).iterdir()) if path.name.startswith("run_bytes"))
    data = bytearray(file.read_bytes())
    data[0] ^= 1
    file.write_bytes(data)
    with pytest.raises(FormatError, match="shard 2"):
        open_local(copy, verify=True)
    shutil.rmtree(copy / "shards" / entry.hash)
    with pytest.raises(IndexNotFoundError):
        open_local(copy)


def test_there_has_to_be_an_index(tmp_path: Path) -> None:
    """An empty folder, a file and nothing at all are no sharded indexes."""
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(IndexNotFoundError, match=r"segmax\.ray\.build"):
            open_local(path)


@settings(max_examples=examples(200))
@given(data=st.data())
def test_common_files_of_strangers_cannot_crash(data: st.DataObject) -> None:
    """Whatever bytes a common file has, it is read or refused."""
    whole = bytearray(common_bytes({"row": np.arange(50), "code": np.ones(9, np.uint8)}))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(whole)))
    for content in (bytes(whole), bytes(whole[:cut])):
        try:
            common_arrays(content)
        except FormatError:
            continue


def common_file(table: bytes, stored: bytes = b"") -> bytes:
    """Return a common file with any table."""
    return struct.pack("<8sII", b"SEGMAXCO", 1, len(table)) + table + stored


def test_a_small_file_cannot_ask_for_much_memory() -> None:
    """An array that claims to be huge, or is a bomb, is refused before it is unpacked."""
    whole = common_bytes({"zero": np.zeros(1 << 20, np.uint8)})
    assert not common_arrays(whole)["zero"].any()
    with pytest.raises(FormatError):
        common_arrays(whole.replace(b"1048576", b"1000000"))
    bomb = zlib.compress(bytes(1 << 24))
    with refused(FormatError, message="table is damaged"):
        common_arrays(common_file(json.dumps([["zero", "|u1", 1 << 24, len(bomb)]]).encode(), bomb))
    with refused(FormatError, message="impossible"):
        common_arrays(common_file(b"[" * 60_000))


def router_arrays(index: Any) -> dict[str, Any]:
    """Return the arrays of the router of an index."""
    parts = [shard._part for shard in index._parts.transport._shards]
    return {name: array.copy() for name, array in join_maxima([shard_maxima(p, RouterPlan()) for p in parts]).items()}


@pytest.fixture(scope="module")
def opened(built: Path) -> tuple[Any, dict[str, Any]]:
    """The index, and the arrays of its router."""
    index = open_local(built)
    return index, router_arrays(index)


@settings(max_examples=examples(150))
@given(data=st.data())
def test_routers_of_strangers_are_checked(opened: tuple[Any, dict[str, Any]], data: st.DataObject) -> None:
    """A router with changed arrays is refused, or answers without leaving its memory."""
    index = opened[0]
    arrays = {name: array.copy() for name, array in opened[1].items()}
    name = data.draw(st.sampled_from(sorted(arrays)))
    array = arrays[name]
    if data.draw(st.booleans()) and len(array):
        array[data.draw(st.integers(0, len(array) - 1))] = data.draw(st.integers(0, int(np.iinfo(array.dtype).max)))
    else:
        arrays[name] = array[: data.draw(st.integers(0, len(array)))]
    try:
        router = open_router(arrays, index.shards, index.num_terms, "here")
    except FormatError:
        return
    queries = prepared(index)
    router.bounds(queries)
    router.promise(queries)
    router.coarse(queries)


@pytest.mark.parametrize("table", ["bounds", "sketch"])
def test_a_router_has_no_more_quartets_than_documents(built: Path, table: str) -> None:
    """A few bytes cannot make every search sum up gigabytes: offsets grow, by no more than there are documents."""
    index = open_local(built)
    whole = router_arrays(index)
    offsets = whole[f"{table}_shard_first_quartet"]
    most = np.cumsum([0, *(shard.num_docs + shard.num_clusters for shard in index.shards)])
    for changed in ([*offsets[:-1], 2**31], [*offsets[:-1], most[-1] + 1], [0, *most[2:], most[-1]], offsets[::-1]):
        arrays = {**whole, f"{table}_shard_first_quartet": np.array(changed, dtype=np.uint32)}
        with refused(FormatError, message="more quartets than"):
            open_router(arrays, index.shards, index.num_terms, "here")


def prepared(index: Any) -> Any:
    """Return some queries as integers."""
    from segmax import ASC

    return index._search.prepare(index._batch(DOCUMENTS[:20]), [ASC()])


def test_manifests_survive_a_round_trip() -> None:
    """What is written is what is read."""
    entry = ShardEntry(hash="a" * 64, num_docs=3, num_postings=9, num_bytes=70, num_clusters=1, first_row=0)
    manifest = Manifest(shards=(entry,), num_docs=3, num_terms=5, common={"lattice": "b" * 64, "router": "c" * 64})
    assert Manifest.from_bytes(manifest.to_bytes(), "here") == manifest
    assert dataclasses.replace(manifest, num_docs=4) != manifest
