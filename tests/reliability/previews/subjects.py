"""Random records and random changes of TTL settings, of each protocol, by the vendors' clients."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import Any, Protocol

from bson import ObjectId

from mayflydb.embedded import RunningServer

SPANS = (0, 1, 59, 60, 61, 600, 3599, 3600, 3601, 86_400, 600_000)
"""Seconds of rules, near the bounds of the counts of a preview."""


class Subject(Protocol):
    """One container that a round fills. `target`: its name. `hides`: all that expires is hidden before its purge."""

    target: str
    hides: bool

    def fill(self, chance: random.Random) -> None:
        """Make the container anew, with rules of its own or none, and write records while time goes on."""
        ...

    def propose(self, chance: random.Random) -> dict[str, Any]:
        """Return a change of its TTL settings, as the admin API takes it."""
        ...

    def count(self) -> int:
        """Count the visible records as a client does."""
        ...

    def ids(self, at: datetime | None = None) -> set[str]:
        """The visible records, or those as of an instant. A client reads them all, which prolongs no life."""
        ...

    def read(self, id: str) -> None:
        """Read one record by its key, as a client does."""
        ...

    def close(self) -> None:
        """Close its client."""
        ...


def age(chance: random.Random) -> timedelta:
    """Return how long ago a date is, or (below zero) is still to come. Some are exactly a span away."""
    exact = chance.choice(SPANS) + chance.choice((0, 0, 0, 1, -1)) * 1e-3
    return timedelta(seconds=chance.choice((exact, -exact, chance.uniform(-7200, 7200))))


class CosmosSubject:
    """A container with a default, or none, and items with a ttl of their own."""

    target = "cosmos:shop/sessions"
    hides = True

    def __init__(self, server: RunningServer) -> None:
        self._server = server
        self._client = server.cosmos.client()

    def fill(self, chance: random.Random) -> None:
        from azure.cosmos import PartitionKey

        database = self._client.create_database("shop")
        given = chance.choice((None, -1, chance.choice(SPANS[1:])))
        container = database.create_container("sessions", PartitionKey("/pk"), default_ttl=given)
        for number in range(chance.randrange(1, 25)):
            own = chance.choice((None, None, -1, chance.choice(SPANS[1:])))
            if given is None and chance.random() < 0.2:
                own = 0
            container.create_item({"id": str(number), "pk": "a"} | ({} if own is None else {"ttl": own}))
            if chance.random() < 0.4:
                self._server.clock.advance(seconds=chance.choice(SPANS[:7]), sweep=chance.choice(("none", "scheduled")))

    def propose(self, chance: random.Random) -> dict[str, Any]:
        return {"default_ttl": chance.choice((None, -1, chance.choice(SPANS[1:])))}

    def count(self) -> int:
        container = self._client.get_database_client("shop").get_container_client("sessions")
        return len(list(container.read_all_items()))

    def ids(self, at: datetime | None = None) -> set[str]:
        if at is None:
            return self._ids_of(self._client)
        from azure.cosmos import CosmosClient

        address, key = self._server.cosmos.url, self._server.cosmos.key
        # A feed takes no headers of a single call.
        with CosmosClient(address, key, headers={"x-mayfly-as-of": at.isoformat()}) as later:
            return self._ids_of(later)

    @staticmethod
    def _ids_of(client: Any) -> set[str]:
        container = client.get_database_client("shop").get_container_client("sessions")
        return {item["id"] for item in container.read_all_items()}

    def read(self, id: str) -> None:
        from azure.cosmos.exceptions import CosmosResourceNotFoundError

        with suppress(CosmosResourceNotFoundError):
            self._client.get_database_client("shop").get_container_client("sessions").read_item(id, "a")

    def close(self) -> None:
        self._client.__exit__(None, None, None)  # type: ignore[no-untyped-call]


class MongoSubject:
    """A collection with up to three TTL indexes, whose documents have several dates, arrays of them, or none."""

    FIELDS = ("a", "b", "c", "_ts")

    def __init__(self, server: RunningServer, database: str, hides: bool) -> None:
        self._server = server
        self._client = server.mongo.client()
        self._database = database
        self.hides = hides
        self.target = f"mongo:{database}.otps"
        self._indexed: list[str] = []

    @property
    def _collection(self) -> Any:
        return self._client[self._database]["otps"]

    def fill(self, chance: random.Random) -> None:
        self._indexed = chance.sample(self.FIELDS, chance.randrange(0, 4))
        for field in self._indexed:
            seconds = chance.choice(SPANS[1:] if field == "_ts" else SPANS)
            self._collection.create_index(field, expireAfterSeconds=seconds)
        for _ in range(chance.randrange(1, 5)):
            now = self._server.clock.now()
            self._collection.insert_many([_document(chance, now) for _ in range(chance.randrange(1, 20))])
            if chance.random() < 0.5:
                self._server.clock.advance(seconds=chance.choice(SPANS[:7]), sweep=chance.choice(("none", "scheduled")))

    def propose(self, chance: random.Random) -> dict[str, Any]:
        if self._indexed and chance.random() < 0.2:
            return {"field": chance.choice(self._indexed), "expire_after_seconds": None}
        field = chance.choice(self.FIELDS)
        return {"field": field, "expire_after_seconds": chance.choice(SPANS[1:] if field == "_ts" else SPANS)}

    def count(self) -> int:
        return int(self._collection.count_documents({}))

    def ids(self, at: datetime | None = None) -> set[str]:
        sent: dict[str, Any] = {} if at is None else {"comment": {"mayflyAsOf": at}}
        return {str(each["_id"]) for each in self._collection.find({}, **sent)}

    def read(self, id: str) -> None:
        self._collection.find_one({"_id": ObjectId(id)})

    def close(self) -> None:
        self._client.close()


def _document(chance: random.Random, now: datetime) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for field in ("a", "b", "c"):
        match chance.randrange(5):
            case 0:
                document[field] = [now - age(chance) for _ in range(chance.randrange(3))] + ["x"]
            case 1:
                document[field] = chance.choice(("soon", None, 5))
            case 2 | 3:
                document[field] = now - age(chance)
    if chance.random() < 0.3:
        document["ttl"] = chance.choice((-1, 0, 20.5, chance.choice(SPANS[1:])))
    return document


class YdbSubject:
    """A table with two columns that rows may go by, one of dates and one of numbers."""

    target = "ydb:/local/carts"

    def __init__(self, server: RunningServer, hides: bool) -> None:
        self._server = server
        self.hides = hides
        self._driver = server.ydb.driver()
        self._has_ttl = False
        self._per_second = 1

    def fill(self, chance: random.Random) -> None:
        self._has_ttl = chance.random() < 0.7
        given = f' WITH (TTL = Interval("PT{chance.choice(SPANS)}S") ON at)' if self._has_ttl else ""
        self._per_second = chance.choice((1, 1000))
        with self._pool() as pool:
            pool.execute_with_retries(
                f"CREATE TABLE carts (id Uint64, at Timestamp, n Uint64, PRIMARY KEY (id)){given}"
            )
            if self.hides:
                session = self._driver.table_client.session().create()
                session.alter_table("/local/carts", alter_attributes={"mayfly_hide_expired": "true"})
            now = self._server.clock.now()
            rows = []
            for number in range(chance.randrange(1, 40)):
                at, then = now - age(chance), now - age(chance)
                date = "NULL" if chance.random() < 0.2 else f"Timestamp('{at:%Y-%m-%dT%H:%M:%S.%fZ}')"
                count = "NULL" if chance.random() < 0.2 else str(int(then.timestamp() * self._per_second))
                rows.append(f"({number}, {date}, {count})")
            pool.execute_with_retries(f"UPSERT INTO carts (id, at, n) VALUES {', '.join(rows)}")
        if chance.random() < 0.5:
            self._server.clock.advance(seconds=chance.choice(SPANS[:7]), sweep=chance.choice(("none", "scheduled")))

    def propose(self, chance: random.Random) -> dict[str, Any]:
        if self._has_ttl and chance.random() < 0.2:
            return {"expire_after_seconds": None}
        span = chance.choice(SPANS)
        if chance.random() < 0.5:
            return {"column": "at", "expire_after_seconds": span}
        # Seconds that are taken for milliseconds are of 1970. The reverse would be after the end of the clock.
        unit = chance.choice(("milliseconds", "seconds" if self._per_second == 1 else "milliseconds"))
        return {"column": "n", "expire_after_seconds": span, "unit": unit}

    def count(self) -> int:
        with self._pool() as pool:
            (found,) = pool.execute_with_retries("SELECT COUNT(*) AS n FROM carts")
        return int(found.rows[0].n)

    def ids(self, at: datetime | None = None) -> set[str]:
        pragma = "" if at is None else f'PRAGMA mayfly.AsOf = "{at.isoformat()}"; '
        with self._pool() as pool:
            found = pool.execute_with_retries(f"{pragma}SELECT id FROM carts")
        return {str(row.id) for each in found for row in each.rows}

    def read(self, id: str) -> None:
        with self._pool() as pool:
            pool.execute_with_retries(f"SELECT id FROM carts WHERE id = {id}")

    @contextmanager
    def _pool(self) -> Iterator[Any]:
        import ydb

        with ydb.QuerySessionPool(self._driver, size=1) as pool:
            yield pool

    def close(self) -> None:
        self._driver.stop()
