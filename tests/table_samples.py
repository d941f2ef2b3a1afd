"""Small tables of query weights, written by hand, so that reading them takes neither torch nor transformers."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "big", "cat", "dog", "##s", "house", "of"]
WEIGHTS = np.array([0, 0.5, 0, 0, 0.25, 1.5, 3, 2.75, 0.125, 4, -1], dtype=np.float32)
STATIC = "sentence_transformers.sparse_encoder.modules.sparse_static_embedding.SparseStaticEmbedding"
ROUTER = "sentence_transformers.base.modules.router.Router"


def tokenizer() -> tokenizers.Tokenizer:
    """Word pieces in lower case, with [CLS] and [SEP] around texts, cut and padded as saved tokenizers may be."""
    model = tokenizers.models.WordPiece({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]")
    made = tokenizers.Tokenizer(model)
    made.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    made.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    made.enable_truncation(3)
    made.enable_padding(length=16)
    return made


def write_tokenizer(folder: Path, **options: Any) -> None:
    """tokenizer.json and tokenizer_config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(tokenizer().to_str())
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 64, **options}))


def safetensors(arrays: Mapping[str, np.ndarray], dtype: str = "F32") -> bytes:
    """Arrays in the format of safetensors."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    content = b""
    for name, array in arrays.items():
        start, content = len(content), content + array.tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [start, len(content)]}
    told = json.dumps(header).encode()
    return struct.pack("<Q", len(told)) + told + content


def write_modules(folder: Path, kind: str) -> None:
    """modules.json with one module."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "modules.json").write_text(json.dumps([{"idx": 0, "name": "0", "path": "", "type": kind}]))


def write_static(folder: Path, weights: np.ndarray = WEIGHTS, **options: Any) -> None:
    """The folder of a SparseStaticEmbedding."""
    write_tokenizer(folder, **options)
    (folder / "model.safetensors").write_bytes(safetensors({"weight": weights}))
    (folder / "config.json").write_text('{"frozen": true}')


def write_router(folder: Path, weights: np.ndarray = WEIGHTS, config: Mapping[str, Any] | None = None) -> Path:
    """A model of sentence-transformers without the part for documents; return the folder of its table."""
    write_modules(folder, ROUTER)
    parts = {"types": {"q": STATIC, "": "sentence_transformers.base.modules.Transformer"}, "parameters": {}}
    parts["structure"] = {"query": ["q"], "document": [""]}
    (folder / "router_config.json").write_text(json.dumps(parts))
    (folder / "config_sentence_transformers.json").write_text(json.dumps(config or {}))
    write_static(folder / "q", weights)
    return folder / "q"


def write_opensearch(folder: Path, file: str = "idf.json") -> None:
    """The two files that OpenSearch's tables consist of."""
    write_tokenizer(folder)
    by_token = {word: float(weight) for word, weight in zip(WORDS, WEIGHTS, strict=True) if weight > 0}
    if file == "idf.json":
        (folder / file).write_text(json.dumps({**by_token, "zebra": 9.0}))
    else:
        (folder / file).write_text("".join(f"{word}\t{weight}\n" for word, weight in by_token.items()))
