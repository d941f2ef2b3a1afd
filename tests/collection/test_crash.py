"""Crashes: a writer that is killed at any call, a disk that fails at any call, and a power loss at any time.

Everything acknowledged is there afterwards, everything else is there as a whole or not at all.
"""

from __future__ import annotations

import errno
import os
import pickle
import random
import shutil
import signal
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from crash.collection_history import CollectionHistory
from crash.driver import FAIL, FAIL_HALF, KILL, KILL_HALF, Server, build_shim
from crash.history import Allowed, History
from crash.ledger import LedgerHistory
from crash.power_loss import Disk, Loss, losses
from crash.trace import Call, read_trace

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
    with tempfile.TemporaryDirectory(prefix="segmax-crash-", dir=memory if memory.is_dir() else tmp_path) as folder:
        yield Bench(Path(folder))


def chosen(values: Sequence[Any], count: int | None, seed: int = 0) -> list[Any]:
    """Some of the values, in order; all if `count` is None."""
    if count is None or count >= len(values):
        return list(values)
    return [values[at] for at in sorted(random.Random(seed).sample(range(len(values)), count))]


def every_day(some: object, many: object, all_of_them: object) -> pytest.MarkDecorator:
    """How much of it: some in deep tests, many in slow ones, and all where an hour does not matter (`make crash`)."""
    asked = pytest.mark.skipif("SEGMAX_CRASHES" not in os.environ, reason="takes long; run by make crash")
    values = [
        pytest.param(some, marks=pytest.mark.deep),
        pytest.param(many, marks=pytest.mark.slow),
        pytest.param(all_of_them, marks=[pytest.mark.slow, asked]),
    ]
    return pytest.mark.parametrize("count", values, ids=["some", "many", "all"])


def few_or_all(few: object, some: object, all_of_them: object) -> pytest.MarkDecorator:
    """How much of it: a few in the fast tests, some in deep ones, and all in slow ones."""
    deep, slow = pytest.mark.deep, pytest.mark.slow
    values = [few, pytest.param(some, marks=deep), pytest.param(all_of_them, marks=slow)]
    return pytest.mark.parametrize("count", values, ids=["few", "some", "all"])


#: Every call fails in one way, where None is in all of them.
EACH_CALL = 0
FEW_OR_ALL = few_or_all(3, 10, None)
FAST_OR_ALL = few_or_all(12, 40, None)


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
    states = pickle.dumps(history.states(bench.fresh()))
    whole = server.run(subject, bench.fresh(), **options)
    ways = ((FAIL, errno.ENOSPC, 1), (FAIL_HALF, errno.ENOSPC, 5), (FAIL, errno.EIO, 3))
    for number in chosen(range(1, whole.calls + 1), None if count == EACH_CALL else count):
        for action, code, length in (ways[number % 3],) if count == EACH_CALL else ways:
            folder = bench.fresh()
            folder.with_suffix(".states").write_bytes(states)
            last = number + length - 1
            run = server.run(
                subject, folder, action=action, first=number, last=last, code=code, method="run_failing", **options
            )
            assert run.status == 0, f"call {number} to {last}, {errno.errorcode[code]}: {run.error}"
            assert len(run.acks) == len(history.steps)


def traced(
    server: Server,
    folder: Path,
    subject: str,
    count: int | None,
    *,
    disk: Disk | None = None,
    method: str = "run",
    **options: Any,
) -> list[Loss]:
    """Some of the states that power losses may leave of a run in a folder, which the disk describes."""
    trace = folder.with_suffix(".trace")
    run = server.run(subject, folder, trace=trace, method=method, **options)
    assert run.status == 0, run.error
    calls = list(read_trace(trace))
    share = 1.0 if count is None else min(1.0, 2 * count / len(calls))
    return chosen(list(losses(disk or Disk(), calls, share=share)), count)


def check_loss(history: History, folder: Path, loss: Loss, allowed: Allowed) -> None:
    """What a power loss left is allowed."""
    loss.write(folder)
    try:
        history.check(folder, allowed)
    except Exception as error:
        raise AssertionError(f"after call {loss.call}, with {loss.how}: {error}") from error


def check_power_losses(
    server: Server, bench: Bench, subject: str, history: History, count: int | None, **options: Any
) -> None:
    """Cut the power after every call."""
    states = history.states(bench.fresh())
    for loss in traced(server, bench.fresh(), subject, count, **options):
        check_loss(history, bench.fresh(), loss, history.allowed(states, len(loss.acks), power_loss=True))


def check_second_losses(
    server: Server,
    bench: Bench,
    subject: str,
    history: History,
    count: int | None,
    second_count: int | None,
    **options: Any,
) -> None:
    """Cut the power, open what is left, go on, and cut the power again after every call."""
    states = history.states(bench.fresh())
    for first in traced(server, bench.fresh(), subject, count, **options):
        if not first.acks:
            continue
        first.write(folder := bench.fresh())
        later = history.states_going_on(folder)
        first.write(folder := bench.fresh())
        before = history.allowed(states, len(first.acks), power_loss=True)
        for second in traced(server, folder, subject, second_count, disk=Disk(folder), method="go_on", **options):
            num_acks = len(second.acks)
            first_kept = 0 if history.durable else num_acks - 1
            allowed = later[first_kept : num_acks + 1] if num_acks else [*before.writer, later[0]]
            seen = [*before.reader, *allowed] if history.visible or not num_acks else allowed
            check_loss(history, bench.fresh(), second, Allowed(allowed, seen))


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
@few_or_all(100, 400, None)
def test_a_power_loss_under_log_and_manifest(server: Server, bench: Bench, count: int | None, sync: bool) -> None:
    """Whatever was synced is there; what was not may be lost, cut or reordered, and does no harm."""
    check_power_losses(server, bench, LEDGER, LedgerHistory(sync), count, sync=sync)


@SYNCS
@few_or_all((3, 10), (8, 20), (200, 50))
def test_two_power_losses(server: Server, bench: Bench, count: tuple[int, int], sync: bool) -> None:
    """What recovery did is safe, too: nothing that it dropped comes back, nothing that it kept gets lost."""
    check_second_losses(server, bench, LEDGER, LedgerHistory(sync), *count, sync=sync)


@pytest.mark.parametrize("mutant", ["no data syncs", "no syncs of folders", "no syncs of files", "early removal"])
def test_the_harness_finds_mistakes(server: Server, bench: Bench, mutant: str) -> None:
    """A ledger that forgets a sync, or does things in the wrong order, does not pass."""
    with pytest.raises(AssertionError, match="after call"):
        check_power_losses(server, bench, LEDGER, LedgerHistory(), None, mutant=mutant)


@pytest.mark.slow
def test_the_harness_finds_records_that_come_back(server: Server, bench: Bench) -> None:
    """A ledger that does not sync after it cut off a torn tail does not pass."""
    with pytest.raises(AssertionError, match="after call"):
        check_second_losses(
            server, bench, LEDGER, LedgerHistory(sync=False), None, None, sync=False, mutant="cuts not synced"
        )


# --- collections -----------------------------------------------------------------------------------------------------

COLLECTION = "crash.collection_history:CollectionHistory"
DURABILITIES = pytest.mark.parametrize("durability", ["batch", "commit", "none"])


@FEW_OR_ALL
def test_a_killed_writer_of_a_collection(server: Server, bench: Bench, count: int | None) -> None:
    """Killed before any call or in the middle of it, all that was acknowledged is there."""
    check_kills(server, bench, COLLECTION, CollectionHistory(), count)


@every_day(4, EACH_CALL, None)
def test_a_failing_disk_under_a_collection(server: Server, bench: Bench, count: int | None) -> None:
    """Any call may fail: the collection stays readable, and the writer goes on once the disk works again."""
    check_failures(server, bench, COLLECTION, CollectionHistory(), count)


@DURABILITIES
@every_day(15, 700, None)
def test_a_power_loss_under_a_collection(server: Server, bench: Bench, count: int | None, durability: str) -> None:
    """What the chosen durability promises is there; what it does not may be lost, but not half of a write."""
    history = CollectionHistory(durability)
    check_power_losses(server, bench, COLLECTION, history, count, durability=durability)


@DURABILITIES
@every_day((2, 5), (20, 20), (100, 30))
def test_two_power_losses_under_a_collection(
    server: Server, bench: Bench, count: tuple[int, int], durability: str
) -> None:
    """What recovery did is safe, too."""
    history = CollectionHistory(durability)
    check_second_losses(server, bench, COLLECTION, history, *count, durability=durability)


# --- the model of a power loss ---------------------------------------------------------------------------------------


def call(kind: str, path: str = "", other: str = "", *, file: int = 0, number: int = 0) -> Call:
    """A call of a trace."""
    return Call(kind, file, number, path.encode(), other.encode())


def test_a_rename_without_syncs_may_leave_anything() -> None:
    """The model knows the classic mistake: a new file that has its name before it has its content."""
    calls = [call("C", "new", file=1), call("W", "content", file=1), call("R", "new", "name")]
    found = [loss.files for loss in losses(Disk(), calls)]
    for files in ({}, {"new": b""}, {"new": b"con"}, {"name": b""}, {"name": bytes(7)}, {"name": b"content"}):
        assert files in found
    assert all(len(files) <= 1 for files in found)


def test_what_was_synced_is_there() -> None:
    """Syncs of the file before the rename and of the folder after it leave no choice."""
    calls = [call("C", "new", file=1), call("W", "content", file=1), call("S", "new", file=1)]
    calls += [call("R", "new", "name"), call("S", ""), call("A", "done")]
    found = list(losses(Disk(), calls))
    assert all(loss.files == {"name": b"content"} for loss in found if loss.acks == ("done",))
    assert {"name": b"content"} in [loss.files for loss in found if loss.call == 4]
    assert not any(loss.files.get("name", b"content") != b"content" for loss in found)


@pytest.mark.deep
def test_folders_and_removals_may_get_lost() -> None:
    """A file is as lost as its folder; a removal that was not synced may be undone; a cut as well."""
    calls = [call("M", "f"), call("C", "f/x", file=1), call("W", "abcdef", file=1), call("S", "f/x", file=1)]
    calls += [call("S", "f"), call("S", ""), call("A", "done")]
    calls += [call("T", file=1, number=2), call("U", "f/x"), call("D", "f")]
    found = [loss.files for loss in losses(Disk(), calls)]
    assert {} in found
    assert {"f": None} in found
    assert {"f": None, "f/x": b"ab"} in found
    last = [loss.files for loss in losses(Disk(), calls) if loss.acks]
    assert {"f": None, "f/x": b"abcdef"} in last
    assert all(files.get("f/x", b"ab") in (b"ab", b"abcdef") for files in last)
