"""One update or removal: who is meant, what is to become of him, and how often that is tried.

Who is meant is read first. The decision then looks at each of them again in its own transaction; where somebody else was quicker,
the statement is begun anew, so that it changes what matches and nothing else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

import msgspec

from mayflydb.engine import budget
from mayflydb.frontends.mongo import arguments
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.charges import afford
from mayflydb.frontends.mongo.collections import Collection, Place, place_of
from mayflydb.frontends.mongo.cursors import Moment
from mayflydb.frontends.mongo.decisions import DecisionSpace, DecisionTransaction, Steps
from mayflydb.frontends.mongo.reading import Select, exact_id, rows
from mayflydb.frontends.mongo.resolving import environment, select
from mayflydb.frontends.mongo.services import Services
from mayflydb.frontends.mongo.sessions.units import UnitOfWork
from mayflydb.frontends.mongo.writing import Updated, Writer
from mayflydb.model.errors import OwnerNotFound
from mayflydb.model.instant import Instant
from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import MqlError, failed_to_parse, type_mismatch
from mayflydb.query.mongo.update import Update, compile_update
from mayflydb.query.mongo.values import MISSING, Document, type_name

T = TypeVar("T")

BATCH: Final = 64
"""Documents that one transaction of a statement for many changes."""


class RivalInserted(MqlError):
    """An upsert found nothing to change, and yet a value of its new document is taken."""


async def retry_if_dropped(
    work: UnitOfWork, find: Callable[[], Awaitable[Collection | None]], act: Callable[[Collection], Awaitable[T]]
) -> T | None:
    """Act on the collection that is found, and again on its successor if it is dropped meanwhile. None: there is none."""
    collection = await find()
    while collection is not None:
        try:
            return await act(collection)
        except OwnerNotFound:
            successor = None if work.aborts else await find()
            if work.aborts or (successor is not None and successor.id == collection.id):
                raise
            collection = successor
    return None


class Statement(msgspec.Struct, frozen=True):
    """Who is meant: `query`, and of several the first by `order`, unless `many`."""

    services: Services
    call: Call
    given: Document
    query: Document
    order: Document | None = None
    many: bool = False

    @property
    def tells_documents(self) -> bool:
        """Whether the answer shows what was changed."""
        return self.call.name in ("findAndModify", "findandmodify")

    async def _later(self) -> Instant:
        # The writer may be further on than this command: what has died for it must not be found again.
        return max(self.call.now, await self.services.engine.now())

    def check(self) -> None:
        """MqlError as `run` has it for a statement that can never be carried out, where there is no collection."""
        self.select(None, self.environment(None))

    def environment(self, collection: Collection | None) -> Env:
        return environment(self.services, self.call, collection, self.given)

    def select(self, collection: Collection | None, env: Env) -> Select:
        limit = 0 if self.many else 1
        return select(collection, env, self.query, self.order, self.given.get("hint"), limit=limit, by_place=True)

    async def places(
        self, work: UnitOfWork, collection: Collection, chosen: Select, now: Instant
    ) -> tuple[list[Place], bool]:
        """Where those lie that are meant, and whether that was read: an `_id` says it by itself."""
        ids = exact_id(self.query, chosen.env, chosen.hint)
        if ids is not None:
            return [place_of(id) for id in ids], False
        # One whose key in an index moves on while that is walked is met twice, but meant once.
        found: dict[Place, None] = {}
        async for batch in rows(work.view, collection, chosen, Moment(now)):
            found.update(dict.fromkeys(Place(row.record.partition, row.record.key) for row in batch))
        return list(found), True


def _query_of(given: Document, name: str) -> Document:
    query = arguments.document(given, "q", name)
    if query is None:
        raise arguments.missing("q", name)
    return query


class Modification(Statement, frozen=True):
    """An update. `updates`: its modifiers, replacement or pipeline."""

    updates: Document | list[Document] = {}
    upsert: bool = False
    constants: Document = {}

    @classmethod
    def of_statement(cls, services: Services, call: Call, given: Document) -> Modification:
        """One of the command `update`. MqlError 40414 and 14 for what is missing or of another type, 9 as the server has it."""
        name = "update.updates"
        query = _query_of(given, name)
        if "u" not in given:
            raise arguments.missing("u", name)
        many = arguments.flag(given, "multi", name)
        updates = given["u"]
        if many and type(updates) is dict and not next(iter(updates), "").startswith("$"):
            raise failed_to_parse("multi update is not supported for replacement-style update")
        order = arguments.document(given, "sort", name)
        if many and order is not None:
            raise failed_to_parse("Cannot specify sort with multi=true")
        return cls(
            services,
            call,
            given,
            query,
            order,
            many,
            updates=updates,
            upsert=arguments.flag(given, "upsert", name),
            constants=arguments.document(given, "c", name) or {},
        )

    def check(self) -> None:
        super().check()
        self.compiled(self.environment(None))

    def compiled(self, env: Env) -> Update:
        """MqlError as `compile_update` has them, and 14 for what is no update at all."""
        if type(self.updates) not in (dict, list):
            raise type_mismatch("update.updates.u", type_name(self.updates), "object", "array")
        filters = self.given.get("arrayFilters")
        if filters is not None and type(filters) is not list:
            raise type_mismatch("update.updates.arrayFilters", type_name(filters), "array")
        if self.constants:
            if type(self.updates) is not list:
                raise MqlError(51198, "Constant values may only be specified for pipeline updates")
            env = msgspec.structs.replace(env, variables={**env.variables, **self.constants})
        return compile_update(self.updates, env, filters or ())

    async def run(self, work: UnitOfWork, collection: Collection, id: int) -> tuple[Updated, bool]:
        """What it did, and whether it had been done before. `id`: its number within a numbered write. MqlError 16500."""
        await afford(self.services, self.call, collection, budget.replace(0))
        env = self.environment(collection)
        chosen, update = self.select(collection, env), self.compiled(env)
        writer = Writer(collection, env, not arguments.flag(self.call.body, "bypassDocumentValidation", self.call.name))
        now = self.call.now
        while True:
            places, was_read = await self.places(work, collection, chosen, now)
            try:
                if self.many:
                    return await self._run_many(work, collection, writer, chosen, update, places), False
                may_insert = self.upsert and not (places and was_read)
                done, retried = await self._run_one(work, collection, writer, chosen, update, places, may_insert, id)
            except RivalInserted:
                # What has come meanwhile is changed, if it is what is meant.
                now = await self._later()
                if work.aborts or not [row async for row in rows(work.view, collection, chosen, Moment(now))]:
                    raise
                continue
            met = done.matched or done.upserted is not MISSING
            if met or retried or not places or not was_read:
                return done, retried
            now = await self._later()

    async def _run_one(
        self,
        work: UnitOfWork,
        collection: Collection,
        writer: Writer,
        chosen: Select,
        update: Update,
        places: Sequence[Place],
        may_insert: bool,
        id: int,
    ) -> tuple[Updated, bool]:
        attempt, now = work.attempt, self.call.now

        def make_id() -> Any:
            return self.services.ids.make(now)

        def body(transaction: DecisionTransaction) -> Steps[tuple[Updated, bool]]:
            if attempt is not None:
                yield from attempt.load(transaction)
                before, answer = attempt.answer(id)
                if before:
                    return _told(answer or {}), True
            space = yield from transaction.on(collection.id)
            done = yield from writer.update(space, places, chosen.filter, update, False)
            if not done.matched and may_insert:
                done = yield from self._inserted(writer, space, update, make_id)
            if attempt is not None and (done.matched or done.upserted is not MISSING or not places):
                attempt.note(id, _telling(done, self.tells_documents))
                yield from attempt.save(transaction)
            return done, False

        return await work.perform(body)

    def _inserted(
        self, writer: Writer, space: DecisionSpace, update: Update, make_id: Callable[[], Any]
    ) -> Steps[Updated]:
        try:
            return (yield from writer.upsert(space, self.query, update, make_id))
        except MqlError as refusal:
            if refusal.code != 11000:
                raise
            raise RivalInserted(refusal.code, refusal.message, refusal.labels, **refusal.fields) from None

    async def _run_many(
        self,
        work: UnitOfWork,
        collection: Collection,
        writer: Writer,
        chosen: Select,
        update: Update,
        places: Sequence[Place],
    ) -> Updated:
        matched = modified = 0
        now = self.call.now
        for first in range(0, len(places), BATCH):
            some = places[first : first + BATCH]

            def body(transaction: DecisionTransaction, some: Sequence[Place] = some) -> Steps[Updated]:
                space = yield from transaction.on(collection.id)
                return (yield from writer.update(space, some, chosen.filter, update, True))

            done = await work.perform(body)
            matched, modified = matched + done.matched, modified + done.modified
        if matched or not self.upsert:
            return Updated(matched, modified)

        def insert(transaction: DecisionTransaction) -> Steps[Updated]:
            space = yield from transaction.on(collection.id)
            return (yield from self._inserted(writer, space, update, lambda: self.services.ids.make(now)))

        return await work.perform(insert)


def _telling(done: Updated, with_documents: bool) -> Document:
    """An update's outcome as it is kept for whoever asks again."""
    told: Document = {"matched": done.matched, "modified": done.modified}
    if done.upserted is not MISSING:
        told["upserted"] = done.upserted
    if with_documents:
        told.update({"before": done.before, "after": done.after})
    return told


def _told(answer: Document) -> Updated:
    return Updated(
        int(answer.get("matched", 0)),
        int(answer.get("modified", 0)),
        answer.get("upserted", MISSING),
        answer.get("before"),
        answer.get("after"),
    )


class Deletion(Statement, frozen=True):
    """A removal."""

    @classmethod
    def of_statement(cls, services: Services, call: Call, given: Document) -> Deletion:
        """One of the command `delete`. MqlError 40414 and 14, and 9 for a limit that is neither 0 nor 1."""
        name = "delete.deletes"
        query = _query_of(given, name)
        limit = arguments.whole(given, "limit", name)
        if limit is None:
            raise arguments.missing("limit", name)
        if limit > 1:
            raise failed_to_parse(f"The limit field in delete objects must be 0 or 1. Got {limit}")
        return cls(services, call, given, query, None, limit == 0)

    async def run(self, work: UnitOfWork, collection: Collection, id: int) -> tuple[int, Document | None, bool]:
        """How many are gone, the last of them, and whether that had been done before. MqlError 16500."""
        await afford(self.services, self.call, collection, budget.DELETE)
        env = self.environment(collection)
        chosen = self.select(collection, env)
        writer = Writer(collection, env)
        now = self.call.now
        while True:
            places, was_read = await self.places(work, collection, chosen, now)
            total, last, retried = 0, None, False
            for first in range(0, max(1, len(places)), BATCH):
                body = self._body(work, collection, writer, chosen, places[first : first + BATCH], id)
                count, last, retried = await work.perform(body)
                total += count
            if self.many or total or retried or not places or not was_read:
                return total, last, retried
            now = await self._later()

    def _body(
        self, work: UnitOfWork, collection: Collection, writer: Writer, chosen: Select, places: Sequence[Place], id: int
    ) -> Callable[[DecisionTransaction], Steps[tuple[int, Document | None, bool]]]:
        attempt = work.attempt

        def body(transaction: DecisionTransaction) -> Steps[tuple[int, Document | None, bool]]:
            if attempt is not None:
                yield from attempt.load(transaction)
                before, answer = attempt.answer(id)
                if before:
                    told = answer or {}
                    return int(told.get("n", 0)), told.get("before"), True
            space = yield from transaction.on(collection.id)
            count, last = yield from writer.delete(space, places, chosen.filter, self.many)
            if attempt is not None and (count or not places):
                kept = {"before": last} if self.tells_documents else {}
                attempt.note(id, {"n": count, **kept})
                yield from attempt.save(transaction)
            return count, last, False

        return body
