"""A random walk through the world: every choice comes from one seeded generator."""

from __future__ import annotations

import random
from collections.abc import Callable

from mayflydb.model.order import Order
from reliability.model.world import World
from reliability.oracle import MICROS, Verb, Who, Wish

PARTITIONS = (b"\x00", b"p", b"p\x00")
KEYS = (b"a", b"b", b"c")
UNIQUES = (b"x", b"y", b"z")
OWN: tuple[tuple[int | None, bool], ...] = (
    (None, True),
    (None, True),
    (None, True),
    (-1, True),
    (0, False),
    (1, True),
    (2, True),
    (5, True),
    (2**31 - 1, True),
)
"""(own ttl as stored, whether it was valid)."""

TTLS = (None, -1, 1, 2, 3, 10)
VERBS: tuple[Verb, ...] = ("create", "create", "upsert", "upsert", "upsert", "replace", "replace", "delete", "read")
AUDIT_EVERY = 400


class Walk:
    """Moves, each one step, by weight."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.random = random.Random(seed)
        self.deaths = 0
        moves: list[tuple[Callable[[], None], int]] = [
            (self.write, 260),
            (self.batch, 25),
            (self.get, 300),
            (self.scan, 60),
            (self.count, 15),
            (self.preview, 10),
            (self.forecast, 8),
            (self.ttl, 25),
            (self.advance, 110),
            (self.to_a_death, 90),
            (self.sweep, 120),
            (self.restart, 2),
            (self.drop, 1),
        ]
        self._moves = [move for move, _ in moves]
        weights = [weight for _, weight in moves]
        self._weights = [sum(weights[: n + 1]) for n in range(len(weights))]

    def run(self, steps: int) -> None:
        """Go on by that many steps."""
        choices = self.random.choices
        for step in range(1, steps + 1):
            choices(self._moves, cum_weights=self._weights)[0]()
            if step % AUDIT_EVERY == 0:
                self.world.audit()
        self.world.audit()

    def container(self) -> int:
        return self.random.choice(self.world.containers())

    def who(self) -> Who:
        return self.random.choice(PARTITIONS), self.random.choice(KEYS)

    def wish(self, container: int) -> Wish:
        draw = self.random
        who = self.who()
        own, valid = draw.choice(OWN)
        uniques = (
            frozenset(draw.sample(UNIQUES, draw.choice((0, 1, 1, 2))))
            if container in self.world.unique
            else frozenset()
        )
        match = None
        if draw.random() < 0.15:
            life = self.world.boxes[container].lives.get(who)
            match = draw.choice((-1, 0, 0 if life is None else life.lsn, 0 if life is None else life.lsn - 1))
        verb = draw.choice(VERBS)
        to = draw.choice((None, *KEYS)) if verb == "replace" else None
        return Wish(verb, who, b"v%d" % draw.randrange(100), own, valid, uniques, match, to)

    def write(self) -> None:
        container = self.container()
        self.world.write(container, self.wish(container), self.random.random() < 0.3)

    def batch(self) -> None:
        container = self.container()
        self.world.write_all(container, [self.wish(container) for _ in range(self.random.randint(1, 4))])

    def get(self) -> None:
        self.world.get(self.container(), self.who())

    def scan(self) -> None:
        draw, container = self.random, self.container()
        order = draw.choice((Order.CREATED, Order.HASHED, Order.CHANGED))
        partition = draw.choice((None, *PARTITIONS))
        since = draw.choice((0, max(0, self.world.boxes[container].lsn - draw.randrange(20))))
        self.world.scan(container, order, partition, draw.randint(1, 5), since)

    def count(self) -> None:
        self.world.count(self.container())

    def preview(self) -> None:
        self.world.preview(self.container(), self.random.choice(TTLS))

    def forecast(self) -> None:
        self.world.forecast(self.container(), self.random.randint(1, 8))

    def ttl(self) -> None:
        self.world.set_ttl(self.container(), self.random.choice(TTLS))

    def _lag(self) -> int:
        return 0 if self.random.random() < 0.7 else self.random.randrange(10 * MICROS)

    def advance(self) -> None:
        draw = self.random
        span = draw.choice((1, draw.randrange(MICROS), draw.randrange(4 * MICROS), MICROS))
        self.world.advance(span, self._lag())

    def to_a_death(self) -> None:
        """One microsecond before somebody's deadline, exactly there, or one after it; nobody's is looked at there and then."""
        world, box = self.world, self.world.boxes[self.container()]
        if not box.lives:
            return
        life = self.random.choice(list(box.lives.values()))
        death = box.death(life)
        if death is None or not 0 < death - world.now < 3600 * MICROS:
            return
        world.advance(max(0, death + self.random.choice((-1, 0, 1)) - world.now), self._lag())

    def sweep(self) -> None:
        """Pick, or run what was picked some steps ago."""
        if self.world.sweeping:
            self.world.purge()
        else:
            self.world.pick()

    def restart(self) -> None:
        self.world.restart()

    def drop(self) -> None:
        self.world.drop(self.container())
