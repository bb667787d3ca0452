"""Roll-ups: what is kept of records that expire, as aggregates of groups. Pure.

A roll-up names the members of a group and the aggregates over its records. Front ends read the members and the numbers out of
records and write the results into the records of another container; what happens in between is here.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, Literal

import msgspec

from mayflydb.model.instant import DAY, HOUR, LAST_INSTANT, Instant, from_datetime, to_datetime

Unit = Literal["hour", "day", "month"]
Moment = Literal["deadline", "written"]
"""The instant of a record by which it is grouped: its deadline, or its last write."""

Function = Literal["sum", "min", "max"]

MAX_MEMBERS: Final = 8
"""Members of a group."""

MAX_AGGREGATES: Final = 16

_TEXT_LENGTHS: Final[dict[Unit, int]] = {
    "hour": len("2030-01-01T00"),
    "day": len("2030-01-01"),
    "month": len("2030-01"),
}


class GroupMember(msgspec.Struct, frozen=True, omit_defaults=True):
    """One member of a group: the value at a path, or (`unit`) the hour, day or month of a moment of the record, in UTC."""

    name: str
    path: tuple[str, ...] = ()
    unit: Unit | None = None
    moment: Moment = "deadline"


class Aggregate(msgspec.Struct, frozen=True):
    """An aggregate over the numbers that a group's records have at a path."""

    name: str
    function: Function
    path: tuple[str, ...]


class RollUp(msgspec.Struct, frozen=True, omit_defaults=True):
    """The roll-up of one container. `into`: the id of the container of the results; `names`: the names of its space, its database
    and itself, by which it is found again after it was dropped and created anew. `count`: the member with the number of records.
    `skipped`: the member with the number of values that are missing, or no numbers, and so in no aggregate.
    """

    into: int
    names: tuple[str, str, str]
    group: tuple[GroupMember, ...] = ()
    aggregates: tuple[Aggregate, ...] = ()
    count: str | None = None
    skipped: str | None = None

    @property
    def number_paths(self) -> list[tuple[str, ...]]:
        """The paths of the numbers, each once."""
        return list(dict.fromkeys(aggregate.path for aggregate in self.aggregates))

    @property
    def paths(self) -> list[tuple[str, ...]]:
        """The paths in records of which a roll-up needs the values."""
        return [*(member.path for member in self.group if member.path), *self.number_paths]

    @property
    def result_names(self) -> tuple[str, ...]:
        """The names of the results in a record, without the members of the group."""
        counts = [name for name in (self.count, self.skipped) if name is not None]
        return (*counts, *(aggregate.name for aggregate in self.aggregates))


def truncate(instant: Instant, unit: Unit) -> Instant:
    """Return the beginning, in UTC, of the hour, day or month in which an instant lies; after year 9999, of its end."""
    instant = min(max(instant, 0), LAST_INSTANT)
    if unit == "month":
        return from_datetime(to_datetime(instant).replace(day=1, hour=0, minute=0, second=0, microsecond=0))
    return instant - instant % (HOUR if unit == "hour" else DAY)


def text_of(instant: Instant, unit: Unit) -> str:
    """Return a truncated instant as text: `2030-01-01T13`, `2030-01-01` or `2030-01`."""
    return to_datetime(instant).isoformat()[: _TEXT_LENGTHS[unit]]


# --- numbers -------------------------------------------------------------------------------------------------------------

Number = Any
"""A number of a protocol."""


class Arithmetic(msgspec.Struct, frozen=True):
    """The arithmetic of a protocol's numbers."""

    add: Callable[[Number, Number], Number] = operator.add
    is_less: Callable[[Number, Number], bool] = operator.lt


class Reading(msgspec.Struct, frozen=True):
    """The parts of one record that a roll-up takes. `key` is equal exactly for the records of one group, and `group` has its
    members; `numbers` are in the order of `number_paths`; None: the record has no number there.
    """

    key: Hashable
    group: Any
    numbers: Sequence[Number | None]


class GroupTally:
    """The aggregates of the records of one group. `numbers` are in the order of the roll-up's; None: no record had a number."""

    __slots__ = ("count", "group", "numbers", "skipped")

    def __init__(self, group: Any, aggregates: int) -> None:
        self.group = group
        self.count = self.skipped = 0
        self.numbers: list[Number | None] = [None] * aggregates


def combine(function: Function, one: Number | None, other: Number | None, arithmetic: Arithmetic) -> Number | None:
    """Return the aggregate over the numbers of two aggregates; None: there are none."""
    if one is None or other is None:
        return other if one is None else one
    if function == "sum":
        return arithmetic.add(one, other)
    is_less = arithmetic.is_less(other, one)
    return other if is_less is (function == "min") else one


class GroupTallies:
    """The tallies of one roll-up in one transaction."""

    def __init__(self, roll_up: RollUp, arithmetic: Arithmetic) -> None:
        self._arithmetic = arithmetic
        paths = roll_up.number_paths
        # (place of the aggregate, place of its number, function)
        self._places = [(n, paths.index(each.path), each.function) for n, each in enumerate(roll_up.aggregates)]
        self._by_key: dict[Hashable, GroupTally] = {}

    def add(self, reading: Reading) -> None:
        """Add what was read from a record to the tally of its group."""
        tally = self._by_key.get(reading.key)
        if tally is None:
            tally = self._by_key[reading.key] = GroupTally(reading.group, len(self._places))
        tally.count += 1
        tally.skipped += sum(number is None for number in reading.numbers)
        totals = tally.numbers
        for place, source, function in self._places:
            number = reading.numbers[source]
            if number is not None:
                totals[place] = combine(function, totals[place], number, self._arithmetic)

    def __iter__(self) -> Iterator[GroupTally]:
        return iter(self._by_key.values())


# --- values of groups ----------------------------------------------------------------------------------------------------

LONGEST_TEXT: Final = 400
"""Characters or bytes of a member of a group. A longer one is cut, and a digest of the whole takes the place of the rest."""

_KEPT: Final = 200


def shorten_text(text: str) -> str:
    """Return a text as a member of a group."""
    if len(text) <= LONGEST_TEXT:
        return text
    return f"{text[:_KEPT]}~{blake2b(text.encode('utf-8', 'surrogatepass'), digest_size=32).hexdigest()}"


def shorten_bytes(data: bytes) -> bytes:
    """Return bytes as a member of a group."""
    return data if len(data) <= LONGEST_TEXT else data[:_KEPT] + blake2b(data, digest_size=32).digest()


def moment_of(member: GroupMember, written: Instant, deadline: Instant) -> Instant:
    """Return the beginning of the unit in which a record's moment lies, for a member with a unit."""
    assert member.unit is not None
    return truncate(deadline if member.moment == "deadline" else written, member.unit)


def value_at(document: Mapping[str, Any], path: Sequence[str]) -> Any:
    """Return the value at a path of nested documents; None: there is none."""
    value: Any = document
    for part in path:
        if type(value) is not dict or part not in value:
            return None
        value = value[part]
    return value


# --- results -------------------------------------------------------------------------------------------------------------


def add_tally(
    roll_up: RollUp,
    tally: GroupTally,
    present: Mapping[str, Any],
    check: Callable[[str, Any], Number],
    arithmetic: Arithmetic,
) -> dict[str, Number]:
    """Return the results in a record, by name, after a tally was added to those that are present; without those that have no
    number. `check`: returns a value that is present as a number, or refuses it.
    """

    def merge(name: str, function: Function, number: Number | None) -> None:
        before = present.get(name)
        merged = combine(function, None if before is None else check(name, before), number, arithmetic)
        if merged is not None:
            results[name] = merged

    results: dict[str, Number] = {}
    if roll_up.count is not None:
        merge(roll_up.count, "sum", tally.count)
    if roll_up.skipped is not None:
        merge(roll_up.skipped, "sum", tally.skipped)
    for aggregate, number in zip(roll_up.aggregates, tally.numbers, strict=True):
        merge(aggregate.name, aggregate.function, number)
    return results
