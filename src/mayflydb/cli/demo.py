"""What `mayfly demo` does: items written through the vendor's client, a clock that is moved, and everything read back."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from mayflydb.clock import Stopwatch, monotonic_us
from mayflydb.embedded import RunningServer, serve
from mayflydb.model.instant import HOUR, MINUTE, SECOND

if TYPE_CHECKING:
    from azure.cosmos import ContainerProxy

DATABASE, CONTAINER = "shop", "sessions"
DEFAULT_TTL = 120
"""The container's default, which items without a ttl of their own follow."""

ALIVE, GONE = "alive", "-"
OWNER = "u1"


class Item(msgspec.Struct, frozen=True):
    """An item to be written: `life` is its heading, `lives` the seconds it is expected to be there, None for ever."""

    id: str
    life: str
    own: Mapping[str, int]
    lives: int | None


class Step(msgspec.Struct, frozen=True):
    """A place of the clock, `seconds` after the items were written."""

    label: str
    seconds: int


class Cell(msgspec.Struct, frozen=True):
    """One item at one step: what is expected, and what a point read and a query over all items have found."""

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
        """What the table shows; both findings where they differ."""
        found = self.point_read if self.point_read == self.query else f"read {self.point_read} query {self.query}"
        return found if self.as_expected else f"{found} (!)"


class Found(msgspec.Struct, frozen=True):
    """Everything that was seen, how many items expired and were purged, how far time went and how long that took."""

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
STEPS = (Step("+0 s", 0), Step("+30 s", 30), Step("+60 s", 60), Step("+2 min", 120), Step("+2 h", 7200))


def run(*, output: str, keep: bool, stopwatch: Stopwatch = monotonic_us) -> int:
    """Print what was found as table, json or jsonl. 0: all as expected, 1: not. `keep`: serve on until Ctrl+C."""
    with serve(memory=True, port=0, clock="virtual") as server:
        found = observe(server, stopwatch)
        click.echo(_FORMS[output](found))
        if keep:
            _serve_on(server)
    return 0 if all(cell.as_expected for cell in found.cells) else 1


def observe(server: RunningServer, stopwatch: Stopwatch) -> Found:
    """Write the items, then look at all of them at each step of the clock."""
    began = stopwatch()
    cells: list[Cell] = []
    expired = purged = passed = 0
    with server.cosmos.client() as client:
        container = _filled_container(client)
        for step in STEPS:
            moved = server.clock.advance(seconds=step.seconds - passed)
            expired, purged = expired + moved["expired"], purged + moved["purged"]
            passed += moved["advanced_seconds"]
            cells += _look(container, step)
    return Found(cells, expired, purged, passed, stopwatch() - began)


def _filled_container(client: Any) -> ContainerProxy:
    from azure.cosmos import PartitionKey

    database = client.create_database(DATABASE)
    container: ContainerProxy = database.create_container(CONTAINER, PartitionKey("/user"), default_ttl=DEFAULT_TTL)
    for item in ITEMS:
        container.create_item({"id": item.id, "user": OWNER, **item.own})
    return container


def _look(container: ContainerProxy, step: Step) -> Iterator[Cell]:
    listed: set[Any] = set(container.query_items("SELECT VALUE c.id FROM c", enable_cross_partition_query=True))
    for item in ITEMS:
        expected = ALIVE if item.lives is None or step.seconds < item.lives else GONE
        read = ALIVE if _can_be_read(container, item.id) else GONE
        query = ALIVE if item.id in listed else GONE
        yield Cell(
            step.label,
            f"cosmos:{DATABASE}/{CONTAINER}",
            item.id,
            item.life,
            expected,
            read,
            query,
            as_expected=read == query == expected,
        )


def _can_be_read(container: ContainerProxy, id: str) -> bool:
    from azure.cosmos.exceptions import CosmosResourceNotFoundError

    try:
        container.read_item(id, OWNER)
    except CosmosResourceNotFoundError:
        return False
    return True


def _serve_on(server: RunningServer) -> None:
    address = server.announcement.portal
    try:
        # Within the block: whoever reads this line may stop us at once.
        click.echo(
            f"Serving on at {address} (endpoint and key: mayfly --url {address} connect). Ctrl+C stops.", err=True
        )
        threading.Event().wait()
    except KeyboardInterrupt:
        click.echo("", err=True)


# --- how it is shown -----------------------------------------------------------------------------------------------------


def table(found: Found) -> str:
    """One line per step, one column per item, and what it comes to."""
    names = dict.fromkeys(f"{cell.id} {cell.life}" for cell in found.cells)
    rows = [[" clock", f"cosmos {DATABASE}/{CONTAINER}"], [" " * 8, *names]]
    rows += [[f" {step.label}", *(cell.text for cell in found.cells if cell.clock == step.label)] for step in STEPS]
    # The first line holds one heading for all items, which makes no column wider.
    widths = [max(map(len, column)) for column in zip(*rows[1:], strict=True)]
    lines = ["".join(text.ljust(width + 3) for text, width in zip(row, widths, strict=False)) for row in rows]
    return "\n".join([*(line.rstrip() for line in lines), *_differences(found), _summary(found)])


def _differences(found: Found) -> Iterator[str]:
    for cell in found.cells:
        if not cell.as_expected:
            yield (
                f"(!) {cell.id} at {cell.clock}: expected {cell.expected},"
                f" point read {cell.point_read}, query {cell.query}"
            )


def _summary(found: Found) -> str:
    cells = found.cells
    good = sum(cell.as_expected for cell in cells)
    text = (
        f"{good} of {len(cells)} as expected. {found.expired} expired, {found.purged} purged,"
        f" {_span(found.moved_seconds)} in {found.took_us / SECOND:.1f} s."
    )
    for item in ITEMS:
        if item.lives is None and all(cell.as_expected for cell in cells if cell.id == item.id):
            text += f" {item.id} has ttl {item.own['ttl']}: it never expires."
    return text


def _span(seconds: int) -> str:
    """In the largest unit that divides it."""
    for name, length in (("hour", HOUR // SECOND), ("minute", MINUTE // SECOND), ("second", 1)):
        count, rest = divmod(seconds, length)
        if count and not rest:
            return f"{count} {name}" + ("s" if count != 1 else "")
    return f"{seconds} seconds"


def _json(found: Found) -> str:
    return msgspec.json.format(msgspec.json.encode(found.cells), indent=2).decode()


def _jsonl(found: Found) -> str:
    return "\n".join(msgspec.json.encode(cell).decode() for cell in found.cells)


_FORMS = {"table": table, "json": _json, "jsonl": _jsonl}
