"""Conversions between containers (List, Dict, Tuple, Struct, Variant), part by part, with any conversion of the parts.

Source: https://ydb.tech/docs/en/yql/reference/types/cast
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from mayflydb.query.yql.casting import FAILED, Converter, identity
from mayflydb.query.yql.types import (
    DictType,
    EmptyDictType,
    EmptyListType,
    ListType,
    NullType,
    OptionalType,
    StructType,
    TupleType,
    Type,
    Value,
    VariantType,
    VoidType,
)

Convert: TypeAlias = Callable[[Any], Value]
Step: TypeAlias = Callable[[Type, Type], Converter | None]


def find_conversion(source: Type, to: Type, step: Step, strict: bool = False) -> Converter | None:
    """Return the converter between two containers of one kind; None if the kinds differ or `step` has no converter for
    a part.

    `strict`: every part must be converted. Otherwise Lists and Dicts drop the items that fail, and Tuples and Structs
    the members that the target does not have.
    """
    match source, to:
        case ListType(), ListType():
            return _list_converter(step(source.item, to.item), strict)
        case EmptyListType(), ListType():
            return (lambda value: []), False
        case EmptyDictType(), DictType():
            return (lambda value: {}), False
        case DictType(), DictType():
            return _dict_converter(step(source.key, to.key), step(source.payload, to.payload), strict)
        case TupleType(), TupleType():
            named, wanted = _number_members(source.items), _number_members(to.items)
            return None if strict and len(named) != len(wanted) else _struct_converter(named, wanted, step)
        case StructType(), StructType():
            names = {name for name, _ in to.members}
            lost = strict and any(name not in names for name, _ in source.members)
            return None if lost else _struct_converter(source.members, to.members, step)
        case VariantType(), VariantType():
            return _variant_converter(source, to, step)
        case VoidType(), VoidType():
            return identity, False
    return None


def _list_converter(item: Converter | None, strict: bool) -> Converter | None:
    if item is None:
        return None
    step, fails = item
    if not fails:
        return lambda value: [step(each) for each in value], False

    def convert(value: list[Value]) -> Value:
        parts = [each for each in map(step, value) if each is not FAILED]
        return FAILED if strict and len(parts) < len(value) else parts

    return convert, strict


def _dict_converter(key: Converter | None, payload: Converter | None, strict: bool) -> Converter | None:
    if key is None or payload is None:
        return None
    first, second = key[0], payload[0]

    def convert(value: dict[Any, Any]) -> Value:
        pairs = [(first(each), second(of)) for each, of in value.items()]
        kept = {each: of for each, of in pairs if each is not FAILED and of is not FAILED}
        return FAILED if strict and any(FAILED in pair for pair in pairs) else kept

    return convert, strict and (key[1] or payload[1])


Members: TypeAlias = tuple[tuple[str, Type], ...]


def _struct_converter(source: Members, to: Members, step: Step) -> Converter | None:
    """Convert members by name. A member that the target lacks is dropped; one that the source lacks is NULL, if its
    type allows NULL.

    One member that fails makes the whole value fail.
    """
    places = {name: (place, type) for place, (name, type) in enumerate(source)}
    steps: list[tuple[int, Convert]] = []
    fails = False
    for name, type in to:
        if name not in places:
            if not isinstance(type, (OptionalType, NullType)):
                return None
            # -1: a member that only the target has.
            steps.append((-1, identity))
            continue
        place, of = places[name]
        converter = step(of, type)
        if converter is None:
            return None
        fails = fails or converter[1]
        steps.append((place, converter[0]))

    def convert(value: tuple[Value, ...]) -> Value:
        parts = tuple([None if place < 0 else each(value[place]) for place, each in steps])
        return FAILED if fails and FAILED in parts else parts

    return convert, fails


def _variant_converter(source: VariantType, to: VariantType, step: Step) -> Converter | None:
    alternatives, wanted = _alternatives(source), _alternatives(to)
    names = [name for name, _ in wanted]
    ways: list[tuple[int, Convert] | None] = []
    fails = False
    for name, type in alternatives:
        converter = step(type, wanted[names.index(name)][1]) if name in names else None
        fails = fails or converter is None or converter[1]
        ways.append(None if converter is None else (names.index(name), converter[0]))
    if not any(ways):
        return None

    def convert(value: tuple[int, Value]) -> Value:
        way = ways[value[0]]
        result = FAILED if way is None else way[1](value[1])
        return FAILED if result is FAILED or way is None else (way[0], result)

    return convert, fails


def _alternatives(type: VariantType) -> Members:
    if isinstance(type.over, StructType):
        return type.over.members
    return _number_members(type.over.items) if isinstance(type.over, TupleType) else ()


def _number_members(items: tuple[Type, ...]) -> Members:
    return tuple((str(place), item) for place, item in enumerate(items))
