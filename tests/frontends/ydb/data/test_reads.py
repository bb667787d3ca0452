"""Reads by key and by index, in order, whatever the length of keys."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from mayflydb.query.yql.types import UINT64, UTF8, ListType, OptionalType, StructType

PAIRS = "CREATE TABLE p (a Uint64, b Utf8, v Int64, INDEX by_v GLOBAL ON (v), PRIMARY KEY (a, b))"
ROWS = "UPSERT INTO p (a, b, v) VALUES (1, 'x', 3), (1, 'y', 2), (2, 'x', 1), (2, NULL, 3), (NULL, 'x', NULL)"


@pytest.fixture
def p(place: Any) -> Any:
    place.parts(PAIRS)
    place.parts(ROWS)
    return place


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("", [(None, "x"), (1, "x"), (1, "y"), (2, None), (2, "x")]),
        ("WHERE a = 1", [(1, "x"), (1, "y")]),
        ("WHERE a = 1 AND b = 'y'", [(1, "y")]),
        ("WHERE a = 1 AND b > 'x'", [(1, "y")]),
        ("WHERE a > 1", [(2, None), (2, "x")]),
        ("WHERE a >= 1 AND a < 2", [(1, "x"), (1, "y")]),
        ("WHERE a IN (2, 1, 1)", [(1, "x"), (1, "y"), (2, None), (2, "x")]),
        ("WHERE a IS NULL", [(None, "x")]),
        ("WHERE b IS NULL", [(2, None)]),
        ("WHERE (a, b) IN ((1ul, 'x'u), (2ul, 'x'u), (3ul, 'x'u))", [(1, "x"), (2, "x")]),
        ("ORDER BY a DESC, b DESC", [(2, "x"), (2, None), (1, "y"), (1, "x"), (None, "x")]),
        ("ORDER BY a DESC, b DESC LIMIT 2", [(2, "x"), (2, None)]),
        ("LIMIT 1 OFFSET 1", [(1, "x")]),
    ],
)
def test_by_primary_key(p: Any, where: str, found: list[Any]) -> None:
    assert p.rows(f"SELECT a, b FROM p {where}") == found


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("WHERE v = 3", [(1, "x"), (2, None)]),
        ("WHERE v >= 2 AND v < 4", [(1, "y"), (1, "x"), (2, None)]),
        ("WHERE v IS NULL", [(None, "x")]),
        ("ORDER BY v DESC LIMIT 2", [(2, None), (1, "x")]),
        ("WHERE v = 3 AND a = 2", [(2, None)]),
        ("", [(None, "x"), (2, "x"), (1, "y"), (1, "x"), (2, None)]),
    ],
)
def test_by_an_index(p: Any, where: str, found: list[Any]) -> None:
    rows = p.rows(f"SELECT a, b FROM p VIEW by_v {where}")
    assert rows == found if "LIMIT" not in where else {row[0] for row in rows} <= {1, 2}


def test_index_entries_follow_their_row(p: Any) -> None:
    p.parts("UPDATE p SET v = 9 WHERE a = 1 AND b = 'x'; DELETE FROM p WHERE a = 2 AND b IS NULL")
    assert p.rows("SELECT a FROM p VIEW by_v WHERE v = 3") == []
    assert p.rows("SELECT a, b FROM p VIEW by_v WHERE v = 9") == [(1, "x")]


@pytest.mark.parametrize("descending", [False, True])
def test_keys_that_are_longer_than_entries(place: Any, chance: Random, descending: bool) -> None:
    place.parts("CREATE TABLE long (k Utf8, n Uint64, v Utf8, INDEX by_v GLOBAL ON (v), PRIMARY KEY (k, n))")
    stem = "m" * 600
    values: list[tuple[str, int, str]] = []
    for number in range(60):
        k = stem[: chance.choice([0, 3, 460, 470, 500, 600])] + chance.choice("abz")
        values.append((k, number, stem[: chance.choice([10, 480, 600])] + chance.choice("az")))
    type = ListType(StructType((("k", UTF8), ("n", UINT64), ("v", OptionalType(UTF8)))))
    place.parts("UPSERT INTO long SELECT * FROM AS_TABLE($rows)", {"rows": (type, values)})
    way = "DESC" if descending else "ASC"
    for bound in [stem + "b", stem[:470], "a", stem[:500] + "b"]:
        expected = sorted([(k, n) for k, n, _ in values if k >= bound], reverse=descending)
        text = f"SELECT k, n FROM long WHERE k >= $bound ORDER BY k {way}, n {way}"
        assert place.rows(text, bound=(UTF8, bound)) == expected
        expected = sorted([(k, n) for k, n, _ in values if k < bound], reverse=descending)
        text = f"SELECT k, n FROM long WHERE k < $bound ORDER BY k {way}, n {way}"
        assert place.rows(text, bound=(UTF8, bound)) == expected
        by_v = sorted([(v, k, n) for k, n, v in values if v > bound], reverse=descending)
        text = f"SELECT v, k, n FROM long VIEW by_v WHERE v > $bound ORDER BY v {way}, k {way}, n {way}"
        assert place.rows(text, bound=(UTF8, bound)) == by_v


UNIQUE = "CREATE TABLE u (id Uint64, a Int64, b Utf8, INDEX one GLOBAL UNIQUE ON (a, b), PRIMARY KEY (id))"


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("UPSERT INTO u (id, a, b) VALUES (2, 1, 'x')", False),
        ("INSERT INTO u (id, a, b) VALUES (2, 1, 'x')", False),
        ("UPSERT INTO u (id, a, b) VALUES (2, 1, 'y')", True),
        ("UPSERT INTO u (id, a, b) VALUES (1, 1, 'x')", True),
        ("UPSERT INTO u (id, a) VALUES (2, 1), (3, 1)", True),
        ("UPSERT INTO u (id, a, b) VALUES (2, 7, 'x'), (3, 7, 'x')", False),
        ("DELETE FROM u WHERE id = 1; UPSERT INTO u (id, a, b) VALUES (2, 1, 'x')", True),
    ],
)
def test_unique_keys(place: Any, text: str, holds: bool) -> None:
    place.parts(UNIQUE)
    place.parts("UPSERT INTO u (id, a, b) VALUES (1, 1, 'x')")
    if holds:
        place.parts(text)
        return
    refusal = place.refusal(text)
    assert (refusal.status, refusal.issues[0].message) == (
        "PRECONDITION_FAILED",
        "Constraint violated. Table: `/local/u`.",
    )
    assert place.rows("SELECT id FROM u") == [(1,)]


def test_rows_of_an_index_as_a_table(p: Any) -> None:
    assert p.rows("SELECT v, a, b FROM `p/by_v/indexImplTable` WHERE v = 3") == [(3, 1, "x"), (3, 2, None)]


def test_an_asynchronous_index_is_for_stale_reads(place: Any) -> None:
    from mayflydb.frontends.ydb.transactions import TransactionControl

    place.parts("CREATE TABLE s (id Uint64, a Int64, INDEX late GLOBAL ASYNC ON (a), PRIMARY KEY (id))")
    place.parts("UPSERT INTO s (id, a) VALUES (1, 1)")
    text = "SELECT id FROM s VIEW late WHERE a = 1"
    assert place.refusal(text).status == "BAD_REQUEST"
    stale = TransactionControl(begin="stale_read_only", commit=True)
    assert [row for part in place.parts(text, control=stale) for row in part.rows] == [(1,)]


def test_a_view_reads_its_tables(p: Any) -> None:
    p.parts("CREATE VIEW firsts WITH (security_invoker = TRUE) AS SELECT a, b FROM p WHERE a = 1")
    assert p.rows("SELECT b FROM firsts ORDER BY b") == [("x",), ("y",)]
