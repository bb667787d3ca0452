"""Why a value has no counterpart in a type. `$convert` may catch it."""

from __future__ import annotations

from typing import Final

from mayflydb.query.mongo.values import Value, type_name

NO_HANDLER: Final = "in $convert with no onError value"


class ConversionError(Exception):
    """A value has no counterpart in the target type; the message gives the reason."""


def unsupported_error(value: Value, to: str) -> ConversionError:
    """Return the error for a type that has no conversion to another one."""
    return ConversionError(f"Unsupported conversion from {type_name(value)} to {to} {NO_HANDLER}")
