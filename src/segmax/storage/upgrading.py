"""Rewriting an index of an older version of the format, on disk or in memory. docs/format.md has its history.

Version 3 kept the maxima of segments as codes, with their sums; maxima of spans for all but the rarest terms; and
starts of runs in 32 bits. What version 4 has in their place follows from these, term by term, without the documents.
Version 4 did not say where the entries of pairs start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segmax.base.errors import FormatError, damaged
from segmax.base.system import total_memory
from segmax.storage.components import COMPONENTS, Arrays, Check, Component
from segmax.storage.meta import FORMAT_VERSION, OLDEST_MAPPED_VERSION, OLDEST_UPGRADABLE_VERSION, read_meta
from segmax.storage.pair_entries import pair_entries
from segmax.storage.reading import index_errors, load_components
from segmax.storage.writing import IndexWriter

_LEVELS = 16
_LEVELS_PER_LINE = 128  # a row of levels is padded to whole cache lines, two levels a byte
_QUAD_BLOCKS = 4
_BASE_SPANS = 64

_NEW = ("segment_max", "segment_mask", "quad_max", "run_base", "run_start", "level")
#: The components of version 3: those of today but for a few.
_COMPONENTS_3: Mapping[str, Component] = {
    **{name: component for name, component in COMPONENTS.items() if name not in _NEW},
    **{
        component.name: component
        for component in (
            Component("segment_max", "code", checked=False),
            Component("segment_sum", "u1", checked=False),
            Component("level", "code", checked=False),
            Component("span_max", "u1", checked=False),
            Component("run_start", "<u4", checked=False),
        )
    },
}


def upgrade_files(path: Path, check: Check) -> bool:
    """Rewrite the index at a path in today's format, in one step; return False if it has it already.

    Parameters
    ----------
    path
        The directory of the index. Readers that have it open keep what they have.
    check
        Opens what was written, before it becomes current.

    Raises
    ------
    FormatError
        If there is no index, a damaged one, or one of a version that is too old or too new.
    WriteError
        If the new files cannot be written; the index stays as it was.
    """
    meta = read_meta(path, oldest=OLDEST_UPGRADABLE_VERSION)
    if meta["version"] == FORMAT_VERSION:
        return False
    arrays = _components(path, meta)
    upgraded = {**meta, "version": FORMAT_VERSION}
    with IndexWriter(path, overwrite=True, check=check) as writer:
        with index_errors(path):
            for name, piece in _pieces(meta, arrays, path):
                writer.append(name, piece)
        writer.finish(upgraded)
        writer.commit(upgraded)
    return True


def load_older(path: Path) -> tuple[dict[str, Any], Arrays] | None:
    """Return an index of an older version as one of today's, in memory.

    None if it has a version that is read as it is, is none at all, or is too large for that: it has to be rewritten on
    disk.
    """
    try:
        meta = read_meta(path, oldest=OLDEST_UPGRADABLE_VERSION)
    except FormatError:
        return None
    size = sum(entry["bytes"] for entry in meta["files"].values())
    if meta["version"] >= OLDEST_MAPPED_VERSION or size > total_memory() // 4:
        return None
    arrays = _components(path, meta)
    pieces: dict[str, list[NDArray[Any]]] = {}
    with index_errors(path):
        for name, piece in _pieces(meta, arrays, path):
            pieces.setdefault(name, []).append(piece)
    types = {name: COMPONENTS[name].dtype(meta["code_bytes"]) for name in pieces}
    made = {name: np.concatenate(some).astype(types[name], copy=False) for name, some in pieces.items()}
    return {**meta, "version": FORMAT_VERSION}, made


def _components(path: Path, meta: Mapping[str, Any]) -> Arrays:
    """Map the components of an older version, and check every byte."""
    components = COMPONENTS if meta["version"] >= OLDEST_MAPPED_VERSION else _COMPONENTS_3
    try:
        return dict(load_components(path, meta, preload=False, verify=True, components=components))
    except FileNotFoundError as error:
        raise damaged(f"'{Path(error.filename).name}' is missing", path) from error


def _pieces(meta: Mapping[str, Any], arrays: Arrays, path: Path) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the components of today, those that changed term by term."""
    changed = () if meta["version"] >= OLDEST_MAPPED_VERSION else _NEW
    for name in COMPONENTS:
        if name not in (*changed, "pair_entry") and name in arrays:
            yield name, arrays[name]
    for starts in pair_entries(meta, arrays):
        yield "pair_entry", starts
    for name in changed:
        yield name, np.empty(0, dtype=COMPONENTS[name].dtype(meta["code_bytes"]))  # there even if no term has any
    if changed:
        yield from _Terms(meta, arrays, path).pieces()


class _Terms:
    """The terms of an index of version 3, one after the other."""

    def __init__(self, meta: Mapping[str, Any], arrays: Arrays, path: Path) -> None:
        self._arrays = arrays
        self._path = path
        self._num_segments = int(meta["num_segments"])
        self._head_ratio = int(meta["head_ratio"])
        self._num_clusters = len(arrays["cluster_num_docs"])
        self._num_positions = len(arrays["position_row"])
        self._num_spans = -(-self._num_positions // 1024) * 4

    def pieces(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """Yield what is new, by term."""
        pairs = self._arrays["term_first_pair"].astype(np.int64)
        postings = np.diff(self._arrays["term_first_posting"].astype(np.int64))
        counts = np.diff(pairs)
        heads = rows = 0
        for term in np.flatnonzero(postings).tolist():
            is_head = postings[term] * self._head_ratio >= self._num_positions // 16
            is_wide = counts[term] == self._num_clusters
            had_row = postings[term] * 32 * self._head_ratio >= self._num_positions // 16
            segments = self._segments(int(pairs[term]), int(counts[term]))
            stored = self._arrays["level"][rows * _LEVELS : (rows + 1) * _LEVELS]
            levels = stored if had_row else _plain_levels(segments)
            if is_head or is_wide:
                yield "level", levels
            if self._num_segments > 1:
                yield from self._segment_pieces(segments, levels, is_wide)
            if is_head:
                yield from self._head_pieces(heads)
            heads += int(is_head)
            rows += int(had_row)

    def _segments(self, first_pair: int, count: int) -> NDArray[Any]:
        """Return the maxima of a term's segments, a row per pair."""
        size = self._num_segments
        found = self._arrays["segment_max"][first_pair * size : (first_pair + count) * size]
        if len(found) != count * size:
            raise damaged("segment_max has the wrong length", self._path)
        return found.reshape(count, size)

    def _segment_pieces(
        self, segments: NDArray[Any], levels: NDArray[Any], is_wide: bool
    ) -> Iterator[tuple[str, NDArray[Any]]]:
        if is_wide:
            yield "segment_max", _packed(np.searchsorted(levels, segments.ravel()))
        else:
            yield "segment_mask", np.packbits(segments != 0, axis=1, bitorder="little").ravel()

    def _head_pieces(self, head: int) -> Iterator[tuple[str, NDArray[Any]]]:
        row = self._arrays["block_max"][head * self._num_spans * 16 : (head + 1) * self._num_spans * 16]
        yield "quad_max", _packed(_unpacked(row).reshape(-1, _QUAD_BLOCKS).max(axis=1))
        starts = self._arrays["run_start"][head * (self._num_spans + 1) : (head + 1) * (self._num_spans + 1)]
        bases = starts[::_BASE_SPANS]
        yield "run_base", bases
        yield "run_start", (starts - np.repeat(bases, _BASE_SPANS)[: len(starts)]).astype("<u2")


def _plain_levels(segments: NDArray[Any]) -> NDArray[Any]:
    """Return levels for a term that had none: evenly spaced up to its largest code."""
    largest = int(segments.max(initial=0))
    return np.ceil(np.linspace(0, largest, _LEVELS)).astype(segments.dtype)


def _packed(levels: NDArray[Any]) -> NDArray[np.uint8]:
    """Return a row of levels: of 32 of them, the first 16 are the low halves of 16 bytes."""
    padded = np.zeros(-(-len(levels) // _LEVELS_PER_LINE) * _LEVELS_PER_LINE, dtype=np.uint8)
    padded[: len(levels)] = levels
    halves = padded.reshape(-1, 2, 16)
    return np.asarray(halves[:, 0] | (halves[:, 1] << 4), dtype=np.uint8).ravel()


def _unpacked(row: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the levels of a row."""
    bytes_ = row.reshape(-1, 1, 16)
    return np.concatenate([bytes_ & 15, bytes_ >> 4], axis=1).ravel()
