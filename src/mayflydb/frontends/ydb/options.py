"""What the front end is told at its start."""

from __future__ import annotations

import msgspec

from mayflydb.model.instant import HOUR, MINUTE, Span


class Options(msgspec.Struct, frozen=True):
    """`databases`: paths that clients may name; the first is meant where they name none. `advertise`: (host, port) that
    discovery gives instead of what clients used; port None: the listener's.

    `hide_expired`: rows that are due are seen no more, though they are erased later. `run_interval`: how often a table is swept
    that says nothing of it; `min_run_interval`: the least that it may say. `session_idle`: how long a table session
    lives unused. `result_rows`: the most of one result set in the table service; 0: no limit. `auth`: clients log in. `secret`
    signs their tokens. `password`: that of the user `root`; None: any will do. `version`: ours.
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
