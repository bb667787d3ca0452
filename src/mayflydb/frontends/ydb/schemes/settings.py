"""Physical settings in YQL. They are stored and described, and have no effect, since tables are not sharded.

Names and texts: `yql/essentials/sql/v1/sql_translation.cpp` of https://github.com/ydb-platform/ydb.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from mayflydb.query.yql.definitions import Setting
from mayflydb.query.yql.faults import Fault, fault, unsupported
from mayflydb.query.yql.syntax import Expression, Literal_, Unary

_REPLICAS: Final = re.compile(r"(PER_AZ|ANY_AZ)\s*:\s*([0-9]+)\Z", re.IGNORECASE)


def _value_fault(setting: Setting, expected: str) -> Fault:
    return fault(f"{setting.name.upper()} value should be {expected}", setting.at)


def _parse_switch(setting: Setting) -> str:
    value = setting.value
    # TRUE and FALSE stand for the words as well.
    if isinstance(value, bool):
        return "ENABLED" if value else "DISABLED"
    word = _literal_text(value)
    if word is None or word.upper() not in ("ENABLED", "DISABLED"):
        raise _value_fault(setting, "one of: ENABLED, DISABLED")
    return word.upper()


def _parse_count(setting: Setting) -> int:
    value: Any = setting.value
    if isinstance(value, Literal_) and value.kind == "integer":
        value = value.value
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _value_fault(setting, "an integer")
    return value


def _parse_replicas(setting: Setting) -> str:
    match = _REPLICAS.match(_literal_text(setting.value) or "")
    if match is None:
        raise _value_fault(setting, "one of: PER_AZ:<count>, ANY_AZ:<count>")
    return f"{match[1].upper()}:{int(match[2])}"


def _parse_name(setting: Setting) -> str:
    word = _literal_text(setting.value)
    if not word:
        raise _value_fault(setting, "a string literal")
    return word


def _parse_split_points(setting: Setting) -> list[list[Any]]:
    value = setting.value
    if not isinstance(value, tuple):
        raise _value_fault(setting, "a list of keys")
    return [
        [_parse_constant(setting, part) for part in (each if isinstance(each, tuple) else (each,))] for each in value
    ]


def _parse_constant(setting: Setting, value: Expression) -> Any:
    if isinstance(value, Unary) and value.operator == "-":
        return -_parse_constant(setting, value.operand)
    if not isinstance(value, Literal_):
        raise _value_fault(setting, "a list of literals")
    return value.value.decode() if isinstance(value.value, bytes) else value.value


def _literal_text(value: Any) -> str | None:
    if isinstance(value, Literal_):
        value = value.value
    if isinstance(value, bytes):
        return value.decode()
    return value if isinstance(value, str) else None


PARSERS: Final[Mapping[str, Callable[[Setting], Any]]] = {
    "AUTO_PARTITIONING_BY_SIZE": _parse_switch,
    "AUTO_PARTITIONING_BY_LOAD": _parse_switch,
    "AUTO_PARTITIONING_PARTITION_SIZE_MB": _parse_count,
    "AUTO_PARTITIONING_MIN_PARTITIONS_COUNT": _parse_count,
    "AUTO_PARTITIONING_MAX_PARTITIONS_COUNT": _parse_count,
    "UNIFORM_PARTITIONS": _parse_count,
    "PARTITION_AT_KEYS": _parse_split_points,
    "KEY_BLOOM_FILTER": _parse_switch,
    "READ_REPLICAS_SETTINGS": _parse_replicas,
    "COMPACTION_POLICY": _parse_name,
    "PARTITION_COUNT": _parse_count,
}
"""The parser of each setting's value."""

UNSUPPORTED: Final = frozenset(
    {
        "TIERING",
        "DATA_SOURCE",
        "LOCATION",
        "EXTERNAL_DATA_CHANNELS_COUNT",
        "STORE_EXTERNAL_BLOBS",
        "METADATA_CACHE_SIZE",
    }
)
"""Settings of features that are not supported."""

UNALTERABLE: Final = frozenset({"UNIFORM_PARTITIONS", "PARTITION_AT_KEYS", "STORE", "PARTITION_COUNT"})
"""Settings of CREATE TABLE that ALTER TABLE cannot change."""


def parse_setting(setting: Setting) -> tuple[str, Any]:
    """Return (name, value) of a physical setting. Faults: an unknown setting or an invalid value."""
    name = setting.name.upper()
    if name in UNSUPPORTED:
        raise unsupported(f"Table setting {name}", setting.at)
    known = PARSERS.get(name)
    if known is None:
        raise fault(f"Unknown table setting: {setting.name}", setting.at)
    return name, known(setting)
