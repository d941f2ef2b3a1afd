"""Documents keep their word: their Python and shell blocks run, their links resolve, their lines fit a screen."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from beir_samples import write_beir
from segmax.demo.__main__ import unpack

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [
    *sorted(p.relative_to(ROOT).as_posix() for p in ROOT.glob("*.md")),
    *sorted(
        p.relative_to(ROOT).as_posix() for p in (ROOT / "docs").rglob("*.md") if "project" not in p.parts
    ),  # copies
]
#: What newcomers run first, and again: these blocks must work on what they wrote before.
FIRST_STEPS = [
    "README.md",
    "docs/index.md",
    "docs/tutorial-page.md",
    "docs/tutorial-text.md",
    "docs/tutorial-vectors.md",
    "docs/tutorial-collections.md",
    "docs/tutorial-serving.md",
    "docs/tuning.md",
]
#: Their blocks take over half a CPU second.
DEEP = {
    "docs/building.md",
    "docs/client.md",
    "docs/data.md",
    "docs/encoders.md",
    "docs/evaluation.md",
    "docs/filters.md",
    "docs/integrations.md",
    "docs/scale.md",
    "docs/service.md",
    "docs/sharding.md",
    "docs/tutorial-machines.md",
    "docs/versions.md",
}
#: Theirs take longest, and run where the site is made (make docs).
WITH_THE_SITE = {"docs/experiments.md", "docs/tutorial-paper.md"}
#: The port that `segmax serve` takes, and documents name; where they are tested, it is any free one.
PORT = "8080"
#: What runs models that documents name.
MODELS = {"torch", "sentence_transformers"}
#: Their blocks install and download; tests/bench/test_bench_documents_torch.py runs them on stand-ins.
ON_STAND_INS = ["docs/benchmarks.md"]
WIDTH = 120
#: A block of code, with its fence and its language.
BLOCK = re.compile(r"^ *(`{3,}|~{3,})(.*)\n(?:.*\n)*? *\1 *$", flags=re.MULTILINE)
#: Set where every extra is installed (make test-extras): a block that cannot be run is then an error.
ALL_EXTRAS = "SEGMAX_ALL_EXTRAS" in os.environ


def runnable(document: str) -> list[tuple[str, str]]:
    """The Python and shell blocks of a document, in order, each with its language."""
    pattern = r"^```(python|sh)\n(.*?)^```$"
    return re.findall(pattern, (ROOT / document).read_text(), flags=re.DOTALL | re.MULTILINE)


def blocks_of(document: str, language: str) -> list[str]:
    """The blocks of a document in a language."""
    return [block for found, block in runnable(document) if found == language]


def marks(text: str) -> list[str]:
    """The language of every block, as its opening fence names it."""
    return [language.strip() for _, language in BLOCK.findall(text)]


def needed(block: str) -> set[str]:
    """The packages that a block imports, and torch where it makes a model."""
    found = set()
    for node in ast.walk(ast.parse(block)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
            found |= {"ray" for alias in node.names if alias.name == "segmax.ray"}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found.add(node.module.partition(".")[0])
            found |= {"torch"} if {alias.name for alias in node.names} & {"SparseModel", "UniCOIL", "LexMAE"} else set()
    return found


def missing(language: str, block: str) -> list[str]:
    """The packages that a block needs and that are not installed, or may not be used here."""
    names = needed(block) if language == "python" else MODELS if "naver/" in block else set()
    absent = [name for name in names if importlib.util.find_spec(name) is None or not may_use(name)]
    programs = ["curl"] if language == "sh" and "curl " in block and shutil.which("curl") is None else []
    return sorted([*absent, *programs])


def may_use(package: str) -> bool:
    """Whether a block may use a package here. Ray binds to the outer address of a machine where it finds one."""
    return package != "ray" or [name for _, name in socket.if_nameindex()] == ["lo"]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with tiny models, where torch is installed, under the names that documents give to models.

    A name on the hub is also that of a folder, and a folder comes first: they stand in for the real ones.
    """
    made = tmp_path_factory.mktemp("models")
    if not [name for name in MODELS if importlib.util.find_spec(name) is None]:
        from tiny_models import write_bert, write_lexmae, write_splade, write_unicoil

        write_bert(made / "bert")
        write_splade(made / "naver" / "splade-v3", made / "bert")
        shutil.copytree(made / "naver" / "splade-v3", made / "my-folder")
        write_unicoil(made / "castorini" / "unicoil-noexp-msmarco-passage")
        write_lexmae(made / "my-lexmae-folder", made / "bert")
    return made


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """A working directory with the collections, and for the documents that take longest the models, that are named."""
    monkeypatch.chdir(tmp_path)
    write_beir(tmp_path / "beir" / "scifact", 400)
    (tmp_path / "segmax-demo").mkdir()
    unpack(tmp_path / "segmax-demo" / "vaswani")
    if {"deep", "slow"} & {mark.name for mark in request.node.iter_markers()}:
        shutil.copytree(request.getfixturevalue("models"), tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture
def shell(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command `segmax`, as this Python has it, on the path of the shell."""
    script = folder / "bin" / "segmax"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m segmax.cli "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))


class Terminal:
    """A shell that runs one block after the other, so that what one starts with `&` is there for the next."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._log = folder, folder / "terminal.log"
        with self._log.open("wb") as log:
            self._bash = subprocess.Popen(
                ["bash", "-euo", "pipefail"], stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
            )

    def run(self, block: str, seconds: float = 300) -> None:
        """Run a block to its end; an error, if one of its commands fails."""
        script, done = self._folder / "block.sh", self._folder / "block.done"
        script.write_text(block)
        done.unlink(missing_ok=True)
        assert self._bash.stdin is not None
        self._bash.stdin.write(f". '{script}' < /dev/null\n: > '{done}'\n".encode())
        self._bash.stdin.flush()
        end = time.monotonic() + seconds
        while not done.exists():
            assert self._bash.poll() is None, f"{block}\n{self._log.read_text()}"
            assert time.monotonic() < end, f"{block}\n{self._log.read_text()}"
            time.sleep(0.01)

    def close(self) -> None:
        """End the shell, and whatever it left running."""
        with contextlib.suppress(ProcessLookupError):  # a block that failed ended it, and nothing else ran
            os.killpg(self._bash.pid, signal.SIGKILL)
        with contextlib.suppress(BrokenPipeError):
            self._bash.communicate()


@pytest.fixture
def terminal(shell: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """A terminal in the working directory."""
    opened = Terminal(tmp_path_factory.mktemp("terminal"))
    yield opened
    opened.close()


def free_port() -> str:
    """A port that nobody uses."""
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return str(opened.getsockname()[1])


def run_blocks(document: str, terminal: Terminal | None) -> list[str]:
    """Run the blocks of a document in its order; return the missing packages that left some out.

    Python blocks share a namespace and shell blocks a terminal, without which they are left to others.
    """
    namespace: dict[str, object] = {}
    left_out: list[str] = []
    port = free_port()
    for language, block in runnable(document):
        here = block.replace(PORT, port).replace("segmax serve ", f"segmax serve --port {port} ")
        if absent := missing(language, block):
            assert not ALL_EXTRAS or absent == ["ray"], f"{document}: a block needs {', '.join(absent)}"
            left_out += absent
        elif language == "sh":
            if terminal is not None:
                terminal.run(here)
        else:
            exec(compile(here, document, "exec"), namespace)
    return left_out


def skip_if_blocks_were_left_out(packages: list[str]) -> None:
    """Mention the packages that are missing here; `make test-extras` has them."""
    if packages:
        pytest.skip(f"all blocks ran but those that need {', '.join(dict.fromkeys(packages))}")


def mark(document: str) -> tuple[pytest.MarkDecorator, ...]:
    """When the blocks of a document run."""
    return (pytest.mark.slow,) if document in WITH_THE_SITE else (pytest.mark.deep,) if document in DEEP else ()


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(name, marks=mark(name))
        for name in DOCUMENTS
        if name not in {*FIRST_STEPS, *ON_STAND_INS} and runnable(name)
    ],
)
def test_blocks_in_documents_run(document: str, folder: Path, terminal: Terminal) -> None:
    """Every Python and shell block works, in order."""
    skip_if_blocks_were_left_out(run_blocks(document, terminal))


@pytest.mark.deep
@pytest.mark.parametrize("document", FIRST_STEPS)
def test_first_steps_run_again(document: str, folder: Path, terminal: Terminal) -> None:
    """All blocks work, and in `make test-extras` again in the same folder; `.ci/readme.py` runs the README's shell."""
    left_out = []
    for _ in range(2 if ALL_EXTRAS else 1):
        left_out += run_blocks(document, None if document == "README.md" else terminal)
    skip_if_blocks_were_left_out(left_out)


def test_a_command_that_fails_is_seen(terminal: Terminal, tmp_path: Path) -> None:
    """Blocks share a shell, what it runs in the background too, and a command that fails is an error."""
    terminal.run("word=diode\nsleep 100 &\n")
    terminal.run(f"echo $word > {tmp_path}/word\nkill %1\n")
    assert (tmp_path / "word").read_text() == "diode\n"
    with pytest.raises(AssertionError, match="no such command"):
        terminal.run("true\necho no such command\nfalse\ntrue\n")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_blocks_are_marked_so_that_they_are_run(document: str) -> None:
    """Every block names its language, and Python is called `python`: other blocks would never be run."""
    found = marks((ROOT / document).read_text())
    assert set(found) <= {"python", "sh", "json", "toml", "html", "text"}
    assert found.count("python") == len(blocks_of(document, "python"))  # an indented block is not found


def test_blocks_without_a_mark_are_seen() -> None:
    """However a fence is written, it opens a block; the one that closes it does not."""
    assert marks("```python\n1\n```\n```\nx = 1\n```\n") == ["python", ""]
    assert marks("- item\n\n  ```\n  x\n  ```\n~~~\ny\n~~~\n````sh\n```\n````\n") == ["", "", "sh"]


# --- links and lines -------------------------------------------------------------------------------------------------


def prose(text: str) -> str:
    """A document without its code blocks; lines keep their numbers."""
    return BLOCK.sub(lambda block: "\n" * block[0].count("\n"), text)


def links(text: str) -> list[str]:
    """The targets of all links and images of a document."""
    without_spans = re.sub(r"(`+)[^`\n]+\1", "", prose(text))
    return re.findall(r"\]\(<?([^()\s>]+)>?\)", without_spans)


def anchors(text: str) -> set[str]:
    """The anchors of all headings, as GitHub makes them."""
    found: set[str] = set()
    for heading in re.findall(r"^#{1,6} (.+?)#*$", prose(text), flags=re.MULTILINE):
        shown = re.sub(r"\]\([^)]*\)", "]", heading)
        name = re.sub(r"[^\w\- ]", "", shown.strip().lower()).replace(" ", "-")
        repeats = [name, *(f"{name}-{number}" for number in range(1, 100))]
        found.add(next(repeat for repeat in repeats if repeat not in found))
    return found


def broken_links(document: str) -> list[str]:
    """The relative links of a document whose file or heading does not exist."""
    place, broken = ROOT / document, []
    for link in links(place.read_text()):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (place.parent / name).resolve() if name else place
        known = target.exists() and target.is_relative_to(ROOT)
        if not known or (anchor and anchor not in anchors(target.read_text())):
            broken.append(link)
    return broken


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_resolve(document: str) -> None:
    """Every relative link leads to a file of this repository, and its anchor to a heading."""
    assert broken_links(document) == []


def test_links_and_anchors_are_found() -> None:
    """Links in code are not links; anchors follow GitHub's rules."""
    text = "# A `b`: c, d\n\n## A `b`: c, d\n\n[x](y.md#z) ![i](a.png) `[no](no.md)`\n\n```sh\n[no](no.md)\n# no\n```\n"
    assert links(text) == ["y.md#z", "a.png"]
    assert anchors(text) == {"a-b-c-d", "a-b-c-d-1"}


def wide_lines(text: str) -> list[int]:
    """The numbers of the lines that are too wide; code, tables and the targets of links may be."""
    lines = enumerate(prose(text).splitlines(), start=1)
    shown = [(number, re.sub(r"\]\([^)]*\)", "]", line)) for number, line in lines]
    return [number for number, line in shown if len(line) > WIDTH and not line.lstrip().startswith("|")]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_lines_fit_a_screen(document: str) -> None:
    """Lines have at most 120 characters, except in code blocks, tables and link targets."""
    assert wide_lines((ROOT / document).read_text()) == []


def test_wide_lines_are_found() -> None:
    """Prose counts; code, tables and link targets do not."""
    wide = "x" * 121
    assert wide_lines(f"{wide}\n```sh\n{wide}\n```\n| {wide} |\n[x]({wide})\n  {wide}\n") == [1, 7]


def test_the_readme_is_short() -> None:
    """It has 100 to 170 lines."""
    assert 100 <= len((ROOT / "README.md").read_text().splitlines()) <= 170


def test_pictures_are_small() -> None:
    """The README and the documentation load quickly: a picture has at most 150 kB."""
    assert [p.name for p in (ROOT / "docs" / "images").iterdir() if p.stat().st_size > 150_000] == []


def test_every_page_is_in_the_table_of_contents() -> None:
    """docs/README.md links to every page; index.md, the start page of the site, includes it."""
    listed = set(links((ROOT / "docs" / "README.md").read_text()))
    assert {p.name for p in (ROOT / "docs").glob("*.md")} - {"README.md", "index.md"} <= listed
