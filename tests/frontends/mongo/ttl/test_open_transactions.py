"""Documents that an open transaction has written, on every store: plain writes wait for them, and no pass purges them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from pymongo import InsertOne, UpdateOne
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError, OperationFailure

from frontends.mongo.ttl.world import Document, World, date, ids, refused

pytestmark = pytest.mark.everywhere

Things = Collection[Document]
Write = Callable[[Things], Any]

POLLS = 20_000


@pytest.fixture
def session(world: World) -> Iterator[ClientSession]:
    with world.client.start_session() as session:
        yield session


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def conflicts(world: World) -> int:
    return int(world.admin.command("serverStatus")["metrics"]["operation"]["writeConflicts"])


def waiting(world: World, pool: ThreadPoolExecutor, write: Callable[[], Any]) -> Future[Any]:
    """Start a write, and return when it waits for a lock."""
    before = conflicts(world)
    future = pool.submit(write)
    for _ in range(POLLS):
        if conflicts(world) > before:
            assert not future.done()
            return future
        assert not future.done(), f"it did not wait: {future.result()}"
    pytest.fail("the write has met no lock")


def outcome(future: Future[Any]) -> Any:
    """The result of a write, or the code of its error."""
    try:
        return future.result(30)
    except BulkWriteError as error:
        return (error.details or {})["writeErrors"][0]["code"]
    except OperationFailure as error:
        return error.code


def things_of(world: World) -> Things:
    """`_id` 1 to 3, `v` ten times that, and `u`, which is unique."""
    things = world.db["things"]
    things.create_index("u", unique=True, sparse=True)
    things.insert_many([{"_id": n, "v": 10 * n, "u": f"u{n}"} for n in (1, 2, 3)])
    return things


def values(things: Things) -> dict[Any, Any]:
    return {each["_id"]: each.get("v") for each in things.find().sort("_id")}


SET = {"$set": {"v": 0}}
ADD = {"$inc": {"v": 5}}
BEGUN = {1: 10, 2: 20, 3: 30}

Row = tuple[Callable[[Things, ClientSession], Any], Write, tuple[Any, Any], tuple[Any, Any]]

WAITING: dict[str, Row] = {
    # What the transaction does, the write that waits, and (its result, all values) if it commits and if it aborts.
    "update": (
        lambda t, s: t.update_one({"_id": 1}, SET, session=s),
        lambda t: t.update_one({"_id": 1}, ADD).modified_count,
        (1, {**BEGUN, 1: 5}),
        (1, {**BEGUN, 1: 15}),
    ),
    "update of what matches no more": (
        lambda t, s: t.update_one({"_id": 1}, SET, session=s),
        lambda t: t.update_one({"v": 10}, ADD).modified_count,
        (0, {**BEGUN, 1: 0}),
        (1, {**BEGUN, 1: 15}),
    ),
    "replace": (
        lambda t, s: t.delete_one({"_id": 1}, session=s),
        lambda t: t.replace_one({"_id": 1}, {"v": 1}).modified_count,
        (0, {2: 20, 3: 30}),
        (1, {**BEGUN, 1: 1}),
    ),
    "delete": (
        lambda t, s: t.update_one({"_id": 1}, SET, session=s),
        lambda t: t.delete_one({"_id": 1}).deleted_count,
        (1, {2: 20, 3: 30}),
        (1, {2: 20, 3: 30}),
    ),
    "find one and update": (
        lambda t, s: t.update_one({"_id": 1}, SET, session=s),
        lambda t: (t.find_one_and_update({"_id": 1}, ADD) or {})["v"],
        (0, {**BEGUN, 1: 5}),
        (10, {**BEGUN, 1: 15}),
    ),
    "find one and delete": (
        lambda t, s: t.update_one({"_id": 1}, SET, session=s),
        lambda t: (t.find_one_and_delete({"_id": 1}) or {})["v"],
        (0, {2: 20, 3: 30}),
        (10, {2: 20, 3: 30}),
    ),
    "update of many": (
        lambda t, s: t.update_one({"_id": 2}, SET, session=s),
        lambda t: t.update_many({}, ADD).modified_count,
        (3, {1: 15, 2: 5, 3: 35}),
        (3, {1: 15, 2: 25, 3: 35}),
    ),
    "delete of many": (
        lambda t, s: t.update_one({"_id": 2}, SET, session=s),
        lambda t: t.delete_many({"v": {"$gte": 20}}).deleted_count,
        (1, {1: 10, 2: 0}),
        (2, {1: 10}),
    ),
    "insert of what is inserted": (
        lambda t, s: t.insert_one({"_id": 4, "v": 40}, session=s),
        lambda t: t.insert_one({"_id": 4, "v": 4}).inserted_id,
        (11000, {**BEGUN, 4: 40}),
        (4, {**BEGUN, 4: 4}),
    ),
    "insert of what is deleted": (
        lambda t, s: t.delete_one({"_id": 1}, session=s),
        lambda t: t.insert_one({"_id": 1, "v": 4}).inserted_id,
        (1, {**BEGUN, 1: 4}),
        (11000, BEGUN),
    ),
    "insert of a unique value that is taken": (
        lambda t, s: t.insert_one({"_id": 4, "v": 40, "u": "x"}, session=s),
        lambda t: t.insert_one({"_id": 5, "v": 50, "u": "x"}).inserted_id,
        (11000, {**BEGUN, 4: 40}),
        (5, {**BEGUN, 5: 50}),
    ),
    "insert of a unique value that is given up": (
        lambda t, s: t.update_one({"_id": 1}, {"$set": {"u": "x"}}, session=s),
        lambda t: t.insert_one({"_id": 5, "v": 50, "u": "u1"}).inserted_id,
        (5, {**BEGUN, 5: 50}),
        (11000, BEGUN),
    ),
    "upsert": (
        lambda t, s: t.insert_one({"_id": 4, "v": 40}, session=s),
        lambda t: t.update_one({"_id": 4}, ADD, upsert=True).matched_count,
        (1, {**BEGUN, 4: 45}),
        (0, {**BEGUN, 4: 5}),
    ),
    "upsert by another field": (
        lambda t, s: t.insert_one({"_id": 4, "v": 40, "u": "x"}, session=s),
        lambda t: t.update_one({"u": "x"}, ADD, upsert=True).matched_count,
        (1, {**BEGUN, 4: 45}),
        None,  # type: ignore[dict-item]  # Its `_id` is made by the server.
    ),
    "insert of many": (
        lambda t, s: t.insert_one({"_id": 5, "v": 50}, session=s),
        lambda t: t.insert_many([{"_id": n, "v": n} for n in (4, 5, 6)]).inserted_ids,
        (11000, {**BEGUN, 4: 4, 5: 50}),
        ([4, 5, 6], {**BEGUN, 4: 4, 5: 5, 6: 6}),
    ),
    "bulk write": (
        lambda t, s: t.update_one({"_id": 2}, SET, session=s),
        lambda t: t.bulk_write([InsertOne({"_id": 4, "v": 4}), UpdateOne({"_id": 2}, ADD)]).modified_count,
        (1, {**BEGUN, 2: 5, 4: 4}),
        (1, {**BEGUN, 2: 25, 4: 4}),
    ),
}


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("name", WAITING)
def test_a_plain_write_waits(
    world: World, session: ClientSession, pool: ThreadPoolExecutor, name: str, commits: bool
) -> None:
    act, write, *expected = WAITING[name]
    things = things_of(world)
    session.start_transaction()
    act(things, session)
    future = waiting(world, pool, lambda: write(things))
    (session.commit_transaction if commits else session.abort_transaction)()
    found = outcome(future)
    told = expected[not commits]
    if told is None:
        assert (found, sorted(map(str, values(things).values()))) == (0, ["10", "20", "30", "5"])
    else:
        assert (found, values(things)) == told


def test_waiting_writes_run_in_their_order(world: World, session: ClientSession, pool: ThreadPoolExecutor) -> None:
    things = things_of(world)
    session.start_transaction()
    things.update_one({"_id": 1}, {"$set": {"order": []}}, session=session)
    writes = [lambda n=n: things.update_one({"_id": 1}, {"$push": {"order": n}}) for n in range(3)]
    futures = [waiting(world, pool, write) for write in writes]
    session.commit_transaction()
    assert [future.result(30).modified_count for future in futures] == [1, 1, 1]
    assert (things.find_one({"_id": 1}) or {})["order"] == [0, 1, 2]


AT_ONCE: dict[str, tuple[Write, Any]] = {
    "reads": (lambda t: (t.find_one({"_id": 1}) or {})["v"], 10),
    "another document": (lambda t: t.update_one({"_id": 2}, ADD).modified_count, 1),
    "nothing to change": (lambda t: t.update_one({"_id": 1}, {"$set": {"v": 10}}).matched_count, 1),
    "nothing that matches": (lambda t: t.update_one({"_id": 1, "v": 0}, ADD).matched_count, 0),
    "an insert of what stays": (lambda t: t.insert_one({"_id": 1}), 11000),
    "a unique value that stays": (lambda t: t.insert_one({"_id": 9, "u": "u1"}), 11000),
    "a delete of what is not there yet": (lambda t: t.delete_one({"_id": 4}).deleted_count, 0),
}


@pytest.mark.parametrize("name", AT_ONCE)
def test_writes_that_meet_no_lock_do_not_wait(
    world: World, session: ClientSession, pool: ThreadPoolExecutor, name: str
) -> None:
    write, expected = AT_ONCE[name]
    things = things_of(world)
    session.start_transaction()
    things.update_one({"_id": 1}, SET, session=session)
    things.insert_one({"_id": 4, "v": 40}, session=session)
    assert outcome(pool.submit(lambda: write(things))) == expected
    session.commit_transaction()
    assert values(things).items() >= {1: 0, 4: 40}.items()


COMMANDS: list[Document] = [
    {"update": "things", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"v": 5}}}]},
    {"delete": "things", "deletes": [{"q": {"_id": 1}, "limit": 1}]},
    {"findAndModify": "things", "query": {"_id": 1}, "update": {"$inc": {"v": 5}}},
    {"insert": "things", "documents": [{"_id": 4}]},
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: next(iter(command)))
def test_a_waiting_write_has_a_time_limit(world: World, session: ClientSession, command: Document) -> None:
    things = things_of(world)
    session.start_transaction()
    things.update_one({"_id": 1}, SET, session=session)
    things.insert_one({"_id": 4, "v": 40}, session=session)
    with refused(50, "operation exceeded time limit"):
        world.db.command({**command, "maxTimeMS": 20})
    session.commit_transaction()
    assert values(things) == {1: 0, 2: 20, 3: 30, 4: 40}


def test_the_second_transaction_gets_a_write_conflict_at_once(world: World, session: ClientSession) -> None:
    things = things_of(world)
    session.start_transaction()
    things.insert_one({"_id": 4, "u": "x"}, session=session)
    with world.client.start_session() as other:
        for write in ({"_id": 4}, {"_id": 5, "u": "x"}):
            other.start_transaction()
            with refused(112, "Please retry your operation"):
                things.insert_one(write, session=other)
            other.abort_transaction()
    session.commit_transaction()


def test_a_transaction_does_not_overtake_a_waiting_write(
    world: World, session: ClientSession, pool: ThreadPoolExecutor
) -> None:
    """A waiting write gets its turn between transactions that follow each other at once."""
    things = things_of(world)
    session.start_transaction()
    things.update_one({"_id": 1}, SET, session=session)
    future = waiting(world, pool, lambda: things.update_one({"_id": 1}, ADD).modified_count)
    session.abort_transaction()
    for _ in range(POLLS):
        session.start_transaction()
        with suppress(OperationFailure):
            things.update_one({"_id": 1}, SET, session=session)
        session.abort_transaction()
        if future.done():
            break
    assert future.result(30) == 1
    assert values(things)[1] == 15


def test_the_end_of_a_session_releases_locks(world: World, session: ClientSession, pool: ThreadPoolExecutor) -> None:
    things = things_of(world)
    session.start_transaction()
    things.update_one({"_id": 1}, SET, session=session)
    future = waiting(world, pool, lambda: things.update_one({"_id": 1}, ADD).modified_count)
    world.admin.command("killSessions", [session.session_id])
    assert (future.result(30), values(things)[1]) == (1, 15)


# --- purges ----------------------------------------------------------------------------------------------------------

SAVES: dict[str, Document] = {
    "moved": {"$set": {"t": date(10_000)}},
    "never": {"$unset": {"t": 1}},
    "a longer list": {"$set": {"t": [date(9_000), date(10_000)]}},
}


@pytest.mark.parametrize("how", SAVES)
def test_a_pass_spares_documents_that_a_transaction_saves(world: World, session: ClientSession, how: str) -> None:
    dated = world.indexed({"t": 1}, 0)
    dated.insert_many([{"_id": n, "t": date(30)} for n in (1, 2)])
    session.start_transaction()
    dated.update_one({"_id": 1}, SAVES[how], session=session)
    world.move(300, "scheduled")
    assert (ids(dated), world.purged()) == ({1}, 1)
    world.server.purge()
    assert ids(dated) == {1}
    session.commit_transaction()
    world.move(600, "scheduled")
    assert (ids(dated), world.purged()) == ({1}, 1)


@pytest.mark.parametrize("how", ["update", "delete", "replace"])
def test_a_pass_purges_documents_whose_transaction_aborts(world: World, session: ClientSession, how: str) -> None:
    dated = world.indexed({"t": 1}, 0)
    dated.insert_one({"_id": 1, "t": date(30)})
    session.start_transaction()
    if how == "delete":
        dated.delete_one({"_id": 1}, session=session)
    elif how == "update":
        dated.update_one({"_id": 1}, {"$set": {"t": date(10_000)}}, session=session)
    else:
        dated.replace_one({"_id": 1}, {"v": 1}, session=session)
    world.move(300, "scheduled")
    assert (ids(dated), world.purged()) == ({1}, 0)
    session.abort_transaction()
    world.move(360, "scheduled")
    assert (ids(dated), world.purged()) == (set(), 1)


def test_a_document_deleted_in_a_transaction_has_no_expiry_event(world: World, session: ClientSession) -> None:
    dated = world.indexed({"t": 1}, 0)
    dated.insert_one({"_id": 1, "t": date(30)})
    session.start_transaction()
    dated.delete_one({"_id": 1}, session=session)
    world.move(300, "scheduled")
    session.commit_transaction()
    world.move(600, "scheduled")
    assert (ids(dated), world.purged()) == (set(), 0)


@pytest.mark.parametrize("sweep", ["none", "scheduled", "now"])
def test_a_commit_shows_documents_hidden_meanwhile(world: World, session: ClientSession, sweep: str) -> None:
    lives = world.on_ts(10)
    lives.insert_one({"_id": 1, "v": 1})
    session.start_transaction()
    lives.update_one({"_id": 1}, {"$set": {"ttl": 100}}, session=session)
    world.move(50, sweep)
    assert (ids(lives), world.purged()) == (set(), 0)
    assert lives.update_one({"_id": 1}, {"$set": {"v": 2}}).matched_count == 0
    assert [each["v"] for each in lives.find(session=session)] == [1]
    session.commit_transaction()
    assert ids(lives) == {1}
    world.move(149, "scheduled")
    assert (ids(lives), world.purged()) == ({1}, 0)
    world.move(150, "scheduled")
    assert (ids(lives), world.purged()) == (set(), 1)


def test_documents_hidden_meanwhile_are_purged_after_an_abort(world: World, session: ClientSession) -> None:
    lives = world.on_ts(10)
    lives.insert_one({"_id": 1})
    session.start_transaction()
    lives.update_one({"_id": 1}, {"$set": {"ttl": 100}}, session=session)
    world.move(50, "scheduled")
    assert world.purged() == 0
    session.abort_transaction()
    world.move(51, "scheduled")
    assert (ids(lives), world.purged()) == (set(), 1)


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "abort"])
def test_an_insert_over_what_is_hidden_waits(
    world: World, session: ClientSession, pool: ThreadPoolExecutor, commits: bool
) -> None:
    """It would remove the document that is hidden now."""
    lives = world.on_ts(10)
    lives.insert_one({"_id": 1, "v": 1})
    session.start_transaction()
    lives.update_one({"_id": 1}, {"$set": {"ttl": 100}}, session=session)
    world.move(50)
    future = waiting(world, pool, lambda: lives.insert_one({"_id": 1, "v": 2}).inserted_id)
    (session.commit_transaction if commits else session.abort_transaction)()
    assert (outcome(future), values(lives)) == ((11000, {1: 1}) if commits else (1, {1: 2}))
