"""Exact plans: which shapes have one, and that a range of keys holds the documents that the filter matches and no others."""

from __future__ import annotations

import random
from typing import Any

import pytest
from bson import Code, DatetimeMS, Decimal128, Int64, ObjectId, Regex, Timestamp

from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.filter import compile_filter
from mayflydb.query.mongo.indexes.exact import ExactPlan, Shape, exact_range, find_exact_plan, shape_of
from mayflydb.query.mongo.indexes.keys import compile_keys
from mayflydb.query.mongo.indexes.planner import plan
from mayflydb.query.mongo.indexes.specs import IndexSpec, parse_spec
from mayflydb.query.mongo.values import Document

LONG = "x" * 487
OPERANDS: list[list[Any]] = [
    [0, 1, 2, -1, Int64(1 << 60), Int64(3), Int64((1 << 53) + 1)],
    [0.0, -0.0, 1.0, -1.5, float("inf"), float("-inf"), float(1 << 53), 1e300],
    ["", "a", "ab", "b", "a\0", "a\1", LONG, LONG + "y", LONG + "yz"],
    [DatetimeMS(0), DatetimeMS(5), DatetimeMS(-5)],
    [True, False],
    [ObjectId(b"%012d" % n) for n in range(3)],
]
OTHERS: list[Any] = [
    *(None, float("nan"), Decimal128("1.0"), Decimal128("NaN"), Timestamp(0, 1), {"b": 1}, {}, b"x", Regex("^a")),
    *(Code("a"), [], [1], ["a"], [[1]], [{"b": 1}], [None]),
]
KEYS: list[Document] = [
    {"a": 1},
    {"a": -1},
    {"a": 1, "b": 1},
    {"a": -1, "b": 1},
    {"b": -1, "a": -1},
    {"a.b": 1, "b": 1},
]


def spec(key: Document, **options: Any) -> IndexSpec:
    return parse_spec({"key": key, "name": "_".join(map(str, sum(key.items(), ()))), **options})


A, AB = spec({"a": 1}), spec({"a": 1, "b": 1})


def exact(query: Document, *specs: IndexSpec, multikey: tuple[str, ...] = ()) -> ExactPlan | None:
    shaped = shape_of(query)
    return (
        None if shaped is None else find_exact_plan(plan(query, None, None, specs, Env(0), multikey), shaped[0], specs)
    )


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"a": None},
        {"a": [1]},
        {"a": {"b": 1}},
        {"a": {}},
        {"a": float("nan")},
        {"a": Regex("^a")},
        {"a": b"x"},
        {"a": Decimal128("1")},
        {"a": {"$in": [1]}},
        {"a": {"$ne": 1}},
        {"a": {"$gt": None}},
        {"a": {"$eq": 1, "$gt": 0}},
        {"a": {"$not": {"$gt": 1}}},
        {"$or": [{"a": 1}]},
        {"$expr": {"$eq": ["$a", 1]}},
        {"_id": 1, "a": 1},
        {"c": 1},
        {"a": 1, "c": 1},
        {"a": {"$gt": 1}, "b": 1},
        {"b": 1},
        {f"a{n}": 1 for n in range(9)},
    ],
)
def test_other_queries_have_none(query: Document) -> None:
    assert exact(query, AB) is None


def test_the_index_must_decide_by_itself() -> None:
    assert exact({"a": 1}, A) is not None
    assert exact({"a": 1}, A, multikey=("a_1",)) is None
    assert exact({"a": 1}, spec({"a": "hashed"})) is None
    assert exact({"a": 1}, spec({"a.$**": 1})) is None
    assert exact({"a.0": 1}, spec({"a.0": 1})) is None
    assert exact({"a": 1}, spec({"a": 1}, collation={"locale": "en", "strength": 2})) is None
    assert exact({"a": 1}, A, spec({"b": 1}, partialFilterExpression={"a": {"$gt": 5}})) is None


def test_a_long_key_is_not_decided() -> None:
    found = exact({"a": "x"}, A)
    assert found is not None
    assert exact_range(found, ["x" * 486]) is not None
    assert exact_range(found, ["x" * 487]) is None


def random_query(chance: random.Random, like: Shape | None = None) -> Document:
    """A query of random conditions; `like`: with the same paths, operators and types."""
    if like is not None:
        query: Document = {}
        for path, operator, kind in like:
            operand = chance.choice([each for kinds in OPERANDS for each in kinds if type(each) is kind])
            if operator:
                query.setdefault(path, {})[operator] = operand
            else:
                query[path] = operand
        return query
    query = {}
    for path in chance.sample(["a", "b", "a.b"], chance.choice([1, 1, 2])):
        values = chance.choice(OPERANDS)
        names = chance.sample(["$gt", "$gte", "$lt", "$lte"], chance.randrange(1, 3))
        draw = chance.random()
        if draw < 0.5:
            query[path] = chance.choice(values)
        else:
            query[path] = (
                {"$eq": chance.choice(values)} if draw < 0.6 else {name: chance.choice(values) for name in names}
            )
    return query


def random_document(chance: random.Random, n: int) -> Document:
    def value() -> Any:
        draw = chance.random()
        simple = chance.choice(chance.choice(OPERANDS))
        return (
            simple if draw < 0.7 else [simple] if draw < 0.8 else {"b": simple} if draw < 0.9 else chance.choice(OTHERS)
        )

    return {"_id": n} | {name: value() for name in ("a", "b") if chance.random() < 0.9}


def test_the_keys_in_the_range_are_those_of_the_matches(chance: random.Random) -> None:
    decided = found_any = 0
    for _ in range(200):
        index = spec(chance.choice(KEYS), **({"sparse": True} if chance.random() < 0.2 else {}))
        keys, entries, multikey = compile_keys(index), list[tuple[bytes, Document]](), False
        for n in range(30):
            document = random_document(chance, n)
            try:
                own = keys.document_keys(document)
            except MqlError:
                continue
            multikey = multikey or len(own) > 1
            entries += [(key, document) for key in own]
        names = (index.name,) if multikey else ()
        for _ in range(20):
            first = random_query(chance)
            chosen = exact(first, index, multikey=names)
            shaped = shape_of(first)
            if chosen is None or shaped is None:
                continue
            # The plan of one query serves another one of its shape.
            query = random_query(chance, shaped[0])
            again = shape_of(query)
            assert again is not None
            assert again[0] == shaped[0]
            bounds = exact_range(chosen, again[1])
            if bounds is None:
                continue
            decided += 1
            lower, upper = bounds
            # The hash of a partition follows the key in an entry.
            for hashed in (bytes(8), b"\xff" * 8):
                within = [document["_id"] for key, document in entries if lower <= key + hashed < upper]
                wanted = compile_filter(query, Env(0))
                matching = [document["_id"] for _, document in entries if wanted.matches(document)]
                assert within == matching, (query, index.key)
                found_any += bool(within)
    assert decided > 300
    assert found_any > 100
