"""A plugin of pytest: a test that itself needs what the system has not is skipped; one fails if segmax needs it."""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pretending
import pytest

import segmax

SOURCE = Path(segmax.__file__).parent
_MISSING = re.compile(r"has no attribute '(\w+)'|cannot import name '(\w+)'|import of (fcntl) halted")


def missing_name(error: pytest.ExceptionInfo[BaseException]) -> str | None:
    """Return the name that the system has not, if an error is about one and does not come out of segmax."""
    found = _MISSING.search(str(error.value))
    if found is None or Path(error.traceback[-1].path).is_relative_to(SOURCE):
        return None
    hidden = pretending.NOT_ON_MACOS if os.environ["SEGMAX_SYSTEM"] == "macos" else pretending.NOT_ON_WINDOWS
    name = next(filter(None, found.groups()))
    return name if name == "fcntl" or any(name in names.split() for names in hidden.values()) else None


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    """Turn such a failure into a skip."""
    outcome = yield
    name = None if call.excinfo is None else missing_name(call.excinfo)
    if name is not None:
        report = outcome.get_result()
        report.outcome = "skipped"
        report.longrepr = (str(item.path), 0, f"Skipped: the test needs {name}")
