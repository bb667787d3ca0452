"""Resources on the wire: rids, etags, system properties, bodies.

Rids are base64 with `/` written `-`: database 4 bytes, user and container 8 (top bit of the second half clear or set),
children of a container 16, offers 3. The JavaScript client keeps session tokens only for a container rid of 8 bytes.

The last 8 of a child's 16 bytes are a number, least significant byte first. Its top 4 bits are the child's kind; clients
read the kind there, and compare documents by the number (`ResourceId` of azure-cosmos, https://github.com/Azure/azure-sdk-for-java).
Rids of earlier versions of Mayfly have the most significant byte first, and are still parsed. The lowest bit of the first of
the 8 bytes tells the forms apart: it is always set in this form and never in the earlier one.
"""

from __future__ import annotations

import re
from binascii import a2b_base64, b2a_base64
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Final, TypeAlias

import msgspec

from mayflydb.engine.catalog import PartitionRange
from mayflydb.engine.throughput import Throughput
from mayflydb.frontends.cosmos import consistency
from mayflydb.frontends.cosmos.direct.places import REPLICAS, WRITE_QUORUM
from mayflydb.frontends.cosmos.throughput import content_of
from mayflydb.model.instant import SECOND, Instant
from mayflydb.model.record import Record

_TOP_BIT = 1 << 31
_NUMBER_BITS = 59
_OLD_NUMBER_MASK = (1 << 60) - 1


class RidKind(Enum):
    """The kind of resource that a rid names.

    An integer value is the top 4 bits of the number in the last 8 bytes of a child's rid.
    """

    ITEM = 0
    CONFLICT = 4
    RANGE = 5
    USER_DEFINED_FUNCTION = 6
    TRIGGER = 7
    STORED_PROCEDURE = 8
    PERMISSION = 9
    DATABASE = "database"
    CONTAINER = "container"
    USER = "user"
    OFFER = "offer"


Address: TypeAlias = "tuple[bytes, int | None]"
"""The address of an item: its key and, if a rid named it, the sequence number that it must have."""


class Rid(msgspec.Struct, frozen=True):
    """A parsed rid: the numbers of the database, of the container or user in it, and of the child.

    An offer has a `number` only.
    """

    kind: RidKind
    database: int = 0
    owner: int = 0
    number: int = 0


def _encode_rid(raw: bytes) -> str:
    return b2a_base64(raw, newline=False).decode().replace("/", "-")


def database_rid(database: int) -> str:
    """Return the rid of a database, 8 characters. OverflowError for a number of more than 32 bits."""
    return _encode_rid(database.to_bytes(4, "big"))


def user_rid(database: int, user: int) -> str:
    """Return the rid of a user, 12 characters."""
    if user >> 31:
        raise OverflowError("a user number has at most 31 bits")
    return _encode_rid((database << 32 | user).to_bytes(8, "big"))


def child_rid(kind: RidKind, database: int, owner: int, number: int) -> str:
    """Return the rid of a child of a container or of a user (permissions), 24 characters."""
    if not isinstance(kind.value, int) or number >> _NUMBER_BITS:
        raise OverflowError(f"{kind.name} {number} has no rid below an owner")
    top = 0 if kind is RidKind.PERMISSION else _TOP_BIT
    return _encode_rid((database << 32 | top | owner).to_bytes(8, "big") + _encode_child(kind.value, number))


def _encode_child(kind: int, number: int) -> bytes:
    return (kind << 60 | number << 1 | 1).to_bytes(8, "little")


def offer_rid(number: int) -> str:
    """Return the rid of an offer, 4 characters. OverflowError for a number of more than 24 bits."""
    return _encode_rid(number.to_bytes(3, "big"))


_RID = re.compile(r"[A-Za-z0-9+-]{4}|[A-Za-z0-9+-]{6}==|[A-Za-z0-9+-]{11}=|[A-Za-z0-9+-]{22}==", re.ASCII)


def parse_rid(text: str) -> Rid | None:
    """Parse a rid; None for any other text. A name may look like a rid, so callers look up names first."""
    if _RID.fullmatch(text) is None:
        return None
    raw = a2b_base64(text.replace("-", "/"))
    # Base64 has several texts for one value, in the unused bits at the end. Only one of them is a rid.
    if _encode_rid(raw) != text:
        return None
    number = int.from_bytes(raw, "big")
    if len(raw) == 3:
        return Rid(RidKind.OFFER, number=number)
    if len(raw) == 4:
        return Rid(RidKind.DATABASE, number)
    if len(raw) == 8:
        # `~-x` is x - 1: here the 31 bits below the top bit.
        kind = RidKind.CONTAINER if number & _TOP_BIT else RidKind.USER
        return Rid(kind, number >> 32, number & ~-_TOP_BIT)
    return _parse_child(number >> 64, raw[8:])


def item_number(container: int, text: str) -> int | None:
    """Return the sequence number in the rid of an item of this container; None for any other text."""
    rid = parse_rid(text)
    return rid.number if rid is not None and rid.kind is RidKind.ITEM and rid.owner == container else None


def _parse_child(parent: int, raw: bytes) -> Rid | None:
    is_old = not raw[0] & 1
    value = int.from_bytes(raw, "big" if is_old else "little")
    try:
        kind = RidKind(value >> 60)
    except ValueError:
        return None
    # The parent of a permission is a user, whose bit is clear. All other parents are containers.
    if bool(parent & _TOP_BIT) == (kind is RidKind.PERMISSION):
        return None
    number = value & _OLD_NUMBER_MASK
    return Rid(kind, parent >> 32, parent & ~-_TOP_BIT, number if is_old else number >> 1)


# --- etags -----------------------------------------------------------------------------------------------------------

_ETAG = re.compile(r'"?([0-9a-f]{8})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{8})0000"?', re.ASCII)


class Etag(msgspec.Struct, frozen=True, gc=False):
    """A parsed etag: the lsn in a container, and the second of the write (modulo 2^32)."""

    lsn: int
    container: int
    seconds: int


def etag(lsn: int, container: int, written: Instant) -> str:
    """Return an etag such as `"0d00b23f-0000-0000-0000-5c7712e80000"`, quotes included.

    Its bits are those of the lsn (48), the container (32) and `_ts` (32).
    """
    return (
        f'"{lsn & 0xFFFFFFFF:08x}-{lsn >> 32 & 0xFFFF:04x}-{container >> 16 & 0xFFFF:04x}-{container & 0xFFFF:04x}-'
        f'{written // SECOND & 0xFFFFFFFF:08x}0000"'
    )


def parse_etag(text: str) -> Etag | None:
    """Parse an etag, with or without quotes; None for any other text."""
    match = _ETAG.fullmatch(text.strip(" "))
    if match is None:
        return None
    low, high, upper, lower, seconds = (int(group, 16) for group in match.groups())
    return Etag(high << 32 | low, upper << 16 | lower, seconds)


def etag_matches(header: str, current: str) -> bool:
    """Return True if `If-Match` or `If-None-Match` names this version. `*` names all; quotes may be missing."""
    header = header.strip(" ")
    return header in (current, "*") or header == current[1:-1]


# --- items -----------------------------------------------------------------------------------------------------------


class ContainerLinks(msgspec.Struct, frozen=True, gc=False):
    """The rid and links of a container for the system properties of its items, computed once per container."""

    database: int
    container: int
    raw: bytes
    rid: str
    self_link: str
    items_link: str
    items_link_bytes: bytes
    etag_part: bytes
    many_suffix: bytes
    """The suffix of an item for `item_bodies`, up to the seconds of its etag: twice the rid, and two parts of the lsn."""


def container_links(database: int, container: int) -> ContainerLinks:
    """Build the links from the catalogue ids of a database and a container in it. The rid has 12 characters.

    Ids are never reused, so a later container of the same name has another rid.
    """
    if container >> 31:
        raise OverflowError("a container number has at most 31 bits")
    raw = (database << 32 | _TOP_BIT | container).to_bytes(8, "big")
    rid = _encode_rid(raw)
    self_link = f"dbs/{database_rid(database)}/colls/{rid}/"
    items_link = f"{self_link}docs/"
    etag_part = b"%04x-%04x" % (container >> 16 & 0xFFFF, container & 0xFFFF)
    link = items_link.encode()
    many = b',"_rid":"%b","_self":"' + link + b'%b/","_etag":"\\"%08x-%04x-' + etag_part
    return ContainerLinks(database, container, raw, rid, self_link, items_link, link, etag_part, many)


def item_rid(links: ContainerLinks, seq: int) -> str:
    """Return the rid of an item, 24 characters."""
    return b2a_base64(links.raw + (seq << 1 | 1).to_bytes(8, "little"), newline=False).decode().replace("/", "-")


def item_etag(links: ContainerLinks, record: Record) -> str:
    """Return the `_etag` of a stored item, quotes included."""
    return encode_etag(links, record).decode()


def encode_etag(links: ContainerLinks, record: Record) -> bytes:
    """Return the `_etag` of a stored item as bytes, quotes included."""
    lsn = record.lsn
    seconds = record.written // SECOND & 0xFFFFFFFF
    return b'"%08x-%04x-%b-%08x0000"' % (lsn & 0xFFFFFFFF, lsn >> 32 & 0xFFFF, links.etag_part, seconds)


_SUFFIX: Final = b',"_rid":"%b","_self":"%b%b/","_etag":"\\%b\\"","_attachments":"attachments/","_ts":%d}'


def item_suffix(links: ContainerLinks, record: Record, etag: bytes | None = None) -> bytes:
    """Return `,"_rid":…,"_self":…,"_etag":…,"_attachments":…,"_ts":n}`, which replaces the closing brace of a stored object.

    `etag`: that of the record, where it is known.
    """
    # Written out instead of `child_rid`: every row of an answer passes here.
    rid = b2a_base64(links.raw + (record.seq << 1 | 1).to_bytes(8, "little"), newline=False).replace(b"/", b"-")
    if etag is None:
        etag = encode_etag(links, record)
    return _SUFFIX % (rid, links.items_link_bytes, rid, etag[:-1], record.written // SECOND)


def item_body(links: ContainerLinks, record: Record, etag: bytes | None = None) -> bytes:
    """Return the item as clients see it: the stored text, then the system properties. `etag`: that of the record, if known."""
    value, suffix = record.value, item_suffix(links, record, etag)
    # An empty object takes no comma before its first property.
    return value[:-1] + (suffix if value != b"{}" else suffix[1:])


_MANY_ENDS: Final = b'-%08x0000\\"","_attachments":"attachments/","_ts":%d}'


def item_bodies(links: ContainerLinks, records: Sequence[Record], with_lsn: bool = False) -> list[bytes]:
    """Return the bodies of many items, as `item_body` does. `with_lsn`: with `_lsn`, as in change feeds."""
    raw, suffix = links.raw, links.many_suffix
    ends: dict[int, bytes] = {}
    bodies: list[bytes] = []
    for record in records:
        value, lsn, seconds = record.value, record.lsn, record.written // SECOND
        end = ends.get(seconds)
        if end is None:
            end = ends[seconds] = (_MANY_ENDS % (seconds & 0xFFFFFFFF, seconds))[: -1 if with_lsn else None]
        rid = b2a_base64(raw + (record.seq << 1 | 1).to_bytes(8, "little"), newline=False).replace(b"/", b"-")
        more = suffix % (rid, rid, lsn & 0xFFFFFFFF, lsn >> 32 & 0xFFFF)
        last = b',"_lsn":%d}' % lsn if with_lsn else b""
        bodies.append(b"".join((value[:-1], more if value != b"{}" else more[1:], end, last)))
    return bodies


def system_properties(links: ContainerLinks, record: Record) -> dict[str, Any]:
    """Return the system properties as values, for queries."""
    rid = item_rid(links, record.seq)
    return {
        "_rid": rid,
        "_self": f"{links.items_link}{rid}/",
        "_etag": item_etag(links, record),
        "_attachments": "attachments/",
        "_ts": record.written // SECOND,
    }


# --- bodies ----------------------------------------------------------------------------------------------------------


def database_body(name: str, database: int, version: int, written: Instant) -> dict[str, Any]:
    """Build the body of a database. `version` grows with each change of the database, so its etag changes."""
    rid = database_rid(database)
    return {
        "id": name,
        "_rid": rid,
        "_self": f"dbs/{rid}/",
        "_etag": etag(version, database, written),
        "_colls": "colls/",
        "_users": "users/",
        "_ts": written // SECOND,
    }


def container_body(
    policies: Mapping[str, Any], links: ContainerLinks, version: int, written: Instant
) -> dict[str, Any]:
    """Build the body of a container: its policies (`ContainerDefinition.to_json()`, `id` included), then system properties."""
    return {
        **policies,
        "_rid": links.rid,
        "_self": links.self_link,
        "_ts": written // SECOND,
        "_etag": etag(version, links.container, written),
        "_docs": "docs/",
        "_sprocs": "sprocs/",
        "_triggers": "triggers/",
        "_udfs": "udfs/",
        "_conflicts": "conflicts/",
    }


def user_link(database: int, user: int) -> str:
    """Return the self link of a user."""
    return f"dbs/{database_rid(database)}/users/{user_rid(database, user)}/"


def user_body(name: str, database: int, user: int, version: int, written: Instant) -> dict[str, Any]:
    """Build the body of a user."""
    return {
        "id": name,
        "_rid": user_rid(database, user),
        "_self": user_link(database, user),
        "_etag": etag(version, user, written),
        "_permissions": "permissions/",
        "_ts": written // SECOND,
    }


def permission_body(
    policies: Mapping[str, Any], rid: Rid, token: str, version: int, written: Instant
) -> dict[str, Any]:
    """Build the body of a permission: the properties that clients set (`id` included), a new token, system properties."""
    text = child_rid(rid.kind, rid.database, rid.owner, rid.number)
    return {
        **policies,
        "_rid": text,
        "_self": f"{user_link(rid.database, rid.owner)}permissions/{text}/",
        "_etag": etag(version, rid.number, written),
        "_token": token,
        "_ts": written // SECOND,
    }


def script_body(
    properties: Mapping[str, Any],
    links: ContainerLinks,
    kind: RidKind,
    word: str,
    number: int,
    version: int,
    written: Instant,
) -> dict[str, Any]:
    """Build the body of a script: the properties that clients set (`id` included), then the system properties."""
    rid = child_rid(kind, links.database, links.container, number)
    return {
        **properties,
        "_rid": rid,
        "_self": f"{links.self_link}{word}/{rid}/",
        "_etag": etag(version, number, written),
        "_ts": written // SECOND,
    }


def range_rows(
    links: ContainerLinks, ranges: Sequence[PartitionRange], version: int, written: Instant
) -> list[dict[str, Any]]:
    """Build the rows of `pkranges`, in order."""
    return [_range_row(links, each, len(ranges), version, written) for each in ranges]


def _range_row(
    links: ContainerLinks, each: PartitionRange, count: int, version: int, written: Instant
) -> dict[str, Any]:
    number = int(each.id)
    rid = child_rid(RidKind.RANGE, links.database, links.container, number)
    return {
        "_rid": rid,
        "id": each.id,
        "_etag": etag(version, links.container, written),
        "minInclusive": each.lower,
        "maxExclusive": each.upper,
        "ridPrefix": number,
        "_self": f"{links.self_link}pkranges/{rid}/",
        "throughputFraction": 1 / count if count > 1 else 1,
        "status": "online",
        "parents": list(each.parents),
        "_ts": written // SECOND,
    }


def offer_body(
    number: int, resource: str, resource_rid: str, throughput: Throughput, version: int, written: Instant
) -> dict[str, Any]:
    """Build the body of an offer. `number` is the offer's own id, `resource` the self link of its database or container."""
    rid = offer_rid(number)
    return {
        "resource": resource,
        "offerType": "Invalid",
        "offerResourceId": resource_rid,
        "offerVersion": "V2",
        "content": content_of(throughput),
        "id": rid,
        "_rid": rid,
        "_self": f"offers/{rid}/",
        "_etag": etag(version, number, written),
        "_ts": written // SECOND,
    }


def feed_body(rid: str, name: str, rows: Sequence[bytes]) -> bytes:
    """Build `{"_rid":…,"<name>":[…],"_count":n}` from rows that are JSON already."""
    return b'{"_rid":"%b","%b":[%b],"_count":%d}' % (rid.encode(), name.encode(), b",".join(rows), len(rows))


# The .NET client reads limits from this text; the other clients ignore it.
_QUERY_ENGINE: Final = {
    "allowNewKeywords": True, "maxJoinsPerSqlQuery": 10, "maxQueryRequestTimeoutFraction": 0.9,
    "maxSqlQueryInputLength": 524288, "maxUdfRefPerSqlQuery": 10, "queryMaxInMemorySortDocumentCount": -1000,
    "spatialMaxGeometryPointCount": 256, "sqlAllowNonFiniteNumbers": False, "sqlDisableOptimizationFlags": 0,
    "enableSpatialIndexing": True, "maxInExpressionItemsCount": 2147483647, "maxLogicalAndPerSqlQuery": 2147483647,
    "maxLogicalOrPerSqlQuery": 2147483647, "maxSpatialQueryCells": 2147483647, "sqlAllowAggregateFunctions": True,
    "sqlAllowGroupByClause": True, "sqlAllowLike": True, "sqlAllowSubQuery": True, "sqlAllowScalarSubQuery": True,
    "sqlAllowTop": True,
}  # fmt: skip


_REPLICATION: Final = {"minReplicaSetSize": WRITE_QUORUM, "maxReplicasetSize": REPLICAS}
"""The replicas of each range that clients in direct mode look for; `places.addresses` has as many."""


def account_document(address: str, level: str = consistency.DEFAULT) -> dict[str, Any]:
    """Build the account document. Clients send all other requests to its `address` (`scheme://host:port`).

    `level`: the consistency level of the account.
    """
    location = {"name": "Local", "databaseAccountEndpoint": f"{address}/"}
    return {
        "_self": "",
        "id": "mayfly",
        "_rid": "mayfly",
        "media": "//media/",
        "addresses": "//addresses/",
        "_dbs": "//dbs/",
        "writableLocations": [location],
        "readableLocations": [location],
        "enableMultipleWriteLocations": False,
        "continuousBackupEnabled": False,
        "enablePerPartitionFailoverBehavior": False,
        "userReplicationPolicy": {"asyncReplication": False, **_REPLICATION},
        "userConsistencyPolicy": consistency.policy(level),
        "systemReplicationPolicy": _REPLICATION,
        "readPolicy": {"primaryReadCoefficient": 1, "secondaryReadCoefficient": 1},
        "queryEngineConfiguration": msgspec.json.encode(_QUERY_ENGINE).decode(),
    }
