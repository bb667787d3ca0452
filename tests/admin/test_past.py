"""The past of a container of each protocol: its setting, exports as of an earlier instant, and the metric."""

from __future__ import annotations

from admin.three_protocols import TARGETS, Site
from served import START


def exported(site: Site, as_of: str) -> dict[str, list[int]]:
    """The ids of the records of each container as of an instant."""
    found = {}
    for name, target in TARGETS.items():
        page = site.http.get(f"data/export?target={target}&as_of={as_of}")
        found[name] = sorted(int(each.get("id", each.get("_id"))) for each in page["records"])
    return found


def everywhere(value: object) -> dict[str, object]:
    return dict.fromkeys(TARGETS, value)


def test_an_export_is_of_the_past(site: Site) -> None:
    for target in TARGETS.values():
        told = site.http.post("lifecycle", target=target, history="1d")
        assert (told["history"], told["history_since"]) == (86400, START)
    site.server.clock.advance(seconds=150)
    site.server.purge()
    site.sessions.delete_item("2", "2")
    site.otps.delete_many({})
    site.query("DELETE FROM carts")
    assert site.ids() == everywhere([])
    site.server.clock.advance(seconds=1)
    assert exported(site, START) == everywhere([0, 1, 2])
    # Rows of YDB show until the pass of the hour.
    assert exported(site, "2030-01-01T00:02:29Z") == {"cosmos": [2], "mongo": [2], "ydb": [0, 1, 2]}
    answer = site.http("GET", "/metrics")
    kept = [line for line in answer.body.decode().splitlines() if line.startswith("mayfly_retired_versions{")]
    assert sorted(line.rpartition(" ")[2] for line in kept) == ["3"] * 3


def test_the_first_instant_is_shown(site: Site) -> None:
    def shown() -> list[str | None]:
        return [each["history_since"] for each in site.http.get("lifecycle")["targets"]]

    assert shown() == [None] * 3
    site.server.clock.advance(seconds=10)
    for target in TARGETS.values():
        site.http.post("lifecycle", target=target, history="60s")
    assert shown() == ["2030-01-01T00:00:10Z"] * 3
    site.server.clock.advance(seconds=70)
    assert shown() == ["2030-01-01T00:00:20Z"] * 3
    status, text = site.refuse("lifecycle", target=TARGETS["mongo"], history="1.5s")
    assert (status, "whole" in text) == (400, True)


def test_the_past_of_before_is_refused(site: Site) -> None:
    for target in TARGETS.values():
        answer = site.http("GET", f"/_mayfly/data/export?target={target}&as_of=2029-01-01T00:00:00Z")
        assert (answer.status, "No states before now are kept" in str(answer.json)) == (400, True), answer
