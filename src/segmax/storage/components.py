"""The table of components: the files of an index, and its arrays in memory.

The core lists the arrays that it reads, once, in cpp/include/segmax/index/components.hpp. This module adds those that
only Python reads. Reading and writing follow from the table, and a test compares docs/format.md with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax import _core

Arrays = dict[str, NDArray[Any]]
#: Opens an index from a meta.json and arrays, or raises FormatError: what a writer does before it commits.
Check = Callable[[Mapping[str, Any], Arrays], object]


class Component(NamedTuple):
    """One component: a file on disk, an array in memory."""

    name: str
    #: The type of an entry, as numpy names it. A "code" is as wide as `code_bytes` in meta.json says.
    type: str
    #: Whether opening an index compares the bytes with their checksum. Postings and bounds are large, and no value in
    #: them can lead the core astray, so only `verify` checks those.
    checked: bool
    #: Optional components have a group, whose components an index has all or none of.
    group: str = ""

    def dtype(self, code_bytes: int) -> np.dtype[Any]:
        """Return the type of an entry in an index with codes of this width."""
        return np.dtype(self.type if self.type != "code" else f"<u{code_bytes}")


_TABLE = (
    *(
        Component(name, kind, checked=checked, group=name if optional else "")
        for name, kind, checked, optional in _core.components()
    ),
    Component("cluster_label", "<i8", checked=True),
    Component("id_number", "<i8", checked=True, group="numbers"),
    Component("id_offset", "<u8", checked=True, group="ids"),
    Component("id_text", "u1", checked=True, group="ids"),
    Component("term_offset", "<u8", checked=True, group="terms"),
    Component("term_text", "u1", checked=True, group="terms"),
    Component("text_offset", "<u8", checked=True, group="texts"),
    Component("text_first_row", "<u8", checked=True, group="texts"),
    Component("text_data", "u1", checked=False, group="texts"),
    Component("metadata_offset", "<u8", checked=True, group="metadata"),
    Component("metadata_first_row", "<u8", checked=True, group="metadata"),
    Component("metadata_data", "u1", checked=False, group="metadata"),
    Component("metadata_column", "u1", checked=False, group="metadata"),
    Component("doc_number", "<i8", checked=True, group="part"),
    Component("id_hash", "<u8", checked=True, group="part"),
    Component("id_hash_row", "<u4", checked=True, group="part"),
    Component("count_offset", "<u8", checked=True, group="counts"),
    Component("count_term", "<u4", checked=False, group="counts"),
    Component("count_value", "<u4", checked=False, group="counts"),
)

#: All components by name, in the order in which they are written.
COMPONENTS: Mapping[str, Component] = {component.name: component for component in _TABLE}
#: The last component of each group.
LAST_OF_GROUP: Mapping[str, str] = {component.group: component.name for component in _TABLE if component.group}
