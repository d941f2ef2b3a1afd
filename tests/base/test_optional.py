"""Optional packages: one error says what needs which one, and how to install it."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import segmax
from conftest import refused
from segmax.base.optional import need, needing, scipy_sparse
from segmax.errors import MissingPackageError

SOURCE = Path(segmax.__file__).parent


def test_what_is_there_is_imported() -> None:
    """Modules inside of packages, too."""
    assert need("os.path", "this test") is sys.modules["os.path"]


def test_missing_packages_name_their_extra() -> None:
    """The error is an ImportError, with the command as its hint."""
    with refused(MissingPackageError, message="a plot needs none_such", hint=r"^run: pip install 'segmax\[plot\]'$"):
        need("none_such.part", "a plot", "plot")
    with refused(MissingPackageError, hint="^run: pip install None-Such$"):
        need("none_such", "a table", package="None-Such")
    assert issubclass(MissingPackageError, ImportError)


def test_old_packages_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the major version counts."""
    monkeypatch.setattr(segmax, "__version__", "3.9")
    assert need("segmax", "this test", oldest=3) is segmax
    with refused(MissingPackageError, message="segmax 4 or newer, got 3.9", hint="install -U 'segmax"):
        need("segmax", "this test", "extra", oldest=4)


def test_the_innermost_need_is_the_one_that_is_named() -> None:
    """An error that says how to install a package is passed on as it is."""
    with refused(MissingPackageError, message="^inner needs"), needing("outer", "outer"):
        need("none_such", "inner")


def test_scipy_is_loaded_later() -> None:
    """It has what the module has."""
    import scipy.sparse

    assert scipy_sparse.csr_matrix is scipy.sparse.csr_matrix


def test_nothing_else_catches_import_errors() -> None:
    """What is optional goes through `need` or `needing`; a `suppress(ImportError)` needs no message.

    `segmax --version --verbose` shows why the core cannot be imported.
    """
    found = {
        file.relative_to(SOURCE).as_posix()
        for file in SOURCE.rglob("*.py")
        if "ImportError" in (text := file.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ExceptHandler) and node.type is not None and "ImportError" in ast.unparse(node.type)
    }
    assert found == {"base/optional.py", "cli/version.py"}
