"""Random histories of expiry, undelete, sliding reads and purges, beside a reference that knows seconds alone, on every store.

After each step a client's reads, an index, and everything that is stored are as the reference has them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import msgspec
import pytest

from engine.lives import KEYS, Model, Policy
from engine.site import Site, delete, draft, expected, partition_of
from mayflydb.engine.building import IndexRequest
from mayflydb.engine.catalog import Definition, Index
from mayflydb.engine.commands import Command, Mode
from mayflydb.engine.open import open_engine
from mayflydb.expiry.sweep import PurgeRequest
from mayflydb.expiry.undelete import Undelete
from mayflydb.model.instant import SECOND
from mayflydb.model.order import Order
from mayflydb.model.record import Record
from mayflydb.store.interface import Expiries, Scan

STEPS = 45
HISTORIES = 3


class Played:
    """One history. Its seed repeats it."""

    def __init__(self, site: Site, seed: int) -> None:
        self.site = site
        self.chance = random.Random(seed)
        self.policy = Policy.draw(self.chance)
        self.model = Model(self.policy, site.now // SECOND)
        definition = Definition({}, site.now, rules=self.policy.rules(), lifecycle=self.policy.lifecycle())
        site.it = site.run(site.engine.definitions.create(site.home, f"lives {seed}", definition)).id
        self.index: Index = site.build(IndexRequest(spec={"field": 0}))[0]
        self.first_event = site.run(site.engine.last_expiry())
        self.undeleted = 0
        site.engine.undeletes._batch = 3

    def play(self) -> None:
        """Take all steps, then let everything expire, come back, expire again and go."""
        steps = (
            *[self._write] * 8,
            *[self._pass] * 4,
            *[self._read] * 3,
            *[self._purge, self._delete, self._undelete, self._undelete_one, self._set_default, self._restart] * 1,
        )
        for _ in range(STEPS):
            self.chance.choice(steps)()
            self.check()
        self._undelete()
        self.check()
        self._end()

    def _write(self) -> None:
        key, value, own, dates = self.model.draw_write(self.chance)
        dated = tuple((slot, date * SECOND) for slot, date in sorted(dates.items()))
        new = msgspec.structs.replace(draft(key, value, own), dates=dated)
        self.site.write(Command(Mode.UPSERT, partition_of(key), key, new))
        self.model.write(key, value, own, dates)

    def _pass(self) -> None:
        seconds = self.chance.choice((1, 1, 5, 20, 60))
        self.site.pass_seconds(seconds)
        self.model.now += seconds

    def _read(self) -> None:
        key = self.chance.choice(KEYS)

        async def read() -> Record | None:
            engine = self.site.engine
            node = await engine.node_by_id(self.site.it)
            assert node is not None
            found = await engine.get(node, partition_of(key), key, await engine.now())
            await engine.accesses.flush()
            return found

        found = self.site.run(read())
        assert (None if found is None else found.value) == self.model.read(key), key

    def _purge(self) -> None:
        now = self.site.now
        request = PurgeRequest(now, now, "run now", frozenset((self.site.it,)), override="all")
        assert self.site.run(self.site.engine.reaper.sweep_due(request)).total() == self.model.purge()

    def _delete(self) -> None:
        if there := sorted(self.model.visible()):
            key = self.chance.choice(there)
            self.site.write(delete(key))
            self.model.delete(key)

    def _undelete(self) -> None:
        async def work() -> int:
            await self.site.engine.undeletes.begin(self.site.it, Undelete(self.site.now))
            await self.site.engine.undeletes.wait(self.site.it, None)
            found = self.site.engine.undeletes.progress(self.site.it)
            assert found is not None and found.is_done
            return found.undeleted

        number = self.model.undelete()
        assert self.site.run(work()) == number
        self.undeleted += number

    def _undelete_one(self) -> None:
        if hidden := sorted(self.model.hidden()):
            key = self.chance.choice(hidden)
            one = self.site.engine.undeletes.undelete_record(self.site.it, (partition_of(key), key), None)
            self.site.run(one)
            self.undeleted += self.model.undelete({key})

    def _set_default(self) -> None:
        """A shorter default expires at once, a longer one shows again what is still stored."""
        self.policy = self.model.policy = replace(self.policy, default=self.chance.choice((None, 10, 40, 300)))
        rules = self.policy.rules()
        change = self.site.engine.definitions.replace(
            self.site.it, lambda node: msgspec.structs.replace(node.definition, rules=rules), self.site.now
        )
        self.site.run(change)

    def _restart(self) -> None:
        """Another engine opens the same store."""
        before = self.site.engine
        before.evaluators.close()
        self.site.run(before.indexes.close())
        self.site.engine = self.site.run(open_engine(before.store, self.site.clock))
        self.site.engine.undeletes._batch = 3

    # --- what must hold ------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """What clients see, what an index answers, and what is stored."""
        # As each request does: a later instant than the latest would be a read of the future.
        assert self.site.run(self.site.engine.now()) == self.site.now
        visible = {key: life.value for key, life in self.model.visible().items()}
        assert self.site.values() == visible, self.policy
        linked = self.site.linked(self.index)
        assert linked == expected(visible, self.index), self.policy
        # Reads by an index prolong lives, too.
        self.site.run(self.site.engine.accesses.flush())
        for key in {key for keys in linked.values() for key in keys}:
            self.model.read(key)
        ordered = sorted(self.model.stored.items(), key=lambda each: each[1].number)
        found = self.site.run(self.site.engine.store.read(Scan(self.site.it, b"", None, Order.CREATED, None, 100)))
        assert [(record.key, record.value) for record in found] == [(key, life.value) for key, life in ordered]
        ends = [ends for life in self.model.stored.values() if (ends := self.policy.ends(life)) is not None]
        first = self.site.run(self.site.engine.next_deadline(self.site.it))
        assert first == (min(ends) * SECOND if ends else None), (
            f"{self.policy} {self.model.now}: {self.model.stored} {found}"
        )

    def _end(self) -> None:
        """Everything expires, comes back as it was, expires again and goes: each record has died once, with one event."""
        before = self.model.visible()
        assert before.keys() == self.model.stored.keys()
        for _ in range(2):
            self._expire_all()
            if self.policy.grace == 1000:
                self._undelete()
                self.check()
                assert self.model.visible().keys() == before.keys()
        self._expire_all()
        self.site.pass_seconds(2000)
        self.model.now += 2000
        self._purge()
        self.check()
        self._check_events()

    def _expire_all(self) -> None:
        """Time goes on until the last record that expires has expired; no grace has ended by then where it is long."""
        ends = [ends for life in self.model.stored.values() if (ends := self.policy.ends(life)) is not None]
        span = max(0, max(ends, default=0) - self.model.now)
        self.site.pass_seconds(span)
        self.model.now += span
        self.check()

    def _check_events(self) -> None:
        events = self.site.run(self.site.engine.store.read(Expiries(self.site.it, self.first_event, 1000)))
        told = [(event.key, event.deadline // SECOND) for event in events]
        assert sorted(told) == sorted((death.key, death.deadline) for death in self.model.deaths)
        versions = [event.version for event in events]
        assert len(set(versions)) == len(versions)


@pytest.mark.parametrize("number", range(HISTORIES))
def test_random_lives(site: Site, seed: int, number: int) -> None:
    print(f"history {seed}")
    Played(site, seed).play()


@pytest.mark.soak
def test_random_lives_for_hours(site: Site, seed: int, soaking: Callable[[float], Iterator[int]]) -> None:
    for number in soaking(0.01):
        print(f"history {seed + number}")
        Played(site, seed + number).play()
