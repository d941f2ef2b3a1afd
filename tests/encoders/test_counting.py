"""Words that the core counts are those that Python's slow rules find, whatever the text."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from conftest import examples
from segmax import _core
from segmax.base.vocabulary import GrowingVocabulary
from segmax.encoders.bm25 import BM25
from segmax.encoders.characters import characters
from segmax.encoders.counting import Counts, TextCounter
from segmax.encoders.words import WordRules, WordSplitter
from segmax.vectors.documents import Document

RULES = [
    WordRules(("the", "of", "café"), "english", fold_accents=True, cjk_bigrams=True),
    WordRules((), None, fold_accents=True, cjk_bigrams=False),
    WordRules(("the",), "german", fold_accents=False, cjk_bigrams=True),
    WordRules(),
]


def slow_counts(rules: WordRules, texts: Sequence[str]) -> Counts:
    """The twin: one text after the other, one word after the other, in dictionaries."""
    splitter = WordSplitter(rules)
    terms: dict[str, int] = {}
    rows: list[dict[int, int]] = []
    for text in texts:
        row: dict[int, int] = {}
        for stem in splitter.stems(splitter.split(text))[1]:
            column = terms.setdefault(stem, len(terms))
            row[column] = row.get(column, 0) + 1
        rows.append(dict(sorted(row.items())))
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum([len(row) for row in rows], dtype=np.int64)])
    return Counts(
        list(terms),
        indptr,
        np.array([column for row in rows for column in row], dtype=np.int32),
        np.array([count for row in rows for count in row.values()], dtype=np.int32),
    )


def check_same(rules: WordRules, texts: Sequence[str]) -> None:
    """Check that both count the same."""
    found, expected = TextCounter(rules).count(texts), slow_counts(rules, texts)
    assert found.terms == expected.terms
    for one, two in zip(found[1:], expected[1:], strict=True):
        np.testing.assert_array_equal(one, two)
        assert one.dtype == two.dtype


ASCII = st.text(st.characters(max_codepoint=127), max_size=60)
WORDS = st.lists(st.sampled_from(["The", "cats", "cat's", "x", "a_b", "42", "don't", "__", "_", "II", "e.g.", "THE"]))
TRICKY = (
    "aZ09_' .-\0\n<=>≠"
    "éÉßſKİıΣσςŒœ\u0300\u0301\u0316\u0327\u0338\u0345\u200d\u00ad"
    "東京ぁ\u3099がー한글\u1100\u1161\u11a8กุ้งั"
    "😀𝐀𝟘𐐀𐐨\U0002f800\U00020000\u0915\u094d\u0937\u093f\u0928\u093c\u09ac\u09cb\u09be\u09c7"
)
MIXED = st.text(st.one_of(st.sampled_from(TRICKY), st.characters(exclude_categories=["Cs"])), max_size=60)


@pytest.mark.parametrize("rules", RULES)
@settings(max_examples=examples(150))
@given(texts=st.lists(st.one_of(ASCII, WORDS.map(" ".join), MIXED), max_size=8))
@example(texts=[])
@example(texts=["", "a", "_", "x" * 100_000, "\0ab\0", "The the THE", "don't can't", "1 22 333"])
@example(texts=["ΑΣ.Β ΑΣ", "İstanbul", "cafe\u0301 café", "<\u0338bc", "a\ud800bc", "東京x都", "ก\u0e49\u0e38ง"])
def test_the_core_and_python_agree(rules: WordRules, texts: list[str]) -> None:
    """Terms, their order and counts are the same."""
    check_same(rules, texts)


@pytest.mark.parametrize("every", [19, pytest.param(1, marks=pytest.mark.deep)])
@pytest.mark.parametrize("rules", RULES)
def test_every_character_is_as_python_has_it(rules: WordRules, every: int) -> None:
    """Every character of the table, and some beyond: inside a word, between words, behind other letters, and twice."""
    check_same(rules, [f"ab{c}cd {c} é{c} x{c}{c} 東{c}" for c in map(chr, range(0, 0x20100, every))])


def test_most_texts_are_not_hard() -> None:
    """Python splits only what it has to: accents behind letters, and letters whose case depends on others."""
    table = characters(pairs=True)
    texts = ["plain", "naïve café", "東京都", "서울", "กุ้ง", "Привет мир", "😀 smile", "e\u0301", "ΟΔΟΣ", "οδός", "नमस्ते"]
    hard = _core.Texts(texts).hard(table).tolist()
    assert [texts[row] for row in hard] == ["e\u0301", "ΟΔΟΣ"]
    assert _core.Texts(texts).hard(None).tolist() == list(range(1, len(texts)))
    assert unicodedata.is_normalized("NFC", "กุ้ง")


def test_hard_texts_keep_their_place() -> None:
    """Terms get numbers in the order of texts, whoever splits them."""
    docs = [Document(str(row), "Title", text) for row, text in enumerate(["one two", "e\u0301e two", "three ΑΣ one"])]
    bm25 = BM25(language=None)
    rows = [batch.vectors for batch in bm25.count_documents([docs])]
    assert bm25.vocabulary == ["title", "one", "two", "ee", "three", "ας"]
    assert rows[0].indices.tolist() == [0, 1, 2, 0, 2, 3, 0, 1, 4, 5]


def test_what_became_of_words_is_remembered() -> None:
    """A word is stemmed once; later texts find its column, and those of other words."""
    counter = TextCounter(RULES[0])
    known, terms = _core.WordColumns(), GrowingVocabulary()
    for texts, expected in ((["The cats"], [0]), (["a cat of cats dogs"], [0, 1]), (["the cats"], [0])):
        rows = counter.place(counter.split(_core.Texts(texts), texts.__getitem__), known, terms)
        assert rows.indices.tolist() == expected
    assert terms.terms == ["cat", "dog"]


def test_invalid_calls_are_refused() -> None:
    """Arrays that do not fit are errors, not accidents."""
    texts = _core.Texts(["one two"])
    counts = texts.count(None, np.zeros(0, np.uint32), b"")
    for call in (
        lambda: _core.Texts(["a", "b", "c"], 2),
        lambda: _core.Texts(["a"], 0),
        lambda: counts.words(np.array([2], np.uint32)),
        lambda: counts.by_column(np.zeros(1, np.int32)),
        lambda: _core.WordColumns().add(counts, np.zeros(1, np.uint32), np.zeros(2, np.int32)),
        lambda: _core.WordColumns().add(counts, np.array([9], np.uint32), np.zeros(1, np.int32)),
        lambda: _core.Characters(np.zeros(2, np.uint8), np.zeros(1, np.uint32), np.zeros(2, np.uint8)),
        lambda: _core.Characters(np.full(1, 9, np.uint8), np.zeros(1, np.uint32), np.zeros(1, np.uint8)),
        lambda: _core.Texts(["é"]).count(None, np.zeros(0, np.uint32), b""),
        lambda: _core.Texts(["é"]).count(None, np.zeros(1, np.uint32), b"one\ntwo"),
    ):
        with pytest.raises(ValueError, match="expected"):
            call()
    with pytest.raises(TypeError):
        _core.Texts([1])
