"""Archives: places that get the records of containers when these expire. Lists, adds, removes and tests them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from mayflydb.admin import formats
from mayflydb.admin.archive_lines import check_format
from mayflydb.admin.archive_names import TEST_NAME, parse_url
from mayflydb.admin.archive_places import ArchiveSites, check_place
from mayflydb.admin.archive_writer import Archive, ArchiveWriter, Written, archive_of
from mayflydb.admin.lifecycle_requests import AddArchive
from mayflydb.admin.targets import TargetResolver
from mayflydb.engine.catalog import Definition, Node
from mayflydb.engine.engine import Engine
from mayflydb.engine.lifecycle.archive_backlog import Backlog, Home
from mayflydb.engine.lifecycle.archive_ledger import SPACE
from mayflydb.model.errors import Conflict

MOST_ARCHIVES: Final = 50


class Archives:
    """The operations on archives; `writer` writes their files."""

    def __init__(
        self, engine: Engine, targets: TargetResolver, sites: ArchiveSites, draw: Callable[[int], bytes]
    ) -> None:
        """`sites`: the places that the settings allow. `draw`: random bytes."""
        self._engine = engine
        self._targets = targets
        self._sites = sites
        self._draw = draw
        self._backlog = engine.archive_backlog
        self.writer = ArchiveWriter(engine, targets, sites, draw(4).hex())

    async def list_all(self) -> dict[str, Any]:
        """Return all archives, what they have written, and what waits for them."""
        waiting = [(home, await self._backlog.measure(home)) for home in await self._backlog.homes()]
        users: dict[str, list[str]] = {}
        for container in await self._targets.list_containers():
            name = container.node.definition.lifecycle.archive
            if name is not None:
                users.setdefault(name, []).append(container.target)
        rows = [self._describe(node, users.get(node.name, []), waiting) for node in await self.writer.nodes()]
        return {"now": formats.time(await self._engine.now()), "archives": rows}

    def _describe(self, node: Node, users: list[str], waiting: list[tuple[Home, Backlog]]) -> dict[str, Any]:
        archive, progress = archive_of(node), self.writer.progress(node.name)
        own = [(home, each) for home, each in waiting if each.archive == node.name]
        return {
            "name": node.name,
            "url": archive.url,
            "format": archive.format,
            "every": archive.every,
            "targets": users,
            "waiting": sum(each.waiting for _, each in own),
            "stopped": [self.writer.target_of(home) for home, each in own if each.full],
            "files": progress.files,
            "records": progress.records,
            "failed": progress.failed,
            "last_file": progress.last_file or None,
            "error": progress.error or None,
        }

    async def add(self, wanted: AddArchive) -> dict[str, Any]:
        """Add an archive, which containers name in their lifecycle.

        Errors: BadRequest for a place that the settings do not allow; Unsupported; Conflict if the name is taken, or if there are
        too many.
        """
        check_place(parse_url(wanted.url), self._sites)
        check_format(wanted.format)
        nodes = await self.writer.nodes()
        if len(nodes) >= MOST_ARCHIVES:
            raise Conflict(f"there are {MOST_ARCHIVES} archives, which is the most")
        if any(node.name == wanted.name for node in nodes):
            raise Conflict(f"there is an archive {wanted.name} already")
        now = await self._engine.now()
        archive = Archive(wanted.url, wanted.format, wanted.seconds(), self._draw(4).hex())
        home = await self._engine.definitions.space(SPACE, now)
        await self._engine.definitions.create(home.id, wanted.name, Definition(msgspec.to_builtins(archive), now))
        self.writer.wake()
        return {"now": formats.time(now), "name": wanted.name, "url": archive.url, "format": archive.format}

    async def remove(self, name: str, discard: bool) -> dict[str, Any]:
        """Remove an archive. Its files stay. `discard`: what waits for it is not archived.

        Errors: NotFound; Conflict while a container names it, or records wait for it.
        """
        node = await self.writer.find(name)
        for container in await self._targets.list_containers():
            if container.node.definition.lifecycle.archive == name:
                raise Conflict(
                    f"{container.target} archives there", hint=f"mayfly lifecycle set {container.target} --archive off"
                )
        if discard:
            await self.writer.discard(name)
        elif await self._count_waiting(name):
            raise Conflict(
                f"records wait for the archive {name}",
                hint=f"mayfly archives flush {name}; or remove it with --discard",
            )
        await self._engine.definitions.drop(node.id)
        return {"now": formats.time(await self._engine.now()), "name": name}

    async def test(self, name: str) -> dict[str, Any]:
        """Write a small file and return the reason why that failed, if it did. NotFound."""
        node = await self.writer.find(name)
        error = await self.writer.write(
            archive_of(node), TEST_NAME, b"Written by `mayfly archives test`.\n", "text/plain"
        )
        return {"now": formats.time(await self._engine.now()), "name": name, "accepted": not error, "error": error}

    async def flush(self, name: str | None) -> dict[str, Any]:
        """Write what waits now for an archive, or for all, and return when it is written. NotFound."""
        if name is not None:
            await self.writer.find(name)
        written, error = Written(), ""
        for home in await self._backlog.homes():
            backlog = await self._backlog.measure(home)
            if backlog.waiting and (name is None or backlog.archive == name):
                found, failure = await self.writer.write_waiting(home)
                written, error = written.plus(found), error or failure
        return {
            "now": formats.time(await self._engine.now()),
            "files": written.files,
            "records": written.records,
            "waiting": await self._count_waiting(name),
            "error": error or None,
        }

    async def _count_waiting(self, name: str | None) -> int:
        waiting = [await self._backlog.measure(home) for home in await self._backlog.homes()]
        return sum(each.waiting for each in waiting if name is None or each.archive == name)
