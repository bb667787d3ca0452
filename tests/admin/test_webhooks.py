"""Webhooks: expiry events arrive at receivers, signed, in order, each at least once."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from azure.cosmos import PartitionKey

from mayflydb.admin import webhooks
from mayflydb.admin.webhook_messages import (
    ATTEMPTS,
    build_message,
    check_secret,
    check_url,
    encode_secret,
    headers_of,
    wait_after,
)
from mayflydb.embedded import RunningServer, serve
from mayflydb.model.errors import BadRequest
from served import START, Http, port_of

SESSIONS = "cosmos:shop/sessions"


class Receiver:
    """Receives messages, and answers as it is told."""

    def __init__(self) -> None:
        self.messages: list[tuple[dict[str, str], dict[str, Any]]] = []
        self.status: Callable[[int], int] = lambda number: 204
        self.heard = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                with receiver.heard:
                    receiver.messages.append(({k.lower(): v for k, v in self.headers.items()}, json.loads(body)))
                    status = receiver.status(len(receiver.messages))
                    receiver.heard.notify_all()
                receiver.check(self.headers["webhook-signature"], self.headers, body)
                self.send_response(status)
                self.send_header("location", "/elsewhere")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.secret = ""
        self.false = 0
        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/expired?of=mayfly"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def check(self, signature: str, headers: Any, body: bytes) -> None:
        """Count signatures that are false, by the specification and none of our code."""
        key = base64.b64decode(self.secret.removeprefix("whsec_"))
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        expected = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        self.false += signature != expected

    def wait(self, number: int) -> list[dict[str, Any]]:
        """Wait for a number of messages and return all."""
        with self.heard:
            assert self.heard.wait_for(lambda: len(self.messages) >= number, 20), self.messages
            return [body for _, body in self.messages]

    def events(self, number: int) -> list[dict[str, Any]]:
        """Wait for a number of events, and return all that were received."""
        with self.heard:
            self.heard.wait_for(lambda: len(self._events()) >= number, 20)
            return self._events()

    def _events(self) -> list[dict[str, Any]]:
        return [event for _, body in self.messages for event in body["events"]]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.server.shutdown()
    made.server.server_close()
    assert made.false == 0


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts follow each other at once."""
    monkeypatch.setattr(webhooks, "wait_after", lambda attempts, chance: 0.0)


def add(http: Http, receiver: Receiver, **more: object) -> None:
    receiver.secret = http.post("webhooks", name="audit", url=receiver.url, **more)["secret"]


def expire(server: RunningServer, ids: range) -> None:
    sessions = server.cosmos.client().get_database_client("shop").get_container_client("sessions")
    for n in ids:
        sessions.create_item({"id": f"n{n}", "userId": "u1", "ttl": 5})
    server.clock.advance(seconds=6)


def state(http: Http) -> dict[str, Any]:
    return http.get("webhooks")["webhooks"][0]  # type: ignore[no-any-return]


@pytest.mark.usefixtures("sessions")
def test_expiries_arrive_in_order_with_their_facts(server: RunningServer, http: Http, receiver: Receiver) -> None:
    expire(server, range(2))  # Before the webhook: not of its concern.
    add(http, receiver)
    assert "secret" not in state(http)
    expire(server, range(3))
    found = receiver.events(3)
    assert [(each["type"], each["target"], each["id"], each["reason"]) for each in found] == [
        ("expired", SESSIONS, f"n{n}", "item") for n in range(3)
    ]
    told = http.get("events/expired")["events"][2:5]
    assert [{name: each[name] for name in told[0]} for each in found] == told


@pytest.mark.usefixtures("quick", "sessions")
def test_what_is_not_accepted_is_repeated_with_the_same_id(
    server: RunningServer, http: Http, receiver: Receiver
) -> None:
    receiver.status = lambda number: (500, 302, 410, 204)[min(number, 4) - 1]
    add(http, receiver)
    expire(server, range(2))
    messages = receiver.wait(4)
    assert len({each["id"] for each in messages[:4]}) == 1
    assert all(each["events"] == messages[0]["events"] for each in messages[:4])
    assert [each[0]["webhook-id"] for each in receiver.messages[:4]] == [messages[0]["id"]] * 4


@pytest.mark.usefixtures("quick", "sessions")
def test_dead_letters_are_kept_and_sent_on_demand(server: RunningServer, http: Http, receiver: Receiver) -> None:
    receiver.status = lambda number: 500 if number <= ATTEMPTS else 204
    add(http, receiver)
    expire(server, range(1))
    receiver.wait(ATTEMPTS)
    expire(server, range(1, 2))
    assert receiver.events(ATTEMPTS + 1)[-1]["id"] == "n1"
    (letter,) = state(http)["dead_letters"]
    assert (letter["events"], letter["error"][:3]) == (1, "500")
    assert http.post("webhooks/audit/retry")["sent"] == 1
    assert receiver.wait(ATTEMPTS + 2)[-1] == receiver.messages[0][1]
    assert (state(http)["dead_letters"], http.post("webhooks/audit/retry")["sent"]) == ([], 0)


@pytest.mark.usefixtures("sessions")
def test_filters(server: RunningServer, http: Http, receiver: Receiver) -> None:
    server.cosmos.client().get_database_client("shop").create_container("other", PartitionKey("/id"), default_ttl=5)
    other = server.cosmos.client().get_database_client("shop").get_container_client("other")
    add(http, receiver, target="cosmos:shop/other", causes=["default"])
    expire(server, range(3))
    other.create_item({"id": "own", "ttl": 3})
    other.create_item({"id": "default"})
    server.clock.advance(seconds=6)
    assert [each["id"] for each in receiver.events(1)] == ["default"]


def test_all_protocols(server: RunningServer, http: Http, receiver: Receiver) -> None:
    add(http, receiver)
    with server.mongo.client() as client, server.ydb.driver() as driver:
        client["app"]["otps"].create_index("at", expireAfterSeconds=0)
        client["app"]["otps"].insert_one({"_id": 1, "at": server.clock.now()})
        import ydb

        with ydb.QuerySessionPool(driver) as pool:
            pool.execute_with_retries(
                'CREATE TABLE carts (id Int64, at Timestamp, PRIMARY KEY (id)) WITH (TTL = Interval("PT0S") ON at)'
            )
            pool.execute_with_retries("UPSERT INTO carts (id, at) VALUES (1, CurrentUtcTimestamp())")
        server.clock.advance(hours=2)
    found = [(each["target"], each["reason"]) for each in receiver.events(2)]
    assert found == [("mongo:app.otps", "index"), ("ydb:/local/carts", "column")]


@pytest.mark.usefixtures("sessions")
def test_many_events_are_several_messages(server: RunningServer, http: Http, receiver: Receiver) -> None:
    sessions = server.cosmos.client().get_database_client("shop").get_container_client("sessions")
    add(http, receiver)
    for start in range(0, 230, 100):
        items = [
            ("create", ({"id": f"m{n:03}", "userId": "u1", "ttl": 5},)) for n in range(start, min(start + 100, 230))
        ]
        sessions.execute_item_batch(items, "u1")
    server.clock.advance(seconds=6)
    assert [each["id"] for each in receiver.events(230)] == [f"m{n:03}" for n in range(230)]
    assert all(len(body["events"]) <= 100 for _, body in receiver.messages)


def test_a_restart_repeats_what_was_not_confirmed(tmp_path: Path, receiver: Receiver) -> None:
    file = tmp_path / "mayfly.db"

    def start(**more: Any) -> Any:
        return serve(file, port=0, mongo_port=-1, ydb_port=-1, clock="virtual", **more)

    receiver.status = lambda number: 503 if number == 1 else 204
    with start(clock_start=START) as server:
        http = Http(port_of(server))
        server.cosmos.client().create_database("shop").create_container(
            "sessions", PartitionKey("/userId"), default_ttl=-1
        )
        add(http, receiver)
        expire(server, range(2))
        first = receiver.wait(1)[0]
        expire(server, range(2, 4))
    with start() as server:
        messages = receiver.wait(3)
        settle(Http(port_of(server)))
    # The same events and id, although there are more events by now; then the others.
    assert (messages[1], [each["id"] for each in messages[2]["events"]]) == (first, ["n2", "n3"])
    with start() as server:
        expire(server, range(4, 5))
        assert [each["id"] for each in receiver.wait(4)[3]["events"]] == ["n4"]


def test_management(http: Http, receiver: Receiver) -> None:
    add(http, receiver)
    assert http.post("webhooks/audit/test") | {"now": ""} == {"now": "", "name": "audit", "accepted": True, "error": ""}
    assert receiver.wait(1)[0]["events"] == []
    receiver.status = lambda number: 401
    assert http.post("webhooks/audit/test")["error"].startswith("401 Unauthorized")
    assert http("POST", "/_mayfly/webhooks", {"name": "audit", "url": receiver.url}).status == 409
    assert http("DELETE", "/_mayfly/webhooks/audit").status == 200
    assert http.get("webhooks")["webhooks"] == []
    assert http("DELETE", "/_mayfly/webhooks/audit").status == 404


def settle(http: Http) -> None:
    """Return when the acceptance of all messages is stored."""
    while state(http)["waiting"]:
        pass


REFUSED: list[tuple[dict[str, object], int, str]] = [
    ({"url": "ftp://example.com"}, 400, "no address of a webhook"),
    ({"url": "https://user:secret@example.com/"}, 400, "no address of a webhook"),
    ({"url": "https://"}, 400, "no address of a webhook"),
    ({"name": "a b"}, 400, "name"),
    ({"causes": ["age"]}, 400, "age"),
    ({"secret": "whsec_c2hvcnQ="}, 400, "a secret of a webhook"),
    ({"secret": "plain"}, 400, "a secret of a webhook"),
    ({"target": "cosmos:none/such"}, 404, "none"),
]


@pytest.mark.parametrize(("more", "status", "words"), REFUSED)
def test_refusals(http: Http, more: dict[str, object], status: int, words: str) -> None:
    answer = http("POST", "/_mayfly/webhooks", {"name": "audit", "url": "https://example.com/", **more})
    assert (answer.status, words in str(answer.json)) == (status, True), answer


def test_the_signature_is_that_of_the_specification() -> None:
    secret = encode_secret(bytes(range(24)))
    message = build_message(7, "audit", [{"seq": 4}], 3, 4)
    assert check_secret(secret) == secret and message.id == "7-3-4"
    signed = b"7-3-4.1893456000." + message.body
    expected = base64.b64encode(hmac.new(bytes(range(24)), signed, hashlib.sha256).digest()).decode()
    assert headers_of(message, secret, 1893456000)["webhook-signature"] == f"v1,{expected}"
    # Another message has another signature.
    assert headers_of(message, secret, 1893456001)["webhook-signature"] != f"v1,{expected}"


def test_waits_grow_up_to_two_hours() -> None:
    waits = [wait_after(attempts, 1.0) for attempts in range(1, ATTEMPTS)]
    assert (waits[0], waits[-1], waits == sorted(waits)) == (2.0, 7200.0, True)
    assert wait_after(3, 0.0) == 6.0
    assert 8 * 3600 < sum(waits) < 9 * 3600
    with pytest.raises(BadRequest):
        check_url("http://[::1")
