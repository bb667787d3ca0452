"""What people read about one record."""

from __future__ import annotations

import pytest

from expiry.golden import Life, T, cosmos
from mayflydb.expiry.explain import Explanation, explain
from mayflydb.expiry.rules import Rule
from mayflydb.model.instant import SECOND
from mayflydb.model.record import IGNORED, NEVER, Record

OFF = "ttl is off for the container"
INVALID = "the item's own ttl is not valid"


@pytest.mark.parametrize(
    ("life", "rules", "reason", "text", "seconds"),
    [
        (Life(T), cosmos(3600), "default", "default ttl 3600 s after the last write", 3600),
        (Life(T, 60), cosmos(3600), "item", "own ttl 60 s after the last write", 60),
        (Life(T, 60), cosmos(-1), "item", "own ttl 60 s after the last write", 60),
        (
            Life(T, IGNORED),
            cosmos(3600),
            "default",
            "default ttl 3600 s after the last write; the item's own ttl is not valid and counts as absent",
            3600,
        ),
        (
            Life(T),
            (Rule("default", 1, True, True, T + 9 * SECOND),),
            "default",
            "default ttl 1 s after the last write; not before 2030-01-01T00:00:09Z",
            9,
        ),
        (Life(T), (Rule("index", 0),), "index", "index (0 s)", 0),
        (Life(T), (Rule("column", 60),), "column", "column + PT1M", 60),
        (Life(T), (Rule("index", 9), Rule("index", 7)), "index", "index (7 s)", 7),
        (Life(T), (), "off", OFF, None),
        (Life(T, 60), (), "off", f"{OFF}; an item's own ttl counts only while it is on", None),
        (Life(T), cosmos(-1), "never", "ttl is on without a default, and the item has no ttl of its own", None),
        (Life(T, NEVER), cosmos(-1), "never", "item ttl -1: lives for ever", None),
        (Life(T, NEVER), cosmos(3600), "never", "item ttl -1: lives for ever", None),
        (Life(T, IGNORED), cosmos(-1), "invalid-override", f"{INVALID}, and there is no default", None),
        (Life(None), cosmos(3600), "no-anchor", "there is no instant to count from", None),
        (Life(None, 60), cosmos(3600), "no-anchor", "there is no instant to count from", None),
        (Life(None), (), "off", OFF, None),
    ],
)
def test_explain(life: Life, rules: tuple[Rule, ...], reason: str, text: str, seconds: int | None) -> None:
    deadline = None if seconds is None else T + seconds * SECOND
    told = explain(life, rules, T - 1)
    assert (told.state, told.reason, told.text, told.deadline) == ("alive", reason, text, deadline)
    if deadline is not None:
        dead = "hidden" if rules[0].hides else "due"
        assert explain(life, rules, deadline - 1).state == "alive"
        assert explain(life, rules, deadline).state == dead
    else:
        assert explain(life, rules, 10**18) == told


def test_due_then_hidden() -> None:
    """Shown by the rule that kills first, hidden by a later one."""
    rules = (Rule("index", 5), Rule("default", 9, True, True))
    states = [explain(Life(T), rules, T + n * SECOND).state for n in (4, 5, 8, 9)]
    assert states == ["alive", "due", "due", "hidden"]
    assert explain(Life(T), rules, T + 9 * SECOND) == Explanation("hidden", "index", "index (5 s)", T + 5 * SECOND)


def test_an_index_is_named() -> None:
    """By its slot; one without a name by its seconds alone."""
    rules = (Rule("index", 5, slot=16), Rule("index", 9, slot=17))
    for dates, text in (((16, T),), "index at_1 (5 s)"), (((17, T),), "index (9 s)"):
        record = Record(b"", b"", b"", T, T, None, 1, 1, dates)
        assert explain(record, rules, T, {16: "at_1"}).text == text
