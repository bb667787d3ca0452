"""The reference of the lifecycle: what random writes, reads, undeletes, purges and changes of rules must leave of a container.

It has no rules, ranges or versions of the engine, only seconds. Each record that leaves a container by its age is noted
as a death.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from mayflydb.expiry.lifecycle import Lifecycle
from mayflydb.expiry.rules import Rule, column_rule, default_rule, index_rule

SLOTS = (20, 21)
KEYS = tuple(b"%02d" % number for number in range(12))
WORDS = (b"ant", b"bee", b"fly")
OWN = (None, None, None, -1, 20, 70, 500)


class Death(NamedTuple):
    """A record that expired: its key, value and deadline."""

    key: bytes
    value: bytes
    deadline: int


@dataclass
class Life:
    """One record. Instants are seconds; `own`: its own ttl; `dates`: by slot."""

    value: bytes
    own: int | None
    anchor: int
    number: int
    dates: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Policy:
    """`default`: seconds, or None; no ttl counts at all unless `has_ttl`. `spans`: of the date rules, by slot."""

    has_ttl: bool
    default: int | None
    spans: Mapping[int, int]
    kind: str
    grace: int
    touch: int

    @classmethod
    def draw(cls, chance: random.Random) -> Policy:
        kind = chance.choice(("ttl", "column", "index", "indexes"))
        spans = {slot: chance.choice((10, 50, 90)) for slot in SLOTS[: {"ttl": 0, "indexes": 2}.get(kind, 1)]}
        grace = chance.choice((0, 40, 1000)) if kind == "ttl" else chance.choice((40, 1000))
        has_ttl = kind == "ttl" or (kind != "column" and chance.random() < 0.5)
        return cls(has_ttl, chance.choice((None, 40, 90)), spans, kind, grace, chance.choice((0, 5, 30)))

    def rules(self) -> tuple[Rule, ...]:
        """The same for an engine. Without a grace only rules that hide are drawn."""
        make = column_rule if self.kind == "column" else index_rule
        ttl = (default_rule(self.default),) if self.has_ttl else ()
        return (*ttl, *(make(span, slot, False) for slot, span in self.spans.items()))

    def lifecycle(self) -> Lifecycle:
        return Lifecycle(grace=self.grace, touch=self.touch)

    def ends(self, life: Life) -> int | None:
        """The first second in which a record is hidden."""
        ends = [life.dates[slot] + span for slot, span in self.spans.items() if slot in life.dates]
        span = self.default if life.own is None else life.own
        if self.has_ttl and span is not None and span != -1:
            ends.append(life.anchor + span)
        return min(ends, default=None)


class Model:
    """A container as it must be. Time is moved from outside: `now`, in seconds."""

    def __init__(self, policy: Policy, now: int) -> None:
        self.policy = policy
        self.now = now
        self.stored: dict[bytes, Life] = {}
        self.deaths: list[Death] = []
        self._numbers = 0

    def is_hidden(self, life: Life) -> bool:
        ends = self.policy.ends(life)
        return ends is not None and ends <= self.now

    def visible(self) -> dict[bytes, Life]:
        return {key: life for key, life in self.stored.items() if not self.is_hidden(life)}

    def hidden(self) -> dict[bytes, Life]:
        return {key: life for key, life in self.stored.items() if self.is_hidden(life)}

    def write(self, key: bytes, value: bytes, own: int | None, dates: dict[int, int]) -> None:
        """A create, or a replacement of a visible record. A hidden one makes way, which is its death."""
        current = self.stored.get(key)
        if current is not None and self.is_hidden(current):
            self._bury(key)
            current = None
        if current is None:
            self._numbers += 1
        number = self._numbers if current is None else current.number
        self.stored[key] = Life(value, own, self.now, number, dict(dates))

    def _bury(self, key: bytes) -> None:
        life = self.stored.pop(key)
        self.deaths.append(Death(key, life.value, self.policy.ends(life) or 0))

    def delete(self, key: bytes) -> None:
        del self.stored[key]

    def read(self, key: bytes) -> bytes | None:
        """What a client finds; its read may prolong the life of the record."""
        life = self.visible().get(key)
        if life is None:
            return None
        old = self.now - self.policy.touch
        sliding = [slot for slot in self.policy.spans if slot in life.dates]
        is_old = (self.policy.has_ttl and life.anchor <= old) or any(life.dates[slot] <= old for slot in sliding)
        if self.policy.touch and is_old:
            life.anchor = self.now
            for slot in sliding:
                life.dates[slot] = max(life.dates[slot], self.now)
        return life.value

    def purge(self) -> int:
        """Remove what may go; the number."""
        gone = [
            key for key, life in self.hidden().items() if (self.policy.ends(life) or 0) + self.policy.grace <= self.now
        ]
        for key in gone:
            self._bury(key)
        return len(gone)

    def undelete(self, keys: set[bytes] | None = None) -> int:
        """Bring hidden records back, all or these; the number."""
        back = [life for key, life in self.hidden().items() if keys is None or key in keys]
        for life in back:
            life.anchor = self.now
            for slot, span in self.policy.spans.items():
                if slot in life.dates and life.dates[slot] + span <= self.now:
                    life.dates[slot] = self.now
        return len(back)

    def draw_write(self, chance: random.Random) -> tuple[bytes, bytes, int | None, dict[int, int]]:
        """The arguments of a write."""
        value = b"|".join((b",".join(chance.sample(WORDS, chance.randrange(3))), b"%d" % chance.randrange(10**6)))
        dates = {slot: self.now + chance.randrange(-60, 90) for slot in self.policy.spans if chance.random() < 0.8}
        return chance.choice(KEYS), value, chance.choice(OWN), dates
