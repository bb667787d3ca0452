"""When rows die: every type of a TTL column, in every unit, at the last microsecond before, at, and behind the deadline."""

from __future__ import annotations

import pytest

from ydb_world import SECOND, T, YdbWorld, moments

NEVER = None
PAST = -1
"""Due long before the clock begins."""

TYPES = ("Date", "Date32", "Datetime", "Datetime64", "Timestamp", "Timestamp64")
COUNTS = ("Uint32", "Uint64", "DyNumber")
UNITS = ("SECONDS", "MILLISECONDS", "MICROSECONDS", "NANOSECONDS")


def at(seconds: float) -> int:
    """So many seconds behind START, in microseconds."""
    return round(seconds * SECOND)


def since_epoch(seconds: int, micros: int = 0) -> int:
    """An instant given by its seconds from the epoch, in microseconds from START; PAST where it lies before."""
    found = (seconds - T) * SECOND + micros
    return found if found >= 0 else PAST


def dated(type: str, text: str) -> str:
    """A value of a type of dates as a statement has it."""
    return f'Unwrap(CAST("{text}" AS {type}))'


def counted(type: str, value: str) -> str:
    """A value of a type of numbers."""
    return f'DyNumber("{value}")' if type == "DyNumber" else f"CAST({value}ul AS {type})"


ROWS: list[tuple[str, str, str | None, int, str, int | None]] = [
    # id, type, unit, seconds after which, value, deadline in microseconds from START
    *(("YT1", type, None, 60, dated(type, "2030-01-01"), at(60)) for type in ("Date", "Date32")),
    *(("YT2", type, None, 60, dated(type, "2030-01-01T00:01:40Z"), at(160)) for type in ("Datetime", "Datetime64")),
    *(
        ("YT2", type, None, 60, dated(type, "2030-01-01T00:01:40.000001Z"), at(160.000001))
        for type in ("Timestamp", "Timestamp64")
    ),
    *(("YT3", type, "SECONDS", 60, counted(type, f"{T}"), at(60)) for type in ("Uint32", "Uint64")),
    *(("YT3", "Uint32", unit, 60, counted("Uint32", f"{2**32 - 1}"), PAST) for unit in UNITS[1:]),
    ("YT3", "Uint64", "MILLISECONDS", 60, counted("Uint64", f"{T * 1000 + 1}"), at(60.001)),
    ("YT3", "Uint64", "MICROSECONDS", 60, counted("Uint64", f"{T * SECOND + 1}"), at(60.000001)),
    ("YT3", "Uint64", "NANOSECONDS", 60, counted("Uint64", f"{T * 10**9 + 1999}"), at(60.000001)),
    ("YT4", "DyNumber", "SECONDS", 60, counted("DyNumber", f"{T}.5"), at(61)),
    ("YT4", "DyNumber", "MILLISECONDS", 60, counted("DyNumber", f"{T * 1000}.1"), at(60.001)),
    ("YT4", "DyNumber", "MICROSECONDS", 60, counted("DyNumber", f"{T * SECOND}.1"), at(60.000001)),
    ("YT4", "DyNumber", "NANOSECONDS", 60, counted("DyNumber", f"{T * 10**9 + 1}"), at(60.000001)),
    *(("YT", type, None, 60, "NULL", NEVER) for type in TYPES),
    *(("YT", type, unit, 60, "NULL", NEVER) for type in COUNTS for unit in UNITS),
    ("YV1", "Datetime", None, 60, dated("Datetime", "1970-01-01T00:01:40Z"), PAST),
    ("YV2", "Uint64", "SECONDS", 60, counted("Uint64", "100"), PAST),
    ("YV4", "DyNumber", "SECONDS", 60, counted("DyNumber", f"{T}"), at(60)),
    ("YV4", "DyNumber", "SECONDS", 60, counted("DyNumber", "-5"), PAST),
    ("YV5", "Uint32", "SECONDS", 3600, counted("Uint32", "4294967295"), since_epoch(4294970895)),
    ("YV6", "Uint64", "SECONDS", 60, counted("Uint64", "0"), PAST),
    ("YV6", "Uint64", "SECONDS", 60, counted("Uint64", f"{2**64 - 1}"), NEVER),
    ("YV6", "Uint64", "NANOSECONDS", 60, counted("Uint64", f"{2**64 - 1}"), since_epoch(18446744133, 709551)),
    ("YV7", "Timestamp64", None, 60, dated("Timestamp64", "1969-12-31T23:59:00Z"), PAST),
    ("B7", "Datetime", None, 10, dated("Datetime", "2030-01-01T00:00:00Z"), at(10)),
    ("B7", "Uint64", "MILLISECONDS", 10, counted("Uint64", f"{T * 1000}"), at(10)),
    ("B7", "Timestamp", None, 10, dated("Timestamp", "2030-01-01T00:00:00Z"), at(10)),
    ("B8", "Uint64", "NANOSECONDS", 10, counted("Uint64", f"{T * 10**9 + 999}"), at(10)),
    ("B9", "Date", None, 0, dated("Date", "2030-01-02"), at(86400)),
    ("B9", "Date", None, 0, dated("Date", "2030-01-01"), at(0)),
    ("B9", "Date", None, 0, dated("Date", "2029-12-31"), PAST),
    ("B11", "Uint32", "SECONDS", 1, counted("Uint32", "4294967295"), since_epoch(4294967296)),
]

Place = tuple[str, int]


def made(world: YdbWorld, hides: bool) -> dict[Place, int | None]:
    """A table for each column that there can be, and its rows; when each of them dies."""
    lives: dict[Place, int | None] = {}
    tables: set[str] = set()
    for number, (_, type, unit, after, value, deadline) in enumerate(ROWS):
        table = f"{type}_{unit or ''}_{after}"
        if table not in tables:
            tables.add(table)
            counts = f" AS {unit}" if unit else ""
            world.do(
                f"CREATE TABLE `{table}` (id Uint64, at {type}, PRIMARY KEY (id))"
                f' WITH (TTL = Interval("PT{after}S") ON at{counts})'
            )
            if hides:
                world.session.alter_table(f"/local/{table}", alter_attributes={"mayfly_hide_expired": "true"})
        world.do(f"UPSERT INTO `{table}` (id, at) VALUES ({number}ul, {value})")
        lives[table, number] = deadline
    return lives


def seen(world: YdbWorld, lives: dict[Place, int | None]) -> set[Place]:
    tables = sorted({table for table, _ in lives})
    parts = [f"SELECT '{table}' AS name, id FROM `{table}`" for table in tables]
    return {(name.decode(), id) for name, id in world.rows(" UNION ALL ".join(parts))}


def alive(lives: dict[Place, int | None], now: int) -> set[Place]:
    return {place for place, ends in lives.items() if ends is None or now < ends}


# Which rows are hidden the engine decides after a store has read them.
@pytest.mark.parametrize(
    "hides", [pytest.param(False, id="show"), pytest.param(True, id="hide", marks=pytest.mark.above_stores)]
)
def test_rows_end(world: YdbWorld, hides: bool) -> None:
    """A run that starts before the deadline keeps a row, one that starts at it or later erases it; until then it is seen."""
    lives = made(world, hides)
    stored = set(lives)
    for now in moments(list(lives.values())):
        world.to(now)
        expected = alive(lives, now)
        assert seen(world, lives) == (expected if hides else stored), f"{now} us after the start"
        assert world.server.purge()["purged"] == len(stored - expected)
        stored = expected
        assert seen(world, lives) == stored
    assert stored == {place for place, ends in lives.items() if ends is None}
    assert {event.reason for event in world.server.events.expired} == {"column"}
    assert len(world.server.events.expired) == len(lives) - len(stored)


def test_nothing_is_erased_before_its_run(world: YdbWorld) -> None:
    """Runs begin at full minutes, and an hour apart."""
    world.do('CREATE TABLE t (id Uint64, at Timestamp, PRIMARY KEY (id)) WITH (TTL = Interval("PT10S") ON at)')
    world.do("UPSERT INTO t (id, at) VALUES (1, CurrentUtcTimestamp())")
    assert world.advance(59.999999) == {}
    assert world.ids("t") == [1]
    assert world.advance(0.000001) == {"t": 1}
    # Due at the very start of a run is erased by it; a microsecond later waits for the next one.
    world.do(
        "UPSERT INTO t (id, at) VALUES (2, Timestamp('2030-01-01T01:00:50Z')), (3, Timestamp('2030-01-01T01:00:50.000001Z'))"
    )
    assert world.advance(3600) == {"t": 1}
    assert world.ids("t") == [3]
    assert world.advance(3599) == {}
    assert world.advance(1) == {"t": 1}
