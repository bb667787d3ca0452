"""Queries compiled to filters: the operators at the top level of a query, and fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from bson import Decimal128

from mayflydb.query.mongo.collation import SIMPLE
from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import MqlError, bad_value, failed_to_parse
from mayflydb.query.mongo.filter.comparisons import equality
from mayflydb.query.mongo.filter.fields import FilterScope, element_test, field_condition
from mayflydb.query.mongo.filter.nodes import FilterNode, Leaf, Match, all_of, always, any_of, never, none_of, path_node
from mayflydb.query.mongo.operands import parse_integer
from mayflydb.query.mongo.paths import REFERENCE, split_path
from mayflydb.query.mongo.schema import compile_schema
from mayflydb.query.mongo.text import TextIndex, TextSearch, compile_text
from mayflydb.query.mongo.values import Document, Value, format_value, is_number, is_truthy


class Filter(msgspec.Struct, frozen=True):
    """A compiled query.

    `matches`: whether a document satisfies the query.
    `fields`: the top-level fields that the query reads; None if it may read all.
    `named`: the top-level fields with conditions, the only ones that a positional projection may name.
    """

    matches: Match
    fields: frozenset[str] | None
    named: frozenset[str]
    node: FilterNode

    def find_position(self, document: Document) -> int | None:
        """Return the index of the array element by which a document matches, the one that `$` denotes; None if there
        is none.
        """
        return self.node.locate(document)


def compile_filter(query: Document, env: Env, text: TextIndex | None = None) -> Filter:
    """Compile a query. `text`: the text index of the collection, required for `$text`. MqlError, mostly 2."""
    scope = FilterScope(env, _compile, text)
    node = _compile(query, scope)
    named = frozenset(scope.named)
    return Filter(node.matches, None if scope.reads_all else named, named, node)


def compile_element_filter(operand: Value, env: Env) -> Callable[[Value], bool]:
    """Return the test of `$elemMatch` on one array element, for projections and updates."""
    return element_test(operand, FilterScope(env, _compile))


def text_search(query: Document, text: TextIndex | None) -> TextSearch | None:
    """Return the `$text` of a query, at its top level or within `$and`, for text scores; None if there is none."""
    if "$text" in query:
        return compile_text(query["$text"], text)
    parts = query.get("$and", ())
    return next((found for each in parts if (found := text_search(each, text)) is not None), None)


def has_text_search(query: Value) -> bool:
    """Return whether a query has a `$text` at its top level or within `$and`, `$or` or `$nor`."""
    if type(query) is not dict:
        return False
    return "$text" in query or any(
        has_text_search(each)
        for name in ("$and", "$or", "$nor")
        if type(query.get(name)) is list
        for each in query[name]
    )


MAX_DEPTH: Final = 100
"""The maximum nesting of `$and`, `$or`, `$nor` and `$elemMatch`."""


def _compile(query: Document, scope: FilterScope) -> FilterNode:
    # Compiling is recursive, so the depth of a query is limited before Python's stack is.
    if scope.depth > MAX_DEPTH:
        raise bad_value(f"exceeded maximum query tree depth of {MAX_DEPTH} at {format_value(query)}")
    scope.depth += 1
    node = all_of(_compile_nodes(query, scope))
    scope.depth -= 1
    return node


def _compile_nodes(query: Document, scope: FilterScope) -> list[FilterNode]:
    nodes = []
    for name, operand in query.items():
        if name.startswith("$"):
            node = _compile_top_level(name, operand, scope)
            if node is not None:
                nodes.append(node)
            continue
        parts = split_path(name)
        scope.named.add(parts[0])
        nodes.append(path_node(field_condition(name, operand, scope), parts))
    return nodes


def _compile_top_level(name: str, operand: Value, scope: FilterScope) -> FilterNode | None:
    if name == "$comment":
        return None
    compiler = _TOP_LEVEL.get(name)
    if compiler is None:
        raise bad_value(
            f"unknown top level operator: {name}. If you have a field name that starts with a '$' symbol, "
            "consider using $getField or $setField."
        )
    return compiler(operand, scope)


def _compile_branches(name: str, operand: Value, scope: FilterScope) -> list[FilterNode]:
    if type(operand) is not list:
        raise bad_value(f"{name} must be an array")
    if not operand:
        raise bad_value("$and/$or/$nor must be a nonempty array")
    if any(type(each) is not dict for each in operand):
        raise bad_value("$or/$and/$nor entries need to be full objects")
    return [_compile(each, scope) for each in operand]


def _compile_nor(operand: Value, scope: FilterScope) -> FilterNode:
    # Compiling a branch counts its `$text`, at any depth.
    text_count = scope.text_count
    node = none_of(_compile_branches("$nor", operand, scope))
    if scope.text_count > text_count:
        raise bad_value("text not allowed in nor")
    return node


def _compile_expr(operand: Value, scope: FilterScope) -> FilterNode:
    if scope.in_element:
        raise bad_value("$expr can only be applied to the top-level document")
    # Imported here because expressions import filters.
    from mayflydb.query.mongo.expressions import compile_expression, frame_of

    env = scope.env
    scope.reads_all = True
    expression = compile_expression(operand, env, tuple(env.variables))
    return FilterNode(lambda document: is_truthy(expression(frame_of(document, env))))


def _compile_json_schema(operand: Value, scope: FilterScope) -> FilterNode:
    if type(operand) is not dict:
        raise MqlError(14, "$jsonSchema must be an object")
    scope.reads_all = True
    return FilterNode(compile_schema(operand).matches)


def _compile_text(operand: Value, scope: FilterScope) -> FilterNode:
    if scope.in_element:
        raise bad_value("$text can only be applied to the top-level document")
    if scope.text_count:
        raise bad_value("Too many text expressions")
    scope.text_count += 1
    scope.reads_all = True
    return FilterNode(compile_text(operand, scope.text).matches)


def _refuse_where(_: Value, __: FilterScope) -> FilterNode:
    raise MqlError(238, "$where is not supported: no JavaScript runs in queries")


def _compile_sample_rate(operand: Any, scope: FilterScope) -> FilterNode:
    if not is_number(operand):
        raise bad_value("argument to $sampleRate must be a numeric type")
    rate = float(operand.to_decimal()) if type(operand) is Decimal128 else float(operand)
    if not 0 <= rate <= 1:
        raise bad_value("numeric argument to $sampleRate must be in [0, 1]")
    random = scope.env.random
    return FilterNode(lambda _: random() < rate)


def _constant_compiler(name: str, match: Match) -> Callable[[Value, FilterScope], FilterNode]:
    def compile_constant(operand: Value, _: FilterScope) -> FilterNode:
        if parse_integer(name, operand) != 1:
            raise failed_to_parse(f"{name} must be an integer value of 1")
        return FilterNode(match)

    return compile_constant


def _reference_compiler(name: str) -> Callable[[Value, FilterScope], FilterNode]:
    """Return the compiler of `$ref`, `$id` or `$db`: equality of the field of that name. Only `$id` compares by the
    collation.
    """

    def compile_part(operand: Value, scope: FilterScope) -> FilterNode:
        scope.named.add(name)
        collation = scope.env.collation if name == "$id" else SIMPLE
        return path_node(Leaf(equality(operand, collation)), (name,))

    return compile_part


_TOP_LEVEL: Final[Mapping[str, Callable[[Value, FilterScope], FilterNode]]] = {
    "$and": lambda operand, scope: all_of(_compile_branches("$and", operand, scope)),
    "$or": lambda operand, scope: any_of(_compile_branches("$or", operand, scope)),
    "$nor": _compile_nor,
    "$expr": _compile_expr,
    "$jsonSchema": _compile_json_schema,
    "$text": _compile_text,
    "$where": _refuse_where,
    "$sampleRate": _compile_sample_rate,
    "$alwaysTrue": _constant_compiler("$alwaysTrue", always),
    "$alwaysFalse": _constant_compiler("$alwaysFalse", never),
    **{name: _reference_compiler(name) for name in REFERENCE},
}
