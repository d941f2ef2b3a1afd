"""Texts: BEIR folders, lines of JSON, columns, and the collections of ir_datasets."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from segmax.errors import InputError
from segmax.io.base import Document, TextReader
from segmax.io.irds import downloading, ir_dataset_id, load_ir_dataset
from segmax.io.recognise import format_of, shards_of
from segmax.io.records import TEXT_NAMES, TITLE_NAMES, id_of, read_columns, read_json_lines, text_of
from segmax.io.streams import no_file


def open_texts(source: str | os.PathLike[str]) -> TextReader:
    r"""Open a collection of texts.

    Parameters
    ----------
    source
        A BEIR folder (corpus.jsonl); a file, or a folder of files, of lines of JSON ({"id", "title", "text"}, or other
        names that are in use); a file of columns (id, text or id, title, text, or as its header says; one column is
        text alone); plain, gzip, zstd or xz. Or an ir_datasets id such as "beir/nfcorpus", or "irds:beir/nfcorpus".

    Returns
    -------
    TextReader
        Goes through the documents, from the first, every time it is iterated.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "texts.tsv")
    >>> _ = path.write_text("d1\tHello\nd2\tGood bye\n")
    >>> [document.text for document in open_texts(path)]
    ['Hello', 'Good bye']
    """
    if (name := ir_dataset_id(source)) is not None:
        return _IrDatasetsTexts(name)
    path = Path(source)
    if not path.exists():
        raise no_file(path)
    kind = format_of(path)
    if kind == "beir":
        return _JsonTexts([next(iter(sorted(path.glob("corpus.jsonl*"))))])
    if kind == "jsonl-text":
        return _JsonTexts(shards_of(path) if path.is_dir() else [path])
    if kind == "tsv-text":
        return _ColumnTexts(path)
    msg = f"'{path}': expected texts (a BEIR folder, lines of JSON, columns), got {kind} vectors"
    raise InputError(msg)


class _JsonTexts:
    """Lines of JSON."""

    num_docs = None

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths

    def __iter__(self) -> Iterator[Document]:
        for path in self._paths:
            for number, record in read_json_lines(path):
                text = text_of(record, TEXT_NAMES, path, number)
                title = text_of(record, TITLE_NAMES, path, number)
                if text is None and title is None:
                    msg = (
                        f"'{path}', line {number}: expected a text under {TEXT_NAMES[:4]}, got {', '.join(record)[:80]}"
                    )
                    raise InputError(msg)
                yield Document(id_of(record, path, number), title or "", text or "")


class _ColumnTexts:
    """Columns."""

    num_docs = None

    def __init__(self, path: Path) -> None:
        self._path = path

    def __iter__(self) -> Iterator[Document]:
        for number, record in read_columns(self._path):
            text = text_of(record, TEXT_NAMES, self._path, number)
            title = text_of(record, TITLE_NAMES, self._path, number)
            yield Document(id_of(record, self._path, number), title or "", text or "")


class _IrDatasetsTexts:
    """A collection of ir_datasets, which it downloads if need be."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._docs = load_ir_dataset(name)
        if not self._docs.has_docs():
            msg = f"the ir_datasets collection {name!r} has no documents"
            raise InputError(msg)

    @property
    def num_docs(self) -> int | None:
        """How many documents ir_datasets counts."""
        with downloading(self._name):
            count = self._docs.docs_count()
        return None if count is None else int(count)

    def __iter__(self) -> Iterator[Document]:
        with downloading(self._name):
            for doc in self._docs.docs_iter():
                yield _document(doc)


def _document(doc: Any) -> Document:
    title = str(getattr(doc, "title", "") or "")
    plain = next((getattr(doc, name) for name in TEXT_NAMES if isinstance(getattr(doc, name, None), str)), None)
    text = plain if plain is not None else doc.default_text()
    return Document(str(doc.doc_id), title if plain is not None else "", text)
