"""Serializable transactions: each that commits has read what it would have read had it run as a whole at its end."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from engine.site import Site, command, create, delete, draft, keys_of, partition_of, replace, upsert
from engine.test_snapshot import attempt
from mayflydb.engine.building import IndexRequest
from mayflydb.engine.catalog import Index
from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.snapshot import Snapshot
from mayflydb.model.errors import Conflict, NotFound, WriteConflict
from mayflydb.model.order import KeyRange
from mayflydb.model.record import Record

ORDERED = IndexRequest(spec={"field": 0})
KEYS = tuple(b"%c" % n for n in b"abcdefgh")
WORDS = tuple(b"%02d" % n for n in range(12))
ALL = KeyRange(b"", b"\xff")


def between(lower: bytes, upper: bytes) -> KeyRange:
    return KeyRange(lower, upper)


def adding(key: bytes, word: bytes) -> Command:
    """An upsert that adds a word to the first field, and keeps the others."""

    def merge(before: Record | None) -> Draft:
        return draft(key, with_word(b"" if before is None else before.value, word))

    return Command(Mode.UPSERT, partition_of(key), key, merge)


def with_word(value: bytes, word: bytes) -> bytes:
    return b",".join(sorted({*value.split(b","), word} - {b""}))


class Client:
    """One transaction at a site."""

    def __init__(self, site: Site, index: Index, serializable: bool = True) -> None:
        self.site = site
        self.index = index
        self.snapshot = site.run(Snapshot.begin(site.engine, site.now, [site.home], serializable))

    def get(self, key: bytes) -> bytes | None:
        record = self.site.run(self.snapshot.get(self.site.it, partition_of(key), key))
        return None if record is None else record.value

    def run(self, wanted: Command, blind: bool = False) -> bytes:
        return self.site.run(self.snapshot.run(self.site.it, wanted, blind)).record.value

    def walk(
        self, within: KeyRange = ALL, descending: bool = False, stop: int = 10_000, batch: int = 3
    ) -> list[tuple[bytes, bytes]]:
        """(word, key) pairs, read stretch by stretch until there are so many."""

        async def read() -> list[tuple[bytes, bytes]]:
            found: list[tuple[bytes, bytes]] = []
            stretches = self.snapshot.walk(self.site.it, self.index, within, descending, keys_of, batch)
            async for stretch in stretches:
                found += [(word, record.key) for word, record in stretch]
                if len(found) >= stop:
                    break
            await stretches.aclose()  # type: ignore[attr-defined]
            return found[:stop]

        return self.site.run(read())

    def commit(self) -> list[int]:
        return [written.record.seq for written in self.site.run(self.snapshot.commit(self.site.now))]


@pytest.fixture
def index(site: Site) -> Index:
    (index,) = site.build(ORDERED)
    for key, value in ((b"a", b"02"), (b"b", b"04"), (b"c", b"06,08"), (b"d", b"")):
        site.write(create(key, value))
    return index


# What others commit meanwhile, what is read before that, and whether a transaction that then writes `h` conflicts.
READS: list[tuple[Sequence[Command], Callable[[Client], object], bool]] = [
    ([replace(b"a", b"03")], lambda c: c.get(b"a"), True),
    ([replace(b"a", b"02")], lambda c: c.get(b"b"), False),
    ([delete(b"a")], lambda c: c.get(b"a"), True),
    ([create(b"e", b"05")], lambda c: c.get(b"e"), True),
    ([create(b"e", b"05"), delete(b"e")], lambda c: c.get(b"e"), False),
    ([create(b"e", b"05")], lambda c: c.walk(between(b"05", b"06")), True),
    ([create(b"e", b"05")], lambda c: c.walk(between(b"04", b"05")), False),
    ([create(b"e", b"05")], lambda c: c.walk(between(b"05", b"06"), descending=True), True),
    ([delete(b"b")], lambda c: c.walk(between(b"03", b"05")), True),
    ([delete(b"b")], lambda c: c.walk(between(b"05", b"09")), False),
    ([replace(b"b", b"09")], lambda c: c.walk(between(b"03", b"05")), True),
    ([replace(b"b", b"09")], lambda c: c.walk(between(b"09", b"10")), True),
    ([replace(b"b", b"09")], lambda c: c.walk(between(b"05", b"09")), False),
    ([replace(b"b", b"04|x")], lambda c: c.walk(between(b"03", b"05")), True),
    ([replace(b"d", b"|x")], lambda c: c.walk(ALL), False),
    ([replace(b"c", b"06,08|x")], lambda c: c.walk(ALL, stop=2, batch=2), False),
    ([replace(b"c", b"06,08|x")], lambda c: c.walk(ALL, stop=3, batch=3), True),
    ([replace(b"a", b"02|x")], lambda c: c.walk(ALL, descending=True, stop=2, batch=2), False),
    ([create(b"e", b"07")], lambda c: c.walk(ALL, descending=True, stop=2, batch=2), True),
    ([create(b"e", b"07")], lambda c: c.walk(ALL, descending=True, stop=1, batch=1), False),
    ([create(b"e", b"05"), replace(b"d", b"11"), delete(b"e")], lambda c: c.walk(between(b"05", b"07")), False),
    ([replace(b"a", b"01"), replace(b"a", b"02")], lambda c: c.walk(between(b"02", b"03")), True),
]


@pytest.mark.parametrize("number", range(len(READS)))
def test_what_was_read_has_to_be_so_at_the_end(site: Site, index: Index, number: int) -> None:
    theirs, read, conflicts = READS[number]
    client, plain, only_reads = Client(site, index), Client(site, index, serializable=False), Client(site, index)
    before = [read(each) for each in (client, plain, only_reads)]
    for each in theirs:
        site.write(each)
    assert [read(each) for each in (client, plain, only_reads)] == before
    committed = site.values()
    client.run(create(b"h", b"10"))
    if conflicts:
        with pytest.raises(WriteConflict) as raised:
            client.commit()
        assert raised.value.detail == {"container": site.it}
        assert site.values() == committed
    else:
        client.commit()
    plain.run(upsert(b"g", b"10"))
    plain.commit()
    assert only_reads.commit() == []


# What others commit meanwhile, what is done blindly, and what the record is at the end (None: it conflicts).
BLIND: list[tuple[Sequence[Command], Callable[[Client], object], dict[bytes, bytes | None] | None]] = [
    ([adding(b"a", b"03")], lambda c: c.run(adding(b"a", b"05"), True), {b"a": b"02,03,05"}),
    ([adding(b"e", b"03")], lambda c: c.run(adding(b"e", b"05"), True), {b"e": b"03,05"}),
    ([delete(b"a")], lambda c: c.run(adding(b"a", b"05"), True), {b"a": b"05"}),
    ([replace(b"a", b"03")], lambda c: c.run(upsert(b"a", b"05"), True), {b"a": b"05"}),
    ([replace(b"a", b"03")], lambda c: c.run(delete(b"a"), True), {b"a": None}),
    ([delete(b"a")], lambda c: c.run(delete(b"a"), True), {b"a": None}),
    ([create(b"e", b"03")], lambda c: attempt(lambda: c.run(delete(b"e"), True)), {b"e": None}),
    ([adding(b"a", b"03")], lambda c: c.run(adding(b"a", b"05")), None),
    ([replace(b"a", b"03")], lambda c: c.run(upsert(b"a", b"05")), None),
    ([replace(b"a", b"03")], lambda c: (c.get(b"a"), c.run(upsert(b"a", b"05"), True)), None),
    ([replace(b"a", b"03")], lambda c: (c.run(adding(b"a", b"05"), True), c.get(b"a")), None),
    ([create(b"e", b"03")], lambda c: (c.run(adding(b"e", b"05"), True), c.get(b"e")), None),
    ([replace(b"a", b"03")], lambda c: (c.run(adding(b"a", b"05"), True), c.run(replace(b"a", b"07"))), None),
    ([replace(b"a", b"03")], lambda c: (c.run(replace(b"a", b"05")), c.run(adding(b"a", b"07"), True)), None),
    ([replace(b"b", b"03")], lambda c: (c.run(adding(b"a", b"05"), True), c.get(b"a")), {b"a": b"02,05"}),
    ([replace(b"a", b"03")], lambda c: (c.walk(between(b"02", b"03")), c.run(delete(b"a"), True)), None),
    ([create(b"e", b"03")], lambda c: c.run(create(b"e", b"05")), None),
    ([replace(b"a", b"03")], lambda c: [c.run(adding(b"a", w), True) for w in WORDS[5:7]], {b"a": b"03,05,06"}),
]

ONLY_WALKED = 15
"""What was only read in a walk may change, for a transaction that is not serializable."""


@pytest.mark.parametrize("serializable", [True, False])
@pytest.mark.parametrize("late", [True, False])
@pytest.mark.parametrize("number", range(len(BLIND)))
def test_what_is_written_blindly_conflicts_with_nobody(
    site: Site, index: Index, number: int, late: bool, serializable: bool
) -> None:
    """`late`: others are quicker before it writes, not only before it commits."""
    theirs, ours, expected = BLIND[number]
    client = Client(site, index, serializable)
    if late:
        client.get(b"d")
        for each in theirs:
            site.write(each)
        if expected is None:
            refused = attempt(lambda: (ours(client), client.commit()))
            assert refused is WriteConflict or (not serializable and number == ONLY_WALKED)
            return
    ours(client)
    if not late:
        for each in theirs:
            site.write(each)
    if expected is None and (serializable or number != ONLY_WALKED):
        with pytest.raises(WriteConflict):
            client.commit()
        return
    client.commit()
    values = site.values()
    assert {key: values.get(key) for key in expected or {}} == (expected or {})


def test_what_was_not_there_at_the_beginning_counts_as_read(site: Site, index: Index) -> None:
    """Though it was there when it was looked for."""
    client = Client(site, index)
    client.get(b"a")
    site.write(create(b"e", b"05"))
    assert client.get(b"e") is None
    client.run(create(b"h", b"10"))
    with pytest.raises(WriteConflict):
        client.commit()


def test_it_sees_what_it_has_written(site: Site, index: Index) -> None:
    client = Client(site, index)
    client.run(adding(b"a", b"05"), True)
    client.run(create(b"e", b"03,11"))
    client.run(delete(b"b"))
    client.run(replace(b"c", b"07"))
    expected = [(b"02", b"a"), (b"03", b"e"), (b"05", b"a"), (b"07", b"c"), (b"11", b"e")]
    for batch in (1, 2, 5):
        assert client.walk(batch=batch) == expected
        assert client.walk(descending=True, batch=batch) == expected[::-1]
        assert client.walk(between(b"03", b"07"), batch=batch) == expected[1:3]
    client.commit()
    assert Client(site, index).walk() == expected


def test_a_walk_does_not_see_what_is_written_during_it(site: Site, index: Index) -> None:
    client = Client(site, index)
    client.run(replace(b"b", b"05"))

    async def read() -> list[tuple[bytes, bytes]]:
        found: list[tuple[bytes, bytes]] = []
        async for stretch in client.snapshot.walk(site.it, index, ALL, False, keys_of, 1):
            for word, record in stretch:
                found.append((word, record.key))
                await client.snapshot.run(site.it, adding(record.key, b"%02d" % (int(word) + 3)))
                await client.snapshot.run(site.it, upsert(b"c", b"11"))
        return found

    assert site.run(read()) == [(b"02", b"a"), (b"05", b"b"), (b"06", b"c"), (b"08", b"c")]
    assert client.walk() == [(b"02", b"a"), (b"05", b"b"), (b"05", b"a"), (b"08", b"b"), (b"11", b"c")]


@pytest.mark.parametrize("everything", [False, True])
def test_an_index_that_is_dropped_during_a_walk(site: Site, index: Index, everything: bool) -> None:
    client = Client(site, index)

    async def read() -> None:
        async for _ in client.snapshot.walk(site.it, index, ALL, False, keys_of, 1):
            if everything:
                await site.engine.definitions.drop(site.it)
            else:
                await site.engine.indexes.drop(site.it, [index.number])

    with pytest.raises(WriteConflict) as raised:
        site.run(read())
    assert raised.value.detail == {"container": site.it, "scheme": True}


def test_what_another_process_has_changed_is_a_conflict(site: Site, index: Index) -> None:
    client = Client(site, index)
    client.get(b"d")
    site.write(replace(b"b", b"05"))
    site.engine.version_cache.unwatch(client.snapshot)
    assert client.walk(between(b"06", b"09")) == [(b"06", b"c"), (b"08", b"c")]
    with pytest.raises(WriteConflict):
        client.walk(between(b"05", b"06"))


def test_it_remembers_no_more_than_there_is(site: Site, index: Index) -> None:
    """The same range read again and again is one range."""
    client = Client(site, index)
    for _ in range(50):
        client.walk(between(b"02", b"05"), stop=1, batch=1)
        client.walk(between(b"02", b"05"))
    (part,) = client.snapshot._views.values()
    assert sum(len(spans) for spans in part._ranges.values()) <= 3


# --- at random -------------------------------------------------------------------------------------------------------


class Model:
    """Committed values, and the same operations over them."""

    def __init__(self, values: dict[bytes, bytes]) -> None:
        self.values = values

    def get(self, key: bytes) -> bytes | None:
        return self.values.get(key)

    def walk(self, within: KeyRange, descending: bool, stop: int) -> list[tuple[bytes, bytes]]:
        found = sorted((word, partition_of(key)[:8], key) for key, v in self.values.items() for word in words_of(v))
        found = [each for each in found if within.lower <= each[0] < within.upper]
        return [(word, key) for word, _, key in (found[::-1] if descending else found)]

    def run(self, wanted: Command, word: bytes, blind: bool) -> object:
        there = wanted.key in self.values
        if wanted.mode is Mode.CREATE and there:
            return Conflict
        if wanted.mode in (Mode.REPLACE, Mode.DELETE) and not there:
            return NotFound
        if wanted.mode is Mode.DELETE:
            return self.values.pop(wanted.key)
        before = self.values.get(wanted.key, b"")
        value = word if isinstance(wanted.draft, Draft) else with_word(before, word)
        self.values[wanted.key] = value
        return value


def words_of(value: bytes) -> set[bytes]:
    return {word for word in value.split(b",") if word}


def test_transactions_are_as_if_one_came_after_the_other(site: Site, index: Index, chance: random.Random) -> None:
    """Several at a time: each that commits is done again, as a whole, over what others have left, and must come to the same."""
    commits = conflicts = 0
    open_ones: list[Run] = []
    for _ in range(220):
        if len(open_ones) < 3 and chance.random() < 0.4:
            open_ones.append(Run(Client(site, index)))
        elif open_ones:
            run = chance.choice(open_ones)
            if chance.random() < 0.75 and run.step(chance):
                continue
            open_ones.remove(run)
            done = run.finish(site)
            commits, conflicts = commits + done, conflicts + (not done)
    assert commits > 5
    assert conflicts > 1


class Run:
    """A transaction, and what it has been told."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.log: list[tuple[Callable[[Model], object], object]] = []

    def step(self, chance: random.Random) -> bool:
        """Whether it can go on."""
        client, key, word = self.client, chance.choice(KEYS), chance.choice(WORDS)
        if (kind := chance.random()) < 0.3:
            told = attempt(lambda: client.get(key))
            self.log.append((lambda model: model.get(key), told))
        elif kind < 0.55:
            lower, upper = sorted([word, chance.choice(WORDS)])
            within, descending = between(lower, upper + b"\xff"), chance.random() < 0.5
            told = attempt(lambda: client.walk(within, descending, batch=chance.randrange(1, 4)))
            self.log.append((lambda model: ordered(model.walk(within, descending, 0)), ordered(told)))
        else:
            mode = chance.choice([Mode.CREATE, Mode.UPSERT, Mode.UPSERT, Mode.REPLACE, Mode.DELETE])
            merges = mode is Mode.UPSERT and chance.random() < 0.5
            wanted, blind = adding(key, word) if merges else command(mode, key, word), chance.random() < 0.5
            told = attempt(lambda: client.run(wanted, blind))
            known = blind and mode in (Mode.UPSERT, Mode.DELETE)
            # What is written blindly may come to something else at the end.
            self.log.append((lambda model: (model.run(wanted, word, blind), told)[known], told))
        return told is not WriteConflict

    def finish(self, site: Site) -> bool:
        before = site.values()
        if self.log and self.log[-1][1] is WriteConflict:
            return False
        if attempt(self.client.commit) is WriteConflict:
            assert site.values() == before
            return False
        if self.client.snapshot.written or any(told is NotFound for _, told in self.log):
            model = Model(dict(before))
            if self.client.snapshot.written:
                assert [again(model) for again, _ in self.log] == [told for _, told in self.log]
                assert site.values() == model.values
        return True


def ordered(told: object) -> object:
    """One word's records in any order: it is that of their hashes, then of their numbers."""
    return told if not isinstance(told, list) else (sorted(told), [word for word, _ in told])
