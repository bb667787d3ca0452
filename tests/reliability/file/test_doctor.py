"""`mayfly doctor` finds each damage that matters; a repair brings over everything that can be read, and names the rest."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from azure.cosmos import PartitionKey
from click.testing import CliRunner, Result

from mayflydb.cli.main import mayfly
from mayflydb.embedded import serve
from mayflydb.model.due import date_key
from mayflydb.model.errors import Conflict, MayflyError, Unavailable
from mayflydb.model.record import Record
from mayflydb.serving.stores import examine_file, repair_file
from mayflydb.store.findings import Report
from mayflydb.store.interface import NamedNumber
from mayflydb.store.rows import EXPIRY_COLUMNS, state_columns
from mayflydb.store.sqlite.page_checksums import VFS, load_checksums
from mayflydb.store.sqlite.schema import row_id
from mayflydb.store.sqlite.store import SqliteStore
from reliability.file.damaged import RECORDS, answers, copies, fill, pages_of, spoil
from reliability.file.test_log_origin import killed
from reliability.kill9.process import PROGRAM, Server
from reliability.kill9.wire import Connection

A_PAGE = 20
"""Records of one page."""

TREES = [
    "record",
    "directory",
    "record_lsn",
    "record_anchor",
    "record_deadline",
    "entry",
    "entry_record",
]


def silent(step: str, done: int, total: int) -> None:
    """No progress is reported."""


def examine(path: Path) -> Report:
    return examine_file(path, silent)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    path = tmp_path_factory.mktemp("doctor") / "store.db"
    return path, asyncio.run(fill(path))


def test_a_sound_file(original: tuple[Path, int]) -> None:
    path, _ = original
    there, content = sorted(path.parent.iterdir()), path.read_bytes()
    report = examine(path)
    assert report.sound and not report.findings and report.page_checksums
    assert (report.records, report.entries, report.events, report.versions) == (RECORDS, RECORDS, 0, 0)
    assert report.file_bytes == len(content) and not report.log_bytes
    assert path.read_bytes() == content and sorted(path.parent.iterdir()) == there


def test_every_flipped_bit_is_found_and_mended(original: tuple[Path, int], seed: int) -> None:
    path, container = original
    outcomes, turn = Counter[str](), 0
    for name, copy in copies(path, random.Random(seed), [*TREES, *reversed(TREES)], 64):
        report = examine(copy)
        assert not report.sound, name
        # If the walk over the trees ends at the flipped bit, the owner of the page is unknown.
        is_cut_off = any("broke off" in finding.text for finding in report.findings)
        owner = "the file" if is_cut_off else name
        assert any(
            finding.kind == "page" and (name in finding.text or owner in finding.text) for finding in report.findings
        ), (name, report)
        turn += 1
        if turn % 2:
            continue
        mended = copy.with_name("copy.db.mended")
        repaired = repair_file(copy, mended, silent)
        assert examine(mended).sound, (name, repaired, examine(mended))
        left_out = sum(finding.count for finding in repaired.left_out if finding.kind == "record")
        said = asyncio.run(answers(mended, container))
        assert said == Counter(right=RECORDS - left_out, missing=left_out), (name, said, repaired)
        # One record, but for a bit in the head of a page, which may cost the page.
        assert left_out <= A_PAGE and (name == "record" or not left_out), (name, repaired)
        outcomes["left out" if left_out else "whole"] += 1
    assert outcomes.total() == 32 and outcomes["whole"] > 23


@pytest.mark.parametrize("kind", ["bytes", "zeros", "garbage", "exchanged", "cut off"])
def test_larger_damage(original: tuple[Path, int], tmp_path: Path, kind: str, chance: random.Random) -> None:
    path, container = original
    for number in range(9):
        copy, mended = tmp_path / f"{number}.db", tmp_path / f"{number}.mended"
        shutil.copy(path, copy)
        spoil(copy, kind, chance)
        if copy.read_bytes() == path.read_bytes():
            continue
        unseen = examine(copy).sound
        # A page of zeros is one that was never written, and so may be an empty page in another's place.
        assert not unseen or kind in ("zeros", "exchanged"), number
        repaired = repair_file(copy, mended, silent)
        assert examine(mended).sound, (number, repaired, examine(mended))
        lost = RECORDS - repaired.records
        told = [each for each in repaired.left_out if each.kind == "record"]
        assert not lost or any("how many" in each.text for each in told) or sum(each.count for each in told) >= lost
        assert not unseen or not lost
        if kind != "exchanged":
            # A page in another's place has a checksum that matches: nothing that a server looks at tells it.
            said = asyncio.run(answers(copy, container))
            assert not said["missing"] and not said["wrong"], said


def test_without_page_checksums_what_matters_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A file from before: a flip that changes any answer of the store is found by the integrity check or by the checks of rows.
    monkeypatch.setattr("mayflydb.store.sqlite.data_file.load_checksums", lambda: False)
    path = tmp_path / "store.db"
    container = asyncio.run(fill(path))
    assert not examine(path).page_checksums and examine(path).sound
    found = Counter[str]()
    for name, copy in copies(path, random.Random(11), TREES, 72):
        try:
            sound = examine(copy).sound
        except MayflyError:
            sound = False
        harmless = asyncio.run(answers(copy, container)) == Counter(right=RECORDS)
        assert harmless or not sound, name
        found["found" if not sound else "harmless, not found"] += 1
    assert found["found"] > 30, found


@pytest.mark.parametrize("page", [*range(1, 4)])
def test_the_first_pages(original: tuple[Path, int], page: int, tmp_path: Path, chance: random.Random) -> None:
    refused = 0
    for _ in range(20):
        copy = tmp_path / "copy.db"
        content = bytearray(original[0].read_bytes())
        at = (page - 1) * 4096 + chance.randrange(4096)
        content[at] ^= 1 << chance.randrange(8)
        copy.write_bytes(content)
        try:
            assert not examine(copy).sound
        except Unavailable:
            refused += 1
    assert not refused or page == 1


@pytest.mark.parametrize("name", [b"record_lsn", b"history", b"tablerecord", b"sqlite_sequence", b"autoindex_catalog"])
def test_a_name_that_is_no_text(original: tuple[Path, int], tmp_path: Path, name: bytes) -> None:
    # The high bit of a letter in the schema, on page 1: what SQLite then tells of the file is no UTF-8 either.
    content = bytearray(original[0].read_bytes())
    copy = tmp_path / "copy.db"
    content[content.index(name) + len(name) - 2] ^= 0x80
    copy.write_bytes(content)
    report = examine(copy)
    assert not report.sound and any(finding.kind == "page" for finding in report.findings), report
    repaired = repair_file(copy, tmp_path / "mended.db", silent)
    assert examine(tmp_path / "mended.db").sound, repaired


# --- planted contradictions: each statement, and what it is called -------------------------------------------------------

EVENT = f"INSERT INTO expiry({EXPIRY_COLUMNS.removeprefix('id, ')})"
LIVING = (
    f"{EVENT} SELECT container, partition, key, lsn, lsn + 1000, 1, 60, 'item', 1, 2, 3, 'sweep' FROM record LIMIT 3"
)
NEWER = f"{EVENT} VALUES(1, x'70', x'6b', 1000, 1001, 1, 60, 'item', 1, 2, 1000000000, 'sweep')"
PLANTED = {
    "DELETE FROM entry WHERE record IN (SELECT id FROM record LIMIT 5); DELETE FROM record WHERE id IN"
    " (SELECT id FROM record ORDER BY id DESC LIMIT 5)": ("entries name a record that is not there", 5),
    "DELETE FROM directory WHERE kind = 0 AND record IN (SELECT id FROM record LIMIT 3)": (
        "records cannot be found by their lookups: the directory lacks them", 3,
    ),
    "DELETE FROM directory WHERE kind = 1 AND record IN (SELECT id FROM record LIMIT 2)": (
        "records cannot be found by their lookups: the directory lacks them", 2,
    ),
    "INSERT INTO directory SELECT container, kind, number + 1, record FROM directory LIMIT 4": (
        "places in the directory name a record that is not there, or has another number", 4,
    ),
    "DELETE FROM record WHERE id IN (SELECT id FROM record ORDER BY id DESC LIMIT 5)": (
        "places in the directory name a record that is not there, or has another number", 10,
    ),
    "INSERT INTO purged SELECT min(id), min(id) + 2 FROM record": ("records are there and noted as purged", 3),
    "UPDATE record SET identity = identity + 1 WHERE id IN (SELECT id FROM record LIMIT 2)": (
        "records have wrong numbers for their lookup", 2,
    ),
    "UPDATE record SET override = override + 1 WHERE id IN (SELECT id FROM record WHERE override > 0 LIMIT 4)": (
        "records do not match their checksums", 4,
    ),
    "INSERT INTO entry(container, number, key, record) SELECT container, 3, x'01', id FROM record LIMIT 2": (
        "unique values have several records", 1,
    ),
    LIVING: ("expiry events are of records that live", 3),
    NEWER: ("expiry events are later than the clock's mark", 1),
    "UPDATE catalog SET lsn = 1": ("counters of containers are behind their records", 1),
    "UPDATE meta SET value = 0 WHERE name = 'next_id'": ("the counter of ids is behind the largest id", 1),
    "UPDATE catalog SET data = x'7b'": ("catalogue rows cannot be decoded", 1),
    "UPDATE catalog SET parent = 77": ("catalogue rows are below a row that is not there", 1),
    "DELETE FROM catalog": ("containers have records and no catalogue row", 1),
    "INSERT INTO history(container, lsn, kind, written, partition, key, seq, previous, checksum, value)"
    " VALUES(1, 9, 'create', 1, x'70', x'6b', 1, 0, 5, x'76')": ("versions do not match their checksums", 1),
    "UPDATE setting SET value = 9000000000000000 WHERE name = 'clock_mark'": (
        "the clock's mark is more than a day ahead of this host: a virtual clock was used, or a clock was wrong", 1,
    ),
}  # fmt: skip


def change(path: Path, statements: str) -> None:
    """Run statements on a file behind its store's back."""
    load_checksums()
    connection = apsw.Connection(str(path), vfs=VFS)
    connection.execute(statements)
    connection.close()


@pytest.mark.parametrize("statement", PLANTED)
def test_contradictions(original: tuple[Path, int], tmp_path: Path, statement: str) -> None:
    text, count = PLANTED[statement]
    copy = tmp_path / "copy.db"
    shutil.copy(original[0], copy)
    change(copy, statement)
    report = examine(copy)
    found = {finding.text: finding for finding in report.findings}
    assert text in found, found
    assert found[text].count == count
    assert report.sound is (found[text].mending == "note")
    repaired = repair_file(copy, tmp_path / "mended.db", silent)
    left = {finding.text for finding in examine(tmp_path / "mended.db").findings}
    if found[text].mending in ("repair", "lost"):
        assert text not in left, (repaired, left)


def test_an_index_that_lacks_a_row_is_found_and_built_anew(original: tuple[Path, int], tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    shutil.copy(original[0], copy)
    load_checksums()
    connection = apsw.Connection(str(copy), vfs=VFS)
    # The index becomes a partial one for a moment, so that a delete leaves its entry where it is.
    connection.execute("PRAGMA writable_schema = ON")
    definition = connection.execute("SELECT sql FROM sqlite_schema WHERE name = 'record_lsn'").get
    statement = "UPDATE sqlite_schema SET sql = ? WHERE name = 'record_lsn'"
    connection.execute(statement, (f"{definition} WHERE container = 99",))
    connection.close()
    connection = apsw.Connection(str(copy), vfs=VFS)
    connection.execute("INSERT INTO record SELECT id + 1000, container, hash, identity + 7, partition, key || 'x', written,"
                       " anchor, override, lsn + 1000, exact_anchor, checksum, value FROM record LIMIT 1")  # fmt: skip
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute(statement, (definition,))
    connection.close()
    report = examine(copy)
    assert any("the index record_lsn and its table contradict each other" in each.text for each in report.findings)
    repair_file(copy, tmp_path / "mended.db", silent)
    assert examine(tmp_path / "mended.db").sound


def test_dates_and_their_entries(original: tuple[Path, int], tmp_path: Path) -> None:
    path, container = original
    definition = b'{"body":{},"written":1,"slots":[{"number":30,"state":"ready"}]}'
    first, second = (Record(b"p", b"dated%d" % n, b"v", 1, 1, None, 900 + n, 900 + n, ((30, 5 * n),)) for n in (1, 2))

    def planted(copy: Path, *, missing: bool, extra: bool) -> None:
        shutil.copy(path, copy)
        change(copy, "UPDATE catalog SET lsn = 2000, seq = 2000")
        connection = apsw.Connection(str(copy), vfs=VFS)
        connection.execute("UPDATE catalog SET data = ?", (definition,))
        for record in (first, second):
            id = row_id(container, record.seq)
            connection.execute(
                "INSERT INTO record SELECT ?, ?, hash, identity, ?, ?, ?, ?, ?, ?, ?, ?, ? FROM record LIMIT 1",
                (id, container, record.partition, record.key, *state_columns(record)),
            )
            connection.execute(
                "INSERT INTO directory SELECT container, 0, identity, id FROM record WHERE id = ?", (id,)
            )
            connection.execute("INSERT INTO directory SELECT container, 1, hash, id FROM record WHERE id = ?", (id,))
            dates = [] if missing and record is first else [date for _, date in record.dates]
            for date in [*dates, *([777] if extra and record is second else [])]:
                connection.execute("INSERT INTO entry VALUES(?, 30, ?, ?)", (container, date_key(date), id))
        connection.close()

    for missing, extra in ((False, False), (True, False), (False, True), (True, True)):
        copy = tmp_path / f"{missing}{extra}.db"
        planted(copy, missing=missing, extra=extra)
        texts = {finding.text for finding in examine(copy).findings}
        assert ("dates of records have no entry" in texts) is missing
        assert ("entries have a date that their record has not" in texts) is extra
        mended = tmp_path / f"{missing}{extra}.mended"
        repair_file(copy, mended, silent)
        assert examine(mended).sound, examine(mended)


def test_a_file_with_the_log_of_another_is_examined_without_it(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        asyncio.run(killed(tmp_path / f"{name}.db", 1, 2, into=tmp_path / name))
    place = tmp_path / "one"
    shutil.copy(tmp_path / "two" / "two.db", place / "one.db")
    log = (place / "one.db-wal").read_bytes()
    findings = examine(place / "one.db").findings
    assert [finding.kind for finding in findings] == ["log"]
    assert (place / "one.db-wal").read_bytes() == log


def test_what_a_kill_left_is_examined_with_its_log(tmp_path: Path) -> None:
    (tmp_path / "left").mkdir()
    asyncio.run(killed(tmp_path / "one.db", 1, 2, into=tmp_path / "left"))
    left = tmp_path / "left" / "one.db"
    before = left.read_bytes(), Path(f"{left}-wal").read_bytes()
    report = examine(left)
    assert report.sound and report.log_bytes
    repair_file(left, tmp_path / "mended.db", silent)
    assert (left.read_bytes(), Path(f"{left}-wal").read_bytes()) == before

    async def value() -> int | None:
        store = await SqliteStore.open(str(tmp_path / "mended.db"))
        try:
            return await store.read(NamedNumber("value"))
        finally:
            await store.close()

    assert asyncio.run(value()) == 2


# --- the command ---------------------------------------------------------------------------------------------------------

Run = Callable[..., Result]


@pytest.fixture
def run() -> Run:
    return lambda *arguments: CliRunner().invoke(mayfly, [str(each) for each in arguments])


def test_the_command(run: Run, original: tuple[Path, int], tmp_path: Path) -> None:
    path, _ = original
    said = run("-o", "table", "doctor", path)
    assert said.exit_code == 0
    assert "240 records, 240 index entries, 0 expiry events" in said.output and "No damage was found." in said.output
    document = json.loads(run("doctor", path, "--json").stdout)
    assert (document["sound"], document["records"], document["findings"]) == (True, RECORDS, [])
    copy = tmp_path / "copy.db"
    shutil.copy(path, copy)
    with copy.open("r+b") as file:
        file.seek((pages_of(path)["record_lsn"][0] - 1) * 4096 + 4000)
        file.write(b"damage")
    said = run("-o", "table", "doctor", copy)
    assert said.exit_code == 5
    assert "1 x pages of record_lsn do not match their checksums: page " in said.output
    assert "(--repair mends it)" in said.output and "The file is damaged." in said.output
    said = run("doctor", copy, "--repair", tmp_path / "new.db", "--json")
    assert (said.exit_code, json.loads(said.stdout)["records"]) == (0, RECORDS)
    assert run("doctor", tmp_path / "new.db").exit_code == 0
    said = run("doctor", copy, "--repair", tmp_path / "new.db")
    assert said.exit_code == 1 and "exists; a repair makes a new file" in said.stderr


def test_progress_of_what_takes_long(run: Run, original: tuple[Path, int], monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr("mayflydb.cli.progress.ProgressLine.say", lambda line, text: told.append(text))
    said = run("doctor", original[0], "--json")
    assert json.loads(said.stdout)["sound"] and not said.stderr
    assert any(text.startswith("pages: ") for text in told) and "records: 240 of 240" in told
    assert any(text.startswith("events") for text in told)


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "there is no file"), (b"", "is no database of SQLite"), (b"x" * 9000, "is no database")],
)
def test_what_cannot_be_examined(run: Run, tmp_path: Path, content: bytes | None, says: str) -> None:
    path = tmp_path / "other.db"
    if content is not None:
        path.write_bytes(content)
    said = run("doctor", path)
    assert said.exit_code == 1 and says in said.stderr
    with pytest.raises((Unavailable, Conflict)):
        repair_file(path, tmp_path / "new.db", silent)
    assert {*tmp_path.iterdir()} <= {path}


def test_beside_a_server_that_writes(tmp_path: Path) -> None:
    async def play() -> list[subprocess.CompletedProcess[bytes]]:
        with Server(tmp_path) as server:
            server.start()
            with closing(await Connection.open(server.port)) as connection:
                assert (await connection.ask("POST", "dbs", "dbs", {"id": "d"})).status == 201
                container = {"id": "c", "partitionKey": {"paths": ["/id"], "kind": "Hash"}, "defaultTtl": 1}
                assert (await connection.ask("POST", "colls", "dbs/d/colls", container)).status == 201
                command = [sys.executable, "-c", PROGRAM, "doctor", str(server.file), "--json"]
                examining = [asyncio.to_thread(subprocess.run, command, capture_output=True, check=False) for _ in "ab"]
                done = asyncio.gather(*examining)
                number = 0
                while not done.done():
                    key = {"x_ms_documentdb_partitionkey": f'["{number}"]'}
                    body = {"id": str(number), "text": "x" * 20_000}
                    answer = await connection.ask("POST", "docs", "dbs/d/colls/c/docs", body, **key)
                    assert answer.status == 201, answer
                    number += 1
                assert (await connection.ask("GET", "", "_mayfly/ready")).json["ready"]
            server.stop()
        return await done

    for said in asyncio.run(play()):
        assert said.returncode == 0, said
        assert json.loads(said.stdout)["sound"]


def test_a_file_of_a_server(tmp_path: Path) -> None:
    path = tmp_path / "served.db"
    with serve(path, port=0) as server:
        database = server.cosmos.client().create_database("shop")
        container = database.create_container("items", PartitionKey("/id"), default_ttl=1000)
        for number in range(50):
            container.upsert_item({"id": str(number)})
    report = examine(path)
    assert report.sound and report.records == 50
    change(path, "DELETE FROM entry; UPDATE record SET value = x'00' WHERE id IN (SELECT max(id) FROM record)")
    assert not examine(path).sound
    assert sum(each.count for each in repair_file(path, tmp_path / "new.db", silent).left_out) == 1
    with serve(tmp_path / "new.db", port=0) as server:
        container = server.cosmos.client().get_database_client("shop").get_container_client("items")
        assert len(list(container.read_all_items())) == 49
