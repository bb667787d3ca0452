"""Lifecycle settings of containers, and purges that the guard holds."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import msgspec
from msgspec import UNSET

from mayflydb.admin import formats, requests
from mayflydb.admin.targets import ContainerTarget, TargetResolver
from mayflydb.engine.catalog import Definition
from mayflydb.engine.engine import Engine
from mayflydb.engine.guard import token_of
from mayflydb.engine.segments import switch
from mayflydb.expiry.guard import HeldPurge, Reason

REASONS: Final[dict[Reason, str]] = {
    "rule": "A change of the TTL settings expired them at once.",
    "clock": "The clock stepped over their deadlines.",
    "writes": "They were written with dates of the past.",
}


class Lifecycles:
    """Shows and changes lifecycle settings; lists and confirms held purges."""

    def __init__(self, engine: Engine, targets: TargetResolver) -> None:
        self._engine = engine
        self._targets = targets
        self._guard = engine.reaper.guard
        self._shredding = engine.reaper.shredding

    async def show(self, target: str | None) -> dict[str, Any]:
        """Return the lifecycle settings of containers."""
        now = await self._engine.now()
        return {
            "now": formats.time(now),
            "targets": [await self._describe(each) for each in await self._targets.list_containers(target)],
        }

    async def set(self, wanted: requests.SetLifecycle) -> dict[str, Any]:
        """Change the settings that are given, of one container. Its TTL settings and its etag stay."""
        container = await self._targets.resolve_container(wanted.target)
        given = {name: value for name, value in wanted.settings().items() if value is not UNSET}

        def change(definition: Definition) -> Definition:
            return msgspec.structs.replace(definition, lifecycle=msgspec.structs.replace(definition.lifecycle, **given))

        if given.get("shred", "off") != "off":
            self._shredding.check()
        now = await self._engine.now()

        await self._engine.definitions.adjust(container.node.id, change, partial(switch, now))
        return {"now": formats.time(now), **await self._describe(await self._targets.resolve_container(wanted.target))}

    async def list_held(self, target: str | None = None) -> dict[str, Any]:
        """Return the purges that the guard holds."""
        now = await self._engine.now()
        found = await self._targets.list_containers(target)
        held = [_describe_held(each, purge) for each in found if (purge := each.node.definition.held) is not None]
        return {"now": formats.time(now), "held": held}

    async def confirm(self, target: str, token: str) -> dict[str, Any]:
        """Release a held purge. Conflict if there is none, or another one than the token names."""
        container = await self._targets.resolve_container(target)
        held = await self._guard.confirm(container.node.id, token)
        now = await self._engine.now()
        return {"now": formats.time(now), "target": container.target, "reason": held.reason, "due": held.due}

    async def _describe(self, container: ContainerTarget) -> dict[str, Any]:
        settings = container.node.definition.lifecycle
        state = await self._shredding.state(container.node.id)
        return {
            "target": container.target,
            "guard": msgspec.to_builtins(settings.guard),
            "grace": settings.grace,
            "touch": settings.touch,
            "shred": settings.shred,
            "keys": 0 if state is None else state.keys,
            "unsealed": None if state is None else state.plain,
        }


def _describe_held(container: ContainerTarget, held: HeldPurge) -> dict[str, Any]:
    return {
        "target": container.target,
        "since": formats.time(held.at),
        "reason": held.reason,
        "text": REASONS[held.reason],
        "unexpected": held.unexpected,
        "due": held.due,
        "records": held.records,
        "token": token_of(container.node),
    }
