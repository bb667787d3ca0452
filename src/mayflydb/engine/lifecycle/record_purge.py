"""A purge record by record, for containers in which something happens to each record that expires."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence, Set
from typing import Any, Final

import msgspec

from mayflydb.engine.catalog import Node, Nodes
from mayflydb.engine.lifecycle.cascades import ChildRemoval
from mayflydb.engine.lifecycle.references import References
from mayflydb.engine.lifecycle.rolling_up import RollUps
from mayflydb.engine.publishing import Publications
from mayflydb.engine.transactions import WriteTransaction
from mayflydb.expiry.deadline import earliest_expiry
from mayflydb.expiry.ranges import DueRange
from mayflydb.expiry.sweep import PurgeRequest
from mayflydb.model.instant import Instant
from mayflydb.model.order import Identity
from mayflydb.model.record import Record
from mayflydb.store.interface import Purged, Read


class Surroundings(msgspec.Struct, frozen=True):
    """The surroundings of a purge. `references`: of the front ends, by space. `spared`: as in `ChildRemoval`.

    `latest`: the latest instant that a client may have read; versions that are kept end no earlier. `roll_ups`: writes the
    aggregates of what expires; None: what is to be rolled up stays.
    `publications`: publishes what expires; None: what is to be published stays.
    """

    references: Mapping[str, Callable[[], References]] = {}
    spared: Mapping[int, Set[Identity]] = {}
    latest: Instant = 0
    roll_ups: RollUps | None = None
    publications: Publications | None = None


ALONE: Final = Surroundings()


class PurgedRecords(msgspec.Struct, frozen=True):
    """The result of a purge. `purged`: for each range. `removed`: all removed records, by container."""

    purged: tuple[Purged, ...]
    removed: Mapping[int, Sequence[Record]]


def begin_purge(nodes: Nodes, node: Node, request: PurgeRequest, surroundings: Surroundings) -> WriteTransaction | None:
    """Begin the transaction of a purge; None: what expires has to be rolled up or
    published, and cannot be."""
    lifecycle, roll_ups = node.definition.lifecycle, surroundings.roll_ups
    if node.definition.publisher is not None and (
        surroundings.publications is None or not surroundings.publications.can_publish(node)
    ):
        return None
    if lifecycle.roll_up is not None and roll_ups is None:
        return None
    # Children may be rolled up, too, by their own container.
    if roll_ups is not None and (lifecycle.roll_up is not None or lifecycle.cascade):
        return roll_ups.begin(request.now, surroundings.latest)
    return WriteTransaction(nodes, request.now, latest=surroundings.latest)


def expire_each(
    nodes: Nodes,
    transaction: WriteTransaction,
    node: Node,
    request: PurgeRequest,
    due: Sequence[tuple[DueRange, Sequence[Record]]],
    limit: int,
    surroundings: Surroundings,
) -> Generator[Read[Any], Any, PurgedRecords]:
    """Remove the first due records of each range with what belongs to them, in a transaction.

    `limit`: of the records of other containers.
    """
    space = yield from transaction.on(node.id)
    children = ChildRemoval(nodes, transaction, surroundings.references, surroundings.spared, limit, request.trigger)
    rules = [each.rule for each, _ in due]
    purged: list[Purged] = []
    for each, records in due:
        gone = []
        for record in records:
            # As in the store's own purge, a record that expires earlier by another rule is left to that rule.
            found = earliest_expiry(record, rules)
            if found is None or found[1] is not each.rule:
                continue
            if (yield from children.clear(node, record, found[0], each.rule.version)):
                yield from space.expire(record, rules, request.trigger)
                gone.append(record)
            elif children.is_spent:
                break
        purged.append(Purged(len(gone), sum(len(record.value) for record in gone)))
        children.removed[node.id] += gone
    if transaction.rolls_up and surroundings.roll_ups is not None and any(children.removed.values()):
        yield from surroundings.roll_ups.roll_up(transaction)
    if transaction.publishes and surroundings.publications is not None:
        yield from surroundings.publications.publish(transaction)
    return PurgedRecords(tuple(purged), children.removed)


def count_others(removed: Mapping[int, Sequence[Record]], container: int) -> Counter[int]:
    """Return the number of removed records of other containers."""
    return Counter({id: len(records) for id, records in removed.items() if id != container and records})
