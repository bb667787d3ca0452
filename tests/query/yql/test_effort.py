"""The effort of queries: single rows, in proportion to rows, or unbounded."""

from __future__ import annotations

import pytest

from mayflydb.query.yql.parser import parse
from mayflydb.query.yql.plans.effort import MAX_NODES, STREAMING_NODES, Effort, estimate_plan, estimate_script
from query.yql.asking import shop
from query.yql.memory_tables import plan_of

SMALL, STREAMING, LINEAR, UNBOUNDED = Effort


@pytest.mark.parametrize(
    ("text", "effort"),
    [
        ("SELECT 1", SMALL),
        ("SELECT v FROM t WHERE id = 1", SMALL),
        ("SELECT c FROM p WHERE a = 1 AND b = 'x'", SMALL),
        ("SELECT c FROM p WHERE a = 1", STREAMING),
        ("SELECT c FROM p WHERE a = 1 AND b > 'x'", STREAMING),
        ("SELECT v FROM t WHERE id IN (1, 2)", STREAMING),
        ("SELECT v FROM t WHERE id = 1 OR id = 2", STREAMING),
        ("SELECT v FROM t WHERE n = 10", STREAMING),
        ("SELECT v FROM t", STREAMING),
        ("SELECT COUNT(*), MAX(v) FROM t WHERE n > 5 LIMIT 3", STREAMING),
        ("SELECT COUNT(DISTINCT v) FROM t", LINEAR),
        ("SELECT DISTINCT v FROM t", LINEAR),
        ("SELECT v FROM t ORDER BY v", LINEAR),
        ("SELECT v FROM t ORDER BY id", STREAMING),
        ("SELECT n, COUNT(*) FROM t GROUP BY n", LINEAR),
        ("SELECT COUNT(*), MAX(v) FROM t WHERE n > 5 GROUP BY v ORDER BY v LIMIT 3", LINEAR),
        ("UPSERT INTO t (id, v) VALUES (1, 'a')", SMALL),
        ("UPSERT INTO t SELECT id, w AS v FROM u WHERE id = 2", SMALL),
        ("UPSERT INTO t SELECT id, w AS v FROM u", LINEAR),
        ("UPDATE t SET v = 'x' WHERE id = 1", SMALL),
        ("UPDATE t SET v = 'x'", LINEAR),
        ("DELETE FROM t WHERE id = 1", SMALL),
        ("SELECT v || v FROM t WHERE id = 1", UNBOUNDED),
        ("SELECT v FROM t WHERE v LIKE '%a%'", UNBOUNDED),
        ("SELECT v FROM t WHERE v REGEXP 'a'", UNBOUNDED),
        ("SELECT ListLength(ListFromRange(0, 10))", UNBOUNDED),
        ("SELECT String::Reverse('a')", UNBOUNDED),
        ("$x = 1; SELECT $x", UNBOUNDED),
        ("SELECT (SELECT MAX(id) FROM t)", UNBOUNDED),
        ("SELECT t.id FROM t JOIN u USING (id)", UNBOUNDED),
        ("SELECT id FROM t UNION ALL SELECT id FROM u", UNBOUNDED),
        ("SELECT ROW_NUMBER() OVER (ORDER BY id) FROM t", UNBOUNDED),
        ("SELECT * FROM (SELECT AsList(1, 2) AS l) FLATTEN BY l", UNBOUNDED),
        ("SELECT JSON_EXISTS(Json('{}'), '$.a')", UNBOUNDED),
    ],
)
def test_effort(text: str, effort: Effort) -> None:
    assert estimate_plan(estimate_script(parse(text)), plan_of(text, shop())) is effort


@pytest.mark.parametrize(("more", "effort"), [(-1, STREAMING), (0, STREAMING), (1, LINEAR)])
def test_a_query_with_many_expressions_does_not_stream(more: int, effort: Effort) -> None:
    # SELECT, FROM, source and table, and two nodes for each item.
    items = (STREAMING_NODES - 4) // 2 + more
    text = "SELECT " + ", ".join(["v"] * items) + " FROM t"
    assert estimate_plan(estimate_script(parse(text)), plan_of("SELECT v FROM t", shop())) is effort


@pytest.mark.parametrize(("more", "effort"), [(-1, LINEAR), (0, LINEAR), (1, UNBOUNDED)])
def test_a_query_with_very_many_expressions_is_unbounded(more: int, effort: Effort) -> None:
    # SELECT itself, and two nodes for each of its items.
    items = (MAX_NODES - 1) // 2
    extra = ", -1" if more == 1 else ""
    text = "SELECT " + ", ".join(["1"] * (items + min(more, 0))) + extra
    assert estimate_script(parse(text)) is effort
