"""The request units of the last hour: the bars, the sentence, and the pages that show them."""

from __future__ import annotations

import pytest
from azure.cosmos import DatabaseProxy, PartitionKey

from mayflydb.embedded import RunningServer
from mayflydb.engine.meter import MinuteUse
from mayflydb.portal.usage import HEIGHT, plot_usage
from portal.visitor import Visitor

NOTHING = MinuteUse(0.0, 0, 60.0)


def test_the_bars() -> None:
    plot = plot_usage([MinuteUse(600.0, 2, 60.0), NOTHING, MinuteUse(0.5, 0, 60.0), MinuteUse(50.0, 0, 10.0)])
    assert [(bar.height, bar.rate, bar.refused) for bar in plot.bars] == [
        (HEIGHT, "10", 2),
        (0, "0", 0),
        (2, "0.01", 0),
        (HEIGHT / 2, "5", 0),
    ]
    assert [bar.ago for bar in plot.bars] == [3, 2, 1, 0] and plot.ticks == ("10", "5", "0")
    assert plot.summary.endswith("the peak minute has 10 RU/s on average. 2 requests were throttled (429).")
    assert plot_usage([NOTHING] * 60).summary == "No request units were spent in the last 60 minutes."
    refused = plot_usage([MinuteUse(0.0, 1, 60.0)])
    assert not refused.ticks and refused.summary.endswith("1 request was throttled (429).")


@pytest.mark.parametrize("store", ["memory"], indirect=True, scope="session")
def test_the_pages(shop: DatabaseProxy, server: RunningServer, visitor: Visitor) -> None:
    container = shop.create_container("sessions", PartitionKey("/pk"), offer_throughput=400)
    here = "/_explorer/cosmos/shop/sessions/settings"
    assert visitor.get(here).text("mf-usage").startswith("No request units")
    container.create_item({"id": "1", "pk": "a"})
    headers = container.client_connection.last_response_headers
    spent = float(headers["x-ms-request-charge"])
    for twin in (f"{here}.json", "/_explorer/index.json"):
        minutes = visitor.json(twin)["last_60_minutes"]
        assert len(minutes) == 60
        assert sum(each["request_units"] for each in minutes) == pytest.approx(spent, abs=0.1)
    for page in (here, "/_explorer/"):
        assert "No request was throttled (429)." in visitor.get(page).text("mf-usage")
        assert "mf-usage-plot" in visitor.get(page).texts
