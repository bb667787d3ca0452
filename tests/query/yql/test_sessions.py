"""SessionWindow, HOP, and the frames and ranks of windows.

Source: https://ydb.tech/docs/en/yql/reference/syntax/group_by#session-window and `syntax/window`.
"""

from __future__ import annotations

from typing import Any

import pytest

from query.yql.asking import columns, refusal, rows

# ts is 10, 15, 25 and 30 for the first user, 16 for the second, in another order.
VISITS = (
    "(SELECT * FROM AS_TABLE([<|u: 1, ts: 10, v: 1|>, <|u: 1, ts: 30, v: 2|>, <|u: 1, ts: 15, v: 4|>, "
    "<|u: 2, ts: 16, v: 8|>, <|u: 1, ts: 25, v: 16|>]))"
)
LIMITED = """
$init = ($row) -> (($row.ts, $row.ts));
$update = ($row, $state) -> {
    $end = $row.ts - $state.0 > 15 OR $row.ts - $state.1 > 10;
    RETURN ($end, (IF($end, $row.ts, $state.0), $row.ts));
};
$calculate = ($row, $state) -> ($row.v);
"""

SESSIONS: list[tuple[str, Any]] = [
    # A gap of the timeout itself belongs to the session.
    (
        f"SELECT u, s, SessionStart(), SUM(v) FROM {VISITS} GROUP BY u, SessionWindow(ts, 5) AS s ORDER BY u, s",
        [(1, 10, 10, 5), (1, 25, 25, 18), (2, 16, 16, 8)],
    ),
    (
        f"SELECT u, s, SUM(v) FROM {VISITS} GROUP BY SessionWindow(ts, 4) AS s, u ORDER BY u, s",
        [(1, 10, 1), (1, 15, 4), (1, 25, 16), (1, 30, 2), (2, 16, 8)],
    ),
    (f"SELECT SessionStart(), COUNT(*) FROM {VISITS} GROUP BY SessionWindow(ts, 9)", [(10, 5)]),
    (f"SELECT COUNT(*) AS c FROM {VISITS} GROUP BY SessionWindow(ts, 5) HAVING SessionStart() > 10", [(2,)]),
    (f"SELECT SessionStart() FROM {VISITS} WHERE u = 3 GROUP BY SessionWindow(ts, 5)", []),
    # The sessions of NULL and of other values do not meet.
    (
        (
            "SELECT SessionStart() AS s, COUNT(*) FROM AS_TABLE([<|a: Just(1)|>, <|a: NULL|>, <|a: NULL|>]) "
            "GROUP BY SessionWindow(a, 100) ORDER BY s"
        ),
        [(None, 2), (1, 1)],
    ),
    (
        (
            "SELECT SessionStart() AS s FROM AS_TABLE([<|d: Date('2020-01-01')|>, <|d: Date('2020-01-03')|>]) "
            "GROUP BY SessionWindow(d, Interval('P1D')) ORDER BY s"
        ),
        [(18262,), (18264,)],
    ),
    # Lambdas, which read all columns. Sessions with equal values stay apart.
    (
        (
            f"{LIMITED}SELECT u, s, COUNT(*) AS c FROM {VISITS} GROUP BY u, SessionWindow(ts, $init, $update, $calculate) AS s "
            "ORDER BY u, s"
        ),
        [(1, 1, 3), (1, 2, 1), (2, 8, 1)],
    ),
    (
        (
            "SELECT SessionStart() AS s, COUNT(*) AS c FROM t GROUP BY SessionWindow(id, ($r) -> (0), "
            "($r, $s) -> ((true, $s)), ($r, $s) -> ('x'))"
        ),
        [(b"x", 1)] * 3,
    ),
    # Windows.
    (
        (
            f"SELECT u, ts, SessionStart() OVER w, SessionState() OVER w, COUNT(*) OVER w FROM {VISITS} "
            "WINDOW w AS (PARTITION BY u, SessionWindow(ts, 5) ORDER BY ts) ORDER BY u, ts"
        ),
        [(1, 10, 10, 10, 1), (1, 15, 10, 15, 2), (1, 25, 25, 25, 1), (1, 30, 25, 30, 2), (2, 16, 16, 16, 1)],
    ),
    (
        (
            f"SELECT ts, SessionStart() OVER a, SessionStart() OVER b FROM {VISITS} WHERE u = 1 "
            "WINDOW a AS (PARTITION BY SessionWindow(ts, 4)), b AS (PARTITION BY SessionWindow(ts, 10)) ORDER BY ts"
        ),
        [(10, 10, 10), (15, 15, 10), (25, 25, 10), (30, 30, 10)],
    ),
]


@pytest.mark.parametrize(("text", "expected"), SESSIONS, ids=[text for text, _ in SESSIONS])
def test_sessions(text: str, expected: Any) -> None:
    assert rows(text) == expected


TIMES = (
    "AS_TABLE([<|k: 1, t: Just(Timestamp('1970-01-01T00:00:05Z'))|>, "
    "<|k: 2, t: Timestamp('1970-01-01T00:00:10Z')|>, <|k: 3, t: NULL|>])"
)
HOPS: list[tuple[str, Any]] = [
    ("HOP(t, 'PT10S', 'PT10S', 'PT1S')", [(0, 10, 1), (10, 20, 2)]),
    ("HOP(t, 'PT10S', 'PT20S', 'PT1S')", [(None, 10, 1), (0, 20, 3), (10, 30, 2)]),
    ("HOP(t, Interval('PT5S'), Interval('PT10S'), Interval('PT0S'))", [(0, 10, 1), (5, 15, 3), (10, 20, 2)]),
]


@pytest.mark.parametrize(("hop", "expected"), HOPS)
def test_hops(hop: str, expected: Any) -> None:
    text = f"SELECT HOP_START() AS a, HOP_END() AS b, SUM(k) AS c FROM {TIMES} GROUP BY {hop} ORDER BY b"
    found = [(a and a // 1_000_000, b // 1_000_000, c) for a, b, c in rows(text)]
    assert found == expected
    assert columns(text) == "a Timestamp?, b Timestamp?, c Int64"


def test_a_hop_beside_other_keys() -> None:
    text = f"SELECT k, HopEnd() AS b FROM {TIMES} GROUP BY k, HOP(t, 'PT10S', 'PT10S', 'PT1S') ORDER BY k"
    assert rows(text) == [(1, 10_000_000), (2, 20_000_000)]


FRAMES: list[tuple[str, Any]] = [
    ("SUM(n) OVER (ORDER BY n RANGE BETWEEN 10 PRECEDING AND CURRENT ROW)", [10, 30, 50]),
    ("SUM(n) OVER (ORDER BY n RANGE BETWEEN 9 PRECEDING AND CURRENT ROW)", [10, 20, 30]),
    ("SUM(n) OVER (ORDER BY n RANGE 10 PRECEDING)", [10, 30, 50]),
    ("SUM(n) OVER (ORDER BY n DESC RANGE BETWEEN 10 PRECEDING AND CURRENT ROW)", [30, 50, 30]),
    ("SUM(n) OVER (ORDER BY n RANGE BETWEEN 10 FOLLOWING AND UNBOUNDED FOLLOWING)", [50, 30, None]),
    ("COUNT(*) OVER (ORDER BY n RANGE BETWEEN 15 PRECEDING AND 5 PRECEDING)", [0, 1, 1]),
    ("FIRST_VALUE(n) OVER (ORDER BY n RANGE BETWEEN 10 FOLLOWING AND 20 FOLLOWING)", [20, 30, None]),
    ("SUM(n) OVER (ORDER BY n / 10.0 RANGE BETWEEN 1.0 PRECEDING AND CURRENT ROW)", [10, 30, 50]),
    (
        (
            "COUNT(*) OVER (ORDER BY Date('2020-01-01') + DateTime::IntervalFromDays(CAST(id AS Int32) ?? 0) "
            "RANGE BETWEEN Interval('P1D') PRECEDING AND CURRENT ROW)"
        ),
        [1, 2, 2],
    ),
    # Rows that are at no distance from others have themselves and their peers.
    ("COUNT(*) OVER (ORDER BY IF(id > 1, NULL, n) RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING)", [1, 2, 2]),
    ("COUNT(*) OVER (ORDER BY IF(id > 1, NULL, n) RANGE BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING)", [3, 2, 2]),
    ("COUNT(*) OVER (ORDER BY n % 20 RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)", [2, 3, 2]),
    # A rank may count the values of an expression.
    ("RANK(n % 20) OVER (ORDER BY n % 20)", [2, 1, 2]),
    ("DENSE_RANK(n % 20) OVER (ORDER BY n)", [1, 2, 3]),
    ("DENSE_RANK(1) OVER (ORDER BY n)", [1, 1, 1]),
    ("PERCENT_RANK(n < 30) OVER (ORDER BY n)", [0.0, 0.0, 1.0]),
]


@pytest.mark.parametrize(("call", "expected"), FRAMES)
def test_frames(call: str, expected: Any) -> None:
    assert [found for _, found in rows(f"SELECT id, {call} AS x FROM t ORDER BY id")] == expected


REFUSED: list[tuple[str, str]] = [
    ("SELECT SessionStart() FROM t GROUP BY id", "1:8 SessionStart can not be used without SessionWindow"),
    ("SELECT SessionState() OVER (PARTITION BY id) FROM t", "1:8 SessionState can not be used without SessionWindow"),
    (
        "SELECT COUNT(*) FROM t GROUP BY SessionWindow(id, 1), SessionWindow(n, 1)",
        "1:55 Duplicate session window specification",
    ),
    (
        "SELECT COUNT(*) FROM t GROUP BY SessionWindow(id)",
        "1:33 SessionWindow requires either two or four positional args",
    ),
    ("SELECT COUNT(*) FROM t GROUP BY SessionWindow(v, 1)", "1:33 Cannot substract type"),
    (
        "SELECT COUNT(*) FROM t GROUP BY ROLLUP(v, SessionWindow(id, 1) AS s)",
        "1:24 SessionWindow with grouping sets or HOP",
    ),
    (
        "SELECT COUNT(*) FROM t GROUP BY SessionWindow(id, ($r) -> (0), ($r, $s) -> ($s), ($r, $s) -> (1))",
        "1:33 Expected a tuple of Bool and Int32, but got: Int32",
    ),
    ("SELECT SessionWindow(id, 1) FROM t", "1:8 Unknown builtin: SessionWindow"),
    ("SELECT HOP_END() FROM t GROUP BY id", "1:8 HOP_END can not be used without HOP"),
    (
        "SELECT COUNT(*) FROM t GROUP BY HOP(n, 'PT1S', 'PT1S', 'PT1S')",
        "1:33 Expected Timestamp, but got: Optional<Int64>",
    ),
    (f"SELECT COUNT(*) FROM {TIMES} GROUP BY HOP(t, 'PT0S', 'PT1S', 'PT1S')", "Hop time must be positive"),
    (
        f"SELECT COUNT(*) FROM {TIMES} GROUP BY HOP(t, 'PT2S', 'PT3S', 'PT1S')",
        "Interval time must be a positive multiple",
    ),
    (f"SELECT COUNT(*) FROM {TIMES} GROUP BY HOP(t, 'PT0.001S', 'PT101S', 'PT1S')", "Too many hops in interval"),
    (
        f"SELECT COUNT(*) FROM {TIMES} GROUP BY HOP(t, 'x', 'PT3S', 'PT1S')",
        "Expected a constant Interval as argument #2",
    ),
    ("SELECT SUM(n) OVER (ORDER BY v RANGE 1 PRECEDING) FROM t", "1:32 Expected a number, a date or an interval"),
    (
        "SELECT SUM(n) OVER (ORDER BY n, v RANGE 1 PRECEDING) FROM t",
        "1:35 RANGE with distances requires exactly one key",
    ),
    ("SELECT SUM(n) OVER (ORDER BY n RANGE Interval('P1D') PRECEDING) FROM t", "1:38 Expected a constant number"),
    ("SELECT SUM(n) OVER (ORDER BY n RANGE n PRECEDING) FROM t", "1:38 Expected a constant number"),
    ("SELECT SUM(n) OVER (ORDER BY n GROUPS 1 PRECEDING) FROM t", "1:32 GROUPS in a window"),
]


@pytest.mark.parametrize(("text", "said"), REFUSED, ids=[text for text, _ in REFUSED])
def test_refusals(text: str, said: str) -> None:
    assert said in refusal(text)
