"""The Wikipedia vectors beside the project: documents, queries and given clusters.

Documents are vectors of splade-mini, queries are SPLADE-v3 vectors of MS MARCO questions.
"""

from __future__ import annotations

import importlib.util
import lzma
from pathlib import Path
from types import ModuleType
from typing import Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

#: The word pieces of BERT, which are the columns of all vectors.
VOCABULARY = 30522
DEFAULT_FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data" / "wiki"

Set = Literal["wiki", "large"]


def _reader(folder: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("read", folder / "read.py")
    if spec is None or spec.loader is None or not (folder / "read.py").is_file():
        msg = f"expected the wiki vectors in '{folder}'; pass their folder with --wiki"
        raise FileNotFoundError(msg)
    read = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(read)
    return read


def load(folder: Path, clusters: int) -> tuple[sp.csr_matrix, sp.csr_matrix, NDArray[np.uint16] | None]:
    """Return documents, queries, and the labels of a supplied clustering (None if there is none of that size)."""
    read = _reader(folder)
    labels = folder / f"labels-mx-{clusters}.u16.xz"
    given = np.frombuffer(lzma.decompress(labels.read_bytes()), np.uint16) if labels.exists() else None
    return read.documents(folder=folder), read.queries(folder / "queries.npz")[0], given


def load_set(folder: Path, name: Set, count: int | None = None) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Return the first documents of a set, and the queries: "wiki" has 281,250 documents, "large" 656,250.

    The large set is in random order, so that any number of its documents is a fair sample of all.
    """
    read = _reader(folder)
    docs = read.large(count) if name == "large" else read.documents(folder=folder)[:count]
    return docs, read.queries(folder / "queries.npz")[0]
