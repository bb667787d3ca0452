"""One write transaction: runs decisions one after the other on a connection, and applies their changes.

Decisions are generators that may be run again. So before the transaction runs them in turn, it runs each as far as it knows the
answers or has them in the cache, collects the reads that they ask for next, and answers those for all of them in one statement.
The changes of single records are gathered and written by one more statement.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence, Set
from typing import Any, TypeVar

import msgspec

from mayflydb.model.errors import OwnerNotFound, Unavailable
from mayflydb.model.instant import Instant
from mayflydb.model.order import Identity
from mayflydb.store import interface
from mayflydb.store.postgres import changes, history, lock_order, reads
from mayflydb.store.postgres.catalog_cache import CatalogCache
from mayflydb.store.postgres.connection import StaleGuess
from mayflydb.store.postgres.holds import Holds
from mayflydb.store.postgres.lock_order import LockOrder
from mayflydb.store.postgres.purge_ahead import Known
from mayflydb.store.postgres.reads import Connection
from mayflydb.store.postgres.statement import Statement
from mayflydb.store.postgres.write_batch import WriteBatch
from mayflydb.store.rows import SEQ_MASK

T = TypeVar("T")

NAMES = (interface.FindRow, interface.ChildRows, interface.NewId)
"""Reads of the catalogue by name, and new ids. Transactions of all nodes that ask them come one after the other."""

RECORDS = (interface.Scan, interface.EntryOwners, interface.Due)
"""Reads that are answered by records."""

_COUNT = (
    "UPDATE mayfly.catalog c SET lsn = n.lsn, seq = n.seq"
    " FROM unnest({0}::bigint[], {1}::bigint[], {2}::bigint[]) AS n(id, lsn, seq) WHERE c.id = n.id"
)
_COUNT_PURGED = "UPDATE mayfly.catalog SET lsn = {0}::bigint + (SELECT count(*) FROM chosen), seq = {1} WHERE id = {2}"


class Transaction:
    """The work of a group. `finish` must have returned before COMMIT; where there was no BEGIN, `commit_at_once` takes its place.

    A transaction that goes by cached catalogue rows locks nothing at first. Its last statement locks the rows and makes all
    changes, on the condition that the rows are as they were cached. If it needs any other statement, it begins before it, with
    the same locks and on the same condition.
    """

    def __init__(
        self,
        connection: Connection,
        distributed: bool,
        catalog_cache: CatalogCache,
        holds: Holds,
        sign: Callable[[Statement], None],
        is_begun: bool,
    ) -> None:
        """`sign` adds the marker of the group to a statement. `is_begun`: BEGIN was sent."""
        self._connection = connection
        self._locks = LockOrder(connection, distributed)
        self._settings: list[interface.SetNumber] = []
        self._distributed = distributed
        self._catalog_cache = catalog_cache
        self._holds = holds
        self._sign = sign
        self._signed = False
        self.is_begun = is_begun
        self._guessed: dict[int, interface.CatalogRow] = {}
        self._last: Statement | None = None
        self._blocked: set[int] = set()
        """Containers in which no node can hold a record until the end of this transaction."""

        self._known: defaultdict[int, Known] = defaultdict(Known)
        self._batch = WriteBatch(connection, distributed)
        self._rows: dict[int, interface.CatalogRow | None] = {}
        self._counted: set[int] = set()
        self._redefined = False
        self.changed_rows = 0
        """The number of changed catalogue rows that existed before, so that other nodes may have cached them."""

        self._apply_many: dict[type, Callable[[Any], Awaitable[interface.Purged | None]]] = {
            interface.Purge: self._purge,
            interface.TrimHistory: lambda change: history.trim_history(connection, change),
            interface.ClearDropped: lambda change: changes.clear(connection, change, distributed),
            interface.ReplaceEntries: self._replace_entries,
            interface.RemoveEntries: lambda change: changes.remove_entries(connection, change),
            interface.PutRow: self._put_row,
            interface.DropRow: self._drop_row,
            interface.TrimEvents: lambda change: changes.trim(connection, change),
        }

    # --- reading ahead ---------------------------------------------------------------------------------------------------

    async def lock_first(self, locks: Set[int]) -> None:
        """Take the locks of a `LockTaken`, at the beginning of the transaction."""
        await self._begin()
        await self._lock(lock for lock in locks if lock < lock_order.NAMES)
        if lock_order.NAMES in locks:
            await self._locks.lock_names()
        if lock_order.SETTINGS in locks:
            await self._locks.lock_settings()

    async def prefetch(self, decides: Iterable[Callable[[], interface.Decision[Any]]]) -> None:
        """Lock the containers of these decisions and read the records that they ask for."""
        decides = list(decides)
        if not self.is_begun and await self._prefetch_by_guess(decides):
            return
        await self._begin()
        if await self._prefetch_purge(decides):
            return
        # Catalogue rows first: decisions that load them know only then which records they need.
        first = _first_requests(decides, self._rows)
        await self._lock(_containers(first))
        wanted = [request for request in _first_requests(decides, self._rows) if type(request) is interface.Get]
        if wanted:
            self._batch.remember(wanted, await reads.get_many(self._connection, wanted, self._distributed))

    async def _prefetch_by_guess(self, decides: Sequence[Callable[[], interface.Decision[Any]]]) -> bool:
        """Read by the cached catalogue rows, without locks. False if these do not suffice."""
        guesses = self._catalog_cache.rows
        if self._distributed or not guesses:
            return False
        requests = _first_requests(decides, guesses)
        wanted = [request for request in requests if type(request) is interface.Get and request.container in guesses]
        if not wanted or len(wanted) < len(requests):
            return False
        self._guess(request.container for request in wanted)
        self._batch.remember(wanted, await reads.get_many(self._connection, wanted, self._distributed))
        return True

    def _guess(self, containers: Iterable[int]) -> None:
        rows = {id: self._catalog_cache.rows[id] for id in containers}
        self._guessed.update(rows)
        self._rows.update(rows)

    async def _begin(self) -> None:
        """Send BEGIN, if it was not sent. StaleGuess if a row is not as guessed."""
        if self.is_begun:
            return
        await self._connection.execute("BEGIN")
        self.is_begun = True
        rows = await self._locks.lock_containers(sorted(self._guessed))
        if {row.id: row for row in rows} != self._guessed:
            raise StaleGuess

    async def _prefetch_purge(self, decides: Sequence[Callable[[], interface.Decision[Any]]]) -> bool:
        """Take both locks of a purge in one statement. False if its container is not known before."""
        if self._distributed or self._rows or len(decides) != 1:
            return False
        requests = _first_requests(decides, self._catalog_cache.rows)
        if not requests or type(requests[0]) is not interface.HeldRecords or not requests[0].purging:
            return False
        container = requests[0].container
        row = await self._holds.lock_and_block(self._connection, container)
        if row is None:
            return False
        self._locks.note([container])
        self._blocked.add(container)
        self._note_rows([container], [row])
        return True

    async def _lock(self, containers: Iterable[int]) -> None:
        wanted = sorted(set(containers) - self._rows.keys())
        if not wanted:
            return
        if not self.is_begun and self._catalog_cache.rows.keys() >= set(wanted):
            self._guess(wanted)
            return
        await self._begin()
        self._note_rows(wanted, await self._locks.lock_containers(wanted))

    def _note_rows(self, wanted: Iterable[int], rows: Iterable[interface.CatalogRow]) -> None:
        self._rows.update(dict.fromkeys(wanted))
        for row in rows:
            self._rows[row.id] = row
            self._catalog_cache.note_lock(row)

    # --- one after the other ---------------------------------------------------------------------------------------------

    async def run(self, decide: Callable[[], interface.Decision[T]]) -> tuple[T, tuple[interface.Purged, ...]]:
        """Decide and apply. An exception of the decision itself comes before its first change, so it leaves no trace."""
        outcome = await self._drive(decide())
        purged = [done for change in outcome.changes if (done := await self._apply(change)) is not None]
        self._known.clear()
        return outcome.reply, tuple(purged)

    async def _drive(self, decision: interface.Decision[T]) -> interface.Outcome[T]:
        answer: Any = None
        try:
            while True:
                answer = await self._answer(decision.send(answer))
        except StopIteration as end:
            outcome: interface.Outcome[T] = end.value
            return outcome

    async def _answer(self, request: interface.Read[Any]) -> Any:
        if isinstance(request, interface.Get):
            try:
                return self._batch.get(request)
            except KeyError:
                await self._lock([request.container])
                found = await reads.get_many(self._connection, [request], self._distributed)
                self._batch.remember([request], found)
                return found[0]
        if isinstance(request, interface.LoadRow):
            await self._lock([request.id])
            return self._rows[request.id]
        if isinstance(request, interface.Allocate):
            return await self._allocate(request)
        await self._begin()
        if isinstance(request, interface.HeldRecords):
            return await self._read_held(request)
        if isinstance(request, interface.NextDue):
            return await self._next_due(request)
        if isinstance(request, interface.StillHeld):
            return await self._holds.stand(self._connection, request.numbers)
        if isinstance(request, NAMES):
            return await self._catalog_answer(request)
        # The statement reads tables, so the gathered changes of earlier decisions must be in them.
        if isinstance(request, interface.NamedNumber):
            await self._save_settings()
        await self._flush(forget=False)
        answer = await reads.answer(self._connection, request)
        if isinstance(request, RECORDS):
            self._batch.note_read(request.container, answer)
        return answer

    async def _read_held(self, request: interface.HeldRecords) -> tuple[Identity, ...] | None:
        if not request.purging:
            return await self._holds.read_held(self._connection, request) if self._holds.has_others else ()
        container = request.container
        if container not in self._blocked:
            # The container first, then the holds: all transactions take the two locks in this order.
            await self._lock([container])
            await self._holds.block_new_holds(self._connection, container)
            self._blocked.add(container)
        if self._distributed:
            return await self._holds.read_held(self._connection, request)
        await self._flush(forget=False)
        return await self._known[container].read(self._connection, self._holds, request)

    async def _next_due(self, request: interface.NextDue) -> Instant | None:
        if request.after is not None:
            await self._flush(forget=False)
            return await reads.next_due(self._connection, request)
        first_due = self._known[request.container].first_due
        place = request.path, request.spared
        if place not in first_due:
            await self._flush(forget=False)
            first_due[place] = await reads.next_due(self._connection, request)
        return first_due[place]

    async def _row(self, container: int) -> interface.CatalogRow:
        await self._lock([container])
        row = self._rows[container]
        if row is None:
            raise OwnerNotFound(f"container {container} does not exist")
        return row

    async def _allocate(self, request: interface.Allocate) -> tuple[int, int]:
        row = await self._row(request.container)
        if request.seq and row.seq >= SEQ_MASK:
            raise Unavailable(f"container {row.id} has given out all its record numbers")
        row = self._rows[row.id] = msgspec.structs.replace(row, lsn=row.lsn + 1, seq=row.seq + request.seq)
        self._counted.add(row.id)
        return row.lsn, row.seq if request.seq else 0

    async def _catalog_answer(self, request: interface.Read[Any]) -> Any:
        connection = self._connection
        # Without the lock two nodes could each find a name missing, and both create it.
        await self._locks.lock_names()
        if isinstance(request, interface.NewId):
            return await connection.fetchval(
                "UPDATE mayfly.meta SET value = value + 1 WHERE name = 'next_id' RETURNING value"
            )
        await self._save_counters()
        return await reads.answer(connection, request)

    # --- changes ---------------------------------------------------------------------------------------------------------

    async def _apply(self, change: interface.Change) -> interface.Purged | None:
        if isinstance(change, interface.Put):
            self._known.pop(change.container, None)
            self._batch.put(change)
            return None
        if isinstance(change, interface.Delete):
            self._known.pop(change.container, None)
            self._batch.delete(change)
            return None
        if isinstance(change, interface.AddVersion):
            self._batch.remember_version(change)
            return None
        if isinstance(change, interface.SetNumber):
            self._settings.append(change)
            return None
        await self._begin()
        await self._flush()
        if not isinstance(change, interface.Purge):
            self._known.clear()
        return await self._apply_many[type(change)](change)

    async def _flush(self, forget: bool = True) -> None:
        if self._batch.has_events:
            self._locks.note([lock_order.EVENTS])
        await self._batch.flush(forget)

    async def _purge(self, change: interface.Purge) -> interface.Purged:
        row = await self._row(change.container)
        self._locks.note([lock_order.EVENTS])

        def complete(statement: Statement) -> None:
            statement.add("counted", _COUNT_PURGED, row.lsn, row.seq, row.id)
            self._sign_once(statement)

        known = self._known[row.id]
        purged, lsn = await changes.purge(self._connection, change, row.lsn, self._distributed, known, complete)
        self._rows[row.id] = msgspec.structs.replace(row, lsn=lsn)
        self._counted.discard(row.id)
        return purged

    async def _replace_entries(self, change: interface.ReplaceEntries) -> None:
        await self._lock([change.container])
        row = self._rows[change.container]
        if row is not None:
            # A guess of another node must not hold: its statement may not see the new entries.
            self._rows[row.id] = msgspec.structs.replace(row, lsn=row.lsn + 1)
            self._counted.add(row.id)
        await changes.replace_entries(self._connection, change)

    async def _put_row(self, change: interface.PutRow) -> None:
        row = change.row
        await self._lock([row.id])
        known = self._rows[row.id] is not None
        before = self._rows[row.id] or row
        row = msgspec.structs.replace(row, lsn=before.lsn, seq=before.seq)
        await self._connection.execute(
            "INSERT INTO mayfly.catalog(id, parent, name, data, lsn, seq) VALUES($1, $2, $3, $4, $5, $6)"
            " ON CONFLICT(id) DO UPDATE SET parent = excluded.parent, name = excluded.name, data = excluded.data,"
            " lsn = excluded.lsn, seq = excluded.seq",
            row.id,
            row.parent,
            reads.encode_name(row.name),
            row.data,
            row.lsn,
            row.seq,
        )
        self._rows[row.id] = row
        self._counted.discard(row.id)
        self._redefined = True
        # A new row is in no cache: nodes do not cache that a name is missing, but ask again each time.
        self.changed_rows += known

    async def _drop_row(self, change: interface.DropRow) -> None:
        await self._lock([change.id])
        gone = await self._connection.fetchval("DELETE FROM mayfly.catalog WHERE id = $1 RETURNING id", change.id)
        self._rows[change.id] = None
        self._counted.discard(change.id)
        if gone is not None:
            self._redefined = True
            self.changed_rows += 1
            await self._connection.execute(
                "INSERT INTO mayfly.dropped(container) SELECT $1"
                " WHERE EXISTS (SELECT 1 FROM mayfly.record WHERE container = $1)"
                " OR EXISTS (SELECT 1 FROM mayfly.history WHERE container = $1)",
                change.id,
            )

    async def empty(self) -> None:
        """Remove all rows. Ids go on from where they are, so that no id of a removed row comes again."""
        await self._begin()
        await self._connection.execute(
            "TRUNCATE mayfly.record, mayfly.entry, mayfly.expiry, mayfly.history, mayfly.catalog, mayfly.dropped,"
            " mayfly.setting"
        )
        self._redefined = True
        self.changed_rows += 1

    async def finish(self) -> int | None:
        """Write all that is gathered, and the marker of the group. Return the new version of the catalogue, which the commit
        announces to all nodes; None if the catalogue is unchanged.
        """
        await self._save_settings()
        if not self.is_begun:
            columns = reads.guess_columns([self._guessed[id] for id in sorted(self._guessed)])
            self._last = statement = Statement(reads.GUESS, *columns, condition=reads.GUESS_HOLDS)
            self._sign_once(statement)
            self._add_counters(statement)
            self._batch.add_to(statement)
            return None
        statement = Statement()
        self._sign_once(statement)
        self._add_counters(statement)
        await self._batch.flush(statement=statement)
        if not self._redefined:
            return None
        version: int = await self._connection.fetchval(
            "UPDATE mayfly.meta SET value = value + 1 WHERE name = 'catalog' RETURNING value"
        )
        await self._connection.execute("SELECT pg_notify('mayfly_catalog', $1)", str(version))
        return version

    def _sign_once(self, statement: Statement) -> None:
        if not self._signed:
            self._sign(statement)
        self._signed = True

    async def commit_at_once(self) -> None:
        """Make and commit all changes in one statement. StaleGuess, and nothing has happened, if a row is not as guessed."""
        assert self._last is not None
        if not await self._last.commit(self._connection):
            raise StaleGuess

    def locked_rows(self) -> list[interface.CatalogRow]:
        """The rows that the transaction has locked, as they are after its commit."""
        return [row for row in self._rows.values() if row is not None]

    async def _save_settings(self) -> None:
        if self._settings:
            await self._begin()
            await self._locks.lock_settings()
        for change in self._settings:
            await changes.set_number(self._connection, change)
        self._settings.clear()

    async def _save_counters(self) -> None:
        statement = Statement()
        self._add_counters(statement)
        if statement:
            await statement.run(self._connection)

    def _add_counters(self, statement: Statement) -> None:
        rows = [row for id in sorted(self._counted) if (row := self._rows[id]) is not None]
        self._counted.clear()
        if rows:
            statement.add(
                "counted", _COUNT, [row.id for row in rows], [row.lsn for row in rows], [row.seq for row in rows]
            )


def _containers(requests: Iterable[interface.Read[Any]]) -> set[int]:
    loaded = {request.id for request in requests if isinstance(request, interface.LoadRow)}
    return loaded | {request.container for request in requests if isinstance(request, interface.Get)}


def _first_requests(
    decides: Iterable[Callable[[], interface.Decision[Any]]], rows: Mapping[int, interface.CatalogRow | None]
) -> list[interface.Read[Any]]:
    """The first read of each decision that these rows do not answer; none for a decision that asks no more, or fails."""
    requests: list[interface.Read[Any]] = []
    for decide in decides:
        decision = decide()
        try:
            request = decision.send(None)
            while type(request) is interface.LoadRow and request.id in rows:
                request = decision.send(rows[request.id])
            requests.append(request)
        except Exception:  # noqa: BLE001, S110 -- the decision fails again in its turn, and then its caller is answered.
            pass
        finally:
            decision.close()
    return requests
