"""Roll-ups of documents: an aggregate is a document whose `_id` is the document of its group."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Any, Final

from bson import Binary, DatetimeMS, Decimal128, Int64, ObjectId, Timestamp

from mayflydb.engine.catalog import Node
from mayflydb.engine.workspace import Workspace
from mayflydb.expiry.roll_up import (
    Arithmetic,
    GroupMember,
    GroupTally,
    Reading,
    RollUp,
    add_tally,
    moment_of,
    shorten_bytes,
    shorten_text,
    value_at,
)
from mayflydb.frontends.mongo.collections import Collection, identity_of
from mayflydb.frontends.mongo.contracts import Contract
from mayflydb.frontends.mongo.documents import to_milliseconds
from mayflydb.frontends.mongo.writing import DocumentWriter
from mayflydb.model.errors import BadRequest, Conflict, Unsupported
from mayflydb.model.instant import Instant
from mayflydb.model.record import Record
from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.indexes.key_bytes import id_key
from mayflydb.query.mongo.raw import select_fields
from mayflydb.query.mongo.update.arithmetic import add
from mayflydb.query.mongo.values import NUMBERS, Document, Value, decode, encode, order_key

_PLAIN: Final = (int, Int64, float, bool, Decimal128, DatetimeMS, ObjectId, Timestamp)
"""Types of values by which documents are grouped as they are."""


def plan_roll_up(roll_up: RollUp, source: Node, target: Node, contract: Contract) -> DocumentPlan:
    """Return the plan of a roll-up. BadRequest, Unsupported if the documents of `target` cannot be aggregates of it."""
    for name in (*(member.name for member in roll_up.group), *roll_up.result_names):
        if name == "ttl" or name[0] in "_$" or "." in name or "\0" in name:
            raise BadRequest(f"a roll-up cannot write the field {name!r}", hint="give the member another name")
    collection = Collection(target, roll_up.names[1], contract)
    if collection.view_on is not None or collection.capped or collection.series is not None:
        kind = "capped" if collection.capped else "a view" if collection.view_on is not None else "a time series"
        raise Unsupported(f"{collection.namespace} is {kind}: nothing can be rolled up into it")
    if not collection.has_cheap_validator:
        raise Unsupported(f"the validator of {collection.namespace} may take too long for each roll-up")
    return DocumentPlan(roll_up, collection)


class DocumentPlan:
    """The roll-up of one collection's documents into those of another."""

    def __init__(self, roll_up: RollUp, target: Collection) -> None:
        self._roll_up = roll_up
        self._target = target
        self._number_paths = roll_up.number_paths
        self._fields = frozenset(path[0].encode() for path in roll_up.paths)
        self.arithmetic = Arithmetic(_add, _is_less)

    def read(self, record: Record, deadline: Instant) -> Reading:
        """Return the group of a document, and its numbers."""
        document = decode(select_fields(record.value, self._fields, True) or record.value)
        group = {member.name: _group_value(member, document, record, deadline) for member in self._roll_up.group}
        numbers = [_number(value_at(document, path)) for path in self._number_paths]
        return Reading(id_key(group), group, numbers)

    def write(self, space: Workspace, tally: GroupTally) -> Generator[Any, Any, None]:
        """Add a tally to the document of its group, with all checks of a client's write."""
        identity = identity_of(tally.group)
        record = yield from space.get(identity.partition, identity.key)
        before: Document = {"_id": tally.group} if record is None else decode(record.value)
        check = partial(_check_number, tally.group)
        after = before | add_tally(self._roll_up, tally, before, check, self.arithmetic)
        writer = DocumentWriter(self._target, Env(to_milliseconds(space.now)))
        if record is None:
            yield from writer.insert(space, after, encode(after))
        else:
            yield from writer.replace(space, record, before, after)


def _group_value(member: GroupMember, document: Document, record: Record, deadline: Instant) -> Value:
    """Return the value of a member: no document, no array and nothing that is like code."""
    if member.unit is not None:
        return DatetimeMS(to_milliseconds(moment_of(member, record.written, deadline)))
    value = value_at(document, member.path)
    kind = type(value)
    if kind is str:
        return shorten_text(value)
    if kind is bytes:
        return shorten_bytes(value)
    if kind is Binary:
        return value if len(value) <= len(shorten_bytes(value)) else shorten_bytes(bytes(value))
    return value if kind in _PLAIN else None


def _number(value: Value) -> Value | None:
    """Return a number; None for another value, and for what is not finite."""
    kind = type(value)
    if kind not in NUMBERS:
        return None
    if kind is float:
        return value if value - value == 0 else None
    return value if kind is not Decimal128 or value.to_decimal().is_finite() else None


def _check_number(group: Document, name: str, value: Value) -> Value:
    if type(value) not in NUMBERS:
        raise Conflict(
            f"{name} of the document {group} is no number", hint="set a number there, or delete the document"
        )
    return value


def _add(one: Value, other: Value) -> Value:
    total = add(one, other)
    # An int64 that overflows becomes a double, as in `$sum`.
    return float(one) + float(other) if total is None else total


def _is_less(one: Value, other: Value) -> bool:
    return order_key(one) < order_key(other)
