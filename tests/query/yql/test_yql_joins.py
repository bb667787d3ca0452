"""Joins: names of columns, ANY, and refused conditions.

Sources: https://github.com/ydb-platform/ydb `yql/essentials/docs/en/syntax/pragma.md` (SimpleColumns), `.../syntax/join.md`,
`yql/essentials/sql/v1/sql_ut_common.h` (texts and positions).
"""

from __future__ import annotations

from typing import Any

import pytest

from query.yql.asking import columns, refusal, rows

NAMES = [
    ("SELECT * FROM t AS a JOIN u AS b ON a.id = b.id", "id Uint64?, n Int64?, v Utf8?, w Utf8?"),
    ("SELECT * FROM t JOIN u USING (id)", "id Uint64?, n Int64?, v Utf8?, w Utf8?"),
    ("SELECT a.*, b.* FROM t AS a JOIN u AS b ON a.id = b.id", "id Uint64?, n Int64?, v Utf8?, w Utf8?"),
    ("SELECT a.* FROM t AS a JOIN u AS b ON a.id = b.id", "id Uint64?, n Int64?, v Utf8?"),
    ("SELECT a.id, b.w FROM t AS a JOIN u AS b ON a.id = b.id", "a.id Uint64?, b.w Utf8?"),
    ("SELECT a.id, b.id FROM t AS a JOIN u AS b ON a.id = b.id", "a.id Uint64?, b.id Uint64?"),
    ("SELECT a.id AS x, b.w AS y FROM t AS a JOIN u AS b ON a.id = b.id", "x Uint64?, y Utf8?"),
    ("SELECT x.id AS i FROM (SELECT a.id, b.w FROM t AS a JOIN u AS b USING (id)) AS x", "i Uint64?"),
    (
        "PRAGMA DisableSimpleColumns; SELECT * FROM t AS a JOIN u AS b ON a.id = b.id",
        "a.id Uint64?, a.n Int64?, a.v Utf8?, b.id Uint64?, b.w Utf8?",
    ),
    ("SELECT a.id, COUNT(*) AS c FROM t AS a JOIN u AS b ON a.id = b.id GROUP BY a.id", "a.id Uint64?, c Uint64"),
    ("SELECT t.id FROM t LEFT ONLY JOIN u ON t.id = u.id", "t.id Uint64?"),
    ("SELECT t.* FROM t LEFT SEMI JOIN u ON t.id = u.id", "id Uint64?, n Int64?, v Utf8?"),
    ("SELECT t.id FROM t", "id Uint64?"),
    ("PRAGMA SimpleColumns; SELECT a.* FROM t AS a", "id Uint64?, n Int64?, v Utf8?"),
    ("PRAGMA DisableSimpleColumns; SELECT a.* FROM t AS a", "a.id Uint64?, a.n Int64?, a.v Utf8?"),
    ("SELECT * WITHOUT a.id, b.id FROM t AS a JOIN u AS b ON a.id = b.id", "n Int64?, v Utf8?, w Utf8?"),
    (
        "SELECT TableRow() AS r FROM t AS a JOIN u AS b ON a.id = b.id",
        "r Struct<'id':Uint64?,'n':Int64?,'v':Utf8?,'w':Utf8?>",
    ),
    (
        "SELECT JoinTableRow() AS r FROM t AS a JOIN u AS b ON a.id = b.id",
        "r Struct<'a.id':Uint64?,'a.n':Int64?,'a.v':Utf8?,'b.id':Uint64?,'b.w':Utf8?>",
    ),
]


@pytest.mark.parametrize(("text", "expected"), NAMES)
def test_names_of_columns(text: str, expected: str) -> None:
    assert columns(text) == expected


ROWS: list[tuple[str, list[tuple[Any, ...]]]] = [
    # The columns that tables are joined by come once, from whichever has them.
    (
        "SELECT * FROM t AS a FULL JOIN u AS b ON a.id = b.id ORDER BY id",
        [(1, 10, "a", None), (2, 20, "b", "two"), (3, 30, None, "three"), (4, None, None, "four")],
    ),
    ("SELECT * FROM t AS a RIGHT ONLY JOIN u AS b ON a.id = b.id", [(4, "four")]),
    ("SELECT a.id AS i, b.b AS b FROM t AS a JOIN ANY p AS b ON a.id = b.a ORDER BY i", [(1, "x"), (2, "x"), (3, "x")]),
    ("SELECT b.id AS i FROM ANY p AS a JOIN t AS b ON a.a = b.id ORDER BY i", [(1,), (2,), (3,)]),
    ("SELECT COUNT(*) FROM p AS a JOIN p AS b ON a.a = b.a", [(12,)]),
    ("SELECT COUNT(*) FROM ANY p AS a JOIN ANY p AS b ON a.a = b.a", [(3,)]),
    ("SELECT COUNT(*) FROM ANY p AS a LEFT JOIN p AS b ON a.a = b.a", [(6,)]),
    ("SELECT COUNT(*) FROM t AS a RIGHT JOIN ANY p AS b ON a.n = b.c", [(3,)]),
    ("SELECT COUNT(*) FROM t AS a JOIN ANY p AS b ON a.n = b.c AND a.id = b.a", [(3,)]),
    ("SELECT a.id AS x, b.id AS y FROM t AS a JOIN u AS b ON a.id + 1u = b.id ORDER BY x", [(1, 2), (2, 3), (3, 4)]),
    ("SELECT a.id AS x FROM t AS a JOIN u AS b ON CAST(a.id AS Utf8) = CAST(b.id AS Utf8) ORDER BY x", [(2,), (3,)]),
    ("SELECT a.id AS x FROM t AS a JOIN u AS b ON b.w = a.v || 'x'u", []),
    ("SELECT a.id AS x FROM t AS a, u AS b WHERE a.id = b.id AND b.w = 'two'", [(2,)]),
    # What is called `a.id` inside is also `id` outside.
    ("SELECT x.id, x.w FROM (SELECT a.id, b.w FROM t AS a JOIN u AS b USING (id)) AS x WHERE id = 2", [(2, "two")]),
    (
        "$j = (SELECT a.id FROM t AS a JOIN u AS b USING (id)); SELECT j.id, w FROM $j AS j JOIN u ON j.id = u.id",
        [(2, "two"), (3, "three")],
    ),
    ("SELECT DISTINCT a.id FROM t AS a JOIN p AS b ON a.id = b.a ORDER BY a.id", [(1,), (2,), (3,)]),
]


@pytest.mark.parametrize(("text", "expected"), ROWS)
def test_rows(text: str, expected: list[tuple[Any, ...]]) -> None:
    assert rows(text) == expected


OUTER = "OUTER keyword is optional and can only be used after LEFT, RIGHT or FULL"
ONE_INPUT = "JOIN: each equality predicate argument must depend on exactly one JOIN input"

REFUSED = [
    ('SELECT * FROM t as A JOIN u as B ON A.id == B.id AND A.v == "wtf"', f"1:58 {ONE_INPUT}"),
    (
        "SELECT * FROM t as A JOIN u as B ON A.id == B.id AND A.v > B.w",
        "1:58 JOIN ON expression must be a conjunction of equality predicates",
    ),
    ("select * from t as a join u as b on a.id == id", "1:42 JOIN: column requires correlation name"),
    (
        "select * from t as a join u as a on a.id == a.id",
        "1:42 JOIN: different correlation names are required for joined tables",
    ),
    (
        "select * from t as a join u as b on a.id == a.n",
        "1:42 JOIN: different correlation names are required for joined tables",
    ),
    (
        "select * from t join u on t.id == p.a join p on t.id == p.a",
        "1:32 JOIN: can not use source: p in equality predicate, it is out of current join scope",
    ),
    (
        "select * from t join u on t.id == u.id join p on t.id == u.id",
        "1:55 JOIN ON equality predicate must have one of its arguments from the rightmost source",
    ),
    (
        "SELECT * FROM t Outer JOIN u ON t.id == u.id",
        f"1:17 Invalid join type: OUTER JOIN. {OUTER}",
    ),
    (
        "SELECT * FROM t LEFT semi OUTER JOIN u ON t.id == u.id",
        f"1:27 Invalid join type: LEFT SEMI OUTER JOIN. {OUTER}",
    ),
    ("select * from any t cross join u", "1:15 ANY should not be used with Cross JOIN"),
    ("select * from t cross join any u", "1:28 ANY should not be used with Cross JOIN"),
    ("SELECT * FROM t AS a JOIN t AS b ON a.id = b.id", "1:8 Duplicated member: n"),
    (
        "select tmissed.*, t2.*, t1.id from t as t1 join t as t2 on t1.id==t2.id",
        "1:8 Unknown correlation name for asterisk: tmissed",
    ),
]


@pytest.mark.parametrize(("text", "expected"), REFUSED)
def test_refusals(text: str, expected: str) -> None:
    assert refusal(text) == expected
