"""A container with a random history, and a model of its states: what a client saw at each instant."""

from __future__ import annotations

from random import Random

import msgspec

from engine.site import PARTITIONS, Site, draft, keys_of, partition_of, words
from mayflydb.engine.building import IndexRequest
from mayflydb.engine.catalog import Definition, Index, Node
from mayflydb.engine.commands import Command, Mode
from mayflydb.engine.engine import Engine
from mayflydb.engine.lifecycle.past_engine import engine_as_of
from mayflydb.engine.scans import Scope
from mayflydb.engine.snapshot import Snapshot
from mayflydb.expiry.rules import Rule, default_rule, index_rule
from mayflydb.expiry.sweep import PurgeRequest
from mayflydb.model.errors import Conflict, NotFound
from mayflydb.model.instant import MICROSECOND, SECOND, Instant
from mayflydb.model.order import KeyRange, Order
from mayflydb.model.record import Record

KEYS = [bytes([letter]) for letter in b"abcdefghijkl"]
WORDS = ["x", "y", "z", "x,y", ""]
SLOT = 20
HIDING: list[tuple[Rule, ...]] = [(default_rule(n),) for n in (None, 5, 20)] + [()]
SHOWING: list[tuple[Rule, ...]] = [(index_rule(n, SLOT, False),) for n in (0, 10)] + [()]


class Life(msgspec.Struct, frozen=True):
    """A stored record of the model: its value, and the facts of its deadline in seconds."""

    value: bytes
    anchor: int
    own: int | None
    date: int | None

    def is_due(self, rules: tuple[Rule, ...], at: Instant) -> bool:
        for rule in rules:
            if rule.slot is None:
                start: int | None = self.anchor
                span = self.own if self.own is not None else rule.after
            else:
                start, span = self.date, rule.after
            if start is not None and span is not None and (start + span) * SECOND <= at:
                return True
        return False


State = dict[bytes, Life]


class RandomHistory:
    """Makes changes of a container of a site, and notes its states."""

    def __init__(self, site: Site, seed: int, showing: bool, history: int = 1000) -> None:
        self.site, self.random = site, Random(seed)
        self.choices = SHOWING if showing else HIDING
        self.rules = self.choices[0]
        definition = Definition({}, site.now, rules=self.rules)
        self.id = site.run(site.engine.definitions.create(site.home, f"past{seed}", definition)).id
        site.it = self.id
        (self.index,) = site.build(IndexRequest((), spec={"field": 0}))
        self.stored: State = {}
        for _ in range(self.random.randrange(8)):
            self.write()
        self.since = site.now
        site.run(
            site.engine.definitions.change_lifecycle(
                self.id, lambda lifecycle: msgspec.structs.replace(lifecycle, history=history), site.now
            )
        )
        self.states: list[tuple[Instant, State]] = []
        self.ruled: list[tuple[Instant, tuple[Rule, ...]]] = []
        self.note()

    def note(self) -> None:
        self.states.append((self.site.now, dict(self.stored)))
        self.ruled.append((self.site.now, self.rules))

    def step(self) -> None:
        dice = self.random.random()
        if dice < 0.55:
            self.write()
        elif dice < 0.75:
            self.site.clock.set(self.site.now + self.random.choice([MICROSECOND, SECOND, 3 * SECOND, 9 * SECOND]))
        elif dice < 0.88:
            self.purge()
        else:
            self.change_rules()
        self.note()

    def write(self) -> None:
        site, key = self.site, self.random.choice(KEYS)
        value = f"{self.random.choice(WORDS)}|{self.random.randrange(1000)}".encode()
        second, now = site.now // SECOND, site.now
        before = self.stored.get(key)
        is_seen = before is not None and (self.choices is SHOWING or not before.is_due(self.rules, now))
        mode = self.random.choice([Mode.CREATE, Mode.UPSERT, Mode.UPSERT, Mode.REPLACE, Mode.DELETE])
        own = self.random.choice([None, None, 2, 30]) if self.choices is HIDING else None
        date = second + self.random.randrange(-5, 9) if self.choices is SHOWING else None
        new = draft(key, value, own)
        if date is not None:
            new = msgspec.structs.replace(new, dates=((SLOT, date * SECOND),))
        try:
            site.write(Command(mode, partition_of(key), key, None if mode is Mode.DELETE else new), self.id)
        except (Conflict, NotFound):
            assert is_seen == (mode is Mode.CREATE)
            return
        assert is_seen if mode in (Mode.REPLACE, Mode.DELETE) else not (is_seen and mode is Mode.CREATE)
        if mode is Mode.DELETE:
            del self.stored[key]
        else:
            self.stored[key] = Life(value, second, own, date)

    def purge(self) -> None:
        now = self.site.now
        self.site.run(self.site.engine.reaper.sweep_due(PurgeRequest(now, now, "run now", override="all")))
        self.stored = {key: life for key, life in self.stored.items() if not life.is_due(self.rules, now)}

    def change_rules(self) -> None:
        self.rules = self.random.choice(self.choices)

        def change(node: Node) -> Definition:
            return msgspec.structs.replace(node.definition, rules=self.rules)

        self.site.run(self.site.engine.definitions.replace(self.id, change, self.site.now))

    # --- questions -----------------------------------------------------------------------------------------------------

    def instants(self, count: int) -> list[Instant]:
        """Instants in the past from the beginning on: of changes, one microsecond off, and others."""
        known = [at + off for at, _ in self.states for off in (-1, 0, 1)]
        known += [self.random.randrange(self.since, self.site.now) for _ in range(count)]
        possible = sorted({at for at in known if self.since <= at < self.site.now})
        return self.random.sample(possible, min(count, len(possible)))

    def seen_at(self, at: Instant) -> dict[bytes, bytes]:
        """What a client saw at an instant, by key."""
        state = [each for instant, each in self.states if instant <= at][-1]
        rules = [each for instant, each in self.ruled if instant <= at][-1]
        showing = self.choices is SHOWING
        return {key: life.value for key, life in state.items() if showing or not life.is_due(rules, at)}

    def read_at(self, at: Instant) -> dict[str, object]:
        """What is read as of an instant, by path; each is a dictionary as of `seen_at`."""
        return self.site.run(
            read_everything(self.site.engine, self.id, self.index, at, self.random.choice([2, 5, 100]))
        )


def contents(records: list[Record]) -> dict[bytes, bytes]:
    assert len({record.key for record in records}) == len(records), "a record came twice"
    return {record.key: record.value for record in records}


async def read_everything(engine: Engine, container: int, index: Index, at: Instant, batch: int) -> dict[str, object]:
    past = engine_as_of(engine, at, lambda node: keys_of)
    node = await past.node_by_id(container)
    assert node is not None
    found: dict[str, object] = {}
    gets = [await past.get(node, partition_of(key), key, at) for key in KEYS]
    found["get"] = contents([record for record in gets if record is not None])
    places = {Order.CREATED: "seq", Order.CHANGED: "lsn"}
    for order in (Order.CREATED, Order.CHANGED, Order.HASHED):
        records = [
            record async for each in past.scan(node, Scope(order=order), None, at, batch) for record in each.records
        ]
        placed = [
            getattr(record, places[order]) if order in places else (record.partition, record.seq) for record in records
        ]
        assert placed == sorted(placed), order
        found[order.name] = contents(records)
    records = []
    for partition in PARTITIONS:
        scope = Scope.of_partition(partition)
        records += [record async for each in past.scan(node, scope, None, at, batch) for record in each.records]
    found["partitions"] = contents(records)
    records = []
    for partition in PARTITIONS:
        scope = Scope(partition, partition + b"\0")
        records += [record async for each in past.scan(node, scope, None, at, batch) for record in each.records]
    found["partitions by creation"] = contents(records)
    snapshot = await Snapshot.begin(past, at, [node.parent])
    found["snapshot"] = contents(
        [record async for each in snapshot.scan(container, Scope(), None, batch) for record in each.records]
    )
    await find_words(past, node, index, at, batch, snapshot, found)
    snapshot.close()
    return found


async def find_words(
    past: Engine, node: Node, index: Index, at: Instant, batch: int, snapshot: Snapshot, found: dict[str, object]
) -> None:
    """Read the records with each word by the index, in all ways; `found` gets by path: the pairs of word and key."""
    pairs: dict[str, list[tuple[bytes, bytes]]] = {name: [] for name in ("seek", "range")}
    for word in (b"x", b"y", b"z"):
        within = KeyRange(word, word + b"\xff" * 9)
        seqs = await past.indexes.seek(node, index, [within], 100)
        assert seqs is not None
        async for records in past.indexes.fetch(node, seqs, at, batch):
            pairs["seek"] += [(word, record.key) for record in records]
        ranged = await past.indexes.fetch_range(node, index, within, at, 100)
        assert ranged is not None
        pairs["range"] += [(word, record.key) for record in ranged]
    found.update({name: sorted(each) for name, each in pairs.items()})
    whole = KeyRange(b"", b"\xff" * 10)
    for descending in (False, True):
        walked = [
            (word, record.key)
            async for chunk in past.indexes.walk(node, index, whole, descending, at, batch)
            for word, record in chunk
        ]
        assert [word for word, _ in walked] == sorted([word for word, _ in walked], reverse=descending)
        found[f"walk {descending}"] = sorted(walked)
        snapped = [
            (word, record.key)
            async for chunk in snapshot.walk(node.id, index, whole, descending, keys_of, batch)
            for word, record in chunk
        ]
        found[f"snapshot walk {descending}"] = sorted(snapped)


def words_of(seen: dict[bytes, bytes], index: Index) -> list[tuple[bytes, bytes]]:
    """The pairs of word and key of what was seen."""
    return sorted((word, key) for key, value in seen.items() for word in words(value, index))
