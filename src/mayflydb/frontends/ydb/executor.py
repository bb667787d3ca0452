"""The execution of queries: parse, bind, plan, and run in the transaction that the request names."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from hashlib import sha256
from typing import Final, TypeAlias, get_args

import msgspec

from mayflydb.evaluation.statement import CHEAP_BYTES, Statement
from mayflydb.frontends.ydb.accounts import Accounts
from mayflydb.frontends.ydb.calls import GrpcCall
from mayflydb.frontends.ydb.environment import Environment
from mayflydb.frontends.ydb.planner import SHORT_TEXT, Planner
from mayflydb.frontends.ydb.query_run import Columns, PlanTiming, QueryRun, ResultPart, explain_plan, verb_of
from mayflydb.frontends.ydb.schemes import ddl
from mayflydb.frontends.ydb.schemes.catalog import Schemes
from mayflydb.frontends.ydb.schemes.faults import CREATE_STATUS, refuse_invalid
from mayflydb.frontends.ydb.schemes.paths import resolve_path
from mayflydb.frontends.ydb.schemes.table_from_query import (
    FilledTable,
    create_table_of_rows,
    created_from_query,
    query_of,
    rows_key,
    spec_of_query,
)
from mayflydb.frontends.ydb.schemes.temporary import TemporaryTables, schemes_of
from mayflydb.frontends.ydb.tables import TableView
from mayflydb.frontends.ydb.transactions import (
    OpenTransaction,
    TransactionControl,
    TransactionMode,
    TransactionOwner,
    Transactions,
    data_statement_refusal,
    definition_refusal,
    mixed_statements_refusal,
)
from mayflydb.frontends.ydb.user_statements import check_administrator
from mayflydb.model.errors import OwnerNotFound, WriteConflict
from mayflydb.query.yql.definitions import CreateTable, Definition, ShowCreate, UserSpec
from mayflydb.query.yql.faults import Fault, Issue, fault, unsupported
from mayflydb.query.yql.plans import Plan
from mayflydb.query.yql.plans.paths import is_prefix_pragma
from mayflydb.query.yql.statements import Commit, Pragma, Script
from mayflydb.query.yql.types import UTF8, Type, Value

MAX_ATTEMPTS: Final = 5
"""Attempts at a query that is a transaction of its own and meets write conflicts."""

Parameters: TypeAlias = Mapping[str, tuple[Type, Value]]
"""Type and value by parameter name, without `$`."""

_DEFINITION_TYPES: Final = get_args(Definition)
_ALLOWED_AMONG_DEFINITIONS: Final = (Pragma, Commit)
"""Statements that may stand among definitions.

Each definition is committed on its own, so COMMIT has no effect there.
"""
_SCHEME_STATEMENT_TYPES: Final = frozenset((*_DEFINITION_TYPES, ShowCreate))


class QueryDescription(msgspec.Struct, frozen=True):
    """The plan of a query that was not run, and the id under which the query may be executed."""

    id: str
    text: str
    plan: Plan
    statement: Statement

    @property
    def parameters(self) -> Mapping[str, Type]:
        """The types of the parameters, by name."""
        return self.plan.parameters

    @property
    def results(self) -> tuple[Columns, ...]:
        """The columns of each result set."""
        return self.plan.results

    @property
    def writes(self) -> bool:
        """True if the query changes data."""
        return not self.plan.read_only

    async def explain(self) -> str:
        """Return the plan as JSON. That of a long text is made on a thread."""
        if len(self.text) <= SHORT_TEXT:
            return explain_plan(self.plan)
        return await self.statement.call(CHEAP_BYTES + 1, explain_plan, self.plan)


class Executor:
    """Runs the queries of all services."""

    def __init__(self, environment: Environment, accounts: Accounts, max_session_transactions: int = 10) -> None:
        self.environment = environment
        self.planner = Planner(environment.engine, environment.schemes)
        self._schemes = environment.schemes
        self._accounts = accounts
        self._max_transactions = max_session_transactions
        self._stopwatch = environment.stopwatch

    # --- queries -------------------------------------------------------------------------------------------------------

    async def execute(
        self,
        call: GrpcCall,
        session: TransactionOwner | None,
        text: str,
        parameters: Parameters,
        control: TransactionControl | None = None,
        stats: bool = False,
        statement: Statement | None = None,
        streams: bool = False,
    ) -> AsyncGenerator[ResultPart, None]:
        """Run a query and yield its results.

        `session`: the session of the request; without a session no transaction stays open. `stats`: the last part
        carries statistics. `statement`: the evaluation of the request, if it has begun. `streams`: the caller holds few
        of the rows at a time.

        Faults: those of parsing, planning and tables; NOT_FOUND for an unknown transaction; ABORTED for a write
        conflict.
        """
        began_us = self._stopwatch()
        statement = statement or self.environment.begin_statement(call)
        # Errors of parsing and planning end the transaction too. From there on, `QueryRun.run` ends it.
        with self._end_on_failure(session, control):
            script = await self.planner.parse(statement, text)
            if changes_scheme(script):
                async for part in self._run_definitions(call, session, statement, text, script, parameters, control):
                    yield part
                return
            types = {name: type for name, (type, _) in parameters.items()}
            schemes = self._schemes_of(session)
            prepared, cached = await self.planner.prepare(call, statement, text, script, types, schemes)
        query_run = QueryRun(
            self.environment,
            call,
            statement,
            script,
            prepared,
            {name: value for name, (_, value) in parameters.items()},
        )
        query_run.streams = streams
        if stats:
            query_run.timing = PlanTiming(cached, began_us, self._stopwatch() - began_us)
        parts = self._run_in_transaction(query_run, session, text, parameters, control)
        if prepared.plan.writes and not query_run.is_small:
            parts = self._gather(parts)
        warnings = prepared.plan.warnings
        async with aclosing(parts):
            async for part in parts:
                yield msgspec.structs.replace(part, warnings=warnings) if warnings else part
                warnings = ()

    async def _gather(self, parts: AsyncGenerator[ResultPart, None]) -> AsyncGenerator[ResultPart, None]:
        """Yield the parts of a query that may write many rows."""
        with self.environment.engine.evaluators.keep_collector_away():
            async with aclosing(parts):
                async for part in parts:
                    yield part

    def _run_in_transaction(
        self,
        query_run: QueryRun,
        session: TransactionOwner | None,
        text: str,
        parameters: Parameters,
        control: TransactionControl | None,
    ) -> AsyncGenerator[ResultPart, None]:
        """Run a query in the transaction that its request names. NOT_FOUND for an unknown one."""
        if control is None:
            return self._run_with_retries(
                query_run, text, parameters, "serializable_read_write", self._schemes_of(session)
            )
        if control.id:
            open_transactions = self.transactions(session)
            return query_run.run(open_transactions, open_transactions.get(control.id), control.commit)
        if control.begin is None:
            raise fault("Empty TxControl", status="BAD_REQUEST")
        if control.commit:
            return self._run_with_retries(query_run, text, parameters, control.begin, self._schemes_of(session))
        open_transactions = self.transactions(session)
        return query_run.run(open_transactions, open_transactions.add(control.begin), False)

    @contextmanager
    def _end_on_failure(self, session: TransactionOwner | None, control: TransactionControl | None) -> Iterator[None]:
        """End the transaction of the request if its statement fails, even before the statement is run."""
        try:
            yield
        except BaseException:
            if session is not None and control is not None and control.id:
                transactions = self.transactions(session)
                with suppress(Fault):
                    transactions.end(transactions.get(control.id))
            raise

    async def _run_with_retries(
        self, query_run: QueryRun, text: str, parameters: Parameters, mode: TransactionMode, schemes: Schemes
    ) -> AsyncGenerator[ResultPart, None]:
        """Run a query in a transaction of its own, again after a write conflict.

        Results of a failed attempt are not sent, so no attempt is repeated once the first part is out.
        """
        transaction = OpenTransaction("", mode)
        for attempt in range(1, MAX_ATTEMPTS + 1):
            is_sent = False
            transaction = OpenTransaction("", mode, contended=transaction.contended)
            try:
                async with aclosing(query_run.run(None, transaction, True)) as parts:
                    async for part in parts:
                        is_sent = True
                        yield part
                return
            except Fault as error:
                if error.status != "ABORTED" or is_sent or attempt == MAX_ATTEMPTS:
                    raise
            # The conflict may be a changed table, so the plan is made anew.
            types = {name: type for name, (type, _) in parameters.items()}
            query_run.prepared, _ = await self.planner.prepare(
                query_run.call, query_run.statement, text, query_run.script, types, schemes
            )

    async def _run_definitions(
        self,
        call: GrpcCall,
        session: TransactionOwner | None,
        statement: Statement,
        text: str,
        script: Script,
        parameters: Parameters,
        control: TransactionControl | None,
    ) -> AsyncGenerator[ResultPart, None]:
        """Execute the statements of a query that changes the scheme, one after the other."""
        if (created := created_from_query(script)) is not None:
            yield await self._create_from_query(call, session, statement, text, script, created, parameters, control)
            return
        if any(
            not isinstance(each, (*_DEFINITION_TYPES, ShowCreate, *_ALLOWED_AMONG_DEFINITIONS))
            for each in script.statements
        ):
            raise mixed_statements_refusal()
        prefix = ""
        shown_count = 0
        for each in script.statements:
            if isinstance(each, Pragma):
                # A pragma counts for the statements behind it, and each definition commits alone: an error leaves the
                # earlier ones in place.
                prefix = _prefix_behind(each, prefix)
            elif isinstance(each, ShowCreate):
                row = await ddl.show_create(self._schemes_of(session), call, each, prefix)
                columns = (("CreateQuery", UTF8), ("PathType", UTF8), ("Path", UTF8))
                yield ResultPart(shown_count, tuple(sorted(columns)), [row])
                shown_count += 1
            elif isinstance(each, _DEFINITION_TYPES):
                if control is not None and (control.id or control.begin is not None):
                    raise definition_refusal()
                if isinstance(each, CreateTable) and each.temporary:
                    await ddl.create_temporary(self._temporary_of(session), call, each, prefix)
                    continue
                # A new table that stays stands beside a temporary one with its path.
                schemes = self._schemes if isinstance(each, CreateTable) else self._schemes_of(session)
                await ddl.execute_definition(schemes, self._accounts, call, each, prefix)
        if not shown_count:
            yield ResultPart(-1, (), ())

    def _schemes_of(self, session: TransactionOwner | None) -> Schemes:
        return schemes_of(self._schemes, None if session is None else session.temporary)

    def _temporary_of(self, session: TransactionOwner | None) -> TemporaryTables:
        """Return the temporary tables of a session. BAD_REQUEST without a session."""
        if session is None:
            raise fault("A temporary table needs a session", status="BAD_REQUEST")
        if session.temporary is None:
            session.temporary = TemporaryTables(self._schemes)
        return session.temporary

    async def _create_from_query(
        self,
        call: GrpcCall,
        session: TransactionOwner | None,
        statement: Statement,
        text: str,
        script: Script,
        created: CreateTable,
        parameters: Parameters,
        control: TransactionControl | None,
    ) -> ResultPart:
        """Execute CREATE TABLE AS. Faults: those of its query and of the new table; BAD_REQUEST in a transaction."""
        if control is not None:
            raise fault("CTAS statement can be executed only in NoTx mode.", created.at, "BAD_REQUEST")
        prefix = ""
        for each in script.statements:
            prefix = _prefix_behind(each, prefix) if isinstance(each, Pragma) else prefix
        path = resolve_path(call.database, prefix, created.table)
        if created.if_not_exists and isinstance(await self._schemes.find(path), TableView):
            return ResultPart(-1, (), ())
        types = {name: type for name, (type, _) in parameters.items()}
        rows = query_of(script, created)
        prepared, _ = await self.planner.prepare(
            call, statement, rows_key(text), rows, types, self._schemes_of(session)
        )
        (columns,) = prepared.plan.results
        values = {name: value for name, (_, value) in parameters.items()}
        query_run = QueryRun(self.environment, call, statement, rows, prepared, values)
        query_run.streams = True
        with refuse_invalid(CREATE_STATUS):
            spec = spec_of_query(created, columns)
        table = FilledTable(path, spec, tuple(name for name, _ in columns), created.or_replace)
        parts = query_run.run(None, OpenTransaction("", "snapshot_read_only"), True)
        async with aclosing(self._gather(parts)) as gathered:
            await create_table_of_rows(
                self._schemes, table, (part.rows async for part in gathered), call.now, call.user
            )
        return ResultPart(-1, (), (), warnings=prepared.plan.warnings)

    async def run_scheme_query(self, call: GrpcCall, text: str) -> tuple[Issue, ...]:
        """Execute a query that only changes the scheme. Return its notices, such as that a table already exists.

        Faults: those of parsing; GENERIC_ERROR for any other statement; the refusal of a definition.
        """
        script = await self.planner.parse(self.environment.begin_statement(call), text)
        for each in script.statements:
            if not isinstance(each, (*_DEFINITION_TYPES, *_ALLOWED_AMONG_DEFINITIONS)):
                raise data_statement_refusal(verb_of(each))
        prefix = ""
        notices: list[Issue] = []
        for each in script.statements:
            if isinstance(each, Pragma):
                prefix = _prefix_behind(each, prefix)
            elif isinstance(each, _DEFINITION_TYPES):
                notices += await ddl.execute_definition(self._schemes, self._accounts, call, each, prefix, lenient=True)
        return tuple(notices)

    async def describe_query(
        self,
        call: GrpcCall,
        text: str,
        parameters: Mapping[str, Type] | None = None,
        statement: Statement | None = None,
        keeps: bool = True,
        session: TransactionOwner | None = None,
    ) -> QueryDescription:
        """Parse, bind and plan a query without running it.

        `keeps`: the text is kept, and the query may then be executed by its id. `statement` and faults as of `execute`: a
        query is described to those who may run it.
        """
        statement = statement or self.environment.begin_statement(call)
        script = await self.planner.parse(statement, text)
        if any(isinstance(each, UserSpec) for each in script.statements):
            await check_administrator(self._accounts, call)
        key = text
        if (created := created_from_query(script)) is not None:
            key, script = rows_key(text), query_of(script, created)
        elif changes_scheme(script):
            # Other definitions have no plan.
            script = Script(())
        schemes = self._schemes_of(session)
        prepared, _ = await self.planner.prepare(call, statement, key, script, parameters or {}, schemes)
        # The same text gets the same id, so a client that prepares a query again does not fill the cache.
        id = sha256(f"{call.database}\0{text}".encode()).hexdigest()[:32]
        if keeps:
            self.planner.cache.keep_text(id, text)
        return QueryDescription(id, text, prepared.plan, statement)

    def transactions(self, session: TransactionOwner | None) -> Transactions:
        """Return the open transactions of a session. BAD_REQUEST without a session."""
        if session is None:
            raise fault("A transaction that stays open needs a session", status="BAD_REQUEST")
        limit = self.environment.engine.open_transactions
        return Transactions(session, self.environment.chance, limit, self._max_transactions)

    async def commit(self, call: GrpcCall, session: TransactionOwner, id: str) -> None:
        """Commit an open transaction. Faults: NOT_FOUND, ABORTED."""
        transactions = self.transactions(session)
        transaction = transactions.get(id)
        try:
            with self.environment.engine.evaluators.keep_collector_away():
                await transaction.commit(call.now)
        except (WriteConflict, OwnerNotFound) as error:
            raise await self.environment.conflict_fault(error, {}) from error
        finally:
            transactions.end(transaction)


def changes_scheme(script: Script) -> bool:
    """True if a script changes the scheme, or mixes definitions and data and is to be refused."""
    return not _SCHEME_STATEMENT_TYPES.isdisjoint(map(type, script.statements))


def _prefix_behind(pragma: Pragma, prefix: str) -> str:
    """Return the path prefix of the definitions behind a pragma. UNSUPPORTED for Mayfly's own pragmas, which concern reads."""
    if pragma.name.lower().startswith("mayfly."):
        raise unsupported(f"PRAGMA {pragma.name} with definitions", pragma.at)
    return pragma.values[-1] if is_prefix_pragma(pragma) else prefix
