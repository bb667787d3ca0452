"""Transactions of scripts, from the first attempt to the commit: who was overtaken by somebody else's write runs again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final, Generic, TypeVar

import msgspec

from mayflydb.engine import budget as prices
from mayflydb.engine.commands import Written
from mayflydb.engine.engine import BatchRefused
from mayflydb.engine.locks import Holder
from mayflydb.frontends.cosmos.calls import Call
from mayflydb.frontends.cosmos.scripting.collection import Collection
from mayflydb.frontends.cosmos.scripting.sandbox import Budget
from mayflydb.frontends.cosmos.scripting.threads import Remote
from mayflydb.frontends.cosmos.scripting.transaction import Transaction
from mayflydb.frontends.cosmos.views import ContainerView
from mayflydb.model.errors import MayflyError, WriteConflict

T = TypeVar("T")

ATTEMPTS: Final = 10
OVERTAKEN: Final = (
    "Conflicting request to resource has been attempted. Retry to avoid conflicts: others have changed again and again what the "
    "script reads."
)


class Stage(msgspec.Struct, frozen=True):
    """Where scripts of one attempt run: their transaction, their collection, and the time of the request."""

    transaction: Transaction
    collection: Collection
    budget: Budget


class Committed(msgspec.Struct, Generic[T], frozen=True):
    """What a transaction came to: the `result` of its work, and what its commands have `written`."""

    result: T
    stage: Stage
    written: list[Written]

    def final(self, text: bytes) -> bytes:
        """A text of the transaction with the rids and etags that were committed."""
        return self.stage.transaction.final(text, self.written)


Work = Callable[[Stage], Awaitable[T]]


async def transact(call: Call, partition: bytes, work: Work[T]) -> Committed[T]:
    """Do the work off the event loop, and commit all that it wrote, or nothing. WriteConflict when others were always first.

    Errors say in their detail what the last attempt is to be charged (`charge`).
    """
    budget = Budget(call.account.scripts)
    now = call.now
    stages: list[Stage] = []
    try:
        for _ in range(ATTEMPTS):
            view = await call.owner()
            holder = Holder(now, exclusive=False)
            try:
                attempt = _attempt(call, view, partition, holder, budget, work, stages.append)
                result = await call.threads.run(attempt, budget)
                written = await _commit(call, stages[-1].transaction)
            finally:
                call.engine.locks.release(holder)
            if written is not None:
                return Committed(result, stages[-1], written)
            now = await call.engine.now()
        raise WriteConflict(OVERTAKEN)
    except MayflyError as error:
        charge = stages[-1].collection.charge if stages else 0.0
        error.detail = {**error.detail, "charge": max(charge, prices.MISS)}
        raise


def _attempt(
    call: Call,
    view: ContainerView,
    partition: bytes,
    holder: Holder,
    budget: Budget,
    work: Work[T],
    enter: Callable[[Stage], None],
) -> Callable[[Remote], Coroutine[Any, Any, T]]:
    async def attempt(remote: Remote) -> T:
        lock = partial(remote.call, call.engine.locks.hold)
        transaction = await Transaction.begin(remote, view, partition, holder.now, lock, holder)
        stage = Stage(transaction, Collection(call.account, remote, transaction, budget), budget)
        enter(stage)
        return await work(stage)

    return attempt


async def _commit(call: Call, transaction: Transaction) -> list[Written] | None:
    """None: others were first."""
    if transaction.premise.empty:
        return []
    steps = transaction.steps(call.account.limits)
    try:
        return await call.engine.write_all(transaction.view.id, steps, transaction.now, transaction.premise)
    except (BatchRefused, WriteConflict):
        # What was not refused when the script ran is not as it was then.
        return None
