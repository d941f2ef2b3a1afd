"""The values that the paper prints, which experiments show beside ours.

Tables 2 to 7, sections 3.2 and 4.4. Times are in milliseconds on an Intel i7-1260P, one thread; shares of clusters are
in percent. The paper gives no values for Figures 3 and 6, so there are only sentences. Tables follow the order of the
paper's rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

TITLE = "Approximate Cluster-Based Sparse Document Retrieval with Segmented Maximum Term Weights"

#: MS MARCO passages, the clusters of ASC and of Anytime Ranking, and the segments of a cluster.
NUM_DOCS = 8_841_823
FINE_CLUSTERS = 4096
DOCS_PER_CLUSTER = NUM_DOCS // FINE_CLUSTERS
COARSE_CLUSTERS = 512
NUM_SEGMENTS = 8
COARSE_SEGMENTS = 16


def three_digits(value: float | None) -> str | None:
    """Return a time or a share with the three digits that the paper prints; see `two_digits` for Table 5.

    Examples
    --------
    >>> three_digits(116), three_digits(29.0), three_digits(8.1), three_digits(0.17)
    ('116', '29.0', '8.10', '0.17')
    """
    return None if value is None else f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}"


def two_digits(value: float) -> str:
    """Return a time with the two digits that Table 5 prints.

    Examples
    --------
    >>> two_digits(6.0), two_digits(47)
    ('6.0', '47')
    """
    return f"{value:.{1 if value < 10 else 0}f}"


class Clustering(NamedTuple):
    """A row of Table 2: safe ASC (μ = η = 1), without and with segments."""

    flat_ms: float
    flat_visited: float
    ms: float
    visited: float


#: By the paper's names of representations.
TABLE_2: Mapping[str, Clustering] = {
    "Sparse-SPLADE": Clustering(91.6, 67, 70.3, 53),
    "Dense-SPLADE-CLS": Clustering(115, 80, 82.7, 64),
    "Dense-SPLADE-Avg": Clustering(95.3, 76, 74.2, 58),
    "Dense-SPLADE-Max": Clustering(90.8, 68, 71.8, 54),
    "Dense-SimLM-CLS": Clustering(105, 78, 78.5, 60),
}


class Relevance(NamedTuple):
    """MRR@10 (nDCG@10 for the TREC tracks), Recall@k and mean time."""

    quality: float
    recall: float
    ms: float


class Segmenting(NamedTuple):
    """A row of Table 3, upper half."""

    kmeans: Relevance
    random: Relevance


#: By μ, with η = 1 and k = 1000. The last but one row has a full stop between MRR and recall: "0.3966. 0.9799".
TABLE_3: Mapping[float, Segmenting] = {
    0.3: Segmenting(Relevance(0.3926, 0.9390, 11.9), Relevance(0.3960, 0.9716, 20.7)),
    0.4: Segmenting(Relevance(0.3933, 0.9418, 12.6), Relevance(0.3960, 0.9718, 20.8)),
    0.5: Segmenting(Relevance(0.3954, 0.9588, 17.7), Relevance(0.3962, 0.9739, 21.8)),
    0.6: Segmenting(Relevance(0.3966, 0.9770, 29.0), Relevance(0.3966, 0.9787, 27.7)),
    0.7: Segmenting(Relevance(0.3966, 0.9799, 41.6), Relevance(0.3966, 0.9799, 38.7)),
    1.0: Segmenting(Relevance(0.3966, 0.9802, 69.1), Relevance(0.3966, 0.9802, 66.6)),
}


class Ratios(NamedTuple):
    """A row of Table 3, lower half: Actual/MaxSBound and (MaxSBound − AvgSBound)/Actual, on average."""

    tightness: float
    gap: float


#: A note in the source computes the gaps from means of ratios: 1/0.5496 − 1/0.7535 and 1/0.5305 − 1/0.8378.
TABLE_3_RATIOS: Mapping[str, Ratios] = {"random": Ratios(0.55, 0.49), "kmeans": Ratios(0.53, 0.69)}


class Baseline(NamedTuple):
    """A row of Table 4: clusters that are not pruned, then MS MARCO Dev (MRR@10), DL'19 and DL'20 (nDCG@10)."""

    visited: float | None
    dev: Relevance
    p99_ms: float  #: of Dev
    dl19: Relevance
    dl20: Relevance


#: By k and by the key of a row in `segmax.experiments.rows`.
TABLE_4: Mapping[int, Mapping[str, Baseline]] = {
    10: {
        "maxscore": Baseline(
            None, Relevance(0.3966, 0.6824, 26.4), 116, Relevance(0.7398, 0.1764, 26.3), Relevance(0.7340, 0.2462, 24.8)
        ),
        "anytime": Baseline(
            69.8,
            Relevance(0.3966, 0.6824, 20.7),
            89.3,
            Relevance(0.7398, 0.1764, 18.4),
            Relevance(0.7340, 0.2462, 17.6),
        ),
        "asc": Baseline(
            49.1,
            Relevance(0.3966, 0.6824, 15.2),
            62.2,
            Relevance(0.7398, 0.1764, 15.3),
            Relevance(0.7340, 0.2462, 14.8),
        ),
        "anytime 0.9": Baseline(
            62.7,
            Relevance(0.3815, 0.6111, 15.3),
            61.1,
            Relevance(0.7392, 0.1775, 15.9),
            Relevance(0.7126, 0.2382, 15.2),
        ),
        "asc 0.9": Baseline(
            7.99,
            Relevance(0.3964, 0.6813, 11.4),
            55.9,
            Relevance(0.7403, 0.1764, 11.6),
            Relevance(0.7338, 0.2464, 11.5),
        ),
    },
    1000: {
        "maxscore": Baseline(
            None, Relevance(0.3966, 0.9802, 65.8), 209, Relevance(0.7398, 0.8207, 67.0), Relevance(0.7340, 0.8221, 63.2)
        ),
        "anytime": Baseline(
            93.0, Relevance(0.3966, 0.9802, 50.1), 158, Relevance(0.7398, 0.8207, 54.3), Relevance(0.7340, 0.8221, 51.1)
        ),
        "asc": Baseline(
            86.3, Relevance(0.3966, 0.9802, 45.8), 148, Relevance(0.7398, 0.8207, 49.9), Relevance(0.7340, 0.8221, 46.6)
        ),
        "anytime 0.9": Baseline(
            91.4, Relevance(0.3966, 0.9801, 46.0), 149, Relevance(0.7398, 0.8205, 45.1), Relevance(0.7340, 0.8206, 42.8)
        ),
        "asc 0.7": Baseline(
            21.7, Relevance(0.3966, 0.9799, 38.8), 135, Relevance(0.7398, 0.8188, 40.5), Relevance(0.7340, 0.8218, 37.3)
        ),
        "anytime 0.7": Baseline(
            88.9, Relevance(0.3963, 0.9696, 37.1), 127, Relevance(0.7398, 0.7881, 37.9), Relevance(0.7340, 0.7937, 36.7)
        ),
        "asc 0.5": Baseline(
            8.10, Relevance(0.3962, 0.9739, 21.8), 101, Relevance(0.7398, 0.7977, 22.8), Relevance(0.7355, 0.7989, 21.7)
        ),
    },
}

TABLE_5_MODELS = ("uniCOIL", "LexMAE w/ title", "LexMAE w/o title")
#: By k and key of a row, as Table 4; a value per model: MRR@10, Recall@k, time.
TABLE_5: Mapping[int, Mapping[str, tuple[Relevance, ...]]] = {
    10: {
        "maxscore": (Relevance(0.352, 0.617, 6.0), Relevance(0.425, 0.718, 47), Relevance(0.392, 0.677, 46)),
        "anytime": (Relevance(0.352, 0.617, 5.0), Relevance(0.425, 0.718, 27), Relevance(0.392, 0.677, 25)),
        "asc": (Relevance(0.352, 0.617, 4.1), Relevance(0.425, 0.718, 21), Relevance(0.392, 0.677, 21)),
        "anytime 0.9": (Relevance(0.345, 0.585, 4.2), Relevance(0.413, 0.654, 22), Relevance(0.382, 0.623, 21)),
        "asc 0.9": (Relevance(0.352, 0.614, 3.9), Relevance(0.425, 0.718, 16), Relevance(0.393, 0.677, 15)),
    },
    1000: {
        "maxscore": (Relevance(0.352, 0.958, 19), Relevance(0.425, 0.988, 94), Relevance(0.392, 0.983, 92)),
        "anytime": (Relevance(0.352, 0.958, 14), Relevance(0.425, 0.988, 67), Relevance(0.392, 0.983, 64)),
        "asc": (Relevance(0.352, 0.958, 13), Relevance(0.425, 0.988, 64), Relevance(0.392, 0.983, 61)),
        "anytime 0.7": (Relevance(0.351, 0.940, 8.9), Relevance(0.425, 0.978, 46), Relevance(0.392, 0.972, 50)),
        "asc 0.5": (Relevance(0.351, 0.946, 6.4), Relevance(0.425, 0.980, 26), Relevance(0.392, 0.975, 25)),
    },
}


class Point(NamedTuple):
    """nDCG@10 and mean time of one method on one collection."""

    ndcg: float
    ms: float


class ZeroShot(NamedTuple):
    """A row of Table 6, k = 10."""

    maxscore: Point
    anytime: Point
    asc: Point


TABLE_6: Mapping[str, ZeroShot] = {
    "DBPedia": ZeroShot(Point(0.4430, 81.2), Point(0.4314, 58.1), Point(0.4415, 50.8)),
    "FiQA": ZeroShot(Point(0.3581, 3.64), Point(0.3563, 2.49), Point(0.3584, 2.67)),
    "NQ": ZeroShot(Point(0.5551, 44.9), Point(0.5454, 39.8), Point(0.5486, 25.6)),
    "HotpotQA": ZeroShot(Point(0.6815, 323), Point(0.6738, 270), Point(0.6798, 260)),
    "NFCorpus": ZeroShot(Point(0.3517, 0.17), Point(0.3498, 0.15), Point(0.3516, 0.17)),
    "T-COVID": ZeroShot(Point(0.7188, 5.20), Point(0.6727, 2.48), Point(0.7188, 2.64)),
    "Touche-2020": ZeroShot(Point(0.3069, 4.73), Point(0.2814, 2.27), Point(0.3069, 2.00)),
    "ArguAna": ZeroShot(Point(0.4318, 9.07), Point(0.4110, 9.17), Point(0.4319, 9.02)),
    "C-FEVER": ZeroShot(Point(0.2429, 895), Point(0.2419, 735), Point(0.2429, 738)),
    "FEVER": ZeroShot(Point(0.7855, 694), Point(0.7823, 587), Point(0.7857, 557)),
    "Quora": ZeroShot(Point(0.8061, 5.16), Point(0.7949, 2.05), Point(0.8059, 1.73)),
    "SCIDOCS": ZeroShot(Point(0.1508, 2.53), Point(0.1501, 2.17), Point(0.1509, 2.13)),
    "SciFact": ZeroShot(Point(0.6764, 2.54), Point(0.6733, 2.45), Point(0.6764, 2.42)),
}


class Average(NamedTuple):
    """The last row of Table 6: mean nDCG@10, and mean over collections of MaxScore's time over the method's."""

    maxscore_ndcg: float
    anytime_ndcg: float
    anytime_speedup: float
    asc_ndcg: float
    asc_speedup: float


#: By k. The paper prints 0.5006 as ASC's average at k = 10; the mean of its own column of 13 values is 0.4999, so that
#: its ASC loses 0.14 % of MaxScore's 0.5007 rather than 0.02 %. The other averages are the means of their columns.
TABLE_6_AVERAGE: Mapping[int, Average] = {
    10: Average(0.5007, 0.4896, 1.43, 0.5006, 1.54),
    1000: Average(0.5007, 0.4982, 1.96, 0.4994, 3.12),
}


class Budgeted(NamedTuple):
    """A row of Table 7."""

    mrr: float
    recall: float
    ms: float
    p99_ms: float


#: By k, in milliseconds.
TABLE_7_BUDGET: Mapping[int, float] = {10: 10.0, 1000: 20.0}
#: By k and key of a row.
TABLE_7: Mapping[int, Mapping[str, Budgeted]] = {
    10: {
        "anytime": Budgeted(0.3697, 0.6316, 8.34, 10.3),
        "asc": Budgeted(0.3950, 0.6779, 7.31, 10.1),
        "anytime 0.9": Budgeted(0.3604, 0.5750, 7.70, 10.2),
        "asc 0.9": Budgeted(0.3951, 0.6782, 6.81, 10.0),
    },
    1000: {
        "anytime": Budgeted(0.3642, 0.8648, 19.1, 20.4),
        "asc": Budgeted(0.3941, 0.9656, 19.9, 20.1),
        "anytime 0.9": Budgeted(0.3631, 0.8635, 19.1, 20.3),
        "asc 0.7": Budgeted(0.3954, 0.9695, 17.0, 20.0),
    },
}


class Space(NamedTuple):
    """Section 3.2: what segment maxima add to the SPLADE index of MS MARCO, 4096 clusters of 8 segments."""

    maxscore_gb: float
    asc_gb: float
    overhead_percent: float


SECTION_3_2 = Space(maxscore_gb=5.6, asc_gb=6.2, overhead_percent=9)


class StaticPruning(NamedTuple):
    """Section 4.4: SPLADE with static pruning (HT3), k = 1000, by MaxScore and by ASC 4096*8, μ = 0.5, η = 1."""

    maxscore_mrr: float
    maxscore_ms: float
    asc_mrr: float
    asc_ms: float
    speedup: float


SECTION_4_4 = StaticPruning(maxscore_mrr=0.3942, maxscore_ms=24.7, asc_mrr=0.3933, asc_ms=7.43, speedup=3.3)

FIGURE_3 = (
    "Figure 3 of the paper shows Recall@1000 against latency of Anytime* on MS MARCO Dev (SPLADE), a curve per "
    "number of clusters from 256 to 4096, with μ = 0.3, 0.5, 0.7, 0.9 and 1 from left to right. Its text says that "
    "recall is retained well at μ = 0.9 but drops visibly as μ becomes small, and that with more clusters the work per "
    "cluster can offset the benefit. It prints no values."
)
FIGURE_3_CLUSTERS = (256, 512, 1024, 2048, 4096)
FIGURE_3_MU = (0.3, 0.5, 0.7, 0.9, 1.0)

FIGURE_6 = (
    "Figure 6 of the paper shows Recall@1000 against latency of ASC on MS MARCO Dev (SPLADE, k = 1000, η = 1), a curve "
    "per number of clusters and of segments, with μ = 0.4, 0.5, 0.6, 0.7 and 1 from left to right (by its caption; the "
    "text says from 0.3). Its text says that curves of more clusters span more latency, that 512 clusters suit safe "
    "pruning (μ = 1), and that 4096 give the better latency at small μ. It prints no values, and which curves it shows "
    "beside these two numbers of clusters its text does not say."
)
FIGURE_6_MU = (0.4, 0.5, 0.6, 0.7, 1.0)
