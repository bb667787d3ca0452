"""The services that queries run with: snapshots, tables, and the fault of a transaction that failed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mayflydb.clock import Stopwatch, monotonic_us
from mayflydb.engine.contention import Target
from mayflydb.engine.engine import Engine
from mayflydb.engine.lifecycle.past_engine import engine_as_of
from mayflydb.engine.snapshot import Snapshot
from mayflydb.evaluation.statement import Statement
from mayflydb.frontends.ydb.calls import GrpcCall
from mayflydb.frontends.ydb.crossing import ON_LOOP, Crossing
from mayflydb.frontends.ydb.rows import RowLayouts
from mayflydb.frontends.ydb.schemes.catalog import Schemes
from mayflydb.frontends.ydb.schemes.entries import IndexEntry
from mayflydb.frontends.ydb.store_tables import RowCounts, StoreTables, Views
from mayflydb.frontends.ydb.tables import TableView
from mayflydb.frontends.ydb.transactions import READ_ONLY_MODES, TransactionMode, invalid_locks, schema_conflict
from mayflydb.model.errors import OwnerNotFound, WriteConflict
from mayflydb.query.yql.schemas import RandomSource, Run
from mayflydb.query.yql.types import Value


class Environment:
    """The parts of a server that queries need. `chance`: the source of ids and of Random()."""

    def __init__(
        self, engine: Engine, schemes: Schemes, chance: RandomSource, stopwatch: Stopwatch = monotonic_us
    ) -> None:
        self.engine = engine
        self.schemes = schemes
        self.sequences = schemes.sequences
        self.layouts = RowLayouts()
        self.chance = chance
        self.stopwatch = stopwatch

    async def snapshot(
        self,
        call: GrpcCall,
        mode: TransactionMode,
        writes: bool = False,
        is_as_of: bool = False,
        contended: Iterable[Target] = (),
    ) -> Snapshot:
        """Begin a snapshot for one transaction.

        `writes`: the transaction may write, so its reads are recorded and take turns. `is_as_of`: the call's now is a later
        instant. `contended`: see `Snapshot.begin`.
        """
        snapshot = await Snapshot.begin(
            self.engine,
            call.now,
            await self.schemes.database_ids(),
            serializable=writes and mode == "serializable_read_write",
            is_as_of=is_as_of,
            takes_turns=writes and mode not in READ_ONLY_MODES,
            contended=contended,
        )
        snapshot.author = call.user
        return snapshot

    async def past_snapshot(self, call: GrpcCall, views: Views) -> Snapshot:
        """Begin a snapshot of the tables of a query as they were at the call's now, which is an earlier instant."""
        tables = [each.view if isinstance(each, IndexEntry) else each for each in views.values()]
        layouts = {view.node.id: self.layouts.of(view) for view in tables if isinstance(view, TableView)}
        past = engine_as_of(self.engine, call.now, lambda node: layouts[node.id].keys)
        return await Snapshot.begin(past, call.now, await self.schemes.database_ids())

    def tables(
        self,
        snapshot: Snapshot,
        views: Views,
        mode: TransactionMode,
        accessed: dict[str, RowCounts],
        crossing: Crossing = ON_LOOP,
    ) -> StoreTables:
        """Return the tables of a transaction over its snapshot."""
        return StoreTables(
            snapshot, views, self.layouts, mode, accessed, self.schemes.system_rows, self.sequences, crossing
        )

    def begin_statement(self, call: GrpcCall) -> Statement:
        """Return the evaluation of a call's query, which begins now. It computes in the turn of the client's connection."""
        evaluators = self.engine.evaluators
        return Statement(evaluators, call.peer or call.user, evaluators.deadline())

    def build_run(self, call: GrpcCall, parameters: Mapping[str, Value]) -> Run:
        """Build the run of a plan: instant, parameters, user and database of one execution."""
        return Run(call.now, parameters, self.chance, call.user, call.database)

    async def conflict_fault(self, error: WriteConflict | OwnerNotFound, views: Views) -> Exception:
        """Return the fault that ends a transaction.

        The fault names the conflicting table if one is known. `views`: the tables of the query.
        """
        container = error.detail.get("container")
        path = await self.schemes.path_of(container) if isinstance(container, int) else None
        # A container without a path has been dropped meanwhile.
        is_dropped = path is None and container is not None
        # Some conflicts name no container. If the query has one table only, the conflict is there.
        if path is None and len(views) == 1:
            path = next(iter(views))
        if isinstance(error, OwnerNotFound) or is_dropped or error.detail.get("scheme"):
            return schema_conflict(path)
        return invalid_locks(path)
