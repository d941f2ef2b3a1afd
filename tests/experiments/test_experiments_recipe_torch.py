"""The commands that docs/findings.md prints run as printed, on tiny collections of the same layout."""

from __future__ import annotations

import gzip
import json
import lzma
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks import judged
from conftest import topic_docs
from segmax.cli.main import main
from segmax.experiments import EXPERIMENTS

pytest.importorskip("ir_measures")
pytest.importorskip("matplotlib")

ROOT = Path(__file__).resolve().parents[2]
WORDS = ("cat", "dog", "run", "sleep", "the", "big", "house", "tree", "sun", "rain", "wind", "snow")
NUM_DOCS = 400
NUM_GOLD = 10
VOCABULARY = 30522

READER = """\
import json
import numpy as np
import scipy.sparse as sp

def documents(folder):
    return sp.load_npz(folder / "documents.npz")

def queries(path):
    arrays = np.load(path)
    shape = (len(arrays["indptr"]) - 1, 30522)
    return sp.csr_matrix((arrays["data"], arrays["indices"], arrays["indptr"]), shape=shape), None
"""


def commands() -> list[str]:
    """The lines of the second block of the recipe; the first one makes links to folders of the reader."""
    page = (ROOT / "docs" / "findings.md").read_text()
    _, block = re.findall(r"```text\n(.*?)```", page, flags=re.DOTALL)
    return block.replace("\\\n", " ").strip().splitlines()


def write_vectors(folder: Path, name: str, matrix: sp.csr_matrix) -> None:
    """The arrays of a CSR matrix over word pieces."""
    np.savez(folder / name, data=matrix.data, indices=matrix.indices, indptr=matrix.indptr)


def write_wiki(folder: Path, rng: np.random.Generator) -> None:
    """Passages with queries and clusters, and gold passages with questions and answers."""
    docs, topics = topic_docs(rng, NUM_DOCS)
    docs.resize(NUM_DOCS, VOCABULARY)
    (folder / "wiki").mkdir()
    (folder / "nq").mkdir()
    (folder / "wiki" / "read.py").write_text(READER)
    sp.save_npz(folder / "wiki" / "documents.npz", docs)
    write_vectors(folder / "wiki", "queries.npz", docs[:6])
    for pooling in ("mx", "mean", "cls"):
        for count in (192, 768):
            labels = (topics * 4 + rng.integers(0, 4, NUM_DOCS)).astype("<u2")
            (folder / "wiki" / f"labels-{pooling}-{count}.u16.xz").write_bytes(lzma.compress(labels.tobytes()))
    gold, _ = topic_docs(rng, NUM_GOLD)
    gold.resize(NUM_GOLD, VOCABULARY)
    write_vectors(folder / "nq", "gold-documents.npz", gold)
    write_vectors(folder / "nq", "queries.npz", gold)
    lines = [f"{row}\t{row}\t1\n" for row in range(NUM_GOLD)]
    (folder / "nq" / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(lines))


def write_texts(folder: Path, rng: np.random.Generator) -> None:
    """A BEIR folder of a few words."""
    (folder / "qrels").mkdir(parents=True)
    texts = [" ".join(rng.choice(WORDS, 6)) for _ in range(40)]
    with gzip.open(folder / "corpus.jsonl.gz", "wt") as file:
        file.writelines(json.dumps({"_id": f"d{n}", "title": "", "text": text}) + "\n" for n, text in enumerate(texts))
    with gzip.open(folder / "queries.jsonl.gz", "wt") as file:
        file.writelines(json.dumps({"_id": f"q{n}", "text": texts[n]}) + "\n" for n in range(4))
    lines = [f"q{n}\td{n}\t1\n" for n in range(4)]
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(lines))


def write_published(folder: Path) -> None:
    """Vectors of the documents and queries of a BEIR folder, as Anserini publishes them."""
    folder.mkdir()
    with gzip.open(folder / "docs.jsonl.gz", "wt") as file:
        for number in range(40):
            vector = {WORDS[number % 12]: 5 + number, WORDS[number % 7]: 3, WORDS[number % 5]: 2}
            file.write(json.dumps({"id": f"d{number}", "content": "", "vector": vector}) + "\n")
    with gzip.open(folder / "queries.tsv.gz", "wt") as file:
        file.writelines(f"q{number}\t{WORDS[number]} {WORDS[number]} {WORDS[number + 1]}\n" for number in range(4))


def write_model(folder: Path) -> None:
    """A SPLADE model of sentence-transformers with a vocabulary of a few words."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    sentence_transformers = pytest.importorskip("sentence_transformers")
    bert = folder.with_name("bert")
    bert.mkdir()
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (bert / "vocab.txt").write_text("".join(f"{word}\n" for word in vocabulary))
    found = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": 256}
    (bert / "tokenizer_config.json").write_text(json.dumps(found))
    torch.manual_seed(3)
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config = transformers.BertConfig(vocab_size=len(vocabulary), initializer_range=0.7, **shape)
    transformers.BertForMaskedLM(config).save_pretrained(bert)
    sentence_transformers.SparseEncoder(str(bert)).save_pretrained(str(folder))


def run(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a line of the recipe in this process."""
    program, *arguments = shlex.split(line)
    if program == "segmax":
        assert main(arguments) == 0, line
    else:
        assert arguments[:2] == ["-m", "benchmarks.judged"], line
        monkeypatch.setattr(sys, "argv", arguments[1:])
        judged.main()


@pytest.mark.slow
def test_the_recipe_runs_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the reader's folders to the report, every command works and every experiment is in the report."""
    rng = np.random.default_rng(4)
    write_model(tmp_path / "model")
    data = tmp_path / "data"
    data.mkdir()
    write_wiki(data, rng)
    for name in ("nfcorpus", "arguana", "vaswani"):
        write_texts(data / name, rng)
    write_published(data / "nfcorpus" / "splade-v3")
    monkeypatch.chdir(tmp_path)
    lines = commands()
    assert sum(line.startswith("segmax experiment") for line in lines) == len(EXPERIMENTS)
    for line in lines:
        run(line, monkeypatch)
    page = (tmp_path / "experiments" / "report.html").read_text()
    assert all(f'<section id="{name}">' in page for name in EXPERIMENTS)
    assert (tmp_path / "nq.segmax").is_dir()
