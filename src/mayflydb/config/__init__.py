"""Settings: one table, read once into one frozen structure. No package below reads the environment.

A setting stands in two places, a row of `table` and a field of `settings`. The row is data: flags, help, default and parser, in
the order of the help text. The field gives mypy the type. A row alone would make every setting Any; a table derived from
annotated fields would be evaluated at each start of the command line, could not give the help another order than the structures
have, and would leave the parser's result as unchecked against the field as it is. `tests/config/test_settings.py` names a row
without its field and a field without its row.
"""

from __future__ import annotations

from mayflydb.config.load import LoadedSettings, find_config_file, load
from mayflydb.config.row import RawValue, Row
from mayflydb.config.settings import (
    ClockSettings,
    CosmosSettings,
    LimitSettings,
    ServerSettings,
    Settings,
    StorageSettings,
    TlsSettings,
    TtlSettings,
)
from mayflydb.config.table import TABLE
from mayflydb.config.values import MEMORY, file_url, without_secrets

__all__ = [
    "MEMORY",
    "TABLE",
    "ClockSettings",
    "CosmosSettings",
    "LimitSettings",
    "LoadedSettings",
    "RawValue",
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
