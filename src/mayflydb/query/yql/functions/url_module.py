"""The module Url. A URL is taken apart without decoding, and a part that it does not have is NULL or empty.

Source: https://ydb.tech/docs/en/yql/reference/udf/list/url
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from mayflydb.query.yql.expression import Builder, Invocation, Operand
from mayflydb.query.yql.faults import fault
from mayflydb.query.yql.functions.signatures import build_by_signature, build_module
from mayflydb.query.yql.functions.support import value_at
from mayflydb.query.yql.functions.text_tools import cgi_escape, cgi_unescape, percent_decode, percent_encode
from mayflydb.query.yql.types import DictType, ListType, Type, Value, bare

_SCHEME: Final = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*://")
_PARTS: Final = re.compile(
    rb"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):)?(?://(?:(?P<user>[^@/?#:]*)(?::(?P<pass>[^@/?#]*))?@)?"
    rb"(?P<host>\[[^\]/?#]*\]|[^:/?#]*)(?::(?P<port>[0-9]*))?(?=[/?#]|\Z))?"
    rb"(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?(?:#(?P<frag>.*))?\Z",
    re.DOTALL,
)
_WWW: Final = re.compile(rb"www\.", re.IGNORECASE)
_WWW2: Final = re.compile(rb"w+[0-9]*\.", re.IGNORECASE)
# YDB's own set: what a URL may have stays as it is.
_SAFE: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/:?#[]@!$&'()*+,;=%")


def _scheme(url: bytes) -> bytes:
    found = _SCHEME.match(url)
    return b"" if found is None else found[0]


def _without_scheme(url: bytes) -> bytes:
    return url[len(_scheme(url)) :]


def _host_port(url: bytes) -> bytes:
    return re.split(rb"[/?#;]", _without_scheme(url), maxsplit=1)[0].rpartition(b"@")[2]


def _host(url: bytes) -> bytes:
    found = _host_port(url)
    if found.startswith(b"["):
        return found.partition(b"]")[0] + b"]"
    return found.partition(b":")[0]


def _port(url: bytes) -> bytes | None:
    found = _host_port(url)[len(_host(url)) + 1 :]
    return found or None


def _tail(url: bytes) -> bytes:
    """Everything behind the host."""
    rest = _without_scheme(url)
    found = re.search(rb"[/?#;]", rest)
    return b"/" if found is None else rest[found.start() :]


def _path(url: bytes) -> bytes:
    found = re.split(rb"[?#]", _tail(url), maxsplit=1)[0]
    return found if found.startswith(b"/") else b"/" + found


def _fragment(url: bytes) -> bytes | None:
    _, sign, found = url.partition(b"#")
    return found if sign else None


def _parameter(url: bytes, name: bytes) -> bytes | None:
    query = url.partition(b"#")[0].partition(b"?")[2]
    for pair in query.split(b"&"):
        key, _, value = pair.partition(b"=")
        if key == name:
            return cgi_unescape(value)
    return None


def _domain(url: bytes, level: int) -> bytes | None:
    labels = _host(url).split(b".")
    return b".".join(labels[-level:]) if 0 < level <= len(labels) and labels[0] else None


def _significant(url: bytes, zones: list[bytes] | None = None) -> bytes:
    labels = _host(url).split(b".")
    known = [b"com", b"net", b"org", b"co", b"gov", b"edu"] if zones is None else zones
    size = 3 if len(labels) > 2 and labels[-2] in known else 2
    return b".".join(labels[-size:])


def _parse(url: bytes) -> Value:
    """The members in order: fragment, host, error, password, path, port, query, scheme, user."""
    found = _PARTS.match(url)
    if found is None or found["host"] is None:
        return (None, None, b"Bad URL", None, None, None, None, None, None)
    part = found.groupdict()
    names = ("frag", "host", "", "pass", "path", "port", "query", "scheme", "user")
    return tuple(part.get(name) or None for name in names)


def _cut(pattern: re.Pattern[bytes]) -> Callable[[bytes], bytes]:
    return lambda host: pattern.sub(b"", host, count=1) if pattern.match(host) else host


def _encode(text: bytes) -> bytes:
    return percent_encode(text, _SAFE)


# --- query strings -----------------------------------------------------------------------------------------------------


def _pairs(
    text: bytes,
    blank: bool | None = None,
    strict: bool | None = None,
    most: int | None = None,
    separator: bytes | None = None,
) -> list[tuple[bytes, bytes]]:
    given = text.split(separator or b"&") if text else []
    if most is not None and len(given) > most:
        raise fault("Max number of fields exceeded")
    found = []
    for field in given:
        key, sign, value = field.partition(b"=")
        if not field or not sign:
            if strict is not False and field:
                raise fault(f"Bad query field: {field.decode('utf-8', 'replace')}")
            if not (field and blank):
                continue
        if value or blank:
            found.append((cgi_unescape(key), cgi_unescape(value)))
    return found


def _group_pairs(*arguments: Value) -> dict[bytes, list[bytes]]:
    found: dict[bytes, list[bytes]] = {}
    for key, value in _pairs(*arguments):
        found.setdefault(key, []).append(value)
    return found


_OPTIONS: Final = "[KeepBlankValues:Bool?, Strict:Bool?, MaxFields:Uint32?, Separator:String?]"


def _build(pairs: list[tuple[bytes, bytes | None]], separator: bytes | None = None) -> bytes:
    return (separator or b"&").join(cgi_escape(key) + b"=" + cgi_escape(value or b"") for key, value in pairs)


def _build_dict(fields: dict[bytes, bytes | None], separator: bytes | None = None) -> bytes:
    return _build(list(fields.items()), separator)


def _build_lists(fields: dict[bytes, list[bytes | None]], separator: bytes | None = None) -> bytes:
    return _build([(key, value) for key, values in fields.items() for value in values], separator)


_BY_TYPE: Final = tuple(
    (kind, build_by_signature(f"({text}, [Separator:String?]) -> String", call))
    for kind, text, call in (
        (ListType, "Dict<String, List<String?>>", _build_lists),
        (Type, "Dict<String, String?>", _build_dict),
    )
)


def _build_query(call: Invocation) -> Operand:
    """`BuildQueryString(fields [, separator])`; fields are a list of pairs, a dictionary of texts, or of lists of texts."""
    kind = bare(value_at(call, 0).type)
    if isinstance(kind, DictType):
        return next(build(call) for payload, build in _BY_TYPE if isinstance(kind.payload, payload))
    return build_by_signature("(List<Tuple<String, String?>>, [Separator:String?]) -> String", _build)(call)


# --- Punycode ----------------------------------------------------------------------------------------------------------


def _to_punycode(host: bytes) -> bytes | None:
    try:
        return host.decode().encode("idna")
    except UnicodeError:
        return None


def _from_punycode(host: bytes) -> bytes | None:
    try:
        return host.decode("idna").encode()
    except UnicodeError:
        return None


_PARSED: Final = (
    "Struct<Frag:String?, Host:String?, ParseError:String?, Pass:String?, Path:String?, Port:String?, Query:String?, "
    "Scheme:String?, User:String?>"
)
_OF_URL: Final = "(String) -> String"
_MAYBE: Final = "(String) -> String?"

BUILDERS: Final[dict[str, Builder]] = build_module(
    {
        "Encode": (_OF_URL, _encode),
        "Decode": (_OF_URL, percent_decode),
        "Parse": (f"(String) -> {_PARSED}", _parse),
        "GetScheme": (_OF_URL, _scheme),
        "GetHost": (_OF_URL, _host),
        "GetHostPort": (_OF_URL, _host_port),
        "GetSchemeHost": (_OF_URL, lambda url: _scheme(url) + _host(url)),
        "GetSchemeHostPort": (_OF_URL, lambda url: _scheme(url) + _host_port(url)),
        "GetPort": (_MAYBE, _port),
        "GetTail": (_OF_URL, _tail),
        "GetPath": (_OF_URL, _path),
        "GetFragment": (_MAYBE, _fragment),
        "GetCGIParam": ("(String, String) -> String?", _parameter),
        "GetDomain": ("(String, Uint8) -> String?", _domain),
        "GetDomainLevel": ("(String) -> Uint64", lambda url: _host(url).count(b".") + 1),
        "GetTLD": (_OF_URL, lambda url: _host(url).rpartition(b".")[2]),
        "GetSignificantDomain": ("(String, [List<String>?]) -> String", _significant),
        "CutScheme": (_OF_URL, _without_scheme),
        "CutWWW": (_OF_URL, _cut(_WWW)),
        "CutWWW2": (_OF_URL, _cut(_WWW2)),
        "CutQueryStringAndFragment": (_OF_URL, lambda url: re.split(rb"[?#]", url, maxsplit=1)[0]),
        "HostNameToPunycode": (_MAYBE, _to_punycode),
        "ForceHostNameToPunycode": (_OF_URL, lambda host: _to_punycode(host) or host),
        "PunycodeToHostName": (_MAYBE, _from_punycode),
        "ForcePunycodeToHostName": (_OF_URL, lambda host: _from_punycode(host) or host),
        "CanBePunycodeHostName": ("(String) -> Bool", lambda host: b"xn--" in host.lower()),
        "QueryStringToList": (f"(String, {_OPTIONS}) -> List<Tuple<String, String>>", _pairs),
        "QueryStringToDict": (f"(String, {_OPTIONS}) -> Dict<String, List<String>>", _group_pairs),
    }
)
BUILDERS["BuildQueryString"] = _build_query
