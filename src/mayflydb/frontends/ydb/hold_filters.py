"""Filters of legal holds on tables: predicates of YQL over the columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mayflydb.engine.catalog import Node
from mayflydb.frontends.ydb.rows import RowLayout
from mayflydb.frontends.ydb.schemes.views import table_view
from mayflydb.model.errors import BadRequest
from mayflydb.model.record import Record
from mayflydb.query.yql.faults import Fault
from mayflydb.query.yql.plans.conditions import compile_row_condition
from mayflydb.query.yql.schemas import Row


def row_reader(node: Node) -> Callable[[Record], Row]:
    """Return the function that decodes a row, its values in the order of the columns."""
    view = table_view(node, node.name)
    layout = RowLayout(view)
    pick = layout.column_getter([column.name for column in view.table.columns])
    return lambda record: pick(layout.decode(record.value))


def compile_condition(node: Node, text: str) -> Callable[[Any], bool]:
    """Compile a predicate over the columns of a table. BadRequest, which names what no filter of a hold has."""
    try:
        return compile_row_condition(text, table_view(node, node.name).table.columns)
    except Fault as found:
        raise BadRequest(f"the filter is no condition on a row of {node.name}: {found.message}") from None
