"""Handles of the admin API for callers on the database's own event loop: those of `handles`, awaited."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from msgspec import UnsetType

from mayflydb.embedded import questions
from mayflydb.embedded.questions import NOT_GIVEN, Expired, Source, Sweep, instant_of
from mayflydb.embedded.within import AsyncControls
from mayflydb.model.instant import to_datetime


class AsyncClockHandle:
    """The database's clock. A move returns after all purges that it makes due, with the answer of the admin API."""

    def __init__(self, controls: AsyncControls) -> None:
        self._controls = controls

    async def now(self) -> datetime:
        """Return the present as an aware datetime in UTC."""
        return to_datetime(await self._controls.now())

    async def advance(
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
        return await self._controls.ask("POST", "clock/advance", **questions.advance(by, parts, sweep))

    async def set(self, to: datetime | str, *, force: bool = False) -> dict[str, Any]:
        """Set the clock to an aware datetime or a time as text. The past needs `force`, and a store without newer data."""
        return await self._controls.ask("POST", "clock/set", **questions.set_clock(to, force))

    async def freeze(self) -> None:
        """Stop the clock at the present instant."""
        await self._controls.ask("POST", "clock/freeze")

    async def resume(self) -> None:
        """Let the clock tick."""
        await self._controls.ask("POST", "clock/resume")

    async def next_expiry(self) -> datetime | None:
        """Return the next deadline; None: no record expires."""
        return questions.moment_of((await self._controls.ask("GET", "clock"))["next_expiry"])

    async def advance_to_next_expiry(self) -> dict[str, Any]:
        """Advance to the next deadline, if there is one."""
        return await self._controls.ask("POST", "clock/advance", to="next-expiry")

    shift = advance
    move_to = set  # noqa: A003 - the method above, under the name that time machines have for it


class AsyncTtlHandle:
    """Reports on expiry, as the admin API answers them."""

    def __init__(self, controls: AsyncControls) -> None:
        self._controls = controls

    async def list(self, target: str | None = None) -> dict[str, Any]:
        """List containers with their TTL settings and counts."""
        return await self._controls.ask("GET", "ttl", target=target)

    async def forecast(self, horizon: str = "1h", *, buckets: int = 60, target: str | None = None) -> dict[str, Any]:
        """Count deadlines by bucket from now to a horizon, such as `1h` or `7d`."""
        return await self._controls.ask("GET", "ttl/forecast", horizon=horizon, buckets=buckets, target=target)

    async def advise(self, target: str | None = None) -> dict[str, Any]:
        """Advise on the ttl of containers by the ages at which records are read and updated. Nothing is changed."""
        return await self._controls.ask("GET", "ttl/advise", target=target)

    async def preview(
        self, target: str, default_ttl: int | UnsetType | None = NOT_GIVEN, **change: Any
    ) -> dict[str, Any]:
        """Count what a change of TTL settings would expire, and change nothing. Parameters as of the blocking handle."""
        return await self._controls.ask("POST", "ttl/preview", **questions.change(target, default_ttl, change))

    async def set(self, target: str, default_ttl: int | UnsetType | None = NOT_GIVEN, **change: Any) -> dict[str, Any]:
        """Make the change that `preview` counts, with all checks of a client's request."""
        return await self._controls.ask("POST", "ttl/set", **questions.change(target, default_ttl, change))

    async def explain(self, target: str, id: str, pk: Any = NOT_GIVEN) -> dict[str, Any]:
        """Explain when and why one record expires, or why it does not."""
        return await self._controls.ask("GET", "ttl/explain", **questions.record(target, id, pk))

    async def due(self, target: str | None = None, *, limit: int = 100) -> dict[str, Any]:
        """List records by deadline, hidden ones included."""
        return await self._controls.ask("GET", "ttl/due", target=target, limit=limit)


class AsyncEvents:
    """Expiry events since the last reset."""

    def __init__(self, controls: AsyncControls) -> None:
        self._controls = controls

    async def expired(self) -> list[Expired]:
        """Return the records that age removed, in the order of their purges. HistoryLost if some are no longer kept."""
        found: list[Expired] = []
        last = -1
        page: dict[str, Any] = {"last": 0}
        while page["last"] != last:
            last = page["last"]
            page = await self._controls.ask("GET", "events/expired", after=last)
            found += map(questions.expired_of, page["events"])
        return found


class AsyncAdminHandle:
    """The clock, TTL, expiry events, and what the admin API does with everything that is stored."""

    def __init__(self, controls: AsyncControls) -> None:
        self._controls = controls
        self.clock = AsyncClockHandle(controls)
        self.ttl = AsyncTtlHandle(controls)
        self.events = AsyncEvents(controls)

    async def reset(self, target: str | None = None, *, keep_clock: bool = False) -> dict[str, Any]:
        """Delete everything and set a virtual clock back to its start; with a target (`cosmos:shop`), delete that alone."""
        return await self._controls.ask("POST", "reset", target=target, keep_clock=keep_clock)

    async def start_at(self, instant: datetime | str) -> None:
        """Delete everything and freeze the clock at this time; later resets return to it."""
        await self.reset(keep_clock=True)
        await self._controls.start_at(instant_of(instant))

    async def follow_process(self) -> None:
        """Follow the clock of this process, as the blocking handle does. Forbidden for a store that outlives the process."""
        await self._controls.follow_process()

    async def purge(self, target: str | None = None) -> dict[str, Any]:
        """Purge all due records."""
        return await self._controls.ask("POST", "purge", target=target)

    async def set_lifecycle(self, target: str, **settings: Any) -> dict[str, Any]:
        """Change lifecycle settings of a container: `grace`, `history`, such as `7d`; `shred`, such as `day`; others as the admin
        API has them.
        """
        return await self._controls.ask("POST", "lifecycle", target=target, **settings)

    async def undelete(self, target: str, id: str | None = None, pk: Any = NOT_GIVEN, **selection: Any) -> int:
        """Bring back the expired records of a container that are not purged yet, or one of them; return their number.

        `selection`: the admin API's `causes`, `from`, `to` and `life`.
        """
        one = {"target": target} if id is None else questions.record(target, id, pk)
        answer = await self._controls.ask("POST", "undelete", **one, **selection)
        while not answer["done"]:
            answer = await self._controls.ask("GET", "undelete", target=target)
        return int(answer["undeleted"])

    async def add_hold(
        self, target: str, name: str, *, why: str, by: str, where: str | None = None, **more: Any
    ) -> dict[str, Any]:
        """Preserve what leaves a container and matches, until the hold is released. `more`: the admin API's `matter`, `versions`
        and `dry_run`.
        """
        return await self._controls.ask("POST", "holds", target=target, name=name, why=why, by=by, where=where, **more)

    async def read_held(self, name: str) -> list[dict[str, Any]]:
        """Return what a hold preserves, in the order in which it left its container. NotFound."""
        found: list[dict[str, Any]] = []
        last: int | None = 0
        while last is not None:
            page = await self._controls.ask("GET", "holds/{name}/records", name=name, after=last)
            found += questions.plain(page["records"])
            last = page["last"]
        return found

    async def release_hold(self, name: str, *, why: str, by: str) -> int:
        """Release a hold, and return the number of versions that were removed with it. NotFound."""
        answer = await self._controls.ask("POST", "hold-release", name=name, why=why, by=by)
        while not answer["done"]:
            answer = await self._controls.ask("GET", "hold-release", name=name)
        return int(answer["removed"])

    async def add_webhook(self, name: str, url: str, **more: Any) -> dict[str, Any]:
        """Post expiries from now on to an address; the answer has the `secret` of signatures.

        `more`: the admin API's `target`, `causes` and `secret`.
        """
        return await self._controls.ask("POST", "webhooks", name=name, url=url, **more)

    async def add_archive(self, name: str, url: str, **more: Any) -> dict[str, Any]:
        """Add a place for records that expire: `file:///directory` or `s3://bucket/prefix`. `set_lifecycle` puts them there.

        `more`: the admin API's `format` and `every`.
        """
        return await self._controls.ask("POST", "archives", name=name, url=url, **more)

    async def flush_archives(self, name: str | None = None) -> dict[str, Any]:
        """Write what waits for an archive, or for all, and return the numbers of `files` and `records`."""
        return await self._controls.ask("POST", "archives/flush", name=name)

    async def stats(self) -> dict[str, Any]:
        """Return counts of records, in all and by target."""
        return await self._controls.ask("GET", "stats")

    async def snapshot(self, name: str = "snapshot") -> dict[str, Any]:
        """Save everything that is stored, and the clock, under a name, in the place of a snapshot that had it."""
        return await self._controls.ask("PUT", "snapshots/{name}", name=name)

    async def restore(self, name: str = "snapshot") -> dict[str, Any]:
        """Replace everything by a snapshot, and return the clock to its instant. NotFound."""
        return await self._controls.ask("POST", "snapshots/{name}/restore", name=name)

    async def seed(self, *sources: Source) -> None:
        """Make what resource documents describe, as `mayfly apply` does: documents, files, or the files of folders."""
        for piece in questions.pieces_of(sources):
            await self._controls.ask("POST", "apply", **piece)
