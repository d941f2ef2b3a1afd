"""Several rankings as one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import segmax
from conftest import refused
from segmax.errors import ConfigError, InputError
from segmax.search.fusion import FUSIONS, fuse
from segmax.search.results import Hits
from segmax.storage.tables import DocIds


def ranked(scores: dict[int, float]) -> Hits:
    """Results with these scores, by row."""
    order = sorted(scores, key=lambda row: (-scores[row], row))
    rows, values = np.array(order, dtype=np.int64), np.array([scores[row] for row in order], dtype=np.float64)
    return Hits(rows, values, np.zeros(15, dtype=np.uint64), DocIds(100))


def twin(rankings: list[dict[int, float]], fusion: str, weights: list[float], constant: float) -> list[int]:
    """The fused order, formula by formula."""
    total: dict[int, float] = {}
    places: dict[int, list[float]] = {}
    for number, (scores, weight) in enumerate(zip(rankings, weights, strict=True)):
        order = sorted(scores, key=lambda row: (-scores[row], row))
        for place, row in enumerate(order):
            spread = max(scores.values()) - min(scores.values())
            value = {
                "rrf": 1 / (constant + place + 1),
                "raw": scores[row],
                "minmax": (scores[row] - min(scores.values())) / spread if spread else 1.0,
            }[fusion]
            total[row] = math.fsum([total.get(row, 0.0), weight * value])
            places.setdefault(row, [math.inf] * len(rankings))[number] = place
    return sorted(total, key=lambda row: (-total[row], places[row]))


@given(
    st.lists(
        st.dictionaries(st.integers(0, 12), st.sampled_from([0.5, 1.0, 1.5, 4.0]), max_size=8), min_size=1, max_size=2
    ),
    st.sampled_from(FUSIONS),
    st.data(),
)
def test_fusion_is_its_formula(rankings: list[dict[int, float]], fusion: str, data: st.DataObject) -> None:
    """Scores, order and ties, for every way."""
    weights = data.draw(st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=len(rankings), max_size=len(rankings)))
    results = [ranked(scores) for scores in rankings]
    fused = fuse(results, 100, fusion=fusion, weights=weights, rank_constant=7)
    assert fused.ids == twin(rankings, fusion, weights, 7)
    assert all(np.diff(fused.scores) <= 0)
    for name, ranks in zip(fused.ids, fused.ranks.tolist(), strict=True):
        for hits, rank in zip(results, ranks, strict=True):
            assert (hits.ids[rank - 1] == name) if rank else (name not in hits.ids)
    assert fuse(results, 3, fusion=fusion, weights=weights, rank_constant=7).ids == fused.ids[:3]


def test_ties_go_to_the_first_search() -> None:
    """Whatever the order of ids."""
    assert fuse([ranked({5: 1.0}), ranked({3: 1.0})]).ids == [5, 3]
    assert fuse([ranked({3: 1.0}), ranked({5: 1.0})]).ids == [3, 5]


@pytest.fixture
def texts() -> segmax.Index:
    """Three documents with texts and metadata."""
    records = {"a": "copper tubes", "b": "noise of copper", "c": "diodes"}
    return segmax.from_texts(records, metadata={"a": {"n": 1}, "b": {"n": 2}})


def test_indexes_of_other_encoders(texts: segmax.Index) -> None:
    """One call; texts and metadata come from whoever has them, filters go to all."""
    pytest.importorskip("pandas")
    metadata = {"b": {"n": 2}, "c": {"n": 3}}
    vectors = segmax.build(sp.csr_matrix([[1, 0], [0, 2]]), ids=["c", "b"], metadata=metadata)
    fused = segmax.hybrid([(vectors, {0: 1, 1: 1}), (texts, "copper")], k=3)
    assert fused.ids == ["b", "a", "c"]
    assert fused.ranks.tolist() == [[1, 2], [0, 1], [2, 0]]
    assert fused.metadata == [{"n": 2}, {"n": 1}, {"n": 3}]
    assert fused.complete
    assert fused[0].id == "b"
    assert [hit.id for hit in fused[:2]] == ["b", "a"]
    assert list(fused.to_pandas().columns) == ["rank", "id", "score", "rank_0", "rank_1"]
    assert repr(fused).startswith("FusedHits(3, best 'b' at ")
    assert segmax.hybrid([(vectors, {0: 1}), (texts, "copper")], where={"n": {"$gt": 1}}).ids == ["c", "b"]
    assert segmax.hybrid([texts.search("noise"), (texts, "diodes")]).texts[1].text == "diodes"
    with refused(InputError, message="keeps no texts"):
        _ = fused.texts
    assert len(segmax.hybrid([(texts, "nothing")])) == 0


@pytest.mark.parametrize(
    ("searches", "options", "parts"),
    [
        ([], {}, {"option": "searches", "expected": "one or more"}),
        ([3], {}, {"option": "searches", "got": "int"}),
        ([("copper", "copper")], {}, {"option": "searches"}),
        (None, {"fusion": "sum"}, {"option": "fusion", "expected": "'rrf'"}),
        (None, {"weights": [1]}, {"option": "weights", "expected": "each of 2 searches"}),
        (None, {"weights": [1, -1]}, {"option": "weights", "expected": ">= 0"}),
        (None, {"weights": [1, "x"]}, {"option": "weights"}),
        (None, {"rank_constant": -1}, {"option": "rank_constant"}),
        (None, {"k": 0}, {"option": "k"}),
        (None, {"depth": 0}, {"option": "k"}),
    ],
)
def test_what_is_refused(texts: segmax.Index, searches: Any, options: dict[str, Any], parts: dict[str, str]) -> None:
    """With the option."""
    with refused(ConfigError, **parts):
        segmax.hybrid([(texts, "copper")] * 2 if searches is None else searches, **options)
