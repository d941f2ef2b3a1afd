"""Which columns of a parquet or Arrow file hold the vectors.

A sparse column is one of: a map of term to weight; a struct of `indices` and `values`, or of `tokens` and `weights`; or
two columns with such names. Ids are a column named like those of JSON records.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from segmax.base.errors import InputError
from segmax.base.optional import need
from segmax.io.records import ID_NAMES

_NUMBER_NAMES = ("indices", "index")
_WORD_NAMES = ("tokens", "terms", "words")
_WEIGHT_NAMES = ("values", "weights", "scores")
NUM_COLUMNS = b"num_columns"


def pyarrow() -> Any:
    """Import pyarrow, with the modules that are used."""
    for module in ("pyarrow.ipc", "pyarrow.parquet"):
        need(module, "a parquet file or a folder of the datasets library", "arrow")
    return need("pyarrow", "a parquet file or a folder of the datasets library", "arrow")


class SparseColumns(NamedTuple):
    """Where ids, terms and weights are."""

    id: str | None
    column: str | None  # of a map or a struct; None: two columns
    terms: str | None  # None: a map
    weights: str | None
    words: bool


def promised_columns(schema: Any) -> int | None:
    """Return how many columns the vectors have, where the file states it."""
    value = (schema.metadata or {}).get(NUM_COLUMNS)
    return int(value) if value is not None and value.isdigit() else None


def sparse_columns(schema: Any, path: Path) -> SparseColumns:
    """Find the sparse columns."""
    types = pyarrow().types
    doc_id = next((name for name in ID_NAMES if name in schema.names), None)

    def is_list(kind: Any) -> bool:
        return bool(types.is_list(kind) or types.is_large_list(kind))

    def is_word(kind: Any) -> bool:
        kind = kind.value_type if types.is_dictionary(kind) else kind
        return bool(types.is_string(kind) or types.is_large_string(kind))

    def checked(terms: Any, weights: Any) -> bool:
        """Return whether terms are words; refuse what are neither words nor numbers."""
        numeric = [types.is_integer(kind) or types.is_floating(kind) for kind in (terms, weights)]
        if not numeric[1] or not (numeric[0] or is_word(terms)):
            raise InputError(
                where=f"'{path}'",
                expected="terms as words or whole numbers, and weights as numbers",
                got=f"{terms}, {weights}",
            )
        return is_word(terms)

    def pair(fields: dict[str, Any]) -> tuple[str, str, bool] | None:
        weights = next((n for n in _WEIGHT_NAMES if n in fields and is_list(fields[n])), None)
        for name in (*_NUMBER_NAMES, *_WORD_NAMES):
            if weights is None or name not in fields or not is_list(fields[name]):
                continue
            return name, weights, checked(fields[name].value_type, fields[weights].value_type)
        return None

    for field in schema:
        if types.is_map(field.type):
            return SparseColumns(doc_id, field.name, None, None, checked(field.type.key_type, field.type.item_type))
        if types.is_struct(field.type) and (found := pair({f.name: f.type for f in field.type})) is not None:
            return SparseColumns(doc_id, field.name, *found)
    if (found := pair({field.name: field.type for field in schema})) is not None:
        return SparseColumns(doc_id, None, *found)
    raise InputError(
        where=f"'{path}'",
        expected=(
            "sparse columns (a map of term to weight, or lists 'indices' and 'values', or 'tokens' and 'weights')"
        ),
        got=f"{', '.join(f'{f.name}: {f.type}' for f in schema)[:300]}",
    )
