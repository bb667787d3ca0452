"""The instant of the transaction, random numbers, and the version and user of the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mayflydb.query.yql.expression import Builder, Expression, Invocation, Operand
from mayflydb.query.yql.faults import fault
from mayflydb.query.yql.functions.support import constant, convert_operand, count_operands, values_of
from mayflydb.query.yql.schemas import Row, Run
from mayflydb.query.yql.types import (
    DATE,
    DATETIME,
    DOUBLE,
    STRING,
    TIMESTAMP,
    TZ_DATE,
    TZ_DATETIME,
    TZ_TIMESTAMP,
    UINT64,
    UUID,
    Type,
    Value,
)
from mayflydb.query.yql.zones import zone_of

SECOND: Final = 1_000_000
DAY: Final = 86400 * SECOND
VERSION: Final = b"2025.02"
"""The version of the language that Mayfly follows."""


def _current(kind: Type, unit: int) -> Builder:
    """`CurrentUtcDate()`: one instant in a transaction. Arguments only declare on which rows the call depends."""

    def build(call: Invocation) -> Operand:
        values_of(call)
        return Expression(kind, lambda row, run: run.now // unit)

    return build


def _current_in_zone(kind: Type, unit: int) -> Builder:
    """`CurrentTzDate("Europe/Moscow")`"""

    def build(call: Invocation) -> Operand:
        count_operands(call, 1, -1)
        zone = convert_operand(call, 0, STRING)
        evaluate = zone.evaluate

        def current(row: Row, run: Run) -> Value:
            name = str(evaluate(row, run) or b"", "utf-8", "replace")
            check_zone(name, call)
            return (run.now // unit, name)

        return Expression(kind, current)

    return build


def check_zone(name: str, call: Invocation) -> None:
    if zone_of(name) is None:
        raise fault(f"Unknown timezone name: {name}", call.position)


def _random(kind: Type, draw: Callable[[Run], Value]) -> Builder:
    """`Random(columns...)`: arguments only declare on which rows the call depends."""

    def build(call: Invocation) -> Operand:
        count_operands(call, 0, -1)
        values_of(call)
        return Expression(kind, lambda row, run: draw(run))

    return build


def _uuid(run: Run) -> bytes:
    """A random UUID (version 4, variant of RFC 9562) in the byte order of a GUID."""
    drawn = bytearray(run.chance.getrandbits(128).to_bytes(16, "big"))
    # The high four bits of byte 6 are the version, the high two of byte 8 the variant.
    drawn[6] = drawn[6] & 0x0F | 0x40
    drawn[8] = drawn[8] & 0x3F | 0x80
    # The first three groups of a GUID are little-endian.
    return bytes((*drawn[3::-1], *drawn[5:3:-1], *drawn[7:5:-1], *drawn[8:]))


def _version(call: Invocation) -> Operand:
    count_operands(call, 0)
    return constant(STRING, VERSION)


def _user(call: Invocation) -> Operand:
    count_operands(call, 0)
    return Expression(STRING, lambda row, run: run.user.encode())


BUILDERS: Final[dict[str, Builder]] = {
    "CurrentUtcDate": _current(DATE, DAY),
    "CurrentUtcDatetime": _current(DATETIME, SECOND),
    "CurrentUtcTimestamp": _current(TIMESTAMP, 1),
    "CurrentTzDate": _current_in_zone(TZ_DATE, DAY),
    "CurrentTzDatetime": _current_in_zone(TZ_DATETIME, SECOND),
    "CurrentTzTimestamp": _current_in_zone(TZ_TIMESTAMP, 1),
    "Random": _random(DOUBLE, lambda run: run.chance.random()),
    "RandomNumber": _random(UINT64, lambda run: run.chance.getrandbits(64)),
    "RandomUuid": _random(UUID, _uuid),
    "Version": _version,
    "CurrentAuthenticatedUser": _user,
}
