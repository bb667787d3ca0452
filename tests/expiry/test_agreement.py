"""For any record, rules and instant, all the functions of expiry say the same."""

from __future__ import annotations

from typing import get_args

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from expiry.golden import Life, in_ranges, path_value
from mayflydb.expiry.deadline import deadline, deadline_under, due_at, earliest_expiry, visibility, visible_at
from mayflydb.expiry.explain import explain
from mayflydb.expiry.ranges import due_ranges, lanes
from mayflydb.expiry.rules import Rule, RuleCause
from mayflydb.model.instant import SECOND
from mayflydb.model.record import IGNORED, NEVER

NEAR = st.integers(-3, 12).map(lambda seconds: seconds * SECOND)
INSTANTS = st.one_of(NEAR, NEAR.flatmap(lambda near: st.integers(near - 1, near + 1)), st.integers(-(2**70), 2**70))
SPANS = st.one_of(st.integers(0, 9), st.sampled_from([2**31 - 1, 2**31, 2**32, 2**53]))
OWN = st.one_of(st.none(), st.sampled_from([NEVER, IGNORED]), SPANS.map(lambda span: span or 1))
RULES = st.builds(
    Rule,
    cause=st.sampled_from(get_args(RuleCause)),
    after=st.one_of(st.none(), SPANS),
    overrides=st.just(True),
    hides=st.booleans(),
    not_before=st.one_of(st.none(), INSTANTS),
    version=st.integers(0, 9),
)
DATES = st.dictionaries(st.integers(16, 18), INSTANTS).map(lambda dates: tuple(sorted(dates.items())))
LIVES = st.builds(Life, st.one_of(st.none(), INSTANTS), OWN, DATES)
DATED = st.builds(
    Rule,
    cause=st.just("index"),
    after=SPANS,
    hides=st.booleans(),
    not_before=st.one_of(st.none(), INSTANTS),
    slot=st.integers(16, 18),
)
# Rules that let own ttls count are for containers with own ttls; the others for those without.
WORLDS = st.one_of(
    st.tuples(LIVES, st.lists(st.one_of(RULES, DATED), max_size=4).map(tuple)),
    st.tuples(
        st.builds(Life, st.one_of(st.none(), INSTANTS)),
        st.lists(st.builds(Rule, st.just("index"), SPANS, st.booleans(), st.booleans()), max_size=4).map(tuple),
    ),
)


@given(WORLDS, INSTANTS)
@settings(max_examples=1000, suppress_health_check=[HealthCheck.too_slow])
def test_due_iff_in_ranges(world: tuple[Life, tuple[Rule, ...]], now: int) -> None:
    life, rules = world
    assert due_at(life, rules, now) == in_ranges(life, rules, now)


@given(WORLDS, st.integers(-1, 1))
@settings(max_examples=1000, suppress_health_check=[HealthCheck.too_slow])
def test_due_from_deadline_on(world: tuple[Life, tuple[Rule, ...]], step: int) -> None:
    life, rules = world
    ends = deadline(life, rules)
    if ends is None:
        assert not due_at(life, rules, 2**90)
    else:
        assert due_at(life, rules, ends + step) == (step >= 0)
        assert in_ranges(life, rules, ends + step) == (step >= 0)


@given(WORLDS, INSTANTS)
def test_visible_by_hiding_rules(world: tuple[Life, tuple[Rule, ...]], now: int) -> None:
    life, rules = world
    hiding = tuple(rule for rule in rules if rule.hides)
    assert visible_at(life, rules, now) != due_at(life, hiding, now)


@given(WORLDS, INSTANTS)
@settings(max_examples=1000, suppress_health_check=[HealthCheck.too_slow])
def test_visibility_of_many_is_that_of_each(world: tuple[Life, tuple[Rule, ...]], now: int) -> None:
    life, rules = world
    is_visible = visibility(rules, now)
    assert (is_visible is None or is_visible(life)) == visible_at(life, rules, now)


@given(WORLDS)
@settings(max_examples=1000, suppress_health_check=[HealthCheck.too_slow])
def test_visibility_of_many_ends_at_the_deadline(world: tuple[Life, tuple[Rule, ...]]) -> None:
    life, rules = world
    ends = deadline(life, [rule for rule in rules if rule.hides])
    if ends is not None:
        before, at = visibility(rules, ends - 1), visibility(rules, ends)
        assert before is None or before(life)
        assert at is not None and not at(life)


@given(WORLDS)
def test_killer_has_the_deadline(world: tuple[Life, tuple[Rule, ...]]) -> None:
    life, rules = world
    death = earliest_expiry(life, rules)
    assert (None if death is None else death[0]) == deadline(life, rules)
    if death is not None:
        assert deadline_under(life, death[1]) == death[0]


@given(WORLDS)
def test_lanes_give_deadlines(world: tuple[Life, tuple[Rule, ...]]) -> None:
    """The earliest over the lanes that a record is on is its deadline."""
    life, rules = world
    values = ((lane, path_value(life, lane.path)) for lane in lanes(rules))
    assert min((lane.deadline(value) for lane, value in values if value is not None), default=None) == deadline(
        life, rules
    )


@given(WORLDS, INSTANTS)
def test_range_spans(world: tuple[Life, tuple[Rule, ...]], now: int) -> None:
    """What a range says of its deadlines is what the record's rule says."""
    life, rules = world
    for due in due_ranges(rules, now):
        value = path_value(life, due.path)
        if value is not None and value <= due.upto:
            ends = max(value + (due.span or 0), due.rule.not_before if due.rule.not_before is not None else -(2**99))
            assert ends == deadline_under(life, due.rule)
            assert ends <= now


@given(WORLDS, INSTANTS)
def test_explanation_agrees(world: tuple[Life, tuple[Rule, ...]], now: int) -> None:
    life, rules = world
    rules = tuple(rule for rule in rules if rule.not_before is None or 0 <= rule.not_before < 2**57)
    told = explain(life, rules, now)
    assert told.deadline == deadline(life, rules)
    assert (told.state == "hidden") == (not visible_at(life, rules, now))
    assert (told.state == "alive") == (not due_at(life, rules, now))
    assert (told.deadline is None) == (told.reason in {"off", "never", "no-anchor", "invalid-override"})
