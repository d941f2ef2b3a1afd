"""What documents are clustered by, for `build(clustering=...)`."""

from segmax.building.clustering import Clustering, Dense, Labels, Pooled, Sparse

__all__ = ["Clustering", "Dense", "Labels", "Pooled", "Sparse"]
