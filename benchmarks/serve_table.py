"""The table of `benchmarks.serve`: what, the goal, what was measured, and whether that reaches it."""

from __future__ import annotations

from typing import Any, NamedTuple


class Row(NamedTuple):
    """A line of the table."""

    what: str
    goal: str
    measured: str
    reached: bool | None = None
    figures: dict[str, Any] = {}  # noqa: RUF012  # never changed

    def to_text(self) -> str:
        """Return the line, in columns.

        Examples
        --------
        >>> Row("start", "≤ 1.5 s", "1.2 s", True).to_text()
        'start                             ≤ 1.5 s           yes  1.2 s'
        """
        verdict = "" if self.reached is None else "yes" if self.reached else "no"
        return f"{self.what:<33} {self.goal:<17} {verdict:<4} {self.measured}".rstrip()

    def to_markdown(self) -> str:
        """Return the line of a table of Markdown."""
        verdict = "" if self.reached is None else "reached" if self.reached else "missed"
        return f"| {self.what.strip()} | {self.goal} | {self.measured} | {verdict} |"


class Table:
    """Rows that are printed as they come."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def put(self, *rows: Row) -> None:
        """Add and print rows."""
        if not self.rows:
            print(f"{'what':<34}{'goal':<18}{'ok':<5}measured")
        for row in rows:
            print(row.to_text(), flush=True)
            self.rows.append(row)

    def to_markdown(self) -> str:
        """Return all of it as Markdown."""
        lines = ["| | goal | measured | |", "| --- | --- | --- | --- |"]
        return "\n".join([*lines, *(row.to_markdown() for row in self.rows)])
