"""Targets: `cosmos:shop/sessions` is a container, `cosmos:shop` a database. Odd characters are percent-encoded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol
from urllib.parse import quote, unquote

import msgspec

from mayflydb.engine.catalog import Node
from mayflydb.engine.engine import Engine
from mayflydb.expiry.rules import Rule
from mayflydb.model.errors import BadRequest, NotFound


class Targets(Protocol):
    """What a front end tells about its containers and their records."""

    @property
    def space(self) -> str:
        """The front end's name, which its targets start with."""

    def rules(self, default_ttl: int | None) -> tuple[Rule, ...]:
        """The rules that a default stands for; None: off, -1: on without a default."""

    def default_ttl(self, container: Node) -> int | None:
        """The default in force."""

    def identity(self, container: Node, partition: bytes, key: bytes) -> tuple[str, Any]:
        """A record's id and partition key, as its clients write them."""

    def places(self, container: Node, id: str, pk: str | None) -> list[tuple[bytes, bytes]]:
        """(partition, key) where a record of this id may lie; BadRequest when the key does not fit the container."""


class Place(msgspec.Struct, frozen=True):
    """A container with the name people know it by, and who can read its records."""

    target: str
    node: Node
    targets: Targets


class Directory:
    """Finds what targets name."""

    def __init__(self, engine: Engine, spaces: Sequence[Targets]) -> None:
        self._engine = engine
        self._spaces = {each.space: each for each in spaces}

    async def databases(self) -> list[tuple[str, Node]]:
        """(target, database) of all, protocol by protocol."""
        found: list[tuple[str, Node]] = []
        for name in self._spaces:
            space = await self._engine.node(name)
            if space is not None:
                found += [(target_of(name, node.name), node) for node in await self._engine.children(space.id)]
        return sorted(found, key=lambda pair: pair[0])

    async def containers(self, target: str | None = None) -> list[Place]:
        """The containers that a target names, or all, by name; NotFound for a name that is not there."""
        if target is None:
            databases = await self.databases()
        else:
            space, database, container = _parse(target)
            if container is not None:
                return [await self.container(target)]
            databases = [(target_of(space, database), await self._node(target, space, database))]
        found: list[Place] = []
        for name, parent in databases:
            targets = self._spaces[name.partition(":")[0]]
            children = await self._engine.children(parent.id)
            found += [Place(f"{name}/{_quoted(child.name)}", child, targets) for child in children]
        return sorted(found, key=lambda place: place.target)

    async def container(self, target: str) -> Place:
        """The one container that a target names."""
        space, database, container = _parse(target)
        if container is None:
            raise BadRequest(f"{target} is a database", hint=f"name a container: {target}/CONTAINER")
        node = await self._node(target, space, database, container)
        return Place(target_of(space, database, container), node, self._spaces[space])

    async def node(self, target: str) -> Node:
        """The database or container that a target names."""
        space, database, container = _parse(target)
        return await self._node(target, space, database, *([] if container is None else [container]))

    async def _node(self, target: str, space: str, *names: str) -> Node:
        if space not in self._spaces:
            raise BadRequest(
                f"{target!r} names no protocol that is served", hint=f"targets start with {self._served()}"
            )
        node = await self._engine.node(space, *names)
        if node is None:
            raise NotFound(f"there is no {target}", hint="GET ttl lists all targets")
        return node

    def _served(self) -> str:
        return " or ".join(f"{name}:" for name in self._spaces)


def _parse(target: str) -> tuple[str, str, str | None]:
    space, colon, path = target.partition(":")
    database, slash, container = path.partition("/")
    if not (space and colon and database) or "/" in container or bool(slash) != bool(container):
        raise BadRequest(f"{target!r} is not a target", hint="write cosmos:database/container, or cosmos:database")
    return space, unquote(database), unquote(container) if slash else None


def _quoted(name: str) -> str:
    return quote(name, safe="!$&'()*+,;=@", errors="surrogatepass")


def target_of(space: str, *names: str) -> str:
    """The target of a database (one name) or a container (two)."""
    return f"{space}:{'/'.join(map(_quoted, names))}"
