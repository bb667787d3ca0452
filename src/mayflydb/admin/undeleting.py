"""Undeletes on demand: of one record, or of all that are selected in a container."""

from __future__ import annotations

from typing import Any, Final

from mayflydb.admin import formats, lifecycle_requests, requests
from mayflydb.admin.targets import ContainerTarget, TargetResolver
from mayflydb.engine.engine import Engine
from mayflydb.expiry.undelete import Undelete
from mayflydb.model.errors import NotFound

PATIENCE_SECONDS: Final = 1.0
"""An answer waits so long for the end of an undelete."""


class Undeleting:
    """Undeletes expired records, and tells how far that is."""

    def __init__(self, engine: Engine, targets: TargetResolver) -> None:
        self._engine = engine
        self._targets = targets

    async def undelete(self, wanted: lifecycle_requests.Undelete) -> dict[str, Any]:
        """Undelete the selected records of a container. After a second the answer comes, and the undelete goes on.

        Errors: NotFound, Conflict, BadRequest, as `Undeletes` raises them.
        """
        container = await self._targets.resolve_container(wanted.target)
        if wanted.id is not None:
            await self._undelete_record(container, wanted)
            return await self._describe(container, 1, True)
        now = await self._engine.now()
        since = None if wanted.since is None else requests.parse_moment(wanted.since)
        to = None if wanted.to is None else requests.parse_moment(wanted.to)
        selection = Undelete(now, since, to, wanted.causes, wanted.seconds())
        await self._engine.undeletes.begin(container.node.id, selection)
        return await self.show(wanted.target)

    async def show(self, target: str) -> dict[str, Any]:
        """Return how far the undelete of a container is, at its end or after a second. `undeleted`: since the process began."""
        container = await self._targets.resolve_container(target)
        await self._engine.undeletes.wait(container.node.id, PATIENCE_SECONDS)
        container = await self._targets.resolve_container(target)
        known = self._engine.undeletes.progress(container.node.id)
        undeleted = 0 if known is None else known.undeleted
        return await self._describe(container, undeleted, container.node.definition.undelete is None)

    async def _undelete_record(self, container: ContainerTarget, wanted: lifecycle_requests.Undelete) -> None:
        id, node = wanted.id or "", container.node
        for identity in container.front_end.find_identities(node, id, wanted.pk):
            if await self._engine.get_stored(node.id, *identity) is not None:
                await self._engine.undeletes.undelete_record(node.id, identity, wanted.seconds())
                return
        raise NotFound(f"there is no such record in {container.target}", hint="purged records are not kept")

    async def _describe(self, container: ContainerTarget, undeleted: int, is_done: bool) -> dict[str, Any]:
        now = await self._engine.now()
        return {"now": formats.time(now), "target": container.target, "undeleted": undeleted, "done": is_done}
