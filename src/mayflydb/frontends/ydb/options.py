"""The options of the front end, fixed at the start."""

from __future__ import annotations

import msgspec

from mayflydb.model.instant import HOUR, MINUTE, Span


class Options(msgspec.Struct, frozen=True):
    """`databases`: the served paths; calls that name no database use the first.

    `advertise`: (host, port) that discovery returns instead of the address in use; port None: the listener's.

    `hide_expired`: hide due rows until the next removal run erases them. `run_interval`: time between the removal runs
    of a table without a setting of its own; `min_run_interval`: the least value of that setting. `session_idle`: how
    long an unused session of the table service lives. `result_rows`: limit of rows in one result set of the table
    service; 0: no limit. `max_sessions`, `max_session_transactions`, `max_calls`: limits of sessions, open transactions of
    one session, and calls in work. `auth`: clients must log in. `secret`: the key that signs tokens. `password`: the password of
    `root`; None: any password is accepted. `max_users`: the most users and groups.
    `version`: Mayfly's version.
    """

    databases: tuple[str, ...] = ("/local", "/Root")
    advertise: tuple[str, int | None] | None = None
    hide_expired: bool = False
    run_interval: Span = HOUR
    min_run_interval: Span = 15 * MINUTE
    session_idle: Span = 20 * MINUTE
    max_sessions: int = 1_000
    max_session_transactions: int = 10
    max_calls: int = 2_000
    result_rows: int = 1000
    auth: bool = False
    secret: bytes = b""
    password: str | None = None
    max_users: int = 1_000
    version: str = "0"

    def __repr__(self) -> str:
        return f"Options(databases={self.databases}, auth={self.auth})"
