"""Passes over containers that have a schedule of their own: what came of them, kept in their rows, and passes on demand.

A pass that finds nothing leaves no trace: that it was made follows from the schedule.
"""

from __future__ import annotations

import msgspec

from mayflydb.engine.catalog import NODE_MISSING, Definition, Nodes, Run, row_of
from mayflydb.expiry.passes import TICK, Schedule, add_pass
from mayflydb.model.errors import NotFound
from mayflydb.model.instant import SECOND, Instant, Span
from mayflydb.store.interface import Count, Decision, Load, Outcome, PutRow, ask


class Cadence(msgspec.Struct, frozen=True):
    """How passes over containers with a schedule of their own are made, in the whole store.

    `tick`: how far the instants are apart at which they may begin. `retry`: how long a container waits that could not be purged.
    `enabled`: whether they are made at all; those on demand are in any case.
    """

    tick: Span = TICK
    retry: Span = 300 * SECOND
    enabled: bool = True


CADENCE = Cadence()


class Runs:
    """Passes whose account is not written yet, and those that failed, by container.

    `processed`, `erased_in_all`: records that passes have looked at, and erased, since the process began.
    """

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._open: dict[int, Run] = {}
        self._failed: dict[int, Instant] = {}
        self.processed = 0
        self.erased_in_all = 0

    def add_erased(self, container: int, instant: Instant, removed: int) -> None:
        """A pass that began at this instant has removed so many records more."""
        known = self._open.get(container)
        before = known.erased if known is not None and known.instant == instant else 0
        self._open[container] = Run(instant, 0, before + removed)

    def postpone(self, container: int, until: Instant) -> None:
        """Nothing is purged there before this instant."""
        self._failed[container] = until

    def resume(self, container: int) -> None:
        """Go on there."""
        self._failed.pop(container, None)

    def postponed_until(self, container: int) -> Instant:
        """Until when it waits because of a failure."""
        return self._failed.get(container, 0)

    def take_finished(self) -> list[tuple[int, Run]]:
        """What is to be written now: an account says that a pass has ended, so none is given of one that failed."""
        done = [(container, run) for container, run in self._open.items() if container not in self._failed]
        for container, _ in done:
            del self._open[container]
        return done

    def count(self, run: Run) -> None:
        """Count what a pass, or a part of one, came to."""
        self.processed += run.processed
        self.erased_in_all += run.erased

    def finish(self, container: int, run: Run) -> Decision[Run]:
        """Write what came of a pass, or of more of the same: it has looked at what is left, too.

        The answer is what is new of it.
        """
        row = yield from ask(Load(container))
        if row is None:
            return Outcome((), run)
        node = self._nodes.of(row)
        before, left = node.definition.run, (yield from ask(Count(container))).records
        after = _with_more(before, run, left)
        known = before.processed if before is not None and before.instant == run.instant else 0
        definition = msgspec.structs.replace(node.definition, run=after)
        more = Run(run.instant, max(0, after.processed - known), run.erased)
        return Outcome((PutRow(row_of(msgspec.structs.replace(node, definition=definition))),), more)

    def finish_on_demand(self, container: int, run: Run, tick: Span) -> Decision[Run]:
        """Write what came of a pass on demand: the next one is made an interval after it. NotFound if the container is gone."""
        row = yield from ask(Load(container))
        if row is None:
            raise NotFound(NODE_MISSING)
        node = self._nodes.of(row)
        schedule = node.definition.schedule
        if schedule is not None:
            schedule = add_pass(schedule, run.instant, tick)
        run = _with_more(None, run, (yield from ask(Count(container))).records)
        definition = msgspec.structs.replace(node.definition, run=run, schedule=schedule)
        return Outcome((PutRow(row_of(msgspec.structs.replace(node, definition=definition))),), run)


def _with_more(before: Run | None, run: Run, left: int) -> Run:
    erased = run.erased + (before.erased if before is not None and before.instant == run.instant else 0)
    return Run(run.instant, erased + left, erased)


def last_run(definition: Definition, now: Instant, records: int) -> Run | None:
    """The last pass over a container up to `now`, be it one that has found nothing; None: there was none, or no schedule.

    `records`: what it holds now, which is what a pass that left no trace has looked at.
    """
    schedule = definition.schedule
    instant = None if schedule is None else schedule.last_of_all(now)
    if instant is None:
        return None
    run = definition.run
    return run if run is not None and run.instant == instant else Run(instant, records, 0)


def next_run(definition: Definition, now: Instant, cadence: Cadence = CADENCE) -> Instant | None:
    """When the next pass is made after `now`; None: none is, since there is no schedule, no rule, or purging is paused."""
    schedule: Schedule | None = definition.schedule
    if (
        schedule is None
        or definition.paused
        or not cadence.enabled
        or not any(rule.passes for rule in definition.rules)
    ):
        return None
    return schedule.next(now + 1)
