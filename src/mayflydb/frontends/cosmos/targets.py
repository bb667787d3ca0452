"""Containers and items as the admin API names them: ids and partition keys, to and from the bytes of the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from struct import Struct as Packing
from typing import Any, Final

import msgspec

from mayflydb.engine.catalog import Node
from mayflydb.engine.lifecycle.rolling_up import RollUpPlan
from mayflydb.engine.proposals import Anchors, Change, Proposal
from mayflydb.expiry.deadline import deadline, has_passed
from mayflydb.expiry.roll_up import RollUp
from mayflydb.expiry.rules import Cause
from mayflydb.frontends.cosmos.caller import Caller
from mayflydb.frontends.cosmos.headers import IF_MATCH
from mayflydb.frontends.cosmos.partition_key import (
    KeyValue,
    KeyValues,
    PartitionKeyDefinition,
    parse_header,
)
from mayflydb.frontends.cosmos.references import CosmosReferences
from mayflydb.frontends.cosmos.roll_ups import plan_roll_up
from mayflydb.frontends.cosmos.rules import rules_of
from mayflydb.frontends.cosmos.values import own_ttl
from mayflydb.http.messages import read_json
from mayflydb.model.errors import BadRequest
from mayflydb.model.hints import Hint
from mayflydb.model.instant import SECOND, Instant
from mayflydb.model.record import Dates, Record

UNDEFINED: Final = parse_header("[{}]")[0]
_DOUBLE: Final = Packing("<d")
_CONSTANTS: Final[dict[int, KeyValue]] = {0: UNDEFINED, 1: None, 2: False, 3: True}
_HASH_BYTES: Final = 16


class _Life(msgspec.Struct, frozen=True):
    """An item of another server, as the rules see it."""

    anchor: Instant | None
    override: int | None
    dates: Dates = ()


class CosmosTargets:
    """The containers of this front end for the admin API."""

    space = "cosmos"
    publisher = None
    causes: Mapping[Cause, str] = {"default": "defaultTtl {} s after _ts", "item": "item ttl {} s after _ts"}
    separator = "/"
    databases = None
    keeps_empty = True

    def __init__(self, caller: Caller) -> None:
        """`caller`: sends requests to the front end of this server."""
        self._caller = caller
        self.references = CosmosReferences()

    def is_listed(self, database: str, container: Node | None = None) -> bool:
        """Return True: all containers hold records of clients."""
        return True

    def check_lifecycle(self, container: Node) -> None:
        """Do nothing: all containers take lifecycle settings."""

    def drop_event(self, node: Node) -> bytes:
        """Return nothing: a change feed ends with its container."""
        return b""

    def ttl_settings(self, database: str, container: Node) -> dict[str, Any]:
        """Return the `default_ttl`."""
        return {"default_ttl": self.default_ttl(container)}

    def index_names(self, container: Node) -> Mapping[int, str]:
        """Return no names: containers have no date indexes."""
        return {}

    def describe_record(self, database: str, container: Node, record: Record) -> dict[str, Any]:
        """Return no further details."""
        return {}

    def decode_record(self, container: Node, record: Record) -> Mapping[str, Any] | msgspec.Raw:
        """Return an item as it was sent, without system properties."""
        return msgspec.Raw(record.value)

    def plan_roll_up(self, roll_up: RollUp, container: Node, into: Node) -> RollUpPlan:
        """Return the plan of a roll-up of items."""
        return plan_roll_up(roll_up, container, into)

    def shorten_life(self, container: Node, record: Mapping[str, Any], now: Instant) -> Mapping[str, Any] | None:
        """Return an item whose own ttl is the rest of its life, counted from its `_ts`; None: its life has ended.

        An item that never expires is returned as it is. BadRequest if it has no `_ts`.
        """
        written = record.get("_ts")
        if type(written) is not int or written < 0:
            raise BadRequest("the item has no _ts, from which its life counts")
        life = _Life(anchor=written * SECOND, override=own_ttl(record)[0])
        ends = deadline(life, rules_of(self.default_ttl(container)))
        if ends is None:
            return record
        if has_passed(ends, now):
            return None
        # The write at `now` gets the _ts of this second.
        return {**record, "ttl": ends // SECOND - now // SECOND}

    def record_reader(self, container: Node) -> Callable[[Record], Any]:
        """Return the function that decodes an item for the filters of holds."""
        from mayflydb.frontends.cosmos import hold_filters

        return hold_filters.item_reader(container)

    def compile_condition(self, container: Node, text: str) -> Callable[[Any], bool]:
        """Compile the filter of a hold. BadRequest, Unsupported."""
        from mayflydb.frontends.cosmos import hold_filters

        return hold_filters.compile_condition(container, text)

    def anchors(self, database: str, container: Node) -> Anchors:
        """Return the last write alone."""
        return Anchors(last_write=True, dates=False)

    def find_dates(self, container: Node, record: Record) -> Mapping[str, Instant]:
        """Return no dates: lives count from the last write."""
        return {}

    def propose(self, database: str, container: Node, change: Change) -> Proposal:
        """Return the rules of another `defaultTtl`, and the current default."""
        if not change.of_default:
            raise BadRequest("a container has one default and no TTL indexes", hint=Hint("no-index-in-container"))
        return Proposal(rules_of(change.seconds), self.default_ttl(container))

    async def apply_change(self, database: str, container: Node, change: Change) -> None:
        """Replace the container as a client does. Conflict if the container changes meanwhile."""
        path = ("dbs", database, "colls", container.name)
        self.propose(database, container, change)
        body = await self._request_json("GET", path)
        sent = {key: value for key, value in body.items() if not key.startswith("_") and key != "defaultTtl"}
        if change.seconds is not None:
            sent["defaultTtl"] = change.seconds
        await self._request_json("PUT", path, msgspec.json.encode(sent), {IF_MATCH.decode(): body["_etag"]})

    async def _request_json(
        self, method: str, path: Sequence[str], body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        answer: dict[str, Any] = read_json(await self._caller(method, path, body, headers))
        return answer

    def default_ttl(self, container: Node) -> int | None:
        """Return the container's `defaultTtl`; None: off."""
        value = container.body.get("defaultTtl")
        return None if value is None else int(value)

    def decode_identity(self, container: Node, partition: bytes, key: bytes) -> tuple[str, Any]:
        """Return (id, partition key). The key is a value, or a list for a hierarchical key; `{}` is a missing property."""
        definition = _definition(container)
        parts = [key_value_to_json(value) for value in decode_partition(definition, partition)]
        return key.decode("utf-8", "surrogatepass"), parts[0] if len(parts) == 1 else parts

    def find_identities(self, container: Node, id: str, pk: str | None) -> list[tuple[bytes, bytes]]:
        """Return each (partition, key) where an item may be. The key is JSON or plain text, and `5` may be either."""
        definition = _definition(container)
        key = id.encode("utf-8", "surrogatepass")
        if pk is None:
            if definition.segments != (("id",),):
                raise BadRequest(f"the partition key {', '.join(definition.paths)} is needed", hint=Hint("pk-needed"))
            return [(definition.logical_partition((id,)), key)]
        return [(definition.logical_partition(values), key) for values in _possible_keys(definition, pk)]


def _definition(container: Node) -> PartitionKeyDefinition:
    return PartitionKeyDefinition.from_json(container.body["partitionKey"])


def _possible_keys(definition: PartitionKeyDefinition, pk: str) -> list[KeyValues]:
    count = len(definition.paths)
    readings: list[KeyValues] = []
    try:
        value = msgspec.json.decode(pk)
    except (msgspec.DecodeError, RecursionError):
        value = UNDEFINED
    if value is not UNDEFINED:
        header = pk if isinstance(value, list) else f"[{pk}]"
        values = parse_header(header)
        if len(values) == count:
            readings.append(values)
    if count == 1:
        readings.append((pk,))
    if not readings:
        raise BadRequest(f"the partition key has {count} parts", hint=Hint("pk-parts"))
    return readings


def key_value_to_json(value: KeyValue) -> Any:
    """Return a key value as JSON: `{}` for a missing property, whole numbers without a fraction."""
    if value is UNDEFINED:
        return {}
    return int(value) if isinstance(value, float) and value.is_integer() else value


def decode_partition(definition: PartitionKeyDefinition, partition: bytes) -> KeyValues:
    """Return the key values whose `logical_partition` these bytes are. ValueError if there are none."""
    # A version 1 hash has no fixed length. Its end is found by trial: the values after it must hash to it.
    starts = [_HASH_BYTES * len(definition.paths)] if definition.version == 2 else range(1, len(partition))
    for start in starts:
        found = _decode_components(partition, start)
        if found is not None and definition.logical_partition(found) == partition:
            return found
    raise ValueError("these bytes are no logical partition")


def _decode_components(partition: bytes, start: int) -> KeyValues | None:
    """Decode the values from `start` to the end; None for bytes that are no encoding."""
    values: list[KeyValue] = []
    while start < len(partition):
        tag = partition[start]
        if tag == 8:
            end = partition.find(b"\xff", start)
            if end < 0:
                return None
            try:
                values.append(partition[start + 1 : end].decode("utf-8", "surrogatepass"))
            except UnicodeDecodeError:
                return None
            start = end + 1
        elif tag == 5 and len(partition) >= start + 9:
            values.append(_DOUBLE.unpack_from(partition, start + 1)[0])
            start += 9
        elif tag in _CONSTANTS:
            values.append(_CONSTANTS[tag])
            start += 1
        else:
            return None
    return tuple(values)
