"""TTL settings through the client: what is taken and read back, and what is refused, by statements and by calls alike."""

from __future__ import annotations

from typing import Any

import pytest

from ydb_world import T, YdbWorld

COLUMNS = (
    "id Uint64, at Timestamp, day Date, d32 Date32, dt Datetime, dt64 Datetime64, t64 Timestamp64, u32 Uint32, u64 Uint64,"
    " dy DyNumber, i32 Int32, i64 Int64, s Utf8, b String, f Double, fl Float, bo Bool, iv Interval, j Json"
)
DATES = ("at", "day", "d32", "dt", "dt64", "t64")
COUNTS = ("u32", "u64", "dy")
OTHERS = ("i32", "i64", "s", "b", "f", "fl", "bo", "iv", "j")
UNITS = ("SECONDS", "MILLISECONDS", "MICROSECONDS", "NANOSECONDS")

CREATE = f"CREATE TABLE t ({COLUMNS}, PRIMARY KEY (id))"
DATE_MODE = "To enable TTL on date type column 'DateTypeColumnModeSettings' should be specified"
COUNT_MODE = "To enable TTL on integral type column 'ValueSinceUnixEpochModeSettings' should be specified"
TYPE = "Unsupported column type"
LONG = f"TTL should be less than {T} seconds (21915 days, 60 years). The ttl behaviour is undefined before 1970."
NO_LITERAL = "Literal of Interval type is expected for TTL"
UNIT = "mismatched input 'PICOSECONDS' expecting {MICROSECONDS, MILLISECONDS, NANOSECONDS, SECONDS}"

CREATING, ALTERING = "SCHEME_ERROR", "BAD_REQUEST"
GENERIC = ("GENERIC_ERROR", "GENERIC_ERROR")
JUDGED = (CREATING, ALTERING)

STATEMENTS: list[tuple[str, tuple[str, str], str]] = [
    # Rules 1 to 4 and 7 to 14: settings, the status of CREATE and of ALTER, the text.
    ("1 ON at", GENERIC, NO_LITERAL),
    ('"P1D" ON at', GENERIC, NO_LITERAL),
    ("DateTime::IntervalFromDays(1) ON at", GENERIC, NO_LITERAL),
    ("$p ON at", GENERIC, NO_LITERAL),
    *(
        (f'Interval("{text}") ON at', GENERIC, f'Invalid value "{text}" for type Interval')
        for text in ("P1M", "P1Y", "p1d", "P1D ", "P", "PT", "P1DT", "PT1H1H", "P1D1W", "P1.5D", "P49673D", "30 days")
    ),
    ('Interval("-P1D") ON at', GENERIC, "Interval value cannot be negative"),
    ('Interval("P1D") ON u64 AS PICOSECONDS', GENERIC, UNIT),
    ('Interval("P1D") ON x', JUDGED, "Cannot enable TTL on unknown column: 'x'"),
    *((f'Interval("P1D") ON {column} AS {UNITS[0]}', JUDGED, DATE_MODE) for column in DATES),
    *((f'Interval("P1D") ON {column}', JUDGED, COUNT_MODE) for column in COUNTS),
    *((f'Interval("P1D") ON {column}', JUDGED, TYPE) for column in OTHERS),
    *((f'Interval("P1D") ON {column} AS {UNITS[1]}', JUDGED, TYPE) for column in OTHERS),
    ('Interval("P49672DT23H59M59S") ON at', JUDGED, LONG),
    (f'Interval("PT{T + 1}S") ON at', JUDGED, LONG),
    (
        'Interval("P1D") TO EXTERNAL DATA SOURCE `s3`, Interval("P2D") DELETE ON at',
        JUDGED,
        "Only DELETE via TTL is allowed for row-oriented tables",
    ),
    (
        'Interval("P1D"), Interval("P2D") DELETE ON at',
        JUDGED,
        "Tier 0: only the last tier in TTL settings can have Delete action",
    ),
]


def test_statements_that_are_refused(world: YdbWorld) -> None:
    """By the query service, and as a scheme query of the table service."""
    query, scheme = world.pool.execute_with_retries, world.session.execute_scheme
    for settings, (creating, _), text in STATEMENTS:
        for ask in (query, scheme):
            status, texts = world.refused(ask, f"{CREATE} WITH (TTL = {settings})")
            assert (status, text in texts) == (creating, True), (settings, texts)
    world.do(CREATE)
    for settings, (_, altering), text in STATEMENTS:
        for ask in (query, scheme):
            status, texts = world.refused(ask, f"ALTER TABLE t SET (TTL = {settings})")
            assert (status, text in texts) == (altering, True), (settings, texts)
    assert world.described("t").ttl_settings is None


def test_columns_of_a_change(world: YdbWorld) -> None:
    """Rules 8 and 15, and what is allowed beside them."""
    world.do(f'{CREATE} WITH (TTL = Interval("PT1H") ON at)')
    alter = world.session.alter_table
    query = world.pool.execute_with_retries
    said = ("BAD_REQUEST", "Can't drop TTL column: 'at', disable TTL first")
    status, texts = world.refused(query, "ALTER TABLE t DROP COLUMN at")
    assert (status, texts.splitlines()[-1]) == said
    status, texts = world.refused(alter, "/local/t", drop_columns=["at"])
    assert (status, texts.splitlines()[-1]) == said
    ttl = world.ydb.TtlSettings()
    status, texts = world.refused(
        alter, "/local/t", drop_columns=["day"], set_ttl_settings=ttl.with_date_type_column("day")
    )
    assert (status, texts.splitlines()[-1]) == ("BAD_REQUEST", "Cannot enable TTL on dropped column: 'day'")
    # A column that the same change adds may say when rows die; one that TTL has let go may be dropped.
    column = world.ydb.Column("new", world.ydb.OptionalType(world.ydb.DataType.Timestamp))
    alter("/local/t", add_columns=[column], set_ttl_settings=world.ydb.TtlSettings().with_date_type_column("new", 5))
    assert world.described("t").ttl_settings.date_type_column.column_name == "new"
    world.do("ALTER TABLE t DROP COLUMN at", "ALTER TABLE t RESET (TTL)", "ALTER TABLE t DROP COLUMN new")
    alter("/local/t", drop_ttl_settings=True)
    assert world.described("t").ttl_settings is None


INTERVALS = [
    ("P1W", 604800, "P7D"),
    ("P2W3D", 1468800, "P17D"),
    ("P1DT2H30M15S", 95415, "P1DT2H30M15S"),
    ("PT90M", 5400, "PT1H30M"),
    ("PT3600S", 3600, "PT1H"),
    ("PT1000000000S", 10**9, "P11574DT1H46M40S"),
    ("P0D", 0, "PT0S"),
    ("PT0S", 0, "PT0S"),
    ("PT1.5S", 1, "PT1S"),
    ("PT0.000001S", 0, "PT0S"),
]


def test_intervals_that_are_taken(world: YdbWorld) -> None:
    world.do(CREATE)
    for n, (literal, seconds, shown) in enumerate(INTERVALS):
        world.do(f'ALTER TABLE t SET (TTL = Interval("{literal}") ON at)')
        assert world.described("t").ttl_settings.date_type_column.expire_after_seconds == seconds
        assert f"TTL = INTERVAL('{shown}') DELETE ON at" in created(world, "t")
        world.do(
            f'CREATE TABLE `new{n}` (id Uint64, at Date, PRIMARY KEY (id)) WITH (TTL = Interval("{literal}") ON at)'
        )
        assert world.described(f"new{n}").ttl_settings.date_type_column.expire_after_seconds == seconds
    world.do(f'ALTER TABLE t SET (TTL = Interval("PT{T}S") ON at)')
    assert world.described("t").ttl_settings.date_type_column.expire_after_seconds == T


def created(world: YdbWorld, table: str) -> str:
    """The statement that would make a table anew."""
    ((text, *_),) = world.rows(f"SHOW CREATE TABLE `{table}`")
    return text if isinstance(text, str) else text.decode()


FORMS = [
    "ALTER TABLE t SET (TTL = Interval('PT1H') {on})",
    "ALTER TABLE t SET (TTL = Interval('PT1H') DELETE {on})",
    "ALTER TABLE t SET TTL Interval('PT1H') {on}",
]


def test_forms_and_what_describes_them(world: YdbWorld) -> None:
    """Every column that may, in every unit and form; what `SHOW CREATE` shows makes the same table again."""
    world.do(CREATE)
    columns: list[tuple[str, str | None]] = [(column, None) for column in DATES]
    columns += [(column, unit) for column in COUNTS for unit in UNITS]
    for n, (column, unit) in enumerate(columns):
        on = f"ON {column}" + (f" AS {unit}" if unit else "")
        world.do(FORMS[n % len(FORMS)].format(on=on))
        assert setting(world, "t") == (column, None if unit is None else UNITS.index(unit) + 1, 3600)
        text = created(world, "t")
        world.do(text.replace("`t`", f"`again{n}`"))
        assert setting(world, f"again{n}") == setting(world, "t")
        world.do("ALTER TABLE t RESET (TTL)")
        assert (world.described("t").ttl_settings, "TTL" in created(world, "t")) == (None, False)
        world.do("ALTER TABLE t RESET (TTL)")


def setting(world: YdbWorld, table: str) -> tuple[str, int | None, int]:
    """(column, unit, seconds) as the table service tells them."""
    ttl: Any = world.described(table).ttl_settings
    if ttl.date_type_column is not None:
        return ttl.date_type_column.column_name, None, ttl.date_type_column.expire_after_seconds
    mode = ttl.value_since_unix_epoch
    return mode.column_name, mode.column_unit, mode.expire_after_seconds


@pytest.mark.parametrize("way", ["create", "alter"])
def test_calls_that_are_refused(world: YdbWorld, way: str) -> None:
    """Rules 6, 7 and 9 to 12 by calls of the table service."""
    ydb = world.ydb
    if way == "alter":
        world.do(CREATE)

    def ask(ttl: Any) -> tuple[str, str]:
        if way == "alter":
            return world.refused(world.session.alter_table, "/local/t", set_ttl_settings=ttl)
        described = ydb.TableDescription().with_primary_key("id").with_ttl(ttl)
        for name, kind in (("id", "Uint64"), ("at", "Timestamp"), ("n", "Uint64"), ("s", "Utf8")):
            described = described.with_column(ydb.Column(name, ydb.OptionalType(getattr(ydb.PrimitiveType, kind))))
        return world.refused(world.session.create_table, "/local/made", described)

    judged = ALTERING if way == "alter" else CREATING
    number = "u64" if way == "alter" else "n"
    rows = [
        (ydb.TtlSettings().with_value_since_unix_epoch(number, 0), "UNSUPPORTED", "Unsupported unit: 0"),
        (ydb.TtlSettings().with_date_type_column("x"), judged, "Cannot enable TTL on unknown column: 'x'"),
        (ydb.TtlSettings().with_value_since_unix_epoch("at", 1), judged, DATE_MODE),
        (ydb.TtlSettings().with_date_type_column(number), judged, COUNT_MODE),
        (ydb.TtlSettings().with_date_type_column("s"), judged, TYPE),
        (ydb.TtlSettings().with_date_type_column("at", 2**32 - 1), judged, LONG),
    ]
    for ttl, status, text in rows:
        found, texts = ask(ttl)
        assert (found, texts.splitlines()[-1]) == (status, text)
