"""Updates of metadata: the examples of RFC 7396, paths, and what a patch of either spelling does to a document."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segmax.errors import InputError
from segmax.metadata.patching import Patch
from segmax.metadata.values import MISSING, fields_of, find

#: Those of appendix A of RFC 7396 whose target and patch are objects: target, patch, result.
EXAMPLES = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]

#: Names with dots, in the document, in the patch, or in both.
PATHS = [
    ({"a": {"b": 1, "c": 2}}, {"a.b": 3}, {"a": {"b": 3, "c": 2}}),
    ({}, {"a.b.c": 1}, {"a": {"b": {"c": 1}}}),
    ({}, {"a": {"b.c": 1}}, {"a": {"b": {"c": 1}}}),
    ({"a": {"b": 1}}, {"a.b": None}, {"a": {}}),
    ({"x": 1}, {"a.b": None}, {"x": 1}),  # what is not there is not made to be removed
    ({"a": 5}, {"a.b": None}, {"a": 5}),
    ({"a": 5}, {"a.b": None, "a": {"c": None}}, {"a": {}}),  # as without the path
    ({"a": 5}, {"a.b": 1}, {"a": {"b": 1}}),
    ({"a": 5}, {"a.b": {}}, {"a": {"b": {}}}),
    ({"a.b": 1, "x": 2}, {"a.b": 3}, {"a.b": 3, "x": 2}),  # the spelling of the document stays
    ({"a.b": 1}, {"a": {"b": 3}}, {"a.b": 3}),
    ({"a.b": 1}, {"a": {"c": 3}}, {"a.b": 1, "a.c": 3}),
    ({"a.b": 1, "a": {"c": 2}}, {"a": {"b": None, "d": 4}}, {"a": {"c": 2, "d": 4}}),
    ({"a.b": 1, "a": {"c": 2}, "ab": 3}, {"a": None}, {"ab": 3}),
    ({"a.b": 1, "a.c": 2, "x.y": 3}, {"a": 7}, {"x.y": 3, "a": 7}),
    ({"a.b": {"c": 1}}, {"a.b.c": None}, {"a.b": {}}),
    ({"x.y": {"z.w": 1}}, {"x": {"y.z": {"w": 2}}}, {"x.y": {"z.w": 2}}),
    ({"a": 5, "a.b": 1}, {"a.b": 2}, {"a": 5, "a.b": 2}),
    ({"a.": 1, ".": 2, "": 3}, {"a.": 4, ".": None}, {"a.": 4, "": 3}),
    ({"a": [{"b": 1}]}, {"a.b": 2}, {"a": {"b": 2}}),  # paths do not lead into lists
]


@pytest.mark.parametrize(("metadata", "patch", "expected"), EXAMPLES + PATHS)
def test_examples(metadata: dict[str, Any], patch: dict[str, Any], expected: dict[str, Any]) -> None:
    """The result is that of the RFC, where the RFC says one; the document that was there is not touched."""
    before = copy.deepcopy(metadata)
    assert Patch(patch).applied_to(metadata) == expected
    assert metadata == before


def test_a_document_without_metadata() -> None:
    """A patch makes them."""
    assert Patch({"a": 1, "b": None, "c.d": None}).applied_to(None) == {"a": 1}


@pytest.mark.parametrize(
    "patch",
    [
        {"a.b": 1, "a": {"b": 2}},
        {"a": {"b": 2}, "a.b": 1},
        {"a": None, "a.b": 1},
        {"a.b": 1, "a": 3},
        {"a.b": {"c": 1}, "a": {"b": None}},
        {".".join("a" * 65): 1},
        {"a": {".".join("a" * 64): 1}},
        {".".join("a" * 63): {"b": {"c": 1}}},
        {1: 2},
        {"a": float("nan")},
        [1],
    ],
)
def test_what_is_refused(patch: Any) -> None:
    """What says two things about a field, whatever the order, is too deep, or cannot be stored."""
    with pytest.raises(InputError, match="metadata of document 3"):
        Patch(patch, 3)


def test_the_deepest_path() -> None:
    """64 levels, as metadata have at most."""
    path = ".".join("a" * 64)
    assert find(Patch({path: 1}).applied_to(None), path) == 1
    assert find(Patch({path[:-2]: {"a": 1}}).applied_to(None), path) == 1


# --- against a merge of nested objects -------------------------------------------------------------------------------

names = st.sampled_from(["a", "b", "c"])
scalars = st.sampled_from([0, 1, "x", [1, {"a.b": None}]])
trees = st.recursive(
    st.dictionaries(names, scalars, max_size=3),
    lambda inner: st.dictionaries(names, scalars | inner, max_size=3),
    max_leaves=6,
)
patches = st.recursive(
    st.dictionaries(names, scalars | st.none(), max_size=3),
    lambda inner: st.dictionaries(names, scalars | st.none() | inner, max_size=3),
    max_leaves=6,
)


def rfc7396(target: Any, patch: Any) -> Any:
    """The function MergePatch of the RFC."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = rfc7396(result.get(name), value)
    return result


def spelled(tree: dict[str, Any], draw: Any) -> dict[str, Any]:
    """Return an object with some of the objects in it spelled by names with dots."""
    found: dict[str, Any] = {}
    for name, value in tree.items():
        if not isinstance(value, dict):
            found[name] = value
            continue
        inner = spelled(value, draw)
        apart = {key for key in inner if draw(st.booleans())}
        found.update({f"{name}.{key}": inner[key] for key in inner if key in apart})
        if len(apart) < len(inner) or not inner:
            found[name] = {key: inner[key] for key in inner if key not in apart}
    return found


def nested(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return an object without names with dots."""
    found: dict[str, Any] = {}
    for name, value in metadata.items():
        *parents, last = name.split(".")
        own = found
        for parent in parents:
            own = own.setdefault(parent, {})
        if isinstance(value, dict):
            own = own.setdefault(last, {})
            own.update(nested({**flat(own), **value}) if own else nested(value))
        else:
            own[last] = value
    return found


def flat(tree: dict[str, Any]) -> dict[str, Any]:
    """Return an object by paths to its values, and to its empty objects."""
    found: dict[str, Any] = {}
    for name, value in tree.items():
        inner = flat(value) if isinstance(value, dict) else {}
        found.update({f"{name}.{key}": one for key, one in inner.items()} if inner else {name: value})
    return found


@given(tree=trees, patch=patches)
def test_patches_without_dots(tree: dict[str, Any], patch: dict[str, Any]) -> None:
    """They do what the RFC says, to the letter."""
    assert Patch(patch).applied_to(tree) == rfc7396(tree, patch)


@given(tree=trees, patch=patches, data=st.data())
def test_any_spelling_of_a_document(tree: dict[str, Any], patch: dict[str, Any], data: Any) -> None:
    """A document that spells objects by names with dots gets the same values, and no field twice."""
    document = spelled(tree, data.draw)
    found = Patch(patch).applied_to(document)
    fields_of(found)  # raises if a field is there twice
    expected = flat(rfc7396(tree, patch))
    assert {path: value for path, value in flat(nested(found)).items() if value != {}} == {
        path: value for path, value in expected.items() if value != {}
    }
    untouched = {name for name in document if name.split(".")[0] not in patch}
    assert {name: found.get(name, MISSING) for name in untouched} == {name: document[name] for name in untouched}


@given(tree=trees, path=st.lists(names, min_size=1, max_size=4).map(".".join), value=scalars | st.none())
def test_a_path(tree: dict[str, Any], path: str, value: Any) -> None:
    """Afterwards the field has the value, or is not there, and fields beside it are as they were."""
    found = Patch({path: value}).applied_to(tree)
    assert find(found, path) is MISSING if value is None else find(found, path) == value
    before, after = flat(tree), flat(found)
    others = {key for key in before if not f"{key}.".startswith(f"{path}.") and not path.startswith(f"{key}.")}
    assert {key: after.get(key, MISSING) for key in others} == {key: before[key] for key in others}
