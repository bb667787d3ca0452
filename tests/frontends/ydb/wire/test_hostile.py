"""Queries that would compute for minutes: their answers, their ends, and what others feel of them meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pytest

from mayflydb.embedded import RunningServer, serve
from mayflydb.evaluation.evaluators import Evaluators
from mayflydb.frontends.ydb.crossing import STREAMED_BYTES
from mayflydb.frontends.ydb.planner import MAX_TEXT_LENGTH
from ydb_raw import Raw, connected

ydb: Any = pytest.importorskip("ydb")

QUERY, TABLE = "Ydb.Query.V1.QueryService", "Ydb.Table.V1.TableService"
SUCCESS, BAD_REQUEST, UNAVAILABLE, GENERIC_ERROR = 400000, 400010, 400050, 400080
TIMEOUT, PRECONDITION_FAILED, CANCELLED = 400090, 400120, 400160

LONGEST_WAIT = 0.25
"""Seconds that the event loop may be late, on a machine that does other things as well. Queries below would hold it for ever."""

PROBE_SECONDS = 0.002

ENDLESS = "SELECT COUNT(*) FROM t AS a CROSS JOIN t AS b CROSS JOIN t AS c CROSS JOIN t AS d"


@contextmanager
def filled(**settings: Any) -> Iterator[RunningServer]:
    with serve(memory=True, port=0, mongo_port=-1, **settings) as server:
        with connected(server.ydb.endpoint) as raw:
            rows = "ListMap(ListFromRange(0l, 500l), ($n) -> (<|id: $n, v: 'val' || CAST($n AS String), g: $n % 7|>))"
            create = "CREATE TABLE t (id Int64, v String, g Int64, PRIMARY KEY (id))"
            large = "CREATE TABLE large (id Int64, v String, PRIMARY KEY (id))"
            long = f"UPSERT INTO large (id, v) VALUES (1, '{'x' * STREAMED_BYTES}')"
            for text in (create, f"UPSERT INTO t SELECT * FROM AS_TABLE({rows})", large, long):
                assert run(raw, text)[0] == SUCCESS
        yield server


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with filled(query_time_limit="300ms") as running:
        yield running


@pytest.fixture
def client(server: RunningServer) -> Iterator[Raw]:
    with connected(server.ydb.endpoint) as raw:
        yield raw


def open_session(raw: Raw) -> str:
    session: str = raw.ask(f"{QUERY}/CreateSession").session_id
    return session


def begin(raw: Raw, text: str, session: str, timeout: float = 20) -> Any:
    """A stream of the query's parts."""
    content: dict[str, Any] = {"query_content": {"text": text}, "exec_mode": 50}
    return raw.stream(f"{QUERY}/ExecuteQuery", timeout=timeout, session_id=session, **content)


def run(raw: Raw, text: str) -> tuple[int, str]:
    """The status of a query, and the text of its issues."""
    last = list(begin(raw, text, open_session(raw)))[-1]
    return last.status, " ".join(issue.message for issue in last.issues)


def on_loop(server: RunningServer, work: Coroutine[Any, Any, Any]) -> Any:
    return server._home.call(work)


def evaluators_of(server: RunningServer) -> Evaluators:
    return server._admin.engine.evaluators


def wait_for(server: RunningServer, condition: Callable[[Evaluators], bool]) -> None:
    """Wait until a condition of the evaluations holds; fail after two seconds."""

    async def watch() -> None:
        async with asyncio.timeout(2):
            while not condition(evaluators_of(server)):  # noqa: ASYNC110 -- what is awaited happens on a thread
                await asyncio.sleep(0)

    on_loop(server, watch())


@contextmanager
def probe(server: RunningServer) -> Iterator[list[float]]:
    """The seconds by which a task on the server's event loop is late."""
    loop = server._home.loop
    late: list[float] = []

    def tick(due: float | None) -> None:
        if due is not None:
            late.append(loop.time() - due)
        watching[0] = loop.call_later(PROBE_SECONDS, tick, loop.time() + PROBE_SECONDS)

    watching: list[Any] = [loop.call_soon_threadsafe(tick, None)]
    try:
        yield late
    finally:
        # The present timer is known on the loop alone.
        loop.call_soon_threadsafe(lambda: watching.pop().cancel())


LONG_ITEMS = f"""'[' || ListConcat(ListReplicate('"{"a" * 40}"', 200), ',') || ']'"""

HOSTILE = [
    ("a join of everything with everything", ENDLESS, TIMEOUT),
    (
        "a join with many matches",
        "SELECT SUM(a.id) FROM t AS a JOIN t AS b ON a.g = b.g JOIN t AS c ON b.g = c.g JOIN t AS d ON c.g = d.g",
        TIMEOUT,
    ),
    (
        "a fold in each row",
        "$f = ($x) -> (ListFold(ListFromRange(0l, 900000l), 0l, ($i, $s) -> ($i + $s + $x))); SELECT SUM($f(id ?? 0l)) FROM t",
        TIMEOUT,
    ),
    (
        "texts that double",
        "$x0 = 'a' || CAST(Random(1) AS String);"
        + "".join(f"$x{n} = $x{n - 1} || $x{n - 1};" for n in range(1, 30))
        + "SELECT LENGTH($x29)",
        GENERIC_ERROR,
    ),
    ("a list of ten million", "SELECT ListLength(ListFromRange(0, 10000000))", GENERIC_ERROR),
    (
        "a sort of everything",
        "SELECT a.id FROM t AS a CROSS JOIN t AS b CROSS JOIN (SELECT id FROM t LIMIT 3) AS c ORDER BY a.v DESC, b.v",
        TIMEOUT,
    ),
    (
        "containers in all combinations",
        "$l = ListFromRange(0, 90); SELECT SUM(a + b + c) FROM (SELECT $l AS a, $l AS b, $l AS c) FLATTEN BY (a, b, c)",
        TIMEOUT,
    ),
    (
        "a backtracking pattern",
        "SELECT COUNT(*) FROM t WHERE (v || 'aaaaaaaaaaaaaaaaaaaaaaaaaaaa') REGEXP '(a|aa|aaa)+z'",
        None,
    ),
    (
        "a pattern in a JSON path",
        f"SELECT JSON_EXISTS(CAST({LONG_ITEMS} AS Json), '$[*] ? (@ like_regex \"(a|aa|aaa)+z\")')",
        None,
    ),
    (
        "a write of a large selection",
        "UPSERT INTO t SELECT a.id * 1000 + b.id AS id, a.v AS v, a.g AS g FROM t AS a CROSS JOIN t AS b",
        TIMEOUT,
    ),
    ("a text of many expressions", "SELECT " + ", ".join(f"({n} + {n}) * 2 AS c{n}" for n in range(9000)), None),
]


@pytest.mark.parametrize(("text", "status"), [row[1:] for row in HOSTILE], ids=[row[0] for row in HOSTILE])
def test_a_hostile_query_has_an_answer_and_nobody_waits(
    server: RunningServer, client: Raw, text: str, status: int | None
) -> None:
    with probe(server) as late:
        found, _ = run(client, text)
        assert run(client, "SELECT v FROM t WHERE id = 1") == (SUCCESS, "")
    # None: how far the query comes depends on the machine.
    assert found == status or status is None
    assert max(late) < LONGEST_WAIT
    wait_for(server, lambda each: each.running == 0)


GREEDY = [
    (
        "lists in lists",
        "SELECT ListLength(ListMap(ListFromRange(0, 1000), ($i) -> (ListMap(ListFromRange(0, 100000), ($j) -> ($i * $j + 7)))))",
    ),
    (
        "an aggregated list",
        "SELECT AGGREGATE_LIST(a.v || b.v || c.v) FROM t AS a CROSS JOIN t AS b CROSS JOIN (SELECT v FROM t LIMIT 50) AS c",
    ),
]


@pytest.fixture(scope="module")
def poor() -> Iterator[RunningServer]:
    """A server with little memory for queries."""
    with filled(query_memory=24) as running:
        yield running


@pytest.mark.parametrize("text", [row[1] for row in GREEDY], ids=[row[0] for row in GREEDY])
def test_a_query_that_takes_all_memory_is_stopped(poor: RunningServer, text: str) -> None:
    with connected(poor.ydb.endpoint) as raw, probe(poor) as late:
        assert run(raw, text) == (PRECONDITION_FAILED, "Mkql memory limit exceeded")
    assert max(late) < LONGEST_WAIT


@pytest.mark.parametrize(
    ("text", "threads"),
    [
        ("SELECT v FROM t WHERE id = 1", 0),
        ("UPSERT INTO t (id, v, g) VALUES (1000, 'x', 1)", 0),
        ("UPDATE t SET v = 'y' WHERE id = 1000", 0),
        ("DELETE FROM t WHERE id = 1000", 0),
        ("SELECT 1, 'a', CurrentUtcTimestamp()", 0),
        ("SELECT v FROM t WHERE g = 3 LIMIT 2", 0),
        ("SELECT COUNT(*), SUM(id) FROM t WHERE v > 'val3'", 0),
        ("SELECT v FROM large", 1),
        ("SELECT v FROM t WHERE g = 3 ORDER BY v", 1),
        ("SELECT COUNT(*) FROM t AS a JOIN t AS b USING (id)", 1),
    ],
)
def test_what_is_small_stays_on_the_event_loop(server: RunningServer, client: Raw, text: str, threads: int) -> None:
    before = evaluators_of(server).counts.calls
    assert run(client, text)[0] == SUCCESS
    assert min(1, evaluators_of(server).counts.calls - before) == threads


def test_another_client_reads_meanwhile(server: RunningServer) -> None:
    async def read_beside() -> None:
        async with (
            ydb.aio.Driver(endpoint=server.ydb.endpoint, database=server.ydb.database) as driver,
            ydb.aio.QuerySessionPool(driver) as pool,
        ):
            once = ydb.RetrySettings(max_retries=0)
            hostile = asyncio.create_task(pool.execute_with_retries(ENDLESS, retry_settings=once))
            waits = []
            while not hostile.done():
                started = asyncio.get_running_loop().time()
                (found,) = await pool.execute_with_retries("SELECT v FROM t WHERE id = 7")
                assert found.rows[0]["v"] == b"val7"
                waits.append(asyncio.get_running_loop().time() - started)
            with pytest.raises(ydb.Timeout):
                await hostile
            assert len(waits) > 5
            assert max(waits) < LONGEST_WAIT

    asyncio.run(read_beside())


@pytest.mark.parametrize(
    ("length", "status"),
    [(MAX_TEXT_LENGTH - 1, SUCCESS), (MAX_TEXT_LENGTH, SUCCESS), (MAX_TEXT_LENGTH + 1, BAD_REQUEST)],
)
def test_the_length_of_a_text_is_limited(client: Raw, length: int, status: int) -> None:
    assert run(client, "SELECT 1 -- ".ljust(length, "x"))[0] == status


# --- ends before the server's own limit ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def patient() -> Iterator[RunningServer]:
    """A server that lets queries run for a minute."""
    with filled() as running:
        yield running


@pytest.fixture
def raw(patient: RunningServer) -> Iterator[Raw]:
    with connected(patient.ydb.endpoint) as client:
        yield client


@pytest.mark.parametrize(("name", "status"), [("operation_timeout", TIMEOUT), ("cancel_after", CANCELLED)])
def test_a_request_sets_the_time_of_its_query(patient: RunningServer, raw: Raw, name: str, status: int) -> None:
    session = raw.result(f"{TABLE}/CreateSession", "Ydb.Table.CreateSessionResult").session_id
    answer = raw.ask(
        f"{TABLE}/ExecuteDataQuery",
        session_id=session,
        query={"yql_text": ENDLESS},
        tx_control={"begin_tx": {"serializable_read_write": {}}, "commit_tx": True},
        operation_params={name: {"nanos": 50_000_000}},
    )
    assert answer.operation.status == status
    wait_for(patient, lambda each: each.running == 0)


def test_the_deadline_of_a_call_ends_its_query(patient: RunningServer, raw: Raw) -> None:
    with pytest.raises(grpc.RpcError) as raised:
        list(begin(raw, ENDLESS, open_session(raw), timeout=0.1))
    assert raised.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    wait_for(patient, lambda each: each.running == 0)


def test_a_client_that_leaves_ends_its_query(patient: RunningServer, raw: Raw) -> None:
    stream = begin(raw, ENDLESS, open_session(raw))
    wait_for(patient, lambda each: each.running == 1)
    stream.cancel()
    wait_for(patient, lambda each: each.running == 0)


def test_a_session_that_is_deleted_ends_its_query(patient: RunningServer, raw: Raw) -> None:
    session = open_session(raw)
    stream = begin(raw, ENDLESS, session)
    wait_for(patient, lambda each: each.running == 1)
    assert raw.ask(f"{QUERY}/DeleteSession", session_id=session).status == SUCCESS
    assert [part.status for part in stream] == [CANCELLED]
    wait_for(patient, lambda each: each.running == 0)


def test_a_script_is_cancelled_while_it_computes(patient: RunningServer, raw: Raw) -> None:
    started = raw.ask(f"{QUERY}/ExecuteScript", exec_mode=50, script_content={"text": ENDLESS})
    wait_for(patient, lambda each: each.running == 1)
    assert raw.ask("Ydb.Operation.V1.OperationService/CancelOperation", id=started.id).status == SUCCESS
    wait_for(patient, lambda each: each.running == 0)
    operation = raw.ask("Ydb.Operation.V1.OperationService/GetOperation", id=started.id).operation
    assert (operation.ready, operation.status) == (True, CANCELLED)


def test_a_server_that_stops_ends_its_queries() -> None:
    with filled() as server, connected(server.ydb.endpoint) as raw:
        stream = begin(raw, ENDLESS, open_session(raw))
        wait_for(server, lambda each: each.running == 1)
        on_loop(server, close_evaluations(server))
        assert [part.status for part in stream] == [UNAVAILABLE]


async def close_evaluations(server: RunningServer) -> None:
    evaluators_of(server).close()
