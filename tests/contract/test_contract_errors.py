"""What is refused: values out of range, filters, ids, options and weights that mean nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from segmax import ASC
from segmax.errors import ConfigError, InputError, SegmaxError, UnknownIdError

from .corpora import Query
from .kinds import CommandError, Opened, Problem, over, ranking

QUERY: Query = {0: 2.0, 1: 1.0, 5: 3.0}


@over("docs", "search")
def test_k_is_a_whole_number_from_1(opened: Opened) -> None:
    """Nothing else, neither of a search nor of a batch."""
    for k in (0, -1, 1.5, "many", True):
        with opened.refuses(ConfigError, option="^k$", expected="integer|at least 1|whole", got="."):
            opened.source.search(QUERY, k=k)
        with opened.refuses(ConfigError, option="^k$", expected="integer|at least 1|whole", got="."):
            opened.source.search_batch([QUERY], k=k)


@over("docs", "search")
def test_pages_and_least_scores_are_numbers(opened: Opened) -> None:
    """An offset is a whole number from 0, a least score any number but NaN."""
    for option, value in (("offset", -1), ("offset", 1.5), ("min_score", math.nan), ("min_score", "much")):
        with opened.refuses(ConfigError, option=f"^{option}$"):
            opened.source.search(QUERY, **{option: value})
        with opened.refuses(ConfigError, option=f"^{option}$"):
            opened.source.search_batch([QUERY], **{option: value})


@over("docs", "search")
def test_a_filter_with_an_unknown_operator_is_refused(opened: Opened) -> None:
    """The error says where it is and what was probably meant."""
    where = {"year": {"$gtt": 1955}}
    with opened.refuses(InputError, where="where.*year", got="gtt", hint="gte?"):
        opened.source.search(QUERY, where=where)
    with opened.refuses(InputError, where="where.*year", got="gtt", hint="gte?"):
        opened.source.search_batch([QUERY], where=where)


@over("docs", "everything")
def test_filters_are_checked_wherever_they_are_taken(opened: Opened) -> None:
    """In counts, facets and explanations as in searches."""
    where = {"$both": [{"lang": "en"}]}
    for ask in (
        lambda: opened.source.count(where),
        lambda: opened.source.facets("lang", where),
        lambda: opened.source.explain(QUERY, "d1", where=where),
    ):
        with opened.refuses(InputError, where="where", got="both"):
            ask()


@over("docs", "everything")
def test_an_unknown_id_is_an_error(opened: Opened) -> None:
    """Wherever a document is asked for by its id or its row."""
    for ask in (
        lambda: opened.source.row_of("nobody"),
        lambda: opened.source.text("nobody"),
        lambda: opened.source.metadata("nobody"),
        lambda: opened.source.vector("nobody"),
        lambda: opened.source.vectors(["d1", "nobody"]),
        lambda: opened.source.score(QUERY, ["d1", "nobody"]),
        lambda: opened.source.explain(QUERY, "nobody"),
    ):
        with opened.refuses(UnknownIdError, message="nobody"):
            ask()
    for row in (10_000, *([-1, 2**70] if "python" in opened.can else [])):
        with opened.refuses(UnknownIdError, message=str(row)):
            opened.source.id_of(row)


@over("docs", "search")
def test_an_unknown_option_is_an_error(opened: Opened) -> None:
    """Rather than a search that ignores it."""
    with pytest.raises((TypeError, Problem, CommandError), match=r"tops|unrecognized"):
        opened.source.search(QUERY, tops=3)


@over("docs", "everything")
def test_weights_of_queries_are_finite_and_not_negative(opened: Opened) -> None:
    """NaN, infinity, negative numbers and texts are none."""
    weights: tuple[Any, ...] = (math.nan, math.inf, -1.0, "heavy")
    for query in (*({0: 1.0, 1: weight} for weight in weights), ([0, 1], [1.0, math.nan])):
        with opened.refuses(InputError, expected="weight", got="."):
            opened.source.search(query)
        with opened.refuses(InputError, expected="weight", got="."):
            opened.source.search_batch([QUERY, query])


@over("numbers", "everything")
def test_words_need_a_vocabulary(opened: Opened) -> None:
    """An index whose terms are numbers refuses a word, and a text without an encoder, which the error names."""
    with opened.refuses(InputError, expected="term numbers|vocabulary", got="copper"):
        opened.source.search({"copper": 1.0})
    for ask in (lambda: opened.source.search("copper"), lambda: opened.source.search_batch(["copper", "noise"])):
        with opened.refuses(InputError, expected="no encoder|an encoder", hint="encoder"):
            ask()


@over("docs", "python")
def test_things_of_other_types_are_refused(opened: Opened) -> None:
    """As a query, a batch, a method, a filter, a field or several ids."""
    asks: list[tuple[type[Any], Callable[[], Any]]] = [
        (InputError, lambda: opened.source.search(3)),
        (InputError, lambda: opened.source.search(["copper", "noise"])),
        (InputError, lambda: opened.source.search_batch(["copper", {0: 1.0}])),
        (InputError, lambda: opened.source.search({-3: 1.0})),
        (ConfigError, lambda: opened.source.search(QUERY, params="asc")),
        (ConfigError, lambda: opened.source.search_batch([QUERY], params=["asc"])),
        (ConfigError, lambda: opened.source.search(QUERY, group_by=3)),
        (ConfigError, lambda: opened.source.search(QUERY, target_recall=2)),
        (ConfigError, lambda: opened.source.search(QUERY, params=ASC(), target_recall=0.9)),
        (InputError, lambda: opened.source.search(QUERY, where="lang")),
        (SegmaxError, lambda: opened.source.score(QUERY, "d1")),
    ]
    for error, ask in asks:
        with opened.refuses(error):
            ask()


@over("docs", "python")
def test_lists_of_options_have_one_for_each_query(opened: Opened) -> None:
    """Neither fewer nor more."""
    for options in ({"k": [3]}, {"k": np.array([3, 3, 3])}, {"where": [None]}, {"params": [None, None, None]}):
        with opened.refuses(ConfigError, option=f"^{next(iter(options))}$", expected="one for each of 2 queries"):
            opened.source.search_batch([QUERY, QUERY], **options)
    with opened.refuses(ConfigError, option="^k$", expected="at least 1", got="0"):
        opened.source.search_batch([QUERY, QUERY], k=[1, 0])


@over("docs", "everything")
def test_a_target_goes_with_one_k(opened: Opened) -> None:
    """Not with one for each query, nor with a method; shards, where it chooses how many are asked, take several k."""
    options: dict[str, Any] = {"k": [2, 60], "target_recall": 0.9}
    if opened.is_refused("several k with a target"):
        with opened.as_designed("several k with a target"):
            opened.source.search_batch([QUERY, QUERY], **options)
    else:
        found = [ranking(one) for one in opened.source.search_batch([QUERY, QUERY], **options)]
        everything = opened.corpus.best(QUERY, 60)
        assert len(found[0]) == 2
        assert found == [[one for one in everything if one in own] for own in found]
    for params in (ASC(), [ASC(), ASC()]):
        with opened.refuses(ConfigError, expected="params.* or target_recall", got="both|several"):
            opened.source.search_batch([QUERY, QUERY], params=params, target_recall=0.9)


@over("docs", "everything")
def test_groups_need_a_field(opened: Opened) -> None:
    """A size goes with a field, and is a whole number from 1."""
    with opened.refuses(ConfigError, option="^group_size$", expected="group_by"):
        opened.source.search(QUERY, group_size=2)
    with opened.refuses(ConfigError, option="^group_size$"):
        opened.source.search(QUERY, group_by="lang", group_size=0)
    assert ranking(opened.source.search(QUERY, group_size=1, k=3)) == opened.corpus.best(QUERY, 3)
