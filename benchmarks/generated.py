"""Collections of any size that behave like the wiki vectors: `python -m benchmarks.generated --help`.

A generated document is a real one (its parent) in which about a sixth of the vocabulary comes from similar documents
(its relatives), with varied weights. The vocabulary is cut into ranges, and a range comes whole from one document. So
nothing has to be merged or sorted, terms of a range stay together as they do in texts, and a parent can have more
different children than any benchmark needs (one in fifteen differs from it only in weights). A parent is used again
only after all others: a collection as large as the real one has the same topics in the same proportions, and a larger
one has the same topics with more documents each.

Crossing documents makes them more average, so the best documents of a query would get lower scores. The strength, a
factor common to all weights of a document, restores that variance.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import ndtri

import segmax
from benchmarks import wiki

#: Rows that share a random stream: few, so that their data stay in the cache.
BLOCK = 1024
RANGES = 16
RELATIVES = 8
#: How many of 256 ranges come from the parent; the relatives share the others evenly.
OWN = 216
#: Standard deviations of the logarithm of a weight: of each weight, and of all weights of a document.
JITTER = 0.1
STRENGTH = 0.1

_JITTER_BITS = 5
_STRENGTH_BITS = 4
_DIMENSIONS = 128
_CELL = 512
_TELLING = math.log(20)  # terms in more than a twentieth of the documents only take time
_PART = 8192
_DOCS_PER_CLUSTER = 366


@dataclass(frozen=True)
class Generator:
    """Real documents, prepared to generate new ones; 250 MB for the wiki vectors.

    Attributes
    ----------
    packed
        All postings as term << 8 | weight.
    bounds
        Where the postings of each range of a document start, and the end of the last: (documents, RANGES + 1).
    family
        A document and its relatives: (documents, 1 + RELATIVES).
    num_terms
        Size of the vocabulary.
    queries
        Queries with the same vocabulary; no rows if none were given.
    """

    packed: NDArray[np.uint32]
    bounds: NDArray[np.uint32]
    family: NDArray[np.int32]
    num_terms: int
    queries: sp.csr_matrix

    @classmethod
    def fit(cls, docs: sp.csr_matrix, seed: int = 0, *, queries: sp.csr_matrix | None = None) -> Generator:
        """Learn from real documents with canonical rows and weights from 1 to 255."""
        if queries is None:
            queries = docs[:0]
        packed = docs.indices.astype(np.uint32)
        packed <<= np.uint32(8)
        packed |= docs.data.astype(np.uint8)
        family = _families(docs, np.random.default_rng(seed))
        return cls(packed, _range_bounds(docs), family, docs.shape[1], queries)

    def save(self, path: Path) -> None:
        """Write to an .npz file."""
        queries = {f"query_{name}": getattr(self.queries, name) for name in ("data", "indices", "indptr")}
        np.savez(path, packed=self.packed, bounds=self.bounds, family=self.family, terms=self.num_terms, **queries)

    @classmethod
    def load(cls, path: Path) -> Generator:
        """Read what `save` wrote."""
        with np.load(path) as file:
            terms = int(file["terms"])
            parts = (file["query_data"], file["query_indices"], file["query_indptr"])
            queries = sp.csr_matrix(parts, shape=(len(parts[2]) - 1, terms))
            return cls(file["packed"], file["bounds"], file["family"], terms, queries)

    @property
    def num_parents(self) -> int:
        """Number of real documents."""
        return len(self.bounds)

    def parents(self, rows: NDArray[np.int64], seed: int = 0) -> NDArray[np.int64]:
        """Return the parents of generated rows; the label of a parent is also one for its rows.

        Every run of `num_parents` rows uses each parent once, in an order of its own: a linear congruence, which needs
        no table and can start anywhere.
        """
        count = self.num_parents
        runs, places = np.divmod(rows, count)
        result = np.empty(len(rows), dtype=np.int64)
        for run in np.unique(runs):
            rng = np.random.default_rng((seed, 0, int(run)))
            factor, shift = int(rng.integers(count)), int(rng.integers(count))
            while math.gcd(factor, count) > 1:
                factor += 1
            chosen = runs == run
            result[chosen] = (places[chosen] * factor + shift) % count
        return result

    def batches(self, num_docs: int, mean_terms: float, batch: int = 16384, seed: int = 0) -> Iterator[sp.csr_matrix]:
        """Generate documents in order.

        A row depends on its number, `seed` and `mean_terms` only: neither `num_docs` nor `batch` changes it.

        Parameters
        ----------
        num_docs
            How many documents.
        mean_terms
            Mean number of terms, at most that of the real documents. Light terms are dropped first.
        batch
            Rows per matrix, a multiple of `BLOCK`; the last may have fewer.
        seed
            A random seed.

        Yields
        ------
        csr_matrix
            uint8 weights >= 1, terms of a row ascending and distinct.
        """
        if batch <= 0 or batch % BLOCK:
            msg = f"expected a batch that is a multiple of {BLOCK}, got {batch}"
            raise ValueError(msg)
        counts = np.zeros(256, dtype=np.int64)
        for start in range(0, len(self.packed), 1 << 20):  # in parts, because bincount takes 8 bytes per weight
            counts += np.bincount(self.packed[start : start + (1 << 20)].astype(np.uint8), minlength=256)
        keep = _keep_table(counts / self.num_parents, mean_terms)
        varied = _varied_weights(int(np.flatnonzero(counts)[0]))
        for start in range(0, num_docs, batch):
            blocks = range(start, min(start + batch, num_docs), BLOCK)
            parts = [self._block(first // BLOCK, seed, keep, varied) for first in blocks]
            yield _joined(parts, self.num_terms, min(batch, num_docs - start))

    def _block(
        self, block: int, seed: int, keep: NDArray[np.uint16], varied: NDArray[np.uint8]
    ) -> tuple[NDArray[np.uint8], NDArray[np.int32], NDArray[np.int64]]:
        """Return weights, terms and row ends of the rows of a block."""
        rng = np.random.default_rng((seed, 1, block))
        rows = np.arange(block * BLOCK, (block + 1) * BLOCK, dtype=np.int64)
        postings, ends = self._crossed(self.parents(rows, seed), rng)
        kept = np.flatnonzero(keep.take(postings & np.uint32(255)) >= _random(rng, len(postings), np.uint16))
        postings, ends = postings.take(kept), np.searchsorted(kept, ends)
        return _weights(postings, ends, varied, rng), (postings >> np.uint32(8)).astype(np.int32), ends

    def _crossed(
        self, parents: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Return postings and row ends of rows; each range comes from a member of the parent's family."""
        members = _MEMBERS.take(_random(rng, len(parents) * RANGES, np.uint8)).reshape(-1, RANGES)
        members += parents[:, None] * self.family.shape[1]
        sources = self.family.ravel().take(members).astype(np.int64) * (RANGES + 1) + np.arange(RANGES)
        starts = self.bounds.ravel().take(sources.ravel()).astype(np.int64)
        sizes = self.bounds.ravel().take(sources.ravel() + 1) - starts
        ends = np.cumsum(sizes)
        places = np.repeat(starts - (ends - sizes), sizes)
        places += np.arange(len(places))
        return self.packed.take(places), ends[RANGES - 1 :: RANGES]


def _member_table() -> NDArray[np.int64]:
    """Turn a random byte into a member of a family, most often the parent."""
    others = np.arange(256 - OWN) % RELATIVES + 1
    return np.concatenate([np.zeros(OWN, dtype=np.int64), others])


_MEMBERS = _member_table()


def _random(rng: np.random.Generator, size: int, dtype: type[Any]) -> NDArray[Any]:
    """Return random integers over the whole range of a type, several times faster than `rng.integers`."""
    words: NDArray[np.uint64] = rng.bit_generator.random_raw(size * np.dtype(dtype).itemsize // 8 + 1)
    numbers: NDArray[Any] = words.view(dtype)[:size]
    return numbers


def _weights(
    postings: NDArray[np.uint32], ends: NDArray[np.int64], varied: NDArray[np.uint8], rng: np.random.Generator
) -> NDArray[np.uint8]:
    """Vary the weights of postings by the strength of their row and by their own jitter."""
    strengths = _random(rng, len(ends), np.uint8) >> np.uint8(8 - _STRENGTH_BITS)
    keys = np.repeat(strengths.astype(np.uint32) << np.uint32(8 + _JITTER_BITS), np.diff(ends, prepend=0))
    keys |= (postings & np.uint32(255)) << np.uint32(_JITTER_BITS)
    keys |= _random(rng, len(postings), np.uint8) >> np.uint8(8 - _JITTER_BITS)
    return varied.take(keys)


def _varied_weights(lightest: int) -> NDArray[np.uint8]:
    """Make the table of varied weights by strength, weight and jitter, from quantiles of two normal distributions."""
    strength = STRENGTH * _normal_quantiles(1 << _STRENGTH_BITS)[:, None, None]
    jitter = JITTER * _normal_quantiles(1 << _JITTER_BITS)
    factors = np.exp(strength + jitter - (STRENGTH**2 + JITTER**2) / 2)  # of mean 1
    weights = np.rint(np.arange(256)[:, None] * factors)
    return np.clip(weights, lightest, 255).astype(np.uint8).ravel()


def _normal_quantiles(count: int) -> NDArray[np.float64]:
    return np.asarray(ndtri((np.arange(count) + 0.5) / count), dtype=np.float64)


def _keep_table(per_doc: NDArray[np.float64], mean_terms: float) -> NDArray[np.uint16]:
    """Return, for every weight, the chance (of 65,535) that its posting stays: (weight / limit)², at most 1.

    A model that makes shorter vectors drops small weights, but without a sharp limit.
    """
    if not 0 < mean_terms <= per_doc.sum() * 1.01:
        msg = f"expected 0 < mean_terms <= {per_doc.sum():.1f}, the mean of the real documents, got {mean_terms}"
        raise ValueError(msg)
    weights = np.arange(256)
    low, high = 0.1, 1e5
    for _ in range(60):
        limit = math.sqrt(low * high)
        if (per_doc * np.minimum(1, (weights / limit) ** 2)).sum() > mean_terms:
            low = limit
        else:
            high = limit
    chances: NDArray[np.float64] = np.rint(np.minimum(1, (weights / low) ** 2) * 65535)
    return chances.astype(np.uint16)


def _joined(
    parts: list[tuple[NDArray[np.uint8], NDArray[np.int32], NDArray[np.int64]]], num_terms: int, num_rows: int
) -> sp.csr_matrix:
    """Put blocks together and cut what is beyond the last row."""
    sizes = np.concatenate([np.diff(ends, prepend=0) for _, _, ends in parts])[:num_rows]
    indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    weights = np.concatenate([part[0] for part in parts])[: indptr[-1]]
    terms = np.concatenate([part[1] for part in parts])[: indptr[-1]]
    matrix = sp.csr_matrix((weights, terms, indptr), shape=(num_rows, num_terms))
    matrix.has_canonical_format = True
    return matrix


def _range_bounds(docs: sp.csr_matrix) -> NDArray[np.uint32]:
    """Cut the vocabulary into ranges of about equally many postings and find where they start in each document."""
    before = np.cumsum(np.bincount(docs.indices, minlength=docs.shape[1])) - 1
    range_of = (np.maximum(before, 0) * RANGES // max(docs.nnz, 1)).astype(np.int64)
    bounds = np.empty((docs.shape[0], RANGES + 1), dtype=np.uint32)
    for start in range(0, docs.shape[0], _PART):
        indptr = docs.indptr[start : start + _PART + 1].astype(np.int64)
        keys = range_of[docs.indices[indptr[0] : indptr[-1]]]
        keys += np.repeat(np.arange(len(indptr) - 1) * RANGES, np.diff(indptr))
        counts = np.bincount(keys, minlength=(len(indptr) - 1) * RANGES)
        bounds[start : start + _PART, 0] = indptr[:-1]
        bounds[start : start + _PART, 1:] = indptr[0] + np.cumsum(counts).reshape(-1, RANGES)
    return bounds


def _families(docs: sp.csr_matrix, rng: np.random.Generator) -> NDArray[np.int32]:
    """Find each document's nearest neighbors in its cell."""
    rarity = _rarity(docs)
    cells = _cells(_sketch(docs, rarity, rng), max(1, docs.shape[0] // _CELL), rng)
    order = np.argsort(cells, kind="stable")
    families = np.empty((docs.shape[0], 1 + RELATIVES), dtype=np.int32)
    families[:, 0] = np.arange(docs.shape[0])
    for members in np.split(order, np.flatnonzero(np.diff(cells[order])) + 1):
        for part in np.array_split(members, -(-len(members) // (4 * _CELL))):  # the cost is quadratic
            families[part, 1:] = part[_relatives(docs[part], rarity)]
    return families


def _relatives(docs: sp.csr_matrix, rarity: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return the nearest neighbors of each document by exact cosines; those of sketches are too noisy."""
    if docs.shape[0] <= RELATIVES:
        return np.tile(np.resize(np.arange(docs.shape[0]), RELATIVES), (docs.shape[0], 1))
    values = docs.data * np.where(rarity < _TELLING, 0, rarity)[docs.indices]
    points = sp.csr_matrix((values, docs.indices, docs.indptr), shape=docs.shape)
    points.eliminate_zeros()
    norms = np.sqrt(np.asarray(points.multiply(points).sum(axis=1))).ravel()
    likeness = (points @ points.T).toarray() / np.maximum(norms, 1e-9)
    np.fill_diagonal(likeness, -1)  # no document is its own relative
    nearest: NDArray[np.int64] = np.argpartition(likeness, -RELATIVES, axis=1)[:, -RELATIVES:]
    return nearest


def _rarity(docs: sp.csr_matrix) -> NDArray[np.float32]:
    """Return the weight of terms in comparisons of topics: rare terms weigh more."""
    frequency = np.bincount(docs.indices, minlength=docs.shape[1])
    return np.log((1 + docs.shape[0]) / (1 + frequency)).astype(np.float32)


def _sketch(docs: sp.csr_matrix, rarity: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.float32]:
    """Project documents to a few dimensions."""
    projection = rng.standard_normal((docs.shape[1], _DIMENSIONS), dtype=np.float32)
    projection *= rarity[:, None]
    points = np.empty((docs.shape[0], _DIMENSIONS), dtype=np.float32)
    for start in range(0, len(points), _PART):
        points[start : start + _PART] = docs[start : start + _PART].astype(np.float32) @ projection
    return _normalized(points)


def _normalized(points: NDArray[np.float32]) -> NDArray[np.float32]:
    points /= np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-9)
    return points


def _cells(points: NDArray[np.float32], count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Divide points into cells by a short spherical k-means on a sample."""
    sample = points[rng.permutation(len(points))[: 32 * count]]
    centers = sample[:count].copy()
    for _ in range(5):
        nearest = _nearest(sample, centers)
        ones = np.ones(len(sample), dtype=np.float32)
        members = sp.csr_matrix((ones, (nearest, np.arange(len(sample)))), shape=(count, len(sample)))
        centers = _normalized(np.asarray(members @ sample + 1e-3 * centers, dtype=np.float32))  # empty cells stay
    return _nearest(points, centers)


def _nearest(points: NDArray[np.float32], centers: NDArray[np.float32]) -> NDArray[np.int64]:
    nearest = np.empty(len(points), dtype=np.int64)
    for start in range(0, len(points), _PART):
        nearest[start : start + _PART] = np.argmax(points[start : start + _PART] @ centers.T, axis=1)
    return nearest


def clusters_visited(docs: sp.csr_matrix, queries: sp.csr_matrix, labels: NDArray[Any] | None = None) -> float:
    """Return the share of clusters that exact asc visits at k = 10, for clusters by k-means or as given."""
    count = max(1, docs.shape[0] // _DOCS_PER_CLUSTER)
    index = segmax.build(docs, clustering=labels, config=segmax.BuildConfig(num_clusters=count), threads=1)
    batch = index.search_batch(queries, k=10, params=segmax.paper.ASC(), threads=1)
    return float(batch.stats.clusters_visited.mean()) / index.num_clusters


def describe(
    real: sp.csr_matrix,
    made: sp.csr_matrix,
    queries: sp.csr_matrix,
    labels: tuple[NDArray[Any], NDArray[Any]] | None = None,
) -> dict[str, tuple[float, float]]:
    """Return the figures that compare real and generated documents, for both."""
    given = labels or (None, None)
    one, other = _figures(real, queries, given[0]), _figures(made, queries, given[1])
    result = {name: (value, other[name]) for name, value in one.items()}
    result["correlation of log document frequencies"] = (1.0, _frequency_correlation(real, made))
    return result


def _figures(docs: sp.csr_matrix, queries: sp.csr_matrix, labels: NDArray[Any] | None) -> dict[str, float]:
    lengths = np.diff(docs.indptr)
    counts = np.cumsum(np.bincount(docs.data, minlength=256))
    figures = {"terms, mean": float(lengths.mean()), "terms, standard deviation": float(lengths.std())}
    for percent in (1, 10, 50, 90, 99):
        figures[f"terms, {percent} %"] = float(np.percentile(lengths, percent))
    for percent in (1, 10, 50, 90, 99):
        figures[f"weight, {percent} %"] = float(np.searchsorted(counts, counts[-1] * percent / 100))
    figures["clusters visited, k-means"] = clusters_visited(docs, queries)
    if labels is not None:
        figures["clusters visited, given"] = clusters_visited(docs, queries, labels)
    return figures


def _frequency_correlation(one: sp.csr_matrix, other: sp.csr_matrix) -> float:
    """Return the correlation of log(1 + document frequency) of all terms that occur in either."""
    counts = [np.bincount(docs.indices, minlength=docs.shape[1]) for docs in (one, other)]
    logs = np.log1p(np.array(counts)[:, np.maximum(*counts) > 0])
    return float(np.corrcoef(logs)[0, 1])


def _fitted(docs: sp.csr_matrix, queries: sp.csr_matrix, cache: Path | None) -> Generator:
    if cache is not None and cache.exists():
        return Generator.load(cache)
    start = time.perf_counter()
    generator = Generator.fit(docs, queries=queries)
    print(f"fitted in {time.perf_counter() - start:.1f} s")
    if cache is not None:
        generator.save(cache)
    return generator


def main() -> None:
    """Parse, generate, compare, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.generated", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--wiki", type=Path, default=wiki.DEFAULT_FOLDER, help="the folder of the wiki vectors")
    parser.add_argument("--docs", type=int, default=281_250, help="how many to generate")
    parser.add_argument("--terms", type=float, help="mean terms per document; default: that of the real ones")
    parser.add_argument("--queries", type=int, default=300, help="use only the first N")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cache", type=Path, help="an .npz file to store the fitted generator")
    args = parser.parse_args()
    docs, queries, labels = wiki.load(args.wiki, 768)
    generator = _fitted(docs, queries, args.cache)
    terms = args.terms or docs.nnz / docs.shape[0]
    start = time.perf_counter()
    batches = list(generator.batches(args.docs, terms, seed=args.seed))
    seconds = time.perf_counter() - start
    made = sp.vstack(batches, format="csr")
    del batches
    print(f"{made.shape[0]} documents, {made.nnz / seconds / 1e6:.1f} million postings per second")
    both = None if labels is None else (labels, labels[generator.parents(np.arange(args.docs), args.seed)])
    print("\n| figure | real | generated |\n| --- | --- | --- |")
    for name, (real, new) in describe(docs, made, queries[: args.queries], both).items():
        print(f"| {name} | {real:.4g} | {new:.4g} |")


if __name__ == "__main__":
    main()
