"""Updates that are pipelines: document before, pipeline, document after or the code of the refusal."""

from __future__ import annotations

from typing import Any

import pytest
from bson import DatetimeMS, Int64

from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.update import build_upsert, compile_update
from mayflydb.query.mongo.values import encode

NOW = 1_700_000_000_123
ENV = Env(NOW, {"step": 5})


@pytest.mark.parametrize(
    ("before", "pipeline", "after"),
    [
        ({"_id": 1, "a": 1}, [], {"_id": 1, "a": 1}),
        ({"_id": 1, "a": 1}, [{"$set": {"a": 1}}], {"_id": 1, "a": 1}),
        ({"_id": 1, "a": 1}, [{"$set": {"b": "$a"}}], {"_id": 1, "a": 1, "b": 1}),
        ({"_id": 1, "a": 1}, [{"$addFields": {"b": {"$add": ["$a", 1]}}}], {"_id": 1, "a": 1, "b": 2}),
        ({"_id": 1, "a": 1}, [{"$set": {"z": 1, "b": 2}}], {"_id": 1, "a": 1, "z": 1, "b": 2}),
        ({"_id": 1, "a": 1}, [{"$set": {"a": 5, "b": "$a"}}], {"_id": 1, "a": 5, "b": 1}),
        ({"_id": 1, "a": 1}, [{"$set": {"a": 5}}, {"$set": {"b": "$a"}}], {"_id": 1, "a": 5, "b": 5}),
        ({"_id": 1}, [{"$set": {"a.b": 1, "a.c": 2}}], {"_id": 1, "a": {"b": 1, "c": 2}}),
        ({"_id": 1}, [{"$set": {"a": {"b": 1, "c": {"d": 2}}}}], {"_id": 1, "a": {"b": 1, "c": {"d": 2}}}),
        ({"_id": 1, "a": {"x": 0}}, [{"$set": {"a": {"b": 1}}}], {"_id": 1, "a": {"x": 0, "b": 1}}),
        ({"_id": 1, "a": 7}, [{"$set": {"a.b": 1}}], {"_id": 1, "a": {"b": 1}}),
        ({"_id": 1, "a": [{"x": 0}, 7]}, [{"$set": {"a.b": 1}}], {"_id": 1, "a": [{"x": 0, "b": 1}, {"b": 1}]}),
        ({"_id": 1}, [{"$set": {"a": {"$literal": {}}}}], {"_id": 1, "a": {}}),
        ({"_id": 1}, [{"$set": {"a": [1, "$_id"]}}], {"_id": 1, "a": [1, 1]}),
        ({"_id": 1, "a": 1}, [{"$set": {"a": "$$REMOVE"}}], {"_id": 1}),
        ({"_id": 1, "a": 1}, [{"$set": {"b": "$nothing"}}], {"_id": 1, "a": 1}),
        ({"_id": 1}, [{"$set": {"a": "$$NOW"}}], {"_id": 1, "a": DatetimeMS(NOW)}),
        ({"_id": 1}, [{"$set": {"a": "$$step"}}], {"_id": 1, "a": 5}),
        ({"_id": 1, "a": 1}, [{"$set": {"b": "$$ROOT.a"}}], {"_id": 1, "a": 1, "b": 1}),
        ({"_id": 1}, [{"$set": {"a": {"$add": ["$none", 1]}}}], {"_id": 1, "a": None}),
        (
            {"_id": 1, "t": DatetimeMS(NOW - 50)},
            [{"$set": {"age": {"$subtract": ["$$NOW", "$t"]}}}],
            {"_id": 1, "t": DatetimeMS(NOW - 50), "age": Int64(50)},
        ),
        (
            {"_id": 1, "n": 4, "expireAt": DatetimeMS(NOW - 1)},
            [{"$set": {"n": {"$cond": [{"$lt": ["$expireAt", "$$NOW"]}, 1, {"$add": ["$n", 1]}]}}}],
            {"_id": 1, "n": 1, "expireAt": DatetimeMS(NOW - 1)},
        ),
        ({"_id": 1, "a": 1, "b": 2}, [{"$unset": "a"}], {"_id": 1, "b": 2}),
        ({"_id": 1, "a": {"x": 1, "y": 2}, "b": 2}, [{"$unset": ["a.x", "b"]}], {"_id": 1, "a": {"y": 2}}),
        ({"_id": 1, "a": 1, "b": 2}, [{"$project": {"a": 1}}], {"_id": 1, "a": 1}),
        ({"_id": 1, "a": {"x": 5}}, [{"$replaceRoot": {"newRoot": "$a"}}], {"_id": 1, "x": 5}),
        ({"_id": 1, "a": {"x": 5}}, [{"$replaceWith": "$a"}], {"_id": 1, "x": 5}),
        ({"_id": 1, "a": 2}, [{"$replaceWith": {"$mergeObjects": [{"z": 9}, "$$ROOT"]}}], {"_id": 1, "z": 9, "a": 2}),
        ({"_id": 1, "a": 2}, [{"$unset": "_id"}], {"_id": 1, "a": 2}),
        ({"_id": 1, "a": 2}, [{"$set": {"_id": 1}}], {"_id": 1, "a": 2}),
        ({"_id": 1, "a": 2}, [{"$set": {"_id": 2}}], 66),
        ({"_id": 1, "a": 2}, [{"$replaceWith": {"_id": 2}}], 66),
        ({"_id": 1, "a": 2}, [{"$replaceWith": "$a"}], 40228),
        ({"_id": 1}, [{"$replaceRoot": {"newRoot": "$none"}}], 40228),
        ({"_id": 1}, [{"$replaceRoot": {}}], 40414),
        ({"_id": 1}, [{"$replaceRoot": {"newRoot": "$a", "x": 1}}], 40415),
        ({"_id": 1}, [{"$replaceRoot": 1}], 40229),
        ({"_id": 1}, [{"$match": {}}], 72),
        ({"_id": 1}, [{"$lookup": {}}], 72),
        ({"_id": 1}, [{"$out": "x"}], 72),
        ({"_id": 1}, [{"$nope": {}}], 40324),
        ({"_id": 1}, [{"$inc": {"a": 1}}], 40324),
        ({"_id": 1}, [{}], 40323),
        ({"_id": 1}, [{"$set": {"a": 1}, "$unset": "b"}], 40323),
        ({"_id": 1}, [5], 14),
        ({"_id": 1}, [{"$set": 5}], 40272),
        ({"_id": 1, "a": 2}, [{"$set": {}}], {"_id": 1, "a": 2}),
        ({"_id": 1, "a": {"b": 2}}, [{"$set": {"a": {}}}], {"_id": 1, "a": {}}),
        ({"_id": 1, "a": {"b": 2}}, [{"$addFields": {"a": {"c": {}}}}], {"_id": 1, "a": {"b": 2, "c": {}}}),
        ({"_id": 1}, [{"$set": {"a": {}, "a.b": 2}}], 31250),
        ({"_id": 1}, [{"$set": {"a": 1, "a.b": 2}}], 31250),
        ({"_id": 1}, [{"$set": {"a.b": 1, "a": 2}}], 31250),
        ({"_id": 1}, [{"$set": {"$a": 1}}], 16410),
        ({"_id": 1}, [{"$set": {"a.": 1}}], 15998),
        ({"_id": 1}, [{"$unset": 1}], 31002),
        ({"_id": 1}, [{"$unset": []}], 31002),
        ({"_id": 1}, [{"$project": {}}], 51272),
        ({"_id": 1}, [{"$set": {"a": {"$nope": 1}}}], 168),
    ],
    ids=repr,
)
def test_a_pipeline_gives_this_document_or_this_refusal(before: Any, pipeline: Any, after: Any) -> None:
    bytes_before = encode(before)
    if isinstance(after, int):
        with pytest.raises(MqlError) as refusal:
            compile_update(pipeline, ENV).apply(before, None, False)
        assert refusal.value.code == after
        return
    changed = compile_update(pipeline, ENV).apply(before, None, False)
    assert encode(before) == bytes_before
    assert encode(changed) == encode(after)
    assert (changed is before) == (encode(after) == bytes_before)


def test_a_stage_that_no_update_has_is_refused_by_name() -> None:
    with pytest.raises(MqlError, match=r"^\$group is not allowed to be used within an update$"):
        compile_update([{"$group": {"_id": None}}], ENV)


def test_an_upsert_runs_the_pipeline_on_the_values_of_the_query() -> None:
    update = compile_update([{"$set": {"n": {"$add": [{"$ifNull": ["$n", 0]}, 1]}}}], ENV)
    assert build_upsert({"key": "k"}, update, ENV, lambda: 7) == {"_id": 7, "key": "k", "n": 1}
