"""Indexes from strangers: whatever is in their files, opening and searching ends in an answer or a FormatError."""

from __future__ import annotations

import contextlib
import copy
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from test_storage import results, tiny

import segmax
from calibrations import stored_calibration
from conftest import refused
from segmax.building import builder
from segmax.errors import ConfigError, FormatError, IndexExistsError, IndexNotFoundError, InputError, WriteError
from segmax.paper import MaxScore
from segmax.pruning import TopTerms
from segmax.search.hooks import with_hooks
from segmax.storage.checked_json import checked_bytes
from segmax.storage.component_file import footer
from segmax.storage.components import COMPONENTS
from segmax.storage.meta import MAX_META_BYTES
from segmax.storage.writing import save_index

SOURCE = Path(segmax.__file__).parents[1]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A small index on disk."""
    tiny().save(tmp_path / "index")
    return tmp_path / "index"


@pytest.fixture(autouse=True)
def _limited_time() -> Iterator[None]:
    """A pipe that nobody writes to must not be waited for."""

    def late(*_: object) -> None:
        raise TimeoutError("a test took more than two minutes")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def meta_of(path: Path) -> dict[str, Any]:
    """What meta.json holds."""
    return dict(json.loads((path / "meta.json").read_text()))


def write_meta(path: Path, meta: dict[str, Any]) -> None:
    """Replace meta.json, its checksum right."""
    (path / "meta.json").write_bytes(checked_bytes(meta))


def write_index(path: Path, arrays: dict[str, Any], meta: dict[str, Any]) -> Path:
    """Write an index of any arrays, all checksums right; what meta.json must not have is changed afterwards."""
    save_index(path, arrays, meta, overwrite=False, check=lambda *_: None)
    return path


#: Metadata of 20 documents: every kind of value, in all documents, in many, in few.
DESCRIBED: list[dict[str, Any]] = [
    {"s": "ab"[row % 2], "l": [row, "x", None], "n": row if row % 2 else 2.5, "o": {"x": 2**70}} for row in range(9)
]
DESCRIBED += [{"few": True}, {}, *[{"s": "c"}] * 9]


def exercise(index: segmax.Index) -> None:
    """Do what a reader does with an index; only errors of segmax may come out."""
    with contextlib.suppress(segmax.SegmaxError):
        query = (np.arange(6), np.ones(6))
        for params in (
            segmax.Exhaustive(),
            MaxScore(),
            segmax.paper.ASC(),
            with_hooks(segmax.paper.ASC(), lazy=False),
            with_hooks(segmax.ASC(), sweep=False),
            with_hooks(segmax.ASC(mu=0.5), sweep=False, all_tiles=0),
        ):
            index.search(query, k=3, params=params)
        assert str(index.expectation(10, 0.9)) + str(index.calibration) + repr(index)
        assert [index.search(query, k=2).ids, index.num_bytes, index.bits, index.quantization_error]
        shown = segmax.inspect(index, sample=2)
        json.dumps(shown.to_dict())
        str(shown).encode()


def check(path: Path, **options: bool) -> bool:
    """Open an index and use it; True if it was refused, in one line that names the place."""
    message = ""
    try:
        with segmax.open(path, **options) as index:
            exercise(index)
    except FormatError as error:
        message = str(error)
    assert not message or str(path) in message
    assert len(message.splitlines()) <= 1
    assert len(message) < 700
    return bool(message)


# --- meta.json -------------------------------------------------------------------------------------------------------

WRONG: list[Any] = [
    *(None, True, False, -1, 0, 1, 3, 1.5, 1e308, -0.0, 2**31, 2**32, 2**63, 2**64, 10**400, -(10**30)),
    *("", "x", "\ud800", "\x1b[2J\n", "../meta.json", "/etc/passwd", "7" * 5000),
    *([], [1], [[[]]], [None], {}, {"a": 1}, {"": {}}, [{}], ["\udfff"]),
]


def places(value: Any, *path: Any) -> Iterator[tuple[Any, ...]]:
    """The path to every value inside of nested ones, itself included."""
    if path:
        yield path
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], *path, key)


def replaced(value: Any, path: tuple[Any, ...], change: Callable[[Any, Any], None]) -> Any:
    """A copy in which something at a path was changed."""
    whole = copy.deepcopy(value)
    inside = whole
    for key in path[:-1]:
        inside = inside[key]
    change(inside, path[-1])
    return whole


def put(value: Any) -> Callable[[Any, Any], None]:
    """A change that puts a value somewhere."""
    return lambda inside, key: inside.__setitem__(key, value)


def rich_meta(path: Path) -> dict[str, Any]:
    """A meta.json with everything that there can be."""
    meta = {**meta_of(path), "encoder": {"encoder": "bm25", "k1": 0.9}}
    meta["calibration"] = [stored_calibration(), stored_calibration(k=100)]
    meta["config"] = {**meta["config"], "pruning": [step.to_dict() for step in (TopTerms(count=9),)]}
    write_meta(path, meta)
    assert not check(path)
    return meta


@pytest.mark.parametrize(
    "share", [15, pytest.param(5, marks=pytest.mark.deep), pytest.param(1, marks=pytest.mark.slow)]
)
def test_every_entry_with_wrong_values(saved: Path, share: int) -> None:
    """Each entry of meta.json, nested ones too, missing or with values of any type: refused, or without effect."""
    meta = rich_meta(saved)
    few = {"bytes", "crc32", "file"}  # of every component; one stands for all
    wanted = [p for p in places(meta) if p[0] != "checksum" and not (p[0] == "files" and p[-1] in few)]
    wanted += [("files", "position_row", name) for name in sorted(few)]
    refused = tried = 0
    for number, path in enumerate(wanted):
        for value in WRONG[number % share :: share]:
            write_meta(saved, replaced(meta, path, put(value)))
            refused += check(saved)
            tried += 1
        write_meta(saved, replaced(meta, path, lambda inside, key: inside.pop(key)))
        refused += check(saved)
    assert refused > 0.7 * tried


@pytest.mark.parametrize("name", ["num_docs", "num_terms", "num_segments", "num_postings", "generation", "code_bytes"])
def test_counts_are_whole_numbers(saved: Path, name: str) -> None:
    """A wrong type is named together with the entry."""
    for value in ("5", None, 2.0, True, -1, [5], 2**64):
        write_meta(saved, {**meta_of(saved), name: value})
        with refused(FormatError, where="meta.json", expected=rf"{name} to be a whole number from \d to "):
            segmax.open(saved)


def test_an_index_made_by_hand() -> None:
    """What `open` relies on is checked for an index in memory, too."""
    index = tiny()
    for name in ("num_docs", "num_postings", "num_segments", "num_terms", "code_bytes", "head_ratio", "config"):
        meta = {key: value for key, value in index._meta.items() if key != name}
        with refused(FormatError, message=f"the index is damaged: it has no '{name}'", hint="rebuild it"):
            segmax.Index(meta, index._open_arrays, None)
    for name in ("position_row", "cluster_label", "run_bytes"):
        arrays = {key: value for key, value in index._open_arrays.items() if key != name}
        with refused(FormatError, message=f"the index is damaged: it has no '{name}'", hint="rebuild it"):
            segmax.Index(index._meta, arrays, None)


NO_META = {
    "empty": b"",
    "not JSON": b"\x80\x81",
    "null": b"null\n",
    "a list": b"[1]\n",
    "deep": b"[" * 100_000,
    "deep objects": b'{"a":' * 50_000,
    "long number": b'{"format": "segmax", "version": ' + b"9" * 5000 + b"}",
    "UTF-16": '{"format": "segmax", "version": 2}'.encode("utf-16"),
    "no version": b'{"format": "segmax"}',
    "version of another type": b'{"format": "segmax", "version": [2]}',
    "huge version": b'{"format": "segmax", "version": ' + b"9" * 400 + b"}",
    "too long": b'{"format": "segmax", "version": 2' + b" " * MAX_META_BYTES + b"}",
}


@pytest.mark.parametrize("kind", NO_META)
def test_what_is_no_meta_json(saved: Path, kind: str) -> None:
    """Whatever stands in its place is refused, and a build with overwrite=True still knows what it may replace."""
    (saved / "meta.json").write_bytes(NO_META[kind])
    assert check(saved)
    with pytest.raises(FormatError):
        segmax.verify(saved)
    tiny(2).save(saved, overwrite=True)
    assert results(segmax.open(saved)) == results(tiny(2))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"num_docs": 20', '"num_docs": 20,\n "num_docs": 20'),
        ('"quantization_error": 0.0', '"quantization_error": NaN'),
        ('"quantization_error": 0.0', '"quantization_error": Infinity'),
        ('"format"', '"f\u00f6rmat": 1, "format"'),
    ],
)
def test_what_json_should_not_have(saved: Path, before: str, after: str) -> None:
    """Names that are there twice, what is no number, and characters beyond ASCII are refused, right checksum or not."""
    text = (saved / "meta.json").read_text()
    assert before in text
    text = text[: text.index('"checksum"')].replace(before, after) + '"checksum": "00000000"\n}\n'
    data = text.encode()
    (saved / "meta.json").write_bytes(data.replace(b"00000000", f"{zlib.crc32(data):08x}".encode()))
    with refused(FormatError, expected="a segmax index", got="a meta.json of something else, or a damaged one"):
        segmax.open(saved)


def test_a_meta_json_that_would_be_too_long_is_not_written(tmp_path: Path) -> None:
    """A build does not make what it could not open again."""
    docs = sp.csr_matrix([[1, 2], [3, 0]])
    segmax.build(docs, path=tmp_path / "index").close()
    with refused(WriteError, message="what was there is unchanged .*meta.json of more than 4,194,304 bytes"):
        segmax.build(docs, path=tmp_path / "index", overwrite=True, encoder={"words": "x" * MAX_META_BYTES})
    assert not check(tmp_path / "index", verify=True)


@pytest.mark.parametrize("encoder", [{"a": object()}, {"a": float("nan")}, {1: {2: {3}}}, 5])
def test_an_encoder_that_json_cannot_hold(encoder: Any) -> None:
    """It is refused before the work is done."""
    with refused(InputError, option="encoder", expected="a mapping that JSON can hold"):
        segmax.build(iter([]), encoder=encoder)


# --- files -----------------------------------------------------------------------------------------------------------


def make_pipe(path: Path) -> None:
    """A pipe that nobody writes to."""
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    """A socket that nobody listens to; its path must be short."""
    before = Path.cwd()
    os.chdir(path.parent)
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(path.name)
    os.chdir(before)


SPECIAL: dict[str, Callable[[Path], None]] = {
    "a pipe": make_pipe,
    "a link to a pipe": lambda path: (make_pipe(path.parent.parent / "pipe"), path.symlink_to("../pipe"))[1],
    "a socket": make_socket,
    "a folder": Path.mkdir,
    "an endless device": lambda path: path.symlink_to("/dev/zero"),
    "an empty device": lambda path: path.symlink_to("/dev/null"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to nothing": lambda path: path.symlink_to("nothing"),
}


@pytest.mark.parametrize("name", ["meta.json", "position_row.1.bin", "run_bytes.1.bin"])
@pytest.mark.parametrize("kind", SPECIAL)
def test_files_that_are_no_files(saved: Path, kind: str, name: str) -> None:
    """A pipe does not hang, a device is not read: the files of an index are regular files."""
    (saved / name).unlink()
    SPECIAL[kind](saved / name)
    for preload in (False, True):
        assert check(saved, preload=preload)
    with pytest.raises((IndexExistsError, WriteError)):
        tiny(2).save(saved)


def test_links_to_regular_files_are_followed(saved: Path, tmp_path: Path) -> None:
    """As download caches lay out folders: files elsewhere, links in the folder."""
    (tmp_path / "linked").mkdir()
    for file in saved.iterdir():
        (tmp_path / "linked" / file.name).symlink_to(file)
    assert results(segmax.open(tmp_path / "linked", verify=True)) == results(tiny())


@pytest.mark.parametrize("name", ["meta.json", "position_row.1.bin", "."])
def test_files_that_may_not_be_read(saved: Path, name: str) -> None:
    """No permission is a FormatError that says so."""
    if os.geteuid() == 0:
        pytest.skip("root may read anything")
    (saved / name).chmod(0)
    try:
        with refused(FormatError, message=r"cannot be read as part of an index \(Permission denied\)"):
            segmax.open(saved)
    finally:
        (saved / name).chmod(0o700)


def test_a_system_that_refuses(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for root: whatever the system says about a file becomes a FormatError with its name."""
    original = os.open
    for name in ("meta.json", "position_row.1.bin"):

        def deny(path: Any, *rest: Any, name: str = name) -> int:
            if os.fspath(path).endswith(name):
                raise PermissionError(13, "Permission denied", os.fspath(path))
            return original(path, *rest)

        with monkeypatch.context() as patch:
            patch.setattr(os, "open", deny)
            with refused(
                FormatError, where=name, message=r"cannot be read .* \(Permission denied\)", hint="check the file"
            ):
                segmax.open(saved)


@pytest.mark.parametrize("path", ["a\0b", "\ud800", "x" * 300, "x" * 5000])
def test_paths_that_cannot_be(path: str) -> None:
    """There is no index there, and no error that is not ours."""
    with pytest.raises((ConfigError, IndexNotFoundError, FormatError)):
        segmax.open(path)


def test_tune_writes_through_no_link(tmp_path: Path) -> None:
    """A link under the name that meta.json has before it is renamed leads to no other file."""
    path = tmp_path / "index"
    index = segmax.build(sp.csr_matrix(np.eye(30)), path=path)
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (path / "meta.json.new").symlink_to(victim)
    index.tune([{1: 1.0}, {2: 1.0}], 5)
    assert victim.read_text() == "precious"
    assert not (path / "meta.json").is_symlink()
    assert segmax.open(path).expectation(5, 0.9).num_queries == 2


def test_a_build_writes_through_no_link(saved: Path, tmp_path: Path) -> None:
    """Nor do links under the names of components of this generation or the next."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for name, generation in itertools.product(("level", "position_row"), (2, 3)):
        (saved / f"{name}.{generation}.bin").symlink_to(victim)
    tiny(2).save(saved, overwrite=True)
    assert victim.read_text() == "precious"
    assert results(segmax.open(saved, verify=True)) == results(tiny(2))


def test_a_generation_beyond_63_bits(saved: Path) -> None:
    """A file that claims it does not lead to an index that nobody can open."""
    (saved / f"level.{10**25}.bin").write_bytes(b"")
    tiny(2).save(saved, overwrite=True)
    assert results(segmax.open(saved)) == results(tiny(2))


# --- components ------------------------------------------------------------------------------------------------------


def wrong_arrays(array: Any, rng: np.random.Generator) -> Iterator[Any]:
    """An array shorter, longer, empty, and with the extremes of its type in it."""
    yield array[:-1]
    yield array[:0]
    yield np.concatenate([array, array[-1:], array[-1:]])
    yield array[::-1]
    extremes = (
        [0, 1, np.inf, np.nan] if array.dtype.kind == "f" else [np.iinfo(array.dtype).min, np.iinfo(array.dtype).max]
    )
    for value in extremes:
        for at in {0, len(array) // 2, len(array) - 1} if len(array) else ():
            changed = array.copy()
            changed[at] = value
            yield changed
        yield np.full_like(array, value)
    yield rng.integers(0, 256, array.nbytes, dtype=np.uint8).view(array.dtype)


@pytest.mark.parametrize("name", ["pair_entry", "narrow_cluster", "entry_block"])
def test_damaged_entries_of_rare_terms(tmp_path: Path, name: str) -> None:
    """Searches of the best clusters of an index whose rare terms are damaged end, and saving it is no worse."""
    docs = sp.random(3_000, 200, 0.005, format="csr", random_state=5)
    index = segmax.build(docs, clustering=np.arange(3_000) % 40)
    arrays = dict(index._open_arrays)
    assert len(arrays[name]) > 500
    doubled = np.sort(arrays[name])[np.arange(len(arrays[name])) // 9 * 9]
    for number, wrong in enumerate([doubled, *wrong_arrays(arrays[name], np.random.default_rng(0))]):
        if len(wrong) != len(arrays[name]):
            continue
        path = write_index(tmp_path / f"{number}", {**arrays, name: wrong}, index._meta)
        with segmax.open(path) as opened:
            for row in range(3):
                for params in (segmax.ASC(max_clusters=3), segmax.ASC(max_clusters=12, mu=0.7), segmax.ASC()):
                    assert len(opened.search(docs[row], k=5, params=params).ids) <= 5
            del opened._open_arrays["pair_entry"]  # as version 4 has it
            with contextlib.suppress(segmax.SegmaxError):
                opened.save(tmp_path / f"saved-{number}")


@pytest.mark.parametrize("every", [9, pytest.param(1, marks=pytest.mark.deep)])
@pytest.mark.parametrize("name", sorted(COMPONENTS))
def test_every_component_with_wrong_content(tmp_path: Path, name: str, every: int) -> None:
    """Right checksums around wrong tables: refused with the place named, or searched without harm."""
    docs = sp.csr_matrix(np.eye(20, 6) + np.tri(20, 6, 1))
    ids: Any = range(5, 25) if name == "id_number" else [f"d{i}" for i in range(20)]
    stored: dict[str, Any] = {"texts": ["some text"] * 20, "metadata": DESCRIBED, "segment_bounds": "exact"}
    index = segmax.build(docs, ids=ids, terms=list("abcdef"), clustering=np.arange(20) % 5, **stored)
    arrays = dict(index._open_arrays)
    if name not in arrays:
        assert name.startswith("id_") or COMPONENTS[name].group in ("part", "counts")  # those: tests/collection
        return
    wrong_ones = list(wrong_arrays(arrays[name], np.random.default_rng(0)))
    for number, wrong in enumerate(wrong_ones[len(name) % every :: every]):
        path = write_index(tmp_path / f"{number}", {**arrays, name: wrong}, index._meta)
        for verify in (False, True):
            check(path, verify=verify)
        with contextlib.suppress(segmax.SegmaxError), segmax.open(path) as opened:
            assert [opened.texts and list(opened.texts), opened.terms and list(opened.terms)]
            assert len(opened.search({"a": 1.0}, k=20).ids) <= 20
            assert len(opened.search({"a": 1.0}, k=3, params=segmax.ASC(max_clusters=2)).ids) <= 3
            assert len(opened.search({"a": 1.0}, k=20, params=segmax.paper.ASC(mu=0.5)).ids) <= 20
        with contextlib.suppress(segmax.SegmaxError), segmax.open(path) as opened:
            assert len(opened.search({"a": 1.0}, k=20, where={"s": "b", "l": {"$contains": 1}}).metadata) <= 20
            assert [opened.facets(field) for field in opened.fields]
            opened.search({"a": 1.0}, group_by="s")


def test_lazy_errors_name_the_place(tmp_path: Path) -> None:
    """A text, an id or a term that cannot be read says in which index."""
    index = segmax.build(sp.csr_matrix([[1, 2], [3, 0]]), ids=["a", "b"], terms=["x", "y"], texts=["one", "two"])
    arrays = index._open_arrays
    changes = {"text_data": arrays["text_data"][::-1].copy()}
    changes |= {name: np.full_like(arrays[name], 0xFF) for name in ("id_text", "term_text")}
    path = write_index(tmp_path / "index", {**arrays, **changes}, index._meta)
    opened = segmax.open(path)
    for read in (
        lambda: opened.texts and opened.texts[0],
        lambda: opened.search({0: 1.0}).ids,
        lambda: opened.search({"x": 1.0}),
    ):
        with refused(FormatError, message=f"the index '{path}' is damaged: "):
            read()


# --- small files that want much memory -------------------------------------------------------------------------------

#: Opens an index in a process that may take 1 GiB more than what it starts with, uses it, and prints what came of it.
GUARDED = """
    import resource, sys
    import numpy as np
    import segmax
    from segmax.search.hooks import with_hooks
    segmax.build(__import__("scipy.sparse").sparse.csr_matrix([[1, 2]])).search({0: 1.0})
    peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    before = peak()
    size = int(next(line for line in open("/proc/self/status") if line.startswith("VmSize:")).split()[1]) * 1024
    resource.setrlimit(resource.RLIMIT_AS, (size + 2**30, size + 2**30))
    outcome = "nothing"
    try:
        index = segmax.open(sys.argv[1], preload=len(sys.argv) > 2)
        eager = with_hooks(segmax.paper.ASC(), lazy=False)
        gated = with_hooks(segmax.ASC(mu=0.5), sweep=False, all_tiles=0)
        for params in (None, eager, gated, segmax.paper.ASC(mu=0.5), segmax.paper.MaxScore()):
            index.search({0: 1.0}, k=10, params=params)
        if index.texts is not None:
            sum(len(index.texts[row].text) for row in range(len(index)))
        index.cluster_bounds({0: 1.0})
    except segmax.SegmaxError as error:
        outcome = f"{type(error).__name__}: {error}"
    print(peak() - before, outcome)
"""


def guarded(path: Path, *options: str) -> tuple[int, str]:
    """Return how many MiB opening and using an index took, and the error it ended with."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(GUARDED), str(path), *options]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    taken, outcome = done.stdout.split(maxsplit=1)
    return int(taken), outcome.strip()


def size_of(path: Path) -> int:
    """The bytes of all files."""
    return sum(file.stat().st_size for file in path.iterdir())


def singletons(num_docs: int) -> segmax.Index:
    """Every document a cluster of its own, one term."""
    docs = sp.csr_matrix(([1], ([0], [0])), shape=(num_docs, 1))
    return segmax.build(docs, clustering=np.arange(num_docs), calibrate=False)


def test_more_segments_than_a_build_allows(tmp_path: Path) -> None:
    """Clusters × segments are in proportion to the documents: 0.4 MB on disk must not take 3 GB."""
    index = singletons(12_000)
    arrays = dict(index._open_arrays)
    arrays["segment_mask"] = np.zeros(8_192, np.uint8)
    path = write_index(tmp_path / "index", arrays, {**index._meta, "num_segments": 65_535})
    assert size_of(path) < 800_000
    taken, outcome = guarded(path)
    what = "12,000 clusters of 65,535 segments are too many for 12,000 documents"
    assert outcome == f"FormatError: the index '{path}' is damaged: {what}; rebuild it or restore a copy"
    assert taken < 100


def test_a_build_refuses_so_many_segments() -> None:
    """What could not be opened is not built, be the number of clusters given or their labels."""
    docs = sp.csr_matrix(np.ones((4_000, 1)))
    for options in ({"num_clusters": 4_000}, {"clustering": np.arange(4_000)}):
        with refused(
            ConfigError,
            expected="at most 1,048,576 segments for 4,000 documents",
            got="4,000 clusters of 300",
            hint="choose fewer clusters",
        ):
            segmax.build(docs, num_segments=300, **options)
    assert segmax.build(docs[:16], num_segments=65_535, clustering=np.arange(16)).num_segments == 65_535


@pytest.mark.parametrize("num_docs", [21, 2**31, 2**32 - 1])
def test_more_documents_than_positions(tmp_path: Path, num_docs: int) -> None:
    """The count of documents is compared with the tables before anything is made for so many."""
    path = write_index(tmp_path / "index", tiny()._open_arrays, {**tiny()._meta, "num_docs": num_docs})
    taken, outcome = guarded(path)
    assert f"meta.json has {num_docs:,} documents, its tables have 20; rebuild it" in outcome
    assert taken < 50


def bomb(num_bytes: int, num_docs: int, stated: int) -> dict[str, Any]:
    """Components of texts of one block that unpacks to so many bytes, where its lengths tell as many or others."""
    lengths = np.zeros(2 * num_docs, "<u4")
    lengths[1] = stated
    piece = b"a" * 2**24
    packer = zlib.compressobj(9, wbits=-15)

    def packed(content: bytes) -> bytes:
        return packer.compress(content) + packer.flush(zlib.Z_FULL_FLUSH)  # so that it can be repeated as it is

    times = num_bytes // len(piece)
    content = packed(lengths.tobytes()) + packed(piece) * times + packer.flush()
    checksum = zlib.adler32(lengths.tobytes())
    for _ in range(times):
        checksum = zlib.adler32(piece, checksum)
    block = np.frombuffer(b"\x78\xda" + content + checksum.to_bytes(4, "big"), np.uint8)
    ends = {"text_offset": np.array([0, len(block)], np.uint64), "text_first_row": np.array([0, num_docs], np.uint64)}
    return {"text_data": block, **ends}


@pytest.mark.parametrize(
    ("size", "length"),
    [(2**28, 5), *(pytest.param(2**31, stated, marks=pytest.mark.deep) for stated in (2**31, 2**32 - 1, 2**20, 5, 0))],
)
def test_texts_that_unpack_to_much_more(tmp_path: Path, size: int, length: int) -> None:
    """A block that is a thousand times as long unpacked is not unpacked, whatever its lengths tell."""
    index = tiny()
    path = write_index(tmp_path / "index", {**index._open_arrays, **bomb(size, 20, length)}, index._meta)
    assert size_of(path) < 3_000_000
    assert zlib.decompressobj().decompress(bomb(2**24, 20, 2**24)["text_data"]).endswith(b"aaa")
    taken, outcome = guarded(path)
    assert outcome == (
        f"FormatError: the index '{path}' is damaged: a stored text cannot be read; rebuild it or restore a copy"
    )
    assert taken < 100


def test_long_texts_that_repeat_themselves_are_kept(tmp_path: Path) -> None:
    """What zlib packs as well as a bomb is stored in another way, and read back."""
    texts = ["a" * 5_000_000, "short", "ab" * 200_000, "", "漢" * 1_000_000]
    index = segmax.build(sp.csr_matrix(np.eye(5)), texts=texts, path=tmp_path / "index")
    assert [text.text for text in index.texts or ()] == texts


def test_a_file_with_holes_is_not_read_into_memory(tmp_path: Path) -> None:
    """preload=True refuses more bytes than the machine has memory, before it takes any."""
    docs = sp.csr_matrix([[1, 2], [3, 0]])
    segmax.build(docs, texts=["one", "two"], path=tmp_path / "index").close()
    path, meta = tmp_path / "index", meta_of(tmp_path / "index")
    entry = meta["files"]["text_data"]
    entry["bytes"] = 2**43
    with (path / entry["file"]).open("r+b") as file:
        file.truncate(2**43)
        file.seek(2**43)
        file.write(footer(2**43, int(entry["crc32"], 16)))
    write_meta(path, meta)
    taken, outcome = guarded(path, "preload")
    assert outcome.startswith("ConfigError: expected an index that fits ")
    assert outcome.endswith(f"in '{path}'; open it without preload")
    assert taken < 50


# --- a build that fails ----------------------------------------------------------------------------------------------


def too_large(shape: tuple[int, int] = (3, 3)) -> sp.csr_matrix:
    """Documents with a weight that is finite as a long double only."""
    docs = sp.csr_matrix(np.eye(*shape)).astype(np.longdouble)
    docs.data[1] = np.longdouble("1e400")
    return docs


needs_long_double = pytest.mark.skipif(
    np.finfo(np.longdouble).max <= np.finfo(np.float64).max, reason="long double is double here"
)


def contents(path: Path) -> dict[str, bytes]:
    """All files."""
    return {file.name: file.read_bytes() for file in path.iterdir()}


@needs_long_double
@pytest.mark.parametrize("calibrate", [False, True])
def test_weights_beyond_the_range_of_doubles(saved: Path, calibrate: bool) -> None:
    """They are checked after conversion, too, and the index that was to be replaced stays."""
    before = contents(saved)
    for row, docs in ((1, too_large()), (6, [sp.csr_matrix((5, 3)), too_large()])):
        expected = r"weights up to 1\.798e\+308, which float64 holds"
        with refused(InputError, expected=expected, got=rf"1e\+400 in document {row}, term 1", hint="scale"):
            segmax.build(docs, path=saved, overwrite=True, calibrate=calibrate)
    assert contents(saved) == before


@needs_long_double
def test_weights_below_the_range_of_doubles_are_zeros() -> None:
    """And zeros are dropped."""
    docs = too_large()
    docs.data[1] = np.longdouble("1e-400")
    assert segmax.build(docs).num_postings == 2


@pytest.mark.parametrize("name", ["docs.csr", "docs.bin"])
def test_weights_beyond_the_range_of_a_format(tmp_path: Path, name: str) -> None:
    """Formats of 32-bit floats refuse what would become infinite."""
    from segmax.io import VectorBatch, write_vectors
    from segmax.vectors.csr import matrix_to_csr

    docs = matrix_to_csr(sp.csr_matrix([[1.0, 0.0], [0.0, 1e300]]))
    with refused(InputError, expected=r"weights up to 3\.403e\+38", got=r"1e\+300 in document 1, term 1"):
        write_vectors(tmp_path / name, [VectorBatch(["a", "b"], docs)], terms=["x", "y"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("calibrate", [False, True])
def test_a_build_that_cannot_be_opened_replaces_nothing(
    saved: Path, monkeypatch: pytest.MonkeyPatch, calibrate: bool
) -> None:
    """Whatever goes wrong inside of a build shows before the commit."""
    before = contents(saved)
    original = builder._meta

    def spoiled(grouped: Any, coding: Any, request: Any) -> dict[str, Any]:
        coding.scale[:] = np.inf
        return original(grouped, coding, request)

    monkeypatch.setattr(builder, "_meta", spoiled)
    message = (
        r"cannot be opened, so it is not written and what was there is unchanged \(.*scale is not a positive number"
    )
    with refused(WriteError, where=str(saved), message=message):
        segmax.build(sp.csr_matrix([[1, 2], [3, 0]]), path=saved, overwrite=True, calibrate=calibrate)
    assert contents(saved) == before
    with pytest.raises(WriteError):
        segmax.build(sp.csr_matrix([[1, 2], [3, 0]]), path=saved.parent / "fresh", calibrate=calibrate)
    assert not (saved.parent / "fresh").exists()


def test_saving_opens_first(saved: Path) -> None:
    """An index in memory that was tampered with does not replace one on disk."""
    before = contents(saved)
    for name, value in {"num_docs": 7, "config": {"color": 1}, "odd": {1, 2}}.items():
        index = tiny(2)
        index._meta[name] = value
        with refused(WriteError, message="cannot be opened, so it is not written"):
            index.save(saved, overwrite=True)
    assert contents(saved) == before


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "x", None])
def test_tuning_opens_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: object) -> None:
    """A calibration that could not be read back is not written."""
    index = segmax.build(sp.csr_matrix(np.eye(30)), path=tmp_path / "index")
    before = contents(tmp_path / "index")
    monkeypatch.setattr(segmax.typing.Calibration, "to_list", lambda _: [stored_calibration(num_queries=value)])
    with refused(WriteError, message="cannot be opened, so it is not written"):
        index.tune([{1: 1.0}], 5)
    assert contents(tmp_path / "index") == before
