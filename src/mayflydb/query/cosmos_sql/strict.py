"""Refusals of queries that the service refuses although they could run. A lenient Mayfly runs them.

Sources: the error messages in the public test baselines of https://github.com/Azure/azure-cosmos-dotnet-v3. The parser makes
the refusals that depend on the grammar alone.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from mayflydb.model.errors import BadQuery
from mayflydb.query.cosmos_sql.faults import CARDINALITY, MEMBER_INDEXER, TUNING_RANGE, bad_query, unmapped_order
from mayflydb.query.cosmos_sql.functions.fulltext import is_score
from mayflydb.query.cosmos_sql.functions.vector import DISTANCE, is_measure
from mayflydb.query.cosmos_sql.keys import resolve_constant
from mayflydb.query.cosmos_sql.origins import CONTAINER, Origin, origin_of, origins_of
from mayflydb.query.cosmos_sql.parser import MAX_CACHED_CHARACTERS, parse
from mayflydb.query.cosmos_sql.scope import Parameters, find_aggregate
from mayflydb.query.cosmos_sql.syntax import (
    FromSource,
    FunctionCall,
    Name,
    Object,
    ParsedQuery,
    Path,
    QueryParameter,
    Select,
    Subquery,
    SyntaxNode,
    children,
)
from mayflydb.query.cosmos_sql.values import NUMBERS

_MULTIPLIER: Final = "searchListSizeMultiplier"
_MULTIPLIERS: Final = (1, 100)


def check_service_rules(statement: ParsedQuery, parameters: Parameters) -> None:
    """Raise BadQuery for a query that the service refuses."""
    is_short = len(statement.text) <= MAX_CACHED_CHARACTERS
    refusal = _find_refusal_cached(statement.text) if is_short else _find_refusal(statement.select)
    if refusal is not None:
        # A new error each time: a cached one would collect the tracebacks of all requests.
        raise BadQuery(refusal.message, **refusal.detail)
    if parameters and DISTANCE.lower() in statement.text.lower():
        _check_parameter_options(statement.select, parameters)


@lru_cache(maxsize=512)
def _find_refusal_cached(text: str) -> BadQuery | None:
    return _find_refusal(parse(text).select)


def _find_refusal(select: Select) -> BadQuery | None:
    """Return the refusal that does not depend on the parameters; None if there is none."""
    try:
        _check_select(select)
    except BadQuery as error:
        # The error stays in the cache, and a traceback would keep the frames of this call alive.
        return error.with_traceback(None)
    return None


def _check_parameter_options(select: Select, parameters: Parameters) -> None:
    """Check options of VectorDistance that are parameters or contain parameters."""
    stack: list[SyntaxNode] = [select]
    while stack:
        node = stack.pop()
        if isinstance(node, FunctionCall) and is_measure(node):
            _check_tuning(node, parameters)
        stack.extend(children(node))


def _check_select(select: Select) -> None:
    stack: list[SyntaxNode] = [select]
    while stack:
        node = stack.pop()
        if isinstance(node, Path):
            _check_steps(node)
            stack.append(node.base)
            continue
        if isinstance(node, FunctionCall) and is_measure(node):
            _check_tuning(node, {})
        elif isinstance(node, Subquery) and not node.form and can_give_several_rows(node.select):
            raise bad_query(CARDINALITY, node.start, node.end)
        if isinstance(node, FromSource) and isinstance(node.expression, Subquery):
            # A subquery of FROM may give any number of rows.
            node = node.expression
        stack.extend(children(node))
    _check_order(select)


def can_give_several_rows(select: Select) -> bool:
    """True if a SELECT inside a row can give more than one row, whatever its WHERE."""
    if is_aggregated(select):
        return False
    return any(
        source.unnest or (isinstance(source.expression, Subquery) and can_give_several_rows(source.expression.select))
        for source in select.sources
    )


def is_aggregated(select: Select) -> bool:
    """True if all rows of the SELECT become one."""
    selected = [select.value] if select.value is not None else [item.expression for item in select.items]
    return not select.group_by and any(map(find_aggregate, selected))


def _check_steps(path: Path) -> None:
    for step in path.steps:
        if not _is_constant(step):
            message = "The specified query includes 'member indexer' which is currently not supported."
            raise bad_query(message, path.start, step.end + 1, MEMBER_INDEXER)


def _is_constant(root: SyntaxNode) -> bool:
    stack = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, Name | Subquery):
            return False
        stack.extend(children(node))
    return True


def _check_tuning(call: FunctionCall, parameters: Parameters) -> None:
    options = call.arguments[3] if len(call.arguments) > 3 else None
    if not isinstance(options, Object | QueryParameter):
        return
    if isinstance(options, Object):
        given = (resolve_constant(field.value, parameters)[1] for field in options.fields if field.name == _MULTIPLIER)
        value: Any = next(given, None)
    else:
        held = parameters.get(options.name)
        value = held.get(_MULTIPLIER) if isinstance(held, dict) else None
    low, high = _MULTIPLIERS
    if type(value) in NUMBERS and not low <= value <= high:
        message = (
            f"The '{_MULTIPLIER}' value {value} specified in the VectorDistance function is outside the supported range. "
            f"The value must be between {low} and {high}."
        )
        raise bad_query(message, options.start, options.end, TUNING_RANGE)


def _check_order(select: Select) -> None:
    if is_aggregated(select):
        return  # The one row of an aggregate has no order.
    known = origins_of(select.sources, CONTAINER)
    keys = (order.expression for order in select.order_by if not order.rank)
    origins = {origin_of(key, known).kind for key in keys if not is_measure(key) and not is_score(key)}
    if Origin.COMPUTED in origins:
        raise unmapped_order()
    if Origin.ELEMENTS in origins:
        raise BadQuery("Order-by over correlated collections is not supported.")
