"""An engine over a store as it was at an earlier instant: what reads through it is as of then, whatever its path."""

from __future__ import annotations

from copy import copy

from mayflydb.engine.catalog import Node, Nodes
from mayflydb.engine.engine import Engine
from mayflydb.engine.expiry_counts import ExpiryCounts
from mayflydb.engine.indexes import Indexes
from mayflydb.engine.lifecycle.past import KeysFor, PastStore
from mayflydb.engine.reads import keep_none
from mayflydb.engine.version_cache import VersionCache
from mayflydb.model.instant import Instant


class PastCounts(ExpiryCounts):
    """Counts as of an earlier instant: no index tells them."""

    async def count_visible(self, container: Node, now: Instant) -> None:
        """Return None: the records have to be looked at."""


def engine_as_of(engine: Engine, at: Instant, keys_for: KeysFor) -> Engine:
    """Return an engine for the reads of one request as of an instant in the past. It shares all else with the engine.

    The first read of a container raises BadRequest if its state of the instant is not kept.
    """
    found = copy(engine)
    store = PastStore(engine.store, engine.nodes, engine.pasts, at, keys_for)
    found.store = store
    found.nodes = Nodes()
    # Nothing is replaced in the past.
    found.version_cache = VersionCache()
    found.indexes = Indexes(store, found.nodes, lambda: at)
    found.expiry_counts = PastCounts(store)
    found.kept = keep_none
    return found
