"""Links that log a browser in once, and the sessions that they begin."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

import msgspec

from mayflydb.clock import boot_us
from mayflydb.model.instant import HOUR, MINUTE, Span

Role: TypeAlias = Literal["admin", "read-only"]

LINK_LIFE: Final[Span] = 5 * MINUTE
SESSION_LIFE: Final[Span] = 12 * HOUR
IDLE_LIFE: Final[Span] = HOUR
MOST_LINKS: Final = 100
MOST_SESSIONS: Final = 1000


class Session(msgspec.Struct):
    """A logged-in browser. `began`, `used`: microseconds of the host's clock since its boot."""

    role: Role
    began: int
    used: int


class Logins:
    """Links and sessions of one server. Both are lost when it stops.

    Secrets have 256 random bits and are kept as their hashes: a dump of the memory is no login, and the time of a look-up tells
    nothing about a secret.
    """

    def __init__(self, tick: Callable[[], int] = boot_us) -> None:
        """`tick`: microseconds of the host that count sleep too; a virtual clock ends no session and prolongs none."""
        self._tick = tick
        self._links: dict[bytes, tuple[Role, int]] = {}
        self._sessions: dict[bytes, Session] = {}

    def create_link(self, role: Role) -> str:
        """Return the secret of a new link. Of too many links the oldest becomes invalid."""
        secret = secrets.token_urlsafe(32)
        if len(self._links) >= MOST_LINKS:
            del self._links[next(iter(self._links))]
        self._links[_hash(secret)] = role, self._tick()
        return secret

    def begin(self, link: str) -> str | None:
        """Use a link up, and return the secret of a new session. None: the link is unknown, used or too old."""
        role, created = self._links.pop(_hash(link), (None, 0))
        now = self._tick()
        if role is None or now - created >= LINK_LIFE:
            return None
        secret = secrets.token_urlsafe(32)
        if len(self._sessions) >= MOST_SESSIONS:
            del self._sessions[min(self._sessions, key=lambda each: self._sessions[each].used)]
        self._sessions[_hash(secret)] = Session(role, now, now)
        return secret

    def role_of(self, secret: str) -> Role | None:
        """Return the role of a session, and note its use. None: it is unknown, or over."""
        key = _hash(secret)
        session, now = self._sessions.get(key), self._tick()
        if session is None:
            return None
        if now - session.began >= SESSION_LIFE or now - session.used >= IDLE_LIFE:
            del self._sessions[key]
            return None
        session.used = now
        return session.role

    def end(self, secret: str) -> None:
        """End a session; without effect for an unknown one."""
        self._sessions.pop(_hash(secret), None)


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()
