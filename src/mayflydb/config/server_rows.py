"""The settings of the server as a whole: address, log, start, certificate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mayflydb.config import values as read
from mayflydb.config.row import Row

SERVER_ROWS: Final[Sequence[Row]] = (
    Row(
        "server.host",
        ("--host",),
        "localhost",
        read.text,
        "Address to listen on; localhost is 127.0.0.1 and ::1.",
        "ADDRESS",
    ),
    Row(
        "server.port",
        ("-p", "--port"),
        8081,
        read.port,
        "Port of Cosmos, admin API and metrics; 0 picks a free one.",
        "PORT",
    ),
    Row(
        "server.scheme",
        ("--scheme",),
        "http",
        read.choice("http", "https"),
        "Scheme of the printed endpoint. Loopback serves both on one port, other addresses https alone without --insecure.",
        "http|https",
    ),
    Row(
        "server.insecure",
        ("--insecure",),
        False,
        read.switch,
        "Also serve without TLS where other machines can connect: keys, passwords and data can be read on the way.",
        switch=True,
    ),
    Row(
        "server.secure",
        ("--secure",),
        False,
        read.switch,
        "Require a key and logins on loopback too: of Cosmos DB, MongoDB, YDB, the admin API and the portal.",
        switch=True,
    ),
    Row(
        "server.advertise",
        ("--advertise",),
        "",
        read.optional_address,
        "Address that Cosmos clients are given: HOST, HOST:PORT or https://HOST:PORT. Default: the address that each used.",
        "ADDRESS",
    ),
    Row(
        "server.allow_hosts",
        ("--allow-host",),
        [],
        read.texts,
        "A further host name that requests may name in their Host header; may be repeated.",
        "NAME",
        many=True,
    ),
    Row(
        "server.allow_time_travel",
        ("--allow-time-travel/--no-allow-time-travel",),
        "auto",
        read.optional_switch,
        "Allow people to move the clock. Default: on loopback, unless storage is PostgreSQL.",
        switch=True,
    ),
    Row(
        "server.ready_file",
        ("--ready-file",),
        "",
        read.optional_path,
        "Write the ready document to this file as well.",
        "PATH",
    ),
    Row(
        "server.stop_with_stdin",
        ("--stop-with-stdin",),
        False,
        read.switch,
        "Stop when standard input ends, as a pipe does when the process that started the server ends.",
        switch=True,
    ),
    Row(
        "server.log_format",
        ("--log-format",),
        "auto",
        read.choice("auto", "text", "json"),
        "Form of the log on stderr; auto is text on a terminal, else json.",
        "auto|text|json",
    ),
    Row(
        "server.log_level",
        ("--log-level",),
        "info",
        read.choice("debug", "info", "warning", "error"),
        "Least level that is logged.",
        "debug|info|warning|error",
    ),
    Row(
        "server.slow_request",
        ("--slow-request",),
        "1s",
        read.optional_interval,
        "Requests that take at least this long are logged, with what they read; off: none is.",
        "DURATION|off",
    ),
    Row(
        "server.preload",
        ("--preload/--no-preload",),
        False,
        read.switch,
        "Load what serves MongoDB's and YDB's clients at the start, and not with their first client or database.",
        switch=True,
    ),
    Row(
        "tls.names",
        ("--tls-name",),
        [],
        read.texts,
        "A further host name that the certificate is made out to; may be repeated.",
        "NAME",
        many=True,
    ),
)
