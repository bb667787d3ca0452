"""How one raw value is read: text from a flag or variable, or a TOML value. ValueError with a sentence for people."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from mayflydb.model.durations import format_span, parse_instant, parse_span
from mayflydb.model.instant import HOUR, MILLISECOND, Instant, Span

MEMORY = "memory"
FILE_SCHEME = "sqlite:///"


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


def port(value: Any) -> int:
    number = whole(value)
    if not -1 <= number <= 65535:
        raise ValueError(f"{number} is not a port; 0 picks a free one, -1 is off")
    return number


def unserved_port(protocol: str, flag: str) -> Callable[[Any], int]:
    def parse(value: Any) -> int:
        number = port(value)
        if number > 0:
            raise ValueError(f"{protocol} is not served by this version; use {flag} -1")
        return number

    return parse


def optional_path(value: Any) -> Path | None:
    return None if value == "" else Path(text(value)).expanduser().absolute()


def optional_time(value: Any) -> Instant | None:
    return None if value == "" else parse_instant(str(value))


def interval(value: Any) -> Span:
    """A number in TOML is seconds, as everywhere."""
    if isinstance(value, bool):
        raise ValueError("a duration is needed")
    span = parse_span(str(value))
    if not 10 * MILLISECOND <= span <= HOUR:
        raise ValueError(f"{format_span(span)} is not between 10ms and 1h")
    return span


def storage(value: Any) -> str:
    """`memory` or `sqlite:///absolute/path`. What follows `sqlite:///` is absolute unless it starts with a dot."""
    url = text(value)
    if url == MEMORY:
        return url
    if url.startswith(FILE_SCHEME):
        return file_url(path_in_url(url))
    if url.startswith(("postgresql:", "postgres:")):
        raise ValueError("PostgreSQL storage is not part of this version; use a file or memory")
    raise ValueError(f"{url!r} is not a storage; write memory, sqlite:///./mayfly.db or sqlite:////absolute/path")


def path_in_url(url: str) -> Path:
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
    """Whether `host` is localhost or a loopback address."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
