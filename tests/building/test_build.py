"""Building in a stream: the same bytes however it is done, every document once, nothing left behind, little memory."""

from __future__ import annotations

import bisect
import dataclasses
import errno
import inspect
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import segmax
from conftest import clusters_of, random_docs, refused, topic_docs
from reference import SAFE_METHODS, as_query, best
from segmax import _core
from segmax.base import memory
from segmax.building import assemble, kmeans, points, spool
from segmax.building.builder import BuildArguments, BuildKeywords
from segmax.clustering import Dense, Labels
from segmax.errors import ConfigError, FormatError, InputError, SegmaxWarning, WriteError
from segmax.paper import Anytime, MaxScore
from segmax.pruning import DocThreshold, MassShare, MaxPostings, QueryThreshold, TopTerms
from segmax.search.calibration import BUILD_QUERIES
from segmax.storage.config import BuildOptions
from segmax.vectors import rows as rows_module
from segmax.vectors.csr import Csr, matrix_to_csr
from segmax.vectors.pruning import prune_batches, prune_rows

SLAB_DOCS = 4096  # smaller than they are, so that few documents fill several
NUM_DOCS = 10_000  # three slabs
SRC = Path(segmax.__file__).parents[1]


def contents(path: Path) -> dict[str, bytes]:
    """All files of a directory."""
    return {file.name: file.read_bytes() for file in sorted(path.iterdir())}


def differing(one: dict[str, bytes], other: dict[str, bytes]) -> list[str]:
    """The names of files that are not the same in both: short to read where a test fails."""
    return [name for name in sorted(one.keys() | other.keys()) if one.get(name) != other.get(name)]


def as_matrix(docs: Csr) -> sp.csr_matrix:
    """A CSR triple as scipy's matrix."""
    return sp.csr_matrix((docs.values, docs.indices, docs.indptr), shape=(docs.num_rows, docs.num_columns))


def in_batches(docs: sp.csr_matrix, sizes: Iterable[int]) -> Iterator[sp.csr_matrix]:
    """Cut a matrix into batches of these sizes, over and over."""
    sizes = list(sizes)
    first = number = 0
    while first < docs.shape[0]:
        size = sizes[number % len(sizes)]
        yield docs[first : first + size]
        first += size
        number += 1


@pytest.fixture(scope="module", autouse=True)
def small_slabs() -> Iterator[None]:
    """Slabs of a few documents, and k-means in two levels for few clusters."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kmeans, "_FLAT_CLUSTERS", 64)
        for module in (spool, points, rows_module):
            patch.setattr(module, "SLAB_DOCS", SLAB_DOCS)
        yield


# --- the same bytes --------------------------------------------------------------------------------------------------


def whole_numbers() -> sp.csr_matrix:
    """Many short documents with topics, some of them without a term."""
    docs, _ = topic_docs(np.random.default_rng(5), NUM_DOCS)
    empty = np.random.default_rng(6).random(NUM_DOCS) < 0.01
    docs.data[np.repeat(empty, np.diff(docs.indptr))] = 0
    docs.eliminate_zeros()
    return docs


def floats() -> sp.csr_matrix:
    """The same terms with weights that have to be quantized; a few, in the last slab only, are very large."""
    docs = whole_numbers().astype(np.float64)
    rng = np.random.default_rng(7)
    docs.data *= rng.lognormal(size=docs.nnz)
    docs.data[-20:] *= 1000
    docs.eliminate_zeros()
    return docs.astype(np.float32)


PRUNING = (
    DocThreshold(threshold=2),
    MaxPostings(count=100),
    QueryThreshold(threshold=0.5),
    MassShare(share=0.9),
    MaxPostings(count=75),
    TopTerms(count=6),
)

#: What decides the content of an index: documents, options, what is clustered.
CASES: dict[str, tuple[Callable[[], sp.csr_matrix], dict[str, Any], Callable[[], Any] | None]] = {
    "whole numbers": (whole_numbers, {"num_clusters": 40}, None),
    "two levels of clusters": (floats, {"num_clusters": 128, "bits": 16}, None),
    "pruned": (floats, {"pruning": PRUNING}, None),
    "segments by k-means, compact": (
        whole_numbers,
        {"segmentation": "kmeans", "compact": True, "document_order": "row"},
        None,
    ),
    "dense": (
        floats,
        {"num_clusters": 30, "segmentation": "independent"},
        lambda: Dense(
            np.random.default_rng(8).normal(size=(NUM_DOCS, 24)).astype(np.float32), dimensions=8, bits=8, restarts=3
        ),
    ),
    "labels": (floats, {"num_segments": 5}, lambda: np.random.default_rng(9).integers(0, 90, NUM_DOCS)),
}


class Cases:
    """Builds every case once, in one thread from one matrix: what all others are compared with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._docs: dict[str, sp.csr_matrix] = {}
        self._expected: dict[str, dict[str, bytes]] = {}
        self._built = 0

    def docs(self, case: str) -> sp.csr_matrix:
        """The documents of a case."""
        make = CASES[case][0]
        if make.__name__ not in self._docs:
            self._docs[make.__name__] = make()
        return self._docs[make.__name__]

    def build(self, case: str, vectors: object, **options: Any) -> dict[str, bytes]:
        """Build a case from documents in some form, and return its files."""
        _, config, clusters = CASES[case]
        self._built += 1
        path = self.folder / f"index{self._built}"
        made = clusters() if clusters is not None else None
        segmax.build(vectors, path=path, clustering=made, config=segmax.BuildConfig(**config), **options).close()
        return contents(path)

    def expected(self, case: str) -> dict[str, bytes]:
        """The files of a case."""
        if case not in self._expected:
            self._expected[case] = self.build(case, self.docs(case), threads=1)
        return self._expected[case]


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Cases:
    """All cases, built when they are first asked for."""
    return Cases(tmp_path_factory.mktemp("cases"))


@pytest.mark.parametrize(("case", "threads"), [*zip(CASES, itertools.cycle([2, 4]))])
def test_the_number_of_threads_changes_no_byte(cases: Cases, case: str, threads: int) -> None:
    """Same documents, same seed: all files are those that one thread writes."""
    assert differing(cases.build(case, cases.docs(case), threads=threads), cases.expected(case)) == []


def compressed(docs: sp.csr_matrix, folder: Path) -> object:
    """A compressed file."""
    sp.save_npz(folder / "compressed.npz", docs)
    return folder / "compressed.npz"


def uncompressed(docs: sp.csr_matrix, folder: Path) -> object:
    """A file that is not compressed, its name as text."""
    sp.save_npz(folder / "plain.npz", docs, compressed=False)
    return str(folder / "plain.npz")


def several_files(docs: sp.csr_matrix, folder: Path) -> object:
    """Files of different sizes, one of them of another format and dtype, one empty."""
    names = [folder / f"part{i}.npz" for i in range(4)]
    pieces = [docs[:4_201], sp.csr_matrix((0, docs.shape[1])), docs[4_201:4_202].astype(np.float64), docs[4_202:]]
    for name, piece in zip(names, pieces, strict=True):
        sp.save_npz(name, piece.tocsc() if piece.shape[0] == 1 else piece)
    return names


def of_many_kinds(docs: sp.csr_matrix, _: Path) -> object:
    """Batches of mixed sizes, formats and dtypes, empty ones among them, terms in any order inside a row."""
    kinds: list[Callable[[sp.csr_matrix], Any]] = [
        sp.coo_matrix,
        sp.csc_matrix,
        lambda batch: batch.astype(np.float64),
        lambda batch: sp.csr_array(batch),
        lambda batch: sp.csr_matrix((batch.data, batch.indices, batch.indptr), shape=batch.shape)[:, :],
        backwards,
    ]
    batches = in_batches(docs, [0, 1, 1_000, 0, 0, SLAB_DOCS, 3, SLAB_DOCS + 1])
    return (kinds[i % len(kinds)](batch) for i, batch in enumerate(batches))


def backwards(batch: sp.csr_matrix) -> sp.csr_matrix:
    """The same rows with their terms in descending order."""
    order = np.concatenate(
        [np.arange(stop - 1, start - 1, -1) for start, stop in zip(batch.indptr[:-1], batch.indptr[1:], strict=True)]
        or [np.empty(0, np.int64)]
    )
    return sp.csr_matrix((batch.data[order], batch.indices[order], batch.indptr), shape=batch.shape)


def in_one_buffer(docs: sp.csr_matrix, _: Path) -> object:
    """Batches that all live in the same memory, one after the other."""
    room = max(batch.nnz for batch in in_batches(docs, [700]))  # scipy copies what is much smaller than its base
    values, columns = np.empty(room, docs.dtype), np.empty(room, docs.indices.dtype)
    for batch in in_batches(docs, [700]):
        values[: batch.nnz] = batch.data
        columns[: batch.nnz] = batch.indices
        yield sp.csr_matrix((values[: batch.nnz], columns[: batch.nnz], batch.indptr), shape=batch.shape, copy=False)


FORMS: dict[str, Callable[[sp.csr_matrix, Path], object]] = {
    "batches of 300": lambda docs, _: in_batches(docs, [300]),
    "batches of 1,777": lambda docs, _: in_batches(docs, [1_777]),
    "a list of batches": lambda docs, _: list(in_batches(docs, [SLAB_DOCS])),
    **{make.__name__: make for make in (of_many_kinds, in_one_buffer, compressed, uncompressed, several_files)},
}


@pytest.mark.parametrize(
    ("case", "form"),
    [
        *(("whole numbers", form) for form in FORMS),
        *(("pruned", form) for form in ("batches of 1,777", "of_many_kinds", "several_files")),
    ],
)
def test_the_form_of_the_input_changes_no_byte(cases: Cases, tmp_path: Path, case: str, form: str) -> None:
    """A matrix, batches of any size and kind, files: all files of the index are the same."""
    vectors = FORMS[form](cases.docs(case), tmp_path)
    assert differing(cases.build(case, vectors, threads=2), cases.expected(case)) == []


def test_parts_depend_on_the_documents_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also where slabs end because of their postings, and at documents without a term."""
    monkeypatch.setattr(spool, "SLAB_POSTINGS", 50)
    rng = np.random.default_rng(1)
    docs = random_docs(rng, 500, 400, 4.0)
    docs = sp.vstack([docs, sp.csr_matrix((9, 400)), random_docs(rng, 30, 400, 80.0), docs], format="csr")

    def slabs(sizes: list[int]) -> list[list[Any]]:
        made = spool.Spool(400, 1 << 30, tmp_path)
        for batch in in_batches(docs, sizes):
            made.append(matrix_to_csr(batch))
        made.finish()
        assert made.num_rows == docs.shape[0]
        assert made.num_postings == docs.nnz
        assert [made.first_row(i) for i in range(len(made))] == np.cumsum([0, *(p.num_rows for p in made)])[
            :-1
        ].tolist()
        return [[slab.indptr.tolist(), slab.indices.tolist(), slab.values.tolist()] for slab in made]

    whole = slabs([docs.shape[0]])
    assert len(whole) > 40
    for postings, *_ in ((slab[0][-1], slab) for slab in whole):
        assert postings <= 50 or any(postings == docs[i].nnz for i in range(docs.shape[0]))
    for sizes in ([1], [7], [0, 3, 100, 1], [50], [509, 1]):
        assert slabs(sizes) == whole


def test_another_seed_gives_another_index(cases: Cases) -> None:
    """The bytes are the same because the seed is, not because nothing depends on it."""
    docs = cases.docs("whole numbers")
    indexes = [
        segmax.build(docs, config=segmax.BuildConfig(num_clusters=40, seed=seed))._open_arrays for seed in (0, 0, 1)
    ]
    assert (indexes[0]["position_row"][:1000] == indexes[1]["position_row"][:1000]).all()
    assert (indexes[0]["position_row"][:1000] != indexes[2]["position_row"][:1000]).any()


# --- spilling --------------------------------------------------------------------------------------------------------


class Seen:
    """Counts scratch files by who made them, and the ranges that work was cut into."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.files: Counter[str] = Counter()
        self.steps: Counter[str] = Counter()
        for module in (spool, assemble):
            monkeypatch.setattr(module, "ScratchFile", self._counted(module.ScratchFile, module.__name__))

    def _counted(self, made: Callable[[Path], Any], name: str) -> Callable[[Path], Any]:
        def make(folder: Path) -> Any:
            self.files[name] += 1
            return made(folder)

        return make

    def count(self, progress: segmax.typing.BuildProgress) -> None:
        """Count the steps of every stage."""
        if progress.done:
            self.steps[progress.stage] += 1


@pytest.mark.parametrize(
    ("case", "available"),
    [
        ("labels", 1 << 15),
        ("labels", 1 << 19),
        ("whole numbers", 1 << 19),
        ("two levels of clusters", 1 << 15),
        ("pruned", 1 << 16),
        ("dense", 1 << 15),
    ],
)
def test_spilling_changes_no_byte(
    cases: Cases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str, available: int
) -> None:
    """Documents in files and ranges of terms give the same index as all at once in memory."""
    expected = cases.expected(case)
    seen = Seen(monkeypatch)
    monkeypatch.setattr(memory.MemoryLimit, "available", lambda _: available)
    built = cases.build(case, cases.docs(case), scratch=tmp_path, threads=2, progress=seen.count)
    assert seen.files["segmax.building.spool"] > 0
    assert seen.files["segmax.building.assemble"] > 0
    assert seen.steps["group"] > 2
    assert seen.steps["write"] > 4
    assert list(tmp_path.iterdir()) == []
    assert differing(built, expected) == []


def test_nothing_is_spilled_without_need(cases: Cases, monkeypatch: pytest.MonkeyPatch) -> None:
    """With memory enough no file is made."""
    seen = Seen(monkeypatch)
    cases.build("labels", cases.docs("labels"), progress=seen.count)
    assert seen.files == {}
    assert seen.steps["group"] == 2  # one range, and the end


@pytest.mark.parametrize("limit", [memory.LEAST_LIMIT, "1GiB"])
def test_the_memory_limit_changes_no_byte(cases: Cases, monkeypatch: pytest.MonkeyPatch, limit: int | str) -> None:
    """The index does not depend on how much memory it may take, nor on how much is in use already."""
    case = "two levels of clusters"
    monkeypatch.setattr(memory, "anonymous_memory", lambda: memory.LEAST_LIMIT - (8 << 20))
    assert differing(cases.build(case, cases.docs(case), memory_limit=limit), cases.expected(case)) == []


def test_a_full_scratch_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No room for scratch files is an error with advice, and leaves nothing."""
    monkeypatch.setattr(memory.MemoryLimit, "available", lambda _: 1)
    (tmp_path / "scratch").mkdir(mode=0o500)
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    with refused(WriteError, hint="make room, or choose another folder with {scratch=...}"):
        segmax.build(random_docs(np.random.default_rng(0), 50, 9), path=tmp_path / "x", scratch=tmp_path / "scratch")
    assert [entry.name for entry in tmp_path.iterdir()] == ["scratch"]


def test_a_disk_that_fills_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of write(2) while documents are spilled, likewise."""

    class Full:
        def __init__(self, file: Any) -> None:
            self._file = file

        def write(self, data: Any) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        def __getattr__(self, name: str) -> Any:
            return getattr(self._file, name)

    monkeypatch.setattr(memory.MemoryLimit, "available", lambda _: 1)
    make = tempfile.TemporaryFile
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **options: Full(make(**options)))
    with refused(WriteError, message="could not keep documents .*No space left on device", hint="make room"):
        segmax.build(random_docs(np.random.default_rng(0), 50, 9), path=tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


# --- every document once ---------------------------------------------------------------------------------------------


class Twin:
    """The arrays of an index, from documents, labels and positions, by dictionaries."""

    def __init__(
        self, docs: sp.csr_matrix, clusters: np.ndarray, segments: np.ndarray, config: segmax.BuildConfig
    ) -> None:
        self._docs = docs
        self._segments = segments
        self._num_segments = config.num_segments
        self._head_ratio = config.head_ratio
        self._is_exact = config.segment_bounds == "exact"
        self.labels = sorted(set(clusters.tolist()))
        self.members = {label: np.flatnonzero(clusters == label).tolist() for label in self.labels}

    def check(self, arrays: dict[str, np.ndarray]) -> None:
        """Compare everything that is stored."""
        sizes = [len(self.members[label]) for label in self.labels]
        first_position = [0, *itertools.accumulate(-(-size // 8) * 8 for size in sizes)]
        assert arrays["cluster_label"].tolist() == self.labels
        assert arrays["cluster_first_position"].tolist() == first_position
        assert arrays["cluster_num_docs"].tolist() == sizes
        rows = self._check_rows(arrays["position_row"].tolist(), first_position)
        wanted = self._arrays(rows, first_position, arrays["entry_code"].dtype)
        for name, values in wanted.items():
            assert arrays[name].tobytes() == values.tobytes(), name
        rest = {"term_scale", "id_number", "id_offset", "id_text", "term_offset", "term_text"}
        assert set(arrays) - rest - set(wanted) == {
            "cluster_label",
            "cluster_first_position",
            "cluster_num_docs",
            "position_row",
        }

    def _check_rows(self, position_row: list[int], first_position: list[int]) -> dict[int, int]:
        """Every document has one position, in its cluster; all other positions are holes."""
        rows: dict[int, int] = {}
        for number, label in enumerate(self.labels):
            first = first_position[number]
            found = position_row[first : first + len(self.members[label])]
            rows.update(enumerate(found, first))
            assert sorted(found) == self.members[label]
        assert sorted(rows.values()) == list(range(self._docs.shape[0]))
        holes = [row for position, row in enumerate(position_row) if position not in rows]
        assert set(holes) <= {_core.NO_ROW}
        assert len(position_row) == first_position[-1]
        return rows

    def _arrays(self, rows: dict[int, int], first_position: list[int], code: np.dtype) -> dict[str, np.ndarray]:
        """All that follows from where the documents lie."""
        docs = self._docs
        lists: dict[int, list[tuple[int, int, int]]] = defaultdict(list)  # by term: position, code, segment
        for position in sorted(rows):
            row = rows[position]
            for i in range(docs.indptr[row], docs.indptr[row + 1]):
                lists[int(docs.indices[i])].append((position, int(docs.data[i]), int(self._segments[row])))
        dtypes: dict[str, Any] = {
            **dict.fromkeys(("term_first_pair", "term_first_posting", "term_first_byte", "term_first_entry"), "<u8"),
            **dict.fromkeys(("narrow_cluster", "run_base", "group_start"), "<u4"),
            **dict.fromkeys(("run_start", "entry_block", "pair_entry"), "<u2"),
            **dict.fromkeys(("segment_max", "segment_mask", "quad_max", "block_max", "run_bytes", "entry_mask"), "u1"),
            **dict.fromkeys(("term_top_code", "cluster_max", "level", "entry_max", "entry_code"), code),
        }
        if self._is_exact:
            dtypes["segment_code"] = code
        wanted: dict[str, list[int]] = {name: [] for name in dtypes}
        for name in wanted:
            if name.startswith("term_first"):
                wanted[name].append(0)
        for term in range(docs.shape[1]):
            postings = lists[term]
            codes = sorted((code for _, code, _ in postings), reverse=True)
            wanted["term_top_code"] += [codes[rank - 1] if rank <= len(codes) else 0 for rank in (1, 10, 100, 1000)]
            wanted["term_first_posting"].append(wanted["term_first_posting"][-1] + len(postings))
            listed = [(position, code) for position, code, _ in postings]
            maxima = self._segment_maxima(postings, first_position)
            is_wide = bool(maxima) and len(maxima) * 2 >= len(self.labels)
            is_head = bool(listed) and len(listed) * self._head_ratio >= first_position[-1] // 16
            if is_wide or is_head:
                wanted["level"] += best_levels(block_maxima(listed, first_position[-1]))
            if is_wide:
                self._add_wide(wanted, maxima)
            else:
                self._add_narrow(wanted, maxima)
            wanted["term_first_pair"].append(len(wanted["cluster_max"]))
            if is_head:
                self._add_head(wanted, listed, first_position[-1], code)
            else:
                self._add_tail(wanted, listed)
                clusters = range(len(self.labels)) if is_wide else sorted(maxima)
                blocks = sorted({position // 8 for position, _ in listed})
                wanted["pair_entry"] += [
                    bisect.bisect_left(blocks, first_position[cluster] // 8) for cluster in clusters
                ]
            wanted["term_first_byte"].append(len(wanted["run_bytes"]))
            wanted["term_first_entry"].append(len(wanted["entry_block"]))
        return {name: np.array(values, dtypes[name]) for name, values in wanted.items()}

    def _segment_maxima(self, postings: list[tuple[int, int, int]], first_position: list[int]) -> dict[int, list[int]]:
        """By cluster that has the term: the largest code in each segment."""
        maxima: dict[int, list[int]] = defaultdict(lambda: [0] * self._num_segments)
        for position, code, segment in postings:
            inside = maxima[bisect.bisect(first_position, position) - 1]
            inside[segment] = max(inside[segment], code)
        return dict(maxima)

    def _add_wide(self, wanted: dict[str, list[int]], maxima: dict[int, list[int]]) -> None:
        pairs = [maxima.get(cluster, [0] * self._num_segments) for cluster in range(len(self.labels))]
        wanted["cluster_max"] += map(max, pairs)
        if self._num_segments > 1:
            wanted["segment_max"] += level_row(wanted["level"][-16:], list(itertools.chain(*pairs)))
        if self._is_exact:
            wanted["segment_code"] += itertools.chain(*pairs)

    def _add_narrow(self, wanted: dict[str, list[int]], maxima: dict[int, list[int]]) -> None:
        for cluster, inside in sorted(maxima.items()):
            wanted["narrow_cluster"].append(cluster)
            wanted["cluster_max"].append(max(inside))
            if self._num_segments > 1:
                mask = sum(1 << segment for segment, largest in enumerate(inside) if largest)
                wanted["segment_mask"] += mask.to_bytes(-(-self._num_segments // 8), "little")
            if self._is_exact:
                wanted["segment_code"] += inside

    @staticmethod
    def _add_head(
        wanted: dict[str, list[int]], postings: list[tuple[int, int]], num_positions: int, code: np.dtype
    ) -> None:
        blocks, levels = block_maxima(postings, num_positions), wanted["level"][-16:]
        wanted["block_max"] += level_row(levels, blocks)
        wanted["quad_max"] += level_row(levels, [max(blocks[i : i + 4]) for i in range(0, len(blocks), 4)])
        runs: list[list[tuple[int, int]]] = [[] for _ in range(len(blocks) // 32)]
        for position, value in postings:
            runs[position // 256].append((position % 256, value))
        starts = [0]
        for run in runs:
            if len(run) <= 32:
                places = bytes(place for place, _ in run)
            else:
                places = sum(1 << place for place, _ in run).to_bytes(32, "little")
            codes = np.array([value for _, value in run], code).tobytes()
            wanted["run_bytes"] += places + codes
            starts.append(starts[-1] + len(places) + len(codes))
        wanted["run_base"] += starts[::64]
        wanted["run_start"] += [start - starts[span // 64 * 64] for span, start in enumerate(starts)]

    @staticmethod
    def _add_tail(wanted: dict[str, list[int]], postings: list[tuple[int, int]]) -> None:
        num_codes = 0
        for number, (block, group) in enumerate(itertools.groupby(postings, lambda posting: posting[0] // 8)):
            inside = list(group)
            if number % 32 == 0:
                wanted["group_start"].append(num_codes)
            num_codes += len(inside)
            wanted["entry_block"].append(block)
            wanted["entry_max"].append(max(code for _, code in inside))
            wanted["entry_mask"].append(sum(1 << position % 8 for position, _ in inside))
            wanted["entry_code"] += [code for _, code in inside]


def block_maxima(postings: list[tuple[int, int]], num_positions: int) -> list[int]:
    """The largest code of each block, whole tiles of them."""
    blocks = [0] * (-(-num_positions // 1024) * 128)
    for position, code in postings:
        blocks[position // 8] = max(blocks[position // 8], code)
    return blocks


def level_row(levels: list[int], maxima: list[int]) -> list[int]:
    """Maxima rounded up to levels, whose numbers are packed: 32 in 16 bytes, the second half in the high bits."""
    row = [bisect.bisect_left(levels, maximum) for maximum in maxima]
    row += [0] * (-len(row) % 128)
    return [row[start + i] | row[start + i + 16] << 4 for start in range(0, len(row), 32) for i in range(16)]


def best_levels(maxima: list[int]) -> list[int]:
    """Sixteen levels that maxima are rounded up to at the least cost; of equal choices, the lower levels."""
    width = -(-max(maxima) // 255)
    counts = Counter(-(-maximum // width) for maximum in maxima if maximum)
    tops: dict[int, int] = defaultdict(int)
    for maximum in maxima:
        tops[-(-maximum // width)] = max(tops[-(-maximum // width)], maximum)
    values = np.array([0, *(tops[step] for step in sorted(counts))])
    if len(values) <= 16:
        return [*values.tolist(), *[max(maxima)] * (16 - len(values))]
    weights = np.array([0, *(counts[step] for step in sorted(counts))])
    number, total = np.cumsum(weights), np.cumsum(weights * values)
    costs = (number[None, :] - number[:, None]) * values[None, :] - (total[None, :] - total[:, None])
    never = np.iinfo(np.int64).max // 4
    costs[np.tril_indices(len(values))] = never
    least = np.where(values == 0, 0, never)
    choices = []
    for _ in range(15):
        sums = least[:, None] + costs
        choices.append(sums.argmin(axis=0))
        least = np.minimum(sums.min(axis=0), never)
    chosen = [len(values) - 1]
    for choice in reversed(choices):
        chosen.append(int(choice[chosen[-1]]))
    return values[chosen[::-1]].tolist()


def given_clusters(num_docs: int, sizes: list[int], rng: np.random.Generator) -> np.ndarray:
    """Labels with gaps between them, clusters of these sizes and then of one document each."""
    rest = num_docs - sum(sizes)
    labels = np.repeat(np.arange(len(sizes) + rest) * 3 + 1, [*sizes, *[1] * rest])
    return rng.permutation(labels)


@pytest.mark.parametrize(("order", "compact"), [("similarity", False), ("row", True)])
@pytest.mark.parametrize(
    ("num_docs", "sizes", "num_terms", "num_segments", "bits"),
    [
        pytest.param(400, [150, 100, 33, 32, 31, 17, 16, 15], 60, 8, 8, id="small"),
        pytest.param(400, [150, 100, 33, 32, 31, 17, 16, 15], 60, 8, 16, id="16 bits"),
        pytest.param(300, [299], 20, 300, 8, id="many segments"),
        pytest.param(400, [200, 100, 33], 60, 1, 8, id="one segment"),
        pytest.param(*(18_000, [9_000, 4_097, 4_096, 700], 40, 3, 8), id="large clusters", marks=pytest.mark.deep),
        pytest.param(
            *(18_000, [9_000, 4_097, 4_096, 700], 70_000, 3, 16),
            id="large clusters, many columns, 16 bits",
            marks=pytest.mark.deep,
        ),
    ],
)
def test_arrays_are_those_of_the_twin(
    num_docs: int, sizes: list[int], num_terms: int, num_segments: int, bits: int, compact: bool, order: Any
) -> None:
    """Each document is in one cluster, one segment and one block, and every maximum, mask and list is the right one."""
    rng = np.random.default_rng(num_docs + bits)
    common = random_docs(rng, num_docs, min(num_terms, 40), 3.0, 255 if bits == 8 else 65535)
    rare = sp.random(num_docs, num_terms, 3 / num_terms, format="csr", random_state=rng, data_rvs=np.ones)
    docs = sp.csr_matrix(
        sp.hstack([common, sp.csr_matrix((num_docs, num_terms - common.shape[1]))]).maximum(rare)
    ).astype(np.int64)
    docs.sort_indices()
    clusters = given_clusters(num_docs, sizes, rng)
    segments = rng.integers(0, num_segments, num_docs)
    bounds: Any = "exact" if num_segments in (3, 300) else "levels"
    config = segmax.BuildConfig(
        num_segments=num_segments, segment_bounds=bounds, bits=bits, compact=compact, document_order=order
    )
    index = segmax.build(docs, clustering=clusters, segments=segments, config=config)
    assert index._meta["head_ratio"] == config.head_ratio
    Twin(docs, clusters, segments, config).check(index._open_arrays)
    assert index.num_postings == docs.nnz


@pytest.mark.deep
def test_arrays_of_many_tiles() -> None:
    """Positions above 65,536, clusters that end inside of spans and tiles, runs of every length."""
    rng = np.random.default_rng(2)
    num_docs = 70_000
    docs = random_docs(rng, num_docs, 12, 1.0, 9)
    clusters = given_clusters(num_docs, [30_001, 20_000, 19_990], rng)
    segments = rng.integers(0, 2, num_docs)
    index = segmax.build(docs, clustering=clusters, segments=segments, config=segmax.BuildConfig(num_segments=2))
    assert index._open_arrays["run_base"].any()  # there are more spans than share a base
    Twin(docs, clusters, segments, index.config).check(index._open_arrays)


@pytest.mark.parametrize("case", ["whole numbers", "two levels of clusters", "dense"])
def test_found_clusters_hold_every_document_once(cases: Cases, case: str) -> None:
    """Also where k-means decides: position_row is a permutation of the rows, with holes at ends of clusters."""
    cases.expected(case)
    _, config, clusters = CASES[case]
    made = clusters() if clusters is not None else None
    index = segmax.build(cases.docs(case), clustering=made, config=segmax.BuildConfig(**config))
    rows = index._open_arrays["position_row"]
    assert sorted(rows[rows != _core.NO_ROW].tolist()) == list(range(NUM_DOCS))
    assert (np.bincount(clusters_of(index), minlength=index.num_clusters) == index.cluster_sizes()).all()
    assert index.num_clusters == config["num_clusters"]


def test_stored_documents_are_the_given_ones(cases: Cases) -> None:
    """Whole numbers come back as they were, from an index that went through clusters, order and files."""
    docs = cases.docs("whole numbers")
    index = segmax.build(docs, config=segmax.BuildConfig(num_clusters=40))
    rows = np.random.default_rng(0).permutation(NUM_DOCS)[:2000]
    assert (index.vectors(rows) != docs[rows].astype(float)).nnz == 0
    assert index.quantization_error == 0


# --- labels that are given -------------------------------------------------------------------------------------------


def test_permuting_documents_with_their_labels(rng: np.random.Generator) -> None:
    """Rows, ids and labels in another order give the same hits; ties may come in another order."""
    docs, _ = topic_docs(rng, 3_000, 12)
    clusters, segments = rng.integers(0, 15, 3_000), rng.integers(0, 4, 3_000)
    ids = [f"d{i}" for i in range(3_000)]
    order = rng.permutation(3_000)
    config = segmax.BuildConfig(num_segments=4)
    one = segmax.build(docs, ids=ids, clustering=clusters, segments=segments, config=config)
    two = segmax.build(
        docs[order],
        ids=[ids[i] for i in order],
        clustering=Labels(clusters[order]),
        segments=segments[order],
        config=config,
    )
    params: list[Any] = [None, segmax.ASC(mu=0.8, eta=0.9), Anytime(mu=0.7), MaxScore()]
    for _ in range(20):
        query = as_query(rng, docs.shape[1], 30)
        bounds = [index.cluster_bounds(query) for index in (one, two)]
        for name in ("bound_sum", "max_bound", "avg_bound", "best_score"):
            assert (getattr(bounds[0], name) == getattr(bounds[1], name)).all()
        for chosen in params[:1] + params[3:]:
            hits = [index.search(query, k=40, params=chosen) for index in (one, two)]
            assert hits[0].scores.tolist() == hits[1].scores.tolist()
            last = hits[0].scores[-1]
            above = [{i for i, s in zip(found.ids, found.scores, strict=True) if s > last} for found in hits]
            assert above[0] == above[1]
            for found in hits:
                assert one.score(query, found.ids).tolist() == found.scores.tolist()
        everything = [sorted(map(tuple, index.search(query, k=3_000))) for index in (one, two)]
        assert everything[0] == everything[1]


# --- order inside clusters -------------------------------------------------------------------------------------------


def test_order_inside_clusters(rng: np.random.Generator) -> None:
    """By row, rows ascend inside every cluster; by similarity the same documents lie in another order."""
    docs, _ = topic_docs(rng, 5_000, 10)
    by_row, by_similarity = (
        segmax.build(docs, config=segmax.BuildConfig(num_clusters=6, document_order=order))
        for order in ("row", "similarity")
    )
    assert (clusters_of(by_row) == clusters_of(by_similarity)).all()
    for cluster in range(6):
        where = slice(*by_row._open_arrays["cluster_first_position"][cluster : cluster + 2].tolist())
        rows, others = (index._open_arrays["position_row"][where] for index in (by_row, by_similarity))
        rows, others = rows[rows != _core.NO_ROW], others[others != _core.NO_ROW]
        assert (np.diff(rows.astype(np.int64)) > 0).all()
        assert sorted(others.tolist()) == rows.tolist()
        assert others.tolist() != rows.tolist()
    for _ in range(10):
        query = as_query(rng, docs.shape[1], 40)
        assert list(by_row.search(query, k=50)) == list(by_similarity.search(query, k=50))


def test_similar_documents_are_neighbors(rng: np.random.Generator) -> None:
    """Where one cluster holds many topics, most neighbors share theirs."""
    docs, topics = topic_docs(rng, 3_000, 30)
    index = segmax.build(docs, config=segmax.BuildConfig(num_clusters=1))
    rows = index._open_arrays["position_row"]
    ordered = topics[rows[rows != _core.NO_ROW]]
    assert (ordered[1:] == ordered[:-1]).mean() > 0.8
    assert (topics[1:] == topics[:-1]).mean() < 0.1


def test_giant_clusters_are_ordered_in_pieces(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cutting a cluster for the sake of memory loses no document, and pieces are whole blocks."""
    monkeypatch.setattr(assemble, "_ORDER_MOST_DOCS", 256)
    docs, _ = topic_docs(rng, 3_000, 30)
    clusters = np.repeat([0, 1, 2], [7, 2_000, 993])
    index = segmax.build(docs, clustering=clusters)
    for cluster in range(3):
        assert sorted(np.flatnonzero(clusters_of(index) == cluster)) == np.flatnonzero(clusters == cluster).tolist()
    cuts = assemble._with_cuts(np.array([0, 7, 2_007, 3_000], np.uint32)).tolist()
    assert cuts[:3] == [0, 7, 263]
    for start, stop in ((7, 2_007), (2_007, 3_000)):
        assert all((cut - start) % 256 == 0 for cut in cuts if start <= cut < stop)
        inside = [cut for cut in cuts if start <= cut <= stop]
        assert max(np.diff(inside)) <= 256, inside


# --- interruption ----------------------------------------------------------------------------------------------------


def listing(folder: Path) -> dict[str, Any]:
    """Everything below a folder, with contents."""
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in sorted(folder.rglob("*"))}


STAGES = ["read", "prune", "code", "cluster", "assign", "balance", "group", "order", "write"]


def small_build(path: Path, scratch: Path | None, progress: Any, **options: Any) -> segmax.Index:
    """A build that goes through all stages, in several batches."""
    docs, _ = topic_docs(np.random.default_rng(3), 600, 6)
    config = segmax.BuildConfig(num_clusters=5, pruning=(MaxPostings(count=90),))
    return segmax.build(
        in_batches(docs, [200]), path=path, scratch=scratch, progress=progress, config=config, threads=2, **options
    )


@pytest.mark.parametrize("exists", [False, True])
def test_interrupted_at_any_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exists: bool) -> None:
    """Ctrl-C at the beginning, in the middle and at the end of every stage: what was there is there, and no more."""
    monkeypatch.setattr(memory.MemoryLimit, "available", lambda _: 1 << 12)
    folder, scratch = tmp_path / "folder", tmp_path / "scratch"
    folder.mkdir()
    scratch.mkdir()
    (folder / "note.txt").write_text("not ours")
    reports: list[segmax.typing.BuildProgress] = []
    small_build(tmp_path / "whole", scratch, reports.append)
    assert list(dict.fromkeys(p.stage for p in reports)) == STAGES
    if exists:
        segmax.build(sp.csr_matrix([[1, 2], [3, 0]]), path=folder / "index")
    before = listing(tmp_path)
    # All moments of every stage but for long stretches of steps, of which a few will do.
    by_stage = {stage: [i for i, p in enumerate(reports) if p.stage == stage] for stage in STAGES}
    moments = sorted({i for at in by_stage.values() for i in [*at[:3], at[len(at) // 2], *at[-2:]]})
    for moment in moments:
        left = moment

        def interrupt(_: segmax.typing.BuildProgress) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            small_build(folder / "index", scratch, interrupt, overwrite=exists)
        assert listing(tmp_path) == before, reports[moment]
    if exists:
        with segmax.open(folder / "index", verify=True) as index:
            assert index.search({0: 1}).rows.tolist() == [1, 0]
    small_build(folder / "index", scratch, None, overwrite=exists).close()
    assert list(scratch.iterdir()) == []
    segmax.verify(folder / "index")


@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt, InputError])
@pytest.mark.parametrize("batches", [0, 1, 7])
def test_an_input_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[BaseException], batches: int
) -> None:
    """What the caller's iterator raises comes out as it is, and nothing is left."""
    monkeypatch.setattr(memory.MemoryLimit, "available", lambda _: 1)
    closed = []

    def failing() -> Iterator[sp.csr_matrix]:
        try:
            for _ in range(batches):
                yield random_docs(np.random.default_rng(0), 9_000, 9, 2.0)
            raise kind("no more")
        finally:
            closed.append(True)

    with pytest.raises(kind, match="no more"):
        segmax.build(failing(), path=tmp_path / "index")
    assert list(tmp_path.iterdir()) == []
    assert closed == [True]


def test_labels_that_do_not_fit_leave_nothing(tmp_path: Path) -> None:
    """Nor does what turns out to be wrong only once all documents are read."""
    docs = random_docs(np.random.default_rng(0), 30, 9)
    for options in ({"clustering": [0]}, {"segments": [0]}, {"ids": ["a"]}, {"terms": ["a"]}):
        with pytest.raises(InputError):
            segmax.build(docs, path=tmp_path / "index", **options)
    with pytest.raises(InputError):
        segmax.build(docs, path=tmp_path / "index", clustering=Dense(np.ones((29, 4))))
    assert list(tmp_path.iterdir()) == []


def run(program: str, *arguments: object, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    """Run a program that finds segmax where this process does."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SRC), str(Path(__file__).parents[1])])}
    command = [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout, check=False)


#: Builds with a signal a moment after the beginning of a stage; the collection is large enough that work goes on then.
SIGNALLED = """
    import os, signal, sys, threading, time
    import numpy as np
    import segmax
    from segmax.base import memory
    from conftest import topic_docs

    memory.MemoryLimit.available = lambda self: 1 << 20
    folder, which, *stages = sys.argv[1:]
    docs, _ = topic_docs(np.random.default_rng(0), 60_000, mean_terms=40)
    batches = [docs[i : i + 2000] for i in range(0, 60_000, 2000)]

    def build(stage, delay):
        def send():
            os.kill(os.getpid(), getattr(signal, which))

        def on_progress(progress):
            if progress.stage == stage and progress.done == 0:
                threading.Timer(delay, send).start() if delay else send()

        config = segmax.BuildConfig(num_clusters=60, pruning=segmax.pruning.MaxPostings(count=10**4))
        segmax.build(iter(batches), path=folder + "/index", scratch=folder, progress=on_progress, config=config)

    for stage in stages:
        try:
            build(stage, 0.02 if which == "SIGINT" else 0)
            print(stage, "finished", flush=True)
            time.sleep(1)
        except KeyboardInterrupt:
            print(stage, "interrupted", len(os.listdir(folder)), flush=True)
    build(None, 0)
    segmax.verify(folder + "/index")
    print(sorted(os.listdir(folder)))
"""


@pytest.mark.deep
def test_sigint_in_every_stage(tmp_path: Path) -> None:
    """A real signal while threads are at work: the build ends, nothing is left, and the next one goes well."""
    done = run(SIGNALLED, tmp_path, "SIGINT", *STAGES)
    assert done.stdout.splitlines() == [*(f"{stage} interrupted 0" for stage in STAGES), "['index']"], done.stderr


@pytest.mark.deep
def test_sigint_ends_a_program(tmp_path: Path) -> None:
    """A program that does not catch KeyboardInterrupt ends by the signal, and leaves nothing."""
    done = run(SIGNALLED.replace("except KeyboardInterrupt", "except ZeroDivisionError"), tmp_path, "SIGINT", "write")
    assert done.returncode == -signal.SIGINT
    assert done.stderr.rstrip().endswith("KeyboardInterrupt")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.deep
@pytest.mark.parametrize("stage", ["prune", "write"])
def test_sigkill_leaves_no_scratch_file(tmp_path: Path, stage: str) -> None:
    """Scratch files have no name. What is left of the index itself is no index, and does no harm."""
    done = run(SIGNALLED, tmp_path, "SIGKILL", stage)
    assert done.returncode == -signal.SIGKILL
    assert {entry.name for entry in tmp_path.iterdir()} <= {"index"}
    if (tmp_path / "index").exists():
        with pytest.raises(FormatError):
            segmax.open(tmp_path / "index")
    segmax.build(sp.csr_matrix([[1, 2]]), path=tmp_path / "index").close()
    segmax.verify(tmp_path / "index")
    assert {entry.name for entry in tmp_path.iterdir()} == {"index"}
    assert all(name.endswith((".1.bin", ".json")) for name in contents(tmp_path / "index"))


# --- memory ----------------------------------------------------------------------------------------------------------

#: Streams a collection that is never whole in memory, and watches the anonymous memory of the process.
MEASURED = """
    import json, sys, threading, time
    import numpy as np
    import scipy.sparse as sp
    import segmax
    from segmax.base.memory import parse_bytes
    from segmax.base.system import anonymous_memory

    path, limit, num_docs, num_terms, threads, pruned = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
    BATCH, COLUMNS = 1000, 30_000

    def batch(number):
        rng = np.random.default_rng(number)
        first = rng.integers(0, 64, BATCH)[:, None] * 400
        columns = (first + np.cumsum(rng.integers(1, 800 // num_terms + 3, (BATCH, num_terms)), axis=1)) % COLUMNS
        weights = rng.random((BATCH, num_terms), dtype=np.float32) * 3 + 0.01
        ends = np.arange(0, BATCH * num_terms + 1, num_terms)
        return sp.csr_matrix((weights.reshape(-1), columns.reshape(-1), ends), shape=(BATCH, COLUMNS))

    stage, peaks, over = "start", {}, threading.Event()

    def watch():
        while not over.wait(0.005):
            peaks[stage] = max(peaks.get(stage, 0), anonymous_memory())

    def on_progress(progress):
        global stage
        ended = progress.total is not None and progress.done >= progress.total
        stage = f"after {progress.stage}" if ended else progress.stage

    watcher = threading.Thread(target=watch)
    watcher.start()
    config = segmax.BuildConfig(pruning=[segmax.pruning.MaxPostings(count=20_000)] if pruned else [])
    batches = (batch(number) for number in range(num_docs // BATCH))
    index = segmax.build(batches, path=path, memory_limit=limit, threads=threads, progress=on_progress, config=config)
    over.set()
    watcher.join()
    right = 0
    for number in range(0, num_docs // BATCH, max(1, num_docs // BATCH // 20)):
        row = batch(number)
        row.sum_duplicates()
        exact = (row.astype(np.float64) @ row[7].astype(np.float64).T).toarray().ravel()
        stored = index.score(row[7], range(number * BATCH, number * BATCH + 50))
        assert np.allclose(stored, exact[:50], rtol=0.05, atol=0.5)
        right += int(number * BATCH + 7 in index.search(row[7], k=3).rows)
    print(json.dumps({"peaks": peaks, "limit": parse_bytes(limit), "right": right, "docs": index.num_docs}))
"""


def check_memory(path: Path, limit: str, num_docs: int, num_terms: int, threads: int, pruned: bool = False) -> None:
    """Build in another process, and see that no stage took more than the limit."""
    done = run(MEASURED, path / "index", limit, num_docs, num_terms, threads, int(pruned))
    assert done.returncode == 0, done.stderr
    measured = json.loads(done.stdout)
    too_much = {
        stage: f"{peak / 2**20:.0f} MiB" for stage, peak in measured["peaks"].items() if peak > measured["limit"]
    }
    assert too_much == {}, f"over {limit} with {threads} threads"
    assert measured["docs"] == num_docs
    assert measured["right"] >= 19
    assert [entry.name for entry in path.iterdir()] == ["index"]


@pytest.mark.deep
@pytest.mark.parametrize("threads", [1, 4])
def test_a_small_limit_holds(tmp_path: Path, threads: int) -> None:
    """The least limit, for any number of threads."""
    check_memory(tmp_path, "256MiB", 60_000, 120, threads)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [2, 8])
@pytest.mark.parametrize(
    ("num_docs", "num_terms", "pruned"), [(400_000, 120, False), (120_000, 400, False), (400_000, 120, True)]
)
def test_the_limit_holds(tmp_path: Path, num_docs: int, num_terms: int, pruned: bool, threads: int) -> None:
    """A stream larger than the limit, documents of usual and of great length, for any number of threads."""
    check_memory(tmp_path, "320MiB", num_docs, num_terms, threads, pruned)


@pytest.mark.parametrize("limit", [0, 1, "255MiB", memory.LEAST_LIMIT - 1])
def test_a_limit_that_is_too_low(limit: int | str) -> None:
    """What cannot hold is refused before any work."""
    with refused(ConfigError, option="memory_limit", expected="at least 256 MiB"):
        segmax.build(iter([]), memory_limit=limit)


@pytest.mark.parametrize("limit", ["much", "", "5 x", "-1GiB", -1, 1.5, True, "1e9", "nan", b"1GiB", [1]])
def test_limits_that_are_no_sizes(limit: Any) -> None:
    """Only whole numbers and text such as '8GiB' are."""
    with refused(ConfigError, option="memory_limit", expected="a size in bytes", got=re.escape(repr(limit))):
        segmax.build(iter([]), memory_limit=limit)


@pytest.mark.parametrize(
    ("text", "size"),
    [("1GiB", 2**30), ("1.5g", 3 * 2**29), (" 300 MB ", 300 * 2**20), ("0.25Gb", 2**28), ("1T", 2**40), (2**30, 2**30)],
)
def test_sizes(text: int | str, size: int) -> None:
    """Units are powers of 1,024 in any spelling."""
    assert memory.parse_bytes(text) == size


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (
            {"scratch": "/no such folder"},
            {"option": "scratch", "expected": "an existing directory", "got": "'/no such folder'"},
        ),
        ({"scratch": __file__}, {"option": "scratch", "expected": "an existing directory"}),
        ({"threads": 0}, {"option": "threads", "expected": "at least 1", "got": "0"}),
        ({"threads": 2.0}, {"option": "threads", "expected": "at least 1", "got": r"2\.0"}),
        ({"config": {"bits": 8}}, {"option": "config", "expected": "a BuildConfig", "got": "dict"}),
        ({"progress": "yes"}, {"option": "progress", "expected": "None, True, False or a function", "got": "'yes'"}),
        ({"progress": 2}, {"option": "progress", "expected": "None, True, False or a function", "got": "2"}),
        ({"progress": np.zeros(2)}, {"option": "progress", "expected": "None, True, False or a function"}),
    ],
)
def test_invalid_options_are_refused(options: dict[str, Any], parts: dict[str, str]) -> None:
    """Each is refused before documents are read."""

    def never() -> Iterator[sp.csr_matrix]:
        pytest.fail("documents were read")
        yield

    with refused(ConfigError, **parts):
        segmax.build(never(), **options)


# --- progress --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("stream", [False, True])
def test_progress_callback(cases: Cases, threads: int, stream: bool) -> None:
    """Stages come in order, each from 0 up to its total."""
    reports: list[segmax.typing.BuildProgress] = []
    docs = cases.docs("pruned")
    vectors = in_batches(docs, [700]) if stream else docs
    config = segmax.BuildConfig(pruning=PRUNING, num_clusters=600)
    index = segmax.build(vectors, config=config, threads=threads, progress=reports.append)
    stages = [*STAGES, "calibrate"]  # the last only where there are enough documents
    assert list(dict.fromkeys(p.stage for p in reports)) == stages
    expected = {
        "documents": NUM_DOCS,
        "postings": index.num_postings,
        "runs": 1 + 24,  # k-means of about √600 cells, then one inside of each
        "values of k": len(BUILD_QUERIES),
    }
    in_one_go = ("group", "write")  # their ranges are larger than this collection
    for stage in stages:
        seen = [p for p in reports if p.stage == stage]
        places = [i for i, p in enumerate(reports) if p.stage == stage]
        assert places == list(range(places[0], places[-1] + 1))  # no stage begins before another ends
        done = [p.done for p in seen]
        assert done[0] == 0
        assert done == sorted(done)
        assert all(p.total is None or p.done <= p.total for p in seen)
        assert seen[-1].done == seen[-1].total
        assert len({p.unit for p in seen}) == 1
        totals = {p.total for p in seen if p.total is not None}
        assert len(totals) == 1, (stage, totals)  # what was announced is what came
        assert totals == {expected[seen[-1].unit]}
        steps = {p.done for p in seen} - {0, expected[seen[-1].unit]}
        assert steps or stage in in_one_go, stage
    assert (reports[0].total is None) == stream


def test_known_labels_need_no_clustering(rng: np.random.Generator) -> None:
    """Stages that are not needed send no updates."""
    stages: list[str] = []
    docs = random_docs(rng, 50, 9)
    config = segmax.BuildConfig(document_order="row")
    segmax.build(docs, clustering=np.zeros(50, int), config=config, progress=lambda p: stages.append(p.stage))
    assert list(dict.fromkeys(stages)) == ["read", "code", "group", "write"]


@pytest.mark.parametrize("progress", [None, False])
def test_silence_where_nobody_looks(capfd: pytest.CaptureFixture[str], progress: bool | None) -> None:
    """Nothing is written to a standard error that is no terminal, nor to standard output."""
    docs, _ = topic_docs(np.random.default_rng(0), 700, 5)
    segmax.build(docs, config=segmax.BuildConfig(num_clusters=650, segmentation="kmeans"), progress=progress)
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_bars(capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """progress=True draws a bar per stage on standard error, with a rate where there is room for it."""
    monkeypatch.setenv("COLUMNS", "100")
    docs, _ = topic_docs(np.random.default_rng(0), 700, 5)
    segmax.build(docs, path=tmp_path / "x", config=segmax.BuildConfig(num_clusters=5), progress=True)
    captured = capfd.readouterr()
    assert captured.out == ""
    for stage in ("read", "code", "cluster", "assign", "balance", "group", "order", "write"):
        line = next(line for line in captured.err.splitlines() if line.startswith(stage))
        assert "━" in line
    assert re.search(r"700/700 +documents \([0-9,]+/s\)", captured.err)


def test_bars_end_with_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    """An error while bars are shown comes out as it is."""
    with refused(InputError, got="an empty collection"):
        segmax.build(iter([]), progress=True)
    assert "read" in capfd.readouterr().err


# --- pruning ---------------------------------------------------------------------------------------------------------


CAPS = (
    TopTerms(count=5),
    MaxPostings(count=100),
    DocThreshold(threshold=3),
)


@pytest.mark.parametrize(
    ("kind", "steps"),
    [
        ("whole numbers", (DocThreshold(threshold=3),)),
        ("floats", (MassShare(share=0.8),)),
        ("floats", (TopTerms(count=4),)),
        ("whole numbers", (MaxPostings(count=100),)),
        ("whole numbers", CAPS),
        ("floats", CAPS),
        (
            "floats",
            (
                MaxPostings(count=150),
                TopTerms(count=4),
                MaxPostings(count=50),
            ),
        ),
        ("floats", PRUNING),
        ("whole numbers once pruned", CAPS[::2]),
        ("whole numbers once pruned", CAPS),
    ],
    ids=lambda value: value if isinstance(value, str) else "+".join(step.step for step in value),
)
def test_pruning_is_applied(steps: tuple[Any, ...], kind: str, tmp_path: Path) -> None:
    """Building with steps is building from documents pruned by hand; only the configuration differs."""
    docs, _ = topic_docs(np.random.default_rng(4), 5_000, 20)
    docs = docs.astype(np.float64)
    if kind == "floats":
        docs.data *= np.random.default_rng(5).lognormal(size=docs.nnz)
    elif kind == "whole numbers once pruned":
        docs.data[docs.data < 3] -= 0.5
    if any(isinstance(step, MaxPostings) for step in steps):
        parts = [matrix_to_csr(docs[:2_300]), matrix_to_csr(docs[2_300:])]
        by_hand = sp.vstack([as_matrix(part) for part in prune_batches(steps, lambda: parts, docs.shape[1])()])
    else:
        by_hand = as_matrix(prune_rows(steps, matrix_to_csr(docs)))
    by_hand = sp.csr_matrix(by_hand)
    config = segmax.BuildConfig(num_clusters=10)
    built = segmax.build(docs, config=segmax.BuildConfig(num_clusters=10, pruning=steps), path=tmp_path / "steps")
    expected = segmax.build(by_hand, config=config)
    assert built.num_postings == by_hand.nnz < docs.nnz
    for name, array in expected._open_arrays.items():
        assert built._open_arrays[name].tobytes() == array.tobytes(), name
    assert built.quantization_error == expected.quantization_error
    assert segmax.open(tmp_path / "steps").config == segmax.BuildConfig(num_clusters=10, pruning=steps)


def test_query_thresholds_are_applied_by_the_index(rng: np.random.Generator, tmp_path: Path) -> None:
    """Every way to use a query takes the thresholds of the index from it first."""
    docs, _ = topic_docs(rng, 2_000, 10)
    options: dict[str, Any] = {"num_clusters": 8}
    steps = (QueryThreshold(threshold=10), QueryThreshold(threshold=2.5))
    plain = segmax.build(docs, config=segmax.BuildConfig(**options))
    segmax.build(docs, config=segmax.BuildConfig(pruning=steps, **options), path=tmp_path / "x").close()
    index = segmax.open(tmp_path / "x")
    assert index.config.pruning == steps
    queries = [as_query(rng, docs.shape[1], 60, 40) for _ in range(10)]
    cut = [{term: weight - 12.5 for term, weight in query.items() if weight > 12.5} for query in queries]
    for query, pruned in zip(queries, cut, strict=True):
        for params in SAFE_METHODS.values():
            hits, expected = index.search(query, k=20, params=params), plain.search(pruned, k=20, params=params)
            assert list(hits) == list(expected)
            assert hits.scores.tolist() == expected.scores.tolist()
        assert list(index.search(query, k=5, trace=True)) == list(plain.search(pruned, k=5))
        assert index.score(query, range(100)).tolist() == plain.score(pruned, range(100)).tolist()
        for name in ("bound_sum", "max_bound", "avg_bound", "best_score"):
            bounds = (getattr(i.cluster_bounds(q), name) for i, q in ((index, query), (plain, pruned)))
            assert next(bounds).tolist() == next(bounds).tolist()
        for doc_id in (0, 17, int(expected.rows[0])):
            assert index.explain(query, doc_id) == plain.explain(pruned, doc_id)
    batch, expected_batch = index.search_batch(queries, k=9), plain.search_batch(cut, k=9)
    assert (batch.rows == expected_batch.rows).all()
    assert (batch.scores == expected_batch.scores).all()
    assert len(index.search(dict.fromkeys(range(40), 12.5))) == 0


def test_every_document_may_be_pruned_away() -> None:
    """An index without a posting is an index; its documents are never found."""
    config = segmax.BuildConfig(pruning=(DocThreshold(threshold=100),), num_clusters=3)
    with pytest.warns(SegmaxWarning, match="empty after pruning"):
        index = segmax.build(sp.csr_matrix(np.ones((20, 4))), config=config)
    assert (index.num_docs, index.num_postings, index.num_clusters) == (20, 0, 3)
    assert len(index.search({1: 1.0})) == 0


# --- compact, and how many clusters ----------------------------------------------------------------------------------


def test_compact_is_smaller_and_as_exact(rng: np.random.Generator) -> None:
    """Fewer block maxima, same results by every safe method."""
    chances = 1 / np.arange(2, 402)
    rows, columns = np.nonzero(rng.random((6_000, 400)) < chances)
    docs = sp.csr_matrix((rng.integers(1, 200, len(rows)), (rows, columns)), shape=(6_000, 400))
    usual, compact = (segmax.build(docs, config=segmax.BuildConfig(compact=compact)) for compact in (False, True))
    assert 0 < compact.sizes()["block_max"] < usual.sizes()["block_max"]
    assert compact.num_bytes < usual.num_bytes
    assert compact.config.compact
    assert compact.config.head_ratio < usual.config.head_ratio
    for _ in range(10):
        query = as_query(rng, docs.shape[1], 60)
        expected = list(usual.search(query, k=30, params=segmax.Exhaustive()))
        for params in SAFE_METHODS.values():
            assert list(compact.search(query, k=30, params=params)) == expected


def test_results_are_those_of_the_slow_search(rng: np.random.Generator) -> None:
    """From end to end: a stream, pruned and compact, found by k-means, against a loop over the documents."""
    docs, _ = topic_docs(rng, 3_000, 20)
    config = segmax.BuildConfig(num_clusters=11, pruning=(TopTerms(count=5),), compact=True, segmentation="kmeans")
    index = segmax.build(in_batches(docs, [999]), config=config)
    pruned = as_matrix(prune_rows(config.pruning, matrix_to_csr(docs)))
    for _ in range(5):
        query = as_query(rng, docs.shape[1], 50)
        hits = index.search(query, k=25)
        assert (hits.rows.tolist(), hits.scores.tolist()) == best(pruned, query, 25)


@pytest.mark.parametrize(
    ("num_docs", "clusters"), [(1, 1), (1_535, 1), (1_537, 2), (10_240, 10), (12_000, 12), (8_841_823, 8_635)]
)
def test_default_number_of_clusters(num_docs: int, clusters: int) -> None:
    """One per 1,024 documents."""
    assert segmax.BuildConfig().clusters_for(num_docs) == clusters
    if num_docs < 20_000:
        docs = random_docs(np.random.default_rng(0), num_docs, 50, 3.0)
        assert segmax.build(docs).num_clusters == clusters


@pytest.mark.slow
def test_more_blocks_than_16_bits_can_name() -> None:
    """Clusters of one document take a block each: 67,000 of them need a second zone."""
    rng = np.random.default_rng(11)
    docs = random_docs(rng, 67_000, 500)
    labels = Labels(rng.permutation(docs.shape[0]))
    index = segmax.build(docs, clustering=labels, config=segmax.BuildConfig(calibrate=False))
    for _ in range(3):
        query = as_query(rng, 500, 5)
        for params in SAFE_METHODS.values():
            hits = index.search(query, 10, params)
            assert (hits.rows.tolist(), hits.scores.tolist()) == best(docs, query, 10)


# --- options ---------------------------------------------------------------------------------------------------------


def test_options_are_the_fields_of_the_config() -> None:
    """What can be given directly is what a BuildConfig has, all of it typed."""
    fields = {field.name for field in dataclasses.fields(segmax.BuildConfig)}
    assert set(BuildOptions.__annotations__) == fields
    how = {"threads", "memory_limit", "scratch", "progress", "overwrite"}
    assert set(BuildArguments.__annotations__) == fields | how
    parameters = set(inspect.signature(segmax.build).parameters)
    assert set(BuildKeywords.__annotations__) - fields - how < parameters


OPTIONS: dict[str, Any] = {
    "num_clusters": 3,
    "num_segments": 5,
    "segment_bounds": "exact",
    "segmentation": "kmeans",
    "document_order": "row",
    "pruning": [TopTerms(count=2)],
    "bits": 16,
    "compact": True,
    "calibrate": False,
    "seed": 4,
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_given_directly(name: str) -> None:
    """Each option gives the index that a config with it gives, from vectors and from texts."""
    assert set(OPTIONS) == set(BuildOptions.__annotations__)
    docs = random_docs(np.random.default_rng(0), 40, 30)
    given = {name: OPTIONS[name]}
    config = segmax.BuildConfig(**given)
    direct, configured = segmax.build(docs, **given), segmax.build(docs, config=config)
    assert direct.config == config
    for component, array in direct._open_arrays.items():
        assert np.array_equal(array, configured._open_arrays[component]), component
    assert segmax.from_texts(["one word", "two words"], **given).config == config


def test_an_option_overrides_the_config() -> None:
    """The other fields of the config count, and the config itself stays as it is."""
    config = segmax.BuildConfig(num_clusters=2, seed=3)
    docs = random_docs(np.random.default_rng(0), 20, 9)
    assert segmax.build(docs, config=config, num_clusters=4).config == segmax.BuildConfig(num_clusters=4, seed=3)
    assert segmax.build(docs, config=config, num_clusters=None).config == segmax.BuildConfig(seed=3)
    texts = segmax.from_texts(["a cat", "a dog"], config=config, num_clusters=1)
    assert texts.config == segmax.BuildConfig(num_clusters=1, seed=3)
    assert config.num_clusters == 2


@pytest.mark.parametrize(
    ("build", "name", "meant"),
    [
        (segmax.build, "num_cluster", "num_clusters"),
        (segmax.build, "overwite", "overwrite"),
        (segmax.from_texts, "n_segments", "num_segments"),
        (segmax.from_texts, "keep_text", "keep_texts"),
    ],
)
def test_an_option_that_is_misspelled(build: Callable[..., segmax.Index], name: str, meant: str) -> None:
    """The error names the option that was probably meant, before anything is read."""
    with pytest.raises(ConfigError) as error:
        build(iter([]), **{name: 1})
    assert str(error.value) == f"expected an option of segmax.{build.__name__}, got '{name}'; did you mean '{meant}'?"


def test_an_option_that_nobody_knows() -> None:
    """Where nothing is close, all options are named."""
    with refused(ConfigError, expected=r"options of segmax.build \(bits, .*threads\)", got="'color'"):
        segmax.build(iter([]), color=1)  # type: ignore[call-arg]
    with refused(ConfigError, option="^config$", expected="a BuildConfig", got="dict"):
        segmax.build(iter([]), config={"seed": 1})  # type: ignore[arg-type]
    with refused(ConfigError, option="^num_clusters$", expected="at least 1", got="0"):
        segmax.build(iter([]), num_clusters=0)


# --- empty documents -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("docs", "options", "message"),
    [
        (sp.csr_matrix((3, 5)), {}, "all 3 documents are empty: no term has a weight above 0, so no search will find"),
        (sp.csr_matrix((1, 5)), {}, "the only document is empty: "),
        (sp.csr_matrix(([0.0], ([0], [1])), shape=(2, 2)), {}, "all 2 documents are empty: "),
        (
            sp.csr_matrix(np.eye(4)),
            {"pruning": DocThreshold(threshold=9)},
            "all 4 documents are empty after pruning: ",
        ),
    ],
)
def test_all_documents_are_empty(docs: Any, options: dict[str, Any], message: str) -> None:
    """The index is built, with a warning that leads to the caller."""
    with pytest.warns(SegmaxWarning, match=message) as warned:
        index = segmax.build(docs, **options)
    assert [Path(warning.filename).name for warning in warned] == ["test_build.py"]
    assert index.search({1: 1.0}).ids == []


def test_texts_without_words() -> None:
    """The same for texts of nothing but stop words."""
    with pytest.warns(SegmaxWarning, match="all 3 documents are empty"):
        segmax.from_texts(["", "the of", "  "])


def test_some_documents_are_empty() -> None:
    """That is common, and no warning; pytest makes one an error."""
    segmax.build(sp.csr_matrix([[0, 0], [0, 1]]))
