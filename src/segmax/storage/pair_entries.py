"""Where the entries of every pair start, which came with version 5 of the format: it follows from what was there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segmax.storage.components import Arrays

_BLOCK_DOCS = 8
_ZONE_BLOCKS = 65536
_HEAD_DOCS = 16


def pair_entries(meta: Mapping[str, Any], arrays: Arrays) -> Iterator[NDArray[np.uint16]]:
    """Yield the starts of one tail term after the other, of an index of any version that is read."""
    yield np.empty(0, np.uint16)  # there even if no term has any
    first_block = arrays["cluster_first_position"][:-1].astype(np.int64) // _BLOCK_DOCS
    num_clusters, num_positions = len(first_block), len(arrays["position_row"])
    pairs = np.diff(arrays["term_first_pair"].astype(np.int64))
    postings = np.diff(arrays["term_first_posting"].astype(np.int64))
    entries = arrays["term_first_entry"].astype(np.int64)
    num_zones = (len(entries) - 1) // max(1, len(pairs))
    is_tail = (postings * int(meta["head_ratio"]) < num_positions // _HEAD_DOCS) & (postings > 0)
    narrow = np.concatenate([[0], np.cumsum(np.where(pairs == num_clusters, 0, pairs))])
    for term in np.flatnonzero(is_tail).tolist():
        zones = entries[term * num_zones : (term + 1) * num_zones + 1]
        blocks = arrays["entry_block"][zones[0] : zones[-1]].astype(np.int64)
        blocks += np.repeat(np.arange(num_zones) * _ZONE_BLOCKS, np.diff(zones))
        first = first_block
        if pairs[term] != num_clusters:  # clusters are numbers that nobody checked yet
            first = first_block[np.minimum(arrays["narrow_cluster"][narrow[term] : narrow[term + 1]], num_clusters - 1)]
        starts = np.searchsorted(blocks, first) - (zones - zones[0])[first // _ZONE_BLOCKS]
        yield starts.astype(np.uint16)
