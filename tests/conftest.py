"""Fixtures and generators shared by the tests."""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TypeVar

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import settings

import segmax
from segmax.errors import SegmaxError

E = TypeVar("E", bound=SegmaxError)

# A job that a shell starts in the background ignores Ctrl-C, and so would every program that the tests start.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Programs that tests start load what the tests load: the build with asserts, where `make test` made one.
TESTED = Path(__file__).resolve().parents[1] / "build" / "test" / "python"
if TESTED.is_dir():
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(TESTED), os.environ.get("PYTHONPATH")]))

# Hypothesis draws the same examples in every run. Beside them, `make test-deep` draws three times as many others, by
# one seed, and the nightly parts draw ten times as many, by a seed that they print.
TIMES = {"": 1, "others": 3, "random": 10}[os.environ.get("SEGMAX_EXAMPLES", "")]
RANDOM = TIMES > 1
settings.register_profile("segmax", max_examples=100 * TIMES, derandomize=not RANDOM, deadline=None, print_blob=RANDOM)
settings.load_profile("segmax")

#: CPU seconds, of a test and the processes it waits for, above which it fails unless it is marked deep or slow.
MOST_CPU_SECONDS = 2.0
_CPU_SECONDS = pytest.StashKey[float]()

SHARED = Path(__file__).resolve().parents[2] / "shared"
WIKI = SHARED / "data" / "wiki"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep every SEGMAX_SAMPLE-th test, others after each commit, so that a few landings have run them all."""
    if every := int(os.environ.get("SEGMAX_SAMPLE") or 0):
        git = ["git", "-C", str(config.rootpath), "rev-list", "--count", "HEAD"]
        first = int(subprocess.run(git, capture_output=True, text=True, check=True).stdout) % every
        selected = items[first::every]
        config.hook.pytest_deselected(items=[item for item in items if item not in selected])
        items[:] = selected


def pytest_collection_finish() -> None:
    """Leave alone what pytest has made of thousands of tests: garbage collections would walk it again and again."""
    gc.collect()
    gc.freeze()


def examples(number: int) -> int:
    """How many examples Hypothesis draws: so many, or several times as many where it draws others."""
    return TIMES * number


def cpu_seconds() -> float:
    """The CPU time of this process and of all processes that it has waited for, where the system counts these."""
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef, request: pytest.FixtureRequest) -> Iterator[None]:
    """Add the time of a test's own fixtures to its time; what is made once for many tests is nobody's."""
    before = cpu_seconds()
    result = yield
    if fixturedef.scope == "function":
        spend(request.node, cpu_seconds() - before)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a test that takes too long for `make test`, by CPU time, so that a busy machine fails none."""
    before = cpu_seconds()
    result = yield
    refuse_much(item, spend(item, cpu_seconds() - before))
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """The same, with what the end of its own fixtures takes: of none but these, where the module goes on."""
    before = cpu_seconds()
    result = yield
    used = item.stash.get(_CPU_SECONDS, 0.0)
    if used <= MOST_CPU_SECONDS and nextitem is not None and nextitem.parent is item.parent:
        refuse_much(item, spend(item, cpu_seconds() - before))
    return result


def spend(item: pytest.Item, seconds: float) -> float:
    """Add to the CPU time of a test; return all of it."""
    used: float = item.stash.get(_CPU_SECONDS, 0.0) + seconds
    item.stash[_CPU_SECONDS] = used
    return used


def refuse_much(item: pytest.Item, used: float) -> None:
    """Fail a test of `make test` that took too long: one that is neither marked nor, in `*_torch.py`, of models.

    An sdist or a wheel is tested by fewer tests, which pay for what others did before.
    """
    is_elsewhere = item.path.stem.endswith("_torch") or {"deep", "slow"} & {mark.name for mark in item.iter_markers()}
    is_free = RANDOM or not TESTED.is_dir() or is_elsewhere
    if used > MOST_CPU_SECONDS and not is_free:
        pytest.fail(f"took {used:.1f} CPU seconds, more than {MOST_CPU_SECONDS:g}: mark it deep, or make it faster")


@contextlib.contextmanager
def refused(
    kind: type[E],
    *,
    where: str = "",
    option: str = "",
    expected: str = "",
    got: str = "",
    hint: str = "",
    message: str = "",
) -> Iterator[pytest.ExceptionInfo[E]]:
    """Expect an error of this kind whose parts match; every part is a regular expression to search for.

    `message` is searched in `str(error)`, for errors that are one sentence rather than parts. The empty default
    matches anything; `"^$"` matches a part that is not there.
    """
    patterns = {"where": where, "option": option, "expected": expected, "got": got, "hint": hint}
    with pytest.raises(kind) as info:
        yield info
    parts = {part: str(getattr(info.value, part)) for part in patterns}
    for part, pattern in {**patterns, "message": message}.items():
        found = parts.get(part, str(info.value))
        assert re.search(pattern, found), f"expected {part} to match {pattern!r}, got {found!r} in: {info.value}"


def wiki_reader() -> ModuleType:
    """The module that reads the wiki vectors; skips where they are absent."""
    if not WIKI.is_dir():
        pytest.skip("needs the wiki vectors beside the project")
    spec = importlib.util.spec_from_file_location("read", WIKI / "read.py")
    assert spec is not None
    assert spec.loader is not None
    read = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(read)
    return read


def random_docs(
    rng: np.random.Generator, num_docs: int, num_terms: int, mean_terms: float = 6.0, largest: int = 255
) -> sp.csr_matrix:
    """Documents of a few random terms, some without any, with weights that often tie."""
    counts = np.minimum(rng.poisson(mean_terms, num_docs), num_terms)
    rows = np.repeat(np.arange(num_docs), counts)
    columns = np.concatenate([rng.permutation(num_terms)[:c] for c in counts]) if num_docs else np.empty(0, int)
    weights = rng.integers(1, largest + 1, len(rows))
    return sp.csr_matrix((weights, (rows, columns)), shape=(num_docs, num_terms))


def topic_docs(
    rng: np.random.Generator,
    num_docs: int,
    num_topics: int = 40,
    words: int = 30,
    mean_terms: int = 8,
    shares: np.ndarray | None = None,
) -> tuple[sp.csr_matrix, np.ndarray]:
    """Documents of several terms of one topic and two of a common vocabulary; also the topic of each.

    `shares` gives the probability of every topic; by default they are alike.
    """
    topics = rng.choice(num_topics, num_docs, p=shares)
    common = 50
    own = common + topics[:, None] * words + rng.integers(0, words, (num_docs, mean_terms))
    columns = np.concatenate([rng.integers(0, common, (num_docs, 2)), own], axis=1)
    rows = np.repeat(np.arange(num_docs), columns.shape[1])
    weights = rng.integers(1, 26, columns.size)  # ten times the same term still fits a byte
    docs = sp.csr_matrix((weights, (rows, columns.reshape(-1))), shape=(num_docs, common + num_topics * words))
    return docs, topics


def purity(found: np.ndarray, topics: np.ndarray) -> float:
    """Return the share of documents whose topic is the most frequent one of their cluster."""
    table = np.zeros((int(found.max()) + 1, int(topics.max()) + 1), dtype=np.int64)
    np.add.at(table, (found, topics), 1)
    return float(table.max(axis=1).sum() / len(topics))


def clusters_of(index: segmax.Index) -> np.ndarray:
    """Return the number of every document's cluster, by row, from the tables that the index stores."""
    arrays = index._open_arrays
    found = np.full(index.num_docs, -1, dtype=np.int64)
    for cluster, size in enumerate(arrays["cluster_num_docs"]):
        first = int(arrays["cluster_first_position"][cluster])
        found[arrays["position_row"][first : first + int(size)]] = cluster
    return found


@pytest.fixture(autouse=True)
def no_terminal_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test depends on the terminal it is started from, nor on the width that pytest-xdist gives its workers."""
    for name in ("COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator with a fixed seed."""
    return np.random.default_rng(7)


@pytest.fixture
def shared() -> Path:
    """The folder of real vectors beside the project; the test is skipped where it is absent."""
    if not SHARED.is_dir():
        pytest.skip("needs the shared data beside the project")
    return SHARED


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a masked language model, for tests that need torch; without it, they are skipped."""
    pytest.importorskip("sentence_transformers")
    from tiny_models import write_bert

    folder = tmp_path_factory.mktemp("bert")
    write_bert(folder)
    return folder


@pytest.fixture(scope="module")
def splade(bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a SPLADE model of sentence-transformers, with prompts."""
    from tiny_models import write_splade

    folder = tmp_path_factory.mktemp("models") / "splade"
    write_splade(folder, bert)
    return folder
