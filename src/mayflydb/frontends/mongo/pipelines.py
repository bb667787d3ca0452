"""Pipelines over collections and views: the source of their documents, and the targets `$out` and `$merge`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import msgspec

from mayflydb.frontends.mongo import arguments
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.collections import Collection, Identity, identity_of
from mayflydb.frontends.mongo.cursors import CursorItem, ReadTime
from mayflydb.frontends.mongo.decisions import Decision, DecisionTransaction, Steps
from mayflydb.frontends.mongo.reading import DocumentRow, read_rows
from mayflydb.frontends.mongo.reports import run_report
from mayflydb.frontends.mongo.resolving import build_env, compile_selection, ensure_collection_in, find_text_index
from mayflydb.frontends.mongo.services import Services
from mayflydb.frontends.mongo.sessions.units import UnitOfWork
from mayflydb.frontends.mongo.writing import DocumentWriter
from mayflydb.model.instant import Instant
from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.paths import find_values, split_path
from mayflydb.query.mongo.stages import Pipeline, compile_pipeline
from mayflydb.query.mongo.stages.source import Batches, Merge, MergeRow, Namespace, Out
from mayflydb.query.mongo.update import Update, compile_update
from mayflydb.query.mongo.validation import check_id
from mayflydb.query.mongo.values import MISSING, Document, Value, encode

MAX_VIEW_DEPTH: Final = 20
"""Maximum number of views that read each other."""

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

    async def find(self, namespace: Namespace, query: Document) -> Batches:
        """Documents of a collection or view. Raise MqlError 13 for a database that the user may not read."""
        if namespace[0] != self._call.database:
            self._services.require_right(self._call, "read", namespace[0])
        collection = await self._services.collections.find(*namespace)
        if collection is None:
            return
        stages: list[Document] = [{"$match": query}] if query else []
        async for batch in self.read(collection, stages):
            yield batch

    async def stage_documents(self, name: str, spec: Value) -> Batches:
        async for batch in run_report(self._services, self._call, name, spec):
            yield batch

    async def read(self, collection: Collection | None, stages: Sequence[Document], hint: Any = None) -> Batches:
        """Run stages over a collection or view; None: over no documents."""
        view_on = None if collection is None else collection.view_on
        if collection is not None and view_on is not None:
            # collMod of two clients at once can make a cycle that neither check has seen.
            if self._depth >= MAX_VIEW_DEPTH:
                text = f"View depth too deep or view cycle detected; maximum view depth is {MAX_VIEW_DEPTH}"
                raise MqlError(165, text)
            inner = CollectionSource(
                self._services, self._call, self._work, self._env, self._read_time, self._depth + 1
            )
            below = await self._services.collections.find(collection.database, view_on)
            async for batch in inner.read(below, [*collection.options.get("pipeline", ()), *stages]):
                yield batch
            return
        pipeline = compile_pipeline(list(stages), self._env, self, text=find_text_index(collection))
        # A count needs no documents: one is decoded only if a filter needs it.
        if pipeline.count_only is not None and collection is not None:
            id, field = pipeline.count_only
            total = await self._count(collection, pipeline, hint)
            if total:
                yield [{"_id": id, field: total}]
            return
        async for batch in pipeline.run(self._head(collection, pipeline, hint)):
            yield batch

    async def _count(self, collection: Collection, pipeline: Pipeline, hint: Any) -> int:
        """Count the documents of the pipeline's head. A document is decoded only if a filter needs it."""
        total = 0
        async for batch in self._read_rows(collection, pipeline, hint):
            total += len(batch)
        return total

    async def _head(self, collection: Collection | None, pipeline: Pipeline, hint: Any) -> Batches:
        """The documents that the pipeline's head reads."""
        if collection is not None and not pipeline.has_own_source:
            async for batch in self._read_rows(collection, pipeline, hint):
                yield [row.document for row in batch]

    async def _read_rows(
        self, collection: Collection, pipeline: Pipeline, hint: Any
    ) -> AsyncIterator[list[DocumentRow]]:
        """Read the rows that the pipeline's head selects: the first stages, as far as a read of the collection covers them."""
        head = pipeline.head
        if head.limit == 0:
            return
        selection = compile_selection(collection, self._env, head.query, head.sort, hint, head.skip, head.limit or 0)
        async for batch in read_rows(self._work.view, collection, selection, self._read_time):
            yield batch

    # --- $out and $merge ---------------------------------------------------------------------------------------------

    async def replace_collection(self, target: Out, batches: Batches) -> None:
        """Fill a new collection, then rename it over the old one."""
        services, call, collections = self._services, self._call, self._services.collections
        database, name = target.target
        old = await collections.find(database, name)
        if old is not None and (old.view_on is not None or old.capped):
            raise MqlError(
                17152,
                f"namespace '{old.namespace}' is {'capped' if old.capped else 'a view'} so it can't be used for $out",
            )
        interim = f"tmp.agg_out.{services.chance.getrandbits(64):016x}"
        fresh = await collections.create(database, interim, {} if old is None else old.options, call.now)
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
        ids, now = self._services.ids, self._call.now

        def decide(transaction: DecisionTransaction) -> Steps[None]:
            workspace = yield from transaction.on(collection.id)
            for document in documents:
                if "_id" not in document:
                    document = {"_id": ids.generate(now), **document}
                check_id(document["_id"])
                yield from writer.insert(workspace, document, encode(document))

        await self._work.perform(decide)

    @property
    def _validates(self) -> bool:
        return not arguments.flag(self._call.body, "bypassDocumentValidation", self._call.name)

    async def merge_rows(self, target: Merge, rows: Sequence[MergeRow]) -> None:
        collection = await ensure_collection_in(self._services, self._call, *target.target)
        if target.on != ("_id",):
            _check_unique(collection, target.on)
        merger = Merger(self._services, self._call, self._work, self._env, collection, target, self._validates)
        for row in rows:
            await merger.merge(row)


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
        now, done = self._call.now, False
        while not done:
            identities = await self._find_identities(document, now)
            try:
                done = await self._work.perform(self._build_decision(document, row.variables, identities))
            except MqlError as error:
                later = max(now, await self._services.engine.now())
                if error.code != 11000 or identities or not await self._find_identities(document, later):
                    raise
            # A concurrent write came first, or the writer's instant is later than this command's: search again.
            if not done:
                now = max(now, await self._services.engine.now())

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
        matching = read_rows(self._work.view, self._collection, selection, ReadTime(now))
        return [Identity(row.record.partition, row.record.key) async for batch in matching for row in batch]

    def _build_decision(
        self, document: Document, variables: Document, identities: Sequence[Identity]
    ) -> Decision[bool]:
        def decide(transaction: DecisionTransaction) -> Steps[bool]:
            workspace = yield from transaction.on(self._collection.id)
            for identity in identities:
                if (yield from workspace.get(identity.partition, identity.key)) is None:
                    continue
                change = self._build_update(document, variables)
                if change is not None:
                    yield from self._writer.update(workspace, [identity], None, change, False)
                return True
            # The documents that the search found are gone or changed: search again, instead of inserting a second one.
            if identities and self._target.on != ("_id",):
                return False
            if self._target.when_not_matched == "fail":
                raise MqlError(13113, UNMATCHED_TEXT)
            if self._target.when_not_matched == "insert":
                check_id(document["_id"])
                yield from self._writer.insert(workspace, document, encode(document))
            return True

        return decide

    def _build_update(self, document: Document, variables: Document) -> Update | None:
        """Build the update of an existing document; None: `whenMatched` leaves the document as it is."""
        action = self._target.when_matched
        if action == "keepExisting":
            return None
        if action == "fail":
            text = "$merge with whenMatched: fail found an existing document with the same values for the 'on' fields"
            raise MqlError(11000, text)
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


async def find_in_view(services: Services, call: Call, work: UnitOfWork, view: Collection) -> tuple[Batches, ReadTime]:
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
    read_time = ReadTime(call.now)
    env = build_env(services, call, view, body)
    return CollectionSource(services, call, work, env, read_time).read(view, stages), read_time


async def encode_batches(batches: Batches) -> AsyncIterator[list[CursorItem]]:
    """Encode documents as items of a cursor."""
    async for batch in batches:
        yield [(None, encode(document)) for document in batch]
