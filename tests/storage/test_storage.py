"""Files: what is written, what survives a crash, what damage is noticed."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import segmax
from conftest import random_docs, refused
from segmax.errors import FormatError, IndexExistsError, IndexNotFoundError, UnknownIdError, WriteError
from segmax.paper import Anytime, MaxScore
from segmax.search.hooks import with_hooks
from segmax.storage.component_file import FOOTER_BYTES
from segmax.storage.components import COMPONENTS
from segmax.storage.meta import FORMAT_VERSION, OLDEST_MAPPED_VERSION
from segmax.storage.pair_entries import pair_entries
from segmax.storage.writing import save_index


def tiny(value: int = 1, num_docs: int = 20) -> segmax.Index:
    """A small index with ids and vocabulary, in memory. Terms are of every kind: wide and narrow, head and tail."""
    docs = random_docs(np.random.default_rng(value), num_docs, 6, 3.0, 9).tolil()
    docs[:, 4:] = 0
    docs[:2, 4:] = [[3, 4], [5, 0]]
    return segmax.build(
        docs.tocsr(),
        ids=[f"d{i}" for i in range(num_docs)],
        terms=list("abcdef"),
        clustering=np.arange(num_docs) % 12,
        config=segmax.BuildConfig(num_segments=2, compact=True),
    )


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A small index on disk."""
    tiny().save(tmp_path / "index")
    return tmp_path / "index"


def results(index: segmax.Index) -> list[tuple[object, float]]:
    """Something to compare indexes by."""
    return [tuple(hit) for hit in index.search({"a": 2, "b": 1, "f": 3}, k=50)]


@pytest.mark.parametrize("preload", [False, True])
@pytest.mark.parametrize("verify", [False, True])
def test_saved_and_opened_gives_the_same(saved: Path, preload: bool, verify: bool) -> None:
    """Mapped or read, checked or not, the index answers like the one in memory."""
    with segmax.open(saved, preload=preload, verify=verify) as index:
        assert results(index) == results(tiny())
        assert index.path == saved
    segmax.verify(saved)


def test_build_writes_to_path(tmp_path: Path) -> None:
    """build(path=...) returns the mapped index."""
    docs = sp.csr_matrix([[1, 2], [3, 0]])
    index = segmax.build(docs, path=tmp_path / "new")
    assert index.path == tmp_path / "new"
    assert sorted(p.name for p in (tmp_path / "new").iterdir())[0] == "block_max.1.bin"


def test_same_seed_same_bytes(tmp_path: Path) -> None:
    """Two builds of the same input are equal file by file."""
    for name in ("one", "two"):
        tiny().save(tmp_path / name)
    files = sorted(p.name for p in (tmp_path / "one").iterdir())
    assert files == sorted(p.name for p in (tmp_path / "two").iterdir())
    for name in files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


# --- paths -----------------------------------------------------------------------------------------------------------


def test_a_path_that_exists(saved: Path) -> None:
    """An index is not replaced unless asked for, and building says so before the work."""
    message = f"'{saved}' exists; choose another path, or pass overwrite=True to replace an index"
    with pytest.raises(IndexExistsError) as error:
        tiny(2).save(saved)
    assert str(error.value) == message
    with pytest.raises(IndexExistsError):
        segmax.build(iter([]), path=saved)
    tiny(2).save(saved, overwrite=True)
    assert results(segmax.open(saved, verify=True)) == results(tiny(2))
    assert (
        len(list(saved.iterdir())) == len(COMPONENTS) - 15 + 1
    )  # no segment_code, id_number, texts, metadata, part or counts; meta.json


def test_a_directory_that_is_no_index_is_never_touched(tmp_path: Path) -> None:
    """overwrite=True replaces indexes only."""
    (tmp_path / "precious.txt").write_text("keep")
    with refused(IndexExistsError, message="is not a segmax index", hint="{overwrite=True} does not replace it"):
        tiny().save(tmp_path, overwrite=True)
    (tmp_path / "meta.json").write_text('{"precious": 1}')
    with refused(IndexExistsError, message="is not a segmax index", hint="{overwrite=True} does not replace it"):
        tiny().save(tmp_path, overwrite=True)
    assert (tmp_path / "precious.txt").read_text() == "keep"
    assert (tmp_path / "meta.json").read_text() == '{"precious": 1}'


def test_writers_of_one_path_take_turns(tmp_path: Path) -> None:
    """Many threads replacing one index leave a whole one, and every reader finds one."""
    indexes = [tiny(value) for value in range(4)]
    expected = [results(index) for index in indexes]
    path = tmp_path / "index"
    indexes[0].save(path)
    threads = [threading.Thread(target=lambda i=i: indexes[i].save(path, overwrite=True)) for i in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert results(segmax.open(path, verify=True)) in expected
    assert results(segmax.open(path, verify=True)) in expected


@pytest.mark.parametrize("name", ["replace", "unlink"])
def test_an_interrupt_after_the_rename_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Ctrl-C just after meta.json was replaced leaves the new index whole."""
    tiny(1).save(tmp_path / "index")
    original = getattr(Path, name)

    def interrupted(*args: object, **kwargs: object) -> None:
        original(*args, **kwargs)
        raise KeyboardInterrupt

    replacement = tiny(2)
    with monkeypatch.context() as patch:
        patch.setattr(Path, name, interrupted)
        with pytest.raises(KeyboardInterrupt):
            replacement.save(tmp_path / "index", overwrite=True)
    assert results(segmax.open(tmp_path / "index", verify=True)) == results(replacement)


def test_a_path_that_is_missing(tmp_path: Path) -> None:
    """Nothing there: IndexNotFoundError, which is a FileNotFoundError."""
    with pytest.raises(IndexNotFoundError) as error:
        segmax.open(tmp_path / "nothing")
    assert str(error.value) == (
        f"there is no index at '{tmp_path / 'nothing'}'; check the path, or build an index there"
    )
    with refused(FileNotFoundError, expected="an existing directory to put the index in"):
        tiny().save(tmp_path / "no" / "where")


def test_a_path_that_is_not_an_index(tmp_path: Path) -> None:
    """A directory without meta.json, a file, and somebody else's meta.json."""
    with refused(FormatError, expected="a segmax index", got="something without meta.json"):
        segmax.open(tmp_path)
    (tmp_path / "file").write_text("x")
    with refused(FormatError, expected="a segmax index", got="something without meta.json"):
        segmax.open(tmp_path / "file")
    (tmp_path / "meta.json").write_text('{"name": "other"}')
    with refused(FormatError, expected="a segmax index", got="a meta.json of something else, or a damaged one"):
        segmax.open(tmp_path)


@pytest.mark.parametrize(
    ("version", "advice"),
    [(FORMAT_VERSION + 1, "pip install -U segmax$"), (OLDEST_MAPPED_VERSION - 1, "run segmax upgrade on it")],
)
def test_another_version(saved: Path, version: int, advice: str) -> None:
    """An index of a later format asks for a newer segmax, one of an earlier format to be upgraded."""
    text = (saved / "meta.json").read_text()
    assert f'"version": {FORMAT_VERSION}' in text
    (saved / "meta.json").write_text(text.replace(f'"version": {FORMAT_VERSION}', f'"version": {version}'))
    readable = f"a format version from {OLDEST_MAPPED_VERSION} to {FORMAT_VERSION}"
    with refused(FormatError, where=str(saved), expected=readable, got=f"^{version}$", hint=advice):
        segmax.open(saved)


def test_a_missing_component(saved: Path) -> None:
    """A file that meta.json names and that is not there."""
    (saved / "run_bytes.1.bin").unlink()
    with refused(FormatError, message="is damaged: 'run_bytes.1.bin' is missing", hint="rebuild it"):
        segmax.open(saved)


# --- damage ----------------------------------------------------------------------------------------------------------


#: What `open` does not check.
UNCHECKED = {component.name for component in COMPONENTS.values() if not component.checked}


#: Every fifth byte in as many tests as none takes long for, all of them in one.
every_byte = pytest.mark.parametrize(
    ("every", "first"), [*((60, first) for first in range(0, 60, 5)), pytest.param(1, 0, marks=pytest.mark.slow)]
)


def each_damage(path: Path) -> list[tuple[Path, bytes]]:
    """Every file of an index with its bytes."""
    files = [(file, file.read_bytes()) for file in sorted(path.iterdir())]
    assert min(len(data) for file, data in files if file.stem.split(".")[0] in UNCHECKED) > FOOTER_BYTES
    assert sum(len(data) for _, data in files) <= 16_384
    return files


@every_byte
def test_every_flipped_byte_is_noticed_by_verify(saved: Path, every: int, first: int) -> None:
    """open(verify=True) and verify raise FormatError for each byte changed; plain open raises it or searches."""
    for file, data in each_damage(saved):
        for at in range((len(file.name) + first) % every, len(data), every):
            file.write_bytes(data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :])
            with pytest.raises(FormatError):
                segmax.open(saved, verify=True)
            with pytest.raises(FormatError):
                segmax.verify(saved)
            if at // every % 16 == 0:
                try_to_search(saved)
        file.write_bytes(data)
    segmax.verify(saved)


@every_byte
def test_every_truncation_is_noticed(saved: Path, every: int, first: int) -> None:
    """A file that is shorter, by any number of bytes, or longer is never opened."""
    for file, data in each_damage(saved):
        for size in [*range(first, len(data), every), len(data) - 1, len(data) + 1]:
            file.write_bytes((data + b"\x00")[:size])
            for check in (segmax.open, segmax.verify):
                with pytest.raises(FormatError):
                    check(saved)
        file.write_bytes(data)
    segmax.verify(saved)


def try_to_search(path: Path) -> None:
    """Open without verification; if that works, every method must get through without a crash."""
    try:
        index = segmax.open(path)
    except FormatError:
        return
    search_every_way(index)


def search_every_way(index: segmax.Index) -> None:
    """Ask a damaged index everything; it may answer wrongly, or say that it is damaged."""
    query = (np.arange(6), np.ones(6))
    for params in (
        segmax.Exhaustive(),
        MaxScore(),
        Anytime(),
        segmax.paper.ASC(),
        segmax.paper.ASC(documents="maxscore"),
        segmax.paper.ASC(max_clusters=100),
        with_hooks(segmax.paper.ASC(mu=0.5, eta=0.7), lazy=False),
        with_hooks(segmax.ASC(eta=0.9), sweep=False),
        with_hooks(segmax.ASC(), sweep=False, all_tiles=0),
        with_hooks(segmax.ASC(mu=0.5), sweep=False, all_tiles=0),
    ):
        index.search(query, k=5, params=params)
    index.search_batch([query, ([3], [0.5])], k=30, threads=1)
    index.cluster_bounds(query)
    with contextlib.suppress(FormatError, UnknownIdError):
        index.vectors(["d0", "d19"])
        index.explain(query, "d3")


def with_room(data: bytes, dtype: np.dtype) -> np.ndarray:
    """An array with no more readable bytes behind it than the core may read."""
    whole = np.zeros(len(data) + FOOTER_BYTES, dtype=np.uint8)
    whole[: len(data)] = np.frombuffer(data, np.uint8)
    return whole[: len(data)].view(dtype)


def damaged_contents(array: np.ndarray, step: int) -> Iterator[bytes]:
    """Other contents for an array: bytes flipped, entries that are extreme or off by one, fewer and more of them."""
    data, size = array.tobytes(), array.itemsize
    for at in range(0, len(data), step):
        yield data[:at] + bytes([data[at] ^ (1 << at // step % 8)]) + data[at + 1 :]
    if array.dtype.kind in "iu":
        most = (1 << 8 * size) - 1
        for at in range(0, len(data), step * size):
            entry = int.from_bytes(data[at : at + size], "little")
            for other in {0, most, most >> 1, (entry + 1) & most, (entry - 1) & most} - {entry}:
                yield data[:at] + other.to_bytes(size, "little") + data[at + size :]
    for count in range(0, len(array), step):
        yield data[: count * size]
    yield data + data[-size:]
    yield data + bytes(size)
    yield data[::-1]


def damaged_indexes(step: int = 1) -> Iterator[tuple[dict[str, object], dict[str, np.ndarray]]]:
    """Metadata and arrays of one index, one of them damaged: as a file is whose checksum was made to fit."""
    index = tiny()
    arrays = {name: with_room(array.tobytes(), array.dtype) for name, array in index._open_arrays.items()}
    for name, array in arrays.items():
        for data in damaged_contents(array, step):
            yield index._meta, {**arrays, name: with_room(data, array.dtype)}
    for name in ("num_docs", "num_terms", "num_segments", "code_bytes", "head_ratio"):
        for value in {0, 1, 2, index._meta[name] - 1, index._meta[name] + 1, 2**16, 2**31, 2**32 - 1}:
            yield {**index._meta, name: value}, arrays


def survive(damaged: Iterator[tuple[dict[str, object], dict[str, np.ndarray]]]) -> tuple[int, int]:
    """Try damaged indexes; return how many were refused and how many answered."""
    refused = answered = 0
    for meta, arrays in damaged:
        try:
            index = segmax.Index(meta, arrays, None)
        except FormatError:
            refused += 1
            continue
        search_every_way(index)
        answered += 1
    return refused, answered


@pytest.mark.parametrize("step", [11, pytest.param(5, marks=pytest.mark.deep)])  # a sanitized test takes all of it
def test_damage_with_checksums_that_fit(step: int) -> None:
    """The core checks by itself whatever it follows: a damaged array is refused, or leads to wrong answers at worst."""
    refused, answered = survive(damaged_indexes(step))
    assert refused > 200
    assert answered > 200


def test_a_checked_but_impossible_table_is_refused(tmp_path: Path) -> None:
    """Right checksums do not make a table right: lengths and offsets are checked against each other."""
    index = tiny()
    arrays = dict(index._open_arrays)
    arrays["term_first_posting"] = arrays["term_first_posting"][::-1].copy()
    save_index(tmp_path / "bad", arrays, index._meta, overwrite=False, check=lambda *_: None)
    with refused(FormatError, message="term_first_posting does not ascend from 0"):
        segmax.open(tmp_path / "bad")


# --- interrupted writing ---------------------------------------------------------------------------------------------


def in_child(work: Callable[[], None]) -> int:
    """Run in a forked process; return its wait status."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1]


class KillAt:
    """Kills the process just before its n-th step of writing."""

    def __init__(self, step: int) -> None:
        self.left = step

    def wrap(self, function: Callable[..., object]) -> Callable[..., object]:
        def wrapped(*args: object, **kwargs: object) -> object:
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            self.left -= 1
            return function(*args, **kwargs)

        return wrapped


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize(
    "stride", [47, pytest.param(5, marks=pytest.mark.deep), pytest.param(1, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("overwrite", [True, False])
def test_killed_at_every_step_of_writing(tmp_path: Path, overwrite: bool, stride: int) -> None:
    """After SIGKILL anywhere, the old index opens, or the new one; where there was none, there is none or the new."""
    old, new = results(tiny(1)), results(tiny(2))
    replacement = tiny(2)
    finished = False
    for step in range(0, 1000, stride):
        path = tmp_path / f"index{step}"
        if overwrite:
            tiny(1).save(path)

        def work(path: Path = path, step: int = step) -> None:
            kill = KillAt(step)
            for name in ("open", "write", "fsync", "close"):
                setattr(os, name, kill.wrap(getattr(os, name)))
            for name in ("replace", "unlink", "mkdir"):
                setattr(Path, name, kill.wrap(getattr(Path, name)))
            replacement.save(path, overwrite=overwrite)

        status = in_child(work)
        finished = os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0
        if overwrite:
            assert results(segmax.open(path, verify=True)) in (old, new)
        elif path.exists() and (path / "meta.json").exists():
            assert results(segmax.open(path, verify=True)) == new
        else:
            with pytest.raises((FormatError, IndexNotFoundError)):
                segmax.open(path)
        # Whatever was left, the next build succeeds and cleans up.
        replacement.save(path, overwrite=True)
        assert results(segmax.open(path, verify=True)) == new
        assert len({p.name.split(".")[1] for p in path.glob("*.bin")}) == 1
        if finished:
            break
    assert finished
    assert step > 50


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_disk_that_fills_up(tmp_path: Path) -> None:
    """A write that fails raises WriteError, leaves nothing new, and the old index still opens."""
    path = tmp_path / "index"
    tiny(1).save(path)
    before = sorted(p.name for p in path.iterdir())
    large = tiny(2, num_docs=2000)
    for limit in (0, 100, 1_000, 3_000):

        def work(limit: int = limit) -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            with pytest.raises(WriteError) as error:
                large.save(path, overwrite=True)
            assert str(error.value) == (
                f"could not write '{path}' (File too large): nothing was changed; make room or choose another path"
            )
            with pytest.raises(WriteError):
                large.save(tmp_path / "fresh")

        assert in_child(work) == 0
        assert sorted(p.name for p in path.iterdir()) == before
        assert results(segmax.open(path, verify=True)) == results(tiny(1))
        assert not (tmp_path / "fresh").exists()


def test_starts_of_entries_follow_from_older_versions(tmp_path: Path) -> None:
    """Saving an index that lacks them writes what a build writes."""
    index = segmax.build(sp.random(4_000, 300, 0.006, format="csr", random_state=21), num_clusters=40)
    starts = index._open_arrays.pop("pair_entry")
    assert len(np.unique(starts)) > 10
    index.save(tmp_path / "index")
    with segmax.open(tmp_path / "index", verify=True) as opened:
        assert np.array_equal(opened._open_arrays["pair_entry"], starts)


def test_starts_of_entries_count_from_their_zones() -> None:
    """Two zones, and a cluster in both; a narrow term, a wide one, a head term without any, a term of no document."""
    first_block = [0, 30_000, 65_000, 66_000, 130_000]
    entries = [[5, 30_001, 65_530, 65_540, 70_000], [], list(range(0, 131_000, 10)), [65_536, 130_500]]
    clusters = [[0, 1, 2, 3], [], [0, 1, 2, 3, 4], [2, 4]]
    found = pair_entries(
        {"head_ratio": 1},
        {
            "cluster_first_position": np.array([*first_block, 131_072], np.uint32) * 8,
            "position_row": np.empty(131_072 * 8, np.uint8),
            "term_first_pair": np.cumsum([0, 4, 0, 5, 5, 2]).astype(np.uint64),
            "term_first_posting": np.cumsum([0, 5, 0, 13_100, 10**6, 2]).astype(np.uint64),
            "term_first_entry": np.array([0, 3, 5, 5, 5, 6_559, 13_105, 13_105, 13_105, 13_105, 13_107], np.uint64),
            "narrow_cluster": np.array([0, 1, 2, 3, 2, 4], np.uint32),
            "entry_block": np.array([block % 65_536 for some in entries for block in some], np.uint16),
        },
    )
    expected = [
        sum(block < first_block[cluster] and block // 65_536 == first_block[cluster] // 65_536 for block in some)
        for some, own in zip(entries, clusters, strict=True)
        for cluster in own
    ]
    assert np.concatenate(list(found)).tolist() == expected
