"""The sweep planner: which container to sweep next, and how much of it. Pure; the loop that asks it is dull."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mayflydb.model.instant import MILLISECOND, Instant, Span


class Limits(msgspec.Struct, frozen=True):
    """How large one sweep may be, the first one, and the smallest that is worth its commit.

    `duration` None: by records alone, so that virtual time repeats itself.
    """

    records: int = 1000
    duration: Span | None = 10 * MILLISECOND
    first: int = 256
    fewest: int = 16


class Waiting(msgspec.Struct, frozen=True):
    """A container with due records: its oldest deadline, and the number of its last turn (0: none yet)."""

    deadline: Instant
    turn: int = 0


class Sweep(msgspec.Struct, frozen=True):
    """The next bounded pass."""

    container: int
    limit: int


class SweepResult(msgspec.Struct, frozen=True):
    """What the last pass did: it asked for `limit`, removed `records` and held the writer for `duration`."""

    container: int
    limit: int
    records: int
    duration: Span


def next_sweep(backlog: Mapping[int, Waiting], last: SweepResult | None, limits: Limits) -> Sweep | None:
    """Round-robin: nobody has a second turn before each waiting one had one; among equals, the oldest deadline."""
    if not backlog:
        return None
    container = min(backlog, key=lambda id: (backlog[id].turn, backlog[id].deadline, id))
    return Sweep(container, next_limit(last, limits))


def next_limit(last: SweepResult | None, limits: Limits) -> int:
    """Half as much after a pass that took too long, twice as much after a full one that took less than half its time.

    Never less than the fewest: when it is others who keep the machine busy, smaller sweeps only cost more in all.
    """
    if last is None or limits.duration is None:
        return min(limits.first, limits.records)
    if last.duration > limits.duration:
        return max(limits.fewest, last.limit // 2)
    if last.records == last.limit and last.duration * 2 < limits.duration:
        return min(limits.records, last.limit * 2)
    return last.limit
