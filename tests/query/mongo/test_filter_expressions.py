"""Expressions in queries and projections."""

from __future__ import annotations

from typing import Any

import pytest

from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.filter import compile_filter
from mayflydb.query.mongo.projection import compile_projection

ENV = Env(now=5, variables={"least": 3})
DOCUMENT = {"_id": 1, "a": 4, "t": [1, 2], "x": [{"z": 1}, {"y": 9}]}


@pytest.mark.parametrize(
    ("query", "document", "expected"),
    [
        ({"$expr": {"$gt": ["$a", "$$least"]}}, {"a": 4}, True),
        ({"$expr": {"$gt": ["$a", "$$least"]}}, {"a": 2}, False),
        ({"$expr": {"$lt": ["$missing", "$$NOW"]}}, {}, True),
        ({"$expr": "$a"}, {"a": 0}, False),
        ({"a": 1, "$expr": {"$eq": ["$b", "$c"]}}, {"a": 1, "b": 2, "c": 2}, True),
        ({"$or": [{"a": 1}, {"$expr": {"$eq": ["$b", "$c"]}}]}, {"b": 2, "c": 2}, True),
    ],
)
def test_an_expression_decides(query: dict[str, Any], document: dict[str, Any], expected: bool) -> None:
    found = compile_filter(query, ENV)
    assert found.matches(document) is expected
    assert found.fields is None


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"b": {"$add": ["$a", 1]}}, {"_id": 1, "b": 5}),
        ({"b": "$a"}, {"_id": 1, "b": 4}),
        ({"b": "text", "_id": 0}, {"b": "text"}),
        ({"b": "$missing"}, {"_id": 1}),
        ({"a": {"$literal": 1}}, {"_id": 1, "a": 1}),
        ({"a": 1, "x.y": {"$add": ["$a", 1]}}, {"_id": 1, "a": 4, "x": [{"y": 5}, {"y": 5}]}),
        ({"x": {"y": "$a", "z": 1}}, {"_id": 1, "x": [{"z": 1, "y": 4}, {"y": 4}]}),
        ({"n.m": "$a"}, {"_id": 1, "n": {"m": 4}}),
        ({"b": {"$slice": ["$t", 1]}}, {"_id": 1, "b": [1]}),
    ],
)
def test_a_projection_computes(spec: dict[str, Any], expected: dict[str, Any]) -> None:
    result = compile_projection(spec, ENV).apply(DOCUMENT)
    assert result == expected
    assert list(result) == list(expected)


def test_the_refusal_names_an_unknown_operator() -> None:
    with pytest.raises(MqlError, match=r"^Unknown expression \$foo$") as refusal:
        compile_projection({"b": {"$foo": 1}}, ENV)
    assert refusal.value.code == 31325
