"""Undeletes: expired records that are still stored come back, with the same value, under a new life.

An undelete is first stored in the catalogue row of its container. From then on nothing is purged there, and the records come back
in batches. So it is done as a whole even if the process ends in between: the next start goes on with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Final, TypeAlias

import msgspec

from mayflydb.engine.catalog import Definition, Node, Nodes, catalogue
from mayflydb.engine.definitions import Definitions
from mayflydb.engine.expiry_counts import path_place
from mayflydb.engine.transactions import Body, WriteTransaction
from mayflydb.expiry.undelete import Search, Undelete, check_life, is_selected, renew_dates, searches
from mayflydb.model.errors import Conflict, MayflyError, NotFound
from mayflydb.model.instant import Instant
from mayflydb.model.order import Identity
from mayflydb.store.interface import Due, Get, LoadRow, Read, Store, ask

log = logging.getLogger(__name__)

BATCH_SIZE: Final = 128
"""Records that one transaction looks at."""

INLINE_BATCH_SIZE: Final = 32
"""The same for a store that works on the event loop itself."""

PAUSE_SECONDS: Final = 1.0
"""The wait after an error of the store, before the undelete goes on."""


Transact: TypeAlias = Callable[[Body[Any], Instant], Awaitable[Any]]
"""Decides and commits the changes of a body at an instant."""

Now: TypeAlias = Callable[[], Awaitable[Instant]]


class Progress(msgspec.Struct, frozen=True):
    """The undelete that is under way in a container, or was the last one in this process. `undeleted`: records so far."""

    container: int
    wanted: Undelete
    undeleted: int
    is_done: bool


class _Step(msgspec.Struct, frozen=True):
    """The result of one batch. `after`: the place to go on from; None: the search has ended."""

    undeleted: int
    after: tuple[int, int] | None


class Undeletes:
    """The undeletes of one store."""

    def __init__(self, store: Store, nodes: Nodes, definitions: Definitions, transact: Transact, now: Now) -> None:
        self._store = store
        self._nodes = nodes
        self._definitions = definitions
        self._transact = transact
        self._now = now
        self._batch = BATCH_SIZE if store.durable else INLINE_BATCH_SIZE
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._progress: dict[int, Progress] = {}
        self._ending = asyncio.Event()

    async def undelete_record(self, container: int, identity: Identity, life: int | None) -> None:
        """Bring one record back. NotFound: it is not stored any more; Conflict: it has not expired; BadRequest: see
        `check_life`.
        """

        def body(transaction: WriteTransaction) -> Generator[Read[Any], Any, None]:
            space = yield from transaction.on(container)
            record = yield from ask(Get(container, *identity))
            if record is None:
                raise NotFound("there is no such record", hint="purged records are not kept")
            check_life(space.rules, life)
            if not is_selected(record, space.rules, Undelete(transaction.now)):
                raise Conflict("the record is not hidden: there is nothing to undelete")
            yield from space.undelete(record, renew_dates(record, space.rules, transaction.now, life))

        await self._transact(body, await self._now())

    async def begin(self, container: int, wanted: Undelete) -> None:
        """Store an undelete and begin it. Conflict: another one is under way. NotFound; BadRequest: see `check_life`."""

        def change(definition: Definition) -> Definition:
            if definition.undelete is not None:
                raise Conflict("an undelete of this container is under way")
            check_life(definition.rules, wanted.life)
            return msgspec.structs.replace(definition, undelete=wanted)

        await self._definitions.adjust(container, change)
        self._start(container, wanted)

    async def resume(self) -> None:
        """Go on with the undeletes that are stored."""
        for row in await catalogue(self._store):
            wanted = self._nodes.of(row).definition.undelete
            if wanted is not None and row.id not in self._tasks:
                self._start(row.id, wanted)

    async def wait(self, container: int, seconds: float | None) -> None:
        """Wait for the end of this process's undelete in a container, for at most so long; None: however long it takes."""
        task = self._tasks.get(container)
        if task is not None:
            await asyncio.wait([task], timeout=seconds)

    def progress(self, container: int) -> Progress | None:
        """Return the progress of the last undelete of a container in this process; None: there was none."""
        return self._progress.get(container)

    async def close(self) -> None:
        """Stop all undeletes as they are; the next start goes on with them."""
        self._ending.set()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # --- the work ----------------------------------------------------------------------------------------------------

    def _start(self, container: int, wanted: Undelete) -> None:
        self._progress[container] = Progress(container, wanted, 0, False)
        task = asyncio.create_task(self._run(container, wanted), name=f"undelete in {container}")
        self._tasks[container] = task
        task.add_done_callback(lambda _: self._tasks.pop(container, None))

    async def _run(self, container: int, wanted: Undelete) -> None:
        while True:
            try:
                row = await self._store.read(LoadRow(container))
                if row is None or self._nodes.of(row).definition.undelete != wanted:
                    break
                if await self._search_all(self._nodes.of(row), wanted):
                    await self._definitions.adjust(container, _without_undelete)
                    break
            except MayflyError as error:
                log.warning("the undelete in container %d goes on in a second: %s", container, error)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(PAUSE_SECONDS):
                        await self._ending.wait()
        known = self._progress[container]
        self._progress[container] = msgspec.structs.replace(known, is_done=True)
        log.info("the undelete in container %d has ended, with %d records", container, known.undeleted)

    async def _search_all(self, node: Node, wanted: Undelete) -> bool:
        """Bring all selected records back; False: the rules have changed, and all searches begin again."""
        for search in searches(node.rules, wanted):
            after = search.after
            while True:
                step = await self._take_batch(node, wanted, search, after)
                if step is None:
                    return False
                known = self._progress[node.id]
                self._progress[node.id] = msgspec.structs.replace(known, undeleted=known.undeleted + step.undeleted)
                if step.after is None:
                    break
                after = step.after
                await asyncio.sleep(0)
        return True

    async def _take_batch(
        self, node: Node, wanted: Undelete, search: Search, after: tuple[int, int] | None
    ) -> _Step | None:
        """Undelete the selected records of one page, in one transaction. None: the rules are others, or it has ended."""

        def body(transaction: WriteTransaction) -> Generator[Read[Any], Any, _Step | None]:
            space = yield from transaction.on(node.id)
            row = yield from ask(LoadRow(node.id))
            there = None if row is None else self._nodes.of(row)
            if there is None or there.rules != node.rules or there.definition.undelete != wanted:
                return None
            page = yield from ask(Due(node.id, search.path, search.upto, after, self._batch))
            found = [record for record in page if is_selected(record, node.rules, wanted)]
            for record in found:
                yield from space.undelete(record, renew_dates(record, node.rules, transaction.now, wanted.life))
            return _Step(len(found), path_place(page[-1], search.path) if page else None)

        step: _Step | None = await self._transact(body, await self._now())
        return step


def _without_undelete(definition: Definition) -> Definition:
    return msgspec.structs.replace(definition, undelete=None)
