"""Query plans: the table of rewritten texts, what a client must support, and that rewritten queries give mergeable rows."""

from __future__ import annotations

from typing import Any

import pytest

from mayflydb.model.errors import BadQuery, Unsupported
from mayflydb.query.cosmos_sql import Context, compile_query, parse, plan, print_select
from query.cosmos_sql.trees import without_places

BASIC = frozenset(
    {"Aggregate", "CompositeAggregate", "Distinct", "MultipleOrderBy", "OffsetAndLimit", "OrderBy", "Top", "CountIf"}
)
FULL = BASIC | {"NonValueAggregate", "GroupBy", "MultipleAggregates", "ListAndSetAggregate", "NonStreamingOrderBy"}
SLOT = "{documentdb-formattableorderbyquery-filter}"


def planned(text: str, features: frozenset[str] = FULL, **parameters: Any) -> dict[str, Any]:
    query = compile_query(text, {f"@{name}": value for name, value in parameters.items()}, lenient=True)
    return plan(query, features, [("pk",)], lambda key: (f"<{key[0]}>", f"<{key[0]}>"))


def info(text: str, **parameters: Any) -> dict[str, Any]:
    found: dict[str, Any] = planned(text, **parameters)["queryInfo"]
    return found


REWRITTEN = [
    ("SELECT VALUE COUNT(1) FROM c ORDER BY c.n", 'SELECT VALUE [{"item": COUNT(1)}]\nFROM c'),
    (
        "SELECT * FROM c ORDER BY c.n DESC",
        """\
SELECT c._rid, [{"item": c.n}] AS orderByItems, c AS payload
FROM c
WHERE (<slot>)
ORDER BY c.n DESC""",
    ),
    (
        "SELECT * FROM c WHERE c.a = 1 OR c.b ORDER BY c.n",
        """\
SELECT c._rid, [{"item": c.n}] AS orderByItems, c AS payload
FROM c
WHERE ((c.a = 1 OR c.b) AND (<slot>))
ORDER BY c.n""",
    ),
    (
        "SELECT TOP 2 c.a FROM c ORDER BY c.n",
        """\
SELECT TOP 2 c._rid, [{"item": c.n}] AS orderByItems, {"a": c.a} AS payload
FROM c
WHERE (<slot>)
ORDER BY c.n""",
    ),
    (
        "SELECT c.a, c.b + 1 FROM x AS c ORDER BY c.n, c.m DESC OFFSET 2 LIMIT 3",
        """\
SELECT c._rid, [{"item": c.n}, {"item": c.m}] AS orderByItems, {"a": c.a, "$1": c.b + 1} AS payload
FROM x AS c
WHERE (<slot>)
ORDER BY c.n, c.m DESC
OFFSET 0 LIMIT 5""",
    ),
    (
        "SELECT VALUE c.a FROM c WHERE c.b OR c.d ORDER BY c.n",
        """\
SELECT c._rid, [{"item": c.n}] AS orderByItems, c.a AS payload
FROM c
WHERE (((c.b OR c.d) AND IS_DEFINED(c.a)) AND (<slot>))
ORDER BY c.n""",
    ),
    (
        "SELECT TOP 2 c.a FROM c ORDER BY VectorDistance(c.v, [1, 2], false, {'distanceFunction': 'cosine'})",
        """\
SELECT TOP 2 c._rid, [{"item": VectorDistance(c.v, [1, 2], false, {"distanceFunction": "cosine"})}] AS orderByItems, \
{"a": c.a} AS payload
FROM c
WHERE (<slot>)
ORDER BY VectorDistance(c.v, [1, 2], false, {"distanceFunction": "cosine"})""",
    ),
    (
        "SELECT DISTINCT TOP 3 VALUE c.n FROM c ORDER BY c.n",
        """\
SELECT c._rid, [{"item": c.n}] AS orderByItems, c.n AS payload
FROM c
WHERE ((IS_DEFINED(c.n)) AND (<slot>))
ORDER BY c.n""",
    ),
    (
        "SELECT VALUE t FROM t IN c.tags ORDER BY t",
        """\
SELECT ROOT._rid, [{"item": t}] AS orderByItems, t AS payload
FROM t IN c.tags
WHERE (<slot>)
ORDER BY t""",
    ),
    (
        "SELECT * FROM c['a b'] ORDER BY ROOT.n",
        """\
SELECT ROOT._rid, [{"item": ROOT.n}] AS orderByItems, ROOT["a b"] AS payload
FROM c["a b"]
WHERE (<slot>)
ORDER BY ROOT.n""",
    ),
    ("SELECT DISTINCT VALUE c.a FROM c", ""),
    # The client counts rows after it has removed duplicates.
    ("SELECT DISTINCT TOP 5 VALUE c.a FROM c", "SELECT DISTINCT VALUE c.a\nFROM c"),
    ("SELECT DISTINCT c.a FROM c OFFSET 1 LIMIT 2", "SELECT DISTINCT c.a\nFROM c"),
    # A single logical partition gives its own rows from OFFSET to LIMIT.
    ("SELECT * FROM c WHERE c.pk = 'a' OFFSET 2 LIMIT 3", ""),
    (
        "SELECT * FROM c WHERE c.pk IN ('a', 'b') OFFSET 2 LIMIT 3",
        """\
SELECT *
FROM c
WHERE c.pk IN ("a", "b")
OFFSET 0 LIMIT 5""",
    ),
    ("SELECT TOP 5 * FROM c", ""),
    ("SELECT * FROM c WHERE c.a = 1", ""),
    ("SELECT * FROM c OFFSET 2 LIMIT 3", "SELECT *\nFROM c\nOFFSET 0 LIMIT 5"),
    ("SELECT VALUE COUNT(1) FROM c", 'SELECT VALUE [{"item": COUNT(1)}]\nFROM c'),
    ("SELECT VALUE SUM(c.n) FROM c WHERE c.a", 'SELECT VALUE [{"item": SUM(c.n)}]\nFROM c\nWHERE c.a'),
    ("SELECT VALUE AVG(c.n) FROM c", 'SELECT VALUE [{"item": {"sum": SUM(c.n), "count": COUNT(c.n)}}]\nFROM c'),
    (
        "SELECT VALUE MIN(c.n) FROM c",
        'SELECT VALUE [{"item": MIN(c.n), "item2": {"min": MIN(c.n), "count": COUNT(c.n)}}]\nFROM c',
    ),
    (
        "SELECT VALUE MAX(c.n) FROM c",
        'SELECT VALUE [{"item": MAX(c.n), "item2": {"max": MAX(c.n), "count": COUNT(c.n)}}]\nFROM c',
    ),
    ("SELECT COUNT(1) AS k FROM c", 'SELECT {"k": {"item": COUNT(1)}} AS payload\nFROM c'),
    ("SELECT COUNT(1) FROM c", 'SELECT {"$1": {"item": COUNT(1)}} AS payload\nFROM c'),
    (
        "SELECT c.s, COUNT(1) AS k FROM c GROUP BY c.s",
        """\
SELECT [{"item": c.s}] AS groupByItems, {"s": c.s, "k": {"item": COUNT(1)}} AS payload
FROM c
GROUP BY c.s""",
    ),
    (
        "SELECT VALUE COUNT(1) FROM c GROUP BY c.s",
        """\
SELECT [{"item": c.s}] AS groupByItems, [{"item": COUNT(1)}] AS payload
FROM c
GROUP BY c.s""",
    ),
    (
        "SELECT TOP 1 c.s, c.t, AVG(c.n) AS m FROM c GROUP BY c.s, c.t",
        """\
SELECT [{"item": c.s}, {"item": c.t}] AS groupByItems, {"s": c.s, "t": c.t, \
"m": {"item": {"sum": SUM(c.n), "count": COUNT(c.n)}}} AS payload
FROM c
GROUP BY c.s, c.t""",
    ),
]
"""In the texts, <slot> stands for what clients replace."""


@pytest.mark.parametrize(("text", "rewritten"), REWRITTEN)
def test_rewritten_text(text: str, rewritten: str) -> None:
    rewritten = rewritten.replace("<slot>", SLOT)
    assert info(text)["rewrittenQuery"] == rewritten
    if rewritten:
        runnable = rewritten.replace(SLOT, "true")
        compile_query(runnable, {}).accumulator(Context(0)).results()
        assert print_select(parse(print_select(parse(runnable).select)).select) == print_select(parse(runnable).select)


def test_every_key_is_present() -> None:
    found = planned("SELECT * FROM c")
    assert found == {
        "partitionedQueryExecutionInfoVersion": 2,
        "queryInfo": {
            "distinctType": "None",
            "top": None,
            "offset": None,
            "limit": None,
            "orderBy": [],
            "orderByExpressions": [],
            "groupByExpressions": [],
            "groupByAliases": [],
            "aggregates": [],
            "groupByAliasToAggregateType": {},
            "rewrittenQuery": "",
            "hasSelectValue": False,
            "hasNonStreamingOrderBy": False,
            "dCountInfo": None,
        },
        "queryRanges": [{"min": "", "max": "FF", "isMinInclusive": True, "isMaxInclusive": False}],
    }


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        # The service has one place for what is about no document, or none that could be: `[[],[]]`.
        ("SELECT VALUE COUNT(1)", [("", "", True)]),
        ("SELECT TOP 2 5", [("", "", True)]),
        ("SELECT VALUE (SELECT VALUE 1)", [("", "", True)]),
        ("SELECT * FROM c WHERE c.pk = 1 AND c.pk = undefined", [("", "", True)]),
        ("SELECT VALUE COUNT(1) FROM c", [("", "FF", False)]),
        ("SELECT * FROM c WHERE c.pk = 'a'", [("<a>", "<a>", True)]),
        ("SELECT * FROM c WHERE false", [("", "", True)]),
        ("SELECT * FROM c WHERE 1 > 2 ORDER BY c.n", [("", "", True)]),
        ("SELECT * FROM c WHERE c.pk = 1 AND c.pk = 2", [("", "", True)]),
        ("SELECT * FROM c WHERE ABS(c.pk) = 1", [("<-1>", "<-1>", True), ("<1>", "<1>", True)]),
        ("SELECT * FROM c WHERE c.pk", [("<True>", "<True>", True)]),
    ],
)
def test_ranges_of_a_plan(text: str, ranges: list[tuple[str, str, bool]]) -> None:
    found = planned(text)["queryRanges"]
    assert [(each["min"], each["max"], each["isMaxInclusive"]) for each in found] == ranges


DISTINCT_COUNTS = [
    ("SELECT VALUE COUNT(1) FROM (SELECT DISTINCT c.g FROM c)", "SELECT DISTINCT c.g\nFROM c", ""),
    (
        "SELECT COUNT(1) FROM (SELECT DISTINCT VALUE t FROM c JOIN t IN c.tags WHERE t > 1) AS s",
        "SELECT DISTINCT VALUE t\nFROM c\nJOIN t IN c.tags\nWHERE t > 1",
        "$1",
    ),
    ("SELECT COUNT(true) AS n FROM (SELECT DISTINCT VALUE c.g FROM c)", "SELECT DISTINCT VALUE c.g\nFROM c", "n"),
]


@pytest.mark.parametrize(("text", "rewritten", "alias"), DISTINCT_COUNTS)
def test_distinct_values_are_counted_by_clients(text: str, rewritten: str, alias: str) -> None:
    query = compile_query(text, {})
    for ranges in (1, 5):
        (found,) = [plan(query, FULL | {"DCount"}, [("pk",)], lambda key: ("", ""), ranges)["queryInfo"]]
        assert (found["distinctType"], found["rewrittenQuery"]) == ("Unordered", rewritten)
        assert (found["dCountInfo"], found["aggregates"]) == ({"dCountAlias": alias}, [])
    with pytest.raises(BadQuery, match="Query contained DCount, which the calling client does not support"):
        planned(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT VALUE SUM(s.g) FROM (SELECT DISTINCT c.g FROM c) AS s",
        "SELECT VALUE COUNT(1) FROM (SELECT DISTINCT c.g FROM c) AS s WHERE s.g > 1",
        "SELECT VALUE COUNT(s.g) FROM (SELECT DISTINCT c.g FROM c) AS s",
        "SELECT COUNT(1), 1 FROM (SELECT DISTINCT c.g FROM c) AS s",
        "SELECT VALUE COUNT(1) FROM (SELECT COUNT(1) AS n FROM c GROUP BY c.g) AS s",
        "SELECT * FROM (SELECT DISTINCT c.g FROM c) AS s",
    ],
)
def test_queries_that_no_client_could_merge(text: str) -> None:
    query = compile_query(text, {})
    info = plan(query, frozenset(), [("pk",)], lambda key: ("", ""))["queryInfo"]
    assert (info["rewrittenQuery"], info["aggregates"], info["distinctType"]) == ("", [], "None")
    with pytest.raises(Unsupported, match="over several partition key ranges is not supported by Mayfly"):
        plan(query, FULL | {"DCount"}, [("pk",)], lambda key: ("", ""), 2)


def test_documents_are_distinct_without_being_compared() -> None:
    text = 'SELECT VALUE r1 FROM (SELECT VALUE r0["list"] FROM (SELECT DISTINCT VALUE root FROM root) AS r0) AS r1'
    query = compile_query(text, {})
    assert query.streams and not query.needs_merge
    assert planned(text)["queryRanges"][0]["max"] == "FF"


PARTS = [
    (
        "SELECT c.a FROM c ORDER BY c.n DESC, c.m",
        {"orderBy": ["Descending", "Ascending"], "orderByExpressions": ["c.n", "c.m"]},
    ),
    ("SELECT TOP @n c.a FROM c", {"top": 4, "rewrittenQuery": ""}),
    ("SELECT c.a FROM c OFFSET @n LIMIT 2", {"offset": 4, "limit": 2, "top": None}),
    ("SELECT c.a FROM c WHERE c.pk = 'a' OFFSET @n LIMIT 2", {"offset": None, "limit": None}),
    ("SELECT c.a FROM c WHERE c.pk IN ('a', 'b') OFFSET @n LIMIT 2", {"offset": 4, "limit": 2}),
    ("SELECT DISTINCT c.a FROM c WHERE c.pk = 'a' OFFSET @n LIMIT 2", {"offset": 4, "limit": 2}),
    ("SELECT c.a FROM c WHERE c.pk = 'a' ORDER BY c.n OFFSET @n LIMIT 2", {"offset": 4, "limit": 2}),
    ("SELECT TOP @n 5", {"top": None}),
    (
        "SELECT VALUE COUNT(1) FROM c",
        {"aggregates": ["Count"], "hasSelectValue": True, "groupByAliasToAggregateType": {}},
    ),
    ("SELECT VALUE AVG(c.n) FROM c", {"aggregates": ["Average"]}),
    (
        "SELECT c.s, COUNT(1) AS k, COUNTIF(c.b), MAKELIST(c.n) AS l FROM c GROUP BY c.s",
        {
            "aggregates": [],
            "groupByAliases": ["s", "k", "$1", "l"],
            "groupByExpressions": ["c.s"],
            "groupByAliasToAggregateType": {"s": None, "k": "Count", "$1": "CountIf", "l": "MakeList"},
        },
    ),
    ("SELECT VALUE SUM(c.n) FROM c GROUP BY c.s", {"aggregates": ["Sum"], "groupByAliases": []}),
    (
        "SELECT TOP 3 * FROM c ORDER BY VectorDistance(c.v, [1])",
        {"orderBy": ["Descending"], "top": 3, "hasNonStreamingOrderBy": True},
    ),
    (
        "SELECT * FROM c ORDER BY VectorDistance(c.v, [1], false, {'distanceFunction': 'euclidean'}) OFFSET 1 LIMIT 2",
        {"orderBy": ["Ascending"], "offset": 1, "limit": 2, "hasNonStreamingOrderBy": True},
    ),
    (
        "SELECT VALUE COUNT(1) FROM c ORDER BY c.n, c.m",
        {"orderBy": [], "orderByExpressions": [], "aggregates": ["Count"]},
    ),
    ("SELECT * FROM c ORDER BY -VectorDistance(c.v, [1])", {"orderBy": ["Ascending"], "hasNonStreamingOrderBy": False}),
    ("SELECT DISTINCT c.a FROM c", {"distinctType": "Unordered"}),
    ("SELECT DISTINCT VALUE c.a FROM c ORDER BY c.a", {"distinctType": "Ordered"}),
    ("SELECT DISTINCT c.a FROM c ORDER BY c.a DESC", {"distinctType": "Ordered"}),
    ("SELECT DISTINCT VALUE c.a FROM c ORDER BY c.b", {"distinctType": "Unordered"}),
    ("SELECT DISTINCT c.a, c.b FROM c ORDER BY c.a", {"distinctType": "Unordered"}),
]


@pytest.mark.parametrize(("text", "expected"), PARTS)
def test_query_info(text: str, expected: dict[str, Any]) -> None:
    found = info(text, n=4)
    assert {name: found[name] for name in expected} == expected


REFUSED = [
    ("SELECT c.s, COUNT(1) AS k FROM c GROUP BY c.s", ["GroupBy", "NonValueAggregate"]),
    ("SELECT COUNT(1) FROM c", ["NonValueAggregate"]),
    ("SELECT COUNT(1), SUM(c.n) FROM c", ["NonValueAggregate", "MultipleAggregates"]),
    ("SELECT VALUE MAKESET(c.n) FROM c", ["ListAndSetAggregate"]),
]


@pytest.mark.parametrize(("text", "missing"), REFUSED)
def test_a_missing_feature_is_named(text: str, missing: list[str]) -> None:
    with pytest.raises(BadQuery) as caught:
        planned(text, BASIC)
    first, *lines = caught.value.message.split("\n")
    assert first == (
        "Query contains 1 or more unsupported features. "
        "Upgrade your SDK to a version that does support the requested features:"
    )
    assert lines == [f"Query contained {name}, which the calling client does not support." for name in missing]
    planned(text, FULL)


@pytest.mark.parametrize(
    ("text", "feature"),
    [
        ("SELECT * FROM c ORDER BY c.a", "OrderBy"),
        ("SELECT * FROM c ORDER BY c.a, c.b", "MultipleOrderBy"),
        ("SELECT DISTINCT c.a FROM c", "Distinct"),
        ("SELECT TOP 1 * FROM c", "Top"),
        ("SELECT * FROM c OFFSET 0 LIMIT 1", "OffsetAndLimit"),
        ("SELECT VALUE COUNT(1) FROM c", "Aggregate"),
        ("SELECT VALUE AVG(c.a) FROM c", "CompositeAggregate"),
        ("SELECT VALUE COUNTIF(c.a) FROM c", "CountIf"),
        ("SELECT VALUE c.a FROM c GROUP BY c.a", "GroupBy"),
        ("SELECT TOP 1 * FROM c ORDER BY VectorDistance(c.v, [1])", "NonStreamingOrderBy"),
    ],
)
def test_each_feature_is_needed(text: str, feature: str) -> None:
    with pytest.raises(BadQuery, match=f"contained {feature},"):
        planned(text, FULL - {feature})


def test_aggregates_inside_constructors_have_no_plan() -> None:
    with pytest.raises(BadQuery, match="Compositions of aggregates"):
        planned('SELECT VALUE {"n": COUNT(1)} FROM c')


def test_ranges_follow_the_partition_key() -> None:
    assert planned("SELECT * FROM c WHERE c.pk = @p AND c.n > 1", p="x")["queryRanges"] == [
        {"min": "<x>", "max": "<x>", "isMinInclusive": True, "isMaxInclusive": True}
    ]
    found = planned("SELECT * FROM c WHERE c.pk IN ('b', 'a', 'b')")["queryRanges"]
    assert [each["min"] for each in found] == ["<a>", "<b>"]


def test_a_prefix_of_a_hierarchical_key_is_a_range() -> None:
    query = compile_query("SELECT * FROM c WHERE c.a = 'x'", {})
    found = plan(query, FULL, [("a",), ("b",)], lambda key: ("AA", "AAFF") if len(key) == 1 else ("AA", "AA"))
    assert found["queryRanges"] == [{"min": "AA", "max": "AAFF", "isMinInclusive": True, "isMaxInclusive": False}]


@pytest.mark.parametrize("text", [text for text, _ in REWRITTEN])
def test_printing_gives_the_same_tree(text: str) -> None:
    tree = parse(text).select
    assert without_places(parse(print_select(tree)).select) == without_places(tree)
