"""The self-test before a server reports ready: it writes, reads, expires and purges on its store."""

from __future__ import annotations

import asyncio
import contextlib

from mayflydb.engine.catalog import Definition
from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.engine import Engine
from mayflydb.engine.lifecycle.erasure_log import SELF_TEST
from mayflydb.engine.purge_decision import purge_due
from mayflydb.expiry.rules import Rule
from mayflydb.expiry.sweep import PurgeRequest
from mayflydb.model.errors import Unavailable
from mayflydb.model.instant import MINUTE, floor_to_second

SPACE = "mayfly"
_RULE = Rule("default", 30, hides=True)
_LIVING, _DEAD = b"living", b"dead"


LEASE = MINUTE
RETRY_SECONDS = 0.1


async def prove(engine: Engine) -> None:
    """Run the self-test, one node after the other where several share the store."""
    # One node at a time: all of them use one container of this name.
    lease = engine.lease
    if lease is None:
        await _prove(engine)
        return
    while not await lease("selftest", LEASE):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RETRY_SECONDS):
                await asyncio.get_running_loop().create_future()
    try:
        await _prove(engine)
    finally:
        await lease("selftest", 0)


async def _prove(engine: Engine) -> None:
    """Write two records into a container of its own, one with an anchor in the past; check that one is readable and the other
    purged.

    Unavailable, with the name of the step, if the store behaves otherwise; also errors of the store. Leaves nothing behind.
    """
    now = await engine.now()
    space = await engine.definitions.space(SPACE, now)
    for left in await engine.children(space.id):
        await engine.definitions.drop(left.id)  # Left by a process that was killed during its self-test.
    try:
        container = await engine.definitions.create(space.id, "selftest", Definition({}, now, rules=(_RULE,)))
        past = floor_to_second(now) - MINUTE
        for key, anchor in ((_LIVING, None), (_DEAD, past)):
            await engine.write(container.id, Command(Mode.CREATE, b"", key, Draft(key, anchor=anchor)), now)
        living = await engine.get(container, b"", _LIVING, now)
        _expect(living is not None and living.value == _LIVING, "a record that was written could not be read")
        _expect(await engine.get(container, b"", _DEAD, now) is None, "a record that has expired could be read")
        # Not by the reaper, which would wait until every other node knows of this one or is dead. Another node's may be first.
        request = PurgeRequest(now, now, SELF_TEST)
        await engine.store.write(lambda: purge_due(engine.nodes, container.id, 1, request, shared=False), "user")
        _expect(await engine.get_stored(container.id, b"", _DEAD) is None, "a record that has expired was not purged")
        await engine.write(container.id, Command(Mode.DELETE, b"", _LIVING), now)
    finally:
        await engine.definitions.drop(space.id)


def _expect(fact: bool, otherwise: str) -> None:
    if not fact:
        raise Unavailable(f"self-test: {otherwise}")
