"""Examination and repair of store files."""

from mayflydb.store.sqlite.doctor.examination import examine
from mayflydb.store.sqlite.doctor.repair import repair

__all__ = ["examine", "repair"]
