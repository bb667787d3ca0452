"""When tables are swept, and what changes of their settings do to that: through the client, by the clock that a test holds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from urllib.request import Request, urlopen

import pytest

from ydb_world import HOUR, MINUTE, YdbWorld

TABLE = (
    "CREATE TABLE `{0}` (id Uint64, at Timestamp, n Uint64, s Utf8, PRIMARY KEY (id), INDEX by_s GLOBAL ON (s))"
    ' WITH (TTL = Interval("PT0S") ON at)'
)


def make(world: YdbWorld, table: str = "t") -> None:
    world.do(TABLE.format(table))


def put(world: YdbWorld, *ids: int, table: str = "t", later: int = 0) -> None:
    """Rows that die so many seconds from now."""
    at = f"CurrentUtcTimestamp() + Interval('PT{later}S')"
    values = ", ".join(f"({id}, {at}, 4102444800, 's')" for id in ids)
    world.do(f"UPSERT INTO `{table}` (id, at, n, s) VALUES {values}")


def posted(world: YdbWorld, path: str, **body: Any) -> Any:
    request = Request(f"{world.server.admin_url}/{path}", method="POST", data=json.dumps(body).encode())
    request.add_header("Content-Type", "application/json")
    with urlopen(request) as answer:
        return json.loads(answer.read())


def ttl_report(world: YdbWorld, table: str = "t") -> dict[str, Any]:
    """Return the row of a table in the admin API."""
    with urlopen(f"{world.server.admin_url}/ttl?target=ydb:/local/{table}") as answer:
        (row,) = json.loads(answer.read())["targets"]
    return dict(row)


def following(world: YdbWorld, table: str = "t") -> int | None:
    """Minutes from the start to the next run."""
    text = ttl_report(world, table)["next_run"]
    if text is None:
        return None
    days, (hours, minutes) = int(text[8:10]) - 1, map(int, text[11:16].split(":"))
    return days * 1440 + hours * 60 + minutes


def test_a_table_is_swept_once_in_an_interval(world: YdbWorld) -> None:
    make(world)
    assert (world.ran("t"), following(world)) == ((None, None, None), 1)
    put(world, 1, 2)
    put(world, 3, later=HOUR)
    assert world.advance(MINUTE) == {"t": 2}
    assert (world.ran("t"), following(world)) == ((MINUTE, 3, 2), 61)
    put(world, 4)
    assert world.advance(HOUR - 1) == {}
    assert world.advance(1) == {"t": 2}
    assert world.ran("t") == (MINUTE + HOUR, 2, 2)
    # A run that finds nothing is one all the same, and idle years cost nothing.
    world.advance(3650 * 24 * HOUR)
    at, processed, erased = world.ran("t")
    assert (processed, erased) == (0, 0)
    assert at is not None
    assert world.micros() // 1_000_000 - at < HOUR
    assert (at - MINUTE) % HOUR == 0


def _set(after: str, column: str = "at", rest: str = "") -> str:
    return f'ALTER TABLE t SET (TTL = Interval("{after}") ON {column}{rest})'


RESET = "ALTER TABLE t RESET (TTL)"
CHANGES: dict[str, tuple[Sequence[str], int]] = {
    "another span": ([_set("PT5S")], 61),
    "the same": ([_set("PT0S")], 61),
    "reset and set": ([RESET, _set("PT0S")], 61),
    "reset twice": ([RESET, RESET, _set("PT0S")], 61),
    "another column": ([_set("PT0S", "n", " AS SECONDS")], 61),
    "there and back": ([_set("PT0S", "n", " AS SECONDS"), _set("PT0S")], 61),
    "a column more": (["ALTER TABLE t ADD COLUMN x Int32"], 61),
    "an index more": (["ALTER TABLE t ADD INDEX by_n GLOBAL ON (n)"], 61),
    "renamed": (["ALTER TABLE t RENAME TO other", "ALTER TABLE other RENAME TO t"], 61),
}


@pytest.mark.parametrize("minutes", [1, 30])
def test_no_change_brings_runs_nearer_to_each_other(world: YdbWorld, minutes: int) -> None:
    for name, (texts, expected) in CHANGES.items():
        world.server.reset()
        make(world)
        put(world, 1)
        assert world.advance(minutes * MINUTE) == {"t": 1}, name
        put(world, 2)
        world.do(*texts)
        assert following(world) == expected, name
        assert world.advance((60 - minutes) * MINUTE) == {}, name
        assert world.ids("t") == [2], name


def test_a_rule_that_is_gone_erases_nothing_more(world: YdbWorld) -> None:
    make(world)
    put(world, 1)
    world.do(RESET)
    assert following(world) is None
    assert world.advance(3 * HOUR) == {}
    assert world.ids("t") == [1]
    world.do(_set("PT0S"))
    assert world.advance(MINUTE) == {"t": 1}


def interval(world: YdbWorld, seconds: int, table: str = "t") -> None:
    """Set the run interval, as only calls and the command line can."""
    change = world.ydb._apis.ydb_table.TtlSettings(run_interval_seconds=seconds)
    change.date_type_column.column_name = "at"

    class Settings(world.ydb.TtlSettings):  # type: ignore[misc, name-defined]
        def to_pb(self) -> Any:
            return change

    world.session.alter_table(f"/local/{table}", set_ttl_settings=Settings())


def test_run_intervals(world: YdbWorld) -> None:
    """YV9: seconds that were asked for, and the minutes from the start to the next two runs."""
    for asked, first, second in ((0, 1, 61), (900, 1, 16), (901, 1, 17), (7200, 1, 121)):
        world.server.reset()
        make(world)
        interval(world, asked)
        assert following(world) == first
        world.advance(MINUTE)
        assert following(world) == second
    make(world, "u")
    status, texts = world.refused(interval, world, 899, "u")
    assert (status, texts.splitlines()[-1]) == ("BAD_REQUEST", "TTL run interval cannot be less than limit: 900")


def test_a_statement_resets_the_run_interval(world: YdbWorld) -> None:
    make(world)
    interval(world, 900)
    world.advance(MINUTE)
    assert following(world) == 16
    world.do(_set("PT0S"))
    assert following(world) == 61
    interval(world, 1800)
    assert following(world) == 31


def test_copies_and_new_names_go_on(world: YdbWorld) -> None:
    """A copy is a table of its own: it has the setting, but was never swept."""
    make(world)
    put(world, 1)
    world.advance(MINUTE)
    put(world, 2)
    put(world, 3, later=2 * HOUR)
    world.session.copy_table("/local/t", "/local/copy")
    assert (following(world), following(world, "copy")) == (61, 2)
    assert world.advance(MINUTE) == {"copy": 1}
    world.do("ALTER TABLE t RENAME TO `there/now`")
    assert following(world, "there/now") == 61
    assert world.ran("there/now") == (MINUTE, 1, 1)
    assert world.advance(59 * MINUTE) == {"there/now": 1}
    assert (world.ids("there/now"), world.ids("copy")) == ([3], [3])
    assert world.ids("there/now", "VIEW by_s WHERE s = 's'u") == [3]
    # A table that is gone takes its schedule with it.
    world.do("DROP TABLE copy")
    make(world, "copy")
    assert following(world, "copy") == 62


def test_a_run_on_demand(world: YdbWorld) -> None:
    """A run on demand ignores interval and pause. The next run is an interval after it."""
    make(world)
    put(world, 1)
    world.advance(MINUTE)
    put(world, 2, 3)
    put(world, 4, later=5)
    assert posted(world, "purge", target="ydb:/local/t")["by_target"] == {"ydb:/local/t": 2}
    assert (world.ran("t"), following(world)) == ((MINUTE, 3, 2), 61)
    world.advance(10 * MINUTE)
    posted(world, "ttl/pause", target="ydb:/local/t")
    assert following(world) is None
    assert posted(world, "purge", target="ydb:/local/t")["by_target"] == {"ydb:/local/t": 1}
    put(world, 5)
    assert world.advance(2 * HOUR) == {}
    assert world.ids("t") == [5]
    posted(world, "ttl/resume", target="ydb:/local/t")
    assert world.advance(HOUR) == {"t": 1}


SAVING = {
    "moved on": "UPDATE t SET at = CurrentUtcTimestamp() + Interval('P1D') WHERE id = 1",
    "never": "UPDATE t SET at = NULL WHERE id = 1",
    "a new life": "UPSERT INTO t (id, at) VALUES (1, CurrentUtcTimestamp() + Interval('P1D'))",
    "replaced without a date": "REPLACE INTO t (id, n) VALUES (1, 5)",
}


def test_what_was_moved_out_of_reach_stays(world: YdbWorld) -> None:
    for name, text in SAVING.items():
        world.server.reset()
        make(world)
        put(world, 1, 2)
        world.do(text)
        assert world.advance(MINUTE) == {"t": 1}, name
        assert world.ids("t") == [1], name
        assert len(world.ids("t", "VIEW by_s")) == 1, name


def test_entries_of_indexes_go_with_their_rows(world: YdbWorld) -> None:
    """More rows than one batch has; a transaction that began before sees all of them on, and cannot commit."""
    make(world)
    for start in range(0, 600, 100):
        put(world, *range(start, start + 100))
    put(world, 1000, later=HOUR)
    with world.pool.checkout() as session:
        transaction = session.transaction().begin()
        with transaction.execute("SELECT COUNT(*) AS c FROM t VIEW by_s") as found:
            assert [row.c for part in found for row in part.rows] == [601]
        assert world.advance(MINUTE) == {"t": 600}
        with transaction.execute("SELECT COUNT(*) AS c FROM t VIEW by_s") as found:
            assert [row.c for part in found for row in part.rows] == [601]
        aborted = pytest.raises(world.ydb.Aborted)
        with aborted, transaction.execute("UPSERT INTO t (id) VALUES (7)", commit_tx=True) as found:
            list(found)
    assert world.ids("t") == world.ids("t", "VIEW by_s") == [1000]
    assert world.ran("t") == (MINUTE, 601, 600)
    assert len(world.server.events.expired) == 600


def test_rows_are_counted_by_partitions(world: YdbWorld) -> None:
    """The counts of a run are divided among the partitions that the table reports."""
    world.do(
        "CREATE TABLE p (id Uint64, at Timestamp, PRIMARY KEY (id))"
        ' WITH (TTL = Interval("PT0S") ON at, UNIFORM_PARTITIONS = 4)',
        "UPSERT INTO p (id, at) VALUES (1, CurrentUtcTimestamp()), (2, CurrentUtcTimestamp()), (3, NULL)",
    )
    world.advance(MINUTE)
    found = world.rows(
        "SELECT SUM(LastTtlRowsProcessed) AS a, SUM(LastTtlRowsErased) AS b, COUNT(LastTtlRunTime) AS c"
        " FROM `.sys/partition_stats` WHERE Path = '/local/p'"
    )
    assert found == [(3, 2, 4)]


def test_several_tables_each_by_its_own_schedule(world: YdbWorld) -> None:
    """Made at different times and swept at different ones; the order of events is that of their instants, then their tables."""
    make(world, "a")
    world.advance(10 * MINUTE)
    make(world, "b")
    for table in ("a", "b"):
        put(world, 1, table=table)
    assert (following(world, "a"), following(world, "b")) == (61, 11)
    assert world.advance(2 * HOUR) == {"a": 1, "b": 1}
    assert [event.target for event in world.server.events.expired] == ["ydb:/local/b", "ydb:/local/a"]


def test_the_clock_is_walked_in_one_go_or_in_many(world: YdbWorld) -> None:
    found = []
    for steps in ([4 * HOUR], [HOUR] * 4, [600] * 24):
        world.server.reset()
        make(world)
        for id in range(20):
            put(world, id, later=id * 600)
        for step in steps:
            world.advance(step)
        found.append(([(each.id, each.due, each.purged_at) for each in world.server.events.expired], world.ran("t")))
    assert found[0] == found[1] == found[2]
    # The last one is due ten minutes behind the last run.
    assert len(found[0][0]) == 19
