"""Ordered indexes: the same answers as by scanning, with less read; built where queries need them and the policy lets them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from azure.cosmos import ContainerProxy

from frontends.cosmos.service import Answer, Service, everywhere, path_of
from mayflydb.embedded import serve
from mayflydb.engine.catalog import Index
from mayflydb.frontends.cosmos.access import MAX_BUILT_INDEXES
from mayflydb.frontends.cosmos.views import ContainerView
from mayflydb.model.errors import Unavailable
from mayflydb.model.keys import SortKeys

A, B, N = (("a",), False), (("b", "c"), False), (("n",), False)
ID = (("id",), False)
WHOLE = {"x-ms-documentdb-partitionkeyrangeid": "0", "x-ms-documentdb-query-enablecrosspartition": "True"}
COMPOSITE = [
    [{"path": "/a", "order": "ascending"}, {"path": "/n", "order": "descending"}],
    [{"path": "/n", "order": "ascending"}, {"path": "/a", "order": "ascending"}],
]
POLICY = {
    "indexingMode": "consistent",
    "includedPaths": [{"path": "/*"}],
    "excludedPaths": [{"path": "/secret/*"}],
    "compositeIndexes": COMPOSITE,
}


class Indexed:
    """A container whose indexes a test makes and sees."""

    def __init__(self, service: Service, proxy: ContainerProxy) -> None:
        self.service = service
        self.proxy = proxy
        self.path = path_of(proxy, "docs")
        self._call = service.server._home.call
        self._engine = service.server._admin.engine

    @property
    def indexes(self) -> tuple[Index, ...]:
        node = self._call(self._engine.node("cosmos", *self.proxy.container_link.split("/")[1::2]))
        assert node is not None
        return node.definition.indexes

    @property
    def id(self) -> int:
        node = self._call(self._engine.node("cosmos", *self.proxy.container_link.split("/")[1::2]))
        assert node is not None
        return int(node.id)

    def settled(self) -> tuple[Index, ...]:
        """The indexes when nothing is under way any more."""
        self._call(self._engine.indexes.wait_for(self.id))
        return self.indexes

    def define(self, *keys: SortKeys) -> None:
        for each in keys:
            self._call(self._engine.indexes.define(self.id, each, ContainerView.index_keys, MAX_BUILT_INDEXES))
            self.settled()
        assert [(index.keys, index.state) for index in self.indexes][-len(keys) :] == [(key, "ready") for key in keys]

    def query(
        self, text: str, parameters: dict[str, Any] | None = None, size: int = 1000, pk: Any = ...
    ) -> tuple[list[Any], int]:
        """All rows of a query over one partition or everything, page by page, and how many items were read."""
        rows, read = [], 0
        for answer in self.pages(text, parameters, size, pk):
            rows += answer.json["Documents"]
            read += retrieved(answer)
        return rows, read

    def pages(self, text: str, parameters: dict[str, Any] | None, size: int, pk: Any = ...) -> Iterator[Answer]:
        body = {
            "query": text,
            "parameters": [{"name": name, "value": value} for name, value in (parameters or {}).items()],
        }
        headers: dict[str, Any] = {
            "content-type": "application/query+json",
            "x-ms-documentdb-isquery": "True",
            "x-ms-documentdb-populatequerymetrics": "True",
            "x-ms-max-item-count": str(size),
            **(WHOLE if pk is ... else {}),
        }
        while True:
            answer = self.service.raw("POST", self.path, body, headers, pk=pk)
            assert answer.status == 200, answer
            yield answer
            if "x-ms-continuation" not in answer.headers:
                return
            headers["x-ms-continuation"] = answer.headers["x-ms-continuation"]


def retrieved(answer: Answer) -> int:
    metrics = dict(part.split("=") for part in answer.headers["x-ms-documentdb-query-metrics"].split(";"))
    return int(metrics["retrievedDocumentCount"])


@pytest.fixture
def make(service: Service) -> Callable[..., Indexed]:
    def made(**options: Any) -> Indexed:
        return Indexed(service, service.container(indexing_policy=POLICY, **options))

    return made


VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 1.5, 2**53, 2**53 + 1, 10**30, -1.7e308, "", "a", "ab", "b", "A", "é", "😀", "a\x00",
    "x" * 300, "x" * 300 + "y", "x" * 199, [], [1], [2], {}, {"c": 1}, {"c": "a"}, {"c": [3]},
]  # fmt: skip
TEXTS = [
    "SELECT * FROM c WHERE c.a = {}",
    "SELECT VALUE c.id FROM c WHERE c.b.c = {} AND c.a != {}",
    "SELECT VALUE c.id FROM c WHERE c.a IN ({}, {}, {})",
    "SELECT VALUE c.id FROM c WHERE c.a > {} AND c.a <= {}",
    "SELECT VALUE c.id FROM c WHERE c.a < {} OR c.a = {}",
    "SELECT VALUE c.id FROM c WHERE c.n BETWEEN 2 AND 5 AND c.a >= {}",
    "SELECT VALUE c.id FROM c WHERE NOT (c.a = {})",
    "SELECT VALUE c.id FROM c WHERE STARTSWITH(c.a, 'x') OR c.a = {}",
    "SELECT VALUE c.id FROM c WHERE IS_NULL(c.a) OR c.b.c = {}",
    "SELECT VALUE COUNT(1) FROM c WHERE c.a = {} OR c.b.c = {}",
    "SELECT c.n, COUNT(1) AS k FROM c WHERE c.a >= {} GROUP BY c.n",
    "SELECT DISTINCT VALUE c.n FROM c WHERE c.a <= {}",
    "SELECT VALUE c.id FROM c WHERE c.a = {} ORDER BY c.n",
    "SELECT TOP 7 VALUE c.id FROM c ORDER BY c.a",
    "SELECT TOP 7 VALUE c.id FROM c ORDER BY c.a DESC",
    "SELECT VALUE c.id FROM c WHERE c.a > {} ORDER BY c.a DESC",
    "SELECT VALUE c.id FROM c WHERE c.n = 3 ORDER BY c.a OFFSET 2 LIMIT 5",
    "SELECT VALUE c.id FROM c ORDER BY c.a ASC, c.n DESC",
    "SELECT VALUE c.id FROM c ORDER BY c.a DESC, c.n ASC",
    "SELECT VALUE c.id FROM c WHERE c.n > 1 ORDER BY c.n ASC, c.a ASC OFFSET 1 LIMIT 9",
    "SELECT VALUE c.id FROM c WHERE c.id >= 'i2' AND c.a != {}",
    "SELECT VALUE t FROM c JOIN t IN c.t WHERE c.a = {} AND t > 1",
    "SELECT VALUE c.id FROM c WHERE EXISTS (SELECT VALUE 1 FROM c IN c.t WHERE c = 1) AND c.a >= {}",
    "SELECT VALUE c.id FROM c WHERE c.flag AND c.a != {}",
    "SELECT VALUE c.id FROM c WHERE c.secret.x = {}",
]  # fmt: skip


def document(chance: random.Random, id: str) -> dict[str, Any]:
    made: dict[str, Any] = {"id": id, "pk": f"p{chance.randrange(3)}", "n": chance.randrange(8)}
    if chance.random() < 0.9:
        made["a"] = chance.choice(VALUES)
    if chance.random() < 0.7:
        made["b"] = {"c": chance.choice(VALUES)} if chance.random() < 0.9 else chance.choice(VALUES)
    made["t"] = chance.choices(range(4), k=chance.randrange(3))
    if chance.random() < 0.5:
        made["flag"] = chance.choice([True, False, 1, "true"])
    if chance.random() < 0.3:
        made["ttl"] = chance.choice([5, 60, -1])
    if chance.random() < 0.3:
        made["secret"] = {"x": chance.choice(VALUES)}
    return made


@everywhere
def test_the_same_answers_as_by_scanning(make: Callable[..., Indexed], service: Service, chance: random.Random) -> None:
    """Two containers with the same history, one with indexes: every query answers alike, whatever was written or died."""
    plain, indexed = make(default_ttl=-1), make(default_ttl=-1)
    second = 0
    for round_ in range(4):
        for _ in range(60):
            body = document(chance, f"i{chance.randrange(70)}")
            for each in (plain, indexed):
                answer = service.raw("POST", each.path, body, {"x-ms-documentdb-is-upsert": "True"}, pk=body["pk"])
                assert answer.status in (200, 201), answer
        for _ in range(8):
            name, pk = f"i{chance.randrange(70)}", f"p{chance.randrange(3)}"
            for each in (plain, indexed):
                assert service.raw("DELETE", f"{each.path}/{name}", pk=pk).status in (204, 404)
        if round_ == 0:
            indexed.define((A,), (B,), (N,), (ID,), (A, (("n",), True)), (N, A))
        second += chance.choice([0, 3, 30])
        service.at(second)
        for _ in range(40):
            ask_both(chance, plain, indexed)


def ask_both(chance: random.Random, plain: Indexed, indexed: Indexed) -> None:
    text = chance.choice(TEXTS)
    names = [f"@p{n}" for n in range(text.count("{}"))]
    parameters = {name: chance.choice(VALUES) for name in names}
    asked: dict[str, Any] = {"size": chance.choice([1, 3, 1000])}
    if chance.random() < 0.3:
        asked["pk"] = f"p{chance.randrange(3)}"
    expected, _ = plain.query(text.format(*names), parameters, **asked)
    found, _ = indexed.query(text.format(*names), parameters, **asked)
    if "*" in text:
        expected, found = ([item["id"] for item in rows] for rows in (expected, found))
    assert found == expected, (text, parameters, asked)


@pytest.fixture
def hundred(make: Callable[..., Indexed], service: Service) -> Indexed:
    """100 items of ten partitions: `a` has each value ten times, `n` is unique, `b.c` is 1 for half of them."""
    made = make()
    rows = [{"id": f"i{n}", "pk": f"p{n % 10}", "a": n // 10, "n": n, "b": {"c": n % 2}} for n in range(100)]
    service.fill(made.proxy, rows)
    return made


@pytest.mark.parametrize(
    ("keys", "text", "pk", "read"),
    [
        ([(A,)], "SELECT VALUE c.n FROM c WHERE c.a = 3", ..., 10),
        ([(A,)], "SELECT VALUE c.n FROM c WHERE c.a = 3", "p4", 1),
        ([(A,)], "SELECT VALUE c.n FROM c WHERE c.a > 3", "p4", 10),
        ([(A,)], "SELECT VALUE c.n FROM c WHERE c.a > 6 AND c.a < 9", ..., 40),
        ([(A,)], "SELECT VALUE c.n FROM c WHERE c.a IN (1, 2) AND c.n > 15", ..., 20),
        ([(A,), (B,)], "SELECT VALUE c.n FROM c WHERE c.a = 3 AND c.b.c = 1", ..., 5),
        ([(A,)], "SELECT VALUE c.n FROM c WHERE c.a = 3 OR c.n = 4", ..., 100),
        ([(A,)], "SELECT VALUE c.n FROM c WHERE c.a = 'none'", ..., 0),
        ([(A,)], "SELECT VALUE c.n FROM c WHERE c.a = undefined", ..., 0),
        ([(A,)], "SELECT VALUE COUNT(1) FROM c WHERE c.a = 3", ..., 10),
        ([(ID,)], "SELECT VALUE c.n FROM c WHERE c.id = 'i77'", ..., 1),
        ([(N,)], "SELECT TOP 3 VALUE c.n FROM c ORDER BY c.n", ..., 4),
        ([(N,)], "SELECT TOP 3 VALUE c.n FROM c ORDER BY c.n DESC", ..., 4),
        ([(N,)], "SELECT TOP 3 VALUE c.n FROM c WHERE c.n >= 50 ORDER BY c.n", ..., 4),
        ([(A,)], "SELECT TOP 3 VALUE c.n FROM c ORDER BY c.a", ..., 10),
        ([(N,), (A,)], "SELECT VALUE c.n FROM c WHERE c.a = 3 ORDER BY c.n", ..., 10),
        ([(A, (("n",), True))], "SELECT TOP 3 VALUE c.n FROM c ORDER BY c.a, c.n DESC", ..., 4),
        ([(A, (("n",), True))], "SELECT TOP 3 VALUE c.n FROM c ORDER BY c.a DESC, c.n", ..., 4),
    ],
)
def test_number_of_records_that_queries_read(
    hundred: Indexed, keys: list[SortKeys], text: str, pk: Any, read: int
) -> None:
    """`read` as `retrievedDocumentCount` says it: an ordered walk stops behind the first item that is not needed."""
    expected, everything = hundred.query(text, pk=pk)
    assert everything == (100 if pk is ... else 10)
    hundred.define(*keys)
    found, count = hundred.query(text, pk=pk)
    assert found == expected
    assert count <= read + 1


@everywhere
def test_pages_in_the_order_of_an_index(hundred: Indexed) -> None:
    """Each page begins where the last one ended, without reading what came before."""
    hundred.define((N,))
    pages = list(hundred.pages("SELECT VALUE c.n FROM c ORDER BY c.n DESC", None, 10))
    assert [row for page in pages for row in page.json["Documents"]] == list(range(99, -1, -1))
    assert max(map(retrieved, pages)) <= 13


@everywhere
@pytest.mark.parametrize("change", ["define", "drop"])
def test_pages_go_on_when_indexes_come_and_go(hundred: Indexed, change: str) -> None:
    """A continuation token says how far it was, not by which index."""
    if change == "drop":
        hundred.define((A,), (N,))
    for text, expected in [
        ("SELECT VALUE c.n FROM c WHERE c.a IN (2, 5)", [*range(20, 30), *range(50, 60)]),
        ("SELECT VALUE c.n FROM c ORDER BY c.n", list(range(100))),
    ]:
        pages = hundred.pages(text, None, 7)
        rows = next(pages).json["Documents"]
        if change == "define" and not hundred.indexes:
            hundred.define((A,), (N,))
        elif change == "drop":
            forbid(hundred, "/a/?", "/n/?")
        assert rows + [row for page in pages for row in page.json["Documents"]] == expected


def forbid(indexed: Indexed, *paths: str) -> None:
    """Replace the container with a policy that excludes these paths."""
    service, link = indexed.service, "/" + indexed.proxy.container_link
    body = service.raw("GET", link).json
    body["indexingPolicy"] = {"excludedPaths": [{"path": path} for path in paths]}
    assert service.raw("PUT", link, body).status == 200
    indexed.settled()


@everywhere
def test_an_index_that_goes_while_it_is_read(hundred: Indexed, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page is made again, by scanning."""
    hundred.define((A,), (N,))
    indexes = hundred._engine.indexes
    for text in ("SELECT VALUE c.n FROM c ORDER BY c.n", "SELECT VALUE c.n FROM c WHERE c.a IN (2, 5)"):
        expected, _ = hundred.query(text)
        for name in ("walk", "seek"):
            read = getattr(indexes, name)

            def then_drop(*arguments: Any, read: Any = read) -> Any:
                monkeypatch.setattr(indexes, "has_all", has_none)
                return read(*arguments)

            monkeypatch.setattr(indexes, name, then_drop)
        assert hundred.query(text)[0] == expected
        monkeypatch.undo()


async def has_none(container: int, asked: Any) -> bool:
    return not asked


@everywhere
def test_the_policy_decides(hundred: Indexed) -> None:
    """Excluded paths lose their index and get none; `none` loses all; no etag moves."""
    etag = hundred.service.raw("GET", "/" + hundred.proxy.container_link).headers["etag"]
    hundred.define((A,), (N,), (ID,), (A, (("n",), True)))
    assert hundred.service.raw("GET", "/" + hundred.proxy.container_link).headers["etag"] == etag
    forbid(hundred, "/a/?")
    assert [index.keys for index in hundred.indexes] == [(N,), (ID,)]
    body = hundred.service.raw("GET", "/" + hundred.proxy.container_link).json
    body["indexingPolicy"] = {"indexingMode": "none"}
    assert hundred.service.raw("PUT", "/" + hundred.proxy.container_link, body).status == 200
    assert hundred.settled() == ()
    assert hundred.query("SELECT VALUE c.n FROM c WHERE c.id = 'i3'") == ([3], 100)


@pytest.fixture
def eager(tmp_path: Any) -> Iterator[Service]:
    """A server that builds indexes after 100 items that were read in vain."""
    with serve(memory=True, port=0, index_after=100) as server:
        service = Service(server, "memory")
        yield service
        service.close()


def filled(service: Service, policy: dict[str, Any] = POLICY) -> Indexed:
    made = Indexed(service, service.container(indexing_policy=policy))
    service.fill(
        made.proxy, [{"id": f"i{n}", "pk": f"p{n % 4}", "a": n % 20, "n": n, "secret": {"x": n}} for n in range(60)]
    )
    return made


@everywhere
@pytest.mark.parametrize(
    ("text", "pk", "built"),
    [
        ("SELECT * FROM c WHERE c.a = 3", ..., (A,)),
        ("SELECT * FROM c WHERE c.a = 3 AND c.n > 9", ..., (A,)),
        ("SELECT * FROM c WHERE c.id = 'i3'", ..., (ID,)),
        ("SELECT * FROM c WHERE c.n > 50", ..., (N,)),
        ("SELECT TOP 1 * FROM c ORDER BY c.n DESC", ..., (N,)),
        ("SELECT TOP 1 * FROM c ORDER BY c.a DESC, c.n", ..., (A, (("n",), True))),
        ("SELECT VALUE COUNT(1) FROM c WHERE c.a = 3", ..., (A,)),
        ("SELECT * FROM c WHERE c.a = 3", "p3", (A,)),
        ("SELECT * FROM c WHERE c.a > 18", "p3", None),
        ("SELECT TOP 1 * FROM c ORDER BY c.n", "p3", None),
        ("SELECT * FROM c", ..., None),
        ("SELECT * FROM c WHERE c.secret.x = 3", ..., None),
        ("SELECT * FROM c WHERE c._ts > 99999999999", ..., None),
        ("SELECT * FROM c WHERE c.a != 100 AND CONTAINS(c.id, 'none')", ..., None),
    ],
)
def test_an_index_comes_when_queries_need_it(eager: Service, text: str, pk: Any, built: SortKeys | None) -> None:
    container = filled(eager)
    first = container.query(text, pk=pk)
    for _ in range(20):
        container.query(text, pk=pk)
    assert [index.keys for index in container.settled()] == ([] if built is None else [built])
    assert container.query(text, pk=pk)[0] == first[0]


@everywhere
def test_no_more_than_eight(eager: Service) -> None:
    container = filled(eager)
    for path in "bdefghijklm":
        for _ in range(2):
            assert container.query(f"SELECT * FROM c WHERE c.{path} = 3")[0] == []
        container.settled()
    assert len(container.indexes) == 8


@everywhere
def test_writes_during_a_build_are_indexed(service: Service, make: Callable[..., Indexed]) -> None:
    """Writes and a build side by side: nothing is missed, nothing is found under what it was."""
    container = make()
    service.fill(container.proxy, [{"id": f"i{n}", "pk": f"p{n % 4}", "a": 0} for n in range(600)])
    engine, home = service.server._admin.engine, service.server._home
    home.call(engine.indexes.define(container.id, (A,), ContainerView.index_keys, MAX_BUILT_INDEXES))
    for n in range(0, 600, 25):
        body = {"id": f"i{n}", "pk": f"p{n % 4}", "a": 1}
        assert service.raw("PUT", f"{container.path}/i{n}", body, pk=body["pk"]).status == 200
    assert container.settled()[0].state == "ready"
    assert container.query("SELECT VALUE COUNT(1) FROM c WHERE c.a = 1") == ([24], 24)
    assert container.query("SELECT VALUE COUNT(1) FROM c WHERE c.a = 0") == ([576], 576)


@everywhere
def test_switching_ttl_leaves_answers_whole(hundred: Indexed, service: Service) -> None:
    """Indexes hold what is hidden as well: what comes back is found at once, what dies is not."""
    hundred.define((A,))
    text = "SELECT VALUE c.n FROM c WHERE c.a = 3"
    for second, default, expected in [(5, 1, 0), (6, None, 10), (7, 100, 10), (7, 3, 0), (8, -1, 10)]:
        service.at(second)
        service.set_default_ttl(hundred.proxy, default)
        assert len(hundred.query(text)[0]) == expected, (second, default)


@everywhere
def test_an_interrupted_build_goes_on(hundred: Indexed) -> None:
    """A query that meets an index which is not complete has it completed."""
    container, indexes = hundred.id, hundred._engine.indexes

    async def interrupted() -> None:
        await indexes.define(container, (A,), ContainerView.index_keys, MAX_BUILT_INDEXES)
        await indexes.close()

    hundred._call(interrupted())
    assert hundred.indexes[0].state == "building"
    assert hundred.query("SELECT VALUE c.n FROM c WHERE c.a = 3")[1] == 100
    assert hundred.settled()[0].state == "ready"


@everywhere
def test_a_query_does_not_fail_with_its_index(eager: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be written is logged; the query has its answer, and another one asks again."""
    container = filled(eager)

    async def full(*_: Any) -> None:
        raise Unavailable("the disk is full")

    monkeypatch.setattr(container._engine.indexes, "define", full)
    for _ in range(3):
        assert len(container.query("SELECT * FROM c WHERE c.a = 3")[0]) == 3
    assert container.settled() == ()
    monkeypatch.undo()
    for _ in range(2):
        container.query("SELECT * FROM c WHERE c.a = 3")
    assert [index.keys for index in container.settled()] == [(A,)]


@everywhere
def test_ranking_asks_for_no_index(eager: Service) -> None:
    """It looks at every item in any case."""
    container = filled(eager)
    for _ in range(4):
        container.query("SELECT TOP 1 * FROM c WHERE c.a > 3 ORDER BY RANK FullTextScore(c.id, 'i3')", pk="p3")
    assert container.settled() == ()


@everywhere
def test_another_source_may_be_called_root(hundred: Indexed, service: Service) -> None:
    """Then ROOT is not the document, whose index has nothing to say of it."""
    rows = [{"id": f"r{n}", "pk": "r", "a": 9 - n, "items": [{"a": 1, "n": n}]} for n in range(5)]
    service.fill(hundred.proxy, rows)
    text = "SELECT VALUE root.n FROM c JOIN root IN c.items WHERE root.a = 1"
    assert hundred.query(text)[0] == [0, 1, 2, 3, 4]
    hundred.define((A,))
    assert hundred.query(text, size=2)[0] == [0, 1, 2, 3, 4]
