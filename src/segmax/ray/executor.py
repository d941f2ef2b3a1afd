"""Runs the tasks of a build on Ray: a few more than there are processors at a time, again where a machine was lost."""

from __future__ import annotations

import contextlib
import dataclasses
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from segmax.base.errors import SegmaxError
from segmax.base.memory import LEAST_LIMIT
from segmax.ray import engine
from segmax.shards.making.tasks import Task, Workplace

_QUEUED = 2  # times as many tasks are submitted as can run, so that no processor waits for the driver
_RETRIES = 2  # by Ray itself
_ATTEMPTS = 8  # by us, each with Ray's
_CANCEL_SECONDS = 20.0


def run_task(task: Task, work: Workplace) -> tuple[Mapping[str, Any] | None, SegmaxError | None]:
    """Run a task; return its result, or an error that doing it again would not change."""
    try:
        return task.run(work), None
    except SegmaxError as error:
        return None, error


class _Attempt(NamedTuple):
    """A task on its way, and how often it has been tried."""

    number: int
    task: Task
    tries: int = 1


@dataclasses.dataclass(frozen=True)
class RayExecutor:
    """Runs tasks on the machines of a Ray cluster, to which this process is connected.

    Parameters
    ----------
    num_cpus
        The processors that a task reserves.
    memory
        The bytes that a task reserves; None: none are reserved.
    """

    num_cpus: float = 1
    memory: int | None = None

    def run(self, tasks: Sequence[Task], work: Workplace) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Yield (number of a task, its result) as they are done, in any order."""
        ray = engine.ray()
        remote = ray.remote(
            num_cpus=self.num_cpus, memory=self.memory, max_retries=_RETRIES, scheduling_strategy="SPREAD"
        )(run_task)
        gpus = ray.cluster_resources().get("GPU", 0)
        waiting = deque(_Attempt(number, task) for number, task in enumerate(tasks))
        running: dict[Any, _Attempt] = {}
        try:
            while waiting or running:
                while waiting and len(running) < self._most_running():
                    attempt = waiting.popleft()
                    card = {"num_gpus": 1} if gpus >= 1 and attempt.task.wants_gpu else {}
                    running[remote.options(**card).remote(attempt.task, work)] = attempt
                (done,), _ = ray.wait(list(running), num_returns=1)
                attempt = running.pop(done)
                try:
                    result, error = ray.get(done)
                except ray.exceptions.RayError as lost:
                    if attempt.tries >= _ATTEMPTS:
                        raise _given_up(attempt.task, lost) from lost
                    waiting.appendleft(attempt._replace(tries=attempt.tries + 1))
                    continue
                if error is not None:
                    raise error
                yield attempt.number, result
        finally:
            _cancel(list(running))

    def _most_running(self) -> int:
        """Return how many tasks to submit; machines come and go."""
        cpus = float(engine.ray().cluster_resources().get("CPU", 1.0))
        slots = cpus / max(self.num_cpus, 0.01)
        return max(2, round(_QUEUED * slots))


def _given_up(task: Task, error: Exception) -> SegmaxError:
    """Return the error about a task that failed every time."""
    cause = getattr(error, "cause", None) or error
    reason = str(cause).strip().splitlines()
    return SegmaxError(
        f"the task '{task.output}' of the build failed {_ATTEMPTS} times ({type(cause).__name__}: "
        f"{reason[0][:200] if reason else ''})",
        hint="call it again to resume the build; give tasks more memory with {memory_limit=...}",
    )


def _cancel(running: list[Any]) -> None:
    """End tasks whose results nobody waits for any more, and wait until they have ended."""
    if not running:
        return
    ray = engine.ray()
    with contextlib.suppress(ray.exceptions.RayError):
        for one in running:
            ray.cancel(one, force=True)
        ray.wait(running, num_returns=len(running), timeout=_CANCEL_SECONDS)


def node_share(num_cpus: float) -> tuple[int, int]:
    """Return the memory for a task, and the most that any machine has: memory of a machine is shared by its tasks."""
    nodes = [node["Resources"] for node in engine.ray().nodes() if node["Alive"]]
    sizes = [(node.get("memory", 0.0), node.get("CPU", 0.0)) for node in nodes if node.get("CPU", 0.0) >= num_cpus]
    if not sizes:
        return 4 * LEAST_LIMIT, 4 * LEAST_LIMIT
    share = min(memory * min(1.0, num_cpus / cpus) for memory, cpus in sizes if cpus > 0)
    return max(4 * LEAST_LIMIT, int(share)), int(max(memory for memory, _ in sizes))
