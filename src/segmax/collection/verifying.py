"""Checking every byte of a collection."""

from __future__ import annotations

from pathlib import Path

from segmax.base.errors import FormatError, IndexNotFoundError
from segmax.collection.changes import CHANGE, from_pieces
from segmax.collection.collection import Collection
from segmax.collection.log import Log
from segmax.collection.manifest import Manifest, read_manifest
from segmax.storage.reading import load_index

_RETRIES = 20  # where a writer goes on meanwhile, and merges parts away


def verify_collection(path: Path) -> None:
    """Check the manifest, every byte of every part, and the log; raise FormatError at the first that is wrong."""
    for attempt in range(_RETRIES):
        manifest = read_manifest(path)
        try:
            _verify(path, manifest)
            return
        except (FormatError, IndexNotFoundError, FileNotFoundError):
            if attempt == _RETRIES - 1 or read_manifest(path).generation == manifest.generation:
                raise


def _verify(path: Path, manifest: Manifest) -> None:
    with Collection.open(path, read_only=True):
        pass  # lattice, words, living documents; what fits together
    for part in manifest.parts:
        load_index(path / part.name, preload=False, verify=True)
    log = Log.open(path, manifest.first_log, applied=manifest.applied, read_only=True)
    try:
        for record in log.records():
            if record.kind == CHANGE:
                from_pieces(record.pieces)
    finally:
        log.close()
