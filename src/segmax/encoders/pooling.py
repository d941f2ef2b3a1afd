"""Dense vectors of whole texts from those of their tokens, for clustering; and the file they are kept in."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segmax.checks import checked_choice
from segmax.errors import InputError

#: The first token, the mean of all tokens, the largest value of every dimension.
POOLINGS = ("cls", "mean", "max")


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
    """Write rows to an .npy file through a memory map, under another name until it is whole.

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
    """
    target = Path(path)
    temporary = target.with_name(f"{target.name}.new")
    array: Any = None
    row = 0
    try:
        for part in parts:
            if array is None:
                shape = (num_docs, part.shape[1])
                array = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.float32, shape=shape)
            if row + len(part) <= num_docs:
                array[row : row + len(part)] = part
            row += len(part)
        if array is None or row != num_docs:
            msg = f"expected {num_docs} dense vectors for '{target}', got {row}"
            raise InputError(msg)
        array.flush()
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return np.lib.format.open_memmap(target, mode="r")
