"""Roll-ups of rows: an aggregate is a row whose key is its group. Types are compared when a roll-up is set."""

from __future__ import annotations

import operator
from collections.abc import Callable, Generator, Mapping
from functools import partial
from math import isfinite
from struct import Struct
from typing import Any, Final

from mayflydb.engine.catalog import Node
from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.workspace import Workspace
from mayflydb.expiry.roll_up import (
    Aggregate,
    Arithmetic,
    GroupMember,
    GroupTally,
    Reading,
    RollUp,
    Unit,
    add_tally,
    moment_of,
    shorten_bytes,
    shorten_text,
    text_of,
)
from mayflydb.frontends.ydb.rows import RowLayout, partition_of
from mayflydb.frontends.ydb.schemes.views import table_view
from mayflydb.model.errors import BadRequest, Conflict
from mayflydb.model.instant import DAY, SECOND, Instant
from mayflydb.model.record import Record
from mayflydb.query.yql.schemas import Column
from mayflydb.query.yql.types import (
    DATE,
    DATE32,
    DATETIME,
    DATETIME64,
    DECIMAL_INF,
    DOUBLE,
    FLOAT,
    FLOATS,
    INTEGERS,
    STRING,
    TIMESTAMP,
    TIMESTAMP64,
    UNSIGNED,
    UTF8,
    DecimalType,
    Primitive,
    Type,
    Value,
    bare,
)

_MOMENTS: Final[Mapping[Type, Callable[[Instant, Unit], Value]]] = {
    DATE: lambda instant, unit: instant // DAY,
    DATE32: lambda instant, unit: instant // DAY,
    DATETIME: lambda instant, unit: instant // SECOND,
    DATETIME64: lambda instant, unit: instant // SECOND,
    TIMESTAMP: lambda instant, unit: instant,
    TIMESTAMP64: lambda instant, unit: instant,
    UTF8: text_of,
    STRING: lambda instant, unit: text_of(instant, unit).encode(),
}
"""The values of truncated instants, by the type of their column."""


def plan_roll_up(roll_up: RollUp, source: Node, target: Node) -> RowPlan:
    """Return the plan of a roll-up. BadRequest if the columns of the two tables do not fit together."""
    return RowPlan(roll_up, RowLayout(table_view(source, source.name)), RowLayout(table_view(target, target.name)))


class RowPlan:
    """The roll-up of one table's rows into those of another."""

    arithmetic: Arithmetic = Arithmetic(operator.add, operator.lt)

    def __init__(self, roll_up: RollUp, source: RowLayout, target: RowLayout) -> None:
        self._roll_up = roll_up
        self._source, self._target = source, target
        self._columns = {column.name: column for column in target.view.table.columns}
        self._types = {column.name: bare(column.type) for column in source.view.table.columns}
        self._check_columns()
        self._members = [self._member_reader(member) for member in roll_up.group]
        for aggregate in roll_up.aggregates:
            self._check_types(aggregate)
        self._numbers = [self._number_reader(path[0]) for path in roll_up.number_paths]
        key = list(target.view.table.key)
        self._key_order = [[member.name for member in roll_up.group].index(name) for name in key]
        for name in (roll_up.count, roll_up.skipped):
            if name is not None and bare(self._columns[name].type) not in INTEGERS:
                raise _misfit(f"{name} is {self._columns[name].type}, and it counts", "declare it as Uint64")

    # --- columns ---------------------------------------------------------------------------------------------------------

    def _check_columns(self) -> None:
        table, group = self._target.view.table, [member.name for member in self._roll_up.group]
        if set(group) != set(table.key):
            names, key = ", ".join(group), ", ".join(table.key)
            raise _misfit(f"the group ({names}) is not the primary key ({key})", "group by exactly these columns")
        for name in self._roll_up.result_names:
            if name not in self._columns:
                raise _misfit(f"the table has no column {name}", "add it by ALTER TABLE")
        written = {*group, *self._roll_up.result_names}
        for column in table.columns:
            if column.not_null and not column.has_default and column.name not in written:
                raise _misfit(f"{column.name} is NOT NULL and gets no value", "give it a default")
        for aggregate in self._roll_up.aggregates:
            if self._columns[aggregate.name].not_null and not self._columns[aggregate.name].has_default:
                raise _misfit(
                    f"{aggregate.name} is NOT NULL, and there may be no number", "declare it without NOT NULL"
                )

    def _source_type(self, path: tuple[str, ...]) -> Type:
        if len(path) != 1 or path[0] not in self._types:
            raise BadRequest(
                f"the rows have no column {'/'.join(path)}", hint="a path is the name of a column: /column"
            )
        return self._types[path[0]]

    def _member_reader(self, member: GroupMember) -> Callable[[list[Value], Record, Instant], Value]:
        """Return the function that gives a member of the group of a row."""
        column = self._columns[member.name]
        wanted = bare(column.type)
        unit = member.unit
        if unit is not None:
            convert = _MOMENTS.get(wanted)
            if convert is None or (unit == "hour" and wanted in (DATE, DATE32)):
                raise _misfit(
                    f"{column.name} is {column.type}, and cannot be the {unit} of an instant", "use Timestamp"
                )
            return lambda row, record, deadline: convert(moment_of(member, record.written, deadline), unit)
        type = self._source_type(member.path)
        if type != wanted:
            raise _misfit(
                f"{column.name} is {column.type}, and {member.path[0]} is {type}", "declare it with this type"
            )
        if column.not_null and not self._source.view.table.columns[self._place(member.path[0])].not_null:
            raise _misfit(f"{column.name} is NOT NULL, and {member.path[0]} may be NULL", "declare it without NOT NULL")
        number = self._source.numbers[member.path[0]]
        shorten: Callable[[Any], Value] = shorten_text if type == UTF8 else shorten_bytes if type == STRING else _same
        return lambda row, record, deadline: None if row[number] is None else shorten(row[number])

    def _place(self, name: str) -> int:
        return next(n for n, column in enumerate(self._source.view.table.columns) if column.name == name)

    def _check_types(self, aggregate: Aggregate) -> None:
        column = self._columns[aggregate.name]
        type, wanted = self._source_type(aggregate.path), bare(column.type)
        fits = (
            (type in INTEGERS and wanted in INTEGERS)
            or (type in FLOATS and wanted in FLOATS)
            or (isinstance(type, DecimalType) and isinstance(wanted, DecimalType) and type.scale == wanted.scale)
        )
        if not fits:
            text = (
                f"{column.name} is {column.type}, and cannot be the {aggregate.function} of {aggregate.path[0]}: {type}"
            )
            raise _misfit(
                text, "integers fit integers, Float and Double each other, Decimals those with the same scale"
            )

    def _number_reader(self, name: str) -> Callable[[list[Value]], Value | None]:
        """Return the function that gives a row's number in a column; None: it has none."""
        return partial(_finite, self._source.numbers[name], isfinite if self._types[name] in FLOATS else _is_decimal)

    # --- rows ------------------------------------------------------------------------------------------------------------

    def read(self, record: Record, deadline: Instant) -> Reading:
        """Return the group of a row, and its numbers."""
        row = self._source.decode(record.value)
        group = tuple([read(row, record, deadline) for read in self._members])
        return Reading(group, group, [read(row) for read in self._numbers])

    def write(self, space: Workspace, tally: GroupTally) -> Generator[Any, Any, None]:
        """Add a tally to the row of its group, as an UPSERT does."""
        key = self._target.key_from([tally.group[place] for place in self._key_order])
        yield from space.run(Command(Mode.UPSERT, partition_of(key), key, partial(self._merge, tally, key)))

    def _merge(self, tally: GroupTally, key: bytes, before: Record | None) -> Draft:
        layout = self._target
        row = layout.default_row() if before is None else layout.decode(before.value)
        present = {name: row[layout.numbers[name]] for name in self._roll_up.result_names}
        results = add_tally(self._roll_up, tally, present, _as_it_is, self.arithmetic)
        for member, value in zip(self._roll_up.group, tally.group, strict=True):
            row[layout.numbers[member.name]] = value
        for name, number in results.items():
            row[layout.numbers[name]] = _fit(self._columns[name], number)
        return layout.draft(row, key)


def _misfit(text: str, hint: str) -> BadRequest:
    return BadRequest(f"the tables do not fit together: {text}", hint=hint)


def _same(value: Value) -> Value:
    return value


def _as_it_is(name: str, value: Value) -> Value:
    return value


def _is_decimal(value: Value) -> bool:
    # Integers are always below; infinities and NaN of a Decimal are not.
    return bool(abs(value) < DECIMAL_INF)


def _finite(number: int, is_finite: Callable[[Value], bool], row: list[Value]) -> Value | None:
    value = row[number]
    return value if value is not None and is_finite(value) else None


def _fit(column: Column, number: Value) -> Value:
    """Return a number as a value of a column. Conflict: it is too large for it."""
    type = bare(column.type)
    if isinstance(type, DecimalType):
        fits = abs(number) < 10**type.precision
    elif type in (FLOAT, DOUBLE):
        fits = isfinite(number) and (type == DOUBLE or abs(number) <= _LARGEST_FLOAT)
    else:
        assert isinstance(type, Primitive)
        bits = int(type.name.removeprefix("U").removeprefix("Int").removeprefix("int"))
        low, high = (0, 2**bits) if type in UNSIGNED else (-(2 ** (bits - 1)), 2 ** (bits - 1))
        fits = low <= number < high
    if not fits:
        raise Conflict(
            f"a value of {column.name} does not fit into {column.type}", hint="give the table a wider column"
        )
    return _to_float32(number) if type == FLOAT else number


_FLOAT32: Final = Struct("<f")
_LARGEST_FLOAT: Final = 3.4028234663852886e38


def _to_float32(number: float) -> float:
    found: float = _FLOAT32.unpack(_FLOAT32.pack(number))[0]
    return found
