"""Unique ordered indexes: of the visible records of a container, in whatever partition, one owns an entry."""

from __future__ import annotations

import random

import pytest

from engine.site import Site, Steps, create, delete, expected, replace, upsert, words
from mayflydb.engine.building import IndexRequest
from mayflydb.engine.catalog import Index
from mayflydb.engine.commands import Command, Mode
from mayflydb.engine.transactions import WriteTransaction
from mayflydb.model.errors import Conflict, MayflyError, NotFound
from mayflydb.model.instant import SECOND
from mayflydb.store.interface import Expiries

PLAIN = IndexRequest(spec={"field": 0})
UNIQUE = IndexRequest(unique=True, spec={"field": 0})
SECOND_UNIQUE = IndexRequest(unique=True, spec={"field": 1})

# `a` holds x,y|m; `b` in the other partition z|; `h` is hidden and holds h|h; `d` has no words.
WRITES: list[tuple[Command, tuple[int, bytes] | None]] = [
    (create(b"n", b"x"), (0, b"x")),
    (create(b"n", b"w,y"), (0, b"y")),
    (create(b"n", b"z"), (0, b"z")),
    (create(b"n", b"w|m"), (1, b"m")),
    (create(b"n", b"z|m"), (0, b"z")),
    (create(b"n", b"m|x"), None),
    (create(b"n", b""), None),
    (create(b"n", b"h|h"), None),
    (create(b"h", b"h|h"), None),
    (create(b"n", b"h|m"), (1, b"m")),
    (upsert(b"b", b"y"), (0, b"y")),
    (upsert(b"b", b"z|n"), None),
    (replace(b"a", b"y,x|m"), None),
    (replace(b"a", b"y,z|m"), (0, b"z")),
    (delete(b"a"), None),
]


@pytest.mark.parametrize("number", range(len(WRITES)))
def test_a_write_is_told_what_is_taken(site: Site, number: int) -> None:
    """Refused with the index and the key that a visible record holds; else what is hidden makes room, with its event."""
    wanted, taken = WRITES[number]
    _, *unique = site.build(PLAIN, UNIQUE, SECOND_UNIQUE)
    for key, value in ((b"a", b"x,y|m"), (b"b", b"z"), (b"d", b"")):
        site.write(create(key, value))
    site.write(create(b"h", b"h|h", life=5))
    site.pass_seconds(6)
    before = site.values()
    events = site.run(site.engine.store.read(Expiries(site.it, 0, 9)))
    if taken is None:
        site.write(wanted)
        clears = wanted.mode is Mode.CREATE and (wanted.key == b"h" or b"h" in site.values()[wanted.key])
        assert len(site.run(site.engine.store.read(Expiries(site.it, 0, 9)))) == len(events) + clears
    else:
        with pytest.raises(Conflict) as refused:
            site.write(wanted)
        assert refused.value.detail["index"] == unique[taken[0]].number
        assert refused.value.detail["key"] == taken[1] + bytes(8)
        assert site.values() == before
    for index in unique:
        assert site.linked(index) == expected(site.values(), index)


@pytest.mark.parametrize(
    ("commands", "fits"),
    [
        ([create(b"a", b"x"), create(b"b", b"x")], False),
        ([create(b"a", b"x"), create(b"b", b"y"), replace(b"b", b"x")], False),
        ([create(b"a", b"x"), delete(b"a"), create(b"b", b"x")], True),
        ([create(b"a", b"x"), replace(b"a", b"y"), create(b"b", b"x")], True),
        ([delete(b"s"), create(b"b", b"s")], True),
        ([replace(b"s", b"t"), create(b"b", b"s")], True),
        ([replace(b"s", b"t"), create(b"b", b"t")], False),
    ],
)
def test_records_of_one_transaction_clash_too(site: Site, commands: list[Command], fits: bool) -> None:
    (index,) = site.build(UNIQUE)
    site.write(create(b"s", b"s"))

    def body(transaction: WriteTransaction) -> Steps[None]:
        space = yield from transaction.on(site.it)
        for each in commands:
            yield from space.run(each)

    if fits:
        site.run(site.engine.transact(body, site.now))
    else:
        with pytest.raises(Conflict) as refused:
            site.run(site.engine.transact(body, site.now))
        assert refused.value.detail["index"] == index.number
        assert site.values() == {b"s": b"s"}
    assert site.linked(index) == expected(site.values(), index)


# --- at random -------------------------------------------------------------------------------------------------------

WORDS = [b"u", b"v", b"w", b"x", b"y", b"z"]
KEYS = [b"%d" % n for n in range(8)]


class Model:
    """What a container with a unique index over field 0 holds: key -> (value, the second it is hidden from)."""

    def __init__(self) -> None:
        self.held: dict[bytes, tuple[bytes, int | None]] = {}

    def visible(self, now: int) -> dict[bytes, bytes]:
        return {key: value for key, (value, ends) in self.held.items() if ends is None or ends > now}

    def write(
        self, wanted: Command, value: bytes, life: int | None, index: Index, now: int
    ) -> type[MayflyError] | None:
        there = self.visible(now)
        if wanted.mode is Mode.CREATE and wanted.key in there:
            return Conflict
        if wanted.mode in (Mode.REPLACE, Mode.DELETE) and wanted.key not in there:
            return NotFound
        if wanted.mode is Mode.DELETE:
            del self.held[wanted.key]
            return None
        others = {word for key, held in there.items() if key != wanted.key for word in words(held, index)}
        if not others.isdisjoint(words(value, index)):
            return Conflict
        self.held[wanted.key] = value, None if life is None else now + life
        return None


def any_write(chance: random.Random) -> tuple[Command, bytes, int | None]:
    key, life = chance.choice(KEYS), chance.choice([None, None, 3])
    value = b",".join(chance.sample(WORDS, chance.choice([0, 1, 1, 2]))) + b"|" + chance.choice(WORDS)
    mode = chance.choice([Mode.CREATE, Mode.UPSERT, Mode.REPLACE, Mode.DELETE])
    if mode is Mode.DELETE:
        return delete(key), value, None
    if mode is Mode.REPLACE:
        return replace(key, value), value, None
    return (create if mode is Mode.CREATE else upsert)(key, value, life), value, life


def test_writes_at_random(site: Site, chance: random.Random) -> None:
    """Against a model; the index agrees with what is visible all the time."""
    unique, plain = site.build(UNIQUE, IndexRequest(spec={"field": 1}))
    model = Model()
    for step in range(120):
        if chance.random() < 0.1:
            site.pass_seconds(chance.randrange(4))
        wanted, value, life = any_write(chance)
        error = model.write(wanted, value, life, unique, site.now // SECOND)
        if error is None:
            site.write(wanted)
        else:
            with pytest.raises(error):
                site.write(wanted)
        if step % 20 == 19:
            assert site.values() == model.visible(site.now // SECOND)
            for index in (unique, plain):
                assert site.linked(index) == expected(site.values(), index)
