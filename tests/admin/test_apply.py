"""Resource documents: made as clients make them, the same when applied again, refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import ydb
from click.testing import CliRunner

from mayflydb.admin.resources import PIECE
from mayflydb.cli.main import mayfly
from mayflydb.embedded import RunningServer, serve
from served import START, Http, port_of

PAGE = Path(__file__).parents[2] / "docs" / "moving-data.md"
DOCUMENT = json.loads(PAGE.read_text(encoding="utf-8").partition("```text")[2].partition("```")[0])
CONTAINER, COLLECTION, TABLE = "cosmos:shop/sessions", "mongo:app.otps", "ydb:/local/carts"


def test_the_document_of_the_page_is_made_once(server: RunningServer, http: Http) -> None:
    first = http.post("apply", **DOCUMENT)
    assert first["resources"] == dict.fromkeys(
        ["cosmos:shop", CONTAINER, COLLECTION, f"{COLLECTION}#at_1", TABLE], "created"
    )
    assert first["records"][CONTAINER] == {"created": 1, "changed": 0, "same": 0}
    rows = {row["target"]: row for row in http.get("ttl")["targets"]}
    assert (rows[CONTAINER]["default_ttl"], rows[CONTAINER]["own_ttl"]) == (3600, 1)
    assert rows[COLLECTION]["indexes"][0]["expire_after_seconds"] == 30
    assert rows[TABLE]["indexes"][0]["expire_after_seconds"] == 3600
    assert [row["records"] for row in rows.values()] == [1, 1, 1]
    http.post("clock/advance", seconds=20)
    again = http.post("apply", **DOCUMENT)
    assert set(again["resources"].values()) == {"same"}
    assert [again["records"][target]["same"] for target in (CONTAINER, COLLECTION)] == [1, 1]
    # What is the same keeps its age.
    http.post("clock/advance", seconds=40)
    with server.mongo.client() as client:
        assert client.app.otps.count_documents({}) == 0
    assert http.get("stats")["targets"][CONTAINER]["records"] == 0


def test_what_differs_is_changed(server: RunningServer, http: Http) -> None:
    http.post("apply", **DOCUMENT)
    changed = json.loads(json.dumps(DOCUMENT))
    container = changed["databases"][0]["containers"][0]
    container["default_ttl"] = None
    container["items"][0]["n"] = 1
    collection = changed["mongo"]["databases"][0]["collections"][0]
    collection["indexes"][0]["expireAfterSeconds"] = 99
    collection["documents"][0]["n"] = 1
    answer = http.post("apply", **changed)
    assert answer["resources"] == {
        "cosmos:shop": "same",
        CONTAINER: "changed",
        COLLECTION: "same",
        f"{COLLECTION}#at_1": "changed",
        TABLE: "same",
    }
    assert [answer["records"][target]["changed"] for target in (CONTAINER, COLLECTION)] == [1, 1]
    assert set(http.post("apply", **changed)["resources"].values()) == {"same"}
    rows = {row["target"]: row for row in http.get("ttl")["targets"]}
    assert (rows[CONTAINER]["default_ttl"], rows[COLLECTION]["indexes"][0]["expire_after_seconds"]) == (None, 99)


def container(**members: Any) -> dict[str, Any]:
    return {"databases": [{"id": "shop", "containers": [{"id": "c", "partition_key": "/k", **members}]}]}


@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        ({"database": []}, 400, "database"),
        (container(items_file="x.json"), 400, "items_file"),
        (container(items=[{"k": 1}]), 400, "id"),
        (container(default_ttl=0), 400, "defaultTtl"),
        (container(partition_key="/other"), 409, "partition key"),
        (container(unique_keys=[["/n"]]), 409, "unique keys"),
        ({"mongo": {"databases": [{"name": "app", "collections": [{"name": "c", "documents": [{}]}]}]}}, 400, "_id"),
        ({"ydb": {"statements": ["SELEKT 1"]}}, 400, ""),
    ],
)
def test_refusals(http: Http, body: Any, status: int, word: str) -> None:
    http.post("apply", **container())
    answer = http("POST", "/_mayfly/apply", body)
    detail = answer.json["detail"]
    # A sentence of the front end, not the JSON in which the protocol wraps it.
    assert (answer.status, word in detail, '"Errors"' in detail) == (status, True, False), answer


def test_many_records_go_in_pieces_from_the_command_line(http: Http, tmp_path: Path) -> None:
    lines = [json.dumps({"id": str(n), "k": n % 7}) for n in range(PIECE + 5)]
    (tmp_path / "items.jsonl").write_text("\n".join(lines))
    (tmp_path / "a.toml").write_text(
        '[[databases]]\nid = "shop"\n[[databases.containers]]\nid = "c"\npartition_key = "/k"\nitems_file = "items.jsonl"\n'
    )
    (tmp_path / "b.yql").write_text("CREATE TABLE IF NOT EXISTS t (id Uint64, PRIMARY KEY (id))")
    (tmp_path / "c.yql").write_text("UPSERT INTO t (id) VALUES (1); UPSERT INTO t (id) VALUES (2)")
    for word in ("created", "same"):
        done = CliRunner().invoke(mayfly, ["--url", f"http://127.0.0.1:{http.port}", "apply", str(tmp_path)])
        assert done.exit_code == 0, done.output
        answer = json.loads(done.stdout)
        assert answer["resources"] == dict.fromkeys(["cosmos:shop", "cosmos:shop/c", "ydb:/local/t"], word)
        assert answer["records"]["cosmos:shop/c"][word] == PIECE + 5
    refused = CliRunner().invoke(mayfly, ["apply", str(tmp_path / "nosuch.json")])
    assert (refused.exit_code, "nosuch.json" in refused.stderr) == (1, True)


def test_a_seed_is_there_when_the_server_is_ready(tmp_path: Path) -> None:
    path = tmp_path / "seed.json"
    path.write_text(json.dumps(DOCUMENT))
    with serve(memory=True, port=0, clock="virtual", clock_start=START, seed=[str(path)]) as server:
        http = Http(port_of(server))
        assert (http.get("ready")["seed"], http.get("stats")["records"]) == ("ok", 3)
        with server.ydb.driver() as driver, ydb.QuerySessionPool(driver) as pool:
            assert len(pool.execute_with_retries("SELECT * FROM carts")[0].rows) == 1
    path.write_text("{")
    with pytest.raises(Exception, match=r"seed\.json"), serve(memory=True, port=0, seed=[str(path)]):
        pass


def test_what_is_left_as_it_is_is_told(http: Http) -> None:
    def declare(throughput: int, ttl: str, more: str = "") -> list[dict[str, Any]]:
        container = {"id": "c", "partition_key": "/k", "throughput": throughput}
        table = f"CREATE TABLE t (id Uint64, at Timestamp{more}, PRIMARY KEY (id)){ttl}"
        found = http.post(
            "apply",
            databases=[{"id": "shop", "throughput": throughput, "containers": [container]}],
            ydb={"statements": [table]},
        )
        return list(found["differences"])

    ttl = " WITH (TTL = Interval('PT1M') ON at)"
    assert declare(500, ttl) == []
    assert declare(500, ttl) == []
    targets = ("cosmos:shop", "cosmos:shop/c")
    assert declare(600, "", ", n Int32") == [
        *({"target": target, "setting": "throughput", "declared": 600, "there": 500} for target in targets),
        {"target": "ydb:/local/t", "setting": "columns", "declared": ["id", "at", "n"], "there": ["id", "at"]},
        {"target": "ydb:/local/t", "setting": "TTL", "declared": None, "there": {"column": "at", "seconds": 60}},
    ]
    assert declare(500, " WITH (TTL = Interval('PT2M') ON at)")[0]["declared"] == {"column": "at", "seconds": 120}
