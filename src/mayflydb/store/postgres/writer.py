"""Group commit: the queued writes are decided together in one transaction, committed once, and only then answered."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from itertools import islice
from typing import Any

import asyncpg

from mayflydb.clock import Stopwatch
from mayflydb.model.errors import MayflyError, OutcomeUnknown, Unavailable
from mayflydb.store.interface import Committed, Decision, Urgency
from mayflydb.store.postgres import citus
from mayflydb.store.postgres.catalog_cache import CatalogCache
from mayflydb.store.postgres.connection import (
    CONNECTION_LOST,
    DATABASE_ERRORS,
    RETRYABLE,
    LockTaken,
    StaleGuess,
    connect,
    dial,
    pause,
    retry_delay,
    translate_error,
)
from mayflydb.store.postgres.holds import Holds
from mayflydb.store.postgres.statement import Statement
from mayflydb.store.postgres.transaction import Transaction
from mayflydb.store.write_queues import QueuedWrite, Refusal, WriteQueues

log = logging.getLogger(__name__)

GROUP_LIMIT = 512
"""The most writes of one group: the first of a group waits for the last to be decided."""

PLAN_GROUPS = 1024
"""Groups after which statements are planned again; the first few, after twice as many as before."""

ATTEMPTS = 5
"""The number of times that a group is run while nothing of it has happened."""

RESOLVE_SECONDS = 30.0
"""Seconds in which the writer tries to find the outcome of a COMMIT whose answer was lost."""

RECOVERY_POLL_SECONDS = 0.05
"""Seconds between two looks at workers that have not finished a commit."""

RECOVERY_SECONDS = 1.0
"""On Citus: after so long, and again and again, a group makes workers end what they have prepared: it may wait for that."""


# Each transaction inserts a marker (writer, number) of its own and removes those of transactions whose outcome is known. The
# marker is committed with the changes or not at all. To resolve a lost COMMIT the writer inserts the same marker on a new
# connection: a conflict means committed; success means rolled back, and keeps the number from ever being committed.
_ADD_MARKER = "INSERT INTO mayfly.outcome(writer, number) SELECT {0}::bigint, {1}::bigint WHERE true"
_REMOVE_MARKERS = "DELETE FROM mayfly.outcome WHERE writer = {0} AND number < {1}"
_CLAIM_MARKER = "INSERT INTO mayfly.outcome(writer, number) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING number"


class DecidedWrite:
    """A write of a group with its result. `changes_rows`: other nodes may have cached catalogue rows that it changes."""

    __slots__ = ("changes_rows", "job", "purged", "reply")

    def __init__(self, job: QueuedWrite, reply: Any, purged: Any = (), changes_rows: bool = False) -> None:
        self.job = job
        self.reply = reply
        self.purged = purged
        self.changes_rows = changes_rows


class Writer:
    """The writer of this node. Other nodes write to the same database; row locks and retries keep the writes in order."""

    def __init__(
        self,
        url: str,
        distributed: bool,
        learn: Callable[[int], None],
        wait_for_nodes: Callable[[int], Awaitable[None]],
        holds: Holds,
        stopwatch: Stopwatch,
    ) -> None:
        """`learn` takes note of a new version of the catalogue; `wait_for_nodes` waits until all other nodes have."""
        self._url = url
        self._distributed = distributed
        self._learn = learn
        self._wait_for_nodes = wait_for_nodes
        self._holds = holds
        self._stopwatch = stopwatch
        self._queues = WriteQueues(stopwatch)
        self._connection: asyncpg.Connection | None = None
        self._backend = 0
        """On Citus: the process of the coordinator that serves the connection."""

        self._commit_seq = 0
        self._id = 0
        self._in_transaction = False
        self._catalog_cache = CatalogCache()
        self._marker = 0
        self._warning: str | None = None
        """The last warning of the server since COMMIT was sent."""
        self._unresolved: set[int] = set()
        self._background: set[asyncio.Task[None]] = set()
        self._task = asyncio.create_task(self._run(), name="writer")

    def submit(self, decide: Callable[[], Decision[Any]], urgency: Urgency) -> Coroutine[Any, Any, Committed[Any]]:
        """Queue a decision and wait for its commit."""
        return self._queues.submit(decide, urgency)

    async def close(self) -> None:
        """Finish the writes that are queued; refuse later ones."""
        self._queues.close()
        await asyncio.wait([self._task, *self._background])
        await self._drop_connection()

    async def reset(self) -> None:
        """Remove everything, in turn with the queued writes."""
        await self._queues.submit(_reset_decision, "user")

    async def _run(self) -> None:
        queues = self._queues
        while not (queues.closing and queues.next_urgency() is None):
            await queues.wait_for_work()
            while (urgency := queues.next_urgency()) is not None:
                began = self._stopwatch()
                queue = queues.queues[urgency]
                group = [queue.popleft() for _ in islice(queue.copy(), GROUP_LIMIT if urgency == "user" else 1)]
                await self._run_group(
                    [job for job in group if not job.future.cancelled()], began if urgency == "sweep" else None
                )
                queues.charge(urgency, began)

    async def _run_group(self, jobs: list[QueuedWrite], held_since: int | None) -> None:
        if not self._distributed:
            await self._try_group(jobs, held_since)
            return
        recovering = asyncio.create_task(self._recover())
        try:
            await self._try_group(jobs, held_since)
        finally:
            recovering.cancel()

    async def _recover(self) -> None:
        """End what workers have prepared and were not told to end: the locks would stay for up to a minute."""
        while True:
            await pause(RECOVERY_SECONDS)
            try:
                connection = await connect(self._url)
                try:
                    await citus.recover(connection)
                finally:
                    connection.terminate()
            except (MayflyError, *DATABASE_ERRORS) as error:
                log.info("workers cannot be asked for what they have prepared: %s", error)

    async def _try_group(self, jobs: list[QueuedWrite], held_since: int | None) -> None:
        locks: frozenset[int] = frozenset()
        attempt = 0
        while True:
            attempt += 1
            try:
                await self._attempt(jobs, held_since, locks)
                return
            except LockTaken as taken:
                # Each time there is at least one lock more, so this comes to an end. It is no attempt that failed.
                locks |= taken.locks
                attempt -= 1
                await self._drop_transaction()
            except StaleGuess:
                # Without guesses the group locks before it reads. It is no attempt that failed.
                attempt -= 1
                await self._drop_transaction()
            except DATABASE_ERRORS as error:
                # The old connection may be inside of a failed transaction; a new one starts without any.
                await self._drop_connection()
                if attempt == ATTEMPTS or not isinstance(error, (*RETRYABLE, *CONNECTION_LOST)):
                    self._fail(jobs, translate_error(error))
                    return
                log.info("a group of %d writes is tried again: %s", len(jobs), error)
                if isinstance(error, CONNECTION_LOST):
                    await pause(retry_delay(attempt))
            except MayflyError as error:
                await self._drop_connection()
                self._fail(jobs, error)
                return
            except Exception as error:
                log.exception("a group of writes failed")
                await self._drop_connection()
                self._fail(jobs, Unavailable(f"the store could not write: {error!r}"))
                return

    def _fail(self, jobs: list[QueuedWrite], error: MayflyError) -> None:
        for job in jobs:
            job.fail(type(error)(error.message, **error.detail))

    async def _attempt(self, jobs: list[QueuedWrite], held_since: int | None, locks: frozenset[int]) -> None:
        """Run a group up to the answers. Where this raises, nothing of the group has happened."""
        connection = await self._ensure_connection()
        self._marker = number = self._marker + 1
        if not self._distributed and (number % PLAN_GROUPS == 0 or number.bit_count() == 1):
            # Plans for small tables may be bad ones for large tables, and tables grow.
            await connection.execute("DISCARD PLANS")
        transaction = Transaction(
            connection, self._distributed, self._catalog_cache, self._holds, self._add_markers, self._in_transaction
        )
        self._in_transaction = False
        if locks:
            await transaction.lock_first(locks)
        await transaction.prefetch(job.decide for job in jobs if job.decide is not _reset_decision)
        done = [await self._decide(transaction, job) for job in jobs]
        version = await transaction.finish()
        self._warning = None
        backend = self._backend
        try:
            await self._commit(connection, transaction)
        except CONNECTION_LOST as error:
            # COMMIT may have arrived or not. The outcome is found in a task of its own, so that the next group need not wait.
            await self._drop_connection()
            self._unresolved.add(number)
            self._start_task(self._resolve(done, version, number, backend, error))
            return
        self._catalog_cache.note_commit(transaction.locked_rows())
        if self._warning is not None:
            self._start_task(self._finish(done, version, backend, self._warning))
            return
        self._report_commit(done, version, 0 if held_since is None else self._stopwatch() - held_since)

    def _add_markers(self, statement: Statement) -> None:
        statement.add("signed", _ADD_MARKER, self._id, self._marker)
        statement.add("known", _REMOVE_MARKERS, self._id, min(self._unresolved, default=self._marker))

    async def _ensure_connection(self) -> asyncpg.Connection:
        connection = self._connection
        if connection is None or connection.is_closed():
            connection = self._connection = await dial(self._url)
            if not self._distributed:
                # A group's statement is planned for longer than it runs, and every row is found by its key whatever the
                # arguments are. Citus plans by the arguments, to find the workers.
                await connection.execute("SET plan_cache_mode = force_generic_plan")
            else:
                connection.add_log_listener(self._on_warning)
                await citus.recover(connection)
                # What the driver was told may be a number of a pooler.
                self._backend = await connection.fetchval("SELECT pg_backend_pid()")
            if not self._id:
                self._id = await connection.fetchval("SELECT nextval('mayfly.writer')")
        return connection

    def _on_warning(self, connection: object, message: asyncpg.PostgresLogMessage) -> None:
        if message.severity_en == "WARNING":
            self._warning = message.message

    async def _commit(self, connection: asyncpg.Connection, transaction: Transaction) -> None:
        if not transaction.is_begun:
            await transaction.commit_at_once()
            return
        # Writes that wait already go on in a transaction that begins with the end of this one. By guess they need none.
        waiting = self._queues.next_urgency() is not None and (self._distributed or not self._catalog_cache.rows)
        await connection.execute("COMMIT AND CHAIN" if waiting else "COMMIT")
        self._in_transaction = waiting

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _report_commit(self, done: list[DecidedWrite], version: int | None, held: int = 0) -> None:
        self._commit_seq += 1
        if version is not None:
            # Only the writes that change the catalogue wait for the other nodes: a dead one delays them by up to its lease.
            self._learn(version)
            changing = [each for each in done if each.changes_rows]
            done = [each for each in done if not each.changes_rows]
            if changing:
                self._start_task(self._tell(version, changing, self._commit_seq))
        self._answer(done, self._commit_seq, held)

    async def _tell(self, version: int, done: list[DecidedWrite], commit_seq: int) -> None:
        await self._wait_for_nodes(version)
        self._answer(done, commit_seq)

    async def _decide(self, transaction: Transaction, job: QueuedWrite) -> DecidedWrite:
        if job.decide is _reset_decision:
            await transaction.empty()
            return DecidedWrite(job, None, changes_rows=True)
        before = transaction.changed_rows
        try:
            reply, purged = await transaction.run(job.decide)
        except DATABASE_ERRORS:
            raise
        except Exception as error:  # noqa: BLE001
            # A refusal (or a bug) of this decision alone, which has changed nothing yet. It may rest on writes of its group that
            # are not committed, so it is answered after the commit.
            return DecidedWrite(job, Refusal(error))
        return DecidedWrite(job, reply, purged, transaction.changed_rows > before)

    async def _resolve(
        self, done: list[DecidedWrite], version: int | None, number: int, backend: int, error: BaseException
    ) -> None:
        """Find the outcome of a transaction whose COMMIT was not answered, and answer its writes."""
        jobs = [each.job for each in done]
        try:
            is_committed = await self._is_committed(number, error)
        except OutcomeUnknown as unknown:
            self._fail(jobs, unknown)
            return
        finally:
            self._unresolved.discard(number)
        if is_committed and self._distributed:
            # The process of the coordinator may still be telling the workers, or have ended before it did.
            await self._finish(done, version, backend, f"the connection was lost: {error}")
            return
        if is_committed:
            self._report_commit(done, version)
            return
        for job in jobs:
            job.tries += 1
        self._fail([job for job in jobs if job.tries >= ATTEMPTS], translate_error(error))
        again = [job for job in jobs if job.tries < ATTEMPTS]
        if self._queues.closing:
            self._fail(again, translate_error(error))
        else:
            self._queues.requeue(again)

    async def _finish(self, done: list[DecidedWrite], version: int | None, backend: int, warning: str) -> None:
        """Answer the writes of a committed transaction when it is committed on all workers too. OutcomeUnknown after
        RESOLVE_SECONDS.
        """
        log.warning("a commit is not finished on all workers: %s", warning)
        ends = self._stopwatch() + int(RESOLVE_SECONDS * 1e6)
        while self._stopwatch() < ends:
            try:
                connection = await connect(self._url)
                try:
                    finished = await citus.has_finished(connection, backend)
                finally:
                    connection.terminate()
            except (MayflyError, *DATABASE_ERRORS):
                finished = False
            if finished:
                self._report_commit(done, version)
                return
            await pause(RECOVERY_POLL_SECONDS)
        self._fail([each.job for each in done], OutcomeUnknown(f"the commit is not finished on all workers: {warning}"))

    async def _is_committed(self, number: int, error: BaseException) -> bool:
        """True if the transaction with this marker is committed. If not, the marker is claimed, so that it never will be.

        OutcomeUnknown if the database does not answer within RESOLVE_SECONDS.
        """
        ends = self._stopwatch() + int(RESOLVE_SECONDS * 1e6)
        wait = 0.05
        while self._stopwatch() < ends:
            try:
                connection = await connect(self._url)
                try:
                    # If the transaction is still open, the INSERT waits for its end: the unique index decides between the two.
                    return await connection.fetchval(_CLAIM_MARKER, self._id, number) is None
                finally:
                    connection.terminate()
            except (MayflyError, *DATABASE_ERRORS):
                await pause(wait)
                wait = min(1.0, wait * 2)
        raise OutcomeUnknown(f"the connection was lost while committing: {error}")

    def _answer(self, done: list[DecidedWrite], commit_seq: int, held: int = 0) -> None:
        for each in done:
            future = each.job.future
            if isinstance(each.reply, Refusal):
                each.job.fail(each.reply.error)
            elif not future.done():
                future.set_result(Committed(each.reply, commit_seq, each.purged, held))

    async def _drop_transaction(self) -> None:
        """Roll back what the connection has begun; it stays open where the server says so."""
        self._catalog_cache.forget()
        try:
            assert self._connection is not None
            await self._connection.execute("ROLLBACK")
            self._in_transaction = False
        except DATABASE_ERRORS:
            await self._drop_connection()

    async def _drop_connection(self) -> None:
        """Close the connection; the server rolls back its transaction."""
        connection, self._connection, self._in_transaction = self._connection, None, False
        self._catalog_cache.forget()
        if connection is not None:
            connection.terminate()


def _reset_decision() -> Decision[None]:
    raise AssertionError("a reset is no decision")
