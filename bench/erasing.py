"""Proof of erasure: what the erasure log and secure erase cost a purge, and what is left of secrets in the files."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from hashlib import blake2b
from pathlib import Path
from statistics import median

from figures import Figure, microseconds
from servers import asked, script

from mayflydb.clock import VirtualClock
from mayflydb.engine.catalog import Definition
from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.open import open_engine
from mayflydb.expiry.rules import Rule
from mayflydb.expiry.sweep import PurgeRequest
from mayflydb.model.instant import SECOND
from mayflydb.model.record import Entry
from mayflydb.serving.process import loop_factory
from mayflydb.store.sqlite import SqliteStore

PURGED, ROUNDS = 10_000, 7
SECRETS, OTHERS = 1_000, 2_000
MARK = b"secret "
SIZES = (1, 1, 2, 3, 5, 8, 20, 50, 400)
"""How often a secret stands in its record: from one line to several pages."""


def erasing(place: Path) -> Iterator[Figure]:
    """The cost of purges, and the search for secrets."""
    yield from _costs(place)
    yield from _searches(place)


def _costs(place: Path) -> Iterator[Figure]:
    kinds = {"plain": (), "with the erasure log": ("log",), "with secure erase": ("secure",)}
    backlog = Path(__file__).with_name("backlog.py")
    found: dict[str, list[float]] = {kind: [] for kind in kinds}
    with ExitStack() as stack:
        scripts = {
            kind: stack.enter_context(script(backlog, str(place / f"erasing{number}.db"), str(PURGED), *options))
            for number, (kind, options) in enumerate(kinds.items())
        }
        for turn in range(ROUNDS + 1):
            for kind, running in scripts.items():
                cost = asked(running, "")
                if turn:
                    found[kind].append(cost)
    for kind in list(kinds)[1:]:
        shares = [each / plain for each, plain in zip(found[kind], found["plain"], strict=True)]
        value = median(shares)
        how = (
            f"processor time until the lines are written and the log is scrubbed; {PURGED:,} records of 1 KB due at once in a"
            f" file; rounds {min(shares):.2f}-{max(shares):.2f}"
        )
        used = microseconds(median(found[kind]), median(found["plain"]))
        yield Figure(f"purge {kind}, against a plain one", f"{value:.2f} x", "", None, how, value, used)


def _searches(place: Path) -> Iterator[Figure]:
    for secure in (True, False):
        directory = place / ("secure" if secure else "plain")
        directory.mkdir()
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            found = runner.run(_plant_and_search(directory, secure))
        kind = "with secure erase" if secure else "without it"
        how = (
            f"occurrences in {len(found)} files of the store after {SECRETS:,} secrets in values and index keys, among"
            f" {OTHERS:,} other records, have expired and the log was cut"
        )
        count = sum(found.values())
        target, met = ("<= 0", count == 0) if secure else ("", None)
        yield Figure(f"secrets found {kind}", f"{count:,}", target, met, how, count)


async def _plant_and_search(directory: Path, secure: bool) -> dict[str, int]:
    store, clock = await SqliteStore.open(str(directory / "store.db"), secure=secure), VirtualClock(1_000 * SECOND)
    engine = await open_engine(store, clock)
    space = await engine.definitions.space("site", clock.now())
    rules = (Rule("default", None, overrides=True, hides=True),)
    it = (await engine.definitions.create(space.id, "it", Definition({}, clock.now(), rules=rules))).id
    numbers = sorted(range(SECRETS + OTHERS), key=_scatter)
    for at in range(0, len(numbers), 100):
        commands = [_command(number) for number in numbers[at : at + 100]]
        await engine.write_all(it, commands, clock.now())
    clock.set(clock.now() + 10 * SECOND)
    purged = await engine.reaper.sweep_due(PurgeRequest(clock.now(), clock.now(), "bench"))
    if purged[it] != SECRETS:
        raise RuntimeError(f"{purged[it]} of {SECRETS} secrets were purged")
    await store.scrub(True)
    found = {path.name: path.read_bytes().count(MARK) for path in directory.iterdir()}
    await store.close()
    return found


def _scatter(number: int) -> int:
    return int.from_bytes(blake2b(b"%d" % number, digest_size=5).digest())


def _command(number: int) -> Command:
    dies = number < SECRETS
    word = b"%b%d %d;" % (MARK if dies else b"living ", number, _scatter(number))
    value = word * SIZES[_scatter(number) % len(SIZES)]
    entry = Entry(1, b"%d" % (_scatter(number) // 3) + value[:60])
    return Command(
        Mode.CREATE, b"p%08d" % (number % 7), b"k%d" % number, Draft(value, 5 if dies else None, entries=(entry,))
    )
