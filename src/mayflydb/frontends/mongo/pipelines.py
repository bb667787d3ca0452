"""Pipelines over collections and views: the source of their documents, and the targets `$out` and `$merge`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from mayflydb.evaluation.statement import CHEAP_BYTES, LoopBatches
from mayflydb.frontends.mongo import arguments
from mayflydb.frontends.mongo.accounts.needs import need_of_read
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.collections import Collection, Identity, identity_of
from mayflydb.frontends.mongo.cursors import CursorItem, ReadTime
from mayflydb.frontends.mongo.decisions import Decision, DecisionTransaction, Steps
from mayflydb.frontends.mongo.preparing import Changes, PreparedInsert
from mayflydb.frontends.mongo.reading import DocumentRow, Selection, bytes_of, read_rows
from mayflydb.frontends.mongo.reports import run_report
from mayflydb.frontends.mongo.resolving import build_env, compile_selection, ensure_collection_in, find_text_index
from mayflydb.frontends.mongo.services import Services
from mayflydb.frontends.mongo.sessions.units import UnitOfWork
from mayflydb.frontends.mongo.time_series.options import choose_options
from mayflydb.frontends.mongo.writing import DocumentWriter
from mayflydb.model.instant import Instant
from mayflydb.model.record import Record
from mayflydb.query.mongo.cheapness import is_cheap_pipeline
from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.paths import find_values, split_path
from mayflydb.query.mongo.stages import Pipeline, compile_pipeline
from mayflydb.query.mongo.stages.base import close_batches, no_documents, one_batch
from mayflydb.query.mongo.stages.combine import WriteStage
from mayflydb.query.mongo.stages.source import Batches, Merge, MergeRow, Namespace, Out
from mayflydb.query.mongo.update import Update, compile_update
from mayflydb.query.mongo.validation import check_id
from mayflydb.query.mongo.values import MISSING, Document, Value, encode, encode_computed
from mayflydb.sockets.in_flight import SMALL_ANSWER

MAX_VIEW_DEPTH: Final = 20
"""Maximum number of views that read each other."""

T = TypeVar("T")

Rows: TypeAlias = "Sequence[DocumentRow | Document]"
"""Records that are not decoded yet, or the documents of a view."""

MAX_JOIN_BYTES: Final = 4096
"""Bytes of the query of a join that is compiled and planned on the event loop."""

INSERT_BATCH: Final = 128
"""Documents that one transaction of `$out` inserts."""

MATCHED_TEXT: Final = (
    "$merge with whenMatched: fail found an existing document with the same values for the 'on' fields"
)
UNMATCHED_TEXT: Final = (
    "$merge could not find a matching document in the target collection "
    "for at least one document in the source collection"
)


class CollectionSource:
    """The source of one pipeline's documents, and the target of its writes, all at the instant of the command."""

    def __init__(
        self, services: Services, call: Call, work: UnitOfWork, env: Env, read_time: ReadTime, depth: int = 0
    ) -> None:
        self._services = services
        self._call = call
        self._work = work
        self._env = env
        self._read_time = read_time
        self._depth = depth

    @property
    def database(self) -> str:
        return self._call.database

    def find(self, namespace: Namespace, query: Document) -> Batches:
        """Documents of a collection or view, for stages that run on a thread.

        Raise MqlError 13 for a database that the user may not read.
        """
        return _DecodedRows(self._find_rows(namespace, query))

    async def _find_rows(self, namespace: Namespace, query: Document) -> AsyncIterator[Rows]:
        self._services.require_right(self._call, "read", namespace[0], need_of_read(*namespace))
        collection = await self._services.collections.find(*namespace)
        if collection is None:
            return
        if collection.view_on is not None:
            stages: list[Document] = [{"$match": query}] if query else []
            async for batch in self.read(collection, stages):
                yield batch
            return
        selection = await self._select(collection, query)
        async for rows in read_rows(self._work.view, collection, selection, self._read_time):
            await self._admit_rows(rows)
            yield rows

    async def _select(self, collection: Collection, query: Document) -> Selection:
        """Compile the query of a join, which may have a value for each of a thousand documents."""
        large = len(encode(query)) > MAX_JOIN_BYTES
        selection = await self._read_time.evaluation.compute(
            not large, 0, compile_selection, collection, self._env, query
        )
        return replace(selection, is_large=large)

    def stage_documents(self, name: str, spec: Value) -> Batches:
        return LoopBatches(run_report(self._services, self._call, name, spec))

    async def read(self, collection: Collection | None, stages: Sequence[Document], hint: Any = None) -> Batches:
        """Run stages over a collection or view; None: over no documents."""
        async for batch in self.read_as(_pass_on, collection, stages, hint):
            yield batch

    async def read_as(
        self,
        finish: Callable[[Batches], AsyncIterator[T]],
        collection: Collection | None,
        stages: Sequence[Document],
        hint: Any = None,
    ) -> AsyncIterator[T]:
        """Run stages over a collection or view; `finish` is a last stage, which computes where the others do."""
        source, below, stages = await self._resolve_view(collection, stages)
        async for batch in source.run_stages(finish, below, stages, hint if source is self else None):
            yield batch

    async def _resolve_view(
        self, collection: Collection | None, stages: Sequence[Document]
    ) -> tuple[CollectionSource, Collection | None, Sequence[Document]]:
        """Return the source, the collection and the stages that a read of a view stands for."""
        depth = self._depth
        while collection is not None and collection.view_on is not None:
            # collMod of two clients at once can make a cycle that neither check has seen.
            if depth >= MAX_VIEW_DEPTH:
                text = f"View depth too deep or view cycle detected; maximum view depth is {MAX_VIEW_DEPTH}"
                raise MqlError(165, text)
            depth += 1
            stages = [*collection.options.get("pipeline", ()), *stages]
            collection = await self._services.collections.find(collection.database, collection.view_on)
        if depth == self._depth:
            return self, collection, stages
        inner = CollectionSource(self._services, self._call, self._work, self._env, self._read_time, depth)
        return inner, collection, stages

    async def run_stages(
        self,
        finish: Callable[[Batches], AsyncIterator[T]],
        collection: Collection | None,
        stages: Sequence[Document],
        hint: Any,
    ) -> AsyncIterator[T]:
        """Run stages over a collection that is no view."""
        evaluation = self._read_time.evaluation
        pipeline = await self._compile(collection, stages)
        # A count needs no documents: one is decoded only if a filter needs it.
        if pipeline.count_only is not None and collection is not None:
            id, field = pipeline.count_only
            total = await self._count(collection, pipeline, hint)
            if total:
                async for item in finish(one_batch([{"_id": id, field: total}])):
                    yield item
            return
        cheap = evaluation.cheap and self._env.collation.is_simple and is_cheap_pipeline(stages)
        documents = pipeline.run(self._head(collection, pipeline, hint))
        writer = pipeline.writer
        if writer is not None:
            async with aclosing(evaluation.iterate(documents, cheap)) as written:
                await self._write(writer, written)
            return
        async with aclosing(evaluation.iterate(finish(documents), cheap)) as items:
            async for item in items:
                yield item

    async def _compile(self, collection: Collection | None, stages: Sequence[Document]) -> Pipeline:
        text = find_text_index(collection)
        return await self._read_time.evaluation.compute(
            # The stages of a view were not in the message that was looked at.
            self._depth == 0,
            self._call.size,
            partial(compile_pipeline, list(stages), self._env, self, text=text),
        )

    async def _count(self, collection: Collection, pipeline: Pipeline, hint: Any) -> int:
        """Count the documents of the pipeline's head. A document is decoded only if a filter needs it."""
        total = 0
        async for batch in self._read_rows(collection, pipeline, hint):
            total += len(batch)
        return total

    def _head(self, collection: Collection | None, pipeline: Pipeline, hint: Any) -> Batches:
        """The documents that the pipeline's head reads, for stages that run on a thread."""
        if collection is None or pipeline.has_own_source:
            return no_documents()
        return _DecodedRows(self._take_rows(collection, pipeline, hint))

    async def _take_rows(self, collection: Collection, pipeline: Pipeline, hint: Any) -> AsyncIterator[Rows]:
        async for rows in self._read_rows(collection, pipeline, hint):
            await self._admit_rows(rows)
            yield rows

    async def _admit_rows(self, rows: Sequence[DocumentRow]) -> None:
        size = bytes_of(row.record for row in rows)
        evaluation = self._read_time.evaluation
        evaluation.taken += size
        if size > SMALL_ANSWER:
            await evaluation.admit(size)

    async def _read_rows(
        self, collection: Collection, pipeline: Pipeline, hint: Any
    ) -> AsyncIterator[list[DocumentRow]]:
        """Read the rows that the pipeline's head selects: the first stages, as far as a read of the collection covers them."""
        head = pipeline.head
        if head.limit == 0:
            return
        compiling = partial(
            compile_selection, collection, self._env, head.query, head.sort, hint, head.skip, head.limit or 0
        )
        selection = await self._read_time.evaluation.compute(self._depth == 0, self._call.size, compiling)
        async for batch in read_rows(self._work.view, collection, selection, self._read_time):
            yield batch

    # --- $out and $merge ---------------------------------------------------------------------------------------------

    async def _write(self, writer: WriteStage, batches: Batches) -> None:
        target, compute = writer.target, self._read_time.evaluation.compute
        if isinstance(target, Out):
            await self._replace_collection(target, batches)
            return
        async for batch in batches:
            # The variables of `let` are expressions.
            await self._merge_rows(target, await compute(not writer.computes, 0, writer.build_rows, batch))

    async def _replace_collection(self, target: Out, batches: Batches) -> None:
        """Fill a new collection, then rename it over the old one."""
        services, call, collections = self._services, self._call, self._services.collections
        database, name = target.target
        old = await collections.find(database, name)
        if old is not None and (old.view_on is not None or old.capped):
            raise MqlError(
                17152,
                f"namespace '{old.namespace}' is {'capped' if old.capped else 'a view'} so it can't be used for $out",
            )
        options = choose_options(target, old, services.contracts.of(database, name))
        interim = f"tmp.agg_out.{services.chance.getrandbits(64):016x}"
        fresh = await collections.create(database, interim, options, call.now)
        try:
            if old is not None:
                # Before the inserts, so that a unique index refuses duplicates among them.
                await services.indexing.create(fresh, old.specs, call.now)
                fresh = await collections.get(database, interim)
            writer = DocumentWriter(fresh, self._env, self._validates)
            async for batch in batches:
                await self._insert(fresh, writer, batch)
            await collections.rename(fresh, database, name, old, call.now)
        # Cancellation, too, must not leave the interim collection behind.
        except BaseException:
            await collections.drop(fresh, call.now)
            raise
        # The contract of the final name may hide or show expired documents.
        await services.indexing.apply_contract(await collections.get(database, name), call.now)

    async def _insert(self, collection: Collection, writer: DocumentWriter, documents: Sequence[Document]) -> None:
        for first in range(0, len(documents), INSERT_BATCH):
            some = documents[first : first + INSERT_BATCH]
            prepared = await self._read_time.evaluation.compute(False, 0, self._prepare_inserts, writer, some)
            await self._work.perform(partial(insert_prepared, collection.id, writer, prepared))

    def _prepare_inserts(self, writer: DocumentWriter, documents: Sequence[Document]) -> list[PreparedInsert]:
        return [writer.prepare_insert(each, encode_computed(each)) for each in map(self._with_id, documents)]

    def _with_id(self, document: Document) -> Document:
        if "_id" not in document:
            document = {"_id": self._services.ids.generate(self._call.now), **document}
        check_id(document["_id"])
        return document

    @property
    def _validates(self) -> bool:
        return not arguments.flag(self._call.body, "bypassDocumentValidation", self._call.name)

    async def _merge_rows(self, target: Merge, rows: Sequence[MergeRow]) -> None:
        collection = await ensure_collection_in(self._services, self._call, *target.target)
        if collection.series is not None:
            raise MqlError(166, f"$merge cannot write to the time-series collection {collection.namespace}")
        if target.on != ("_id",):
            _check_unique(collection, target.on)
        merger = Merger(self._services, self._call, self._work, self._env, collection, target, self._validates)
        for row in rows:
            await merger.merge(row)


def insert_prepared(
    container: int, writer: DocumentWriter, inserts: Sequence[PreparedInsert], transaction: DecisionTransaction
) -> Steps[None]:
    """Return the decision that inserts prepared documents into one collection."""
    workspace = yield from transaction.on(container)
    for each in inserts:
        yield from writer.insert(workspace, each.document, each.raw, each.draft)


def _check_unique(collection: Collection, on: Sequence[str]) -> None:
    for ready in collection.indexes:
        if ready.spec.unique and ready.spec.partial is None and {path for path, _ in ready.spec.key} == set(on):
            return
    raise MqlError(51183, "Cannot find index to verify that join fields will be unique")


class Merger:
    """Merges documents into a collection, each by a decision of its own."""

    def __init__(
        self,
        services: Services,
        call: Call,
        work: UnitOfWork,
        env: Env,
        collection: Collection,
        target: Merge,
        validates: bool,
    ) -> None:
        self._services = services
        self._call = call
        self._work = work
        self._env = env
        self._collection = collection
        self._target = target
        self._writer = DocumentWriter(collection, env, validates)

    async def merge(self, row: MergeRow) -> None:
        document = row.document
        if "_id" not in document:
            document = {"_id": self._services.ids.generate(self._call.now), **document}
        raw = await self._compute(CHEAP_BYTES + 1, encode_computed, document)
        update = await self._compute(len(raw), self._build_update, document, row.variables)
        now, done = self._call.now, False
        while not done:
            identities = await self._find_identities(document, now)
            records = await self._read(identities, now)
            changes, new = Changes(None, update, cheap=False), None
            if update is not None and records:
                size = bytes_of(record for _, record in records)
                prepared = await self._compute(size + len(raw), self._writer.prepare_changes, changes, records)
                changes = replace(changes, prepared=prepared)
            elif not records and self._target.when_not_matched == "insert":
                check_id(document["_id"])
                new = await self._compute(len(raw), self._writer.prepare_insert, document, raw)
            try:
                done = await self._work.perform(self._build_decision(new, identities, changes))
            except MqlError as error:
                later = max(now, await self._services.engine.now())
                if error.code != 11000 or identities or not await self._find_identities(document, later):
                    raise
            # A concurrent write came first, or the writer's instant is later than this command's: search again.
            if not done:
                now = max(now, await self._services.engine.now())

    async def _compute(self, size: int, function: Callable[..., T], *given: Any) -> T:
        # Stages of an update may do anything.
        cheap = type(self._target.when_matched) is str and self._writer.is_cheap
        return await self._services.evaluation_of(self._call).compute(cheap, size, function, *given)

    async def _read(self, identities: Sequence[Identity], now: Instant) -> list[tuple[Identity, Record]]:
        found = [(each, await self._work.get(self._collection, each, now)) for each in identities]
        return [(identity, record) for identity, record in found if record is not None]

    async def _find_identities(self, document: Document, now: Instant) -> list[Identity]:
        if self._target.on == ("_id",):
            return [identity_of(document["_id"])]
        query: Document = {}
        for path in self._target.on:
            found = [each for each in find_values(document, split_path(path), spread=False) if each is not MISSING]
            if not found or found[0] is None or type(found[0]) is list:
                text = "$merge write error: 'on' field cannot be missing, null, undefined or an array"
                raise MqlError(51132, text)
            query[path] = {"$eq": found[0]}
        selection = compile_selection(self._collection, self._env, query, limit=1)
        matching = read_rows(
            self._work.view, self._collection, selection, ReadTime(now, self._services.evaluation_of(self._call))
        )
        return [Identity(row.record.partition, row.record.key) async for batch in matching for row in batch]

    def _build_decision(
        self, new: PreparedInsert | None, identities: Sequence[Identity], changes: Changes
    ) -> Decision[bool]:
        def decide(transaction: DecisionTransaction) -> Steps[bool]:
            workspace = yield from transaction.on(self._collection.id)
            for identity in identities:
                if (yield from workspace.get(identity.partition, identity.key)) is None:
                    continue
                if self._target.when_matched == "fail":
                    raise MqlError(11000, MATCHED_TEXT)
                if changes.update is not None:
                    result = yield from self._writer.update(workspace, [identity], changes, False)
                    # Another write came first: the update is computed again.
                    return not result.unprepared
                return True
            # The documents that the search found are gone or changed: search again, instead of inserting a second one.
            if identities and self._target.on != ("_id",):
                return False
            if self._target.when_not_matched == "fail":
                raise MqlError(13113, UNMATCHED_TEXT)
            if self._target.when_not_matched == "insert":
                if new is None:
                    # The document was there when the search read it.
                    return False
                yield from self._writer.insert(workspace, new.document, new.raw, new.draft)
            return True

        return decide

    def _build_update(self, document: Document, variables: Document) -> Update | None:
        """Build the update of an existing document; None: `whenMatched` changes none."""
        action = self._target.when_matched
        if action in ("keepExisting", "fail"):
            return None
        plain = {name: value for name, value in document.items() if name != "_id" or self._target.on == ("_id",)}
        if action == "replace":
            return compile_update(plain, self._env)
        if action == "merge":
            return compile_update([{"$replaceWith": {"$mergeObjects": ["$$ROOT", {"$literal": plain}]}}], self._env)
        assert isinstance(action, list)
        return compile_update(
            action, msgspec.structs.replace(self._env, variables={**self._env.variables, **variables})
        )


# --- commands --------------------------------------------------------------------------------------------------------


async def find_in_view(
    services: Services, call: Call, work: UnitOfWork, view: Collection
) -> tuple[AsyncIterator[list[CursorItem]], ReadTime]:
    """Run the query of `find` on a view, as a pipeline."""
    body = call.body
    stages: list[Document] = []
    for field, stage in (
        ("filter", "$match"),
        ("sort", "$sort"),
        ("skip", "$skip"),
        ("limit", "$limit"),
        ("projection", "$project"),
    ):
        value = body.get(field)
        if value:
            stages.append({stage: abs(value) if field == "limit" else value})
    read_time = services.read_time_of(call)
    env = await build_env(services, call, view, body)
    source = CollectionSource(services, call, work, env, read_time)
    return source.read_as(encode_batches, view, stages), read_time


class _DecodedRows(AsyncIterator[list[Document]]):
    """The documents of rows that the event loop reads, decoded where the stages run."""

    def __init__(self, source: AsyncIterator[Rows]) -> None:
        self._batches = LoopBatches(source)

    async def __anext__(self) -> list[Document]:
        while not (rows := await anext(self._batches)):
            pass
        return [row.document if isinstance(row, DocumentRow) else row for row in rows]

    async def aclose(self) -> None:
        """Close the source."""
        await self._batches.aclose()


async def _pass_on(batches: Batches) -> Batches:
    try:
        async for batch in batches:
            yield batch
    finally:
        await close_batches(batches)


async def encode_batches(batches: Batches) -> AsyncIterator[list[CursorItem]]:
    """Encode documents as items of a cursor."""
    try:
        async for batch in batches:
            yield [(None, encode_computed(document)) for document in batch]
    finally:
        await close_batches(batches)
