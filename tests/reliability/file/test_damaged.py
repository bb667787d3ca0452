"""A bit that flipped on the disk is an error, and never a record that is not there."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest
from azure.cosmos import PartitionKey
from pymongo.collection import Collection
from pymongo.errors import OperationFailure

from mayflydb.embedded import serve
from mayflydb.model.errors import Corrupt, Unavailable
from mayflydb.store.interface import Decision, Get, KnownDamage, Outcome, ask
from mayflydb.store.sqlite.connection import open_file
from mayflydb.store.sqlite.page_checksums import RESERVED_OFFSET
from mayflydb.store.sqlite.store import SqliteStore
from reliability.file.damaged import RECORDS, answers, copies, fill, flip, identity, pages_of
from reliability.kill9.wire import Connection
from served import Http, port_of

READ = ["record", "directory"]
"""What a point read visits."""


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    path = tmp_path_factory.mktemp("damage") / "store.db"
    return path, asyncio.run(fill(path))


def test_no_flipped_bit_makes_a_record_disappear(original: tuple[Path, int], seed: int) -> None:
    path, container = original
    found = Counter[str]()
    for name, copy in copies(path, random.Random(seed), READ, 140):
        said = asyncio.run(answers(copy, container))
        assert not said["missing"] and not said["wrong"], (name, said)
        found["an error" if said["error"] else "refused" if said["refused"] else "not visited"] += 1
        # Point reads do not visit the pages of the directory that lead to partitions.
        assert said["refused"] or said["error"] or (name == "directory" and said["right"] == RECORDS), (name, said)
    assert found.total() == 140 and found["an error"] > 70


def test_without_page_checksums_records_disappear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The control: a file from before. What SQLite notices makes "not found" an error; what it does not notice stays unseen.
    monkeypatch.setattr("mayflydb.store.sqlite.data_file.load_checksums", lambda: False)
    path = tmp_path / "store.db"
    container = asyncio.run(fill(path))
    assert path.read_bytes()[RESERVED_OFFSET] == 0
    found = Counter[str]()
    for _, copy in copies(path, random.Random(7), ["directory"], 60):
        said = asyncio.run(answers(copy, container))
        found["missing" if said["missing"] else "noticed" if said["error"] else "no harm"] += 1
    assert found["missing"] and found["noticed"], found


def test_after_one_failed_check_not_found_is_an_error(
    original: tuple[Path, int], caplog: pytest.LogCaptureFixture
) -> None:
    path, container = original

    async def work() -> None:
        store = await SqliteStore.open(str(path))
        assert await store.read(Get(container, b"p", b"absent")) is None
        assert await store.read(KnownDamage()) is None
        store._transaction.damage.note(apsw.CorruptError("planted"))
        assert "planted" in (await store.read(KnownDamage()) or "")
        with pytest.raises(Corrupt, match="not found, which may be wrong"):
            await store.read(Get(container, b"p", b"absent"))
        assert await store.read(Get(container, *identity(3))) is not None

        def create() -> Decision[bool]:
            return Outcome((), (yield from ask(Get(container, b"p", b"absent"))) is None)

        with pytest.raises(Corrupt, match="not found, which may be wrong"):
            await store.write(create)
        await store.close()

    asyncio.run(work())
    assert [record.levelname for record in caplog.records] == ["CRITICAL"] and "mayfly doctor" in caplog.text


def test_a_header_that_switches_the_checksums_off_is_refused(original: tuple[Path, int], tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    content = bytearray(original[0].read_bytes())
    content[RESERVED_OFFSET] = 0
    copy.write_bytes(content)
    with pytest.raises((Unavailable, Corrupt)):
        asyncio.run(SqliteStore.open(str(copy)))


def test_a_file_with_checksums_is_not_opened_without_them(
    original: tuple[Path, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mayflydb.store.sqlite.data_file.load_checksums", lambda: False)
    with pytest.raises(Unavailable, match="has page checksums, and the installed apsw"):
        asyncio.run(SqliteStore.open(str(original[0])))


def test_a_commit_that_reads_a_damaged_page_is_an_error(original: tuple[Path, int], tmp_path: Path) -> None:
    path, container = original
    copy = tmp_path / "copy.db"
    copy.write_bytes(path.read_bytes())
    for page in pages_of(path)["directory"]:
        flip(copy, page, random.Random(1))

    async def work() -> None:
        store = await SqliteStore.open(str(copy))

        def decide() -> Decision[None]:
            yield from ask(Get(container, *identity(1)))
            return Outcome((), None)

        with pytest.raises(Corrupt, match="a page does not match its checksum"):
            await store.write(decide)
        assert await store.read(KnownDamage()) is not None
        await store.close()

    asyncio.run(work())


def test_what_clients_are_told(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    ids = [f"{number}-{'x' * 60}" for number in range(300)]
    with serve(path, port=0, mongo_port=0) as server:
        database = server.cosmos.client().create_database("shop")
        items = database.create_container("items", PartitionKey("/id"))
        for id in ids:
            items.upsert_item({"id": id})
        with server.mongo.client() as mongo:
            mongo.shop.docs.insert_many([{"_id": id} for id in ids])
    # The last one gets places when a start tests the store: without it, the server does not start.
    leaves = pages_of(path)["directory"][1:-1]
    assert len(leaves) > 2
    for page in leaves[::2]:
        flip(path, page, random.Random(1))
    with serve(path, port=0, mongo_port=0) as server:
        found = asyncio.run(_ask_cosmos(port_of(server), ids))
        with server.mongo.client() as mongo:
            found += Counter(_ask_mongo(mongo.shop.docs, id) for id in ids)
        assert {*found} == {"200", "500", "found", "96"}, found
        # From then on absence is no answer, nor a ground to create.
        assert {*asyncio.run(_ask_cosmos(port_of(server), ["absent"]))} == {"500"}
        ready = Http(port_of(server))("GET", "/_mayfly/ready")
        assert ready.status == 503 and "a page does not match its checksum" in ready.json["store"]


async def _ask_cosmos(port: int, ids: list[str]) -> Counter[str]:
    """The statuses of point reads; and of a create, if there is one id alone."""
    found = Counter[str]()
    with closing(await Connection.open(port)) as connection:
        for id in ids:
            key = {"x_ms_documentdb_partitionkey": f'["{id}"]'}
            answer = await connection.ask("GET", "docs", f"dbs/shop/colls/items/docs/{id}", **key)
            found[str(answer.status)] += 1
            if len(ids) == 1:
                answer = await connection.ask("POST", "docs", "dbs/shop/colls/items/docs", {"id": id}, **key)
                found[str(answer.status)] += 1
    return found


def _ask_mongo(documents: Collection[dict[str, Any]], id: str) -> str:
    try:
        return "absent" if documents.find_one({"_id": id}) is None else "found"
    except OperationFailure as error:
        return str(error.code)


def test_the_default_of_the_process_stays(original: tuple[Path, int]) -> None:
    open_file(str(original[0]), "cksmvfs").close()
    assert apsw.vfs_names()[0] != "cksmvfs"
