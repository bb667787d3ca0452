"""The optimistic transaction of a script over one logical partition.

The transaction reads committed state and its own writes. A `Workspace` decides its commands while the script runs. At the commit
the writer validates the read set and decides the same commands again; after a write conflict the script runs again. Until then
new records have provisional sequence numbers and lsns. Their rids and etags are replaced wherever they occur in stored and
answered texts.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final

import msgspec

from mayflydb.engine.catalog import Node
from mayflydb.engine.commands import Command, Draft, Mode, Step, Written
from mayflydb.engine.locks import LockHolder
from mayflydb.engine.read_set import ReadSet
from mayflydb.engine.reads import Reads, record_at, settled_lsn
from mayflydb.engine.scans import Batch, Scope, scan
from mayflydb.engine.workspace import Workspace
from mayflydb.frontends.cosmos.resources import etag, item_etag, item_rid
from mayflydb.frontends.cosmos.values import ItemLimits, parse_item
from mayflydb.frontends.cosmos.views import ContainerView
from mayflydb.model.instant import Instant
from mayflydb.model.order import Identity, Position
from mayflydb.model.record import Record

# A rid holds sequence numbers below 2^59, and an etag lsns of 48 bits. The upper 16 bits of a provisional lsn are all
# set, so that a pattern finds its etag.
FIRST_SEQ: Final = 1 << 57
FIRST_LSN: Final = 0xFFFF << 32
"""Numbers from here on are provisional. No container reaches them."""


Lock = Callable[[LockHolder, int, Identity, bool], Awaitable[Any]]
"""`Locks.hold`"""


class ScriptTransaction:
    """The reads and commands of the scripts of one request, at one instant."""

    def __init__(
        self,
        reads: Reads,
        view: ContainerView,
        partition: bytes,
        lsn: int,
        now: Instant,
        lock: Lock,
        holder: LockHolder,
    ) -> None:
        self.view = view
        self.partition = partition
        self.now = now
        self.read_set = ReadSet(view.id, lsn, view.node.rules, now, holder)
        self._lock = lock
        self._reads = reads
        self._workspace = Workspace(view.node, now)
        self._commands: list[Command] = []
        self._written: list[Written] = []
        self._seq = FIRST_SEQ
        self._lsn = FIRST_LSN
        self._provisional = _provisional_pattern(view)

    @classmethod
    async def begin(
        cls, reads: Reads, view: ContainerView, partition: bytes, now: Instant, lock: Lock, holder: LockHolder
    ) -> ScriptTransaction:
        """Begin a transaction on the committed state. `lock`: locks an item for `holder`, so that no purge removes it."""
        lsn = await settled_lsn(reads, view.id, partition)
        return cls(reads, view, partition, lsn, now, lock, holder)

    async def run(self, command: Command) -> Written:
        """Decide a command. Refusals are those of the engine, and leave the transaction unchanged."""
        if command.mode is not Mode.READ:
            # A replace may change the id: the old and the new one are locked.
            for key in dict.fromkeys((command.key, command.key_after)):
                await self._lock(
                    self.read_set.holder, self.view.id, (command.partition, key), command.mode is Mode.DELETE
                )
        written = await self.read_set.decide(self._workspace.run(command), self._reads, self._allocate)
        if command.mode is not Mode.READ:
            self._commands.append(command)
            self._written.append(written)
        return written

    def _allocate(self) -> tuple[int, int]:
        self._lsn += 1
        self._seq += 1
        return self._lsn, self._seq

    # --- reads -----------------------------------------------------------------------------------------------------------

    async def scan(
        self, container: Node, scope: Scope, after: Position | None, now: Instant, batch: int
    ) -> AsyncIterator[Batch]:
        """Yield the visible records of the partition as the transaction sees them, by creation.

        `scope` must not be larger than the partition.
        """
        self.read_set.note_scan(self.partition)
        number = 0 if after is None else after.number
        stored_batches = scan(self._reads, container, scope, after, now, batch)
        # Provisional numbers come after all stored ones. A page that begins behind one has seen all stored records.
        async for chunk in stored_batches if number < FIRST_SEQ else _no_batches():
            records: list[Record] = []
            for stored in chunk.records:
                self.read_set.note_read(stored.partition, stored.key, stored)
                record = self._workspace.current_version(stored)
                # An item that was deleted and created again has a provisional number, and comes with the new ones
                # below.
                if record is not None and record.seq == stored.seq:
                    records.append(record)
            yield Batch(records, chunk.position)
        new = [record for record in self._workspace.written_records if record.seq > max(FIRST_SEQ, number)]
        if new:
            new.sort(key=lambda record: record.seq)
            yield Batch(new, Position(self.partition, new[-1].seq))

    async def record_at(self, seq: int) -> Record | None:
        """Find the record with this sequence number as the transaction sees it."""
        if seq >= FIRST_SEQ:
            return next((record for record in self._workspace.written_records if record.seq == seq), None)
        stored = await record_at(self._reads, self.view.id, self.partition, seq)
        if stored is None:
            return None
        self.read_set.note_read(stored.partition, stored.key, stored)
        return self._workspace.current_version(stored)

    @property
    def command_count(self) -> int:
        """The number of commands so far."""
        return len(self._commands)

    # --- committing ------------------------------------------------------------------------------------------------------

    def steps(self, limits: ItemLimits) -> list[Command | Step]:
        """Return the commands for the writer, with provisional numbers replaced by those of the commit."""
        return [self._bind_step(command, limits) for command in self._commands]

    def _bind_step(self, command: Command, limits: ItemLimits) -> Command | Step:
        draft = command.draft
        mentions = isinstance(draft, Draft) and self._provisional.search(draft.value) is not None
        made_here = (command.if_match or 0) >= FIRST_LSN or (command.seq or 0) >= FIRST_SEQ
        if not mentions and not made_here:
            return command

        # Runs in the writer, where the commands before have their committed numbers.
        def step(before: Sequence[Written]) -> Command:
            pairs = self._pair_records(before)
            versions = {ours.record.lsn: theirs.record.lsn for ours, theirs in pairs}
            numbers = {ours.record.seq: theirs.record.seq for ours, theirs in pairs}
            changed = draft
            if mentions and isinstance(draft, Draft):
                item = parse_item(self.replace_provisional(draft.value, before), limits)
                changed = self.view.draft(item, self.partition)
            version, number = command.if_match, command.seq
            if_match = None if version is None else versions.get(version, version)
            seq = None if number is None else numbers.get(number, number)
            return msgspec.structs.replace(command, draft=changed, if_match=if_match, seq=seq)

        return step

    def replace_provisional(self, text: bytes, written: Sequence[Written]) -> bytes:
        """Return a text with provisional rids and etags replaced by those of the `written` records."""
        if self._provisional.search(text) is None:
            return text
        owner = self.view.links
        names: dict[bytes, bytes] = {}
        for ours, theirs in self._pair_records(written):
            names[item_rid(owner, ours.record.seq).encode()] = item_rid(owner, theirs.record.seq).encode()
            before, after = item_etag(owner, ours.record), item_etag(owner, theirs.record)
            names[before[1:-1].encode()] = after[1:-1].encode()
        return self._provisional.sub(lambda found: names.get(found.group(), found.group()), text)

    def _pair_records(self, written: Sequence[Written]) -> list[tuple[Written, Written]]:
        return list(zip(self._written, written, strict=False))


async def _no_batches() -> AsyncIterator[Batch]:
    none: tuple[Batch, ...] = ()
    for batch in none:
        yield batch


def _provisional_pattern(view: ContainerView) -> re.Pattern[bytes]:
    """Build a pattern that matches provisional rids and etags."""
    # Rids are little-endian, so provisional numbers differ in fewer than 32 bits in the middle of their rids.
    lowest, highest = item_rid(view.links, FIRST_SEQ), item_rid(view.links, FIRST_SEQ | 0x7FFFFFFF)
    differing = [n for n in range(24) if lowest[n] != highest[n]]
    first, end = differing[0], differing[-1] + 1
    rid = re.escape(lowest[:first]).encode() + rb"[A-Za-z0-9+-]{%d}" % (end - first) + re.escape(lowest[end:]).encode()
    # The middle of an etag, `-ffff-cccc-cccc-`: the upper 16 bits of the lsn, and the container.
    middle = etag(FIRST_LSN, view.links.container, 0)[9:25].encode()
    return re.compile(rid + rb"|[0-9a-f]{8}" + re.escape(middle) + rb"[0-9a-f]{8}0000")
