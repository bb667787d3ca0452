"""The routes of requests: (resource, is it a feed, method) -> the command that answers it, and the rights it needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

import msgspec

from mayflydb.frontends.cosmos.calls import CosmosCall
from mayflydb.frontends.cosmos.commands import (
    account,
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
from mayflydb.frontends.cosmos.headers import A_IM, CONTENT_TYPE, IS_BATCH, IS_QUERY, IS_QUERY_PLAN, IS_UPSERT
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


def _reads(handler: Handler, operation: str | None = None) -> Route:
    return Route(handler, operation=operation)


def _writes(handler: Handler, operation: str | None = None) -> Route:
    return Route(handler, writes=True, operation=operation)


def _issues(handler: Handler) -> Route:
    return Route(handler, issues_tokens=True)


ROUTES: dict[tuple[Resource, bool, str], Route] = {
    (Resource.ACCOUNT, True, "GET"): _reads(account.read),
    (Resource.DATABASE, True, "GET"): _reads(databases.read_feed),
    (Resource.DATABASE, True, "POST"): _writes(databases.create),
    (Resource.DATABASE, False, "GET"): _reads(databases.read),
    (Resource.DATABASE, False, "DELETE"): _writes(databases.delete),
    (Resource.CONTAINER, True, "GET"): _reads(containers.read_feed),
    (Resource.CONTAINER, True, "POST"): _writes(containers.create),
    (Resource.CONTAINER, False, "GET"): _reads(containers.read),
    (Resource.CONTAINER, False, "PUT"): _writes(containers.replace),
    (Resource.CONTAINER, False, "DELETE"): _writes(containers.delete),
    (Resource.RANGE, True, "GET"): _reads(containers.read_ranges),
    (Resource.ITEM, True, "GET"): _reads(query.read_feed, "feed"),
    (Resource.ITEM, True, "POST"): _writes(items.create, "create"),
    (Resource.ITEM, False, "GET"): _reads(items.read, "read"),
    (Resource.ITEM, False, "PUT"): _writes(items.replace, "replace"),
    (Resource.ITEM, False, "PATCH"): _writes(items.patch, "patch"),
    (Resource.ITEM, False, "DELETE"): _writes(items.delete, "delete"),
    (Resource.CONFLICT, True, "GET"): _reads(account.read_conflict_feed),
    (Resource.CONFLICT, False, "GET"): _reads(conflicts.answer_missing),
    (Resource.CONFLICT, False, "DELETE"): _writes(conflicts.answer_missing),
    (Resource.OFFER, True, "GET"): _reads(offers.read_feed),
    (Resource.OFFER, False, "GET"): _reads(offers.read),
    (Resource.OFFER, False, "PUT"): _writes(offers.replace),
    (Resource.USER, True, "GET"): _reads(users.read_feed),
    (Resource.USER, True, "POST"): _writes(users.create),
    (Resource.USER, False, "GET"): _reads(users.read),
    (Resource.USER, False, "PUT"): _writes(users.replace),
    (Resource.USER, False, "DELETE"): _writes(users.delete),
    (Resource.PERMISSION, True, "GET"): _issues(permissions.read_feed),
    (Resource.PERMISSION, True, "POST"): _writes(permissions.create),
    (Resource.PERMISSION, False, "GET"): _issues(permissions.read),
    (Resource.PERMISSION, False, "PUT"): _writes(permissions.replace),
    (Resource.PERMISSION, False, "DELETE"): _writes(permissions.delete),
    (Resource.STORED_PROCEDURE, False, "POST"): _writes(procedures.execute, "execute"),
}

for _kind in scripts.KINDS:
    ROUTES |= {
        (_kind, True, "GET"): _reads(scripts.read_feed),
        (_kind, True, "POST"): _writes(scripts.create),
        (_kind, False, "GET"): _reads(scripts.read),
        (_kind, False, "PUT"): _writes(scripts.replace),
        (_kind, False, "DELETE"): _writes(scripts.delete),
    }

QUERIES: Mapping[Resource, Route] = {
    Resource.DATABASE: _reads(databases.query),
    Resource.CONTAINER: _reads(containers.query),
    Resource.RANGE: _reads(containers.query_ranges),
    Resource.ITEM: _reads(query.execute, "query"),
    Resource.OFFER: _reads(offers.query),
    Resource.CONFLICT: _reads(conflicts.query),
    Resource.USER: _reads(users.query),
    Resource.PERMISSION: _issues(permissions.query),
    **dict.fromkeys(scripts.KINDS, _reads(scripts.query)),
}

UPSERTS: Mapping[Resource, Route] = {
    Resource.ITEM: _writes(items.upsert, "upsert"),
    Resource.USER: _writes(users.upsert),
    Resource.PERMISSION: _writes(permissions.upsert),
    **dict.fromkeys(scripts.KINDS, _writes(scripts.upsert)),
}

TRIGGERED: Mapping[Handler, Route] = {
    items.create: _writes(triggered.create, "create"),
    items.upsert: _writes(triggered.upsert, "upsert"),
    items.replace: _writes(triggered.replace, "replace"),
    items.delete: _writes(triggered.delete, "delete"),
}
"""The commands that replace writes of items if a request includes triggers."""

OPERATIONS: Mapping[str, Route] = {"partitionkeydelete": _writes(partitions.delete_all, "delete partition")}
"""The commands of POST …/operations/{name} of a container."""

FEED_ONLY: Mapping[Resource, str] = {Resource.CONFLICT: "Conflicts"}
"""Resources whose methods without a row of the table are refused by name, with these names."""

_PLAN, _BATCH = _reads(query.plan), _writes(batches.execute, "batch")
_CHANGES = _reads(changes.read_feed, "change feed")


def find_route(request: Request) -> Route:
    """Return the route of a request. BadRequest or Unsupported, naming the request, if there is none."""
    target = request.target
    if target.operation is not None and request.method == "POST":
        return OPERATIONS[target.operation]
    # POST on a feed means a create unless a header makes it something else.
    if request.method == "POST" and target.is_feed and (special := _find_post_route(request)) is not None:
        return special
    if target.resource is Resource.ITEM and target.is_feed and request.method == "GET" and A_IM in request.headers:
        return _CHANGES
    route = ROUTES.get((target.resource, target.is_feed, request.method))
    if route is not None and target.operation is None:
        return route
    if target.resource in FEED_ONLY:
        raise Unsupported(f"{FEED_ONLY[target.resource]} are not supported by Mayfly.")
    path = request.path[:1024].decode("ascii", "backslashreplace")
    raise BadRequest(f"The method {request.method} is not known for the path '{path}'.")


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
        if request.flag(IS_QUERY_PLAN):
            return _PLAN
        if request.flag(IS_BATCH):
            return _BATCH
    if request.flag(IS_QUERY) or headers.get(CONTENT_TYPE, b"").startswith(b"application/query+json"):
        return QUERIES.get(resource)
    return UPSERTS.get(resource) if request.flag(IS_UPSERT) else None
