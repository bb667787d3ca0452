"""Reads as of an earlier instant, by PRAGMA mayfly.AsOf: what was read then is read again."""

from __future__ import annotations

import random
from typing import Any

import pytest

from frontends.ydb.ttl.test_ydb_as_of import READS, create, pragma, refused_text
from mayflydb.model.instant import to_rfc3339
from ydb_world import SECOND, T, YdbWorld

STEPS = 24
TARGET = "ydb:/local/t"


def change(world: YdbWorld, chance: random.Random) -> None:
    """One of the changes that a table may get."""
    n, dice = chance.randrange(10), chance.random()
    at = f'Timestamp("{to_rfc3339(T * SECOND + world.micros() + chance.randint(-20, 20) * SECOND)}")'
    if dice < 0.5:
        world.do(f"UPSERT INTO t (id, n, at) VALUES ({n}, {chance.randrange(10)}, {chance.choice(['NULL', at])})")
    elif dice < 0.65:
        world.do(f"UPDATE t SET n = n + 1 WHERE n < {n}")
    elif dice < 0.8:
        world.do(f"DELETE FROM t WHERE id = {n}")
    elif dice < 0.9:
        world.do(f"ALTER TABLE t SET (TTL = Interval('PT{chance.randint(0, 20)}S') ON at)")
    else:
        world.server.purge()


@pytest.mark.parametrize("hides", ["false", "true"])
def test_a_read_as_of_an_instant_is_what_was_read_then(world: YdbWorld, chance: random.Random, hides: str) -> None:
    create(world, hides)
    world.server.set_lifecycle(TARGET, history="1h")
    told: dict[int, Any] = {}
    for second in range(STEPS):
        change(world, chance)
        told[second] = [sorted(world.rows(text)) for text in READS]
        world.to((second + 1) * SECOND)
    world.server.purge()
    for second, then in told.items():
        assert [sorted(world.rows(pragma(second) + text)) for text in READS] == then, second


def test_now_is_the_instant(world: YdbWorld) -> None:
    create(world, "true")
    world.server.set_lifecycle(TARGET, history="1h")
    world.do("UPSERT INTO t (id) VALUES (1)")
    world.to(100 * SECOND)
    ((told,),) = world.rows(pragma(7) + "SELECT DateTime::ToSeconds(CurrentUtcTimestamp()) AS s FROM t")
    assert told == T + 7


def test_columns_of_later_and_of_before(world: YdbWorld) -> None:
    create(world, "true")
    world.server.set_lifecycle(TARGET, history="1h")
    world.do("UPSERT INTO t (id, n) VALUES (1, 5)")
    world.to(SECOND)
    world.do("ALTER TABLE t ADD COLUMN more Utf8", "UPSERT INTO t (id, n, more) VALUES (1, 6, 'm'u)")
    assert world.rows(pragma(0) + "SELECT id, n, more FROM t") == [(1, 5, None)]
    world.do("ALTER TABLE t DROP COLUMN more")
    assert world.rows(pragma(0) + "SELECT * FROM t") == [(None, 1, 5)]


def test_only_what_is_kept_is_read(world: YdbWorld) -> None:
    create(world, "true")
    world.to(10 * SECOND)
    world.server.set_lifecycle(TARGET, history="60s")
    world.do("UPSERT INTO t (id) VALUES (1)")
    world.to(70 * SECOND)
    assert world.rows(pragma(10) + "SELECT id FROM t") == [(1,)]
    words = "No states before 2030-01-01T00:00:10Z are kept of 't'"
    assert words in refused_text(world, pragma(9.999) + "SELECT id FROM t")[1]
    world.to(80 * SECOND)
    words = "No states before 2030-01-01T00:00:20Z are kept of 't'"
    assert words in refused_text(world, pragma(19.999) + "SELECT id FROM t")[1]
    assert world.rows(pragma(20) + "SELECT id FROM t") == [(1,)]
