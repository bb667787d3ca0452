"""Sizes and targets in the heads of requests."""

from __future__ import annotations

from httptools import HttpParserInvalidURLError, parse_url


def line_size(name: bytes, value: bytes) -> int:
    """Return the bytes of a header's line."""
    return len(name) + len(value) + len(": \r\n")


def split_absolute_target(url: bytes) -> tuple[bytes, bytes]:
    """Path and query of a target in absolute form, as proxies are asked (RFC 9112, 3.2.2)."""
    try:
        parts = parse_url(url)
    except HttpParserInvalidURLError:
        return url, b""
    return parts.path or b"/", parts.query or b""
