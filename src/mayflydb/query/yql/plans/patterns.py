"""LIKE, REGEXP and their kin."""

from __future__ import annotations

from mayflydb.query.yql.expression import Expression
from mayflydb.query.yql.faults import unsupported
from mayflydb.query.yql.plans.binder import HANDLERS, Binder
from mayflydb.query.yql.syntax import Like


def like(binder: Binder, tree: Like) -> Expression:
    raise unsupported(tree.operator, tree.at)


HANDLERS[Like] = like
