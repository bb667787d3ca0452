"""The database's time on its nodes: what a beat tells of it, and what is decided about its jumps on any of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mayflydb.clock import SystemClock, boot_us
from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.timekeeper import MARK, Verdict
from mayflydb.model.instant import DAY, MINUTE, SECOND, Instant, Span
from mayflydb.store.interface import NamedNumber
from mayflydb.store.postgres.membership import SAMPLES, Membership
from nodes.crew import Member, container, crew, until
from postgres_cluster import Cluster

TOLD = 1_893_456_000 * SECOND
"""The database's time when the boot-time clock of this host began, in tests of beats."""


def beats(*samples: tuple[Span, Span]) -> Span:
    """How far from TOLD the database's time is taken to be after beats: how long each took, and by how much its clock was set."""
    membership = Membership("", "session", lambda: None)
    sent = 0
    for took, step in samples:
        membership._compare(sent, sent + took, TOLD + sent + took // 2 + step)
        sent += SECOND
    return membership._offset - TOLD


@pytest.mark.parametrize(
    ("samples", "offset"),
    [
        ([(10, 0), (1000, 300)], 0),
        ([(1000, 300), (10, 0)], 0),
        ([(10, 0), (1000, 100_000)], 0),
        ([(10, 0), (1000, 100_506)], 100_506),
        ([(10, 0), (1000, DAY)], DAY),
        ([(10, 0), (1000, -DAY)], -DAY),
        # An answer that took long says little about the time.
        ([(10, 0), (2 * SECOND, SECOND)], 0),
        ([(10, 0), (2 * SECOND, 2 * SECOND)], 2 * SECOND),
        ([(10, 0), (1000, DAY), (20, 0)], 0),
        ([(10, 5), *[(1000, 0)] * (SAMPLES - 1)], 5),
        ([(10, 5), *[(1000, 0)] * SAMPLES], 0),
    ],
)
def test_beats_tell_the_time_and_that_it_was_set(samples: list[tuple[Span, Span]], offset: Span) -> None:
    assert beats(*samples) == offset


class Database:
    """Its clock, set by hand."""

    def __init__(self) -> None:
        self.step: Span = 0
        self.passed: Span = 0

    def watch(self, member: Member) -> None:
        """Have a member read this clock."""

        def wall() -> Instant:
            return member.store.wall() + self.step + self.passed

        member.engine.time.follow(SystemClock(None, wall, lambda: boot_us() + self.passed))


@asynccontextmanager
async def pair(cluster: Cluster) -> AsyncIterator[tuple[Database, Member, Member]]:
    database = Database()
    async with crew(cluster.fresh(), 2) as (one, two):
        for member in (one, two):
            database.watch(member)
        yield database, one, two


async def _visible(member: Member, id: int) -> bool:
    return await member.get(id, b"p", b"k") is not None


@pytest.mark.parametrize("verdict", ["accept", "reject"])
def test_what_is_decided_on_one_node_holds_on_the_other(postgres: Cluster, verdict: Verdict) -> None:
    async def check() -> None:
        async with pair(postgres) as (database, one, two):
            id = await container(one, ttl=DAY // SECOND)
            await write(one, id)
            database.step = 10 * DAY
            for member in (one, two):
                member.engine.time.observe()
                assert await _visible(member, id), "hidden on the word of a jump"
            database.passed += 2 * MINUTE
            for member in (one, two):
                await until(lambda member=member: _is_hidden(member, id))  # type: ignore[misc]
                await member.engine.reaper.sweep_as_scheduled()
            await one.engine.time.settle(verdict)
            database.passed += 2 * SECOND
            for member in (one, two):
                await until(lambda member=member: _has_settled(member))  # type: ignore[misc]
                assert await _visible(member, id) == (verdict == "reject")
            mark = await one.store.read(NamedNumber(MARK))
            assert mark is not None
            ahead = mark - one.store.wall() - database.passed
            assert abs(ahead - (10 * DAY if verdict == "accept" else 0)) < MINUTE

    asyncio.run(check())


async def _is_hidden(member: Member, id: int) -> bool:
    member.engine.time.observe()
    return not await _visible(member, id)


async def _has_settled(member: Member) -> bool:
    await member.engine.now()
    return member.engine.time.observe() is None


async def write(member: Member, id: int) -> Any:
    """A record that lives by the container's default."""
    return await member.engine.write(id, Command(Mode.CREATE, b"p", b"k", Draft(b"v")), await member.engine.now())
