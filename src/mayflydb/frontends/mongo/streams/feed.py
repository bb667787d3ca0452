"""The source of a change stream: the histories of all collections in its scope, merged in the order of their stamps.

A stamp is (number of the transaction, place within it), and one node of the catalogue allocates the numbers for all
histories. So stamps order the lines of different collections, which their own lsns cannot.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Final

import msgspec

from mayflydb.engine.catalog import Node
from mayflydb.engine.engine import Engine
from mayflydb.engine.history import HistoryLost
from mayflydb.engine.ordered_histories import STAMP
from mayflydb.frontends.mongo.collections import INTERNAL_DATABASES
from mayflydb.frontends.mongo.streams.options import cluster_time
from mayflydb.frontends.mongo.streams.tokens import NO_STAMP, Purpose, ResumeToken
from mayflydb.frontends.mongo.time_series.series import BODY as SERIES
from mayflydb.model.instant import Instant, Span
from mayflydb.model.record import Kind, Version
from mayflydb.query.mongo.faults import MqlError

PAGE_SIZE: Final = 256


class StreamScope(msgspec.Struct, frozen=True):
    """The scope of a stream: a collection, a database, or all databases."""

    database: str | None = None
    collection: str | None = None

    @property
    def digest(self) -> bytes:
        """Four bytes that differ between scopes."""
        names = [name for name in (self.database, self.collection) if name is not None]
        return blake2b("\0".join(names).encode(), digest_size=4).digest()

    def includes(self, database: str, name: str) -> bool:
        """Return True if a collection is in the scope. System collections are in none."""
        if name.startswith("system."):
            return False
        if self.collection is not None:
            return (database, name) == (self.database, self.collection)
        return database == self.database if self.database is not None else database not in INTERNAL_DATABASES


class HistoryLine(msgspec.Struct, frozen=True, gc=False):
    """One line of a history. `value`: without its stamp. `database`, `name`: the collection's names at that time."""

    version: Version
    stamp: bytes
    value: bytes
    container: int
    database: str
    name: str


class _HistoryReader:
    """Reads one history of the merge.

    `node`: the container's row, or after a drop the row that keeps the history. `position`: the lsn of the last line that the
    stream has passed; `read_to`: of the last that was read into `lines`.
    """

    def __init__(self, id: int, position: int) -> None:
        self.id = id
        self.position = position
        self.node: Node | None = None
        self.database = ""
        self.name = ""
        self.lsn: int | None = 0
        self.read_to = position
        self.lines: deque[Version] = deque()
        self._exhausted = False

    def update(self, node: Node, database: str, name: str, lsn: int | None) -> None:
        """Set the present row and names. `lsn` None: the last lsn is unknown, so there may be more."""
        self.node, self.database, self.name, self.lsn = node, database, name, lsn

    async def fill(self, engine: Engine, now: Instant) -> None:
        assert self.node is not None
        if self.lines or self._exhausted or (self.lsn is not None and self.lsn <= self.read_to):
            return
        history = msgspec.structs.replace(self.node, id=self.id)
        self.lines.extend(await engine.versions(history, self.read_to, now))
        if self.lines:
            self.read_to = self.lines[-1].lsn
        # A dropped collection writes no more lines: its history has been read to the end.
        elif self.node.definition.keeps is not None:
            self._exhausted = True

    def name_at(self, lsn: int) -> tuple[str, str]:
        """The database and name of the container when it wrote the version with this lsn."""
        assert self.node is not None
        for upto, database, name in self.node.definition.former:
            if lsn <= upto:
                return database, name
        return self.database, self.name


class Feed:
    """Reads the lines of all histories in scope, in order. A token holds its position in each history."""

    def __init__(self, engine: Engine, scope: StreamScope, orderer: int) -> None:
        self._engine = engine
        self._scope = scope
        self._orderer = orderer
        self._readers: dict[int, _HistoryReader] = {}
        self._known_up_to = 0
        self._last_instant: Instant = 0
        self._stamp = NO_STAMP
        self._begin_instant: Instant | None = None
        self._last_lsn = -1
        self._epoch = engine.epoch

    # --- the beginning ---------------------------------------------------------------------------------------------------

    async def begin_now(self, now: Instant) -> None:
        """Begin after the present: the stream shows later changes alone."""
        self._last_instant = now
        self._stamp = STAMP.pack(await self._engine.lsn(self._orderer), 0)
        for node, lsn, _, _ in await self._find_nodes():
            self._readers[node.id] = _HistoryReader(node.id, lsn)
            self._known_up_to = max(self._known_up_to, node.id)
        for node in await self._engine.ordered_histories.read_kept():
            self._known_up_to = max(self._known_up_to, node.definition.keeps or 0)

    async def begin_at(self, instant: Instant, now: Instant, retention: Span) -> None:
        """Begin at an instant. Raise MqlError 286 if its changes are not kept any more."""
        # A change that is exactly as old as the retention may be gone already, so the limit itself is refused.
        if instant <= now - retention:
            raise lost_history_error()
        self._last_instant = self._begin_instant = instant
        found = [node.id for node, *_ in await self._find_nodes()]
        kept = [node.definition.keeps or 0 for node, *_ in await self._find_kept()]
        for id in [*found, *kept]:
            self._readers[id] = _HistoryReader(id, await self._find_position(id, instant))
            self._known_up_to = max(self._known_up_to, id)

    async def _find_position(self, id: int, instant: Instant) -> int:
        """The lsn after which a history has the changes since an instant."""
        after = 0
        while page := await self._engine.history(id, after, PAGE_SIZE):
            for version in page:
                # Compared by cluster times: the cluster time of a reply may be slightly earlier than the write before
                # it.
                if version.kind is Kind.GAP and cluster_time(version.written) > cluster_time(instant):
                    raise lost_history_error()
                # Inclusive: a stream that starts at an operation time shows the operation itself.
                if version.written >= instant and version.kind is not Kind.GAP:
                    return after
                after = version.lsn
        return after

    async def resume(self, token: ResumeToken, now: Instant, retention: Span) -> None:
        """Continue after a token. Raise MqlError 260 for a token of another scope, 286 if a history of it is gone."""
        scope = self._build_scope()
        if token.scope[:4] != scope[:4]:
            raise MqlError(260, "The resume token is one of a stream on something else.")
        if token.scope != scope:
            raise lost_history_error()  # A restore has undone what the stream has shown.
        # An old token is good as long as all its histories are there: a quiet collection has lost nothing.
        if token.at <= now - retention:
            kept = {node.definition.keeps for node in await self._engine.ordered_histories.read_kept()}
            for id in token.lsns:
                if id not in kept and await self._engine.node_by_id(id) is None:
                    raise lost_history_error()
        self._known_up_to, self._last_instant, self._stamp = token.known_up_to, token.at, token.stamp
        for id, lsn in token.lsns.items():
            self._readers[id] = _HistoryReader(id, lsn)

    # --- reading ---------------------------------------------------------------------------------------------------------

    @property
    def last_instant(self) -> Instant:
        """The instant of the last line."""
        return self._last_instant

    def build_token(self, purpose: Purpose = "event") -> ResumeToken:
        """The token of the position after the last line."""
        lsns = {reader.id: reader.position for reader in self._readers.values()}
        return ResumeToken(self._build_scope(), self._last_instant, self._stamp, self._known_up_to, lsns, purpose)

    def _build_scope(self) -> bytes:
        """The scope in a token: its digest, and the number of restores."""
        return self._scope.digest + (self._engine.restores % (1 << 32)).to_bytes(4, "big")

    async def read_lines(self, now: Instant) -> list[HistoryLine]:
        """Read the next lines before which no line can come any more. The caller passes each to `advance`.

        Raise MqlError 286 if some are not kept any more.
        """
        if self._epoch != self._engine.epoch:
            raise lost_history_error()  # Everything was replaced: by a restore, or by a reset.
        newest = await self._engine.lsn(self._orderer)
        # No transaction has got a stamp since everything was read, so nothing needs to be read again.
        if newest == self._last_lsn:
            return []
        if newest < STAMP.unpack(self._stamp)[0]:
            raise lost_history_error()  # The store was reset.
        await self._refresh_readers()
        ready = [reader for reader in self._readers.values() if reader.node is not None]
        found: list[tuple[bytes, _HistoryReader, Version]] = []
        read_ends: list[bytes] = []
        try:
            for reader in ready:
                await reader.fill(self._engine, now)
                found += [(version.value[: STAMP.size], reader, version) for version in reader.lines]
                if reader.lines and (reader.lsn is None or reader.lsn > reader.read_to):
                    # Only a page of this history was read. Beyond it there may be lines older than the next line of
                    # another.
                    read_ends.append(reader.lines[-1].value[: STAMP.size])
        except HistoryLost:
            raise lost_history_error() from None
        # Commits after the number was read may be visible in one history and not yet in another.
        bound = min([STAMP.pack(newest + 1, 0), *read_ends])
        complete = sorted((each for each in found if each[0] < bound), key=lambda each: (each[0], each[2].lsn))
        if read_ends and not complete:
            # Only last lines of pages are left. The oldest of them comes before everything that is unread.
            complete = [min(found, key=lambda each: (each[0], each[2].lsn))]
        if not found:
            # Only with nothing left: lines that were held back must be looked at again.
            self._last_lsn = newest
        return [self._build_line(*each) for each in complete]

    def _build_line(self, stamp: bytes, reader: _HistoryReader, version: Version) -> HistoryLine:
        return HistoryLine(version, stamp, version.value[STAMP.size :], reader.id, *reader.name_at(version.lsn))

    def advance(self, line: HistoryLine) -> bool:
        """Move past a line. Return True if the line belongs to the stream."""
        reader = self._readers[line.container]
        reader.position = reader.lines.popleft().lsn
        self._last_instant, self._stamp = line.version.written, line.stamp
        if self._begin_instant is not None and line.version.written < self._begin_instant:
            return False
        return line.version.kind is not Kind.GAP

    def node(self, container: int) -> Node | None:
        """The present row of a container; None: it is gone."""
        reader = self._readers.get(container)
        return (
            None if reader is None or reader.node is None or reader.node.definition.keeps is not None else reader.node
        )

    def uuid(self, container: int) -> bytes:
        """The UUID of a collection, which may be gone."""
        node = self._readers[container].node
        assert node is not None
        body: Any = node.body["body"] if node.definition.keeps is not None else node.body
        return bytes.fromhex(body.get("uuid", ""))

    # --- the catalogue ---------------------------------------------------------------------------------------------------

    async def _refresh_readers(self) -> None:
        """Update the readers from the catalogue: containers that are new, dropped or renamed."""
        found = [(node.id, node, database, name, lsn) for node, lsn, database, name in await self._find_nodes()]
        kept = [
            (node.definition.keeps or 0, node, database, name, None) for node, database, name in await self._find_kept()
        ]
        everything: Sequence[tuple[int, Node, str, str, int | None]] = [*found, *kept]
        ids = {id for id, *_ in everything}
        for gone in [id for id in self._readers if id not in ids]:
            del self._readers[gone]
        known = self._known_up_to
        for id, node, database, name, lsn in everything:
            reader = self._readers.get(id)
            if reader is None:
                position = self._start_position(id, node)
                if position is None:
                    continue
                reader = self._readers[id] = _HistoryReader(id, position)
            reader.update(node, database, name, lsn)
            known = max(known, id)
        self._known_up_to = known

    def _start_position(self, id: int, node: Node) -> int | None:
        """The lsn after which a history that is new here belongs to the stream; None: no part of it does."""
        former = node.definition.former
        if id > self._known_up_to and (not former or self._scope.includes(*former[-1][1:])):
            return 0
        if former and (id > self._known_up_to or node.definition.keeps is None):
            return former[-1][0] - 1  # The collection was renamed into the scope.
        return None

    async def _find_nodes(self) -> list[tuple[Node, int, str, str]]:
        """(node, last lsn, database, name) of the collections in scope, and of the databases, with an empty name."""
        scope = self._scope
        found: list[tuple[Node, int, str, str]] = []
        for database, lsn in await self._engine.children_with_lsns(self._orderer):
            if scope.database is None and database.name in INTERNAL_DATABASES:
                continue
            ours = scope.database in (None, database.name)
            if ours and scope.collection is None:
                found.append((database, lsn, database.name, ""))
            for node, last in await self._engine.children_with_lsns(database.id):
                # No change stream shows measurements, nor that of a database.
                if SERIES not in node.body and self._was_ever_in_scope(node, database.name, node.name):
                    found.append((node, last, database.name, node.name))
        return found

    async def _find_kept(self) -> list[tuple[Node, str, str]]:
        found: list[tuple[Node, str, str]] = []
        for node in await self._engine.ordered_histories.read_kept():
            body: Any = node.definition.body
            if body["parent"] == self._orderer:
                if self._scope.collection is None and self._scope.database in (None, body["name"]):
                    found.append((node, body["name"], ""))
            elif SERIES not in body["body"] and self._was_ever_in_scope(node, body["parent_name"], body["name"]):
                found.append((node, body["parent_name"], body["name"]))
        return found

    def _was_ever_in_scope(self, node: Node, database: str, name: str) -> bool:
        names = [(database, name), *((parent, former) for _, parent, former in node.definition.former)]
        return any(self._scope.includes(*each) for each in names)


def lost_history_error() -> MqlError:
    """The error 286 ChangeStreamHistoryLost, after which no driver resumes."""
    text = "Resume of change stream was not possible, as the resume point may no longer be in the oplog."
    return MqlError(286, text, labels=("NonResumableChangeStreamError",))
