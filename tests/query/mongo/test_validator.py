"""The details of documents that a validator refuses."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Regex

from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.filter import compile_filter
from mayflydb.query.mongo.validator import failure_details

ENV = Env(now=0)
GT = {"a": {"$gt": 5}}
GT_FAILED = {"operatorName": "$gt", "specifiedAs": GT, "reason": "comparison failed", "consideredValue": 1}


def failure(operator: str, clause: dict[str, Any], reason: str, **more: Any) -> dict[str, Any]:
    return {"operatorName": operator, "specifiedAs": clause, "reason": reason, **more}


@pytest.mark.parametrize(
    ("validator", "document", "details"),
    [
        (GT, {"a": 1}, GT_FAILED),
        (GT, {}, failure("$gt", GT, "field was missing")),
        (GT, {"a": [1, 2]}, failure("$gt", GT, "comparison failed", consideredValues=[1, 2, [1, 2]])),
        ({"a": 5}, {"a": 1}, failure("$eq", {"a": 5}, "comparison failed", consideredValue=1)),
        ({"a": {"$ne": 1}}, {"a": 1}, failure("$ne", {"a": {"$ne": 1}}, "comparison succeeded", consideredValue=1)),
        (
            {"a": {"$in": [2]}},
            {"a": 1},
            failure("$in", {"a": {"$in": [2]}}, "no matching value found in array", consideredValue=1),
        ),
        ({"a": {"$exists": True}}, {}, failure("$exists", {"a": {"$exists": True}}, "path does not exist")),
        ({"a": {"$exists": False}}, {"a": 1}, failure("$exists", {"a": {"$exists": False}}, "path does exist")),
        (
            {"a": {"$type": "string"}},
            {"a": 1},
            failure("$type", {"a": {"$type": "string"}}, "type did not match", consideredValue=1, consideredType="int"),
        ),
        (
            {"a": {"$regex": "x", "$options": "i"}},
            {"a": "y"},
            failure(
                "$regex",
                {"a": {"$regex": "x", "$options": "i"}},
                "regular expression did not match",
                consideredValue="y",
            ),
        ),
        (
            {"a": {"$gt": 5}, "b": 1},
            {"a": 1, "b": 1},
            {"operatorName": "$and", "clausesNotSatisfied": [{"index": 0, "details": GT_FAILED}]},
        ),
        (
            {"$or": [GT, {"b": 1}]},
            {"a": 1},
            {
                "operatorName": "$or",
                "clausesNotSatisfied": [
                    {"index": 0, "details": GT_FAILED},
                    {"index": 1, "details": failure("$eq", {"b": 1}, "field was missing")},
                ],
            },
        ),
        (
            {"$nor": [{"b": 1}, GT]},
            {"a": 7},
            {
                "operatorName": "$nor",
                "clausesSatisfied": [
                    {"index": 1, "details": failure("$gt", GT, "comparison succeeded", consideredValue=7)}
                ],
            },
        ),
        (
            {"a": {"$not": {"$gt": 5}}},
            {"a": 7},
            {"operatorName": "$not", "details": failure("$gt", GT, "comparison succeeded", consideredValue=7)},
        ),
        (
            {"a": {"$not": Regex("x")}},
            {"a": "x"},
            {
                "operatorName": "$not",
                "details": failure(
                    "$regex", {"a": {"$regex": Regex("x")}}, "regular expression did match", consideredValue="x"
                ),
            },
        ),
        (
            {"$jsonSchema": {"required": ["a"]}},
            {},
            {
                "operatorName": "$jsonSchema",
                "schemaRulesNotSatisfied": [
                    {"operatorName": "required", "specifiedAs": {"required": ["a"]}, "missingProperties": ["a"]}
                ],
            },
        ),
    ],
)
def test_the_details_of_a_failed_validation(
    validator: dict[str, Any], document: dict[str, Any], details: dict[str, Any]
) -> None:
    assert not compile_filter(validator, ENV).matches(document)
    assert failure_details(validator, document, ENV) == details
