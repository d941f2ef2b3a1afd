"""What the package promises about itself: exports, layers, stubs, documents that run."""

from __future__ import annotations

import ast
import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import segmax

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "segmax"

#: Lower layers first; a module may import from lower layers only.
LAYERS = [
    {"errors", "_core", "display", "files", "highlighting", "lazy"},
    {"checks", "meta"},
    {"figures", "memory", "parallel", "progress", "sparse", "storage", "text_table", "textstore"},
    {"tables"},
    {"results"},
    {"params", "pruning", "quantize", "spool", "typing"},
    {"io.arrow_limits", "io.base", "io.irds", "io.scale", "io.scratch", "io.streams", "methods"},
    {"io.jsonl", "io.npz", "io.records", "io.spooled", "io.text_folder"},
    {"io.columns", "io.frames", "io.json_array", "io.parquet_pages"},
    {"io.arrow", "io.bigann", "io.ciff", "io.seismic", "io.tokens", "io.trec"},
    {"io.recognise"},
    {"io.texts", "io.vectors"},
    {"io.queries"},
    {"io"},
    {"encoders.base", "encoders.packages", "encoders.words"},
    {"encoders.chunks", "encoders.hub", "encoders.journal", "encoders.pooling"},
    {"encoders.model_files"},
    {"encoders.bm25", "encoders.model_sizes", "encoders.transformer"},
    {"encoders.lexmae", "encoders.shards", "encoders.sparse_model", "encoders.unicoil"},
    {"encoders.loading"},
    {"encoders.stored"},
    {"encoders"},
    {"calibration", "config", "explain", "given_texts", "inputs", "points", "shortening"},
    {"pseudo"},
    {"assemble", "index", "kmeans"},
    {"cluster", "questions", "segments"},
    {"bound_reader"},
    {"build", "evaluation.judged", "evaluation.measures", "evaluation.plot", "evaluation.significance", "report"},
    {"evaluation.outcome"},
    {"evaluation.run"},
    {"evaluation"},
    {"pipeline"},
    {"__init__"},
    {"integrations", "integrations.extras", "integrations.toks"},
    {"integrations.text_search"},
    {
        "integrations.haystack",
        "integrations.langchain",
        "integrations.llama_index",
        "integrations.pyterrier",
        "integrations.sentence_transformers",
    },
    {"experiments.base", "experiments.described", "experiments.paper"},
    {
        "experiments.collections",
        "experiments.drawing",
        "experiments.render",
        "experiments.steps",
        "experiments.verdicts",
    },
    {"experiments.task"},
    {"experiments.experiment", "experiments.measuring"},
    {"experiments.about", "experiments.curves", "experiments.rows", "experiments.tested"},
    {
        "experiments.baselines",
        "experiments.bounds",
        "experiments.budgets",
        "experiments.clustering",
        "experiments.example",
        "experiments.models",
        "experiments.output",
        "experiments.overestimation",
        "experiments.parameters",
        "experiments.properties",
        "experiments.segmentation",
        "experiments.space",
        "experiments.static_pruning",
        "experiments.zero_shot",
    },
    {"experiments.report"},
    {"experiments"},
    {"cli_commands", "cli_parser", "cli_unanswered", "plots"},
    {"cli_show"},
    {"cli_build", "cli_completion", "cli_convert", "cli_encode", "cli_evaluate", "cli_inspect", "cli_search"},
    {"cli_experiment", "cli_index", "cli_report"},
    {"cli"},
    {"demo", "demo.generated", "demo.speed"},
    {"demo.__main__"},
]


def test_exports() -> None:
    """__all__ is sorted and is what the namespace offers."""
    assert segmax.__all__ == sorted(segmax.__all__)
    assert {name for name in dir(segmax) if not name.startswith("_")} == set(segmax.__all__)


def test_every_public_name_is_documented() -> None:
    """Every exported class and function has a docstring, and so has every public method."""
    for name in segmax.__all__:
        value = getattr(segmax, name)
        assert value.__doc__, name
        if isinstance(value, type):
            for member, content in vars(value).items():
                if callable(content) and not member.startswith("_"):
                    assert content.__doc__, f"{name}.{member}"


def imports_of(path: Path) -> set[str]:
    """The segmax modules that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "segmax":
            names = {alias.name for alias in node.names}
            found |= {name if (SOURCE / f"{name}.py").exists() or name == "_core" else "__init__" for name in names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("segmax."):
            package = node.module.removeprefix("segmax.")
            folder = SOURCE / package.replace(".", "/")
            names = {alias.name for alias in node.names}
            found |= {f"{package}.{name}" if (folder / f"{name}.py").exists() else package for name in names}
        elif isinstance(node, ast.Import):
            found |= {"__init__" for alias in node.names if alias.name == "segmax"}
    return found


def test_layers() -> None:
    """No module imports from its own layer's peers above it: dependencies point one way."""
    level = {module: depth for depth, layer in enumerate(LAYERS) for module in layer}
    files = {
        ".".join(file.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): file
        for file in SOURCE.rglob("*.py")
    }
    assert set(files) <= set(level), "a new module needs a place in LAYERS"
    graph = {module: imports_of(file) - {module} for module, file in files.items()}
    for module, imported in graph.items():
        for other in imported:
            assert level[other] <= level[module], f"{module} imports {other} from above"


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
        m.name
        for m in pkgutil.walk_packages(segmax.__path__, "segmax.")
        if "__main__" not in m.name and "_core" not in m.name
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


@pytest.mark.parametrize("example", sorted(p.name for p in (ROOT / "examples").glob("*.py")))
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
    assert (asc.mu, asc.eta, asc.budget_ms, asc.risk, asc.max_clusters) == (1.0, 1.0, None, 1.0, None)
    assert (asc.max_terms, asc.query_mass, asc.dropped) == (None, 1.0, "ignored")
    assert config.calibrate
    assert (asc.order, asc.documents, asc.lazy, asc.seed, asc.sweep) == ("max_bound", "blocks", True, True, True)
    assert segmax.Anytime().mu == 1.0


def test_segments_are_even_and_depend_on_the_row_alone() -> None:
    """Random segments of a cluster differ by at most one document; a batch boundary changes nothing."""
    from segmax.segments import random_segments

    clusters = np.random.default_rng(0).integers(0, 9, 1000)
    segments = random_segments(clusters, 8, seed=3)
    for cluster in range(9):
        sizes = np.bincount(segments[clusters == cluster], minlength=8)
        assert sizes.max() - sizes.min() <= 1
    assert (random_segments(clusters, 8, seed=3) == segments).all()
    assert (random_segments(clusters, 8, seed=4) != segments).any()
