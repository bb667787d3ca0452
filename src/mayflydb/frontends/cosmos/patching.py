"""The changes of items that patches make: computed within the decision of the write, or ahead of it, on a thread.

A decision runs in the writer, where nothing may take long: a subquery of a condition may join an array with itself, and an item
may have 2 MB. A decision that meets such an item is refused with Unprepared. The change is then computed for the item as it was
there, and the write is decided again. It takes what was computed if the item still has that version.
A decision patches items of CHEAP_BYTES in all: a batch of many small items is decided in several attempts.
"""

from __future__ import annotations

import asyncio
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
from mayflydb.frontends.cosmos.indexing import APPENDED_PROPERTIES
from mayflydb.frontends.cosmos.views import ContainerView
from mayflydb.model.errors import MayflyError, PreconditionFailed, Unsupported
from mayflydb.model.record import Record
from mayflydb.query.cosmos_sql import Context, Query

T = TypeVar("T")

LONG_CONDITION: Final = 4096
"""The characters of a condition above which it is not evaluated within a decision."""


NO_VERSION: Final = (
    "Mayfly does not support a patch whose condition reads system properties, and may take long, on an item that an earlier"
    " operation of the same transactional batch writes."
)


class Unprepared(MayflyError):
    """The change of this item takes too long for a decision, and was not computed yet."""

    def __init__(self, change: ItemChange, current: Record) -> None:
        super().__init__("the change of an item was not computed ahead")
        self.change = change
        self.current = current


class PatchWork:
    """The work of one request's patches: those of a batch share one deadline, and one allowance within a decision.

    `allowance`: the bytes of items that the present decision may still patch. `lock`: held while a change that takes long is
    computed and written, so that the operations of a bulk request do not make each other's results stale.
    """

    def __init__(self, call: CosmosCall) -> None:
        self._call = call
        self._statement: Statement | None = None
        self.allowance = CHEAP_BYTES
        self.lock = asyncio.Lock()

    @property
    def statement(self) -> Statement:
        """The statement of the request, whose steps are taken to be cheap."""
        if self._statement is None:
            self._statement = self._call.statement()
        return self._statement

    async def take_turn(self) -> None:
        """Let other requests run if this one has held the event loop for long."""
        await _answer_stops(self.statement.take_turn())

    async def compute(self, function: Callable[..., T], *given: Any) -> T:
        """Return the result of a function, computed on a thread. Errors: those of a query that is stopped."""
        result = await _answer_stops(self.statement.call(CHEAP_BYTES + 1, function, *given))
        self.allowance = CHEAP_BYTES
        return result

    async def compile(self, text: str, view: ContainerView) -> Query:
        """Compile a condition, a long one on a thread."""
        statement, lenient = self.statement, self._call.account.lenient
        try:
            return await _answer_stops(queries.compile_text(statement, text, {}, view.declared, lenient=lenient))
        finally:
            statement.cheap = True


class ItemChange:
    """The change of one item by a patch, as the decision of a write calls it (engine/commands.Change).

    `is_written_before`: the item may have been written by the same transaction, so that its version differs from one decision to
    the next. What is computed for it holds for the same text.
    """

    def __init__(
        self,
        call: CosmosCall,
        view: ContainerView,
        partition: bytes,
        patch: patches.Patch,
        condition: Query | None,
        is_written_before: bool,
        work: PatchWork,
    ) -> None:
        self._is_cheap = condition is None or (condition.is_cheap and len(patch.condition or "") <= LONG_CONDITION)
        self._is_written_before = is_written_before
        self._reads_version = is_written_before and condition is not None and _reads_version(condition)
        self._call = call
        self._view = view
        self._partition = partition
        self._patch = patch
        self._condition = condition
        self.work = work
        self._computed: tuple[Record, Draft | MayflyError] | None = None

    def __call__(self, current: Record) -> Draft:
        """Return the new state of the item. PreconditionFailed if the condition does not hold; Unprepared."""
        if self._computed is None or self._reads_version or not self._is_same(self._computed[0], current):
            size = len(current.value)
            if not self._is_cheap or size > self.work.allowance:
                if self._reads_version:
                    raise Unsupported(NO_VERSION)
                raise Unprepared(self, current)
            self.work.allowance -= size
            self._computed = (current, self._compute(current))
        result = self._computed[1]
        if isinstance(result, MayflyError):
            raise result
        return result

    def _is_same(self, one: Record, other: Record) -> bool:
        return one.value == other.value if self._is_written_before else one.lsn == other.lsn

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
        self._computed = (current, await self.work.compute(self._compute, current))


def _reads_version(condition: Query) -> bool:
    return condition.reads is None or not condition.reads.isdisjoint(APPENDED_PROPERTIES)


async def compile_change(
    call: CosmosCall,
    view: ContainerView,
    partition: bytes,
    patch: patches.Patch,
    work: PatchWork,
    is_written_before: bool = False,
) -> ItemChange:
    """Compile the condition of a patch. BadRequest, and the errors of a query that is stopped."""
    condition = None if patch.condition is None else await work.compile(f"SELECT * {patch.condition}", view)
    return ItemChange(call, view, partition, patch, condition, is_written_before, work)


async def _answer_stops(work: Coroutine[Any, Any, T]) -> T:
    try:
        return await work
    except (EvaluationStopped, TooManyEvaluations) as stop:
        raise of_stop(stop) from None


async def write_prepared(commit: Callable[[], Awaitable[T]], admit: Callable[[], None] | None = None) -> T:
    """Return the result of a commit, after the changes of items that take long were computed for it.

    `admit`: called before the first of them is computed; it may raise.
    """
    try:
        return await commit()
    except Unprepared as refusal:
        met = refusal
    except BatchRefused as refused:
        met = _find_unprepared(refused)
    async with met.change.work.lock:
        if admit is not None:
            admit()
        while True:
            await met.change.prepare(met.current)
            try:
                return await commit()
            except Unprepared as refusal:
                met = refusal
            except BatchRefused as refused:
                met = _find_unprepared(refused)


def _find_unprepared(refused: BatchRefused) -> Unprepared:
    if not isinstance(refused.cause, Unprepared):
        raise refused
    return refused.cause
