"""What a query says of itself: the partition keys it admits, and how it must be executed."""

from __future__ import annotations

from typing import Any

import pytest

from mayflydb.model.errors import BadQuery
from mayflydb.query.cosmos_sql import UNDEFINED, Context, Declarations, compile_query
from mayflydb.query.cosmos_sql.values import group_key

PK: list[tuple[str, ...]] = [("pk",)]
TWO: list[tuple[str, ...]] = [("a",), ("b", "c")]


EQUALITIES: list[tuple[str, list[tuple[str, ...]], Any]] = [
    ("c.pk = 'x'", PK, [("x",)]),
    ("'x' = c.pk", PK, [("x",)]),
    ("c['pk'] = 'x'", PK, [("x",)]),
    ("ROOT.pk = 'x'", PK, [("x",)]),
    ("c.pk = @p", PK, [("y",)]),
    ("c.pk = null", PK, [(None,)]),
    ("c.pk = true", PK, [(True,)]),
    ("c.pk = -1", PK, [(-1,)]),
    ("c.pk = 'x' AND c.n > 1", PK, [("x",)]),
    ("c.n > 1 AND (c.m OR c.k) AND c.pk IN ('x', @p, 1)", PK, [("x",), ("y",), (1,)]),
    ("c.pk IN ('x', 'x')", PK, [("x",)]),
    ("c.pk IN (1, 1.0, true)", PK, [(1,), (True,)]),
    ("c.pk = undefined", PK, []),
    ("c.pk = 'x' OR c.pk = 'y'", PK, [("x",), ("y",)]),
    ("(c.pk = 'x' AND c.n = 1) OR (c.pk = 'y' AND c.n = 2)", PK, [("x",), ("y",)]),
    ("c.pk = 'x' OR c.n = 1", PK, None),
    ("c.pk != 'x'", PK, None),
    ("c.pk NOT IN ('x')", PK, None),
    ("c.pk > 'x'", PK, None),
    ("c.pk = c.n", PK, None),
    # Arrays and objects are no keys: such items have the key of those without the property.
    ("c.pk = {'x': 1}", PK, [(UNDEFINED,)]),
    ("c.pk = []", PK, [(UNDEFINED,)]),
    ("c.pk IN (1, {'x': c.n}, [7], null, [])", PK, [(1,), (UNDEFINED,), (None,)]),
    ("c.pk = @list", PK, [(UNDEFINED,)]),
    ("c.pk = (1 + 1)", PK, None),
    ("c.pk = 1 AND c.pk = 2", PK, []),
    ("c.pk IN (1, 2, 3) AND c.n = 1 AND c.pk IN (2, 3, 4)", PK, [(2,), (3,)]),
    ("c.pk = 1 AND c.pk = 1.0 AND c.pk = true", PK, []),
    ("c.pk = 'x' AND (c.pk = 'y' OR c.n = 1)", PK, [("x",)]),
    ("c.pk", PK, [(True,)]),
    ("NOT c.pk", PK, [(False,)]),
    ("c.pk AND NOT c.pk", PK, []),
    ("NOT (NOT c.pk)", PK, None),
    ("-c.pk", PK, None),
    ("c.pk = 'x' OR false", PK, [("x",)]),
    ("c.pk = 'x' OR true", PK, None),
    ("c.pk = 'x' AND true", PK, [("x",)]),
    ("false", PK, []),
    ("'true'", PK, []),
    ("1 > 2", PK, []),
    ("true", PK, None),
    ("ST_ISVALID({'type': 'Point', 'coordinates': [0, 100]})", PK, []),
    ("c.pk LIKE 'a!%' ESCAPE '!'", PK, [("a%",)]),
    ("c.pk LIKE @p", PK, [("y",)]),
    ("c.pk LIKE 'a[_]b'", PK, [("a_b",)]),
    ("c.pk LIKE 'a[bc]'", PK, None),
    ("c.pk LIKE 'a%'", PK, None),
    ("c.pk LIKE 'a_'", PK, None),
    ("c.pk NOT LIKE 'a'", PK, None),
    ("c.pk LIKE c.n", PK, None),
    ("ABS(c.pk) = 1", PK, [(1,), (-1,)]),
    # Two keys, which are equal.
    ("0 = ABS(c.pk)", PK, [(0,), (-0.0,)]),
    ("ABS(c.pk) = '1'", PK, None),
    ("ABS(c.pk) = c.n", PK, None),
    ("IS_BOOL(c.pk)", PK, [(True,), (False,)]),
    ("IS_NULL(c.pk)", PK, [(None,)]),
    ("IS_NULL(c.n)", PK, None),
    ("IS_DEFINED(c.pk)", PK, None),
    ("udf.IS_NULL(c.pk)", PK, None),
    ("ARRAY_CONTAINS([1, 'a', null, {'x': 1}], c.pk)", PK, [(1,), ("a",), (None,), (UNDEFINED,)]),
    ("ARRAY_CONTAINS([1, 2, 3], c.pk) AND c.pk = 4", PK, []),
    ("ARRAY_CONTAINS(@list, c.pk, true)", PK, [(1,), ("z",)]),
    ("ARRAY_CONTAINS(@p, c.pk)", PK, None),
    ("ARRAY_CONTAINS([c.n], c.pk)", PK, None),
    ("ARRAY_CONTAINS(c.pk, 1)", PK, None),
    ("NOT ARRAY_CONTAINS([1], c.pk)", PK, None),
    ("NOT (c.pk = 'x')", PK, None),
    ("c.pk.x = 'x'", PK, None),
    ("c.n = 'x'", PK, None),
    ("EXISTS(SELECT VALUE 1 FROM pk IN c.l WHERE pk = 'x')", PK, None),
    ("c.a = 1 AND c.b.c = 2", TWO, [(1, 2)]),
    ("c.a IN (1, 2) AND c.b.c IN (3, 4)", TWO, [(1, 3), (1, 4), (2, 3), (2, 4)]),
    ("c.a = 1", TWO, None),
    ("c.b.c = 1", TWO, None),
]


@pytest.mark.parametrize(("where", "paths", "expected"), EQUALITIES)
def test_key_equalities(where: str, paths: list[tuple[str, ...]], expected: Any) -> None:
    parameters = {"@p": "y", "@list": [1, "z"]}
    declared = Declarations(functions=frozenset({"IS_NULL"}))
    found = compile_query(f"SELECT * FROM c WHERE {where}", parameters, declared).key_equalities(paths)
    assert found == expected
    assert [[type(value) for value in key] for key in found or []] == [
        [type(value) for value in key] for key in expected or []
    ]


KEYS = [
    None,
    True,
    False,
    -1,
    0,
    1,
    1.0,
    2,
    3,
    4,
    "",
    "a",
    "a%",
    "a_b",
    "x",
    "y",
    "z",
    [],
    [1],
    {},
    {"x": 1},
    UNDEFINED,
]


@pytest.mark.parametrize("where", [row[0] for row in EQUALITIES if row[1] is PK and "udf" not in row[0]])
def test_every_match_has_an_admitted_key(where: str) -> None:
    query = compile_query(f"SELECT * FROM c WHERE {where}", {"@p": "y", "@list": [1, "z"]})
    admitted = query.key_equalities(PK)
    for key in KEYS:
        for rest in ({"n": 1}, {"n": 2, "m": True}, {"n": "x"}):
            document = {**rest, **({} if key is UNDEFINED else {"pk": key})}
            if admitted is not None and query.matches(document, Context(0)):
                kept = UNDEFINED if isinstance(key, list | dict) else key
                assert group_key(kept) in {group_key(*one) for one in admitted}


def test_key_prefixes() -> None:
    assert compile_query("SELECT * FROM c WHERE c.a IN (1, 2)", {}).key_prefixes(TWO) == [(1,), (2,)]
    assert compile_query("SELECT * FROM c WHERE c.b.c = 1", {}).key_prefixes(TWO) is None
    assert compile_query("SELECT * FROM t IN c.tags WHERE t.a = 1", {}).key_prefixes(TWO) is None


@pytest.mark.parametrize(
    ("text", "needs_merge", "streams", "is_identity"),
    [
        ("SELECT * FROM c", False, True, True),
        ("SELECT * FROM c WHERE c.n = 1", False, True, True),
        ("SELECT VALUE c FROM c", False, True, True),
        ("SELECT VALUE r FROM root r", False, True, True),
        ("SELECT TOP 3 * FROM c", True, True, True),
        ("SELECT c FROM c", False, True, False),
        ("SELECT VALUE c.a FROM c", False, True, False),
        ("SELECT * FROM c.a", False, True, False),
        ("SELECT * FROM t IN c.tags", False, True, False),
        ("SELECT VALUE c FROM c JOIN t IN c.tags", False, True, False),
        ("SELECT * FROM c OFFSET 1 LIMIT 2", True, True, True),
        ("SELECT * FROM c ORDER BY c.n", True, False, False),
        ("SELECT DISTINCT * FROM c", True, False, False),
        ("SELECT VALUE COUNT(1) FROM c", True, False, False),
        ("SELECT c.a FROM c GROUP BY c.a", True, False, False),
        ("SELECT VALUE (SELECT VALUE COUNT(1) FROM t IN c.tags) FROM c", False, True, False),
        ("SELECT 1", False, False, False),
    ],
)
def test_how_a_query_is_executed(text: str, needs_merge: bool, streams: bool, is_identity: bool) -> None:
    query = compile_query(text, {})
    assert (query.needs_merge, query.streams, query.is_identity) == (needs_merge, streams, is_identity)


def test_sort_paths() -> None:
    query = compile_query("SELECT * FROM c ORDER BY c.a.b DESC, ROOT['x'], LOWER(c.s), c.l[0]", {}, lenient=True)
    assert query.sort_paths() == ((("a", "b"), True), (("x",), False), (None, False), (None, False))
    # Then ROOT is not the document.
    query = compile_query("SELECT VALUE root.n FROM c JOIN root IN c.items ORDER BY root.a", {}, lenient=True)
    assert query.sort_paths() == ((None, False),)


def test_an_accumulator_says_when_it_is_full() -> None:
    accumulator = compile_query("SELECT TOP 2 VALUE c.n FROM c", {}).accumulator(Context(0))
    seen = []
    for n in range(5):
        seen.append(accumulator.full)
        accumulator.add({"n": n})
    assert seen == [False, False, True, True, True]
    assert accumulator.results() == [0, 1]


def test_ties_follow_what_the_caller_says() -> None:
    accumulator = compile_query("SELECT VALUE c.id FROM c ORDER BY c.n DESC", {}).accumulator(Context(0))
    for name, tie in (("x", 3), ("y", 1), ("z", 2)):
        accumulator.add({"id": name, "n": 1}, tie)
    assert accumulator.results() == ["y", "z", "x"]


def test_a_query_can_be_used_again() -> None:
    query = compile_query("SELECT VALUE COUNT(1) FROM c", {})
    for size in (3, 1):
        accumulator = query.accumulator(Context(0))
        for _ in range(size):
            accumulator.add({})
        assert accumulator.results() == [size]


def test_chance_is_repeatable() -> None:
    query = compile_query("SELECT VALUE [RAND(), RAND()] FROM c", {})
    first, second = (next(iter(query.rows({}, Context(0, seed)))) for seed in (1, 2))
    assert first[0] != first[1]
    assert first != second
    assert list(query.rows({}, Context(0, 1))) == [first]


def test_a_missing_parameter_is_an_error_even_where_it_is_not_reached() -> None:
    with pytest.raises(BadQuery, match="'@x'"):
        compile_query("SELECT * FROM c WHERE false AND c.a = @x", {})
    compile_query("SELECT * FROM c", {"@unused": 1})
