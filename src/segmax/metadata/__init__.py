"""What documents are described by: JSON objects, filters over them, counts by value, declared types."""

from segmax.metadata.packing import pack_metadata
from segmax.metadata.schema import Schema
from segmax.metadata.store import METADATA_COMPONENTS, Metadata
from segmax.metadata.values import JSON, Scalar
from segmax.metadata.where import Where, parse_where

__all__ = [
    "JSON",
    "METADATA_COMPONENTS",
    "Metadata",
    "Scalar",
    "Schema",
    "Where",
    "pack_metadata",
    "parse_where",
]
