"""Limits of one query and of one transaction, and the refusals beyond them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mayflydb.engine import version_cache
from mayflydb.evaluation.stops import EvaluationStopped, StopReason, TooManyEvaluations
from mayflydb.frontends.ydb.errors import describe_error
from mayflydb.frontends.ydb.transactions import TransactionControl
from mayflydb.model.errors import WriteConflict
from mayflydb.query.yql.types import STRING, UTF8

HELD = "Memory limit exceeded: the query holds too many rows at once"


@pytest.fixture
def t(place: Any) -> Any:
    place.parts("CREATE TABLE t (id Int64, a Int64, PRIMARY KEY (id))")
    place.parts(
        "UPSERT INTO t SELECT * FROM AS_TABLE(ListMap(ListFromRange(0l, 60l), ($n) -> (<|id: $n, a: $n % 7l|>)))"
    )
    return place


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("SELECT id FROM t", True),
        ("SELECT COUNT(*) FROM t", True),
        ("SELECT a, COUNT(*) FROM t GROUP BY a", True),
        ("SELECT id FROM t ORDER BY a", False),
        ("SELECT DISTINCT id FROM t", False),
        ("SELECT id, COUNT(*) FROM t GROUP BY id", False),
        ("SELECT x.id FROM t AS x JOIN t AS y ON x.a = y.a", False),
        ("UPSERT INTO t SELECT id + 100 AS id, a FROM t", False),
    ],
)
def test_rows_that_a_query_holds(t: Any, monkeypatch: pytest.MonkeyPatch, text: str, fits: bool) -> None:
    environment = t.executor.environment
    run_of = environment.build_run
    monkeypatch.setattr(environment, "build_run", lambda *of: msgspec.structs.replace(run_of(*of), budget=30))
    if fits:
        assert t.rows(text)
        return
    refusal = t.refusal(text)
    assert (refusal.status, refusal.message) == ("GENERIC_ERROR", HELD)
    assert t.rows("SELECT COUNT(*) FROM t") == [(60,)]


def test_a_transaction_that_is_open_for_too_long(t: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Versions that others replace stay for an open transaction up to a limit. Beyond it the oldest transaction fails."""
    monkeypatch.setattr(version_cache, "MAX_VERSIONS", 100)
    old, text = t.begin("snapshot_read_only"), "SELECT SUM(a) FROM t"
    before = t.within(old, text)
    t.parts("UPDATE t SET a = a + 1")
    assert t.within(old, text) == before
    young = t.begin("snapshot_read_only")
    after = t.within(young, text)
    t.parts("UPDATE t SET a = a + 1")
    assert t.within(young, text) == after
    refusal = t.refusal(text, TransactionControl(id=old))
    assert (refusal.status, [issue.code for issue in refusal.issues]) == ("ABORTED", [2001, 2001])
    assert t.within(young, text) == after


@pytest.mark.parametrize(
    ("error", "codes"), [(WriteConflict("changed"), [2001, 2001]), (WriteConflict("changed", scheme=True), [2028])]
)
def test_conflicts_outside_of_queries_are_told_alike(error: WriteConflict, codes: list[int]) -> None:
    status, issues = describe_error(error)
    assert (status, [issue.code for issue in issues]) == ("ABORTED", codes)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (EvaluationStopped(StopReason.DEADLINE), "TIMEOUT"),
        (EvaluationStopped(StopReason.MEMORY), "PRECONDITION_FAILED"),
        (EvaluationStopped(StopReason.ABANDONED), "CANCELLED"),
        (EvaluationStopped(StopReason.CLOSING), "UNAVAILABLE"),
        (TooManyEvaluations(), "OVERLOADED"),
    ],
)
def test_computations_that_are_stopped_have_a_status(
    error: EvaluationStopped | TooManyEvaluations, status: str
) -> None:
    found, issues = describe_error(error)
    assert found == status
    assert all(issue.message for issue in issues)


SIZED = "CREATE TABLE sized (id Utf8, n Int64, s String, u Utf8, PRIMARY KEY (id, n))"
CELL = 16 << 20
KEY = (1 << 20) + 1024 - 8

# Sizes of the key's text, of `s`, of `u` in characters of two bytes; what is refused: (what, its size).
SIZES: list[tuple[int, int, int, tuple[str, int] | None]] = [
    (1, CELL, CELL // 2, None),
    (1, CELL + 1, 1, ("cell", CELL + 1)),
    (1, 1, CELL // 2 + 1, ("cell", CELL + 2)),
    (KEY, 1, 1, None),
    (KEY + 1, 1, 1, ("key", KEY + 9)),
]


@pytest.mark.parametrize(("key", "s", "u", "refused"), SIZES)
@pytest.mark.parametrize("verb", ["UPSERT", "INSERT"])
def test_values_and_keys_have_a_greatest_size(
    place: Any, verb: str, key: int, s: int, u: int, refused: tuple[str, int] | None
) -> None:
    place.parts(SIZED)
    text = f"{verb} INTO sized (id, n, s, u) VALUES ($id, 1, $s, $u)"
    given = {"id": (UTF8, "k" * key), "s": (STRING, b"s" * s), "u": (UTF8, "ж" * u)}
    if refused is None:
        place.parts(text, given)
        assert place.rows("SELECT LENGTH(s), LENGTH(u) FROM sized") == [(s, 2 * u)]
        return
    found = place.refusal(text, **given)
    what, size = refused
    most = CELL if what == "cell" else KEY + 8
    assert (found.status, found.issues[0].code) == ("BAD_REQUEST", 2017)
    assert found.message == f"Row {what} size of {size} bytes is larger than the allowed threshold {most}"
    assert place.rows("SELECT COUNT(*) FROM sized") == [(0,)]
