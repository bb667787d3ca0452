"""Resource tokens: the temporary rights of a permission for a client without a key, and their check.

A token is `type=resource&ver=1&sig=<mac>;<grant>;`, both in base64. Tokens are not stored: the account's key suffices to check
them, and they expire by themselves. A token names its container by number, so it does not permit access to a later container of
the same name. It names its permission and a digest of it, so it ends when the permission is deleted or changed.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
from typing import Any, Final

import msgspec

from mayflydb.expiry.deadline import has_passed
from mayflydb.frontends.cosmos import partition_key
from mayflydb.frontends.cosmos.auth import Keys, parse_authorization, validity_error
from mayflydb.frontends.cosmos.calls import NOT_FOUND, CosmosCall
from mayflydb.frontends.cosmos.headers import (
    BATCH_ATOMIC,
    IS_BATCH,
    IS_QUERY_PLAN,
    PARTITION_KEY,
    POPULATE_PARTITION_STATISTICS,
)
from mayflydb.frontends.cosmos.partition_key import KeyValues
from mayflydb.frontends.cosmos.paths import Resource, Target
from mayflydb.frontends.cosmos.resources import RidKind, child_rid, parse_rid
from mayflydb.frontends.cosmos.values import item_id, parse_item
from mayflydb.model.errors import Forbidden, MayflyError, NotFound, OwnerNotFound, Unauthenticated
from mayflydb.model.instant import SECOND, Instant

INSUFFICIENT: Final = (
    "Insufficient permissions provided in the authorization header for the corresponding request. "
    "Please retry with another authorization header."
)
NOT_ISSUED: Final = (
    "The input authorization token can't serve the request. Please check that it is a resource token as it was issued, and "
    "that the key of the account has not been changed since."
)
REVOKED: Final = (
    "The permission of this resource token was deleted or changed. Please read the permission for another token."
)
_DOMAIN: Final = b"\0resource token 2\0"
"""The prefix of signed grants. No signed request begins with it, so no signature of one kind serves as the other."""

_DIGEST_BYTES: Final = 16


class TokenGrant(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The rights of a token: in a database (`container` 0), a container, or one item of it; none where `database` is 0.

    `item`: the digest of an id. `key`: the digests of the first partition key values. Both are empty without restriction.
    `starts`, `expires`: seconds since 1970; the token is invalid from `expires` on. `nonce`: makes each token unique.
    `permission`: the number of the permission; `terms`: the digest of what it permitted at the time.
    """

    writes: bool
    starts: int
    expires: int
    database: int
    container: int
    item: bytes
    key: tuple[bytes, ...]
    nonce: bytes
    permission: int
    terms: bytes


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(TokenGrant).decode


def item_digest(id: str) -> bytes:
    """Return the digest of an item's id in a grant."""
    return hashlib.blake2b(id.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).digest()


def terms_digest(body: Any) -> bytes:
    """Return the digest of a permission's mode, resource and partition key in a grant. Its name does not matter."""
    return hashlib.blake2b(msgspec.json.encode(body, order="sorted"), digest_size=_DIGEST_BYTES).digest()


def item_name(target: Target) -> str:
    """Return the name of the item in a path: its id, or its rid where the container is named by rid too.

    A rid of the earlier form is returned in the current one.
    """
    id, container = target.id or "", parse_rid(target.container or "")
    rid = parse_rid(id)
    if container is None or container.kind is not RidKind.CONTAINER or rid is None or rid.kind is not RidKind.ITEM:
        return id
    return child_rid(rid.kind, rid.database, rid.owner, rid.number)


def key_digests(values: KeyValues) -> tuple[bytes, ...]:
    """Return the digests of partition key values in a grant: 5 equals 5.0, and differs from true.

    BadRequest for a value that cannot be in a partition key.
    """
    return tuple(
        hashlib.blake2b(partition_key.encode_component(value), digest_size=_DIGEST_BYTES).digest() for value in values
    )


def seal(keys: Keys, grant: TokenGrant) -> str:
    """Return the token for a grant, signed with the account's first key."""
    payload = _encode(grant)
    mac = keys.pairs[0][1].sign(_DOMAIN + payload)
    parts = [binascii.b2a_base64(part, newline=False).decode() for part in (mac, payload)]
    return f"type=resource&ver=1&sig={parts[0]};{parts[1]};"


def is_resource_token(header: str) -> bool:
    """Return True for an authorization header of the type of resource tokens."""
    return header[:13].lower() == "type=resource" or header[:15].lower() == "type%3dresource"


def unseal(keys: Keys, header: str) -> TokenGrant:
    """Return the grant in an authorization header, expired or not. Unauthenticated unless an account key signed it."""
    kind, version, signature = parse_authorization(header)
    try:
        mac, payload, rest = signature.split(";")
        sealed = binascii.a2b_base64(mac, strict_mode=True), binascii.a2b_base64(payload, strict_mode=True)
    except ValueError:
        raise Unauthenticated(NOT_ISSUED) from None
    if rest or (kind, version) != ("resource", "1") or not _is_signed(keys, *sealed):
        raise Unauthenticated(NOT_ISSUED)
    return _decode(sealed[1])


def _is_signed(keys: Keys, mac: bytes, payload: bytes) -> bool:
    # A read-only key must not make tokens, which may permit writes.
    return any(kind.may_write and hmac.compare_digest(key.sign(_DOMAIN + payload), mac) for kind, key in keys.pairs)


def check_expiry(grant: TokenGrant, now: Instant) -> None:
    """Raise Forbidden if the token has expired."""
    if has_passed(grant.expires * SECOND, now):
        raise validity_error(grant.starts, grant.expires, now // SECOND)


async def authorize(grant: TokenGrant, call: CosmosCall, writes: bool) -> None:
    """Raise Forbidden unless the token permits the request now. NotFound if its container was deleted.

    Every token may read the account, its container, the container's partition key ranges and their addresses, which all
    clients need.
    """
    check_expiry(grant, call.now)
    permission = await call.engine.node_by_id(grant.permission)
    if permission is None or not hmac.compare_digest(terms_digest(permission.body), grant.terms):
        raise Forbidden(REVOKED)
    target = call.target
    if target.resource is Resource.ACCOUNT or (target.resource is Resource.ADDRESS and target.container is None):
        return
    if (writes and not grant.writes) or not grant.database or not _is_grantable(call):
        raise Forbidden(INSUFFICIENT)
    try:
        allowed = await (_allows_container if grant.container else _allows_database)(grant, call)
    except NotFound:
        raise await _missing_error(grant, call) from None
    if not allowed:
        raise Forbidden(INSUFFICIENT)


def _is_grantable(call: CosmosCall) -> bool:
    """Return True if a token may permit requests to this kind of resource."""
    # Users and permissions need a key: an answer with a permission holds a token, which would widen the rights of this one.
    target = call.target
    return target.database is not None and target.resource not in (Resource.USER, Resource.PERMISSION)


async def _missing_error(grant: TokenGrant, call: CosmosCall) -> MayflyError:
    # The granted container exists, and the request names another one, which does not. A token shows nothing of other
    # names.
    if await call.engine.node_by_id(grant.container or grant.database) is not None:
        return Forbidden(INSUFFICIENT)
    kind = NotFound if call.target.resource in (Resource.DATABASE, Resource.CONTAINER) else OwnerNotFound
    return kind(NOT_FOUND)


async def _allows_database(grant: TokenGrant, call: CosmosCall) -> bool:
    return (await call.get_database()).id == grant.database


async def _allows_container(grant: TokenGrant, call: CosmosCall) -> bool:
    target, request = call.target, call.request
    if target.container is None or (await call.get_container()).id != grant.container:
        return False
    reads_container = target.resource is Resource.CONTAINER and request.method in ("GET", "HEAD")
    if target.resource in (Resource.RANGE, Resource.ADDRESS) or reads_container:
        # Statistics show partition keys, which a token for some of them must not see.
        return not (request.flag(POPULATE_PARTITION_STATISTICS) and (grant.item or grant.key))
    if target.resource is not Resource.ITEM and target.operation is None:
        return not grant.item and not grant.key
    if grant.item and (grant.item not in _item_digests(call) or _changes_id(call)):
        return False
    return not grant.key or _allows_key(grant, call)


def _item_digests(call: CosmosCall) -> set[bytes]:
    """Return the digests by which a grant may name the item of the path.

    Tokens of earlier versions hold the digest of a rid in its earlier form.
    """
    target = call.target
    if target.resource is not Resource.ITEM or target.id is None:
        return set()
    return {item_digest(target.id), item_digest(item_name(target))}


def _changes_id(call: CosmosCall) -> bool:
    """Return True for a replace that changes the id of its item. A token for one item does not permit another id."""
    if call.request.method != "PUT":
        return False
    limits = call.account.limits
    return item_id(parse_item(call.request.body, limits).doc, limits) != call.target.id


def _allows_key(grant: TokenGrant, call: CosmosCall) -> bool:
    """Return True if the request names a partition key that the grant permits."""
    request = call.request
    if request.method == "POST" and call.target.is_feed:
        if request.flag(IS_QUERY_PLAN):
            return True  # A query plan reads no item.
        if request.flag(IS_BATCH) and not request.flag(BATCH_ATOMIC):
            return False  # Each operation of a bulk request has its own key.
    header = request.headers.get(PARTITION_KEY)
    if header is None:
        return False
    return key_digests(partition_key.parse_header(header))[: len(grant.key)] == grant.key
