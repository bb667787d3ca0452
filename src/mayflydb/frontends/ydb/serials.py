"""Sequences, which number the rows of Serial columns: what one is, and what drawing from it does to it. Pure.

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

PREFIX: Final = "_serial_column_"
"""What stands before the column's name in that of its sequence, which lies below the table."""

LIMITS: Final = {type: 2 ** (int(type.name.removeprefix("Int")) - 1) - 1 for type in SERIALS.values()}
"""The greatest number by the type of the column."""

_NAMES: Final = {"Int16": "Serial2", "Int32": "Serial4", "Int64": "Serial8"}


class Sequence(msgspec.Struct, frozen=True, omit_defaults=True):
    """Numbers from `low` to `high`, at a distance of `increment`. `next` is given next; `used`: it was given already, as the last
    one there is. `start`: where RESTART goes. `cycle`: after the last one comes the first."""

    high: int
    low: int = 1
    start: int = 1
    increment: int = 1
    next: int = 1
    used: bool = False
    cycle: bool = False
    cache: int = 1


def sequence_of(type: Type) -> Sequence | None:
    """The sequence of a Serial column that holds this type; None: no such column does."""
    high = LIMITS.get(bare(type))  # type: ignore[call-overload]  # Any type may be asked for.
    return None if high is None else Sequence(high)


def serial_name(type: Type) -> str:
    """`Serial4` for Int32: the type that makes such a column."""
    return _NAMES[str(bare(type))]


def sequence_name(column: str) -> str:
    """The name of a column's sequence."""
    return PREFIX + column


class Drawn(msgspec.Struct, frozen=True):
    """Numbers, in the order in which they are given, and the sequence afterwards. There may be fewer than were asked for."""

    ranges: tuple[range, ...]
    after: Sequence

    @property
    def numbers(self) -> Iterator[int]:
        """One after the other."""
        return chain.from_iterable(self.ranges)

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(map(len, self.ranges))


def drawn(sequence: Sequence, count: int) -> Drawn:
    """The next numbers. Where a sequence ends that does not cycle, they are as many as there are."""
    ranges: list[range] = []
    step = sequence.increment
    left = count
    at: int | None = _following(sequence, sequence.next) if sequence.used else sequence.next
    while left and at is not None and sequence.low <= at <= sequence.high:
        last = sequence.high if step > 0 else sequence.low
        taken = min(left, (last - at) // step + 1)
        ranges.append(range(at, at + taken * step, step))
        left -= taken
        at = _following(sequence, ranges[-1][-1])
    if not ranges:
        return Drawn((), sequence)
    if at is None:
        return Drawn(tuple(ranges), msgspec.structs.replace(sequence, next=ranges[-1][-1], used=True))
    return Drawn(tuple(ranges), msgspec.structs.replace(sequence, next=at, used=False))


def _following(sequence: Sequence, number: int) -> int | None:
    """The number after another one; None: that was the last."""
    found = number + sequence.increment
    if sequence.low <= found <= sequence.high:
        return found
    if not sequence.cycle:
        return None
    return sequence.low if sequence.increment > 0 else sequence.high


class Alteration(msgspec.Struct, frozen=True):
    """What ALTER SEQUENCE asks for; None: it stays. `restart`: begin anew, at `restart_at` or else at the start."""

    start: int | None = None
    increment: int | None = None
    restart: bool = False
    restart_at: int | None = None


def altered(sequence: Sequence, change: Alteration) -> Sequence:
    """The sequence after a change. ValueError with YDB's text: what none can be."""
    start = sequence.start if change.start is None else change.start
    increment = sequence.increment if change.increment is None else change.increment
    check(msgspec.structs.replace(sequence, start=start, increment=increment))
    after = msgspec.structs.replace(sequence, start=start, increment=increment)
    if not change.restart:
        return after
    at = start if change.restart_at is None else change.restart_at
    if not sequence.low <= at <= sequence.high:
        raise ValueError(_beyond("RESTART", at, sequence))
    return msgspec.structs.replace(after, next=at, used=False)


def check(sequence: Sequence) -> None:
    """ValueError with YDB's text for what no sequence can be."""
    if sequence.increment == 0:
        raise ValueError("INCREMENT must not be zero")
    if sequence.low > sequence.high:
        raise ValueError(f"MINVALUE ({sequence.low}) must be less than MAXVALUE ({sequence.high})")
    if not sequence.low <= sequence.start <= sequence.high:
        raise ValueError(_beyond("START", sequence.start, sequence))


def _beyond(what: str, value: int, sequence: Sequence) -> str:
    if value < sequence.low:
        return f"{what} value ({value}) cannot be less than MINVALUE ({sequence.low})"
    return f"{what} value ({value}) cannot be greater than MAXVALUE ({sequence.high})"
