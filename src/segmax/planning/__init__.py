"""How many machines an index needs: a model of measured figures, and a simulation of a cluster.

`plan` finds the cheapest cluster for a number of documents and queries; `segmax plan` prints it. `simulate` lets a
cluster run under queries, with stragglers and failures. Both rest on `figures.json`, which
`python -m benchmarks.planning` measures.
"""

from segmax.planning.approximating import Latency, approximate
from segmax.planning.figures import Figures
from segmax.planning.plan import Plan
from segmax.planning.planner import plan
from segmax.planning.request import Machine
from segmax.planning.scenario import Scenario
from segmax.planning.simulating import Simulated, simulate

__all__ = ["Figures", "Latency", "Machine", "Plan", "Scenario", "Simulated", "approximate", "plan", "simulate"]
