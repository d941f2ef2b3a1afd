"""What is at a path before and during a build: one build at a time, resumed only with the same inputs and options."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from segmax.base.errors import CollectionLockedError, ConfigError, IndexExistsError
from segmax.base.files import write_errors
from segmax.collection.lock import LOCK_NAME, WriterLock
from segmax.shards.common import COMMON
from segmax.shards.making.tasks import BUILDING, JOURNAL
from segmax.shards.manifest import MANIFEST_NAME
from segmax.shards.storage import SHARDS, Storage

_OWN = frozenset({MANIFEST_NAME, COMMON, SHARDS, BUILDING, LOCK_NAME})
_JOURNAL = f"{BUILDING}/{JOURNAL}"
_FORMAT = "segmax-sharded-build"
_VERSION = 1


@contextlib.contextmanager
def building(
    storage: Storage, fingerprint: Mapping[str, Any], *, overwrite: bool, resume: bool = True
) -> Iterator[None]:
    """Hold a path for a build, new or resumed.

    Parameters
    ----------
    storage
        Where to build.
    fingerprint
        The inputs and options of the build, as plain values.
    overwrite
        Whether a finished index, or an unfinished build of something else, may be replaced.
    resume
        Whether an unfinished build with this fingerprint is resumed rather than started over.

    Raises
    ------
    IndexExistsError
        The path is taken.
    ConfigError
        An unfinished build is there that has other inputs or options.
    CollectionLockedError
        Another process builds there.
    """
    with _locked(storage):
        for folder in ("", COMMON, SHARDS):
            storage.remove_leftovers(folder)
        _check_free(storage, overwrite=overwrite)
        wanted = json.loads(json.dumps(fingerprint))  # as it will be read back
        found = _read(storage)
        if found is not None and found != wanted and not overwrite:
            raise _other_build(storage, found, wanted)
        if found != wanted or not resume:
            storage.remove(BUILDING)
            content = {"format": _FORMAT, "version": _VERSION, "fingerprint": wanted}
            storage.write(_JOURNAL, [json.dumps(content).encode()])
        yield


@contextlib.contextmanager
def _locked(storage: Storage) -> Iterator[None]:
    """Keep other builds away. At an address nothing can be locked; builds of the same write the same there."""
    if storage.folder is None:
        yield
        return
    with write_errors(storage.folder):
        storage.folder.mkdir(parents=True, exist_ok=True)
    try:
        lock = WriterLock(storage.folder)
    except CollectionLockedError as error:
        held = f"the collection '{storage.folder}' is being written to"
        message = str(error.args[0]).partition(";")[0].replace(held, f"an index is being built at '{storage.folder}'")
        raise CollectionLockedError(message, hint="wait until it is done, or build at another path") from error
    with lock:
        yield


def _check_free(storage: Storage, *, overwrite: bool) -> None:
    names = storage.names()
    other = next((name for name in names if name not in _OWN), None)
    if other is not None:
        raise IndexExistsError(
            where=f"'{storage.address}'",
            expected="a path for a sharded index",
            got=f"something else there, {other[:80]!r}",
            hint="choose another path",
        )
    if MANIFEST_NAME in names and not overwrite:
        raise IndexExistsError(
            f"there is a sharded index at '{storage.address}' already", hint="pass {overwrite=True} to replace it"
        )


def _read(storage: Storage) -> Any:
    """Return the fingerprint of an unfinished build; None if there is none, or one that cannot be resumed."""
    try:
        content = json.loads(storage.read(_JOURNAL))
        if (content["format"], content["version"]) != (_FORMAT, _VERSION):
            return {"version": content["version"]}
        return content["fingerprint"]
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        return {"journal": "damaged"}


def _other_build(storage: Storage, found: Any, wanted: Mapping[str, Any]) -> ConfigError:
    different = [name for name in sorted({*found, *wanted}) if found.get(name) != wanted.get(name)]
    return ConfigError(
        where=f"'{storage.address}'",
        expected="the inputs and options of the unfinished build that is there",
        got=f"others: {', '.join(different)}",
        hint="call it as it was called then to resume it, or pass {overwrite=True} to start over",
    )
