"""What an index at a service says about itself, however its answers come: at once, or awaited."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segmax.base.display import counted, printable
from segmax.remote.address import index_path
from segmax.remote.answers import Info

if TYPE_CHECKING:
    from segmax.remote.endpoint import Endpoint


class Described:
    """The properties that follow from what the service last said; subclasses decide how old that may be."""

    _calls: Endpoint

    @property
    def info(self) -> Info:
        """What the service said about it when it was last asked."""
        return self._calls.info

    @property
    def url(self) -> str:
        """Its address, which `segmax.connect` takes."""
        return self._calls.base + index_path(self.name)

    @property
    def name(self) -> str:
        """Its name at the service."""
        return self._calls.name

    @property
    def num_docs(self) -> int:
        """The number of documents."""
        return self.info.num_docs

    @property
    def num_terms(self) -> int:
        """The number of columns of the vectors."""
        return self.info.num_terms

    @property
    def num_clusters(self) -> int:
        """The number of clusters."""
        return self.info.num_clusters

    @property
    def num_shards(self) -> int | None:
        """The number of shards of a sharded index; None for another one."""
        return self.info.num_shards

    @property
    def num_segments(self) -> int:
        """The number of segments per cluster."""
        return self.info.num_segments

    @property
    def num_postings(self) -> int:
        """The number of stored weights."""
        return self.info.num_postings

    @property
    def num_bytes(self) -> int:
        """The size of all components."""
        return self.info.num_bytes

    @property
    def bits(self) -> int:
        """Bits per stored weight."""
        return self.info.bits

    @property
    def id_kind(self) -> type[int | str] | None:
        """What its ids are, `int` or `str`; None as long as there is no document."""
        return {"int": int, "str": str}.get(self.info.id_kind or "")

    @property
    def fields(self) -> dict[str, tuple[str, ...]]:
        """The fields of the metadata, and the kinds of values in each; empty if none are stored."""
        return dict(self.info.fields)

    def __repr__(self) -> str:
        known = self._calls.info  # without asking: a repr must not wait for a network
        return f"{type(self).__name__}('{printable(self.url)}': {counted(known.num_docs, 'document')})"
