"""One request on its way through the front end, and what commands may use to answer it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from mayflydb.engine.budgets import Spending
from mayflydb.engine.catalog import Node
from mayflydb.engine.commands import ANY_VERSION
from mayflydb.engine.engine import Engine
from mayflydb.frontends.cosmos import session
from mayflydb.frontends.cosmos.access import IndexDemand
from mayflydb.frontends.cosmos.auth import Keys
from mayflydb.frontends.cosmos.headers import IF_MATCH, INTENDED_RID, SESSION_TOKEN
from mayflydb.frontends.cosmos.paths import Target
from mayflydb.frontends.cosmos.resources import RidKind, etag_matches, parse_etag, parse_rid
from mayflydb.frontends.cosmos.scripting.sandbox import ScriptLimits
from mayflydb.frontends.cosmos.scripting.threads import ScriptThreads
from mayflydb.frontends.cosmos.values import ItemLimits, parse_json
from mayflydb.frontends.cosmos.views import ContainerView
from mayflydb.frontends.cosmos.wire import Request
from mayflydb.model.errors import BadRequest, NotFound, OwnerNotFound, PreconditionFailed
from mayflydb.model.instant import Instant

SPACE = "cosmos"
USERS = "cosmos users"
"""The space of what belongs to databases without being a container."""

SCRIPTS = "cosmos scripts"
"""The space of what belongs to containers without being a record."""

NOT_FOUND = "Resource Not Found. Learn more: https://aka.ms/cosmosdb-tsg-not-found"
STALE = "Operation cannot be performed because one of the specified precondition is not met."
NO_LSN = 0
"""An lsn that no record has: what an etag of somewhere else stands for."""


def lsn_of_etag(etag: str, container: int) -> int:
    """The lsn an etag names, or ANY_VERSION for `*`; one that cannot be of this container names a version nothing has."""
    if etag.strip() == "*":
        return ANY_VERSION
    parsed = parse_etag(etag)
    return NO_LSN if parsed is None or parsed.container != container & 0xFFFFFFFF else parsed.lsn


class Account(msgspec.Struct, frozen=True):
    """How this account behaves. `secret` signs continuation tokens; `direct`: cross-partition queries are answered whole;
    `serverless`: nothing has throughput; `lenient`: queries are run that the service refuses, where they can be.

    `index_after`: how many items queries read in vain before an index is built (0: none ever is).
    `told`: where a client is to go that came by an address; both are `scheme://host:port`.
    """

    keys: Keys
    secret: bytes
    direct: bool = False
    check_date: bool = False
    serverless: bool = False
    lenient: bool = False
    limits: ItemLimits = ItemLimits()
    index_after: int = 10_000
    resolve_address: Callable[[str], str] = str
    scripts: ScriptLimits = ScriptLimits()


class NameResolver:
    """Databases and containers by name or rid; container views are kept while the catalogue stands still."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._version = -1
        self._views: dict[tuple[str, str], ContainerView] = {}

    async def get_database(self, name: str) -> Node:
        """NotFound if there is none."""
        node = await self._engine.node(SPACE, name)
        if node is None:
            rid = parse_rid(name)
            if rid is not None and rid.kind is RidKind.DATABASE:
                node = await self._below_space(rid.database)
        if node is None:
            raise NotFound(NOT_FOUND)
        return node

    async def get_container(self, database: str, name: str) -> ContainerView:
        """NotFound if there is none; OwnerNotFound if there is no such database."""
        while (view := self.cached_container(database, name)) is None:
            version = self._version
            parent, node = await self._find(database, name)
            if self._engine.catalog_version == version:
                # Else what was found may be of the catalogue before: it must neither be kept nor used.
                budgets = self._engine.budgets
                purse = None if budgets is None else budgets.purse(node, parent)
                self._views[database, name] = ContainerView(node, parent.name, purse)
        return view

    def cached_container(self, database: str, name: str) -> ContainerView | None:
        """A container that has been asked for before."""
        version = self._engine.catalog_version
        if version != self._version:
            self._views.clear()
            self._version = version
        return self._views.get((database, name))

    async def _find(self, database: str, name: str) -> tuple[Node, Node]:
        try:
            parent = await self.get_database(database)
        except NotFound:
            raise OwnerNotFound(NOT_FOUND) from None
        node = await self._engine.node(SPACE, parent.name, name)
        if node is None:
            rid = parse_rid(name)
            if rid is not None and rid.kind is RidKind.CONTAINER and rid.database == parent.id:
                node = await self._by_id(rid.owner)
        if node is None or node.parent != parent.id:
            raise NotFound(NOT_FOUND)
        return parent, node

    async def _below_space(self, id: int) -> Node | None:
        node, space = await self._by_id(id), await self._engine.node(SPACE)
        return node if node is not None and space is not None and node.parent == space.id else None

    async def _by_id(self, id: int) -> Node | None:
        return await self._engine.node_by_id(id)


class CosmosCall:
    """A request that has been authorized: what it names, and the one instant it is answered at.

    `view`: the container that it turned out to be about; `spending`: what its budget has granted.
    """

    __slots__ = (
        "account", "engine", "index_demand", "now", "request", "resolver", "spending", "target", "threads", "view",
    )  # fmt: skip

    def __init__(
        self, account: Account, engine: Engine, resolver: NameResolver, index_demand: IndexDemand, threads: ScriptThreads,
        request: Request, now: Instant,
    ) -> None:  # fmt: skip
        self.index_demand = index_demand
        self.account = account
        self.engine = engine
        self.resolver = resolver
        self.threads = threads
        self.request = request
        self.target: Target = request.target
        self.now = now
        self.view: ContainerView | None = None
        self.spending: Spending | None = None

    async def get_database(self) -> Node:
        """The database that the path names."""
        return await self.resolver.get_database(self.target.database or "")

    async def get_owning_database(self) -> Node:
        """The database whose children the path names: a missing one is a missing owner."""
        try:
            return await self.get_database()
        except NotFound as missing:
            raise OwnerNotFound(missing.message) from None

    async def get_container(self) -> ContainerView:
        """The container that the path names, for commands about the container itself."""
        return await self.resolver.get_container(self.target.database or "", self.target.container or "")

    async def get_owner(self) -> ContainerView:
        """The container whose children the path names: a missing one is a missing owner, another one is a stale name."""
        try:
            view = (
                self.resolver.cached_container(self.target.database or "", self.target.container or "")
                or await self.get_container()
            )
        except OwnerNotFound:
            raise
        except NotFound as missing:
            raise OwnerNotFound(missing.message) from None
        intended = self.request.text(INTENDED_RID)
        if intended is not None and intended != view.links.rid:
            raise BadRequest(
                "Collection rid does not match: the container was deleted and created again.", substatus=1024
            )
        self.view = view
        return view

    async def session_lsn(self, view: ContainerView, seen: int = 0) -> int:
        """An lsn that was reached, the newest unless `seen` will do; NotFound (1002) if the client has seen a later one."""
        token = (self.request.headers.get(SESSION_TOKEN) or b"").decode("latin-1")
        reached = view.known_lsn = max(view.known_lsn, seen)
        if seen and session.demanded_lsn(session.parse(token), view.id) <= reached:
            return reached
        lsn = view.known_lsn = await self.engine.lsn(view.id)
        session.check(token, view.id, lsn)
        return lsn

    def json(self) -> Any:
        """The body as strict JSON."""
        limits = self.account.limits
        return parse_json(self.request.body, limits, limits.item_bytes)[0]

    def if_match(self, container: int) -> int | None:
        """The version a write demands in `If-Match`, or None."""
        header = self.request.text(IF_MATCH)
        return None if header is None else lsn_of_etag(header, container)

    def check_match(self, current: str) -> None:
        """PreconditionFailed when `If-Match` names another version of a resource that is no item."""
        header = self.request.text(IF_MATCH)
        if header is not None and not etag_matches(header, current):
            raise PreconditionFailed(STALE)
