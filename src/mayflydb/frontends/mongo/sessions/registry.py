"""Logical sessions, which drivers name in `lsid`. An unused session ends by itself."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec
from bson import Binary

from mayflydb.frontends.mongo.state import PricedCommand
from mayflydb.model.quota import Quota
from mayflydb.query.mongo.faults import MqlError, type_mismatch
from mayflydb.query.mongo.values import type_name

IDLE_LIMIT: Final = 30 * 60 * 1_000_000
"""The longest idle time of a session, in microseconds of the host's monotonic time, so that a virtual clock ends no session.

The default of `localLogicalSessionTimeoutMinutes`; hello announces it.
"""

UUID_SUBTYPE: Final = 4


class LogicalSession(msgspec.Struct, eq=False):
    """A session. `id`: the 16 bytes of its UUID. `owner`: its user as `db.name`; empty without a login.

    `last_priced`: the session's last command that had a price.
    """

    id: bytes
    owner: str
    last_used: int
    last_priced: PricedCommand | None = None


class Sessions:
    """The sessions of one server.

    `ended`: sessions that have ended, by a command or by age, and whose cursors and transactions are still open. To close them
    takes awaits, which the methods here do not have: `Services.close_ended_sessions` does it.
    """

    def __init__(self, monotonic: Callable[[], int], limit: Quota) -> None:
        self._monotonic = monotonic
        self._limit = limit
        self._sessions: OrderedDict[tuple[str, bytes], LogicalSession] = OrderedDict()
        self.ended: list[LogicalSession] = []

    def __len__(self) -> int:
        return len(self._sessions)

    def use(self, id: bytes, owner: str) -> LogicalSession:
        """Find a session by id, and create it if it is new. Raise MqlError 227 if there are too many."""
        now = self._monotonic()
        self._end_idle(now)
        # Two users with the same id have two sessions: an id is chosen by the client, and gives no access by itself.
        key = (owner, id)
        session = self._sessions.get(key)
        if session is None:
            if not self._limit.take():
                raise MqlError(
                    227, "Unable to add session into the cache because the number of active sessions is too high"
                )
            session = self._sessions[key] = LogicalSession(id, owner, now)
        else:
            session.last_used = now
            self._sessions.move_to_end(key)
        return session

    def list_with_idle_times(self, owners: Iterable[str] | None = None) -> list[tuple[LogicalSession, int]]:
        """The sessions of these users, or all, each with the microseconds since its last use."""
        now = self._monotonic()
        self._end_idle(now)
        wanted = None if owners is None else set(owners)
        return [
            (each, now - each.last_used) for each in self._sessions.values() if wanted is None or each.owner in wanted
        ]

    def end(self, ids: Iterable[bytes], owner: str) -> None:
        """End sessions. An unknown one has ended already."""
        for id in ids:
            self._end((owner, id))

    def end_all_of(self, owners: Iterable[str] | None = None) -> None:
        """End the sessions of these users, or all."""
        wanted = None if owners is None else set(owners)
        for key in list(self._sessions):
            if wanted is None or key[0] in wanted:
                self._end(key)

    def _end_idle(self, now: int) -> None:
        # Sessions are ordered by their last use, the oldest first.
        while self._sessions and now - next(iter(self._sessions.values())).last_used > IDLE_LIMIT:
            self._end(next(iter(self._sessions)))

    def _end(self, key: tuple[str, bytes]) -> None:
        session = self._sessions.pop(key, None)
        if session is not None:
            self._limit.give()
            self.ended.append(session)


def parse_session_id(value: Any, field: str) -> bytes:
    """Parse the UUID in `{id: <UUID>}`. Raise MqlError 14, 207. `field`: `<command>.<field>`."""
    if not isinstance(value, dict):
        raise type_mismatch(field, type_name(value), "object")
    id = value.get("id")
    if not isinstance(id, Binary) or id.subtype != UUID_SUBTYPE or len(id) != 16:
        raise MqlError(207, f"{field}.id must be a 16-byte UUID")
    return bytes(id)
