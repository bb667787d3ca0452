"""Serial columns over the wire: requests that make and describe them, and what holds on every store, across starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mayflydb.embedded import RunningServer, serve
from stores import STORES
from ydb_raw import Raw, connected

ydb: Any = pytest.importorskip("ydb")

TABLE = "Ydb.Table.V1.TableService"
SUCCESS, BAD_REQUEST, SCHEME_ERROR = 400000, 400010, 400070
INT32, INT64, INT16 = "INT32", "INT64", "INT16"
RESULT = "Ydb.Table.DescribeTableResult"


def described(raw: Raw, path: str, **fields: Any) -> dict[str, tuple[Any, ...]]:
    """Of each column with a sequence: (type, not null, name, least, greatest, start, increment, cache, cycle, next, used)."""
    found = raw.result(f"{TABLE}/DescribeTable", RESULT, path=path, **fields)
    told: dict[str, tuple[Any, ...]] = {}
    for column in found.columns:
        if column.WhichOneof("default_value") == "from_sequence":
            s = column.from_sequence
            position = (s.set_val.next_value, s.set_val.next_used) if s.HasField("set_val") else ()
            told[column.name] = (
                *(column.type.type_id, column.not_null, s.name, s.min_value, s.max_value),
                *(s.start_value, s.increment, s.cache, s.cycle, *position),
            )
    return told


def created(raw: Raw, name: str, **sequence: Any) -> Any:
    """The operation of a CreateTable whose key has such a sequence."""
    columns = [
        {"name": "id", "type": {"type_id": sequence.pop("type", INT32)}, "from_sequence": sequence},
        {"name": "v", "type": {"optional_type": {"item": {"type_id": "UTF8"}}}},
    ]
    fields = {"path": f"/local/{name}", "columns": columns, "primary_key": ["id"]}
    return raw.ask(f"{TABLE}/CreateTable", **fields).operation  # type: ignore[arg-type]  # No field is metadata.


def test_a_table_of_yql_is_described_with_its_sequence(raw: Raw, query_pool: Any) -> None:
    query_pool.execute_with_retries("CREATE TABLE d (a Serial, b BigSerial, c SmallSerial, v Utf8, PRIMARY KEY (a))")
    assert described(raw, "/local/d") == {
        "a": (1, True, "_serial_column_a", 1, 2**31 - 1, 1, 1, 1, False),
        "b": (3, True, "_serial_column_b", 1, 2**63 - 1, 1, 1, 1, False),
        "c": (8, True, "_serial_column_c", 1, 2**15 - 1, 1, 1, 1, False),
    }
    query_pool.execute_with_retries("INSERT INTO d (v) VALUES ('x'), ('y')")
    query_pool.execute_with_retries("ALTER SEQUENCE `/local/d/_serial_column_b` START 50 INCREMENT 7 RESTART")
    assert described(raw, "/local/d", include_set_val=True) == {
        "a": (1, True, "_serial_column_a", 1, 2**31 - 1, 1, 1, 1, False, 3, False),
        "b": (3, True, "_serial_column_b", 1, 2**63 - 1, 50, 7, 1, False, 50, False),
        "c": (8, True, "_serial_column_c", 1, 2**15 - 1, 1, 1, 1, False, 3, False),
    }


def test_a_request_makes_a_sequence_and_its_description_makes_it_again(raw: Raw, query_pool: Any) -> None:
    said = {"min_value": 5, "max_value": 1000, "start_value": 10, "increment": 3, "cache": 1}
    assert created(raw, "r", **said, set_val={"next_value": 16, "next_used": False}).status == SUCCESS
    expected = (1, True, "_serial_column_id", 5, 1000, 10, 3, 1, False, 16, False)
    assert described(raw, "/local/r", include_set_val=True) == {"id": expected}
    (found,) = query_pool.execute_with_retries("INSERT INTO r (v) VALUES ('x'), ('y') RETURNING id")
    assert [row.id for row in found.rows] == [16, 19]
    told = raw.result(f"{TABLE}/DescribeTable", RESULT, path="/local/r", include_set_val=True)
    again = {"path": "/local/again", "columns": told.columns, "primary_key": told.primary_key}
    assert raw.ask(f"{TABLE}/CreateTable", **again).operation.status == SUCCESS
    (found,) = query_pool.execute_with_retries("INSERT INTO again (v) VALUES ('x') RETURNING id")
    assert [row.id for row in found.rows] == [22]
    assert created(raw, "s", start_value=7).status == SUCCESS
    (found,) = query_pool.execute_with_retries("INSERT INTO s (v) VALUES ('x') RETURNING id")
    assert [row.id for row in found.rows] == [7]


@pytest.mark.parametrize(
    ("sequence", "said"),
    [
        ({"type": "UINT32"}, "Column 'id' of type Uint32 cannot have a sequence as its default"),
        ({"increment": 0}, "INCREMENT must not be zero"),
        ({"start_value": 0}, "START value (0) cannot be less than MINVALUE (1)"),
        ({"type": "INT16", "max_value": 40_000}, "MAXVALUE (40000) is out of range for type Int16"),
    ],
)
def test_sequences_that_cannot_be(raw: Raw, sequence: dict[str, Any], said: str) -> None:
    found = created(raw, "wrong", **sequence)
    assert found.status != SUCCESS
    assert said in found.issues[0].message


def test_a_bulk_upsert_names_all_numbers(raw: Raw, query_pool: Any, ydb_driver: Any) -> None:
    query_pool.execute_with_retries("CREATE TABLE b (id Serial, n BigSerial, v Utf8, PRIMARY KEY (id))")
    columns = ydb.BulkUpsertColumns().add_column("v", ydb.OptionalType(ydb.PrimitiveType.Utf8))
    with pytest.raises(ydb.SchemeError, match="Missing key columns: id"):
        ydb_driver.table_client.bulk_upsert("/local/b", [{"v": "x"}], columns)
    columns = columns.add_column("id", ydb.PrimitiveType.Int32)
    with pytest.raises(ydb.BadRequest, match="Missing not null columns: n"):
        ydb_driver.table_client.bulk_upsert("/local/b", [{"v": "x", "id": 5}], columns)
    columns = columns.add_column("n", ydb.PrimitiveType.Int64)
    ydb_driver.table_client.bulk_upsert("/local/b", [{"v": "x", "id": 5, "n": 9}], columns)
    (found,) = query_pool.execute_with_retries("INSERT INTO b (v) VALUES ('y') RETURNING id, n")
    assert [(row.id, row.n) for row in found.rows] == [(1, 1)]


def test_reset_lets_tables_count_from_the_beginning(ydb_server: RunningServer, query_pool: Any) -> None:
    for _ in range(2):
        query_pool.execute_with_retries("CREATE TABLE z (id Serial, v Utf8, PRIMARY KEY (id))")
        (found,) = query_pool.execute_with_retries("INSERT INTO z (v) VALUES ('x'), ('y') RETURNING id")
        assert [row.id for row in found.rows] == [1, 2]
        ydb_server.reset()


def test_numbers_go_on_after_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    numbers: list[int] = []
    for start in range(3):
        with (
            serve(str(tmp_path / "x.db"), port=0, mongo_port=-1, ydb_port=0, clock="virtual") as server,
            server.ydb.driver() as driver,
            ydb.QuerySessionPool(driver) as pool,
        ):
            if not start:
                pool.execute_with_retries("CREATE TABLE t (id Serial, v Utf8, PRIMARY KEY (id))")
            (found,) = pool.execute_with_retries("INSERT INTO t (v) VALUES ('x'), ('y') RETURNING id")
            numbers += [row.id for row in found.rows]
    assert numbers == [1, 2, 3, 4, 5, 6]


@pytest.mark.everywhere
@pytest.mark.parametrize("ydb_server", STORES, indirect=True)
class TestOnEveryStore:
    def test_clients_at_once_have_different_numbers(self, ydb_server: RunningServer) -> None:
        import threading

        failures: list[BaseException] = []
        given: list[int] = []

        def insert() -> None:
            try:
                with connected(ydb_server.ydb.endpoint) as raw:
                    session = raw.ask("Ydb.Query.V1.QueryService/CreateSession").session_id
                    for _ in range(10):
                        text = {"text": "INSERT INTO many (v) VALUES ('a'), ('b') RETURNING id"}
                        name = "Ydb.Query.V1.QueryService/ExecuteQuery"
                        for part in raw.stream(name, session_id=session, exec_mode=50, query_content=text):
                            assert part.status == SUCCESS, part
                            given.extend(row.items[0].int64_value for row in part.result_set.rows)
            except BaseException as error:  # noqa: BLE001 - it is raised again below.
                failures.append(error)

        with ydb_server.ydb.driver() as driver, ydb.QuerySessionPool(driver) as pool:
            pool.execute_with_retries("CREATE TABLE many (id BigSerial, v Utf8, PRIMARY KEY (id))")
            threads = [threading.Thread(target=insert) for _ in range(4)]
            for each in threads:
                each.start()
            for each in threads:
                each.join(60)
            if failures:
                raise failures[0]
            (found,) = pool.execute_with_retries("SELECT id FROM many ORDER BY id")
        assert sorted(given) == list(range(1, 81))
        assert [row.id for row in found.rows] == list(range(1, 81))
