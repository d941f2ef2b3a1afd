"""BM25 gives what bm25s gives, streams, and can be kept."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import segmax
from conftest import refused
from segmax.base.errors import ConfigError, FormatError, InputError, MissingPackageError, SegmaxError
from segmax.base.scratch import ScratchFile
from segmax.cli.main import main
from segmax.encoders import bm25 as module
from segmax.encoders import load_encoder
from segmax.encoders.base import Encoder
from segmax.encoders.bm25 import BM25
from segmax.encoders.bm25_weights import METHODS
from segmax.encoders.stop_words import stop_word_lists
from segmax.vectors.documents import Document

bm25s = pytest.importorskip("bm25s")
Stemmer = pytest.importorskip("Stemmer")

TEXTS = (
    "The cats sleep, and a cat sleeps.",
    "",
    "Dogs chase cats; cats run. Running dogs!",
    "the and of",
    "Öl für Motoren naïve 東京 東京 x y",
)


def documents(texts: Sequence[str]) -> list[Document]:
    """Documents without titles."""
    return [Document(f"d{number}", "", text) for number, text in enumerate(texts)]


def encoded(encoder: BM25, docs: list[Document], batch: int = 1000) -> tuple[list[str], sp.csr_matrix]:
    """All ids and all vectors."""
    parts = [docs[i : i + batch] for i in range(0, len(docs), batch)]
    encoder.fit(parts)
    batches = list(encoder.encode_documents(parts))
    ids = [doc_id for part in batches for doc_id in part.ids]
    return ids, sp.csr_matrix(sp.vstack([part.matrix() for part in batches]))


def vaswani_texts(name: str) -> list[str]:
    """The documents, or queries, that ship with the project."""
    packed = (Path(segmax.__file__).parent / "demo" / "data" / name).read_bytes()
    return [json.loads(line)["text"] for line in gzip.decompress(packed).splitlines()]


def reference(texts: list[str], queries: list[str], method: str) -> np.ndarray:
    """What bm25s itself scores, but for what it gives documents for words they do not have: queries × documents."""
    stemmer = Stemmer.Stemmer("english")
    model = bm25s.BM25(method=method)
    model.index(bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False), show_progress=False)
    words = bm25s.tokenize(queries, stopwords="en", stemmer=stemmer, return_ids=False, show_progress=False)
    model.nonoccurrence_array = None
    return np.stack([model.get_scores(query) if query else np.zeros(len(texts), np.float32) for query in words])


@pytest.fixture(scope="module")
def vaswani() -> tuple[list[str], list[str]]:
    """Documents and queries."""
    return vaswani_texts("corpus.jsonl.gz"), vaswani_texts("queries.jsonl.gz")


@pytest.mark.parametrize("method", METHODS)
def test_scores_are_those_of_bm25s(vaswani: tuple[list[str], list[str]], method: str) -> None:
    """On a real collection, for every formula, every score of every query agrees to float precision."""
    texts, queries = vaswani
    if method != "lucene":
        texts, queries = texts[:1000], queries[:20]
    encoder = BM25(method=method)
    ids, weights = encoded(encoder, documents(texts))
    assert ids == [f"d{number}" for number in range(len(texts))]
    scores = (encoder.encode_queries(queries) @ weights.T).toarray()
    np.testing.assert_allclose(scores, reference(texts, queries, method), rtol=2e-6, atol=2e-6)


def test_parameters_are_used() -> None:
    """k1, b, stop words and stemming change what bm25s changes."""
    texts = [text for text in TEXTS if text]
    model = bm25s.BM25(k1=0.9, b=0.4)
    tokens = bm25s.tokenize(texts, stopwords=["cat"], stemmer=None, show_progress=False)
    model.index(tokens, show_progress=False)
    encoder = BM25(k1=0.9, b=0.4, stopwords=["cat"], language=None, fold_accents=False)
    _, weights = encoded(encoder, documents(texts))
    assert encoder.vocabulary == list(tokens.vocab)[: len(encoder.vocabulary)]
    expected = np.stack([model.get_scores([word]) for word in encoder.vocabulary]).T
    np.testing.assert_allclose(weights.toarray(), expected, rtol=1e-6)
    german = BM25(stopwords="german", language="german")
    encoded(german, [Document("a", "", "Die Häuser und die Motoren")])
    assert german.vocabulary == Stemmer.Stemmer("german").stemWords(["häuser", "motoren"])


def test_empty_documents_and_unknown_words() -> None:
    """Documents and queries without words are empty rows; words that no document has are left out."""
    encoder = BM25()
    _, weights = encoded(encoder, documents(TEXTS))
    assert np.diff(weights.indptr).tolist()[1::2] == [0, 0]
    queries = encoder.encode_queries(["", "cats CAT zebra", "東京"])
    assert queries.shape == (3, len(encoder.vocabulary))
    assert queries.toarray().sum(axis=1).tolist() == [0, 2, 1]
    assert queries[1, encoder.vocabulary.index("cat")] == 2
    assert list(encoder.encode_documents([])) == []
    assert list(encoder.encode_documents([[]])) == []
    ids, nothing = encoded(BM25(), documents(["", "the"]))
    assert (ids, nothing.shape) == (["d0", "d1"], (2, 0))


def test_one_pass_is_fit_and_encode(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """fit_encode has counted all documents when it returns; it yields what fit and encode_documents yield."""
    monkeypatch.setattr(module, "_PIECE_DOCS", 2)
    docs = documents(["cats sleep", "", "dogs chase cats", "rain", "more rain"])
    counts: list[int] = []
    encoder = BM25()
    weights = encoder.fit_encode(iter([docs]), tmp_path, counts.append)
    assert (counts, encoder.num_docs) == ([2, 2, 1], 5)
    found = sp.vstack([batch.matrix() for batch in weights])
    assert abs(found - encoded(BM25(), docs)[1]).max() == 0


def test_a_vocabulary_that_is_empty_is_one() -> None:
    """Queries over it have no words; BM25 with neither documents nor a vocabulary refuses queries."""
    assert BM25.of_vocabulary([]).encode_queries(["cats"]).shape == (1, 0)
    with refused(InputError, expected="a BM25 that has learned", got="learned from none", hint="fit it"):
        BM25().encode_queries(["cats"])


def test_titles_count() -> None:
    """A title is a part of the text."""
    first, second = BM25(), BM25()
    _, with_title = encoded(first, [Document("a", "Big cats", "sleep"), Document("b", "", "x")])
    _, in_text = encoded(second, [Document("a", "", "Big cats sleep"), Document("b", "", "x")])
    assert first.vocabulary == second.vocabulary
    assert (with_title != in_text).nnz == 0


def test_batches_and_threads_change_nothing(
    vaswani: tuple[list[str], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result is the same to the last bit, however documents are batched and wherever their words are counted."""
    docs = documents(vaswani[0][:3000])
    alone = BM25(workers=1)
    ids, weights = encoded(alone, docs)
    monkeypatch.setattr(module, "_ALONE_DOCS", 100)
    monkeypatch.setattr(module, "_PIECE_DOCS", 300)
    for workers, batch in ((2, 7), (3, 5000)):
        helped = BM25(workers=workers)
        other_ids, other = encoded(helped, docs, batch)
        assert other_ids == ids
        assert helped.vocabulary == alone.vocabulary
        assert (other != weights).nnz == 0
        assert (other.indices == weights.indices).all()


def test_abandoned_streams_leave_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who stops half-way leaves no thread behind."""
    monkeypatch.setattr(module, "_ALONE_DOCS", 1)
    monkeypatch.setattr(module, "_PIECE_DOCS", 1)
    before = threading.active_count()
    stream = BM25(workers=2).count_documents([documents([f"word{i}" for i in range(50)])])
    assert [next(stream).ids for _ in range(3)] == [["d0"], ["d1"], ["d2"]]
    assert threading.active_count() > before
    stream.close()
    assert threading.active_count() == before


def test_saved_and_loaded(tmp_path: Path, vaswani: tuple[list[str], list[str]]) -> None:
    """What was learned survives: vocabulary, queries, and weights of further documents."""
    texts, queries = vaswani
    docs = documents(texts[:500])
    encoder = BM25(k1=1.2, b=0.5, method="bm25+", stopwords=("the", "of"))
    _, weights = encoded(encoder, docs)
    encoder.save(tmp_path / "saved")
    assert sorted(file.name for file in (tmp_path / "saved").iterdir()) == ["bm25.json"]
    loaded = BM25.load(tmp_path / "saved")
    assert repr(loaded) == repr(encoder)
    assert loaded.to_dict() == encoder.to_dict()
    assert (loaded.encode_queries(queries) != encoder.encode_queries(queries)).nnz == 0
    again = sp.vstack([batch.matrix() for batch in loaded.encode_documents([docs])])
    assert (again != weights).nnz == 0
    (more,) = loaded.encode_documents([[Document("n", "", "unheardof transistor")]])
    assert more.matrix().shape == (1, len(loaded.vocabulary))
    assert more.matrix().nnz == 1
    assert isinstance(loaded, Encoder)


def test_damaged_and_missing_files(tmp_path: Path) -> None:
    """A folder without a BM25, a damaged one and one of a newer version give different errors."""
    with refused(InputError, where=r"bm25\.json", expected="a file that BM25.save wrote", got="no file"):
        BM25.load(tmp_path)
    encoder = BM25()
    encoded(encoder, documents(TEXTS))
    encoder.save(tmp_path)
    content = json.loads((tmp_path / "bm25.json").read_text())
    damaged = {"expected": "a BM25 of segmax", "got": "a damaged file, or another one"}
    for change, parts in (
        ({"version": 2}, {"expected": "version 1", "got": "version 2", "hint": "pip install -U segmax"}),
        ({"terms": ["one"]}, damaged),
        ({"parameters": {"k2": 1}}, damaged),
    ):
        (tmp_path / "bm25.json").write_text(json.dumps({**content, **change}))
        with refused(FormatError, where=r"bm25\.json", **parts):
            BM25.load(tmp_path)
    (tmp_path / "bm25.json").write_text("{")
    with refused(FormatError, **damaged):
        BM25.load(tmp_path)


def test_every_value_of_a_saved_one_is_checked(tmp_path: Path) -> None:
    """Every entry with invalid values: it loads and counts, or an error of ours names the file."""
    encoder = BM25()
    encoded(encoder, documents(TEXTS))
    encoder.save(tmp_path)
    file = tmp_path / "bm25.json"
    content = json.loads(file.read_text())
    wrong = (
        None,
        True,
        -1,
        0,
        1e308,
        2**70,
        10**400,
        float("nan"),
        float("inf"),
        "",
        "x",
        [],
        [1],
        ["a"],
        {},
        {"a": 1},
    )
    changes = [{key: value} for key in content for value in (*wrong, content["terms"][:-1] * 2)]
    changes += [
        {"parameters": {**content["parameters"], key: value}} for key in content["parameters"] for value in wrong
    ]
    changes += [{"parameters": {**content["parameters"], key: 1}} for key in ("scratch", "workers", "self")]
    for change in changes:
        file.write_text(json.dumps({**content, **change}))
        assert loads_or_names(tmp_path), change
    for raw in (b"", b"{", b"\xff\xfe", b"[" * 100_000, b"[]", b"5", b"null", b'{"format": ' * 50_000):
        file.write_bytes(raw)
        with refused(SegmaxError, where=r"bm25\.json"):
            load_encoder(tmp_path)


def loads_or_names(folder: Path) -> bool:
    """Whether a saved BM25 works, or is refused by a message that names its file."""
    try:
        loaded = BM25.load(folder, workers=1)
        loaded.encode_queries(["cats chase"])
        list(loaded.encode_documents([documents(TEXTS)]))
    except SegmaxError as error:
        return "bm25.json" in error.where or error.got == "one that has learned from none"
    return True


def test_unreadable_files_are_input_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory, a pipe or a forbidden file in the place of the saved one."""
    for name, put in (("folder", Path.mkdir), ("pipe", os.mkfifo)):
        (tmp_path / name).mkdir()
        put(tmp_path / name / "bm25.json")  # type: ignore[operator]
        with refused(InputError, where=r"bm25\.json", expected="a regular file"):
            BM25.load(tmp_path / name)
    BM25().save(tmp_path)

    def forbidden(path: Path, *_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_text", forbidden)
    with refused(InputError, where=r"bm25\.json", message=r"could not be read \(Permission denied\)"):
        BM25.load(tmp_path)


# --- accents and scripts ---------------------------------------------------------------------------------------------


def found(texts: Sequence[str], query: str, **options: object) -> list[int]:
    """The rows of the texts that have a word of the query."""
    encoder = BM25(**options)  # type: ignore[arg-type]
    _, weights = encoded(encoder, documents(texts))
    return sorted(set((weights @ encoder.encode_queries([query]).T).nonzero()[0].tolist()))


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Un café à Paris", "cafe"),
        ("a cafe in Paris", "CAFÉ"),
        ("cafe\u0301s", "café"),
        ("the résumés", "resume"),
        ("naïve", "naive"),
        ("Łódź", "lodz"),
        ("Straße", "strasse"),
        ("Ærø", "aero"),
        ("İstanbul", "istanbul"),
        ("καφές", "καφες"),
        ("ёлка", "елка"),
        ("ﬁnance", "finance"),
    ],
)
def test_accents_are_folded(text: str, query: str) -> None:
    """With and without accents, composed or not, words are the same, in both directions."""
    assert found([text, "other"], query) == [0]
    assert found([query, "other"], text) == [0]
    assert found([text, "other"], query, fold_accents=False, cjk_bigrams=False) == []


def test_folding_leaves_other_scripts_alone() -> None:
    """Letters of their own, marks of other scripts, and languages whose stemmers want accents."""
    assert found(["мой"], "мои") == []
    assert found(["かき が"], "がき", language=None) == []
    assert found(["schön"], "schon", language="swedish", stopwords=None) == []
    assert found(["schön"], "schon", language="swedish", stopwords=None, fold_accents=True) == [0]
    assert not BM25(language="french").fold_accents
    assert BM25(language=None).fold_accents
    assert found(["été"], "ete", language="french", stopwords=["été"], fold_accents=True) == []


def test_text_without_accents_is_as_ever(vaswani: tuple[list[str], list[str]]) -> None:
    """Neither option changes a bit of English text."""
    docs = documents(vaswani[0][:2000])
    plain, new = BM25(fold_accents=False, cjk_bigrams=False), BM25()
    _, before = encoded(plain, docs)
    _, after = encoded(new, docs)
    assert plain.vocabulary == new.vocabulary
    assert (before != after).nnz == 0


def test_pairs_of_characters() -> None:
    """Chinese, Japanese, Korean and Thai are found by parts of what stands without blanks; other words are as ever."""
    texts = ["東京都に住んでいます", "서울에서 살아요", "กรุงเทพมหานคร", "iPhone手機 and more", "猫"]
    for query, rows in (
        ("東京", [0]),
        ("京都", [0]),
        ("서울", [1]),
        ("กรุงเทพ", [2]),
        ("手機", [3]),
        ("iphone", [3]),
        ("猫", [4]),
    ):
        assert found(texts, query) == rows
    assert found(texts, "東京", cjk_bigrams=False) == []
    assert found(texts, "東京都に住んでいます", cjk_bigrams=False) == [0]


def test_files_of_earlier_versions_behave_as_before(tmp_path: Path) -> None:
    """Files and indexes that know nothing of the options have neither."""
    encoder = BM25(fold_accents=False, cjk_bigrams=False)
    encoded(encoder, documents(["café 東京都"]))
    encoder.save(tmp_path)
    content = json.loads((tmp_path / "bm25.json").read_text())
    del content["parameters"]["fold_accents"], content["parameters"]["cjk_bigrams"]
    (tmp_path / "bm25.json").write_text(json.dumps(content))
    loaded = BM25.load(tmp_path)
    assert loaded.options() == encoder.options()
    assert loaded.encode_queries(["cafe", "café", "東京", "東京都"]).toarray().sum(axis=1).tolist() == [0, 1, 0, 1]
    index = segmax.from_texts(["café 東京都"], encoder=encoder, progress=False)
    del index._meta["encoder"]["fold_accents"], index._meta["encoder"]["cjk_bigrams"]
    assert [index.search(query).ids for query in ("cafe", "café", "東京", "東京都")] == [[], ["0"], [], ["0"]]


@pytest.mark.parametrize(
    ("text", "query", "marked"),
    [
        ("Un café à Paris", "cafe", "Un **café** à Paris"),
        ("two cafe\u0301s", "café", "two **cafe\u0301s**"),
        ("東京都に住む", "京都", "東**京都**に住む"),
        ("東京都に住む", "東京都", "**東京都**に住む"),
        ("the cats sleep", "cat", "the **cats** sleep"),
    ],
)
def test_highlights_mark_the_words_found(text: str, query: str, marked: str) -> None:
    """Words are marked as they stand in the text, pairs of characters as one stretch."""
    index = segmax.from_texts([text], progress=False)
    encoder = index.encoder
    words = {encoder.vocabulary[column] for column in encoder.encode_queries([query]).indices}
    assert segmax.highlight(text, words, split=encoder.occurrences) == marked  # type: ignore[attr-defined]


def test_scratch_of_the_build_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Word counts wait where the build's scratch files do, on the command line as well."""
    places: list[Path] = []
    begin = ScratchFile.__init__

    def watched(self: ScratchFile, folder: Path) -> None:
        places.append(folder)
        begin(self, folder)

    monkeypatch.setattr(ScratchFile, "__init__", watched)
    segmax.from_texts(["cats sleep"], scratch=tmp_path, progress=False)
    (tmp_path / "docs.txt").write_text("1\tcats sleep\n2\tdogs run\n")
    (tmp_path / "docs.jsonl").write_text('{"_id": "1", "text": "cats sleep"}\n')
    flags = ["--scratch", str(tmp_path)]
    assert main(["index", str(tmp_path / "docs.jsonl"), str(tmp_path / "out"), *flags]) == 0
    assert places
    assert set(places) == {tmp_path}
    with refused(ConfigError, option="^scratch$", expected="an existing directory"):
        segmax.from_texts(["cats sleep"], scratch=tmp_path / "none", progress=False)


def test_options_on_the_command_line(tmp_path: Path) -> None:
    """--fold-accents and --cjk-bigrams reach the encoder."""
    (tmp_path / "docs.jsonl").write_text('{"_id": "1", "text": "café 東京都"}\n')
    flags = ["--fold-accents", "off", "--cjk-bigrams", "off"]
    assert main(["index", str(tmp_path / "docs.jsonl"), str(tmp_path / "out"), *flags]) == 0
    with segmax.open(tmp_path / "out") as index:
        assert [index.search(query).ids for query in ("cafe", "café", "東京")] == [[], ["1"], []]
    assert main(["index", str(tmp_path / "docs.jsonl"), str(tmp_path / "on"), "--fold-accents", "maybe"]) == 2


def test_wrong_options() -> None:
    """Invalid options are refused with what was expected."""
    wrong: tuple[tuple[str, Any, str], ...] = (
        ("k1", -1, "at least 0"),
        ("b", 1.5, "between 0 and 1"),
        ("b", "much", "a number"),
        ("method", "bm26", "'lucene' or 'robertson'"),
        ("language", "klingon", "'english'"),
        ("stopwords", "klingon", r"^a language \(english, en, "),
        ("stopwords", [1], "^words"),
        ("workers", 0, "from 1 to"),
        ("workers", 10**9, "from 1 to"),
    )
    for option, value, expected in wrong:
        with refused(ConfigError, option=f"^{option}$", expected=expected):
            BM25(**{option: value})
    with refused(InputError, expected="a BM25 that has learned", got="learned from none", hint="fit it"):
        BM25().encode_queries(["cat"])


def test_stop_words_are_those_of_bm25s() -> None:
    """Every language has the words that bm25s has, in the same order, by name and by code."""
    lists = stop_word_lists()
    assert len(lists) == 30
    for language, words in lists.items():
        assert BM25(stopwords=language).stopwords == words == bm25s.tokenization._infer_stopwords(language)


def test_a_missing_stemmer_shows_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the stemmer the message has the command; BM25 without stemming needs no package."""
    monkeypatch.setitem(sys.modules, "Stemmer", None)
    with refused(MissingPackageError, message="needs PyStemmer", hint="pip install"):
        BM25()
    BM25(language=None)


@pytest.mark.deep
def test_memory_does_not_grow_with_the_collection(tmp_path: Path) -> None:
    """Ten times as many documents, none of which is kept, take at most a few megabytes more."""
    program = f"""
from pathlib import Path
from segmax.encoders.bm25 import BM25
from segmax.vectors.documents import Document
from segmax.base.system import anonymous_memory
bm25 = BM25(workers=1)
def docs(count, seen):
    for i in range(count):
        yield [Document(f"document-{{i:09}}", "", " ".join(f"word{{(i * 31 + j * j) % 5000}}" for j in range(50)))]
        if i % 1000 == 0:
            seen.append(anonymous_memory())
def peak(count):
    seen = []
    postings = 0
    for batch in bm25.fit_encode(docs(count, seen), Path({str(tmp_path)!r})):
        postings += len(batch.vectors.indices)
        seen.append(anonymous_memory())
    assert postings > 30 * count
    return max(seen)
peak(2000)
print(peak(40000) - peak(8000))
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(result.stdout) < 5 << 20  # the counts of the additional documents are 13 MB, their ids 2 MB
