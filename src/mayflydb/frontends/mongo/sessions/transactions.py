"""Transactions of sessions: which of them are open, what may be done in them, and how they end.

A transaction belongs to its session and not to a connection. Nothing of it is stored before it is committed; that it was is
noted in the same commit, so that whoever asks again, after a crash too, is told the truth.
Rules: https://github.com/mongodb/specifications/blob/master/source/transactions/transactions.md
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
from mayflydb.frontends.mongo.sessions.inside import TransactionWork, aborted
from mayflydb.frontends.mongo.sessions.registry import Session
from mayflydb.model.errors import OutcomeUnknown, Unavailable
from mayflydb.model.instant import SECOND, Instant
from mayflydb.query.mongo.faults import MqlError, bad_value

T = TypeVar("T")

LIFETIME: Final = 60
"""Seconds. https://www.mongodb.com/docs/manual/core/transactions-production-consideration/#runtime-limit"""

COSMOS_LIFETIME: Final = 5
"""Seconds. https://learn.microsoft.com/azure/cosmos-db/mongodb/use-multi-document-transactions"""

SLACK: Final = 0.01
"""Seconds after the end of a transaction's lifetime at which it is looked for."""

Key: TypeAlias = tuple[str, bytes]
"""Whose session, and its id."""

State: TypeAlias = Literal["open", "committing", "committed", "aborted", "expired"]


class Standing(msgspec.Struct, eq=False):
    """The last transaction of a session. `work`: while it may be committed; `until`: how long it may be open, of the host's
    monotonic time; `cosmos`: by the rules of Cosmos DB. Once it is `committing`, only the store knows what has become of it."""

    number: int
    state: State
    work: TransactionWork | None = None
    until: int = 0
    cosmos: bool = False


class Member(msgspec.Struct, frozen=True, gc=False):
    """A command that is part of a transaction. `starts`: the first one; `cosmos`: under the rules of Cosmos DB.

    `has_concern`: with a read concern, which only the first one may have.
    """

    session: Session
    number: int
    now: Instant
    starts: bool
    has_concern: bool
    cosmos: bool

    @property
    def key(self) -> Key:
        """The session's."""
        return _key(self.session)


class Transactions:
    """All of one server. `lifetime`: seconds that one may be open, in databases of other profiles than `cosmos`."""

    def __init__(
        self, engine: Engine, collections: Collections, cursors: Cursors, monotonic: Callable[[], int]
    ) -> None:
        self.lifetime = LIFETIME
        self._engine = engine
        self._collections = collections
        self._cursors = cursors
        self._monotonic = monotonic
        self._standing: dict[Key, Standing] = {}
        self._open: dict[Key, Standing] = {}
        self._look = 0
        self._timer: asyncio.TimerHandle | None = None
        self._aside: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """How many are open."""
        return len(self._open)

    # --- statements --------------------------------------------------------------------------------------------------

    async def perform(self, member: Member, act: Callable[[TransactionWork], Awaitable[T]]) -> T:
        """Carry out a command within its transaction; an error ends the transaction. MqlError 251, 256, 225, 72."""
        standing = await self._enter(member)
        work = standing.work
        assert work is not None
        async with work.lock:
            self._check_open(standing)
            try:
                answer = await act(work)
            except BaseException:
                await self._end(member.key, standing, "aborted")
                raise
            if work.over:
                await self._end(member.key, standing, "aborted")
            return answer

    async def _enter(self, member: Member) -> Standing:
        await self._expire()
        key, number = member.key, member.number
        standing = self._standing.get(key)
        if member.starts:
            return await self._start(member, standing)
        if standing is None or standing.number < number:
            active = -1 if standing is None else standing.number
            text = f"Given transaction number {number} does not match any in-progress transactions."
            raise MqlError(251, f"{text} The active transaction number is {active}")
        if standing.number > number:
            raise too_old(number, standing.number)
        self._check_open(standing)
        if member.has_concern:
            await self._end(key, standing, "aborted")
            raise MqlError(72, "Only the first command in a transaction may specify a readConcern")
        return standing

    async def _start(self, member: Member, before: Standing | None) -> Standing:
        key, number = member.key, member.number
        last = await self._last(member.session) if before is None else before.number
        if number < last:
            raise too_old(number, last)
        if number == last:
            text = f"Cannot start a transaction at given transaction number {number} a transaction with the same number"
            raise MqlError(50911, f"{text} is in state {'none' if before is None else before.state}")
        if before is not None:
            await self._end(key, before, "aborted")
        space = await self._engine.node(SPACE)
        databases = [] if space is None else await self._engine.children(space.id)
        parents = [node.id for node in databases]
        snapshot = await Snapshot.begin(self._engine, member.now, parents, exclusive=True)
        until = self._monotonic() + (COSMOS_LIFETIME if member.cosmos else self.lifetime) * SECOND
        work = TransactionWork(self._engine, snapshot, number)
        standing = Standing(number, "open", work, until, member.cosmos)
        self._standing[key] = self._open[key] = standing
        self._watch()
        return standing

    async def _last(self, session: Session) -> int:
        """The last number that the session has used for a write."""
        kept = await retries.kept(self._engine, self._collections, session)
        return -1 if kept is None else int(kept["txnNum"])

    def _check_open(self, standing: Standing) -> None:
        if standing.state in ("committing", "committed"):
            raise MqlError(256, f"Transaction with {{ txnNumber: {standing.number} }} has been committed.")
        if standing.state == "expired":
            raise bad_value("Transaction isn't active")
        if standing.state == "aborted":
            raise aborted(standing.number)

    async def numbered(self, session: Session, number: int) -> None:
        """A write with a number of its own comes: a transaction before it is over. MqlError 225 if the transaction is newer."""
        standing = self._standing.get(_key(session))
        if standing is None:
            return
        if standing.number >= number:
            raise too_old(number, standing.number)
        await self._end(_key(session), standing, "aborted")
        self._standing.pop(_key(session), None)

    # --- ends --------------------------------------------------------------------------------------------------------

    async def commit(self, session: Session, number: int, now: Instant) -> None:
        """Make it hold, or find that it does already. MqlError 251, WriteConflict, OutcomeUnknown: ask again."""
        key = _key(session)
        await self._expire()
        standing = self._standing.get(key)
        if standing is None or standing.number < number:
            if not await self._was_committed(session, number):
                raise _unknown(number)
            return
        if standing.number > number:
            raise too_old(number, standing.number)
        if standing.work is not None:
            # Who stops waiting for it does not stop it: what it has locked is released at its end.
            await asyncio.shield(self._later(self._commit(session, standing, now, standing.work.lock)))
        elif standing.state != "committed":
            self._check_open(standing)

    async def _commit(self, session: Session, standing: Standing, now: Instant, lock: asyncio.Lock) -> None:
        async with lock:
            await self._commit_alone(session, standing, now)

    async def _commit_alone(self, session: Session, standing: Standing, now: Instant) -> None:
        key, work = _key(session), standing.work
        if work is None:
            # It has ended while this command waited.
            if standing.state != "committed":
                self._check_open(standing)
            return
        claim = None
        if work.snapshot.written:
            sessions = await self._collections.ensure(retries.DATABASE, retries.NAME, now)
            claim = retries.Claim(sessions, session, standing.number).make
        standing.state = "committing"
        self._open.pop(key, None)
        try:
            await work.snapshot.commit(now, claim)
        except OutcomeUnknown:
            work.snapshot.close()
            raise  # The next one who asks finds out.
        except Unavailable:
            standing.state, self._open[key] = "open", standing  # Nothing was done.
            self._watch()
            raise
        except Exception:
            await self._end(key, standing, "aborted")
            raise
        await self._end(key, standing, "committed")

    async def _was_committed(self, session: Session, number: int) -> bool:
        kept = await retries.kept(self._engine, self._collections, session)
        return kept is not None and int(kept["txnNum"]) == number and kept.get("state") == "committed"

    async def abort(self, session: Session, number: int) -> None:
        """Forget it. MqlError 251 if it is not known, 256 if it is committed."""
        key = _key(session)
        await self._expire()
        standing = self._standing.get(key)
        if standing is None or standing.number < number:
            if await self._was_committed(session, number):
                raise MqlError(256, f"Transaction with {{ txnNumber: {number} }} has been committed.")
            raise _unknown(number)
        if standing.number > number:
            raise too_old(number, standing.number)
        self._check_open(standing)
        await self._end(key, standing, "aborted")

    async def ended(self, session: Session) -> None:
        """A session is over, and with it what is open in it."""
        standing = self._standing.pop(_key(session), None)
        if standing is not None:
            await self._end(_key(session), standing, "aborted")

    async def abort_open(self, session: Session, number: int) -> None:
        """Forget the open transaction of a session if it has this number."""
        key = _key(session)
        standing = self._open.get(key)
        if standing is not None and standing.number == number:
            await self._end(key, standing, "aborted")

    async def expire(self) -> None:
        """End those that have been open for too long: whose client is gone, nobody else does. Looks once a second."""
        now = self._monotonic()
        if self._open and now >= self._look:
            self._look = now + SECOND
            await self._expire()

    async def _expire(self) -> None:
        """End those that have been open for too long."""
        now = self._monotonic()
        for key, standing in [each for each in self._open.items() if each[1].until < now]:
            # The text tells which limit it was.
            await self._end(key, standing, "expired" if standing.cosmos else "aborted")

    def _watch(self) -> None:
        """Expire transactions in time, also when no command comes: others wait for what they have locked."""
        if self._timer is None and self._open:
            first = min(standing.until for standing in self._open.values())
            wait = max(0, first - self._monotonic()) / SECOND
            self._timer = asyncio.get_running_loop().call_later(wait + SLACK, self._expire_aside)

    def _expire_aside(self) -> None:
        self._timer = None

        async def expire() -> None:
            await self._expire()
            self._watch()

        self._later(expire())

    def _later(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)
        return task

    async def _end(self, key: Key, standing: Standing, state: State) -> None:
        work = standing.work
        if work is None:
            return
        standing.state, standing.work, work.over = state, None, True
        work.snapshot.close()
        if self._open.get(key) is standing:
            del self._open[key]
        await self._cursors.end_transaction(work)


def _key(session: Session) -> Key:
    return session.owner, session.id


def too_old(number: int, last: int) -> MqlError:
    """225: the session has gone on."""
    text = f"Cannot start transaction with txnNumber {number} because a newer transaction with txnNumber {last}"
    return MqlError(225, f"{text} has already started on this session.")


def _unknown(number: int) -> MqlError:
    return MqlError(251, f"Given transaction number {number} does not match any in-progress transactions.")
