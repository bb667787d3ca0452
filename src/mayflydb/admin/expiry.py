"""The admin API's reports on expiry: forecasts, explanations and previews."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import msgspec

from mayflydb.admin import requests, shapes
from mayflydb.admin.targets import Directory, Place
from mayflydb.engine.catalog import Definition
from mayflydb.engine.engine import Engine
from mayflydb.engine.insight import Forecast, edges_of
from mayflydb.engine.proposals import Change
from mayflydb.engine.runs import last_run, next_run
from mayflydb.expiry.explain import Explanation, explain
from mayflydb.model.errors import NotFound
from mayflydb.model.instant import Instant
from mayflydb.model.record import Record, Totals

PAGE = 1000


class Outlook:
    """Reads the future under the rules in force, or under others. Changes nothing."""

    def __init__(self, engine: Engine, directory: Directory) -> None:
        self._engine = engine
        self._directory = directory
        self._insight = engine.insight

    async def listing(self, target: str | None = None) -> dict[str, Any]:
        """Every container with its rule, counts and next expiry."""
        now = await self._engine.now()
        return {"now": shapes.time(now), "targets": [await self._row(p, now) for p in await self._find(target)]}

    async def _row(self, place: Place, now: Instant) -> dict[str, Any]:
        counts = await self.counts(place, now)
        ahead = await self._engine.next_deadline(place.node.id, now)
        settings = place.targets.settings(place.database, place.node)
        shown = {"target": place.target, **settings, "paused": place.node.definition.paused}
        row = {**shown, **counts, "next_expiry": shapes.time_or_none(ahead)}
        if "indexes" in settings and place.node.definition.schedule is None:
            # What is due at this very instant has had its pass; nobody waits for one where no rule does.
            passes = any(rule.passes for rule in place.node.rules)
            row["next_pass"] = shapes.time(self._engine.monitor.schedule.next(now + 1)) if passes else None
        if place.node.definition.schedule is not None:
            row |= self._runs(place.node.definition, now, counts["records"] + counts["hidden"])
        return row

    async def totals(self, place: Place) -> Totals:
        """The counts of a container, hidden records included."""
        return await self._insight.totals(place.node.id)

    async def counts(self, place: Place, now: Instant) -> dict[str, int]:
        """Records that are visible, hidden or due and not yet purged, and what their own ttls are."""
        totals = await self._insight.totals(place.node.id)
        hiding = [rule for rule in place.node.rules if rule.hides]
        hidden = (await self._insight.due_counts(place.node.id, hiding, [now]))[0]
        due = (await self._insight.due_counts(place.node.id, place.node.rules, [now]))[0]
        return {
            "records": totals.records - hidden,
            "hidden": hidden,
            "due": due,
            "own_ttl": totals.own,
            "ignored_ttl": totals.ignored,
        }

    async def set(self, target: str, change: Change) -> dict[str, Any]:
        """Make a change as a client would, and show what the container is like then."""
        place = await self._directory.container(target)
        await place.targets.set(place.database, place.node, change)
        now = await self._engine.now()
        return {"now": shapes.time(now), **await self._row(await self._directory.container(target), now)}

    async def preview(self, target: str, change: Change) -> dict[str, Any]:
        """The effects that a change would have now."""
        place = await self._directory.container(target)
        now = await self._engine.now()
        proposal = place.targets.proposal(place.database, place.node, change)
        found = await self._insight.preview_of(place.node, proposal, now)
        return {
            "now": shapes.time(now),
            **({} if proposal.index is None else {"index": proposal.index}),
            "current": proposal.current,
            "proposed": change.seconds,
            "records": found.records,
            "expire_now": found.expire_now,
            "expire_within": found.expire_within,
            "own_ttl": found.own_ttl,
            "never": found.never,
            "reappear_now": found.reappear_now,
            "exact": True,
            **({"statements": proposal.statements} if proposal.statements else {}),
            "sample": [self._identity(place, record)[0] for record in found.sample],
        }

    async def forecast(self, wanted: requests.Forecast) -> dict[str, Any]:
        """Deaths per bucket, each after `from` and up to `to`; the first bucket is from now, the last to the horizon."""
        now = await self._engine.now()
        span = wanted.span()
        found = [
            await self._insight.forecast(place.node, now, span, wanted.buckets)
            for place in await self._find(wanted.target)
        ]
        edges = edges_of(now, span, wanted.buckets)
        counts = [sum(each.buckets[n].count for each in found) for n in range(wanted.buckets)]
        return {
            "now": shapes.time(now),
            "bucket_seconds": shapes.seconds(span // wanted.buckets),
            "buckets": [
                {"from": shapes.time(after), "to": shapes.time(until), "count": count}
                for (after, until), count in zip(pairwise(edges), counts, strict=True)
            ],
            **_sums(found),
            "exact": True,
        }

    async def explain(self, target: str, id: str, pk: str | None) -> dict[str, Any]:
        """One record, hidden ones included: its deadline, and why; or why it has none."""
        place = await self._directory.container(target)
        now = await self._engine.now()
        for partition, key in place.targets.places(place.node, id, pk):
            record = await self._engine.get_stored(place.node.id, partition, key)
            if record is not None:
                why = explain(record, place.node.rules, now, place.targets.names(place.node), place.targets.causes)
                paused = place.node.definition.paused
                details = place.targets.details(place.database, place.node, record)
                reason, text = _refined(why, details)
                return {
                    "now": shapes.time(now),
                    **self._named(place, record),
                    "state": why.state,
                    "deadline": shapes.time_or_none(why.deadline),
                    "reason": "paused" if paused == "expiry" else reason,
                    "text": text if paused is None else _PAUSED[paused].format(text),
                    **details,
                }
        raise NotFound(f"there is no such record in {place.target}", hint="purged records are not kept")

    async def due(self, wanted: requests.DueList) -> dict[str, Any]:
        """Records by deadline, after `from` and up to `to`; those that are hidden already included, unless `from` says now."""
        now = await self._engine.now()
        since = None if wanted.since is None else requests.moment(wanted.since)
        to = shapes.LAST if wanted.to is None else requests.moment(wanted.to)
        limit = wanted.checked_limit()
        found: list[tuple[Instant, str, Record, Place]] = []
        for place in await self._find(wanted.target):
            dying = await self._insight.find_expiring(place.node, since, to, limit)
            found += [(when, place.target, record, place) for when, record in dying]
        found.sort(key=lambda each: (each[0], each[1], each[2].partition, each[2].key))
        rows = []
        names = {
            place.target: place.targets.names(place.node) for place in {each[1]: each[3] for each in found}.values()
        }
        for when, target, record, place in found[:limit]:
            why = explain(record, place.node.rules, now, names[target], place.targets.causes)
            shown = {"deadline": shapes.time(when), "state": why.state, "reason": why.reason, "text": why.text}
            rows.append(self._named(place, record) | shown)
        return {"now": shapes.time(now), "records": rows}

    async def expiries(self, after: int) -> list[dict[str, Any]]:
        """Every record that age removed, with a number above `after`, in the order it went; of containers that are there."""
        places = {place.node.id: place for place in await self._find(None)}
        found: list[dict[str, Any]] = []
        while events := await self._engine.expiries(after, PAGE):
            after = events[-1].id
            for event in events:
                place = places.get(event.container)
                if place is not None:
                    id, pk = place.targets.identity(place.node, event.partition, event.key)
                    found.append(
                        {
                            "seq": event.id,
                            "target": place.target,
                            "id": id,
                            "pk": pk,
                            "due": event.deadline,
                            "purged_at": event.purged,
                            "reason": event.cause,
                        }
                    )
        return found

    def _runs(self, definition: Definition, now: Instant, records: int) -> dict[str, Any]:
        """When passes over a container with a schedule of its own are made, and what the last one came to."""
        last = last_run(definition, now, records)
        return {
            "last_run": None if last is None else shapes.time(last.instant),
            "processed": 0 if last is None else last.processed,
            "erased": 0 if last is None else last.erased,
            "next_run": shapes.time_or_none(next_run(definition, now, self._engine.reaper.cadence)),
        }

    async def _find(self, target: str | None) -> list[Place]:
        return await self._directory.containers(target)

    def _identity(self, place: Place, record: Record) -> tuple[str, Any]:
        return place.targets.identity(place.node, record.partition, record.key)

    def _named(self, place: Place, record: Record) -> dict[str, Any]:
        id, pk = self._identity(place, record)
        return {"target": place.target, "id": id, "pk": pk}


_PAUSED = {
    "purge": "{}; purging is paused",
    "expiry": "expiry is paused: nobody dies until it is resumed",
}


def _refined(why: Explanation, details: Mapping[str, Any]) -> tuple[str, str]:
    """Without any instant to count from: what stands in the place of the dates."""
    dates = details.get("dates", ())
    if why.reason != "no-anchor" or not dates:
        return why.reason, why.text
    reasons = {row["reason"] for row in dates}
    return "wrong-type" if "wrong-type" in reasons else why.reason, "; ".join(row["text"] for row in dates)


def _sums(found: list[Forecast]) -> dict[str, int]:
    names = ("due_now", "in_horizon", "later", "never")
    rows = [msgspec.structs.asdict(each) for each in found]
    return {name: sum(row[name] for row in rows) for name in names}
