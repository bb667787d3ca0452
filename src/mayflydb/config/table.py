"""The table of settings: each with its flag, variable, TOML key, default and help. `settings` has the types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from mayflydb.config import values as read


class Row(msgspec.Struct, frozen=True):
    """One setting. `key` is its TOML key and its place in Settings: the section is its first word, the name its last.

    `default` is written as in TOML. `parse` takes what a flag or variable gave (text), or a TOML value; ValueError with a
    sentence for people. A flag named `--a/--no-a` or `--a` with `switch` takes no value; `many` may be repeated.
    """

    key: str
    flags: tuple[str, ...]
    default: Any
    parse: Callable[[Any], Any]
    help: str
    metavar: str = "TEXT"
    switch: bool = False
    many: bool = False

    @property
    def variable(self) -> str:
        """`MAYFLY_SERVER_PORT` for `server.port`."""
        return "MAYFLY_" + self.key.replace(".", "_").upper()


TABLE: tuple[Row, ...] = (
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
        "Scheme of the printed endpoint; both are always served on the one port.",
        "http|https",
    ),
    Row(
        "server.advertise",
        ("--advertise",),
        "",
        read.optional_address,
        "Where Cosmos clients are told to go: HOST, HOST:PORT or https://HOST:PORT. Default: the address each of them used.",
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
        "Whether people may move the clock. Default: yes on loopback, unless storage is PostgreSQL; else no.",
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
        "storage.url",
        ("--storage",),
        "sqlite:///./mayfly.db",
        read.storage,
        "memory; sqlite:/// and a path (absolute unless it starts with ./); or a URL as libpq has it, such as "
        "postgresql://user@host:port/database or postgresql:///database?host=/run/postgresql.",
        "URL",
    ),
    Row(
        "clock.mode",
        ("--clock",),
        "real",
        read.choice("real", "virtual"),
        "A virtual clock stands still until it is moved.",
        "real|virtual",
    ),
    Row(
        "clock.start",
        ("--clock-start",),
        "",
        read.optional_time,
        "Where a virtual clock starts. Default: the real current second.",
        "TIME",
    ),
    Row(
        "cosmos.key_file",
        ("--key-file",),
        "",
        read.optional_path,
        "File with the account key (base64). Default: the emulator's well-known key, on loopback only.",
        "PATH",
    ),
    Row(
        "cosmos.generate_key",
        ("--generate-key",),
        False,
        read.switch,
        "Make an account key at the first start and keep it in a file that only you can read.",
        switch=True,
    ),
    Row(
        "cosmos.cross_partition",
        ("--cross-partition",),
        "azure",
        read.choice("azure", "direct"),
        "azure: queries over partitions follow the gateway's rules; direct: answer them in one go.",
        "azure|direct",
    ),
    Row(
        "cosmos.check_date",
        ("--check-date/--no-check-date",),
        False,
        read.switch,
        "Refuse requests that were signed more than 15 minutes ago or ahead.",
        switch=True,
    ),
    Row(
        "cosmos.index_after",
        ("--index-after",),
        10_000,
        read.count,
        "Items that queries may read in vain before a path gets an index; 0: no indexes are built.",
        "ITEMS",
    ),
    Row(
        "cosmos.capacity",
        ("--capacity",),
        "provisioned",
        read.choice("provisioned", "serverless"),
        "provisioned: containers and databases have throughput; serverless: none has, and asking for it is refused.",
        "provisioned|serverless",
    ),
    Row(
        "cosmos.query_rules",
        ("--query-rules",),
        "strict",
        read.choice("strict", "lenient"),
        "strict: queries that the service refuses are refused; lenient: those that can be run are run.",
        "strict|lenient",
    ),
    Row(
        "cosmos.throttling",
        ("--throttling/--no-throttling",),
        False,
        read.switch,
        "Answer 429 to requests over the provisioned throughput.",
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
    Row(
        "ttl.sweep_interval",
        ("--sweep-interval",),
        "1s",
        read.interval,
        "How often expired items are purged.",
        "DURATION",
    ),
    Row(
        "ttl.mongo_sweep_interval",
        ("--mongo-sweep-interval",),
        "60s",
        read.interval,
        "How often documents that died by a date are removed, until a client sets ttlMonitorSleepSecs.",
        "DURATION",
    ),
    Row(
        "ttl.charge",
        ("--ttl-charge",),
        "leftover",
        read.choice("leftover", "free", "serverless"),
        "What purging costs. leftover: as deletes, and with throttling only what requests left over of each second; serverless: "
        "as deletes, never waiting; free: nothing.",
        "leftover|free|serverless",
    ),
    Row(
        "mongo.port",
        ("--mongo-port",),
        "auto",
        read.optional_port,
        "Port of MongoDB; 0 picks a free one, -1 is off. Default: 27017, or a free one where --port is 0.",
        "PORT",
    ),
    Row(
        "mongo.topology",
        ("--mongo-topology",),
        "mongos",
        read.topology,
        "What MongoDB's drivers find: mongos, standalone or replicaset:NAME.",
        "TOPOLOGY",
    ),
    Row(
        "mongo.advertise",
        ("--mongo-advertise",),
        "",
        read.optional_host,
        "HOST or HOST:PORT that clients of a replica set are told to go to. Default: the address that is listened on.",
        "ADDRESS",
    ),
    Row(
        "mongo.wire_version",
        ("--mongo-wire-version",),
        25,
        read.wire_version,
        "Release that MongoDB's drivers find: 25 is 8.0. 9, 13, 17, 21, 25 or 29.",
        "VERSION",
    ),
    Row(
        "mongo.auth",
        ("--mongo-auth/--no-mongo-auth",),
        "auto",
        read.optional_switch,
        "Whether MongoDB's clients log in. Default: where other machines can come in, or an administrator is given.",
        switch=True,
    ),
    Row(
        "mongo.password_file",
        ("--mongo-password-file",),
        "",
        read.optional_path,
        "File with the password of MongoDB's user admin. Default: one is made, in a file that only you can read.",
        "PATH",
    ),
    Row(
        "mongo.compressors",
        ("--mongo-compressor",),
        "auto",
        read.compressors,
        "A compressor that MongoDB's clients may use: zstd, snappy or zlib; may be repeated. Default: those installed.",
        "NAME",
        many=True,
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
        "mongo.profile",
        ("--mongo-profile",),
        "both",
        read.choice("native", "both", "cosmos"),
        "Whose rules hold: native is MongoDB's, cosmos those of Azure Cosmos DB for MongoDB, both takes either's TTL.",
        "native|both|cosmos",
    ),
    Row(
        "mongo.expiry",
        ("--mongo-expiry",),
        "show",
        read.choice("show", "hide"),
        "show: what a date index has let die is seen until it is purged, as in MongoDB; hide: it is gone at its deadline.",
        "show|hide",
    ),
    Row(
        "mongo.custom_path_ttl",
        ("--mongo-custom-path-ttl/--no-mongo-custom-path-ttl",),
        False,
        read.switch,
        "Whether collections of profile cosmos may have their TTL index on a field of their own, instead of _ts.",
        switch=True,
    ),
    Row(
        "mongo.databases",
        ("--mongo-database",),
        {},
        read.mongo_databases,
        "What one database has otherwise: shop.profile=cosmos, shop.expiry=hide, shop.custom_path_ttl=on; or one collection: "
        "shop.carts.expiry=hide. May be repeated.",
        "SETTING",
        many=True,
    ),
    Row(
        "mongo.change_stream_retention",
        ("--mongo-change-stream-retention",),
        "24h",
        read.retention,
        "How long changes are remembered for MongoDB's change streams, where one was ever opened.",
        "DURATION",
    ),
    Row(
        "mongo.test_commands",
        ("--mongo-test-commands",),
        False,
        read.switch,
        "Serve configureFailPoint, by which clients rehearse failures.",
        switch=True,
    ),
    Row(
        "ydb.port",
        ("--ydb-port",),
        "auto",
        read.optional_port,
        "Port of YDB; 0 picks a free one, -1 is off. Default: 2136, or a free one where --port is 0.",
        "PORT",
    ),
    Row(
        "ydb.tls_port",
        ("--ydb-tls-port",),
        "auto",
        read.optional_port,
        "Port of YDB with TLS; 0 picks a free one, -1 is off. Default: 2135 where --ydb-port is 2136, else off.",
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
        "Whether YDB's clients log in. Default: where other machines can come in, or a password is given.",
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
        "ydb.ttl.hide_expired",
        ("--ydb-hide-expired/--no-ydb-hide-expired",),
        False,
        read.switch,
        "Whether rows are seen no more from their deadline on; otherwise until they are erased, as in YDB.",
        switch=True,
    ),
    Row(
        "ttl.ydb_run_interval",
        ("--ydb-run-interval",),
        "1h",
        read.run_interval,
        "How often rows of a YDB table that are due are erased, unless its TTL settings say otherwise.",
        "DURATION",
    ),
    Row(
        "ttl.ydb_min_run_interval",
        ("--ydb-min-run-interval",),
        "15m",
        read.run_interval,
        "The least run interval that the TTL settings of a YDB table may ask for.",
        "DURATION",
    ),
    Row(
        "ttl.ydb_tick",
        ("--ydb-tick",),
        "60s",
        read.run_interval,
        "How far the instants are apart at which runs over YDB tables may begin.",
        "DURATION",
    ),
    Row(
        "ttl.ydb_retry_interval",
        ("--ydb-retry-interval",),
        "5m",
        read.run_interval,
        "How long a YDB table waits whose run has failed.",
        "DURATION",
    ),
    Row(
        "ttl.ydb_removal",
        ("--ydb-removal/--no-ydb-removal",),
        True,
        read.switch,
        "Whether rows of YDB tables are erased in the background; otherwise only by runs on demand.",
        switch=True,
    ),
)
