"""Fail points, by which clients are tested.

`failCommand` makes commands fail, wait, or lose their connection; `failGetMoreAfterCursorCheckout` fails a getMore
whose cursor exists.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from random import Random  # noqa: TID251 - the type; what draws comes in from outside
from typing import Any, Final, Literal

import msgspec

from mayflydb.query.mongo.faults import MqlError, bad_value, failed_to_parse, type_mismatch
from mayflydb.query.mongo.values import Document, decode, encode, is_number, type_name

MESSAGE: Final = "Failing command via 'failCommand' failpoint"

EXEMPT_COMMANDS: Final = frozenset({"configureFailPoint"})
"""Commands that never fail this way: an administrator must be able to turn the fail point off."""

MAX_BLOCK_MS: Final = 10 * 60 * 1000
"""Maximum milliseconds that a command may be blocked."""

GET_MORE: Final = "failGetMoreAfterCursorCheckout"
NAMES: Final = ("failCommand", GET_MORE)

_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "failCommands": ("array",),
    "errorCode": ("int", "long", "double"),
    "closeConnection": ("bool",),
    "errorLabels": ("array",),
    "writeConcernError": ("object",),
    "blockConnection": ("bool",),
    "blockTimeMS": ("int", "long", "double"),
    "appName": ("string",),
    "namespace": ("string",),
}

Kind = Literal["off", "always", "times", "skip", "chance"]


class ConnectionDropped(Exception):
    """The connection is to end without an answer."""


class InjectedFailure(MqlError):
    """The failure that a fail point asks for. `has_own_labels`: it names its labels, and gets no others."""

    def __init__(self, code: int, labels: tuple[str, ...] | None) -> None:
        super().__init__(code, MESSAGE, labels or ())
        self.has_own_labels = labels is not None


class FailPoint(msgspec.Struct):
    """A fail point. `hits`: how often it triggered since it was set."""

    kind: Kind = "off"
    number: int = 0
    probability: float = 0.0
    data: Document = {}
    hits: int = 0


class FailPoints:
    """The fail points of one server."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._point = FailPoint()
        self._get_more = FailPoint()

    @property
    def active(self) -> bool:
        """True if a command might be affected."""
        return self._point.kind != "off"

    def configure(self, name: str, mode: Any, data: Any) -> int:
        """Set a fail point, and return how often the previous one triggered. Raise MqlError for an invalid mode or data."""
        point = _parse_mode(mode)
        if name == GET_MORE:
            if point.kind != "off":
                # Both fail points share the check of data, which demands the names of commands.
                point.data = _check_data({"failCommands": ["getMore"], **data} if isinstance(data, dict) else data)
            before, self._get_more = self._get_more, point
            return before.hits
        if point.kind != "off":
            point.data = _check_data(data)
        before, self._point = self._point, point
        return before.hits

    async def trigger(self, database: str, name: str, body: Document, application: str) -> Document:
        """Apply the fail point before a command runs: wait, raise ConnectionDropped or InjectedFailure, or do nothing.

        Return further fields for the command's answer. `application`: the client's name for itself.
        """
        point = self._point
        if (
            not self.active
            or not _matches_command(point.data, database, name, body, application)
            or not self._should_trigger(point)
        ):
            return {}
        point.hits += 1
        data = point.data
        if data.get("blockConnection"):
            # Waits for a future that nothing completes, until the timeout.
            await asyncio.wait({asyncio.get_running_loop().create_future()}, timeout=data["blockTimeMS"] / 1000)
        if data.get("closeConnection"):
            raise ConnectionDropped
        labels = tuple(data["errorLabels"]) if "errorLabels" in data else None
        if "errorCode" in data:
            raise InjectedFailure(int(data["errorCode"]), labels)
        added: Document = {}
        if "writeConcernError" in data:
            added["writeConcernError"] = data["writeConcernError"]
            if labels is not None:
                added["errorLabels"] = list(labels)
        return added

    def trigger_get_more(self) -> None:
        """Apply the fail point to a getMore whose cursor was found: raise its failure, or do nothing."""
        point = self._get_more
        if point.kind != "off" and "errorCode" in point.data and self._should_trigger(point):
            point.hits += 1
            code = int(point.data["errorCode"])
            if "errorLabels" in point.data:
                raise InjectedFailure(code, tuple(point.data["errorLabels"]))
            raise MqlError(code, MESSAGE)

    def _should_trigger(self, point: FailPoint) -> bool:
        """Return whether a fail point applies to this command. Modes that count, count the command."""
        if point.kind == "times":
            point.number -= 1
            if not point.number:
                point.kind = "off"
            return True
        if point.kind == "skip":
            point.number -= 1
            return point.number < 0
        return point.kind == "always" or self._chance.random() < point.probability


def add_fields(answer: bytes | Document, added: Document) -> bytes | Document:
    """An answer with further fields."""
    if isinstance(answer, bytes):
        return encode({**decode(answer), **added})
    return {**answer, **added}


def _matches_command(data: Document, database: str, name: str, body: Document, application: str) -> bool:
    if name not in data["failCommands"] or name in EXEMPT_COMMANDS:
        return False
    if "appName" in data and data["appName"] != application:
        return False
    if "namespace" in data:
        collection = body.get("collection") if name == "getMore" else body[name]
        return bool(data["namespace"] == f"{database}.{collection}")
    return True


def _parse_mode(mode: Any) -> FailPoint:
    if mode == "off":
        return FailPoint()
    if mode == "alwaysOn":
        return FailPoint("always")
    if isinstance(mode, dict) and len(mode) == 1:
        ((name, number),) = mode.items()
        if name in ("times", "skip") and is_number(number) and number == number and 0 <= number < 1 << 31:
            # Zero times is off: counting down from 0 would never reach 0.
            if name == "times" and not int(number):
                return FailPoint()
            return FailPoint(name, int(number))
        if name == "activationProbability" and type(number) in (int, float) and 0 <= number <= 1:
            return FailPoint("chance", probability=float(number))
    raise bad_value("mode must be 'off', 'alwaysOn', {times: n}, {skip: n} or {activationProbability: p}")


def _check_data(data: Any) -> Document:
    if not isinstance(data, dict):
        raise type_mismatch("configureFailPoint.data", type_name(data), "object")
    for field, value in data.items():
        if field not in _FIELDS:
            raise MqlError(40415, f"BSON field 'configureFailPoint.data.{field}' is an unknown field.")
        if type_name(value) not in _FIELDS[field]:
            raise type_mismatch(f"configureFailPoint.data.{field}", type_name(value), *_FIELDS[field])
    for field in ("failCommands", "errorLabels"):
        if not all(isinstance(each, str) for each in data.get(field, ())):
            raise type_mismatch(f"configureFailPoint.data.{field}", "array", "array of strings")
    if "failCommands" not in data:
        raise failed_to_parse("failCommand needs the names of commands in data.failCommands")
    if data.get("blockConnection") and not 0 <= data.get("blockTimeMS", -1) <= MAX_BLOCK_MS:
        raise bad_value(f"blockTimeMS must be between 0 and {MAX_BLOCK_MS} when blockConnection is true")
    return data
