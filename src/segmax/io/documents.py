"""Opening texts or vectors, whichever the files contain. Every file is recognized once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from segmax.base.checks import checked_choice
from segmax.base.errors import InputError
from segmax.base.memory import MemoryLimit
from segmax.io.irds import ir_dataset_id
from segmax.io.read_errors import check_distinct
from segmax.io.recognize import TEXT_FORMATS, VECTOR_FORMATS, Recognizer, known_format
from segmax.io.spooled import Spooled, SpooledVectors, is_stream, renaming
from segmax.io.texts import FileTexts, Source, open_texts
from segmax.io.vectors import open_vectors
from segmax.vectors.documents import BaseVectors, TextReader


def open_documents(
    source: Source | Sequence[Source],
    *,
    format: str | None = None,
    memory_limit: MemoryLimit | None = None,
    scratch: Source | None = None,
) -> TextReader | BaseVectors:
    r"""Open texts or vectors, whichever a source contains.

    Parameters
    ----------
    source
        What `open_texts` or `open_vectors` take: a file or folder, or several, all of texts or all of vectors.
    format
        One of the keys of `TEXT_FORMATS` or `VECTOR_FORMATS`, for all sources; None recognizes them by content.
    memory_limit
        Only needed for .npz files that are not CSR, which have to be read whole.
    scratch
        The folder for scratch files; None: that of temporary files.

    Returns
    -------
    TextReader | VectorReader
        Vectors have a method `batches`; texts are iterated over.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "docs.jsonl")
    >>> _ = path.write_text('{"id": "a", "vector": {"cat": 1.5}}\n')
    >>> hasattr(open_documents(path), "batches")
    True
    """
    if format is not None:
        checked_choice("format", format, (*TEXT_FORMATS, *VECTOR_FORMATS))
    folder = None if scratch is None else Path(scratch)
    sources = [source] if isinstance(source, (str, os.PathLike)) else list(source)
    spools = {one: Spooled(one, folder) for one in dict.fromkeys(sources) if is_stream(one)}
    files = [spools[one].path if one in spools else one for one in sources]
    with renaming(spools.values()):
        recognizer = Recognizer()
        kinds = [format or _format_of(file, recognizer) for file in files]
        if not _are_vectors(files, kinds):
            if len(files) == 1 and ir_dataset_id(files[0]) is not None:
                return open_texts(files)
            return FileTexts(files, kinds, folder, spools.values(), recognizer)
        paths = [Path(file) for file in files]
        check_distinct([[path] for path in paths])
        reader = open_vectors(paths, kinds, memory_limit=memory_limit, scratch=folder)
        return SpooledVectors(reader, list(spools.values())) if spools else reader


def _format_of(file: Source, recognizer: Recognizer) -> str | None:
    """Return the format of a file or folder; None for what may be an ir_datasets id, or is not there.

    Also for a folder of lines of JSON, whose files may differ; the recognizer remembers the one it looked at.
    """
    if ir_dataset_id(file) is not None or not Path(file).exists():
        return None
    found = known_format(Path(file), recognizer)
    return None if found == "jsonl-text" and Path(file).is_dir() else found


def _are_vectors(files: Sequence[Source], kinds: Sequence[str | None]) -> bool:
    """Whether all files hold vectors; raise InputError if only some do."""
    are_vectors = [kind in VECTOR_FORMATS for kind in kinds]
    if any(are_vectors) and not all(are_vectors):
        vectors, others = files[are_vectors.index(True)], files[are_vectors.index(False)]
        got = f"both: '{os.fspath(vectors)}' holds vectors, and '{os.fspath(others)}' does not"
        raise InputError(expected="texts or vectors", got=got)
    return all(are_vectors)
