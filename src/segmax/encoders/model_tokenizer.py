"""The tokenizer and the vocabulary of a document encoder, from its files where that takes no model."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from segmax.base.errors import ConfigError
from segmax.encoders.base import Encoder
from segmax.encoders.loading import as_encoder, encoder_class
from segmax.encoders.model_files import find_model, model_folders, read_json
from segmax.encoders.network import column_names
from segmax.encoders.query_table import read_tokenizer, tokenizer_of
from segmax.encoders.sparse_model import SparseModel
from segmax.encoders.transformer import TransformerEncoder


class ModelTokenizer(NamedTuple):
    """How a model splits texts, and the token of each of its columns."""

    tokenizer: Any  # of the package tokenizers, which neither cuts nor pads
    vocabulary: list[str]

    @property
    def special(self) -> set[int]:
        """The columns of special tokens, such as [CLS]."""
        return {number for number, token in self.tokenizer.get_added_tokens_decoder().items() if token.special}


def model_tokenizer(model: object) -> ModelTokenizer:
    """Return the tokenizer of a document encoder, given by name, as a folder, or loaded.

    Raises
    ------
    ConfigError
        It is not a model, or its columns are no tokens.
    """
    if isinstance(model, (str, os.PathLike)):
        found = _of_files(os.fspath(model)) if encoder_class(model) is SparseModel else None
        return _plain(found) if found is not None else model_tokenizer(as_encoder(model))
    encoder = model if isinstance(model, Encoder) else as_encoder(model)
    if not isinstance(encoder, TransformerEncoder):
        raise ConfigError(expected="a model that encodes documents", got=repr(encoder))
    library = encoder._tokenizer or getattr(getattr(encoder, "_model", None), "tokenizer", None)
    fast = getattr(library, "backend_tokenizer", None)
    if fast is None:
        raise ConfigError(expected="a model with a tokenizer of the package tokenizers", got=repr(encoder))
    return _plain(ModelTokenizer(tokenizer_of(fast.to_str()), encoder.vocabulary))


def _plain(found: ModelTokenizer) -> ModelTokenizer:
    known = found.tokenizer.get_vocab(with_added_tokens=True)
    if column_names(known, len(found.vocabulary)) != list(found.vocabulary):
        raise ConfigError(expected="a model whose columns are its tokens", got="one with other columns, such as CSR")
    found.tokenizer.no_padding()
    found.tokenizer.no_truncation()
    return found


def _of_files(name: str) -> ModelTokenizer | None:
    """Return the tokenizer of a masked language model that is here; None where the model has to be loaded for it."""
    folders = model_folders(name.removeprefix("sparse:")) if find_model(name.removeprefix("sparse:"), "a model") else []
    for folder in folders:
        for path in _with_tokenizer(folder):
            config = read_json(path / "config.json")
            size = config.get("vocab_size") if isinstance(config, dict) else None
            if isinstance(size, int) and 0 < size < 1 << 24 and not _has_autoencoder(folder):
                tokenizer = read_tokenizer(path / "tokenizer.json")
                return ModelTokenizer(tokenizer, column_names(tokenizer.get_vocab(with_added_tokens=True), size))
    return None


def _with_tokenizer(folder: Path) -> Iterator[Path]:
    """Yield the folder and its subfolders, those of a Router's routes, that hold a transformer and its tokenizer."""
    for path in (folder, *sorted(path for path in folder.iterdir() if path.is_dir())):
        if (path / "tokenizer.json").is_file() and (path / "config.json").is_file():
            yield path


def _has_autoencoder(folder: Path) -> bool:
    modules = folder / "modules.json"
    return modules.is_file() and "SparseAutoEncoder" in str(read_json(modules))
