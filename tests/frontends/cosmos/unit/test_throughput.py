"""Throughput: headers, offers, limits."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mayflydb.engine.throughput import Throughput
from mayflydb.frontends.cosmos.throughput import content_of, parse_content, parse_headers
from mayflydb.model.errors import BadRequest

SCALED = {"maxThroughput": 4000, "autoUpgradePolicy": {"throughputPolicy": {"incrementPercent": 7}}}


@pytest.mark.parametrize(
    ("manual", "autopilot", "result"),
    [
        (None, None, None), ("400", None, Throughput(400)), ("1000000", None, Throughput(1_000_000)),
        (None, '{"maxThroughput":1000}', Throughput(100, 1000)), (None, json.dumps(SCALED), Throughput(400, 4000, 7)),
    ],
)  # fmt: skip
def test_headers(manual: str | None, autopilot: str | None, result: Throughput | None) -> None:
    assert parse_headers(manual, autopilot) == result


@pytest.mark.parametrize(
    ("manual", "autopilot"),
    [("399", None), ("300", None), ("450", None), ("1000100", None), ("", None), ("4e2", None), ("-400", None), ("9" * 50, None),
     ("400", '{"maxThroughput":1000}'), (None, "x"), (None, "5"), (None, "{}"), (None, '{"maxThroughput":500}'),
     (None, '{"maxThroughput":1500}'), (None, '{"maxThroughput":"1000"}'), (None, '{"maxThroughput":true}'),
     (None, '{"maxThroughput":1000,"autoUpgradePolicy":5}'), (None, "[" * 5000)],
)  # fmt: skip
def test_bad_headers(manual: str | None, autopilot: str | None) -> None:
    with pytest.raises(BadRequest):
        parse_headers(manual, autopilot)


@pytest.mark.parametrize(
    ("throughput", "ranges"),
    [(Throughput(400), 1), (Throughput(6000), 1), (Throughput(6100), 2), (Throughput(11000), 2), (Throughput(12000), 2),
     (Throughput(30000), 5), (Throughput(1200, 12000), 2)],
)  # fmt: skip
def test_ranges(throughput: Throughput, ranges: int) -> None:
    assert throughput.ranges == ranges


@pytest.mark.parametrize("throughput", [Throughput(500), Throughput(400, 4000), Throughput(400, 4000, 0)])
def test_content_reads_back(throughput: Throughput) -> None:
    assert parse_content(content_of(throughput), throughput, False, False) == throughput


@pytest.mark.parametrize(
    ("content", "previous", "migrate", "result"),
    [
        ({"offerThroughput": 500}, Throughput(400), (False, False), Throughput(500)),
        ({"offerThroughput": 400, "offerAutopilotSettings": SCALED}, Throughput(100, 1000), (False, False),
         Throughput(400, 4000, 7)),
        ({}, Throughput(1200), (True, False), Throughput(200, 2000)), ({}, Throughput(400), (True, False), Throughput(100, 1000)),
        ({}, Throughput(400, 4000), (False, True), Throughput(4000)), ({}, Throughput(400), (False, True), Throughput(400)),
        ({}, Throughput(400, 4000), (True, False), Throughput(400, 4000)),
    ],
)  # fmt: skip
def test_content(content: Any, previous: Throughput, migrate: tuple[bool, bool], result: Throughput) -> None:
    assert parse_content(content, previous, *migrate) == result


@pytest.mark.parametrize(
    ("content", "previous", "migrate"),
    [
        (None, Throughput(400), (False, False)), ({}, Throughput(400), (False, False)),
        ({"offerThroughput": 450}, Throughput(400), (False, False)), ({"offerThroughput": 500}, Throughput(400,
         4000), (False, False)),
        ({"offerAutopilotSettings": SCALED}, Throughput(400), (False, False)), ({}, Throughput(400), (True, True)),
        ({"offerThroughput": True}, Throughput(400), (False, False)),
    ],
)  # fmt: skip
def test_bad_content(content: Any, previous: Throughput, migrate: tuple[bool, bool]) -> None:
    with pytest.raises(BadRequest):
        parse_content(content, previous, *migrate)
