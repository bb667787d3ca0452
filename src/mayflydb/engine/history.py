"""What a container remembers of its records: every version, and every end, for as long as its definition says.

A history is read behind an lsn, and is then complete from there on: whatever is not kept any more is refused, never left out.
That a version is too old is a question of time alone; when it is removed from the store does not matter to anybody.
"""

from __future__ import annotations

from mayflydb.engine.catalog import Node, Nodes, catalogue
from mayflydb.model.errors import BadRequest
from mayflydb.model.instant import Instant
from mayflydb.model.record import Kind, Version
from mayflydb.store.interface import Decision, Forget, History, Outcome, Store

FORGET_BATCH = 1_000
"""Versions that are removed in one transaction."""


class HistoryLost(BadRequest):
    """What followed that lsn is not kept, not even in part."""


async def versions(store: Store, container: Node, after: int, now: Instant, limit: int) -> list[Version]:
    """Versions behind an lsn, by lsn, at most `limit`; none is the end. HistoryLost if there were some before the first."""
    found = await store.read(History(container.id, after, limit))
    kept = next((n for n, version in enumerate(found) if is_lost(container, version, now)), len(found))
    if found and not kept:
        raise HistoryLost("The history from there on is not kept any more.")
    return found[:kept]


def is_lost(container: Node, version: Version, now: Instant) -> bool:
    """Whether this version is too old to be told, or stands for such."""
    return version.kind is Kind.GAP or version.written <= now - (container.definition.history or 0)


async def forget_old(store: Store, nodes: Nodes, now: Instant) -> bool:
    """Remove some of what is too old, in every container; False if nothing is."""
    found = False
    for row in await catalogue(store):
        found |= await _forget(store, nodes.of(row), now)
    return found


async def _forget(store: Store, container: Node, now: Instant) -> bool:
    if container.definition.history is None:
        return False
    oldest = await store.read(History(container.id, 0, 2))
    if oldest and oldest[0].kind is Kind.GAP:
        del oldest[0]
    upto = now - container.definition.history
    if not oldest or oldest[0].written > upto:
        return False

    def decide() -> Decision[None]:
        return Outcome((Forget(container.id, upto, FORGET_BATCH),), None)
        yield

    await store.write(decide, "sweep")
    return True
