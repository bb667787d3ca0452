"""Tables and their rows in the admin API: listed, previewed, explained, forecast, paused, changed, counted, forgotten."""

from __future__ import annotations

import json
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest

from ydb_world import HOUR, MINUTE, YdbWorld

TARGET = "ydb:/local/shop/carts"
TABLE = (
    "CREATE TABLE `shop/carts` (id Uint64, at Timestamp, n Uint64, s Utf8, PRIMARY KEY (id), INDEX by_s GLOBAL ON (s))"
    ' WITH (TTL = Interval("PT1H") ON at)'
)
ROWS = (
    "UPSERT INTO `shop/carts` (id, at, n) VALUES (1, Timestamp('2029-12-31T23:00:00Z'), 1893456000),"
    " (2, Timestamp('2029-12-31T23:30:00Z'), 4102444800), (3, Timestamp('2030-01-01T12:00:00Z'), NULL), (4, NULL, 5)"
)


@pytest.fixture
def carts(world: YdbWorld) -> YdbWorld:
    world.do(TABLE, ROWS)
    return world


def got(world: YdbWorld, path: str, **query: Any) -> Any:
    with urlopen(f"{world.server.admin_url}/{path}?{urlencode(query)}") as answer:
        return json.loads(answer.read())


def posted(world: YdbWorld, path: str, **body: Any) -> Any:
    request = Request(f"{world.server.admin_url}/{path}", method="POST", data=json.dumps(body).encode())
    request.add_header("Content-Type", "application/json")
    with urlopen(request) as answer:
        return json.loads(answer.read())


def refused(world: YdbWorld, path: str, **body: Any) -> tuple[int, str]:
    with pytest.raises(HTTPError) as caught:
        posted(world, path, **body)
    with caught.value as answer:
        return caught.value.code, json.loads(answer.read())["detail"]


def row(world: YdbWorld) -> dict[str, Any]:
    (found,) = got(world, "ttl", target=TARGET)["targets"]
    return dict(found)


def test_what_is_listed(carts: YdbWorld) -> None:
    shown = row(carts)
    assert shown["indexes"] == [{"name": "at", "field": "at", "expire_after_seconds": 3600, "counts_from": "a date"}]
    assert (shown["records"], shown["hidden"], shown["due"], shown["paused"]) == (4, 0, 1, None)
    assert (shown["next_expiry"], shown["next_run"]) == ("2030-01-01T00:30:00Z", "2030-01-01T00:01:00Z")
    assert (shown["last_run"], shown["processed"], shown["erased"]) == (None, 0, 0)
    carts.advance(MINUTE)
    shown = row(carts)
    assert (shown["last_run"], shown["processed"], shown["erased"]) == ("2030-01-01T00:01:00Z", 4, 1)
    assert (shown["next_run"], shown["due"]) == ("2030-01-01T01:01:00Z", 0)
    assert "next_pass" not in shown


PREVIEWS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"expire_after_seconds": 0}, {"index": "at", "current": 3600, "expire_now": 2, "never": 1}),
    ({"expire_after_seconds": 1801}, {"index": "at", "expire_now": 1, "expire_within": {"1h": 2, "1d": 3, "7d": 3}}),
    ({"expire_after_seconds": None}, {"index": "at", "current": 3600, "proposed": None, "expire_now": 0, "never": 4}),
    ({"expire_after_seconds": 0, "column": "n"}, {"index": "n", "current": None, "expire_now": 2, "never": 1}),
    (
        {"expire_after_seconds": 0, "column": "n", "unit": "milliseconds"},
        {"index": "n", "current": None, "expire_now": 3, "never": 1},
    ),
]


def test_previews(carts: YdbWorld) -> None:
    for wanted, expected in PREVIEWS:
        found = posted(carts, "ttl/preview", target=TARGET, **wanted)
        assert {name: found[name] for name in expected} == expected, wanted
        assert found["records"] == 4
    assert carts.described("shop/carts").ttl_settings.date_type_column.expire_after_seconds == 3600


def test_settings_are_changed(carts: YdbWorld) -> None:
    posted(
        carts,
        "ttl/set",
        target=TARGET,
        column="n",
        unit="milliseconds",
        expire_after_seconds=7,
        run_interval_seconds=900,
    )
    ttl = carts.described("shop/carts").ttl_settings.value_since_unix_epoch
    assert (ttl.column_name, ttl.column_unit, ttl.expire_after_seconds) == ("n", 2, 7)
    assert carts.advance(MINUTE) == {"shop/carts": 3}
    assert row(carts)["next_run"] == "2030-01-01T00:16:00Z"
    posted(carts, "ttl/set", target=TARGET, expire_after_seconds=None)
    assert carts.described("shop/carts").ttl_settings is None


REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({"target": TARGET, "column": "s", "expire_after_seconds": 1}, 400, "s is Utf8?: no row dies by it"),
    ({"target": TARGET, "column": "x", "expire_after_seconds": 1}, 404, "there is no column x"),
    (
        {"target": TARGET, "unit": "seconds", "expire_after_seconds": 1},
        400,
        "at is Timestamp?: it does not count in SECONDS",
    ),
    ({"target": TARGET, "default_ttl": 5}, 400, "a table takes expire_after_seconds, and column"),
    ({"target": TARGET, "expire_after_seconds": -1}, 400, "-1 is no expire_after_seconds"),
    (
        {"target": TARGET, "expire_after_seconds": 1, "run_interval_seconds": 899},
        400,
        "TTL run interval cannot be less than limit: 900",
    ),
    (
        {"target": TARGET, "expire_after_seconds": 2**32 - 1},
        400,
        "TTL should be less than 1893456000 seconds (21915 days, 60 years). The ttl behaviour is undefined before 1970.",
    ),
    (
        {"target": "cosmos:a/b", "column": "x", "expire_after_seconds": 1},
        400,
        "column, unit and run_interval_seconds are of YDB's tables",
    ),
]


def test_what_cannot_be_set(carts: YdbWorld) -> None:
    for body, status, text in REFUSED:
        assert refused(carts, "ttl/set", **body) == (status, text)
    assert carts.described("shop/carts").ttl_settings.date_type_column.expire_after_seconds == 3600


def test_one_row_explained(carts: YdbWorld) -> None:
    def explained(id: int) -> tuple[Any, ...]:
        found = got(carts, "ttl/explain", target=TARGET, id=str(id))
        return found["state"], found["deadline"], found["reason"], found["text"]

    assert explained(2) == ("alive", "2030-01-01T00:30:00Z", "column", "at + PT1H")
    assert explained(1)[:2] == ("due", "2030-01-01T00:00:00Z")
    assert explained(4) == ("alive", None, "no-anchor", "at is NULL")
    posted(carts, "ttl/pause", target=TARGET)
    assert explained(2)[3].endswith("; purging is paused")


def test_what_lies_ahead(carts: YdbWorld) -> None:
    found = got(carts, "ttl/forecast", target=TARGET, horizon="1d", buckets=24)
    counts = [bucket["count"] for bucket in found["buckets"]]
    assert (found["due_now"], found["in_horizon"], found["never"]) == (1, 2, 1)
    assert (counts[0], counts[12], sum(counts)) == (1, 1, 2)
    due = got(carts, "ttl/due", target=TARGET)["records"]
    assert [each["id"] for each in due] == ["1", "2", "3"]


def test_a_pause_holds_until_it_is_over(carts: YdbWorld) -> None:
    (told,) = posted(carts, "ttl/pause")["targets"]
    assert (told["target"], told["paused"], told["due"]) == (TARGET, "purge", 1)
    assert carts.advance(2 * HOUR) == {}
    assert carts.ids("shop/carts") == [1, 2, 3, 4]
    (ahead,) = posted(carts, "ttl/resume", dry_run=True)["targets"]
    assert ahead["purge_now"] == 2
    posted(carts, "ttl/resume")
    assert carts.advance(HOUR) == {"shop/carts": 2}


def test_what_a_walk_of_the_clock_tells(carts: YdbWorld) -> None:
    found = posted(carts, "clock/advance", seconds=HOUR)
    assert (found["expired"], found["purged"]) == (1, 1)
    assert found["by_target"][TARGET] == {"expired": 1, "purged": 1}
    found = posted(carts, "clock/advance", seconds=HOUR, sweep="now")
    assert (found["expired"], found["purged"]) == (0, 1)
    found = posted(carts, "clock/advance", to="next-expiry")
    assert (found["now"], found["expired"], found["purged"]) == ("2030-01-01T13:00:00Z", 1, 0)
    (event, *_) = carts.server.events.expired
    assert (event.target, event.id, event.pk, event.reason) == (TARGET, "1", None, "column")


def test_tables_are_forgotten(carts: YdbWorld) -> None:
    carts.do("CREATE TABLE other (id Uint64, PRIMARY KEY (id))")
    told = posted(carts, "reset", target=TARGET)
    assert (told["containers"], told["records"]) == (1, 4)
    assert refused(carts, "purge", target=TARGET)[0] == 404
    carts.do(TABLE)
    assert (row(carts)["next_run"], carts.ids("shop/carts")) == ("2030-01-01T00:01:00Z", [])
    carts.advance(HOUR)
    posted(carts, "reset")
    assert got(carts, "ttl")["targets"] == []
    status, texts = carts.refused(carts.pool.execute_with_retries, "SELECT * FROM other")
    assert (status, "Cannot find table" in texts) == ("SCHEME_ERROR", True)
    assert carts.micros() == 0
    carts.do(TABLE, ROWS)
    assert carts.advance(MINUTE) == {"shop/carts": 1}


METRICS = {
    'mayfly_items{protocol="ydb",db="/local",container="shop/carts"}': (4, 3),
    'mayfly_ttl_backlog_items{protocol="ydb",db="/local",container="shop/carts"}': (1, 0),
    'mayfly_ttl_purged_total{protocol="ydb",db="/local",container="shop/carts"}': (0, 1),
    'mayfly_ttl_next_run_timestamp_seconds{protocol="ydb",db="/local",container="shop/carts"}': (
        1893456060,
        1893459660,
    ),
    'mayfly_ttl_last_run_erased{protocol="ydb",db="/local",container="shop/carts"}': (None, 1),
    'mayfly_ttl_last_run_processed{protocol="ydb",db="/local",container="shop/carts"}': (None, 4),
    "SchemeShard_TTLEnabledTables": (1, 1),
    'SchemeShard_NumShardsByTtlLag{range="0"}': (0, 1),
    'SchemeShard_NumShardsByTtlLag{range="900"}': (0, 0),
    'SchemeShard_NumShardsByTtlLag{range="inf"}': (1, 0),
    "erase_rows_Processed": (0, 4),
    "erase_rows_Erased": (0, 1),
}


def metrics(world: YdbWorld) -> dict[str, float]:
    with urlopen(world.server.announcement.metrics or "") as answer:
        lines = answer.read().decode().splitlines()
    return {
        name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if not line.startswith("#"))
    }


def test_metrics(carts: YdbWorld) -> None:
    before, erased = metrics(carts), metrics(carts).get("erase_rows_Erased", 0)
    processed = before["erase_rows_Processed"]
    carts.advance(MINUTE)
    after = metrics(carts)
    for found in (before, after):
        found["erase_rows_Erased"] -= erased
        found["erase_rows_Processed"] -= processed
    assert {name: (before.get(name), after.get(name)) for name in METRICS} == METRICS
