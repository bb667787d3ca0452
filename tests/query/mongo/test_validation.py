"""Valid names of databases and collections, and valid `_id`s."""

from __future__ import annotations

from typing import Any

import pytest
from bson import ObjectId, Regex

from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.validation import check_collection, check_database, check_id


def code_of(check: Any, *arguments: Any) -> int:
    try:
        check(*arguments)
    except MqlError as refusal:
        return refusal.code
    return 0


@pytest.mark.parametrize(
    ("name", "code"),
    [("a", 0), ("a" * 63, 0), ("a" * 64, 73), ("é" * 31, 0), ("é" * 32, 73), ("", 73), ("a-b_c", 0), ("$a", 73)]
    + [(f"a{sign}b", 73) for sign in '/\\. "$*<>:|?\0'],
)
def test_the_names_of_databases(name: str, code: int) -> None:
    assert code_of(check_database, name) == code


def test_names_that_differ_in_case_only_are_refused() -> None:
    assert code_of(check_database, "Shop", ["shop"]) == 13297
    assert code_of(check_database, "shop", ["shop", "other"]) == 0


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("c", 0),
        ("a.b", 0),
        ("a b/c*", 0),
        ("", 73),
        (".a", 73),
        ("a.", 73),
        ("a$b", 73),
        ("a\0b", 73),
        ("c" * 252, 0),
        ("c" * 253, 73),
        (5, 73),
        (None, 73),
    ],
)
def test_the_names_of_collections(name: Any, code: int) -> None:
    assert code_of(check_collection, "db", name) == code


@pytest.mark.parametrize(
    ("id", "code"),
    [
        (1, 0),
        (None, 0),
        (ObjectId("65f000000000000000000001"), 0),
        ({"a": [1]}, 0),
        ([1], 53),
        (Regex("x"), 53),
        ({"$a": 1}, 52),
        ({"a": {"$b": 1}}, 52),
        ({"a": [{"$b": 1}]}, 52),
        ({"$ref": "c", "$id": 1}, 0),
    ],
    ids=repr,
)
def test_values_of_ids(id: Any, code: int) -> None:
    assert code_of(check_id, id) == code
