"""The engine and the oracle side by side: every operation is done to both, and every answer is compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Coroutine, Sequence
from typing import Any

import msgspec

from mayflydb.clock import VirtualClock
from mayflydb.engine.catalog import Definition, Node
from mayflydb.engine.commands import Command, Draft, Mode, Written
from mayflydb.engine.count_budget import CountBudget
from mayflydb.engine.engine import BatchRefused, Engine
from mayflydb.engine.expiry_counts import ExpiryCounts
from mayflydb.engine.lifecycle.guard import Pass
from mayflydb.engine.open import open_engine
from mayflydb.engine.previews import Preview
from mayflydb.engine.scans import Scope
from mayflydb.expiry.sweep import Limits, PurgeRequest, Sweep
from mayflydb.frontends.cosmos.rules import rules_of
from mayflydb.model.errors import MayflyError
from mayflydb.model.instant import DAY
from mayflydb.model.order import Order, Position
from mayflydb.model.record import Entry, Expiry, Record
from mayflydb.store.interface import Decision, Expiries, History, Outcome, Scan, Store, TrimEvents
from reliability.model.feed import Follower
from reliability.model.stores import Direct, Gate, finish
from reliability.oracle import MICROS, Box, Death, Life, Verdict, Who, Wish, in_order

START = 1_893_456_000 * MICROS
INVALID = "The input ttl is invalid."
REMEMBERED_EVENTS = 200
KEPT = 10_000 * 365 * DAY
"""How long versions are remembered."""


def facts(record: Record) -> Life:
    """A record as the oracle would write it down; what it owns in indexes is not part of a record."""
    life = Life(
        (record.partition, record.key),
        record.value,
        record.written,
        record.override,
        frozenset(),
        record.lsn,
        record.seq,
    )
    assert record.anchor == life.anchor, f"anchor of {record}"
    return life


def bare(life: Life) -> Life:
    """What `facts` can know of a life."""
    return Life(life.who, life.value, life.written, life.own, frozenset(), life.lsn, life.seq)


def death_in(event: Expiry) -> Death:
    """An event as the oracle would write it down."""
    return Death(
        (event.partition, event.key),
        event.version,
        event.override,
        event.cause,
        event.rule_version,
        event.deadline,
        event.purged,
        event.how,
    )


class World:
    """Two containers, the second with a unique key, and a reaper whose sweeps may wait at the gate."""

    def __init__(self, store: Store, limit: int = 3) -> None:
        self.store = store
        self.limit = limit
        self.now = START
        self.horizon = START
        self.boxes: dict[int, Box] = {}
        self.unique: set[int] = set()
        self.followers: dict[int, Follower] = {}
        self._event = 0
        self._deaths = 0
        self._sweep: Coroutine[Any, Any, Counter[int]] | None = None
        self._swept: Counter[int] = Counter()
        self._picked: tuple[int, int] | None = None
        self._sweep_horizon = self._sweep_now = START
        self._spared: list[Life] = []
        self._names = 0
        self.tally: Counter[str] = Counter()
        self.engine = self._open()
        space = finish(self.engine.definitions.space("cosmos", self.now))
        self._database = finish(self.engine.definitions.create(space.id, "db", Definition({}, self.now))).id
        self.create(None, unique=False)
        self.create(2, unique=True)

    def _open(self) -> Engine:
        engine = finish(open_engine(Gate(self.store), VirtualClock(self.now)))
        sweeper, housekeeping = engine.reaper._sweeper, engine.reaper._housekeeping
        sweeper.limits, housekeeping.batch = Limits(self.limit, None), self.limit
        original = sweeper._sweep

        async def noted(sweep: Sweep, limit: int, request: PurgeRequest, permit: Pass) -> int:
            self._picked = sweep.container, limit
            return await original(sweep, limit, request, permit)

        sweeper._sweep = noted  # type: ignore[method-assign]
        return engine

    def containers(self) -> list[int]:
        return list(self.boxes)

    def node(self, container: int) -> Node:
        node = finish(self.engine.node_by_id(container))
        assert node is not None
        return node

    # --- catalogue ---------------------------------------------------------------------------------------------------

    def create(self, ttl: int | None, unique: bool) -> int:
        """A new container."""
        self._names += 1
        history = KEPT if unique else None
        definition = Definition({}, self.now, rules=rules_of(ttl), history=history)
        id = finish(self.engine.definitions.create(self._database, f"c{self._names}", definition)).id
        self.boxes[id] = Box(ttl)
        self.followers[id] = Follower()
        if unique:
            self.unique.add(id)
        return id

    def set_ttl(self, container: int, ttl: int | None) -> None:
        """Change the container's default, or switch ttl on or off."""
        rules = rules_of(ttl)
        history = self.node(container).definition.history
        after = Definition({}, self.now, rules=rules, history=history)
        change = finish(self.engine.definitions.replace(container, lambda node: after, self.now))
        box = self.boxes[container]
        box.set_ttl(ttl)
        assert change.definition.version == box.version
        self._no_deaths()

    def drop(self, container: int) -> None:
        """Drop a container and clear what it held; another takes its place. No event is written."""
        ttl, unique = self.boxes.pop(container).ttl, container in self.unique
        self.unique.discard(container)
        del self.followers[container]
        finish(self.engine.definitions.drop(container))
        finish(self.engine.reaper._housekeeping.clear_dropped())
        assert finish(self.engine.node_by_id(container)) is None
        assert finish(self.store.read(Scan(container, b"", None, Order.CREATED, None, 10))) == []
        self.create(ttl, unique)
        self._no_deaths()

    # --- time --------------------------------------------------------------------------------------------------------

    def advance(self, span: int, lag: int = 0) -> None:
        """Time goes on; purging trusts it up to `lag` before the present, and never less than it did."""
        self.now += span
        self.horizon = max(self.horizon, self.now - lag)

    def restart(self) -> None:
        """The process ends, and another one opens the same store. A sweep under way is lost."""
        if self._sweep is not None:
            self._sweep.close()
            self._sweep = None
        if isinstance(self.store, Direct):
            self.store.reload()
        self.engine = self._open()

    # --- writes ------------------------------------------------------------------------------------------------------

    def _command(self, container: int, wish: Wish, patch: bool) -> Command:
        mode = Mode(wish.verb)
        if mode in (Mode.DELETE, Mode.READ):
            return Command(mode, *wish.who, if_match=wish.match)
        entries = tuple(Entry(0, key) for key in sorted(wish.uniques)) if container in self.unique else None
        draft = Draft(wish.value, wish.own, None, entries, None if wish.valid else INVALID)
        if not patch or mode is not Mode.REPLACE:
            return Command(mode, *wish.who, draft, wish.match, wish.to)

        def change(current: Record) -> Draft:
            seen = self.boxes[container].seen(wish.who, self.now)
            assert seen is not None and bare(seen) == facts(current), f"a patch met {current} instead of {seen}"
            return draft

        return Command(mode, *wish.who, change, wish.match, wish.to)

    def write(self, container: int, wish: Wish, patch: bool = False) -> str | None:
        """One command; the kind of its refusal, or None."""
        box = self.boxes[container]
        verdict = box.judge(wish, self.now)
        try:
            written = finish(self.engine.write(container, self._command(container, wish, patch), self.now))
        except MayflyError as error:
            assert type(error).__name__ == verdict.refusal, f"{wish} at {self.now}: {error!r}, not {verdict.refusal}"  # noqa: PT017
            self._no_deaths()
            self.tally[type(error).__name__] += 1
            return verdict.refusal
        assert verdict.refusal is None, f"{wish} at {self.now} came to {written}, not {verdict.refusal}"
        lsns = self._check_deaths(container, [box.obituary(life, self.now, "replaced") for life in verdict.buried])
        self.tally["replaced"] += len(lsns)
        self.tally["renamed"] += wish.after != wish.who
        self._numbered(box, [*lsns, *self._apply(container, wish, verdict, written)])
        return None

    def write_all(self, container: int, wishes: Sequence[Wish]) -> int | None:
        """A batch; the index of the command that was refused, or None."""
        box = self.boxes[container]
        rehearsal = box.copy()
        deaths: list[Death] = []
        refused: tuple[int, str] | None = None
        for index, wish in enumerate(wishes):
            verdict = rehearsal.judge(wish, self.now)
            if verdict.refusal is not None:
                refused = index, verdict.refusal
                break
            deaths += [rehearsal.obituary(life, self.now, "replaced") for life in verdict.buried]
            if wish.verb != "read":
                # Numbers are not known before the commit; these are only different from all others.
                seq = rehearsal.seq + 1 + index if verdict.seen is None else verdict.seen.seq
                rehearsal.apply(wish, verdict, self.now, -10 - index, seq)
        try:
            commands = [self._command(container, wish, False) for wish in wishes]
            results = finish(self.engine.write_all(container, commands, self.now))
        except BatchRefused as error:
            assert (error.index, type(error.cause).__name__) == refused, f"{wishes}: {error!r}, not {refused}"  # noqa: PT017
            self._no_deaths()
            return error.index
        assert refused is None, f"{wishes} were accepted, not {refused}"
        lsns = self._check_deaths(container, deaths)
        for wish, written in zip(wishes, results, strict=True):
            lsns += self._apply(container, wish, box.judge(wish, self.now), written)
        self._numbered(box, sorted(lsns))
        return None

    def _numbered(self, box: Box, lsns: list[int]) -> None:
        """Every change of a container has a number of its own, larger than those of all commits before."""
        for lsn in lsns:
            assert lsn > box.lsn, f"lsn {lsn} after {box.lsn}"
            box.lsn = lsn

    def _apply(self, container: int, wish: Wish, verdict: Verdict, written: Written) -> list[int]:
        box, record, seen = self.boxes[container], written.record, verdict.seen
        self.followers[container].wrote(wish.verb, verdict, record, self.now)
        assert written.now == self.now
        assert written.created == (seen is None and wish.verb != "delete")
        if wish.verb in ("delete", "read"):
            assert seen is not None and facts(record) == bare(seen), f"{wish} met {record}, not {seen}"
            if wish.verb == "delete":
                box.apply(wish, verdict, self.now, 0, 0)
            return []
        if seen is None:
            assert record.seq > box.seq, f"seq {record.seq} after {box.seq}"
            box.seq = record.seq
        else:
            assert record.seq == seen.seq
        life = box.apply(wish, verdict, self.now, record.lsn, record.seq)
        assert life is not None and facts(record) == bare(life), f"{wish} became {record}, not {life}"
        return [record.lsn]

    # --- deaths ------------------------------------------------------------------------------------------------------

    def _new_events(self) -> list[Expiry]:
        events = finish(self.store.read(Expiries(None, self._event, 1000)))
        if events:
            self._event = events[-1].id
            self._deaths += len(events)
            if self._deaths > REMEMBERED_EVENTS:
                self._trim()
        return events

    def _trim(self) -> None:
        def decide() -> Decision[None]:
            return Outcome((TrimEvents(self._event, REMEMBERED_EVENTS * 10),), None)
            yield

        finish(self.store.write(decide))
        self._deaths = 0

    def _no_deaths(self) -> None:
        events = self._new_events()
        assert not events, f"nobody died, and there are {events}"

    def _check_deaths(self, container: int, expected: list[Death]) -> list[int]:
        """These have died and nobody else; their events' numbers."""
        events = self._new_events()
        assert [death_in(event) for event in events] == expected
        assert all(event.container == container for event in events)
        return [event.lsn for event in events]

    # --- sweeps ------------------------------------------------------------------------------------------------------

    @property
    def sweeping(self) -> bool:
        return self._sweep is not None

    def pick(self) -> None:
        """The reaper chooses what to sweep, by what it knows now, and queues it."""
        assert self._sweep is None
        self._sweep_horizon, self._sweep_now = self.horizon, self.now
        self._swept = Counter()
        self._sweep = self.engine.reaper.sweep_due(PurgeRequest(self.horizon, self.now, "sweep"))
        self._picked = None
        self._go_on()
        if self._picked is not None:
            container, limit = self._picked
            self._spared = self.boxes[container].doomed(self.horizon, limit)

    def purge(self) -> None:
        """The queued sweep runs, whatever has happened since it was picked; the reaper then picks the next one."""
        assert self._picked is not None
        container, limit = self._picked
        box = self.boxes.get(container)
        doomed = [] if box is None else box.doomed(self._sweep_horizon, limit)
        deaths = [] if box is None else [box.obituary(life, self._sweep_now, "sweep") for life in doomed]
        self._picked, spared = None, self._spared
        self._spared = []
        ended = self._go_on()
        lsns = self._check_deaths(container, deaths)
        if box is not None:
            self._numbered(box, lsns)
            self.followers[container].died(doomed, self._sweep_now)
            for life in doomed:
                del box.lives[life.who]
            self._swept[container] += len(doomed)
            self.tally["purged"] += len(doomed)
            self.tally["spared"] += sum(
                life.who in box.lives and not box.dead(box.lives[life.who], self._sweep_horizon) for life in spared
            )
        if ended is not None:
            self._swept_all(ended)

    def _go_on(self) -> Counter[int] | None:
        assert self._sweep is not None
        try:
            self._sweep.send(None)
        except StopIteration as end:
            self._sweep = None
            result: Counter[int] = end.value
            if not result:
                self._swept_all(result)
            return result
        return None

    def _swept_all(self, done: Counter[int]) -> None:
        assert +done == +self._swept, f"the reaper says {done}, and {self._swept} died"
        left = {id: due for id, box in self.boxes.items() if (due := box.due(self._sweep_horizon))}
        assert not left, f"after the last sweep {left} are still due"

    # --- reads -------------------------------------------------------------------------------------------------------

    def get(self, container: int, who: Who) -> None:
        """A point read."""
        record = finish(self.engine.get(self.node(container), *who, self.now))
        seen = self.boxes[container].seen(who, self.now)
        found = None if record is None else facts(record)
        assert found == (None if seen is None else bare(seen)), f"read {record} at {self.now}, and there is {seen}"

    def scan(
        self, container: int, order: Order, partition: bytes | None = None, batch: int = 2, since: int = 0
    ) -> None:
        """All that is visible, in one order, of all partitions or one; by change it may start behind an lsn."""
        scope = Scope(order=order) if partition is None else Scope(partition, partition + b"\0", order)
        after = Position(b"", since) if order is Order.CHANGED and since else None
        found = [facts(record) for record in finish(self._scanned(container, scope, after, batch))]
        wanted = [
            bare(life)
            for life in self.boxes[container].alive(self.now)
            if (partition is None or life.who[0] == partition) and (after is None or life.lsn > since)
        ]
        assert found == in_order(wanted, order.value), f"scan {scope} at {self.now}"

    async def _scanned(self, container: int, scope: Scope, after: Position | None, batch: int) -> list[Record]:
        found: list[Record] = []
        async for stretch in self.engine.scan(self.node(container), scope, after, self.now, batch):
            found += stretch.records
        return found

    def count(self, container: int) -> None:
        """How many are visible."""
        box = self.boxes[container]
        records, kilobytes = finish(self.engine.expiry_counts.usage(self.node(container), self.now))
        assert records == len(box.alive(self.now)), f"{records} counted at {self.now}"
        assert kilobytes == -(-sum(len(life.value) for life in box.lives.values()) // 1024)

    def preview(self, container: int, ttl: int | None) -> None:
        """What another ttl would do, before it is set."""
        box = self.boxes[container]
        other = Box(ttl, box.lives)
        preview = finish(self.engine.expiry_counts.preview(self.node(container), rules_of(ttl), self.now))
        lives = list(box.lives.values())
        both = sum(box.dead(life, self.now) and other.dead(life, self.now) for life in lives)
        victims = {life.who for life in box.alive(self.now) if other.dead(life, self.now)}
        assert preview.records == len(box.alive(self.now))
        assert preview.expire_now == len(victims)
        assert preview.expire_within["1h"] == other.due(self.now + 3600 * MICROS) - both
        assert preview.own_ttl == sum(life.has_own for life in lives)
        assert preview.ignored == sum(life.own == 0 for life in lives)
        assert preview.never == sum(other.death(life) is None for life in lives)
        assert preview.reappear_now == sum(
            box.dead(life, self.now) and not other.dead(life, self.now) for life in lives
        )
        sample = {(record.partition, record.key) for record in preview.sample}
        assert sample <= victims and len(sample) == min(10, len(victims))
        self._estimate(container, ttl, preview, victims)

    def _estimate(self, container: int, ttl: int | None, exact: Preview, victims: set[tuple[bytes, bytes]]) -> None:
        """Look at three records at most: either they are all, or the counts are marked as estimates and fit together."""
        counts = ExpiryCounts(self.store, CountBudget(counted=0, read=0, sample=3))
        guess = finish(counts.preview(self.node(container), rules_of(ttl), self.now))
        found = {(record.partition, record.key) for record in guess.sample}
        within = list(guess.expire_within.values())
        assert found <= victims and len(found) <= guess.expire_now <= min(within) and within == sorted(within)
        if guess.exact:
            assert msgspec.structs.replace(guess, sample=exact.sample) == exact

    def forecast(self, container: int, seconds: int) -> None:
        """How many die in each second to come."""
        box = self.boxes[container]
        counts = self.engine.expiry_counts
        span = seconds * MICROS
        forecast = finish(counts.forecast(self.node(container), self.now, span, seconds, counts.allow()))
        deaths = [box.death(life) for life in box.lives.values()]
        ahead = [death - self.now for death in deaths if death is not None and death > self.now]
        assert forecast.due_now == box.due(self.now)
        assert forecast.never == deaths.count(None)
        assert [bucket.count for bucket in forecast.buckets] == [
            sum(n * MICROS < span <= (n + 1) * MICROS for span in ahead) for n in range(seconds)
        ]
        assert forecast.later == sum(span > seconds * MICROS for span in ahead)

    def next_death(self) -> None:
        """The reaper knows the earliest deadline of all that is stored."""
        deaths = [
            death
            for box in self.boxes.values()
            for life in box.lives.values()
            if (death := box.death(life)) is not None
        ]
        known = finish(self.engine.reaper.next_deadline())
        # It may expect a death that a later write has put off, but it must never be late.
        assert not deaths or (known is not None and known <= min(deaths)), f"{known} is after {min(deaths)}"

    def audit(self) -> None:
        """Everything that is stored, hidden or not, is exactly what the oracle holds."""
        for container, box in self.boxes.items():
            found = finish(self.store.read(Scan(container, b"", None, Order.CREATED, None, 10_000)))
            assert [facts(record) for record in found] == in_order(map(bare, box.lives.values()), "created")
            if container in self.unique:
                self.followers[container].look(self.engine, self.node(container), self.now)
            else:
                assert finish(self.store.read(History(container, 0, 1))) == [], "nobody wants this history"
        self.next_death()
