"""SessionWindow in GROUP BY and PARTITION BY: rows that follow each other closely form a session.

Each row gets three more values: the value of SessionWindow, the number of its session, and the state behind it. A session is
a part of the rows that agree in all other keys. Rows keep their order.

Source: https://ydb.tech/docs/en/yql/reference/syntax/group_by#session-window
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import msgspec

from mayflydb.model.releasing import release
from mayflydb.query.sorting import sort_in_runs
from mayflydb.query.yql import comparison
from mayflydb.query.yql.expression import BoundLambda, Evaluate, Expression
from mayflydb.query.yql.faults import fault, type_fault
from mayflydb.query.yql.functions.support import lambda_at
from mayflydb.query.yql.plans.binder import Binder
from mayflydb.query.yql.plans.calls import bind_invocation, bind_table_row
from mayflydb.query.yql.plans.operators import bind_operator
from mayflydb.query.yql.plans.plan import Batch, Relation
from mayflydb.query.yql.plans.relations import BATCH_ROWS, collect_rows
from mayflydb.query.yql.plans.scopes import slot
from mayflydb.query.yql.plans.values import sort_key
from mayflydb.query.yql.schemas import Row, Run, Tables
from mayflydb.query.yql.syntax import Expression as Tree
from mayflydb.query.yql.syntax import FunctionCall, Item
from mayflydb.query.yql.types import BOOL, UINT64, TupleType, Type, Value, bare, format_long

Walk: TypeAlias = Callable[[Sequence[Row], Run], Iterator[tuple[bool, Value, Value]]]
"""Yields for each of the rows, which are in order: True if it begins a session, the session's value, and the state."""

PartitionKeys: TypeAlias = tuple[tuple[Evaluate, Callable[[Value], Hashable]], ...]


class BoundSession(msgspec.Struct, frozen=True):
    """A SessionWindow. `order` and `key`: the expression that orders rows, and the sort key of its values."""

    order: Evaluate
    key: Callable[[Value], Any]
    type: Type
    state: Type
    walk: Walk


class SessionPlaces(msgspec.Struct, frozen=True):
    """Where the rows have what SessionWindow gives: its value, the number of the session, and the state."""

    start: Expression
    number: Expression
    state: Expression


class SessionRows(msgspec.Struct, frozen=True):
    """The rows of `source`, each followed by the three values of its session. All rows are held in memory."""

    source: Relation
    partition: PartitionKeys
    session: BoundSession

    def inputs(self) -> tuple[Relation, ...]:
        return (self.source,)

    async def batches(self, run: Run, tables: Tables) -> AsyncIterator[Batch]:
        rows = await collect_rows(self.source, run, tables)
        extra: list[Row] = []
        try:
            extra += [()] * len(rows)
            self._number(rows, extra, run)
            for start in range(0, len(rows), BATCH_ROWS):
                pairs = zip(rows[start : start + BATCH_ROWS], extra[start : start + BATCH_ROWS], strict=True)
                yield [row + more for row, more in pairs]
            run.budget += len(rows)
        finally:
            release(extra)
            release(rows)

    def _number(self, rows: Sequence[Row], extra: list[Row], run: Run) -> None:
        parted: dict[Hashable, list[int]] = {}
        for place, row in enumerate(rows):
            mark = tuple([key(value(row, run)) for value, key in self.partition])
            parted.setdefault(mark, []).append(place)
        order, key = self.session.order, self.session.key
        number = -1
        for places in parted.values():
            keys = {place: key(order(rows[place], run)) for place in places}
            ordered = sort_in_runs(places, keys.__getitem__)
            walked = self.session.walk([rows[place] for place in ordered], run)
            for place, (begins, value, state) in zip(ordered, walked, strict=True):
                number += begins
                extra[place] = (value, number, state)


def is_session_window(tree: Tree) -> bool:
    return isinstance(tree, FunctionCall) and tree.over is None and plain_name(tree) == "sessionwindow"


def plain_name(call: FunctionCall) -> str:
    """The name of a builtin function as it is looked up."""
    return call.name.replace("_", "").lower()


def bind_sessions(
    binder: Binder, relation: Relation, items: Iterable[Item]
) -> tuple[Relation, Binder, SessionPlaces | None]:
    """Bind the SessionWindow among the keys of GROUP BY or PARTITION BY, if there is one.

    Returns the relation that adds its values, and a binder for the wider rows that knows the call.
    """
    keys = list(items)
    found = [each.value for each in keys if isinstance(each.value, FunctionCall) and is_session_window(each.value)]
    if not found:
        return relation, binder, None
    if len(found) > 1:
        raise fault("Duplicate session window specification", found[1].at)
    values = [binder.expression(each.value) for each in keys if each.value is not found[0]]
    partition = tuple((each.evaluate, comparison.group_key(each.type)) for each in values)
    session = _bind_session(binder, found[0])
    width = binder.width
    places = SessionPlaces(slot(session.type, width), slot(UINT64, width + 1), slot(session.state, width + 2))
    wider = Binder(
        binder.context, binder.names, binder.scope, {**binder.bound_trees, found[0]: places.start}, width + 3
    )
    wider.grouped = binder.grouped
    return SessionRows(relation, partition, session), wider, places


def _bind_session(binder: Binder, call: FunctionCall) -> BoundSession:
    count = len(call.arguments)
    if count not in (2, 4) or any(each.name for each in call.arguments) or call.star or call.distinct:
        raise fault(f"SessionWindow requires either two or four positional args, got {count}", call.at)
    order = binder.expression(call.arguments[0].value)
    key = sort_key(order.type, call.at)
    if count == 2:
        timeout = binder.expression(call.arguments[1].value)
        return BoundSession(order.evaluate, key, order.type, order.type, _walk_gaps(order, timeout, call))
    return _bind_lambdas(binder, call, order, key)


def _walk_gaps(order: Expression, timeout: Expression, call: FunctionCall) -> Walk:
    """A session ends where the next value is more than `timeout` greater. NULL is close to nothing but NULL."""
    gap = bind_operator("-", slot(order.type, 1), slot(order.type, 0), call.at)
    is_far = bind_operator("<", slot(timeout.type, 2), gap, call.at).evaluate
    evaluate, limit, same = order.evaluate, timeout.evaluate, comparison.group_key(order.type)

    def walk(rows: Sequence[Row], run: Run) -> Iterator[tuple[bool, Value, Value]]:
        start: Value = None
        before: Value = None
        for place, row in enumerate(rows):
            value = evaluate(row, run)
            begins = not place
            if place and same(before) != same(value):
                begins = is_far((before, value, limit(row, run)), run) is not False
            start = value if begins else start
            before = value
            yield begins, start, value

    return walk


def _bind_lambdas(binder: Binder, call: FunctionCall, order: Expression, key: Callable[[Value], Any]) -> BoundSession:
    made = bind_invocation(binder, call.name, call.arguments, call.at)
    table_row = bind_table_row(binder, FunctionCall(call.at, "TableRow", ()))
    init = lambda_at(made, 1, [table_row.type])
    update = lambda_at(made, 2, [table_row.type, init.type])
    calculate = lambda_at(made, 3, [table_row.type, init.type])
    pair = update.type
    if (
        not isinstance(pair, TupleType)
        or len(pair.items) != 2
        or bare(pair.items[0]) != BOOL
        or pair.items[1] != init.type
    ):
        raise type_fault(
            call.name, f"Expected a tuple of Bool and {format_long(init.type)}, but got: {format_long(pair)}", call.at
        )
    return BoundSession(
        order.evaluate, key, calculate.type, init.type, _walk_states(table_row, init, update, calculate)
    )


def _walk_states(table_row: Expression, init: BoundLambda, update: BoundLambda, calculate: BoundLambda) -> Walk:
    def walk(rows: Sequence[Row], run: Run) -> Iterator[tuple[bool, Value, Value]]:
        state: Value = None
        start: Value = None
        for place, row in enumerate(rows):
            whole = table_row.evaluate(row, run)
            begins = True
            if place:
                begins, state = update.call((whole, state), row, run)
            else:
                state = init.call((whole,), row, run)
            if begins:
                start = calculate.call((whole, state), row, run)
            yield bool(begins), start, state

    return walk
