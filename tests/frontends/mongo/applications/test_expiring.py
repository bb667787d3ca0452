"""Applications that rely on TTL indexes: sessions, caches, rate limits, messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cachelib import MongoDbCache
from flask import Flask, session
from flask_session import Session
from kombu import Connection, Consumer, Exchange, Producer, Queue
from kombu.transport.mongodb import Channel
from limits import RateLimitItem, parse
from limits.storage import MongoDBStorage
from limits.strategies import (
    FixedWindowRateLimiter,
    MovingWindowRateLimiter,
    RateLimiter,
    SlidingWindowCounterRateLimiter,
)
from pymongo import MongoClient

from mayflydb.embedded import RunningServer

Client = MongoClient[dict[str, Any]]
Advance = Callable[[float], None]
PASS = 60.0
"""Seconds within which the TTL monitor makes a pass."""


# --- limits: https://limits.readthedocs.io -------------------------------------------------------------------------------


@pytest.fixture
def limits(mongo_server: RunningServer, request: pytest.FixtureRequest) -> Iterator[MongoDBStorage]:
    storage = MongoDBStorage(mongo_server.mongo.uri, database_name=request.node.name.replace("[", "-").strip("]"))
    yield storage
    storage.storage.close()


def hits(limiter: RateLimiter, item: RateLimitItem, times: int) -> list[bool]:
    return [limiter.hit(item, "somebody") for _ in range(times)]


def test_a_fixed_window(limits: MongoDBStorage, advance: Advance) -> None:
    limiter, item = FixedWindowRateLimiter(limits), parse("2/minute")
    assert hits(limiter, item, 3) == [True, True, False]
    advance(59)
    assert not limiter.test(item, "somebody") and not limiter.hit(item, "somebody")
    advance(2)
    assert hits(limiter, item, 3) == [True, True, False]
    assert limiter.get_window_stats(item, "somebody").remaining == 0
    advance(60 + PASS)
    assert limits.counters.count_documents({}) == 0


def test_a_moving_window(limits: MongoDBStorage, advance: Advance) -> None:
    limiter, item = MovingWindowRateLimiter(limits), parse("3/minute")
    assert limiter.hit(item, "somebody")
    advance(30)
    assert hits(limiter, item, 3) == [True, True, False]
    advance(31)
    assert limiter.get_window_stats(item, "somebody").remaining == 1
    assert hits(limiter, item, 2) == [True, False]
    assert limiter.hit(item, "another", cost=3) and not limiter.hit(item, "another", cost=4)
    advance(60 + PASS)
    assert limits.windows.count_documents({}) == 0


def test_a_sliding_window(limits: MongoDBStorage, advance: Advance) -> None:
    limiter, item = SlidingWindowCounterRateLimiter(limits), parse("4/minute")
    assert hits(limiter, item, 5) == [True, True, True, True, False]
    # Half of the window before counts.
    advance(90)
    assert hits(limiter, item, 3) == [True, True, False]
    assert limiter.get_window_stats(item, "somebody").remaining == 0
    limiter.clear(item, "somebody")
    assert limiter.hit(item, "somebody")
    assert limits.check() and limits.reset() == 1


# --- Flask-Session: https://flask-session.readthedocs.io -----------------------------------------------------------------


# It asks datetime.utcnow(), which Python 3.12 warns of.
@pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")
def test_sessions_of_flask(mongo_client: Client, advance: Advance) -> None:
    app = Flask("visits")
    app.config.update(
        SESSION_TYPE="mongodb",
        SESSION_MONGODB=mongo_client,
        SESSION_MONGODB_DB="flask",
        PERMANENT_SESSION_LIFETIME=100,
    )
    Session(app)
    # As at each start of an application.
    Session(app)

    @app.get("/")
    def visit() -> str:
        session["visits"] = session.get("visits", 0) + 1
        return str(session["visits"])

    @app.get("/out")
    def leave() -> str:
        session.clear()
        return ""

    browser = app.test_client()
    assert [browser.get("/").text for _ in range(3)] == ["1", "2", "3"]
    assert app.test_client().get("/").text == "1"
    advance(99)
    assert browser.get("/").text == "4"
    advance(100 + PASS)
    assert mongo_client["flask"]["sessions"].count_documents({}) == 0
    assert browser.get("/").text == "1"
    browser.get("/out")
    assert mongo_client["flask"]["sessions"].count_documents({}) == 0


# --- cachelib: https://cachelib.readthedocs.io ---------------------------------------------------------------------------


def test_a_cache(mongo_client: Client, advance: Advance) -> None:
    cache = MongoDbCache(mongo_client, db="cachelib", default_timeout=100)
    assert cache.set("a", {"x": [1]}, timeout=10) and cache.set("b", None) and cache.add("c", 3, timeout=0)
    assert cache.set_many({"d": 4, "e": 5}) == ["d", "e"]
    advance(9)
    assert cache.get("a") == {"x": [1]} and not cache.add("a", 2)
    advance(1)
    assert cache.get("a") is None and cache.get_many("b", "c", "d") == [None, 3, 4]
    assert cache.delete_many("d", "missing") == ["d", "missing"] and not cache.delete("d")
    advance(100)
    assert cache.get_dict("c", "e") == {"c": 3, "e": None}
    assert cache.clear() and not cache.has("c")


# --- kombu, under Celery: https://docs.celeryq.dev/projects/kombu --------------------------------------------------------


@pytest.fixture
def broker(mongo_server: RunningServer) -> Iterator[Channel]:
    uri = mongo_server.mongo.uri.replace("/?", "/kombu?")
    with Connection(uri, transport_options={"ttl": True}) as connection:
        channel = connection.channel()
        yield channel
        channel.client.client.close()


def test_messages_in_queues(broker: Channel, mongo_client: Client, advance: Advance) -> None:
    arguments = {"x-message-ttl": 100_000, "x-expires": 500_000}
    queue = Queue("tasks", Exchange("tasks", type="topic"), routing_key="a.*", queue_arguments=arguments)(broker)
    queue.declare()
    queue.declare()
    producer = Producer(broker, exchange=queue.exchange)
    for number, options in enumerate([{}, {"priority": 9}, {"expiration": 10}, {}]):
        producer.publish({"number": number}, routing_key="a.b", **options)
    assert mongo_client["kombu"]["messages"].count_documents({}) == 4
    advance(10 + PASS)
    taken: list[int] = []

    def take(body: dict[str, int], message: Any) -> None:
        taken.append(body["number"])
        message.ack()

    with Consumer(broker, [queue], callbacks=[take]):
        broker.connection.client.drain_events(timeout=60)
        broker.connection.client.drain_events(timeout=60)
    assert taken == [1, 0]
    advance(100 + PASS)
    assert mongo_client["kombu"]["messages"].count_documents({}) == 0
    assert mongo_client["kombu"]["messages.queues"].count_documents({}) == 1
    advance(500 + PASS)
    assert mongo_client["kombu"]["messages.queues"].count_documents({}) == 0
    assert mongo_client["kombu"]["messages.routing"].count_documents({}) == 0


def test_messages_for_everybody(broker: Channel) -> None:
    exchange = Exchange("news", type="fanout")
    queues = [Queue(name, exchange)(broker) for name in ("one", "two")]
    for queue in queues:
        queue.declare()
    producer = Producer(broker, exchange=exchange)
    for number in range(3):
        producer.publish({"number": number})
    for queue in queues:
        messages = [queue.get(no_ack=True) for _ in range(4)]
        assert [message and message.payload["number"] for message in messages] == [0, 1, 2, None]
    producer.publish({"number": 3})
    message = queues[0].get(no_ack=True)
    assert message.payload == {"number": 3} and queues[0].get(no_ack=True) is None
