"""Queries from text to rows: read, bound, planned, and run in the transaction that the request names."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, TypeAlias, get_args

import msgspec

from mayflydb.engine.engine import Engine
from mayflydb.engine.snapshot import Snapshot
from mayflydb.frontends.ydb.rows import Layouts
from mayflydb.frontends.ydb.store_tables import Accessed, StoreTables
from mayflydb.frontends.ydb.tables import TableView
from mayflydb.frontends.ydb.texts import Prepared, Texts
from mayflydb.frontends.ydb.transactions import (
    ONE_SHOT,
    READ_ONLY,
    Control,
    Mode,
    OpenTransaction,
    Transactions,
    aborted,
    left_open,
    mixed,
    read_only,
    scheme_changed,
    scheme_in_transaction,
)
from mayflydb.model.errors import OwnerNotFound, WriteConflict
from mayflydb.query.yql import plans
from mayflydb.query.yql.definitions import Definition, ShowCreate
from mayflydb.query.yql.faults import fault
from mayflydb.query.yql.plans import Plan
from mayflydb.query.yql.schemas import Chance, Row, Run
from mayflydb.query.yql.statements import Delete, Pragma, Script, Update, Write
from mayflydb.query.yql.types import UTF8, Type, Value

if TYPE_CHECKING:
    from mayflydb.frontends.ydb.calls import Call
    from mayflydb.frontends.ydb.schemes import Schemes

ATTEMPTS: Final = 5
"""How often a query is run whose transaction is its own, while others are first."""

Parameters: TypeAlias = Mapping[str, tuple[Type, Value]]
"""By name without `$`."""

Columns: TypeAlias = tuple[tuple[str, Type], ...]

_DEFINITIONS: Final = get_args(Definition)


class Stats(msgspec.Struct, frozen=True):
    """What a query did: rows by table, whether its plan was known, and the plan as JSON."""

    accessed: Mapping[str, Accessed]
    cached: bool
    plan: str


class ResultPart(msgspec.Struct, frozen=True):
    """Some rows of one result set, or, where `index` is -1, none.

    Each result set has one part at least, which may have no rows, and `columns` in each; a query without result sets has one part
    of index -1. `tx_id`, in all parts: the transaction that is open afterwards, or "". `stats`: in the last part, where asked for.
    """

    index: int
    columns: Columns
    rows: Sequence[Row]
    tx_id: str = ""
    stats: Stats | None = None


class Described(msgspec.Struct, frozen=True):
    """A query that was not run: the types of its parameters, its columns, its plan as JSON, and the id by which to run it."""

    id: str
    parameters: Mapping[str, Type]
    results: tuple[Columns, ...]
    plan: str
    text: str


class Executor:
    """Runs the queries of all services. `chance`: where Random() takes what it gives."""

    def __init__(self, engine: Engine, schemes: Schemes, chance: Chance) -> None:
        self.texts = Texts()
        self.layouts = Layouts()
        self._engine = engine
        self._schemes = schemes
        self._chance = chance

    # --- queries -------------------------------------------------------------------------------------------------------

    async def execute(
        self,
        call: Call,
        transactions: Transactions | None,
        text: str,
        parameters: Parameters,
        control: Control | None = None,
        stats: bool = False,
    ) -> AsyncIterator[ResultPart]:
        """Run a query. `transactions`: those of its session; without one no transaction stays open.

        Faults: those of the text, of the plan, of the tables; NOT_FOUND for a transaction that is not open; ABORTED.
        """
        script = self.texts.script(text)
        if any(isinstance(each, (*_DEFINITIONS, ShowCreate)) for each in script.statements):
            async for part in self._define(call, script, control):
                yield part
            return
        prepared, cached = await self._prepared(call, text, script, {name: type for name, (type, _) in parameters.items()})
        work = _Work(self, call, script, prepared, {name: value for name, (_, value) in parameters.items()}, cached, stats)
        if control is not None and control.id:
            parts = work.within(_known(transactions).find(control.id), _known(transactions), control.commit)
        elif control is not None and control.begin is not None and not control.commit:
            parts = work.opening(_known(transactions), control.begin)
        else:
            parts = work.alone(control.begin if control is not None and control.begin else "serializable_read_write")
        async for part in parts:
            yield part

    async def _define(self, call: Call, script: Script, control: Control | None) -> AsyncIterator[ResultPart]:
        """The statements of a query that changes the scheme, one after the other."""
        if any(not isinstance(each, (*_DEFINITIONS, ShowCreate, Pragma)) for each in script.statements):
            raise mixed()
        prefix = ""
        shown = 0
        for each in script.statements:
            if isinstance(each, Pragma):
                prefix = each.values[0] if each.name.lower() == "tablepathprefix" and each.values else prefix
            elif isinstance(each, ShowCreate):
                text = await self._schemes.show_create(call, each, prefix)
                columns = (("CreateQuery", UTF8), ("PathType", UTF8), ("Path", UTF8))
                yield ResultPart(shown, tuple(sorted(columns)), [text])
                shown += 1
            else:
                if control is not None and (control.id or control.begin is not None):
                    raise scheme_in_transaction()
                await self._schemes.define(call, each, prefix)
        if not shown:
            yield ResultPart(-1, (), ())

    async def describe(self, call: Call, text: str, parameters: Mapping[str, Type] | None = None) -> Described:
        """Read, bind and plan a query, without running it; it may be executed by its id then. Faults: as of `execute`."""
        script = self.texts.script(text)
        prepared, _ = await self._prepared(call, text, script, parameters or {})
        id = sha256(f"{call.database}\0{text}".encode()).hexdigest()[:32]
        self.texts.keep(id, text)
        plan = prepared.plan
        return Described(id, dict(plan.declared), tuple(plan.results), explained(plan), text)

    async def commit(self, call: Call, transactions: Transactions, id: str) -> None:
        """Make hold what a transaction has done. Faults: NOT_FOUND, ABORTED."""
        transaction = transactions.find(id)
        try:
            await self.finish(transaction, call, {})
        finally:
            transactions.end(transaction)

    # --- what queries are made of --------------------------------------------------------------------------------------

    async def _prepared(
        self, call: Call, text: str, script: Script, types: Mapping[str, Type]
    ) -> tuple[Prepared, bool]:
        """The plan of a query, and whether it was known already."""
        key = (text, call.database, tuple(sorted(types.items(), key=lambda each: each[0])))
        version = self._engine.store.catalog_version
        known = self.texts.plans.get(key)
        if known is not None and known.version == version:
            return known, True
        paths = plans.tables_of(script, call.database)
        schemas = await self._schemes.schemas(paths)
        if known is not None and known.schemas == schemas and await self._stand(known.views):
            known.version = version
            return known, True
        views = {path: view for path in schemas if isinstance(view := await self._schemes.find(path), TableView)}
        prepared = Prepared(plans.bind(script, schemas, call.database, types), schemas, views, version)
        self.texts.plans.put(key, prepared)
        return prepared, False

    async def _stand(self, views: Mapping[str, TableView]) -> bool:
        for path, view in views.items():
            if await self._schemes.find(path) is not view:
                return False
        return True

    async def snapshot(self, call: Call, mode: Mode) -> Snapshot:
        """What is committed now, for one transaction."""
        parents = await self._schemes.parents(call.database)
        return await Snapshot.begin(self._engine, call.now, parents, serializable=mode == "serializable_read_write")

    async def run(
        self, call: Call, tables: StoreTables, plan: Plan, parameters: Mapping[str, Value], now: int
    ) -> AsyncIterator[Any]:
        """The parts of a plan's results."""
        run = Run(now, parameters, self._chance, call.user, call.database)
        async for part in plans.execute(plan, run, tables):
            yield part

    async def finish(self, transaction: OpenTransaction, call: Call, views: Mapping[str, TableView]) -> None:
        """Commit. Faults: ABORTED."""
        if transaction.snapshot is None:
            return
        try:
            await transaction.snapshot.commit(call.now)
        except (WriteConflict, OwnerNotFound) as error:
            raise await self.refused(error, views) from error

    async def refused(self, error: WriteConflict | OwnerNotFound, views: Mapping[str, TableView]) -> Exception:
        """What a transaction is told that cannot go on."""
        container = error.detail.get("container")
        path = next((path for path, view in views.items() if view.node.id == container), None)
        if path is None and isinstance(container, int):
            path = await self._schemes.path_of(container)
        if isinstance(error, OwnerNotFound) or error.detail.get("scheme"):
            return scheme_changed(path)
        return aborted(path)


def _known(transactions: Transactions | None) -> Transactions:
    if transactions is None:
        raise fault("a transaction that stays open needs a session", status="BAD_REQUEST")
    return transactions


def explained(plan: Plan) -> str:
    """A plan as YDB's clients show it: JSON."""
    return json.dumps(plans.explain(plan))
