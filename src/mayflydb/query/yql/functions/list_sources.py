"""Functions that build lists and dictionaries: ranges, copies, samples, pairs."""

from __future__ import annotations

from typing import Final

from mayflydb.query.yql.expression import Builder, Expression, Invocation, Operand
from mayflydb.query.yql.functions.constructors import check_key
from mayflydb.query.yql.functions.lists import list_at
from mayflydb.query.yql.functions.support import (
    apply_with_nulls,
    argument_fault,
    common_type,
    convert_operand,
    count_operands,
    map_value,
    value_at,
)
from mayflydb.query.yql.moments import SCALES, ZONED, is_wide
from mayflydb.query.yql.schemas import Row, Run
from mayflydb.query.yql.sizes import check_items
from mayflydb.query.yql.types import (
    DOUBLE,
    EMPTY_DICT,
    INTERVAL,
    INTERVAL64,
    NULL,
    NUMBERS,
    UINT64,
    VOID,
    DictType,
    ListType,
    TupleType,
    Type,
    Value,
    bare,
    format_type,
    is_optional,
    optional,
)


def _from_range(call: Invocation) -> Operand:
    """`ListFromRange(start, end [, step])` without the end."""
    stepped = count_operands(call, 2, 3) == 3
    first, second = value_at(call, 0), value_at(call, 1)
    if bare(first.type) in SCALES:
        return _from_moments(call, stepped)
    kind, given = common_type(call, [first, second, *([value_at(call, 2)] if stepped else [])])
    number = bare(kind)
    if number not in NUMBERS and kind != NULL:
        raise argument_fault(call, f"Expected numeric type, but got: {format_type(number)}")
    if not stepped:
        return apply_with_nulls(given, _range_type(kind), lambda low, high: _build_range(low, high, 1, call))
    return apply_with_nulls(given, _range_type(kind), lambda low, high, step: _build_range(low, high, step, call))


def _range_type(kind: Type) -> Type:
    return optional(ListType(bare(kind))) if is_optional(kind) else ListType(kind)


def _from_moments(call: Invocation, stepped: bool) -> Operand:
    kind, given = common_type(call, [value_at(call, 0), value_at(call, 1)])
    if bare(kind) in ZONED:
        raise argument_fault(call, f"Expected a type without a timezone, but got: {format_type(kind)}")
    unit = SCALES[bare(kind)]
    step = convert_operand(call, 2, INTERVAL64 if is_wide(bare(kind)) else INTERVAL) if stepped else None
    if step is None:
        return apply_with_nulls(given, _range_type(kind), lambda low, high: _build_range(low, high, 1, call))
    return apply_with_nulls(
        [*given, step],
        _range_type(kind),
        # The unit of the type is the least step: an interval that is no multiple of it gives an empty list.
        lambda low, high, by: _build_range(
            low, high, None if by is None else by // unit if by % unit == 0 else 0, call
        ),
    )


def _build_range(low: Value, high: Value, step: Value, call: Invocation) -> Value:
    if low is None or high is None or step is None:
        return None
    if not step or step != step:
        return []
    size = (high - low) / step
    if size != size or size <= 0:
        return []
    # Before a list is built: two numbers can ask for any length.
    check_items(size, "ListFromRange", call.position)
    if isinstance(low, float) or isinstance(step, float):
        found, index = [], 0
        # Multiplied, not added up, so that errors of rounding do not grow.
        while (low + index * step < high) if step > 0 else (low + index * step > high):
            found.append(low + index * step)
            index += 1
        return found
    return list(range(low, high, step))


def _replicate(call: Invocation) -> Operand:
    count_operands(call, 2)
    value, times = value_at(call, 0), convert_operand(call, 1, UINT64)

    def replicate(item: Value, number: Value) -> Value:
        if number is None:
            return None
        check_items(number, "ListReplicate", call.position)
        return [item] * number

    kind = ListType(value.type)
    return apply_with_nulls([value, times], optional(kind) if is_optional(times.type) else kind, replicate)


def _to_multi_dict(call: Invocation) -> Operand:
    return _dict_of(call, several=True)


def _to_dict(call: Invocation) -> Operand:
    return _dict_of(call, several=False)


def _dict_of(call: Invocation, several: bool) -> Operand:
    """Build a dictionary of a list of (key, payload): the first payload of equal keys, or a list of all payloads."""
    count_operands(call, 1)
    given, item = list_at(call, 0)
    if item == NULL:
        return map_value(given, EMPTY_DICT, lambda values: {})
    if not isinstance(item, TupleType) or len(item.items) != 2:
        raise argument_fault(call, f"Expected list of pairs, but got: {format_type(given.type)}")
    key, payload = item.items
    check_key(call, key)
    if not several:
        # Of equal keys the first wins: reversed, it is written last.
        return map_value(given, DictType(key, payload), _keep_first)

    def gather(values: list[Value]) -> Value:
        found: dict[Value, list[Value]] = {}
        for each, value in values:
            found.setdefault(each, []).append(value)
        return found

    return map_value(given, DictType(key, ListType(payload)), gather)


# Keys of a client may have colliding hashes, so that each takes long: `dict` and `dict.fromkeys` could not be stopped.


def _keep_first(pairs: list[Value]) -> Value:
    found: dict[Value, Value] = {}
    for key, value in reversed(pairs):
        found[key] = value  # noqa: PERF403 -- see above
    return found


def _gather_keys(keys: list[Value]) -> Value:
    found: dict[Value, None] = {}
    for key in keys:
        found[key] = None
    return found


def _to_set(call: Invocation) -> Operand:
    count_operands(call, 1)
    given, item = list_at(call, 0)
    if item == NULL:
        return map_value(given, EMPTY_DICT, lambda values: {})
    check_key(call, item)
    return map_value(given, DictType(item, VOID), _gather_keys)


# --- random choices --------------------------------------------------------------------------------------------------


def _sample(call: Invocation) -> Operand:
    """`ListSample(list, probability)`: the function chooses each item independently."""
    count_operands(call, 2, 3)
    given, _ = list_at(call, 0)
    evaluate, probability = given.evaluate, convert_operand(call, 1, DOUBLE).evaluate

    def sample(row: Row, run: Run) -> Value:
        values, chosen = evaluate(row, run), probability(row, run)
        if values is None or chosen is None:
            return values
        return [value for value in values if run.chance.random() < chosen]

    return Expression(given.type, sample)


def _sample_of(call: Invocation) -> Operand:
    """`ListSampleN(list, number)`"""
    count_operands(call, 2, 3)
    given, _ = list_at(call, 0)
    evaluate, number = given.evaluate, convert_operand(call, 1, UINT64).evaluate

    def sample(row: Row, run: Run) -> Value:
        values, size = evaluate(row, run), number(row, run)
        if values is None or size is None or size >= len(values):
            return values
        return _shuffle_values(values, run)[:size]

    return Expression(given.type, sample)


def _shuffle(call: Invocation) -> Operand:
    count_operands(call, 1, 2)
    given, _ = list_at(call, 0)
    evaluate = given.evaluate

    def shuffle(row: Row, run: Run) -> Value:
        values = evaluate(row, run)
        return None if values is None else _shuffle_values(values, run)

    return Expression(given.type, shuffle)


def _shuffle_values(values: list[Value], run: Run) -> list[Value]:
    found = list(values)
    for last in range(len(found) - 1, 0, -1):
        other = int(run.chance.random() * (last + 1))
        found[last], found[other] = found[other], found[last]
    return found


BUILDERS: Final[dict[str, Builder]] = {
    "ListFromRange": _from_range,
    "ListReplicate": _replicate,
    "ListSample": _sample,
    "ListSampleN": _sample_of,
    "ListShuffle": _shuffle,
    "ToDict": _to_dict,
    "ToMultiDict": _to_multi_dict,
    "ToSet": _to_set,
}
