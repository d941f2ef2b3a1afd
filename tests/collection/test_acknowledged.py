"""What a collection acknowledges opens again: after a crash, from a backup, and once it is in a part on disk."""

from __future__ import annotations

import contextlib
import errno
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from histories import FAST, SLOW
from segmax.collection import store
from segmax.collection.collection import Collection
from segmax.errors import SegmaxError

#: Weights that a lattice has not foreseen are stored as smaller ones.
pytestmark = pytest.mark.filterwarnings("ignore:weights up to:segmax.errors.SegmaxWarning")

# --- what can be written ---------------------------------------------------------------------------------------------

WHOLE = [0, 1, 2, 255, 256, 65_535, 65_536, 70_000, 2**31 - 1, 2**32 - 1, 2**53 + 1, 2**63 - 1, 2**64 - 1]
REAL = [0.0, 0.5, 1.25, 3.0, 255.5, 65_535.0, 65_536.0, 70_000.5, 1e9, 1e30, 1e308, 5e-324, 1e-40]
DTYPES = [np.dtype(kind) for kind in "?bBhHiIlLqQfdg"]
ODD = ["", " ", "a\0b", "\ud800", "\udfff", "é", "e\u0301", "ß", "İ", "ΑΣ", "日本語", "😀", "\u200b", "a.b", "$in"]
COUNTS = [1, 2, 255, 256, 65_535, 65_536, 70_000]

words = st.one_of(st.sampled_from(["copper", "wire", "diode", *ODD]), st.text(max_size=6))
numbers = st.one_of(
    st.integers(-5, 20), st.sampled_from([2**31, -(2**63), 2**63 - 1, 2**63]), st.integers(0, 9).map(np.int32)
)
names = st.one_of(st.sampled_from(["a", "b", "c", "d"]), words, words.map(lambda word: word * 3000), words.map(np.str_))


def weights(dtype: np.dtype[Any]) -> st.SearchStrategy[Any]:
    """Weights of a type, many of them at its limits."""
    if dtype.kind == "f":
        known = [value for value in REAL if value <= float(np.finfo(dtype).max)]
        return st.one_of(st.sampled_from(known), st.floats(0, 100, width=32))
    top = 1 if dtype.kind == "b" else int(np.iinfo(dtype).max)
    return st.sampled_from([value for value in WHOLE if value <= top])


@st.composite
def matrices(draw: st.DrawFn, num_docs: int) -> sp.spmatrix:
    """A matrix of any type, with empty rows and empty columns."""
    dtype, width = draw(st.sampled_from(DTYPES)), draw(st.sampled_from([1, 3, 12, 70_000]))
    entries = draw(
        st.dictionaries(
            st.tuples(st.integers(0, max(0, num_docs - 1)), st.integers(0, width - 1)), weights(dtype), max_size=8
        )
    )
    entries = entries if num_docs else {}
    values = np.array(list(entries.values()), dtype=dtype)
    at = np.array(list(entries), dtype=np.int64).reshape(-1, 2)
    made = sp.coo_matrix((values, (at[:, 0], at[:, 1])), shape=(num_docs, width))
    return made.asformat(draw(st.sampled_from(["csr", "coo", "csc"])))


def mappings(terms: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[Any, Any]]:
    """Vectors of records: a mapping of term to weight."""
    return st.sampled_from(DTYPES[1:]).flatmap(lambda dtype: st.dictionaries(terms, weights(dtype), max_size=5))


def nested(value: Any, depth: int) -> Any:
    """A value inside of many objects and lists."""
    for level in range(depth):
        value = [value] if level % 2 else {"x": value}
    return value


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([2**63, -(2**63) - 1, 2**64, 10**300, 2**13_999, 2**14_000]),
    st.floats(),
    st.sampled_from([1e308, -0.0, 5e-324, 1e16]),
    words,
    st.sampled_from([np.int8(3), np.uint64(2**64 - 1), np.float32(0.1), np.bool_(True), np.str_("x"), np.float16(1)]),
)
values = st.one_of(
    st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
        max_leaves=6,
    ),
    st.sampled_from([nested(1, 62), nested("x", 63), nested(1, 64), np.arange(3), np.zeros((2, 2)), (1, "a")]),
)
keys = st.one_of(st.sampled_from(["price", "tags", "a.b", "a", ""]), words, words.map(lambda word: word * 400))
metadata = st.none() | st.dictionaries(keys, values, max_size=4)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """A text in which words occur once, or as often as a number of 8 or 16 bits counts, and once more."""
    parts = draw(st.lists(st.tuples(words, st.sampled_from([1, 1, 1, *COUNTS])), max_size=3))
    return " ".join(f"{word} " * count if count > 2 and len(word) < 8 else word for word, count in parts)


def plain(value: Any) -> Any:
    """A value as JSON means it."""
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(one) for one in value]
    return value.item() if isinstance(value, np.generic) else value


# --- a history -------------------------------------------------------------------------------------------------------


def said(collection: Collection, id: Any) -> str:
    """What a document says; no text is an empty one, which it is where others of the part have texts."""
    document = collection.get(id)
    return repr((document.id, tuple(document.text or ("", "")), document.metadata))


def contents(collection: Collection, query: Any) -> list[Any]:
    """Everything that a collection says about its documents, and what a search finds; `repr` tells 1 from 1.0."""
    found: list[Any] = []
    for id in collection.ids():
        vector = collection.vector(id)
        found.append((said(collection, id), collection.row_of(id), vector.indices.tolist(), vector.data.tolist()))
    hits = collection.search(query, k=50)
    return [found, collection.num_terms, hits.ids, hits.scores.tolist()]


#: What a history consists of.
STEPS = ["add", "add", "upsert", "update", "delete", "where", "flush", "failed flush", "commit"]


def no_room(*given: Any, **options: Any) -> None:
    """Write no part, as on a full disk."""
    raise OSError(errno.ENOSPC, "No space left on device")


class History:
    """A collection that is written to, and what it has to hold."""

    keeps_texts = True
    query: Any = {0: 1.0, 1: 2.0, 2: 0.5}  # noqa: RUF012

    def __init__(self, folder: Path, data: st.DataObject) -> None:
        self.folder = folder
        self.data = data
        self.docs: dict[Any, Any] = {}
        durability = data.draw(st.sampled_from(["none", "commit", "batch"]))
        self.collection = Collection.create(folder / "live", durability=durability, num_segments=2, **self.options())
        self.collection.pause_merges()
        self.ids = data.draw(st.sampled_from([names, numbers]))

    def options(self) -> dict[str, Any]:
        """What the collection is created with."""
        return {}

    def documents(self, ids: list[Any]) -> tuple[Any, dict[str, Any]]:
        """Documents, and what is given beside them."""
        num_docs = len(ids)
        beside = {"ids": ids}
        if self.data.draw(st.booleans()):
            beside["metadata"] = self.data.draw(st.lists(metadata, min_size=num_docs, max_size=num_docs))
        if self.data.draw(st.booleans()):
            beside["texts"] = self.data.draw(st.lists(words, min_size=num_docs, max_size=num_docs))
        if self.data.draw(st.booleans()):
            return self.data.draw(matrices(num_docs)), beside
        return [{"vector": self.data.draw(mappings(st.integers(0, 20)))} for _ in range(num_docs)], beside

    def records(self, ids: list[Any]) -> list[dict[str, Any]]:
        """Updates."""
        made = []
        for id in ids:
            change = {"id": id}
            if self.data.draw(st.booleans()):
                change["metadata"] = self.data.draw(metadata)
            if self.data.draw(st.booleans()):
                change["text"] = self.data.draw(texts())
            made.append(change)
        return made

    def step(self) -> None:
        """Write something, or do what a maintainer does."""
        what = self.data.draw(st.sampled_from(STEPS))
        if what == "flush":
            self.collection._open_store.flush({"threads": 1})
            return
        if what == "failed flush":
            with pytest.MonkeyPatch.context() as patch, contextlib.suppress(OSError):
                patch.setattr(store, "write_merged", no_room)
                self.collection._open_store.flush({"threads": 1})
            return
        if what == "commit":
            self.collection.commit()
            return
        before = contents(self.collection, self.query)
        some = st.sampled_from(list(self.docs)) if self.docs and what in ("update", "delete") else self.ids
        several = st.lists(some, min_size=1, max_size=4, unique_by=plain) | st.lists(some, max_size=2)
        ids = self.data.draw(several)
        try:
            self.write(what, ids)
        except SegmaxError:
            assert contents(self.collection, self.query) == before

    def write(self, what: str, ids: list[Any]) -> None:
        """Make a write, and remember it where it was accepted."""
        if what == "delete":
            assert self.collection.delete(ids) == len({plain(id) for id in ids} & self.docs.keys())
            for id in ids:
                self.docs.pop(plain(id), None)
        elif what == "where":
            gone = [id for id, (_, about) in self.docs.items() if about and about.get("price") == 1]
            assert self.collection.delete(where={"price": 1}) >= len(gone)
            self.docs = {id: self.docs[id] for id in self.collection.ids()}
        elif what == "update":
            self.collection.update(self.records(ids), replace_metadata=self.data.draw(st.booleans()))
            for id in ids:
                document = self.collection.get(id)  # what an update makes of it is tested elsewhere
                self.docs[plain(id)] = (document.text, document.metadata)
        else:
            documents, beside = self.documents(ids)
            known = {plain(id) for id in ids}
            put = self.collection.add if what == "add" else self.collection.upsert
            assert put(documents, **beside) == len(known) == len(ids)
            kept = {id: doc for id, doc in self.docs.items() if id not in known}
            records = documents if isinstance(documents, list) else [{}] * len(ids)
            texts = beside.get("texts") or [one.get("text") for one in records]
            about = beside.get("metadata") or [one.get("metadata") for one in records]
            new = zip(ids, records, texts, about, strict=True)
            made = {plain(id): ((one.get("title", ""), text or ""), plain(own)) for id, one, text, own in new}
            self.docs = {**kept, **made}

    def check(self) -> None:
        """Compare the collection with what it has to hold, and with what a crash at this moment leaves."""
        assert list(self.collection.ids()) == list(self.docs)
        for id, (text, about) in self.docs.items():
            document = self.collection.get(id)
            assert repr(document.metadata) == repr(about)
            assert not self.keeps_texts or (document.text or ("", "")) == (text or ("", ""))
        expected = contents(self.collection, self.query)
        crashed = self.folder / "crashed"
        shutil.copytree(self.folder / "live", crashed)
        if self.collection.durability == "batch":
            with Collection.open(crashed, read_only=True) as reader:
                assert contents(reader, self.query) == expected
        with Collection.open(crashed) as again:
            assert contents(again, self.query) == expected
        shutil.rmtree(crashed)

    def check_kept(self) -> None:
        """Compare the collection with its backup, and with itself after all of it went to disk."""
        expected = contents(self.collection, self.query)
        self.collection.backup(self.folder / "backup")
        with Collection.open(self.folder / "backup", read_only=True) as copy:
            assert contents(copy, self.query) == expected
        self.collection._open_store.flush({"threads": 1})
        assert contents(self.collection, self.query) == expected
        self.collection.compact()
        assert [one[0] for one in expected[0]] == [said(self.collection, id) for id in self.collection.ids()]
        expected = contents(self.collection, self.query)
        self.collection.close()
        with Collection.open(self.folder / "live", read_only=True) as again:
            assert contents(again, self.query) == expected


class NamedHistory(History):
    """Terms are words."""

    query: Any = {"copper": 1.0, "wire": 2.0}  # noqa: RUF012

    def options(self) -> dict[str, Any]:
        return {"terms": ["copper", "wire"]}

    def documents(self, ids: list[Any]) -> tuple[Any, dict[str, Any]]:
        made = []
        for id in ids:
            made.append({"id": id, "vector": self.data.draw(mappings(words)), "text": self.data.draw(words)})
            if self.data.draw(st.booleans()):
                made[-1]["metadata"] = self.data.draw(metadata)
        return made, {}


class CountedHistory(NamedHistory):
    """Words are counted."""

    query: Any = "copper wire"

    def options(self) -> dict[str, Any]:
        self.keeps_texts = self.data.draw(st.booleans())
        return {"encoder": "bm25", "keep_texts": self.keeps_texts}

    def documents(self, ids: list[Any]) -> tuple[Any, dict[str, Any]]:
        made = []
        for id in ids:
            made.append({"id": id, "text": self.data.draw(texts()), "title": self.data.draw(words)})
            if self.data.draw(st.booleans()):
                made[-1]["metadata"] = self.data.draw(metadata)
        return made, {}


HISTORIES = [History, NamedHistory, CountedHistory]


def check_history(kind: type[History], data: st.DataObject) -> None:
    """Write to a collection, and look after every write at what a crash would leave."""
    folder = Path(tempfile.mkdtemp())
    try:
        history = kind(folder, data)
        with history.collection:
            for _ in range(data.draw(st.integers(2, 7))):
                history.step()
                history.check()
            history.check_kept()
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("kind", HISTORIES)
@FAST
@given(data=st.data())
def test_what_is_acknowledged_opens_again(kind: type[History], data: st.DataObject) -> None:
    """Whatever is written, the copy that a crash leaves, a backup and the parts on disk hold the same."""
    check_history(kind, data)


@pytest.mark.slow
@pytest.mark.parametrize("kind", HISTORIES)
@SLOW
@given(data=st.data())
def test_what_is_acknowledged_opens_again_in_many_histories(kind: type[History], data: st.DataObject) -> None:
    """The same, many times; the nightly parts draw others every time."""
    check_history(kind, data)
