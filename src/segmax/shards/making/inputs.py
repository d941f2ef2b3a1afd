"""What a build reads: files of vectors or texts, or a matrix in memory; and how to tell whether it has changed."""

from __future__ import annotations

import abc
import dataclasses
import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from segmax.base.errors import ConfigError, InputError
from segmax.building.inputs import source_name
from segmax.io.irds import ir_dataset_id
from segmax.io.read_errors import no_documents, reading
from segmax.io.spooled import is_stream
from segmax.io.vectors import open_vectors
from segmax.shards.making.text_encoding import TextEncoding
from segmax.shards.making.text_files import ReadTexts, text_units
from segmax.shards.making.unique import id_checks, unit_of
from segmax.shards.making.vector_files import GivenVectors, ReadVectors, VectorCollection
from segmax.storage.tables import listed_ids
from segmax.text.fields import chosen_fields
from segmax.vectors.csr import Csr, is_matrix, matrix_to_csr
from segmax.vectors.pruning import MaxPostings, Step

if TYPE_CHECKING:
    from segmax.shards.making.plan import Documents, Plan


class Inputs(abc.ABC):
    """The documents of a build."""

    #: Whether the fingerprint tells these documents from any others. If not, a build is never resumed.
    is_known: bool = True

    def encoder_entry(self) -> Mapping[str, Any] | None:
        """Return what made the vectors, as an index records it; None if that is not known."""
        return None

    @abc.abstractmethod
    def fingerprint(self) -> dict[str, Any]:
        """Return what tells these documents from others, as plain values, without reading them."""

    @abc.abstractmethod
    def read(self, plan: Plan) -> Documents:
        """Run the stages up to vectors in pieces."""


class InputOptions(TypedDict, total=False):
    """What a build can be given beside its documents, depending on what these are."""

    encoder: object
    keep_texts: bool
    title: bool
    metadata: str | Sequence[str] | None
    ids: Iterable[Any] | None
    terms: Iterable[str] | None


def open_inputs(source: object, options: InputOptions) -> Inputs:
    """Return the documents of a build; see `segmax.shards.build`."""
    encoder, metadata = options.get("encoder"), checked_fields(options.get("metadata"))
    if is_matrix(source) and encoder is None:
        return GivenMatrix(source, options.get("ids"), options.get("terms"))
    check_no_names(options)
    files = checked_files(source)
    if encoder is None:
        return VectorFiles(files, metadata)
    return TextFiles(text_units(files), TextEncoding.of_options(options), metadata)


def checked_fields(metadata: Any) -> str | Sequence[str] | None:
    """Return the names of fields, or "all"; raise ConfigError for metadata themselves, which tasks could not find."""
    if metadata is not None and chosen_fields(metadata) is None:
        raise ConfigError(option="metadata", expected="'all', or a list of fields", got=type(metadata).__name__)
    found: str | Sequence[str] | None = metadata
    return found


def check_no_names(options: InputOptions) -> None:
    """Raise ConfigError for ids and terms that are given beside documents which have their own."""
    for option, given in (("ids", options.get("ids")), ("terms", options.get("terms"))):
        if given is not None:
            raise ConfigError(
                option=option, expected="None, because documents have their own", got=type(given).__name__
            )


def checked_files(source: object) -> list[str]:
    """Return the files or folders that a source names; raise InputError for anything else."""
    several = source if isinstance(source, (list, tuple)) else [source]
    if not several or not all(isinstance(one, (str, os.PathLike)) for one in several):
        raise InputError(
            expected="documents as a file, a list of files, a matrix, or a Dataset of Ray",
            got=type(source).__name__ if several else "an empty list",
        )
    names = [os.fspath(one) for one in several if isinstance(one, (str, os.PathLike))]
    stream = next((name for name in names if is_stream(name)), None)
    if stream is not None:
        raise InputError(
            expected="files, which every task can read for itself",
            got=f"a stream, '{stream}'",
            hint="write it to a file first",
        )
    return names


def check_pruning(pruning: Sequence[Step]) -> None:
    """Raise ConfigError for a step that has to see all documents at once."""
    for step in pruning:
        if isinstance(step, MaxPostings):
            raise ConfigError(
                option="pruning",
                expected="steps that look at one document at a time",
                got=f"{step!r}, which has to see the whole collection",
                hint="use TopTerms or DocThreshold for an index of many shards",
            )


def file_state(path: Path) -> list[Any]:
    """Return what shows that a file is still the same: its path, size and time."""
    with reading(path):
        found = path.stat()
    return [str(path.absolute()), found.st_size, found.st_mtime_ns]


@dataclasses.dataclass(frozen=True)
class VectorFiles(Inputs):
    """Files of vectors, of any format that `segmax.io.open_vectors` reads."""

    sources: Sequence[str]
    metadata: str | Sequence[str] | None = None

    def _files(self) -> list[Path]:
        return list(open_vectors(self.sources).paths)

    def fingerprint(self) -> dict[str, Any]:
        """Return paths, sizes and times of the files."""
        return {"vectors": [file_state(path) for path in self._files()], "metadata": self.metadata}

    def read(self, plan: Plan) -> Documents:
        """Read every file."""
        files = self._files()
        pruning, fields = plan.config.pruning, chosen_fields(self.metadata)
        tasks = [ReadVectors(unit_of(n), str(path.absolute()), pruning, fields) for n, path in enumerate(files)]
        units = plan.results("read", tasks)
        if not any(unit["num_docs"] for unit in units):
            raise no_documents(files)
        found = VectorCollection(units, plan.work)
        plan.results("check", id_checks(units, found.pieces))
        return found


@dataclasses.dataclass(frozen=True)
class TextFiles(Inputs):
    """Files of texts, of any format that `segmax.io.open_texts` reads."""

    units: Sequence[str]
    encoding: TextEncoding
    metadata: str | Sequence[str] | None = None

    def encoder_entry(self) -> Mapping[str, Any]:
        """Return what made the vectors."""
        return self.encoding.made.to_dict()

    def fingerprint(self) -> dict[str, Any]:
        """Return paths, sizes and times of the files, and what the vectors depend on."""
        texts = [_unit_state(unit) for unit in self.units]
        return {"texts": texts, **self.encoding.fingerprint(), "metadata": self.metadata}

    def read(self, plan: Plan) -> Documents:
        """Read every file, and encode every piece."""
        fields = chosen_fields(self.metadata)
        units = plan.results("read", [ReadTexts(unit_of(n), path, fields) for n, path in enumerate(self.units)])
        return self.encoding.encode(units, plan)


def _unit_state(unit: str) -> list[Any]:
    """Return what shows that a unit of texts is still the same."""
    if ir_dataset_id(unit) is not None:
        return [unit]
    path = Path(unit)
    files = sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]
    return [file_state(file) for file in files]


class GivenMatrix(Inputs):
    """A matrix in memory, with ids and terms beside it. This process reads it, whoever does the rest."""

    def __init__(self, matrix: object, ids: Iterable[Any] | None, terms: Iterable[str] | None) -> None:
        self._docs: Csr = matrix_to_csr(matrix)
        if not self._docs.num_rows:
            raise no_documents([])
        self._ids = None if ids is None else listed_ids(ids)
        self._terms = None if terms is None else list(terms)
        self._name = source_name(matrix)

    def fingerprint(self) -> dict[str, Any]:
        """Return a hash of everything."""
        whole = hashlib.sha256(repr((self._docs.num_columns, self._ids, self._terms)).encode())
        for array in self._docs[:3]:
            whole.update(array.dtype.str.encode() + array.tobytes())
        return {"matrix": whole.hexdigest()}

    def read(self, plan: Plan) -> Documents:
        """Write the matrix as pieces."""
        task = GivenVectors(self._docs, self._ids, self._terms, self._name, plan.config.pruning)
        return VectorCollection([task.run(plan.work)], plan.work)
