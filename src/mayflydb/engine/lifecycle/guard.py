"""The guard: looks at what a purge would remove, and holds it if too much of that expires unexpectedly.

The look is a read beside the writer, before the sweeps of a request. It allows a number of records; a sweep beyond it, or under
other rules than those that were looked at, needs another look. So a change between look and sweep purges no more than the limit.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from mayflydb.clock import boot_us
from mayflydb.engine.catalog import Definition, Node, Nodes, row_of
from mayflydb.engine.expiry_counts import path_place
from mayflydb.engine.timekeeper import Timekeeper
from mayflydb.expiry.guard import ClockStep, GuardLimits, HeldPurge, Reason, Suspicion, find_step, suspect
from mayflydb.expiry.ranges import DueRange, purge_ranges
from mayflydb.expiry.rules import Rule
from mayflydb.expiry.sweep import PurgeRequest
from mayflydb.model.due import DuePath
from mayflydb.model.errors import Conflict, NotFound
from mayflydb.model.instant import DAY, MINUTE, Instant, Span
from mayflydb.store.interface import Count, CountDue, Decision, Due, LoadRow, Outcome, PutRow, Store, ask

log = logging.getLogger("mayflydb.engine.lifecycle.guard")

PAGE: Final = 128

TOLERANCE: Final[Span] = MINUTE
"""A clock that gains less than this between two purges has not stepped."""

REST: Final[Span] = DAY
"""A store that was not served for longer is opened after a step: the host's clock is not known to be right."""


class Pass(msgspec.Struct, frozen=True):
    """The result of a look: up to `records` records may be purged under exactly these rules. None: any number, any rules."""

    rules: tuple[Rule, ...] | None
    records: int | None

    def without(self, purged: int) -> Pass | None:
        """Return what is left of it; None: nothing."""
        if self.records is None:
            return self
        return Pass(self.rules, self.records - purged) if self.records > purged else None


Found: TypeAlias = tuple[int, Reason]
"""The number of unexpected expiries, and the reason of the first."""


class Guard:
    """Looks at the due records of containers of one store. `limits`: for containers without their own; None: no guard."""

    def __init__(self, store: Store, nodes: Nodes, time: Timekeeper, limits: GuardLimits | None) -> None:
        self.limits = limits
        self.changed: Callable[[int], None] = lambda container: None
        """Called with a container whose purge is held, or was confirmed."""
        self._store = store
        self._nodes = nodes
        self._time = time
        # At the start, the mark tells up to when the store was served.
        self._seen: tuple[Instant, Instant] | None = None
        self._step: ClockStep | None = None

    def limits_of(self, definition: Definition) -> GuardLimits | None:
        """Return the limits of a container; None: it has no guard. Without its own, none on a clock that people move."""
        own = definition.lifecycle.guard
        if own is None:
            return self.limits if self._time.clock.mode == "real" else None
        return None if own == "off" else own

    def observe(self, horizon: Instant) -> None:
        """Compare the horizon of a purge with that of the one before."""
        boot = boot_us()
        if self._seen is None:
            before, elapsed, tolerance = self._time.mark_at_start, 0, REST
        else:
            before, elapsed, tolerance = self._seen[0], max(0, boot - self._seen[1]), TOLERANCE
        self._seen = (horizon, boot)
        # On a clock that people move each step is meant.
        if self._time.clock.mode != "real" or not before:
            return
        step = find_step(before, horizon, elapsed, tolerance)
        if step is not None:
            self._step = step

    async def look(self, container: int, request: PurgeRequest) -> Pass:
        """Look at what a request may purge in a container. No records: its purge is held, or the container is gone."""
        row = await self._store.read(LoadRow(container))
        if row is None:
            return Pass((), 0)
        node = self._nodes.of(row)
        if node.definition.held is not None:
            return Pass(node.rules, 0)
        limits = self.limits_of(node.definition)
        if limits is None:
            return Pass(None, None)
        ranges = purge_ranges(node.rules, request.horizon)
        due = sum([(await self._store.read(CountDue(container, each.path, (each.upto,))))[0] for each in ranges])
        if due <= limits.records:
            return Pass(node.rules, limits.records)
        stored = (await self._store.read(Count(container))).records
        most = limits.most(stored)
        if due <= most:
            return Pass(node.rules, most)
        unexpected, reason = await self._count_unexpected(node, ranges, most)
        if unexpected <= most:
            return Pass(node.rules, due)
        held = HeldPurge(request.now, reason, unexpected, due, stored)
        return Pass(node.rules, 0) if await self._hold(node, held) else await self.look(container, request)

    # --- counts ----------------------------------------------------------------------------------------------------------

    async def _count_unexpected(self, node: Node, ranges: tuple[DueRange, ...], most: int) -> Found:
        """Count the unexpected expiries of a container until they are more than `most`."""
        found: Counter[Reason] = Counter()
        for due in ranges:
            suspicion = suspect(due.rule, self._step, node.definition.confirmed)
            if isinstance(due.path, DuePath):
                found += await self._count_by_index(node.id, due, suspicion)
            else:
                await self._count_by_record(node.id, due, suspicion, most, found)
            if found.total() > most:
                break
        return found.total(), max(found, key=lambda reason: found[reason], default="rule")

    async def _count_by_index(self, container: int, due: DueRange, suspicion: Suspicion) -> Counter[Reason]:
        """Count on a path by the last write: no deadline on it was past when its record was written."""
        known, step = suspicion.known, suspicion.step
        ends = [*([] if known is None else [known]), *([] if step is None else [step.after, step.upto])]
        counts = dict.fromkeys(ends, 0)
        for end in counts:
            bound = due.lane.highest_due(min(end, due.lane.deadline(due.upto)))
            if bound is not None:
                counts[end] = (await self._store.read(CountDue(container, due.path, (bound,))))[0]
        by_rule = 0 if known is None else counts[known]
        by_clock = 0 if step is None else max(0, counts[step.upto] - max(counts[step.after], by_rule))
        return Counter({"rule": by_rule, "clock": by_clock})

    async def _count_by_record(
        self, container: int, due: DueRange, suspicion: Suspicion, most: int, found: Counter[Reason]
    ) -> None:
        """Count on a path by dates, which may be past when they are written, until more than `most` are found."""
        after: tuple[int, int] | None = None
        while found.total() <= most and (
            page := await self._store.read(Due(container, due.path, due.upto, after, PAGE))
        ):
            for record in page:
                reason = suspicion.reason(due.deadline(path_place(record, due.path)[0]), record.written)
                if reason is not None:
                    found[reason] += 1
            after = path_place(page[-1], due.path)
            await asyncio.sleep(0)

    # --- held purges -----------------------------------------------------------------------------------------------------

    async def _hold(self, node: Node, held: HeldPurge) -> bool:
        """Hold the purge of a container durably. Return False if its rules are others by now."""

        def decide() -> Decision[bool]:
            row = yield from ask(LoadRow(node.id))
            if row is None:
                return Outcome((), True)
            there = self._nodes.of(row)
            if there.rules != node.rules or there.definition.lifecycle != node.definition.lifecycle:
                return Outcome((), False)
            changed = msgspec.structs.replace(there, definition=msgspec.structs.replace(there.definition, held=held))
            return Outcome((PutRow(row_of(changed)),), True)

        is_held = (await self._store.write(decide)).reply
        if is_held:
            log.error(
                "the purge of %s waits for confirmation: %d of %d records are due, and at least %d of these unexpectedly (%s);"
                " `mayfly guard confirm` purges them, and a change of the rules takes it back",
                node.name, held.due, held.records, held.unexpected, held.reason,
            )  # fmt: skip
            self.changed(node.id)
        return is_held

    async def confirm(self, container: int, token: str) -> HeldPurge:
        """Release the purge of a container. Conflict: none is held, or it is another one than the token names. NotFound."""

        def decide() -> Decision[HeldPurge]:
            row = yield from ask(LoadRow(container))
            if row is None:
                raise NotFound("there is no such container")
            node = self._nodes.of(row)
            held = node.definition.held
            if held is None:
                raise Conflict("no purge of this container waits for confirmation")
            if token != token_of(node):
                raise Conflict("the token names another held purge", hint="`mayfly guard list` shows the present one")
            definition = msgspec.structs.replace(node.definition, held=None, confirmed=confirmed)
            return Outcome((PutRow(row_of(msgspec.structs.replace(node, definition=definition))),), held)

        confirmed = await self._time.now()
        held = (await self._store.write(decide)).reply
        self.changed(container)
        return held


def token_of(node: Node) -> str:
    """Return the token of the purge that is held in a container: other rules, or another purge, have another one."""
    held = node.definition.held
    return "" if held is None else f"{node.id:x}-{node.definition.version:x}-{held.at:x}"
