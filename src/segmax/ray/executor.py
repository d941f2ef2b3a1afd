"""Runs the tasks of a build on Ray: a few more than there are processors at a time, again where a machine was lost."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from segmax.base.errors import ConfigError, SegmaxError
from segmax.base.memory import LEAST_LIMIT
from segmax.ray import engine
from segmax.shards.making.tasks import Task, Workplace, patiently

_QUEUED = 2  # times as many tasks are submitted as can run, so that no processor waits for the driver
_RETRIES = 2  # by Ray itself
_ATTEMPTS = 8  # by us, each with Ray's
_CANCEL_SECONDS = 20.0
_LOOK_SECONDS = 5.0  # after so long without a result: is there still a machine for the tasks?
_PLACE_SECONDS = 60.0  # for a machine to come back


def run_task(task: Task, work: Workplace) -> tuple[Mapping[str, Any] | None, SegmaxError | None]:
    """Run a task; return its result, or an error that doing it again would not change."""
    try:
        return patiently(partial(task.run, work)), None
    except SegmaxError as error:
        return None, error


class _Attempt(NamedTuple):
    """A task on its way, how often it has been tried, and whether it reserves a graphics card."""

    number: int
    task: Task
    tries: int = 1
    on_gpu: bool = False


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
        waiting = deque(_Attempt(number, task) for number, task in enumerate(tasks))
        running: dict[Any, _Attempt] = {}
        placed = time.monotonic()  # when there was last a machine for the tasks
        try:
            while waiting or running:
                while waiting and len(running) < self._most_running():
                    attempt = self._with_card(waiting.popleft())
                    card = {"num_gpus": 1} if attempt.on_gpu else {}
                    running[remote.options(**card).remote(attempt.task, work)] = attempt
                done, _ = ray.wait(list(running), num_returns=1, timeout=_LOOK_SECONDS)
                if not done:
                    placed = self._look(running, placed)
                    continue
                attempt = running.pop(done[0])
                try:
                    result, error = ray.get(done[0])
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

    def _with_card(self, attempt: _Attempt) -> _Attempt:
        """Let a task reserve a graphics card if it wants one, and a machine has one beside everything else."""
        return attempt._replace(on_gpu=attempt.task.wants_gpu and self._fits(num_gpus=1))

    def _look(self, running: Mapping[Any, _Attempt], placed: float) -> float:
        """Check that some machine can still run the tasks; return when that was last so.

        Tasks that wait for a card which no machine has any more are cancelled, and so submitted again without.
        """
        now = time.monotonic()
        if not self._fits():
            if now - placed > _PLACE_SECONDS:
                check_room(self.num_cpus)
                raise _no_room(self.num_cpus, "none with the memory of a task")
            return placed
        if not self._fits(num_gpus=1):
            for one in [one for one, attempt in running.items() if attempt.on_gpu]:
                engine.ray().cancel(one, force=True)
        return now

    def _fits(self, num_gpus: float = 0) -> bool:
        """Whether some machine is large enough for a task, if it runs nothing else."""
        wanted = {"CPU": self.num_cpus, "memory": self.memory or 0, "GPU": num_gpus}
        return any(all(node.get(name, 0.0) >= least for name, least in wanted.items()) for node in _machines())

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


def _machines() -> list[Mapping[str, float]]:
    """Return the resources of every machine of the cluster."""
    return [node["Resources"] for node in engine.ray().nodes() if node["Alive"]]


def check_room(num_cpus: float) -> None:
    """Raise ConfigError if no machine has the processors that a task reserves: Ray would wait for one forever."""
    most = max((node.get("CPU", 0.0) for node in _machines()), default=0.0)
    if most < num_cpus:
        raise _no_room(num_cpus, f"at most {most:g}")


def _no_room(num_cpus: float, got: str) -> ConfigError:
    return ConfigError(
        option="num_cpus",
        expected=f"what a machine of the Ray cluster has; tasks reserve {num_cpus:g}",
        got=got,
        hint="pass a smaller {num_cpus}, or start a larger machine first",
    )


def node_share(num_cpus: float) -> tuple[int, int]:
    """Return the memory for a task, and the most that any machine has: memory of a machine is shared by its tasks."""
    check_room(num_cpus)
    sizes = [(node.get("memory", 0.0), node["CPU"]) for node in _machines() if node.get("CPU", 0.0) >= num_cpus]
    share = min(memory * num_cpus / cpus for memory, cpus in sizes)
    return max(4 * LEAST_LIMIT, int(share)), int(max(memory for memory, _ in sizes))
