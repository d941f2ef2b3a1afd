"""Collections of ir_datasets, which is the extra `ir-datasets`."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from segmax.base.errors import InputError, MissingPackageError, SegmaxError
from segmax.base.optional import need
from segmax.io.records import TEXT_NAMES, checked_id
from segmax.vectors.documents import Document

_PREFIX = "irds:"
_ID = re.compile(r"[a-z][\w-]*(/[\w.-]+)*", re.IGNORECASE)
_FILE_ENDING = re.compile(r"\.[a-z]\w*$", re.IGNORECASE)  # versions, "v1.1", are no endings
_NETWORK_PACKAGES = ("requests", "urllib3", "http", "ssl", "socket")


def ir_dataset_id(source: str | os.PathLike[str]) -> str | None:
    """Return the ir_datasets id that is meant, `irds:` or not; None if it is the path of a file or folder."""
    name = os.fspath(source)
    if name.startswith(_PREFIX):
        return name.removeprefix(_PREFIX)
    if _exists(name) or _ID.fullmatch(name) is None or _FILE_ENDING.search(name) is not None:
        return None
    return name


def _exists(name: str) -> bool:
    """Whether there is something at a path; a path that may not be looked at counts as one."""
    try:
        return Path(name).exists()
    except OSError:
        return True


def load_ir_dataset(name: str) -> Any:
    """Return a dataset of ir_datasets."""
    try:
        ir_datasets = need("ir_datasets", "a dataset", "ir-datasets")
    except MissingPackageError as error:
        hint = "if it is an ir_datasets id, run: pip install 'segmax[ir-datasets]'"
        raise InputError(f"there is no file or folder '{name}'", hint=hint) from error
    except RuntimeError as error:  # of Path.home(), even where IR_DATASETS_HOME is set
        raise InputError(
            where=_collection(name),
            expected="a home for ir_datasets to keep its files in",
            got=f"none ({_shortened(error)})",
            hint="set HOME to a folder; IR_DATASETS_HOME alone is not enough",
        ) from error
    with downloading(name):
        try:
            return ir_datasets.load(name)
        except KeyError as error:
            msg = f"there is no file or folder '{name}', and ir_datasets does not know such an id"
            raise InputError(msg, hint="check the name") from error


@contextlib.contextmanager
def downloading(name: str) -> Iterator[None]:
    """Turn what goes wrong while ir_datasets fetches or reads a collection into InputError."""
    try:
        yield
    except SegmaxError:
        raise
    except Exception as error:
        package = type(error).__module__.split(".")[0]
        if not isinstance(error, (OSError, EOFError, RuntimeError)) and package not in _NETWORK_PACKAGES:
            raise
        raise InputError(
            f"could not be fetched ({_shortened(error)})",
            where=_collection(name),
            hint="check the network, or put its files where ir_datasets keeps them (IR_DATASETS_HOME, by default "
            "~/.ir_datasets)",
        ) from error


def lacking(name: str, what: str, *, hint: str = "") -> InputError:
    """Return the error about a collection that has no documents, no queries or no judgments."""
    return InputError(where=_collection(name), expected=what, got="none", hint=hint)


def _collection(name: str) -> str:
    return f"the ir_datasets collection {name!r}"


def _shortened(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 200 else f"{text[:200]}..."


class IrDatasetsTexts:
    """A collection of ir_datasets, which it downloads if need be."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._docs = load_ir_dataset(name)
        if not self._docs.has_docs():
            raise lacking(name, "documents")

    @property
    def num_docs(self) -> int | None:
        """How many documents ir_datasets counts."""
        with downloading(self.name):
            count = self._docs.docs_count()
        return None if count is None else int(count)

    def __iter__(self) -> Iterator[Document]:
        with downloading(self.name):
            for doc in self._docs.docs_iter():
                yield _document(doc)


def _document(doc: Any) -> Document:
    title = str(getattr(doc, "title", "") or "")
    plain = next((getattr(doc, name) for name in TEXT_NAMES if isinstance(getattr(doc, name, None), str)), None)
    text = plain if plain is not None else doc.default_text()
    return Document(checked_id(str(doc.doc_id), "ir_datasets"), title if plain is not None else "", text)
