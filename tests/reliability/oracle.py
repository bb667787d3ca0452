"""What must be true, in dicts and integers: what was acknowledged, when it is due, and who died of what.

Independent of `mayflydb.expiry`: the arithmetic of life and death is written here a second time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

MICROS = 1_000_000

Verb = Literal["create", "upsert", "replace", "delete", "read"]
Who: TypeAlias = tuple[bytes, bytes]
"""(partition, key)."""

OFF = None
"""A container whose ttl is off; else its default in seconds, or -1 for on without a default."""


@dataclass(slots=True, frozen=True)
class Life:
    """One acknowledged version of a record. `own`: its ttl as stored (None absent, -1 never, 0 not valid)."""

    who: Who
    value: bytes
    written: int
    own: int | None
    uniques: frozenset[bytes]
    lsn: int
    seq: int

    @property
    def anchor(self) -> int:
        return self.written // MICROS * MICROS

    @property
    def has_own(self) -> bool:
        return self.own is not None and self.own > 0


def death_of(life: Life, ttl: int | None) -> int | None:
    """The first microsecond in which it is dead under a container's ttl; None: it never dies."""
    if ttl is None or life.own == -1:
        return None
    seconds = ttl
    if life.own is not None and life.own > 0:
        seconds = life.own
    if seconds == -1:
        return None
    return life.anchor + seconds * MICROS


@dataclass(slots=True, frozen=True)
class Death:
    """What an expiry event must say."""

    who: Who
    version: int
    own: int | None
    cause: str
    rule_version: int
    deadline: int
    purged: int
    how: str


@dataclass(slots=True, frozen=True)
class Wish:
    """One write as a client means it. `match`: the version it demands, or -1 for any. `valid`: its own ttl is.

    `to`: the key that a replace gives its record; None: the one it has.
    """

    verb: Verb
    who: Who
    value: bytes = b""
    own: int | None = None
    valid: bool = True
    uniques: frozenset[bytes] = frozenset()
    match: int | None = None
    to: bytes | None = None

    @property
    def after(self) -> Who:
        """Who it is about once it is done."""
        return self.who if self.to is None else (self.who[0], self.to)


@dataclass(slots=True, frozen=True)
class Verdict:
    """What must come of a wish: a refusal by kind, or the old life it met (None: it makes a new one) and whom it buries."""

    refusal: str | None
    seen: Life | None = None
    buried: tuple[Life, ...] = ()


@dataclass(slots=True)
class Box:
    """A container: its ttl, the version of its rule, and everything that is stored, dead or alive."""

    ttl: int | None
    lives: dict[Who, Life] = field(default_factory=dict)
    version: int = 1
    rule_version: int = 0
    lsn: int = 0
    seq: int = 0

    def death(self, life: Life) -> int | None:
        return death_of(life, self.ttl)

    def dead(self, life: Life, now: int) -> bool:
        death = death_of(life, self.ttl)
        return death is not None and now >= death

    def alive(self, now: int) -> list[Life]:
        return [life for life in self.lives.values() if not self.dead(life, now)]

    def seen(self, who: Who, now: int) -> Life | None:
        life = self.lives.get(who)
        return None if life is None or self.dead(life, now) else life

    def set_ttl(self, ttl: int | None) -> None:
        """Another ttl, in force at once; a rule that did not change keeps its version."""
        self.version += 1
        if ttl != self.ttl:
            self.rule_version = self.version
        self.ttl = ttl

    def judge(self, wish: Wish, now: int) -> Verdict:
        """What must come of a write at `now`; changes nothing."""
        old = self.lives.get(wish.who)
        seen = self.seen(wish.who, now)
        if seen is None and wish.verb in ("replace", "delete", "read"):
            return Verdict("NotFound")
        if seen is not None and wish.verb == "create":
            return Verdict("Conflict")
        if seen is not None and wish.match not in (None, -1, seen.lsn):
            return Verdict("PreconditionFailed")
        if wish.verb in ("delete", "read"):
            return Verdict(None, seen)
        if not wish.valid and self.ttl is not OFF:
            return Verdict("BadRequest")
        buried: list[Life] = []
        if wish.uniques:
            holders = [life for life in self.lives.values() if life is not seen and life.uniques & wish.uniques]
            if any(not self.dead(life, now) for life in holders):
                return Verdict("Conflict")
            buried = sorted(holders, key=lambda life: life.seq)
        if wish.after != wish.who:
            old = self.lives.get(wish.after)
            if old is not None and not self.dead(old, now):
                return Verdict("Conflict")
        if (seen is None or wish.after != wish.who) and old is not None and old not in buried:
            buried.append(old)
        return Verdict(None, seen, tuple(buried))

    def obituary(self, life: Life, purged: int, how: str) -> Death:
        """The event that a death must have left."""
        deadline = self.death(life)
        assert deadline is not None, f"{life} cannot die"
        cause = "item" if life.has_own else "default"
        return Death(life.who, life.lsn, life.own, cause, self.rule_version, deadline, purged, how)

    def apply(self, wish: Wish, verdict: Verdict, now: int, lsn: int, seq: int) -> Life | None:
        """An accepted write has happened; the life it leaves, None for a deletion."""
        for life in verdict.buried:
            del self.lives[life.who]
        if wish.verb == "delete":
            del self.lives[wish.who]
            return None
        self.lives.pop(wish.who, None)
        life = Life(wish.after, wish.value, now, wish.own, wish.uniques, lsn, seq)
        self.lives[wish.after] = life
        return life

    def doomed(self, horizon: int, limit: int) -> list[Life]:
        """Whom one sweep of `limit` records must remove, in order: first those without an own ttl, then the others."""
        groups = ([], []) if self.ttl is None else self._due_groups(horizon)
        ready = [group for group in groups if group]
        share = max(1, limit // max(1, len(ready)))
        return [life for group in ready for life in group[:share]]

    def _due_groups(self, horizon: int) -> tuple[list[Life], list[Life]]:
        due = [(death, life.seq, life) for life in self.lives.values() if (death := self.death(life)) is not None]
        due = sorted(entry for entry in due if entry[0] <= horizon)
        return [life for _, _, life in due if not life.has_own], [life for _, _, life in due if life.has_own]

    def due(self, horizon: int) -> int:
        """How many stored lives are over at `horizon`."""
        return sum(self.dead(life, horizon) for life in self.lives.values())

    def copy(self) -> Box:
        return Box(self.ttl, dict(self.lives), self.version, self.rule_version, self.lsn, self.seq)


def in_order(lives: Iterable[Life], order: str) -> list[Life]:
    """As a scan must return them: by creation, by hash and creation, or by last change."""
    if order == "created":
        return sorted(lives, key=lambda life: life.seq)
    if order == "hashed":
        # Eight bytes of the partition are its hash; behind them creation decides.
        return sorted(lives, key=lambda life: (life.who[0][:8].ljust(8, b"\0"), life.seq))
    return sorted(lives, key=lambda life: life.lsn)
