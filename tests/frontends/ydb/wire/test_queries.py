"""ExecuteQuery's stream: parts, columns, transactions, statistics, and the session that is free before the last one."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from mayflydb.embedded import RunningServer
from ydb_raw import Raw

ydb: Any = pytest.importorskip("ydb")

QUERY = "Ydb.Query.V1.QueryService"
EXPLAIN, EXECUTE = 30, 50
BASIC, FULL = 20, 30
SUCCESS, BAD_REQUEST, SESSION_BUSY, UNSUPPORTED = 400000, 400010, 400190, 400180
NUMBERS = "SELECT * FROM AS_TABLE(ListMap(ListFromRange(0, {}), ($n) -> (<|n: $n, t: 'xxxxxxxxxxxxxxxxxxxx'|>)))"


@pytest.fixture
def session(raw: Raw) -> str:
    id: str = raw.ask(f"{QUERY}/CreateSession").session_id
    return id


def executed(raw: Raw, session: str, text: str, **fields: Any) -> list[Any]:
    fields = {"exec_mode": EXECUTE, **fields}
    return list(raw.stream(f"{QUERY}/ExecuteQuery", session_id=session, query_content={"text": text}, **fields))


def test_a_row_comes_with_its_columns(raw: Raw, session: str) -> None:
    [part] = executed(raw, session, "SELECT 1 AS a, 'x'u AS b")
    assert (part.status, part.result_set_index) == (SUCCESS, 0)
    assert [column.name for column in part.result_set.columns] == ["a", "b"]
    assert [item.WhichOneof("value") for item in part.result_set.rows[0].items] == ["int32_value", "text_value"]
    assert not part.HasField("tx_meta") and not part.HasField("exec_stats")


def test_a_set_without_rows_has_its_columns(raw: Raw, session: str) -> None:
    [part] = executed(raw, session, "SELECT 1 AS a LIMIT 0")
    assert [column.name for column in part.result_set.columns] == ["a"]
    assert len(part.result_set.rows) == 0


def test_each_select_is_a_set_in_ascending_order(raw: Raw, session: str) -> None:
    parts = executed(raw, session, "SELECT 1 AS a; SELECT 2 AS b; SELECT 3 AS c")
    assert [part.result_set_index for part in parts] == [0, 1, 2]


@pytest.mark.parametrize(("inclusion", "with_columns"), [(0, "all"), (1, "all"), (2, "first")])
def test_large_sets_come_in_parts(raw: Raw, session: str, inclusion: int, with_columns: str) -> None:
    text = NUMBERS.format(2000)
    parts = executed(raw, session, text, response_part_limit_bytes=10_000, schema_inclusion_mode=inclusion)
    assert len(parts) > 4
    assert all(part.ByteSize() < 12_000 for part in parts)
    told = [bool(part.result_set.columns) for part in parts]
    assert told == [with_columns == "all" or not number for number, _ in enumerate(parts)]
    numbers = [row.items[0].int32_value or row.items[0].int64_value for part in parts for row in part.result_set.rows]
    assert numbers == list(range(2000))


def test_a_transaction_is_told_in_the_first_part(raw: Raw, session: str) -> None:
    begun = executed(raw, session, "SELECT 1; SELECT 2", tx_control={"begin_tx": {"serializable_read_write": {}}})
    id = begun[0].tx_meta.id
    assert id and not begun[1].HasField("tx_meta")
    [last] = executed(raw, session, "SELECT 3", tx_control={"tx_id": id, "commit_tx": True})
    assert last.HasField("tx_meta") and not last.tx_meta.id
    [gone] = executed(raw, session, "SELECT 4", tx_control={"tx_id": id})
    assert (gone.status, gone.issues[0].issue_code) == (400140, 2015)
    assert gone.issues[0].message == f"Transaction not found: {id}"


@pytest.mark.parametrize(
    ("mode", "statistics", "plan"), [(0, False, False), (10, False, False), (BASIC, True, False), (FULL, True, True)]
)
def test_statistics_come_in_the_last_part_when_they_are_asked_for(
    raw: Raw, session: str, mode: int, statistics: bool, plan: bool
) -> None:
    parts = executed(raw, session, "SELECT 1; SELECT 2", stats_mode=mode)
    assert [part.HasField("exec_stats") for part in parts] == [False, statistics]
    assert bool(parts[-1].exec_stats.query_plan) is plan


def test_explain_has_a_plan_and_no_rows(raw: Raw, session: str) -> None:
    [part] = executed(raw, session, "SELECT 1 AS a", exec_mode=EXPLAIN)
    assert not part.HasField("result_set")
    assert part.exec_stats.query_plan.startswith("{") and part.exec_stats.query_ast


@pytest.mark.parametrize(
    ("fields", "status", "said"),
    [
        ({"exec_mode": 0}, BAD_REQUEST, "Unexpected query mode"),
        ({"query_content": {"text": " "}}, BAD_REQUEST, "Query content is empty"),
        ({"query_content": {"text": "SELECT 1", "syntax": 2}}, UNSUPPORTED, "PostgreSQL syntax is not supported"),
        ({"tx_control": {}}, BAD_REQUEST, "Empty TxControl"),
        ({"parameters": {"$a": {}}}, BAD_REQUEST, "$a: a type is missing"),
    ],
)
def test_refusals(raw: Raw, session: str, fields: dict[str, Any], status: int, said: str) -> None:
    given = {"exec_mode": EXECUTE, "query_content": {"text": "SELECT 1"}, **fields}
    [part] = raw.stream(f"{QUERY}/ExecuteQuery", session_id=session, **given)
    assert (part.status, part.issues[0].message) == (status, said)


def test_record_batches_need_pyarrow(raw: Raw, session: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    [part] = raw.stream(
        f"{QUERY}/ExecuteQuery",
        session_id=session,
        exec_mode=EXECUTE,
        query_content={"text": "SELECT 1"},
        result_set_format=2,
    )
    said = "Result sets in Arrow format are not supported without pyarrow"
    assert (part.status, part.issues[0].message) == (UNSUPPORTED, said)


def test_a_session_has_one_query_at_a_time_and_is_free_before_the_last_part(raw: Raw, session: str) -> None:
    stream = raw.stream(
        f"{QUERY}/ExecuteQuery",
        session_id=session,
        exec_mode=EXECUTE,
        query_content={"text": NUMBERS.format(400_000)},
    )
    next(stream)
    [busy] = executed(raw, session, "SELECT 1")
    assert (busy.status, busy.issues[0].message) == (SESSION_BUSY, "Pending previous query completion")
    stream.cancel()
    parts = executed(raw, session, "SELECT 1; SELECT 2")
    while parts[0].status == SESSION_BUSY:
        parts = executed(raw, session, "SELECT 1; SELECT 2")
    assert [part.status for part in parts] == [SUCCESS, SUCCESS]
    for _ in range(50):
        assert executed(raw, session, "SELECT 1")[0].status == SUCCESS


def test_scripts_run_on_their_own_and_keep_their_results(ydb_server: RunningServer, raw: Raw) -> None:
    script = {"text": "SELECT * FROM AS_TABLE(ListMap(ListFromRange(0, 1500), ($n) -> (<|n: $n|>))) ORDER BY n"}
    begun = raw.ask(f"{QUERY}/ExecuteScript", exec_mode=EXECUTE, script_content=script)
    assert begun.id.startswith("ydb://scriptexec/9?")
    operation = begun
    while not operation.ready:
        operation = raw.ask("Ydb.Operation.V1.OperationService/GetOperation", id=begun.id).operation
    assert operation.status == SUCCESS
    listed = raw.ask("Ydb.Operation.V1.OperationService/ListOperations", kind="scriptexec")
    assert [each.id for each in listed.operations] == [begun.id]
    first = raw.ask(f"{QUERY}/FetchScriptResults", operation_id=begun.id)
    for wrong in ({"fetch_token": "-5"}, {"rows_limit": -1}, {"fetch_token": "x"}):
        assert raw.ask(f"{QUERY}/FetchScriptResults", operation_id=begun.id, **wrong).status == 400010
    second = raw.ask(f"{QUERY}/FetchScriptResults", operation_id=begun.id, fetch_token=first.next_fetch_token)
    assert (len(first.result_set.rows), len(second.result_set.rows), second.next_fetch_token) == (1000, 500, "")
    assert raw.ask("Ydb.Operation.V1.OperationService/ForgetOperation", id=begun.id).status == SUCCESS
    assert raw.ask("Ydb.Operation.V1.OperationService/GetOperation", id=begun.id).operation.status == 400140


# Structs whose members are ordered otherwise than in DECLARE are of the declared type all the same.
SENT_ROWS = {
    "type": {
        "list_type": {
            "item": {
                "struct_type": {
                    "members": [
                        {"name": "t", "type": {"type_id": "UTF8"}},
                        {"name": "id", "type": {"type_id": "UINT64"}},
                    ]
                }
            }
        }
    },
    "value": {"items": [{"items": [{"text_value": "one"}, {"uint64_value": 1}]}]},
}
ROWS_TEXT = "DECLARE $r AS List<Struct<id:Uint64,t:Utf8>>; SELECT id, t FROM AS_TABLE($r)"


def test_members_of_structs_may_be_sent_in_any_order(raw: Raw, session: str) -> None:
    [part] = executed(raw, session, ROWS_TEXT, parameters={"$r": SENT_ROWS})
    assert part.status == SUCCESS, part.issues
    [row] = part.result_set.rows
    assert [row.items[0].uint64_value, row.items[1].text_value] == [1, "one"]


def test_the_client_may_send_members_of_structs_in_any_order(query_pool: Any) -> None:
    struct = ydb.StructType().add_member("t", ydb.PrimitiveType.Utf8).add_member("id", ydb.PrimitiveType.Uint64)
    given = ([{"t": "one", "id": 1}, {"t": "two", "id": 2}], ydb.ListType(struct))
    (found,) = query_pool.execute_with_retries(ROWS_TEXT, {"$r": given})
    assert [(row.id, row.t) for row in found.rows] == [(1, "one"), (2, "two")]


UNUSED = "DECLARE $x AS Uint64; SELECT 1 AS a; SELECT 2 AS b"


def test_a_parameter_that_nothing_reads_is_a_warning(raw: Raw, session: str, query_pool: Any) -> None:
    parts = executed(raw, session, UNUSED)
    told = [[(each.message, each.issue_code, each.severity) for each in part.issues] for part in parts]
    assert told == [[("Symbol $x is not used", 4527, 2)], []]
    found = raw.ask("Ydb.Scripting.V1.ScriptingService/ExecuteYql", script=UNUSED).operation
    assert (found.status, [each.message for each in found.issues]) == (SUCCESS, ["Symbol $x is not used"])
    table = raw.result("Ydb.Table.V1.TableService/CreateSession", "Ydb.Table.CreateSessionResult").session_id
    control = {"begin_tx": {"serializable_read_write": {}}, "commit_tx": True}
    answer = raw.ask(
        "Ydb.Table.V1.TableService/ExecuteDataQuery", session_id=table, tx_control=control, query={"yql_text": UNUSED}
    )
    assert [each.message for each in answer.operation.issues] == ["Symbol $x is not used"]
    assert [list(each.rows[0].values()) for each in query_pool.execute_with_retries(UNUSED)] == [[1], [2]]


def test_a_parameter_that_is_read_must_be_sent(raw: Raw, session: str) -> None:
    [part] = executed(raw, session, "DECLARE $x AS Uint64; SELECT $x")
    assert (part.status, part.issues[0].message) == (BAD_REQUEST, "Missing value for parameter: $x")
