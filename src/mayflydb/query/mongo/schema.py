"""`$jsonSchema`: JSON Schema draft 4 with `bsonType`, as the server supports it, and the details of failed validations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from functools import partial
from itertools import chain
from typing import Any, Final, TypeAlias

import msgspec
from bson import Decimal128

from mayflydb.query.mongo.faults import MqlError, bad_value, failed_to_parse
from mayflydb.query.mongo.operands import NUMBER_TYPES, parse_natural, types_of_alias
from mayflydb.query.mongo.paths import fields_of
from mayflydb.query.mongo.patterns import compile_pattern
from mayflydb.query.mongo.values import Document, OrderKey, Value, is_number, order_key, type_class, type_name
from mayflydb.query.regexes import LimitedPattern

Rule: TypeAlias = Callable[[Value], Document | None]
"""Returns the failure of a value, in the form of `errInfo.details`; None if the value satisfies the rule."""


class Schema(msgspec.Struct, frozen=True):
    """A compiled schema."""

    rules: tuple[Rule, ...]
    notes: Document
    """`title` and `description`, which failures repeat."""

    def matches(self, value: Value) -> bool:
        """Return whether a value satisfies all rules."""
        for rule in self.rules:  # noqa: SIM110 - a generator costs twice the time.
            if rule(value) is not None:
                return False
        return True

    def failures(self, value: Value) -> list[Document]:
        """Return the failures of all rules that a value breaks."""
        return [failure for rule in self.rules if (failure := rule(value)) is not None]


def compile_schema(spec: Document) -> Schema:
    """Compile a schema. MqlError 9 for unknown or contradictory keywords, 14 for operands of a wrong type, 2 for
    other errors.
    """
    for name, operand in spec.items():
        if name in _NOT_SUPPORTED:
            raise failed_to_parse(f"$jsonSchema keyword '{name}' is not currently supported")
        if name not in _KEYWORDS:
            raise failed_to_parse(f"Unknown $jsonSchema keyword: {name}")
        _check_type(name, operand, _KEYWORDS[name])
    if "type" in spec and "bsonType" in spec:
        raise failed_to_parse("Cannot specify both $jsonSchema keywords 'type' and 'bsonType'")
    for name, needed in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if name in spec and needed not in spec:
            raise failed_to_parse(f"$jsonSchema keyword '{needed}' must be a present if {name} is present")
    rules = [_RULES[name](spec[name], spec) for name in _RULES if name in spec]
    return Schema(tuple(rules), {name: spec[name] for name in ("title", "description") if name in spec})


def schema_details(spec: Document, document: Document) -> Document:
    """Return `errInfo.details` of code 121 for a document that does not satisfy the `$jsonSchema` of a validator."""
    return {"operatorName": "$jsonSchema", "schemaRulesNotSatisfied": compile_schema(spec).failures(document)}


_NOT_SUPPORTED: Final = frozenset(
    ("$ref", "$schema", "default", "definitions", "format", "id", "encrypt", "encryptMetadata")
)
_KEYWORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "additionalItems": ("bool", "object"),
    "additionalProperties": ("bool", "object"),
    "allOf": ("array",),
    "anyOf": ("array",),
    "bsonType": ("string", "array"),
    "dependencies": ("object",),
    "description": ("string",),
    "enum": ("array",),
    "exclusiveMaximum": ("bool",),
    "exclusiveMinimum": ("bool",),
    "items": ("object", "array"),
    "maxItems": ("number",),
    "maxLength": ("number",),
    "maxProperties": ("number",),
    "maximum": ("number",),
    "minItems": ("number",),
    "minLength": ("number",),
    "minProperties": ("number",),
    "minimum": ("number",),
    "multipleOf": ("number",),
    "not": ("object",),
    "oneOf": ("array",),
    "pattern": ("string",),
    "patternProperties": ("object",),
    "properties": ("object",),
    "required": ("array",),
    "title": ("string",),
    "type": ("string", "array"),
    "uniqueItems": ("bool",),
}


_COUNTS: Final = frozenset(("maxItems", "maxLength", "maxProperties", "minItems", "minLength", "minProperties"))
"""Numbers that are not negative; a value of another type fails as one that is negative does."""


def _check_type(name: str, operand: Value, expected: tuple[str, ...]) -> None:
    found = "number" if is_number(operand) else type_name(operand)
    if found not in expected:
        wanted = " or ".join(f"{'an' if each[0] in 'ao' else 'a'} {each}" for each in expected)
        raise MqlError(9 if name in _COUNTS else 14, f"$jsonSchema keyword '{name}' must be {wanted}")


def _failure(name: str, operand: Value, reason: str, value: Value, **more: Value) -> Document:
    return {"operatorName": name, "specifiedAs": {name: operand}, "reason": reason, "consideredValue": value, **more}


# --- any value -------------------------------------------------------------------------------------------------------

_JSON_TYPES: Final[Mapping[str, frozenset[str]]] = {
    "array": frozenset(("array",)),
    "boolean": frozenset(("bool",)),
    "null": frozenset(("null",)),
    "number": NUMBER_TYPES,
    "object": frozenset(("object",)),
    "string": frozenset(("string",)),
}


def _compile_type(name: str, operand: Value, _: Document) -> Rule:
    aliases = operand if type(operand) is list else [operand]
    if not aliases:
        raise failed_to_parse(f"$jsonSchema keyword '{name}' must name at least one type")
    names = frozenset(chain.from_iterable(_resolve_types(name, alias) for alias in aliases))

    def rule(value: Value) -> Document | None:
        found = type_name(value)
        if found in names:
            return None
        return _failure(name, operand, "type did not match", value, consideredType=found)

    return rule


def _resolve_types(name: str, alias: Value) -> frozenset[str]:
    if type(alias) is not str:
        raise MqlError(14, f"$jsonSchema keyword '{name}' array elements must be strings")
    if alias == "integer":
        raise failed_to_parse("$jsonSchema type 'integer' is not currently supported.")
    if name == "bsonType":
        return types_of_alias(alias)
    if alias not in _JSON_TYPES:
        raise bad_value(f"Unknown type name alias: {alias}")
    return _JSON_TYPES[alias]


def _compile_enum(operand: list[Value], _: Document) -> Rule:
    if not operand:
        raise failed_to_parse("$jsonSchema keyword 'enum' cannot be an empty array")
    known = frozenset(map(_json_key, operand))

    def rule(value: Value) -> Document | None:
        return None if _json_key(value) in known else _failure("enum", operand, "value was not found in enum", value)

    return rule


def _json_key(value: Value) -> OrderKey:
    """Return a comparison key for which the order of fields does not count."""
    fields = fields_of(value)
    if fields is not None:
        return type_class({}), frozenset((name, _json_key(each)) for name, each in fields.items())
    if type(value) is list:
        return type_class([]), tuple(map(_json_key, value))
    return order_key(value)


def _compile_combination(name: str, operand: list[Value], _: Document) -> Rule:
    if not operand:
        raise bad_value(f"$jsonSchema keyword '{name}' must be a nonempty array")
    if any(type(each) is not dict for each in operand):
        raise MqlError(14, f"$jsonSchema keyword '{name}' must be an array of objects")
    schemas = [compile_schema(each) for each in operand]
    enough = len(schemas) if name == "allOf" else 1

    def rule(value: Value) -> Document | None:
        matched = [index for index, schema in enumerate(schemas) if schema.matches(value)]
        if name == "oneOf" and len(matched) > 1:
            reason = "more than one subschema matched"
            return {"operatorName": name, "reason": reason, "matchingSchemaIndexes": matched}
        if len(matched) >= enough:
            return None
        failed = [
            {"index": index, **schema.notes, "details": schema.failures(value)}
            for index, schema in enumerate(schemas)
            if index not in matched
        ]
        return {"operatorName": name, "schemasNotSatisfied": failed}

    return rule


def _compile_not(operand: Document, _: Document) -> Rule:
    schema = compile_schema(operand)

    def rule(value: Value) -> Document | None:
        return {"operatorName": "not", "reason": "child expression matched"} if schema.matches(value) else None

    return rule


# --- numbers and strings ---------------------------------------------------------------------------------------------


def _compile_limit(name: str, operand: Value, spec: Document) -> Rule:
    lower = name == "minimum"
    exclusive = spec.get("exclusiveMinimum" if lower else "exclusiveMaximum", False)
    bound, nan = order_key(operand), order_key(float("nan"))

    def rule(value: Value) -> Document | None:
        if not is_number(value):
            return None
        key = order_key(value)
        # NaN is only as large as itself, although it comes first in the order.
        comparable = nan not in (key, bound)
        if (comparable and (key > bound if lower else key < bound)) or (key == bound and not exclusive):
            return None
        failure = _failure(name, operand, "comparison failed", value)
        if exclusive:
            failure["specifiedAs"]["exclusiveMinimum" if lower else "exclusiveMaximum"] = True
        return failure

    return rule


def _compile_multiple_of(operand: Value, _: Document) -> Rule:
    divisor = _finite_decimal(operand)
    if divisor is None or divisor <= 0:
        raise failed_to_parse("$jsonSchema keyword 'multipleOf' must have a positive value")

    def rule(value: Value) -> Document | None:
        if not is_number(value):
            return None
        number = _finite_decimal(value)
        if number is not None and _is_multiple(number, divisor):
            return None
        return _failure("multipleOf", operand, "considered value is not a multiple of the specified value", value)

    return rule


def _finite_decimal(value: Any) -> Decimal | None:
    # `repr` gives the decimal that was meant: 0.3 is a multiple of 0.1, and their binary values are not.
    number = (
        value.to_decimal() if type(value) is Decimal128 else Decimal(repr(value) if type(value) is float else value)
    )
    return number if number.is_finite() else None


def _is_multiple(number: Decimal, divisor: Decimal) -> bool:
    # Ratios of integers are exact for any exponents; a remainder of decimals would need more than 34 digits.
    one, other = number.as_integer_ratio(), divisor.as_integer_ratio()
    return (one[0] * other[1]) % (one[1] * other[0]) == 0


def _compile_length(name: str, operand: Value, _: Document) -> Rule:
    bound, lower = parse_natural(name, operand), name == "minLength"

    def rule(value: Value) -> Document | None:
        if type(value) is not str or (len(value) >= bound if lower else len(value) <= bound):
            return None
        return _failure(name, operand, "specified string length was not satisfied", value)

    return rule


def _compile_pattern_rule(operand: str, _: Document) -> Rule:
    pattern = compile_pattern(operand)

    def rule(value: Value) -> Document | None:
        if type(value) is not str or pattern.search(value) is not None:
            return None
        return _failure("pattern", operand, "regular expression did not match", value)

    return rule


# --- arrays ----------------------------------------------------------------------------------------------------------


def _compile_item_count(name: str, operand: Value, _: Document) -> Rule:
    bound, lower = parse_natural(name, operand), name == "minItems"

    def rule(value: Value) -> Document | None:
        if type(value) is not list or (len(value) >= bound if lower else len(value) <= bound):
            return None
        return _failure(name, operand, "array did not match specified length", value)

    return rule


def _compile_unique_items(operand: bool, _: Document) -> Rule:
    def rule(value: Value) -> Document | None:
        if not operand or type(value) is not list:
            return None
        seen = set()
        for each in value:
            key = _json_key(each)
            if key in seen:
                return _failure("uniqueItems", True, "found a duplicate item", value, duplicatedValue=each)
            seen.add(key)
        return None

    return rule


def _compile_items(operand: Any, _: Document) -> Rule:
    if type(operand) is dict:
        return _each_item_rule("items", compile_schema(operand), 0)
    if any(type(each) is not dict for each in operand):
        raise MqlError(14, "$jsonSchema keyword 'items' requires that each element of the array is an object")
    schemas = [compile_schema(each) for each in operand]

    def rule(value: Value) -> Document | None:
        if type(value) is not list:
            return None
        failed = [
            {"itemIndex": index, **schema.notes, "details": schema.failures(each)}
            for index, (schema, each) in enumerate(zip(schemas, value, strict=False))
            if not schema.matches(each)
        ]
        return {"operatorName": "items", "itemsNotSatisfied": failed} if failed else None

    return rule


def _compile_additional_items(operand: Any, spec: Document) -> Rule:
    items = spec.get("items")
    start = len(items) if type(items) is list else None
    if start is None or operand is True:
        if type(operand) is dict:
            compile_schema(operand)
        return lambda _: None
    if operand is not False:
        return _each_item_rule("additionalItems", compile_schema(operand), start)

    def rule(value: Value) -> Document | None:
        if type(value) is not list or len(value) <= start:
            return None
        more = value[start:]
        specified = {"additionalItems": False}
        reason = "found additional items"
        return {"operatorName": "additionalItems", "specifiedAs": specified, "reason": reason, "additionalItems": more}

    return rule


def _each_item_rule(name: str, schema: Schema, start: int) -> Rule:
    def rule(value: Value) -> Document | None:
        if type(value) is not list:
            return None
        for index in range(start, len(value)):
            if not schema.matches(value[index]):
                reason = "At least one item did not match the sub-schema"
                details = schema.failures(value[index])
                return {"operatorName": name, "reason": reason, "itemIndex": index, **schema.notes, "details": details}
        return None

    return rule


# --- documents -------------------------------------------------------------------------------------------------------


def _check_names(name: str, operand: list[Value]) -> list[str]:
    if not operand:
        raise failed_to_parse(f"$jsonSchema keyword '{name}' cannot be an empty array")
    if any(type(each) is not str for each in operand):
        raise MqlError(14, f"$jsonSchema keyword '{name}' must be an array of strings")
    if len(set(operand)) < len(operand):
        raise failed_to_parse(f"$jsonSchema keyword '{name}' array cannot contain duplicate values")
    return operand


def _compile_required(operand: list[Value], _: Document) -> Rule:
    names = _check_names("required", operand)

    def rule(value: Value) -> Document | None:
        fields = fields_of(value)
        missing = [name for name in names if name not in fields] if fields is not None else []
        if not missing:
            return None
        return {"operatorName": "required", "specifiedAs": {"required": operand}, "missingProperties": missing}

    return rule


def _compile_schemas(name: str, operand: Document) -> dict[str, Schema]:
    for field, each in operand.items():
        if type(each) is not dict:
            raise MqlError(14, f"Nested schema for $jsonSchema property '{field}' must be an object")
    return {field: compile_schema(each) for field, each in operand.items()}


def _compile_key_pattern(text: str) -> LimitedPattern[str]:
    """Compile the pattern of names of properties. MqlError 2 for an invalid one."""
    try:
        return compile_pattern(text)
    except MqlError as error:
        raise bad_value(error.message) from None


def _compile_properties(operand: Document, _: Document) -> Rule:
    schemas = _compile_schemas("properties", operand)

    def rule(value: Value) -> Document | None:
        fields = fields_of(value)
        if fields is None:
            return None
        failed = [
            {"propertyName": name, **schema.notes, "details": schema.failures(fields[name])}
            for name, schema in schemas.items()
            if name in fields and not schema.matches(fields[name])
        ]
        return {"operatorName": "properties", "propertiesNotSatisfied": failed} if failed else None

    return rule


def _compile_pattern_properties(operand: Document, _: Document) -> Rule:
    schemas = [
        (text, _compile_key_pattern(text), each)
        for text, each in _compile_schemas("patternProperties", operand).items()
    ]

    def failures(fields: Document) -> Iterator[Document]:
        for name, each in fields.items():
            for text, pattern, schema in schemas:
                if pattern.search(name) is not None and not schema.matches(each):
                    yield {"propertyName": name, "regexMatched": text, **schema.notes, "details": schema.failures(each)}

    def rule(value: Value) -> Document | None:
        fields = fields_of(value)
        failed = list(failures(fields)) if fields is not None else []
        return {"operatorName": "patternProperties", "details": failed} if failed else None

    return rule


def _compile_additional_properties(operand: Any, spec: Document) -> Rule:
    named = frozenset(spec.get("properties", ()))
    patterns = [compile_pattern(text) for text in spec.get("patternProperties", ())]
    schema = compile_schema(operand) if type(operand) is dict else None

    def rule(value: Value) -> Document | None:
        fields = fields_of(value)
        if fields is None or operand is True:
            return None
        more = [name for name in fields if name not in named and all(each.search(name) is None for each in patterns)]
        if schema is None:
            specified = {"additionalProperties": False}
            shown = {"operatorName": "additionalProperties", "specifiedAs": specified, "additionalProperties": more}
            return shown if more else None
        failed = next((name for name in more if not schema.matches(fields[name])), None)
        if failed is None:
            return None
        reason = "at least one additional property did not match the subschema"
        details = schema.failures(fields[failed])
        return {"operatorName": "additionalProperties", "reason": reason, "failingProperty": failed, "details": details}

    return rule


def _compile_property_count(name: str, operand: Value, _: Document) -> Rule:
    bound, lower = parse_natural(name, operand), name == "minProperties"

    def rule(value: Value) -> Document | None:
        fields = fields_of(value)
        if fields is None or (len(fields) >= bound if lower else len(fields) <= bound):
            return None
        reason, specified = "specified number of properties was not satisfied", {name: operand}
        return {"operatorName": name, "specifiedAs": specified, "reason": reason, "numberOfProperties": len(fields)}

    return rule


def _compile_dependencies(operand: Document, _: Document) -> Rule:
    needed: dict[str, list[str] | Schema] = {}
    for name, each in operand.items():
        if type(each) not in (dict, list):
            raise MqlError(14, "$jsonSchema keyword 'dependencies' must be an object of objects and arrays")
        needed[name] = compile_schema(each) if type(each) is dict else _check_names("dependencies", each)

    def failures(fields: Document) -> Iterator[Document]:
        for name, wanted in needed.items():
            if name not in fields:
                continue
            if isinstance(wanted, Schema):
                if not wanted.matches(fields):
                    yield {"conditionalProperty": name, "details": wanted.failures(fields)}
            elif missing := [each for each in wanted if each not in fields]:
                yield {"conditionalProperty": name, "missingProperties": missing}

    def rule(value: Value) -> Document | None:
        fields = fields_of(value)
        failed = list(failures(fields)) if fields is not None else []
        return {"operatorName": "dependencies", "failingDependencies": failed} if failed else None

    return rule


# Failures are reported in this order.
_RULES: Final[Mapping[str, Callable[[Any, Document], Rule]]] = {
    **{name: partial(_compile_type, name) for name in ("bsonType", "type")},
    "enum": _compile_enum,
    **{name: partial(_compile_combination, name) for name in ("allOf", "anyOf", "oneOf")},
    "not": _compile_not,
    **{name: partial(_compile_limit, name) for name in ("minimum", "maximum")},
    "multipleOf": _compile_multiple_of,
    **{name: partial(_compile_length, name) for name in ("minLength", "maxLength")},
    "pattern": _compile_pattern_rule,
    **{name: partial(_compile_item_count, name) for name in ("minItems", "maxItems")},
    "uniqueItems": _compile_unique_items,
    "items": _compile_items,
    "additionalItems": _compile_additional_items,
    "properties": _compile_properties,
    "patternProperties": _compile_pattern_properties,
    "additionalProperties": _compile_additional_properties,
    **{name: partial(_compile_property_count, name) for name in ("minProperties", "maxProperties")},
    "required": _compile_required,
    "dependencies": _compile_dependencies,
}
