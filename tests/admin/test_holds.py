"""Legal holds, as clients of all three protocols and of the admin API meet them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
import ydb
from azure.cosmos import PartitionKey
from azure.cosmos.exceptions import CosmosHttpResponseError
from pymongo.errors import BulkWriteError, OperationFailure

from admin.three_protocols import NOW, TARGETS, Site
from served import Http

WHERE = {"cosmos": 'c.id = "1"', "mongo": '{"_id": 1}', "ydb": "id = 1"}
RECORDS = {
    "cosmos": {"id": "1", "text": "äö" * 10},
    "mongo": {"_id": 1, "at": {"$date": "2030-01-01T00:00:00Z"}},
    "ydb": {"id": 1, "until": "2030-01-01T00:00:00Z"},
}


@pytest.fixture(autouse=True)
def end_of_holds(site: Site) -> Iterator[None]:
    """The server is emptied before the next test, which a hold would refuse."""
    yield
    for each in site.http.get("holds")["holds"]:
        site.server.release_hold(each["name"], why="the test is over", by="Ada")


def hold(site: Site, **more: Any) -> None:
    """A hold on each container: `cosmos-h`, `mongo-h`, `ydb-h`."""
    for name, target in TARGETS.items():
        site.http.post("holds", target=target, name=f"{name}-h", where=WHERE[name], why="a case", by="Ada", **more)


def held(site: Site) -> dict[str, list[dict[str, Any]]]:
    return {name: site.server.read_held(f"{name}-h") for name in TARGETS}


def release(site: Site) -> dict[str, int]:
    return {name: site.server.release_hold(f"{name}-h", why="over", by="Bob") for name in TARGETS}


def expired(site: Site) -> list[tuple[str, str]]:
    return sorted((event.target, str(event.id)) for event in site.server.events.expired)


# --- ways of leaving -----------------------------------------------------------------------------------------------------


def expire(site: Site) -> None:
    site.server.clock.advance(hours=2)


def delete_all(site: Site) -> None:
    """Every record, by the commands that delete many."""
    for n in range(3):
        site.sessions.delete_item(str(n), str(n))
    site.otps.delete_many({})
    site.query("DELETE FROM carts")


def edit(site: Site) -> None:
    for n in range(3):
        site.sessions.upsert_item({"id": str(n), "text": "new"})
    site.otps.update_many({}, {"$set": {"text": "new"}})
    site.query("UPDATE carts SET until = NULL")


@pytest.mark.parametrize(("leave", "end"), [(expire, "expired"), (delete_all, "deleted"), (edit, "replaced")])
def test_what_matches_is_preserved_and_clients_see_the_contract(
    site: Site, leave: Callable[[Site], None], end: str
) -> None:
    hold(site)
    leave(site)
    for name, records in held(site).items():
        (record,) = records
        assert (record["record"], record["end"], record["id"]) == (RECORDS[name], end, "1")
        assert (record["target"], record["holds"], record["undecided"]) == (TARGETS[name], [f"{name}-h"], [])
        assert (record["deadline"], record["reason"] is None) == (
            ("2030-01-01T00:01:40Z", False) if end == "expired" else (None, True)
        )
    seen = [] if end != "replaced" else [0, 1, 2]
    assert all(ids == seen for ids in site.ids().values())
    # The death of a preserved record is not told before the release.
    others = sorted((target, id) for target in TARGETS.values() for id in "02") if end == "expired" else []
    assert expired(site) == others
    assert release(site) == dict.fromkeys(TARGETS, 1)
    assert expired(site) == sorted(others + [(target, "1") for target in TARGETS.values() if end == "expired"])


def test_a_record_that_a_new_one_replaces_is_preserved(site: Site) -> None:
    """Hidden records: of Cosmos DB, and of the others by grace."""
    site.keep("1d")
    hold(site)
    site.server.clock.advance(seconds=150)
    assert all(not records for records in held(site).values())
    site.sessions.create_item({"id": "1", "text": "new"})
    site.otps.insert_one({"_id": 1})
    site.query("INSERT INTO carts (id) VALUES (1)")
    assert {name: [each["record"] for each in found] for name, found in held(site).items()} == {
        name: [record] for name, record in RECORDS.items()
    }


def test_the_delete_of_a_partition_preserves(site: Site) -> None:
    hold(site)
    for n in range(3):
        site.sessions.delete_all_items_by_partition_key(str(n))
    assert [each["end"] for each in held(site)["cosmos"]] == ["deleted"]


def test_what_a_capped_collection_has_no_room_for_is_preserved(site: Site) -> None:
    capped = site.otps.database.create_collection("recent", capped=True, size=4096, max=2)
    site.server.add_hold("mongo:app.recent", "case", why="a case", by="Ada")
    for n in range(4):
        capped.insert_one({"_id": n})
    assert [each["record"]["_id"] for each in site.server.read_held("case")] == [0, 1]


def test_a_view_is_not_held(site: Site) -> None:
    site.otps.database.command("create", "shown", viewOn="otps")
    site.query("CREATE VIEW shown WITH (security_invoker = TRUE) AS SELECT id FROM carts")
    for target in ("mongo:app.shown", "ydb:/local/shown", "cosmos:shop"):
        assert site.refuse("holds", target=target, name="h", why="a case", by="Ada")[0] == 400


def test_transactions_and_bulk_writes_preserve(site: Site) -> None:
    hold(site)
    site.sessions.execute_item_batch([("delete", ("1",))], partition_key="1")
    client = site.otps.database.client
    with client.start_session() as session, session.start_transaction():
        site.otps.replace_one({"_id": 1}, {"text": "new"}, session=session)
        site.otps.delete_one({"_id": 1}, session=session)
    with ydb.QuerySessionPool(site.driver) as pool:

        def write(transaction: ydb.QueryTxContext) -> None:
            with transaction.execute("UPSERT INTO carts (id, until) VALUES (1, NULL)"):
                pass
            with transaction.execute("DELETE FROM carts WHERE id = 1", commit_tx=True):
                pass

        pool.retry_tx_sync(write)
    ends = {name: [each["end"] for each in records] for name, records in held(site).items()}
    assert ends == {"cosmos": ["deleted"], "mongo": ["replaced", "deleted"], "ydb": ends["ydb"]}
    # A version that the transaction itself wrote is its own; the one that was committed is preserved.
    assert RECORDS["ydb"] in [each["record"] for each in held(site)["ydb"]]


# --- filters -------------------------------------------------------------------------------------------------------------

DOCUMENT = {"id": "1", "userId": "u1", "n": 5, "tags": ["a", "b"], "at": NOW.isoformat()}

COSMOS_FILTERS = [
    ('c.userId = "u1"', True),
    ('c.userId = "u2"', False),
    ('c.userId IN ("u1", "u2") AND c.n > 4', True),
    ("c.n BETWEEN 6 AND 9", False),
    ('ARRAY_CONTAINS(c.tags, "b")', True),
    ("IS_DEFINED(c.missing)", False),
    ("c.missing = 1", False),
    ('STARTSWITH(c.userId, "u") -- a comment', True),
    ("c._ts >= 1893456000", True),
    ("c._ts < 1893456000", False),
    (None, True),
]


@pytest.mark.parametrize(("where", "matches"), COSMOS_FILTERS)
def test_conditions_on_items(site: Site, where: str | None, matches: bool) -> None:
    target = "cosmos:shop/cases"
    cases = site.server.cosmos.client().get_database_client("shop").create_container("cases", PartitionKey("/id"))
    cases.create_item(DOCUMENT)
    counted = site.server.add_hold(target, "case", where=where, why="a case", by="Ada", dry_run=True)
    assert (counted["matching"], counted["exact"]) == (int(matches), True)
    site.server.add_hold(target, "case", where=where, why="a case", by="Ada")
    cases.delete_item("1", "1")
    assert [each["record"] for each in site.server.read_held("case")] == [DOCUMENT] * matches


MONGO_FILTERS = [
    ("{}", True),
    ('{"userId": "u1"}', True),
    ("{userId: 'u1', n: {$gt: 4}}", True),
    ('{"n": {"$gt": 5}}', False),
    ('{"tags": "b"}', True),
    ('{"tags": {"$all": ["a", "c"]}}', False),
    ('{"$or": [{"userId": "u2"}, {"n": 5}]}', True),
    ('{"$expr": {"$eq": ["$userId", "u1"]}}', True),
    ('{"userId": {"$regex": "^u"}}', True),
    ('{"missing": {"$exists": true}}', False),
    (None, True),
]


@pytest.mark.parametrize(("where", "matches"), MONGO_FILTERS)
def test_filters_of_documents(site: Site, where: str | None, matches: bool) -> None:
    target = "mongo:app.cases"
    cases = site.otps.database["cases"]
    cases.insert_one({"_id": 1, **DOCUMENT})
    counted = site.server.add_hold(target, "case", where=where, why="a case", by="Ada", dry_run=True)
    assert (counted["matching"], counted["exact"]) == (int(matches), True)
    site.server.add_hold(target, "case", where=where, why="a case", by="Ada")
    cases.delete_one({"_id": 1})
    assert [each["record"] for each in site.server.read_held("case")] == [{"_id": 1, **DOCUMENT}] * matches


YDB_FILTERS = [
    ("user = 'u1'", True),
    ('user = "u2"', False),
    ("user IN ('u1', 'u2') AND n > 4", True),
    ("n BETWEEN 6 AND 9", False),
    ("user IS NULL", False),
    ("missing IS NULL", True),
    ("missing = 1", False),
    ("StartsWith(user, 'u')", True),
    ("at >= CAST('2030-01-01T00:00:00Z' AS Timestamp)", True),
    ("n > 4 -- a comment", True),
    (None, True),
]


@pytest.mark.parametrize(("where", "matches"), YDB_FILTERS)
def test_predicates_on_rows(site: Site, where: str | None, matches: bool) -> None:
    target = "ydb:/local/cases"
    site.query("CREATE TABLE cases (id Int64, user Utf8, n Int32, at Timestamp, missing Int64, PRIMARY KEY (id))")
    site.query("UPSERT INTO cases (id, user, n, at) VALUES (1, 'u1', 5, CAST('2030-01-01T00:00:00Z' AS Timestamp))")
    counted = site.server.add_hold(target, "case", where=where, why="a case", by="Ada", dry_run=True)
    assert (counted["matching"], counted["exact"]) == (int(matches), True)
    site.server.add_hold(target, "case", where=where, why="a case", by="Ada")
    site.query("DELETE FROM cases WHERE id = 1")
    row = {"id": 1, "user": "u1", "n": 5, "at": "2030-01-01T00:00:00Z", "missing": None}
    assert [each["record"] for each in site.server.read_held("case")] == [row] * matches


REFUSED = [
    ("cosmos", "c.n >", "syntax"),
    ("cosmos", "c.n = 1 ORDER BY c.n", "one condition"),
    ("cosmos", "c.n = 1 OFFSET 0 LIMIT 1", "one condition"),
    ("cosmos", "c.n = @n", "parameter @n"),
    ("cosmos", "udf.f(c.n)", "user-defined function f"),
    ("cosmos", "EXISTS(SELECT VALUE t FROM t IN c.tags)", "subquery"),
    ("cosmos", "c.n > GetCurrentTimestamp()", "GetCurrentTimestamp"),
    ("cosmos", "c.n > RAND()", "RAND"),
    ("cosmos", 'RegexMatch(c.text, "(a+)+")', "longer"),
    ("mongo", "[1]", "no document"),
    ("mongo", "{", "no filter document"),
    ("mongo", '{"$where": "true"}', "$where"),
    ("mongo", '{"n": {"$unknown": 1}}', "operator that is none"),
    ("mongo", '{"$expr": {"$gt": ["$at", "$$NOW"]}}', "$$NOW"),
    ("mongo", '{"$sampleRate": 0.5}', "$sampleRate"),
    ("mongo", '{"text": {"$regex": "(a+)+"}}', "longer"),
    ("mongo", '{"$text": {"$search": "x"}}', "$text"),
    ("ydb", "id >", "no condition"),
    ("ydb", "id = 1; DROP TABLE carts", "no condition"),
    ("ydb", "missing = 1", "missing"),
    ("ydb", "id", "Bool"),
    ("ydb", "id = $n", "parameter"),
    ("ydb", "id IN (SELECT id FROM carts)", "subquery"),
    ("ydb", "until < CurrentUtcTimestamp()", "CurrentUtcTimestamp"),
    ("ydb", "Random(id) > 0.5", "Random"),
    ("ydb", 'CAST(id AS String) LIKE "%1%"', "longer"),
]


@pytest.mark.parametrize(("name", "where", "words"), REFUSED)
def test_what_no_filter_has_is_refused_by_name(site: Site, name: str, where: str, words: str) -> None:
    status, said = site.refuse("holds", target=TARGETS[name], name="h", where=where, why="a case", by="Ada")
    assert status == 400
    assert words.lower() in said.lower()
    assert site.http.get("holds")["holds"] == []


def test_a_filter_on_a_collection_with_a_collation_is_refused(site: Site) -> None:
    site.otps.database.create_collection("loose", collation={"locale": "en", "strength": 2})
    wanted = {"target": "mongo:app.loose", "name": "h", "why": "a case", "by": "Ada"}
    status, said = site.refuse("holds", where='{"a": 1}', **wanted)
    assert (status, "collation" in said) == (400, True)
    assert site.http.post("holds", **wanted)["hold"]["where"] is None


# --- drops ---------------------------------------------------------------------------------------------------------------

DROPS: list[tuple[str, Callable[[Site], object]]] = [
    ("cosmos", lambda site: site.server.cosmos.client().get_database_client("shop").delete_container("sessions")),
    ("cosmos", lambda site: site.server.cosmos.client().delete_database("shop")),
    ("mongo", lambda site: site.otps.drop()),
    ("mongo", lambda site: site.otps.database.client.drop_database("app")),
    ("mongo", lambda site: site.otps.database["other"].rename("otps", dropTarget=True)),
    ("mongo", lambda site: list(site.otps.aggregate([{"$match": {"_id": 7}}, {"$out": "otps"}]))),
    ("ydb", lambda site: site.query("DROP TABLE carts")),
    ("ydb", lambda site: site.query("ALTER TABLE carts RESET (TTL); ALTER TABLE carts DROP COLUMN until")),
]


@pytest.mark.parametrize(("name", "drop"), DROPS)
def test_drops_of_what_is_held_are_refused(site: Site, name: str, drop: Callable[[Site], object]) -> None:
    site.otps.database["other"].insert_one({})
    hold(site)
    with pytest.raises((CosmosHttpResponseError, OperationFailure, ydb.Error)) as caught:
        drop(site)
    assert f"legal hold {name}-h" in str(caught.value)
    if isinstance(caught.value, CosmosHttpResponseError):
        assert caught.value.status_code == 409
    if isinstance(caught.value, OperationFailure):
        assert caught.value.code == 20
    assert all(ids == [0, 1, 2] for ids in site.ids().values())
    release(site)
    drop(site)


def test_a_table_that_a_rename_would_replace_is_kept(site: Site) -> None:
    site.query("CREATE TABLE other (id Int64, PRIMARY KEY (id))")
    hold(site)
    item = ydb.RenameItem("/local/other", "/local/carts", replace_destination=True)

    def rename(session: ydb.Session) -> None:
        session.rename_tables([item])

    with ydb.SessionPool(site.driver) as pool, pytest.raises(ydb.Error, match="legal hold ydb-h"):
        pool.retry_operation_sync(rename, ydb.RetrySettings(max_retries=0))
    assert site.ids()["ydb"] == [0, 1, 2]


@pytest.mark.parametrize("target", [None, "cosmos:shop", "cosmos:shop/sessions"])
def test_resets_and_restores_are_refused(site: Site, target: str | None) -> None:
    site.http("PUT", "/_mayfly/snapshots/before")
    hold(site)
    for path, body in (("reset", {"target": target}), ("snapshots/before/restore", {})):
        status, said = site.refuse(path, **body)
        assert (status, "legal hold cosmos-h" in said, "hold-release" in said) == (
            409, True, True,
        )  # fmt: skip
    release(site)
    site.http.post("snapshots/before/restore")


# --- the rest of the admin API -------------------------------------------------------------------------------------------


def test_a_snapshot_carries_holds_and_what_they_preserve(site: Site) -> None:
    hold(site)
    site.server.clock.advance(hours=2)
    before = held(site)
    site.http("PUT", "/_mayfly/snapshots/held")
    release(site)
    assert site.http.get("holds")["holds"] == []
    site.http.post("snapshots/held/restore")
    assert held(site) == before
    assert release(site) == dict.fromkeys(TARGETS, 1)


def test_lists_and_the_record(site: Site, http: Http) -> None:
    hold(site, matter="7/2030", versions=False)
    wanted = {
        "name": "cosmos-h", "target": TARGETS["cosmos"], "where": WHERE["cosmos"], "versions": False, "why": "a case",
        "by": "Ada", "matter": "7/2030", "added": "2030-01-01T00:00:00Z", "released": None,
    }  # fmt: skip
    assert http.get("holds?target=cosmos:shop")["holds"] == [wanted]
    shown = http.get("holds/cosmos-h")
    assert (shown["hold"], shown["preserved"], shown["exact"], shown["first"]) == (wanted, 0, True, None)
    site.server.clock.advance(hours=2)
    shown = http.get("holds/cosmos-h")
    assert (shown["preserved"], shown["first"]) == (1, shown["last"])
    labels = 'protocol="cosmos",db="shop",container="sessions"'
    assert f"mayfly_hold_preserved_records{{{labels}}} 1" in http("GET", "/metrics").body.decode()
    release(site)
    lines = [line for line in http.get("hold-record")["lines"] if line["name"] == "cosmos-h"][-2:]
    assert [(line["action"], line["by"], line["why"], line["where"]) for line in lines] == [
        ("added", "Ada", "a case", WHERE["cosmos"]),
        ("released", "Bob", "over", None),
    ]
    for path in ("holds/cosmos-h", "holds/cosmos-h/records"):
        assert http("GET", f"/_mayfly/{path}").status == 404


def test_a_name_is_taken_once(site: Site) -> None:
    hold(site)
    status, said = site.refuse("holds", target=TARGETS["ydb"], name="mongo-h", why="another", by="Ada")
    assert (status, "there is a hold mongo-h" in said) == (409, True)


def test_change_feeds_and_streams_tell_removals_at_once(site: Site) -> None:
    hold(site)
    with site.otps.watch() as stream:
        site.otps.delete_one({"_id": 1})
        change = stream.next()
    assert (change["operationType"], change["documentKey"]) == ("delete", {"_id": 1})


def test_unordered_bulk_writes_meet_no_hold(site: Site) -> None:
    """A hold refuses no write of a record."""
    hold(site)
    with pytest.raises(BulkWriteError):
        site.otps.insert_many([{"_id": 1}, {"_id": 9, "at": NOW + timedelta(days=1)}], ordered=False)
    assert site.otps.count_documents({}) == 4


def test_the_feed_of_all_versions_tells_an_expiry_at_once(site: Site) -> None:
    shop = site.server.cosmos.client().get_database_client("shop")
    policy = {"retentionDuration": 60}
    feed = shop.create_container("feed", PartitionKey("/id"), default_ttl=100, change_feed_policy=policy)
    site.server.add_hold("cosmos:shop/feed", "case", why="a case", by="Ada")
    start = list(feed.query_items_change_feed(mode="AllVersionsAndDeletes"))
    token = feed.client_connection.last_response_headers["etag"]
    feed.create_item({"id": "1"})
    site.server.clock.advance(seconds=100)
    told = list(feed.query_items_change_feed(mode="AllVersionsAndDeletes", continuation=token))
    assert (start, [each["metadata"]["operationType"] for each in told]) == ([], ["create", "delete"])
    assert told[1]["metadata"]["timeToLiveExpired"] is True
    assert [each["end"] for each in site.server.read_held("case")] == ["expired"]
    assert "cosmos:shop/feed" not in {target for target, _ in expired(site)}
