"""The work of a command: immediate, as a retryable write, or within a transaction."""

from __future__ import annotations

from typing import Any, Final, TypeVar

from mayflydb.engine.transactions import WriteTransaction
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.collections import Collection, Identity
from mayflydb.frontends.mongo.concerns import member_count
from mayflydb.frontends.mongo.decisions import Decision, Steps
from mayflydb.frontends.mongo.reading import CommittedView, ReadView
from mayflydb.frontends.mongo.services import Handler, Services
from mayflydb.frontends.mongo.sessions import retries
from mayflydb.frontends.mongo.sessions.arguments import (
    ENDING_COMMANDS,
    check_in_transaction,
    check_read_concern,
    get_session,
    parse_transaction_number,
    parse_write_number,
)
from mayflydb.frontends.mongo.sessions.retries import RetryableWrite
from mayflydb.frontends.mongo.sessions.snapshot_reads import SnapshotWork
from mayflydb.frontends.mongo.sessions.transaction_work import TransactionWork
from mayflydb.frontends.mongo.sessions.transactions import TransactionCommand
from mayflydb.frontends.mongo.sessions.units import UnitOfWork
from mayflydb.model.instant import Instant
from mayflydb.model.record import Record
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.values import Document, is_number

T = TypeVar("T")

_KNOWN_MODES: Final = ("majority",)


class ImmediateWork:
    """Work in which each decision is a transaction of its own."""

    in_transaction = False

    def __init__(self, services: Services, call: Call, retryable_write: RetryableWrite | None = None) -> None:
        self._engine = services.engine
        self._now = call.now
        self._lock_waits = call.connection.lock_waits
        self.retryable_write = retryable_write
        view = CommittedView(services.engine, services.indexing.request_id_index)
        self.view: ReadView = view
        self.spent = view.spent

    async def get(self, collection: Collection, identity: Identity, now: Instant) -> Record | None:
        return await self._engine.get(collection.node, identity.partition, identity.key, now)

    async def perform(self, decide: Decision[T]) -> T:
        runs: list[WriteTransaction] = []

        def decide_and_keep(transaction: WriteTransaction) -> Steps[T]:
            # The writer may run the decision more than once; the last run is the committed one.
            runs.append(transaction)
            return decide(transaction)

        reply = await self._engine.transact(decide_and_keep, self._now, lock_waits=self._lock_waits)
        # The stored answers of retryable writes are free.
        self.spent.add_writes(runs[-1], None if self.retryable_write is None else self.retryable_write.container)
        return reply

    def note_refusal(self) -> None:
        """Do nothing: each statement is a transaction of its own."""


async def begin_work(services: Services, call: Call) -> UnitOfWork:
    """Begin the work that the session arguments of a command ask for. The command pays for the work's reads and writes.

    Raise MqlError 20, 72, 225 and 50768.
    """
    work = await _choose_work(services, call)
    call.spent = work.spent
    return work


async def _choose_work(services: Services, call: Call) -> UnitOfWork:
    if call.transaction is not None:
        return call.transaction
    if call.snapshot is not None:
        return SnapshotWork(services.engine, call.snapshot)
    if "txnNumber" not in call.body:
        return ImmediateWork(services, call)
    number = parse_write_number(call, services.options.topology)
    if call.name not in retries.RETRYABLE_COMMANDS:
        text = "txnNumber may only be provided for multi-document transactions and retryable write commands."
        raise MqlError(
            50768, f"{text} autocommit:false was not provided, and {call.name} is not a retryable write command."
        )
    session = get_session(call)
    if services.transactions.knows(session):
        await services.transactions.begin_retryable_write(session, number)
    sessions = services.collections.find_cached(retries.DATABASE, retries.COLLECTION)
    if sessions is None:
        sessions = await services.collections.ensure(retries.DATABASE, retries.COLLECTION, call.now)
    if services.session_documents.is_due:
        await services.session_documents.remove_stale(sessions, call.now)
    return ImmediateWork(services, call, RetryableWrite(sessions, session, number))


async def perform_in_transaction(services: Services, call: Call, handler: Handler) -> Document | bytes:
    """Answer a command that has transaction arguments. An error aborts the transaction.

    Raise MqlError 20, 72, 125, 251, 256, 263, and those of the command.
    """
    number = parse_transaction_number(call, services.options.topology)
    if call.name in ENDING_COMMANDS:
        return await handler(services, call)
    transactions, session = services.transactions, get_session(call)
    try:
        check_in_transaction(call)
    except MqlError:
        # A command that may not be part of a transaction ends the transaction, too.
        await transactions.abort_open(session, number)
        raise
    starts = bool(call.body.get("startTransaction"))
    if starts:
        check_read_concern(call)
    cosmos = starts and has_cosmos_rules(services, call)

    async def act(work: TransactionWork) -> Document | bytes:
        call.transaction, call.now = work, work.now
        return await handler(services, call)

    command = TransactionCommand(session, number, call.now, starts, "readConcern" in call.body, cosmos)
    return await transactions.perform(command, act)


async def read_snapshot(services: Services, call: Call, handler: Handler) -> Document | bytes:
    """Answer a command that reads a snapshot outside of a transaction. Raise MqlError 239 and 246, and those of the command."""
    concern: Any = call.body["readConcern"]
    call.snapshot = await services.snapshot_reads.find_or_begin(concern.get("atClusterTime"), call.now)
    call.now = call.snapshot.snapshot.now
    return await handler(services, call)


def has_cosmos_rules(services: Services, call: Call) -> bool:
    """Return True if a transaction that starts with this command follows Cosmos DB's rules."""
    return services.contracts.of(call.database).is_cosmos


def write_concern_error(call: Call) -> Document | None:
    """The error of a write concern that cannot be met; None: the concern is met. The write keeps its effect either way."""
    concern: Any = call.body.get("writeConcern")
    if not isinstance(concern, dict) or "w" not in concern:
        return None
    wanted = "" if concern["w"] is None else concern["w"]
    if isinstance(wanted, str) and wanted not in _KNOWN_MODES:
        return {
            "code": 79,
            "codeName": "UnknownReplWriteConcern",
            "errmsg": f"No write concern mode named '{wanted}' found in replica set configuration",
        }
    if isinstance(wanted, dict) or (is_number(wanted) and (member_count(wanted) or 0) > 1):
        text = "Not enough data-bearing nodes"
        return {"code": 100, "codeName": "UnsatisfiableWriteConcern", "errmsg": text}
    return None
