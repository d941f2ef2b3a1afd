"""A BEIR folder for tests of whatever reads one."""

from __future__ import annotations

import json
from pathlib import Path

from segmax.demo import FOLDER
from segmax.io import open_texts, read_qrels, read_queries


def write_beir(folder: Path, num_docs: int) -> None:
    """A BEIR folder with a part of the collection that ships with segmax."""
    (folder / "qrels").mkdir(parents=True)
    texts = list(open_texts(FOLDER))[:num_docs]
    lines = [json.dumps({"_id": text.id, "title": text.title, "text": text.text}) for text in texts]
    (folder / "corpus.jsonl").write_text("\n".join(lines) + "\n")
    queries = read_queries(FOLDER / "queries.jsonl.gz")
    assert queries.texts is not None
    lines = [json.dumps({"_id": name, "text": text}) for name, text in zip(queries.ids, queries.texts, strict=True)]
    (folder / "queries.jsonl").write_text("\n".join(lines) + "\n")
    kept = {text.id for text in texts}
    grades = read_qrels(FOLDER / "qrels.tsv")
    rows = [f"{query}\t{doc}\t{grade}\n" for query in grades for doc, grade in grades[query].items() if doc in kept]
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(rows))
