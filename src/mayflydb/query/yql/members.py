"""Types that differ only in the order of Struct members. To YQL they are one type, since members are found by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeAlias

from mayflydb.query.yql.types import (
    DictType,
    Just,
    ListType,
    OptionalType,
    StructType,
    TaggedType,
    TupleType,
    Type,
    Value,
    VariantType,
)

Arrange: TypeAlias = Callable[[Value], Value]


def _identity(value: Value) -> Value:
    return value


# Executions with parameters ask for the same pairs of types again and again.
@lru_cache(2048)
def find_arrangement(given: Type, to: Type) -> Arrange | None:
    """Return the function from a value of `given` to one of `to`; None if the types differ in more than the order of
    members."""
    if given == to:
        return _identity
    match given, to:
        case OptionalType(source), OptionalType(target):
            inner = find_arrangement(source, target)
            return None if inner is None else _optional(inner)
        case TaggedType(first, source), TaggedType(second, target):
            return find_arrangement(source, target) if first == second else None
        case ListType(source), ListType(target):
            inner = find_arrangement(source, target)
            return None if inner is None else lambda items: [inner(each) for each in items]
        case DictType(), DictType():
            return _dict(given, to)
        case TupleType(), TupleType():
            return _tuple(given, to)
        case StructType(), StructType():
            return _struct(given, to)
        case VariantType(), VariantType():
            return _variant(given, to)
    return None


def _optional(inner: Arrange) -> Arrange:
    def arrange(value: Value) -> Value:
        if isinstance(value, Just):
            return Just(inner(value.value))
        return None if value is None else inner(value)

    return arrange


def _dict(given: DictType, to: DictType) -> Arrange | None:
    key, payload = find_arrangement(given.key, to.key), find_arrangement(given.payload, to.payload)
    if key is None or payload is None:
        return None
    return lambda items: {key(name): payload(value) for name, value in items.items()}


def _parts(given: Sequence[Type], to: Sequence[Type]) -> list[Arrange] | None:
    """Return a function for each pair of types; None if one pair has none."""
    if len(given) != len(to):
        return None
    found = [find_arrangement(source, target) for source, target in zip(given, to, strict=True)]
    return None if None in found else [each for each in found if each is not None]


def _places(given: StructType, to: StructType) -> list[int] | None:
    """The index in `given` of each member of `to`; None if the names differ."""
    names = [name for name, _ in given.members]
    wanted = [name for name, _ in to.members]
    return [names.index(name) for name in wanted] if sorted(names) == sorted(wanted) else None


def _tuple(given: TupleType, to: TupleType) -> Arrange | None:
    parts = _parts(given.items, to.items)
    if parts is None:
        return None
    return lambda values: tuple([part(value) for part, value in zip(parts, values, strict=True)])


def _struct(given: StructType, to: StructType) -> Arrange | None:
    places = _places(given, to)
    if places is None:
        return None
    parts = _parts([given.members[place][1] for place in places], [type for _, type in to.members])
    if parts is None:
        return None
    chosen = list(zip(places, parts, strict=True))
    return lambda values: tuple([part(values[place]) for place, part in chosen])


def _variant(given: VariantType, to: VariantType) -> Arrange | None:
    match given.over, to.over:
        case TupleType(items=sources), TupleType(items=targets):
            parts = _parts(sources, targets)
            return None if parts is None else lambda value: (value[0], parts[value[0]](value[1]))
        case StructType() as source, StructType() as target:
            return _named_variant(source, target)
    return None


def _named_variant(given: StructType, to: StructType) -> Arrange | None:
    places = _places(given, to)
    parts = (
        None if places is None else _parts([given.members[place][1] for place in places], [t for _, t in to.members])
    )
    if places is None or parts is None:
        return None
    moved = {place: (number, part) for number, (place, part) in enumerate(zip(places, parts, strict=True))}

    def arrange(value: Value) -> Value:
        number, part = moved[value[0]]
        return number, part(value[1])

    return arrange
