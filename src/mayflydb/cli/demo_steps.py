"""The demo: writes records through the vendors' clients, moves the clock step by step, and reads everything back."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

import click
import msgspec

from mayflydb.cli.progress import ProgressLine
from mayflydb.clock import Stopwatch, monotonic_us
from mayflydb.embedded import RunningServer, serve
from mayflydb.model.instant import HOUR, MINUTE, SECOND

if TYPE_CHECKING:
    from azure.cosmos import ContainerProxy
    from pymongo.collection import Collection

DATABASE, CONTAINER = "shop", "sessions"
DEFAULT_TTL = 120
"""Seconds: the container's default, for items without a ttl of their own."""

APP, OTPS = "app", "otps"
TS_TTL, DATE_AHEAD = 30, 90
"""Seconds: the span of the index on `_ts`, and how far the date of a document lies ahead."""

ALIVE, GONE = "alive", "-"
OWNER = "u1"


class Item(msgspec.Struct, frozen=True):
    """A record to write. `life`: its heading, `own`: its own ttl, `lifetime`: the expected seconds, None for ever."""

    id: str
    life: str
    own: Mapping[str, int]
    lifetime: int | None


class Step(msgspec.Struct, frozen=True):
    """A position of the clock, `seconds` after the records were written."""

    label: str
    seconds: int


class Cell(msgspec.Struct, frozen=True):
    """One record at one step: the expectation, and the results of a point read and of a query over all records."""

    clock: str
    target: str
    id: str
    life: str
    expected: str
    point_read: str
    query: str
    as_expected: bool

    @property
    def text(self) -> str:
        """The text in the table: the result, or both results if they differ, marked if not as expected."""
        found = self.point_read if self.point_read == self.query else f"read {self.point_read} query {self.query}"
        return found if self.as_expected else f"{found} (!)"


class Observations(msgspec.Struct, frozen=True):
    """All results, the numbers of expired and purged records, the seconds that the clock moved, and the time that it took."""

    cells: Sequence[Cell]
    expired: int
    purged: int
    moved_seconds: int
    took_us: int


ITEMS: tuple[Item, ...] = (
    Item("s1", "60s", {"ttl": 60}, 60),
    Item("s2", f"{DEFAULT_TTL}s", {}, DEFAULT_TTL),
    Item("s3", "-1", {"ttl": -1}, None),
)
OTPS_ITEMS: tuple[Item, ...] = (
    Item("o1", f"_ts {TS_TTL}s", {}, TS_TTL),
    # Every move of the clock ends with a pass of the TTL monitor.
    Item("o2", f"date +{DATE_AHEAD}s", {"ttl": -1}, DATE_AHEAD),
)
CARTS_ITEMS: tuple[Item, ...] = (
    # Visible until the first removal run behind its deadline, and that comes within another hour: gone at the next step, 2 h.
    Item("c1", "PT1H", {}, HOUR // SECOND),
)
STEPS = (
    Step("+0 s", 0),
    Step("+29 s", 29),
    Step("+30 s", 30),
    Step("+59 s", 59),
    Step("+60 s", 60),
    Step("+89 s", 89),
    Step("+90 s", 90),
    Step("+2 min", 120),
    Step("+2 h", 7200),
)


def run(*, output: str, keep: bool, stopwatch: Stopwatch = monotonic_us) -> int:
    """Print the results as table, json or jsonl. Return 0 if all are as expected, else 1. `keep`: serve on until Ctrl+C."""
    with serve(memory=True, port=0, mongo_port=0, ydb_port=0, clock="virtual") as server:
        with ProgressLine("demo"):
            found = observe(server, stopwatch)
        click.echo(_FORMS[output](found))
        if keep:
            _serve_on(server)
    return 0 if all(cell.as_expected for cell in found.cells) else 1


def observe(server: RunningServer, stopwatch: Stopwatch) -> Observations:
    """Write the records, then look at all of them at each step of the clock."""
    began = stopwatch()
    cells: list[Cell] = []
    expired = purged = passed = 0
    with ExitStack() as clients:
        protocols: list[Records] = [
            CosmosRecords(clients.enter_context(server.cosmos.client())),
            MongoRecords(clients.enter_context(server.mongo.client()), server),
            YdbRecords(clients, server),
        ]
        for step in STEPS:
            moved = server.clock.advance(seconds=step.seconds - passed)
            expired, purged = expired + moved["expired"], purged + moved["purged"]
            passed += moved["advanced_seconds"]
            for records in protocols:
                cells += _check(records, step)
    return Observations(cells, expired, purged, passed, stopwatch() - began)


class Records(Protocol):
    """The records of one protocol, written when the object is made."""

    @property
    def target(self) -> str:
        """The container's target, as in the admin API."""

    @property
    def items(self) -> Sequence[Item]:
        """The records that were written."""

    def query_ids(self) -> set[Any]:
        """Return the ids that a query over all records finds."""

    def can_read(self, id: str) -> bool:
        """Return whether a point read finds a record."""


class CosmosRecords:
    """A container with a default, and items with a ttl of their own."""

    target = f"cosmos:{DATABASE}/{CONTAINER}"

    def __init__(self, client: Any) -> None:
        from azure.cosmos import PartitionKey

        self.items = ITEMS
        database = client.create_database(DATABASE)
        key = PartitionKey("/user")
        self._container: ContainerProxy = database.create_container(CONTAINER, key, default_ttl=DEFAULT_TTL)
        for item in self.items:
            self._container.create_item({"id": item.id, "user": OWNER, **item.own})

    def query_ids(self) -> set[Any]:
        return set(self._container.query_items("SELECT VALUE c.id FROM c", enable_cross_partition_query=True))

    def can_read(self, id: str) -> bool:
        from azure.cosmos.exceptions import CosmosResourceNotFoundError

        try:
            self._container.read_item(id, OWNER)
        except CosmosResourceNotFoundError:
            return False
        return True


class MongoRecords:
    """A collection with a TTL index on `_ts`, and one on dates."""

    target = f"mongo:{APP}.{OTPS}"

    def __init__(self, client: Any, server: RunningServer) -> None:
        self.items = OTPS_ITEMS
        self._collection: Collection[dict[str, Any]] = client[APP][OTPS]
        self._collection.create_index("_ts", expireAfterSeconds=TS_TTL)
        self._collection.create_index("at", expireAfterSeconds=0)
        date = {"at": server.clock.now() + timedelta(seconds=DATE_AHEAD)}
        o1, o2 = self.items
        self._collection.insert_many([{"_id": o1.id, **o1.own}, {"_id": o2.id, **o2.own, **date}])

    def query_ids(self) -> set[Any]:
        return {document["_id"] for document in self._collection.find({}, {"_id": 1})}

    def can_read(self, id: str) -> bool:
        return self._collection.find_one({"_id": id}) is not None


class YdbRecords:
    """A table with a TTL of one hour on a column of instants."""

    target = "ydb:/local/carts"

    def __init__(self, clients: ExitStack, server: RunningServer) -> None:
        import ydb

        self.items = CARTS_ITEMS
        driver = clients.enter_context(server.ydb.driver())
        self._pool: Any = clients.enter_context(ydb.QuerySessionPool(driver, size=1))
        self._pool.execute_with_retries(
            "CREATE TABLE carts (id Utf8, created_at Timestamp, PRIMARY KEY (id))"
            ' WITH (TTL = Interval("PT1H") ON created_at)'
        )
        for item in self.items:
            write = "UPSERT INTO carts (id, created_at) VALUES ($id, CurrentUtcTimestamp())"
            self._pool.execute_with_retries(write, {"$id": item.id})

    def query_ids(self) -> set[Any]:
        return self._ids("SELECT id FROM carts")

    def can_read(self, id: str) -> bool:
        return bool(self._ids("SELECT id FROM carts WHERE id = $id", {"$id": id}))

    def _ids(self, text: str, parameters: dict[str, Any] | None = None) -> set[Any]:
        return {row.id for part in self._pool.execute_with_retries(text, parameters) for row in part.rows}


def _check(records: Records, step: Step) -> Iterator[Cell]:
    found_ids = records.query_ids()
    for item in records.items:
        expected = ALIVE if item.lifetime is None or step.seconds < item.lifetime else GONE
        read = ALIVE if records.can_read(item.id) else GONE
        query = ALIVE if item.id in found_ids else GONE
        good = read == query == expected
        yield Cell(step.label, records.target, item.id, item.life, expected, read, query, as_expected=good)


def _serve_on(server: RunningServer) -> None:
    address = server.announcement.portal
    try:
        # Inside of the try: a program that reads this line may interrupt at once.
        click.echo(
            f"Serving on at {address} (endpoint and key: mayfly --url {address} connect). Ctrl+C stops.", err=True
        )
        threading.Event().wait()
    except KeyboardInterrupt:
        click.echo("", err=True)


# --- how it is shown -----------------------------------------------------------------------------------------------------


def table(found: Observations) -> str:
    """Return a table with a line for each step and a column for each record, and a summary."""
    first = [cell for cell in found.cells if cell.clock == STEPS[0].label]
    rows = [[" " * 8, *(f"{cell.id} {cell.life}" for cell in first)]]
    rows += [[f" {step.label}", *(cell.text for cell in found.cells if cell.clock == step.label)] for step in STEPS]
    widths = [max(map(len, column)) + 3 for column in zip(*rows, strict=True)]
    lines = [_heading(first, widths)]
    lines += ["".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join([*(line.rstrip() for line in lines), *_differences(found), _summary(found)])


def _heading(cells: Sequence[Cell], widths: Sequence[int]) -> str:
    """Return a line with each target above its first column."""
    line, at, shown = " clock", widths[0], ""
    for cell, width in zip(cells, widths[1:], strict=True):
        if cell.target != shown:
            line, shown = line.ljust(at) + cell.target.replace(":", " "), cell.target
        at += width
    return line


def _differences(found: Observations) -> Iterator[str]:
    for cell in found.cells:
        if not cell.as_expected:
            yield (
                f"(!) {cell.id} at {cell.clock}: expected {cell.expected},"
                f" point read {cell.point_read}, query {cell.query}"
            )


def _summary(found: Observations) -> str:
    cells = found.cells
    good = sum(cell.as_expected for cell in cells)
    text = (
        f"{good} of {len(cells)} as expected. {found.expired} expired, {found.purged} purged,"
        f" {_span(found.moved_seconds)} in {found.took_us / SECOND:.1f} s."
    )
    for item in ITEMS:
        if item.lifetime is None and all(cell.as_expected for cell in cells if cell.id == item.id):
            text += f" {item.id} has ttl {item.own['ttl']}: it never expires."
    return text


def _span(seconds: int) -> str:
    """Format seconds in the largest unit that divides them."""
    for name, length in (("hour", HOUR // SECOND), ("minute", MINUTE // SECOND), ("second", 1)):
        count, rest = divmod(seconds, length)
        if count and not rest:
            return f"{count} {name}" + ("s" if count != 1 else "")
    return f"{seconds} seconds"


def _json(found: Observations) -> str:
    return msgspec.json.format(msgspec.json.encode(found.cells), indent=2).decode()


def _jsonl(found: Observations) -> str:
    return "\n".join(msgspec.json.encode(cell).decode() for cell in found.cells)


_FORMS = {"table": table, "json": _json, "jsonl": _jsonl}
