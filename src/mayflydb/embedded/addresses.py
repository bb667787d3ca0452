"""Addresses of a server for the vendors' clients."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mayflydb.announcement import Announcement, ydb_connection_string

if TYPE_CHECKING:
    from azure.cosmos import CosmosClient
    from pymongo import MongoClient

INSTALL = 'pip install "mayflydb[demo]"'


class CosmosAccess:
    """The address for Cosmos DB's clients: over http, which needs no certificate. `ca_file` is for clients that use https."""

    def __init__(self, ca_file: Callable[[], Path], announcement: Announcement) -> None:
        self._ca_file = ca_file
        self.url: str = announcement.cosmos_endpoint or ""
        self.key: str = announcement.cosmos_key or ""

    @property
    def connection_string(self) -> str:
        return f"AccountEndpoint={self.url};AccountKey={self.key};"

    @property
    def ca_file(self) -> Path:
        """The file of the certificate authority that clients trust for https; created if it is missing."""
        return self._ca_file()

    def client(self, **options: Any) -> CosmosClient:
        """Build a client of the vendor's SDK. ImportError, with the pip command, if the SDK is not installed."""
        try:
            from azure.cosmos import CosmosClient
        except ImportError as error:
            raise ImportError(f"the vendor's client is not installed: {INSTALL}") from error
        return CosmosClient(self.url, self.key, **options)


class MongoAccess:
    """The address for MongoDB's clients; `uri` is empty where MongoDB is off."""

    def __init__(self, announcement: Announcement) -> None:
        self.uri: str = announcement.mongo_uri or ""

    def client(self, **options: Any) -> MongoClient[dict[str, Any]]:
        """Build a client of pymongo; close it before the server ends."""
        from pymongo import MongoClient

        return MongoClient(self.uri, **options)


class YdbAccess:
    """The address for YDB's clients; `endpoint` is empty where YDB is off."""

    def __init__(self, ca_file: Callable[[], Path], announcement: Announcement) -> None:
        self._ca_file = ca_file
        self._password_path = announcement.ydb_password_path
        self.endpoint: str = announcement.ydb_endpoint or ""
        self.tls_endpoint: str = announcement.ydb_tls_endpoint or ""
        self.database: str = announcement.ydb_database or ""

    @property
    def connection_string(self) -> str:
        """`grpc://127.0.0.1:2136?database=/local`."""
        return ydb_connection_string(self.endpoint, self.database)

    def driver(self, **options: Any) -> Any:
        """Connect a driver of the vendor's SDK; stop it before the server ends. ImportError if the SDK is not installed.

        Where the server asks for a login, the driver is `root` unless `credentials` are given.
        """
        try:
            import ydb
        except ImportError as error:
            raise ImportError(f"the vendor's client is not installed: {INSTALL}") from error
        if self._password_path is not None and "credentials" not in options:
            password = Path(self._password_path).read_text(encoding="utf-8").strip()
            options["credentials"] = ydb.StaticCredentials.from_user_password("root", password)
        if self.endpoint.startswith("grpcs:") and "root_certificates" not in options:
            options["root_certificates"] = self._ca_file().read_bytes()
        driver = ydb.Driver(endpoint=self.endpoint, database=self.database, **options)
        driver.wait(timeout=10, fail_fast=True)
        return driver
