"""Files of others: vectors, texts, queries, judgments and runs, in and out.

docs/data.md shows all of them.
"""

from segmax.io.documents import open_documents
from segmax.io.queries import Queries, read_queries
from segmax.io.recognize import TEXT_FORMATS, VECTOR_FORMATS, format_of
from segmax.io.scale import SCALES, Scale
from segmax.io.texts import open_texts
from segmax.io.trec import read_qrels, read_run, untied, write_qrels, write_run
from segmax.io.vector_writer import WRITTEN_FORMATS, write_vectors
from segmax.io.vectors import open_vectors
from segmax.vectors.documents import Document, TextReader, VectorBatch, VectorReader

__all__ = [
    "SCALES",
    "TEXT_FORMATS",
    "VECTOR_FORMATS",
    "WRITTEN_FORMATS",
    "Document",
    "Queries",
    "Scale",
    "TextReader",
    "VectorBatch",
    "VectorReader",
    "format_of",
    "open_documents",
    "open_texts",
    "open_vectors",
    "read_qrels",
    "read_queries",
    "read_run",
    "untied",
    "write_qrels",
    "write_run",
    "write_vectors",
]
