"""JSON_VALUE, JSON_EXISTS and JSON_QUERY."""

from __future__ import annotations

from mayflydb.query.yql.expression import Expression
from mayflydb.query.yql.functions import json
from mayflydb.query.yql.plans.binder import HANDLERS, Binder
from mayflydb.query.yql.plans.type_names import bind_type
from mayflydb.query.yql.syntax import Json


def bind_json(binder: Binder, tree: Json) -> Expression:
    """Bind the call and its clauses; the function interprets the clauses."""
    clauses = [
        (words, None if value is None else binder.expression(value), None if type is None else bind_type(binder, type))
        for words, value, type in tree.clauses
    ]
    return json.bind_json_function(
        tree.function, binder.expression(tree.operand), binder.expression(tree.path), clauses, tree.at
    )


HANDLERS[Json] = bind_json
