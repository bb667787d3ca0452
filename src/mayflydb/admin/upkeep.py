"""Purging on demand, starting afresh, counting."""

from __future__ import annotations

from collections import Counter
from typing import Any

from mayflydb.admin import shapes
from mayflydb.admin.clock import Hands
from mayflydb.admin.expiry import Outlook
from mayflydb.admin.targets import Directory
from mayflydb.engine.engine import Engine
from mayflydb.model.errors import MayflyError


class Upkeep:
    """Work on the whole store, or on one target of it."""

    def __init__(self, engine: Engine, directory: Directory, hands: Hands, outlook: Outlook) -> None:
        self._engine = engine
        self._directory = directory
        self._hands = hands
        self._outlook = outlook

    async def purge(self, target: str | None = None) -> dict[str, Any]:
        """Remove what is due now, whatever the schedule, as far as time is trusted. An error means that some may be left."""
        places = await self._directory.containers(target)
        now = await self._engine.now()
        reaper = self._engine.reaper
        if self._engine.lease is not None:
            # Other nodes write, too, and do not tell.
            await reaper.survey()
        own = [place.node.id for place in places if place.node.definition.schedule is not None and place.node.rules]
        done = Counter({container: (await reaper.run_now(container, now)).erased for container in own})
        only = None if target is None else [place.node.id for place in places]
        done += await reaper.sweep_due(self._engine.time.horizon(), now, "run now", only, at_once=True)
        by_target = {place.target: done[place.node.id] for place in places if done[place.node.id]}
        answer = {"now": shapes.time(now), "purged": sum(by_target.values()), "by_target": by_target}
        # A run on demand of a container with a schedule of its own goes on in spite of a pause of purging.
        paused = [
            place.target
            for place in places
            if place.node.definition.paused and (place.node.id not in own or place.node.definition.paused == "expiry")
        ]
        return answer | {"paused": paused} if paused else answer

    async def reset(self, target: str | None = None, keep_clock: bool = False) -> dict[str, Any]:
        """Forget everything, or a target; says how much that was. Without a target a virtual clock goes back to its start."""
        self._hands.check_allowed("reset")
        places = await self._directory.containers(target)
        records = [(await self._outlook.totals(place)).records for place in places]
        if target is None:
            databases = len(await self._directory.databases())
            await self._engine.reset()
            if keep_clock:
                self._engine.roll_back(await self._engine.now())
            else:
                await self._hands.to_start()
        else:
            databases = int(self._directory.is_database(target))
            node = await self._directory.node(target)
            words, now = self._directory.last_words(target), await self._engine.now()
            await self._engine.definitions.drop(node.id, note_of=words, now=now)
            if not databases and not self._directory.keeps_empty(target):
                await self._engine.definitions.drop(node.parent, only_empty=True)
        now = await self._engine.now()
        counts = {"databases": databases, "containers": len(places), "records": sum(records)}
        return {"now": shapes.time(now), **counts}

    async def stats(self) -> dict[str, Any]:
        """Counts in all, and per container; `purged` since the server started."""
        now = await self._engine.now()
        rows = {}
        for place in await self._directory.containers():
            counts = await self._outlook.counts(place, now)
            rows[place.target] = counts | {"purged": self._engine.reaper.purged[place.node.id]}
        return {
            "now": shapes.time(now),
            "databases": len(await self._directory.databases()),
            "containers": len(rows),
            "records": sum(row["records"] for row in rows.values()),
            "targets": rows,
        }

    async def health(self) -> dict[str, str]:
        """`store`: ok, or why it cannot answer; `clock`: real or virtual."""
        store = "ok"
        try:
            await self._engine.now()
            await self._directory.databases()
        except MayflyError as error:
            store = str(error)
        return {"store": store, "clock": self._engine.time.clock.mode}
