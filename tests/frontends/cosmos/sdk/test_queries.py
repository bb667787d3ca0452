"""Queries through the client, which fetches plans and merges partitions itself."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from azure.cosmos import ContainerProxy
from azure.cosmos.exceptions import CosmosHttpResponseError

from frontends.cosmos.service import Async, Service, Sync, everywhere, path_of, rows, status_of

CROSS: Any = {"enable_cross_partition_query": True}
COUNT = 40


def stored() -> list[dict[str, Any]]:
    """Forty items in five partitions; `s` and `w` have ties, `m` is often missing."""
    source = random.Random(7)
    return [
        {
            "id": f"i{n:02}",
            "pk": f"p{n % 5}",
            "n": n,
            "s": "abc"[n % 3],
            "w": source.randrange(6),
            "tags": ["x", "y", "z"][: n % 4],
        }
        | ({"m": n * 10} if n % 4 else {})
        for n in range(COUNT)
    ]


ROWS = stored()


def container(service: Service, flavour: str, throughput: int = 400) -> Sync | Async:
    proxy = service.container(offer_throughput=throughput)
    service.fill(proxy, ROWS)
    return service.sync(proxy) if flavour == "sync" else service.aio(proxy)


def of(members: str, *values: Any) -> list[Any]:
    return [row[members] for row in ROWS if not values or row["pk"] in values]


P1 = [row for row in ROWS if row["pk"] == "p1"]

# query, parameters, does the order of rows count, expected
WHOLE: list[tuple[str, dict[str, Any], bool, list[Any]]] = [
    ("SELECT VALUE c.n FROM c", {}, False, of("n")),
    ("SELECT VALUE c.n FROM c WHERE c.n >= @a AND c.n < @b", {"@a": 10, "@b": 13}, False, [10, 11, 12]),
    ("SELECT VALUE c.n FROM c WHERE c.s = @s AND ARRAY_CONTAINS(c.tags, @t)", {"@s": "a", "@t": "z"}, False, [3, 15,
    27, 39]),
    ("SELECT VALUE c.n FROM c WHERE ARRAY_CONTAINS(@ids, c.id)", {"@ids": ["i01", "i39"]}, False, [1, 39]),
    ("SELECT VALUE c.n FROM c WHERE c.o = @o", {"@o": {"a": None}}, False, []),
    ("SELECT VALUE c.n FROM c ORDER BY c.n", {}, True, list(range(COUNT))),
    ("SELECT VALUE c.n FROM c ORDER BY c.n DESC", {}, True, list(range(COUNT))[::-1]),
    ("SELECT VALUE c.n FROM c WHERE c.n > 30 ORDER BY c.n", {}, True, list(range(31, COUNT))),
    ("SELECT c.id FROM c WHERE c.n < 3 ORDER BY c.n DESC", {}, True, [{"id": "i02"}, {"id": "i01"}, {"id": "i00"}]),
    ("SELECT VALUE c.m FROM c WHERE IS_DEFINED(c.m) ORDER BY c.m", {}, True,
    sorted(row["m"] for row in ROWS if "m" in row)),
    ("SELECT TOP 3 VALUE c.n FROM c ORDER BY c.n DESC", {}, True, [39, 38, 37]),
    ("SELECT TOP @k VALUE c.n FROM c ORDER BY c.n", {"@k": 2}, True, [0, 1]),
    ("SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 5 LIMIT 4", {}, True, [5, 6, 7, 8]),
    ("SELECT VALUE c.n FROM c ORDER BY c.n OFFSET @o LIMIT @l", {"@o": 38, "@l": 10}, True, [38, 39]),
    ("SELECT DISTINCT VALUE c.s FROM c", {}, False, ["a", "b", "c"]),
    ("SELECT DISTINCT c.s, c.pk FROM c WHERE c.n < 20", {}, False,
     [dict(t) for t in {(("s", row["s"]), ("pk", row["pk"])) for row in ROWS if row["n"] < 20}]),
    ("SELECT DISTINCT VALUE c.w FROM c ORDER BY c.w", {}, True, sorted({row["w"] for row in ROWS})),
    ("SELECT VALUE COUNT(1) FROM c", {}, True, [COUNT]),
    ("SELECT VALUE COUNT(c.m) FROM c", {}, True, [30]),
    ("SELECT VALUE SUM(c.n) FROM c WHERE c.n < 10", {}, True, [45]),
    ("SELECT VALUE AVG(c.n) FROM c", {}, True, [19.5]),
    ("SELECT VALUE MIN(c.m) FROM c", {}, True, [10]),
    ("SELECT VALUE MAX(c.s) FROM c", {}, True, ["c"]),
    ("SELECT VALUE COUNT(1) FROM c WHERE c.n > 100", {}, True, [0]),
    ("SELECT VALUE t FROM c JOIN t IN c.tags WHERE c.n < 4", {}, False, ["x", "x", "x", "y", "y", "z"]),
    ("SELECT c.id, t AS tag FROM c JOIN t IN c.tags WHERE c.n = 2", {}, False, [{"id": "i02", "tag": "x"},
    {"id": "i02", "tag": "y"}]),
    ("SELECT VALUE {n: c.n, big: c.n > 1} FROM c WHERE c.n IN (1, 2)", {}, False, [{"n": 1, "big": False}, {"n": 2,
    "big": True}]),
    ("SELECT VALUE UPPER(c.s) FROM c WHERE STARTSWITH(c.id, 'i0') AND c.n = 4", {}, False, ["B"]),
    ("SELECT VALUE (SELECT VALUE COUNT(1) FROM t IN c.tags) FROM c WHERE c.n = 3", {}, False, [3]),
    ("SELECT c.m FROM c WHERE c.n = 4", {}, False, [{}]),
    ("SELECT VALUE c.m FROM c WHERE c.n = 4", {}, False, []),
    ("SELECT VALUE c['n'] FROM root AS c WHERE c[\"id\"] = 'i07'", {}, False, [7]),
    ("SELECT VALUE c.n FROM c WHERE c.pk = 'p2'", {}, False, of("n", "p2")),
    ("SELECT VALUE c.n FROM c WHERE c.pk IN ('p2', 'p3') ORDER BY c.n", {}, True, of("n", "p2", "p3")),
    ("SELECT VALUE c.n FROM c WHERE c.pk = 'p2' AND c.pk = 'p3' ORDER BY c.n", {}, True, []),
    ("SELECT VALUE COUNT(1) FROM c WHERE false", {}, True, [0]),
    ("SELECT VALUE c.n FROM c WHERE ARRAY_CONTAINS(@keys, c.pk)", {"@keys": ["p2", "p9"]}, False, of("n", "p2")),
    ("SELECT VALUE c.n FROM c WHERE c.pk LIKE 'p3' ORDER BY c.n", {}, True, of("n", "p3")),
    ("SELECT VALUE c.n FROM c WHERE c.pk = 'p3' OFFSET 6 LIMIT 5", {}, False, of("n", "p3")[6:]),
    ("SELECT DISTINCT TOP 2 VALUE c.s FROM c WHERE c.s != 'b'", {}, False, ["a", "c"]),
    ("SELECT DISTINCT VALUE c.s FROM c WHERE c.s = 'b' OFFSET 0 LIMIT 3", {}, False, ["b"]),
    ("SELECT VALUE c.n FROM c WHERE c.pk = {'n': c.n} OR IS_NULL(c.pk)", {}, False, []),
]  # fmt: skip


def compare(found: list[Any], expected: list[Any], ordered: bool) -> None:
    if not ordered:
        found, expected = (sorted(each, key=lambda row: json.dumps(row, sort_keys=True)) for each in (found, expected))
    assert found == expected


Filled = dict[tuple[str, int], Sync | Async]
_filled: dict[Service, tuple[int, Filled]] = {}


@pytest.fixture
def filled(session_service: Service) -> Filled:
    """Containers that are only read, filled once and again only if others needed an empty server since."""
    generation, found = _filled.get(session_service, (-1, {}))
    if generation != session_service.generation:
        session_service.begin()
        found = {}
        for size in (400, 30000):
            client = container(session_service, "sync", size)
            assert isinstance(client, Sync)
            found |= {("sync", size): client, ("aio", size): session_service.aio(client.proxy)}
        _filled[session_service] = session_service.generation, found
    return found


@pytest.mark.parametrize(("client", "throughput"), [("sync", 400), ("sync", 30000), ("aio", 30000)])
@pytest.mark.parametrize("index", range(len(WHOLE)), ids=[row[0][:60] for row in WHOLE])
def test_over_partitions(filled: Filled, index: int, client: str, throughput: int) -> None:
    text, parameters, ordered, expected = WHOLE[index]
    given = [{"name": name, "value": value} for name, value in parameters.items()]
    for size in (None, 3):
        options = CROSS | ({} if size is None else {"max_item_count": size})
        compare(filled[client, throughput].call("query_items", text, parameters=given, **options), expected, ordered)


WITHIN: list[tuple[str, bool, list[Any]]] = [
    ("SELECT * FROM c ORDER BY c.n", True, P1),
    ("SELECT VALUE c.n FROM c ORDER BY c.m", True, [16, 36, *[row["n"] for row in P1 if "m" in row]]),
    ("SELECT VALUE c.n FROM c ORDER BY c.m DESC", True, [*[row["n"] for row in P1 if "m" in row][::-1], 16, 36]),
    ("SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 2 LIMIT 3", True, [11, 16, 21]),
    ("SELECT TOP 2 VALUE c.n FROM c", True, [1, 6]),
    ("SELECT VALUE COUNT(1) FROM c", True, [8]),
    ("SELECT COUNT(1) AS k, MAX(c.n) AS most FROM c", True, [{"k": 8, "most": 36}]),
    ("SELECT c.s, COUNT(1) AS k, SUM(c.n) AS t FROM c GROUP BY c.s", False,
     [{"s": s, "k": sum(r["s"] == s for r in P1), "t": sum(r["n"] for r in P1 if r["s"] == s)} for s in "abc"]),
    ("SELECT VALUE COUNT(1) FROM c GROUP BY c.s", False, [sum(r["s"] == s for r in P1) for s in "abc"]),
    ("SELECT DISTINCT VALUE c.s FROM c", False, ["a", "b", "c"]),
    ("SELECT VALUE t FROM c JOIN t IN c.tags WHERE t != 'x'", False, [t for r in P1 for t in r["tags"] if t != "x"]),
    ("SELECT COUNT(1) FROM c", True, [{"$1": 8}]),
]  # fmt: skip


@everywhere
@pytest.mark.parametrize("index", range(len(WITHIN)), ids=[row[0][:60] for row in WITHIN])
def test_within_a_partition(filled: Filled, index: int, flavour: str) -> None:
    text, ordered, expected = WITHIN[index]
    for size in (None, 1):
        found = filled[flavour, 400].call(
            "query_items", text, partition_key="p1", **({} if size is None else {"max_item_count": size})
        )
        if text.startswith("SELECT *"):
            found = [{name: value for name, value in row.items() if not name.startswith("_")} for row in found]
        compare(found, expected, ordered)


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_pages_have_the_size_that_was_asked_for(filled: Filled, size: int) -> None:
    proxy = filled["sync", 400].proxy
    assert isinstance(proxy, ContainerProxy)
    for text in (
        "SELECT VALUE c.n FROM c",
        "SELECT VALUE c.n FROM c ORDER BY c.w",
        "SELECT VALUE c.n FROM c WHERE c.n >= 0",
    ):
        pages = [list(page) for page in proxy.query_items(text, partition_key="p1", max_item_count=size).by_page()]
        assert [len(page) for page in pages] == [len(P1[at : at + size]) for at in range(0, len(P1), size)]


@everywhere
def test_ties_come_in_one_order(filled: Filled) -> None:
    call = filled["sync", 400].call
    once = call("query_items", "SELECT VALUE c.id FROM c ORDER BY c.w", **CROSS)
    assert once == [row["id"] for row in sorted(ROWS, key=lambda row: row["w"])]
    for size in (1, 3, 10):
        assert call("query_items", "SELECT VALUE c.id FROM c ORDER BY c.w", max_item_count=size, **CROSS) == once


TWO_KEYS = "SELECT VALUE c.n FROM c ORDER BY c.s ASC, c.n DESC"


def test_two_keys_need_a_composite_index(filled: Filled) -> None:
    assert status_of(filled["sync", 400].call, "query_items", TWO_KEYS, partition_key="p1") == 400


@everywhere
def test_two_keys(service: Service) -> None:
    policy = {"compositeIndexes": [[{"path": "/s", "order": "ascending"}, {"path": "/n", "order": "descending"}]]}
    proxy = service.container(indexing_policy=policy)
    service.fill(proxy, ROWS)
    expected = [row["n"] for row in sorted(ROWS, key=lambda row: (row["s"], -row["n"]))]
    assert list(proxy.query_items(TWO_KEYS, **CROSS)) == expected
    assert list(proxy.query_items(TWO_KEYS, max_item_count=3, **CROSS)) == expected
    assert list(proxy.query_items("SELECT VALUE c.n FROM c ORDER BY c.s DESC, c.n ASC", **CROSS)) == expected[::-1]


# --- what is refused -------------------------------------------------------------------------------------------------


def test_cross_partition_must_be_allowed(service: Service) -> None:
    proxy = service.container()
    proxy.create_item({"id": "1", "pk": "p"})
    with pytest.raises(CosmosHttpResponseError) as refused:
        list(proxy.query_items("SELECT * FROM c"))
    assert refused.value.status_code == 400
    assert "Cross partition query is required but disabled" in str(refused.value)
    assert len(list(proxy.query_items("SELECT * FROM c WHERE c.pk = 'p'"))) == 1


@pytest.mark.parametrize(
    ("text", "feature"),
    [("SELECT c.s, COUNT(1) AS k FROM c GROUP BY c.s", "GroupBy"), ("SELECT COUNT(1) AS k FROM c", "NonValueAggregate"),
     # Also where WHERE names the partition: the client has permitted to cross partitions.
     ("SELECT COUNT(1) AS k FROM c WHERE c.pk = 'p1'", "NonValueAggregate"),
     ("SELECT c.s FROM c WHERE c.pk = 'p1' GROUP BY c.s", "GroupBy"),
     ("SELECT COUNT(1) AS k, SUM(c.n) AS t FROM c", "MultipleAggregates")],
)  # fmt: skip
def test_queries_that_the_client_cannot_merge(filled: Filled, text: str, feature: str, flavour: str) -> None:
    with pytest.raises(CosmosHttpResponseError) as refused:
        filled[flavour, 30000].call("query_items", text, **CROSS)
    assert refused.value.status_code == 400
    assert f"Query contained {feature}, which the calling client does not support." in str(refused.value)
    # The asynchronous client always permits it.
    if "WHERE" in text and flavour == "sync":
        assert filled[flavour, 30000].call("query_items", text), "without the permission it is served there"


ERRORS: list[tuple[str, str, str, tuple[int, int] | None]] = [
    ("SELECT * FORM c", "SC1001", "Syntax error", None), ("SELEC * FROM c", "SC1001", "Syntax error", None),
    ("SELECT * FROM c WHERE", "SC1001", "Syntax error", None), ("SELECT x.a FROM c", "SC2001",
    "Identifier 'x' could not be resolved.", (7, 8)),
    ("SELECT BADFUNC(c.a) FROM c", "SC2005", "'BADFUNC' is not a recognized built-in function name.", None),
    ("SELECT STARTSWITH(c.a) FROM c", "SC2050", "The STARTSWITH function requires 2 to 3 argument(s).", None),
    ("SELECT * FROM c GROUP BY c.s", "SC2041", "'SELECT *' is not allowed with GROUP BY.", None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "code", "message", "place"), ERRORS, ids=[row[0] for row in ERRORS])
def test_errors_have_a_code_and_a_place(
    filled: Filled, session_service: Service, text: str, code: str, message: str, place: tuple[int, int] | None
) -> None:
    proxy = filled["sync", 400].proxy
    assert isinstance(proxy, ContainerProxy)
    answer = session_service.raw(
        "POST", path_of(proxy, "docs"), {"query": text}, {"content-type": "application/query+json"}, pk="p1"
    )
    assert (answer.status, answer.json["code"]) == (400, "BadRequest")
    told = answer.json["message"].removeprefix("Message: ").partition("\r\n")[0]
    (error,) = json.loads(told)["errors"]
    assert (error["severity"], error["code"]) == ("Error", code)
    assert message in error["message"]
    location = error["location"]
    assert 0 <= location["start"] <= location["end"] <= len(text)
    if place is not None:
        assert (location["start"], location["end"]) == place
    assert status_of(filled["sync", 400].call, "query_items", text, partition_key="p1") == 400


@pytest.mark.parametrize("text", [
    "SELECT * FROM c WHERE c.a = @missing", "SELECT * FROM c JOIN t IN c.tags", "SELECT TOP -1 * FROM c",
    "SELECT VALUE udf.f(c.a) FROM c",
    "SELECT VALUE FullTextScore(c.t, 'x') FROM c", "SELECT TOP 1 * FROM c ORDER BY RANK c.t",
    "SELECT c.s FROM c GROUP BY c.s ORDER BY c.s",
])  # fmt: skip
def test_other_refusals(filled: Filled, text: str) -> None:
    assert status_of(filled["sync", 400].call, "query_items", text, partition_key="p1") == 400


# --- the wire --------------------------------------------------------------------------------------------------------


def test_the_plan(filled: Filled, session_service: Service) -> None:
    proxy = filled["sync", 400].proxy
    assert isinstance(proxy, ContainerProxy)
    headers = {
        "x-ms-cosmos-is-query-plan-request": "True",
        "x-ms-cosmos-supported-query-features": "OrderBy,Top,Aggregate",
    }
    answer = session_service.raw(
        "POST", path_of(proxy, "docs"), {"query": "SELECT TOP 2 * FROM c ORDER BY c.n DESC"}, headers
    )
    info = answer.json["queryInfo"]
    assert (info["top"], info["orderBy"], info["orderByExpressions"]) == (2, ["Descending"], ["c.n"])
    assert answer.json["queryRanges"] == [{"min": "", "max": "FF", "isMinInclusive": True, "isMaxInclusive": False}]
    first = session_service.raw(
        "POST", path_of(proxy, "docs"), {"query": "SELECT * FROM c ORDER BY c.n"},
        {"content-type": "application/query+json", "x-ms-documentdb-query-enablecrosspartition": "True"},
    )  # fmt: skip
    assert (first.status, first.substatus) == (400, 1004)
    assert json.loads(first.json["additionalErrorInfo"])["queryInfo"]["orderBy"] == ["Ascending"]


def test_the_clock_of_a_query_is_ours(service: Service) -> None:
    proxy = service.container()
    proxy.create_item({"id": "1", "pk": "p"})
    text = "SELECT VALUE [GetCurrentTimestamp(), GetCurrentDateTime()] FROM c"
    service.at(100)
    assert rows(proxy.query_items(text, partition_key="p")) == [[1893456100000, "2030-01-01T00:01:40.0000000Z"]]


@pytest.mark.parametrize("name", ["größe", "名", "😀", 'a"b', "a\\b", "a\nb", "a/b", "\x7f", "_x", "n"])
def test_properties_of_any_name(service: Service, name: str) -> None:
    proxy = service.container()
    for n in (5, 7):
        proxy.create_item({"id": str(n), "pk": "p", name: n})
    path = f"c[{json.dumps(name)}]"
    for text, expected in [
        (f"SELECT VALUE {path} FROM c", [5, 7]),
        (f"SELECT VALUE c.id FROM c WHERE {path} = 7", ["7"]),
        (f"SELECT VALUE SUM({path}) FROM c", [12]),
        (f"SELECT VALUE c.id FROM c ORDER BY {path} DESC", ["7", "5"]),
    ]:
        assert rows(proxy.query_items(text, partition_key="p")) == expected, text


@everywhere
def test_pages_of_joins_over_a_stretch_of_hashes(service: Service) -> None:
    """A page may end within the very first item of the container, wherever that is in the order of hashes."""
    proxy = service.container()
    service.fill(proxy, [{"id": str(n), "pk": f"p{n}", "n": [n, n + 10, n + 20]} for n in range(6)])
    query = {"query": "SELECT VALUE t FROM c JOIN t IN c.n"}
    headers = {
        "content-type": "application/query+json",
        "x-ms-start-epk": "01",
        "x-ms-end-epk": "FF",
        "x-ms-read-key-type": "EffectivePartitionKeyRange",
        "x-ms-max-item-count": "2",
    }
    found: list[int] = []
    for _ in range(9):
        answer = service.raw("POST", path_of(proxy, "docs"), query, headers)
        assert answer.status == 200, answer
        found += answer.json["Documents"]
        headers["x-ms-continuation"] = answer.headers.get("x-ms-continuation", "")
    assert not headers["x-ms-continuation"]
    assert sorted(found) == sorted(n + more for n in range(6) for more in (0, 10, 20))
