"""Removal runs: results of passes over containers with their own schedule, kept in their rows, and passes on demand.

A pass that finds nothing is not stored: the schedule implies that it was made.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from mayflydb.engine.catalog import NODE_MISSING, Definition, Nodes, Run, row_of
from mayflydb.expiry.passes import TICK, Schedule, add_pass
from mayflydb.model.errors import NotFound
from mayflydb.model.instant import SECOND, Instant, Span
from mayflydb.store.interface import Count, Decision, LoadRow, Outcome, PutRow, ask


class PassSettings(msgspec.Struct, frozen=True):
    """Settings of passes over containers with their own schedule, for the whole store.

    `tick`: the interval of instants at which passes may begin. `retry`: the wait of a container after a failed purge.
    `enabled`: whether scheduled passes are made; passes on demand always are.
    """

    tick: Span = TICK
    retry: Span = 300 * SECOND
    enabled: bool = True


DEFAULT_PASS_SETTINGS = PassSettings()


class Runs:
    """Passes whose result is not stored yet, by container.

    `processed`, `erased_in_all`: records that passes have processed and erased, since the process began.
    """

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._open: dict[int, Run] = {}
        self.processed = 0
        self.erased_in_all = 0

    def add_erased(self, container: int, instant: Instant, removed: int) -> None:
        """Add removed records to the pass that began at an instant."""
        known = self._open.get(container)
        before = known.erased if known is not None and known.instant == instant else 0
        self._open[container] = Run(instant, 0, before + removed)

    def take_finished(self, is_postponed: Callable[[int], bool]) -> list[tuple[int, Run]]:
        """Return and clear the results to store: those of containers that are not postponed after a failure."""
        done = [(container, run) for container, run in self._open.items() if not is_postponed(container)]
        for container, _ in done:
            del self._open[container]
        return done

    def count(self, run: Run) -> None:
        """Add the result of a pass, or of a part of one, to the totals."""
        self.processed += run.processed
        self.erased_in_all += run.erased

    def finish(self, container: int, run: Run) -> Decision[Run]:
        """Store the result of a pass, or the rest of one; the remaining records count as processed.

        The reply is the part that was not stored before.
        """
        row = yield from ask(LoadRow(container))
        if row is None:
            return Outcome((), run)
        node = self._nodes.of(row)
        before, left = node.definition.run, (yield from ask(Count(container))).records
        after = _with_more(before, run, left)
        # A part of this pass may be stored already: a process stores the result of each request, and another may continue.
        known = before.processed if before is not None and before.instant == run.instant else 0
        definition = msgspec.structs.replace(node.definition, run=after)
        more = Run(run.instant, max(0, after.processed - known), run.erased)
        return Outcome((PutRow(row_of(msgspec.structs.replace(node, definition=definition))),), more)

    def finish_on_demand(self, container: int, run: Run, tick: Span) -> Decision[Run]:
        """Store the result of a pass on demand; the next pass follows an interval later. NotFound if the container is gone."""
        row = yield from ask(LoadRow(container))
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
    """Return the last pass over a container up to `now`, even if it found nothing; None: no pass yet, or no schedule.

    `records`: the present number of records, which an unstored pass has processed.
    """
    schedule = definition.schedule
    instant = None if schedule is None else schedule.last_of_all(now)
    if instant is None:
        return None
    run = definition.run
    return run if run is not None and run.instant == instant else Run(instant, records, 0)


def next_run(
    definition: Definition, now: Instant, pass_settings: PassSettings = DEFAULT_PASS_SETTINGS
) -> Instant | None:
    """Return the instant of the next pass after `now`; None: no schedule, no rule with passes, or purging is paused."""
    schedule: Schedule | None = definition.schedule
    if (
        schedule is None
        or definition.paused
        or not pass_settings.enabled
        or not any(rule.passes for rule in definition.rules)
    ):
        return None
    return schedule.next(now + 1)
