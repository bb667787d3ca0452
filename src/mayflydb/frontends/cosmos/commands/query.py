"""Queries over items, query plans, and the feed of a container's items."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from mayflydb.clock import monotonic_us
from mayflydb.engine import prices
from mayflydb.engine.scans import Scope
from mayflydb.evaluation.statement import Statement
from mayflydb.frontends.cosmos import queries
from mayflydb.frontends.cosmos.calls import CosmosCall
from mayflydb.frontends.cosmos.commands.metadata import page_size
from mayflydb.frontends.cosmos.headers import (
    CONTINUATION,
    ENABLE_CROSS_PARTITION,
    ITEM_COUNT,
    PARTITION_KEY,
    POPULATE_QUERY_METRICS,
    QUERY_EXECUTION_INFO,
    QUERY_METRICS,
    SUPPORTED_QUERY_FEATURES,
)
from mayflydb.frontends.cosmos.index_metrics import index_metrics
from mayflydb.frontends.cosmos.page_rows import PageStart
from mayflydb.frontends.cosmos.pages import Page, Pager
from mayflydb.frontends.cosmos.partition_key import KeyValues
from mayflydb.frontends.cosmos.query_tokens import QueryTokens
from mayflydb.frontends.cosmos.resources import feed_body
from mayflydb.frontends.cosmos.scopes import admit, named_range, resolve_scope
from mayflydb.frontends.cosmos.scripting.functions import (
    ReadsScanner,
    find_functions,
    function_caller,
    wanted_functions,
)
from mayflydb.frontends.cosmos.scripting.sandbox import TimeBudget
from mayflydb.frontends.cosmos.scripting.threads import LoopProxy
from mayflydb.frontends.cosmos.views import ContainerView
from mayflydb.frontends.cosmos.wire import Response, json_response
from mayflydb.model.errors import BadRequest
from mayflydb.query.cosmos_sql import Query, check_blocking_source
from mayflydb.query.cosmos_sql import plan as make_plan

SELECT_ALL = "SELECT * FROM c"
CROSS_PARTITION_DISABLED = (
    "Cross partition query is required but disabled. Please set x-ms-documentdb-query-enablecrosspartition to true, specify "
    "x-ms-documentdb-partitionkey, or revise your query to avoid this exception."
)
NEEDS_PLAN = (
    "The provided cross partition query can not be directly served by the gateway. This is a first chance (internal) exception "
    "that all newer clients will know how to handle gracefully. This exception is traced, but unless you see it bubble up as an "
    "exception (which only happens on older SDK clients), then you can safely ignore this message."
)
ORDER_OF_TIES = (QUERY_EXECUTION_INFO, b'{"reverseRidEnabled":false,"reverseIndexScan":false}')
"""Tells clients that rows with equal sort keys come by ascending rid, in descending order too.

A client that resumes from its own token skips rows by rid. Without this header it assumes that rids descend where the first key
does (`OrderByUtils` of azure-cosmos, https://github.com/Azure/azure-sdk-for-java).
"""

TIME_METRICS = (
    "queryCompileTimeInMs", "queryLogicalPlanBuildTimeInMs", "queryPhysicalPlanBuildTimeInMs", "queryOptimizationTimeInMs",
    "VMExecutionTimeInMs", "indexLookupTimeInMs", "documentLoadTimeInMs", "systemFunctionExecuteTimeInMs",
    "userFunctionExecuteTimeInMs", "writeOutputTimeInMs",
)  # fmt: skip
ALL_FEATURES = frozenset({
    "Aggregate", "CompositeAggregate", "CountIf", "Distinct", "GroupBy", "HybridSearch", "ListAndSetAggregate",
    "MultipleAggregates", "MultipleOrderBy", "NonStreamingOrderBy", "NonValueAggregate", "OffsetAndLimit", "OrderBy", "Top",
    "WeightedRankFusion",
})  # fmt: skip


async def read_feed(call: CosmosCall) -> Response:
    """GET …/docs: every item, in creation order."""
    view = await call.get_owning_container()
    statement = call.statement()
    query = await queries.compile_text(statement, SELECT_ALL, {}, lenient=False)
    scope, named = resolve_scope(call, view, None)
    return await _answer_page(call, statement, view, query, scope, ("", None), named=named)


async def execute(call: CosmosCall) -> Response:
    """POST …/docs with a query."""
    view = await call.get_owning_container()
    statement = call.statement()
    query, functions = await _compile(call, statement, view)
    queries.check_composite_order(query, view.composite_orders)
    scope, named = resolve_scope(call, view, None)
    if not named:
        weight = len(query.statement.text) * queries.COMPILE_WEIGHT
        scope = await statement.call(weight, _scope_of_query, call, view, query)
    elif PARTITION_KEY not in call.request.headers and scope != Scope():
        # The client asks range after range and appends the rows. That is wrong for a source that needs all documents
        # first.
        check_blocking_source(query, len(view.ranges))
    text_and_parameters = query.statement.text, query.parameters
    return await _answer_page(call, statement, view, query, scope, text_and_parameters, functions, named=named)


def _scope_of_query(call: CosmosCall, view: ContainerView, query: Query) -> Scope:
    """Return the scope of a query without scope headers: the key that WHERE fixes, or the whole container.

    BadRequest if the client does not permit a query across partitions, or (1004, with a plan) if it must merge the results.
    """
    account = call.account
    crosses = call.request.flag(ENABLE_CROSS_PARTITION)
    needs_plan = query.needs_merge and not account.merges_queries
    keys = query.key_equalities(view.key.segments)
    # The service asks a client that may cross partitions to merge groups also where WHERE fixes the key. So a client that
    # cannot merge them is refused.
    merges_groups = crosses and needs_plan and query.program.grouping is not None and not account.lenient
    if keys is not None and len(keys) == 1 and not merges_groups:
        return view.scope_of_key(_key_values(keys[0]))
    if not crosses:
        raise BadRequest(CROSS_PARTITION_DISABLED)
    if needs_plan:
        # The client has not said what it can merge, so the plan in this error may use everything.
        plan = msgspec.json.encode(_build_plan(view, query, ALL_FEATURES)).decode()
        raise BadRequest(NEEDS_PLAN, substatus=1004, additional_error_info=plan)
    return Scope()


async def plan(call: CosmosCall) -> Response:
    """POST …/docs with x-ms-cosmos-is-query-plan-request: the plan by which a client runs a query over all partitions."""
    view = await call.get_owning_container()
    listed = call.request.text(SUPPORTED_QUERY_FEATURES) or ""
    features = frozenset(feature.strip() for feature in listed.split(","))
    statement = call.statement()
    query, _ = await _compile(call, statement, view)
    weight = len(query.statement.text) * queries.COMPILE_WEIGHT
    return json_response(200, await statement.call(weight, _build_plan, view, query, features), charge=prices.METADATA)


async def _compile(call: CosmosCall, statement: Statement, view: ContainerView) -> tuple[Query, Mapping[str, str]]:
    """Compile the query of a request. Return it, and the texts of the user-defined functions that it calls, by name."""
    account = call.account
    text, parameters = await queries.parse_body(statement, call.request.body, account.limits)
    wanted = await statement.call(len(text) * queries.COMPILE_WEIGHT, wanted_functions, text)
    functions = await find_functions(call.engine.reads, view.id, wanted)
    declared = view.declarations_with(functions.keys())
    return await queries.compile_text(statement, text, parameters, declared, lenient=account.lenient), functions


def _build_plan(view: ContainerView, query: Query, features: frozenset[str]) -> dict[str, Any]:
    def range_of(values: tuple[Any, ...]) -> tuple[str, str]:
        lower, upper = view.key.prefix_range(_key_values(values))
        full = len(values) == len(view.key.paths)
        # A full key is a point: its least and greatest EPK are equal.
        return lower.hex().upper(), lower.hex().upper() if full else upper.hex().upper()

    return make_plan(query, features, view.key.segments, range_of, len(view.ranges))


def _key_values(values: tuple[Any, ...]) -> KeyValues:
    # WHERE compares with constants of the types of keys (`find_key_values`), which the type checker does not know.
    return values


async def _answer_page(
    call: CosmosCall, statement: Statement, view: ContainerView, query: Query, scope: Scope, text_and_parameters: tuple[str, Any],
    functions: Mapping[str, str] = MappingProxyType({}), *, named: bool,
) -> Response:  # fmt: skip
    """`named`: the headers name the scope."""
    # As in the service, a page over a whole container has rows of one range, and the next page may be of the next range.
    in_turn = not named and scope == Scope() and not query.needs_merge and query.reads_documents
    secret, restores = call.account.secret, call.engine.restores
    tokens = QueryTokens(secret, view, scope, text_and_parameters, restores, in_turn=in_turn)
    start = tokens.start(call.request.headers.get(CONTINUATION, b"").decode("latin-1"))
    scope = tokens.scope
    # The price is known after the page only. The least price is held, and the rest settled then.
    call.spending = admit(call, view, scope, prices.query(0, 0, 0))
    lsn = await call.read_session_lsn(view)
    started = monotonic_us()
    page = await _read_page(call, statement, view, query, scope, start, functions)
    headers = [*view.scope_headers(scope, lsn, named_range(call)), (ITEM_COUNT, b"%d" % len(page.rows))]
    if call.request.flag(POPULATE_QUERY_METRICS):
        headers.append((QUERY_METRICS, _format_metrics(page, monotonic_us() - started)))
    if query.sort_paths():
        headers.append(ORDER_OF_TIES)
    headers += index_metrics(call.request, view, query, scope)
    if page.next is None and in_turn and (following := view.scope_after(scope)) is not None:
        tokens.scope, page.next = following, PageStart()
    if page.next is not None:
        headers.append((CONTINUATION, tokens.token(page.next).encode()))
    return Response(200, feed_body(view.links.rid, "Documents", page.rows), headers, page.charge)


async def _read_page(
    call: CosmosCall, statement: Statement, view: ContainerView, query: Query, scope: Scope, start: PageStart,
    functions: Mapping[str, str],
) -> Page:  # fmt: skip
    """Read a page. Queries with user-defined functions run on a thread and within the time of scripts."""
    size = page_size(call)
    if not functions:
        pager = Pager(
            call.engine,
            view,
            query,
            scope,
            call.now,
            size,
            engine=call.engine,
            computing=statement,
            room=call.request.arrived,
        )
        call.reads = pager.read_counts
        page = await pager.read(start)
        if query.ranking is None:
            call.index_demand.record_scan(view, query, scope, pager.read_counts.records - pager.matched)
        return page
    time_budget = TimeBudget(call.account.scripts)

    async def work(proxy: LoopProxy) -> Page:
        user_functions = function_caller(functions, time_budget, call.now)
        return await Pager(ReadsScanner(proxy), view, query, scope, call.now, size, user_functions).read(start)

    return await call.threads.run(work, time_budget)


def _format_metrics(page: Page, elapsed_us: int) -> bytes:
    """Format all properties that the service sends, since the Java client requires each of them.

    Only the total time is measured; its parts are 0.
    https://learn.microsoft.com/azure/cosmos-db/nosql/query-metrics
    """
    counts = {
        "retrievedDocumentCount": page.read_counts.records,
        "retrievedDocumentSize": page.read_counts.size,
        "outputDocumentCount": len(page.rows),
        "outputDocumentSize": sum(map(len, page.rows)),
    }
    parts = [f"totalExecutionTimeInMs={elapsed_us / 1000:.2f}", *(f"{part}=0.00" for part in TIME_METRICS)]
    parts += [*(f"{name}={count}" for name, count in counts.items()), f"indexUtilizationRatio={page.hit_ratio:.2f}"]
    return ";".join(parts).encode()
