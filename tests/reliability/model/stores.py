"""Stores for the model: called without an event loop, and with a gate between picking a sweep and running it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

from mayflydb.store.interface import Committed, Decision, Read, Store, Urgency
from mayflydb.store.sqlite.connection import open_memory
from mayflydb.store.sqlite.directory_rounds import DirectoryRounds
from mayflydb.store.sqlite.prepare import prepare
from mayflydb.store.sqlite.transaction import Transaction

T = TypeVar("T")


def finish(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that waits for nobody to its end; giving others a turn (`sleep(0)`) means going on at once."""
    while True:
        try:
            work.send(None)
        except StopIteration as end:
            result: T = end.value
            return result


class Direct:
    """SQLite in memory through its transactions alone: each write is a group of one, decided, applied and committed here.

    After each write a round through the directory, if one is due, makes its next step.
    """

    description = "memory"
    durable = False

    def __init__(self) -> None:
        self._transaction = prepare(open_memory())
        self._round: Coroutine[Any, Any, None] | None = None
        self._rounds = self._new_rounds()

    def _new_rounds(self) -> DirectoryRounds:
        return DirectoryRounds(self._transaction.connection, self._transaction.stale, self._make_step, 5)

    async def _make_step(self, decide: Callable[[], Decision[Any]], urgency: Urgency) -> Committed[Any]:
        await Turn()
        return self._decide(decide)

    def _go_on_with_round(self) -> None:
        if self._round is None:
            container = self._rounds.choose(1 << 60, 1)
            if container is None:
                return
            self._round = self._rounds.make_round(container)
        try:
            self._round.send(None)
        except StopIteration:
            self._round = None

    @property
    def catalog_version(self) -> int:
        return self._transaction.catalog.version

    def reload(self) -> None:
        """What a restart does: everything that was kept beside the tables is read from them again."""
        self._transaction.connection.execute("DROP TABLE temp.chosen")
        self._transaction = Transaction(self._transaction.connection)
        if self._round is not None:
            self._round.close()
            self._round = None
        self._rounds = self._new_rounds()

    async def read(self, request: Read[T]) -> T:
        answer: T = self._transaction._answer(request)
        return answer

    async def write(self, decide: Callable[[], Decision[T]], urgency: Urgency = "user") -> Committed[T]:
        try:
            return self._decide(decide)
        finally:
            self._go_on_with_round()

    def _decide(self, decide: Callable[[], Decision[T]]) -> Committed[T]:
        transaction = self._transaction
        transaction.begin()
        try:
            reply, purged = _to_the_end(transaction.run(decide))
        except Exception:
            self._commit()  # As in a group: a refusal leaves nothing but gaps in the numbers.
            raise
        self._commit()
        return Committed(reply, transaction.commit_seq, purged)

    def _commit(self) -> None:
        self._transaction.prepare()
        self._transaction.connection.execute("COMMIT")
        self._transaction.publish()

    async def reset(self) -> None:
        self._transaction.begin()
        self._transaction.remove_all()
        self._commit()

    async def close(self) -> None:
        self._transaction.connection.close()


def _to_the_end(steps: Generator[None, None, T]) -> T:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            done: T = end.value
            return done


class Turn:
    """What the gate waits for; a plain suspension, so that whoever drives the coroutine decides when it goes on."""

    def __await__(self) -> Any:
        yield


class Gate:
    """A store whose sweeps wait in a queue, as real ones do: between the reaper's choice and its transaction all may happen."""

    def __init__(self, store: Store) -> None:
        self.store = store

    @property
    def description(self) -> str:
        return self.store.description

    @property
    def durable(self) -> bool:
        return self.store.durable

    @property
    def catalog_version(self) -> int:
        return self.store.catalog_version

    async def read(self, request: Read[T]) -> T:
        return await self.store.read(request)

    async def write(self, decide: Callable[[], Decision[T]], urgency: Urgency = "user") -> Committed[T]:
        if urgency == "sweep":
            await Turn()
        return await self.store.write(decide, urgency)

    async def reset(self) -> None:
        await self.store.reset()

    async def close(self) -> None:
        await self.store.close()
