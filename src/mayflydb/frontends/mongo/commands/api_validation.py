"""validateDBMetadata: which indexes, views and validators an application could not have made in API version 1.

https://www.mongodb.com/docs/manual/reference/command/validateDBMetadata/
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mayflydb.frontends.mongo import arguments
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.collections import Collection
from mayflydb.frontends.mongo.concerns import find_stage_outside_v1
from mayflydb.frontends.mongo.services import CommandEntry, Services
from mayflydb.query.mongo.faults import MqlError, name_of, type_mismatch
from mayflydb.query.mongo.values import Document, type_name

_STRICT: Final = 323
_PARAMETERS: Final = ("version", "strict", "deprecationErrors")
_LONGEST_DATABASE: Final = 63
_MOST: Final = 1000
"""Errors of one answer."""


async def validate_metadata(services: Services, call: Call) -> Document:
    """Return what is not in an API version, of all collections that the sender may read, or of the named ones."""
    call.check_fields({"apiParameters", "db", "collection"})
    strict = _parse_parameters(call)
    database, name = _parse_names(call)
    found: list[Document] = []
    if strict:
        for node in await services.collections.list_databases():
            if database not in (None, node.name) or not services.accounts.has_right(
                call.connection.user, "read", node.name
            ):
                continue
            for collection in await services.collections.list_collections(node.name):
                if name in (None, collection.name):
                    found += _validate(collection)
    answer: Document = {"apiVersionErrors": found[:_MOST]}
    return {**answer, "hasMoreErrors": True} if len(found) > _MOST else answer


def _validate(collection: Collection) -> Iterator[Document]:
    for stage in collection.options.get("pipeline") or ():
        outside = find_stage_outside_v1(stage)
        if outside is not None:
            yield _error(collection, f"stage {outside} is not allowed with 'apiStrict: true' in API Version 1")
    for spec in collection.specs if collection.view_on is None else ():
        if spec.kind == "text" or spec.sparse:
            yield _error(collection, f"The index with name {spec.name} is not allowed in API version 1.")


def _error(collection: Collection, message: str) -> Document:
    return {"ns": collection.namespace, "code": _STRICT, "codeName": name_of(_STRICT), "errmsg": message}


def _parse_parameters(call: Call) -> bool:
    """True if everything has to be in version 1. Raise MqlError 40414, 14 and 40415."""
    given = arguments.document(call.body, "apiParameters", call.name)
    if given is None:
        raise arguments.missing_argument("apiParameters", call.name)
    owner = f"{call.name}.apiParameters"
    for field, value in given.items():
        if field not in _PARAMETERS:
            raise MqlError(40415, f"BSON field '{owner}.{field}' is an unknown field.")
        if field != "version" and type(value) is not bool:
            raise type_mismatch(f"{owner}.{field}", type_name(value), "bool")
    return arguments.text(given, "version", owner) == "1" and given.get("strict", False) is True


def _parse_names(call: Call) -> tuple[str | None, str | None]:
    """The database and the collection that are wanted; None: all. Raise MqlError 14, 28539, 73 and 13280."""
    database, name = (
        None if call.body.get(field) is None else arguments.text(call.body, field, call.name)
        for field in ("db", "collection")
    )
    if database is not None:
        if not database:
            raise MqlError(28539, "db name is empty")
        if "." in database or "\0" in database or len(database.encode()) > _LONGEST_DATABASE:
            raise MqlError(73, f"Invalid database name: '{database}'")
        if any(each in database for each in ' /\\"'):
            raise MqlError(13280, f"invalid db name: '{database}'")
    if name is not None and (not name or name.startswith(".") or "\0" in name):
        raise MqlError(73, f"Invalid collection name: '{name}'")
    return database, name


HANDLERS = {
    "validateDBMetadata": CommandEntry(
        validate_metadata, "anyone", help="gives the indexes and views that are not in an API version"
    )
}
