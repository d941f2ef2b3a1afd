"""What documents show, runs: every Python block, in order, in one namespace per document."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import shutil
from pathlib import Path

import pytest

from segmax.demo import FOLDER

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [
    "README.md",
    "ARCHITECTURE.md",
    *sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "docs").rglob("*.md")),
]
#: Set where every extra is installed (make test-extras): a block that cannot be run is then an error.
ALL_EXTRAS = "SEGMAX_ALL_EXTRAS" in os.environ


def python_blocks(document: str) -> list[str]:
    """The Python blocks of a document."""
    return re.findall(r"^```python\n(.*?)^```$", (ROOT / document).read_text(), flags=re.DOTALL | re.MULTILINE)


def marks(text: str) -> list[str]:
    """What stands behind the opening fence of every block."""
    blocks = re.findall(r"^ *(`{3,}|~{3,})(.*)\n(?:.*\n)*? *\1 *$", text, flags=re.MULTILINE)
    return [mark.strip() for _, mark in blocks]


def needed(block: str) -> set[str]:
    """The packages that a block imports, and torch where it makes a model."""
    found = set()
    for node in ast.walk(ast.parse(block)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found.add(node.module.partition(".")[0])
            found |= {"torch"} if {alias.name for alias in node.names} & {"SparseModel", "UniCOIL", "LexMAE"} else set()
    return found


def missing(block: str) -> list[str]:
    """The packages that a block imports and that are not installed."""
    return sorted(name for name in needed(block) if importlib.util.find_spec(name) is None)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the collections and, where torch is installed, the models that documents name.

    A name on the hub is also that of a folder, and a folder comes first: tiny models stand in for the real ones.
    """
    monkeypatch.chdir(tmp_path)
    write_scifact(tmp_path / "beir" / "scifact")
    if not [name for name in ("torch", "sentence_transformers") if importlib.util.find_spec(name) is None]:
        from tiny_models import write_bert, write_lexmae, write_splade, write_unicoil

        write_bert(tmp_path / "bert")
        write_splade(tmp_path / "naver" / "splade-v3", tmp_path / "bert")
        shutil.copytree(tmp_path / "naver" / "splade-v3", tmp_path / "my-folder")
        write_unicoil(tmp_path / "castorini" / "unicoil-noexp-msmarco-passage")
        write_lexmae(tmp_path / "my-lexmae-folder", tmp_path / "bert")
    return tmp_path


def write_scifact(folder: Path) -> None:
    """A BEIR folder with a part of the collection that ships with segmax."""
    from segmax.io import open_texts, read_qrels, read_queries

    (folder / "qrels").mkdir(parents=True)
    texts = list(open_texts(FOLDER))[:400]
    kept = {text.id for text in texts}
    records = [{"_id": text.id, "title": text.title, "text": text.text} for text in texts]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    queries = read_queries(FOLDER / "queries.jsonl.gz")
    lines = [json.dumps({"_id": name, "text": text}) for name, text in zip(queries.ids, queries.texts, strict=True)]
    (folder / "queries.jsonl").write_text("\n".join(lines[:40]) + "\n")
    graded = [
        f"{query}\t{document}\t{grade}\n"
        for query, labels in read_qrels(FOLDER / "qrels.tsv").items()
        for document, grade in labels.items()
        if document in kept
    ]
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(graded))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_python_in_documents_runs(document: str, folder: Path) -> None:
    """Every Python block of a document works; those that need what is not installed run in `make test-extras`."""
    namespace: dict[str, object] = {}
    left_out = []
    for block in python_blocks(document):
        if absent := missing(block):
            assert not ALL_EXTRAS, f"{document}: a block needs {', '.join(absent)}"
            left_out += absent
            continue
        exec(compile(block, document, "exec"), namespace)
    if left_out:
        pytest.skip(f"all blocks ran but those that need {', '.join(dict.fromkeys(left_out))}")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_blocks_are_marked_so_that_they_are_run(document: str) -> None:
    """Python is marked `python` and nothing else: a block under another name, or under none, would never be run."""
    found = marks((ROOT / document).read_text())
    assert set(found) <= {"python", "sh", "json", "toml", "html", "text"}
    assert found.count("python") == len(
        python_blocks(document)
    )  # blocks that are indented, for instance, are not found


def test_blocks_without_a_mark_are_seen() -> None:
    """However a fence is written, it opens a block; the one that closes it does not."""
    assert marks("```python\n1\n```\n```\nx = 1\n```\n") == ["python", ""]
    assert marks("- item\n\n  ```\n  x\n  ```\n~~~\ny\n~~~\n````sh\n```\n````\n") == ["", "", "sh"]
