"""The files of the page, in memory: plain, compressed, and with a tag by which a browser knows them again."""

from __future__ import annotations

import functools
import gzip
import hashlib
from importlib import resources

_KINDS = {
    ".html": b"text/html; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
    ".png": b"image/png",
}


@functools.cache
def _assets() -> dict[bytes, tuple[bytes, bytes, bytes, bytes]]:
    """Return type, content, compressed content and tag of every file, by its path."""
    found = {}
    for file in resources.files(__name__).iterdir():
        kind = _KINDS.get("." + file.name.rpartition(".")[2])
        if kind is None:
            continue
        content = file.read_bytes()
        tag = b'"%s"' % hashlib.sha256(content).hexdigest()[:20].encode()
        entry = kind, content, gzip.compress(content, 9, mtime=0), tag
        found[f"/page/{file.name}".encode()] = entry
        if file.name == "index.html":
            found[b"/"] = entry
        if file.name == "icon.svg":
            found[b"/favicon.ico"] = entry
    return found


def asset(path: bytes) -> tuple[bytes, bytes, bytes, bytes] | None:
    """Return type, content, compressed content and tag of a file of the page; None if there is no such file."""
    return _assets().get(path)
