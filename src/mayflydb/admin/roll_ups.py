"""Roll-ups as the admin API and files write them: their shape, and the way to and from the stored form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, get_args

import msgspec

from mayflydb.admin.targets import ContainerTarget, TargetResolver
from mayflydb.engine.catalog import Node
from mayflydb.engine.engine import Engine
from mayflydb.expiry.roll_up import (
    MAX_AGGREGATES,
    MAX_MEMBERS,
    Aggregate,
    Function,
    GroupMember,
    Moment,
    RollUp,
    Unit,
)
from mayflydb.model.errors import BadRequest, Conflict, Unsupported

FUNCTIONS: Final[tuple[Function, ...]] = get_args(Function)

EXAMPLE: Final = '{"into": "cosmos:shop/totals", "group": ["/tenant", {"day": "deadline"}], "count": "n"}'


class MemberSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A member of a group: the value at `path`, or the hour, day or month, in UTC, of the `deadline` of a record or of the
    instant at which it was last `written`. `name`: its name in the aggregate; null: the last part of the path, or the unit.
    """

    path: str | None = None
    hour: Moment | None = None
    day: Moment | None = None
    month: Moment | None = None
    name: str | None = None


class RollUpSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A roll-up. `into`: the container of the aggregates. `group`: paths, or members. `sum`, `min`, `max`: the path of the
    numbers, by the name of the result. `count`: the name of the number of records; `skipped`: that of the number of values that
    are missing or no numbers.
    """

    into: str
    group: list[str | MemberSpec] = []
    count: str | None = None
    sum: dict[str, str] = {}
    min: dict[str, str] = {}
    max: dict[str, str] = {}
    skipped: str | None = None


class HeldRollUp(msgspec.Struct, frozen=True):
    """A roll-up that fails, so that nothing is purged in its container."""

    since: str
    reason: str


class RollUpSettings:
    """Resolves the roll-ups that are to be set, and describes those that are."""

    def __init__(self, engine: Engine, targets: TargetResolver) -> None:
        self._engine = engine
        self._targets = targets

    async def resolve(self, spec: RollUpSpec, container: ContainerTarget) -> RollUp:
        """Return the stored form of a roll-up of a container. BadRequest, Unsupported, NotFound; Conflict: it is a cycle."""
        into = await self._targets.resolve_container(spec.into)
        space = container.front_end.space
        if into.front_end.space != space:
            raise Unsupported(
                f"{into.target} is of another protocol than {container.target}", hint=f"name a {space}: container"
            )
        roll_up = RollUp(
            into.node.id,
            (space, into.database, into.node.name),
            tuple(map(_member, spec.group)),
            tuple(_aggregates(spec)),
            spec.count,
            spec.skipped,
        )
        _check_names(roll_up)
        await self._check_cycles(container, into.node)
        # Refuses what does not fit.
        container.front_end.plan_roll_up(roll_up, container.node, into.node)
        return roll_up

    async def _check_cycles(self, container: ContainerTarget, into: Node) -> None:
        """Raise Conflict if a container would be rolled up, over others or not, into itself."""
        node: Node | None = into
        seen: set[int] = set()
        while node is not None and node.id not in seen:
            if node.id == container.node.id:
                raise Conflict(f"{container.target} would be rolled up into itself", hint="name another container")
            seen.add(node.id)
            roll_up = node.definition.lifecycle.roll_up
            node = None if roll_up is None else await self._engine.node_by_id(roll_up.into)

    async def describe(self, roll_up: RollUp | None) -> RollUpSpec | None:
        """Return a roll-up as it would be set. Its container is named as it is now, or was when it was dropped."""
        if roll_up is None:
            return None
        space, database, container = roll_up.names
        node = await self._engine.node_by_id(roll_up.into)
        parent = None if node is None else await self._engine.node_by_id(node.parent)
        if node is not None and parent is not None:
            database, container = parent.name, node.name
        into = self._targets.name(space, database, container)
        by_function: dict[Function, dict[str, str]] = {function: {} for function in FUNCTIONS}
        for each in roll_up.aggregates:
            by_function[each.function][each.name] = _text(each.path)
        group = list(map(_describe_member, roll_up.group))
        return RollUpSpec(into, group, roll_up.count, **by_function, skipped=roll_up.skipped)


def _path(text: str) -> tuple[str, ...]:
    parts = tuple(text.split("/"))
    if parts[0] or len(parts) < 2 or not all(parts[1:]):
        raise BadRequest(f"{text!r} is no path", hint="write /property, or /outer/inner")
    return parts[1:]


def _text(path: tuple[str, ...]) -> str:
    return "/" + "/".join(path)


def _member(spec: str | MemberSpec) -> GroupMember:
    if isinstance(spec, str):
        path = _path(spec)
        return GroupMember(path[-1], path)
    units: Mapping[Unit, Moment | None] = {"hour": spec.hour, "day": spec.day, "month": spec.month}
    given = [(unit, moment) for unit, moment in units.items() if moment is not None]
    if len(given) + (spec.path is not None) != 1:
        raise BadRequest(
            "a member of a group is one of path, hour, day and month", hint='"/tenant" or {"day": "deadline"}'
        )
    if spec.path is not None:
        path = _path(spec.path)
        return GroupMember(spec.name or path[-1], path)
    unit, moment = given[0]
    return GroupMember(spec.name or unit, (), unit, moment)


def _describe_member(member: GroupMember) -> str | MemberSpec:
    if member.unit is not None:
        name = None if member.name == member.unit else member.name
        return MemberSpec(**{member.unit: member.moment}, name=name)
    if member.name == member.path[-1]:
        return _text(member.path)
    return MemberSpec(_text(member.path), name=member.name)


def _aggregates(spec: RollUpSpec) -> Iterator[Aggregate]:
    for function in FUNCTIONS:
        given: Mapping[str, str] = getattr(spec, function)
        for name, path in given.items():
            yield Aggregate(name, function, _path(path))


def _check_names(roll_up: RollUp) -> None:
    names = [*(member.name for member in roll_up.group), *roll_up.result_names]
    if not roll_up.aggregates and roll_up.count is None:
        raise BadRequest("a roll-up has a count, or a sum, min or max", hint=EXAMPLE)
    if not all(names):
        raise BadRequest("a member of an aggregate has a name", hint=EXAMPLE)
    for name in names:
        if names.count(name) > 1:
            raise BadRequest(f"two members of the aggregate have the name {name!r}", hint="give one another name")
    if len(roll_up.group) > MAX_MEMBERS or len(roll_up.aggregates) > MAX_AGGREGATES:
        raise BadRequest(f"a group has {MAX_MEMBERS} members at most, and a roll-up {MAX_AGGREGATES} aggregates")
