"""Recognizing the format of a file or folder by its content, and by its name where the content is ambiguous."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from segmax.base.errors import InputError
from segmax.base.own_folders import own_folder
from segmax.io.arrow_batches import is_arrow
from segmax.io.bigann import is_bigann
from segmax.io.ciff import is_ciff
from segmax.io.columns import header_of, is_csv
from segmax.io.dataset_folders import dataset_files
from segmax.io.read_errors import is_empty, no_file, reading
from segmax.io.records import TEXT_NAMES, TITLE_NAMES, VECTOR_NAMES, Place, is_unfinished, known_name, unfinished
from segmax.io.seismic import is_seismic
from segmax.io.streams import base_name, is_compressed, read_blocks, read_head
from segmax.io.text_folder import TEXT_ENDINGS, files_below, is_text_file
from segmax.io.tokens import repeats

_HEAD_BYTES = 1 << 20
_MARK = b"\xef\xbb\xbf"
_TEXT_NAMES = (".tsv", ".txt", ".csv", ".jsonl", ".json")
_SPACES = "\t\r\f\v"
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_SHARD_NAMES = (".jsonl", ".json")
_FOLDERS = ("corpus.jsonl (BEIR)", ".jsonl files", ".parquet files", ".txt or .md files")
#: The files of a folder that hold documents, by the ends of their names: a folder is read if it has one kind.
_KINDS_OF_FILES: Mapping[str, tuple[str, ...]] = {
    ".jsonl or .json": _SHARD_NAMES,
    ".parquet": (".parquet",),
    ".csv or .tsv": (".csv", ".tsv"),
    ".txt or .md": TEXT_ENDINGS,
}
#: The words in the names of files that lie beside documents.
_ASIDE = {"query", "queries", "questions", "topics", "qrels", "judgments", "judgements", "run", "runs"}
_BETWEEN_WORDS = re.compile(r"[\W\d_]+")
_ABOUT_DATA = ("readme", "license", "licence", "notice", "citation")  # texts beside data, not data
_SHORT = {
    "texts": "lines of JSON, a JSON array, CSV, TSV, .txt, .md or a BEIR folder",
    "vectors": "lines of JSON, .npz, CIFF, .csr, .bin or parquet",
}

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


def format_of(path: str | os.PathLike[str]) -> str:
    """Return the name of the format of a file or folder: a key of VECTOR_FORMATS or TEXT_FORMATS.

    Raises
    ------
    InputError
        If there is nothing there, or nothing that is known.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "docs.jsonl")
    >>> _ = path.write_text('{"id": "d1", "vector": {"copper": 2}}')
    >>> format_of(path)
    'jsonl'
    """
    return known_format(Path(path), Recognizer())


def no_texts(path: Path, kind: str | None) -> InputError:
    """Return the error about a file or folder that holds no texts."""
    if kind is None and path.is_dir():
        return unknown_folder(path)
    expected = f"texts ({_SHORT['texts']})"
    if kind is None:
        return _not_recognized(path, expected)
    return unknown(path, f"{kind} vectors, which need no encoding", expected)


def _not_recognized(path: Path, expected: str) -> InputError:
    """Return the error about a file of an unknown format: how it starts, and what to do if it is text."""
    start = _start_of(path)
    if start is None:
        return unknown(path, "other data", expected)
    hint = "to read it as text, use {format='tsv-text'} (a text per line) or {format='csv-text'}"
    return unknown(path, repr(start), expected, hint=hint)


def _start_of(path: Path) -> str | None:
    """Return the start of a file of text, None of other files."""
    head = read_head(path, 1 << 8).removeprefix(_MARK)
    try:
        start = head.decode("utf-8", "strict" if len(head) < 1 << 8 else "ignore").lstrip().partition("\n")[0]
    except UnicodeDecodeError:
        return None
    return start[:40] if start.isprintable() else None


class Recognizer:
    """Recognizes files and folders, each once: it remembers what it found, such as the format of a folder's files."""

    def __init__(self) -> None:
        self._found: dict[Path, str | None] = {}

    def recognize(self, path: Path) -> str | None:
        """Return the name of the format of a file or folder; None if it is none that is known."""
        if path not in self._found:
            with reading(path):
                self._found[path] = _folder_format(path, self) if path.is_dir() else _file_format(path)
        return self._found[path]


def recognize(path: Path) -> str | None:
    """Return the name of the format of a file or folder; None if it is none that is known."""
    return Recognizer().recognize(path)


def known_format(path: Path, recognizer: Recognizer) -> str:
    """Return the name of the format of a file or folder; see `format_of`."""
    found = recognizer.recognize(path)
    if found is None:
        known = " or ".join(f"{what} ({kinds})" for what, kinds in _SHORT.items())
        raise unknown_folder(path) if path.is_dir() else _not_recognized(path, known)
    return found


def _file_format(path: Path) -> str | None:
    if not path.is_file():
        raise no_file(path)
    name = base_name(path)
    head = read_head(path, _HEAD_BYTES)
    if not head.removeprefix(_MARK).strip():
        next(read_blocks(path), b"")  # raises if a compressed file is cut short before its first byte
        raise is_empty(path, "vectors or texts")
    if head.startswith(_ZIP) or name.endswith(".npz"):
        return "npz"
    if is_arrow(head, name):
        return "parquet"
    if is_text_file(path):
        return "files"
    _check_finished(path, head)
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


def unknown(path: Path, got: str, expected: str = ", ".join(VECTOR_FORMATS.values()), *, hint: str = "") -> InputError:
    """Return the error about a file that is not of vectors, or not what else was expected."""
    return InputError(where=f"'{path}'", expected=expected, got=got, hint=hint)


def unknown_folder(path: Path) -> InputError:
    """Return the error about a folder that holds nothing that is known."""
    return InputError(where=f"'{path}'", expected=f"a folder with {', '.join(_FOLDERS)}", got="none of these")


def shards_of(folder: Path) -> list[Path]:
    """Return the files of lines of JSON in a folder, in the order of their names."""
    return sorted(entry for entry in folder.iterdir() if entry.is_file() and base_name(entry).endswith(_SHARD_NAMES))


def _own(folder: Path, kind: str) -> InputError:
    """Return the error about a folder of ours in the place of documents."""
    hint = "search it, or read its vectors with its method vectors"
    if kind == "index":
        hint += "; segmax.Collection.from_index makes a collection of it"
    return InputError(where=f"'{folder}'", expected="files of texts or vectors", got=f"a segmax {kind}", hint=hint)


def _folder_format(folder: Path, recognizer: Recognizer) -> str | None:
    if (kind := own_folder(folder)) is not None:
        raise _own(folder, kind)
    if any(folder.glob("corpus.jsonl*")):
        return "beir"
    if (folder / "state.json").is_file() or (folder / "dataset_dict.json").is_file():
        return "parquet"
    found = _kinds_of_files(folder)
    if len(found) > 1:
        raise _mixed(folder, found)
    if ".txt or .md" in found:
        return "files"
    if files := dataset_files(folder):
        _check_aside(files, folder)
        return "parquet"
    shards = shards_of(folder)
    if shards and (below := _shard_below(folder)) is not None:
        raise InputError(
            where=f"'{folder}'",
            expected=".jsonl files in the folder itself",
            got=f"also '{below}'",
            hint="name the files or folders",
        )
    _check_aside(shards, folder)
    return recognizer.recognize(shards[0]) if shards else None


def _shard_below(folder: Path) -> Path | None:
    """Return a file of lines of JSON in a subfolder, which would be ignored."""
    files = (file for file in files_below(folder) if base_name(file).endswith(_SHARD_NAMES[0]))
    return next((file for file in files if file.parent != folder), None)


def _kinds_of_files(folder: Path) -> dict[str, Path]:
    """Return the kinds of files in a folder and below that hold documents, each with its first file, documents first.

    What is called queries or judgments comes last.
    """
    found: dict[str, Path] = {}
    strays: list[Path] = []
    about: list[Path] = []
    for path in sorted(files_below(folder), key=lambda path: _is_aside(path, folder)):
        name = base_name(path)
        kind = next((kind for kind, endings in _KINDS_OF_FILES.items() if name.endswith(endings)), None)
        if kind is None or kind in found:
            continue
        if kind == ".txt or .md" and name.startswith(_ABOUT_DATA):
            about.append(path)
        elif name.endswith(".json") and _is_stray(path):
            strays.append(path)
        else:
            found[kind] = path
    if strays and not found and not about:  # then they are meant, and reading them raises the error
        found[".jsonl or .json"] = strays[0]
    if about and not found:
        found[".txt or .md"] = about[0]
    return found


def _check_aside(files: Sequence[Path], folder: Path) -> None:
    """Refuse queries, judgments and results beside documents, as which they would be read."""
    aside = [path for path in files if _is_aside(path, folder)]
    if aside and len(aside) < len(files):
        raise InputError(
            where=f"'{folder}'",
            expected=f"documents alone{_example(folder, files)}",
            got=f"also '{aside[0].name}'",
            hint="name the files that you want",
        )


def _is_aside(path: Path, folder: Path) -> bool:
    """Whether a file in a folder is called queries, judgments or results: it lies beside documents."""
    return not _ASIDE.isdisjoint(_BETWEEN_WORDS.split(path.relative_to(folder).as_posix().lower()))


def _is_stray(path: Path) -> bool:
    """Whether a .json file describes something else and holds no documents: no text, title or vector in its first."""
    try:
        text = read_head(path, _HEAD_BYTES).removeprefix(_MARK).decode("utf-8", "ignore").lstrip()
        value, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError, InputError):
        return False
    first = value[0] if isinstance(value, list) and value else value
    if not isinstance(first, dict):
        return not isinstance(first, str)
    return set(map(known_name, first)).isdisjoint((*TEXT_NAMES, *TITLE_NAMES, *VECTOR_NAMES))


def _mixed(folder: Path, found: Mapping[str, Path]) -> InputError:
    kinds = " and ".join(f"{kind} files ('{file.relative_to(folder)}')" for kind, file in found.items())
    hint = "name the files that you want"
    if ".txt or .md" in found:
        hint += ", or take the .txt and .md files alone with {format='files'}"
    return InputError(
        where=f"'{folder}'",
        expected=f"documents in files of one kind{_example(folder, found.values())}",
        got=kinds,
        hint=hint,
    )


def _example(folder: Path, found: Iterable[Path]) -> str:
    """Return how to name the documents in a folder: all files with an ending, or one file if others lie beside it."""
    documents = [path for path in found if not _is_aside(path, folder)]
    if not documents:
        return ""
    choice = documents[-1]
    ending = choice.name[len(Path(base_name(choice)).stem) :]
    alike = [path for path in files_below(choice.parent) if path.parent == choice.parent and path.name.endswith(ending)]
    return f", as in {choice if any(_is_aside(path, folder) for path in alike) else choice.parent / f'*{ending}'}"


def _text_format(head: bytes, name: str) -> str | None:
    """Recognize lines of text; None if the bytes are no text."""
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
    if starts_array(texts, name):
        return "json-text"
    if name.endswith(".csv") or is_csv(texts[0]):
        return "csv-text"
    if repeats(texts):
        return "tokens"
    if "\t" in texts[0] or name.endswith((".tsv", ".txt")):
        return "tsv-text"
    return None if Path(name).suffix else _nameless_format(texts)


def _nameless_format(lines: list[str]) -> str | None:
    """Recognize text that has no name, as on standard input: CSV, or lines of text; None if it may be either."""
    if any(_is_header(lines[0], lines[1:2], mark) for mark in ",;"):
        return "csv-text"
    is_markup = lines[0].lstrip().startswith(("<", "[", "%", "---", "#!"))
    is_table = len(lines) > 1 and any(_counts_alike(lines, mark) for mark in ",;|")
    is_header = " " not in lines[0].strip() and any(header_of(lines[0], mark, alone=True) for mark in ",;")
    return None if is_markup or is_table or is_header else "tsv-text"


def _is_header(line: str, following: list[str], mark: str) -> bool:
    """Whether a line names columns, one of texts among them, and a line that follows has as many fields."""
    names = header_of(line, mark, alone=True) or []
    return len(names) > 1 and all('"' in row or row.count(mark) == len(names) - 1 for row in following)


def _counts_alike(lines: list[str], mark: str) -> bool:
    """Whether all lines have as many of a mark without a blank behind it, as columns do and sentences do not."""
    counts = {line.count(mark) - line.count(f"{mark} ") for line in lines}
    return len(counts) == 1 and counts != {0}


def _check_finished(path: Path, head: bytes) -> None:
    """Raise if the first object of lines of JSON goes on in the next line: neither texts nor vectors are read so."""
    for number, line in enumerate(_first_lines(head), start=1):
        if text := line.decode("utf-8", "ignore").strip():
            if is_unfinished(text) and len(line) < _HEAD_BYTES:
                raise unfinished(Place(path, number))
            return


def starts_array(lines: list[str], name: str) -> bool:
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
                where=f"'{path}', line {number}",
                expected="UTF-8",
                got=got,
                hint="convert it, with iconv for instance",
            )
    return None


def _has_vector(line: bytes) -> bool:
    """Whether a line has a vector. A line that is longer than what was read, or wrong, is looked at as text."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return any(f'"{name}"'.encode() in line for name in VECTOR_NAMES)
    return any(isinstance(record.get(name), dict) for name in VECTOR_NAMES)
