"""Folders of plain text: a document per .txt or .md file, called by its path."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from segmax.base.errors import InputError
from segmax.io.read_errors import reading
from segmax.io.streams import MAX_LINE_BYTES, base_name, read_blocks
from segmax.vectors.documents import Document

#: How the names of text files end.
TEXT_ENDINGS = (".txt", ".md", ".markdown")
_HEADING = re.compile(r"#{1,6}[ \t]+(.*?)[ \t#]*")


def text_files(folder: Path) -> Iterator[Path]:
    """Yield the .txt and .md files of a folder and those below it, in the order of their paths.

    Hidden files and folders do not count, and links to other folders are not followed.
    """
    return (path for path in files_below(folder) if base_name(path).endswith(TEXT_ENDINGS))


def files_below(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder and those below it, in the order of their paths, but for hidden ones."""
    with reading(folder):
        for name, below, files in os.walk(folder, onerror=_raised):
            below[:] = sorted(entry for entry in below if not entry.startswith("."))
            for file in sorted(files):
                path = Path(name, file)
                if not file.startswith(".") and path.is_file():
                    yield path


def _raised(error: OSError) -> None:
    raise error


def is_text_file(path: Path) -> bool:
    """Whether a single file is a document: Markdown. Lines of a .txt file are documents of their own."""
    return base_name(path).endswith(TEXT_ENDINGS[1:])


def read_text_file(path: Path, folder: Path) -> Document:
    """Read a document: its id is its path below the folder, its title the first heading or the name of the file."""
    text = _content(path)
    first, _, rest = text.lstrip().partition("\n")
    heading = _HEADING.fullmatch(first.rstrip()) if is_text_file(path) else None
    name = path.relative_to(folder).as_posix()
    if heading is not None and heading[1]:
        return Document(name, heading[1], rest.strip())
    return Document(name, Path(base_name(Path(path.name))).stem, text.strip())


def _content(path: Path) -> str:
    content = b""
    for block in read_blocks(path):
        content += block
        if len(content) > MAX_LINE_BYTES:
            raise InputError(
                where=f"'{path}'",
                expected=f"a text of at most {MAX_LINE_BYTES >> 20} MiB",
                got="a longer one",
                hint="split it",
            )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            where=f"'{path}', line {line}", expected="UTF-8", got=f"the byte 0x{content[error.start]:02x}"
        ) from error
