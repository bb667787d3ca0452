"""Single records over three nodes are linearizable, and the judge of that sees a stale read."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import count
from math import inf
from time import monotonic
from unittest.mock import patch

import pytest

import planted
from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.model.errors import PreconditionFailed
from mayflydb.model.record import Record
from nodes.crew import Member, container, crew, since, together
from nodes.linear import Op, linearizable
from stores import Databases

NODES, CLIENTS, OPERATIONS, REGISTERS = 3, 9, 120, 4
PARTITION = b"p"


class Registers:
    """Clients that read, set and swap a few registers through any node, and note when they asked and were answered."""

    def __init__(self, members: list[Member], id: int, seed: int) -> None:
        self.members = members
        self.id = id
        self.random = random.Random(seed)
        self.moments = count(1)
        self.history: dict[bytes, list[Op]] = defaultdict(list)
        self.last: dict[bytes, Record] = {}
        self.tally: Counter[str] = Counter()

    async def client(self, operations: int) -> None:
        for _ in range(operations):
            key = b"r%d" % self.random.randrange(REGISTERS)
            member = self.random.choice(self.members)
            sent = next(self.moments)
            chance = self.random.random()
            if chance < 0.4:
                op = await self._read(member, key, sent)
            elif chance < 0.7 or key not in self.last:
                self.last[key] = await self._write(member, self._command(Mode.UPSERT, key, sent))
                op = Op(sent, next(self.moments), "write", b"%d" % sent)
            else:
                op = await self._swap(member, key, sent)
            self.history[key].append(op)
            self.tally[op.verb] += 1

    def _command(self, mode: Mode, key: bytes, sent: int, match: int | None = None) -> Command:
        return Command(mode, PARTITION, key, Draft(b"%d" % sent), match)

    async def _write(self, member: Member, command: Command) -> Record:
        return (await member.engine.write(self.id, command, await member.engine.now())).record

    async def _read(self, member: Member, key: bytes, sent: int) -> Op:
        record = await member.get(self.id, PARTITION, key)
        if record is not None:
            self.last[key] = record
        return Op(sent, next(self.moments), "read", None if record is None else record.value)

    async def _swap(self, member: Member, key: bytes, sent: int) -> Op:
        expected = self.last[key]
        try:
            self.last[key] = await self._write(member, self._command(Mode.REPLACE, key, sent, expected.lsn))
        except PreconditionFailed:
            return Op(sent, next(self.moments), "miss", None, expected.value)
        return Op(sent, next(self.moments), "swap", b"%d" % sent, expected.value)

    def refuted(self) -> list[bytes]:
        """The registers whose answers no order explains."""
        return [key for key, history in self.history.items() if not linearizable(history)]


async def used(url: str, seed: int, stale: bool = False) -> Registers:
    async with crew(url, NODES) as members:
        registers = Registers(members, await container(members[0]), seed)
        with patch.object(members[-1], "get", cached(members[-1]) if stale else members[-1].get):
            await together(*(registers.client(OPERATIONS) for _ in range(CLIENTS)))
    return registers


def cached(member: Member) -> Callable[[int, bytes, bytes], object]:
    """Reads of a node that keeps each record it has read for the next two who ask."""
    kept: dict[bytes, tuple[Record | None, int]] = {}
    get = member.get

    async def read(id: int, partition: bytes, key: bytes) -> Record | None:
        record, uses = kept.get(key, (None, 0))
        if not uses:
            record, uses = await get(id, partition, key), 3
        kept[key] = record, uses - 1
        return record

    return read


def test_registers_are_linearizable(seed: int, databases: Databases, figure: Callable[[str], None]) -> None:
    began = monotonic()
    registers = asyncio.run(used(databases.fresh(), seed))
    took = since(began)
    assert registers.refuted() == []
    assert registers.tally.keys() == {"read", "write", "swap", "miss"}
    figure(
        f"{registers.tally.total()} operations in {took:.1f} s, judged in {since(began) - took:.1f} s, {registers.tally}"
    )


def test_a_node_that_reads_from_a_cache_is_caught(databases: Databases) -> None:
    """Nodes meet as they happen to, so that a run may pass without a stale read that tells."""

    def check(seed: int) -> None:
        assert asyncio.run(used(databases.fresh(), seed, stale=True)).refuted() == []

    assert planted.found(check, range(5))


A, B = b"a", b"b"


@pytest.mark.parametrize(
    ("history", "verdict"),
    [
        ([Op(1, 2, "write", A), Op(3, 4, "read", A)], True),
        ([Op(1, 2, "write", A), Op(3, 4, "read", None)], False),
        ([Op(1, 4, "write", A), Op(2, 3, "read", None)], True),
        ([Op(1, 6, "write", A), Op(2, 3, "read", A), Op(4, 5, "read", None)], False),
        ([Op(1, 2, "write", A), Op(3, 8, "write", B), Op(4, 5, "read", A), Op(6, 7, "read", B)], True),
        ([Op(1, 2, "write", A), Op(3, 8, "write", B), Op(4, 5, "read", B), Op(6, 7, "read", A)], False),
        ([Op(1, 2, "write", A), Op(3, 6, "swap", B, A), Op(4, 5, "read", A), Op(7, 8, "read", B)], True),
        ([Op(1, 2, "write", A), Op(3, 6, "swap", B, A), Op(4, 5, "swap", b"c", A)], False),
        ([Op(1, 2, "write", A), Op(3, 4, "miss", None, A)], False),
        ([Op(1, 2, "write", A), Op(3, 5, "write", B), Op(4, 6, "miss", None, A), Op(7, 8, "read", B)], True),
        # A write that was not answered happened, late, or never did; once seen it has happened.
        ([Op(1, inf, "write", A), Op(2, 3, "read", None), Op(4, 5, "read", A)], True),
        ([Op(1, inf, "write", A), Op(2, 3, "read", None), Op(4, 5, "read", None)], True),
        ([Op(1, inf, "write", A), Op(2, 3, "read", A), Op(4, 5, "read", None)], False),
        ([Op(3, inf, "write", A), Op(1, 2, "read", A)], False),
        ([Op(1, 2, "write", A), Op(3, inf, "write", B), Op(4, 5, "miss", None, A), Op(6, 7, "read", A)], False),
    ],
)
def test_the_judge(history: list[Op], verdict: bool) -> None:
    assert linearizable(history) is verdict
