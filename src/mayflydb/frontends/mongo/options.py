"""What the front end is told at its start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from mayflydb.model.instant import DAY, Span

Topology = Literal["mongos", "replicaset", "standalone"]
Profile: TypeAlias = Literal["native", "both", "cosmos"]
Expiry: TypeAlias = Literal["show", "hide"]


class DatabaseOptions(msgspec.Struct, frozen=True):
    """What a database has otherwise than the server; None: nothing. `collections`: what collections have otherwise, by name."""

    profile: Profile | None = None
    expiry: Expiry | None = None
    custom_path: bool | None = None
    collections: Mapping[str, Expiry] = {}


class Options(msgspec.Struct, frozen=True):
    """`replica_set`: its name, where the topology is one. `advertise`: `host:port` that its clients are sent to.

    `auth`: a login is needed. `compressors` in order of preference, of those that are installed. `secret` makes up the salts of
    users that do not exist. `profile`, `expiry`, `custom_path`: what holds where `databases` says nothing else. `retention`: how
    long changes are remembered for change streams. `serverless`: nothing has throughput. `version`: ours.
    """

    topology: Topology = "mongos"
    replica_set: str = ""
    advertise: str = "localhost:27017"
    wire_version: int = 25
    auth: bool = False
    compressors: tuple[str, ...] = ("zlib",)
    test_commands: bool = False
    max_connections: int = 1000
    profile: Profile = "both"
    expiry: Expiry = "show"
    custom_path: bool = False
    databases: Mapping[str, DatabaseOptions] = {}
    secret: bytes = b""
    retention: Span = DAY
    serverless: bool = False
    version: str = "0"
