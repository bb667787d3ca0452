"""Specs of changefeeds: from the settings of YQL and from gRPC requests, and their checks.

Texts: `yql/essentials/sql/v1` and `ydb/core/tx/schemeshard` of https://github.com/ydb-platform/ydb.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast, get_args

from mayflydb.frontends.ydb.schemes.faults import Invalid
from mayflydb.frontends.ydb.schemes.specs import ChangefeedSpec
from mayflydb.frontends.ydb.tables import ChangefeedFormat, ChangefeedMode
from mayflydb.model.instant import DAY, SECOND
from mayflydb.query.yql import definitions as ast
from mayflydb.query.yql import intervals
from mayflydb.query.yql.faults import Fault, fault
from mayflydb.query.yql.syntax import FunctionCall, Literal_

MODES: Final = get_args(ChangefeedMode)
FORMATS: Final = get_args(ChangefeedFormat)
"""In the order of their numbers in `Changefeed` of `ydb_table.proto`, from 1."""

MAX_RETENTION: Final = 30 * DAY // SECOND
MAX_PARTITIONS: Final = 1000
DEFAULT_RETENTION: Final = DAY // SECOND

DOCUMENT_API: Final = "__document_api_version"
"""The attribute of a table that the document API made."""


# --- YQL -------------------------------------------------------------------------------------------------------------


def spec_of_settings(given: ast.ChangefeedSpec) -> ChangefeedSpec:
    """Return the spec in `CHANGEFEED name WITH (...)`. Faults: an unknown setting, or a value of another type."""
    found: dict[str, Any] = {}
    for setting in given.settings:
        word = setting.name.upper()
        if word in _UNSUPPORTED:
            raise fault(f"{word} of a changefeed is not supported", setting.at, "UNSUPPORTED")
        if word not in _SETTINGS:
            raise fault(f"Unknown changefeed setting: {setting.name}", setting.at)
        name, read = _SETTINGS[word]
        found[name] = read(setting, word)
    sink = found.pop("sink", "local")
    if sink.lower() != "local":
        raise fault(f"Unknown changefeed sink type: {sink}", given.at)
    auto = found.pop("auto", "DISABLED")
    if auto.upper() != "DISABLED":
        raise fault("TOPIC_AUTO_PARTITIONING of a changefeed is not supported", given.at, "UNSUPPORTED")
    for name, known in (("mode", MODES), ("format", FORMATS)):
        # YDB names what is missing by the number 0.
        value = found.get(name)
        if value is None:
            raise fault(f"Invalid stream {name}: 0", given.at, "BAD_REQUEST")
        if value.upper() not in known:
            raise fault(f"Unknown changefeed {name}: {value}", given.at)
        found[name] = value.upper()
    if found.get("retention", 1) <= 0:
        raise fault("retention_period must be positive", given.at)
    if found.get("partitions", 1) <= 0:
        raise fault("topic_min_active_partitions must be greater than 0", given.at)
    return ChangefeedSpec(given.name, **found)


def _literal_fault(setting: ast.Setting, type: str, word: str) -> Fault:
    return fault(f"Literal of {type} type is expected for {word}", setting.at)


def _read_text(setting: ast.Setting, word: str) -> str:
    value = setting.value.value if isinstance(setting.value, Literal_) else setting.value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if not isinstance(value, str):
        raise _literal_fault(setting, "String", word)
    return value


def _read_bool(setting: ast.Setting, word: str) -> bool:
    value = setting.value.value if isinstance(setting.value, Literal_) else setting.value
    if isinstance(value, str) and value.upper() in ("TRUE", "FALSE"):
        return value.upper() == "TRUE"
    if not isinstance(value, bool):
        raise _literal_fault(setting, "Bool", word)
    return value


def _read_number(setting: ast.Setting, word: str) -> int:
    value = setting.value.value if isinstance(setting.value, Literal_) else setting.value
    if isinstance(value, bool) or not isinstance(value, int):
        raise _literal_fault(setting, "integer", word)
    return value


def _read_interval(setting: ast.Setting, word: str) -> int:
    """Return whole seconds, rounded up: nothing leaves a topic earlier than it was told."""
    match setting.value:
        case FunctionCall(name=name, arguments=(argument,)) if name.lower() == "interval":
            literal = argument.value
        case _:
            raise _literal_fault(setting, "Interval", word)
    text = literal.value if isinstance(literal, Literal_) else None
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    length = intervals.parse(text) if isinstance(text, str) else None
    if length is None:
        raise _literal_fault(setting, "Interval", word)
    return -(-length // SECOND)


_SETTINGS: Final[Mapping[str, tuple[str, Callable[[ast.Setting, str], Any]]]] = {
    "MODE": ("mode", _read_text),
    "FORMAT": ("format", _read_text),
    "RETENTION_PERIOD": ("retention", _read_interval),
    "VIRTUAL_TIMESTAMPS": ("virtual_timestamps", _read_bool),
    "INITIAL_SCAN": ("initial_scan", _read_bool),
    "USER_SIDS": ("user_sids", _read_bool),
    "AWS_REGION": ("aws_region", _read_text),
    "TOPIC_MIN_ACTIVE_PARTITIONS": ("partitions", _read_number),
    "TOPIC_AUTO_PARTITIONING": ("auto", _read_text),
    "SINK_TYPE": ("sink", _read_text),
}
_UNSUPPORTED: Final = frozenset(
    ("BARRIERS_INTERVAL", "RESOLVED_TIMESTAMPS", "SCHEMA_CHANGES", "TRACE_IDS", "TOPIC_MAX_ACTIVE_PARTITIONS")
)
"""Settings that YDB has and Mayfly has not: barriers and changes of the scheme as records, ids of traces, growing topics."""


# --- gRPC ------------------------------------------------------------------------------------------------------------


def spec_of_message(given: Any) -> ChangefeedSpec:
    """Return the spec in a Changefeed of an AlterTableRequest. Invalid: an invalid or unsupported field."""
    for field in ("resolved_timestamps_interval", "schema_changes"):
        if given.HasField(field) if field.endswith("interval") else getattr(given, field):
            raise Invalid(f"{field} of a changefeed is not supported", "UNSUPPORTED")
    for name, known in (("mode", MODES), ("format", FORMATS)):
        if not 0 < getattr(given, name) <= len(known):
            raise Invalid(f"Invalid stream {name}: {getattr(given, name)}")
    retention = None
    if given.HasField("retention_period"):
        # Rounded up, as in YQL.
        retention = given.retention_period.seconds + (given.retention_period.nanos > 0)
        if retention <= 0:
            raise Invalid("retention_period must be positive")
    if given.topic_partitioning_settings.max_active_partitions:
        raise Invalid("max_active_partitions of a changefeed's topic is not supported", "UNSUPPORTED")
    partitions = given.topic_partitioning_settings.min_active_partitions or None
    if given.topic_partitioning_settings.auto_partitioning_settings.strategy not in (0, 1):
        raise Invalid("auto partitioning of a changefeed's topic is not supported", "UNSUPPORTED")
    return ChangefeedSpec(
        given.name,
        cast(ChangefeedMode, MODES[given.mode - 1]),
        cast(ChangefeedFormat, FORMATS[given.format - 1]),
        retention,
        given.virtual_timestamps,
        given.initial_scan,
        aws_region=given.aws_region,
        attributes=dict(given.attributes),
        partitions=partitions,
    )


# --- checks ----------------------------------------------------------------------------------------------------------


def check_spec(spec: ChangefeedSpec, attributes: Mapping[str, str], first_key_type: str) -> None:
    """Check a new changefeed of a table. `first_key_type`: of the first key column. Invalid: the first violation."""
    if spec.format != "JSON" and spec.mode == "UPDATES":
        raise Invalid(f"{spec.format} format incompatible with specified stream mode")
    if spec.format == "DYNAMODB_STREAMS_JSON" and int(attributes.get(DOCUMENT_API, "0") or 0) < 1:
        raise Invalid("DYNAMODB_STREAMS_JSON format incompatible with non-document table")
    if spec.aws_region and spec.format != "DYNAMODB_STREAMS_JSON":
        raise Invalid("AWS_REGION option incompatible with specified stream format")
    if len(spec.aws_region) > 128:
        raise Invalid("AWS_REGION is longer than 128 characters")
    if spec.virtual_timestamps and spec.format != "JSON":
        raise Invalid("VIRTUAL_TIMESTAMPS incompatible with specified stream format")
    if spec.retention is not None and spec.retention > MAX_RETENTION:
        raise Invalid(f"Retention period must be less than {MAX_RETENTION} seconds")
    if spec.partitions is not None:
        if first_key_type not in ("Uint32", "Uint64"):
            raise Invalid(
                "Explicit number of topic partitions is supported only if the first key column is Uint32 or Uint64"
            )
        if spec.partitions <= 0:
            raise Invalid("topic_min_active_partitions must be greater than 0")
        if spec.partitions > MAX_PARTITIONS:
            raise Invalid(f"a topic has at most {MAX_PARTITIONS} partitions")
