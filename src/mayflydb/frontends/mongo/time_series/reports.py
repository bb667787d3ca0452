"""Reports on the expiry of time series collections, and changes of their `expireAfterSeconds`, for the admin API."""

from __future__ import annotations

from struct import Struct
from typing import Any, Final

from bson import Int64

from mayflydb.engine.catalog import Node
from mayflydb.engine.proposals import Change, Proposal
from mayflydb.frontends.mongo.catalog_rows import unpack_document
from mayflydb.frontends.mongo.contracts import Contract
from mayflydb.frontends.mongo.time_series.series import Series, bucket_rule, series_in
from mayflydb.model.errors import BadRequest
from mayflydb.query.mongo.values import Document

OPTION: Final = "expireAfterSeconds"
COUNTS_FROM: Final = "the end of its bucket"

_NUMBER: Final = Struct(">Q")
_MARK: Final = "#"


def expire_after(node: Node) -> int | None:
    """`expireAfterSeconds` of the collection itself; None: it is off, or this is no time series."""
    seconds = None if series_in(node.definition) is None else unpack_document(node.body["options"]).get(OPTION)
    return None if seconds is None else int(seconds)


def ttl_rows(node: Node) -> list[dict[str, Any]]:
    """The setting of the collection, as the reports on TTL indexes show it."""
    series, seconds = series_in(node.definition), expire_after(node)
    if series is None or seconds is None:
        return []
    row = {"name": OPTION, "field": series.time_field, "expire_after_seconds": seconds, "counts_from": COUNTS_FROM}
    return [row]


def name_of_bucket(name: str) -> str:
    """The name of a rule in sentences: its seconds are those of the bucket and of the setting together."""
    return f"{name}, from the start of its bucket"


def propose(node: Node, series: Series, seconds: int | None, contract: Contract) -> Proposal:
    """The rules as they would be with another `expireAfterSeconds` of the collection; None: off. BadRequest for -1."""
    others = tuple(rule for rule in node.definition.rules if rule.slot != series.slot)
    current = expire_after(node)
    if seconds is None:
        return Proposal(others, current)
    if seconds < 0:
        raise BadRequest("measurements have no ttl of their own: say how long they live, or off")
    return Proposal((bucket_rule(series, seconds, series.slot, contract), *others), current)


def build_command(name: str, change: Change) -> Document:
    """The command by which a client changes `expireAfterSeconds` of the collection."""
    return {"collMod": name, OPTION: "off" if change.seconds is None else Int64(change.seconds)}


# --- identities ------------------------------------------------------------------------------------------------------


def split_key(key: bytes) -> tuple[bytes, str]:
    """The key of the `_id` of a second or later measurement with the same one, and the text that follows it."""
    return key[: -_NUMBER.size], f"{_MARK}{_NUMBER.unpack(key[-_NUMBER.size :])[0]}"


def split_text(id: str) -> tuple[str, bytes]:
    """An id in text without the number of its measurement, and the bytes of the number; none if it has no number."""
    text, _, number = id.rpartition(_MARK)
    return (text, _NUMBER.pack(int(number))) if number.isdecimal() and len(number) < 19 else (id, b"")
