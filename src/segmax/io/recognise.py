"""Telling what a file or folder holds, by its content, and by its name where content cannot tell."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from segmax.errors import InputError
from segmax.io.arrow import dataset_files, is_arrow
from segmax.io.bigann import is_bigann
from segmax.io.ciff import is_ciff
from segmax.io.columns import is_csv
from segmax.io.records import VECTOR_NAMES
from segmax.io.seismic import is_seismic
from segmax.io.streams import base_name, is_compressed, is_empty, no_file, read_blocks, read_head, reading
from segmax.io.text_folder import is_text_file, text_files
from segmax.io.tokens import repeats

_HEAD_BYTES = 1 << 20
_MARK = b"\xef\xbb\xbf"
_TEXT_NAMES = (".tsv", ".txt", ".csv", ".jsonl", ".json")
_SPACES = "\t\r\f\v"
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_SHARD_NAMES = (".jsonl", ".json")
_FOLDERS = ("corpus.jsonl (BEIR)", ".jsonl files", ".parquet files", ".txt or .md files")

#: Every format of vectors and what it is.
VECTOR_FORMATS: Mapping[str, str] = {
    "npz": "an .npz file of scipy.sparse.save_npz",
    "jsonl": "lines of JSON with vectors, or a folder of such files",
    "ciff": "CIFF",
    "csr": "BigANN .csr",
    "seismic": "Seismic's .bin",
    "parquet": "parquet or a datasets folder with sparse columns",
    "tokens": "lines of repeated words",
}
#: Every format of texts.
TEXT_FORMATS: Mapping[str, str] = {
    "beir": "a BEIR folder with corpus.jsonl",
    "jsonl-text": "lines of JSON with texts, or a folder of such files",
    "json-text": "a JSON array of objects or strings",
    "csv-text": "CSV with a header",
    "tsv-text": "columns of text (TSV, or .txt with a text per line)",
    "files": "a folder of .txt and .md files",
}


_FORMATS = {"vectors": VECTOR_FORMATS, "texts": TEXT_FORMATS}


def format_of(path: str | os.PathLike[str]) -> str:
    """Return the name of the format of a file or folder: a key of VECTOR_FORMATS or TEXT_FORMATS.

    Raises
    ------
    InputError
        If there is nothing there, or nothing that is known.
    """
    file = Path(path)
    found = recognise(file)
    if found is None:
        known = "; ".join(f"{what}: {', '.join(formats.values())}" for what, formats in _FORMATS.items())
        raise unknown_folder(file) if file.is_dir() else unknown(file, "something else", known)
    return found


def recognise(path: Path) -> str | None:
    """Return the name of the format of a file or folder; None if it is none that is known."""
    with reading(path):
        return _folder_format(path) if path.is_dir() else _file_format(path)


def _file_format(path: Path) -> str | None:
    if not path.is_file():
        raise no_file(path)
    name = base_name(path)
    head = read_head(path, _HEAD_BYTES)
    if not head.removeprefix(_MARK).strip():
        next(read_blocks(path), b"")  # a compressed file may be cut short before its first byte, and says so
        raise is_empty(path, "vectors or texts")
    if head.startswith(_ZIP) or name.endswith(".npz"):
        return "npz"
    if is_arrow(head, name):
        return "parquet"
    if is_text_file(path):
        return "files"
    if (found := _text_format(head, name)) is not None:
        return found
    packed = is_compressed(path)
    if name.endswith(".csr") or (not packed and is_bigann(path)):
        return "csr"
    if name.endswith(".bin") and (packed or is_seismic(path)):
        return "seismic"
    if name.endswith(".ciff") or is_ciff(head):
        return "ciff"
    if (wrong := _no_text(path, head, name)) is not None:
        raise wrong
    return None


def unknown(path: Path, got: str, expected: str = ", ".join(VECTOR_FORMATS.values())) -> InputError:
    """Return the error about a file that is not of vectors, or not what else was expected."""
    return InputError(f"'{path}': expected {expected}, got {got}")


def unknown_folder(path: Path) -> InputError:
    """Return the error about a folder that holds nothing that is known."""
    return InputError(f"'{path}': expected a folder with {', '.join(_FOLDERS)}, got none of these")


def shards_of(folder: Path) -> list[Path]:
    """Return the files of lines of JSON in a folder, in the order of their names."""
    return sorted(entry for entry in folder.iterdir() if entry.is_file() and base_name(entry).endswith(_SHARD_NAMES))


def _folder_format(folder: Path) -> str | None:
    if any(folder.glob("corpus.jsonl*")):
        return "beir"
    if (folder / "state.json").is_file() or (folder / "dataset_dict.json").is_file() or dataset_files(folder):
        return "parquet"
    if shards := shards_of(folder):
        return recognise(shards[0])
    return "files" if next(text_files(folder), None) is not None else None


def _text_format(head: bytes, name: str) -> str | None:
    """Recognise lines of text; None if the bytes are no text."""
    lines = [line for line in _first_lines(head) if line.strip()]
    if not lines:
        return None
    if lines[0].lstrip().startswith(b"{"):
        return "jsonl" if _has_vector(lines[0]) else "jsonl-text"
    try:
        texts = [line.decode("utf-8") for line in lines[:50]]
    except UnicodeDecodeError:
        return None
    if any(_odd_character(text) is not None for text in texts):
        return None
    if _starts_array(texts, name):
        return "json-text"
    if name.endswith(".csv") or is_csv(texts[0]):
        return "csv-text"
    if repeats(texts):
        return "tokens"
    return "tsv-text" if "\t" in texts[0] or name.endswith((".tsv", ".txt")) else None


def _starts_array(lines: list[str], name: str) -> bool:
    """Whether text is a JSON array: other texts, too, may begin with a bracket."""
    start = "".join(line.strip() for line in lines[:3])
    return start.startswith("[") and (name.endswith(".json") or start[1:].lstrip()[:1] in ("{", '"', "]"))


def _first_lines(head: bytes) -> list[bytes]:
    """Return the lines of the first bytes, but for one that was cut off."""
    lines = head.removeprefix(_MARK).split(b"\n")
    return lines if len(head) < _HEAD_BYTES or len(lines) == 1 else lines[:-1]


def _odd_character(text: str) -> str | None:
    return next((c for c in text if ord(c) < 0x20 and c not in _SPACES), None)


def _no_text(path: Path, head: bytes, name: str) -> InputError | None:
    """Return what is wrong with bytes that are meant as text; None if they are not."""
    if not name.endswith(_TEXT_NAMES) and b"\0" in head[:4096]:
        return None
    for number, line in enumerate(_first_lines(head), start=1):
        try:
            odd = _odd_character(line.decode("utf-8"))
            got = None if odd is None else f"the control character 0x{ord(odd):02x}"
        except UnicodeDecodeError as error:
            got = f"the byte 0x{line[error.start]:02x}"
        if got is not None:
            return InputError(
                f"'{path}', line {number}: expected UTF-8, got {got}; convert it, with iconv for instance"
            )
    return None


def _has_vector(line: bytes) -> bool:
    """Whether a line has a vector. A line that is longer than what was read, or wrong, is looked at as text."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return any(f'"{name}"'.encode() in line for name in VECTOR_NAMES)
    return any(isinstance(record.get(name), dict) for name in VECTOR_NAMES)
