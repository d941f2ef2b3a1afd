"""Searching needs numpy and the core only: other packages are loaded by whatever needs them, or are not there."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import scipy.sparse as sp

import segmax

OPTIONAL = ("scipy", "faiss", "Stemmer", "rich", "pyarrow", "pandas", "matplotlib", "ir_measures", "torch")

#: Prints which of the packages were loaded, and what was found.
SEARCH = """
    import json, sys
    import numpy as np
    import segmax
    with segmax.open(sys.argv[1]) as index:
        found = [index.search(query, k=2).ids for query in ({"red": 2.0}, {0: 2.0}, (np.array([0]), np.array([2.0])))]
        found.append(index.search_batch([{"red": 2.0}, ([0], [2.0])], k=2).ids)
        found.append(index.search({"red": 2.0}, k=2, params=segmax.ASC(mu=0.9)).ids)
        found.append(index.search({"red": 2.0}, k=2, target_recall=0.9).ids)
        index.explain({"red": 2.0}, 0)
        index.score({"red": 2.0}, [0, 1])
    print(json.dumps([sorted({name.partition(".")[0] for name in sys.modules}), found]))
"""
#: Makes imports fail as they do where the packages are not installed.
BLOCKED = """
    import sys
    class Blocked:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in %r:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    sys.meta_path.insert(0, Blocked())
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index with a vocabulary, on disk."""
    where = tmp_path_factory.mktemp("imports") / "docs.segmax"
    segmax.build(sp.csr_matrix([[3, 0, 2], [1, 4, 0]]), terms=["red", "green", "blue"], path=where)
    return where


@pytest.mark.parametrize("before", ["", BLOCKED % (OPTIONAL,)], ids=["installed", "not installed"])
def test_searching_loads_numpy_and_the_core_only(path: Path, before: str) -> None:
    """By words, by numbers and by arrays, one query or many, exact or not, explained or scored."""
    program = textwrap.dedent(before) + textwrap.dedent(SEARCH)
    run = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    loaded, found = json.loads(run.stdout)
    assert set(loaded).isdisjoint(OPTIONAL)
    assert "numpy" in loaded
    assert found == [[0, 1], [0, 1], [0, 1], [[0, 1], [0, 1]], [0, 1], [0, 1]]


def test_searching_for_text_with_bm25_needs_a_stemmer_at_most(tmp_path: Path) -> None:
    """A text becomes a query without scipy."""
    segmax.from_texts({"d1": "a copper waveguide", "d2": "noise in diodes"}, path=tmp_path / "docs.segmax")
    program = """
        import json, sys
        import segmax
        with segmax.open(sys.argv[1]) as index:
            found = [index.search("copper").ids, index.search_batch(["copper", "noise"]).ids]
        print(json.dumps([sorted({name.partition(".")[0] for name in sys.modules}), found]))
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "docs.segmax")],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded, found = json.loads(run.stdout)
    assert set(loaded).isdisjoint(set(OPTIONAL) - {"Stemmer"})
    assert found == [["d1"], [["d1"], ["d2"]]]
