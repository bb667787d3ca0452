"""Builds a front end's options from the settings. A setting and an option of the same name belong together."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)


def options_from(kind: type[T], settings: msgspec.Struct, **computed: Any) -> T:
    """Build options of this kind from the settings of the same names. `computed` wins. Other fields keep their defaults."""
    same = {name: getattr(settings, name) for name in kind.__struct_fields__ if name in settings.__struct_fields__}
    return kind(**(same | computed))
