"""The paper's methods: their names, their options, and the switches that only experiments turn."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse as sp

import segmax
from conftest import random_docs, refused
from reference import as_query, best
from segmax import _core, paper
from segmax.errors import ConfigError
from segmax.paper import METHODS, Anytime, MaxScore, method_name, parse_method
from segmax.search.methods import SearchParams

# --- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "params",
    [
        segmax.ASC(),
        segmax.ASC(eta=0.9, bound_mass=0.8, max_blocks=7),
        paper.ASC(mu=0.5, eta=0.9, documents="maxscore"),
        Anytime(mu=0.7, budget_ms=2.5),
        segmax.Exhaustive(),
        MaxScore(estimate_threshold=False),
    ],
)
def test_methods_have_names_that_can_be_read(params: SearchParams) -> None:
    """The name of parameters names these parameters and their class."""
    read = parse_method(method_name(params))
    assert read == params
    assert type(read) is type(params)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("wand", {"expected": "a method, asc, sequential, anytime, maxscore, exhaustive", "got": "'wand'"}),
        (
            "exhaustive:mu=1",
            {"where": "'exhaustive:mu=1'", "expected": r"options of exhaustive as NAME=VALUE \(it has none\)"},
        ),
        ("asc:nu=1", {"where": "'asc:nu=1'", "expected": "options of asc as NAME=VALUE", "got": "'nu=1'"}),
        ("asc:mu", {"expected": "options of asc as NAME=VALUE", "got": "'mu'"}),
        ("asc:mu=0.5,mu=0.6", {"expected": "every option once", "got": "mu again"}),
        ("asc:mu=2", {"option": "mu", "expected": "greater than 0 and at most 1", "got": "2"}),
        ("sequential:eta=0.9", {"expected": "mu <= eta", "got": "mu=1.0 and eta=0.9"}),
        ("sequential:max_blocks=3", {"expected": "options of sequential", "got": "'max_blocks=3'"}),
        ("asc:risk=3", {"expected": "options of asc", "got": "'risk=3'"}),
        ("maxscore:budget_ms=3", {"expected": "options of maxscore", "got": "'budget_ms=3'"}),
    ],
)
def test_invalid_names_are_refused(text: str, parts: dict[str, str]) -> None:
    """The error says what would be right."""
    with refused(ConfigError, **parts):
        parse_method(text)


# --- options ---------------------------------------------------------------------------------------------------------

#: Per option a value that is not its default.
OTHER_VALUES: dict[str, object] = {
    "budget_ms": 2.5,
    "risk": 2.0,
    "max_clusters": 3,
    "max_terms": 4,
    "query_mass": 0.75,
    "dropped": "bounded",
    "mu": 0.5,
    "eta": 0.75,
    "cluster_order": "bound_sum",
    "documents": "maxscore",
    "estimate_threshold": False,
    "max_blocks": 5,
    "bound_mass": 0.5,
}


@pytest.mark.parametrize("kind", METHODS.values())
@pytest.mark.parametrize(("name", "value"), OTHER_VALUES.items())
def test_methods_take_the_options_that_they_say(kind: type[SearchParams], name: str, value: object) -> None:
    """An option that a method lists reaches the core, by keyword and by name; any other option is refused."""
    text = f"{kind.method}:{name}={str(value).lower()}"
    if name not in kind.options():
        with pytest.raises(TypeError):
            kind(**{name: value})
        with refused(ConfigError, expected=f"options of {kind.method}"):
            parse_method(text)
        return
    smaller_mu = {"mu": 0.5} if name == "eta" and "mu" in kind.options() else {}  # mu may not be larger than eta
    given = kind(**{name: value, **smaller_mu})
    assert parse_method(text + "".join(f",{key}={number}" for key, number in smaller_mu.items())) == given
    hooks = {hook: f"hooks.{hook}" for hook in vars(_core.SearchHooks)}
    of_core = operator.attrgetter({"dropped": "bound_dropped", **hooks}.get(name, name))
    assert of_core(given.to_core()) != of_core(kind(**smaller_mu).to_core())


def test_the_options_of_methods_are_all_tried() -> None:
    """A new option needs a value in OTHER_VALUES."""
    assert {name for kind in METHODS.values() for name in kind.options()} == OTHER_VALUES.keys()


@pytest.mark.parametrize(
    ("make", "parts"),
    [
        (
            lambda: paper.ASC(cluster_order="random"),
            {"option": "cluster_order", "expected": "'max_bound' or 'bound_sum'", "got": "'random'"},
        ),
        (
            lambda: paper.ASC(documents="wand"),
            {"option": "documents", "expected": "'blocks' or 'maxscore'", "got": "'wand'"},
        ),
        (
            lambda: Anytime(documents="wand"),
            {"option": "documents", "expected": "'blocks' or 'maxscore'", "got": "'wand'"},
        ),
        (lambda: Anytime(mu=1.5), {"option": "mu", "expected": "greater than 0 and at most 1", "got": "1.5"}),
        (lambda: Anytime(mu=float("nan")), {"option": "mu", "expected": "greater than 0 and at most 1", "got": "nan"}),
        (lambda: Anytime(max_clusters=0), {"option": "max_clusters", "expected": "at least 1", "got": "0"}),
        (lambda: Anytime(dropped="lost"), {"option": "dropped", "expected": "'ignored' or 'bounded'", "got": "'lost'"}),
    ],
)
def test_invalid_options_are_refused(make: Callable[[], object], parts: dict[str, str]) -> None:
    """The paper's options are checked as ours are."""
    with refused(ConfigError, **parts):
        make()


# --- switches --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [paper.ASC, Anytime])
@pytest.mark.parametrize("documents", ["blocks", "maxscore"])
def test_switches_change_no_result_of_an_exact_search(
    rng: np.random.Generator, kind: type[paper.ASC | Anytime], documents: str
) -> None:
    """With or without a threshold estimate, whichever way documents are found."""
    docs = random_docs(rng, 800, 60, 8.0)
    index = segmax.build(docs, clustering=rng.integers(0, 20, 800))
    for _ in range(10):
        query = as_query(rng, 60, 6)
        rows, _ = best(docs, query, 10)
        for estimate in (True, False):
            params = kind(documents=documents, estimate_threshold=estimate)
            assert index.search(query, k=10, params=params).rows.tolist() == rows


@pytest.mark.parametrize("params", [Anytime(mu=0.5), paper.ASC(mu=0.5, eta=0.5)])
def test_factors_judge_bounds_and_never_a_score(params: paper.ASC | Anytime) -> None:
    """A document that MaxScore has scored in full enters if it is above θ, even where it is below θ/μ."""
    docs = sp.csr_matrix(np.array([[20], [5], [6]]))
    index = segmax.build(docs, config=segmax.BuildConfig(num_clusters=1, document_order="row"))
    params = dataclasses.replace(params, documents="maxscore", estimate_threshold=False)
    # After two documents θ is 5. The list may still hold a 20, above θ/μ = 10, so the third document is scored: 6.
    assert index.search({0: 1}, k=2, params=params).scores.tolist() == [20, 6]
