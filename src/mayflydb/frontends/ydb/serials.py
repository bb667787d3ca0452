"""Sequences, which number the rows of Serial columns: settings, draws and changes. Pure.

Sources: https://ydb.tech/docs/en/yql/reference/types/serial, `SequenceDescription` in `ydb_table.proto`, and
`ydb/core/tx/sequenceshard/tx_allocate_sequence.cpp` of https://github.com/ydb-platform/ydb.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final

import msgspec

from mayflydb.query.yql.names import SERIALS
from mayflydb.query.yql.types import Type, bare

SEQUENCE_PREFIX: Final = "_serial_column_"
"""A sequence's name is this prefix and the column's name. Its path lies below the table."""

MAX_NUMBERS: Final = {type: 2 ** (int(type.name.removeprefix("Int")) - 1) - 1 for type in SERIALS.values()}
"""The greatest number of a sequence, by column type."""

_SERIAL_NAMES: Final = {"Int16": "Serial2", "Int32": "Serial4", "Int64": "Serial8"}


class Sequence(msgspec.Struct, frozen=True, omit_defaults=True):
    """Numbers from `low` to `high` in steps of `increment`.

    `next`: the number to be drawn next; `used`: `next` was the last number and is drawn already. `start`: the position
    after RESTART. `cycle`: the first number follows the last.
    """

    high: int
    low: int = 1
    start: int = 1
    increment: int = 1
    next: int = 1
    used: bool = False
    cycle: bool = False
    cache: int = 1


def sequence_of(type: Type) -> Sequence | None:
    """Return the sequence of a Serial column with this type; None if Serial columns cannot have the type."""
    high = MAX_NUMBERS.get(bare(type))  # type: ignore[call-overload]  # Any type may be asked for.
    return None if high is None else Sequence(high)


def serial_name(type: Type) -> str:
    """Return the Serial type of a column's type: `Serial4` for Int32."""
    return _SERIAL_NAMES[str(bare(type))]


def sequence_name(column: str) -> str:
    """Return the name of a column's sequence."""
    return SEQUENCE_PREFIX + column


class Draw(msgspec.Struct, frozen=True):
    """Drawn numbers in order, and the sequence after the draw. A draw may give fewer numbers than requested."""

    ranges: tuple[range, ...]
    after: Sequence

    @property
    def numbers(self) -> Iterator[int]:
        """The numbers in the order of the draw."""
        return chain.from_iterable(self.ranges)

    @property
    def count(self) -> int:
        """The number of drawn numbers."""
        return sum(map(len, self.ranges))


def draw_numbers(sequence: Sequence, count: int) -> Draw:
    """Draw the next numbers. A sequence that does not cycle gives what it has left."""
    ranges: list[range] = []
    step = sequence.increment
    left = count
    number: int | None = _number_after(sequence, sequence.next) if sequence.used else sequence.next
    # Each turn takes a whole run of numbers; only a sequence that cycles needs more than one.
    while left and number is not None and sequence.low <= number <= sequence.high:
        last = sequence.high if step > 0 else sequence.low
        taken = min(left, (last - number) // step + 1)
        ranges.append(range(number, number + taken * step, step))
        left -= taken
        number = _number_after(sequence, ranges[-1][-1])
    if not ranges:
        return Draw((), sequence)
    # The end is reached. As in YDB, `next` keeps the last number, and `used` says that it is gone.
    if number is None:
        return Draw(tuple(ranges), msgspec.structs.replace(sequence, next=ranges[-1][-1], used=True))
    return Draw(tuple(ranges), msgspec.structs.replace(sequence, next=number, used=False))


def _number_after(sequence: Sequence, number: int) -> int | None:
    """Return the number that follows; None at the end of the sequence."""
    found = number + sequence.increment
    if sequence.low <= found <= sequence.high:
        return found
    if not sequence.cycle:
        return None
    return sequence.low if sequence.increment > 0 else sequence.high


class SequenceChange(msgspec.Struct, frozen=True):
    """The changes of ALTER SEQUENCE; None leaves a setting as it is.

    `restart`: go back to `restart_at`, or to the start.
    """

    start: int | None = None
    increment: int | None = None
    restart: bool = False
    restart_at: int | None = None


def change_sequence(sequence: Sequence, change: SequenceChange) -> Sequence:
    """Return the sequence after a change. ValueError with YDB's text for an invalid change."""
    start = sequence.start if change.start is None else change.start
    increment = sequence.increment if change.increment is None else change.increment
    check_sequence(msgspec.structs.replace(sequence, start=start, increment=increment))
    after = msgspec.structs.replace(sequence, start=start, increment=increment)
    if not change.restart:
        return after
    restart_at = start if change.restart_at is None else change.restart_at
    if not sequence.low <= restart_at <= sequence.high:
        raise ValueError(_out_of_range("RESTART", restart_at, sequence))
    return msgspec.structs.replace(after, next=restart_at, used=False)


def check_sequence(sequence: Sequence) -> None:
    """Check the settings of a sequence. ValueError with YDB's text."""
    if sequence.increment == 0:
        raise ValueError("INCREMENT must not be zero")
    if sequence.low > sequence.high:
        raise ValueError(f"MINVALUE ({sequence.low}) must be less than MAXVALUE ({sequence.high})")
    if not sequence.low <= sequence.start <= sequence.high:
        raise ValueError(_out_of_range("START", sequence.start, sequence))


def _out_of_range(what: str, value: int, sequence: Sequence) -> str:
    if value < sequence.low:
        return f"{what} value ({value}) cannot be less than MINVALUE ({sequence.low})"
    return f"{what} value ({value}) cannot be greater than MAXVALUE ({sequence.high})"
