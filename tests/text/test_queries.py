"""Queries on their way into a search: encoded once, and matched with the vocabulary of the index by word."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import segmax
from segmax.cli.main import main
from segmax.encoders.bm25 import BM25
from segmax.io import write_vectors
from segmax.text.queries import EncodedQueries, encode_queries_for, read_encoded_queries
from segmax.vectors.csr import Csr, matrix_to_csr
from segmax.vectors.documents import VectorBatch

WORDS = ["red", "green", "blue"]


@pytest.fixture
def index() -> segmax.Index:
    """Two documents over three words."""
    return segmax.build(sp.csr_matrix([[3, 0, 2], [1, 4, 0]]), terms=WORDS)


def written(path: Path, rows: list[list[float]], terms: list[str] | None) -> Path:
    """Write queries as a file of vectors."""
    matrix = sp.csr_matrix(np.array(rows))
    write_vectors(path, [VectorBatch([f"q{n}" for n in range(len(rows))], matrix_to_csr(matrix))], terms=terms)
    return path


def test_columns_of_a_file_are_matched_by_word(tmp_path: Path, index: segmax.Index) -> None:
    """In any order, with words that the index does not have, a search finds what mappings of words find."""
    path = written(tmp_path / "q.npz", [[1, 0, 2, 0], [0, 5, 0, 0], [0, 0, 0, 3]], ["blue", "pink", "red", "teal"])
    queries = read_encoded_queries(path, index)
    assert queries.ids == ["q0", "q1", "q2"]
    assert queries.texts is None
    assert sp.issparse(queries.vectors)
    found = index.search_batch(queries.vectors)
    by_word = index.search_batch([{"blue": 1, "red": 2}, {"pink": 5}, {"teal": 3}])
    assert found.ids == by_word.ids
    assert found.scores.tolist() == by_word.scores.tolist()
    assert found.stats.unknown_terms.tolist() == by_word.stats.unknown_terms.tolist() == [0, 1, 1]


def test_columns_stay_as_they_are_without_words(tmp_path: Path, index: segmax.Index) -> None:
    """If the file or the index has no words, columns are numbers."""
    path = written(tmp_path / "q.npz", [[0, 0, 2]], None)
    assert read_encoded_queries(path, index).vectors.toarray().tolist() == [[0, 0, 2]]
    named = written(tmp_path / "named.npz", [[0, 2]], ["blue", "red"])
    wordless = segmax.build(sp.csr_matrix([[3, 0, 2]]))
    assert read_encoded_queries(named, wordless).vectors.toarray().tolist() == [[0, 2]]


def test_texts_and_numbers_of_terms_come_along(index: segmax.Index) -> None:
    """What the shell needs to report about queries that find nothing."""
    texts = segmax.from_texts(["red apples", "green pears"])
    queries = encode_queries_for({"a": "apples", "b": "unheard"}, texts)
    assert (queries.texts, queries.num_terms(0), queries.num_terms(1)) == (["apples", "unheard"], 1, 0)
    assert queries.only([1]).texts == ["unheard"]
    assert encode_queries_for(EncodedQueries(["q"], [{"red": 1}]), index).num_terms(0) == 1


def test_the_shell_encodes_a_text_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """`segmax search -q` shows the words of the query and searches by the same vector."""
    segmax.from_texts(["red apples", "green pears"], path=tmp_path / "docs.segmax")
    encoded: list[str] = []
    encode = BM25.query_rows

    def counting(self: BM25, batch: Sequence[str]) -> Csr:
        encoded.extend(batch)
        return encode(self, batch)

    monkeypatch.setattr(BM25, "query_rows", counting)
    main(["search", str(tmp_path / "docs.segmax"), "-q", "apples"])
    assert encoded == ["apples"]
    assert "red apples" in capsys.readouterr().out


def test_a_file_of_queries_is_recognized_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever recognizes it passes the format on."""
    from segmax.io import recognize as recognizing
    from segmax.io import vectors
    from segmax.text import queries

    docs = sp.csr_matrix([[1.0, 0.0], [0.0, 2.0]])
    sp.save_npz(tmp_path / "queries.npz", docs)
    seen: list[Path] = []

    def counted(path: Path) -> str | None:
        seen.append(path)
        return recognizing.recognize(path)

    monkeypatch.setattr(queries, "recognize", counted)
    monkeypatch.setattr(vectors, "recognize", counted)
    found = read_encoded_queries(tmp_path / "queries.npz", segmax.build(docs))
    assert (len(found), len(seen)) == (2, 1)
