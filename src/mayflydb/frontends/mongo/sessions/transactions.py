"""Transactions of sessions: their beginning, their commands, their ends.

A transaction belongs to its session, not to a connection. None of its writes is stored before the commit. The commit
itself stores a marker, so that a repeated commit, even after a crash, returns the true outcome.

Order of locks: a command takes the `work.lock` of its transaction, then the locks of records in the engine. A record that
another transaction has locked is a write conflict at once. So no transaction waits for another, and none can deadlock. Rules:
https://github.com/mongodb/specifications/blob/master/source/transactions/transactions.md
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Literal, TypeAlias, TypeVar

import msgspec

from mayflydb.engine.engine import Engine
from mayflydb.engine.snapshot import Snapshot
from mayflydb.frontends.mongo.collections import SPACE, Collections
from mayflydb.frontends.mongo.cursors import Cursors
from mayflydb.frontends.mongo.sessions import retries
from mayflydb.frontends.mongo.sessions.registry import LogicalSession
from mayflydb.frontends.mongo.sessions.transaction_work import TransactionWork, abort_error
from mayflydb.model.errors import OutcomeUnknown, Unavailable
from mayflydb.model.instant import SECOND, Instant, Span
from mayflydb.query.mongo.faults import MqlError, bad_value

T = TypeVar("T")

LIFETIME: Final[Span] = 60 * SECOND
"""https://www.mongodb.com/docs/manual/core/transactions-production-consideration/#runtime-limit"""

COSMOS_LIFETIME: Final[Span] = 5 * SECOND
"""https://learn.microsoft.com/azure/cosmos-db/mongodb/use-multi-document-transactions"""

TIMER_SLACK: Final = 0.01
"""Seconds from the end of a lifetime to the timer: a timer that fires too early would find nothing."""

TRANSIENT_LABEL: Final = "TransientTransactionError"
"""The label by which a driver begins a transaction again."""

SessionKey: TypeAlias = tuple[str, bytes]
"""The owner of a session, and the session's id."""

Phase: TypeAlias = Literal["open", "committing", "committed", "aborted", "expired"]


class TransactionState(msgspec.Struct, eq=False):
    """The last transaction of a session.

    `work`: None once the transaction has ended. `ends_at`: the end of its lifetime, by the host's monotonic time.
    `cosmos_rules`: under the rules of Cosmos DB. In the phase `committing`, only the store knows the outcome.
    """

    number: int
    phase: Phase
    work: TransactionWork | None = None
    ends_at: int = 0
    cosmos_rules: bool = False


class TransactionCommand(msgspec.Struct, frozen=True, gc=False):
    """A command that is part of a transaction.

    `starts`: the first one. `has_read_concern`: it has a read concern, which only the first may have. `cosmos_rules`: under the
    rules of Cosmos DB.
    """

    session: LogicalSession
    number: int
    now: Instant
    starts: bool
    has_read_concern: bool
    cosmos_rules: bool

    @property
    def key(self) -> SessionKey:
        """The key of the session."""
        return _session_key(self.session)


class TransactionCounts(msgspec.Struct):
    """Transactions since the server's start."""

    started: int = 0
    committed: int = 0
    aborted: int = 0


class Transactions:
    """All transactions of one server.

    `lifetime`: their maximum age, in databases of other profiles than `cosmos`.
    """

    def __init__(
        self, engine: Engine, collections: Collections, cursors: Cursors, monotonic: Callable[[], int]
    ) -> None:
        """Begin without transactions. `monotonic`: returns the host's monotonic time in microseconds."""
        self.lifetime: Span = LIFETIME
        self._engine = engine
        self._collections = collections
        self._cursors = cursors
        self._monotonic = monotonic
        self._latest: dict[SessionKey, TransactionState] = {}
        self._open: dict[SessionKey, TransactionState] = {}
        self._next_check_at = 0
        """The monotonic time from which on a command looks for overdue transactions again."""
        self._timer: asyncio.TimerHandle | None = None
        """Ends overdue transactions while no command arrives."""
        self.counts = TransactionCounts()
        self._background_tasks: set[asyncio.Task[None]] = set()
        """Kept here, because the event loop holds only weak references to tasks."""

    def __len__(self) -> int:
        """The number of open transactions."""
        return len(self._open)

    def list_open(self) -> list[tuple[SessionKey, TransactionState]]:
        """The open transactions, by (owner, id) of their sessions."""
        return list(self._open.items())

    # --- statements --------------------------------------------------------------------------------------------------

    async def perform(self, command: TransactionCommand, act: Callable[[TransactionWork], Awaitable[T]]) -> T:
        """Run a command within its transaction; an error aborts the transaction. Raise MqlError 251, 256, 225, 72."""
        transaction = await self._find_or_start(command)
        work = transaction.work
        assert work is not None
        async with work.lock:
            self._check_open(transaction)
            try:
                # As in MongoDB, any error of a command aborts the transaction. A cancelled command leaves an unknown
                # part done.
                answer = await act(work)
            except BaseException:
                await self._end(command.key, transaction, "aborted")
                raise
            # A statement was refused, and its command reports that among its `writeErrors` instead of failing.
            if work.ended:
                await self._end(command.key, transaction, "aborted")
            return answer

    async def _find_or_start(self, command: TransactionCommand) -> TransactionState:
        await self._end_overdue()
        key, number = command.key, command.number
        transaction = self._latest.get(key)
        if command.starts:
            return await self._start(command, transaction)
        if transaction is None or transaction.number < number:
            active = -1 if transaction is None else transaction.number
            text = f"Given transaction number {number} does not match any in-progress transactions."
            raise MqlError(251, f"{text} The active transaction number is {active}")
        if transaction.number > number:
            raise too_old_error(number, transaction.number)
        self._check_open(transaction)
        if command.has_read_concern:
            await self._end(key, transaction, "aborted")
            raise MqlError(72, "Only the first command in a transaction may specify a readConcern")
        return transaction

    async def _start(self, command: TransactionCommand, before: TransactionState | None) -> TransactionState:
        key, number = command.key, command.number
        last = await self._last_number(command.session) if before is None else before.number
        if number < last:
            raise too_old_error(number, last)
        if number == last:
            text = f"Cannot start a transaction at given transaction number {number} a transaction with the same number"
            raise MqlError(50911, f"{text} is in state {'none' if before is None else before.phase}")
        if before is not None:
            await self._end(key, before, "aborted")
        if not self._engine.open_transactions.take():
            text = f"{self._engine.open_transactions.limit} transactions are open, and no more may be."
            raise MqlError(365, text, (TRANSIENT_LABEL,))
        try:
            snapshot = await self._begin(command)
        except BaseException:
            self._engine.open_transactions.give()
            raise
        ends_at = self._monotonic() + (COSMOS_LIFETIME if command.cosmos_rules else self.lifetime)
        work = TransactionWork(self._engine, snapshot, number)
        transaction = TransactionState(number, "open", work, ends_at, command.cosmos_rules)
        self._latest[key] = self._open[key] = transaction
        self.counts.started += 1
        self._schedule_end(ends_at)
        return transaction

    async def _begin(self, command: TransactionCommand) -> Snapshot:
        space = await self._engine.node(SPACE)
        databases = [] if space is None else await self._engine.children(space.id)
        # The snapshot begins now for every collection that exists, also for one that the transaction first uses later.
        parents = [node.id for node in databases]
        return await Snapshot.begin(self._engine, command.now, parents, exclusive=True)

    async def _last_number(self, session: LogicalSession) -> int:
        """The last number that the session has used for a stored write; -1: none."""
        kept = await retries.read_session_document(self._engine, self._collections, session)
        return -1 if kept is None else int(kept["txnNum"])

    def _check_open(self, transaction: TransactionState) -> None:
        if transaction.phase in ("committing", "committed"):
            raise MqlError(256, f"Transaction with {{ txnNumber: {transaction.number} }} has been committed.")
        if transaction.phase == "expired":
            raise bad_value("Transaction isn't active")
        if transaction.phase == "aborted":
            raise abort_error(transaction.number)

    def knows(self, session: LogicalSession) -> bool:
        """Return True if the session has had a transaction."""
        return _session_key(session) in self._latest

    async def begin_retryable_write(self, session: LogicalSession, number: int) -> None:
        """Abort the session's transaction, because a retryable write follows.

        Raise MqlError 225 if the transaction is newer.
        """
        transaction = self._latest.get(_session_key(session))
        if transaction is None:
            return
        if transaction.number >= number:
            raise too_old_error(number, transaction.number)
        await self._end(_session_key(session), transaction, "aborted")
        self._latest.pop(_session_key(session), None)

    # --- ends --------------------------------------------------------------------------------------------------------

    async def commit(self, session: LogicalSession, number: int, now: Instant) -> None:
        """Commit a transaction, or confirm that it was committed.

        Raise MqlError 251, WriteConflict, or OutcomeUnknown: ask again.
        """
        key = _session_key(session)
        await self._end_overdue()
        transaction = self._latest.get(key)
        if transaction is None or transaction.number < number:
            if not await self._was_committed(session, number):
                raise _unmatched_number_error(number)
            return
        if transaction.number > number:
            raise too_old_error(number, transaction.number)
        if transaction.work is not None:
            # A cancelled caller must not stop the commit, whose end releases the locks.
            await asyncio.shield(
                self._run_in_background(self._commit(session, transaction, now, transaction.work.lock))
            )
        elif transaction.phase != "committed":
            self._check_open(transaction)

    async def _commit(
        self, session: LogicalSession, transaction: TransactionState, now: Instant, lock: asyncio.Lock
    ) -> None:
        async with lock:
            await self._commit_under_lock(session, transaction, now)

    async def _commit_under_lock(self, session: LogicalSession, transaction: TransactionState, now: Instant) -> None:
        key, work = _session_key(session), transaction.work
        if work is None:
            # The transaction ended while this command waited.
            if transaction.phase != "committed":
                self._check_open(transaction)
            return
        claim = None
        if work.snapshot.written:
            sessions = await self._collections.ensure(retries.DATABASE, retries.COLLECTION, now)
            if transaction.work is None:
                # An abort, or the end of the lifetime, takes no lock, and came while the collection was looked up.
                self._check_open(transaction)
            # A transaction that only reads leaves no marker: to commit it again has no effect to be prevented.
            claim = retries.CommitMarker(sessions, session, transaction.number).write
        # From here on neither the lifetime nor an abort may end the transaction.
        transaction.phase = "committing"
        self._open.pop(key, None)
        try:
            await work.snapshot.commit(now, claim)
        except OutcomeUnknown:
            work.snapshot.close()
            # Locks are released. `work` stays, so that the repetition commits again: its marker is then there, or can
            # be written.
            raise  # A repeated commit finds out.
        except Unavailable:
            transaction.phase, self._open[key] = "open", transaction  # Nothing was stored.
            self._schedule_end(transaction.ends_at)
            raise
        except Exception:
            await self._end(key, transaction, "aborted")
            raise
        await self._end(key, transaction, "committed")

    async def _was_committed(self, session: LogicalSession, number: int) -> bool:
        kept = await retries.read_session_document(self._engine, self._collections, session)
        return kept is not None and int(kept["txnNum"]) == number and kept.get("state") == "committed"

    async def abort(self, session: LogicalSession, number: int) -> None:
        """Abort a transaction. Raise MqlError 251 if it is unknown, 256 if it is committed."""
        key = _session_key(session)
        await self._end_overdue()
        transaction = self._latest.get(key)
        if transaction is None or transaction.number < number:
            if await self._was_committed(session, number):
                raise MqlError(256, f"Transaction with {{ txnNumber: {number} }} has been committed.")
            raise _unmatched_number_error(number)
        if transaction.number > number:
            raise too_old_error(number, transaction.number)
        self._check_open(transaction)
        await self._end(key, transaction, "aborted")

    async def end_session(self, session: LogicalSession) -> None:
        """Abort the open transaction of a session that has ended."""
        transaction = self._latest.pop(_session_key(session), None)
        if transaction is not None:
            await self._end(_session_key(session), transaction, "aborted")

    async def abort_open(self, session: LogicalSession, number: int) -> None:
        """Abort the open transaction of a session if it has this number."""
        key = _session_key(session)
        transaction = self._open.get(key)
        if transaction is not None and transaction.number == number:
            await self._end(key, transaction, "aborted")

    async def end_overdue_each_second(self) -> None:
        """End transactions that exceed their lifetime, checked at most once a second. Their clients may be gone."""
        now = self._monotonic()
        if self._open and now >= self._next_check_at:
            self._next_check_at = now + SECOND
            await self._end_overdue()

    async def _end_overdue(self) -> None:
        """End transactions that exceed their lifetime."""
        now = self._monotonic()
        for key, transaction in [each for each in self._open.items() if each[1].ends_at < now]:
            # The two limits have different error texts.
            await self._end(key, transaction, "expired" if transaction.cosmos_rules else "aborted")

    def _schedule_end(self, ends_at: int) -> None:
        """Have a timer end transactions at this time at the latest, because plain writes wait for their locks."""
        loop = asyncio.get_running_loop()
        due = loop.time() + max(0, ends_at - self._monotonic()) / SECOND + TIMER_SLACK
        if self._timer is not None:
            if self._timer.when() <= due:
                return
            # Lifetimes differ, so a later transaction may end first.
            self._timer.cancel()
        self._timer = loop.call_at(due, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None

        async def end_and_reschedule() -> None:
            await self._end_overdue()
            if self._open:
                self._schedule_end(min(transaction.ends_at for transaction in self._open.values()))

        self._run_in_background(end_and_reschedule())

    def _run_in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._background_tasks.add(task)
        task.add_done_callback(self._background_tasks.discard)
        return task

    async def _end(self, key: SessionKey, transaction: TransactionState, phase: Phase) -> None:
        work = transaction.work
        if work is None:
            return
        # All three before the first await: no other command may see a part of it.
        transaction.phase, transaction.work, work.ended = phase, None, True
        work.snapshot.close()
        self._engine.open_transactions.give()
        if phase == "committed":
            self.counts.committed += 1
        else:
            self.counts.aborted += 1
        if self._open.get(key) is transaction:
            del self._open[key]
        await self._cursors.end_transaction(work)


def _session_key(session: LogicalSession) -> SessionKey:
    return session.owner, session.id


def too_old_error(number: int, last: int) -> MqlError:
    """The error 225 of a number that is lower than the session's last."""
    text = f"Cannot start transaction with txnNumber {number} because a newer transaction with txnNumber {last}"
    return MqlError(225, f"{text} has already started on this session.")


def _unmatched_number_error(number: int) -> MqlError:
    return MqlError(251, f"Given transaction number {number} does not match any in-progress transactions.")
