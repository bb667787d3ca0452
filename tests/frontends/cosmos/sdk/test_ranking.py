"""ORDER BY RANK through the client: it counts, asks for each score, and fuses what several ranges answer."""

from __future__ import annotations

import math
import random
from operator import itemgetter
from typing import Any

import pytest
from azure.cosmos import ContainerProxy
from azure.cosmos.exceptions import CosmosHttpResponseError

from frontends.cosmos.service import Async, Service, Sync, everywhere, path_of, rows
from mayflydb.query.cosmos_sql import Context, Declarations, Embedding, compile_query, run

CROSS: Any = {"enable_cross_partition_query": True}
WORDS = ("fox", "red", "blue", "tree", "sky")
"""All of them their own stems."""


def items() -> list[dict[str, Any]]:
    """Fifty items in five partitions, the last two without a text or a vector, so that scores differ."""
    source = random.Random(11)
    found = [
        {
            "id": f"i{n:02}",
            "pk": f"p{n % 5}",
            "n": n,
            "t": " ".join(source.choices(WORDS, k=source.randrange(3, 60))),
            "v": [source.uniform(-1, 1) for _ in range(3)],
        }
        for n in range(48)
    ]
    return [*found, {"id": "o1", "pk": "p1", "n": 48}, {"id": "o2", "pk": "p2", "n": 49, "t": 5, "v": "x"}]


ITEMS = items()
VECTOR = [0.3, -1.0, 0.5]


def texts(*phrases: str) -> dict[str, float]:
    """The BM25 scores of all items that have a text, over all items."""
    held = {item["id"]: item["t"].split() for item in ITEMS if type(item.get("t")) is str}
    mean = sum(map(len, held.values())) / len(ITEMS)
    found = dict.fromkeys(held, 0.0)
    for phrase in phrases:
        having = sum(phrase in each for each in held.values())
        for name, each in held.items():
            times, length = each.count(phrase), len(each) / mean
            rarity = math.log1p((len(ITEMS) - having + 0.5) / (having + 0.5))
            found[name] += rarity * times * 2.2 / (times + 0.3 + 0.9 * length)
    return found


def distances() -> dict[str, float]:
    return {item["id"]: -math.dist(item["v"], VECTOR) for item in ITEMS if type(item.get("v")) is list}


def best(*scores: tuple[dict[str, float], float], names: list[str] | None = None) -> list[str]:
    """The names in the order of the sums of weight / (60 + rank); of one score, those that have it."""
    asked = [item["id"] for item in ITEMS] if names is None else names
    if len(scores) == 1:
        ((score, _),) = scores
        return sorted((name for name in asked if name in score), key=lambda name: -score[name])
    asked = [name for name in asked if any(name in score for score, _ in scores)]
    sums = dict.fromkeys(asked, 0.0)
    for score, weight in scores:
        turned = {name: score[name] if weight > 0 else -score[name] for name in asked if name in score}
        order = sorted(set(turned.values()), reverse=True)
        for name in asked:
            rank = order.index(turned[name]) + 1 if name in turned else len(order) + 1
            sums[name] += abs(weight) / (60 + rank)
    return sorted(asked, key=lambda name: -round(sums[name], 12))


def filled(service: Service, throughput: int) -> ContainerProxy:
    proxy = service.container(
        offer_throughput=throughput,
        full_text_policy={"defaultLanguage": "en-US", "fullTextPaths": [{"path": "/t"}]},
        vector_embedding_policy={"vectorEmbeddings": [
            {"path": "/v", "dataType": "float32", "dimensions": 3, "distanceFunction": "euclidean"}]},
        indexing_policy={"fullTextIndexes": [{"path": "/t"}]},
    )  # fmt: skip
    service.fill(proxy, ITEMS)
    return proxy


def of(service: Service, proxy: ContainerProxy, flavour: str) -> Sync | Async:
    return service.sync(proxy) if flavour == "sync" else service.aio(proxy)


FOX = "FullTextScore(c.t, 'fox')"
TWO = "FullTextScore(c.t, @a, @b)"
NEAR = "VectorDistance(c.v, @v)"
GIVEN: list[dict[str, Any]] = [
    {"name": "@a", "value": "red"},
    {"name": "@b", "value": "sky"},
    {"name": "@v", "value": VECTOR},
    {"name": "@w", "value": [1, -0.5]},
]
RANKED: list[tuple[str, list[tuple[tuple[str, ...] | None, float]]]] = [
    (FOX, [(("fox",), 1)]),
    (TWO, [(("red", "sky"), 1)]),
    (f"RRF({FOX}, {TWO})", [(("fox",), 1), (("red", "sky"), 1)]),
    (f"RRF({FOX}, {NEAR})", [(("fox",), 1), (None, 1)]),
    (f"RRF({NEAR}, {TWO}, [3, 0.5])", [(None, 3), (("red", "sky"), 0.5)]),
    (f"RRF({FOX}, {NEAR}, @w)", [(("fox",), 1), (None, -0.5)]),
    (f"RRF({NEAR}, VectorDistance(c.v, @v, true), [2, 1])", [(None, 2), (None, 1)]),
]


@pytest.mark.parametrize(("flavour", "throughput"), [("sync", 400), ("sync", 30000), ("aio", 30000)])
def test_the_best_of_all_partitions(service: Service, flavour: str, throughput: int) -> None:
    client = of(service, filled(service, throughput), flavour)
    for rank, scored in RANKED:
        scores = [(distances() if words is None else texts(*words), weight) for words, weight in scored]
        text = f"SELECT TOP 8 VALUE c.id FROM c ORDER BY RANK {rank}"
        assert client.call("query_items", text, parameters=GIVEN, **CROSS) == best(*scores)[:8], rank
        text = f"SELECT c.id, c.n FROM c WHERE c.n < 30 ORDER BY RANK {rank} OFFSET 3 LIMIT 5"
        found = client.call("query_items", text, parameters=GIVEN, **CROSS)
        wanted = best(*scores, names=[item["id"] for item in ITEMS if item["n"] < 30])[3:8]
        assert list(map(itemgetter("id"), found)) == wanted, rank


@pytest.mark.parametrize("rank", [rank for rank, _ in RANKED])
def test_one_partition_ranks_by_itself(service: Service, flavour: str, rank: str) -> None:
    """Without a plan: what the client is answered is what `run` makes of the partition's items."""
    proxy = filled(service, 30000)
    client = of(service, proxy, flavour)
    held = rows(proxy.query_items("SELECT * FROM c", partition_key="p1"))
    declared = Declarations({("v",): Embedding("euclidean", "float32", 3)})
    for text in (f"SELECT VALUE c.id FROM c ORDER BY RANK {rank}", f"SELECT TOP 4 c.id FROM c ORDER BY RANK {rank}"):
        query = compile_query(text, {each["name"]: each["value"] for each in GIVEN}, declared)
        wanted = run(query, held, Context(0))
        assert wanted
        for size in (None, 3):
            options: Any = {"partition_key": "p1"} | ({} if size is None else {"max_item_count": size})
            assert client.call("query_items", text, parameters=GIVEN, **options) == wanted
        assert client.call("query_items", f"{text.replace(' ORDER', ' WHERE c.pk = @p ORDER')}",
                           parameters=[*GIVEN, {"name": "@p", "value": "p1"}], partition_key="p1") == wanted  # fmt: skip


def test_the_client_asks_for_a_limit(service: Service) -> None:
    proxy = filled(service, 30000)
    with pytest.raises(ValueError, match="TOP or LIMIT"):
        rows(proxy.query_items(f"SELECT c.id FROM c ORDER BY RANK {FOX}", **CROSS))


@pytest.mark.parametrize(
    ("rank", "code", "says"),
    [
        (f"{FOX} DESC", None, "Specifying a sort order (ASC or DESC) in the ORDER BY RANK clause is not allowed."),
        ("c.t", "SC2221", "must be followed by a VectorDistance and/or a FullTextScore function call."),
        (f"RRF({FOX}, {FOX}, [1])", "SC2229", "must be the same as the number of the component scores."),
    ],
)
def test_refused(service: Service, rank: str, code: str | None, says: str) -> None:
    proxy = service.container()
    for options in (CROSS, {"partition_key": "p"}):
        with pytest.raises(CosmosHttpResponseError) as caught:
            rows(proxy.query_items(f"SELECT TOP 1 * FROM c ORDER BY RANK {rank}", **options))
        assert caught.value.status_code == 400
        assert says in str(caught.value)
        assert code is None or code in str(caught.value)


def test_a_plan_needs_a_client_that_fuses(service: Service) -> None:
    query = {"query": f"SELECT TOP 2 * FROM c WHERE c.pk IN ('a', 'b') ORDER BY RANK {FOX}"}
    headers: dict[str, str | bytes | None] = {
        "x-ms-cosmos-is-query-plan-request": "True", "x-ms-cosmos-supported-query-features": "OrderBy,Top,NonStreamingOrderBy"
    }  # fmt: skip
    path = path_of(service.container(), "docs")
    refused = service.raw("POST", path, query, headers)
    assert refused.status == 400
    assert "contained HybridSearch," in refused.json["message"]
    headers["x-ms-cosmos-supported-query-features"] = "HybridSearch"
    plan = service.raw("POST", path, query, headers).json
    assert plan["hybridSearchQueryInfo"]["take"] == 2
    assert len(plan["queryRanges"]) == 2


@everywhere
def test_expired_items_are_neither_ranked_nor_counted(service: Service) -> None:
    proxy = service.container(60)
    for name, text, ttl in (
        ("a", "fox sky", -1),
        ("b", "fox fox", 5),
        ("c", "sky", -1),
        ("d", "sky", 5),
        ("e", "sky", 5),
    ):
        proxy.create_item({"id": name, "pk": "p", "t": text, "ttl": ttl})
    text = "SELECT TOP 3 VALUE c.id FROM c ORDER BY RANK FullTextScore(c.t, 'fox', 'sky')"
    # With five alive, sky is in four of them: a fox is worth more.
    assert rows(proxy.query_items(text, **CROSS)) == ["b", "a", "c"]
    service.at(5)
    for options in (CROSS, {"partition_key": "p"}):
        assert rows(proxy.query_items(text, **options)) == ["a", "c"]


def test_a_text_in_its_language(service: Service) -> None:
    proxy = service.container(
        full_text_policy={"defaultLanguage": "de-DE", "fullTextPaths": [{"path": "/en", "language": "en-US"}]}
    )
    proxy.create_item({"id": "1", "pk": "p", "t": "Die Häuser", "en": "the houses"})
    for where, expected in (
        ("FullTextContains(c.t, 'haus')", 1), ("FullTextContains(c.t, 'die')", 1),
        ("FullTextContains(c.en, 'house')", 1), ("FullTextContains(c.en, 'the')", 0),
    ):  # fmt: skip
        assert rows(proxy.query_items(f"SELECT VALUE COUNT(1) FROM c WHERE {where}", **CROSS)) == [expected], where
