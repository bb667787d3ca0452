"""Options of index specifications: flags, `expireAfterSeconds`, partial filters, projections, weights.

Rules and texts: https://github.com/mongodb/mongo `src/mongo/db/ttl/`, `src/mongo/db/catalog/index_key_validate.cpp`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, Decimal
from typing import Any, Final

from bson import Decimal128

from mayflydb.query.mongo.faults import MqlError, bad_value, failed_to_parse
from mayflydb.query.mongo.values import (
    INT32_MAX,
    INT32_MIN,
    MISSING,
    TYPE_NUMBERS,
    Document,
    Value,
    format_value,
    is_number,
    is_truthy,
    type_name,
)

_ARTICLES: Final = {"object": "an object", "string": "a string", "bool": "a bool", "number": "a number"}


def cannot_create_index(message: str) -> MqlError:
    """Return an error of code 67, the code of most invalid index specifications."""
    return MqlError(67, message)


def check_type(field: str, value: Value, wanted: str) -> None:
    """Raise MqlError 14 unless a value has the type `wanted`: `object`, `string`, `bool` or `number`."""
    found = type_name(value)
    if found != wanted and not (wanted == "number" and is_number(value)):
        raise MqlError(14, f"The field '{field}' must be {_ARTICLES[wanted]}, but got {found}")


def parse_flag(document: Document, field: str) -> bool:
    """Parse a boolean option; numbers are accepted. MqlError 14 for other types."""
    value = document.get(field, False)
    if type(value) is not bool and not is_number(value):
        raise MqlError(
            14, f"The field '{field} has value {field}: {format_value(value)}, which is not convertible to bool"
        )
    return is_truthy(value)


# --- expireAfterSeconds --------------------------------------------------------------------------------------------------


def parse_ttl(document: Document, least: int = 0) -> int:
    """Parse `expireAfterSeconds` of an index specification: whole seconds, rounded towards zero, at least `least`.
    MqlError 67.
    """
    try:
        return _parse_ttl_value(document["expireAfterSeconds"], least)
    except MqlError as error:
        raise cannot_create_index(f". Index spec: {format_value(document)} :: caused by :: {error}") from None


def _parse_ttl_value(value: Value, least: int) -> int:
    if not is_number(value):
        raise cannot_create_index(
            f"TTL index 'expireAfterSeconds' option must be numeric, but received a type of '{type_name(value)}'"
        )
    seconds = _round_to_integer(value, ROUND_DOWN)
    if seconds is None:
        raise cannot_create_index("TTL index 'expireAfterSeconds' option must not be NaN")
    if not INT32_MIN <= seconds <= INT32_MAX:
        raise cannot_create_index("TTL index 'expireAfterSeconds' must be within the range of a 32-bit integer")
    if seconds < least:
        raise cannot_create_index("TTL index 'expireAfterSeconds' option cannot be less than 0")
    return int(seconds)


def parse_modified_ttl(value: Value, least: int = 0) -> int:
    """Parse `expireAfterSeconds` of collMod: whole seconds, at most those of an int32.

    Doubles are rounded towards zero, decimals half to even. MqlError 14 for another type, 72 for NaN or less than `least`.
    """
    seconds = _round_to_integer(value, ROUND_HALF_EVEN)
    if seconds is None:
        raise MqlError(72, "TTL index 'expireAfterSeconds' option must not be NaN")
    if seconds < least:
        raise MqlError(72, "TTL index 'expireAfterSeconds' option cannot be less than 0")
    return int(min(seconds, INT32_MAX))


def _round_to_integer(value: Any, rounding: str) -> int | float | None:
    """Return a number rounded to an integer; infinity stays, None for NaN. `rounding` applies to decimals, doubles
    round to zero.
    """
    number: Decimal | float = value.to_decimal() if type(value) is Decimal128 else value
    # Only NaN differs from itself.
    if number != number:
        return None
    if isinstance(number, Decimal):
        # A larger decimal would need too many digits as an integer.
        return float(number) if abs(number) > 1e18 else int(number.to_integral_value(rounding))
    return number if math.isinf(number) else int(number)


# --- partial filters -----------------------------------------------------------------------------------------------------

_COMPARISONS: Final = ("$eq", "$gt", "$gte", "$lt", "$lte")


def parse_partial_filter(document: Document) -> Document | None:
    """Parse the partial filter of an index specification. MqlError 14, or 67 for an operator that partial filters do
    not support.
    """
    if "partialFilterExpression" not in document:
        return None
    partial = document["partialFilterExpression"]
    check_type("partialFilterExpression", partial, "object")
    _check_filter(partial)
    return dict(partial)


def _check_filter(query: Document) -> None:
    for field, condition in query.items():
        if field in ("$and", "$or"):
            if type(condition) is not list or not condition:
                raise bad_value(f"{field} must be a nonempty array" if condition == [] else f"{field} must be an array")
            for each in condition:
                if type(each) is not dict:
                    raise bad_value(f"{field} entries need to be full objects")
                _check_filter(each)
        elif field.startswith("$"):
            raise _unsupported_error({field: condition})
        elif type(condition) is dict and next(iter(condition), "").startswith("$"):
            for operator, operand in condition.items():
                _check_condition(field, operator, operand)
        elif type_name(condition) == "regex":
            raise _unsupported_error({field: condition})


def _check_condition(field: str, operator: str, operand: Value) -> None:
    if operator == "$in":
        fine = type(operand) is list and all(type_name(each) != "regex" for each in operand)
    elif operator == "$exists":
        fine = is_truthy(operand)
    elif operator == "$type":
        fine = all(_is_type(each) for each in (operand if type(operand) is list else [operand]))
    else:
        fine = operator in _COMPARISONS and type_name(operand) != "regex"
    if not fine:
        raise _unsupported_error({field: {operator: operand}})


def _is_type(value: Value) -> bool:
    return value == "number" or value in TYPE_NUMBERS or (is_number(value) and value in TYPE_NUMBERS.values())


def _unsupported_error(condition: Document) -> MqlError:
    return cannot_create_index(f"Expression not supported in partial index: {format_value(condition)}")


# --- wildcard and text ---------------------------------------------------------------------------------------------------


def parse_wildcard_projection(document: Document, kind: str) -> Document | None:
    """Parse `wildcardProjection`: paths included or excluded. MqlError 2, 9, 14, 31253, 31254."""
    if "wildcardProjection" not in document:
        return None
    projection = document["wildcardProjection"]
    if kind != "wildcard":
        raise bad_value("The field 'wildcardProjection' is only allowed in 'wildcard' indexes")
    check_type("wildcardProjection", projection, "object")
    if "$**" not in document["key"]:
        raise failed_to_parse("The field 'wildcardProjection' is only allowed when 'key' is {\"$**\": ±1}")
    if not projection:
        raise failed_to_parse("The 'wildcardProjection' field can't be an empty object")
    including: bool | None = None
    for path, value in projection.items():
        if type(value) is not bool and not is_number(value):
            raise failed_to_parse(f"wildcardProjection only includes or excludes paths: {format_value(projection)}")
        if path == "_id":
            continue
        if including is None:
            including = is_truthy(value)
        elif including is not is_truthy(value):
            raise (
                MqlError(31254, f"Cannot do exclusion on field {path} in inclusion projection")
                if including
                else MqlError(31253, f"Cannot do inclusion on field {path} in exclusion projection")
            )
    return dict(projection)


def parse_weights(document: Document, key: Sequence[tuple[str, int | str]]) -> Document | None:
    """Return the weight of each path of a text index, sorted by path; None for another index. MqlError 14, 67."""
    texts = [path for path, direction in key if direction == "text"]
    weights = document.get("weights", MISSING)
    if not texts:
        if weights is not MISSING:
            raise cannot_create_index(
                f"Invalid index specification {format_value(document)}; "
                "the field 'weights' can only be specified with text indexes"
            )
        return None
    given = {} if weights is MISSING else weights
    check_type("weights", given, "object")
    for weight in given.values():
        if not is_number(weight) or not 0 < _round_weight(weight) < 100_000:
            raise cannot_create_index(
                f"text index weight must be in the exclusive interval (0,100000) but found: {format_value(weight)}"
            )
    return {path: int(_round_weight(given.get(path, 1))) for path in sorted({*texts, *given})}


def _round_weight(weight: Value) -> int | float:
    whole = _round_to_integer(weight, ROUND_DOWN)
    return 0 if whole is None else whole
