"""Random transactions of several sessions, compared with a model of snapshot isolation."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeAlias

from pymongo import MongoClient
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.errors import OperationFailure

Things: TypeAlias = Collection[dict[str, Any]]

KEYS = range(5)
CONFLICT, DUPLICATE = 112, 11000


class State:
    """The committed state, and the last change of each key."""

    def __init__(self) -> None:
        self.values: dict[int, int] = {}
        self.changed: dict[int, int] = {}
        self.moment = 0

    def put(self, changes: dict[int, int | None]) -> None:
        self.moment += 1
        for key, value in changes.items():
            self.changed[key] = self.moment
            self.values.pop(key, None)
            if value is not None:
                self.values[key] = value


class Open:
    """A transaction as it should be."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.begun = dict(state.values)
        self.moment = state.moment
        self.own: dict[int, int | None] = {}

    @property
    def values(self) -> dict[int, int]:
        now = {**self.begun, **self.own}
        return {key: value for key, value in now.items() if value is not None}

    def is_lost(self, key: int) -> bool:
        """Whether another transaction has changed a key. A key that was created and removed again counts as unchanged."""
        there = key in self.begun or key in self.state.values
        return there and self.state.changed.get(key, 0) > self.moment


class Player:
    """A session, and the results that its commands should have."""

    def __init__(self, things: Things, session: ClientSession, state: State, chance: random.Random) -> None:
        self.things = things
        self.session = session
        self.state = state
        self.chance = chance
        self.open: Open | None = None
        self.rivals: list[Player] = []
        self.pool = ThreadPoolExecutor(1)
        self.waited = 0

    def play(self) -> None:
        if self.open is None:
            if self.chance.random() < 0.5:
                self.begin()
            else:
                self.write(None)
        elif self.chance.random() < 0.2:
            self.end()
        elif self.chance.random() < 0.5:
            self.read(self.open)
        else:
            self.write(self.open)

    def begin(self) -> None:
        self.session.start_transaction()
        self.open = Open(self.state)
        self.things.find_one({"_id": -1}, session=self.session)

    def end(self) -> None:
        assert self.open is not None
        was, self.open = self.open, None
        if self.chance.random() < 0.3:
            self.session.abort_transaction()
            return
        # What it has written is its own: nobody else has changed that.
        assert code_of(self.session.commit_transaction) is None
        if was.own:
            self.state.put(was.own)

    def read(self, inside: Open) -> None:
        low = self.chance.randrange(100)
        queries: list[tuple[dict[str, Any], Callable[[int, int], bool]]] = [
            ({}, lambda key, value: True),
            ({"_id": low % 5}, lambda key, value: key == low % 5),
            ({"v": {"$gte": low}}, lambda key, value: value >= low),
            ({"$or": [{"v": {"$lt": low}}, {"_id": 1}]}, lambda key, value: value < low or key == 1),
        ]
        query, holds = self.chance.choice(queries)
        found = {each["_id"]: each["v"] for each in self.things.find(query, session=self.session)}
        assert found == {key: value for key, value in inside.values.items() if holds(key, value)}

    def write(self, inside: Open | None) -> None:
        key, value = self.chance.choice(KEYS), self.chance.randrange(100)
        kind = self.chance.choice(["insert", "update", "delete"])
        holder = self.holder(key, kind, value) if inside is None else None
        if holder is None:
            code = self.code(kind, key, value, None if inside is None else self.session)
        else:
            future = self.waiting(lambda: self.code(kind, key, value, None))
            holder.end()
            code = future.result(30)
        seen = self.state.values if inside is None else inside.values
        # An update that changes nothing writes nothing, and so is in nobody's way.
        idle = kind == "update" and seen.get(key) == value
        meets = kind == "insert" or (key in seen and not idle)
        assert code == self.expected(inside, key, kind, meets, key in seen)
        if code is not None:
            if inside is not None:
                self.session.abort_transaction()
                self.open = None
        elif meets:
            change: dict[int, int | None] = {key: None if kind == "delete" else value}
            if inside is None:
                self.state.put(change)
            else:
                inside.own.update(change)

    def code(self, kind: str, key: int, value: int, session: ClientSession | None) -> int | None:
        if kind == "insert":
            return code_of(lambda: self.things.insert_one({"_id": key, "v": value}, session=session))
        if kind == "update":
            return code_of(lambda: self.things.update_one({"_id": key}, {"$set": {"v": value}}, session=session))
        return code_of(lambda: self.things.delete_one({"_id": key}, session=session))

    def holder(self, key: int, kind: str, value: int) -> Player | None:
        """The session for whose lock a plain write waits; None: the write waits for none."""
        for rival in self.rivals:
            if rival.open is None or key not in rival.open.own:
                continue
            seen = self.state.values.get(key)
            if kind == "insert":
                waits = seen is None or rival.open.own[key] is None
            else:
                waits = seen is not None and (kind == "delete" or seen != value)
            return rival if waits else None
        return None

    def waiting(self, write: Callable[[], int | None]) -> Future[int | None]:
        before = self.conflicts()
        future = self.pool.submit(write)
        while self.conflicts() == before:
            assert not future.done(), "it did not wait"
        self.waited += 1
        return future

    def conflicts(self) -> int:
        return int(self.things.database.command("serverStatus")["metrics"]["operation"]["writeConflicts"])

    def expected(self, inside: Open | None, key: int, kind: str, meets: bool, seen: bool) -> int | None:
        if inside is not None and meets:
            if any(rival.open is not None and key in rival.open.own for rival in self.rivals):
                return CONFLICT
            if key not in inside.own and inside.is_lost(key):
                return CONFLICT
        return DUPLICATE if kind == "insert" and seen else None


def code_of(step: Callable[[], Any]) -> int | None:
    try:
        step()
    except OperationFailure as error:
        return error.code
    return None


def test_transactions_at_random(client: MongoClient[dict[str, Any]], things: Things, chance: random.Random) -> None:
    things.delete_many({})
    state = State()
    with client.start_session() as a, client.start_session() as b, client.start_session() as c:
        players = [Player(things, session, state, chance) for session in (a, b, c)]
        for player in players:
            player.rivals = [other for other in players if other is not player]
        for _ in range(1_000):
            chance.choice(players).play()
        for player in players:
            if player.open is not None:
                player.end()
            player.pool.shutdown()
        assert sum(player.waited for player in players)
    assert {each["_id"]: each["v"] for each in things.find()} == state.values
