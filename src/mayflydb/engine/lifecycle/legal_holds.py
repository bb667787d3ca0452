"""Legal holds of one store: they are added and released, and what they preserve is read.

Holds stand in the catalogue row of their container, so that every transaction that removes a record sees them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Final

import msgspec

from mayflydb.engine.catalog import NODE_MISSING, Node, Nodes, catalogue
from mayflydb.engine.catalog_changes import open_container, refuse_removal
from mayflydb.engine.count_budget import Allowance
from mayflydb.engine.lifecycle.hold_counts import Matching, count_matching
from mayflydb.engine.lifecycle.hold_filters import HoldLanguage
from mayflydb.engine.lifecycle.hold_record import HoldLine, add_line, find_container, open_record, read_lines, take_name
from mayflydb.engine.lifecycle.hold_releases import HoldReleases, Now, find_hold, put_holds
from mayflydb.engine.lifecycle.preserved_versions import SPACE, PreservedVersion, decode_hold_version, page_of
from mayflydb.engine.lifecycle.segments import check_shredding
from mayflydb.expiry.legal_hold import MOST, LegalHold
from mayflydb.model.errors import Conflict, NotFound
from mayflydb.model.instant import Instant
from mayflydb.store.interface import Change, Count, Decision, LoadRow, Outcome, Store, ask

PAGE: Final = 128
"""Preserved versions that are read at once."""


class LegalHolds:
    """The holds of one store."""

    def __init__(self, store: Store, nodes: Nodes, now: Now, notify: Callable[[], None]) -> None:
        """`notify`: called after events were published."""
        self._store = store
        self._nodes = nodes
        self.releases = HoldReleases(store, nodes, now, notify)

    # --- reads -----------------------------------------------------------------------------------------------------------

    async def find(self, name: str) -> tuple[Node, LegalHold]:
        """Return the container of a hold, and the hold. NotFound."""
        container = await find_container(self._store, name)
        row = None if container is None else await self._store.read(LoadRow(container))
        if row is not None and (hold := find_hold(node := self._nodes.of(row), name)) is not None:
            return node, hold
        raise NotFound(f"there is no hold {name}")

    async def lines(self, after: int, limit: int) -> list[tuple[int, HoldLine]]:
        """Return (place, line) of the lines of the record behind a place, oldest first. An empty list is the end."""
        return await read_lines(self._store, after, limit)

    async def page(self, container: Node, after: int, limit: int) -> list[PreservedVersion]:
        """Return preserved versions of a container behind a place, in the order in which they left. An empty list is the end."""
        home = container.definition.preserved
        if home is None:
            return []
        return [decode_hold_version(each) for each in await self._store.read(page_of(home, after, limit))]

    async def read_versions(self, container: Node, hold: LegalHold) -> AsyncIterator[PreservedVersion]:
        """Yield the versions that a hold preserves; others run between pages."""
        after = 0
        while page := await self.page(container, after, PAGE):
            for version in page:
                if hold.number in version.matches.holds:
                    yield version
            after = page[-1].seq
            await asyncio.sleep(0)

    async def count_preserved(self, container: Node) -> int:
        """Return the number of versions that all holds on a container preserve together."""
        home = container.definition.preserved
        return 0 if home is None else (await self._store.read(Count(home))).records

    async def count_matching(
        self, container: Node, hold: LegalHold, language: HoldLanguage[Node], allowance: Allowance
    ) -> Matching:
        """Count the stored records that a hold would match now."""
        return await count_matching(self._store, container, hold, language, allowance)

    async def refuse_reset(self) -> None:
        """Raise Held if there is a hold on any container: everything stored is to be replaced."""
        for row in await catalogue(self._store):
            if holds := self._nodes.of(row).definition.holds:
                raise refuse_removal(row.name, holds[0].name)

    # --- additions and releases ------------------------------------------------------------------------------------------

    async def add(self, container: int, target: str, wanted: LegalHold) -> LegalHold:
        """Add a hold, in force from its commit on, and return it with its number. Its filter has been compiled before.

        Conflict: the name is taken, or the container has as many holds as it may. NotFound: the container is gone.
        """
        home = await open_record(self._store, wanted.added)
        return (await self._store.write(partial(self._add, home, container, target, wanted))).reply

    def _add(self, home: int, container: int, target: str, wanted: LegalHold) -> Decision[LegalHold]:
        row = yield from ask(LoadRow(container))
        if row is None:
            raise NotFound(NODE_MISSING)
        node = self._nodes.of(row)
        holds, preserved = node.definition.holds, node.definition.preserved
        if len(holds) >= MOST:
            raise Conflict(f"{target} has {MOST} holds", hint="one hold can have a condition with OR")
        changes: list[Change] = []
        if preserved is None:
            preserved = yield from open_container((SPACE, str(container)), wanted.added, changes)
        yield from take_name(home, wanted.name, container, wanted.added, changes)
        number = yield from add_line(
            home,
            HoldLine(
                "added",
                0,
                wanted.name,
                target,
                wanted.added,
                wanted.by,
                wanted.why,
                wanted.matter,
                wanted.where,
                wanted.versions,
            ),
            changes,
        )
        hold = msgspec.structs.replace(wanted, number=number)
        definition = msgspec.structs.replace(node.definition, holds=(*holds, hold))
        check_shredding(definition)
        changes.append(put_holds(node, definition.holds, preserved))
        return Outcome(tuple(changes), hold)

    async def release(self, name: str, target: str, why: str, by: str, now: Instant) -> None:
        """Release a hold, and begin to remove what no other hold preserves. NotFound; Conflict: it is released already."""
        home = await open_record(self._store, now)
        node, _ = await self.find(name)
        line = HoldLine("released", 0, name, target, now, by, why)
        await self._store.write(partial(self._begin_release, home, node.id, line))
        self.releases.start(node.id, name)

    def _begin_release(self, home: int, container: int, line: HoldLine) -> Decision[None]:
        row = yield from ask(LoadRow(container))
        node = None if row is None else self._nodes.of(row)
        hold = None if node is None else find_hold(node, line.name)
        if node is None or hold is None:
            raise NotFound(f"there is no hold {line.name}")
        if hold.released is not None:
            raise Conflict(f"the hold {line.name} is released, and what it preserved is being removed")
        changes: list[Change] = []
        yield from add_line(home, msgspec.structs.replace(line, hold=hold.number, matter=hold.matter), changes)
        released = msgspec.structs.replace(hold, released=line.at)
        holds = [released if each is hold else each for each in node.definition.holds]
        changes.append(put_holds(node, holds, node.definition.preserved))
        return Outcome(tuple(changes), None)
