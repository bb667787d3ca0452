"""Execution of ORDER BY RANK, and of any query over a few documents."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

from mayflydb.query.cosmos_sql import ranking
from mayflydb.query.cosmos_sql.context import Context
from mayflydb.query.cosmos_sql.query import Accumulator, Query, compile_select
from mayflydb.query.cosmos_sql.syntax import Select
from mayflydb.query.cosmos_sql.values import Value


class Search:
    """An execution of ORDER BY RANK in one round or two over the same documents.

    The caller adds all documents and calls `advance`, and repeats both while `needs_documents`. With full-text scores the
    first round counts their statistics over all documents, whether WHERE keeps them or not. Documents are identified by
    `_rid`.
    """

    __slots__ = ("_accumulators", "_context", "_counting", "_query", "_ranking", "results")

    def __init__(self, query: Query, context: Context) -> None:
        assert query.ranking is not None
        self._query = query
        self._ranking = query.ranking
        self._context = context
        self._counting = bool(self._ranking.texts)
        self.results: list[Value] = []
        empty = ranking.empty_statistics(self._ranking)
        selects = (self._ranking.statistics_query(),) if self._counting else self._components(empty)
        self._accumulators = self._start_accumulators(selects)

    @property
    def needs_documents(self) -> bool:
        """True if another round is needed."""
        return bool(self._accumulators)

    def add(self, document: Value, tie: Any) -> None:
        """Add a document of this round; `tie` as for an accumulator."""
        for accumulator in self._accumulators:
            accumulator.add(document, tie)

    def advance(self) -> None:
        """End this round. After the last round, `results` has the rows."""
        found: list[list[Any]] = [accumulator.results() for accumulator in self._accumulators]
        if self._counting:
            self._counting = False
            # The statistics are known now, and the component queries of the second round are compiled with them.
            self._accumulators = self._start_accumulators(self._components(ranking.parse_statistics(found[0][0])))
            return
        self._accumulators = []
        query = self._query
        stop = None if query.take is None else query.skip + query.take
        self.results = ranking.fuse_ranks(self._ranking.scores, found)[query.skip : stop]

    def _components(self, statistics: ranking.TextStatistics) -> tuple[Select, ...]:
        return self._ranking.components(statistics, self._query.skip + (self._query.take or 0))

    def _start_accumulators(self, selects: tuple[Select, ...]) -> list[Accumulator]:
        query = self._query
        made = (compile_select(query.statement.text, each, query.parameters, query.declared) for each in selects)
        return [each.accumulator(self._context) for each in made]


def run(query: Query, documents: Sequence[Value], context: Context) -> list[Value]:
    """Return all rows of a query over these documents."""
    if query.streams:
        rows = (row for document in documents for row in query.rows(document, context))
        return list(islice(rows, query.skip, None if query.take is None else query.skip + query.take))
    if query.ranking is None:
        accumulator = query.accumulator(context)
        for position, document in enumerate(documents):
            accumulator.add(document, position)
        return accumulator.results()
    search = Search(query, context)
    while search.needs_documents:
        for position, document in enumerate(documents):
            search.add(document, position)
        search.advance()
    return search.results
