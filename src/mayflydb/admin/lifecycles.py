"""Lifecycle settings of containers, and purges that the guard holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET

from mayflydb.admin import formats, lifecycle_requests
from mayflydb.admin.roll_ups import RollUpSettings
from mayflydb.admin.targets import ContainerTarget, TargetResolver
from mayflydb.engine.engine import Engine
from mayflydb.engine.lifecycle.cascades import DEEPEST
from mayflydb.engine.lifecycle.guard import token_of
from mayflydb.expiry.guard import HeldPurge, Reason
from mayflydb.expiry.lifecycle import Cascade, Lifecycle
from mayflydb.model.errors import BadRequest

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
        self._roll_ups = RollUpSettings(engine, targets)
        self._shredding = engine.reaper.shredding

    async def show(self, target: str | None) -> dict[str, Any]:
        """Return the lifecycle settings of containers."""
        now = await self._engine.now()
        return {
            "now": formats.time(now),
            "targets": [await self._describe(each) for each in await self._targets.list_containers(target)],
        }

    async def set(self, wanted: lifecycle_requests.SetLifecycle) -> dict[str, Any]:
        """Change the settings that are given, of one container. Its TTL settings and its etag stay."""
        container = await self._targets.resolve_container(wanted.target)
        container.front_end.check_lifecycle(container.node)
        given = {name: value for name, value in wanted.settings().items() if value is not UNSET}
        if wanted.cascade is not UNSET:
            given["cascade"] = await self._open_cascades(container, wanted.cascade)
        if wanted.roll_up is not UNSET:
            spec = wanted.roll_up
            given["roll_up"] = None if spec == "off" else await self._roll_ups.resolve(spec, container)

        def change(lifecycle: Lifecycle) -> Lifecycle:
            return msgspec.structs.replace(lifecycle, **given)

        if given.get("shred", "off") != "off":
            self._shredding.check()
        now = await self._engine.now()
        await self._engine.definitions.change_lifecycle(container.node.id, change, now)
        return {"now": formats.time(now), **await self._describe(await self._targets.resolve_container(wanted.target))}

    async def _open_cascades(
        self, container: ContainerTarget, wanted: Sequence[lifecycle_requests.CascadeTo]
    ) -> tuple[Cascade, ...]:
        """Return the cascades of a container, with complete indexes. BadRequest, Conflict, NotFound."""
        found = []
        for each in wanted:
            child = await self._targets.resolve_container(each.to)
            child.front_end.check_lifecycle(child.node)
            space = child.front_end.space
            if space != container.front_end.space:
                raise BadRequest(f"{each.to} belongs to another protocol than {container.target}")
            await self._check_way(child.node.id, container, 2)
            index = await child.front_end.references.open_index(
                self._engine.indexes, container.node, child.node, each.path
            )
            found.append(Cascade(child.node.id, each.path, index.number, space))
        return tuple(found)

    async def _check_way(self, id: int, container: ContainerTarget, depth: int) -> None:
        """Raise BadRequest if the cascades of a container lead to another one, or too far."""
        if id == container.node.id:
            raise BadRequest(f"the cascade would lead back to {container.target}")
        if depth > DEEPEST:
            raise BadRequest(f"a cascade leads through at most {DEEPEST} containers")
        node = await self._engine.node_by_id(id)
        for each in () if node is None else node.definition.lifecycle.cascade:
            await self._check_way(each.container, container, depth + 1)

    async def _describe(self, container: ContainerTarget) -> dict[str, Any]:
        definition = container.node.definition
        settings, held = definition.lifecycle, definition.held_roll_up
        state = await self._shredding.state(container.node.id)
        return {
            "target": container.target,
            "guard": msgspec.to_builtins(settings.guard),
            "grace": settings.grace,
            "touch": settings.touch,
            "last_image": settings.last_image,
            "history": settings.history,
            "history_since": formats.time_or_none(self._engine.pasts.find_first_known(container.node)),
            "archive": settings.archive,
            "shred": settings.shred,
            "keys": 0 if state is None else state.keys,
            "unsealed": None if state is None else state.plain,
            "cascade": [await self._describe_cascade(container, each) for each in settings.cascade],
            "roll_up": msgspec.to_builtins(await self._roll_ups.describe(settings.roll_up)),
            "held_roll_up": None if held is None else {"since": formats.time(held.since), "reason": held.reason},
        }

    async def _describe_cascade(self, container: ContainerTarget, cascade: Cascade) -> dict[str, Any]:
        child = await self._engine.node_by_id(cascade.container)
        parent = None if child is None else await self._engine.node_by_id(child.parent)
        index = next(
            (each for each in ([] if child is None else child.definition.indexes) if each.number == cascade.index), None
        )
        return {
            "to": None
            if child is None or parent is None
            else self._targets.name(cascade.space, parent.name, child.name),
            "path": cascade.path,
            "indexed": child is None or (index is not None and index.state == "ready"),
        }

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
