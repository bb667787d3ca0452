"""Cascades: the records that name an expired record leave before it, so that none is ever without it.

A sweep removes children first, up to its limit. A record goes only when it has no child left, in the transaction that has looked.
So a cascade over any number of children needs no transaction of that size, and ends in the same state wherever the process ends.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Mapping, Sequence, Set
from typing import Any, Final

from mayflydb.engine.catalog import Node, Nodes
from mayflydb.engine.lifecycle.archive_ledger import room_of
from mayflydb.engine.lifecycle.references import References
from mayflydb.engine.transactions import WriteTransaction
from mayflydb.expiry.lifecycle import Cascade
from mayflydb.model.instant import Instant
from mayflydb.model.order import Identity
from mayflydb.model.record import Record
from mayflydb.store.interface import HeldRecords, LoadRow, Read, ScanIndex, ask

PAGE: Final = 64
"""Children that one read returns."""

DEEPEST: Final = 8
"""Containers on the longest way from a record to its children's children."""


class ChildRemoval:
    """Removes the children of expired records in one transaction.

    `removed`: the removed children, by container.
    """

    def __init__(
        self,
        nodes: Nodes,
        transaction: WriteTransaction,
        references: Mapping[str, Callable[[], References]],
        spared: Mapping[int, Set[Identity]],
        limit: int,
        how: str,
    ) -> None:
        """`spared`: by container, the records that open transactions have locked; a container without an entry stays as it is.
        `limit`: of children. `how`: the trigger, as in events.
        """
        self.removed: defaultdict[int, list[Record]] = defaultdict(list)
        self._nodes = nodes
        self._transaction = transaction
        self._references = references
        self._spared = dict(spared)
        self._held: dict[int, Set[Identity]] = {}
        self._left = limit
        self._how = how

    @property
    def is_spent(self) -> bool:
        """Return whether no further child can be removed in this transaction."""
        return self._left <= 0

    def clear(self, parent: Node, record: Record, deadline: Instant, rule: int) -> Generator[Read[Any], Any, bool]:
        """Remove the children of a record that expired at a deadline by a rule, theirs first; True: none is left."""
        is_clear = True
        for cascade in parent.definition.lifecycle.cascade:
            is_clear &= yield from self._clear_one(parent, record, cascade, deadline, rule)
        return is_clear

    def _clear_one(
        self, parent: Node, record: Record, cascade: Cascade, deadline: Instant, rule: int
    ) -> Generator[Read[Any], Any, bool]:
        row = yield from ask(LoadRow(cascade.container))
        # A container that was dropped has no children any more.
        if row is None:
            return True
        child = self._nodes.of(row)
        index = next((each for each in child.definition.indexes if each.number == cascade.index), None)
        refer = self._references.get(cascade.space)
        if refer is None or index is None or index.state != "ready" or not self._may_remove(child):
            return False
        # An archive of the children that accepts no more keeps their record, too.
        if not (yield from room_of(child.definition, 1)):
            return False
        children = refer().find_children(parent, record, child, index)
        if children is None:
            return True
        locked = yield from self._find_locked(child.id)
        if locked is None:
            return False
        space = yield from self._transaction.on(child.id)
        is_clear, after = True, None
        while page := (yield from ask(ScanIndex(child.id, index.number, children.within, False, after, PAGE))):
            for _, found in page:
                if space.current_version(found) is None or not children.is_child(found):
                    continue
                if self.is_spent:
                    return False
                if (found.partition, found.key) in locked or not (yield from self.clear(child, found, deadline, rule)):
                    is_clear = False
                    continue
                yield from space.cascade(found, deadline, rule, self._how)
                self.removed[child.id].append(found)
                self._left -= 1
            after = (page[-1][0], page[-1][1].seq)
        return is_clear

    def _may_remove(self, child: Node) -> bool:
        """Return whether the purges of a container are neither paused nor held, and the filters of its legal holds known."""
        definition = child.definition
        if definition.holds and not self._nodes.hold_filters.knows(definition.holds):
            return False
        return definition.paused is None and definition.held is None and definition.undelete is None

    def _find_locked(self, container: int) -> Generator[Read[Any], Any, Set[Identity] | None]:
        """Return the locked records of a container; None: they are not known."""
        spared = self._spared.get(container)
        if spared is None:
            return None
        if container not in self._held:
            held = yield from ask(HeldRecords(container, purging=True))
            if held is None:
                return None
            self._held[container] = spared | set(held)
        return self._held[container]


def containers_below(nodes: Nodes, container: int) -> Sequence[int]:
    """Return the containers that the cascades of a container lead to, as far as their rows were read lately."""
    found: dict[int, None] = {}
    ways = [container]
    while ways:
        node = nodes.recall(ways.pop())
        for cascade in () if node is None else node.definition.lifecycle.cascade:
            if cascade.container not in found:
                found[cascade.container] = None
                ways.append(cascade.container)
    return tuple(found)
