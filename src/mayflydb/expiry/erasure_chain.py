"""The lines of the erasure log, and the verification of their chain; pure.

A line is canonical JSON: the members of `Line` in its order, without those that are empty. `prev` is the SHA-256 of the line
before, so a line that is changed, removed, inserted or moved breaks the chain, and the hash of the last line stands for all.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from typing import Final, Literal

import msgspec

from mayflydb.expiry.lifecycle import UNDATED
from mayflydb.model.instant import DAY, LAST_INSTANT, Instant, to_rfc3339
from mayflydb.model.record import Expiry

NOTHING: Final = "0" * 64
"""The hash before the first line."""

LineKind = Literal["start", "erased", "gap", "scrubbed", "shredded"]


class Line(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One line. `n` counts lines from 1, `event` is the number of the last expiry event that the log knows with this line.

    `start`: the log has every event behind `event`; numbers of events count anew from here. `erased`: an expired record left the
    store `at`; `path` has the names of its container and of the nodes above it, empty if it was dropped before the log could read
    them. `gap`: the events behind `after` were removed before the log could read them. `scrubbed`: secure erase has overwritten
    what the events up to `event` erased. `shredded`: no record is stored any more that was written in a container on a `day` (in
    words `any`, where one key is for all), and their key is destroyed, and with it all copies of them.
    """

    n: int
    kind: LineKind
    at: str
    event: int
    prev: str
    container: int = 0
    path: tuple[str, ...] = ()
    key: str = ""
    cause: str = ""
    rule: int = 0
    deadline: str = ""
    how: str = ""
    after: int = 0
    day: str = ""


class Head(msgspec.Struct, frozen=True):
    """The end of a log: the number of its lines, and the hash of the last one."""

    lines: int = 0
    hash: str = NOTHING


class FileEnd(msgspec.Struct, frozen=True):
    """The last line of an exported file: the head of the log that it holds."""

    head: Head


class Tampered(ValueError):
    """A chain does not hold. `n`: the number of the line at which that is seen."""

    def __init__(self, n: int, reason: str) -> None:
        super().__init__(f"line {n}: {reason}")
        self.n = n
        self.reason = reason


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(Line).decode


def hash_line(line: bytes) -> str:
    """Return the hash by which the next line refers to this one."""
    return hashlib.sha256(line).hexdigest()


def hash_key(secret: bytes, container: int, partition: bytes, key: bytes) -> str:
    """Return the keyed hash of a record's identity. Without the secret a guessed key cannot be compared with it."""
    identity = b"%d %d " % (container, len(partition)) + partition + key
    return hmac.digest(secret, identity, "sha256").hex()


def describe_erased(event: Expiry, path: Sequence[str], secret: bytes) -> Line:
    """Return the line of an expiry event, without its place in the chain."""
    return Line(
        0, "erased", format_time(event.purged), event.id, "", event.container, _as_text(path),
        hash_key(secret, event.container, event.partition, event.key), event.cause, event.rule_version,
        format_time(event.deadline), event.how,
    )  # fmt: skip


def _as_text(path: Sequence[str]) -> tuple[str, ...]:
    # A name may have halves of characters, which are no text.
    return tuple(name.encode("utf-8", "surrogatepass").decode("utf-8", "replace") for name in path)


def describe_shredded(container: int, number: int, path: Sequence[str], event: int, at: str) -> Line:
    """Return the line of a segment whose key was destroyed, without its place in the chain."""
    day = "any" if number == UNDATED else format_time(number * DAY)[:10]
    return Line(0, "shredded", at, event, "", container, _as_text(path), day=day)


def format_time(instant: Instant) -> str:
    """Format an instant as RFC 3339; `after 9999` for a later one."""
    return to_rfc3339(instant) if instant <= LAST_INSTANT else "after 9999"


def chain(head: Head, lines: Iterable[Line]) -> tuple[list[bytes], Head]:
    """Return the lines with their places behind a head, encoded, and the new head."""
    encoded: list[bytes] = []
    for line in lines:
        data = _encode(msgspec.structs.replace(line, n=head.lines + 1, prev=head.hash))
        encoded.append(data)
        head = Head(head.lines + 1, hash_line(data))
    return encoded, head


class Verifier:
    """Checks lines one after the other. `noted`: heads that were written down earlier, which the chain must contain."""

    def __init__(self, noted: Iterable[Head] = ()) -> None:
        self.head = Head()
        self._noted = {head.lines: head.hash for head in noted}
        self._event = self._scrubbed = 0

    def add(self, data: bytes) -> Line:
        """Check that a line continues the chain, and return it. Tampered if it does not."""
        n = self.head.lines + 1
        try:
            line = _decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Tampered(n, f"it is no line of an erasure log ({error})") from error
        self._check(n, line, data)
        self.head = Head(n, hash_line(data))
        if line.kind == "scrubbed":
            self._scrubbed = line.event
        else:
            self._event = line.event
            self._scrubbed = 0 if line.kind == "start" else self._scrubbed
        self._compare(n, self.head.hash)
        return line

    def _check(self, n: int, line: Line, data: bytes) -> None:
        if line.n != n:
            raise Tampered(n, f"it has the number {line.n}: lines are missing, were added or moved")
        if line.prev != self.head.hash:
            raise Tampered(n, "the line before it is not the one that it continues")
        if _encode(line) != data:
            raise Tampered(n, "it is not written as the log writes lines")
        if (line.kind == "start") < (n == 1):
            raise Tampered(n, "the log does not begin with it")
        lowest = {"start": 0, "scrubbed": self._scrubbed + 1, "shredded": self._event}.get(line.kind, self._event + 1)
        if line.event < lowest or (line.kind == "gap" and line.after < self._event):
            raise Tampered(n, "its event is out of order")

    def _compare(self, n: int, found: str) -> None:
        if self._noted.get(n, found) != found:
            raise Tampered(n, "its hash is another one than was noted earlier")

    def finish(self, head: Head) -> None:
        """Check that the chain ends at a head, and contains all noted ones. Tampered if it does not."""
        if self.head.lines < head.lines:
            raise Tampered(self.head.lines + 1, f"it is missing: the log has {head.lines} lines")
        if self.head != head:
            raise Tampered(self.head.lines, "the log ends with another line")
        self._compare(0, NOTHING)
        longest = max(self._noted, default=0)
        if longest > head.lines:
            raise Tampered(head.lines + 1, f"it is missing: a head of {longest} lines was noted earlier")
