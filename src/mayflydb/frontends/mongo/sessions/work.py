"""How a command reaches data: at once, as a numbered write that may be repeated, or inside a transaction."""

from __future__ import annotations

from typing import Any, Final, TypeVar

from mayflydb.engine.transactions import Transaction
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.concerns import members_of
from mayflydb.frontends.mongo.decisions import Body, Steps
from mayflydb.frontends.mongo.reading import CommittedView, View
from mayflydb.frontends.mongo.services import Handler, Services
from mayflydb.frontends.mongo.sessions import retries
from mayflydb.frontends.mongo.sessions.arguments import (
    ENDING,
    check_concern,
    check_member,
    required_session,
    transaction_number,
    write_number,
)
from mayflydb.frontends.mongo.sessions.retries import Attempt
from mayflydb.frontends.mongo.sessions.transaction_work import TransactionWork
from mayflydb.frontends.mongo.sessions.transactions import Member
from mayflydb.frontends.mongo.sessions.units import UnitOfWork
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.values import Document, is_number

T = TypeVar("T")

_KNOWN_MODES: Final = ("majority",)


class Single:
    """Each decision is a transaction of its own."""

    aborts = False

    def __init__(self, services: Services, call: Call, attempt: Attempt | None = None) -> None:
        self._engine = services.engine
        self._now = call.now
        self._patience = call.connection.patience
        self.attempt = attempt
        view = CommittedView(services.engine, services.indexing.want_ids)
        self.view: View = view
        self.spent = view.spent

    async def perform(self, body: Body[T]) -> T:
        runs: list[Transaction] = []

        def note(transaction: Transaction) -> Steps[T]:
            runs.append(transaction)
            return body(transaction)

        reply = await self._engine.transact(note, self._now, patience=self._patience)
        self.spent.wrote(runs[-1], None if self.attempt is None else self.attempt.container)
        return reply

    def fail(self) -> None:
        """Each statement stands for itself."""


async def begin(services: Services, call: Call) -> UnitOfWork:
    """What the session arguments of a command ask for; it pays for what that spends.

    MqlError 20, 72, 225 and 50768 as the protocol has them.
    """
    work = await _choose(services, call)
    call.spent = work.spent
    return work


async def _choose(services: Services, call: Call) -> UnitOfWork:
    if call.transaction is not None:
        return call.transaction
    if "txnNumber" not in call.body:
        return Single(services, call)
    number = write_number(call, services.options.topology)
    if call.name not in retries.RETRYABLE:
        text = "txnNumber may only be provided for multi-document transactions and retryable write commands."
        raise MqlError(
            50768, f"{text} autocommit:false was not provided, and {call.name} is not a retryable write command."
        )
    session = required_session(call)
    await services.transactions.begin_numbered_write(session, number)
    sessions = await services.collections.ensure(retries.DATABASE, retries.NAME, call.now)
    await services.records.sweep(sessions, call.now)
    return Single(services, call, Attempt(sessions, session, number))


async def perform_in_transaction(services: Services, call: Call, handler: Handler) -> Document | bytes:
    """Answer a command that has transaction arguments; its error ends the transaction.

    MqlError 20, 72, 125, 251, 256, 263 and others as the protocol has them.
    """
    number = transaction_number(call, services.options.topology)
    if call.name in ENDING:
        return await handler(services, call)
    transactions, session = services.transactions, required_session(call)
    try:
        check_member(call)
    except MqlError:
        await transactions.abort_open(session, number)
        raise
    starts = bool(call.body.get("startTransaction"))
    if starts:
        check_concern(call)
    cosmos = starts and is_cosmos(services, call)

    async def act(work: TransactionWork) -> Document | bytes:
        call.transaction, call.now = work, work.now
        return await handler(services, call)

    member = Member(session, number, call.now, starts, "readConcern" in call.body, cosmos)
    return await transactions.perform(member, act)


def is_cosmos(services: Services, call: Call) -> bool:
    """Whether a transaction that starts with this command lives by Cosmos DB's rules."""
    return services.contracts.of(call.database).is_cosmos


def concern_error(call: Call) -> Document | None:
    """What a write concern that cannot be met makes of a write that was done. MqlError 79 for a mode nobody knows."""
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
    if isinstance(wanted, dict) or (is_number(wanted) and (members_of(wanted) or 0) > 1):
        text = "Not enough data-bearing nodes"
        return {"code": 100, "codeName": "UnsatisfiableWriteConcern", "errmsg": text}
    return None
