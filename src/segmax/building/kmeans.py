"""Spherical k-means, the same for any number of threads, and clusters of even size.

The steps are those of FAISS, with numpy's products of matrices. Each runs in one thread; our own threads run several of
them, each on a batch of fixed size.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from segmax.base.parallel import Workers, ranges
from segmax.base.progress import Stage
from segmax.base.scratch import ScratchFile
from segmax.building.points import Floats, Points, normalized
from segmax.building.resources import BuildResources
from segmax.storage.config import DOCS_PER_CLUSTER
from segmax.vectors.rows import sample_rows, stable_order

#: Documents per cluster that k-means is trained on.
SAMPLE_PER_CLUSTER = 64
_FLAT_CLUSTERS = 512  # more are found in two levels
_PROBED_CELLS = 4
_CELL_ITERATIONS = 10  # to find cells for given centroids
_SPLIT_FLOATS = 1 << 22  # of clusters that are split together
_BLOCK = 2048  # points, and centroids, that are compared at a time
_APART = 1 / 1024  # by which two halves of a cluster differ at first
_BATCH = 4096  # points in memory at a time, where there may be many
_RESTART_STEP = 7919
_LARGE = 1.5  # times the target: to be split
_TINY = 1 / 8  # times the target: to be dissolved


class KMeansOptions(NamedTuple):
    """How k-means is run."""

    seed: int
    restarts: int
    iterations: int
    is_even: bool = False  #: cut clusters anew, to `DOCS_PER_CLUSTER` documents each


def kmeans(points: Points, num_clusters: int, options: KMeansOptions, resources: BuildResources) -> NDArray[np.int64]:
    """Return a label below `num_clusters` per row; clusters are of similar size, as far as the points allow.

    Call it inside `points.one_thread`.
    """
    num_cells = 0 if num_clusters <= _FLAT_CLUSTERS else round(num_clusters**0.5)
    progress, workers = resources.progress, resources.workers
    with progress.stage("cluster", options.restarts + num_cells, "runs") as stage:
        sample = _Sample(points, num_clusters * SAMPLE_PER_CLUSTER, options.seed, resources)
        trainer = _Trainer(options, workers, stage)
        assigner = (
            trainer.two_levels(sample, num_clusters, num_cells) if num_cells else trainer.flat(sample, num_clusters)
        )
        del sample
    labels = np.empty(points.num_rows, dtype=np.int64)
    with progress.stage("assign", points.num_rows, "documents") as stage:
        at = 0
        for found in workers.map(lambda number: assigner.nearest(points.batch(number)), range(points.num_batches)):
            labels[at : at + len(found)] = found
            at += len(found)
            stage.advance(len(found))
    with progress.stage("balance", points.num_rows, "documents") as stage:
        labels, centroids = _balanced(points, labels, assigner, num_clusters, stage)
    return _one_size(points, labels, centroids, resources) if options.is_even else labels


class _Sample:
    """The points to train on, in a file if memory is short; the choice does not depend on memory."""

    def __init__(self, points: Points, count: int, seed: int, resources: BuildResources) -> None:
        rows = sample_rows(points.num_rows, count, seed)
        pieces = (points.encode(points.take(rows[start : start + _BATCH])) for start in range(0, len(rows), _BATCH))
        first = next(pieces)
        self._decode = points.decode
        if first.nbytes / len(first) * len(rows) <= resources.limit.available() / 4:
            self._kept = np.concatenate([first, *pieces])
            return
        with ScratchFile(resources.folder) as file:
            file.write(first)
            for piece in pieces:
                file.write(piece)
            width = first.shape[1]
            self._kept = file.mapped([(first.dtype, len(rows) * width)])[0].reshape(-1, width)

    def __len__(self) -> int:
        return len(self._kept)

    def take(self, numbers: NDArray[np.int64]) -> Floats:
        """Return some of the points."""
        return self._decode(self._kept[numbers])

    def batches(self) -> Iterator[Floats]:
        """Yield all points, a few at a time."""
        return (self._decode(self._kept[start : start + _BATCH]) for start in range(0, len(self), _BATCH))


class Cells(NamedTuple):
    """Many centroids in groups: of a point, only those in the nearest cells are compared."""

    centers: Floats
    owner: NDArray[np.int64]  #: by centroid: its cell


def cells_of(centroids: Floats, seed: int) -> Cells | None:
    """Return cells for centroids; None where there are so few that a point is compared with all of them.

    Call it inside `points.one_thread`.
    """
    if len(centroids) <= _FLAT_CLUSTERS:
        return None
    centers = _spherical(centroids, round(len(centroids) ** 0.5), seed, _CELL_ITERATIONS)[1]
    return Cells(centers, Assigner(centers).nearest(centroids))


def centroids_of(points: Points, labels: NDArray[np.int64], num_clusters: int) -> Floats:
    """Return the mean of every cluster, scaled to unit length."""
    sums: NDArray[np.float64] | None = None
    at = 0
    for number in range(points.num_batches):
        batch = points.batch(number)
        if sums is None:
            sums = np.zeros((num_clusters, batch.shape[1]))
        np.add.at(sums, labels[at : at + len(batch)], batch)
        at += len(batch)
    assert sums is not None  # there is a document
    lengths = np.sqrt((sums * sums).sum(axis=1))[:, None]
    return np.asarray(np.divide(sums, lengths, out=sums, where=lengths > 0), dtype=np.float32)


class Assigner:
    """Finds the nearest of many centroids; cells, where there are any, say where to look."""

    def __init__(self, centroids: Floats, cells: Cells | None = None) -> None:
        self.centroids = np.ascontiguousarray(centroids, dtype=np.float32)
        self._cells = None if cells is None else _Members(cells, self.centroids)

    def nearest(self, points: Floats) -> NDArray[np.int64]:
        """Return the number of the nearest centroid of every point; call it inside `points.one_thread`."""
        if self._cells is None:
            return _nearest(points, self.centroids)[0]
        blocks = [points[first : first + _BLOCK] for first in range(0, len(points), _BLOCK)]
        return np.concatenate([np.empty(0, np.int64), *map(self._cells.nearest, blocks)])


def _nearest(points: Floats, centroids: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Return the centroid with the largest product with every point, the first of equal ones, and that product."""
    labels, products = np.zeros(len(points), np.int64), np.full(len(points), -np.inf, np.float32)
    for first in range(0, len(points), _BLOCK):
        rows = slice(first, first + _BLOCK)
        for start in range(0, len(centroids), _BLOCK):
            _take_better(labels[rows], products[rows], points[rows] @ centroids[start : start + _BLOCK].T, start)
    return labels, products


def _take_better(labels: NDArray[np.int64], products: Floats, found: Floats, start: int) -> None:
    """Take the best column of every row over, where it is better than what there is; columns count from `start`."""
    column = found.argmax(axis=1)
    product = np.take_along_axis(found, column[:, None], axis=1)[:, 0]
    better = product > products
    labels[better] = column[better] + start
    products[better] = product[better]


class _Members:
    """The centroids of every cell, next to each other."""

    def __init__(self, cells: Cells, centroids: Floats) -> None:
        self._centers = cells.centers
        self._order = np.argsort(cells.owner, kind="stable")
        self._centroids = centroids[self._order]
        self._ends = np.cumsum(np.bincount(cells.owner, minlength=len(cells.centers)))

    def nearest(self, points: Floats) -> NDArray[np.int64]:
        """Return the nearest centroid of every point, among those in the cells nearest to it; 0 if there are none."""
        probed = min(_PROBED_CELLS, len(self._centers))
        near = np.argpartition(points @ self._centers.T, -probed, axis=1)[:, -probed:].reshape(-1)
        order = np.argsort(near, kind="stable")
        bounds = np.searchsorted(near[order], np.arange(len(self._centers) + 1))
        labels, products = np.zeros(len(points), np.int64), np.full(len(points), -np.inf, np.float32)
        first = 0
        for cell, last in enumerate(self._ends):
            rows = order[bounds[cell] : bounds[cell + 1]] // probed
            if len(rows) and first < last:
                label, product = labels[rows], products[rows]
                _take_better(label, product, points[rows] @ self._centroids[first:last].T, first)
                labels[rows], products[rows] = label, product
            first = last
        return np.asarray(np.where(np.isneginf(products), 0, self._order[labels]), dtype=np.int64)


class _Trainer:
    def __init__(self, options: KMeansOptions, workers: Workers, stage: Stage) -> None:
        self._seed, self._restarts, self._iterations = options.seed, options.restarts, options.iterations
        self._workers = workers
        self._stage = stage

    def flat(self, sample: _Sample, num_clusters: int) -> Assigner:
        """Run k-means on all of a small sample."""
        centroids = self._best(sample.take(np.arange(len(sample))), num_clusters)
        return Assigner(centroids)

    def _best(self, points: Floats, num_clusters: int) -> Floats:
        """Run k-means `restarts` times and keep the best result."""

        def run(restart: int) -> tuple[float, Floats]:
            return _spherical(points, num_clusters, self._seed + restart * _RESTART_STEP, self._iterations)

        best: tuple[float, Floats] | None = None
        for result in self._workers.map(run, range(self._restarts)):
            best = result if best is None or result[0] > best[0] else best
            self._stage.advance(1)
        assert best is not None
        return best[1]

    def two_levels(self, sample: _Sample, num_clusters: int, num_cells: int) -> Assigner:
        """Find cells, then clusters inside each in proportion to its size: the cost grows with √clusters."""
        cells = self._best(sample.take(sample_rows(len(sample), num_cells * 256, self._seed)), num_cells)
        coarse = Assigner(cells)
        cell_of = np.concatenate([coarse.nearest(points) for points in sample.batches()])
        sizes = np.bincount(cell_of, minlength=num_cells)
        shares = _shares(sizes, num_clusters)
        members = np.split(np.argsort(cell_of, kind="stable"), np.cumsum(sizes)[:-1])

        def run(cell: int) -> Floats:
            inside = sample.take(members[cell])
            if not 0 < shares[cell] < len(inside):  # none, where a tiny cell gets no share
                return inside[: shares[cell]]
            seeds = (self._seed + cell + restart * _RESTART_STEP for restart in range(self._restarts))
            results = [_spherical(inside, int(shares[cell]), seed, self._iterations) for seed in seeds]
            return max(results, key=lambda result: result[0])[1]

        found = []
        for inside in self._workers.map(run, range(num_cells)):
            found.append(inside)
            self._stage.advance(1)
        centroids = np.concatenate(found)
        owner = np.repeat(np.arange(num_cells), [len(part) for part in found])
        return Assigner(centroids, Cells(cells, owner))


def _shares(sizes: NDArray[np.int64], total: int) -> NDArray[np.int64]:
    """Split a total in proportion to sizes, in whole numbers."""
    exact: NDArray[np.float64] = sizes / sizes.sum() * total
    shares: NDArray[np.int64] = np.floor(exact).astype(np.int64)
    most_left: NDArray[np.int64] = np.argsort(shares - exact, kind="stable")
    shares[most_left[: total - int(shares.sum())]] += 1
    return shares


def _spherical(sample: Floats, num_clusters: int, seed: int, iterations: int) -> tuple[float, Floats]:
    """Run k-means by cosine; return the objective (larger is better) and the centroids."""
    if num_clusters >= len(sample):
        return 0.0, sample.copy()
    centroids = normalized(sample[_start(len(sample), num_clusters, seed)])
    objective = 0.0
    for _ in range(iterations):
        labels, products = _nearest(sample, centroids)
        objective = float(products.sum(dtype=np.float64))
        centroids = normalized(_means(sample, labels, num_clusters))
    return objective, centroids


def _start(num_points: int, count: int, seed: int) -> NDArray[np.int64]:
    """Draw so many different points; those that FAISS would draw."""
    numbers = np.random.RandomState(seed % 2**31 + 1).randint(0, 2**32, size=count, dtype=np.uint32)
    points = np.arange(num_points)
    for at, other in enumerate(np.arange(count) + numbers % np.arange(num_points, num_points - count, -1)):
        points[at], points[other] = points[other], points[at]
    return points[:count]


def _means(points: Floats, labels: NDArray[np.int64], num_clusters: int) -> Floats:
    """Return the mean of every cluster; one that is empty takes a half of the largest."""
    counts = np.bincount(labels, minlength=num_clusters)
    filled = np.flatnonzero(counts)
    starts = (np.cumsum(counts) - counts)[filled]
    means = np.zeros((num_clusters, points.shape[1]), dtype=np.float32)
    means[filled] = np.add.reduceat(points[stable_order(labels)], starts, axis=0)
    means[filled] /= counts[filled].astype(np.float32)[:, None]
    for empty in np.flatnonzero(counts == 0):
        largest = int(np.argmax(counts))
        counts[empty] = counts[largest] // 2
        counts[largest] -= counts[empty]
        apart = np.where(np.arange(means.shape[1]) % 2, -_APART, _APART).astype(np.float32)
        means[empty] = means[largest] * (1 + apart)
        means[largest] *= 1 - apart
    return means


def kmeans_small(points: Floats, num_clusters: int, seed: int, iterations: int) -> NDArray[np.int64]:
    """Return a label per point, all of them in memory; call it inside `points.one_thread`."""
    return Assigner(_spherical(points, num_clusters, seed, iterations)[1]).nearest(points)


# --- even sizes ------------------------------------------------------------------------------------------------------


def _balanced(
    points: Points, labels: NDArray[np.int64], assigner: Assigner, num_clusters: int, stage: Stage
) -> tuple[NDArray[np.int64], Floats]:
    """Dissolve tiny clusters and split large ones, so that sizes are near the target and the number is right.

    A bound holds for a whole cluster: a large one is visited for few of its documents, and a tiny one costs as much to
    bound as any other. The centroids are those from before; the parts of a split cluster share one.
    """
    sizes = np.bincount(labels, minlength=len(assigner.centroids))
    dissolved = _to_dissolve(sizes, num_clusters)
    labels = _dissolve(points, labels, assigner.centroids, dissolved)
    most_rows = max(1, _SPLIT_FLOATS // assigner.centroids.shape[1])
    sizes = np.bincount(labels, minlength=len(sizes))
    parts = _parts(sizes, num_clusters)
    return _split(points, labels, sizes, parts, most_rows, stage), np.repeat(assigner.centroids, parts, axis=0)


def _to_dissolve(sizes: NDArray[np.int64], num_clusters: int) -> NDArray[np.bool_]:
    """Mark tiny clusters, and as many more of the smallest as large ones need parts."""
    target = sizes.sum() / num_clusters
    dissolved: NDArray[np.bool_] = sizes < max(1.0, target * _TINY)
    by_size = np.argsort(sizes, kind="stable")
    count = int(dissolved.sum())
    # Dissolving one more cluster allows one more part, which helps while a part is still too large.
    while count < len(sizes) - 1:
        kept = np.delete(sizes, by_size[:count])
        parts = _parts(kept, num_clusters)
        if (kept / parts).max() <= _LARGE * target or parts.sum() < num_clusters:
            break
        count += max(1, int((np.ceil(kept / (_LARGE * target)) - parts).clip(0).sum()))
    dissolved[by_size[: min(count, len(sizes) - 1)]] = True
    return dissolved


def _parts(sizes: NDArray[np.int64], total: int) -> NDArray[np.int64]:
    """Return how many parts to cut every cluster into, `total` in all; the largest parts are cut first."""
    parts = (sizes > 0).astype(np.int64)
    waiting = [(-int(size), number) for number, size in enumerate(sizes) if size > 1]
    heapq.heapify(waiting)
    for _ in range(total - int(parts.sum())):
        if not waiting:
            break
        _, number = heapq.heappop(waiting)
        parts[number] += 1
        if parts[number] < sizes[number]:
            heapq.heappush(waiting, (-sizes[number] / parts[number], number))
    return parts


def _dissolve(
    points: Points, labels: NDArray[np.int64], centroids: Floats, dissolved: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Give the documents of dissolved clusters to the nearest of the others."""
    rows = np.flatnonzero(dissolved[labels])
    if len(rows) == 0:
        return labels
    kept = np.flatnonzero(~dissolved)
    labels = labels.copy()
    assigner = Assigner(centroids[kept])
    for start in range(0, len(rows), _BATCH):
        some = rows[start : start + _BATCH]
        labels[some] = kept[assigner.nearest(points.take(some))]
    return labels


def _split(
    points: Points,
    labels: NDArray[np.int64],
    sizes: NDArray[np.int64],
    parts: NDArray[np.int64],
    most_rows: int,
    stage: Stage,
) -> NDArray[np.int64]:
    """Cut clusters into so many parts each, and number all from 0."""
    first = np.cumsum(parts) - parts
    result = first[labels]
    order = np.argsort(labels, kind="stable")
    ends = np.cumsum(sizes)
    stage.advance(int(sizes[parts == 1].sum()))
    large = np.flatnonzero(parts > 1)
    for begin, end in ranges(np.concatenate([[0], np.cumsum(sizes[large])]), most_rows):
        group = large[begin:end]
        members = [order[ends[cluster] - sizes[cluster] : ends[cluster]] for cluster in group]
        source = points if len(group) == 1 else _Taken(points, np.sort(np.concatenate(members)))
        for cluster, rows in zip(group, members, strict=True):
            result[rows] += _bisected(source, rows, int(parts[cluster]))
            stage.advance(len(rows))
    return result


class _Rows(Protocol):
    """Has the points of rows."""

    def take(self, rows: NDArray[np.int64]) -> Floats:
        """Return the points of some rows, given in ascending order."""


class _Taken:
    """The points of several clusters, taken at once: finding many rows costs as much as finding few."""

    def __init__(self, points: Points, rows: NDArray[np.int64]) -> None:
        self._rows = rows
        self._points = points.take(rows)

    def take(self, rows: NDArray[np.int64]) -> Floats:
        return self._points[np.searchsorted(self._rows, rows)]


def _bisected(points: _Rows, rows: NDArray[np.int64], parts: int) -> NDArray[np.int64]:
    """Cut rows into parts of similar size, by repeated halving along the line between two means."""
    labels = np.zeros(len(rows), dtype=np.int64)
    if parts <= 1 or len(rows) <= 1:
        return labels
    left = parts // 2
    direction = _direction(points.take(rows[:: -(-len(rows) // _BATCH)]))
    place = np.concatenate(
        [points.take(rows[start : start + _BATCH]) @ direction for start in range(0, len(rows), _BATCH)]
    )
    order = np.argsort(place, kind="stable")  # ties by row
    low, high = np.split(order, [round(len(rows) * left / parts)])
    low.sort()
    high.sort()
    labels[low] = _bisected(points, rows[low], left)
    labels[high] = left + _bisected(points, rows[high], parts - left)
    return labels


def _direction(points: Floats) -> Floats:
    """Return the line from the mean of one half to that of the other."""
    mean = points.mean(axis=0, dtype=np.float64).astype(np.float32)
    far = points[np.argmin(points @ mean)]
    direction: Floats = points[np.argmin(points @ far)] - far
    for _ in range(8):
        place = points @ direction
        high = place > np.median(place)
        if not high.any() or high.all():
            break
        direction = normalized((points[high].mean(axis=0) - points[~high].mean(axis=0))[None])[0]
    return direction


# --- one size --------------------------------------------------------------------------------------------------------


def _one_size(
    points: Points, labels: NDArray[np.int64], centroids: Floats, resources: BuildResources
) -> NDArray[np.int64]:
    """Cut clusters anew, so that all but the last have DOCS_PER_CLUSTER documents, what a tile of the index holds.

    The blocks of a cluster then take one cache line of every row, not two. Clusters are put in an order in which
    neighbors are similar, and the documents of each between what is before it and what is behind it.
    """
    chain = _chain(centroids, np.arange(len(centroids)))
    place = np.empty_like(chain)
    place[chain] = np.arange(len(chain))
    placed = place[labels]
    last = len(chain) - 1
    steps = np.arange(len(chain))
    directions = centroids[chain[np.minimum(steps + 1, last)]] - centroids[chain[np.maximum(steps - 1, 0)]]
    along = np.empty(points.num_rows, dtype=np.float32)
    batches = resources.workers.map(points.batch, range(points.num_batches))
    with resources.progress.stage("even out", points.num_rows, "documents") as stage:
        at = 0
        for batch in batches:
            rows = slice(at, at + len(batch))
            along[rows] = np.einsum("ij,ij->i", batch, directions[placed[rows]])
            at += len(batch)
            stage.advance(len(batch))
    order = stable_order(placed)
    ends = np.cumsum(np.bincount(placed, minlength=len(chain)))
    for members in np.split(order, ends[:-1]):
        members[:] = members[np.argsort(along[members], kind="stable")]
    result = np.empty_like(labels)
    result[order] = np.minimum(np.arange(len(labels)) // DOCS_PER_CLUSTER, last)
    return result


def _chain(centroids: Floats, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers of centroids in an order in which neighbors are similar: by halves, and halves of these."""
    if len(numbers) <= 2:
        return numbers
    inside = centroids[numbers]
    order = np.argsort(inside @ _direction(inside), kind="stable")
    low, high = np.split(numbers[order], [len(numbers) // 2])
    return np.concatenate([_chain(centroids, low), _chain(centroids, high)])
