"""A client of YDB's protocol: calls, sessions and streams, one after the other."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Final

import click

from mayflydb.cli.ydb.endpoint import Endpoint, Login
from mayflydb.cli.ydb.faults import Misuse, ServerRefusal, answer_text
from mayflydb.frontends.ydb.descriptors import enum_name, message, pool, service

MAX_MESSAGE_BYTES: Final = 64 << 20
"""Bytes of one message."""

SUCCESS: Final = 400000

# Statuses of gRPC, and the names that YDB's program prints for them.
_TRANSPORT_STATUSES: Final = {
    "UNAVAILABLE": "TRANSPORT_UNAVAILABLE",
    "UNAUTHENTICATED": "CLIENT_UNAUTHENTICATED",
    "DEADLINE_EXCEEDED": "CLIENT_DEADLINE_EXCEEDED",
    "RESOURCE_EXHAUSTED": "CLIENT_RESOURCE_EXHAUSTED",
    "UNIMPLEMENTED": "CLIENT_CALL_UNIMPLEMENTED",
    "CANCELLED": "CLIENT_CANCELLED",
    "OUT_OF_RANGE": "CLIENT_OUT_OF_RANGE",
}


class Client:
    """One connection. Each call raises ServerRefusal if the server refuses, and prints the server's warnings."""

    def __init__(self, endpoint: Endpoint, database: str, authority: bytes | None, login: Callable[[], Login]) -> None:
        """Connect. `authority`: certificates to trust, PEM; None: the machine's. `login`: called before the first call."""
        # gRPC would log each failure on standard error, before the command reports it.
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")
        import grpc

        options = [
            ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
            ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
        ]
        self.endpoint = endpoint
        self.database = database
        if endpoint.secure:
            credentials = grpc.ssl_channel_credentials(root_certificates=authority)
            self._channel = grpc.secure_channel(endpoint.address, credentials, options)
        else:
            self._channel = grpc.insecure_channel(endpoint.address, options)
        self._login = login
        self._token: str | None = None
        self._error: type[Exception] = grpc.RpcError

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def call(self, method: str, request: Any = None, **fields: Any) -> Any:
        """Call a method such as `Ydb.Table.V1.TableService/DropTable`. Return the message in its `result`, if there is one.

        `request`: the message to send; None: a message with these `fields`.
        """
        return self._unpack_result(self.call_operation(method, request, **fields))

    def call_operation(self, method: str, request: Any = None, **fields: Any) -> Any:
        """Call a method and return its operation, which is running or has succeeded."""
        operation = self.call_raw(method, request, **fields).operation
        if operation.ready:
            self._check(operation)
        return operation

    def call_direct(self, method: str, request: Any = None, **fields: Any) -> Any:
        """Call a method whose answer carries status and issues itself, and return the answer."""
        answer = self.call_raw(method, request, **fields)
        self._check(answer)
        return answer

    def call_raw(self, method: str, request: Any = None, **fields: Any) -> Any:
        """Call a method and return its answer, a refusal included."""
        call, message_to_send = self._build_call(method, request, fields, self._channel.unary_unary)
        with self._translate_errors():
            return call(message_to_send, metadata=self._metadata(method))

    def stream(self, method: str, request: Any = None, **fields: Any) -> Iterator[Any]:
        """Yield the messages of a stream. The first refusal ends it."""
        call, message_to_send = self._build_call(method, request, fields, self._channel.unary_stream)
        with self._translate_errors():
            for part in call(message_to_send, metadata=self._metadata(method)):
                self._check(part)
                yield part

    @contextmanager
    def converse(self, method: str) -> Iterator[Conversation]:
        """Open a stream in both directions for a `with` block. Leaving it ends the stream."""
        call, kind = self._build_call(method, None, {}, self._channel.stream_stream)
        requests: SimpleQueue[Any] = SimpleQueue()
        answers = call(iter(requests.get, None), metadata=self._metadata(method))
        try:
            with self._translate_errors():
                yield Conversation(type(kind), requests, answers, self._check)
        finally:
            answers.cancel()
            requests.put(None)

    @contextmanager
    def table_session(self) -> Iterator[str]:
        """Create a session of the table service for a `with` block; the target is its id."""
        id = self.call("Ydb.Table.V1.TableService/CreateSession").session_id
        try:
            yield id
        finally:
            # The session ends by itself if this fails.
            with suppress(ServerRefusal):
                self.call_raw("Ydb.Table.V1.TableService/DeleteSession", session_id=id)

    @contextmanager
    def query_session(self) -> Iterator[str]:
        """Create a session of the query service for a `with` block, and attach to it; the target is its id."""
        id = self.call_direct("Ydb.Query.V1.QueryService/CreateSession").session_id
        attached = self.stream("Ydb.Query.V1.QueryService/AttachSession", session_id=id)
        # The session may be used once the first message is there.
        next(attached)
        try:
            yield id
        finally:
            # A failure of the clean-up must not hide the failure of the command itself.
            with suppress(ServerRefusal):
                self.call_raw("Ydb.Query.V1.QueryService/DeleteSession", session_id=id)
                # The server ends the stream of a deleted session. Reading to its end leaves no call open.
                for _ in attached:
                    pass

    def _build_call(self, method: str, request: Any, fields: Any, kind: Callable[..., Any]) -> tuple[Any, Any]:
        owner, _, name = method.partition("/")
        descriptor = service(owner).methods_by_name[name]
        message_to_send = message(descriptor.input_type.full_name)(**fields) if request is None else request
        answer = message(descriptor.output_type.full_name)
        call = kind(f"/{method}", request_serializer=_serialize, response_deserializer=answer.FromString)
        return call, message_to_send

    def _metadata(self, method: str) -> list[tuple[str, str]]:
        found = [("x-ydb-database", self.database)]
        # The login itself is called to get the token.
        if method.startswith("Ydb.Auth."):
            return found
        if self._token is None:
            self._token = self._get_token()
        return [*found, ("x-ydb-auth-ticket", self._token)] if self._token else found

    def _get_token(self) -> str:
        login = self._login()
        if not login.user:
            return login.token
        answer = self.call("Ydb.Auth.V1.AuthService/Login", user=login.user, password=login.password)
        token: str = answer.token
        return token

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except self._error as error:
            code, details = error.code(), error.details()  # type: ignore[attr-defined]  # a call that has ended has both
            # Failures of the connection are printed like issues of the server, in the words of YDB's program.
            issue = message("Ydb.Issue.IssueMessage")
            raise ServerRefusal(
                _TRANSPORT_STATUSES.get(code.name, "CLIENT_INTERNAL_ERROR"),
                (
                    issue(message=f"GRpc error: ({code.value[0]}): {details}", severity=1),
                    issue(message=f"Grpc error response on endpoint {self.endpoint.address}", severity=1),
                ),
            ) from error

    def _check(self, answer: Any) -> None:
        if answer.status != SUCCESS:
            raise ServerRefusal(status_name(answer.status), answer.issues)
        if answer.issues:
            click.echo(answer_text("SUCCESS", answer.issues), err=True, nl=False)

    def _unpack_result(self, operation: Any) -> Any:
        if not operation.ready:
            raise Misuse(f"The operation goes on: {operation.id}")
        name = operation.result.type_url.rpartition("/")[2]
        return message(name).FromString(operation.result.value) if name else None


class Conversation:
    """A stream in both directions."""

    def __init__(
        self, kind: Any, requests: SimpleQueue[Any], answers: Iterator[Any], check: Callable[[Any], None]
    ) -> None:
        """`kind`: the class of the requests. `check`: raises ServerRefusal for an answer that is one."""
        self._kind = kind
        self._requests = requests
        self._answers = answers
        self._check = check
        self._arrived: SimpleQueue[Any] | None = None

    def ask(self, **fields: Any) -> None:
        """Send a request."""
        self._requests.put(self._kind(**fields))

    def receive(self, seconds: float | None = None) -> Any:
        """Return the next answer; None if the stream has ended, or none has come in these seconds."""
        direct = seconds is None and self._arrived is None
        found = next(self._answers, None) if direct else self._receive_in_time(seconds)
        if isinstance(found, Exception):
            raise found
        if found is not None:
            self._check(found)
        return found

    def _receive_in_time(self, seconds: float | None) -> Any:
        if self._arrived is None:
            # gRPC does not wait for a limited time, so a thread waits.
            self._arrived = SimpleQueue()
            Thread(target=self._move, args=(self._arrived,), daemon=True).start()
        try:
            return self._arrived.get(timeout=seconds)
        except Empty:
            return None

    def _move(self, into: SimpleQueue[Any]) -> None:
        try:
            for each in self._answers:
                into.put(each)
            into.put(None)
        except Exception as error:  # noqa: BLE001 -- the reader of the queue raises it.
            into.put(error)


def _serialize(request: Any) -> bytes:
    content: bytes = request.SerializeToString()
    return content


def status_name(number: int) -> str:
    """Return the name of a status: `SCHEME_ERROR` for 400070."""
    return enum_name("Ydb.StatusIds.StatusCode", number)


def proto_json(given: Any) -> str:
    """Return a message as JSON on one line, with the names of the protocol's fields, and bytes in Base64."""
    import json

    from google.protobuf import json_format

    fields = json_format.MessageToDict(given, preserving_proto_field_name=True, descriptor_pool=pool())
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False)
