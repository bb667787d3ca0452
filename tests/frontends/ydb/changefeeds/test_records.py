"""The forms of changefeeds' records, by mode and format, without a server.

Source: https://ydb.tech/docs/en/concepts/cdc, and Amazon's GetRecords for the third format.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from mayflydb.engine.catalog import Node
from mayflydb.frontends.ydb.changefeeds.columns import dynamo_writer, json_writer
from mayflydb.frontends.ydb.changefeeds.records import TTL_USER, ChangeOrigin, RecordPlace, RecordWriter, RowChange
from mayflydb.frontends.ydb.rows import RowLayout
from mayflydb.frontends.ydb.schemes.definitions import TtlPolicy, new_table
from mayflydb.frontends.ydb.schemes.specs import ColumnSpec, TableSpec
from mayflydb.frontends.ydb.schemes.views import table_view
from mayflydb.frontends.ydb.tables import Changefeed
from mayflydb.query.yql.types import DecimalType, Primitive, Type, optional

TABLE = TableSpec(
    (
        ColumnSpec("id", Primitive("Uint64")),
        ColumnSpec("v", optional(Primitive("Int32"))),
        ColumnSpec("s", optional(Primitive("Utf8"))),
    ),
    ("id",),
)
LAYOUT = RowLayout(table_view(Node(7, 1, "t", new_table(TABLE, "root@builtin", TtlPolicy(), 0)), "/local/t"))

NEW = RowChange("update", None, [1, 10, None], (0, 1))
CHANGED = RowChange("update", [1, 10, "a"], [1, 11, "a"], (0, 1))
REPLACED = RowChange("reset", [1, 10, "a"], [1, 12, None], (0, 1))
ERASED = RowChange("erase", [1, 10, "a"], None)
SCANNED = RowChange("update", None, [1, 10, "a"], scanned=True)
AT = ChangeOrigin(1_500_000_123_456, 9, "")

OLD, TEN = {"v": 10, "s": "a"}, {"v": 10, "s": None}

JSON_ROWS: list[tuple[str, RowChange, dict[str, Any]]] = [
    ("KEYS_ONLY", NEW, {"update": {}}),
    ("KEYS_ONLY", REPLACED, {"reset": {}}),
    ("KEYS_ONLY", ERASED, {"erase": {}}),
    ("KEYS_ONLY", SCANNED, {"update": {}}),
    # The columns that the write gave, whether they changed or not, and no others.
    ("UPDATES", NEW, {"update": {"v": 10}}),
    ("UPDATES", CHANGED, {"update": {"v": 11}}),
    ("UPDATES", REPLACED, {"reset": {"v": 12}}),
    ("UPDATES", ERASED, {"erase": {}}),
    ("UPDATES", SCANNED, {"update": OLD}),
    ("NEW_IMAGE", NEW, {"update": {}, "newImage": TEN}),
    ("NEW_IMAGE", CHANGED, {"update": {}, "newImage": {"v": 11, "s": "a"}}),
    ("NEW_IMAGE", REPLACED, {"reset": {}, "newImage": {"v": 12, "s": None}}),
    ("NEW_IMAGE", ERASED, {"erase": {}}),
    ("NEW_IMAGE", SCANNED, {"update": {}, "newImage": OLD}),
    ("OLD_IMAGE", NEW, {"update": {}}),
    ("OLD_IMAGE", CHANGED, {"update": {}, "oldImage": OLD}),
    ("OLD_IMAGE", ERASED, {"erase": {}, "oldImage": OLD}),
    ("OLD_IMAGE", SCANNED, {"update": {}}),
    ("NEW_AND_OLD_IMAGES", NEW, {"update": {}, "newImage": TEN}),
    ("NEW_AND_OLD_IMAGES", CHANGED, {"update": {}, "newImage": {"v": 11, "s": "a"}, "oldImage": OLD}),
    ("NEW_AND_OLD_IMAGES", ERASED, {"erase": {}, "oldImage": OLD}),
]


def written(
    mode: str, kind: str, change: RowChange, origin: ChangeOrigin = AT, **settings: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(body, metadata) of a change's message."""
    feed = Changefeed("f", mode, kind, 5, **settings)  # type: ignore[arg-type]
    message = RecordWriter(LAYOUT, feed).write(change, origin, RecordPlace(2, 4))
    return json.loads(message.data), {name: json.loads(value) for name, value in message.metadata}


@pytest.mark.parametrize(("mode", "change", "expected"), JSON_ROWS)
def test_json(mode: str, change: RowChange, expected: dict[str, Any]) -> None:
    assert written(mode, "JSON", change) == ({"key": [1], **expected}, {})


@pytest.mark.parametrize(
    ("change", "user", "virtual", "expected"),
    [
        (ERASED, "", False, {}),
        (ERASED, "", True, {"ts": [1_500_000_123, 9]}),
        (ERASED, TTL_USER, False, {"user": "ttl@system"}),
        (NEW, "root@builtin", True, {"ts": [1_500_000_123, 9], "user": "root@builtin"}),
    ],
)
def test_json_with_times_and_users(change: RowChange, user: str, virtual: bool, expected: dict[str, Any]) -> None:
    origin = ChangeOrigin(AT.now, AT.number, user)
    body, _ = written("KEYS_ONLY", "JSON", change, origin, virtual_timestamps=virtual)
    assert body == {"key": [1], change.kind: {}, **expected}


SOURCE = {
    "version": "1.0.0", "connector": "ydb", "ts_ms": 1_500_000_123, "step": 1_500_000_123, "txId": 9, "snapshot": False,
}  # fmt: skip
WHOLE = {"id": 1, **OLD}


@pytest.mark.parametrize(
    ("mode", "change", "user", "expected"),
    [
        ("KEYS_ONLY", NEW, "", {"op": "u", "source": SOURCE}),
        ("NEW_IMAGE", NEW, "", {"op": "u", "after": {"id": 1, **TEN}, "source": SOURCE}),
        ("NEW_AND_OLD_IMAGES", NEW, "", {"op": "c", "after": {"id": 1, **TEN}, "source": SOURCE}),
        ("OLD_IMAGE", CHANGED, "", {"op": "u", "before": WHOLE, "source": SOURCE}),
        ("NEW_IMAGE", SCANNED, "", {"op": "r", "after": WHOLE, "source": SOURCE | {"snapshot": True}}),
        ("OLD_IMAGE", ERASED, TTL_USER, {"op": "d", "before": WHOLE, "source": SOURCE | {"user": "ttl@system"}}),
    ],
)
def test_debezium(mode: str, change: RowChange, user: str, expected: dict[str, Any]) -> None:
    body, metadata = written(mode, "DEBEZIUM_JSON", change, ChangeOrigin(AT.now, 9, user))
    assert (body, metadata) == ({"payload": expected}, {"__key": {"payload": {"id": 1}}})


SERVICE = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}


@pytest.mark.parametrize(
    ("mode", "change", "user", "event", "images", "identity"),
    [
        ("KEYS_ONLY", NEW, "", "MODIFY", {}, None),
        ("NEW_AND_OLD_IMAGES", NEW, "", "INSERT", {"NewImage": {"id": {"S": "1"}, "v": {"S": "10"}}}, None),
        (
            "OLD_IMAGE",
            ERASED,
            TTL_USER,
            "REMOVE",
            {"OldImage": {"id": {"S": "1"}, "v": {"S": "10"}, "s": {"S": "a"}}},
            SERVICE,
        ),
        ("KEYS_ONLY", ERASED, "root@builtin", "REMOVE", {}, {"type": "User", "principalId": "root@builtin"}),
    ],
)
def test_dynamodb(
    mode: str, change: RowChange, user: str, event: str, images: dict[str, Any], identity: dict[str, str] | None
) -> None:
    body, _ = written(mode, "DYNAMODB_STREAMS_JSON", change, ChangeOrigin(AT.now, 9, user), aws_region="eu-1")
    assert body.pop("userIdentity", None) == identity
    assert body == {
        "awsRegion": "eu-1",
        "eventID": "5.2-4",
        "eventName": event,
        "eventSource": "ydb:document-table",
        "eventVersion": "1.0",
        "dynamodb": {
            "ApproximateCreationDateTime": 1_500_000_123,
            "SequenceNumber": "000000000000000000004",
            "StreamViewType": mode,
            "Keys": {"id": {"S": "1"}},
            **images,
        },
    }


VALUES: list[tuple[Type, Any, Any]] = [
    (Primitive("Bool"), True, True),
    (Primitive("Uint64"), 2**64 - 1, 2**64 - 1),
    (Primitive("Int8"), -1, -1),
    (Primitive("Double"), 0.5, 0.5),
    (Primitive("Double"), float("nan"), "nan"),
    (Primitive("Float"), float("inf"), "inf"),
    (Primitive("Float"), float("-inf"), "-inf"),
    (Primitive("Date"), 1, "1970-01-02T00:00:00.000000Z"),
    (Primitive("Datetime"), 1, "1970-01-01T00:00:01.000000Z"),
    (Primitive("Timestamp"), 1, "1970-01-01T00:00:00.000001Z"),
    (Primitive("Interval"), 1_500_000, 1_500_000),
    (Primitive("Date32"), -1, -1),
    (Primitive("Timestamp64"), -5, -5),
    (DecimalType(22, 9), 1_500_000_000, "1.5"),
    (Primitive("String"), b"\xff", "/w=="),
    (Primitive("Utf8"), 'a"\n', 'a"\n'),
    (Primitive("Json"), '{"a": [1,\n2]}', {"a": [1, 2]}),
    (Primitive("JsonDocument"), '{"a":1}', {"a": 1}),
    (Primitive("Yson"), b"{a=[1;%true]}", {"a": [1, True]}),
    (Primitive("Uuid"), bytes.fromhex("00112233445566778899aabbccddeeff"), "33221100-5544-7766-8899-aabbccddeeff"),
]


@pytest.mark.parametrize(("type", "value", "expected"), VALUES)
def test_values(type: Type, value: Any, expected: Any) -> None:
    from msgspec.json import encode

    text = encode(json_writer(optional(type))(value))
    assert b"\n" not in text, "a record is one line"
    assert json.loads(text) == expected


@pytest.mark.parametrize(
    ("type", "value", "expected"),
    [
        (Primitive("Bool"), False, {"BOOL": False}),
        (Primitive("String"), b"\x00", {"B": "AA=="}),
        (Primitive("Utf8"), "x", {"S": "x"}),
        (Primitive("Uint64"), 5, {"S": "5"}),
    ],
)
def test_attribute_values(type: Type, value: Any, expected: Any) -> None:
    assert dynamo_writer(type)(value) == expected


def test_a_key_stays_in_its_partition() -> None:
    writer = RecordWriter(LAYOUT, Changefeed("f", "KEYS_ONLY", "JSON", 5))
    for n in range(200):
        places = {
            writer.partition(change, 7)
            for change in (RowChange("update", None, [n, 1, "a"]), RowChange("erase", [n, 2, None], None))
        }
        assert len(places) == 1
    spread = {writer.partition(RowChange("update", None, [n, 1, None]), 7) for n in range(200)}
    assert spread == set(range(7))
