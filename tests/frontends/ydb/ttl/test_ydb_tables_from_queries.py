"""TTL of tables that queries and sessions make, on every store."""

from __future__ import annotations

import pytest

from ydb_world import HOUR, MINUTE, YdbWorld

pytestmark = pytest.mark.everywhere


def test_a_table_from_a_query_has_its_rules_from_its_birth(world: YdbWorld) -> None:
    world.do(
        "CREATE TABLE t (id Uint64, at Timestamp, PRIMARY KEY (id))",
        "UPSERT INTO t (id, at) VALUES (1, CurrentUtcTimestamp()), (2, CurrentUtcTimestamp() + Interval('PT2H')), (3, NULL)",
        'CREATE TABLE made (PRIMARY KEY (id)) WITH (TTL = Interval("PT30S") ON at) AS SELECT id, at FROM t',
    )
    assert world.advance(29) == {}
    assert world.advance(MINUTE) == {"made": 1}
    assert (world.ids("made"), world.ids("t")) == ([2, 3], [1, 2, 3])
    assert world.advance(3 * HOUR) == {"made": 1}
    assert world.ids("made") == [3]


def test_a_temporary_table_has_its_rules(world: YdbWorld) -> None:
    with world.pool.checkout() as session:

        def execute(text: str) -> list[int]:
            with session.execute(text) as parts:
                return [row.id for part in parts for row in part.rows]

        execute(
            'CREATE TEMPORARY TABLE t (id Uint64, at Timestamp, PRIMARY KEY (id)) WITH (TTL = Interval("PT30S") ON at)'
        )
        execute("UPSERT INTO t (id, at) VALUES (1, CurrentUtcTimestamp()), (2, NULL)")
        world.advance(29)
        assert execute("SELECT id FROM t") == [1, 2]
        world.advance(MINUTE)
        assert execute("SELECT id FROM t") == [2]
