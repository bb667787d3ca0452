"""Changefeeds are added, described and dropped: statements and requests of the vendor's client, and their refusals.

Source: https://ydb.tech/docs/en/yql/reference/syntax/alter_table/changefeed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mayflydb.frontends.ydb.changefeeds.options import check_spec
from mayflydb.frontends.ydb.schemes.faults import Invalid
from mayflydb.frontends.ydb.schemes.specs import ChangefeedSpec
from ydb_raw import Raw, connected

ydb: Any = pytest.importorskip("ydb")

TABLE = "CREATE TABLE t (id Uint64, v Int32, at Timestamp, PRIMARY KEY (id))"
SERVICE = "Ydb.Table.V1.TableService"
FEED = "MODE = 'KEYS_ONLY', FORMAT = 'JSON'"


@pytest.fixture
def do(query_pool: Any) -> Iterator[Any]:
    def run(text: str) -> Any:
        return query_pool.execute_with_retries(text, retry_settings=ydb.RetrySettings(max_retries=0))

    run("DROP TABLE IF EXISTS t")
    run(TABLE)
    yield run
    run("DROP TABLE IF EXISTS t")


@pytest.fixture(scope="module")
def raw(ydb_server: Any) -> Iterator[Raw]:
    with connected(ydb_server.ydb.endpoint) as found:
        yield found


def session_of(raw: Raw) -> str:
    return str(raw.result(f"{SERVICE}/CreateSession", "Ydb.Table.CreateSessionResult").session_id)


def described(raw: Raw, table: str = "/local/t") -> list[tuple[Any, ...]]:
    """(name, mode, format, state, virtual timestamps) of each changefeed."""
    found = raw.result(
        f"{SERVICE}/DescribeTable", "Ydb.Table.DescribeTableResult", session_id=session_of(raw), path=table
    )
    return [(each.name, each.mode, each.format, each.state, each.virtual_timestamps) for each in found.changefeeds]


def refused(do: Any, text: str) -> tuple[str, str]:
    with pytest.raises(ydb.Error) as caught:
        do(text)
    texts: list[str] = []
    issues = list(caught.value.issues or ())
    while issues:
        issue = issues.pop(0)
        texts.append(issue.message)
        issues += issue.issues
    return type(caught.value).__name__, texts[-1]


def test_feeds_come_and_go(do: Any, raw: Raw) -> None:
    do(f"ALTER TABLE t ADD CHANGEFEED a WITH ({FEED}, VIRTUAL_TIMESTAMPS = TRUE)")
    do(
        "ALTER TABLE t ADD CHANGEFEED b WITH (mode = 'new_image', FORMAT = 'DEBEZIUM_JSON', RETENTION_PERIOD = Interval('PT2H'))"
    )
    assert described(raw) == [("a", 1, 1, 1, True), ("b", 3, 3, 1, False)]
    do("ALTER TABLE t DROP CHANGEFEED a")
    assert described(raw) == [("b", 3, 3, 1, False)]
    # A name is free again.
    do(f"ALTER TABLE t ADD CHANGEFEED a WITH ({FEED})")
    assert [name for name, *_ in described(raw)] == ["b", "a"]


def test_feeds_of_a_new_table(do: Any, raw: Raw) -> None:
    do("DROP TABLE t")
    do(f"CREATE TABLE t (id Uint64, PRIMARY KEY (id), CHANGEFEED f WITH ({FEED}, INITIAL_SCAN = TRUE))")
    # There is nothing to scan.
    assert described(raw) == [("f", 1, 1, 1, False)]


def test_the_statement_that_shows(do: Any) -> None:
    settings = "MODE = 'UPDATES', FORMAT = 'JSON', USER_SIDS = TRUE, RETENTION_PERIOD = Interval('PT90M')"
    do(f"ALTER TABLE t ADD CHANGEFEED f WITH ({settings})")
    (found,) = do("SHOW CREATE TABLE t")
    (text, *_) = found.rows[0].values()
    text = text.decode() if isinstance(text, bytes) else text
    added = text[text.index("ALTER TABLE") :].strip().rstrip(";")
    assert "USER_SIDS = TRUE" in added
    assert "INTERVAL('PT1H30M')" in added
    do("DROP TABLE t")
    do(TABLE)
    do(added)


def test_a_table_takes_its_feeds_along(do: Any, raw: Raw) -> None:
    do(f"ALTER TABLE t ADD CHANGEFEED f WITH ({FEED})")
    assert refused(do, "ALTER TABLE t RENAME TO u") == ("PreconditionFailed", "Cannot move table with cdc streams")
    copied: Any = {"source_path": "/local/t", "destination_path": "/local/copy"}
    raw.ask(f"{SERVICE}/CopyTable", session_id=session_of(raw), **copied)
    assert described(raw, "/local/copy") == []
    do("DROP TABLE copy")
    do("DROP TABLE t")
    do(TABLE)
    assert described(raw) == []
    do(f"ALTER TABLE t ADD CHANGEFEED f WITH ({FEED})")


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("MODE = 'KEYS_ONLY'", ("BadRequest", "Invalid stream format: 0")),
        ("FORMAT = 'JSON'", ("BadRequest", "Invalid stream mode: 0")),
        ("MODE = 'ALL', FORMAT = 'JSON'", ("GenericError", "Unknown changefeed mode: ALL")),
        ("MODE = 'UPDATES', FORMAT = 'XML'", ("GenericError", "Unknown changefeed format: XML")),
        (f"{FEED}, FOO = 1", ("GenericError", "Unknown changefeed setting: FOO")),
        (f"{FEED}, SINK_TYPE = 'S3'", ("GenericError", "Unknown changefeed sink type: S3")),
        (f"{FEED}, INITIAL_SCAN = 'x'", ("GenericError", "Literal of Bool type is expected for INITIAL_SCAN")),
        (
            f"{FEED}, RETENTION_PERIOD = 'x'",
            ("GenericError", "Literal of Interval type is expected for RETENTION_PERIOD"),
        ),
        ("MODE = 1, FORMAT = 'JSON'", ("GenericError", "Literal of String type is expected for MODE")),
        (f"{FEED}, RETENTION_PERIOD = Interval('P0D')", ("GenericError", "retention_period must be positive")),
        (
            f"{FEED}, TOPIC_MIN_ACTIVE_PARTITIONS = 'a'",
            ("GenericError", "Literal of integer type is expected for TOPIC_MIN_ACTIVE_PARTITIONS"),
        ),
        (
            f"{FEED}, TOPIC_MIN_ACTIVE_PARTITIONS = 0",
            ("GenericError", "topic_min_active_partitions must be greater than 0"),
        ),
        (
            "MODE = 'UPDATES', FORMAT = 'DEBEZIUM_JSON'",
            ("BadRequest", "DEBEZIUM_JSON format incompatible with specified stream mode"),
        ),
        (
            "MODE = 'UPDATES', FORMAT = 'DYNAMODB_STREAMS_JSON'",
            ("BadRequest", "DYNAMODB_STREAMS_JSON format incompatible with specified stream mode"),
        ),
        (
            "MODE = 'KEYS_ONLY', FORMAT = 'DYNAMODB_STREAMS_JSON'",
            ("BadRequest", "DYNAMODB_STREAMS_JSON format incompatible with non-document table"),
        ),
        (f"{FEED}, AWS_REGION = 'eu'", ("BadRequest", "AWS_REGION option incompatible with specified stream format")),
        (
            "MODE = 'KEYS_ONLY', FORMAT = 'DEBEZIUM_JSON', VIRTUAL_TIMESTAMPS = TRUE",
            ("BadRequest", "VIRTUAL_TIMESTAMPS incompatible with specified stream format"),
        ),
        (
            f"{FEED}, BARRIERS_INTERVAL = Interval('PT1S')",
            ("Unsupported", "BARRIERS_INTERVAL of a changefeed is not supported"),
        ),
        (f"{FEED}, SCHEMA_CHANGES = TRUE", ("Unsupported", "SCHEMA_CHANGES of a changefeed is not supported")),
        (f"{FEED}, TRACE_IDS = TRUE", ("Unsupported", "TRACE_IDS of a changefeed is not supported")),
    ],
)
def test_refusals(do: Any, raw: Raw, settings: str, expected: tuple[str, str]) -> None:
    assert refused(do, f"ALTER TABLE t ADD CHANGEFEED f WITH ({settings})") == expected
    assert described(raw) == []


def test_30_days_are_kept_and_not_a_second_more(do: Any, raw: Raw) -> None:
    assert (
        refused(do, f"ALTER TABLE t ADD CHANGEFEED f WITH ({FEED}, RETENTION_PERIOD = Interval('P30DT1S'))")[0]
        == "BadRequest"
    )
    do(f"ALTER TABLE t ADD CHANGEFEED f WITH ({FEED}, RETENTION_PERIOD = Interval('P30D'))")
    assert [name for name, *_ in described(raw)] == ["f"]


@pytest.mark.parametrize(
    ("actions", "status"),
    [
        (f"ADD CHANGEFEED f WITH ({FEED}), ADD COLUMN x Int32", "Unsupported"),
        (f"ADD CHANGEFEED f WITH ({FEED}), ADD CHANGEFEED g WITH ({FEED})", "Unsupported"),
        ("DROP CHANGEFEED f", "SchemeError"),
    ],
)
def test_refused_alterations(do: Any, raw: Raw, actions: str, status: str) -> None:
    assert refused(do, f"ALTER TABLE t {actions}")[0] == status
    assert described(raw) == []


def test_a_name_that_is_taken(do: Any) -> None:
    do(f"ALTER TABLE t ADD CHANGEFEED f WITH ({FEED})")
    status, text = refused(do, f"ALTER TABLE t ADD CHANGEFEED f WITH ({FEED})")
    assert (status, "path exist" in text) == ("SchemeError", True)


def test_requests(do: Any, raw: Raw) -> None:
    session, alter = session_of(raw), f"{SERVICE}/AlterTable"
    raw.ask(alter, session_id=session, path="/local/t", add_changefeeds=[{"name": "f", "mode": 5, "format": 1}])
    assert described(raw) == [("f", 5, 1, 1, False)]
    for given, text in (
        ({"name": "g", "format": 1}, "Invalid stream mode: 0"),
        ({"name": "g", "mode": 1}, "Invalid stream format: 0"),
        (
            {"name": "g", "mode": 1, "format": 1, "schema_changes": True},
            "schema_changes of a changefeed is not supported",
        ),
        (
            {"name": "g", "mode": 1, "format": 1, "topic_partitioning_settings": {"max_active_partitions": 7}},
            "max_active_partitions of a changefeed's topic is not supported",
        ),
    ):
        answer = raw.ask(alter, session_id=session, path="/local/t", add_changefeeds=[given])
        assert [issue.message for issue in answer.operation.issues] == [text]
    raw.ask(alter, session_id=session, path="/local/t", drop_changefeeds=["f"])
    assert described(raw) == []


@pytest.mark.parametrize("partitions", [-5, 0])
def test_a_request_asks_for_a_partition_at_least(partitions: int) -> None:
    """Rows of a changefeed with fewer could not be placed, so no write to the table would succeed."""
    with pytest.raises(Invalid, match="topic_min_active_partitions must be greater than 0"):
        check_spec(ChangefeedSpec("f", "UPDATES", "JSON", partitions=partitions), {}, "Uint64")
