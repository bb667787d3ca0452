"""HOP in GROUP BY: windows of one length that begin at equal distances, so that a row may belong to several.

The windows that contain a row end at multiples of `hop` since 1970-01-01 that are later than the row's time, and begin `interval`
before. The delay decides when a stream closes a window; a table has all of its rows, so that none is late.

Source: https://ydb.tech/docs/en/yql/reference/syntax/select/group-by#group-by-hop
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from mayflydb.query.yql import conversions, texts
from mayflydb.query.yql.expression import Evaluate, Expression
from mayflydb.query.yql.faults import fault, type_fault
from mayflydb.query.yql.plans.binder import Binder
from mayflydb.query.yql.plans.plan import Batch, Relation
from mayflydb.query.yql.plans.relations import BATCH_ROWS
from mayflydb.query.yql.plans.scopes import slot
from mayflydb.query.yql.plans.values import NO_RUN
from mayflydb.query.yql.schemas import Row, Run, Tables
from mayflydb.query.yql.syntax import FunctionCall
from mayflydb.query.yql.types import INTERVAL, STRING, TIMESTAMP, UTF8, bare, format_long, optional

_MOST_WINDOWS = 100_000
"""The limit of the windows that contain one instant."""


class HopRows(msgspec.Struct, frozen=True):
    """The rows of `source`, once for each window that contains their time, followed by the end of that window.

    `hop` and `interval` are in microseconds. Rows without a time are in no window.
    """

    source: Relation
    time: Evaluate
    hop: int
    interval: int

    def inputs(self) -> tuple[Relation, ...]:
        return (self.source,)

    async def batches(self, run: Run, tables: Tables) -> AsyncIterator[Batch]:
        found: list[Row] = []
        async for batch in self.source.batches(run, tables):
            for row in batch:
                time = self.time(row, run)
                if time is None:
                    continue
                first = (time // self.hop + 1) * self.hop
                found += [(*row, end) for end in range(first, time + self.interval + 1, self.hop)]
                if len(found) >= BATCH_ROWS:
                    yield found
                    found = []
        yield found


class HopPlaces(msgspec.Struct, frozen=True):
    """Where the rows have the end of their window, and what HOP_START and HOP_END are."""

    key: Expression
    interval: int

    def start(self, place: int) -> Expression:
        """HOP_START of a row that has the end of its window at `place`; NULL before 1970."""
        length = self.interval
        return Expression(optional(TIMESTAMP), lambda row, run: row[place] - length if row[place] >= length else None)

    def end(self, place: int) -> Expression:
        """HOP_END of such a row."""
        return slot(optional(TIMESTAMP), place)


def bind_hop(binder: Binder, relation: Relation, call: FunctionCall) -> tuple[Relation, Binder, HopPlaces]:
    """Bind `HOP(time, hop, interval, delay)`: the relation of rows and windows, and a binder for its rows."""
    if len(call.arguments) not in (3, 4) or any(each.name for each in call.arguments):
        raise fault(f"{call.name} requires 4 arguments: time, hop, interval, delay", call.at)
    time = binder.expression(call.arguments[0].value)
    if bare(time.type) != TIMESTAMP:
        raise type_fault(call.name, f"Expected Timestamp, but got: {format_long(time.type)}", call.at)
    hop, interval, *_ = [_bind_length(binder, call, index) for index in range(1, len(call.arguments))]
    if hop <= 0:
        raise fault("Hop time must be positive", call.at)
    if interval <= 0 or interval % hop:
        raise fault("Interval time must be a positive multiple of hop time", call.at)
    if interval // hop > _MOST_WINDOWS:
        raise fault(f"Too many hops in interval, the limit is {_MOST_WINDOWS}", call.at)
    key = slot(TIMESTAMP, binder.width)
    wider = Binder(binder.context, binder.names, binder.scope, binder.bound_trees, binder.width + 1)
    return HopRows(relation, time.evaluate, hop, interval), wider, HopPlaces(key, interval)


def _bind_length(binder: Binder, call: FunctionCall, index: int) -> int:
    """The length in microseconds that an argument gives as an Interval, or as the text of one."""
    given = binder.expression(call.arguments[index].value)
    if given.constant and bare(given.type) in (STRING, UTF8):
        value = given.evaluate((), NO_RUN)
        text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
        parsed = texts.from_text(INTERVAL, text)
    else:
        converted = conversions.convert_implicitly(given, INTERVAL)
        parsed = converted.evaluate((), NO_RUN) if converted is not None and converted.constant else None
    if type(parsed) is not int:
        raise type_fault(call.name, f"Expected a constant Interval as argument #{index + 1}", call.at)
    return parsed
