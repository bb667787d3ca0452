"""Runs the transactions of scripts to their commit. After a write conflict the script runs again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final, Generic, TypeVar

import msgspec

from mayflydb.engine import prices
from mayflydb.engine.commands import Written
from mayflydb.engine.engine import BatchRefused
from mayflydb.engine.locks import LockHolder
from mayflydb.frontends.cosmos.calls import CosmosCall
from mayflydb.frontends.cosmos.scripting.collection import Collection
from mayflydb.frontends.cosmos.scripting.sandbox import TimeBudget
from mayflydb.frontends.cosmos.scripting.threads import LoopProxy
from mayflydb.frontends.cosmos.scripting.transaction import ScriptTransaction
from mayflydb.frontends.cosmos.views import ContainerView
from mayflydb.model.errors import MayflyError, WriteConflict

T = TypeVar("T")

MAX_ATTEMPTS: Final = 10
CONFLICTED: Final = (
    "Conflicting request to resource has been attempted. Retry to avoid conflicts: others have changed again and again what the "
    "script reads."
)


class ScriptAttempt(msgspec.Struct, frozen=True):
    """One attempt: the transaction, the collection that its scripts use, and the time of the request."""

    transaction: ScriptTransaction
    collection: Collection
    time_budget: TimeBudget


class CommittedScripts(msgspec.Struct, Generic[T], frozen=True):
    """A committed transaction: the `result` of its work, and the records that its commands have `written`."""

    result: T
    attempt: ScriptAttempt
    written: list[Written]

    def replace_provisional(self, text: bytes) -> bytes:
        """Return a text of the transaction with the committed rids and etags in it."""
        return self.attempt.transaction.replace_provisional(text, self.written)


Work = Callable[[ScriptAttempt], Awaitable[T]]


async def transact(call: CosmosCall, partition: bytes, work: Work[T]) -> CommittedScripts[T]:
    """Run scripts on a thread and commit all of their writes, or none. WriteConflict after `MAX_ATTEMPTS` conflicts.

    The detail of errors has the `charge` of the last attempt.
    """
    time_budget = TimeBudget(call.account.scripts)
    now = call.now
    attempts: list[ScriptAttempt] = []
    try:
        for _ in range(MAX_ATTEMPTS):
            # Resolved for each attempt: the container may have been replaced since the last one.
            view = await call.get_owning_container()
            # Shared locks keep purges away from what the script has written, and hinder no other writer.
            holder = LockHolder(now, exclusive=False)
            try:
                work_of_attempt = _work_of_attempt(call, view, partition, holder, time_budget, work, attempts.append)
                result = await call.threads.run(work_of_attempt, time_budget)
                written = await _commit(call, attempts[-1].transaction)
            finally:
                # Released after the commit: a purge before it would remove records on which the commands rest.
                call.engine.locks.release(holder)
            if written is not None:
                return CommittedScripts(result, attempts[-1], written)
            # The next attempt reads what was committed meanwhile, so its instant must not be older.
            now = await call.engine.now()
        raise WriteConflict(CONFLICTED)
    except MayflyError as error:
        charge = attempts[-1].collection.charge if attempts else 0.0
        error.detail = {**error.detail, "charge": max(charge, prices.MISS)}
        raise


def _work_of_attempt(
    call: CosmosCall,
    view: ContainerView,
    partition: bytes,
    holder: LockHolder,
    time_budget: TimeBudget,
    work: Work[T],
    enter: Callable[[ScriptAttempt], None],
) -> Callable[[LoopProxy], Coroutine[Any, Any, T]]:
    async def run(proxy: LoopProxy) -> T:
        lock = partial(proxy.call, call.engine.locks.hold)
        transaction = await ScriptTransaction.begin(proxy, view, partition, holder.now, lock, holder)
        attempt = ScriptAttempt(transaction, Collection(call.account, proxy, transaction, time_budget), time_budget)
        enter(attempt)
        return await work(attempt)

    return run


async def _commit(call: CosmosCall, transaction: ScriptTransaction) -> list[Written] | None:
    """Commit the transaction; None after a write conflict."""
    if transaction.read_set.is_empty:
        return []
    steps = transaction.steps(call.account.limits)
    try:
        return await call.engine.write_all(transaction.view.id, steps, transaction.now, transaction.read_set)
    except (BatchRefused, WriteConflict):
        # The commands succeeded while the script ran, so a refusal now means that other writes came first.
        return None
