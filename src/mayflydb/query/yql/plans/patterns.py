"""LIKE, REGEXP and the other pattern operators."""

from __future__ import annotations

import operator

from mayflydb.query.yql.expression import Expression
from mayflydb.query.yql.faults import type_fault
from mayflydb.query.yql.functions.patterns import compile_matcher
from mayflydb.query.yql.plans.binder import HANDLERS, Binder
from mayflydb.query.yql.plans.values import NO_RUN, constant, derive, strict_binary, strict_unary
from mayflydb.query.yql.syntax import Like
from mayflydb.query.yql.types import BOOL, NULL, STRING, UTF8, OptionalType, bare, format_long, is_optional

_SEARCHES = ("REGEXP", "MATCH")
"""Operators that call functions of Re2, where NULL does not match and gives false."""


def bind_like(binder: Binder, tree: Like) -> Expression:
    """Bind a pattern operator. A constant pattern is compiled once."""
    operand, pattern = binder.expression(tree.operand), binder.expression(tree.pattern)
    escape = None if tree.escape is None else binder.expression(tree.escape)
    word = "REGEXP" if tree.operator == "RLIKE" else tree.operator
    for each in (operand, pattern, escape):
        if each is not None and each.type != NULL and bare(each.type) not in (STRING, UTF8):
            raise type_fault(word, f"Expected String or Utf8, but got: {format_long(each.type)}", tree.at)
    if escape is not None and not escape.constant:
        raise type_fault(word, "ESCAPE expects a literal", tree.at)
    if NULL in (operand.type, pattern.type) and word not in _SEARCHES:
        return constant(OptionalType(BOOL), None)
    symbol = None if escape is None else escape.evaluate((), NO_RUN)
    if pattern.constant and (form := pattern.evaluate((), NO_RUN)) is not None:
        found = strict_unary(BOOL, compile_matcher(word, form, symbol, tree.at), operand)
    else:
        found = strict_binary(
            BOOL, lambda value, form: compile_matcher(word, form, symbol, tree.at)(value), operand, pattern
        )
    if word in _SEARCHES:
        found = _null_as_false(found)
    return strict_unary(BOOL, operator.not_, found) if tree.negated else found


def _null_as_false(found: Expression) -> Expression:
    inner = found.evaluate
    return derive(BOOL, lambda row, run: bool(inner(row, run)), found) if is_optional(found.type) else found


HANDLERS[Like] = bind_like
