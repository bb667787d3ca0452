"""One execution of a query in a transaction, and its results."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Final, TypeAlias

import msgspec

from mayflydb.evaluation.statement import Statement
from mayflydb.expiry.as_of import check_as_of, is_past
from mayflydb.frontends.ydb.calls import GrpcCall
from mayflydb.frontends.ydb.crossing import ON_LOOP, Crossing, FromThread
from mayflydb.frontends.ydb.direct import DirectTables
from mayflydb.frontends.ydb.environment import Environment
from mayflydb.frontends.ydb.query_cache import PreparedQuery
from mayflydb.frontends.ydb.store_tables import RowCounts, StoreTables
from mayflydb.frontends.ydb.transactions import READ_ONLY_MODES, OpenTransaction, Transactions, write_refusal
from mayflydb.model.errors import OwnerNotFound, WriteConflict
from mayflydb.query.yql import plans
from mayflydb.query.yql.faults import Issue, fault
from mayflydb.query.yql.plans import Plan
from mayflydb.query.yql.plans.effort import Effort
from mayflydb.query.yql.schemas import Row, Tables
from mayflydb.query.yql.statements import Delete, Script, Update, Write
from mayflydb.query.yql.statements import Statement as StatementTree
from mayflydb.query.yql.types import Type, Value

SMALL_REQUEST: Final = 16 << 10
"""Bytes of a request whose parameters are handled in about a millisecond."""

Columns: TypeAlias = tuple[tuple[str, Type], ...]


class QueryStats(msgspec.Struct, frozen=True):
    """Statistics of a query: numbers of rows by table, whether the plan was cached, and the microseconds of planning
    and of the whole.
    """

    row_counts: Mapping[str, RowCounts]
    cached: bool
    planning_us: int
    total_us: int
    plan: Plan

    @property
    def plan_json(self) -> str:
        """The plan as JSON."""
        return explain_plan(self.plan)


def explain_plan(plan: Plan) -> str:
    """Return a plan as JSON."""
    return json.dumps(plans.explain(plan))


class ResultPart(msgspec.Struct, frozen=True):
    """Some rows of one result set; none where `index` is -1.

    Each result set has at least one part, which may have no rows. A query without result sets has one part with the
    index -1. `tx_id`, in all parts: the transaction that stays open, or "". `stats`: in the last part, if requested.
    `warnings`: those of the plan, in the first part.
    """

    index: int
    columns: Columns
    rows: Sequence[Row]
    tx_id: str = ""
    stats: QueryStats | None = None
    warnings: tuple[Issue, ...] = ()


class PlanTiming(msgspec.Struct, frozen=True):
    """The part of the statistics that is known before the run: whether the plan was cached, the begin of the call, and
    the microseconds of planning.
    """

    cached: bool
    began_us: int
    planning_us: int


class QueryRun:
    """One query, run in a transaction; again in another one after a write conflict.

    `timing` None: no statistics are requested. `streams`: the caller holds few of the rows at a time.
    """

    def __init__(
        self,
        environment: Environment,
        call: GrpcCall,
        statement: Statement,
        script: Script,
        prepared: PreparedQuery,
        parameters: Mapping[str, Value],
    ) -> None:
        self.call = call
        self.statement = statement
        self.script = script
        self.prepared = prepared
        self.timing: PlanTiming | None = None
        self.streams = False
        self._is_past = False
        self._environment = environment
        self._parameters = parameters

    async def run(
        self, transactions: Transactions | None, transaction: OpenTransaction, commit: bool
    ) -> AsyncGenerator[ResultPart, None]:
        """Run in a transaction and yield the results.

        The transaction ends if it is to commit or roll back, or if anything fails. Faults as of `execute`.
        """
        plan = self.prepared.plan
        commit = commit or plan.commit
        # An empty id tells the client that the transaction is over.
        id = "" if commit or plan.rollback else transaction.id
        # Results are held back until the commit has succeeded. Otherwise a client could see rows of a transaction that
        # then fails. A transaction that only reads cannot fail at its end.
        holds_back = commit and not (
            plan.read_only and (transaction.snapshot is None or not transaction.snapshot.written)
        )
        held_back: list[ResultPart] = []
        row_counts: dict[str, RowCounts] = {}
        self.call.row_counts.append(row_counts)
        try:
            if plan.writes and transaction.mode in READ_ONLY_MODES:
                writes = (each for each in self.script.statements if isinstance(each, (Write, Update, Delete)))
                raise write_refusal(next(map(verb_of, writes), "Write"))
            if plan.as_of is not None:
                self._begin_as_of(plan, transactions is None)
            crossing = self._choose_crossing(holds_back)
            tables = await self._open_tables(transaction, transactions is None, row_counts, crossing)
            async with aclosing(self._run_plan(tables, id, crossing)) as parts:
                async for part in parts:
                    # The latest part is always held: the last one carries the statistics.
                    if held_back and not holds_back:
                        yield held_back.pop()
                    held_back.append(part)
            if commit and not plan.rollback:
                # A query without a snapshot writes here, and `commit` has nothing to do; otherwise `finish` does
                # nothing.
                await tables.finish()
                await transaction.commit(self.call.now)
        except (WriteConflict, OwnerNotFound) as error:
            _end_transaction(transactions, transaction)
            raise await self._environment.conflict_fault(error, self.prepared.views) from error
        # Cancelled calls and clients that have gone included: their transaction must not stay open.
        except BaseException:
            _end_transaction(transactions, transaction)
            raise
        if not id:
            _end_transaction(transactions, transaction)
        for part in held_back[:-1]:
            yield part
        yield self._with_stats(held_back[-1] if held_back else ResultPart(-1, (), (), id), row_counts)

    def _begin_as_of(self, plan: Plan, alone: bool) -> None:
        """Make the instant of the plan that of the call. BAD_REQUEST for a query that writes, or has company."""
        assert plan.as_of is not None
        if not plan.read_only:
            raise fault("PRAGMA mayfly.AsOf is not supported by Mayfly for queries that write", status="BAD_REQUEST")
        if not alone:
            text = "PRAGMA mayfly.AsOf is not supported by Mayfly in a transaction that stays open"
            raise fault(text, status="BAD_REQUEST")
        at = check_as_of(plan.as_of)
        # A repeated run has the instant already.
        if self.call.now != at:
            self._is_past = is_past(at, self.call.now)
            self.call = msgspec.structs.replace(self.call, now=at)

    @property
    def is_small(self) -> bool:
        """True if the query handles few rows."""
        return self.prepared.effort is Effort.SMALL and self.call.size <= SMALL_REQUEST

    def _choose_crossing(self, holds_back: bool) -> Crossing:
        """Return how the plan reaches the event loop: a small plan of a small request is run there itself.

        `holds_back`: the results are collected in memory. That is watched on threads alone.
        """
        small = self.is_small
        self.statement.cheap = small or (
            self.prepared.effort is not Effort.UNBOUNDED and self.call.size <= SMALL_REQUEST
        )
        streams = self.streams and not holds_back and self.prepared.effort is Effort.STREAMING
        return ON_LOOP if small else FromThread(self.statement, streams)

    async def _open_tables(
        self, transaction: OpenTransaction, alone: bool, row_counts: dict[str, RowCounts], crossing: Crossing
    ) -> DirectTables | StoreTables:
        """Return the tables of a transaction. `alone`: the transaction has no other query, and may need no snapshot."""
        environment, plan, views = self._environment, self.prepared.plan, self.prepared.views

        async def open_snapshot_tables() -> StoreTables:
            if transaction.snapshot is None:
                # A transaction that writes nothing has no conflicts, so its reads need no record.
                writes = not (alone and plan.read_only)
                if self._is_past:
                    transaction.snapshot = await environment.past_snapshot(self.call, views)
                else:
                    transaction.snapshot = await environment.snapshot(
                        self.call, transaction.mode, writes, plan.as_of is not None, transaction.contended
                    )
            return environment.tables(transaction.snapshot, views, transaction.mode, row_counts, crossing)

        # A plan without tables reads nothing, so it needs no snapshot in any transaction.
        # A read as of another instant has a snapshot, which knows of it.
        if (alone and plan.as_of is None) or not plan.tables:
            return DirectTables(
                environment.engine,
                self.call.now,
                plan,
                views,
                environment.layouts,
                row_counts,
                open_snapshot_tables,
                environment.sequences,
                crossing,
                self.call.user,
            )
        return await open_snapshot_tables()

    async def _run_plan(self, tables: Tables, id: str, crossing: Crossing) -> AsyncGenerator[ResultPart, None]:
        plan = self.prepared.plan
        run = self._environment.build_run(self.call, self._parameters)
        parts = plans.execute(plan, run, tables)
        if crossing is not ON_LOOP:
            parts = self.statement.iterate(parts, begins_here=True)
        async for part in parts:
            yield ResultPart(part.index, plan.results[part.index], part.rows, id)

    def _with_stats(self, part: ResultPart, row_counts: Mapping[str, RowCounts]) -> ResultPart:
        if self.timing is None:
            return part
        total_us = self._environment.stopwatch() - self.timing.began_us
        stats = QueryStats(row_counts, self.timing.cached, self.timing.planning_us, total_us, self.prepared.plan)
        return msgspec.structs.replace(part, stats=stats)


def _end_transaction(transactions: Transactions | None, transaction: OpenTransaction) -> None:
    if transactions is None:
        transaction.close()
    else:
        transactions.end(transaction)


def verb_of(statement: StatementTree) -> str:
    """Return the verb of a statement."""
    return statement.verb if isinstance(statement, Write) else statement.__class__.__name__
