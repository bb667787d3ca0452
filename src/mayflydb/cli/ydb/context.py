"""The context of a command: endpoint, database and login, from options, profile, environment and a running server."""

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
"""The endpoint if nothing names one."""


class ConnectionOptions(msgspec.Struct, frozen=True):
    """The options in front of the command. None: the option was not given."""

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
    """Finds endpoint, database and login of a command.

    Sources in this order: options, the profile, the environment, and what a running server says of itself.
    """

    def __init__(self, ctx: click.Context, options: ConnectionOptions) -> None:
        self._ctx = ctx
        self.options = options
        self.asks_admin = False
        """True if the command uses the admin API anyhow. Then the admin API also gives endpoint and database."""
        self._profile: Mapping[str, str] | None = None
        self._served_address: Mapping[str, str] | None = None
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        """The connection, opened on first use."""
        if self._client is None:
            from mayflydb.cli.ydb.client import Client

            self._client = Client(self.endpoint, self.database, self._read_authority(), self.login)
            # The connection serves all requests of the command and closes with it.
            self._ctx.find_root().call_on_close(self._client.close)
            if self.options.verbose:
                click.echo(f"Using endpoint {self.endpoint.address}, database {self.database}", err=True)
        return self._client

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint of the server."""
        text = self.options.endpoint or self.profile.get("endpoint") or self.served_address.get("endpoint")
        return parse_endpoint(text or LOCAL_ENDPOINT)

    @property
    def database(self) -> str:
        """The absolute path of the database. Misuse if nothing names one, or for a relative path."""
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
        """The options of the named profile, or else of the active one."""
        if self._profile is None:
            self._profile = profiles.resolve_profile(self.options.profile)
        return self._profile

    @property
    def served_address(self) -> Mapping[str, str]:
        """Endpoint and database as a running server announces them: the one at `--url`, or the local one.

        The local server is asked only if neither options nor profile name an endpoint or a database.
        """
        if self._served_address is None:
            # `--url` always has a value; what counts is whether it was given.
            source = self._ctx.find_root().get_parameter_source("url")
            named = source not in (None, click.core.ParameterSource.DEFAULT) and self.options.endpoint is None
            # `--url` names the admin API of the wanted server, which knows its YDB endpoint and database. Commands that
            # ask the admin API anyhow get both from it.
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
        """Return the absolute path of a name, which is relative to the database or absolute. Misuse outside of the database."""
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
        """Return the credentials. Misuse for two ways of login at once, or a file that cannot be read."""
        options, profile = self.options, self.profile
        if options.token_file and options.user:
            raise Misuse("Options 'token-file' and 'user' are mutually exclusive.")
        # An option for one way of login overrides the profile's other way.
        token_file = options.token_file or (None if options.user else profile.get("token_file"))
        user = options.user or (None if token_file else profile.get("user"))
        if token_file:
            return Login(token=_read_text(token_file))
        if not user:
            token = os.environ.get("YDB_TOKEN")
            user = os.environ.get("YDB_USER")
            # A token in the environment wins over a user in it.
            if token or not user:
                return Login(token=token or "")
        if options.no_password:
            return Login(user=user)
        password_file = options.password_file or profile.get("password_file")
        if password_file:
            return Login(user=user, password=_read_text(password_file))
        password = os.environ.get("YDB_PASSWORD")
        if password is None:
            # The prompt goes to standard error: the output of the command may go to a file.
            password = click.prompt(
                f"Enter password for user {user}", hide_input=True, err=True, default="", show_default=False
            )
        return Login(user=user, password=password)

    def _read_authority(self) -> bytes | None:
        path = self.options.ca_file or self.profile.get("ca_file") or os.environ.get("YDB_CA_FILE")
        # A certificate file in the environment must not break plain connections.
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
    """Return the context of a command."""
    context = ctx.find_object(ClientContext)
    assert context is not None
    return context
