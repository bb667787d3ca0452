"""What the server says to a test: the messages of its errors, also of those inside of replies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pymongo import monitoring

MOST = 50
LONGEST = 500


class Heard(monitoring.CommandListener):
    """Keeps the first messages of errors since `forget`."""

    def __init__(self) -> None:
        self.refusals: list[str] = []

    def forget(self) -> None:
        self.refusals = []

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        pass

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        self._note(event.reply)

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        self._note(event.failure)

    def _note(self, reply: Any) -> None:
        for message in messages(reply):
            if len(self.refusals) < MOST and message not in self.refusals:
                self.refusals.append(message[:LONGEST])


def messages(reply: Any) -> Iterator[str]:
    """The messages of a reply, of its write errors, and of the statements of a bulk write."""
    if "errmsg" in reply:
        yield str(reply["errmsg"])
    for error in reply.get("writeErrors") or ():
        yield str(error.get("errmsg"))
    for statement in (reply.get("cursor") or {}).get("firstBatch") or ():
        if isinstance(statement, dict) and "errmsg" in statement:
            yield str(statement["errmsg"])
