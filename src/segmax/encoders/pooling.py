"""Dense vectors of whole texts from those of their tokens, for clustering; and the file they are kept in."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from segmax.base.checks import checked_choice
from segmax.base.errors import InputError
from segmax.base.files import replacing, write_errors
from segmax.vectors.documents import POOLINGS


def checked_poolings(pooling: str | Iterable[str]) -> tuple[str, ...]:
    """Return names of poolings without repetition, or raise ConfigError."""
    names = (pooling,) if isinstance(pooling, str) else tuple(pooling)
    return tuple(dict.fromkeys(checked_choice("pooling", name, POOLINGS) for name in names))


def pooled(hidden: Any, mask: Any, names: Sequence[str]) -> dict[str, NDArray[np.float32]]:
    """Pool the last hidden states of tokens.

    Parameters
    ----------
    hidden
        A torch tensor of texts × tokens × dimensions; None will do where no names are given.
    mask
        Texts × tokens, 0 where there is padding; special tokens count as tokens.
    names
        Some of `POOLINGS`.
    """
    if not names:
        return {}
    hidden = hidden.float()
    there = mask.bool().unsqueeze(-1)
    ways = {
        "cls": lambda: hidden[:, 0],
        "mean": lambda: (hidden * there).sum(1) / there.sum(1).clamp(min=1),
        "max": lambda: hidden.masked_fill(~there, float("-inf")).amax(1),
    }
    return {name: ways[name]().cpu().numpy() for name in names}


def write_dense(
    path: str | os.PathLike[str], parts: Iterable[NDArray[np.float32]], num_docs: int
) -> NDArray[np.float32]:
    """Write rows to an .npy file, under another name until it is whole.

    Parameters
    ----------
    path
        Of the file.
    parts
        Rows of float32, in order.
    num_docs
        How many rows there will be.

    Returns
    -------
    NDArray
        The file, mapped for reading.

    Raises
    ------
    WriteError
        There is no room, or no permission; a file that was there before is untouched.
    """
    target = Path(path)
    with write_errors(target), replacing(target) as file:
        rows = _write_rows(file, parts, num_docs)
        if rows != num_docs or rows == 0:
            raise InputError(where=f"'{target}'", expected=f"{num_docs} dense vectors", got=rows)
    return np.lib.format.open_memmap(target, mode="r")


def _write_rows(file: BinaryIO, parts: Iterable[NDArray[np.float32]], num_docs: int) -> int:
    """Write an array in the format of .npy; return how many rows came, of which too many are not written.

    Not through a memory map: where the disk is full, writing to one kills the process.
    """
    rows = 0
    for part in parts:
        if rows == 0:
            header = {"descr": "<f4", "fortran_order": False, "shape": (num_docs, part.shape[1])}
            np.lib.format.write_array_header_1_0(file, header)
        rows += len(part)
        if rows <= num_docs:
            file.write(np.ascontiguousarray(part, dtype="<f4").data)
    return rows
