"""Statements of YQL that change the scheme."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from mayflydb.frontends.ydb.calls import GrpcCall
from mayflydb.frontends.ydb.schemes import ddl
from mayflydb.query.yql.definitions import Definition, ShowCreate
from mayflydb.query.yql.faults import Fault, Issue
from mayflydb.query.yql.parser import parse
from mayflydb.query.yql.statements import Pragma
from ydb_queries import accounts_of


def run(place: Any, text: str, prefix: str | None = None) -> list[Any]:
    """The rows that SHOW CREATE gives, if there is any."""
    rows = []
    call = GrpcCall("/local", place.now)
    accounts = accounts_of(place.engine)
    for each in parse(text).statements:
        if isinstance(each, Pragma):
            prefix = each.values[0]
        elif isinstance(each, ShowCreate):
            rows.append(place.run(ddl.show_create(place.schemes, call, each, prefix)))
        elif isinstance(each, DEFINITIONS):
            place.run(ddl.execute_definition(place.schemes, accounts, call, each, prefix))
        else:
            raise AssertionError(each)
    return rows


def refused(place: Any, text: str) -> tuple[str, list[str]]:
    """(status, texts from the outermost issue inwards)."""
    with pytest.raises(Fault) as caught:
        run(place, text)
    return caught.value.status, chain(caught.value.issues)


def chain(issues: tuple[Issue, ...]) -> list[str]:
    return [issues[0].message, *chain(issues[0].issues)] if issues else []


DEFINITIONS = get_args(Definition)

TABLE = "CREATE TABLE `mytable` (id Uint64, created_at Timestamp, n Uint32, s Utf8, PRIMARY KEY (id))"
TIMED = """CREATE TABLE `mytable` (id Uint64, expire_at Timestamp, PRIMARY KEY (id))
WITH (TTL = Interval("PT0S") ON expire_at);"""


def ttl_of(place: Any, path: str = "/local/mytable") -> tuple[str, int, str | None] | None:
    ttl = place.run(place.schemes.get_table(path)).body.ttl
    return None if ttl is None else (ttl.column, ttl.expire_after, ttl.unit)


def test_the_statements_that_everybody_writes(place: Any) -> None:
    run(place, TABLE)
    run(place, 'ALTER TABLE `mytable` SET (TTL = Interval("PT1H") ON created_at);')
    assert ttl_of(place) == ("created_at", 3600, None)
    run(place, "ALTER TABLE `mytable` RESET (TTL);")
    assert ttl_of(place) is None
    run(place, "ALTER TABLE `mytable` RESET (TTL);")
    run(place, 'ALTER TABLE mytable SET TTL Interval("P1D") DELETE ON n AS SECONDS')
    assert ttl_of(place) == ("n", 86400, "SECONDS")
    run(place, "DROP TABLE mytable")
    run(place, TIMED)
    assert ttl_of(place) == ("expire_at", 0, None)


INTERVALS = [
    ("P1W", 604800),
    ("P2W3D", 17 * 86400),
    ("P1DT2H30M15S", 95415),
    ("PT90M", 5400),
    ("PT3600S", 3600),
    ("PT1000000000S", 1000000000),
    ("P0D", 0),
    ("PT0S", 0),
    ("PT1.5S", 1),
    ("PT0.000001S", 0),
]


@pytest.mark.parametrize(("text", "seconds"), INTERVALS)
def test_intervals(place: Any, text: str, seconds: int) -> None:
    run(place, TABLE)
    run(place, f'ALTER TABLE mytable SET (TTL = Interval("{text}") ON created_at)')
    assert ttl_of(place) == ("created_at", seconds, None)


MALFORMED = ["P1M", "P1Y", "p1d", "P1D ", "P", "PT", "P1DT", "PT1H1H", "P1D1W", "P1.5D", "P49673D", "30 days"]
NO_LITERAL = ["1", '"P1D"', "DateTime::IntervalFromDays(1)", "$p", "Interval($p)", "Date('2020-01-01')"]


@pytest.mark.parametrize("before", [True, False], ids=["alter", "create"])
@pytest.mark.parametrize("text", MALFORMED)
def test_malformed_intervals(place: Any, text: str, before: bool) -> None:
    expected = ("GENERIC_ERROR", [f'Invalid value "{text}" for type Interval'])
    assert refused(place, with_ttl(place, f'Interval("{text}")', before)) == expected


@pytest.mark.parametrize("before", [True, False], ids=["alter", "create"])
@pytest.mark.parametrize("text", NO_LITERAL)
def test_what_is_no_interval_literal(place: Any, text: str, before: bool) -> None:
    statement = with_ttl(place, text, before)
    with pytest.raises(Fault) as caught:
        run(place, statement)
    assert caught.value.status == "GENERIC_ERROR"
    assert [issue.message for issue in caught.value.issues] == [
        "Literal of Interval type is expected for TTL",
        "Invalid TTL settings",
    ]


def with_ttl(place: Any, interval: str, alter: bool, column: str = "created_at") -> str:
    if not alter:
        return f"{TABLE} WITH (TTL = {interval} ON {column})"
    run(place, TABLE)
    return f"ALTER TABLE mytable SET (TTL = {interval} ON {column})"


LONG = "TTL should be less than 1893456000 seconds (21915 days, 60 years). The ttl behaviour is undefined before 1970."
TTL_REFUSED = [
    ('Interval("-P1D")', "created_at", "GENERIC_ERROR", "GENERIC_ERROR", "Interval value cannot be negative"),
    ('Interval("P1D")', "x", "SCHEME_ERROR", "BAD_REQUEST", "Cannot enable TTL on unknown column: 'x'"),
    ('Interval("P1D")', "s", "SCHEME_ERROR", "BAD_REQUEST", "Unsupported column type"),
    (
        'Interval("P49672DT23H59M59S")',
        "created_at",
        "SCHEME_ERROR",
        "BAD_REQUEST",
        LONG,
    ),
    (
        'Interval("P1D") TO EXTERNAL DATA SOURCE `s3`, Interval("P2D") DELETE',
        "created_at",
        "SCHEME_ERROR",
        "BAD_REQUEST",
        "Only DELETE via TTL is allowed for row-oriented tables",
    ),
    (
        'Interval("P1D"), Interval("P2D") DELETE',
        "created_at",
        "SCHEME_ERROR",
        "BAD_REQUEST",
        "Tier 0: only the last tier in TTL settings can have Delete action",
    ),
]


@pytest.mark.parametrize(("interval", "column", "create", "alter", "text"), TTL_REFUSED)
def test_ttl_that_cannot_be(place: Any, interval: str, column: str, create: str, alter: str, text: str) -> None:
    status, texts = refused(place, with_ttl(place, interval, False, column))
    assert (status, texts[-1]) == (create, text)
    status, texts = refused(place, with_ttl(place, interval, True, column))
    assert (status, texts[-1]) == (alter, text)


NO_TABLE = (
    "Cannot find table 'db.[/local/none]' because it does not exist or you do not have access permissions. "
    "Please check correctness of table path and user permissions."
)
REFUSED = [
    ("CREATE TABLE t (id Uint64)", "GENERIC_ERROR", ["Primary key is required for ydb tables."]),
    (
        "CREATE TABLE t (id Uint64, PRIMARY KEY (x))",
        "SCHEME_ERROR",
        ["Execution", "Executing CREATE TABLE", "Unknown column 'x' specified in key column list"],
    ),
    (
        "DROP TABLE none",
        "SCHEME_ERROR",
        [
            "Table metadata loading",
            NO_TABLE,
        ],
    ),
    ("CREATE TABLE t (id Nothing, PRIMARY KEY (id))", "GENERIC_ERROR", ["Unknown type: 'Nothing'"]),
    (
        "CREATE TABLE t (id Uint64, PRIMARY KEY (id)) WITH (NO_SUCH = 1)",
        "GENERIC_ERROR",
        ["Unknown table setting: NO_SUCH"],
    ),
    (
        "CREATE TABLE t (id Uint64, PRIMARY KEY (id)) WITH (AUTO_PARTITIONING_BY_SIZE = 7)",
        "GENERIC_ERROR",
        ["AUTO_PARTITIONING_BY_SIZE value should be one of: ENABLED, DISABLED"],
    ),
    (
        "CREATE TEMPORARY TABLE t (id Uint64, PRIMARY KEY (id))",
        "GENERIC_ERROR",
        ["CREATE TEMPORARY TABLE in a scheme query is not supported"],
    ),
    (
        "CREATE TABLE t (id Uint64, d Int32 DEFAULT 'x', PRIMARY KEY (id))",
        "GENERIC_ERROR",
        ["Failed to convert default value: String to Optional<Int32>"],
    ),
    (
        "CREATE VIEW v AS SELECT 1",
        "GENERIC_ERROR",
        ["CREATE VIEW statement must be created WITH (security_invoker = TRUE)"],
    ),
]


@pytest.mark.parametrize(("text", "status", "texts"), REFUSED)
def test_what_cannot_be(place: Any, text: str, status: str, texts: list[str]) -> None:
    assert refused(place, text) == (status, texts)


def test_a_table_that_is_there(place: Any) -> None:
    run(place, TABLE)
    status, texts = refused(place, TABLE)
    assert status == "SCHEME_ERROR"
    assert texts[:2] == ["Execution", "Executing CREATE TABLE"]
    assert texts[2].endswith(" path exist, request accepts it")
    before = place.run(place.schemes.get_table("/local/mytable")).node.id
    run(place, TABLE.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS"))
    assert place.run(place.schemes.get_table("/local/mytable")).node.id == before
    run(place, TABLE.replace("CREATE TABLE", "CREATE OR REPLACE TABLE"))
    assert place.run(place.schemes.get_table("/local/mytable")).node.id != before
    run(place, "DROP TABLE IF EXISTS none; DROP TABLE IF EXISTS mytable")
    assert place.run(place.schemes.find("/local/mytable")) is None


def test_paths_follow_the_prefix(place: Any) -> None:
    run(place, 'PRAGMA TablePathPrefix("/Root/a"); CREATE TABLE `b/c` (id Uint64, PRIMARY KEY (id))')
    run(place, 'PRAGMA TablePathPrefix = "x"; CREATE TABLE c (id Uint64, PRIMARY KEY (id))')
    assert sorted(view.table.path for view in place.run(place.schemes.tables())) == ["/Root/a/b/c", "/local/x/c"]


def test_changes(place: Any) -> None:
    run(place, TABLE)
    run(place, "ALTER TABLE mytable ADD COLUMN a Int32, ADD COLUMN b Utf8 NOT NULL DEFAULT 'x'u, DROP COLUMN s")
    run(place, "ALTER TABLE mytable ADD INDEX i GLOBAL ON (n) COVER (a)")
    view = place.run(place.schemes.get_table("/local/mytable"))
    assert [(each.name, str(each.type), each.default) for each in view.table.columns] == [
        ("id", "Uint64?", None),
        ("created_at", "Timestamp?", None),
        ("n", "Uint32?", None),
        ("a", "Int32?", None),
        ("b", "Utf8", "x"),
    ]
    assert [(each.name, each.columns, each.cover, each.ready) for each in view.table.indexes] == [
        ("i", ("n",), ("a",), True)
    ]
    run(place, "ALTER TABLE mytable RENAME INDEX i TO j")
    run(place, "ALTER TABLE mytable DROP INDEX j, SET (AUTO_PARTITIONING_BY_LOAD = ENABLED)")
    view = place.run(place.schemes.get_table("/local/mytable"))
    assert (view.table.indexes, view.body.settings) == ((), {"AUTO_PARTITIONING_BY_LOAD": "ENABLED"})
    run(place, "ALTER TABLE mytable RENAME TO `d/other`")
    assert place.run(place.schemes.get_table("/local/d/other")).node.id == view.node.id


DEFAULTS = [
    ("Int32", "-5", -5, "-5"),
    ("Uint64", "5", 5, "5"),
    ("Bool", "true", True, "true"),
    ("Utf8", "'a\"b'u", 'a"b', '"a\\"b"u'),
    ("String", "'a\\xff'", b"a\xff", '"a\\xff"'),
    ("Timestamp", 'Timestamp("2020-01-01T00:00:00Z")', 1577836800000000, 'Timestamp("2020-01-01T00:00:00Z")'),
    ("Decimal(22,9)", 'Decimal("1.5", 22, 9)', 1500000000, 'Decimal("1.5",22,9)'),
    ("Double", "1.5", 1.5, 'Double("1.5")'),
    ("Interval", 'Interval("P1D")', 86400000000, 'Interval("P1D")'),
]


@pytest.mark.parametrize(("type", "literal", "value", "kept"), DEFAULTS)
def test_defaults(place: Any, type: str, literal: str, value: Any, kept: str) -> None:
    run(place, f"CREATE TABLE t (id Uint64, d {type} DEFAULT {literal}, PRIMARY KEY (id))")
    view = place.run(place.schemes.get_table("/local/t"))
    assert (view.table.columns[1].default, view.body.columns[1].default) == (value, kept)
    ((shown, _, _),) = run(place, "SHOW CREATE TABLE t")
    run(place, "DROP TABLE t")
    run(place, shown)
    assert place.run(place.schemes.get_table("/local/t")).table.columns[1].default == value


SHOWN = """CREATE TABLE `shop/t` (
    `id` Uint64 NOT NULL,
    `at` Timestamp,
    `v` Utf8 FAMILY `cold`,
    INDEX `i` GLOBAL SYNC ON (`at`) COVER (`v`),
    INDEX `u` GLOBAL UNIQUE SYNC ON (`v`),
    FAMILY `cold` (DATA = 'ssd'),
    PRIMARY KEY (`id`)
)
WITH (
    AUTO_PARTITIONING_BY_SIZE = ENABLED,
    UNIFORM_PARTITIONS = 4,
    READ_REPLICAS_SETTINGS = 'PER_AZ:1',
    TTL = INTERVAL('P7D') DELETE ON at
);
"""


def test_what_is_shown_makes_the_same_table(place: Any) -> None:
    run(place, SHOWN)
    first = place.run(place.schemes.get_table("/local/shop/t"))
    assert run(place, "SHOW CREATE TABLE `shop/t`") == [(SHOWN, "shop/t", "Table")]
    run(place, "DROP TABLE `shop/t`")
    run(place, SHOWN)
    second = place.run(place.schemes.get_table("/local/shop/t"))
    assert (second.body, second.table.indexes) == (first.body, first.table.indexes)


SPANS = [(604800, "P7D"), (10**9, "P11574DT1H46M40S"), (0, "PT0S"), (3600, "PT1H"), (86461, "P1DT1M1S")]


@pytest.mark.parametrize(("seconds", "text"), SPANS)
def test_spans_are_shown(place: Any, seconds: int, text: str) -> None:
    run(place, f'{TABLE} WITH (TTL = Interval("PT{seconds}S") ON n AS MILLISECONDS)')
    ((shown, _, _),) = run(place, "SHOW CREATE TABLE mytable")
    assert f"    TTL = INTERVAL('{text}') DELETE ON n AS MILLISECONDS\n" in shown


def test_views(place: Any) -> None:
    run(place, "CREATE VIEW v WITH (security_invoker = TRUE) AS SELECT 1 AS a")
    ((shown, path, kind),) = run(place, "SHOW CREATE VIEW v")
    assert (shown, path, kind) == (
        "CREATE VIEW `v` WITH (security_invoker = TRUE) AS\nSELECT 1 AS a;\n",
        "v",
        "View",
    )
    assert refused(place, "CREATE VIEW v WITH (security_invoker = TRUE) AS SELECT 1")[0] == "SCHEME_ERROR"
    run(place, "CREATE VIEW IF NOT EXISTS v WITH (security_invoker = TRUE) AS SELECT 1")
    assert list(place.run(place.schemes.schemas(["/local/v"]))) == ["/local/v"]
    run(place, "DROP VIEW v; DROP VIEW IF EXISTS v")
    assert place.run(place.schemes.find("/local/v")) is None


def test_grants_are_kept(place: Any) -> None:
    run(place, TABLE)
    run(place, "GRANT SELECT ROW, 'ydb.granular.update_row' ON mytable TO alice, bob; REVOKE ALL ON mytable FROM bob")
    view = place.run(place.schemes.get_table("/local/mytable"))
    assert view.body.permissions == {"alice": ("ydb.granular.select_row", "ydb.granular.update_row")}
