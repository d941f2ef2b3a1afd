"""What an experiment returns: tables, plots, and which of the paper's findings hold."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from segmax.drawing.plot import Plot

#: A field of a table; None is an empty one.
Cell = str | int | float | None
#: What a step of an experiment returns, and what identifies it: anything that JSON can hold.
Json = Any
#: "tie": too close to call; "unknown": the data do not decide.
Verdict = Literal["holds", "fails", "tie", "unknown"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sheet:
    """A table.

    Parameters
    ----------
    title
        The line above it.
    columns
        The headings.
    rows
        One field per column.
    note
        An explanation below it.

    Examples
    --------
    >>> sheet = Sheet(title="Clusters", columns=("method", "visited"), rows=(("asc", 0.08),))
    >>> Sheet.from_dict(sheet.to_dict()) == sheet
    True
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            assert len(row) == len(self.columns), f"{self.title}: {len(self.columns)} columns, but a row {row}"

    def to_dict(self) -> dict[str, Any]:
        """Return the table as plain values."""
        rows = [list(row) for row in self.rows]
        return {"title": self.title, "columns": list(self.columns), "rows": rows, "note": self.note}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Sheet:
        """Make a table from what `to_dict` returned."""
        return cls(
            title=values["title"],
            columns=tuple(values["columns"]),
            rows=tuple(tuple(row) for row in values["rows"]),
            note=values["note"],
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """A finding of the paper, and whether it holds here.

    Parameters
    ----------
    claim
        The paper's finding, in a sentence.
    verdict
        Whether it holds here.
    evidence
        Our figures.
    rule
        What decides, with its p-value or tolerance; see `segmax.experiments.verdicts`.
    """

    claim: str
    verdict: Verdict
    evidence: str
    rule: str

    def __post_init__(self) -> None:
        assert self.rule, f"{self.claim}: expected the rule that decides"

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as plain values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Finding:
        """Make a finding from what `to_dict` returned."""
        return cls(**{field.name: values[field.name] for field in dataclasses.fields(cls)})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """What an experiment found: tables, plots, findings, and all raw figures as `records`."""

    sheets: tuple[Sheet, ...]
    plots: tuple[Plot, ...] = ()
    findings: tuple[Finding, ...] = ()
    records: list[dict[str, Any]] = dataclasses.field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        return {
            "sheets": [sheet.to_dict() for sheet in self.sheets],
            "plots": [plot.to_dict() for plot in self.plots],
            "findings": [finding.to_dict() for finding in self.findings],
            "records": self.records,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Outcome:
        """Make an outcome from what `to_dict` returned."""
        return cls(
            sheets=tuple(Sheet.from_dict(sheet) for sheet in values["sheets"]),
            plots=tuple(Plot.from_dict(plot) for plot in values["plots"]),
            findings=tuple(Finding.from_dict(finding) for finding in values["findings"]),
            records=list(values["records"]),
        )
