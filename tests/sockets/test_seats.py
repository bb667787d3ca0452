"""Seats of connections: limits in all and by address, and shares of the descriptors."""

from __future__ import annotations

import resource

import pytest

from mayflydb.model.quota import Quota
from mayflydb.sockets import seats
from mayflydb.sockets.seats import RESERVED_DESCRIPTORS, Seats, share_descriptors


def test_an_address_has_its_seats_and_no_more() -> None:
    quota = Quota("connections", 5)
    found = Seats(quota, 2)
    taken = [found.take("127.0.0.1") for _ in range(3)]
    assert [seat is not None for seat in taken] == [True, True, False]
    assert found.take("127.0.0.2") is not None
    assert (quota.used, quota.refused) == (3, 1)
    first = taken[0]
    assert first is not None
    # The end of a connection may be told twice.
    first.release()
    first.release()
    assert quota.used == 2
    assert found.take("127.0.0.1") is not None and found.take("127.0.0.1") is None


def test_all_addresses_together_have_the_limit() -> None:
    quota = Quota("connections", 2)
    found = Seats(quota, 2)
    assert [found.take(address) is not None for address in ("a", "b", "c")] == [True, True, False]
    assert (quota.used, quota.refused) == (2, 1)


@pytest.mark.parametrize(
    ("soft", "open_now", "listeners", "share"),
    [
        (1024, 32, 3, (768 - 32 - RESERVED_DESCRIPTORS) // 3),
        (1024, 32, 1, 768 - 32 - RESERVED_DESCRIPTORS),
        (64, 20, 3, 4),
        (64, 60, 3, 1),
    ],
)
def test_listeners_share_three_quarters_of_the_descriptors(
    soft: int, open_now: int, listeners: int, share: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seats, "_count_open_descriptors", lambda: open_now)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, soft))
    assert share_descriptors(listeners) == share


def test_without_a_limit_of_descriptors_the_share_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert share_descriptors(3) > 1_000_000
