"""The command line does what the library does, and reports errors in one line."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import segmax
from conftest import random_docs
from segmax import BuildConfig
from segmax.building.clustering import Dense, Labels, Sparse
from segmax.cli.main import COMMANDS, main
from segmax.io import untied
from segmax.paper import Anytime
from segmax.vectors.pruning import DocThreshold, MassShare, MaxPostings, QueryThreshold, TopTerms

ROOT = Path(__file__).resolve().parents[2]
NUM_DOCS, NUM_TERMS = 300, 40


@pytest.fixture
def folder(tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with vectors and all that goes with them."""
    monkeypatch.chdir(tmp_path)
    docs = random_docs(rng, NUM_DOCS, NUM_TERMS)
    sp.save_npz("docs.npz", docs)
    sp.save_npz("first.npz", docs[:100])
    sp.save_npz("second.npz", docs[100:])
    sp.save_npz("queries.npz", random_docs(rng, 20, NUM_TERMS, mean_terms=4))
    np.save("dense.npy", rng.normal(size=(NUM_DOCS, 8)).astype(np.float32))
    np.save("labels.npy", rng.integers(0, 6, NUM_DOCS))
    np.save("segments.npy", rng.integers(0, 8, NUM_DOCS))
    np.save("ids.npy", np.arange(NUM_DOCS) + 1000)
    Path("ids.txt").write_text("".join(f"doc-{i}\n" for i in range(NUM_DOCS)))
    Path("terms.txt").write_text("".join(f"wörd\u2028{i}\n" for i in range(NUM_TERMS)), encoding="utf-8")
    Path("scratch").mkdir()
    return tmp_path


def contents(path: Path | str) -> dict[str, bytes]:
    """All files of an index."""
    return {file.name: file.read_bytes() for file in Path(path).iterdir()}


def failure(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line on standard error that a command fails with."""
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert re.fullmatch(r"segmax: error: [^\n]+\n", printed.err), printed.err
    return printed.err.removeprefix("segmax: error: ").removesuffix("\n")


# --- build -----------------------------------------------------------------------------------------------------------

CONFIGS: dict[str, dict[str, Any]] = {
    "": {},
    "--num-clusters 5": {"num_clusters": 5},
    "--num-clusters 5 --num-segments 3": {"num_clusters": 5, "num_segments": 3},
    "--num-clusters 5 --segmentation independent": {"num_clusters": 5, "segmentation": "independent"},
    "--num-clusters 5 --segmentation kmeans": {"num_clusters": 5, "segmentation": "kmeans"},
    "--num-clusters 5 --document-order row": {"num_clusters": 5, "document_order": "row"},
    "--pruning doc-threshold=20": {"pruning": (DocThreshold(threshold=20),)},
    "--pruning query-threshold=0.5 --pruning mass-share=0.9": {
        "pruning": (QueryThreshold(threshold=0.5), MassShare(share=0.9))
    },
    "--pruning max-postings=30 --pruning top-terms=4": {"pruning": (MaxPostings(count=30), TopTerms(count=4))},
    "--pruning top-terms=4 --pruning max-postings=30": {"pruning": (TopTerms(count=4), MaxPostings(count=30))},
    "--bits 16": {"bits": 16},
    "--compact": {"compact": True},
    "--no-compact": {"compact": False},
    "--num-clusters 5 --seed 3": {"num_clusters": 5, "seed": 3},
}
ARGUMENTS: dict[str, Callable[[], dict[str, Any]]] = {
    "--clustering sparse": lambda: {"clustering": Sparse()},
    "--dimensions 4 --restarts 2 --iterations 3": lambda: {
        "clustering": Sparse(dimensions=4, restarts=2, iterations=3),
    },
    "--dense dense.npy": lambda: {"clustering": Dense("dense.npy")},
    "--clustering dense --dense dense.npy --dimensions 4 --dense-bits 8 --restarts 2 --iterations 3": lambda: {
        "clustering": Dense("dense.npy", dimensions=4, bits=8, restarts=2, iterations=3),
    },
    "--labels labels.npy": lambda: {"clustering": Labels(np.load("labels.npy"))},
    "--clustering labels --labels labels.npy": lambda: {"clustering": Labels(np.load("labels.npy"))},
    "--segments segments.npy": lambda: {"segments": np.load("segments.npy")},
    "--ids ids.txt": lambda: {"ids": [f"doc-{i}" for i in range(NUM_DOCS)]},
    "--ids ids.npy": lambda: {"ids": range(1000, 1000 + NUM_DOCS)},
    "--terms terms.txt": lambda: {"terms": [f"wörd\u2028{i}" for i in range(NUM_TERMS)]},
    "--threads 1": lambda: {"threads": 1},
    "--memory-limit 64GiB --scratch scratch": lambda: {"memory_limit": "64GiB", "scratch": "scratch"},
    "--no-progress": lambda: {"progress": False},
}


@pytest.mark.parametrize("flags", CONFIGS)
def test_options_of_the_config(folder: Path, flags: str) -> None:
    """Options of BuildConfig give the bytes that segmax.build gives."""
    assert main(["build", "docs.npz", "flagged", *flags.split()]) == 0
    segmax.build("docs.npz", path="made", config=BuildConfig(**CONFIGS[flags]))
    assert contents("flagged") == contents("made")


@pytest.mark.parametrize("flags", ARGUMENTS)
def test_options_that_are_arguments_of_build(folder: Path, flags: str) -> None:
    """The other options give what the arguments of segmax.build give."""
    several = [] if "labels" in flags else ["--num-clusters", "6"]
    assert main(["build", "docs.npz", "flagged", *flags.split(), *several]) == 0
    config = BuildConfig(num_clusters=6 if several else None)
    segmax.build("docs.npz", path="made", config=config, **ARGUMENTS[flags]())
    assert contents("flagged") == contents("made")


def test_build_joins_files_and_takes_options_anywhere(folder: Path) -> None:
    """Files follow each other in the order given, and options may stand among them."""
    assert main(["build", "first.npz", "second.npz", "--num-clusters", "4", "flagged"]) == 0
    segmax.build("docs.npz", path="made", config=BuildConfig(num_clusters=4))
    assert contents("flagged") == contents("made")


def test_build_prints_a_summary(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two lines: counts, then size, bytes per posting and seconds."""
    main(["build", "docs.npz", "flagged", "--num-clusters", "4"])
    printed = capsys.readouterr()
    with segmax.open("flagged") as index:
        assert re.match(r"built 'flagged' in [0-9.]+ s: 300 documents, ", printed.out)
        assert f"{index.num_postings:,} postings, 4 clusters x 8 segments, 8 bits\n" in printed.out
        assert f"{index.num_bytes / index.num_postings:.2f} bytes per posting" in printed.out
    assert printed.out.count("\n") == 2
    assert printed.err == ""


def test_build_replaces_an_index_only_with_overwrite(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without --overwrite an index stays; the message names the flag."""
    assert main(["build", "docs.npz", "flagged"]) == 0
    before = contents("flagged")
    capsys.readouterr()
    assert "pass --overwrite to replace" in failure(capsys, "build", "first.npz", "flagged")
    assert contents("flagged") == before
    assert main(["build", "first.npz", "flagged", "--overwrite"]) == 0
    with segmax.open("flagged") as index:
        assert index.num_docs == 100


def test_build_shows_progress_with_progress(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """--progress draws bars on standard error, --no-progress does not."""
    pytest.importorskip("rich")
    assert main(["build", "docs.npz", "a", "--progress"]) == 0
    assert "read" in capfd.readouterr().err
    assert main(["build", "docs.npz", "b", "--no-progress"]) == 0
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("text", ["a\r\nb\r\nc\r\n", "a\nb\nc", "\ufeffa\nb\nc\n"])
def test_ids_are_lines_of_text(folder: Path, text: str) -> None:
    """Windows line ends, a missing last one and a byte order mark do not matter."""
    sp.save_npz("three.npz", sp.load_npz("docs.npz")[:3])
    Path("three.txt").write_bytes(text.encode())
    assert main(["build", "three.npz", "flagged", "--ids", "three.txt"]) == 0
    with segmax.open("flagged") as index:
        assert index.vectors(["a", "b", "c"]).shape == (3, NUM_TERMS)


# --- invalid arguments -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--bits nine", "argument --bits: expected a whole number, got 'nine'"),
        ("--bits 9", "expected --bits to be 8 or 16, got 9"),
        ("--num-clusters 0", "expected --num-clusters to be at least 1, got 0"),
        ("--segmentation odd", "expected --segmentation to be 'random' or 'independent' or 'kmeans', got 'odd'"),
        ("--document-order odd", "expected --document-order to be 'similarity' or 'row', got 'odd'"),
        (
            "--pruning top-terms=few",
            "argument --pruning: expected a whole number as in top-terms=64, got 'top-terms=few'",
        ),
        ("--pruning odd=1", "argument --pruning: expected a pruning step (doc-threshold=…"),
        ("--clustering odd", "expected --clustering to be 'sparse' or 'dense' or 'labels', got 'odd'"),
        ("--clustering dense", "expected --dense to be an .npy file, which --clustering dense needs, got none"),
        ("--clustering labels", "expected --labels to be an .npy file, which --clustering labels needs, got none"),
        ("--dense dense.npy --labels labels.npy", "expected one of --dense and --labels, got both"),
        (
            "--clustering sparse --dense dense.npy",
            "expected --dense to be left out with --clustering sparse (it applies to dense), got 'dense.npy'",
        ),
        (
            "--dense-bits 8",
            "expected --dense-bits to be left out with --clustering sparse (it applies to dense), got 8",
        ),
        (
            "--labels labels.npy --restarts 2",
            "expected --restarts to be left out with --clustering labels (it applies to sparse or dense), got ",
        ),
        ("--labels labels.npy --num-clusters 2", "expected --num-clusters to be left out with --clustering labels"),
        ("--dense dense.npy --dense-bits 4", "expected --dense-bits to be 8, got 4"),
        ("--dimensions 0", "expected --dimensions to be from 1 to 65535, got 0"),
        ("--segments segments.npy --segmentation random", "expected one of --segments and --segmentation, got both"),
        (
            "--labels none.npy",
            "'none.npy': expected an .npy file of cluster labels, got none that can be read (No such file",
        ),
        ("--labels docs.npz", "'docs.npz': expected an .npy file of cluster labels"),
        ("--segments ids.txt", "'ids.txt': expected an .npy file of segment labels"),
        ("--dense none.npy", "expected an .npy file of dense vectors, got 'none.npy'"),
        ("--ids none.txt", "there is no file 'none.txt'"),
        ("--ids terms.txt", "expected 300 ids, one per document, got 40"),
        ("--terms docs.npz", "'docs.npz', line 1: expected UTF-8"),
        ("--threads 0", "expected --threads to be at least 1, got 0"),
        (
            "--memory-limit much",
            "expected --memory-limit to be a size in bytes, as a number or like '8GiB', got 'much'",
        ),
        ("--memory-limit 1MiB", "expected --memory-limit to be at least 256 MiB"),
        ("--scratch none", "expected --scratch to be an existing directory, got 'none'"),
        ("--odd", "unrecognized arguments: --odd; see segmax build --help"),
        ("--num=5", "unrecognized arguments: --num=5; see segmax build --help"),
        ("--bits", "argument --bits: expected one argument; see segmax build --help"),
    ],
)
def test_invalid_options_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], flags: str, message: str
) -> None:
    """One line says what was expected, and nothing is written."""
    arguments = ["build", *(["docs.npz", "flagged"]), *flags.split()]
    assert failure(capsys, *arguments).startswith(message)
    assert not Path("flagged").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "the following arguments are required: COMMAND; see segmax --help"),
        ("odd", "argument COMMAND: invalid choice: 'odd'"),
        ("build", "expected IN [IN ...] OUT, got nothing; see segmax build --help"),
        ("build docs.npz", "expected IN [IN ...] OUT, got docs.npz; see segmax build --help"),
        ("build none.npz flagged", "there is no file 'none.npz'"),
        ("build ids.txt flagged", "'ids.txt': expected an .npz file of scipy.sparse.save_npz"),
        ("build docs.npz none/flagged", "expected an existing directory to put the index in, got 'none'"),
        ("inspect", "the following arguments are required: INDEX; see segmax inspect --help"),
        ("inspect none", "there is no index at"),
        ("inspect scratch", "'"),
        ("inspect docs.npz", "'"),
        ("inspect flagged --plot none/it.png", "expected an existing directory to put the plot in, got 'none'"),
        ("inspect flagged --plot it.txt", "expected a plot to end in .png, .svg or .pdf, got 'it.txt'"),
        ("inspect flagged --sample few", "argument --sample: expected a whole number, got 'few'"),
        ("inspect flagged --seed odd", "argument --seed: expected a whole number, got 'odd'"),
    ],
)
def test_invalid_commands_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: str, message: str
) -> None:
    """The same holds for paths and commands."""
    if "--plot" in arguments:
        pytest.importorskip("matplotlib")
    assert failure(capsys, *arguments.split()).startswith(message)


def test_an_error_sets_the_exit_code(tmp_path: Path) -> None:
    """A process exits with 2 and without a traceback; with 0 on success."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "segmax.cli", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    wrong = run("inspect", str(tmp_path / "none"))
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("segmax: error: there is no index at")
    assert "Traceback" not in wrong.stderr
    right = run("--version")
    assert (right.returncode, right.stdout) == (0, f"segmax {segmax.__version__}\n")


def test_a_closed_pipe_ends_the_command_quietly(folder: Path) -> None:
    """If the reader of a pipe stops, there is no traceback, and the code is 1."""
    index = segmax.build("docs.npz", path=folder / "flagged")
    index.close()
    command = [sys.executable, "-m", "segmax.cli", "inspect", str(folder / "flagged"), "--json"]
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT)
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize(
    ("command", "message"),
    [("build", "segmax: interrupted; no part of an index was written\n"), ("inspect", "segmax: interrupted\n")],
)
def test_interruption(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str, message: str
) -> None:
    """Control-C ends a command with code 130 and a line."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(segmax, "build", interrupted)
    monkeypatch.setattr(segmax, "open", interrupted)
    assert main([command, "docs.npz", "flagged"][: 3 if command == "build" else 2]) == 130
    assert capsys.readouterr().err == message


def test_errors_of_the_system_are_shown(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unexpected OSError is shown in one line, too."""

    def failing(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(segmax, "build", failing)
    assert "No space left on device" in failure(capsys, "build", "docs.npz", "flagged")


# --- configuration files ---------------------------------------------------------------------------------------------


def test_a_file_gives_options(folder: Path) -> None:
    """Options in a file are those of the command line; hyphens are as good as underscores."""
    Path("build.toml").write_text("num-clusters = 5\nnum_segments = 4\nids = 'ids.txt'\ncompact = true\n")
    assert main(["build", "docs.npz", "filed", "--config", "build.toml"]) == 0
    flags = ["--num-clusters", "5", "--num-segments", "4", "--ids", "ids.txt", "--compact"]
    assert main(["build", "docs.npz", "flagged", *flags]) == 0
    assert contents("filed") == contents("flagged")


@pytest.mark.parametrize(
    "text",
    [
        "pruning = ['doc-threshold=20', 'top-terms=4']",
        "pruning = [{step = 'doc_threshold', threshold = 20}, 'top_terms=4']",
        "[[pruning]]\nstep = 'doc_threshold'\nthreshold = 20.0\n[[pruning]]\nstep = 'top_terms'\ncount = 4",
    ],
)
def test_steps_in_a_file(folder: Path, text: str) -> None:
    """Steps are text or tables."""
    Path("build.toml").write_text(text)
    assert main(["build", "docs.npz", "filed", "--config", "build.toml"]) == 0
    with segmax.open("filed") as index:
        assert index.config.pruning == (DocThreshold(threshold=20), TopTerms(count=4))


def effective(capsys: pytest.CaptureFixture[str], *flags: str) -> dict[str, Any]:
    """What --print-config prints, read back."""
    assert main(["build", *flags, "--print-config"]) == 0
    return tomllib.loads(capsys.readouterr().out)


def test_flags_override_the_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A flag replaces the value in the file; a list of steps is replaced as a whole."""
    Path("build.toml").write_text(
        "bits = 16\nseed = 4\ncompact = true\npruning = ['top-terms=4']\nmemory_limit = 1000000000"
    )
    flags = ["--config", "build.toml", "--seed", "5", "--no-compact", "--pruning", "mass-share=0.5"]
    values = effective(capsys, *flags)
    assert (values["bits"], values["seed"], values["compact"]) == (16, 5, False)
    assert (values["pruning"], values["memory_limit"]) == (["mass-share=0.5"], 1_000_000_000)


@pytest.mark.parametrize(
    ("flags", "there", "gone"),
    [
        (
            "--labels labels.npy",
            {"clustering": "labels", "labels": "labels.npy"},
            {"dense", "restarts", "num_clusters"},
        ),
        ("--clustering sparse", {"clustering": "sparse", "restarts": 3, "dimensions": 64}, {"dense", "dense_bits"}),
        ("--dense other.npy", {"clustering": "dense", "dense": "other.npy", "dense_bits": 8, "restarts": 3}, set()),
        ("--clustering dense", {"clustering": "dense", "dense": "dense.npy"}, set()),
        ("--segments segments.npy", {"segments": "segments.npy"}, {"segmentation"}),
    ],
)
def test_flags_drop_options_of_the_file_that_no_longer_apply(
    folder: Path, capsys: pytest.CaptureFixture[str], flags: str, there: dict[str, Any], gone: set[str]
) -> None:
    """If a flag chooses other clusters or segments, options that only suit the choice of the file are ignored."""
    Path("build.toml").write_text(
        "clustering = 'dense'\ndense = 'dense.npy'\ndense_bits = 8\nrestarts = 3\n"
        "num_clusters = 9\nsegmentation = 'kmeans'"
    )
    values = effective(capsys, "--config", "build.toml", *flags.split())
    assert there.items() <= values.items()
    assert gone.isdisjoint(values)


def test_a_segmentation_drops_segments_of_the_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--segmentation replaces the segments of the file."""
    Path("build.toml").write_text("segments = 'segments.npy'")
    values = effective(capsys, "--config", "build.toml", "--segmentation", "kmeans")
    assert values["segmentation"] == "kmeans"
    assert "segments" not in values


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "num_cluster = 5",
            "'build.toml': expected an option of segmax build, got 'num_cluster'; did you mean 'num_clusters'?",
        ),
        ("zzz = 5", "'build.toml': expected an option of segmax build, got 'zzz'; the options are num_clusters, "),
        ("[build]\nbits = 8", "'build.toml': expected an option of segmax build, got 'build'"),
        ("num_clusters = 5\nnum-clusters = 6", "'build.toml': expected num_clusters once, got 'num-clusters' again"),
        ("bits = '8'", "'build.toml': bits: expected a whole number, got '8'"),
        ("bits = true", "'build.toml': bits: expected a whole number, got True"),
        ("compact = 1", "'build.toml': compact: expected true or false, got 1"),
        ("ids = 3", "'build.toml': ids: expected a file name, got 3"),
        ("memory_limit = 1.5", "'build.toml': memory_limit: expected a size in bytes"),
        ("pruning = 'top-terms=4'", "'build.toml': pruning: expected a list of steps"),
        ("pruning = ['odd=4']", "'build.toml': pruning: expected a pruning step"),
        (
            "pruning = [{step = 'top_terms', number = 4}]",
            "'build.toml': pruning: expected the option count",
        ),
        ("pruning = [4]", "'build.toml': pruning: expected a pruning step as a mapping, got 4"),
        ("bits = 9", "expected --bits to be 8 or 16, got 9"),
        ("dense = 'dense.npy'\nlabels = 'labels.npy'", "expected one of --dense and --labels, got both"),
        ("bits =", "'build.toml': expected valid TOML, got something else ("),
        ("bits = 8\nbits = 8", "'build.toml': expected valid TOML, got something else ("),
    ],
)
def test_invalid_files_are_refused(folder: Path, capsys: pytest.CaptureFixture[str], text: str, message: str) -> None:
    """A message about a file names the file and the key."""
    Path("build.toml").write_text(text)
    assert failure(capsys, "build", "docs.npz", "flagged", "--config", "build.toml").startswith(message)
    assert not Path("flagged").exists()


def test_unreadable_files_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A missing file, and one that is not text."""
    assert failure(capsys, "build", "--config", "none.toml").startswith("'none.toml': could not be read (No such file")
    Path("build.toml").write_bytes(b"ids = '\xff'")
    assert failure(capsys, "build", "--config", "build.toml").startswith("'build.toml': expected valid TOML")


FLAGS = {
    "sparse": "--num-clusters 6 --dimensions 4 --restarts 2 --iterations 3 --seed 2 --bits 16 --document-order row",
    "dense": "--dense dense.npy --dense-bits 8 --num-clusters 6 --num-segments 4 --segmentation kmeans --compact",
    "labels": "--labels labels.npy --segments segments.npy --pruning doc-threshold=1.5 --pruning max-postings=30",
    "around": "--ids ids.npy --terms terms.txt --threads 2 --memory-limit 1GiB --scratch scratch --no-progress",
}


@pytest.mark.parametrize("name", FLAGS)
def test_a_printed_file_can_be_read(folder: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """--print-config prints a file that gives the same options: it prints itself, and builds the same index."""
    flags = FLAGS[name].split()
    assert main(["build", *flags, "--print-config"]) == 0
    text = capsys.readouterr().out
    Path("build.toml").write_text(text)
    assert main(["build", "--config", "build.toml", "--print-config"]) == 0
    assert capsys.readouterr().out == text
    assert main(["build", "docs.npz", "flagged", *flags]) == 0
    assert main(["build", "docs.npz", "filed", "--config", "build.toml"]) == 0
    assert contents("flagged") == contents("filed")


def test_print_config_shows_the_defaults(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Defaults are printed with their values, or as comments; nothing is built."""
    values = effective(capsys, "docs.npz", "flagged")
    expected = {name: value for name, value in BuildConfig().to_dict().items() if value is not None}
    expected["pruning"] = expected.pop("pruning")
    sparse = {"clustering": "sparse", "dimensions": 64, "restarts": 1, "iterations": 10}
    assert values == {**expected, "segment_bounds": "levels", **sparse, "overwrite": False}
    assert not Path("flagged").exists()


def test_printed_text_survives(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """File names with quotes, backslashes and odd characters come back as they were."""
    name = "a \"b\" 'c' \\d \u007f \u00e9 \U0001f600.npy"
    assert effective(capsys, "--dense", name)["dense"] == name


# --- help ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)])
def test_help_teaches(command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command has a purpose and two examples, and its help fits a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as stopped:
        main([*command, "--help"])
    assert stopped.value.code == 0
    text = capsys.readouterr().out
    assert len(re.findall(r"^  segmax \S+", text.partition("examples:")[2], flags=re.MULTILINE)) >= 2
    assert max(map(len, text.splitlines())) <= 80


def helped(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The help of a command, with every run of blanks as one space."""
    with pytest.raises(SystemExit):
        main([*arguments, "--help"])
    return " ".join(capsys.readouterr().out.split())


def test_help_compares_index_and_build(capsys: pytest.CaptureFixture[str]) -> None:
    """The main help says when to use which of the two commands that make an index."""
    text = helped(capsys)
    assert "index or build? index takes texts, which it encodes, or files of vectors" in text
    assert "build takes vectors only" in text


def test_help_explains_options_that_depend_on_others(capsys: pytest.CaptureFixture[str]) -> None:
    """--eta names --mu, --dropped the options that drop terms; the two meanings of --method are kept apart."""
    text = helped(capsys, "search")
    assert "With sequential, also pass --mu, which must be at most η (asc, sequential)" in text
    assert "the terms that --query-mass or --max-terms leaves out" in text
    text = helped(capsys, "index")
    assert "formula of BM25, not a method of segmax search" in text
    assert "clustering: --clustering sparse|dense|labels|cls|mean|max what documents are clustered by" in text


def test_help_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    """All options of BuildConfig and of segmax.build have a flag with a default."""
    with pytest.raises(SystemExit):
        main(["build", "--help"])
    helps = re.split(r"\n  (?=-)", capsys.readouterr().out)  # an option each
    elsewhere = {"vectors", "path", "config", "options"}  # FILE, OUT, and BuildConfig in its two forms
    for name in {*BuildConfig().to_dict(), *inspect.signature(segmax.build).parameters} - elsewhere:
        flag = f"--{name.replace('_', '-')}"
        own = next((text for text in helps if re.match(rf"{flag}\b(?!-)", text)), "")
        assert "(default: " in " ".join(own.split()), name


# --- inspect ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def built(folder: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """An index on disk."""
    flags = ["--num-clusters", "6", "--pruning", "top-terms=8", "--ids", "ids.txt"]
    assert main(["build", "docs.npz", "built", *flags]) == 0
    capsys.readouterr()
    return folder / "built"


def test_inspect_prints_tables(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The summary shows counts, options, every component, clusters and bounds, and which queries were used."""
    assert main(["inspect", "built"]) == 0
    text = capsys.readouterr().out
    with segmax.open(built) as index:
        for name, size in index.sizes().items():
            assert re.search(rf"{name}\)? +{size:,} ", text), name
        assert f"{index.num_postings:,} (" in text
        sizes = index.cluster_sizes()
        assert f"min {sizes.min()}, median {np.median(sizes):.0f}, mean {sizes.mean():.1f}, max {sizes.max()}" in text
        assert re.search(rf"total +{index.num_bytes:,} +100.0%", text)
    for said in ("built", "300", "40", "6 x 8 segments", "8 bits", "generation 1", "sparse vectors", "top-terms=8"):
        assert said in text
    assert "segmentation=random" in " ".join(text.split())
    assert "50 documents as queries" in text
    for ratio in ("Actual/MaxSBound", "Actual/BoundSum", "Actual/AvgSBound"):
        assert re.search(rf"{ratio}( +[0-9]\.[0-9]{{3}}){{4}}", text)


def test_inspect_prints_json(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--json is IndexSummary.to_dict."""
    from segmax.inspection.inspecting import inspect

    assert main(["inspect", "built", "--json", "--queries", "queries.npz", "--sample", "7", "--seed", "3"]) == 0
    values = json.loads(capsys.readouterr().out)
    with segmax.open(built) as index:
        assert values == inspect(index, sp.load_npz("queries.npz"), sample=7, seed=3).to_dict()
    assert values["tightness"]["source"] == "queries"


def test_inspect_without_queries_measures_no_bounds(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--sample 0 leaves the bounds out."""
    assert main(["inspect", "built", "--sample", "0"]) == 0
    assert "not measured" in capsys.readouterr().out
    assert main(["inspect", "built", "--sample", "0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tightness"] is None


def test_inspect_refuses_files_without_queries(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Queries must be something that segmax search takes."""
    assert "there is no file 'none.npz'" in failure(capsys, "inspect", "built", "--queries", "none.npz")
    assert "expected an encoder, to search for text" in failure(capsys, "inspect", "built", "--queries", "ids.txt")
    np.savez("odd.npz", a=np.arange(3))
    assert "scipy.sparse.save_npz" in failure(capsys, "inspect", "built", "--queries", "odd.npz")
    sp.save_npz("negative.npz", sp.csr_matrix([[-1.0, 2.0]]))
    assert "-1" in failure(capsys, "inspect", "built", "--queries", "negative.npz")


@pytest.mark.parametrize(
    "flags",
    [[], *(pytest.param(more, marks=pytest.mark.deep) for more in (["--sample", "0"], ["--queries", "queries.npz"]))],
)
def test_inspect_draws(built: Path, flags: list[str]) -> None:
    """--plot writes a PNG of a fair size."""
    pytest.importorskip("matplotlib")
    assert main(["inspect", "built", "--plot", "it.png", *flags]) == 0
    data = Path("it.png").read_bytes()
    assert data.startswith(b"\x89PNG\r\n")
    width, height = (int.from_bytes(data[at : at + 4]) for at in (16, 20))
    assert width > 1000 < 3 * height


def test_a_missing_matplotlib_is_reported(
    built: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message says what to install, before any work is done."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert failure(capsys, "inspect", "built", "--plot", "it.png").endswith("pip install 'segmax[plot]'")


# --- search and tune -------------------------------------------------------------------------------------------------


def test_search_prints_results(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A TREC run; as the library finds them, by default exactly."""
    queries = sp.load_npz("queries.npz")
    for flags, options in (
        ([], {}),
        (["--target-recall", "1"], {}),
        (["--method", "exhaustive", "--threads", "1"], {"params": segmax.Exhaustive()}),
        (["--mu", "0.7", "--eta", "0.9"], {"params": segmax.ASC(mu=0.7, eta=0.9)}),
        (["--max-terms", "2"], {"params": segmax.ASC(max_terms=2)}),
        (["--max-terms", "2", "--dropped", "bounded"], {}),
        (["--query-mass", "0.5", "--method", "anytime"], {"params": Anytime(query_mass=0.5)}),
        (["--max-clusters", "1", "--method", "sequential"], {"params": segmax.paper.ASC(max_clusters=1)}),
        (["--max-blocks", "1", "--bound-mass", "0.5"], {"params": segmax.ASC(max_blocks=1, bound_mass=0.5)}),
    ):
        assert main(["search", "built", "queries.npz", "-k", "3", *flags]) == 0
        printed = [line.split() for line in capsys.readouterr().out.splitlines()]
        with segmax.open("built") as index:
            found = index.search_batch(queries, k=3, **options)
            expected = [
                [str(number), "Q0", str(doc_id), str(rank), repr(score), "segmax"]
                for number, hits in enumerate(found)
                for rank, (doc_id, score) in enumerate(
                    zip(hits.ids, untied(hits.scores.tolist()), strict=True), start=1
                )
            ]
        assert printed == expected, flags


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("-k few", "argument -k: expected a whole number, got 'few'"),
        ("-k 0", "expected -k to be at least 1, got 0"),
        ("--mu much", "argument --mu: expected a number, got 'much'"),
        ("--mu 2", "expected --mu to be greater than 0 and at most 1, got 2.0"),
        ("--method odd", "argument --method: invalid choice: 'odd'"),
        (
            "--method anytime --eta 0.9",
            "expected --eta to be left out with the method anytime (it applies to asc, sequential), got 0.9",
        ),
        (
            "--method maxscore --mu 0.9",
            "--mu to be left out with the method maxscore (it applies to asc, sequential, anytime)",
        ),
        ("--method maxscore --max-terms 3", "--max-terms to be left out with the method maxscore"),
        (
            "--method maxscore --max-clusters 5",
            "--max-clusters to be left out with the method maxscore (it applies to asc, sequential, anytime)",
        ),
        ("--method sequential --max-blocks 5", "--max-blocks to be left out with the method sequential"),
        ("--mu 0.9 --target-recall 0.9", "expected --target-recall or a method, got both: --target-recall and --mu"),
        ("--eta 0.9 --target-recall 0.9", "got both: --target-recall and --eta"),
        ("--method maxscore --target-recall 0.9", "got both: --target-recall and --method"),
        ("--method sequential --eta 0.9", "expected mu <= eta, got mu=1.0 and eta=0.9"),
        ("--target-recall 3", "expected --target-recall to be greater than 0 and at most 1, got 3.0"),
    ],
)
def test_search_refuses(built: Path, capsys: pytest.CaptureFixture[str], flags: str, message: str) -> None:
    """An error is one line that says what was expected."""
    assert message in failure(capsys, "search", "built", "queries.npz", *flags.split())


def test_tune_stores_what_it_measured(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The sentence it prints is that of the index, which has it from then on; `inspect` shows it."""
    assert main(["inspect", "built", "--sample", "0"]) == 0
    assert "Calibration: none" in capsys.readouterr().out
    assert main(["tune", "built", "queries.npz", "-k", "4", "--target-recall", "0.9"]) == 0
    with segmax.open("built") as index:
        assert capsys.readouterr().out == f"{index.expectation(4, 0.9)}\n"
        measured = index.calibration.to_list()
    assert [m["k"] for m in measured] == [4]
    assert main(["inspect", "built", "--sample", "0"]) == 0
    assert "0.99 at k = 4" in capsys.readouterr().out
    assert main(["inspect", "built", "--sample", "0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["calibration"] == measured
    assert main(["tune", "built", "queries.npz", "-k", "4", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == measured[0]
    assert "there is no file 'none.npz'" in failure(capsys, "tune", "built", "none.npz")


# --- completion ------------------------------------------------------------------------------------------------------


def completed(script: Path, *words: str) -> list[str]:
    """What bash offers for the last of these words."""
    ask = f"source {script}; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _segmax; "
    result = subprocess.run(
        ["bash", "-c", ask + 'printf "%s\\n" "${COMPREPLY[@]}"'], capture_output=True, text=True, check=True
    )
    return result.stdout.split()


def test_completion(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Bash completes commands, their options, and files; the other shells get every command and option, too."""
    assert main(["completion", "bash"]) == 0
    script = folder / "completion.bash"
    script.write_text(capsys.readouterr().out)
    assert completed(script, "segmax", "in") == ["index", "inspect"]
    assert completed(script, "segmax", "search", "--target") == ["--target-recall"]
    assert completed(script, "segmax", "build", "docs.np") == ["docs.npz"]
    for shell in ("zsh", "fish"):
        assert main(["completion", shell]) == 0
        text = capsys.readouterr().out
        assert all(name in text for name in COMMANDS)
        assert "target-recall" in text
    assert "invalid choice: 'tcsh'" in failure(capsys, "completion", "tcsh")


# --- warnings --------------------------------------------------------------------------------------------------------


def test_a_warning_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All documents empty: the index is made, and standard error says so without a line of code."""
    sp.save_npz("empty.npz", sp.csr_matrix((3, 5)))
    assert main(["build", "empty.npz", "made", "--no-progress"]) == 0
    message = (
        "all 3 documents are empty: no term has a weight above 0, so no search will find anything; check what you index"
    )
    assert capsys.readouterr().err == f"segmax: warning: {message}\n"
    assert main(["build", "docs.npz", "other", "--no-progress"]) == 0
    assert capsys.readouterr().err == ""


def test_a_command_restores_warnings(folder: Path) -> None:
    """The way warnings are shown, and their filters, are as before."""
    shown, filters = warnings.showwarning, warnings.filters[:]
    assert main(["build", "docs.npz", "made", "--no-progress"]) == 0
    assert warnings.showwarning is shown
    assert warnings.filters == filters
