"""The settings that limit what clients may have: connections, cursors, sessions, transactions, bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mayflydb.config import values as read
from mayflydb.config.row import Row

LIMIT_ROWS: Final[Sequence[Row]] = (
    Row(
        "server.max_connections",
        ("--max-connections",),
        1000,
        read.positive,
        "Connections of HTTP clients at once; more are closed as they come.",
        "CONNECTIONS",
    ),
    Row(
        "mongo.max_connections",
        ("--mongo-max-connections",),
        1000,
        read.positive,
        "Connections of MongoDB's clients at once; more are closed as they come.",
        "CONNECTIONS",
    ),
    Row(
        "mongo.max_cursors",
        ("--mongo-max-cursors",),
        10_000,
        read.positive,
        "Open cursors of MongoDB's clients; a query that needs a further one is refused.",
        "CURSORS",
    ),
    Row(
        "mongo.max_cursors_per_session",
        ("--mongo-max-cursors-per-session",),
        100,
        read.positive,
        "Open cursors of one session of MongoDB's clients.",
        "CURSORS",
    ),
    Row(
        "mongo.cursor_bytes",
        ("--mongo-cursor-bytes",),
        "64MiB",
        read.size,
        "Bytes of results that all open cursors of MongoDB's clients together hold.",
        "SIZE",
    ),
    Row(
        "mongo.max_sessions",
        ("--mongo-max-sessions",),
        100_000,
        read.positive,
        "Sessions of MongoDB's clients; a command in a further one is refused.",
        "SESSIONS",
    ),
    Row(
        "ydb.max_connections",
        ("--ydb-max-connections",),
        1000,
        read.positive,
        "Connections of YDB's clients at once to each port; more are closed as they come.",
        "CONNECTIONS",
    ),
    Row(
        "ydb.max_calls",
        ("--ydb-max-calls",),
        2000,
        read.positive,
        "Calls of YDB's clients in work, open streams of sessions included; more are refused.",
        "CALLS",
    ),
    Row(
        "ydb.max_sessions",
        ("--ydb-max-sessions",),
        1000,
        read.positive,
        "Sessions of YDB's clients; a further one is refused.",
        "SESSIONS",
    ),
    Row(
        "ydb.max_session_transactions",
        ("--ydb-max-session-transactions",),
        10,
        read.positive,
        "Open transactions of one session of YDB's clients.",
        "TRANSACTIONS",
    ),
    Row(
        "limits.bytes_in_flight",
        ("--bytes-in-flight",),
        "160MiB",
        read.size,
        "Bytes of unfinished requests and of answers that are not read yet, of all clients together.",
        "SIZE",
    ),
    Row(
        "limits.connections_per_address",
        ("--connections-per-address",),
        500,
        read.positive,
        "Connections from one address to one port of HTTP or MongoDB.",
        "CONNECTIONS",
    ),
    Row(
        "limits.event_streams",
        ("--event-streams",),
        100,
        read.positive,
        "Open streams of events of the admin API; a further one is refused.",
        "STREAMS",
    ),
    Row(
        "limits.open_transactions",
        ("--open-transactions",),
        1000,
        read.positive,
        "Open transactions of MongoDB's and YDB's clients; a further one is refused.",
        "TRANSACTIONS",
    ),
    Row(
        "limits.transaction_bytes",
        ("--transaction-bytes",),
        "192MiB",
        read.size,
        "Bytes of the writes of all open transactions; half as much again of versions that are kept for them.",
        "SIZE",
    ),
)
