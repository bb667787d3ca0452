"""Requests of known shapes. The frames of a client have the same tokens, with values of the same lengths, again and again.

What a shape means is worked out once, by `requests`; then one call takes all values out of a frame. All bytes between the values
are compared, so a frame of another shape is never mistaken for one of a known shape.
"""

from __future__ import annotations

from operator import itemgetter
from struct import Struct
from typing import Final

import msgspec

from mayflydb.frontends.cosmos.direct import ids
from mayflydb.frontends.cosmos.direct.frames import HEAD_BYTES, Addressee, RequestHead, format_activity
from mayflydb.frontends.cosmos.direct.requests import (
    CARRIED,
    DEPENDENT,
    OPERATIONS,
    PLACES,
    SCHEME,
    Entry,
    build_path,
    copy_text,
    name_match_header,
)
from mayflydb.frontends.cosmos.direct.tokens import Kind, scan
from mayflydb.frontends.cosmos.headers import ACTIVITY_ID, REPLICA_PATH
from mayflydb.http.messages import Request

MAX_FRAME: Final = 2048
"""Bytes of the longest frame whose shape is kept."""

MAX_SIZES: Final = 512
"""Sizes of frames whose shapes are kept: two of each size, the one that was used last first."""

PATIENCE: Final = 16
"""Frames of unknown shapes for each shape that takes the place of another: to learn one takes longer than to translate."""

KEY_BYTES: Final = 8
"""The bytes of a frame that have its size and its operation."""

_COMPARED: Final = frozenset(
    {ids.PAYLOAD_PRESENT, ids.CONSISTENCY, ids.DIRECTION, ids.FEED_KEY_TYPE}
    | {id for id, (_, form) in CARRIED.items() if form is not copy_text}
)
"""Tokens whose values belong to the shape: there are few."""

_TRANSLATED_ALONE: Final = DEPENDENT - _COMPARED - {ids.MATCH}
"""Tokens with which a request has no shape."""


class _Layout(msgspec.Struct):
    """The fields of a frame, by their numbers: what is compared, the values of headers, the names by their tokens."""

    form: str = f"<{KEY_BYTES}x16s"
    size: int = 1
    constants: list[int] = []
    headers: dict[bytes, int] = {}
    names: dict[int, int] = {}
    number: int = 0

    def add(self, form: str) -> int:
        """Add a field, and return its number."""
        self.form += form
        self.size += 1
        return self.size - 1


def _lay_out(frame: bytes, head: RequestHead) -> _Layout | None:
    """Return the layout of a frame that was translated; None if its kind has no shape."""
    layout = _Layout()
    names = {token for _, token in PLACES[head.resource]}
    compared = HEAD_BYTES  # The place from which on bytes are compared.
    for id, kind, begin, end in scan(frame, HEAD_BYTES):
        if id in _COMPARED:
            continue
        layout.constants.append(layout.add(f"{begin - compared}s"))
        compared = end
        carried = name_match_header(head.operation) if id == ids.MATCH else CARRIED.get(id, (None,))[0]
        if id == ids.TRANSPORT_REQUEST_ID:
            if kind != Kind.ULONG:
                return None
            layout.number = layout.add("I")
        elif id in names:
            layout.names[id] = layout.add(f"{end - begin}s")
        elif carried is not None:
            layout.headers[carried] = layout.add(f"{end - begin}s")
        else:
            layout.form += f"{end - begin}x"
    layout.constants.append(layout.add(f"{len(frame) - compared}s"))
    return layout


class Shape:
    """The meaning of the frames of one shape."""

    __slots__ = (
        "_constants", "_get_constants", "_get_names", "_get_values", "_has_payload", "_headers", "_method", "_names", "_number",
        "_on_feed", "_resource", "_unpack",
    )  # fmt: skip

    def __init__(self, layout: _Layout, frame: bytes, head: RequestHead, request: Request) -> None:
        """`request`: what the frame was translated to."""
        self._unpack = Struct(layout.form).unpack
        self._get_constants = itemgetter(*layout.constants)
        self._constants = self._get_constants(self._unpack(frame))
        self._get_values = itemgetter(*layout.headers.values())
        self._names = tuple(layout.headers)
        self._on_feed = OPERATIONS[head.operation].on_feed
        places = PLACES[head.resource]
        self._get_names = itemgetter(*(layout.names[token] for _, token in places[: len(places) - self._on_feed]))
        self._number = layout.number
        own = {ACTIVITY_ID, *layout.headers}
        self._headers = {name: value for name, value in request.headers.items() if name not in own}
        self._method = request.method
        self._resource = head.resource
        self._has_payload = head.has_payload

    def translate(self, frame: bytes) -> Entry | None:
        """Translate a frame of this size as `to_http` does; None if its shape is another one."""
        fields = self._unpack(frame)
        if self._get_constants(fields) != self._constants:
            return None
        headers = self._headers.copy()
        headers.update(zip(self._names, self._get_values(fields), strict=True))
        activity = fields[0]
        headers[ACTIVITY_ID] = format_activity(activity)
        path = build_path(self._resource, self._on_feed, self._get_names(fields))
        addressee = Addressee(activity, fields[self._number], headers.get(REPLICA_PATH, b""))
        return Entry(addressee, Request(self._method, path, headers, b"", SCHEME), self._has_payload)


class KnownShapes:
    """The shapes that the clients of a process use."""

    def __init__(self) -> None:
        self._shapes: dict[bytes, tuple[Shape, ...]] = {}
        self._passed_over = 0

    def translate(self, frame: bytes) -> Entry | None:
        """Translate a frame of a known shape; None for any other."""
        key = frame[:KEY_BYTES]
        known = self._shapes.get(key)
        if known is None:
            return None
        entry = known[0].translate(frame)
        if entry is None and len(known) > 1:
            entry = known[1].translate(frame)
            if entry is not None:
                # The next frame probably has the same shape.
                self._shapes[key] = known[::-1]
        return entry

    def learn(self, frame: bytes, head: RequestHead, request: Request) -> None:
        """Keep the shape of a frame, if it is one of items, and of those that repeat."""
        if (
            head.resource != ids.DOCUMENT
            or len(frame) > MAX_FRAME
            or ids.DATABASE_NAME not in head.tokens
            or not _TRANSLATED_ALONE.isdisjoint(head.tokens)
        ):
            return
        key = frame[:KEY_BYTES]
        known = self._shapes.get(key, ())
        if len(known) > 1 or len(self._shapes) == MAX_SIZES:
            self._passed_over += 1
            if self._passed_over % PATIENCE:
                return
        layout = _lay_out(frame, head)
        if layout is None or len(layout.headers) < 2:
            return
        if not known and len(self._shapes) == MAX_SIZES:
            del self._shapes[next(iter(self._shapes))]
        self._shapes[key] = (Shape(layout, frame, head, request), *known[:1])
