"""Filters: a mapping such as {"year": {"$gte": 2020}}, checked and made canonical. docs/filters.md is its reference."""

from __future__ import annotations

import bisect
import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, TypeGuard

import numpy as np

from segmax.base.checks import shown
from segmax.base.errors import InputError
from segmax.metadata.values import MISSING, Scalar, checked_value, same, value_key

_DEEPEST = 32  # expressions inside each other
_MOST_PARTS = 100_000  # tests, and values in them
_MOST_CHARACTERS = 1 << 22
_LONGEST_NAME = 1000  # characters


@dataclasses.dataclass(frozen=True)
class Test:
    """One test of one field: the operator without its dollar sign, and what it compares with."""

    field: str
    operator: str  # eq, gt, gte, lt, lte, in, exists, prefix, contains
    operand: Any  # of `in`: a tuple of scalars, none twice

    @cached_property
    def key(self) -> str:
        """The test as canonical text."""
        operand = list(self.operand) if self.operator == "in" else self.operand
        return f'{{{_text(self.field)}:{{"${self.operator}":{_text(_canonical(operand))}}}}}'

    @cached_property
    def digest(self) -> bytes:
        """What only equal expressions have in common, and short."""
        return _digest(self.key.encode("utf-8", "surrogatepass"))

    @cached_property
    def operand_text(self) -> str:
        """What it compares with as text, by which lists and objects are equal to it."""
        return _text(_canonical(self.operand))

    @property
    def is_of_scalar(self) -> bool:
        """Whether it wants one scalar, which groups are made of, too."""
        return self.operator == "eq" and not isinstance(self.operand, (list, dict))

    @cached_property
    def wanted(self) -> frozenset[tuple[int, Any]]:
        """Of `in`: the values by which others are equal to one of them."""
        return frozenset(map(value_key, self.operand))


@dataclasses.dataclass(frozen=True)
class AllOf:
    """Holds where all of its parts do; without parts, everywhere."""

    parts: tuple[Node, ...]

    @property
    def key(self) -> str:
        """The expression as canonical text; not kept, because what is around it has all of it, too."""
        return f'{{"$and":[{_sorted_keys(self.parts)}]}}' if self.parts else "{}"

    @cached_property
    def digest(self) -> bytes:
        """What only equal expressions have in common, and short."""
        return _digest(b"$and", *sorted(part.digest for part in self.parts))


@dataclasses.dataclass(frozen=True)
class AnyOf:
    """Holds where one of its parts does."""

    parts: tuple[Node, ...]

    @property
    def key(self) -> str:
        """The expression as canonical text; not kept."""
        return f'{{"$or":[{_sorted_keys(self.parts)}]}}'

    @cached_property
    def digest(self) -> bytes:
        """What only equal expressions have in common, and short."""
        return _digest(b"$or", *sorted(part.digest for part in self.parts))


@dataclasses.dataclass(frozen=True)
class Not:
    """Holds where its part does not."""

    part: Node

    @property
    def key(self) -> str:
        """The expression as canonical text; not kept."""
        return f'{{"$not":{self.part.key}}}'

    @cached_property
    def digest(self) -> bytes:
        """What only equal expressions have in common, and short."""
        return _digest(b"$not", self.part.digest)


Node = Test | AllOf | AnyOf | Not


class Where:
    """A checked filter, as `parse_where` returns it: immutable, hashable, and equal to others of the same `key`.

    Examples
    --------
    >>> where = parse_where({"lang": {"$in": ["en", "de"]}, "year": 2020})
    >>> where == parse_where({"$and": [{"year": {"$eq": 2020.0}}, {"lang": {"$in": ["de", "en"]}}]})
    True
    >>> where.key
    '{"$and":[{"lang":{"$in":["de","en"]}},{"year":{"$eq":2020}}]}'
    """

    __slots__ = ("key", "root")

    key: str  #: Canonical text. Filters that differ only in the order of their parts have the same.
    root: Node  #: What it is made of.

    def __init__(self, root: Node) -> None:
        object.__setattr__(self, "root", root)
        object.__setattr__(self, "key", root.key)

    def __setattr__(self, name: str, value: object) -> None:
        msg = "a filter cannot be changed"
        raise AttributeError(msg)

    def __eq__(self, other: object) -> bool:
        return self.key == other.key if isinstance(other, Where) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.key)

    def __reduce__(self) -> tuple[Any, ...]:
        return Where, (self.root,)

    def __repr__(self) -> str:
        return f"Where({self.key})"

    @property
    def fields(self) -> frozenset[str]:
        """The fields that it tests."""
        return frozenset(fields_in(self.root))


def fields_in(node: Node) -> Iterator[str]:
    """Yield the field of every test in an expression."""
    if isinstance(node, Test):
        yield node.field
    else:
        for part in (node.part,) if isinstance(node, Not) else node.parts:
            yield from fields_in(part)


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _canonical(value: Any) -> Any:
    """Return a value with whole numbers as integers: 2.0 and 2 are equal."""
    if isinstance(value, list):
        return [_canonical(item) for item in value]
    if isinstance(value, dict):
        return {key: _canonical(item) for key, item in value.items()}
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _digest(*parts: bytes) -> bytes:
    return hashlib.blake2b(b"".join(parts), digest_size=32).digest()


def _sorted_keys(parts: tuple[Node, ...]) -> str:
    return ",".join(sorted(part.key for part in parts))


# --- testing one document ---------------------------------------------------------------------------------------------


def matches(node: Node, value_of: Callable[[str], Any]) -> bool:
    """Whether an expression holds for a document; `value_of` returns what it has in a field, or MISSING."""
    if isinstance(node, Test):
        return holds(node, value_of(node.field))
    if isinstance(node, Not):
        return not matches(node.part, value_of)
    is_any = isinstance(node, AnyOf)
    for part in node.parts:
        if matches(part, value_of) == is_any:
            return is_any
    return not is_any


def holds(test: Test, value: Any) -> bool:
    """Whether a test holds for the value of a field; a list may also match by an element."""
    if value is MISSING:
        return False
    if test.operator == "exists":
        return True
    if type(value) is LongList:
        return value.holds(test)
    if test.operator == "contains":
        return type(value) is list and any(same(item, test.operand) for item in value)
    if _matches(test, value):
        return True
    return type(value) is list and any(_matches(test, item) for item in value)


def _matches(test: Test, value: Any) -> bool:
    operand = test.operand
    if test.operator == "eq":
        return same(value, operand)
    if test.operator == "in":
        return not isinstance(value, (list, dict)) and value_key(value) in test.wanted
    if test.operator == "prefix":
        return isinstance(value, str) and value.startswith(operand)
    if isinstance(value, str) != isinstance(operand, str) or not is_ordered(value):
        return False
    return _ORDER[test.operator](value, operand)


class LongList:
    """A list that many tests are asked about: what they look for in it is found once, not element by element each time.

    Parameters
    ----------
    items
        The elements.
    """

    def __init__(self, items: list[Any]) -> None:
        self._items = items
        self._nested = {_text(_canonical(item)) for item in items if isinstance(item, (list, dict))}
        scalars = [item for item in items if not isinstance(item, (list, dict))]
        self._keys = set(map(value_key, scalars))
        self._strings = sorted({item for item in scalars if isinstance(item, str)})
        self._numbers = sorted({item for item in scalars if is_ordered(item) and not isinstance(item, str)})

    def holds(self, test: Test) -> bool:
        """Whether a test holds for the list, or for an element."""
        operand = test.operand
        if test.operator == "in":
            return not self._keys.isdisjoint(test.wanted)
        if test.operator == "prefix":
            at = bisect.bisect_left(self._strings, operand)
            return at < len(self._strings) and self._strings[at].startswith(operand)
        if test.operator in _ORDER:
            values = self._strings if isinstance(operand, str) else self._numbers
            return bool(values) and _ORDER[test.operator](values[-1 if test.operator in ("gt", "gte") else 0], operand)
        if not isinstance(operand, (list, dict)):
            return value_key(operand) in self._keys
        return test.operand_text in self._nested or same(self._items, operand)


_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "gt": lambda value, operand: value > operand,
    "gte": lambda value, operand: value >= operand,
    "lt": lambda value, operand: value < operand,
    "lte": lambda value, operand: value <= operand,
}


def is_ordered(value: object) -> bool:
    """Whether a value can be less than another: numbers and strings can, booleans cannot."""
    return isinstance(value, (int, float, str)) and not isinstance(value, bool)


# --- parsing ---------------------------------------------------------------------------------------------------------


def parse_where(where: Mapping[str, Any] | Where) -> Where:
    """Check a filter.

    Parameters
    ----------
    where
        A mapping of field to value, or to operators: `$eq $ne $gt $gte $lt $lte $in $nin $exists $prefix $contains
        $not`. Fields and operators beside each other have to hold together. `$and` and `$or` take a list of such
        mappings, `$not` takes one. An empty mapping matches everything.

    Raises
    ------
    InputError
        If the filter is not well-formed; the message says where in it.

    Examples
    --------
    >>> parse_where({"year": {"$gte": 2020, "$lt": 2023}}).key
    '{"$and":[{"year":{"$gte":2020}},{"year":{"$lt":2023}}]}'
    """
    if isinstance(where, Where):
        return where
    found = Where(_Parser().expression(where, "where", 1))
    if len(found.key) > _MOST_CHARACTERS:
        raise _too_long(f"{len(found.key):,}")
    return found


def _too_long(got: str) -> InputError:
    return InputError(option="where", expected=f"at most {_MOST_CHARACTERS:,} characters", got=got)


def num_characters(given: object) -> int:
    """Return about how many characters a filter, or a part of it, is made of, whatever holds them."""
    waiting, count = [given], 0
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            count += len(one)
        elif isinstance(one, Mapping):
            waiting += one.keys()
            waiting += one.values()
        elif isinstance(one, (list, tuple, set, frozenset)):
            waiting += one
    return count


def checked_field(name: object, where: str = "") -> str:
    """Return the name of a field; raise InputError for what is no string, or longer than any name may be."""
    if not isinstance(name, str):
        raise InputError(where=where, expected="a field as a string", got=shown(name))
    if len(name) > _LONGEST_NAME:
        raise InputError(
            where=where, expected=f"names of fields of at most {_LONGEST_NAME:,} characters", got=f"{len(name):,}"
        )
    return str.__str__(name)


class Narrowed(Where):
    """A filter that also wants a field to have a value, and remembers the filter that it narrows."""

    __slots__ = ("base", "test")

    base: Where | None  #: The filter without the field; None: everything.
    test: Test  #: What the field has to be equal to.

    def __init__(self, base: Where | None, test: Test) -> None:
        super().__init__(_all_of([*([] if base is None else [base.root]), test]))
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "test", test)

    def __reduce__(self) -> tuple[Any, ...]:
        return Narrowed, (self.base, self.test)


def narrowed(where: Where | None, field: str, value: Scalar) -> Narrowed:
    """Return the filter that also wants a field to have a value."""
    return Narrowed(where, Test(field, "eq", value))


class _Parser:
    """Turns mappings into nodes; counts what they are made of before it becomes text, which takes as much again."""

    def __init__(self) -> None:
        self._parts = 0
        self._characters = 0

    def expression(self, given: object, place: str, depth: int) -> Node:
        """Return the node of a mapping of fields and logical operators."""
        if depth > _DEEPEST:
            raise InputError(option="where", expected=f"at most {_DEEPEST} levels of nesting", got="more")
        if not isinstance(given, Mapping):
            raise InputError(where=place, expected='a mapping such as {"year": {"$gte": 2020}}', got=shown(given))
        parts: list[Node] = []
        for key, value in given.items():
            if not isinstance(key, str):
                raise InputError(where=place, expected="fields and operators as strings", got=shown(key))
            inside = f"{place}[{shown(key)}]"
            if key.startswith("$"):
                parts.append(self._logical(key, value, inside, depth))
            else:
                parts.append(self._field(checked_field(key, place), value, inside, depth))
        return _all_of(parts)

    def _logical(self, operator: str, given: object, place: str, depth: int) -> Node:
        if operator == "$not":
            return _negated(self.expression(given, place, depth + 1))
        if operator not in ("$and", "$or"):
            raise _unknown(operator, place, ("$and", "$or", "$not"), in_field=False)
        if not isinstance(given, (list, tuple)) or not given:
            raise InputError(where=place, expected="a list of one or more filters", got=shown(given))
        parts = [self.expression(one, f"{place}[{number}]", depth + 1) for number, one in enumerate(given)]
        return _all_of(parts) if operator == "$and" else _any_of(parts)

    def _field(self, field: str, given: object, place: str, depth: int) -> Node:
        """Return the node of a value that a field has to have, or of operators."""
        if isinstance(given, Mapping):
            return self._operators(field, given, place, depth)
        if _is_several(given):
            raise InputError(
                where=place,
                expected="a value or operators",
                got=shown(given),
                hint="write '$in' for one of these values, '$eq' for this very list",
            )
        return self._test(field, "$eq", given, place)

    def _operators(self, field: str, given: Mapping[Any, Any], place: str, depth: int) -> Node:
        if depth > _DEEPEST:
            raise InputError(option="where", expected=f"at most {_DEEPEST} levels of nesting", got="more")
        if not given:
            raise InputError(where=place, expected='operators such as {"$gte": 2020}', got="none")
        parts: list[Node] = []
        for operator, operand in given.items():
            inside = f"{place}[{shown(operator)}]"
            if not isinstance(operator, str) or not operator.startswith("$"):
                raise InputError(
                    where=place,
                    expected='operators such as {"$gte": 2020}',
                    got=shown(operator),
                    hint="name a field of an object by its path, such as 'author.name', or compare the object by '$eq'",
                )
            if operator == "$not":
                if not isinstance(operand, Mapping):
                    raise InputError(where=inside, expected='operators such as {"$gte": 2020}', got=shown(operand))
                parts.append(_negated(self._operators(field, operand, inside, depth + 1)))
            else:
                parts.append(self._test(field, operator, operand, inside))
        return _all_of(parts)

    def _test(self, field: str, operator: str, operand: object, place: str) -> Node:
        check = _OPERANDS.get(operator)
        if check is None:
            raise _unknown(operator, place, (*_OPERANDS, "$not"), in_field=True)
        try:
            checked = check(operand)
        except InputError as error:
            raise error.at(place) from None
        self._count(len(checked) + 1 if isinstance(checked, tuple) else 1, len(field) + num_characters(checked))
        if operator == "$exists":
            test = Test(field, "exists", True)
            return test if checked else Not(test)
        if operator in ("$ne", "$nin"):
            return Not(Test(field, "eq" if operator == "$ne" else "in", checked))
        return Test(field, operator[1:], checked)

    def _count(self, parts: int, characters: int) -> None:
        self._parts += parts
        self._characters += characters
        if self._characters > _MOST_CHARACTERS:
            raise _too_long("more")
        if self._parts > _MOST_PARTS:
            raise InputError(option="where", expected=f"at most {_MOST_PARTS:,} tests and values", got="more")


def _all_of(parts: list[Node]) -> Node:
    """Return the conjunction, without repeated parts and without conjunctions inside it."""
    flat = [inner for part in parts for inner in (part.parts if isinstance(part, AllOf) else (part,))]
    unique = tuple({part.digest: part for part in flat}.values())
    return unique[0] if len(unique) == 1 else AllOf(unique)


def _any_of(parts: list[Node]) -> Node:
    flat = [inner for part in parts for inner in (part.parts if isinstance(part, AnyOf) else (part,))]
    unique = tuple({part.digest: part for part in flat}.values())
    return unique[0] if len(unique) == 1 else AnyOf(unique)


def _negated(node: Node) -> Node:
    return node.part if isinstance(node, Not) else Not(node)


def _unknown(operator: str, place: str, known: tuple[str, ...], *, in_field: bool) -> InputError:
    """Return the error about an operator that is not known, or not at this place."""
    import difflib  # for this message alone

    if in_field and operator in ("$and", "$or"):
        hint = "write it around mappings of fields, not inside one field"
    elif not in_field and operator in _OPERANDS:
        hint = "write it behind the field that it tests"
    else:
        meant = difflib.get_close_matches(operator, known, n=1)
        hint = f"did you mean '{meant[0]}'?" if meant else ""
    return InputError(where=place, expected=f"an operator ({' '.join(known)})", got=shown(operator), hint=hint)


# --- operands --------------------------------------------------------------------------------------------------------


def _json(operand: object) -> Any:
    return checked_value(operand)


def _scalar(operand: object) -> Scalar:
    checked = checked_value(operand)
    if isinstance(checked, (list, dict)):
        raise InputError(expected="a string, a number, a boolean or None", got=shown(operand))
    return checked  # type: ignore[no-any-return]


def _ordered(operand: object) -> int | float | str:
    checked = checked_value(operand)
    if not is_ordered(checked):
        raise InputError(expected="a number or a string", got=shown(operand))
    return checked  # type: ignore[no-any-return]


def _is_several(operand: object) -> TypeGuard[Iterable[object]]:
    """Whether these are values, and not one; an array of numpy without dimensions is one."""
    return isinstance(operand, (list, tuple, set, frozenset)) or (isinstance(operand, np.ndarray) and operand.ndim > 0)


def _several(operand: object) -> tuple[Scalar, ...]:
    if not _is_several(operand):
        raise InputError(expected="a list of values", got=shown(operand))
    unique = {value_key(value): value for value in map(_scalar, operand)}
    return tuple(unique[key] for key in sorted(unique))


def _boolean(operand: object) -> bool:
    if not isinstance(operand, (bool, np.bool_)):
        raise InputError(expected="True or False", got=shown(operand))
    return bool(operand)


def _string(operand: object) -> str:
    if not isinstance(operand, str):
        raise InputError(expected="a string", got=shown(operand))
    return str.__str__(operand)


#: What each operator compares with.
_OPERANDS: Mapping[str, Callable[[object], Any]] = {
    "$eq": _json,
    "$ne": _json,
    "$gt": _ordered,
    "$gte": _ordered,
    "$lt": _ordered,
    "$lte": _ordered,
    "$in": _several,
    "$nin": _several,
    "$exists": _boolean,
    "$prefix": _string,
    "$contains": _scalar,
}
