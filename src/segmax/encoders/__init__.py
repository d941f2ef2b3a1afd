"""From text to sparse vectors: BM25, which needs no model, and learned encoders, which need `segmax[encoders]`."""

from segmax.encoders.base import Encoder, LearningEncoder
from segmax.encoders.bm25 import BM25
from segmax.encoders.choosing import ExportReport, export_encoder
from segmax.encoders.lexmae import LexMAE
from segmax.encoders.loading import as_encoder, load_encoder
from segmax.encoders.query_table import QueryTable
from segmax.encoders.sparse_model import SparseModel
from segmax.encoders.unicoil import UniCOIL

__all__ = [
    "BM25",
    "Encoder",
    "ExportReport",
    "LearningEncoder",
    "LexMAE",
    "QueryTable",
    "SparseModel",
    "UniCOIL",
    "as_encoder",
    "export_encoder",
    "load_encoder",
]
