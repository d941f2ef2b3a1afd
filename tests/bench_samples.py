"""A race without fresh processes, which take nearly all of the time where data are tiny."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

from segmax.bench.race import FailedError
from segmax.bench.results import Record
from segmax.bench.task import outcome_of


def in_this_process(folder: Path, stage: str, **task: Any) -> Record:
    """Do what `segmax.bench.race.in_fresh_process` does, on any core."""
    gc.freeze()  # every pass over queries collects garbage, and need not walk what the tests have made
    given = json.loads(json.dumps({"stage": stage, **task, "core": None}))
    try:
        outcome: Record = json.loads(json.dumps(outcome_of(given, folder)))
    except Exception as error:
        raise FailedError(f"{type(error).__name__}: {error}") from error
    return outcome
