"""Advice on a ttl: what the sampled accesses of each container suggest, what it would have cost, and what it would free."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Final

import msgspec

from mayflydb.admin import formats
from mayflydb.admin.targets import ContainerTarget, TargetResolver
from mayflydb.engine.count_budget import Allowance
from mayflydb.engine.engine import Engine
from mayflydb.engine.expiry_counts import let_others_run
from mayflydb.engine.lifecycle.access_ages import LARGEST, MOST_NAMES
from mayflydb.engine.proposals import Change, Proposal
from mayflydb.engine.record_samples import RecordSample
from mayflydb.expiry.access_ages import LAST_WRITE, AgeCounts, Observations, field_ages, slot_ages
from mayflydb.expiry.deadline import due_at
from mayflydb.expiry.ttl_advice import LEAST_SAMPLES, Growth, Verdict, find_growth, judge, needed_watch
from mayflydb.model.durations import format_span
from mayflydb.model.instant import SECOND, Instant, Span
from mayflydb.model.record import Record

PAGE: Final = 64
"""Records that are looked at in one turn of the event loop."""


class Basis(msgspec.Struct, frozen=True):
    """An instant from which lives count, or could. `ages`: the name of the ages since then. `present`: the seconds in force.

    `field`: of a date. `index`: the name of its index, if there is one. `dated`: the share of sampled records that have the date.
    """

    ages: str
    present: int | None
    field: str | None = None
    index: str | None = None
    dated: float | None = None

    def change(self, seconds: int) -> Change:
        """Return the change that sets these seconds."""
        return Change(seconds, self.index, None if self.index else self.field)

    def command(self, target: str, proposed: Span) -> str:
        """Return the command that shows the effects of a proposal. The same with `set` makes the change."""
        where = ""
        if self.field is not None:
            option = "--column" if target.startswith("ydb:") else "--index" if self.index else "--field"
            where = f" {option} {shlex.quote(self.index or self.field)}"
        return f"mayfly ttl preview {shlex.quote(target)} {format_span(proposed)}{where}"


class TtlAdvice:
    """Advises on the ttl of containers. Nothing is changed."""

    def __init__(self, engine: Engine, targets: TargetResolver) -> None:
        self._engine = engine
        self._targets = targets
        engine.accesses.ages.find_dates = targets.find_dates

    async def advise(self, target: str | None) -> dict[str, Any]:
        """Return the advice for the containers of a target, or for all."""
        now, allowance = await self._engine.now(), self._engine.expiry_counts.allow()
        found = await self._targets.list_containers(target)
        return {
            "now": formats.time(now),
            "sampling": self._engine.accesses.ages.step,
            "targets": [await self._describe(container, now, allowance) for container in found],
        }

    async def _describe(self, container: ContainerTarget, now: Instant, allowance: Allowance) -> dict[str, Any]:
        kept = await self._engine.accesses.ages.read(container.node.id)
        seen = Observations(now) if kept is None else kept
        sample = await self._engine.expiry_counts.draw(container.node, allowance)
        ends = any(rule.after is not None for rule in container.node.definition.rules)
        growth = None if ends else find_growth(seen, now)
        return {
            "target": container.target,
            "since": None if kept is None else formats.time(kept.since),
            "observed_seconds": formats.seconds(max(0, now - seen.since)),
            "created": seen.created,
            "deleted": seen.deleted,
            "own_ttl": seen.own,
            "only_grows": None if growth is None else _describe_growth(growth),
            "advice": [
                await self._judge(container, basis, seen, sample, now, allowance)
                for basis in _bases(container, seen, sample)
            ],
        }

    async def _judge(
        self,
        container: ContainerTarget,
        basis: Basis,
        seen: Observations,
        sample: RecordSample,
        now: Instant,
        allowance: Allowance,
    ) -> dict[str, Any]:
        reads, updates = (ages.get(basis.ages, AgeCounts()) for ages in (seen.reads, seen.updates))
        observed = max(0, now - seen.since)
        present = None if basis.present is None else basis.present * SECOND
        verdict = judge(reads, updates, observed, present, basis.field is not None)
        proposed, frees = verdict.proposed, None
        if proposed is not None:
            change = basis.change(proposed // SECOND)
            proposal = container.front_end.propose(container.database, container.node, change)
            frees = await self._count_freed(container, proposal, sample, now, allowance)
        return {
            "counts_from": "the last write" if basis.field is None else "a date",
            "field": basis.field,
            "dated": basis.dated,
            "present": basis.present,
            "reads": _describe_ages(reads),
            "updates": _describe_ages(updates),
            "verdict": verdict.kind,
            "proposed": None if proposed is None else proposed // SECOND,
            "costs": [
                {
                    "seconds": cost.span // SECOND,
                    "late_reads": cost.late_reads,
                    "late_updates": cost.late_updates,
                    "share": cost.share,
                }
                for cost in verdict.costs
            ],
            "frees": frees,
            "text": _word(verdict, reads.count + updates.count, observed, present),
            "command": None if proposed is None else basis.command(container.target, proposed),
        }

    async def _count_freed(
        self, container: ContainerTarget, proposal: Proposal, sample: RecordSample, now: Instant, allowance: Allowance
    ) -> dict[str, Any]:
        """Count the records, and their bytes, that expire at once under a proposal and not under the present rules."""
        node, counts = container.node, self._engine.expiry_counts
        freed = [record async for record in _find_freed(container, proposal, sample, now)]
        sizes = [len(record.value) for record in freed or sample.records]
        if sample.is_whole:
            return {"records": len(freed), "bytes": sum(sizes) if freed else 0, "exact": True}
        records, exact = sample.scale(len(freed)), False
        if proposal.dated is None:
            after = await counts.count_due(node, proposal.rules, [now], allowance)
            before = await counts.count_due(node, node.rules, [now], allowance)
            records, exact = max(0, after.counts[0] - before.counts[0]), after.exact and before.exact
        return {"records": records, "bytes": records * sum(sizes) // max(1, len(sizes)), "exact": exact}


async def _find_freed(
    container: ContainerTarget, proposal: Proposal, sample: RecordSample, now: Instant
) -> AsyncIterator[Record]:
    """Yield the records of a sample that expire at once under a proposal and not under the present rules."""
    for n in range(0, len(sample.records), PAGE):
        for record in sample.records[n : n + PAGE]:
            dated = record if proposal.dated is None else proposal.dated(record)
            if due_at(dated, proposal.rules, now) and not due_at(record, container.node.rules, now):
                yield record
        await let_others_run()


def _bases(container: ContainerTarget, seen: Observations, sample: RecordSample) -> Iterator[Basis]:
    """Yield what the rules of a container count from; without rules what they could count from."""
    node, front_end = container.node, container.front_end
    if not node.definition.rules:
        yield from _choices(container, seen, sample)
        return
    indexes = {index["name"]: index for index in front_end.ttl_settings(container.database, node).get("indexes", ())}
    for rule in node.definition.rules:
        if rule.slot is None:
            yield Basis(LAST_WRITE, rule.after)
        # A rule that counts from another instant than its field, as those of buckets, has another name there.
        elif (name := front_end.index_names(node).get(rule.slot)) in indexes:
            yield Basis(slot_ages(rule.slot), rule.after, indexes[name].get("field", name), name)


def _choices(container: ContainerTarget, seen: Observations, sample: RecordSample) -> Iterator[Basis]:
    anchors = container.front_end.anchors(container.database, container.node)
    if anchors.last_write:
        yield Basis(LAST_WRITE, None)
    if not anchors.dates:
        return
    records = [record for record in sample.records if len(record.value) <= LARGEST][:PAGE]
    fields = Counter(field for record in records for field in container.front_end.find_dates(container.node, record))
    for field, count in fields.most_common(MOST_NAMES - 1):
        yield Basis(field_ages(field), None, field, dated=round(count / len(records), 4))


def _describe_growth(growth: Growth) -> dict[str, int]:
    return {"records_per_day": growth.records, "bytes_per_day": growth.value_bytes}


def _describe_ages(ages: AgeCounts) -> dict[str, Any]:
    """Return the number of samples, and quantiles of the ages in seconds; a date ahead has an age below 0."""
    quantiles = {name: ages.quantile(share) for name, share in _QUANTILES.items()}
    longest = ages.longest if ages.count else None
    return {
        "sampled": ages.count,
        **{name: None if span is None else formats.seconds(span) for name, span in quantiles.items()},
        "longest": None if longest is None else formats.seconds(longest),
    }


_QUANTILES: Final[Mapping[str, float]] = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def _word(verdict: Verdict, count: int, observed: Span, present: Span | None) -> str:
    """Put a verdict into a sentence."""
    if verdict.kind == "few":
        return f"{count} reads and updates were sampled; advice needs {LEAST_SAMPLES}"
    if verdict.kind == "spread":
        return "records are used at every age"
    if verdict.kind == "to-the-end":
        return "records are used until they expire: a longer ttl may be wanted, and cannot be judged by what is seen"
    if verdict.kind == "keep":
        return "the present ttl fits"
    assert verdict.fitting is not None
    span = format_span(verdict.fitting)
    if verdict.kind == "short":
        watch = format_span(needed_watch(verdict.fitting))
        return f"the accesses so far suggest {span}; advice needs {watch} of them, and {_brief(observed)} were watched"
    late = next(cost.late_reads + cost.late_updates for cost in verdict.costs if cost.span == verdict.fitting)
    instead = "" if present is None else f" instead of {format_span(present)}"
    return f"{span}{instead}: {late} of {count} sampled reads and updates would have come too late"


def _brief(span: Span) -> str:
    """Format a span to the second."""
    return format_span(span - span % SECOND)
