"""The settings of Azure Cosmos DB's front end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mayflydb.config import values as read
from mayflydb.config.row import Row

COSMOS_ROWS: Final[Sequence[Row]] = (
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
        "cosmos.entra_file",
        ("--entra-file",),
        "",
        read.optional_path,
        "File (JSON or TOML) with the issuers of Entra ID tokens, role definitions and role assignments. Default: only the "
        "emulator's tokens are accepted.",
        "PATH",
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
        "auto",
        read.optional_switch,
        "Refuse requests signed more than 15 minutes ago or ahead. Default: where other machines can connect; always there.",
        switch=True,
    ),
    Row(
        "cosmos.consistency",
        ("--consistency",),
        "session",
        read.choice("strong", "bounded-staleness", "session", "consistent-prefix", "eventual"),
        "The account's consistency level: clients are told it and may ask for weaker ones. All reads are strong.",
        "LEVEL",
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
)
