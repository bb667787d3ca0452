"""Processes in which records expire with their children and those children's, each killed after a while.

Arguments: a directory, the number of rounds, a seed; `parents-first`: with a planted bug. Each round forks this process, so that
it begins without imports, and its child is killed at a random moment; then the store is looked at. The last line says what was
seen.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

from mayflydb.clock import VirtualClock
from mayflydb.engine.building import IndexRequest, entry
from mayflydb.engine.catalog import Definition, Index, Node
from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.engine import Engine
from mayflydb.engine.lifecycle.cascades import ChildRemoval
from mayflydb.engine.lifecycle.references import Children, range_of
from mayflydb.engine.open import open_engine
from mayflydb.expiry.lifecycle import Cascade, Lifecycle
from mayflydb.expiry.rules import Rule
from mayflydb.expiry.sweep import Limits, PurgeRequest
from mayflydb.model.instant import SECOND
from mayflydb.model.order import Order
from mayflydb.model.record import Entry, Record
from mayflydb.store.interface import Expiries, Scan
from mayflydb.store.sqlite.store import SqliteStore

START = 1_000 * SECOND
NAMES = ("orders", "lines", "notes")
SHARE = (6, 9, 2)
"""Orders of a turn, lines of an order, notes of a line."""

RULES = (Rule("default", None, overrides=True, hides=True),)


class Owners:
    """A record's value is the key of its owner."""

    async def open_index(self, *_: object) -> Index:
        raise NotImplementedError

    def find_children(self, parent: Node, record: Record, child: Node, index: Index) -> Children:
        return Children(range_of(record.key), lambda each: each.value == record.key)


def put(key: bytes, owner: bytes, life: int | None = None) -> Command:
    def indexed(indexes: tuple[Index, ...]) -> tuple[Entry, ...]:
        return tuple(entry(each, owner, key) for each in indexes)

    return Command(Mode.CREATE, key, key, Draft(owner, life, indexed=indexed))  # type: ignore[arg-type]


async def open_site(path: str) -> tuple[Engine, SqliteStore, VirtualClock, dict[str, int]]:
    """Open the store, with its three containers and their cascades."""
    store = await SqliteStore.open(path)
    clock = VirtualClock(START)
    engine = await open_engine(store, clock)
    clock.set(max(START, await engine.now()) + SECOND)
    engine.reaper.refer({"site": Owners})
    # So that a cascade takes several transactions.
    engine.reaper._sweeper.limits = Limits(most=16, duration=None, first=16, fewest=1)
    space = await engine.definitions.space("site", clock.now())
    found: dict[str, int] = {node.name: node.id for node in await engine.children(space.id)}
    below: tuple[Cascade, ...] = ()
    for name in reversed(NAMES):
        if name not in found:
            definition = Definition({}, clock.now(), rules=RULES, lifecycle=Lifecycle(cascade=below))
            found[name] = (await engine.definitions.create(space.id, name, definition)).id
            (index,) = await engine.indexes.define_and_build(
                found[name], lambda _: [IndexRequest(spec={"owner": True})], lambda record, _: [record.value]
            )
        else:
            node = await engine.node_by_id(found[name])
            assert node is not None
            index = node.definition.indexes[0]
        below = (Cascade(found[name], "owner", index.number, "site"),)
    return engine, store, clock, found


def tell_of_writes(store: SqliteStore) -> None:
    """Write a byte when a decision begins: the parent counts them."""
    write = store.write

    async def told(*given: Any) -> Any:
        os.write(1, b".")
        return await write(*given)

    setattr(store, "write", told)  # noqa: B010 -- the types of both differ


async def live(path: str) -> None:
    """Write and purge until killed."""
    engine, store, clock, ids = await open_site(path)
    tell_of_writes(store)
    while True:
        turn, now = b"%d/%d" % (os.getpid(), clock.now()), clock.now()
        for n in range(SHARE[0]):
            order = b"%b-%d" % (turn, n)
            lines = [b"%b-%d" % (order, m) for m in range(SHARE[1])]
            notes = [(b"%b-%d" % (line, m), line) for line in lines for m in range(SHARE[2])]
            await engine.write(ids["orders"], put(order, b"", 1), now)
            await engine.write_all(ids["lines"], [put(line, order) for line in lines], now)
            await engine.write_all(ids["notes"], [put(key, line) for key, line in notes], now)
        clock.set(clock.now() + 2 * SECOND)
        await engine.reaper.sweep_due(PurgeRequest(clock.now(), clock.now(), "sweep"))


async def read(store: SqliteStore, container: int) -> dict[bytes, bytes]:
    page = await store.read(Scan(container, b"", None, Order.CREATED, None, 100_000))
    return {record.key: record.value for record in page}


async def look(path: str) -> tuple[int, int, int]:
    """Return the numbers of orphans, of expired orders that are half removed, and of events."""
    engine, store, _, ids = await open_site(path)
    stored = {name: await read(store, ids[name]) for name in NAMES}
    orphans = sum(owner not in stored["orders"] for owner in stored["lines"].values())
    orphans += sum(owner not in stored["lines"] for owner in stored["notes"].values())
    events = await store.read(Expiries(None, 0, 1_000_000))
    told = [(event.container, event.key) for event in events]
    assert len(set(told)) == len(told)
    assert not any(key in stored[name] for name in NAMES for id, key in told if id == ids[name])
    half = sum(
        sum(owner == order for owner in stored["lines"].values()) not in (0, SHARE[1]) for order in stored["orders"]
    )
    await engine.indexes.close()
    await store.close()
    return orphans, half, len(events)


def kill_one(path: str, chance: random.Random) -> None:
    """Kill a process a moment after it has begun some decision."""
    heard, told = os.pipe()
    child = os.fork()
    if not child:
        # Nothing of the parent's must run in it.
        try:
            os.dup2(told, 1)
            asyncio.run(live(path))
        finally:
            os._exit(1)
    os.close(told)
    for _ in range(chance.randint(1, 120)):
        os.read(heard, 1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(heard)


def main(directory: str, rounds: int, seed: int) -> None:
    """Kill so many processes, a new file for each ten of them."""
    chance = random.Random(seed)
    halves = events = 0
    for number in range(rounds):
        path = Path(directory, f"{number // 10}.db")
        kill_one(str(path), chance)
        orphans, half, told = asyncio.run(look(str(path)))
        if orphans:
            print(f"round {number}: {orphans} orphans", flush=True)
            sys.exit(1)
        halves, events = halves + bool(half), max(events, told)
    print(f"rounds={rounds} amid={halves} events={events}", flush=True)


def plant_parents_first() -> None:
    """A record leaves although its children are still there."""

    def clear(self: ChildRemoval, *rest: Any) -> Generator[Any, Any, bool]:
        yield from keep(self, *rest)
        return True

    keep = ChildRemoval.clear
    setattr(ChildRemoval, "clear", clear)  # noqa: B010 -- the types of both differ


if __name__ == "__main__":
    if "parents-first" in sys.argv:
        plant_parents_first()
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
