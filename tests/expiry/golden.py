"""The truth about expiry as tables, and what it means that the code agrees with them.

Each check takes no arguments and raises AssertionError, so that planted bugs can be shown to be caught. The functions under
test are looked up in their modules at each call for the same reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product

import msgspec

from mayflydb.expiry import deadline as truth
from mayflydb.expiry import ranges
from mayflydb.expiry.rules import Rule
from mayflydb.model.due import DuePath, Path
from mayflydb.model.instant import SECOND, from_rfc3339
from mayflydb.model.record import IGNORED, NEVER

T = 1893456000 * SECOND
"""2030-01-01T00:00:00Z"""


class Life(msgspec.Struct, frozen=True):
    """What expiry knows of a record."""

    anchor: int | None
    override: int | None = None
    dates: tuple[tuple[int, int], ...] = ()


def cosmos(default: int | None) -> tuple[Rule, ...]:
    """The rules of a container with this `defaultTtl`."""
    if default is None:
        return ()
    return (Rule("default", None if default == -1 else default, overrides=True, hides=True),)


def path_value(life: Life, path: Path) -> int | None:
    """Where a record stands on a due path."""
    if isinstance(path, int):
        return dict(life.dates).get(path)
    if life.anchor is None:
        return None
    if path is DuePath.ANCHOR:
        return life.anchor if life.override in (None, IGNORED) else None
    return life.anchor + life.override * SECOND if life.override is not None and life.override > 0 else None


def in_ranges(life: Life, rules: Sequence[Rule], now: int) -> bool:
    """Whether a sweep at `now` would find the record."""
    found = ((path_value(life, due.path), due.upto) for due in ranges.due_ranges(rules, now))
    return any(value is not None and value <= upto for value, upto in found)


def check_life(life: Life, rules: Sequence[Rule], deadline: int | None, unit: int, hides: bool = True) -> None:
    """The deadline is this, and everybody acts on it exactly from then on."""
    assert truth.deadline(life, rules) == deadline, f"{life} under {rules}"
    if deadline is None:
        for now in (-(10**18), 0, T, 10**18, 10**30):
            assert not truth.due_at(life, rules, now), f"{life} under {rules}"
            assert truth.visible_at(life, rules, now), f"{life} under {rules}"
            assert not in_ranges(life, rules, now), f"{life} under {rules}"
        return
    assert truth.first_due(deadline, (deadline - unit, deadline, deadline + unit)) == 1, f"{life} under {rules}"
    assert truth.first_due(deadline, (deadline - unit,)) == 1, f"{life} under {rules}"
    for now, dead in ((deadline - unit, False), (deadline, True), (deadline + unit, True)):
        assert truth.due_at(life, rules, now) is dead, f"{life} under {rules} at {now}"
        assert truth.visible_at(life, rules, now) is not (dead and hides), f"{life} under {rules} at {now}"
        is_visible = truth.visibility(rules, now)
        assert (is_visible is None or is_visible(life)) is not (dead and hides), f"{life} under {rules} at {now}"
        assert in_ranges(life, rules, now) is dead, f"{life} under {rules} at {now}"


# --- container default and item ttl ----------------------------------------------------------------------------------

MATRIX = """
CM1 | -    | -    | never
CM2 | -    | -1   | never
CM3 | -    | 2000 | never
CM4 | -1   | -    | never
CM5 | -1   | -1   | never
CM6 | -1   | 2000 | 2000
CM7 | 1000 | -    | 1000
CM8 | 1000 | -1   | never
CM9 | 1000 | 2000 | 2000
CM9 | 1000 | 500  | 500
"""
"""id | container default | item ttl | seconds from the last write to the deadline"""


def rows(table: str) -> Iterator[list[str]]:
    for line in table.strip().splitlines():
        yield [cell.strip() for cell in line.split("|")]


def number(cell: str) -> int | None:
    return None if cell in ("-", "never") else IGNORED if cell == "invalid" else int(cell)


def check_matrix() -> None:
    for _, default, own, after in rows(MATRIX):
        seconds = number(after)
        deadline = None if seconds is None else T + seconds * SECOND
        check_life(Life(T, number(own)), cosmos(number(default)), deadline, SECOND)


# --- boundaries ------------------------------------------------------------------------------------------------------

BOUNDARIES = """
B1  | 2030-01-01T00:00:00Z        | 10         | 2030-01-01T00:00:10Z | 1000000
B2  | 2030-01-01T00:00:00Z        | 10         | 2030-01-01T00:00:10Z | 1
B3  | 2030-01-01T00:00:00Z        | 2147483647 | 2098-01-19T03:14:07Z | 1000000
B10 | 2038-01-19T03:14:07Z        | 1          | 2038-01-19T03:14:08Z | 1000000
B11 | 2106-02-07T06:28:15Z        | 1          | 2106-02-07T06:28:16Z | 1000000
B12 | 9999-12-31T23:59:59Z        | 0          | 9999-12-31T23:59:59Z | 1000
B12 | 9999-12-31T23:59:59.999999Z | 0          | 9999-12-31T23:59:59.999999Z | 1
B7  | 1970-01-01T00:00:00.000001Z | 10         | 1970-01-01T00:00:10.000001Z | 1
"""
"""id | anchor | seconds | deadline | smallest unit in microseconds"""

DATES = (
    "1969-12-31T23:59:59Z",
    "1970-01-01T00:00:00Z",
    "2037-12-31T23:59:59Z",
    "2038-01-19T03:14:07Z",
    "2038-01-19T03:14:08Z",
    "2106-02-07T06:28:15Z",
    "2106-02-07T06:28:16Z",
    "9999-12-31T23:59:59.999999Z",
)
SPANS = (0, 1, 2**31 - 1, 2**31, 2**32, 2**53)
UNITS = (1, 1000, SECOND)


def check_boundaries() -> None:
    for _, anchor, seconds, deadline, unit in rows(BOUNDARIES):
        rule = Rule("default", int(seconds), overrides=True, hides=True)
        check_life(Life(from_rfc3339(anchor)), (rule,), from_rfc3339(deadline), int(unit))
        if seconds != "0":
            own = Life(from_rfc3339(anchor), int(seconds))
            check_life(own, cosmos(-1), from_rfc3339(deadline), int(unit))


def check_edges() -> None:
    """Every date with every span, as the default and as the record's own; with hiding and without."""
    for date, span, unit, hides in product(DATES, SPANS, UNITS, (True, False)):
        anchor = from_rfc3339(date)
        deadline = anchor + span * 1_000_000
        check_life(Life(anchor), (Rule("index", span, hides=hides),), deadline, unit, hides)
        check_life(Life(anchor, IGNORED), (Rule("default", span, True, hides),), deadline, unit, hides)
        if span:
            check_life(Life(anchor, span), (Rule("default", None, True, hides),), deadline, unit, hides)
            check_life(Life(anchor, span), (Rule("default", span * 2, True, hides),), deadline, unit, hides)


def check_never() -> None:
    for span in (*SPANS, None):
        for own in (None, IGNORED, NEVER, 5):
            check_life(Life(None, own), (Rule("default", span, overrides=True, hides=True),), None, 1)
        check_life(Life(T, NEVER), (Rule("default", span, overrides=True, hides=True),), None, 1)
    for own in (None, IGNORED, NEVER):
        check_life(Life(T, own), cosmos(-1), None, 1)
        check_life(Life(T, own), (), None, 1)


def check_overrides_off() -> None:
    """Where own ttls do not count, every anchored record dies by the rule.

    Such a rule belongs to data without own ttls, so the anchor path holds all of it.
    """
    for own in (NEVER, IGNORED, 1, 5000):
        rule = Rule("index", 100, overrides=False, hides=False)
        assert truth.deadline(Life(T, own), (rule,)) == T + 100 * SECOND, own
    check_life(Life(T), (Rule("index", 100),), T + 100 * SECOND, 1, hides=False)


# --- more than one rule, and rules that begin later ------------------------------------------------------------------


def check_several() -> None:
    early, late = Rule("index", 10, hides=False, version=1), Rule("index", 20, hides=True, version=2)
    own = Rule("default", None, overrides=True, hides=True)
    for rules in ((early, late), (late, early)):
        life = Life(T)
        assert truth.deadline(life, rules) == T + 10 * SECOND
        for seconds, due, visible in ((9, False, True), (10, True, True), (19, True, True), (20, True, False)):
            now = T + seconds * SECOND
            assert truth.due_at(life, rules, now) is due, (rules, seconds)
            assert truth.visible_at(life, rules, now) is visible, (rules, seconds)
            assert in_ranges(life, rules, now) is due, (rules, seconds)
    check_life(Life(T, 5), (own, Rule("default", 50, overrides=True, hides=True)), T + 5 * SECOND, 1)
    check_life(Life(T), (own, Rule("index", 50, hides=True)), T + 50 * SECOND, 1)


def check_not_before() -> None:
    """Nobody dies earlier; who would die later is not hurried."""
    for notice, span, after in ((5, 10, 10), (10, 10, 10), (15, 10, 15), (15, 0, 15), (-5, 0, 0)):
        floor, deadline = T + notice * SECOND, T + after * SECOND
        check_life(Life(T), (Rule("default", span, True, True, floor),), deadline, 1)
        if span:
            check_life(Life(T, span), (Rule("default", None, True, True, floor),), deadline, 1)
    check_life(Life(T, NEVER), (Rule("default", 1, True, True, T),), None, 1)
    held, free = Rule("index", 1, hides=True, not_before=T + 100 * SECOND), Rule("index", 50, hides=True)
    check_life(Life(T), (held, free), T + 50 * SECOND, 1)


# --- change of policy ------------------------------------------------------------------------------------------------

POLICIES = """
P1 | 1000 | 500  | -       | visible | hidden
P2 | 500  | 1000 | -       | hidden  | visible
P3 | 500  | -    | -       | hidden  | visible
P3 | 500  | -    | 20      | hidden  | visible
P4 | 500  | -1   | -       | hidden  | visible
P4 | 500  | -1   | 20      | hidden  | hidden
P5 | -    | 500  | -       | visible | hidden
P5 | -    | 1000 | -       | visible | visible
P6 | -    | -1   | 20      | visible | hidden
P6 | -    | -1   | invalid | visible | visible
"""
"""id | old default | new default | item ttl | before | after; written at T, changed at T+600, nothing purged"""


def check_policies() -> None:
    now = T + 600 * SECOND
    for id, old, new, own, before, after in rows(POLICIES):
        life = Life(T, number(own))
        for default, expected in ((old, before), (new, after), (old, before), (new, after)):
            rules = cosmos(number(default))
            assert truth.visible_at(life, rules, now) is (expected == "visible"), (id, default)
            assert in_ranges(life, rules, now) is (expected == "hidden"), (id, default)
    check_life(Life(T), cosmos(1000), T + 1000 * SECOND, SECOND)
    check_life(Life(T, IGNORED), cosmos(-1), None, SECOND)


# --- date indexes --------------------------------------------------------------------------------------------------------

DATED = """
MN1 | 16=0            | 16:3600       | 3600
MN1 | 16=0            | 16:0          | 0
MN2 | 16=-1893542400  | 16:3600       | -1893538800
MN2 | 16=-9223372036854776 | 16:3600  | -9223372036851176
MN3 | 16=254027648    | 16:3600       | 254031248
MN3 | 16=9223370143398775 | 16:3600   | 9223370143402375
MN5 | -               | 16:3600       | never
MN7 | 16=0            | -             | never
MN7 | 16=0            | 17:0          | never
MN8 | 16=0 17=0       | 16:20 17:5    | 5
MN8 | 16=0 17=99      | 16:20 17:5    | 20
MN8 | 17=99           | 16:20 17:5    | 104
"""
"""id | slot=date in seconds from T | slot:span | deadline in seconds from T"""


def check_dates() -> None:
    for _, given, spans, expected in rows(DATED):
        pairs = [each.split("=") for each in given.split() if each != "-"]
        dates = tuple((int(slot), T + int(date) * SECOND) for slot, date in pairs)
        rules = [each.split(":") for each in spans.split() if each != "-"]
        for hides in (True, False):
            dated = tuple(Rule("index", int(span), hides=hides, slot=int(slot)) for slot, span in rules)
            deadline = None if expected == "never" else T + int(expected) * SECOND
            for anchor in (None, T - 10**9, T):
                check_life(Life(anchor, dates=dates), dated, deadline, 1000, hides)
    both = (Rule("index", 10, slot=16), *cosmos(20))
    check_life(Life(T, 5, ((16, T),)), both, T + 5 * SECOND, 1)
    assert truth.deadline(Life(T, NEVER, ((16, T),)), both) == T + 10 * SECOND


CHECKS: tuple[Callable[[], None], ...] = (
    check_matrix,
    check_boundaries,
    check_edges,
    check_never,
    check_overrides_off,
    check_several,
    check_not_before,
    check_policies,
    check_dates,
)
