"""Databases and collections: catalogue rows as commands see them, and documents as the engine stores them.

A database exists as long as it has collections, or permanently if a user created it explicitly. The first write to a
collection creates both.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

import msgspec

from mayflydb.engine.building import entry
from mayflydb.engine.catalog import Definition, Index, Node
from mayflydb.engine.commands import Draft
from mayflydb.engine.engine import Engine
from mayflydb.engine.ordered_histories import is_ordered
from mayflydb.evaluation.statement import CHEAP_BYTES
from mayflydb.frontends.mongo.catalog_rows import (
    ReadyIndex,
    pack_document,
    parse_index,
    slots_of,
    ts_index_of,
    unpack_document,
)
from mayflydb.frontends.mongo.clustered import check_key_size, date_of, define_with_order, slot_in, spec_of
from mayflydb.frontends.mongo.contracts import Contract, Contracts
from mayflydb.frontends.mongo.documents import may_have_ttl, ttl_override
from mayflydb.frontends.mongo.streams import notes
from mayflydb.frontends.mongo.time_series.series import INTERNAL, define_series, series_in
from mayflydb.frontends.mongo.usage import UNCOUNTED, Usage
from mayflydb.model.errors import Conflict, Held, NotFound, OwnerNotFound
from mayflydb.model.instant import Instant, Span
from mayflydb.model.record import Dates, Entry, Record
from mayflydb.query.mongo.cheapness import is_cheap_query
from mayflydb.query.mongo.collation import SIMPLE, Collation
from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.filter import Filter, compile_filter
from mayflydb.query.mongo.indexes.key_bytes import id_key
from mayflydb.query.mongo.indexes.keys import keys_of
from mayflydb.query.mongo.indexes.specs import ID, IndexSpec
from mayflydb.query.mongo.text import TextIndex
from mayflydb.query.mongo.validation import check_collection, check_database, check_new_collection
from mayflydb.query.mongo.values import Document, Value, decode, encode

SPACE: Final = "mongo"
PARTITION_BYTES: Final = 8
"""Each document is a partition of its own, named by a digest of its `_id`, because documents have no partition key."""

INTERNAL_DATABASES: Final = ("admin", "config", "local")
"""Databases whose changes no change stream shows."""

# The value is stored in catalogues, so it cannot change.
KEPT_EMPTY: Final = "stands"
"""A field in the body of a database that a user created explicitly: the database remains without collections."""

BUCKETS_PREFIX: Final = "system.buckets."
"""The names of collections in which the server has the buckets of time series, and which programs that back up data read."""

SHARD_KEY: Final = "shardKey"
"""A field in the body of a collection: the field by which a sharded service would distribute documents."""

ID_INDEX: Final[Document] = ID.to_document()


class Identity(msgspec.Struct, frozen=True):
    """The identity of a document: partition and key, both computed from its `_id`."""

    partition: bytes
    key: bytes


def identity_of(id: Value) -> Identity:
    """The identity that belongs to an `_id`. Equal values have one identity: 5 and 5.0, for instance."""
    key = id_key(id)
    return Identity(blake2b(key, digest_size=PARTITION_BYTES).digest(), key)


def is_internal(index: Index) -> bool:
    """Return True for an index that no client made, and none sees."""
    return index.spec is not None and INTERNAL in index.spec


def is_kept_empty(node: Node) -> bool:
    """Return True if a database remains without collections."""
    return KEPT_EMPTY in node.body


class Collection:
    """One collection as a command sees it. A changed catalogue row gives a new object."""

    def __init__(self, node: Node, database: str, contract: Contract) -> None:
        self.node, self.contract, self.usage = node, contract, UNCOUNTED
        self.id = node.id
        self.database = database
        self.name = node.name
        self.namespace = f"{database}.{node.name}"
        self.options: Document = unpack_document(node.body["options"]) if "options" in node.body else {}
        self.uuid = bytes.fromhex(node.body["uuid"])
        self.view_on: str | None = self.options.get("viewOn")
        """The collection that this view reads; None: this is no view."""

        self.capped = bool(self.options.get("capped"))
        self.collation = Collation.parse(self.options["collation"]) if "collation" in self.options else SIMPLE
        if not self.collation.is_simple:
            # Shown in full, and compared so with what a client sends again.
            self.options["collation"] = self.collation.document()
        self.series = series_in(node.definition)
        self.clustered = spec_of(self.options)
        self._id_slot = slot_in(node.definition)
        slots = slots_of(node.definition)
        # An index that is still being built answers no query, and expires nothing.
        complete = [index for index in node.definition.indexes if index.state == "ready"]
        ready_indexes = [parse_index(index, slots.get(index.number)) for index in complete if not is_internal(index)]
        self.indexes = tuple(ready for ready in ready_indexes if not ready.spec.is_id)
        self.has_id_index = any(ready.spec.is_id for ready in ready_indexes)
        self.multikey = frozenset(ready.spec.name for ready in ready_indexes if ready.is_multikey)
        self.ts_index = ts_index_of(node.definition)
        self.remembered: dict[object, Any] = {}
        """Plans and projections that finds keep between commands, as long as this object lasts."""

        self._specs: dict[int, ReadyIndex] = {ready.number: ready for ready in ready_indexes}
        self._validator: Filter | None = None
        self._has_cheap_validator: bool | None = None
        self._validator_uses_now: bool | None = None

    @property
    def specs(self) -> list[IndexSpec]:
        """The specifications of all indexes except that of `_id`, the TTL index on `_ts` included."""
        ordered = [ready.spec for ready in self.indexes]
        return ordered if self.ts_index is None else [*ordered, self.ts_index]

    @property
    def listed_specs(self) -> list[IndexSpec]:
        """The specifications that listIndexes shows. A time series has no index on `_id`."""
        return self.specs if self.series is not None else [self.clustered or ID, *self.specs]

    @property
    def id_index(self) -> IndexSpec:
        """The index of `_id`."""
        return self.clustered or ID

    @property
    def usable_specs(self) -> list[IndexSpec]:
        """The specifications of the indexes that may answer a query; that of `_id` is one of them once it is built."""
        specs = [ready.spec for ready in self.indexes]
        return [self.clustered or ID, *specs] if self.has_id_index else specs

    def number_of(self, spec: IndexSpec) -> int:
        """The engine's number of an index that may answer a query."""
        return next(number for number, ready in self._specs.items() if ready.spec.name == spec.name)

    @property
    def text_index(self) -> TextIndex | None:
        """The text index, which `$text` searches; None: there is none."""
        return next((ready.spec.text for ready in self.indexes if ready.spec.kind == "text"), None)

    @property
    def reserves_ts(self) -> bool:
        """True where `_ts` is the time of the last write, so that no document can have a field of its own of this name."""
        return self.ts_index is not None or self.contract.is_cosmos

    @property
    def keeps_images(self) -> bool:
        """True if change streams may ask for pre-images and post-images of documents."""
        return bool(self.options.get("changeStreamPreAndPostImages", {}).get("enabled"))

    def build_draft(self, document: Document, raw: bytes, remembered: bytes | None = None) -> Draft:
        """A document as the engine stores it. The write raises the errors of its index keys."""

        def index_entries(indexes: Sequence[Index]) -> tuple[Entry, ...]:
            return self.build_entries(document, indexes)

        def find_dates(definition: Definition) -> Dates:
            return self.find_dates(document, definition)

        return Draft(
            raw,
            # The override is stored even without a TTL index on `_ts`: an index that comes later counts it.
            override=ttl_override(document) if may_have_ttl(raw) else None,
            indexed=index_entries,
            dates=find_dates,
            remembered=remembered,
        )

    def build_draft_of(self, raw: bytes) -> Draft:
        """A document without a field `ttl` as the engine stores it, decoded only if an index asks for it."""

        def index_entries(indexes: Sequence[Index]) -> tuple[Entry, ...]:
            return self.build_entries(decode(raw), indexes) if indexes else ()

        def find_dates(definition: Definition) -> Dates:
            has_dates = "slots" in definition.body or self._id_slot is not None
            return self.find_dates(decode(raw), definition) if has_dates else ()

        return Draft(raw, indexed=index_entries, dates=find_dates)

    def _ready_index(self, index: Index) -> ReadyIndex:
        # The transaction's indexes may be newer than this object.
        known = self._specs.get(index.number)
        if known is None:
            known = self._specs[index.number] = parse_index(index)
        return known

    def build_entries(self, document: Document, indexes: Sequence[Index]) -> tuple[Entry, ...]:
        """The entries of a document in the given indexes."""
        if not indexes:
            return ()
        if self.clustered is not None:
            check_key_size(document["_id"])
        partition = identity_of(document["_id"]).partition
        return tuple(
            entry(index, key, partition)
            for index in indexes
            if not is_internal(index)
            for key in keys_of(self._ready_index(index).spec, document)
        )

    def find_dates(self, document: Document, definition: Definition) -> Dates:
        """(slot, date) for each TTL index that finds a date in a document."""
        found: list[tuple[int, Instant]] = []
        if self._id_slot is not None and (date := date_of(document["_id"])) is not None:
            found.append((self._id_slot, date))
        if "slots" not in definition.body:
            return tuple(found)
        slots = slots_of(definition)
        for index in definition.indexes:
            if index.number in slots:
                date = self._ready_index(index).find_date(document)
                if date is not None:
                    found.append((slots[index.number], date))
        return tuple(found)

    def index_keys(self, record: Record, index: Index) -> tuple[bytes, ...]:
        """The keys of a stored record in an index that is being built."""
        return tuple(keys_of(self._ready_index(index).spec, decode(record.value)))

    @property
    def has_cheap_validator(self) -> bool:
        """True if matching the validator takes time linear in the bytes of a document, or there is none."""
        if self._has_cheap_validator is None:
            validator = self.options.get("validator")
            self._has_cheap_validator = not validator or (
                self.collation.is_simple and len(encode(validator)) <= CHEAP_BYTES and is_cheap_query(validator)
            )
        return self._has_cheap_validator

    def compile_validator(self, env: Env) -> Filter | None:
        """The filter that documents must match, under the collection's collation; None: there is no validator."""
        validator = self.options.get("validator")
        if not validator or self.options.get("validationLevel") == "off":
            return None
        env = msgspec.structs.replace(env, collation=self.collation)
        # A filter with a time is compiled for each command, any other once for this object.
        if self._validator_uses_now is None:
            text = encode(validator)
            self._validator_uses_now = b"$$NOW" in text or b"$$CLUSTER_TIME" in text
        if self._validator_uses_now:
            return compile_filter(validator, env)
        if self._validator is None:
            self._validator = compile_filter(validator, env)
        return self._validator


class Collections:
    """All collections by name. Objects are cached until the catalogue changes."""

    def __init__(self, engine: Engine, contracts: Contracts, uuid: Callable[[], bytes], retention: Span) -> None:
        """`uuid` returns sixteen random bytes. `retention`: the span for which histories keep changes."""
        self._engine, self._contracts, self._uuid, self._retention = engine, contracts, uuid, retention
        self.usage = Usage()
        self._version = -1
        self._cache: dict[tuple[str, str], Collection | None] = {}

    def contract(self, database: str) -> Contract:
        """The TTL contract of a database."""
        return self._contracts.of(database)

    def from_node(self, node: Node, database: str) -> Collection:
        """The collection of a catalogue row."""
        return Collection(node, database, self._contracts.of(database, node.name))

    def find_cached(self, database: str, name: str) -> Collection | None:
        """A collection from the cache; None: the catalogue must be read."""
        version = self._engine.catalog_version
        if version != self._version:
            self._cache.clear()
            self._version = version
        return self._cache.get((database, name))

    async def find(self, database: str, name: str) -> Collection | None:
        """Find a collection or view; None: there is none. Raise MqlError 73 for an invalid name."""
        cached = self.find_cached(database, name)
        if cached is not None:
            return cached
        check_database(database)
        check_collection(database, name)
        if name.startswith(BUCKETS_PREFIX):
            series = await self.find(database, name.removeprefix(BUCKETS_PREFIX))
            if series is not None and series.series is not None:
                text = "measurements are stored without bucket documents"
                raise MqlError(73, f"Invalid namespace {database}.{name}: {text}")
        while True:
            version = self._version
            node = await self._engine.node(SPACE, database, name)
            found = None if node is None else self.from_node(node, database)
            if found is not None:
                found.usage = self.usage.of(found.id, database, name)
            # Otherwise the catalogue has changed during the read: a row of before must not stay in the cache.
            if self._engine.catalog_version == version:
                if found is not None:
                    self._cache[database, name] = found
                return found
            self.find_cached(database, name)

    async def get(self, database: str, name: str) -> Collection:
        """Find a collection or view. Raise MqlError 26 if there is none."""
        found = await self.find(database, name)
        if found is None:
            raise MqlError(26, f"ns does not exist: {database}.{name}")
        return found

    async def ensure(self, database: str, name: str, now: Instant) -> Collection:
        """Find a collection, and create it if it is missing, as a first write does."""
        while (found := await self.find(database, name)) is None:
            try:
                await self.create(database, name, {}, now)
            except MqlError as error:
                # 48: another client has created the collection first.
                if error.code != 48:
                    raise
        return found

    async def create(
        self,
        database: str,
        name: str,
        options: Document,
        now: Instant,
        offer: Mapping[str, Any] | None = None,
        shard_key: str | None = None,
    ) -> Collection:
        """Create a collection.

        Raise MqlError 48 if the name is taken, 73 for an invalid name, 13297 where a database of this name in another
        case exists. `offer`: the collection's own throughput, as `engine.throughput` stores it.
        """
        check_database(database)
        check_new_collection(database, name)
        body: dict[str, Any] = {"uuid": self._uuid().hex()}
        if options:
            body["options"] = pack_document(options)
        if shard_key is not None:
            body[SHARD_KEY] = shard_key
        definition = Definition(body, now, offer=offer)
        if "timeseries" in options:
            definition = define_series(definition, options, self._contracts.of(database, name))
        elif "clusteredIndex" in options:
            definition = define_with_order(definition, options, self._contracts.of(database, name))
        note = notes.encode_expanded_event("create", {"idIndex": ID_INDEX, **options})
        while True:
            parent = await self._ensure_database(database, now)
            try:
                await self._engine.definitions.create(parent.id, name, definition, lambda node: note, now)
            except OwnerNotFound:
                continue  # The database was dropped meanwhile.
            except Conflict:
                raise MqlError(48, f"Collection {database}.{name} already exists.") from None
            found = await self.find(database, name)
            if found is not None:
                return found

    async def _ensure_database(self, name: str, now: Instant) -> Node:
        definitions = self._engine.definitions
        note = None if name in INTERNAL_DATABASES else (lambda node: notes.encode_expanded_event("createDatabase", {}))
        while True:
            node = await self._engine.node(SPACE, name)
            if node is not None:
                return node
            space = await definitions.space(SPACE, now)
            for other in await self._engine.children(space.id):
                if other.name.lower() == name.lower() and other.name != name:
                    text = (
                        f"db already exists with different case already have: [{other.name}] trying to create [{name}]"
                    )
                    raise MqlError(13297, text)
            try:
                return await definitions.create(space.id, name, Definition({}, now), note, now)
            except Conflict:
                continue

    async def find_database(self, name: str) -> Node | None:
        """Find a database. None: there is none, or its row exists only for change streams that wait for its collections."""
        node = await self._engine.node(SPACE, name)
        return node if node is not None and await self._is_listed(node) else None

    async def _is_listed(self, node: Node) -> bool:
        return not is_ordered(node) or is_kept_empty(node) or bool(await self._engine.children(node.id))

    async def create_database(self, name: str, offer: Mapping[str, Any] | None, now: Instant) -> None:
        """Create a database that remains without collections. Raise MqlError 48 if it exists, 73, 13297."""
        check_database(name)
        if await self.find_database(name) is not None:
            raise MqlError(48, f"Database {name} already exists.")
        await self.provision_database(await self._ensure_database(name, now), offer, now)

    async def provision_database(self, node: Node, offer: Mapping[str, Any] | None, now: Instant) -> None:
        """Change the throughput of a database, which from now on remains without collections.

        Raise MqlError 26 if it is gone.
        """

        def change_definition(node: Node) -> Definition:
            return msgspec.structs.replace(node.definition, body={**node.body, KEPT_EMPTY: True}, offer=offer)

        try:
            await self._engine.definitions.replace(node.id, change_definition, now)
        except NotFound:
            raise MqlError(26, f"ns does not exist: {node.name}") from None

    async def list_databases(self) -> list[Node]:
        """The databases that have collections or that a user created explicitly, by name."""
        space = await self._engine.node(SPACE)
        found = [] if space is None else await self._engine.children(space.id)
        found = [each for each in found if await self._is_listed(each)]
        return sorted(found, key=lambda node: node.name)

    async def list_collections(self, database: str) -> list[Collection]:
        """The collections and views of a database, by name."""
        check_database(database)
        node = await self._engine.node(SPACE, database)
        found = [] if node is None else await self._engine.children(node.id)
        return sorted((self.from_node(each, database) for each in found), key=lambda each: each.name)

    async def start_histories(self, database: str | None, name: str | None, now: Instant) -> int:
        """Keep histories of changes from now on, and return the id of the node that orders their lines.

        `name` None: for all collections of the database. Both None: for all databases. Later collections and databases are
        included.
        """
        engine = self._engine

        def find_quiet_instant() -> Instant:
            return engine.quiet_since(now)

        space = await engine.definitions.space(SPACE, now)
        if database is None:
            await engine.ordered_histories.begin(
                space.id, space.id, self._retention, find_quiet_instant, INTERNAL_DATABASES
            )
            return space.id
        check_database(database)
        if name is not None:
            check_collection(database, name)
        while True:
            with contextlib.suppress(NotFound):
                # A stream may wait for a collection that does not exist yet, so the database gets a row, which no list
                # shows.
                home = await self._ensure_database(database, now)
                await engine.ordered_histories.begin(
                    home.id, space.id, self._retention, find_quiet_instant, () if name is None else None
                )
                found = None if name is None else await self.find(database, name)
                if found is not None:
                    await engine.ordered_histories.begin(found.id, space.id, self._retention, find_quiet_instant)
                return space.id

    async def drop(self, collection: Collection, now: Instant) -> None:
        """Drop a collection. A database that loses its last collection is dropped too, unless a user created it explicitly."""
        note = notes.encode_drop_event(collection.view_on is not None)
        with contextlib.suppress(NotFound):
            # The second drop decides in its own transaction that the database is empty: a collection that was created
            # in it meanwhile keeps it.
            await self._engine.definitions.drop(collection.id, note_of=lambda node: note, now=now)
            await self._engine.definitions.drop(collection.node.parent, only_empty=True, unless=is_kept_empty)

    async def provision(
        self, collection: Collection, shard_key: str | None, offer: Mapping[str, Any] | None, now: Instant
    ) -> None:
        """Change the throughput and the shard key of a collection. Raise MqlError 26 if it is gone."""

        def change_definition(node: Node) -> Definition:
            body = {name: value for name, value in node.body.items() if name != SHARD_KEY}
            if shard_key is not None:
                body[SHARD_KEY] = shard_key
            return msgspec.structs.replace(node.definition, body=body, offer=offer)

        try:
            await self._engine.definitions.replace(collection.id, change_definition, now)
        except NotFound:
            raise MqlError(26, f"ns does not exist: {collection.namespace}") from None

    async def replace_options(self, collection: Collection, options: Document, now: Instant) -> None:
        """Change the options of a collection. Raise MqlError 26 if it is gone."""

        def change_definition(node: Node) -> Definition:
            return msgspec.structs.replace(node.definition, body={**node.body, "options": pack_document(options)})

        try:
            await self._engine.definitions.replace(collection.id, change_definition, now)
        except NotFound:
            raise MqlError(26, f"ns does not exist: {collection.namespace}") from None

    async def record_event(self, collection: Collection, operation: str, description: Document, now: Instant) -> None:
        """Record an event that change streams show under `showExpandedEvents`."""
        await self._engine.ordered_histories.add_note(
            collection.id, notes.encode_expanded_event(operation, description), now
        )
        self._engine.reaper.notifier.notify()

    async def rename(
        self, collection: Collection, database: str, name: str, replacing: Collection | None, now: Instant
    ) -> None:
        """Rename a collection, optionally in place of another one, by a change of one row. Raise MqlError 48, 26, 73."""
        check_database(database)
        check_new_collection(database, name)
        parent = await self._ensure_database(database, collection.node.definition.written)
        old = None if replacing is None else replacing.id

        def note(node: Node) -> bytes:
            if node.id == old:
                return notes.encode_replacement_event(collection.database, collection.name, collection.uuid)
            return notes.encode_rename_event(database, name, None if replacing is None else replacing.uuid)

        try:
            await self._engine.definitions.move(collection.id, parent.id, name, old, note, now)
        except Held:
            raise
        except Conflict:
            raise MqlError(48, "target namespace exists") from None
        except NotFound:
            raise MqlError(26, f"Source collection {collection.namespace} does not exist") from None
        if collection.node.parent != parent.id:
            with contextlib.suppress(NotFound):
                await self._engine.definitions.drop(collection.node.parent, only_empty=True, unless=is_kept_empty)

    async def drop_database(self, name: str, now: Instant) -> bool:
        """Drop a database and all that it holds. Return False if there is none."""
        node = await self._engine.node(SPACE, name)
        if node is None:
            return False

        def note(each: Node) -> bytes:
            return (
                notes.encode_drop_database_event()
                if each.id == node.id
                else notes.encode_drop_event(self.from_node(each, name).view_on is not None)
            )

        try:
            await self._engine.definitions.drop(node.id, note_of=note, now=now)
        except NotFound:
            return False
        return True
