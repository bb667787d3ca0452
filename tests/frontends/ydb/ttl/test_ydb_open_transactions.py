"""Runs while transactions are open: a row that one has written is not erased before it has ended, on every store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ydb_world import HOUR, MINUTE, YdbWorld

pytestmark = pytest.mark.everywhere

TABLE = 'CREATE TABLE t (id Uint64, at Timestamp, n Uint64, PRIMARY KEY (id)) WITH (TTL = Interval("PT10S") ON at)'
FILL = "UPSERT INTO t (id, at, n) VALUES (1, CurrentUtcTimestamp(), 1), (2, CurrentUtcTimestamp(), 2)"

SAVES = {
    "update": "UPDATE t SET at = CurrentUtcTimestamp() + Interval('P1D') WHERE id = 1",
    "never": "UPDATE t SET at = NULL WHERE id = 1",
    "blind upsert": "UPSERT INTO t (id, at) VALUES (1, CurrentUtcTimestamp() + Interval('P1D'))",
    "replace": "REPLACE INTO t (id, n) VALUES (1, 1)",
}


@pytest.fixture
def transaction(world: YdbWorld) -> Iterator[Any]:
    """One that is open, over a table whose two rows are due at its next run."""
    world.do(TABLE, FILL)
    with world.pool.checkout() as session:
        yield session.transaction()


def execute(transaction: Any, text: str) -> None:
    with transaction.execute(text):
        pass


def rows(world: YdbWorld) -> dict[int, int | None]:
    return dict(world.rows("SELECT id, n FROM t"))


@pytest.mark.parametrize("run", ["by schedule", "on demand"])
@pytest.mark.parametrize("how", SAVES)
def test_what_is_saved_is_not_erased(world: YdbWorld, transaction: Any, how: str, run: str) -> None:
    execute(transaction, SAVES[how])
    if run == "by schedule":
        assert world.advance(MINUTE) == {"t": 1}
    else:
        world.to(MINUTE * 1_000_000)
        world.server.purge("ydb:/local/t")
    assert rows(world) == {1: 1}
    transaction.commit()
    assert rows(world) == {1: 1}
    assert world.advance(HOUR) == {}
    assert rows(world) == {1: 1}


def test_what_is_not_saved_goes_with_the_next_run(world: YdbWorld, transaction: Any) -> None:
    execute(transaction, SAVES["update"])
    assert world.advance(MINUTE) == {"t": 1}
    transaction.rollback()
    assert rows(world) == {1: 1}
    assert world.advance(HOUR) == {"t": 1}
    assert rows(world) == {}


def test_what_is_deleted_is_not_erased_again(world: YdbWorld, transaction: Any) -> None:
    execute(transaction, "DELETE FROM t WHERE id = 1")
    assert world.advance(MINUTE) == {"t": 1}
    transaction.commit()
    assert rows(world) == {}
    assert world.advance(HOUR) == {}


def test_a_write_outside_wins(world: YdbWorld, transaction: Any) -> None:
    """Locks keep runs away and nothing else: transactions are optimistic."""
    execute(transaction, SAVES["update"])
    world.do("UPDATE t SET n = 7 WHERE id = 1")
    assert world.refused(transaction.commit)[0] == "ABORTED"
    assert rows(world) == {1: 7, 2: 2}


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "rollback"])
def test_what_is_hidden_meanwhile(world: YdbWorld, transaction: Any, commits: bool) -> None:
    world.session.alter_table("/local/t", alter_attributes={"mayfly_hide_expired": "true"})
    execute(transaction, SAVES["update"])
    world.to(MINUTE * 1_000_000, "scheduled")
    assert rows(world) == {}
    once = world.ydb.RetrySettings(max_retries=0)
    insert = "INSERT INTO t (id, n) VALUES (1, 7)"
    assert world.refused(world.pool.execute_with_retries, insert, retry_settings=once)[0] == "ABORTED"
    if commits:
        transaction.commit()
        assert rows(world) == {1: 1}
    else:
        transaction.rollback()
        assert rows(world) == {}
        world.do(insert)
        assert rows(world) == {1: 7}
