"""`docs/admin-api.md` has each operation of the admin API, its parameters and defaults, and the members of its answers."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple
from unittest.mock import MagicMock
from urllib.parse import urlencode

import msgspec
import pytest
import ydb
from azure.cosmos import ContainerProxy
from starlette.routing import Route

from mayflydb.admin import webhooks
from mayflydb.admin.answers import LoginLink, Problem
from mayflydb.admin.archive_places import ArchiveSites, S3Site
from mayflydb.admin.events import Follow
from mayflydb.admin.openapi import OTHERS, answers_of, describe
from mayflydb.admin.operations import Admin
from mayflydb.admin.problems import STATUS
from mayflydb.admin.routes import admin_routes
from mayflydb.clock import SystemClock, wall_us
from mayflydb.embedded import RunningServer
from mayflydb.expiry.ttl_advice import LEAST_SAMPLES
from mayflydb.http.messages import Request
from mayflydb.model.instant import DAY
from mayflydb.serving import http_gateway
from mayflydb.serving.login_pages import LoginPages
from mayflydb.serving.logins import Logins
from served import START, Http

PAGE = Path(__file__).parents[2] / "docs" / "admin-api.md"
HEADING = re.compile(r"^### `(\w+) (/[\w/.{}-]+)`$", re.MULTILINE)
PARAMETER = re.compile(r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
NAME = re.compile(r"`(\w+)`")
CONTAINER, MONGO, TABLE, NUMBERS = "cosmos:shop/sessions", "mongo:app.otps", "ydb:/local/carts", "ydb:/local/numbers"

CASCADE = {"target": "ydb:/local/carts", "cascade": [{"to": "ydb:/local/numbers", "path": "id"}]}

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
    "POST /_mayfly/apply": (
        {
            "databases": [
                {"id": "shop", "containers": [{"id": "new", "partition_key": "/k", "items": [{"id": "1", "k": 1}]}]}
            ]
        },
        {"databases": [{"id": "shop", "throughput": 900}]},
    ),
    "POST /_mayfly/data/import": ({"target": CONTAINER, "records": [{"id": "1"}, {}]},),
    "GET /_mayfly/data/export": (f"target={CONTAINER}",),
    "GET /_mayfly/snapshots": ("",),
    "PUT /_mayfly/snapshots/{name}": ("",),
    "POST /_mayfly/snapshots/{name}/restore": ({},),
    "DELETE /_mayfly/snapshots/{name}": ("",),
    "GET /_mayfly/stats": ("",),
    "POST /_mayfly/purge": ({},),
    "POST /_mayfly/reset": ({"target": "cosmos:shop"},),
    "GET /_mayfly/ttl": ("",),
    "GET /_mayfly/ttl/forecast": ("buckets=1",),
    "GET /_mayfly/ttl/advise": (f"target={CONTAINER}",),
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
    "GET /_mayfly/events/expired": ("",),
    "POST /_mayfly/ttl/pause": ({},),
    "POST /_mayfly/ttl/resume": ({"dry_run": True},),
    "GET /_mayfly/lifecycle": ("",),
    "POST /_mayfly/lifecycle": (
        CASCADE,
        {"target": CONTAINER, "guard": {"records": 1, "percent": 0}, "grace": "1h", "touch": "1m"},
    ),
    "POST /_mayfly/undelete": ({"target": CONTAINER},),
    "GET /_mayfly/undelete": (f"target={CONTAINER}",),
    "GET /_mayfly/guard": ("",),
    "POST /_mayfly/guard/confirm": ({"target": CONTAINER},),
    "GET /_mayfly/erasure": ("",),
    "GET /_mayfly/erasure/lines": ("after=0",),
    "GET /_mayfly/erasure/key": (f"target={CONTAINER}&id=s60&pk=u1",),
    "GET /_mayfly/holds": ("",),
    "POST /_mayfly/holds": ({"target": CONTAINER, "name": "tuesday", "why": "a case", "by": "Ada"},),
    "GET /_mayfly/hold-record": ("",),
    "GET /_mayfly/holds/{name}": ("",),
    "GET /_mayfly/holds/{name}/records": ("",),
    "POST /_mayfly/hold-release": ({"name": "monday", "why": "over", "by": "Ada"},),
    "GET /_mayfly/hold-release": ("name=monday",),
    "GET /_mayfly/webhooks": ("",),
    "POST /_mayfly/webhooks": ({"name": "other", "url": "http://localhost:9000/expired"},),
    "POST /_mayfly/webhooks/{name}/test": ({},),
    "POST /_mayfly/webhooks/{name}/retry": ({},),
    "DELETE /_mayfly/webhooks/{name}": ("",),
    "GET /_mayfly/archives": ("",),
    "POST /_mayfly/archives": ({"name": "other", "url": "s3://records/expired"},),
    "POST /_mayfly/archives/flush": ({},),
    "POST /_mayfly/archives/{name}/test": ({},),
    "DELETE /_mayfly/archives/{name}": ("",),
    "GET /_mayfly/live": ("",),
    "GET /_mayfly/ready": ("",),
    "GET /_mayfly/info": ("",),
}
JUMPED = ("GET /_mayfly/clock", "POST /_mayfly/clock/accept", "POST /_mayfly/clock/reject")
"""Before these the host's clock jumps."""

HELD: tuple[tuple[str, dict[str, Any]], ...] = (
    ("lifecycle", {"target": CONTAINER, "guard": {"records": 1, "percent": 0}}),
    ("data/import", {"target": CONTAINER, "records": [{"id": str(n), "userId": "u1"} for n in range(2)]}),
    ("clock/advance", {"seconds": 60, "sweep": "none"}),
    ("ttl/set", {"target": CONTAINER, "default_ttl": 1}),
    ("purge", {}),
)
"""After these the guard holds a purge."""

MANY: Final = [{"id": str(n), "userId": "u1"} for n in range(LEAST_SAMPLES)]
USED: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("ttl/set", {"target": CONTAINER, "default_ttl": None}),
    ("data/import", {"target": CONTAINER, "records": MANY}),
    ("data/import", {"target": CONTAINER, "records": MANY, "mode": "upsert"}),
    ("clock/advance", {"seconds": 86400}),
)
"""After these there is a proposal, and a container that only grows."""

PREPARATIONS: dict[str, tuple[tuple[str, dict[str, Any]], ...]] = {
    "POST /_mayfly/clock/reset": (("reset", {"keep_clock": True}),),
    **dict.fromkeys(JUMPED, (("reset", {"keep_clock": True}), ("clock/reset", {}))),
    "GET /_mayfly/events/expired": (("clock/advance", {"seconds": 60}),),
    # The answer has a member about what is paused.
    "POST /_mayfly/purge": (*HELD, ("ttl/pause", {"target": CONTAINER})),
    "GET /_mayfly/guard": HELD,
    "GET /_mayfly/lifecycle": (("lifecycle", CASCADE),),
    "POST /_mayfly/guard/confirm": HELD,
    "GET /_mayfly/ttl/advise": USED,
    "POST /_mayfly/ttl/resume": (("ttl/pause", {"target": CONTAINER}),),
}

FREE_NAMES = ("by_target", "fitting", "resources")
"""Members whose own members are names of targets or columns."""


class Section(NamedTuple):
    text: str
    parameters: dict[str, str]
    meanings: dict[str, str]
    answer: set[str]


def sections() -> dict[str, Section]:
    page = PAGE.read_text(encoding="utf-8")
    heads = [*HEADING.finditer(page)]
    ends = [head.start() for head in heads[1:]] + [len(page)]
    found = {}
    for head, end in zip(heads, ends, strict=True):
        text = page[head.end() : end].partition("\n## ")[0]
        rows = PARAMETER.findall(text)
        found[f"{head[1]} {head[2]}"] = Section(
            " ".join(text.split()),
            {name: default for name, default, _ in rows},
            {name: meaning for name, _, meaning in rows},
            set(NAME.findall(text.partition("Answer: ")[2])),
        )
    return found


SECTIONS = sections()


def admin() -> Admin:
    # Made without its parts: of the operations only the table is looked at.
    made = Admin.__new__(Admin)
    made.applier = made.exports = made.imports = made.clock = made.maintenance = made.reports = made.pausing = (
        made.lifecycles
    ) = made.undeleting = made.webhooks = made.archives = made.erasure = made.snapshots = made.holds = MagicMock()
    return made


OPERATIONS = {f"{operation.method} /_mayfly/{operation.path}": operation for operation in admin().operations()}
PARAMETERS = {name: operation.parameters for name, operation in OPERATIONS.items()} | {
    f"{other.method} {other.path}": other.parameters for other in OTHERS if other.parameters is not None
}
LINKS = "POST /_mayfly/login-links"
ANSWERS = {name: answers_of(operation) for name, operation in OPERATIONS.items()} | {
    f"{other.method} {other.path}": (other.answer,) for other in OTHERS if other.answer not in (None, dict)
}


def default_of(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    if field.default is msgspec.NODEFAULT or isinstance(field.default, msgspec.Struct):
        return "none"
    return "none" if field.default in (None, msgspec.UNSET) else f"`{json.dumps(field.default)}`"


def fits(document: Any, answer: Any) -> bool:
    try:
        msgspec.convert(document, answer)
    except msgspec.ValidationError:
        return False
    return True


def members(document: Any) -> Iterator[str]:
    if isinstance(document, dict) and document.keys() == {"now", "target", "records", "after"}:
        # Users' records have members of their own.
        document = {**document, "records": None}
    if isinstance(document, dict) and "undecided" in document:
        document = {**document, "record": None}
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
    assert SECTIONS.keys() >= paths
    # What the gateway answers itself is no route. It names the paths of which it knows anything.
    known = [
        each for value in vars(http_gateway).values() for each in (value if isinstance(value, tuple) else (value,))
    ]
    own = {each.decode() for each in known if isinstance(each, bytes) and each.startswith(b"/_mayfly/")}
    assert {path for _, path in map(str.split, SECTIONS)} == {path for _, path in map(str.split, paths)} | own


def test_a_link_for_a_browser_is_as_the_page_says() -> None:
    request = Request("POST", b"/_mayfly/login-links", {})
    request.feed(b'{"role":"read-only"}')
    request.end()
    answer = json.loads(asyncio.run(LoginPages(Logins()).answer_links(request)).body)
    assert fits(answer, LoginLink)
    assert answer.keys() == SECTIONS[LINKS].answer


@pytest.mark.parametrize(("name", "parameters"), PARAMETERS.items())
def test_the_page_has_each_parameter_with_its_default(name: str, parameters: type[msgspec.Struct]) -> None:
    fields = msgspec.structs.fields(parameters)
    assert SECTIONS[name].parameters == {field.encode_name: default_of(field) for field in fields}


def described() -> dict[str, dict[str, Any]]:
    document = describe(admin().operations())
    return {
        f"{method.upper()} {path}": operation
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    }


def test_the_description_has_each_operation_in_the_words_of_the_page() -> None:
    operations = described()
    assert operations.keys() == SECTIONS.keys()
    for name, operation in operations.items():
        assert SECTIONS[name].text.startswith(operation["summary"]), name
    assert len({operation["operationId"] for operation in operations.values()}) == len(operations)


@pytest.mark.parametrize(("name", "kind"), [each for each in PARAMETERS.items() if each[1] is not Follow])
def test_the_description_has_each_parameter_in_the_words_of_the_page(name: str, kind: type[msgspec.Struct]) -> None:
    (schema,), parts = msgspec.json.schema_components([kind])
    properties = parts[kind.__name__]["properties"]
    other = re.compile(r"As for `(/_mayfly/[\w/]+)`\.")
    for parameter, meaning in SECTIONS[name].meanings.items():
        same = other.fullmatch(meaning)
        expected = meaning if same is None else SECTIONS[f"POST {same[1]}"].meanings[parameter]
        assert properties[parameter]["description"] == expected, parameter
    assert schema


def test_each_reference_in_the_description_leads_somewhere() -> None:
    document = json.loads(msgspec.json.encode(describe(admin().operations())))

    def references(part: Any) -> Iterator[str]:
        if isinstance(part, list):
            for each in part:
                yield from references(each)
        elif isinstance(part, dict):
            if "$ref" in part:
                yield part["$ref"]
            yield from references([*part.values()])

    found = {*references(document)}
    components = document["components"]
    assert {reference.split("/")[-1] for reference in found} >= {"Problem", "ClockFacts", "ContainerTtl"}
    for reference in found:
        _, _, kind, name = reference.split("/")
        assert name in components[kind]
    assert set(components["schemas"]) == {reference.split("/")[-1] for reference in found if "/schemas/" in reference}


def test_the_examples_of_the_description_are_answered(
    world: Http, server: RunningServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    allow_archives(server, tmp_path, monkeypatch)
    document = world.get("openapi.json")
    assert document["openapi"] == "3.1.0"
    # In an order in which each one finds its records: what moves the clock and what deletes comes last.
    for name in sorted(OPERATIONS, key=lambda name: ("/clock/" in name, name.endswith(("purge", "reset")))):
        method, path = name.split()
        operation = document["paths"][path][method.lower()]
        body = operation.get("requestBody", {"content": {"application/json": {"example": {}}}})
        rows = {(row["in"], row["name"]): row.get("example") for row in operation.get("parameters", ())}
        query = urlencode(
            {row: value for (place, row), value in rows.items() if place == "query" and value is not None}
        )
        address = path.format(**{row: value for (place, row), value in rows.items() if place == "path"})
        answer = world(method, f"{address}?{query}", body["content"].get("application/json", {}).get("example", {}))
        if path.endswith(("accept", "reject", "clock/reset", "guard/confirm")):
            # The clock is virtual, and newer than what the host's clock says. The guard holds nothing.
            assert (answer.status, fits(answer.json, Problem)) == (409, True)
        else:
            assert (answer.status, name) == (200, name)
            assert any(fits(answer.json, each) for each in ANSWERS[name]), name


def test_a_refusal_fits_its_description(http: Http) -> None:
    answer = http("POST", "/_mayfly/ttl/pause", {"target": "nosuch:shop"})
    assert (answer.status, answer.headers["content-type"]) == (400, "application/problem+json")
    assert fits(answer.json, Problem)
    assert answer.json["hint"]


def test_the_page_has_each_status() -> None:
    statuses = {int(status) for status in re.findall(r"^\| (\d{3}) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)}
    assert statuses == {status for status, _ in STATUS.values()} | {405}


def test_each_operation_with_an_answer_is_called_here() -> None:
    assert CALLS.keys() | {LINKS} == {name for name, section in SECTIONS.items() if section.answer}


@pytest.fixture
def world(server: RunningServer, http: Http, sessions: ContainerProxy) -> Iterator[Http]:
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
    yield http
    # The server is emptied before the next test, which a hold would refuse.
    for each in http.get("holds")["holds"]:
        server.release_hold(each["name"], why="the test is over", by="Ada")


def allow_archives(server: RunningServer, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let archives be in a directory, and in an S3 that does not answer."""
    sites = ArchiveSites(directory, S3Site("http://127.0.0.1:9", "us-east-1", directory / "credentials"))
    for part in (server._admin.archives, server._admin.archives.writer):
        monkeypatch.setattr(part, "_sites", sites)


def prepare(name: str, world: Http, server: RunningServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Make what a call is about."""
    for before, body in PREPARATIONS.get(name, ()):
        world.post(before, **body)
    if "snapshots" in name:
        world("PUT", "/_mayfly/snapshots/monday")
    if "hold" in name:
        world.post("holds", target=CONTAINER, name="monday", why="a case", by="Ada")
        world.post("clock/advance", seconds=60)
    if name == "GET /_mayfly/hold-release":
        world.post("hold-release", name="monday", why="over", by="Ada")
    if "webhooks" in name:
        monkeypatch.setattr(webhooks, "ATTEMPTS", 1)
        world.post("webhooks", name="monday", url="http://localhost:1/refused")
    if "archives" in name:
        allow_archives(server, tmp_path, monkeypatch)
        world.post("archives", name="monday", url=f"file://{tmp_path}/monday")
    if name == "GET /_mayfly/webhooks":
        world.post("clock/advance", seconds=60)
        while not world.get("webhooks")["webhooks"][0]["dead_letters"]:
            pass


@pytest.mark.parametrize("name", CALLS)
def test_the_page_has_the_members_of_each_answer(
    name: str, world: Http, server: RunningServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    method, _, path = name.partition(" /_mayfly/")
    found: set[str] = set()
    prepare(name, world, server, monkeypatch, tmp_path)
    clock = server._admin.engine.time.clock
    if name in JUMPED and isinstance(clock, SystemClock):
        clock._wall = lambda: wall_us() + DAY
    for call in CALLS[name]:
        place = path.replace("{name}", "monday")
        if path == "guard/confirm":
            call |= {"token": world.get("guard")["held"][0]["token"]}
        if method in ("PUT", "DELETE"):
            answer = world(method, f"/_mayfly/{place}").json
        else:
            answer = world.post(place, **call) if method == "POST" else world.get(f"{place}?{call}".rstrip("?"))
        found.update(members(answer))
        assert any(fits(answer, each) for each in ANSWERS[name]), [msgspec.convert(answer, e) for e in ANSWERS[name]]
    listed = SECTIONS["GET /_mayfly/ttl"].answer if name == "POST /_mayfly/ttl/set" else set[str]()
    # A changed container is shown as it is listed, and the list has more kinds of containers than were changed here.
    # A move over memory saves no snapshot, and records of a document have no lines.
    assert SECTIONS[name].answer - {"snapshot", "place"} <= found <= SECTIONS[name].answer | listed
