"""The order of documents."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import pytest
from bson import DatetimeMS, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp

from mayflydb.query.mongo.collation import Collation
from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.sort import compile_sort

ENV = Env(now=0)

BY_TYPE = [
    MinKey(),
    [],
    None,
    float("nan"),
    float("-inf"),
    -1,
    0,
    Decimal128("0.5"),
    Int64(1),
    1.5,
    "",
    "A",
    "a",
    {},
    {"a": 1},
    b"",
    b"z",
    b"aa",
    ObjectId("00" * 12),
    False,
    True,
    DatetimeMS(-1),
    DatetimeMS(5),
    Timestamp(1, 1),
    Regex("a"),
    MaxKey(),
]


def test_types_come_in_the_servers_order(chance: Random) -> None:
    documents = [{"a": value} for value in BY_TYPE]
    shuffled = documents[:]
    chance.shuffle(shuffled)
    assert compile_sort({"a": 1}, ENV).order(shuffled) == documents
    assert compile_sort({"a": -1}, ENV).order(shuffled) == documents[::-1]


@pytest.mark.parametrize(
    ("spec", "documents", "order"),
    [
        ({"a": 1}, [{"a": 2}, {"a": 1}], [1, 0]),
        ({"a": -1}, [{"a": 1}, {"a": 2}], [1, 0]),
        ({"a": 1}, [{"a": 1}, {}, {"a": None}], [1, 2, 0]),
        ({"a": 1}, [{"a": 1, "b": 1}, {"a": 1.0, "b": 2}], [0, 1]),
        ({"a": -1}, [{"a": 1, "b": 1}, {"a": 1.0, "b": 2}], [0, 1]),
        ({"a": 1}, [{"a": [5, 1]}, {"a": 2}, {"a": [3]}], [0, 1, 2]),
        ({"a": -1}, [{"a": [5, 1]}, {"a": 2}, {"a": [3]}], [0, 2, 1]),
        ({"a": 1}, [{"a": None}, {"a": []}, {"a": MinKey()}], [2, 1, 0]),
        ({"a": -1}, [{"a": []}, {}, {"a": 1}], [2, 1, 0]),
        ({"a.b": 1}, [{"a": {"b": 2}}, {"a": [{"b": 3}, {"b": 1}]}], [1, 0]),
        ({"a.b": -1}, [{"a": {"b": 2}}, {"a": [{"b": 3}, {"b": 1}]}], [1, 0]),
        ({"a.b": 1}, [{"a": {"b": 1}}, {"a": 5}, {"a": []}], [1, 2, 0]),
        # An element that is no document counts as null, as in an index.
        ({"a.b": 1}, [{"a": {"b": -1}}, {"a": [{"b": 1}, 5]}, {"a": [{"b": 1}, []]}], [1, 2, 0]),
        ({"a.b": -1}, [{"a": {"b": -1}}, {"a": [{"b": 1}, 5]}], [1, 0]),
        ({"a.b.c": 1}, [{"a": {"b": {"c": -1}}}, {"a": [{"b": {"c": 1}}, {"b": [7]}]}], [1, 0]),
        ({"a.0": 1}, [{"a": [2, 1]}, {"a": [1, 9]}], [1, 0]),
        ({"a": 1, "b": -1}, [{"a": 1, "b": 1}, {"a": 1, "b": 2}, {"a": 0, "b": 0}], [2, 1, 0]),
        ({"a": -1, "b": 1}, [{"a": 1, "b": 2}, {"a": 1, "b": 1}, {"a": 2, "b": 0}], [2, 1, 0]),
        ({"a": 1, "b": 1, "c": -1}, [{"a": 1, "b": 1, "c": 1}, {"a": 1, "b": 1, "c": 2}], [1, 0]),
        ({"a": 1, "b": 1}, [{"a": [2, 1], "b": 1}, {"a": 1, "b": 0}], [1, 0]),
        # Rows of one array: the second key is that of the element the first one chose.
        (
            {"a.b": 1, "a.c": 1},
            [{"a": [{"b": 1, "c": 9}, {"b": 2, "c": 0}]}, {"a": [{"b": 1, "c": 5}]}],
            [1, 0],
        ),
        ({"a.b": 1, "a.c": -1}, [{"a": [{"b": 1, "c": 3}]}, {"a": [{"b": 1, "c": 1}, {"b": 1, "c": 5}]}], [1, 0]),
        ({"a": 1, "a.b": 1}, [{"a": [{"b": 2}]}, {"a": [{"b": 1}]}], [1, 0]),
    ],
)
def test_documents_are_sorted(spec: dict[str, Any], documents: list[dict[str, Any]], order: list[int]) -> None:
    sort = compile_sort(spec, ENV)
    expected = [documents[place] for place in order]
    assert sort.order(documents) == expected
    assert sorted(documents, key=sort.key) == expected
    assert sort.first(iter(documents), 2) == expected[:2]


def test_first_equals_the_beginning_of_the_whole_order(chance: Random) -> None:
    values = [None, 1, 2.0, "x", [3, 1], [], {"y": 1}]
    documents = [{"_id": n, "a": chance.choice(values), "b": chance.choice(values[:4])} for n in range(200)]
    for spec in (
        {"a": 1},
        {"a": -1},
        {"a": 1, "b": 1},
        {"a": 1, "b": -1},
        {"a": -1, "b": -1},
        {"b": -1, "a": 1, "_id": -1},
    ):
        sort = compile_sort(spec, ENV)
        ordered = sort.order(documents)
        assert sort.first(iter(documents), 7) == ordered[:7]
        assert sorted(documents, key=sort.key) == ordered


def test_parallel_arrays_are_refused() -> None:
    sort = compile_sort({"a": 1, "b": 1}, ENV)
    with pytest.raises(MqlError, match="cannot sort with keys that are parallel arrays"):
        sort.order([{"a": [1], "b": [1]}])


def test_strings_sort_by_the_collation() -> None:
    documents = [{"a": text} for text in ("b", "B", "a", "é", "e", "10", "9")]
    by_root = compile_sort({"a": 1}, Env(now=0, collation=Collation("en")))
    assert [each["a"] for each in by_root.order(documents)] == ["10", "9", "a", "b", "B", "e", "é"]


def test_text_scores_sort_descending() -> None:
    sort = compile_sort({"s": {"$meta": "textScore"}, "a": 1}, ENV, score=lambda document: float(document["n"]))
    assert sort.order([{"n": 1, "a": 2}, {"n": 2, "a": 1}, {"n": 1, "a": 1}]) == [
        {"n": 2, "a": 1},
        {"n": 1, "a": 1},
        {"n": 1, "a": 2},
    ]


@pytest.mark.parametrize(
    ("spec", "code", "message"),
    [
        ({}, 15976, "$sort stage must have at least one sort key"),
        ({"a": "x"}, 15974, 'Illegal key in $sort specification: a: "x"'),
        ({"a": True}, 15974, "Illegal key in $sort specification: a: true"),
        ({"a": 2}, 15975, "$sort key ordering must be 1 (for ascending) or -1 (for descending)"),
        ({"a": 0}, 15975, "$sort key ordering must be 1 (for ascending) or -1 (for descending)"),
        ({"a": {"$x": 1}}, 17312, "$meta is the only expression supported by $sort right now"),
        ({"a": {"$meta": "x"}}, 31138, 'Illegal $meta sort: $meta: "x"'),
        ({"a": {"$meta": "textScore"}}, 40218, "query requires text score metadata, but it is not available"),
        ({"": 1}, 40352, "FieldPath cannot be constructed with empty string"),
        ({"a.": 1}, 40353, "FieldPath must not end with a '.'."),
        ({"a..b": 1}, 15998, "FieldPath field names may not be empty strings."),
        ({"$a": 1}, 16410, "FieldPath field names may not start with '$'. Consider using $getField or $setField."),
    ],
)
def test_invalid_sorts_are_refused(spec: dict[str, Any], code: int, message: str) -> None:
    with pytest.raises(MqlError, match=f"^{re.escape(message)}$") as refusal:
        compile_sort(spec, ENV)
    assert refusal.value.code == code
