"""Roll-ups of items: an aggregate is an item whose id is the text of its group."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from functools import partial
from hashlib import blake2b
from math import isfinite
from typing import Any, Final

import msgspec

from mayflydb.engine.catalog import Node
from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.workspace import Workspace
from mayflydb.expiry.roll_up import (
    Arithmetic,
    GroupMember,
    GroupTally,
    Reading,
    RollUp,
    add_tally,
    moment_of,
    shorten_text,
    text_of,
    value_at,
)
from mayflydb.frontends.cosmos.values import ItemLimits, ParsedItem, check_item
from mayflydb.frontends.cosmos.views import ContainerView, decode_item
from mayflydb.model.errors import BadRequest, Conflict
from mayflydb.model.instant import Instant
from mayflydb.model.record import Record

LARGEST_INTEGER: Final = 2**63 - 1
"""A larger result is a double, as most clients read it anyway."""

EXACT: Final = 2**53

LONGEST_ID: Final = 255
"""Bytes of an id. A longer one ends with a digest."""

EVERYTHING: Final = "all"
"""The id of the aggregate of a roll-up without groups."""

_NOT_IN_IDS: Final = str.maketrans({each: f"%{ord(each):02X}" for each in ("%", "|", "/", "\\", "?", "#")})
_JSON_LITERAL: Final = re.compile(r'(?:null|true|false|-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|".*|)\Z', re.DOTALL)
_encode = msgspec.json.encode
_LIMITS: Final = ItemLimits()


def plan_roll_up(roll_up: RollUp, source: Node, target: Node) -> ItemPlan:
    """Return the plan of a roll-up. BadRequest if the items of `target` cannot be aggregates of it."""
    names = [member.name for member in roll_up.group] + list(roll_up.result_names)
    for name in names:
        if name in ("id", "ttl") or name.startswith("_"):
            raise BadRequest(f"a roll-up cannot write the property {name!r}", hint="give the member another name")
    database = roll_up.names[1]
    plan = ItemPlan(roll_up, ContainerView(source, database), ContainerView(target, database))
    own = {"id", *(member.name for member in roll_up.group)}
    for path in plan.target.key.segments:
        if len(path) != 1 or path[0] not in own:
            raise BadRequest(
                f"the partition key /{'/'.join(path)} of {target.name} is no member of the group",
                hint="group by a member of this name, or roll up into a container with the partition key /id",
            )
    return plan


class ItemPlan:
    """The roll-up of one container's items into those of another."""

    arithmetic: Arithmetic = Arithmetic()

    def __init__(self, roll_up: RollUp, source: ContainerView, target: ContainerView) -> None:
        self._roll_up = roll_up
        self.target = target
        self._number_paths = roll_up.number_paths
        self._document = source.document_reader(frozenset(path[0] for path in roll_up.paths))

    def read(self, record: Record, deadline: Instant) -> Reading:
        """Return the group of an item, whose key is the id of its aggregate, and its numbers."""
        document = self._document(record)
        group = {member.name: _group_value(member, document, record, deadline) for member in self._roll_up.group}
        numbers = [_number(value_at(document, path)) for path in self._number_paths]
        return Reading(id_of(group), group, numbers)

    def write(self, space: Workspace, tally: GroupTally) -> Generator[Any, Any, None]:
        """Add a tally to the item of its group, with all checks of a client's write."""
        head = {"id": id_of(tally.group), **tally.group}
        partition = self.target.key.partition_of(head)
        draft = partial(self._merge, tally, head, partition)
        yield from space.run(Command(Mode.UPSERT, partition, head["id"].encode(), draft))

    def _merge(self, tally: GroupTally, head: Mapping[str, Any], partition: bytes, before: Record | None) -> Draft:
        item = dict(head) if before is None else decode_item(before.value)
        results = add_tally(self._roll_up, tally, item, partial(_check_number, head["id"]), self.arithmetic)
        item |= {name: _fit(head["id"], name, number) for name, number in results.items()}
        return self.target.draft(check_item(ParsedItem(item, _encode(item)), _LIMITS), partition)


def _group_value(member: GroupMember, document: Mapping[str, Any], record: Record, deadline: Instant) -> Any:
    """Return the value of a member: text, a number, a boolean or None."""
    if member.unit is not None:
        return text_of(moment_of(member, record.written, deadline), member.unit)
    value = value_at(document, member.path)
    if isinstance(value, str):
        return shorten_text(value)
    if isinstance(value, float) and value.is_integer() and abs(value) <= EXACT:
        return int(value)  # 5 and 5.0 are one number of JSON.
    return value if isinstance(value, int | float) else None


def _number(value: object) -> int | float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if isinstance(value, float) or abs(value) <= LARGEST_INTEGER else float(value)


def _check_number(id: str, name: str, value: object) -> int | float:
    number = _number(value)
    if number is None:
        raise Conflict(f"{name} of the item {id} is no number", hint="write a number there, or delete the item")
    return number


def _fit(id: str, name: str, number: int | float) -> int | float:
    if isinstance(number, int) and abs(number) > LARGEST_INTEGER:
        return float(number)
    if not isfinite(number):
        raise Conflict(f"{name} of the item {id} leaves the range of a double", hint="delete the item")
    return number


def id_of(group: Mapping[str, Any]) -> str:
    """Return the id of the aggregate of a group: its values as text, with bars between. Different groups have different ids."""
    text = "|".join(map(_id_part, group.values())) if group else EVERYTHING
    data = text.encode()
    if len(data) <= LONGEST_ID:
        return text
    return f"{text[: LONGEST_ID // 8]}~{blake2b(data, digest_size=32).hexdigest()}"


def _id_part(value: object) -> str:
    if isinstance(value, str) and _JSON_LITERAL.match(value) is None:
        return value.translate(_NOT_IN_IDS)
    # A text that looks like a number is quoted, as JSON does it.
    return _encode(value).decode().translate(_NOT_IN_IDS)
