"""The form "TTL settings" on a table's page, without scripts."""

from __future__ import annotations

from typing import Any

import pytest

from mayflydb.embedded import RunningServer
from portal.visitor import Page, Visitor
from served import port_of

ydb: Any = pytest.importorskip("ydb")

ON_AT = {"status": "enabled", "column": "at", "unit": "SECONDS", "lifetime": "1h"}


class Form:
    """The form of a new table with two rows: one long ago, one NULL."""

    def __init__(
        self, server: RunningServer, pool: Any, name: str, columns: str = "id Uint64, at Timestamp, n Uint32"
    ) -> None:
        pool.execute_with_retries(f"CREATE TABLE `{name}` ({columns}, PRIMARY KEY (id))")
        self.pool, self.name = pool, name
        self.visitor = Visitor(port_of(server))
        self.address = f"/_explorer/ydb/local/{name}/rows"
        self.page: Page = self.visitor.get(self.address)

    def fill(self) -> None:
        self.pool.execute_with_retries(
            f"UPSERT INTO `{self.name}` (id, at) VALUES (1, Timestamp('2001-01-01T00:00:00Z')), (2, NULL)"
        )

    def press(self, action: str, **fields: str) -> Page:
        kept = {name: self.page.fields[name] for name in ("seen", "agreed")}
        self.page = self.visitor.post(self.address, {**kept, **fields, "action": action})
        return self.page

    def ttl(self) -> list[Any]:
        found: list[Any] = self.visitor.json(f"{self.address}.json")["collection"]["indexes"]
        return found


@pytest.fixture
def form(request: pytest.FixtureRequest, ydb_server: RunningServer, query_pool: Any) -> Form:
    return Form(ydb_server, query_pool, f"forms/{request.node.name}")


def test_only_columns_that_fit_are_offered(form: Form) -> None:
    assert '<option value="at">at</option>' in form.page.source
    assert '<option value="n">n (a number)</option>' in form.page.source
    assert '<option value="id">id (a number)</option>' in form.page.source


def test_no_column_fits(ydb_server: RunningServer, query_pool: Any) -> None:
    page = Form(ydb_server, query_pool, "forms/texts", "id Utf8, n Int32").page
    assert page.text("mf-ttl-none-fits").startswith("No column fits")
    assert "TTL settings" not in page.source


def test_a_preview_saves_nothing(form: Form) -> None:
    form.fill()
    shown = form.press("preview", **ON_AT).text("mf-ttl-preview")
    assert "1 row would expire now, of 2." in shown
    assert "1 never: no date can be read from at, as where it is NULL." in shown
    assert f'ALTER TABLE `{form.name}` SET (TTL = Interval("PT1H") ON `at`);' in shown
    assert f"ydb -d /local table ttl set --column at --expire-after 3600 {form.name}" in shown
    assert form.ttl() == []


def test_rows_that_would_go_take_a_second_click(form: Form) -> None:
    form.fill()
    asked = form.press("save", **ON_AT)
    assert asked.text("mf-ttl-save") == "Save and expire 1" and "Nothing is saved yet" in asked.source
    assert form.ttl() == []
    other = form.press("save", **{**ON_AT, "lifetime": "2h"})
    assert other.text("mf-ttl-save") == "Save and expire 1" and form.ttl() == []
    saved = form.press("save", **{**ON_AT, "lifetime": "2h"})
    assert "TTL settings saved" in saved.source
    assert saved.text("mf-ttl-column") == "at: 2 h after a date"
    assert saved.fields["lifetime"] == "2h"


def test_numbers_have_a_unit_and_settings_go_again(form: Form) -> None:
    form.press("save", status="enabled", column="n", unit="MILLISECONDS", lifetime="PT1M")
    assert [(each["name"], each["expire_after_seconds"], each["unit"]) for each in form.ttl()] == [
        ("n", 60, "MILLISECONDS")
    ]
    assert '<option value="MILLISECONDS" selected>' in form.page.source
    assert "--unit milliseconds" in form.page.text("mf-ttl-preview")
    assert (
        "There was nothing to save"
        in form.press("save", status="enabled", column="n", unit="MILLISECONDS", lifetime="60").source
    )
    assert "RESET (TTL);" in form.press("preview", status="disabled").text("mf-ttl-preview")
    assert "TTL settings saved" in form.press("save", status="disabled").source
    assert form.ttl() == []


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"lifetime": "soon"}, "Lifetime: 'soon' is not a duration"),
        ({"lifetime": "1ms"}, "Lifetime is a whole number of seconds"),
        ({"column": "none"}, "Choose the column"),
        ({"column": ""}, "Choose the column"),
        ({"status": "perhaps"}, "Status is Enabled or Disabled."),
        ({"column": "n", "unit": "YEARS"}, "does not count in YEARS"),
    ],
    ids=["no-duration", "milliseconds", "no-such-column", "no-column", "status", "unit"],
)
def test_what_is_refused_is_told(
    ydb_server: RunningServer, query_pool: Any, request: pytest.FixtureRequest, fields: dict[str, str], expected: str
) -> None:
    form = Form(ydb_server, query_pool, f"forms/refused_{request.node.callspec.id}")
    page = form.press("save", **{**ON_AT, **fields})
    assert page.status == 400
    assert expected in page.text("alert")
    assert form.ttl() == []


def test_somebody_else_was_first(form: Form) -> None:
    form.pool.execute_with_retries(f"ALTER TABLE `{form.name}` SET (TTL = Interval('PT5S') ON at)")
    page = form.press("save", **ON_AT)
    assert page.status == 412 and "were changed after this page was loaded" in page.text("alert")
    assert form.ttl()[0]["expire_after_seconds"] == 5
