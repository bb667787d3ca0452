"""Purges on demand, resets, counts and checks the store."""

from __future__ import annotations

from collections import Counter
from typing import Any

from mayflydb.admin import formats
from mayflydb.admin.clock_control import ClockControl, Note
from mayflydb.admin.reports import ExpiryReports
from mayflydb.admin.targets import TargetResolver
from mayflydb.engine.engine import Engine
from mayflydb.expiry.sweep import PurgeRequest
from mayflydb.model.errors import MayflyError


class Maintenance:
    """Operations on the whole store, or on one target."""

    def __init__(
        self, engine: Engine, targets: TargetResolver, clock: ClockControl, reports: ExpiryReports, note: Note
    ) -> None:
        self._note = note
        self._engine = engine
        self._targets = targets
        self._clock = clock
        self._reports = reports

    async def purge(self, target: str | None = None) -> dict[str, Any]:
        """Purge the records that are due now, whatever the schedule, up to the horizon. After an error some may be left."""
        containers = await self._targets.list_containers(target)
        now = await self._engine.now()
        reaper = self._engine.reaper
        if self._engine.lease is not None:
            # Other nodes write too, and this node does not hear of their deadlines: look before the sweep.
            await reaper.survey()
        own = [
            container.node.id
            for container in containers
            if container.node.definition.schedule is not None and container.node.rules
        ]
        done = Counter({id: (await reaper.run_now(id, now)).erased for id in own})
        only = None if target is None else frozenset(container.node.id for container in containers)
        done += await reaper.sweep_due(PurgeRequest(self._engine.time.horizon(), now, "run now", only, override="all"))
        by_target = {container.target: done[container.node.id] for container in containers if done[container.node.id]}
        answer = {"now": formats.time(now), "purged": sum(by_target.values()), "by_target": by_target}
        # A run on demand of a container with a schedule of its own goes on in spite of a pause of purging.
        paused = [
            container.target
            for container in containers
            if container.node.definition.paused
            and (container.node.id not in own or container.node.definition.paused == "expiry")
        ]
        # The guard or a roll-up may have held one of them just now.
        containers = await self._targets.list_containers(target)
        held = [each.target for each in containers if each.node.definition.is_held]
        return answer | ({"paused": paused} if paused else {}) | ({"held": held} if held else {})

    async def reset(self, target: str | None = None, keep_clock: bool = False) -> dict[str, Any]:
        """Delete everything, or one target, and return the counts. Without a target a virtual clock returns to its start.

        Held: a legal hold keeps some of it.
        """
        self._clock.check_allowed("reset")
        containers = await self._targets.list_containers(target)
        records = [(await self._reports.totals(container)).records for container in containers]
        if target is None:
            await self._engine.holds.refuse_reset()
            databases = len(await self._targets.list_databases())
            await self._engine.reset()
            if keep_clock:
                # Nothing stored is newer any more, so the high-water mark may fall back to the present.
                self._engine.roll_back(await self._engine.now())
            else:
                await self._clock.return_to_start()
        else:
            databases = int(self._targets.is_database(target))
            node = await self._targets.resolve_node(target)
            words, now = self._targets.drop_events(target), await self._engine.now()
            await self._engine.definitions.drop(node.id, note_of=words, now=now)
            if not databases and not self._targets.keeps_empty(target):
                await self._engine.definitions.drop(node.parent, only_empty=True)
        await self._note("reset", "everything" if target is None else target)
        now = await self._engine.now()
        counts = {"databases": databases, "containers": len(containers), "records": sum(records)}
        return {"now": formats.time(now), **counts}

    async def stats(self) -> dict[str, Any]:
        """Return counts in all and per container. `purged`: since the server started."""
        now = await self._engine.now()
        rows, allowance = {}, self._reports.allow()
        for container in await self._targets.list_containers():
            counts = await self._reports.counts(container, now, allowance)
            ahead = await self._engine.next_deadline(container.node.id, now)
            rows[container.target] = counts | {
                "next_expiry": formats.time_or_none(ahead),
                "purged": self._engine.reaper.purge_counts[container.node.id],
            }
        return {
            "now": formats.time(now),
            "databases": len(await self._targets.list_databases()),
            "containers": len(rows),
            "records": sum(row["records"] for row in rows.values()),
            "exact": all(row["exact"] for row in rows.values()),
            "targets": rows,
        }

    async def health(self) -> dict[str, str]:
        """Return `store` (ok, why it cannot answer, or what is damaged), `disk` (ok, or why writes are refused) and `clock` (real
        or virtual; after a jump of the host's clock, both times).
        """
        store = "ok"
        try:
            await self._engine.now()
            await self._targets.list_databases()
            store = await self._engine.known_damage() or "ok"
        except MayflyError as error:
            store = str(error)
        return {"store": store, "disk": await self._describe_disk(), "clock": self._describe_clock()}

    def _describe_clock(self) -> str:
        mode, jump = self._engine.time.clock.mode, self._engine.time.observe()
        if jump is None:
            return mode
        return (
            f"{mode}; the host's clock jumped: it says {formats.time(jump.host)}, and Mayfly {formats.time(jump.time)}"
        )

    async def _describe_disk(self) -> str:
        if self._engine.disk is None:
            return "ok"
        try:
            disk = await self._engine.disk()
        except MayflyError as error:
            return str(error)
        return f"full: {disk.free} bytes are free; writes are refused, reads and deletes go on" if disk.short else "ok"
