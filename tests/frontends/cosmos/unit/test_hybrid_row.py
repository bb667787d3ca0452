"""Batches in HybridRow, byte by byte. The bytes are written by hand from the public layout."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from frontends.cosmos import hybrid
from mayflydb.frontends.cosmos.batch_formats import hybrid_row
from mayflydb.frontends.cosmos.batch_formats.operations import MAX_OPERATIONS, BatchOperation, OperationResult
from mayflydb.frontends.cosmos.values import ItemLimits
from mayflydb.model.errors import BadRequest, MayflyError, Unsupported

LIMITS = ItemLimits()
SEGMENT = "81 f0d8ff7f 01 0a000000"
ROW = "81 7054e17f"


def read(*parts: str) -> list[BatchOperation]:
    return hybrid_row.read_operations(bytes.fromhex("".join(parts)), LIMITS)


def read_row(*parts: str) -> BatchOperation:
    """An operation of these bytes behind the row's header, with its record around it."""
    row = bytes.fromhex(ROW + "".join(parts))
    (operation,) = hybrid_row.read_operations(hybrid.SEGMENT + hybrid.record(row), LIMITS)
    return operation


def write(*results: OperationResult) -> str:
    return b"".join(hybrid_row.write_results(results)).hex()


# --- bytes -------------------------------------------------------------------------------------------------------------


def test_a_request_of_two_operations() -> None:
    """A create with a body, then a replace of an id with a condition."""
    create = "81 f1d8ff7f 11000000 a9e6fa11" + ROW + "43 00000000 02000000 02 7b7d"
    replace = "81 f1d8ff7f 1d000000 370693b3" + ROW + "53 05000000 02000000 03 696432 02 7b7d 14 09 05 22 61 31 32 22"
    assert read(SEGMENT, create, replace) == [
        BatchOperation("Create", resource_body=msgspec.Raw(b"{}")),
        BatchOperation("Replace", "id2", '"a12"', resource_body=msgspec.Raw(b"{}")),
    ]


def test_every_column_of_an_operation() -> None:
    operation = read_row(
        "7f 14000000 02000000",
        "06 5b 22 c3a9 22 5d",
        "02 0102",
        "01 31",
        "01 ff",
        "01 80",
        "14 08 07 496e636c756465",
        "14 09 01 2a",
        "14 0a 01 62",
        "07 0b ffffffff",
        "03 0c",
    )
    assert operation == BatchOperation(
        "Upsert", "1", "*", "b", '["é"]', msgspec.Raw(b"\x80"), True, b"\x01\x02", b"\xff", "Include", -1
    )


@pytest.mark.parametrize(
    ("number", "name"),
    [(0, "Create"), (1, "Patch"), (2, "Read"), (4, "Delete"), (5, "Replace"), (20, "Upsert"), (3, "3"), (-1, "-1")],
)
def test_types_of_operations(number: int, name: str) -> None:
    assert read_row("03", (number & 0xFFFFFFFF).to_bytes(4, "little").hex(), "02000000") == BatchOperation(name)


def test_an_answer_of_three_results() -> None:
    row = "81 7154e17f 0f c9000000 00000000 04 22613122 0a 7b226964223a2231227d 10 06 d7a3703d0ad71640"
    created = "81 f1d8ff7f 28000000 d9f999c9" + row
    assert (
        write(OperationResult(201, 5.71, '"a1"', msgspec.Raw(b'{"id":"1"}'))) == bytes.fromhex(SEGMENT + created).hex()
    )
    # A failure has its reason where a success has its item, and when to try again.
    throttled = OperationResult(429, 0.0, message="Wait", sub_status_code=3200, retry_after_milliseconds=258)
    body = b'{"Errors":["Wait"]}'
    row = "81 7154e17f 0b ad010000 800c0000 13" + body.hex() + "0b 05 02010000 10 06 0000000000000000"
    assert write(throttled).startswith(bytes.fromhex(SEGMENT + "81 f1d8ff7f 32000000").hex())
    assert write(throttled).endswith(bytes.fromhex(row).hex())
    assert write(OperationResult(424, 0.0)).endswith(
        bytes.fromhex("81 7154e17f 03 a8010000 00000000 10 06 0000000000000000").hex()
    )


def test_a_segment_may_have_a_comment() -> None:
    operation = "81 f1d8ff7f 0e000000 e53b167a" + ROW + "03 02000000 02000000"
    assert read("81 f0d8ff7f 01 0f000000 14 02 02 6869", operation) == [BatchOperation("Read")]


# --- refusals ----------------------------------------------------------------------------------------------------------

READ = "03 02000000 02000000"
STREAMS = [
    (SEGMENT, "no operations"),
    ("81", "cut short"),
    ("81 f0d8ff7f", "cut short"),
    ("81 f0d8ff7f 01 0a0000", "cut short"),
    ("81 f0d8ff7f 00 0a000000", "length of a segment"),
    ("81 f0d8ff7f 01 09000000", "length of a segment"),
    ("81 f0d8ff7f 01 ffffffff", "length of a segment"),
    ("81 f0d8ff7f 01 0b000000", "length of a segment"),
    ("81 f0d8ff7f 01 0b000000 14", "cut short"),
    ("81 f0d8ff7f 03 0a000000", "more columns than its schema"),
    ("81 f1d8ff7f 00000000 00000000", "does not begin with a segment"),
    (SEGMENT + "80 f1d8ff7f", "0x80 in place of its version"),
    (SEGMENT + "81 f1d8ff7f 0e0000", "cut short"),
    (SEGMENT + "81 f1d8ff7f 0e000000 e53b167a", "length of a record"),
    (SEGMENT + "81 f1d8ff7f ffffffff 00000000", "length of a record"),
    (SEGMENT + "81 f1d8ff7f ffffff7f 00000000", "length of a record"),
    (SEGMENT + "81 f1d8ff7f 00000000 00000000", "length of a record"),
    (SEGMENT + "81 f1d8ff7f 0e000000 e53b167b" + ROW + READ, "checksum"),
    (SEGMENT + "81 7054e17f" + READ, "the schema 2145473648 where Record is expected"),
]  # fmt: skip


@pytest.mark.parametrize(("stream", "reason"), STREAMS)
def test_broken_streams_are_refused(stream: str, reason: str) -> None:
    with pytest.raises(BadRequest, match=reason):
        read(stream)


ROWS = [
    ("", "cut short"),
    ("03 02000000 020000", "cut short"),
    ("83 02000000 02000000", "more columns than its schema"),
    ("02 02000000 02000000", "no operationType"),
    ("07 02000000 02000000", "cut short"),
    ("07 02000000 02000000 05 5b5d", "cut short"),
    ("07 02000000 02000000 ffffffff07", "cut short"),
    ("07 02000000 02000000 ffffffffffff07", "a length is too long"),
    ("07 02000000 02000000 02 ff61", "partitionKey is not UTF-8"),
    (READ + "00", "cut short"),
    (READ + "14 09", "cut short"),
    (READ + "14 00 00", "no sparse column 0"),
    (READ + "14 01 00", "no sparse column 1"),
    (READ + "14 07 00", "no sparse column 7"),
    (READ + "15 09 01 61", "ifMatch has the type 21"),
    (READ + "01 09", "ifMatch has the type 1,"),
    (READ + "0b 0b 00000000", "timeToLiveInSeconds has the type 11"),
    (READ + "07 0c 00000000", "minimalReturnPreference has the type 7"),
    (READ + "03 0c 02 0c", "minimalReturnPreference occurs twice"),
]


@pytest.mark.parametrize(("row", "reason"), ROWS)
def test_broken_rows_are_refused(row: str, reason: str) -> None:
    with pytest.raises(BadRequest, match=reason):
        read_row(row)


@pytest.mark.parametrize(
    ("row", "named"),
    [
        ("03 02000000 03000000", "resource type 3"),
        (READ + "14 10 74746c 01 61", "property 'ttl'"),
        (READ + "14 0d 01 61", "property ''"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(row: str, named: str) -> None:
    with pytest.raises(Unsupported, match=named):
        read_row(row)


def test_segments_that_follow_and_schemas_in_segments_are_refused_by_name() -> None:
    with pytest.raises(Unsupported, match="several segments"):
        read(SEGMENT, SEGMENT)
    with pytest.raises(Unsupported, match="property 'schema' of a row of Segment"):
        read("81 f0d8ff7f 01 0c000000 44 04")


def test_a_row_of_another_schema_is_refused() -> None:
    with pytest.raises(BadRequest, match="the schema 2145473649 where BatchOperation is expected"):
        hybrid_row.read_operations(hybrid.SEGMENT + hybrid.record(bytes.fromhex("81 7154e17f" + READ)), LIMITS)


def test_no_more_operations_are_read_than_a_batch_may_have() -> None:
    row = hybrid.record(bytes.fromhex(ROW + READ))
    assert len(hybrid_row.read_operations(hybrid.SEGMENT + row * MAX_OPERATIONS, LIMITS)) == MAX_OPERATIONS
    # What follows is not looked at.
    with pytest.raises(BadRequest, match="At most 100"):
        hybrid_row.read_operations(hybrid.SEGMENT + row * (MAX_OPERATIONS + 1) + b"?", LIMITS)


# --- both ways, at random ----------------------------------------------------------------------------------------------

NAMES = {field.encode_name: field.name for field in msgspec.structs.fields(BatchOperation)}


def some_text(chance: random.Random) -> str:
    return "".join(chance.choices('a"/é🦋\0', k=chance.choice((0, 1, 5, 127, 128, 300))))


def some_bytes(chance: random.Random) -> bytes:
    return chance.randbytes(chance.choice((1, 2, 127, 128, 20_000)))


def some_operation(chance: random.Random) -> dict[str, Any]:
    columns: dict[str, Any] = {
        **dict.fromkeys(("partitionKey", "id", *hybrid.TEXTS), some_text),
        **dict.fromkeys(("effectivePartitionKey", "binaryId", "resourceBody"), some_bytes),
        "timeToLiveInSeconds": lambda chance: chance.randrange(-(1 << 31), 1 << 31),
        "minimalReturnPreference": lambda chance: chance.random() < 0.5,
    }
    chosen = {name: make(chance) for name, make in columns.items() if chance.random() < 0.4}
    return {"operationType": chance.choice([*hybrid.TYPES])} | chosen


def test_random_operations_are_read_as_they_were_written(chance: random.Random) -> None:
    for _ in range(100):
        written = [some_operation(chance) for _ in range(chance.randrange(1, 6))]
        expected = [
            BatchOperation(**{NAMES[name]: value for name, value in each.items() if name != "resourceBody"})
            for each in written
        ]
        for given, operation in zip(written, expected, strict=True):
            operation.resource_body = msgspec.Raw(given.get("resourceBody", b""))
        assert hybrid_row.read_operations(hybrid.batch(written), LIMITS) == expected


def test_random_results_are_written_as_clients_read_them(chance: random.Random) -> None:
    for _ in range(100):
        results, expected = [], []
        for _ in range(chance.randrange(1, 6)):
            result = OperationResult(chance.randrange(200, 600), chance.random() * 100)
            row: dict[str, Any] = {"statusCode": result.status_code, "requestCharge": result.request_charge}
            row["subStatusCode"] = 0
            if chance.random() < 0.5:
                row["eTag"] = result.e_tag = some_text(chance)
            if chance.random() < 0.5:
                row["resourceBody"] = some_bytes(chance)
                result.resource_body = msgspec.Raw(row["resourceBody"])
            if chance.random() < 0.5:
                row["subStatusCode"] = result.sub_status_code = chance.randrange(1 << 31)
                row["retryAfterMilliseconds"] = result.retry_after_milliseconds = chance.randrange(1 << 32)
            results.append(result)
            expected.append(row)
        assert hybrid.results(b"".join(hybrid_row.write_results(results))) == expected


def test_every_cut_and_every_changed_bit_is_refused_or_read(chance: random.Random) -> None:
    body = hybrid.batch([some_operation(chance) | {"resourceBody": b"{}", "ifMatch": "x"} for _ in range(2)])
    if len(body) > 2000:
        body = hybrid.batch([{"operationType": "Create", "resourceBody": b"{}", "ifMatch": "x", "id": "é"}] * 2)
    whole = hybrid_row.read_operations(body, LIMITS)
    for end in range(len(body)):
        with suppress(MayflyError):
            assert len(hybrid_row.read_operations(body[:end], LIMITS)) < len(whole)
    for place in range(len(body) * 8):
        changed = bytearray(body)
        changed[place // 8] ^= 1 << place % 8
        with pytest.raises(MayflyError):
            hybrid_row.read_operations(bytes(changed), LIMITS)
