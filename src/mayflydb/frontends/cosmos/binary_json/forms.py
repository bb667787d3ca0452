"""Tables that the reader and the writer of binary JSON share."""

from __future__ import annotations

from typing import Final

PREAMBLE: Final = b"\x80"
"""The first byte of a body. No text in UTF-8 begins with it."""

# fmt: off
SYSTEM_STRINGS: Final = (
    "$s", "$t", "$v", "_attachments", "_etag", "_rid", "_self", "_ts", "attachments/", "coordinates", "geometry",
    "GeometryCollection", "id", "url", "Value", "label", "LineString", "link", "MultiLineString", "MultiPoint", "MultiPolygon",
    "name", "Name", "Type", "Point", "Polygon", "properties", "type", "value", "Feature", "FeatureCollection", "_id",
)
# fmt: on
"""The strings of the markers from 0x20 on."""
