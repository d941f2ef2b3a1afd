"""Packages that only some encoders need: imported when one is made, with a message that says what to install."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

from segmax.base.errors import ConfigError

#: The oldest major versions that work. Before sentence-transformers 6, a model in a folder could run code of its own.
_OLDEST = {"sentence_transformers": 6, "transformers": 5}


def need(module: str, who: str, install: str) -> Any:
    """Import a module, or say how to get it.

    Parameters
    ----------
    module
        Its name.
    who
        What needs it, at the beginning of the message.
    install
        What `pip install` is to be given, as a shell reads it.

    Raises
    ------
    ConfigError
        The package is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        msg = f"{who} needs {module.split('.')[0]} ({error}): pip install {install}"
        raise ConfigError(msg) from error


def need_torch(module: str, who: str) -> Any:
    """Import a module of the extra that models need, and check that it is recent enough.

    Raises
    ------
    ConfigError
        The package is not installed, or its version is too old.
    """
    found = need(module, who, "'segmax[encoders]'")
    oldest = _OLDEST.get(module, 0)
    if major_version(found) < oldest:
        package = module.replace("_", "-")
        version = getattr(found, "__version__", "none")
        msg = f"{who} needs {package} {oldest} or newer, got {version}: pip install -U 'segmax[encoders]'"
        raise ConfigError(msg)
    return found


def major_version(module: Any) -> int:
    """Return the first number of a module's version, 0 where it has none."""
    first = str(getattr(module, "__version__", "0")).split(".")[0]
    return int(first) if first.isdecimal() else 0


@contextlib.contextmanager
def quiet_loading() -> Iterator[None]:
    """Keep transformers from drawing a progress bar of its own while a model is loaded."""
    logging = importlib.import_module("transformers.utils.logging")
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
