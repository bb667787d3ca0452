"""Effective partition keys against published vectors and the azure-cosmos client; headers; bounds; logical partitions."""

from __future__ import annotations

import random
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayflydb.frontends.cosmos.partition_key import (
    MAX_TEXT_BYTES,
    PartitionKeyDefinition,
    divide_key_space,
    parse_epk,
    parse_header,
    parse_property_path,
)
from mayflydb.model.errors import BadRequest, MayflyError
from mayflydb.query.cosmos_sql.values import UNDEFINED

V1 = PartitionKeyDefinition.from_json({"paths": ["/pk"]})
V2 = PartitionKeyDefinition.from_json({"paths": ["/pk"], "kind": "Hash", "version": 2})
MULTI = PartitionKeyDefinition.from_json({"paths": ["/a", "/b", "/c"], "kind": "MultiHash", "version": 2})

X, Y = "11E3F358618BE9AA5BAFF4C7C74F0716", "1880C5B898FDA99DA53B2ABCC61E625C"
FIVE, TRUE = "19C08621B135968252FB34B4CF66F811", "0E711127C5B5A8E4726AC6DD306A3E59"

VECTORS: list[tuple[Any, str, str]] = [
    ("p1", "062B23DEC15212F01B9A85F4E93A940C", "05C1CFEDCF076008713200"),
    ("", "32E9366E637A71B4E710384B2F4970A0", "05C1CF33970FF80800"),
    ("partitionKey", "013AEFCF77FA271571CF665A58C933F1", "05C1E1B3D9CD2608716273756A756A706F4C667A00"),
    ("é", "007199F104E04116EE25AF912CA4889B", "05C1B3CD91912008C4AA00"),
    ("😀", "28D7FCB721E75FBE0DAC3D71DAB82766", "05C1814D5F9C08F1A0998100"),
    ("a" * 100, "0DBD7D229437BB665DE6417747994D57", "05C1EB5921F70608" + "62" * 100 + "00"),
    ("a" * 101, "08042541D30C8BF90D7092B1519AE0BC", "05C1EB5921F70608" + "62" * 100 + "00"),
    (True, "0E711127C5B5A8E4726AC6DD306A3E59", "05C1D7C5A903D803"),
    (False, "2FE1BE91E90A3439635E0E9E37361EF2", "05C1DB857D857C02"),
    (None, "378867E4430E67857ACE5C908374FE16", "05C1ED45D7475601"),
    (UNDEFINED, "11622DAA78F835834610ABE56EFF5CB5", "05C1D529E345DC00"),
    (0, "155B95BEDAC4B1E9EC1CDC9BB0DDDE58", "05C1BF6DA11560058000"),
    (-0.0, "3D018BB1DF3DB27235766E81FD10406E", "05C1E703ED99A0058000"),
    (1, "20CD98B339BA78A5D0CF6953B87070B0", "05C1ED172B6B2605BFF0"),
    (5, FIVE, "05C1D9C1C5517C05C014"),
    (5.0, FIVE, "05C1D9C1C5517C05C014"),
    (-1, "19938E7A936C1C5B9E3AE842BBC16839", "05C1D1A5BDDF9C054010"),
    (1.5, "35C5DDEB6C795D16A9963C73C54E97BC", "05C1E9694167A805BFF8"),
    (2**32, "0C746AE2C07859994662C1770E77CCFB", "05C1ED5B039B6005C1F0"),
]


@pytest.mark.parametrize(("value", "v2", "v1"), VECTORS)
def test_vectors(value: Any, v2: str, v1: str) -> None:
    for _ in range(2):  # The second answer comes from the cache.
        assert V2.effective_key((value,)).hex().upper() == v2
        assert V1.effective_key((value,)).hex().upper() == v1


@pytest.mark.parametrize(
    ("values", "epk"), [(("x",), X), (("x", "y"), X + Y), (("x", 5, True), X + FIVE + TRUE), ((), "")]
)
def test_multi_hash(values: tuple[Any, ...], epk: str) -> None:
    assert MULTI.effective_key(values).hex().upper() == epk
    assert MULTI.prefix_range(values) == (bytes.fromhex(epk), bytes.fromhex(epk + "FF"))


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=120)


@given(value=st.one_of(TEXTS, st.floats(allow_nan=False, allow_infinity=False), st.booleans()))
def test_agrees_with_client(value: Any) -> None:
    client = pytest.importorskip("azure.cosmos.partition_key")
    if value == 0 and isinstance(value, float):
        value = 0.0
    for definition, version in ((V1, 1), (V2, 2)):
        key = client.PartitionKey("/pk", version=version)
        assert (
            definition.effective_key((value,)).hex().upper() == key._get_effective_partition_key_string([value]).upper()
        )


@pytest.mark.parametrize("number", [5, 0, -1, -77, 2**32, 2**40 + 3, -(2**35), 2**53 + 1, 10**18])
def test_python_integer_variant(number: int) -> None:
    client = pytest.importorskip("azure.cosmos.partition_key")
    lower = client.PartitionKey("/pk", version=1)._get_effective_partition_key_string([number])
    upper = f"{int(lower, 16) + 1:0{len(lower)}x}"
    low, high = V1.parse_client_range(lower, upper)
    assert low <= V1.logical_partition((number,)) < high


@pytest.mark.parametrize(
    ("definition", "value", "start", "end"),
    [
        (V2, "p1", "062B23DEC15212F01B9A85F4E93A940C", "062B23DEC15212F01B9A85F4E93A940D"),
        (V2, "p1", "062b23dec15212f01b9a85f4e93a940c", "062b23dec15212f01b9a85f4e93a940c"),
        (V1, None, "05c1ed45d74756", "05c1ed45d74757"),  # The Python client drops the tag of null.
        (V1, 0, "05C1BF6DA115600580", "05C1BF6DA115600580"),  # The JavaScript client drops the last byte of 0.
        (V2, "p1", "", "FF"),
        (V1, "p1", "", "FF"),
    ],
)
def test_client_range_holds(definition: PartitionKeyDefinition, value: Any, start: str, end: str) -> None:
    low, high = definition.parse_client_range(start, end)
    assert low <= definition.logical_partition((value,)) < high


def test_client_range_is_exact() -> None:
    low, high = V2.parse_client_range("062B23DEC15212F01B9A85F4E93A940C", "062B23DEC15212F01B9A85F4E93A940D")
    assert not low <= V2.logical_partition(("p2",)) < high
    assert V1.parse_client_range("", "05C1DFFFFFFFFC") == (b"", bytes.fromhex("05C1DFFFFFFFFC"))


def test_prefix_holds_children() -> None:
    low, high = MULTI.prefix_range(("x",))
    for below in (("x", "y", "z"), ("x", None, UNDEFINED), ("x", 5, True)):
        assert low <= MULTI.logical_partition(below) < high
    assert not low <= MULTI.logical_partition(("y", "y", "z")) < high


DISTINCT = [None, UNDEFINED, True, False, 0, 1, 2, "", "0", "a", "a\x00", "A", "\xff", "true"]


@pytest.mark.parametrize("definition", [V1, V2, MULTI, PartitionKeyDefinition.from_json({"paths": ["/a/b"]})])
def test_the_partition_of_a_document_is_that_of_its_key(definition: PartitionKeyDefinition) -> None:
    for value in ["p1", "", "x" * 128, "x" * 129, "é", 5, 5.5, True, False, None, {"b": "c"}, {"b": 1}, [], UNDEFINED]:
        doc: dict[str, Any] = {} if value is UNDEFINED else {"pk": value, "a": value}
        for _ in range(2):
            assert definition.partition_of(doc) == definition.logical_partition(definition.extract(doc))
    long: list[dict[str, Any]] = [{"pk": "x" * 2049, "a": "x" * 2049}, {"a": {"b": "x" * 2049}}]
    for doc in long:
        if any(value != UNDEFINED for value in definition.extract(doc)):
            with pytest.raises(BadRequest, match="exceeds the limit"):
                definition.partition_of(doc)


@pytest.mark.parametrize("definition", [V1, V2])
def test_logical_partitions_differ(definition: PartitionKeyDefinition) -> None:
    partitions = [definition.logical_partition((value,)) for value in DISTINCT]
    assert len(set(partitions)) == len(DISTINCT)
    assert definition.logical_partition((5,)) == definition.logical_partition((5.0,))
    assert partitions == [
        definition.effective_key((v,)) + p[len(definition.effective_key((v,))) :]
        for v, p in zip(DISTINCT, partitions, strict=True)
    ]


def test_v1_hash_shared_values_apart() -> None:
    first, second = "a" * 100 + "b", "a" * 100 + "c"
    assert V1.effective_key((first,)) == V1.effective_key((second,))
    assert V1.logical_partition((first,)) != V1.logical_partition((second,))


def test_multi_hash_boundaries_apart() -> None:
    assert MULTI.logical_partition(("a", "bc", "d")) != MULTI.logical_partition(("ab", "c", "d"))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('["a"]', ("a",)), ("[{}]", (UNDEFINED,)), ("[null]", (None,)), ("[]", ()), ('["x", 5, true]', ("x", 5, True)),
        ("[1.5]", (1.5,)), ('["\\u00e9"]', ("é",)), ("[false]", (False,)),
    ],
)  # fmt: skip
def test_header(text: str, values: tuple[Any, ...]) -> None:
    for form in (text, text.encode(), text):
        got = parse_header(form)
        assert got == values and [type(v) for v in got] == [type(v) for v in values]


@pytest.mark.parametrize(
    "text",
    ["", "a", '"a"', "{}", "[", "[[]]", '[{"a":1}]', "[1e999]", "[NaN]", '["\\ud800"]', "[" + "1" * 400 + "]", "[1]x", "null",
     "[" * 5000],
)  # fmt: skip
def test_header_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        parse_header(text)


def test_point() -> None:
    assert V2.parse_partition(b'["a"]') == V2.logical_partition(("a",))
    for definition, text in ((V2, "[]"), (V2, '["a","b"]'), (MULTI, '["a"]')):
        with pytest.raises(BadRequest) as caught:
            definition.parse_partition(text)
        assert caught.value.detail["substatus"] == 1001


@pytest.mark.parametrize("definition", [V1, V2])
def test_limits(definition: PartitionKeyDefinition) -> None:
    limit = MAX_TEXT_BYTES
    definition.check(("a" * (limit - 1),))
    definition.check(("a" * limit,))
    for text in ("a" * (limit + 1), "é" * (limit // 2 + 1)):
        with pytest.raises(BadRequest, match=str(limit)):
            definition.check((text,))


@pytest.mark.parametrize(
    ("path", "doc", "value"),
    [
        ("""/'level" 1*()'/'le/vel2'""", {'level" 1*()': {"le/vel2": 5}}, 5), ("/'it\\'s'", {"it's": 1}, 1),
        ("/pk", {"pk": "a"}, "a"), ("/pk", {}, UNDEFINED), ("/pk", {"pk": None}, None), ("/pk", {"pk": {}}, UNDEFINED),
        ("/pk", {"pk": ["a"]}, UNDEFINED), ("/a/b", {"a": {"b": 5}}, 5), ("/a/b", {"a": "b"}, UNDEFINED),
        ("/a/b", {"a": [1]}, UNDEFINED), ('/"a b"/c', {"a b": {"c": True}}, True), ("/pk", {"PK": "a"}, UNDEFINED),
        ('/"a\\"b"', {'a"b': 1}, 1),
    ],
)  # fmt: skip
def test_extract(path: str, doc: dict[str, Any], value: Any) -> None:
    assert PartitionKeyDefinition.from_json({"paths": [path]}).extract(doc) == (value,)


@pytest.mark.parametrize("path", ["", "pk", "/", "//", "/a/", '/"a', '/"a"b', "/a//b", None, 5, '/""'])
def test_bad_path(path: object) -> None:
    with pytest.raises(BadRequest):
        parse_property_path(path, "partition key path")


@pytest.mark.parametrize(
    ("sent", "shown", "version"),
    [
        ({"paths": ["/pk"]}, {"paths": ["/pk"], "kind": "Hash"}, 1),
        ({"paths": ["/pk"], "version": 2}, {"paths": ["/pk"], "kind": "Hash", "version": 2}, 2),
        ({"paths": ["/pk"], "kind": "Hash", "version": 1}, {"paths": ["/pk"], "kind": "Hash", "version": 1}, 1),
        ({"paths": ["/a", "/b"], "kind": "MultiHash"}, {"paths": ["/a", "/b"], "kind": "MultiHash"}, 2),
        (
            {"paths": ["/a"], "kind": "MultiHash", "version": "V2"},
            {"paths": ["/a"], "kind": "MultiHash", "version": 2},
            2,
        ),
        ({"paths": ["/pk"], "version": "V1"}, {"paths": ["/pk"], "kind": "Hash", "version": 1}, 1),
    ],
)
def test_definition_echo(sent: dict[str, Any], shown: dict[str, Any], version: int) -> None:
    definition = PartitionKeyDefinition.from_json(sent)
    assert definition.to_json() == shown and definition.version == version


@pytest.mark.parametrize(
    "sent",
    [
        None, [], {}, {"paths": []}, {"paths": "/pk"}, {"paths": ["/a", "/b"]}, {"paths": [], "kind": "MultiHash"},
        {"paths": ["/a", "/b", "/c", "/d"], "kind": "MultiHash"}, {"paths": ["/a"], "kind": "Range"}, {"paths": [5]},
        {"paths": ["/a"], "version": 3}, {"paths": ["/a"], "version": True}, {"paths": ["/a", "/a"], "kind": "MultiHash"},
        {"paths": ["/a", "/b"], "kind": "MultiHash", "version": 1}, {"paths": ["/a"], "kind": []}, {"paths": ["/_ts"]},
        {"paths": ["/a"], "other": 1}, {"paths": ["/a"], "version": "2"},
        {"paths": ["/a"], "version": "v2"}, {"paths": ["/a"], "version": "V3"}, {"paths": ["/a"], "version": None},
        {"paths": ["/a"], "version": ["V2"]}, {"paths": ["/a", "/b"], "kind": "MultiHash", "version": "V1"},
    ],
)  # fmt: skip
def test_definition_refused(sent: object) -> None:
    with pytest.raises(BadRequest):
        PartitionKeyDefinition.from_json(sent)


@pytest.mark.parametrize(
    ("count", "definition", "bounds"),
    [
        (1, V2, [("", "FF")]),
        (2, V2, [("", "1FFF" + "F" * 28), ("1FFF" + "F" * 28, "FF")]),
        (2, V1, [("", "05C1DFFFFFFFFC"), ("05C1DFFFFFFFFC", "FF")]),
        (1, V1, [("", "FF")]),
    ],
)
def test_ranges(count: int, definition: PartitionKeyDefinition, bounds: list[tuple[str, str]]) -> None:
    assert divide_key_space(count, definition) == bounds


@pytest.mark.parametrize("definition", [V1, V2, MULTI])
def test_ranges_cover(definition: PartitionKeyDefinition) -> None:
    rows = divide_key_space(5, definition)
    assert rows[0][0] == "" and rows[-1][1] == "FF"
    assert all(a[1] == b[0] and a[0] < a[1] for a, b in pairwise(rows))
    hits = [0] * 5
    for i in range(1000):
        epk = definition.logical_partition((f"k{i}",) * len(definition.paths))
        hits[[parse_epk(low) <= epk < parse_epk(high) for low, high in rows].index(True)] += 1
    assert min(hits) > 100


@pytest.mark.parametrize(("text", "value"), [("", b""), ("FF", b"\xff"), ("ff", b"\xff"), ("0a0B", b"\x0a\x0b")])
def test_epk(text: str, value: bytes) -> None:
    assert parse_epk(text) == value


@pytest.mark.parametrize("text", ["F", "GG", "0 ", "0x", "é", " 0A", "0A 0B", "٣٣"])
def test_epk_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        parse_epk(text)


def test_random_bytes() -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    source = random.Random(seed)
    for _ in range(3000):
        data = bytes(source.choices(b'[]{}",:\\u0123456789aAbBfFeE.-ntrl \x00\xff\xed/', k=source.randrange(30)))
        for parse in (
            parse_header,
            lambda d: parse_epk(d.decode("latin-1")),
            V2.parse_partition,
            MULTI.parse_partition,
            lambda d: V1.parse_client_range(d.hex(), d.hex()),
            lambda d: V1.parse_client_range(d.hex(), "FF"),
            lambda d: parse_property_path(d.decode("latin-1"), "path"),
        ):
            with suppress(MayflyError):
                parse(data)
