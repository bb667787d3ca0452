"""Physical settings in messages, converted from and to their names in YQL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

FEATURE_FLAGS: Final = {1: "ENABLED", 2: "DISABLED"}
"""FeatureFlag.Status by number."""

_FLAG_NUMBERS: Final = {word: number for number, word in FEATURE_FLAGS.items()}

_SWITCH_FIELDS: Final = {
    "partitioning_by_size": "AUTO_PARTITIONING_BY_SIZE",
    "partitioning_by_load": "AUTO_PARTITIONING_BY_LOAD",
}
_COUNT_FIELDS: Final = {
    "partition_size_mb": "AUTO_PARTITIONING_PARTITION_SIZE_MB",
    "min_partitions_count": "AUTO_PARTITIONING_MIN_PARTITIONS_COUNT",
    "max_partitions_count": "AUTO_PARTITIONING_MAX_PARTITIONS_COUNT",
}

_STORAGE_POOLS: Final = {
    "tablet_commit_log0": "TABLET_COMMIT_LOG0",
    "tablet_commit_log1": "TABLET_COMMIT_LOG1",
    "external": "EXTERNAL",
}
_EXTERNAL_BLOBS: Final = "STORE_EXTERNAL_BLOBS"

NOT_IN_YQL: Final = frozenset({*_STORAGE_POOLS.values(), _EXTERNAL_BLOBS, "PARTITION_BY"})
"""Stored settings without a name in YQL."""

DEFAULT_PARTITION_MB: Final = 2048
"""YDB's default size of a partition."""


def partitioning_settings(given: Any) -> dict[str, Any]:
    """Return the settings in PartitioningSettings."""
    found: dict[str, Any] = {}
    if given.partition_by:
        found["PARTITION_BY"] = list(given.partition_by)
    for field, name in _SWITCH_FIELDS.items():
        if getattr(given, field):
            found[name] = FEATURE_FLAGS[getattr(given, field)]
    for field, name in _COUNT_FIELDS.items():
        if getattr(given, field):
            found[name] = getattr(given, field)
    return found


def storage_settings(given: Any) -> dict[str, Any]:
    """Return the settings in StorageSettings."""
    found: dict[str, Any] = {
        name: getattr(given, field).media for field, name in _STORAGE_POOLS.items() if given.HasField(field)
    }
    if given.store_external_blobs:
        found[_EXTERNAL_BLOBS] = FEATURE_FLAGS[given.store_external_blobs]
    return found


def describe_partitioning(settings: Mapping[str, Any], into: Any, by_hash: bool) -> None:
    """Fill in PartitioningSettings, with YDB's defaults for settings that are not set.

    `by_hash`: rows are spread by hash, as in column tables.
    """
    # Only column tables are divided by hash; the setting of a row table is kept and not shown.
    if by_hash:
        into.partition_by.extend(settings.get("PARTITION_BY", ()))
    into.partitioning_by_size = _FLAG_NUMBERS[settings.get("AUTO_PARTITIONING_BY_SIZE", "ENABLED")]
    into.partitioning_by_load = _FLAG_NUMBERS[settings.get("AUTO_PARTITIONING_BY_LOAD", "DISABLED")]
    if into.partitioning_by_size == 1:
        into.partition_size_mb = settings.get("AUTO_PARTITIONING_PARTITION_SIZE_MB", DEFAULT_PARTITION_MB)
    into.min_partitions_count = settings.get("AUTO_PARTITIONING_MIN_PARTITIONS_COUNT", partition_count(settings))
    into.max_partitions_count = settings.get("AUTO_PARTITIONING_MAX_PARTITIONS_COUNT", 0)


def describe_other_settings(settings: Mapping[str, Any], into: Any) -> None:
    """Fill in the other physical fields of a DescribeTableResult."""
    if "KEY_BLOOM_FILTER" in settings:
        into.key_bloom_filter = _FLAG_NUMBERS[settings["KEY_BLOOM_FILTER"]]
    pools = {field: settings[name] for field, name in _STORAGE_POOLS.items() if name in settings}
    for field, media in pools.items():
        getattr(into.storage_settings, field).media = media
    if pools or _EXTERNAL_BLOBS in settings:
        into.storage_settings.store_external_blobs = _FLAG_NUMBERS[settings.get(_EXTERNAL_BLOBS, "DISABLED")]
    replicas = settings.get("READ_REPLICAS_SETTINGS")
    if replicas is not None:
        kind, _, count = replicas.partition(":")
        field = "per_az_read_replicas_count" if kind == "PER_AZ" else "any_az_read_replicas_count"
        setattr(into.read_replicas_settings, field, int(count))


def partition_count(settings: Mapping[str, Any]) -> int:
    """Return the number of partitions that a table reports."""
    if "UNIFORM_PARTITIONS" in settings:
        return max(1, int(settings["UNIFORM_PARTITIONS"]))
    return len(settings.get("PARTITION_AT_KEYS", ())) + 1
