"""Libraries on top of pymongo: its asyncio API, GridFS, and object mappers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import mongoengine
import pytest
from beanie import Document, init_beanie
from beanie.exceptions import RevisionIdWasChanged
from gridfs import AsyncGridFSBucket, GridFS, GridFSBucket, NoFile
from pymongo import AsyncMongoClient, IndexModel, MongoClient
from pymongo.errors import DuplicateKeyError

from mayflydb.embedded import RunningServer

Client = MongoClient[dict[str, Any]]
Advance = Callable[[float], None]
PASS = 60.0
"""Seconds within which the TTL monitor makes a pass."""


async def _asynchronous(uri: str) -> None:
    async with AsyncMongoClient[dict[str, Any]](uri) as client:
        collection = client["asynchronous"]["c"]
        await collection.create_index("at", expireAfterSeconds=10)
        await collection.insert_many([{"_id": n, "k": n % 3} for n in range(250)])
        assert [each["_id"] async for each in collection.find({"k": 1}, batch_size=7)] == list(range(1, 250, 3))
        counts = await (await collection.aggregate([{"$sortByCount": "$k"}])).to_list()
        assert sorted(each["count"] for each in counts) == [83, 83, 84]
        with pytest.raises(DuplicateKeyError):
            await collection.insert_one({"_id": 1})
        # On several connections at once.
        await asyncio.gather(*(collection.update_one({"_id": 1}, {"$inc": {"n": 1}}) for _ in range(20)))
        assert (await collection.find_one_and_delete({"_id": 1})) == {"_id": 1, "k": 1, "n": 20}
        async with client.start_session() as session:
            assert await collection.count_documents({}, session=session) == 249
        bucket = AsyncGridFSBucket(client["asynchronous"])
        file = await bucket.upload_from_stream("f", b"x" * 300_000)
        assert len(await (await bucket.open_download_stream(file)).read()) == 300_000


def test_the_driver_for_asyncio(mongo_server: RunningServer) -> None:
    asyncio.run(_asynchronous(mongo_server.mongo.uri))


def test_files_in_a_bucket(mongo_client: Client, chance: random.Random) -> None:
    database = mongo_client["files"]
    bucket = GridFSBucket(database, chunk_size_bytes=1000)
    content = chance.randbytes(5500)
    first = bucket.upload_from_stream("f", content, metadata={"kind": "test"})
    second = bucket.upload_from_stream("f", b"new")
    assert bucket.open_download_stream(first).read() == content
    assert bucket.open_download_stream_by_name("f").read() == b"new"
    with bucket.open_download_stream_by_name("f", revision=0) as stream:
        stream.seek(990)
        assert stream.read(1020) == content[990:2010]
    assert [(file.length, file.metadata) for file in bucket.find({"metadata.kind": "test"})] == [
        (5500, {"kind": "test"})
    ]
    with bucket.open_upload_stream("aborted") as upload:
        upload.write(content)
        upload.abort()
    assert database["fs.chunks"].count_documents({}) == 7
    bucket.rename(second, "g")
    bucket.delete(first)
    assert [file.filename for file in bucket.find()] == ["g"]
    with pytest.raises(NoFile):
        bucket.open_download_stream(first)
    assert database["fs.chunks"].index_information()["files_id_1_n_1"]["unique"]


def test_files_by_version(mongo_client: Client) -> None:
    files = GridFS(mongo_client["versions"])
    for text in (b"one", b"two"):
        files.put(text, filename="f", author="Ann")
    assert files.get_last_version("f").read() == b"two" and files.get_version("f", 0, author="Ann").read() == b"one"
    assert files.exists(filename="f") and files.list() == ["f"]


# --- mongoengine: https://docs.mongoengine.org ---------------------------------------------------------------------------


class Address(mongoengine.EmbeddedDocument):  # type: ignore[misc]
    city = mongoengine.StringField()


class Owner(mongoengine.Document):  # type: ignore[misc]
    name = mongoengine.StringField(unique=True)


class Ticket(mongoengine.Document):  # type: ignore[misc]
    code = mongoengine.StringField(primary_key=True)
    at = mongoengine.DateTimeField()
    tags = mongoengine.ListField(mongoengine.StringField())
    home = mongoengine.EmbeddedDocumentField(Address)
    price = mongoengine.Decimal128Field()
    owner = mongoengine.ReferenceField(Owner)
    n = mongoengine.IntField(default=0)
    meta = {"indexes": [{"fields": ["at"], "expireAfterSeconds": 60}, ("tags", "-n")]}  # noqa: RUF012


def test_documents_of_mongoengine(mongo_server: RunningServer, advance: Advance) -> None:
    mongoengine.connect("engine", host=mongo_server.mongo.uri, uuidRepresentation="standard")
    try:
        owner = Owner(name="Ann").save()
        with pytest.raises(mongoengine.NotUniqueError):
            Owner(name="Ann").save()
        now = datetime.now(UTC)
        Ticket(code="a", at=now, tags=["x", "y"], home=Address(city="Paris"), price="1.10", owner=owner).save()
        Ticket.objects.insert([Ticket(code="b", n=5, tags=["y"]), Ticket(code="c", n=7)])
        assert Ticket.compare_indexes() == {"missing": [], "extra": []}
        ticket = Ticket.objects(home__city="Paris", at__lte=now).get()
        assert (str(ticket.price), ticket.owner.name) == ("1.10", "Ann")
        ticket.n += 1
        ticket.tags.append("z")
        ticket.save()
        assert Ticket.objects(tags="y").update(inc__n=1) == 2
        assert Ticket.objects(code="d").modify(upsert=True, new=True, set__n=3).n == 3
        assert [each.code for each in Ticket.objects.order_by("-n")] == ["c", "b", "d", "a"]
        assert (Ticket.objects.sum("n"), Ticket.objects.distinct("tags")) == (18, ["x", "y", "z"])
        assert Ticket.objects(mongoengine.Q(n__gt=6) | mongoengine.Q(tags__all=["x", "z"])).count() == 2
        advance(60 + PASS)
        assert Ticket.objects(code="a").first() is None and Ticket.objects.count() == 3
        other = Ticket.objects.get(code="b")
        other.n = 0
        with pytest.raises(mongoengine.SaveConditionError):
            other.save(save_condition={"n": 99})
    finally:
        mongoengine.disconnect()


# --- beanie: https://beanie-odm.dev --------------------------------------------------------------------------------------


class Visit(Document):
    name: str
    at: datetime
    n: int = 0

    class Settings:
        indexes = (IndexModel([("at", 1)], expireAfterSeconds=10), IndexModel([("name", 1)], unique=True))
        use_revision = True


async def _visits(uri: str, advance: Advance) -> None:
    async with AsyncMongoClient[dict[str, Any]](uri) as client:
        for _ in range(2):
            await init_beanie(database=client["beanie"], document_models=[Visit])
        now = datetime.now(UTC)
        visit = await Visit(name="a", at=now).insert()
        await Visit.insert_many([Visit(name="b", at=datetime(2099, 1, 1, tzinfo=UTC)), Visit(name="c", at=now)])
        stale = await Visit.find_one(Visit.name == "a")
        assert stale is not None
        visit.n = 5
        await visit.save()
        stale.n = 6
        with pytest.raises(RevisionIdWasChanged):
            await stale.save()
        await Visit.find(Visit.n > 3).inc({Visit.n: 2})
        await Visit.find_one(Visit.name == "b").upsert({"$set": {Visit.n: 2}}, on_insert=visit)
        assert (await Visit.find_all().avg(Visit.n), await Visit.find(Visit.n >= 2).count()) == (3.0, 2)
        advance(10 + PASS)
        assert [each.name async for each in Visit.find_all()] == ["b"]


def test_documents_of_beanie(mongo_server: RunningServer, advance: Advance) -> None:
    asyncio.run(_visits(mongo_server.mongo.uri, advance))
