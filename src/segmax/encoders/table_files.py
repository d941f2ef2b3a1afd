"""The files of a table of query weights: where they are in a folder, and their content, read as hostile input.

Three layouts have one: a model of sentence-transformers whose queries go through a `SparseStaticEmbedding`, a model of
OpenSearch for documents alone (`idf.json` beside `tokenizer.json`), and what `QueryTable.save` writes.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax.base.files import open_regular
from segmax.encoders.model_files import (
    cannot_read,
    check_version,
    damaged,
    is_export,
    read_json,
    read_pickled,
    stored_tensors,
)

#: What says that a folder is a table that segmax wrote.
TABLE_NAME = "query_table.json"
TABLE_FORMAT = "segmax-query-table"
TABLE_VERSION = 1
#: The folder of such a table in an exported model.
EXPORTED_TABLE = "queries"

#: OpenSearch's names for weights by token, the first of which is read.
_OPENSEARCH_NAMES = ("idf.json", "query_token_weights.txt")
_TABLE_CLASSES = ("SparseStaticEmbedding", "IDF")  # the second is what sentence-transformers first called it
_ROUTER_CLASSES = ("Router", "Asym")
_LIBRARY = "sentence_transformers."
#: Far more than a tokenizer has.
MOST_TERMS = 1 << 24
_MOST_TEXT_BYTES = 1 << 28
_LARGEST = 2**31 - 1
_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}


class TableFiles(NamedTuple):
    """Where a table of weights is, and what happens to a query before and after the lookup."""

    tokenizer: Path
    weights: Path
    num_terms: int | None = None  # None: as many as there are weights
    prompt: str = ""
    max_length: int | None = None  # tokens of a query; None: all of them
    cuts_left: bool = False  # whether the first tokens of a long query are dropped, not the last
    most_terms: int | None = None  # the largest weights of a query that stay; None: all of them


def find_table(folder: Path) -> TableFiles | None:
    """Return the table that encodes the queries of the model in a folder; None where a transformer does.

    Reads small files only. What sentence-transformers would refuse is left to it.
    """
    if is_export(folder):
        folder /= EXPORTED_TABLE
    found = _opensearch_table(folder) if not (folder / "modules.json").is_file() else _library_table(folder)
    return found if found is not None and found.tokenizer.is_file() and found.weights.is_file() else None


def is_plain_table(folder: Path) -> bool:
    """Return whether a folder has a table and no model: what segmax wrote, or OpenSearch's two files alone."""
    try:
        if (folder / TABLE_NAME).is_file():
            return True
        return not (folder / "config.json").is_file() and _opensearch_weights(folder) is not None
    except (OSError, ValueError):  # a name that is too long, or has a zero byte
        return False


# --- layouts ---------------------------------------------------------------------------------------------------------


def _opensearch_weights(folder: Path) -> Path | None:
    return next((folder / name for name in _OPENSEARCH_NAMES if (folder / name).is_file()), None)


def _opensearch_table(folder: Path) -> TableFiles | None:
    weights = _opensearch_weights(folder)
    if weights is None:
        return None
    num_terms = _size(_options(folder / "config.json").get("vocab_size"), MOST_TERMS)
    return TableFiles(folder / "tokenizer.json", weights, num_terms=num_terms, **_cutting(folder))


def _library_table(folder: Path) -> TableFiles | None:
    """Return the table of a model of sentence-transformers: its only module, or the only one on the way of queries."""
    modules = read_json(folder / "modules.json")
    if not isinstance(modules, list) or len(modules) != 1 or not isinstance(modules[0], Mapping):
        return None
    home = _inside(folder, modules[0].get("path"))
    if home is not None and _is_class(modules[0].get("type"), _ROUTER_CLASSES):
        home = _query_module(home)
    elif not _is_class(modules[0].get("type"), _TABLE_CLASSES):
        return None
    if home is None or "path" in _options(home / "config.json"):  # which names a file elsewhere
        return None
    safe = home / "model.safetensors"
    return TableFiles(
        home / "tokenizer.json",
        safe if safe.is_file() else home / "pytorch_model.bin",
        **_cutting(home),
        **_of_whole_model(folder),
    )


def _query_module(home: Path) -> Path | None:
    """Return the folder of the table that a Router sends queries through; None where it sends them elsewhere."""
    config = _options(home / "router_config.json") or _options(home / "config.json")  # an older name
    types, structure = config.get("types"), config.get("structure")
    if not isinstance(types, Mapping) or not isinstance(structure, Mapping):
        return None
    modules = structure.get(_query_route(config, structure))
    if not isinstance(modules, list) or len(modules) != 1 or not isinstance(modules[0], str):
        return None
    return _inside(home, modules[0]) if _is_class(types.get(modules[0]), _TABLE_CLASSES) else None


def _query_route(config: Mapping[str, Any], structure: Mapping[str, Any]) -> str | None:
    """Return the route of a text that is a query, found as the Router does."""
    parameters = config.get("parameters")
    told = parameters.get("route_mappings") if isinstance(parameters, Mapping) else None
    mappings: dict[Any, Any] = {}
    for key, route in told.items() if isinstance(told, Mapping) else ():
        with contextlib.suppress(ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            mappings[ast.literal_eval(str(key)[:200])] = route
    for key in (("query", "text"), ("query", None), (None, "text"), (None, None)):
        if key in mappings:
            return mappings[key] if isinstance(mappings[key], str) else None
    return next((route for route in ("query", "text") if route in structure), None)


def _is_class(name: object, classes: tuple[str, ...]) -> bool:
    return isinstance(name, str) and name.startswith(_LIBRARY) and name.rpartition(".")[2] in classes


def _inside(folder: Path, name: object) -> Path | None:
    """Return a subfolder by name, the folder itself for an empty one; None for a name that leads out of it."""
    if not isinstance(name, str) or "\0" in name or len(name) > 200:
        return None
    path = PurePosixPath(name)
    return None if path.is_absolute() or ".." in path.parts else folder / path


def _options(path: Path) -> Mapping[str, Any]:
    content = read_json(path) if path.is_file() else {}
    return content if isinstance(content, Mapping) else {}


def _cutting(folder: Path) -> dict[str, Any]:
    """Return how the tokenizer in a folder cuts long texts."""
    config = _options(folder / "tokenizer_config.json")
    return {
        "max_length": _size(config.get("model_max_length"), _LARGEST),  # 10³⁰ stands for no limit
        "cuts_left": config.get("truncation_side") == "left",
    }


def _of_whole_model(folder: Path) -> dict[str, Any]:
    """Return what a model of sentence-transformers puts before queries, and how many weights it keeps."""
    config = _options(folder / "config_sentence_transformers.json")
    prompts = config.get("prompts")
    prompts = prompts if isinstance(prompts, Mapping) else {}
    prompt = prompts.get("query" if "query" in prompts else config.get("default_prompt_name"))
    return {
        "prompt": prompt if isinstance(prompt, str) else "",
        "most_terms": _size(config.get("max_active_dims"), _LARGEST),
    }


def _size(value: object, most: int) -> int | None:
    """Return a whole number from 1 to `most`; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most else None


# --- content ---------------------------------------------------------------------------------------------------------


def read_table(files: TableFiles, columns: Mapping[str, int]) -> NDArray[np.float32]:
    """Return the weight of every column.

    Parameters
    ----------
    files
        What `find_table` found.
    columns
        The column of every token.

    Raises
    ------
    InputError
        A file is damaged, or a weight is no finite number.
    MissingPackageError
        The weights are pickled, and torch is not there to read them.
    """
    path = files.weights
    if path.suffix == ".safetensors":
        weights = _read_tensor(path)
    elif path.suffix == ".bin":
        weights = _read_pickled_tensor(path)
    else:
        weights = _by_column(
            path, _read_by_token(path), columns, files.num_terms or max(columns.values(), default=0) + 1
        )
    if not np.isfinite(weights).all():
        raise damaged(path, "finite weights", "one that is not")
    return weights


def _read_tensor(path: Path) -> NDArray[np.float32]:
    tensors = stored_tensors(path)
    tensor = tensors.get("weight")
    if tensor is None or len(tensors) > 1:
        raise damaged(path, "one tensor, 'weight'", ", ".join(sorted(tensors))[:80] or "none")
    kind = _DTYPES.get(tensor.dtype)
    if kind is None or len(tensor.shape) != 1 or not 1 <= tensor.shape[0] <= MOST_TERMS:
        raise damaged(path, "a weight per token, as floats", f"{tensor.dtype[:20]} of shape {tensor.shape}"[:80])
    (count,) = tensor.shape
    num_bytes = count * np.dtype(kind).itemsize
    try:
        with open_regular(path) as file:
            file.seek(tensor.start)
            content = file.read(num_bytes)
    except OSError as error:
        raise cannot_read(path, error) from error
    if tensor.stop - tensor.start != num_bytes or len(content) != num_bytes:
        raise damaged(path, f"{num_bytes:,} bytes of weights", f"{len(content):,}")
    return _as_floats(np.frombuffer(content, dtype=kind), is_bfloat=tensor.dtype == "BF16")


def _as_floats(numbers: NDArray[Any], *, is_bfloat: bool = False) -> NDArray[np.float32]:
    if is_bfloat:  # the upper half of a float32
        return (numbers.astype(np.uint32) << 16).view(np.float32)
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused
        return numbers.astype(np.float32)


def _read_pickled_tensor(path: Path) -> NDArray[np.float32]:
    weight = read_pickled(path, f"'{path}'").get("weight")
    if weight is None or getattr(weight, "ndim", 0) != 1 or not 1 <= len(weight) <= MOST_TERMS:
        raise damaged(path, "one tensor, 'weight', with a weight per token", "something else")
    return _as_floats(weight.float().numpy())


def _read_by_token(path: Path) -> Mapping[str, float]:
    content = read_json(path) if path.suffix == ".json" else _read_lines(path)
    if not isinstance(content, Mapping) or not content or len(content) > MOST_TERMS:
        raise damaged(path, "weights by token", str(content)[:40])
    for token, weight in content.items():
        if not isinstance(weight, (int, float)) or isinstance(weight, bool):
            raise damaged(path, "a number for every token", f"{str(weight)[:40]} for {token[:40]!r}")
    return content


def _read_lines(path: Path) -> dict[str, Any]:
    """Return weights by token from lines of a token, white space and its weight."""
    try:
        if path.stat().st_size > _MOST_TEXT_BYTES:
            raise damaged(path, f"at most {_MOST_TEXT_BYTES >> 20} MiB", f"{path.stat().st_size:,} bytes")
        with open_regular(path) as file:
            lines = file.read().decode("utf-8").split("\n")
        pairs = [line.rsplit(maxsplit=1) for line in lines if line.strip()]
        return {token: float(weight) for token, weight in pairs}
    except OSError as error:
        raise cannot_read(path, error) from error
    except ValueError as error:
        raise damaged(path, "lines of a token and its weight", "something else") from error


def _by_column(path: Path, weights: Mapping[str, float], columns: Mapping[str, int], size: int) -> NDArray[np.float32]:
    if size > MOST_TERMS:
        raise damaged(
            path.with_name("tokenizer.json"), f"at most {MOST_TERMS:,} tokens", f"one with number {size - 1:,}"
        )
    known = [(columns[token], weight) for token, weight in weights.items() if columns.get(token, size) < size]
    if not known:
        raise damaged(path, "weights of tokens that tokenizer.json has", "others")
    table = np.zeros(size, dtype=np.float64)
    try:
        for column, weight in known:
            table[column] = weight
    except OverflowError as error:  # a whole number beyond what floats hold
        raise damaged(path, "finite weights", "one that is not") from error
    return _as_floats(table)


def read_description(folder: Path) -> Mapping[str, Any]:
    """Return what segmax wrote about a table of its own; raise InputError if it is not one that this version reads."""
    path = folder / TABLE_NAME
    content = read_json(path)
    if not isinstance(content, Mapping) or content.get("format") != TABLE_FORMAT:
        raise damaged(path, f"an object of the format {TABLE_FORMAT!r}", str(content)[:80])
    check_version(path, content.get("version"), TABLE_VERSION)
    return content
