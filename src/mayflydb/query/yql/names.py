"""Resolution of type names. Upper and lower case do not matter.

Source: https://ydb.tech/docs/en/yql/reference/types/ and `type_string`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

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
    CallableArgument,
    CallableType,
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
    is_optional,
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

_FOREIGN: Final = ("stream", "flow", "generic")
_OF_QUERIES: Final = ("callable", "resource")


Lookup: TypeAlias = Callable[[TypeName], Type]
"""Returns the type that a named expression stands for: `$x`."""


def resolve_type(name: TypeName, lookup: Lookup | None = None) -> Type:
    """Resolve the name of a type. Faults: it is unknown, its arguments are wrong, or it is not supported.

    Without a lookup the type is one of values that are sent or stored, which no Callable and no Resource is.
    """
    word = name.name.lower()
    if word.startswith("$"):
        if lookup is None:
            raise unsupported("A type by a named expression", name.at)
        return lookup(name)
    if word in _FOREIGN or (lookup is None and word in _OF_QUERIES):
        raise unsupported(f"Type {name.name}", name.at)
    if name.members is None and not name.arguments and word in SIMPLE:
        return SIMPLE[word]
    build = _CONTAINERS.get(word)
    if build is None:
        raise fault(f"Unknown type: '{name.name}'", name.at)
    return build(name, lookup)


def find_serial_type(name: TypeName) -> Primitive | None:
    """The type of the values of a Serial column; None if the type is no Serial."""
    return None if name.arguments else SERIALS.get(name.name.lower())


# --- types with arguments --------------------------------------------------------------------------------------------


def _argument_fault(name: TypeName, expected: str) -> Fault:
    return fault(f"{name.name} type expects {expected}", name.at)


def _type_arguments(name: TypeName, lookup: Lookup | None, count: int | None = None) -> tuple[Type, ...]:
    """The arguments of a type as types. `count`: the required number of arguments."""
    arguments = [argument for argument in name.arguments if isinstance(argument, TypeName)]
    if len(arguments) != len(name.arguments) or count not in (None, len(arguments)):
        raise _argument_fault(name, "types" if count is None else f"exactly {count} type{'s' if count > 1 else ''}")
    return tuple(resolve_type(each, lookup) for each in arguments)


def _optional(name: TypeName, lookup: Lookup | None) -> Type:
    return OptionalType(*_type_arguments(name, lookup, 1))


def _list(name: TypeName, lookup: Lookup | None) -> Type:
    return ListType(*_type_arguments(name, lookup, 1))


def _tuple(name: TypeName, lookup: Lookup | None) -> Type:
    return TupleType(_type_arguments(name, lookup))


def _dict(name: TypeName, lookup: Lookup | None) -> Type:
    key, payload = _type_arguments(name, lookup, 2)
    return DictType(key, payload)


def _set(name: TypeName, lookup: Lookup | None) -> Type:
    (key,) = _type_arguments(name, lookup, 1)
    return DictType(key, VOID)


def _struct(name: TypeName, lookup: Lookup | None) -> Type:
    members = name.members or ()
    types = _type_arguments(name, lookup, len(members))
    if len(set(members)) < len(members):
        twice = next(each for each in members if members.count(each) > 1)
        raise fault(f"Duplicated member: {twice}", name.at)
    return StructType(tuple(zip(members, types, strict=True)))


def _variant(name: TypeName, lookup: Lookup | None) -> Type:
    if not name.arguments:
        raise _argument_fault(name, "at least one type")
    return VariantType(_tuple(name, lookup) if name.members is None else _struct(name, lookup))


def _enum(name: TypeName, lookup: Lookup | None) -> Type:
    labels = name.members or tuple(label for label in name.arguments if isinstance(label, str))
    if not labels:
        raise _argument_fault(name, "at least one name")
    return VariantType(StructType(tuple((label, VOID) for label in labels)))


def _tagged_type(name: TypeName, lookup: Lookup | None) -> Type:
    match name.arguments:
        case (TypeName() as item, str() as tag):
            return TaggedType(tag, resolve_type(item, lookup))
        case (TypeName() as item, TypeName(name=tag)):
            return TaggedType(tag, resolve_type(item, lookup))
    raise _argument_fault(name, "a type and a tag")


def _resource(name: TypeName, lookup: Lookup | None) -> Type:
    match name.arguments:
        case (str() as tag,) | (TypeName(name=tag),):
            return Primitive(f"Resource<'{tag}'>")
    raise _argument_fault(name, "a tag")


def _callable(name: TypeName, lookup: Lookup | None) -> Type:
    """A Callable: the number of optional arguments, the type of the result, and an `Argument` for each argument."""
    count, result, *given = name.arguments
    assert isinstance(count, int)
    assert isinstance(result, TypeName)
    arguments = []
    for each in given:
        assert isinstance(each, TypeName)
        (kind,) = _type_arguments(each, lookup, 1)
        label, *flags = each.members or ("",)
        arguments.append(CallableArgument(kind, label, bool(flags)))
    if any(not is_optional(each.type) for each in arguments[len(arguments) - count :]):
        raise fault("Optional arguments of a Callable must have optional types", name.at)
    return CallableType(tuple(arguments), resolve_type(result, lookup), count)


def _decimal(name: TypeName, lookup: Lookup | None) -> Type:
    match name.arguments:
        case (int() as precision, int() as scale):
            if not 1 <= precision <= 35:
                raise fault(f"Invalid decimal precision: {precision}", name.at)
            if not 0 <= scale <= precision:
                raise fault(f"Invalid decimal parameters: ({precision}, {scale})", name.at)
            return DecimalType(precision, scale)
    raise _argument_fault(name, "exactly 2 arguments, its precision and scale")


_CONTAINERS: Final[Mapping[str, Callable[[TypeName, Lookup | None], Type]]] = {
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
    "resource": _resource,
    "callable": _callable,
}
