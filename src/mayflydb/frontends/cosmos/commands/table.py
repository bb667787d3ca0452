"""The routes of requests: (resource, is it a feed, method) -> the command that answers it, and the rights it needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

import msgspec

from mayflydb.frontends.cosmos.calls import CosmosCall
from mayflydb.frontends.cosmos.commands import (
    account,
    addresses,
    batches,
    changes,
    conflicts,
    containers,
    databases,
    items,
    offers,
    partitions,
    permissions,
    procedures,
    query,
    scripts,
    triggered,
    users,
)
from mayflydb.frontends.cosmos.headers import A_IM, AS_OF, CONTENT_TYPE, IS_BATCH, IS_QUERY, IS_QUERY_PLAN, IS_UPSERT
from mayflydb.frontends.cosmos.paths import Resource
from mayflydb.frontends.cosmos.wire import Request, Response
from mayflydb.model.errors import BadRequest, Unsupported

Handler: TypeAlias = Callable[[CosmosCall], Awaitable[Response]]


class Route(msgspec.Struct, frozen=True, gc=False):
    """The command that answers a request.

    `writes`, `issues_tokens`: read-only keys are refused. `operation`: its name in metrics, if a container pays for it.
    """

    handler: Handler
    writes: bool = False
    issues_tokens: bool = False
    operation: str | None = None


def _read_route(handler: Handler, operation: str | None = None) -> Route:
    return Route(handler, operation=operation)


def _write_route(handler: Handler, operation: str | None = None) -> Route:
    return Route(handler, writes=True, operation=operation)


def _token_route(handler: Handler) -> Route:
    return Route(handler, issues_tokens=True)


ROUTES: dict[tuple[Resource, bool, str], Route] = {
    (Resource.ACCOUNT, True, "GET"): _read_route(account.read),
    (Resource.ADDRESS, True, "GET"): _read_route(addresses.read),
    (Resource.DATABASE, True, "HEAD"): _read_route(databases.read_state),
    (Resource.DATABASE, True, "GET"): _read_route(databases.read_feed),
    (Resource.DATABASE, True, "POST"): _write_route(databases.create),
    (Resource.DATABASE, False, "GET"): _read_route(databases.read),
    (Resource.DATABASE, False, "DELETE"): _write_route(databases.delete),
    (Resource.CONTAINER, True, "GET"): _read_route(containers.read_feed),
    (Resource.CONTAINER, True, "POST"): _write_route(containers.create),
    (Resource.CONTAINER, False, "HEAD"): _read_route(containers.read_state),
    (Resource.CONTAINER, False, "GET"): _read_route(containers.read),
    (Resource.CONTAINER, False, "PUT"): _write_route(containers.replace),
    (Resource.CONTAINER, False, "DELETE"): _write_route(containers.delete),
    (Resource.RANGE, True, "GET"): _read_route(containers.read_ranges),
    (Resource.ITEM, True, "GET"): _read_route(query.read_feed, "feed"),
    (Resource.ITEM, True, "POST"): _write_route(items.create, "create"),
    (Resource.ITEM, False, "GET"): _read_route(items.read, "read"),
    (Resource.ITEM, False, "PUT"): _write_route(items.replace, "replace"),
    (Resource.ITEM, False, "PATCH"): _write_route(items.patch, "patch"),
    (Resource.ITEM, False, "DELETE"): _write_route(items.delete, "delete"),
    (Resource.CONFLICT, True, "GET"): _read_route(account.read_conflict_feed),
    (Resource.CONFLICT, False, "GET"): _read_route(conflicts.answer_missing),
    (Resource.CONFLICT, False, "DELETE"): _write_route(conflicts.answer_missing),
    (Resource.OFFER, True, "GET"): _read_route(offers.read_feed),
    (Resource.OFFER, False, "GET"): _read_route(offers.read),
    (Resource.OFFER, False, "PUT"): _write_route(offers.replace),
    (Resource.USER, True, "GET"): _read_route(users.read_feed),
    (Resource.USER, True, "POST"): _write_route(users.create),
    (Resource.USER, False, "GET"): _read_route(users.read),
    (Resource.USER, False, "PUT"): _write_route(users.replace),
    (Resource.USER, False, "DELETE"): _write_route(users.delete),
    (Resource.PERMISSION, True, "GET"): _token_route(permissions.read_feed),
    (Resource.PERMISSION, True, "POST"): _write_route(permissions.create),
    (Resource.PERMISSION, False, "GET"): _token_route(permissions.read),
    (Resource.PERMISSION, False, "PUT"): _write_route(permissions.replace),
    (Resource.PERMISSION, False, "DELETE"): _write_route(permissions.delete),
    (Resource.STORED_PROCEDURE, False, "POST"): _write_route(procedures.execute, "execute"),
}

for _kind in scripts.KINDS:
    ROUTES |= {
        (_kind, True, "GET"): _read_route(scripts.read_feed),
        (_kind, True, "POST"): _write_route(scripts.create),
        (_kind, False, "GET"): _read_route(scripts.read),
        (_kind, False, "PUT"): _write_route(scripts.replace),
        (_kind, False, "DELETE"): _write_route(scripts.delete),
    }

QUERIES: Mapping[Resource, Route] = {
    Resource.DATABASE: _read_route(databases.query),
    Resource.CONTAINER: _read_route(containers.query),
    Resource.RANGE: _read_route(containers.query_ranges),
    Resource.ITEM: _read_route(query.execute, "query"),
    Resource.OFFER: _read_route(offers.query),
    Resource.CONFLICT: _read_route(conflicts.query),
    Resource.USER: _read_route(users.query),
    Resource.PERMISSION: _token_route(permissions.query),
    **dict.fromkeys(scripts.KINDS, _read_route(scripts.query)),
}

UPSERTS: Mapping[Resource, Route] = {
    Resource.ITEM: _write_route(items.upsert, "upsert"),
    Resource.USER: _write_route(users.upsert),
    Resource.PERMISSION: _write_route(permissions.upsert),
    **dict.fromkeys(scripts.KINDS, _write_route(scripts.upsert)),
}

TRIGGERED: Mapping[Handler, Route] = {
    items.create: _write_route(triggered.create, "create"),
    items.upsert: _write_route(triggered.upsert, "upsert"),
    items.replace: _write_route(triggered.replace, "replace"),
    items.delete: _write_route(triggered.delete, "delete"),
}
"""The commands that replace writes of items if a request includes triggers."""

OPERATIONS: Mapping[str, Route] = {"partitionkeydelete": _write_route(partitions.delete_all, "delete partition")}
"""The commands of POST …/operations/{name} of a container."""

FEED_ONLY: Mapping[Resource, str] = {Resource.CONFLICT: "Conflicts"}
"""Resources whose methods without a row of the table are refused by name, with these names."""

_PLAN, _BATCH = _read_route(query.plan), _write_route(batches.execute, "batch")
_CHANGES = _read_route(changes.read_feed, "change feed")
_ITEM_READS: Final = frozenset({items.read, query.execute, query.read_feed, query.plan})
"""The handlers that read as of another instant."""


def find_route(request: Request) -> Route:
    """Return the route of a request. BadRequest or Unsupported, naming the request, if there is none."""
    target, method = request.target, request.method
    if method == "POST":
        if target.operation is not None:
            return OPERATIONS[target.operation]
        # POST on a feed means a create unless a header makes it something else.
        if target.is_feed and (special := _find_post_route(request)) is not None:
            return special
    elif target.is_feed and target.resource is Resource.ITEM and method == "GET" and A_IM in request.headers:
        return _CHANGES
    route = ROUTES.get((target.resource, target.is_feed, method))
    if route is not None and target.operation is None:
        return route
    if target.resource in FEED_ONLY:
        raise Unsupported(f"{FEED_ONLY[target.resource]} are not supported by Mayfly.")
    path = request.path[:1024].decode("ascii", "backslashreplace")
    raise BadRequest(f"The method {request.method} is not known for the path '{path}'.")


def reads_items(route: Route) -> bool:
    """Return whether a route reads items as of an instant. Unsupported for one that writes, and for the change feed.

    The others describe databases, containers and the like, which do not expire.
    """
    if route.writes or route is _CHANGES:
        raise Unsupported(
            f"{AS_OF.decode()} is supported by Mayfly for reads, feeds and queries of items, and not for this operation."
        )
    return route.handler in _ITEM_READS


def with_triggers(route: Route, headers: Mapping[bytes, bytes]) -> Route:
    """Return the route that runs the triggers in the headers; Unsupported for an operation without triggers."""
    for name in triggered.INCLUDE_HEADERS.values():
        if headers.get(name):
            found = TRIGGERED.get(route.handler)
            if found is None:
                raise Unsupported(
                    f"Triggers of this operation are not supported by Mayfly: {name.decode()} asks for one."
                )
            return found
    return route


def _find_post_route(request: Request) -> Route | None:
    """Return the route of a POST on a feed that is no create: plan, batch, query or upsert, checked in this order."""
    headers, resource = request.headers, request.target.resource
    if resource is Resource.ITEM:
        if IS_QUERY_PLAN in headers and request.flag(IS_QUERY_PLAN):
            return _PLAN
        if IS_BATCH in headers and request.flag(IS_BATCH):
            return _BATCH
    if (IS_QUERY in headers and request.flag(IS_QUERY)) or headers.get(CONTENT_TYPE, b"").startswith(
        b"application/query+json"
    ):
        return QUERIES.get(resource)
    return UPSERTS.get(resource) if request.flag(IS_UPSERT) else None
