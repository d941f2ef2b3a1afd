"""From texts to an index: reading, encoding and building in one go.

Importing this package loads none of that: searching needs only `segmax.text.queries`.
"""

from typing import TYPE_CHECKING

from segmax.base.optional import on_demand

if TYPE_CHECKING:
    from segmax.text.pipeline import from_texts, from_vectors
    from segmax.text.shards import Encoding, encode_texts
    from segmax.text.table_making import TableReport, make_query_table

__all__ = ["Encoding", "TableReport", "encode_texts", "from_texts", "from_vectors", "make_query_table"]

_NAMES = {
    "pipeline": "from_texts from_vectors",
    "shards": "Encoding encode_texts",
    "table_making": "TableReport make_query_table",
}
__getattr__ = on_demand(__name__, _NAMES)
