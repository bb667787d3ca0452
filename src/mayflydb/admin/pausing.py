"""Stops purging, and resumes it with a preview: a purged record cannot be restored."""

from __future__ import annotations

from typing import Any

from mayflydb.admin import formats
from mayflydb.admin.targets import ContainerTarget, TargetResolver
from mayflydb.engine.engine import Engine
from mayflydb.expiry.rules import with_notice
from mayflydb.model.instant import SECOND, Instant, Span


class Pausing:
    """Pauses and resumes containers: those of one target, or all."""

    def __init__(self, engine: Engine, targets: TargetResolver) -> None:
        self._engine = engine
        self._targets = targets
        self._expiry_counts = engine.expiry_counts

    async def pause(self, target: str | None) -> dict[str, Any]:
        """Stop purging, across restarts too. Hiding goes on. `due`: the number of records that wait to be purged; `exact`: False
        for an estimate.
        """
        now, allowance = await self._engine.now(), self._expiry_counts.allow()
        rows = []
        for container in await self._targets.list_containers(target):
            node = container.node
            # A pause of all expiry, which an import makes, is stronger and stays.
            if node.definition.paused is None:
                node = await self._engine.definitions.pause(node.id, "purge")
            found = await self._expiry_counts.count_due(node, node.rules, [now], allowance)
            due = {"due": found.counts[0], "exact": found.exact}
            rows.append({"target": container.target, "paused": node.definition.paused, **due})
        return {"now": formats.time(now), "targets": rows}

    async def resume(self, target: str | None, notice: Span | None, dry_run: bool) -> dict[str, Any]:
        """Resume expiry where it is paused: no record expires before the end of the notice. `dry_run`: only report the effects.

        `expire_now`: visible records that the resumption hides. `purge_now`: all records that it purges, hidden ones included.
        """
        now = await self._engine.now()
        not_before = None if notice is None else now + notice
        rows = []
        for container in await self._targets.list_containers(target):
            if container.node.definition.paused is None:
                continue
            rows.append(await self._preview_resume(container, not_before, now))
            if not dry_run:
                await self._engine.definitions.pause(container.node.id, None, not_before)
        return {"now": formats.time(now), "not_before": formats.time_or_none(not_before), "targets": rows}

    async def _preview_resume(
        self, container: ContainerTarget, not_before: Instant | None, now: Instant
    ) -> dict[str, Any]:
        rules = with_notice(container.node.definition.rules, not_before)
        # A resumption removes records at once: its counts are exact, whatever they cost.
        found = await self._expiry_counts.preview(container.node, rules, now, may_estimate=False)
        purgeable = now - container.node.definition.lifecycle.grace * SECOND
        due = await self._expiry_counts.due_counts(container.node.id, rules, [purgeable])
        return {
            "target": container.target,
            "paused": container.node.definition.paused,
            "records": found.records,
            "expire_now": found.expire_now,
            "purge_now": due[0],
            "reappear_now": found.reappear_now,
        }
