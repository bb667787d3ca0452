"""Archives over the admin API: real clients of three protocols, a directory, S3, faults and refusals."""

from __future__ import annotations

import errno
import gzip
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.cosmos import PartitionKey

from admin.s3_server import KEY, REGION, SECRET, S3Server
from admin.test_last_image import IMAGES
from admin.three_protocols import TARGETS, Site
from mayflydb.admin import archive_writer
from mayflydb.admin.archive_places import write_file
from mayflydb.embedded import RunningServer, serve
from mayflydb.engine.lifecycle import archive_ledger
from served import START, Http, port_of


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    made = S3Server()
    yield made
    made.close()
    assert made.refusals == []


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("archives")


@pytest.fixture(scope="module")
def server(root: Path, s3: S3Server) -> Iterator[RunningServer]:
    credentials = root.with_name("credentials")
    credentials.write_text(f"[default]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n")
    settings: dict[str, Any] = {
        "archive_dir": root, "archive_s3_endpoint": s3.url, "archive_s3_region": REGION,
        "archive_s3_credentials_file": credentials,
    }  # fmt: skip
    with serve(memory=True, port=0, clock="virtual", clock_start=START, **settings) as running:
        yield running


@pytest.fixture
def place(root: Path, request: pytest.FixtureRequest) -> Path:
    """A directory that no other test uses."""
    return root / re.sub(r"\W", "_", request.node.name)


def add(http: Http, url: str | Path, **more: Any) -> None:
    http.post("archives", name="cold", url=str(url) if "://" in str(url) else f"file://{url}", **more)


def rows_of(content: dict[str, bytes]) -> list[dict[str, Any]]:
    """The lines of all files, by the names of these."""
    texts = [gzip.decompress(content[name]) if name.endswith(".gz") else content[name] for name in sorted(content)]
    return [json.loads(line) for text in texts for line in text.splitlines()]


def files_of(place: Path) -> dict[str, bytes]:
    return {str(each.relative_to(place)): each.read_bytes() for each in place.rglob("*") if each.is_file()}


def state(http: Http) -> dict[str, Any]:
    (found,) = http.get("archives")["archives"]
    return found  # type: ignore[no-any-return]


def use(http: Http, archive: str | None = "cold") -> None:
    for target in TARGETS.values():
        assert http.post("lifecycle", target=target, archive=archive)["archive"] == archive


def check_rows(rows: list[dict[str, Any]]) -> None:
    """All nine records, each once, with its content and the facts of its expiry."""
    assert sorted((row["target"], row["id"]) for row in rows) == sorted(
        (target, str(n)) for target in TARGETS.values() for n in range(3)
    )
    records = {(row["target"], row["id"]): row for row in rows}
    for name, target in TARGETS.items():
        assert records[target, "1"]["record"] == IMAGES[name]
    first = records[TARGETS["cosmos"], "0"]
    assert {key: first[key] for key in ("pk", "cause", "written", "due", "purged_at")} == {
        "pk": "0", "cause": "default", "written": START, "due": "2030-01-01T00:01:40Z", "purged_at": "2030-01-01T00:01:40Z",
    }  # fmt: skip
    assert records[TARGETS["cosmos"], "2"]["cause"] == "item"
    assert [records[TARGETS[name], "0"]["cause"] for name in ("mongo", "ydb")] == ["index", "column"]


@pytest.mark.parametrize("form", ["jsonl", "jsonl.gz"])
def test_records_of_three_protocols_are_in_files_when_they_expired(site: Site, place: Path, form: str) -> None:
    add(site.http, place, format=form)
    use(site.http)
    site.server.clock.advance(seconds=150)
    assert state(site.http)["waiting"] > 0
    site.server.clock.advance(hours=2)
    flushed = site.http.post("archives/flush")
    assert (flushed["records"], flushed["waiting"], flushed["error"]) == (9, 0, None)
    found = files_of(place)
    assert {name.rpartition("/")[0] for name in found} == {"cosmos/shop/sessions", "mongo/app.otps", "ydb/local/carts"}
    assert all(name.endswith(f".{form}") for name in found)
    check_rows(rows_of(found))
    assert site.http.post("archives/flush") | {"now": ""} == {
        "now": "", "files": 0, "records": 0, "waiting": 0, "error": None,
    }  # fmt: skip


def test_the_same_as_parquet(site: Site, place: Path) -> None:
    pytest.importorskip("pyarrow")
    from pyarrow import parquet

    add(site.http, place, format="parquet")
    use(site.http)
    site.server.clock.advance(hours=2)
    site.http.post("archives/flush")
    rows = [row for name in sorted(files_of(place)) for row in parquet.read_table(place / name).to_pylist()]
    for row in rows:
        row["record"], row["pk"] = json.loads(row["record"]), json.loads(row["pk"] or "null")
        for name in ("written", "due", "purged_at"):
            row[name] = row[name].strftime("%Y-%m-%dT%H:%M:%SZ")
    check_rows(rows)


def test_the_same_in_s3_without_a_flush(site: Site, s3: S3Server) -> None:
    add(site.http, "s3://records/by server", every="0s")
    use(site.http)
    site.server.clock.advance(hours=2)
    found = s3.wait_for_objects(3)
    assert {path.rpartition("/")[0] for path in found} == {
        "/records/by%20server/cosmos/shop/sessions",
        "/records/by%20server/mongo/app.otps",
        "/records/by%20server/ydb/local/carts",
    }
    check_rows(rows_of(found))


def test_grace_and_undelete(site: Site, place: Path) -> None:
    add(site.http, place)
    use(site.http)
    site.keep("1h")
    site.server.clock.advance(seconds=300)
    assert (site.http.post("archives/flush")["records"], site.undelete()) == (0, {"cosmos": 3, "mongo": 3, "ydb": 3})
    # They live again; what is purged in the end is archived once.
    site.server.clock.advance(hours=5)
    site.http.post("archives/flush")
    assert len(rows_of(files_of(place))) == 9


def test_what_clients_delete_and_replace_is_not_archived(site: Site, place: Path) -> None:
    add(site.http, place)
    use(site.http)
    site.sessions.delete_item("0", "0")
    site.sessions.upsert_item({"id": "1", "new": True})
    site.otps.delete_one({"_id": 0})
    site.query("DELETE FROM carts WHERE id = 0")
    site.server.clock.advance(hours=2)
    site.http.post("archives/flush")
    rows = rows_of(files_of(place))
    assert sorted((row["target"][:3], row["id"]) for row in rows) == [
        (protocol, id) for protocol in ("cos", "mon", "ydb") for id in ("1", "2")
    ]
    assert next(row for row in rows if row["target"] == TARGETS["cosmos"] and row["id"] == "1")["record"]["new"]


def test_what_waits_when_its_container_is_renamed_or_dropped(site: Site, place: Path) -> None:
    add(site.http, place)
    use(site.http)
    site.server.clock.advance(hours=2)
    site.otps.rename("renamed")
    site.query("ALTER TABLE carts ADD COLUMN more Utf8")
    site.query("DROP TABLE carts")
    site.server.cosmos.client().delete_database("shop")
    assert site.http.post("archives/flush")["records"] == 9
    rows = rows_of(files_of(place))
    names = {row["target"] for row in rows}
    assert names == {"cosmos:shop/sessions", "mongo:app.renamed", "ydb:/local/carts"}
    assert all(row["record"] for row in rows)
    assert state(site.http)["waiting"] == 0


def _disk_is_full(patch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    patch.setattr(os, "fsync", fail)


def test_a_full_disk_stops_nothing_and_loses_nothing(
    site: Site, place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    add(site.http, place)
    use(site.http)
    with monkeypatch.context() as patch:
        _disk_is_full(patch)
        site.server.clock.advance(hours=2)
        assert site.ids() == {"cosmos": [], "mongo": [], "ydb": []}
        for _ in range(2):
            assert "No space left" in site.http.post("archives/flush")["error"]
        assert (state(site.http)["waiting"], "No space left" in state(site.http)["error"]) == (9, True)
        assert files_of(place) == {}
    said = [each for each in caplog.records if "does not accept a file" in each.message]
    assert len(said) == 1
    assert site.http.post("archives/flush")["records"] == 9
    check_rows(rows_of(files_of(place)))
    assert (state(site.http)["error"], state(site.http)["waiting"]) == (None, 0)


def test_a_restored_snapshot_archives_anew_under_other_names(site: Site, place: Path) -> None:
    add(site.http, place)
    use(site.http)
    site.server.clock.advance(seconds=150)
    waiting = state(site.http)["waiting"]
    site.server.snapshot()
    site.http.post("archives/flush")
    before = files_of(place)
    site.server.restore()
    # What waited then waits again, although the numbers are those that were done.
    assert state(site.http)["waiting"] == waiting > 0
    site.server.clock.advance(hours=2)
    site.http.post("archives/flush")
    after = files_of(place)
    assert {name: after[name] for name in before} == before
    check_rows(rows_of({name: content for name, content in after.items() if name not in before}))


STEPS = ("before", "behind the file", "behind the place")


@pytest.mark.parametrize("step", STEPS)
def test_a_restart_between_two_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, own_data_directory: None
) -> None:
    """The process ends as a writer is at some step, and the next one writes no record twice."""
    file, place = tmp_path / "mayfly.db", tmp_path / "archives"
    names: list[str] = []

    def end(address: Any, sites: Any, wanted: Any, moment: str) -> None:
        names.append(wanted.name)
        if step != "before":
            write_file(address, sites, wanted, moment)
        if step != "behind the place":
            raise OSError("the process ends here")

    def start() -> Any:
        return serve(file, port=0, mongo_port=-1, ydb_port=-1, clock="virtual", archive_dir=place)

    with monkeypatch.context() as patch:
        patch.setattr(archive_writer, "write_file", end)
        with start() as server:
            http = Http(port_of(server))
            add(http, place / "cold")
            sessions = (
                server.cosmos.client()
                .create_database("shop")
                .create_container("sessions", PartitionKey("/id"), default_ttl=60)
            )
            http.post("lifecycle", target="cosmos:shop/sessions", archive="cold")
            for n in range(4):
                sessions.create_item({"id": str(n)})
            server.clock.advance(seconds=60)
            assert http.post("archives/flush")["records"] == (4 if step == "behind the place" else 0)
            # More than the file has that was begun.
            sessions.create_item({"id": "4"})
            server.clock.advance(seconds=60)
    with start() as server:
        http = Http(port_of(server))
        http.post("archives/flush")
        assert state(http)["waiting"] == 0
    found = files_of(place)
    assert sorted(row["id"] for row in rows_of(found)) == ["0", "1", "2", "3", "4"]
    assert [f"cold/{name}" in found for name in names] == [True]
    assert sorted(len(rows_of({name: content})) for name, content in found.items()) == [1, 4]


def test_beyond_the_limit_purging_waits_and_is_shown(site: Site, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_ledger, "MOST_WAITING", 2)
    add(site.http, place)
    use(site.http)
    with monkeypatch.context() as patch:
        _disk_is_full(patch)
        site.http.post("archives/cold/test")
        site.server.clock.advance(hours=2)
        found = state(site.http)
        assert (sorted(found["stopped"]), found["waiting"]) == (sorted(TARGETS.values()), 6)
        assert site.ids() == {"cosmos": [], "mongo": [2], "ydb": [2]}
        metrics = site.http("GET", "/metrics").body.decode()
        assert 'mayfly_archive_stopped_containers{archive="cold"} 3' in metrics
        assert 'mayfly_archive_waiting_records{archive="cold"} 6' in metrics
    site.http.post("archives/flush")
    # Without the limit of before: an advance has the archive make room.
    site.server.clock.advance(hours=2)
    site.http.post("archives/flush")
    check_rows(rows_of(files_of(place)))
    assert state(site.http)["stopped"] == []


def test_s3_that_does_not_accept(site: Site, s3: S3Server) -> None:
    add(site.http, "s3://records/down")
    use(site.http)
    site.server.clock.advance(hours=2)
    for status in (503, 403, 307, 204):
        s3.status = status
        error = site.http.post("archives/flush")["error"]
        assert error.startswith(str(status)), error
        assert SECRET not in error
    s3.status = 200
    assert site.http.post("archives/flush")["records"] == 9
    # Each file had the same name each time.
    names = {path for path in s3.puts if "/down/" in path}
    assert len(names) == 3


def test_management(site: Site, place: Path) -> None:
    http = site.http
    add(http, place, every="5m")
    assert http.post("archives/cold/test") | {"now": ""} == {"now": "", "name": "cold", "accepted": True, "error": ""}
    assert list(files_of(place)) == ["mayfly-test"]
    found = state(http)
    assert (found["url"], found["format"], found["every"], found["targets"]) == (f"file://{place}", "jsonl", 300, [])
    assert http("POST", "/_mayfly/archives", {"name": "cold", "url": f"file://{place}"}).status == 409
    use(http)
    assert state(http)["targets"] == sorted(TARGETS.values())
    assert http("DELETE", "/_mayfly/archives/cold").status == 409
    site.server.clock.advance(hours=2)
    use(http, None)
    answer = http("DELETE", "/_mayfly/archives/cold")
    assert (answer.status, "records wait" in str(answer.json)) == (409, True)
    assert http("DELETE", "/_mayfly/archives/cold?discard=true").status == 200
    assert http.get("archives")["archives"] == []
    assert http("DELETE", "/_mayfly/archives/cold").status == 404
    # Another one of that name gets nothing of what was let go.
    add(http, place)
    assert http.post("archives/flush")["records"] == 0
    assert len(files_of(place)) == 1


REFUSED: list[tuple[dict[str, object], int, str]] = [
    ({"url": "file:///etc/mayfly"}, 400, "not below the directory of archives"),
    ({"url": "ftp://example.com/x"}, 400, "no address of an archive"),
    ({"url": "s3://Bucket"}, 400, "no address of an archive"),
    ({"name": "a b"}, 400, "name"),
    ({"name": "off"}, 400, "off"),
    ({"format": "csv"}, 400, "csv"),
    ({"every": "soon"}, 400, "soon"),
]


@pytest.mark.parametrize(("more", "status", "words"), REFUSED)
def test_refusals(http: Http, root: Path, more: dict[str, object], status: int, words: str) -> None:
    answer = http("POST", "/_mayfly/archives", {"name": "cold", "url": f"file://{root}/x", **more})
    assert (answer.status, words in str(answer.json)) == (status, True), answer


def test_parquet_without_its_package(http: Http, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "pyarrow" else find(name, *a))
    answer = http("POST", "/_mayfly/archives", {"name": "cold", "url": f"file://{root}/x", "format": "parquet"})
    assert (answer.status, 'pip install "mayflydb[parquet]"' in str(answer.json)) == (400, True), answer


@pytest.mark.usefixtures("sessions")
def test_an_unknown_archive(http: Http) -> None:
    answer = http("POST", "/_mayfly/lifecycle", {"target": "cosmos:shop/sessions", "archive": "cold"})
    assert (answer.status, "there is no archive cold" in str(answer.json)) == (404, True)
    assert http("POST", "/_mayfly/archives/flush", {"name": "cold"}).status == 404
    assert http("POST", "/_mayfly/archives/cold/test", {}).status == 404


def test_a_directory_that_became_a_link_is_refused(site: Site, place: Path, tmp_path: Path) -> None:
    add(site.http, place)
    use(site.http)
    place.symlink_to(tmp_path)
    site.server.clock.advance(hours=2)
    assert "not below" in site.http.post("archives/flush")["error"]
    assert list(tmp_path.iterdir()) == []
