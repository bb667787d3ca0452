"""Histories of containers: every version and every deletion of their records, kept for the time that the definition states.

A history is read after an lsn and is complete from there on: versions that are no longer kept cause a refusal, never a gap.
Time alone decides whether a version is too old; the moment of its removal from the store does not matter. A history with too many
versions is cut from time to time.
"""

from __future__ import annotations

from mayflydb.engine.catalog import Node, Nodes, catalogue
from mayflydb.model.errors import BadRequest
from mayflydb.model.instant import Instant
from mayflydb.model.record import Kind, Version
from mayflydb.store.interface import Decision, History, Outcome, Store, TrimHistory

FORGET_BATCH = 1_000
"""Versions that are removed in one transaction."""


class HistoryLost(BadRequest):
    """Versions after the requested lsn are no longer kept."""


async def versions(store: Store, container: Node, after: int, now: Instant, limit: int) -> list[Version]:
    """Return up to `limit` versions after an lsn, by lsn; an empty list is the end. HistoryLost if older versions were
    forgotten.
    """
    found = await store.read(History(container.id, after, limit))
    kept = next((n for n, version in enumerate(found) if is_lost(container, version, now)), len(found))
    if found and not kept:
        raise HistoryLost("The history from there on is not kept any more.")
    return found[:kept]


def is_lost(container: Node, version: Version, now: Instant) -> bool:
    """Return whether a version is too old to be read, or stands for such versions."""
    return version.kind is Kind.GAP or version.written <= now - (container.definition.history or 0)


async def forget_old(store: Store, nodes: Nodes, now: Instant, most: int) -> bool:
    """Remove some versions that are too old, or not among the last `most`, in every container; False if there are none."""
    found = False
    for row in await catalogue(store):
        found |= await _forget(store, nodes.of(row), now, row.lsn - most)
    return found


async def _forget(store: Store, container: Node, now: Instant, upto_lsn: int) -> bool:
    if container.definition.history is None:
        return False
    # Two lines, since the first may be a gap.
    oldest = await store.read(History(container.id, 0, 2))
    if oldest and oldest[0].kind is Kind.GAP:
        del oldest[0]
    upto = now - container.definition.history
    if not oldest or (oldest[0].written > upto and oldest[0].lsn > upto_lsn):
        return False

    def decide() -> Decision[None]:
        return Outcome((TrimHistory(container.id, upto, FORGET_BATCH, max(0, upto_lsn)),), None)
        yield

    await store.write(decide, "sweep")
    return True
