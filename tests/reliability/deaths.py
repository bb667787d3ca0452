"""Whether all that tells of deaths agrees: stored events, lines of the erasure log, messages of a webhook."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from mayflydb.expiry.erasure_chain import Line, Verifier
from served import Http

PATIENCE = 60.0


class Receiver:
    """Accepts messages; of so many one is refused at first, and none for 0. A context manager.

    A message that comes again must have the same events. Events that are new must follow the old ones.
    """

    def __init__(self, refuse_each: int = 0) -> None:
        self.events: list[dict[str, Any]] = []
        self.messages: dict[str, list[dict[str, Any]]] = {}
        self.repeated = 0
        self.faults: list[str] = []
        self.interrupt: Callable[[], None] | None = None
        """Called once, when a message has come and before it is answered."""

        self._calls = 0
        self._heard = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                # A process that was killed amid a message sends no more of it.
                accepted = receiver._take(self.headers["webhook-id"], body, refuse_each)
                self.send_response(204 if accepted else 503)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/died"

    def _take(self, id: str, body: bytes, refuse_each: int) -> bool:
        with self._heard:
            self._calls += 1
            if refuse_each and self._calls % refuse_each == 0:
                return False
            events = json.loads(body)["events"]
            if id in self.messages:
                self.repeated += 1
                if self.messages[id] != events:
                    self.faults.append(f"message {id} came again with other events")
            else:
                self.messages[id] = events
                if self.events and events[0]["seq"] <= self.events[-1]["seq"]:
                    self.faults.append(f"message {id} begins with {events[0]['seq']} after {self.events[-1]['seq']}")
                self.events += events
            self._heard.notify_all()
            interrupt, self.interrupt = self.interrupt, None
        if interrupt is not None:
            interrupt()
        return True

    def wait(self, last: int) -> list[dict[str, Any]]:
        """Wait until the event with this number is there, and return all up to it."""
        with self._heard:
            came = self._heard.wait_for(
                lambda: last == 0 or (bool(self.events) and self.events[-1]["seq"] >= last), PATIENCE
            )
            assert came, f"event {last} did not come; the last is {self.events[-1:]}"
            assert not self.faults, self.faults
            return [event for event in self.events if event["seq"] <= last]

    def wait_for_repetition(self, number: int) -> None:
        """Wait until so many messages have come again."""
        with self._heard:
            assert self._heard.wait_for(lambda: self.repeated >= number, PATIENCE), self.repeated

    def __enter__(self) -> Receiver:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def read_events(http: Http) -> list[dict[str, Any]]:
    """All stored expiry events."""
    found: list[dict[str, Any]] = []
    after = 0
    while True:
        page = http.get(f"events/expired?after={after}&limit=1000")
        if page["last"] == after:
            return found
        after = page["last"]
        found += page["events"]


def read_lines(http: Http) -> list[Line]:
    """All lines of the erasure log, verified."""
    status = http.get("erasure")
    verifier, lines, after = Verifier(), list[Line](), 0
    while len(lines) < status["lines"]:
        page = http.get(f"erasure/lines?after={after}")
        assert page["last"] > after, status
        after = page["last"]
        lines += [verifier.add(line.encode()) for line in page["lines"]]
    return lines


def check_agreement(http: Http, receiver: Receiver) -> int:
    """Every event until now has one line and came in one message, with the same facts; the number of deaths."""
    events = read_events(http)
    last = events[-1]["seq"] if events else 0
    assert [event["seq"] for event in events] == sorted({event["seq"] for event in events})
    lines = [line for line in read_lines(http) if line.kind != "erased" or line.event <= last]
    assert [line.kind for line in lines].count("start") == 1 and {line.kind for line in lines} <= {"start", "erased"}
    erased = [(line.event, line.cause, line.deadline, line.at, "/".join(line.path)) for line in lines if line.event]
    assert erased == [(each["seq"], *_facts(each)) for each in events]
    received = receiver.wait(last)
    names = ("seq", "target", "id", "pk", "due", "purged_at", "reason")
    assert [[each[name] for name in names] for each in received] == [[each[name] for name in names] for each in events]
    return len(events)


def _facts(event: dict[str, Any]) -> tuple[str, str, str, str]:
    protocol, _, path = event["target"].partition(":")
    return event["reason"], event["due"], event["purged_at"], f"{protocol}/{path}"
