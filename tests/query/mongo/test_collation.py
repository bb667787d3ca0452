"""The comparison of strings under collations."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest
from bson import Decimal128

from mayflydb.query.mongo.collation import SIMPLE, Collation
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.values import order_key


@pytest.mark.parametrize(
    ("collation", "texts"),
    [
        (
            Collation("en"),
            [
                "",
                " ",
                "_",
                "-",
                "!",
                "?",
                "(",
                "@",
                "#",
                "+",
                "$",
                "0",
                "9",
                "a",
                "A",
                "á",
                "Á",
                "ab",
                "b",
                "z",
                "α",
                "б",
            ],
        ),
        (Collation("en"), ["cote", "coté", "côte", "côté"]),
        (Collation("en"), ["resume", "Resume", "résumé", "Résumé", "resumes"]),
        (Collation("en"), ["a b", "a-b", "ab"]),
        (Collation("en"), ["ae", "æ", "af"]),
        (Collation("en"), ["o", "ø", "oz", "p"]),
        (Collation("en"), ["ss", "ß", "st"]),
        (Collation("en"), ["1", "10", "2"]),
        (Collation("en", 3, True), ["1", "2", "10", "100", "a"]),
        (Collation("en", 3, True), ["a1b", "a2b", "a10a", "a10b"]),
        (Collation("en", 3, True), ["v1.9", "v1.10", "v2.0"]),
        (SIMPLE, ["A", "B", "a", "b", "á"]),
    ],
)
def test_strings_sort_by_the_collation(collation: Collation, texts: list[str]) -> None:
    for one, other in pairwise(texts):
        assert collation.key(one) < collation.key(other), (one, other)


@pytest.mark.parametrize(
    ("collation", "one", "other", "same"),
    [
        (Collation("en", 1), "Résumé", "resume", True),
        (Collation("en", 2), "Résumé", "résumé", True),
        (Collation("en", 2), "résumé", "resume", False),
        (Collation("en", 3), "a", "A", False),
        (Collation("en", 3), "e\u0301", "é", True),
        (Collation("en", 1), "ø", "O", True),
        (Collation("en", 2), "ø", "o", False),
        (Collation("en", 1), "ＡＢ", "ab", True),
        (Collation("en", 3), "a\0b", "ab", True),
        (Collation("en", 1, True), "a007", "a7", True),
        (Collation("en", 1, True), "0", "00", True),
        (Collation("en", 1), "0", "00", False),
        (Collation("en", 1), "a b", "ab", False),
        (SIMPLE, "a", "A", False),
    ],
)
def test_strings_are_equal_or_not(collation: Collation, one: str, other: str, same: bool) -> None:
    assert (collation.key(one) == collation.key(other)) is same
    assert (hash(collation.key(one)) == hash(collation.key(other))) is same
    assert (collation.order_key({"x": [one]}) == collation.order_key({"x": [other]})) is same


def test_other_values_compare_without_the_collation() -> None:
    values: list[Any] = [None, 1, 2.5, "a", {"a": 1}, [1, "x"], b"x", True]
    keys = [Collation("en").order_key(value) for value in values]
    assert sorted(keys) == [Collation("en").order_key(value) for value in sorted(values, key=order_key)]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({}, SIMPLE),
        ({"locale": "simple"}, SIMPLE),
        ({"locale": "en"}, Collation("en", 3)),
        ({"locale": "en", "strength": 2}, Collation("en", 2)),
        ({"locale": "en", "strength": 1.0, "numericOrdering": True}, Collation("en", 1, True)),
        ({"locale": "en", "strength": 2.9}, Collation("en", 2)),
        ({"locale": "en", "strength": Decimal128("2.9")}, Collation("en", 3)),
        ({"locale": "en", "strength": Decimal128("2.5")}, Collation("en", 2)),
        ({"locale": "en", "strength": None, "caseLevel": None, "version": None}, Collation("en")),
        ({"locale": "en", "version": "57.1"}, Collation("en")),
        ({"locale": "simple", "strength": 1, "numericOrdering": True}, SIMPLE),
        ({"locale": "en", "caseLevel": False, "caseFirst": "off", "alternate": "non-ignorable"}, Collation("en")),
    ],
)
def test_a_collation_is_parsed(document: dict[str, Any], expected: Collation) -> None:
    found = Collation.parse(document)
    assert found == expected
    assert Collation.parse(found.document()) == expected


@pytest.mark.parametrize(
    ("document", "code", "message"),
    [
        (1, 14, "BSON field 'collation' is the wrong type 'int', expected type 'object'"),
        ({"strength": 2}, 40414, "BSON field 'collation.locale' is missing but a required field"),
        ({"locale": 1}, 14, "BSON field 'collation.locale' is the wrong type 'int', expected type 'string'"),
        ({"locale": "en", "x": 1}, 40415, "BSON field 'collation.x' is an unknown field."),
        (
            {"locale": "en", "strength": 6},
            2,
            "Enumeration value '6' for field 'collation.strength' is not a valid value.",
        ),
        (
            {"locale": "en", "strength": Decimal128("NaN")},
            2,
            "Enumeration value 'NaN' for field 'collation.strength' is not a valid value.",
        ),
        (
            {"locale": "en", "version": "58"},
            161,
            'Requested collation version 58, and only 57.1 is supported: { locale: "en", version: "58" }',
        ),
        (
            {"locale": "en", "backwards": None},
            14,
            "BSON field 'collation.backwards' is the wrong type 'null', expected type 'bool'",
        ),
        ({"locale": "en", "strength": 4}, 2, "Collation option 'strength: 4' is not supported"),
        ({"locale": "en", "caseLevel": True}, 2, "Collation option 'caseLevel: true' is not supported"),
        ({"locale": "en", "alternate": "shifted"}, 2, "Collation option 'alternate: \"shifted\"' is not supported"),
        ({"locale": "sv"}, 2, "Field 'locale' is invalid or not supported in: { locale: \"sv\" }"),
    ],
)
def test_other_collations_are_refused_by_name(document: Any, code: int, message: str) -> None:
    with pytest.raises(MqlError, match=f"^{re.escape(message)}$") as refusal:
        Collation.parse(document)
    assert refusal.value.code == code
