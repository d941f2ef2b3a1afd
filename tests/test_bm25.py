"""BM25 gives what bm25s gives, streams, and can be kept."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import segmax
from segmax.encoders import bm25 as module
from segmax.encoders.base import Encoder
from segmax.encoders.bm25 import BM25, METHODS
from segmax.errors import ConfigError, FormatError, InputError, SegmaxError
from segmax.io.base import Document

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
    batches = list(encoder.encode_documents(docs[i : i + batch] for i in range(0, len(docs), batch)))
    ids = [doc_id for part in batches for doc_id in part.ids]
    return ids, sp.csr_matrix(sp.vstack([part.vectors for part in batches]))


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
    assert list(BM25().encode_documents([])) == []
    assert list(BM25().encode_documents([[]])) == []
    ids, nothing = encoded(BM25(), documents(["", "the"]))
    assert (ids, nothing.shape) == (["d0", "d1"], (2, 0))


def test_learning_at_once_tells_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """learn_documents has counted all documents when it returns; what it yields is what encode_documents yields."""
    monkeypatch.setattr(module, "_PIECE_DOCS", 2)
    docs = documents(["cats sleep", "", "dogs chase cats", "rain", "more rain"])
    told: list[int] = []
    encoder = BM25()
    weights = encoder.learn_documents([docs], told.append)
    assert (told, encoder.num_docs) == ([2, 2, 1], 5)
    found = sp.vstack([batch.vectors for batch in weights])
    assert abs(found - encoded(BM25(), docs)[1]).max() == 0


def test_a_vocabulary_that_is_empty_is_one() -> None:
    """Queries over it have no words; BM25 that has neither documents nor a vocabulary says so."""
    assert BM25.of_vocabulary([]).encode_queries(["cats"]).shape == (1, 0)
    with pytest.raises(InputError, match="knows no documents yet"):
        BM25().encode_queries(["cats"])


def test_titles_count() -> None:
    """A title is a part of the text."""
    first, second = BM25(), BM25()
    _, with_title = encoded(first, [Document("a", "Big cats", "sleep"), Document("b", "", "x")])
    _, in_text = encoded(second, [Document("a", "", "Big cats sleep"), Document("b", "", "x")])
    assert first.vocabulary == second.vocabulary
    assert (with_title != in_text).nnz == 0


def test_batches_and_processes_change_nothing(
    vaswani: tuple[list[str], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However documents are cut, and whoever counts their words, the result is the same to the last bit."""
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


def test_a_helper_that_dies_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that ends too early is told, and waited for by nobody."""
    monkeypatch.setattr(module, "_ALONE_DOCS", 1)
    monkeypatch.setattr(module, "_PIECE_DOCS", 1)
    monkeypatch.setattr(module.WordProcess, "count", _killed)
    with pytest.raises(SegmaxError, match="ended too early"):
        encoded(BM25(workers=2), documents(["one two", "three", "four", "five"]))


def _killed(self: module.WordProcess, texts: Sequence[str]) -> None:
    self._process.kill()
    self._process.wait()
    self._send(list(texts))


def test_abandoned_streams_leave_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who stops half-way leaves no helper behind."""
    monkeypatch.setattr(module, "_ALONE_DOCS", 1)
    monkeypatch.setattr(module, "_PIECE_DOCS", 1)
    started: list[module.WordProcess] = []
    begin = module.WordProcess.__init__

    def watched(self: module.WordProcess, *arguments: object) -> None:
        begin(self, *arguments)  # type: ignore[arg-type]
        started.append(self)

    monkeypatch.setattr(module.WordProcess, "__init__", watched)
    stream = BM25(workers=2).count_documents([documents([f"word{i}" for i in range(50)])])
    assert [next(stream).ids for _ in range(3)] == [["d0"], ["d1"], ["d2"]]
    stream.close()
    assert len(started) == 2
    assert all(process._process.returncode is not None for process in started)


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
    assert loaded.describe() == encoder.describe()
    assert (loaded.encode_queries(queries) != encoder.encode_queries(queries)).nnz == 0
    again = sp.vstack([batch.vectors for batch in loaded.weigh_documents([docs])])
    assert (again != weights).nnz == 0
    (more,) = loaded.weigh_documents([[Document("n", "", "unheardof transistor")]])
    assert more.vectors.shape == (1, len(loaded.vocabulary))
    assert more.vectors.nnz == 1
    assert isinstance(loaded, Encoder)


def test_damaged_and_missing_files(tmp_path: Path) -> None:
    """A folder without a BM25, a damaged one and one of a newer version are told apart."""
    with pytest.raises(InputError, match="there is no"):
        BM25.load(tmp_path)
    encoder = BM25()
    encoded(encoder, documents(TEXTS))
    encoder.save(tmp_path)
    content = json.loads((tmp_path / "bm25.json").read_text())
    for change, message in (
        ({"version": 2}, "version 2, and this segmax reads"),
        ({"terms": ["one"]}, "damaged or no BM25"),
        ({"parameters": {"k2": 1}}, "damaged or no BM25"),
    ):
        (tmp_path / "bm25.json").write_text(json.dumps({**content, **change}))
        with pytest.raises(FormatError, match=message):
            BM25.load(tmp_path)
    (tmp_path / "bm25.json").write_text("{")
    with pytest.raises(FormatError, match="damaged"):
        BM25.load(tmp_path)


def test_wrong_options() -> None:
    """Options that cannot be are refused with what was expected."""
    for options, message in (
        ({"k1": -1}, "expected k1 >= 0"),
        ({"b": 1.5}, "between 0 and 1"),
        ({"b": "much"}, "expected b to be a number"),
        ({"method": "bm26"}, "'lucene' or 'robertson'"),
        ({"language": "klingon"}, "'english'"),
        ({"stopwords": "klingon"}, "a language of bm25s"),
        ({"stopwords": [1]}, "to be words"),
        ({"workers": 0}, "expected workers >= 1"),
    ):
        with pytest.raises(ConfigError, match=message):
            BM25(**options)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="knows no documents yet"):
        BM25().encode_queries(["cat"])


@pytest.mark.parametrize(("package", "wanted"), [("bm25s", "BM25 needs bm25s"), ("Stemmer", "needs Stemmer")])
def test_missing_packages_say_what_to_install(monkeypatch: pytest.MonkeyPatch, package: str, wanted: str) -> None:
    """Without bm25s or a stemmer the message has the command."""
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=rf"{wanted}.*pip install"):
        BM25()
    BM25(stopwords=None, language=None)


def test_memory_does_not_grow_with_the_collection(tmp_path: Path) -> None:
    """Ten times as many documents, of which nobody keeps any, take at most a few megabytes more."""
    program = f"""
from segmax.encoders.bm25 import BM25
from segmax.io.base import Document
from segmax.memory import anonymous_memory
bm25 = BM25(workers=1, scratch={str(tmp_path)!r})
def docs(count, seen):
    for i in range(count):
        yield [Document(f"document-{{i:09}}", "", " ".join(f"word{{(i * 31 + j * j) % 5000}}" for j in range(50)))]
        if i % 1000 == 0:
            seen.append(anonymous_memory())
def peak(count):
    seen = []
    postings = 0
    for batch in bm25.encode_documents(docs(count, seen)):
        postings += batch.vectors.nnz
        seen.append(anonymous_memory())
    assert postings > 30 * count
    return max(seen)
peak(2000)
print(peak(40000) - peak(8000))
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(result.stdout) < 5 << 20  # the counts of the additional documents are 13 MB, their ids 2 MB
