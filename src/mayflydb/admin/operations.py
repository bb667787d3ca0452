"""The admin API's operations, for HTTP and for callers in the same process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from mayflydb.admin import requests as r
from mayflydb.admin.clock_control import ClockControl
from mayflydb.admin.maintenance import Maintenance
from mayflydb.admin.pausing import Pausing
from mayflydb.admin.reports import ExpiryReports
from mayflydb.admin.targets import TargetResolver, Targets
from mayflydb.clock import SystemClock
from mayflydb.engine.engine import Engine

Handler = Callable[[Any], Awaitable[dict[str, Any]]]


class Operation(msgspec.Struct, frozen=True):
    """One path below `/_mayfly`: its parameters, as body (POST) or query (GET), and the function that answers."""

    method: str
    path: str
    parameters: type[msgspec.Struct]
    handler: Handler


class Admin:
    """All operations on a running server.

    `spaces`: one for each front end. `shared`: other nodes use the same database. `info`: returns version and addresses, by the
    address that the client used. `ca_pem`: returns the certificate authority's certificate. `host_clock`: builds a clock that
    believes the host's.
    """

    def __init__(
        self,
        engine: Engine,
        spaces: Sequence[Targets],
        time_travel: bool,
        shared: bool,
        info: Callable[[str | None], Mapping[str, Any]],
        ca_pem: Callable[[], Awaitable[bytes]],
        host_clock: Callable[[], SystemClock],
    ) -> None:
        self.engine = engine
        self.targets = TargetResolver(engine, spaces)
        self.clock = ClockControl(engine, self.targets, time_travel, shared, host_clock)
        self.reports = ExpiryReports(engine, self.targets)
        self.maintenance = Maintenance(engine, self.targets, self.clock, self.reports)
        self.pausing = Pausing(engine, self.targets)
        self.info = info
        self.ca_pem = ca_pem

    def operations(self) -> tuple[Operation, ...]:
        """Return the table from which the HTTP routes are built."""
        clock, reports, maintenance = self.clock, self.reports, self.maintenance
        return (
            Operation("GET", "stats", r.NoMembers, lambda _: maintenance.stats()),
            Operation("GET", "clock", r.NoMembers, lambda _: clock.show()),
            Operation("POST", "clock/advance", r.Advance, lambda body: clock.advance(body.span(), body.sweep)),
            Operation("POST", "clock/set", r.SetClock, lambda body: clock.set(body.instant(), body.force)),
            Operation("POST", "clock/freeze", r.NoMembers, lambda _: clock.freeze()),
            Operation("POST", "clock/resume", r.NoMembers, lambda _: clock.resume()),
            Operation("POST", "clock/reset", r.NoMembers, lambda _: clock.follow_host()),
            Operation("POST", "clock/accept", r.NoMembers, lambda _: clock.settle("accept")),
            Operation("POST", "clock/reject", r.NoMembers, lambda _: clock.settle("reject")),
            Operation("POST", "purge", r.Purge, lambda body: maintenance.purge(body.target)),
            Operation("POST", "reset", r.Reset, lambda body: maintenance.reset(body.target, body.keep_clock)),
            Operation("GET", "ttl", r.Listing, lambda query: reports.list_containers(query.target)),
            Operation("GET", "ttl/forecast", r.Forecast, reports.forecast),
            Operation("POST", "ttl/preview", r.Preview, lambda body: reports.preview(body.target, body.change())),
            Operation("POST", "ttl/set", r.SetTtl, lambda body: reports.set_ttl(body.target, body.change())),
            Operation("GET", "ttl/explain", r.Explain, lambda query: reports.explain(query.target, query.id, query.pk)),
            Operation("POST", "ttl/pause", r.Pause, lambda body: self.pausing.pause(body.target)),
            Operation("POST", "ttl/resume", r.Resume, self._resume),
            Operation("GET", "ttl/due", r.DueList, reports.list_due),
        )

    async def _resume(self, body: r.Resume) -> dict[str, Any]:
        return await self.pausing.resume(body.target, body.span(), body.dry_run)
