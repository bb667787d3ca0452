"""Results of updates, row by row: before, update, and after or the code of the refusal."""

from __future__ import annotations

from typing import Any

import pytest
from bson import DatetimeMS, Decimal128, Int64, MaxKey, MinKey, ObjectId, Timestamp

from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.update import compile_update
from mayflydb.query.mongo.values import decode, encode

NOW = 1_700_000_000_123
ENV = Env(NOW)
BIG, SMALL = (1 << 63) - 1, -(1 << 63)
D = Decimal128
OID = ObjectId("0123456789abcdef01234567")

Row = tuple[Any, Any, Any]

SET: list[Row] = [
    ({"_id": 1}, {"$set": {"a": 1}}, {"_id": 1, "a": 1}),
    ({"_id": 1, "a": 1, "b": 2}, {"$set": {"a": 3}}, {"_id": 1, "a": 3, "b": 2}),
    ({"_id": 1}, {"$set": {}}, {"_id": 1}),
    ({"a": 1}, {"$set": {"a": 1}}, {"a": 1}),
    ({"a": 1}, {"$set": {"a": 1.0}}, {"a": 1.0}),
    ({"a": 1}, {"$set": {"a": Int64(1)}}, {"a": Int64(1)}),
    ({"a": 0.0}, {"$set": {"a": -0.0}}, {"a": -0.0}),
    ({"a": {"x": 1, "y": 2}}, {"$set": {"a": {"y": 2, "x": 1}}}, {"a": {"y": 2, "x": 1}}),
    ({}, {"$set": {"a": None}}, {"a": None}),
    ({}, {"$set": {"a.b.c": 1}}, {"a": {"b": {"c": 1}}}),
    ({"a": {"z": 0}}, {"$set": {"a.b.c": 1}}, {"a": {"z": 0, "b": {"c": 1}}}),
    ({}, {"$set": {"c": 1, "a": 2, "b": 3}}, {"a": 2, "b": 3, "c": 1}),
    ({"c": 0}, {"$set": {"c": 1, "a": 2}}, {"c": 1, "a": 2}),
    ({}, {"$set": {"10": 1, "9": 2, "a": 3}}, {"9": 2, "10": 1, "a": 3}),
    ({}, {"$set": {"a.10": 1, "a.9": 2}}, {"a": {"9": 2, "10": 1}}),
    ({}, {"$set": {"010": 1, "9" * 5000: 2, "10": 3, "0": 4}}, {"0": 4, "010": 1, "10": 3, "9" * 5000: 2}),
    ({}, {"$set": {"b": 1}, "$inc": {"a": 1}}, {"a": 1, "b": 1}),
    ({"a": [1, 2, 3]}, {"$set": {"a.1": 9}}, {"a": [1, 9, 3]}),
    ({"a": [1]}, {"$set": {"a.3": 9}}, {"a": [1, None, None, 9]}),
    ({"a": []}, {"$set": {"a.0": 9}}, {"a": [9]}),
    ({"a": [{"b": 1}]}, {"$set": {"a.0.b": 2}}, {"a": [{"b": 2}]}),
    ({"a": [1]}, {"$set": {"a.1.b": 2}}, {"a": [1, {"b": 2}]}),
    ({"a": [1]}, {"$set": {"a.2.b.c": 2}}, {"a": [1, None, {"b": {"c": 2}}]}),
    ({"a": [[1], [2]]}, {"$set": {"a.1.0": 7}}, {"a": [[1], [7]]}),
    ({"a": {"0": 1}}, {"$set": {"a.0": 2}}, {"a": {"0": 2}}),
    ({}, {"$set": {"a.0": 2}}, {"a": {"0": 2}}),
    ({"a": {"$ref": "c", "$id": 1}}, {"$set": {"a.$id": 2}}, {"a": {"$ref": "c", "$id": 2}}),
    ({"a": {"$ref": "c", "$id": 1}}, {"$set": {"a.$id": 1}}, {"a": {"$ref": "c", "$id": 1}}),
    ({"_id": 1}, {"$set": {"_id": 1}}, {"_id": 1}),
    ({"_id": OID, "a": 1}, {"$set": {"_id": OID, "a": 2}}, {"_id": OID, "a": 2}),
    ({"_id": {"x": 1}}, {"$set": {"_id.x": 1}}, {"_id": {"x": 1}}),
    ({}, {"$set": {"a": {"$b": 1}}}, {"a": {"$b": 1}}),
    ({}, {"$set": {"a.$b": 1}}, {"a": {"$b": 1}}),
    ({"_id": 1}, {"$set": {"_id": 2}}, 66),
    ({"_id": 1}, {"$set": {"_id": 1.0}}, 66),
    ({"_id": {"x": 1}}, {"$set": {"_id.x": 2}}, 66),
    ({"_id": {"x": 1}}, {"$set": {"_id.y": 2}}, 66),
    ({"_id": 1}, {"$unset": {"_id": ""}}, 66),
    ({"_id": 1}, {"$inc": {"_id": 1}}, 66),
    ({"_id": 1}, {"$inc": {"_id": 0}}, {"_id": 1}),
    ({"a": 1}, {"$set": {"a.b": 1}}, 28),
    ({"a": None}, {"$set": {"a.b": 1}}, 28),
    ({"a": "x"}, {"$set": {"a.0": 1}}, 28),
    ({"a": [1]}, {"$set": {"a.b": 1}}, 28),
    ({"a": [1]}, {"$set": {"a.0.b": 1}}, 28),
    ({"a": [1]}, {"$set": {"a.-1": 1}}, 28),
    ({"a": []}, {"$set": {"a.1500001": 1}}, 30),
    ({}, {"$set": {"": 1}}, 56),
    ({}, {"$set": {"a.": 1}}, 56),
    ({}, {"$set": {".a": 1}}, 56),
    ({}, {"$set": {"a..b": 1}}, 56),
    ({}, {"$set": {"$a": 1}}, 52),
    ({"$a": 1}, {"$set": {"$a": 1}}, {"$a": 1}),
    ({"$a": 1}, {"$set": {"$a": 2}}, 52),
    ({}, {"$set": {"$a.b": 1}}, 52),
    ({}, {"$inc": {"$a": 1}}, 52),
]

SHAPES: list[Row] = [
    ({}, {"$set": 5}, 9),
    ({}, {"$set": [1]}, 9),
    ({}, {"$set": None}, 9),
    ({}, {"$nope": {"a": 1}}, 9),
    ({}, {"$set": {"a": 1}, "b": 1}, 9),
    ({}, {"$set": {"a": 1}, "$unset": {"a": 1}}, 40),
    ({}, {"$set": {"a": 1, "a.b": 2}}, 40),
    ({}, {"$set": {"a.b": 1, "a": 2}}, 40),
    ({}, {"$set": {"a.b": 1}, "$inc": {"a.b.c": 2}}, 40),
    ({}, {"$set": {"a.b": 1, "a.c": 2}}, {"a": {"b": 1, "c": 2}}),
    ({}, {"$set": {"ab": 1, "a": 2}}, {"a": 2, "ab": 1}),
    ({}, {"$rename": {"a": "b"}, "$set": {"b": 1}}, 40),
    ({}, {"$rename": {"a": "b"}, "$set": {"a.c": 1}}, 40),
    ({}, {"$set": {"a": [[[1]]]}}, {"a": [[[1]]]}),
    ({}, {"$set": {".".join("a" * 200): 1}}, None),
    ({}, {"$set": {".".join("a" * 201): 1}}, 15),
    ({}, "x", 9),
]

INSERTING: list[Row] = [
    ({}, {"$setOnInsert": {"a": 1}}, {"a": 1}),
    ({"a": 1}, {"$setOnInsert": {"a": 2}}, {"a": 2}),
    ({"_id": 1}, {"$setOnInsert": {"a.b": 2}}, {"_id": 1, "a": {"b": 2}}),
    ({"a": 1}, {"$setOnInsert": {"a.b": 2}}, 28),
    ({}, {"$set": {"_id": 7}}, {"_id": 7}),
    ({}, {"$set": {"$a": 7}}, {"$a": 7}),
    ({}, {"a": 1, "$a": 7}, {"a": 1, "$a": 7}),
    ({}, {"$set": {"_id.x": 7}}, {"_id": {"x": 7}}),
    ({"_id": 6}, {"$set": {"_id": 7}}, 66),
    ({}, {"$set": {"a.$.b": 7}}, 2),
]

NOT_INSERTING: list[Row] = [
    ({"_id": 1}, {"$setOnInsert": {"a": 1}}, {"_id": 1}),
    ({"a": 1}, {"$setOnInsert": {"a.b": 2}}, {"a": 1}),
    ({"a": 1}, {"$setOnInsert": {"a": 2}, "$inc": {"b": 1}}, {"a": 1, "b": 1}),
]

UNSET: list[Row] = [
    ({"a": 1, "b": 2}, {"$unset": {"a": ""}}, {"b": 2}),
    ({"a": 1}, {"$unset": {"a": "", "b": 1}}, {}),
    ({"a": 1}, {"$unset": {"b": ""}}, {"a": 1}),
    ({"a": {"b": 1, "c": 2}}, {"$unset": {"a.b": 1}}, {"a": {"c": 2}}),
    ({"a": {"b": 1}}, {"$unset": {"a.b": 1}}, {"a": {}}),
    ({"a": 1}, {"$unset": {"a.b": 1}}, {"a": 1}),
    ({"a": [1]}, {"$unset": {"a.b": 1}}, {"a": [1]}),
    ({"a": [1, 2]}, {"$unset": {"a.0": 1}}, {"a": [None, 2]}),
    ({"a": [1, 2]}, {"$unset": {"a.5": 1}}, {"a": [1, 2]}),
    ({"a": [1, None]}, {"$unset": {"a.1": 1}}, {"a": [1, None]}),
    ({"a": [{"b": 1}]}, {"$unset": {"a.0.b": 1}}, {"a": [{}]}),
    ({}, {"$unset": {"a.b.c": 1}}, {}),
    ({"$a": 1}, {"$unset": {"$a": 1}}, {}),
]

NUMBERS: list[Row] = [
    ({"a": 1}, {"$inc": {"a": 2}}, {"a": 3}),
    ({}, {"$inc": {"a": 2}}, {"a": 2}),
    ({}, {"$inc": {"a.b": Int64(2)}}, {"a": {"b": Int64(2)}}),
    ({"a": 1}, {"$inc": {"a": 0}}, {"a": 1}),
    ({"a": 1}, {"$inc": {"a": 0.0}}, {"a": 1.0}),
    ({"a": 1}, {"$inc": {"a": Int64(0)}}, {"a": Int64(1)}),
    ({"a": Int64(1)}, {"$inc": {"a": 1}}, {"a": Int64(2)}),
    ({"a": 2147483647}, {"$inc": {"a": 0}}, {"a": 2147483647}),
    ({"a": 2147483647}, {"$inc": {"a": 1}}, {"a": Int64(2147483648)}),
    ({"a": -2147483648}, {"$inc": {"a": -1}}, {"a": Int64(-2147483649)}),
    ({"a": Int64(BIG)}, {"$inc": {"a": 1}}, 2),
    ({"a": Int64(BIG - 1)}, {"$inc": {"a": 1}}, {"a": Int64(BIG)}),
    ({"a": Int64(SMALL)}, {"$inc": {"a": -1}}, 2),
    ({"a": Int64(BIG)}, {"$inc": {"a": 1.0}}, {"a": float(BIG)}),
    ({"a": 1}, {"$inc": {"a": 1.5}}, {"a": 2.5}),
    ({"a": 1.5}, {"$inc": {"a": 1}}, {"a": 2.5}),
    ({"a": 1}, {"$inc": {"a": D("0.1")}}, {"a": D("1.1")}),
    ({"a": D("0.1")}, {"$inc": {"a": 0.2}}, {"a": D("0.3")}),
    ({"a": D("1")}, {"$inc": {"a": Int64(2)}}, {"a": D("3")}),
    ({"a": 0.1}, {"$inc": {"a": 0.2}}, {"a": 0.30000000000000004}),
    ({"a": [1, 2]}, {"$inc": {"a.1": 5}}, {"a": [1, 7]}),
    ({"a": "x"}, {"$inc": {"a": 1}}, 14),
    ({"a": None}, {"$inc": {"a": 1}}, 14),
    ({"a": True}, {"$inc": {"a": 1}}, 14),
    ({"a": DatetimeMS(0)}, {"$inc": {"a": 1}}, 14),
    ({}, {"$inc": {"a": "1"}}, 14),
    ({}, {"$inc": {"a": None}}, 14),
    ({}, {"$inc": {"a": True}}, 14),
    ({"a": 1}, {"$inc": {"a.b": 1}}, 28),
    ({"a": 3}, {"$mul": {"a": 4}}, {"a": 12}),
    ({}, {"$mul": {"a": 4}}, {"a": 0}),
    ({}, {"$mul": {"a": Int64(4)}}, {"a": Int64(0)}),
    ({}, {"$mul": {"a": 1.5}}, {"a": 0.0}),
    ({}, {"$mul": {"a": D("2")}}, {"a": D("0")}),
    ({"a": 5}, {"$mul": {"a": 1}}, {"a": 5}),
    ({"a": 65536}, {"$mul": {"a": 65536}}, {"a": Int64(4294967296)}),
    ({"a": Int64(1 << 40)}, {"$mul": {"a": Int64(1 << 40)}}, 2),
    ({"a": 3}, {"$mul": {"a": 0.5}}, {"a": 1.5}),
    ({"a": D("1.10")}, {"$mul": {"a": 3}}, {"a": D("3.30")}),
    ({"a": []}, {"$mul": {"a": 3}}, 14),
    ({}, {"$mul": {"a": "x"}}, 14),
    ({"a": 5}, {"$min": {"a": 4}}, {"a": 4}),
    ({"a": 5}, {"$min": {"a": 5}}, {"a": 5}),
    ({"a": 5}, {"$min": {"a": 5.0}}, {"a": 5}),
    ({"a": 5}, {"$min": {"a": 6}}, {"a": 5}),
    ({}, {"$min": {"a": 6}}, {"a": 6}),
    ({"a": 5}, {"$min": {"a": None}}, {"a": None}),
    ({"a": 5}, {"$min": {"a": MinKey()}}, {"a": MinKey()}),
    ({"a": "b"}, {"$min": {"a": "a"}}, {"a": "a"}),
    ({"a": DatetimeMS(5)}, {"$min": {"a": DatetimeMS(4)}}, {"a": DatetimeMS(4)}),
    ({"a": 5}, {"$max": {"a": 6}}, {"a": 6}),
    ({"a": 5}, {"$max": {"a": 5.0}}, {"a": 5}),
    ({"a": 5}, {"$max": {"a": 4}}, {"a": 5}),
    ({"a": 5}, {"$max": {"a": "x"}}, {"a": "x"}),
    ({"a": 5}, {"$max": {"a": MaxKey()}}, {"a": MaxKey()}),
    ({"a": None}, {"$max": {"a": 1}}, {"a": 1}),
    ({}, {"$max": {"a.b": 1}}, {"a": {"b": 1}}),
    ({"a": 13}, {"$bit": {"a": {"and": 10}}}, {"a": 8}),
    ({"a": 8}, {"$bit": {"a": {"or": 5}}}, {"a": 13}),
    ({"a": 13}, {"$bit": {"a": {"xor": 5}}}, {"a": 8}),
    ({"a": 13}, {"$bit": {"a": {"and": 10, "or": 1}}}, {"a": 9}),
    ({"a": 13}, {"$bit": {"a": {"or": Int64(2)}}}, {"a": Int64(15)}),
    ({"a": Int64(13)}, {"$bit": {"a": {"or": 2}}}, {"a": Int64(15)}),
    ({"a": -1}, {"$bit": {"a": {"and": 255}}}, {"a": 255}),
    ({"a": 5}, {"$bit": {"a": {"or": 5}}}, {"a": 5}),
    ({}, {"$bit": {"a": {"or": 5}}}, {"a": 5}),
    ({}, {"$bit": {"a": {"and": 5}}}, {"a": 0}),
    ({"a": 1.0}, {"$bit": {"a": {"or": 5}}}, 2),
    ({"a": 1}, {"$bit": {"a": {"or": 5.0}}}, 2),
    ({"a": 1}, {"$bit": {"a": {"not": 5}}}, 2),
    ({"a": 1}, {"$bit": {"a": {}}}, 2),
    ({"a": 1}, {"$bit": {"a": 5}}, 2),
]

DATES: list[Row] = [
    ({}, {"$currentDate": {"a": True}}, {"a": DatetimeMS(NOW)}),
    ({}, {"$currentDate": {"a": False}}, {"a": DatetimeMS(NOW)}),
    ({"a": 1}, {"$currentDate": {"a": {"$type": "date"}}}, {"a": DatetimeMS(NOW)}),
    ({}, {"$currentDate": {"a.b": {"$type": "timestamp"}}}, {"a": {"b": Timestamp(NOW // 1000, 1)}}),
    ({"a": DatetimeMS(NOW)}, {"$currentDate": {"a": True}}, {"a": DatetimeMS(NOW)}),
    ({}, {"$currentDate": {"a": 1}}, 2),
    ({}, {"$currentDate": {"a": {}}}, 2),
    ({}, {"$currentDate": {"a": {"$type": "day"}}}, 2),
    ({}, {"$currentDate": {"a": {"type": "date"}}}, 2),
]

PUSH: list[Row] = [
    ({}, {"$push": {"a": 1}}, {"a": [1]}),
    ({"a": [1]}, {"$push": {"a": 2}}, {"a": [1, 2]}),
    ({"a": [1]}, {"$push": {"a": [2, 3]}}, {"a": [1, [2, 3]]}),
    ({"a": [1]}, {"$push": {"a": {"x": 1}}}, {"a": [1, {"x": 1}]}),
    ({"a": {"b": [1]}}, {"$push": {"a.b": 2}}, {"a": {"b": [1, 2]}}),
    ({"a": [[1]]}, {"$push": {"a.0": 2}}, {"a": [[1, 2]]}),
    ({"a": [1]}, {"$push": {"a": {"$each": [2, 3]}}}, {"a": [1, 2, 3]}),
    ({"a": [1]}, {"$push": {"a": {"$each": []}}}, {"a": [1]}),
    ({}, {"$push": {"a": {"$each": []}}}, {"a": []}),
    ({"a": [1, 2]}, {"$push": {"a": {"$each": [9], "$position": 0}}}, {"a": [9, 1, 2]}),
    ({"a": [1, 2]}, {"$push": {"a": {"$each": [9, 8], "$position": 1}}}, {"a": [1, 9, 8, 2]}),
    ({"a": [1, 2]}, {"$push": {"a": {"$each": [9], "$position": 2}}}, {"a": [1, 2, 9]}),
    ({"a": [1, 2]}, {"$push": {"a": {"$each": [9], "$position": 7}}}, {"a": [1, 2, 9]}),
    ({"a": [1, 2]}, {"$push": {"a": {"$each": [9], "$position": -1}}}, {"a": [1, 9, 2]}),
    ({"a": [1, 2]}, {"$push": {"a": {"$each": [9], "$position": -2}}}, {"a": [9, 1, 2]}),
    ({"a": [1, 2]}, {"$push": {"a": {"$each": [9], "$position": -5}}}, {"a": [9, 1, 2]}),
    ({"a": [1, 2]}, {"$push": {"a": {"$each": [9], "$position": 1.0}}}, {"a": [1, 9, 2]}),
    ({"a": [1, 2]}, {"$push": {"a": {"$each": [3], "$slice": 2}}}, {"a": [1, 2]}),
    ({"a": [1, 2]}, {"$push": {"a": {"$each": [3], "$slice": -2}}}, {"a": [2, 3]}),
    ({"a": [1, 2]}, {"$push": {"a": {"$each": [3], "$slice": 0}}}, {"a": []}),
    ({"a": [1, 2]}, {"$push": {"a": {"$each": [3], "$slice": 9}}}, {"a": [1, 2, 3]}),
    ({"a": [1, 2]}, {"$push": {"a": {"$each": [3], "$slice": -9}}}, {"a": [1, 2, 3]}),
    ({"a": [1, 2]}, {"$push": {"a": {"$each": [3], "$position": 0, "$slice": 2}}}, {"a": [3, 1]}),
    ({"a": [3, 1]}, {"$push": {"a": {"$each": [2], "$sort": 1}}}, {"a": [1, 2, 3]}),
    ({"a": [3, 1]}, {"$push": {"a": {"$each": [2], "$sort": -1}}}, {"a": [3, 2, 1]}),
    ({"a": [3, 1]}, {"$push": {"a": {"$each": [], "$sort": 1}}}, {"a": [1, 3]}),
    ({"a": [1, 3]}, {"$push": {"a": {"$each": [], "$sort": 1}}}, {"a": [1, 3]}),
    ({"a": [3, "x", None]}, {"$push": {"a": {"$each": [2], "$sort": 1}}}, {"a": [None, 2, 3, "x"]}),
    (
        {"a": [{"n": 3}, {"n": 1}]},
        {"$push": {"a": {"$each": [{"n": 2}], "$sort": {"n": 1}, "$slice": -2}}},
        {"a": [{"n": 2}, {"n": 3}]},
    ),
    (
        {"a": [{"n": 1, "m": 1}, {"n": 2, "m": 2}]},
        {"$push": {"a": {"$each": [{"n": 1, "m": 2}], "$sort": {"m": -1, "n": 1}}}},
        {"a": [{"n": 1, "m": 2}, {"n": 2, "m": 2}, {"n": 1, "m": 1}]},
    ),
    (
        {"a": [{"n": {"k": 2}}, 7, {"n": {"k": 1}}]},
        {"$push": {"a": {"$each": [], "$sort": {"n.k": 1}}}},
        {"a": [7, {"n": {"k": 1}}, {"n": {"k": 2}}]},
    ),
    ({"a": 1}, {"$push": {"a": 2}}, 2),
    ({"a": None}, {"$push": {"a": 2}}, 2),
    ({"a": []}, {"$push": {"a": {"$each": 2}}}, 2),
    ({"a": []}, {"$push": {"a": {"$each": [], "$what": 2}}}, 2),
    ({"a": []}, {"$push": {"a": {"$each": [], "x": 2}}}, 2),
    ({"a": []}, {"$push": {"a": {"$each": [], "$slice": "x"}}}, 2),
    ({"a": []}, {"$push": {"a": {"$each": [], "$slice": 1.5}}}, 2),
    ({"a": []}, {"$push": {"a": {"$each": [], "$position": "x"}}}, 2),
    ({"a": []}, {"$push": {"a": {"$each": [], "$sort": 2}}}, 2),
    ({"a": []}, {"$push": {"a": {"$each": [], "$sort": "x"}}}, 2),
    ({"a": []}, {"$push": {"a": {"$each": [], "$sort": {}}}}, 2),
    ({"a": []}, {"$push": {"a": {"$each": [], "$sort": {"x": 0}}}}, 2),
    ({"a": []}, {"$push": {"a": {"$each": [], "$sort": {"": 1}}}}, 2),
    ({"a": []}, {"$push": {"a": {"$each": [], "$sort": {"x..y": 1}}}}, 2),
    ({"a": 1}, {"$push": {"a.b": 2}}, 28),
]

SETS: list[Row] = [
    ({}, {"$addToSet": {"a": 1}}, {"a": [1]}),
    ({"a": [1]}, {"$addToSet": {"a": 1}}, {"a": [1]}),
    ({"a": [1]}, {"$addToSet": {"a": 1.0}}, {"a": [1]}),
    ({"a": [1]}, {"$addToSet": {"a": 2}}, {"a": [1, 2]}),
    ({"a": [1]}, {"$addToSet": {"a": [1]}}, {"a": [1, [1]]}),
    ({"a": [{"x": 1, "y": 2}]}, {"$addToSet": {"a": {"x": 1, "y": 2}}}, {"a": [{"x": 1, "y": 2}]}),
    (
        {"a": [{"x": 1, "y": 2}]},
        {"$addToSet": {"a": {"y": 2, "x": 1}}},
        {"a": [{"x": 1, "y": 2}, {"y": 2, "x": 1}]},
    ),
    ({"a": [1, 1]}, {"$addToSet": {"a": {"$each": [2, 1, 2, 3]}}}, {"a": [1, 1, 2, 3]}),
    ({}, {"$addToSet": {"a": {"$each": [2, 2]}}}, {"a": [2]}),
    ({}, {"$addToSet": {"a": {"$each": []}}}, {"a": []}),
    ({"a": []}, {"$addToSet": {"a": {"x": 1, "$each": [1]}}}, {"a": [{"x": 1, "$each": [1]}]}),
    ({"a": 1}, {"$addToSet": {"a": 1}}, 2),
    ({"a": []}, {"$addToSet": {"a": {"$each": 1}}}, 14),
    ({"a": []}, {"$addToSet": {"a": {"$each": [1], "$slice": 1}}}, 2),
    ({"a": [1, 2, 3]}, {"$pop": {"a": 1}}, {"a": [1, 2]}),
    ({"a": [1, 2, 3]}, {"$pop": {"a": -1}}, {"a": [2, 3]}),
    ({"a": [1]}, {"$pop": {"a": 1.0}}, {"a": []}),
    ({"a": []}, {"$pop": {"a": 1}}, {"a": []}),
    ({}, {"$pop": {"a": 1}}, {}),
    ({}, {"$pop": {"a.b": 1}}, {}),
    ({"a": {}}, {"$pop": {"a.b": 1}}, {"a": {}}),
    ({"a": [1]}, {"$pop": {"a.5": 1}}, {"a": [1]}),
    ({"a": 1}, {"$pop": {"a": 1}}, 14),
    ({"a": 1}, {"$pop": {"a.b": 1}}, 28),
    ({"a": [1]}, {"$pop": {"a.b": 1}}, 28),
    ({"a": [1]}, {"$pop": {"a": 2}}, 9),
    ({"a": [1]}, {"$pop": {"a": 0}}, 9),
    ({"a": [1]}, {"$pop": {"a": 1.5}}, 9),
    ({"a": [1]}, {"$pop": {"a": "1"}}, 9),
    ({"a": [1, 2, 1, 3]}, {"$pullAll": {"a": [1, 3]}}, {"a": [2]}),
    ({"a": [1, 2]}, {"$pullAll": {"a": []}}, {"a": [1, 2]}),
    ({"a": [1.0, [1], {"x": 1}]}, {"$pullAll": {"a": [1, [1]]}}, {"a": [{"x": 1}]}),
    ({}, {"$pullAll": {"a": [1]}}, {}),
    ({"a": 1}, {"$pullAll": {"a": [1]}}, 2),
    ({"a": [1]}, {"$pullAll": {"a": 1}}, 2),
    ({"a": [1, 2, 1.0]}, {"$pull": {"a": 1}}, {"a": [2]}),
    ({"a": [1, 2]}, {"$pull": {"a": 7}}, {"a": [1, 2]}),
    ({"a": [[1], 1]}, {"$pull": {"a": [1]}}, {"a": [1]}),
    ({"a": ["x", None]}, {"$pull": {"a": None}}, {"a": ["x"]}),
    ({}, {"$pull": {"a": 1}}, {}),
    ({}, {"$pull": {"a.b": 1}}, {}),
    ({"a": 1}, {"$pull": {"a": 1}}, 2),
    ({"a": 1}, {"$pull": {"a.b": 1}}, 28),
]

RENAME: list[Row] = [
    ({"a": 1, "b": 2}, {"$rename": {"a": "c"}}, {"b": 2, "c": 1}),
    ({"a": 1, "b": 2}, {"$rename": {"a": "b"}}, {"b": 1}),
    ({"b": 2, "a": 2}, {"$rename": {"a": "b"}}, {"b": 2}),
    ({"a": {"x": 1}}, {"$rename": {"a.x": "b.y"}}, {"a": {}, "b": {"y": 1}}),
    ({"a": {"x": 1}}, {"$rename": {"a.x": "x"}}, {"a": {}, "x": 1}),
    ({"a": 1}, {"$rename": {"b": "c"}}, {"a": 1}),
    ({"a": 1}, {"$rename": {"b.c.d": "c"}}, {"a": 1}),
    ({"a": [1], "b": 1}, {"$rename": {"a": "b"}}, {"b": [1]}),
    ({"b": [1]}, {"$rename": {"b.9": "c"}}, {"b": [1]}),
    ({"b": [1], "x": 0}, {"$rename": {"y": "b.0"}}, {"b": [1], "x": 0}),
    ({"_id": 1, "a": 1}, {"$rename": {"a": "_id"}}, {"_id": 1}),
    ({"_id": 1, "a": 2}, {"$rename": {"a": "_id"}}, 66),
    ({"_id": 1}, {"$rename": {"_id": "a"}}, 66),
    ({"a": [{"x": 1}]}, {"$rename": {"a.0.x": "b"}}, 2),
    ({"a": [1]}, {"$rename": {"a.0": "b"}}, 2),
    ({"a": 1, "b": [1]}, {"$rename": {"a": "b.0"}}, 2),
    ({"a": 1, "b": [1]}, {"$rename": {"a": "b.x"}}, 2),
    ({"a": 1}, {"$rename": {"a.b": "c"}}, 28),
    ({"a": 1, "b": 2}, {"$rename": {"a": "b.c"}}, 28),
    ({"a": 1}, {"$rename": {"a": "a"}}, 2),
    ({"a": 1}, {"$rename": {"a": "a.b"}}, 2),
    ({"a": {"b": 1}}, {"$rename": {"a.b": "a"}}, 2),
    ({"a": 1}, {"$rename": {"a": 5}}, 2),
    ({"a": 1}, {"$rename": {"a": "b\0c"}}, 2),
    ({"a": [1]}, {"$rename": {"a.$": "b"}}, 2),
    ({"a": [1]}, {"$rename": {"b": "a.$[]"}}, 2),
    ({"a": 1}, {"$rename": {"a": ""}}, 56),
    ({"a": 1}, {"$rename": {"a": "$b"}}, 52),
]

ALL_ELEMENTS: list[Row] = [
    ({"a": [1, 2]}, {"$inc": {"a.$[]": 1}}, {"a": [2, 3]}),
    ({"a": []}, {"$inc": {"a.$[]": 1}}, {"a": []}),
    ({"a": [{"b": 1}, {}]}, {"$set": {"a.$[].b": 2}}, {"a": [{"b": 2}, {"b": 2}]}),
    ({"a": [[1], [2, 3]]}, {"$mul": {"a.$[].$[]": 2}}, {"a": [[2], [4, 6]]}),
    ({"a": [1, 2]}, {"$unset": {"a.$[]": 1}}, {"a": [None, None]}),
    ({"a": [None]}, {"$unset": {"a.$[]": 1}}, {"a": [None]}),
    ({"a": [{"b": 1, "c": 1}]}, {"$inc": {"a.$[].b": 1, "a.$[].c": 2}}, {"a": [{"b": 2, "c": 3}]}),
    ({"a": [1, 2]}, {"$set": {"a.$[]": 1}}, {"a": [1, 1]}),
    ({"a": [1, 1]}, {"$set": {"a.$[]": 1}}, {"a": [1, 1]}),
    ({}, {"$set": {"a.$[]": 1}}, 2),
    ({"a": 1}, {"$set": {"a.$[]": 1}}, 2),
    ({"a": 1}, {"$set": {"a.b.$[]": 1}}, 2),
    ({"a": {"b": 1}}, {"$set": {"a.$[]": 1}}, 2),
    ({}, {"$setOnInsert": {"a.$[]": 1}}, 2),
    ({"a": [1]}, {"$set": {"a.$[].b": 1}}, 28),
    ({"a": [1]}, {"$set": {"$[].b": 1}}, 2),
    ({"a": [1]}, {"$set": {"a.$[x]": 1}}, 2),
    ({"a": [1]}, {"$set": {"a.$[]": 1, "a.0": 2}}, 40),
    ({"a": [1]}, {"$set": {"a.$[]": 1, "a.$": 2}}, 40),
    ({"a": [1]}, {"$set": {"a.$[]": 1}, "$inc": {"a.$[]": 1}}, 40),
]

REPLACEMENT: list[Row] = [
    ({"_id": 1, "a": 1}, {"b": 2}, {"_id": 1, "b": 2}),
    ({"_id": 1, "a": 1}, {}, {"_id": 1}),
    ({"_id": 1, "a": 1}, {"_id": 1, "b": 2}, {"_id": 1, "b": 2}),
    ({"_id": 1, "a": 1}, {"b": 2, "_id": 1}, {"_id": 1, "b": 2}),
    ({"_id": 1, "a": 1}, {"a": 1}, {"_id": 1, "a": 1}),
    ({"_id": 1, "a": 1}, {"a.b": 1}, {"_id": 1, "a.b": 1}),
    ({"_id": 1, "a": 1}, {"a": {"$x": 1}}, {"_id": 1, "a": {"$x": 1}}),
    ({"_id": 1}, {"a": Timestamp(0, 0)}, {"_id": 1, "a": Timestamp(NOW // 1000, 1)}),
    ({"_id": 1}, {"a": {"b": Timestamp(0, 0)}}, {"_id": 1, "a": {"b": Timestamp(0, 0)}}),
    ({"_id": 1}, {"_id": 2}, 66),
    ({"_id": 1}, {"a": 1, "$set": {"b": 1}}, 52),
]

TABLE = [*SET, *SHAPES, *NOT_INSERTING, *UNSET, *NUMBERS, *DATES, *PUSH, *SETS, *RENAME, *ALL_ELEMENTS, *REPLACEMENT]


def outcome(before: Any, update: Any, position: int | None = None, inserting: bool = False, filters: Any = ()) -> Any:
    """The document after the update or the code of the refusal; the document before it must stay what it is."""
    before = decode(encode(before))
    bytes_before = encode(before)
    try:
        after = compile_update(update, ENV, filters).apply(before, position, inserting)
    except MqlError as refusal:
        assert encode(before) == bytes_before
        return refusal.code
    assert encode(before) == bytes_before
    assert (after is before) == (encode(after) == bytes_before)
    return encode(after)


def expected(after: Any) -> Any:
    return after if isinstance(after, int) else encode(after)


def short(value: Any) -> str:
    return repr(value)[:60]


@pytest.mark.parametrize(("before", "update", "after"), TABLE, ids=short)
def test_an_update_gives_this_document_or_this_refusal(before: Any, update: Any, after: Any) -> None:
    got = outcome(before, update)
    if after is not None:
        assert got == expected(after)
    else:
        assert isinstance(got, bytes)


@pytest.mark.parametrize(("before", "update", "after"), INSERTING, ids=short)
def test_the_update_of_an_insert_gives_this_document_or_this_refusal(before: Any, update: Any, after: Any) -> None:
    assert outcome(before, update, inserting=True) == expected(after)


@pytest.mark.parametrize(
    ("before", "update", "position", "after"),
    [
        ({"a": [1, 2]}, {"$set": {"a.$": 9}}, 1, {"a": [1, 9]}),
        ({"a": [{"b": 1}, {"b": 2}]}, {"$inc": {"a.$.b": 1}}, 0, {"a": [{"b": 2}, {"b": 2}]}),
        ({"a": [{"b": 1, "c": 1}]}, {"$inc": {"a.$.b": 1, "a.0.c": 1}}, 0, {"a": [{"b": 2, "c": 2}]}),
        ({"a": [{"b": 1}, {"b": 1}]}, {"$inc": {"a.$.b": 1, "a.0.b": 1}}, 1, {"a": [{"b": 2}, {"b": 2}]}),
        ({"a": [{"b": [1, 2]}]}, {"$inc": {"a.$.b.$[]": 1}}, 0, {"a": [{"b": [2, 3]}]}),
        ({"a": [1, 2]}, {"$unset": {"a.$": 1}}, 0, {"a": [None, 2]}),
        ({"a": [{"b": 1}]}, {"$inc": {"a.$.b": 1, "a.0.b": 1}}, 0, 40),
        ({"a": [1]}, {"$set": {"a.$": 1}}, None, 2),
        ({"a": [[1]]}, {"$set": {"a.$.$": 1}}, 0, 2),
        ({"a": [1]}, {"$set": {"$": 1}}, 0, 2),
        ({"a": [1]}, {"$set": {"$.a": 1}}, 0, 2),
    ],
    ids=short,
)
def test_a_dollar_stands_for_the_matched_position(before: Any, update: Any, position: int | None, after: Any) -> None:
    assert outcome(before, update, position) == expected(after)


@pytest.mark.parametrize(
    ("before", "update", "text"),
    [
        (
            {},
            {"$x": {}},
            "Unknown modifier: $x. Expected a valid update modifier or pipeline-style update specified as an array",
        ),
        (
            {},
            {"$set": 1},
            (
                "Modifiers operate on fields but we found type int "
                "instead. For example: {$mod: {<field>: ...}} not {$set: 1}"
            ),
        ),
        ({}, {"$set": {"a": 1}, "$inc": {"a": 1}}, "Updating the path 'a' would create a conflict at 'a'"),
        ({}, {"$set": {"a": 1, "a.b": 1}}, "Updating the path 'a.b' would create a conflict at 'a'"),
        ({"a": 5}, {"$set": {"a.b": 1}}, "Cannot create field 'b' in element {a: 5}"),
        ({"a": {"b": 5}}, {"$set": {"a.b.c.d": 1}}, "Cannot create field 'c' in element {b: 5}"),
        ({"a": [1]}, {"$set": {"a.b": 1}}, "Cannot create field 'b' in element {a: [ 1 ]}"),
        ({"a": 5}, {"$pop": {"a.b.c": 1}}, "Cannot use the part (b) of (a.b.c) to traverse the element ({a: 5})"),
        (
            {"_id": 1},
            {"$set": {"_id": 2}},
            "Performing an update on the path '_id' would modify the immutable field '_id'",
        ),
        (
            {"_id": {"x": 1}},
            {"$set": {"_id.x": 2}},
            "Performing an update on the path '_id.x' would modify the immutable field '_id'",
        ),
        (
            {"_id": 1},
            {"_id": 2},
            "After applying the update, the (immutable) field '_id' was found to have been altered to _id: 2",
        ),
        (
            {"_id": 1, "a": "x"},
            {"$inc": {"a": 1}},
            "Cannot apply $inc to a value of non-numeric type. {_id: 1} has the field 'a' of non-numeric type string",
        ),
        ({}, {"$inc": {"a": "x"}}, 'Cannot increment with non-numeric argument: {a: "x"}'),
        (
            {"_id": 1, "a": Int64(BIG)},
            {"$inc": {"a": 1}},
            f"Failed to apply $inc operations to current value ((NumberLong){BIG}) for document {{_id: 1}}",
        ),
        (
            {"_id": 1, "a": 5},
            {"$push": {"a": 1}},
            "The field 'a' must be an array but is of type int in document {_id: 1}",
        ),
        ({}, {"$set": {"a.$[x]": 1}}, "No array filter found for identifier 'x' in path 'a.$[x]'"),
        ({}, {"$set": {"a.$[]": 1}}, "The path 'a' must exist in the document in order to apply array updates."),
        ({"a": 1}, {"$set": {"a.$[]": 1}}, "Cannot apply array updates to non-array element a: 1"),
        ({}, {"$set": {"a.": 1}}, "The update path 'a.' contains an empty field name, which is not allowed."),
        ({}, {"$set": {"a.$": 1}}, "The positional operator did not find the match needed from the query."),
        (
            {"_id": 1, "a": [1]},
            {"$rename": {"a.0": "b"}},
            "The source field cannot be an array element, 'a.0' in doc with _id: 1 has an array field called 'a'",
        ),
    ],
    ids=short,
)
def test_a_refusal_has_the_servers_words(before: Any, update: Any, text: str) -> None:
    with pytest.raises(MqlError) as refusal:
        compile_update(update, ENV).apply(before, None, False)
    assert str(refusal.value) == text


def test_unchanged_parts_are_shared() -> None:
    before = {"_id": 1, "a": {"big": [1, 2]}, "b": {"c": 1}}
    after = compile_update({"$set": {"b.c": 2}}, ENV).apply(before, None, False)
    assert after["a"] is before["a"]


def test_only_a_document_is_a_replacement() -> None:
    assert compile_update({"a": 1}, ENV).is_replacement
    assert compile_update({}, ENV).is_replacement
    assert not compile_update({"$set": {"a": 1}}, ENV).is_replacement
    assert not compile_update([], ENV).is_replacement


def test_a_path_pads_an_array_with_a_million_and_a_half_nulls_and_no_more() -> None:
    after = compile_update({"$set": {"a.1500000": 1}}, ENV).apply({"a": []}, None, False)
    assert len(after["a"]) == 1_500_001 and after["a"][-1] == 1
