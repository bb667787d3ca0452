"""A server with a clock that tests move, as pymongo sees it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any

import pytest
from bson import DatetimeMS
from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import OperationFailure

from mayflydb.embedded import RunningServer

START = "2030-01-01T00:00:00Z"
T = 1893456000
"""START in seconds."""

SECOND = 1_000_000
LAST = (253402300799 - T) * SECOND + SECOND - 1
"""The last microsecond of the year 9999, in microseconds from START."""

Document = dict[str, Any]


def date(seconds: float) -> DatetimeMS:
    """Return the instant this many seconds after START."""
    return DatetimeMS(T * 1000 + round(seconds * 1000))


class World:
    """A server and its client. The clock is at START when a test begins, and times are seconds from there. Each test has new
    databases.
    """

    def __init__(self, server: RunningServer, store: str) -> None:
        self.server = server
        self.store = store
        self.client: MongoClient[Document] = server.mongo.client(serverSelectionTimeoutMS=5000)
        self.admin = self.client["admin"]
        self.db: Database[Document] = self.client["none"]
        self._numbers = count(1)

    def begin(self) -> None:
        self.server.reset()
        self.db = self.client[f"db{next(self._numbers)}"]
        self._purged = 0
        self._purged = self.purged()

    def close(self) -> None:
        self.client.close()

    # --- time ------------------------------------------------------------------------------------------------------------

    def move(self, seconds: float, sweep: str = "none") -> None:
        """Advance the clock to an instant. `sweep`: whether due documents are purged on the way."""
        micros = (T * SECOND + round(seconds * SECOND)) - self._now()
        self.server.clock.advance(f"{micros}us", sweep=sweep)  # type: ignore[arg-type]

    def _now(self) -> int:
        return round(self.server.clock.now().timestamp() * SECOND)

    # --- collections -------------------------------------------------------------------------------------------------------

    def on_ts(self, seconds: Any, name: str = "c") -> Collection[Document]:
        """Create a collection with a TTL index on `_ts`."""
        return self.indexed({"_ts": 1}, seconds, name)

    def indexed(self, key: Mapping[str, Any], seconds: Any, name: str = "c", **options: Any) -> Collection[Document]:
        """Create a collection with a TTL index."""
        self.create(name, {"key": dict(key), "name": "ttl", "expireAfterSeconds": seconds, **options})
        return self.db[name]

    def create(self, name: str, *indexes: Document) -> Document:
        """Run createIndexes, and return the reply."""
        return dict(self.db.command("createIndexes", name, indexes=list(indexes)))

    def status(self) -> Document:
        """`metrics.ttl` of serverStatus."""
        return dict(self.admin.command("serverStatus")["metrics"]["ttl"])

    def purged(self) -> int:
        """The number of documents that expiry has purged since the test began."""
        return int(self.status()["deletedDocuments"]) - self._purged

    def check_lives(self, collection: Collection[Document], lives: Mapping[Any, float | None], unit: float = 1) -> None:
        """Check that each document, by `_id`, is visible before its deadline and not from then on; None: always visible."""
        self.check_all({collection.name: lives}, unit)

    def check_all(self, lives: Mapping[str, Mapping[Any, float | None]], unit: float = 1) -> None:
        """The same for several collections."""
        ends = {(name, id): life for name, own in lives.items() for id, life in own.items()}
        exact = {place: None if life is None else round(life * SECOND) for place, life in ends.items()}
        steps = (-round(unit * SECOND), 0, round(unit * SECOND))
        moments = {end + step for end in exact.values() if end is not None for step in steps}
        now = self._now() - T * SECOND
        for moment in sorted(each for each in moments if now <= each <= LAST):
            self.move(moment / SECOND)
            seen = {(name, id) for name in lives for id in ids(self.db[name])}
            expected = {place for place, end in exact.items() if end is None or moment < end}
            assert seen == expected, f"{moment} us after the start"


def ids(collection: Collection[Document], query: Document | None = None) -> set[Any]:
    """The ids of the visible documents."""
    return {each["_id"] for each in collection.find(query or {}, {"_id": 1})}


def named(documents: Iterable[tuple[str, Document]]) -> list[Document]:
    """Documents with ids."""
    return [{"_id": id, **document} for id, document in documents]


def refused(code: int, text: str = "") -> Any:
    """Expects a command to be refused with this code, and these words."""
    return Refusal(code, text)


class Refusal:
    """A context that an OperationFailure ends."""

    def __init__(self, code: int, text: str) -> None:
        self._raises: Any = pytest.raises(OperationFailure)
        self._code = code
        self._text = text
        self._caught: Any = None

    def __enter__(self) -> None:
        self._caught = self._raises.__enter__()

    def __exit__(self, *error: Any) -> bool:
        left = bool(self._raises.__exit__(*error))
        assert self._caught.value.code == self._code, self._caught.value
        assert self._text in str(self._caught.value)
        return left
