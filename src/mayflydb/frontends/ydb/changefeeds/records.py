"""The records of changefeeds: a change of a row as a message. Pure.

| format | source |
|---|---|
| JSON | https://ydb.tech/docs/en/concepts/cdc#json-record-structure |
| DEBEZIUM_JSON | the same page; one payload without a schema |
| DYNAMODB_STREAMS_JSON | the record of Amazon's GetRecords, which the vendor's document API tells readers to expect |

An erase by TTL has the form of a client's; with USER_SIDS it names `ttl@system`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from mayflydb.frontends.ydb.changefeeds.columns import dynamo_writer, json_writer
from mayflydb.frontends.ydb.rows import RowLayout, Values
from mayflydb.frontends.ydb.tables import Changefeed
from mayflydb.frontends.ydb.topics.bodies import TopicMessage
from mayflydb.model.instant import MILLISECOND, Instant

TTL_USER: Final = "ttl@system"
"""The user of a removal by TTL, with USER_SIDS."""

Kind = Literal["update", "reset", "erase"]

_encode = msgspec.json.Encoder().encode


class RowChange(msgspec.Struct, frozen=True):
    """A change of a row. `before`, `after`: the row by column number; None: there was, or is, none.

    `written`: the numbers of the columns that the write gave. `scanned`: a row that an initial scan found.
    """

    kind: Kind
    before: Values | None
    after: Values | None
    written: Sequence[int] = ()
    scanned: bool = False

    @property
    def row(self) -> Values:
        """The row that has the key."""
        found = self.after if self.after is not None else self.before
        assert found is not None
        return found


class ChangeOrigin(msgspec.Struct, frozen=True):
    """Where a change comes from: its instant, the number of its transaction, and its user; empty: not told."""

    now: Instant
    number: int
    user: str

    @property
    def step(self) -> int:
        """Milliseconds from the epoch."""
        return self.now // MILLISECOND


class RecordPlace(msgspec.Struct, frozen=True):
    """The place of a record in a feed: its partition, and its number there, from 1."""

    partition: int
    number: int


class RecordWriter:
    """Writes the records of one changefeed of a table."""

    def __init__(self, layout: RowLayout, feed: Changefeed) -> None:
        self._feed = feed
        columns = [(layout.numbers[column.name], column) for column in layout.view.table.columns]
        keys = set(layout.view.table.key)
        by_name = {column.name: (number, column.name, json_writer(column.type)) for number, column in columns}
        self._key = [by_name[name] for name in layout.view.table.key]
        self._values = {
            number: (column.name, json_writer(column.type)) for number, column in columns if column.name not in keys
        }
        self._attributes = [(number, column.name, dynamo_writer(column.type)) for number, column in columns]
        self._key_names = layout.view.table.key
        mode = feed.mode
        self._has_new = mode in ("NEW_IMAGE", "NEW_AND_OLD_IMAGES")
        self._has_old = mode in ("OLD_IMAGE", "NEW_AND_OLD_IMAGES")
        self._write: Callable[[RowChange, ChangeOrigin, RecordPlace], TopicMessage] = {
            "JSON": self._write_json,
            "DEBEZIUM_JSON": self._write_debezium,
            "DYNAMODB_STREAMS_JSON": self._write_dynamo,
        }[feed.format]

    def write(self, change: RowChange, origin: ChangeOrigin, place: RecordPlace) -> TopicMessage:
        """Return the message of a change."""
        return self._write(change, origin, place)

    def partition(self, change: RowChange, partitions: int) -> int:
        """Return the partition of a change: always the same for one key."""
        digest = hashlib.md5(_encode(self._key_values(change.row)), usedforsecurity=False).digest()
        return int.from_bytes(digest[:8], "big") * partitions >> 64

    def _key_values(self, row: Values) -> list[Any]:
        return [None if row[number] is None else write(row[number]) for number, _, write in self._key]

    def _image(self, row: Values) -> dict[str, Any]:
        return {name: None if row[n] is None else write(row[n]) for n, (name, write) in self._values.items()}

    def _message(
        self,
        body: Mapping[str, Any],
        origin: ChangeOrigin,
        place: RecordPlace,
        metadata: tuple[tuple[str, bytes], ...] = (),
    ) -> TopicMessage:
        data = _encode(body)
        return TopicMessage(data, place.number, origin.now, len(data), metadata)

    # --- JSON --------------------------------------------------------------------------------------------------------

    def _write_json(self, change: RowChange, origin: ChangeOrigin, place: RecordPlace) -> TopicMessage:
        body: dict[str, Any] = {change.kind: self._read_written(change)}
        if self._has_new and change.after is not None:
            body["newImage"] = self._image(change.after)
        if self._has_old and change.before is not None:
            body["oldImage"] = self._image(change.before)
        body["key"] = self._key_values(change.row)
        if self._feed.virtual_timestamps:
            body["ts"] = [origin.step, origin.number]
        if origin.user:
            body["user"] = origin.user
        return self._message(body, origin, place)

    def _read_written(self, change: RowChange) -> dict[str, Any]:
        """Return the columns that were written, in the mode that tells of them."""
        if self._feed.mode != "UPDATES" or change.after is None:
            return {}
        image = self._image(change.after)
        if change.scanned:
            return image
        return {name: image[name] for number, (name, _) in self._values.items() if number in change.written}

    # --- Debezium ----------------------------------------------------------------------------------------------------

    def _write_debezium(self, change: RowChange, origin: ChangeOrigin, place: RecordPlace) -> TopicMessage:
        payload: dict[str, Any] = {"op": self._operation(change)}
        if self._has_old and change.before is not None:
            payload["before"] = self._whole(change.before)
        if self._has_new and change.after is not None:
            payload["after"] = self._whole(change.after)
        source = {
            "version": "1.0.0",
            "connector": "ydb",
            "ts_ms": origin.step,
            "step": origin.step,
            "txId": origin.number,
            "snapshot": change.scanned,
        }
        payload["source"] = source | ({"user": origin.user} if origin.user else {})
        key = _encode({"payload": dict(zip(self._key_names, self._key_values(change.row), strict=True))})
        return self._message({"payload": payload}, origin, place, (("__key", key),))

    def _operation(self, change: RowChange) -> str:
        if change.after is None:
            return "d"
        if change.scanned:
            return "r"
        return "c" if self._feed.mode == "NEW_AND_OLD_IMAGES" and change.before is None else "u"

    def _whole(self, row: Values) -> dict[str, Any]:
        return dict(zip(self._key_names, self._key_values(row), strict=True)) | self._image(row)

    # --- DynamoDB ----------------------------------------------------------------------------------------------------

    def _write_dynamo(self, change: RowChange, origin: ChangeOrigin, place: RecordPlace) -> TopicMessage:
        stream: dict[str, Any] = {
            "ApproximateCreationDateTime": origin.step,
            "SequenceNumber": f"{place.number:021d}",
            "StreamViewType": self._feed.mode,
            "Keys": self._attribute_values(change.row, keys=True),
        }
        if self._has_new and change.after is not None:
            stream["NewImage"] = self._attribute_values(change.after)
        if self._has_old and change.before is not None:
            stream["OldImage"] = self._attribute_values(change.before)
        body = {
            "awsRegion": self._feed.aws_region,
            "eventID": f"{self._feed.topic}.{place.partition}-{place.number}",
            "eventName": self._event_name(change),
            "eventSource": "ydb:document-table",
            "eventVersion": "1.0",
            "dynamodb": stream,
        }
        if origin.user == TTL_USER:
            body["userIdentity"] = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}
        elif origin.user:
            body["userIdentity"] = {"type": "User", "principalId": origin.user}
        return self._message(body, origin, place)

    def _event_name(self, change: RowChange) -> str:
        if change.after is None:
            return "REMOVE"
        return "INSERT" if self._feed.mode == "NEW_AND_OLD_IMAGES" and change.before is None else "MODIFY"

    def _attribute_values(self, row: Values, keys: bool = False) -> dict[str, Any]:
        """Return the attributes of a row that are not NULL. The columns of the document API itself are left out."""
        found: dict[str, Any] = {}
        for number, name, write in self._attributes:
            if row[number] is None or (keys and name not in self._key_names):
                continue
            if name == "__RowData":
                document = msgspec.json.decode(row[number])
                found |= document.get("M", {}) if isinstance(document, dict) else {}
            elif not name.startswith("__"):
                found[name] = write(row[number])
        return found
