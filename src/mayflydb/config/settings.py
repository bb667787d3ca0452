"""The settings of a server: one frozen structure, grouped by the part that each concerns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from mayflydb.config.emulators import DropIn
from mayflydb.config.values import (
    FILE_SCHEME,
    MEMORY,
    Advertised,
    is_loopback,
    path_in_url,
    public_url,
    without_secrets,
)
from mayflydb.frontends.mongo.options import DatabaseOptions, Expiry, Profile
from mayflydb.model.instant import Instant, Span
from mayflydb.store import postgres_urls


class ServerSettings(msgspec.Struct, frozen=True):
    """The address of the HTTP port, and the settings of the whole process. `port` 0: a free one.

    `insecure`: other machines may connect without TLS. `secure`: keys and logins are required on loopback too.
    `slow_request`: requests that take at least this long are logged; None: none is.
    `preload`: front ends are loaded at the start, not by their first clients.
    """

    host: str
    port: int
    scheme: Literal["http", "https"]
    insecure: bool
    secure: bool
    advertise: Advertised | None
    allow_hosts: tuple[str, ...]
    seed: tuple[str, ...]
    initdb: tuple[str, ...]
    allow_time_travel: bool
    ready_file: Path | None
    stop_with_stdin: bool
    slow_request: Span | None
    preload: bool
    drop_in: bool
    log_format: Literal["auto", "text", "json"]
    log_level: Literal["debug", "info", "warning", "error"]
    access_log: Literal["off", "text", "json"] | Path
    trace_endpoint: str
    trace_ratio: float
    trace_service: str
    max_connections: int

    @property
    def loopback(self) -> bool:
        """True: the configured host is reachable from this machine alone. A name other than localhost counts as reachable from
        others.
        """
        return is_loopback(self.host)

    def endpoint_for(self, used: str) -> str:
        """The endpoint for a client of Cosmos DB that used the address `used`. Both have the form `scheme://host:port`."""
        return used if self.advertise is None else self.advertise.instead_of(used)

    @property
    def advertised_names(self) -> tuple[str, ...]:
        """The host name that clients are given, where it is not the one they used."""
        return () if self.advertise is None else (self.advertise.host.strip("[]"),)

    @property
    def bound_names(self) -> tuple[str, ...]:
        """The host that is listened on, unless it is this machine alone, or stands for all addresses."""
        host = self.host.strip("[]")
        return () if self.loopback or host in ("0.0.0.0", "::") else (host,)  # noqa: S104 - compared, not bound


StorageKind = Literal["memory", "sqlite", "postgresql"]


class StorageSettings(msgspec.Struct, frozen=True):
    """`memory`, `sqlite:///absolute/path` or `postgresql://user:password@host:port/database`; `shown` has no secret in it.

    `reserve`, `min_free`: bytes of a file's disk that are kept allocated, and that must be free for writes; None: the defaults.
    `key_file`: the keys of sealed records; None: beside the file.
    `history_limit`: the most versions of the history of one container.
    """

    url: str
    reserve: int | None = None
    min_free: int | None = None
    key_file: Path | None = None
    history_limit: int = 1_000_000

    def __repr__(self) -> str:
        return f"StorageSettings(url={self.shown!r})"

    @property
    def kind(self) -> StorageKind:
        """The store of the data. ValueError for a URL that `storage` of `config/values.py` does not return."""
        if self.url == MEMORY:
            return "memory"
        if self.url.startswith(FILE_SCHEME):
            return "sqlite"
        if self.url.startswith(postgres_urls.SCHEME):
            return "postgresql"
        raise ValueError(f"{without_secrets(self.url)!r} names no kind of store")

    @property
    def path(self) -> Path | None:
        """The SQLite file; None where there is none."""
        return path_in_url(self.url) if self.kind == "sqlite" else None

    @property
    def shown(self) -> str:
        """The URL without user, password and options."""
        return public_url(self.url)

    @property
    def shared(self) -> bool:
        """True: other servers may work on the same store, by the same time."""
        return self.kind == "postgresql"


class ClockSettings(msgspec.Struct, frozen=True):
    """`start` is where a virtual clock begins; None: at the real current second.

    `jump`, `hold`, `steady`: as `Belief` has them.
    """

    mode: Literal["real", "virtual"]
    start: Instant | None
    jump: Span
    hold: Span
    steady: Span


class QuerySettings(msgspec.Struct, frozen=True):
    """`threads`: queries that compute at once. `memory`: bytes of all queries together. `time_limit`: the longest time of one."""

    threads: int
    memory: int
    time_limit: Span


class CosmosSettings(msgspec.Struct, frozen=True):
    """`key_file` holds the account key in base64; without it the emulator's well-known key counts, unless one is generated.

    `index_after`: items that queries read without a match before an index is built; 0: no index is built.
    """

    key_file: Path | None
    generate_key: bool
    entra_file: Path | None
    cross_partition: Literal["azure", "direct"]
    check_date: bool
    consistency: Literal["strong", "bounded-staleness", "session", "consistent-prefix", "eventual"]
    index_after: int
    capacity: Literal["provisioned", "serverless"]
    query_rules: Literal["strict", "lenient"]
    throttling: bool


class Administrator(msgspec.Struct, frozen=True):
    """A user that may do everything, given by name and password. `path`: the file of the password, if it came from one."""

    name: str
    password: str
    path: Path | None = None

    def __repr__(self) -> str:
        return f"Administrator({self.name!r})"


class MongoSettings(msgspec.Struct, frozen=True):
    """`port` 0: a free one; -1: MongoDB is not served. `topology`: `mongos`, `standalone` or `replicaset:NAME`.

    `auth`: whether a login is needed; None: where other machines can come in, or an administrator is given. `password_file` holds
    the password of the user `admin`. `compressors`: None: those that are installed. `wire_version` is that of a release.
    """

    port: int
    topology: str
    advertise: Advertised | None
    wire_version: int
    auth: bool | None
    password_file: Path | None
    compressors: tuple[str, ...] | None
    max_connections: int
    max_cursors: int
    max_cursors_per_session: int
    cursor_bytes: int
    max_sessions: int
    profile: Profile
    expiry: Expiry
    custom_path_ttl: bool
    databases: Mapping[str, DatabaseOptions]
    test_commands: bool
    change_stream_retention: Span
    administrator: Administrator | None = None


class YdbSettings(msgspec.Struct, frozen=True):
    """`port`, `tls_port`: 0: a free one; -1: off. `databases`: the paths that clients may name; the first is the usual one.

    `auth`: whether a login is needed; None: where other machines can come in, or a password is given. `password_file` holds the
    password of the user `root`. `max_users`: the most users and groups. `hide_expired`: rows are seen no more from their deadline
    on, not only when they are erased.
    """

    port: int
    tls_port: int
    databases: tuple[str, ...]
    advertise: Advertised | None
    auth: bool | None
    password_file: Path | None
    max_users: int
    hide_expired: bool
    max_connections: int
    max_calls: int
    max_sessions: int
    max_session_transactions: int

    @property
    def served(self) -> bool:
        """True: at least one port is open."""
        return self.port != -1 or self.tls_port != -1


class TlsSettings(msgspec.Struct, frozen=True):
    """`names`: host names besides localhost that the certificate is made out to.

    `cert_file`: a person's own certificate, PEM or PFX; `key_file`: its key, where that is in another file.
    """

    names: tuple[str, ...]
    cert_file: Path | None = None
    key_file: Path | None = None
    key_password_file: Path | None = None


class TtlSettings(msgspec.Struct, frozen=True):
    """The interval of the reaper and the price of purges. `ydb_min_run_interval`: the shortest that a YDB table may ask for.

    `event_retention`: the age up to which expiry events are kept; None: the default. `event_limit`: the most events that are
    kept.

    `ydb_tick`, `ydb_retry_interval`, `ydb_removal`: as `PassSettings` has them. `guard_records`, `guard_percent`: as
    `GuardLimits` has them; without `guard` only containers with limits of their own have one. `erasure_log`: every expiry gets a
    line in the erasure log. `erase`: whether what expired is overwritten in the store's file. `sample_accesses`: the step of
    `AccessAges`.
    """

    sweep_interval: Span
    event_retention: Span | None
    event_limit: int
    mongo_sweep_interval: Span
    ydb_run_interval: Span
    ydb_min_run_interval: Span
    ydb_tick: Span
    ydb_retry_interval: Span
    ydb_removal: bool
    charge: Literal["leftover", "free", "serverless"]
    guard: bool
    guard_records: int
    guard_percent: int
    erasure_log: bool
    erase: Literal["normal", "secure"]
    sample_accesses: int


class ArchiveSettings(msgspec.Struct, frozen=True):
    """The places that archives may have. `dir`: a directory of the server; None: none. `s3_credentials_file` None: no S3.

    `s3_endpoint`: the address of the service; empty: that of AWS in the region.
    """

    dir: Path | None
    s3_credentials_file: Path | None
    s3_region: str
    s3_endpoint: str


class LimitSettings(msgspec.Struct, frozen=True):
    """Limits of the clients of all protocols together. `..._bytes`, `bytes_in_flight`: in bytes."""

    bytes_in_flight: int
    connections_per_address: int
    event_streams: int
    open_transactions: int
    transaction_bytes: int


class Settings(msgspec.Struct, frozen=True):
    """All settings of a server."""

    server: ServerSettings
    storage: StorageSettings
    clock: ClockSettings
    queries: QuerySettings
    cosmos: CosmosSettings
    tls: TlsSettings
    ttl: TtlSettings
    archive: ArchiveSettings
    mongo: MongoSettings
    ydb: YdbSettings
    limits: LimitSettings
    drop_in: DropIn | None = None

    @property
    def is_open(self) -> bool:
        """True: the well-known key counts on every address, and nothing else asks for a login, as `--drop-in` has it."""
        own = self.cosmos.key_file or self.cosmos.generate_key
        return self.drop_in is not None and not own and self.drop_in.key is None
