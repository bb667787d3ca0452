"""The meaning of INSERT, UPSERT, REPLACE and DELETE: the command for one row of each.

| verb    | the key has no row                | the key has a row                                           |
||---------|-----------------------------------|-------------------------------------------------------------|
| INSERT  | the row is created                | PRECONDITION_FAILED; INSERT OR IGNORE passes over the row    |
| UPSERT  | the row is created                | the given values replace its own, its other columns stay    |
| REPLACE | the row is created                | the row is replaced                                         |
| DELETE  | nothing                           | the row is removed                                          |

Columns that a created or replaced row does not give have their defaults. UPDATE writes rows that were read; see
`writing`. Source: https://ydb.tech/docs/en/yql/reference/syntax/upsert_into and its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Final, TypeVar

from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.frontends.ydb.crossing import ON_LOOP, Crossing
from mayflydb.frontends.ydb.reading import constraint_violation
from mayflydb.frontends.ydb.rows import RowLayout, Values, WriteNote, encode_note, partition_of
from mayflydb.model.record import Record
from mayflydb.query.yql.faults import Fault, fault
from mayflydb.query.yql.schemas import Effect, Row
from mayflydb.query.yql.types import Value, bare

T = TypeVar("T")

KEY_EXISTS: Final = "Conflict with existing key."
DUPLICATE_KEYS: Final = "Duplicated keys found."

MAX_VALUE_BYTES: Final = 16 << 20
"""Limit of one value, in bytes, as YDB's data shards have it."""

MAX_KEY_BYTES: Final = (1 << 20) + 1024
"""Limit of all values of a key together, in bytes."""

VARIABLE_LENGTH: Final = frozenset(("String", "Utf8", "Yson", "Json", "JsonDocument"))
"""Types with values of any length."""

UNMEASURED_BYTES: Final = 32 << 10
"""Rows whose key values all have at most this many bytes or characters are not measured.

20 key columns of ASCII text of this length stay below MAX_KEY_BYTES.
"""

BATCH_ROWS: Final = 16
"""Rows after which a loop over a client's rows lets other tasks run. The loop can be cancelled there."""


def batches(rows: Sequence[T]) -> Iterator[Sequence[T]]:
    """Return the rows in slices of BATCH_ROWS."""
    return (rows[start : start + BATCH_ROWS] for start in range(0, len(rows), BATCH_ROWS))


async def keyed_rows(effect: Effect, rows: GivenRows, crossing: Crossing = ON_LOOP) -> list[tuple[bytes, Row]]:
    """Return the rows of an effect with their keys.

    An INSERT that names a key twice is refused with PRECONDITION_FAILED; OR IGNORE keeps the first row.
    """
    keyed: list[tuple[bytes, Row]] = []
    for batch in batches(effect.rows):
        keyed += [(rows.key_of(row), row) for row in batch]
        if len(batch) == BATCH_ROWS:
            await crossing.take_turn()
    if effect.verb != "INSERT" or len({key for key, _ in keyed}) == len(keyed):
        return keyed
    if not effect.ignore_existing:
        raise constraint_violation(effect.table, DUPLICATE_KEYS)
    # Of several rows with one key, the first is put in last, and so replaces the others.
    return list({key: (key, row) for key, row in reversed(keyed)}.values())[::-1]


def command_factory(effect: Effect, rows: GivenRows) -> Callable[[bytes, Row], Command]:
    """Return the function that builds the command of one row from its key, for every verb but UPDATE.

    The command may raise Conflict, which the caller turns into the fault `key_conflict`, or NotFound, which is no
    error: a DELETE of a missing row.
    """
    if effect.verb == "DELETE":
        return lambda key, row: Command(Mode.DELETE, partition_of(key), key)
    mode = Mode.CREATE if effect.verb == "INSERT" else Mode.UPSERT
    rows.note_verb(effect.verb)
    change = rows.merge if merges_rows(effect, rows) else rows.draft
    return lambda key, row: Command(mode, partition_of(key), key, change(row, key))


def merges_rows(effect: Effect, rows: GivenRows) -> bool:
    """True if the written row depends on the stored one: an UPSERT without all columns."""
    return effect.verb == "UPSERT" and not rows.has_all_columns


def key_conflict(effect: Effect) -> Fault:
    """The fault of a taken key or unique value: PRECONDITION_FAILED."""
    return constraint_violation(effect.table, KEY_EXISTS)


class GivenRows:
    """Rows of a write, given as values of some columns. `generated`: columns whose values are for new rows only."""

    def __init__(self, layout: RowLayout, columns: Sequence[str], generated: Sequence[str] = ()) -> None:
        self._layout = layout
        self._merged_places = [
            (place, layout.numbers[name]) for place, name in enumerate(columns) if name not in generated
        ]
        self._numbers = [layout.numbers[name] for name in columns]
        places = [columns.index(name) for name in layout.view.table.key]
        self._key = itemgetter(*places) if len(places) > 1 else _single_value_getter(places[0])
        self._key_places = places
        types = {column.name: str(bare(column.type)) for column in layout.view.table.columns}
        self._variable_places = [place for place, name in enumerate(columns) if types[name] in VARIABLE_LENGTH]
        self.has_all_columns = len(set(columns)) == len(layout.numbers) and not generated
        self._note: bytes | None = None

    def note_verb(self, verb: str) -> None:
        """Have each draft remember the verb and the columns, where a changefeed tells of them."""
        if self._layout.view.body.changefeeds:
            self._note = encode_note(WriteNote(verb == "REPLACE", tuple(self._numbers)))

    def key_of(self, row: Row) -> bytes:
        """Return the key of a row's record. BAD_REQUEST for a value or key above its limit."""
        for place in self._variable_places:
            if row[place] is not None and len(row[place]) > UNMEASURED_BYTES:
                self._check_sizes(row)
                break
        return self._layout.key_from(self._key(row))

    def _check_sizes(self, row: Row) -> None:
        sizes = {place: _value_bytes(row[place]) for place in self._variable_places}
        # Values of fixed size count as 8 bytes each: with at most 20 key columns, they hardly matter beside a limit of
        # a megabyte.
        key = sum(sizes.get(place, 8) for place in self._key_places)
        if key > MAX_KEY_BYTES:
            raise _too_large("key", key, MAX_KEY_BYTES)
        for size in sizes.values():
            if size > MAX_VALUE_BYTES:
                raise _too_large("cell", size, MAX_VALUE_BYTES)

    def new_row(self, row: Row) -> Values:
        """Return a new row of these values, with defaults in the other columns."""
        return self.overlay(self._layout.default_row(), row)

    def overlay(self, values: Values, row: Row) -> Values:
        """Write the values into a row, in place, and return it."""
        for number, value in zip(self._numbers, row, strict=True):
            values[number] = value
        return values

    def draft(self, row: Row, key: bytes) -> Draft:
        """Return the record of a new row."""
        return self.draft_of(self.new_row(row), key)

    def draft_of(self, values: Values, key: bytes) -> Draft:
        """Return the record of a whole row."""
        return self._layout.draft(values, key, self._note)

    def merge(self, row: Row, key: bytes) -> Callable[[Record | None], Draft]:
        """Return the function by which an UPSERT turns the stored record, or None, into the new one."""

        return lambda before: self.draft_of(self.merge_into(before, row), key)

    def merge_into(self, before: Record | None, row: Row) -> Values:
        """Return the stored row with these values in it, or a new row."""
        if before is None:
            return self.new_row(row)
        values = self._layout.decode(before.value)
        # Without generated values: an existing row keeps the numbers of its Serial columns.
        for place, number in self._merged_places:
            values[number] = row[place]
        return values


def _value_bytes(value: Value) -> int:
    if value is None:
        return 0
    return len(value.encode()) if isinstance(value, str) else len(value)


def _too_large(what: str, size: int, most: int) -> Fault:
    text = f"Row {what} size of {size} bytes is larger than the allowed threshold {most}"
    return fault(text, status="BAD_REQUEST", code=2017)


def _single_value_getter(place: int) -> Callable[[Row], tuple[Value, ...]]:
    return lambda row: (row[place],)
