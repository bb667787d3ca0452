"""The verbs on existing and on missing rows, and their refusals."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from mayflydb.frontends.ydb.transactions import TransactionControl

TABLE = "CREATE TABLE t (id Int64 NOT NULL, a Int64, b Utf8 DEFAULT 'x'u, PRIMARY KEY (id))"
ROWS = "UPSERT INTO t (id, a, b) VALUES (1, 10, 'one'), (2, 20, 'two')"
THERE = [(1, 10, "one"), (2, 20, "two")]


@pytest.fixture
def t(place: Any) -> Any:
    place.parts(TABLE)
    place.parts(ROWS)
    return place


def rows(place: Any) -> list[Any]:
    found: list[Any] = place.rows("SELECT id, a, b FROM t")
    return found


WAYS = ["at once", "in a transaction"]
"""Without a snapshot where a query only writes, and over the snapshot of an open transaction."""


def control(place: Any, way: str) -> TransactionControl | None:
    return None if way == "at once" else TransactionControl(id=place.begin(), commit=True)


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("UPSERT INTO t (id, a) VALUES (1, 11)", [(1, 11, "one"), (2, 20, "two")]),
        ("UPSERT INTO t (id, a) VALUES (3, 11)", [*THERE, (3, 11, "x")]),
        ("UPSERT INTO t (id, b) VALUES (2, NULL)", [(1, 10, "one"), (2, 20, None)]),
        ("UPSERT INTO t (id, a) VALUES (1, 11), (1, 12)", [(1, 12, "one"), (2, 20, "two")]),
        ("REPLACE INTO t (id, a) VALUES (1, 11)", [(1, 11, "x"), (2, 20, "two")]),
        ("REPLACE INTO t (id, b) VALUES (1, 'b')", [(1, None, "b"), (2, 20, "two")]),
        ("REPLACE INTO t (id, a) VALUES (3, 30)", [*THERE, (3, 30, "x")]),
        ("INSERT INTO t (id, a) VALUES (3, 30)", [*THERE, (3, 30, "x")]),
        ("INSERT OR IGNORE INTO t (id, a) VALUES (1, 0), (3, 30), (3, 31)", [*THERE, (3, 30, "x")]),
        ("UPDATE t SET a = a + 1", [(1, 11, "one"), (2, 21, "two")]),
        ("UPDATE t SET a = 0 WHERE id = 9", THERE),
        ("UPDATE t ON (id, a) VALUES (1, 5), (9, 9)", [(1, 5, "one"), (2, 20, "two")]),
        ("DELETE FROM t WHERE a > 10", [(1, 10, "one")]),
        ("DELETE FROM t", []),
        ("DELETE FROM t ON (id) VALUES (1), (9)", [(2, 20, "two")]),
        ("UPSERT INTO t (id, a) SELECT id + 10 AS id, a FROM t", [*THERE, (11, 10, "x"), (12, 20, "x")]),
        ("UPSERT INTO t (id, a) VALUES (3, 1); DELETE FROM t WHERE id = 1", [(2, 20, "two"), (3, 1, "x")]),
        ("DELETE FROM t WHERE id = 1; INSERT INTO t (id, a) VALUES (1, 7)", [(1, 7, "x"), (2, 20, "two")]),
    ],
)
@pytest.mark.parametrize("way", WAYS)
def test_what_is_left(t: Any, text: str, after: list[Any], way: str) -> None:
    t.parts(text, None, control(t, way))
    assert rows(t) == after


@pytest.mark.parametrize(
    ("text", "status", "message"),
    [
        ("INSERT INTO t (id, a) VALUES (3, 0), (1, 0)", "PRECONDITION_FAILED", "Conflict with existing key."),
        ("INSERT INTO t (id, a) VALUES (3, 0), (3, 1)", "PRECONDITION_FAILED", "Duplicated keys found."),
    ],
)
@pytest.mark.parametrize("way", WAYS)
def test_what_is_refused_leaves_nothing(t: Any, text: str, status: str, message: str, way: str) -> None:
    refusal = t.refusal(text, control(t, way))
    assert (refusal.status, refusal.message) == (status, message)
    assert refusal.issues[0].message == "Constraint violated. Table: `/local/t`."
    assert refusal.issues[0].code == 2012
    assert rows(t) == THERE


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("UPSERT INTO t (id, a) VALUES (1, 11), (3, 30) RETURNING *", [(11, "one", 1), (30, "x", 3)]),
        ("INSERT INTO t (id, a) VALUES (3, 30) RETURNING id, b", [(3, "x")]),
        ("UPDATE t SET a = 0 WHERE id = 1 RETURNING a, b", [(0, "one")]),
        ("DELETE FROM t WHERE id >= 1 RETURNING id, a", [(1, 10), (2, 20)]),
        ("DELETE FROM t ON (id) VALUES (2), (9) RETURNING b", [("two",)]),
    ],
)
def test_what_is_returned(t: Any, text: str, given: list[Any]) -> None:
    assert t.rows(text) == given


VALUES = [
    ("Bool", "true", True),
    ("Int8", "-5", -5),
    ("Uint64", "18446744073709551615", 2**64 - 1),
    ("Int64", "-9223372036854775807", -(2**63) + 1),
    ("Double", "1.5", 1.5),
    ("Float", "Float('0.5')", 0.5),
    ("String", "'\\xff\\x00'", b"\xff\x00"),
    ("Utf8", "'zwölf'u", "zwölf"),
    ("Date", "Date('2020-01-02')", 18263),
    ("Datetime", "Datetime('2020-01-02T00:00:01Z')", 18263 * 86400 + 1),
    ("Timestamp", "Timestamp('2020-01-02T00:00:00.000001Z')", 18263 * 86400 * 1_000_000 + 1),
    ("Interval", "Interval('P1D')", 86_400_000_000),
    ("Decimal(22,9)", "Decimal('-1.5', 22, 9)", -1_500_000_000),
    ("Decimal(35,0)", "Decimal('inf', 35, 0)", 10**35),
    ("Uuid", "Uuid('00112233-4455-6677-8899-aabbccddeeff')", bytes.fromhex("33221100554477668899aabbccddeeff")),
    ("Json", "Json('[1]')", "[1]"),
    ("JsonDocument", "JsonDocument('{\"a\": 1}')", '{"a":1}'),
]


@pytest.mark.parametrize(("type", "text", "value"), VALUES, ids=[each[0] for each in VALUES])
def test_a_value_comes_back_as_it_was(place: Any, type: str, text: str, value: Any) -> None:
    place.parts(f"CREATE TABLE v (id Int32, v {type}, PRIMARY KEY (id))")
    place.parts(f"UPSERT INTO v (id, v) VALUES (1, {text}), (2, NULL)")
    assert place.rows("SELECT v FROM v ORDER BY id") == [(value,), (None,)]


def test_a_dynumber_comes_back(place: Any) -> None:
    place.parts("CREATE TABLE v (id DyNumber, v DyNumber, PRIMARY KEY (id))")
    place.parts("UPSERT INTO v (id, v) VALUES (DyNumber('-3.14'), DyNumber('1e100')), (DyNumber('0'), NULL)")
    assert place.rows("SELECT id, v FROM v") == [(Decimal("-3.14"), Decimal("1e100")), (Decimal(0), None)]


def test_a_column_that_is_newer_than_its_rows(t: Any) -> None:
    t.parts("ALTER TABLE t ADD COLUMN c Int32, DROP COLUMN a")
    assert t.rows("SELECT id, b, c FROM t") == [(1, "one", None), (2, "two", None)]
    t.parts("UPSERT INTO t (id, c) VALUES (1, 5)")
    t.parts("ALTER TABLE t ADD COLUMN a Utf8")
    assert t.rows("SELECT id, a, b, c FROM t") == [(1, None, "one", 5), (2, None, "two", None)]
