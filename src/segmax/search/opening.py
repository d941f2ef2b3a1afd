"""Opening an index that is on disk."""

from __future__ import annotations

import os

from segmax.base.checks import checked_path
from segmax.search.index import Index
from segmax.storage.reading import load_index


def open_index(
    path: str | os.PathLike[str], preload: bool = False, verify: bool = False, encoder: object = None
) -> Index:
    """Open an index by memory map.

    Parameters
    ----------
    path
        The directory that `build` or `save` wrote.
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
        If there is no index, a damaged one, or one of a newer version.
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
    meta, arrays = load_index(where, preload=preload, verify=verify)
    index = Index(meta, arrays, where, preload=preload)
    if encoder is not None:
        index.encoder = encoder
    return index


def verify(path: str | os.PathLike[str]) -> None:
    """Check every byte of an index; raise FormatError at the first wrong one.

    Examples
    --------
    >>> import segmax, tempfile
    >>> path = f"{tempfile.mkdtemp()}/docs.segmax"
    >>> _ = segmax.from_texts({"d1": "a copper waveguide"}, path=path)
    >>> segmax.verify(path)
    """
    open_index(path, verify=True).close()
