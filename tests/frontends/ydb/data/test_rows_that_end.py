"""Rows with a TTL, as queries see them: there until they are erased, or gone at their deadline where the table says so."""

from __future__ import annotations

from typing import Any

import pytest

from mayflydb.frontends.ydb.rows import partition_of
from mayflydb.frontends.ydb.schemes.specs import AlterSpec
from mayflydb.frontends.ydb.transactions import TransactionControl
from mayflydb.model.instant import SECOND
from mayflydb.query.yql.faults import Fault

TABLE = """CREATE TABLE t (id Uint64, at Timestamp, n Uint64, v Utf8, INDEX by_v GLOBAL ON (v), PRIMARY KEY (id))
    WITH (TTL = Interval("PT10S") ON at)"""
ROWS = "UPSERT INTO t (id, at, v) VALUES (1, CurrentUtcTimestamp(), 'a'), (2, NULL, 'b')"


@pytest.fixture
def t(place: Any) -> Any:
    place.parts(TABLE)
    place.parts(ROWS)
    return place


def dates(place: Any) -> list[Any]:
    async def read() -> list[Any]:
        view = await place.schemes.find("/local/t")
        snapshot = await place.executor.environment.snapshot(place.call, "snapshot_read_only")
        keys = [place.executor.environment.layouts.of(view).key_from((id,)) for id in (1, 2)]
        records = [await snapshot.get(view.node.id, partition_of(key), key) for key in keys]
        snapshot.close()
        slot = view.body.ttl.slot
        return [dict(record.dates).get(slot) for record in records]

    return place.run(read())  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT 1", 0),
        ("UPSERT INTO t (id, v) VALUES (1, 'z')", 0),
        ("UPSERT INTO t (id, at) VALUES (1, NULL)", None),
        ("REPLACE INTO t (id, v) VALUES (1, 'z')", None),
        ("UPDATE t SET at = at + Interval('PT5S') WHERE id = 1", 5 * SECOND),
    ],
)
def test_the_date_of_a_row_follows_its_column(t: Any, text: str, found: int | None) -> None:
    t.parts(text)
    assert dates(t) == [None if found is None else t.now + found, None]


def erase(place: Any, later: int) -> Any:
    async def run() -> Any:
        view = await place.schemes.find("/local/t")
        return await place.engine.reaper.run_now(view.node.id, place.now)

    place.pass_seconds(later)
    return place.run(run())


def test_rows_are_seen_until_they_are_erased(t: Any) -> None:
    t.pass_seconds(11)
    assert t.rows("SELECT id FROM t") == [(1,), (2,)]
    assert t.rows("SELECT id FROM t VIEW by_v WHERE v = 'a'") == [(1,)]
    assert t.refusal("INSERT INTO t (id) VALUES (1)").status == "PRECONDITION_FAILED"
    erase(t, 0)
    assert t.rows("SELECT id FROM t") == [(2,)]
    assert t.rows("SELECT id FROM t VIEW by_v WHERE v = 'a'") == []
    t.parts("INSERT INTO t (id) VALUES (1)")


@pytest.mark.parametrize("read", ["SELECT v FROM t WHERE id = 1", "SELECT v FROM t"])
def test_an_erased_row_that_was_read_is_a_conflict(t: Any, read: str) -> None:
    id = t.begin()
    t.within(id, read)
    erase(t, 11)
    with pytest.raises(Fault) as caught:
        t.within(id, "UPSERT INTO t (id, v) VALUES (5, 'x')", commit=True)
    assert caught.value.status == "ABORTED"
    assert t.rows("SELECT id FROM t") == [(2,)]


@pytest.fixture
def strict(t: Any) -> Any:
    async def hide() -> None:
        await t.schemes.alter("/local/t", AlterSpec(attributes={"mayfly_hide_expired": "true"}), t.now)

    t.run(hide())
    return t


def test_due_rows_are_not_there_where_the_table_hides_them(strict: Any) -> None:
    strict.pass_seconds(10)
    assert strict.rows("SELECT id FROM t") == [(2,)]
    assert strict.rows("SELECT id FROM t WHERE id = 1") == []
    assert strict.rows("SELECT id FROM t VIEW by_v") == [(2,)]
    assert strict.rows("SELECT COUNT(*) FROM t") == [(1,)]


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("INSERT INTO t (id, v) VALUES (1, 'new')", [(1, None, "new")]),
        ("UPSERT INTO t (id, n) VALUES (1, 5)", [(1, 5, None)]),
        ("UPDATE t SET v = 'new' WHERE id = 1", []),
        ("UPDATE t ON (id, v) VALUES (1, 'new')", []),
        ("DELETE FROM t WHERE id = 1", []),
    ],
)
@pytest.mark.parametrize("inside", [False, True])
def test_writes_over_hidden_rows(strict: Any, text: str, after: list[Any], inside: bool) -> None:
    strict.pass_seconds(10)
    if inside:
        (part,) = strict.parts(
            "SELECT id FROM t WHERE id = 2", control=TransactionControl(begin="serializable_read_write")
        )
        strict.within(part.tx_id, text, commit=True)
    else:
        strict.parts(text)
    assert strict.rows("SELECT id, n, v FROM t WHERE id = 1") == after
