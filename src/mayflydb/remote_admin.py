"""The client of a running server's admin API, for commands and for tests. Each wait has an end."""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn
from urllib.parse import urlencode, urlsplit

from mayflydb.model.errors import BadRequest, MayflyError, OutcomeUnknown, Unavailable
from mayflydb.model.hints import Hint

if TYPE_CHECKING:
    import http.client

DOWNLOADED: Final = 256 * 1024
"""Bytes of a download that are read at a time."""


class Patience(NamedTuple):
    """Seconds to wait for a connection; for an answer that only reads, or its next part; and for work such as an advance of the
    clock, a purge or a restore, which takes as long as there is to do.
    """

    connect: float = 10.0
    answer: float = 60.0
    work: float = 3600.0


class _Upload(NamedTuple):
    parts: Iterator[bytes]
    size: int
    kind: str


class NoServer(Unavailable):
    """No server answers."""


class NotMayfly(BadRequest):
    """The address is none of a server of Mayfly."""


class AdminClient:
    """Sends requests to the admin API. `url`: the server's address, with or without `/_mayfly`, or the path of its ready file.

    The file is read at each request, because a server that is starting has not written it yet. `token_file`: holds the admin
    token. Errors: NoServer, NotMayfly; OutcomeUnknown for work whose answer did not come; else those of a problem document.
    """

    def __init__(self, url: str, patience: Patience | None = None, token_file: Path | None = None) -> None:
        self._url = url
        self._patience = patience or Patience()
        self._token_file = token_file

    def fail(self, error: MayflyError) -> NoReturn:
        """Raise an error, in the words of this client."""
        raise error

    # --- requests ----------------------------------------------------------------------------------------------------

    def get(self, path: str, query: Mapping[str, object] | None = None) -> Any:
        """GET `/_mayfly/<path>`; query members that are None are left out."""
        return self._request_document("GET", path + _encode(query or {}), None)

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

    def request(self, method: str, path: str, body: Mapping[str, object] | None) -> tuple[int, Any]:
        """Return status and decoded answer, of a refusal too."""
        status, answer = self._exchange(method, self._path_below(path), body)
        return status, self._decode(answer)

    def stream(self, path: str, query: Mapping[str, object]) -> Generator[str, None, None]:
        """GET `/_mayfly/<path>` and yield the lines of the answer as they come, without their ends; members as in `get`."""
        with self._send_accepted("GET", path + _encode(query)) as answer:
            for line in answer:
                yield line.decode().rstrip("\r\n")

    def download(self, path: str) -> Generator[bytes, None, None]:
        """GET `/_mayfly/<path>` and yield the bytes of the answer as they come."""
        import http.client

        with self._send_accepted("GET", path) as answer:
            while part := answer.read(DOWNLOADED):
                yield part
            if answer.length:
                # Reads in parts do not tell that the body is shorter than was said.
                raise http.client.IncompleteRead(b"", answer.length)

    def post_file(self, path: str, query: Mapping[str, object], body: bytes, kind: str) -> Any:
        """POST the bytes of a file of a kind; members as in `get`."""
        with self._send_accepted("POST", path + _encode(query), _Upload(iter([body]), len(body), kind)) as answer:
            return self._decode(answer.read())

    def upload(self, path: str, parts: Iterator[bytes], size: int) -> Any:
        """PUT bytes, `size` in number, to `/_mayfly/<path>`."""
        with self._send_accepted("PUT", path, _Upload(parts, size, "application/octet-stream")) as answer:
            return self._decode(answer.read())

    @property
    def origin(self) -> str:
        """The address without the path of the admin API."""
        return self.base.removesuffix("/_mayfly")

    @property
    def base(self) -> str:
        """The address of the admin API, without a slash at the end."""
        address = self._url if "://" in self._url else self._address_in_file(Path(self._url))
        address = address.rstrip("/")
        return address if address.endswith("/_mayfly") else address + "/_mayfly"

    # --- answers -----------------------------------------------------------------------------------------------------

    def _request_document(self, method: str, path: str, body: Mapping[str, object] | None) -> Any:
        status, answer = self.request(method, path, body)
        if not 200 <= status < 300:
            self.fail(error_of(status, answer))
        return answer

    def _read_text(self, path: str) -> str:
        status, answer = self._exchange("GET", path, None)
        if status != 200:
            self.fail(error_of(status, _decode_problem(answer)))
        return answer.decode()

    @contextmanager
    def _send_accepted(
        self, method: str, path: str, upload: _Upload | None = None
    ) -> Iterator[http.client.HTTPResponse]:
        """Send a request and give its answer to be read, unless it is a refusal."""
        with self._send(method, self._path_below(path), None, upload) as answer:
            if answer.status != 200:
                self.fail(error_of(answer.status, _decode_problem(answer.read())))
            yield answer

    def _decode(self, answer: bytes) -> Any:
        try:
            return json.loads(answer or b"null")
        except ValueError:
            self.fail(NotMayfly(f"what answers at {self.base} is not Mayfly", hint=Hint("wrong-address")))

    def _path_below(self, path: str) -> str:
        return f"{urlsplit(self.base).path}/{path}"

    # --- connections -------------------------------------------------------------------------------------------------

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
        upload: _Upload | None = None,
    ) -> Iterator[http.client.HTTPResponse]:
        """Send a request, give its answer to be read, and close the connection."""
        # Commands that ask no server, `serve` above all, import this module.
        import http.client

        payload: bytes | Iterator[bytes] | None = None if body is None else json.dumps(body).encode()
        headers = {"Accept": "application/json"} | ({} if payload is None else {"Content-Type": "application/json"})
        if upload is not None:
            payload = upload.parts
            headers |= {"Content-Type": upload.kind, "Content-Length": str(upload.size)}
        seconds = self._patience.answer if method == "GET" else self._patience.work
        connection, token = self._connect()
        try:
            connection.sock.settimeout(seconds)
            if token is not None:
                headers["Authorization"] = f"Bearer {token}"
            try:
                connection.request(method, path, payload, headers)
            except (BrokenPipeError, ConnectionResetError):
                # A server that refuses an upload answers, and reads no more of it.
                if upload is None:
                    raise
            yield connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            self.fail(self._explain_break(method, seconds, error))
        except ValueError as error:
            self.fail(NotMayfly(f"{self.base} cannot be asked: {error}", hint=Hint("wrong-address")))
        finally:
            connection.close()

    def _explain_break(self, method: str, seconds: float, error: Exception) -> MayflyError:
        """Return the error of a request whose answer did not come, or not as a whole."""
        if isinstance(error, TimeoutError):
            what = f"the server at {self.base} has not answered for {seconds:g} seconds"
        else:
            what = f"the server at {self.base} broke off: {str(error) or type(error).__name__}"
        if method == "GET":
            return NoServer(what, hint=Hint("no-server"))
        return OutcomeUnknown(f"{what}; what was asked may be done or not", hint=Hint("outcome-unknown"))

    def _connect(self) -> tuple[http.client.HTTPConnection, str | None]:
        """Connect; return the connection, and the token that the server is given."""
        import http.client

        base = urlsplit(self.base)
        if base.scheme not in ("http", "https") or not base.hostname:
            self.fail(NotMayfly(f"{self._url!r} is neither an address nor a ready file", hint=Hint("wrong-address")))
        try:
            token = self._token_file
            if base.scheme == "https":
                connection, own = self._connect_with_tls(base.hostname, base.port)
                token = token or own
            else:
                connection = http.client.HTTPConnection(base.hostname, base.port, timeout=self._patience.connect)
                connection.connect()
        except OSError as error:
            self.fail(NoServer(f"no server answers at {self.base}: {error}", hint=Hint("no-server")))
        except (ValueError, http.client.HTTPException) as error:
            self.fail(NotMayfly(f"{self.base} cannot be asked: {error}", hint=Hint("wrong-address")))
        try:
            return connection, None if token is None else token.read_text().strip()
        except (OSError, ValueError) as error:
            connection.close()
            self.fail(BadRequest(f"the token file {token} cannot be read: {error}"))

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
            own = http.client.HTTPSConnection(host, port, timeout=self._patience.connect, context=context)
            try:
                own.connect()
                return own, token if token.exists() else None
            except ssl.SSLCertVerificationError:
                own.close()
        connection = http.client.HTTPSConnection(host, port, timeout=self._patience.connect)
        connection.connect()
        return connection, None

    def _address_in_file(self, path: Path) -> str:
        try:
            admin = json.loads(path.read_text(encoding="utf-8"))["admin"]
        except OSError as error:
            self.fail(NoServer(f"there is no ready file {path}: {error.strerror}", hint=Hint("no-ready-file")))
        except (ValueError, KeyError, TypeError):
            self.fail(NotMayfly(f"{path} is not a ready file"))
        if not isinstance(admin, str):
            self.fail(NotMayfly(f"the server of {path} has its admin API off"))
        return admin


def error_of(status: int, problem: Any) -> MayflyError:
    """Return the error that a problem document (RFC 9457) tells: `title`, `detail`, and `hint`, a member of ours.

    Its detail has `status`, and `title` where the document has a title besides the message.
    """
    # What asks no server imports this module, too.
    from mayflydb.admin.hints import hint_in
    from mayflydb.admin.problems import STATUS

    told = problem if isinstance(problem, dict) else {}
    title, detail = str(told.get("title") or ""), str(told.get("detail") or "")
    alike = [kind for kind, (code, _) in STATUS.items() if code == status]
    kind = next((each for each in alike if STATUS[each][1] == title), alike[0] if alike else MayflyError)
    message = detail or title or f"the server answered {status}"
    return kind(message, hint=hint_in(told), status=status, title=title if detail else "")


def _decode_problem(answer: bytes) -> Any:
    try:
        return json.loads(answer)
    except ValueError:
        return None


def _encode(query: Mapping[str, object]) -> str:
    given = {name: value for name, value in query.items() if value is not None}
    return "?" + urlencode(given) if given else ""
