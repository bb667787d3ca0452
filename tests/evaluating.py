"""Expressions of MQL in tests: evaluated on one document, compared with their types."""

from __future__ import annotations

from typing import Any

from bson import DatetimeMS

from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.expressions import compile_expression, frame_of
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.values import type_name

NOW = 1_700_000_000_000
ENV = Env(now=NOW, variables={"limit": 3, "who": {"name": "Ann", "tags": [{"k": 1}, {"k": 2}]}})

DOCUMENT: dict[str, Any] = {
    "_id": 1,
    "a": 5,
    "n": None,
    "s": "text",
    "o": {"b": 1, "c": {"d": 2}},
    "l": [1, 2, 3],
    "docs": [{"x": 1, "y": {"z": 1}}, {"x": 2}, 7, [{"x": 3}]],
    "expireAt": DatetimeMS(NOW - 1),
}


def evaluate(spec: Any, document: Any = DOCUMENT) -> Any:
    """A value, or the code of a refusal in a tuple; with its type, so that 1 is not 1.0 nor True."""
    try:
        value = compile_expression(spec, ENV)(frame_of(document, ENV))
    except MqlError as error:
        return ("refused", error.code)
    return typed(value)


def typed(value: Any) -> Any:
    if type(value) is dict:
        return {name: typed(each) for name, each in value.items()}, tuple(value)
    if type(value) is list:
        return [typed(each) for each in value]
    if type(value) is float and value != value:
        return "double", "nan"
    return type_name(value), value


def refused(code: int) -> Any:
    return ("refused", code)


def check(spec: Any, expected: Any) -> None:
    wanted = expected if type(expected) is tuple and expected[:1] == ("refused",) else typed(expected)
    assert evaluate(spec) == wanted
