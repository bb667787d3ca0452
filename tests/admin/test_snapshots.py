"""Snapshots: everything and the clock as before, over memory and over a file."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import pytest
import ydb
from azure.core import MatchConditions
from azure.cosmos import ContainerProxy, PartitionKey
from azure.cosmos.exceptions import CosmosHttpResponseError, CosmosResourceNotFoundError
from click.testing import CliRunner
from pymongo.errors import OperationFailure, PyMongoError

from mayflydb.cli.main import mayfly
from mayflydb.clock import monotonic_us
from mayflydb.embedded import RunningServer, serve
from mayflydb.model.instant import SECOND
from mayflydb.serving.stores import examine_file
from served import START, Http, port_of

YEAR = 365 * 86400


class Place(NamedTuple):
    server: RunningServer
    http: Http
    path: Path | None


@pytest.fixture(params=["memory", "file"])
def place(request: pytest.FixtureRequest, server: RunningServer, http: Http, file: Path) -> Iterator[Place]:
    if request.param == "memory":
        for row in http.get("snapshots")["snapshots"]:
            http("DELETE", f"/_mayfly/snapshots/{row['name']}")
        yield Place(server, http, None)
        return
    with serve(file, port=0, clock="virtual", clock_start=START) as over_file:
        yield Place(over_file, Http(port_of(over_file)), file)


def until(condition: Callable[[], bool]) -> None:
    """Ask for up to 20 seconds."""
    end = monotonic_us() + 20 * SECOND
    while not condition():
        assert monotonic_us() < end


def fill(server: RunningServer) -> ContainerProxy:
    database = server.cosmos.client().create_database("shop")
    container = database.create_container("sessions", partition_key=PartitionKey("/userId"), default_ttl=100)
    for id, ttl in (("s60", 60), ("s100", None), ("s-1", -1)):
        container.create_item({"id": id, "userId": "u1"} | ({} if ttl is None else {"ttl": ttl}))
    with server.mongo.client() as client:
        client.app.otps.create_index("at", expireAfterSeconds=30)
        client.app.otps.insert_many([{"_id": n, "at": datetime(2030, 1, 1, 12, tzinfo=UTC)} for n in range(3)])
    with server.ydb.driver() as driver, ydb.QuerySessionPool(driver) as pool:
        pool.execute_with_retries(
            "CREATE TABLE carts (id Uint64, until Timestamp, PRIMARY KEY (id)) WITH (TTL = Interval('PT1M') ON until)"
        )
        pool.execute_with_retries(f"UPSERT INTO carts (id, until) VALUES (1, Timestamp('{START}'))")
    return container


def look(http: Http) -> Any:
    """What is stored, when it goes, and the clock."""
    shown = {path: http.get(path) for path in ("clock", "ttl", "ttl/due?limit=1000", "events/expired")}
    del shown["clock"]["offset_seconds"]
    # Each start tests the store with a record that expires, so the last number grows.
    del shown["events/expired"]["last"]
    return shown


def test_after_a_year_everything_is_as_before(place: Place) -> None:
    server, http, _ = place
    container = fill(server)
    http.post("clock/advance", seconds=45)
    http.post("ttl/pause", target="mongo:app")
    before, items = look(http), list(container.read_all_items())
    saved = http("PUT", "/_mayfly/snapshots/monday")
    assert (saved.status, saved.json["saved_at"]) == (200, "2030-01-01T00:00:45Z")
    for _ in range(2):
        http.post("clock/advance", seconds=YEAR)
        server.cosmos.client().delete_database("shop")
        server.cosmos.client().create_database("other")
        with server.mongo.client() as client:
            client.app.drop_collection("otps")
            client.app.otps.insert_one({"_id": "later"})
        assert look(http) != before
        answer = http.post("snapshots/monday/restore")
        assert (answer["restored"], answer["now"]) == ("monday", "2030-01-01T00:00:45Z")
        assert look(http) == before
        assert list(container.read_all_items()) == items
        with server.mongo.client() as client:
            assert sorted(each["_id"] for each in client.app.otps.find()) == [0, 1, 2]
        with server.ydb.driver() as driver, ydb.QuerySessionPool(driver) as pool:
            assert len(pool.execute_with_retries("SELECT * FROM carts")[0].rows) == 1
    # And it goes on to expire from there.
    http.post("clock/advance", seconds=15)
    with pytest.raises(CosmosResourceNotFoundError):
        container.read_item("s60", "u1")
    assert container.read_item("s100", "u1")
    seqs = [row["seq"] for row in http.get("events/expired")["events"]]
    # Numbers of events that were undone do not come again.
    assert seqs == sorted(seqs)
    assert seqs[-1] > max([row["seq"] for row in before["events/expired"]["events"]], default=0) + 1


def test_what_was_read_after_the_snapshot_is_void(place: Place) -> None:
    server, http, _ = place
    container = fill(server)
    http("PUT", "/_mayfly/snapshots/monday")
    etag = container.upsert_item({"id": "s-1", "userId": "u1", "ttl": -1, "n": 1})["_etag"]
    http.post("snapshots/monday/restore")
    again = container.upsert_item({"id": "s-1", "userId": "u1", "ttl": -1, "n": 2})["_etag"]
    assert again != etag
    with pytest.raises(CosmosHttpResponseError) as refused:
        container.replace_item(
            "s-1", {"id": "s-1", "userId": "u1", "n": 3}, etag=etag, match_condition=MatchConditions.IfNotModified
        )
    assert refused.value.status_code == 412


def test_an_open_transaction_does_not_outlive_a_restore(place: Place) -> None:
    server, http, _ = place
    fill(server)
    http("PUT", "/_mayfly/snapshots/monday")
    with server.mongo.client() as client, client.start_session() as session:
        session.start_transaction()
        client.app.otps.update_one({"_id": 1}, {"$set": {"n": 1}}, session=session)
        http.post("snapshots/monday/restore")
        with pytest.raises(PyMongoError) as refused:
            session.commit_transaction()
        assert isinstance(refused.value, OperationFailure)
        found = client.app.otps.find_one({"_id": 1})
        assert found is not None
        assert "n" not in found


def test_snapshots_are_listed_replaced_and_deleted(place: Place) -> None:
    server, http, path = place
    assert http.get("snapshots")["snapshots"] == []
    http("PUT", "/_mayfly/snapshots/b")
    fill(server)
    http("PUT", "/_mayfly/snapshots/a")
    http.post("reset")
    http.post("snapshots/a/restore")
    assert http.get("stats")["records"] == 7
    http("PUT", "/_mayfly/snapshots/b")
    http.post("reset")
    http.post("snapshots/b/restore")
    assert http.get("stats")["records"] == 7
    rows = http.get("snapshots")["snapshots"]
    assert [(row["name"], row["mode"], row["frozen"], row["bytes"] > 4096) for row in rows] == [
        ("a", "virtual", True, True),
        ("b", "virtual", True, True),
    ]
    assert http("DELETE", "/_mayfly/snapshots/a").json["deleted"] == "a"
    assert [row["name"] for row in http.get("snapshots")["snapshots"]] == ["b"]
    if path is not None:
        directory = Path(f"{path}-snapshots")
        assert [each.name for each in directory.iterdir()] == ["b.snapshot"]
        assert {each.stat().st_mode & 0o777 for each in (directory, *directory.iterdir())} == {0o700, 0o600}


def test_the_file_is_whole_after_a_restore(file: Path) -> None:
    with serve(file, port=0, clock="virtual", clock_start=START) as server:
        http = Http(port_of(server))
        fill(server)
        http("PUT", "/_mayfly/snapshots/monday")
        server.clock.advance(days=1)
        http.post("snapshots/monday/restore")
        before = look(http)
    with serve(file, port=0, clock="virtual", clock_start=START) as server:
        http = Http(port_of(server))
        assert look(http) == before
        server.clock.advance(days=1)
        # Snapshots outlive the process.
        http.post("snapshots/monday/restore")
        assert look(http)["ttl"] == before["ttl"]


def test_a_real_clock_goes_on_and_a_moved_one_returns_to_the_host(file: Path) -> None:
    with serve(file, port=0) as server:
        http = Http(port_of(server))
        fill(server)
        first = http.post("clock/advance", seconds=1000)
        assert first["snapshot"] == "before-advance"
        assert "snapshot" not in http.post("clock/advance", seconds=1000)
        http("PUT", "/_mayfly/snapshots/later")
        (before, later) = http.get("snapshots")["snapshots"]
        assert (before["name"], before["mode"], later["mode"]) == ("before-advance", "real", "virtual")
        clock = http.post("snapshots/before-advance/restore")
        assert (clock["mode"], clock["offset_seconds"]) == ("real", 0)
        assert http.get("stats")["targets"]["cosmos:shop/sessions"]["records"] == 3
        refused = http("POST", "/_mayfly/snapshots/later/restore")
        assert (refused.status, http.get("stats")["targets"]["cosmos:shop/sessions"]["records"]) == (409, 3)
        assert "virtual" in refused.json["hint"]
        # A real clock goes on through a restore.
        http("PUT", "/_mayfly/snapshots/now")
        now = http.get("clock")["now"]
        assert http.post("snapshots/now/restore")["now"] >= now


def test_on_a_full_disk_a_real_clock_is_not_moved(file: Path) -> None:
    with serve(file, port=0, storage_min_free="99999999GB", storage_reserve="0") as server:
        http = Http(port_of(server))
        assert http("POST", "/_mayfly/clock/advance", {"seconds": 1}).status == 507
        assert http.get("clock")["mode"] == "real"
    with serve(file, port=0, clock="virtual", storage_min_free="99999999GB", storage_reserve="0") as server:
        walk = Http(port_of(server)).post("clock/advance", seconds=1)
        assert (walk["advanced_seconds"], "snapshot" in walk) == (1, False)
        assert (walk["mode"], walk["frozen"]) == ("virtual", True)


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "snapshots/nosuch/restore", None, 404),
        ("DELETE", "snapshots/nosuch", None, 404),
        ("PUT", "snapshots/.hidden", None, 400),
        ("PUT", "snapshots/a%2Fb", None, 404),
        ("PUT", f"snapshots/{'x' * 65}", None, 400),
        ("PUT", "snapshots/a?name=b", None, 400),
        ("PUT", "snapshots/a", {"name": "b"}, 400),
        ("POST", "snapshots/a/restore", {"name": "b"}, 400),
        ("POST", "snapshots/a", {}, 405),
    ],
)
def test_refusals(http: Http, method: str, path: str, body: Any, status: int) -> None:
    answer = http(method, f"/_mayfly/{path}", body)
    assert (answer.status, answer.headers["content-type"]) == (status, "application/problem+json")


def test_the_number_of_snapshots_is_limited(http: Http, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mayflydb.store.sqlite.snapshots.MAX_SNAPSHOTS", 1 + len(http.get("snapshots")["snapshots"]))
    assert http("PUT", "/_mayfly/snapshots/one").status == 200
    assert http("PUT", "/_mayfly/snapshots/one").status == 200
    answer = http("PUT", "/_mayfly/snapshots/two")
    assert (answer.status, "DELETE /_mayfly/snapshots" in answer.json["hint"]) == (409, True)
    monkeypatch.setattr("mayflydb.store.sqlite.snapshots.MAX_MEMORY", 1)
    assert http("PUT", "/_mayfly/snapshots/one").status == 507


def test_without_time_travel_a_restore_is_refused(file: Path) -> None:
    with serve(file, port=0, allow_time_travel=False) as server:
        http = Http(port_of(server))
        assert http("PUT", "/_mayfly/snapshots/one").status == 200
        answer = http("POST", "/_mayfly/snapshots/one/restore")
        assert (answer.status, "--allow-time-travel" in answer.json["hint"]) == (403, True)


def test_a_snapshot_that_is_damaged_or_foreign_changes_nothing(file: Path) -> None:
    with serve(file, port=0, clock="virtual", clock_start=START) as server:
        http = Http(port_of(server))
        fill(server)
        http("PUT", "/_mayfly/snapshots/one")
        place = Path(f"{file}-snapshots") / "one.snapshot"
        whole = place.read_bytes()
        place.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
        assert http("POST", "/_mayfly/snapshots/one/restore").status in (500, 503)
        place.unlink()
        foreign = apsw.Connection(str(place))
        foreign.execute("CREATE TABLE t(a)")
        foreign.close()
        assert http("POST", "/_mayfly/snapshots/one/restore").status == 500
        assert http.get("snapshots")["snapshots"] == []
        assert http.get("stats")["records"] == 7


OCTETS = {"content_type": "application/octet-stream"}


def test_a_snapshot_goes_from_one_server_to_another(place: Place, file: Path) -> None:
    server, http, path = place
    fill(server)
    http("PUT", "/_mayfly/snapshots/monday")
    sent = http("GET", "/_mayfly/snapshots/monday")
    assert (sent.status, sent.headers["content-type"]) == (200, OCTETS["content_type"])
    assert sent.headers["content-disposition"] == 'attachment; filename="monday.snapshot"'
    # From memory to a file, and from a file to memory.
    other = file.with_name("b.db") if path is None else None
    with serve(other, memory=other is None, port=0, clock="virtual", clock_start=START) as target:
        there = Http(port_of(target))
        answer = there("PUT", "/_mayfly/snapshots/tuesday", sent.body, **OCTETS)
        assert (answer.status, answer.json["name"], answer.json["bytes"]) == (200, "tuesday", len(sent.body))
        assert [row["name"] for row in there.get("snapshots")["snapshots"]] == ["tuesday"]
        there.post("snapshots/tuesday/restore")
        assert there.get("stats")["records"] == 7
        # And again, in the place of the one that is there.
        assert there("PUT", "/_mayfly/snapshots/tuesday", sent.body, **OCTETS).status == 200


def test_what_is_no_snapshot_is_refused_and_leaves_nothing(place: Place) -> None:
    server, http, path = place
    fill(server)
    http("PUT", "/_mayfly/snapshots/monday")
    whole = http("GET", "/_mayfly/snapshots/monday").body
    for body in (b"", b"x" * 100_000, whole[:-4096], whole[: len(whole) // 2]):
        answer = http("PUT", "/_mayfly/snapshots/tuesday", body, **OCTETS)
        assert (answer.status, "snapshot" in answer.json["detail"]) == (400, True), answer
    # What cannot be restored later is found now.
    broken = apsw.Connection(":memory:")
    broken.deserialize("main", whole)
    for change in ("UPDATE snapshot SET facts = x'7b7d'", "UPDATE catalog SET data = x'7b'"):
        broken.deserialize("main", whole)
        broken.execute(change)
        answer = http("PUT", "/_mayfly/snapshots/tuesday", broken.serialize("main"), **OCTETS)
        assert (answer.status, "snapshot" in answer.json["detail"]) == (400, True), answer
    assert http("PUT", "/_mayfly/snapshots/..%2Fx", whole, **OCTETS).status == 404
    assert http("PUT", "/_mayfly/snapshots/.x", whole, **OCTETS).status == 400
    assert [row["name"] for row in http.get("snapshots")["snapshots"]] == ["monday"]
    if path is not None:
        assert [each.name for each in Path(f"{path}-snapshots").iterdir()] == ["monday.snapshot"]
    assert http.get("stats")["records"] == 7


def test_a_client_that_leaves_an_upload_leaves_nothing(file: Path) -> None:
    with serve(file, port=0, clock="virtual", clock_start=START) as server:
        http = Http(port_of(server))
        with socket.create_connection(("127.0.0.1", http.port)) as client:
            head = "PUT /_mayfly/snapshots/a HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/octet-stream\r\n"
            client.sendall(f"{head}content-length: 1000000\r\n\r\n".encode() + b"x" * 500_000)
            draft = Path(f"{file}-snapshots") / ".received"
            until(lambda: draft.exists() and draft.stat().st_size >= 400_000)
            assert http("PUT", "/_mayfly/snapshots/b", b"x", **OCTETS).status == 503
            # Others do not wait for it.
            assert http("PUT", "/_mayfly/snapshots/c").status == 200
        until(lambda: not draft.exists())
        until(lambda: http("PUT", "/_mayfly/snapshots/b", b"x", **OCTETS).status == 400)
        assert [row["name"] for row in http.get("snapshots")["snapshots"]] == ["c"]


def test_downloads_at_a_time_and_uploads_without_end(http: Http, monkeypatch: pytest.MonkeyPatch) -> None:
    http("PUT", "/_mayfly/snapshots/one")
    monkeypatch.setattr("mayflydb.admin.snapshots.MAX_DOWNLOADS", 0)
    assert http("GET", "/_mayfly/snapshots/one").status == 503
    assert http("GET", "/_mayfly/snapshots/nosuch").status == 404
    monkeypatch.setattr("mayflydb.admin.snapshots.UPLOAD_SECONDS", 0)
    answer = http("PUT", "/_mayfly/snapshots/two", b"x" * 200_000, **OCTETS)
    assert (answer.status, answer.json["title"]) == (503, "Timed out")
    monkeypatch.undo()
    assert http("PUT", "/_mayfly/snapshots/two", b"x", **OCTETS).status == 400


def test_the_command_writes_a_file_and_takes_one(http: Http, server: RunningServer, tmp_path: Path) -> None:
    def run(*words: str) -> Any:
        done = CliRunner().invoke(mayfly, ["--url", f"http://127.0.0.1:{http.port}", "snapshot", *words, "-o", "json"])
        return json.loads(done.stdout) if done.exit_code == 0 else (done.exit_code, done.stderr)

    fill(server)
    run("save", "monday")
    place = tmp_path / "tuesday.snapshot"
    said = run("export", "monday", str(place))
    assert said == {"name": "monday", "to": str(place), "bytes": place.stat().st_size}
    assert place.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == [place.name]
    assert run("import", str(place))["name"] == "tuesday"
    assert run("import", str(place), "monday")[0] == 4
    assert run("import", str(place), "monday", "-y")["bytes"] == said["bytes"]
    run("restore", "tuesday", "-y")
    assert http.get("stats")["records"] == 7
    assert run("export", "monday", str(place))[0] == 1
    assert "nosuch" in run("export", "nosuch", str(tmp_path / "b"))[1]
    place.write_bytes(b"x" * 1_000_000)
    assert "no snapshot" in run("import", str(place), "broken")[1]
    assert sorted(each.name for each in tmp_path.iterdir()) == [place.name]
    for name in ("monday", "tuesday"):
        run("delete", name, "-y")


def test_a_snapshot_of_more_pages_than_the_cache_has(file: Path) -> None:
    """The copy writes pages as its cache overflows, and pages that come from the write-ahead log have no checksums yet."""
    with serve(file, port=0, ydb_port=-1, clock="virtual", clock_start=START) as server:
        http = Http(port_of(server))
        with server.mongo.client() as client:
            for start in range(0, 2400, 1200):
                client.app.docs.insert_many([{"_id": n, "text": "x" * 1000} for n in range(start, start + 1200)])
                saved = http("PUT", "/_mayfly/snapshots/large")
                assert saved.status == 200, saved.json
            client.app.docs.delete_many({})
            assert http("POST", "/_mayfly/snapshots/large/restore").status == 200
        with server.mongo.client() as client:
            assert client.app.docs.count_documents({}) == 2400
            assert client.app.docs.find_one({"_id": "none"}) is None
    assert examine_file(file, lambda *_: None).sound


def test_what_is_restored_is_not_cleared_with_what_was_dropped(file: Path) -> None:
    """The records of a dropped collection are removed in batches, of which the later ones come after the restore."""
    with (
        serve(file, port=0, ydb_port=-1, clock="virtual", clock_start=START) as server,
        server.mongo.client() as client,
    ):
        http = Http(port_of(server))
        server._admin.engine.reaper._housekeeping.batch = 5
        client.app.docs.insert_many([{"_id": n} for n in range(1000)])
        assert http("PUT", "/_mayfly/snapshots/one").status == 200
        client.app.docs.drop()
        assert http("POST", "/_mayfly/snapshots/one/restore").status == 200
        server._home.call(server._admin.engine.reaper._housekeeping.clear_dropped())
        assert sorted(found["_id"] for found in client.app.docs.find()) == [*range(1000)]
        assert all(client.app.docs.find_one({"_id": n}) for n in range(0, 1000, 50))
    assert examine_file(file, lambda *_: None).sound
