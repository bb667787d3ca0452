"""Plans over tables in memory: answers of queries, their reads and writes, and refusals."""

from __future__ import annotations

import asyncio
from itertools import product
from typing import Any

import pytest

from mayflydb.query.yql.faults import Fault
from mayflydb.query.yql.key_paging import condition_behind
from mayflydb.query.yql.parser import parse
from mayflydb.query.yql.plans import explain, tables_of
from mayflydb.query.yql.schemas import Index, KeyRange, View
from mayflydb.query.yql.types import INT64, PRIMITIVES, UINT64, UTF8, ListType, OptionalType, StructType
from query.yql.memory_tables import MemoryTables, answer, plan_of, table


def shop() -> MemoryTables:
    tables = MemoryTables(
        table("/local/t", "id Uint64?,v Utf8?,n Int64?", "id", Index("by_n", ("n",))),
        table("/local/u", "id Uint64?,w Utf8?", "id"),
        table("/local/p", "a Uint64,b Utf8,c Int32?", "a b"),
    )
    tables.rows["/local/t"] = [{"id": i, "v": v, "n": n} for i, v, n in ((1, "a", 10), (2, "b", 20), (3, None, 30))]
    tables.rows["/local/u"] = [{"id": i, "w": w} for i, w in ((2, "two"), (3, "three"), (4, "four"))]
    tables.rows["/local/p"] = [{"a": a, "b": b, "c": a * 10} for a in (1, 2, 3) for b in ("x", "y")]
    return tables


def deep() -> MemoryTables:
    """A table below a directory."""
    tables = MemoryTables(
        table("/local/dir/t", "id Uint64?,v Utf8?", "id"), table("/local/u", "id Uint64?,w Utf8?", "id")
    )
    tables.rows["/local/dir/t"] = [{"id": 2, "v": "b"}]
    tables.rows["/local/u"] = [{"id": 2, "w": "two"}]
    return tables


def ask(text: str, tables: MemoryTables | None = None, **parameters: Any) -> list[list[tuple[Any, ...]]]:
    return asyncio.run(answer(text, tables or shop(), parameters))


ANSWERS = [
    ("SELECT 1", [(1,)]),
    ("SELECT 1 AS a, 'x'u AS b, NULL AS c", [(1, "x", None)]),
    ("SELECT * FROM t", [(1, 10, "a"), (2, 20, "b"), (3, 30, None)]),
    ("PRAGMA OrderedColumns; SELECT * FROM t LIMIT 1", [(1, "a", 10)]),
    ("SELECT * WITHOUT v FROM t LIMIT 1", [(1, 10)]),
    ("SELECT v, id FROM t WHERE id = 2", [("b", 2)]),
    ("SELECT id FROM t WHERE v = 'b'", [(2,)]),
    ("SELECT id FROM t WHERE v != 'b'", [(1,)]),
    ("SELECT id FROM t WHERE v IS NULL", [(3,)]),
    ("SELECT id FROM t WHERE NOT (v = 'b')", [(1,)]),
    ("SELECT id FROM t WHERE v IS DISTINCT FROM 'b' ORDER BY id", [(1,), (3,)]),
    ("SELECT id FROM t WHERE (id, n) IN ((1, 10), (2, 21))", [(1,)]),
    ("SELECT id FROM t WHERE (id, n) >= (2, 21) ORDER BY id", [(3,)]),
    ("SELECT id FROM t ORDER BY v", [(3,), (1,), (2,)]),
    ("SELECT id FROM t ORDER BY v DESC LIMIT 2", [(2,), (1,)]),
    ("SELECT id FROM t ORDER BY id LIMIT 1 OFFSET 1", [(2,)]),
    ("SELECT t.id AS i FROM t ORDER BY i DESC", [(3,), (2,), (1,)]),
    ("SELECT n / 10 AS k FROM t ORDER BY -n", [(3,), (2,), (1,)]),
    ("SELECT DISTINCT c FROM p ORDER BY c", [(10,), (20,), (30,)]),
    ("SELECT DISTINCT t.v FROM t ORDER BY t.v DESC", [("b",), ("a",), (None,)]),
    ("SELECT DISTINCT n / 20 AS k FROM t ORDER BY k", [(0,), (1,)]),
    ("SELECT id FROM (SELECT id, n FROM t) AS q WHERE q.id = 2", [(2,)]),
    ("$q = (SELECT id FROM t); SELECT * FROM $q AS x ORDER BY id DESC LIMIT 1", [(3,)]),
    ("$m = (SELECT MAX(id) FROM t); SELECT id FROM t WHERE id = $m", [(3,)]),
    ("SELECT (SELECT MAX(n) FROM t) AS m, EXISTS (SELECT 1 FROM t WHERE id = 9) AS e", [(30, False)]),
    ("SELECT id FROM t WHERE id IN (SELECT id FROM u) ORDER BY id", [(2,), (3,)]),
    ("SELECT id FROM t WHERE id NOT IN (SELECT id FROM u)", [(1,)]),
    ("$f = ($x) -> { $y = $x + 1; RETURN $y * 2; }; SELECT $f(3)", [(8,)]),
    ("SELECT CASE WHEN n > 10 THEN 'big'u ELSE 'small'u END FROM t", [("small",), ("big",), ("big",)]),
    ("SELECT CASE id WHEN 1 THEN 10 ELSE NULL END FROM t", [(10,), (None,), (None,)]),
    ("SELECT v ?? 'none' FROM t", [("a",), ("b",), ("none",)]),
    ("SELECT <|a: 1|>.a, (1, 'x'u).1, [1, 2][0], {'a': 1}['a'], [1][5]", [(1, "x", 1, 1, None)]),
    ("SELECT 1 IN (1, 2), 3 IN (1, 2), 3 IN (1, NULL), NULL IN (1, 2)", [(True, False, None, None)]),
    ("SELECT NULL = 1, NULL IS NULL, TRUE AND NULL, FALSE AND NULL, TRUE OR NULL", [(None, True, None, False, True)]),
    ("SELECT CAST('12' AS Uint64), CAST('x' AS Uint64), 1 / 0", [(12, None, None)]),
    ("SELECT 2 BETWEEN 1 AND 3, 2 NOT BETWEEN 1 AND 3, 2 BETWEEN SYMMETRIC 3 AND 1", [(True, False, True)]),
    ("SELECT CAST(0.1f AS Utf8), 1e20f", [("0.1", 100000002004087734272.0)]),
    ("SELECT TableRow().v FROM t WHERE id = 1", [("a",)]),
    ("SELECT " + " + ".join(["1"] * 240), [(240,)]),
    ("SELECT JSON_VALUE('{\"a\": 1}'j, '$.a' RETURNING Int64)", [(1,)]),
    ("SELECT JSON_VALUE('{}'j, '$.a' DEFAULT 'x'u ON EMPTY), JSON_EXISTS('{}'j, '$.a')", [("x", False)]),
    ("VALUES (1, 2), (3, 4)", [(1, 2), (3, 4)]),
    ("SELECT * FROM AS_TABLE(AsList(AsStruct(1 AS a, 'x'u AS b)))", [(1, "x")]),
]


@pytest.mark.parametrize(("text", "expected"), ANSWERS)
def test_answer(text: str, expected: list[tuple[Any, ...]]) -> None:
    assert ask(text) == [expected]


CALLED = [
    "SELECT `dir/t`.v FROM `dir/t`",
    "SELECT `/local/dir/t`.v FROM `/local/dir/t`",
    "PRAGMA TablePathPrefix = 'dir'; SELECT t.v FROM t",
    "SELECT `dir/t`.v FROM `dir/t` JOIN (SELECT id FROM u) AS a ON `dir/t`.id = a.id WHERE a.id = 2",
    "SELECT v FROM `dir/t` GROUP BY `dir/t`.v AS v",
    "UPDATE `dir/t` SET v = 'b' WHERE `dir/t`.id = 2 RETURNING v",
    "DELETE FROM `/local/dir/t` WHERE `/local/dir/t`.id = 2 RETURNING v",
]


@pytest.mark.parametrize("text", CALLED)
def test_a_table_without_alias_has_its_written_name(text: str) -> None:
    assert ask(text, deep()) == [[("b",)]]


PATTERNS = [
    ("v LIKE 'a%'", [1]),
    ("v NOT LIKE 'a%'", [2]),
    ("v ILIKE 'B'", [2]),
    ("v REGEXP '[ab]'", [1, 2]),
    ("v MATCH 'b.'", []),
    ("v LIKE '_'", [1, 2]),
    ("v LIKE w", [2]),
    ("v LIKE 'a!%' ESCAPE '!'", []),
    ("v LIKE NULL", []),
    # The third row's v is NULL.
    ("NOT (v REGEXP 'a')", [2, 3]),
    ("v NOT MATCH 'a'", [2, 3]),
    ("v REGEXP NULL", []),
    ("v NOT REGEXP NULL", [1, 2, 3]),
    ("NOT (v LIKE 'a')", [2]),
]


@pytest.mark.parametrize(("condition", "expected"), PATTERNS)
def test_pattern(condition: str, expected: list[int]) -> None:
    text = f"SELECT id FROM (SELECT id, v, 'b'u AS w FROM t) WHERE {condition} ORDER BY id"
    assert ask(text) == [[(each,) for each in expected]]


GROUPS = [
    ("SELECT COUNT(*) AS c, SUM(n) AS s, MIN(v) AS m FROM t", [(3, 60, "a")]),
    ("SELECT COUNT(*), MAX(n) FROM t WHERE id = 9", [(0, None)]),
    ("SELECT c, COUNT(*) FROM p GROUP BY c ORDER BY c", [(10, 2), (20, 2), (30, 2)]),
    ("SELECT k, SUM(c) FROM p GROUP BY a % 2 AS k ORDER BY k", [(0, 40), (1, 80)]),
    ("SELECT a % 2, COUNT(*) AS c FROM p GROUP BY a % 2 HAVING COUNT(*) > 2", [(1, 4)]),
    ("SELECT COUNT(DISTINCT b) FROM p", [(2,)]),
    ("SELECT p.b, MAX(p.a) AS m FROM p GROUP BY p.b ORDER BY m, b", [("x", 3), ("y", 3)]),
    ("SELECT MAX(c) - MIN(c) AS d FROM p", [(20,)]),
    ("SELECT c FROM p WHERE FALSE GROUP BY c", []),
    (
        "SELECT a, b, COUNT(*) AS k FROM p WHERE a < 2 GROUP BY ROLLUP (a, b) ORDER BY a, b",
        [(None, None, 2), (1, None, 2), (1, "x", 1), (1, "y", 1)],
    ),
]


@pytest.mark.parametrize(("text", "expected"), GROUPS)
def test_group(text: str, expected: list[tuple[Any, ...]]) -> None:
    assert ask(text) == [expected]


JOINS = [
    ("SELECT a.id AS id, b.w AS w FROM t AS a JOIN u AS b ON a.id = b.id", [(2, "two"), (3, "three")]),
    ("SELECT a.id AS id, b.w AS w FROM t AS a LEFT JOIN u AS b USING (id)", [(1, None), (2, "two"), (3, "three")]),
    ("SELECT a.v AS v, b.id AS id FROM t AS a RIGHT JOIN u AS b ON a.id = b.id", [("b", 2), (None, 3), (None, 4)]),
    ("SELECT a.id AS a, b.id AS b FROM t AS a FULL JOIN u AS b ON a.id = b.id", [(1, None), (2, 2), (3, 3), (None, 4)]),
    ("SELECT id FROM t AS a LEFT SEMI JOIN u AS b ON a.id = b.id", [(2,), (3,)]),
    ("SELECT id FROM t AS a LEFT ONLY JOIN u AS b ON a.id = b.id", [(1,)]),
    ("SELECT id FROM t AS a RIGHT SEMI JOIN u AS b ON a.id = b.id", [(2,), (3,)]),
    ("SELECT id FROM t AS a RIGHT ONLY JOIN u AS b ON a.id = b.id", [(4,)]),
    ("SELECT a.id AS a, b.id AS b FROM t AS a EXCLUSION JOIN u AS b ON a.id = b.id", [(1, None), (None, 4)]),
    ("SELECT COUNT(*) FROM t AS a CROSS JOIN u AS b", [(9,)]),
    ("SELECT * FROM t AS a JOIN u AS b ON a.id = b.id WHERE b.w = 'two'", [(2, 20, "b", "two")]),
    ("SELECT a.*, b.w AS w FROM t AS a JOIN u AS b ON a.id = b.id LIMIT 1", [(2, 20, "b", "two")]),
]


@pytest.mark.parametrize(("text", "expected"), JOINS)
def test_join(text: str, expected: list[tuple[Any, ...]]) -> None:
    assert ask(text) == [expected]


WINDOWS = [
    (
        "SELECT a, ROW_NUMBER() OVER (PARTITION BY b ORDER BY a DESC) AS r FROM p WHERE b = 'x' ORDER BY a",
        [(1, 3), (2, 2), (3, 1)],
    ),
    ("SELECT SUM(c) OVER (ORDER BY a) AS s FROM p", [(20,), (20,), (60,), (60,), (120,), (120,)]),
    ("SELECT SUM(n) OVER () AS s FROM t", [(60,), (60,), (60,)]),
    (
        "SELECT SUM(n) OVER w AS s FROM t WINDOW w AS (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
        [(10,), (30,), (50,)],
    ),
    (
        "SELECT RANK() OVER w, DENSE_RANK() OVER w FROM p WINDOW w AS (ORDER BY a)",
        [(1, 1), (1, 1), (3, 2), (3, 2), (5, 3), (5, 3)],
    ),
    ("SELECT LAG(n) OVER w, LEAD(n, 2) OVER w FROM t WINDOW w AS (ORDER BY id)", [(None, 30), (10, None), (20, None)]),
    (
        "SELECT FIRST_VALUE(n) OVER w, LAST_VALUE(n) OVER w FROM t WINDOW w AS (ORDER BY id)",
        [(10, 10), (10, 20), (10, 30)],
    ),
    ("SELECT NTILE(2) OVER (ORDER BY id) FROM t", [(1,), (1,), (2,)]),
    (
        "SELECT CUME_DIST() OVER (ORDER BY id), PERCENT_RANK() OVER (ORDER BY id) FROM u WHERE id < 4",
        [(0.5, 0.0), (1.0, 1.0)],
    ),
    ("SELECT c, SUM(COUNT(*)) OVER (ORDER BY c) AS k FROM p GROUP BY c ORDER BY c", [(10, 2), (20, 4), (30, 6)]),
    ("SELECT id FROM t ORDER BY ROW_NUMBER() OVER (ORDER BY id DESC)", [(3,), (2,), (1,)]),
]


@pytest.mark.parametrize(("text", "expected"), WINDOWS)
def test_window(text: str, expected: list[tuple[Any, ...]]) -> None:
    assert ask(text) == [expected]


FLATTENED = [
    ("SELECT x FROM AS_TABLE([<|x: [1, 2]|>, <|x: [3]|>]) FLATTEN BY x", [(1,), (2,), (3,)]),
    ("SELECT x, y FROM AS_TABLE([<|x: [1, 2]|>]) FLATTEN LIST BY x AS y", [([1, 2], 1), ([1, 2], 2)]),
    ("SELECT id, k FROM t FLATTEN BY (AsList(id, id * 10) AS k) WHERE id = 2", [(2, 2), (2, 20)]),
    ("SELECT * FROM AS_TABLE([<|s: <|p: 1, q: 'z'u|>, r: 2|>]) FLATTEN COLUMNS", [(1, "z", 2)]),
    ("SELECT d.0 AS k, d.1 AS v FROM AS_TABLE([<|d: {1: 'a'u, 2: 'b'u}|>]) FLATTEN DICT BY d", [(1, "a"), (2, "b")]),
    ("SELECT v FROM t FLATTEN OPTIONAL BY v", [("a",), ("b",)]),
    ("SELECT d.k, x FROM AS_TABLE([<|k: 1, x: [1, 2]|>]) AS d FLATTEN BY x", [(1, 1), (1, 2)]),
]


@pytest.mark.parametrize(("text", "expected"), FLATTENED)
def test_flatten(text: str, expected: list[tuple[Any, ...]]) -> None:
    assert ask(text) == [expected]


ACTIONS = [
    ("DEFINE ACTION $a($x) AS UPSERT INTO u (id) VALUES ($x); END DEFINE; DO $a(77); DO $a(78);", [2, 3, 4, 77, 78]),
    ("DEFINE ACTION $a($x, $y?) AS DELETE FROM u WHERE id = $x OR $y IS NULL; END DEFINE; DO $a(2);", []),
    ("DO BEGIN DELETE FROM u WHERE id = 2; END DO;", [3, 4]),
    ("DO EMPTY_ACTION();", [2, 3, 4]),
]


@pytest.mark.parametrize(("text", "expected"), ACTIONS)
def test_actions(text: str, expected: list[int]) -> None:
    tables = shop()
    assert ask(text + "SELECT id FROM u", tables) == [[(each,) for each in expected]]


COMPOUNDS = [
    ("SELECT id FROM t UNION ALL SELECT id FROM u ORDER BY id LIMIT 3", [(1,), (2,), (2,)]),
    ("SELECT 1 AS a UNION SELECT 1 AS a", [(1,)]),
    ("SELECT 1 AS a UNION ALL SELECT 2 AS b", [(1, None), (None, 2)]),
    ("PRAGMA PositionalUnionAll; SELECT 1 AS a UNION ALL SELECT 2 AS b", [(1,), (2,)]),
    ("SELECT id FROM t EXCEPT SELECT id FROM u", [(1,)]),
    ("SELECT id FROM t INTERSECT SELECT id FROM u", [(2,), (3,)]),
]


@pytest.mark.parametrize(("text", "expected"), COMPOUNDS)
def test_compound(text: str, expected: list[tuple[Any, ...]]) -> None:
    assert ask(text) == [expected]


def point(*values: Any) -> KeyRange:
    return KeyRange(values, values)


ACCESSES: list[tuple[str, str | None, tuple[KeyRange, ...] | None, int | None, bool]] = [
    ("SELECT id FROM t", None, None, None, False),
    ("SELECT id FROM t WHERE id = 2", None, (point(2),), None, False),
    ("SELECT id FROM t WHERE 2 = id AND v = 'b'", None, (point(2),), None, False),
    ("SELECT id FROM t WHERE id = -1", None, (), None, False),
    ("SELECT id FROM t WHERE id IN (3, 1, 3)", None, (point(1), point(3)), None, False),
    ("SELECT id FROM t WHERE id IS NULL", None, (point(None),), None, False),
    ("SELECT id FROM t WHERE id > 1 AND id <= 3", None, (KeyRange((1,), (3,), lower_open=True),), None, False),
    ("SELECT id FROM t WHERE id < 3", None, (KeyRange((None,), (3,), True, True),), None, False),
    ("SELECT id FROM t WHERE id > -1", None, (KeyRange((None,), (), True),), None, False),
    ("SELECT id FROM t WHERE id BETWEEN 2 AND 9 LIMIT 1", None, (KeyRange((2,), (9,)),), 1, False),
    ("SELECT id FROM t ORDER BY id DESC LIMIT 2", None, None, 2, True),
    ("SELECT id FROM t ORDER BY id LIMIT 2 OFFSET 1", None, None, 3, False),
    ("SELECT v AS id FROM t ORDER BY id LIMIT 2", None, None, None, False),
    ("SELECT id FROM t WHERE n = 20", "by_n", (point(20),), None, False),
    ("SELECT id FROM t WHERE n = 20 AND id = 2", None, (point(2),), None, False),
    ("SELECT id FROM t VIEW by_n ORDER BY n LIMIT 1", "by_n", None, 1, False),
    ("SELECT id FROM t VIEW by_n WHERE n > 10", "by_n", (KeyRange((10,), (), True),), None, False),
    ("SELECT c FROM p WHERE a = 1 AND b = 'x'", None, (point(1, "x"),), None, False),
    ("SELECT c FROM p WHERE a = 1 AND b > 'x'", None, (KeyRange((1, "x"), (1,), True),), None, False),
    ("SELECT c FROM p WHERE a = 1 ORDER BY b DESC LIMIT 1", None, (point(1),), 1, True),
    ("SELECT c FROM p WHERE a IN (2, 1) AND b = 'y'", None, (point(1, "y"), point(2, "y")), None, False),
    ("SELECT c FROM p WHERE b = 'y'", None, None, None, False),
    (
        "SELECT c FROM p WHERE a = 1 AND b LIKE 'x%y'",
        None,
        (KeyRange((1, "x"), (1, "y"), upper_open=True),),
        None,
        False,
    ),
    ("SELECT c FROM p WHERE (a, b) IN ((2, 'y'), (1, 'x'))", None, (point(1, "x"), point(2, "y")), None, False),
    ("SELECT c FROM p WHERE (c, a) IN ((2, 3), (1, 2))", None, (point(2), point(3)), None, False),
    ("SELECT id FROM t WHERE id = 3 OR id = 1 OR id = 3", None, (point(1), point(3)), None, False),
    (
        "SELECT c FROM p WHERE a = 2 OR a = 2 AND b > 'x' OR a > 4",
        None,
        (point(2), KeyRange((4,), (), lower_open=True)),
        None,
        False,
    ),
    ("SELECT id FROM t WHERE id = 3 OR v = 'b'", None, None, None, False),
    (
        "SELECT c FROM p WHERE a > 2 OR a = 2 AND b > 'x' ORDER BY a, b LIMIT 1",
        None,
        (KeyRange((2, "x"), (), lower_open=True),),
        None,
        False,
    ),
    ("SELECT id FROM t WHERE id = 3 OR id IS NOT NULL", None, (KeyRange((None,), (), lower_open=True),), None, False),
    ("SELECT id FROM t WHERE n IS NOT NULL", None, None, None, False),
    ("SELECT id FROM t WHERE n = 1 OR n IS NOT NULL", None, None, None, False),
]


@pytest.mark.parametrize(("text", "index", "ranges", "limit", "descending"), ACCESSES)
def test_access(
    text: str, index: str | None, ranges: tuple[KeyRange, ...] | None, limit: int | None, descending: bool
) -> None:
    tables = shop()
    ask(text, tables)
    if ranges == ():
        assert tables.accesses == []
        return
    [access] = tables.accesses
    assert (access.index, access.ranges, access.limit, access.descending) == (index, ranges, limit, descending)


@pytest.mark.parametrize("last", [*product((None, 5), (None, "x"), (None, -7))])
def test_a_page_by_key_reads_the_range_behind_its_last_row(last: tuple[Any, ...]) -> None:
    tables = MemoryTables(table("/local/k", "a Uint64?,b Utf8?,c Int64?", "a b c"))
    rows = [{"a": a, "b": b, "c": c} for a, b, c in product((None, 4, 5, 6), (None, "w", "x", "y"), (None, -8, -7, 0))]
    tables.rows["/local/k"] = rows
    condition, parameters = condition_behind(("a", "b", "c"), {"a": "Uint64", "b": "Utf8", "c": "Int64"}, last)
    declared = "".join(f"DECLARE ${name} AS {type}; " for name, (type, _) in parameters.items())
    given = {name: (PRIMITIVES[type], value) for name, (type, value) in parameters.items()}
    [found] = ask(f"{declared}SELECT a, b, c FROM k WHERE {condition} ORDER BY a, b, c LIMIT 200", tables, **given)
    ordered = [tuple(row.values()) for row in rows]
    assert found == ordered[ordered.index(last) + 1 :]
    assert [each.ranges for each in tables.accesses] == [(KeyRange(last, (), lower_open=True),)]


NARROWED = [
    (
        "SELECT a.v AS v FROM t AS a JOIN u AS b ON a.id = b.id WHERE a.id = 2 AND b.w = 'two'",
        [(point(2),), (point(2),)],
    ),
    ("SELECT a.v AS v FROM t AS a JOIN u AS b ON a.v = b.w WHERE a.id = 2 AND b.id = 3", [(point(3),), (point(2),)]),
    ("SELECT a.v AS v FROM t AS a LEFT JOIN u AS b ON a.v = b.w WHERE b.id = 3", [None, None]),
    ("SELECT a.v AS v FROM t AS a FULL JOIN u AS b ON a.v = b.w WHERE a.id = 3", [None, None]),
    ("SELECT v FROM t AS a JOIN u AS b ON a.v = b.w WHERE n > 10 AND v > 'a'", [None, (KeyRange((10,), (), True),)]),
]


@pytest.mark.parametrize(("text", "ranges"), NARROWED)
def test_conditions_on_one_side_move_below_the_join(text: str, ranges: list[Any]) -> None:
    tables = shop()
    ask(text, tables)
    assert [each.ranges for each in tables.accesses] == ranges


def test_an_inner_join_begins_where_little_is_read() -> None:
    tables = shop()
    text = "SELECT a.id AS id, a.v AS v, p.b AS b FROM t AS a JOIN p ON a.id = p.c / 10 WHERE p.a = 2 ORDER BY b"
    assert ask(text, tables) == [[(2, "b", "x"), (2, "b", "y")]]
    assert [each.ranges for each in tables.accesses] == [(point(2),), (point(2),)]


def test_lookup_join_reads_the_keys_it_needs() -> None:
    tables = shop()
    ask("SELECT b.w AS w FROM t AS a JOIN u AS b ON a.id = b.id", tables)
    assert [each.ranges for each in tables.accesses] == [None, (point(1), point(2)), (point(3),)]


WRITES = [
    (
        "UPSERT INTO t (id, v) VALUES (1, 'z'), (9, 'n')",
        "t",
        [(1, 10, "z"), (2, 20, "b"), (3, 30, None), (9, None, "n")],
    ),
    ("REPLACE INTO t (id, v) VALUES (1, 'z')", "t", [(1, None, "z"), (2, 20, "b"), (3, 30, None)]),
    ("UPSERT INTO u SELECT id, v AS w FROM t WHERE id = 1", "u", [(1, "a"), (2, "two"), (3, "three"), (4, "four")]),
    (
        "UPSERT INTO u (id, w) SELECT id + 10, v FROM t WHERE id = 1",
        "u",
        [(2, "two"), (3, "three"), (4, "four"), (11, "a")],
    ),
    ("UPDATE u SET w = w || '!' WHERE id < 3", "u", [(2, "two!"), (3, "three"), (4, "four")]),
    ("UPDATE u ON (id, w) VALUES (2, 'zwei'), (7, 'x')", "u", [(2, "zwei"), (3, "three"), (4, "four")]),
    ("UPDATE u ON SELECT id, NULL AS w FROM t", "u", [(2, None), (3, None), (4, "four")]),
    ("DELETE FROM u WHERE id IN (2, 4)", "u", [(3, "three")]),
    ("DELETE FROM u", "u", []),
    ("DELETE FROM u ON SELECT id FROM t", "u", [(4, "four")]),
    (
        "UPSERT INTO u SELECT * FROM AS_TABLE(AsList(AsStruct(8 AS id, 'x'u AS w))); DELETE FROM u WHERE id < 8",
        "u",
        [(8, "x")],
    ),
    (
        "INSERT OR IGNORE INTO u (id, w) VALUES (2, 'no'), (5, 'five')",
        "u",
        [(2, "two"), (3, "three"), (4, "four"), (5, "five")],
    ),
]


@pytest.mark.parametrize(("text", "name", "expected"), WRITES)
def test_write(text: str, name: str, expected: list[tuple[Any, ...]]) -> None:
    tables = shop()
    ask(text, tables)
    assert ask(f"SELECT * FROM {name}", tables) == [expected]


RETURNS = [
    ("UPSERT INTO u (id, w) VALUES (9, 'n') RETURNING *", [(9, "n")]),
    ("UPDATE u SET w = 'x' WHERE id < 4 RETURNING id, w", [(2, "x"), (3, "x")]),
    ("DELETE FROM u WHERE id = 3 RETURNING w", [("three",)]),
    ("DELETE FROM u WHERE id = 30 RETURNING w", []),
]


@pytest.mark.parametrize(("text", "expected"), RETURNS)
def test_returning(text: str, expected: list[tuple[Any, ...]]) -> None:
    assert ask(text) == [expected]


ROW = StructType((("id", UINT64), ("w", OptionalType(UTF8))))
PARAMETERS: list[tuple[str, dict[str, Any], list[tuple[Any, ...]]]] = [
    ("DECLARE $id AS Uint64; SELECT v FROM t WHERE id = $id", {"id": (UINT64, 2)}, [("b",)]),
    ("SELECT v FROM t WHERE id = $id", {"id": (INT64, -2)}, []),
    ("SELECT v FROM t WHERE id IN $ids", {"ids": (ListType(UINT64), [3, 1])}, [("a",), (None,)]),
    (
        "DECLARE $bs AS List<Utf8>; SELECT c FROM p WHERE a = 1 AND b IN $bs",
        {"bs": (ListType(UTF8), [*map(str, range(20_000)), "y"])},
        [(10,)],
    ),
    (
        "DECLARE $as AS List<Uint64>; SELECT b FROM p WHERE a IN $as AND b = 'y' LIMIT 1",
        {"as": (ListType(UINT64), list(range(20_000)))},
        [("y",)],
    ),
    ("SELECT * FROM AS_TABLE($rows)", {"rows": (ListType(ROW), [(1, "x"), (2, None)])}, [(1, "x"), (2, None)]),
    ("SELECT id FROM t LIMIT $n", {"n": (UINT64, 1)}, [(1,)]),
    ("DECLARE $x AS Int64?; SELECT $x", {}, [(None,)]),
    ("SELECT $a + $a", {"a": (OptionalType(INT64), None)}, [(None,)]),
]


@pytest.mark.parametrize(("text", "parameters", "expected"), PARAMETERS)
def test_parameters(text: str, parameters: dict[str, Any], expected: list[tuple[Any, ...]]) -> None:
    assert ask(text, **parameters) == [expected]


REFUSED = [
    (
        "SELECT COUNT(*) FROM (SELECT ListFromRange(0, 100000) AS a, ListFromRange(0, 100000) AS b) FLATTEN LIST BY (a, b)",
        "GENERIC_ERROR",
        "Memory limit exceeded: the query holds too many rows at once",
    ),
    ("SELECT * FROM nope", "SCHEME_ERROR", "Cannot find table 'db.[/local/nope]' because it does not exist"),
    ("SELECT q FROM t", "GENERIC_ERROR", "Member not found: q"),
    ("SELECT t.q FROM t", "GENERIC_ERROR", "Member not found: q"),
    ("SELECT $b", "GENERIC_ERROR", "Unknown name: $b"),
    ("SELECT Foo(1)", "GENERIC_ERROR", "Unknown builtin: Foo"),
    ("DECLARE $a AS Uint64; SELECT $a", "BAD_REQUEST", "Missing value for parameter: $a"),
    ("SELECT id FROM t VIEW by_x", "SCHEME_ERROR", "Required global index not found, index name: by_x"),
    ("UPSERT INTO t (id, q) VALUES (1, 2)", "GENERIC_ERROR", "Member not found: q"),
    ("UPSERT INTO t (v) VALUES ('x')", "PRECONDITION_FAILED", "Missing key column in input type: id"),
    ("UPSERT INTO t (id, v) VALUES (1, 2)", "GENERIC_ERROR", "Failed to convert 'v': Int32 to Optional<Utf8>"),
    ("UPSERT INTO t (id) VALUES (-1)", "GENERIC_ERROR", "Failed to convert 'id': Int32 to Optional<Uint64>"),
    ("UPSERT INTO p (a, b) VALUES (1, NULL)", "BAD_REQUEST", "Can't set NULL or optional value to not null column: b"),
    ("UPDATE t SET id = 3", "GENERIC_ERROR", "Cannot update primary key column: id"),
    ("UPDATE u ON (w) VALUES ('x')", "PRECONDITION_FAILED", "Missing key column in input type: id"),
    ("SELECT v, n FROM t GROUP BY v", "GENERIC_ERROR", "Column `n` must either be a key column in GROUP BY"),
    ("SELECT t.v, t.n FROM t GROUP BY t.v", "GENERIC_ERROR", "Column `t.n` must either be a key column in GROUP BY"),
    ("SELECT 1 AS a, 2 AS a", "GENERIC_ERROR", "Unable to use duplicate column names. Collision in name: a"),
    ("SELECT v FROM t WHERE n", "GENERIC_ERROR", "Expected Bool or Optional<Bool>, but got: Optional<Int64>"),
    ("SELECT {NULL: true}[[]]", "GENERIC_ERROR", "Failed to convert type: EmptyList to Null"),
    ("SELECT 1 LIMIT -1", "GENERIC_ERROR", "Failed to convert type: Int32 to Uint64"),
    ("SELECT id FROM t LIMIT 'x'", "GENERIC_ERROR", "Failed to convert type: String to Uint64"),
    ("DROP TABLE t; SELECT 1", "GENERIC_ERROR", "Queries with mixed data and scheme operations are not supported."),
    ("SELECT x FROM t AS a JOIN u AS b ON a.id > b.id", "GENERIC_ERROR", "JOIN ON expression must be a conjunction"),
    (
        "SELECT 1 FROM t AS a JOIN u AS b ON a.id = b.id AND b.w = 'x'",
        "GENERIC_ERROR",
        "JOIN: each equality predicate",
    ),
    (
        "SELECT 1 FROM t AS a JOIN u AS b ON a.id = a.n",
        "GENERIC_ERROR",
        "JOIN: different correlation",
    ),
    (
        "SELECT 1 FROM t AS a JOIN u AS b ON a.id = b.id + a.n",
        "GENERIC_ERROR",
        "JOIN: each equality predicate argument",
    ),
    ("EVALUATE IF TRUE DO BEGIN SELECT 1; END DO", "GENERIC_ERROR", "EVALUATE is not supported in YDB queries"),
    ("SELECT 'x'j", "GENERIC_ERROR", 'Invalid value "x" for type Json'),
    ("SELECT {[1]: 2}", "GENERIC_ERROR", "Expected hashable and equatable type for key, but got: List<Int32>"),
    ("DO $nope()", "GENERIC_ERROR", "Unknown name: $nope"),
    ("SELECT id FROM t FLATTEN LIST BY id", "GENERIC_ERROR", "FLATTEN BY expects list, but got: Optional<Uint64>"),
    ("SELECT id FROM t AS a JOIN u AS b ON a.id = b.id", "GENERIC_ERROR", "Column id is ambiguous"),
]


@pytest.mark.parametrize(("text", "status", "message"), REFUSED)
def test_refused(text: str, status: str, message: str) -> None:
    with pytest.raises(Fault) as refusal:
        ask(text)
    assert refusal.value.status == status
    assert str(refusal.value).startswith(message)


def test_a_view_is_its_query() -> None:
    tables = shop()
    tables.schemas["/local/v"] = View("/local/v", "SELECT id AS k, v FROM t WHERE id > 1")
    assert ask("SELECT k FROM v WHERE v = 'b'", tables) == [[(2,)]]


def test_views_of_views_have_a_limit() -> None:
    tables = shop()
    tables.schemas["/local/v0"] = View("/local/v0", "SELECT id FROM t")
    for depth in range(1, 21):
        text = f"SELECT a.id AS id FROM v{depth - 1} AS a JOIN v{depth - 1} AS b ON a.id = b.id"
        tables.schemas[f"/local/v{depth}"] = View(f"/local/v{depth}", text)
    assert ask("SELECT COUNT(*) FROM v5", tables) == ask("SELECT COUNT(*) FROM t")
    with pytest.raises(Fault, match="may read 256 views"):
        ask("SELECT COUNT(*) FROM v20", tables)
    tables.schemas["/local/self"] = View("/local/self", "SELECT * FROM self")
    with pytest.raises(Fault, match="stands for itself"):
        ask("SELECT * FROM self", tables)


def test_statements_see_earlier_writes() -> None:
    assert ask("SELECT COUNT(*) FROM u; UPSERT INTO u (id) VALUES (77); SELECT COUNT(*) FROM u") == [[(3,)], [(4,)]]


PATHS = [
    ("SELECT * FROM t JOIN `dir/u` AS b USING (id)", ("/local/t", "/local/dir/u")),
    ("PRAGMA TablePathPrefix('/local/x'); UPSERT INTO t SELECT * FROM `/local//y`", ("/local/x/t", "/local/y")),
    ("PRAGMA TablePathPrefix = 'x'; DELETE FROM t WHERE id IN (SELECT id FROM t)", ("/local/x/t",)),
    ("$q = (SELECT * FROM a); SELECT * FROM $q", ("/local/a",)),
]


@pytest.mark.parametrize(("text", "expected"), PATHS)
def test_tables_of(text: str, expected: tuple[str, ...]) -> None:
    assert tables_of(parse(text), "/local") == expected


def test_properties_of_a_plan() -> None:
    plan = plan_of("DECLARE $a AS Uint64; UPSERT INTO u SELECT id, v AS w FROM t WHERE id = $a; SELECT 1 AS x", shop())
    assert (set(plan.reads), set(plan.writes), plan.read_only) == ({"/local/t"}, {"/local/u"}, False)
    assert plan.declared == {"a": UINT64}
    assert [[name for name, _ in each] for each in plan.results] == [["x"]]


def test_asynchronous_indexes_are_named() -> None:
    tables = MemoryTables(table("/local/t", "id Uint64?,n Int64?", "id", Index("later", ("n",), kind="async")))
    assert plan_of("SELECT id FROM t VIEW later", tables).stale == frozenset({("/local/t", "later")})
    assert plan_of("SELECT id FROM t WHERE n = 1", tables).stale == frozenset()


EXPLAINED = [
    ("SELECT id FROM t", "TableFullScan", []),
    ("SELECT id FROM t WHERE id = $a", "TablePointLookup", ["id ($a)"]),
    ("SELECT id FROM t WHERE id > 5", "TableRangeScan", ["id (5, +∞)"]),
    ("SELECT c FROM p WHERE a = 1 AND b >= 'x' AND b < 'z'", "TableRangeScan", ["a (1)", "b [x, z)"]),
]


@pytest.mark.parametrize(("text", "name", "bounds"), EXPLAINED)
def test_explain(text: str, name: str, bounds: list[str]) -> None:
    plan = explain(plan_of(text, shop(), {"a": (UINT64, 1)}))
    node = plan["Plan"]
    while "Operators" not in node or node["Operators"][0]["Name"] != name:
        [node] = node["Plans"]
    assert node["Operators"][0].get("ReadRange", []) == bounds
    assert len(plan["tables"]) == 1
