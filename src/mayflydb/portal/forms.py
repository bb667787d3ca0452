"""The parts that forms share: reading them, the outcome of a submission, and the question that a second click answers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request

from mayflydb.admin.problems import STATUS
from mayflydb.admin.requests import parse_moment
from mayflydb.model.errors import BadRequest, MayflyError
from mayflydb.model.instant import Instant

TOLERANCE_PERCENT = 10
"""Percent by which the number of expiring items may grow before the question is asked again: time passes while a person reads."""

SMALL_FORM = 16 * 1024
"""Bytes of a form that is read at once. A larger one is read on a thread."""

MOST_FIELDS = 1000
_PARAMETER = re.compile(r'\b(name|filename)="([^"]*)"')


class Outcome(msgspec.Struct, frozen=True):
    """The reason why a form is shown again: errors, or a question about `asked` items that would expire."""

    errors: Sequence[str] = ()
    status: int = 200
    asked: int = 0


NOT_SUBMITTED = Outcome()
"""The form was only opened or previewed."""


class Part(msgspec.Struct, frozen=True):
    """A field of a form. `file`: the name of the file that was chosen; empty for other fields."""

    name: str
    text: str
    file: str = ""


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form; of several with one name the last. BadRequest for text that is not UTF-8."""
    return {part.name: part.text for part in await read_parts(request)}


async def read_parts(request: Request) -> list[Part]:
    """Return all fields of a form, sent in either of the two ways of browsers. BadRequest for text that is not UTF-8."""
    body, kind = await request.body(), request.headers.get("content-type", "")
    if len(body) <= SMALL_FORM:
        return _parse_parts(body, kind)
    return await asyncio.to_thread(_parse_parts, body, kind)


def _parse_parts(body: bytes, kind: str) -> list[Part]:
    media_type, _, rest = kind.partition(";")
    try:
        if media_type.strip().lower() == "multipart/form-data":
            boundary = rest.partition("boundary=")[2].strip().strip('"')
            return list(_split_parts(body, b"--" + boundary.encode()))
        # At most as many fields as a page of the grid has lines, many times over.
        return [Part(*pair) for pair in parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS)]
    except UnicodeDecodeError:
        raise BadRequest("A form is sent in UTF-8.") from None
    except ValueError as error:
        raise BadRequest(f"The form cannot be read: {error}.") from None


def _split_parts(body: bytes, boundary: bytes) -> Iterator[Part]:
    """Yield the fields of a form with a boundary. ValueError for a body that has no such form."""
    first, *parts = (b"\r\n" + body).split(b"\r\n" + boundary, MOST_FIELDS + 1)
    if first or not parts or not parts[-1].startswith(b"--"):
        raise ValueError("its boundary is missing, or it has too many fields")
    for part in parts[:-1]:
        head, separator, content = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        given = dict(_PARAMETER.findall(head.decode()))
        if not separator or "name" not in given:
            raise ValueError("a field has no name")
        # Some editors begin a file with a mark of its encoding, which is no part of the text.
        text = content.decode().removeprefix("\ufeff") if "filename" in given else content.decode()
        yield Part(_unescape(given["name"]), text, _unescape(given.get("filename", "")))


def read_parameters(head: bytes) -> dict[str, str]:
    """Return `name` and `filename` of the head of a field."""
    found = _PARAMETER.findall(head.decode("utf-8", "replace"))
    return {name: _unescape(value) for name, value in found}


def _unescape(name: str) -> str:
    return name.replace("%22", '"').replace("%0D%0A", "\r\n")


def parse_moment_field(text: str) -> Instant:
    """Parse a field for a date and a time, which has no zone in browsers: here it is UTC. BadRequest for text that is none."""
    stripped = text.strip()
    return parse_moment(stripped if stripped.endswith("Z") else f"{stripped}Z")


def describe_error(error: MayflyError) -> tuple[str, int]:
    """Return the sentence of an error and its status."""
    status = next(STATUS[kind][0] for kind in type(error).__mro__ if kind in STATUS)
    return error.message, status


def format_question(default: int | str | None, count: int) -> str:
    """Return the question that a second click answers: the setting and the number of items."""
    return f"{'off' if default is None else default}:{count}"


def is_agreed(answer: str, default: int | str | None, count: int) -> bool:
    """Return whether this question was answered, or one about the same setting and nearly as many items."""
    setting, _, agreed = answer.rpartition(":")
    same_setting = setting == format_question(default, 0).rpartition(":")[0]
    return same_setting and count * 100 <= parse_whole_number(agreed) * (100 + TOLERANCE_PERCENT)


def parse_whole_number(text: str) -> int:
    """Parse a whole number: 0 for text that is none."""
    stripped = text.strip()
    # Fewer than 20 digits: int() of a long text takes time that grows faster than its length.
    return int(stripped) if stripped.isascii() and stripped.isdigit() and len(stripped) < 20 else 0
