"""The table of settings: each with its flag, variable, TOML key, default and help. `settings` has the types."""

from __future__ import annotations

from mayflydb.config.archive_rows import ARCHIVE_ROWS
from mayflydb.config.cosmos_rows import COSMOS_ROWS
from mayflydb.config.emulators import DROP_IN_ROW
from mayflydb.config.limit_rows import LIMIT_ROWS
from mayflydb.config.mongo_rows import MONGO_ROWS
from mayflydb.config.row import Row
from mayflydb.config.seed_rows import SEED_ROWS
from mayflydb.config.server_rows import SERVER_ROWS
from mayflydb.config.storage_rows import STORAGE_ROWS
from mayflydb.config.ttl_rows import TTL_ROWS
from mayflydb.config.ydb_rows import YDB_ROWS

TABLE: tuple[Row, ...] = (
    *SERVER_ROWS,
    *SEED_ROWS,
    DROP_IN_ROW,
    *STORAGE_ROWS,
    *TTL_ROWS,
    *ARCHIVE_ROWS,
    *COSMOS_ROWS,
    *MONGO_ROWS,
    *YDB_ROWS,
    *LIMIT_ROWS,
)
