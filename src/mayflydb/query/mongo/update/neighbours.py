"""The parts of the language that updates borrow. They borrow updates' parts in turn, so they are loaded when they are used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.values import Document, Value


class Filter(Protocol):
    """A compiled query."""

    def matches(self, document: Document) -> bool:
        """Whether the document meets it."""


def filter_of(query: Document, env: Env) -> Filter:
    """A query, compiled."""
    from mayflydb.query.mongo.filter import compile_filter  # type: ignore[import-not-found,unused-ignore]

    compiled: Filter = compile_filter(query, env)
    return compiled


def expression_of(spec: Value, env: Env) -> Callable[[Document], Value]:
    """An expression as a function of the document that is `$$ROOT`; it gives MISSING where there is nothing."""
    from mayflydb.query.mongo.expressions import compile_expression, frame_of  # type: ignore[import-not-found,unused-ignore]

    expression = compile_expression(spec, env)
    return lambda document: expression(frame_of(document, env))


def projection_of(spec: Document, env: Env) -> Callable[[Document], Document]:
    """A projection as a function of documents."""
    from mayflydb.query.mongo.projection import compile_projection  # type: ignore[import-not-found,unused-ignore]

    apply: Callable[[Document], Document] = compile_projection(spec, env).apply
    return apply
