"""`segmax --version --verbose` shows what a bug report needs, quickly and within 80 columns."""

from __future__ import annotations

import builtins
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import pytest
from test_cli_startup import HEAVY, loaded

import segmax
from segmax import _core
from segmax.cli import main
from segmax.cli import version as versions
from segmax.storage.meta import FORMAT_VERSION


@pytest.mark.parametrize("arguments", [["--version", "--verbose"], ["--verbose", "--version"], ["--version", "-v"]])
def test_an_installation_is_described(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Kernels, formats, Python and packages are there, whichever option comes first; no line is too long."""
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"segmax {segmax.__version__}\n")
    assert f"kernels:       {_core.simd_level()}" in shown
    assert f"available: {', '.join(_core.simd_levels())}" in " ".join(shown.split())
    assert f"index {FORMAT_VERSION} (opens" in shown
    assert f"{platform.python_implementation()} {platform.python_version()}\n" in shown
    assert f"numpy {version('numpy')}" in shown
    assert "ruff" not in shown
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize("asserts", [True, False])
def test_a_build_with_asserts_is_named(
    asserts: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is for tests, and slow."""
    monkeypatch.setattr(_core, "has_asserts", lambda: asserts)
    assert main(["--version", "--verbose"]) == 0
    assert ("built with asserts" in capsys.readouterr().out) == asserts


def test_the_version_alone_stays_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Scripts may read it."""
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"segmax {segmax.__version__}\n"


def test_verbose_alone_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """Options of a command come after it."""
    assert main(["--verbose", "compact"]) == 2
    assert capsys.readouterr().err == "segmax: error: expected a command first, got '--verbose'; see segmax --help\n"


def test_nothing_heavy_is_loaded() -> None:
    """Versions come from the metadata of packages, not from importing them."""
    assert loaded("from segmax.cli import main\nmain(['--version', '--verbose'])").isdisjoint(HEAVY)


def test_the_kernels_in_use_are_available() -> None:
    """The levels are listed from the fastest to the portable one, which is always there."""
    levels = _core.simd_levels()
    assert _core.simd_level() in levels
    assert levels[-1] == "portable"
    assert len(levels) == len(set(levels))


def test_what_is_broken_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A core that cannot be imported, a name of kernels that is none, and a missing package are worth reporting."""

    def wrong() -> str:
        msg = "no such level"
        raise ValueError(msg)

    monkeypatch.setattr(_core, "simd_level", wrong)
    assert "kernels:       none: no such level (available:" in versions.installation()

    def absent(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(versions, "version", absent)
    assert "packages:" not in versions.installation()
    assert "numpy" in versions.installation().partition("not installed:")[2]
    monkeypatch.setattr(versions, "requires", absent)
    assert "packages:      unknown: segmax is not installed" in versions.installation()

    real = builtins.__import__

    def broken(name: str, scope: Any = None, local: Any = None, names: Any = (), level: int = 0) -> Any:
        if name == "segmax.storage.meta" or (name == "segmax" and "_core" in (names or ())):
            msg = "undefined symbol"
            raise ImportError(msg)
        return real(name, scope, local, names, level)

    monkeypatch.setattr(builtins, "__import__", broken)
    shown = versions.installation()
    assert "kernels:       none: the core cannot be imported (undefined symbol)" in shown
    assert "formats:" not in shown


def test_only_what_users_install_is_listed() -> None:
    """Requirements of segmax and of extras for users count, those of extras for developers do not."""
    requirements = [
        "numpy>=1.26",
        'ray[data]<3,>=2.50; extra == "ray"',
        'ruff==1; extra == "dev"',
        "segmax[plot]; extra == 'demo'",
    ]
    assert versions._used(requirements) == {"numpy", "ray"}
