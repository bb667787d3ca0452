"""validateDBMetadata: what API version 1 does not have."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure

Client = MongoClient[dict[str, Any]]
Document = dict[str, Any]

STRICT: Document = {"version": "1", "strict": True}


@pytest.fixture(scope="module")
def made(mongo_client: Client) -> Client:
    """A collection with indexes of each kind, and two views."""
    mongo_client.drop_database("validated")
    database = mongo_client.validated
    database.c.create_index([("a", "text")], name="words")
    database.c.create_index("b", sparse=True, name="sparse")
    database.c.create_index("c", unique=True)
    database.c.create_index([("d", "hashed")])
    database.command("create", "plain", viewOn="c", pipeline=[{"$match": {}}])
    return mongo_client


def errors(client: Client, **more: Any) -> list[tuple[str, int, str]]:
    reply = client.validated.command("validateDBMetadata", 1, **{"apiParameters": STRICT, "db": "validated", **more})
    return [(each["ns"], each["code"], each["errmsg"]) for each in reply["apiVersionErrors"]]


def test_texts_and_sparse_indexes_are_not_in_version_1(made: Client) -> None:
    found = errors(made)
    assert [(name, code) for name, code, _ in found] == [("validated.c", 323), ("validated.c", 323)]
    assert sorted(text.split()[4] for _, _, text in found) == ["sparse", "words"]


@pytest.mark.parametrize(
    "more",
    [
        {"collection": "plain"},
        {"collection": "C"},
        {"db": "Validated"},
        {"apiParameters": {"version": "1", "strict": False}},
        {"apiParameters": {"version": "2", "strict": True}},
        {"apiParameters": {"version": "1"}},
    ],
    ids=str,
)
def test_nothing_is_found_elsewhere(made: Client, more: Document) -> None:
    assert errors(made, **more) == []


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"apiParameters": None}, 40414),
        ({"apiParameters": {"strict": True}}, 40414),
        ({"apiParameters": []}, 14),
        ({"apiParameters": {"version": 1}}, 14),
        ({"apiParameters": {"version": "1", "strict": 1}}, 14),
        ({"apiParameters": {"version": "1", "strict": None}}, 14),
        ({"apiParameters": {"version": "1", "more": 1}}, 40415),
        ({"more": 1}, 40415),
        ({"db": 1}, 14),
        ({"db": ""}, 28539),
        ({"db": "a.b"}, 73),
        ({"db": "a" * 63}, 0),
        ({"db": "a" * 64}, 73),
        ({"db": "a b"}, 13280),
        ({"collection": ""}, 73),
        ({"collection": ".a"}, 73),
        ({"collection": 1}, 14),
    ],
    ids=str,
)
def test_arguments(made: Client, more: Document, code: int) -> None:
    if not code:
        assert errors(made, **more) == []
        return
    with pytest.raises(OperationFailure) as refusal:
        errors(made, **more)
    assert refusal.value.code == code
