"""create, drop, dropDatabase, renameCollection, listCollections, listDatabases.

Options and replies: https://www.mongodb.com/docs/manual/reference/command/nav-administration/
"""

from __future__ import annotations

from typing import Any, Final

from bson import Binary, Int64

from mayflydb.frontends.mongo import arguments
from mayflydb.frontends.mongo.accounts.privileges import CLUSTER, allows, is_within
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.clustered import parse_clustered_index
from mayflydb.frontends.mongo.collection_options import (
    check_validator,
    parse_images,
    parse_index_defaults,
    parse_max,
    parse_size,
    parse_storage_engine,
)
from mayflydb.frontends.mongo.collections import ID_INDEX, Collection
from mayflydb.frontends.mongo.commands.queries import first_batch_reply
from mayflydb.frontends.mongo.contracts import ProfileChanged, check_profile
from mayflydb.frontends.mongo.cursors import Cursor
from mayflydb.frontends.mongo.documents import binary_uuid, to_milliseconds
from mayflydb.frontends.mongo.services import CommandEntry, Services
from mayflydb.frontends.mongo.time_series.changes import describe
from mayflydb.frontends.mongo.time_series.options import parse_create, parse_expire_after
from mayflydb.frontends.mongo.views import check_view
from mayflydb.query.mongo.cheapness import is_cheap_query
from mayflydb.query.mongo.collation import Collation
from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import MqlError, bad_value, failed_to_parse, type_mismatch
from mayflydb.query.mongo.filter import compile_filter
from mayflydb.query.mongo.values import Document, encode, format_value, is_number, type_name

COLLECTION_OPTIONS: Final = (
    "capped",
    "size",
    "max",
    "validator",
    "validationLevel",
    "validationAction",
    "collation",
    "viewOn",
    "pipeline",
    "changeStreamPreAndPostImages",
    "storageEngine",
    "indexOptionDefaults",
)
"""Options of `create`, in the order in which listCollections prints them."""

UNSUPPORTED_OPTIONS: Final = (
    "timeseries",
    "encryptedFields",
)
"""Options that are refused by name unless they are off."""


VIEW_OPTIONS: Final = ("viewOn", "pipeline", "collation")
"""Options that apply to a view; the others are ignored there."""


async def parse_view_options(services: Services, call: Call, name: str) -> Document:
    """Parse and check the options of `create` for a view."""
    if call.body.get("idIndex") is not None:
        raise MqlError(72, "'viewOn' and 'idIndex' cannot both be specified")
    options = await parse_options(services, call, name)
    if options.get("changeStreamPreAndPostImages"):
        raise MqlError(72, "option not supported on a view: changeStreamPreAndPostImages")
    options = {field: options[field] for field in VIEW_OPTIONS if field in options}
    await check_view(services, call, name, options)
    return options


async def parse_options(services: Services, call: Call, name: str) -> Document:
    """Parse the options of `create` for a collection. Raise MqlError 72 for a contradiction, 238 for unsupported options."""
    body = call.body
    for option in UNSUPPORTED_OPTIONS:
        given = body.get(option)
        if given and given != {"enabled": False}:
            raise MqlError(238, f"collections with '{option}' are not supported")
    clustered = _parse_clustered(call)
    options: Document = {each: body[each] for each in COLLECTION_OPTIONS if each in body and body[each] is not None}
    _parse_cap(call, options)
    if "changeStreamPreAndPostImages" in options and not parse_images(call, options)["enabled"]:
        del options["changeStreamPreAndPostImages"]
    if ("pipeline" in options) and "viewOn" not in options:
        raise MqlError(72, "'pipeline' requires 'viewOn' to also be specified")
    for field, parse in (("storageEngine", parse_storage_engine), ("indexOptionDefaults", parse_index_defaults)):
        if parse(call, options) is None:
            options.pop(field, None)
    await _check_expressions(services, call, name, options)
    return {**options, **clustered}


def _parse_cap(call: Call, options: Document) -> None:
    """Parse `capped`, `size` and `max` in place. Raise MqlError 2, 14, 72."""
    capped = arguments.flag(options, "capped", call.name)
    if "size" in options:
        options["size"] = parse_size(options["size"], "size", call.name)
    if "max" in options:
        options["max"] = parse_max(options["max"], "max", call.name)
    if capped:
        options["capped"] = True
        if "size" not in options:
            raise MqlError(72, "the 'size' field is required when 'capped' is true")
        return
    options.pop("capped", None)
    if "viewOn" not in options and ("max" in options or "size" in options):
        raise MqlError(72, f"the '{'size' if 'size' in options else 'max'}' field requires capped:true")


def _parse_clustered(call: Call) -> Document:
    """The options of a clustered collection; empty for another one. Raise MqlError 14, 72, and those of `clusteredIndex`."""
    clustered, seconds = parse_clustered_index(call.body), call.body.get("expireAfterSeconds")
    if clustered is None:
        if seconds is None:
            return {}
        text = "is only supported on time-series collections or when the 'clusteredIndex' option is specified"
        raise MqlError(72, f"'expireAfterSeconds' {text}")
    if seconds is None:
        return {"clusteredIndex": clustered}
    return {"clusteredIndex": clustered, "expireAfterSeconds": parse_expire_after(seconds, call.name, call.now)}


async def _check_expressions(services: Services, call: Call, name: str, options: Document) -> None:
    collation = arguments.document(options, "collation", call.name)
    if collation is not None:
        if not collation:
            raise arguments.missing_argument("locale", f"{call.name}.collation")
        parsed = Collation.parse(collation)
        options["collation"] = parsed.document()
        if parsed.is_simple:
            del options["collation"]
    await check_validator(services, call, name, options)


def _check_id_index(call: Call, options: Document) -> None:
    """Check `idIndex`, which cannot define anything but the usual index of `_id`. Raise MqlError 14, 9, 2, 67, 197."""
    given = arguments.document(call.body, "idIndex", call.name)
    if given is None:
        return
    for field, shape in (("key", dict), ("name", str)):
        if field not in given:
            raise failed_to_parse(f"The '{field}' field is a required property of an index specification")
        if type(given[field]) is not shape:
            expected = "object" if shape is dict else "string"
            raise type_mismatch(f"{call.name}.idIndex.{field}", type_name(given[field]), expected)
    key = given["key"]
    if list(key) != ["_id"] or not is_number(key["_id"]) or key["_id"] != 1:
        raise bad_value(f"The field 'key' for an _id index must be {{_id: 1}}, but got {format_value(key)}")
    if not given["name"]:
        raise MqlError(67, "index names cannot be empty")
    for field in given:
        if field not in ("key", "name", "v", "ns", "collation"):
            raise MqlError(197, f"The field '{field}' is not valid for an _id index specification")
    version = given.get("v", 2)
    if not is_number(version):
        raise type_mismatch(f"{call.name}.idIndex.v", type_name(version), *arguments.NUMERIC)
    if version not in (1, 2):
        raise MqlError(67 if arguments.truncate_number(version) == version else 2, f"Invalid index version {version}")
    own = arguments.document(given, "collation", f"{call.name}.idIndex")
    if own is not None and Collation.parse(own) != Collation.parse(options.get("collation", {"locale": "simple"})):
        raise bad_value("The collation of the _id index must be that of the collection")


async def create(services: Services, call: Call) -> Document:
    """Create a collection or view. Creating it again with the same options is no error."""
    own = ("autoIndexId", "idIndex", "clusteredIndex", "expireAfterSeconds", "flags")
    call.check_fields({*COLLECTION_OPTIONS, *UNSUPPORTED_OPTIONS, *own})
    name = arguments.collection_name(call.body, call.name)
    if call.body.get("timeseries") is not None:
        if services.contracts.of(call.database, name).is_cosmos:
            raise MqlError(238, "collections with 'timeseries' are not supported in the profile cosmos")
        options = parse_create(call.body, f"{call.database}.{name}", call.now)
        await _check_expressions(services, call, name, options)
    elif call.body.get("viewOn") is not None and not call.body.get("clusteredIndex"):
        options = await parse_view_options(services, call, name)
    else:
        options = await parse_options(services, call, name)
        _check_id_index(call, options)
    collections = services.collections
    try:
        await collections.create(call.database, name, options, call.now)
    except MqlError as error:
        known = await collections.find(call.database, name) if error.code == 48 else None
        if known is None or known.options != options:
            raise
    return {"ok": 1.0}


async def drop(services: Services, call: Call) -> Document:
    """Drop a collection. A missing one is no error."""
    call.check_fields(())
    name = arguments.collection_name(call.body, call.name)
    collection = await services.collections.find(call.database, name)
    if collection is None:
        return {"ok": 1.0}
    await services.collections.drop(collection, call.now)
    answer: Document = {} if collection.view_on is not None else {"nIndexesWas": len(collection.listed_specs)}
    return {**answer, "ns": collection.namespace, "ok": 1.0}


async def rename_collection(services: Services, call: Call) -> Document:
    """Rename a collection, within its database or into another one. `dropTarget`: replace the collection of that name, or
    the one with that UUID.
    """
    call.check_fields({"to", "dropTarget", "stayTemp", "collectionUUID"})
    arguments.strict_flag(call.body, "stayTemp", call.name)
    source, target = _parse_namespace(call, call.name), _parse_namespace(call, "to")
    wanted, replaced = arguments.uuid(call.body, "collectionUUID", call.name), None
    drops = call.body.get("dropTarget")
    if type(drops) in (bytes, Binary):
        replaced = arguments.uuid(call.body, "dropTarget", call.name)
        if source[0] != target[0]:
            raise MqlError(72, "dropTarget takes no UUID where the collection goes to another database")
    elif not arguments.flag(call.body, "dropTarget", call.name):
        drops = None
    services.require_right(call, "schema", source[0])
    services.require_right(call, "schema", target[0])
    if source == target:
        raise MqlError(20, "Can't rename a collection to itself")
    collections = services.collections
    collection = await collections.find(*source)
    if wanted is not None:
        _check_uuid(collection, wanted, source)
    known = await collections.find(*target)
    if replaced is not None:
        _check_uuid(known, replaced, target)
    if collection is None:
        raise MqlError(26, f"Source collection {'.'.join(source)} does not exist")
    if collection.view_on is not None or collection.series is not None:
        raise MqlError(166, f"cannot rename view: {collection.namespace}")
    old = known if drops is not None else None
    if old is not None and old.view_on is not None:
        raise MqlError(48, f"cannot rename to an existing view: {old.namespace}")
    if old is not None and old.series is not None:
        raise MqlError(48, f"cannot rename to an existing time-series collection: {old.namespace}")
    try:
        check_profile(services.contracts.of(*target), collection.node.body.get("profile"), collection.namespace)
    except ProfileChanged as error:
        raise MqlError(20, str(error)) from None
    await collections.rename(collection, *target, old, call.now)
    # The new database's contract may hide or show expired documents.
    await services.indexing.apply_contract(await collections.get(*target), call.now)
    return {"ok": 1.0}


_LONGEST_NAMESPACE: Final = 255


def _parse_namespace(call: Call, field: str) -> tuple[str, str]:
    """A database and a name. Raise MqlError 40414, 14, 73; 20 for names that no user may give or take."""
    if call.body.get(field) is None:
        raise arguments.missing_argument(field, call.name)
    namespace = arguments.text(call.body, field, call.name)
    database, dot, name = namespace.partition(".")
    if not dot:
        raise MqlError(73, f"Invalid namespace specified '{database}'")
    special = name.startswith("system.") or (database == "local" and name.startswith("oplog."))
    if special or "$" in namespace or len(namespace.encode()) > _LONGEST_NAMESPACE:
        raise MqlError(20, f"renameCollection is not allowed for '{namespace}'")
    return database, name


def _check_uuid(collection: Collection | None, wanted: bytes, namespace: tuple[str, str]) -> None:
    """Raise MqlError 361 if a collection is not the one with a UUID."""
    if collection is None or collection.uuid != wanted:
        database, name = namespace
        raise MqlError(
            361,
            "Collection UUID does not match that specified",
            db=database,
            collectionUUID=binary_uuid(wanted),
            expectedCollection=name,
            actualCollection=None,
        )


async def drop_database(services: Services, call: Call) -> Document:
    """Drop a database and all that it holds. Raise MqlError 5255100 for another value than 1, 20 for admin and local."""
    call.check_fields(())
    value = call.body[call.name]
    if value is None:
        raise arguments.missing_argument(call.name, call.name)
    if not is_number(value):
        raise type_mismatch(f"{call.name}.{call.name}", type_name(value), *arguments.NUMERIC)
    if arguments.clamp_number(value) != 1:
        raise MqlError(5255100, f"have to pass 1 as 'dropDatabase' parameter, not {value}")
    if call.database in ("admin", "local"):
        raise MqlError(20, f"Dropping the '{call.database}' database is prohibited.")
    gone = await services.collections.drop_database(call.database, call.now)
    return {"dropped": call.database, "ok": 1.0} if gone else {"ok": 1.0}


async def list_collections(services: Services, call: Call) -> bytes:
    """Return the collections and views of a database."""
    call.check_fields({"filter", "nameOnly", "authorizedCollections", "cursor"})
    name_only = arguments.strict_flag(call.body, "nameOnly", call.name)
    found = await services.collections.list_collections(call.database)
    if arguments.flag(call.body, "authorizedCollections", call.name):
        found = [each for each in found if services.may_read(call, call.database, each.name)]
    described = [_describe_collection(each, name_only) for each in found]
    return await list_reply(services, call, described, f"{call.database}.$cmd.listCollections")


def _describe_collection(collection: Collection, name_only: bool) -> Document:
    if collection.series is not None:
        return describe(collection, name_only)
    view = collection.view_on is not None
    short: Document = {"name": collection.name, "type": "view" if view else "collection"}
    if name_only:
        return short
    info: Document = {"readOnly": view}
    if not view:
        info["uuid"] = binary_uuid(collection.uuid)
    long = {**short, "options": collection.options, "info": info}
    return long if view or collection.clustered is not None else {**long, "idIndex": ID_INDEX}


async def list_reply(services: Services, call: Call, found: list[Document], namespace: str) -> bytes:
    """Return the first batch of a list; `filter` selects from it."""
    query = arguments.document(call.body, "filter", call.name)
    found = await _select(services, call, query, found)
    size = arguments.whole_number(arguments.document(call.body, "cursor", call.name) or {}, "batchSize", call.name)

    async def items() -> Any:
        yield [(None, encode(each)) for each in found]

    cursor = Cursor(namespace, items(), services.read_time_of(call), lambda: (), 0, call.session_id)
    return await first_batch_reply(services, call, cursor, size)


async def _select(services: Services, call: Call, query: Document | None, found: list[Document]) -> list[Document]:
    """Return the lines of a list that match its `filter`."""
    if not query:
        return found
    env = Env(to_milliseconds(call.now))

    def select() -> list[Document]:
        filter = compile_filter(query, env)
        return [each for each in found if filter.matches(each)]

    return await services.evaluation_of(call).compute(is_cheap_query(query), call.size, select)


def may_list(services: Services, call: Call, database: str) -> bool:
    """Return True if a database is one of those that the sender is shown."""
    user, accounts = call.connection.user, services.accounts
    if any(accounts.has_right(user, right, database) for right in ("read", "monitor")):
        return True
    if user is None:
        return False
    all_of_them = allows(user.grants, ("listDatabases",), CLUSTER)
    return all_of_them or any(is_within(resource, database) for resource in user.grants)


async def list_databases(services: Services, call: Call) -> Document:
    """Return the databases that the sender may read, with the bytes of their documents."""
    call.check_fields({"filter", "nameOnly", "authorizedDatabases"})
    arguments.strict_flag(call.body, "authorizedDatabases", call.name)
    name_only = arguments.flag(call.body, "nameOnly", call.name)
    query = arguments.document(call.body, "filter", call.name)
    engine = services.engine
    found: list[Document] = []
    nodes = await services.collections.list_databases()
    if may_list(services, call, "admin") and all(each.name != "admin" for each in nodes):
        # Users and roles belong to it, so it exists on every server.
        found.append({"name": "admin"} if name_only else {"name": "admin", "sizeOnDisk": Int64(0), "empty": True})
    for node in nodes:
        if not may_list(services, call, node.name):
            continue
        line: Document = {"name": node.name}
        if not name_only:
            children = await engine.children(node.id)
            counts = [await engine.expiry_counts.totals(each.id, with_bytes=True) for each in children]
            size = sum(each.value_bytes for each in counts)
            line.update({"sizeOnDisk": Int64(size), "empty": not any(each.records for each in counts)})
        found.append(line)
    found = await _select(services, call, query, sorted(found, key=lambda line: str(line["name"])))
    total = sum(int(line.get("sizeOnDisk", 0)) for line in found)
    if name_only:
        return {"databases": found, "ok": 1.0}
    return {"databases": found, "totalSize": Int64(total), "totalSizeMb": Int64(total >> 20), "ok": 1.0}


HANDLERS = {
    "create": CommandEntry(create, "schema", help="makes a collection or a view"),
    "drop": CommandEntry(drop, "schema", help="removes a collection"),
    "dropDatabase": CommandEntry(drop_database, "schema", help="removes a database"),
    "renameCollection": CommandEntry(
        rename_collection, "anyone", admin_only=True, help="gives a collection another name"
    ),
    "listCollections": CommandEntry(list_collections, "read", help="gives the collections of a database"),
    "listDatabases": CommandEntry(list_databases, "anyone", admin_only=True, help="gives the databases"),
}
