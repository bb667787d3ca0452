"""Changes of indexes, together with the rules of expiry that TTL indexes stand for.

An index is a set of entries in the engine. `_id_` has none, because records are found by identity anyway. A TTL index
on dates also has a date slot, which holds the earliest date of each record, and a rule that counts from the slot. A TTL
index on `_ts` under Cosmos DB's semantics is only a rule: setting or dropping the index changes one row of the catalogue,
however large the collection is.

A change has several commits, and a crash may come between any two. Their order keeps every state between them safe: rules
are installed last and removed first, so no document expires by an index that is half built or half dropped. `recover`
completes or removes the rest.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

import msgspec

from mayflydb.engine.building import Choose, IndexRequest
from mayflydb.engine.catalog import Definition, Index, Node
from mayflydb.engine.dates import with_slot, without_slot
from mayflydb.engine.engine import Engine
from mayflydb.engine.scans import Scope
from mayflydb.expiry.rules import without_stamps
from mayflydb.frontends.mongo.catalog_rows import (
    ReadyIndex,
    pack_document,
    parse_index,
    slots_of,
    ts_index_of,
    unpack_document,
)
from mayflydb.frontends.mongo.clustered import clustered_rules, without_clustered
from mayflydb.frontends.mongo.collections import Collection, Collections
from mayflydb.frontends.mongo.contracts import Contract, check_profile
from mayflydb.frontends.mongo.rules import date_rule, ts_rule
from mayflydb.frontends.mongo.time_series.restrictions import check_index, check_index_documents
from mayflydb.frontends.mongo.time_series.series import bucket_rule, find_index_date, series_in, series_rules
from mayflydb.frontends.mongo.uniqueness import check_unique
from mayflydb.frontends.mongo.writing import RESERVED_TS_TEXT, duplicate_key_error
from mayflydb.model.errors import Conflict, MayflyError, NotFound, OwnerNotFound
from mayflydb.model.instant import Instant
from mayflydb.model.order import HASH_BYTES
from mayflydb.model.record import Record
from mayflydb.query.mongo.faults import MqlError, bad_value
from mayflydb.query.mongo.indexes.changes import indexes_to_drop, modify_index, resolve_target
from mayflydb.query.mongo.indexes.keys import keys_of
from mayflydb.query.mongo.indexes.specs import ID, IndexSpec, check_against_existing, compare_with_existing, parse_spec
from mayflydb.query.mongo.values import Document, decode

log = logging.getLogger(__name__)

T = TypeVar("T")

TS_INDEX_COUNT: Final = 3
"""Replies in Cosmos DB's shape count a TTL index on `_ts` as three indexes: their example goes from 1 to 4.

https://learn.microsoft.com/azure/cosmos-db/mongodb/time-to-live
"""


class IndexCreation(msgspec.Struct, frozen=True):
    """The collection before and after. `created`: an index is new. `concerns_ts`: a TTL index on `_ts` was asked for."""

    before: Collection
    after: Collection
    created: bool
    concerns_ts: bool


class IndexRemoval(msgspec.Struct, frozen=True):
    """The collection before. `concerns_ts`: a TTL index on `_ts` is among the dropped indexes."""

    before: Collection
    concerns_ts: bool


class Indexing:
    """Creates, changes and drops indexes."""

    def __init__(self, engine: Engine, collections: Collections) -> None:
        self._engine = engine
        self._collections = collections
        self._locks: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()
        self._id_builds: dict[int, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    # --- creating ------------------------------------------------------------------------------------------------------

    def parse(self, collection: Collection, documents: Sequence[Document]) -> list[IndexSpec]:
        """Parse the specifications of indexes. Errors: those of `parse_spec`."""
        contract, default = collection.contract, collection.options.get("collation")
        documents = without_clustered(list(documents), collection.clustered)
        specs = [parse_spec(each, contract.profile, default, contract.custom_path) for each in documents]
        if collection.series is not None:
            check_index_documents(documents)
            for spec in specs:
                check_index(collection.series, spec)
        return specs

    @staticmethod
    def check_specs(contract: Contract, documents: Sequence[Document]) -> None:
        """Check specifications for a collection that does not exist yet. Errors: those of `parse_spec`."""
        for each in documents:
            parse_spec(each, contract.profile, None, contract.custom_path)

    async def create(self, collection: Collection, specs: Sequence[IndexSpec], now: Instant) -> IndexCreation:
        """Create the missing indexes, all or none, and return when they are ready.

        The build continues if its caller stops waiting.

        Raise MqlError 85, 86, 67 for a conflict with another index, 11000 for two documents with one value of a unique
        index.
        """
        return await self._run_in_turn(collection, lambda current: self._create(current, specs, now))

    async def _create(self, collection: Collection, specs: Sequence[IndexSpec], now: Instant) -> IndexCreation:
        profile = collection.contract.profile
        if any(index.state == "building" for index in collection.node.definition.indexes):
            # This node builds nothing now: the build belongs to another node, or to a process that has ended.
            await self._engine.indexes.remove_abandoned(collection.id)
        missing = self._missing_specs(collection, specs)
        # A TTL index on `_ts` has no entries to build: it is only a rule.
        ordinary = [spec for spec in missing if not spec.is_cosmos_ttl(profile)]
        ts = next((spec for spec in missing if spec.is_cosmos_ttl(profile)), None)
        if ts is not None:
            await self._check_no_ts_field(collection, now)
        if ordinary:
            await self._build(collection, ordinary)
        if any(spec.prepare_unique for spec in ordinary):
            await self._guard(collection, ordinary, now)
        if ts is not None or any(spec.expires_by_date(profile) for spec in ordinary):
            await self._install_rules(collection, now, ts)
        after = await self._collections.get(collection.database, collection.name)
        present = {ID.name, *(spec.name for spec in after.specs)}
        after.usage.begin_indexes([spec.name for spec in missing], present, now)
        return IndexCreation(collection, after, bool(missing), any(spec.is_cosmos_ttl(profile) for spec in specs))

    def _missing_specs(self, collection: Collection, specs: Sequence[IndexSpec]) -> list[IndexSpec]:
        existing = [ID, *collection.specs]
        missing: list[IndexSpec] = []
        for spec in specs:
            if spec.is_id or compare_with_existing(spec, existing) == "same":
                continue
            contract = collection.contract
            check_against_existing(spec, existing, collection.namespace, contract.profile, contract.custom_path)
            missing.append(spec)
            existing.append(spec)
        return missing

    async def _build(self, collection: Collection, specs: Sequence[IndexSpec]) -> None:
        def choose(node: Node) -> list[IndexRequest]:
            # Decide by the container as the transaction sees it: another node may have created an index.
            missing = self._missing_specs(self._collections.from_node(node, collection.database), specs)
            _check_concurrent_builds(node, missing)
            return [IndexRequest((), spec.unique, self._catalogue_spec(spec, collection.contract)) for spec in missing]

        def keys(record: Record, index: Index) -> tuple[bytes, ...]:
            return collection.index_keys(record, index)

        try:
            await self._engine.indexes.define_and_build(collection.id, choose, keys)
        except Conflict as error:
            raise _duplicate_error(collection, specs, error) from None
        except OwnerNotFound:
            raise MqlError(26, f"ns does not exist: {collection.namespace}") from None

    async def _guard(self, collection: Collection, specs: Sequence[IndexSpec], now: Instant) -> None:
        """Let no new duplicates into the indexes among these that are prepared to become unique."""

        def with_guards(node: Node) -> Definition:
            indexes = node.definition.indexes
            for spec in specs:
                if spec.prepare_unique:
                    indexes = tuple(_with_spec(each, spec, pack_document(spec.to_document()), True) for each in indexes)
            return msgspec.structs.replace(node.definition, indexes=indexes)

        await self._replace(collection, with_guards, now)

    @staticmethod
    def _catalogue_spec(spec: IndexSpec, contract: Contract) -> dict[str, Any]:
        """The catalogue's row of an index.

        An index on a custom path of profile `cosmos` takes numbers for dates, and keeps doing so under a later
        contract.
        """
        takes_numbers = {"numbers": True} if contract.is_cosmos and spec.expire_after is not None else {}
        return {"document": pack_document(spec.to_document()), **takes_numbers}

    async def _check_no_ts_field(self, collection: Collection, now: Instant) -> None:
        async for batch in self._engine.scan(collection.node, Scope(), None, now):
            for record in batch.records:
                if b"_ts\x00" in record.value and "_ts" in decode(record.value):
                    raise bad_value(RESERVED_TS_TEXT)

    async def _install_rules(self, collection: Collection, now: Instant, ts: IndexSpec | None) -> None:
        """Give TTL indexes their date slots, then their rules. The rules come last, when every record has its dates."""

        contract = collection.contract

        def with_slots(node: Node) -> Definition:
            definition = node.definition
            slots = slots_of(definition)
            for index in expiring_indexes(definition, contract):
                if index.number not in slots:
                    definition, slots[index.number] = with_slot(definition)
            return _with_body(definition, slots={str(number): slot for number, slot in slots.items()})

        # From this commit on, writes fill the new slots. The builds then fill them for older records. So no record is
        # missed.
        node = await self._replace(collection, with_slots, now)
        for index in expiring_indexes(node.definition, contract):
            ready = parse_index(index)

            def date_of(record: Record, ready: ReadyIndex = ready) -> Instant | None:
                return find_index_date(collection.series, ready, record)

            await self._engine.dates.build(collection.id, slots_of(node.definition)[index.number], date_of)

        def with_rules(node: Node) -> Definition:
            definition = node.definition
            # Within the transaction: another command may have created the same index first.
            there = ts_index_of(definition)
            if ts is not None and (there is None or compare_with_existing(ts, [there]) == "new"):
                definition = _with_body(definition, ts=pack_document(ts.to_document()))
            return apply_rules(definition, contract)

        await self._replace(collection, with_rules, now)

    # --- dropping and changing -----------------------------------------------------------------------------------------

    async def rebuild(self, collection: Collection) -> None:
        """Compute the entries of all indexes anew."""
        await self._run_in_turn(collection, self._rebuild)

    async def _rebuild(self, collection: Collection) -> None:
        await self._engine.indexes.rebuild(collection.id, collection.index_keys)

    async def drop(self, collection: Collection, which: Any, now: Instant) -> IndexRemoval:
        """Drop the named indexes, which ends expiry by them at once. Raise MqlError 27, 72, 181."""
        return await self._run_in_turn(collection, lambda current: self._drop(current, which, now))

    async def _drop(self, collection: Collection, which: Any, now: Instant) -> IndexRemoval:
        names = {spec.name for spec in indexes_to_drop(which, collection.listed_specs)}
        slots_by_number = {ready.number: ready.slot for ready in collection.indexes if ready.spec.name in names}
        ts = collection.ts_index is not None and collection.ts_index.name in names

        def without_indexes(node: Node) -> Definition:
            definition = node.definition
            slots = slots_of(definition)
            for number in slots_by_number:
                slot = slots.pop(number, None)
                if slot is not None:
                    definition = without_slot(definition, slot)
            body: dict[str, Any] = {"slots": {str(number): slot for number, slot in slots.items()}}
            definition = _with_body(definition, **body, **({"ts": None} if ts else {}))
            # The rules lose the indexes here. The indexes themselves stay until `drop` below removes their entries,
            # too.
            kept = tuple(index for index in definition.indexes if index.number not in slots_by_number)
            after = apply_rules(msgspec.structs.replace(definition, indexes=kept), collection.contract)
            return msgspec.structs.replace(after, indexes=definition.indexes)

        # Expiry ends with this commit, before the slower removal of entries and dates begins.
        await self._replace(collection, without_indexes, now)
        if slots_by_number:
            await self._engine.indexes.drop(collection.id, set(slots_by_number))
        for slot in slots_by_number.values():
            if slot is not None:
                await self._engine.dates.remove(collection.id, slot)
        return IndexRemoval(collection, ts)

    async def replace(self, collection: Collection, documents: Sequence[Document], now: Instant) -> None:
        """Make these the only indexes.

        A TTL index that differs only in its time is changed in place. Errors: those of `create`.
        """
        specs = self.parse(collection, documents)
        wanted = {spec.name: spec for spec in specs}
        for before in collection.specs:
            after = wanted.get(before.name)
            if after == before:
                continue
            if after is not None and None not in (before.expire_after, after.expire_after):
                changed = msgspec.structs.replace(before, expire_after=after.expire_after)
                if changed == after:
                    await self.modify(
                        collection, {"name": before.name, "expireAfterSeconds": after.expire_after}, now, False
                    )
                    continue
            await self.drop(collection, before.name, now)
        await self.create(await self._collections.get(collection.database, collection.name), specs, now)

    async def modify(self, collection: Collection, change: Document, now: Instant, dry_run: bool) -> Document:
        """Carry out collMod's `index`, and return its part of the reply. Raise MqlError 14, 27, 72, 181."""
        return await self._run_in_turn(collection, lambda current: self._modify(current, change, now, dry_run))

    async def _modify(self, collection: Collection, change: Document, now: Instant, dry_run: bool) -> Document:
        before = resolve_target(change, collection.listed_specs, collection.namespace)
        changed, reply = modify_index(before, change, collection.contract.profile)
        if collection.series is not None:
            check_index(collection.series, changed)
        if changed.unique and not before.unique:
            ready = next(each for each in collection.indexes if each.spec == before)
            index = next(each for each in collection.node.definition.indexes if each.number == ready.number)
            await check_unique(self._engine, collection, index, now)
        if dry_run:
            return {}
        if changed == before:
            return reply
        if changed.is_cosmos_ttl(collection.contract.profile) and collection.ts_index != before:
            await self._convert_to_ts_index(collection, before, changed, now)
        else:
            await self._change_in_place(collection, before, changed, now)
        return reply

    async def _change_in_place(
        self, collection: Collection, before: IndexSpec, changed: IndexSpec, now: Instant
    ) -> None:
        contract = collection.contract

        def with_change(node: Node) -> Definition:
            definition = node.definition
            document = pack_document(changed.to_document())
            if ts_index_of(definition) == before:
                definition = _with_body(definition, ts=document)
            guarded = changed.prepare_unique or changed.unique
            indexes = tuple(_with_spec(index, before, document, guarded) for index in definition.indexes)
            return apply_rules(msgspec.structs.replace(definition, indexes=indexes), contract)

        node = await self._replace(collection, with_change, now)
        if any(index.number not in slots_of(node.definition) for index in expiring_indexes(node.definition, contract)):
            await self._install_rules(collection, now, None)

    async def _convert_to_ts_index(
        self, collection: Collection, before: IndexSpec, after: IndexSpec, now: Instant
    ) -> None:
        """Turn an ordinary index on `_ts` into the TTL index there, which has no entries."""
        await self._check_no_ts_field(collection, now)
        number = next(ready.number for ready in collection.indexes if ready.spec == before)
        # The rule first: a crash between the two leaves an index too many, and no document without expiry.
        await self._install_rules(collection, now, after)
        await self._engine.indexes.drop(collection.id, {number})

    async def _run_in_turn(self, collection: Collection, act: Callable[[Collection], Coroutine[Any, Any, T]]) -> T:
        """Run `act` after the other index changes of the collection, with the collection as it is then.

        A change runs to its end even if its caller is cancelled, so that no change stops half way.
        """

        async def run() -> T:
            # The dictionary holds locks weakly: a lock lives as long as a change uses it or waits for it.
            async with self._locks.setdefault(collection.id, asyncio.Lock()):
                return await act(await self._collections.get(collection.database, collection.name))

        task = asyncio.ensure_future(run())
        self._tasks.add(task)
        task.add_done_callback(self._log_failure)
        return await asyncio.shield(task)

    def _log_failure(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.debug("a change of indexes ended: %s", error)

    async def _replace(self, collection: Collection, change: Callable[[Node], Definition], now: Instant) -> Node:
        try:
            return await self._engine.definitions.replace(collection.id, change, now)
        except NotFound:
            raise MqlError(26, f"ns does not exist: {collection.namespace}") from None

    def request_id_index(self, collection: Collection) -> None:
        """Start to build an ordered index of `_id`, for queries that need ranges or the order of `_id`.

        No list shows the index: for clients, `_id_` exists from the creation of the collection on.
        """
        if collection.id in self._id_builds:
            return

        def choose(node: Node) -> list[IndexRequest]:
            # Within the transaction: another node may have begun the same build.
            has = any(parse_index(index).spec.is_id for index in node.definition.indexes)
            return [] if has else [IndexRequest((), False, {"document": pack_document(ID.to_document())})]

        task = asyncio.create_task(self._build_id_index(collection, choose), name=f"_id_ of {collection.namespace}")
        self._id_builds[collection.id] = task
        task.add_done_callback(lambda _: self._id_builds.pop(collection.id, None))

    async def _build_id_index(self, collection: Collection, choose: Choose) -> None:
        try:
            await self._engine.indexes.define_and_build(collection.id, choose, collection.index_keys)
        except MayflyError as error:
            # Queries scan meanwhile, and request the index again.
            log.warning("the order of _id in %s is not built: %s", collection.namespace, error)

    # --- time series ---------------------------------------------------------------------------------------------------

    async def change_options(
        self, collection: Collection, change: Callable[[Document], Document], now: Instant
    ) -> None:
        """Change the options of a time series or a clustered collection, and the rules that follow from them.

        Raise MqlError 26, and those of `change`.
        """

        def with_options(node: Node) -> Definition:
            options = change(unpack_document(node.body["options"]))
            return apply_rules(_with_body(node.definition, options=pack_document(options)), collection.contract)

        async def act(current: Collection) -> None:
            if change(current.options) != current.options:
                await self._replace(current, with_options, now)

        await self._run_in_turn(collection, act)

    # --- after a start -------------------------------------------------------------------------------------------------

    async def recover(self, now: Instant) -> None:
        """Complete or remove unfinished changes of an earlier process, and apply the contracts to all collections.

        Raise ProfileChanged where a TTL index on `_ts` was created under another profile.
        """
        # All profiles are checked before anything is changed, so that a refused start changes nothing.
        databases = await self._collections.list_databases()
        found = [each for one in databases for each in await self._collections.list_collections(one.name)]
        for collection in found:
            check_profile(collection.contract, collection.node.body.get("profile"), collection.namespace)
        for collection in found:
            await self._engine.indexes.remove_abandoned(collection.id)
            await self.apply_contract(collection, now)

    async def apply_contract(self, collection: Collection, now: Instant) -> None:
        """Remove the rest of dropped date slots, and install the rules that the collection's contract asks for."""
        definition = collection.node.definition
        for slot in definition.slots:
            if slot.state == "dropped":
                await self._engine.dates.remove(collection.id, slot.number)
        slots = slots_of(definition)
        missing = any(index.number not in slots for index in expiring_indexes(definition, collection.contract))
        rules = apply_rules(definition, collection.contract).rules
        if missing or rules != tuple(map(without_stamps, definition.rules)):
            await self._install_rules(collection, now, None)


def index_count(collection: Collection, cosmos_shape: bool) -> int:
    """The number of indexes that a reply states, in Cosmos DB's shape or in MongoDB's."""
    return len(collection.listed_specs) + (
        TS_INDEX_COUNT - 1 if cosmos_shape and collection.ts_index is not None else 0
    )


def apply_rules(definition: Definition, contract: Contract) -> Definition:
    """Return a definition with the rules that its TTL indexes stand for. An index on `_ts` also fixes the profile."""
    rules = [*series_rules(definition, contract), *clustered_rules(definition, contract)]
    series = series_in(definition)
    ts = ts_index_of(definition)
    if ts is not None and ts.expire_after is not None:
        rules.append(ts_rule(ts.expire_after))
    slots = slots_of(definition)
    on_ts = ts is not None
    for index in expiring_indexes(definition, contract):
        ready = parse_index(index)
        on_ts = on_ts or ready.spec.key[0][0] == "_ts"
        expire_after = ready.spec.expire_after
        if index.number not in slots or expire_after is None:
            continue
        if series is not None:
            rules.append(bucket_rule(series, expire_after, slots[index.number], contract))
        else:
            rules.append(date_rule(expire_after, slots[index.number], contract, ready.accepts_numbers))
    # The profile stays the one of the creation: under another, documents would get other deadlines.
    profile = definition.body.get("profile", contract.profile) if on_ts else None
    return msgspec.structs.replace(_with_body(definition, profile=profile), rules=tuple(rules))


def expiring_indexes(definition: Definition, contract: Contract) -> list[Index]:
    """Return the complete TTL indexes on dates."""
    complete = [index for index in definition.indexes if index.state == "ready"]
    return [index for index in complete if parse_index(index).spec.expires_by_date(contract.profile)]


def _with_spec(index: Index, before: IndexSpec, document: str, guarded: bool) -> Index:
    if index.spec is None or parse_index(index).spec != before:
        return index
    # An index that was created as a unique one needs no guard.
    spec = {**index.spec, "document": document}
    return msgspec.structs.replace(index, spec=spec, guarded=guarded and not index.unique)


def _with_body(definition: Definition, **fields: Any) -> Definition:
    body: Mapping[str, Any] = {**definition.body, **fields}
    kept = {name: value for name, value in body.items() if value is not None}
    return msgspec.structs.replace(definition, body=kept)


def _check_concurrent_builds(node: Node, specs: Sequence[IndexSpec]) -> None:
    """Raise MqlError 12587 where another node is building one of these indexes, or one that conflicts with them."""
    for index in node.definition.indexes:
        if index.state == "building" and index.spec is not None:
            other = parse_index(index).spec
            if not other.is_id and any(each.name == other.name or each.key == other.key for each in specs):
                raise MqlError(12587, f"the index {other.name} is being built already")


def _duplicate_error(collection: Collection, specs: Sequence[IndexSpec], error: Conflict) -> MqlError:
    holder: Any = error.detail.get("holder")
    document = decode(holder.value)
    # The refused index is gone, so its number says nothing. The key of the conflicting entry identifies it.
    key: Any = error.detail.get("key")
    refused = [spec for spec in specs if spec.unique and key[:-HASH_BYTES] in keys_of(spec, document)]
    return duplicate_key_error(collection, document, error, refused[0])
