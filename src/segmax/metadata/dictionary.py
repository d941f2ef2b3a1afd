"""Dictionaries of strings: distinct values in the order of their code points, which is also that of their UTF-8."""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from segmax.metadata.layout import Strings


def packed_strings(numbers: dict[str, int], codes: array[int]) -> Strings:
    """Return a dictionary that was filled in any order, sorted, and the codes renumbered."""
    ordered = sorted(numbers)
    rank = np.empty(len(ordered), dtype=np.uint32)
    rank[[numbers[text] for text in ordered]] = np.arange(len(ordered), dtype=np.uint32)
    encoded = [text.encode("utf-8") for text in ordered]
    lengths = np.fromiter(map(len, encoded), dtype=np.uint32, count=len(encoded))
    return Strings(b"".join(encoded), ends(lengths), rank[np.frombuffer(codes, dtype=np.uint32)])


def merged_strings(runs: Sequence[Strings]) -> Strings:
    """Return one dictionary for several of them, and their codes one after the other."""
    if len(runs) == 1:
        return runs[0]
    text, lengths = bytearray(), array("I")
    numbers = [np.empty(len(run.offsets) - 1, dtype=np.uint32) for run in runs]
    last: bytes | None = None
    for entry, run, place in heapq.merge(*(_entries(number, run) for number, run in enumerate(runs))):
        if entry != last:
            text += entry
            lengths.append(len(entry))
            last = entry
        numbers[run][place] = len(lengths) - 1
    codes = np.concatenate([table[run.codes] for table, run in zip(numbers, runs, strict=True)])
    return Strings(bytes(text), ends(np.frombuffer(lengths, dtype=np.uint32)), codes)


def _entries(number: int, run: Strings) -> Iterator[tuple[bytes, int, int]]:
    places = run.offsets.tolist()
    for place in range(len(places) - 1):
        yield run.text[places[place] : places[place + 1]], number, place


def ends(lengths: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """Return where each of some strings starts, and where the last one ends."""
    found = np.zeros(len(lengths) + 1, dtype=np.uint64)
    np.cumsum(lengths, out=found[1:])
    return found
