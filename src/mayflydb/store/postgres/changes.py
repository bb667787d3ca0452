"""Changes of many records at once, each by one statement: no record that a purge removes passes through Python."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import count

import msgspec

from mayflydb.model.due import DuePath, Path, instant_key
from mayflydb.model.instant import SECOND, Instant
from mayflydb.model.order import FIRST_ORDERED
from mayflydb.model.record import Kind
from mayflydb.store import interface
from mayflydb.store.postgres import citus, history
from mayflydb.store.postgres.purge_ahead import Known
from mayflydb.store.postgres.reads import LOWEST, NOT_SPARED, PATHS, Connection, digest, spared_numbers
from mayflydb.store.postgres.schema import DATE
from mayflydb.store.postgres.statement import Statement
from mayflydb.store.postgres.write_batch import EVENT
from mayflydb.store.rows import ANCHOR_LIMIT, INTEGER_LIMIT, clamp, fit, hash_number


def _removal(source: str, chosen: str, order: str, returned: str, distributed: bool, bare: bool = False) -> str:
    """The parts of a statement that remove the records which `chosen` selects, and their entries; `gone` has the removed rows.

    `source`: the anchor as `began`, and the tables that are joined with records `r`. A row's place (ctid) is the quickest way to
    find it again. Citus does not support it; there a row is found by its key, on the condition that its lsn is the same.
    `bare`: the container has no entries.
    """
    place, same = ("r.ctid AS place, seq", "r.ctid = chosen.place")
    if distributed:
        place = "r.hash, seq, lsn"
        same = "r.container = $1 AND r.hash = chosen.hash AND r.seq = chosen.seq AND r.lsn = chosen.lsn"
    began, joined = source.split(" FROM ")
    return (
        f"chosen AS MATERIALIZED (SELECT {place}, {began} AS began,"
        f" row_number() OVER (ORDER BY {order}) AS n FROM {joined} WHERE r.container = $1 AND {chosen}),"
        f" gone AS (DELETE FROM mayfly.record r USING chosen WHERE {same}"
        f" RETURNING r.hash, r.seq, octet_length(r.value) AS size, chosen.n, chosen.began{returned})"
    ) + ("" if bare else _UNLINK_GONE)


_UNLINK_GONE = (
    ", unlinked AS (DELETE FROM mayfly.entry e USING gone"
    " WHERE e.container = $1 AND e.hash = gone.hash AND e.record = gone.seq)"
)
_TOTALS = "SELECT count(*), coalesce(sum(size), 0), (SELECT count(*) FROM chosen) FROM gone"

_REMEMBERED = (
    f", remembered AS ({history.ADD} SELECT $1, hash, '{Kind.EXPIRE.value}', $5 + n, $11, partition, key, seq, lsn,"
    " {0}, NULL FROM gone)"
)

_ENTRY = (
    "mayfly.entry {0} ON {0}.container = r.container AND {0}.hash = r.hash AND {0}.record = r.seq AND {0}.number = {1}"
)


class _Form(msgspec.Struct, frozen=True):
    """The form of a purge's statement.

    `path`: None for a slot. `competing`: the paths of the competing rules, and which win ties. `own`: deadlines by the records'
    own ttl. `told`: expiries are versions in the history too; `full`: with a stamp and the record's value. `spares`: some
    records stay. `bare`: the container has no entries.
    """

    path: DuePath | None
    competing: tuple[tuple[DuePath | None, bool], ...]
    distributed: bool
    own: bool
    told: bool
    full: bool
    spares: bool
    bare: bool


@cache
def _purge(form: _Form) -> str:
    """The parts of the statement; `gone` has the removed records. Arguments after the first twelve: the slot, the
    competing rules, the stamp, and the identity numbers of records that stay.
    """
    numbers = count(13)
    if form.path is None:
        value, order = DATE.format("e.key"), "e.key, e.record"
        condition = f"e.number >= {FIRST_ORDERED} AND e.key >= $3 AND e.key <= $2"
        source = f"{value} FROM mayfly.record r JOIN {_ENTRY.format('e', f'${next(numbers)}::integer')}"
    else:
        value, condition = PATHS[form.path]
        order = f"{value}, seq"
        condition = f"{condition} AND {value} >= $3 AND {value} <= $2"
        source = "anchor FROM mayfly.record r"
    for n, (other, wins_tie) in enumerate(form.competing):
        if other is None:
            there = DATE.format(f"o{n}.key")
            source += f" LEFT JOIN {_ENTRY.format(f'o{n}', f'${next(numbers)}::integer')}"
        else:
            there = f"CASE WHEN {PATHS[other][1]} THEN {PATHS[other][0]} END"
        theirs = f"greatest({there}::numeric + ${next(numbers)}::bigint, ${next(numbers)}::bigint)"
        own = f"greatest({value}::numeric + $8::bigint, $10::bigint)"
        # `greatest` passes NULL by, and who is not on the other path does not die there.
        condition += f" AND ({there} IS NULL OR {theirs} {'>' if wins_tie else '>='} {own})"
    value_of_line = f"${next(numbers)}::bytea || value" if form.full else "''"
    if form.spares:
        condition += f" AND r.{NOT_SPARED.format(f'${next(numbers)}')}"
    due = f"{condition} ORDER BY {order} LIMIT $4"
    returned = ", r.partition, r.key, r.lsn, r.override" + (", r.value" if form.full else "")
    # Only lives of their own need numbers of any length, which are slow.
    own = f"least(began::numeric + override * {SECOND} + $8::bigint, $9::bigint)::bigint"
    deadline = own if form.own else "least(began, $9::bigint) + $8::bigint"
    return (
        _removal(source, due, order, returned, form.distributed, form.bare)
        + (_REMEMBERED.format(value_of_line) if form.told else "")
        + ", numbered AS (UPDATE mayfly.meta SET value = value + (SELECT count(*) FROM chosen) WHERE name = 'events'"
        " RETURNING value - (SELECT count(*) FROM chosen) AS before),"
        f" told AS ({EVENT} SELECT numbered.before + n, hash, $1, partition, key, lsn, $5 + n, began, override, $6, $7,"
        f" greatest({deadline}, $10), $11, $12 FROM gone, numbered)"
    )


async def purge(
    connection: Connection,
    change: interface.Purge,
    lsn: int,
    distributed: bool,
    known: Known,
    complete: Callable[[Statement], None],
) -> tuple[interface.Purged, int]:
    """Remove due records, as `Purge`, in one statement. Return the container's last lsn, too.

    `lsn`: the last one before; the events take those that follow. `complete`: adds further parts to the statement, in which
    `chosen` has a row for each lsn that is taken.
    """
    if distributed:
        await citus.lock(connection, [citus.EVENTS])
    oldest = known.first_due.get((change.path, change.spared))
    more = [change.path] if isinstance(change.path, int) else []
    for rule in change.competing:
        more += [rule.path] if isinstance(rule.path, int) else []
        more += [clamp(rule.span or 0), _floor(rule)]
    full = change.history and change.stamp is not None
    form = _Form(
        _kind(change.path),
        tuple((_kind(rule.path), rule.wins_tie) for rule in change.competing),
        distributed,
        own=change.span is None,
        told=change.history,
        full=full,
        spares=bool(change.spared),
        bare=known.is_bare,
    )
    span = 0 if change.span is None else clamp(change.span)
    statement = Statement(
        _purge(form),
        change.container,
        *_bounds(change.path, oldest, change.upto),
        change.limit,
        lsn,
        change.cause,
        change.rule_version,
        span,
        INTEGER_LIMIT if form.own else INTEGER_LIMIT - max(0, span),
        _floor(change),
        change.purged,
        change.how,
        *more,
        *([change.stamp] if full else []),
        *([spared_numbers(change.spared)] if change.spared else []),
    )
    complete(statement)
    records, size, numbered = await statement.fetch(connection, _TOTALS)
    return interface.Purged(records, int(size)), lsn + numbered


def _bounds(path: Path, oldest: Instant | None, upto: Instant) -> tuple[bytes | int, bytes | int]:
    """The highest and the lowest value on a due path."""
    if isinstance(path, int):
        return instant_key(upto), b"" if oldest is None else instant_key(oldest)
    return fit(upto), LOWEST if oldest is None else oldest


def _kind(path: Path) -> DuePath | None:
    return None if isinstance(path, int) else path


def _floor(way: interface.Purge | interface.CompetingRule) -> Instant:
    return -ANCHOR_LIMIT * 2 if way.not_before is None else clamp(way.not_before)


_CLEAR = {
    distributed: "WITH "
    + _removal("NULL::bigint FROM mayfly.record r", "true ORDER BY seq LIMIT $2", "seq", "", distributed)
    + " SELECT count(*), coalesce(sum(size), 0) FROM gone"
    for distributed in (False, True)
}


async def clear(connection: Connection, change: interface.ClearDropped, distributed: bool) -> interface.Purged:
    # The row in `dropped` is also the lock: two nodes must not clear the same container at once.
    await connection.execute("SELECT 1 FROM mayfly.dropped WHERE container = $1 FOR UPDATE", change.container)
    records, size = await connection.fetchrow(_CLEAR[distributed], change.container, change.limit)
    purged = interface.Purged(records, int(size))
    if not records and change.history:
        purged = await history.clear_history(connection, change.container, change.limit)
    await connection.execute(
        "DELETE FROM mayfly.dropped WHERE container = $1"
        " AND NOT EXISTS (SELECT 1 FROM mayfly.record WHERE container = $1)"
        " AND NOT EXISTS (SELECT 1 FROM mayfly.history WHERE container = $1)",
        change.container,
    )
    return purged


_LINK = (
    "WITH gone AS (DELETE FROM mayfly.entry e USING unnest($3::bigint[], $4::bigint[]) AS owner(hash, seq)"
    " WHERE e.container = $1 AND e.number = $2 AND e.hash = owner.hash AND e.record = owner.seq)"
    " INSERT INTO mayfly.entry(container, hash, record, number, digest, key)"
    " SELECT $1, hash, seq, $2, digest, key"
    " FROM unnest($5::bigint[], $6::bigint[], $7::bigint[], $8::bytea[]) AS wanted(hash, seq, digest, key)"
)


async def replace_entries(connection: Connection, change: interface.ReplaceEntries) -> None:
    hashes = [hash_number(record.partition) for record, _ in change.entries]
    seqs = [record.seq for record, _ in change.entries]
    owners = [n for n, (_, keys) in enumerate(change.entries) for _ in keys]
    keys = [key for _, keys in change.entries for key in keys]
    wanted = ([hashes[n] for n in owners], [seqs[n] for n in owners], list(map(digest, keys)), keys)
    await connection.execute(_LINK, change.container, change.index, hashes, seqs, *wanted)


_UNLINK = (
    "WITH gone AS (DELETE FROM mayfly.entry e USING (SELECT hash, record, key FROM mayfly.entry"
    f" WHERE container = $1 AND number = $2 AND number >= {FIRST_ORDERED} LIMIT $3) AS chosen"
    " WHERE e.container = $1 AND e.number = $2 AND e.hash = chosen.hash AND e.record = chosen.record AND e.key = chosen.key"
    " RETURNING 1)"
    " SELECT count(*) FROM gone"
)


async def remove_entries(connection: Connection, change: interface.RemoveEntries) -> interface.Purged:
    return interface.Purged(await connection.fetchval(_UNLINK, change.container, change.index, change.limit), 0)


async def set_number(connection: Connection, change: interface.SetNumber) -> None:
    await connection.execute(
        "INSERT INTO mayfly.setting AS s(name, value) VALUES($1, $2) ON CONFLICT(name) DO UPDATE"
        " SET value = CASE WHEN $3 THEN greatest(s.value, excluded.value) ELSE excluded.value END",
        change.name,
        change.value,
        change.rising,
    )


async def trim(connection: Connection, change: interface.TrimEvents) -> None:
    await connection.execute(
        "DELETE FROM mayfly.expiry WHERE id IN (SELECT id FROM mayfly.expiry WHERE id <= $1 ORDER BY id LIMIT $2)",
        min(change.upto, INTEGER_LIMIT),
        change.limit,
    )
