"""From an answer of HTTP to one of rntbd: headers become tokens, by a table, beside those that clients demand of a replica."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import lru_cache
from struct import Struct
from typing import Final, TypeAlias

from mayflydb.frontends.cosmos.direct import ids
from mayflydb.frontends.cosmos.direct.frames import Addressee, build_answer
from mayflydb.frontends.cosmos.direct.places import REPLICAS, WRITE_QUORUM, range_of
from mayflydb.frontends.cosmos.direct.tokens import Kind, encode
from mayflydb.frontends.cosmos.headers import (
    ALT_CONTENT_PATH,
    CONTENT_PATH,
    CONTINUATION,
    ETAG,
    INDEX_UTILIZATION,
    ITEM_COUNT,
    ITEM_LSN,
    LSN,
    PARTITION_KEY_RANGE_ID,
    QUERY_EXECUTION_INFO,
    QUERY_METRICS,
    REQUEST_CHARGE,
    RESOURCE_QUOTA,
    RESOURCE_USAGE,
    RETRY_AFTER_MS,
    SCRIPT_LOG,
    SESSION_TOKEN,
    SUBSTATUS,
)
from mayflydb.http.messages import Response

Encoding: TypeAlias = Callable[[bytes], bytes]
"""Makes the tokens of a header's value. ValueError for a value that they cannot have."""

_TEXT: Final = Struct("<HBH")
_LSN_IDS: Final = (
    ids.ANSWER_LSN,
    ids.ANSWER_LOCAL_LSN,
    ids.ANSWER_QUORUM_ACKED_LSN,
    ids.ANSWER_QUORUM_ACKED_LOCAL_LSN,
    ids.ANSWER_COMMITTED_LSN,
)
"""The versions that a client compares between replicas. One server answers for all of them, so they agree."""


def _text(id: int) -> Encoding:
    def form(value: bytes) -> bytes:
        try:
            return _TEXT.pack(id, Kind.STRING, len(value)) + value
        except struct.error:
            raise ValueError(f"token {id:#06x} cannot have {len(value)} bytes") from None

    return form


def _number(id: int, kind: Kind) -> Encoding:
    return lambda value: encode(id, kind, int(value))


def _double(id: int) -> Encoding:
    return lambda value: encode(id, Kind.DOUBLE, float(value))


def _session(value: bytes) -> bytes:
    # Clients put the id of the range before the token. All ranges of a container have reached the same lsn.
    return encode(ids.ANSWER_SESSION_TOKEN, Kind.STRING, value.rpartition(b":")[2])


def _lsns(value: bytes) -> bytes:
    return b"".join([encode(id, Kind.LONGLONG, int(value)) for id in _LSN_IDS])


# Values that repeat from answer to answer, all of them short, are encoded once.
_kept: Final = lru_cache(maxsize=128)

CARRIED: Final[Mapping[bytes, Encoding]] = {
    CONTINUATION: _text(ids.ANSWER_CONTINUATION),
    ETAG: _text(ids.ANSWER_ETAG),
    RETRY_AFTER_MS: _number(ids.ANSWER_RETRY_AFTER, Kind.ULONG),
    RESOURCE_QUOTA: _text(ids.ANSWER_QUOTA),
    RESOURCE_USAGE: _text(ids.ANSWER_USAGE),
    ITEM_COUNT: _kept(_number(ids.ANSWER_ITEM_COUNT, Kind.ULONG)),
    ALT_CONTENT_PATH: _kept(_text(ids.ANSWER_OWNER_NAME)),
    CONTENT_PATH: _kept(_text(ids.ANSWER_OWNER_ID)),
    SUBSTATUS: _kept(_number(ids.ANSWER_SUBSTATUS, Kind.ULONG)),
    SCRIPT_LOG: _text(ids.ANSWER_SCRIPT_LOG),
    QUERY_METRICS: _text(ids.ANSWER_QUERY_METRICS),
    ITEM_LSN: _number(ids.ANSWER_ITEM_LSN, Kind.LONGLONG),
    SESSION_TOKEN: _kept(_session),
    INDEX_UTILIZATION: _text(ids.ANSWER_INDEX_UTILIZATION),
    QUERY_EXECUTION_INFO: _text(ids.ANSWER_QUERY_EXECUTION_INFO),
}
"""The tokens that headers become. A known token is read by its own type, so the types are those of the clients' tables."""

DEMANDED: Final[Mapping[bytes, Encoding]] = {
    REQUEST_CHARGE: _kept(_double(ids.ANSWER_CHARGE)),
    PARTITION_KEY_RANGE_ID: _kept(_text(ids.ANSWER_RANGE_ID)),
    LSN: _kept(_lsns),
}
"""The same for headers whose tokens every answer has."""

_REPLICA: Final = b"".join(
    [
        encode(ids.ANSWER_WRITE_QUORUM, Kind.ULONG, WRITE_QUORUM),
        encode(ids.ANSWER_REPLICAS, Kind.ULONG, REPLICAS),
        encode(ids.ANSWER_READ_REGIONS, Kind.ULONG, 0),
    ]
)
_REFUSED_EVERYWHERE: Final = encode(ids.ANSWER_REFUSED_EVERYWHERE, Kind.BYTE, 1)


def build(addressee: Addressee, answer: Response) -> bytes:
    """Return the frame of an answer. ValueError for a header that no token can carry."""
    status = answer.status
    tokens = [_REPLICA]
    demanded = 0
    for name, value in answer.headers:
        form = CARRIED.get(name)
        if form is not None:
            tokens.append(form(value))
        elif (form := DEMANDED.get(name)) is not None:
            tokens.append(form(value))
            demanded += 1
    if demanded < len(DEMANDED):
        tokens += _complete(addressee, answer)
    if status in (400, 401, 403, 413):
        # The next replica would refuse it as well.
        tokens.append(_REFUSED_EVERYWHERE)
    return build_answer(addressee, status, b"".join(tokens), answer.body if status not in (204, 304) else b"")


def _complete(addressee: Addressee, answer: Response) -> list[bytes]:
    """Return the demanded tokens of which the answer has no header. Java's client reads the charge from every answer."""
    defaults = {REQUEST_CHARGE: b"0", PARTITION_KEY_RANGE_ID: range_of(addressee.replica_path), LSN: b"0"}
    for name, _ in answer.headers:
        defaults.pop(name, None)
    return [DEMANDED[name](value) for name, value in defaults.items()]
