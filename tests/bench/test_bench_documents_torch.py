"""The commands of docs/benchmarks.md that strangers run work, on small stand-ins in the formats that they download."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import scipy.sparse as sp

from beir_samples import write_beir

ROOT = Path(__file__).resolve().parents[2]
#: What makes a benchmark short.
QUICK = ("--engines", "segmax", "-k", "10", "--passes", "1", "--screen", "2", "--max-queries", "12")
TINY = ("--generate", "300", "--doc-terms", "30")
HAS_MODELS = all(importlib.util.find_spec(name) for name in ("torch", "sentence_transformers"))

#: Stand in for programs: downloads come from a folder, and the checksum of a stand-in is not that of the real file.
CURL = 'for last; do :; done\nexec cp "$STAND_INS/${last##*/}" .\n'
MD5SUM = 'read -r sum name\ntest "$1" = -c && test ${#sum} = 32 && test -f "$name"\n'
SEGMAX = f"""import subprocess, sys
arguments = sys.argv[1:]
assert arguments[0] == "bench"
if "--encoder" in arguments and not {HAS_MODELS}:
    del arguments[arguments.index("--encoder") : arguments.index("--encoder") + 2]
more = [*{QUICK!r}, *({TINY!r} if "--generate" in arguments else ())]
sys.exit(subprocess.call([sys.executable, "-m", "segmax.cli", *arguments, *more]))
"""


def commands() -> list[str]:
    """The shell blocks of the section for strangers."""
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    section = page.partition("## Repeat it on your machine\n")[2].partition("\n## ")[0]
    return re.findall(r"^```sh\n(.*?)^```$", section, flags=re.DOTALL | re.MULTILINE)


def write_stand_ins(folder: Path) -> None:
    """What the commands download: a zip of a BEIR folder, and vectors in the format of BigANN."""
    write_beir(folder / "zipped" / "scifact", 60)
    shutil.make_archive(str(folder / "scifact"), "zip", folder / "zipped")
    for name, count in (("base_small", 200), ("queries.dev", 14)):
        sp.save_npz(folder / f"{name}.npz", sp.random(count, 60, 0.2, format="csr", random_state=count))
        command = [sys.executable, "-m", "segmax.cli", "convert", f"{name}.npz", f"{name}.csr.gz"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)


def write_program(path: Path, text: str, shebang: str = "#!/bin/sh") -> None:
    """A program that the shell finds."""
    path.write_text(f"{shebang}\n{text}")
    path.chmod(0o755)


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with stand-ins for programs, downloads, a collection of ir_datasets and a model."""
    programs, downloads, here = tmp_path / "bin", tmp_path / "downloads", tmp_path / "here"
    for folder in (programs, downloads, here):
        folder.mkdir()
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    monkeypatch.setenv("STAND_INS", str(downloads))
    write_program(programs / "curl", CURL)
    write_program(programs / "md5sum", MD5SUM)
    write_program(programs / "pip", "exit 0\n")
    write_program(programs / "segmax", SEGMAX, f"#!{sys.executable}")
    write_stand_ins(downloads)
    write_beir(here / "beir" / "nfcorpus" / "test", 40)
    if HAS_MODELS:
        from tiny_models import write_bert, write_splade

        write_bert(here / "bert")
        write_splade(here / "naver" / "splade-v3", here / "bert")
    return here


@pytest.mark.slow
def test_the_commands_for_strangers_work(shell: Path) -> None:
    """Every shell block runs, in order, and what a command should write is there."""
    pytest.importorskip("matplotlib")
    assert len(commands()) >= 3
    for block in commands():
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", block], cwd=shell, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    for name in ("generated", "msmarco", "scifact"):
        found = json.loads((shell / f"{name}.json").read_text())
        assert any(row["setting"] == "exact" and row["recall"] == 1.0 for row in found["rows"]), name
    assert (shell / "generated.png").exists()
