"""The settings of MongoDB's front end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mayflydb.config import values as read
from mayflydb.config.row import Row

MONGO_ROWS: Final[Sequence[Row]] = (
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
        "Require logins of MongoDB's clients. Default: where other machines can connect, or an administrator is given.",
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
        "show: documents that expired by a date index are seen until they are purged, as in MongoDB; hide: up to their deadline.",
        "show|hide",
    ),
    Row(
        "mongo.custom_path_ttl",
        ("--mongo-custom-path-ttl/--no-mongo-custom-path-ttl",),
        False,
        read.switch,
        "Allow collections of profile cosmos a TTL index on another field than _ts.",
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
        "Age up to which changes are kept for MongoDB's change streams, where one was ever opened.",
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
)
