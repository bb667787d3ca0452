"""Binary JSON as clients send it, byte by byte, and the text that is made of it."""

from __future__ import annotations

import asyncio
import json
import random
import struct
from typing import Any

import pytest

from mayflydb.frontends.cosmos.binary_json.forms import SYSTEM_STRINGS
from mayflydb.frontends.cosmos.binary_json.reader import ENVIRONMENT_HINT, MAX_DEPTH, VALUES_PER_TURN, to_text
from mayflydb.frontends.cosmos.binary_json.writer import to_binary
from mayflydb.model.errors import BadRequest, TooLarge, Unsupported

LIMIT = 1 << 20
GUID = "00 01 02 03 04 05 06 07 08 09 0A 0B 0C 0D 0E 0F"


def text(body: bytes, limit: int = LIMIT) -> str:
    return asyncio.run(to_text(b"\x80" + body, limit)).decode()


# The bytes after the preamble, and the text.
VALUES = [
    ("D0", "null"),
    ("D1", "false"),
    ("D2", "true"),
    ("00", "0"),
    ("1F", "31"),
    ("C8 C8", "200"),
    ("C9 18 FC", "-1000"),
    ("CA 70 11 01 00", "70000"),
    ("CB 00 0E FA D5 FE FF FF FF", "-5000000000"),
    ("CB FF FF FF FF FF FF FF 7F", "9223372036854775807"),
    ("C7 FE FF FF FF FF FF FF FF", "18446744073709551614"),
    ("CC 00 00 00 00 00 00 0C 40", "3.5"),
    ("CC" + struct.pack("<d", 10.0).hex(), "10"),
    ("CC" + struct.pack("<d", -10.0).hex(), "-10"),
    ("CC" + struct.pack("<d", 0.0).hex(), "0"),
    ("CC" + struct.pack("<d", -0.0).hex(), "-0.0"),
    ("CC" + struct.pack("<d", 2.0**53 - 1).hex(), "9007199254740991"),
    ("CC" + struct.pack("<d", 2.0**53).hex(), "9007199254740992.0"),
    ("CC" + struct.pack("<d", 0.1).hex(), "0.1"),
    ("CC" + struct.pack("<d", 1e300).hex(), "1e+300"),
    ("D8 FB", "-5"),
    ("D7 C8", "200"),
    ("D9 18 FC", "-1000"),
    ("DA 90 EE FE FF", "-70000"),
    ("DB 00 0E FA D5 FE FF FF FF", "-5000000000"),
    ("DC FE FF FF FF", "4294967294"),
    ("CD 00 00 C0 3F", "1.5"),
    ("CE 00 00 00 00 00 00 02 C0", "-2.25"),
    ("20", '"$s"'),
    ("2C", '"id"'),
    ("3F", '"_id"'),
    ("80", '""'),
    ("82 68 69", '"hi"'),
    ("82 22 0A", r'"\"\n"'),
    ("84 F0 9F A6 8B", '"🦋"'),
    ("C0 05 68 65 6C 6C 6F", '"hello"'),
    ("C1 2C 01" + "61" * 300, f'"{"a" * 300}"'),
    ("C2 05 00 00 00 68 65 6C 6C 6F", '"hello"'),
    (f"75 {GUID}", '"00102030-4050-6070-8090-a0b0c0d0e0f0"'),
    (f"76 {GUID}", '"00102030-4050-6070-8090-A0B0C0D0E0F0"'),
    (f"77 {GUID}", r'"\"00102030-4050-6070-8090-a0b0c0d0e0f0\""'),
    ("71 01 00 66 6F 6F", '"Zm9v"'),
    ("71 01 01 66 6F", '"Zm8="'),
    ("71 01 02 41", '"QQ=="'),
    ("71 01 FD 41", '"QQ"'),
    ("71 00 00", '""'),
    ("72 02 00 00 66 6F 6F 62 61 72", '"Zm9vYmFy"'),
    ("73 01 00 FB FF FE", '"-__-"'),
    ("74 01 00 00 FB FF FE", '"-__-"'),
    ("78 04 A1 B2", '"1a2b"'),
    ("79 04 A1 B2", '"1A2B"'),
    ("78 01 0F", '"f"'),
    ("7A 07 13 53 1C 02", '"2024-01"'),
    ("7B 04 30 10 32", '"0123"'),
    ("7C 03 61 20 08", '"abc"'),
    ("7D 04 61 40 20 0C", '"abcd"'),
    ("7E 02 C8 34", '"Hi"'),
    ("7E 00", '""'),
    ("7F 02 00 C8 34", '"Hi"'),
    ("E0", "[]"),
    ("E8", "{}"),
    ("E1 D2", "[true]"),
    ("E1 E1 E1 00", "[[[0]]]"),
    ("E9 2C D2", '{"id":true}'),
    ("E9 2C E9 81 61 E0", '{"id":{"a":[]}}'),
    ("E2 00", "[]"),
    ("EA 00", "{}"),
    ("E5 00 00", "[]"),
    ("E2 03 00 01 D0", "[0,1,null]"),
    ("E3 03 00 00 01 D0", "[0,1,null]"),
    ("E4 03 00 00 00 00 01 D0", "[0,1,null]"),
    ("E5 03 03 00 01 D0", "[0,1,null]"),
    ("E6 03 00 03 00 00 01 D0", "[0,1,null]"),
    ("E7 03 00 00 00 03 00 00 00 00 01 D0", "[0,1,null]"),
    ("EA 04 2C 00 3B 01", '{"id":0,"type":1}'),
    ("EB 04 00 2C 00 3B 01", '{"id":0,"type":1}'),
    ("EC 04 00 00 00 2C 00 3B 01", '{"id":0,"type":1}'),
    ("ED 04 02 2C 00 3B 01", '{"id":0,"type":1}'),
    ("EE 04 00 02 00 2C 00 3B 01", '{"id":0,"type":1}'),
    ("EF 04 00 00 00 02 00 00 00 2C 00 3B 01", '{"id":0,"type":1}'),
    ("E2 05 E1 00 E9 2C 01", '[[0],{"id":1}]'),
    ("E2 05 82 68 69 C3 03", '["hi","hi"]'),
    ("E2 06 82 68 69 C4 03 00", '["hi","hi"]'),
    ("E2 07 82 68 69 C5 03 00 00", '["hi","hi"]'),
    ("E2 08 82 68 69 C6 03 00 00 00", '["hi","hi"]'),
    ("E2 03 2C C3 03", '["id","id"]'),
    ("F0 D7 03 0A 14 C8", "[10,20,200]"),
    ("F0 D8 03 FB 00 05", "[-5,0,5]"),
    ("F1 D9 03 00 FF FF 00 00 E8 03", "[-1,0,1000]"),
    ("F0 DA 02 01 00 00 00 FE FF FF FF", "[1,-2]"),
    ("F0 DB 01 00 0E FA D5 FE FF FF FF", "[-5000000000]"),
    ("F0 DC 02 FE FF FF FF 00 00 00 00", "[4294967294,0]"),
    ("F0 CD 02 00 00 C0 3F 00 00 80 BE", "[1.5,-0.25]"),
    ("F0 CE 01 00 00 00 00 00 00 02 C0", "[-2.25]"),
    ("F0 DA 00", "[]"),
    ("F1 DA 00 00", "[]"),
    ("F2 F0 D7 02 03 01 02 03 04 05 06", "[[1,2],[3,4],[5,6]]"),
    ("F3 F1 D9 02 00 02 00 01 00 02 00 03 00 04 00", "[[1,2],[3,4]]"),
    ("F2 F0 D7 00 03", "[[],[],[]]"),
    ("F2 F0 D7 03 00", "[]"),
    ("EA 09 2C F0 D7 01 05 3B 80 35 00", '{"id":[5],"type":"","name":0}'),
    ("E2 08 F2 F0 D7 01 01 07 D0 D1", "[[[7]],null,false]"),
    (f"D3 {GUID}", '"03020100-0504-0706-0809-0a0b0c0d0e0f"'),
    ("DD 04 DE AD BE EF", '"3q2+7w=="'),
    ("DE 03 00 01 02 03", '"AQID"'),
    ("DF 00 00 00 00", '""'),
    # Where a name stands twice, the text has it twice, and is refused as any other.
    ("EA 04 2C 00 2C 01", '{"id":0,"id":1}'),
]


@pytest.mark.parametrize(("sent", "expected"), VALUES)
def test_a_value(sent: str, expected: str) -> None:
    assert text(bytes.fromhex(sent)) == expected


BROKEN = [
    ("", "cut short"),
    ("C8", "cut short"),
    ("82 68", "cut short"),
    ("C2 FF FF FF FF 61", "cut short"),
    ("E1", "cut short"),
    ("E9 2C", "cut short"),
    ("E2 03 00 01", "cut short"),
    ("D0 D0", "something follows"),
    ("E2 01 00 01", "something follows"),
    ("82 FF FE", "not UTF-8"),
    ("CC 00 00 00 00 00 00 F0 7F", "not finite"),
    ("CC 00 00 00 00 00 00 F8 7F", "not finite"),
    ("CD 00 00 80 FF", "not finite"),
    ("E2 01 C8 C8", "longer than what it is part of"),
    ("E2 03 E2 02 00 01", "longer than what it is part of"),
    ("EA 01 2C 00", "longer than what it is part of"),
    ("E5 03 02 00 01 D0", "another number of members"),
    ("ED 02 00 2C 00", "another number of members"),
    ("71 00 01", "more padding than text"),
    ("71 01 0A 41", "more padding than text"),
    ("F0", "cut short"),
    ("F0 D7 03 0A 14", "cut short"),
    ("F1 DB FF FF 00", "cut short"),
    ("F3 F1 DB FF FF FF FF", "cut short"),
    ("F0 C8 01 01", "no type of numbers"),
    ("F0 CF 01 00 00", "no type of numbers"),
    ("F2 F1 D7 01 00 01 01", "members of another kind"),
    ("F3 F0 D7 01 01 01", "members of another kind"),
    ("E2 03 F0 D7 01 05", "longer than what it is part of"),
    ("F0 CD 01 00 00 80 7F", "not finite"),
    ("D3 00", "cut short"),
    ("DE 02 00 01", "cut short"),
    ("C3 01", "leads to no string"),
    ("C3 7F", "leads to no string"),
    ("E2 03 05 C3 03", "leads to no string"),
]


@pytest.mark.parametrize(("sent", "reason"), BROKEN)
def test_broken_bodies_are_refused(sent: str, reason: str) -> None:
    with pytest.raises(BadRequest, match=reason):
        text(bytes.fromhex(sent))


@pytest.mark.parametrize(
    ("marker", "named"), [(0x40, "user's dictionary"), (0x67, "user's dictionary"), (0xCF, "half precision")]
)
def test_what_text_cannot_say_is_refused_by_name(marker: int, named: str) -> None:
    with pytest.raises(
        Unsupported, match=f"0x{marker:02X}, .*{named}.* is not supported by Mayfly; {ENVIRONMENT_HINT}"
    ):
        text(bytes([marker]) + bytes(20))
    with pytest.raises(Unsupported, match=named):
        text(bytes([0xE9, marker]) + bytes(20))


@pytest.mark.parametrize("marker", [0x68, 0x70, 0xD4, 0xD6, 0xF4, 0xF8, 0xFF])
def test_unknown_markers_are_refused(marker: int) -> None:
    with pytest.raises(BadRequest, match=f"0x{marker:02X} is not the marker"):
        text(bytes([marker]) + bytes(20))


@pytest.mark.parametrize("marker", [0x00, 0x1F, 0xC7, 0xCC, 0xD0, 0xD3, 0xDD, 0xE0, 0xE8, 0xF0])
def test_a_name_is_a_string(marker: int) -> None:
    with pytest.raises((BadRequest, Unsupported)):
        text(bytes([0xE9, marker]) + bytes(20))


@pytest.mark.parametrize("opening", [b"\xe1", b"\xe9\x2c"])
def test_nesting_has_a_limit(opening: bytes) -> None:
    assert text(opening * MAX_DEPTH + b"\x00").count("0") == 1
    with pytest.raises(BadRequest, match="nested more than"):
        text(opening * (MAX_DEPTH + 1) + b"\x00")


def test_references_do_not_make_a_small_body_large() -> None:
    long = b"\xc1" + (1000).to_bytes(2, "little") + b"a" * 1000
    body = long + b"\xc3\x06" * 10
    body = b"\xe4" + len(body).to_bytes(4, "little") + body
    length = 11 * 1002 + 12
    assert len(text(body, length)) == length
    with pytest.raises(TooLarge):
        text(body, length - 1)


@pytest.mark.parametrize(
    "member",
    [b"\x00", b"\x7f\xe8\x03" + b"a" * 875, b"\xf1\xd7\xe8\x03" + bytes(1000), b"\xf3\xf1\xd7\0\0\xe8\x03"],
    ids=["values", "characters", "numbers", "arrays"],
)
def test_decoding_yields_to_other_tasks(member: bytes) -> None:
    async def read() -> int:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        # A string of 1000 packed characters counts as 16 values.
        times = {1: 10 * VALUES_PER_TURN, 878: 10 * VALUES_PER_TURN // 16}.get(len(member), 10)
        body = b"\x80\xe4" + (times * len(member)).to_bytes(4, "little") + member * times
        await to_text(body, 16 * LIMIT)
        counting.cancel()
        return turns

    assert asyncio.run(read()) >= 9


def test_system_strings_are_those_of_the_markers() -> None:
    assert len(SYSTEM_STRINGS) == len(set(SYSTEM_STRINGS)) == 32


def test_packed_strings_are_read_as_character_by_character(chance: random.Random) -> None:
    for _ in range(300):
        marker, bits = chance.choice(((0x7B, 4), (0x7C, 5), (0x7D, 6), (0x7E, 7)))
        length, base = chance.randrange(256), chance.randrange(128) if bits < 7 else 0
        data = chance.randbytes((length * bits + 7) // 8)
        stream = int.from_bytes(data, "little")
        expected = "".join(chr(base + (stream >> place * bits) % (1 << bits)) for place in range(length))
        head = bytes([marker, length]) if bits == 7 else bytes([marker, length, base])
        assert json.loads(text(head + data)) == expected


# --- writing -----------------------------------------------------------------------------------------------------------

WRITTEN = [
    ("null", "D0"),
    ("false", "D1"),
    ("true", "D2"),
    ("0", "00"),
    ("31", "1F"),
    ("32", "C8 20"),
    ("255", "C8 FF"),
    ("256", "C9 00 01"),
    ("32767", "C9 FF 7F"),
    ("32768", "CA 00 80 00 00"),
    ("-1", "C9 FF FF"),
    ("-32768", "C9 00 80"),
    ("-32769", "CA FF 7F FF FF"),
    ("2147483647", "CA FF FF FF 7F"),
    ("2147483648", "CB 00 00 00 80 00 00 00 00"),
    ("-2147483649", "CB FF FF FF 7F FF FF FF FF"),
    ("9223372036854775807", "CB FF FF FF FF FF FF FF 7F"),
    ("9223372036854775808", "C7 00 00 00 00 00 00 00 80"),
    ("18446744073709551616", "CC 00 00 00 00 00 00 F0 43"),
    ("-9223372036854775809", "CC 00 00 00 00 00 00 E0 C3"),
    ("1.5", "CC 00 00 00 00 00 00 F8 3F"),
    ("-0.0", "CC 00 00 00 00 00 00 00 80"),
    ('""', "80"),
    ('"id"', "2C"),
    ('"_id"', "3F"),
    ('"hi"', "82 68 69"),
    (f'"{"a" * 63}"', "BF" + "61" * 63),
    (f'"{"a" * 64}"', "C0 40" + "61" * 64),
    (f'"{"a" * 256}"', "C1 00 01" + "61" * 256),
    (f'"{"a" * 65536}"', "C2 00 00 01 00" + "61" * 65536),
    ("[]", "E0"),
    ("{}", "E8"),
    ("[null,1]", "E5 02 02 D0 01"),
    ('{"id":"é"}', "ED 04 01 2C 82 C3 A9"),
    (f'["{"a" * 253}"]', "E5 FF 01 C0 FD" + "61" * 253),
    (f'["{"a" * 254}"]', "E6 00 01 01 00 C0 FE" + "61" * 254),
    (f'["{"a" * 65533}"]', "E7 00 00 01 00 01 00 00 00 C1 FD FF" + "61" * 65533),
    (f'{{"a":"{"a" * 252}"}}', "EE 00 01 01 00 81 61 C0 FC" + "61" * 252),
]


@pytest.mark.parametrize(("sent", "expected"), WRITTEN, ids=range(len(WRITTEN)))
def test_a_value_is_written(sent: str, expected: str) -> None:
    assert to_binary(sent.encode()) == b"\x80" + bytes.fromhex(expected)


def some_value(chance: random.Random, depth: int) -> Any:
    match chance.randrange(9 if depth else 6):
        case 0:
            return chance.choice((None, True, False))
        case 1:
            return chance.randrange(-(1 << chance.randrange(1, 64)), 1 << chance.randrange(1, 64))
        case 2:
            return chance.uniform(-1, 1) * 10.0 ** chance.randrange(-300, 300)
        case 3 | 4:
            return chance.choice(SYSTEM_STRINGS)
        case 5:
            return "é🦋a\0" * chance.choice((0, 1, 9, 40, 100))
        case 6:
            return [some_value(chance, depth - 1) for _ in range(chance.choice((0, 1, 5, 300 if depth == 1 else 6)))]
        case _:
            return {
                f"{some_value(chance, 0)}{n}": some_value(chance, depth - 1)
                for n in range(chance.choice((0, 1, 5, 40 if depth == 1 else 6)))
            }


def test_random_values_come_back(chance: random.Random) -> None:
    for _ in range(30):
        value = some_value(chance, 3)
        assert json.loads(text(to_binary(json.dumps(value).encode())[1:], 1 << 26)) == value
