"""A collection through MongoDB's front end: pages of documents, one document, and writes that a change meanwhile refuses."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from mayflydb.admin.wires import Mongo
from mayflydb.model.errors import BadRequest, Conflict, MayflyError, NotFound, PreconditionFailed
from mayflydb.model.instant import MILLISECOND, SECOND, Instant
from mayflydb.portal.mongo.query import CollectionRunner
from mayflydb.portal.querying import SECONDS
from mayflydb.portal.shell import Visit
from mayflydb.query.mongo.extended_json import (
    DATE,
    OBJECT_ID,
    TEXT,
    Encoded,
    encode_pairs,
    fields_of,
    format_value,
    parse_json,
)
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.raw import EMBEDDED
from mayflydb.query.mongo.replies import Reply
from mayflydb.query.mongo.shell_json import parse_document, parse_shell

CHANGED = "This document was changed after this page was loaded, so nothing was done. Discard shows it as it is now."


class CollectionDocuments:
    """One collection. Every command passes the front end as that of a client does."""

    def __init__(self, mongo: Mongo, visit: Visit, at: Instant | None = None) -> None:
        """`at`: the instant as of which `find` reads; None: the present."""
        self._mongo = mongo
        self._at = at
        self._database = visit.database
        self._name = visit.name
        self._runner = CollectionRunner(mongo, visit.database, visit.name)

    async def find(
        self, filter: str, sort: str, skip: int, most: int, *, ids: bool = False, batch: int | None = None
    ) -> list[bytes]:
        """Return documents, or their `_id` alone. `sort`: a field, after a minus for descending; empty: none."""
        fields: list[tuple[str, Any]] = [("find", self._name), ("filter", parse_document(filter, "Filter"))]
        if sort:
            fields.append(("sort", {sort.removeprefix("-"): -1 if sort.startswith("-") else 1}))
        if ids:
            fields.append(("projection", {"_id": 1}))
        if self._at is not None:
            date = Encoded(DATE, (self._at // MILLISECOND).to_bytes(8, "little", signed=True))
            fields.append(("comment", {"mayflyAsOf": date}))
        fields += [("skip", skip), ("limit", most), ("batchSize", batch or most), ("maxTimeMS", SECONDS * 1000)]
        found, _ = await self._runner.collect(await self._send(fields), most)
        return found

    async def read(self, id: Encoded) -> bytes:
        """Return the bytes of one document. NotFound."""
        fields = [("find", self._name), ("filter", {"_id": {"$eq": id}}), ("limit", 1), ("singleBatch", True)]
        found = (await self._send(fields)).documents
        if not found:
            message = f"There is no document {id_text(id)} in {self._name}."
            raise NotFound(message, hint="Documents that have expired are shown no more.")
        return found[0]

    async def insert(self, documents: Sequence[bytes]) -> list[tuple[int, str]]:
        """Insert documents. Return (number, reason) of each that was refused."""
        fields = [("insert", self._name), ("documents", list(documents)), ("ordered", False)]
        return _refusals((await self._send(fields)).answer)

    async def put(self, documents: Sequence[bytes]) -> list[tuple[int, str]]:
        """Insert documents, or replace those with the same `_id`. Return as `insert` does."""
        updates = [
            {"q": {"_id": {"$eq": fields_of(each)["_id"]}}, "u": each, "upsert": True, "multi": False}
            for each in documents
        ]
        fields = [("update", self._name), ("updates", updates), ("ordered", False)]
        return _refusals((await self._send(fields)).answer)

    async def replace(self, id: Encoded, seen: str, document: bytes) -> None:
        """Replace the document that was seen. PreconditionFailed if it is another one now."""
        update = {"q": await self._build_guard(id, seen), "u": document, "multi": False}
        answer = (await self._send([("update", self._name), ("updates", [update])])).answer
        _check_one(answer)

    async def delete(self, id: Encoded, seen: str) -> None:
        """Delete the document that was seen. PreconditionFailed if it is another one now."""
        deletion = {"q": await self._build_guard(id, seen), "limit": 1}
        _check_one((await self._send([("delete", self._name), ("deletes", [deletion])])).answer)

    async def delete_all(self, ids: Sequence[Encoded]) -> int:
        """Delete documents by their `_id`, and return their number."""
        deletions = [{"q": {"_id": {"$eq": id}}, "limit": 1} for id in ids]
        answer = (await self._send([("delete", self._name), ("deletes", deletions), ("ordered", False)])).answer
        if refused := _refusals(answer):
            raise Conflict(f"{answer['n']} deleted; {len(refused)} refused: {refused[0][1]}")
        return int(answer["n"])

    async def _build_guard(self, id: Encoded, seen: str) -> dict[str, Any]:
        """Return the filter that matches a document only as it is now. PreconditionFailed unless it is as it was seen."""
        stored = await self.read(id)
        if digest(stored) != seen:
            raise PreconditionFailed(CHANGED)
        return {"_id": {"$eq": id}, "$expr": {"$eq": ["$$ROOT", {"$literal": stored}]}}

    async def _send(self, fields: Sequence[tuple[str, Any]]) -> Reply:
        return await self._mongo.send(self._database, encode_pairs(fields))


def digest(document: bytes) -> str:
    """Return the hash by which a form names the document that it was loaded with."""
    return sha256(document).hexdigest()


def id_of(document: bytes) -> Encoded:
    """Return the `_id` of a stored document."""
    return fields_of(document)["_id"]


def name_id(id: Encoded) -> str:
    """Return an `_id` as addresses and forms have it: canonical Extended JSON."""
    return format_value(id, canonical=True)


def parse_id(text: str) -> Encoded:
    """Parse an `_id` of an address or a form. BadRequest."""
    try:
        return parse_json(text)
    except MqlError as error:
        raise BadRequest(f"_id is Extended JSON: {error.message}") from None


def id_text(id: Encoded) -> str:
    """Return an `_id` as people read it: a text as it is, an ObjectId as its digits, others as Extended JSON."""
    if id.kind == TEXT:
        return id.data[4:-1].decode("utf-8", "replace")
    return id.data.hex() if id.kind == OBJECT_ID else format_value(id)


def parse_text(text: str, what: str = "The document") -> bytes:
    """Parse a document of an editor: Extended JSON, or what the shell reads. BadRequest."""
    try:
        found = parse_shell(text)
    except MqlError as error:
        raise BadRequest(f"{what} is no Extended JSON: {error.message}") from None
    return check_document(found, what)


def check_document(found: Encoded, what: str) -> bytes:
    """Return the bytes of a document. BadRequest for another value, and for operators, which a replacement may not have."""
    if found.kind != EMBEDDED:
        raise BadRequest(f"{what} is no document in braces.")
    if next(iter(fields_of(found.data)), "").startswith("$"):
        raise BadRequest(f"{what} begins with an operator, and a document has fields.")
    return found.data


def with_id(document: bytes, now: Instant) -> bytes:
    """Return a document with an `_id`, as drivers send it: a new ObjectId if it has none."""
    if "_id" in fields_of(document):
        return document
    seconds = (now // SECOND) % (1 << 32)
    id = Encoded(OBJECT_ID, seconds.to_bytes(4, "big") + secrets.token_bytes(8))
    first = encode_pairs([("_id", id)])[4:-1]
    return (len(document) + len(first)).to_bytes(4, "little") + first + document[4:]


def _refusals(answer: Mapping[str, Any]) -> list[tuple[int, str]]:
    return [(int(each["index"]), str(each["errmsg"])) for each in answer.get("writeErrors", ())]


def _check_one(answer: Mapping[str, Any]) -> None:
    for each in answer.get("writeErrors", ()):
        kind: type[MayflyError] = Conflict if each["code"] in (112, 11000) else BadRequest
        raise kind(str(each["errmsg"]))
    if not answer["n"]:
        raise PreconditionFailed(CHANGED)
