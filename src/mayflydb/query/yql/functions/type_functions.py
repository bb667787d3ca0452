"""Types as arguments and results: TypeOf, FormatType, and functions that build types.

A type is known when the query is bound, so these functions do nothing when it runs.
Source: https://ydb.tech/docs/en/yql/reference/builtins/types
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mayflydb.query.yql import names
from mayflydb.query.yql.expression import Builder, Expression, Invocation, Operand, TypeOperand
from mayflydb.query.yql.faults import fault
from mayflydb.query.yql.functions.support import (
    argument_fault,
    constant,
    count_operands,
    evaluate_constant,
    map_value,
    type_at,
    value_at,
)
from mayflydb.query.yql.functions.type_handles import HANDLE
from mayflydb.query.yql.syntax import At, TypeName
from mayflydb.query.yql.types import (
    NULL,
    STRING,
    VOID,
    DecimalType,
    DictType,
    ListType,
    OptionalType,
    StructType,
    TaggedType,
    TupleType,
    Type,
    VariantType,
    bare,
    format_long,
    format_type,
    optional,
)


def _type_of(call: Invocation) -> Operand:
    count_operands(call, 1)
    return TypeOperand(value_at(call, 0).type)


def _instance_of(call: Invocation) -> Operand:
    """`InstanceOf(type)`: an expression that is used only for its type and has no value."""
    count_operands(call, 1)
    kind = type_at(call, 0)

    def evaluate(row: object, run: object) -> None:
        raise argument_fault(call, "InstanceOf has no value")

    return Expression(kind, evaluate)


def _format(call: Invocation) -> Operand:
    """`FormatType(type)`, or of a handle of a type."""
    count_operands(call, 1)
    operand = call.operands[0]
    if isinstance(operand, Expression) and bare(operand.type) == HANDLE:
        return map_value(operand, STRING, lambda kind: format_long(kind).encode())
    return constant(STRING, format_long(type_at(call, 0)).encode())


def _data(call: Invocation) -> Operand:
    """`DataType("Int32")`, `DataType("Decimal", "22", "9")`"""
    given = count_operands(call, 1, 3)
    words = [_word(call, index) for index in range(given)]
    if words[0].lower() == "decimal" and given == 3 and words[1].isdigit() and words[2].isdigit():
        return TypeOperand(DecimalType(int(words[1]), int(words[2])))
    return TypeOperand(names.resolve_type(TypeName(At(call.position.row, call.position.column), words[0])))


def _word(call: Invocation, index: int) -> str:
    value = evaluate_constant(value_at(call, index), call)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _build_type(number: int, make: Callable[..., Type]) -> Builder:
    def build(call: Invocation) -> Operand:
        count_operands(call, number)
        return TypeOperand(make(*[type_at(call, index) for index in range(number)]))

    return build


def _tuple(call: Invocation) -> Operand:
    count_operands(call, 0, -1)
    return TypeOperand(TupleType(tuple(type_at(call, index) for index in range(len(call.operands)))))


def _struct(call: Invocation) -> Operand:
    if call.operands:
        raise argument_fault(call, "Expected named arguments only")
    members = []
    for name, operand in call.named:
        if not isinstance(operand, TypeOperand):
            raise argument_fault(call, f"Expected a type as argument {name}")
        members.append((name, operand.type))
    return TypeOperand(StructType(tuple(sorted(members, key=lambda member: member[0]))))


def _variant(call: Invocation) -> Operand:
    count_operands(call, 1)
    over = type_at(call, 0)
    if not isinstance(over, (StructType, TupleType)):
        raise argument_fault(call, f"Expected struct or tuple type, but got: {format_type(over)}")
    return TypeOperand(VariantType(over))


def _tagged_type(call: Invocation) -> Operand:
    count_operands(call, 2)
    return TypeOperand(TaggedType(_word(call, 1), type_at(call, 0)))


def _part(wanted: type[Type], read: Callable[..., Type]) -> Builder:
    """A component of a type: ListItemType and others. Of the handle of a type it is a handle."""

    def part_of(kind: Type) -> Type:
        if not isinstance(kind, wanted):
            raise fault(f"Unexpected type: {format_type(kind)}")
        return read(kind)

    def build(call: Invocation) -> Operand:
        count_operands(call, 1)
        operand = call.operands[0]
        if isinstance(operand, Expression) and bare(operand.type) == HANDLE:
            return map_value(operand, HANDLE, part_of)
        kind = type_at(call, 0)
        if not isinstance(kind, wanted):
            raise argument_fault(call, f"Unexpected type: {format_type(kind)}")
        return TypeOperand(read(kind))

    return build


def _tuple_element(call: Invocation) -> Operand:
    count_operands(call, 2)
    kind, index = type_at(call, 0), _word(call, 1)
    if not isinstance(kind, TupleType) or not index.isdigit() or int(index) >= len(kind.items):
        raise argument_fault(call, f"Type {format_type(kind)} has no element {index}")
    return TypeOperand(kind.items[int(index)])


def _struct_member(call: Invocation) -> Operand:
    count_operands(call, 2)
    kind, name = type_at(call, 0), _word(call, 1)
    found = dict(kind.members).get(name) if isinstance(kind, StructType) else None
    if found is None:
        raise argument_fault(call, f"Unknown member name: {name}")
    return TypeOperand(found)


BUILDERS: Final[dict[str, Builder]] = {
    "TypeOf": _type_of,
    "InstanceOf": _instance_of,
    "FormatType": _format,
    "DataType": _data,
    "OptionalType": _build_type(1, OptionalType),
    "AsOptionalType": _build_type(1, optional),
    "ListType": _build_type(1, ListType),
    "DictType": _build_type(2, DictType),
    "SetType": _build_type(1, lambda key: DictType(key, VOID)),
    "TupleType": _tuple,
    "StructType": _struct,
    "VariantType": _variant,
    "TaggedType": _tagged_type,
    "VoidType": _build_type(0, lambda: VOID),
    "UnitType": _build_type(0, lambda: VOID),
    "NullType": _build_type(0, lambda: NULL),
    "OptionalItemType": _part(OptionalType, lambda kind: kind.item),
    "ListItemType": _part(ListType, lambda kind: kind.item),
    "DictKeyType": _part(DictType, lambda kind: kind.key),
    "DictPayloadType": _part(DictType, lambda kind: kind.payload),
    "VariantUnderlyingType": _part(VariantType, lambda kind: kind.over),
    "TupleElementType": _tuple_element,
    "StructMemberType": _struct_member,
}
