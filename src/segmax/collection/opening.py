"""Opening what can be searched, whichever a folder holds: an index or a collection."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from segmax.base.checks import checked_path
from segmax.collection.manifest import MANIFEST_NAME
from segmax.search.index import Index
from segmax.search.opening import open_index

if TYPE_CHECKING:
    from segmax.collection.collection import Collection


def open_searchable(
    path: str | os.PathLike[str], preload: bool = False, verify: bool = False, encoder: object = None
) -> Index | Collection:
    """Open an index by memory map, or a collection to be searched.

    Parameters
    ----------
    path
        The directory that `build` or `save` wrote, or that of a collection. A collection is opened read-only: other
        processes may go on writing to it. To write, use `Collection.open`.
    preload
        Read an index, or the parts of a collection, into memory now instead of mapping their files. A mapped file must
        not be truncated while the index is open, or the system ends the process (SIGBUS). A preloaded index no longer
        needs its files; of a collection, parts that are written later are read into memory as well.
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
        If there is no index and no collection, a damaged one, or one of a version that is too old or too new.
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
    folder = checked_path("path", path)
    if not is_collection(folder):
        return open_index(path, preload, verify, encoder)
    from segmax.collection.collection import Collection  # which loads what builds parts

    if verify:
        from segmax.collection.verifying import verify_collection

        verify_collection(folder.absolute())
    return Collection.open(folder, read_only=True, encoder=encoder, preload=preload)


def is_collection(path: str | os.PathLike[str]) -> bool:
    """Whether a folder has the manifest of a collection."""
    try:
        return Path(path, MANIFEST_NAME).is_file()
    except (OSError, ValueError):  # a name that is too long, or has a null byte
        return False
