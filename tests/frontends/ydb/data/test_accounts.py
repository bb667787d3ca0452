"""Logins and users where several come at once."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from random import Random
from typing import Any

import pytest

from frontends.ydb.data.conftest import NOW, Place
from mayflydb.engine.catalog import Node
from mayflydb.engine.companions import Companions
from mayflydb.frontends.ydb import accounts
from mayflydb.frontends.ydb.accounts import Accounts
from mayflydb.query.yql.faults import Fault
from mayflydb.sockets import guesses

DENIED = "login denied: too many failed password attempts"


def of(place: Place) -> Accounts:
    return Accounts(place.engine, Random(1), True, b"signs", "secret")


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that attempts have waited, which pass at once."""
    found: list[float] = []

    def call_later(seconds: float, function: Callable[[], None]) -> None:
        found.append(seconds)
        # Others come first.
        asyncio.get_running_loop().call_soon(function)

    monkeypatch.setattr(guesses, "call_later", call_later)
    return found


async def try_passwords(known: Accounts, name: str, count: int) -> Counter[str]:
    """Try `count` wrong passwords at once; return how often each refusal occurred."""
    said = await asyncio.gather(*(known.login(name, str(n), NOW) for n in range(count)), return_exceptions=True)
    assert all(isinstance(each, Fault) for each in said)
    return Counter(each.message for each in said if isinstance(each, Fault))


def test_attempts_at_once_are_counted_one_by_one(place: Place, waits: list[float]) -> None:
    known = of(place)
    place.run(known.create("alice", "a", True, NOW))
    for name in ("alice", "root", "nobody"):
        assert place.run(try_passwords(known, name, 7)) == {"Invalid password": 7}
        assert waits == [0.5, 1, 2]
        # Those who come now take the turn, or wait, or find too many who wait already.
        found = place.run(try_passwords(known, name, 30))
        assert 0 < found["Invalid password"] <= 17 and found[f"User {name} {DENIED}"] == 30 - found["Invalid password"]
        waits.clear()


@pytest.mark.parametrize("name", ["root", "alice"])
def test_a_guesser_keeps_no_user_out(place: Place, name: str) -> None:
    known, password = of(place), {"root": "secret", "alice": "a"}[name]
    place.run(known.create("alice", "a", True, NOW))
    place.run(try_passwords(known, name, 5))
    # From elsewhere, and from the same address.
    for address in ("192.0.2.1", ""):
        assert place.run(known.login(name, password, NOW, address))


def test_few_hashes_are_computed_at_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    known = of(place)
    running, most = 0, 0
    lock = threading.Lock()
    meet = threading.Barrier(2)

    def derive_hash(password: str, salt: bytes) -> bytes:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        # Two do run at once; a third would make them three.
        meet.wait(10)
        with lock:
            running -= 1
        return b"hash"

    monkeypatch.setattr(accounts, "derive_hash", derive_hash)

    async def create_six() -> None:
        await asyncio.gather(*(known.create(f"user{n}", "p", True, NOW) for n in range(6)))

    place.run(create_six())
    assert most == accounts.MAX_HASHES_AT_ONCE == 2


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


async def _join(known: Accounts) -> None:
    await known.set_membership("alice", "one", True, NOW)


async def _join_in_vain(known: Accounts) -> None:
    with pytest.raises(Fault, match="Group not found: one"):
        await _join(known)


async def _drop(known: Accounts) -> None:
    await known.drop_group("one", NOW)


async def _drop_in_vain(known: Accounts) -> None:
    with pytest.raises(Fault, match="Group not found: one"):
        await _drop(known)


async def _create(known: Accounts) -> None:
    await known.create_group("one", NOW)


async def _create_and_join(known: Accounts) -> None:
    await _create(known)
    await _join(known)


Work = Callable[[Accounts], Awaitable[None]]


@pytest.mark.parametrize(
    ("work", "step", "meanwhile", "belongs"),
    [
        (_join_in_vain, "replace", _drop, False),
        (_drop, "replace", _join, False),
        (_drop_in_vain, "replace", _drop, False),
        (_drop, "redefine_each", _join_in_vain, False),
        (_drop, "redefine_each", _create, False),
        # A slow drop of a group leaves the members of the next group alone.
        (_drop, "redefine_each", _create_and_join, True),
    ],
)
def test_a_group_that_is_dropped_meanwhile_keeps_no_member(
    place: Place, monkeypatch: pytest.MonkeyPatch, work: Work, step: str, meanwhile: Work, belongs: bool
) -> None:
    """Between the steps of one change, another call makes another one."""
    known, companions = of(place), place.engine.companions
    perform = getattr(Companions, step)

    async def interrupted(*given: Any, **options: Any) -> Any:
        monkeypatch.setattr(companions, step, partial(perform, companions))
        await meanwhile(known)
        return await perform(companions, *given, **options)

    async def change() -> tuple[str, ...]:
        await known.create("alice", None, True, NOW)
        await known.create_group("one", NOW)
        if step == "redefine_each":
            await known.set_membership("alice", "one", True, NOW)
        monkeypatch.setattr(companions, step, interrupted)
        await work(known)
        if not belongs:
            await known.drop_group("one", NOW, if_exists=True)
            await known.create_group("one", NOW)
        return await known.groups_of("alice")

    assert place.run(change()) == (*(["one"] if belongs else []), accounts.ALL_USERS_GROUP)


@pytest.mark.parametrize("then", ["create", "drop"])
def test_a_drop_that_was_interrupted_is_finished(place: Place, monkeypatch: pytest.MonkeyPatch, then: str) -> None:
    known = of(place)

    async def crash(*_: Any) -> bool:
        raise OSError("the process ends here")

    async def change() -> tuple[str, ...]:
        await known.create("alice", None, True, NOW)
        await known.create_group("one", NOW)
        await known.set_membership("alice", "one", True, NOW)
        monkeypatch.setattr(place.engine.companions, "redefine_each", crash)
        with pytest.raises(OSError, match="ends here"):
            await known.drop_group("one", NOW)
        monkeypatch.undo()
        restarted = of(place)
        if then == "drop":
            await restarted.drop_group("one", NOW, if_exists=True)
        await restarted.create_group("one", NOW)
        return await restarted.groups_of("alice")

    assert place.run(change()) == (accounts.ALL_USERS_GROUP,)


def test_many_members_leave_in_batches(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    known, companions = of(place), place.engine.companions
    batches: list[int] = []

    async def watched(marker: Node, names: Sequence[str], *given: Any) -> bool:
        batches.append(len(names))
        return await Companions.redefine_each(companions, marker, names, *given)

    async def change() -> set[tuple[str, ...]]:
        await known.create_group("one", NOW)
        for number in range(120):
            await known.create(f"user{number}", None, True, NOW)
            await known.set_membership(f"user{number}", "one", True, NOW)
        monkeypatch.setattr(companions, "redefine_each", watched)
        await known.drop_group("one", NOW)
        return {await known.groups_of(f"user{number}") for number in range(120)}

    assert place.run(change()) == {(accounts.ALL_USERS_GROUP,)}
    assert batches == [50, 50, 20]


def test_users_and_groups_have_a_limit(place: Place) -> None:
    known = Accounts(place.engine, Random(1), True, b"signs", "secret", max_users=3)

    async def create(count: int) -> Counter[str]:
        made = (known.create(f"user{number}", None, True, NOW) for number in range(count))
        said = await asyncio.gather(*made, known.create_group("one", NOW), return_exceptions=True)
        return Counter(each.message if isinstance(each, Fault) else "done" for each in said)

    full = "There are 3 users and groups, and no more may be created (--ydb-max-users)"
    assert place.run(create(5)) == {"done": 3, full: 3}
    with pytest.raises(Fault, match="There are 3 users") as refused:
        place.run(known.create("late", None, True, NOW))
    assert refused.value.status == "PRECONDITION_FAILED"
    place.run(known.drop("user0"))
    place.run(known.create("late", None, True, NOW))


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
