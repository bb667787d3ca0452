"""The details of a failed validation: `errInfo.details` of code 121."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.filter import compile_filter, is_operators
from mayflydb.query.mongo.paths import find_values, split_path
from mayflydb.query.mongo.schema import schema_details
from mayflydb.query.mongo.values import MISSING, Document, Value, type_name

_COMPARISON: Final = ("comparison failed", "comparison succeeded")
_MEMBERSHIP: Final = ("no matching value found in array", "matching value found in array")
_BITS: Final = ("bitwise operator failed to match", "bitwise operator matched successfully")

_REASONS: Final[Mapping[str, tuple[str, str]]] = {
    "$in": _MEMBERSHIP,
    "$nin": _MEMBERSHIP[::-1],
    "$ne": _COMPARISON[::-1],
    "$exists": ("path does not exist", "path does exist"),
    "$type": ("type did not match", "type did match"),
    "$regex": ("regular expression did not match", "regular expression did match"),
    "$mod": ("$mod did not evaluate to expected remainder", "$mod did evaluate to expected remainder"),
    "$size": ("array length was not equal to given size", "array length was equal to given size"),
    "$elemMatch": ("array did not satisfy the child predicate", "array did satisfy the child predicate"),
    "$all": ("array did not contain all specified values", "array did contain all specified values"),
    **dict.fromkeys(("$bitsAllSet", "$bitsAnySet", "$bitsAllClear", "$bitsAnyClear"), _BITS),
}
"""By operator: the reason if the condition fails, and the reason if its negation fails."""


def failure_details(validator: Document, document: Document, env: Env) -> Document:
    """Return the details of a validator that a document does not satisfy."""
    return _describe_query(validator, document, env, False)


def _describe_query(query: Document, document: Document, env: Env, met: bool) -> Document:
    """Return the details of a query that fails or, with `met`, of a negated query that holds."""
    clauses = _split_clauses(query)
    if len(clauses) == 1:
        return _describe_clause(clauses[0], document, env, met)
    return _describe_branches("$and", clauses, document, env, met)


def _split_clauses(query: Document) -> list[Document]:
    """Split a query into conjuncts of one operator each."""
    clauses: list[Document] = []
    for name, operand in query.items():
        if name == "$comment":
            continue
        if name.startswith("$") or not is_operators(operand):
            clauses.append({name: operand})
            continue
        for operator, each in operand.items():
            if operator == "$options":
                continue
            options = {"$options": operand["$options"]} if operator == "$regex" and "$options" in operand else {}
            clauses.append({name: {operator: each, **options}})
    return clauses


def _describe_clause(clause: Document, document: Document, env: Env, met: bool) -> Document:
    ((name, operand),) = clause.items()
    if name == "$jsonSchema":
        if met:
            return {"operatorName": name, "specifiedAs": clause, "reason": "schema matched"}
        return schema_details(operand, document)
    if name in ("$and", "$or", "$nor"):
        return _describe_branches(name, operand, document, env, met)
    if name == "$expr":
        reason = "expression did match" if met else "expression did not match"
        return {"operatorName": name, "specifiedAs": clause, "reason": reason, "expressionResult": met}
    if name.startswith("$"):
        reason = "expression always evaluates to " + ("true" if met else "false")
        return {"operatorName": name, "specifiedAs": clause, "reason": reason}
    operator = next(iter(operand)) if is_operators(operand) else "$eq"
    if operator == "$not":
        inner = operand["$not"]
        inner = {name: inner if type(inner) is dict else {"$regex": inner}}
        return {"operatorName": "$not", "details": _describe_query(inner, document, env, not met)}
    return _describe_field(name, operator, clause, document, met)


def _describe_branches(name: str, branches: list[Document], document: Document, env: Env, met: bool) -> Document:
    holds = [compile_filter(branch, env).matches(document) for branch in branches]
    # `$nor` fails by the branches that hold; so do negated `$and` and `$or`.
    wanted = met != (name == "$nor")
    details = [
        {"index": index, "details": _describe_query(branch, document, env, wanted)}
        for index, (branch, held) in enumerate(zip(branches, holds, strict=True))
        if held is wanted
    ]
    return {"operatorName": name, "clausesSatisfied" if wanted else "clausesNotSatisfied": details}


def _describe_field(path: str, operator: str, clause: Document, document: Document, met: bool) -> Document:
    details: dict[str, Any] = {"operatorName": operator, "specifiedAs": clause}
    values = [
        value
        for value in find_values(document, split_path(path), spread=operator not in _WHOLE_ARRAY)
        if value is not MISSING
    ]
    reasons = _REASONS.get(operator, _COMPARISON)
    if operator == "$exists":
        return {**details, "reason": reasons[bool(values)]}
    if not values and operator not in ("$ne", "$nin"):
        return {**details, "reason": "field was missing"}
    details["reason"] = reasons[met]
    details.update(_singular_or_plural("consideredValue", values))
    if operator == "$type":
        details.update(_singular_or_plural("consideredType", list(dict.fromkeys(map(type_name, values)))))
    return details


_WHOLE_ARRAY: Final = frozenset(("$size", "$elemMatch", "$exists", "$all"))
"""Operators that read an array as one value."""


def _singular_or_plural(name: str, values: list[Value]) -> Document:
    if not values:
        return {}
    return {name: values[0]} if len(values) == 1 else {f"{name}s": values}
