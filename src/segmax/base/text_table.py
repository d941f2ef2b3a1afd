"""Tables that fit their terminal: what is too wide is wrapped at words or stacked, and nothing is ever cut."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from segmax.base.display import printable

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

_GAP = 2  # blanks between columns
_NARROWEST = 12  # columns of words are not made narrower
_SHARE = 3  # nor, for a long word, narrower than this part of a table


@dataclasses.dataclass(frozen=True, kw_only=True)
class Column:
    """A column of a table: its heading, and a text per row.

    A column of `words` is set left, and wrapped where it must be; others hold figures, which stay in one line.
    """

    heading: str
    cells: Sequence[str]
    words: bool = False

    @property
    def width(self) -> int:
        """The width that it takes if nothing is wrapped."""
        return max(map(_width, (self.heading, *self.cells)))

    def least(self, room: int) -> int:
        """Return the width that it takes in a table if its heading, and cells of words, are wrapped.

        Words are wrapped at blanks, and inside only if they would fill more than a part of the table.
        """
        if not self.words:
            return max(map(_width, (*self.heading.split(), *self.cells)), default=0)
        longest = max((_width(word) for text in (self.heading, *self.cells) for word in text.split()), default=0)
        return min(self.width, max(_NARROWEST, min(longest, room // _SHARE)))


def tables(groups: Sequence[Sequence[Column]], width: int, styles: Sequence[str] = ()) -> Iterator[RenderableType]:
    """Yield columns as tables of at most that width, as few as possible; each repeats what names the rows.

    Parameters
    ----------
    groups
        Columns that belong together stay together if they fit. The first column names the rows, together with the
        columns of words after it where its cells are not unique.
    width
        The width of the terminal.
    styles
        A style of rich for every row; none: all rows are plain.
    """
    safe = [[_safe(column) for column in group] for group in groups]
    keys = _num_keys(safe[0])
    names, groups = safe[0][:keys], [safe[0][keys:], *safe[1:]]
    for number, panel in enumerate(_panels(names, groups, width)):
        if number:
            yield ""
        yield _table(panel, _widths(panel, width), styles)


def _num_keys(columns: Sequence[Column]) -> int:
    """Return how many of the first columns it takes to identify every row."""
    for count in range(1, len(columns)):
        rows = list(zip(*(column.cells for column in columns[:count]), strict=True))
        if len(set(rows)) == len(rows) or not columns[count].words:
            return count
    return len(columns)


def _panels(names: Sequence[Column], groups: Sequence[Sequence[Column]], width: int) -> Iterator[list[Column]]:
    """Divide columns among tables; a group that is too wide for a table is divided, too."""
    panel = [*names]
    for group in groups:
        for piece in [group] if _fits([*names, *group], width) else [[column] for column in group]:
            if len(panel) > len(names) and not _fits([*panel, *piece], width):
                yield panel
                panel = [*names]
            panel.extend(piece)
    yield panel


def _fits(columns: Sequence[Column], width: int) -> bool:
    return _spare(columns, width) >= 0


def _spare(columns: Sequence[Column], width: int) -> int:
    """Return how much of a width is left if every column takes its least."""
    return width - sum(_GAP + column.least(width) for column in columns) + _GAP


def _widths(columns: Sequence[Column], width: int) -> list[int]:
    """Return the width of every column: room that is left goes to headings first, then to words."""
    widths = [column.least(width) for column in columns]
    spare = _spare(columns, width)
    for number in sorted(range(len(columns)), key=lambda number: columns[number].words):
        more = max(0, min(spare, columns[number].width - widths[number]))
        widths[number] += more
        spare -= more
    return widths


def _table(columns: Sequence[Column], widths: Sequence[int], styles: Sequence[str]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    for number, (column, width) in enumerate(zip(columns, widths, strict=True)):
        left = column.words or number == 0
        table.add_column(
            Text(column.heading), justify="left" if left else "right", width=width, header_style="dim", overflow="fold"
        )
    for number, row in enumerate(zip(*(column.cells for column in columns), strict=True)):
        table.add_row(*map(Text, row), style=styles[number] if styles else "")
    return table


def _safe(column: Column) -> Column:
    return dataclasses.replace(column, heading=printable(column.heading), cells=[*map(printable, column.cells)])


def _width(text: str) -> int:
    from rich.cells import cell_len

    return cell_len(text)
