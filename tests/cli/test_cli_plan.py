"""`segmax plan` prints what `segmax.planning.plan` finds, for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planning_samples import sample_figures
from segmax.cli.main import main
from segmax.planning import Machine, plan

LOAD = ["--docs", "1e8", "--terms", "120", "--qps", "300", "--p99-ms", "60"]


@pytest.fixture(autouse=True)
def figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory with made-up figures."""
    monkeypatch.chdir(tmp_path)
    Path("figures.json").write_text(json.dumps(vars(sample_figures())))


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What the command prints for made-up figures."""
    assert main(["plan", *LOAD, "--figures", "figures.json", *arguments]) == 0
    return capsys.readouterr().out


def test_a_plan_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    """The page of the plan, at most 80 columns wide."""
    page = printed(capsys)
    assert page == f"{plan(1e8, 120, qps=300, p99_ms=60, figures=sample_figures())}\n"
    assert max(map(len, page.splitlines())) <= 80


def test_every_option_reaches_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON holds what Python gives for the same arguments."""
    flags = (
        "-k 100 --batch 2 --extra-bytes 100 --encode-rate 500 --sharding clusters --mu 0.9 --cores 8 --memory-gb 64 "
        "--disk-gb 500 --price-per-hour 0.5 --price-per-gb-month 0.2 --network-ms 0.4 --headroom 0.2 "
        "--max-shard-docs 2e7 --failures 0 --json"
    )
    expected = plan(
        1e8,
        120,
        qps=300,
        p99_ms=60,
        k=100,
        batch=2,
        extra_bytes=100,
        encode_rate=500,
        sharding="clusters",
        mu=0.9,
        machine=Machine(cores=8, memory_gb=64, disk_gb=500, price_per_hour=0.5, price_per_gb_month=0.2),
        network_ms=0.4,
        headroom=0.2,
        max_shard_docs=2e7,
        failures=0,
        figures=sample_figures(),
    )
    assert json.loads(printed(capsys, *flags.split())) == json.loads(json.dumps(expected.to_dict()))


@pytest.mark.parametrize(("flag", "value"), [("--max-shards", "1"), ("--recall", "0.8")])
def test_fewer_shards(capsys: pytest.CaptureFixture[str], flag: str, value: str) -> None:
    """Both ways to ask only some of them."""
    values = json.loads(printed(capsys, flag, value, "--json"))
    assert values["shards_asked"] < values["shards"]


def test_a_simulated_plan(capsys: pytest.CaptureFixture[str]) -> None:
    """The simulation is printed below, and is part of the JSON."""
    pytest.importorskip("simpy")
    assert "Simulated, 50 queries: " in printed(capsys, "--simulate", "50")
    values = json.loads(printed(capsys, "--simulate", "50", "--json"))
    assert values["simulated"]["queries"] == 50


def test_the_figures_that_come_with_segmax(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a file of figures, plans rest on what was measured for segmax, and say with what."""
    assert main(["plan", "--docs", "1e9", "--terms", "120", "--qps", "2000", "--p99-ms", "100"]) == 0
    page = capsys.readouterr().out
    assert max(map(len, page.splitlines())) <= 80
    assert "Wikipedia passages" in page


def test_what_cannot_be_kept_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """With flags as a shell has them."""
    assert main(["plan", *LOAD[:-1], "0.5", "--figures", "figures.json"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("segmax: error: expected --p99-ms to be at least ")
    assert "--max-shards" in error
