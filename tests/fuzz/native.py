"""The targets in C++: programs that `make fuzz` builds of cpp/fuzz, and the seeds of their corpus."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from tests.fuzz import reader_targets
from tests.fuzz.shard_targets import sample as sharded_sample
from tests.fuzz.target import TARGETS, Seeds, scratch

import segmax
from segmax import _core
from segmax.shards.common import read_common
from segmax.shards.opening import read_manifest
from segmax.shards.storage import open_storage
from segmax.storage.reading import load_index

#: Where the programs are once they are built.
PROGRAMS = Path(__file__).resolve().parents[2] / "build" / "fuzz"


def program(name: str) -> Path:
    """Return the program of a target."""
    return PROGRAMS / name.replace("core_", "fuzz_")


def _ciff() -> dict[str, bytes]:
    return {name: bytes([6, 2]) + data for name, data in reader_targets.written_vectors("ciff")().items()}


def _words() -> dict[str, bytes]:
    texts = ["The quick_brown fox, 2 foxes\n\nΑΒΓ αβγ ÄÖÜ", "かな カナ a\u0301e\u0301 Ⱥb", "Σ\nno hard ones\nlast"]
    return {f"{number}.txt": bytes([number]) + text.encode() for number, text in enumerate(texts)}


def _packed(numbers: list[int], arrays: list[Any]) -> bytes:
    """Return numbers, the size of every array, and the arrays."""
    content = [array.tobytes() for array in arrays]
    head = struct.pack(f"<{len(numbers) + len(content)}I", *numbers, *map(len, content))
    return head + b"".join(content)


def _indexes() -> dict[str, bytes]:
    """Indexes with terms of every kind: wide and narrow, head and tail; codes of one byte and two."""
    found = {}
    shapes: Mapping[str, dict[str, Any]] = {
        "bytes": {"num_docs": 40, "num_terms": 12, "largest": 200, "num_clusters": 6, "num_segments": 3},
        "wide": {"num_docs": 30, "num_terms": 8, "largest": 60_000, "num_clusters": 4, "num_segments": 2},
        "one": {"num_docs": 9, "num_terms": 5, "largest": 3, "num_clusters": 1, "num_segments": 1},
        "rare": {"num_docs": 400, "num_terms": 14, "largest": 9, "num_clusters": 50, "num_segments": 2},
    }
    for number, (name, shape) in enumerate(shapes.items()):
        path = scratch() / f"native-{name}"
        options = {key: shape[key] for key in ("num_clusters", "num_segments")}
        segmax.build(_matrix(shape, number), path=path, overwrite=True, **options).close()
        meta, arrays = load_index(path, preload=True, verify=True)
        counts = [meta[key] for key in ("num_docs", "num_terms", "num_segments", "code_bytes", "head_ratio")]
        found[name] = _packed([number, *counts], [arrays[row[0]] for row in _core.components()])
    return found


def _matrix(shape: Mapping[str, Any], seed: int) -> sp.csr_matrix:
    rng = np.random.default_rng(seed)
    chances = np.geomspace(0.8, 0.004, shape["num_terms"])
    present = rng.random((shape["num_docs"], shape["num_terms"])) < chances
    return sp.csr_matrix(present * rng.integers(1, shape["largest"] + 1, present.shape))


def _routers() -> dict[str, bytes]:
    storage = open_storage(sharded_sample())
    manifest = read_manifest(storage)
    arrays = read_common(storage, manifest.common["router"], "docs")
    parts = ("first_mark", "first_value", "marks", "values", "shard_first_quartet")
    return {
        name: _packed(
            [number, int(arrays[f"{name}_shard_first_quartet"][-1])],
            [*(arrays[f"{name}_{part}"] for part in parts), arrays["tops"]],
        )
        for number, name in enumerate(("bounds", "sketch"))
    }


#: All targets in C++ by name, and the seeds of each.
NATIVE: dict[str, Seeds] = {
    "core_ciff": _ciff,
    "core_index": _indexes,
    "core_json_texts": TARGETS["jsonl_texts"].seeds,
    "core_json_vectors": TARGETS["jsonl_vectors"].seeds,
    "core_maxima": _routers,
    "core_words": _words,
}
