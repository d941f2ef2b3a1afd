"""Without an optional package, its module says what to install; the others do not mind."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from conftest import refused
from segmax.errors import MissingPackageError


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [
        ("pyterrier", "pyterrier", "pyterrier"),
        ("langchain", "langchain_core", "langchain"),
        ("llama_index", "llama_index", "llama-index"),
        ("haystack", "haystack", "haystack"),
    ],
)
def test_a_missing_package_is_named(module: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing a module whose package is missing raises ImportError with the line that installs it."""
    for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, package, None)  # type: ignore[arg-type]
    monkeypatch.delitem(sys.modules, f"segmax.integrations.{module}", raising=False)
    with refused(MissingPackageError, hint=rf"pip install 'segmax\[{extra}\]'"):
        importlib.import_module(f"segmax.integrations.{module}")


def test_the_package_itself_imports_none_of_them() -> None:
    """`import segmax` and the modules that need no package bring in neither torch nor any of the libraries."""
    heavy = {"torch", "pandas", "pyterrier", "langchain_core", "llama_index", "haystack", "sentence_transformers"}
    code = (
        "import sys, segmax, segmax.integrations.text_search, segmax.integrations.toks\n"
        "import segmax.integrations.sentence_transformers\n"
        f"print(sorted({heavy!r} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
