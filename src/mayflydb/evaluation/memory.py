"""The resident memory of this process, and the return of free memory to the system."""

from __future__ import annotations

import ctypes
import os
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

_STATM = Path("/proc/self/statm")
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096

LARGE_BLOCK: Final = 256 * 1024

# Of malloc.h of glibc.
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3

_KEPT_AT_THE_END: Final = 16 << 20


def resident_bytes() -> int | None:
    """Return the resident memory of this process in bytes; None on systems without /proc."""
    try:
        return int(_STATM.read_bytes().split()[1]) * _PAGE
    except OSError:
        return None


def virtual_bytes() -> int | None:
    """Return the size of this process's address space in bytes; None on systems without /proc."""
    try:
        return int(_STATM.read_bytes().split()[0]) * _PAGE
    except OSError:
        return None


def give_back() -> None:
    """Return the allocator's free memory to the system, if the C library can. The interpreter lock is released meanwhile."""
    trim = _function("malloc_trim")
    if trim is not None:
        trim(0)


def keep_large_blocks_apart() -> None:
    """Let the allocator give each block of LARGE_BLOCK bytes or more back to the system as soon as it is free.

    By default glibc raises that bound to 32 MiB as such blocks are freed, and what is between large blocks keeps their place.
    Setting one bound ends the adjustment of both; the other, for the end of the heap, is set to where it would go.
    """
    configure = _function("mallopt")
    if configure is not None:
        configure(_M_MMAP_THRESHOLD, LARGE_BLOCK)
        configure(_M_TRIM_THRESHOLD, _KEPT_AT_THE_END)


@lru_cache(maxsize=2)
def _function(name: str) -> Any:
    try:
        return getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError):
        return None
