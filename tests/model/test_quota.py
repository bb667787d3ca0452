"""Quotas: just below, at and above the limit."""

from __future__ import annotations

import pytest

from mayflydb.model.quota import Quota, Quotas


@pytest.mark.parametrize(
    ("used", "amount", "fits"), [(0, 10, True), (0, 11, False), (9, 1, True), (10, 0, True), (10, 1, False)]
)
def test_an_amount_is_taken_up_to_the_limit(used: int, amount: int, fits: bool) -> None:
    quota = Quota("things", 10)
    assert quota.take(used)
    assert quota.has_room(amount) is fits
    assert quota.take(amount) is fits
    assert (quota.used, quota.refused) == (used + amount * fits, not fits)


def test_what_is_given_back_can_be_taken_again() -> None:
    quota = Quota("things", 2)
    assert quota.take(2) and not quota.take()
    quota.give()
    assert quota.take() and not quota.take()


def test_those_who_name_a_quota_share_it() -> None:
    quotas = Quotas()
    first = quotas.get("cursors", 3)
    assert quotas.get("cursors", 5) is first and first.limit == 3
    assert quotas.get("sessions", 5) is not first
    assert [quota.name for quota in quotas] == ["cursors", "sessions"]
