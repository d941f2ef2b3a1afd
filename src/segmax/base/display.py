"""How values look on a terminal: text without control characters, counts, plain numbers, durations."""

from __future__ import annotations

import json
import math
import re
from typing import Any

#: What a terminal obeys instead of showing: C0 and C1 controls, line separators, marks that change the direction of
#: text, and surrogates, which no encoding can write. The joiners that emoji and many scripts need are not among them.
_CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: object) -> str:
    r"""Return a text for a terminal: control characters and marks that reorder text are shown escaped.

    Everything that the command line prints and that comes from files, indexes or the user goes through here.

    Parameters
    ----------
    text
        What to show; `str` is taken of anything else.

    Examples
    --------
    >>> print(printable("a\x1b[2Jb"))
    a\x1b[2Jb
    """
    return _CONTROL.sub(_escaped, str(text))


def _escaped(match: re.Match[str]) -> str:
    letter = match.group()
    return _SHORT.get(letter) or (f"\\x{ord(letter):02x}" if ord(letter) < 0x100 else f"\\u{ord(letter):04x}")


def json_text(value: Any, indent: int | None = None) -> str:
    r"""Return a value as JSON that is safe to show: what `printable` escapes is escaped as JSON does it.

    Examples
    --------
    >>> print(json_text("é\x9b"))
    "é\u009b"
    """
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    # The line feeds and blanks of an indented text are JSON's own: inside of strings it escapes both.
    return _CONTROL.sub(lambda match: "\n" if match.group() == "\n" else f"\\u{ord(match.group()):04x}", text)


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return a number with what is counted, in the singular or plural.

    Parameters
    ----------
    number
        How many.
    one
        The word for one.
    many
        The word for more; None: `one` with an s.

    Examples
    --------
    >>> counted(1, "document"), counted(1200, "query", "queries")
    ('1 document', '1,200 queries')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def plain_number(value: float, digits: int = 4) -> str:
    """Return a number with so many significant digits, and without an exponent.

    Digits before the decimal point always stay: 11,552 has five.

    Examples
    --------
    >>> plain_number(11552.3), plain_number(12.3), plain_number(0.00123456)
    ('11,552', '12.30', '0.001235')
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])  # after rounding: 9.9999 is 10.00
    return f"{value:,.{max(digits - 1 - exponent, 0)}f}"


def short_number(value: float, digits: int = 6) -> str:
    """Return a number with at most so many significant digits, without an exponent and without zeros at its end.

    Examples
    --------
    >>> short_number(8.0), short_number(1.25), short_number(12345678.9), short_number(0.00001234)
    ('8', '1.25', '12,345,679', '0.00001234')
    """
    text = plain_number(value, digits)
    return text.rstrip("0").rstrip(".") if "." in text else text


def duration(seconds: float) -> str:
    """Return a duration in milliseconds or seconds.

    Examples
    --------
    >>> duration(0.00003), duration(13.21)
    ('0.030 ms', '13.2 s')
    """
    if seconds < 1:
        return f"{plain_number(seconds * 1000, 2 if seconds < 0.1 else 3)} ms"
    return f"{seconds:,.1f} s"


def size_text(num_bytes: int) -> str:
    """Return a size in the largest unit that fits.

    Examples
    --------
    >>> size_text(3 * 2**19)
    '1.5 MiB'
    """
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if num_bytes >= factor:
            return f"{num_bytes / factor:,.1f} {unit}"
    return f"{num_bytes} bytes"
