"""The notebooks run from top to bottom, are kept without outputs, and link to pages that exist."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "docs" / "notebooks").glob("*.ipynb"))


def cells(notebook: Path, kind: str) -> list[dict[str, Any]]:
    """The cells of a kind."""
    return [cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == kind]


def test_there_are_three() -> None:
    """A quick start, a comparison with plots, an explanation."""
    assert {notebook.stem for notebook in NOTEBOOKS} == {"quick-start", "compare-methods", "explain-a-query"}


@pytest.mark.deep
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_a_notebook_runs(notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cell works, in order, in an empty folder; the site executes them in Jupyter."""
    pytest.importorskip("ir_measures")
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    for cell in cells(notebook, "code"):
        exec(compile("".join(cell["source"]), notebook.name, "exec"), namespace)
    from matplotlib import pyplot

    pyplot.close("all")


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_a_notebook_is_kept_without_outputs(notebook: Path) -> None:
    """What it prints is made when the site is built, so it is never that of another version."""
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells(notebook, "code"))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_a_notebook_is_prose_and_code(notebook: Path) -> None:
    """It starts with a title and a sentence that says whom it is for, and never has two cells of code in a row."""
    made = json.loads(notebook.read_text())["cells"]
    assert re.match(r"# .+\n\nFor ", "".join(made[0]["source"]))
    kinds = [cell["cell_type"] for cell in made]
    assert ("code", "code") not in list(itertools.pairwise(kinds))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_links_of_a_notebook_resolve(notebook: Path) -> None:
    """Every relative link leads to a file of this repository."""
    text = "\n".join("".join(cell["source"]) for cell in cells(notebook, "markdown"))
    links = [link for link in re.findall(r"\]\(([^()\s#]+)", text) if not link.startswith("http")]
    assert links
    assert [link for link in links if not (notebook.parent / link).exists()] == []
