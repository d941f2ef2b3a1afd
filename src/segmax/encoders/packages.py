"""Packages that only some encoders need: imported when one is made, with a message that says what to install."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

from segmax.errors import ConfigError


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
    """Import a module of the extra that models need."""
    return need(module, who, "'segmax[encoders]'")


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
