"""Settings: one table, read once into one frozen structure. No package below reads the environment."""

from __future__ import annotations

from mayflydb.config.load import Given, Loaded, find_config_file, load
from mayflydb.config.settings import (
    ClockSettings,
    CosmosSettings,
    ServerSettings,
    Settings,
    StorageSettings,
    TlsSettings,
    TtlSettings,
)
from mayflydb.config.table import TABLE, Row
from mayflydb.config.values import MEMORY, file_url, without_secrets

__all__ = [
    "MEMORY",
    "TABLE",
    "ClockSettings",
    "CosmosSettings",
    "Given",
    "Loaded",
    "Row",
    "ServerSettings",
    "Settings",
    "StorageSettings",
    "TlsSettings",
    "TtlSettings",
    "file_url",
    "find_config_file",
    "load",
    "without_secrets",
]
