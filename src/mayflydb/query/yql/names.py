"""Resolution of type names. Upper and lower case do not matter.

Source: https://ydb.tech/docs/en/yql/reference/types/ and `type_string`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from mayflydb.query.yql.faults import Fault, fault, unsupported
from mayflydb.query.yql.syntax import TypeName
from mayflydb.query.yql.types import (
    EMPTY_DICT,
    EMPTY_LIST,
    INT16,
    INT32,
    INT64,
    NULL,
    PRIMITIVES,
    VOID,
    DecimalType,
    DictType,
    ListType,
    OptionalType,
    Primitive,
    StructType,
    TaggedType,
    TupleType,
    Type,
    VariantType,
)

_ALIASES: Final = {
    "tinyint": "Int8",
    "smallint": "Int16",
    "int": "Int32",
    "integer": "Int32",
    "bigint": "Int64",
    "byte": "Uint8",
    "text": "Utf8",
    "bytes": "String",
    "boolean": "Bool",
}

SIMPLE: Final[Mapping[str, Type]] = {
    **{name.lower(): type for name, type in PRIMITIVES.items()},
    **{alias: PRIMITIVES[name] for alias, name in _ALIASES.items()},
    "decimal": DecimalType(22, 9),
    "void": VOID,
    "unit": VOID,
    "null": NULL,
    "emptylist": EMPTY_LIST,
    "emptydict": EMPTY_DICT,
}
"""Types without arguments, by name in lower case."""

SERIALS: Final[Mapping[str, Primitive]] = {
    "smallserial": INT16,
    "serial2": INT16,
    "serial": INT32,
    "serial4": INT32,
    "serial8": INT64,
    "bigserial": INT64,
}
"""The type behind each Serial type, by name in lower case. Only columns have Serial types."""

_FOREIGN: Final = ("callable", "resource", "stream", "flow", "generic")


def resolve_type(name: TypeName) -> Type:
    """Resolve the name of a type. Faults: it is unknown, its arguments are wrong, or it is not supported."""
    word = name.name.lower()
    if word in _FOREIGN:
        raise unsupported(f"Type {name.name}", name.at)
    if name.members is None and not name.arguments and word in SIMPLE:
        return SIMPLE[word]
    build = _CONTAINERS.get(word)
    if build is None:
        raise fault(f"Unknown type: '{name.name}'", name.at)
    return build(name)


def find_serial_type(name: TypeName) -> Primitive | None:
    """The type of the values of a Serial column; None if the type is no Serial."""
    return None if name.arguments else SERIALS.get(name.name.lower())


# --- types with arguments --------------------------------------------------------------------------------------------


def _argument_fault(name: TypeName, expected: str) -> Fault:
    return fault(f"{name.name} type expects {expected}", name.at)


def _type_arguments(name: TypeName, count: int | None = None) -> tuple[Type, ...]:
    """The arguments of a type as types. `count`: the required number of arguments."""
    arguments = [argument for argument in name.arguments if isinstance(argument, TypeName)]
    if len(arguments) != len(name.arguments) or count not in (None, len(arguments)):
        raise _argument_fault(name, "types" if count is None else f"exactly {count} type{'s' if count > 1 else ''}")
    return tuple(map(resolve_type, arguments))


def _optional(name: TypeName) -> Type:
    return OptionalType(*_type_arguments(name, 1))


def _list(name: TypeName) -> Type:
    return ListType(*_type_arguments(name, 1))


def _tuple(name: TypeName) -> Type:
    return TupleType(_type_arguments(name))


def _dict(name: TypeName) -> Type:
    key, payload = _type_arguments(name, 2)
    return DictType(key, payload)


def _set(name: TypeName) -> Type:
    (key,) = _type_arguments(name, 1)
    return DictType(key, VOID)


def _struct(name: TypeName) -> Type:
    members = name.members or ()
    types = _type_arguments(name, len(members))
    if len(set(members)) < len(members):
        twice = next(each for each in members if members.count(each) > 1)
        raise fault(f"Duplicated member: {twice}", name.at)
    return StructType(tuple(zip(members, types, strict=True)))


def _variant(name: TypeName) -> Type:
    if not name.arguments:
        raise _argument_fault(name, "at least one type")
    return VariantType(_tuple(name) if name.members is None else _struct(name))


def _enum(name: TypeName) -> Type:
    labels = name.members or tuple(label for label in name.arguments if isinstance(label, str))
    if not labels:
        raise _argument_fault(name, "at least one name")
    return VariantType(StructType(tuple((label, VOID) for label in labels)))


def _tagged_type(name: TypeName) -> Type:
    match name.arguments:
        case (TypeName() as item, str() as tag):
            return TaggedType(tag, resolve_type(item))
        case (TypeName() as item, TypeName(name=tag)):
            return TaggedType(tag, resolve_type(item))
    raise _argument_fault(name, "a type and a tag")


def _decimal(name: TypeName) -> Type:
    match name.arguments:
        case (int() as precision, int() as scale):
            if not 1 <= precision <= 35:
                raise fault(f"Invalid decimal precision: {precision}", name.at)
            if not 0 <= scale <= precision:
                raise fault(f"Invalid decimal parameters: ({precision}, {scale})", name.at)
            return DecimalType(precision, scale)
    raise _argument_fault(name, "exactly 2 arguments, its precision and scale")


_CONTAINERS: Final[Mapping[str, Callable[[TypeName], Type]]] = {
    "optional": _optional,
    "list": _list,
    "tuple": _tuple,
    "dict": _dict,
    "set": _set,
    "struct": _struct,
    "variant": _variant,
    "enum": _enum,
    "tagged": _tagged_type,
    "decimal": _decimal,
}
