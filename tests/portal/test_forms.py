"""Scale & Settings as forms, without scripts: what is saved, what is asked first, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from azure.cosmos import ContainerProxy, DatabaseProxy, PartitionKey

from mayflydb.embedded import RunningServer
from portal.visitor import Visitor

in_memory = pytest.mark.parametrize("store", ["memory"], indirect=True, scope="session")
"""Marks what is decided before a store is asked: one of them is enough."""

SAVE = "CommandBar/Button:Save"
SAID = "notification-console/header-status"
PREVIEW = "mf-ttl-preview"


def sessions(shop: DatabaseProxy, **options: Any) -> ContainerProxy:
    made: ContainerProxy = shop.create_container("sessions", PartitionKey("/pk"), offer_throughput=400, **options)
    return made


def fill(container: ContainerProxy) -> None:
    """One that follows the default, one that never goes, one of 60 seconds."""
    container.create_item({"id": "default", "pk": "a"})
    container.create_item({"id": "never", "pk": "a", "ttl": -1})
    container.create_item({"id": "own", "pk": "a", "ttl": 60})


def alive(container: ContainerProxy) -> set[str]:
    return {item["id"] for item in container.query_items("SELECT c.id FROM c", enable_cross_partition_query=True)}


def test_off_to_on_and_the_data_obeys(server: RunningServer, shop: DatabaseProxy, visitor: Visitor) -> None:
    container = sessions(shop)
    fill(container)
    server.clock.advance(hours=1)
    assert alive(container) == {"default", "never", "own"}

    # An own ttl counts from the moment the container is on: 60 s have long passed.
    form = visitor.settings("shop", "sessions")
    assert form.page.text(SAVE) == "Save"
    assert (
        form.fill(timeToLive="no-default").press("preview").text(PREVIEW).startswith("1 item would expire now, of 3.")
    )
    assert form.press("save").text(SAVE) == "Save and expire 1"
    assert "defaultTtl" not in container.read()
    assert form.press("save").text(SAID) == "Successfully updated container sessions"
    assert container.read()["defaultTtl"] == -1
    assert alive(container) == {"default", "never"}

    form = visitor.settings("shop", "sessions")
    assert form.page.text(SAID) == "", "a message is said once"
    page = form.fill(timeToLive="on", timeToLiveSeconds="7200").press("preview")
    assert page.text(PREVIEW).startswith("0 items would expire now, of 2; 1 more within the hour.")
    assert page.text("mf-ttl-human") == "= 2 h"
    assert form.press("save").text(SAID) == "Successfully updated container sessions"
    assert container.read()["defaultTtl"] == 7200
    server.clock.advance(seconds=3599)
    assert alive(container) == {"default", "never"}
    server.clock.advance(seconds=1)
    assert alive(container) == {"never"}


def test_turning_off_brings_hidden_items_back(shop: DatabaseProxy, server: RunningServer, visitor: Visitor) -> None:
    container = sessions(shop, default_ttl=100)
    fill(container)
    server.clock.advance(seconds=100, sweep="none")
    form = visitor.settings("shop", "sessions").fill(timeToLive="off")
    assert form.page.text("mf-truth-table").endswith("Items 0 1 0")
    assert "2 hidden items would come back." in form.press("preview").text(PREVIEW)
    form.press("save")
    assert alive(container) == {"default", "never", "own"}


def test_the_truth_table(shop: DatabaseProxy, visitor: Visitor) -> None:
    container = sessions(shop)
    fill(container)
    container.create_item({"id": "another", "pk": "a"})
    form = visitor.settings("shop", "sessions")
    head = "When items expire ttl missing ttl = -1 ttl = n "
    assert form.page.text("mf-truth-table") == head + "Now never expires never expires never expires Items 2 1 1"
    shown = form.fill(timeToLive="on", timeToLiveSeconds="1800").press("preview").text("mf-truth-table")
    assert shown == head + (
        "Now never expires never expires never expires "
        "After save expires after 30 min never expires expires after n seconds Items 2 1 1"
    )


@in_memory
@pytest.mark.parametrize(
    ("typed", "message", "shown"),
    [
        ("", "whole number of seconds from 1", ""),
        ("0", "whole number of seconds from 1", "0"),
        ("-5", "whole number of seconds from 1", "0"),
        ("soon", "whole number of seconds from 1", "0"),
        ("1.5", "whole number of seconds from 1", "0"),
        ("2147483648", "2147483647 seconds is the longest", "2147483647"),
    ],
)
def test_seconds_that_are_none(shop: DatabaseProxy, visitor: Visitor, typed: str, message: str, shown: str) -> None:
    container = sessions(shop)
    page = visitor.settings("shop", "sessions").fill(timeToLive="on", timeToLiveSeconds=typed).press("save")
    assert page.status == 400
    assert message in page.text("alert")
    assert page.fields["timeToLiveSeconds"] == shown
    assert "defaultTtl" not in container.read()


@in_memory
@pytest.mark.parametrize("seconds", [1, 2147483647])
def test_the_bounds_themselves_are_saved(shop: DatabaseProxy, visitor: Visitor, seconds: int) -> None:
    container = sessions(shop)
    visitor.settings("shop", "sessions").fill(timeToLive="on", timeToLiveSeconds=str(seconds)).press("save")
    assert container.read()["defaultTtl"] == seconds


@in_memory
def test_more_than_was_agreed_to_is_asked_again(shop: DatabaseProxy, server: RunningServer, visitor: Visitor) -> None:
    container = sessions(shop)
    for number in range(10):
        container.create_item({"id": f"{number}", "pk": "a"})
    server.clock.advance(seconds=60)
    form = visitor.settings("shop", "sessions").fill(timeToLive="on", timeToLiveSeconds="60")
    assert form.press("save").text(SAVE) == "Save and expire 10"
    for number in range(2):
        container.create_item({"id": f"late {number}", "pk": "a"})
    server.clock.advance(seconds=60)
    assert form.press("save").text(SAVE) == "Save and expire 12"
    # Another setting is another question, even of as many items.
    assert form.fill(timeToLiveSeconds="59").press("save").text(SAVE) == "Save and expire 12"
    assert form.press("save").text(SAID) == "Successfully updated container sessions"
    assert alive(container) == set()


@in_memory
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"timeToLive": "perhaps"}, "Time to Live is Off, On (no default) or On."),
        ({"throughputMode": "perhaps"}, "Throughput is Manual or Autoscale."),
        ({"throughputMode": "manual", "manualThroughput": ""}, "Throughput is 400 to 1000000 RU/s in steps of 100."),
        ({"geoSpatialConfig": "Flat"}, "geospatialConfig.type"),
    ],
)
def test_choices_that_are_none(shop: DatabaseProxy, visitor: Visitor, fields: dict[str, str], message: str) -> None:
    container = sessions(shop)
    before = container.read()
    page = visitor.settings("shop", "sessions").fill(**fields).press("save")
    assert page.status == 400 and message in page.text("alert")
    assert container.read() == before and container.get_throughput().offer_throughput == 400


@in_memory
def test_discard(shop: DatabaseProxy, visitor: Visitor) -> None:
    container = sessions(shop, default_ttl=3600)
    page = visitor.settings("shop", "sessions").fill(timeToLive="off").press("discard")
    assert page.fields["timeToLive"] == "on" and page.fields["timeToLiveSeconds"] == "3600"
    assert container.read()["defaultTtl"] == 3600


@in_memory
def test_nothing_to_save(shop: DatabaseProxy, visitor: Visitor) -> None:
    container = sessions(shop, default_ttl=3600)
    etag = container.read()["_etag"]
    assert visitor.settings("shop", "sessions").press("save").text(SAID) == "There was nothing to save"
    assert container.read()["_etag"] == etag


def test_what_somebody_else_has_saved_stays(shop: DatabaseProxy, visitor: Visitor) -> None:
    container = sessions(shop)
    form = visitor.settings("shop", "sessions").fill(timeToLive="on", timeToLiveSeconds="60")
    shop.replace_container(container, PartitionKey("/pk"), default_ttl=7200)
    page = form.press("save")
    assert page.status == 412
    assert "This container was changed" in page.text("alert")
    assert container.read()["defaultTtl"] == 7200
    assert form.press("discard").fields["timeToLiveSeconds"] == "7200"


@in_memory
def test_what_the_page_does_not_show_is_kept(shop: DatabaseProxy, visitor: Visitor) -> None:
    container = sessions(
        shop,
        unique_key_policy={"uniqueKeys": [{"paths": ["/name"]}]},
        conflict_resolution_policy={"mode": "LastWriterWins", "conflictResolutionPath": "/when"},
        computed_properties=[{"name": "lower", "query": "SELECT VALUE LOWER(c.name) FROM c"}],
    )
    before = container.read()
    visitor.settings("shop", "sessions").fill(timeToLive="on", timeToLiveSeconds="60").press("save")
    after = container.read()
    assert after.pop("defaultTtl") == 60
    assert {name: value for name, value in after.items() if name not in ("_etag", "_ts")} == {
        name: value for name, value in before.items() if name not in ("_etag", "_ts")
    }


@in_memory
def test_the_indexing_policy(shop: DatabaseProxy, visitor: Visitor) -> None:
    container = sessions(shop)
    policy = {"indexingMode": "consistent", "includedPaths": [{"path": "/*"}], "excludedPaths": [{"path": "/big/*"}]}
    form = visitor.settings("shop", "sessions").fill(indexingPolicy=json.dumps(policy))
    assert form.press("save").text(SAID) == "Successfully updated container sessions"
    assert {"path": "/big/*"} in container.read()["indexingPolicy"]["excludedPaths"]


@in_memory
@pytest.mark.parametrize(
    ("policy", "ttl", "message"),
    [
        ('{"indexingMode": "none"}', "no-default", "Time to Live needs an index"),
        ('{"indexingMode": "none", "automatic": false}', "on", "Time to Live needs an index"),
        ('{"indexingMode"', "off", "not JSON"),
        ("[]", "off", "must be a JSON object"),
        ('{"indexingMode": "sometimes"}', "off", "indexingMode"),
    ],
)
def test_policies_that_are_refused(shop: DatabaseProxy, visitor: Visitor, policy: str, ttl: str, message: str) -> None:
    container = sessions(shop)
    before = container.read()
    form = visitor.settings("shop", "sessions")
    page = form.fill(indexingPolicy=policy, timeToLive=ttl, timeToLiveSeconds="60").press("save")
    assert page.status == 400
    assert message in page.text("alert")
    assert page.fields["indexingPolicy"] == policy, "what was typed is not lost"
    assert container.read() == before


@in_memory
def test_computed_properties(shop: DatabaseProxy, visitor: Visitor) -> None:
    container = sessions(shop)
    computed = [{"name": "cp_lower", "query": "SELECT VALUE LOWER(c.name) FROM c"}]
    form = visitor.settings("shop", "sessions")
    assert form.page.fields["computedProperties"] == "[]"
    assert (
        form.fill(computedProperties=json.dumps(computed)).press("save").text(SAID).startswith("Successfully updated")
    )
    assert container.read()["computedProperties"] == computed
    container.create_item({"id": "1", "pk": "a", "name": "ADA"})
    found = container.query_items("SELECT VALUE c.cp_lower FROM c", enable_cross_partition_query=True)
    assert [str(each) for each in found] == ["ada"]
    for text, message in (
        ("[", "not JSON"),
        ("{}", "JSON array"),
        ("[{}]", "'name' and a 'query'"),
        ('[{"name": "pk", "query": "SELECT VALUE 1 FROM c"}]', "partition key"),
    ):
        page = form.fill(computedProperties=text).press("save")
        assert page.status == 400 and message in page.text("alert"), text
        assert page.fields["computedProperties"] == text
    assert form.fill(computedProperties="[]").press("save").text(SAID).startswith("Successfully updated")
    assert not container.read().get("computedProperties")


@in_memory
def test_policies_are_shown(shop: DatabaseProxy, visitor: Visitor) -> None:
    shop.create_container(
        "papers",
        PartitionKey("/pk"),
        unique_key_policy={"uniqueKeys": [{"paths": ["/title"]}]},
        vector_embedding_policy={
            "vectorEmbeddings": [{"path": "/v", "dataType": "float32", "dimensions": 3, "distanceFunction": "cosine"}]
        },
        full_text_policy={"defaultLanguage": "en-US", "fullTextPaths": [{"path": "/abstract", "language": "en-US"}]},
    )
    source = visitor.settings("shop", "papers").page.source
    for shown in ('aria-label="Unique key policy"', "&#34;/title&#34;", "&#34;cosine&#34;", "&#34;/abstract&#34;"):
        assert shown in source
    sessions(shop)
    assert 'aria-label="Vector policy"' not in visitor.settings("shop", "sessions").page.source


@in_memory
def test_geospatial(shop: DatabaseProxy, visitor: Visitor) -> None:
    container = sessions(shop)
    visitor.settings("shop", "sessions").fill(geoSpatialConfig="Geometry").press("save")
    assert container.read()["geospatialConfig"] == {"type": "Geometry"}


@in_memory
def test_throughput(shop: DatabaseProxy, visitor: Visitor) -> None:
    container = sessions(shop)
    done = "Successfully updated offer for collection sessions"
    form = visitor.settings("shop", "sessions")
    assert form.fill(manualThroughput="1200").press("save").text(SAID) == done
    assert container.get_throughput().offer_throughput == 1200
    form.fill(throughputMode="autoscale", autoscaleThroughput="5000")
    assert form.press("save").text(SAID) == done
    assert container.get_throughput().auto_scale_max_throughput == 5000
    page = form.fill(autoscaleThroughput="5500").press("save")
    assert page.status == 400 and page.text("alert") == "Throughput is 1000 to 1000000 RU/s in steps of 1000."
    form.press("discard")
    assert form.fill(throughputMode="manual", manualThroughput="600").press("save").text(SAID) == done
    assert container.get_throughput().offer_throughput == 600


@in_memory
def test_a_container_that_shares_throughput_has_no_scale(
    server: RunningServer, clients: dict[str, Any], shop: DatabaseProxy, visitor: Visitor
) -> None:
    shared = clients[server.cosmos.url].create_database("shared", offer_throughput=400)
    shared.create_container("c", PartitionKey("/pk"))
    sessions(shop)
    page = visitor.settings("shared", "c").page
    assert "manualThroughput" not in page.fields
    assert "TreeNode:shared/c/Settings" in page.texts and "TreeNode:shared/c/Scale & Settings" not in page.texts
    assert "TreeNode:shop/sessions/Scale & Settings" in page.texts
