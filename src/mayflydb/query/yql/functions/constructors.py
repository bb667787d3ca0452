"""Literals written as `Type("text")`, and constructors of containers: AsList, AsTuple, AsStruct, AsDict, AsSet, Variant."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Final

from mayflydb.query.yql import texts
from mayflydb.query.yql.expression import Builder, Expression, Invocation, Operand
from mayflydb.query.yql.faults import fault, unsupported
from mayflydb.query.yql.functions.support import (
    apply_with_nulls,
    argument_fault,
    common_type,
    constant,
    convert_operand,
    count_operands,
    evaluate_constant,
    type_at,
    value_at,
    values_of,
)
from mayflydb.query.yql.types import (
    EMPTY_DICT,
    EMPTY_LIST,
    PRIMITIVES,
    STRING,
    UTF8,
    VOID,
    DecimalType,
    DictType,
    ListType,
    NullType,
    OptionalType,
    StructType,
    TaggedType,
    TupleType,
    Type,
    Value,
    VariantType,
    bare,
    format_type,
)


def _literal_text(call: Invocation) -> str:
    """The text of the first operand, which must be a constant."""
    given = value_at(call, 0)
    if bare(given.type) not in (STRING, UTF8) or not (given.constant or given.literal):
        raise argument_fault(call, f"Expected literal string as argument in {call.name} function")
    value = evaluate_constant(given, call)
    if value is None:
        raise argument_fault(call, f"Expected literal string as argument in {call.name} function")
    return value if isinstance(value, str) else str(value, "utf-8", "surrogateescape")


def _literal_builder(kind: Type) -> Builder:
    def build(call: Invocation) -> Operand:
        count_operands(call, 1)
        return _construct(call, kind)

    return build


def _construct(call: Invocation, kind: Type) -> Expression:
    text = _literal_text(call)
    value = text.encode("utf-8", "surrogateescape") if kind == STRING else texts.from_text(kind, text)
    if value is None:
        raise fault(f'Invalid value "{text}" for type {format_type(kind)}', call.position)
    return constant(kind, value)


def _decimal(call: Invocation) -> Operand:
    """`Decimal("1.23", 22, 9)`."""
    count_operands(call, 3)
    precision, scale = (_number(call, index) for index in (1, 2))
    if not 1 <= precision <= 35:
        raise argument_fault(call, f"Invalid decimal precision: {precision}")
    if not 0 <= scale <= precision:
        raise argument_fault(call, f"Invalid decimal parameters: ({precision},{scale})")
    return _construct(call, DecimalType(precision, scale))


def _number(call: Invocation, index: int) -> int:
    value = evaluate_constant(value_at(call, index), call)
    if type(value) is not int:
        raise argument_fault(call, f"Expected an integer literal as argument #{index + 1}")
    return value


def _void(call: Invocation) -> Operand:
    count_operands(call, 0)
    return constant(VOID, None)


def _empty_list(call: Invocation) -> Operand:
    count_operands(call, 0)
    return Expression(EMPTY_LIST, lambda row, run: [], constant=True)


def _empty_dict(call: Invocation) -> Operand:
    count_operands(call, 0)
    return Expression(EMPTY_DICT, lambda row, run: {}, constant=True)


# --- containers ------------------------------------------------------------------------------------------------------


def _as_list(call: Invocation) -> Operand:
    if not count_operands(call, 0, -1):
        return _empty_list(call)
    item, given = common_type(call, values_of(call))
    return apply_with_nulls(given, ListType(item), lambda *values: list(values))


def _as_list_strict(call: Invocation) -> Operand:
    given = values_of(call)
    for index, each in enumerate(given):
        if each.type != given[0].type:
            raise argument_fault(call, f"Mismatch type of argument #{index + 1}")
    return _as_list(call)


def _as_tuple(call: Invocation) -> Operand:
    count_operands(call, 0, -1)
    given = values_of(call)
    return apply_with_nulls(given, TupleType(tuple(each.type for each in given)), lambda *values: values)


def _as_struct(call: Invocation) -> Operand:
    if call.operands:
        raise argument_fault(call, "Expected named arguments only")
    return struct_of(call, [(name, _named_value(call, operand)) for name, operand in call.named])


def struct_of(call: Invocation, members: Iterable[tuple[str, Expression]]) -> Expression:
    """Build a Struct of these members; the Struct orders them by name."""
    ordered = sorted(members, key=lambda member: member[0])
    for (name, _), (following, _) in pairwise(ordered):
        if name == following:
            raise argument_fault(call, f"Duplicated member: {name}")
    kind = StructType(tuple((name, each.type) for name, each in ordered))
    return apply_with_nulls([each for _, each in ordered], kind, lambda *values: values)


def _named_value(call: Invocation, operand: Operand) -> Expression:
    if not isinstance(operand, Expression):
        raise argument_fault(call, "Expected a value as named argument")
    return operand


def _as_dict(call: Invocation) -> Operand:
    if not count_operands(call, 0, -1):
        return _empty_dict(call)
    _, given = common_type(call, values_of(call))
    pair = given[0].type
    if not isinstance(pair, TupleType) or len(pair.items) != 2:
        raise argument_fault(call, "Expected tuples of a key and a payload")
    key, payload = pair.items
    check_key(call, key)

    def make(*pairs: Value) -> Value:
        # Of equal keys the first wins: reversed, it is written last.
        return dict(reversed(pairs))

    return apply_with_nulls(given, DictType(key, payload), make)


def _as_set(call: Invocation) -> Operand:
    if not count_operands(call, 0, -1):
        return _empty_dict(call)
    key, given = common_type(call, values_of(call))
    check_key(call, key)
    return apply_with_nulls(given, DictType(key, VOID), lambda *values: dict.fromkeys(values))


def check_key(call: Invocation, kind: Type) -> None:
    """Raise Fault for keys that a Dict cannot have here: Lists and Dicts, and types that contain them."""
    match kind:
        case OptionalType(item) | TaggedType(_, item):
            check_key(call, item)
        case TupleType(items):
            for item in items:
                check_key(call, item)
        case StructType(members):
            for _, item in members:
                check_key(call, item)
        case VariantType(over):
            check_key(call, over)
        case ListType() | DictType():
            raise unsupported(f"Dict with keys of type {format_type(kind)}", call.position)
        case _:
            pass


# --- variants, enums, tags, empty values -----------------------------------------------------------------------------


def alternatives(kind: VariantType) -> list[tuple[str, Type]]:
    """The alternatives of a Variant by name; those over a Tuple are "0", "1" and so on."""
    if isinstance(kind.over, StructType):
        return list(kind.over.members)
    assert isinstance(kind.over, TupleType)
    return [(str(index), item) for index, item in enumerate(kind.over.items)]


def _variant(call: Invocation) -> Operand:
    """`Variant(value, "name", Variant<...>)`"""
    count_operands(call, 3)
    kind = type_at(call, 2)
    if not isinstance(kind, VariantType):
        raise argument_fault(call, f"Expected variant type, but got: {format_type(kind)}")
    return _in_variant(call, value_at(call, 0), _label(call, 1), kind)


def _label(call: Invocation, index: int) -> str:
    value = evaluate_constant(value_at(call, index), call)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _in_variant(call: Invocation, given: Expression, label: str, kind: VariantType) -> Expression:
    for index, (name, item) in enumerate(alternatives(kind)):
        if name == label:
            found = convert_operand(call, 0, item, given)
            if found.type != item:
                raise argument_fault(call, f"Mismatch type of alternative {label}: {found.type} != {item}")
            return apply_with_nulls([found], kind, _tag_with_index(index))
    raise argument_fault(call, f"Unknown alternative: {label}")


def _tag_with_index(index: int) -> Callable[[Value], Value]:
    return lambda value: (index, value)


def _as_variant(call: Invocation) -> Operand:
    """`AsVariant(value, "name")`: a Variant of one alternative."""
    count_operands(call, 2)
    given, label = value_at(call, 0), _label(call, 1)
    return apply_with_nulls([given], VariantType(StructType(((label, given.type),))), _tag_with_index(0))


def _enum(call: Invocation) -> Operand:
    """`Enum("name", Enum<...>)`"""
    count_operands(call, 2)
    kind = type_at(call, 1)
    if not isinstance(kind, VariantType):
        raise argument_fault(call, f"Expected enum type, but got: {format_type(kind)}")
    return _in_variant(call, constant(VOID, None), _label(call, 0), kind)


def _as_enum(call: Invocation) -> Operand:
    count_operands(call, 1)
    return constant(VariantType(StructType(((_label(call, 0), VOID),))), (0, None))


def _as_tagged(call: Invocation) -> Operand:
    count_operands(call, 2)
    given, tag = value_at(call, 0), _label(call, 1)
    return apply_with_nulls([given], TaggedType(tag, given.type), lambda value: value)


def _untag(call: Invocation) -> Operand:
    count_operands(call, 2)
    given, tag = value_at(call, 0), _label(call, 1)
    kind = bare(given.type)
    if not isinstance(kind, TaggedType) or kind.tag != tag:
        raise argument_fault(call, f"Expected tagged type with tag: {tag}, but got: {format_type(given.type)}")
    # An Optional of the tagged type keeps its level, and a value in it the form that it has there.
    wanted = OptionalType(kind.item) if isinstance(given.type, OptionalType) else kind.item
    return apply_with_nulls([given], wanted, lambda value: value)


def _nothing(call: Invocation) -> Operand:
    """`Nothing(Int32?)`"""
    count_operands(call, 1)
    kind = type_at(call, 0)
    if not isinstance(kind, (OptionalType, NullType)):
        raise argument_fault(call, f"Expected optional type, but got: {format_type(kind)}")
    return constant(kind, None)


def _list_create(call: Invocation) -> Operand:
    count_operands(call, 1)
    return Expression(ListType(type_at(call, 0)), lambda row, run: [], constant=True)


def _dict_create(call: Invocation) -> Operand:
    count_operands(call, 2)
    check_key(call, type_at(call, 0))
    kind = DictType(type_at(call, 0), type_at(call, 1))
    return Expression(kind, lambda row, run: {}, constant=True)


def _set_create(call: Invocation) -> Operand:
    count_operands(call, 1)
    check_key(call, type_at(call, 0))
    return Expression(DictType(type_at(call, 0), VOID), lambda row, run: {}, constant=True)


BUILDERS: Final[dict[str, Builder]] = {
    **{name: _literal_builder(kind) for name, kind in PRIMITIVES.items()},
    "Text": _literal_builder(UTF8),
    "Bytes": _literal_builder(STRING),
    "Decimal": _decimal,
    "Void": _void,
    "EmptyList": _empty_list,
    "EmptyDict": _empty_dict,
    "AsList": _as_list,
    "AsListStrict": _as_list_strict,
    "AsTuple": _as_tuple,
    "AsStruct": _as_struct,
    "AsDict": _as_dict,
    "AsDictStrict": _as_dict,
    "AsSet": _as_set,
    "AsSetStrict": _as_set,
    "Variant": _variant,
    "AsVariant": _as_variant,
    "Enum": _enum,
    "AsEnum": _as_enum,
    "AsTagged": _as_tagged,
    "Untag": _untag,
    "Nothing": _nothing,
    "ListCreate": _list_create,
    "DictCreate": _dict_create,
    "SetCreate": _set_create,
}
