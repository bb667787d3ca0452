"""Compiled queries: compiled once for their parameters and used for all pages of a request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from mayflydb.query.cosmos_sql.aggregates import ValueCount
from mayflydb.query.cosmos_sql.bounds import Bounds, bounds_of
from mayflydb.query.cosmos_sql.cheapness import has_small_rows, is_cheap
from mayflydb.query.cosmos_sql.context import Context
from mayflydb.query.cosmos_sql.declarations import NO_DECLARATIONS, Declarations
from mayflydb.query.cosmos_sql.execute import (
    Accumulation,
    GroupedAccumulation,
    Program,
    RowPosition,
    SortedAccumulation,
    bind_rows,
    collect_rows,
    rows,
    start_accumulation,
)
from mayflydb.query.cosmos_sql.faults import bad_query
from mayflydb.query.cosmos_sql.key_values import find_key_values
from mayflydb.query.cosmos_sql.keys import KeyPath, filter_paths, sort_paths
from mayflydb.query.cosmos_sql.operators import Constant, Frame
from mayflydb.query.cosmos_sql.parser import parse
from mayflydb.query.cosmos_sql.ranking import empty_statistics, ranking_of
from mayflydb.query.cosmos_sql.reads import find_read_properties
from mayflydb.query.cosmos_sql.scope import Parameters, find_aggregate
from mayflydb.query.cosmos_sql.select import SelectCompiler
from mayflydb.query.cosmos_sql.sizes import check_size
from mayflydb.query.cosmos_sql.strict import check_service_rules
from mayflydb.query.cosmos_sql.syntax import FunctionCall, ParsedQuery, Select, SyntaxNode, children, is_identity
from mayflydb.query.cosmos_sql.values import UNDEFINED, Value


class Query:
    """A compiled query. It is immutable; executions keep their state in a Context and an Accumulator.

    `is_cheap`: the time for a document is linear, with a small factor, in the sizes of document and text.

    `needs_merge`: the rows of several partitions must be merged, not only appended.

    `has_blocking_source`: FROM begins with a subquery that gives no row before it has read every document, so that the
    results of partitions cannot be merged.

    `streams`: each document gives its rows by itself through `rows`; the caller then drops the first `skip` rows and stops
    after `take` more (None: never).

    `is_identity`: a streaming query whose rows are the documents themselves, so that a caller with their bytes needs only
    `matches`.

    `reads`: the properties of the document that the query reads; None: any of them.

    `reads_documents`: false for a query without FROM, whose one row an accumulator gives without any document.

    `ranking`: present for ORDER BY RANK, which only a Search executes.
    """

    __slots__ = (
        "_bounds",
        "_empty_slots",
        "_where",
        "declared",
        "has_blocking_source",
        "has_small_rows",
        "is_cheap",
        "is_identity",
        "needs_merge",
        "parameters",
        "program",
        "ranking",
        "reads",
        "reads_documents",
        "skip",
        "statement",
        "streams",
        "take",
    )  # fmt: skip

    def __init__(
        self, statement: ParsedQuery, parameters: Parameters, declared: Declarations, program: Program, slots: int
    ) -> None:
        select = statement.select
        self.statement = statement
        self.parameters = parameters
        self.declared = declared
        self.program = program
        self.ranking = ranking_of(select, parameters)
        self.reads_documents = bool(select.sources)
        self.streams = program.streams and self.reads_documents and self.ranking is None
        self.skip = program.skip
        self.take = program.take
        self.has_blocking_source = program.blocking_source is not None
        self.needs_merge = self.has_blocking_source or needs_merge(select)
        # Set by `compile_query`; a rewritten query is never taken for a cheap one.
        self.is_cheap = self.has_small_rows = False
        self.is_identity = self.streams and is_identity(select)
        self.reads = find_read_properties(select, self.is_identity, declared.computed)
        self._where = program.where
        self._bounds: Bounds | None = None
        # The slots of the frame behind the context and the document.
        self._empty_slots: list[Value] = [UNDEFINED] * (slots - 2)

    def matches(self, document: Value, context: Context) -> bool:
        """True if some row of the document passes WHERE."""
        if self.has_blocking_source:
            return bool(collect_rows(self.program, self._frame(document, context)))
        if self.program.inputs:
            return any(True for _ in bind_rows(self.program, self._frame(document, context)))
        where = self._where
        return where is None or where([context, document, *self._empty_slots]) is True

    def rows(self, document: Value, context: Context) -> Iterable[Value]:
        """The result rows of one document, for a query that streams: JSON values, before `skip` and `take`."""
        frame = self._frame(document, context)
        if self.program.inputs:
            return rows(self.program, frame)
        # The usual case is a document that is its own only row: it needs no generators.
        if self._where is not None and self._where(frame) is not True:
            return ()
        value = self.program.project(frame)
        return () if value is UNDEFINED else (value,)

    @property
    def has_condition(self) -> bool:
        """True if WHERE, or a source of FROM, may leave out documents."""
        return self._where is not None or bool(self.program.inputs) or self.has_blocking_source

    def value_of(self, context: Context) -> Callable[[Value], Value] | None:
        """Return the function from a document to its row, or UNDEFINED; None: a document may give several rows."""
        program, where, project, empty = self.program, self._where, self.program.project, self._empty_slots
        if program.inputs or not self.streams:
            return None

        def find_row(document: Value) -> Value:
            frame = [context, document, *empty]
            return UNDEFINED if where is not None and where(frame) is not True else project(frame)

        return find_row

    def encode(self, row: Value) -> bytes:
        """Return a row as JSON. BadQuery for one that is larger than MAX_VALUE_BYTES."""
        if not self.has_small_rows:
            check_size(row)
        return msgspec.json.encode(row)

    @property
    def counts_only(self) -> bool:
        """True if every document counts the same: COUNT of a constant over all documents."""
        grouping = self.program.grouping
        return (
            grouping is not None
            and self.reads_documents
            and not self.has_condition
            and self.reads == frozenset()
            and not grouping.keys
            and all(
                state is ValueCount and isinstance(argument, Constant) for _, state, argument in grouping.aggregates
            )
        )

    def accumulator(self, context: Context) -> Accumulator:
        """Start an execution of the whole query."""
        assert self.ranking is None
        return Accumulator(self, context, start_accumulation(self.program))

    @property
    def can_resume(self) -> bool:
        """True if a page can begin behind the sort values of a row: ORDER BY, without groups and DISTINCT."""
        program = self.program
        return (
            bool(program.orders)
            and program.grouping is None
            and not program.distinct
            and program.blocking_source is None
        )

    def sorted_page(self, context: Context, after: RowPosition | None, rows: int) -> SortedPage:
        """Start an execution that gives at most `rows` rows behind the position `after`, for a query that can resume."""
        return SortedPage(self, context, SortedAccumulation(self.program, after, rows))

    def key_equalities(self, paths: Sequence[KeyPath]) -> list[tuple[Value, ...]] | None:
        """The partition keys that WHERE admits, as tuples over `paths`; None if WHERE does not fix every path.

        The keys are a superset: WHERE must still be applied. An empty list means that no key can match.
        """
        fixed = self.key_prefixes(paths)
        return fixed if fixed is None or not fixed or len(fixed[0]) == len(paths) else None

    def key_prefixes(self, paths: Sequence[KeyPath]) -> list[tuple[Value, ...]] | None:
        """The key prefixes that WHERE admits, over as many leading paths as it fixes; None if it does not fix the first path."""
        if isinstance(self._where, Constant) and self._where.value is not True:
            return []
        return find_key_values(self.statement.select, self.parameters, paths)

    def sort_paths(self) -> tuple[tuple[KeyPath | None, bool], ...]:
        """ORDER BY as pairs (path of the document, descending); the path is None for any other sort key."""
        return sort_paths(self.statement.select)

    def filter_paths(self) -> list[KeyPath]:
        """The paths of the document that occur in WHERE."""
        return filter_paths(self.statement.select)

    def bounds(self) -> Bounds:
        """The spans of index keys that WHERE admits, by path: a superset, so WHERE must still be applied."""
        if self._bounds is None:
            self._bounds = bounds_of(self.statement.select, self.parameters)
        return self._bounds

    def _frame(self, document: Value, context: Context) -> Frame:
        return [context, document, *self._empty_slots]


class Accumulator:
    """Collects documents and gives the query's result: groups, DISTINCT, order, TOP, OFFSET and LIMIT included."""

    __slots__ = ("_accumulation", "_context", "_count", "_query", "matched")

    def __init__(self, query: Query, context: Context, accumulation: Accumulation) -> None:
        self._query = query
        self._context = context
        self._accumulation = accumulation
        self._count = 0
        self.matched = 0
        """The number of FROM's rows that passed WHERE."""
        if not query.reads_documents:
            # A query without FROM has one row, which no document gives.
            self._add_document(UNDEFINED, 0)

    @property
    def full(self) -> bool:
        """True if further documents cannot change the result."""
        return not self._query.reads_documents or self._accumulation.full

    def add(self, document: Value, tie: Any = None) -> None:
        """Add a document. Rows with equal sort keys are ordered by `tie`, by default in the order of the calls."""
        self._count += 1
        if self._query.reads_documents:
            self._add_document(document, self._count if tie is None else tie)

    def _add_document(self, document: Value, tie: Any) -> None:
        frame = self._query._frame(document, self._context)  # noqa: SLF001 -- the two are one unit
        self.matched += self._accumulation.add_document(frame, tie)

    def count_all(self, documents: int) -> bool:
        """Add so many documents at once, if nothing of them is read; False if they must be added one by one."""
        accumulation, query = self._accumulation, self._query
        if not isinstance(accumulation, GroupedAccumulation) or not query.counts_only:
            return False
        self._count += documents
        self.matched += documents
        accumulation.count_rows(query._frame(UNDEFINED, self._context), documents)  # noqa: SLF001 -- the two are one unit
        return True

    def results(self) -> list[Value]:
        """The result rows. Call it once, after the last document."""
        return self._accumulation.results(self._query._frame(UNDEFINED, self._context))  # noqa: SLF001 -- as above


class SortedPage(Accumulator):
    """Collects documents for one page of a sorted result."""

    __slots__ = ("_sorted",)

    def __init__(self, query: Query, context: Context, accumulation: SortedAccumulation) -> None:
        super().__init__(query, context, accumulation)
        self._sorted = accumulation

    @property
    def is_satisfied(self) -> bool:
        """True if the page has enough rows, provided that no later document sorts before an earlier one."""
        return self._sorted.is_satisfied

    def positioned_rows(self) -> list[tuple[Value, RowPosition]]:
        """The page's rows in order, each with the position behind which another page can begin."""
        return self._sorted.positioned_rows()


def functions_in(text: str) -> list[str]:
    """The names of the user-defined functions that a query calls, one for each call. BadQuery for a wrong text."""
    # Most queries call no user-defined function and need no second look at their tree.
    if "udf" not in text.lower():
        return []
    found: list[str] = []
    nodes: list[SyntaxNode] = [parse(text, lenient=True).select]
    while nodes:
        node = nodes.pop()
        if isinstance(node, FunctionCall) and node.udf:
            found.append(node.name)
        nodes += children(node)
    return found


def needs_merge(select: Select) -> bool:
    """True for ORDER BY, DISTINCT, GROUP BY, TOP, OFFSET LIMIT and aggregates."""
    selected = [select.value] if select.value is not None else [item.expression for item in select.items]
    return bool(
        select.order_by
        or select.distinct
        or select.group_by
        or select.top is not None
        or select.offset is not None
        or any(map(find_aggregate, selected))
    )


def compile_query(
    text: str, parameters: Parameters, declared: Declarations = NO_DECLARATIONS, *, lenient: bool = False
) -> Query:
    """Compile a query text with its parameters (`@name` -> decoded JSON); BadQuery or Unsupported.

    `declared`: the declarations of the container. `lenient`: run queries that the service refuses but Mayfly can run.
    """
    statement = parse(text, lenient)
    query = compile_select(text, statement.select, parameters, declared)
    # A computed property may hide any expression behind a name.
    query.is_cheap = query.ranking is None and not declared.computed and is_cheap(statement, lenient)
    query.has_small_rows = query.is_cheap and has_small_rows(statement, lenient)
    if not lenient:
        check_service_rules(statement, parameters)
    if query.ranking is not None:
        # A ranking is compiled again with its statistics; this compilation reports the errors of its scores.
        for select in (
            query.ranking.statistics_query(),
            query.ranking.components(empty_statistics(query.ranking), 0)[0],
        ):
            compile_select(text, select, parameters, declared)
    return query


def compile_select(text: str, select: Select, parameters: Parameters, declared: Declarations) -> Query:
    """Compile a syntax tree that was parsed, or rewritten, from `text`."""
    selects = SelectCompiler(parameters, declared)
    try:
        program = selects.compile_select(select, container=bool(select.sources))
    except RecursionError:
        raise bad_query("The query is nested too deeply.", 0, len(text)) from None
    return Query(ParsedQuery(text, select), parameters, declared, program, selects.slots.count)
