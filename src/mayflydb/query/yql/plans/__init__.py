"""Plans: binding of syntax trees to tables and types, and execution over any implementation of `Tables`."""

from __future__ import annotations

from mayflydb.query.yql.plans.explaining import explain
from mayflydb.query.yql.plans.paths import tables_of
from mayflydb.query.yql.plans.plan import Plan, ResultPart
from mayflydb.query.yql.plans.running import execute
from mayflydb.query.yql.plans.script import bind

__all__ = ["Plan", "ResultPart", "bind", "execute", "explain", "tables_of"]
