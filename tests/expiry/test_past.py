"""The rules of earlier instants."""

from __future__ import annotations

import pytest

from mayflydb.expiry.past import MAX_CHANGES, FormerRules, Past, find_first_known, remember_rules, rules_at
from mayflydb.expiry.rules import default_rule
from mayflydb.model.instant import SECOND

RULES = [(default_rule(n),) for n in range(5)]
HOUR = 3600
PAST = Past(100, (FormerRules(200, RULES[0]), FormerRules(300, RULES[1])))


@pytest.mark.parametrize(("at", "expected"), [(100, 0), (199, 0), (200, 1), (299, 1), (300, 2), (10**15, 2)])
def test_a_change_holds_from_its_own_instant_on(at: int, expected: int) -> None:
    assert rules_at(PAST, RULES[2], at) == RULES[expected]


@pytest.mark.parametrize(
    ("history", "now", "expected"), [(HOUR, 101, 100), (1, 100 + SECOND, 100), (1, 101 + SECOND, 101)]
)
def test_the_first_instant_that_is_known(history: int, now: int, expected: int) -> None:
    assert find_first_known(PAST, history, now) == expected


def test_of_two_changes_at_one_instant_the_rules_of_before_are_remembered() -> None:
    past = remember_rules(PAST, RULES[2], HOUR, 400)
    again = remember_rules(past, RULES[3], HOUR, 400)
    assert past == again == Past(100, (*PAST.former, FormerRules(400, RULES[2])))


def test_rules_go_with_their_states() -> None:
    for now, left in ((SECOND + 199, 2), (SECOND + 200, 1), (SECOND + 300, 0)):
        assert remember_rules(PAST, RULES[2], 1, now).former[:-1] == PAST.former[2 - left :]


def test_the_oldest_of_many_rules_goes_with_the_states_before_it() -> None:
    past = Past(0)
    for n in range(MAX_CHANGES + 2):
        past = remember_rules(past, RULES[n % 5], HOUR, 10 * (n + 1))
    assert (past.since, len(past.former)) == (20, MAX_CHANGES)
    assert rules_at(past, (), 20) == RULES[2]
