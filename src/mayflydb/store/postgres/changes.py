"""Changes of many records at once, each by one statement: no record that a purge removes passes through Python."""

from __future__ import annotations

from functools import cache
from itertools import count

from mayflydb.model.due import DuePath, Path, instant_key
from mayflydb.model.instant import SECOND, Instant
from mayflydb.model.order import FIRST_ORDERED
from mayflydb.model.record import Kind
from mayflydb.store import interface
from mayflydb.store.postgres import citus, history
from mayflydb.store.postgres.reads import NOT_SPARED, PATHS, Connection, digest, spared_numbers
from mayflydb.store.postgres.schema import DATE
from mayflydb.store.postgres.write_batch import EVENT
from mayflydb.store.rows import ANCHOR_LIMIT, INTEGER_LIMIT, clamp, fit, hash_number


def _removal(source: str, chosen: str, order: str, returned: str, distributed: bool) -> str:
    """The parts of a statement that remove the records which `chosen` selects, and their entries; `gone` has the removed rows.

    `source`: the anchor as `began`, and the tables that are joined with records `r`. A row's place (ctid) is the quickest way to
    find it again. Citus does not support it; there a row is found by its key, on the condition that its lsn is the same.
    """
    place, same = ("r.ctid AS place, seq", "r.ctid = chosen.place")
    if distributed:
        place = "r.hash, seq, lsn"
        same = "r.container = $1 AND r.hash = chosen.hash AND r.seq = chosen.seq AND r.lsn = chosen.lsn"
    began, joined = source.split(" FROM ")
    return (
        f"WITH chosen AS MATERIALIZED (SELECT {place}, octet_length(value) AS size, {began} AS began,"
        f" row_number() OVER (ORDER BY {order}) AS n FROM {joined} WHERE r.container = $1 AND {chosen}),"
        f" gone AS (DELETE FROM mayfly.record r USING chosen WHERE {same}"
        f" RETURNING r.hash, r.seq, chosen.n, chosen.size, chosen.began{returned}),"
        " unlinked AS (DELETE FROM mayfly.entry e USING gone"
        " WHERE e.container = $1 AND e.hash = gone.hash AND e.record = gone.seq)"
    )


_REMEMBERED = (
    f", remembered AS ({history.ADD} SELECT $1, hash, '{Kind.EXPIRE.value}', $4 + n, $9, partition, key, seq, lsn,"
    " {0}, NULL FROM gone)"
)

_ENTRY = (
    "mayfly.entry {0} ON {0}.container = r.container AND {0}.hash = r.hash AND {0}.record = r.seq AND {0}.number = {1}"
)


@cache
def _purge(
    path: DuePath | None,
    competing: tuple[tuple[DuePath | None, bool], ...],
    distributed: bool,
    told: bool,
    full: bool,
    spares: bool,
) -> str:
    """The statement for a due path, None for a slot; `competing`: the paths of the competing rules, and which win ties.

    `told`: expiries are versions in the history too; `full`: with a stamp (the last argument but `spares`) and the record's
    value. `spares`: the last argument has the identity numbers of records that stay.
    """
    numbers = count(11)
    if path is None:
        value, order = DATE.format("e.key"), "e.key, e.record"
        condition = f"e.number >= {FIRST_ORDERED} AND e.key <= $2"
        source = f"{value} FROM mayfly.record r JOIN {_ENTRY.format('e', f'${next(numbers)}::integer')}"
    else:
        value, condition = PATHS[path]
        order = f"{value}, seq"
        condition = f"{condition} AND {value} <= $2"
        source = "anchor FROM mayfly.record r"
    for n, (other, wins_tie) in enumerate(competing):
        if other is None:
            there = DATE.format(f"o{n}.key")
            source += f" LEFT JOIN {_ENTRY.format(f'o{n}', f'${next(numbers)}::integer')}"
        else:
            there = f"CASE WHEN {PATHS[other][1]} THEN {PATHS[other][0]} END"
        theirs = f"greatest({there}::numeric + ${next(numbers)}::bigint, ${next(numbers)}::bigint)"
        own = f"greatest({value}::numeric + coalesce($7::bigint, 0), $8::bigint)"
        # `greatest` passes NULL by, and who is not on the other path does not die there.
        condition += f" AND ({there} IS NULL OR {theirs} {'>' if wins_tie else '>='} {own})"
    value_of_line = f"${next(numbers)}::bytea || value" if full else "''"
    if spares:
        condition += f" AND r.{NOT_SPARED.format(f'${next(numbers)}')}"
    due = f"{condition} ORDER BY {order} LIMIT $3"
    returned = ", r.partition, r.key, r.lsn, r.override" + (", r.value" if full else "")
    return (
        _removal(source, due, order, returned, distributed)
        + (_REMEMBERED.format(value_of_line) if told else "")
        + ", numbered AS (UPDATE mayfly.meta SET value = value + (SELECT count(*) FROM chosen) WHERE name = 'events'"
        " RETURNING value - (SELECT count(*) FROM chosen) AS before),"
        f" told AS ({EVENT} SELECT numbered.before + n, hash, $1, partition, key, lsn, $4 + n, began, override, $5, $6,"
        f" greatest(least(began::numeric + coalesce($7::bigint, override * {SECOND}), {INTEGER_LIMIT})::bigint, $8),"
        " $9, $10 FROM gone, numbered) SELECT count(*), coalesce(sum(size), 0) FROM gone"
    )


async def purge(connection: Connection, change: interface.Purge, lsn: int, distributed: bool) -> interface.Purged:
    """Remove due records, as `Purge`. `lsn`: the container's last one; the events take those that follow."""
    if distributed:
        await citus.lock(connection, [citus.EVENTS])
    competing = tuple((_kind(rule.path), rule.wins_tie) for rule in change.competing)
    more = [change.path] if isinstance(change.path, int) else []
    for rule in change.competing:
        more += [rule.path] if isinstance(rule.path, int) else []
        more += [clamp(rule.span or 0), _floor(rule)]
    full = change.history and change.stamp is not None
    records, size = await connection.fetchrow(
        _purge(_kind(change.path), competing, distributed, change.history, full, bool(change.spared)),
        change.container,
        instant_key(change.upto) if isinstance(change.path, int) else fit(change.upto),
        change.limit,
        lsn,
        change.cause,
        change.rule_version,
        None if change.span is None else clamp(change.span),
        _floor(change),
        change.purged,
        change.how,
        *more,
        *([change.stamp] if full else []),
        *([spared_numbers(change.spared)] if change.spared else []),
    )
    return interface.Purged(records, int(size))


def _kind(path: Path) -> DuePath | None:
    return None if isinstance(path, int) else path


def _floor(way: interface.Purge | interface.CompetingRule) -> Instant:
    return -ANCHOR_LIMIT * 2 if way.not_before is None else clamp(way.not_before)


_CLEAR = {
    distributed: _removal("NULL::bigint FROM mayfly.record r", "true ORDER BY seq LIMIT $2", "seq", "", distributed)
    + " SELECT count(*), coalesce(sum(size), 0) FROM gone"
    for distributed in (False, True)
}


async def clear(connection: Connection, change: interface.ClearDropped, distributed: bool) -> interface.Purged:
    # The row in `dropped` is also the lock: two nodes must not clear the same container at once.
    await connection.execute("SELECT 1 FROM mayfly.dropped WHERE container = $1 FOR UPDATE", change.container)
    records, size = await connection.fetchrow(_CLEAR[distributed], change.container, change.limit)
    purged = interface.Purged(records, int(size))
    if not records:
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
