"""Queries from text to rows: read, bound, planned, and run in the transaction that the request names."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from hashlib import sha256
from typing import Final, TypeAlias, get_args

import msgspec

from mayflydb.frontends.ydb.accounts import Accounts
from mayflydb.frontends.ydb.calls import Call
from mayflydb.frontends.ydb.environment import Environment
from mayflydb.frontends.ydb.schemes import ddl
from mayflydb.frontends.ydb.store_tables import Readable, Views
from mayflydb.frontends.ydb.texts import Prepared, Texts
from mayflydb.frontends.ydb.transactions import (
    Control,
    Mode,
    OpenTransaction,
    Session,
    Transactions,
    mixed,
    no_scheme,
    scheme_in_transaction,
)
from mayflydb.frontends.ydb.work import Columns, ResultPart, Told, Work, verb_of
from mayflydb.model.errors import OwnerNotFound, WriteConflict
from mayflydb.query.yql import plans
from mayflydb.query.yql.definitions import Definition, ShowCreate
from mayflydb.query.yql.faults import Fault, Issue, fault
from mayflydb.query.yql.plans import Plan
from mayflydb.query.yql.plans.paths import is_prefix_pragma
from mayflydb.query.yql.schemas import Schemas, Table, View
from mayflydb.query.yql.statements import Commit, Pragma, Script
from mayflydb.query.yql.types import UTF8, Type, Value

ATTEMPTS: Final = 5
"""How often a query is run whose transaction is its own, while others are first."""

Parameters: TypeAlias = Mapping[str, tuple[Type, Value]]
"""By name without `$`."""

_DEFINITIONS: Final = get_args(Definition)
_BESIDE: Final = (Pragma, Commit)
"""What may stand among definitions: each of them holds at once, so that COMMIT has nothing to do."""
_OF_SCHEMES: Final = frozenset((*_DEFINITIONS, ShowCreate))


class Described(msgspec.Struct, frozen=True):
    """A query that was not run, and the id by which to run it."""

    id: str
    text: str
    bound: Plan

    @property
    def parameters(self) -> Mapping[str, Type]:
        """Types of all it takes."""
        return self.bound.parameters

    @property
    def results(self) -> tuple[Columns, ...]:
        """Columns of each result set."""
        return self.bound.results

    @property
    def writes(self) -> bool:
        """Whether it changes data."""
        return not self.bound.read_only

    @property
    def plan(self) -> str:
        """As JSON."""
        return json.dumps(plans.explain(self.bound))


class Executor:
    """Runs the queries of all services."""

    def __init__(self, environment: Environment, accounts: Accounts) -> None:
        self.environment = environment
        self.texts = Texts()
        self._engine = environment.engine
        self._schemes = environment.schemes
        self._accounts = accounts
        self._stopwatch = environment.stopwatch

    # --- queries -------------------------------------------------------------------------------------------------------

    async def execute(
        self,
        call: Call,
        session: Session | None,
        text: str,
        parameters: Parameters,
        control: Control | None = None,
        stats: bool = False,
    ) -> AsyncGenerator[ResultPart, None]:
        """Run a query. `session`: the one it was sent in; without one no transaction stays open.

        Faults: those of the text, of the plan, of the tables; NOT_FOUND for a transaction that is not open; ABORTED.
        """
        began = self._stopwatch()
        with self._ending(session, control):
            script = self.texts.script(text)
            if _changes_scheme(script):
                async for part in self._define(call, script, control):
                    yield part
                return
            types = {name: type for name, (type, _) in parameters.items()}
            prepared, cached = await self._prepared(call, text, script, types)
        work = Work(self.environment, call, script, prepared, {name: value for name, (_, value) in parameters.items()})
        if stats:
            work.told = Told(cached, began, self._stopwatch() - began)
        if control is None:
            parts = self._alone(work, text, parameters, "serializable_read_write")
        elif control.id:
            open_ones = self.transactions(session)
            parts = work.within(open_ones, open_ones.find(control.id), control.commit)
        elif control.begin is None:
            raise fault("Empty TxControl", status="BAD_REQUEST")
        elif control.commit:
            parts = self._alone(work, text, parameters, control.begin)
        else:
            open_ones = self.transactions(session)
            parts = work.within(open_ones, open_ones.add(control.begin), False)
        warnings = prepared.plan.warnings
        async with aclosing(parts):
            async for part in parts:
                yield msgspec.structs.replace(part, warnings=warnings) if warnings else part
                warnings = ()

    @contextmanager
    def _ending(self, session: Session | None, control: Control | None) -> Iterator[None]:
        """The transaction of a statement that fails is over, even if it fails before it is run."""
        try:
            yield
        except BaseException:
            if session is not None and control is not None and control.id:
                transactions = self.transactions(session)
                with suppress(Fault):
                    transactions.end(transactions.find(control.id))
            raise

    async def _alone(
        self, work: Work, text: str, parameters: Parameters, mode: Mode
    ) -> AsyncGenerator[ResultPart, None]:
        """In a transaction of its own: nobody knows of an attempt that came to nothing."""
        for attempt in range(1, ATTEMPTS + 1):
            began = False
            try:
                async with aclosing(work.within(None, OpenTransaction("", mode), True)) as parts:
                    async for part in parts:
                        began = True
                        yield part
                return
            except Fault as error:
                if error.status != "ABORTED" or began or attempt == ATTEMPTS:
                    raise
            types = {name: type for name, (type, _) in parameters.items()}
            work.prepared, _ = await self._prepared(work.call, text, work.script, types)

    async def _define(self, call: Call, script: Script, control: Control | None) -> AsyncGenerator[ResultPart, None]:
        """The statements of a query that changes the scheme, one after the other."""
        if any(not isinstance(each, (*_DEFINITIONS, ShowCreate, *_BESIDE)) for each in script.statements):
            raise mixed()
        prefix = ""
        shown = 0
        for each in script.statements:
            if isinstance(each, Pragma):
                prefix = each.values[-1] if is_prefix_pragma(each) else prefix
            elif isinstance(each, ShowCreate):
                text = await ddl.show_create(self._schemes, call, each, prefix)
                columns = (("CreateQuery", UTF8), ("PathType", UTF8), ("Path", UTF8))
                yield ResultPart(shown, tuple(sorted(columns)), [text])
                shown += 1
            elif isinstance(each, _DEFINITIONS):
                if control is not None and (control.id or control.begin is not None):
                    raise scheme_in_transaction()
                await ddl.define(self._schemes, self._accounts, call, each, prefix)
        if not shown:
            yield ResultPart(-1, (), ())

    async def define(self, call: Call, text: str) -> tuple[Issue, ...]:
        """Run a query that only changes the scheme; what there is to notice, which is all if what it makes is there already.

        Faults: those of the text; GENERIC_ERROR for what is no such statement; why it cannot be.
        """
        script = self.texts.script(text)
        for each in script.statements:
            if not isinstance(each, (*_DEFINITIONS, *_BESIDE)):
                raise no_scheme(verb_of(each))
        prefix = ""
        notices: list[Issue] = []
        for each in script.statements:
            if isinstance(each, Pragma):
                prefix = each.values[-1] if is_prefix_pragma(each) else prefix
            elif isinstance(each, _DEFINITIONS):
                notices += await ddl.define(self._schemes, self._accounts, call, each, prefix, lenient=True)
        return tuple(notices)

    async def describe(self, call: Call, text: str, parameters: Mapping[str, Type] | None = None) -> Described:
        """Read, bind and plan a query, without running it; it may be executed by its id then. Faults: as of `execute`."""
        script = self.texts.script(text)
        if _changes_scheme(script):
            # There is nothing to plan.
            script = Script(())
        prepared, _ = await self._prepared(call, text, script, parameters or {})
        id = sha256(f"{call.database}\0{text}".encode()).hexdigest()[:32]
        self.texts.keep(id, text)
        return Described(id, text, prepared.plan)

    def transactions(self, session: Session | None) -> Transactions:
        """Those of a session. BAD_REQUEST where there is none."""
        if session is None:
            raise fault("A transaction that stays open needs a session", status="BAD_REQUEST")
        return Transactions(session, self.environment.chance)

    async def commit(self, call: Call, session: Session, id: str) -> None:
        """Make hold what a transaction has done. Faults: NOT_FOUND, ABORTED."""
        transactions = self.transactions(session)
        transaction = transactions.find(id)
        try:
            await transaction.commit(call.now)
        except (WriteConflict, OwnerNotFound) as error:
            raise await self.environment.refusal_of(error, {}) from error
        finally:
            transactions.end(transaction)

    # --- what queries are made of --------------------------------------------------------------------------------------

    async def _prepared(
        self, call: Call, text: str, script: Script, types: Mapping[str, Type]
    ) -> tuple[Prepared, bool]:
        """The plan of a query, and whether it was known already."""
        key = (text, call.database, tuple(sorted(types.items(), key=lambda each: each[0])))
        version = self._engine.catalog_version
        known = self.texts.plans.get(key)
        if known is not None and known.version == version:
            return known, True
        schemas = await self._schemas(plans.tables_of(script, call.database), call.database)
        if known is not None and known.schemas == schemas and await self._stand(known.views):
            known.version = version
            return known, True
        found = {path: await self._schemes.find(path) for path in schemas}
        views = {path: entry for path, entry in found.items() if isinstance(entry, Readable)}
        prepared = Prepared(plans.bind(script, schemas, call.database, types), schemas, views, version)
        self.texts.plans.put(key, prepared, len(text))
        return prepared, False

    async def _schemas(self, paths: Sequence[str], database: str) -> Schemas:
        """The tables and views at these paths, and at those that the queries of views name."""
        found: dict[str, Table | View] = {}
        while paths:
            new = await self._schemes.schemas(paths)
            found.update(new)
            texts = [each.text for each in new.values() if isinstance(each, View)]
            named = [path for text in texts for path in plans.tables_of(self.texts.script(text), database)]
            paths = [path for path in dict.fromkeys(named) if path not in found]
        return found

    async def _stand(self, views: Views) -> bool:
        for path, view in views.items():
            if await self._schemes.find(path) is not view:
                return False
        return True


def _changes_scheme(script: Script) -> bool:
    """Whether it is about the scheme, or is to be refused for being about both."""
    return not _OF_SCHEMES.isdisjoint(map(type, script.statements))
