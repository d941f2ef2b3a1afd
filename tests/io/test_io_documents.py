"""Texts or vectors, whichever files hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from conftest import refused
from segmax.errors import ConfigError, InputError
from segmax.io import open_documents, open_texts, recognize, streams
from segmax.vectors.documents import BaseVectors, Document

VECTORS = '{"id": "a", "vector": {"cat": 1.5}}\n'
TEXTS = '{"id": "a", "text": "a cat"}\n'


def test_content_decides(tmp_path: Path) -> None:
    """Vectors come in batches, texts as documents."""
    (tmp_path / "vectors.jsonl").write_text(VECTORS)
    (tmp_path / "texts.jsonl").write_text(TEXTS)
    vectors = open_documents(tmp_path / "vectors.jsonl")
    assert isinstance(vectors, BaseVectors)
    assert [batch.ids for batch in vectors.batches()] == [["a"]]
    assert vectors.name == f"'{tmp_path / 'vectors.jsonl'}'"
    texts = open_documents([str(tmp_path / "texts.jsonl")])
    assert not isinstance(texts, BaseVectors)
    assert [document.text for document in texts] == ["a cat"]


def test_a_format_overrides_the_content(tmp_path: Path) -> None:
    """Lines of an id and words are texts or weights, as the caller says."""
    path = tmp_path / "lines.tsv"
    path.write_text("a\tcat cat dog\n")
    assert isinstance(open_documents(path, format="tokens"), BaseVectors)
    assert not isinstance(open_documents(path, format="tsv-text"), BaseVectors)
    with refused(ConfigError, option="format", got="xml"):
        open_documents(path, format="xml")


def test_texts_and_vectors_do_not_mix(tmp_path: Path) -> None:
    """Nor do vectors and a file that is not there, or the same file twice."""
    vectors, texts = tmp_path / "vectors.jsonl", tmp_path / "texts.jsonl"
    vectors.write_text(VECTORS)
    texts.write_text(TEXTS)
    with refused(
        InputError, expected="texts or vectors", got="vectors.jsonl' holds vectors, and '.*texts.jsonl' does not"
    ):
        open_documents([texts, vectors])
    with refused(InputError, got="none.jsonl' does not"):
        open_documents([vectors, tmp_path / "none.jsonl"])
    with refused(InputError, expected="every file once"):
        open_documents([vectors, vectors])


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of files whose first bytes are read to recognize them."""
    names: list[str] = []

    def read_head(path: Path, size: int) -> bytes:
        names.append(path.name)
        return streams.read_head(path, size)

    monkeypatch.setattr(recognize, "read_head", read_head)
    return names


@pytest.mark.parametrize("content", [VECTORS, TEXTS, "id,text\na,cat\n"])
def test_a_file_is_recognized_once(tmp_path: Path, looks: list[str], content: str) -> None:
    """Its first bytes are looked at once, and the reader knows the format."""
    path = tmp_path / "docs"
    path.write_text(content)
    open_documents(path)
    assert looks == ["docs"]


@pytest.mark.parametrize("opened", [open_documents, open_texts])
def test_a_folder_is_recognized_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looks: list[str], opened: Callable[[Path], Iterable[Document]]
) -> None:
    """It is gone through once, and every file in it is looked at once, the one that stands for the folder too."""
    for name in "abc":
        (tmp_path / f"{name}.jsonl").write_text(TEXTS.replace('"a"', f'"{name}"'))
    folders = []
    inner = recognize._kinds_of_files
    monkeypatch.setattr(recognize, "_kinds_of_files", lambda folder: folders.append(folder) or inner(folder))
    documents = opened(tmp_path)
    assert folders == [tmp_path]
    assert looks == ["a.jsonl", "b.jsonl", "c.jsonl"]
    assert [document.id for document in documents] == ["a", "b", "c"]


def test_a_folder_of_vectors_is_recognized_by_its_first_file(tmp_path: Path, looks: list[str]) -> None:
    """Once; reading the others shows whether they hold vectors."""
    for name in "ab":
        (tmp_path / f"{name}.jsonl").write_text(VECTORS)
    open_documents(tmp_path)
    assert looks == ["a.jsonl"]
