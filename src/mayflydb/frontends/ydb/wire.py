"""Response messages packed by hand.

A protobuf object for each message would cost several times as much as its bytes.

Field numbers: https://github.com/ydb-platform/ydb-api-protos `ydb_operation.proto`, `ydb_query.proto`,
`ydb_issue_message.proto`, `ydb_value.proto`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final

from mayflydb.frontends.ydb.descriptors import enum_number
from mayflydb.query.yql.faults import Issue, Position

_SMALL: Final = tuple(bytes((number,)) for number in range(128))

TYPE_URL_PREFIX: Final = "type.googleapis.com/"


def varint(number: int) -> bytes:
    """Encode a whole number that is not negative."""
    if number < 128:
        return _SMALL[number]
    # Seven bits to a byte, the lowest first. Bit 7 is set in every byte but the last.
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def bytes_field(field: int, content: bytes) -> bytes:
    """Encode a field of bytes, text or a message."""
    # The last three bits of a tag are the wire type: 0 is a varint, 2 a length with as many bytes.
    return varint(field << 3 | 2) + varint(len(content)) + content


def int_field(field: int, value: int) -> bytes:
    """Encode a field of a whole number. 0 is left out, since a missing field means 0."""
    return varint(field << 3) + varint(value) if value else b""


def text_field(field: int, value: str) -> bytes:
    """Encode a field of text. An empty text is left out."""
    return bytes_field(field, value.encode()) if value else b""


@cache
def status_number(status: str) -> int:
    """Return the number of a status: 400000 for SUCCESS, 0 for STATUS_CODE_UNSPECIFIED."""
    return enum_number("Ydb.StatusIds.StatusCode", status)


def issue_message(given: Issue) -> bytes:
    """Encode an IssueMessage."""
    # Fields of IssueMessage: 1 position, 2 message, 3 end_position, 4 issue_code, 5 severity, 6 issues. An issue has
    # one position here, which is its end as well.
    place = b"" if given.position is None else _position(given.position)
    inner = b"".join(bytes_field(6, issue_message(each)) for each in given.issues)
    end = bytes_field(3, place) if place else b""
    start = bytes_field(1, place) if place else b""
    return start + text_field(2, given.message) + end + int_field(4, given.code) + int_field(5, given.severity) + inner


def _position(position: Position) -> bytes:
    return int_field(1, position.row) + int_field(2, position.column)


def issues_field(field: int, given: Iterable[Issue]) -> bytes:
    """Encode a repeated field of issues."""
    return b"".join(bytes_field(field, issue_message(each)) for each in given)


@cache
def any_prefix(type_name: str) -> bytes:
    """Return the beginning of an Any that holds a message of this name, such as `Ydb.Table.ExecuteQueryResult`."""
    return bytes_field(1, (TYPE_URL_PREFIX + type_name).encode())


def any_message(type_name: str, content: bytes) -> bytes:
    """Encode an Any."""
    return any_prefix(type_name) + bytes_field(2, content)


@cache
def _ready_field(status: str) -> bytes:
    # 10 01: field 2, `ready`, is true. Clients in Go and C++ insist on `ready` and `status`; the one in Python does
    # not.
    return b"\x10\x01" + int_field(3, status_number(status))


def operation_response(
    status: str = "SUCCESS",
    result: bytes = b"",
    type_name: str = "",
    issues: Sequence[Issue] = (),
    *,
    metadata: bytes = b"",
) -> bytes:
    """Encode a response whose single field is a finished operation.

    `result`: a message of the type `type_name`, if that is given. `metadata`: a packed Any.
    """
    return bytes_field(1, operation_message(status, result, type_name, issues, metadata=metadata))


def operation_message(
    status: str = "SUCCESS",
    result: bytes = b"",
    type_name: str = "",
    issues: Sequence[Issue] = (),
    *,
    id: str = "",
    ready: bool = True,
    metadata: bytes = b"",
) -> bytes:
    """Encode an Operation on its own, for lists of operations.

    A running operation has a status too: that of the request that began it.
    """
    # Fields of Operation: 1 id, 2 ready, 3 status, 4 issues, 5 result (an Any), 6 metadata.
    content = text_field(1, id) + (_ready_field(status) if ready else int_field(3, status_number(status)))
    if issues:
        content += issues_field(4, issues)
    if type_name:
        content += bytes_field(5, any_message(type_name, result))
    if metadata:
        content += bytes_field(6, metadata)
    return content


@cache
def _status_field(status: str) -> bytes:
    return int_field(1, status_number(status))


def plain_response(status: str = "SUCCESS", rest: bytes = b"", issues: Sequence[Issue] = ()) -> bytes:
    """Encode a response with status and issues of its own. `rest`: its other fields, packed."""
    return _status_field(status) + issues_field(2, issues) + rest


def query_response_part(
    index: int = 0,
    result_set: bytes | None = None,
    *,
    tx_id: str | None = None,
    stats: bytes = b"",
    status: str = "SUCCESS",
    issues: Sequence[Issue] = (),
) -> bytes:
    """Encode one message of ExecuteQuery's stream.

    `result_set`: the inside of a ResultSet; None: the message has none. `tx_id`: None: the message says nothing of a
    transaction; empty: the transaction has ended. `stats`: a QueryStats.
    """
    # Fields: 08 status, 12 issues, 18 result_set_index, 22 result_set, 2A exec_stats, 32 tx_meta.
    pieces = [_status_field(status)]
    if issues:
        pieces.append(issues_field(2, issues))
    if index:
        pieces.append(b"\x18" + varint(index))
    if result_set is not None:
        pieces += (b"\x22", varint(len(result_set)), result_set)
    if stats:
        pieces += (b"\x2a", varint(len(stats)), stats)
    if tx_id is not None:
        pieces.append(bytes_field(6, text_field(1, tx_id)))
    return b"".join(pieces)
