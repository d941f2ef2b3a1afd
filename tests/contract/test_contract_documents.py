"""What is told about documents: texts, metadata, rows, scores and vectors, with results and by themselves."""

from __future__ import annotations

import numpy as np
import pytest

from segmax.errors import InputError, UnknownIdError

from .corpora import WORDS, Query
from .kinds import CHANGED, KINDS, Opened, over, ranking

QUERY: Query = {0: 2.0, 1: 1.0, 5: 3.0}
#: An index has five, shards have seven together, and parts of a collection three, but one that has one document.
NUM_CLUSTERS = {
    **dict.fromkeys(KINDS, 5),
    **dict.fromkeys(("shards", "client of shards", "ray"), 7),
    "collection of one part": 3,
    **dict.fromkeys(CHANGED, 3 + 3 + 3 + 1),
}


@over("docs", "search")
def test_results_come_with_titles_and_texts(opened: Opened) -> None:
    """Those of the documents that were found, in the same order."""
    corpus = opened.corpus
    assert corpus.titles is not None
    assert corpus.texts is not None
    rows = corpus.ranked(QUERY)[2:9]
    options = {"fields": ["text", "title"]} if "fields" in opened.can else {}
    found = opened.source.search(QUERY, k=7, offset=2, **options)
    assert found.titles == [corpus.titles[row] for row in rows]
    assert list(map(tuple, found.texts)) == [(corpus.titles[row], corpus.texts[row]) for row in rows]


@over("docs", "search")
def test_results_come_with_metadata(opened: Opened) -> None:
    """Those of the documents that were found, as they were given."""
    corpus = opened.corpus
    assert corpus.metadata is not None
    rows = corpus.ranked(QUERY, {"lang": "en"})[1:]
    options = {"fields": ["metadata"]} if "fields" in opened.can else {}
    found = opened.source.search(QUERY, k=60, offset=1, where={"lang": "en"}, **options)
    assert found.metadata == [corpus.metadata[row] for row in rows]


@over("docs", "python")
def test_texts_and_metadata_are_fetched_later(opened: Opened) -> None:
    """Where they were not asked for; every result of a batch and of a group has them, too."""
    corpus = opened.corpus
    assert corpus.metadata is not None
    assert corpus.texts is not None
    [one], groups = opened.source.search_batch([QUERY], k=5), opened.source.search(QUERY, k=2, group_by="lang")
    if opened.is_refused("texts later"):
        with opened.as_designed("texts later"):
            _ = one.texts
        with opened.as_designed("metadata later"):
            _ = one.metadata
        return
    for hits in (one, *(group.hits for group in groups)):
        rows = [corpus.ids.index(id) for id in hits.ids]
        assert [text for _, text in hits.texts] == [corpus.texts[row] for row in rows]
        assert hits.metadata == [corpus.metadata[row] for row in rows]
        assert hits.has_texts
        assert hits.has_metadata


@over("docs", "everything")
def test_every_document_has_its_text_and_its_metadata(opened: Opened) -> None:
    """By its id, whatever characters that has; the first and the last row, and one without words, are no exceptions."""
    corpus = opened.corpus
    assert corpus.titles is not None
    assert corpus.texts is not None
    assert corpus.metadata is not None
    for row in (0, 4, 5, 7, 12, 27, 35, 40, corpus.num_docs - 1):
        assert tuple(opened.source.text(corpus.ids[row])) == (corpus.titles[row], corpus.texts[row]), row
        assert opened.source.metadata(corpus.ids[row]) == corpus.metadata[row], row


@over("docs", "everything")
def test_rows_and_ids_belong_together(opened: Opened) -> None:
    """The row of an id, and the id of a row, from the first to the last document."""
    for row in (0, 1, 7, 27, 35, opened.corpus.num_docs - 1):
        assert opened.source.row_of(opened.corpus.ids[row]) == opened.rows[row]
        assert opened.source.id_of(opened.rows[row]) == opened.corpus.ids[row]


@over("numbers", "everything")
def test_an_id_may_be_the_number_0(opened: Opened) -> None:
    """Ids that are numbers are not rows: 0 is the id of a row other than 0, and some ids are negative."""
    for row in (0, opened.corpus.ids.index(0), opened.corpus.ids.index(-20)):
        id = opened.corpus.ids[row]
        assert opened.source.row_of(id) == opened.rows[row]
        assert opened.source.id_of(opened.rows[row]) == id
        assert opened.source.score(QUERY, [id]).tolist() == [opened.corpus.score(row, QUERY)]
        assert opened.source.explain(QUERY, id).id == id


@over("docs", "waiting")
def test_texts_are_stored_by_row(opened: Opened) -> None:
    """The text of the first row, of the last and of some between; a row that is not there is an error."""
    corpus = opened.corpus
    assert corpus.titles is not None
    assert corpus.texts is not None
    texts = opened.source.texts
    assert len(texts) == corpus.num_docs
    for row in (0, 4, 7, corpus.num_docs - 1):
        assert tuple(texts[opened.rows[row]]) == (corpus.titles[row], corpus.texts[row])
    with pytest.raises(IndexError):
        texts[10_000]


@over("numbers", "python")
def test_documents_without_texts_have_none(opened: Opened) -> None:
    """Asking for one, with results or by an id, says so."""
    found = opened.source.search(QUERY, k=3)
    assert not found.has_texts
    for ask in (lambda: opened.source.text(0), lambda: found.texts):
        with opened.refuses(InputError, message="text"):
            ask()


@over("docs", "everything")
def test_scores_of_given_documents(opened: Opened) -> None:
    """In the order of the ids, 0 where no term is shared, and again for an id that comes again."""
    rows = [33, 0, 4, 59, 0, 27]
    for query in (QUERY, {}, {23: 1.0}):
        found = opened.source.score(query, [opened.corpus.ids[row] for row in rows])
        assert found.tolist() == [opened.corpus.score(row, query) for row in rows], query
    assert opened.source.score(QUERY, []).tolist() == []


@over("numbers", "everything")
def test_vectors_are_those_that_came(opened: Opened) -> None:
    """In the order of the ids, one by one and many at once."""
    rows = [30, 0, 12, 59, 0, opened.corpus.ids.index(0)]
    expected = np.array(opened.corpus.weights)[rows]
    found = opened.source.vectors([opened.corpus.ids[row] for row in rows])
    assert found.toarray().tolist() == expected.tolist()
    assert opened.source.vector(opened.corpus.ids[12]).toarray().tolist() == [expected[2].tolist()]
    assert opened.source.vectors([]).shape == (0, 20)


@over("docs", "python")
def test_it_knows_how_large_it_is(opened: Opened) -> None:
    """Its documents, its terms and what its ids are; of a collection, the living documents, but clusters of all."""
    dead = 5 if opened.kind in CHANGED else 0  # three were deleted, one was replaced and one was changed
    assert opened.source.num_docs == opened.corpus.num_docs
    assert opened.source.num_terms == len(WORDS)
    assert opened.source.id_kind is str
    sizes = opened.source.cluster_sizes()
    assert opened.source.num_clusters == len(sizes) == NUM_CLUSTERS[opened.kind]
    assert sum(sizes.tolist()) == opened.corpus.num_docs + dead


@over("docs", "waiting")
def test_words_have_numbers(opened: Opened) -> None:
    """Every word, the first and the last among them, is found by its number and by itself."""
    assert len(opened.source.terms) == len(WORDS)
    assert len(opened.source) == opened.corpus.num_docs
    for number in (0, 7, len(WORDS) - 1):
        assert opened.source.terms[number] == WORDS[number]
        assert opened.source.terms.find(WORDS[number]) == number
    assert opened.source.terms.find("unheard") is None


@over("docs", "get")
def test_collections_return_whole_documents(opened: Opened) -> None:
    """One for an id, a list for several, also for none."""
    corpus = opened.corpus
    assert corpus.titles is not None
    assert corpus.texts is not None
    assert corpus.metadata is not None
    rows = [7, 0, 59]
    found = [(one.id, tuple(one.text), one.metadata) for one in opened.source.get([corpus.ids[row] for row in rows])]
    assert found == [(corpus.ids[r], (corpus.titles[r], corpus.texts[r]), corpus.metadata[r]) for r in rows]
    assert opened.source.get(corpus.ids[0]).id == corpus.ids[0]
    assert opened.source.get([]) == []


@over("docs", "get")
def test_what_was_deleted_is_gone(opened: Opened) -> None:
    """Its id is unknown, its number is nobody's, and no search returns it."""
    gone = set(range(max(opened.rows))) - set(opened.rows)
    for number in gone:
        with opened.refuses(UnknownIdError):
            opened.source.id_of(number)
    assert bool(gone) == (opened.kind in CHANGED)
    for id in ("other 0", "other 1", "other 2"):
        with opened.refuses(UnknownIdError):
            opened.source.row_of(id)
    assert {id for id, _ in ranking(opened.source.search(QUERY, k=1_000))} <= set(opened.corpus.ids)
