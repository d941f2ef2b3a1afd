"""What the package promises about itself: exports, layers, stubs, documents that run."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import segmax
from segmax.paper import Anytime

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "segmax"


def test_exports() -> None:
    """`dir` shows __all__, `open`, which a star import must not bring, and the public modules."""
    assert segmax.__all__ == sorted(segmax.__all__)
    assert len(segmax.__all__) <= 16
    shown = {name for name in dir(segmax) if not name.startswith("_")}
    assert shown - {"open", *segmax._MODULES} == set(segmax.__all__)
    assert shown >= {"open", *segmax._MODULES}


def test_every_public_name_is_documented() -> None:
    """Every exported class and function has a docstring, and so has every public method."""
    for name in segmax.__all__:
        value = getattr(segmax, name)
        assert value.__doc__, name
        if isinstance(value, type):
            for member, content in vars(value).items():
                if callable(content) and not member.startswith("_"):
                    assert content.__doc__, f"{name}.{member}"


def test_every_public_name_has_an_example() -> None:
    """Every class and function of the front door and the public modules shows how it is used."""
    modules = [segmax, *(importlib.import_module(f"segmax.{name}") for name in segmax._MODULES)]
    public = {f"{module.__name__}.{name}": getattr(module, name) for module in modules for name in module.__all__}
    without = [
        name
        for name, value in {**public, "segmax.open": segmax.open}.items()
        if (inspect.isclass(value) or inspect.isfunction(value)) and ">>>" not in str(value.__doc__)
    ]
    assert without == []


def test_the_cpp_core_knows_no_python() -> None:
    """Only bindings/ includes nanobind or Python."""
    for file in (ROOT / "cpp").rglob("*.[chi]*"):
        text = file.read_text()
        assert "nanobind" not in text, file
        assert "Python.h" not in text, file


def test_the_stub_is_what_the_extension_gives(tmp_path: Path) -> None:
    """src/segmax/_core.pyi is generated (make stubs) and current."""
    pytest.importorskip("nanobind")
    fresh = tmp_path / "_core.pyi"
    subprocess.run([sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "segmax._core", "-o", str(fresh)], check=True)
    subprocess.run([sys.executable, "-m", "ruff", "format", "-q", "--line-length", "120", str(fresh)], check=True)
    assert fresh.read_text() == (SOURCE / "_core.pyi").read_text()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.deep if name == "segmax.planning.planner" else ())
        for file in sorted(SOURCE.rglob("*.py"))
        if ">>>" in file.read_text()
        for name in [".".join(file.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")]
    ],
)
def test_docstring_examples(name: str) -> None:
    """The examples in docstrings print what they say."""
    try:
        module = importlib.import_module(name)
    except ImportError as error:  # modules of integrations need what they integrate
        if not name.startswith("segmax.integrations."):
            raise
        pytest.skip(str(error))
    assert doctest.testmod(module).failed == 0


def test_the_quick_start_is_short() -> None:
    """The first Python block of the README has at most 15 lines."""
    block = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert block is not None
    assert len(block[1].strip().splitlines()) <= 15


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(path.name, marks=pytest.mark.deep if path.stem[:2] in ("02", "04", "05") else ())
        for path in sorted((ROOT / "examples").glob("*.py"))
    ],
)
def test_examples_run(example: str) -> None:
    """Every example is a program that runs and prints something."""
    result = subprocess.run([sys.executable, str(ROOT / "examples" / example)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout


def test_default_values() -> None:
    """Defaults are part of the interface."""
    config = segmax.BuildConfig()
    assert (config.num_clusters, config.num_segments, config.bits, config.seed) == (None, 8, 8, 0)
    asc = segmax.ASC()
    assert (asc.mu, asc.eta, asc.budget_ms, asc.max_blocks, asc.bound_mass) == (1.0, 1.0, None, None, 1.0)
    assert (asc.max_terms, asc.query_mass, asc.dropped) == (None, 1.0, "ignored")
    assert config.calibrate
    theirs = segmax.paper.ASC()
    assert (theirs.mu, theirs.eta, theirs.budget_ms, theirs.risk, theirs.max_clusters) == (1.0, 1.0, None, 1.0, None)
    assert (theirs.cluster_order, theirs.documents, theirs.estimate_threshold) == ("max_bound", "blocks", True)
    assert Anytime().mu == 1.0


def test_segments_are_even_and_depend_on_the_row_alone() -> None:
    """Random segments of a cluster differ by at most one document; a batch boundary changes nothing."""
    from segmax.building.segments import random_segments

    clusters = np.random.default_rng(0).integers(0, 9, 1000)
    segments = random_segments(clusters, 8, seed=3)
    for cluster in range(9):
        sizes = np.bincount(segments[clusters == cluster], minlength=8)
        assert sizes.max() - sizes.min() <= 1
    assert (random_segments(clusters, 8, seed=3) == segments).all()
    assert (random_segments(clusters, 8, seed=4) != segments).any()
