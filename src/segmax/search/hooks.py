"""Switches of the core that change how a search works but not what an exact one returns; users never need them.

Experiments switch off what the paper's algorithms do not have, and tests compare each fast path with its slow twin.
"""

from __future__ import annotations

import dataclasses
from typing import TypedDict, TypeVar, Unpack

from segmax import _core
from segmax.search.methods import SearchParams

_Params = TypeVar("_Params", bound=SearchParams)


class Hooks(TypedDict, total=False):
    """The switches; those that are bool are on unless set to False."""

    estimate_threshold: bool  #: start from a lower bound of the final threshold: the k-th largest weight of each term
    sweep: bool  #: score all documents where that is faster than pruning
    list_masked: bool  #: score all documents that a filter matches where that is faster than pruning
    lazy: bool  #: read segment maxima only of clusters that reach the top of the queue; the decisions are the same
    all_tiles: int  #: collections of up to so many tiles (1,024 documents each) are bounded whole


def set_hooks(core: _core.SearchParams, **hooks: Unpack[Hooks]) -> None:
    """Set switches of parameters that are in the core's form."""
    for name, value in hooks.items():
        setattr(core.hooks, name, value)


def with_hooks(params: _Params, **hooks: Unpack[Hooks]) -> _Params:
    """Return equal parameters whose searches have these switches set. Copies and pickles of them do not keep that.

    Examples
    --------
    >>> from segmax import ASC
    >>> with_hooks(ASC(), sweep=False) == ASC()
    True
    """
    copy = dataclasses.replace(params)
    set_hooks(copy.to_core(), **hooks)
    return copy
