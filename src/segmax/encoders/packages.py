"""Packages that models need: imported when the first model is loaded."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

from segmax.base.optional import need

#: The oldest major versions that work. Before sentence-transformers 6, a model in a folder could run code of its own.
_OLDEST = {"sentence_transformers": 6, "transformers": 5}


def need_torch(module: str, who: str) -> Any:
    """Import a module of the extra that models need, and check that it is recent enough; see `need`."""
    return need(module, who, "encoders", package=module.replace("_", "-"), oldest=_OLDEST.get(module, 0))


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
