"""What GitHub and pre-commit read is well formed, and names targets, files and versions that exist."""

from __future__ import annotations

import datetime
import itertools
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import segmax

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).resolve().parents[1]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = sorted(path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")
#: Pages for contributors. What they and the workflows call has to exist.
GUIDES = [
    ROOT / "CONTRIBUTING.md",
    ROOT / "docs" / "installing.md",
    ROOT / "docs" / "releasing.md",
    GITHUB / "PULL_REQUEST_TEMPLATE.md",
]
#: Files that a workflow makes.
MADE = {"dist", "build/docs", "build/fuzz/found"}


def read(path: Path) -> Any:
    """The content of a YAML file. YAML 1.1 takes the key `on` for a truth value."""
    content = yaml.safe_load(path.read_text())
    if True in content:
        content["on"] = content.pop(True)
    return content


def pyproject() -> dict[str, Any]:
    """The content of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def combinations(job: dict[str, Any]) -> list[dict[str, Any]]:
    """What `matrix` is in every run of a job."""
    matrix = dict(job.get("strategy", {}).get("matrix", {}))
    included = matrix.pop("include", [])
    product = [dict(zip(matrix, values, strict=True)) for values in itertools.product(*matrix.values())]
    return [*(product if matrix else []), *included] or [{}]


def filled(text: str, matrix: dict[str, Any]) -> str:
    """A text with the values of the matrix in place of `${{ matrix... }}`."""

    def value(found: re.Match[str]) -> str:
        place: Any = matrix
        for name in found[1].split("."):
            place = place[name]
        return str(place)

    return re.sub(r"\$\{\{ *matrix\.([\w.]+) *\}\}", value, text)


def steps(workflow: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Every step of every job, with every matrix that it runs with."""
    for job in workflow["jobs"].values():
        for matrix in combinations(job):
            for step in job["steps"]:
                yield step, matrix


def commands(path: Path) -> list[str]:
    """The commands of a workflow."""
    return [filled(step["run"], matrix) for step, matrix in steps(read(path)) if "run" in step]


def targets_called(text: str) -> set[str]:
    """The targets of `make` in commands, without options and variables."""
    found: set[str] = set()
    for call in re.findall(r"\bmake((?: +[\w.=/-]+)+)", text):
        found |= {word for word in call.split() if "=" not in word and not word.startswith("-")}
    return found


def targets() -> set[str]:
    """The targets of the Makefile that have no file."""
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony is not None
    defined = set(re.findall(r"^([\w-]+):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(phony[1].split()) <= defined
    return set(phony[1].split())


def code_in(text: str) -> str:
    """The code of a page: its blocks and what stands between backticks."""
    blocks = re.findall(r"^```\w+\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    return "\n".join([*blocks, *re.findall(r"`([^`\n]+)`", text)])


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_call_targets_that_exist(path: Path) -> None:
    """Every `make X` of a workflow is a target of the Makefile, for every value of its matrix."""
    assert targets_called("\n".join(commands(path))) <= targets()


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.name)
def test_guides_name_targets_that_exist(path: Path) -> None:
    """Every `make X` of a page for contributors is a target of the Makefile."""
    assert targets_called(code_in(path.read_text())) <= targets()


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.name)
def test_guides_name_files_that_exist(path: Path) -> None:
    """A path between backticks is that of a file, from the root or from the package."""
    named = re.findall(r"`((?:[\w.-]+/)+[\w.-]+\.\w+)`", path.read_text())
    places = (ROOT, ROOT / "src" / "segmax")
    assert [name for name in named if not any((place / name).exists() for place in places)] == []


def test_calls_of_make_are_found() -> None:
    """Options, variables and expressions are no targets."""
    assert targets_called("make a b-c PYTHON=python && make -j2 d\nmake fuzz SECONDS=60") == {"a", "b-c", "d", "fuzz"}
    assert filled("make ${{ matrix.a.b }} ${{matrix.c}}", {"a": {"b": "x"}, "c": 3}) == "make x 3"
    assert combinations({"strategy": {"matrix": {"a": [1, 2], "include": [{"b": 3}]}}}) == [
        {"a": 1},
        {"a": 2},
        {"b": 3},
    ]
    assert code_in("make x\n`make y`\n```sh\nmake z\n```\n").split("\n") == ["make z", "", "make y"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_name_files_that_exist(path: Path) -> None:
    """What they run and watch is here, and what they upload is made by a command of theirs."""
    workflow = read(path)
    named = re.findall(r"(?:^|\s)((?:\.ci|tests|docs|benchmarks)/[\w./-]+)", "\n".join(commands(path)))
    event = workflow["on"].get("pull_request") or {}
    watched = [pattern.removesuffix("/**") for pattern in event.get("paths", [])]
    assert [name for name in [*named, *watched] if not (ROOT / name).exists()] == []
    uploads = [step["with"]["path"] for step, _ in steps(workflow) if "upload" in step.get("uses", "")]
    assert {re.sub(r"/\*.*", "", upload) for upload in uploads} <= MADE


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_may_do_little(path: Path) -> None:
    """They read the repository; only a job that publishes may do more. Jobs end, and actions have a version."""
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        assert set(job.get("permissions", {})) <= ({"id-token", "pages"} if name in {"publish", "deploy"} else set())
        assert job["timeout-minutes"] <= 180
    for step, _ in steps(workflow):
        if "uses" in step:
            assert re.fullmatch(r"[\w-]+/[\w-]+@(v\d+(\.\d+)*|release/v\d+|[0-9a-f]{40})", step["uses"])
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


def test_every_supported_python_is_tested() -> None:
    """The matrix has the versions of the classifiers, from the oldest that the package accepts."""
    project = pyproject()["project"]
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert read(GITHUB / "workflows" / "tests.yml")["jobs"]["linux"]["strategy"]["matrix"]["python"] == named
    assert project["requires-python"] == f">={named[0]}"


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_forms_are_complete(path: Path) -> None:
    """A form has a name, a description, and fields with labels and different ids."""
    form = read(path)
    assert form["name"]
    assert form["description"]
    fields = [part for part in form["body"] if part["type"] != "markdown"]
    assert all(part["attributes"]["label"] for part in fields)
    assert len({part["id"] for part in fields}) == len(fields)


def test_bug_reports_ask_for_versions() -> None:
    """The first thing to know about a bug is what it happened with."""
    versions = next(part for part in read(GITHUB / "ISSUE_TEMPLATE" / "bug.yml")["body"] if part.get("id") == "version")
    assert "segmax --version --verbose" in versions["attributes"]["description"]
    assert versions["validations"]["required"] is True


def test_addresses_are_those_of_the_project() -> None:
    """Other files spell the addresses of the repository and of the site as pyproject.toml does."""
    urls = pyproject()["project"]["urls"]
    ours = (urls["Homepage"], urls["Documentation"].rstrip("/"))
    files = [*GITHUB.rglob("*.*"), *ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "CITATION.cff"]
    found = [
        address
        for path in files
        for address in re.findall(r"https://(?:github\.com/segmax|segmax\.github\.io)[\w./-]*", path.read_text())
    ]
    assert found
    assert [address for address in found if not address.startswith(ours)] == []


def test_the_changelog_has_every_release() -> None:
    """Unreleased comes first, then releases, the newest first; the version of the package is among them."""
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased"
    releases = [re.fullmatch(r"(\d+\.\d+\.\d+) - (\d{4}-\d\d-\d\d)", heading) for heading in headings[1:]]
    numbers = [tuple(int(part) for part in release[1].split(".")) for release in releases if release]
    dates = [datetime.date.fromisoformat(release[2]) for release in releases if release]
    assert len(numbers) == len(dates) == len(releases)
    assert numbers == sorted(set(numbers), reverse=True)
    assert dates == sorted(dates, reverse=True)
    known = [release[1] for release in releases if release]
    assert segmax.__version__ in known or ".dev" in segmax.__version__


def test_dependabot_looks_at_folders_that_exist() -> None:
    """It updates the actions and the packages of the root."""
    updates = read(GITHUB / "dependabot.yml")["updates"]
    assert {update["package-ecosystem"] for update in updates} == {"github-actions", "pip"}
    assert all((ROOT / update["directory"].lstrip("/")).is_dir() for update in updates)


def test_hooks_have_the_versions_of_the_project() -> None:
    """A tool that pyproject.toml pins has the same version in pre-commit, so that both find the same."""
    project = pyproject()["project"]
    pinned = dict(
        requirement.split("==")
        for requirements in project["optional-dependencies"].values()
        for requirement in requirements
        if "==" in requirement
    )
    (local,) = read(ROOT / ".pre-commit-config.yaml")["repos"]
    assert local["repo"] == "local"
    hooked = dict(tool.split("==") for hook in local["hooks"] for tool in hook["additional_dependencies"])
    assert {"clang-format", "ruff"} <= hooked.keys() & pinned.keys()
    assert {name: hooked[name] for name in hooked.keys() & pinned.keys()} == {
        name: pinned[name] for name in hooked.keys() & pinned.keys()
    }
    for hook in local["hooks"]:
        re.compile(hook.get("files", ""))
        re.compile(hook.get("exclude", ""))
