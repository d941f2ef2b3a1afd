"""Collections under the thread sanitizer: readers, a writer and merges at once, without a race in the core (slow)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import random, sys, threading
from pathlib import Path
import numpy as np, scipy.sparse as sp
import segmax
assert Path(segmax.__file__).is_relative_to({package!r}), segmax.__file__

TERMS = 30
def docs(rng, count):
    weights = np.array([[rng.randrange(0, 4) * (rng.random() < 0.3) for _ in range(TERMS)] for _ in range(count)])
    return sp.csr_matrix(weights, dtype=np.float64)

def read(collection, stop, seed, problems):
    rng = random.Random(seed)
    try:
        while not stop.is_set():
            queries = [{{rng.randrange(TERMS): rng.randrange(1, 4) for _ in range(4)}} for _ in range(6)]
            batch = collection.search_batch(queries, k=5, threads=2)
            assert len(batch) == len(queries)
            hits = collection.search(queries[0], k=10)
            assert len(set(hits.ids)) == len(hits.ids)
            collection.search(queries[1], k=5, where={{"even": True}})
            with collection.snapshot() as state:
                assert len(list(state.ids())) == len(state)
    except BaseException as error:
        problems.append(repr(error))

rng = random.Random(0)
problems, stop = [], threading.Event()
with segmax.Collection.create({path!r}) as collection:
    collection.add(docs(rng, 20), ids=range(20), metadata=[{{"even": n % 2 == 0}} for n in range(20)])
    readers = [threading.Thread(target=read, args=(collection, stop, seed, problems)) for seed in range(3)]
    for reader in readers:
        reader.start()
    for start in range(20, 20 + 12 * {rounds}, 12):
        names = range(start, start + 12)
        collection.add(docs(rng, 12), ids=names, metadata=[{{"even": n % 2 == 0}} for n in names])
        collection.delete([start, start - 7])
        if start % 5 == 0:
            collection._open_store.flush({{"threads": 2}})
        if start % 7 == 0:
            collection.compact()
    stop.set()
    for reader in readers:
        reader.join()
assert not problems, problems
print("survived")
"""


def library_path(name: str) -> str:
    """Return where the compiler has one of its libraries."""
    found = subprocess.run(["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    return found.stdout.strip()


def test_no_races_in_the_core(tmp_path: Path) -> None:
    """Searches, batches, filters, changes, flushes and merges of one collection, from several threads.

    Python and its packages are not instrumented, but the sanitizer sees their locks. Nothing is suppressed:
    `called_from_lib` would hide Python's own lock, which protects most objects.
    """
    built = list((ROOT / "build" / "threads").glob("_core*.so"))
    if not built:
        pytest.skip("needs the sanitizer build: make sanitize")
    package = tmp_path / "package"
    shutil.copytree(ROOT / "src" / "segmax", package / "segmax", ignore=shutil.ignore_patterns("*.so"))
    shutil.copy(built[0], package / "segmax")
    program = PROGRAM.format(package=str(package), path=str(tmp_path / "docs"), rounds=25)
    environment = {
        **os.environ,
        "LD_PRELOAD": library_path("libtsan.so"),
        "PYTHONPATH": str(package),
        "TSAN_OPTIONS": "history_size=4",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }
    # The sanitizer of some compilers cannot live with the addresses that newer kernels draw.
    unrandomized = ["setarch", "-R"] if shutil.which("setarch") else []
    command = [*unrandomized, sys.executable, "-c", program]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-5000:]
    assert result.stdout == "survived\n"
