"""`docs/admin-api.md` has each operation of the admin API, its parameters and defaults, and the members of its answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import MagicMock

import msgspec
import pytest
import ydb
from azure.cosmos import ContainerProxy
from starlette.routing import Route

from mayflydb.admin.operations import Admin, Operation
from mayflydb.admin.problems import STATUS
from mayflydb.admin.routes import admin_routes
from mayflydb.clock import SystemClock, wall_us
from mayflydb.embedded import RunningServer
from mayflydb.model.instant import DAY
from mayflydb.serving.http_gateway import LIVE, READY
from served import START, Http

PAGE = Path(__file__).parents[2] / "docs" / "admin-api.md"
HEADING = re.compile(r"^### `(\w+) (/[\w/.]+)`$", re.MULTILINE)
PARAMETER = re.compile(r"^\| `(\w+)` \| ([^|]+) \| [^|]+ \|$", re.MULTILINE)
NAME = re.compile(r"`(\w+)`")
CONTAINER, MONGO, TABLE, NUMBERS = "cosmos:shop/sessions", "mongo:app.otps", "ydb:/local/carts", "ydb:/local/numbers"

CALLS: dict[str, tuple[Any, ...]] = {
    # For each operation the queries or bodies whose answers have, together, all members.
    "GET /_mayfly/clock": ("",),
    "POST /_mayfly/clock/advance": ({"seconds": 60},),
    "POST /_mayfly/clock/set": ({"to": "2030-01-01T00:02:00Z"}, {"to": "2030-01-01T00:01:00Z", "force": True}),
    "POST /_mayfly/clock/freeze": ({},),
    "POST /_mayfly/clock/resume": ({},),
    "POST /_mayfly/clock/reset": ({},),
    "POST /_mayfly/clock/accept": ({},),
    "POST /_mayfly/clock/reject": ({},),
    "GET /_mayfly/stats": ("",),
    "POST /_mayfly/purge": ({},),
    "POST /_mayfly/reset": ({"target": "cosmos:shop"},),
    "GET /_mayfly/ttl": ("",),
    "GET /_mayfly/ttl/forecast": ("buckets=1",),
    "POST /_mayfly/ttl/preview": ({"target": TABLE, "column": "until", "expire_after_seconds": 9},),
    "POST /_mayfly/ttl/set": tuple(
        {"target": target, "expire_after_seconds": 9, **more}
        for target, more in (
            (MONGO, {"field": "at"}),
            (NUMBERS, {"column": "until", "unit": "seconds"}),
        )
    ),
    "GET /_mayfly/ttl/explain": (f"target={MONGO}&id=1", f"target={MONGO}&id=2", f"target={TABLE}&id=1"),
    "GET /_mayfly/ttl/due": ("",),
    "POST /_mayfly/ttl/pause": ({},),
    "POST /_mayfly/ttl/resume": ({"dry_run": True},),
    "GET /_mayfly/live": ("",),
    "GET /_mayfly/ready": ("",),
    "GET /_mayfly/info": ("",),
}
JUMPED = ("GET /_mayfly/clock", "POST /_mayfly/clock/accept", "POST /_mayfly/clock/reject")
"""Before these the host's clock jumps."""

PREPARATIONS: dict[str, tuple[tuple[str, dict[str, Any]], ...]] = {
    "POST /_mayfly/clock/reset": (("reset", {"keep_clock": True}),),
    **dict.fromkeys(JUMPED, (("reset", {"keep_clock": True}), ("clock/reset", {}))),
    # The answer has a member about what is paused.
    "POST /_mayfly/purge": (("clock/advance", {"seconds": 60, "sweep": "none"}), ("ttl/pause", {"target": CONTAINER})),
    "POST /_mayfly/ttl/resume": (("ttl/pause", {"target": CONTAINER}),),
}

FREE_NAMES = ("by_target", "fitting")
"""Members whose own members are names of targets or columns."""


class Section(NamedTuple):
    parameters: dict[str, str]
    answer: set[str]


def sections() -> dict[str, Section]:
    page = PAGE.read_text(encoding="utf-8")
    heads = [*HEADING.finditer(page)]
    ends = [head.start() for head in heads[1:]] + [len(page)]
    found = {}
    for head, end in zip(heads, ends, strict=True):
        text = page[head.end() : end].partition("\n## ")[0]
        found[f"{head[1]} {head[2]}"] = Section(
            dict(PARAMETER.findall(text)), set(NAME.findall(text.partition("Answer: ")[2]))
        )
    return found


SECTIONS = sections()


def admin() -> Admin:
    mock = MagicMock()
    mock.operations = lambda: Admin.operations(mock)
    return mock


OPERATIONS = {f"{operation.method} /_mayfly/{operation.path}": operation for operation in admin().operations()}


def default_of(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    return "none" if field.default in (None, msgspec.UNSET) else f"`{json.dumps(field.default)}`"


def members(document: Any) -> Iterator[str]:
    if isinstance(document, list):
        for each in document:
            yield from members(each)
    elif isinstance(document, dict):
        for name, value in document.items():
            if ":" not in name:
                yield name
            yield from members([*value.values()] if name in FREE_NAMES else value)


def test_the_page_has_each_operation_and_no_other() -> None:
    routes = [route for route in admin_routes(admin()) if isinstance(route, Route)]
    paths = {f"{method} {route.path}" for route in routes for method in (route.methods or ()) if method != "HEAD"}
    assert SECTIONS.keys() == paths | {f"GET {path.decode()}" for path in (LIVE, READY)}


@pytest.mark.parametrize(("name", "operation"), OPERATIONS.items())
def test_the_page_has_each_parameter_with_its_default(name: str, operation: Operation) -> None:
    fields = msgspec.structs.fields(operation.parameters)
    assert SECTIONS[name].parameters == {field.encode_name: default_of(field) for field in fields}


def test_the_page_has_each_status() -> None:
    statuses = {int(status) for status in re.findall(r"^\| (\d{3}) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)}
    assert statuses == {status for status, _ in STATUS.values()} | {405}


def test_each_operation_with_an_answer_is_called_here() -> None:
    assert CALLS.keys() == {name for name, section in SECTIONS.items() if section.answer}


@pytest.fixture
def world(server: RunningServer, http: Http, sessions: ContainerProxy) -> Http:
    """Records of each protocol, of which each front end has something to say."""
    with server.mongo.client() as client:
        otps = client.app.otps
        otps.create_index("at", expireAfterSeconds=30)
        otps.create_index("_ts", expireAfterSeconds=500)
        otps.insert_many(
            [{"_id": 1, "at": datetime(2030, 1, 1, tzinfo=UTC), "ttl": 50}, {"_id": 2, "at": "soon", "ttl": "x"}]
        )
    with server.ydb.driver() as driver, ydb.QuerySessionPool(driver) as pool:
        for table, type, value in (
            ("carts", "Timestamp", f"Timestamp('{START}')"),
            ("numbers", "Uint32", "1893456000u"),
        ):
            unit = " AS SECONDS" if type == "Uint32" else ""
            pool.execute_with_retries(
                f"CREATE TABLE {table} (id Uint64, until {type}, PRIMARY KEY (id))"
                f" WITH (TTL = Interval('PT1M') ON until{unit})"
            )
            pool.execute_with_retries(f"UPSERT INTO {table} (id, until) VALUES (1, {value})")
    return http


@pytest.mark.parametrize("name", CALLS)
def test_the_page_has_the_members_of_each_answer(name: str, world: Http, server: RunningServer) -> None:
    method, _, path = name.partition(" /_mayfly/")
    found: set[str] = set()
    for before, body in PREPARATIONS.get(name, ()):
        world.post(before, **body)
    clock = server._admin.engine.time.clock
    if name in JUMPED and isinstance(clock, SystemClock):
        clock._wall = lambda: wall_us() + DAY
    for call in CALLS[name]:
        answer = world.post(path, **call) if method == "POST" else world.get(f"{path}?{call}".rstrip("?"))
        found.update(members(answer))
    listed = SECTIONS["GET /_mayfly/ttl"].answer if name == "POST /_mayfly/ttl/set" else set[str]()
    # A changed container is shown as it is listed, and the list has more kinds of containers than were changed here.
    assert SECTIONS[name].answer <= found <= SECTIONS[name].answer | listed
