"""Blocking handles of the admin API: the clock, TTL, expiry events, and operations on everything that is stored."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Protocol

from msgspec import UnsetType

from mayflydb.embedded import questions
from mayflydb.embedded.questions import NOT_GIVEN, Expired, Source, Sweep, instant_of
from mayflydb.model.instant import Instant, to_datetime


class Controls(Protocol):
    """The way to a server's admin API: in this process, or over HTTP."""

    def ask(self, method: str, path: str, /, **members: Any) -> dict[str, Any]:
        """Run an operation of the admin API and return its answer. `path`: as in its table, `snapshots/{name}`. MayflyError."""
        ...

    def now(self) -> Instant:
        """Return the server's present."""
        ...

    def start_at(self, instant: Instant) -> None:
        """Freeze the clock of an empty server at an instant, to which later resets return."""
        ...

    def follow_process(self) -> None:
        """Follow the clock of this process. Forbidden for a server in another one."""
        ...


class ClockHandle:
    """The server's clock. A move returns after all purges that it makes due, with the answer of the admin API."""

    def __init__(self, controls: Controls) -> None:
        self._controls = controls

    def now(self) -> datetime:
        """Return the present as an aware datetime in UTC."""
        return to_datetime(self._controls.now())

    def advance(
        self,
        by: timedelta | str | None = None,
        *,
        seconds: float = 0,
        minutes: float = 0,
        hours: float = 0,
        days: float = 0,
        sweep: Sweep = "scheduled",
    ) -> dict[str, Any]:
        """Advance by a timedelta, by a duration as text (`1h30m`), or by the sum of the parts."""
        parts = {"seconds": seconds, "minutes": minutes, "hours": hours, "days": days}
        return self._controls.ask("POST", "clock/advance", **questions.advance(by, parts, sweep))

    def set(self, to: datetime | str, *, force: bool = False) -> dict[str, Any]:
        """Set the clock to an aware datetime or a time as text. The past needs `force`, and a store without newer data."""
        return self._controls.ask("POST", "clock/set", **questions.set_clock(to, force))

    def freeze(self) -> None:
        """Stop the clock at the present instant."""
        self._controls.ask("POST", "clock/freeze")

    def resume(self) -> None:
        """Let the clock tick."""
        self._controls.ask("POST", "clock/resume")

    def next_expiry(self) -> datetime | None:
        """Return the next deadline; None: no record expires."""
        return questions.moment_of(self._controls.ask("GET", "clock")["next_expiry"])

    def advance_to_next_expiry(self) -> dict[str, Any]:
        """Advance to the next deadline, if there is one."""
        return self._controls.ask("POST", "clock/advance", to="next-expiry")

    shift = advance
    move_to = set  # noqa: A003 - the method above, under the name that time machines have for it


class TtlHandle:
    """Reports on expiry, as the admin API answers them."""

    def __init__(self, controls: Controls) -> None:
        self._controls = controls

    def list(self, target: str | None = None) -> dict[str, Any]:
        """List containers with their TTL settings and counts."""
        return self._controls.ask("GET", "ttl", target=target)

    def forecast(self, horizon: str = "1h", *, buckets: int = 60, target: str | None = None) -> dict[str, Any]:
        """Count deadlines by bucket from now to a horizon, such as `1h` or `7d`."""
        return self._controls.ask("GET", "ttl/forecast", horizon=horizon, buckets=buckets, target=target)

    def advise(self, target: str | None = None) -> dict[str, Any]:
        """Advise on the ttl of containers by the ages at which records are read and updated. Nothing is changed."""
        return self._controls.ask("GET", "ttl/advise", target=target)

    def preview(self, target: str, default_ttl: int | UnsetType | None = NOT_GIVEN, **change: Any) -> dict[str, Any]:
        """Count what a change of TTL settings would expire, and change nothing.

        `default_ttl` of a container of Cosmos DB: seconds, -1 for on without a default, None for off. `change`: members of the
        admin API's preview for the other protocols, such as `index="createdAt_1", expire_after_seconds=60`.
        """
        return self._controls.ask("POST", "ttl/preview", **questions.change(target, default_ttl, change))

    def set(self, target: str, default_ttl: int | UnsetType | None = NOT_GIVEN, **change: Any) -> dict[str, Any]:
        """Make the change that `preview` counts, with all checks of a client's request."""
        return self._controls.ask("POST", "ttl/set", **questions.change(target, default_ttl, change))

    def explain(self, target: str, id: str, pk: Any = NOT_GIVEN) -> dict[str, Any]:
        """Explain when and why one record expires, or why it does not."""
        return self._controls.ask("GET", "ttl/explain", **questions.record(target, id, pk))

    def due(self, target: str | None = None, *, limit: int = 100) -> dict[str, Any]:
        """List records by deadline, hidden ones included."""
        return self._controls.ask("GET", "ttl/due", target=target, limit=limit)


class Events:
    """Expiry events since the last reset."""

    def __init__(self, controls: Controls) -> None:
        self._controls = controls

    @property
    def expired(self) -> list[Expired]:
        """The records that age removed, in the order of their purges. HistoryLost if some of them are no longer kept."""
        found: list[Expired] = []
        last = -1
        page: dict[str, Any] = {"last": 0}
        while page["last"] != last:
            last = page["last"]
            page = self._controls.ask("GET", "events/expired", after=last)
            found += map(questions.expired_of, page["events"])
        return found


class AdminHandle:
    """The clock, TTL, expiry events, and what the admin API does with everything that is stored."""

    def __init__(self, controls: Controls) -> None:
        self._controls = controls
        self.clock = ClockHandle(controls)
        self.ttl = TtlHandle(controls)
        self.events = Events(controls)

    def reset(self, target: str | None = None, *, keep_clock: bool = False) -> dict[str, Any]:
        """Delete everything and set a virtual clock back to its start; with a target (`cosmos:shop`), delete that alone."""
        return self._controls.ask("POST", "reset", target=target, keep_clock=keep_clock)

    def start_at(self, instant: datetime | str) -> None:
        """Delete everything and freeze the clock at this time; later resets return to it."""
        self.reset(keep_clock=True)
        self._controls.start_at(instant_of(instant))

    def follow_process(self) -> None:
        """Follow the clock of this process from now on, as time-machine and freezegun move it, until `start_at` or a freeze.

        Each request looks at it first, and is answered after all purges that a move has made due. Resets leave it so.

        Forbidden for a store that outlives the process, and for a server in another one.
        """
        self._controls.follow_process()

    def purge(self, target: str | None = None) -> dict[str, Any]:
        """Purge all due records."""
        return self._controls.ask("POST", "purge", target=target)

    def set_lifecycle(self, target: str, **settings: Any) -> dict[str, Any]:
        """Change lifecycle settings of a container: `grace`, `history`, such as `7d`; `shred`, such as `day`; others as the admin
        API has them.
        """
        return self._controls.ask("POST", "lifecycle", target=target, **settings)

    def undelete(self, target: str, id: str | None = None, pk: Any = NOT_GIVEN, **selection: Any) -> int:
        """Bring back the expired records of a container that are not purged yet, or one of them; return their number.

        `selection`: the admin API's `causes`, `from`, `to` and `life`.
        """
        one = {"target": target} if id is None else questions.record(target, id, pk)
        answer = self._controls.ask("POST", "undelete", **one, **selection)
        while not answer["done"]:
            answer = self._controls.ask("GET", "undelete", target=target)
        return int(answer["undeleted"])

    def add_hold(
        self, target: str, name: str, *, why: str, by: str, where: str | None = None, **more: Any
    ) -> dict[str, Any]:
        """Preserve what leaves a container and matches, until the hold is released. `more`: the admin API's `matter`, `versions`
        and `dry_run`.
        """
        return self._controls.ask("POST", "holds", target=target, name=name, why=why, by=by, where=where, **more)

    def read_held(self, name: str) -> list[dict[str, Any]]:
        """Return what a hold preserves, in the order in which it left its container. NotFound."""
        found: list[dict[str, Any]] = []
        last: int | None = 0
        while last is not None:
            page = self._controls.ask("GET", "holds/{name}/records", name=name, after=last)
            found += questions.plain(page["records"])
            last = page["last"]
        return found

    def release_hold(self, name: str, *, why: str, by: str) -> int:
        """Release a hold, and return the number of versions that were removed with it. NotFound."""
        answer = self._controls.ask("POST", "hold-release", name=name, why=why, by=by)
        while not answer["done"]:
            answer = self._controls.ask("GET", "hold-release", name=name)
        return int(answer["removed"])

    def add_webhook(self, name: str, url: str, **more: Any) -> dict[str, Any]:
        """Post expiries from now on to an address; the answer has the `secret` of signatures.

        `more`: the admin API's `target`, `causes` and `secret`.
        """
        return self._controls.ask("POST", "webhooks", name=name, url=url, **more)

    def add_archive(self, name: str, url: str, **more: Any) -> dict[str, Any]:
        """Add a place for records that expire: `file:///directory` or `s3://bucket/prefix`. `set_lifecycle` puts them there.

        `more`: the admin API's `format` and `every`.
        """
        return self._controls.ask("POST", "archives", name=name, url=url, **more)

    def flush_archives(self, name: str | None = None) -> dict[str, Any]:
        """Write what waits for an archive, or for all, and return the numbers of `files` and `records`."""
        return self._controls.ask("POST", "archives/flush", name=name)

    def stats(self) -> dict[str, Any]:
        """Return counts of records, in all and by target."""
        return self._controls.ask("GET", "stats")

    def snapshot(self, name: str = "snapshot") -> dict[str, Any]:
        """Save everything that is stored, and the clock, under a name, in the place of a snapshot that had it."""
        return self._controls.ask("PUT", "snapshots/{name}", name=name)

    def restore(self, name: str = "snapshot") -> dict[str, Any]:
        """Replace everything by a snapshot, and return the clock to its instant. NotFound."""
        return self._controls.ask("POST", "snapshots/{name}/restore", name=name)

    def seed(self, *sources: Source) -> None:
        """Make what resource documents describe, as `mayfly apply` does: documents, files, or the files of folders.

        Applied again, a document changes nothing. After an error what was made before stays. BadRequest, Conflict, OSError.
        """
        for piece in questions.pieces_of(sources):
            self._controls.ask("POST", "apply", **piece)
