"""Each kind of rule is known wherever kinds are told apart; a failure names the place that misses one."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import get_args

import pytest

import mayflydb
from expiry.golden import Life, T
from mayflydb.embedded import Expired
from mayflydb.expiry import rules as rules_module
from mayflydb.expiry.deadline import cause_of, deadline, visible_at
from mayflydb.expiry.explain import CAUSES, explain
from mayflydb.expiry.passes import Schedule
from mayflydb.expiry.ranges import lanes, purge_ranges
from mayflydb.expiry.rules import Cause, Rule, RuleCause, column_rule, default_rule, index_rule
from mayflydb.model.instant import SECOND

SLOT, AFTER = 3, 60
DATED = Life(T, None, ((SLOT, T + 5 * SECOND),))

EXAMPLES: dict[str, tuple[Life, Rule, int]] = {
    # A record, a rule of this kind, and the seconds from T to the record's deadline.
    "default": (Life(T), default_rule(AFTER), AFTER),
    "item": (Life(T, 7), default_rule(AFTER), 7),
    "index": (DATED, index_rule(AFTER, SLOT, hides=True), 5 + AFTER),
    "column": (DATED, column_rule(AFTER, SLOT, hides=False), 5 + AFTER),
}

KINDS = get_args(Cause)


def test_every_kind_has_its_example_here() -> None:
    assert EXAMPLES.keys() == set(KINDS), "EXAMPLES of this file"
    assert set(KINDS) == {*get_args(RuleCause), "item"}, "Cause and RuleCause of expiry/rules.py"


@pytest.mark.parametrize("kind", get_args(RuleCause))
def test_a_kind_of_rule_has_a_constructor_that_a_front_end_uses(kind: str) -> None:
    name = f"{kind}_rule"
    assert hasattr(rules_module, name), f"{name}() of expiry/rules.py"
    assert EXAMPLES[kind][1].cause == kind, f"the cause that {name}() of expiry/rules.py gives"
    users = [
        path
        for path in Path(mayflydb.__file__).parent.glob("frontends/**/*.py")
        if f"{name}(" in path.read_text("utf-8")
    ]
    assert users, f"a front end that makes rules by {name}()"


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_dies_under_a_rule_of_each_kind(kind: str) -> None:
    life, rule, seconds = EXAMPLES[kind]
    ends = T + seconds * SECOND
    assert deadline(life, (rule,)) == ends, "deadline_under() of expiry/deadline.py"
    assert cause_of(life, rule) == kind, "cause_of() of expiry/deadline.py"
    assert visible_at(life, (rule,), ends - 1) and visible_at(life, (rule,), ends) is not rule.hides


@pytest.mark.parametrize("kind", KINDS)
def test_a_sweep_finds_each_kind(kind: str) -> None:
    life, rule, seconds = EXAMPLES[kind]
    ends = T + seconds * SECOND
    (lane,) = (lane for lane in lanes((rule,)) if lane.cause == kind)
    value = ends if lane.span is None else dict(life.dates)[SLOT] if rule.slot is not None else T
    assert lane.deadline(value) == ends, "lanes() of expiry/ranges.py"
    ranges = [due for due in purge_ranges((rule,), ends, passing(ends)) if due.cause == kind]
    assert [due.upto for due in ranges] == [value], "purge_ranges() of expiry/ranges.py"
    before = [due for due in purge_ranges((rule,), ends - 1, passing(ends - 1)) if due.cause == kind]
    assert all(due.upto < value for due in before)


def passing(now: int) -> Schedule:
    """A schedule that has a pass at this instant."""
    return Schedule(now - 3600 * SECOND, 3600 * SECOND)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_explained(kind: str) -> None:
    assert kind in CAUSES, "CAUSES of expiry/explain.py"
    life, rule, _ = EXAMPLES[kind]
    told = explain(life, (rule,), T)
    assert told.reason == kind
    others = {explain(*one[:1], (one[1],), T).text for other, one in EXAMPLES.items() if other != kind}
    assert told.text not in others, "the text of CAUSES in expiry/explain.py tells this kind from the others"


@pytest.mark.parametrize("kind", KINDS)
def test_a_front_end_may_word_each_kind(kind: str) -> None:
    life, rule, _ = EXAMPLES[kind]
    text = "because of {}" if rule.slot is None else "because of {name}: {}"
    told = explain(life, (rule,), T, {SLOT: "at"}, {kind: text})  # type: ignore[dict-item]
    said = {"default": "60", "item": "7", "index": "index at: 60", "column": "at: PT1M"}[kind]
    assert told.text == f"because of {said}", "_how() of expiry/explain.py"


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_documented(kind: str) -> None:
    assert f"`{kind}`" in inspect.getdoc(Expired), "the docstring of Expired in embedded/questions.py"  # type: ignore[operator]
