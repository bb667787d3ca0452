"""Rolling up: aggregates of expired records are written into another container, by the transaction that removes them.

So each record is in its aggregate exactly once: the commit that takes the record away brings the aggregate. The records of one
transaction are grouped first, and each aggregate is read and written once, by a write like those of clients. Front ends provide a
`RollUpPlan` of each roll-up, which reads records and writes aggregates in the terms of its protocol.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

import msgspec

from mayflydb.engine.catalog import ROOT, Node, Nodes, row_of
from mayflydb.engine.locks import Locks
from mayflydb.engine.transactions import WriteTransaction
from mayflydb.engine.workspace import Workspace
from mayflydb.expiry.lifecycle import HeldRollUp
from mayflydb.expiry.roll_up import Arithmetic, GroupTallies, GroupTally, Reading, RollUp
from mayflydb.model.errors import MayflyError, OwnerNotFound, Unavailable
from mayflydb.model.instant import Instant
from mayflydb.model.record import Record
from mayflydb.store.interface import Decision, FindRow, LoadRow, Outcome, PutRow, Read, Store, ask

log = logging.getLogger("mayflydb.engine.reaper")

MAX_PLANS: Final = 1000
"""Plans that are kept. All of them go at once."""

Steps = Generator[Read[Any], Any, None]


class RollUpPlan(Protocol):
    """The roll-up of one container's records into another, as both are defined now."""

    @property
    def arithmetic(self) -> Arithmetic:
        """The arithmetic of the protocol."""

    def read(self, record: Record, deadline: Instant) -> Reading:
        """Return the group and the numbers of a record. It never refuses a record."""

    def write(self, space: Workspace, tally: GroupTally) -> Steps:
        """Add a tally to the record of its group. Errors: those of a client's write."""


Planner = Callable[[RollUp, Node, Node], RollUpPlan]
"""Makes the plan of a roll-up, of the container of records and that of aggregates. BadRequest: they do not fit together."""


class RollUpHeld(Unavailable):
    """Expired records cannot be rolled up now, so none of them is removed. Details: `container`, and `reason` in words."""


class RollUps:
    """The roll-ups of one engine. `planners`: by the name of the front end's space; empty until the front ends are there."""

    def __init__(self, store: Store, nodes: Nodes, locks: Locks) -> None:
        self.planners: Mapping[str, Planner] = {}
        self.changed: Callable[[int], None] = lambda container: None
        """Called with a container whose roll-up is held."""
        self.instant_of_writes: Callable[[Instant], Instant] = lambda now: now
        """Returns the instant of a write that is decided now."""
        self._store = store
        self._nodes = nodes
        self._locks = locks
        self._plans: dict[tuple[int, int], tuple[Node, Node, RollUpPlan]] = {}

    def begin(self, now: Instant, latest: Instant = 0) -> WriteTransaction:
        """Begin the transaction of a purge, which writes aggregates like a client. `latest`: as in `WriteTransaction`."""
        return WriteTransaction(self._nodes, self.instant_of_writes(now), self._locks, latest=latest)

    def roll_up(self, transaction: WriteTransaction) -> Steps:
        """Write the aggregates of all records that have expired in a transaction.

        Errors: RollUpHeld; Locked if an open transaction has locked an aggregate.
        """
        # An aggregate that makes room for a new one has expired, too, and may be rolled up in its turn.
        while expired := transaction.take_expired():
            for node, records in expired:
                yield from self._roll_up(transaction, node, records)

    def _roll_up(self, transaction: WriteTransaction, node: Node, records: Sequence[tuple[Record, Instant]]) -> Steps:
        roll_up = node.definition.lifecycle.roll_up
        assert roll_up is not None
        try:
            space = yield from self._open(transaction, roll_up)
            plan = self._plan(roll_up, node, space.node)
            tallies = GroupTallies(roll_up, plan.arithmetic)
            for record, deadline in records:
                tallies.add(plan.read(record, deadline))
            for tally in tallies:
                yield from plan.write(space, tally)
        except RollUpHeld:
            raise
        except MayflyError as error:
            # What passes by itself is no reason to hold anything.
            if error.retryable:
                raise
            text = f"an expired record cannot make room until it is rolled up, which fails: {error.message}"
            raise RollUpHeld(text, container=node.id, reason=error.message) from error

    def _open(self, transaction: WriteTransaction, roll_up: RollUp) -> Generator[Read[Any], Any, Workspace]:
        """Return the workspace of the container of aggregates: by its id, or by its names if it was created anew."""
        try:
            return (yield from transaction.on(roll_up.into))
        except OwnerNotFound:
            id = ROOT
            for name in roll_up.names:
                row = yield from ask(FindRow(id, name))
                if row is None:
                    _, database, container = roll_up.names
                    raise OwnerNotFound(f"there is no {container} in {database} into which to roll up") from None
                id = row.id
            return (yield from transaction.on(id))

    def _plan(self, roll_up: RollUp, source: Node, target: Node) -> RollUpPlan:
        key = (source.id, target.id)
        known = self._plans.get(key)
        if known is not None and known[0] is source and known[1] is target:
            return known[2]
        planner = self.planners.get(roll_up.names[0])
        if planner is None:
            raise Unavailable("the front ends are not there yet")
        plan = planner(roll_up, source, target)
        if len(self._plans) >= MAX_PLANS:
            self._plans.clear()
        self._plans[key] = (source, target, plan)
        return plan

    # --- roll-ups that are held --------------------------------------------------------------------------------------------

    async def hold(self, failure: RollUpHeld, now: Instant) -> None:
        """Note in the catalogue, and once in the log, that a container is not purged because its roll-up fails."""
        container, reason = failure.detail["container"], failure.detail["reason"]
        assert isinstance(container, int)
        assert isinstance(reason, str)
        held = (await self._store.write(partial(self._hold, container, HeldRollUp(now, reason)))).reply
        if held is not None:
            log.error(
                "the purge of %s waits, because its roll-up fails: %s; its expired records stay, and the purge goes on by itself"
                " when that is mended",
                held, reason,
            )  # fmt: skip
            self.changed(container)

    def _hold(self, container: int, held: HeldRollUp) -> Decision[str | None]:
        row = yield from ask(LoadRow(container))
        if row is None:
            return Outcome((), None)
        node = self._nodes.of(row)
        before = node.definition.held_roll_up
        if node.definition.lifecycle.roll_up is None or (before is not None and before.reason == held.reason):
            return Outcome((), None)
        return Outcome((PutRow(row_of(with_held(node, held))),), node.name)


def with_held(node: Node, held: HeldRollUp | None) -> Node:
    """Return a container with this in the place of what its roll-up waits for."""
    return msgspec.structs.replace(node, definition=msgspec.structs.replace(node.definition, held_roll_up=held))
