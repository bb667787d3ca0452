"""Commands that measure and maintain what is stored: reIndex, compact, dataSize, dbHash, fsync, fsyncUnlock.

A command that would change what Mayfly does not have is refused by name.
"""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from bson import Int64

from mayflydb.engine.scans import Scope
from mayflydb.frontends.mongo import arguments
from mayflydb.frontends.mongo.accounts.needs import need_of_read
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.collections import Collection
from mayflydb.frontends.mongo.documents import binary_uuid, to_milliseconds
from mayflydb.frontends.mongo.reading import bytes_of
from mayflydb.frontends.mongo.services import CommandEntry, Services
from mayflydb.model.record import Record
from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import MqlError, bad_value, type_mismatch
from mayflydb.query.mongo.sort import compile_sort
from mayflydb.query.mongo.validation import check_collection, check_database
from mayflydb.query.mongo.values import Document, decode, is_number, type_name

HASH_BITS: Final = 128


async def _find_stored(services: Services, call: Call) -> Collection:
    """The collection that a command names. Raise MqlError 26 without one, 166 for a view, 14, 73."""
    name = call.body[call.name]
    if type(name) is not str:
        raise MqlError(73, f"collection name has invalid type {type_name(name)}")
    collection = await services.collections.get(call.database, name)
    if collection.view_on is not None:
        raise MqlError(166, f"can't {call.name} a view")
    return collection


async def re_index(services: Services, call: Call) -> Document:
    """Compute the entries of all indexes of a collection anew. Writes and queries go on meanwhile."""
    call.check_fields(())
    if services.options.topology == "replicaset":
        raise MqlError(20, "reIndex is only allowed on a standalone mongod instance. Cannot reIndex on a replica set")
    collection = await _find_stored(services, call)
    if collection.series is not None:
        raise MqlError(166, f"can't reIndex a time series: {collection.namespace}")
    await services.indexing.rebuild(collection)
    documents = [spec.to_document() for spec in collection.listed_specs]
    return {"nIndexesWas": len(documents), "nIndexes": len(documents), "indexes": documents}


async def compact(services: Services, call: Call) -> Document:
    """Free nothing: the store gives free pages back by itself, step by step."""
    call.check_fields({"dryRun", "force", "freeSpaceTargetMB"})
    dry_run = arguments.flag(call.body, "dryRun", call.name)
    arguments.flag(call.body, "force", call.name)
    target = call.body.get("freeSpaceTargetMB")
    if target is not None:
        if not is_number(target):
            raise type_mismatch(f"{call.name}.freeSpaceTargetMB", type_name(target), *arguments.NUMERIC)
        if (arguments.truncate_number(target) or 0) < 1:
            raise bad_value(f"BSON field 'freeSpaceTargetMB' value must be >= 1, actual value '{target}'")
    await _find_stored(services, call)
    return {"estimatedBytesFreed" if dry_run else "bytesFreed": 0}


async def data_size(services: Services, call: Call) -> Document:
    """Return the number and the bytes of a collection's documents, or of those with keys from `min` up to `max`."""
    call.check_fields({"keyPattern", "min", "max", "estimate"})
    began = services.monotonic()
    database, dot, name = arguments.text(call.body, call.name, call.name).partition(".")
    if not dot:
        raise MqlError(73, f"Invalid namespace specified '{database}'")
    check_database(database)
    check_collection(database, name)
    services.require_right(call, "read", database, need_of_read(database, name))
    estimate = arguments.flag(call.body, "estimate", call.name)
    pattern, low, high = (arguments.document(call.body, each, call.name) for each in ("keyPattern", "min", "max"))
    if (low is None) != (high is None):
        raise bad_value("must specify both min and max or neither")
    collection = await services.collections.find(database, name)
    if collection is not None and collection.view_on is not None:
        raise MqlError(166, f"{collection.namespace} is a view, not a collection")
    within = None if low is None or high is None else _compile_range(call, collection, pattern, low, high)
    size, count = (0, 0) if collection is None else await _measure(services, call, collection, within)
    millis = (services.monotonic() - began) // 1000
    return {"size": Int64(size), "numObjects": Int64(count), "millis": Int64(millis), "estimate": estimate}


def _compile_range(
    call: Call, collection: Collection | None, pattern: Document | None, low: Document, high: Document
) -> Callable[[Document], bool]:
    if not pattern:
        raise MqlError(96, "couldn't find valid index containing key pattern")
    specs = () if collection is None else collection.listed_specs
    if not any(list(spec.key)[: len(pattern)] == list(pattern.items()) for spec in specs):
        raise MqlError(96, f"couldn't find valid index containing key pattern {pattern}")
    key = compile_sort(pattern, Env(to_milliseconds(call.now))).key
    first, end = key(low), key(high)
    return lambda document: first <= key(document) < end


def _size_within(within: Callable[[Document], bool], records: Sequence[Record]) -> tuple[int, int]:
    found = [record for record in records if within(decode(record.value))]
    return bytes_of(found), len(found)


async def _measure(
    services: Services, call: Call, collection: Collection, within: Callable[[Document], bool] | None
) -> tuple[int, int]:
    """Return the bytes and the number of the visible documents."""
    evaluation = services.evaluation_of(call)
    size = count = 0
    async for batch in services.engine.scan(collection.node, Scope(), None, call.now):
        if within is None:
            await evaluation.take_turn()
            found = bytes_of(batch.records), len(batch.records)
        else:
            found = await evaluation.compute(
                True, bytes_of(batch.records), partial(_size_within, within), batch.records
            )
        size, count = size + found[0], count + found[1]
    return size, count


async def db_hash(services: Services, call: Call) -> Document:
    """Return a hash of the visible documents of each collection, and one of the database.

    A collection's hash is the sum of the MD5 of its documents, so it does not depend on their order. Only Mayfly has such hashes.
    """
    began = services.monotonic()
    given = call.body.get("collections")
    wanted = set(_parse_names(given)) if type(given) is list and given else None
    collections = await services.collections.list_collections(call.database)
    stored = [each for each in collections if each.view_on is None and (wanted is None or each.name in wanted)]
    hashes = {each.name: f"{await _hash(services, call, each):032x}" for each in stored}
    whole = hashlib.md5("".join(f"{name}{digest}" for name, digest in hashes.items()).encode(), usedforsecurity=False)
    return {
        "host": socket.gethostname(),
        "collections": hashes,
        "capped": [each.name for each in stored if each.capped],
        "uuids": {each.name: binary_uuid(each.uuid) for each in stored},
        "md5": whole.hexdigest(),
        "timeMillis": Int64((services.monotonic() - began) // 1000),
    }


def _parse_names(given: Sequence[Any]) -> Sequence[str]:
    for each in given:
        if type(each) is not str:
            raise bad_value(f"collections entries have to be strings, found {type_name(each)}")
    return given


async def _hash(services: Services, call: Call, collection: Collection) -> int:
    evaluation, total = services.evaluation_of(call), 0
    async for batch in services.engine.scan(collection.node, Scope(), None, call.now):
        total += await evaluation.compute(True, bytes_of(batch.records), _add_hashes, batch.records)
    return total % (1 << HASH_BITS)


def _add_hashes(records: Sequence[Record]) -> int:
    return sum(int.from_bytes(hashlib.md5(each.value, usedforsecurity=False).digest(), "big") for each in records)


async def fsync(services: Services, call: Call) -> Document:
    """Flush nothing: what a client has an answer for is on disk already. A lock of all writes is refused."""
    call.check_fields({"lock", "fsyncLockAcquisitionTimeoutMillis"})
    if arguments.flag(call.body, "lock", call.name):
        raise MqlError(115, "fsync with 'lock' is not supported: a backup of Mayfly needs no lock of its writes")
    arguments.whole_number(call.body, "fsyncLockAcquisitionTimeoutMillis", call.name)
    return {"numFiles": 1 if services.engine.durable else 0}


async def fsync_unlock(services: Services, call: Call) -> Document:
    """Refuse to end a lock, since there is none."""
    call.check_fields(())
    raise MqlError(20, "fsyncUnlock called when not locked")


async def refuse_scripts(services: Services, call: Call) -> Document:
    """Refuse a command whose arguments are JavaScript."""
    raise MqlError(238, f"{call.name} is not supported: it needs JavaScript. Use an aggregation instead")


HANDLERS: Final[dict[str, CommandEntry]] = {
    "reIndex": CommandEntry(re_index, "schema", help="computes the indexes of a collection anew"),
    "compact": CommandEntry(compact, "schema", help="frees nothing: the store gives back free space by itself"),
    "dataSize": CommandEntry(data_size, "anyone", help="counts the bytes of documents"),
    "datasize": CommandEntry(data_size, "anyone", help="counts the bytes of documents"),
    "dbHash": CommandEntry(db_hash, "read", help="hashes the documents of a database"),
    "dbhash": CommandEntry(db_hash, "read", help="hashes the documents of a database"),
    "fsync": CommandEntry(fsync, "server", admin_only=True, help="answers when all writes are on disk"),
    "fsyncUnlock": CommandEntry(fsync_unlock, "server", admin_only=True, help="refused: there is no lock to end"),
    "mapReduce": CommandEntry(refuse_scripts, "read", help="refused: there is no JavaScript"),
    "mapreduce": CommandEntry(refuse_scripts, "read", help="refused: there is no JavaScript"),
}
