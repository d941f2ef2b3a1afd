"""What is in a collection: its documents, and the parts that they lie in."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from segmax.base.display import counted, printable, size_text
from segmax.base.text_table import Column, tables
from segmax.collection.collection import Collection
from segmax.inspection.summary import structure_of

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType


class PartSummary(NamedTuple):
    """A part of a collection."""

    name: str  #: its folder; "memory" for one that is in memory and in the log only
    num_docs: int  #: alive
    num_deleted: int
    num_postings: int
    num_clusters: int
    bits: int
    num_bytes: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class CollectionSummary:
    """What is in a collection, as `inspect` returns it. Print it with rich, or call `to_dict`.

    Examples
    --------
    >>> import scipy.sparse as sp, segmax, tempfile
    >>> collection = segmax.Collection.create(f"{tempfile.mkdtemp()}/docs")
    >>> collection.add(sp.csr_matrix([[1, 2], [3, 0]]))
    2
    >>> segmax.inspect(collection).parts[0].num_docs
    2
    """

    path: str
    num_docs: int
    num_terms: int
    durability: str
    log_bytes: int
    fields: tuple[str, ...]  #: of the metadata
    parts: tuple[PartSummary, ...]
    structure_sizes: dict[str, int]  #: bytes per structure, over all parts, the largest first

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as `segmax inspect --json` prints them."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {**values, "fields": list(self.fields), "parts": [part._asdict() for part in self.parts]}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        from rich.text import Text

        width = options.max_width
        yield Text(f"segmax collection {printable(self.path)}", style="bold", overflow="fold", end="\n\n")
        words = [
            f"{counted(self.num_docs, 'document')}, {counted(self.num_terms, 'term')}, durability {self.durability}",
            f"log {size_text(self.log_bytes)}",
            f"metadata: {', '.join(map(printable, self.fields)) or 'none'}",
        ]
        yield Text("\n".join(words), overflow="fold")
        for title, columns in (("Parts", self._part_columns()), ("Sizes", self._size_columns())):
            if columns[0].cells:
                yield Text(f"\n{title}", style="bold")
                yield from tables([columns], width)

    def _part_columns(self) -> list[Column]:
        figures = ("num_docs", "num_deleted", "num_postings", "num_clusters", "bits")
        columns = [Column(heading="part", cells=[part.name for part in self.parts], words=True)]
        columns += [
            Column(heading=name.removeprefix("num_"), cells=[f"{getattr(part, name):,}" for part in self.parts])
            for name in figures
        ]
        return [*columns, Column(heading="size", cells=[size_text(part.num_bytes) for part in self.parts])]

    def _size_columns(self) -> list[Column]:
        return [
            Column(heading="structure", cells=list(self.structure_sizes), words=True),
            Column(heading="size", cells=[size_text(size) for size in self.structure_sizes.values()]),
        ]


def collection_summary(collection: Collection) -> CollectionSummary:
    """Return what is in a collection."""
    state = collection.snapshot().state
    sizes: dict[str, int] = {}
    fields: dict[str, None] = {}
    for view in state.views:
        for component, array in view.part.engine.arrays.items():
            sizes[structure_of(component)] = sizes.get(structure_of(component), 0) + array.nbytes
        if view.part.metadata is not None:
            fields.update(dict.fromkeys(view.part.metadata.fields))
    return CollectionSummary(
        path=str(collection.path),
        num_docs=state.num_docs,
        num_terms=state.lattice.num_terms,
        durability=collection.durability,
        log_bytes=collection.stats().log_bytes,
        fields=tuple(fields),
        parts=tuple(
            PartSummary(
                view.part.name or "memory",
                view.num_alive,
                view.part.num_docs - view.num_alive,
                view.part.num_postings,
                view.part.engine.core.num_clusters,
                16 if view.part.is_wide else 8,
                view.part.num_bytes,
            )
            for view in state.views
        ),
        structure_sizes=dict(sorted(sizes.items(), key=lambda item: -item[1])),
    )
