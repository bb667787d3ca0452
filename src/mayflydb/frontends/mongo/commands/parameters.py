"""The commands getParameter and setParameter.

Rules and texts: https://github.com/mongodb/mongo `src/mongo/db/commands/parameters.cpp`, `src/mongo/db/ttl/ttl.idl`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeAlias

import msgspec

from mayflydb.frontends.mongo import arguments
from mayflydb.frontends.mongo.calls import GENERIC_ARGUMENTS, Call
from mayflydb.frontends.mongo.commands.handshake import version_of
from mayflydb.frontends.mongo.services import CommandEntry, Services
from mayflydb.model.instant import SECOND
from mayflydb.query.mongo.faults import MqlError, bad_value
from mayflydb.query.mongo.values import INT32_MAX, Document, Value, format_value, is_number, is_truthy

GetValue: TypeAlias = Callable[[Services], Value]
SetValue: TypeAlias = Callable[[Services, Call, str, Value], Coroutine[Any, Any, None]]


class ServerParameter(msgspec.Struct, frozen=True):
    """One server parameter. `set`: None where it is read-only; `read_only_reason`: the reason of that."""

    get: GetValue
    set: SetValue | None = None
    read_only_reason: str = "it is what the server was started with"


async def _set_sleep(services: Services, call: Call, name: str, value: Value) -> None:
    seconds = parse_int32(name, value)
    if seconds <= 0:
        raise bad_value(f"Invalid value for parameter {name}: {seconds} is not greater than 0")
    await services.engine.monitor.set_sleep(seconds, call.now)


async def _set_enabled(services: Services, call: Call, name: str, value: Value) -> None:
    if type(value) is not bool and not is_number(value):
        raise bad_value(f"Invalid value for parameter {name}: {format_value(value)} is not a boolean")
    await services.engine.monitor.set_enabled(is_truthy(value), call.now)


def parse_int32(name: str, value: Value) -> int:
    """A parameter's value as an int32, cut towards zero. Raise MqlError 2 for anything else."""
    number = arguments.truncate_number(value) if is_number(value) else None
    if number is None or not -INT32_MAX <= number <= INT32_MAX:
        raise bad_value(f"Invalid value for parameter {name}: {format_value(value)} is not an integer of 32 bits")
    return number


def _get_lifetime(services: Services) -> Value:
    return services.transactions.lifetime // SECOND


async def _set_lifetime(services: Services, call: Call, name: str, value: Value) -> None:
    seconds = parse_int32(name, value)
    if seconds < 1:
        raise bad_value(f"Invalid value for parameter {name}: {seconds} is not greater than or equal to 1")
    # Holds for later transactions: one that is open keeps the end that it got at its start.
    services.transactions.lifetime = seconds * SECOND


def _read_only(value: Value, read_only_reason: str) -> ServerParameter:
    return ServerParameter(lambda _: value, None, read_only_reason)


_NOT_TUNABLE: Final = (
    "sweeps are bounded by the time they keep writers waiting, and go round all indexes until nothing is due"
)

PARAMETERS: Final[dict[str, ServerParameter]] = {
    "enableTestCommands": ServerParameter(lambda services: services.options.test_commands),
    "featureCompatibilityVersion": ServerParameter(
        lambda services: {"version": "{}.{}".format(*version_of(services.options))},
        read_only_reason="it follows from the wire version",
    ),
    "requireApiVersion": _read_only(False, "no client has to name a version of the API"),
    "transactionLifetimeLimitSeconds": ServerParameter(_get_lifetime, _set_lifetime),
    "ttlMonitorEnabled": ServerParameter(lambda services: services.engine.monitor.enabled, _set_enabled),
    "ttlMonitorSleepSecs": ServerParameter(lambda services: services.engine.monitor.sleep, _set_sleep),
    "ttlMonitorBatchDeletes": _read_only(True, "what is due is always removed in batches"),
    "ttlMonitorSubPassTargetSecs": _read_only(60, _NOT_TUNABLE),
    "ttlIndexDeleteTargetTimeMS": _read_only(1000, _NOT_TUNABLE),
    "ttlIndexDeleteTargetDocs": _read_only(50_000, _NOT_TUNABLE),
}
"""All server parameters by name."""


async def get_parameter(services: Services, call: Call) -> Document:
    """Return the named parameters, or all (`"*"`). Raise MqlError 72 where none of the names is known."""
    asked = call.body[call.name]
    everything, details = asked == "*", False
    if type(asked) is dict:
        everything = arguments.flag(asked, "allParameters", call.name)
        details = arguments.flag(asked, "showDetails", call.name)
    names = list(PARAMETERS) if everything else [name for name in call.body if name in PARAMETERS]
    if not names:
        raise MqlError(72, "no option found to get")
    return {name: _parameter_value(services, PARAMETERS[name], details) for name in names}


def _parameter_value(services: Services, parameter: ServerParameter, details: bool) -> Value:
    value = parameter.get(services)
    if not details:
        return value
    return {"value": value, "settableAtRuntime": parameter.set is not None, "settableAtStartup": False}


async def set_parameter(services: Services, call: Call) -> Document:
    """Set parameters, and return the previous value of the first. Raise MqlError 72 for an unknown name."""
    given = {name: value for name, value in call.body.items() if name != call.name and name not in GENERIC_ARGUMENTS}
    for name in given:
        if name not in PARAMETERS:
            raise MqlError(72, f"attempted to set unrecognized parameter [{name}], use help:true to see options ")
    if not given:
        raise MqlError(72, "no option found to set, use help:true to see options ")
    answer: Document = {}
    for name, value in given.items():
        parameter = PARAMETERS[name]
        answer.setdefault("was", parameter.get(services))
        if parameter.set is not None:
            await parameter.set(services, call, name, value)
        elif value != parameter.get(services):
            raise MqlError(20, f"not allowed to change [{name}]: {parameter.read_only_reason}")
    return answer


HANDLERS: Final[dict[str, CommandEntry]] = {
    "getParameter": CommandEntry(get_parameter, "monitor", admin_only=True, help="Values of the server's parameters."),
    "setParameter": CommandEntry(set_parameter, "server", admin_only=True, help="Changes parameters of the server."),
}
