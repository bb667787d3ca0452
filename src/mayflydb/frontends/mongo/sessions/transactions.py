"""Transactions of sessions: which of them are open, what may be done in them, and how they end.

A transaction belongs to its session and not to a connection. Nothing of it is stored before it is committed; that it was is
noted in the same commit, so that whoever asks again, after a crash too, is told the truth.
Rules: https://github.com/mongodb/specifications/blob/master/source/transactions/transactions.md
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, Literal, TypeAlias

import msgspec

from mayflydb.engine.engine import Engine
from mayflydb.engine.snapshot import Snapshot
from mayflydb.frontends.mongo.calls import Call, Handler
from mayflydb.frontends.mongo.collections import SPACE, Collections
from mayflydb.frontends.mongo.cursors import Cursors
from mayflydb.frontends.mongo.sessions import retries
from mayflydb.frontends.mongo.sessions.inside import TransactionWork, aborted
from mayflydb.frontends.mongo.sessions.registry import Session
from mayflydb.model.errors import OutcomeUnknown, Unavailable
from mayflydb.model.instant import SECOND
from mayflydb.query.mongo.faults import MqlError, bad_value, type_mismatch
from mayflydb.query.mongo.values import Document, type_name

LIFETIME: Final = 60
"""Seconds. https://www.mongodb.com/docs/manual/core/transactions-production-consideration/#runtime-limit"""

COSMOS_LIFETIME: Final = 5
"""Seconds. https://learn.microsoft.com/azure/cosmos-db/mongodb/use-multi-document-transactions"""

SLACK: Final = 0.01
"""Seconds after the end of a transaction's lifetime at which it is looked for."""

ENDING: Final = frozenset({"commitTransaction", "abortTransaction"})

ALLOWED: Final = frozenset(
    {
        "find",
        "getMore",
        "killCursors",
        "insert",
        "update",
        "delete",
        "findAndModify",
        "findandmodify",
        "aggregate",
        "distinct",
        "bulkWrite",
    }
)
"""Commands that may be part of one."""

ANYWHERE: Final = frozenset({"getMore", "killCursors", "bulkWrite"})
"""Those of them that name other databases than they are sent to, or none."""

INTERNAL: Final = frozenset({"admin", "config", "local"})

LEVELS: Final = (None, "local", "majority", "snapshot")

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

    async def perform(self, call: Call, handler: Handler) -> Document | bytes:
        """Answer a command with transaction arguments; its error ends the transaction. MqlError 251, 256, 263, 72 and others."""
        number = number_of(call)
        if call.name in ENDING:
            return await handler(call)
        try:
            _check_command(call)
        except MqlError:
            await self._abort_open(call, number)
            raise
        standing = await self._enter(call, number)
        work = standing.work
        assert work is not None
        async with work.lock:
            self._check_open(standing)
            call.transaction, call.now = work, work.now
            try:
                answer = await handler(call)
            except BaseException:
                await self._end(_key(call), standing, "aborted")
                raise
            if work.over:
                await self._end(_key(call), standing, "aborted")
            return answer

    async def _enter(self, call: Call, number: int) -> Standing:
        await self._expire()
        key = _key(call)
        standing = self._standing.get(key)
        if call.body.get("startTransaction"):
            _check_concern(call)
            return await self._start(call, key, standing, number)
        if standing is None or standing.number < number:
            active = -1 if standing is None else standing.number
            text = f"Given transaction number {number} does not match any in-progress transactions."
            raise MqlError(251, f"{text} The active transaction number is {active}")
        if standing.number > number:
            raise too_old(number, standing.number)
        self._check_open(standing)
        if "readConcern" in call.body:
            await self._end(key, standing, "aborted")
            raise MqlError(72, "Only the first command in a transaction may specify a readConcern")
        return standing

    async def _start(self, call: Call, key: Key, before: Standing | None, number: int) -> Standing:
        last = await self._last(call) if before is None else before.number
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
        snapshot = await Snapshot.begin(self._engine, call.now, parents, exclusive=True)
        cosmos = is_cosmos(call)
        until = self._monotonic() + (COSMOS_LIFETIME if cosmos else self.lifetime) * SECOND
        standing = Standing(number, "open", TransactionWork(self._engine, snapshot, number), until, cosmos)
        self._standing[key] = self._open[key] = standing
        self._watch()
        return standing

    async def _last(self, call: Call) -> int:
        """The last number that the session has used for a write."""
        kept = await retries.kept(self._engine, self._collections, _session(call))
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
        standing = self._standing.get((session.owner, session.id))
        if standing is None:
            return
        if standing.number >= number:
            raise too_old(number, standing.number)
        await self._end((session.owner, session.id), standing, "aborted")
        self._standing.pop((session.owner, session.id), None)

    # --- ends --------------------------------------------------------------------------------------------------------

    async def commit(self, call: Call) -> None:
        """Make it hold, or find that it does already. MqlError 251, WriteConflict, OutcomeUnknown: ask again."""
        number, key = number_of(call), _key(call)
        await self._expire()
        standing = self._standing.get(key)
        if standing is None or standing.number < number:
            if not await self._was_committed(call, number):
                raise _unknown(number)
            return
        if standing.number > number:
            raise too_old(number, standing.number)
        if standing.work is not None:
            # Who stops waiting for it does not stop it: what it has locked is released at its end.
            await asyncio.shield(self._later(self._commit(call, key, standing, standing.work.lock)))
        elif standing.state != "committed":
            self._check_open(standing)

    async def _commit(self, call: Call, key: Key, standing: Standing, lock: asyncio.Lock) -> None:
        async with lock:
            await self._commit_alone(call, key, standing)

    async def _commit_alone(self, call: Call, key: Key, standing: Standing) -> None:
        work = standing.work
        if work is None:
            # It has ended while this command waited.
            if standing.state != "committed":
                self._check_open(standing)
            return
        claim = None
        if work.snapshot.written:
            sessions = await self._collections.ensure(retries.DATABASE, retries.NAME, call.now)
            claim = retries.Claim(sessions, _session(call), standing.number).make
        standing.state = "committing"
        self._open.pop(key, None)
        try:
            await work.snapshot.commit(call.now, claim)
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

    async def _was_committed(self, call: Call, number: int) -> bool:
        kept = await retries.kept(self._engine, self._collections, _session(call))
        return kept is not None and int(kept["txnNum"]) == number and kept.get("state") == "committed"

    async def abort(self, call: Call) -> None:
        """Forget it. MqlError 251 if nobody knows it, 256 if it is committed."""
        number, key = number_of(call), _key(call)
        await self._expire()
        standing = self._standing.get(key)
        if standing is None or standing.number < number:
            if await self._was_committed(call, number):
                raise MqlError(256, f"Transaction with {{ txnNumber: {number} }} has been committed.")
            raise _unknown(number)
        if standing.number > number:
            raise too_old(number, standing.number)
        self._check_open(standing)
        await self._end(key, standing, "aborted")

    async def ended(self, session: Session) -> None:
        """A session is over, and with it what is open in it."""
        standing = self._standing.pop((session.owner, session.id), None)
        if standing is not None:
            await self._end((session.owner, session.id), standing, "aborted")

    async def _abort_open(self, call: Call, number: int) -> None:
        standing = self._open.get(_key(call))
        if standing is not None and standing.number == number:
            await self._end(_key(call), standing, "aborted")

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


def is_cosmos(call: Call) -> bool:
    """Whether a transaction that begins with this command lives by Cosmos DB's rules."""
    return call.app.data.contracts.of(call.database).is_cosmos


def _session(call: Call) -> Session:
    assert call.session is not None
    return call.session


def _key(call: Call) -> Key:
    session = _session(call)
    return session.owner, session.id


def too_old(number: int, last: int) -> MqlError:
    """225: the session has gone on."""
    text = f"Cannot start transaction with txnNumber {number} because a newer transaction with txnNumber {last}"
    return MqlError(225, f"{text} has already started on this session.")


def _unknown(number: int) -> MqlError:
    return MqlError(251, f"Given transaction number {number} does not match any in-progress transactions.")


def number_of(call: Call) -> int:
    """The transaction's number, its arguments checked. MqlError 72, 14, 20, 125."""
    body = call.body
    if "autocommit" not in body:
        raise MqlError(72, "'startTransaction' field requires 'autocommit' field to also be specified")
    for field in ("autocommit", "startTransaction"):
        if field in body and type(body[field]) is not bool:
            raise type_mismatch(f"{call.name}.{field}", type_name(body[field]), "bool")
    if body["autocommit"]:
        raise MqlError(72, "Specifying autocommit=true is not allowed.")
    if body.get("startTransaction") is False:
        raise MqlError(72, "Specifying startTransaction=false is not allowed.")
    if "txnNumber" not in body:
        raise MqlError(72, "'autocommit' field requires a transaction number to also be specified")
    number = retries.number_of(call)
    if call.name in ENDING and "startTransaction" in body:
        raise MqlError(263, f"Cannot run '{call.name}' as the first command of a transaction")
    return number


def _check_command(call: Call) -> None:
    if call.name not in ALLOWED:
        raise MqlError(263, f"Cannot run '{call.name}' in a multi-document transaction.")
    if call.name not in ("getMore", "killCursors", "bulkWrite"):
        check_database(call.database)
    if "writeConcern" in call.body:
        raise MqlError(72, "writeConcern is not allowed within a multi-statement transaction")


def check_database(name: str) -> None:
    """MqlError 263 for one whose documents no transaction may touch."""
    if name in INTERNAL:
        raise MqlError(263, f"Cannot run command against the '{name}' database in a transaction.")


def _check_concern(call: Call) -> None:
    concern: Any = call.body.get("readConcern", {})
    if not isinstance(concern, dict):
        raise type_mismatch(f"{call.name}.readConcern", type_name(concern), "object")
    if concern.get("level") not in LEVELS:
        text = "The readConcern level must be either 'local' (default), 'majority' or 'snapshot' in order to run in a"
        raise MqlError(72, f"{text} transaction")
