"""A connection that has ended leaves nothing behind: full garbage collections may be minutes apart."""

from __future__ import annotations

import gc
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from bson import encode
from pymongo import MongoClient
from pymongo.errors import OperationFailure
from pymongo.uri_parser import parse_uri

from mayflydb.embedded import RunningServer, serve
from mayflydb.frontends.mongo.protocol.connection import Connection
from mayflydb.frontends.mongo.state import ConnectionState

Client = MongoClient[dict[str, Any]]
PIPELINE: list[dict[str, Any]] = [{"$group": {"_id": "$n", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        with serve(memory=True, port=0, mongo_port=0) as found:
            with found.mongo.client() as client:
                client.d.c.insert_many([{"_id": -n, "n": n % 7} for n in range(1, 100)])
            yield found


Kept = Connection | ConnectionState
PATIENCE = 500
"""Times that the objects of this process are looked through; each takes some hundredths of a second."""


def kept() -> list[Kept]:
    """The connections of this process and their states, closed ones that are not freed included."""
    # `isinstance` would ask weak proxies for the class of what they refer to, which may be gone.
    return [each for each in gc.get_objects() if type(each) in (Connection, ConnectionState)]


def frees_all_but(others: list[Kept]) -> bool:
    """Whether all connections but these are freed soon."""
    known = {id(each) for each in others}
    return any(all(id(each) in known for each in kept()) for _ in range(PATIENCE))


def frame(command: dict[str, Any]) -> bytes:
    document = encode(command)
    return struct.pack("<iiiiIB", 21 + len(document), 1, 0, 2013, 0, 0) + document


def use_a_driver(server: RunningServer) -> None:
    with server.mongo.client() as client:
        collection = client.d.c
        collection.insert_one({"_id": 1})
        collection.update_one({"_id": 1}, {"$set": {"seen": True}})
        list(collection.aggregate(PIPELINE))
        collection.delete_one({"_id": 1})


def use_a_transaction(server: RunningServer) -> None:
    with server.mongo.client() as client, client.start_session() as session, session.start_transaction():
        client.d.c.insert_one({"_id": 2}, session=session)
        session.abort_transaction()


def leave_a_cursor(server: RunningServer) -> None:
    with server.mongo.client() as client:
        next(client.d.c.find(batch_size=2))


def fail(server: RunningServer) -> None:
    with server.mongo.client() as client:
        for command in (
            {"nonsense": 1},
            {"find": "c", "filter": {"$x": 1}},
            {"aggregate": "c", "pipeline": [{}], "cursor": {}},
        ):
            with pytest.raises(OperationFailure):
                client.d.command(command)


def use_tls(server: RunningServer) -> None:
    with server.mongo.client(tls=True, tlsAllowInvalidCertificates=True) as client:
        client.admin.command("ping")


def raw(server: RunningServer) -> socket.socket:
    (host, port), *_ = parse_uri(server.mongo.uri)["nodelist"]
    return socket.create_connection((host, port or 0), timeout=30)


def break_a_message_off(server: RunningServer) -> None:
    with closing(raw(server)) as client:
        client.sendall(frame({"ping": 1, "$db": "admin"})[:-3])


def send_nonsense(server: RunningServer) -> None:
    with closing(raw(server)) as client:
        client.sendall(bytes(range(64)))
        client.recv(1000)


def leave_during_an_answer(server: RunningServer) -> None:
    with closing(raw(server)) as client:
        client.sendall(frame({"aggregate": "c", "pipeline": PIPELINE, "cursor": {}, "$db": "d"}) * 20)
        client.recv(1)


@pytest.mark.parametrize(
    "use",
    [
        use_a_driver, use_a_transaction, leave_a_cursor, fail, use_tls, break_a_message_off, send_nonsense,
        leave_during_an_answer,
    ],
)  # fmt: skip
def test_a_closed_connection_is_freed_without_the_collector(
    server: RunningServer, use: Callable[[RunningServer], None]
) -> None:
    use(server)
    gc.collect()
    gc.disable()
    try:
        # Held, so that no new object has the address of one of them.
        others = kept()
        for _ in range(3):
            use(server)
        assert frees_all_but(others)
    finally:
        gc.enable()
