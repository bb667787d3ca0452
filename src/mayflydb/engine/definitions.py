"""Creating, changing and dropping databases and containers: one catalogue row each, whatever their size."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeAlias, TypeVar

import msgspec

from mayflydb.engine.catalog import (
    NAME_TAKEN,
    NODE_MISSING,
    OWNER_MISSING,
    ROOT,
    Definition,
    Node,
    Nodes,
    Paused,
    row_of,
    with_rules_remembered,
)
from mayflydb.engine.catalog_changes import CatalogTransaction, below, check_not_held, drop_rows
from mayflydb.engine.lifecycle.retired_versions import change_lifecycle
from mayflydb.engine.lifecycle.segments import refuse_history
from mayflydb.engine.ordered_histories import NoteOf, begin_history, build_note, is_ordered, keep_histories
from mayflydb.engine.reads import Steps
from mayflydb.expiry.lifecycle import Lifecycle
from mayflydb.expiry.rules import Rule, with_notice, without_stamps
from mayflydb.model.errors import Conflict, NotFound, OwnerNotFound
from mayflydb.model.instant import Instant
from mayflydb.model.record import Kind, Version
from mayflydb.store.interface import (
    AddVersion,
    Allocate,
    Change,
    ChildRows,
    Decision,
    FindRow,
    LoadRow,
    NewId,
    Outcome,
    PutRow,
    Store,
    ask,
)

T = TypeVar("T")


Changes: TypeAlias = tuple[Change, ...]


def _none(before: Node, after: Definition) -> Steps[Changes]:
    return ()
    yield


class Definitions:
    """Changes of the catalogue. `changed` is called with a container whose deadlines may have moved."""

    def __init__(self, store: Store, nodes: Nodes, changed: Callable[[int], None]) -> None:
        self._store = store
        self._nodes = nodes
        self._changed = changed
        self.instant_of: Callable[[Instant], Instant] = lambda now: now
        """Returns the instant of a change that is decided now for a request of `now`: none of an earlier write is later."""

    async def transact(self, body: Callable[[CatalogTransaction], Steps[T]]) -> T:
        """Commit the catalogue changes of a body as a whole. The body is pure: it may run again."""

        def decide() -> Decision[T]:
            rows = CatalogTransaction(self._nodes)
            reply = yield from body(rows)
            return Outcome(tuple(rows.changes), reply)

        return (await self._store.write(decide)).reply

    async def space(self, name: str, now: Instant) -> Node:
        """Return the root of one protocol's names, created if it is missing."""

        def decide() -> Decision[Node]:
            found = yield from ask(FindRow(ROOT, name))
            if found is not None:
                return Outcome((), self._nodes.of(found))
            id = yield from ask(NewId())
            node = Node(id, ROOT, name, Definition({}, now))
            return Outcome((PutRow(row_of(node)),), node)

        return (await self._store.write(decide)).reply

    async def create(
        self, parent: int, name: str, definition: Definition, note_of: NoteOf | None = None, now: Instant = 0
    ) -> Node:
        """Create a database or container. Conflict if the name is taken, OwnerNotFound if the parent is gone.

        `note_of`: the first line of its history, at `now`, if its parent's histories apply to new nodes; None: it has no
        history.
        """

        def decide() -> Decision[Node]:
            above = yield from ask(LoadRow(parent))
            if above is None:
                raise OwnerNotFound(OWNER_MISSING)
            if (yield from ask(FindRow(parent, name))) is not None:
                raise Conflict(NAME_TAKEN)
            id = yield from ask(NewId())
            node = Node(id, parent, name, _distinct(definition))
            heritage = self._nodes.of(above)
            if note_of is not None and is_ordered(heritage):
                own = msgspec.structs.replace(
                    node.definition, history=heritage.definition.history, ordered=heritage.definition.ordered
                )
                node = msgspec.structs.replace(node, definition=own)
                return Outcome((yield from begin_history(node, note_of(node), now)), node)
            return Outcome((PutRow(row_of(node)),), node)

        return (await self._store.write(decide)).reply

    async def replace(self, id: int, change: Callable[[Node], Definition], now: Instant) -> Node:
        """Change the definition of a container, in force from its commit on. NotFound if the container is gone."""

        def decide() -> Decision[Node]:
            row = yield from ask(LoadRow(id))
            if row is None:
                raise NotFound(NODE_MISSING)
            before = self._nodes.of(row)
            after = msgspec.structs.replace(change(before), written=now, version=before.definition.version + 1)
            after = _release(before.definition.rules, _number_rules(before.definition.rules, after, now))
            node = with_rules_remembered(
                before, msgspec.structs.replace(before, definition=after), self.instant_of(now)
            )
            gap: tuple[AddVersion, ...] = ()
            # Earlier versions were not kept. A reader that begins before the gap is refused, not given the rest.
            if after.history and not before.definition.history:
                yield from refuse_history(id)
                lsn, _ = yield from ask(Allocate(id, seq=False))
                gap = (AddVersion(id, Version(Kind.GAP, lsn, now)),)
            return Outcome((PutRow(row_of(node)), *gap), node)

        node = (await self._store.write(decide)).reply
        self._changed(id)
        return node

    async def pause(self, id: int, paused: Paused | None, not_before: Instant | None = None) -> Node:
        """Pause purging, or expiry, of a container, or resume it; after a resume no record expires before `not_before`.

        Version and time of change stay, since the protocol's description stays. NotFound if the container is gone.
        """

        def change(definition: Definition) -> Definition:
            return msgspec.structs.replace(definition, paused=paused, rules=with_notice(definition.rules, not_before))

        return await self.adjust(id, change)

    async def adjust(
        self,
        id: int,
        change: Callable[[Definition], Definition],
        also: Callable[[Node, Definition], Steps[Changes]] = _none,
    ) -> Node:
        """Change what is no part of the protocol's description: version and time of change stay. NotFound if it is gone.

        `also`: returns further changes of the same transaction, from the node before and the definition after.
        """

        def decide() -> Decision[Node]:
            row = yield from ask(LoadRow(id))
            if row is None:
                raise NotFound(NODE_MISSING)
            before = self._nodes.of(row)
            node = msgspec.structs.replace(before, definition=change(before.definition))
            node = with_rules_remembered(before, node, self.instant_of(0))
            return Outcome((PutRow(row_of(node)),), node)

        node = (await self._store.write(decide)).reply
        self._changed(id)
        return node

    async def change_lifecycle(self, id: int, change: Callable[[Lifecycle], Lifecycle], now: Instant) -> Node:
        """Change the lifecycle settings of a container: version and time of change stay. NotFound if it is gone."""

        def decide() -> Decision[Node]:
            return (yield from change_lifecycle(self._nodes, id, change, self.instant_of(now)))

        node = (await self._store.write(decide)).reply
        self._changed(id)
        return node

    async def move(
        self,
        id: int,
        parent: int,
        name: str,
        replacing: int | None = None,
        note_of: NoteOf | None = None,
        now: Instant = 0,
    ) -> Node:
        """Change a node's name, and possibly its parent; `replacing`: drop the node that has the name now.

        Conflict if another node has the name, Held if the dropped one is under a hold, NotFound if the node is gone,
        OwnerNotFound if the parent is. `note_of`: the lines that the ordered histories of both nodes get, at `now`.
        """

        def decide() -> Decision[tuple[Node, list[int]]]:
            row = yield from ask(LoadRow(id))
            if row is None:
                raise NotFound(NODE_MISSING)
            if (yield from ask(LoadRow(parent))) is None:
                raise OwnerNotFound(OWNER_MISSING)
            other = yield from ask(FindRow(parent, name))
            if other is not None and other.id not in (id, replacing):
                raise Conflict(NAME_TAKEN)
            gone = [] if other is None or other.id == id else (yield from below(other.id))
            yield from check_not_held(self._nodes, gone)
            before = self._nodes.of(row)
            node = msgspec.structs.replace(before, parent=parent, name=name)
            notes: tuple[Change, ...] = ()
            if note_of is not None:
                notes = yield from keep_histories(self._nodes, gone, note_of, now)
                if is_ordered(before):
                    line = yield from build_note(before, note_of(before), now, {})
                    node = yield from _with_former_name(before, node, line.version.lsn)
                    notes = (*notes, line)
            gone, drops = yield from drop_rows(self._nodes, gone)
            # Changes apply in order: the drop frees the name that the put takes.
            return Outcome((*notes, *drops, PutRow(row_of(node))), (node, gone))

        node, gone = (await self._store.write(decide)).reply
        for each in (id, *gone):
            self._changed(each)
        return node

    async def drop(
        self,
        id: int,
        only_empty: bool = False,
        note_of: NoteOf | None = None,
        now: Instant = 0,
        unless: Callable[[Node], bool] = lambda node: False,
    ) -> None:
        """Remove a node, all nodes below it, and their companions; its records are unreachable at once. NotFound if the node
        is gone, Held if one of them is under a hold.

        `only_empty`: keep a node that has nodes below it, an ordered history, or for which `unless` is true. `note_of`: the
        last line, at `now`, of each ordered history that ends; a history is kept as long as its lines.
        """

        def decide() -> Decision[list[int]]:
            row = yield from ask(LoadRow(id))
            if row is None:
                raise NotFound(NODE_MISSING)
            node = self._nodes.of(row)
            if only_empty and (is_ordered(node) or unless(node) or (yield from ask(ChildRows(id)))):
                return Outcome((), [])
            gone = yield from below(id)
            yield from check_not_held(self._nodes, gone)
            notes: tuple[Change, ...] = ()
            if note_of is not None:
                notes = yield from keep_histories(self._nodes, gone, note_of, now)
            gone, drops = yield from drop_rows(self._nodes, gone)
            return Outcome((*notes, *drops), gone)

        # Each by itself: what this process knows of the containers below goes with them.
        for each in (await self._store.write(decide)).reply:
            self._changed(each)


def _with_former_name(before: Node, after: Node, lsn: int) -> Generator[Any, Any, Node]:
    """Return the node with its old name recorded as valid up to this lsn."""
    parent = yield from ask(LoadRow(before.parent))
    former = (*before.definition.former, (lsn, "" if parent is None else parent.name, before.name))
    return msgspec.structs.replace(after, definition=msgspec.structs.replace(after.definition, former=former))


def _number_rules(before: tuple[Rule, ...], after: Definition, now: Instant | None) -> Definition:
    """Give new rules the version of the definition that brought them; an unchanged rule keeps its version and its
    `not_before`.

    Events name rules by version, so each of several new rules has its own; the highest is the definition's. `now`: the instant of
    the change; None: the container is new.
    """
    known = {without_stamps(rule): rule for rule in before}
    version = after.version - 1
    rules: list[Rule] = []
    for rule in after.rules:
        kept = known.get(without_stamps(rule))
        if kept is None:
            version += 1
            kept = msgspec.structs.replace(rule, version=version, since=now)
        rules.append(kept)
    return msgspec.structs.replace(after, rules=tuple(rules), version=max(version, after.version))


def _release(before: tuple[Rule, ...], after: Definition) -> Definition:
    """Release a purge that the guard holds if the rules were changed: it looks again, at what the new ones expire."""
    return after if after.rules == before else msgspec.structs.replace(after, held=None)


def _distinct(definition: Definition) -> Definition:
    """Number the rules of a new definition if there are several."""
    return _number_rules((), definition, None) if len(definition.rules) > 1 else definition
