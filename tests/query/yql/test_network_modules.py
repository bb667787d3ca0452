"""The modules Ip, Url, Hyperscan and Pire, and further functions of String and Digest.

Source: https://ydb.tech/docs/en/yql/reference/udf/list/
"""

from __future__ import annotations

from typing import Any

import pytest

from query.yql.asking import columns, refusal, rows

LINES = "'a.*\\n.*a.*\\n.*axa.*'"

RESULTS: list[tuple[str, str, Any]] = [
    ("Ip::ToString(Ip::FromString('1.2.3.4'))", "String?", b"1.2.3.4"),
    ("Ip::FromString('1.2.3.4')", "String?", b"\x01\x02\x03\x04"),
    ("Ip::FromString('1.2.3')", "String?", None),
    ("Ip::ToString('123')", "String?", None),
    ("Ip::ToString(Ip::FromString('1::FFFF:0:1'))", "String?", b"1::ffff:0:1"),
    ("Ip::IsEmbeddedIPv4(Ip::FromString('::ffff:77.75.155.3'))", "Bool", True),
    ("Ip::IsEmbeddedIPv4(Ip::FromString('::1'))", "Bool", False),
    ("Ip::IsIPv4(Ip::FromString('1.2.3.4'))", "Bool", True),
    ("Ip::IsIPv6(Ip::FromString('1.2.3.4'))", "Bool", False),
    ("Ip::IsIPv6(NULL)", "Bool", False),
    ("Ip::ToString(Ip::Ipv4FromUint32(1))", "String?", b"0.0.0.1"),
    ("Ip::Ipv4ToUint32(Ip::FromString('1.0.0.1'))", "Uint32?", 16777217),
    ("Ip::Ipv4ToUint32(Ip::FromString('::1'))", "Uint32?", None),
    ("Ip::ToString(Ip::ConvertToIPv6(Ip::Ipv4FromUint32(1)))", "String?", b"::ffff:0.0.0.1"),
    ("Ip::ToString(Ip::GetSubnet(Ip::FromString('213.180.193.3')))", "String?", b"213.180.193.0"),
    ("Ip::ToString(Ip::GetSubnet(Ip::FromString('213.180.193.3'), 16))", "String?", b"213.180.0.0"),
    ("Ip::ToString(Ip::GetSubnet(Ip::FromString('1:2:3:4:5::')))", "String?", b"1:2:3:4::"),
    (
        "Ip::ToString(Ip::GetSubnetByMask(Ip::FromString('192.168.0.1'), Ip::FromString('255.255.0.0')))",
        "String?",
        b"192.168.0.0",
    ),
    ("Ip::SubnetToString(Ip::SubnetFromString('192.168.0.1/16'))", "String?", b"192.168.0.0/16"),
    ("Ip::SubnetFromString('192.168.0.1/33')", "String?", None),
    ("Ip::SubnetMatch(Ip::SubnetFromString('192.168.0.1/16'), Ip::FromString('192.168.255.255'))", "Bool?", True),
    ("Ip::SubnetMatch(Ip::SubnetFromString('192.168.0.1/16'), Ip::FromString('192.169.0.0'))", "Bool?", False),
    ("Ip::SubnetMatch(Ip::SubnetFromString('10.0.0.0/8'), Ip::SubnetFromString('10.1.0.0/16'))", "Bool?", True),
    ("Ip::SubnetMatch(Ip::SubnetFromString('10.1.0.0/16'), Ip::SubnetFromString('10.0.0.0/8'))", "Bool?", False),
    ("Ip::SubnetMatch(Ip::SubnetFromString('10.1.0.0/16'), Ip::FromString('::1'))", "Bool?", False),
    # Addresses of pages.
    ("Url::GetScheme('https://ydb.tech')", "String", b"https://"),
    ("Url::GetScheme('ydb.tech')", "String", b""),
    ("Url::GetHost('https://u:p@ydb.tech:80/a?b#c')", "String", b"ydb.tech"),
    ("Url::GetHost(Nothing(String?))", "String?", None),
    ("Url::GetHost('http://[::1]:80/')", "String", b"[::1]"),
    ("Url::GetHostPort('https://ydb.tech:80/a')", "String", b"ydb.tech:80"),
    ("Url::GetSchemeHost('https://ydb.tech:80/a')", "String", b"https://ydb.tech"),
    ("Url::GetSchemeHostPort('https://ydb.tech:80/a')", "String", b"https://ydb.tech:80"),
    ("Url::GetPort('https://ydb.tech:80/a')", "String?", b"80"),
    ("Url::GetPort('https://ydb.tech/a')", "String?", None),
    ("Url::GetTail('https://ydb.tech/a?b#c')", "String", b"/a?b#c"),
    ("Url::GetPath('https://ydb.tech/a?b#c')", "String", b"/a"),
    ("Url::GetFragment('https://ydb.tech/a?b#c')", "String?", b"c"),
    ("Url::GetCGIParam('https://ydb.tech/?a=1&b=x%20y#c', 'b')", "String?", b"x y"),
    ("Url::GetCGIParam('https://ydb.tech/?a=1', 'b')", "String?", None),
    ("Url::GetDomain('http://www.ydb.tech', 2)", "String?", b"ydb.tech"),
    ("Url::GetDomain('http://www.ydb.tech', 4)", "String?", None),
    ("Url::GetDomainLevel('http://www.ydb.tech')", "Uint64", 3),
    ("Url::GetTLD('http://www.ydb.tech/a.b')", "String", b"tech"),
    ("Url::GetSignificantDomain('http://a.b.co.uk')", "String", b"b.co.uk"),
    ("Url::GetSignificantDomain('http://a.b.ydb.tech')", "String", b"ydb.tech"),
    ("Url::GetSignificantDomain('http://a.b.ydb.tech', ['ydb'])", "String", b"b.ydb.tech"),
    ("Url::CutScheme('http://www.ydb.tech')", "String", b"www.ydb.tech"),
    ("Url::CutWWW('www.ydb.tech')", "String", b"ydb.tech"),
    ("Url::CutWWW('www2.ydb.tech')", "String", b"www2.ydb.tech"),
    ("Url::CutWWW2('www2.ydb.tech')", "String", b"ydb.tech"),
    ("Url::CutQueryStringAndFragment('http://ydb.tech/a?b=c#d')", "String", b"http://ydb.tech/a"),
    ("Url::Decode('http://ydb.tech/%D1%8F')", "String", "http://ydb.tech/я".encode()),
    ("Url::Encode('http://ydb.tech/я')", "String", b"http://ydb.tech/%D1%8F"),
    ("Url::HostNameToPunycode('пример.com')", "String?", b"xn--e1afmkfd.com"),
    ("Url::PunycodeToHostName('xn--e1afmkfd.com')", "String?", "пример.com".encode()),
    ("Url::CanBePunycodeHostName('ydb.tech')", "Bool", False),
    ("Url::Parse('https://u:p@ydb.tech:80/a?b#c').Host", "String?", b"ydb.tech"),
    ("Url::Parse('https://u:p@ydb.tech:80/a?b#c').Pass", "String?", b"p"),
    ("Url::Parse('https://ydb.tech').Port", "String?", None),
    ("Url::QueryStringToList('a=1&b=2&a=3')", "List<Tuple<String,String>>", [(b"a", b"1"), (b"b", b"2"), (b"a", b"3")]),
    ("Url::QueryStringToList('a=1&b=')", "List<Tuple<String,String>>", [(b"a", b"1")]),
    ("Url::QueryStringToList('a=1&b=', true AS KeepBlankValues)", "List<Tuple<String,String>>", [(b"a", b"1"), (b"b", b"")]),
    ("Url::QueryStringToList('a=1&b', false AS Strict)", "List<Tuple<String,String>>", [(b"a", b"1")]),
    ("Url::QueryStringToList('a=1;b=2', ';' AS Separator)", "List<Tuple<String,String>>", [(b"a", b"1"), (b"b", b"2")]),
    ("Url::QueryStringToDict('a=1&b=2&a=3')", "Dict<String,List<String>>", {b"a": [b"1", b"3"], b"b": [b"2"]}),
    ("Url::BuildQueryString([('a', '1 2'), ('b', '&')])", "String", b"a=1+2&b=%26"),
    ("Url::BuildQueryString({'a': '1'})", "String", b"a=1"),
    ("Url::BuildQueryString({'a': ['1', '3']}, ';')", "String", b"a=1;a=3"),
    # Patterns.
    ("Pire::Match('a.*')('xaa')", "Bool", False),
    ("Pire::Grep('axa')('xaaxaa')", "Bool", True),
    ("Pire::Grep('(?i)AXA')('xaaxaa')", "Bool", True),
    (f"Pire::MultiMatch({LINES})('xaaxaa')", "Tuple<Bool,Bool,Bool>", (False, True, True)),
    (f"Pire::MultiGrep({LINES})(Nothing(String?))", "Tuple<Bool,Bool,Bool>", (False, False, False)),
    ("Pire::Capture('.*x(a+).*')('xaaxaaa')", "String?", b"aaa"),
    ("Pire::Capture('x(a)')('y')", "String?", None),
    ("Pire::Replace('.*x(a).*')('xaaxaaxaa', 'b')", "String", b"xaaxaaxba"),
    ("Hyperscan::Match('.*a{2}.*')('xaaX')", "Bool", True),
    ("Hyperscan::Grep('(?i)axaa$')('xaaxaaXaa')", "Bool", True),
    ("Hyperscan::BacktrackingGrep('a+x')('xaaxaa')", "Bool", True),
    ("Hyperscan::Replace('xa')('xaaxaaXaa', 'b')", "String", b"babaXaa"),
    (r"Hyperscan::Replace('x')('x', '\\0')", "String", rb"\0"),
    # Numbers for people.
    ("String::HumanReadableBytes(1023)", "String", b"1023B"),
    ("String::HumanReadableBytes(1024)", "String", b"1KiB"),
    ("String::HumanReadableBytes(1536)", "String", b"1.5KiB"),
    ("String::HumanReadableBytes(1099511627776)", "String", b"1TiB"),
    ("String::HumanReadableQuantity(999)", "String", b"999"),
    ("String::HumanReadableQuantity(12345)", "String", b"12.3K"),
    ("String::HumanReadableDuration(999)", "String", b"999us"),
    ("String::HumanReadableDuration(1500)", "String", b"1.5ms"),
    ("String::HumanReadableDuration(1000000)", "String", b"1s"),
    ("String::HumanReadableDuration(59990000)", "String", b"60s"),
    ("String::HumanReadableDuration(60000000)", "String", b"1m"),
    ("String::HumanReadableDuration(90061000000)", "String", b"1d 1h 1m 1s"),
    # Hashes: the values of the algorithms' own test vectors.
    ("Digest::Crc32('123456789')", "Uint32", 0xCBF43926),
    ("String::HexEncode(SUBSTRING(Digest::Sha224('abc'), 0, 4))", "String", b"23097D22"),
    ("String::HexEncode(SUBSTRING(Digest::Sha384('abc'), 0, 4))", "String", b"CB00753F"),
    ("Digest::IntHash64(0)", "Uint64", 0),
    ("Digest::IntHash64(1)", "Uint64", 0xB456BCFC34C2CB2C),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "expected"), RESULTS, ids=[call for call, *_ in RESULTS])
def test_results(call: str, kind: str, expected: Any) -> None:
    text = f"SELECT {call} AS x"
    assert columns(text).partition(" ")[2] == kind
    assert rows(text) == [(expected,)]


REFUSED = [
    ("Ip::GetSubnet('123')", "Incorrect size of input, expected 4 or 16, got 3"),
    ("Ip::GetSubnet(Ip::FromString('1.2.3.4'), 33)", "Subnet size 33 is greater than 32"),
    ("Ip::GetSubnetByMask('1234', '12345')", "Different sizes of address and mask"),
    ("Ip::SubnetMatch('1234', '1234')", "Incorrect size of input, expected 8 or 32, got 4"),
    ("Url::QueryStringToList('a')", "Bad query field: a"),
    ("Url::QueryStringToList('a=1&b=2', 1u AS MaxFields)", "Max number of fields exceeded"),
    ("Url::BuildQueryString(1)", "Mismatch type argument #1"),
    ("Url::Normalize('a')", "Function Url::Normalize is not supported"),
    ("Url::IsKnownTLD('a')", "Function Url::IsKnownTLD is not supported"),
    ("Hyperscan::Capture('a')", "Function Hyperscan::Capture is not supported"),
    ("Pire::Capture('a')('a')", "Expected an expression with exactly one group"),
    ("Pire::Grep('(')('a')", "Invalid regular expression"),
    ("Hyperscan::BacktrackingGrep('a(?=x)')('xaaxaa')", "looking ahead is not supported"),
    ("Pire::Grep(1)", "Mismatch type argument #1"),
    ("Unicode::Translit('x')", "Function Unicode::Translit is not supported"),
    ("Digest::XXH3('x')", "Function Digest::XXH3 is not supported"),
]


@pytest.mark.parametrize(("call", "said"), REFUSED)
def test_refusals(call: str, said: str) -> None:
    assert said in refusal(f"SELECT {call}")
