"""The page of webhooks: added with a secret that is shown once, tested, retried and removed, with receivers on this machine."""

from __future__ import annotations

import base64
import hashlib
import hmac
import html
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from azure.cosmos import DatabaseProxy, PartitionKey

from mayflydb.admin import webhooks
from mayflydb.embedded import RunningServer
from portal.visitor import Page, Visitor
from served import Http, port_of

PAGE = "/_explorer/webhooks"

pytestmark = pytest.mark.parametrize("store", ["memory"], indirect=True, scope="session")


class Receiver:
    """Keeps messages, and answers with `status`."""

    def __init__(self) -> None:
        self.messages: list[tuple[dict[str, str], bytes]] = []
        self.status = 204
        self.heard = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                with receiver.heard:
                    receiver.messages.append(({k.lower(): v for k, v in self.headers.items()}, body))
                    status = receiver.status
                    receiver.heard.notify_all()
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/expired"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def wait(self, number: int) -> list[tuple[dict[str, str], bytes]]:
        with self.heard:
            assert self.heard.wait_for(lambda: len(self.messages) >= number, 20), self.messages
            return list(self.messages)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def http(server: RunningServer) -> Http:
    return Http(port_of(server))


def said(page: Page) -> str:
    return page.text("notification-console/header-status")


def add(visitor: Visitor, url: str, **more: str) -> Page:
    return visitor.post(PAGE, {"action": "add", "name": "audit", "url": url, "target": "", "secret": "", **more})


def expire(shop: DatabaseProxy, server: RunningServer, name: str) -> None:
    items = shop.create_container(name, PartitionKey("/id"), default_ttl=60)
    items.create_item({"id": f"{name}-1"})
    server.clock.advance(seconds=60)


def listed(http: Http) -> dict[str, Any]:
    return http.get("webhooks")["webhooks"][0]  # type: ignore[no-any-return]


def test_an_added_webhook_gets_what_expires_under_its_secret(
    server: RunningServer, shop: DatabaseProxy, visitor: Visitor, http: Http, receiver: Receiver
) -> None:
    assert "There is no webhook yet" in visitor.get(PAGE).source
    shop.create_container("sessions", PartitionKey("/id"))
    page = add(visitor, receiver.url, target="cosmos:shop/sessions", cause="default")
    found = re.search(r"whsec_[A-Za-z0-9+/=]+", html.unescape(page.texts["mf-secret"]))
    assert page.status == 200 and found is not None and said(page) == "Added webhook audit"
    # The secret is on this one page alone.
    for later in (visitor.get(PAGE).source, json.dumps(visitor.json(f"{PAGE}.json"))):
        assert "audit" in later and "whsec_" not in later.replace("whsec_ and base64", "")
    assert (listed(http)["target"], listed(http)["causes"]) == ("cosmos:shop/sessions", ["default"])
    shop.delete_container("sessions")
    expire(shop, server, "sessions")
    headers, body = receiver.wait(1)[0]
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    key = base64.b64decode(found[0].removeprefix("whsec_"))
    expected = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == expected
    assert [event["id"] for event in json.loads(body)["events"]] == ["sessions-1"]


@pytest.mark.parametrize(
    ("fields", "status", "reason"),
    [
        ({"url": "ftp://127.0.0.1/"}, 400, "is no address of a webhook"),
        ({"url": ""}, 400, "is no address of a webhook"),
        ({"name": "a b"}, 400, "Name: up to 64 letters"),
        ({"name": ""}, 400, "Name: up to 64 letters"),
        ({"secret": "whsec_x"}, 400, "24 to 64 bytes"),
        ({"target": "cosmos:nothing"}, 404, "there is no cosmos:nothing"),
        ({"cause": "boredom"}, 400, "boredom"),
        ({"action": "explode"}, 400, "no button"),
    ],
)
def test_what_is_refused_is_shown_again(
    visitor: Visitor, http: Http, fields: dict[str, str], status: int, reason: str
) -> None:
    page = add(visitor, **{"url": "http://127.0.0.1:9/", **fields})
    assert (page.status, reason in page.alert_text) == (status, True)
    if "action" not in fields:
        assert page.fields["url"] == fields.get("url", "http://127.0.0.1:9/")
    assert http.get("webhooks")["webhooks"] == []


def test_a_name_is_taken_once(visitor: Visitor) -> None:
    add(visitor, "http://127.0.0.1:9/")
    page = add(visitor, "http://127.0.0.1:9/")
    assert (page.status, page.alert_text) == (409, "there is a webhook audit already")


def test_a_webhook_is_tested(visitor: Visitor, receiver: Receiver) -> None:
    add(visitor, receiver.url)
    assert said(visitor.post(PAGE, {"action": "test", "name": "audit"})) == "audit accepted the test"
    receiver.status = 410
    assert said(visitor.post(PAGE, {"action": "test", "name": "audit"})).startswith("audit refused: 410")
    assert [json.loads(body)["events"] for _, body in receiver.wait(2)] == [[], []]
    missing = visitor.post(PAGE, {"action": "test", "name": "nothing"})
    assert (missing.status, missing.alert_text) == (404, "there is no webhook nothing")


def test_dead_letters_are_listed_and_retried(
    server: RunningServer, shop: DatabaseProxy, visitor: Visitor, http: Http, receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(webhooks, "wait_after", lambda attempts, chance: 0.0)
    monkeypatch.setattr(webhooks, "ATTEMPTS", 2)
    receiver.status = 503
    add(visitor, receiver.url)
    assert "Retry" not in visitor.get(PAGE).source
    expire(shop, server, "sessions")
    receiver.wait(2)
    while not listed(http)["dead_letters"]:
        pass
    page = visitor.get(PAGE)
    assert "503 Service Unavailable" in page.text("mf-webhooks")
    assert "503 Service Unavailable" in page.text("mf-dead:audit")
    assert said(visitor.post(PAGE, {"action": "retry", "name": "audit"})) == (
        "audit accepted 0 dead letters; 1 are left"
    )
    receiver.status = 204
    page = visitor.post(PAGE, {"action": "retry", "name": "audit"})
    assert said(page) == "audit accepted 1 dead letters; 0 are left" and "mf-dead:audit" not in page.texts


def test_a_removal_is_asked_about_once(visitor: Visitor, http: Http) -> None:
    add(visitor, "http://127.0.0.1:9/")
    page = visitor.post(PAGE, {"action": "remove", "name": "audit"})
    assert "audit is removed" in page.text("mf-question") and len(http.get("webhooks")["webhooks"]) == 1
    page = visitor.post(PAGE, {"action": "remove-for-good", "name": "audit"})
    assert said(page) == "Removed webhook audit" and http.get("webhooks")["webhooks"] == []
    assert visitor.post(PAGE, {"action": "remove-for-good", "name": "audit"}).status == 404


def test_another_site_adds_none(visitor: Visitor, http: Http) -> None:
    page = visitor.post(
        PAGE, {"action": "add", "name": "audit", "url": "http://127.0.0.1:9/"}, origin="http://evil.example"
    )
    assert page.status == 403 and http.get("webhooks")["webhooks"] == []
