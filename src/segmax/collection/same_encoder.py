"""Whether an encoder is the one that a collection was created with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from segmax.base.checks import shown
from segmax.base.errors import InputError

#: What says how a model computes, or where it comes from, and not what its vectors are.
_NOT_COMPARED = frozenset({"encoder", "model", "dtype", "files", "pooling"})


def check_same_encoder(made: object, description: Mapping[str, Any] | None, terms: Iterable[str] | None) -> None:
    """Raise InputError for another encoder than the one that a collection describes, or one with other words.

    A model may have moved to another folder: folders are compared by their names, and a folder may hold what comes from
    the hub. A table for queries made none of the vectors, so that only its words are compared.
    """
    if description is None:
        return
    if description.get("encoder") == "bm25" or not getattr(made, "queries_only", False):
        _compare_descriptions(made, description)
    words, known = getattr(made, "vocabulary", None), list(terms or ())
    if words is not None and description.get("encoder") != "bm25" and list(words) != known[: len(words)]:
        raise InputError(
            expected="an encoder with the words of the collection",
            got="one with others",
            hint="use the encoder that made its vectors",
        )


def _compare_descriptions(made: object, description: Mapping[str, Any]) -> None:
    to_dict = getattr(made, "to_dict", None)
    own = {"encoder": type(made).__name__} if to_dict is None else dict(to_dict())
    _compare("encoder", own.get("encoder"), description.get("encoder"))
    names = own.get("model"), description.get("model")
    if None not in names and _is_folder(names[0]) == _is_folder(names[1]):
        _compare("model", *(Path(name).name if _is_folder(name) else name for name in map(str, names)))
    for name in sorted((own.keys() & description.keys()) - _NOT_COMPARED):
        _compare(name, own[name], description[name])


def _is_folder(name: object) -> bool:
    return Path(str(name)).is_absolute()


def _compare(what: str, own: object, described: object) -> None:
    if own != described:
        raise InputError(
            where=f"the {what} of the encoder" if what != "encoder" else "",
            expected=f"{shown(described)}, as the collection was created with",
            got=shown(own),
            hint="leave the encoder out, or create another collection",
        )
