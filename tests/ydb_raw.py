"""Calls as bytes go over the wire, without what a vendor's client adds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

import grpc

from mayflydb.frontends.ydb.descriptors import message, service

Metadata = Sequence[tuple[str, str]]


class Raw:
    """One channel. Methods are named as in `Ydb.Table.V1.TableService/CreateSession`."""

    def __init__(self, channel: Any) -> None:
        self.channel = channel

    def ask(self, name: str, metadata: Metadata = (), timeout: float = 10, **fields: Any) -> Any:
        """One answer."""
        method, request = _request(name, fields)
        call = self.channel.unary_unary(f"/{name}")
        return message(method.output_type.full_name).FromString(call(request, metadata=metadata, timeout=timeout))

    def stream(self, name: str, metadata: Metadata = (), timeout: float = 10, **fields: Any) -> Any:
        """A call whose messages are iterated over; it may be cancelled."""
        method, request = _request(name, fields)
        kind = message(method.output_type.full_name)
        if method.client_streaming:
            call = self.channel.stream_stream(f"/{name}", response_deserializer=kind.FromString)
            return call(iter([request]), metadata=metadata, timeout=timeout)
        call = self.channel.unary_stream(f"/{name}", response_deserializer=kind.FromString)
        return call(request, metadata=metadata, timeout=timeout)

    def converse(self, name: str, metadata: Metadata = (), timeout: float = 20) -> Conversation:
        """A stream in both directions."""
        owner, _, method_name = name.partition("/")
        return Conversation(self.channel, name, service(owner).methods_by_name[method_name], metadata, timeout)

    def result(self, name: str, result: str, **fields: Any) -> Any:
        """Call a method and return the message in its successful operation."""
        operation = self.ask(name, **fields).operation
        assert operation.ready
        assert operation.status == 400000, operation
        found = message(result)()
        assert operation.result.type_url.endswith(result)
        found.ParseFromString(operation.result.value)
        return found


class Conversation:
    """Requests are sent one by one, as `ask(read_request={"bytes_size": 1})`; answers are received in their order."""

    def __init__(self, channel: Any, name: str, method: Any, metadata: Metadata, timeout: float) -> None:
        self._kind = message(method.input_type.full_name)
        self._requests: SimpleQueue[bytes | None] = SimpleQueue()
        call = channel.stream_stream(f"/{name}", response_deserializer=message(method.output_type.full_name).FromString)
        self.answers = call(iter(self._requests.get, None), metadata=metadata, timeout=timeout)

    def ask(self, **fields: Any) -> Conversation:
        self.send(self._kind(**fields).SerializeToString())
        return self

    def send(self, request: bytes) -> None:
        self._requests.put(request)

    def receive(self) -> Any:
        """The next answer, whatever it is."""
        return next(self.answers)

    def get(self, name: str) -> Any:
        """The next answer, which has to be of this kind."""
        answer = self.receive()
        assert answer.status == 400000, answer
        assert answer.WhichOneof("server_message") == name, answer
        return getattr(answer, name)

    def refusal(self) -> tuple[int, str, int]:
        """The next answer as a refusal, the last of its stream: status, text, code of the issue."""
        answer = self.receive()
        assert answer.WhichOneof("server_message") is None
        assert next(self.answers, None) is None
        return answer.status, answer.issues[0].message, answer.issues[0].issue_code

    def end(self) -> None:
        """The client sends no more."""
        self._requests.put(None)

    def close(self) -> None:
        """The client leaves."""
        self.answers.cancel()
        self._requests.put(None)


def _request(name: str, fields: dict[str, Any]) -> tuple[Any, bytes]:
    owner, _, method_name = name.partition("/")
    method = service(owner).methods_by_name[method_name]
    return method, message(method.input_type.full_name)(**fields).SerializeToString()


@contextmanager
def connected(endpoint: str, credentials: Any = None) -> Iterator[Raw]:
    """`grpc://127.0.0.1:2136`"""
    address = endpoint.partition("://")[2]
    # Connections of a pool of its own: those that all channels share wait after a failure, also of a channel before this one.
    options = (("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1))
    with (
        grpc.insecure_channel(address, options)
        if credentials is None
        else grpc.secure_channel(address, credentials, options)
    ) as channel:
        yield Raw(channel)
