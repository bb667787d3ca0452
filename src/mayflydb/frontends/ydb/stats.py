"""What queries did, as clients ask to be told: `Ydb.TableStats.QueryStats`."""

from __future__ import annotations

from mayflydb.frontends.ydb import wire
from mayflydb.frontends.ydb.executor import Stats
from mayflydb.frontends.ydb.store_tables import Accessed


def query_stats(stats: Stats, plan: bool) -> bytes:
    """The inside of a QueryStats. `plan`: with the query's plan."""
    running = stats.whole - stats.planning
    tables = b"".join(wire.block(2, _table(path, accessed)) for path, accessed in stats.accessed.items())
    phase = wire.number(1, running) + tables + wire.number(3, running) + wire.number(4, len(stats.accessed))
    compilation = wire.number(1, int(stats.cached)) + wire.number(2, stats.planning) + wire.number(3, stats.planning)
    whole = wire.number(6, stats.whole) + wire.number(7, stats.whole)
    return b"".join(
        (wire.block(1, phase), wire.block(2, compilation), wire.text(4, stats.plan) if plan else b"", whole)
    )


def _table(path: str, accessed: Accessed) -> bytes:
    counts = ((3, accessed.reads), (4, accessed.updates), (5, accessed.deletes))
    done = b"".join(wire.block(field, wire.number(1, rows)) for field, rows in counts if rows)
    return wire.text(1, path) + done + wire.number(6, 1)
