"""The port: handshake, logins, TLS, compression, sessions, fail points, and invalid bytes."""

from __future__ import annotations

import random
import socket
import struct
import uuid
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from bson import Binary, decode, encode
from pymongo import MongoClient
from pymongo.errors import AutoReconnect, OperationFailure
from pymongo.uri_parser import parse_uri

from frontends.mongo.replies import said
from mayflydb.embedded import RunningServer, serve
from mayflydb.frontends.mongo.protocol.compression import find_codecs

pytestmark = pytest.mark.short

Client = MongoClient[dict[str, Any]]


def place_of(server: RunningServer) -> tuple[str, int]:
    (host, port), *_ = parse_uri(server.mongo.uri)["nodelist"]
    assert port is not None
    return host, port


class Wire:
    """A connection without a driver."""

    def __init__(self, server: RunningServer) -> None:
        self.socket = socket.create_connection(place_of(server), timeout=30)

    def close(self) -> None:
        self.socket.close()

    def send(self, *commands: dict[str, Any] | bytes, flags: int = 0) -> None:
        self.socket.sendall(b"".join(self.frame(each, flags) for each in commands))

    @staticmethod
    def frame(command: dict[str, Any] | bytes, flags: int = 0) -> bytes:
        document = command if isinstance(command, bytes) else encode(command)
        return struct.pack("<iiiiIB", 21 + len(document), 1, 0, 2013, flags, 0) + document

    def receive(self) -> dict[str, Any] | None:
        """One answer; None: the connection has ended."""
        head = self._exactly(16)
        if len(head) < 16:
            return None
        length, _, _, opcode = struct.unpack("<iiii", head)
        rest = self._exactly(length - 16)
        return decode(rest[5:] if opcode == 2013 else rest[20:])

    def _exactly(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            try:
                more = self.socket.recv(size - len(found))
            except ConnectionResetError:
                return b""
            if not more:
                return b""
            found += more
        return found


@pytest.fixture
def wire(mongo_server: RunningServer) -> Iterator[Wire]:
    with closing(Wire(mongo_server)) as connection:
        yield connection


def refused(client: Client, command: str, value: Any = 1, db: str = "admin", **fields: Any) -> tuple[int | None, str]:
    with pytest.raises(OperationFailure) as caught:
        client[db].command(command, value, **fields)
    assert caught.value.details is not None
    return caught.value.code, caught.value.details["errmsg"]


# --- handshake -------------------------------------------------------------------------------------------------------


def test_hello(mongo_client: Client) -> None:
    reply = mongo_client.admin.command("hello")
    assert reply.pop("connectionId") > 0
    assert reply.pop("localTime").year == 2030
    assert said(reply) == {
        "isWritablePrimary": True,
        "helloOk": True,
        "msg": "isdbgrid",
        "maxBsonObjectSize": 16777216,
        "maxMessageSizeBytes": 48000000,
        "maxWriteBatchSize": 100000,
        "logicalSessionTimeoutMinutes": 30,
        "minWireVersion": 0,
        "maxWireVersion": 25,
        "readOnly": False,
        "ok": 1.0,
    }
    assert mongo_client.server_info()["versionArray"] == [8, 0, 0, 0]


@pytest.mark.parametrize("length", [277, 278, 279, 0x0316])
def test_a_first_message_of_any_length_is_no_handshake(mongo_server: RunningServer, length: int) -> None:
    """Messages begin with their length: 278 is 0x0116, whose first byte is also that of a TLS handshake."""
    hello = {"hello": 1, "comment": "", "$db": "admin"}
    hello["comment"] = "c" * (length - len(Wire.frame(hello)))
    frame = Wire.frame(hello)
    for pieces in ([frame], [frame[:1], frame[1:2], frame[2:]]):
        with closing(Wire(mongo_server)) as wire, closing(Wire(mongo_server)) as other:
            for piece in pieces:
                wire.socket.sendall(piece)
                # The server has looked at the piece when it answers another connection.
                other.send({"ping": 1, "$db": "admin"})
                assert other.receive() is not None
            answer = wire.receive()
        assert answer is not None
        assert answer["ok"] == 1


def test_op_query_is_accepted_for_hello_alone(wire: Wire) -> None:
    for name, key, value in (("isMaster", "ismaster", True), ("find", "code", 352)):
        query = struct.pack("<i", 0) + b"admin.$cmd\0" + struct.pack("<ii", 0, -1) + encode({name: 1})
        wire.socket.sendall(struct.pack("<iiii", 16 + len(query), 1, 0, 2004) + query)
        reply = wire.receive()
        assert reply is not None
        assert reply[key] == value


def test_client_metadata_is_accepted_once(wire: Wire) -> None:
    hello = {"hello": 1, "client": {"application": {"name": "a"}}, "$db": "admin"}
    wire.send(hello, hello)
    assert [reply and reply.get("code") for reply in (wire.receive(), wire.receive())] == [None, 186]


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        ("standalone", {"msg": None, "setName": None}),
        (
            "replicaset:rs0",
            {"msg": None, "setName": "rs0", "hosts": ["db.test:1"], "primary": "db.test:1", "me": "db.test:1"},
        ),
    ],
)
def test_topologies(topology: str, expected: dict[str, Any]) -> None:
    options = {"mongo_advertise": "db.test:1"} if ":" in topology else {}
    with serve(memory=True, port=0, mongo_topology=topology, **options) as server, server.mongo.client() as client:
        reply = client.admin.command("hello")
    assert {name: reply.get(name) for name in expected} == expected


# --- commands --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "fields", "code", "text"),
    [
        ("nope", {}, 59, "no such command: 'nope'"),
        ("ping", {"x": 1}, 40415, "BSON field 'ping.x' is an unknown field."),
        ("ping", {"documents": [{}]}, 40415, "BSON field 'ping.documents' is an unknown field."),
        (
            "ping",
            {"documents": [1]},
            14,
            "BSON field 'ping.documents.0' is the wrong type 'int', expected type 'object'",
        ),
        ("ping", {"apiVersion": "2"}, 322, "API version must be \"1\", got '2'"),
        ("ping", {"maxTimeMS": -1}, 2, "-1 value for maxTimeMS is out of range [0, 2147483647]"),
        (
            "saslStart",
            {"mechanism": "PLAIN", "payload": b""},
            334,
            "Received authentication for mechanism PLAIN which is unknown or not enabled",
        ),
        ("saslContinue", {"conversationId": 1, "payload": b""}, 17, "No SASL session state found"),
    ],
)
def test_refusals(mongo_client: Client, command: str, fields: dict[str, Any], code: int, text: str) -> None:
    assert refused(mongo_client, command, **fields) == (code, text)


def test_admin_commands_need_the_admin_database(mongo_client: Client) -> None:
    assert refused(mongo_client, "getCmdLineOpts", db="shop")[0] == 13


def test_commands_are_answered_in_their_order_and_some_not_at_all(wire: Wire) -> None:
    pings = [Wire.frame({"ping": 1, "$db": "admin"}), Wire.frame({"ping": 1, "x": 1, "$db": "admin"}, flags=2)]
    names = Wire.frame({"whatsmyuri": 1, "$db": "admin"})
    wire.socket.sendall(b"".join(pings) * 20 + names)
    for _ in range(20):
        assert said(wire.receive()) == {"ok": 1.0}
    reply = wire.receive()
    assert reply is not None
    assert reply["you"] == "{}:{}".format(*wire.socket.getsockname())


def test_the_database_has_to_be_named(wire: Wire) -> None:
    wire.send({"ping": 1})
    reply = wire.receive()
    assert reply is not None
    assert (reply["code"], reply["errmsg"]) == (40571, "OP_MSG requests require a $db argument")


def test_sessions(mongo_client: Client) -> None:
    begun = mongo_client.admin.command("startSession")
    assert begun["timeoutMinutes"] == 30
    for command in ("refreshSessions", "killSessions", "endSessions"):
        assert mongo_client.admin.command(command, [begun["id"]])["ok"] == 1.0
    assert refused(mongo_client, "endSessions", [{"id": 1}])[0] == 207
    own = {"id": Binary(uuid.UUID(int=5).bytes, 4)}
    assert said(mongo_client.admin.command("ping", lsid=own)) == {"ok": 1.0}


@pytest.mark.parametrize("name", [each for each in find_codecs() if each != "snappy"])
def test_compression(mongo_server: RunningServer, name: str) -> None:
    with mongo_server.mongo.client(compressors=name) as client:
        assert client.admin.command("hello", compression=["none", name])["compression"] == [name]
        assert len(client.admin.command("listCommands")["commands"]) > 20


def test_tls_on_the_same_port(mongo_server: RunningServer) -> None:
    ca = str(mongo_server.cosmos.ca_file)
    with mongo_server.mongo.client(tls=True, tlsCAFile=ca) as client:
        assert said(client.admin.command("ping")) == {"ok": 1.0}


# --- fail points -----------------------------------------------------------------------------------------------------


def rehearse(client: Client, mode: Any, **data: Any) -> int:
    fields: dict[str, Any] = {"data": data} if data else {}
    return int(client.admin.command("configureFailPoint", "failCommand", mode=mode, **fields)["count"])


def test_a_fail_point_counts_its_failures(mongo_client: Client) -> None:
    rehearse(mongo_client, {"times": 2}, failCommands=["ping"], errorCode=8)
    for _ in range(2):
        assert refused(mongo_client, "ping") == (8, "Failing command via 'failCommand' failpoint")
    assert said(mongo_client.admin.command("ping")) == {"ok": 1.0}
    assert rehearse(mongo_client, "off") == 2


@pytest.mark.parametrize(
    ("data", "labels"),
    [
        ({"errorCode": 91}, ["RetryableWriteError"]),
        ({"errorCode": 59}, None),
        ({"errorCode": 91, "errorLabels": []}, None),
        ({"errorCode": 59, "errorLabels": ["A"]}, ["A"]),
        ({"writeConcernError": {"code": 100}}, None),
        ({"writeConcernError": {"code": 100}, "errorLabels": ["A"]}, ["A"]),
    ],
)
def test_labels(mongo_client: Client, wire: Wire, data: dict[str, Any], labels: list[str] | None) -> None:
    rehearse(mongo_client, {"times": 1}, failCommands=["ping"], **data)
    wire.send({"ping": 1, "txnNumber": 1, "$db": "admin"})
    reply = wire.receive()
    assert reply is not None
    assert reply.get("errorLabels") == labels
    assert reply.get("writeConcernError") == data.get("writeConcernError")


def test_fail_points_close_block_and_match_names(mongo_client: Client, mongo_server: RunningServer) -> None:
    rehearse(mongo_client, {"times": 1}, failCommands=["ping"], closeConnection=True)
    with pytest.raises(AutoReconnect):
        mongo_client.admin.command("ping")
    rehearse(mongo_client, {"times": 1}, failCommands=["ping"], blockConnection=True, blockTimeMS=60_000)
    assert refused(mongo_client, "ping", maxTimeMS=20) == (50, "operation exceeded time limit")
    rehearse(mongo_client, "alwaysOn", failCommands=["ping"], errorCode=2, appName="other")
    assert said(mongo_client.admin.command("ping")) == {"ok": 1.0}
    with mongo_server.mongo.client(appname="other") as other:
        assert refused(other, "ping")[0] == 2
    assert rehearse(mongo_client, "off") == 1


def test_a_fail_point_meets_the_first_hello_of_an_application(mongo_client: Client, wire: Wire) -> None:
    rehearse(mongo_client, "alwaysOn", failCommands=["hello"], errorCode=91, appName="other")
    wire.send({"hello": 1, "client": {"application": {"name": "other"}}, "$db": "admin"})
    reply = wire.receive()
    assert reply is not None
    assert reply["code"] == 91
    assert rehearse(mongo_client, "off") == 1


@pytest.mark.parametrize(
    ("mode", "data", "code"),
    [
        ("sometimes", {}, 2),
        ({"times": -1}, {}, 2),
        ({"activationProbability": 2.0}, {}, 2),
        ("alwaysOn", {"errorCode": 1}, 9),
        ("alwaysOn", {"failCommands": [1]}, 14),
        ("alwaysOn", {"failCommands": ["ping"], "colour": 1}, 40415),
        ("alwaysOn", {"failCommands": ["ping"], "blockConnection": True}, 2),
    ],
)
def test_fail_points_that_make_no_sense(mongo_client: Client, mode: Any, data: dict[str, Any], code: int) -> None:
    assert refused(mongo_client, "configureFailPoint", "failCommand", mode=mode, data=data)[0] == code


# --- nonsense --------------------------------------------------------------------------------------------------------


def test_invalid_bson_is_an_error_and_the_connection_stays(wire: Wire) -> None:
    good = encode({"ping": 1, "$db": "admin"})
    for bad in (good[:4] + b"\x77" + good[5:], good.replace(b"\6\0\0\0", b"\xff\xff\xff\x7f"), b"\x05\0\0\0\x01"):
        wire.send(bad)
        reply = wire.receive()
        assert reply is not None
        assert reply["code"] == 22
    wire.send(good)
    assert said(wire.receive()) == {"ok": 1.0}


def test_an_unknown_flag_is_told_and_ends_the_connection(wire: Wire) -> None:
    wire.send({"ping": 1, "$db": "admin"}, flags=4)
    reply = wire.receive()
    assert reply is not None
    assert reply["code"] == 223
    assert wire.receive() is None


def test_the_server_survives_corrupted_messages(mongo_server: RunningServer, chance: random.Random) -> None:
    good = Wire.frame({"hello": 1, "client": {"a": [{"b": {"c": 1.5}}]}, "documents": [{"_id": 1}], "$db": "admin"})
    for _ in range(150):
        data = bytearray(good)
        for _ in range(chance.randint(1, 6)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        with closing(Wire(mongo_server)) as wire:
            wire.socket.sendall(bytes(data))
            wire.socket.shutdown(socket.SHUT_WR)
            while wire.receive() is not None:
                pass
    with closing(Wire(mongo_server)) as wire:
        wire.send({"ping": 1, "$db": "admin"})
        assert said(wire.receive()) == {"ok": 1.0}
