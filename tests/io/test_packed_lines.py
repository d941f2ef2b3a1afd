"""Lines of JSON that the core reads are read as Python reads them, and errors are Python's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import segmax
from conftest import examples, refused
from segmax import _core
from segmax.base.errors import InputError
from segmax.io import open_texts
from segmax.vectors.documents import Document
from segmax.vectors.packed_texts import PackedRows, PackedTexts, batches_of

NAMES = ("id", "_id", "docno", "text", "contents", "title", "headline", "vector", "other", "ID", " text", "Title", "é")
TEXT = st.one_of(st.text(max_size=8), st.sampled_from(["", "a\nb", '"\\/', "é", "東京", "😀", "\ud800", "\x7f"]))
VALUE: st.SearchStrategy[Any] = st.one_of(
    TEXT,
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(TEXT, st.none(), max_size=2),
)
RECORD = st.dictionaries(st.sampled_from(NAMES), VALUE, max_size=5)
GOOD = st.fixed_dictionaries({"id": st.text("abé1", min_size=1)}, optional={"title": TEXT, "text": TEXT, "n": VALUE})
LINE = st.one_of(
    st.builds(json.dumps, GOOD, ensure_ascii=st.booleans()),
    st.builds(json.dumps, RECORD, ensure_ascii=st.booleans(), indent=st.just(None)),
    st.sampled_from(["", " ", "[]", "{", '{"id": "a", "text": "b",}', '{"id": "a", "text": "b", "text": "c"}', "\x0c"]),
)


def read(path: Path, *, packed: bool) -> tuple[list[Document], str]:
    """Return the documents of a file, in one way or the other, and the message where they end in an error."""
    found: list[Document] = []
    try:
        texts: Any = open_texts(path, format="jsonl-text")
        for batch in texts.batches() if packed else ([document] for document in texts):
            found += batch
    except InputError as error:
        return [], str(error)
    return [Document(*document) for document in found], ""


@settings(max_examples=examples(120))
@given(lines=st.lists(LINE, max_size=5))
@example(lines=['{"id": 007, "text": "a"}'])
@example(lines=['{"id": -0, "text": "a"}'])
@example(lines=['{"text": "a"}', '{"text": "b"}'])
@example(lines=['{"text": "a", "x": ' + "[" * 3000 + "]" * 3000 + "}"])
@example(lines=['{"text": "a", "x": ' + "1" * 5000 + "}"])
@example(lines=['\ufeff{"text": "a"}', '{"text": "b"}'])
def test_packed_lines_are_those_of_python(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    """The same documents, or the same error."""
    path = tmp_path_factory.mktemp("lines") / "texts.jsonl"
    path.write_bytes("\n".join(lines).encode(errors="surrogatepass"))
    assert read(path, packed=True) == read(path, packed=False)


def test_odd_lines_are_read_among_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Pieces with something odd go through Python, in their place; errors have the right line."""
    monkeypatch.setattr("segmax.io.streams.read_blocks", lambda path: iter(path.read_bytes().splitlines(keepends=True)))
    path = tmp_path / "texts.jsonl"
    lines = [f'{{"id": "d{row}", "text": "text {row}"}}' for row in range(6)]
    lines[2] = '{"Id": "d2", "TEXT": "text 2"}'
    path.write_text("\n".join(lines))
    texts: Any = open_texts(path)
    kinds = [isinstance(batch, PackedTexts) for batch in texts.batches()]
    assert kinds == [True, True, False, True, True, True]
    assert [document.text for batch in texts.batches() for document in batch] == [f"text {row}" for row in range(6)]
    path.write_text("\n".join([*lines, '{"text": "no id"}']))
    with refused(InputError, where="line 7", got="none"):
        list(open_texts(path).batches())  # type: ignore[attr-defined]
    path.write_text("\n".join([*lines, lines[0]]))
    with refused(InputError, where="line 7", got="'d0' again, first at .* line 1"):
        segmax.from_texts(path)


@pytest.mark.parametrize("title", [True, False])
def test_an_index_of_packed_texts_is_that_of_documents(tmp_path: Path, title: bool) -> None:
    """Files and texts in memory give the same index, texts included."""
    records = [
        {"id": str(row), "title": f"Title {row % 7}", "text": f"größe w{row} " * (row % 5)} for row in range(500)
    ]
    path = tmp_path / "texts.jsonl"
    path.write_text("\n".join(map(json.dumps, records)))
    one, two = segmax.from_texts(path, title=title), segmax.from_texts(records, title=title)
    assert one.num_terms == two.num_terms
    assert one.sizes() == two.sizes()
    assert all(one.text(str(row)) == two.text(str(row)) for row in range(500))
    assert one.search("titles größe w3").ids == two.search("titles größe w3").ids


def test_packed_texts_are_a_sequence() -> None:
    """Documents come back as they were, by row and by slice."""
    docs = [Document(str(row), "t" * row, "é\ud800" * row) for row in range(5)]
    packed = PackedTexts.of_documents(docs)
    assert list(packed) == docs
    assert packed[-1] == docs[-1]
    assert packed[1:3] == docs[1:3]
    assert packed.without_titles()[2] == docs[2]._replace(title="")
    assert list(PackedRows([packed, packed])) == 2 * [(doc.title, doc.text) for doc in docs]
    assert list(PackedTexts.of_documents([])) == []
    with pytest.raises(IndexError):
        packed[5]
    assert [len(batch) for batch in batches_of(iter(docs), 2)] == [2, 2, 1]


def test_packed_texts_that_do_not_fit_are_refused() -> None:
    """Lengths beyond the content, and titles without a text."""
    packed = PackedTexts.of_documents([Document("a", "b", "c")])
    for content, lengths in ((packed.content[:1], packed.lengths), (packed.content, packed.lengths[:1])):
        with pytest.raises(ValueError, match="expected"):
            _core.Texts(content, lengths, True)
    with pytest.raises(ValueError, match="expected"):
        _core.Texts(packed.content, packed.lengths * 0, True)
