"""Binding and execution of window functions (calls with OVER). All rows are held in memory.

Source: https://ydb.tech/docs/en/yql/reference/syntax/select/window and `builtins/window`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from mayflydb.model.releasing import release
from mayflydb.query.sorting import sort_in_runs
from mayflydb.query.yql import comparison, functions
from mayflydb.query.yql.expression import Evaluate, Expression
from mayflydb.query.yql.faults import fault, unsupported
from mayflydb.query.yql.plans.binder import Binder
from mayflydb.query.yql.plans.calls import bind_invocation
from mayflydb.query.yql.plans.frames import bind_frame
from mayflydb.query.yql.plans.plan import Batch, Relation
from mayflydb.query.yql.plans.relations import BATCH_ROWS, collect_rows
from mayflydb.query.yql.plans.scopes import slot
from mayflydb.query.yql.plans.sessions import SessionPlaces, bind_sessions, is_session_window, plain_name
from mayflydb.query.yql.plans.values import sort_key
from mayflydb.query.yql.plans.window_functions import (
    WINDOW_FUNCTIONS,
    ComputeWindow,
    WindowPartition,
    bind_aggregate,
    number_peers,
)
from mayflydb.query.yql.schemas import Row, Run, Tables
from mayflydb.query.yql.syntax import Expression as Tree
from mayflydb.query.yql.syntax import FunctionCall, Select, Subquery, Syntax
from mayflydb.query.yql.syntax import Window as WindowTree
from mayflydb.query.yql.types import Value


def _window_calls(node: Any) -> Iterator[FunctionCall]:
    """Yield the calls with OVER, except those in subqueries."""
    if isinstance(node, Subquery):
        return
    if isinstance(node, FunctionCall) and node.over is not None:
        yield node
    elif isinstance(node, Syntax):
        for field in node.__struct_fields__:
            if field != "at":
                yield from _window_calls(getattr(node, field))
    elif isinstance(node, tuple):
        for part in node:
            yield from _window_calls(part)


def has_windows(tree: Select) -> bool:
    """True if a SELECT calls window functions."""
    return next(_window_calls((tree.items, tree.order)), None) is not None


class BoundWindow(msgspec.Struct, frozen=True):
    """The PARTITION BY and ORDER BY of a window."""

    partition: tuple[tuple[Evaluate, Callable[[Value], Hashable]], ...]
    order: tuple[tuple[Evaluate, Callable[[Value], Any], bool], ...]

    def split_rows(self, rows: Sequence[Row], run: Run) -> list[WindowPartition]:
        """Split rows into window partitions, sort each by the ORDER BY of the window, and number its peer groups."""
        parted: dict[Hashable, list[int]] = {}
        for place, row in enumerate(rows):
            key = tuple([of(value(row, run)) for value, of in self.partition])
            parted.setdefault(key, []).append(place)
        made = []
        for places in parted.values():
            # Stable sorts from the last key to the first, as in SortRows.
            for value, of, descending in reversed(self.order):
                keys = {place: of(value(rows[place], run)) for place in places}
                places = sort_in_runs(places, keys.__getitem__, descending)
            whole = [tuple([of(value(rows[place], run)) for value, of, _ in self.order]) for place in places]
            made.append(WindowPartition(places, number_peers(whole)))
        return made


class WindowRows(msgspec.Struct, frozen=True):
    """The rows of `source`, each followed by the values of the window functions `columns`."""

    source: Relation
    columns: tuple[tuple[BoundWindow, ComputeWindow], ...]

    def inputs(self) -> tuple[Relation, ...]:
        return (self.source,)

    async def batches(self, run: Run, tables: Tables) -> AsyncIterator[Batch]:
        rows = await collect_rows(self.source, run, tables)
        extra: list[list[Value]] = []
        try:
            extra += ([None] * len(self.columns) for _ in rows)
            known: dict[int, list[WindowPartition]] = {}
            for column, (window, compute) in enumerate(self.columns):
                # Functions over equal windows share one BoundWindow, so rows are split and sorted once for them.
                if id(window) not in known:
                    known[id(window)] = window.split_rows(rows, run)
                for part in known[id(window)]:
                    values = compute([rows[place] for place in part.places], part.peer_groups, run)
                    for place, value in zip(part.places, values, strict=True):
                        extra[place][column] = value
            for start in range(0, len(rows), BATCH_ROWS):
                pairs = zip(rows[start : start + BATCH_ROWS], extra[start : start + BATCH_ROWS], strict=True)
                yield [(*row, *more) for row, more in pairs]
            run.budget += len(rows)
        finally:
            release(extra)
            release(rows)


def bind_windows(binder: Binder, relation: Relation, tree: Select) -> tuple[Relation, Binder]:
    """Bind window functions: a relation that adds their values, and a binder that finds them."""
    calls = list(dict.fromkeys(_window_calls((tree.items, tree.order))))
    if not calls:
        return relation, binder
    named = dict(tree.windows)
    bound_trees: dict[Tree, Expression] = dict(binder.bound_trees)
    overs = [_find_window(call, named) for call in calls]
    sessions: dict[WindowTree, SessionPlaces | None] = {}
    for over in dict.fromkeys(overs):
        relation, binder, sessions[over] = bind_sessions(binder, relation, over.partition)
    windows = {over: _bind_window(binder, over, places) for over, places in sessions.items()}
    columns: list[tuple[BoundWindow, ComputeWindow]] = []
    for call, over in zip(calls, overs, strict=True):
        type, compute = _bind_function(binder, call, over, sessions[over])
        bound_trees[call] = slot(type, binder.width + len(columns))
        columns.append((windows[over], compute))
    wide = Binder(binder.context, binder.names, binder.scope, bound_trees, binder.width + len(columns))
    wide.grouped = binder.grouped
    return WindowRows(relation, tuple(columns)), wide


def _find_window(call: FunctionCall, named: Mapping[str, WindowTree]) -> WindowTree:
    over = named.get(call.over) if isinstance(call.over, str) else call.over
    if over is None:
        raise fault(f"Unknown window: {call.over}", call.at)
    return over


def _bind_window(binder: Binder, tree: WindowTree, session: SessionPlaces | None) -> BoundWindow:
    partition = []
    for item in tree.partition:
        # Sessions may have equal values, so they are told apart by their numbers.
        value = session.number if session and is_session_window(item.value) else binder.expression(item.value)
        partition.append((value.evaluate, comparison.group_key(value.type)))
    order = []
    for each in tree.order:
        value = binder.expression(each.value)
        order.append((value.evaluate, sort_key(value.type, each.value.at), each.descending))
    return BoundWindow(tuple(partition), tuple(order))


def _bind_function(
    binder: Binder, call: FunctionCall, over: WindowTree, session: SessionPlaces | None
) -> tuple[Any, ComputeWindow]:
    """The type of a window function's values, and the function that computes them for a partition."""
    if plain_name(call) in ("sessionstart", "sessionstate"):
        return _bind_session_value(call, session)
    made = bind_invocation(binder, call.name, call.arguments, call.at)
    operands = [each for each in made.operands if isinstance(each, Expression)]
    known = WINDOW_FUNCTIONS.get(call.name.upper())
    if known is not None:
        return known(call, operands, bind_frame(binder, over))
    builder = functions.find_aggregate(call.name)
    if builder is None:
        raise fault(f"Unknown window function: {call.name}", call.at)
    if call.distinct:
        raise unsupported(f"{call.name}(DISTINCT) OVER", call.at)
    return bind_aggregate(builder(made), operands, bind_frame(binder, over))


def _bind_session_value(call: FunctionCall, session: SessionPlaces | None) -> tuple[Any, ComputeWindow]:
    """Bind SessionStart() or SessionState()."""
    if call.arguments:
        raise fault(f"{call.name} requires exactly 0 arguments", call.at)
    if session is None:
        raise fault(f"{call.name} can not be used without SessionWindow", call.at)
    value = session.start if plain_name(call) == "sessionstart" else session.state
    evaluate = value.evaluate
    return value.type, lambda rows, peer_groups, run: [evaluate(row, run) for row in rows]
