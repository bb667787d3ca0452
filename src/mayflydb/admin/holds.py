"""Legal holds: added, listed, released, and what they preserve."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from mayflydb.admin import formats
from mayflydb.admin.hold_requests import AddHold, HoldRecordPage, PreservedPage, ReleaseHold
from mayflydb.admin.targets import ContainerTarget, TargetResolver
from mayflydb.engine.engine import Engine
from mayflydb.engine.lifecycle.hold_counts import Matching
from mayflydb.engine.lifecycle.hold_record import HoldLine
from mayflydb.engine.lifecycle.preserved_versions import PreservedVersion
from mayflydb.expiry.legal_hold import LegalHold
from mayflydb.model.errors import BadRequest, NotFound
from mayflydb.model.instant import Instant

PATIENCE_SECONDS: Final = 1.0
"""An answer waits so long for the end of a release."""

MOST_COUNTED: Final = 100_000
"""Preserved versions that one answer counts."""


class HoldControl:
    """The admin API's part in legal holds."""

    def __init__(self, engine: Engine, targets: TargetResolver) -> None:
        self._engine = engine
        self._targets = targets

    async def list_all(self, target: str | None = None) -> dict[str, Any]:
        """Return the holds on containers."""
        found = [
            describe_hold(hold, container.target)
            for container in await self._targets.list_containers(target)
            for hold in container.node.definition.holds
        ]
        return {"now": formats.time(await self._engine.now()), "holds": found}

    async def add(self, wanted: AddHold) -> dict[str, Any]:
        """Add a hold, or count what it would match. BadRequest, Unsupported: the filter; Conflict, NotFound."""
        container = await self._targets.resolve_container(wanted.target)
        if not container.front_end.is_listed(container.database, container.node):
            raise BadRequest(f"{wanted.target} has no records of its own", hint="hold what it reads")
        container.front_end.check_lifecycle(container.node)
        now = await self._engine.now()
        hold = LegalHold(
            0,
            wanted.name,
            container.front_end.space,
            wanted.why,
            wanted.by,
            now,
            wanted.where,
            wanted.versions,
            wanted.matter,
        )
        if wanted.where is not None:
            container.front_end.compile_condition(container.node, wanted.where)
        matching: Matching | None = None
        if wanted.dry_run:
            allowance = self._engine.expiry_counts.allow()
            matching = await self._engine.holds.count_matching(container.node, hold, container.front_end, allowance)
        else:
            hold = await self._engine.holds.add(container.node.id, container.target, hold)
        return {
            "now": formats.time(now),
            "hold": describe_hold(hold, container.target),
            "dry_run": wanted.dry_run,
            "matching": None if matching is None else matching.records,
            "exact": None if matching is None else matching.is_exact,
        }

    async def show(self, name: str) -> dict[str, Any]:
        """Return a hold, and how much it preserves."""
        container, hold = await self._find(name)
        first: Instant | None = None
        last: Instant | None = None
        number = 0
        async for each in self._engine.holds.read_versions(container.node, hold):
            if number == MOST_COUNTED:
                last = None
                break
            first, last = each.version.ended if first is None else first, each.version.ended
            number += 1
        return {
            "now": formats.time(await self._engine.now()),
            "hold": describe_hold(hold, container.target),
            "preserved": number,
            "exact": last is not None or not number,
            "first": formats.time_or_none(first),
            "last": formats.time_or_none(last),
        }

    async def page(self, wanted: PreservedPage) -> dict[str, Any]:
        """Return a page of what a hold preserves."""
        container, hold = await self._find(wanted.name)
        page = await self._engine.holds.page(container.node, wanted.after, wanted.limit)
        names = {each.number: each.name for each in container.node.definition.holds}
        return {
            "now": formats.time(await self._engine.now()),
            "records": [_describe(each, container, names) for each in page if hold.number in each.matches.holds],
            "last": page[-1].seq if page else None,
        }

    async def read_record(self, wanted: HoldRecordPage) -> dict[str, Any]:
        """Return a page of the record of holds."""
        lines = await self._engine.holds.lines(wanted.after, wanted.limit)
        return {
            "now": formats.time(await self._engine.now()),
            "lines": [_describe_line(line) for _, line in lines],
            "last": lines[-1][0] if lines else wanted.after,
        }

    async def release(self, wanted: ReleaseHold) -> dict[str, Any]:
        """Release a hold. After a second the answer comes, and the removal goes on."""
        container, _ = await self._find(wanted.name)
        now = await self._engine.now()
        await self._engine.holds.release(wanted.name, container.target, wanted.why, wanted.by, now)
        return await self.show_release(wanted.name)

    async def show_release(self, name: str) -> dict[str, Any]:
        """Return how far a release is, at its end or after a second. NotFound: this process knows none."""
        await self._engine.holds.releases.wait(name, PATIENCE_SECONDS)
        known = self._engine.holds.releases.progress(name)
        if known is None:
            raise NotFound(f"there is no release of a hold {name}", hint="GET /_mayfly/hold-record has all releases")
        return {
            "now": formats.time(await self._engine.now()),
            "name": name,
            "removed": known.removed,
            "expired": known.expired,
            "done": known.is_done,
        }

    async def _find(self, name: str) -> tuple[ContainerTarget, LegalHold]:
        node, hold = await self._engine.holds.find(name)
        for container in await self._targets.list_containers():
            if container.node.id == node.id:
                return msgspec.structs.replace(container, node=node), hold
        raise NotFound(f"the container of the hold {name} is not served here")


def describe_hold(hold: LegalHold, target: str) -> dict[str, Any]:
    """Put a hold into words."""
    return {
        "name": hold.name,
        "target": target,
        "where": hold.where,
        "versions": hold.versions,
        "why": hold.why,
        "by": hold.by,
        "matter": hold.matter,
        "added": formats.time(hold.added),
        "released": formats.time_or_none(hold.released),
    }


def _describe_line(line: HoldLine) -> dict[str, Any]:
    is_addition = line.action == "added"
    return {
        "action": line.action,
        "name": line.name,
        "target": line.target,
        "at": formats.time(line.at),
        "by": line.by,
        "why": line.why,
        "matter": line.matter,
        "where": line.where if is_addition else None,
        "versions": line.versions if is_addition else None,
    }


def _describe(preserved: PreservedVersion, container: ContainerTarget, names: dict[int, str]) -> dict[str, Any]:
    version, cause = preserved.version, preserved.cause
    id, pk = container.front_end.decode_identity(container.node, version.record.partition, version.record.key)
    return {
        "target": container.target,
        "id": id,
        "pk": pk,
        "end": version.end,
        "left": formats.time(version.ended),
        "deadline": None if cause is None else formats.time(int(cause.deadline)),
        "reason": None if cause is None else cause.cause,
        "version": version.record.lsn,
        "written": formats.time(version.record.written),
        "holds": [names[number] for number in preserved.matches.holds if number in names],
        "undecided": [names[number] for number in preserved.matches.undecided if number in names],
        "record": container.front_end.decode_record(container.node, version.record),
    }
