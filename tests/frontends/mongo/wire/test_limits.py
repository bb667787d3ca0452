"""Limits of MongoDB's clients: cursors, sessions, transactions, messages and answers; each at its limit and one beyond."""

from __future__ import annotations

import re
import socket
import struct
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any
from urllib.request import urlopen

import pytest
from bson import Binary, Int64, decode, encode
from pymongo import MongoClient
from pymongo.uri_parser import parse_uri

from mayflydb.embedded import RunningServer, serve
from mayflydb.frontends.mongo.cursors import Cursors
from mayflydb.sockets import connection
from mayflydb.sockets.in_flight import LARGE_AT_ONCE

LIMITS: dict[str, Any] = {
    "mongo_max_cursors": 4,
    "mongo_max_cursors_per_session": 2,
    "mongo_cursor_bytes": "1MB",
    "mongo_max_sessions": 3,
    "open_transactions": 2,
    "transaction_bytes": "100kB",
    "bytes_in_flight": "4MB",
}
MB = 1_000_000


class Wire:
    """A connection without a driver, and so without sessions of its own."""

    def __init__(self, server: RunningServer) -> None:
        (host, port), *_ = parse_uri(server.mongo.uri)["nodelist"]
        self.socket = socket.create_connection((host, port or 0), timeout=30)

    def close(self) -> None:
        self.socket.close()

    def send(self, db: str = "shop", **command: Any) -> None:
        document = encode({**command, "$db": db})
        self.socket.sendall(struct.pack("<iiiiIB", 21 + len(document), 1, 0, 2013, 0, 0) + document)

    def ask(self, db: str = "shop", **command: Any) -> dict[str, Any]:
        self.send(db, **command)
        found = self.receive()
        assert found is not None
        return found

    def receive(self) -> dict[str, Any] | None:
        """The next answer; None: the connection has ended."""
        try:
            with self.socket.makefile("rb") as stream:
                head = stream.read(4)
                return decode(stream.read(int.from_bytes(head, "little") - 4)[17:]) if head else None
        except ConnectionResetError:
            return None


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with serve(memory=True, port=0, **LIMITS) as found:
        yield found


@pytest.fixture
def wire(server: RunningServer) -> Iterator[Wire]:
    with closing(Wire(server)) as found:
        found.ask(dropDatabase=1)
        yield found
        assert found.ask(killAllSessions=[], db="admin")["ok"] == 1


def budget(server: RunningServer, name: str, kind: str = "used") -> int:
    place = re.search(r"AccountEndpoint=([^;]+?)/?;", server.cosmos.connection_string)
    assert place is not None
    with urlopen(f"{place[1]}/metrics") as answer:
        found = re.search(rf'mayfly_budget_{kind}{{budget="{name}"}} (\d+)', answer.read().decode())
    assert found is not None
    return int(found[1])


def fill(wire: Wire, count: int, size: int = 10) -> None:
    for each in range(count):
        assert wire.ask(insert="c", documents=[{"_id": each, "x": "x" * size}])["ok"] == 1


def session() -> dict[str, Any]:
    return {"id": Binary(uuid.uuid4().bytes, 4)}


def test_open_cursors_have_a_limit_in_all(server: RunningServer, wire: Wire) -> None:
    fill(wire, 3)
    find: dict[str, Any] = {"find": "c", "batchSize": 1, "noCursorTimeout": True}
    opened = [wire.ask(**find)["cursor"]["id"] for _ in range(4)]
    assert all(opened) and budget(server, "mongo_cursors") == 4
    before = budget(server, "mongo_cursors", "refused_total")
    refused = wire.ask(**find)
    assert (refused["code"], refused["codeName"]) == (365, "TemporarilyUnavailable")
    assert budget(server, "mongo_cursors", "refused_total") == before + 1
    # A query that needs no cursor is answered, and the end of a cursor makes room.
    assert wire.ask(find="c", limit=1)["ok"] == 1
    assert wire.ask(killCursors="c", cursors=[Int64(opened[0])])["cursorsKilled"] == [opened[0]]
    opened[0] = wire.ask(**find)["cursor"]["id"]
    assert wire.ask(getMore=Int64(opened[1]), collection="c")["cursor"]["id"] == 0
    assert budget(server, "mongo_cursors") == 3
    wire.ask(killCursors="c", cursors=[Int64(id) for id in opened])
    assert (budget(server, "mongo_cursors"), budget(server, "mongo_cursor_bytes")) == (0, 0)


def test_open_cursors_of_a_session_have_a_limit(server: RunningServer, wire: Wire) -> None:
    fill(wire, 3)
    first, second = session(), session()
    assert [wire.ask(find="c", batchSize=1, lsid=first)["ok"] for _ in range(3)] == [1, 1, 0]
    assert wire.ask(find="c", batchSize=1, lsid=second)["ok"] == 1
    wire.ask(endSessions=[first, second])
    assert budget(server, "mongo_cursors") == 0


def test_results_that_cursors_keep_have_a_limit(server: RunningServer, wire: Wire) -> None:
    fill(wire, 4, 150_000)
    first = wire.ask(find="c", batchSize=1)["cursor"]["id"]
    assert budget(server, "mongo_cursor_bytes") > 600_000
    assert wire.ask(find="c", batchSize=1)["code"] == 365
    # A cursor that has read nothing keeps nothing; its first batch is refused, and ends it.
    second = wire.ask(find="c", batchSize=0)["cursor"]["id"]
    assert wire.ask(getMore=Int64(second), collection="c", batchSize=1)["code"] == 365
    assert wire.ask(getMore=Int64(second), collection="c")["code"] == 43
    wire.ask(killCursors="c", cursors=[Int64(first)])
    assert budget(server, "mongo_cursor_bytes") == 0


def test_sessions_have_a_limit(server: RunningServer, wire: Wire) -> None:
    sessions = [session() for _ in range(4)]
    assert [wire.ask(ping=1, lsid=each)["ok"] for each in sessions] == [1, 1, 1, 0]
    assert wire.ask(ping=1, lsid=sessions[3])["codeName"] == "TooManyLogicalSessions"
    wire.ask(endSessions=sessions[:1])
    assert wire.ask(ping=1, lsid=sessions[3])["ok"] == 1


def start(wire: Wire, lsid: dict[str, Any], number: int, **fields: Any) -> dict[str, Any]:
    return wire.ask(
        insert="c",
        documents=[{"_id": number, "x": fields.pop("x", "")}],
        lsid=lsid,
        txnNumber=Int64(number),
        autocommit=False,
        startTransaction=True,
    )


def test_open_transactions_have_a_limit(server: RunningServer, wire: Wire) -> None:
    wire.ask(create="c")
    first, second, third = session(), session(), session()
    answers = [start(wire, each, number) for number, each in enumerate((first, second), 1)]
    assert [answer["ok"] for answer in answers] == [1, 1], answers
    refused = start(wire, third, 3)
    assert (refused["code"], refused["errorLabels"]) == (365, ["TransientTransactionError"])
    assert wire.ask(commitTransaction=1, lsid=first, txnNumber=Int64(1), autocommit=False, db="admin")["ok"] == 1
    assert start(wire, third, 4)["ok"] == 1
    wire.ask(endSessions=[second, third])
    assert budget(server, "open_transactions") == 0


@pytest.mark.parametrize(
    ("mine", "theirs", "code", "label"),
    [
        # A write is charged its value twice, and 1024 bytes.
        (40_000, 0, None, None),
        (51_000, 0, 112, "TransientTransactionError"),
        (20_000, 20_000, None, None),
        (20_000, 40_000, 112, "TransientTransactionError"),
    ],
)
def test_writes_of_transactions_have_a_limit(
    server: RunningServer, wire: Wire, mine: int, theirs: int, code: int | None, label: str | None
) -> None:
    wire.ask(create="c")
    first, second = session(), session()
    if theirs:
        assert start(wire, first, 1, x="x" * theirs)["ok"] == 1
    answer = start(wire, second, 2, x="x" * mine)
    assert (answer.get("code"), answer.get("errorLabels", [None])[0]) == (code, label)
    wire.ask(endSessions=[first, second])
    assert budget(server, "transaction_bytes") == 0


def test_a_transaction_that_has_most_of_the_bytes_is_too_large(wire: Wire) -> None:
    wire.ask(create="c")
    lsid = session()
    assert start(wire, lsid, 1, x="x" * 40_000)["ok"] == 1
    fields: dict[str, Any] = {"lsid": lsid, "txnNumber": Int64(1), "autocommit": False}
    refused = wire.ask(insert="c", documents=[{"_id": 9, "x": "x" * 40_000}], **fields)
    assert [error["code"] for error in refused["writeErrors"]] == [313]
    assert wire.ask(find="c")["cursor"]["firstBatch"] == []
    assert wire.ask(commitTransaction=1, **fields, db="admin")["code"] == 251


def head_of(size: int) -> bytes:
    return struct.pack("<iiii", size, 7, 0, 2013)


def until(condition: Callable[[], bool]) -> None:
    while not condition():
        pass


def test_messages_that_are_not_complete_are_charged_and_refused(server: RunningServer, wire: Wire) -> None:
    with closing(Wire(server)) as first, closing(Wire(server)) as second, closing(Wire(server)) as third:
        first.socket.sendall(head_of(6 * MB) + bytes(5 * MB))
        until(lambda: budget(server, "bytes_in_flight") > 4 * MB)
        # Small messages and answers go on; one that must be held is refused by the end of its connection.
        assert third.ask(ping=1, db="admin")["ok"] == 1
        before = budget(server, "bytes_in_flight", "refused_total")
        second.socket.sendall(head_of(MB) + bytes(100_000))
        assert second.receive() is None
        assert budget(server, "bytes_in_flight", "refused_total") == before + 1
    until(lambda: budget(server, "bytes_in_flight") == 0)
    assert wire.ask(insert="c", documents=[{"_id": 1, "x": "x" * 2 * MB}])["ok"] == 1
    assert budget(server, "bytes_in_flight") == 0


def test_a_large_answer_is_refused_while_others_are_not_read(server: RunningServer, wire: Wire) -> None:
    fill(wire, 2, 900_000)
    with closing(Wire(server)) as idle:
        # More than the sockets between the two take in, so that the rest stays with the server.
        idle.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        for _ in range(20):
            idle.send(find="c", limit=2)
        until(lambda: budget(server, "bytes_in_flight") > 1.5 * MB)
        with closing(Wire(server)) as other:
            other.socket.sendall(head_of(4 * MB) + bytes(3 * MB))
            until(lambda: budget(server, "bytes_in_flight") > 3 * MB)
            refused = wire.ask(find="c", limit=2)
            assert (refused["code"], refused["codeName"]) == (365, "TemporarilyUnavailable")
            assert wire.ask(find="c", projection={"x": 0})["ok"] == 1
    until(lambda: budget(server, "bytes_in_flight") == 0)


def test_a_client_without_progress_is_disconnected(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    from mayflydb.frontends.mongo.protocol import connection as protocol

    monkeypatch.setattr(protocol, "PROGRESS_SECONDS", 0.05)
    monkeypatch.setattr(connection, "PROGRESS_SECONDS", 0.05)
    with closing(Wire(server)) as silent:
        silent.ask(ping=1, db="admin")
        silent.socket.sendall(head_of(MB) + bytes(50_000))
        assert silent.receive() is None
    with closing(Wire(server)) as idle:
        idle.ask(insert="big", documents=[{"_id": 1, "x": "x" * 900_000}])
        idle.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        for _ in range(20):
            idle.send(find="big")
        until(lambda: budget(server, "bytes_in_flight") > MB // 2)
        connected = budget(server, "mongo_connections")
        # Nothing is read: the connection ends, and what was kept for it is gone.
        until(lambda: budget(server, "mongo_connections") < connected)
        assert budget(server, "bytes_in_flight") == 0


def test_requests_behind_each_other_are_all_answered_in_order(wire: Wire) -> None:
    """More than one read of a socket brings, and more than are answered in one turn."""
    count = 1000
    for number in range(count):
        wire.send(hello=1, comment=number, db="admin")
    with wire.socket.makefile("rb") as stream:
        for _ in range(count):
            size = int.from_bytes(stream.read(4), "little")
            assert decode(stream.read(size - 4)[17:])["ok"] == 1


def test_cursors_belong_to_their_user(tmp_path: Any) -> None:
    place = tmp_path / "password"
    place.write_text("root's own", encoding="utf-8")
    with serve(memory=True, port=0, mongo_password_file=str(place)) as server, server.mongo.client() as root:
        for name in ("ann", "bob"):
            root.shop.command("createUser", name, pwd="p", roles=["readWrite"])
        root.shop.c.insert_many([{"_id": number} for number in range(3)])
        uri = server.mongo.uri.rpartition("@")[2].partition("/")[0]

        def as_user(name: str) -> MongoClient[dict[str, Any]]:
            return MongoClient(
                f"mongodb://{uri}", username=name, password="p", authSource="shop", directConnection=True
            )

        with as_user("ann") as ann, as_user("bob") as bob:

            def run(client: MongoClient[dict[str, Any]], command: dict[str, Any]) -> dict[str, Any]:
                return dict(client.shop.command(command, check=False))

            id = Int64(ann.shop.command({"find": "c", "batchSize": 1})["cursor"]["id"])
            stolen = run(bob, {"getMore": id, "collection": "c"})
            assert (stolen["code"], stolen["errmsg"]) == (
                13,
                f"cursor id {id} was not created by the authenticated user",
            )
            killed = run(bob, {"killCursors": "c", "cursors": [id]})
            assert (killed["code"], killed["errmsg"]) == (13, "not authorized to kill cursor on shop.c")
            # Its own user, and one who may do everything, may close it. Unknown cursors are no secret.
            assert run(bob, {"killCursors": "c", "cursors": [Int64(1)]})["cursorsNotFound"] == [1]
            assert run(ann, {"killCursors": "c", "cursors": [id]})["cursorsKilled"] == [id]
            id = Int64(ann.shop.command({"find": "c", "batchSize": 1})["cursor"]["id"])
            assert run(root, {"killCursors": "c", "cursors": [id]})["cursorsKilled"] == [id]


LARGE_READS: list[dict[str, Any]] = [
    {"find": "c"},
    {"find": "c", "sort": {"n": 1}},
    {"aggregate": "c", "pipeline": [{"$group": {"_id": "$_id", "x": {"$first": "$x"}}}], "cursor": {}},
    {"find": "c", "sort": {"n": 1}, "filter": {"$nonsense": 1}},
    {"findAndModify": "c", "query": {}, "sort": {"n": 1}, "update": {"$set": {"y": 1}}},
]


def test_large_reads_wait_for_their_turn_and_give_it_back() -> None:
    with serve(memory=True, port=0) as server:
        with closing(Wire(server)) as wire:
            for number in range(20):
                assert wire.ask(insert="c", documents=[{"_id": number, "n": -number, "x": "x" * 100_000}])["ok"] == 1

        def ask(command: dict[str, Any]) -> int:
            with closing(Wire(server)) as client:
                answer = client.ask(**command)
                return len(answer["cursor"]["firstBatch"]) if "cursor" in answer else -int(answer["ok"])

        for _ in range(2):
            with ThreadPoolExecutor(len(LARGE_READS) * LARGE_AT_ONCE) as pool:
                assert [*pool.map(ask, LARGE_READS * LARGE_AT_ONCE)] == [20, 20, 20, 0, -1] * LARGE_AT_ONCE
        assert budget(server, "bytes_in_flight") == 0


def test_heavy_messages_are_answered_one_after_the_other() -> None:
    with serve(memory=True, port=0) as server:

        def ask(number: int) -> int:
            with closing(Wire(server)) as client:
                documents = [{"_id": number, "x": "x" * 9 * MB}]
                return int(client.ask(insert="heavy", documents=documents)["n"])

        with ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(ask, range(4))) == 4
        assert budget(server, "bytes_in_flight") == 0


def test_cursors_that_are_open_as_the_server_stops_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The event loop cannot close their generators, whose steps run on threads, and logs an error for each."""
    made: list[Cursors] = []
    begin = Cursors.__init__

    def note(cursors: Cursors, *given: Any) -> None:
        made.append(cursors)
        begin(cursors, *given)

    monkeypatch.setattr(Cursors, "__init__", note)
    with serve(memory=True, port=0) as server:
        # Without a session, whose end would close the cursor.
        wire = Wire(server)
        wire.ask(insert="c", documents=[{"_id": number} for number in range(300)])
        wire.ask(find="c", batchSize=10)
        assert [len(each) for each in made] == [1]
    wire.close()
    assert [len(each) for each in made] == [0]
