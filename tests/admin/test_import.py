"""Records of files go into containers of all three protocols, as clients' requests write them."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from click.testing import CliRunner, Result

from mayflydb.admin import export_records
from mayflydb.admin.cosmos_items import SYSTEM
from mayflydb.admin.record_files import MAX_LINE, CsvLines, LineCutter, read_cell
from mayflydb.admin.requests import ExportPage
from mayflydb.admin.resource_files import read
from mayflydb.cli.main import mayfly
from mayflydb.embedded import RunningServer
from mayflydb.model.errors import BadRequest
from served import Http

CONTAINER, COLLECTION, TABLE = "cosmos:shop/c", "mongo:app.c", "ydb:/local/t"
PLACES = {
    "databases": [{"id": "shop", "containers": [{"id": "c", "partition_key": "/k", "default_ttl": 60}]}],
    "mongo": {"databases": [{"name": "app", "collections": [{"name": "c"}]}]},
    "ydb": {"statements": ["CREATE TABLE t (id Uint64, until Timestamp, name Utf8, PRIMARY KEY (id))"]},
}
RECORDS: dict[str, list[dict[str, Any]]] = {
    CONTAINER: [{"id": str(n), "k": n % 3, "_ts": 5, "_etag": "x"} for n in range(7)],
    COLLECTION: [{"_id": n, "at": {"$date": "2030-01-01T00:00:00Z"}} for n in range(7)],
    TABLE: [{"id": n, "until": "2030-01-01T00:00:00Z", "name": None} for n in range(7)],
}

ODD: dict[str, dict[str, Any]] = {
    CONTAINER: {"id": "odd", "text": "12", "empty": "", "more": {"a": [1, None]}, "nothing": None},
    COLLECTION: {"_id": "odd", "text": "12", "empty": "", "more": {"a": [1, None]}, "nothing": None},
    TABLE: {"id": None, "name": "a,b"},
}
"""A record with a text that looks like a number, with nested values, and with NULL as its key."""


@pytest.fixture
def places(http: Http) -> Http:
    http.post("apply", **PLACES)
    return http


def run(http: Http, *words: str) -> Result:
    return CliRunner().invoke(mayfly, ["--url", f"http://127.0.0.1:{http.port}", "data", "import", *words])


def count(http: Http, target: str) -> int:
    found = http.get("stats")["targets"][target]["records"]
    assert isinstance(found, int)
    return found


@pytest.mark.parametrize("target", RECORDS)
def test_json_lines_and_arrays(places: Http, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mayflydb.cli.import_records.PIECE_RECORDS", 3)
    lines, array = tmp_path / "a.jsonl", tmp_path / "a.json"
    lines.write_text("\n".join(map(json.dumps, RECORDS[target])) + "\n\n")
    array.write_text(json.dumps(RECORDS[target]))
    tried = run(places, str(lines), "--target", target, "--dry-run")
    assert (json.loads(tried.stdout)["read"], count(places, target)) == (7, 0)
    done = json.loads(run(places, str(lines), "--target", target).stdout)
    assert (done["created"], done["failed"], count(places, target)) == (7, 0, 7)
    again = run(places, str(array), "--target", target)
    assert (again.exit_code, "record 1" in again.stderr) == (1, True), again.output
    upserted = json.loads(run(places, str(array), "--target", target, "--mode", "upsert").stdout)
    assert (upserted["replaced"], upserted["failed"], count(places, target)) == (7, 0, 7)
    more = [
        *RECORDS[target],
        {**RECORDS[target][0], ("_id" if target == COLLECTION else "id"): "8" if target == CONTAINER else 8},
    ]
    array.write_text(json.dumps(more))
    rest = run(places, str(array), "--target", target, "--continue-on-error")
    answer = json.loads(rest.stdout)
    assert (rest.exit_code, answer["created"], answer["failed"], count(places, target)) == (1, 1, 7, 8)
    assert answer["failures"][-1]["record"] == "record 7"


def test_csv(places: Http, server: RunningServer, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('id,k,name\n"1a",1,"a, b"\n2b,true,\n')
    done = json.loads(run(places, str(path), "--target", CONTAINER).stdout)
    assert done["created"] == 2
    container = server.cosmos.client().get_database_client("shop").get_container_client("c")
    items = sorted(container.read_all_items(), key=lambda item: str(item["id"]))
    kept = [{name: item[name] for name in ("id", "k", "name") if name in item} for item in items]
    assert kept == [{"id": "1a", "k": 1, "name": "a, b"}, {"id": "2b", "k": True}]
    # A life begins with the import.
    places.post("clock/advance", seconds=60)
    assert count(places, CONTAINER) == 0


@pytest.mark.parametrize("target", RECORDS)
@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_what_is_exported_can_be_imported(
    places: Http, target: str, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"out.{suffix}"
    http = ["--url", f"http://127.0.0.1:{places.port}", "data"]
    places.post("data/import", target=target, records=[*RECORDS[target], {**RECORDS[target][0], **ODD[target]}])
    first, seen, after = places.get(f"data/export?target={target}&limit=3"), [], None
    while True:
        more = "" if after is None else "&" + urlencode({"after": after})
        page = places.get(f"data/export?target={target}&limit=3{more}")
        seen += page["records"]
        after = page["after"]
        if after is None:
            break
    assert (len(first["records"]), len(seen)) == (3, 8)
    done = CliRunner().invoke(mayfly, [*http, "export", str(path), "--target", target])
    assert json.loads(done.stdout)["records"] == 8, done.output
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    places.post("reset")
    places.post("apply", **PLACES)
    assert json.loads(run(places, str(path), "--target", target).stdout)["created"] == 8
    again = places.get(f"data/export?target={target}")["records"]
    assert sorted(map(own, again), key=str) == sorted(map(own, seen), key=str)
    refused = CliRunner().invoke(mayfly, [*http, "export", str(path), "--target", target])
    assert (refused.exit_code, "exists" in refused.stderr) == (1, True)


@pytest.mark.parametrize("target", RECORDS)
def test_an_export_as_of_a_later_instant(places: Http, target: str, tmp_path: Path) -> None:
    own_ttl: dict[str, dict[str, Any]] = {
        CONTAINER: {"ttl": 3600},
        COLLECTION: {"at": {"$date": "2099-01-01T00:00:00Z"}},
        TABLE: {"until": None},
    }
    records = [record | (own_ttl[target] if n > 4 else {}) for n, record in enumerate(RECORDS[target])]
    places.post("data/import", target=target, records=records)
    if target == COLLECTION:
        places.post("ttl/set", target=target, field="at", expire_after_seconds=60)
    if target == TABLE:
        places.post("ttl/set", target=target, column="until", expire_after_seconds=60)
    now = datetime.fromisoformat(places.get("clock")["now"]).timestamp()
    at = max(now, datetime.fromisoformat("2030-01-01T00:00:00Z").timestamp()) + 60
    expected = {moment: {5, 6} if moment >= at else set(range(7)) for moment in (now, at - 1, at)}
    for moment, left in expected.items():
        page = places.get(f"data/export?target={target}&as_of={moment:.0f}&limit=2")
        found = page["records"]
        while page["after"] is not None:
            after = urlencode({"after": page["after"]})
            page = places.get(f"data/export?target={target}&as_of={moment:.0f}&limit=2&{after}")
            found += page["records"]
        assert {int(each["_id" if target == COLLECTION else "id"]) for each in found} == left, moment
    path = tmp_path / "left.jsonl"
    http = ["--url", f"http://127.0.0.1:{places.port}", "data"]
    done = CliRunner().invoke(mayfly, [*http, "export", str(path), "--target", target, "--as-of", f"{at:.0f}"])
    assert json.loads(done.stdout)["records"] == 2, done.output
    for words in ("as_of=x", f"as_of={now - 1:.0f}"):
        assert places("GET", f"/_mayfly/data/export?target={target}&{words}").status == 400
    alone = CliRunner().invoke(mayfly, ["data", "export", str(tmp_path / "store"), "--as-of", f"{at:.0f}"])
    assert (alone.exit_code, "--target" in alone.stderr) == (2, True)


def own(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record without what a service adds, and what CSV cannot tell from a missing property."""
    return {name: value for name, value in record.items() if name not in SYSTEM}


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "after=x", "page=2"])
@pytest.mark.parametrize("target", RECORDS)
def test_pages_that_there_are_not(places: Http, target: str, query: str) -> None:
    assert places("GET", f"/_mayfly/data/export?target={target}&{query}").status == 400


@pytest.mark.parametrize(
    ("name", "text", "words", "code", "said"),
    [
        ("a.jsonl", "{}\n[1]\n", [], 1, "line 2: this is no object"),
        ("a.jsonl", "{", [], 1, "line 1"),
        ("a.csv", "a,a\n1,2\n", [], 1, "names each property once"),
        ("a.csv", "a\n1,2\n", [], 1, "line 2"),
        ("a.txt", "", [], 1, ".jsonl"),
        ("a.jsonl", "{}", ["--paused"], 2, "--paused"),
    ],
)
def test_refusals(places: Http, tmp_path: Path, name: str, text: str, words: list[str], code: int, said: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    refused = run(places, str(path), "--target", CONTAINER, *words)
    assert (refused.exit_code, said in refused.stderr) == (code, True), refused.output
    assert run(places, str(path), "--target", "cosmos:shop/nosuch").exit_code == 1
    assert run(places, str(path), "--mode", "insert").exit_code == 2


@pytest.mark.parametrize(
    ("default", "own", "age", "ttl"),
    [
        (60, None, 0, 60),
        (60, None, 59, 1),
        # The deadline itself is the end of a life.
        (60, None, 60, "expired"),
        (60, 10, 9, 1),
        (60, 10, 10, "expired"),
        (60, 100, 90, 10),
        (60, -1, 1_000_000, -1),
        (-1, None, 1_000_000, None),
        (-1, 100, 99, 1),
        # TTL is off: an item's own ttl says nothing, and stays.
        (None, 100, 1_000_000, 100),
        # A clock that goes before this one.
        (60, None, -5, 65),
    ],
)
def test_an_item_goes_on_with_the_life_that_it_has_left(
    http: Http, tmp_path: Path, default: int | None, own: int | None, age: int, ttl: int | str | None
) -> None:
    container = {"id": "c", "partition_key": "/k"} | ({} if default is None else {"default_ttl": default})
    http.post("apply", databases=[{"id": "shop", "containers": [container]}])
    path = tmp_path / "a.jsonl"
    now = int(datetime.fromisoformat(http.get("clock")["now"]).timestamp())
    item = {"id": "a", "k": 1, "_ts": now - age} | ({} if own is None else {"ttl": own})
    path.write_text(json.dumps(item))
    answer = json.loads(run(http, str(path), "--target", CONTAINER, "--keep-life").stdout)
    assert (answer["created"], answer["expired"]) == ((0, 1) if ttl == "expired" else (1, 0))
    kept = [each.get("ttl") for each in http.get(f"data/export?target={CONTAINER}")["records"]]
    assert kept == ([] if ttl == "expired" else [ttl])


@pytest.mark.parametrize(
    ("target", "record", "said"),
    [
        (CONTAINER, {"id": "a", "k": 1}, "_ts"),
        (CONTAINER, {"id": "a", "k": 1, "_ts": "5"}, "_ts"),
        (COLLECTION, {"_id": 1, "_ts": 5}, "dates"),
        (TABLE, {"id": 1}, "TTL column"),
    ],
)
def test_a_record_that_tells_no_age_is_a_failure(places: Http, target: str, record: dict[str, Any], said: str) -> None:
    answer = places.post("data/import", target=target, records=[record], keep_life=True)
    assert (answer["failed"], said in answer["failures"][0]["detail"]) == (1, True)


def test_yaml_describes_the_same(tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    (tmp_path / "a.yaml").write_text(
        "databases:\n- id: shop\n  containers:\n  - {id: c, partition_key: /k, default_ttl: 60}\n"
        "mongo: {databases: [{name: app, collections: [{name: c}]}]}\nydb:\n  statements:\n"
        "  - CREATE TABLE t (id Uint64, until Timestamp, name Utf8, PRIMARY KEY (id))\n"
    )
    (tmp_path / "a.json").write_text(json.dumps(PLACES))
    assert read(tmp_path / "a.yaml") == read(tmp_path / "a.json")


FILES: list[tuple[str, str, str]] = [
    (CONTAINER, "application/x-ndjson", '{"id": "1", "k": 1}\n\n{"id": "2", "k": 1}\n[1]\n{"id": "3", "k": 2}'),
    (
        COLLECTION,
        "application/x-ndjson; charset=utf-8",
        '{"_id": 1}\n\n{"_id": {"$oid": "0123456789abcdef01234567"}}\n{\n{"_id": 3}',
    ),
    (TABLE, "text/csv", 'id,name\n1,"a\nb"\n2,b,c\n3,d'),
]


@pytest.mark.parametrize(("target", "kind", "text"), FILES)
@pytest.mark.parametrize("goes_on", [False, True])
def test_a_file_is_imported_as_it_comes(places: Http, target: str, kind: str, text: str, goes_on: bool) -> None:
    """A line that is no record is a failure by its place. Without `continue_on_error` the rest is not read."""
    query = urlencode({"target": target, "continue_on_error": str(goes_on).lower()})
    written = 2 if target != TABLE else 1
    answer = places("POST", f"/_mayfly/data/import?{query}", text.encode(), content_type=kind)
    assert answer.status == 200, answer
    assert (answer.json["created"], answer.json["failed"]) == (written + goes_on, 1)
    assert [(row["number"], row["place"]) for row in answer.json["failures"]] == [(written, "line 4")]
    assert count(places, target) == written + goes_on
    again = places("POST", f"/_mayfly/data/import?{query}&mode=upsert", text.encode(), content_type=kind)
    assert (again.json["created"], again.json["replaced"]) == (0, written + goes_on)
    assert places("POST", f"/_mayfly/data/import?{query}&more=1", b"", content_type=kind).status == 400
    assert places("POST", "/_mayfly/data/import?target=cosmos:shop/none", b"", content_type=kind).status == 404


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"records": [{"id": "1", "k": 1, "text": "x" * 500_000}]}, 200),
        ({"records": [{"id": "1", "k": 1, "text": "x" * 524_288}]}, 413),
        ({"records": [{"id": str(n), "k": [{}] * 12} for n in range(1000)]}, 413),
    ],
)
def test_records_in_one_document_are_limited(places: Http, body: Any, status: int) -> None:
    answer = places("POST", "/_mayfly/data/import", {"target": CONTAINER, **body})
    assert (answer.status, "x-ndjson" in str(answer.json.get("hint"))) == (status, status == 413), answer.body[:200]


def test_lines_are_cut_wherever_parts_end(chance: random.Random) -> None:
    text = "".join(chance.choice('ab"\r\n,é') for _ in range(400)).encode()
    cutter, start = LineCutter(), 0
    found: list[bytes] = []
    while start < len(text):
        end = start + chance.randrange(1, 9)
        found += cutter.cut(text[start:end])
        start = end
    last = cutter.end()
    assert b"".join([*found, last]) == text and all(line.endswith(b"\n") for line in found)
    assert [line.count(b"\n") for line in found] == [1] * text.count(b"\n") and b"\n" not in last
    with pytest.raises(BadRequest, match="4 MiB"):
        list(cutter.cut(b"x" * (MAX_LINE + 1)))


def test_csv_is_read_as_the_library_reads_it(chance: random.Random) -> None:
    """Line by line, with cells of several lines, and quotes where they mean nothing."""
    letters = ['"', ",", "\n", "\r\n", "a", "é", "5", " "]
    for _ in range(200):
        rows = [["".join(chance.choices(letters, k=chance.randrange(4))) or "x" for _ in range(3)] for _ in range(3)]
        out = io.StringIO()
        csv.writer(out, quoting=chance.choice((csv.QUOTE_MINIMAL, csv.QUOTE_ALL))).writerows([["p", "q", "r"], *rows])
        reader = CsvLines()
        read = [reader.read(line) for line in out.getvalue().encode().splitlines(keepends=True)]
        reader.end()
        assert [record.value for record in read if record] == [
            {name: read_cell(cell) for name, cell in zip("pqr", row, strict=True)} for row in rows
        ]
    plain = CsvLines()
    assert [plain.read(line) for line in (b"a,b\n", b'x"y,2\n')][1].value == {"a": 'x"y', "b": 2}  # type: ignore[union-attr]
    plain.read(b'"open\n')
    with pytest.raises(BadRequest, match="within quotes"):
        plain.end()


@pytest.mark.parametrize("target", RECORDS)
def test_all_records_come_as_lines(places: Http, target: str) -> None:
    """As many as there are, whatever the size of a page."""
    places.post("data/import", target=target, records=[*RECORDS[target], {**RECORDS[target][0], **ODD[target]}])
    lines = {"accept": "application/x-ndjson"}
    answer = places("GET", f"/_mayfly/data/export?target={target}&limit=3", **lines)
    assert (answer.status, answer.headers["content-type"]) == (200, "application/x-ndjson")
    whole = places.get(f"data/export?target={target}")["records"]
    assert [json.loads(line) for line in answer.body.splitlines()] == whole and len(whole) == 8
    first = places.get(f"data/export?target={target}&limit=3")
    rest = places("GET", f"/_mayfly/data/export?{urlencode({'target': target, 'after': first['after']})}", **lines)
    assert [json.loads(line) for line in rest.body.splitlines()] == whole[3:]
    for query, status in (("limit=0", 400), ("page=1", 400)):
        assert places("GET", f"/_mayfly/data/export?target={target}&{query}", **lines).status == status
    assert places("GET", "/_mayfly/data/export?target=cosmos:shop/none", **lines).status == 404
    places.post("reset")
    places.post("apply", **PLACES)
    empty = places("GET", f"/_mayfly/data/export?target={target}", **lines)
    assert (empty.status, empty.body) == (200, b"")


def test_an_export_that_ends_early_keeps_no_cursor(
    places: Http, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    places.post("data/import", target=COLLECTION, records=RECORDS[COLLECTION])
    exports, pages = server._admin.exports, []
    read_page = exports.page

    async def note(wanted: ExportPage) -> dict[str, Any]:
        pages.append(await read_page(wanted))
        return pages[-1]

    async def read_some() -> bytes:
        lines = await exports.open_lines(ExportPage(COLLECTION, limit=2))
        first = await anext(lines)
        await lines.aclose()
        return first

    monkeypatch.setattr(exports, "page", note)
    assert len(server._home.call(read_some()).splitlines()) == 2
    gone = places("GET", f"/_mayfly/data/export?target={COLLECTION}&after={pages[0]['after']}")
    assert gone.status != 200 and "cursor" in gone.json["detail"], gone


def test_large_documents_are_read_by_few(server: RunningServer, http: Http, monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents of other sizes follow each other, and a page ends by its bytes."""
    asked: list[int] = []
    convert = export_records._convert_documents

    async def count_documents(documents: Sequence[bytes]) -> list[Any]:
        asked.append(len(documents))
        return await convert(documents)

    monkeypatch.setattr(export_records, "_convert_documents", count_documents)
    monkeypatch.setattr(export_records, "PAGE_BYTES", 300_000)
    with server.mongo.client() as client:
        client.app.files.insert_many([{"_id": n, "text": "x" * (50_000 if n < 10 else 10)} for n in range(200)])
    pages: list[list[int]] = []
    after = ""
    while not pages or after:
        page = http.get(f"data/export?target=mongo:app.files&limit=150{after}")
        pages.append([each["_id"] for each in page["records"]])
        after = f"&after={page['after']}" if page["after"] else ""
    assert [number for page in pages for number in page] == list(range(200))
    assert max(map(len, pages)) <= 150 and len(pages[0]) < 10 and len(pages) == 3
    assert asked[0] == 4 and asked[1] <= 2 and max(asked) <= 100


def test_a_page_that_fails_keeps_no_cursor(server: RunningServer, http: Http, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(documents: Sequence[bytes]) -> list[Any]:
        raise BadRequest("a document that cannot be converted")

    with server.mongo.client() as client:
        client.app.files.insert_many([{"_id": n} for n in range(200)])
    exports, closed = server._admin.exports, []
    close = exports._close

    async def note(name: str, after: str) -> None:
        closed.append(after)
        await close(name, after)

    monkeypatch.setattr(exports, "_close", note)
    with monkeypatch.context() as patched:
        patched.setattr(export_records, "_convert_documents", fail)
        assert http("GET", "/_mayfly/data/export?target=mongo:app.files").status == 400
    gone = http("GET", f"/_mayfly/data/export?target=mongo:app.files&after={closed[0]}")
    assert gone.status != 200 and "cursor" in gone.json["detail"], gone
