"""The queries of a simulation: when they come, how hard they are, and which shards they ask."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax.planning.scenario import Scenario


class Queries(NamedTuple):
    """What is known of every query before it runs."""

    pause_ms: NDArray[np.float64]  #: since the query before
    hardness: NDArray[np.float64]  #: factor of its search times, 1 on average
    topic: NDArray[np.int64]
    num_asked: NDArray[np.int64]


class Workload:
    """Draws the queries of a scenario.

    Examples
    --------
    >>> workload = Workload(Scenario(shards=16, asked=0.5, zipf=1.0, topics=50), seed=0)
    >>> queries = workload.queries(1000)
    >>> float(queries.num_asked.mean())
    8.0
    >>> len(set(workload.shards_of(3, 16).tolist()))
    16
    """

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self._scenario = scenario
        self._rng = np.random.default_rng(seed)
        self._orders = self._rng.permuted(np.tile(np.arange(scenario.shards), (scenario.topics, 1)), axis=1)
        popularity = np.arange(1, scenario.topics + 1) ** -float(scenario.zipf)
        self.popularity = popularity / popularity.sum()

    def queries(self, count: int) -> Queries:
        """Draw queries."""
        scenario, rng = self._scenario, self._rng
        pause = rng.exponential(1e3 / scenario.qps, count) if scenario.qps else np.zeros(count)
        # A batch is as hard as the mean of its queries.
        hardness = lognormal(rng, scenario.query_spread / math.sqrt(scenario.batch), count)
        topic = rng.choice(scenario.topics, count, p=self.popularity)
        return Queries(pause, hardness, topic, self.num_asked(count))

    def shards_of(self, topic: int, count: int) -> NDArray[np.int64]:
        """Return the first shards that a query about a topic asks."""
        return np.asarray(self._orders[topic, :count])

    def expected_load(self) -> NDArray[np.float64]:
        """Return how many shards' worth of calls every shard gets: 1 on average."""
        whole = round(self._scenario.num_asked)
        load = np.zeros(self._scenario.shards)
        np.add.at(load, self._orders[:, :whole], self.popularity[:, None])
        return np.asarray(load / load.mean())

    def num_asked(self, count: int) -> NDArray[np.int64]:
        """Draw how many shards queries ask."""
        scenario = self._scenario
        mean = scenario.num_asked / scenario.shards
        # At most what a share between 0 and 1 with this mean can vary.
        spread = min(scenario.asked_spread, 0.9 * math.sqrt(mean * (1 - mean)))
        if spread == 0:
            return np.full(count, round(scenario.num_asked))
        size = mean * (1 - mean) / spread**2 - 1
        shares = self._rng.beta(mean * size, (1 - mean) * size, count)
        return np.maximum(1, np.rint(shares * scenario.shards)).astype(np.int64)


def lognormal(rng: np.random.Generator, spread: float, count: int) -> NDArray[np.float64]:
    """Draw factors that are 1 on average; their logarithm has this standard deviation."""
    return np.exp(rng.normal(-(spread**2) / 2, spread, count)) if spread else np.ones(count)
