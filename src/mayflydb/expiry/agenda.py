"""The agenda of purges: the next purge of each container, and the containers that are due. Pure; the engine feeds it."""

from __future__ import annotations

from collections.abc import Callable, Container, KeysView, Set
from typing import TypeAlias

import msgspec

from mayflydb.expiry.passes import Schedule, Upcoming
from mayflydb.expiry.sweep import PurgeRequest, Waiting
from mayflydb.model.instant import Instant

IsStopped: TypeAlias = Callable[[int], bool]
"""Returns whether purging of a container is switched off."""


class ContainerState(msgspec.Struct, frozen=True):
    """The state of one container, as read from the store.

    `upcoming`: the earliest deadline and purge; None: no record expires, or purging is paused. `schedule`: the container's
    own; None: it has none, or purging is paused. `stored_pass`: the instant of the last pass whose result is stored.
    `is_locked`: open transactions have locked so many records that nothing can be purged now.
    """

    upcoming: Upcoming | None
    schedule: Schedule | None = None
    stored_pass: Instant | None = None
    is_locked: bool = False


class Agenda:
    """The upcoming purge of each container, kept up to date from two sources: reads of the store, and notes of writes.

    A container is unknown while its state has to be read: after a sweep, after a change of its rules, and at the start. A
    write makes the upcoming purge of its container sooner at once, and never later: only a read finds the next record after a
    purge or a deletion.

    Methods with `last_pass` are given the latest pass of the container's own schedule up to the horizon; None: no pass yet.
    """

    def __init__(self) -> None:
        self._upcoming: dict[int, Upcoming] = {}
        self._schedules: dict[int, Schedule] = {}
        self._ended: dict[int, Instant] = {}
        self._postponed: dict[int, Instant] = {}
        self._unknown: set[int] = set()
        self._reading: int | None = None
        self._turns: dict[int, int] = {}
        self._last_turn = 0

    # --- writes ----------------------------------------------------------------------------------------------------

    def note_write(self, container: int, ahead: Upcoming) -> bool:
        """Take note of a written record's deadline and purge; True: the container's next purge is sooner than before."""
        if container == self._reading:
            # The read under way may have missed this record, so read again after it.
            self._unknown.add(container)
        known = self._upcoming.get(container)
        if known is not None and known.ends <= ahead.ends and known.purge <= ahead.purge:
            # Most writes end here, and every write comes here, so nothing is built before.
            return False
        self._upcoming[container] = ahead.sooner(known)
        return known is None or ahead.purge < known.purge

    def note_scheduled_write(
        self, container: int, ahead: Upcoming, schedule: Schedule, last_pass: Instant | None
    ) -> bool:
        """Take note of a write, as `note_write` does, in a container with its own schedule."""
        self._schedules[container] = schedule
        if last_pass is not None:
            # Only a known state tells that nothing is left of the pass. The new record tells nothing about older ones.
            if container not in self._unknown and container != self._reading:
                self._note_end_of_pass(container, self._upcoming.get(container), last_pass)
            ahead = self._defer(container, ahead, last_pass)
        return self.note_write(container, ahead)

    # --- passes ----------------------------------------------------------------------------------------------------

    def _note_end_of_pass(self, container: int, ahead: Upcoming | None, last_pass: Instant) -> None:
        # A pass has ended when no record is left that was due at its instant.
        if ahead is None or ahead.purge > last_pass:
            self._ended[container] = last_pass

    def _defer(self, container: int, ahead: Upcoming, last_pass: Instant) -> Upcoming:
        """Move a purge to the next pass if the last one has ended: a record written since then waits, even if it is due."""
        if ahead.purge <= last_pass and self._ended.get(container) == last_pass:
            return Upcoming(ahead.ends, self._schedules[container].next(last_pass + 1))
        return ahead

    def roll_back(self) -> None:
        """Forget ended passes and read all containers again: the clock was set back, and passes are counted from there."""
        self._ended.clear()
        self._unknown |= self._upcoming.keys()

    # --- states of containers --------------------------------------------------------------------------------------

    def mark_unknown(self, container: int) -> None:
        """Have the state of a container read again before the next choice."""
        self._unknown.add(container)

    def replace_containers(self, stored: Set[int]) -> None:
        """Forget containers that are not stored any more, and have the states of all others read."""
        for container in {*self._upcoming, *self._schedules, *self._ended, *self._postponed} - stored:
            self._forget(container)
        self._unknown |= stored

    def begin_read(self) -> int | None:
        """Return an unknown container, whose state the caller now reads; None: all are known. One read at a time."""
        if not self._unknown:
            return None
        self._reading = self._unknown.pop()
        return self._reading

    def abandon_read(self) -> None:
        """End a read that has failed: its container stays unknown, or its due records would be forgotten."""
        if self._reading is not None:
            self._unknown.add(self._reading)
        self._reading = None

    def finish_read(self, state: ContainerState | None, last_pass: Instant | None) -> None:
        """Take over the state that was read; None: the container is gone."""
        container, self._reading = self._reading, None
        assert container is not None
        if state is None:
            self._forget(container)
            return
        ahead = None if state.is_locked else self._apply_schedule(container, state, last_pass)
        if ahead is None:
            self._upcoming.pop(container, None)
            self._turns.pop(container, None)
        else:
            self._upcoming[container] = ahead

    def _forget(self, container: int) -> None:
        for kept in (self._upcoming, self._schedules, self._ended, self._postponed, self._turns):
            kept.pop(container, None)

    def _apply_schedule(self, container: int, state: ContainerState, last_pass: Instant | None) -> Upcoming | None:
        """Keep a container's own schedule; return its upcoming purge after the passes that have ended."""
        if state.schedule is None:
            self._schedules.pop(container, None)
            return state.upcoming
        self._schedules[container] = state.schedule
        if last_pass is None:
            return state.upcoming
        if state.stored_pass == last_pass:
            # A stored result means that its pass has ended, in this process or another. Without one, a new process cannot
            # know whether the pass has ended, and repeats it.
            self._ended[container] = last_pass
        self._note_end_of_pass(container, state.upcoming, last_pass)
        return None if state.upcoming is None else self._defer(container, state.upcoming, last_pass)

    @property
    def containers(self) -> KeysView[int]:
        """The containers in which records expire."""
        return self._upcoming.keys()

    def schedule(self, container: int) -> Schedule | None:
        """Return the own schedule of a container, as last read or noted; None: it has none."""
        return self._schedules.get(container)

    # --- postponements and turns -------------------------------------------------------------------------------------

    def postpone(self, container: int, until: Instant) -> None:
        """Purge nothing in a container before an instant, after a failure."""
        self._postponed[container] = until

    def resume(self, container: int) -> None:
        """End the postponement of a container."""
        self._postponed.pop(container, None)

    def is_postponed(self, container: int) -> bool:
        """Return whether the last purge of a container has failed, even if the wait is over."""
        return container in self._postponed

    def count_turn(self, container: int) -> None:
        """Take note that a container is swept now: others that wait come before its next sweep."""
        self._last_turn += 1
        self._turns[container] = self._last_turn

    # --- what is next ------------------------------------------------------------------------------------------------

    def backlog(
        self, request: PurgeRequest, is_stopped: IsStopped, excluded: Container[int] = ()
    ) -> dict[int, Waiting]:
        """Return the containers that have records to purge for a request, without those that are `excluded`."""
        return {
            container: Waiting(ahead.ends, self._turns.get(container, 0))
            for container, ahead in self._upcoming.items()
            if self._is_due(container, ahead, request)
            and container not in excluded
            and (request.override == "demanded" or not is_stopped(container))
        }

    def _is_due(self, container: int, ahead: Upcoming, request: PurgeRequest) -> bool:
        overrides = request.overrides_pass(container in self._schedules)
        # Inclusive: a record is due at the horizon if its deadline, or its pass, is the horizon itself.
        return (
            (ahead.ends if overrides else ahead.purge) <= request.horizon
            and (request.containers is None or container in request.containers)
            and self._postponed.get(container, 0) <= request.now
        )

    def next_deadline(self) -> Instant | None:
        """Return the earliest end, with its grace, of all records that may be purged; it may be in the past."""
        return min((ahead.ends for ahead in self._upcoming.values()), default=None)

    def next_purge(self, is_stopped: IsStopped) -> Instant | None:
        """Return the earliest instant at which there is something to purge; None: never."""
        purges = (
            max(ahead.purge, self._postponed.get(container, 0))
            for container, ahead in self._upcoming.items()
            if not is_stopped(container)
        )
        return min(purges, default=None)

    def next_pass(self, container: int) -> Instant | None:
        """Return the next purge of a container with its own schedule; None: it has none, or no record in it expires."""
        ahead = self._upcoming.get(container) if container in self._schedules else None
        return None if ahead is None else max(ahead.purge, self._postponed.get(container, 0))
