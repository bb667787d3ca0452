"""Options of the front end. An option that is a setting has the setting's name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from mayflydb.model.instant import DAY, Span

Topology = Literal["mongos", "replicaset", "standalone"]
Profile: TypeAlias = Literal["native", "both", "cosmos"]
Expiry: TypeAlias = Literal["show", "hide"]


class CollectionOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Options of one collection; None: as in its database."""

    expiry: Expiry | None = None


class DatabaseOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Options of one database; None: as on the server. `collections`: by name."""

    profile: Profile | None = None
    expiry: Expiry | None = None
    custom_path_ttl: bool | None = None
    collections: Mapping[str, CollectionOptions] = {}


class Options(msgspec.Struct, frozen=True):
    """Options of the front end.

    `replica_set`: its name under that topology. `advertise`: the `host:port` under which clients find the server.
    `auth`: a login is needed. `compressors`: in order of preference; all are installed. `secret`: makes the salts of
    users that do not exist. `profile`, `expiry`, `custom_path_ttl`: defaults for what `databases` does not set.
    `max_cursors`, `max_cursors_per_session`, `cursor_bytes`, `max_sessions`: limits of open cursors, of the bytes that they keep,
    and of sessions. `change_stream_retention`: the span for which changes are kept. `serverless`: nothing has throughput.
    `version`: Mayfly's.
    """

    topology: Topology = "mongos"
    replica_set: str = ""
    advertise: str = "localhost:27017"
    wire_version: int = 25
    auth: bool = False
    compressors: tuple[str, ...] = ("zlib",)
    test_commands: bool = False
    max_connections: int = 1000
    max_cursors: int = 10_000
    max_cursors_per_session: int = 100
    cursor_bytes: int = 64 << 20
    max_sessions: int = 100_000
    profile: Profile = "both"
    expiry: Expiry = "show"
    custom_path_ttl: bool = False
    databases: Mapping[str, DatabaseOptions] = {}
    secret: bytes = b""
    change_stream_retention: Span = DAY
    serverless: bool = False
    version: str = "0"
