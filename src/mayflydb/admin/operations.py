"""The admin API's operations, for HTTP and for callers in the same process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from mayflydb.admin import requests as r
from mayflydb.admin.clock import Hands
from mayflydb.admin.expiry import Outlook
from mayflydb.admin.pausing import Pausing
from mayflydb.admin.targets import Directory, Targets
from mayflydb.admin.upkeep import Upkeep
from mayflydb.engine.engine import Engine

Call = Callable[[Any], Awaitable[dict[str, Any]]]


class Operation(msgspec.Struct, frozen=True):
    """One path below `/_mayfly`: what it takes, as body (POST) or query (GET), and who answers."""

    method: str
    path: str
    takes: type[msgspec.Struct]
    call: Call


class Admin:
    """Everything that can be asked of a running server; `info` describes it to the client that used this address.

    `shared`: other servers may work on the same store, so that a real clock stays real.
    """

    def __init__(
        self,
        engine: Engine,
        spaces: Sequence[Targets],
        time_travel: bool,
        shared: bool,
        info: Callable[[str | None], Mapping[str, Any]],
        ca_pem: Callable[[], Awaitable[bytes]],
    ) -> None:
        self.engine = engine
        self.directory = Directory(engine, spaces)
        self.hands = Hands(engine, self.directory, time_travel, shared)
        self.outlook = Outlook(engine, self.directory)
        self.upkeep = Upkeep(engine, self.directory, self.hands, self.outlook)
        self.pausing = Pausing(engine, self.directory)
        self.info = info
        self.ca_pem = ca_pem

    def operations(self) -> tuple[Operation, ...]:
        """The table that the HTTP side is made from."""
        hands, outlook, upkeep = self.hands, self.outlook, self.upkeep
        return (
            Operation("GET", "stats", r.Nothing, lambda _: upkeep.stats()),
            Operation("GET", "clock", r.Nothing, lambda _: hands.show()),
            Operation("POST", "clock/advance", r.Advance, lambda body: hands.advance(body.span(), body.sweep)),
            Operation("POST", "clock/set", r.SetClock, lambda body: hands.set(body.instant(), body.force)),
            Operation("POST", "clock/freeze", r.Nothing, lambda _: hands.freeze()),
            Operation("POST", "clock/resume", r.Nothing, lambda _: hands.resume()),
            Operation("POST", "clock/reset", r.Nothing, lambda _: hands.to_real()),
            Operation("POST", "clock/confirm", r.Nothing, lambda _: hands.confirm()),
            Operation("POST", "purge", r.Purge, lambda body: upkeep.purge(body.target)),
            Operation("POST", "reset", r.Reset, lambda body: upkeep.reset(body.target, body.keep_clock)),
            Operation("GET", "ttl", r.Listing, lambda query: outlook.listing(query.target)),
            Operation("GET", "ttl/forecast", r.Forecast, outlook.forecast),
            Operation("POST", "ttl/preview", r.Preview, lambda body: outlook.preview(body.target, body.change())),
            Operation("POST", "ttl/set", r.SetTtl, lambda body: outlook.set(body.target, body.change())),
            Operation("GET", "ttl/explain", r.Explain, lambda query: outlook.explain(query.target, query.id, query.pk)),
            Operation("POST", "ttl/pause", r.Pause, lambda body: self.pausing.pause(body.target)),
            Operation("POST", "ttl/resume", r.Resume, self._resume),
            Operation("GET", "ttl/due", r.DueList, outlook.due),
        )

    async def _resume(self, body: r.Resume) -> dict[str, Any]:
        return await self.pausing.resume(body.target, body.span(), body.dry_run)
