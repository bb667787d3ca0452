"""Small programs with the vendor's client, from the first directory to the last row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mayflydb.embedded import RunningServer

pytestmark = pytest.mark.short

ydb: Any = pytest.importorskip("ydb")

UINT64, UTF8 = ydb.PrimitiveType.Uint64, ydb.PrimitiveType.Utf8
COMMIT = {"commit_tx": True}


def table(key: str, **columns: str) -> Any:
    """A description of a table; `key`: names with blanks between them."""
    described = ydb.TableDescription().with_primary_keys(*key.split())
    for name, kind in columns.items():
        described = described.with_column(ydb.Column(name, ydb.OptionalType(getattr(ydb.PrimitiveType, kind))))
    return described


class Program:
    """A directory of its own, and a pool of each service."""

    def __init__(self, driver: Any, tables: Any, queries: Any, home: str) -> None:
        self.driver, self.tables, self.queries = driver, tables, queries
        self.home = f"/local/flows/{home}"
        driver.scheme_client.make_directory("/local/flows")
        driver.scheme_client.make_directory(self.home)

    def make(self, name: str, described: Any) -> None:
        self.tables.retry_operation_sync(lambda session: session.create_table(f"{self.home}/{name}", described))

    def ask(self, text: str, **parameters: Any) -> list[list[dict[str, Any]]]:
        """The rows of each result set of a query that is prepared, by the table service."""
        whole = f'PRAGMA TablePathPrefix("{self.home}");\n{text}'
        given = {f"${name}": value for name, value in parameters.items()}

        def work(session: Any) -> Any:
            return session.transaction(ydb.SerializableReadWrite()).execute(session.prepare(whole), given, **COMMIT)

        return [[dict(row) for row in each.rows] for each in self.tables.retry_operation_sync(work)]


@pytest.fixture
def program(ydb_driver: Any, table_pool: Any, query_pool: Any, request: pytest.FixtureRequest) -> Iterator[Program]:
    made = Program(ydb_driver, table_pool, query_pool, request.node.name.partition("[")[0])
    yield made
    for child in ydb_driver.scheme_client.list_directory(made.home).children:
        table_pool.retry_operation_sync(lambda session, name=child.name: session.drop_table(f"{made.home}/{name}"))
    ydb_driver.scheme_client.remove_directory(made.home)


STATIONS = [
    {"station": 1, "place": "Oslo", "opened": 18_262},
    {"station": 2, "place": "Kyiv", "opened": 18_300},
    {"station": 3, "place": "Oslo", "opened": None},
]
FILL = """DECLARE $stations AS List<Struct<station: Uint64, place: Utf8, opened: Date?>>;
    DECLARE $readings AS List<Struct<station: Uint64, hour: Uint64, degrees: Int32>>;
    REPLACE INTO stations SELECT station, place, opened FROM AS_TABLE($stations);
    REPLACE INTO readings SELECT station, hour, degrees FROM AS_TABLE($readings);"""


class Station:
    """Structs may be objects, too."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


def test_tables_are_made_filled_joined_and_changed(program: Program) -> None:
    program.make("stations", table("station", station="Uint64", place="Utf8", opened="Date"))
    program.make("readings", table("station hour", station="Uint64", hour="Uint64", degrees="Int32"))
    readings = [{"station": id, "hour": hour, "degrees": id * hour - 3} for id in (1, 2) for hour in range(4)]
    assert program.ask(FILL, stations=[Station(**each) for each in STATIONS], readings=readings) == []
    per_place = """DECLARE $place AS Utf8;
        SELECT s.station AS station, COUNT(r.degrees) AS n, MAX(r.degrees) AS most
        FROM stations AS s LEFT JOIN readings AS r ON s.station = r.station
        WHERE s.place = $place GROUP BY s.station ORDER BY station;
        SELECT opened FROM stations WHERE place = $place AND opened IS NOT NULL;"""
    first, second = program.ask(per_place, place="Oslo")
    assert first == [{"station": 1, "n": 4, "most": 0}, {"station": 3, "n": 0, "most": None}]
    assert [row["opened"] for row in second] == [18_262]
    [changed] = program.ask(
        """DECLARE $station AS Uint64;
        $warmest = (SELECT MAX(degrees) FROM readings WHERE station = $station);
        UPDATE readings SET degrees = degrees + 1 WHERE station = $station;
        DELETE FROM readings WHERE station = $station AND hour = 0;
        SELECT COUNT(*) AS n, SUM(degrees) AS total, $warmest AS most FROM readings WHERE station = $station;""",
        station=2,
    )
    assert changed == [{"n": 3, "total": 6, "most": 4}]


def test_a_transaction_of_several_requests_holds_or_does_not(program: Program) -> None:
    program.make("stations", table("station", station="Uint64", place="Utf8"))
    name = f"`{program.home}/stations`"

    def work(session: Any, keeps: bool) -> int:
        transaction = session.transaction(ydb.SerializableReadWrite()).begin()
        (found,) = transaction.execute(f"SELECT COUNT(*) AS n FROM {name}")
        transaction.execute(f"UPSERT INTO {name} (station, place) VALUES ({found.rows[0].n}, 'Riga')")
        transaction.commit() if keeps else transaction.rollback()
        count: int = found.rows[0].n
        return count

    for keeps, before in [(True, 0), (False, 1), (True, 1)]:
        assert program.tables.retry_operation_sync(work, None, keeps) == before
    [rows] = program.ask("SELECT station FROM stations ORDER BY station")
    assert [row["station"] for row in rows] == [0, 1]


def test_pages_by_the_key_of_the_last_row(program: Program) -> None:
    program.make("streets", table("town street", town="Utf8", street="Utf8", houses="Uint64"))
    towns = [{"town": town, "street": f"{number:02}", "houses": number} for town in "ABC" for number in range(7)]
    types = ydb.BulkUpsertColumns()
    for name, kind in (("town", UTF8), ("street", UTF8), ("houses", UINT64)):
        types.add_column(name, ydb.OptionalType(kind))
    program.driver.table_client.bulk_upsert(f"{program.home}/streets", towns, types)
    text = """DECLARE $limit AS Uint64; DECLARE $town AS Utf8; DECLARE $street AS Utf8;
        $same = (SELECT * FROM streets WHERE town = $town AND street > $street ORDER BY town, street LIMIT $limit);
        $later = (SELECT * FROM streets WHERE town > $town ORDER BY town, street LIMIT $limit);
        $both = (SELECT * FROM $same UNION ALL SELECT * FROM $later);
        SELECT * FROM $both ORDER BY town, street LIMIT $limit;"""
    by_tuple = """DECLARE $limit AS Uint64; DECLARE $town AS Utf8; DECLARE $street AS Utf8;
        SELECT * FROM streets WHERE (town, street) > ($town, $street) ORDER BY town, street LIMIT $limit;"""
    for way in (text, by_tuple):
        seen: list[dict[str, Any]] = []
        last = {"town": "", "street": ""}
        while page := program.ask(way, limit=4, town=last["town"], street=last["street"])[0]:
            seen += page
            last = page[-1]
        assert seen == sorted(towns, key=lambda row: (row["town"], row["street"]))


def test_rows_by_secondary_indexes(program: Program) -> None:
    by = ydb.TableIndex("by_owner").with_index_columns("owner")
    program.make("films", table("film", film="Uint64", title="Utf8", owner="Uint64").with_index(by))
    named = ydb.TableIndex("by_name").with_index_columns("name")
    program.make("people", table("person", person="Uint64", name="Utf8").with_index(named))
    program.ask(
        """UPSERT INTO films (film, title, owner) VALUES (1, 'a', 7), (2, 'b', 8), (3, 'c', 7), (4, 'd', NULL);
        UPSERT INTO people (person, name) VALUES (7, 'Ann'), (8, 'Bob');"""
    )
    text = """DECLARE $name AS Utf8;
        SELECT f.title AS title FROM films VIEW by_owner AS f INNER JOIN people VIEW by_name AS p ON f.owner == p.person
        WHERE p.name == $name ORDER BY title;"""
    titles = {name: [row["title"] for row in program.ask(text, name=name)[0]] for name in ("Ann", "Bob", "Cid")}
    assert titles == {"Ann": ["a", "c"], "Bob": ["b"], "Cid": []}
    program.ask("UPDATE films SET owner = 8ul WHERE film = 1; DELETE FROM films WHERE film = 3;")
    assert program.ask(text, name="Ann") == [[]]
    assert [row["title"] for row in program.ask(text, name="Bob")[0]] == ["a", "b"]


def test_an_index_by_hand_is_a_second_table(program: Program) -> None:
    program.make("films", table("film", film="Uint64", title="Utf8", views="Uint64"))
    program.make("films_by_views", table("turned film", turned="Uint64", film="Uint64"))
    watch = """DECLARE $film AS Uint64; DECLARE $more AS Uint64; DECLARE $most AS Uint64;
        $before = (SELECT $most - views AS turned, film FROM films WHERE film = $film);
        $after = (SELECT film, views + $more AS views FROM films WHERE film = $film);
        DELETE FROM films_by_views ON SELECT turned, film FROM $before;
        UPSERT INTO films_by_views SELECT $most - views AS turned, film FROM $after;
        UPSERT INTO films SELECT film, views FROM $after;"""
    most = 2**64 - 1
    program.ask(
        f"""UPSERT INTO films (film, title, views) VALUES (1, 'a', 5), (2, 'b', 6);
        UPSERT INTO films_by_views (turned, film) VALUES ({most - 5}ul, 1), ({most - 6}ul, 2);"""
    )
    program.ask(watch, film=1, more=10, most=most)
    [best] = program.ask("SELECT film FROM films_by_views ORDER BY turned LIMIT 2")
    assert [row["film"] for row in best] == [1, 2]
    assert program.ask("SELECT title, views FROM films WHERE film = 1") == [[{"title": "a", "views": 15}]]


def test_documents_that_a_program_ends_itself(program: Program) -> None:
    described = table("doc", doc="Uint64", url="Utf8", seen="Uint64").with_profile(
        ydb.TableProfile().with_partitioning_policy(ydb.PartitioningPolicy().with_uniform_partitions(4))
    )
    program.make("docs", described)
    put = """DECLARE $url AS Utf8; DECLARE $seen AS Uint64;
        UPSERT INTO docs (doc, url, seen) VALUES (Digest::CityHash($url), $url, $seen);"""
    for number in range(40):
        program.ask(put, url=f"https://{number}.test/", seen=number)
    end = """DECLARE $keys AS List<Struct<doc: Uint64>>; DECLARE $until AS Uint64;
        $due = (SELECT d.doc AS doc FROM AS_TABLE($keys) AS k INNER JOIN docs AS d ON k.doc = d.doc
            WHERE d.seen <= $until);
        DELETE FROM docs ON SELECT * FROM $due;"""
    path = f"{program.home}/docs"
    settings = ydb.DescribeTableSettings().with_include_shard_key_bounds(True)
    told = program.tables.retry_operation_sync(lambda session: session.describe_table(path, settings))
    assert len(told.shard_key_ranges) == 4
    seen = 0
    for bounds in told.shard_key_ranges:
        parts = program.tables.retry_operation_sync(
            lambda session, bounds=bounds: session.read_table(path, bounds, columns=("doc", "seen"))
        )
        due = [row for part in parts for row in part.rows]
        seen += len(due)
        program.ask(end, keys=[{"doc": row.doc} for row in due if row.seen <= 30], until=20)
    assert seen == 40
    [rows] = program.ask("SELECT seen FROM docs ORDER BY seen")
    assert [row["seen"] for row in rows] == list(range(21, 40))


def test_documents_in_json(program: Program) -> None:
    program.make("docs", table("id", id="Uint64", body="Json", made="Timestamp"))
    many = """DECLARE $docs AS List<Struct<id: Uint64, body: Json>>;
        UPSERT INTO docs SELECT id, body, CurrentUtcTimestamp() AS made FROM AS_TABLE($docs);"""
    program.ask(many, docs=[{"id": id, "body": f'{{"n": {id}, "deep": {{"a": ["x", "y{id}"]}}}}'} for id in range(3)])
    text = """SELECT id, JSON_VALUE(body, "$.deep.a[1]") AS y, JSON_EXISTS(body, "$.none") AS none,
        JSON_QUERY(body, "$.deep") AS deep FROM docs WHERE JSON_VALUE(body, "$.n" RETURNING Int64) > 1"""
    assert program.ask(text) == [[{"id": 2, "y": "y2", "none": False, "deep": '{"a":["x","y2"]}'}]]


def test_measurements_that_end(program: Program, ydb_server: RunningServer) -> None:
    ends = ydb.TtlSettings().with_date_type_column("at", 60)
    program.make("series", table("at", at="Timestamp", value="Double").with_ttl(ends))
    types = ydb.BulkUpsertColumns()
    types.add_column("at", ydb.PrimitiveType.Timestamp)
    types.add_column("value", ydb.PrimitiveType.Double)
    now = ydb_server.clock.now()
    first = round(now.timestamp()) * 1_000_000
    rows = [{"at": first + number * 1_000_000, "value": number / 2} for number in range(600)]
    program.driver.table_client.bulk_upsert(f"{program.home}/series", rows, types)
    count = "SELECT COUNT(*) AS n, MAX(value) AS most FROM series"
    assert program.ask(count) == [[{"n": 600, "most": 299.5}]]
    ydb_server.clock.advance(seconds=3600 + 300)
    assert program.ask(count) == [[{"n": 0, "most": None}]]


PARAMETERS = [
    ({"$a": 111}, 111),
    ({"$a": (111, ydb.PrimitiveType.Uint8)}, 111),
    ({"$a": ydb.TypedValue(111, ydb.PrimitiveType.Int64)}, 111),
    ({"$a": "text"}, "text"),
    ({"$a": b"bytes"}, b"bytes"),
    ({"$a": 1.5}, 1.5),
    ({"$a": True}, True),
    ({"$a": [1, 2, 3]}, [1, 2, 3]),
    ({"$a": {"x": 1, "y": 2}}, {"x": 1, "y": 2}),
    ({"$a": ([1, 2], ydb.ListType(ydb.PrimitiveType.Int32))}, [1, 2]),
    ({"$a": (None, ydb.OptionalType(ydb.PrimitiveType.Int64))}, None),
]


@pytest.mark.parametrize(("given", "expected"), PARAMETERS, ids=range(len(PARAMETERS)))
def test_parameters_say_what_they_are_or_let_it_be_found(query_pool: Any, given: dict[str, Any], expected: Any) -> None:
    [found] = query_pool.execute_with_retries("SELECT $a AS a", given)
    assert found.rows[0].a == expected
