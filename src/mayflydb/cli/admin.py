"""The client of a running server's admin API, and the errors of commands."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlencode, urlsplit

import click

from mayflydb.cli.progress import ProgressLine

if TYPE_CHECKING:
    import http.client

FAILED = 1
NOT_READY = 3
REFUSED = 4

DOWNLOADED = 256 * 1024
"""Bytes of a download that are read at a time."""

_EXIT_CODES = {401: REFUSED, 403: REFUSED, 503: NOT_READY}


class CommandFailed(click.ClickException):
    """Ends a command: prints the error and the next thing to try, and sets the exit code."""

    def __init__(self, message: str, *, hint: str = "", exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.hint = hint
        self.exit_code = exit_code  # type: ignore[misc]  # click declares it per class and reads it per exception

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"Error: {self.message}", err=True)
        if self.hint:
            click.echo(f"Try:   {self.hint}".replace("\n", "\n       "), err=True)


class AdminClient:
    """Sends requests to the admin API. `url`: the server's address, with or without `/_mayfly`, or the path of its ready file.

    The file is read at each request, because a server that is starting has not written it yet. `timeout`: seconds to wait for an
    answer; None: no limit, because an advance of the clock by years takes its time. `token_file`: holds the admin token.
    `what`: shown on a terminal while an answer takes long; empty: nothing is shown.
    """

    def __init__(self, url: str, timeout: float | None = None, token_file: Path | None = None, what: str = "") -> None:
        self._url = url
        self._what = what
        self._timeout = timeout
        self._token_file = token_file

    def get(self, path: str, query: Mapping[str, object] | None = None) -> Any:
        """GET `/_mayfly/<path>`; query members that are None are left out."""
        given = {name: value for name, value in (query or {}).items() if value is not None}
        return self._request_document("GET", path + ("?" + urlencode(given) if given else ""), None)

    def post(self, path: str, body: Mapping[str, object]) -> Any:
        """POST a JSON body."""
        return self._request_document("POST", path, body)

    def call(self, method: str, path: str) -> Any:
        """Send a request without a body."""
        return self._request_document(method, path, None)

    def read_metrics(self) -> str:
        """GET `/metrics`."""
        return self._read_text("/metrics")

    def read_certificate(self) -> str:
        """GET the authority's certificate, PEM."""
        return self._read_text("/_mayfly/cert")

    def _read_text(self, path: str) -> str:
        status, answer = self._exchange("GET", path, None)
        if status != 200:
            _fail(status, json.loads(answer) if answer.startswith(b"{") else None)
        return answer.decode()

    def request(self, method: str, path: str, body: Mapping[str, object] | None) -> tuple[int, Any]:
        """Return status and decoded answer. CommandFailed if no server answers (not ready), or the answer is not JSON."""
        status, answer = self._exchange(method, f"{urlsplit(self._base()).path}/{path}", body)
        try:
            return status, json.loads(answer or b"null")
        except ValueError as error:
            raise CommandFailed(f"what answers at {self._base()} is not Mayfly", hint="check --url") from error

    def stream(self, path: str, query: Mapping[str, object]) -> Generator[str, None, None]:
        """GET `/_mayfly/<path>` and yield the lines of the answer as they come, without their ends; members as in `get`."""
        given = {name: value for name, value in query.items() if value is not None}
        with self._send("GET", f"{urlsplit(self._base()).path}/{path}?{urlencode(given)}", None) as answer:
            if answer.status != 200:
                status, problem = answer.status, answer.read()
                _fail(status, json.loads(problem) if problem.startswith(b"{") else None)
            for line in answer:
                yield line.decode().rstrip("\r\n")

    def download(self, path: str) -> Generator[bytes, None, None]:
        """GET `/_mayfly/<path>` and yield the bytes of the answer as they come. CommandFailed for one that breaks off."""
        with self._send("GET", f"{urlsplit(self._base()).path}/{path}", None) as answer:
            if answer.status != 200:
                status, problem = answer.status, answer.read()
                _fail(status, json.loads(problem) if problem.startswith(b"{") else None)
            while part := answer.read(DOWNLOADED):
                yield part

    def post_file(self, path: str, query: Mapping[str, object], body: bytes, kind: str) -> Any:
        """POST the bytes of a file of a kind; members as in `get`."""
        given = urlencode({name: value for name, value in query.items() if value is not None})
        address = f"{urlsplit(self._base()).path}/{path}?{given}"
        with self._send("POST", address, None, (iter([body]), len(body)), kind) as answer:
            status, found = answer.status, json.loads(answer.read() or b"null")
        if status != 200:
            _fail(status, found)
        return found

    def upload(self, path: str, parts: Iterator[bytes], size: int) -> Any:
        """PUT bytes, `size` in number, to `/_mayfly/<path>`."""
        with self._send("PUT", f"{urlsplit(self._base()).path}/{path}", None, (parts, size)) as answer:
            status, found = answer.status, json.loads(answer.read() or b"null")
        if status != 200:
            _fail(status, found)
        return found

    def _exchange(self, method: str, path: str, body: Mapping[str, object] | None) -> tuple[int, bytes]:
        """Send a request to a path of the server; return status and body."""
        with self._send(method, path, body) as answer:
            return answer.status, answer.read()

    @contextmanager
    def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None,
        upload: tuple[Iterator[bytes], int] | None = None,
        kind: str = "application/octet-stream",
    ) -> Iterator[http.client.HTTPResponse]:
        """Send a request, give its answer to be read, and close the connection. CommandFailed if no server answers."""
        # Commands that ask no server, `serve` above all, import the errors of this module.
        import http.client

        base = urlsplit(self._base())
        if base.scheme not in ("http", "https") or not base.hostname:
            raise CommandFailed(
                f"{self._url!r} is neither an address nor a ready file", hint="--url http://127.0.0.1:8081"
            )
        payload: bytes | Iterator[bytes] | None = None if body is None else json.dumps(body).encode()
        headers = {"Accept": "application/json"} | ({} if payload is None else {"Content-Type": "application/json"})
        if upload is not None:
            payload, size = upload
            headers |= {"Content-Type": kind, "Content-Length": str(size)}
        connection = http.client.HTTPConnection(base.hostname, base.port, timeout=self._timeout)
        token = self._token_file
        try:
            if base.scheme == "https":
                connection, own = self._connect_with_tls(base.hostname, base.port)
                token = token or own
            if token is not None:
                headers["Authorization"] = f"Bearer {token.read_text().strip()}"
            try:
                connection.request(method, path, payload, headers)
            except (BrokenPipeError, ConnectionResetError):
                # A server that refuses an upload answers, and reads no more of it.
                if upload is None:
                    raise
            yield connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise CommandFailed(
                f"no server answers at {self._base()}: {error}",
                hint="mayfly serve, or --url with the address or ready file of a running one",
                exit_code=NOT_READY,
            ) from error
        except ValueError as error:
            raise CommandFailed(f"{self._base()} cannot be asked: {error}", hint="check --url") from error
        finally:
            connection.close()

    def _connect_with_tls(self, host: str, port: int | None) -> tuple[http.client.HTTPConnection, Path | None]:
        """Return a connection, and the user's own token file if the server has a certificate of this user's authority.

        The token goes to no other server by itself.
        """
        import http.client
        import ssl

        from mayflydb.serving.certificates import user_data_directory

        directory = user_data_directory(os.environ)
        ca, token = directory / "ca.pem", directory / "admin.token"
        if ca.exists():
            context = ssl.create_default_context(cafile=str(ca))
            own = http.client.HTTPSConnection(host, port, timeout=self._timeout, context=context)
            try:
                own.connect()
                return own, token if token.exists() else None
            except ssl.SSLCertVerificationError:
                own.close()
        return http.client.HTTPSConnection(host, port, timeout=self._timeout), None

    @property
    def origin(self) -> str:
        """The address without the path of the admin API."""
        return self._base().removesuffix("/_mayfly")

    def _base(self) -> str:
        address = self._url if "://" in self._url else self._address_in_file(Path(self._url))
        address = address.rstrip("/")
        return address if address.endswith("/_mayfly") else address + "/_mayfly"

    def _address_in_file(self, path: Path) -> str:
        try:
            admin = json.loads(path.read_text(encoding="utf-8"))["admin"]
        except OSError as error:
            raise CommandFailed(
                f"there is no ready file {path}: {error.strerror}",
                hint="mayfly serve --ready-file",
                exit_code=NOT_READY,
            ) from error
        except (ValueError, KeyError, TypeError) as error:
            raise CommandFailed(f"{path} is not a ready file") from error
        if not isinstance(admin, str):
            raise CommandFailed(f"the server of {path} has its admin API off")
        return admin

    def _request_document(self, method: str, path: str, body: Mapping[str, object] | None) -> Any:
        if self._what:
            with ProgressLine(self._what):
                status, answer = self.request(method, path, body)
        else:
            status, answer = self.request(method, path, body)
        if not 200 <= status < 300:
            _fail(status, answer)
        return answer


def _fail(status: int, answer: Any) -> NoReturn:
    """Raise CommandFailed from a problem document (RFC 9457): `title`, `detail`, and `hint`, a member of ours."""
    # What has no answer to word, `serve` above all, imports the errors of this module.
    from mayflydb.admin.hints import hint_in, word_hint

    problem = answer if isinstance(answer, dict) else {}
    parts = [str(problem[name]) for name in ("title", "detail") if problem.get(name)]
    message = ": ".join(parts) or f"the server answered {status}"
    raise CommandFailed(message, hint=word_hint(hint_in(problem), "cli"), exit_code=_EXIT_CODES.get(status, FAILED))


def admin_client(ctx: click.Context, timeout: float | None = None, *, silent: bool = False) -> AdminClient:
    """Return the client of the server that `--url` names. `silent`: the command itself shows its progress."""
    given = ctx.find_root().obj
    what = "" if silent else ctx.command_path.partition(" ")[2]
    return AdminClient(given["url"], timeout, given["token_file"], what)


def check_with(parse: Callable[[str], object]) -> Callable[[click.Context, click.Parameter, str | None], str | None]:
    """Return a click callback that refuses a text as wrong usage if `parse` does. The text itself is passed on."""

    def check(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
        if value is not None:
            try:
                parse(value)
            except ValueError as error:
                raise click.BadParameter(str(error), ctx, parameter) from error
        return value

    return check


def ask_to_confirm(question: str, *, yes: bool) -> None:
    """Ask before a change that cannot be undone. Without a terminal and without -y the command is refused."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandFailed(
            f"{question} This needs a confirmation.", hint="the same command with -y", exit_code=REFUSED
        )
    # Asked on stderr: stdout is the command's result and may be a pipe.
    if not click.confirm(question, err=True):
        raise CommandFailed("nothing was done")
