"""Sharded indexes built on a real cluster: the same bytes as in one process, whatever dies on the way."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import scipy.sparse as sp

import segmax.ray
from conftest import refused
from segmax.errors import CollectionLockedError, ConfigError, InputError, SegmaxError
from segmax.ray import executor
from segmax.shards.making.building import build
from segmax.shards.making.tasks import Workplace
from segmax.shards.storage import open_storage
from sharded_samples import random_matrix, write_json_vectors, write_matrices, write_texts

if TYPE_CHECKING:
    from ray_cluster import SimulatedCluster

pytest.importorskip("ray.cluster_utils", exc_type=ImportError)
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning:ray")]
pytest_plugins = ["ray_cluster"]

#: How many processes of tasks are killed; `make soak` kills more.
KILLS = int(os.environ.get("SEGMAX_KILLS", "10"))


def test_the_same_index_as_in_one_process(cluster: SimulatedCluster, tmp_path: Path) -> None:
    """On three nodes, vectors by clusters and by rows and texts give the content hashes that one process gives."""
    vectors = write_json_vectors(tmp_path / "vectors", (300, 200, 400))
    texts = write_texts(tmp_path / "texts", (300, 200, 400))
    for number, (files, options) in enumerate(
        [
            (vectors, {"sharding": "clusters", "metadata": ["year"]}),
            (vectors, {"sharding": "rows", "bits": 16}),
            (texts, {"encoder": "bm25", "metadata": "all"}),
        ]
    ):
        here = build(files, tmp_path / f"here{number}", shards=4, **options)
        there = segmax.ray.build(files, tmp_path / f"there{number}", shards=4, **options)
        assert there == here
        assert not (tmp_path / f"there{number}" / "building").exists()


def test_more_processors_and_an_address(cluster: SimulatedCluster, tmp_path: Path) -> None:
    """The index depends neither on the processors of a task nor on its memory, and may lie at an address."""
    files = write_matrices(tmp_path / "in", sizes=(200, 300))
    here = build(files, tmp_path / "here", shards=3)
    there = segmax.ray.build(
        files, f"file://{tmp_path}/there", shards=3, num_cpus=2, memory_limit="1GiB", scratch=tmp_path / "scratch"
    )
    assert there == here
    with refused(ConfigError, option="num_cpus"):
        segmax.ray.build(files, tmp_path / "other", shards=3, num_cpus=0)
    for name, value in (("threads", 0), ("overwrite", "no")):
        with refused(ConfigError, option=name):
            segmax.ray.build(files, tmp_path / "other", shards=3, **{name: value})
    with refused(ConfigError, option="memory_limit"):
        segmax.ray.build(files, tmp_path / "other", shards=3, memory_limit="1MiB")


def test_a_poison_document_ends_the_build(cluster: SimulatedCluster, tmp_path: Path) -> None:
    """An invalid weight is an error with its file and row, raised once; without it the build goes on."""
    files = write_matrices(tmp_path / "in", sizes=(100, 100, 100))
    poisoned = random_matrix(100, "floats")
    poisoned.data[17] = float("nan")
    sp.save_npz(files[1], poisoned)
    start = time.monotonic()
    with refused(InputError, where="vectors-1.npz", got="nan in document"):
        segmax.ray.build(files, tmp_path / "index", shards=3)
    assert time.monotonic() - start < 30
    assert not (tmp_path / "index" / "sharded.json").exists()
    sp.save_npz(files[1], random_matrix(100, "floats"))
    made = segmax.ray.build(files, tmp_path / "index", shards=3, overwrite=True)
    assert made == build(files, tmp_path / "here", shards=3)


@pytest.mark.parametrize("ends_process", [True, False])
def test_a_task_is_tried_again_but_not_forever(
    cluster: SimulatedCluster, tmp_path: Path, ends_process: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that fails a few times is done in the end; one that always fails is an error that says how to go on."""
    from fake_tasks import Unlucky

    monkeypatch.setattr(executor, "_ATTEMPTS", 3)
    monkeypatch.setattr(executor, "_RETRIES", 0)
    work = Workplace(open_storage(tmp_path / "index"))
    unlucky = Unlucky(str(tmp_path / "twice"), 2, ends_process)
    assert list(executor.RayExecutor().run([unlucky], work)) == [(0, {"tries": 3})]
    assert list(executor.RayExecutor().run([unlucky], work)) == [(0, {"tries": 3})]  # it is done
    work.storage.remove("building")
    hopeless = Unlucky(str(tmp_path / "always"), 99, ends_process)
    what = "WorkerCrashedError" if ends_process else "ValueError: bad luck"
    with refused(
        SegmaxError, message=f"the task 'unlucky' of the build failed 3 times .{what}", hint="again to resume"
    ):
        list(executor.RayExecutor().run([hopeless], work))


def test_tasks_that_no_machine_has_room_for(
    cluster: SimulatedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More processors than any machine has are refused at once, and in a build once no such machine is left."""
    from fake_tasks import Unlucky

    with refused(ConfigError, option="num_cpus", expected="tasks reserve 64", got="at most 2", hint="smaller"):
        segmax.ray.build(random_matrix(20, "floats"), tmp_path / "index", shards=2, num_cpus=64)
    assert not (tmp_path / "index").exists()
    monkeypatch.setattr(executor, "_LOOK_SECONDS", 0.1)
    monkeypatch.setattr(executor, "_PLACE_SECONDS", 0.2)
    work = Workplace(open_storage(tmp_path / "index"))
    for large, got in (({"num_cpus": 64}, "at most 2"), ({"memory": 2**45}, "memory of a task")):
        with refused(ConfigError, option="num_cpus", got=got):
            list(executor.RayExecutor(**large).run([Unlucky(str(tmp_path / "tries"), 0, False)], work))


def test_a_graphics_card_that_is_gone(
    cluster: SimulatedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that waits for a card which no machine has any more runs without one."""
    from fake_tasks import WantsCard

    monkeypatch.setattr(executor, "_LOOK_SECONDS", 0.1)
    had_card = [True, False]

    def with_card(self: Any, attempt: Any) -> Any:
        return attempt._replace(on_gpu=had_card.pop(0))

    monkeypatch.setattr(executor.RayExecutor, "_with_card", with_card)
    work = Workplace(open_storage(tmp_path / "index"))
    found = list(executor.RayExecutor().run([WantsCard(str(tmp_path / "tries"), 0, False)], work))
    assert found == [(0, {"tries": 1})]
    assert had_card == []


def test_a_card_of_a_machine_that_is_too_small(cluster: SimulatedCluster) -> None:
    """A task reserves a card only where a machine has one beside the processors of the task."""
    from fake_tasks import WantsCard

    machine = cluster._cluster.add_node(num_cpus=1, num_gpus=1)
    try:
        attempt = executor._Attempt(0, WantsCard("tries", 0, False))
        assert executor.RayExecutor(num_cpus=1)._with_card(attempt).on_gpu
        assert not executor.RayExecutor(num_cpus=2)._with_card(attempt).on_gpu
    finally:
        cluster._cluster.remove_node(machine)


@contextlib.contextmanager
def meanwhile(action: Callable[[], None], every_s: float) -> Iterator[list[int]]:
    """Do something again and again in another thread; the list has an entry for every time."""
    done: list[int] = []
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(every_s):
            action()
            done.append(1)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield done
    finally:
        stop.set()
        thread.join()


def test_workers_that_are_killed(cluster: SimulatedCluster, tmp_path: Path) -> None:
    """Whichever processes of tasks are killed, at random, the index comes out the same."""
    from ray_cluster import ray_processes

    files = write_texts(tmp_path / "in", (400, 300, 500, 400))
    here = build(files, tmp_path / "here", shards=6, encoder="bm25")
    rng = random.Random(1)
    killed: list[int] = []
    most = [0]  # or a task would be killed more often than it is tried

    def kill() -> None:
        busy = [pid for pid, line in ray_processes().items() if line.startswith("ray::run_task")]
        if busy and len(killed) < most[0]:
            killed.append(rng.choice(busy))
            with contextlib.suppress(ProcessLookupError):
                os.kill(killed[-1], signal.SIGKILL)

    for number in itertools.count():
        most[0] += 5
        with meanwhile(kill, 0.3):
            there = segmax.ray.build(files, tmp_path / f"there{number}", shards=6, encoder="bm25")
        assert there == here
        if len(killed) >= KILLS:
            break


def test_a_node_that_is_lost(cluster: SimulatedCluster, tmp_path: Path) -> None:
    """A node that dies with its tasks costs time, and nothing else."""
    files = write_texts(tmp_path / "in", (400, 300, 500, 400))
    here = build(files, tmp_path / "here", shards=6, encoder="bm25")
    nodes = list(cluster.nodes)
    stages: list[str] = []

    def update(progress: Any) -> None:
        if progress.stage in ("weigh", "shards") and progress.stage not in stages:
            stages.append(progress.stage)
            cluster.kill(nodes.pop())

    there = segmax.ray.build(files, tmp_path / "there", shards=6, encoder="bm25", progress=update)
    assert there == here
    assert stages == ["weigh", "shards"]


DRIVER = """
import json, sys
import ray, segmax.ray
address, files, path = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
ray.init(address=address, log_to_driver=False, logging_level="ERROR")
segmax.ray.build(files, path, shards=4, progress=lambda update: print(update.stage, update.done, flush=True))
"""


def test_a_driver_that_is_killed(cluster: SimulatedCluster, tmp_path: Path) -> None:
    """While another process builds at a path, a second build is refused; once it is killed, it is resumed."""
    files = write_matrices(tmp_path / "in", sizes=(200, 200, 300))
    here = build(files, tmp_path / "here", shards=4)
    for stage in ("read", "sample", "route", "shards"):
        path = tmp_path / f"there-{stage}"
        command = [sys.executable, "-c", DRIVER, cluster.address, json.dumps(files), str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as driver:
            assert driver.stdout is not None
            while not driver.stdout.readline().startswith(f"{stage} 1"):
                assert driver.poll() is None
            if stage == "read":
                os.kill(driver.pid, signal.SIGSTOP)
                with refused(CollectionLockedError, message="an index is being built at"):
                    segmax.ray.build(files, path, shards=4)
            driver.kill()
        assert not (path / "sharded.json").exists()
        seen = []
        assert segmax.ray.build(files, path, shards=4, progress=seen.append) == here
        assert segmax.open(path / "shards" / here.shards[0].hash, verify=True).num_docs == here.shards[0].num_docs


# --- datasets --------------------------------------------------------------------------------------------------------


@pytest.fixture
def data(cluster: SimulatedCluster) -> Any:
    """Gives `ray.data`, which shows no progress bars."""
    found = pytest.importorskip("ray.data", exc_type=ImportError)
    found.DataContext.get_current().enable_progress_bars = False
    return found


def test_a_dataset_of_texts(data: Any, tmp_path: Path) -> None:
    """A Dataset of records gives the index of its files: the same order, ids, texts, metadata and weights."""
    files = write_texts(tmp_path / "in", (300, 200, 400))
    options = {"shards": 3, "encoder": "bm25", "metadata": ["year", "tags"]}
    here = build(files, tmp_path / "here", **options)
    dataset = data.read_json(files, override_num_blocks=7)
    assert segmax.ray.build(dataset, tmp_path / "there", **options) == here


def test_datasets_of_vectors(data: Any, tmp_path: Path) -> None:
    """Vectors may be mappings of words, or lists of indices and values; ids may be integers."""
    files = write_json_vectors(tmp_path / "in", (100, 150))
    records = [json.loads(line) for file in files for line in Path(file).read_text().splitlines()]
    here = build(files, tmp_path / "words", shards=3, metadata=["year"])
    pairs = [
        {"id": one["id"], "indices": list(one["vector"]), "values": list(one["vector"].values()), "year": one["year"]}
        for one in records
    ]
    for number, rows in enumerate((records, pairs)):
        dataset = data.from_items(rows, override_num_blocks=5)
        assert segmax.ray.build(dataset, tmp_path / f"words{number}", shards=3, metadata=["year"]) == here
    docs = random_matrix(120, "floats")
    rows = [
        {"id": 1000 + row, "indices": docs[row].indices.tolist(), "values": docs[row].data.tolist()}
        for row in range(120)
    ]
    here = build(docs, tmp_path / "numbers", shards=3, ids=range(1000, 1120))
    assert segmax.ray.build(data.from_items(rows), tmp_path / "numbers0", shards=3) == here


def test_terms_of_a_dataset_are_words_by_their_type(data: Any, tmp_path: Path) -> None:
    """Whether terms are words is a matter of the column's type, not of the first rows, which may have no terms."""
    words = [{"id": row, "indices": [], "values": []} for row in range(1100)]
    words += [{"id": row, "indices": ["copper", f"w{row % 5}"], "values": [1.0, 2.0]} for row in range(1100, 1130)]
    docs = [{"id": each["id"], "vector": dict(zip(each["indices"], each["values"], strict=True))} for each in words]
    numbers = [{"id": row, "vector": {row % 7: 1.5, 9: 1.0}} for row in range(40)]
    for number, (rows, blocks, terms) in enumerate(((words, 1, 6), (words, 3, 6), (docs, 3, 6), (numbers, 2, 10))):
        dataset = data.from_items(rows, override_num_blocks=blocks)
        made = segmax.ray.build(dataset, tmp_path / f"index{number}", shards=2)
        assert (made.num_docs, made.num_terms) == (len(rows), terms)


def test_datasets_that_cannot_be_built(data: Any, tmp_path: Path) -> None:
    """Missing columns, ids that occur twice and invalid weights are refused."""
    twice = data.from_items([{"id": f"d{row // 2}", "text": "copper"} for row in range(40)])
    with refused(InputError, expected="every id once", where="block of the Dataset"):
        segmax.ray.build(twice, tmp_path / "index", shards=2, encoder="bm25")
    with refused(InputError, expected="'vector'", hint="encoder"):
        segmax.ray.build(twice, tmp_path / "index", shards=2)
    wrong = data.from_items([{"id": f"d{row}", "indices": [1], "values": [3.0 - row]} for row in range(9)])
    with refused(InputError, expected=">= 0", where="block of the Dataset"):
        segmax.ray.build(wrong, tmp_path / "index", shards=2, overwrite=True)
    with refused(InputError, expected="column 'text'"):
        segmax.ray.build(wrong, tmp_path / "index", shards=2, encoder="bm25")
    with refused(ConfigError, option="ids"):
        segmax.ray.build(wrong, tmp_path / "index", shards=2, ids=range(9))
    assert not (tmp_path / "index" / "sharded.json").exists()


def test_a_dataset_is_resumed_if_it_reads_files(data: Any, tmp_path: Path) -> None:
    """What came of files that are unchanged is used again, however they are cut; documents in memory start over."""
    files = write_texts(tmp_path / "in", (100, 200))
    here = build(files, tmp_path / "here", shards=2, encoder="bm25")

    class StopError(Exception):
        pass

    def stop(progress: Any) -> None:
        if progress.stage == "route":
            raise StopError

    records = [json.loads(line) for file in files for line in Path(file).read_text().splitlines()]
    for name, make, reads_again in (
        ("files", lambda blocks: data.read_json(files, override_num_blocks=blocks), False),
        ("memory", lambda blocks: data.from_items(records, override_num_blocks=blocks), True),
    ):
        with pytest.raises(StopError):
            segmax.ray.build(make(4), tmp_path / name, shards=2, encoder="bm25", progress=stop)
        seen: list[Any] = []
        made = segmax.ray.build(make(6), tmp_path / name, shards=2, encoder="bm25", progress=seen.append)
        assert made == here
        assert any(update.stage == "read" for update in seen) == reads_again
