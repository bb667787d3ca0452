"""Letting purging stand still, and go on: what is removed cannot be had back."""

from __future__ import annotations

from typing import Any

from mayflydb.admin import shapes
from mayflydb.admin.targets import Directory, Place
from mayflydb.engine.engine import Engine
from mayflydb.expiry.rules import with_notice
from mayflydb.model.instant import Instant, Span


class Pausing:
    """Of one target, or of all there are."""

    def __init__(self, engine: Engine, directory: Directory) -> None:
        self._engine = engine
        self._directory = directory
        self._insight = engine.insight

    async def pause(self, target: str | None) -> dict[str, Any]:
        """Nothing is purged any more; what is due is hidden as ever. Kept across restarts; `due`: what waits by now."""
        now = await self._engine.now()
        rows = []
        for place in await self._directory.containers(target):
            node = place.node
            if node.definition.paused is None:
                node = await self._engine.definitions.pause(node.id, "purge")
            due = await self._insight.due_counts(node.id, node.rules, [now])
            rows.append({"target": place.target, "paused": node.definition.paused, "due": due[0]})
        return {"now": shapes.time(now), "targets": rows}

    async def resume(self, target: str | None, notice: Span | None, dry_run: bool) -> dict[str, Any]:
        """Resume expiry where it is paused: no record expires before the end of the notice. `dry_run`: only report the effects.

        `expire_now`: records that are visible and hidden from then on; `purge_now`: those that go, with what was hidden before.
        """
        now = await self._engine.now()
        not_before = None if notice is None else now + notice
        rows = []
        for place in await self._directory.containers(target):
            if place.node.definition.paused is None:
                continue
            rows.append(await self._outlook(place, not_before, now))
            if not dry_run:
                await self._engine.definitions.pause(place.node.id, None, not_before)
        return {"now": shapes.time(now), "not_before": shapes.time_or_none(not_before), "targets": rows}

    async def _outlook(self, place: Place, not_before: Instant | None, now: Instant) -> dict[str, Any]:
        rules = with_notice(place.node.definition.rules, not_before)
        found = await self._insight.preview(place.node, rules, now)
        due = await self._insight.due_counts(place.node.id, rules, [now])
        return {
            "target": place.target,
            "paused": place.node.definition.paused,
            "records": found.records,
            "expire_now": found.expire_now,
            "purge_now": due[0],
            "reappear_now": found.reappear_now,
        }
