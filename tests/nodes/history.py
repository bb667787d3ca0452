"""What many clients were answered, and whether one order of events, that of the lsns, explains all of it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import count, pairwise
from math import inf
from typing import Literal, TypeAlias

from mayflydb.model.record import Record

Verb = Literal["create", "upsert", "replace", "delete", "read"]
Place: TypeAlias = tuple[int, bytes]
"""A container and a key."""


@dataclass
class Op:
    """One operation and its answer. `unique`: the value it holds alone. `refusal`: the name of the error it was answered with."""

    verb: Verb
    place: Place
    sent: int
    unique: bytes | None = None
    match: int | None = None
    told: int = 0
    record: Record | None = None
    created: bool = False
    refusal: str | None = None


@dataclass
class Version:
    """A state that a record was in, from a write to the next one or to a deletion (None: it still is)."""

    by: Op
    record: Record
    end: Op | None = None

    def surely_during(self, op: Op) -> bool:
        """It was there before the operation began and after it was answered."""
        return self.by.told < op.sent and (self.end is None or self.end.sent > op.told)

    def maybe_during(self, op: Op) -> bool:
        """It may have been there at some moment of the operation."""
        return self.by.sent < op.told and (self.end is None or self.end.told > op.sent)


@dataclass
class History:
    """Operations in the order of their beginnings, with the checks that can be made at once."""

    ops: list[Op] = field(default_factory=list)
    highest: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    newest: dict[Place, int] = field(default_factory=lambda: defaultdict(int))
    deleted: set[tuple[int, int]] = field(default_factory=set)
    _moments: count[int] = field(default_factory=lambda: count(1))

    def moment(self) -> int:
        """Later than all before."""
        return next(self._moments)

    def floor(self, op: Op) -> tuple[int, int, bool]:
        """What the answer must not fall behind: the container's lsn, the record's, and whether that version is gone."""
        newest = self.newest[op.place]
        return self.highest[op.place[0]], newest, (op.place[0], newest) in self.deleted

    def answered(self, op: Op, floor: tuple[int, int, bool]) -> None:
        """The answer has come. What was acknowledged before the question is seen, or something later."""
        op.told = self.moment()
        self.ops.append(op)
        if op.record is None:
            return
        container, lsn = op.place[0], op.record.lsn
        highest, newest, gone = floor
        assert lsn > newest or (lsn == newest and not gone), f"{op} goes back behind lsn {newest}, deleted: {gone}"
        if op.verb == "delete":
            self.deleted.add((container, lsn))
        elif op.verb != "read":
            assert lsn > highest, f"{op} was asked for when lsn {highest} had been committed"
            self.highest[container] = max(self.highest[container], lsn)
        if op.verb != "read":
            self.newest[op.place] = max(self.newest[op.place], lsn)

    # --- at the end ----------------------------------------------------------------------------------------------------

    def check(self) -> dict[Place, Record]:
        """One order explains everything; what must be there now."""
        versions = self._versions()
        for op in self.ops:
            self._explain(op, versions)
        self._check_uniques(versions)
        return {place: chain[-1].record for place, chain in versions.items() if chain[-1].end is None}

    def _versions(self) -> dict[Place, list[Version]]:
        """Each record's states, by lsn."""
        found: dict[Place, list[Version]] = defaultdict(list)
        numbers: set[tuple[int, int]] = set()
        for op in self.ops:
            if op.record is not None and op.verb not in ("read", "delete"):
                number = op.place[0], op.record.lsn
                assert number not in numbers, f"{op}: another write has this lsn"
                numbers.add(number)
                found[op.place].append(Version(op, op.record))
        for chain in found.values():
            chain.sort(key=lambda version: version.record.lsn)
            self._link(chain)
        return found

    def _link(self, chain: list[Version]) -> None:
        deletions = {
            op.record.lsn: op
            for op in self.ops
            if op.verb == "delete" and op.record is not None and op.place == chain[0].by.place
        }
        successful = sum(
            op.verb == "delete" and op.record is not None and op.place == chain[0].by.place for op in self.ops
        )
        assert successful == len(deletions), f"a version of {chain[0].by.place} was deleted twice"
        assert deletions.keys() <= {version.record.lsn for version in chain}, f"{deletions} of nothing that was written"
        for version in chain:
            version.end = deletions.get(version.record.lsn)
        assert chain[0].by.created, f"{chain[0].by} changed what was never made"
        for before, version in pairwise(chain):
            op = version.by
            assert op.created == (before.end is not None), f"{op} after {before}"
            if not op.created:
                before.end = op
                assert version.record.seq == before.record.seq, f"{op} moved the record"
                assert op.match in (None, before.record.lsn), f"{op} replaced {before.record}"

    def _explain(self, op: Op, versions: dict[Place, list[Version]]) -> None:
        chain = versions.get(op.place, [])
        if op.verb == "read" and op.record is not None:
            assert any(version.record == op.record and version.maybe_during(op) for version in chain), f"{op}: {chain}"
        elif op.refusal == "NotFound" or (op.verb == "read" and op.record is None):
            assert not _present(chain, op), f"{op} missed {chain}"
        elif op.refusal == "PreconditionFailed":
            current = [version for version in chain if version.surely_during(op)]
            assert not current or current[0].record.lsn != op.match, f"{op} was refused by the version it named"
        elif op.refusal == "Conflict":
            taken = op.verb == "create" and any(version.maybe_during(op) for version in chain)
            assert taken or self._held(op, versions), f"{op} conflicts with nothing"

    def _held(self, op: Op, versions: dict[Place, list[Version]]) -> bool:
        return op.unique is not None and any(
            version.by.unique == op.unique and version.maybe_during(op)
            for place, chain in versions.items()
            if place[0] == op.place[0] and place != op.place
            for version in chain
        )

    def _check_uniques(self, versions: dict[Place, list[Version]]) -> None:
        """No two records of a container hold one value together, in the order of the lsns."""
        holders: dict[tuple[int, bytes], list[Version]] = defaultdict(list)
        for place, chain in versions.items():
            for version in chain:
                if version.by.unique is not None:
                    holders[place[0], version.by.unique].append(version)
        for held in holders.values():
            held.sort(key=lambda version: version.record.lsn)
            for before, version in pairwise(held):
                end = before.end
                assert end is not None, f"{before} and {version} hold one value"
                if end.verb == "delete":
                    assert end.sent < version.by.told, f"{before} and {version} hold one value"
                else:
                    assert end.record is not None and end.record.lsn <= version.record.lsn, f"{before} and {version}"


def _present(chain: list[Version], op: Op) -> bool:
    """Whether a record was there all the while: made before, whatever it became, and not deleted until later."""
    began = inf
    for version in chain:
        if version.by.created:
            began = version.by.told
        if version.end is None or version.end.verb == "delete":
            deleted = inf if version.end is None else version.end.sent
            if began < op.sent and deleted > op.told:
                return True
    return False
