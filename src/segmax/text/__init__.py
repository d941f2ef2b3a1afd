"""From texts to an index: reading, encoding and building in one go.

Importing this package loads none of that: searching needs only `segmax.text.queries`.
"""

from typing import TYPE_CHECKING

from segmax.base.optional import on_demand

if TYPE_CHECKING:
    from segmax.text.pipeline import from_texts, from_vectors
    from segmax.text.shards import Encoding, encode_texts

__all__ = ["Encoding", "encode_texts", "from_texts", "from_vectors"]

__getattr__ = on_demand(__name__, {"pipeline": "from_texts from_vectors", "shards": "Encoding encode_texts"})
