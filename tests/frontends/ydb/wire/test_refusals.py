"""Whatever is asked, the answer is a status in the response's own form."""

from __future__ import annotations

import socket
from typing import Any

import grpc
import pytest

from mayflydb.embedded import RunningServer
from mayflydb.frontends.ydb.descriptors import message, service
from mayflydb.frontends.ydb.methods import SERVICES
from ydb_raw import Raw

SUCCESS, UNSUPPORTED, BAD_REQUEST = 400000, 400180, 400010

SUPPORTED_IN_PART = {"ListOperations", "ExecuteScript"}

METHODS = [(name, each.name) for name in SERVICES for each in service(name).methods]


def status_of(answer: Any) -> tuple[int, Any]:
    fields = answer.DESCRIPTOR.fields_by_name
    if "operation" in fields:
        assert answer.operation.ready
        return answer.operation.status, answer.operation.issues
    if "ready" in fields:
        assert answer.ready
    told = answer if "status" in fields else answer.failure
    return told.status, told.issues


@pytest.mark.parametrize(("owner", "method"), METHODS, ids=lambda each: each.rpartition(".")[2])
def test_every_method_answers_an_empty_request_with_a_status(raw: Raw, owner: str, method: str) -> None:
    if service(owner).methods_by_name[method].server_streaming:
        answers = raw.stream(f"{owner}/{method}")
        answer = next(iter(answers))
        answers.cancel()
    else:
        answer = raw.ask(f"{owner}/{method}")
    status, issues = status_of(answer)
    assert status >= 400000
    assert status != 400030, issues
    if status == UNSUPPORTED:
        [issue] = issues
        assert issue.message.endswith("is not supported")
        assert method in issue.message or method in SUPPORTED_IN_PART


@pytest.mark.parametrize(
    "method", ["Ydb.Table.V1.TableService/CreateSession", "Ydb.Query.V1.QueryService/CreateSession"]
)
def test_bytes_that_are_no_message_are_a_bad_request(raw: Raw, method: str) -> None:
    owner, _, name = method.partition("/")
    kind = message(service(owner).methods_by_name[name].output_type.full_name)
    answer = kind.FromString(raw.channel.unary_unary(f"/{method}")(b"\xff", timeout=10))
    assert status_of(answer)[0] == BAD_REQUEST


def test_services_that_nobody_knows_are_unimplemented(raw: Raw) -> None:
    with pytest.raises(grpc.RpcError) as raised:
        raw.channel.unary_unary("/Ydb.Nothing.V1.Service/Do")(b"", timeout=10)
    assert raised.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_a_client_that_wants_tls_on_the_plain_port_fails_at_once(ydb_server: RunningServer, raw: Raw) -> None:
    host, _, port = ydb_server.ydb.endpoint.partition("://")[2].rpartition(":")
    received = b""
    with socket.create_connection((host, int(port)), timeout=5) as client:
        # The beginning of a TLS handshake.
        client.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(506))
        # A server that keeps the connection open ends this with TimeoutError.
        while chunk := client.recv(4096):
            received += chunk
    # The first frame of HTTP/2, SETTINGS, or nothing: no record of TLS, so the client reports that the handshake failed.
    assert received[3:4] in (b"", b"\x04")
    answer = raw.ask("Ydb.Discovery.V1.DiscoveryService/WhoAmI")
    assert status_of(answer)[0] == SUCCESS
