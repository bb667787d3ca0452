"""A request as commands see it, and the services that they use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from mayflydb.engine.budgets import RequestGrant
from mayflydb.engine.catalog import Node
from mayflydb.engine.commands import ANY_VERSION
from mayflydb.engine.engine import Engine
from mayflydb.evaluation.statement import Statement
from mayflydb.evaluation.stops import StopReason
from mayflydb.frontends.cosmos import consistency, session
from mayflydb.frontends.cosmos.access import IndexDemand
from mayflydb.frontends.cosmos.auth import Keys
from mayflydb.frontends.cosmos.direct import staleness
from mayflydb.frontends.cosmos.entra.policy import PolicyFile
from mayflydb.frontends.cosmos.headers import (
    COLLECTION_RID,
    IF_MATCH,
    INTENDED_RID,
    PARTITION_KEY,
    SESSION_TOKEN,
    VERSION,
)
from mayflydb.frontends.cosmos.paths import Target
from mayflydb.frontends.cosmos.resources import RidKind, etag_matches, parse_etag, parse_rid
from mayflydb.frontends.cosmos.scripting.sandbox import ScriptLimits
from mayflydb.frontends.cosmos.scripting.threads import ScriptThreads
from mayflydb.frontends.cosmos.values import ItemLimits, parse_json
from mayflydb.frontends.cosmos.views import ContainerView
from mayflydb.frontends.cosmos.wire import Request
from mayflydb.model.errors import BadRequest, NotFound, OwnerNotFound, PreconditionFailed
from mayflydb.model.instant import Instant
from mayflydb.model.record import Record

SPACE = "cosmos"
USERS = "cosmos users"
"""The space of the users, which belong to databases."""

SCRIPTS = "cosmos scripts"
"""The space of the scripts, which belong to containers."""

NOT_FOUND = "Resource Not Found. Learn more: https://aka.ms/cosmosdb-tsg-not-found"
PRECONDITION_FAILED = "Operation cannot be performed because one of the specified precondition is not met."
MIGRATION_VERSION: Final = b"2018-12-31"
"""The version of the protocol from which on every container has a partition key.

https://learn.microsoft.com/rest/api/cosmos-db/#supported-rest-api-versions
"""

NO_LSN = 0
"""An lsn that no record has. It stands for an etag of another container."""


def lsn_of_etag(etag: str, container: int) -> int:
    """Return the lsn that an etag names; ANY_VERSION for `*`, NO_LSN for an etag that is not of this container."""
    if etag.strip() == "*":
        return ANY_VERSION
    parsed = parse_etag(etag)
    # An etag holds 32 bits of the container's id.
    return NO_LSN if parsed is None or parsed.container != container & 0xFFFFFFFF else parsed.lsn


class Account(msgspec.Struct, frozen=True):
    """The settings of the account.

    `secret`: signs continuation tokens. `merges_queries`: Mayfly runs a query over all partitions also for a client without a
    plan, instead of asking the client to merge.
    `serverless`: nothing has throughput. `lenient`: queries that the service refuses are run where Mayfly can.
    `consistency_level`: the default, of `consistency.LEVELS`.
    `index_after`: items that queries read in vain before an index is built (0: none is built).
    `resolve_address`: maps the address that a client used to the advertised one; both are `scheme://host:port`.
    `entra_policy`: the issuers and roles of tokens; None: only the emulator's tokens are accepted.
    """

    keys: Keys
    secret: bytes
    merges_queries: bool = False
    check_date: bool = False
    serverless: bool = False
    lenient: bool = False
    consistency_level: str = consistency.DEFAULT
    limits: ItemLimits = ItemLimits()
    index_after: int = 10_000
    resolve_address: Callable[[str], str] = str
    scripts: ScriptLimits = ScriptLimits()
    entra_policy: PolicyFile | None = None

    def __repr__(self) -> str:
        return f"Account(keys={self.keys!r})"


class NameResolver:
    """Resolves names and rids to databases and containers. Container views are cached until the catalogue changes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._version = -1
        self._views: dict[tuple[str, str], ContainerView] = {}

    async def get_database(self, name: str) -> Node:
        """Return the database of this name or rid; NotFound if there is none."""
        node = await self._engine.node(SPACE, name)
        if node is None:
            rid = parse_rid(name)
            if rid is not None and rid.kind is RidKind.DATABASE:
                node = await self._find_database_by_id(rid.database)
        if node is None:
            raise NotFound(NOT_FOUND)
        return node

    async def get_container(self, database: str, name: str) -> ContainerView:
        """Return the container of this name or rid; NotFound if there is none, OwnerNotFound without its database."""
        while (view := self.cached_container(database, name)) is None:
            version = self._version
            parent, node = await self._find_with_database(database, name)
            if self._engine.catalog_version == version:
                # The catalogue changed during the lookup otherwise: its result may be stale, so look again.
                budgets = self._engine.budgets
                budget = None if budgets is None else budgets.budget(node, parent)
                self._views[database, name] = ContainerView(node, parent.name, budget)
        return view

    def cached_container(self, database: str, name: str) -> ContainerView | None:
        """Return the cached view of a container, if it is of the current catalogue."""
        version = self._engine.catalog_version
        if version != self._version:
            self._views.clear()
            self._version = version
        return self._views.get((database, name))

    async def _find_with_database(self, database: str, name: str) -> tuple[Node, Node]:
        try:
            parent = await self.get_database(database)
        except NotFound:
            raise OwnerNotFound(NOT_FOUND) from None
        node = await self._engine.node(SPACE, parent.name, name)
        if node is None:
            rid = parse_rid(name)
            if rid is not None and rid.kind is RidKind.CONTAINER and rid.database == parent.id:
                node = await self._find_by_id(rid.owner)
        if node is None or node.parent != parent.id:
            raise NotFound(NOT_FOUND)
        return parent, node

    async def _find_database_by_id(self, id: int) -> Node | None:
        # Ids number all nodes of the catalogue. Only a child of this space is a database of this front end.
        node, space = await self._find_by_id(id), await self._engine.node(SPACE)
        return node if node is not None and space is not None and node.parent == space.id else None

    async def _find_by_id(self, id: int) -> Node | None:
        return await self._engine.node_by_id(id)


class ReadCounts(msgspec.Struct):
    """The records that a query has read so far, and the bytes of their values."""

    records: int = 0
    size: int = 0

    def add(self, record: Record) -> None:
        """Count a record."""
        self.records += 1
        self.size += len(record.value)

    def add_all(self, records: Sequence[Record]) -> None:
        """Count many records."""
        self.records += len(records)
        self.size += sum([len(record.value) for record in records])


NO_READS: Final = ReadCounts()


class CosmosCall:
    """An authorized request, the services for its command, and the one instant at which it is answered.

    `view`: the container of the request, once it is resolved; `spending`: the grant of the container's budget.
    `reads`: what a query has read so far. `check_operation`: raises Forbidden if the client may not do operations of a type in a
    batch; None: it may do all.
    """

    __slots__ = (
        "account", "check_operation", "engine", "index_demand", "now", "reads", "request", "resolver", "spending", "target",
        "threads", "view",
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
        self.spending: RequestGrant | None = None
        self.reads = NO_READS
        self.check_operation: Callable[[str], None] | None = None

    def statement(self) -> Statement:
        """Return the evaluation of this request, which ends when the client leaves. Its steps are taken to be cheap."""
        arrived, evaluators = self.request.arrived, self.engine.evaluators
        statement = Statement(evaluators, id(arrived.peer), evaluators.deadline(), cheap=True)
        arrived.on_leave = partial(statement.stop, StopReason.ABANDONED)
        return statement

    @property
    def is_before_migration(self) -> bool:
        """True for a version of the protocol in which containers need no partition key."""
        return self.request.headers.get(VERSION, MIGRATION_VERSION) < MIGRATION_VERSION

    async def get_database(self) -> Node:
        """Return the database that the path names."""
        return await self.resolver.get_database(self.target.database or "")

    async def get_owning_database(self) -> Node:
        """Return the database whose children the path names; OwnerNotFound if there is none."""
        try:
            return await self.get_database()
        except NotFound as missing:
            raise OwnerNotFound(missing.message) from None

    async def get_container(self) -> ContainerView:
        """Return the container that the path names, for commands about the container itself."""
        return await self.resolver.get_container(self.target.database or "", self.target.container or "")

    async def get_owning_container(self) -> ContainerView:
        """Return the container whose children the path names.

        OwnerNotFound if there is none; BadRequest (1024) if the client means an earlier container of this name.
        """
        view = self.find_owning_container()
        if view is not None:
            return view
        try:
            view = await self.get_container()
        except OwnerNotFound:
            raise
        except NotFound as missing:
            raise OwnerNotFound(missing.message) from None
        return self._use(view)

    def find_owning_container(self) -> ContainerView | None:
        """Return the container as `get_owning_container` does, if its view is cached; else None."""
        view = self.resolver.cached_container(self.target.database or "", self.target.container or "")
        return None if view is None else self._use(view)

    def _use(self, view: ContainerView) -> ContainerView:
        intended = self.request.headers.get(INTENDED_RID)
        if intended is not None and intended.decode("latin-1") != view.links.rid:
            raise BadRequest(
                "Collection rid does not match: the container was deleted and created again.", substatus=1024
            )
        if COLLECTION_RID in self.request.headers:
            staleness.check_address(view, self.request.headers)
        if view.key.is_system and self.is_before_migration and PARTITION_KEY not in self.request.headers:
            self.request.headers[PARTITION_KEY] = b"[]"
        self.view = view
        return view

    def known_session_lsn(self, view: ContainerView, seen: int) -> int | None:
        """Return an lsn that the container has reached, if it satisfies the session token. `seen`: the lsn of a record that was
        read.
        """
        # A record that was read proves that the container has reached its lsn. So most point reads need not ask for the
        # newest one.
        reached = view.known_lsn
        if seen > reached:
            reached = view.known_lsn = seen
        token = self.request.headers.get(SESSION_TOKEN)
        if token and session.demanded_lsn(session.parse(token.decode("latin-1")), view.id) > reached:
            return None
        return reached

    async def read_session_lsn(self, view: ContainerView) -> int:
        """Return the last lsn of the container; NotFound (1002) if it does not satisfy the session token."""
        lsn = view.known_lsn = await self.engine.lsn(view.id)
        session.check((self.request.headers.get(SESSION_TOKEN) or b"").decode("latin-1"), view.id, lsn)
        return lsn

    def parse_body(self) -> Any:
        """Parse the body as strict JSON."""
        limits = self.account.limits
        return parse_json(self.request.body, limits, limits.item_bytes)[0]

    def expected_lsn(self, container: int) -> int | None:
        """Return the lsn that a write demands in `If-Match`, or None."""
        header = self.request.headers.get(IF_MATCH)
        return None if header is None else lsn_of_etag(header.decode("latin-1"), container)

    def check_if_match(self, current: str) -> None:
        """Raise PreconditionFailed if `If-Match` names another version of a resource that is not an item."""
        header = self.request.text(IF_MATCH)
        if header is not None and not etag_matches(header, current):
            raise PreconditionFailed(PRECONDITION_FAILED)
