"""What documents are clustered by, for `build(clusters=...)`."""

from segmax.building.clustering import Dense, Labels, Sparse

__all__ = ["Dense", "Labels", "Sparse"]
