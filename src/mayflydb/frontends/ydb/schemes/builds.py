"""Background builds after a change of a table: indexes and date slots are built or removed, across restarts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from mayflydb.engine.catalog import Definition, Node
from mayflydb.engine.engine import Engine
from mayflydb.frontends.ydb.rows import RowLayout, index_keys_getter
from mayflydb.frontends.ydb.schemes.lookup import Lookup
from mayflydb.frontends.ydb.tables import TableView
from mayflydb.model.errors import MayflyError, Unavailable
from mayflydb.model.instant import Instant
from mayflydb.model.record import Record

log = logging.getLogger(__name__)


def slot_date_getter(view: TableView) -> Callable[[Record], Instant | None]:
    """Return the function that gives the date in the slot of a table's TTL column."""
    layout, definition = RowLayout(view), view.node.definition

    def get_date(record: Record) -> Instant | None:
        dates = layout.dates(definition, layout.decode(record.value))
        return dates[0][1] if dates else None

    return get_date


class Builds:
    """The builds of one server. Each table has at most one task, which ends when nothing is left to build."""

    def __init__(self, engine: Engine, lookup: Lookup) -> None:
        self._engine = engine
        self._lookup = lookup
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._recheck: set[int] = set()

    def start(self, view: TableView) -> None:
        """Start a task for the unfinished indexes and slots of a table, if there are any."""
        id = view.node.id
        if not _needs_builds(view.node):
            return
        if id in self._tasks:
            # The running task may have made its last check before this change, so it has to check again.
            self._recheck.add(id)
        else:
            self._tasks[id] = asyncio.create_task(self._run_task(id, view.table.path), name=f"table {id}")

    async def wait_until_complete(self, view: TableView) -> None:
        """Wait until the indexes of a table are complete. Unavailable if a build has failed."""
        await self.wait(view)
        node = await self._engine.node_by_id(view.node.id)
        if node is not None and any(index.state == "building" for index in node.definition.indexes):
            raise Unavailable(f"An index of {view.table.path} is not complete")

    async def wait(self, view: TableView) -> None:
        """Wait until the task of a table has ended, successfully or not."""
        while (task := self._tasks.get(view.node.id)) is not None:
            await asyncio.wait([task])

    async def close(self) -> None:
        """Stop all tasks. The builds resume at the next start."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            # `wait` collects the cancelled tasks without raising.
            await asyncio.wait(tasks)

    async def _run_task(self, id: int, path: str) -> None:
        try:
            recheck = True
            while recheck:
                # Cleared before the work: a change during the work sets the mark again. No `await` stands between the
                # last check and the removal of the task below, so no change slips through there.
                self._recheck.discard(id)
                await self._build_all(id, path)
                recheck = id in self._recheck
        except MayflyError as error:
            # The next change of the table, or the next start, resumes the build.
            log.warning("indexes or TTL dates of table %d are not complete: %s", id, error)
        finally:
            self._recheck.discard(id)
            self._tasks.pop(id, None)

    async def _build_all(self, id: int, path: str) -> None:
        while (node := await self._engine.node_by_id(id)) is not None and _needs_builds(node):
            # The node is read in each round, since a change may have added indexes or dropped slots meanwhile.
            view = self._lookup.view(node, path)
            for slot in node.definition.slots:
                if slot.state == "dropped":
                    await self._engine.dates.remove(id, slot.number)
                elif slot.state == "building":
                    await self._engine.dates.build(id, slot.number, slot_date_getter(view))
            if any(index.state != "ready" for index in node.definition.indexes):
                self._engine.indexes.resume(id, index_keys_getter(view))
                await self._engine.indexes.wait_for(id)


def _needs_builds(node: Node) -> bool:
    return any(state != "ready" for state in _states(node.definition))


def _states(definition: Definition) -> list[str]:
    return [*(each.state for each in definition.indexes), *(each.state for each in definition.slots)]
