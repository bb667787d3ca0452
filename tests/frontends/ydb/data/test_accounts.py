"""Logins and users where several come at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import Any

import pytest

from frontends.ydb.data.conftest import NOW, Place
from mayflydb.engine.companions import Companions
from mayflydb.frontends.ydb import accounts
from mayflydb.frontends.ydb.accounts import Accounts
from mayflydb.query.yql.faults import Fault

DENIED = "login denied: too many failed password attempts"


def of(place: Place) -> Accounts:
    return Accounts(place.engine, Random(1), True, b"signs", "secret")


async def try_passwords(known: Accounts, name: str, count: int) -> Counter[str]:
    """Try `count` wrong passwords at once; return how often each refusal occurred."""
    said = await asyncio.gather(*(known.login(name, str(n), NOW) for n in range(count)), return_exceptions=True)
    assert all(isinstance(each, Fault) for each in said)
    return Counter(each.message for each in said if isinstance(each, Fault))


def test_attempts_at_once_are_counted_one_by_one(place: Place) -> None:
    known = of(place)
    place.run(known.create("alice", "a", True, NOW))
    for name in ("alice", "root", "nobody"):
        assert place.run(try_passwords(known, name, 9)) == {"Invalid password": 5, f"User {name} {DENIED}": 4}


def test_little_is_kept_of_names_that_are_made_up(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts, "MAX_UNKNOWN_NAMES", 10)
    known = of(place)
    place.run(known.create("alice", "a", True, NOW))
    assert place.run(try_passwords(known, "alice", 5)) == {"Invalid password": 5}
    for number in range(25):
        place.run(try_passwords(known, f"stranger {number}", 1))
    assert len(known._unknown_failures) <= 10
    assert set(known._cached_users) == {"alice"}
    assert place.run(try_passwords(known, "alice", 1)) == {f"User alice {DENIED}": 1}


def test_two_changes_of_one_user_at_once_both_hold(place: Place) -> None:
    known = of(place)

    async def both() -> tuple[str, ...]:
        await known.create("alice", "a", True, NOW)
        await known.create_group("one", NOW)
        await known.create_group("two", NOW)
        await asyncio.gather(
            known.set_membership("alice", "one", True, NOW), known.set_membership("alice", "two", True, NOW)
        )
        return await known.groups_of("alice")

    assert set(place.run(both())) == {"one", "two", accounts.ALL_USERS_GROUP}


@pytest.mark.parametrize("step", ["replace", "drop", "drop_with_mentions"])
def test_a_group_that_is_dropped_meanwhile_keeps_no_member(
    place: Place, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Between the steps of one change, another call makes the opposite change."""
    known, companions = of(place), place.engine.companions
    perform = getattr(Companions, step)

    async def interrupted(*given: Any, **options: Any) -> Any:
        monkeypatch.undo()
        await (known.drop_group("one", NOW) if step == "replace" else known.set_membership("alice", "one", True, NOW))
        return await perform(companions, *given, **options)

    async def change() -> tuple[str, ...]:
        await known.create("alice", None, True, NOW)
        await known.create_group("one", NOW)
        monkeypatch.setattr(companions, step, interrupted)
        if step == "replace":
            with pytest.raises(Fault, match="Group not found: one"):
                await known.set_membership("alice", "one", True, NOW)
        else:
            await known.drop_group("one", NOW)
        await known.drop_group("one", NOW, if_exists=True)
        await known.create_group("one", NOW)
        return await known.groups_of("alice")

    assert place.run(change()) == (accounts.ALL_USERS_GROUP,)


@pytest.mark.parametrize("how", ["join", "leave", "change", "drop"])
def test_root_is_changed_in_the_settings_alone(place: Place, how: str) -> None:
    known = of(place)
    place.run(known.create_group("one", NOW))
    work = {
        "join": known.set_membership("root", "one", True, NOW),
        "leave": known.set_membership("root", accounts.ADMINISTRATORS_GROUP, False, NOW),
        "change": known.change("root", "other", None, NOW),
        "drop": known.drop("root"),
    }
    chosen = work.pop(how)
    for other in work.values():
        other.close()
    with pytest.raises(Fault, match="root is given by the server's settings") as caught:
        place.run(chosen)
    assert caught.value.status == "UNSUPPORTED"


def test_a_user_who_is_dropped_meanwhile_is_unknown(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    known, companions = of(place), place.engine.companions

    async def interrupted(*given: Any, **options: Any) -> Any:
        await known.drop("alice")
        return await Companions.replace(companions, *given, **options)

    place.run(known.create("alice", None, True, NOW))
    monkeypatch.setattr(companions, "replace", interrupted)
    with pytest.raises(Fault, match="User not found: alice"):
        place.run(known.change("alice", None, False, NOW))
