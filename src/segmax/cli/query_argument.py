"""Whether the arguments of `segmax search` are words, or name a file of queries."""

from __future__ import annotations

import os
from pathlib import Path

from segmax.base.errors import ConfigError, InputError

#: Endings of files of queries.
_ENDINGS = (".jsonl", ".json", ".npz", ".tsv", ".csv", ".txt", ".xml", ".trec", ".topics", ".csr", ".ciff", ".bin",
            ".parquet", ".arrow", ".feather")  # fmt: skip
_COMPRESSED = (".gz", ".zst", ".xz")


def words_or_file(words: list[str], text: str | None) -> tuple[str | None, str | None]:
    """Return a file of queries, or a text to search for; neither, if queries are to be typed."""
    if text is not None:
        if words:
            raise ConfigError(expected="a file of queries or -q", got=f"both: '{' '.join(words)}' and {text!r}")
        return None, text
    if not words or words == ["-"]:
        return None, None
    if len(words) == 1 and _is_file(words[0]):
        return words[0], None
    if len(words) > 1 and (file := _file_among(words)) is not None:
        raise InputError(
            expected="words or one file of queries",
            got=f"{len(words)} arguments, of which '{file}' names a file",
            hint="to search for these words, use -q TEXT",
        )
    return None, " ".join(words)


def _file_among(words: list[str]) -> str | None:
    """Return an argument that names a file: one of a list of files, or one that exists among words."""
    files = [word for word in words if _has_ending(word)]
    if len(files) == len(words):
        return files[0]
    return next((word for word in files if _exists(word)), None)


def _is_file(word: str) -> bool:
    """Whether an argument names queries to read; raises InputError for a path without queries."""
    if word.startswith("irds:") or _holds_queries(word):
        return True
    if _is_dataset(word):
        return True
    if _can_only_be_path(word):
        raise InputError(
            where=f"'{word}'",
            expected="a file of queries",
            got="a folder without queries.jsonl" if _exists(word) else "no such file",
            hint="to search for this text, put -q before it",
        )
    return False


def _holds_queries(word: str) -> bool:
    """Whether an argument is a file, or a folder with a file of queries."""
    from segmax.io.queries import query_files

    if not _exists(word):
        return False
    path = Path(word)
    return not path.is_dir() or bool(query_files(path))


def _exists(path: str) -> bool:
    try:
        return path != "" and Path(path).exists()  # Path("") is the current folder
    except (OSError, ValueError):  # too long, or with characters that no path has
        return False


def _is_dataset(word: str) -> bool:
    """Whether an argument with a slash is an id of ir_datasets. An id without a slash needs `irds:`."""
    from segmax.io.irds import ir_dataset_id, load_ir_dataset

    if os.sep not in word or ir_dataset_id(word) is None:
        return False
    try:
        load_ir_dataset(word)
    except InputError:
        return False
    return True


def _can_only_be_path(word: str) -> bool:
    """Whether a word starts or ends like a path, or is in a folder that exists; "and/or" is neither."""
    if len(word.split()) > 1:
        return False
    if _has_ending(word) or word.startswith(("/", "./", "../", "~/")):
        return True
    return _exists(word.rpartition(os.sep)[0])


def _has_ending(word: str) -> bool:
    name = Path(word.lower())
    return (name.stem if name.suffix in _COMPRESSED else name.name).endswith(_ENDINGS) or name.suffix in _COMPRESSED
