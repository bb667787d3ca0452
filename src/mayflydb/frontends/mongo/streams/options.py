"""Arguments of `$changeStream`.

https://www.mongodb.com/docs/manual/reference/operator/aggregation/changeStream/
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from bson import Timestamp

from mayflydb.frontends.mongo.streams.tokens import ResumeToken
from mayflydb.model.instant import MINUTE, SECOND, Instant
from mayflydb.query.mongo.faults import MqlError, bad_value
from mayflydb.query.mongo.values import MAX_TIMESTAMP_SECONDS, Document, type_name

_IMAGES: Final = ("off", "whenAvailable", "required")
_DOCUMENTS: Final = ("default", "updateLookup", "whenAvailable", "required")
_FIELDS: Final = (
    "fullDocument",
    "fullDocumentBeforeChange",
    "resumeAfter",
    "startAfter",
    "startAtOperationTime",
    "allChangesForCluster",
    "showExpandedEvents",
)

_END_OF_SECONDS: Final = (MAX_TIMESTAMP_SECONDS + 1) * SECOND

ALLOWED_STAGES: Final = frozenset(
    {"$addFields", "$match", "$project", "$redact", "$replaceRoot", "$replaceWith", "$set", "$unset"}
)
"""Stages that may follow `$changeStream`."""


class StreamOptions(msgspec.Struct, frozen=True):
    """The arguments of one stream.

    `full_document`, `before_change`: the document after and before a change, as the client wants them. `resume_after`: the
    token after which to continue. `start_at`: the instant to begin at. `all_databases`: the scope is the whole server.
    `expanded`: events of collections and indexes are shown, too.
    """

    full_document: str = "default"
    before_change: str = "off"
    resume_after: ResumeToken | None = None
    start_at: Instant | None = None
    all_databases: bool = False
    expanded: bool = False


def parse_stream_options(spec: Document) -> StreamOptions:
    """Parse the stage. Raise MqlError 6188500, 40415, 14, 2, 40674, 50865, 40647 and 260."""
    if type(spec) is not dict:
        raise MqlError(6188500, f"$changeStream must take a nested object but found: {type_name(spec)}")
    for field in spec:
        if field not in _FIELDS:
            raise MqlError(40415, f"BSON field '$changeStream.{field}' is an unknown field.")
    given = [field for field in ("resumeAfter", "startAfter", "startAtOperationTime") if spec.get(field) is not None]
    if len(given) > 1:
        if "startAtOperationTime" in given:
            text = "Only one type of resume option is allowed, but multiple were found."
            raise MqlError(40674, text)
        raise MqlError(50865, "Do not specify both 'resumeAfter' and 'startAfter' in a $changeStream stage.")
    after = None
    if given and given[0] != "startAtOperationTime":
        after = ResumeToken.parse(_parse_document(spec, given[0]))
        if after.purpose == "invalidate" and given[0] == "resumeAfter":
            text = "Attempting to resume a change stream using 'resumeAfter' is not allowed from an invalidate notification."
            raise MqlError(260, text)
    return StreamOptions(
        _parse_choice(spec, "fullDocument", _DOCUMENTS),
        _parse_choice(spec, "fullDocumentBeforeChange", _IMAGES),
        after,
        _parse_start(spec),
        _parse_flag(spec, "allChangesForCluster"),
        _parse_flag(spec, "showExpandedEvents"),
    )


def cluster_time(instant: Instant) -> Timestamp:
    """The cluster time of an instant. The increment is the microseconds within the second, plus one since it cannot be 0.

    A cluster time has 32 bits of seconds. After the last of them, in 2106, the increment counts minutes instead, which
    lasts until the year 9999. All instants of such a minute share one cluster time.
    """
    seconds, microseconds = divmod(instant, SECOND)
    if seconds <= MAX_TIMESTAMP_SECONDS:
        return Timestamp(seconds, microseconds + 1)
    return Timestamp(MAX_TIMESTAMP_SECONDS, SECOND + 1 + (instant - _END_OF_SECONDS) // MINUTE)


def first_instant(time: Timestamp) -> Instant:
    """The first instant of a cluster time."""
    # Below, the increment is a microsecond within the second plus one; above, it is a minute after 2106.
    if time.time == MAX_TIMESTAMP_SECONDS and time.inc > SECOND:
        return _END_OF_SECONDS + (time.inc - SECOND - 1) * MINUTE
    return time.time * SECOND + min(max(time.inc - 1, 0), SECOND)


def _parse_start(spec: Mapping[str, Any]) -> Instant | None:
    given = spec.get("startAtOperationTime")
    if given is None:
        return None
    if type(given) is not Timestamp:
        raise _wrong_type("startAtOperationTime", given, "timestamp")
    return first_instant(given)


def _parse_choice(spec: Mapping[str, Any], field: str, choices: tuple[str, ...]) -> str:
    given = spec.get(field, choices[0])
    if type(given) is not str:
        raise _wrong_type(field, given, "string")
    if given not in choices:
        raise bad_value(f"Enumeration value '{given}' for field '$changeStream.{field}' is not a valid value.")
    return given


def _parse_flag(spec: Mapping[str, Any], field: str) -> bool:
    given = spec.get(field, False)
    if type(given) is not bool:
        raise _wrong_type(field, given, "bool")
    return given


def _parse_document(spec: Mapping[str, Any], field: str) -> Document:
    given = spec[field]
    if type(given) is not dict:
        raise _wrong_type(field, given, "object")
    return given


def _wrong_type(field: str, given: Any, wanted: str) -> MqlError:
    return MqlError(
        14, f"BSON field '$changeStream.{field}' is the wrong type '{type_name(given)}', expected type '{wanted}'"
    )
