"""FLATTEN BY."""

from __future__ import annotations

from mayflydb.query.yql.faults import unsupported
from mayflydb.query.yql.plans.binder import Context
from mayflydb.query.yql.plans.scopes import Names
from mayflydb.query.yql.plans.sources import Bound
from mayflydb.query.yql.syntax import Item, Source


def flattened(
    context: Context, names: Names, bound: Bound, alias: str, flatten: tuple[str, tuple[Item, ...]], source: Source
) -> Bound:
    raise unsupported("FLATTEN BY", source.at)
