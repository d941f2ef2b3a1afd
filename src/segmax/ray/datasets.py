"""Documents that are a Dataset of Ray: its blocks become pieces where they lie, in the order of the Dataset."""

from __future__ import annotations

import dataclasses
import os
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from segmax.base.errors import InputError, SegmaxError
from segmax.base.vocabulary import GrowingVocabulary
from segmax.io.read_errors import no_documents
from segmax.io.records import ID_NAMES, TEXT_NAMES, TITLE_NAMES, VECTOR_NAMES, known_name
from segmax.shards.making.columns import metadata_column
from segmax.shards.making.inputs import InputOptions, Inputs, check_no_names, checked_fields, file_state
from segmax.shards.making.pieces import PIECE_DOCS
from segmax.shards.making.plan import Documents, Plan
from segmax.shards.making.tasks import Task, Workplace, patiently
from segmax.shards.making.text_encoding import TextEncoding
from segmax.shards.making.text_files import KeepTexts, TextStream
from segmax.shards.making.unique import id_checks, unit_is_whole, unit_name
from segmax.shards.making.vector_files import KeepVectors, VectorCollection, VectorStream
from segmax.storage.components import Arrays
from segmax.storage.tables import id_arrays
from segmax.text.documents import GivenTexts
from segmax.text.fields import Fields, chosen_fields
from segmax.vectors.csr import Csr, canonical
from segmax.vectors.pruning import Step
from segmax.vectors.queries import query_arrays

_ROWS = 1024  # of a block that are turned into Python's objects together
_PAIR = ("indices", "values")
#: The file that says that all blocks are read.
_UNITS = "units"


def is_dataset(source: object) -> bool:
    """Whether this is a Dataset; there are none before ray.data is loaded."""
    data = sys.modules.get("ray.data")
    return data is not None and isinstance(source, data.Dataset)


class DatasetInputs(Inputs):
    """The documents of a Dataset: columns "id", and "text" and "title", or "vector", or "indices" and "values"."""

    def __init__(self, dataset: Any, options: InputOptions) -> None:
        check_no_names(options)
        self._dataset = dataset
        self._metadata = checked_fields(options.get("metadata"))
        schema = dataset.schema()
        self._types = {} if schema is None else dict(zip(map(known_name, schema.names), schema.types, strict=True))
        self._names = list(self._types)
        self._encoding = None if options.get("encoder") is None else TextEncoding.of_options(options)
        self._check_columns()
        self._files = [Path(name.removeprefix("file://")) for name in dataset.input_files()]
        #: Files can be compared with those of an interrupted build; documents in memory cannot.
        self.is_known = bool(self._files) and all(file.is_file() for file in self._files)

    def _check_columns(self) -> None:
        has_texts = not set(self._names).isdisjoint((*TEXT_NAMES, *TITLE_NAMES))
        has_vectors = not set(self._names).isdisjoint(VECTOR_NAMES) or set(_PAIR) <= set(self._names)
        if self._encoding is not None and not has_texts:
            raise InputError(expected="a Dataset with a column 'text'", got=", ".join(self._names) or "none")
        if self._encoding is None and not has_vectors:
            raise InputError(
                expected="a Dataset with a column 'vector', or with 'indices' and 'values'",
                got=", ".join(self._names) or "none",
                hint="for texts, pass {encoder='bm25'} or a model",
            )

    def encoder_entry(self) -> Mapping[str, Any] | None:
        """Return what made the vectors."""
        return None if self._encoding is None else self._encoding.made.to_dict()

    def fingerprint(self) -> dict[str, Any]:
        """Return the columns and, where there are any, the files."""
        files = [file_state(file) for file in self._files] if self.is_known else []
        encoding = {} if self._encoding is None else self._encoding.fingerprint()
        return {"dataset": self._names, "files": files, "metadata": self._metadata, **encoding}

    def read(self, plan: Plan) -> Documents:
        """Write the blocks as pieces, and encode texts."""
        units = self._found_units(plan.work)
        if units is None:
            # A Dataset may be cut into other blocks than the last time, so what came of some of them is of no use.
            plan.start_over()
            units = self._read_units(plan)
            plan.work.keep(_UNITS, {}, {"units": units})
        if self._encoding is not None:
            return self._encoding.encode(units, plan)
        found = VectorCollection(units, plan.work)
        plan.results("check", id_checks(units, found.pieces))
        return found

    def _found_units(self, work: Workplace) -> list[Mapping[str, Any]] | None:
        """Return what an earlier attempt has read, if it got to the end, and all of that is whole."""
        found = work.find(_UNITS)
        units: list[Mapping[str, Any]] = [] if found is None else found.about["units"]
        for unit in units:
            if work.find(unit_name(unit["unit"])) is None or not unit_is_whole(unit["unit"], unit["pieces"], work):
                return None
        return units or None

    def _read_units(self, plan: Plan) -> list[Mapping[str, Any]]:
        """Let Ray Data write the pieces, and return what is known of them, in the order of the Dataset."""
        fields = chosen_fields(self._metadata)
        read: Callable[..., Task] = (
            partial(ReadVectorBlock, pruning=plan.config.pruning, names_terms=bool(_names_terms(self._types)))
            if self._encoding is None
            else ReadTextBlock
        )
        keep = KeepBlock(partial(read, fields=fields), plan.work)
        mapped = self._dataset.map_batches(keep, batch_format="pyarrow", batch_size=PIECE_DOCS, zero_copy_batch=True)
        mapped.context.execution_options.preserve_order = True
        units: list[Mapping[str, Any]] = []
        with plan.stage("read", None) as shown:
            for row in mapped.iter_rows():
                result, error = pickle.loads(row["result"])
                if error is not None:
                    raise error
                units.append(result)
                shown.advance(1)
        if not any(unit["num_docs"] for unit in units):
            raise no_documents([])
        return units


class KeepBlock:
    """Writes a block of a Dataset as pieces; what comes of it travels as a column of one row."""

    def __init__(self, task: Callable[..., Task], work: Workplace) -> None:
        self._task = task
        self._work = work

    def __call__(self, table: Any) -> dict[str, list[bytes]]:
        """Write a block; errors of segmax are a result, too: Ray would run the task again, and hide them."""
        result: tuple[Any, Any]
        try:
            result = patiently(lambda: self._block(table).make(self._work)), None
        except SegmaxError as error:
            result = None, error
        return {"result": [pickle.dumps(result)]}

    def _block(self, table: Any) -> Task:
        # No unit knows its number. Done again, it has another name, and what the first attempt wrote is not used.
        return self._task(f"block-{os.urandom(8).hex()}", _with_known_names(table))


def _with_known_names(table: Any) -> Any:
    return table.rename_columns([known_name(name) for name in table.column_names])


class _Block:
    """A block of a Dataset as records."""

    unit: str
    table: Any

    @property
    def where(self) -> str:
        """What messages call it; they name the first id, where there is one."""
        name = next((name for name in ID_NAMES if name in self.table.column_names), None)
        first = (
            ""
            if name is None or not self.table.num_rows
            else f" that starts with {self.table.column(name)[0].as_py()!r}"
        )
        return f"a block of the Dataset{first}"

    def _tables(self) -> Iterator[Any]:
        """Yield a few rows at a time."""
        return (self.table.slice(first, _ROWS) for first in range(0, self.table.num_rows, _ROWS))

    def _records(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield records, each with its place."""
        row = 0
        for table in self._tables():
            for record in table.to_pylist():
                yield f"{self.where}, row {row}", record
                row += 1


@dataclasses.dataclass(frozen=True)
class ReadTextBlock(_Block, KeepTexts):
    """Reads texts from a block."""

    unit: str
    table: Any
    fields: Fields | None

    def stream(self, work: Workplace) -> TextStream:
        """Return the texts."""
        return TextStream(GivenTexts(self._records, None), set(self.table.column_names).isdisjoint(ID_NAMES))


@dataclasses.dataclass(frozen=True)
class ReadVectorBlock(_Block, KeepVectors):
    """Reads vectors from a block."""

    unit: str
    table: Any
    pruning: tuple[Step, ...]
    fields: Fields | None
    names_terms: bool  #: whether terms are words in a block that has none to tell by

    def stream(self, work: Workplace) -> VectorStream:
        """Return the vectors."""
        found = _names_terms(dict(zip(self.table.schema.names, self.table.schema.types, strict=True)))
        if found is None:
            found = any(map(_has_words, self._tables())) or self.names_terms
        words = GrowingVocabulary() if found else None
        return VectorStream(
            self._documents(words),
            not set(self.table.column_names).isdisjoint(ID_NAMES),
            lambda: None if words is None else words.terms,
            is_loose=True,
        )

    def _documents(self, words: GrowingVocabulary | None) -> Iterator[tuple[Csr, Arrays]]:
        row = 0
        for table in self._tables():
            docs = _vectors(table, words)
            columns = _ids(table, self.where)
            if self.fields is not None:
                left = [name for name in table.column_names if name not in _PAIR]
                records = table.select(left).to_pylist()
                described = [self.fields.of_record(record, row + at) for at, record in enumerate(records)]
                columns.update(metadata_column(described))
            yield canonical(docs, row), columns
            row += docs.num_rows


def _ids(table: Any, where: str) -> Arrays:
    name = next((name for name in ID_NAMES if name in table.column_names), None)
    if name is None:
        return {}
    ids = table.column(name).to_pylist()
    if None in ids:
        raise InputError(where=where, expected="an id in every row", got=f"none in row {ids.index(None)} of a block")
    return id_arrays(ids, len(ids))


def _vector_column(names: Sequence[str]) -> str | None:
    return next((name for name in VECTOR_NAMES if name in names), None)


def _names_terms(types: Mapping[str, Any]) -> bool | None:
    """Whether terms are words, by the type of their column; None if that does not say."""
    import pyarrow as pa

    name = _vector_column(list(types))
    kind = types[name or "indices"]
    if not isinstance(kind, pa.DataType):
        return None
    if pa.types.is_struct(kind) and name is not None:
        return kind.num_fields > 0 or None  # a field per term
    kind = kind.key_type if pa.types.is_map(kind) else getattr(kind, "value_type", kind)
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_integer(kind):
        return False
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or None


def _has_words(table: Any) -> bool:
    """Whether a term is a word: in columns of any objects, and in those that have no term at all."""
    name = _vector_column(table.column_names)
    if name is None:
        return any(isinstance(term, str) for row in table.column("indices").to_pylist() for term in row or ())
    return any(isinstance(term, str) for row in table.column(name).to_pylist() for term in _mapping(row))


def _mapping(given: Any) -> Mapping[Any, Any]:
    """Return a vector as a mapping; arrow has structs with null for what is not there, or lists of pairs."""
    pairs = given.items() if isinstance(given, Mapping) else given or ()
    return {term: weight for term, weight in pairs if weight is not None}


def _vectors(table: Any, words: GrowingVocabulary | None) -> Csr:
    name = _vector_column(table.column_names)
    if name is not None:
        found = [_arrays(_mapping(row), words) for row in table.column(name).to_pylist()]
    else:
        pairs = zip(table.column("indices").to_pylist(), table.column("values").to_pylist(), strict=True)
        found = [_arrays((terms or [], weights or []), words) for terms, weights in pairs]
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum([len(terms) for terms, _ in found], dtype=np.int64)])
    terms = np.concatenate([terms for terms, _ in found])
    width = int(terms.max(initial=-1)) + 1 if words is None else len(words)
    return Csr(indptr, terms, np.concatenate([weights for _, weights in found]), width)


def _arrays(vector: Any, words: GrowingVocabulary | None) -> tuple[Any, Any]:
    """Return the numbers of terms and their weights."""
    if words is not None and not isinstance(vector, Mapping):
        vector = dict(zip(*vector, strict=True))
    if words is not None and not all(isinstance(term, str) for term in vector):
        raise InputError(expected="terms that are all words, or all numbers", got="both")
    return query_arrays(vector, None if words is None else words.number, 0)
