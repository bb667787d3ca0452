"""Where strings are compared in expressions and accumulators, the collation of the command decides."""

from __future__ import annotations

from typing import Any

import pytest

from mayflydb.query.mongo.accumulators import compile_accumulator
from mayflydb.query.mongo.collation import Collation
from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.expressions import compile_expression, frame_of
from mayflydb.query.mongo.values import OrderKey, Value, order_key


class CaseBlind(Collation, frozen=True):
    """Upper and lower case are one."""

    locale: str = "blind"

    def order_key(self, value: Value) -> OrderKey:
        """Strings by their lower case."""
        if type(value) is list:
            return order_key([each.lower() if type(each) is str else each for each in value])
        return order_key(value.lower() if type(value) is str else value)


ENV = Env(now=0, collation=CaseBlind())

EXPRESSIONS = [
    ({"$eq": ["a", "A"]}, True),
    ({"$lt": ["b", "C"]}, True),
    ({"$cmp": ["B", "a"]}, 1),
    ({"$eq": [["a"], ["A"]]}, True),
    ({"$in": ["a", ["A"]]}, True),
    ({"$indexOfArray": [["x", "A"], "a"]}, 1),
    ({"$setUnion": [["a"], ["A", "b"]]}, ["a", "b"]),
    ({"$setIntersection": [["a"], ["A"]]}, ["a"]),
    ({"$setDifference": [["a", "b"], ["A"]]}, ["b"]),
    ({"$setEquals": [["a"], ["A"]]}, True),
    ({"$setIsSubset": [["a"], ["A"]]}, True),
    ({"$min": [["b", "A", "C"]]}, "A"),
    ({"$maxN": {"n": 2, "input": ["b", "A", "C"]}}, ["C", "b"]),
    ({"$sortArray": {"input": ["b", "A", "C"], "sortBy": 1}}, ["A", "b", "C"]),
    ({"$sortArray": {"input": [{"x": "b"}, {"x": "A"}], "sortBy": {"x": 1}}}, [{"x": "A"}, {"x": "b"}]),
    ({"$strcasecmp": ["a", "b"]}, -1),
    ({"$indexOfCP": ["A", "a"]}, -1),
    ({"$regexMatch": {"input": "A", "regex": "a"}}, False),
]


@pytest.mark.parametrize(("spec", "expected"), EXPRESSIONS)
def test_expressions_compare_by_the_collation(spec: Any, expected: Any) -> None:
    assert compile_expression(spec, ENV)(frame_of({}, ENV)) == expected


ACCUMULATORS = [
    ("$addToSet", "$v", ["b", "A"]),
    ("$min", "$v", "A"),
    ("$max", "$v", "b"),
    ("$minN", {"n": 1, "input": "$v"}, ["A"]),
    ("$top", {"sortBy": {"v": 1}, "output": "$v"}, "A"),
]


@pytest.mark.parametrize(("name", "spec", "expected"), ACCUMULATORS)
def test_accumulators_compare_by_the_collation(name: str, spec: Any, expected: Any) -> None:
    accumulator = compile_accumulator(name, spec, ENV)()
    for text in ("b", "A", "a", "B"):
        accumulator.add(frame_of({"v": text}, ENV))
    assert accumulator.result() == expected
