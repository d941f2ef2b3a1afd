"""From texts to an index: reading, encoding and building in one go."""

from segmax.text.pipeline import from_texts, from_vectors
from segmax.text.shards import Encoding, encode_texts

__all__ = ["Encoding", "encode_texts", "from_texts", "from_vectors"]
