"""Writes descriptions of collections for `segmax experiment`: `python -m benchmarks.judged OUT`.

OUT/wiki.json has 281,250 passages, 3,490 queries, given clusters and no judgments. OUT/wiki-nq.json has the same
passages and the gold passages of 2,655 Natural Questions, one per question. OUT/nfcorpus-splade-v3.json has published
vectors. The vectors are written, too. OUT/nfcorpus-splade-mini.json and its like describe texts that were encoded
before, for each of nfcorpus, arguana and vaswani by:

    segmax encode DATA/nfcorpus OUT/nfcorpus.npz --encoder MODEL --max-length 160 --min-weight 0.03 --dense max
    segmax encode DATA/nfcorpus OUT/nfcorpus.queries.npz --queries --encoder MODEL --max-length 160

To compare clusterings, add --dense mean --dense cls.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks import wiki
from segmax.io import read_qrels, write_qrels

_COUNTS = (192, 768)
_ENCODED = {"nfcorpus": "NFCorpus", "arguana": "ArguAna", "vaswani": "Vaswani"}
#: What the given clusters are made from, by their names there.
_POOLINGS = {"max": "mx", "mean": "mean", "cls": "cls"}


def main() -> None:
    """Write the descriptions."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.judged", description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, metavar="OUT", help="the folder to write to")
    parser.add_argument("--data", type=Path, default=wiki.DEFAULT_FOLDER.parent, help="the folder of the collections")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    docs, questions, _ = wiki.load(args.data / "wiki", 0)
    describe_wiki(args.out, args.data / "wiki", docs, questions)
    describe_wiki_nq(args.out, args.data / "nq", docs)
    describe_nfcorpus(args.out, args.data / "nfcorpus")
    for name, title in _ENCODED.items():
        if (args.out / f"{name}.npz").exists():
            describe_encoded(args.out, args.data / name, title)


def describe_wiki(out: Path, folder: Path, docs: sp.csr_matrix, questions: sp.csr_matrix) -> None:
    """Describe the passages with the queries of MS MARCO, and the clusters that come with them."""
    sp.save_npz(out / "wiki-docs.npz", docs, compressed=False)
    sp.save_npz(out / "wiki-queries.npz", questions)
    labels = {
        name: {str(count): relative(folder / f"labels-{given}-{count}.u16.xz", out) for count in _COUNTS}
        for name, given in _POOLINGS.items()
    }
    described = {"documents": "wiki-docs.npz", "queries": "wiki-queries.npz", "labels": labels}
    write(out / "wiki.json", {"name": "wiki", **described})


def describe_wiki_nq(out: Path, folder: Path, docs: sp.csr_matrix) -> None:
    """Describe the passages, followed by the gold passages; ids of documents and queries are their rows."""
    gold, questions = read_matrix(folder / "gold-documents.npz"), read_matrix(folder / "queries.npz")
    sp.save_npz(out / "gold-docs.npz", gold, compressed=False)
    sp.save_npz(out / "nq-queries.npz", questions)
    behind = {
        query: {str(docs.shape[0] + int(row)): grade for row, grade in grades.items()}
        for query, grades in read_qrels(folder / "qrels.tsv").items()
    }
    write_qrels(out / "nq-qrels.tsv", behind, overwrite=True)
    described = {"documents": ["wiki-docs.npz", "gold-docs.npz"], "queries": "nq-queries.npz", "qrels": "nq-qrels.tsv"}
    write(out / "wiki-nq.json", {"name": "wiki + NQ", **described})


def describe_nfcorpus(out: Path, folder: Path) -> None:
    """Describe NFCorpus with the published vectors of SPLADE-v3."""
    files = {"documents": "splade-v3/docs.jsonl.gz", "queries": "splade-v3/queries.tsv.gz", "qrels": "qrels/test.tsv"}
    described = {key: relative(folder / file, out) for key, file in files.items()}
    write(out / "nfcorpus-splade-v3.json", {"name": "NFCorpus, SPLADE-v3", **described})


def describe_encoded(out: Path, folder: Path, title: str) -> None:
    """Describe encoded texts, with the pooled vectors that came with them."""
    name = folder.name
    dense = {pooling: f"{name}.{pooling}.npy" for pooling in _POOLINGS if (out / f"{name}.{pooling}.npy").exists()}
    files = {"documents": f"{name}.npz", "queries": f"{name}.queries.npz"}
    qrels = relative(folder / "qrels" / "test.tsv", out)
    write(out / f"{name}-splade-mini.json", {"name": title, **files, "qrels": qrels, "dense": dense})


def read_matrix(path: Path) -> sp.csr_matrix:
    """Read the arrays of a CSR matrix over word pieces."""
    arrays = np.load(path, allow_pickle=False)
    shape = (len(arrays["indptr"]) - 1, wiki.VOCABULARY)
    return sp.csr_matrix((arrays["data"], arrays["indices"], arrays["indptr"]), shape=shape)


def relative(path: Path, out: Path) -> str:
    """Return the path of a file relative to the folder of the description."""
    return os.path.relpath(path.resolve(), out.resolve())


def write(path: Path, described: dict[str, Any]) -> None:
    """Write a description and print its path."""
    path.write_text(json.dumps(described, indent=1) + "\n")
    print(path)


if __name__ == "__main__":
    main()
