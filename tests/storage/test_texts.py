"""Texts kept with an index, and showing what matched in them."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import segmax
from conftest import refused
from segmax.base.parallel import Workers
from segmax.errors import FormatError, InputError
from segmax.search.highlighting import highlight
from segmax.storage.texts import StoredText, write_texts
from segmax.vectors.documents import Document
from segmax.vectors.packed_texts import PackedRows, PackedTexts


def some_texts(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Titles and texts of all lengths, some empty, one longer than a block."""
    rng = np.random.default_rng(seed)
    words = ["wave", "guide", "ÄÖÜ", "漢字", "🙂", "line\nbreak", "", '"quotes"', "\x00"]
    texts = [(" ".join(rng.choice(words, n % 3)), " ".join(rng.choice(words, n % 40))) for n in range(count)]
    texts[count // 2] = ("long", "x" * 200_000)
    return texts


def one_hot(count: int) -> sp.csr_matrix:
    """A document per term."""
    return sp.identity(count, format="csr", dtype=np.int64)


@pytest.mark.parametrize("on_disk", [False, True])
def test_texts_come_back(tmp_path: Path, on_disk: bool) -> None:
    """By row, by id and with hits, from memory and from files, and also after saving."""
    texts = some_texts(5000)
    ids = [f"doc{i}" for i in range(5000)]
    path = tmp_path / "index" if on_disk else None
    index = segmax.build(one_hot(5000), ids=ids, texts=texts, path=path)
    assert index.texts is not None
    assert list(index.texts) == texts
    assert index.text("doc77") == StoredText(*texts[77])
    hits = index.search({2500: 1.0})
    assert (hits.ids, hits.texts) == (["doc2500"], [texts[2500]])
    batch = index.search_batch(one_hot(5000)[[3, 9]], k=1)
    assert [hits.texts for hits in batch] == [[texts[3]], [texts[9]]]
    index.save(tmp_path / "copy")
    with segmax.open(tmp_path / "copy", verify=True) as copy:
        assert copy.texts is not None
        assert copy.texts[4999] == texts[4999]


def test_texts_of_every_kind() -> None:
    """Strings, pairs, mappings and documents."""
    texts = ["a", ("b", "c"), {"text": "d"}, {"title": "e", "text": "f"}, Document("id", "g", "h")]
    index = segmax.build(one_hot(5), texts=iter(texts))
    assert index.texts is not None
    assert list(index.texts) == [("", "a"), ("b", "c"), ("", "d"), ("e", "f"), ("g", "h")]


@pytest.mark.parametrize(
    ("texts", "parts"),
    [
        (["a", "b"], {"expected": "3 texts, one per document", "got": "2"}),
        (["a"] * 4, {"expected": "3 texts, one per document", "got": "4"}),
        (["a", 7, "c"], {"expected": "for row 1", "got": "int"}),
        (["a", {"title": "t"}, "c"], {"expected": "for row 1", "got": "dict"}),
        (["a", "b", "\ud800"], {"expected": "texts that UTF-8 can hold", "got": "in document 2"}),
    ],
)
def test_wrong_texts(tmp_path: Path, texts: list[object], parts: dict[str, str]) -> None:
    """The error says what is wrong, and nothing is written."""
    with refused(InputError, **parts):
        segmax.build(one_hot(3), texts=texts, path=tmp_path / "index")
    assert list(tmp_path.iterdir()) == []


def test_an_index_without_texts() -> None:
    """Says so."""
    index = segmax.build(one_hot(3))
    assert index.texts is None
    with refused(InputError, message="keeps no texts", hint="build it with {texts=...}"):
        _ = index.search({0: 1}).texts
    with refused(InputError, message="keeps no texts", hint="build it with {texts=...}"):
        index.text(0)


def test_damaged_texts(tmp_path: Path) -> None:
    """Bytes that are not what was written give FormatError, when a text is read or on verify."""
    segmax.build(one_hot(3), texts=["abc", "def", "ghi"], path=tmp_path / "index").close()
    file = next((tmp_path / "index").glob("text_data.*"))
    content = bytearray(file.read_bytes())
    content[4] ^= 255
    file.write_bytes(content)
    with segmax.open(tmp_path / "index") as index, refused(FormatError, message="stored text"):
        index.text(1)
    with refused(FormatError, message="checksum"):
        segmax.verify(tmp_path / "index")


def test_texts_in_threads() -> None:
    """Many threads read many blocks at once."""
    texts = [("", f"{i} " * 500) for i in range(3000)]
    index = segmax.build(one_hot(3000), texts=texts, config=segmax.BuildConfig(calibrate=False))
    wrong: list[int] = []

    def read(seed: int) -> None:
        for row in np.random.default_rng(seed).integers(0, 3000, 300).tolist():
            if index.text(row) != texts[row]:
                wrong.append(row)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# --- highlighting ----------------------------------------------------------------------------------------------------


def test_highlight_marks_words() -> None:
    """Whole words, whatever their case, by their normal form."""
    text = "Microwaves in a microwave-oven; MICROWAVE."
    assert highlight(text, {"microwave"}) == "Microwaves in a **microwave**-oven; **MICROWAVE**."
    stemmed = highlight(text, {"microwav"}, normal=lambda word: word[:8], marks=("<", ">"))
    assert stemmed == "<Microwaves> in a <microwave>-oven; <MICROWAVE>."
    assert highlight("", {"a"}) == ""


def test_highlight_shows_the_passage_with_most_words() -> None:
    """Of a long text, about `width` characters."""
    text = "alpha " + "filler " * 50 + "alpha beta gamma " + "filler " * 50 + "beta"
    shown = highlight(text, {"alpha", "beta", "gamma"}, width=60)
    assert "**alpha** **beta** **gamma**" in shown
    assert shown.startswith("…")
    assert shown.endswith("…")


@given(st.text(alphabet="ab c.é", max_size=80), st.sets(st.sampled_from(["a", "ab", "bé", "c"])), st.integers(1, 40))
def test_highlight_only_adds_marks(text: str, words: set[str], width: int) -> None:
    """Without its marks it is the text, or a part of it, no longer than asked for but for a word."""
    assert highlight(text, words, marks=("", "")) == text
    shown = highlight(text, words, marks=("", ""), width=width).strip("…")
    assert shown in text
    assert len(shown) <= width


def components(texts: Iterable[object], num_docs: int, workers: Workers | None) -> dict[str, bytes]:
    """What `write_texts` writes."""
    found: dict[str, bytes] = {}

    def append(name: str, array: NDArray[Any]) -> None:
        found[name] = found.get(name, b"") + array.tobytes()

    write_texts(texts, num_docs, append, workers)
    return found


@pytest.mark.parametrize("batch", [1, 7, 5000, 20_000])
def test_batches_and_threads_change_no_block(batch: int) -> None:
    """Blocks end where they end, however texts are packed and whoever compresses them."""
    rng = np.random.default_rng(0)
    lengths = np.where(rng.random(9000) < 0.5, 0, rng.integers(0, 60, 9000))
    lengths[[17, 4000]] = 200_000  # larger than a block
    docs = [Document("", "t" * (row % 3), "é" * int(length)) for row, length in enumerate(lengths)]
    expected = components(docs, len(docs), None)
    packed = [PackedTexts.of_documents(docs[first : first + batch]) for first in range(0, len(docs), batch)]
    with Workers(3) as workers:
        assert components(PackedRows(packed), len(docs), workers) == expected
        assert components(docs, len(docs), workers) == expected


def test_packed_texts_that_cannot_be_stored() -> None:
    """Half a surrogate pair is an error that names the document, and so is a text too few."""
    docs = [Document("", "", "fine"), Document("", "", "\ud800")]
    with refused(InputError, expected="texts that UTF-8 can hold", got=r"'\\ud800' in document 1"):
        components(PackedRows([PackedTexts.of_documents(docs)]), 2, None)
    with refused(InputError, expected="3 texts", got="1"):
        components(PackedRows([PackedTexts.of_documents(docs[:1])]), 3, None)
