"""The tables hold, and every bug planted in the code makes one of them fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from expiry.golden import CHECKS, MATRIX, Life, T, cosmos, rows
from mayflydb.expiry import deadline as truth
from mayflydb.expiry import ranges
from mayflydb.expiry.ranges import DueRange, Lane
from mayflydb.expiry.rules import Rule
from mayflydb.model.due import DuePath
from mayflydb.model.instant import SECOND
from mayflydb.model.record import IGNORED, NEVER

deadline_under, due_ranges, span_under = truth.deadline_under, ranges.due_ranges, truth.span_under
visibility = truth.visibility


@pytest.mark.parametrize("check", CHECKS)
def test_golden_table(check: Callable[[], None]) -> None:
    check()


def test_matrix_is_whole() -> None:
    assert len({row[0] for row in rows(MATRIX)}) == 9


def _deadline_where(span: Callable[[Any, Rule], int | None]) -> Callable[[Any, Rule], int | None]:
    """deadline_under with another idea of the span."""

    def mutant(record: Any, rule: Rule) -> int | None:
        seconds = span(record, rule)
        if seconds is None or record.anchor is None:
            return None
        deadline: int = record.anchor + seconds * SECOND
        return deadline if rule.not_before is None else max(deadline, rule.not_before)

    return mutant


def _stored_deadlines() -> Callable[[Any, Rule], int | None]:
    """Spans copied to the record at its first look: a later change of rule does not reach it."""
    stored: dict[Any, int | None] = {}
    return lambda record, rule: stored.setdefault(record, deadline_under(record, rule))


def _signed_32(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


def _wrapped(record: Any, rule: Rule) -> int | None:
    deadline = deadline_under(record, rule)
    return None if deadline is None else _signed_32(deadline // SECOND) * SECOND + deadline % SECOND


def _rounded(record: Any, rule: Rule) -> int | None:
    deadline = deadline_under(record, rule)
    return None if deadline is None else int(float(deadline))


def _ranges_where(change: Callable[[DueRange], DueRange | None]) -> Callable[[Any, int], tuple[DueRange, ...]]:
    return lambda rules, now: tuple(found for due in due_ranges(rules, now) if (found := change(due)) is not None)


def _moved(by: int) -> Callable[[DueRange], DueRange]:
    return lambda due: DueRange(due.path, due.upto + by, due.span, due.cause, due.rule)


def _visible_unless_due(record: Any, rules: Any, now: int) -> bool:
    return not truth.due_at(record, rules, now)


def _eager_ranges(rules: Any, now: int) -> tuple[DueRange, ...]:
    """The ranges without regard to not_before."""
    return tuple(
        DueRange(lane.path, now - (lane.span or 0), lane.span, lane.cause, lane.rule) for lane in ranges.lanes(rules)
    )


def _last(record: Any, rules: Any) -> int | None:
    return max((d for rule in rules if (d := truth.deadline_under(record, rule)) is not None), default=None)


def _first_rule(record: Any, rules: Any, now: int) -> bool:
    return any(truth._has_passed(truth.deadline_under(record, rule), now) for rule in rules[:1])


BUGS: dict[str, tuple[Any, str, Any]] = {
    "boundary <": (truth, "_has_passed", lambda instant, now: instant is not None and instant < now),
    "boundary >=": (truth, "_has_passed", lambda instant, now: instant is not None and instant >= now),
    "boundary early": (truth, "_has_passed", lambda instant, now: instant is not None and instant - 1 <= now),
    "boundary late": (truth, "_has_passed", lambda instant, now: instant is not None and instant + 1 <= now),
    "boundary by seconds": (
        truth,
        "_has_passed",
        lambda instant, now: instant is not None and instant // SECOND <= now // SECOND,
    ),
    "none is dead": (truth, "_has_passed", lambda instant, now: instant is None or instant <= now),
    "stored deadlines": (truth, "deadline_under", _stored_deadlines()),
    "seconds in 32 bits": (truth, "deadline_under", _wrapped),
    "deadlines as floats": (truth, "deadline_under", _rounded),
    "milliseconds": (truth, "SECOND", 1000),
    "default wins": (
        truth,
        "deadline_under",
        _deadline_where(lambda record, rule: rule.after if rule.after is not None else span_under(record, rule)),
    ),
    "own ttl ignored": (truth, "span_under", lambda record, rule: rule.after),
    "own ttl always counts": (
        truth,
        "span_under",
        lambda record, rule: (None if record.override == NEVER else record.override) if record.override else rule.after,
    ),
    "-1 is a span": (
        truth,
        "span_under",
        lambda record, rule: record.override if rule.overrides and record.override else rule.after,
    ),
    "ignored is zero": (
        truth,
        "span_under",
        lambda record, rule: 0 if rule.overrides and record.override == IGNORED else span_under(record, rule),
    ),
    "no default is zero": (truth, "span_under", lambda record, rule: span_under(record, rule) or 0),
    "shorter wins": (
        truth,
        "span_under",
        lambda record, rule: min(
            (span for span in (span_under(record, rule), rule.after) if span is not None), default=None
        ),
    ),
    "no anchor is the epoch": (
        truth,
        "deadline_under",
        lambda record, rule: deadline_under(Life(record.anchor or 0, record.override), rule),
    ),
    "epoch is no anchor": (
        truth,
        "deadline_under",
        lambda record, rule: deadline_under(record, rule) if record.anchor else None,
    ),
    "not_before forgotten": (
        truth,
        "deadline_under",
        lambda record, rule: deadline_under(record, Rule(rule.cause, rule.after, rule.overrides, rule.hides)),
    ),
    "not_before is the deadline": (
        truth,
        "deadline_under",
        lambda record, rule: (deadline := deadline_under(record, rule)) and (rule.not_before or deadline),
    ),
    "dates forgotten": (truth, "anchor_under", lambda record, rule: record.anchor),
    "first date": (truth, "anchor_under", lambda record, rule: record.dates[0][1] if record.dates else None),
    "latest rule": (truth, "deadline", _last),
    "first rule": (truth, "due_at", _first_rule),
    "show is hide": (truth, "visible_at", _visible_unless_due),
    "hide is show": (truth, "visible_at", lambda record, rules, now: True),
    "many show": (truth, "visibility", lambda rules, now: None),
    "many late": (truth, "visibility", lambda rules, now: visibility(rules, now - 1)),
    "ranges early": (ranges, "due_ranges", _ranges_where(_moved(1))),
    "ranges late": (ranges, "due_ranges", _ranges_where(_moved(-1))),
    "ranges without own": (
        ranges,
        "due_ranges",
        _ranges_where(lambda due: due if due.path is DuePath.ANCHOR else None),
    ),
    "ranges without default": (
        ranges,
        "due_ranges",
        _ranges_where(lambda due: due if due.path is DuePath.DEADLINE else None),
    ),
    "ranges of first rule": (ranges, "due_ranges", lambda rules, now: due_ranges(rules[:1], now)),
    "ranges in milliseconds": (ranges, "SECOND", 1000),
    "ranges without not_before": (ranges, "due_ranges", _eager_ranges),
    "ranges on the other path": (
        ranges,
        "due_ranges",
        _ranges_where(lambda due: DueRange(DuePath.ANCHOR, due.upto, due.span, due.cause, due.rule)),
    ),
    "ranges without own ttl rule": (
        ranges,
        "due_ranges",
        _ranges_where(lambda due: due if due.rule.after is not None else None),
    ),
}


def _fails(check: Callable[[], None]) -> bool:
    try:
        check()
    except AssertionError:
        return True
    return False


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bug(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, name, mutant = BUGS[bug]
    monkeypatch.setattr(module, name, mutant)
    assert any(_fails(check) for check in CHECKS), f"no table notices: {bug}"


@pytest.mark.parametrize(
    ("life", "rules", "cause", "version"),
    [
        (Life(T), (Rule("default", 10, True, True, version=4),), "default", 4),
        (Life(T, 5), (Rule("default", 10, True, True, version=4),), "item", 4),
        (Life(T, IGNORED), (Rule("default", 10, True, True, version=4),), "default", 4),
        (Life(T, 5), (Rule("index", 10, version=1),), "index", 1),
        (Life(T), (Rule("index", 10, version=1), Rule("index", 9, version=2)), "index", 2),
        (Life(T), (Rule("column", 10, version=1), Rule("index", 10, version=2)), "column", 1),
        (Life(T, 5), (Rule("index", 4, version=1), Rule("default", 9, True, True, version=2)), "index", 1),
        (Life(T, 3), (Rule("index", 4, version=1), Rule("default", 9, True, True, version=2)), "item", 2),
    ],
)
def test_killer(life: Life, rules: tuple[Rule, ...], cause: str, version: int) -> None:
    """The rule with the earliest deadline; among equals the first."""
    death = truth.earliest_expiry(life, rules)
    assert death is not None
    deadline, rule = death
    assert deadline == truth.deadline(life, rules)
    assert (truth.cause_of(life, rule), rule.version) == (cause, version)


@pytest.mark.parametrize("life", [Life(None), Life(None, 5), Life(T), Life(T, NEVER), Life(T, IGNORED)])
def test_no_killer(life: Life) -> None:
    assert truth.earliest_expiry(life, ()) is None
    assert truth.earliest_expiry(life, cosmos(-1)) is None


def test_lane_deadlines() -> None:
    """A lane turns a value on its path into the deadline, and an instant into the highest value that is due."""
    own, default = Lane(DuePath.DEADLINE, None, "item", cosmos(5)[0]), ranges.lanes(cosmos(5))[0]
    assert (own.deadline(T), own.highest_due(T)) == (T, T)
    assert (default.deadline(T), default.highest_due(T)) == (T + 5 * SECOND, T - 5 * SECOND)
    held = ranges.lanes((Rule("default", 5, not_before=T + 9),))[0]
    assert (held.deadline(T), held.deadline(T - 5 * SECOND), held.deadline(T - 6 * SECOND)) == (
        T + 5 * SECOND,
        T + 9,
        T + 9,
    )
    assert (held.highest_due(T + 8), held.highest_due(T + 9)) == (None, T + 9 - 5 * SECOND)
