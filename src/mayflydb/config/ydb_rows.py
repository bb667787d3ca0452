"""The settings of YDB's front end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mayflydb.config import values as read
from mayflydb.config.row import Row

YDB_ROWS: Final[Sequence[Row]] = (
    Row(
        "ydb.port",
        ("--ydb-port",),
        "auto",
        read.optional_port,
        "Port of YDB without TLS; 0 picks a free one, -1 is off. Default: 2136, or a free one where --port is 0; off where "
        "other machines can connect, unless --insecure.",
        "PORT",
    ),
    Row(
        "ydb.tls_port",
        ("--ydb-tls-port",),
        "auto",
        read.optional_port,
        "Port of YDB with TLS; 0 picks a free one, -1 is off. Default: 2135 where --ydb-port is 2136, or where YDB is served "
        "with TLS alone; else off.",
        "PORT",
    ),
    Row(
        "ydb.databases",
        ("--ydb-database",),
        ["/local", "/Root"],
        read.ydb_databases,
        "The path of a database that YDB's clients may name; may be repeated. The first is meant where they name none.",
        "PATH",
        many=True,
    ),
    Row(
        "ydb.advertise",
        ("--ydb-advertise",),
        "",
        read.optional_host,
        "HOST or HOST:PORT that YDB's clients are told to go to. Default: an address by which each of them can come.",
        "ADDRESS",
    ),
    Row(
        "ydb.auth",
        ("--ydb-auth/--no-ydb-auth",),
        "auto",
        read.optional_switch,
        "Require logins of YDB's clients. Default: where other machines can connect, or a password is given.",
        switch=True,
    ),
    Row(
        "ydb.password_file",
        ("--ydb-password-file",),
        "",
        read.optional_path,
        "File with the password of YDB's user root. Default: one is made, in a file that only you can read.",
        "PATH",
    ),
    Row(
        "ydb.max_users",
        ("--ydb-max-users",),
        1_000,
        read.positive,
        "The most users and groups of YDB together.",
        "USERS",
    ),
    Row(
        "ydb.ttl.hide_expired",
        ("--ydb-hide-expired/--no-ydb-hide-expired",),
        False,
        read.switch,
        "Hide rows from their deadline on; otherwise they are seen until they are erased, as in YDB.",
        switch=True,
    ),
)
