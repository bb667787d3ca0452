"""Functions of dictionaries, and of sets, which are dictionaries with payloads of Void.

Source: https://ydb.tech/docs/en/yql/reference/builtins/dict
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mayflydb.query.yql.expression import Builder, Expression, Invocation, Operand
from mayflydb.query.yql.functions.support import (
    apply_with_nulls,
    argument_fault,
    convert_operand,
    count_operands,
    lambda_at,
    map_value,
    mismatch_fault,
    value_at,
    wrap_optional,
)
from mayflydb.query.yql.schemas import Row, Run
from mayflydb.query.yql.types import (
    BOOL,
    NULL,
    UINT64,
    VOID,
    DictType,
    EmptyDictType,
    EmptyListType,
    ListType,
    NullType,
    OptionalType,
    TupleType,
    Type,
    Value,
    bare,
    format_type,
    is_optional,
    optional,
)


def dict_at(call: Invocation, index: int) -> tuple[Expression, Type, Type]:
    """The dictionary operand, and the types of its keys and payloads (NULL for an empty dictionary)."""
    given = value_at(call, index)
    kind = bare(given.type)
    if isinstance(kind, DictType):
        return given, kind.key, kind.payload
    if isinstance(kind, (EmptyDictType, NullType)):
        return given, NULL, NULL
    raise argument_fault(call, f"Expected dict type, but got: {format_type(given.type)}")


def _dict_function(kind: Callable[[Type, Type], Type], change: Callable[[dict[Value, Value]], Value]) -> Builder:
    def build(call: Invocation) -> Operand:
        count_operands(call, 1)
        given, key, payload = dict_at(call, 0)
        return map_value(given, kind(key, payload), change)

    return build


def _key_of(call: Invocation, index: int, key: Type) -> Expression:
    """The operand as a key of such a dictionary, or NULL."""
    needle = value_at(call, index)
    if key == NULL or needle.type in (key, NULL):
        return needle
    found = convert_operand(call, index, key, needle)
    if bare(found.type) != bare(key):
        raise mismatch_fault(call, index, needle.type, key)
    return found


def _lookup(call: Invocation) -> Operand:
    count_operands(call, 2)
    given, key, payload = dict_at(call, 0)
    some = wrap_optional(payload)

    def lookup(found: Value, wanted: Value) -> Value:
        return some(found[wanted]) if found is not None and wanted in found else None

    return apply_with_nulls([given, _key_of(call, 1, key)], OptionalType(payload), lookup)


def _contains(call: Invocation) -> Operand:
    count_operands(call, 2)
    given, key, _ = dict_at(call, 0)
    return apply_with_nulls(
        [given, _key_of(call, 1, key)], BOOL, lambda found, wanted: found is not None and wanted in found
    )


# --- sets ------------------------------------------------------------------------------------------------------------


def _keys_at(call: Invocation, index: int, key: Type) -> Expression:
    """The operand, a list or a dictionary, whose items are keys of this type."""
    given = value_at(call, index)
    kind = bare(given.type)
    if isinstance(kind, (EmptyListType, EmptyDictType, NullType)):
        return given
    item = kind.item if isinstance(kind, ListType) else kind.key if isinstance(kind, DictType) else None
    if item is None or (key != NULL and item != key):
        raise mismatch_fault(call, index, given.type, ListType(key))
    return given


def _compare_sets(test: Callable[[Value, Value], bool]) -> Builder:
    """SetIncludes and SetIsDisjoint."""

    def build(call: Invocation) -> Operand:
        count_operands(call, 2)
        given, key, _ = dict_at(call, 0)
        other = _keys_at(call, 1, key)
        null = is_optional(given.type) or is_optional(other.type)
        return apply_with_nulls(
            [given, other],
            optional(BOOL) if null else BOOL,
            lambda first, second: None if first is None or second is None else test(first, second),
        )

    return build


def _combine_sets(choose: Callable[[dict[Value, Value], dict[Value, Value]], list[Value]], both: bool) -> Builder:
    """SetUnion and others: `choose` gives the keys; a lambda of the key and both payloads gives the payloads.

    `both`: each key is in both dictionaries, so that the lambda gets the payloads themselves; otherwise it gets Optionals.
    """

    def build(call: Invocation) -> Operand:
        given = count_operands(call, 2, 3)
        left, key, first = dict_at(call, 0)
        right, other, second = dict_at(call, 1)
        if NULL not in (key, other) and key != other:
            raise mismatch_fault(call, 1, right.type, left.type)
        key = other if key == NULL else key
        null = is_optional(left.type) or is_optional(right.type)
        if given == 2:
            kind: Type = DictType(key, VOID)
            return apply_with_nulls(
                [left, right],
                optional(kind) if null else kind,
                lambda a, b: None if a is None or b is None else dict.fromkeys(choose(a, b)),
            )
        types = (first, second) if both else (OptionalType(first), OptionalType(second))
        body = lambda_at(call, 2, [key, *types])
        some = (_identity, _identity) if both else (wrap_optional(first), wrap_optional(second))
        one, two = left.evaluate, right.evaluate

        def combine(row: Row, run: Run) -> Value:
            a, b = one(row, run), two(row, run)
            if a is None or b is None:
                return None
            return {
                k: body.call((k, some[0](a[k]) if k in a else None, some[1](b[k]) if k in b else None), row, run)
                for k in choose(a, b)
            }

        kind = DictType(key, body.type)
        return Expression(optional(kind) if null else kind, combine)

    return build


def _identity(value: Value) -> Value:
    return value


def _difference(call: Invocation) -> Operand:
    count_operands(call, 2)
    given, key, _ = dict_at(call, 0)
    other = _keys_at(call, 1, key)
    null = is_optional(given.type) or is_optional(other.type)
    kind = optional(given.type) if null else given.type
    return apply_with_nulls(
        [given, other],
        kind,
        lambda a, b: None if a is None or b is None else {k: v for k, v in a.items() if k not in b},
    )


BUILDERS: Final[dict[str, Builder]] = {
    "DictLength": _dict_function(lambda key, payload: UINT64, len),
    "DictHasItems": _dict_function(lambda key, payload: BOOL, bool),
    "DictKeys": _dict_function(lambda key, payload: ListType(key), list),
    "DictPayloads": _dict_function(lambda key, payload: ListType(payload), lambda found: list(found.values())),
    "DictItems": _dict_function(
        lambda key, payload: ListType(TupleType((key, payload))), lambda found: list(found.items())
    ),
    "DictLookup": _lookup,
    "DictContains": _contains,
    "SetIncludes": _compare_sets(lambda found, others: all(each in found for each in others)),
    "SetIsDisjoint": _compare_sets(lambda found, others: not any(each in found for each in others)),
    "SetUnion": _combine_sets(lambda a, b: [*a, *(key for key in b if key not in a)], both=False),
    "SetIntersection": _combine_sets(lambda a, b: [key for key in a if key in b], both=True),
    "SetSymmetricDifference": _combine_sets(
        lambda a, b: [*(key for key in a if key not in b), *(key for key in b if key not in a)], both=False
    ),
    "SetDifference": _difference,
}
