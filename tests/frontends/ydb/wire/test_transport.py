"""The transport below the requests: pings, sizes, deadlines, abandoned calls."""

from __future__ import annotations

import logging
import socket
import struct
from collections.abc import Iterator
from random import Random
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import FieldDescriptor

from mayflydb.embedded import RunningServer, serve
from mayflydb.frontends.ydb.descriptors import message, service
from mayflydb.frontends.ydb.methods import SERVICES
from ydb_raw import Raw, connected

SUCCESS, PRECONDITION_FAILED, SESSION_BUSY = 400000, 400120, 400190
TABLE, QUERY = "Ydb.Table.V1.TableService", "Ydb.Query.V1.QueryService"
UNLIMITED = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
MIB = 1 << 20

# --- HTTP/2 by hand ------------------------------------------------------------------------------------------------------

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS, PING, GOAWAY, ACK = 4, 6, 7, 1


def frame(kind: int, flags: int, content: bytes) -> bytes:
    return struct.pack(">I", len(content))[1:] + bytes((kind, flags)) + bytes(4) + content


def frames(client: socket.socket) -> Iterator[tuple[int, int, bytes]]:
    """(kind, flags, content) until the server hangs up."""
    with client.makefile("rb") as stream:
        while head := stream.read(9):
            yield head[3], head[4], stream.read(int.from_bytes(head[:3], "big"))


def test_a_client_may_ping_as_often_as_it_likes(ydb_server: RunningServer) -> None:
    """Without any call and without data, which a server that keeps strikes ends with GOAWAY after two of them."""
    host, _, port = ydb_server.ydb.endpoint.partition("://")[2].rpartition(":")
    pings = [struct.pack(">Q", number) for number in range(100)]
    with socket.create_connection((host, int(port)), timeout=60) as client:
        client.sendall(PREFACE + frame(SETTINGS, 0, b""))
        found = frames(client)
        for ping in pings:
            client.sendall(frame(PING, 0, ping))
            answer = next(each for each in found if each[0] == GOAWAY or (each[0] == PING and each[1] & ACK))
            assert answer == (PING, ACK, ping)


# --- sizes ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def unlimited(ydb_server: RunningServer) -> Iterator[Raw]:
    """A client that takes and sends messages of any size."""
    with grpc.insecure_channel(ydb_server.ydb.endpoint.partition("://")[2], options=UNLIMITED) as channel:
        yield Raw(channel)


def asked(text: str, size: int) -> dict[str, Any]:
    bytes_value = {"type": {"type_id": 0x1001}, "value": {"bytes_value": bytes(size)}}
    return {"query_content": {"text": text}, "parameters": {"$x": bytes_value}, "exec_mode": 50}


@pytest.mark.parametrize(
    ("text", "size", "status", "said"),
    [
        ("SELECT Len($x)", 60 * MIB, SUCCESS, ""),
        ("SELECT $x", 60 * MIB, SUCCESS, ""),
        ("SELECT $x, $x", 33 * MIB, PRECONDITION_FAILED, "Query result size limit exceeded."),
    ],
)
def test_messages_of_up_to_64_mib(unlimited: Raw, text: str, size: int, status: int, said: str) -> None:
    session = unlimited.ask(f"{QUERY}/CreateSession").session_id
    parts = list(unlimited.stream(f"{QUERY}/ExecuteQuery", timeout=60, session_id=session, **asked(text, size)))
    assert parts[-1].status == status
    assert "".join(issue.message for issue in parts[-1].issues).startswith(said)


def test_larger_requests_are_refused_and_the_connection_goes_on(unlimited: Raw) -> None:
    session = unlimited.ask(f"{QUERY}/CreateSession").session_id
    with pytest.raises(grpc.RpcError) as raised:
        list(unlimited.stream(f"{QUERY}/ExecuteQuery", session_id=session, **asked("SELECT 1", 64 * MIB)))
    assert raised.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    [part] = unlimited.stream(f"{QUERY}/ExecuteQuery", session_id=session, **asked("SELECT 1", 1))
    assert part.status == SUCCESS


# --- calls that nobody waits for any more --------------------------------------------------------------------------------

ENDLESS = """$l = ListMap(ListFromRange(0u, 1000u), ($x) -> (AsStruct($x AS x)));
UPSERT INTO many SELECT a.x * 1000u + b.x AS id FROM AS_TABLE($l) AS a CROSS JOIN AS_TABLE($l) AS b;"""


def free(raw: Raw, session: str) -> list[Any]:
    """The parts of a small query, once the session has nothing else to do."""
    while True:
        parts = list(raw.stream(f"{QUERY}/ExecuteQuery", session_id=session, **asked("SELECT 1", 1)))
        if parts[0].status != SESSION_BUSY:
            return parts


@pytest.mark.parametrize("end", ["cancelled", "deadline"])
def test_a_query_that_nobody_waits_for_ends_and_frees_its_session(end: str) -> None:
    """Nothing of what it was about to write is there."""
    with serve(memory=True, port=0, mongo_port=-1) as server, connected(server.ydb.endpoint) as raw:
        session = raw.ask(f"{QUERY}/CreateSession").session_id
        made = "CREATE TABLE many (id Uint64 NOT NULL, PRIMARY KEY (id))"
        [part] = raw.stream(f"{QUERY}/ExecuteQuery", session_id=session, **asked(made, 1))
        assert part.status == SUCCESS
        text = ENDLESS.replace("1000u)", "300u)")
        seconds = 0.05 if end == "deadline" else 60
        stream = raw.stream(f"{QUERY}/ExecuteQuery", timeout=seconds, session_id=session, **asked(text, 1))
        if end == "cancelled":
            stream.cancel()
        with pytest.raises(grpc.RpcError) as raised:
            list(stream)
        codes = {"cancelled": grpc.StatusCode.CANCELLED, "deadline": grpc.StatusCode.DEADLINE_EXCEEDED}
        assert raised.value.code() == codes[end]
        assert free(raw, session)[0].status == SUCCESS
        [part] = raw.stream(f"{QUERY}/ExecuteQuery", session_id=session, **asked("SELECT COUNT(*) FROM many", 1))
        assert part.result_set.rows[0].items[0].uint64_value == 0


# --- whatever comes ------------------------------------------------------------------------------------------------------

METHODS = [(name, each.name) for name in SERVICES for each in service(name).methods]
TEXTS = (
    "",
    "/local",
    "t",
    "SELECT 1",
    "SELECT * FROM t",
    "$",
    "a" * 300,
    "\N{SNOWMAN}",
    "/local/t/../x",
    "DROP TABLE t",
)


def drawn(chance: Random, descriptor: Any, depth: int = 0) -> Any:
    """A message with some of its fields set to something."""
    found = message(descriptor.full_name)()
    for field in descriptor.fields:
        if depth > 3 or chance.random() < 0.5:
            continue
        values = [drawn_value(chance, field, depth) for _ in range(chance.randrange(1, 3))]
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            continue
        if field.label == FieldDescriptor.LABEL_REPEATED:
            getattr(found, field.name).extend(values)
        elif field.message_type is not None:
            getattr(found, field.name).CopyFrom(values[0])
        else:
            setattr(found, field.name, values[0])
    return found


def drawn_value(chance: Random, field: Any, depth: int) -> Any:
    if field.message_type is not None:
        return drawn(chance, field.message_type, depth + 1)
    if field.enum_type is not None:
        return chance.choice([each.number for each in field.enum_type.values])
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        text = chance.choice(TEXTS)
        return text if field.type == FieldDescriptor.TYPE_STRING else text.encode()
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return chance.random() < 0.5
    if field.cpp_type in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
        return chance.choice([0.0, -1.5, float("inf"), float("nan")])
    bits = 31 if field.cpp_type in (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_UINT32) else 63
    return chance.choice([0, 1, 7, (1 << bits) - 1])


def status_in(kind: Any, data: bytes) -> int:
    answer = kind.FromString(data)
    fields = answer.DESCRIPTOR.fields_by_name
    told = answer.operation if "operation" in fields else answer if "status" in fields else answer.failure
    return int(told.status)


@pytest.mark.parametrize(("owner", "name"), METHODS, ids=lambda each: each.rpartition(".")[2])
def test_whatever_is_sent_the_answer_is_a_status(
    raw: Raw, table_session: Any, chance: Random, caplog: pytest.LogCaptureFixture, owner: str, name: str
) -> None:
    caplog.set_level(logging.WARNING)
    method = service(owner).methods_by_name[name]
    kind = message(method.output_type.full_name)
    for turn in range(12):
        request = drawn(chance, method.input_type)
        if "session_id" in request.DESCRIPTOR.fields_by_name and chance.random() < 0.7:
            request.session_id = table_session.session_id
        data = chance.randbytes(chance.randrange(1, 60)) if turn % 4 == 3 else request.SerializeToString()
        if method.client_streaming or method.server_streaming:
            ask = raw.channel.stream_stream if method.client_streaming else raw.channel.unary_stream
            stream = ask(f"/{owner}/{name}")(iter([data]) if method.client_streaming else data, timeout=60)
            answer = next(iter(stream))
            stream.cancel()
        else:
            answer = raw.channel.unary_unary(f"/{owner}/{name}")(data, timeout=60)
        assert status_in(kind, answer) >= SUCCESS, request
        assert not [each for each in caplog.records if each.exc_info], f"{request}\n{caplog.text}"
