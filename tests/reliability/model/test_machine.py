"""The world as a hypothesis state machine: fewer steps than the walk, but a failure is shrunk to a few lines."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from mayflydb.model.order import Order
from reliability.model.stores import Direct
from reliability.model.walk import KEYS, OWN, PARTITIONS, TTLS, UNIQUES, VERBS
from reliability.model.world import World
from reliability.oracle import MICROS, Wish
from store_suite.reference import ReferenceStore

EXAMPLES, STEPS = 400, 50
"""20,000 steps."""

numbers = st.sampled_from((0, 1))
whos = st.tuples(st.sampled_from(PARTITIONS), st.sampled_from(KEYS))
spans = st.sampled_from((0, 1, MICROS - 1, MICROS, MICROS + 1, 2 * MICROS, 5 * MICROS))
wishes = st.builds(
    lambda verb, who, own, uniques, match: Wish(verb, who, b"v", own[0], own[1], uniques, match),
    st.sampled_from(VERBS),
    whos,
    st.sampled_from(OWN),
    st.frozensets(st.sampled_from(UNIQUES), max_size=2),
    st.sampled_from((None, None, None, -1, 0)),
)


class Machine(RuleBasedStateMachine):
    """Every rule is one operation of the world, with its arguments drawn."""

    @initialize(sqlite=st.booleans(), limit=st.sampled_from((1, 3, 1000)))
    def begin(self, sqlite: bool, limit: int) -> None:
        self.world = World(Direct() if sqlite else ReferenceStore(), limit)

    def container(self, number: int) -> int:
        return self.world.containers()[number]

    def fit(self, container: int, wish: Wish) -> Wish:
        if container in self.world.unique:
            return wish
        return Wish(wish.verb, wish.who, wish.value, wish.own, wish.valid, match=wish.match)

    @rule(number=numbers, wish=wishes, patch=st.booleans())
    def write(self, number: int, wish: Wish, patch: bool) -> None:
        container = self.container(number)
        self.world.write(container, self.fit(container, wish), patch)

    @rule(number=numbers, batch=st.lists(wishes, min_size=1, max_size=4))
    def write_all(self, number: int, batch: list[Wish]) -> None:
        container = self.container(number)
        self.world.write_all(container, [self.fit(container, wish) for wish in batch])

    @rule(number=numbers, who=whos)
    def get(self, number: int, who: tuple[bytes, bytes]) -> None:
        self.world.get(self.container(number), who)

    @rule(number=numbers, order=st.sampled_from(list(Order)), partition=st.sampled_from((None, *PARTITIONS)))
    def scan(self, number: int, order: Order, partition: bytes | None) -> None:
        self.world.scan(self.container(number), order, partition)

    @rule(number=numbers, ttl=st.sampled_from(TTLS))
    def preview(self, number: int, ttl: int | None) -> None:
        self.world.preview(self.container(number), ttl)
        self.world.forecast(self.container(number), 5)

    @rule(number=numbers, ttl=st.sampled_from(TTLS))
    def set_ttl(self, number: int, ttl: int | None) -> None:
        self.world.set_ttl(self.container(number), ttl)

    @rule(span=spans, lag=spans)
    def advance(self, span: int, lag: int) -> None:
        self.world.advance(span, lag)

    @rule(number=numbers, offset=st.sampled_from((-1, 0, 1)))
    def to_the_next_death(self, number: int, offset: int) -> None:
        box = self.world.boxes[self.container(number)]
        deaths = [
            death for life in box.lives.values() if (death := box.death(life)) is not None and death > self.world.now
        ]
        if deaths:
            self.world.advance(max(0, min(deaths) + offset - self.world.now))

    @precondition(lambda self: hasattr(self, "world") and not self.world.sweeping)
    @rule()
    def pick(self) -> None:
        self.world.pick()

    @precondition(lambda self: hasattr(self, "world") and self.world.sweeping)
    @rule()
    def purge(self) -> None:
        self.world.purge()

    @rule()
    def restart(self) -> None:
        self.world.restart()

    @invariant()
    def nothing_is_lost(self) -> None:
        if hasattr(self, "world"):
            self.world.audit()
            for container in self.world.containers():
                self.world.count(container)


def run_machine(examples: int, **options: Any) -> None:
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            **options,
        ),
    )


def test_twenty_thousand_steps_drawn_by_hypothesis() -> None:
    run_machine(EXAMPLES)
