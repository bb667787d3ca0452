"""Requests as bytes, answered in this process: what clients send seldom, and what no client sends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest

from mayflydb.frontends.ydb.commands.table import COMMANDS
from mayflydb.frontends.ydb.descriptors import message
from mayflydb.frontends.ydb.options import Options
from mayflydb.frontends.ydb.sessions import Sessions
from mayflydb.frontends.ydb.values import encode_type, encode_typed_value
from mayflydb.model.instant import HOUR
from mayflydb.model.quota import Quota
from mayflydb.query.yql.faults import Fault
from mayflydb.query.yql.types import INT64, UINT64, UTF8, ListType, OptionalType, StructType, TupleType

TABLE = "CREATE TABLE t (id Uint64 NOT NULL, a Int64, b Utf8, INDEX by_a GLOBAL ON (a), PRIMARY KEY (id))"


class Asker:
    """Services without a server: handlers are called with messages."""

    def __init__(self, place: Any) -> None:
        self.place = place
        self.engine, self.schemes, self.executor = place.engine, place.schemes, place.executor
        self.environment = place.executor.environment
        self.options = Options(result_rows=3)
        self.sessions = place.run(self._opened())
        self.session = place.run(self.new_session())

    async def _opened(self) -> Sessions:
        return Sessions(Random(1), HOUR, Quota("ydb_sessions", 10))

    async def new_session(self) -> str:
        id: str = self.sessions.create(self.place.call, "table").id
        return id

    def ask(self, method: str, result: str | None = None, **fields: Any) -> Any:
        """The response to a request, or the result within it."""
        handler: Any = COMMANDS[method]
        request = message(REQUESTS.get(method, f"Ydb.Table.{method.partition('/')[2]}Request"))(**fields)
        data = self.place.run(handler(self, self.place.call, request))
        name = method.partition("/")[2]
        response = message(f"Ydb.{method.split('.')[1]}.{name}Response").FromString(data)
        if result is None:
            return response
        return message(result).FromString(response.operation.result.value)

    def stream(self, method: str, request: str, response: str, **fields: Any) -> list[Any]:
        handler: Any = COMMANDS[method]

        async def gathered() -> list[Any]:
            parts: AsyncIterator[bytes] = handler(self, self.place.call, message(request)(**fields))
            return [message(response).FromString(part) async for part in parts]

        return self.place.run(gathered())  # type: ignore[no-any-return]


TABLES = "Ydb.Table.V1.TableService"
REQUESTS = {"Ydb.Scripting.V1.ScriptingService/ExplainYql": "Ydb.Scripting.ExplainYqlRequest"}


@pytest.fixture
def asker(place: Any) -> Asker:
    place.parts(TABLE)
    place.parts("UPSERT INTO t (id, a, b) VALUES (1, 10, 'x'), (2, 20, 'y'), (3, 30, 'z'), (4, NULL, NULL)")
    return Asker(place)


def values_of(result_set: Any) -> list[list[Any]]:
    return [
        [
            None if item.WhichOneof("value") == "null_flag_value" else getattr(item, item.WhichOneof("value"))
            for item in row.items
        ]
        for row in result_set.rows
    ]


def test_results_are_cut_where_that_is_set(asker: Asker) -> None:
    control = {"begin_tx": {"serializable_read_write": {}}, "commit_tx": True}
    name = "Ydb.Table.ExecuteQueryResult"
    fields: dict[str, Any] = {"session_id": asker.session, "tx_control": control}
    cut = asker.ask(f"{TABLES}/ExecuteDataQuery", name, query={"yql_text": "SELECT id FROM t"}, **fields)
    assert (len(cut.result_sets[0].rows), cut.result_sets[0].truncated) == (3, True)
    whole = asker.ask(f"{TABLES}/ExecuteDataQuery", name, query={"yql_text": "SELECT id FROM t LIMIT 3"}, **fields)
    assert (len(whole.result_sets[0].rows), whole.result_sets[0].truncated) == (3, False)
    assert whole.tx_meta.id == ""


def test_a_prepared_query_is_executed_by_its_id(asker: Asker) -> None:
    text = "DECLARE $id AS Uint64; SELECT b FROM t WHERE id = $id;"
    prepared = asker.ask(
        f"{TABLES}/PrepareDataQuery", "Ydb.Table.PrepareQueryResult", session_id=asker.session, yql_text=text
    )
    assert prepared.parameters_types["$id"].SerializeToString() == encode_type(UINT64)
    given = message("Ydb.TypedValue").FromString(encode_typed_value(UINT64, 2))
    other = asker.place.run(asker.new_session())
    fields: dict[str, Any] = {
        "session_id": other,
        "tx_control": {"begin_tx": {"online_read_only": {}}, "commit_tx": True},
        "parameters": {"$id": given},
    }
    found = asker.ask(
        f"{TABLES}/ExecuteDataQuery", "Ydb.Table.ExecuteQueryResult", query={"id": prepared.query_id}, **fields
    )
    assert values_of(found.result_sets[0]) == [["y"]]
    assert found.query_meta.id == prepared.query_id
    with pytest.raises(Fault) as caught:
        asker.ask(f"{TABLES}/ExecuteDataQuery", query={"id": "0"}, **fields)
    assert caught.value.status == "NOT_FOUND"


@pytest.mark.parametrize(
    ("mode", "name"), [("online_read_only", "OnlineReadOnly"), ("stale_read_only", "StaleReadOnly")]
)
def test_modes_whose_transactions_do_not_stay_open(asker: Asker, mode: str, name: str) -> None:
    fields: dict[str, Any] = {"session_id": asker.session, "query": {"yql_text": "SELECT 1"}}
    with pytest.raises(Fault) as caught:
        asker.ask(f"{TABLES}/ExecuteDataQuery", tx_control={"begin_tx": {mode: {}}}, **fields)
    text = "open transactions not supported for transaction mode"
    assert (caught.value.status, caught.value.message) == (
        "BAD_REQUEST",
        f"Failed to execute query: {text}: {name}, use commit_tx flag to explicitely commit transaction.",
    )
    with pytest.raises(Fault) as caught:
        asker.ask(f"{TABLES}/BeginTransaction", session_id=asker.session, tx_settings={mode: {}})
    assert caught.value.message.startswith(f"Failed to begin transaction: {text} {name}, ")


AGAIN = "CREATE TABLE `.made/t` (id Int32, PRIMARY KEY (id))"
SCHEME_QUERIES = [
    (AGAIN, []),
    (AGAIN, ["Check failed: path: '/local/.made/t', error: path exist, request accepts it"]),
    (f"{AGAIN}; CREATE TABLE IF NOT EXISTS `.made/t` (id Int32, PRIMARY KEY (id)); COMMIT; DROP TABLE `.made/t`", 1),
    ("PRAGMA TablePathPrefix('/local/.made'); CREATE TABLE t (id Int32, PRIMARY KEY (id))", []),
]


def test_a_table_that_is_there_is_accepted_by_scheme_queries(asker: Asker) -> None:
    for text, said in SCHEME_QUERIES:
        found = asker.ask(f"{TABLES}/ExecuteSchemeQuery", session_id=asker.session, yql_text=text).operation
        assert found.status == 400000
        issues = [each.message for each in found.issues]
        assert len(issues) == said if isinstance(said, int) else issues == said
    with pytest.raises(Fault) as caught:
        asker.place.parts(AGAIN)
    assert caught.value.status == "SCHEME_ERROR"


@pytest.mark.parametrize(
    ("text", "verb"),
    [("SELECT 1", "Select"), ("UPSERT INTO t (id) VALUES (1)", "Upsert"), (f"{AGAIN}; DELETE FROM t", "Delete")],
)
def test_scheme_queries_are_about_schemes(asker: Asker, text: str, verb: str) -> None:
    with pytest.raises(Fault) as caught:
        asker.ask(f"{TABLES}/ExecuteSchemeQuery", session_id=asker.session, yql_text=text)
    assert (caught.value.status, caught.value.issues[0].code) == ("GENERIC_ERROR", 2008)
    assert caught.value.message == f"Operation '{verb}' can't be performed in scheme query"


def test_a_query_is_explained(asker: Asker) -> None:
    explained = asker.ask(
        f"{TABLES}/ExplainDataQuery",
        "Ydb.Table.ExplainQueryResult",
        session_id=asker.session,
        yql_text="SELECT b FROM t",
    )
    assert '"Plan"' in explained.query_plan
    assert explained.query_ast


@pytest.mark.parametrize(
    ("names", "keys", "found"),
    [
        ([], [3, 1, 9], [[3, 30, "z"], [1, 10, "x"]]),
        (["b"], [2], [["y"]]),
        (["b", "id"], [], []),
    ],
)
def test_rows_by_their_keys(asker: Asker, names: list[str], keys: list[int], found: list[Any]) -> None:
    type = ListType(StructType((("id", UINT64),)))
    given = message("Ydb.TypedValue").FromString(encode_typed_value(type, [(key,) for key in keys]))
    answer = asker.ask(f"{TABLES}/ReadRows", path="t", keys=given, columns=names)
    assert answer.status == 400000
    assert values_of(answer.result_set) == found
    assert [column.name for column in answer.result_set.columns] == (names or ["id", "a", "b"])


def bound(*values: Any, type: Any = UINT64) -> Any:
    return message("Ydb.TypedValue").FromString(encode_typed_value(TupleType((type,) * len(values)), list(values)))


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"path": "/local/t"}, [1, 2, 3, 4]),
        ({"path": "t", "row_limit": 2}, [1, 2]),
        ({"path": "t", "key_range": {"greater": bound(1), "less_or_equal": bound(3)}}, [2, 3]),
        ({"path": "t", "key_range": {"greater_or_equal": bound(2), "less": bound(3)}}, [2]),
        ({"path": "t", "key_range": {"greater": bound(9)}}, []),
        ({"path": "t", "batch_limit_rows": 1}, [1, 2, 3, 4]),
        ({"path": "t/by_a/indexImplTable"}, [4, 1, 2, 3]),
        (
            {"path": "t/by_a/indexImplTable", "key_range": {"greater": bound(10, type=OptionalType(INT64))}},
            [2, 3],
        ),
    ],
)
def test_a_table_is_read_in_a_range(asker: Asker, fields: dict[str, Any], found: list[int]) -> None:
    parts = asker.stream(
        f"{TABLES}/StreamReadTable",
        "Ydb.Table.ReadTableRequest",
        "Ydb.Table.ReadTableResponse",
        columns=["id"],
        **fields,
    )
    assert [row[0] for part in parts for row in values_of(part.result.result_set)] == found
    assert all(part.status == 400000 and part.snapshot.plan_step for part in parts)
    assert [column.name for column in parts[0].result.result_set.columns] == ["id"]
    assert len(parts) == (4 if "batch_limit_rows" in fields else 1)


def rows(*members: tuple[str, Any], values: list[tuple[Any, ...]]) -> Any:
    return message("Ydb.TypedValue").FromString(encode_typed_value(ListType(StructType(members)), values))


OPTIONAL = OptionalType(INT64)


def test_bulk_upsert_merges(asker: Asker) -> None:
    given = rows(("id", UINT64), ("a", OPTIONAL), values=[(1, 11), (7, None), (7, 70)])
    assert asker.ask(f"{TABLES}/BulkUpsert", table="/local/t", rows=given).operation.status == 400000
    assert asker.place.rows("SELECT id, a, b FROM t WHERE id IN (1, 7)") == [(1, 11, "x"), (7, 70, None)]


@pytest.mark.parametrize(
    ("given", "status", "text"),
    [
        (rows(("a", INT64), values=[(1,)]), "SCHEME_ERROR", "Missing key columns: id"),
        (rows(("id", UINT64), ("q", INT64), values=[(1, 1)]), "SCHEME_ERROR", "Unknown column: q"),
        (
            rows(("id", UINT64), ("a", UTF8), values=[(1, "1")]),
            "BAD_REQUEST",
            "Type mismatch, got type Utf8 for column a, but expected Int64",
        ),
        (
            rows(("id", OptionalType(UINT64)), values=[(5,), (None,)]),
            "BAD_REQUEST",
            "Received NULL value for not null column: id",
        ),
    ],
)
def test_bulk_upsert_refuses(asker: Asker, given: Any, status: str, text: str) -> None:
    with pytest.raises(Fault) as caught:
        asker.ask(f"{TABLES}/BulkUpsert", table="t", rows=given)
    assert (caught.value.status, caught.value.message) == (status, text)
    assert asker.place.rows("SELECT id FROM t") == [(1,), (2,), (3,), (4,)]


@pytest.mark.parametrize(
    ("settings", "data", "found"),
    [
        ({"header": True}, 'b,id\n"a,""b",9\n', [(9, None, 'a,"b')]),
        ({}, "9,5,z\n", [(9, 5, "z")]),
        ({"skip_rows": 2, "delimiter": b";"}, "#\n#\n9;5;z\n", [(9, 5, "z")]),
        ({"null_value": b"\\N"}, "9,\\N,\n", [(9, None, "")]),
        ({"quoting": {"quote_char": b"'"}}, "9,1,'x,y'\n", [(9, 1, "x,y")]),
        ({}, "9,1,x\u2028y\x0b\x0c\x85\r\n", [(9, 1, "x\u2028y\x0b\x0c\x85")]),
        ({}, '9,1,"x\r\ny"\n', [(9, 1, "x\r\ny")]),
    ],
)
def test_bulk_upsert_of_csv(asker: Asker, settings: Any, data: str, found: list[Any]) -> None:
    asker.ask(f"{TABLES}/BulkUpsert", table="t", csv_settings=settings, data=data.encode())
    assert asker.place.rows("SELECT id, a, b FROM t WHERE id = 9") == found


@pytest.mark.parametrize(
    ("settings", "data", "text"),
    [
        ({}, "9,5\n", "Cannot read CSV: row 1 has 2 fields, and there are 3 columns"),
        ({}, "9,x,y\n", "Cannot read CSV: 'x' is no Int64, for column a"),
        ({"delimiter": b"::"}, "", "Invalid CSV delimiter: '::'"),
        ({"delimiter": b"\xff"}, "", "Cannot read CSV: "),
        ({"null_value": b"\xff"}, "9,5,y\n", "Cannot read CSV: "),
        ({"quoting": {"quote_char": b"''"}}, "9,5,y\n", "Cannot read CSV: "),
    ],
)
def test_csv_that_cannot_be_read(asker: Asker, settings: Any, data: str, text: str) -> None:
    with pytest.raises(Fault) as caught:
        asker.ask(f"{TABLES}/BulkUpsert", table="t", csv_settings=settings, data=data.encode())
    assert caught.value.status == "BAD_REQUEST"
    assert caught.value.message.startswith(text)


def test_arrow_is_refused_by_name(asker: Asker) -> None:
    with pytest.raises(Fault) as caught:
        asker.ask(f"{TABLES}/BulkUpsert", table="t", arrow_batch_settings={}, data=b"")
    assert caught.value.status == "UNSUPPORTED"


SCAN = ("Ydb.Table.ExecuteScanQueryRequest", "Ydb.Table.ExecuteScanQueryPartialResponse")


def test_a_scan_query_gives_rows_and_stats(asker: Asker) -> None:
    parts = asker.stream(
        f"{TABLES}/StreamExecuteScanQuery", *SCAN, query={"yql_text": "SELECT id FROM t"}, mode=3, collect_stats=3
    )
    assert [row[0] for part in parts for row in values_of(part.result.result_set)] == [1, 2, 3, 4]
    (phase,) = parts[-1].result.query_stats.query_phases
    assert [(table.name, table.reads.rows) for table in phase.table_access] == [("/local/t", 4)]
    assert parts[-1].result.query_stats.query_plan


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT 1; SELECT 2", "Scan query should have a single result set."),
        ("UPSERT INTO t (id) VALUES (1)", "Scan query cannot have data modifications."),
    ],
)
def test_what_a_scan_query_may_not_be(asker: Asker, text: str, message: str) -> None:
    with pytest.raises(Fault) as caught:
        asker.stream(f"{TABLES}/StreamExecuteScanQuery", *SCAN, query={"yql_text": text}, mode=3)
    assert (caught.value.status, caught.value.message) == ("PRECONDITION_FAILED", message)


def test_scripts_are_explained(asker: Asker) -> None:
    explained = asker.ask(
        "Ydb.Scripting.V1.ScriptingService/ExplainYql",
        "Ydb.Scripting.ExplainYqlResult",
        script="DECLARE $a AS Int64; SELECT $a",
        mode=3,
    )
    assert explained.parameters_types["$a"].SerializeToString() == encode_type(INT64)
    assert explained.plan
