"""convertToCapped, cloneCollectionAsCapped and validate: what they change, find and refuse."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from mayflydb.frontends.mongo.commands import validation
from mayflydb.query.mongo.indexes.keys import keys_of

Client = MongoClient[dict[str, Any]]
Document = dict[str, Any]


@pytest.fixture
def db(mongo_client: Client) -> Any:
    mongo_client.drop_database("kept")
    db = mongo_client.kept
    db.c.insert_many([{"_id": n, "a": n % 3, "pad": "x" * 100} for n in range(500)])
    db.c.create_index("a")
    db.command("create", "v", viewOn="c")
    db.command("create", "w", timeseries={"timeField": "t"})
    db.command("create", "clustered", clusteredIndex={"key": {"_id": 1}, "unique": True})
    return db


def code_of(db: Any, command: Document) -> int:
    """The code of the error; 0 for success."""
    try:
        db.command(command)
    except OperationFailure as refusal:
        return int(refusal.code or 0)
    return 0


# --- convertToCapped ---------------------------------------------------------------------------------------------------


def test_a_collection_becomes_capped(db: Any) -> None:
    size = db.command("collStats", "c")["size"] // 500
    db.command("convertToCapped", "c", size=100 * size)
    # The newest stay, in the order of their inserts, and indexes but that of `_id` go.
    found = [each["_id"] for each in db.c.find()]
    assert found == list(range(500 - len(found), 500))
    assert 98 <= len(found) <= 102
    assert [each["name"] for each in db.c.list_indexes()] == ["_id_"]
    assert db.c.options()["capped"] is True
    db.c.insert_one({"_id": "new", "pad": "x" * 100})
    assert db.c.find_one({"_id": found[0]}) is None
    assert db.c.find_one({"_id": "new"}) is not None


@pytest.mark.parametrize(
    ("name", "size", "code"),
    [
        ("c", 1, 0),
        ("c", 1.9, 0),
        ("c", 0, 72),
        ("c", -1, 72),
        ("c", 0.9, 72),
        ("c", "5", 72),
        ("c", None, 72),
        ("c", True, 72),
        ("c", float("nan"), 72),
        ("missing", 100, 26),
        ("v", 100, 166),
        ("w", 100, 166),
        ("clustered", 100, 0),
        ("c", 2**50, 0),
        ("c", 2**50 + 1, 2),
        ("c", float("inf"), 2),
        ("c", float("-inf"), 72),
        ("x" * (255 - len("kept.")), 100, 26),
        ("x" * (256 - len("kept.")), 100, 26),
        ("system.views", 100, 2),
        (5, 100, 73),
    ],
)
def test_what_becomes_capped(db: Any, name: Any, size: Any, code: int) -> None:
    assert code_of(db, {"convertToCapped": name, "size": size}) == code


def test_a_clustered_collection_becomes_a_capped_one(db: Any) -> None:
    db.clustered.insert_many([{"_id": n, "pad": "x" * 100} for n in (4, 2, 3, 1)])
    db.command("convertToCapped", "clustered", size=3 * 140)
    (found,) = db.list_collections(filter={"name": "clustered"})
    assert found["options"] == {"capped": True, "size": 420}
    # They lay in the order of `_id`, so these are the newest.
    assert [each["_id"] for each in db.clustered.find()] == [2, 3, 4]
    assert sorted(db.list_collection_names()) == ["c", "clustered", "v", "w"]


# --- cloneCollectionAsCapped ---------------------------------------------------------------------------------------------


def test_a_copy_is_capped(db: Any) -> None:
    db.command("collMod", "c", validator={"a": {"$lt": 0}})
    size = db.command("collStats", "c")["size"] // 500
    db.command("cloneCollectionAsCapped", "c", toCollection="copy", size=300 * size)
    found = [each["_id"] for each in db.copy.find()]
    assert found == list(range(500 - len(found), 500))
    assert 298 <= len(found) <= 302
    assert db.copy.options() == {"capped": True, "size": 300 * size}
    assert [each["name"] for each in db.copy.list_indexes()] == ["_id_"]
    assert db.c.count_documents({}) == 500


@pytest.mark.parametrize(
    ("name", "target", "size", "code"),
    [
        ("c", "copy", 10_000, 0),
        ("clustered", "copy", 10_000, 0),
        ("c", "c", 10_000, 48),
        ("c", "v", 10_000, 166),
        ("v", "copy", 10_000, 166),
        ("w", "copy", 10_000, 166),
        ("missing", "copy", 10_000, 26),
        ("c", "", 10_000, 73),
        ("c", None, 10_000, 14),
        (5, "copy", 10_000, 14),
        ("c", "copy", 0, 72),
        ("c", "copy", None, 72),
        ("c", "copy", 2**50 + 1, 2),
        # A document is larger than the cap: nothing is left of the copy.
        ("c", "copy", 100, 10003),
    ],
)
def test_what_is_copied(db: Any, name: Any, target: Any, size: Any, code: int) -> None:
    assert code_of(db, {"cloneCollectionAsCapped": name, "toCollection": target, "size": size}) == code
    assert ("copy" in db.list_collection_names()) is (code == 0)


# --- validate ----------------------------------------------------------------------------------------------------------


def test_a_sound_collection(db: Any) -> None:
    db.c.insert_one({"_id": "several", "a": [7, 8, 9]})
    found = db.command("validate", "c", full=True)
    assert (found["valid"], found["errors"], found["warnings"]) == (True, [], [])
    assert (found["nrecords"], found["nIndexes"]) == (501, 2)
    assert found["keysPerIndex"] == {"_id_": 501, "a_1": 503}
    assert {name: each["valid"] for name, each in found["indexDetails"].items()} == {"_id_": True, "a_1": True}


def test_documents_that_the_validator_refuses(db: Any) -> None:
    db.command("collMod", "c", validator={"a": {"$lt": 2}})
    found = db.command("validate", "c")
    assert (found["valid"], found["nNonCompliantDocuments"], len(found["warnings"])) == (True, 166, 1)


def test_an_index_with_other_keys_is_found(db: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after damage: the keys that documents should have are others than those that are stored."""
    for wrong, text in (
        (lambda spec, document: (), "is no key of its document"),
        (lambda spec, document: (*keys_of(spec, document), b"another"), "keys"),
    ):
        monkeypatch.setattr(validation, "keys_of", wrong)
        found = db.command("validate", "c")
        assert found["valid"] is False
        assert found["indexDetails"]["a_1"]["valid"] is False
        assert text in found["errors"][0]
        assert len(found["errors"]) <= validation.MAX_NAMED


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ({"validate": "missing"}, 26),
        ({"validate": "v"}, 166),
        ({"validate": "w"}, 0),
        ({"validate": 5}, 73),
        ({"validate": "c", "full": True, "background": True}, 72),
        ({"validate": "c", "metadata": True, "full": True}, 72),
        ({"validate": "c", "metadata": True}, 0),
        ({"validate": "c", "repair": True}, 238),
        ({"validate": "c", "full": []}, 0),
    ],
)
def test_refusals(db: Any, command: Document, code: int) -> None:
    assert code_of(db, command) == code
