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
    service; 0: no limit. `auth`: clients must log in. `secret`: the key that signs tokens. `password`: the password of
    `root`; None: any password is accepted. `version`: Mayfly's version.
    """

    databases: tuple[str, ...] = ("/local", "/Root")
    advertise: tuple[str, int | None] | None = None
    hide_expired: bool = False
    run_interval: Span = HOUR
    min_run_interval: Span = 15 * MINUTE
    session_idle: Span = 20 * MINUTE
    max_sessions: int = 1_000
    result_rows: int = 1000
    auth: bool = False
    secret: bytes = b""
    password: str | None = None
    version: str = "0"
