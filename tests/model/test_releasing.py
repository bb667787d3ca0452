"""Large collections that are freed in slices, by their owner or once nothing refers to them."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from mayflydb.model import releasing
from mayflydb.model.releasing import SLICE, keep, release, release_unused

MANY = 2 * SLICE + 1


class Member:
    """Something whose end can be seen."""


@pytest.fixture(autouse=True)
def _empty() -> Iterator[None]:
    """What other tests have left is no part of these."""
    release_unused()
    before = list(releasing._kept)
    releasing._kept.clear()
    yield
    releasing._kept.clear()
    releasing._kept.extend(before)


def members(count: int = MANY) -> list[Any]:
    return [Member() for _ in range(count)]


@pytest.mark.parametrize(
    "collection", [members(), dict(enumerate(members())), set(members())], ids=["list", "dict", "set"]
)
def test_an_owner_empties_its_collection(collection: Any) -> None:
    release(collection)
    assert not collection


def test_a_kept_list_lives_as_long_as_it_is_used() -> None:
    held = keep(members())
    last = weakref.ref(held[-1])
    release_unused()
    assert len(held) == MANY
    nested = [held]
    del held
    release_unused()
    assert len(nested[0]) == MANY
    del nested
    assert last() is not None
    release_unused()
    assert last() is None
    assert not releasing._kept


def test_small_ones_are_not_kept() -> None:
    held = keep(members(SLICE))
    last = weakref.ref(held[-1])
    del held
    assert last() is None


def test_a_list_is_kept_before_it_is_filled() -> None:
    held: list[Any] = keep([], MANY)
    held += members()
    last = weakref.ref(held[-1])
    del held
    assert last() is not None
    release_unused()
    assert last() is None


def test_unused_ones_do_not_gather() -> None:
    """One that is added empties others before it, however many are in use."""
    used = [keep(members()) for _ in range(20)]
    for _ in range(200):
        keep(members())
        assert len(releasing._kept) <= 2 * len(used)
    release_unused()
    assert len(releasing._kept) == len(used)
    assert all(len(each) == MANY for each in used)
