"""Batches in HybridRow as the .NET client writes and reads them: by the public layout, without Mayfly's codec."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

SEGMENT = bytes.fromhex("81 f0d8ff7f 01 0a000000")
TYPES = {"Create": 0, "Patch": 1, "Read": 2, "Delete": 4, "Replace": 5, "Upsert": 20}
VARIABLE = ("partitionKey", "effectivePartitionKey", "id", "binaryId", "resourceBody")
TEXTS = {"indexingDirective": 8, "ifMatch": 9, "ifNoneMatch": 10}
"""Sparse columns of an operation that are texts, by their numbers."""


def varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number % 128 + 128]) + varint(number // 128)


def prefixed(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return varint(len(data)) + data


def operation_row(operation: Mapping[str, Any]) -> bytes:
    """`operationType` is a name or a number; the others are the columns."""
    kind = operation["operationType"]
    bits = 0b11 | sum(4 << place for place, name in enumerate(VARIABLE) if name in operation)
    row = bytes.fromhex("81 7054e17f") + struct.pack(
        "<Bii", bits, TYPES.get(kind, kind), operation.get("resourceType", 2)
    )
    row += b"".join(prefixed(operation[name]) for name in VARIABLE if name in operation)
    row += b"".join(
        bytes([20, place]) + prefixed(operation[name]) for name, place in TEXTS.items() if name in operation
    )
    if "timeToLiveInSeconds" in operation:
        row += bytes([7, 11]) + struct.pack("<i", operation["timeToLiveInSeconds"])
    if "minimalReturnPreference" in operation:
        row += bytes([3 if operation["minimalReturnPreference"] else 2, 12])
    return row


def record(row: bytes) -> bytes:
    return bytes.fromhex("81 f1d8ff7f") + struct.pack("<iI", len(row), zlib.crc32(row)) + row


def batch(operations: Sequence[Mapping[str, Any]]) -> bytes:
    return SEGMENT + b"".join(record(operation_row(each)) for each in operations)


def results(body: bytes) -> list[dict[str, Any]]:
    """The rows of an answer, by names of columns."""
    assert body.startswith(SEGMENT)
    rest, found = body[len(SEGMENT) :], []
    while rest:
        assert rest[:5].hex() == "81f1d8ff7f"
        length, checksum = struct.unpack_from("<iI", rest, 5)
        row, rest = rest[13 : 13 + length], rest[13 + length :]
        assert len(row) == length and zlib.crc32(row) == checksum
        found.append(result(row))
    return found


def result(row: bytes) -> dict[str, Any]:
    assert row[:5].hex() == "817154e17f"
    bits, status, substatus = struct.unpack_from("<Bii", row, 5)
    assert bits & 1 and status, "the client takes no row without a status"
    values: dict[str, Any] = {"statusCode": status} | ({"subStatusCode": substatus} if bits & 2 else {})
    rest = row[14:]
    for bit, name in ((4, "eTag"), (8, "resourceBody")):
        if bits & bit:
            length, rest = take_varint(rest)
            values[name], rest = rest[:length], rest[length:]
    while rest:
        name, form = {b"\x0b\x05": ("retryAfterMilliseconds", "<I"), b"\x10\x06": ("requestCharge", "<d")}[rest[:2]]
        (values[name],), rest = struct.unpack_from(form, rest, 2), rest[2 + struct.calcsize(form) :]
    if "eTag" in values:
        values["eTag"] = values["eTag"].decode()
    return values


def take_varint(data: bytes) -> tuple[int, bytes]:
    if data[0] < 128:
        return data[0], data[1:]
    more, rest = take_varint(data[1:])
    return data[0] - 128 + 128 * more, rest
