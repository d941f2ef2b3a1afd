"""Writing a table of query weights: a folder that segmax and sentence-transformers read."""

from __future__ import annotations

import json
import shutil
import struct
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segmax.base.errors import IndexExistsError
from segmax.base.files import replacing, sync_folder, write_errors
from segmax.encoders.table_files import TABLE_FORMAT, TABLE_NAME, TABLE_VERSION

_STATIC = "sentence_transformers.sparse_encoder.modules.SparseStaticEmbedding"
#: Tokens that stand for padding, one of which sentence-transformers needs. Their weights are never used.
_PADDING = ("[PAD]", "<pad>", "<|pad|>", "<|endoftext|>", "[UNK]", "<unk>")


def check_target(target: Path, *, overwrite: bool) -> None:
    """Raise IndexExistsError if a table must not be written to a path."""
    if not target.exists() and not target.is_symlink():
        return
    if not overwrite:
        raise IndexExistsError(f"'{target}' exists", hint="choose another path, or pass {overwrite=True}")
    if target.is_symlink() or not (target / TABLE_NAME).is_file():
        raise IndexExistsError(
            where=f"'{target}'",
            expected="a table that segmax wrote, to overwrite it",
            got="something else",
            hint="choose another path",
        )


def write_table(
    target: Path,
    tokenizer: Any,
    weights: NDArray[np.float32],
    *,
    prompt: str,
    max_length: int | None,
    about: Mapping[str, Any],
    overwrite: bool,
) -> None:
    """Write a table under another name, then rename it; see `QueryTable.save`."""
    check_target(target, overwrite=overwrite)
    with write_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{target.name[:100]}.", dir=target.parent))
        try:
            made = scratch / "new"
            made.mkdir()
            for name, content in _files(tokenizer, weights, prompt, max_length, about).items():
                with replacing(made / name) as file:
                    file.write(content)
            _install(made, target, scratch / "old")
            sync_folder(target.parent)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def _install(made: Path, target: Path, old: Path) -> None:
    if target.exists():
        target.rename(old)
    try:
        made.rename(target)
    except BaseException:
        if old.exists():
            old.rename(target)
        raise


def _files(
    tokenizer: Any, weights: NDArray[np.float32], prompt: str, max_length: int | None, about: Mapping[str, Any]
) -> dict[str, bytes]:
    """Return the content of every file by name: ours, and those that make it a model of sentence-transformers."""
    options: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast"}
    padding = next((token for token in _PADDING if tokenizer.token_to_id(token) is not None), None)
    if padding is not None:
        options["pad_token"] = padding
    if max_length is not None:
        options["model_max_length"] = max_length
    prompts = {"prompts": {"query": prompt}, "default_prompt_name": None}
    return {
        "tokenizer.json": tokenizer.to_str().encode("utf-8"),
        "tokenizer_config.json": _json(options),
        "model.safetensors": _safetensors(weights),
        "config.json": _json({"frozen": True}),
        "config_sentence_transformers.json": _json({"model_type": "SparseEncoder", **prompts}),
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
