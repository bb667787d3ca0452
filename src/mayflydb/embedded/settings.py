"""Settings from keywords: the flags of `mayfly serve`, as Python names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from mayflydb.config import MEMORY, TABLE, RawValue, Row, Settings, file_url, load

_OF_A_PROCESS: Final = frozenset(
    {"server.log_format", "server.log_level", "server.ready_file", "server.stop_with_stdin"}
)
"""Settings that would have no effect here: logging and standard input belong to the process, and the ready file is for others."""

_WITHOUT_PORTS: Final = frozenset(
    {
        "cosmos.capacity", "cosmos.consistency", "cosmos.cross_partition", "cosmos.index_after", "cosmos.query_rules",
        "cosmos.throttling", "limits.event_streams", "server.allow_time_travel", "server.initdb", "server.seed",
        "server.slow_request",
    }
)  # fmt: skip
"""Settings of a database without ports, besides those of the store, queries, the clock and TTL."""

_PORTS: Final = {"mongo.port": -1, "ydb.port": -1, "ydb.tls_port": -1}


def settings_from(path: str | Path | None, memory: bool, keywords: Mapping[str, Any]) -> Settings:
    """Build settings from keywords of `serve`. TypeError, StartFailed."""
    given = _collect_raw(keywords, lambda row: row.key not in _OF_A_PROCESS)
    if memory + (path is not None) + ("storage" in keywords) > 1:
        raise TypeError("one of path, memory and storage")
    if memory:
        given["storage.url"] = RawValue(MEMORY, "keyword memory")
    elif path is not None:
        if "://" in str(path):
            # The message does not repeat the value, which may hold a password.
            raise TypeError("path is a file's; a URL goes into storage=")
        if str(path) == ":memory:":
            raise TypeError("path is a file's; memory=True keeps everything in memory")
        given["storage.url"] = RawValue(file_url(Path(path)), "path")
    return load(given, environ={}, search=False).settings


def settings_without_ports(place: str | Path, keywords: Mapping[str, Any]) -> Settings:
    """Build settings from the arguments of `open`. TypeError, StartFailed."""
    given = _collect_raw(keywords, _is_of_databases)
    url = str(place)
    if url == ":memory:":
        url = MEMORY
    elif "://" not in url:
        url = file_url(Path(place))
    elif not url.startswith(("postgresql://", "postgres://")):
        # The message does not repeat the value, which may hold a password.
        raise TypeError("the first argument is a file, :memory: or postgresql://...")
    ports = {key: RawValue(port, "open") for key, port in _PORTS.items()}
    return load(given | ports | {"storage.url": RawValue(url, "path")}, environ={}, search=False).settings


def _is_of_databases(row: Row) -> bool:
    section = row.key.partition(".")[0]
    return row.key != "storage.url" and (
        section in ("archive", "storage", "queries", "clock", "ttl") or row.key in _WITHOUT_PORTS
    )


def _collect_raw(keywords: Mapping[str, Any], has_effect: Callable[[Row], bool]) -> dict[str, RawValue]:
    """Return raw values by key. TypeError for a keyword that is none, or would have no effect."""
    rows = {_keyword(row): row for row in TABLE if has_effect(row)}
    for name in keywords:
        if name not in rows:
            raise TypeError(f"there is no setting {name!r}; those that exist: {', '.join(sorted(rows))}")
    return {rows[name].key: RawValue(value, f"keyword {name}") for name, value in keywords.items()}


def _keyword(row: Row) -> str:
    return row.flags[-1].partition("/")[0].removeprefix("--").replace("-", "_")
