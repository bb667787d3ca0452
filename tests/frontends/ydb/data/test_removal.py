"""Background removal, as statements see it: when rows go, what goes with them, and what a transaction is told that read them."""

from __future__ import annotations

from typing import Any

import pytest

from mayflydb.engine.clock_mover import AdvanceResult, ClockMover
from mayflydb.model.instant import SECOND
from mayflydb.query.yql.faults import Fault

CREATE = (
    "CREATE TABLE t (id Uint64, at Timestamp, kind Utf8, n Int32, PRIMARY KEY (id), INDEX by_kind GLOBAL ON (kind))"
    ' WITH (TTL = Interval("PT10S") ON at)'
)
# The clock stands at a full minute, so the first run is 60 seconds later and the next an hour after that.
FILL = (
    "UPSERT INTO t (id, at, kind, n) VALUES"
    ' (1u, Timestamp("2030-01-01T00:00:00Z"), "a"u, 1), (2u, Timestamp("2030-01-01T00:00:50Z"), "a"u, 2),'
    ' (3u, Timestamp("2030-01-01T00:00:51Z"), "b"u, 3), (4u, NULL, "b"u, 4)'
)


@pytest.fixture
def t(place: Any) -> Any:
    place.parts(CREATE)
    place.parts(FILL)
    return place


def advance(place: Any, seconds: int) -> AdvanceResult:
    clock_mover = ClockMover(place.engine, place.engine.time.clock)
    nodes = [view.node for view in place.run(place.schemes.tables())]
    done: AdvanceResult = place.run(clock_mover.advance(seconds * SECOND, nodes))
    place.now = done.now
    return done


def ids(place: Any) -> list[int]:
    return [id for (id,) in place.rows("SELECT id FROM t")]


def kinds(place: Any) -> list[Any]:
    found: list[Any] = place.rows('SELECT id FROM t VIEW by_kind WHERE kind = "a"u ORDER BY id')
    return [id for (id,) in found]


def test_rows_show_until_the_run_and_go_with_their_entries(t: Any) -> None:
    assert sum(advance(t, 59).purged.values()) == 0
    assert (ids(t), kinds(t)) == ([1, 2, 3, 4], [1, 2])
    assert sum(advance(t, 1).purged.values()) == 2
    assert (ids(t), kinds(t)) == ([3, 4], [])
    assert sum(advance(t, 3599).purged.values()) == 0
    assert sum(advance(t, 1).purged.values()) == 1
    assert ids(t) == [4]


SAVING = {
    "moved on": 'UPDATE t SET at = Timestamp("2030-01-01T01:00:00Z") WHERE id = 1u',
    "never": "UPDATE t SET at = NULL WHERE id = 1u",
    "replaced without a date": "REPLACE INTO t (id, n) VALUES (1u, 5)",
    "reset": "ALTER TABLE t RESET (TTL)",
    "longer": 'ALTER TABLE t SET (TTL = Interval("PT1H") ON at)',
}


@pytest.mark.parametrize("how", SAVING)
def test_what_is_out_of_reach_survives(t: Any, how: str) -> None:
    advance(t, 30)
    t.parts(SAVING[how])
    advance(t, 30)
    assert 1 in ids(t)


KEEPING = {
    "another column": "UPDATE t SET n = 7 WHERE id = 1u",
    "merged": "UPSERT INTO t (id, n) VALUES (1u, 7)",
    "an indexed column": 'UPDATE t SET kind = "z"u WHERE id = 1u',
    "another index": "ALTER TABLE t ADD INDEX by_n GLOBAL ON (n)",
}


@pytest.mark.parametrize("how", KEEPING)
def test_what_keeps_its_date_goes(t: Any, how: str) -> None:
    advance(t, 30)
    t.parts(KEEPING[how])
    advance(t, 30)
    assert ids(t) == [3, 4]
    assert t.rows("SELECT id FROM t VIEW by_kind ORDER BY id") == [(3,), (4,)]


@pytest.mark.parametrize(("read", "conflicts"), [("id = 1u", True), ("id = 3u", False), ("id < 3u", True)])
def test_a_transaction_that_has_read_them(t: Any, read: str, conflicts: bool) -> None:
    """The transaction still sees the removed rows. If it has read one of them, its commit is aborted."""
    id = t.begin()
    before = t.within(id, f"SELECT id, n FROM t WHERE {read}")
    advance(t, 60)
    assert t.within(id, f"SELECT id, n FROM t WHERE {read}") == before
    t.within(id, "UPSERT INTO t (id, n) VALUES (9u, 9)")
    if conflicts:
        with pytest.raises(Fault) as caught:
            t.commit(id)
        assert caught.value.status == "ABORTED"
        assert "/local/t" in str(caught.value.issues)
        assert ids(t) == [3, 4]
    else:
        t.commit(id)
        assert ids(t) == [3, 4, 9]


def test_one_snapshot_is_of_one_moment(t: Any) -> None:
    id = t.begin("snapshot_read_only")
    before = t.within(id, "SELECT id, n FROM t")
    advance(t, 60)
    assert t.within(id, "SELECT id, n FROM t") == before
    assert t.within(id, "SELECT COUNT(*) FROM t VIEW by_kind") == [(4,)]


def test_changes_of_the_setting_do_not_bring_runs_nearer(t: Any) -> None:
    advance(t, 60)
    t.parts('UPSERT INTO t (id, at) VALUES (7u, Timestamp("2030-01-01T00:00:00Z"))')
    for _ in range(3):
        t.parts("ALTER TABLE t RESET (TTL)")
        t.parts('ALTER TABLE t SET (TTL = Interval("PT0S") ON at)')
        assert sum(advance(t, 600).purged.values()) == 0
    assert ids(t) == [3, 4, 7]
    assert sum(advance(t, 1800).purged.values()) == 2
    assert ids(t) == [4]
