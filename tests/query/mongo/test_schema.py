"""Conformance to a `$jsonSchema`, and the details of failures."""

from __future__ import annotations

import re
from typing import Any

import pytest
from bson import DatetimeMS, Decimal128, Int64, ObjectId

from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.schema import compile_schema, schema_details


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({}, 5, True),
        ({"bsonType": "int"}, 5, True),
        ({"bsonType": "int"}, Int64(5), False),
        ({"bsonType": ["int", "long"]}, Int64(5), True),
        ({"bsonType": "number"}, Decimal128("1"), True),
        ({"bsonType": "objectId"}, ObjectId(), True),
        ({"bsonType": "date"}, DatetimeMS(0), True),
        ({"type": "number"}, 1.5, True),
        ({"type": "boolean"}, True, True),
        ({"type": ["string", "null"]}, None, True),
        ({"type": "object"}, [], False),
        ({"enum": [1, "x", {"a": 1, "b": 2}]}, {"b": 2, "a": 1}, True),
        ({"enum": [1]}, 1.0, True),
        ({"enum": [1]}, [1], False),
        ({"minimum": 2}, 2, True),
        ({"minimum": 2, "exclusiveMinimum": True}, 2, False),
        ({"minimum": 2}, 1.9, False),
        ({"minimum": 2}, "x", True),
        ({"maximum": 2}, Decimal128("2.1"), False),
        ({"maximum": 2, "exclusiveMaximum": True}, 2, False),
        ({"multipleOf": 0.1}, 0.3, True),
        ({"multipleOf": 2}, 3, False),
        ({"multipleOf": 2}, Decimal128("4"), True),
        ({"minLength": 2}, "é", False),
        ({"maxLength": 2}, "éé", True),
        ({"maxLength": 2}, 12345, True),
        ({"pattern": "^a"}, "ab", True),
        ({"pattern": "^a"}, "ba", False),
        ({"minItems": 1}, [], False),
        ({"maxItems": 1}, [1, 2], False),
        ({"uniqueItems": True}, [1, 1.0], False),
        ({"uniqueItems": True}, [{"a": 1, "b": 2}, {"b": 2, "a": 1}], False),
        ({"uniqueItems": False}, [1, 1], True),
        ({"items": {"bsonType": "int"}}, [1, 2], True),
        ({"items": {"bsonType": "int"}}, [1, "x"], False),
        ({"items": [{"bsonType": "int"}, {"bsonType": "string"}]}, [1, "x", None], True),
        ({"items": [{"bsonType": "int"}, {"bsonType": "string"}]}, [1, 2], False),
        ({"items": [{}], "additionalItems": False}, [1, 2], False),
        ({"items": [{}], "additionalItems": {"bsonType": "int"}}, [1, 2], True),
        ({"items": [{}], "additionalItems": {"bsonType": "int"}}, [1, "x"], False),
        ({"items": {}, "additionalItems": False}, [1, 2], True),
        ({"required": ["a"]}, {"a": None}, True),
        ({"required": ["a"]}, {}, False),
        ({"required": ["a"]}, 5, True),
        ({"properties": {"a": {"bsonType": "int"}}}, {}, True),
        ({"properties": {"a": {"bsonType": "int"}}}, {"a": "x"}, False),
        ({"properties": {"a": {"properties": {"b": {"minimum": 1}}}}}, {"a": {"b": 0}}, False),
        ({"properties": {"a": {}}, "additionalProperties": False}, {"a": 1}, True),
        ({"properties": {"a": {}}, "additionalProperties": False}, {"a": 1, "b": 1}, False),
        ({"properties": {"a": {}}, "additionalProperties": {"bsonType": "int"}}, {"a": "x", "b": 1}, True),
        ({"patternProperties": {"^n": {"bsonType": "int"}}, "additionalProperties": False}, {"n1": 1}, True),
        ({"patternProperties": {"^n": {"bsonType": "int"}}}, {"n1": "x"}, False),
        ({"minProperties": 1}, {}, False),
        ({"maxProperties": 1}, {"a": 1, "b": 2}, False),
        ({"dependencies": {"a": ["b"]}}, {"a": 1}, False),
        ({"dependencies": {"a": ["b"]}}, {"c": 1}, True),
        ({"dependencies": {"a": {"required": ["b"]}}}, {"a": 1, "b": 2}, True),
        ({"allOf": [{"minimum": 1}, {"maximum": 3}]}, 2, True),
        ({"allOf": [{"minimum": 1}, {"maximum": 3}]}, 4, False),
        ({"anyOf": [{"bsonType": "int"}, {"bsonType": "string"}]}, "x", True),
        ({"anyOf": [{"bsonType": "int"}, {"bsonType": "string"}]}, None, False),
        ({"oneOf": [{"minimum": 1}, {"minimum": 3}]}, 2, True),
        ({"oneOf": [{"minimum": 1}, {"minimum": 3}]}, 4, False),
        ({"not": {"bsonType": "int"}}, 1, False),
        ({"title": "t", "description": "d"}, 1, True),
    ],
)
def test_a_value_conforms_or_not(schema: dict[str, Any], value: Any, expected: bool) -> None:
    compiled = compile_schema(schema)
    assert compiled.matches(value) is expected
    assert (not compiled.failures(value)) is expected


def test_the_details_of_a_refused_document() -> None:
    schema = {
        "required": ["name", "year"],
        "properties": {
            "name": {"bsonType": "string", "description": "must be a string"},
            "year": {"bsonType": "int", "minimum": 2017},
        },
        "additionalProperties": False,
    }
    assert schema_details(schema, {"name": 5, "x": 1}) == {
        "operatorName": "$jsonSchema",
        "schemaRulesNotSatisfied": [
            {
                "operatorName": "properties",
                "propertiesNotSatisfied": [
                    {
                        "propertyName": "name",
                        "description": "must be a string",
                        "details": [
                            {
                                "operatorName": "bsonType",
                                "specifiedAs": {"bsonType": "string"},
                                "reason": "type did not match",
                                "consideredValue": 5,
                                "consideredType": "int",
                            }
                        ],
                    }
                ],
            },
            {
                "operatorName": "additionalProperties",
                "specifiedAs": {"additionalProperties": False},
                "additionalProperties": ["x"],
            },
            {
                "operatorName": "required",
                "specifiedAs": {"required": ["name", "year"]},
                "missingProperties": ["year"],
            },
        ],
    }


@pytest.mark.parametrize(
    ("schema", "value", "details"),
    [
        (
            {"minimum": 2017},
            2016,
            {
                "operatorName": "minimum",
                "specifiedAs": {"minimum": 2017},
                "reason": "comparison failed",
                "consideredValue": 2016,
            },
        ),
        (
            {"enum": ["a"]},
            "b",
            {
                "operatorName": "enum",
                "specifiedAs": {"enum": ["a"]},
                "reason": "value was not found in enum",
                "consideredValue": "b",
            },
        ),
        (
            {"maxItems": 1},
            [1, 2],
            {
                "operatorName": "maxItems",
                "specifiedAs": {"maxItems": 1},
                "reason": "array did not match specified length",
                "consideredValue": [1, 2],
            },
        ),
        (
            {"oneOf": [{}, {}]},
            1,
            {"operatorName": "oneOf", "reason": "more than one subschema matched", "matchingSchemaIndexes": [0, 1]},
        ),
        ({"not": {}}, 1, {"operatorName": "not", "reason": "child expression matched"}),
        (
            {"minProperties": 1},
            {},
            {
                "operatorName": "minProperties",
                "specifiedAs": {"minProperties": 1},
                "reason": "specified number of properties was not satisfied",
                "numberOfProperties": 0,
            },
        ),
    ],
)
def test_the_details_of_a_broken_rule(schema: dict[str, Any], value: Any, details: dict[str, Any]) -> None:
    assert compile_schema(schema).failures(value) == [details]


@pytest.mark.parametrize(
    ("schema", "code", "message"),
    [
        ({"x": 1}, 9, "Unknown $jsonSchema keyword: x"),
        ({"$ref": "x"}, 9, "$jsonSchema keyword '$ref' is not currently supported"),
        ({"format": "date"}, 9, "$jsonSchema keyword 'format' is not currently supported"),
        ({"required": "a"}, 14, "$jsonSchema keyword 'required' must be an array"),
        ({"required": []}, 9, "$jsonSchema keyword 'required' cannot be an empty array"),
        ({"required": ["a", "a"]}, 9, "$jsonSchema keyword 'required' array cannot contain duplicate values"),
        ({"minimum": "x"}, 14, "$jsonSchema keyword 'minimum' must be a number"),
        ({"properties": {"a": 1}}, 14, "Nested schema for $jsonSchema property 'a' must be an object"),
        ({"type": "integer"}, 9, "$jsonSchema type 'integer' is not currently supported."),
        ({"bsonType": "integer"}, 9, "$jsonSchema type 'integer' is not currently supported."),
        ({"minItems": "1"}, 9, "$jsonSchema keyword 'minItems' must be a number"),
        ({"maxLength": None}, 9, "$jsonSchema keyword 'maxLength' must be a number"),
        ({"maximum": "1"}, 14, "$jsonSchema keyword 'maximum' must be a number"),
        ({"bsonType": "x"}, 2, "Unknown type name alias: x"),
        ({"type": "object", "bsonType": "object"}, 9, "Cannot specify both $jsonSchema keywords 'type' and 'bsonType'"),
        ({"multipleOf": 0}, 9, "$jsonSchema keyword 'multipleOf' must have a positive value"),
        ({"enum": []}, 9, "$jsonSchema keyword 'enum' cannot be an empty array"),
        (
            {"exclusiveMinimum": True},
            9,
            "$jsonSchema keyword 'minimum' must be a present if exclusiveMinimum is present",
        ),
    ],
)
def test_invalid_schemas_are_refused(schema: dict[str, Any], code: int, message: str) -> None:
    with pytest.raises(MqlError, match=f"^{re.escape(message)}$") as refusal:
        compile_schema(schema)
    assert refusal.value.code == code
