"""Events of a change stream from lines of histories.

Their fields: https://www.mongodb.com/docs/manual/reference/change-events/
"""

from __future__ import annotations

from typing import Any, Final

from bson import DatetimeMS

from mayflydb.engine.engine import Engine
from mayflydb.frontends.mongo.collections import Collections
from mayflydb.frontends.mongo.documents import binary_uuid, to_milliseconds
from mayflydb.frontends.mongo.streams.feed import Feed, HistoryLine, StreamScope
from mayflydb.frontends.mongo.streams.notes import decode_value
from mayflydb.frontends.mongo.streams.options import StreamOptions, cluster_time
from mayflydb.model.instant import Instant
from mayflydb.model.record import Kind
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.values import Document, decode

_EXPANDED: Final = {
    "create": "create",
    "createIndexes": "createIndexes",
    "dropIndexes": "dropIndexes",
    "modify": "modify",
    "dropView": "drop",
}
_REMOVALS: Final = (Kind.DELETE, Kind.EXPIRE)


class EventBuilder:
    """Builds the events of one stream from lines of histories.

    `engine`: looks up present documents (`updateLookup`). `feed`: knows the collections behind the lines. `collections`:
    their profiles, and whether they keep images.
    """

    def __init__(
        self, engine: Engine, feed: Feed, scope: StreamScope, options: StreamOptions, collections: Collections
    ) -> None:
        self._engine = engine
        self._feed = feed
        self._scope = scope
        self._options = options
        self._collections = collections

    async def build(self, line: HistoryLine, now: Instant) -> Document | None:
        """The event of a line, without `_id`; None: the stream does not show it."""
        event = await self._base_event(line, now)
        if event is not None and self._options.expanded and event["operationType"] != "dropDatabase":
            event["collectionUUID"] = binary_uuid(self._feed.uuid(line.container))
        return event

    async def _base_event(self, line: HistoryLine, now: Instant) -> Document | None:
        if line.version.kind is Kind.NOTE:
            return self._note_event(line)
        if not self._scope.includes(line.database, line.name):
            return None
        if line.version.kind in _REMOVALS:
            return self._removal_event(line)
        return await self._write_event(line, now)

    def invalidates(self, event: Document) -> bool:
        """Return True if nothing can follow this event."""
        if self._scope.collection is not None:
            return event["operationType"] in ("drop", "rename")
        return self._scope.database is not None and event["operationType"] == "dropDatabase"

    async def _write_event(self, line: HistoryLine, now: Instant) -> Document:
        version = line.version
        found = decode_value(line.value)
        namespace = {"db": line.database, "coll": line.name}
        key = {"_id": found.document.get("_id")}
        if version.kind is Kind.CREATE:
            event = event_head("insert", version.written)
            return {**event, "fullDocument": found.document, "ns": namespace, "documentKey": key}
        event = event_head("update" if found.change is not None else "replace", version.written)
        if found.change is None:
            event["fullDocument"] = found.document
        elif self._options.full_document == "updateLookup":
            event["fullDocument"] = await self._look_up(line, now)
        elif self._options.full_document != "default":
            image = found.document if found.before is not None else None
            event["fullDocument"] = self._check_image(image, self._options.full_document, event, "post")
        event.update({"ns": namespace, "documentKey": key})
        if found.change is not None:
            event["updateDescription"] = found.change
            if self._options.expanded:
                paths = disambiguate_paths(found.document, found.change)
                event["updateDescription"] = {**found.change, "disambiguatedPaths": paths}
        self._add_before(event, found.before)
        return event

    async def _look_up(self, line: HistoryLine, now: Instant) -> Document | None:
        """The present document; None: it is gone."""
        node = self._feed.node(line.container)
        # The collection is gone, or has another name: nothing is there under the namespace of the event.
        if node is None or node.name != line.name:
            return None
        record = await self._engine.get(node, line.version.partition, line.version.key, now)
        return None if record is None else decode(record.value)

    def _removal_event(self, line: HistoryLine) -> Document | None:
        if self._collections.contract(line.database).is_cosmos:
            return None  # Cosmos DB's change streams show no deletes.
        document = decode(line.value)
        event = event_head("delete", line.version.written)
        event.update({"ns": {"db": line.database, "coll": line.name}, "documentKey": {"_id": document.get("_id")}})
        node = self._feed.node(line.container)
        kept = node is not None and self._collections.from_node(node, line.database).keeps_images
        self._add_before(event, document if kept else None)
        return event

    def _add_before(self, event: Document, image: Document | None) -> None:
        wanted = self._options.before_change
        if wanted != "off":
            event["fullDocumentBeforeChange"] = self._check_image(image, wanted, event, "pre")

    def _check_image(self, image: Document | None, wanted: str, event: Document, which: str) -> Document | None:
        if image is None and wanted == "required":
            text = f"Change stream was configured to require a {which}-image for all update"
            text += " and replace events" if which == "post" else ", delete and replace events"
            raise MqlError(280, f"{text}, but the {which}-image was not found for event: {event['operationType']}")
        return image

    def _note_event(self, line: HistoryLine) -> Document | None:
        note = decode(line.value)
        op = note["op"]
        own = {"db": line.database, "coll": line.name}
        if op == "dropDatabase":
            return {**event_head(op, line.version.written), "ns": {"db": line.database}}
        if op == "drop" and self._scope.includes(line.database, line.name):
            return {**event_head(op, line.version.written), "ns": own}
        if op == "rename":
            to = note["to"]
            if self._scope.includes(line.database, line.name) or self._scope.includes(to["db"], to["coll"]):
                return self._rename_event(line, own, to, note["dropTarget"])
        # A stream on the replaced collection sees the rename as its end. A wider stream has seen it in the renamed one.
        if op == "replaced" and self._scope.collection is not None:
            return self._rename_event(line, note["from"], own, note["dropTarget"])
        if self._options.expanded and op in _EXPANDED and self._scope.includes(line.database, line.name):
            return {**event_head(_EXPANDED[op], line.version.written), "ns": own, **_operation_description(note)}
        return None

    def _rename_event(self, line: HistoryLine, source: Document, target: Document, dropped: bytes | None) -> Document:
        event = {**event_head("rename", line.version.written), "ns": source, "to": target}
        if self._options.expanded:
            description = {"to": target} if dropped is None else {"to": target, "dropTarget": binary_uuid(dropped)}
            event["operationDescription"] = description
        return event


def _operation_description(note: Document) -> Document:
    return {"operationDescription": note["description"]} if "description" in note else {}


def disambiguate_paths(document: Document, change: Document) -> Document:
    """The paths of a change that contain a field whose name is a number, as lists. Positions in arrays are integers there."""
    truncated = (each["field"] for each in change["truncatedArrays"])
    found: Document = {}
    for path in (*change["updatedFields"], *change["removedFields"], *truncated):
        parts: list[Any] = []
        at: Any = document
        for part in path.split("."):
            if type(at) is list and part.isdecimal():
                parts.append(int(part))
                at = at[int(part)] if int(part) < len(at) else None
            else:
                parts.append(part)
                at = at.get(part) if isinstance(at, dict) else None
        if any(isinstance(part, str) and part.isdecimal() for part in parts):
            found[path] = parts
    return found


def event_head(operation: str, written: Instant) -> Document:
    """The first fields of every event, after `_id`."""
    return {
        "operationType": operation,
        "clusterTime": cluster_time(written),
        "wallTime": DatetimeMS(to_milliseconds(written)),
    }
