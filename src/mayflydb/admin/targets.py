"""Targets: `cosmos:shop/sessions`, `mongo:app.otps` and `ydb:/local/shop/carts` are containers, `cosmos:shop`, `mongo:app` and
`ydb:/local` databases.

Odd characters are percent-encoded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol
from urllib.parse import quote, unquote

import msgspec

from mayflydb.engine.catalog import Node
from mayflydb.engine.engine import Engine
from mayflydb.engine.proposals import Change, Proposal
from mayflydb.expiry.rules import Cause
from mayflydb.model.errors import BadRequest, NotFound
from mayflydb.model.record import Record

FORMS: Final = (
    "write cosmos:database/container, mongo:database.collection or ydb:/database/table; "
    "or cosmos:database, mongo:database, ydb:/database"
)


class Targets(Protocol):
    """The reports of a front end about its containers and their records."""

    @property
    def space(self) -> str:
        """The front end's name, which its targets start with."""

    @property
    def separator(self) -> str:
        """The separator between a database and a container. No name of a database contains it, except where names are paths."""

    @property
    def databases(self) -> Sequence[str] | None:
        """Where names are paths: the databases that are known, by theirs, each behind a slash; None: names are no paths."""

    @property
    def keeps_empty(self) -> bool:
        """True: a database stays when its last container has gone."""

    def is_listed(self, database: str, container: Node | None = None) -> bool:
        """True: a database, or a container in it, holds records of users and is counted."""

    def ttl_settings(self, database: str, container: Node) -> dict[str, Any]:
        """`default_ttl`, and what else there is to say of how its records die."""

    def default_ttl(self, container: Node) -> int | None:
        """The default in force; None: off, -1: on without a default."""

    def index_names(self, container: Node) -> Mapping[int, str]:
        """The names of date indexes, by slot."""

    @property
    def causes(self) -> Mapping[Cause, str]:
        """The front end's words for causes of death, as in `expiry.explain.CAUSES`; only those that it has words for."""

    def propose(self, database: str, container: Node, change: Change) -> Proposal:
        """The effects of a change. BadRequest or NotFound for a change that cannot be made."""

    async def apply_change(self, database: str, container: Node, change: Change) -> None:
        """Make a change, under the checks that clients meet."""

    def describe_record(self, database: str, container: Node, record: Record) -> dict[str, Any]:
        """Further settings that decide when a record expires."""

    def drop_event(self, node: Node) -> bytes:
        """The last event in the history of a database or container that is dropped here, for protocols that report one."""

    def decode_identity(self, container: Node, partition: bytes, key: bytes) -> tuple[str, Any]:
        """A record's id and partition key, as its clients write them."""

    def find_identities(self, container: Node, id: str, pk: str | None) -> list[tuple[bytes, bytes]]:
        """(partition, key) where a record of this id may lie; BadRequest when the key does not fit the container."""


class ContainerTarget(msgspec.Struct, frozen=True):
    """A container with the name people know it by, that of its database, and who can read its records."""

    target: str
    database: str
    node: Node
    front_end: Targets


class TargetResolver:
    """Finds what targets name."""

    def __init__(self, engine: Engine, spaces: Sequence[Targets]) -> None:
        self._engine = engine
        self._spaces = {each.space: each for each in spaces}

    async def list_databases(self) -> list[tuple[str, Node]]:
        """(target, database) of all that people have made, protocol by protocol."""
        found: list[tuple[str, Node]] = []
        for name, targets in self._spaces.items():
            space = await self._engine.node(name)
            if space is not None:
                nodes = await self._engine.children(space.id)
                found += [(target_of(targets, node.name), node) for node in nodes if targets.is_listed(node.name)]
        return sorted(found, key=lambda pair: pair[0])

    async def list_containers(self, target: str | None = None) -> list[ContainerTarget]:
        """The containers that a target names, or all, by name; NotFound for a name that is not there."""
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
        """The one container that a target names."""
        targets, database, container = self._parse(target)
        if container is None:
            what = "a database" if targets.databases is None or database in targets.databases else "no path of a table"
            raise BadRequest(f"{target} is {what}", hint=_container_hint(targets, database))
        node = await self._node(target, targets, database, container)
        return ContainerTarget(target_of(targets, database, container), database, node, targets)

    async def resolve_names(self, space: str, database: str, container: str) -> ContainerTarget:
        """A container by its names as they are."""
        return await self.resolve_container(target_of(self._spaces[space], database, container))

    async def resolve_node(self, target: str) -> Node:
        """The database or container that a target names."""
        targets, database, container = self._parse(target)
        return await self._node(target, targets, database, *([] if container is None else [container]))

    def is_database(self, target: str) -> bool:
        """True: a target names a database."""
        return self._parse(target)[2] is None

    def keeps_empty(self, target: str) -> bool:
        """True: the database of a target stays when it is empty."""
        return self._parse(target)[0].keeps_empty

    def drop_events(self, target: str) -> Callable[[Node], bytes]:
        """The last events of the nodes that are dropped with a target."""
        return self._parse(target)[0].drop_event

    async def _node(self, target: str, targets: Targets, *names: str) -> Node:
        node = await self._engine.node(targets.space, *names)
        if node is None:
            raise NotFound(f"there is no {target}", hint="mayfly ttl list names all targets")
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
    """(database, container if any); None: it names none."""
    database, separator, container = path.partition(targets.separator)
    if not database or "/" in container or bool(separator) != bool(container):
        return None
    return database, container if separator else None


def _path_names(databases: Sequence[str], path: str) -> tuple[str, str | None] | None:
    """The same where names are paths; one that lies in no known database has its first part for one."""
    parts = [part for part in path.split("/") if part]
    if not parts:
        return None
    whole = "/" + "/".join(parts)
    known = [each for each in databases if f"{whole}/".startswith(f"{each}/")]
    database = max(known, key=len, default=f"/{parts[0]}")
    return database, whole[len(database) + 1 :] or None


def _container_hint(targets: Targets, database: str) -> str:
    """The form of a container's name, for a message about a name that is a database's, or a path below no database."""
    known = targets.databases
    if known is None:
        return f"name a container: {target_of(targets, database)}{targets.separator}CONTAINER"
    if database in known:
        return f"name a table: {target_of(targets, database, 'TABLE')}"
    return f"paths begin with a database: {target_of(targets, known[0], database.lstrip('/'))}"


def _quote(name: str) -> str:
    return quote(name, safe="!$&'()*+,;=@", errors="surrogatepass")


def target_of(targets: Targets, *names: str) -> str:
    """The target of a database (one name) or a container (two)."""
    if targets.databases is not None:
        return f"{targets.space}:{targets.separator.join(_quote(name).replace('%2F', '/') for name in names)}"
    return f"{targets.space}:{targets.separator.join(map(_quote, names))}"
