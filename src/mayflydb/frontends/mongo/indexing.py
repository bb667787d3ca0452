"""Indexes of collections: made, changed and dropped, with the rules of expiry that TTL indexes stand for.

An index is entries in the engine; `_id_` is none, since identity finds records by itself. A TTL index on dates has a slot
besides, in which each record has its earliest date, and a rule on that slot. A TTL index on `_ts` under Cosmos DB's semantics is
a rule and nothing else, so that setting or dropping it is one row of the catalogue, whatever the collection holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from mayflydb.engine.building import Wanted
from mayflydb.engine.catalog import Definition, Index, Node
from mayflydb.engine.dates import with_slot, without_slot
from mayflydb.engine.engine import Engine, Scope
from mayflydb.expiry.rules import Rule
from mayflydb.frontends.mongo.collections import Collection, Collections, live_of, packed, slots_of, ts_of
from mayflydb.frontends.mongo.options import Options
from mayflydb.frontends.mongo.writing import duplicate
from mayflydb.model.errors import Conflict, NotFound, OwnerNotFound
from mayflydb.model.instant import Instant
from mayflydb.model.record import Record
from mayflydb.query.mongo.faults import MqlError, bad_value
from mayflydb.query.mongo.index_changes import modify, target, to_drop
from mayflydb.query.mongo.index_keys import dates_of
from mayflydb.query.mongo.index_specs import IndexSpec, Profile, check_beside, compare_with_existing, parse_spec
from mayflydb.query.mongo.values import Document, decode

RESERVED: Final = "'_ts' is a reserved field; use the 'native' profile to keep your own"
TS_COUNTS: Final = 3
"""What a TTL index on `_ts` counts for in replies: itself, and one entry each for the default and for documents' own ttl."""

ID_SPEC: Final = IndexSpec("_id_", (("_id", 1),))


class Created(msgspec.Struct, frozen=True):
    """`before` and `after` count indexes as replies do; `ts`: whether a TTL index on `_ts` is concerned."""

    before: int
    after: int
    made: bool
    ts: bool


class Indexing:
    """Changes of indexes."""

    def __init__(self, engine: Engine, collections: Collections, options: Options) -> None:
        self._engine = engine
        self._collections = collections
        self._options = options

    # --- creating ------------------------------------------------------------------------------------------------------

    def parse(self, collection: Collection, documents: Sequence[Document]) -> list[IndexSpec]:
        """The indexes that documents ask for. Errors: those of `parse_spec`."""
        default = collection.options.get("collation")
        return [parse_spec(each, self._options.profile, default) for each in documents]

    def parse_for_none(self, documents: Sequence[Document]) -> None:
        """The same for a collection that is to be made: refused before it is."""
        for each in documents:
            parse_spec(each, self._options.profile)

    async def create(self, collection: Collection, specs: Sequence[IndexSpec], now: Instant) -> Created:
        """Make those that are missing, all or none, and return when they are ready.

        MqlError 85, 86, 67 for what does not go with the others, 11000 for two documents with one value of a unique index.
        """
        profile = self._options.profile
        before = counted(collection)
        missing = self._missing(collection, specs)
        ordinary = [spec for spec in missing if not spec.is_cosmos_ttl(profile)]
        ts = next((spec for spec in missing if spec.is_cosmos_ttl(profile)), None)
        if ts is not None:
            await self._check_unreserved(collection, now)
        if ordinary:
            await self._build(collection, ordinary)
        if ts is not None or any(spec.reaps_dates(profile) for spec in ordinary):
            await self._put_rules(collection, now, ts)
        after = await self._collections.need(collection.database, collection.name)
        concerned = any(spec.is_cosmos_ttl(profile) for spec in specs)
        return Created(before, counted(after), bool(missing), concerned)

    def _missing(self, collection: Collection, specs: Sequence[IndexSpec]) -> list[IndexSpec]:
        existing = [ID_SPEC, *collection.specs]
        missing: list[IndexSpec] = []
        for spec in specs:
            if spec.is_id or compare_with_existing(spec, existing) == "same":
                continue
            check_beside(spec, existing, collection.namespace, self._options.profile)
            missing.append(spec)
            existing.append(spec)
        return missing

    async def _build(self, collection: Collection, specs: Sequence[IndexSpec]) -> None:
        def choose(node: Node) -> list[Wanted]:
            # As the container is in the transaction: somebody may have been quicker.
            missing = self._missing(Collection(node, collection.database), specs)
            return [Wanted((), spec.unique, {"document": packed(spec.to_document())}) for spec in missing]

        def keys(record: Record, index: Index) -> tuple[bytes, ...]:
            return collection.keys_of(record, index)

        try:
            await self._engine.indexes.define_and_build(collection.id, choose, keys)
        except Conflict as error:
            raise _duplicate_in_build(collection, specs, error) from None
        except OwnerNotFound:
            raise MqlError(26, f"ns does not exist: {collection.namespace}") from None

    async def _check_unreserved(self, collection: Collection, now: Instant) -> None:
        async for batch in self._engine.scan(collection.node, Scope(), None, now):
            for record in batch.records:
                if b"_ts\x00" in record.value and "_ts" in decode(record.value):
                    raise bad_value(RESERVED)

    async def _put_rules(self, collection: Collection, now: Instant, ts: IndexSpec | None) -> None:
        """Give TTL indexes their slots and rules: first the slots, then, when every record has its date, the rules."""

        def with_slots(node: Node) -> Definition:
            definition = node.definition
            slots = slots_of(definition)
            for index in self._reaping(definition):
                if index.number not in slots:
                    definition, slots[index.number] = with_slot(definition)
            return _with_body(definition, slots={str(number): slot for number, slot in slots.items()})

        node = await self._replace(collection, with_slots, now)
        for index in self._reaping(node.definition):
            spec = live_of(index).spec

            def date_of(record: Record, spec: IndexSpec = spec) -> Instant | None:
                return dates_of(spec, decode(record.value))

            await self._engine.dates.build(collection.id, slots_of(node.definition)[index.number], date_of)

        def with_rules(node: Node) -> Definition:
            definition = node.definition
            if ts is not None:
                definition = _with_body(definition, ts=packed(ts.to_document()))
            return msgspec.structs.replace(definition, rules=self.rules(definition))

        await self._replace(collection, with_rules, now)

    def _reaping(self, definition: Definition) -> list[Index]:
        return reaping(definition, self._options.profile)

    def rules(self, definition: Definition) -> tuple[Rule, ...]:
        """What the TTL indexes of a collection come to."""
        return rules_of(definition, self._options.profile, self._options.expiry)

    # --- dropping and changing -----------------------------------------------------------------------------------------

    async def drop(self, collection: Collection, which: Any, now: Instant) -> int:
        """Drop what is named; how many there were. Expiry by them ends at once. MqlError 27, 72, 181."""
        before = counted(collection)
        gone = {spec.name for spec in to_drop(which, [ID_SPEC, *collection.specs])}
        numbers = {live.number: live.slot for live in collection.indexes if live.spec.name in gone}
        ts = collection.ts is not None and collection.ts.name in gone

        def without(node: Node) -> Definition:
            definition = node.definition
            slots = slots_of(definition)
            for number in numbers:
                slot = slots.pop(number, None)
                if slot is not None:
                    definition = without_slot(definition, slot)
            body: dict[str, Any] = {"slots": {str(number): slot for number, slot in slots.items()}}
            definition = _with_body(definition, **body, **({"ts": None} if ts else {}))
            kept = tuple(index for index in definition.indexes if index.number not in numbers)
            rules = self.rules(msgspec.structs.replace(definition, indexes=kept))
            return msgspec.structs.replace(definition, rules=rules)

        await self._replace(collection, without, now)
        if numbers:
            await self._engine.indexes.drop(collection.id, set(numbers))
        for slot in numbers.values():
            if slot is not None:
                await self._engine.dates.remove(collection.id, slot)
        return before

    async def modify(self, collection: Collection, change: Document, now: Instant, dry: bool) -> Document:
        """What collMod's `index` asks for, and what the reply says of it. MqlError 14, 27, 72, 181."""
        existing = [ID_SPEC, *collection.specs]
        meant = target(change, existing, collection.namespace)
        changed, reply = modify(meant, change, self._options.profile)
        if dry or changed == meant:
            return reply
        if changed.unique and not meant.unique:
            raise MqlError(238, "collMod with 'unique' is not supported: create a unique index under another name")

        def with_change(node: Node) -> Definition:
            definition = node.definition
            document = packed(changed.to_document())
            if ts_of(definition) == meant:
                definition = _with_body(definition, ts=document)
            indexes = tuple(
                msgspec.structs.replace(index, spec={"document": document}) if live_of(index).spec == meant else index
                for index in definition.indexes
            )
            definition = msgspec.structs.replace(definition, indexes=indexes)
            return msgspec.structs.replace(definition, rules=self.rules(definition))

        node = await self._replace(collection, with_change, now)
        if any(index.number not in slots_of(node.definition) for index in self._reaping(node.definition)):
            await self._put_rules(collection, now, None)
        return reply

    async def _replace(self, collection: Collection, change: Callable[[Node], Definition], now: Instant) -> Node:
        try:
            return await self._engine.definitions.replace(collection.id, change, now)
        except NotFound:
            raise MqlError(26, f"ns does not exist: {collection.namespace}") from None

    # --- after a start -------------------------------------------------------------------------------------------------

    async def heal(self, now: Instant) -> None:
        """Finish or remove what a process before this one has left half done."""
        for database in await self._collections.databases():
            for collection in await self._collections.of(database.name):
                await self._engine.indexes.abandon(collection.id)
                definition = collection.node.definition
                slots = slots_of(definition)
                if any(index.number not in slots for index in self._reaping(definition)) or self.rules(
                    definition
                ) != _plain(definition.rules):
                    await self._put_rules(collection, now, None)


def reaping(definition: Definition, profile: Profile) -> list[Index]:
    """The indexes whose dates make documents due."""
    ready = [index for index in definition.indexes if index.state == "ready"]
    return [index for index in ready if live_of(index).spec.reaps_dates(profile)]


def rules_of(definition: Definition, profile: Profile, expiry: Literal["show", "hide"]) -> tuple[Rule, ...]:
    """What the TTL indexes of a collection come to."""
    rules: list[Rule] = []
    ts = ts_of(definition)
    if ts is not None and ts.expire_after is not None:
        after = None if ts.expire_after == -1 else ts.expire_after
        rules.append(Rule("default", after, overrides=True, hides=True))
    slots = slots_of(definition)
    hides = expiry == "hide"
    for index in reaping(definition, profile):
        if index.number in slots:
            after = live_of(index).spec.expire_after
            rules.append(Rule("index", after, hides=hides, slot=slots[index.number], passes=not hides))
    return tuple(rules)


def counted(collection: Collection) -> int:
    """How many indexes a reply says there are."""
    return 1 + len(collection.indexes) + (TS_COUNTS if collection.ts is not None else 0)


def _plain(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    return tuple(msgspec.structs.replace(rule, version=0, not_before=None) for rule in rules)


def _with_body(definition: Definition, **fields: Any) -> Definition:
    body: Mapping[str, Any] = {**definition.body, **fields}
    kept = {name: value for name, value in body.items() if value is not None}
    return msgspec.structs.replace(definition, body=kept)


def _duplicate_in_build(collection: Collection, specs: Sequence[IndexSpec], error: Conflict) -> MqlError:
    holder: Any = error.detail.get("holder")
    # Of several unique indexes the one that refused is the one whose key the entry has; its number is no longer there.
    unique = [spec for spec in specs if spec.unique]
    return duplicate(collection, decode(holder.value), error, unique[0] if len(unique) == 1 else None)
