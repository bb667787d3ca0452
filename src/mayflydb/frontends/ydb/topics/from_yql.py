"""Statements of YQL about topics as requests of the topic service, so that one description and one set of checks serves both.

Names of settings: https://ydb.tech/docs/en/yql/reference/syntax/create-topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from mayflydb.frontends.ydb.descriptors import message
from mayflydb.frontends.ydb.topics.bodies import CODEC_NAMES
from mayflydb.frontends.ydb.topics.describing import fill_timestamp
from mayflydb.model.instant import HOUR, SECOND
from mayflydb.query.yql import definitions as ast
from mayflydb.query.yql import intervals, moments
from mayflydb.query.yql.faults import Fault, fault
from mayflydb.query.yql.syntax import FunctionCall, Literal_, Syntax
from mayflydb.query.yql.types import Primitive

YQL_RETENTION: Final = 18 * HOUR // SECOND
"""Seconds for which CREATE TOPIC keeps messages unless it says otherwise."""

CODEC_NUMBERS: Final = {name: number for number, name in CODEC_NAMES.items()}
STRATEGIES: Final = {"disabled": 1, "scale_up": 2, "scale_up_and_down": 3, "paused": 4}
METERING_MODES: Final = {"unspecified": 0, "reserved_capacity": 1, "request_units": 2}


def create_request(statement: ast.CreateTopic, path: str) -> Any:
    """Return the CreateTopicRequest of a statement. Faults: an unknown setting, or a value of another type."""
    request = message("Ydb.Topic.CreateTopicRequest")(path=path)
    request.retention_period.seconds = YQL_RETENTION
    for setting in _distinct(statement.settings):
        name = setting.name.lower()
        value = _read(_TOPIC_SETTINGS, setting, "topic")
        match name:
            case "min_active_partitions" | "max_active_partitions" | "partition_count_limit":
                setattr(request.partitioning_settings, name, value)
            case "auto_partitioning_strategy":
                request.partitioning_settings.auto_partitioning_settings.strategy = value
            case "retention_period":
                request.retention_period.seconds = value
            case "supported_codecs":
                request.supported_codecs.codecs.extend(value)
            case _:
                setattr(request, name, value)
    for consumer in statement.consumers:
        _fill_consumer(consumer, request.consumers.add())
    return request


def alter_request(statement: ast.AlterTopic, path: str) -> Any:
    """Return the AlterTopicRequest of a statement. Faults as in `create_request`."""
    request = message("Ydb.Topic.AlterTopicRequest")(path=path)
    set_names: set[str] = set()
    for action in statement.actions:
        match action:
            case ast.AddConsumer(consumer=consumer):
                _fill_consumer(consumer, request.add_consumers.add())
            case ast.DropConsumer(name=name):
                request.drop_consumers.append(name)
            case ast.AlterConsumer():
                _fill_alteration(action, request)
            case ast.SetSettings(settings=settings):
                for setting in _distinct(settings, set_names):
                    _set(setting, request)
            case ast.ResetSettings(names=names):
                for name in names:
                    _reset(action, name, set_names, request)
    return request


def _set(setting: ast.Setting, request: Any) -> None:
    name = setting.name.lower()
    value = _read(_TOPIC_SETTINGS, setting, "topic")
    match name:
        case "min_active_partitions" | "max_active_partitions" | "partition_count_limit":
            setattr(request.alter_partitioning_settings, f"set_{name}", value)
        case "auto_partitioning_strategy":
            request.alter_partitioning_settings.alter_auto_partitioning_settings.set_strategy = value
        case "retention_period":
            request.set_retention_period.seconds = value
        case "supported_codecs":
            request.set_supported_codecs.codecs.extend(value)
            request.set_supported_codecs.SetInParent()
        case _:
            setattr(request, f"set_{name}", value)


def _reset(action: ast.ResetSettings, name: str, set_names: set[str], request: Any) -> None:
    """Set what a setting is without having been given."""
    known = name.lower()
    if known in set_names:
        raise _twice(action, name)
    set_names.add(known)
    match known:
        case "retention_period":
            request.set_retention_period.seconds = YQL_RETENTION
        case "supported_codecs":
            request.set_supported_codecs.SetInParent()
        case "max_active_partitions" | "partition_count_limit":
            setattr(request.alter_partitioning_settings, f"set_{known}", 0)
        case "partition_write_speed_bytes_per_second":
            request.set_partition_write_speed_bytes_per_second = 1 << 20
        case "partition_write_burst_bytes" | "retention_storage_mb":
            setattr(request, f"set_{known}", 0)
        case _:
            raise fault(f"{name.upper()} of a topic cannot be reset", action.at)


def _fill_consumer(consumer: ast.ConsumerClause, into: Any) -> None:
    into.name = consumer.name
    for setting in _distinct(consumer.settings):
        value = _read(_CONSUMER_SETTINGS, setting, "consumer")
        match setting.name.lower():
            case "important":
                into.important = value
            case "read_from":
                fill_timestamp(into.read_from, value)
            case "availability_period":
                into.availability_period.seconds = value
            case _:
                into.supported_codecs.codecs.extend(value)


def _fill_alteration(action: ast.AlterConsumer, request: Any) -> None:
    # Several actions about one consumer are one change of it.
    into = next((each for each in request.alter_consumers if each.name == action.name), None)
    if into is None:
        into = request.alter_consumers.add(name=action.name)
    for setting in _distinct(action.settings):
        value = _read(_CONSUMER_SETTINGS, setting, "consumer")
        name = setting.name.lower()
        if into.HasField(f"set_{name}"):
            raise _twice(setting, setting.name)
        match name:
            case "important":
                into.set_important = value
            case "read_from":
                fill_timestamp(into.set_read_from, value)
                into.set_read_from.SetInParent()
            case "availability_period":
                into.set_availability_period.seconds = value
            case _:
                into.set_supported_codecs.codecs.extend(value)
                into.set_supported_codecs.SetInParent()
    for name in action.reset:
        match name.lower():
            case "important":
                into.set_important = False
            case "read_from":
                into.set_read_from.SetInParent()
            case "supported_codecs":
                into.set_supported_codecs.SetInParent()
            case "availability_period":
                into.reset_availability_period.SetInParent()
            case _:
                raise fault(f"unknown consumer setting: {name}", action.at)


def _distinct(settings: Iterable[ast.Setting], seen: set[str] | None = None) -> Iterable[ast.Setting]:
    """Yield settings. Faults: one is given twice."""
    names = set() if seen is None else seen
    for each in settings:
        if each.name.lower() in names:
            raise _twice(each, each.name)
        names.add(each.name.lower())
        yield each


def _twice(at: Syntax, name: str) -> Fault:
    return fault(f"Duplicate setting: {name}", at.at)


def _read(known: Mapping[str, Callable[[ast.Setting], Any]], setting: ast.Setting, what: str) -> Any:
    read = known.get(setting.name.lower())
    if read is None:
        raise fault(f"unknown {what} setting: {setting.name}", setting.at)
    return read(setting)


# --- values ----------------------------------------------------------------------------------------------------------


def _wrong(setting: ast.Setting, expected: str) -> Fault:
    return fault(f"{setting.name.upper()} value should be {expected}", setting.at)


def _plain(setting: ast.Setting) -> Any:
    return setting.value.value if isinstance(setting.value, Literal_) else setting.value


def _number(setting: ast.Setting) -> int:
    value = _plain(setting)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(setting, "an integer")
    return value


def _switch(setting: ast.Setting) -> bool:
    value = _plain(setting)
    if isinstance(value, str) and value.upper() in ("TRUE", "FALSE"):
        return value.upper() == "TRUE"
    if not isinstance(value, bool):
        raise _wrong(setting, "a boolean")
    return value


def _text(setting: ast.Setting) -> str:
    value = _plain(setting)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if not isinstance(value, str):
        raise _wrong(setting, "a string literal")
    return value


def _word(known: Mapping[str, int]) -> Callable[[ast.Setting], int]:
    def read(setting: ast.Setting) -> int:
        found = known.get(_text(setting).lower())
        if found is None:
            raise _wrong(setting, f"one of: {', '.join(known)}")
        return found

    return read


def parse_codecs(text: str) -> list[int] | None:
    """Return the codecs in `RAW, gzip, 10001`; None if one of them is unknown."""
    names = [each.strip().lower() for each in text.split(",") if each.strip()]
    if any(name not in CODEC_NUMBERS and not (name.isascii() and name.isdigit() and len(name) < 6) for name in names):
        return None
    return [CODEC_NUMBERS.get(name) or int(name) for name in names]


def _codecs(setting: ast.Setting) -> list[int]:
    codecs = parse_codecs(_text(setting))
    if codecs is None:
        raise _wrong(setting, f"a list of codecs: {', '.join(CODEC_NUMBERS)}, or numbers")
    return codecs


def _argument(setting: ast.Setting, *names: str) -> tuple[str, str] | None:
    """Return name and text of a constructor such as `Interval("P1D")`; None for another value."""
    match setting.value:
        case FunctionCall(name=name, arguments=(argument,)) if name.lower() in names:
            literal = argument.value
            if isinstance(literal, Literal_) and isinstance(literal.value, (bytes, str)):
                text = literal.value
                return name.lower(), text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return None


def _interval(setting: ast.Setting) -> int:
    """Return whole seconds, rounded up: nothing leaves a topic earlier than it was told."""
    given = _argument(setting, "interval")
    length = None if given is None else intervals.parse(given[1])
    if length is None:
        raise _wrong(setting, "an Interval literal")
    return -(-length // SECOND)


def _moment(setting: ast.Setting) -> int:
    """Return an instant: of a Timestamp or Datetime literal, or of seconds."""
    value = _plain(setting)
    if isinstance(value, int) and not isinstance(value, bool):
        return value * SECOND
    given = _argument(setting, "timestamp", "datetime")
    found = None if given is None else moments.parse(Primitive(given[0].capitalize()), given[1])
    if given is None or found is None:
        raise _wrong(setting, "a Timestamp or Datetime literal, or an integer")
    return found * SECOND if given[0] == "datetime" else found


_TOPIC_SETTINGS: Final[Mapping[str, Callable[[ast.Setting], Any]]] = {
    "min_active_partitions": _number,
    "max_active_partitions": _number,
    "partition_count_limit": _number,
    "auto_partitioning_strategy": _word(STRATEGIES),
    "retention_period": _interval,
    "retention_storage_mb": _number,
    "partition_write_speed_bytes_per_second": _number,
    "partition_write_burst_bytes": _number,
    "metering_mode": _word(METERING_MODES),
    "supported_codecs": _codecs,
}
_CONSUMER_SETTINGS: Final[Mapping[str, Callable[[ast.Setting], Any]]] = {
    "important": _switch,
    "read_from": _moment,
    "supported_codecs": _codecs,
    "availability_period": _interval,
}
