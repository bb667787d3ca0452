"""Wrappers that hold a store to its promises: Contract checks one against the interface, Mirror checks two against each other.

Both are stores themselves and raise AssertionError where a promise, or a caller's duty, is broken. Contract asks a few reads
of its own inside decisions; Mirror runs one request at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar, cast

from mayflydb.model.errors import Corrupt, OutcomeUnknown, OwnerNotFound, Unavailable
from mayflydb.store import interface
from store_suite.contract_checks import Changes, check_answer, check_request
from store_suite.versions import Versions

T = TypeVar("T")

READ_ERRORS = (Unavailable, Corrupt)
WRITE_ERRORS = (Unavailable, OutcomeUnknown, Corrupt, OwnerNotFound)
"""OwnerNotFound: numbers were wanted from a container that does not exist."""


class Numbers:
    """The largest numbers that committed decisions were given: lsn and seq by container, and catalogue ids."""

    def __init__(self) -> None:
        self.ids = 0
        self.lsns: dict[int, int] = {}
        self.seqs: dict[int, int] = {}

    def grow(self, request: interface.Read[Any], answer: Any) -> None:
        """Take note of an allocation; AssertionError unless it exceeds all before it."""
        if isinstance(request, interface.NewId):
            assert answer > self.ids, f"catalogue id {answer} after {self.ids}"
            self.ids = answer
        elif isinstance(request, interface.Allocate):
            lsn, seq = answer
            assert lsn > self.lsns.get(request.container, 0), f"{request} gave lsn {lsn} again"
            self.lsns[request.container] = lsn
            if request.seq:
                assert seq > self.seqs.get(request.container, 0), f"{request} gave seq {seq} again"
                self.seqs[request.container] = seq

    def copy(self) -> Numbers:
        twin = Numbers()
        twin.ids, twin.lsns, twin.seqs = self.ids, dict(self.lsns), dict(self.seqs)
        return twin

    def join(self, other: Numbers) -> None:
        """Take note of what another one saw."""
        self.ids = max(self.ids, other.ids)
        for mine, theirs in ((self.lsns, other.lsns), (self.seqs, other.seqs)):
            for container, number in theirs.items():
                mine[container] = max(mine.get(container, 0), number)


class Attempt(Generic[T]):
    """One run of a decision, with every request, answer and change checked."""

    def __init__(self, decide: Callable[[], interface.Decision[T]], versions: Versions, numbers: Numbers) -> None:
        self._decide = decide
        self._versions = versions
        self.numbers = numbers.copy()
        self.raised: Exception | None = None
        self.changes: tuple[interface.Change, ...] = ()
        self.redefines = False

    def run(self) -> interface.Decision[T]:
        """The decision itself, between the store and its factory."""
        try:
            outcome = yield from self._drive(self._decide())
            assert isinstance(outcome, interface.Outcome), f"a decision came to {outcome!r}"
            checked = Changes()
            for change in outcome.changes:
                yield from checked.check(change)
            self.redefines = checked.redefines
        except Exception as error:
            self.raised = error
            raise
        self.changes = outcome.changes
        return outcome

    def _drive(self, decision: interface.Decision[T]) -> interface.Decision[T]:
        answer: Any = None
        while True:
            try:
                request = decision.send(answer)
            except StopIteration as end:
                outcome: interface.Outcome[T] = end.value
                return outcome
            check_request(request)
            now = self._versions.now
            answer = yield request
            check_answer(request, answer)
            self._versions.check(request, answer, now)
            self.numbers.grow(request, answer)


class Contract:
    """Any store, with everything that the interface promises checked on the way in and on the way out."""

    def __init__(self, store: interface.Store) -> None:
        self._store = store
        self._versions = Versions()
        self._numbers = Numbers()
        self._commit_seq = 0

    @property
    def description(self) -> str:
        return self._store.description

    @property
    def durable(self) -> bool:
        return self._store.durable

    @property
    def catalog_version(self) -> int:
        return self._store.catalog_version

    async def read(self, request: interface.Read[T]) -> T:
        assert not isinstance(request, (interface.Allocate, interface.NewId)), f"{request} is for decisions only"
        check_request(request)
        now = self._versions.now
        try:
            answer = await self._store.read(request)
        except Exception as error:
            if not isinstance(error, READ_ERRORS):
                raise AssertionError(f"{request} failed with {error!r}") from error
            raise
        check_answer(request, answer)
        self._versions.check(request, answer, now)
        return answer

    async def write(
        self, decide: Callable[[], interface.Decision[T]], urgency: interface.Urgency = "user"
    ) -> interface.Committed[T]:
        attempts: list[Attempt[T]] = []

        def attempt() -> interface.Decision[T]:
            attempts.append(Attempt(decide, self._versions, self._numbers))
            return attempts[-1].run()

        before, catalog = self._commit_seq, self._store.catalog_version
        try:
            committed = await self._store.write(attempt, urgency)
        except Exception as error:
            own = bool(attempts) and error is attempts[-1].raised
            if not own and not isinstance(error, WRITE_ERRORS):
                raise AssertionError(f"a write failed with {error!r}") from error
            raise
        assert attempts, "the store committed without asking"
        self._check_commit(attempts[-1], committed, before)
        if attempts[-1].redefines:
            assert self._store.catalog_version > catalog, f"the catalogue changed and is still version {catalog}"
        return committed

    def _check_commit(self, attempt: Attempt[T], committed: interface.Committed[T], before: int) -> None:
        # Decisions of one group share a number; those that began after a commit returned must see a larger one.
        assert committed.commit_seq > before, f"commit {committed.commit_seq} after {before}"
        self._commit_seq = max(self._commit_seq, committed.commit_seq)
        assert attempt.raised is None, f"committed although the decision raised {attempt.raised!r}"
        limits = [
            change.limit
            for change in attempt.changes
            if isinstance(change, (interface.Purge, interface.ClearDropped, interface.RemoveEntries))
        ]
        assert len(limits) == len(committed.purged), f"{len(limits)} purges, {len(committed.purged)} answers"
        for limit, purged in zip(limits, committed.purged, strict=True):
            assert 0 <= purged.records <= limit, f"{purged} of at most {limit}"
            assert purged.value_bytes >= 0, f"{purged}"
            assert purged.records or not purged.value_bytes, f"bytes of no record: {purged}"
        self._numbers.join(attempt.numbers)
        self._versions.commit(attempt.changes)

    async def reset(self) -> None:
        await self._store.reset()
        self._versions.forget()

    async def close(self) -> None:
        await self._store.close()


class Mirror:
    """Two stores asked the same: every answer, reply and error must agree. Numbers of commits may differ."""

    def __init__(self, left: interface.Store, right: interface.Store) -> None:
        self._left = left
        self._right = right
        # Else a read could see one store before a write and the other after it.
        self._turn = asyncio.Lock()

    @property
    def description(self) -> str:
        return self._right.description

    @property
    def durable(self) -> bool:
        return self._left.durable and self._right.durable

    @property
    def catalog_version(self) -> int:
        return self._left.catalog_version

    async def read(self, request: interface.Read[T]) -> T:
        async with self._turn:
            left, right = await _both(lambda store: store.read(request), self._left, self._right)
        _agree(repr(request), left, right)
        return left

    async def write(
        self, decide: Callable[[], interface.Decision[T]], urgency: interface.Urgency = "user"
    ) -> interface.Committed[T]:
        scripts: list[list[tuple[Any, Any]]] = []

        def decide_and_note() -> interface.Decision[T]:
            scripts.append([])
            return _noting(decide(), scripts[-1])

        async with self._turn:
            middle = 0

            async def write(store: interface.Store) -> interface.Committed[T]:
                nonlocal middle
                middle = len(scripts)
                return await store.write(decide_and_note, urgency)

            try:
                left, right = await _both(write, self._left, self._right)
            finally:
                if 0 < middle < len(scripts):
                    _agree("the reads of a decision", scripts[middle - 1], scripts[-1])
        _agree("replies", left.reply, right.reply)
        _agree("purges", left.purged, right.purged)
        return left

    async def reset(self) -> None:
        async with self._turn:
            await self._left.reset()
            await self._right.reset()

    async def close(self) -> None:
        async with self._turn:
            await self._left.close()
            await self._right.close()


def _noting(decision: interface.Decision[T], script: list[tuple[Any, Any]]) -> interface.Decision[T]:
    answer: Any = None
    while True:
        try:
            request = decision.send(answer)
        except StopIteration as end:
            outcome: interface.Outcome[T] = end.value
            return outcome
        answer = yield request
        script.append((request, answer))


async def _both(
    call: Callable[[interface.Store], Awaitable[T]], left: interface.Store, right: interface.Store
) -> tuple[T, T]:
    """Both results; the common error if both fail alike; AssertionError if only one fails, or otherwise."""
    first, error = await _outcome(call(left))
    second, other = await _outcome(call(right))
    _agree("errors", type(error), type(other))
    if error is not None:
        raise error
    return cast("tuple[T, T]", (first, second))


async def _outcome(result: Awaitable[T]) -> tuple[T | None, Exception | None]:
    try:
        return await result, None
    except Exception as error:  # noqa: BLE001 -- whatever it is, both stores must raise it.
        return None, error


def _agree(what: str, left: object, right: object) -> None:
    assert left == right, f"{what}: the left store says\n  {left!r}\nand the right one\n  {right!r}"
