"""Updates of metadata: JSON Merge Patch (RFC 7396), where a name with dots is a path.

A document may spell a field as it likes, {"a.b": 1} or {"a": {"b": 1}}: a patch of either spelling finds it, and leaves
the spelling as it is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import Any

from segmax.base.checks import shown
from segmax.base.errors import InputError
from segmax.metadata.values import DEEPEST, checked_metadata

Json = dict[str, Any]


class Patch:
    """What an update says about the metadata of a document.

    Parameters
    ----------
    given
        New values by field, as for `Collection.update`.
    row
        The number of the update, for messages.

    Raises
    ------
    InputError
        If JSON cannot hold it, or if it says two things about one field.

    Examples
    --------
    >>> patch = Patch({"price": 3, "size.width": 7, "sale": None})
    >>> patch.applied_to({"price": 5, "sale": True, "size": {"height": 2}})
    {'price': 3, 'size': {'height': 2, 'width': 7}}
    """

    def __init__(self, given: Mapping[str, Any], row: int = 0) -> None:
        self._changes = _Changes()
        try:
            _sort_in(self._changes, checked_metadata(given, row) or {}, 1)
        except InputError as error:
            raise error if error.where else error.at(f"metadata of document {row}") from None

    def applied_to(self, metadata: Json | None) -> Json:
        """Return the metadata of a document after the update."""
        found = _copied(metadata or {})
        _Merging().merge([(found, "")], self._changes)
        return found


class _Changes(dict[str, Any]):
    """Changes of the fields of an object, by names without dots: other objects of changes, or new values.

    `by_path`: only names with dots lead here. Then the object is made where a field in it gets a value, and not to
    remove something from it.
    """

    by_path = False

    @property
    def give(self) -> bool:
        """Whether a field gets a value, if only an empty object."""
        return not self.by_path or any(
            change.give if type(change) is _Changes else change is not None for change in self.values()
        )


def _sort_in(changes: _Changes, patch: Json, depth: int) -> None:
    """Put what a patch says into changes, object by object."""
    for name, value in patch.items():
        *parents, last = name.split(".", DEEPEST)
        inner_depth = depth + len(parents)
        if inner_depth > DEEPEST:
            raise InputError(expected=f"at most {DEEPEST} levels of nesting in an update, dots included", got="more")
        own = changes
        for parent in parents:
            own = _within(own, parent, name, by_path=True)
        if type(value) is dict:
            _sort_in(_within(own, last, name, by_path=False), value, inner_depth + 1)
        elif last in own:
            raise _twice(name)
        else:
            own[last] = value


def _within(changes: _Changes, name: str, path: str, *, by_path: bool) -> _Changes:
    """Return the changes of an object that is a field."""
    if name not in changes:
        changes[name] = _Changes()
        changes[name].by_path = by_path
    found = changes[name]
    if type(found) is not _Changes:
        raise _twice(path)
    found.by_path = found.by_path and by_path
    return found


def _twice(name: str) -> InputError:
    return InputError(
        expected="one change of every field",
        got=f"two, of which {shown(name)} is one",
        hint="a dot in a name is the same as nesting",
    )


def _copied(metadata: Json) -> Json:
    """Return an object whose objects can be changed: those of a document that others may be reading cannot."""
    return {name: _copied(value) if type(value) is dict else value for name, value in metadata.items()}


#: Where a part of an object is: the names in a mapping that start with a prefix. {"a.b": 1} has a part of "a" at "a.".
_Place = tuple[Json, str]


class _Merging:
    """The merging of one patch into one document."""

    def __init__(self) -> None:
        self._dotted: dict[int, tuple[Json, list[str]]] = {}  # mappings, and their names with dots, sorted

    def merge(self, places: list[_Place], changes: _Changes) -> None:
        """Change an object, which is in several places if a name with dots has a part of it."""
        for name, change in changes.items():
            whole = next(((own, prefix + name) for own, prefix in places if prefix + name in own), None)
            parts = [(own, f"{prefix}{name}.") for own, prefix in places if self._names(own, f"{prefix}{name}.")]
            if type(change) is _Changes:
                inner = None if whole is None else whole[0][whole[1]]
                inside = parts if type(inner) is not dict else [(inner, ""), *parts]
                if not inside and change.give:
                    own, key = whole or (places[0][0], places[0][1] + name)
                    made: Json = {}
                    own[key] = made
                    inside = [(made, "")]
                if inside:
                    self.merge(inside, change)
                continue
            for own, prefix in parts:
                for key in self._names(own, prefix):
                    own.pop(key, None)
            own, key = whole or (places[0][0], places[0][1] + name)
            if change is None:
                own.pop(key, None)
            else:
                own[key] = change

    def _names(self, own: Json, prefix: str) -> list[str]:
        """Return the names in a mapping that start with a prefix, which ends with a dot."""
        if id(own) not in self._dotted:
            self._dotted[id(own)] = own, sorted(name for name in own if "." in name)
        names = self._dotted[id(own)][1]
        if not names:
            return names
        return names[bisect_left(names, prefix) : bisect_left(names, prefix[:-1] + chr(ord(".") + 1))]
