"""`arrayFilters`: queries on array elements, by the identifier that `$[identifier]` uses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import MqlError, bad_value, failed_to_parse, type_mismatch
from mayflydb.query.mongo.filter import Filter, compile_filter
from mayflydb.query.mongo.values import Document, type_name

_NAME: Final = re.compile(r"[a-z][a-zA-Z0-9]*")
_ERROR: Final = "Error parsing array filter :: caused by :: "


def parse_array_filters(specs: Sequence[Document], env: Env) -> dict[str, Filter]:
    """Parse the filters. MqlError 9 for a filter with no name, two names or a name in use, 2 for an invalid name."""
    filters: dict[str, Filter] = {}
    for position, spec in enumerate(specs):
        if type(spec) is not dict:
            raise type_mismatch(f"update.updates.arrayFilters.{position}", type_name(spec), "object")
        # `{"x.a": 1, "x.b": 2}` names x twice, which is allowed.
        names = list(dict.fromkeys(_field_names(spec)))
        if not names:
            raise failed_to_parse("Cannot use an expression without a top-level field name in arrayFilters")
        if len(names) > 1:
            raise failed_to_parse(
                f"{_ERROR}Expected a single top-level field name, found '{names[0]}' and '{names[1]}'"
            )
        name = names[0]
        if not _NAME.fullmatch(name):
            raise bad_value(
                f"{_ERROR}The top-level field name must be an alphanumeric string beginning with a lowercase letter,"
                f" found '{name}'"
            )
        if name in filters:
            raise failed_to_parse(f"Found multiple array filters with the same top-level field name {name}")
        filters[name] = compile_filter(spec, env)
    return filters


def _field_names(query: Document) -> Iterator[str]:
    for field, condition in query.items():
        if field in ("$and", "$or", "$nor"):
            for branch in condition if type(condition) is list else ():
                yield from _field_names(branch if type(branch) is dict else {})
        elif field == "$expr":
            raise MqlError(224, f"{_ERROR}$expr is not allowed in this context")
        elif field != "$comment":
            yield field.partition(".")[0]
