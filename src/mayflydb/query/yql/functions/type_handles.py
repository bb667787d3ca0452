"""Types as values: handles, which functions take apart and put together while a query runs.

A handle has the type Resource<'_Type'>, and its value is the type itself.
Source: https://ydb.tech/docs/en/yql/reference/builtins/types
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mayflydb.query.yql import names
from mayflydb.query.yql.expression import Builder, Expression, Invocation, Operand, TypeOperand
from mayflydb.query.yql.faults import Fault, fault
from mayflydb.query.yql.functions.support import (
    apply_function,
    argument_fault,
    constant,
    convert_operand,
    count_operands,
    evaluate_constant,
    type_at,
    value_at,
)
from mayflydb.query.yql.parser import parse_type
from mayflydb.query.yql.syntax import At, TypeName
from mayflydb.query.yql.types import (
    EMPTY_DICT,
    EMPTY_LIST,
    NULL,
    STRING,
    UINT32,
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
    Value,
    VariantType,
    bare,
    format_type,
    is_optional,
)

HANDLE: Final = Primitive("Resource<'_Type'>")
_MEMBER: Final = StructType((("Name", STRING), ("Type", HANDLE)))
_ARGUMENT: Final = StructType((("Flags", ListType(STRING)), ("Name", STRING), ("Type", HANDLE)))
_CALLABLE: Final = StructType(
    (
        ("Arguments", ListType(_ARGUMENT)),
        ("OptionalArgumentsCount", UINT32),
        ("Payload", STRING),
        ("Result", HANDLE),
    )
)
_TAG: Final = "Resource<'"


def parse_type_text(text: bytes | str) -> Type:
    """The type that a text describes. Faults: it describes none."""
    shown = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    try:
        return names.resolve_type(parse_type(shown), _no_name)
    except Fault as error:
        raise fault(f"Failed to parse type: {error}") from None


def _no_name(name: TypeName) -> Type:
    raise fault(f"Unknown name: {name.name}", name.at)


def _parse(call: Invocation) -> Operand:
    """`ParseType("List<Int32>")`: a type, so that the text must be a constant."""
    count_operands(call, 1)
    return TypeOperand(parse_type_text(evaluate_constant(convert_operand(call, 0, STRING), call)))


def _handle_of_type(call: Invocation) -> Operand:
    count_operands(call, 1)
    return constant(HANDLE, type_at(call, 0))


def _type_of_handle(call: Invocation) -> Operand:
    count_operands(call, 1)
    return TypeOperand(evaluate_constant(value_at(call, 0), call))


def _resource_type(call: Invocation) -> Operand:
    count_operands(call, 1)
    return TypeOperand(_resource(evaluate_constant(convert_operand(call, 0, STRING), call)))


def _resource(tag: bytes) -> Type:
    return Primitive(f"{_TAG}{tag.decode('utf-8', 'replace')}'>")


def _callable_type(call: Invocation) -> Operand:
    """`CallableType(number of optional arguments, result, argument, ...)`"""
    count_operands(call, 2, -1)
    count = evaluate_constant(value_at(call, 0), call)
    given = [type_at(call, index) for index in range(2, len(call.operands))]
    return TypeOperand(_make_callable(type_at(call, 1), [CallableArgument(each) for each in given], count))


def _make_callable(result: Type, arguments: list[CallableArgument], optional: Any) -> CallableType:
    if type(optional) is not int or not 0 <= optional <= len(arguments):
        raise fault("Expected a number of optional arguments that is at most that of all arguments")
    if any(not is_optional(each.type) for each in arguments[len(arguments) - optional :]):
        raise fault("Optional arguments of a Callable must have optional types")
    return CallableType(tuple(arguments), result, optional)


def _callable_part(result: bool) -> Builder:
    """CallableResultType, and `CallableArgumentType(type, index)`"""

    def build(call: Invocation) -> Operand:
        count_operands(call, 1 if result else 2)
        kind = type_at(call, 0)
        if not isinstance(kind, CallableType):
            raise argument_fault(call, f"Expected callable type, but got: {format_type(kind)}")
        if result:
            return TypeOperand(kind.result)
        index = evaluate_constant(value_at(call, 1), call)
        number = int(index) if isinstance(index, (int, bytes)) and str(int(index)).isdigit() else -1
        if not 0 <= number < len(kind.arguments):
            raise argument_fault(call, f"Type {format_type(kind)} has no argument {index}")
        return TypeOperand(kind.arguments[number].type)

    return build


def _position_less(name: str) -> Type:
    return names.resolve_type(TypeName(At(1, 1), name))


# --- handles while the query runs --------------------------------------------------------------------------------------


def _kind_name(kind: Type) -> str:
    if isinstance(kind, Primitive):
        return "Resource" if kind.name.startswith(_TAG) else "Data"
    if isinstance(kind, DecimalType):
        return "Data"
    return kind.__class__.__name__.removesuffix("Type")


def _expect(kind: Any, wanted: type[Any], name: str) -> Any:
    if not isinstance(kind, wanted):
        raise fault(f"Expected {name} type, but got: {format_type(kind)}")
    return kind


def _data_parts(kind: Type) -> Value:
    if isinstance(kind, DecimalType):
        return [b"Decimal", str(kind.precision).encode(), str(kind.scale).encode()]
    if not isinstance(kind, Primitive) or kind.name.startswith(_TAG):
        raise fault(f"Expected data type, but got: {format_type(kind)}")
    return [kind.name.encode()]


def _data_handle(words: list[bytes]) -> Type:
    texts = [word.decode("utf-8", "replace") for word in words]
    if len(texts) == 3 and texts[0].lower() == "decimal" and texts[1].isdigit() and texts[2].isdigit():
        return names.resolve_type(TypeName(At(1, 1), "Decimal", (int(texts[1][:3]), int(texts[2][:3]))))
    if len(texts) != 1:
        raise fault("Expected the name of a data type")
    return _position_less(texts[0])


def _struct_parts(kind: Type) -> Value:
    return [(name.encode(), part) for name, part in _expect(kind, StructType, "struct").members]


def _struct_handle(members: list[Any]) -> Type:
    pairs = sorted((name.decode("utf-8", "replace"), part) for name, part in members)
    if len({name for name, _ in pairs}) < len(pairs):
        raise fault("Duplicated member")
    return StructType(tuple(pairs))


def _tagged_parts(kind: Type) -> Value:
    found = _expect(kind, TaggedType, "tagged")
    return found.item, found.tag.encode()


def _resource_tag(kind: Type) -> bytes:
    if not isinstance(kind, Primitive) or not kind.name.startswith(_TAG):
        raise fault(f"Expected resource type, but got: {format_type(kind)}")
    return kind.name.removeprefix(_TAG).removesuffix("'>").encode()


def _variant_handle(over: Type) -> Type:
    if not isinstance(over, (TupleType, StructType)):
        raise fault(f"Expected struct or tuple type, but got: {format_type(over)}")
    return VariantType(over)


def _callable_parts(kind: Type) -> Value:
    found = _expect(kind, CallableType, "callable")
    arguments = [([b"AutoMap"] * each.automap, each.name.encode(), each.type) for each in found.arguments]
    return arguments, found.optional, b"", found.result


def _callable_argument(kind: Type, name: bytes | None = None, flags: list[bytes] | None = None) -> Value:
    if any(each != b"AutoMap" for each in flags or ()):
        raise fault("Expected AutoMap as the flag of an argument")
    return flags or [], name or b"", kind


def _callable_handle(result: Type, arguments: list[Any], optional: int | None = None, payload: bytes = b"") -> Type:
    given = [CallableArgument(kind, name.decode("utf-8", "replace"), bool(flags)) for flags, name, kind in arguments]
    return _make_callable(result, given, optional or 0)


def _function(
    result: Type, kinds: tuple[Type, ...], change: Callable[..., Value], needed: int | None = None
) -> Builder:
    """Build a function of values of these types; `needed`: how many of them a call must give."""

    def build(call: Invocation) -> Operand:
        given = count_operands(call, len(kinds) if needed is None else needed, len(kinds))
        operands = [_operand(call, index, kinds[index]) for index in range(given)]
        if not operands:
            return constant(result, change())
        return apply_function(operands, result, change)

    return build


def _operand(call: Invocation, index: int, kind: Type) -> Expression:
    found = convert_operand(call, index, kind)
    if bare(found.type) != kind:
        raise argument_fault(call, f"Expected {format_type(kind)}, but got: {format_type(found.type)}")
    return found


_TYPES: Final = ListType(HANDLE)
_BY_HANDLE: Final[dict[str, Builder]] = {
    "ParseTypeHandle": _function(HANDLE, (STRING,), parse_type_text),
    "TypeKind": _function(STRING, (HANDLE,), lambda kind: _kind_name(kind).encode()),
    "DataTypeComponents": _function(ListType(STRING), (HANDLE,), _data_parts),
    "DataTypeHandle": _function(HANDLE, (ListType(STRING),), _data_handle),
    "OptionalTypeHandle": _function(HANDLE, (HANDLE,), OptionalType),
    "ListTypeHandle": _function(HANDLE, (HANDLE,), ListType),
    "EmptyListTypeHandle": _function(HANDLE, (), lambda: EMPTY_LIST),
    "EmptyDictTypeHandle": _function(HANDLE, (), lambda: EMPTY_DICT),
    "TupleTypeComponents": _function(_TYPES, (HANDLE,), lambda kind: list(_expect(kind, TupleType, "tuple").items)),
    "TupleTypeHandle": _function(HANDLE, (_TYPES,), lambda kinds: TupleType(tuple(kinds))),
    "StructTypeComponents": _function(ListType(_MEMBER), (HANDLE,), _struct_parts),
    "StructTypeHandle": _function(HANDLE, (ListType(_MEMBER),), _struct_handle),
    "DictTypeComponents": _function(
        StructType((("Key", HANDLE), ("Payload", HANDLE))),
        (HANDLE,),
        lambda kind: (_expect(kind, DictType, "dict").key, kind.payload),
    ),
    "DictTypeHandle": _function(HANDLE, (HANDLE, HANDLE), DictType),
    "ResourceTypeTag": _function(STRING, (HANDLE,), _resource_tag),
    "ResourceTypeHandle": _function(HANDLE, (STRING,), _resource),
    "TaggedTypeComponents": _function(StructType((("Base", HANDLE), ("Tag", STRING))), (HANDLE,), _tagged_parts),
    "TaggedTypeHandle": _function(
        HANDLE, (HANDLE, STRING), lambda kind, tag: TaggedType(tag.decode("utf-8", "replace"), kind)
    ),
    "VariantTypeHandle": _function(HANDLE, (HANDLE,), _variant_handle),
    "VoidTypeHandle": _function(HANDLE, (), lambda: VOID),
    "NullTypeHandle": _function(HANDLE, (), lambda: NULL),
    "CallableTypeComponents": _function(_CALLABLE, (HANDLE,), _callable_parts),
    "CallableArgument": _function(_ARGUMENT, (HANDLE, STRING, ListType(STRING)), _callable_argument, 1),
    "CallableTypeHandle": _function(HANDLE, (HANDLE, ListType(_ARGUMENT), UINT32, STRING), _callable_handle, 2),
}
BUILDERS: Final[dict[str, Builder]] = {
    **_BY_HANDLE,
    "ParseType": _parse,
    "TypeHandle": _handle_of_type,
    "EvaluateType": _type_of_handle,
    "ResourceType": _resource_type,
    "CallableType": _callable_type,
    "CallableResultType": _callable_part(result=True),
    "CallableArgumentType": _callable_part(result=False),
}
