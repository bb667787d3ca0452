"""Resource documents: databases, containers, collections, tables and records that `apply` and `--seed` make."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mayflydb.model.errors import BadRequest

PIECE: Final = 200
"""Records of one container in one piece of a document."""


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An object with these members and no others."""


class CosmosContainer(Part, frozen=True):
    """A container of Cosmos DB. What is left out stays as it is, or has the service's default."""

    id: str
    partition_key: Annotated[str | list[str], Meta(description="A path, or several of a hierarchical key.")]
    default_ttl: Annotated[
        int | UnsetType | None, Meta(description="Seconds; -1: on without a default; null: off.")
    ] = UNSET
    unique_keys: Annotated[
        list[list[str]] | UnsetType, Meta(description="Paths of each unique key; fixed when the container is made.")
    ] = UNSET
    indexing_policy: dict[str, Any] | UnsetType = UNSET
    throughput: Annotated[int | UnsetType, Meta(description="RU/s of a container that is made.")] = UNSET
    items: list[dict[str, Any]] = []


class CosmosDatabase(Part, frozen=True):
    """A database of Cosmos DB."""

    id: str
    throughput: Annotated[int | UnsetType, Meta(description="RU/s of a database that is made.")] = UNSET
    containers: list[CosmosContainer] = []


class MongoCollection(Part, frozen=True):
    """A collection of MongoDB. `indexes`: as in `createIndexes`. `documents`: extended JSON, each with an `_id`."""

    name: str
    indexes: list[dict[str, Any]] = []
    documents: list[dict[str, Any]] = []


class MongoDatabase(Part, frozen=True):
    """A database of MongoDB."""

    name: str
    collections: list[MongoCollection] = []


class MongoPart(Part, frozen=True):
    """The part of a document for MongoDB."""

    databases: list[MongoDatabase] = []


class YdbPart(Part, frozen=True):
    """The part of a document for YDB: statements of YQL, in their order. A CREATE TABLE of a table that is there is skipped."""

    statements: list[str] = []
    database: Annotated[str | None, Meta(description="The path of the database; null: the first one.")] = None


class Resources(Part, frozen=True):
    """A resource document."""

    databases: Annotated[list[CosmosDatabase], Meta(description="Databases of Cosmos DB.")] = []
    mongo: Annotated[MongoPart, Meta(description="What is made in MongoDB.")] = MongoPart()
    ydb: Annotated[YdbPart, Meta(description="What is run in YDB.")] = YdbPart()


def pieces(document: Resources) -> Iterator[Resources]:
    """Cut a document into pieces that have at most PIECE records each. Applied in their order they make the same."""
    if len(document.ydb.statements) <= PIECE and all(size <= PIECE for size in _sizes(document)):
        yield document
        return
    for database in document.databases:
        if not database.containers:
            yield Resources([database])
        for container in database.containers:
            for first in range(0, max(1, len(container.items)), PIECE):
                part = msgspec.structs.replace(container, items=container.items[first : first + PIECE])
                yield Resources([msgspec.structs.replace(database, containers=[part])])
    for home in document.mongo.databases:
        for collection in home.collections:
            for first in range(0, max(1, len(collection.documents)), PIECE):
                some = msgspec.structs.replace(collection, documents=collection.documents[first : first + PIECE])
                yield Resources(mongo=MongoPart([MongoDatabase(home.name, [some])]))
    for first in range(0, len(document.ydb.statements), PIECE):
        yield Resources(ydb=YdbPart(document.ydb.statements[first : first + PIECE], document.ydb.database))


def _sizes(document: Resources) -> Iterator[int]:
    yield sum(len(container.items) for database in document.databases for container in database.containers)
    yield sum(len(each.documents) for home in document.mongo.databases for each in home.collections)


def convert(document: Any, place: str = "the document") -> Resources:
    """Return a decoded document as resources. BadRequest, with the path of the member, for one that is none."""
    try:
        return msgspec.convert(document, Resources)
    except msgspec.ValidationError as error:
        raise BadRequest(f"{place}: {error}") from error
