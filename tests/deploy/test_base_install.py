"""An install without extras indexes texts and vectors, searches them and shows what is there, in few packages."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import segmax

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
#: What base packages may take, in bytes.
MOST_BYTES = 150_000_000
#: The packages of a base install: those of pyproject.toml, and what these need.
BASE = {"markdown-it-py", "mdurl", "numpy", "pygments", "pystemmer", "rich", "threadpoolctl"}
TOOLS = {"pip", "setuptools", "wheel"}  # of a virtual environment

#: Makes every import fail but those of the standard library, of segmax and of base packages.
BLOCKED = """
    import sys
    KEPT = {*sys.stdlib_module_names, "segmax", "Stemmer", "markdown_it", "mdurl", "numpy", "pygments", "rich",
            "threadpoolctl"}
    class Blocked:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] not in KEPT:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    sys.meta_path.insert(0, Blocked())
"""
#: In a folder with docs.npz and texts.jsonl: what a base install is for.
USED = """
    import json, sys
    import segmax
    from segmax.cli import main
    def run(*words):
        assert main([*words]) == 0, words
    run("index", "texts.jsonl", "texts.segmax", "--no-progress")
    run("search", "texts.segmax", "-q", "copper waveguides")
    run("inspect", "texts.segmax")
    run("index", "docs.npz", "docs.segmax")
    run("inspect", "docs.segmax")
    run("search", "docs.segmax", "docs.npz", "-k", "3")
    run("tune", "docs.segmax", "docs.npz", "--target-recall", "0.9")
    run("add", "papers", "texts.jsonl", "--encoder", "bm25")
    run("search", "papers", "-q", "noise")
    run("compact", "papers")
    run("inspect", "papers")
    run("convert", "docs.npz", "docs.ciff", "--scale", "x100")
    run("plan", "--docs", "10000000", "--terms", "120", "--qps", "100", "--p99-ms", "50")
    run("completion", "bash")
    with segmax.open("docs.segmax") as index:
        found = index.search({3: 1.0, 5: 2.0}, k=3).ids, index.search(([3, 5], [1.0, 2.0]), k=3).ids
        assert found[0] == found[1] and len(found[0]) == 3
        try:
            index.vector(0)
        except segmax.errors.MissingPackageError as error:
            missing = str(error)
        else:
            missing = ""
    vectors = [{"id": 1, "vector": {3: 1.0, 5: 2.0}}, {"id": 2, "vector": ([5, 3, 5], [1.0, 2.0, 0.5])}]
    with segmax.Collection.create("vectors") as collection:
        collection.add(vectors)
        assert collection.search({5: 1.0}).ids == [1, 2]
        collection.upsert([{"id": 1, "vector": {5: 1.0}}])
        assert collection.search({5: 1.0}).ids == [2, 1]
    import segmax.shards, segmax.typing, segmax.evaluation, segmax.paper, segmax.io, segmax.text
    segmax.shards.build("docs.npz", "sharded", shards=2)
    with segmax.shards.open_local("sharded") as index:
        assert [int(id) for id in index.search({3: 1.0, 5: 2.0}, k=3).ids] == found[0]
    third = {name.partition(".")[0] for name in sys.modules} - {"segmax", *sys.stdlib_module_names}
    print(json.dumps({"third": sorted(third), "missing": missing, "found": found[0]}))
"""


def prepared(folder: Path) -> sp.csr_matrix:
    """Write vectors and texts into a folder; return the vectors."""
    docs = sp.random(400, 40, 0.2, format="csr", random_state=0)
    sp.save_npz(folder / "docs.npz", docs)
    texts = ["noise of microwave tubes", "a waveguide of copper", "noise in crystal diodes"]
    lines = [json.dumps({"id": f"d{number}", "text": text}) for number, text in enumerate(texts)]
    (folder / "texts.jsonl").write_text("\n".join(lines))
    return docs


def check(run: subprocess.CompletedProcess[str], docs: sp.csr_matrix) -> None:
    """Compare what the program printed with what it should find."""
    assert run.returncode == 0, run.stdout + run.stderr
    reported = json.loads(run.stdout.splitlines()[-1])
    scores = docs @ np.bincount([3, 5], weights=[1.0, 2.0], minlength=40)
    assert sorted(reported["found"]) == sorted(np.argsort(-scores, kind="stable")[:3].tolist())
    assert "needs scipy" in reported["missing"]
    assert "pip install 'segmax[scipy]'" in reported["missing"]
    assert set(reported["third"]).isdisjoint({"scipy", "pyarrow", "torch", "faiss"})
    assert {"numpy", "rich"} <= set(reported["third"])


@pytest.mark.deep
def test_everything_basic_works_without_extras(tmp_path: Path) -> None:
    """With imports of every other package blocked: texts, vectors, collections, shards, a plan."""
    docs = prepared(tmp_path)
    program = textwrap.dedent(BLOCKED) + textwrap.dedent(USED)
    check(subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True), docs)


def test_dependencies_are_few() -> None:
    """Neither scipy nor pyarrow nor torch is among them."""
    names = {requirement.split(">")[0].lower() for requirement in PROJECT["dependencies"]}
    assert names <= BASE


@pytest.mark.slow
def test_a_fresh_environment_is_small(tmp_path: Path) -> None:
    """`pip install` of the dependencies alone gives a working segmax, and at most 150 MB of packages."""
    docs = prepared(tmp_path)
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PROJECT["dependencies"]]
    subprocess.run(pip, check=True)
    site = next((tmp_path / "venv" / "lib").glob("python*")) / "site-packages"
    listing = "from importlib.metadata import distributions\nprint(*(found.name.lower() for found in distributions()))"
    alone = {"PATH": str(python.parent)}  # without PYTHONPATH, where the tests have the segmax that they test
    listed = subprocess.run(
        [python, "-c", listing], env=alone, capture_output=True, text=True, check=True
    ).stdout.split()
    assert set(listed) - TOOLS == BASE
    own = [path for path in site.iterdir() if not path.name.startswith(("pip", "setuptools", "pkg_resources", "wheel"))]
    size = sum(file.stat().st_size for path in own for file in (path, *path.rglob("*")) if file.is_file())
    assert size <= MOST_BYTES, f"{size:,} bytes"
    shutil.copytree(Path(segmax.__file__).parent, site / "segmax")
    run = subprocess.run([python, "-c", textwrap.dedent(USED)], cwd=tmp_path, env=alone, capture_output=True, text=True)
    check(run, docs)
