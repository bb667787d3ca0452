"""The announcements of a starting server: ready, or the reason why it could not start."""

from __future__ import annotations

from typing import Literal
from urllib.parse import urlsplit

import msgspec


def without_password(uri: str) -> str:
    """Return a URI that names its user alone."""
    parts = urlsplit(uri)
    if parts.password is None:
        return uri
    return parts._replace(netloc=f"{parts.username}@{parts.netloc.rpartition('@')[2]}").geturl()


def ydb_connection_string(endpoint: str, database: str) -> str:
    """Return `grpc://127.0.0.1:2136?database=/local`, the form that all SDKs read.

    No slash stands before the `?`: some take it for the path of the database.
    """
    return f"{endpoint}?database={database}"


def ydb_access(endpoint: str, tls: str | None, database: str, password_path: str | None) -> dict[str, str | None]:
    """Return the addresses of YDB as documents show them. `tls`: the endpoint with TLS, which may be the only one."""
    return {
        "endpoint": endpoint,
        "tls_endpoint": tls,
        "database": database,
        "connection_string": ydb_connection_string(endpoint, database),
        "tls_connection_string": None if tls is None else ydb_connection_string(tls, database),
        "password_file": password_path,
    }


class Announcement(msgspec.Struct, frozen=True):
    """A server that answers on every listener. Parts that are off are None.

    Hosts are numeric, so that no client depends on a resolver: `cosmos_endpoint` is `http://127.0.0.1:8081/` (or `https://`
    where the scheme setting says so) unless another address is advertised, `portal` the same with a path of `/`, `admin` ends in
    `/_mayfly`, `metrics` in `/metrics`. `storage` is `memory`, `sqlite:///absolute/path` or `postgresql://host:port/database`.
    `key_path` is set when the account key is not the well-known one, `ca_path` when a certificate authority has been written.
    `mongo_uri` has the password of its user, where one is needed; `mongo_password_path` and `ydb_password_path` name the files
    of passwords. What is shown to others, or written, takes `public_key` and `public_mongo_uri`.
    `ydb_endpoint` is `grpc://127.0.0.1:2136`, `ydb_tls_endpoint` `grpcs://127.0.0.1:2135`. Both are the second where
    TLS alone is served. `ydb_database` is the path that is meant where none is named.
    `either_scheme`: the Cosmos endpoint answers http and https. `insecure`: other machines can connect without TLS.
    `wait_lines`: lines for tools that read the log of a container, each with its end.
    """

    pid: int
    cosmos_endpoint: str | None
    cosmos_key: str | None
    portal: str | None
    admin: str | None
    metrics: str | None
    storage: str
    clock: Literal["real", "virtual"]
    version: str
    seconds_to_ready: float
    key_path: str | None = None
    ca_path: str | None = None
    either_scheme: bool = True
    insecure: bool = False
    mongo_uri: str | None = None
    mongo_password_path: str | None = None
    ydb_endpoint: str | None = None
    ydb_database: str | None = None
    ydb_tls_endpoint: str | None = None
    ydb_password_path: str | None = None
    wait_lines: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Announcement(pid={self.pid}, cosmos_endpoint={self.cosmos_endpoint!r})"

    @property
    def public_key(self) -> str | None:
        """The account key if it is the emulators', which is no secret."""
        return self.cosmos_key if self.key_path is None else None

    @property
    def public_mongo_uri(self) -> str | None:
        """MongoDB's URI with its user and without the password."""
        return None if self.mongo_uri is None else without_password(self.mongo_uri)


class StartFailed(Exception):
    """The server did not start.

    `setting` is the key of the setting that caused it (`server.port`), `hint` the next thing to try. Exit codes: 1 failed,
    2 wrong usage, 4 refused for safety.
    """

    def __init__(self, message: str, *, setting: str = "", hint: str = "", exit_code: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.setting = setting
        self.hint = hint
        self.exit_code = exit_code
