"""From a request of rntbd to one of HTTP: path, method and headers, by tables. The front end answers both alike."""

from __future__ import annotations

import re
from binascii import b2a_base64
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final
from urllib.parse import quote_from_bytes

import msgspec

from mayflydb.frontends.cosmos.direct import ids
from mayflydb.frontends.cosmos.direct.frames import Addressee, RequestHead, format_activity
from mayflydb.frontends.cosmos.direct.tokens import Value
from mayflydb.frontends.cosmos.headers import (
    A_IM,
    ACTIVITY_ID,
    AUTHORIZATION,
    BATCH_ATOMIC,
    BATCH_CONTINUE_ON_ERROR,
    CHANGE_FEED_WIRE_FORMAT,
    COLLECTION_RID,
    CONSISTENCY_LEVEL,
    CONTENT_FORMAT,
    CONTENT_TYPE,
    CONTINUATION,
    END_EPK,
    EXPIRY_SECONDS,
    HOST,
    IF_MATCH,
    IF_MODIFIED_SINCE,
    IF_NONE_MATCH,
    INDEXING_DIRECTIVE,
    INTENDED_RID,
    IS_BATCH,
    IS_QUERY,
    IS_UPSERT,
    MAX_ITEM_COUNT,
    MS_DATE,
    PARTITION_KEY,
    PARTITION_KEY_RANGE_ID,
    POPULATE_INDEX_METRICS,
    POPULATE_INDEX_METRICS_V2,
    POPULATE_PARTITION_STATISTICS,
    POPULATE_QUERY_METRICS,
    POPULATE_QUOTA_INFO,
    POST_TRIGGER_INCLUDE,
    PRE_TRIGGER_INCLUDE,
    PREFER,
    REPLICA_PATH,
    SCRIPT_ENABLE_LOGGING,
    SESSION_TOKEN,
    START_EPK,
    SUPPORTED_FORMATS,
)
from mayflydb.http.messages import Request
from mayflydb.model.errors import BadRequest, MayflyError, Unsupported

SCHEME: Final = "rntbd"
"""The scheme of requests that came in direct mode. Clients use it over TLS alone."""

_LOCAL: Final = b"localhost"
MAX_NAME: Final = 4096
"""Bytes of a name. The longest ids have 1,023 characters; to escape a whole frame would hold the event loop."""

_UNESCAPED: Final = re.compile(rb"[A-Za-z0-9_.~+=-]+")


class Entry(msgspec.Struct, eq=False, gc=False):
    """A request, to whom its answer goes, and whether a payload follows. `refusal`: the error that it is answered with."""

    addressee: Addressee
    request: Request
    has_payload: bool
    refusal: MayflyError | None = None


class Operation(msgspec.Struct, frozen=True):
    """The method of an operation, whether it is one on a feed, and the headers that say the rest."""

    method: str
    on_feed: bool = False
    headers: tuple[tuple[bytes, bytes], ...] = ()


_QUERY: Final = Operation("POST", True, ((IS_QUERY, b"true"), (CONTENT_TYPE, b"application/query+json")))

OPERATIONS: Final[Mapping[int, Operation]] = {
    ids.CREATE: Operation("POST", True),
    ids.PATCH: Operation("PATCH"),
    ids.READ: Operation("GET"),
    ids.READ_FEED: Operation("GET", True),
    ids.DELETE: Operation("DELETE"),
    ids.REPLACE: Operation("PUT"),
    ids.EXECUTE_SCRIPT: Operation("POST"),
    ids.SQL_QUERY: _QUERY,
    ids.QUERY: _QUERY,
    ids.HEAD: Operation("HEAD"),
    ids.HEAD_FEED: Operation("HEAD", True),
    ids.UPSERT: Operation("POST", True, ((IS_UPSERT, b"true"),)),
    ids.BATCH: Operation("POST", True, ((IS_BATCH, b"true"),)),
}

_DATABASES: Final = ((b"dbs", ids.DATABASE_NAME),)
_CONTAINERS: Final = (*_DATABASES, (b"colls", ids.COLLECTION_NAME))
_USERS: Final = (*_DATABASES, (b"users", ids.USER_NAME))

PLACES: Final[Mapping[int, tuple[tuple[bytes, int], ...]]] = {
    ids.DATABASE: _DATABASES,
    ids.COLLECTION: _CONTAINERS,
    ids.DOCUMENT: (*_CONTAINERS, (b"docs", ids.DOCUMENT_NAME)),
    ids.USER: _USERS,
    ids.PERMISSION: (*_USERS, (b"permissions", ids.PERMISSION_NAME)),
    ids.STORED_PROCEDURE: (*_CONTAINERS, (b"sprocs", ids.STORED_PROCEDURE_NAME)),
    ids.CONFLICT: (*_CONTAINERS, (b"conflicts", ids.CONFLICT_NAME)),
    ids.TRIGGER: (*_CONTAINERS, (b"triggers", ids.TRIGGER_NAME)),
    ids.USER_DEFINED_FUNCTION: (*_CONTAINERS, (b"udfs", ids.USER_DEFINED_FUNCTION_NAME)),
    ids.PARTITION_KEY_RANGE: (*_CONTAINERS, (b"pkranges", ids.RANGE_NAME)),
}
"""By resource: the words of its path, and the tokens of the names behind them."""

_RID_BYTES: Final = (4, 8, 16)
"""The bytes of a binary rid that name the first, the second and the third resource of a path."""

OF_ACCOUNT: Final = frozenset({ids.DATABASE, ids.COLLECTION, ids.USER, ids.PERMISSION})
"""Resources that clients read from the account's own partition, and always with the level Strong, which every read here has."""


def copy_text(value: Value) -> bytes:
    """Return a text. BadRequest for a number."""
    if not isinstance(value, bytes):
        raise BadRequest("A token of the request is a number where a text is expected.")
    return value


def _number(value: Value) -> bytes:
    return b"%d" % _integer(value)


def _integer(value: Value) -> int:
    if not isinstance(value, int):
        raise BadRequest("A token of the request is no integer where one is expected.")
    return value


def _signed_number(value: Value) -> bytes:
    # -1, which asks for the most that there is, arrives as an unsigned number.
    number = _integer(value)
    return b"%d" % (number - (1 << 32) if number >> 31 else number)


def _flag(value: Value) -> bytes:
    return b"true" if value else b"false"


def _preference(value: Value) -> bytes:
    return b"return=minimal" if value == 1 else b"return=representation"


_FORMATS: Final = (b"JsonText", b"CosmosBinary", b"HybridRow")


def _formats(value: Value) -> bytes:
    """Return the forms that the bits of a number stand for."""
    bits = _integer(value)
    return b",".join(name for place, name in enumerate(_FORMATS) if bits >> place & 1)


def _choice(name: str, *values: bytes) -> Callable[[Value], bytes]:
    """Return the form of a number that stands for one of these values."""

    def form(value: Value) -> bytes:
        number = _integer(value)
        if not 0 <= number < len(values):
            raise BadRequest(f"The {name} {number} does not exist.")
        return values[number]

    return form


CARRIED: Final[Mapping[int, tuple[bytes, Callable[[Value], bytes]]]] = {
    ids.AUTHORIZATION_TOKEN: (AUTHORIZATION, copy_text),
    ids.DATE_TOKEN: (MS_DATE, copy_text),
    ids.PAGE_SIZE: (MAX_ITEM_COUNT, _signed_number),
    ids.SESSION: (SESSION_TOKEN, copy_text),
    ids.CONTINUATION_TOKEN: (CONTINUATION, copy_text),
    ids.INDEXING: (INDEXING_DIRECTIVE, _choice("indexing directive", b"Default", b"Include", b"Exclude")),
    ids.PRE_TRIGGER: (PRE_TRIGGER_INCLUDE, copy_text),
    ids.POST_TRIGGER: (POST_TRIGGER_INCLUDE, copy_text),
    ids.REPLICA_PATH_TOKEN: (REPLICA_PATH, copy_text),
    ids.RESOURCE_TOKEN_EXPIRY: (EXPIRY_SECONDS, _number),
    ids.PARTITION_KEY_TOKEN: (PARTITION_KEY, copy_text),
    ids.RANGE_ID: (PARTITION_KEY_RANGE_ID, copy_text),
    ids.COLLECTION_RID_TOKEN: (COLLECTION_RID, copy_text),
    ids.SCRIPT_LOGGING: (SCRIPT_ENABLE_LOGGING, _flag),
    ids.A_IM_TOKEN: (A_IM, copy_text),
    ids.QUOTA_INFO: (POPULATE_QUOTA_INFO, _flag),
    ids.QUERY_METRICS_WANTED: (POPULATE_QUERY_METRICS, _flag),
    ids.PARTITION_STATISTICS: (POPULATE_PARTITION_STATISTICS, _flag),
    ids.MODIFIED_SINCE: (IF_MODIFIED_SINCE, copy_text),
    ids.IS_ATOMIC: (BATCH_ATOMIC, _flag),
    ids.CONTINUES_ON_ERROR: (BATCH_CONTINUE_ON_ERROR, _flag),
    ids.RETURN_PREFERENCE: (PREFER, _preference),
    ids.INTENDED_COLLECTION_RID: (INTENDED_RID, copy_text),
    ids.INDEX_METRICS: (POPULATE_INDEX_METRICS, _flag),
    ids.FEED_WIRE_FORMAT: (CHANGE_FEED_WIRE_FORMAT, copy_text),
    ids.INDEX_METRICS_V2: (POPULATE_INDEX_METRICS_V2, _flag),
    ids.CONTENT_FORMAT_TOKEN: (CONTENT_FORMAT, _choice("content serialization format", *_FORMATS)),
    ids.SUPPORTED_FORMATS_TOKEN: (SUPPORTED_FORMATS, _formats),
}
"""The headers that tokens become. Tokens without a row change nothing, as the headers that `headers` ignores."""

REFUSED: Final[Mapping[int, str]] = {
    ids.ITEM_TTL: "TimeToLiveInSeconds, a time to live beside the item",
    ids.START_ID: "StartId, a feed that begins behind a resource",
    ids.END_ID: "EndId, a feed that ends at a resource",
}
"""Tokens whose meaning would be lost in silence."""

DEPENDENT: Final = frozenset(
    {ids.MATCH, ids.CONSISTENCY, ids.START_EPK_TOKEN, ids.END_EPK_TOKEN, ids.DIRECTION, *REFUSED}
)
"""Tokens whose meaning depends on the operation or on other tokens."""

_LEVEL: Final = _choice(
    "consistency level", b"Strong", b"BoundedStaleness", b"Session", b"Eventual", b"ConsistentPrefix"
)
_REVERSE, _RAW_EPK = 2, 2


def to_http(head: RequestHead) -> Request:
    """Translate a request, but for the length of its body.

    BadRequest for a request without the names that it needs, Unsupported for an operation or a token that is not known here.
    """
    operation = OPERATIONS.get(head.operation)
    place = PLACES.get(head.resource)
    if operation is None or place is None:
        raise Unsupported(
            f"Operation {head.operation:#x} on resource {head.resource:#x} of direct mode is not supported by Mayfly: "
            "use gateway mode."
        )
    headers: dict[bytes, bytes] = {HOST: _LOCAL, ACTIVITY_ID: format_activity(head.activity)}
    headers.update(operation.headers)
    tokens = head.tokens
    for id, value in tokens.items():
        carried = CARRIED.get(id)
        if carried is not None:
            headers[carried[0]] = carried[1](value)
    if not DEPENDENT.isdisjoint(tokens):
        _add_dependent_headers(head, headers)
    names = _names_of(place[: len(place) - operation.on_feed], tokens)
    return Request(operation.method, build_path(head.resource, operation.on_feed, names), headers, scheme=SCHEME)


def name_match_header(operation: int) -> bytes:
    """Return the header that the etag in a request of this operation becomes."""
    return IF_NONE_MATCH if operation in (ids.READ, ids.READ_FEED) else IF_MATCH


def _add_dependent_headers(head: RequestHead, headers: dict[bytes, bytes]) -> None:
    """Add the headers of tokens whose meaning depends on the operation or on other tokens."""
    tokens = head.tokens
    if (match := tokens.get(ids.MATCH)) is not None:
        headers[name_match_header(head.operation)] = copy_text(match)
    if (level := tokens.get(ids.CONSISTENCY)) is not None and head.resource not in OF_ACCOUNT:
        headers[CONSISTENCY_LEVEL] = _LEVEL(level)
    raw = tokens.get(ids.FEED_KEY_TYPE) == _RAW_EPK
    for id, name in ((ids.START_EPK_TOKEN, START_EPK), (ids.END_EPK_TOKEN, END_EPK)):
        if (bound := tokens.get(id)) is not None:
            headers[name] = copy_text(bound).hex().upper().encode() if raw else copy_text(bound)
    for id, meaning in REFUSED.items():
        if id in tokens:
            raise Unsupported(f"The token {meaning}, is not supported by Mayfly.")
    if tokens.get(ids.DIRECTION) == _REVERSE:
        raise Unsupported("Feeds in reverse order (EnumerationDirection) are not supported by Mayfly.")


def _names_of(place: tuple[tuple[bytes, int], ...], tokens: Mapping[int, Value]) -> tuple[Value | None, ...]:
    names = [tokens.get(token) for _, token in place]
    return _names_of_rid(tokens.get(ids.RESOURCE_ID), len(names)) if names and names[0] is None else tuple(names)


def build_path(resource: int, on_feed: bool, names: tuple[Value | None, ...]) -> bytes:
    """Return the path of a resource, or of a feed below its names. BadRequest for a name that is missing or too long."""
    if on_feed:
        return _build_feed_path(resource, names)
    feed, name = _build_feed_path(resource, names[:-1]), names[-1]
    return b"%b/%b" % (feed, _escape(PLACES[resource][len(names) - 1][0], name))


@lru_cache(maxsize=256)
def _build_feed_path(resource: int, names: tuple[Value | None, ...]) -> bytes:
    place = PLACES[resource]
    path = b"".join([b"/%b/%b" % (word, _escape(word, name)) for (word, _), name in zip(place, names, strict=False)])
    return b"%b/%b" % (path, place[len(names)][0])


def _names_of_rid(rid: Value | None, count: int) -> tuple[bytes, ...]:
    """Return the rids on the path to the resource of a binary rid."""
    if not isinstance(rid, bytes) or not count or len(rid) < _RID_BYTES[count - 1]:
        raise BadRequest("The request names its resource neither by names nor by a rid.")
    return tuple(b2a_base64(rid[:size], newline=False).replace(b"/", b"-") for size in _RID_BYTES[:count])


def _escape(word: bytes, name: Value | None) -> bytes:
    if not isinstance(name, bytes) or not name:
        raise BadRequest(f"The request does not name its resource below '{word.decode()}'.")
    if len(name) > MAX_NAME:
        raise BadRequest(f"The request names a resource below '{word.decode()}' with more than {MAX_NAME} bytes.")
    return name if _UNESCAPED.fullmatch(name) else quote_from_bytes(name, safe="").encode()
