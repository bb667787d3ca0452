"""Targets, the names of containers and databases over all protocols.

`cosmos:shop/sessions`, `mongo:app.otps` and `ydb:/local/shop/carts` are containers, `cosmos:shop`, `mongo:app` and `ydb:/local`
databases. Characters that would end a name are percent-encoded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol
from urllib.parse import quote, unquote

import msgspec

from mayflydb.engine.catalog import Node
from mayflydb.engine.engine import Engine
from mayflydb.engine.lifecycle.references import References
from mayflydb.engine.lifecycle.rolling_up import RollUpPlan
from mayflydb.engine.proposals import Anchors, Change, Proposal
from mayflydb.engine.publishing import Publisher
from mayflydb.expiry.roll_up import RollUp
from mayflydb.expiry.rules import Cause
from mayflydb.model.errors import BadRequest, NotFound
from mayflydb.model.hints import Hint
from mayflydb.model.instant import Instant
from mayflydb.model.record import Record

FORMS: Final = (
    "write cosmos:database/container, mongo:database.collection or ydb:/database/table; "
    "or cosmos:database, mongo:database, ydb:/database"
)


class Targets(Protocol):
    """A front end's part of the admin API: its containers and records in the terms of its protocol."""

    @property
    def space(self) -> str:
        """The front end's name: its node in the catalogue, and the beginning of its targets."""

    @property
    def separator(self) -> str:
        """The separator between a database and a container. No name of a database contains it, except where names are paths."""

    @property
    def databases(self) -> Sequence[str] | None:
        """The paths of the served databases, each with a leading slash; None: names of this front end are no paths."""

    @property
    def keeps_empty(self) -> bool:
        """True: a database stays when its last container is dropped."""

    def is_listed(self, database: str, container: Node | None = None) -> bool:
        """Return whether a database, or a container in it, holds users' records and is listed."""

    def check_lifecycle(self, container: Node) -> None:
        """Raise Unsupported if a container takes no lifecycle settings, holds, imports and exports."""

    def ttl_settings(self, database: str, container: Node) -> dict[str, Any]:
        """Return `default_ttl` and the front end's other TTL settings, such as `indexes`."""

    def default_ttl(self, container: Node) -> int | None:
        """Return the default in seconds; None: off, -1: on without a default."""

    def index_names(self, container: Node) -> Mapping[int, str]:
        """Return the names of date indexes, by date slot."""

    @property
    def references(self) -> References:
        """The references between records of this front end."""

    @property
    def publisher(self) -> Callable[[], Publisher] | None:
        """Returns what writes of the changes of records; None: no container of this front end has a publisher."""

    @property
    def causes(self) -> Mapping[Cause, str]:
        """The front end's sentences for causes of expiry. Those of `expiry.explain.CAUSES` stand in for the missing ones."""

    def anchors(self, database: str, container: Node) -> Anchors:
        """Return the instants from which a life could count in a container."""

    def find_dates(self, container: Node, record: Record) -> Mapping[str, Instant]:
        """Return the dates of a record from which its life could count, by field; none for a container of another front end."""

    def propose(self, database: str, container: Node, change: Change) -> Proposal:
        """Return the rules that a change would make. BadRequest or NotFound for a change that cannot be made."""

    async def apply_change(self, database: str, container: Node, change: Change) -> None:
        """Make a change, with all checks of a client's request."""

    def shorten_life(self, container: Node, record: Mapping[str, Any], now: Instant) -> Mapping[str, Any] | None:
        """Return a record of another server with the rest of its life, for a write at `now`; None: its life has ended.

        BadRequest if the record does not tell when it was written, or needs no such change.
        """

    def describe_record(self, database: str, container: Node, record: Record) -> dict[str, Any]:
        """Return the facts from which a record's deadline follows, in the protocol's terms."""

    def decode_record(self, container: Node, record: Record) -> Mapping[str, Any] | msgspec.Raw:
        """Return the content of a record as JSON, without what the service adds on the way out."""

    def record_reader(self, container: Node) -> Callable[[Record], Any]:
        """Return the function that decodes a stored record for the filters of holds."""

    def compile_condition(self, container: Node, text: str) -> Callable[[Any], bool]:
        """Compile the filter of a hold. BadRequest for a wrong text; Unsupported for what no filter has, by name."""

    def plan_roll_up(self, roll_up: RollUp, container: Node, into: Node) -> RollUpPlan:
        """Return the plan of a roll-up of a container into another. BadRequest, Unsupported: they do not fit together."""

    def drop_event(self, node: Node) -> bytes:
        """Return the event that ends the history of a dropped database or container; empty for protocols without one."""

    def decode_identity(self, container: Node, partition: bytes, key: bytes) -> tuple[str, Any]:
        """Return a record's id and partition key, as its clients write them."""

    def find_identities(self, container: Node, id: str, pk: str | None) -> list[tuple[bytes, bytes]]:
        """Return each (partition, key) that a record of this id may have: text may mean a string or a number.

        BadRequest if `pk` does not fit the container.
        """


class ContainerTarget(msgspec.Struct, frozen=True):
    """A container: its target, the name of its database, its catalogue node and its front end."""

    target: str
    database: str
    node: Node
    front_end: Targets


class TargetResolver:
    """Finds the containers and databases that targets name."""

    def __init__(self, engine: Engine, spaces: Sequence[Targets]) -> None:
        self._engine = engine
        self._spaces = {each.space: each for each in spaces}
        engine.reaper.roll_ups.planners = {each.space: each.plan_roll_up for each in spaces}

    def find_dates(self, container: Node, record: Record) -> Mapping[str, Instant]:
        """Return the dates of a record of any front end from which its life could count, by field."""
        for front_end in self._spaces.values():
            if found := front_end.find_dates(container, record):
                return found
        return {}

    async def list_databases(self) -> list[tuple[str, Node]]:
        """Return (target, node) of all databases with users' records, by target."""
        found: list[tuple[str, Node]] = []
        for name, targets in self._spaces.items():
            space = await self._engine.node(name)
            if space is not None:
                nodes = await self._engine.children(space.id)
                found += [(target_of(targets, node.name), node) for node in nodes if targets.is_listed(node.name)]
        return sorted(found, key=lambda pair: pair[0])

    async def list_containers(self, target: str | None = None) -> list[ContainerTarget]:
        """Return the containers of a target, or all, by target. NotFound if the target does not exist."""
        if target is None:
            databases = await self.list_databases()
        else:
            targets, database, container = self._parse(target)
            if container is not None:
                return [await self.resolve_container(target)]
            databases = [(target_of(targets, database), await self._node(target, targets, database))]
        found: list[ContainerTarget] = []
        for name, parent in databases:
            targets = self._spaces[name.partition(":")[0]]
            children = await self._engine.children(parent.id)
            found += [
                ContainerTarget(target_of(targets, parent.name, child.name), parent.name, child, targets)
                for child in children
                if targets.is_listed(parent.name, child)
            ]
        return sorted(found, key=lambda container: container.target)

    async def resolve_container(self, target: str) -> ContainerTarget:
        """Return the container that a target names. BadRequest for the target of a database, NotFound if it does not exist."""
        targets, database, container = self._parse(target)
        if container is None:
            what = "a database" if targets.databases is None or database in targets.databases else "no path of a table"
            raise BadRequest(f"{target} is {what}", hint=_container_hint(targets, database))
        node = await self._node(target, targets, database, container)
        return ContainerTarget(target_of(targets, database, container), database, node, targets)

    async def resolve_names(self, space: str, database: str, container: str) -> ContainerTarget:
        """Return a container by its names, not encoded."""
        return await self.resolve_container(target_of(self._spaces[space], database, container))

    async def resolve_node(self, target: str) -> Node:
        """Return the node of the database or container that a target names."""
        targets, database, container = self._parse(target)
        return await self._node(target, targets, database, *([] if container is None else [container]))

    def name(self, space: str, *names: str) -> str:
        """Return the target of a database or container, there or not, by its names, not encoded."""
        return target_of(self._spaces[space], *names)

    def former_container(self, space: str, database: str, target: str, node: Node) -> ContainerTarget:
        """Return a container by what is known of it, whether it is there under that name or not."""
        return ContainerTarget(target, database, node, self._spaces[space])

    def first_database(self, space: str) -> str:
        """Return the path of the first served database of a front end whose names are paths."""
        return (self._spaces[space].databases or ("",))[0]

    def is_database(self, target: str) -> bool:
        """Return whether a target names a database."""
        return self._parse(target)[2] is None

    def keeps_empty(self, target: str) -> bool:
        """Return whether the database of a target stays when it is empty."""
        return self._parse(target)[0].keeps_empty

    def drop_events(self, target: str) -> Callable[[Node], bytes]:
        """Return the function that gives the last event of each node that is dropped with a target."""
        return self._parse(target)[0].drop_event

    async def _node(self, target: str, targets: Targets, *names: str) -> Node:
        node = await self._engine.node(targets.space, *names)
        if node is None:
            raise NotFound(f"there is no {target}", hint=Hint("no-target"))
        return node

    def _parse(self, target: str) -> tuple[Targets, str, str | None]:
        space, _, path = target.partition(":")
        if not path:
            raise BadRequest(f"{target!r} is not a target", hint=FORMS)
        targets = self._spaces.get(space)
        if targets is None:
            served = " or ".join(f"{name}:" for name in self._spaces)
            raise BadRequest(f"{target!r} names no protocol that is served", hint=f"targets start with {served}")
        names = _path_names(targets.databases, path) if targets.databases is not None else _names(targets, path)
        if names is None:
            raise BadRequest(f"{target!r} is not a target", hint=FORMS)
        database, container = names
        return targets, unquote(database), None if container is None else unquote(container)


def _names(targets: Targets, path: str) -> tuple[str, str | None] | None:
    """Split into (database, container or None). None: the text is no target."""
    database, separator, container = path.partition(targets.separator)
    if not database or "/" in container or bool(separator) != bool(container):
        return None
    return database, container if separator else None


def _path_names(databases: Sequence[str], path: str) -> tuple[str, str | None] | None:
    """Split a path in the same way. The first part of a path outside of all served databases stands for its database."""
    parts = [part for part in path.split("/") if part]
    if not parts:
        return None
    whole = "/" + "/".join(parts)
    known = [each for each in databases if f"{whole}/".startswith(f"{each}/")]
    # The longest: of /local and /local/shop, the second holds /local/shop/carts.
    database = max(known, key=len, default=f"/{parts[0]}")
    return database, whole[len(database) + 1 :] or None


def _container_hint(targets: Targets, database: str) -> str:
    """Return a hint for a target that should name a container and names a database, or a path outside of all databases."""
    known = targets.databases
    if known is None:
        return f"name a container: {target_of(targets, database)}{targets.separator}CONTAINER"
    if database in known:
        return f"name a table: {target_of(targets, database, 'TABLE')}"
    return f"paths begin with a database: {target_of(targets, known[0], database.lstrip('/'))}"


def _quote(name: str) -> str:
    # `:` and `/` are no safe characters here: they end the parts of a target.
    return quote(name, safe="!$&'()*+,;=@", errors="surrogatepass")


def target_of(targets: Targets, *names: str) -> str:
    """Return the target of a database (one name) or a container (two)."""
    if targets.databases is not None:
        return f"{targets.space}:{targets.separator.join(_quote(name).replace('%2F', '/') for name in names)}"
    return f"{targets.space}:{targets.separator.join(map(_quote, names))}"
