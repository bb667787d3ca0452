"""Parsers of one raw value: text from a flag or variable, or a TOML value. They raise ValueError with a sentence for people."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from mayflydb.frontends.mongo.options import DatabaseOptions
from mayflydb.model.durations import format_span, parse_instant, parse_span
from mayflydb.model.instant import DAY, HOUR, MILLISECOND, MINUTE, SECOND, Instant, Span
from mayflydb.store import postgres_urls

MEMORY = "memory"
FILE_SCHEME = "sqlite:///"

WIRE_VERSIONS = (9, 13, 17, 21, 25, 29)
"""The wire versions of MongoDB 4.4, 5.0, 6.0, 7.0, 8.0 and 9.0."""

COMPRESSORS = ("zstd", "snappy", "zlib")


def text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("text is needed")
    return value


def texts(value: Any) -> tuple[str, ...]:
    """A list; in a variable, separated by commas."""
    parts = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        raise ValueError("a list of texts is needed")
    return tuple(part for part in parts if part)


def choice(*words: str) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        if value not in words:
            raise ValueError(f"{value!r} is none of {', '.join(words)}")
        return str(value)

    return parse


def switch(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    words = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
    if isinstance(value, str) and value.lower() in words:
        return words[value.lower()]
    raise ValueError(f"{value!r} is neither true nor false")


def optional_switch(value: Any) -> bool | None:
    return None if value in ("", "auto") else switch(value)


def whole(value: Any) -> int:
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,9}", value.strip()):
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ValueError(f"{value!r} is not a whole number")


def count(value: Any) -> int:
    """A number of things; not negative."""
    number = whole(value)
    if number < 0:
        raise ValueError(f"{number} is less than 0")
    return number


def port(value: Any) -> int:
    number = whole(value)
    if not -1 <= number <= 65535:
        raise ValueError(f"{number} is not a port; 0 picks a free one, -1 is off")
    return number


def optional_port(value: Any) -> int | None:
    return None if value in ("", "auto") else port(value)


def positive(value: Any) -> int:
    number = whole(value)
    if number < 1:
        raise ValueError(f"{number} is less than 1")
    return number


def percent(value: Any) -> int:
    """A whole number from 0 to 100."""
    found = whole(value)
    if not 0 <= found <= 100:
        raise ValueError(f"{value} is not a whole number from 0 to 100")
    return found


def topology(value: Any) -> str:
    """`mongos`, `standalone` or `replicaset:NAME`."""
    given = text(value)
    if given in ("mongos", "standalone") or re.fullmatch(r"replicaset:[A-Za-z0-9_.-]{1,100}", given):
        return given
    raise ValueError(f"{given!r} is none of mongos, standalone and replicaset:NAME")


def wire_version(value: Any) -> int:
    number = whole(value)
    if number not in WIRE_VERSIONS:
        raise ValueError(f"{number} is none of {', '.join(map(str, WIRE_VERSIONS))}")
    return number


def compressors(value: Any) -> tuple[str, ...] | None:
    """Names from `COMPRESSORS`; None: the installed ones."""
    if value in ("", "auto", (), []):
        return None
    names = texts(value)
    if unknown := [name for name in names if name not in COMPRESSORS]:
        raise ValueError(f"{unknown[0]!r} is none of {', '.join(COMPRESSORS)}")
    return names


def mongo_databases(value: Any) -> dict[str, DatabaseOptions]:
    """By name. A table as TOML has it, or texts: `shop.profile=cosmos`, `shop.carts.expiry=hide`."""
    tree = value if isinstance(value, Mapping) else _mongo_tree(texts(value))
    try:
        return msgspec.convert(tree, dict[str, DatabaseOptions])
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error


def _mongo_tree(given: tuple[str, ...]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for each in given:
        path, equals, word = each.partition("=")
        database, _, rest = path.partition(".")
        collection, _, name = rest.rpartition(".")
        if not (equals and database and name) or (collection and name != "expiry"):
            raise ValueError(f"{each!r} does not look like shop.profile=cosmos or shop.carts.expiry=hide")
        own = tree.setdefault(database, {})
        if collection:
            own.setdefault("collections", {})[collection] = {"expiry": word}
        else:
            own[name] = switch(word) if name == "custom_path_ttl" else word
    return tree


def ydb_databases(value: Any) -> tuple[str, ...]:
    """Absolute paths; the first is the database of clients that name none."""
    found = texts(value)
    if not found:
        raise ValueError("a database is needed, such as /local")
    for each in found:
        if not re.fullmatch(r"(/[A-Za-z0-9_.@=-]+)+", each):
            raise ValueError(f"{each!r} is not the path of a database; write /local")
    return found


def run_interval(value: Any) -> Span:
    """A number in TOML is seconds, as everywhere."""
    if isinstance(value, bool):
        raise ValueError("a duration is needed")
    span = parse_span(str(value))
    if not SECOND <= span <= 365 * DAY or span % SECOND:
        raise ValueError(f"{format_span(span)} is not between 1s and 365d, in whole seconds")
    return span


_ADDRESS = re.compile(
    r"(?:(https?)://)?([A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?/?"
)


_DNS_NAME = re.compile(r"(?:\*\.)?[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*")


def certificate_names(value: Any) -> tuple[str, ...]:
    """Names and addresses without port or brackets; `*.` stands for one label."""
    for each in (names := texts(value)):
        if not _is_certificate_name(each):
            raise ValueError(f"{each!r} is no host name; write it as db.example, *.example, 10.0.0.7 or ::1")
    return names


def _is_certificate_name(name: str) -> bool:
    with suppress(ValueError):
        ip_address(name)
        return True
    # Certificates hold names with other letters in ASCII. UnicodeError is a ValueError.
    with suppress(ValueError):
        return _DNS_NAME.fullmatch(name.encode("idna").decode()) is not None
    return False


class Advertised(msgspec.Struct, frozen=True):
    """The address that clients are given instead of the one that they used; a part that is None stays as in that one."""

    host: str
    port: int | None = None
    scheme: str | None = None

    def __str__(self) -> str:
        place = self.host if self.port is None else f"{self.host}:{self.port}"
        return place if self.scheme is None else f"{self.scheme}://{place}"

    def instead_of(self, used: str) -> str:
        """The address for a client that used this `scheme://host:port`. A port belongs to its scheme, so another scheme does not
        keep it.
        """
        scheme, _, place = used.partition("://")
        kept = re.search(r":([0-9]+)$", place) if self.scheme in (None, scheme) else None
        port = kept[1] if self.port is None and kept else self.port
        return str(Advertised(self.host, None if port is None else int(port), self.scheme or scheme))


def optional_address(value: Any) -> Advertised | None:
    """`HOST`, `HOST:PORT` or `SCHEME://HOST[:PORT]`; IPv6 addresses in brackets."""
    if value == "":
        return None
    given = text(value)
    match = _ADDRESS.fullmatch(given)
    wrong = ValueError(f"{given!r} is not an address; write HOST, HOST:PORT or https://HOST:PORT, [::1] for IPv6")
    if match is None:
        raise wrong
    scheme, host, number = match.groups()
    try:
        if host.startswith("["):
            ip_address(host.strip("[]"))
    except ValueError:
        raise wrong from None
    if number is not None and not 0 < int(number) < 65536:
        raise wrong
    return Advertised(host, None if number is None else int(number), scheme)


def optional_host(value: Any) -> Advertised | None:
    """`HOST` or `HOST:PORT`."""
    found = optional_address(value)
    if found is not None and found.scheme is not None:
        raise ValueError(f"{value!r} has a scheme; write HOST or HOST:PORT")
    return found


def optional_path(value: Any) -> Path | None:
    return None if value == "" else Path(value if isinstance(value, Path) else text(value)).expanduser().absolute()


def optional_collector(value: Any) -> str:
    """The URL of a collector of traces; empty: none."""
    if value == "":
        return ""
    url = urlsplit(text(value))
    if url.scheme not in ("http", "https") or not url.hostname or "@" in url.netloc:
        raise ValueError("http://HOST:PORT or https://HOST:PORT is needed, without a user")
    return str(value)


def region(value: Any) -> str:
    """The name of a region of S3."""
    name = text(value)
    if not re.fullmatch(r"[a-z0-9-]{1,40}", name):
        raise ValueError(f"{name[:60]!r} is no region: lower-case letters, digits and hyphens")
    return name


def ratio(value: Any) -> float:
    """A number from 0 to 1."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError("a number is needed") from None
    if isinstance(value, bool) or not 0 <= number <= 1:
        raise ValueError(f"{value} is not between 0 and 1")
    return number


def access_log(value: Any) -> Literal["off", "text", "json"] | Path:
    match text(value):
        case "off" | "text" | "json" as named:
            return named
        case path if "/" in path or "." in path:
            return Path(path).expanduser().absolute()
        case _:
            raise ValueError("off, text, json or the path of a file, with a / or a dot, is needed")


def optional_time(value: Any) -> Instant | None:
    return None if value == "" else parse_instant(str(value))


def interval(value: Any) -> Span:
    """A number in TOML is seconds, as everywhere."""
    # In Python a bool is an int: `true` would be one second.
    if isinstance(value, bool):
        raise ValueError("a duration is needed")
    span = parse_span(str(value))
    if not 10 * MILLISECOND <= span <= HOUR:
        raise ValueError(f"{format_span(span)} is not between 10ms and 1h")
    return span


def clock_jump(value: Any) -> Span:
    """A number in TOML is seconds. The span must exceed the time that is reserved ahead: a shorter step is used unnoticed."""
    if isinstance(value, bool):
        raise ValueError("a duration is needed")
    span = parse_span(str(value))
    if not 2 * SECOND <= span <= DAY:
        raise ValueError(f"{format_span(span)} is not between 2s and 1d")
    return span


def clock_wait(value: Any) -> Span:
    """A number in TOML is seconds."""
    if isinstance(value, bool):
        raise ValueError("a duration is needed")
    span = parse_span(str(value))
    if not SECOND <= span <= 365 * DAY:
        raise ValueError(f"{format_span(span)} is not between 1s and 365d")
    return span


def optional_interval(value: Any) -> Span | None:
    """An interval, or `off`, which is None."""
    return None if value == "off" else interval(value)


def retention(value: Any) -> Span:
    """A number in TOML is seconds, as everywhere."""
    if isinstance(value, bool):
        raise ValueError("a duration is needed")
    span = parse_span(str(value))
    if not MINUTE <= span <= 365 * DAY:
        raise ValueError(f"{format_span(span)} is not between 1m and 365d")
    return span


def optional_retention(value: Any) -> Span | None:
    return None if value in ("", "auto") else retention(value)


_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}


def optional_size(value: Any) -> int | None:
    """A number of bytes, or a text with a unit: `128MiB`, `1GB`."""
    return None if value in ("", "auto") else _size(value, "")


def size(value: Any) -> int:
    """Bytes, as `optional_size` has them; at least 1."""
    return _at_least_one(_size(value, ""), value)


def size_in_mib(value: Any) -> int:
    """Bytes, as `size` has them, but a number without a unit is in MiB."""
    return _at_least_one(_size(value, "MIB"), value)


def _size(value: Any, usual_unit: str) -> int:
    found = re.fullmatch(r"([0-9]{1,12})\s*([A-Za-z]{0,3})", str(value).strip())
    if isinstance(value, bool) or found is None or found[2].upper() not in _UNITS:
        raise ValueError(f"{value!r} is no size; 128MiB is one")
    return int(found[1]) * _UNITS[found[2].upper() or usual_unit]


def _at_least_one(found: int, value: Any) -> int:
    if not found:
        raise ValueError(f"{value!r} is no size; 128MiB is one")
    return found


def format_size(number: int) -> str:
    """Format bytes with the largest unit that gives a whole number: `192MiB`. The parsers of sizes give the same number back."""
    for unit, length in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if number and not number % length:
            return f"{number // length}{unit}"
    return f"{number}B"


def storage(value: Any) -> str:
    """`memory`, `sqlite:///absolute/path` or a URL of PostgreSQL as libpq has them, with hosts and ports.

    What follows `sqlite:///` is absolute unless it starts with a dot. `postgres://` is taken as well. No error repeats a URL that
    may hold a password.
    """
    url = text(value)
    if url == MEMORY:
        return url
    if url.startswith(FILE_SCHEME):
        return file_url(path_in_url(url))
    if re.match(r"postgres(ql)?://", url):
        return postgres_urls.parse(url).for_driver
    raise ValueError(
        f"{without_secrets(url)!r} is not a storage; write memory, sqlite:///./mayfly.db, sqlite:////absolute/path"
        f" or {postgres_urls.FORM}"
    )


def public_url(url: str) -> str:
    """The URL of a storage without secrets: hosts, ports and database of PostgreSQL, the scheme alone of another form."""
    return postgres_urls.parse(url).shown if url.startswith(postgres_urls.SCHEME) else without_secrets(url)


def without_secrets(url: str) -> str:
    """A URL of unknown form, shown by its scheme alone, since a password may be anywhere in it; files and words as they are."""
    scheme, colon, _ = url.partition(":")
    return f"{scheme}:..." if colon and not url.startswith(FILE_SCHEME) else url


def path_in_url(url: str) -> Path:
    # sqlite:///mayfly.db could be relative (as in SQLAlchemy) or in the root (as in a URL), so it is refused.
    rest = url.removeprefix(FILE_SCHEME)
    if rest.startswith(("./", "../")):
        return Path(rest).absolute()
    if "/" not in rest:
        raise ValueError(f"{url!r} could mean two places; write sqlite:///./{rest} or sqlite:////{rest}")
    return Path(rest if re.match(r"/|[A-Za-z]:", rest) else "/" + rest)


def file_url(path: Path) -> str:
    """`sqlite:///absolute/path` of a file."""
    absolute = Path(os.path.abspath(path.expanduser())).as_posix()  # noqa: PTH100 - resolve() would follow links
    short = absolute.removeprefix("/")
    return FILE_SCHEME + (short if "/" in short else absolute)


def is_loopback(host: str) -> bool:
    """True: `host` is localhost or a loopback address."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
