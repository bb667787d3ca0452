"""Keys of ordered indexes: never against ORDER BY. Bounds: what WHERE admits, and which properties a query looks at."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mayflydb.query.cosmos_sql import compile_query, cursor_key, index_key
from mayflydb.query.cosmos_sql.index_keys import MAX_KEY_BYTES
from mayflydb.query.cosmos_sql.values import UNDEFINED, descending_key, order_key

JSON_SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()
)
VALUES = st.one_of(
    JSON_SCALARS,
    st.just(UNDEFINED),
    st.sampled_from(["x" * MAX_KEY_BYTES, "x" * 500, 10**400, -(10**400)]),
    st.lists(JSON_SCALARS, max_size=2),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
)


def document(values: tuple[Any, ...]) -> dict[str, Any]:
    return {f"p{n}": value for n, value in enumerate(values) if value is not UNDEFINED}


@settings(deadline=None)
@given(st.lists(st.tuples(VALUES, VALUES), min_size=2, max_size=6), st.booleans())
def test_keys_agree_with_the_order(rows: list[tuple[Any, Any]], descending: bool) -> None:
    by = ((("p0",), False), (("p1",), descending))
    second = descending_key if descending else order_key
    for left, right in itertools.permutations(rows, 2):
        if index_key(document(left), by) < index_key(document(right), by):
            assert (order_key(left[0]), second(left[1])) < (order_key(right[0]), second(right[1]))
        assert cursor_key(left, by) == index_key(document(left), by)
        assert len(cursor_key(left, by)) <= MAX_KEY_BYTES


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("SELECT * FROM c WHERE c.a = 1", {"a"}),
        ("SELECT * FROM c", set()),
        ("SELECT VALUE COUNT(1) FROM c", set()),
        ("SELECT c.a, c.b.d FROM c WHERE c['e f'] = c.g", {"a", "b", "e f", "g"}),
        ("SELECT VALUE c FROM c WHERE c.a = 1", {"a"}),
        ("SELECT VALUE {x: c} FROM c", None),
        ("SELECT VALUE c[@p] FROM c", None),
        ("SELECT VALUE t.x FROM c JOIN t IN c.tags", {"tags"}),
        ("SELECT VALUE EXISTS(SELECT VALUE 1 FROM t IN c.tags WHERE t = c.n) FROM c", {"tags", "n"}),
        ("SELECT VALUE ARRAY(SELECT * FROM t IN c.tags) FROM c", None),
        ("SELECT VALUE ROOT.a FROM c", {"a"}),
        ("SELECT VALUE LENGTH(c.a) FROM c ORDER BY c.b", {"a", "b"}),
        ("SELECT c.a, COUNT(1) AS k FROM c GROUP BY c.a", {"a"}),
        ("SELECT VALUE c.x FROM c IN c.tags", None),
        ("SELECT VALUE 1", None),
    ],
)
def test_properties_that_a_query_reads(text: str, reads: set[str] | None) -> None:
    found = compile_query(text, {"@p": "a"}).reads
    assert (None if found is None else set(found)) == reads


@pytest.mark.parametrize(
    ("where", "paths"),
    [
        ("c.a = 1", {("a",)}),
        ("c.a.b = 1 AND c.c > 2", {("a", "b"), ("c",)}),
        ("c.a = 1 OR c.a = 2", {("a",)}),
        ("c.a = 1 OR c.b = 2", set()),
        ("(c.a = 1 AND c.b = 2) OR c.a > 7", {("a",)}),
        ("NOT c.a = 1", set()),
        ("c.a != 1", set()),
        ("c.a = c.b", set()),
        ("c.a = [1]", set()),
        ("c.a NOT IN (1)", set()),
        ("c.a IN (1, c.b)", set()),
        ("c.a IN (1, @p)", {("a",)}),
        ("1 < c.a", {("a",)}),
        ("c.a[0] = 1", set()),
        ("c['a b'] = 1", {("a b",)}),
        ("STARTSWITH(c.a, 'x')", {("a",)}),
        ("STARTSWITH(c.a, 'x', true)", set()),
        ("c.a > [1]", set()),
        ("c.flag", {("flag",)}),
        ("EXISTS(SELECT VALUE 1 FROM c IN c.t WHERE c.a = 1)", set()),
    ],
)
def test_paths_with_bounds(where: str, paths: set[tuple[str, ...]]) -> None:
    assert set(compile_query(f"SELECT * FROM c WHERE {where}", {"@p": 2}).bounds()) == paths
