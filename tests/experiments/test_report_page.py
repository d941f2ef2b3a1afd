"""The page that gathers experiments."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest
from benchmarks.findings import verdict_table

from benchmarks import findings
from conftest import refused
from segmax.base.errors import InputError, MissingPackageError
from segmax.cli.report import parser, run
from segmax.drawing.plot import Plot, Series
from segmax.experiments import EXPERIMENTS, Experiment, Finding, Outcome, Sheet, Task, printed
from segmax.experiments.catalog import LISTED
from segmax.experiments.report import Entry, read_entries, report_page
from segmax.experiments.runner import run_experiment

pytest.importorskip("matplotlib")

_EVIL = "<script>alert('&')</script>"


def gathered(*arguments: object) -> None:
    """Run `segmax report`."""
    run(parser().parse_args([str(argument) for argument in arguments]))


def named(name: str) -> Experiment:
    """An experiment of that name, whose texts would break a careless page."""
    series = tuple(Series(label=f"{_EVIL}{number}", x=(1.0, 2.0), y=(1.0, 2.0)) for number in range(7))
    outcome = Outcome(
        sheets=(Sheet(title=_EVIL, columns=(_EVIL, "n"), rows=((_EVIL, 0.12349),), note=_EVIL),),
        plots=(Plot(title=_EVIL, x_label=_EVIL, y_label="y", series=series),) * 2,
        findings=tuple(
            Finding(claim=_EVIL, verdict=verdict, evidence=_EVIL, rule=_EVIL)
            for verdict in ("holds", "fails", "tie", "unknown")
        ),
    )
    return Experiment(
        name=name, place="Table 9", title=f"about {name}", description="", run=lambda _: outcome, needs_data=False
    )


class _Page(HTMLParser):
    """What a page consists of: ids, links, what it loads, and whether its tags are balanced."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loads: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids += [given["id"] or ""] if "id" in given else []
        for name in ("href", "xlink:href", "src"):
            value = given.get(name)
            if value is not None:
                (self.links if value.startswith("#") else self.loads).append(value.removeprefix("#"))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("meta", "br"):
            assert self.open.pop() == tag


@pytest.mark.deep
def test_the_page_is_whole_and_safe(tmp_path: Path) -> None:
    """Balanced tags, ids that are unique, links that lead somewhere, nothing to load, and texts escaped."""
    for name in ("one", "two"):
        run_experiment(named(name), Task(), tmp_path, f"segmax experiment {name} {_EVIL}")
    gathered(tmp_path)
    text = (tmp_path / "report.html").read_text()
    page = _Page(text)
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    assert {"one", "two"} <= set(page.ids)
    assert set(page.links) <= set(page.ids)
    assert page.loads == []
    assert "<script" not in text
    assert text.count("<figure") == 4
    for sign in "✓✗≈?":
        assert text.count(f"{sign}</span>&lt;script") == 2  # one per experiment, before its claim
        assert text.count(f"1&nbsp;{sign}</span>") == 2  # and in the overview
    assert text.count(">0.1235</td>") == 2


def test_the_overview_shows_what_was_measured_and_how(tmp_path: Path) -> None:
    """The overview names the collections of every experiment, and whether it was a quick look or a full run."""
    run_experiment(named("one"), Task(), tmp_path, "command")
    run_experiment(named("two"), Task(quick=True), tmp_path, "command")
    for name, collections in (("one", ["NFCorpus", _EVIL]), ("two", [])):
        written = json.loads((tmp_path / f"{name}.json").read_text())
        known = {"num_docs": 3633, "num_queries": 323, "judged": True, "fingerprint": "f"}
        written["about"]["collections"] = [{"name": each, **known} for each in collections]
        (tmp_path / f"{name}.json").write_text(json.dumps(written))
    gathered(tmp_path)
    text = (tmp_path / "report.html").read_text()
    overview = text[text.index("<nav") : text.index("</nav>")]
    first, second = (row for row in overview.split("<tr>") if 'href="#' in row)
    assert "<td>NFCorpus, 323 queries; &lt;script" in first
    assert "<td>full</td>" in first
    assert "<td>quick</td>" in second


def test_wide_tables_use_the_width_of_the_page(tmp_path: Path) -> None:
    """A table of many or wide columns leaves the column of text, a narrow one does not; points are aligned."""
    many = Sheet(title="m", columns=("paper Recall@1000",) * 12, rows=(("1.5",) * 12, ("116",) * 12, ("29.25",) * 12))
    long = Sheet(title="l", columns=("paper (MaxSBound−AvgSBound)/Actual",) * 4, rows=((0.5,) * 4,))
    narrow = Sheet(title="n", columns=tuple("abcdefghij"), rows=((1.0,) * 10,))
    outcome = Outcome(sheets=(many, long, narrow))
    experiment = Experiment(name="one", place="T", title="t", description="", run=lambda _: outcome, needs_data=False)
    run_experiment(experiment, Task(), tmp_path, "command")
    gathered(tmp_path)
    text = (tmp_path / "report.html").read_text()
    assert text.count('<div class="wide page">') == 2
    assert text.count('<div class="wide">') == 1
    assert ".wide.page { margin: 0 calc(50% - 50vw + 1.25rem); }" in text
    for shown in ("1.5\N{FIGURE SPACE}<", "116\N{PUNCTUATION SPACE}\N{FIGURE SPACE}\N{FIGURE SPACE}<", "29.25<"):
        assert f">{shown}/td>" in text


def test_one_title_of_the_paper() -> None:
    """The report, README, citation and the paper's own source name the same title."""
    root = Path(__file__).resolve().parents[2]
    for path in (root / "README.md", root / "CITATION.cff"):
        assert printed.TITLE in " ".join(path.read_text().split()), path
    source = root.parent / "shared" / "paper.tex"
    if source.is_file():
        assert rf"\title{{{printed.TITLE}}}" in " ".join(source.read_text().replace("\\\\", "").split())


@pytest.mark.deep
def test_the_page_is_in_the_order_of_the_paper(tmp_path: Path) -> None:
    """Known experiments come in the order of the paper, others follow; the command and the machine are shown."""
    for name in ("aaa", "space", "example", "properties"):
        chosen = named(name) if name != "example" else EXPERIMENTS["example"]
        run_experiment(chosen, Task(), tmp_path, f"segmax experiment {name}")
    (tmp_path / "collection.json").write_text('{"documents": "not an outcome"}')
    gathered(tmp_path, "--output", tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    places = [text.index(f'<section id="{name}"') for name in ("properties", "example", "space", "aaa")]
    assert places == sorted(places)
    assert "segmax experiment example" in text
    assert "Machine and versions" in text
    assert not (tmp_path / "report.html").exists()


def test_a_folder_without_outcomes_is_refused(tmp_path: Path) -> None:
    """No folder, an empty one, and one with a damaged outcome."""
    with refused(InputError, where="absent", expected="a folder", got="none", hint="{out}"):
        gathered(tmp_path / "absent")
    with refused(InputError, expected="the outcome of an experiment", got="none", hint="run one first"):
        gathered(tmp_path)
    for content in (
        "{",
        '{"format": "segmax-experiment"}',
        '{"format": "segmax-experiment", "about": {}, "sheets": 1}',
        '{"format": "segmax-experiment", "about": 1, "sheets": 1}',
    ):
        (tmp_path / "bounds.json").write_text(content)
        with refused(InputError, where="bounds.json", expected="the outcome of an experiment"):
            gathered(tmp_path)


@pytest.mark.parametrize("missing", ["name", "command", "machine", "versions"])
def test_an_incomplete_outcome_is_refused(missing: str, tmp_path: Path) -> None:
    """The message names the file and what it lacks."""
    run_experiment(named("one"), Task(), tmp_path, "command")
    written = json.loads((tmp_path / "one.json").read_text())
    del written["about"][missing]
    (tmp_path / "one.json").write_text(json.dumps(written))
    with refused(InputError, where="one.json", got=f"lacks about.{missing}", hint="run it again"):
        gathered(tmp_path)


def test_without_matplotlib_there_is_no_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names what to install, and nothing is written."""
    run_experiment(named("one"), Task(), tmp_path, "command")
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with refused(MissingPackageError, hint="pip install"):
        gathered(tmp_path)
    assert not (tmp_path / "report.html").exists()


# --- the outcomes behind docs/findings.md -----------------------------------------------------------------------------

ROOT = Path(__file__).resolve().parents[2]
FINDINGS = (ROOT / "docs" / "findings.md").read_text()


@pytest.fixture(scope="module")
def entries() -> list[Entry]:
    """The outcomes that the repository keeps; `make report` draws their page."""
    return read_entries(ROOT / "benchmarks" / "results" / "experiments", tuple(LISTED))


def test_every_experiment_is_kept(entries: list[Entry]) -> None:
    """One full run of each, in the order of the paper."""
    assert [entry.about["name"] for entry in entries] == list(LISTED)
    assert not any(entry.about["quick"] for entry in entries)


def test_findings_have_the_verdicts_of_the_outcomes(entries: list[Entry]) -> None:
    """The table of docs/findings.md is made from the outcomes."""
    assert verdict_table(entries) in FINDINGS


def test_every_finding_has_its_rule(entries: list[Entry]) -> None:
    """Each has a rule that decides: a p-value, a tolerance, or what would refute it."""
    rules = [finding.rule for entry in entries for finding in entry.outcome.findings]
    assert len(rules) > 100
    assert all(rules)


def test_the_commands_of_the_outcomes_are_the_recipe(entries: list[Entry]) -> None:
    """The outcomes keep their commands, and they are those that docs/findings.md prints."""
    lines = FINDINGS.replace("\\\n", " ").splitlines()
    recipe = {" ".join(line.split()) for line in lines if line.startswith("segmax experiment ")}
    assert {entry.about["command"] for entry in entries} == recipe


@pytest.mark.deep
def test_outcomes_are_kept_without_raw_figures(tmp_path: Path) -> None:
    """What is kept draws the same page, and the table replaces the one between the markers."""
    for name in ("example", "one"):
        run_experiment(EXPERIMENTS[name] if name == "example" else named(name), Task(), tmp_path, name)
    (tmp_path / "page.md").write_text("before\n<!-- begin -->\nold\n<!-- end -->\nafter\n")
    findings.main([str(tmp_path), str(tmp_path / "page.md"), "--keep", str(tmp_path / "kept")])
    before, after = (read_entries(folder, tuple(LISTED)) for folder in (tmp_path, tmp_path / "kept"))
    assert verdict_table(before) in (tmp_path / "page.md").read_text()
    assert before[0].outcome.records
    assert not any(entry.outcome.records for entry in after)
    assert report_page(after) == report_page(before)
    assert (tmp_path / "kept" / "example.json").read_text().count("\n") == 1
