"""What an experiment receives: collections, options, a store of steps, and methods to build, search and measure."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import segmax
from segmax.base.errors import ConfigError
from segmax.building.builder import build
from segmax.building.clustering import Clustering
from segmax.evaluation import evaluate
from segmax.experiments import printed
from segmax.experiments.collections import Collection
from segmax.experiments.outcome import Json
from segmax.experiments.steps import Steps, code_digest
from segmax.paper.methods import ASC, Anytime, DocumentMethod, MaxScore
from segmax.search.index import Index
from segmax.search.methods import SearchParams
from segmax.storage.config import BuildConfig, DocumentOrder, Segmentation
from segmax.vectors.pruning import Step

#: Fine clusters are as many as the paper's, or hold as many documents each; there are fewer coarse ones.
_DOCS_PER_CLUSTER = printed.DOCS_PER_CLUSTER
_MOST_CLUSTERS = printed.FINE_CLUSTERS
_FINE_PER_COARSE = 8
#: Small collections have this many clusters, if each then holds so many documents.
_SMALL_CLUSTERS = 512
_SMALL_CLUSTER_DOCS = 32


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """What an experiment receives.

    Parameters
    ----------
    collections
        The collections to measure: one, unless the experiment takes several.
    steps
        The store of measured steps; by default in memory only.
    quick
        Measure less, within seconds: a preview rather than a result.
    seeds
        Random seeds of clusters and segments; every measurement is repeated for each.
    documents
        How to find documents inside a visited cluster: "maxscore" as in the paper, "blocks" as segmax does.
    ks
        Retrieval depths.
    passes
        How often to time every query; the fastest pass counts.
    num_clusters
        The number of fine clusters; None: see `clusters`.
    min_rel
        The lowest grade that counts as relevant for MRR and Recall.
    """

    collections: tuple[Collection, ...] = ()
    steps: Steps = dataclasses.field(default_factory=Steps)
    quick: bool = False
    seeds: tuple[int, ...] = (0,)
    documents: DocumentMethod = "maxscore"
    ks: tuple[int, ...] = (10, 1000)
    passes: int = 3
    num_clusters: int | None = None
    min_rel: int = 1

    @property
    def collection(self) -> Collection:
        """The only collection, or the first."""
        if not self.collections:
            raise ConfigError(expected="a collection", got="none", hint="give one with {data}")
        return self.collections[0]

    def clusters(self, collection: Collection) -> tuple[int, int]:
        """Return the numbers of coarse and of fine clusters: the paper's 512 and 4,096, scaled down.

        Fine clusters hold 2,158 documents, as in the paper. If that makes fewer than 512 clusters, there are 512 or, in
        smaller collections, one per 32 documents.
        """
        num_docs = collection.num_docs
        dense = round(num_docs / _DOCS_PER_CLUSTER)
        least = min(_SMALL_CLUSTERS, num_docs // _SMALL_CLUSTER_DOCS)
        fine = self.num_clusters or min(_MOST_CLUSTERS, max(dense, least, 1))
        fine = min(fine, num_docs)
        return max(1, fine // _FINE_PER_COARSE), fine

    def step(self, key: Mapping[str, Json], compute: Callable[[], Json]) -> Json:
        """Return the stored result for this key and these options, or compute and store it.

        Parameters
        ----------
        key
            What the step depends on besides the options of the task and its first collection, as JSON values. A step
            on another collection has its fingerprint as "collection".
        compute
            Returns JSON values. What is returned later has gone through JSON: no tuples, and no numbers as keys.
        """
        return self.steps.get({**self._options, **key}, compute)

    @cached_property
    def _options(self) -> dict[str, Json]:
        return {
            "version": segmax.__version__,
            "code": code_digest(),
            "collection": self.collections[0].fingerprint if self.collections else None,
            "quick": self.quick,
            "documents": self.documents,
            "passes": self.passes,
            "min_rel": self.min_rel,
        }

    def build(
        self,
        collection: Collection,
        *,
        num_clusters: int,
        num_segments: int = 8,
        seed: int = 0,
        clustering: Clustering | None = None,
        segmentation: Segmentation = "random",
        pruning: tuple[Step, ...] = (),
        document_order: DocumentOrder = "similarity",
    ) -> Index:
        """Build an index of a collection in memory, without calibration; see `BuildConfig` for the options."""
        config = BuildConfig(
            num_clusters=min(num_clusters, collection.num_docs),
            num_segments=num_segments,
            segmentation=segmentation,
            document_order=document_order,
            pruning=pruning,
            calibrate=False,
            seed=seed,
        )
        return build(
            collection.documents,
            ids=collection.ids,
            terms=collection.terms,
            clustering=clustering,
            config=config,
            progress=False,
        )

    def measured(
        self, index: Index, collection: Collection, methods: Mapping[str, SearchParams], k: int
    ) -> list[dict[str, Any]]:
        """Evaluate named methods on a collection's queries; return one `MethodResult.to_dict()` each, in that order.

        "per_query" has the values of every query, which t-tests need: measures of relevance, recall of exact and, for
        methods with clusters, the share of clusters visited.
        """
        evaluation = evaluate(
            index,
            collection.queries,
            collection.qrels,
            methods=methods,
            k=k,
            min_rel=self.min_rel,
            drop_self=collection.drop_self,
            passes=self.passes,
            progress=False,
        )
        return [
            {
                **result.to_dict(),
                "per_query": {
                    name: values.tolist() for name, values in result.per_query.items() if name != "milliseconds"
                },
            }
            for result in evaluation.methods
        ]

    # --- the paper's methods ------------------------------------------------------------------------------------------

    def anytime(self, mu: float = 1.0, **more: Any) -> Anytime:
        """Return Anytime Ranking as in the paper; Anytime* if mu < 1."""
        return Anytime(mu=mu, **{**self._plain, **more})

    def asc(self, mu: float = 1.0, eta: float = 1.0, **more: Any) -> ASC:
        """Return ASC as in the paper."""
        return ASC(mu=mu, eta=eta, **{**self._plain, **more})

    def maxscore(self) -> MaxScore:
        """Return MaxScore as in the paper, without a threshold estimate."""
        return MaxScore(estimate_threshold=False)

    @property
    def _plain(self) -> dict[str, Any]:
        return {"documents": self.documents, "estimate_threshold": False}
