"""One meaning of "within the hour": dead at the instant where the hour ends, whoever is asked, on every protocol and store."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from azure.cosmos import PartitionKey
from click.testing import CliRunner

import stores
from mayflydb.cli.main import mayfly
from mayflydb.embedded import RunningServer, serve
from served import START, Http, port_of

NOW = datetime(2030, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
END = "2030-01-01T01:00:00Z"
AROUND = {"before": -1, "at": 0, "after": 1}
"""Records by their ids, and how many units of time from the end of the hour each of them dies."""


@pytest.fixture(scope="module", params=stores.STORES)
def store(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def served(
    store: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.getbasetemp() / "data"))
        place = stores.place(store, request, tmp_path_factory.mktemp("within")) | {"scheme": "http"}
        with serve(**place, port=0, clock="virtual", clock_start=START) as running:
            yield running


def cosmos_items(server: RunningServer) -> None:
    database = server.cosmos.client().create_database("shop")
    container = database.create_container("sessions", partition_key=PartitionKey("/id"), default_ttl=3600)
    for id, off in AROUND.items():
        container.create_item({"id": id} | ({"ttl": 3600 + off} if off else {}))


def documents_by_writes(server: RunningServer) -> None:
    with server.mongo.client() as client:
        client.app.otps.create_index("_ts", expireAfterSeconds=3600)
        for id, off in AROUND.items():
            client.app.otps.insert_one({"_id": id} | ({"ttl": 3600 + off} if off else {}))


def documents_by_dates(server: RunningServer) -> None:
    with server.mongo.client() as client:
        client.app.carts.create_index("until", expireAfterSeconds=3600)
        client.app.carts.insert_many(
            [{"_id": id, "until": NOW + timedelta(milliseconds=off)} for id, off in AROUND.items()]
        )


def documents_by_either(server: RunningServer) -> None:
    """Of several rules, the first to kill counts."""
    with server.mongo.client() as client:
        client.app.both.create_index("_ts", expireAfterSeconds=3600)
        client.app.both.create_index("until", expireAfterSeconds=3600)
        client.app.both.insert_many(
            [
                {"_id": "before", "ttl": 3599, "until": NOW},
                {"_id": "at", "ttl": 7200, "until": NOW},
                {"_id": "after", "ttl": 3601, "until": NOW + timedelta(seconds=2)},
            ]
        )


def rows_by_dates(server: RunningServer) -> None:
    import ydb

    driver = server.ydb.driver()
    with ydb.QuerySessionPool(driver) as pool:
        pool.execute_with_retries(
            "CREATE TABLE carts (id Utf8 NOT NULL, until Timestamp, PRIMARY KEY (id))"
            ' WITH (TTL = Interval("PT1H") ON until)'
        )
        for id, off in AROUND.items():
            at = (NOW + timedelta(microseconds=off)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            pool.execute_with_retries(f"UPSERT INTO carts (id, until) VALUES ('{id}', Timestamp('{at}'))")
    driver.stop()


class Case(NamedTuple):
    """A target with AROUND in it, and the change that leaves it as it is."""

    fill: Callable[[RunningServer], None]
    target: str
    change: dict[str, Any]


CASES = [
    Case(cosmos_items, "cosmos:shop/sessions", {"default_ttl": 3600}),
    Case(documents_by_writes, "mongo:app.otps", {"default_ttl": 3600}),
    Case(documents_by_dates, "mongo:app.carts", {"field": "until", "expire_after_seconds": 3600}),
    Case(documents_by_either, "mongo:app.both", {"default_ttl": 3600}),
    Case(rows_by_dates, "ydb:/local/carts", {"column": "until", "expire_after_seconds": 3600}),
]


def shell(server: RunningServer, *arguments: str) -> str:
    result = CliRunner().invoke(mayfly, ("--url", server.admin_url, *arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.fill.__name__)
def test_the_end_of_the_hour_is_within_it(served: RunningServer, case: Case) -> None:
    served.start_at(START)
    http, target = Http(port_of(served)), case.target
    case.fill(served)

    # The horizon ends where it was said to, whether or not the buckets divide it.
    for buckets in (1, 7, 60):
        found = http.get(f"ttl/forecast?horizon=1h&buckets={buckets}&target={target}")
        assert (found["due_now"], found["in_horizon"], found["later"]) == (0, 2, 1)
        last = found["buckets"][-1]
        assert (last["to"], last["count"], sum(each["count"] for each in found["buckets"])) == (END, 2, 2)
    # A bucket holds its end and not its beginning.
    (hour, more) = http.get(f"ttl/forecast?horizon=2h&buckets=2&target={target}")["buckets"]
    assert (hour["to"], hour["count"], more["from"], more["count"]) == (END, 2, END, 1)
    assert http.get(f"ttl/forecast?horizon=3599999999us&buckets=1&target={target}")["in_horizon"] == 1

    preview = http.post("ttl/preview", target=target, **case.change)
    assert (preview["expire_now"], preview["expire_within"]["1h"], preview["expire_within"]["1d"]) == (0, 2, 3)

    def due(**query: str) -> list[str]:
        asked = "&".join(f"{name}={value}" for name, value in query.items())
        return [row["id"] for row in http.get(f"ttl/due?target={target}&{asked}")["records"]]

    assert (due(), due(**{"from": START}, to=END), due(**{"from": END})) == ([*AROUND], ["before", "at"], ["after"])

    # Commands and pages tell the same.
    assert json.loads(shell(served, "ttl", "forecast", target))["in_horizon"] == 2
    assert ["within", "1h", END, "2"] in [
        line.split() for line in shell(served, "-o", "table", "ttl", "forecast").splitlines()
    ]
    assert http("GET", "/_explorer/index.json").json["forecast"]["in_horizon"] == 2
    assert "<dt>Expire in the next hour</dt><dd>2</dd>" in http("GET", "/", Accept="text/html").body.decode()

    # And so it comes.
    assert http.post("clock/advance", by="1h", sweep="none")["expired"] == 2
    row = http.get(f"ttl?target={target}")["targets"][0]
    assert (row["due"], http.get(f"ttl/forecast?target={target}")["due_now"]) == (2, 2)
    assert f"mayfly_ttl_backlog_items{{{labels(target)}}} 2" in http("GET", "/metrics").body.decode()
    assert due(**{"from": END}) == ["after"]


def labels(target: str) -> str:
    protocol, _, path = target.partition(":")
    database, container = {"cosmos": path.split("/"), "mongo": path.split("."), "ydb": ["/local", "carts"]}[protocol]
    return f'protocol="{protocol}",db="{database}",container="{container}"'


def test_many_at_once(served: RunningServer) -> None:
    """Preview, forecast and page count the records that die with the last instant of the hour."""
    served.start_at(START)
    http = Http(port_of(served))
    with served.mongo.client() as client:
        client.app.otps.create_index("_ts", expireAfterSeconds=3600)
        client.app.otps.insert_many([{"_id": n} for n in range(1_000)])
    target = "mongo:app.otps"
    assert http.get(f"ttl/forecast?target={target}")["in_horizon"] == 1_000
    assert http.post("ttl/preview", target=target, default_ttl=3600)["expire_within"]["1h"] == 1_000


def test_the_list_of_deaths_keeps_what_has_notice(served: RunningServer) -> None:
    """And names a record once, by the rule that kills it, also where its date lies before 1970."""
    served.start_at(START)
    http, target = Http(port_of(served)), "mongo:app.both"
    documents_by_either(served)
    with served.mongo.client() as client:
        client.app.both.insert_one({"_id": "old", "until": datetime(1960, 1, 1, tzinfo=UTC), "ttl": 60})
    rows = http.get(f"ttl/due?target={target}")["records"]
    assert [row["id"] for row in rows] == ["old", *AROUND]
    assert rows[0]["deadline"] == "1960-01-01T01:00:00Z"
    http.post("ttl/pause", target=target)
    http.post("ttl/resume", target=target, notice="1d")
    rows = http.get(f"ttl/due?target={target}&from={START}")["records"]
    assert {row["deadline"] for row in rows} == {"2030-01-02T00:00:00Z"} and len(rows) == 4
