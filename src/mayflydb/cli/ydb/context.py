"""Which server is meant, which database of it, and who asks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec

from mayflydb.cli.admin import CommandFailed, admin_client
from mayflydb.cli.ydb import profiles
from mayflydb.cli.ydb.endpoint import Endpoint, Login, parse_endpoint
from mayflydb.cli.ydb.faults import Misuse

if TYPE_CHECKING:
    from mayflydb.cli.ydb.client import Client

LOCAL_ENDPOINT: Final = "grpc://localhost:2136"
"""The server that is meant where nothing is said."""


class ConnectionOptions(msgspec.Struct, frozen=True):
    """The options that stand before the command, each as it was given; None: it was not."""

    endpoint: str | None = None
    database: str | None = None
    profile: str | None = None
    user: str | None = None
    password_file: str | None = None
    no_password: bool = False
    token_file: str | None = None
    ca_file: str | None = None
    verbose: bool = False


class ClientContext:
    """What was given, completed by the profile, the environment and the running server, in this order."""

    def __init__(self, ctx: click.Context, options: ConnectionOptions) -> None:
        self._ctx = ctx
        self.options = options
        self.asks_admin = False
        """Whether the command talks to the admin API anyhow, which then says what is not given."""
        self._profile: Mapping[str, str] | None = None
        self._served_address: Mapping[str, str] | None = None
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        """One connection for all that a command asks."""
        if self._client is None:
            from mayflydb.cli.ydb.client import Client

            self._client = Client(self.endpoint, self.database, self._read_authority(), self.login)
            self._ctx.find_root().call_on_close(self._client.close)
            if self.options.verbose:
                click.echo(f"Using endpoint {self.endpoint.address}, database {self.database}", err=True)
        return self._client

    @property
    def endpoint(self) -> Endpoint:
        """Where it listens."""
        text = self.options.endpoint or self.profile.get("endpoint") or self.served_address.get("endpoint")
        return parse_endpoint(text or LOCAL_ENDPOINT)

    @property
    def database(self) -> str:
        """Its path. Misuse where there is none, or it is no path."""
        found = self.options.database or self.profile.get("database") or self.served_address.get("database")
        if not found:
            raise Misuse("Missing required option 'database'.")
        if not found.startswith("/"):
            raise Misuse(
                f"Path to a database \"{found}\" is incorrect. It must be absolute and thus must begin with '/'."
            )
        return "/" + "/".join(part for part in found.split("/") if part)

    @property
    def profile(self) -> Mapping[str, str]:
        """What the profile says that was named, or else the active one."""
        if self._profile is None:
            self._profile = profiles.resolve_profile(self.options.profile)
        return self._profile

    @property
    def served_address(self) -> Mapping[str, str]:
        """The address told by the server that `--url` names, or by the local one where neither it nor a database is named."""
        if self._served_address is None:
            source = self._ctx.find_root().get_parameter_source("url")
            named = source not in (None, click.core.ParameterSource.DEFAULT) and self.options.endpoint is None
            if named or self.asks_admin:
                self._served_address = self._fetch_address()
            else:
                self._served_address = {} if self._is_located else self._fetch_local_address()
        return self._served_address

    @property
    def _is_located(self) -> bool:
        options, profile = self.options, self.profile
        return bool(options.endpoint or options.database or profile.get("endpoint") or profile.get("database"))

    def _fetch_address(self) -> Mapping[str, str]:
        return admin_client(self._ctx).get("info").get("ydb") or {}

    def _fetch_local_address(self) -> Mapping[str, str]:
        try:
            return self._fetch_address()
        except CommandFailed as error:
            raise Misuse(
                f"Missing required option 'database'.\nThe local server would tell it, but {error.message}."
            ) from error

    def path(self, name: str) -> str:
        """The absolute path of what is named from the database, or from the root. Misuse outside of the database."""
        if not name:
            raise Misuse("Path cannot be empty")
        database = self.database
        parts = [part for part in name.split("/") if part and part != "."]
        if not name.startswith("/"):
            return "/".join((database, *parts))
        path = "/" + "/".join(parts)
        if path != database and not path.startswith(f"{database}/"):
            raise Misuse(
                f"Provided path \"{name}\" starts with '/'. That means you are using an absolute path that should start "
                f'with the path to your database "{database}", but it doesn\'t. \n'
                "Please, provide full path starting from the domain root "
                '(example: "/domain/my_base/dir1/table1"). \n'
                'Or consider using relative path from your database (example: "dir1/table1").'
            )
        return path

    def login(self) -> Login:
        """Who asks. Misuse for two ways at once, or a file that cannot be read."""
        options, profile = self.options, self.profile
        if options.token_file and options.user:
            raise Misuse("Options 'token-file' and 'user' are mutually exclusive.")
        token_file = options.token_file or (None if options.user else profile.get("token_file"))
        user = options.user or (None if token_file else profile.get("user"))
        if token_file:
            return Login(token=_read_text(token_file))
        if not user:
            token = os.environ.get("YDB_TOKEN")
            user = os.environ.get("YDB_USER")
            if token or not user:
                return Login(token=token or "")
        if options.no_password:
            return Login(user=user)
        password_file = options.password_file or profile.get("password_file")
        if password_file:
            return Login(user=user, password=_read_text(password_file))
        password = os.environ.get("YDB_PASSWORD")
        if password is None:
            password = click.prompt(
                f"Enter password for user {user}", hide_input=True, err=True, default="", show_default=False
            )
        return Login(user=user, password=password)

    def _read_authority(self) -> bytes | None:
        path = self.options.ca_file or self.profile.get("ca_file") or os.environ.get("YDB_CA_FILE")
        return _read_file(path) if path and self.endpoint.secure else None


def _read_file(path: str) -> bytes:
    try:
        return Path(path).expanduser().read_bytes()
    except OSError as error:
        raise Misuse(f"Can't read file {path}: {error.strerror}") from error


def _read_text(path: str) -> str:
    try:
        return _read_file(path).decode().strip()
    except UnicodeDecodeError as error:
        raise Misuse(f"Can't read file {path}: it is not UTF-8") from error


def client_context(ctx: click.Context) -> ClientContext:
    """That of the command line."""
    context = ctx.find_object(ClientContext)
    assert context is not None
    return context
