"""The changes of items that patches make: computed within the decision of the write, or ahead of it, on a thread.

A decision runs in the writer, where nothing may take long: a subquery of a condition may join an array with itself, and an item
may have 2 MB. A decision that meets such an item is refused with Unprepared. The change is then computed for the item as it was
there, and the write is decided again. It takes what was computed if the item still has that version.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

from mayflydb.engine.commands import Draft
from mayflydb.engine.engine import BatchRefused
from mayflydb.evaluation.statement import CHEAP_BYTES, Statement
from mayflydb.evaluation.stops import EvaluationStopped, TooManyEvaluations
from mayflydb.frontends.cosmos import patch as patches
from mayflydb.frontends.cosmos import queries
from mayflydb.frontends.cosmos.calls import PRECONDITION_FAILED, CosmosCall
from mayflydb.frontends.cosmos.errors import of_stop
from mayflydb.frontends.cosmos.views import ContainerView
from mayflydb.model.errors import MayflyError, PreconditionFailed, Unsupported
from mayflydb.model.record import Record
from mayflydb.query.cosmos_sql import Context, Query

T = TypeVar("T")

LONG_CONDITION: Final = 4096
"""The characters of a condition above which it is not evaluated within a decision."""


class Unprepared(MayflyError):
    """The change of this item takes too long for a decision, and was not computed yet."""

    def __init__(self, change: ItemChange, current: Record) -> None:
        super().__init__("the change of an item was not computed ahead")
        self.change = change
        self.current = current


class ItemChange:
    """The change of one item by a patch, as the decision of a write calls it (engine/commands.Change).

    `is_cheap`: the condition of the patch is evaluated quickly over a small item. `is_written_before`: the item may have been
    written by the same transaction, so that it has no version before the decision.
    """

    def __init__(
        self,
        call: CosmosCall,
        view: ContainerView,
        partition: bytes,
        patch: patches.Patch,
        condition: Query | None,
        is_written_before: bool,
    ) -> None:
        self.is_cheap = condition is None or (condition.is_cheap and len(patch.condition or "") <= LONG_CONDITION)
        if is_written_before and not self.is_cheap:
            raise Unsupported(
                "Mayfly does not support a patch whose condition may take long on an item that an earlier operation of the"
                " same transactional batch writes."
            )
        self._is_written_before = is_written_before
        self._call = call
        self._view = view
        self._partition = partition
        self._patch = patch
        self._condition = condition
        self._statement: Statement | None = None
        self._computed: tuple[int, Draft | MayflyError] | None = None

    def __call__(self, current: Record) -> Draft:
        """Return the new state of the item. PreconditionFailed if the condition does not hold; Unprepared."""
        if self._is_written_before or (self.is_cheap and len(current.value) <= CHEAP_BYTES):
            return self._apply(current)
        if self._computed is None or self._computed[0] != current.lsn:
            raise Unprepared(self, current)
        result = self._computed[1]
        if isinstance(result, MayflyError):
            raise result
        return result

    def _apply(self, current: Record) -> Draft:
        view = self._view
        condition = self._condition
        if condition is not None and not condition.matches(view.document(current), Context(self._call.now)):
            raise PreconditionFailed(PRECONDITION_FAILED)
        item = patches.apply_to_item(self._patch, current.value, view.key, self._call.account.limits)
        return view.draft(item, self._partition)

    def _compute(self, current: Record) -> Draft | MayflyError:
        try:
            return self._apply(current)
        except MayflyError as refusal:
            return refusal

    async def prepare(self, current: Record) -> None:
        """Compute the change of an item on a thread. Errors: those of a query that is stopped."""
        if self._statement is None:
            # One for all attempts: an item that is written all the time is given up when its time is over.
            self._statement = self._call.statement()
            self._statement.cheap = False
        self._computed = (
            current.lsn,
            await _answer_stops(self._statement.call(len(current.value), self._compute, current)),
        )


async def compile_change(
    call: CosmosCall, view: ContainerView, partition: bytes, patch: patches.Patch, is_written_before: bool = False
) -> ItemChange:
    """Compile the condition of a patch, a long one on a thread. BadRequest, and the errors of a query that is stopped."""
    condition: Query | None = None
    if patch.condition is not None:
        text, lenient = f"SELECT * {patch.condition}", call.account.lenient
        condition = await _answer_stops(
            queries.compile_text(call.statement(), text, {}, view.declared, lenient=lenient)
        )
    return ItemChange(call, view, partition, patch, condition, is_written_before)


async def _answer_stops(work: Coroutine[Any, Any, T]) -> T:
    try:
        return await work
    except (EvaluationStopped, TooManyEvaluations) as stop:
        raise of_stop(stop) from None


async def write_prepared(commit: Callable[[], Awaitable[T]]) -> T:
    """Return the result of a commit, after the changes of items that take long were computed for it."""
    while True:
        try:
            return await commit()
        except Unprepared as refusal:
            met = refusal
        except BatchRefused as refused:
            if not isinstance(refused.cause, Unprepared):
                raise
            met = refused.cause
        await met.change.prepare(met.current)
