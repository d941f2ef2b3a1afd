"""Vectors as parquet files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from segmax.io.arrow_schema import NUM_COLUMNS, pyarrow
from segmax.io.jsonl import names_of
from segmax.io.writing import write_whole
from segmax.vectors.csr import canonical
from segmax.vectors.documents import BaseVectors, VectorBatch


def write_parquet(path: Path, reader: BaseVectors, batches: Iterator[VectorBatch], *, overwrite: bool) -> None:
    """Write a parquet file: id, then tokens and weights, or indices and values where terms have no words."""
    arrow = pyarrow()
    words = reader.terms is not None
    names = ("tokens", "weights") if words else ("indices", "values")
    kinds = (arrow.string() if words else arrow.int32(), arrow.float64())
    fields = [arrow.field("id", arrow.string())] if reader.has_ids else []
    fields += [arrow.field(name, arrow.list_(kind)) for name, kind in zip(names, kinds, strict=True)]
    num_rows = 0
    with write_whole(path, overwrite=overwrite, compress=False) as file:
        writer: Any = None
        try:
            for ids, given, _ in batches:
                vectors = canonical(given, num_rows)
                num_rows += vectors.num_rows
                if writer is None:
                    metadata = None if words else {NUM_COLUMNS: str(vectors.num_columns).encode()}
                    schema = arrow.schema(fields, metadata=metadata)
                    writer = arrow.parquet.ParquetWriter(file, schema, compression="zstd")
                terms = arrow.array(vectors.indices.astype(np.int64 if words else np.int32))
                if words:
                    terms = arrow.array(names_of(reader, 0, vectors.num_columns), arrow.string()).take(terms)
                offsets = arrow.array(vectors.indptr.astype(np.int32))
                weights = arrow.array(vectors.values.astype(np.float64))
                lists = [arrow.ListArray.from_arrays(offsets, entries) for entries in (terms, weights)]
                columns = [arrow.array(ids, arrow.string()), *lists] if reader.has_ids else lists
                writer.write_batch(arrow.record_batch(columns, schema=writer.schema))
        finally:
            if writer is not None:
                writer.close()
