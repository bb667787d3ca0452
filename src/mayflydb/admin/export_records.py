"""Exports the records of one container, collection or table, page by page, by the requests of its front end.

The server holds one page at a time, whether the client asks for each page or for a line of each record.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final

import msgspec

from mayflydb.admin import formats
from mayflydb.admin.cosmos_items import CosmosItems
from mayflydb.admin.mongo_documents import to_json
from mayflydb.admin.requests import ExportPage
from mayflydb.admin.targets import ContainerTarget, TargetResolver
from mayflydb.admin.wires import Wires
from mayflydb.engine.engine import Engine
from mayflydb.model.errors import BadRequest, MayflyError, Unsupported
from mayflydb.model.hints import Hint
from mayflydb.model.instant import MILLISECOND, Instant
from mayflydb.query.yql.answers import AnswerLimits
from mayflydb.query.yql.key_paging import condition_behind, quote_name

CONTINUATION: Final = "x-ms-continuation"
AS_OF: Final = "x-mayfly-as-of"

TURN_RECORDS: Final = 16
"""Records after which others run."""

FIRST_DOCUMENTS: Final = 4
"""Documents of the first request of a page, before anything is known of their size."""

MOST_DOCUMENTS: Final = 100
"""Documents of one request at most."""

BATCH_BYTES: Final = 128 << 10
"""Bytes of documents that one request is meant to give: an answer is taken apart in one go."""

PAGE_BYTES: Final = 4 << 20
"""Bytes of documents after which a page ends."""

CHEAP_BYTES: Final = 4096
"""Bytes of documents that are converted in the event loop."""

Page = tuple[list[Any], str | None]
"""Records, and the token of the next page; None: there is none."""


class RecordExport:
    """Reads pages of visible records."""

    def __init__(self, engine: Engine, targets: TargetResolver, wires: Wires) -> None:
        self._engine = engine
        self._targets = targets
        self._wires = wires

    async def page(self, wanted: ExportPage) -> dict[str, Any]:
        """Read a page. It may have fewer records than the limit, or none, and still not be the last."""
        target = await self._targets.resolve_container(wanted.target)
        target.front_end.check_lifecycle(target.node)
        limit = wanted.checked_limit()
        read = {"cosmos": self._read_items, "mongo": self._read_documents, "ydb": self._read_rows}
        records, after = await read[target.front_end.space](target, limit, wanted.after, wanted.parse_as_of())
        now = formats.time(await self._engine.now())
        return {"now": now, "target": target.target, "records": records, "after": after}

    async def open_lines(self, wanted: ExportPage) -> AsyncGenerator[bytes, None]:
        """Return all records as JSON Lines, from `after` on. `limit`: the records of a page. Errors: those of the first page."""
        return self._make_lines(wanted, await self.page(wanted))

    async def _make_lines(self, wanted: ExportPage, page: dict[str, Any]) -> AsyncGenerator[bytes, None]:
        try:
            while True:
                records = page["records"]
                for start in range(0, len(records), TURN_RECORDS):
                    yield b"".join(msgspec.json.encode(each) + b"\n" for each in records[start : start + TURN_RECORDS])
                if page["after"] is None:
                    return
                page = await self.page(msgspec.structs.replace(wanted, after=page["after"]))
        finally:
            if page["after"] is not None:
                await self._close(wanted.target, page["after"])

    async def _close(self, name: str, after: str) -> None:
        """Close what waits for the next page of an export that ends here."""
        target, mongo = await self._targets.resolve_container(name), self._wires.mongo
        if target.front_end.space == "mongo" and mongo is not None:
            from bson import Int64

            await mongo(target.database, {"killCursors": target.node.name, "cursors": [Int64(after)]})

    async def _read_items(self, target: ContainerTarget, limit: int, after: str | None, as_of: Instant | None) -> Page:
        headers = {"x-ms-max-item-count": str(limit)} | ({} if after is None else {CONTINUATION: after})
        if as_of is not None:
            headers[AS_OF] = formats.time(as_of)
        path = ("dbs", target.database, "colls", target.node.name, "docs")
        return await CosmosItems(self._wires.cosmos).page(path, headers)

    async def _read_documents(
        self, target: ContainerTarget, limit: int, after: str | None, as_of: Instant | None
    ) -> Page:
        mongo = self._wires.mongo
        if mongo is None:
            raise Unsupported("MongoDB is not served here", hint=Hint("no-mongo"))
        from bson import DatetimeMS, Int64

        from mayflydb.query.mongo.values import encode

        if after is not None and (not after.isdecimal() or len(after) > 19):
            raise BadRequest(f"{after!r} is not the token of a page")
        name, cursor = target.node.name, None if after is None else int(after)
        # An open cursor keeps the instant of its first batch.
        comment = {} if as_of is None else {"comment": {"mayflyAsOf": DatetimeMS(as_of // MILLISECOND)}}
        records: list[msgspec.Raw] = []
        total, asked = 0, FIRST_DOCUMENTS
        while True:
            asked = min(asked, limit - len(records))
            more: dict[str, Any] = {"find": name, "batchSize": asked} | comment
            if cursor is not None:
                more = {"getMore": Int64(cursor), "collection": name, "batchSize": asked}
            try:
                reply = await mongo.send(target.database, encode(more))
                cursor = reply.cursor
                records += await _convert_documents(reply.documents)
            except BaseException:
                # The client gets no token by which it could go on.
                if cursor:
                    with contextlib.suppress(MayflyError):
                        await self._close(target.target, str(cursor))
                raise
            total += sum(map(len, reply.documents))
            if not cursor:
                return records, None
            if len(records) >= limit or total >= PAGE_BYTES or not reply.documents:
                return records, str(cursor)
            asked = max(1, min(MOST_DOCUMENTS, BATCH_BYTES * len(records) // total))

    async def _read_rows(self, target: ContainerTarget, limit: int, after: str | None, as_of: Instant | None) -> Page:
        ydb = self._wires.ydb
        if ydb is None:
            raise Unsupported("YDB is not served here", hint=Hint("no-ydb"))
        key: Sequence[str] = target.node.body["key"]
        types = {column["name"]: column["type"] for column in target.node.body["columns"]}
        table, order = quote_name(f"{target.database}/{target.node.name}"), ", ".join(map(quote_name, key))
        where, parameters = "", {}  # type: str, dict[str, tuple[str, Any]]
        if after is not None:
            condition, parameters = condition_behind(key, types, _decode_key(after, len(key)))
            where = f" WHERE {condition}"
        text = f"SELECT * FROM {table}{where} ORDER BY {order} LIMIT {limit}"  # noqa: S608 -- names are quoted
        if as_of is not None:
            text = f'PRAGMA mayfly.AsOf = "{formats.time(as_of)}"; {text}'
        result = (await ydb(target.database, text, parameters, limits=AnswerLimits(rows=limit))).results[0]
        names = [name for name, _ in result.columns]
        rows = [dict(zip(names, row, strict=True)) for row in result.rows]
        if len(rows) < limit and not result.truncated:
            return rows, None
        return rows, msgspec.json.encode([rows[-1][name] for name in key]).decode()


async def _convert_documents(documents: Sequence[bytes]) -> list[msgspec.Raw]:
    """Return documents as JSON. Large ones are converted on a thread, since this is done in Python, member by member."""
    from mayflydb.query.mongo.values import decode

    if sum(map(len, documents)) <= CHEAP_BYTES:
        await asyncio.sleep(0)
        return [to_json(decode(each)) for each in documents]
    return await asyncio.to_thread(lambda: [to_json(decode(each)) for each in documents])


def _decode_key(after: str, size: int) -> list[Any]:
    try:
        found = msgspec.json.decode(after, type=list)
    except (msgspec.DecodeError, RecursionError):
        found = []
    if len(found) != size:
        raise BadRequest(f"{after!r} is not the token of a page")
    return found
