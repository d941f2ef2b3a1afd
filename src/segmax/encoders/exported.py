"""Exported models: where they are kept, whether they are those of the model, and how they are opened.

An export is a folder: `model.onnx` in float32, `model.int8.onnx`, `tokenizer.json`, and `export.json`, written last,
which says what the others are. It is kept in the user's cache, unless a folder was chosen for it: that one is an
encoder by itself, and has the table of queries, too, where the model has one. Older versions wrote exports into the
folder of the model; they are used where they lie.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from segmax.base.checks import checked_int, checked_number, shown
from segmax.base.errors import ConfigError, InputError, SegmaxError
from segmax.encoders.model_files import (
    EXPORT_FOLDER,
    EXPORT_NAME,
    check_version,
    damaged,
    is_export,
    is_folder,
    model_folders,
    read_json,
    stamps,
)
from segmax.encoders.network import Network, column_names
from segmax.encoders.runtimes import ExportedNetwork, OnnxRuntime, OpenVino, Runtime
from segmax.encoders.word_pieces import WordPieces

if TYPE_CHECKING:
    from segmax.encoders.transformer import TransformerEncoder

BACKENDS = ("torch", "onnx", "openvino")
FORMAT, VERSION = "segmax-export", 1
FILES = {"float32": "model.onnx", "int8": "model.int8.onnx", "bfloat16": "model.onnx"}
TOKENIZER = "tokenizer.json"
_MOST_COLUMNS = 1 << 24
_MOST_PIECES = 1 << 20  # of a text


class Side(NamedTuple):
    """How texts of one kind become word pieces."""

    max_length: int | None = None
    prompt: str = ""


class Description(NamedTuple):
    """What `export.json` says."""

    kind: str  # the class of the encoder
    num_columns: int
    of_tokens: bool  # whether a text gets a weight per token
    documents: Side
    queries: Side
    positions: int | None = None  # the most word pieces that the model can take
    separator: str = ""  # the word piece between a title and a text
    weak: float = 0.0  # vectors shorter than this are too near to the noise of 8 bits


class Exported(NamedTuple):
    """An exported model that is ready to run."""

    columns: list[str]
    network: Network
    description: Description


def opened(folder: Path, encoder: TransformerEncoder, *, backend: str, dtype: str) -> Exported:
    """Open an export with the lengths that an encoder asks for."""
    found = read_description(folder)
    file = folder / FILES[dtype]
    tokenizer = folder / TOKENIZER
    for path in (file, tokenizer):
        if not path.is_file():
            raise damaged(path, "a file of an export", "no such file")
    try:
        content = tokenizer.read_text(encoding="utf-8")
        asked_documents, asked_queries = encoder.asked_lengths()
        documents = _word_pieces(content, found.documents, asked_documents, found.positions)
        queries = _word_pieces(content, found.queries, asked_queries, found.positions)
        runtime = _runtime(backend, file, dtype)
    except SegmaxError:
        raise
    except Exception as error:  # each library has its own
        raise InputError(
            where=f"'{folder}'",
            expected="an exported model",
            got=f"one that cannot be loaded ({str(error)[:200]})",
            hint="export it again: segmax encoder export MODEL --overwrite",
        ) from error
    network = ExportedNetwork(
        runtime,
        documents,
        queries,
        found.num_columns,
        of_tokens=found.of_tokens,
        careful=None if dtype == "float32" else partial(_runtime, backend, folder / FILES["float32"], "float32"),
        weak=found.weak,
    )
    return Exported(column_names(documents.vocabulary(), found.num_columns), network, found)


def _runtime(backend: str, file: Path, dtype: str) -> Runtime:
    return OpenVino(file, dtype) if backend == "openvino" else OnnxRuntime(file)


def _word_pieces(tokenizer: str, side: Side, asked: int | None, positions: int | None) -> WordPieces:
    lengths = [length for length in (asked or side.max_length, positions) if length is not None]
    return WordPieces(tokenizer, min(lengths, default=None), side.prompt)


# --- places ----------------------------------------------------------------------------------------------------------


def find_export(name: str, kind: str) -> Path | None:
    """Return the export of a model, if there is one of its files as they are now; an exported model is its own."""
    if is_export(Path(name)):
        return Path(name)
    for folder in export_places(name):
        if (folder / EXPORT_NAME).is_file():
            try:
                content = _read(folder)
                if content.get("kind") == kind and content.get("files") == files_of(name):
                    read_description(folder)
                    return folder
            except InputError as error:
                if folder == cached_place(name):
                    raise (_to_export_again(error) if error.expected else error) from error
                # one beside the model that cannot be read counts as none: the cache can have one
    return None


def _to_export_again(error: InputError) -> InputError:
    """Return the error about an export in the cache, with what makes it again."""
    hint = "export it again: segmax encoder export MODEL --overwrite"
    return InputError(where=error.where, expected=error.expected, got=error.got, hint=hint)


def can_run(backend: str, name: str, kind: str) -> bool:
    """Return whether a backend is installed here, and a model exported for it, or the packages to export it."""
    needed = ["openvino" if backend == "openvino" else "onnxruntime"]
    if find_export(name, kind) is None:
        needed += ["torch", "onnx", "onnxscript", "onnxruntime"]
    return all(importlib.util.find_spec(package) is not None for package in needed)


def export_places(name: str) -> list[Path]:
    """Return where the export of a model may be: in the cache, or beside the model."""
    beside = Path(name, EXPORT_FOLDER)
    return [place for place in (cached_place(name), beside) if place is not None and is_folder(place)]


def cached_place(name: str) -> Path | None:
    """Return where the cache has, or would have, the export of a model; None for a user without a cache."""
    folder = Path(name)
    key = str(folder.resolve()) if is_folder(folder) else name
    root = _cache()
    return None if root is None else root / "segmax" / "exports" / hashlib.sha256(key.encode()).hexdigest()[:24]


def _cache() -> Path | None:
    """Return the folder of the user's caches; None where the system knows no home of the user."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if given.is_absolute():  # the specification has relative ones ignored
        return given
    try:
        return Path.home() / ".cache"
    except RuntimeError:  # a container that runs as a number
        return None


def files_of(name: str) -> list[list[Any]]:
    """Return what tells the files of a model from those of another: names, sizes, checksums or times."""
    folders = model_folders(name)
    return stamps(folders[0], times=True) if folders else []


# --- the description -------------------------------------------------------------------------------------------------


def described(description: Description, files: list[list[Any]]) -> bytes:
    """Return the content of `export.json`."""
    content = {
        "format": FORMAT,
        "version": VERSION,
        **description._asdict(),
        "documents": description.documents._asdict(),
        "queries": description.queries._asdict(),
        "files": files,
    }
    return json.dumps(content, indent=1).encode()


def _read(folder: Path) -> dict[str, Any]:
    path = folder / EXPORT_NAME
    content = read_json(path)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise damaged(path, f"an object of the format {FORMAT!r}", str(content)[:40])
    check_version(path, content.get("version"), VERSION)
    return content


def read_description(folder: Path) -> Description:
    """Read `export.json`, or raise InputError."""
    content, path = _read(folder), folder / EXPORT_NAME
    try:
        return Description(
            kind=str(content["kind"]),
            num_columns=checked_int("num_columns", content["num_columns"], 1, _MOST_COLUMNS),
            of_tokens=content["of_tokens"] is True,
            documents=_side(content["documents"]),
            queries=_side(content["queries"]),
            positions=_length(content["positions"]),
            separator=_text(content["separator"]),
            weak=checked_number("weak", content["weak"]),
        )
    except (KeyError, TypeError, AttributeError, ConfigError) as error:
        raise damaged(path, "the description of an export", f"one that is not valid ({error})") from error


def check_kind(folder: Path, kind: str) -> None:
    """Raise InputError if an exported model is of another kind."""
    found = read_description(folder).kind
    if found != kind:
        raise InputError(where=f"'{folder}'", expected=f"an exported {kind}", got=f"an exported {shown(found)}")


def _side(content: dict[str, Any]) -> Side:
    return Side(_length(content["max_length"]), _text(content["prompt"]))


def _length(value: object) -> int | None:
    return None if value is None else checked_int("max_length", value, 1, _MOST_PIECES)


def _text(value: object) -> str:
    if not isinstance(value, str):
        msg = f"expected a string, got {value!r}"
        raise TypeError(msg)
    return value
