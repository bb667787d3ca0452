"""The admin API's reports on expiry: forecasts, explanations and previews."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

import msgspec

from mayflydb.admin import formats, requests
from mayflydb.admin.targets import ContainerTarget, TargetResolver
from mayflydb.engine.catalog import Definition, Node
from mayflydb.engine.count_budget import Allowance
from mayflydb.engine.engine import Engine
from mayflydb.engine.expiry_counts import Forecast, edges_of
from mayflydb.engine.previews import Preview
from mayflydb.engine.proposals import Change, Proposal
from mayflydb.engine.runs import last_run, next_run
from mayflydb.engine.upcoming import schedule_of
from mayflydb.expiry.deadline import earliest_expiry
from mayflydb.expiry.explain import Explanation, explain
from mayflydb.expiry.passes import purge_instant
from mayflydb.model.errors import NotFound
from mayflydb.model.instant import LAST_INSTANT, Instant
from mayflydb.model.record import Expiry, Record, Totals

PAGE = 1000


class ExpiryReports:
    """Reports what expires, when and why, under the rules in force or under proposed ones; makes changes of TTL settings."""

    def __init__(self, engine: Engine, targets: TargetResolver) -> None:
        self._engine = engine
        self._targets = targets
        self._expiry_counts = engine.expiry_counts

    async def list_containers(self, target: str | None = None) -> dict[str, Any]:
        """Report each container's TTL settings, counts and next expiry."""
        now, allowance = await self._engine.now(), self._expiry_counts.allow()
        return {
            "now": formats.time(now),
            "targets": [await self._describe_container(p, now, allowance) for p in await self._list_targets(target)],
        }

    async def _describe_container(
        self, container: ContainerTarget, now: Instant, allowance: Allowance
    ) -> dict[str, Any]:
        counts = await self.counts(container, now, allowance)
        ahead = await self._engine.next_deadline(container.node.id, now)
        settings = container.front_end.ttl_settings(container.database, container.node)
        definition = container.node.definition
        shown = {
            "target": container.target,
            **settings,
            "paused": definition.paused,
            "held": definition.is_held,
        }
        row = {**shown, **counts, "next_expiry": formats.time_or_none(ahead)}
        if "indexes" in settings and container.node.definition.schedule is None:
            row["next_pass"] = self._next_pass(container, now)
        if container.node.definition.schedule is not None:
            row |= self._describe_runs(container.node.definition, now, counts["records"] + counts["hidden"])
        return row

    def _next_pass(self, container: ContainerTarget, now: Instant) -> str | None:
        """Return the time of the monitor's next pass. None: no rule waits for passes, or there are none."""
        monitor, node = self._engine.monitor, container.node
        if not monitor.enabled or node.definition.paused or not any(rule.passes for rule in node.rules):
            return None
        # now + 1: the pass of this very instant is over.
        return formats.time(monitor.schedule.next(now + 1))

    async def totals(self, container: ContainerTarget) -> Totals:
        """Return the counts of a container, hidden records included."""
        return await self._expiry_counts.totals(container.node.id)

    def allow(self) -> Allowance:
        """Return what one answer about several containers may count exactly."""
        return self._expiry_counts.allow()

    async def counts(self, container: ContainerTarget, now: Instant, allowance: Allowance) -> dict[str, Any]:
        """Count a container's records: visible, hidden, due and not yet purged, with an own ttl, with an ignored ttl; and
        `exact`, False for estimates.
        """
        return msgspec.structs.asdict(await self._expiry_counts.count_records(container.node, now, allowance))

    async def count_backlog(self, container: ContainerTarget, until: Instant, allowance: Allowance) -> int:
        """Count the stored records whose deadline had come at an instant."""
        return (await self._expiry_counts.count_due(container.node, container.node.rules, [until], allowance)).counts[0]

    async def set_ttl(self, target: str, change: Change) -> dict[str, Any]:
        """Make a change as a client would, and report the container as it is afterwards."""
        container = await self._targets.resolve_container(target)
        await container.front_end.apply_change(container.database, container.node, change)
        now = await self._engine.now()
        return {
            "now": formats.time(now),
            **await self._describe_container(await self._targets.resolve_container(target), now, self.allow()),
        }

    async def preview(self, target: str, change: Change) -> dict[str, Any]:
        """Report what a change would expire now and later. Nothing is changed."""
        container = await self._targets.resolve_container(target)
        now = await self._engine.now()
        proposal = container.front_end.propose(container.database, container.node, change)
        found = await self._expiry_counts.preview_of(container.node, proposal, now)
        return {
            "now": formats.time(now),
            **({} if proposal.index is None else {"index": proposal.index}),
            "current": proposal.current,
            "proposed": change.seconds,
            "records": found.records,
            "expire_now": found.expire_now,
            "expire_within": found.expire_within,
            "own_ttl": found.own_ttl,
            "never": found.never,
            "reappear_now": found.reappear_now,
            "exact": found.exact,
            **({"statements": proposal.statements} if proposal.statements else {}),
            "sample": [self._identity(container, record)[0] for record in found.sample],
            "notes": _note_dates(container, change, proposal, found),
        }

    async def forecast(self, wanted: requests.Forecast) -> dict[str, Any]:
        """Count deadlines by bucket, each after `from` and up to `to`. The buckets reach from now to the horizon."""
        now = await self._engine.now()
        span, allowance = wanted.span(), self.allow()
        found = [
            await self._expiry_counts.forecast(container.node, now, span, wanted.buckets, allowance)
            for container in await self._list_targets(wanted.target)
        ]
        edges = edges_of(now, span, wanted.buckets)
        counts = [sum(each.buckets[n].count for each in found) for n in range(wanted.buckets)]
        return {
            "now": formats.time(now),
            "bucket_seconds": formats.seconds(span // wanted.buckets),
            "buckets": [
                {"from": formats.time(after), "to": formats.time(until), "count": count}
                for (after, until), count in zip(pairwise(edges), counts, strict=True)
            ],
            **_add_up(found),
            "exact": all(each.exact for each in found),
        }

    async def explain(self, target: str, id: str, pk: str | None) -> dict[str, Any]:
        """Report the deadline of one record, hidden or not, and the reason for it, or the reason why there is none."""
        container = await self._targets.resolve_container(target)
        now = await self._engine.now()
        for partition, key in container.front_end.find_identities(container.node, id, pk):
            record = await self._engine.get_stored(container.node.id, partition, key)
            if record is not None:
                why = explain(
                    record,
                    container.node.rules,
                    now,
                    container.front_end.index_names(container.node),
                    container.front_end.causes,
                )
                paused = container.node.definition.paused
                details = container.front_end.describe_record(container.database, container.node, record)
                reason, text = reason_and_text(why, details)
                return {
                    "now": formats.time(now),
                    **self._describe_identity(container, record),
                    "state": why.state,
                    "written": formats.time(record.written),
                    "deadline": formats.time_or_none(why.deadline),
                    "purge_from": formats.time_or_none(self._find_purge(container.node, record, now)),
                    "reason": "paused" if paused == "expiry" else reason,
                    "text": text if paused is None else _PAUSED_TEXTS[paused].format(text),
                    **details,
                }
        raise NotFound(f"there is no such record in {container.target}", hint="purged records are not kept")

    def _find_purge(self, container: Node, record: Record, now: Instant) -> Instant | None:
        """Find the first instant from which a record may be purged, after `now` if it has expired; None: there is none."""
        expiry = earliest_expiry(record, container.rules)
        if expiry is None or container.definition.paused is not None:
            return None
        schedule = schedule_of(container, self._engine.monitor.schedule)
        first = purge_instant(*expiry, schedule)
        # A pass of this very instant is over.
        return max(first, now) if first > now or not expiry[1].passes else schedule.next(now + 1)

    async def list_due(self, wanted: requests.DueList) -> dict[str, Any]:
        """List records by deadline, after `from` and up to `to`, hidden records included."""
        now = await self._engine.now()
        since = None if wanted.since is None else requests.parse_moment(wanted.since)
        to = LAST_INSTANT if wanted.to is None else requests.parse_moment(wanted.to)
        limit = wanted.checked_limit()
        allowance, known_to = self.allow(), to
        found: list[tuple[Instant, str, Record, ContainerTarget]] = []
        for container in await self._list_targets(wanted.target):
            # Each container's first `limit` suffice: no more than that of them can be among the first `limit` of all.
            expiring = await self._expiry_counts.find_expiring(container.node, since, to, limit, allowance)
            known_to = min(known_to, expiring.known_to)
            found += [(when, container.target, record, container) for when, record in expiring.records]
        found = [each for each in found if each[0] <= known_to]
        found.sort(key=lambda each: (each[0], each[1], each[2].partition, each[2].key))
        rows = []
        names = {
            container.target: container.front_end.index_names(container.node)
            for container in {each[1]: each[3] for each in found}.values()
        }
        for when, target, record, container in found[:limit]:
            why = explain(record, container.node.rules, now, names[target], container.front_end.causes)
            shown = {"deadline": formats.time(when), "state": why.state, "reason": why.reason, "text": why.text}
            rows.append(self._describe_identity(container, record) | shown)
        return {"now": formats.time(now), "records": rows, "complete": len(found) > limit or known_to == to}

    async def list_expiries(self, after: int) -> list[dict[str, Any]]:
        """List the expiry events above the number `after`, in their order. Events of dropped containers are left out.

        HistoryLost if events above `after` are no longer kept.
        """
        now = await self._engine.now()
        containers = {container.node.id: container for container in await self._list_targets(None)}
        found: list[dict[str, Any]] = []
        while events := await self._engine.expiries(after, PAGE, now):
            after = events[-1].id
            found += _describe_expiries(events, containers)
        return found

    async def page_expiries(self, wanted: requests.ExpiryList) -> dict[str, Any]:
        """Read one page of expiry events. `last`: the number of the last one that was read, or `after` where none was."""
        now = await self._engine.now()
        events = await self._engine.expiries(wanted.checked_after(), wanted.checked_limit(), now)
        containers = {container.node.id: container for container in await self._list_targets(wanted.target)}
        rows = _describe_expiries(events, containers)
        for row in rows:
            row["due"], row["purged_at"] = formats.time(row["due"]), formats.time(row["purged_at"])
        return {"now": formats.time(now), "events": rows, "last": events[-1].id if events else wanted.after}

    def _describe_runs(self, definition: Definition, now: Instant, records: int) -> dict[str, Any]:
        """Report the last and the next run over a container with a schedule of its own."""
        last = last_run(definition, now, records)
        return {
            "last_run": None if last is None else formats.time(last.instant),
            "processed": 0 if last is None else last.processed,
            "erased": 0 if last is None else last.erased,
            "next_run": formats.time_or_none(next_run(definition, now, self._engine.reaper.pass_settings)),
        }

    async def _list_targets(self, target: str | None) -> list[ContainerTarget]:
        return await self._targets.list_containers(target)

    def _identity(self, container: ContainerTarget, record: Record) -> tuple[str, Any]:
        return container.front_end.decode_identity(container.node, record.partition, record.key)

    def _describe_identity(self, container: ContainerTarget, record: Record) -> dict[str, Any]:
        id, pk = self._identity(container, record)
        return {"target": container.target, "id": id, "pk": pk}


def _note_dates(container: ContainerTarget, change: Change, proposal: Proposal, found: Preview) -> list[str]:
    """Return a note where no record has a date in the field of an index or column: its name may be mistyped."""
    if change.seconds is None or not found.records:
        return []
    # Of one date rule alone, the records without a deadline are those without a date.
    is_alone = len(proposal.rules) == 1 and proposal.rules[0].slot is not None
    if (found.dated is None and not (is_alone and found.never >= found.records)) or found.dated:
        return []
    record = _RECORD_WORDS.get(container.target.partition(":")[0], "record")
    where = f"in `{change.field}`" if change.field else f"for `{proposal.index}`"
    return [f"no {record} of {'' if found.exact else 'a sample of '}{container.target} has a date {where}"]


_RECORD_WORDS: Final = {"mongo": "document", "ydb": "row"}


def _describe_expiries(events: list[Expiry], containers: Mapping[int, ContainerTarget]) -> list[dict[str, Any]]:
    """Put events into words, with instants as numbers; those of other containers are left out."""
    rows = []
    for event in events:
        container = containers.get(event.container)
        if container is not None:
            id, pk = container.front_end.decode_identity(container.node, event.partition, event.key)
            instants = {"due": event.deadline, "purged_at": event.purged}
            rows.append(
                {"seq": event.id, "target": container.target, "id": id, "pk": pk, **instants, "reason": event.cause}
            )
    return rows


_PAUSED_TEXTS = {
    "purge": "{}; purging is paused",
    "expiry": "expiry is paused: no record expires until it is resumed",
}


def reason_and_text(why: Explanation, details: Mapping[str, Any]) -> tuple[str, str]:
    """Return reason and sentence. A record without any date to count from gets the reasons of its date fields instead."""
    dates = details.get("dates", ())
    if why.reason != "no-anchor" or not dates:
        return why.reason, why.text
    reasons = {row["reason"] for row in dates}
    return "wrong-type" if "wrong-type" in reasons else why.reason, "; ".join(row["text"] for row in dates)


def _add_up(found: list[Forecast]) -> dict[str, int]:
    names = ("due_now", "in_horizon", "later", "never")
    rows = [msgspec.structs.asdict(each) for each in found]
    return {name: sum(row[name] for row in rows) for name in names}
