"""Group commit: the queued writes are decided and applied together, committed once, and only then answered.

Deciding is quick work on cached pages and runs on the event loop. Sweeps, checkpoints and commits wait for the disk and run on
the writer's thread; the commits of a disk that is quicker than waking a thread stay on the loop. Handing each write over to a
thread would cost more than the write.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import apsw

from mayflydb.clock import Stopwatch
from mayflydb.model.errors import Corrupt, MayflyError, OutcomeUnknown, OutOfSpace, Unavailable
from mayflydb.model.instant import SECOND
from mayflydb.store.interface import Committed, Decision, Urgency
from mayflydb.store.sqlite.checkpoint import WriteAheadLog
from mayflydb.store.sqlite.commit_speed import CommitSpeed
from mayflydb.store.sqlite.damage import describe, is_damage
from mayflydb.store.sqlite.space import LOOK_US, Space, is_full
from mayflydb.store.sqlite.transaction import Transaction
from mayflydb.store.write_queues import QueuedWrite, Refusal, WriteQueues

T = TypeVar("T")

GROUP_LIMIT = 512
"""The most writes of one group: the first write waits for the decision of the last."""
SLICE_US = 2_000
"""Microseconds of decisions after which the event loop runs other tasks."""


class Writer:
    """The single writer of a database.

    `thread` None: a memory database, where a commit waits for nothing and readers share the connection, so that reads wait while
    a write is half applied. `halt` ends the process: after a failed fsync the content of the disk is unknown.
    """

    def __init__(
        self,
        transaction: Transaction,
        log: WriteAheadLog | None,
        thread: ThreadPoolExecutor | None,
        halt: Callable[[str], None],
        stopwatch: Stopwatch,
        space: Space | None = None,
    ) -> None:
        self._transaction = transaction
        transaction.space = space
        self._space = space
        self._in_doubt = False
        """True: the disk may hold a commit that failed. The next commit is written over it, at the same place of the log."""
        self._log = log
        self._thread = thread
        self.uncommitted: asyncio.Future[None] | None = None
        """Set while a connection that readers share has changes of a write that is not finished; done after their commit."""
        self._halt = halt
        self._stopwatch = stopwatch
        self._queues = WriteQueues(stopwatch)
        self._must_checkpoint = False
        self._alone: deque[tuple[Callable[[], Any], Callable[[Any], None], asyncio.Future[Any]]] = deque()
        self._scrubs: deque[tuple[bool, asyncio.Future[bool]]] = deque()
        self._commit_speed = CommitSpeed()
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._run(), name="writer")

    def submit(self, decide: Callable[[], Decision[Any]], urgency: Urgency) -> Coroutine[Any, Any, Committed[Any]]:
        """Queue a decision and wait for its commit."""
        return self._queues.submit(decide, urgency)

    async def run_alone(self, work: Callable[[], T], publish: Callable[[T], None] = lambda done: None) -> T:
        """Run work that uses the writer's connection, on a thread, between two transactions. Reads wait meanwhile.

        `publish`: called with its result before they go on, also if the caller has left. Errors: those of the work;
        Unavailable if the writer is closing.
        """
        if self._queues.closing or self._task.done():
            raise Unavailable("the store is closing")
        future: asyncio.Future[T] = self._loop.create_future()
        self._alone.append((work, publish, future))
        self._queues.wake()
        return await future

    async def _run_all_alone(self) -> None:
        while self._alone:
            work, publish, future = self._alone.popleft()
            if future.cancelled():
                continue
            self.uncommitted = self._loop.create_future()
            try:
                done = await self._loop.run_in_executor(self._thread, work)
                publish(done)
            except Exception as error:  # noqa: BLE001 -- it is the caller's.
                if not future.done():
                    future.set_exception(error)
            else:
                if not future.done():
                    future.set_result(done)
            finally:
                self._release_readers()

    async def scrub(self, insist: bool) -> bool:
        """Scrub the log between two transactions, as `WriteAheadLog.scrub` does. Unavailable if the writer is closing."""
        if self._queues.closing or self._task.done():
            raise Unavailable("the store is closing")
        future: asyncio.Future[bool] = self._loop.create_future()
        self._scrubs.append((insist, future))
        self._queues.wake()
        return await future

    async def _scrub_all(self) -> None:
        while self._scrubs:
            insist, future = self._scrubs.popleft()
            log = self._log
            done = log is None or await self._run_on_thread(partial(log.scrub, insist))
            if not future.done():
                future.set_result(done)

    def abandon_file(self, reason: str) -> None:
        """Refuse all writes from now on: the file was taken away. The log is copied into it."""
        self._must_checkpoint = True
        self._space = None
        self._queues.refuse(reason)

    async def close(self, last: Callable[[], Decision[Any]] | None = None) -> None:
        """Finish the writes that are queued, and then `last`; refuse later ones."""
        self._queues.close(last)
        await self._task
        while self._alone:
            self._alone.popleft()[2].cancel()
        while self._scrubs:
            self._scrubs.popleft()[1].cancel()

    async def _run(self) -> None:
        try:
            await self._process_queues()
        except Exception as error:
            # Without a writer all queued writes would wait for ever. The next start recovers what is on the disk.
            self._halt(f"the writer failed: {error!r}")
            raise

    async def _process_queues(self) -> None:
        queues = self._queues
        while not (queues.closing and queues.next_urgency() is None):
            await queues.wait_for_work()
            await self._run_all_alone()
            if self._scrubs:
                await self._scrub_all()
            if self._must_checkpoint and self._log is not None:
                # A renamed file gets all acknowledged writes: its log was perhaps not renamed with it.
                self._must_checkpoint = False
                await self._run_on_thread(partial(self._log.checkpoint, apsw.SQLITE_CHECKPOINT_TRUNCATE))
            if self._is_look_due():
                await self._look_at_disk()
            while (urgency := queues.next_urgency()) is not None:
                began = self._stopwatch()
                if urgency == "user":
                    await self._run_group(queues.queues["user"], GROUP_LIMIT)
                    self._release_readers()
                else:
                    await self._sweep(queues.queues["sweep"])
                queues.charge(urgency, began)
                if self._log is not None and self._log.is_due:
                    await self._run_on_thread(self._log.maintain)
                if self._is_look_due():
                    await self._look_at_disk()
                await self._run_all_alone()
                if self._scrubs:
                    await self._scrub_all()

    def _is_look_due(self) -> bool:
        return self._space is not None and self._log is not None and self._space.is_due(self._log.written)

    async def _look_at_disk(self) -> None:
        """Look at the free space. While it is short, the next look does not wait for a write."""
        space, log = self._space, self._log
        assert space is not None
        assert log is not None

        def look() -> bool:
            space.look()
            if not space.is_short:
                log.regrow()
                return False
            is_shrinking = log.shrink()
            space.look()
            return is_shrinking

        if await self._run_on_thread(look):
            space.hurry()
            self._queues.wake()
        elif space.is_short:
            self._loop.call_later(LOOK_US / SECOND, self._queues.wake)

    async def _run_group(self, queue: deque[QueuedWrite], limit: int) -> None:
        done: list[tuple[QueuedWrite, Any, Any]] = []
        try:
            self._transaction.begin()
            began = started = self._stopwatch()
            while queue and len(done) < limit:
                for _ in self._decide(queue.popleft(), done):
                    if self._stopwatch() - started > SLICE_US:
                        await self._pause()
                        started = self._stopwatch()
                if self._stopwatch() - started > SLICE_US:
                    if self._thread is None:
                        # Readers share the connection and would have to wait: the group ends here instead.
                        break
                    await asyncio.sleep(0)
                    started = self._stopwatch()
            self._transaction.prepare()
        except apsw.Error as error:
            # When BEGIN itself failed, no write was taken from the queue yet: the error is the answer to all of them.
            await self._fail_group(done or [(queue.popleft(), None, None) for _ in range(len(queue))], queue, error)
            return
        # A group that took long to decide has many pages to write, and would block the loop.
        await self._commit(done, queue, on_loop=self._commit_speed.is_quick and self._stopwatch() - began <= SLICE_US)

    async def _sweep(self, queue: deque[QueuedWrite]) -> None:
        """Run one sweep in a transaction of its own on the thread: its SQL may take milliseconds."""
        done: list[tuple[QueuedWrite, Any, Any]] = []
        job = queue.popleft()
        started = self._stopwatch()

        def work() -> None:
            self._transaction.begin()
            for _ in self._decide(job, done):
                pass
            self._transaction.prepare()

        try:
            await self._run_on_thread(work)
        except apsw.Error as error:
            await self._fail_group(done or [(job, None, None)], queue, error)
            return
        await self._commit(done, queue, started)

    @property
    def _is_short(self) -> bool:
        return self._space is not None and self._space.is_short

    async def _pause(self) -> None:
        """Let other tasks run. Those that read wait if they would see uncommitted changes."""
        if self._thread is None and self._transaction.changed and self.uncommitted is None:
            self.uncommitted = self._loop.create_future()
        await asyncio.sleep(0)

    def _release_readers(self) -> None:
        if self.uncommitted is not None:
            self.uncommitted.set_result(None)
            self.uncommitted = None

    async def wait_for_commit(self) -> None:
        """Wait until a connection that readers share has no uncommitted changes."""
        while self.uncommitted is not None:
            await asyncio.shield(self.uncommitted)

    def _decide(self, job: QueuedWrite, done: list[tuple[QueuedWrite, Any, Any]]) -> Iterator[None]:
        """Run one write, in steps, and add it to `done`."""
        if job.future.cancelled():
            return
        try:
            reply, purged = yield from self._transaction.run(job.decide)
        except apsw.Error:
            done.append((job, None, None))
            raise
        except Exception as error:  # noqa: BLE001
            # A refusal (or a bug) of this decision alone, which has changed nothing yet. It may rest on writes of its group that
            # are not committed, so it is answered after the commit.
            done.append((job, Refusal(error), ()))
            return
        done.append((job, reply, purged))

    async def _commit(
        self,
        done: list[tuple[QueuedWrite, Any, Any]],
        queue: deque[QueuedWrite],
        held_since: int | None = None,
        on_loop: bool = False,
    ) -> None:
        if self._is_short and not self._in_doubt and all(isinstance(reply, Refusal) for _, reply, _ in done):
            # Not even the numbers that were given out are written, for which the disk may have no space.
            self._transaction.rollback()
            for job, refusal, _ in done:
                job.fail(refusal.error)
            return
        try:
            if on_loop:
                self._commit_group()
            else:
                await self._run_on_thread(self._commit_group if held_since is None else self._execute_commit)
        except apsw.Error as error:
            await (self._fail_keys if self._transaction.sealing.has_unwritten else self._fail_commit)(
                done, queue, error
            )
            return
        self._in_doubt = False
        self._transaction.publish()
        seq = self._transaction.commit_seq
        held = 0 if held_since is None else self._stopwatch() - held_since
        for job, reply, purged in done:
            if isinstance(reply, Refusal):
                job.fail(reply.error)
            elif not job.future.done():
                job.future.set_result(Committed(reply, seq, purged, held))

    def _execute_commit(self) -> None:
        if self._transaction.sealing.is_on:
            self._transaction.sealing.flush()
        self._transaction.connection.execute("COMMIT")

    def _commit_group(self) -> None:
        before = self._stopwatch()
        self._execute_commit()
        self._commit_speed.note(self._stopwatch() - before)

    async def _run_on_thread(self, work: Callable[[], T]) -> T:
        return work() if self._thread is None else await self._loop.run_in_executor(self._thread, work)

    async def _fail_group(
        self, done: list[tuple[QueuedWrite, Any, Any]], queue: deque[QueuedWrite], error: apsw.Error
    ) -> None:
        """Roll back a group that failed before COMMIT, and answer all its writes: nothing of them happened."""
        self._transaction.rollback()
        if is_damage(error):
            self._transaction.damage.note(error)
        for job in await self._make_room([job for job, _, _ in done], queue, error):
            job.fail(_failure_before_commit(job, error))

    async def _fail_keys(
        self, done: list[tuple[QueuedWrite, Any, Any]], queue: deque[QueuedWrite], error: apsw.Error
    ) -> None:
        """Answer the writes of a group whose keys could not be written, so that its COMMIT did not begin."""
        if error_code(error) == apsw.SQLITE_IOERR_FSYNC:
            self._halt(f"fsync failed: {error}")
        await self._fail_group(done, queue, error)

    async def _fail_commit(
        self, done: list[tuple[QueuedWrite, Any, Any]], queue: deque[QueuedWrite], error: apsw.Error
    ) -> None:
        # The disk may hold the commit or not: nothing may be answered before recovery has decided, at the next start.
        if error_code(error) in (apsw.SQLITE_IOERR_FSYNC, apsw.SQLITE_IOERR_DIR_FSYNC):
            self._halt(f"fsync failed: {error}")
        self._transaction.rollback()
        if self._transaction.stored_commit_seq != self._transaction.commit_seq:
            self._halt(f"a commit that failed is there: {error}")
        self._in_doubt = True
        for job, reply, _ in done:
            # A refusal has written nothing: its outcome is known.
            job.in_doubt = job.in_doubt or not isinstance(reply, Refusal)
        known = OutOfSpace if is_full(error) else Unavailable
        for job in await self._make_room([job for job, _, _ in done], queue, error):
            job.fail((OutcomeUnknown if job.in_doubt else known)(f"commit failed: {error}"))

    async def _make_room(
        self, jobs: list[QueuedWrite], queue: deque[QueuedWrite], error: apsw.Error
    ) -> list[QueuedWrite]:
        """On a full disk, release the reserve and queue the writes once more. Return those that have failed for good.

        The second attempt is a part of a later commit, which takes the place of the one that failed. Those that make the store
        grow are refused in it.
        """
        space, log = self._space, self._log
        if space is None or log is None or not is_full(error):
            return jobs

        def release() -> None:
            space.release()
            log.shrink()

        await self._run_on_thread(release)
        again = [job for job in jobs if not job.tries]
        for job in again:
            job.tries += 1
        queue.extendleft(reversed(again))
        self._loop.call_later(LOOK_US / SECOND, self._queues.wake)
        return [job for job in jobs if job not in again]


def _failure_before_commit(job: QueuedWrite, error: apsw.Error) -> MayflyError:
    if job.in_doubt:
        return OutcomeUnknown(f"the store could not write: {error}")
    if is_full(error):
        return OutOfSpace("the store could not write: the disk is full")
    return (Corrupt if is_damage(error) else Unavailable)(f"the store could not write: {describe(error)}")


def error_code(error: BaseException) -> int:
    """SQLite's extended result code."""
    return int(getattr(error, "extendedresult", 0))
