"""Reads as of a later instant, by PRAGMA mayfly.AsOf."""

from __future__ import annotations

import random
from typing import Any

import pytest

from mayflydb.model.instant import to_rfc3339
from ydb_world import HOUR, SECOND, T, YdbWorld

READS = [
    "SELECT id FROM t",
    "SELECT id FROM t WHERE id = 3",
    "SELECT id FROM t VIEW by_n WHERE n >= 0",
    "SELECT COUNT(*) AS id FROM t",
    "SELECT a.id AS id FROM t AS a JOIN t AS b ON a.id = b.n",
    "SELECT id FROM t WHERE id IN (SELECT n FROM t)",
]


def create(world: YdbWorld, hides: str) -> None:
    world.do(
        "CREATE TABLE t (id Int64, n Int64, at Timestamp, PRIMARY KEY (id), INDEX by_n GLOBAL ON (n)) "
        "WITH (TTL = Interval('PT10S') ON at)"
    )
    if hides == "true":
        world.session.alter_table("/local/t", alter_attributes={"mayfly_hide_expired": "true"})


def pragma(second: float, name: str = "mayfly.AsOf") -> str:
    return f'PRAGMA {name} = "{to_rfc3339(T * SECOND + round(second * SECOND))}"; '


@pytest.mark.parametrize("hides", ["false", "true"])
def test_a_read_as_of_an_instant_is_what_the_clock_brings(world: YdbWorld, chance: random.Random, hides: str) -> None:
    create(world, hides)
    ends: list[int | None] = [None, *(chance.randint(10, 5000) for _ in range(11))]
    for n, end in enumerate(ends):
        at = "NULL" if end is None else f'Timestamp("{to_rfc3339((T + end - 10) * SECOND)}")'
        world.do(f"UPSERT INTO t (id, n, at) VALUES ({n}, {n}, {at})")
    moments = sorted({0, *(end for end in ends if end is not None)})
    told = {moment: [sorted(world.rows(pragma(moment) + text)) for text in READS] for moment in moments}
    assert world.ids("t") == list(range(12))
    for moment in moments:
        expected = [n for n, end in enumerate(ends) if end is None or end > moment]
        assert told[moment][0] == [(n,) for n in expected]
        if hides == "true":
            world.to(moment * SECOND)
            assert [sorted(world.rows(text)) for text in READS] == told[moment], moment
    world.advance(moments[-1] + 2 * HOUR)
    assert [sorted(world.rows(text)) for text in READS] == told[moments[-1]]


def test_now_is_the_instant(world: YdbWorld) -> None:
    ((told,),) = world.rows(pragma(7) + "SELECT DateTime::ToSeconds(CurrentUtcTimestamp()) AS s")
    assert told == T + 7


def refused_text(world: YdbWorld, text: str) -> tuple[str, str]:
    return world.refused(world.pool.execute_with_retries, text, retry_settings=world.ydb.RetrySettings(max_retries=0))


REFUSED: list[tuple[str, str, str]] = [
    (pragma(9) + "UPSERT INTO t (id) VALUES (1)", "BAD_REQUEST", "queries that write"),
    (pragma(-1) + "SELECT id FROM t", "BAD_REQUEST", "No states before now are kept of"),
    (pragma(9) + pragma(10) + "SELECT id FROM t", "GENERIC_ERROR", "two instants"),
    ('PRAGMA mayfly.AsOf = "9999-12-31T23:59:59-23:00"; SELECT id FROM t', "GENERIC_ERROR", "is not a time"),
    ('PRAGMA mayfly.AsOf = "tomorrow"; SELECT id FROM t', "GENERIC_ERROR", "is not a time"),
    ("PRAGMA mayfly.AsOf; SELECT id FROM t", "GENERIC_ERROR", "is not a time"),
    (pragma(9) + "CREATE TABLE u (id Int64, PRIMARY KEY (id))", "GENERIC_ERROR", "mayfly.AsOf with definitions"),
    (pragma(9, "mayfly.Other") + "SELECT id FROM t", "GENERIC_ERROR", "mayfly.Other"),
]


@pytest.mark.parametrize(("text", "status", "words"), REFUSED)
def test_refusals(world: YdbWorld, text: str, status: str, words: str) -> None:
    create(world, "false")
    found, told = refused_text(world, text)
    assert (found, words in told) == (status, True), told


def test_a_transaction_that_stays_open_has_one_instant(world: YdbWorld) -> None:
    create(world, "false")

    def work(session: Any) -> None:
        with session.transaction().begin() as transaction, transaction.execute(pragma(9) + "SELECT id FROM t") as found:
            list(found)

    status, told = world.refused(
        world.pool.retry_operation_sync, work, retry_settings=world.ydb.RetrySettings(max_retries=0)
    )
    assert (status, "stays open" in told) == ("BAD_REQUEST", True), told
