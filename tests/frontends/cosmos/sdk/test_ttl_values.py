"""What may stand in an item's `ttl` and a container's `defaultTtl`, for every way to write them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from azure.cosmos import ContainerProxy
from azure.cosmos.exceptions import CosmosBatchOperationError

from frontends.cosmos.sdk.verbs import NEUTRAL, VERBS, Refused, prepare, writer
from frontends.cosmos.service import GONE, Service, everywhere, in_memory, path_of, rows, status_of

MOST = 2147483647
RULE = f"Ensure to provide a nonzero positive integer less than or equal to '{MOST}', or '-1' which means never expire."
NEVER = None
DEFAULT = 1000

# The text of `ttl`, and the seconds it grants.
GOOD = [("1", 1), ("20", 20), (str(MOST), MOST), ("-1", NEVER), ("5.0", 5), ("5e0", 5)]

# The text of `ttl`, and how the refusal shows it.
BAD = [
    ("0", "0"), ("-0", "0"), ("-2", "-2"), ("-10", "-10"), ("-2147483648", "-2147483648"),
    ("2147483648", "2147483648"), ("4294967296", "4294967296"), ("9007199254740993", "9007199254740993"),
    ("1" + "0" * 30, "1" + "0" * 30),
    ("1.5", "1.5"), ("0.1", "0.1"), ("-1.5", "-1.5"), ("2147483647.5", "2147483647.5"),
    ("null", "null"), ('"5"', "5"), ('"-1"', "-1"), ('""', ""), ('"PT5S"', "PT5S"), ("true", "true"), ("false", "false"),
    ("[]", "[]"), ("[5]", "[5]"), ("{}", "{}"), ('{"ttl":5}', '{"ttl":5}'),
]  # fmt: skip

# Members that only look like a ttl.
ELSEWHERE = ["{}", '{"TTL":5}', '{"_ttl":5}', '{"a":{"ttl":5}}']


def found(proxy: ContainerProxy) -> bool:
    return status_of(proxy.read_item, "1", "p") == 200


def lives_until(service: Service, second: int | None, *proxies: ContainerProxy) -> None:
    """Item 1 of each container is there up to the second before, and gone at that second; None: never gone."""
    service.at((MOST if second is None else second) - 1)
    assert [found(proxy) for proxy in proxies] == [True] * len(proxies)
    service.at(MOST if second is None else second)
    assert [found(proxy) for proxy in proxies] == [second is None] * len(proxies)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(("text", "seconds"), GOOD)
def test_a_valid_ttl_counts(service: Service, verb: str, text: str, seconds: int | None) -> None:
    for default in (-1, DEFAULT):
        proxy = service.container(default)
        prepare(proxy, verb)
        writer(service, proxy, f'{{"ttl":{text}}}').write(verb, f'{{"ttl":{text}}}')
        sent = service.raw("GET", path_of(proxy, "docs", "1"), pk="p")
        assert sent.json["ttl"] == json.loads(text)
        if verb != "patch":
            assert b'"ttl":%b' % text.encode() in sent.body, "the text that was sent is the text that comes back"
    both = [service.client.get_database_client(f"d{n}").get_container_client("c") for n in last_databases(service, 2)]
    lives_until(service, seconds, *both)


def last_databases(service: Service, number: int) -> list[int]:
    names = sorted(int(row["id"][1:]) for row in service.client.list_databases())
    return names[-number:]


@in_memory
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(("text", "shown"), BAD)
def test_an_invalid_ttl_is_refused(service: Service, verb: str, text: str, shown: str) -> None:
    members = f'{{"ttl":{text}}}'
    for default in (-1, DEFAULT):
        proxy = service.container(default)
        before = prepare(proxy, verb)
        with pytest.raises(Refused) as refused:
            writer(service, proxy, members).write(verb, members)
        assert refused.value.status == 400
        assert f"The input ttl '{shown}' is invalid. {RULE}" in refused.value.message.replace('\\"', '"')
        assert list(proxy.read_all_items()) == ([before] if before else []), "a refusal changes nothing"


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("text", ["20", "0", '"5"', "1.5"])
def test_asynchronous_client(service: Service, verb: str, text: str) -> None:
    proxy = service.container(DEFAULT)
    prepare(proxy, verb)
    client = writer(service, proxy, f'{{"ttl":{text}}}', "aio")
    if text == "20":
        client.write(verb, f'{{"ttl":{text}}}')
        lives_until(service, 20, proxy)
    else:
        with pytest.raises(Refused) as refused:
            client.write(verb, f'{{"ttl":{text}}}')
        assert refused.value.status == 400


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("members", ELSEWHERE)
def test_other_places_and_cases_are_plain_data(service: Service, verb: str, members: str) -> None:
    always, default = service.container(-1), service.container(DEFAULT)
    for proxy in (always, default):
        prepare(proxy, verb)
        writer(service, proxy, members).write(verb, members)
        assert json.loads(members).items() <= proxy.read_item("1", "p").items()
    lives_until(service, DEFAULT, default)
    lives_until(service, NEVER, always)


@everywhere
@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_bad_ttl_fails_a_batch(service: Service, flavour: str, place: int) -> None:
    proxy = service.container(DEFAULT)
    bodies: list[dict[str, Any]] = [{"id": str(n), "pk": "p", "ttl": 20} for n in range(3)]
    bodies[place]["ttl"] = 0
    container = service.sync(proxy) if flavour == "sync" else service.aio(proxy)
    with pytest.raises(CosmosBatchOperationError) as refused:
        container.call("execute_item_batch", [("create", (body,)) for body in bodies], partition_key="p")
    assert refused.value.error_index == place
    expected = [424, 424, 424]
    expected[place] = 400
    assert [int(answer["statusCode"]) for answer in refused.value.operation_responses] == expected
    assert list(proxy.read_all_items()) == []


@in_memory
@pytest.mark.parametrize("verb", ["create", "replace", "patch"])
@pytest.mark.parametrize("text", [text for text, _ in GOOD + BAD])
def test_a_container_without_ttl_takes_anything(service: Service, verb: str, text: str) -> None:
    """CI11 and CI12: stored as it is and never due; once ttl is on, a valid value counts from its own `_ts`."""
    proxy = service.container()
    prepare(proxy, verb)
    members = f'{{"ttl":{text}}}'
    writer(service, proxy, members).write(verb, members)
    sent = service.raw("GET", path_of(proxy, "docs", "1"), pk="p")
    assert sent.status == 200
    assert sent.json["ttl"] == json.loads(text)
    seconds = dict(GOOD).get(text, DEFAULT)
    if seconds == 1:
        service.at(5)
        assert found(proxy)
        service.set_default_ttl(proxy, DEFAULT)
        assert not found(proxy), "overdue at the instant the rule came"
        return
    service.set_default_ttl(proxy, DEFAULT)
    lives_until(service, seconds, proxy)


# --- containers ------------------------------------------------------------------------------------------------------

ON = [("-1", -1), ("1", 1), ("1000", 1000), (str(MOST), MOST), ("5.0", 5)]
REFUSED = [("0", "0"), ("-2", "-2"), ("-10", "-10"), ("2147483648", "2147483648"), ("1.5", "1.5"), ('"5"', "5"),
           ("true", "true"), ("[]", "[]"), ("{}", "{}")]  # fmt: skip
KEY = '"partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}'


def create(service: Service, members: str) -> Any:
    service.client.create_database_if_not_exists("db")
    return service.raw("POST", "/dbs/db/colls", f'{{"id":"c",{KEY}{members}}}'.encode())


def replace(service: Service, members: str) -> Any:
    return service.raw("PUT", "/dbs/db/colls/c", f'{{"id":"c",{KEY}{members}}}'.encode())


@everywhere
@pytest.mark.parametrize(("text", "seconds"), [("", None), *ON])
def test_default_ttl_on_create(service: Service, text: str, seconds: int | None) -> None:
    answer = create(service, text and f',"defaultTtl":{text}')
    assert answer.status == 201, answer
    assert answer.json.get("defaultTtl") == seconds
    proxy = service.client.get_database_client("db").get_container_client("c")
    proxy.create_item(dict(NEUTRAL))
    lives_until(service, seconds if seconds and seconds > 0 else NEVER, proxy)


@pytest.mark.parametrize(("text", "seconds"), [("", None), ("null", None), *ON])
def test_default_ttl_on_replace(service: Service, text: str, seconds: int | None) -> None:
    """All items follow at once, the old rule counts no more."""
    create(service, ',"defaultTtl":10')
    proxy = service.client.get_database_client("db").get_container_client("c")
    proxy.create_item(dict(NEUTRAL))
    answer = replace(service, text and f',"defaultTtl":{text}')
    assert answer.status == 200, answer
    assert answer.json.get("defaultTtl") == seconds
    assert service.raw("GET", "/dbs/db/colls/c").json.get("defaultTtl") == seconds
    lives_until(service, seconds if seconds and seconds > 0 else NEVER, proxy)


@in_memory
@pytest.mark.parametrize(("text", "shown"), [("null", "null"), *REFUSED])
def test_default_ttl_refused_on_create(service: Service, text: str, shown: str) -> None:
    answer = create(service, f',"defaultTtl":{text}')
    assert (answer.status, answer.json["code"], answer.substatus) == (400, "BadRequest", 0)
    assert f"The input defaultTtl '{shown}' is invalid. {RULE}" in answer.json["message"]
    assert service.raw("GET", "/dbs/db/colls/c").status == GONE


@pytest.mark.parametrize(("text", "shown"), REFUSED)
def test_default_ttl_refused_on_replace(service: Service, text: str, shown: str) -> None:
    before = create(service, ',"defaultTtl":10').json
    proxy = service.client.get_database_client("db").get_container_client("c")
    proxy.create_item(dict(NEUTRAL))
    answer = replace(service, f',"defaultTtl":{text}')
    assert answer.status == 400
    assert f"The input defaultTtl '{shown}' is invalid. {RULE}" in answer.json["message"]
    assert service.raw("GET", "/dbs/db/colls/c").json == before
    lives_until(service, 10, proxy)


NONE = ',"indexingPolicy":{"indexingMode":"none","automatic":false}'
MODE_NONE = "Indexing mode value cannot be 'none' when 'defaultTtl' is specified in the collection"


def test_indexing_mode_none_and_ttl_exclude_each_other(service: Service) -> None:
    for answer in (create(service, f',"defaultTtl":60{NONE}'), create(service, f',"defaultTtl":-1{NONE}')):
        assert answer.status == 400
        assert MODE_NONE in answer.json["message"]
    assert create(service, NONE).status == 201
    adding = replace(service, f',"defaultTtl":60{NONE}')
    assert (adding.status, MODE_NONE in adding.json["message"]) == (400, True)
    assert replace(service, ',"defaultTtl":60').status == 200
    setting_none = replace(service, f',"defaultTtl":60{NONE}')
    assert (setting_none.status, MODE_NONE in setting_none.json["message"]) == (400, True)
    assert service.raw("GET", "/dbs/db/colls/c").json["defaultTtl"] == 60


@pytest.mark.parametrize("on", ["create", "replace"])
@pytest.mark.parametrize(
    "policy",
    ['{"indexingMode":"lazy"}', '{"indexingMode":"Lazy"}',
     '{"indexingMode":"consistent","includedPaths":[],"excludedPaths":[{"path":"/*"}]}'],
)  # fmt: skip
def test_other_indexing_does_not_matter_to_ttl(service: Service, on: str, policy: str) -> None:
    members = f',"defaultTtl":60,"indexingPolicy":{policy}'
    if on == "replace":
        create(service, "")
        assert replace(service, members).status == 200
    else:
        assert create(service, members).status == 201
    proxy = service.client.get_database_client("db").get_container_client("c")
    proxy.create_item(dict(NEUTRAL))
    service.at(59)
    assert rows(proxy.query_items("SELECT VALUE c.id FROM c", partition_key="p")) == ["1"]
    service.at(60)
    assert list(proxy.query_items("SELECT VALUE c.id FROM c", partition_key="p")) == []
    assert not found(proxy)


@in_memory
@pytest.mark.parametrize(("mode", "progress"), [("lazy", "100"), ("LAZY", "100"), ("consistent", None), ("none", None)])
def test_progress_of_indexing(service: Service, mode: str, progress: str | None) -> None:
    automatic = "" if mode != "none" else ',"automatic":false'
    assert create(service, f',"indexingPolicy":{{"indexingMode":"{mode}"{automatic}}}').status == 201
    headers = service.raw("GET", "/dbs/db/colls/c").headers
    assert headers["x-ms-documentdb-collection-index-transformation-progress"] == "100"
    assert headers.get("x-ms-documentdb-collection-lazy-indexing-progress") == progress


@in_memory
@pytest.mark.parametrize("on", ["create", "replace"])
@pytest.mark.parametrize("default", ["", ',"defaultTtl":60'])
def test_ttl_property_path_is_refused_by_name(service: Service, on: str, default: str) -> None:
    members = f'{default},"ttlPropertyPath":"/at"'
    if on == "replace":
        create(service, default)
    answer = replace(service, members) if on == "replace" else create(service, members)
    assert answer.status == 400
    assert "ttlPropertyPath" in answer.json["message"]
