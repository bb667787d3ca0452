"""The query page of a collection: a document is a find or its filter, an array a pipeline.

No cursor outlives the page it was opened for.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

from mayflydb.admin.wires import Mongo
from mayflydb.model.errors import BadQuery, BadRequest, MayflyError, TooLarge, Unsupported
from mayflydb.portal.forms import parse_whole_number
from mayflydb.portal.querying import (
    EXPORT_BYTES,
    EXPORT_ROWS,
    SECONDS,
    QueryAnswer,
    QueryNote,
    QueryOption,
    QueryPage,
    QueryPlace,
    QueryRequest,
)
from mayflydb.portal.shell import Shell, Visit
from mayflydb.query.mongo.extended_json import Encoded, encode_pairs, encode_value, fields_of, format_document
from mayflydb.query.mongo.extended_json import int64 as encode_int64
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.raw import ARRAY, EMBEDDED
from mayflydb.query.mongo.replies import Reply
from mayflydb.query.mongo.shell_json import parse_shell

FIND_FIELDS: Final = ("filter", "projection", "sort", "hint", "collation", "limit")
_WRITES: Final = frozenset({"$out", "$merge"})
_EXAMPLES: Final = (
    ("All documents", "{filter: {}}"),
    (
        "Filter, sort and projection",
        '{filter: {at: {$gt: ISODate("2030-01-01")}}, sort: {at: -1}, projection: {at: 1}}',
    ),
    ("Count by a field", '[{$group: {_id: "$kind", count: {$sum: 1}}}, {$sort: {count: -1}}]'),
)


def require_mongo(mongo: Mongo | None) -> Mongo:
    """Return the caller of the front end. Unsupported where MongoDB is not served."""
    if mongo is None:
        raise Unsupported("MongoDB is not served here.", hint="serve with --mongo-port")
    return mongo


class MongoQueries:
    """The page, and the runner of one collection."""

    def __init__(self, shell: Shell, mongo: Mongo | None) -> None:
        self._mongo = mongo
        self.page = QueryPage(shell)

    def place(self, visit: Visit) -> QueryPlace:
        """Return the page of a collection."""
        return QueryPlace(
            f"{visit.address}/query",
            ((visit.database, ""), (visit.name, f"{visit.address}/documents"), ("Query", "")),
            "javascript",
            "{filter: {}}",
            options=(QueryOption("explain", "Plan"),),
            examples=_EXAMPLES,
            hint="a filter; a document with filter, projection, sort and limit; or an array of stages",
        )

    def runner(self, visit: Visit) -> CollectionRunner:
        """Return the runner of a collection. Unsupported where MongoDB is not served."""
        return CollectionRunner(require_mongo(self._mongo), visit.database, visit.name)


class CollectionRunner:
    """Runs finds and pipelines. The place of a page is the number of results before it."""

    def __init__(self, mongo: Mongo, database: str, collection: str) -> None:
        self._mongo = mongo
        self._database = database
        self._collection = collection

    async def run(self, request: QueryRequest) -> QueryAnswer:
        """Return a page of results, with the plan where it is asked for."""
        skip = parse_whole_number(request.continuation)
        size = EXPORT_ROWS + 1 if request.exports else request.limit
        try:
            if request.text.lstrip().startswith("db."):
                raise BadRequest("The page takes what stands in the parentheses: a filter, or an array of stages.")
            query = await asyncio.to_thread(parse_shell, request.text)
            command = self._build(query, skip, size, request.exports)
        except MqlError as error:
            raise BadQuery(error.message, code="FailedToParse") from None
        reply = await self._send(command)
        documents, charge = await self.collect(reply, size)
        more = len(documents) > size
        rows = await asyncio.to_thread(_read_rows, documents[:size])
        stats = [("Showing Results", f"{skip + 1} - {skip + len(rows)}" if rows else "0")]
        if charge is not None:
            stats.insert(0, ("Request Charge", f"{charge:g} RUs"))
        stats.append(("Output document size", f"{sum(map(len, documents[:size])):,} bytes"))
        notes = [QueryNote("Plan", await self._explain(command))] if request.options.get("explain") else []
        return QueryAnswer(rows, stats, str(skip + size) if more else "", notes=notes)

    async def collect(self, reply: Reply, size: int) -> tuple[list[bytes], float | None]:
        """Return up to one document more than a page, and the charge. The cursor is closed in every case."""
        documents, charge, cursor = [*reply.documents], reply.charge, reply.cursor
        try:
            while cursor and len(documents) <= size:
                if sum(map(len, documents)) > EXPORT_BYTES:
                    raise TooLarge(f"The results have more than {EXPORT_BYTES // 2**20} MiB. Choose fewer rows a page.")
                more = encode_pairs([("getMore", encode_int64(str(cursor))), ("collection", self._collection)])
                reply = await self._send(more)
                documents += reply.documents
                cursor, charge = reply.cursor, charge if charge is None else round(charge + (reply.charge or 0), 2)
        finally:
            if cursor:
                ids = [encode_int64(str(cursor))]
                await self._send(encode_pairs([("killCursors", self._collection), ("cursors", ids)]))
        return documents, charge

    async def _explain(self, command: bytes) -> str:
        try:
            plan = await self._send(encode_pairs([("explain", command), ("verbosity", "queryPlanner")]))
        except MayflyError as error:
            return error.message
        return json.dumps(plan.answer, indent=2, default=str)

    async def _send(self, command: bytes) -> Reply:
        return await self._mongo.send(self._database, command)

    def _build(self, query: Encoded, skip: int, size: int, exports: bool) -> bytes:
        """Return the command of a page, which asks for one result more than the page shows."""
        if query.kind == ARRAY:
            return self._build_pipeline(query, skip, size, exports)
        if query.kind != EMBEDDED:
            raise BadRequest("A query is a document in braces, or an array of stages in brackets.")
        given = fields_of(query.data)
        if given and not any(name in given for name in (*FIND_FIELDS, "skip")):
            given = {"filter": query}
        if unknown := [name for name in given if name not in (*FIND_FIELDS, "skip")]:
            raise BadRequest(f"A find has no {unknown[0]}. It has {', '.join((*FIND_FIELDS, 'skip'))}.")
        before, limit = _whole(given, "skip"), _whole(given, "limit")
        most = size + 1 if not limit else max(1, min(size + 1, limit - skip))
        fields: list[tuple[str, Any]] = [("find", self._collection)]
        fields += [(name, value) for name, value in given.items() if name not in ("skip", "limit")]
        fields += [("skip", before + skip), ("limit", most), ("batchSize", most)]
        return encode_pairs([*fields, ("maxTimeMS", SECONDS * 1000)])

    def _build_pipeline(self, query: Encoded, skip: int, size: int, exports: bool) -> bytes:
        stages = [*fields_of(query.data).values()]
        names = [next(iter(fields_of(stage.data)), "") if stage.kind == EMBEDDED else "" for stage in stages]
        writes = bool(names) and names[-1] in _WRITES
        if "$changeStream" in names:
            raise BadRequest("A change stream does not end: read it with a driver.")
        if writes and exports:
            raise BadRequest(f"{names[-1]} writes, and a file only reads. Execute the pipeline instead.")
        if not writes:
            stages += [encode_value({"$skip": skip})] if skip else []
            stages.append(encode_value({"$limit": size + 1}))
        cursor = {"batchSize": min(size + 1, 1000)}
        return encode_pairs(
            [
                ("aggregate", self._collection),
                ("pipeline", stages),
                ("cursor", cursor),
                ("maxTimeMS", SECONDS * 1000),
            ]
        )


def _whole(given: dict[str, Encoded], name: str) -> int:
    """Return a whole number of a find; 0 where it is absent."""
    if name not in given:
        return 0
    value = given[name]
    number = int.from_bytes(value.data, "little", signed=True)
    if encode_value(number) != value or number < 0:
        raise BadRequest(f"{name} is a whole number from 0 on.")
    return number


def _read_rows(documents: list[bytes]) -> list[Any]:
    """Return documents as values of relaxed Extended JSON."""
    return [json.loads(format_document(document)) for document in documents]
