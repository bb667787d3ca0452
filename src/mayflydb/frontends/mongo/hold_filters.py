"""Filters of legal holds on collections: filter documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from mayflydb.engine.catalog import Node
from mayflydb.frontends.mongo.catalog_rows import unpack_document
from mayflydb.model.errors import BadRequest, Unsupported
from mayflydb.model.record import Record
from mayflydb.query.mongo.cheapness import is_cheap_query
from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.filter import compile_filter
from mayflydb.query.mongo.raw import EMBEDDED
from mayflydb.query.mongo.shell_json import parse_shell
from mayflydb.query.mongo.values import Document, Value, decode

_REFUSED: Final = frozenset(
    ("$where", "$function", "$accumulator", "$text", "$rand", "$sampleRate", "$near", "$nearSphere", "$jsonSchema")
)
"""Operators that run code, that need more than the document, or whose answer is another one at another time."""

_VARIABLES: Final = frozenset(("$$NOW", "$$CLUSTER_TIME", "$$USER_ROLES"))

HINT: Final = "a hold without a filter preserves every document"


def read_document(record: Record) -> Document:
    """Decode a stored document."""
    return decode(record.value)


def compile_condition(node: Node, text: str) -> Callable[[Any], bool]:
    """Compile a filter document. BadRequest; Unsupported for what no filter of a hold has."""
    try:
        parsed = parse_shell(text)
        if parsed.kind != EMBEDDED:
            raise BadRequest('the filter is no document, as {"userId": "u1"}')
        query = decode(parsed.data)
        for name in _names(query):
            if name in _REFUSED or name.partition(".")[0] in _VARIABLES:
                raise Unsupported(f"the filter of a hold has no {name}", hint=HINT)
        if "collation" in _options(node):
            raise Unsupported("a collection with a collation has no holds with filters", hint=HINT)
        if not is_cheap_query(query):
            raise Unsupported(
                "the filter has an operator that is none, or that may take longer than reading its document, as a pattern that is"
                " no plain text",
                hint=HINT,
            )
        return compile_filter(query, Env(0)).matches
    except MqlError as error:
        raise BadRequest(f"the filter is no filter document: {error.message}") from None


def _options(node: Node) -> Document:
    return unpack_document(node.body["options"]) if "options" in node.body else {}


def _names(value: Value) -> Iterator[str]:
    """Yield the names of fields and the texts of a filter, where operators and variables stand."""
    left: list[Value] = [value]
    while left:
        each = left.pop()
        if isinstance(each, dict):
            yield from each
            left += each.values()
        elif isinstance(each, list):
            left += each
        elif isinstance(each, str):
            yield each
