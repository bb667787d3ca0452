"""Whether the suite talks to the cloud."""

from __future__ import annotations


class _IsLive:
    """A function to its callers; `test_config.py` also sets its attribute `_cache`."""

    _cache: bool | None = None

    def __call__(self) -> bool:
        return bool(self._cache)


is_live = _IsLive()
