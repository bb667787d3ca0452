"""What the front end is told at its start."""

from __future__ import annotations

from typing import Literal

import msgspec

from mayflydb.model.instant import DAY, Span

Topology = Literal["mongos", "replicaset", "standalone"]


class Options(msgspec.Struct, frozen=True):
    """`replica_set`: its name, where the topology is one. `advertise`: `host:port` that its clients are sent to.

    `auth`: a login is needed. `compressors` in order of preference, of those that are installed. `secret` makes up the salts of
    users that do not exist. `profile`, `expiry`: what holds for databases that say nothing else. `version` is our own.
    `retention`: how long changes are remembered for change streams.
    """

    topology: Topology = "mongos"
    replica_set: str = ""
    advertise: str = "localhost:27017"
    wire_version: int = 21
    auth: bool = False
    compressors: tuple[str, ...] = ("zlib",)
    test_commands: bool = False
    max_connections: int = 1000
    profile: Literal["native", "both", "cosmos"] = "both"
    expiry: Literal["show", "hide"] = "show"
    secret: bytes = b""
    retention: Span = DAY
    version: str = "0"
