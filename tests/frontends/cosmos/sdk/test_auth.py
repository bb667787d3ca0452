"""Who may do what: keys, signatures, and the age of a signature."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any
from urllib.parse import unquote

import msgspec
import pytest
from azure.cosmos import CosmosClient
from azure.cosmos.exceptions import CosmosHttpResponseError

from frontends.cosmos.service import DATE, KEY, START, Raw, Service, in_memory, path_of, signature
from mayflydb.embedded import serve
from mayflydb.frontends.cosmos.auth import Keys

OTHER = "b3RoZXIga2V5IG90aGVyIGtleSBvdGhlciBrZXkgb3RoZXIga2V5IG90aGVyIGtleSBvdGhlciBrZXkgb3RoZXI="


def test_a_wrong_key(service: Service) -> None:
    answer = service.raw("GET", "/dbs", key=OTHER)
    assert (answer.status, answer.json["code"]) == (401, "Unauthorized")
    message = answer.json["message"]
    assert message.startswith("The input authorization token can't serve the request.")
    payload = rf"get\ndbs\n\n{DATE.lower()}\n\n"
    assert f"Server used the following payload to sign: '{payload}'" in message
    assert OTHER not in message and KEY not in message
    with pytest.raises(CosmosHttpResponseError) as refused:
        CosmosClient(service.url, OTHER)
    assert refused.value.status_code == 401


@in_memory
@pytest.mark.parametrize("header", [
    "", "x", "type=master", "type=master&ver=1.0", "type=master&ver=1.0&sig=", "type=master&ver=1.0&sig=x",
    "type=master&ver=2.0&sig=" + "A" * 43 + "=",
    "type=aad&ver=1.0&sig=token", "type=resource&ver=1&sig=x", "Basic dTpw", "Bearer x", "type%3Dmaster", "%", "%zz",
    "=" * 10_000, "sig=x&ver=1.0&type=master",
])  # fmt: skip
def test_headers_that_authorize_nothing(service: Service, header: str) -> None:
    answer = service.raw("GET", "/dbs", None, {"authorization": header})
    assert (answer.status, answer.json["code"]) == (401, "Unauthorized")
    assert answer.json["message"]


def test_no_header(service: Service) -> None:
    answer = service.raw("GET", "/dbs", None, {"authorization": None})
    assert answer.status == 401
    assert "authorization" in answer.json["message"].lower()


@pytest.mark.parametrize(
    ("method", "path", "signed_method", "signed_path", "date"),
    [("GET", "/dbs", "POST", "/dbs", DATE), ("GET", "/dbs", "GET", "/offers", DATE), ("GET", "/dbs/a", "GET", "/dbs/A",
    DATE),
     ("GET", "/dbs", "GET", "/dbs", "Tue, 01 Jan 2030 00:00:01 GMT"), ("DELETE", "/dbs/a", "GET", "/dbs/a", DATE)],
)  # fmt: skip
def test_a_signature_is_for_one_request(
    service: Service, method: str, path: str, signed_method: str, signed_path: str, date: str
) -> None:
    headers = {"authorization": signature(KEY, signed_method, signed_path, date)}
    assert service.raw(method, path, None, headers).status == 401


@pytest.mark.parametrize("form", ["encoded", "raw", "lower-case escapes"])
def test_forms_of_a_signature(service: Service, form: str) -> None:
    header = signature(KEY, "GET", "/dbs")
    if form == "raw":
        header = unquote(header)
    elif form == "lower-case escapes":
        header = header.replace("%3D", "%3d").replace("%2F", "%2f").replace("%2B", "%2b")
    assert service.raw("GET", "/dbs", None, {"authorization": header}).status == 200


@pytest.mark.parametrize("years", [-20, 0, 20])
def test_moving_the_clock_locks_nobody_out(service: Service, years: int) -> None:
    """The age of a signature has nothing to do with the clock that people move."""
    service.server.start_at(f"{2030 + years}-01-01T00:00:00Z")
    assert service.raw("GET", "/dbs").status == 200
    assert list(service.client.list_databases()) == []


# --- the age of a signature, checked against the host's own time -----------------------------------------------------


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Raw]:
    with serve(memory=True, port=0, clock="virtual", clock_start=START, check_date=True) as server:
        raw = Raw(server.cosmos.url)
        yield raw
        raw.close()


@pytest.mark.parametrize(
    ("minutes", "status"), [(0, 200), (-14, 200), (14, 200), (-16, 403), (16, 403), (-60 * 24 * 365, 403)]
)
def test_age_of_the_date(strict: Raw, minutes: int, status: int) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(minutes=minutes), usegmt=True)
    answer = strict("GET", "/dbs", None, {"x-ms-date": date, "authorization": signature(KEY, "GET", "/dbs", date)})
    assert answer.status == status, answer
    if status == 403:
        assert answer.json["code"] == "Forbidden"
        assert answer.json["message"].startswith("The authorization token is not valid at the current time.")


@pytest.mark.parametrize("date", ["", "x", "2030-01-01", "Tue, 99 Jan 2030 00:00:00 GMT", "1" * 1000])
def test_dates_that_are_none(strict: Raw, date: str) -> None:
    answer = strict("GET", "/dbs", None, {"x-ms-date": date, "authorization": signature(KEY, "GET", "/dbs", date)})
    assert answer.status == 401
    assert "x-ms-date" in answer.json["message"]


# --- read-only keys --------------------------------------------------------------------------------------------------

READS: list[tuple[str, str, Any, dict[str, str]]] = [
    ("GET", "", None, {}), ("GET", "/docs", None, {}), ("GET", "/docs/1", None, {}), ("GET", "/pkranges", None, {}),
    ("POST", "/docs", {"query": "SELECT * FROM c"}, {"content-type": "application/query+json"}),
    ("POST", "/docs", {"query": "SELECT * FROM c"}, {"x-ms-cosmos-is-query-plan-request": "True"}), ("GET", "/docs",
    None, {"a-im": "Incremental Feed"}),
]  # fmt: skip
WRITES: list[tuple[str, str, Any, dict[str, str]]] = [
    ("POST", "/docs", {"id": "2", "pk": "p"}, {}), ("POST", "/docs", {"id": "1", "pk": "p"},
    {"x-ms-documentdb-is-upsert": "True"}),
    ("PUT", "/docs/1", {"id": "1", "pk": "p"}, {}), ("PATCH", "/docs/1", [{"op": "set", "path": "/n", "value": 1}],
    {}), ("DELETE", "/docs/1", None, {}),
    ("POST", "/docs", [{"operationType": "Read", "id": "1"}], {"x-ms-cosmos-is-batch-request": "True",
    "x-ms-cosmos-batch-atomic": "True"}),
    ("DELETE", "", None, {}), ("PUT", "", {"id": "c", "partitionKey": {"paths": ["/pk"], "version": 2}}, {}),
]  # fmt: skip


@pytest.fixture
def read_only(service: Service) -> Iterator[str]:
    """OTHER is a read-only key of the account; no setting says so yet, so it is told here."""
    cosmos = service.cosmos_app()
    before = cosmos._account
    cosmos._account = msgspec.structs.replace(before, keys=Keys.from_base64(KEY, None, OTHER))
    yield OTHER
    cosmos._account = before


def test_a_read_only_key_reads(service: Service, read_only: str) -> None:
    proxy = service.container()
    proxy.create_item({"id": "1", "pk": "p"})
    for method, end, body, headers in READS:
        assert service.raw(method, path_of(proxy) + end, body, headers, pk="p", key=read_only).status == 200


def test_a_read_only_key_does_not_write(service: Service, read_only: str) -> None:
    proxy = service.container()
    before = proxy.create_item({"id": "1", "pk": "p"})
    for method, end, body, headers in WRITES:
        answer = service.raw(method, path_of(proxy) + end, body, headers, pk="p", key=read_only)
        assert (answer.status, answer.substatus, answer.json["code"]) == (403, 0, "Forbidden"), (method, end)
        assert OTHER not in answer.json["message"]
    assert list(proxy.read_all_items()) == [before]
    assert service.raw("POST", "/dbs", {"id": "x"}, key=read_only).status == 403
