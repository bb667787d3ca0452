"""Compares a CREATE TABLE with the table that is there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mayflydb.model.instant import SECOND
from mayflydb.query.yql.definitions import CreateTable, Ttl
from mayflydb.query.yql.intervals import parse as parse_interval
from mayflydb.query.yql.parser import parse
from mayflydb.query.yql.syntax import FunctionCall, Literal_

Difference = tuple[str, Any, Any]
"""The setting, what is declared, and what is there."""


def compare_table(statement: str, there: Mapping[str, Any]) -> list[Difference]:
    """Return the differences in the names of columns, the key and TTL. Types and physical settings are not compared."""
    return list(_compare(statement, there))


def _compare(statement: str, there: Mapping[str, Any]) -> Iterator[Difference]:
    (declared,) = parse(statement).statements
    assert isinstance(declared, CreateTable)
    names, found = [each.name for each in declared.columns], [each["name"] for each in there["columns"]]
    if sorted(names) != sorted(found):
        yield "columns", names, found
    if declared.primary_key is not None and list(declared.primary_key) != list(there["key"]):
        yield "primary key", list(declared.primary_key), list(there["key"])
    wanted = next((each.value for each in declared.settings if isinstance(each.value, Ttl)), None)
    ttl, stored = (None if wanted is None else _describe(wanted)), there.get("ttl")
    present = None if stored is None else {"column": stored["column"], "seconds": stored["expire_after"]}
    if ttl != present:
        yield "TTL", ttl, present


def _describe(ttl: Ttl) -> dict[str, Any]:
    (interval, _), *_ = ttl.tiers
    span = None
    if isinstance(interval, FunctionCall) and isinstance(interval.arguments[0].value, Literal_):
        text = interval.arguments[0].value.value
        span = parse_interval(text.decode() if isinstance(text, bytes) else str(text))
    return {"column": ttl.column, "seconds": None if span is None else span // SECOND}
