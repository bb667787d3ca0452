"""The surveyor: reads states of containers from the store into the agenda."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from mayflydb.engine.catalog import Nodes, catalogue
from mayflydb.engine.locks import Locks
from mayflydb.engine.monitor import Monitor
from mayflydb.engine.timekeeper import Timekeeper
from mayflydb.engine.upcoming import read_state
from mayflydb.expiry.agenda import Agenda, ContainerState
from mayflydb.store.interface import HeldRecords, Store


class Surveyor:
    """Keeps an agenda in step with a store."""

    def __init__(
        self,
        store: Store,
        nodes: Nodes,
        time: Timekeeper,
        monitor: Monitor,
        locks: Locks,
        agenda: Agenda,
        forget: Callable[[int], None],
    ) -> None:
        """`forget`: called with a container that is found to be gone."""
        self._store = store
        self._nodes = nodes
        self._time = time
        self._monitor = monitor
        self._locks = locks
        self._agenda = agenda
        self._forget = forget
        self._demanded: set[int] = set()
        self._reading = asyncio.Lock()

    async def survey(self) -> None:
        """Have the agenda forget containers that are gone, and read all others at the next refresh."""
        self._agenda.replace_containers({row.id for row in await catalogue(self._store)})

    async def refresh(self) -> None:
        """Read the states of all unknown containers."""
        # One reader at a time: the agenda notes writes beside the one container that is being read.
        async with self._reading:
            while (container := self._agenda.begin_read()) is not None:
                try:
                    state = await self._read_state(container)
                except BaseException:
                    self._agenda.abandon_read()
                    raise
                if state is None:
                    self._forget(container)
                schedule = None if state is None else state.schedule
                self._agenda.finish_read(state, None if schedule is None else schedule.last(self._time.horizon()))

    async def _read_state(self, container: int) -> ContainerState | None:
        spared, held = self._locks.spared_records(container), await self._store.read(HeldRecords(container))
        locked = (*(spared or ()), *(held or ()))
        state = await read_state(
            self._store, self._nodes, container, self._monitor.schedule, container in self._demanded, locked
        )
        if state is not None and (spared is None or held is None):
            # Too many records are locked to leave them out, so nothing is purged. A release of locks on this node causes
            # another read; with other nodes, the next survey does.
            return msgspec.structs.replace(state, upcoming=None, is_locked=True)
        return state

    @contextmanager
    def ignore_pause(self, container: int) -> Iterator[None]:
        """Read the state of a container as if it were not paused."""
        self._demanded.add(container)
        self._agenda.mark_unknown(container)
        try:
            yield
        finally:
            self._demanded.discard(container)
            self._agenda.mark_unknown(container)
