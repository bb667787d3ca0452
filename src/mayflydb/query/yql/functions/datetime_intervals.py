"""`DateTime::` conversions between instants, intervals and numbers: ToSeconds, FromSeconds, IntervalFromDays and others.

Source: https://ydb.tech/docs/en/yql/reference/udf/list/datetime
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mayflydb.query.yql.expression import Builder, Invocation, Operand
from mayflydb.query.yql.functions.support import (
    apply_with_nulls,
    argument_fault,
    convert_operand,
    count_operands,
    map_value,
    value_at,
)
from mayflydb.query.yql.moments import MOMENTS, SCALES, UNZONED, ZONED, fits, is_wide
from mayflydb.query.yql.types import (
    INT32,
    INT64,
    INTERVAL,
    INTERVAL64,
    TIMESTAMP,
    TIMESTAMP64,
    UINT32,
    UINT64,
    Type,
    Value,
    bare,
    format_type,
    optional,
)

_UNITS: Final = {
    "Days": 86_400_000_000,
    "Hours": 3_600_000_000,
    "Minutes": 60_000_000,
    "Seconds": 1_000_000,
    "Milliseconds": 1000,
    "Microseconds": 1,
}


def _toward_zero(value: int, divisor: int) -> int:
    return value // divisor if value >= 0 else -(-value // divisor)


def _to_unit(name: str, unit: int) -> Builder:
    """`ToSeconds(moment or interval)`"""

    def build(call: Invocation) -> Operand:
        count_operands(call, 1)
        given = value_at(call, 0)
        kind = bare(given.type)
        if kind in (INTERVAL, INTERVAL64):
            narrow = name == "Days" or (kind == INTERVAL and name in ("Hours", "Minutes"))
            return map_value(given, INT32 if narrow else INT64, lambda value: _toward_zero(value, unit))
        if kind not in MOMENTS or name in ("Days", "Hours", "Minutes"):
            raise argument_fault(call, f"Unsupported type: {format_type(given.type)}")
        scale = SCALES[UNZONED.get(kind, kind)]
        result = INT64 if is_wide(kind) else UINT32 if name == "Seconds" else UINT64
        if kind in ZONED:
            return map_value(given, result, lambda value: value[0] * scale // unit)
        return map_value(given, result, lambda value: value * scale // unit)

    return build


def _from_unit(source: Type, kind: Type, unit: int) -> Builder:
    """`FromSeconds(number)`: NULL for a number out of the type's range."""

    def build(call: Invocation) -> Operand:
        count_operands(call, 1)
        given = convert_operand(call, 0, source)

        def moment(value: Value) -> Value:
            return None if value is None or not fits(kind, value * unit) else value * unit

        return apply_with_nulls([given], optional(kind), moment)

    return build


def _interval_from_unit(source: Type, kind: Type, unit: int) -> Builder:
    """`IntervalFromDays(number)`: NULL for a number out of the type's range."""
    within = _range_check(kind)

    def build(call: Invocation) -> Operand:
        count_operands(call, 1)
        given = convert_operand(call, 0, source)

        def interval(value: Value) -> Value:
            return None if value is None or not within(value * unit) else value * unit

        return apply_with_nulls([given], optional(kind), interval)

    return build


def _range_check(kind: Type) -> Callable[[int], bool]:
    return lambda value: fits(kind, value)


def _builders() -> dict[str, Builder]:
    found = {f"To{name}": _to_unit(name, unit) for name, unit in _UNITS.items()}
    for name, unit in _UNITS.items():
        small = name in ("Days", "Hours", "Minutes")
        found[f"IntervalFrom{name}"] = _interval_from_unit(INT32 if small else INT64, INTERVAL, unit)
        found[f"Interval64From{name}"] = _interval_from_unit(INT32 if name == "Days" else INT64, INTERVAL64, unit)
        if not small:
            found[f"From{name}"] = _from_unit(UINT32 if name == "Seconds" else UINT64, TIMESTAMP, unit)
            found[f"From{name}64"] = _from_unit(INT64, TIMESTAMP64, unit)
    return found


BUILDERS: Final[dict[str, Builder]] = _builders()
