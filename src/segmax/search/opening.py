"""Opening an index that is on disk."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

from segmax.base.checks import checked_path
from segmax.base.errors import FormatError
from segmax.search.index import Index
from segmax.storage.components import Arrays
from segmax.storage.reading import load_index
from segmax.storage.upgrading import load_older

_LOG = logging.getLogger("segmax.search")


def open_index(
    path: str | os.PathLike[str], preload: bool = False, verify: bool = False, encoder: object = None
) -> Index:
    """Open an index by memory map.

    Parameters
    ----------
    path
        The directory that `build` or `save` wrote. An index of version 3 of the format is converted in memory, which
        takes time whenever it is opened; `segmax upgrade` does that once.
    preload
        Read everything into memory now instead of mapping the files. A mapped file must not be truncated while the
        index is open, or the system ends the process (SIGBUS). A preloaded index no longer needs its files.
    verify
        Check every byte; otherwise only the sizes of postings and bounds are checked. `segmax.verify` does the same.
    encoder
        What encodes text for searches: the name or folder of a model, a `SparseEncoder` of sentence-transformers, any
        object with `encode_queries`, or "stored" to load the model that the index names. None: BM25 if the index was
        built with it; otherwise you cannot search for text. Load a stored model only if you trust whoever made the
        index.

    Raises
    ------
    IndexNotFoundError
        If there is nothing at the path.
    FormatError
        If there is no index, a damaged one, or one of a version that is too old or too new.
    ConfigError, InputError
        If the encoder cannot be loaded, or is not the one that the index was built with.

    Examples
    --------
    >>> import segmax, tempfile
    >>> path = f"{tempfile.mkdtemp()}/docs.segmax"
    >>> _ = segmax.from_texts({"d1": "a copper waveguide"}, path=path)
    >>> index = segmax.open(path)  # for a model: segmax.open(path, encoder="naver/splade-v3")
    >>> index.search("copper").ids
    ['d1']
    """
    where = checked_path("path", path).absolute()  # pickled by path, it must be found from any working directory
    meta, arrays = _loaded(where, preload, verify)
    index = Index(meta, arrays, where, preload=preload)
    if encoder is not None:
        index.encoder = encoder
    return index


def _loaded(path: Path, preload: bool, verify: bool) -> tuple[dict[str, Any], Arrays]:
    try:
        return load_index(path, preload=preload, verify=verify)
    except FormatError:
        older = load_older(path)
        if older is None:
            raise
    _LOG.warning("'%s' has an older format and is converted in memory; run segmax upgrade on it once", path)
    return older
