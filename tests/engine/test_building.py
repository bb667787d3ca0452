"""Indexes that are awaited: all of those that are defined together or none, whatever is written meanwhile."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from engine.site import Site, create, expected, keys_of, upsert, words
from engine.test_unique import KEYS, WORDS
from mayflydb.engine import building
from mayflydb.engine.building import IndexRequest
from mayflydb.engine.catalog import Index, Node
from mayflydb.model.errors import Conflict, MayflyError, OwnerNotFound, Unavailable
from mayflydb.model.order import Position
from mayflydb.model.record import Record
from mayflydb.store.interface import Expiries

FIRST, UNIQUE = IndexRequest(spec={"field": 0}), IndexRequest(unique=True, spec={"field": 0})
OTHER = IndexRequest(spec={"field": 1})


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build takes several steps."""
    monkeypatch.setattr(building, "BATCH_SIZE", 2)


def fill(site: Site, *values: bytes) -> None:
    for n, value in enumerate(values):
        site.write(create(b"%d" % n, value))


def standing(site: Site) -> tuple[Index, ...]:
    return site.node().definition.indexes


@pytest.mark.parametrize("values", [(), (b"a,b|m",), (b"a|m", b"b|m", b"", b"c,d|n", b"e|m,n")])
def test_what_was_there_is_linked(site: Site, values: tuple[bytes, ...]) -> None:
    fill(site, *values)
    built = site.build(UNIQUE, OTHER)
    assert standing(site) == built
    assert [index.state for index in built] == ["ready", "ready"]
    for index in built:
        assert site.linked(index) == expected(site.values(), index)


@pytest.mark.parametrize("values", [(b"a", b"b", b"c", b"d", b"a"), (b"a", b"a"), (b"b,a", b"c", b"d,a")])
def test_duplicates_leave_nothing(site: Site, values: tuple[bytes, ...]) -> None:
    """None of the indexes that were defined together; and the others as they were."""
    fill(site, *values)
    (old,) = site.build(OTHER)
    with pytest.raises(Conflict) as refused:
        site.build(FIRST, UNIQUE)
    assert refused.value.detail["index"] == old.number + 2
    assert refused.value.detail["key"] == b"a" + bytes(8)
    holder = refused.value.detail["holder"]
    assert isinstance(holder, Record)
    assert b"a" in holder.value
    site.settle()
    assert standing(site) == (old,)
    assert site.entries(old.number + 1) == site.entries(old.number + 2) == ()
    site.write(create(b"9", b"a"))


def test_who_is_hidden_does_not_count(site: Site) -> None:
    fill(site, b"b", b"c")
    site.write(create(b"h", b"a,b", life=5))
    site.write(create(b"i", b"z", life=5))
    site.pass_seconds(6)
    fill_more = create(b"n", b"a")
    site.write(fill_more)
    (index,) = site.build(UNIQUE)
    assert site.linked(index) == {b"a": [b"n"], b"b": [b"0"], b"c": [b"1"]}
    events = site.run(site.engine.store.read(Expiries(site.it, 0, 9)))
    assert [event.key for event in events] == [b"h"]


def test_numbers_are_never_used_again(site: Site) -> None:
    fill(site, b"a")
    numbers = []
    for _ in range(3):
        built = site.build(FIRST, OTHER)
        numbers += [index.number for index in built]
        site.drop(numbers[-2:])
        assert standing(site) == ()
        assert site.entries(numbers[-1]) == site.entries(numbers[-2]) == ()
    assert len(set(numbers)) == 6


def test_the_choice_is_made_in_the_transaction(site: Site) -> None:
    fill(site, b"a")

    def choose(node: Node) -> list[IndexRequest]:
        taken = [index.spec for index in node.definition.indexes]
        if len(taken) == 2:
            raise Conflict("too many")
        return [wanted for wanted in (FIRST, OTHER)[: len(taken) + 1] if wanted.spec not in taken]

    build = site.engine.indexes.define_and_build
    first = site.run(build(site.it, choose, keys_of))
    second = site.run(build(site.it, choose, keys_of))
    assert (*first, *second) == standing(site)
    with pytest.raises(Conflict, match="too many"):
        site.run(build(site.it, choose, keys_of))
    with pytest.raises(OwnerNotFound):
        site.run(build(site.it + 99, choose, keys_of))


def test_keys_that_cannot_be_made_end_a_build(site: Site) -> None:
    fill(site, b"a", b"b", b"bad", b"c")

    def picky(record: Record, index: Index) -> tuple[bytes, ...]:
        if record.value == b"bad":
            raise Conflict("cannot be indexed")
        return words(record.value, index)

    with pytest.raises(Conflict, match="cannot be indexed"):
        site.run(site.engine.indexes.define_and_build(site.it, lambda _: [FIRST], picky))
    site.settle()
    assert standing(site) == ()


def test_a_build_that_is_not_waited_for_goes_on(site: Site) -> None:
    fill(site, b"a", b"b", b"c", b"d")

    async def leave() -> None:
        waiting = asyncio.ensure_future(site.engine.indexes.define_and_build(site.it, lambda _: [FIRST], keys_of))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])

    site.run(leave())
    site.settle()
    assert [index.state for index in standing(site)] == ["ready"]


def test_what_a_stop_left_is_removed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody was answered: an index that is not ready after a start goes, one that is being built stays."""
    fill(site, b"a", b"b", b"c")
    (ready,) = site.build(OTHER)
    indexes = site.engine.indexes

    async def stopped() -> None:
        build = building.Build(site.engine.store, site.engine.nodes, site.it, keys_of)
        await build.define(lambda _: [FIRST])
        await build.step(None, site.now)

    site.run(stopped())
    monkeypatch.setattr(indexes, "_lease", _refuses)
    site.run(indexes.remove_abandoned(site.it))
    assert len(standing(site)) == 2
    monkeypatch.setattr(indexes, "_lease", None)
    assert site.entries(ready.number + 1)
    site.run(indexes.remove_abandoned(site.it))
    site.settle()
    assert standing(site) == (ready,)
    assert site.entries(ready.number + 1) == ()


async def _refuses(name: str, span: int) -> bool:
    return False


def test_a_build_that_another_node_ends(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(site, b"a", b"b", b"c")
    monkeypatch.setattr(site.engine.indexes, "_lease", _refuses)
    with pytest.raises(Unavailable):
        site.build(FIRST)
    site.settle()
    assert standing(site) == ()


@pytest.mark.parametrize("distinct", [True, False])
def test_writes_and_a_build_side_by_side(site: Site, chance: random.Random, distinct: bool) -> None:
    """Ready, and then unique in truth and complete; or refused, and then nothing is left, for there were two alike."""
    alike: Counter[bytes] = Counter()

    def value() -> bytes:
        word = b"%d" % len(alike) if distinct else chance.choice([*WORDS, *KEYS, b"p", b"q", b"r"])
        alike[word] += 1
        return word + b"|" + chance.choice(WORDS)

    async def write() -> None:
        for _ in range(6):
            wanted = upsert(b"%d" % chance.randrange(12), value(), chance.choice([None, None, 2]))
            try:
                await site.engine.write(site.it, wanted, site.now)
            except Conflict:
                assert not distinct

    async def together() -> tuple[Index, ...] | MayflyError:
        build = site.engine.indexes.define_and_build(site.it, lambda _: [UNIQUE, OTHER], keys_of)
        built, *_ = await asyncio.gather(build, write(), write(), write(), return_exceptions=True)
        assert isinstance(built, tuple | Conflict), built
        return built

    for n in range(8):
        site.write(create(b"%d" % n, value(), chance.choice([None, 2])))
    site.pass_seconds(chance.choice([0, 3]))
    built = site.run(together())
    if isinstance(built, tuple):
        for index in built:
            assert site.linked(index) == expected(site.values(), index)
        assert all(len(keys) == 1 for keys in site.linked(built[0]).values())
    else:
        assert max(alike.values()) > 1
        site.settle()
        assert standing(site) == ()
    site.pass_seconds(3)
    for index in standing(site):
        assert site.linked(index) == expected(site.values(), index)


def test_a_stretch_behind_the_last_is_none(site: Site) -> None:
    fill(site, b"a")
    build = building.Build(site.engine.store, site.engine.nodes, site.it, keys_of)
    site.run(build.define(lambda _: [FIRST]))
    assert site.run(build.step(Position(b"", 1 << 40), site.now)) is None


@pytest.mark.parametrize("values", [(b"a", b"b", b"c,d", b"e"), (b"a,b",)])
def test_an_index_says_that_a_record_has_several_entries(site: Site, values: tuple[bytes, ...]) -> None:
    """Whether it was there before the index, or came later; once said, it stays so."""
    fill(site, *values)
    (built,) = site.build(FIRST)
    assert built.several
    (fresh,) = site.build(OTHER)
    assert not fresh.several
    site.write(upsert(b"9", b"x|y"))
    assert not standing(site)[1].several
    site.write(upsert(b"9", b"x|y,z"))
    assert standing(site)[1].several
