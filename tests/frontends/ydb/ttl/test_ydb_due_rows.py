"""Rows that are due and still stored: visible, and in the way of writes, unless the table hides them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from ydb_world import YdbWorld

TABLE = (
    "CREATE TABLE `a/t` (id Uint64, at Timestamp, n Uint64, s Utf8, PRIMARY KEY (id), INDEX by_s GLOBAL ON (s),"
    ' INDEX covering GLOBAL ON (n) COVER (s)) WITH (TTL = Interval("PT10S") ON at)'
)
ROWS = (
    "UPSERT INTO `a/t` (id, at, n, s) VALUES (1, Timestamp('2030-01-01T00:00:00Z'), 1, 'a'),"
    " (2, Timestamp('2030-01-01T00:00:00.000001Z'), 1, 'a'), (3, NULL, 1, 'a')"
)
DUE, ALIVE = 10_000_000, [2, 3]


@pytest.fixture(params=["show", "hide"])
def hides(request: pytest.FixtureRequest, world: YdbWorld) -> bool:
    """The clock stands where the first row is due and the second is not."""
    found = bool(request.param == "hide")
    world.do(TABLE, ROWS)
    if found:
        world.session.alter_table("/local/a/t", alter_attributes={"mayfly_hide_expired": "true"})
    world.to(DUE)
    return found


def _stream(world: YdbWorld, path: str = "/local/a/t", **options: Any) -> list[int]:
    return sorted(row.id for part in world.session.read_table(path, **options) for row in part.rows)


def _scan(world: YdbWorld) -> list[int]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        found = world.driver.table_client.scan_query("SELECT id FROM `a/t`")
        return sorted(row.id for part in found for row in part.result_set.rows)


def _by_table_service(world: YdbWorld) -> list[int]:
    (found,) = world.session.transaction().execute("SELECT id FROM `a/t`", commit_tx=True)
    return sorted(row.id for row in found.rows)


READS: dict[str, Callable[[YdbWorld], list[int]]] = {
    "V1 by key": lambda world: [id for n in (1, 2, 3) for id in world.ids("a/t", f"WHERE id = {n}ul")],
    "V1 by keys": lambda world: world.ids("a/t", "WHERE id IN (1ul, 2ul, 3ul)"),
    "V2 all": lambda world: world.ids("a/t"),
    "V2 table service": _by_table_service,
    "V2 scan query": _scan,
    "V2 read table": _stream,
    "V2 read table in order": lambda world: _stream(world, ordered=True),
    "V2 read index": lambda world: _stream(world, "/local/a/t/by_s/indexImplTable", columns=("s", "id")),
    "V2 range": lambda world: world.ids("a/t", "WHERE id >= 1ul AND id < 9ul"),
    "V2 index": lambda world: world.ids("a/t", "VIEW by_s WHERE s = 'a'u"),
    "V2 index with row": lambda world: world.ids("a/t", "VIEW by_s WHERE s = 'a'u AND n = 1ul"),
    "V2 covering index": lambda world: world.ids("a/t", "VIEW covering WHERE n = 1ul AND s = 'a'u"),
    "V2 joined": lambda world: sorted(
        id for (id,) in world.rows("SELECT b.id AS id FROM `a/t` AS a JOIN `a/t` AS b ON a.id = b.id")
    ),
    "V2 aggregated": lambda world: sorted(world.rows("SELECT AGGREGATE_LIST(id) AS l FROM `a/t`")[0][0]),
    "V2 grouped": lambda world: sorted(id for id, _ in world.rows("SELECT id, COUNT(*) AS c FROM `a/t` GROUP BY id")),
    "V2 limited": lambda world: world.ids("a/t", "ORDER BY id LIMIT 3"),
}


def test_every_read_tells_the_same(world: YdbWorld, hides: bool) -> None:
    expected = ALIVE if hides else [1, *ALIVE]
    assert {name: read(world) for name, read in READS.items()} == dict.fromkeys(READS, expected)
    assert world.rows("SELECT COUNT(*) AS c FROM `a/t`") == [(len(expected),)]
    assert world.rows("SELECT COUNT(*) AS c FROM `a/t` VIEW by_s") == [(len(expected),)]
    assert world.rows("SELECT MIN(id) AS c FROM `a/t`") == [(expected[0],)]
    # V8: what is stored is counted apart from what is seen.
    stats = world.server.stats()["targets"]["ydb:/local/a/t"]
    assert (stats["records"], stats["hidden"], stats["due"]) == ((2, 1, 1) if hides else (3, 0, 1))
    assert world.described("a/t", table_stats=True).table_stats.rows_estimate == len(expected)


CHANGES: list[tuple[str, str, list[Any], list[Any]]] = [
    # id, statement, the rows with the key 1 where it is hidden, and where it is shown (n, s, whether it has a date)
    ("V3", "UPDATE `a/t` SET s = 'z' WHERE id = 1", [], [(1, "z", True)]),
    ("V3", "UPDATE `a/t` ON (id, s) VALUES (1, 'z')", [], [(1, "z", True)]),
    ("V3", "UPDATE `a/t` SET at = NULL WHERE id = 1", [], [(1, "a", False)]),
    ("V3", "DELETE FROM `a/t` WHERE id = 1", [], []),
    ("V3", "DELETE FROM `a/t` ON (id) VALUES (1)", [], []),
    ("V4", "INSERT INTO `a/t` (id, n) VALUES (1, 7)", [(7, None, False)], []),
    ("V5", "UPSERT INTO `a/t` (id, n) VALUES (1, 7)", [(7, None, False)], [(7, "a", True)]),
    ("V5", "REPLACE INTO `a/t` (id, n) VALUES (1, 7)", [(7, None, False)], [(7, None, False)]),
    ("V5", "UPSERT INTO `a/t` SELECT id, 'z'u AS s FROM `a/t` WHERE id = 1", [], [(1, "z", True)]),
]


def test_writes_over_it(world: YdbWorld, hides: bool) -> None:
    for name, text, hidden, shown in CHANGES:
        world.server.reset()
        world.do(TABLE, ROWS)
        if hides:
            world.session.alter_table("/local/a/t", alter_attributes={"mayfly_hide_expired": "true"})
        world.to(DUE)
        if text.startswith("INSERT") and not hides:
            status, texts = world.refused(world.pool.execute_with_retries, text)
            assert (status, "Conflict with existing key." in texts) == ("PRECONDITION_FAILED", True)
            continue
        world.do(text)
        found = world.rows("SELECT n, s, at IS NOT NULL AS dated FROM `a/t` WHERE id = 1")
        assert found == (hidden if hides else shown), (name, text)
        assert world.ids("a/t", "VIEW by_s") == [
            *(row[0] for row in world.rows("SELECT id FROM `a/t` WHERE id = 1")),
            2,
            3,
        ]


def test_a_new_row_in_its_place(world: YdbWorld, hides: bool) -> None:
    """V4: the old one goes with its event in the same transaction, once; the new one lives on."""
    if not hides:
        return
    world.do("INSERT INTO `a/t` (id, n) VALUES (1, 7)")
    assert [(event.id, event.reason) for event in world.server.events.expired] == [("1", "column")]
    world.advance(7200)
    assert world.ids("a/t") == [1, 3]
    assert sorted(event.id for event in world.server.events.expired) == ["1", "2"]


def test_a_value_that_it_holds(world: YdbWorld, hides: bool) -> None:
    """V6"""
    world.do(
        "CREATE TABLE u (id Uint64, at Timestamp, s Utf8, PRIMARY KEY (id), INDEX by_s GLOBAL UNIQUE SYNC ON (s))"
        ' WITH (TTL = Interval("PT0S") ON at)',
        "UPSERT INTO u (id, at, s) VALUES (1, Timestamp('2030-01-01T00:00:20Z'), 'a')",
    )
    if hides:
        world.session.alter_table("/local/u", alter_attributes={"mayfly_hide_expired": "true"})
    insert = "INSERT INTO u (id, s) VALUES (2, 'a')"
    world.to(19_999_999)
    assert world.refused(world.pool.execute_with_retries, insert)[0] == "PRECONDITION_FAILED"
    world.to(20_000_000)
    if hides:
        world.do(insert)
        assert world.ids("u") == [2]
    else:
        assert world.refused(world.pool.execute_with_retries, insert)[0] == "PRECONDITION_FAILED"
        world.server.purge("ydb:/local/u")
        world.do(insert)
    assert world.ids("u", "VIEW by_s WHERE s = 'a'u") == [2]


def test_the_setting_can_be_taken_back(world: YdbWorld, hides: bool) -> None:
    """P8: shown again as long as they are stored, whichever way the rule goes."""
    expected = ALIVE if hides else [1, *ALIVE]
    assert world.ids("a/t") == expected
    world.session.alter_table("/local/a/t", alter_attributes={"mayfly_hide_expired": ""})
    assert world.ids("a/t") == [1, 2, 3]
    world.session.alter_table("/local/a/t", alter_attributes={"mayfly_hide_expired": "true"})
    assert world.ids("a/t") == ALIVE
    world.do("ALTER TABLE `a/t` RESET (TTL)")
    assert world.ids("a/t") == [1, 2, 3]
    world.do('ALTER TABLE `a/t` SET (TTL = Interval("PT11S") ON at)')
    assert world.ids("a/t") == [1, 2, 3]
    world.to(11_000_000)
    assert world.ids("a/t") == ALIVE
