"""Writing a table of query weights: a folder that segmax and sentence-transformers read."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segmax.base.files import check_replaceable, replacing_folder, write_errors
from segmax.encoders.table_files import TABLE_FORMAT, TABLE_NAME, TABLE_VERSION, TableFiles

_STATIC = "sentence_transformers.sparse_encoder.modules.SparseStaticEmbedding"
#: Tokens that stand for padding, one of which sentence-transformers needs. Their weights are never used.
_PADDING = ("[PAD]", "<pad>", "<|pad|>", "<|endoftext|>", "[UNK]", "<unk>")


def check_target(target: Path, *, overwrite: bool) -> None:
    """Raise IndexExistsError if a table must not be written to a path."""
    check_replaceable(target, TABLE_NAME, "a table", overwrite=overwrite)


def write_table(
    target: Path,
    tokenizer: Any,
    weights: NDArray[np.float32],
    *,
    how: TableFiles,
    about: Mapping[str, Any],
    overwrite: bool,
) -> None:
    """Write a table under another name, then rename it; see `QueryTable.save`."""
    check_target(target, overwrite=overwrite)
    with write_errors(target), replacing_folder(target) as made:
        for name, content in _files(tokenizer, weights, how, about).items():
            (made / name).write_bytes(content)


def _files(tokenizer: Any, weights: NDArray[np.float32], how: TableFiles, about: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the content of every file by name: ours, and those that make it a model of sentence-transformers."""
    options: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast"}
    padding = next((token for token in _PADDING if tokenizer.token_to_id(token) is not None), None)
    if padding is not None:
        options["pad_token"] = padding
    if how.max_length is not None:
        options["model_max_length"] = how.max_length
    if how.cuts_left:
        options["truncation_side"] = "left"
    whole: dict[str, Any] = {"prompts": {"query": how.prompt}, "default_prompt_name": None}
    if how.most_terms is not None:
        whole["max_active_dims"] = how.most_terms
    return {
        "tokenizer.json": tokenizer.to_str().encode("utf-8"),
        "tokenizer_config.json": _json(options),
        "model.safetensors": _safetensors(weights),
        "config.json": _json({"frozen": True}),
        "config_sentence_transformers.json": _json({"model_type": "SparseEncoder", **whole}),
        "modules.json": _json([{"idx": 0, "name": "0", "path": "", "type": _STATIC}]),
        TABLE_NAME: _json({"format": TABLE_FORMAT, "version": TABLE_VERSION, **about}),
    }


def _json(content: Any) -> bytes:
    return json.dumps(content, indent=2).encode("utf-8")


def _safetensors(weights: NDArray[np.float32]) -> bytes:
    """Return a file of one tensor: the length of a JSON object, that object, and the numbers."""
    numbers = weights.astype("<f4").tobytes()
    told = {"dtype": "F32", "shape": [len(weights)], "data_offsets": [0, len(numbers)]}
    header = json.dumps({"weight": told}).encode()
    header += b" " * (-len(header) % 8)
    return struct.pack("<Q", len(header)) + header + numbers
