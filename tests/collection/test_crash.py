"""Crashes: a writer that is killed at any call, a disk that fails at any call, and a power loss at any time.

Everything acknowledged is there afterwards, everything else is there as a whole or not at all.
"""

from __future__ import annotations

import errno
import random
import shutil
import signal
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from crash.driver import FAIL, FAIL_HALF, KILL, KILL_HALF, Server, build_shim
from crash.history import History
from crash.ledger import MUTANTS, LedgerHistory
from crash.power_loss import Loss, losses
from crash.trace import read_trace

LEDGER = "crash.ledger:LedgerHistory"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of runs; the tests are skipped where nothing can be compiled."""
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    with Server(build_shim(tmp_path_factory.mktemp("shim"))) as started:
        yield started


class Bench:
    """Runs histories in one fresh folder after the other."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    def fresh(self) -> Path:
        """An empty folder; the one before is removed."""
        shutil.rmtree(self._folder / str(self._count), ignore_errors=True)
        self._count += 1
        made = self._folder / str(self._count)
        made.mkdir(parents=True)
        return made


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Fresh folders, in memory where that is possible: what a real disk does is not what is tested."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as folder:
        yield Bench(Path(folder))


def chosen(values: Sequence[Any], count: int | None, seed: int = 0) -> list[Any]:
    """Some of the values, in order; all if `count` is None."""
    if count is None or count >= len(values):
        return list(values)
    return [values[at] for at in sorted(random.Random(seed).sample(range(len(values)), count))]


FAST_OR_ALL = pytest.mark.parametrize("count", [40, pytest.param(None, marks=pytest.mark.slow)], ids=["some", "all"])


# --- what every history has to survive -------------------------------------------------------------------------------


def check_kills(
    server: Server, bench: Bench, subject: str, history: History, count: int | None, **options: Any
) -> None:
    """Kill the writer before every call, and in the middle of every write."""
    states = history.states(bench.fresh())
    whole = server.run(subject, bench.fresh(), **options)
    assert (whole.status, whole.error, len(whole.acks)) == (0, "", len(history.steps))
    for number in chosen(range(1, whole.calls + 1), count):
        for action in (KILL, KILL_HALF):
            folder = bench.fresh()
            run = server.run(subject, folder, action=action, first=number, **options)
            assert run.status == -signal.SIGKILL, run.error
            history.check(folder, history.allowed(states, len(run.acks), power_loss=False))


def check_failures(
    server: Server, bench: Bench, subject: str, history: History, count: int | None, **options: Any
) -> None:
    """Let every call fail, alone and with the next ones, as on a full and on a broken disk."""
    whole = server.run(subject, bench.fresh(), **options)
    for number in chosen(range(1, whole.calls + 1), count):
        for action, code, length in ((FAIL, errno.ENOSPC, 1), (FAIL_HALF, errno.ENOSPC, 5), (FAIL, errno.EIO, 3)):
            folder = bench.fresh()
            last = number + length - 1
            run = server.run(
                subject, folder, action=action, first=number, last=last, code=code, method="run_failing", **options
            )
            assert run.status == 0, f"call {number} to {last}, {errno.errorcode[code]}: {run.error}"
            assert len(run.acks) == len(history.steps)


def power_losses(server: Server, bench: Bench, subject: str, seed: int, **options: Any) -> list[Loss]:
    """The states that power losses may leave of a history."""
    folder = bench.fresh()
    trace = folder.with_suffix(".trace")
    run = server.run(subject, folder, trace=trace, **options)
    assert run.status == 0, run.error
    return list(losses(list(read_trace(trace)), seed))


def check_power_losses(
    server: Server, bench: Bench, subject: str, history: History, count: int | None, **options: Any
) -> None:
    """Cut the power after every call."""
    states = history.states(bench.fresh())
    found = power_losses(server, bench, subject, seed=0, **options)
    for loss in chosen(found, None if count is None else 10 * count):
        folder = bench.fresh()
        loss.write(folder)
        try:
            history.check(folder, history.allowed(states, len(loss.acks), power_loss=True))
        except Exception as error:
            raise AssertionError(f"after call {loss.call}, with {loss.how}: {error}") from error


# --- log and manifest ------------------------------------------------------------------------------------------------

SYNCS = pytest.mark.parametrize("sync", [True, False], ids=["batch", "commit"])


@FAST_OR_ALL
def test_a_killed_writer_of_log_and_manifest(server: Server, bench: Bench, count: int | None) -> None:
    """Killed before any call or in the middle of it, all that was acknowledged is there."""
    check_kills(server, bench, LEDGER, LedgerHistory(), count)


@FAST_OR_ALL
def test_a_failing_disk_under_log_and_manifest(server: Server, bench: Bench, count: int | None) -> None:
    """Any call may fail: what is there stays readable, and the writer goes on once the disk works again."""
    check_failures(server, bench, LEDGER, LedgerHistory(), count)


@SYNCS
@FAST_OR_ALL
def test_a_power_loss_under_log_and_manifest(server: Server, bench: Bench, count: int | None, sync: bool) -> None:
    """Whatever was synced is there; what was not may be lost, cut or reordered, and does no harm."""
    check_power_losses(server, bench, LEDGER, LedgerHistory(sync), count, sync=sync)


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_harness_finds_mistakes(server: Server, bench: Bench, mutant: str) -> None:
    """A ledger that forgets a sync, or does things in the wrong order, does not pass."""
    history = LedgerHistory()
    states = history.states(bench.fresh())
    for loss in power_losses(server, bench, LEDGER, seed=0, mutant=mutant):
        folder = bench.fresh()
        loss.write(folder)
        try:
            history.check(folder, history.allowed(states, len(loss.acks), power_loss=True))
        except Exception:
            return
    pytest.fail("the mistake was not found")
