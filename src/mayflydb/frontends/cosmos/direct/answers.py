"""From an answer of HTTP to one of rntbd: headers become tokens, by a table, beside those that clients demand of a replica."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from mayflydb.frontends.cosmos.direct import ids
from mayflydb.frontends.cosmos.direct.frames import RequestHead, build_answer
from mayflydb.frontends.cosmos.direct.places import REPLICAS, WRITE_QUORUM, range_of
from mayflydb.frontends.cosmos.direct.tokens import Kind, Value, encode
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


def _text(value: bytes) -> Value:
    return value


def _session(value: bytes) -> Value:
    # Clients put the id of the range before the token. All ranges of a container have reached the same lsn.
    return value.rpartition(b":")[2]


CARRIED: Final[Mapping[bytes, tuple[int, Kind, Callable[[bytes], Value]]]] = {
    CONTINUATION: (ids.ANSWER_CONTINUATION, Kind.STRING, _text),
    ETAG: (ids.ANSWER_ETAG, Kind.STRING, _text),
    RETRY_AFTER_MS: (ids.ANSWER_RETRY_AFTER, Kind.ULONG, int),
    RESOURCE_QUOTA: (ids.ANSWER_QUOTA, Kind.STRING, _text),
    RESOURCE_USAGE: (ids.ANSWER_USAGE, Kind.STRING, _text),
    ITEM_COUNT: (ids.ANSWER_ITEM_COUNT, Kind.ULONG, int),
    REQUEST_CHARGE: (ids.ANSWER_CHARGE, Kind.DOUBLE, float),
    ALT_CONTENT_PATH: (ids.ANSWER_OWNER_NAME, Kind.STRING, _text),
    CONTENT_PATH: (ids.ANSWER_OWNER_ID, Kind.STRING, _text),
    SUBSTATUS: (ids.ANSWER_SUBSTATUS, Kind.ULONG, int),
    SCRIPT_LOG: (ids.ANSWER_SCRIPT_LOG, Kind.STRING, _text),
    QUERY_METRICS: (ids.ANSWER_QUERY_METRICS, Kind.STRING, _text),
    ITEM_LSN: (ids.ANSWER_ITEM_LSN, Kind.LONGLONG, int),
    SESSION_TOKEN: (ids.ANSWER_SESSION_TOKEN, Kind.STRING, _session),
    INDEX_UTILIZATION: (ids.ANSWER_INDEX_UTILIZATION, Kind.STRING, _text),
    QUERY_EXECUTION_INFO: (ids.ANSWER_QUERY_EXECUTION_INFO, Kind.STRING, _text),
}
"""The tokens that headers become. A known token is read by its own type, so the types are those of the clients' tables."""

_REPLICA: Final = b"".join(
    [
        encode(ids.ANSWER_WRITE_QUORUM, Kind.ULONG, WRITE_QUORUM),
        encode(ids.ANSWER_REPLICAS, Kind.ULONG, REPLICAS),
        encode(ids.ANSWER_READ_REGIONS, Kind.ULONG, 0),
    ]
)
_LSN_IDS: Final = (
    ids.ANSWER_LSN,
    ids.ANSWER_LOCAL_LSN,
    ids.ANSWER_QUORUM_ACKED_LSN,
    ids.ANSWER_QUORUM_ACKED_LOCAL_LSN,
    ids.ANSWER_COMMITTED_LSN,
)
"""The versions that a client compares between replicas. One server answers for all of them, so they agree."""

MAX_SHORT: Final = 64
"""Bytes of a header whose token is kept. Longer ones, such as continuations, hardly repeat."""

_NO_CHARGE: Final = encode(ids.ANSWER_CHARGE, Kind.DOUBLE, 0.0)
_REFUSED_EVERYWHERE: Final = encode(ids.ANSWER_REFUSED_EVERYWHERE, Kind.BYTE, 1)


@lru_cache(maxsize=64)
def _encode_lsns(lsn: int) -> bytes:
    return b"".join([encode(id, Kind.LONGLONG, lsn) for id in _LSN_IDS])


def _encode(name: bytes, value: bytes) -> bytes:
    """Return the token of a header."""
    id, kind, form = CARRIED[name]
    return encode(id, kind, form(value))


_encode_short = lru_cache(maxsize=1024)(_encode)
"""Owners, charges and session tokens repeat from answer to answer."""


def build(head: RequestHead, answer: Response) -> bytes:
    """Return the frame of an answer. ValueError for a header that no token can carry."""
    tokens = [_REPLICA]
    lsn, range_id, has_charge = 0, None, False
    for name, value in answer.headers:
        if name == LSN:
            lsn = int(value)
        elif name == PARTITION_KEY_RANGE_ID:
            range_id = value
        elif name in CARRIED:
            has_charge = has_charge or name == REQUEST_CHARGE
            tokens.append((_encode_short if len(value) <= MAX_SHORT else _encode)(name, value))
    if not has_charge:
        # Java's client reads it from every answer.
        tokens.append(_NO_CHARGE)
    if range_id is None:
        range_id = range_of(head.tokens.get(ids.REPLICA_PATH_TOKEN))
    tokens.append(encode(ids.ANSWER_RANGE_ID, Kind.STRING, range_id))
    tokens.append(_encode_lsns(lsn))
    if answer.status in (400, 401, 403, 413):
        # The next replica would refuse it as well.
        tokens.append(_REFUSED_EVERYWHERE)
    return build_answer(head, answer.status, tokens, answer.body if answer.status not in (204, 304) else b"")
