"""The memory of this process: how much is resident, and giving free memory back."""

from __future__ import annotations

import ctypes
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

_STATM = Path("/proc/self/statm")
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def resident_bytes() -> int | None:
    """Return the resident memory of this process in bytes; None where the system does not tell (no /proc)."""
    try:
        return int(_STATM.read_bytes().split()[1]) * _PAGE
    except OSError:
        return None


def give_back() -> None:
    """Give memory that the allocator holds free back to the system, where the C library can. The interpreter lock is released."""
    trim = _trim()
    if trim is not None:
        trim(0)


@lru_cache(maxsize=1)
def _trim() -> Any:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None
