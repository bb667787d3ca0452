"""Sessions.

Those of the table service end when unused; those of the query service end with the stream that is attached to them.
"""

from __future__ import annotations

import asyncio
import base64
from collections import OrderedDict
from collections.abc import Callable
from random import Random  # noqa: TID251 - the type; what draws comes in from outside
from types import TracebackType
from typing import Final, Literal, Protocol

from mayflydb.engine.contention import Target
from mayflydb.evaluation.statement import Statement
from mayflydb.evaluation.stops import StopReason
from mayflydb.frontends.ydb.calls import GrpcCall
from mayflydb.frontends.ydb.schemes.temporary import TemporaryTables
from mayflydb.model.instant import SECOND, Span
from mayflydb.model.quota import Quota
from mayflydb.query.yql.faults import Fault, Issue, fault

SessionKind = Literal["table", "query"]
CloseHint = Literal["session_shutdown", "node_shutdown"]

ATTACH_TIMEOUT: Final = 60.0
"""Seconds until a session of the query service ends if no client attaches to it."""

DETACH_TIMEOUT: Final = 5.0
"""Seconds until it ends after its last stream has ended."""


class Closeable(Protocol):
    """An open transaction of a session."""

    def close(self) -> None:
        """Discard its changes."""


class Session:
    """One session, used by one request at a time.

    `transactions`: the open ones, by id. `last_used`: the begin of the last request, by the loop's clock. `statement`: the
    query that runs, or None. `temporary`: its temporary tables, if it has made any. `contended`: the targets that its last
    transaction contended for and lost.
    """

    __slots__ = (
        "_close_hint",
        "_timer",
        "attached_streams",
        "busy",
        "closed",
        "contended",
        "database",
        "id",
        "kind",
        "last_used",
        "statement",
        "temporary",
        "transactions",
        "user",
    )

    def __init__(self, id: str, kind: SessionKind, database: str, user: str, last_used: float) -> None:
        self.id = id
        self.kind = kind
        self.database = database
        self.user = user
        self.last_used = last_used
        self.transactions: dict[str, Closeable] = {}
        self.contended: tuple[Target, ...] = ()
        self.temporary: TemporaryTables | None = None
        self.statement: Statement | None = None
        self.busy = False
        self.closed = False
        self.attached_streams = 0
        self._close_hint: asyncio.Future[CloseHint | None] = asyncio.get_running_loop().create_future()
        self._timer: asyncio.TimerHandle | None = None

    async def wait_for_close(self) -> CloseHint | None:
        """Wait until the session is closed. Return the reason, unless the client closed it."""
        # Several streams wait for the one future. Without the shield, the end of one stream would cancel it for the
        # others.
        return await asyncio.shield(self._close_hint)

    def roll_back(self) -> None:
        """Roll back all open transactions."""
        open_transactions, self.transactions = self.transactions, {}
        for each in open_transactions.values():
            each.close()

    def end(self) -> None:
        """Roll back all open transactions and drop the temporary tables of a closed session."""
        self.roll_back()
        if self.temporary is not None:
            self.temporary.end()

    # --- called by Sessions ------------------------------------------------------------------------------------------

    def mark_closed(self, hint: CloseHint | None) -> None:
        """Mark the session closed. Its transactions are rolled back now, or after the request that uses it."""
        self.closed = True
        self.set_close_timer(None)
        if not self._close_hint.done():
            self._close_hint.set_result(hint)
        # A session that its client closes, or that was not used, ends its query. At a shutdown, queries have time to end.
        if hint != "node_shutdown" and self.statement is not None:
            self.statement.stop(StopReason.ABANDONED)
        # A running request still works with its transactions; `SessionHold.release` rolls them back after it.
        if not self.busy:
            self.end()

    def set_close_timer(self, timer: asyncio.TimerHandle | None) -> None:
        """Set the timer that closes the session, in place of an earlier one."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = timer


class SessionHold:
    """The exclusive use of a session by one request."""

    __slots__ = ("_active", "session")

    def __init__(self, session: Session) -> None:
        self.session = session
        self._active = True
        session.busy = True

    def release(self) -> None:
        """Release the session.

        A stream calls this before its last message, because the client sends its next request at once.
        """
        # Streams release early, and `with` releases once more. By then the next request may hold the session.
        if not self._active:
            return
        self._active = False
        self.session.busy = False
        self.session.statement = None
        if self.session.closed:
            self.session.end()

    def __enter__(self) -> SessionHold:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class Sessions:
    """The sessions of one server, on its event loop."""

    def __init__(self, chance: Random, idle: Span, limit: Quota, time: Callable[[], float] | None = None) -> None:
        """Build an empty registry.

        `idle`: how long an unused session of the table service lives. `limit`: of sessions. `time`: seconds of
        real time, by default the event loop's; sessions do not follow Mayfly's clock, since a test that moves time must not
        close its clients' sessions.
        """
        self._time = time or asyncio.get_running_loop().time
        self._chance = chance
        self._idle = idle / SECOND
        self._limit = limit
        self._sessions: dict[str, Session] = {}
        # The least recently used session is the first, so `_close_idle` looks at the head alone.
        self._table_sessions_by_use: OrderedDict[str, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def create(self, call: GrpcCall, kind: SessionKind) -> Session:
        """Create a session. Faults: OVERLOADED if the limit is reached."""
        self._close_idle()
        if not self._limit.take():
            raise fault("Active sessions limit exceeded", status="OVERLOADED")
        # Without login, an id is all that protects a session: 192 bits cannot be guessed.
        secret = base64.urlsafe_b64encode(self._chance.getrandbits(192).to_bytes(24)).decode()
        id = f"ydb://session/3?node_id=1&id={secret}"
        session = self._sessions[id] = Session(id, kind, call.database, call.user, self._time())
        if kind == "table":
            self._table_sessions_by_use[id] = session
        else:
            self._close_after(session, ATTACH_TIMEOUT)
        return session

    def get(self, call: GrpcCall, id: str) -> Session:
        """Return the session with this id and mark it used. Faults: BAD_SESSION."""
        session = self.find(call, id)
        if session is None:
            raise Fault("BAD_SESSION", Issue(f"Session not found: {id}"))
        session.last_used = self._time()
        if session.kind == "table":
            self._table_sessions_by_use.move_to_end(id)
        return session

    def find(self, call: GrpcCall, id: str) -> Session | None:
        """Return the session with this id; None if no such session exists or the session belongs to another user or
        database.
        """
        self._close_idle()
        session = self._sessions.get(id)
        return session if session and session.user == call.user and session.database == call.database else None

    def hold(self, call: GrpcCall, id: str) -> SessionHold:
        """Return the session for the exclusive use of one request: `with sessions.hold(call, id) as hold`.

        Faults: BAD_SESSION, SESSION_BUSY.
        """
        session = self.get(call, id)
        if session.busy:
            raise Fault("SESSION_BUSY", Issue("Pending previous query completion"))
        return SessionHold(session)

    def close(self, session: Session, hint: CloseHint | None = None) -> None:
        """Close a session and roll back its transactions, those in use when the request is done."""
        # Timers, clients and shutdown may all close a session. Only the first of them counts.
        if self._sessions.pop(session.id, None) is not None:
            self._table_sessions_by_use.pop(session.id, None)
            self._limit.give()
            session.mark_closed(hint)

    def close_all(self, hint: CloseHint | None = None) -> None:
        """Close all sessions."""
        for session in list(self._sessions.values()):
            self.close(session, hint)

    def attach(self, session: Session) -> None:
        """Keep the session open while a stream is attached."""
        session.attached_streams += 1
        session.set_close_timer(None)

    def detach(self, session: Session) -> None:
        """Note the end of a stream. The session ends soon unless another stream is attached."""
        session.attached_streams -= 1
        if not (session.attached_streams or session.closed):
            # A client whose connection broke attaches again.
            self._close_after(session, DETACH_TIMEOUT)

    def _close_after(self, session: Session, seconds: float) -> None:
        session.set_close_timer(asyncio.get_running_loop().call_later(seconds, self.close, session))

    def _close_idle(self) -> None:
        now = self._time()
        while self._table_sessions_by_use:
            oldest = next(iter(self._table_sessions_by_use.values()))
            # A busy session ends the search: those behind it were used later, and a later call closes them.
            if now - oldest.last_used <= self._idle or oldest.busy:
                break
            self.close(oldest)
