"""Transactions: what they see, which of two that meet holds, and what the other is told."""

from __future__ import annotations

from typing import Any

import pytest

from mayflydb.frontends.ydb.transactions import TransactionControl
from mayflydb.query.yql.faults import Fault
from mayflydb.query.yql.types import INT64

BOTH = [(1, 10), (2, 20)]


@pytest.fixture
def t(place: Any) -> Any:
    place.parts("CREATE TABLE t (id Int64, a Int64, PRIMARY KEY (id)); CREATE TABLE other (id Int64, PRIMARY KEY (id))")
    place.parts("UPSERT INTO t (id, a) VALUES (1, 10), (2, 20)")
    return place


def rows(place: Any) -> list[Any]:
    found: list[Any] = place.rows("SELECT id, a FROM t")
    return found


def test_a_transaction_sees_what_it_wrote_and_nobody_else_does(t: Any) -> None:
    id = t.begin()
    t.within(id, "UPSERT INTO t (id, a) VALUES (3, 30); DELETE FROM t WHERE id = 1")
    assert t.within(id, "SELECT id, a FROM t") == [(2, 20), (3, 30)]
    assert rows(t) == BOTH
    t.commit(id)
    assert rows(t) == [(2, 20), (3, 30)]


def test_a_transaction_sees_what_was_there_when_it_began(t: Any) -> None:
    id = t.begin("snapshot_read_only")
    assert t.within(id, "SELECT a FROM t WHERE id = 1") == [(10,)]
    t.parts("UPSERT INTO t (id, a) VALUES (1, 11), (0, 0)")
    assert t.within(id, "SELECT id, a FROM t") == BOTH


def ids(parts: list[Any]) -> set[str]:
    return {part.tx_id for part in parts}


def test_a_query_may_begin_one_and_another_may_end_it(t: Any) -> None:
    (id,) = ids(
        t.parts("UPSERT INTO t (id, a) VALUES (1, 0)", control=TransactionControl(begin="serializable_read_write"))
    )
    assert len(id) == 26
    assert ids(t.parts("SELECT 1", control=TransactionControl(id=id))) == {id}
    assert ids(t.parts("UPSERT INTO t (id, a) VALUES (2, 0)", control=TransactionControl(id=id, commit=True))) == {""}
    assert rows(t) == [(1, 0), (2, 0)]
    refusal = t.refusal("SELECT 1", TransactionControl(id=id))
    assert (refusal.status, refusal.message, refusal.issues[0].code) == (
        "NOT_FOUND",
        f"Transaction not found: {id}",
        2015,
    )


@pytest.mark.parametrize(
    ("first", "meanwhile", "then"),
    [
        ("SELECT a FROM t WHERE id = 1", "UPSERT INTO t (id, a) VALUES (1, 0)", "UPSERT INTO t (id, a) VALUES (2, 0)"),
        ("SELECT a FROM t WHERE id = 9", "INSERT INTO t (id, a) VALUES (9, 0)", "UPSERT INTO t (id, a) VALUES (2, 0)"),
        ("SELECT a FROM t", "INSERT INTO t (id, a) VALUES (9, 0)", "UPSERT INTO other (id) VALUES (1)"),
        ("SELECT a FROM t WHERE id > 1", "DELETE FROM t WHERE id = 2", "UPSERT INTO other (id) VALUES (1)"),
        ("SELECT 1", "INSERT INTO t (id, a) VALUES (9, 0)", "INSERT INTO t (id, a) VALUES (9, 1)"),
        ("UPDATE t SET a = a + 1 WHERE id = 1", "UPDATE t SET a = a + 1 WHERE id = 1", "SELECT 1"),
    ],
)
def test_who_comes_second_is_told(t: Any, first: str, meanwhile: str, then: str) -> None:
    id = t.begin()
    t.within(id, first)
    if "9, 1" in then:
        t.within(id, then)  # Before the other one: nothing is there yet.
        then = "SELECT 1"
    t.parts(meanwhile)
    after = rows(t)
    with pytest.raises(Fault) as caught:
        t.within(id, then, commit=True)
    refusal = caught.value
    assert refusal.status == "ABORTED"
    assert [(issue.message, issue.code) for issue in refusal.issues] == [
        ("Transaction locks invalidated. Table: `/local/t`", 2001),
        ("Operation is aborting because locks are not valid", 2001),
    ]
    assert rows(t) == after
    assert t.rows("SELECT id FROM other") == []


@pytest.mark.parametrize(
    ("first", "meanwhile", "then", "after"),
    [
        (
            "UPSERT INTO t (id, a) VALUES (1, 1)",
            "UPSERT INTO t (id, a) VALUES (1, 2)",
            "SELECT 1",
            [(1, 1), (2, 20)],
        ),
        ("SELECT a FROM t WHERE id = 1", "UPSERT INTO t (id, a) VALUES (1, 2)", "SELECT 1", [(1, 2), (2, 20)]),
        (
            "SELECT a FROM t WHERE id > 1",
            "UPSERT INTO t (id, a) VALUES (1, 2)",
            "UPSERT INTO t (id, a) VALUES (3, 3)",
            [(1, 2), (2, 20), (3, 3)],
        ),
        ("DELETE FROM t ON (id) VALUES (1)", "UPSERT INTO t (id, a) VALUES (1, 2)", "SELECT 1", [(2, 20)]),
    ],
)
def test_who_is_not_in_the_way(t: Any, first: str, meanwhile: str, then: str, after: list[Any]) -> None:
    id = t.begin()
    t.within(id, first)
    t.parts(meanwhile)
    t.within(id, then, commit=True)
    assert rows(t) == after


@pytest.mark.parametrize(
    ("read", "write", "conflict"),
    [
        ("SELECT a FROM t", "UPSERT INTO t (id, a) VALUES (3, 0)", False),
        ("SELECT a FROM t WHERE id = 1", "UPSERT INTO t (id, a) VALUES (1, 0)", True),
        ("SELECT 1", "DELETE FROM t ON (id) VALUES (1)", True),
    ],
)
def test_snapshots_meet_only_where_both_write(t: Any, read: str, write: str, conflict: bool) -> None:
    id = t.begin("snapshot_read_write")
    t.within(id, read)
    t.within(id, "SELECT id FROM other")
    t.parts("UPSERT INTO t (id, a) VALUES (1, 5)")
    if not conflict:
        t.within(id, write, commit=True)
        return
    with pytest.raises(Fault) as caught:
        t.within(id, write, commit=True)
    assert caught.value.status == "ABORTED"


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO t (id, a) VALUES (1, 1)",
        "SELEC 1",
        "SELECT nothing FROM t",
        "SELECT id FROM nowhere",
        "SELECT $p",
        "SELECT Unwrap(CAST('x' AS Int64))",
        "CREATE TABLE n (id Int64, PRIMARY KEY (id))",
        "CREATE TABLE n (id Int64, PRIMARY KEY (id)); SELECT 1",
    ],
)
def test_a_failed_statement_ends_its_transaction(t: Any, text: str) -> None:
    id = t.begin()
    t.within(id, "UPSERT INTO t (id, a) VALUES (3, 3)")
    with pytest.raises(Fault):
        t.within(id, text)
    assert t.refusal("SELECT 1", TransactionControl(id=id)).status == "NOT_FOUND"
    assert rows(t) == BOTH


@pytest.mark.parametrize(
    ("control", "text", "status", "message"),
    [
        *(
            (
                TransactionControl(begin=mode, commit=True),
                "UPSERT INTO t (id) VALUES (9)",
                "GENERIC_ERROR",
                "Operation 'Upsert' can't be performed in read only transaction",
            )
            for mode in ("online_read_only", "stale_read_only", "snapshot_read_only")
        ),
        (
            TransactionControl(begin="snapshot_read_only"),
            "DELETE FROM t",
            "GENERIC_ERROR",
            "Operation 'Delete' can't be performed in read only transaction",
        ),
        (
            TransactionControl(begin="serializable_read_write", commit=True),
            "CREATE TABLE n (id Int64, PRIMARY KEY (id))",
            "PRECONDITION_FAILED",
            "Scheme operations cannot be executed inside transaction",
        ),
        (
            None,
            "CREATE TABLE n (id Int64, PRIMARY KEY (id)); UPSERT INTO t (id) VALUES (9)",
            "GENERIC_ERROR",
            "Queries with mixed data and scheme operations are not supported.",
        ),
        (TransactionControl(id="0" * 26), "SELECT 1", "NOT_FOUND", "Transaction not found: " + "0" * 26),
    ],
)
def test_what_a_request_may_not_ask(
    t: Any, control: TransactionControl | None, text: str, status: str, message: str
) -> None:
    refusal = t.refusal(text, control)
    assert refusal.status == status
    assert message in refusal.message
    assert rows(t) == BOTH
    assert t.session.transactions == {}


@pytest.mark.parametrize("mode", ["online_read_only", "stale_read_only", "snapshot_read_only"])
def test_reads_in_modes_that_only_read(t: Any, mode: Any) -> None:
    parts = t.parts("SELECT id FROM t WHERE id = 2", control=TransactionControl(begin=mode, commit=True))
    assert [row for part in parts for row in part.rows] == [(2,)]


@pytest.mark.parametrize("mode", ["online_read_only", "stale_read_only", "snapshot_read_only"])
def test_such_a_transaction_stays_open_where_a_query_began_it(t: Any, mode: Any) -> None:
    [part] = t.parts("SELECT id FROM t WHERE id = 2", control=TransactionControl(begin=mode))
    assert list(t.session.transactions) == [part.tx_id]
    assert t.within(part.tx_id, "SELECT id FROM t WHERE id = 1") == [(1,)]
    t.commit(part.tx_id)
    assert t.session.transactions == {}


GONE = "Cannot find table"
NO_INDEX = "Required global index not found, index name: by_a"
CHANGED = "Schema changed"
INDEXED = "ALTER TABLE t ADD INDEX by_a GLOBAL ON (a)"

# What is done first, what changes the table, what is done then, and what that is refused with (None: nothing, it commits).
SCHEMES = [
    ("UPSERT INTO t (id, a) VALUES (5, 5)", "ALTER TABLE t DROP COLUMN a", None, ("ABORTED", CHANGED)),
    ("UPSERT INTO t (id, a) VALUES (5, 5)", "ALTER TABLE t ADD COLUMN n Int64", None, ("ABORTED", CHANGED)),
    ("UPSERT INTO t (id, a) VALUES (5, 5)", "DROP TABLE t", None, ("ABORTED", CHANGED)),
    ("SELECT a FROM t", "DROP TABLE t", "UPSERT INTO other (id) VALUES (1)", ("ABORTED", CHANGED)),
    ("SELECT a FROM t", "DROP TABLE t", "SELECT a FROM t", ("SCHEME_ERROR", GONE)),
    ("SELECT a FROM t", "ALTER TABLE t RENAME TO u", "SELECT a FROM t", ("SCHEME_ERROR", GONE)),
    ("SELECT a FROM t", "ALTER TABLE t DROP COLUMN a", "SELECT a FROM t", ("GENERIC_ERROR", "Member not found: a")),
    ("SELECT a FROM t", "ALTER TABLE t ADD COLUMN n Int64", "SELECT n FROM t", None),
    (
        "SELECT a FROM t",
        "ALTER TABLE t ADD COLUMN n Int64",
        "UPSERT INTO t (id, n) VALUES (5, 5)",
        ("ABORTED", CHANGED),
    ),
    ("SELECT id FROM t VIEW by_a", "ALTER TABLE t DROP INDEX by_a", "SELECT id FROM t", None),
    (
        "SELECT id FROM t VIEW by_a",
        "ALTER TABLE t DROP INDEX by_a",
        "SELECT id FROM t VIEW by_a",
        ("SCHEME_ERROR", NO_INDEX),
    ),
    (
        "SELECT id FROM t VIEW by_a",
        "ALTER TABLE t RENAME INDEX by_a TO b",
        "SELECT id FROM t VIEW by_a",
        ("SCHEME_ERROR", NO_INDEX),
    ),
    ("UPSERT INTO t (id, a) VALUES (5, 5)", "ALTER TABLE t DROP INDEX by_a", None, None),
    ("UPSERT INTO t (id, a) VALUES (5, 5)", "ALTER TABLE t ADD INDEX b GLOBAL ON (a, id)", None, None),
    ("UPSERT INTO t (id, a) VALUES (5, 5)", "CREATE TABLE n (id Int64, PRIMARY KEY (id))", None, None),
]


@pytest.mark.parametrize("number", range(len(SCHEMES)))
def test_a_scheme_that_changes(t: Any, number: int) -> None:
    first, change, then, refusal = SCHEMES[number]
    if "by_a" in first + change:
        t.parts(INDEXED)
    id = t.begin()
    t.within(id, first)
    t.parts(change)
    if refusal is None:
        t.within(id, then or "SELECT 1", commit=True)
        return
    with pytest.raises(Fault) as caught:
        t.within(id, then or "SELECT 1", commit=True)
    assert caught.value.status == refusal[0]
    assert refusal[1] in caught.value.message
    if refusal[0] == "ABORTED":
        assert caught.value.issues[0].code == 2028
    assert t.session.transactions == {}


def test_an_index_that_came_meanwhile_has_what_was_written(t: Any) -> None:
    id = t.begin()
    t.within(id, "UPSERT INTO t (id, a) VALUES (5, 5); DELETE FROM t WHERE id = 1")
    t.parts(INDEXED)
    t.commit(id)
    assert t.rows("SELECT id, a FROM t VIEW by_a") == [(5, 5), (2, 20)]


def test_plans_are_made_anew_when_the_scheme_changes(t: Any) -> None:
    text = "SELECT * FROM t WHERE id = 1"
    assert t.parts(text)[0].columns[0][0] == "a"
    t.parts("ALTER TABLE t ADD COLUMN b Utf8, DROP COLUMN a")
    assert [name for name, _ in t.parts(text)[0].columns] == ["b", "id"]


def test_stats_count_rows(t: Any) -> None:
    text = "UPDATE t SET a = 0 WHERE id = 1; SELECT id FROM t"
    first, second = (t.parts(text, stats=True)[-1].stats for _ in range(2))
    accessed = first.row_counts["/local/t"]
    assert (accessed.updates, accessed.deletes, accessed.reads >= 2) == (1, 0, True)
    assert (first.cached, second.cached) == (False, True)


@pytest.mark.parametrize("text", ["EXPLAINED", "CREATE TABLE n (id Int64, PRIMARY KEY (id))", "SHOW CREATE TABLE t"])
def test_a_query_is_described_without_being_run(t: Any, text: str) -> None:
    text = text.replace("EXPLAINED", "UPSERT INTO t (id, a) VALUES ($id, 0)")
    types = {"id": INT64} if "$id" in text else {}
    described = t.run(t.executor.describe_query(t.call, text, types))
    assert described.parameters == types
    assert described.writes == bool(types)
    assert t.run(described.explain()).startswith("{")
    assert t.executor.planner.cache.text_of(described.id) == text
    assert rows(t) == BOTH
