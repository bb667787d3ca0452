"""On Citus: a group that meets one worker happens once, whatever ends between that worker and the coordinator."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec
import pytest

from citus import Citus
from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.purge_decision import purge_due
from mayflydb.expiry.sweep import PurgeRequest
from mayflydb.model.instant import MINUTE, Instant
from mayflydb.store.interface import Allocate, Decision, Get, Outcome, Put, ask
from nodes.crew import Member, container, crew, until
from nodes.gate import Gate
from nodes.test_cuts import at_commit
from nodes.test_workers import connected, databases

__all__ = ["databases"]

PARTITION, COUNTER, DEAD = b"p", b"counter", b"dead"
LONGER = 1_000
"""Turns of the event loop in which an answer would come that waits for nothing."""

PREPARED = (
    "SELECT success, result FROM run_command_on_workers"
    "('SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()')"
)


class Place:
    """One node on a Citus whose workers are reached through gates."""

    def __init__(self, member: Member, gates: list[Gate], url: str, id: int, now: Instant) -> None:
        self.member = member
        self.gates = gates
        self.url = url
        self.id = id
        self.now = now

    def decide(self) -> Decision[int]:
        """Add one to the counter, as `findAndModify` does; the answer is the new count."""
        record = yield from ask(Get(self.id, PARTITION, COUNTER))
        assert record is not None
        lsn, _ = yield from ask(Allocate(self.id, seq=False))
        after = int(record.value) + 1
        return Outcome((Put(self.id, msgspec.structs.replace(record, value=b"%d" % after, lsn=lsn), False),), after)

    async def count(self) -> int:
        """Count, through the writer; the answer that a client is given."""
        return (await self.member.store.write(self.decide)).reply

    async def purge(self) -> int:
        """Purge what is due; the number of records that the answer names."""
        request = PurgeRequest(self.now, self.now, "sweep")
        nodes = self.member.engine.nodes
        done = await self.member.store.write(lambda: purge_due(nodes, self.id, 10, request, shared=True), "sweep")
        return sum(each.records for each in done.purged)

    async def there(self) -> tuple[int, int]:
        """The count and the events of deaths, as the workers show them; asked over a connection that no gate holds."""
        async with connected(self.url) as connection:
            count = await connection.fetchval(
                "SELECT convert_from(value, 'UTF8')::int FROM mayfly.record WHERE key = $1", COUNTER
            )
            return count, await connection.fetchval("SELECT count(*) FROM mayfly.expiry")

    async def last(self) -> tuple[int, int]:
        """The container's number on the coordinator, and that of its last change on a worker."""
        async with connected(self.url) as connection:
            numbers = "SELECT max(lsn) FROM (SELECT lsn FROM mayfly.record UNION ALL SELECT lsn FROM mayfly.expiry) AS changes"
            row = "SELECT lsn FROM mayfly.catalog WHERE id = $1"
            return await connection.fetchval(row, self.id), await connection.fetchval(numbers)

    async def reached(self) -> bool:
        """Whether a worker has done its part: prepared, or committed already."""
        async with connected(self.url) as connection:
            answers = await connection.fetch(PREPARED)
        assert all(success for success, _ in answers)
        return any(int(result) for _, result in answers) or await self.there() != (0, 0)

    async def end_process(self) -> None:
        """The coordinator's process of this node's writer ends, as in a crash."""
        connection = self.member.store._writer._connection
        assert connection is not None
        backend = connection.get_server_pid()
        async with connected(self.url) as watch:
            await watch.execute("SELECT pg_terminate_backend($1::int)", backend)

            async def gone() -> bool:
                return not await watch.fetchval(
                    "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE pid = $1::int)", backend
                )

            await until(gone)


@asynccontextmanager
async def gated(databases: Citus) -> AsyncIterator[Place]:
    async with AsyncExitStack() as stack:
        workers = await asyncio.to_thread(lambda: databases.workers)
        gates = [await stack.enter_async_context(Gate(*worker).listen()) for worker in workers]
        through = {port: gate.port for (_, port), gate in zip(workers, gates, strict=True)}
        url = await asyncio.to_thread(databases.fresh, through)
        (member,) = await stack.enter_async_context(crew(url, 1))
        id = await container(member, ttl=30)
        now = await member.engine.now()
        for key, anchor in ((COUNTER, now + 60 * MINUTE), (DEAD, now - MINUTE)):
            await member.engine.write(id, Command(Mode.CREATE, PARTITION, key, Draft(b"0", anchor=anchor)), now)
        yield Place(member, gates, databases.watching(url), id, now)


@pytest.mark.parametrize("what", ["count", "purge"])
def test_a_coordinator_that_ends_after_the_worker_loses_nothing(databases: Citus, what: str) -> None:
    """The worker's answer is held back and the coordinator's process ends: the group runs again, and counts once."""

    async def check() -> None:
        async with gated(databases) as place:
            held = asyncio.Event()

            async def hold(connection: Any) -> None:
                for gate in place.gates:
                    gate.hold()
                held.set()

            with at_commit(place.member, hold):
                asked = asyncio.create_task(getattr(place, what)())
                await held.wait()
                await until(place.reached)
                await place.end_process()
                for gate in place.gates:
                    gate.release()
                assert await asked == 1
            assert await place.there() == ((1, 0) if what == "count" else (0, 1))
            coordinator, worker = await place.last()
            assert coordinator == worker, "numbers were lost"

    asyncio.run(check())


def test_an_answer_waits_for_the_second_phase(databases: Citus) -> None:
    """The coordinator has committed, the worker has not heard of it, and the node's connection ends."""

    async def check() -> None:
        async with gated(databases) as place:
            held = asyncio.Event()

            async def hold(connection: Any) -> None:
                for gate in place.gates:
                    gate.hold(answers=1)
                held.set()

            async def committed() -> bool:
                return (await place.last())[0] > before

            before, _ = await place.last()
            with at_commit(place.member, hold):
                asked = asyncio.create_task(place.count())
                await held.wait()
                await until(committed)
                assert (await place.there())[0] == 0, "the worker has heard of it"
                connection = place.member.store._writer._connection
                assert connection is not None
                connection.terminate()
                for _ in range(LONGER):
                    await asyncio.sleep(0)
                assert not asked.done(), "answered before the worker shows it"
                for gate in place.gates:
                    gate.release()
                assert await asked == 1
            assert (await place.there())[0] == 1

    asyncio.run(check())
