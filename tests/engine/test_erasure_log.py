"""The erasure log on every store: each expiry has one line, whatever process ends when, and no event is trimmed unread."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from os import urandom
from typing import Any

import msgspec
import pytest

from engine.site import Site, create, partition_of, upsert
from mayflydb.clock import VirtualClock
from mayflydb.engine.catalog import Definition
from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.expiry_events import EventLimits, ExpiryEvents
from mayflydb.engine.lifecycle.erasure_log import CONTAINER, LATEST, SEGMENT, SELF_TEST, SPACE, ErasureLog
from mayflydb.engine.open import open_engine
from mayflydb.engine.reads import row_at
from mayflydb.engine.selftest import prove
from mayflydb.expiry.erasure_chain import Line, Tampered, Verifier, hash_key
from mayflydb.expiry.rules import Rule
from mayflydb.expiry.sweep import PurgeRequest
from mayflydb.model.errors import OutcomeUnknown, Unavailable
from mayflydb.moving.copy import copy
from mayflydb.moving.source import StoreSource
from mayflydb.store.interface import Allocate, Decision, Expiries, Outcome, Store, ask
from mayflydb.store.sqlite.store import SqliteStore


@pytest.fixture
def log(site: Site) -> ErasureLog:
    site.engine.erasure_log.turn_on(urandom)
    return site.engine.erasure_log


def purge(site: Site) -> int:
    request = PurgeRequest(site.now, site.now, "run now", override="all")
    return site.run(site.engine.reaper.sweep_due(request)).total()


def expire(site: Site, *keys: bytes) -> None:
    for key in keys:
        site.write(create(key, b"v", 1))
    site.pass_seconds(2)
    assert purge(site) == len(keys)


def read_lines(site: Site, log: ErasureLog) -> list[Line]:
    """All lines, verified."""
    verifier, found, place = Verifier(), list[Line](), 0
    while segments := site.run(log.segments(place)):
        place = segments[-1].place
        found += [verifier.add(line) for segment in segments for line in segment.lines]
    verifier.finish(site.run(log.progress()).head)
    return found


def keys_of(site: Site, log: ErasureLog, lines: list[Line]) -> list[bytes]:
    """The keys of which lines tell, of those that tests use."""
    secret = site.run(log.secret())
    assert secret is not None
    names = [b"%d" % n for n in range(2 * SEGMENT)] + [b"a", b"b", b"c", b"d"]
    known = {hash_key(secret, site.it, partition_of(name), name): name for name in names}
    return [known[line.key] for line in lines if line.kind == "erased"]


def take_numbers(container: int, count: int) -> Decision[None]:
    """Allocate numbers of changes that nothing uses, as a process does that ends."""
    for _ in range(count):
        yield from ask(Allocate(container, False))
    return Outcome((), None)


@pytest.mark.parametrize("gap", [0, 5000])
def test_the_last_lines_are_found_without_those_before(site: Site, log: ErasureLog, gap: int) -> None:
    assert site.run(log.latest(3)) == []
    for n in range(LATEST + 3):
        expire(site, b"%d" % n)
        site.run(log.catch_up())
    row = site.run(row_at(site.engine.store, SPACE, CONTAINER))
    assert row is not None
    site.run(site.engine.store.write(lambda: take_numbers(row.id, gap)))
    expire(site, b"%d" % (LATEST + 3))
    site.run(log.catch_up())
    lines = read_lines(site, log)
    for most in (1, 3, LATEST - 1):
        found = site.run(log.latest(most))
        assert [msgspec.json.decode(line, type=Line) for line in found] == lines[-most:]
    # The page with the head has so many segments.
    assert len(site.run(log.latest(1000))) == LATEST - 1


def test_each_expiry_has_a_line(site: Site, log: ErasureLog) -> None:
    expire(site, b"a", b"b")
    site.write(create(b"c", b"v", 1))
    site.pass_seconds(2)
    site.write(upsert(b"c", b"again", 1))
    site.run(log.catch_up())
    lines = read_lines(site, log)
    assert [line.kind for line in lines] == ["start", "erased", "erased", "erased"]
    assert keys_of(site, log, lines) == [b"a", b"b", b"c"]
    assert {line.path for line in lines[1:]} == {("site", "it")}
    assert [line.how for line in lines[1:]] == ["run now", "run now", "replaced"]
    assert (lines[1].cause, lines[1].rule, lines[1].container) == ("item", 0, site.it)
    assert (lines[1].at, lines[1].deadline) == ("1970-01-01T00:16:42Z", "1970-01-01T00:16:41Z")
    assert site.run(log.progress()).lag == 0
    # Nothing more to say: no line, and no write.
    lsn = site.run(site.engine.lsn(site.run(site.engine.node(SPACE, CONTAINER)).id))  # type: ignore[union-attr]
    site.run(log.catch_up())
    assert site.run(site.engine.lsn(site.run(site.engine.node(SPACE, CONTAINER)).id)) == lsn  # type: ignore[union-attr]


def test_segments_have_a_limit(site: Site, log: ErasureLog) -> None:
    names = [b"%d" % n for n in range(SEGMENT + 3)]
    expire(site, *names)
    site.run(log.catch_up(1))
    assert site.run(log.progress()).lag == 3
    site.run(log.catch_up())
    lines = read_lines(site, log)
    assert keys_of(site, log, lines) == sorted(names, key=names.index)


def test_off_it_writes_nothing(site: Site) -> None:
    expire(site, b"a")
    site.run(site.engine.erasure_log.catch_up())
    assert site.run(site.engine.node(SPACE)) is None
    assert site.run(site.engine.erasure_log.read_cursor()) is None
    assert read_lines(site, site.engine.erasure_log) == []


def test_what_was_kept_before_it_was_on_has_its_lines(site: Site, log: ErasureLog) -> None:
    log.turn_off()
    expire(site, b"a")
    log.turn_on(urandom)
    site.run(log.catch_up())
    assert keys_of(site, log, read_lines(site, log)) == [b"a"]


def trim(site: Site, most: int) -> None:
    events = ExpiryEvents(site.engine.store, site.engine.time, EventLimits(most))
    events.read_bound = site.engine.erasure_log.read_cursor
    site.run(events.trim(site.now))


def test_events_wait_for_it(site: Site, log: ErasureLog) -> None:
    expire(site, b"a", b"b", b"c")
    trim(site, 1)
    assert len(site.run(site.engine.store.read(Expiries(None, 0, 9)))) == 3
    site.run(log.catch_up())
    trim(site, 1)
    assert len(site.run(site.engine.store.read(Expiries(None, 0, 9)))) == 1
    expire(site, b"d")
    site.run(log.catch_up())
    lines = read_lines(site, log)
    assert keys_of(site, log, lines) == [b"a", b"b", b"c", b"d"]
    assert {line.kind for line in lines[1:]} == {"erased"}


def test_events_that_were_trimmed_while_it_was_off_are_a_gap(site: Site, log: ErasureLog) -> None:
    expire(site, b"a")
    site.run(log.catch_up())
    log.turn_off()
    expire(site, b"b", b"c")
    trim(site, 1)
    log.turn_on(urandom)
    site.run(log.catch_up())
    lines = read_lines(site, log)
    assert [line.kind for line in lines] == ["start", "erased", "gap", "erased"]
    assert lines[2].after == lines[1].event
    assert lines[2].event == lines[3].event - 1
    assert keys_of(site, log, lines) == [b"a", b"c"]


def test_a_dropped_container_is_named_if_it_was_known(site: Site, log: ErasureLog) -> None:
    expire(site, b"a")
    site.run(log.catch_up())
    expire(site, b"b")
    site.run(site.engine.definitions.drop(site.it))
    site.run(log.catch_up())
    other = ErasureLog(site.engine.store, site.engine.time, site.engine.nodes, site.engine.reaper.notifier)
    assert [line.path for line in read_lines(site, other)[1:]] == [("site", "it"), ("site", "it")]


def test_the_self_test_has_no_lines(site: Site, log: ErasureLog) -> None:
    site.run(prove(site.engine))
    assert [event.how for event in site.run(site.engine.store.read(Expiries(None, 0, 9)))] == [SELF_TEST]
    site.run(log.catch_up())
    assert [line.kind for line in read_lines(site, log)] == ["start"]
    assert site.run(log.progress()).lag == 0


def test_a_reset_begins_a_new_log(site: Site, log: ErasureLog) -> None:
    expire(site, b"a")
    site.run(log.catch_up())
    before = read_lines(site, log)
    site.run(site.engine.reset())
    site.run(log.catch_up())
    after = read_lines(site, log)
    assert [line.kind for line in after] == ["start"]
    assert before[0] != after[0] or before[0].event == after[0].event


def test_a_copy_of_the_store_goes_on_with_the_log(site: Site, log: ErasureLog) -> None:
    """A copy takes records along, and neither events nor their numbers."""
    expire(site, b"a", b"b")
    site.run(log.catch_up())

    async def copied() -> Store:
        target = await SqliteStore.open(None)
        await copy(await StoreSource.open(site.engine.store), target, lambda done, whole: None)
        return target

    other = Site.__new__(Site)
    other.run, other.clock, other.it = site.run, site.clock, site.it
    other.engine = site.run(open_engine(site.run(copied()), site.clock))
    other.engine.erasure_log.turn_on(urandom)
    expire(other, b"c")
    site.run(other.engine.erasure_log.catch_up())
    lines = read_lines(other, other.engine.erasure_log)
    assert [line.kind for line in lines] == ["start", "erased", "erased", "start", "erased"]
    assert keys_of(other, other.engine.erasure_log, lines) == [b"a", b"b", b"c"]
    other.close()


class Failing:
    """A store whose writes end in the way that is next: they are made, made without an answer, or not made."""

    def __init__(self, store: Any, ends: Iterator[str]) -> None:
        self._store, self._ends = store, ends

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def write(self, decide: Callable[[], Decision[Any]], urgency: Any = "user") -> Any:
        end = next(self._ends)
        if end == "before":
            raise Unavailable("the process ends before the commit")
        done = await self._store.write(decide, urgency)
        if end == "after":
            raise OutcomeUnknown("the process ends after the commit")
        return done


def test_no_line_is_lost_or_doubled_whatever_process_ends_when(site: Site, log: ErasureLog, seed: int) -> None:
    """Several processes write at once, and each may end before or after a commit."""
    chance = random.Random(seed)
    ends = iter(lambda: chance.choice(["before", "after", "done"]), "")

    def begin() -> ErasureLog:
        engine = site.engine
        made = ErasureLog(Failing(engine.store, ends), engine.time, engine.nodes, engine.reaper.notifier)
        made.turn_on(urandom)
        return made

    async def race() -> None:
        await asyncio.gather(*(begin().catch_up() for _ in range(3)), return_exceptions=True)

    names = [b"%d" % n for n in range(40)]
    for start in range(0, 40, 8):
        expire(site, *names[start : start + 8])
        for _ in range(3):
            site.run(race())
    site.run(log.catch_up())
    lines = read_lines(site, log)
    assert keys_of(site, log, lines) == names
    assert sum(line.kind == "start" for line in lines) == 1


def test_a_line_that_is_changed_in_the_store_is_found(site: Site, log: ErasureLog) -> None:
    expire(site, b"a", b"b")
    site.run(log.catch_up())
    node = site.run(site.engine.node(SPACE, CONTAINER))
    assert node is not None
    (segment, _) = site.run(site.engine.read_stored(node.id, None, 9))
    forged = segment.value.replace(b'"how":"run now"', b'"how":"replaced"', 1)
    assert forged != segment.value
    site.write(Command(Mode.REPLACE, b"", segment.key, Draft(forged)), node.id)
    with pytest.raises(Tampered):
        read_lines(site, log)


def test_the_loop_writes_by_itself() -> None:
    async def main() -> None:
        engine = await open_engine(await SqliteStore.open(None), VirtualClock(10**9))
        engine.erasure_log.turn_on(urandom)
        running = asyncio.create_task(engine.erasure_log.run())
        space = await engine.definitions.space("site", 10**9)
        rules = (Rule("default", 1, overrides=True, hides=True),)
        container = (await engine.definitions.create(space.id, "it", Definition({}, 10**9, rules=rules))).id
        await engine.write(container, create(b"a", b"v", 1), 10**9)
        now = 10**9 + 10**7
        await engine.reaper.sweep_due(PurgeRequest(now, now, "sweep"))
        async with asyncio.timeout(30):
            while (await engine.erasure_log.progress()).head.lines < 2:
                assert not running.done()
                await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait({running})
        await engine.store.close()

    asyncio.run(main())
