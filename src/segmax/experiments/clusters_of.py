"""Which cluster each document is in."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from segmax.search.index import Index


def clusters_of(index: Index) -> NDArray[Any]:
    """Return the number of every document's cluster, by row."""
    arrays = index._open_arrays
    found = np.empty(index.num_docs, dtype=np.int64)
    for cluster, size in enumerate(arrays["cluster_num_docs"].tolist()):
        first = int(arrays["cluster_first_position"][cluster])
        found[arrays["position_row"][first : first + size]] = cluster
    return found
