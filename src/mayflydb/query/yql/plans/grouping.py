"""Binding and execution of GROUP BY, HAVING and aggregates."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from mayflydb.model.releasing import release
from mayflydb.query.yql import comparison, functions
from mayflydb.query.yql.expression import Aggregation, Evaluate, Expression, pair_with_run
from mayflydb.query.yql.faults import fault, unsupported
from mayflydb.query.yql.plans.binder import Binder
from mayflydb.query.yql.plans.calls import bind_invocation
from mayflydb.query.yql.plans.hopping import HopPlaces, bind_hop
from mayflydb.query.yql.plans.plan import Batch, Relation
from mayflydb.query.yql.plans.relations import BATCH_ROWS, FilterRows, reserve_rows
from mayflydb.query.yql.plans.rowwise import EvaluateRows, for_rows
from mayflydb.query.yql.plans.scopes import Field, RowScope, Slot, slot
from mayflydb.query.yql.plans.sessions import bind_sessions, is_session_window, plain_name
from mayflydb.query.yql.plans.values import bind_condition
from mayflydb.query.yql.schemas import Row, Run, Tables
from mayflydb.query.yql.syntax import Expression as Tree
from mayflydb.query.yql.syntax import FunctionCall, GroupBy, Member, Name, Select, Subquery, Syntax
from mayflydb.query.yql.types import UINT64, Value, optional


def is_grouped(tree: Select) -> bool:
    """True if the rows of a SELECT are groups."""
    return (
        tree.group is not None
        or tree.having is not None
        or bool(aggregate_calls(tree.items, tree.having, tree.order, tree.windows))
    )


def aggregate_calls(*trees: Any) -> list[FunctionCall]:
    """The aggregate calls in trees, each once."""
    return list(dict.fromkeys(node for tree in trees for node in _aggregate_calls(tree)))


def _aggregate_calls(node: Any) -> Iterator[FunctionCall]:
    if isinstance(node, FunctionCall) and node.over is None and (_is_aggregate(node) or _is_of_group(node)):
        yield node
        return
    if isinstance(node, Subquery):
        return
    if isinstance(node, Syntax):
        for field in node.__struct_fields__:
            if field != "at":
                yield from _aggregate_calls(getattr(node, field))
    elif isinstance(node, tuple):
        for part in node:
            yield from _aggregate_calls(part)


def _is_aggregate(call: FunctionCall) -> bool:
    if functions.find_aggregate(call.name) is None:
        return False
    # Where a function has the same name, only `*` or DISTINCT asks for the aggregate.
    return call.star or call.distinct or functions.find(call.name) is None


def _is_of_group(call: FunctionCall) -> bool:
    """True for the functions of the group itself, which read no rows."""
    return plain_name(call) in _OF_GROUP


_OF_GROUP: Final = frozenset(("grouping", "sessionstart", "hopstart", "hopend"))


GATHERED_BATCHES: Final = 8
"""Batches whose rows wait in their groups before they are aggregated."""


class BoundAggregate(msgspec.Struct, frozen=True):
    """An aggregate and its operands. `distinct`: the group key of the first operand; each distinct value counts once.

    `column`: evaluates the only operand for many rows.
    """

    aggregation: Aggregation
    operands: tuple[Evaluate, ...]
    distinct: Callable[[Value], Hashable] | None = None
    column: EvaluateRows | None = None

    def start(self) -> list[Any]:
        return [self.aggregation.start(), None if self.distinct is None else set()]

    def step(self, state: list[Any], row: Row, run: Run) -> None:
        values = tuple([each(row, run) for each in self.operands])
        if self.distinct is not None:
            # DISTINCT ignores NULL, as aggregates do.
            if values[0] is None:
                return
            key = self.distinct(values[0])
            if key in state[1]:
                return
            reserve_rows(run, 1)
            state[1].add(key)
        state[0] = self.aggregation.step(state[0], values)

    def add(self, state: list[Any], rows: Sequence[Row], run: Run) -> None:
        """Do the steps of rows."""
        fold = self.aggregation.fold
        if fold is None or self.distinct is not None or (self.operands and self.column is None):
            for row in rows:
                self.step(state, row, run)
        else:
            state[0] = fold(state[0], rows if self.column is None else self.column(rows, run))


class _Group(msgspec.Struct, gc=False):
    """A group: the values of its keys, the states of its aggregates, and its rows that are not aggregated yet."""

    place: int
    values: Row
    states: list[list[Any]]
    waiting: list[Row]


class GroupRows(msgspec.Struct, frozen=True):
    """Groups rows into rows of keys, aggregates and the number of the grouping set.

    `sets`: the indexes of the keys in each grouping set; None: one set of all keys. `always`: no input gives one row,
    as without GROUP BY.
    """

    source: Relation
    keys: tuple[tuple[EvaluateRows, Callable[[Value], Hashable]], ...]
    aggregates: tuple[BoundAggregate, ...]
    sets: tuple[tuple[int, ...], ...] | None = None
    always: bool = False

    def inputs(self) -> tuple[Relation, ...]:
        return (self.source,)

    async def batches(self, run: Run, tables: Tables) -> AsyncIterator[Batch]:
        groups: dict[Hashable, _Group] = {}
        try:
            waiting = 0
            async for batch in self.source.batches(run, tables):
                self._assign(groups, batch, run)
                waiting += 1
                # Rows of a group that are aggregated together take less time. They are held meanwhile.
                if waiting >= GATHERED_BATCHES:
                    self._aggregate(groups, run)
                    waiting = 0
            self._aggregate(groups, run)
            if not groups and self.always:
                groups[()] = self._begin_group(0, (), run)
            ends = [each.aggregation.end for each in self.aggregates]
            rows = [
                (*each.values, *[end(state[0], run) for end, state in zip(ends, each.states, strict=True)], each.place)
                for each in groups.values()
            ]
            for start in range(0, len(rows), BATCH_ROWS):
                yield rows[start : start + BATCH_ROWS]
            run.budget += len(groups)
        finally:
            release(groups)

    def _assign(self, groups: dict[Hashable, _Group], batch: Batch, run: Run) -> None:
        """Assign rows to their groups."""
        if not self.keys and self.sets is None:
            if batch:
                group = groups.get(())
                if group is None:
                    group = groups[()] = self._begin_group(0, (), run)
                for each, state in zip(self.aggregates, group.states, strict=True):
                    each.add(state, batch, run)
            return
        columns = [evaluate(batch, run) for evaluate, _ in self.keys]
        marks = [list(map(key, column)) for column, (_, key) in zip(columns, self.keys, strict=True)]
        if self.sets is None:
            found = zip(*marks, strict=True) if len(marks) > 1 else marks[0]
            for place, (mark, row) in enumerate(zip(found, batch, strict=True)):
                group = groups.get(mark)
                if group is None:
                    values = tuple([column[place] for column in columns])
                    group = groups[mark] = self._begin_group(0, values, run)
                group.waiting.append(row)
            return
        for place, row in enumerate(batch):
            # Each row belongs to one group of each set. The number of the set tells apart groups with equal keys.
            for number, within in enumerate(self.sets):
                mark = number, tuple([marks[i][place] for i in within])
                group = groups.get(mark)
                if group is None:
                    values = tuple([column[place] if i in within else None for i, column in enumerate(columns)])
                    group = groups[mark] = self._begin_group(number, values, run)
                group.waiting.append(row)

    def _begin_group(self, place: int, values: Row, run: Run) -> _Group:
        reserve_rows(run, 1)
        return _Group(place, values, [each.start() for each in self.aggregates], [])

    def _aggregate(self, groups: dict[Hashable, _Group], run: Run) -> None:
        """Aggregate the rows that wait in their groups."""
        for group in groups.values():
            if group.waiting:
                for each, state in zip(self.aggregates, group.states, strict=True):
                    each.add(state, group.waiting, run)
                group.waiting = []


class _Keys(NamedTuple):
    """The bound keys of GROUP BY. `fields`: the columns of the groups. `session`: the index of SessionWindow. `end`: the
    index of the end of a window of HOP, behind the keys that are written."""

    relation: Relation
    binder: Binder
    keys: list[tuple[EvaluateRows, Callable[[Value], Hashable]]]
    fields: list[Field]
    session: int | None = None
    hop: HopPlaces | None = None


def bind_group(binder: Binder, relation: Relation, tree: Select) -> tuple[Relation, Binder]:
    """Bind GROUP BY and HAVING: the grouped relation, and a binder that knows the keys and the aggregates."""
    group = tree.group
    if group is None and tree.having is None and not aggregate_calls(tree.items, tree.windows):
        raise fault("Unable to ORDER BY aggregated values", aggregate_calls(tree.order)[0].at)
    made = _bind_keys(binder, relation, group)
    inner, fields = made.binder, made.fields
    sets = None if group is None else group.sets
    bound_trees: dict[Tree, Expression] = {}
    if group is not None:
        for place, (item, field) in enumerate(zip(group.items, fields, strict=False)):
            bound_trees[item.value] = slot(field.type, place)
            if item.name is not None:
                bound_trees[Name(item.at, item.name)] = slot(field.type, place)
    bound: list[BoundAggregate] = []
    calls = aggregate_calls(tree.items, tree.having, tree.order, tree.windows)
    width = len(fields) + sum(not _is_of_group(call) for call in calls)
    for call in calls:
        if _is_of_group(call):
            bound_trees[call] = _bind_of_group(call, group, made, width)
            continue
        aggregate = _bind_aggregate(inner, call)
        type = aggregate.aggregation.type
        if group is None and (type != UINT64 or aggregate.aggregation.is_null_without_rows):
            type = optional(type)
        bound_trees[call] = slot(type, len(fields))
        fields.append(Field("", type))
        bound.append(aggregate)
    # A row: | keys | aggregates | number of the grouping set |
    relation = GroupRows(made.relation, tuple(made.keys), tuple(bound), sets, always=group is None)
    over = Binder(
        binder.context,
        binder.names,
        RowScope(fields, binder.scope.sources, joined=binder.scope.joined),
        bound_trees,
        len(fields) + 1,
    )
    over.grouped = True
    if tree.having is not None:
        relation = FilterRows(relation, bind_condition(over.expression(tree.having), "Having", tree.having.at))
    return relation, over


def _bind_keys(binder: Binder, relation: Relation, group: GroupBy | None) -> _Keys:
    """Bind the keys of GROUP BY, with what SessionWindow and HOP add to the rows below."""
    items = () if group is None else group.items
    relation, inner, places = bind_sessions(binder, relation, items)
    session = None
    if group is not None and places is not None:
        if group.sets is not None or group.hop is not None:
            raise unsupported("SessionWindow with grouping sets or HOP", group.at)
        session = next(index for index, item in enumerate(items) if is_session_window(item.value))
    keys, fields = _group_keys(inner, group)
    if places is not None and session is not None:
        # Sessions may have equal values, so they are told apart by their numbers.
        keys.append((for_rows(places.number), _same))
        fields.append(Field("", UINT64))
    if group is None or group.hop is None:
        return _Keys(relation, inner, keys, fields, session)
    if group.sets is not None:
        raise unsupported("HOP with grouping sets", group.hop.at)
    relation, inner, hop = bind_hop(inner, relation, group.hop)
    keys.append((for_rows(hop.key), _same))
    fields.append(Field("", hop.key.type))
    return _Keys(relation, inner, keys, fields, hop=hop)


def _same(value: Value) -> Hashable:
    mark: Hashable = value
    return mark


def _bind_of_group(call: FunctionCall, group: GroupBy | None, made: _Keys, place: int) -> Expression:
    """Bind GROUPING, SessionStart, HOP_START or HOP_END. `place`: that of the number of the grouping set."""
    name, keys = plain_name(call), made.fields[: len(made.keys)]
    if name == "grouping":
        return _bind_grouping(call, group, keys, place)
    if call.arguments:
        raise fault(f"{call.name} requires exactly 0 arguments", call.at)
    if name == "sessionstart":
        if made.session is None:
            raise fault(f"{call.name} can not be used without SessionWindow", call.at)
        return slot(keys[made.session].type, made.session)
    if made.hop is None:
        raise fault(f"{call.name} can not be used without HOP", call.at)
    end = len(keys) - 1
    return made.hop.start(end) if name == "hopstart" else made.hop.end(end)


def _bind_grouping(call: FunctionCall, group: GroupBy | None, keys: list[Field], place: int) -> Expression:
    """Bind `GROUPING(a, b)`: one bit for each column, the last column lowest; 1 if the grouping set does not have the
    column."""
    asked = []
    for argument in call.arguments:
        name = argument.value.name if isinstance(argument.value, (Name, Member)) else None
        if name is None:
            raise fault("GROUPING function should use columns as arguments", call.at)
        found = next((i for i, each in enumerate(keys) if each.name == name), None)
        if found is None or group is None:
            raise fault(f"Column '{name}' is not a grouping column", argument.value.at)
        asked.append(found)
    sets = (tuple(range(len(keys))),) if group is None or group.sets is None else group.sets
    masks = tuple(sum((each not in within) << bit for bit, each in enumerate(reversed(asked))) for within in sets)
    return Expression(UINT64, lambda row, run: masks[row[place]])


def _group_keys(
    binder: Binder, group: GroupBy | None
) -> tuple[list[tuple[EvaluateRows, Callable[[Value], Hashable]]], list[Field]]:
    keys: list[tuple[EvaluateRows, Callable[[Value], Hashable]]] = []
    fields: list[Field] = []
    for item in () if group is None else group.items:
        for node in aggregate_calls(item.value):
            raise fault("Unable to GROUP BY aggregated values", node.at)
        value = binder.expression(item.value)
        keys.append((for_rows(value), comparison.group_key(value.type)))
        # A key that is a column keeps its table, so that `t.a` finds it above GROUP BY too.
        is_column = isinstance(value, Slot) and value.index < len(binder.scope)
        source = binder.scope.fields[value.index] if isinstance(value, Slot) and is_column else None
        name = item.name or (source.name if source else "")
        type = value.type if group is None or group.sets is None else optional(value.type)
        fields.append(Field(name, type, source.source if source and not item.name else ""))
    return keys, fields


def _bind_aggregate(binder: Binder, call: FunctionCall) -> BoundAggregate:
    builder = functions.find_aggregate(call.name)
    assert builder is not None
    made = bind_invocation(binder, call.name, call.arguments, call.at)
    if call.star and made.operands:
        raise fault("* takes no other arguments", call.at)
    aggregation = builder(made)
    operands = tuple(each for each in made.operands if isinstance(each, Expression))
    distinct = None
    if call.distinct:
        if not operands:
            raise fault(f"{call.name}(DISTINCT) needs an argument", call.at)
        distinct = comparison.group_key(operands[0].type)
    column = for_rows(operands[0]) if len(operands) == 1 else None
    values = [each.evaluate for each in operands] + [pair_with_run] * aggregation.contextual
    return BoundAggregate(aggregation, tuple(values), distinct, column)
