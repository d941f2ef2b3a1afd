"""The tables of docs/scale.md, and measuring while others are quiet."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from benchmarks.quiet import quietly

from benchmarks import planning, planning_pages
from segmax.planning import Figures


def columns(table: str) -> set[int]:
    """How many columns the rows of a table have."""
    return {line.count("|") for line in table.splitlines()}


def test_tables_of_measured_figures() -> None:
    """Every row has as many columns as the head."""
    figures = Figures.measured()
    for table in (planning_pages.growth_table, planning_pages.calls_table, planning_pages.asked_table):
        assert len(columns(table(figures))) == 1
        assert len(table(figures).splitlines()) > 6


def test_the_table_of_predictions() -> None:
    """Deviations have a sign."""
    row = {"shards": 2, "kind": "exact", "ms": 2.0, "predicted_ms": 2.2, "single_off": 0.1}
    row |= {"per_second": 5000.0, "predicted_per_second": 4000.0, "batch_off": -0.2}
    assert planning_pages.validated_table([row]).splitlines()[-1] == (
        "| 2 | exact | 2.00 | 2.20 | +10% | 5,000 | 4,000 | -20% |"
    )


def test_figures_are_kept_with_where_they_come_from(tmp_path: Path) -> None:
    """A part replaces its figures, and the file says when and by which command."""
    path = tmp_path / "figures.json"
    path.write_text(json.dumps({"growth": [1], "calls": {}}))
    args = planning.arguments(["calls", "--figures", str(path)])
    planning.Measurement(args).keep("calls", calls={"threads": 2})
    values = json.loads(path.read_text())
    assert (values["growth"], values["calls"]) == ([1], {"threads": 2})
    assert values["about"]["measured"]["calls"]["command"] == "python -m benchmarks.planning calls"


def test_unknown_parts_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """With the names of those that exist."""
    with pytest.raises(SystemExit):
        planning.arguments(["odd"])
    assert "growth" in capsys.readouterr().err


def test_measuring_takes_the_quietest_of_several_tries() -> None:
    """What ran beside others counts only if nothing better comes in time."""
    tries = itertools.count()
    found, others = quietly(lambda: next(tries), most=1e9)
    assert (found, others >= 0) == (0, True)
    assert quietly(lambda: next(tries), most=-1.0, patience_s=0.0)[0] == 1
