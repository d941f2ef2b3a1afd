"""Plans: what they promise, how they react to what is asked for, and how they read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import refused
from planning_samples import sample_figures
from segmax.errors import ConfigError, InputError
from segmax.planning import Figures, Machine, Plan, plan
from segmax.planning.asking import asked
from segmax.planning.costs import Costs

FIGURES = sample_figures()


def planned(**changes: Any) -> Plan:
    """A plan for a hundred million documents, with some arguments changed."""
    arguments = {"docs": 1e8, "terms": 120.0, "qps": 300.0, "p99_ms": 60.0, "max_shard_docs": 1e7, **changes}
    arguments.setdefault("figures", FIGURES)
    return plan(arguments.pop("docs"), arguments.pop("terms"), **arguments)


@pytest.fixture(scope="module")
def usual() -> Plan:
    """The plan of which nothing was changed."""
    return planned()


def test_a_plan_keeps_what_was_asked_for() -> None:
    """The latency, also with a machine down; a replica more than may fail; room in memory and on disk."""
    found = planned()
    assert found.p99_ms <= found.p99_down_ms * 1.05
    assert found.p99_down_ms <= 60
    assert found.replicas >= 2
    assert found.busy <= 0.7
    assert found.memory_gb <= 0.7 * 128 * found.machines
    assert found.shards * found.shard_bytes == pytest.approx(1e8 * Costs(FIGURES).bytes_per_doc(120).value, rel=0.05)


@pytest.mark.parametrize(
    "more",
    [{"docs": 4e8}, {"terms": 400.0}, {"qps": 6000.0}, {"failures": 2}, {"headroom": 0.7}, {"extra_bytes": 3000.0}],
    ids=str,
)
def test_more_takes_more_machines(usual: Plan, more: dict[str, float]) -> None:
    """More documents, terms, queries, failures, headroom or bytes."""
    assert planned(**more).machines > usual.machines


@pytest.mark.deep
def test_asking_fewer_shards_takes_less() -> None:
    """Less time, at a recall that was measured; by rows every shard is asked."""
    exact, nine_tenths, two = planned(), planned(recall=0.9), planned(max_shards=2)
    assert nine_tenths.shards_asked < exact.shards_asked <= exact.shards
    assert nine_tenths.mean_ms < exact.mean_ms
    assert 0.9 <= nine_tenths.recall < 1 == exact.recall
    assert two.shards_asked == 2.0
    assert planned(sharding="rows").shards_asked == planned(sharding="rows").shards


def test_batches_take_fewer_machines() -> None:
    """Calls are what costs most; a batch needs as many as one query."""
    many = {"qps": 20_000.0, "p99_ms": 1000.0}
    assert planned(**many, batch=100).machines < planned(**many).machines


def test_prices_are_options() -> None:
    """Money is machines, hours and gigabytes times their prices."""
    machine = Machine(price_per_hour=2.0, price_per_gb_month=0.5)
    found = planned(machine=machine)
    assert found.machines_cost == pytest.approx(found.machines * 2.0 * 730)
    assert found.disk_cost == pytest.approx(found.disk_gb * 0.5)
    assert found.monthly_cost == found.machines_cost + found.disk_cost
    assert found.build_cost == pytest.approx(found.build_hours * found.machines * 2.0)


def test_encoding_is_apart() -> None:
    """Its hours follow from the rate of your encoders, and are left out without one."""
    assert planned().encode_hours is None
    assert planned(encode_rate=1000.0).encode_hours == pytest.approx(1e8 / 1000 / 3600)


def test_the_spread_of_figures_is_a_spread_of_machines() -> None:
    """Worse figures never take fewer machines."""
    found = planned(qps=5000.0)
    assert found.machines_high is not None
    assert found.machines_low <= found.machines <= found.machines_high
    assert all(each.estimate.low <= each.estimate.value <= each.estimate.high for each in found.basis)


def test_what_cannot_be_kept_is_refused_with_what_can() -> None:
    """The error says which latency is possible, and what would help."""
    with refused(ConfigError, option="p99_ms", expected=r"at least .*, which .* machines", hint="max_shards"):
        planned(p99_ms=1.0)


@pytest.mark.deep
@pytest.mark.parametrize("sharding", [None, "clusters"])
def test_the_latency_that_an_error_names_can_be_kept(sharding: Any) -> None:
    """Queues included: a plan for it is found, and none for much less."""
    how = {"sharding": sharding, "qps": 3000.0, "docs": 3e7}
    with pytest.raises(ConfigError) as caught:
        planned(p99_ms=1.0, **how)
    least = float(caught.value.expected.split()[2].rstrip(","))
    assert planned(p99_ms=least, **how).p99_down_ms <= least
    with pytest.raises(ConfigError):
        planned(p99_ms=0.85 * least, **how)


def test_more_results_than_were_measured_are_noted() -> None:
    """The model has nothing to say about them."""
    assert not any("results" in note for note in planned(k=1000, p99_ms=500.0).notes)
    assert any("more than 1,000 results were not measured" in note for note in planned(k=5000, p99_ms=500.0).notes)


def test_machines_that_are_too_small_are_refused() -> None:
    """Where no number of them serves the load."""
    with refused(ConfigError, message="no cluster of such machines", hint="larger machines"):
        planned(docs=1e9, max_shard_docs=1e9, machine=Machine(memory_gb=0.01))


@pytest.mark.parametrize(
    "wrong",
    [
        {"docs": 0.0}, {"terms": -1.0}, {"qps": float("nan")}, {"p99_ms": "30"}, {"k": 0}, {"sharding": "hash"},
        {"mu": 0.0}, {"mu": 0.9, "sharding": "rows"}, {"recall": 2.0}, {"recall": 0.9, "max_shards": 2},
        {"headroom": 1.0}, {"failures": -1}, {"batch": 0}, {"network_ms": -1.0},
    ],
    ids=str,
)  # fmt: skip
def test_invalid_arguments_are_refused(wrong: dict[str, Any]) -> None:
    """With the name of the argument."""
    with refused(ConfigError, option=next(iter(wrong))):
        planned(**wrong)


@pytest.mark.parametrize("wrong", [{"cores": 0}, {"memory_gb": 0.0}, {"price_per_hour": -1.0}])
def test_invalid_machines_are_refused(wrong: dict[str, Any]) -> None:
    """With the name of the field."""
    with refused(ConfigError, option=next(iter(wrong))):
        Machine(**wrong)


def test_a_plan_reads_well() -> None:
    """A page of at most 80 columns, with what it rests on and what is extrapolated."""
    page = str(planned(encode_rate=500.0, recall=0.9))
    assert max(map(len, page.splitlines())) <= 80
    for word in ("machines", "memory", "disk", "building", "money", "This rests on", "extrapolated", "encoding"):
        assert word in page


def test_a_plan_is_plain_values_for_programs() -> None:
    """JSON holds everything."""
    values = json.loads(json.dumps(planned().to_dict()))
    assert values["machines"] == planned().machines
    assert values["request"]["machine"]["cores"] == 16
    assert values["scenario"]["shards"] == values["shards"]
    assert values["basis"]["bytes per document"]["unit"] == "bytes"


def test_figures_of_another_machine(tmp_path: Path) -> None:
    """Figures come from a file; what is not one of figures is refused."""
    own = FIGURES
    path = tmp_path / "figures.json"
    calls = json.loads(json.dumps(own.calls))
    for rows in calls["answer"].values():
        for row in rows.values():
            row["actor_ms"] *= 20
    path.write_text(json.dumps({**vars(own), "calls": calls}))
    assert planned(figures=Figures.from_file(path), qps=2000.0, p99_ms=500.0).machines > planned(qps=2000.0).machines
    path.write_text("[]")
    with refused(InputError, where="figures.json", got="about"):
        Figures.from_file(path)
    path.write_text("{")
    with refused(InputError, where="figures.json", expected="JSON"):
        Figures.from_file(path)
    path.write_bytes(b"\x80\x00binary")
    with refused(InputError, where="figures.json"):
        Figures.from_file(path)
    for part, value in (("growth", []), ("calls", {}), ("asked", {}), ("about", None)):
        path.write_text(json.dumps({**vars(sample_figures()), part: value}))
        with refused(InputError, where="figures.json", expected=part):
            Figures.from_file(path)
    with refused(InputError, where="nothing", message="could not be read"):
        Figures.from_file(tmp_path / "nothing")


def test_search_times_grow_as_measured() -> None:
    """At every measured size the model is within a tenth of the measurement, for every k."""
    figures = Figures.measured()
    costs = Costs(figures)
    for record in figures.growth:
        terms = record["postings"] / record["docs"]
        assert costs.index_bytes(record["docs"], terms) == pytest.approx(record["bytes"], rel=0.06)
        if record["set"] == "large":
            for k, searched in record["search"].items():
                assert costs.search_ms(record["docs"], terms, int(k)) == pytest.approx(searched["mean_ms"], rel=0.2)


def test_between_measured_values_of_k() -> None:
    """Search times and shards asked lie between those of the neighbors."""
    costs = Costs(FIGURES)
    assert costs.search_ms(1e6, 120, 10) < costs.search_ms(1e6, 120, 50) < costs.search_ms(1e6, 120, 100)
    ten, hundred, thousand = (asked(costs.figures, shards=16, k=k).share for k in (10, 100, 1000))
    assert ten < hundred < thousand


def test_known_thresholds_make_searches_cheaper() -> None:
    """The more shards there are, the less the second round takes of each."""
    costs = Costs(Figures.measured())
    factors = [costs.floor_factor(10, shards) for shards in (1, 4, 16, 64)]
    assert sorted(factors, reverse=True) == factors
    assert 0.1 < factors[-1] < factors[0] <= 1
