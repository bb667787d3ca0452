"""The document that an upsert inserts: the values that the query requires, then the update, then an `_id`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from bson import Regex

from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.paths import REFERENCE
from mayflydb.query.mongo.update.compile import Update, compile_update
from mayflydb.query.mongo.validation import check_id
from mayflydb.query.mongo.values import Document, Value


def build_upsert(
    query: Document, update: Update | Document | list[Any], env: Env, make_id: Callable[[], Value]
) -> Document:
    """Return the document to insert where `query` matched none, `_id` first. `update`: compiled, or as in the command.

    MqlError 54 if the query requires two values at one path, 53 for an invalid `_id`, and the errors of `Update.apply`.
    """
    compiled = compile_update(update, env) if isinstance(update, dict | list) else update
    start = _build_document(_required_values(query, compiled.is_replacement))
    document = compiled.apply(start, None, True)
    identity = document["_id"] if "_id" in document else make_id()
    check_id(identity)
    return {"_id": identity, **{name: value for name, value in document.items() if name != "_id"}}


def _required_values(query: Document, only_id: bool) -> dict[str, Value]:
    """Return the values that a matching document must have, by path. For a replacement only the `_id` counts."""
    found: dict[str, Value] = {}
    for path, value in _iterate_equalities(query):
        if only_id and path.partition(".")[0] != "_id":
            continue
        if only_id and path != "_id":
            raise MqlError(111, f"field at '_id' must be exactly specified, field at sub-path '{path}'found")
        if path in found:
            raise MqlError(54, f"cannot infer query fields to set, path '{path}' is matched twice")
        # `{a: {b: 1}, "a.b": 2}` gives two values for one place.
        for other in found:
            inner, outer = max(path, other, key=len), min(path, other, key=len)
            if inner.startswith(f"{outer}."):
                raise MqlError(54, f"cannot infer query fields to set, both paths '{inner}' and '{outer}' are matched")
        found[path] = value
    return found


def _iterate_equalities(query: Document) -> Iterator[tuple[str, Value]]:
    for name, condition in query.items():
        if name == "$and" or (name == "$or" and type(condition) is list and len(condition) == 1):
            for branch in condition:
                yield from _iterate_equalities(branch)
        elif name == "$expr":
            raise MqlError(224, "$expr is not allowed in the query predicate for an upsert")
        elif not name.startswith("$"):
            for value in _values_of_condition(condition):
                yield name, value


def _values_of_condition(condition: Value) -> Iterator[Value]:
    """Yield the values that a condition on one field requires."""
    first = next(iter(condition), "") if type(condition) is dict else ""
    if not first.startswith("$") or first in REFERENCE:
        if not isinstance(condition, Regex | re.Pattern):
            yield condition
        return
    for name, operand in condition.items():
        if name == "$eq":
            yield operand
        # With one member `$in` is an equality.
        elif name == "$in" and len(operand) == 1 and not isinstance(operand[0], Regex | re.Pattern):
            yield operand[0]
        elif name == "$all":
            for each in operand:
                if not isinstance(each, Regex | re.Pattern) and not (type(each) is dict and "$elemMatch" in each):
                    yield each


def _build_document(equalities: dict[str, Value]) -> Document:
    """Build a document. Fields come in the order of their paths, not of the query."""
    document: Document = {}
    for path, value in sorted(equalities.items()):
        *above, last = path.split(".")
        holder = document
        for part in above:
            holder = holder.setdefault(part, {})
        holder[last] = value
    return document
