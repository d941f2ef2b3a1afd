"""Making tables of query weights: idf by hand, learning on a collection whose best weights are known, and refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("tokenizers")

import tokenizers

import segmax
from conftest import refused
from segmax.base.errors import ConfigError, IndexExistsError, InputError
from segmax.cli.main import main
from segmax.encoders import QueryTable
from segmax.encoders.base import Encoder
from segmax.text import make_query_table
from segmax.text.table_learning import idf, learned, likeness, make_lists, ndcg, taught

NUM_WORDS = 120
WORDS = ["[PAD]", "[UNK]", "[CLS]", *(f"w{number}" for number in range(NUM_WORDS))]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The files of a masked language model that say what its columns are; nothing that could run."""
    folder = tmp_path / "model"
    folder.mkdir()
    words = tokenizers.models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]")
    made = tokenizers.Tokenizer(words)
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    made.add_special_tokens(["[PAD]", "[UNK]", "[CLS]"])
    (folder / "tokenizer.json").write_text(made.to_str())
    (folder / "config.json").write_text(json.dumps({"model_type": "bert", "vocab_size": len(WORDS) + 2}))
    return folder


COLUMNS = [*WORDS, "[column 123]", "[column 124]"]


class Collection:
    """Documents and queries of random words, half of which mean nothing: what a query is about, the others decide."""

    def __init__(self, num_docs: int = 300, num_queries: int = 200) -> None:
        rng = np.random.default_rng(5)
        docs = [rng.choice(NUM_WORDS, 12, replace=False) for _ in range(num_docs)]
        self.texts = {f"d{row}": " ".join(f"w{word}" for word in doc) for row, doc in enumerate(docs)}
        self.queries, self.qrels = {}, {}
        for number in range(num_queries):
            row = int(rng.integers(num_docs))
            told = rng.choice([word for word in docs[row] if word < NUM_WORDS // 2] or docs[row][:1], 2)
            noise = rng.integers(NUM_WORDS // 2, NUM_WORDS, 4)
            self.queries[f"q{number}"] = " ".join(f"w{word}" for word in (*told, *noise))
            self.qrels[f"q{number}"] = {f"d{row}": 1, "missing": 2}
        weights = np.zeros((num_docs, len(COLUMNS)), dtype=np.float32)
        for row, doc in enumerate(docs):
            weights[row, 3 + doc] = rng.uniform(0.5, 1.5, len(doc))
        self.index = segmax.build(sp.csr_matrix(weights), ids=list(self.texts), terms=COLUMNS)


# --- the parts -------------------------------------------------------------------------------------------------------


def test_idf_is_that_of_bm25() -> None:
    """log(1 + (N - df + 0.5) / (df + 0.5)), also for tokens that no text or every text has."""
    found = idf(np.array([0, 1, 4]), 4)
    np.testing.assert_allclose(found, np.log([1 + 4.5 / 0.5, 1 + 3.5 / 1.5, 1 + 0.5 / 4.5]))


def test_means_of_a_teacher() -> None:
    """Tokens that are seen often get the mean of their weights, others lie on the line; no start, no weight."""
    start = np.array([0.0, 1.0, 2.0, 3.0])
    queries = sp.csr_matrix(np.tile([[0.0, 1, 1, 0]], (2000, 1)))
    teacher = sp.csr_matrix(np.tile([[9.0, 0.5, 3.0, 7.0]], (2000, 1)))
    found = taught(start, queries, teacher)
    np.testing.assert_allclose(found, [0, 0.5, 3.0, 5.5], atol=0.02)
    assert likeness(found, queries, teacher) > likeness(start, queries, teacher)
    assert likeness(start, sp.csr_matrix((3, 4)), teacher[:3]) == 0


def test_learning_raises_what_tells_documents_apart() -> None:
    """A token of relevant documents gains, one of others loses, one that is nowhere stays; strength holds them back."""
    parts = sp.csr_matrix(np.array([[1.0, 0, 0], [0, 1.0, 0]] * 40))
    lists = make_lists(parts, [2] * 40, [1.0, 0.0] * 40)
    start = np.ones(3)
    found, held = learned(start, lists, 1.0), learned(start, lists, 1000.0)
    assert found[0] > 1.1 > 0.9 > found[1] > 0
    assert found[2] == 1
    assert abs(held - 1).max() < abs(found - 1).max()


def test_ndcg() -> None:
    """The formula, with grades as gains."""
    assert ndcg(["a", "b", "c"], {"a": 2, "c": 1}) == pytest.approx((2 + 1 / 2) / (2 + 1 / np.log2(3)))
    assert ndcg([], {"a": 1}) == ndcg(["a"], {}) == 0


# --- the whole -------------------------------------------------------------------------------------------------------


def test_idf_alone(model: Path, tmp_path: Path) -> None:
    """Without queries: idf by the model's tokenizer, nothing for special tokens, the model's columns, and no torch."""
    texts = ["w0 w1 w1 zebra", "w0 [CLS]", "w0 w2"]
    report = make_query_table(model, tmp_path / "table", texts=texts, max_length=3)
    assert (report.method, report.kept, report.num_texts, report.num_terms) == ("idf", "idf", 3, len(COLUMNS))
    table = QueryTable.load(tmp_path / "table")
    assert table.vocabulary == COLUMNS
    assert table.max_length == 3
    found = table.weights
    assert found[:3].tolist() == [0, 0, 0]
    np.testing.assert_allclose(found[3:7], idf(np.array([3, 1, 1, 0]), 3), rtol=1e-6)
    about = json.loads((tmp_path / "table" / "query_table.json").read_text())
    assert (about["made_for"], about["made_from"], about["num_texts"]) == (str(model), "idf", 3)


def test_learned_from_judgments(model: Path, tmp_path: Path) -> None:
    """Where half of the words are noise, the learned table is better on held-out queries, and the same every time."""
    made = Collection()
    given: dict[str, Any] = {"texts": made.texts, "queries": made.queries, "qrels": made.qrels, "index": made.index}
    report = make_query_table(model, tmp_path / "table", **given)
    assert (report.measure, report.num_queries, report.num_held_out, report.kept) == ("nDCG@10", 200, 40, "judged")
    assert report.learned > report.idf + 0.1
    weights = QueryTable.load(tmp_path / "table").weights
    assert weights[3 : 3 + NUM_WORDS // 2].mean() > 1.2 * weights[3 + NUM_WORDS // 2 : 3 + NUM_WORDS].mean()
    assert weights.min() >= 0
    again = make_query_table(model, tmp_path / "again", **given)
    assert again.learned == report.learned
    np.testing.assert_array_equal(QueryTable.load(tmp_path / "again").weights, weights)
    made.index.encoder = tmp_path / "table"
    assert made.index.search(made.queries["q0"]).ids


def test_a_worse_table_is_not_kept(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If what was learned is worse on held-out queries, idf is written, and the report has both figures."""
    made = Collection(num_queries=60)
    monkeypatch.setattr(
        "segmax.text.table_making.learned", lambda start, *_: np.where(np.arange(len(start)) % 9 == 5, start, 0)
    )
    report = make_query_table(
        model, tmp_path / "table", texts=made.texts, queries=made.queries, qrels=made.qrels, index=made.index
    )
    assert report.learned < report.idf
    assert report.kept == "idf"
    make_query_table(model, tmp_path / "idf", texts=made.texts)
    np.testing.assert_array_equal(
        QueryTable.load(tmp_path / "table").weights, QueryTable.load(tmp_path / "idf").weights
    )


def test_the_command(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same from the shell, with files; the table answers a search."""
    made = Collection()
    lines = [json.dumps({"_id": name, "text": text}) for name, text in made.texts.items()]
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines))
    lines = [json.dumps({"_id": name, "text": text}) for name, text in made.queries.items()]
    (tmp_path / "queries.jsonl").write_text("\n".join(lines))
    lines = [f"{name} 0 {doc} {grade}" for name, docs in made.qrels.items() for doc, grade in docs.items()]
    (tmp_path / "qrels.txt").write_text("\n".join(lines))
    made.index.save(tmp_path / "index")
    table, texts = str(tmp_path / "table"), ["--texts", str(tmp_path / "corpus.jsonl")]
    assert main(["encoder", "table", str(model), table, *texts]) == 0
    assert "125 tokens, weighted by idf in 300 texts" in capsys.readouterr().out
    assert main(["encoder", "table", str(model), table, *texts]) == 2
    assert "--overwrite" in capsys.readouterr().err
    judged = ["--queries", str(tmp_path / "queries.jsonl"), "--qrels", str(tmp_path / "qrels.txt")]
    index = str(tmp_path / "index")
    assert main(["encoder", "table", str(model), table, *texts, *judged, "--index", index, "--overwrite"]) == 0
    out = capsys.readouterr().out
    assert "nDCG@10 on 40 held-out queries of 200: idf 0." in out
    assert "wrote the learned table" in out
    assert main(["search", index, "w1", "w2", "--encoder", table]) == 0
    assert main(["encoder", "table", str(model), str(tmp_path / "other")]) == 2
    assert "--texts" in capsys.readouterr().err
    assert main(["encoder", "tables"]) == 2
    assert "segmax encoder export|table" in capsys.readouterr().err


def test_refusals(model: Path, tmp_path: Path) -> None:
    """What contradicts itself, or is too little, is refused before anything is written."""
    made = Collection(num_docs=40, num_queries=30)
    few = dict(list(made.queries.items())[:5])
    judged: dict[str, Any] = {"texts": made.texts, "qrels": made.qrels, "index": made.index}
    with refused(ConfigError, option="^queries$", expected="given"):
        make_query_table(model, tmp_path / "table", **judged)
    with refused(ConfigError, option="^queries$", expected="at least 20", got="^5$"):
        make_query_table(model, tmp_path / "table", queries=few, **judged)
    with refused(InputError, expected="texts to count tokens in"):
        make_query_table(model, tmp_path / "table", texts=[])
    other = segmax.build(sp.csr_matrix(np.eye(4)), terms=["a", "b", "c", "d"])
    with refused(InputError, got="another vocabulary of 4 terms"):
        make_query_table(model, tmp_path / "table", queries=made.queries, **{**judged, "index": other})
    with refused(IndexExistsError, message="exists"):
        make_query_table(model, model, texts=made.texts)
    with refused(ConfigError, expected="a model that encodes documents"):
        make_query_table("bm25", tmp_path / "table", texts=made.texts)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


class Teacher(Encoder):
    """Gives the first words of the vocabulary more weight."""

    vocabulary = COLUMNS

    def encode_documents(self, batches: Any) -> Any:
        raise NotImplementedError

    def encode_queries(self, batch: Any) -> sp.csr_matrix:
        rows = np.zeros((len(batch), len(COLUMNS)))
        for row, text in enumerate(batch):
            for word in text.split():
                rows[row, WORDS.index(word)] = 1 + (int(word[1:]) < NUM_WORDS // 2)
        return sp.csr_matrix(rows)


def test_learned_from_a_model(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries without judgments: the model's own weights of their tokens, and how near both tables come to them."""
    made = Collection()
    monkeypatch.setattr("segmax.text.table_making._encoder", lambda _: Teacher())
    report = make_query_table(model, tmp_path / "table", texts=made.texts, queries=made.queries)
    assert (report.method, report.measure, report.kept) == ("teacher", "cosine", "teacher")
    assert report.learned > report.idf
    weights = QueryTable.load(tmp_path / "table").weights
    assert weights[3 : 3 + NUM_WORDS // 2].mean() > 1.2 * weights[3 + NUM_WORDS // 2 : 3 + NUM_WORDS].mean()
