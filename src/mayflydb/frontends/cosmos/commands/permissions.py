"""Permissions of a user: list, query, create, upsert, read, replace, delete. Every answer holds a new resource token."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from mayflydb.engine.catalog import Definition, Node
from mayflydb.engine.companions import Clash, DefinitionMaker
from mayflydb.frontends.cosmos import partition_key, paths, policies, resource_tokens
from mayflydb.frontends.cosmos.calls import NOT_FOUND, CosmosCall
from mayflydb.frontends.cosmos.commands import metadata
from mayflydb.frontends.cosmos.commands.users import get_user
from mayflydb.frontends.cosmos.headers import EXPIRY_SECONDS
from mayflydb.frontends.cosmos.partition_key import KeyValues
from mayflydb.frontends.cosmos.paths import Resource, Target
from mayflydb.frontends.cosmos.resource_tokens import TokenGrant
from mayflydb.frontends.cosmos.resources import Rid, RidKind, etag, parse_rid, permission_body, user_rid
from mayflydb.frontends.cosmos.wire import Response
from mayflydb.model.errors import BadRequest, NotFound, OwnerNotFound, Unsupported
from mayflydb.model.instant import SECOND

DEFAULT_LIFETIME: Final = 3600
"""Seconds that a token is valid without the header."""

LIFETIMES: Final = range(600, 86_401)
"""The seconds that a client may ask for: 10 minutes to 24 hours."""

_PROPERTIES = frozenset({"id", "permissionMode", "resource", "resourcePartitionKey"})
_GRANTABLE = (Resource.DATABASE, Resource.CONTAINER, Resource.ITEM)
_SCRIPTS = (Resource.STORED_PROCEDURE, Resource.TRIGGER, Resource.USER_DEFINED_FUNCTION)


# --- answers ---------------------------------------------------------------------------------------------------------


class PermissionOwner(msgspec.Struct, frozen=True):
    """The user whose permissions a request names, and the validity of the tokens in its answer (seconds)."""

    database: Node
    user: Node
    lifetime: int


async def _get_owner(call: CosmosCall) -> PermissionOwner:
    """Return the owner of the permissions; OwnerNotFound without the user, BadRequest for an invalid lifetime."""
    lifetime = _parse_lifetime(call)
    database = await call.get_owning_database()
    try:
        return PermissionOwner(database, await get_user(call, database), lifetime)
    except NotFound as missing:
        raise OwnerNotFound(missing.message) from None


def _parse_lifetime(call: CosmosCall) -> int:
    seconds = call.request.number(EXPIRY_SECONDS)
    if seconds is None:
        return DEFAULT_LIFETIME
    if seconds not in LIFETIMES:
        raise BadRequest(f"The header {EXPIRY_SECONDS.decode()} must be {LIFETIMES[0]} to {LIFETIMES[-1]} seconds.")
    return seconds


async def _build_body(call: CosmosCall, owner: PermissionOwner, node: Node) -> dict[str, Any]:
    """Return the body of a permission, with a new token."""
    rid = Rid(RidKind.PERMISSION, owner.database.id, owner.user.id, node.id)
    token = resource_tokens.seal(call.account.keys, await _build_grant(call, node, owner.lifetime))
    definition = node.definition
    return permission_body({"id": node.name, **node.body}, rid, token, definition.version, definition.written)


async def _build_grant(call: CosmosCall, node: Node, lifetime: int) -> TokenGrant:
    body = node.body
    target, database, container = await _resolve_link(call, body["resource"])
    starts = call.now // SECOND
    return TokenGrant(
        writes=body["permissionMode"].lower() == "all",
        starts=starts,
        expires=starts + lifetime,
        database=database,
        container=container,
        item=resource_tokens.item_digest(resource_tokens.item_name(target))
        if target.resource is Resource.ITEM
        else b"",
        key=resource_tokens.key_digests(_parse_key(body.get("resourcePartitionKey"))),
        nonce=secrets.token_bytes(8),
        permission=node.id,
        terms=resource_tokens.terms_digest(body),
    )


async def _resolve_link(call: CosmosCall, link: str) -> tuple[Target, int, int]:
    """Return the target of a link and the numbers of its database and container; 0 for those that do not exist (yet)."""
    for target in _possible_targets(link):
        try:
            if target.container is None:
                return target, (await call.resolver.get_database(target.database or "")).id, 0
            view = await call.resolver.get_container(target.database or "", target.container)
            return target, view.node.parent, view.id
        except NotFound:
            continue
    # A token with 0 for its database permits nothing. It stays so when the resource is created later.
    return _parse_link(link), 0, 0


def _possible_targets(link: str) -> Iterator[Target]:
    """Yield the possible targets of a link: with its names as they are, then percent-decoded.

    Some clients percent-encode the names and others do not, and a name may contain a percent sign.
    """
    yield _parse_link(link)
    if "%" in link:
        with contextlib.suppress(BadRequest):
            yield paths.parse(link.encode())


def _parse_link(link: str) -> Target:
    """Parse a link with its names as they are."""
    # The parser decodes percent signs. Encoded once more, they stay as they are.
    return paths.parse(link.replace("%", "%25").encode())


async def _read_bodies(call: CosmosCall, owner: PermissionOwner) -> list[dict[str, Any]]:
    return [await _build_body(call, owner, node) for node in await call.engine.children(owner.user.id)]


async def _answer(call: CosmosCall, status: int, owner: PermissionOwner, node: Node) -> Response:
    return metadata.answer_resource(status, await _build_body(call, owner, node), _owner_names(owner))


# --- commands --------------------------------------------------------------------------------------------------------


async def read_feed(call: CosmosCall) -> Response:
    """GET …/users/{u}/permissions."""
    owner = await _get_owner(call)
    return metadata.answer_feed(call, "Permissions", _owner_names(owner), await _read_bodies(call, owner))


async def query(call: CosmosCall) -> Response:
    """POST …/users/{u}/permissions with a query."""
    owner = await _get_owner(call)
    return await metadata.answer_query(call, "Permissions", _owner_names(owner), await _read_bodies(call, owner))


async def create(call: CosmosCall) -> Response:
    """POST …/users/{u}/permissions."""
    owner = await _get_owner(call)
    name, body = _parse(call)
    node = await call.engine.companions.create(
        owner.user.id, name, _definition_maker(call, body), _same_subject_test(body)
    )
    return await _answer(call, 201, owner, node)


async def upsert(call: CosmosCall) -> Response:
    """POST …/users/{u}/permissions with x-ms-documentdb-is-upsert."""
    owner = await _get_owner(call)
    name, body = _parse(call)
    make_definition, clash = _definition_maker(call, body), _same_subject_test(body)
    node, is_new = await call.engine.companions.upsert(owner.user.id, name, make_definition, call.now, clash)
    return await _answer(call, 201 if is_new else 200, owner, node)


async def read(call: CosmosCall) -> Response:
    """GET …/users/{u}/permissions/{p}."""
    owner = await _get_owner(call)
    return await _answer(call, 200, owner, await _get_permission(call, owner))


async def replace(call: CosmosCall) -> Response:
    """PUT …/users/{u}/permissions/{p}. The name may change. Other rights end the tokens that were issued."""
    owner = await _get_owner(call)
    node = await _get_permission(call, owner)
    name, body = _parse(call)
    node = await call.engine.companions.replace(
        node.id, name, _definition_maker(call, body), call.now, _same_subject_test(body)
    )
    return await _answer(call, 200, owner, node)


async def delete(call: CosmosCall) -> Response:
    """DELETE …/users/{u}/permissions/{p}. The tokens that were issued end."""
    owner = await _get_owner(call)
    node = await _get_permission(call, owner)
    call.check_if_match(_etag(node))
    await call.engine.definitions.drop(node.id)
    return metadata.answer_no_content(_owner_names(owner))


def _owner_names(owner: PermissionOwner) -> metadata.OwnerNames:
    path = f"dbs/{owner.database.name}/users/{owner.user.name}"
    return metadata.OwnerNames(path, user_rid(owner.database.id, owner.user.id))


def _etag(node: Node) -> str:
    return etag(node.definition.version, node.id, node.definition.written)


async def _get_permission(call: CosmosCall, owner: PermissionOwner) -> Node:
    """Return the permission that the path names, by name or rid; NotFound if there is none."""
    name = call.target.id or ""
    permissions = await call.engine.children(owner.user.id)
    rid = parse_rid(name)
    number = rid.number if rid is not None and rid.kind is RidKind.PERMISSION else None
    found = _find_first(permissions, "name", name) or _find_first(permissions, "id", number)
    if found is None:
        raise NotFound(NOT_FOUND)
    return found


def _find_first(nodes: Iterable[Node], member: str, value: object) -> Node | None:
    return next((node for node in nodes if getattr(node, member) == value), None)


def _definition_maker(call: CosmosCall, body: dict[str, Any]) -> DefinitionMaker:
    def make_definition(before: Node | None) -> Definition:
        if before is not None:
            call.check_if_match(_etag(before))
        return Definition(body, call.now)

    return make_definition


def _same_subject_test(body: dict[str, Any]) -> Clash:
    """Return a test that is true for a permission on the same resource and key, of which a user may have one.

    https://learn.microsoft.com/rest/api/cosmos-db/create-a-permission
    """
    subject = _subject(body)
    return lambda other: _subject(other.body) == subject


def _subject(body: Any) -> tuple[str, tuple[bytes, ...]]:
    key = resource_tokens.key_digests(_parse_key(body.get("resourcePartitionKey")))
    return body["resource"].strip("/"), key


# --- what clients send -----------------------------------------------------------------------------------------------


def _parse(call: CosmosCall) -> tuple[str, dict[str, Any]]:
    """Parse the body to its name and the stored properties."""
    body = call.parse_body()
    if not isinstance(body, dict):
        raise BadRequest("The body must be a JSON object that describes a permission.")
    for name in body:
        if name not in _PROPERTIES and not name.startswith("_"):
            raise BadRequest(f"The property '{name[:255]}' of the permission is not known.")
    name = policies.check_name(body.get("id"), "permission")
    mode, resource, key = body.get("permissionMode"), body.get("resource"), body.get("resourcePartitionKey")
    if not isinstance(mode, str) or mode.lower() not in ("read", "all"):
        raise BadRequest("The property 'permissionMode' of the permission must be 'Read' or 'All'.")
    _check_resource(resource, key is not None)
    kept = {"permissionMode": mode, "resource": resource}
    if key is not None:
        _parse_key(key)
        kept["resourcePartitionKey"] = key
    return name, kept


def _check_resource(link: object, has_key: bool) -> None:
    if not isinstance(link, str) or not link.strip("/"):
        raise BadRequest("The property 'resource' of the permission must be a link such as 'dbs/d/colls/c'.")
    target = _parse_link(link)
    if target.resource in _SCRIPTS:
        raise Unsupported(f"Permissions for {target.resource.value} are not supported by Mayfly.")
    if target.is_feed or target.operation is not None or target.resource not in _GRANTABLE:
        raise BadRequest("The property 'resource' of the permission must name a database, a container or an item.")
    if has_key and target.container is None:
        raise BadRequest("The property 'resourcePartitionKey' is for permissions on a container or an item.")


def _parse_key(given: object) -> KeyValues:
    """Parse the values of a `resourcePartitionKey`; None gives no values."""
    if given is None:
        return ()
    if not isinstance(given, list) or not 1 <= len(given) <= 3:
        raise BadRequest("The property 'resourcePartitionKey' must be an array of one to three partition key values.")
    try:
        return partition_key.parse_header(msgspec.json.encode(given))
    except BadRequest:
        raise BadRequest(
            "A value in 'resourcePartitionKey' must be a string, a number, a boolean, null or {}."
        ) from None
