"""A request for each route of Cosmos DB's front end. The rows come from its tables, so that a new route is asked as well.

What a route does follows from its method and headers alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from mayflydb.frontends.cosmos.commands import table
from mayflydb.frontends.cosmos.paths import Resource

CONTAINER: Final = "/dbs/shop/colls/c"
QUERY: Final = {"content-type": "application/query+json", "x-ms-documentdb-isquery": "True"}
FEEDS: Final = {
    Resource.ACCOUNT: "/",
    Resource.ADDRESS: "/addresses/?$resolveFor=dbs",
    Resource.DATABASE: "/dbs",
    Resource.CONTAINER: "/dbs/shop/colls",
    Resource.OFFER: "/offers",
    Resource.USER: "/dbs/shop/users",
    Resource.PERMISSION: "/dbs/shop/users/ann/permissions",
    **{
        resource: f"{CONTAINER}/{resource.value}"
        for resource in (
            Resource.ITEM,
            Resource.RANGE,
            Resource.CONFLICT,
            Resource.STORED_PROCEDURE,
            Resource.TRIGGER,
            Resource.USER_DEFINED_FUNCTION,
        )
    },
}
NAMES: Final = {Resource.DATABASE: "shop", Resource.CONTAINER: "c", Resource.USER: "ann", Resource.PERMISSION: "p"}


class Ask(NamedTuple):
    resource: Resource
    is_feed: bool
    method: str
    path: str
    headers: Mapping[str, str] = MappingProxyType({})

    @property
    def reads(self) -> bool:
        return (
            self.method in ("GET", "HEAD")
            or self.headers == QUERY
            or "x-ms-cosmos-is-query-plan-request" in self.headers
        )


def path_of(resource: Resource, is_feed: bool) -> str:
    feed = FEEDS[resource]
    return feed if is_feed else f"{feed}/{NAMES.get(resource, '1')}"


ITEMS: Final = FEEDS[Resource.ITEM]
ASKS: Final = [
    *(Ask(kind, feed, method, path_of(kind, feed)) for kind, feed, method in table.ROUTES),
    *(Ask(kind, True, "POST", FEEDS[kind], QUERY) for kind in table.QUERIES),
    *(Ask(kind, True, "POST", FEEDS[kind], {"x-ms-documentdb-is-upsert": "True"}) for kind in table.UPSERTS),
    *(Ask(Resource.CONTAINER, False, "POST", f"{CONTAINER}/operations/{name}") for name in table.OPERATIONS),
    Ask(Resource.ITEM, True, "POST", ITEMS, {"x-ms-cosmos-is-query-plan-request": "True"}),
    Ask(
        Resource.ITEM, True, "POST", ITEMS, {"x-ms-cosmos-is-batch-request": "True", "x-ms-cosmos-batch-atomic": "True"}
    ),
    Ask(Resource.ITEM, True, "POST", ITEMS, {"x-ms-cosmos-is-batch-request": "True"}),
    Ask(Resource.ITEM, True, "GET", ITEMS, {"a-im": "Incremental Feed"}),
]
IDS: Final = [f"{ask.method} {ask.path} {' '.join(ask.headers)}" for ask in ASKS]
