"""Collections under way: closed, dropped, forked, interrupted, paused, read by many while they change."""

from __future__ import annotations

import errno
import gc
import os
import shutil
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import segmax
from segmax.base.files import write_errors
from segmax.collection import maintenance
from segmax.collection import store as store_module
from segmax.collection.collection import Collection
from segmax.collection.store import Store
from segmax.errors import IndexClosedError, SegmaxError, WriteError, WriterStoppedError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a collection goes."""
    return tmp_path / "docs"


def rows(count: int, seed: int = 0) -> sp.csr_matrix:
    """Return some documents."""
    return sp.random(count, 30, density=0.3, format="csr", random_state=seed)


def test_closing_waits_for_a_compaction(path: Path) -> None:
    """Whoever opens the collection next finds it whole, and the compaction writes nothing afterwards."""
    collection = Collection.create(path)
    for step in range(3):
        collection.add(rows(50, step), ids=range(step * 50, step * 50 + 50))
        collection._open_store.flush({"threads": 1})
    started, go_on = threading.Event(), threading.Event()

    def slowly(_: Any) -> None:
        started.set()
        go_on.wait(10)

    compacting = threading.Thread(target=collection.compact, args=(slowly,))
    compacting.start()
    assert started.wait(10)
    closing = threading.Thread(target=collection.close)
    closing.start()
    time.sleep(0.1)
    assert closing.is_alive()
    go_on.set()
    closing.join()
    compacting.join()
    with Collection.open(path) as again:
        assert (len(again), again.stats().num_parts) == (150, 1)


def test_writers_that_meet_a_closed_collection(path: Path) -> None:
    """The error says that it is closed, whatever they were about to do; what was acknowledged is there."""
    collection = Collection.create(path)
    added, problems = [], []

    is_adding = threading.Event()

    def add() -> None:
        for number in range(100_000):
            try:
                collection.add(rows(1, number), ids=[number])
            except IndexClosedError:
                return
            except BaseException as error:
                problems.append(error)
                return
            finally:
                is_adding.set()
            added.append(number)

    thread = threading.Thread(target=add)
    thread.start()
    assert is_adding.wait(60)
    time.sleep(0.1)  # for more of them; any number will do
    collection.close()
    thread.join()
    assert problems == []
    assert added
    with Collection.open(path) as again:
        assert set(added) <= set(again.ids())


def test_a_forked_process_cannot_write(path: Path) -> None:
    """The lock is the parent's, and so is the log."""
    collection = Collection.create(path)
    collection.add(rows(3), ids=range(3))
    child = os.fork()
    if child == 0:
        try:
            collection.add(rows(1), ids=[99])
        except WriterStoppedError:
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    collection.add(rows(2), ids=[3, 4])
    collection.close()
    with Collection.open(path) as again:
        assert list(again.ids()) == [0, 1, 2, 3, 4]


def test_an_interrupt_after_the_sync(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The document is in the log, so it is in memory, too: it cannot be added twice."""
    collection = Collection.create(path)
    sync = os.fdatasync

    def interrupted(descriptor: int) -> None:
        sync(descriptor)
        monkeypatch.setattr(os, "fdatasync", sync)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(os, "fdatasync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        collection.add(rows(1), ids=["b"])
    with pytest.raises(SegmaxError):
        collection.add(rows(1), ids=["b"])
    collection.close()
    with Collection.open(path) as again:
        assert list(again.ids()) == ["b"]


def test_a_dropped_collection_releases_its_lock(path: Path) -> None:
    """Nobody closed it."""
    collection = Collection.create(path)
    collection.add(rows(2))
    del collection
    gc.collect()
    with Collection.open(path) as again:
        assert len(again) == 2


@pytest.mark.parametrize("durability", ["batch", "commit", "none"])
def test_readers_after_a_clean_end(path: Path, durability: Any) -> None:
    """Closing publishes what was written."""
    with Collection.create(path, durability=durability) as collection:
        collection.add(rows(5))
        collection.delete([1])
    with segmax.open(path) as reader:
        assert list(reader.ids()) == [0, 2, 3, 4]  # type: ignore[union-attr]


def test_readers_never_go_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one thread refreshes, others see the state before or the state after."""
    with Collection.create(path) as collection:
        collection.add(rows(200), ids=range(200))
        collection._open_store.flush({"threads": 1})
        for step in range(1, 20):
            collection.add(rows(20, step), ids=range(180 + step * 20, 200 + step * 20))
        with segmax.open(path) as reader:
            least, done, problems = len(reader), threading.Event(), []

            def look() -> None:
                while not done.is_set():
                    if len(reader) < least:
                        problems.append(len(reader))

            thread = threading.Thread(target=look)
            thread.start()
            for step in range(20, 25):
                collection.add(rows(20, step), ids=range(180 + step * 20, 200 + step * 20))
                collection.commit()
                reader.refresh()  # type: ignore[union-attr]
            done.set()
            thread.join()
            assert problems == []
            assert len(reader) == len(collection)


def test_a_failed_refresh_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the next one succeeds."""
    with Collection.create(path) as collection:
        collection.add(rows(20), ids=range(20))
        with segmax.open(path) as reader:
            collection.add(rows(20), ids=range(20, 40))
            collection.compact()
            with monkeypatch.context() as patched:
                patched.setattr("segmax.collection.store.open_part", _no_memory)
                with pytest.raises(MemoryError):
                    reader.refresh()  # type: ignore[union-attr]
            assert len(reader) == 20
            reader.refresh()  # type: ignore[union-attr]
            assert len(reader) == 40


@pytest.mark.parametrize("count", [5, 50], ids=["in one thread", "beside the disk"])
def test_an_addition_that_memory_cannot_hold(path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """It did not happen, in the log neither, and the next one does."""
    with Collection.create(path) as collection:
        collection.add(rows(count), ids=range(count))
        with monkeypatch.context() as patched:
            patched.setattr("segmax.collection.applying.small_part", _no_memory)
            with pytest.raises(MemoryError):
                collection.add(rows(count), ids=range(count, 2 * count))
        assert len(collection) == count
        collection.add(rows(count), ids=range(2 * count, 3 * count))
        with segmax.open(path) as reader:
            assert list(reader.ids()) == [*range(count), *range(2 * count, 3 * count)]


def _no_memory(*_: Any, **options: Any) -> None:
    raise MemoryError


def test_merges_survive_what_nobody_expected(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread tries again."""
    monkeypatch.setattr(maintenance, "FLUSH_DOCS", 50)
    monkeypatch.setattr(maintenance, "_RETRY_SECONDS", 0.1)
    flush, calls = Store.flush, []

    def failing(self: Store, options: Any, *, rough: bool = False) -> bool:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("nobody expected this")
        return flush(self, options, rough=rough)

    monkeypatch.setattr(Store, "flush", failing)
    with Collection.create(path) as collection:
        collection.add(rows(60), ids=range(60))
        deadline = time.monotonic() + 20
        while collection.stats().num_in_memory and time.monotonic() < deadline:
            time.sleep(0.05)
        assert collection.stats().num_in_memory == 0
        collection.compact()


def test_a_long_log_becomes_a_part(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few documents are left of it."""
    monkeypatch.setattr(maintenance, "_MOST_RECORDS", 40)
    with Collection.create(path, durability="none") as collection:
        for step in range(120):
            collection.upsert(rows(1, step), ids=["same"])
        assert collection.settle(timeout=30)
        assert collection.stats().log_bytes < 40_000
        assert len(collection) == 1


def test_paused_merges(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is flushed while they are paused, and compacting works all the same."""
    monkeypatch.setattr(maintenance, "FLUSH_DOCS", 50)
    with Collection.create(path) as collection:
        collection.pause_merges()
        collection.add(rows(200), ids=range(200))
        assert not collection.settle(timeout=0.2)
        assert collection.stats().num_in_memory > 0
        collection.compact()
        assert collection.stats().num_in_memory == 0
        collection.resume_merges()
        assert collection.settle(timeout=30)


def test_writes_go_on_while_a_compaction_runs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if so many documents come that they have to be flushed."""
    monkeypatch.setattr(maintenance, "FLUSH_DOCS", 40)
    with Collection.create(path) as collection:
        collection.add(rows(100), ids=range(100))
        assert collection.settle(timeout=30)
        collection.delete([5])
        started, go_on = threading.Event(), threading.Event()

        def slowly(_: Any) -> None:
            started.set()
            go_on.wait(20)

        compacting = threading.Thread(target=collection.compact, args=(slowly,))
        compacting.start()
        assert started.wait(10)
        for step in range(20):
            collection.add(rows(30, step), ids=range(100 + step * 30, 130 + step * 30))
        collection.delete([6, 101])
        go_on.set()
        compacting.join()
        assert len(collection) == 697
        assert collection.search({3: 1.0}, k=1000).ids == _expected(collection)
    with Collection.open(path) as again:
        assert len(again) == 697


def _expected(collection: Collection) -> list[Any]:
    ids = list(collection.ids())
    scores = collection.score({3: 1.0}, ids)
    order = np.lexsort((np.arange(len(ids)), -scores))
    return [ids[at] for at in order if scores[at] > 0]


def test_few_descriptors(path: Path) -> None:
    """A part on disk takes memory maps, not descriptors."""
    with Collection.create(path) as collection:
        collection.add(rows(20), ids=range(20))
        before = len(list(Path("/proc/self/fd").iterdir()))
        snapshots = []
        for step in range(5):
            collection.add(rows(5, step), ids=range(20 + step * 5, 25 + step * 5))
            collection.compact()
            snapshots.append(collection.snapshot())
        assert len(list(Path("/proc/self/fd").iterdir())) - before < 10
        assert [len(one.search({3: 1.0}, k=100)) for one in snapshots] == sorted(
            len(one.search({3: 1.0}, k=100)) for one in snapshots
        )


@pytest.mark.parametrize("whole", [True, False])
def test_a_replayed_log_gives_the_same_state(path: Path, whole: bool) -> None:
    """Scores and order are those of before, though additions are applied many at a time."""
    query = {1: 0.5, 4: 1.25, 9: 2.0}
    with Collection.create(path) as collection:
        for step in range(30):
            some = rows(7, step) * (step % 5 + 1)
            some.data = np.ceil(some.data * 5) if whole else some.data
            metadata = [{"step": step}] * 7 if step % 3 else None
            collection.add(some, ids=[f"{step}-{row}" for row in range(7)], metadata=metadata)
            if step in (10, 20):
                collection.delete([f"{step}-1", "3-2"])
            if step == 15:
                collection._open_store.flush({"threads": 1})
        before = collection.search(query, k=300)
        described = collection.count({"step": {"$gte": 4}})
    with Collection.open(path) as again:
        after = again.search(query, k=300)
        assert (after.ids, after.scores.tolist()) == (before.ids, before.scores.tolist())
        assert again.count({"step": {"$gte": 4}}) == described
        assert again.stats().num_parts <= 6


def test_waiting_gives_up_a_small_merge(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its parts are merged with all the others."""
    monkeypatch.setattr(maintenance, "FLUSH_DOCS", 50)
    merges: list[int] = []
    outcomes: list[str] = []
    started, go_on = threading.Event(), threading.Event()
    merge = Store.merge

    def watched(self: Store, names: list[str], options: Any) -> None:
        merges.append(len(names))
        if not started.is_set():
            started.set()
            assert go_on.wait(timeout=30)
        try:
            merge(self, names, options)
        except maintenance.GivenUp:
            outcomes.append("given up")
            raise

    monkeypatch.setattr(Store, "merge", watched)
    with Collection.create(path) as collection:
        count = 0
        while not started.is_set():  # with a merge of a few small parts
            collection.add(rows(50), ids=range(count, count + 50))
            count += 50
        collection.add(rows(2 * count), ids=range(count, 3 * count))
        timer = threading.Timer(0.2, go_on.set)
        timer.start()
        assert collection.settle()
        assert outcomes == ["given up"]
        assert len(merges) == 2
        assert collection.stats().num_parts == 1
        assert list(collection.ids()) == list(range(3 * count))


@pytest.mark.parametrize("finish", ["settle", "compact"])
def test_parts_that_were_written_in_a_hurry(path: Path, monkeypatch: pytest.MonkeyPatch, finish: str) -> None:
    """They are searched as exactly as others, and clustered once there is time."""
    monkeypatch.setattr(maintenance, "FLUSH_DOCS", 5000)
    documents = rows(3000)
    with Collection.create(path) as collection:
        collection.add(documents, ids=range(3000))
        collection._maintainer._store.flush(collection._maintainer.options(), rough=True)  # type: ignore[union-attr]
        collection.delete(range(0, 3000, 7))

        def found() -> list[Any]:
            answers = collection.search_batch(documents[:50], k=20)
            exhaustive = collection.search_batch(documents[:50], k=20, params=segmax.Exhaustive())
            assert answers.ids == exhaustive.ids
            return [answers.ids, answers.scores.tolist()]

        view = collection._store.state.views[0]  # type: ignore[union-attr]
        assert view.part.rough
        before = found()
        getattr(collection, finish)()
        view = collection._store.state.views[0]  # type: ignore[union-attr]
        assert not view.part.rough
        assert found() == before


# --- a disk that is full for a while ---------------------------------------------------------------------------------


class FullDisk:
    """Flushes that fail until there is room, and what they do."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, retry_seconds: float) -> None:
        self.has_room = False
        self.num_failures = 0
        self.failed, self.flushed = threading.Event(), threading.Event()
        flush = Store.flush

        def flush_or_fail(store: Store, options: Any, *, rough: bool = False) -> bool:
            if not self.has_room:
                self.num_failures += 1
                self.failed.set()
                with write_errors(store.path / "part.9"):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            found = flush(store, options, rough=rough)
            self.flushed.set()
            return found

        monkeypatch.setattr(Store, "flush", flush_or_fail)
        monkeypatch.setattr(maintenance, "FLUSH_DOCS", 50)
        monkeypatch.setattr(maintenance, "_RETRY_SECONDS", retry_seconds)


def in_memory(collection: Collection) -> int:
    """How many documents no part on disk has."""
    return sum(view.part.num_docs for view in collection._current().views if not view.part.name)


def fill(collection: Collection, disk: FullDisk) -> int:
    """Add documents until they are refused; return how many were taken."""
    for step in range(1000):
        try:
            collection.add(rows(10, step), ids=range(step * 10, step * 10 + 10))
        except WriterStoppedError:
            return step * 10
        if step == 5:
            assert disk.failed.wait(20)
    raise AssertionError("nothing was refused")


@pytest.mark.parametrize("num_threads", [1, 4])
def test_writers_are_held_at_the_bound(path: Path, monkeypatch: pytest.MonkeyPatch, num_threads: int) -> None:
    """While nothing can be flushed, memory takes four times what a flush takes and no document more."""
    FullDisk(monkeypatch, retry_seconds=3600)
    refused = []
    with Collection.create(path, durability="none") as collection:

        def add(thread: int) -> None:
            for step in range(100):
                try:
                    collection.add(rows(7, step), ids=[f"{thread}-{step}-{row}" for row in range(7)])
                except WriterStoppedError as error:
                    refused.append(error)

        threads = [threading.Thread(target=add, args=(thread,)) for thread in range(num_threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert 193 < in_memory(collection) <= 200
        assert len(collection) == in_memory(collection) == 7 * (100 * num_threads - len(refused))
        assert "No space left on device" in str(refused[0])
        assert "goes on by itself" in refused[0].hint
        assert isinstance(refused[0].__cause__, WriteError)
        with pytest.raises(WriterStoppedError):
            collection.update([{"id": name, "metadata": {"a": 1}} for name in list(collection.ids())[:10]])
        assert collection.delete(list(collection.ids())[:10]) == 10  # which takes no room
        count = len(collection)
    with Collection.open(path) as again:
        assert len(again) == count


def test_a_failed_flush_is_tried_again_after_a_pause(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much is written meanwhile; somebody who asks for it does not wait."""
    disk = FullDisk(monkeypatch, retry_seconds=3600)
    with Collection.create(path, durability="none") as collection:
        count = fill(collection, disk)
        for _ in range(50):
            with pytest.raises(WriterStoppedError):
                collection.add(rows(10), ids=range(count, count + 10))
        collection.delete([0])
        assert disk.num_failures == 1
        assert not collection.settle()
        assert disk.num_failures == 2
        failure = collection.stats().failure
        assert failure is not None
        assert "No space left on device" in failure
        disk.has_room = True
        assert collection.settle()
        assert (collection.stats().failure, in_memory(collection)) == (None, 0)
        collection.add(rows(10), ids=range(count, count + 10))


def test_writing_goes_on_by_itself(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once there is room, at the next attempt."""
    disk = FullDisk(monkeypatch, retry_seconds=0.01)
    with Collection.create(path, durability="none") as collection:
        count = fill(collection, disk)
        disk.has_room = True
        assert disk.flushed.wait(30)
        for _ in range(3000):
            if collection.stats().failure is None:
                break
            time.sleep(0.01)  # the thread has not said so yet
        assert collection.stats().failure is None
        for step in range(30):
            collection.add(rows(10, step), ids=range(count + step * 10, count + step * 10 + 10))
        assert len(collection) == count + 300


def test_a_compaction_makes_room(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it has flushed is no reason to refuse anything, and no failure that stays."""
    disk = FullDisk(monkeypatch, retry_seconds=3600)
    with Collection.create(path, durability="none") as collection:
        count = fill(collection, disk)
        disk.has_room = True
        collection.compact()
        collection.add(rows(10), ids=range(count, count + 10))
        assert collection.settle()
        assert collection.stats().failure is None


def test_flushes_that_fail_leave_nothing_behind(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a file for every attempt; and documents that wait for room are joined, so that searches stay fast."""
    joined = threading.Event()
    join = Store.join

    def noticed(store: Store, views: Any) -> None:
        join(store, views)
        joined.set()

    def no_room(*given: Any, **options: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Store, "join", noticed)
    monkeypatch.setattr("segmax.collection.store.write_merged", no_room)
    monkeypatch.setattr(maintenance, "FLUSH_DOCS", 2048)
    monkeypatch.setattr(maintenance, "_RETRY_SECONDS", 3600)
    with Collection.create(path, durability="none") as collection:
        for step in range(8):
            collection.add(rows(512, step), ids=range(step * 512, step * 512 + 512))
        assert joined.wait(60)
        expected = collection.search({3: 1.0}, k=4096)
        for _ in range(5):
            assert not collection.settle()  # an attempt each
        assert len(list(path.glob("log.*"))) <= 3
        found = collection.search({3: 1.0}, k=4096)
        assert (found.ids, found.scores.tolist()) == (expected.ids, expected.scores.tolist())
        monkeypatch.undo()
        assert collection.settle()
        assert in_memory(collection) == 0


@pytest.mark.parametrize("keeps", ["a crash", "a backup", "a reader"])
def test_a_failed_flush_changes_no_score(path: Path, tmp_path: Path, keeps: str) -> None:
    """The writer, its readers, its backups and what opens it again store documents to come on one scale."""
    with Collection.create(path) as collection:
        collection.add(sp.csr_matrix([[0.1, 0.2], [0.3, 0.4]]), ids=[1, 2])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("segmax.collection.store.write_merged", lambda *given, **options: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                collection._open_store.flush({})
        collection.add(sp.csr_matrix([[1.0, 50.0]]), ids=[3])
        expected = collection.search({0: 1.0, 1: 1.0})
        other = tmp_path / "other"
        if keeps == "a crash":
            shutil.copytree(path, other)
        elif keeps == "a backup":
            collection.backup(other)
        with Collection.open(path if keeps == "a reader" else other, read_only=True) as again:
            found = again.search({0: 1.0, 1: 1.0})
            assert (found.ids, found.scores.tolist()) == (expected.ids, expected.scores.tolist())


# --- the flush at the end --------------------------------------------------------------------------------------------

WORTH_A_PART = maintenance.LEAST_LAST_FLUSH


@pytest.mark.parametrize("count", [WORTH_A_PART - 1, WORTH_A_PART])
def test_closing_flushes_what_is_worth_a_part(path: Path, count: int) -> None:
    """From 1,024 living documents on; fewer stay in the log."""
    with Collection.create(path, durability="none") as collection:
        collection.add(rows(count), ids=range(count))
        collection.add(rows(5), ids=range(count, count + 5))
        collection.delete(range(count, count + 5))
        before = collection.search({3: 1.0}, k=50)
    with Collection.open(path, read_only=True) as again:
        assert (in_memory(again), len(again)) == (0 if count == WORTH_A_PART else count, count)
        after = again.search({3: 1.0}, k=50)
        assert (after.ids, after.scores.tolist()) == (before.ids, before.scores.tolist())


@pytest.mark.parametrize("how", ["dropped", "paused", "interrupted", "failed"])
def test_what_is_not_flushed_at_the_end(path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """Where nobody closed it, or merges are paused, or a flush would be waited for in vain: the log has everything."""
    collection = Collection.create(path)
    collection.add(rows(WORTH_A_PART), ids=range(WORTH_A_PART))
    if how == "dropped":
        del collection
        gc.collect()
    elif how == "paused":
        collection.pause_merges()
        collection.close()
    elif how == "interrupted":
        with pytest.raises(KeyboardInterrupt), collection:
            raise KeyboardInterrupt
    else:
        monkeypatch.setattr("segmax.collection.store.write_merged", _no_memory)
        collection.close()
    with Collection.open(path, read_only=True) as again:
        assert in_memory(again) == len(again) == WORTH_A_PART
    with Collection.open(path) as again:  # which nothing keeps from being opened
        assert len(again) == WORTH_A_PART


def test_an_interrupt_of_the_last_flush(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends the flush at once, and the collection is closed all the same."""

    def interrupted(*_: Any, **options: Any) -> None:
        signal.raise_signal(signal.SIGINT)

    collection = Collection.create(path)
    collection.add(rows(WORTH_A_PART), ids=range(WORTH_A_PART))
    with monkeypatch.context() as patched:
        patched.setattr("segmax.collection.store.write_merged", interrupted)
        with pytest.raises(KeyboardInterrupt):
            collection.close()
    assert repr(collection) == "Collection(closed)"
    with Collection.open(path) as again:
        assert in_memory(again) == len(again) == WORTH_A_PART
    with Collection.open(path, read_only=True) as again:
        assert (in_memory(again), len(again)) == (0, WORTH_A_PART)


@pytest.mark.parametrize("where", ["write_merged", "open_part", "write_manifest", "remove_unnamed"])
def test_a_kill_in_the_last_flush(path: Path, where: str) -> None:
    """Before and behind every step of it, everything is there, and the next flush succeeds."""
    child = os.fork()
    if child == 0:
        try:
            collection = Collection.create(path)
            collection.add(rows(WORTH_A_PART), ids=range(WORTH_A_PART))

            def killed(*_: Any, **options: Any) -> None:
                os.kill(os.getpid(), signal.SIGKILL)

            setattr(store_module, where, killed)
            collection.close()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    for num_in_memory in (0 if where == "remove_unnamed" else WORTH_A_PART, 0):
        with Collection.open(path) as again:
            assert (in_memory(again), list(again.ids())) == (num_in_memory, list(range(WORTH_A_PART)))
