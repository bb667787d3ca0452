"""A call as its handler sees it. Handlers return the bytes of the whole answer, and refuse by raising."""

from __future__ import annotations

import msgspec

from mayflydb.model.instant import Instant


class Entrance(msgspec.Struct, frozen=True):
    """The port that a call came in by."""

    port: int
    tls: bool = False


class Call(msgspec.Struct, frozen=True):
    """One call. `database`: the path that its metadata names, `/local` where it names none. `now`: its one instant.

    `user`: who asks (`root@builtin` where nobody has to log in). `remaining`: seconds until the client stops
    waiting; None: for ever. `peer`: `ipv4:127.0.0.1:40000`, as gRPC writes it. `entrance`: where it came in; None: from within
    this process.
    """

    database: str
    now: Instant
    user: str = "root@builtin"
    peer: str = ""
    trace: str = ""
    remaining: float | None = None
    entrance: Entrance | None = None
