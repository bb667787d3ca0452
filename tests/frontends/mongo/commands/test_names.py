"""A renamed collection is found under its new name only."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure

Client = MongoClient[dict[str, Any]]


def named(client: Client, database: str) -> dict[str, int]:
    """Collection -> documents, of all that are listed."""
    names = client[database].list_collection_names()
    return {name: client[database][name].count_documents({}) for name in sorted(names)}


def test_a_name_in_the_same_database(mongo_client: Client) -> None:
    database = mongo_client["same"]
    database["a"].create_index("at", expireAfterSeconds=60)
    database["a"].insert_one({})
    assert named(mongo_client, "same") == {"a": 1}
    database["a"].rename("b")
    assert named(mongo_client, "same") == {"b": 1}
    assert database["b"].index_information()["at_1"]["expireAfterSeconds"] == 60
    database["a"].insert_many([{}, {}])
    with pytest.raises(OperationFailure, match="target namespace exists"):
        database["a"].rename("b")
    database["a"].rename("b", dropTarget=True)
    assert named(mongo_client, "same") == {"b": 2}


def test_a_name_in_another_database(mongo_client: Client) -> None:
    mongo_client["from"]["a"].insert_one({})
    assert named(mongo_client, "from") == {"a": 1}
    mongo_client["admin"].command("renameCollection", "from.a", to="into.b")
    assert named(mongo_client, "from") == {} and named(mongo_client, "into") == {"b": 1}
    assert {"from", "into"} & set(mongo_client.list_database_names()) == {"into"}


def test_what_a_pipeline_writes(mongo_client: Client) -> None:
    database = mongo_client["written"]
    database["a"].insert_many([{}, {}])
    for _ in range(2):
        database["a"].aggregate([{"$limit": 1}, {"$out": "b"}])
        assert named(mongo_client, "written") == {"a": 2, "b": 1}
