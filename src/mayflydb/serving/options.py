"""A front end's options from the settings: a setting that a front end has under the same name is handed over by that name."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)


def options_from(kind: type[T], settings: msgspec.Struct, **computed: Any) -> T:
    """Options of this kind: the settings of the same names, and `computed`, which wins. Other fields keep their defaults."""
    same = {name: getattr(settings, name) for name in kind.__struct_fields__ if name in settings.__struct_fields__}
    return kind(**(same | computed))
