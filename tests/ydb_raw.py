"""Calls as bytes go over the wire, without what a vendor's client adds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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

    def result(self, name: str, result: str, **fields: Any) -> Any:
        """Call a method and return the message in its successful operation."""
        operation = self.ask(name, **fields).operation
        assert operation.ready
        assert operation.status == 400000, operation
        found = message(result)()
        assert operation.result.type_url.endswith(result)
        found.ParseFromString(operation.result.value)
        return found


def _request(name: str, fields: dict[str, Any]) -> tuple[Any, bytes]:
    owner, _, method_name = name.partition("/")
    method = service(owner).methods_by_name[method_name]
    return method, message(method.input_type.full_name)(**fields).SerializeToString()


@contextmanager
def connected(endpoint: str, credentials: Any = None) -> Iterator[Raw]:
    """`grpc://127.0.0.1:2136`"""
    address = endpoint.partition("://")[2]
    made = grpc.insecure_channel(address) if credentials is None else grpc.secure_channel(address, credentials)
    with made as channel:
        yield Raw(channel)
