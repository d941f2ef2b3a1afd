"""Parquet and Arrow files, a few rows at a time: their sizes and offsets are checked before pyarrow uses them."""

from __future__ import annotations

import contextlib
import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from segmax.io.arrow_limits import TooLarge, check_messages
from segmax.io.arrow_schema import pyarrow
from segmax.io.parquet_footer import BYTE_ARRAY, Chunk, row_groups
from segmax.io.parquet_pages import rows_at_once
from segmax.io.read_errors import reading

BATCH_ROWS = 1 << 11  # pyarrow holds several times what it hands out
BUFFER_BYTES = 1 << 20  # of a column of parquet; without it, columns of a row group are read whole
_MAX_MESSAGE = 1 << 28  # of a schema
_PARQUET = b"PAR1"
_ARROW_FILE = b"ARROW1"
_ARROW_STREAM = b"\xff\xff\xff\xff"


def is_arrow(head: bytes, name: str) -> bool:
    """Whether a file that starts like this is parquet or Arrow's; four bytes FF also start numbers of others."""
    if head.startswith((_PARQUET, _ARROW_FILE)) or name.endswith((".parquet", ".arrow", ".feather")):
        return True
    return head.startswith(_ARROW_STREAM) and _starts_stream(head) and not name.endswith((".csr", ".bin"))


def _starts_stream(head: bytes) -> bool:
    """Whether a first message can follow: its length, a multiple of 8, and an offset into it."""
    if len(head) < 12:
        return False
    length, root = struct.unpack("<iI", head[4:12])
    return bool(0 < length < _MAX_MESSAGE and length % 8 == 0 and root < length)


def is_parquet(path: Path) -> bool:
    """Whether a file is parquet, by its first bytes."""
    with reading(path), path.open("rb") as file:
        return file.read(len(_PARQUET)) == _PARQUET


@contextlib.contextmanager
def reading_arrow(path: Path) -> Iterator[None]:
    """Turn exceptions of pyarrow into InputError, with the name of the file."""
    with reading(path):
        try:
            yield
        except TooLarge as error:
            raise error.at(f"'{path}'") from None
        except pyarrow().ArrowException as error:
            if isinstance(error, (OSError, MemoryError)):
                raise
            raise ValueError(str(error)) from error  # some of them are no other exception


def arrow_reader(arrow: Any, file: Any) -> Any:
    """Open an Arrow file: datasets writes streams, others files."""
    head = file.read(6)
    file.seek(0)
    return arrow.ipc.open_file(file) if head == b"ARROW1" else arrow.ipc.open_stream(file)


def arrow_batches(path: Path, names: list[str]) -> Iterator[Any]:
    """Yield the record batches of an Arrow file or stream."""
    arrow = pyarrow()
    with arrow.memory_map(str(path)) as file:
        check_messages(arrow, file)
    with arrow.memory_map(str(path)) as file, arrow_reader(arrow, file) as reader:
        if hasattr(reader, "num_record_batches"):
            batches = (reader.get_batch(number) for number in range(reader.num_record_batches))
        else:
            batches = iter(reader)
        for batch in batches:
            yield batch.select(names)


def few_rows(batch: Any) -> Iterator[Any]:
    """Yield a batch, few rows at a time."""
    for first in range(0, batch.num_rows, BATCH_ROWS):
        yield batch.slice(first, BATCH_ROWS)


def parquet_batches(path: Path, names: list[str]) -> Iterator[Any]:
    """Yield the rows of a parquet file, fewer at a time where they are long."""
    content = _mapped(path)
    with pyarrow().parquet.ParquetFile(path, pre_buffer=False, buffer_size=BUFFER_BYTES) as file:
        for number, group in zip(range(file.num_row_groups), row_groups(content), strict=True):
            rows = _rows_at_once(content, file.metadata, group, names)
            yield from file.iter_batches(rows, row_groups=[number], columns=names, use_threads=False)


def _rows_at_once(content: memoryview, metadata: Any, group: list[Chunk], names: list[str]) -> int:
    """Return how many rows of a row group can be read together."""
    rows = BATCH_ROWS
    prefixes = tuple(f"{name}." for name in names)
    for leaf, chunk in zip(range(metadata.num_columns), group, strict=True):
        column = metadata.schema.column(leaf)
        if f"{column.path}.".startswith(prefixes):
            # What the footer says twice is taken from where pyarrow has it.
            chunk = chunk._replace(physical_type=BYTE_ARRAY if column.physical_type == "BYTE_ARRAY" else 0)
            rows = min(rows, rows_at_once(content, chunk, column, BATCH_ROWS))
    return rows


def _mapped(path: Path) -> memoryview:
    """Map a file, which is not empty."""
    with path.open("rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
